//! How responses change a user's object and the record.
//!
//! Decides which files are successful and which ends of a connection are the server's fault. The crew decides how the
//! user continues.

use super::{Crew, FIRST, Fetch, Live, Phase, Setup, User, scripted};
use crate::deferred::Timing;
use crate::ledger::Ledger;
use crate::record::Trouble;
use crate::scenario::Visitor;
use client::plan::Mode;
use client::session::{Fault, Heard, Left, Memory, UNREAD_MAX};
use core::sync::atomic::Ordering;
use runtime::dial::Port;
use units::Instant;

/// What the driver reports of a response.
pub(super) enum Came<'a> {
    Bytes(&'a [u8]),
    /// Number of content bytes that the kernel discarded uncopied.
    Skipped(u64),
    /// End of the stream.
    End,
    /// End of the stream without the closing message of TLS: data may be missing.
    Cut,
}

/// Applies responses to an object and to the record.
pub(super) struct Hearing<'a> {
    pub(super) fetch: &'a mut Fetch,
    /// The user of a script.
    pub(super) visitor: Option<&'a mut Visitor>,
    /// When the run began.
    pub(super) began: Instant,
    pub(super) setup: &'a Setup,
    pub(super) ledger: &'a mut Ledger,
    pub(super) live: &'a Live,
    pub(super) now: Instant,
}

impl Crew {
    /// Processes received bytes or the end of the stream.
    pub(super) fn heard(&mut self, line: u32, came: Came<'_>, port: &mut Port, now: Instant) {
        let ends = matches!(came, Came::End | Came::Cut);
        let User {
            phase,
            session,
            visitor,
            ..
        } = &mut self.users[(line - FIRST) as usize];
        let Some(session) = session else { return };
        let Phase::Fetching(fetch) = phase else {
            // No response is pending: the server closes an idle connection, or sends unrequested bytes.
            match came {
                Came::Bytes(bytes) if !is_farewell(bytes) => {
                    self.breached(Fault::Unsolicited, &bytes[..bytes.len().min(UNREAD_MAX)], now);
                    let (at, from) = self.ledger.series(now);
                    let record = self.ledger.of(now);
                    record.bytes_received += bytes.len() as u64;
                    record.trouble(Trouble::Protocol, at, from);
                    self.live.errors.fetch_add(1, Ordering::Relaxed);
                }
                Came::Bytes(_) | Came::Skipped(_) | Came::End | Came::Cut => {
                    self.ledger.of(now).closed_by_server += 1;
                }
            }
            self.leave(line, port, now);
            return;
        };
        let got = fetch.got;
        if self.setup.script.is_some() {
            // Cookies and captures need the fields of every head.
            self.memory = Memory::default();
        }
        let mut hearing = Hearing {
            fetch,
            visitor: visitor.as_deref_mut(),
            began: self.began,
            setup: &self.setup,
            ledger: &mut self.ledger,
            live: &self.live,
            now,
        };
        let outcome = match came {
            Came::Bytes(bytes) => {
                received(hearing.ledger, bytes.len() as u64, now);
                hearing.fetch.received += bytes.len() as u64;
                hearing.fetch.progress = now;
                let outcome = session.receive(bytes, &mut self.memory, |heard| hearing.hear(heard));
                let ahead = session.content_ahead();
                if ahead >= self.setup.unseen_from && !self.setup.verify && !hearing.needs_content() {
                    port.skip(line, ahead);
                }
                outcome.map(|()| None).map_err(Some)
            }
            Came::Skipped(bytes) => {
                received(hearing.ledger, bytes, now);
                hearing.fetch.progress = now;
                hearing.fetch.received += bytes;
                hearing.fetch.bytes += bytes;
                let passed = session.pass(bytes);
                if passed == Ok(true) {
                    hearing.hear(Heard::End);
                }
                passed.map(|_| None).map_err(|_| None)
            }
            Came::End => session.eof(|heard| hearing.hear(heard)).map(Some).map_err(Some),
            Came::Cut => {
                // A response delimited by the end of the stream is not known to be complete.
                let mut is_delimited_by_end = false;
                let left = session.eof(|_| is_delimited_by_end = true);
                match is_delimited_by_end {
                    true => Err(None),
                    false => left.map(Some).map_err(Some),
                }
            }
        };
        if fetch.got > got {
            fetch.tries = 0;
        }
        match outcome {
            Err(_) if ends => self.cut_short(line, port, now),
            Err(fault) => {
                if let Some(fault) = fault {
                    let seen = session.unread().to_vec();
                    self.breached(fault, &seen, now);
                }
                self.lost(line, Trouble::Protocol, port, now);
            }
            Ok(left) => self.advance(line, left, port, now),
        }
    }

