//! The client's end of a connection: matches responses to requests and says what may follow.
//!
//! Holds no bytes. Requests may be pipelined up to a limit. The connection remembers one fact about each
//! outstanding request, the one that decides how its response is delimited: whether its method was HEAD.
//!
//! ```text
//!   begin_request ─▶ (write head, body) ─▶ end_request        as often as the limit allows
//!   receive ─▶ [ Interim… ] ─▶ Response ─▶ [ Body… ─▶ End ]   once per request, in order
//! ```

use crate::body::{Decoder, Piece};
use crate::error::{Fault, Misuse};
use crate::framing::Framing;
use crate::head::{self, Read, Response};
use crate::limits::Limits;
use crate::scan::Scan;
use crate::slots::Slots;
use crate::state::{self, Side};
use http_semantics::field::Fields;
use http_semantics::method::Method;

/// Hard limit on outstanding requests per connection, whatever [`Limits`] says: the state keeps one bit each.
const OUTSTANDING_MAX: u8 = 64;

/// The client's end of one connection; 32 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    receiving: Side<Scan, Decoder>,
    /// One bit per outstanding request, the oldest in the lowest bit: whether its method was HEAD.
    heads: u64,
    sending: Side<(), ()>,
    outstanding: u8,
    interim: u8,
    /// Whether another request may be sent.
    persistent: bool,
    /// Whether the current response is the last.
    closing: bool,
    /// Whether the server may switch to another protocol.
    may_switch: bool,
}

/// A response head parsed earlier. Equal bytes have equal meaning, so a client that requests one resource
/// repeatedly parses its head only once.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    bytes: Vec<u8>,
    /// Status, framing, and whether the server wants the connection to persist.
    meaning: Option<(u16, Framing, bool)>,
}

impl Memory {
    /// Stores the head with these bytes and replaces the previous one. Heads without a body are not stored:
    /// the missing body may be due to the request method (HEAD), which the bytes do not show.
    #[inline]
    pub fn keep(&mut self, bytes: &[u8], head: &Response<'_, '_>) {
        if head.framing == Framing::Empty {
            return;
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.meaning = Some((head.status, head.framing, head.persistent));
    }
}

/// The event at the front of the input.
#[derive(Clone, Copy, Debug)]
pub enum Step<'b, 's> {
    /// Drop `used` bytes; the rest needs more input. Offer it again together with the new bytes.
    Partial {
        /// Bytes consumed.
        used: usize,
    },
    /// An interim (1xx) response; the final one follows. Only after 101, for which the caller has to be ready
    /// ([`Connection::await_switch`]), nothing follows: the rest of the input is not HTTP.
    Interim {
        /// The head.
        head: Response<'b, 's>,
        /// Bytes consumed.
        used: usize,
    },
    /// A final response. If its framing is not `Empty`, body steps follow.
    Response {
        /// The head.
        head: Response<'b, 's>,
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
    /// The body is complete. Follows only a response that announced a body.
    End {
        /// Bytes consumed.
        used: usize,
        /// The trailer section.
        trailers: Fields<'b, 's>,
    },
    /// No further response will be read.
    Closed,
}

/// State of the exchange when the server closed the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Between messages, with no response outstanding.
    Idle,
    /// This many requests were never answered. A client may retry them on another connection if their methods
    /// are idempotent (RFC 9112 section 9.3.1).
    Unanswered(u8),
    /// The connection's end delimited the current body, which is now complete; this many later requests were
    /// never answered.
    Body(u8),
}

impl Connection {
    /// A new connection.
    #[inline]
    pub const fn new() -> Connection {
        Connection {
            receiving: Side::Idle(Scan::FRESH),
            heads: 0,
            sending: Side::Idle(()),
            outstanding: 0,
            interim: 0,
            persistent: true,
            closing: false,
            may_switch: false,
        }
    }

