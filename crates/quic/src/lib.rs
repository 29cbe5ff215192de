//! QUIC (RFC 9000, 9001, 9002) over the contracts of `runtime`: an endpoint that takes datagrams in and carries the
//! sessions of a protocol whose bytes come in streams. The transport itself is `quinn-proto`, which has no I/O either.
//!
//! ```text
//!   runtime::datagram ── datagrams ──▶ Endpoint ── quinn-proto ── events ──▶ runtime::streams::Session (HTTP/3)
//!                     ◀── outbox ────                         ◀── Transport ──
//! ```
//! - [`endpoint`]: connections of one worker: who is accepted, when each is served, what is sent
//! - [`dialing`]: the client's end: the connections of a crew
//! - [`tape`]: the datagrams that pass an end, for a log of its packets
//! - [`limits`]: a bound on everything that a peer can make grow, as the library's configuration
//! - [`identifiers`]: connection IDs that name their worker
//! - [`hostile`]: for tests: a client whose frames and transport parameters are the caller's
//! - `connection`: one connection and its session
//! - `handshake`: TLS of a connection, and what it agreed on
//! - `civil_time`: the time by which tokens age
//! - `recovery_log`: what the library tells of loss recovery while a connection is recorded
//! - `resets`: how many stateless resets are sent
//! - `carrier`: the streams of one connection, as its session sees them

mod carrier;
mod civil_time;
mod connection;
pub mod dialing;
pub mod endpoint;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod handshake;
pub mod hostile;
pub mod identifiers;
pub mod limits;
mod recovery_log;
mod resets;
pub mod tape;
mod unread;

pub use endpoint::Endpoint;
pub use limits::Limits;
