//! The only crate with system calls, threads, clocks and `unsafe`.
//!
//! A protocol is a [`Session`]: a state machine without socket, thread or clock. This crate owns those and drives
//! sessions. A *strategy* (how connections map to threads or processes, and which I/O back end moves bytes) is
//! therefore only a driver: small, replaceable and measurable on its own. `runtime` knows no HTTP.

pub mod ability;
pub mod alarms;
pub mod background;
pub mod bell;
mod buffer;
pub mod carrier;
pub mod clock;
pub mod complaints;
mod concurrency;
pub mod control;
pub mod cpu_hog;
pub mod cwnd;
pub mod datagram;
pub mod diagnostics;
pub mod dial;
pub mod environment;
pub mod fs;
mod io;
pub mod ledger;
pub mod listen;
pub mod local;
pub mod lock_calls;
pub mod log_socket;
pub mod logfile;
pub mod logins;
pub mod machine;
mod manner;
pub mod memory;
pub mod names;
pub mod peer;
pub mod process;
mod quic_info;
mod roll;
pub mod rounds;
pub mod seccomp;
pub mod sensors;
pub mod session;
pub mod shaping;
pub mod shared;
pub mod signal;
pub mod sim;
mod slot;
pub mod strategy;
pub mod streams;
pub mod sys;
mod tcp_info;
mod timer;
#[cfg(test)]
mod toy;

pub use concurrency::eldest::Eldest;
pub use session::{
    Accepted, Action, Ask, Body, Context, Dialing, Event, FileRange, Job, Line, NoJob, Parcel, Parking, Path,
    PeerEvent, PeerLoss, Service, Session, Ticket, Tx, Unsecured, Unshared, Upstream,
};
