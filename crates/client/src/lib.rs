//! The client's side of HTTP without I/O: what a user, a robot or a load generator holds of a connection.
//!
//! [`session`] is one connection and decides nothing about what is fetched. [`fetch`] is one level above: a
//! page with what it embeds, over as many connections as a [`plan`] allows; its driver is `runtime::dial`, or
//! anything else that tells a crew what happens. What it leaves is a [`timeline`], which [`explain`] reads.

pub mod cache;
pub mod decode;
mod encoding;
pub mod explain;
pub mod extra;
pub mod fetch;
pub mod outbox;
pub mod plan;
pub mod session;
pub mod timeline;
