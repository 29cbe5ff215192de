//! Answers known request heads without parsing, lookup or negotiation.
//!
//! Writes the same bytes, counts and log line as the normal way; a test compares them. There is no exchange, because
//! nothing is left to choose.

use super::reply::{self, content, last_lines};
use super::{Http1, Phase};
use crate::access_log::{self, RequestLine};
use crate::context::Cx;
use crate::head_cache::{Found, Send};
use crate::limits::Limits;
use runtime::Tx;
use units::Instant;

/// What became of input that may begin with a known head.
pub(super) enum Again<'b> {
    /// Its head is not known; nothing happened.
    Unknown,
    /// The request is answered, and the turn continues with this input behind it.
    Answered(&'b [u8]),
    /// The turn ends.
    Ended,
}

impl Http1 {
    /// Answers the request at the start of `input`, if its head is known.
    #[inline]
    pub(super) fn answer_again<'b>(
        &mut self,
        cx: &mut Cx,
        input: &'b [u8],
        started: Instant,
        tx: &mut Tx,
        now: Instant,
    ) -> Again<'b> {
        let is_secured = self.client.is_secured();
        if self.client.is_special()
            || !cx.uses_head_cache[usize::from(is_secured)]
            || cx.admission.is_shut()
            || !self.http.is_idle()
            // The head may name another client.
            || self.client.is_trusted(&cx.state.trusted)
        {
            return Again::Unknown;
        }
        let Cx {
            state,
            copied_max,
            head_cache,
            views,
            clock,
            journal,
            counters,
            admission,
            ..
        } = cx;
        let Some(found) = head_cache.find(input, (is_secured, self.next_is_last(&state.limits)), clock.now())
        else {
            return Again::Unknown;
        };
        let Found { known, send, behind } = found;
        let is_last = self.counts_as_last(&state.limits);
        let persistent = known.persistent && !is_last;
        let Some(persistence) = self.http.answer_again(known.version, persistent) else {
            debug_assert!(false, "a response is not complete when the next request is read");
            self.phase = Phase::Closed;
            return Again::Ended;
        };
        let start = tx.head.len();
        let (status, head_len, len) = match &send {
            Send::File(file, representation) => {
                let copied = if representation.len <= Limits::COPIED_BODY {
                    representation.len as usize
                } else {
                    // It admits: nothing is answered here while admission is closed.
                    let _ = admission.admits();
                    0
                };
                let out = &mut tx.head;
                out.reserve(representation.head_200.len() + copied + 96);
                out.extend_from_slice(&representation.head_200);
                let secured_lines: &[u8] = if is_secured { &state.secured_lines } else { b"" };
                last_lines((clock, secured_lines), persistence, out);
                let head_len = (out.len() - start) as u32;
                content(tx, &representation.content, 0, representation.len, *copied_max);
                counters.hits().add(1);
                if let Some(view) = views.get_mut(file.site) {
                    view.used_again(&file.entry);
                }
                (200, head_len, representation.len)
            }
            Send::Stored(repeat, again) => {
                let (head, body) = (repeat.head(), again.body());
                let len = body.len() as u64;
                let copied = if len <= Limits::COPIED_BODY { body.len() } else { 0 };
                tx.head.reserve(head.len() + copied);
                tx.head.extend_from_slice(head);
                match len <= *copied_max {
                    true => tx.head.extend_from_slice(body),
                    false => tx.body = Some(reply::referenced(&again.content(is_secured), 0, len)),
                }
                (repeat.status(), head.len() as u32, len)
            }
        };
        counters.answered(status);
        if journal.is_on() {
            let request = access_log::Request {
                peer: self.client.address(),
                user: self.client.user(),
                stream: None,
                started,
                line: RequestLine::Parsed {
                    method: b"GET",
                    target: known.target(),
                    version: known.version.name(),
                },
                host: known.host(),
                referer: known.referer(),
                user_agent: known.user_agent(),
                // No trusted peer comes here, which could name another scheme.
                is_secured,
                tls: self.client.tls(),
                cache: matches!(send, Send::Stored(..)).then_some("hit"),
                upstream: None,
                // Heads are not kept if logs show fields, and if requests have ids or are traced.
                fields: None,
                id: None,
                trace: None,
            };
            journal.compose(&mut self.slot, clock, &request, status, head_len, len);
        }
        let wants_close = !known.persistent;
        cx.answered(started);
        let then = if !persistent {
            self.closing(wants_close, behind)
        } else if tx.body.is_none() {
            return Again::Answered(behind);
        } else {
            Http1::onwards(cx, behind, now)
        };
        self.depart(cx, tx, then, now);
        Again::Ended
    }
}
