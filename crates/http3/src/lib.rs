//! HTTP/3 without I/O: bytes of QUIC streams in, events and bytes for streams out, for both roles (RFC 9114), with QPACK
//! (RFC 9204) and priorities (RFC 9218).
//!
//! No function here reads, waits or asks for the time, and none knows QUIC beyond the identifiers of streams. Bodies are
//! never copied: the connection says how many bytes of which body follow a frame header.
//!
//! ```
//! use http3::priority::Priority;
//! use http3::server::{Event, Output};
//! use http3::{client, qpack::block, server};
//! use units::Instant;
//!
//! let now = Instant::ZERO;
//! let mut client = client::Connection::new(Default::default());
//! let mut server = server::Connection::new(Default::default());
//! let mut request = Vec::new();
//! block::begin(&mut request);
//! for (name, value) in [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")] {
//!     block::field(name.as_bytes(), value.as_bytes(), &mut request);
//! }
//! client.request(0, &request, true, false, Priority::DEFAULT)?;
//!
//! // The client's control stream, then the request. QUIC would carry these bytes.
//! while let Some(Output::Write(piece)) = client.poll() {
//!     let (stream, bytes, end) = (piece.stream, piece.frames.to_vec(), piece.end);
//!     client.sent(stream, bytes.len() as u64);
//!     server.open(stream, now)?;
//!     let mut input = &bytes[..];
//!     loop {
//!         let received = server.receive(stream, input, end, now);
//!         input = &input[received.used..];
//!         match received.event {
//!             Event::Partial => break,
//!             Event::Request { stream, control, .. } => {
//!                 assert_eq!(control.path, Some(&b"/"[..]));
//!                 let mut head = Vec::new();
//!                 block::begin(&mut head);
//!                 block::status(200, &mut head);
//!                 server.respond(stream, &head, false)?;
//!                 server.ready(stream, 5)?;
//!                 server.finish(stream)?;
//!             }
//!             other => unreachable!("{other:?}"),
//!         }
//!     }
//! }
//! let Some(Output::Write(control)) = server.poll() else { unreachable!() };
//! let (stream, bytes) = (control.stream, control.frames.len());
//! server.sent(stream, bytes as u64);
//! let Some(Output::Write(response)) = server.poll() else { unreachable!() };
//! assert_eq!((response.stream, response.body, response.end), (0, 5, true));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod client;
pub mod connection;
#[cfg(any(test, fuzzing))]
pub mod cuts;
mod engine;
pub mod error;
mod flood;
pub mod frame;
pub mod limits;
pub mod qpack;
pub mod server;
pub mod varint;

pub use http_semantics::{message, priority};

pub use error::{Code, Fault, Misuse};
pub use limits::Limits;
