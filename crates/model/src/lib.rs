//! Analytical models of HTTP transactions over TCP and of the queues behind them.
//!
//! Pure functions: no I/O, no clock, no global randomness. Each formula cites its equation; quantities
//! with units are types; a parameter outside a formula's domain is a [`DomainError`], never NaN; and an
//! answer is an [`Explained`] value that shows its formulas with the numbers in them, the bounds that
//! bracket it and the region in which it holds.

pub mod bootstrap;
pub mod closed;
pub mod dimension;
pub mod distribute;
pub mod domain;
pub mod explain;
pub mod fit;
pub mod flow;
mod integrate;
pub mod page;
pub mod paper;
pub mod queue;
mod seconds;
pub mod sizes;
pub mod srpt;
pub mod tcp;
pub mod timeline;
pub mod transaction;
pub mod upstreams;
pub mod waiting;

pub use domain::DomainError;
pub use explain::{Bound, Explained, Quantity, Region, Step};
pub use seconds::Seconds;
pub use sizes::Sizes;
