//! How connections are spread over threads.
//!
//! Every strategy drives sessions with the same [`worker::Worker`]; they differ in how many there are,
//! how many connections each may hold, and which back end moves its bytes. Refuses to know what the
//! sessions speak.

pub(crate) mod eldest;
pub(crate) mod front;
pub(crate) mod offload;
pub(crate) mod one_context;
pub(crate) mod roll;
pub(crate) mod supervise;
pub(crate) mod together;
pub(crate) mod worker;

#[cfg(test)]
mod tests;
