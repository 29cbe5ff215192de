//! How connections are distributed over threads.
//!
//! Every strategy drives sessions with the same [`worker::Worker`]. Strategies differ in the number of workers, the
//! connections each may hold, and the I/O back end. The protocol of the sessions is not known here.

pub(crate) mod blocking_pool;
pub(crate) mod dispatcher;
pub(crate) mod eldest;
pub(crate) mod one_context;
pub(crate) mod peers;
pub(crate) mod shared_state;
pub(crate) mod supervise;
pub(crate) mod worker;

#[cfg(test)]
mod tests;
