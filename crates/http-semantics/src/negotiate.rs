//! Content coding negotiation (RFC 9110 section 12.5.3): chooses the available coding the client prefers.
//!
//! Decides by weight, then by the server's order. It does not know what encoding costs.

use crate::coding::Coding;
use crate::field::members;

/// A weight in thousandths, 0 to 1,000; 0 is "not acceptable" (RFC 9110 section 12.4.2).
pub type Weight = u16;

/// Number of codings, identity included.
const CODINGS: usize = 5;

/// The client's weights for the codings Weir knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preferences {
    weights: [Weight; CODINGS],
}

impl Preferences {
    /// Used when the field is absent: identity only. RFC 9110 would allow any coding, but a client that lists
    /// none can seldom decode one.
    pub const IDENTITY_ONLY: Preferences = {
        let mut weights = [0; CODINGS];
        weights[Coding::Identity as usize] = 1_000;
        Preferences { weights }
    };

    /// Parses the values of all `Accept-Encoding` lines. Malformed members are ignored; if a coding is
    /// repeated, its first weight counts.
    pub fn parse<'v>(values: impl IntoIterator<Item = &'v [u8]>) -> Preferences {
        let mut named = [None; CODINGS];
        let mut any = None;
        for member in values.into_iter().flat_map(members) {
            let Some((name, weight)) = weighted(member) else {
                continue;
            };
            let slot = if name == b"*" {
                &mut any
            } else if let Some(coding) = Coding::of(name) {
                &mut named[coding as usize]
            } else {
                continue;
            };
            slot.get_or_insert(weight);
        }
        let mut weights = named.map(|weight| weight.or(any).unwrap_or(0));
        // Unmentioned, identity is acceptable with the lowest preference.
        if named[Coding::Identity as usize].or(any).is_none() {
            weights[Coding::Identity as usize] = 1;
        }
        Preferences { weights }
    }

    /// The weight of a coding; 0 if it is not acceptable.
    pub fn weight(&self, coding: Coding) -> Weight {
        self.weights[coding as usize]
    }

    /// Chooses among `available`, which is in the server's order of preference: the highest weight wins, then
    /// the first. `None` if none is acceptable.
    pub fn choose(&self, available: impl IntoIterator<Item = Coding>) -> Option<Coding> {
        let mut best = None;
        for coding in available {
            let weight = self.weight(coding);
            if weight > best.map_or(0, |(_, weight)| weight) {
                best = Some((coding, weight));
            }
        }
        best.map(|(coding, _)| coding)
    }
}

/// `token [ OWS ";" OWS "q=" qvalue ]`.
fn weighted(member: &[u8]) -> Option<(&[u8], Weight)> {
    let Some(semicolon) = memchr::memchr(b';', member) else {
        return Some((member, 1_000));
    };
    let name = crate::field::trim(&member[..semicolon]);
    let parameter = crate::field::trim(&member[semicolon + 1..]);
    let (key, value) = parameter.split_at_checked(2)?;
    (!name.is_empty() && key.eq_ignore_ascii_case(b"q="))
        .then(|| qvalue(value))
        .flatten()
        .map(|weight| (name, weight))
}

/// `"0" [ "." 0*3DIGIT ]` or `"1" [ "." 0*3"0" ]`.
fn qvalue(text: &[u8]) -> Option<Weight> {
    let (&whole, rest) = text.split_first()?;
    let fraction = match rest {
        [] => rest,
        [b'.', fraction @ ..] if fraction.len() <= 3 => fraction,
        _ => return None,
    };
    let mut thousandths = 0;
    for place in 0..3 {
        let digit = fraction.get(place).copied().unwrap_or(b'0');
        if !digit.is_ascii_digit() {
            return None;
        }
        thousandths = thousandths * 10 + Weight::from(digit - b'0');
    }
    match (whole, thousandths) {
        (b'0', _) => Some(thousandths),
        (b'1', 0) => Some(1_000),
        _ => None,
    }
}

/// Parses a field value of several lines and checks the choice among all subsets of codings.
///
/// # Panics
/// If a choice is not acceptable or a better one was available.
#[cfg(any(test, fuzzing))]
pub fn fuzz(data: &[u8]) {
    const ORDER: [Coding; CODINGS] = [
        Coding::Brotli,
        Coding::Zstd,
        Coding::Gzip,
        Coding::Deflate,
        Coding::Identity,
    ];
    let preferences = Preferences::parse(data.split(|&b| b == b'\n'));
    for subset in 0..1 << CODINGS {
        let available = ORDER
            .into_iter()
            .enumerate()
            .filter(|(position, _)| subset >> position & 1 == 1)
            .map(|(_, coding)| coding);
        let best = available.clone().map(|coding| preferences.weight(coding)).max();
        let choice = preferences.choose(available);
        assert_eq!(
            choice.map_or(0, |coding| preferences.weight(coding)),
            best.unwrap_or(0)
        );
        assert!(ORDER.iter().all(|&coding| preferences.weight(coding) <= 1_000));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(crate::seeded::cases(1_000))]
        #[test]
        fn weights_are_read_as_written(thousandths in 0..=1_000_u16) {
            let value = format!("gzip;q={}.{:03}", thousandths / 1_000, thousandths % 1_000);
            let preferences = Preferences::parse([value.as_bytes()]);
            prop_assert_eq!(preferences.weight(Coding::Gzip), thousandths);
        }

        #[test]
        fn any_value_is_chosen_from_soundly(
            value in "((gzip|br|zstd|identity|x-gzip|\\*|[a-z]{1,4})(;q=(0|1|0\\.[0-9]{0,4}|.))?[, \n]{1,2}){0,8}|.{0,40}",
        ) {
            fuzz(value.as_bytes());
        }
    }
}
