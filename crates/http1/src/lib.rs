//! HTTP/1.x without I/O: bytes in, events out, for both roles (RFC 9112). `http-semantics` has the semantics
//! (RFC 9110).
//!
//! No function here reads, waits or asks for the time. Messages are views of the caller's bytes; a server
//! connection keeps 24 bytes of state, a client connection 32. The parser is strict wherever leniency would
//! be a security hole, and its results do not depend on how the input is split.
//!
//! ```
//! use http1::server::{After, Connection, Step};
//! use http1::slots::Slots;
//! use http1::{Limits, response};
//! use http_semantics::field::Name;
//! use http_semantics::status::Status;
//!
//! let mut connection = Connection::new();
//! let mut input = &b"GET /index.html HTTP/1.1\r\nHost: example.org\r\n\r\n"[..];
//! let mut output = Vec::new();
//! loop {
//!     let mut slots = Slots::new();
//!     match connection.receive(input, &mut slots, &Limits::DEFAULT)? {
//!         Step::Partial { used } => {
//!             // Keep `input[used..]`; offer it again together with the next bytes.
//!             input = &input[used..];
//!             break;
//!         }
//!         Step::Request { head, used } => {
//!             assert_eq!(head.target.path(), Some(&b"/index.html"[..]));
//!             assert_eq!(head.fields.get(Name::Host), Some(&b"example.org"[..]));
//!             input = &input[used..];
//!         }
//!         Step::Body { used, .. } | Step::End { used, .. } => input = &input[used..],
//!         Step::Paused => {
//!             let persistence = connection.begin_response(true)?;
//!             response::status_line(&mut output, Status::OK);
//!             output.extend_from_slice(persistence.line());
//!             response::content_length(&mut output, 0);
//!             response::end(&mut output);
//!             assert_eq!(connection.end_response(), Ok(After::Request));
//!         }
//!         Step::Closed => break,
//!     }
//! }
//! assert_eq!(output, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod body;
pub mod client;
pub mod error;
pub mod framing;
pub mod head;
pub mod limits;
pub mod request;
pub mod response;
mod scan;
pub mod server;
pub mod slots;
mod state;
pub mod version;

#[cfg(test)]
mod conformance;
#[cfg(any(test, fuzzing))]
mod cut;
#[cfg(test)]
mod differential;
#[cfg(any(test, fuzzing))]
mod transcript;
#[cfg(any(test, fuzzing))]
pub mod vectors;

pub use error::{Fault, Misuse};
pub use limits::Limits;