    /// Begins a request. `persist` is false if the request carries `Connection: close`, so that no other may
    /// follow it.
    ///
    /// # Errors
    /// [`Misuse::Full`] at the limit on outstanding requests. [`Misuse::Order`] while another request is
    /// being written, after the last one, and for CONNECT, which would end HTTP on this connection.
    #[inline]
    pub fn begin_request(&mut self, method: Method, persist: bool, limits: &Limits) -> Result<(), Misuse> {
        if self.outstanding >= limits.outstanding_max.min(OUTSTANDING_MAX) {
            return Err(Misuse::Full);
        }
        if !self.persistent || method == Method::Connect {
            return Err(Misuse::Order);
        }
        self.sending = self.sending.step(state::Step::Head(()))?;
        self.heads |= u64::from(method == Method::Head) << self.outstanding;
        self.outstanding += 1;
        self.persistent = persist;
        Ok(())
    }

    /// Ends the request begun last: it is completely written.
    ///
    /// # Errors
    /// [`Misuse::Order`] if no request is being written.
    #[inline]
    pub fn end_request(&mut self) -> Result<(), Misuse> {
        self.sending = self.sending.step(state::Step::End)?;
        self.sending.go(if self.persistent {
            state::Step::Next
        } else {
            state::Step::Last
        });
        Ok(())
    }

    /// The request begun last has `Upgrade`: 101 (Switching Protocols) is no fault from now on.
    pub fn await_switch(&mut self) {
        self.may_switch = true;
    }

    /// Parses the next event from the front of `input`. Call again with the input after `used` bytes until
    /// the result is [`Step::Partial`] or [`Step::Closed`]. Call also with empty input: an `End` may be due.
    ///
    /// # Errors
    /// The server's fault; the connection reads nothing more.
    #[inline]
    pub fn receive<'b, 's>(
        &mut self,
        input: &'b [u8],
        slots: &'s mut Slots<'b>,
        limits: &Limits,
    ) -> Result<Step<'b, 's>, Fault> {
        match self.receiving {
            Side::Idle(_) if self.outstanding == 0 && input.is_empty() => Ok(Step::Partial { used: 0 }),
            Side::Idle(_) if self.outstanding == 0 => Err(self.fail(Fault::Unsolicited)),
            Side::Idle(scan) => match head::response(input, scan, self.answered_method(), slots, limits) {
                Ok(Read::Head(head, used)) if head.status < 200 => self.pass_interim(head, used, limits),
                Ok(Read::Head(head, used)) => Ok(self.accept(head, used)),
                Ok(Read::Partial(scan)) => {
                    self.receiving = Side::Idle(scan);
                    Ok(Step::Partial { used: 0 })
                }
                Err(fault) => Err(self.fail(fault)),
            },
            Side::Body(decoder) => self.body(decoder, input, slots, limits),
            Side::Done | Side::Closed | Side::Failed => Ok(Step::Closed),
        }
    }

    /// Shortcut for [`Connection::receive`] when the input starts with exactly the bytes of the head in
    /// `memory`, stored under equal limits. Returns its status and the bytes consumed; body steps follow.
    /// `None`: nothing was consumed; call `receive`.
    #[inline]
    pub fn recall(&mut self, input: &[u8], memory: &Memory) -> Option<(u16, usize)> {
        let (status, framing, persistent) = memory.meaning?;
        let begins = matches!(self.receiving, Side::Idle(scan) if scan.is_fresh());
        let owed = self.outstanding > 0 && self.answered_method() != Method::Head;
        if !begins || !owed || !input.starts_with(&memory.bytes) {
            return None;
        }
        self.begin_response(framing, persistent);
        Some((status, memory.bytes.len()))
    }

    /// The method of the oldest outstanding request, as far as its response depends on it.
    #[inline]
    fn answered_method(&self) -> Method {
        if self.heads & 1 == 1 {
            Method::Head
        } else {
            Method::Get
        }
    }

