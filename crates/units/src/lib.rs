//! Quantities as types: instants, civil time, byte counts, rates, seeds and allowances of events, the median of a sample, a
//! rank test for two samples, and values that are words.
//!
//! A quantity with a unit never crosses a crate boundary as a bare integer. This crate depends on no other of
//! the workspace and reads no clock (callers pass time in) and no global random numbers (callers pass a seed).

mod allowance;
mod bytes;
pub mod civil;
mod median;
mod number;
mod ranks;
mod rate;
mod seed;
mod time;
pub mod words;

pub use allowance::{Allowance, Bucket};
pub use bytes::{Bytes, ParseBytesError};
pub use median::median;
pub use number::significant;
pub use ranks::{Ranks, ranks};
pub use rate::{ParseRateError, Rate};
pub use seed::{Draw, Rng, Seed};
pub use time::{Duration, Instant, UnixTime};
pub use words::Word;

/// For [`words!`].
#[doc(hidden)]
pub use serde;
