//! The client's side of HTTP without I/O: what a user, a robot or a load generator holds of a connection.
//!
//! Decides nothing about what is fetched, when, or over how many connections.

pub mod session;
