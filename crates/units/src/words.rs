//! Values that are written as one word: in flags, configuration files, profiles, records and logs. Each is one enum, and
//! [`words!`](crate::words!) gives it all of that, so that a new value is one line.

/// A type whose values are words.
pub trait Word: Copy + 'static {
    /// Every value, in the order of the declaration.
    const ALL: &'static [Self];

    /// The word of each, in the same order.
    const WORDS: &'static [&'static str];

    /// The word of this value.
    fn word(self) -> &'static str;
}

/// What is wrong with a word that is none of the valid ones, which the text lists.
pub fn unknown(word: &str, valid: &[&str]) -> String {
    let listed: Vec<String> = valid.iter().map(|valid| format!("`{valid}`")).collect();
    let listed = listed.join(", ");
    match nearest(word, valid) {
        Some(nearest) => format!("unknown value `{word}`; valid are {listed}; did you mean `{nearest}`?"),
        None => format!("unknown value `{word}`; valid are {listed}"),
    }
}

/// The most similar of the valid words, if one is similar enough.
pub fn nearest<'a>(word: &str, valid: &[&'a str]) -> Option<&'a str> {
    let scored = valid
        .iter()
        .map(|valid| (strsim::jaro_winkler(word, valid), *valid));
    let (score, best) = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (score > 0.7).then_some(best)
}

/// Declares an enum whose values are words, with [`Word`], `Display`, `FromStr`, `Serialize` and `Deserialize`. The error
/// of `FromStr` is the text of [`words::unknown`](unknown).
///
/// ```
/// use units::Word as _;
///
/// units::words! {
///     /// Who may read.
///     #[derive(Default)]
///     pub enum Readers {
///         /// None.
///         #[default]
///         Nobody = "nobody",
///         /// All.
///         All = "all",
///     }
/// }
/// assert_eq!("all".parse(), Ok(Readers::All));
/// assert_eq!(Readers::Nobody.to_string(), "nobody");
/// assert_eq!(Readers::WORDS, ["nobody", "all"]);
/// ```
#[macro_export]
macro_rules! words {
    ($(#[$of_type:meta])* $visibility:vis enum $name:ident { $($(#[$of_value:meta])* $value:ident = $word:literal),+ $(,)? }) => {
        $(#[$of_type])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $visibility enum $name { $($(#[$of_value])* $value),+ }

        impl $crate::Word for $name {
            const ALL: &'static [$name] = &[$($name::$value),+];
            const WORDS: &'static [&'static str] = &[$($word),+];

            fn word(self) -> &'static str {
                match self { $($name::$value => $word),+ }
            }
        }

        impl ::core::fmt::Display for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.pad($crate::Word::word(*self))
            }
        }

        impl ::core::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<$name, String> {
                match text {
                    $($word => Ok($name::$value),)+
                    _ => Err($crate::words::unknown(text, <$name as $crate::Word>::WORDS)),
                }
            }
        }

        impl $crate::serde::Serialize for $name {
            fn serialize<S: $crate::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str($crate::Word::word(*self))
            }
        }

        impl<'de> $crate::serde::Deserialize<'de> for $name {
            fn deserialize<D: $crate::serde::Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                $crate::words::deserialize(deserializer)
            }
        }
    };
}

/// Reads a value from a text; for [`words!`](crate::words!).
///
/// # Errors
/// It is no text, or none of the words.
pub fn deserialize<'de, T: Word, D: serde::Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct OneOf<T>(core::marker::PhantomData<T>);
    impl<T: Word> serde::de::Visitor<'_> for OneOf<T> {
        type Value = T;

        fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            f.write_str("a word")
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
            let found = T::ALL.iter().copied().find(|value| value.word() == text);
            found.ok_or_else(|| E::unknown_variant(text, T::WORDS))
        }
    }
    deserializer.deserialize_str(OneOf(core::marker::PhantomData))
}

#[cfg(test)]
mod tests {
    use crate::Word as _;

    crate::words! {
        /// For the tests.
        enum Order {
            /// First come, first served.
            FirstCome = "first-come",
            /// The smallest first.
            Smallest = "smallest",
        }
    }

    #[test]
    fn a_word_is_read_as_it_is_written() {
        for &order in Order::ALL {
            assert_eq!(order.word().parse(), Ok(order));
            let json = serde_json::to_string(&order).expect("JSON");
            assert_eq!(json, format!("\"{order}\""));
            assert_eq!(serde_json::from_str::<Order>(&json).expect("a word"), order);
        }
        assert_eq!(format!("{:>10}", Order::Smallest), "  smallest");
    }

    #[test]
    fn another_word_is_refused_with_the_valid_ones() {
        let why = "smalest".parse::<Order>().expect_err("no such word");
        assert_eq!(
            why,
            "unknown value `smalest`; valid are `first-come`, `smallest`; did you mean `smallest`?"
        );
        let why = "x".parse::<Order>().expect_err("no such word");
        assert_eq!(why, "unknown value `x`; valid are `first-come`, `smallest`");
        for json in ["\"x\"", "1"] {
            let refusal = serde_json::from_str::<Order>(json).expect_err("no such word");
            assert!(
                refusal.to_string().contains("a word") || refusal.to_string().contains("`smallest`"),
                "{refusal}"
            );
        }
    }
}
