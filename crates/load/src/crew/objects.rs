//! The objects of users: how one begins, is dealt out to several connections and ends, and when the next begins.

use super::user::Group;
use super::{Crew, FIRST, Phase, scripted};
use crate::deferred::Timing;
use crate::request_source::{Part, whole};
use client::plan::Mode;
use core::sync::atomic::Ordering;
use runtime::dial::Port;
use units::{Duration, Instant};

/// A completed or failed object and how its user continues.
struct Over {
    intended: Instant,
    /// Whether all files succeeded.
    complete: bool,
    /// Decile of the object's size, if known.
    decile: Option<usize>,
    /// OFF time after the object.
    off: Duration,
    /// Whether the session ends with this object.
    leave: bool,
}

impl Crew {
    /// Begins an object: `given`, or the next of the user's own source.
    pub(super) fn begin(
        &mut self,
        line: u32,
        intended: Instant,
        given: Option<u32>,
        port: &mut Port,
        now: Instant,
    ) {
        if self.ending {
            return;
        }
        let mut fetch = self.fresh(intended, now);
        let work = &self.setup.work;
        let user = &mut self.users[(line - FIRST) as usize];
        let last = match (given, &mut user.source) {
            _ if self.setup.script.is_some() => {
                let script = self.setup.script.as_ref();
                match script.and_then(|script| scripted::begin(script, user, given, &mut fetch.parts)) {
                    Some(last) => last,
                    None => return self.exhausted(line, port, now),
                }
            }
            (Some(object), _) => {
                whole(work, object, &mut fetch.parts);
                false
            }
            (None, Some(source)) => match source.next(work, &mut fetch.parts) {
                Some(last) => last,
                None => return self.leave_all(line, port, now),
            },
            (None, None) => return,
        };
        fetch.last = last;
        if self.setup.lanes > 1 && fetch.parts.len() > 1 {
            user.group = Some(Box::new(Group {
                files: fetch.parts.iter().map(|part| part.file).collect(),
                off: fetch.parts.last().map_or(Duration::ZERO, |part| part.off),
                rest: fetch.parts.split_off(1),
                left: 1,
                whole: true,
                intended,
                last,
            }));
        }
        user.phase = Phase::Fetching(fetch);
        self.pass_seconds(now);
        let (at, from) = self.ledger.series(now);
        self.active += 1;
        self.measured += u64::from(intended >= from);
        self.live.active.store(self.active, Ordering::Relaxed);
        let record = self.ledger.of(intended);
        record.objects_begun += 1;
        record.second(at, from).begun += 1;
        self.wake_by(line, now + self.setup.timeout, port);
        self.ask(line, port, now);
    }

    /// Ends the fetch on this line, complete or given up. If that ends the object, the user sleeps for its OFF time, at
    /// least for `least`.
    pub(super) fn finish(&mut self, line: u32, least: Duration, port: &mut Port, now: Instant) {
        let head = self.head(line);
        let user = self.user(line);
        let Phase::Fetching(fetch) = core::mem::replace(&mut user.phase, Phase::Done) else {
            return;
        };
        let complete = fetch.got == fetch.parts.len();
        let good = complete && !fetch.spoiled;
        let Some(mut group) = self.user(head).group.take() else {
            let (last, intended) = (fetch.last, fetch.intended);
            let off = fetch.parts.last().map_or(Duration::ZERO, |part| part.off);
            let files = fetch.parts.iter().map(|part| part.file);
            let decile = self.setup.work.decile(files);
            self.spare.push(fetch);
            let over = Over {
                intended,
                complete: good,
                decile,
                off: off.max(least),
                leave: last,
            };
            self.over(line, &over, port, now);
            return;
        };
        self.spare.push(fetch);
        self.user(line).phase = Phase::Free;
        if matches!(self.setup.mode, Mode::Http10 | Mode::EarlyClose) {
            self.leave(line, port, now);
        }
        group.left -= 1;
        group.whole &= good;
        group.off = group.off.max(least);
        let rest = core::mem::take(&mut group.rest);
        if !rest.is_empty() && complete {
            self.deal(head, *group, &rest, port, now);
            return;
        }
        // The files of a page that never arrived were never requested; they failed.
        let (at, from) = self.ledger.series(now);
        let took = now.since(group.intended);
        let record = self.ledger.of(group.intended);
        record.fail(rest.len() as u64, took, at, from);
        if group.left > 0 {
            self.user(head).group = Some(group);
            return;
        }
        let over = Over {
            intended: group.intended,
            complete: group.whole,
            decile: self.setup.work.decile(group.files.iter().copied()),
            off: group.off,
            leave: group.last,
        };
        self.over(head, &over, port, now);
    }

    /// Deals a page's embedded files round-robin to the connections of its user.
    fn deal(&mut self, head: u32, mut group: Group, rest: &[Part], port: &mut Port, now: Instant) {
        let lanes = self.setup.lanes.max(1).min(rest.len() as u32);
        group.left = lanes;
        let intended = group.intended;
        self.user(head).group = Some(Box::new(group));
        for lane in 0..lanes {
            let mut fetch = self.fresh(intended, now);
            fetch.part_intended = now;
            fetch.alone = false;
            fetch
                .parts
                .extend(rest.iter().skip(lane as usize).step_by(lanes as usize));
            self.user(head + lane).phase = Phase::Fetching(fetch);
            self.wake_by(head + lane, now + self.setup.timeout, port);
            self.ask(head + lane, port, now);
        }
    }

    /// Records a completed or failed object and schedules the user's next one.
    fn over(&mut self, line: u32, over: &Over, port: &mut Port, now: Instant) {
        let &Over { off, leave, .. } = over;
        self.pass_seconds(now);
        self.active -= 1;
        self.measured -= u64::from(over.intended >= self.ledger.from());
        self.live.active.store(self.active, Ordering::Relaxed);
        let record = self.ledger.of(over.intended);
        if over.complete {
            let time = now.since(over.intended);
            record.objects += 1;
            record.time(Timing::Object, time);
            if let Some(decile) = over.decile {
                record.decile(decile, time);
            }
        } else if let Some(decile) = over.decile {
            record.decile_failed(decile);
        }
        self.user(line).phase = Phase::Done;
        // The timer that ends the run may itself be late.
        let late = now >= self.until();
        let closes = matches!(self.setup.mode, Mode::Http10 | Mode::EarlyClose);
        if closes || self.ending || late {
            self.leave_all(line, port, now);
        }
        if self.ending {
            if self.active == 0 {
                port.end();
            }
            return;
        }
        if self.open.is_some() && leave {
            self.leave_all(line, port, now);
        }
        if let Some(open) = &mut self.open {
            self.users[(line - FIRST) as usize].phase = Phase::Free;
            match open.backlog.pop_front_if(|_| !late) {
                Some((at, object)) => self.begin(line, at, Some(object), port, now),
                None if open.backlog.is_empty() => open.free.push(line),
                // Too late for the waiting arrivals, and later ones must not overtake them.
                None => {}
            }
            self.end_with_log(port);
            return;
        }
        if late {
            return;
        }
        if off.is_zero() {
            if leave {
                self.leave_all(line, port, now);
            }
            self.begin(line, now, None, port, now);
        } else {
            self.user(line).phase = Phase::Waiting { leave };
            self.wake(line, now + off, port);
        }
    }
}
