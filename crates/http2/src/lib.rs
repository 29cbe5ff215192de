//! HTTP/2 without I/O: bytes in, events out, for both roles (RFC 9113), with priorities (RFC 9218).
//!
//! No function here reads, waits or asks for the time. Output goes to a `Vec<u8>` of the caller. Bodies are never
//! copied: the connection writes the header of a DATA frame and says how many bytes of which stream follow it.
//!
//! ```
//! use http2::priority::Priority;
//! use http2::server::Event;
//! use http2::{client, hpack::block, server};
//! use units::Instant;
//!
//! let now = Instant::ZERO;
//! let (mut up, mut down) = (Vec::new(), Vec::new());
//! let mut client = client::Connection::new(Default::default(), now, &mut up);
//! let mut server = server::Connection::new(Default::default(), now, &mut down);
//! let mut request = Vec::new();
//! for (name, value) in [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")] {
//!     block::field(name.as_bytes(), value.as_bytes(), &mut request);
//! }
//! client.request(&request, true, false, Priority::DEFAULT, &mut up)?;
//!
//! let (mut input, body) = (&up[..], b"hello");
//! loop {
//!     let received = server.receive(input, now, &mut down);
//!     input = &input[received.used..];
//!     match received.event {
//!         Event::Partial => break,
//!         Event::Request { stream, control, .. } => {
//!             assert_eq!(control.path, Some(&b"/"[..]));
//!             let mut head = Vec::new();
//!             block::status(200, &mut head);
//!             server.respond(stream, &head, false, &mut down)?;
//!             server.ready(stream, body.len() as u64)?;
//!             server.finish(stream)?;
//!         }
//!         other => unreachable!("{other:?}"),
//!     }
//! }
//! while let Some(piece) = server.next(16_384, now, &mut down) {
//!     down.extend_from_slice(&body[..piece.bytes]);
//! }
//! assert!(down.ends_with(body));
//! # Ok::<(), http2::Misuse>(())
//! ```

pub mod client;
pub mod connection;
#[cfg(any(test, fuzzing))]
pub mod cuts;
mod engine;
pub mod error;
mod flood;
pub mod frame;
pub mod hpack;
pub mod limits;
pub mod server;

pub use http_semantics::{message, priority};

pub use error::{Code, Fault, Misuse};
pub use limits::Limits;
