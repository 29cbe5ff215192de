//! One connection that carries many requests at once, over HTTP/2 or HTTP/3.
//!
//! Hides how each writes to its transport: HTTP/2 into one stream of bytes, HTTP/3 into many streams.

use crate::http3::{Command, Http3};
use crate::streamed::Came;
use crate::streams::Streams;
use http_semantics::priority::Priority;
use runtime::dial::Port;
use runtime::streams::Input;
use std::sync::Arc;
use units::Instant;

/// What a driver reports of a connection.
#[derive(Clone, Copy, Debug)]
pub enum Arrived<'a> {
    /// Bytes of its only stream.
    Bytes(&'a [u8]),
    /// Bytes of one of its streams, and what follows them.
    OfStream(u64, &'a [u8], Input),
    /// The server wants no more of a request (STOP_SENDING), with an application error code.
    Stopped(u64, u64),
}

impl Arrived<'_> {
    /// The number of bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Arrived::Bytes(bytes) | Arrived::OfStream(_, bytes, _) => bytes.len() as u64,
            Arrived::Stopped(..) => 0,
        }
    }
}

/// One connection.
#[derive(Debug)]
pub enum Multiplexed {
    /// HTTP/2.
    Http2(Streams),
    /// HTTP/3.
    Http3(Http3),
}

impl Multiplexed {
    /// Sends a request without content: its pseudo-fields first, names in lower case. Returns its stream; `None` if the
    /// server permits no further request on this connection now.
    pub fn ask<'f>(
        &mut self,
        fields: impl IntoIterator<Item = (&'f str, &'f str)>,
        is_head: bool,
        priority: Priority,
    ) -> Option<u32> {
        match self {
            Multiplexed::Http2(http) => http.ask(fields, is_head, priority).ok(),
            Multiplexed::Http3(http) => http.ask(fields, is_head, priority).ok(),
        }
    }

    /// Sends a request with content, as [`Multiplexed::ask`] sends one without. The fields have `content-length`.
    pub fn ask_with<'f>(
        &mut self,
        fields: impl IntoIterator<Item = (&'f str, &'f str)>,
        is_head: bool,
        priority: Priority,
        content: Arc<[u8]>,
        now: Instant,
    ) -> Option<u32> {
        match self {
            Multiplexed::Http2(http) => http.ask_with(fields, is_head, priority, content, now).ok(),
            Multiplexed::Http3(http) => http.ask_with(fields, is_head, priority, content).ok(),
        }
    }

    /// Whether another request may be sent.
    pub fn has_room(&self) -> bool {
        match self {
            Multiplexed::Http2(http) => http.has_room(),
            Multiplexed::Http3(http) => http.has_room(),
        }
    }

    /// Whether the connection takes further requests, now or later.
    pub fn is_persistent(&self) -> bool {
        match self {
            Multiplexed::Http2(http) => http.is_persistent(),
            Multiplexed::Http3(http) => http.is_persistent(),
        }
    }

    /// Gives a request up: nothing more of it is reported.
    pub fn cancel(&mut self, stream: u32) {
        match self {
            Multiplexed::Http2(http) => http.cancel(stream),
            Multiplexed::Http3(http) => http.cancel(stream),
        }
    }

    /// If the server has used up what it was granted on this stream, or on the connection: when more was granted, which it
    /// learns half a round trip later. Not known for HTTP/3, whose transport grants.
    pub fn dry(&self, stream: u32) -> Option<Instant> {
        match self {
            Multiplexed::Http2(http) => http.dry(stream),
            Multiplexed::Http3(_) => None,
        }
    }

    /// Whether there may be something to send.
    pub fn has_output(&self) -> bool {
        match self {
            Multiplexed::Http2(http) => http.has_output(),
            // Only asking its protocol tells.
            Multiplexed::Http3(_) => true,
        }
    }

    /// Passes what is to be sent to the driver. Returns its bytes.
    pub fn send(&mut self, line: u32, port: &mut Port) -> u64 {
        let mut sent = 0;
        match self {
            Multiplexed::Http2(http) if http.has_output() => {
                port.send(line, |out| {
                    let before = out.len();
                    http.write_output(out);
                    sent = (out.len() - before) as u64;
                });
            }
            Multiplexed::Http2(_) => {}
            Multiplexed::Http3(http) => http.commands(|command| match command {
                Command::Write(stream, pieces, end) => {
                    sent += pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
                    port.write(line, stream, end, |out| {
                        pieces.iter().for_each(|piece| out.extend_from_slice(piece));
                    });
                }
                Command::Abandon(stream, code) => port.abandon(line, stream, code),
                Command::Blame(code) => port.blame(line, code),
            }),
        }
        sent
    }

    /// Parses what arrived and passes what came to `hear`.
    ///
    /// # Errors
    /// The fault of the server; the connection is of no further use, but its output should be sent.
    pub fn listen(
        &mut self,
        arrived: Arrived<'_>,
        now: Instant,
        hear: impl FnMut(Came<'_, '_, '_>),
    ) -> Result<(), String> {
        match (self, arrived) {
            (Multiplexed::Http2(http), Arrived::Bytes(bytes)) => http.listen(bytes, now, hear),
            (Multiplexed::Http3(http), Arrived::OfStream(stream, bytes, follows)) => {
                http.listen(stream, bytes, follows, now, hear)
            }
            (Multiplexed::Http3(http), Arrived::Stopped(stream, code)) => {
                http.stopped(stream, code, now, hear)
            }
            (Multiplexed::Http2(_), _) | (Multiplexed::Http3(_), Arrived::Bytes(_)) => {
                debug_assert!(false, "the driver carries another version of HTTP");
                Ok(())
            }
        }
    }
}
