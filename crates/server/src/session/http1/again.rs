//! Answers known request heads without parsing, lookup or negotiation.
//!
//! Writes the same bytes, counts and log line as the normal way; a test compares them. There is no exchange, because
//! nothing is left to choose.

use super::reply::content;
use super::{Http1, Phase};
use crate::access_log::{self, RequestLine};
use crate::context::Cx;
use crate::head_cache::Found;
use crate::limits::Limits;
use http1::server::Persistence;
use runtime::Tx;
use units::Instant;

impl Http1 {
    /// Answers the known head `found`; `behind` is the input that follows it. Returns that input if the turn continues.
    #[inline]
    pub(super) fn answer_again<'b>(
        &mut self,
        cx: &mut Cx,
        found: Found,
        behind: &'b [u8],
        started: Instant,
        tx: &mut Tx,
        now: Instant,
    ) -> Option<&'b [u8]> {
        self.count(cx);
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
        let Some((known, representation)) = head_cache.get(found) else {
            debug_assert!(false, "a head just found is gone");
            self.phase = Phase::Closed;
            return None;
        };
        let persistence = self.http.begin_response(true).unwrap_or(Persistence::Ends);
        let copied = if representation.len <= Limits::COPIED_BODY {
            representation.len as usize
        } else {
            // It admits: this function is not called while admission is closed.
            let _ = admission.admits();
            0
        };
        let out = &mut tx.head;
        let start = out.len();
        out.reserve(representation.head_200.len() + copied + 96);
        out.extend_from_slice(&representation.head_200);
        out.extend_from_slice(clock.date_line());
        if self.client.is_secured() {
            out.extend_from_slice(&state.secured_lines);
        }
        out.extend_from_slice(persistence.line());
        out.extend_from_slice(b"\r\n");
        let head_len = (out.len() - start) as u32;
        content(tx, &representation.content, 0, representation.len, *copied_max);
        counters.hits().add(1);
        counters.answered(200);
        if let Some(view) = views.get_mut(known.site) {
            view.used_again(&known.entry);
        }
        if journal.is_on() {
            let request = access_log::Request {
                peer: self.client.address(),
                user: self.client.user(),
                stream: None,
                started,
                line: RequestLine::Parsed {
                    method: b"GET",
                    target: known.target(),
                    version: found.version.name(),
                },
                host: known.host(),
                referer: known.referer(),
                user_agent: known.user_agent(),
                upstream: None,
            };
            journal.compose(&mut self.slot, clock, &request, 200, head_len, representation.len);
        }
        cx.answered(started);
        match self.after(!found.persistent, behind) {
            None if tx.body.is_none() => return Some(behind),
            None => {
                let then = Http1::onwards(cx, behind, now);
                self.depart(cx, tx, then, now);
            }
            Some(then) => self.depart(cx, tx, then, now),
        }
        None
    }
}
