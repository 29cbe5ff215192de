//! The server's end of a connection: parses requests and says what may follow them (RFC 9112 section 9).
//!
//! Holds no bytes. After [`Step::Partial`] the caller offers the remaining input again, extended. The caller
//! writes the responses, reports where they begin and end, and learns whether the connection persists.
//!
//! ```text
//!   receive ─▶ Request ─▶ [ Body… ─▶ End ] ─▶ begin_response ─▶ end_response ─▶ receive …
//!                              ▲                     (any time after Request)
//!                              └─ continued, once a 100 was written
//! ```

use crate::body::{Decoder, Piece};
use crate::error::{Fault, Misuse};
use crate::framing::Framing;
use crate::head::{self, Expect, Read, Request};
use crate::limits::Limits;
use crate::scan::Scan;
use crate::slots::Slots;
use crate::state::{self, Side};
use crate::version::Version;
use http_semantics::field::Fields;

/// The server's end of one connection; 24 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    receiving: Side<Scan, Decoder>,
    sending: Side<(), ()>,
    version: Version,
    /// Whether another request may follow the current one.
    persistent: bool,
    /// Whether the client waits for a 100 before it sends its body.
    awaits_continue: bool,
    /// Whether an earlier request was read.
    served: bool,
}

/// The event at the front of the input.
#[derive(Clone, Copy, Debug)]
pub enum Step<'b, 's> {
    /// Drop `used` bytes; the rest needs more input. Offer it again together with the new bytes.
    Partial {
        /// Bytes consumed.
        used: usize,
    },
    /// A request. If its framing is not `Empty`, body steps follow.
    Request {
        /// The head.
        head: Request<'b, 's>,
        /// Bytes consumed.
        used: usize,
    },
    /// A piece of the body; never empty.
    Body {
        /// Content.
        data: &'b [u8],
        /// Bytes consumed, the content included.
        used: usize,
    },
    /// The body is complete. Follows only a request that announced a body.
    End {
        /// Bytes consumed.
        used: usize,
        /// The trailer section.
        trailers: Fields<'b, 's>,
    },
    /// The request is complete; nothing is read until the response is.
    Paused,
    /// No further request will be read: discard the input.
    Closed,
}

/// How a response announces whether the connection persists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// It persists, which is the default of HTTP/1.1.
    Implied,
    /// It persists, and an HTTP/1.0 client must be told.
    Announced,
    /// It closes after this response.
    Ends,
    /// It closes, and the response has no head to announce it (HTTP/0.9): write only the content.
    Headless,
}

impl Persistence {
    /// The complete `Connection` field line, possibly empty.
    #[inline]
    pub const fn line(self) -> &'static [u8] {
        match self {
            Persistence::Implied | Persistence::Headless => b"",
            Persistence::Announced => b"Connection: keep-alive\r\n",
            Persistence::Ends => b"Connection: close\r\n",
        }
    }

    /// Whether another request may follow.
    #[inline]
    pub const fn persists(self) -> bool {
        matches!(self, Persistence::Implied | Persistence::Announced)
    }
}

/// The next step after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Read the next request, which may already be in the input.
    Request,
    /// The rest of this request's body: continue with `receive` and discard the results. The next request
    /// follows [`Step::End`].
    Discard,
    /// None: shut down the sending half.
    Close,
}

impl Connection {
    /// A new connection.
    #[inline]
    pub const fn new() -> Connection {
        Connection {
            receiving: Side::Idle(Scan::FRESH),
            sending: Side::Idle(()),
            version: Version::Http11,
            persistent: true,
            awaits_continue: false,
            served: false,
        }
    }

    /// Parses the next event from the front of `input`: a complete head, or a piece of the body. Call again
    /// with the input after `used` bytes until the result is [`Step::Partial`], [`Step::Paused`] or
    /// [`Step::Closed`]. Call also with empty input: an `End` may be due.
    ///
    /// # Errors
    /// The client's fault. The connection may send one last response and reads nothing more.
    #[inline]
    pub fn receive<'b, 's>(
        &mut self,
        input: &'b [u8],
        slots: &'s mut Slots<'b>,
        limits: &Limits,
    ) -> Result<Step<'b, 's>, Fault> {
        match self.receiving {
            Side::Idle(scan) => match head::request(input, scan, slots, limits) {
                Ok(Read::Head(head, used)) => self.accept(head, used),
                Ok(Read::Partial(scan)) => {
                    self.receiving = Side::Idle(scan);
                    Ok(Step::Partial { used: 0 })
                }
                Err(fault) => Err(self.fail(fault)),
            },
            Side::Body(decoder) => self.body(decoder, input, slots, limits),
            Side::Done => Ok(Step::Paused),
            Side::Closed | Side::Failed => Ok(Step::Closed),
        }
    }

