//! Connections that failed: what is recorded of them, and which of their requests are repeated.

use super::carrier::Ended;
use super::{Crew, FIRST, Phase, RETRY_PAUSE, TRIES_MAX, parted, scripted};
use crate::record::Trouble;
use client::session::Session;
use core::sync::atomic::Ordering;
use runtime::dial::Port;
use units::{Duration, Instant};

impl Crew {
    /// Handles a connection that is gone.
    pub(super) fn lost_connection(&mut self, line: u32, trouble: Trouble, port: &mut Port, now: Instant) {
        if self.is_shared() {
            let is_early = !self.is_carrier_busy(line) || trouble == Trouble::Lost;
            self.ledger.of(now).closed_by_server += u64::from(is_early);
            let trouble = match trouble {
                Trouble::Handshake if !self.is_carrier_shaking(line) => Trouble::Protocol,
                other => other,
            };
            return self.carrier_ended(line, Ended::Failed(trouble), port, now);
        }
        let user = &mut self.users[(line - FIRST) as usize];
        let Phase::Fetching(fetch) = &user.phase else {
            // No response was pending.
            user.session = None;
            parted(&mut user.stands, &mut self.ledger, now);
            self.ledger.of(now).closed_by_server += 1;
            return;
        };
        let is_open = fetch.opening.is_none() && fetch.shaking.is_none();
        let trouble = match trouble {
            // The handshake was complete: the server broke the rules of TLS later.
            Trouble::Handshake if is_open => Trouble::Protocol,
            other => other,
        };
        // A response that was cut off is not asked for again, whether the server closed or reset.
        let has_begun =
            fetch.first.is_some() || user.session.as_ref().is_some_and(Session::is_within_final_head);
        if trouble == Trouble::Lost && has_begun {
            return self.cut_short(line, port, now);
        }
        self.ledger.of(now).closed_by_server += u64::from(trouble == Trouble::Lost);
        self.lost(line, trouble, port, now);
    }

    /// Keeps the first reason of a failed handshake.
    #[cold]
    pub(super) fn refused(&mut self, why: &str, now: Instant) {
        let fault = &mut self.ledger.of(now).handshake_fault;
        fault.get_or_insert_with(|| why.into());
    }

    /// Gives up the connection before the object is complete; retries or fails its pending files.
    pub(super) fn lost(&mut self, line: u32, trouble: Trouble, port: &mut Port, now: Instant) {
        // A shared connection is another's to close.
        let is_shared = self.is_shared();
        if !is_shared {
            port.close(line);
        }
        let (at, from) = self.ledger.series(now);
        let user = &mut self.users[(line - FIRST) as usize];
        user.session = None;
        let stood = is_shared || user.stands.is_some();
        parted(&mut user.stands, &mut self.ledger, now);
        let Phase::Fetching(fetch) = &mut user.phase else {
            return;
        };
        let took = now.since(fetch.mark);
        match trouble {
            // `advance` has recorded it.
            Trouble::Unanswered => {}
            _ if stood => self.ledger.transferred(fetch.part_intended, took, None, now),
            _ => self.ledger.unconnected(fetch.part_intended, now),
        }
        let (opening, shaking) = (fetch.opening.take(), fetch.shaking.take());
        match trouble {
            // TLS may refuse to begin before the connection is open.
            Trouble::Handshake => self.ledger.unopened(None, shaking.or(opening)),
            _ => self.ledger.unopened(opening, shaking),
        }
        fetch.received = 0;
        let record = self.ledger.of(fetch.part_intended);
        record.trouble(trouble, at, from);
        self.live.errors.fetch_add(1, Ordering::Relaxed);
        fetch.tries += 1;
        fetch.first = None;
        let hopeless = matches!(
            trouble,
            Trouble::Here
                | Trouble::Connect
                | Trouble::Handshake
                | Trouble::Unanswered
                | Trouble::Timeout
                | Trouble::Protocol
        ) || !self.setup.verb(fetch).is_idempotent();
        if hopeless || fetch.tries > TRIES_MAX {
            if let Some(part) = fetch.parts.get(fetch.got) {
                let file = &self.setup.work.files[part.file as usize];
                record.example(trouble, &file.path, [file.bytes, None], now, from);
            }
            if self.setup.script.is_some() {
                scripted::fail_step(fetch, &mut self.ledger, trouble, now);
            }
            let record = self.ledger.of(fetch.part_intended);
            let failed = (fetch.parts.len() - fetch.got) as u64;
            record.fail(failed, now.since(fetch.part_intended), at, from);
            // The OFF time would have passed anyway.
            let off = fetch.parts.last().map_or(Duration::ZERO, |part| part.off);
            self.ledger
                .held(fetch.part_intended, now + RETRY_PAUSE.saturating_sub(off));
            self.finish(line, RETRY_PAUSE, port, now);
        } else {
            self.ledger.of(now).resent += (fetch.asked - fetch.got) as u64;
            fetch.progress = now;
            self.ask(line, port, now);
        }
    }
}