    /// Fails the part whose response ended early, and moves on to the next.
    #[cold]
    pub(super) fn fail_part(&mut self, line: u32, trouble: Trouble, now: Instant) {
        let Phase::Fetching(fetch) = &mut self.users[(line - FIRST) as usize].phase else {
            return;
        };
        let (at, from) = self.ledger.series(now);
        let took = now.since(fetch.mark);
        self.ledger.transferred(fetch.part_intended, took, None, now);
        let record = self.ledger.of(fetch.part_intended);
        record.trouble(trouble, at, from);
        record.fail(1, now.since(fetch.part_intended), at, from);
        if let Some(part) = fetch.parts.get(fetch.got) {
            let file = &self.setup.work.files[part.file as usize];
            record.example(trouble, &file.path, [file.bytes, Some(fetch.bytes)], now, from);
        }
        self.ledger.held(fetch.part_intended, now);
        if self.setup.script.is_some() {
            scripted::fail_step(fetch, &mut self.ledger, trouble, now);
        }
        self.live.errors.fetch_add(1, Ordering::Relaxed);
        fetch.spoiled = true;
        fetch.tries = 0;
        fetch.done(now);
    }

    #[cold]
    fn breached(&mut self, fault: Fault, seen: &[u8], now: Instant) {
        let from = self.ledger.from();
        self.ledger.of(now).breached(fault.text(), seen, now, from);
    }

    /// Handles a close within a response. That file failed and is not repeated: it was answered, and a repetition would
    /// hide the failure. The requests behind it were not answered.
    #[cold]
    pub(super) fn cut_short(&mut self, line: u32, port: &mut Port, now: Instant) {
        self.fail_part(line, Trouble::Truncated, now);
        let Phase::Fetching(fetch) = &mut self.users[(line - FIRST) as usize].phase else {
            return;
        };
        let left = match u8::try_from(fetch.asked - fetch.got) {
            Ok(0) => Left::Nothing,
            Ok(count) => Left::Unanswered(count),
            Err(_) => Left::Unanswered(u8::MAX),
        };
        // In HTTP/1.0 the server closes after each response, so only this close was early.
        let early = self.setup.mode == Mode::Http10 && left == Left::Nothing;
        self.ledger.of(now).closed_by_server += u64::from(early);
        self.advance(line, Some(left), port, now);
    }
}

/// Records received bytes.
pub(super) fn received(ledger: &mut Ledger, bytes: u64, now: Instant) {
    let (at, from) = ledger.series(now);
    let record = ledger.of(now);
    record.bytes_received += bytes;
    record.second(at, from).received += bytes;
}