    fn pass_interim<'b, 's>(
        &mut self,
        head: Response<'b, 's>,
        used: usize,
        limits: &Limits,
    ) -> Result<Step<'b, 's>, Fault> {
        if head.status == 101 && self.may_switch && self.outstanding == 1 {
            self.persistent = false;
            self.receiving.go(state::Step::Last);
            return Ok(Step::Interim { head, used });
        }
        if head.status == 101 {
            return Err(self.fail(Fault::Upgraded));
        }
        if self.interim >= limits.interim_max {
            return Err(self.fail(Fault::TooManyInterim));
        }
        self.interim += 1;
        self.receiving.go(state::Step::Interim);
        Ok(Step::Interim { head, used })
    }

    #[inline]
    fn accept<'b, 's>(&mut self, head: Response<'b, 's>, used: usize) -> Step<'b, 's> {
        self.begin_response(head.framing, head.persistent);
        Step::Response { head, used }
    }

    #[inline]
    fn begin_response(&mut self, framing: Framing, persistent: bool) {
        self.persistent &= persistent;
        self.heads >>= 1;
        self.outstanding -= 1;
        self.interim = 0;
        // The server announced that it closes, so this connection will not answer the other outstanding
        // requests.
        self.closing = !persistent;
        match Decoder::new(framing) {
            None => {
                self.receiving.go(state::Step::Bodiless);
                self.complete();
            }
            Some(decoder) => self.receiving.go(state::Step::Head(decoder)),
        }
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
                Ok(Step::Body { data, used })
            }
            Ok(Piece::End { used, trailers }) => {
                self.receiving.go(state::Step::End);
                self.complete();
                Ok(Step::End { used, trailers })
            }
            Err(fault) => Err(self.fail(fault)),
        }
    }

    /// Number of content bytes that come next without framing: the rest of a body of known length (RFC 9112
    /// section 6.3). A caller that does not need them can skip them and report that with
    /// [`Connection::pass`].
    #[inline]
    pub fn content_ahead(&self) -> u64 {
        match self.receiving {
            Side::Body(decoder) => decoder.ahead(),
            Side::Idle(_) | Side::Done | Side::Closed | Side::Failed => 0,
        }
    }

    /// Reports that this many bytes of the content ahead arrived and were skipped. If they end the body, call
    /// [`Connection::receive`] with empty input to get the `End`.
    ///
    /// # Errors
    /// [`Misuse::Order`] if fewer bytes are ahead; nothing changes then.
    #[inline]
    pub fn pass(&mut self, bytes: u64) -> Result<(), Misuse> {
        let taken = match &mut self.receiving {
            Side::Body(decoder) => decoder.pass(bytes),
            Side::Idle(_) | Side::Done | Side::Closed | Side::Failed => false,
        };
        if taken { Ok(()) } else { Err(Misuse::Order) }
    }

    /// Completes a response; another one may follow if the connection persists.
    #[inline]
    fn complete(&mut self) {
        let answered_all = self.outstanding == 0 && !self.persistent;
        self.receiving.go(if self.closing || answered_all {
            state::Step::Last
        } else {
            state::Step::Next
        });
    }

    /// Reports that the server closed its sending half.
    ///
    /// # Errors
    /// [`Fault::Truncated`] if a response is incomplete; the caller must not treat it as complete (RFC 9112
    /// section 8).
    pub fn eof(&mut self) -> Result<Ended, Fault> {
        self.persistent = false;
        let ended = match self.receiving {
            Side::Idle(scan) if !scan.is_fresh() => return Err(self.fail(Fault::Truncated)),
            Side::Body(decoder) if !decoder.may_end() => return Err(self.fail(Fault::Truncated)),
            Side::Body(_) => Ended::Body(self.outstanding),
            Side::Idle(_) | Side::Done | Side::Closed | Side::Failed if self.outstanding > 0 => {
                Ended::Unanswered(self.outstanding)
            }
            Side::Idle(_) | Side::Done | Side::Closed | Side::Failed => Ended::Idle,
        };
        self.receiving.go(state::Step::Last);
        Ok(ended)
    }

    #[cold]
    fn fail(&mut self, fault: Fault) -> Fault {
        self.receiving.go(state::Step::Fail);
        self.persistent = false;
        fault
    }

    /// Number of requests whose final response has not begun.
    #[inline]
    pub fn outstanding(&self) -> u8 {
        self.outstanding
    }

    /// Whether another request may be sent, now or after the current one is written.
    #[inline]
    pub fn is_persistent(&self) -> bool {
        self.persistent
    }

    /// Whether every response is complete and another request may be sent, so that a pool may keep the
    /// connection.
    #[inline]
    pub fn is_reusable(&self) -> bool {
        self.persistent
            && self.outstanding == 0
            && matches!(self.sending, Side::Idle(()))
            && matches!(self.receiving, Side::Idle(scan) if scan.is_fresh())
    }
}