    /// Accepts the request at the front of the input without parsing it, and begins and ends its response. For callers
    /// that hold the exact bytes of a head this type has parsed before: valid, of this version (not 0.9), without body
    /// or expectation. `persistent`: whether the request and the caller want the connection to persist. `None`, and
    /// nothing is consumed, if another step is due first.
    #[inline]
    pub fn answer_again(&mut self, version: Version, persistent: bool) -> Option<Persistence> {
        if !self.is_idle() || self.sending != Side::Idle(()) {
            return None;
        }
        self.version = version;
        self.persistent = persistent;
        self.awaits_continue = false;
        self.served = true;
        if !persistent {
            self.close();
            return Some(Persistence::Ends);
        }
        Some(match version {
            Version::Http10 => Persistence::Announced,
            Version::Http11 | Version::Http09 => Persistence::Implied,
        })
    }

    #[inline]
    fn accept<'b, 's>(&mut self, head: Request<'b, 's>, used: usize) -> Result<Step<'b, 's>, Fault> {
        if head.version == Version::Http09 && self.served {
            // After an earlier request, this is more likely the rest of a misparsed message.
            return Err(self.fail(Fault::RequestLine));
        }
        self.receiving.go(match Decoder::new(head.framing) {
            None => state::Step::Bodiless,
            Some(decoder) => state::Step::Head(decoder),
        });
        self.version = head.version;
        self.persistent = head.persistent;
        self.awaits_continue = head.expect == Expect::Continue && head.framing != Framing::Empty;
        self.served = true;
        Ok(Step::Request { head, used })
    }

    fn body<'b, 's>(
        &mut self,
        mut decoder: Decoder,
        input: &'b [u8],
        slots: &'s mut Slots<'b>,
        limits: &Limits,
    ) -> Result<Step<'b, 's>, Fault> {
        match decoder.decode(input, slots, limits) {
            Ok(Piece::Partial { used }) => {
                self.receiving = Side::Body(decoder);
                Ok(Step::Partial { used })
            }
            Ok(Piece::Data { data, used }) => {
                self.receiving = Side::Body(decoder);
                // The body arrived, so the client no longer waits.
                self.awaits_continue = false;
                Ok(Step::Body { data, used })
            }
            Ok(Piece::End { used, trailers }) => {
                self.receiving.go(state::Step::End);
                self.awaits_continue = false;
                if self.sending == Side::Done {
                    self.receiving.go(state::Step::Next);
                    self.sending.go(state::Step::Next);
                }
                Ok(Step::End { used, trailers })
            }
            Err(fault) => Err(self.fail(fault)),
        }
    }

    #[cold]
    fn fail(&mut self, fault: Fault) -> Fault {
        self.receiving.go(state::Step::Fail);
        self.persistent = false;
        fault
    }

    /// Announced content of the current body still to come, in bytes, as far as known; in a chunked body, the
    /// rest of the current chunk. Known before the content arrives, so that a server can reject a large body
    /// without waiting for it.
    #[inline]
    pub fn announced(&self) -> u64 {
        match &self.receiving {
            Side::Body(decoder) => decoder.announced(),
            Side::Idle(_) | Side::Done | Side::Closed | Side::Failed => 0,
        }
    }

    /// Reports that the caller wrote a 100 response.
    pub fn continued(&mut self) {
        self.awaits_continue = false;
    }

    /// Begins a final response. `persist` is the caller's wish: false if the end of the connection delimits
    /// the content, or if the connection should close for any other reason.
    ///
    /// May be called without a request (408 when no head arrives), after a fault, and before the request's
    /// body is complete.
    ///
    /// # Errors
    /// [`Misuse::Order`] if a response has begun, or none can follow.
    #[inline]
    pub fn begin_response(&mut self, persist: bool) -> Result<Persistence, Misuse> {
        self.sending = self.sending.step(state::Step::Head(()))?;
        // A client that still waits for a 100 may or may not send its body after a final response. The server
        // cannot tell that body from a next request (RFC 9110 section 10.1.1).
        let answered = match self.receiving {
            Side::Done => true,
            Side::Body(_) => !self.awaits_continue,
            Side::Idle(_) | Side::Closed | Side::Failed => false,
        };
        self.persistent &= persist && answered;
        Ok(match self.version {
            Version::Http09 => Persistence::Headless,
            _ if !self.persistent => Persistence::Ends,
            Version::Http11 => Persistence::Implied,
            Version::Http10 => Persistence::Announced,
        })
    }

