//! The response on its way to the client: bytes of the upstream become a head, content and trailers.
//!
//! ```text
//!   received ── without TLS and frames ──▶ decoded ─▶ ToClient: heads, and `down`: content
//! ```
//! Decides when a response is complete, and what an end of the connection within it means.

use super::stored::length;
use super::{Failed, Forward, Link, Outgoing, Response};
use crate::field_rules::RuledLines;
use crate::proxy::cache::Written;
use crate::proxy::channel::Received;
use crate::proxy::head::{binds_connection, write_content, write_last_chunk};
use crate::proxy::http2::Over;
use crate::request_id::RequestId;
use http_semantics::field::{Fields, Line, MAX_FIELDS};
use http_semantics::request::Protocol;
use http1::Misuse;
use http1::client::{Ended, Step};
use http1::head::Response as Head;
use http1::slots::Slots;
use http1::version::Version;
use runtime::complaints;
use tls::refusal;
use units::Instant;

/// Limits on responses. Heads may be larger than those of requests: cookies and policies are long. HTTP/2 and FastCGI need no
/// line for the framing, which the layers of their connections add.
pub(in crate::proxy) const LIMITS: http1::Limits = http1::Limits {
    head_bytes_max: 64 << 10,
    fields_max: MAX_FIELDS as u16 + 1,
    ..http1::Limits::DEFAULT
};

/// Room for the lines that this server adds to the head of a response, in bytes.
const ADDED: usize = 256;

/// How the head of a response goes to the client, in the client's version of HTTP. Content follows as
/// [`Forward::down`] in the framing that [`ToClient::begin`] returns.
pub(crate) trait ToClient {
    /// Passes an interim response on, if the client takes any. Returns the bytes of its head. `received`: the version in which
    /// the upstream sent it.
    fn interim(&mut self, down: &mut Vec<u8>, head: &Head<'_, '_>, received: Protocol) -> u32;

    /// Passes the head on with which both connections switch to another protocol. Returns its bytes.
    ///
    /// # Errors
    /// [`Misuse`] if the client cannot switch, or not to this protocol.
    fn switch(&mut self, down: &mut Vec<u8>, head: &Head<'_, '_>) -> Result<u32, Misuse>;

    /// Prepares the client's connection for this response. The client may still be sending its request.
    ///
    /// # Errors
    /// [`Misuse`] if the client cannot get this response.
    fn begin(&mut self, head: &Head<'_, '_>, has_whole_request: bool) -> Result<Outgoing, Misuse>;

    /// Passes the head of a response on that was begun. Returns its bytes.
    ///
    /// # Errors
    /// [`Misuse`] if the head cannot be written without changing its meaning.
    fn head(
        &mut self,
        down: &mut Vec<u8>,
        head: &Head<'_, '_>,
        is_to_head: bool,
        outgoing: Outgoing,
        ruled: &RuledLines,
        received: Protocol,
    ) -> Result<u32, Misuse>;

    /// The head that was passed on, if another client's equal request may get it, too. `down`: its bytes, where those go to
    /// the client as text.
    fn repeatable<'a>(&'a self, _down: &'a [u8]) -> Option<Written<'a>> {
        None
    }

    /// Takes the trailer section, unless the framing of the content has a place for it.
    fn trailers(&mut self, trailers: &Fields<'_, '_>, ruled: &RuledLines);
}

impl Forward {
    /// Whether the head of the response was passed on.
    pub(crate) fn has_begun(&self) -> bool {
        self.response != Response::Awaited
    }

    /// Whether the response was passed on whole.
    pub(crate) fn has_ended(&self) -> bool {
        self.response == Response::Ended
    }