impl Default for Connection {
    fn default() -> Connection {
        Connection::new()
    }
}

/// Takes two bytes of options, then feeds the rest to a client with every way of splitting it.
///
/// # Panics
/// If splitting changes the result.
#[cfg(any(test, fuzzing))]
pub fn fuzz(data: &[u8]) {
    use crate::transcript::Client;
    let [options, bounds, stream @ ..] = data else {
        return;
    };
    let methods: Vec<Method> = (0..options & 3)
        .map(|position| match options >> (position + 2) & 1 {
            0 => Method::Get,
            _ => Method::Head,
        })
        .collect();
    let last = options & 0x80 != 0;
    crate::cut::everywhere(stream, crate::cut::seed_of(data), |pieces, ends| {
        let mut client = Client::new(&methods, last, true, crate::cut::limits_of(*bounds));
        pieces.iter().for_each(|piece| client.bytes(piece));
        if ends {
            client.eof();
        }
        client.events
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_connection_is_small() {
        assert!(size_of::<Connection>() <= 32, "{}", size_of::<Connection>());
    }

    /// Skipping content has the effect of reading it: whatever part is skipped, the other events are
    /// unchanged.
    #[test]
    fn content_may_be_passed_over() {
        let (limits, head) = (Limits::DEFAULT, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
        for read in 0..=5_usize {
            let mut connection = Connection::new();
            for _ in 0..2 {
                assert_eq!(connection.begin_request(Method::Get, true, &limits), Ok(()));
                assert_eq!(connection.end_request(), Ok(()));
            }
            assert_eq!(connection.content_ahead(), 0, "before the head");
            let input = [head, &"hello"[..read]].concat();
            let mut rest = input.as_bytes();
            loop {
                let mut slots = Slots::new();
                rest = match connection.receive(rest, &mut slots, &limits) {
                    Ok(Step::Response { used, .. } | Step::Body { used, .. }) => &rest[used..],
                    Ok(Step::Partial { used: 0 }) | Ok(Step::End { used: 0, .. }) => break,
                    other => panic!("{other:?}"),
                };
            }
            let ahead = 5 - read as u64;
            assert_eq!(connection.content_ahead(), ahead);
            assert_eq!(connection.pass(ahead + 1), Err(Misuse::Order));
            if ahead > 0 {
                assert_eq!(connection.pass(ahead), Ok(()));
                let mut slots = Slots::new();
                let end = connection.receive(b"", &mut slots, &limits);
                assert!(matches!(end, Ok(Step::End { used: 0, .. })), "{end:?}");
            }
            let mut slots = Slots::new();
            let next = connection.receive(b"HTTP/1.1 304 Not Modified\r\n\r\n", &mut slots, &limits);
            assert!(matches!(next, Ok(Step::Response { .. })), "{next:?}");
            assert_eq!(connection.pass(0), Err(Misuse::Order), "between replies");
        }
    }

    /// Only a body of known length has content ahead: chunks have framing, and a body without a length may
    /// end anywhere.
    #[test]
    fn only_content_of_known_length_is_ahead() {
        for framing in ["Transfer-Encoding: chunked\r\n\r\n5\r\nhe", "\r\nhe"] {
            let mut connection = Connection::new();
            assert_eq!(
                connection.begin_request(Method::Get, true, &Limits::DEFAULT),
                Ok(())
            );
            assert_eq!(connection.end_request(), Ok(()));
            let input = format!("HTTP/1.1 200 OK\r\n{framing}");
            let mut rest = input.as_bytes();
            while !rest.is_empty() {
                let mut slots = Slots::new();
                rest = match connection.receive(rest, &mut slots, &Limits::DEFAULT) {
                    Ok(Step::Response { used, .. } | Step::Body { used, .. } | Step::Partial { used }) => {
                        &rest[used..]
                    }
                    other => panic!("{other:?}"),
                };
            }
            assert_eq!(connection.content_ahead(), 0);
            assert_eq!(connection.pass(1), Err(Misuse::Order));
        }
    }

    #[test]
    fn outstanding_requests_are_bounded() {
        let limits = Limits {
            outstanding_max: 2,
            ..Limits::DEFAULT
        };
        let mut connection = Connection::new();
        for _ in 0..2 {
            assert_eq!(connection.begin_request(Method::Get, true, &limits), Ok(()));
            assert_eq!(
                connection.begin_request(Method::Get, true, &Limits::DEFAULT),
                Err(Misuse::Order)
            );
            assert_eq!(connection.end_request(), Ok(()));
        }
        assert_eq!(
            connection.begin_request(Method::Get, true, &limits),
            Err(Misuse::Full)
        );
        let more = Limits {
            outstanding_max: u8::MAX,
            ..Limits::DEFAULT
        };
        for _ in 2..64 {
            assert_eq!(connection.begin_request(Method::Get, true, &more), Ok(()));
            assert_eq!(connection.end_request(), Ok(()));
        }
        assert_eq!(
            connection.begin_request(Method::Get, true, &more),
            Err(Misuse::Full)
        );
        assert_eq!(connection.outstanding(), 64);
    }

    #[test]
    fn no_tunnel_and_no_request_after_the_last() {
        let mut connection = Connection::new();
        assert_eq!(
            connection.begin_request(Method::Connect, true, &Limits::DEFAULT),
            Err(Misuse::Order)
        );
        assert_eq!(
            connection.begin_request(Method::Get, false, &Limits::DEFAULT),
            Ok(())
        );
        assert_eq!(connection.end_request(), Ok(()));
        assert_eq!(
            connection.begin_request(Method::Get, true, &Limits::DEFAULT),
            Err(Misuse::Order)
        );
        assert!(!connection.is_reusable());
    }

    /// Only a client that asked for it gets 101, and nothing behind it is read.
    #[test]
    fn a_switch_ends_http() {
        let input = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\n";
        for awaits in [false, true] {
            let mut connection = Connection::new();
            assert_eq!(
                connection.begin_request(Method::Get, true, &Limits::DEFAULT),
                Ok(())
            );
            assert_eq!(connection.end_request(), Ok(()));
            if awaits {
                connection.await_switch();
            }
            let mut slots = Slots::new();
            let used = match connection.receive(input, &mut slots, &Limits::DEFAULT) {
                Ok(Step::Interim { head, used }) if awaits => {
                    assert_eq!(head.status, 101);
                    used
                }
                Err(Fault::Upgraded) if !awaits => continue,
                other => panic!("{other:?}"),
            };
            let mut slots = Slots::new();
            let rest = connection.receive(&input[used..], &mut slots, &Limits::DEFAULT);
            assert!(matches!(rest, Ok(Step::Closed)), "{rest:?}");
            assert!(!connection.is_reusable());
        }
    }

    #[test]
    fn reusable_once_everything_is_answered() {
        let mut connection = Connection::new();
        assert!(connection.is_reusable());
        assert_eq!(
            connection.begin_request(Method::Get, true, &Limits::DEFAULT),
            Ok(())
        );
        assert!(!connection.is_reusable());
        assert_eq!(connection.end_request(), Ok(()));
        let mut slots = Slots::new();
        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        let step = connection.receive(response, &mut slots, &Limits::DEFAULT);
        assert!(matches!(step, Ok(Step::Response { .. })));
        assert!(connection.is_reusable());
    }

    proptest! {
        #![proptest_config(crate::cut::cases(400))]
        #[test]
        fn any_stream_means_the_same_however_it_is_cut(data in crate::cut::http_like()) {
            fuzz(&data);
        }
    }
}