    /// Ends the response begun last: it is completely written.
    ///
    /// # Errors
    /// [`Misuse::Order`] if no response has begun.
    #[inline]
    pub fn end_response(&mut self) -> Result<After, Misuse> {
        self.sending = self.sending.step(state::Step::End)?;
        Ok(match self.receiving {
            Side::Done if self.persistent => {
                self.receiving.go(state::Step::Next);
                self.sending.go(state::Step::Next);
                After::Request
            }
            Side::Body(_) if self.persistent => After::Discard,
            Side::Idle(_) | Side::Body(_) | Side::Done | Side::Closed | Side::Failed => {
                self.close();
                After::Close
            }
        })
    }

    /// Accepts no further request: the current or next response announces the close.
    pub fn drain(&mut self) {
        self.persistent = false;
    }

    fn close(&mut self) {
        self.persistent = false;
        self.receiving.go(state::Step::Last);
        self.sending.go(state::Step::Last);
    }

    /// Reports that the client closed its sending half. An outstanding response may still be sent.
    ///
    /// # Errors
    /// [`Fault::Truncated`] if a request is incomplete.
    pub fn eof(&mut self) -> Result<(), Fault> {
        self.persistent = false;
        match self.receiving {
            Side::Idle(scan) if !scan.is_fresh() => Err(self.fail(Fault::Truncated)),
            Side::Body(_) => Err(self.fail(Fault::Truncated)),
            Side::Idle(_) | Side::Done => {
                self.receiving.go(state::Step::Last);
                Ok(())
            }
            Side::Closed | Side::Failed => Ok(()),
        }
    }

    /// Whether no part of a request was received and no response is outstanding.
    #[inline]
    pub fn is_idle(&self) -> bool {
        matches!(self.receiving, Side::Idle(scan) if scan.is_fresh())
    }

    /// Whether a request's body is incomplete.
    #[inline]
    pub fn is_reading_body(&self) -> bool {
        matches!(self.receiving, Side::Body(_))
    }

    /// Whether the client waits for a 100 before it sends its body.
    #[inline]
    pub fn awaits_continue(&self) -> bool {
        self.awaits_continue
    }
}

impl Default for Connection {
    fn default() -> Connection {
        Connection::new()
    }
}