    /// Bytes came from the upstream. Returns its failure if another one is tried because of that. If the handshake of its TLS
    /// is complete now, [`Forward::opened`] says so.
    pub(crate) fn received(
        &mut self,
        bytes: &[u8],
        client: &mut impl ToClient,
        now: Instant,
    ) -> Option<Failed> {
        if self.has_reply() {
            self.reply(client, now);
            return None;
        }
        self.is_reading = false;
        let Some(mut channel) = self.channel.take() else {
            self.decoded(bytes, client, now);
            return None;
        };
        let received = match self.place().layers() {
            Some(layers) => layers.receive(&mut channel, bytes, now),
            None => Ok(Received::default()),
        };
        // A slow upstream may send one record for longer than `idle-timeout`. Its content is known once it is whole.
        self.has_moved |= channel.has_part_of_record();
        self.channel = Some(channel);
        let Received { plain, over } = match received {
            Ok(received) => received,
            Err(why) => {
                self.tls_fault = Some(why.into());
                return self.failed_securing();
            }
        };
        self.log_errors(over.is_some());
        self.has_opened |= self.opened(now);
        if !plain.is_empty() {
            self.decoded(&plain, client, now);
        }
        // Nothing follows. The connection may stay open for long.
        match over.filter(|_| matches!(self.link, Link::Securing | Link::Open)) {
            Some(Over::Unprocessed) => self.refused(now),
            Some(Over::Given) => self.ended_by_upstream(now),
            Some(Over::Malformed(fault)) => {
                self.fail(Failed::Malformed(fault));
                None
            }
            Some(Over::NoLength) => {
                self.fail(Failed::NoLength);
                None
            }
            None => None,
        }
    }

    /// Logs what an application of FastCGI wrote to its error stream, once its request is over.
    pub(super) fn log_errors(&mut self, is_over: bool) {
        if let Some(text) = self
            .channel
            .as_mut()
            .and_then(|channel| channel.take_errors(is_over))
            && let Some(scripted) = &self.scripted
        {
            let id = self.id.as_ref().map(RequestId::value);
            let shown = self.shown();
            complaints::about(id, || {
                complaints::warn(scripted.path(), || {
                    format!("{shown} wrote to its error stream: {text}")
                });
            });
        }
    }

    /// Bytes came from the upstream, without TLS.
    pub(super) fn decoded(&mut self, bytes: &[u8], client: &mut impl ToClient, now: Instant) {
        self.again = None;
        self.has_heard = true;
        self.has_moved = true;
        if self.is_switched() {
            return self.pass_down(bytes);
        }
        let mut held = std::mem::take(&mut self.raw);
        let raw = match held.is_empty() {
            true => bytes,
            false => {
                held.extend_from_slice(bytes);
                &held
            }
        };
        let mut used = 0;
        while self.failed.is_none() && self.response != Response::Ended {
            let mut slots = Slots::new();
            let start = self.down.len();
            match self.upstream.receive(&raw[used..], &mut slots, &LIMITS) {
                Ok(Step::Interim { head, used: more }) if head.status == 101 => {
                    let rest = &raw[used + more..];
                    used = raw.len();
                    self.switch(&head, rest, client, now);
                    break;
                }
                Ok(Step::Interim { head, used: more }) => {
                    used += more;
                    // This server answers expectations itself.
                    if head.status != 100 {
                        let received = self.received_in(head.version);
                        self.head_bytes += client.interim(&mut self.down, &head, received);
                    }
                }
                Ok(Step::Response { head, used: more }) => {
                    used += more;
                    self.answered(now);
                    self.keeps &= head.version == Version::Http11
                        && !binds_connection(&head.fields, "www-authenticate");
                    self.took = Some(now - self.began);
                    self.upstream_status = head.status;
                    let received = self.received_in(head.version);
                    if let Some(cached) = &mut self.cached
                        && cached.answered(head.status, received, &head.fields, length(head.framing), now)
                    {
                        self.reply(client, now);
                        break;
                    }
                    let status = self.cached.as_ref().map(|cached| cached.status());
                    let mut lines: Vec<Line<'_>> = Vec::new();
                    let head = match &status {
                        Some(value) => {
                            lines.extend(head.fields.iter().map(|(name, value)| Line { name, value }));
                            lines.push(Line {
                                name: "Cache-Status",
                                value,
                            });
                            Head {
                                fields: Fields::new(&lines),
                                ..head
                            }
                        }
                        None => head,
                    };
                    // One allocation for all that arrived, and the lines that this server adds.
                    self.down.reserve(more + (raw.len() - used) + ADDED);
                    let Ok(outgoing) = client.begin(&head, self.has_whole_request) else {
                        return self.fail(Failed::Unwritable);
                    };
                    self.status = head.status;
                    self.response = match outgoing {
                        Outgoing::Empty => Response::Ended,
                        outgoing => Response::Begun(outgoing),
                    };
                    if self.response == Response::Ended {
                        self.stored_whole();
                    }
                    let (down, ruled) = (&mut self.down, &self.ruled);
                    match client.head(down, &head, self.is_to_head, outgoing, ruled, received) {
                        Ok(bytes) => self.head_bytes += bytes,
                        Err(_) => {
                            self.down.truncate(start);
                            self.fail(Failed::Unwritable);
                        }
                    }
                }
                Ok(Step::Body { data, used: more }) => {
                    used += more;
                    if let Some(cached) = &mut self.cached {
                        cached.take(data);
                    }
                    write_content(
                        &mut self.down,
                        data,
                        self.response == Response::Begun(Outgoing::Chunked),
                    );
                    self.body_bytes += (self.down.len() - start) as u64;
                }
                Ok(Step::End { used: more, trailers }) => {
                    used += more;
                    client.trailers(&trailers, &self.ruled);
                    self.end(&trailers);
                }
                Ok(Step::Partial { used: more }) => {
                    used += more;
                    break;
                }
                Ok(Step::Closed) => break,
                Err(fault) => self.fail(Failed::Invalid(fault)),
            }
        }
        self.raw.extend_from_slice(&raw[used..]);
        self.leave_if_ended();
    }