impl Hearing<'_> {
    /// Whether the content of the response in progress is searched for values.
    fn needs_content(&self) -> bool {
        let script = self.setup.script.as_ref().zip(self.visitor.as_ref());
        script.is_some_and(|(script, visitor)| visitor.needs_content(script))
    }

    pub(super) fn hear(&mut self, heard: Heard<'_>) {
        let Hearing {
            fetch, ledger, now, ..
        } = self;
        match heard {
            Heard::Head(status, read) => {
                fetch.first = Some(*now);
                fetch.status = status;
                fetch.bytes = 0;
                let record = ledger.of(fetch.part_intended);
                if let (Some(script), Some(visitor), Some(lines)) =
                    (&self.setup.script, &mut self.visitor, read)
                {
                    let seconds = now.since(self.began).as_secs() as i64;
                    visitor.head(script, lines, self.setup.started + seconds);
                }
                // A redirect whose head is in memory has its location recorded already.
                if let Some(lines) = read
                    && (self.setup.ending.verb().is_head() || status >= 300)
                {
                    fetch.said = lines.content_length();
                    if let Some(location) = lines.location()
                        && !self.setup.accepts(fetch, status)
                    {
                        record.refused.entry(status).or_default().points_to(location);
                    }
                }
                if self.setup.verify {
                    fetch.digest = Some(Box::default());
                }
            }
            Heard::Body(bytes) => {
                fetch.bytes += bytes.len() as u64;
                if let (Some(script), Some(visitor)) = (&self.setup.script, &mut self.visitor) {
                    visitor.body(script, bytes);
                }
                if let Some(digest) = &mut fetch.digest {
                    digest.0.write(bytes);
                }
            }
            Heard::End => self.complete(),
        }
    }

    fn complete(&mut self) {
        let Hearing {
            fetch, ledger, now, ..
        } = self;
        let (at, from) = ledger.series(*now);
        let record = ledger.of(fetch.part_intended);
        let Some(part) = fetch.parts.get(fetch.got) else {
            return;
        };
        let Setup {
            work,
            ending,
            accept,
            lengths,
            script,
            ..
        } = self.setup;
        let target = &work.files[part.file as usize];
        let length = match ending.verb().is_head() {
            false => Some(fetch.bytes),
            true => fetch.said,
        };
        record.replied(fetch.status, at, from);
        let trouble = if let (Some(script), Some(visitor)) = (script, &mut self.visitor) {
            let trouble = visitor.end(script, fetch.status).err();
            if trouble == Some(Trouble::Status) {
                record.refused.entry(fetch.status).or_default().count += 1;
            }
            trouble
        } else if !accept.holds(fetch.status) {
            record.refused.entry(fetch.status).or_default().count += 1;
            Some(Trouble::Status)
        } else if fetch.status != 200 {
            // Other accepted statuses have no known content.
            None
        } else if *lengths
            && target
                .bytes
                .zip(length)
                .is_some_and(|(known, came)| known != came)
        {
            Some(Trouble::Length)
        } else {
            let digest = fetch
                .digest
                .take()
                .map(|digest| format!("{:032x}", digest.0.finish_128()));
            match (digest, &target.xxh3) {
                (Some(found), Some(wanted)) if found != **wanted => Some(Trouble::Content),
                _ => None,
            }
        };
        let service = now.since(fetch.mark);
        match trouble {
            Some(trouble) => {
                fetch.spoiled = true;
                record.fail(1, now.since(fetch.part_intended), at, from);
                // Lengths are examples for length errors only.
                let lengths = match trouble {
                    Trouble::Length => [target.bytes, length],
                    _ => [None, None],
                };
                record.example(trouble, &target.path, lengths, *now, from);
                record.trouble(trouble, at, from);
                ledger.held(fetch.part_intended, *now);
                self.live.errors.fetch_add(1, Ordering::Relaxed);
            }
            None => {
                record.time(Timing::Service, service);
                let response = now.since(fetch.part_intended);
                record.respond(response, at, from);
                let first = fetch.first.unwrap_or(*now);
                record.time(Timing::FirstByte, first.since(fetch.sent));
                record.time(Timing::Transfer, now.since(first));
                record.files += 1;
                record.bytes += fetch.bytes;
                ledger.completed(fetch.part_intended, fetch.bytes, *now);
                // Only this thread writes these counters: plain stores avoid a locked instruction.
                let response = response.as_nanos() as u64;
                let sum = self.live.response_ns.load(Ordering::Relaxed);
                self.live
                    .response_ns
                    .store(sum.wrapping_add(response), Ordering::Relaxed);
                if response > self.live.longest_ns.load(Ordering::Relaxed) {
                    self.live.longest_ns.store(response, Ordering::Relaxed);
                }
                let (files, bytes) = ledger.seen();
                self.live.files.store(files, Ordering::Relaxed);
                self.live.bytes.store(bytes, Ordering::Relaxed);
            }
        }
        if script.is_some() {
            let step = part.file;
            match trouble {
                Some(trouble) => scripted::fail_step(fetch, ledger, trouble, *now),
                None => {
                    let response = now.since(fetch.part_intended);
                    ledger.of(fetch.part_intended).step(step).response.add(response);
                }
            }
        }
        let bytes = trouble.is_none().then_some(fetch.received);
        ledger.transferred(fetch.part_intended, service, bytes, *now);
        fetch.done(*now);
    }
}

/// Whether unrequested bytes are a 408 (RFC 9110 section 15.5.9): the server announces that it closes an idle
/// connection.
fn is_farewell(bytes: &[u8]) -> bool {
    bytes.starts_with(b"HTTP/1.") && bytes.get(8..12) == Some(b" 408")
}
