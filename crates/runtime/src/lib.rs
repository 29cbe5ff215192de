//! The only home of system calls, threads, clocks and `unsafe`.
//!
//! A protocol is a [`Session`]: it holds no socket, no thread, no clock. This crate owns those and
//! drives sessions, so that a *strategy* (how connections are spread over threads, how bytes are
//! moved) is only a driver: small, swappable, measurable. `runtime` knows no HTTP.

pub mod clock;
pub mod concurrency;
pub mod fs;
pub mod io;
pub mod session;
mod sys;

pub use session::{Action, Body, Context, Event, FileRange, Job, Service, Session, Tx};