    /// The version in which the upstream sent a response that arrives here in this one.
    pub(super) fn received_in(&self, version: Version) -> Protocol {
        match self.is_http2() {
            true => Protocol::Http2,
            false => version.protocol(),
        }
    }

    /// The response is complete.
    pub(super) fn end(&mut self, trailers: &Fields<'_, '_>) {
        if self.response == Response::Begun(Outgoing::Chunked) {
            let start = self.down.len();
            let ruled = &self.ruled;
            write_last_chunk(&mut self.down, trailers, |name| ruled.replaces(name));
            self.body_bytes += (self.down.len() - start) as u64;
        }
        self.response = Response::Ended;
        self.stored_whole();
    }

    /// The upstream closed its half. Returns the failure of an upstream in whose place another one is tried.
    pub(crate) fn ended_by_upstream(&mut self, now: Instant) -> Option<Failed> {
        self.is_reading = false;
        if self.link == Link::Securing {
            self.tls_fault = Some(refusal::closed().into());
            return self.failed_securing();
        }
        if self.is_switched() {
            self.end_switched();
            return None;
        }
        if self.link == Link::Open && self.may_repeat() {
            let before = self.ticket();
            let is_retried = !self.repeat_if_stale(now) && self.is_retried();
            if is_retried {
                self.link = Link::Gone;
            }
            if self.link != Link::Open {
                self.leaving = Some(before);
                return is_retried.then_some(Failed::Unanswered);
            }
        }
        match self.upstream.eof() {
            // An attacker can end a connection, but not say so with the keys of the upstream (RFC 8446 section 6.1).
            Ok(Ended::Body(_)) if self.channel.as_ref().is_some_and(|channel| channel.is_doubtful()) => {
                self.fail(Failed::Truncated);
            }
            Ok(Ended::Body(_)) => {
                self.end(&Fields::EMPTY);
                self.leave_if_ended();
            }
            Ok(Ended::Idle) if self.has_ended() => {}
            Ok(Ended::Idle | Ended::Unanswered(_)) => self.fail(Failed::Unanswered),
            Err(_) => self.fail(Failed::Truncated),
        }
        None
    }
}
