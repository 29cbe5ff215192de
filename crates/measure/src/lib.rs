//! What a number is: instants, byte counts, rates and seeds as types.
//!
//! A quantity that has a unit never crosses a crate boundary as a bare integer. This crate is a
//! leaf: it knows no clock (callers pass time in) and no global randomness (callers pass a seed).

mod bytes;
mod number;
mod ranks;
mod rate;
mod seed;
mod time;

pub use bytes::{Bytes, ParseBytesError};
pub use number::significant;
pub use ranks::{Ranks, ranks};
pub use rate::{ParseRateError, Rate};
pub use seed::{Draw, Rng, Seed};
pub use time::{Duration, Instant, UnixTime};
