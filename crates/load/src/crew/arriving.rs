//! Open loop: objects arrive by their own process. The run ends at its end time or with the replayed log.

use super::{BELL, CLOCK, Crew, FIRST, NEVER, Phase, User};
use crate::arrivals::Arrivals;
use crate::deferred::Timing;
use crate::request_source::Dealt;
use crate::work::Work;
use runtime::dial::Port;
use std::collections::VecDeque;
use units::Instant;

/// Limit on arrivals that wait for a connection; further ones are dropped and counted.
const BACKLOG_MAX: usize = 1_000_000;

/// State of an open loop.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) arrivals: Arrivals,
    /// Number, in the whole process, and time of the next arrival.
    pub(super) next: (u64, Instant),
    pub(super) dealt: Dealt,
    pub(super) lines_max: usize,
    pub(super) free: Vec<u32>,
    pub(super) backlog: VecDeque<(Instant, u32)>,
    /// Whether the run ends when all arrivals are complete: true for a log, false for a rate of 0.
    pub(super) ends: bool,
}

impl Open {
    pub(super) fn advance(&mut self, began: Instant) {
        let never = (u64::MAX, NEVER);
        self.next = self
            .arrivals
            .next()
            .map_or(never, |(number, at)| (number, began + at));
    }
}

impl Crew {
    /// Begins all arrivals that are due.
    pub(super) fn arrive(&mut self, port: &mut Port, now: Instant) {
        let until = self.until();
        let lanes = self.setup.lanes.max(1) as usize;
        loop {
            let Some(open) = &mut self.open else { return };
            let (number, at) = open.next;
            if at > now {
                port.wake(CLOCK, at);
                self.end_with_log(port);
                return;
            }
            if self.ending || at >= until {
                return;
            }
            let object = open.dealt.object(&self.setup.work, number);
            open.advance(self.began);
            self.ledger.of(at).time(Timing::Lag, now.since(at));
            let line = match open.free.pop() {
                Some(line) => line,
                None if self.users.len() < open.lines_max * lanes => {
                    let line = FIRST + self.users.len() as u32;
                    self.users.extend((0..lanes).map(|_| User::free()));
                    line
                }
                None => {
                    if open.backlog.len() < BACKLOG_MAX {
                        open.backlog.push_back((at, object));
                    } else {
                        self.ledger.of(at).dropped += 1;
                    }
                    continue;
                }
            };
            self.begin(line, at, Some(object), port, now);
        }
    }

    /// Ends the run when every arrival of a log is complete.
    pub(super) fn end_with_log(&mut self, port: &mut Port) {
        let through = self
            .open
            .as_ref()
            .is_some_and(|open| open.ends && open.next.1 == NEVER && open.backlog.is_empty());
        if through && self.active == 0 {
            self.ending = true;
            port.end();
        }
    }

    /// Records the objects still pending at the end of the grace period, each with the time it has waited, and the
    /// connections that are not open yet.
    fn abandon(&mut self, now: Instant) {
        self.abandon_carriers();
        for lines in self.users.chunks(self.setup.lanes.max(1) as usize) {
            if self.setup.script.is_some() {
                for line in lines {
                    if let Phase::Fetching(fetch) = &line.phase
                        && let Some(part) = fetch.parts.get(fetch.got)
                    {
                        self.ledger.of(fetch.part_intended).step(part.file).unfinished += 1;
                    }
                }
            }
            for line in lines {
                if let Phase::Fetching(fetch) = &line.phase {
                    self.ledger.unopened(fetch.opening, fetch.shaking);
                }
            }
            let asked = lines.iter().filter_map(|line| match &line.phase {
                Phase::Fetching(fetch) => {
                    let requests = fetch.asked.saturating_sub(fetch.got).max(1);
                    Some((fetch.part_intended, requests as u64))
                }
                // Between two files of an object.
                Phase::Pausing(_) => Some((now, 1)),
                _ => None,
            });
            let (mut first, mut requests) = (None, 0);
            for (since, pending) in asked {
                first = first.min(Some(since)).or(Some(since));
                requests += pending;
            }
            if let Some(first) = first {
                self.ledger.abandon(requests, first, now);
                if let Some((intended, decile)) = pending(&self.setup.work, lines) {
                    self.ledger.of(intended).decile_failed(decile);
                }
            }
        }
    }

    /// Stops beginning objects. Pending ones have the grace period until the timer fires again.
    pub(super) fn end(&mut self, port: &mut Port, now: Instant) {
        if self.ending {
            self.abandon(now);
            port.end();
            return;
        }
        // Arrivals due before the end still count if the timer is late.
        self.arrive(port, now);
        self.ending = true;
        self.ledger.close(now);
        self.interrupt_thinkers(port, now);
        if let Some(open) = &self.open {
            for &(at, _) in &open.backlog {
                self.ledger.of(at).dropped += 1;
            }
        }
        if self.active == 0 {
            port.end();
        } else {
            port.wake(BELL, now + self.setup.grace);
        }
    }
}

/// Intended start and size decile of the object that is pending on the lines of a user; `None` if its size is unknown.
fn pending(work: &Work, lines: &[User]) -> Option<(Instant, usize)> {
    let head = lines.first()?;
    if let Some(group) = &head.group {
        return Some((group.intended, work.decile(group.files.iter().copied())?));
    }
    match &head.phase {
        Phase::Fetching(fetch) | Phase::Pausing(fetch) => {
            let files = fetch.parts.iter().map(|part| part.file);
            Some((fetch.intended, work.decile(files)?))
        }
        _ => None,
    }
}
