//! ACME (RFC 8555) without I/O: a certificate for names that this machine can show are its own.
//!
//! ```text
//!   account ─▶ order ─▶ authorizations ─▶ challenges ─▶ finalize ─▶ chain
//!                          (each name)      present, tell the CA, wait
//! ```
//! - [`order`]: the whole way to a certificate
//! - [`world`]: what that needs from outside: requests, time, a place to answer challenges
//! - [`account`]: the key that signs requests (JWS, RFC 7515), and what the CA knows of it
//! - [`challenge`]: how a name is shown to be ours (RFC 8555 section 8, RFC 8737)
//! - [`renewal`]: when to renew (ARI, RFC 9773), and how long to wait after a failure
//! - [`error`]: what went wrong, whose fault it was and what to do
//!
//! Knows no socket, file or clock. A CA's answers may be anything: nothing here panics on them.

pub mod account;
pub mod challenge;
mod date;
mod dialogue;
pub mod error;
pub mod order;
pub mod renewal;
pub mod world;
