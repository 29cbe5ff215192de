//! The requests of a user: how many the mode allows at once, on which connection, and what follows a response or the end
//! of the connection. Requests that share a connection are sent by [`super::carrier`].

use super::{Crew, FIRST, Phase, Setup, TRIES_MAX, User, parted};
use crate::record::Trouble;
use client::plan::Mode;
use client::session::{Left, OUTSTANDING_MAX, Session};
use runtime::dial::Port;
use units::{Duration, Instant};

impl Crew {
    /// Sends the requests that the mode allows now, on a new connection if necessary.
    pub(super) fn ask(&mut self, line: u32, port: &mut Port, now: Instant) {
        if self.setup.script.is_some() && !self.render(line, port, now) {
            return;
        }
        if self.is_shared() {
            return self.ask_on_stream(line, port, now);
        }
        let Setup {
            work,
            mode,
            ending,
            script,
            ..
        } = &self.setup;
        let User {
            phase,
            session,
            stands,
            visitor,
            ..
        } = &mut self.users[(line - FIRST) as usize];
        let Phase::Fetching(fetch) = phase else { return };
        if !session.as_ref().is_some_and(Session::is_persistent) {
            if session.is_some() {
                parted(stands, &mut self.ledger, now);
                port.close(line);
            }
            *session = None;
        }
        let connected = session.is_some();
        let session = session.get_or_insert_with(Session::new);
        if !connected {
            port.connect(line);
            fetch.asked = fetch.got;
            fetch.opening = Some(now);
        }
        let wanted = match mode {
            Mode::Http10 | Mode::Serial | Mode::Auto => fetch.got + 1,
            _ if fetch.got == 0 && fetch.alone => 1,
            Mode::Pipelined | Mode::EarlyClose | Mode::Http2 | Mode::Http3 => fetch.parts.len(),
        };
        let room = OUTSTANDING_MAX - session.outstanding();
        let to = wanted.min(fetch.parts.len()).min(fetch.asked + room);
        if fetch.asked >= to {
            return;
        }
        // The part's time starts here unless its request was sent together with earlier ones.
        if fetch.asked == fetch.got && fetch.first.is_none() {
            fetch.mark = now;
            fetch.sent = now;
        }
        let parts = &fetch.parts[fetch.asked..to];
        port.send(line, |out| {
            if let (Some(script), Some(visitor)) = (script, visitor) {
                // One request at a time: the next depends on its response.
                let step = parts[0].file;
                let (version, persists) = match mode {
                    Mode::Http10 => ("1.0", false),
                    _ => ("1.1", true),
                };
                let refused = session.ask(script.steps[step as usize].verb.method(), persists);
                debug_assert!(refused.is_ok(), "room was counted");
                return visitor.write(script, step, version, out);
            }
            for part in parts {
                let refused = session.request(out, &work.files[part.file as usize].path, ending);
                debug_assert!(refused.is_ok(), "room was counted");
            }
        });
        fetch.asked = to;
    }

    /// Continues after responses or the end of the connection, as `left` says.
    pub(super) fn advance(&mut self, line: u32, left: Option<Left>, port: &mut Port, now: Instant) {
        let mode = self.setup.mode;
        let User {
            phase,
            session,
            stands,
            ..
        } = &mut self.users[(line - FIRST) as usize];
        let Phase::Fetching(fetch) = phase else { return };
        if let Some(left) = left {
            *session = None;
            parted(stands, &mut self.ledger, now);
            port.close(line);
            let unanswered = matches!(left, Left::Unanswered(_));
            self.ledger.of(now).closed_by_server += u64::from(unanswered || mode != Mode::Http10);
            if let Left::Unanswered(count) = left {
                let took = now.since(fetch.mark);
                self.ledger.transferred(fetch.part_intended, took, None, now);
                fetch.tries += 1;
                let is_repeatable = self.setup.verb(fetch).is_idempotent();
                if fetch.tries > TRIES_MAX || !is_repeatable {
                    self.lost(line, Trouble::Unanswered, port, now);
                    return;
                }
                self.ledger.of(now).resent += u64::from(count);
            }
        }
        let User {
            phase,
            session,
            stands,
            ..
        } = &mut self.users[(line - FIRST) as usize];
        let Phase::Fetching(fetch) = phase else { return };
        if fetch.got == fetch.parts.len() {
            self.finish(line, Duration::ZERO, port, now);
            return;
        }
        // A response is still arriving.
        if fetch.first.is_some() && session.is_some() {
            return;
        }
        let unanswered = fetch.asked - fetch.got;
        if mode == Mode::Http10 && session.is_some() && unanswered > 0 {
            return;
        }
        // The connection carries no further response: HTTP/1.0, or the server announced the close.
        if session.as_ref().is_some_and(|session| !session.is_persistent()) {
            let record = self.ledger.of(now);
            record.closed_by_server += u64::from(mode != Mode::Http10);
            record.resent += unanswered as u64;
            fetch.asked = fetch.got;
            *session = None;
            parted(stands, &mut self.ledger, now);
            port.close(line);
        }
        self.go_on(line, port, now);
    }

    /// Sends the next requests, after the active OFF time of the last part if it has one.
    pub(super) fn go_on(&mut self, line: u32, port: &mut Port, now: Instant) {
        // A think time that the run does not wait for.
        let is_over = self.ending && self.setup.script.is_some();
        let Phase::Fetching(fetch) = &mut self.users[(line - FIRST) as usize].phase else {
            return;
        };
        let off = match fetch.got.checked_sub(1) {
            Some(before) if fetch.asked == fetch.got => fetch.parts[before].off,
            _ => Duration::ZERO,
        };
        if off.is_zero() {
            self.ask(line, port, now);
            return;
        }
        if is_over {
            self.interrupt(line, port, now);
            if self.active == 0 {
                port.end();
            }
            return;
        }
        // The active OFF time of a part applies once.
        let before = fetch.got - 1;
        fetch.parts[before].off = Duration::ZERO;
        let user = self.user(line);
        if let Phase::Fetching(fetch) = core::mem::replace(&mut user.phase, Phase::Done) {
            user.phase = Phase::Pausing(fetch);
        }
        self.wake(line, now + off, port);
    }
}
