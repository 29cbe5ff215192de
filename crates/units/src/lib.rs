//! Quantities as types: instants, byte counts, rates and seeds, and a rank test for two samples.
//!
//! A quantity with a unit never crosses a crate boundary as a bare integer. This crate depends on no other of
//! the workspace and reads no clock (callers pass time in) and no global random numbers (callers pass a seed).

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