/// Takes two bytes of options, then feeds the rest to a server with every way of splitting it.
///
/// # Panics
/// If splitting changes the result.
#[cfg(any(test, fuzzing))]
pub fn fuzz(data: &[u8]) {
    use crate::transcript::{Manner, Server};
    let [options, bounds, stream @ ..] = data else {
        return;
    };
    let manner = Manner {
        answers_early: options & 1 != 0,
        closes: options & 2 != 0,
        refuses_bodies: options & 4 != 0,
        shows_fields: true,
    };
    crate::cut::everywhere(stream, crate::cut::seed_of(data), |pieces, ends| {
        let mut server = Server::new(manner, crate::cut::limits_of(*bounds));
        pieces.iter().for_each(|piece| server.bytes(piece));
        if ends {
            server.eof();
        }
        server.events
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_semantics::field::MAX_LINES;
    use proptest::prelude::*;

    #[test]
    fn a_connection_is_small() {
        assert!(size_of::<Connection>() <= 24, "{}", size_of::<Connection>());
    }

    #[test]
    fn the_last_line_of_the_longest_head_is_found() {
        let limits = Limits {
            fields_max: u16::MAX,
            ..Limits::DEFAULT
        };
        for (more, expected) in [
            (MAX_LINES - 2, Ok(Framing::Length(3))),
            (MAX_LINES - 1, Err(Fault::TooManyFields)),
        ] {
            let lines = "A: b\r\n".repeat(more);
            let text = format!("POST / HTTP/1.1\r\nHost: h\r\n{lines}Content-Length: 3\r\n\r\n");
            for piece in [1, text.len()] {
                let mut connection = Connection::new();
                let outcome = (piece..=text.len()).step_by(piece).find_map(|end| {
                    let mut slots = Slots::new();
                    match connection.receive(&text.as_bytes()[..end], &mut slots, &limits) {
                        Ok(Step::Request { head, .. }) => Some(Ok(head.framing)),
                        Ok(_) => None,
                        Err(fault) => Some(Err(fault)),
                    }
                });
                assert_eq!(outcome, Some(expected), "{more} lines, pieces of {piece}");
            }
        }
    }

    #[test]
    fn a_response_may_come_without_a_request() {
        let mut connection = Connection::new();
        assert!(connection.is_idle());
        assert_eq!(connection.begin_response(true), Ok(Persistence::Ends));
        assert_eq!(connection.begin_response(true), Err(Misuse::Order));
        assert_eq!(connection.end_response(), Ok(After::Close));
        assert_eq!(connection.end_response(), Err(Misuse::Order));
        assert!(!connection.is_idle());
    }

    #[test]
    fn draining_ends_the_connection_with_the_response_under_way() {
        let mut connection = Connection::new();
        let mut slots = Slots::new();
        let request = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
        let step = connection.receive(request, &mut slots, &Limits::DEFAULT);
        assert!(matches!(step, Ok(Step::Request { .. })));
        connection.drain();
        assert_eq!(connection.begin_response(true), Ok(Persistence::Ends));
        assert_eq!(connection.end_response(), Ok(After::Close));
    }

    #[test]
    fn a_known_request_is_answered_in_one_step() {
        use Persistence::{Announced, Ends, Implied};
        for (version, persistent, want) in [
            (Version::Http11, true, Implied),
            (Version::Http10, true, Announced),
            (Version::Http11, false, Ends),
            (Version::Http10, false, Ends),
        ] {
            let mut connection = Connection::new();
            assert_eq!(connection.answer_again(version, persistent), Some(want));
            assert_eq!(connection.is_idle(), persistent);
            let mut slots = Slots::new();
            let next = connection.receive(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", &mut slots, &Limits::DEFAULT);
            match persistent {
                true => assert!(matches!(next, Ok(Step::Request { .. }))),
                false => assert!(matches!(next, Ok(Step::Closed))),
            }
            // The request just received is to be answered first, or the connection has ended.
            assert_eq!(connection.answer_again(version, true), None);
        }
        let mut connection = Connection::new();
        let mut slots = Slots::new();
        let part = connection.receive(b"GET / HT", &mut slots, &Limits::DEFAULT);
        assert!(matches!(part, Ok(Step::Partial { .. })));
        assert_eq!(connection.answer_again(Version::Http11, true), None);
    }

    #[test]
    fn a_client_that_closed_its_half_still_gets_its_response() {
        let mut connection = Connection::new();
        let mut slots = Slots::new();
        let request = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
        let step = connection.receive(request, &mut slots, &Limits::DEFAULT);
        assert!(matches!(step, Ok(Step::Request { .. })));
        assert_eq!(connection.eof(), Ok(()));
        assert_eq!(connection.begin_response(true), Ok(Persistence::Ends));
        assert_eq!(connection.end_response(), Ok(After::Close));
    }

    #[test]
    fn a_head_that_dribbles_in_is_scanned_once() {
        // With quadratic work, a head of this size would cost half a million times its length.
        let head = [
            &b"GET / HTTP/1.1\r\nHost: h\r\nA: "[..],
            &[b'a'; 1 << 20],
            b"\r\n\r\n",
        ]
        .concat();
        let limits = Limits {
            head_bytes_max: 2 << 20,
            ..Limits::DEFAULT
        };
        let mut connection = Connection::new();
        for end in 1..head.len() {
            let mut slots = Slots::new();
            let step = connection.receive(&head[..end], &mut slots, &limits);
            assert!(matches!(step, Ok(Step::Partial { used: 0 })));
        }
        let mut slots = Slots::new();
        let step = connection.receive(&head, &mut slots, &limits);
        assert!(matches!(step, Ok(Step::Request { used, .. }) if used == head.len()));
    }

    proptest! {
        #![proptest_config(crate::cut::cases(400))]
        #[test]
        fn any_stream_means_the_same_however_it_is_cut(data in crate::cut::http_like()) {
            fuzz(&data);
        }
    }
}
