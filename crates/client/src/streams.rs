//! One HTTP/2 connection to a server: turns requests into frames and frames into responses (RFC 9113).
//!
//! Holds no socket and no clock. Windows are large, as in browsers, and are given back as content arrives: this client
//! keeps all of it. Knows neither the meaning of responses nor the purpose of requests.

use crate::session::{Head, Said};
use http_semantics::field::{Fields, Line, MAX_FIELDS};
use http_semantics::status::{Status, reason};
pub use http2::Code;
use http2::client::{Connection, Event};
pub use http2::priority::Priority;
use http2::{Limits, Misuse};
use measure::Instant;
use std::sync::Arc;

/// Most requests outstanding on a connection; servers usually permit 100 or more.
pub const STREAMS_MAX: usize = 100;

/// Bytes a server may send on a stream, and on the connection, before more is granted: those of Chromium.
const WINDOWS: [u32; 2] = [6 << 20, 15 << 20];

/// What came over a connection.
#[derive(Debug)]
pub enum Came<'a, 'b, 's> {
    /// A part of the response of this stream.
    Said(u32, Said<'a, 'b, 's>),
    /// The stream ended without a whole response.
    Reset(u32, Code),
}

/// One connection.
#[derive(Debug)]
pub struct Streams {
    http: Connection,
    /// Frames to send.
    out: Vec<u8>,
    /// The start of a frame.
    kept: Vec<u8>,
    /// The server leaves, or its connection failed.
    is_ending: bool,
}

impl Streams {
    /// A new connection; its preface is the first output.
    pub fn new(now: Instant) -> Streams {
        let [stream_window, connection_window] = WINDOWS;
        let limits = Limits {
            stream_window,
            connection_window,
            list_bytes_max: 256 << 10,
            block_bytes_max: 256 << 10,
            ..Limits::DEFAULT
        };
        let mut out = Vec::new();
        Streams {
            http: Connection::new(Arc::new(limits), now, &mut out),
            out,
            kept: Vec::new(),
            is_ending: false,
        }
    }

    /// Sends a request without content: its pseudo-fields first, names in lower case. Returns its stream.
    ///
    /// # Errors
    /// If the server permits no further request on this connection now.
    pub fn ask<'f>(
        &mut self,
        fields: impl IntoIterator<Item = (&'f str, &'f str)>,
        is_head: bool,
        priority: Priority,
    ) -> Result<u32, Misuse> {
        let fields = fields
            .into_iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        self.http
            .request_with(&[], fields, true, is_head, priority, &mut self.out)
    }

    /// Whether another request may be sent.
    pub fn has_room(&self) -> bool {
        !self.is_ending && self.http.streams() < STREAMS_MAX && self.http.has_room()
    }

    /// Whether the connection takes further requests, now or later.
    pub fn is_persistent(&self) -> bool {
        !self.is_ending
    }

    /// Gives a request up (RFC 9113 section 8.7): nothing more of it is reported.
    pub fn cancel(&mut self, stream: u32) {
        self.http.reset(stream, Code::CANCEL, &mut self.out);
    }

    /// Whether there are frames to send.
    pub fn has_output(&self) -> bool {
        !self.out.is_empty()
    }

    /// Appends the frames to send, which are then sent, to `to`.
    pub fn write_output(&mut self, to: &mut Vec<u8>) {
        to.append(&mut self.out);
    }

    /// The frames to send, which are then sent.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Parses received bytes and passes what came to `hear`.
    ///
    /// # Errors
    /// The fault of the server; the connection is of no further use, but its output should be sent.
    pub fn listen(
        &mut self,
        bytes: &[u8],
        now: Instant,
        mut hear: impl FnMut(Came<'_, '_, '_>),
    ) -> Result<(), String> {
        let mut input = std::mem::take(&mut self.kept);
        input.extend_from_slice(bytes);
        let mut at = 0;
        loop {
            let received = self.http.receive(&input[at..], now, &mut self.out);
            let used = received.used;
            at += used;
            match received.event {
                Event::Partial => break,
                // Interim responses mean nothing to a request without content.
                Event::Response { status: 100..200, .. } => {}
                Event::Response {
                    stream,
                    end,
                    status,
                    fields,
                } => {
                    let mut lines = [Line { name: "", value: b"" }; MAX_FIELDS];
                    let regular = fields.iter().filter(|(name, _)| !name.starts_with(b":"));
                    let mut count = 0;
                    for (slot, (name, value)) in lines.iter_mut().zip(regular) {
                        let Ok(name) = core::str::from_utf8(name) else {
                            continue;
                        };
                        *slot = Line { name, value };
                        count += 1;
                    }
                    let head = Head {
                        status,
                        reason: Status::from_u16(status).map_or("", reason),
                        fields: Fields::new(&lines[..count]),
                    };
                    hear(Came::Said(stream, Said::Head(&head, used)));
                    if end {
                        hear(Came::Said(stream, Said::End(0)));
                    }
                }
                Event::Body { stream, bytes } => {
                    let count = bytes.len() as u32;
                    hear(Came::Said(stream, Said::Body(bytes, used)));
                    self.http.consumed(stream, count, &mut self.out);
                }
                Event::Trailers { stream, .. } | Event::End { stream } => {
                    hear(Came::Said(stream, Said::End(used)));
                }
                Event::Reset { stream, code } => hear(Came::Reset(stream, code)),
                Event::GoAway { .. } => self.is_ending = true,
                Event::Closed(fault) => {
                    self.is_ending = true;
                    return Err(fault.to_string());
                }
                Event::Request { .. } | Event::Oversized { .. } => {
                    debug_assert!(false, "a client gets no requests");
                }
            }
        }
        input.drain(..at);
        self.kept = input;
        Ok(())
    }
}
