//! Flags whose values are words: clap offers the words for completion, and the type's `FromStr` words its own errors.

use clap::builder::{PossibleValue, TypedValueParser};
use core::error::Error;
use core::str::FromStr;
use std::ffi::OsStr;
use units::Word;

/// A clap value parser that uses `FromStr` and offers the words of these values for completion.
#[derive(Clone, Debug)]
pub(crate) struct Offered<T>(Vec<T>);

/// Creates the parser for `T` with all its words.
pub(crate) fn offered<T: Word>() -> Offered<T> {
    offered_if(|_| true)
}

/// Creates the parser for `T` with the words of some values. The others are parsed too: what refuses them says why.
pub(crate) fn offered_if<T: Word>(is_offered: impl Fn(T) -> bool) -> Offered<T> {
    Offered(
        T::ALL
            .iter()
            .copied()
            .filter(|&value| is_offered(value))
            .collect(),
    )
}

impl<T> TypedValueParser for Offered<T>
where
    T: Word + FromStr<Err: Into<Box<dyn Error + Send + Sync>>> + Send + Sync,
{
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        flag: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        let read: fn(&str) -> Result<T, T::Err> = str::parse;
        read.parse_ref(command, flag, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(
            self.0.iter().map(|value| PossibleValue::new(value.word())),
        ))
    }
}
