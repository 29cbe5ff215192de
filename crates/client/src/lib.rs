//! The client side of HTTP without I/O: connections for users, robots and load generators.
//!
//! [`session`] is one connection and does not decide what to fetch. [`fetch`] fetches a page with its embedded
//! objects over as many connections as a [`plan`] allows; its driver is `runtime::dial` or anything else that
//! reports events to a crew. The result is a [`timeline`], from which [`explain`] derives where the time went.

pub mod alternatives;
pub mod cache;
pub mod decode;
mod encoding;
pub mod explain;
pub mod extra;
pub mod fetch;
pub mod http3;
pub mod jar;
pub mod multiplexed;
pub mod outbox;
pub mod plan;
pub mod probe;
pub mod session;
pub mod streamed;
pub mod streams;
pub mod timeline;
