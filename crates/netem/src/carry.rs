//! The emulator: one thread that carries packets between two ports through a [`link::Path`], on time.
//!
//! It decides only when to wake. A packet enters the path at the instant the kernel saw it, not when this thread got to
//! it, and every part of a path works with due times. So only the last step, the departure, can be late. To depart on
//! time, the thread sleeps until shortly before and then spins, for at most a quarter of the time, so that a fast link
//! leaves the processor to the programs it serves.

use crate::control::Control;
use crate::datagrams;
use crate::port::{Frame, Port};
use crate::relay::Door;
use crate::{LATE, Notice, Tally};
use link::{Direction, Path};
use runtime::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};
use units::{Duration, Instant};

/// How long before a departure the thread wakes: the maximum lateness of a virtual machine's timer.
const EARLY: Duration = Duration::from_micros(100);
/// This close to a departure, nothing else is checked.
const CLOSE: Duration = Duration::from_micros(15);
/// At most one part in this many of the time may be spent spinning.
const SPIN_SHARE: u32 = 4;
/// Maximum allowance for spinning that can accumulate.
const SPIN_SAVED: Duration = Duration::from_millis(5);

/// Where notices go, and how often the counters are reported.
pub(super) struct Watch {
    pub(super) to: SyncSender<Notice>,
    /// Whether packets are reported, too.
    pub(super) frames: bool,
    pub(super) every: Duration,
}

/// The thread's state.
pub(super) struct Emulator {
    /// The command's end, then the other.
    pub(super) ports: [Port; 2],
    pub(super) path: Path<Frame>,
    /// When the path's time began; traces and beats count from here.
    pub(super) origin: Instant,
    /// Where new connections are announced before they arrive, if there is a relay.
    pub(super) door: Option<(Door, Receiver<Frame>)>,
    /// Where UDP leaves the far end and returns, if there is a relay for it.
    pub(super) datagrams: Option<datagrams::Door>,
    pub(super) watch: Option<Watch>,
    pub(super) control: Arc<Control>,
}

/// Allowance for spinning.
struct Thrift {
    saved: Duration,
    at: Instant,
}

impl Thrift {
    fn earn(&mut self, now: Instant) {
        self.saved = (self.saved + now.since(self.at) / SPIN_SHARE).min(SPIN_SAVED);
        self.at = now;
    }

    fn spend(&mut self, spent: Duration) {
        self.saved = self.saved.saturating_sub(spent);
    }
}

impl Emulator {
    /// Carries packets until told to stop.
    ///
    /// # Errors
    /// The system's, of a port that has become unusable.
    pub(super) fn run(mut self) -> io::Result<()> {
        if let Some(slack) = std::num::NonZeroU64::new(1) {
            // With the default slack, timers are deliberately 50 microseconds late.
            let _ = rustix::thread::set_current_timer_slack(Some(slack));
        }
        // With a higher priority than the programs it serves, if allowed: a real link is no slower because its users
        // are busy. The limit on spinning keeps it from occupying a processor.
        let _ = runtime::sys::run_first();
        let mut last = clock::now();
        let mut thrift = Thrift {
            saved: SPIN_SAVED,
            at: last,
        };
        let mut incoming: Vec<(Instant, Direction, Frame)> = Vec::new();
        let mut outgoing: [Vec<Frame>; 2] = [Vec::new(), Vec::new()];
        let mut tally = Tally::default();
        let mut report_at = last;
        let outcome = loop {
            let now = clock::now();
            thrift.earn(now);
            let moved = match self.take_in(now, &mut incoming, &mut tally) {
                Ok(moved) => moved,
                Err(error) => break Err(error),
            };
            for (at, direction, frame) in incoming.drain(..) {
                last = last.max(at);
                self.path.send(direction, frame, self.inside(last));
            }
            last = last.max(clock::now());
            self.let_out(last, &mut outgoing, &mut tally);
            if last >= report_at || self.control.stop.load(Ordering::Acquire) {
                self.report(last, &mut tally);
                report_at = last
                    + self
                        .watch
                        .as_ref()
                        .map_or(Duration::from_millis(100), |watch| watch.every);
            }
            if self.control.stop.load(Ordering::Acquire) {
                break Ok(());
            }
            if moved > 0 {
                // Frequent packets come in a row.
                continue;
            }
            self.wait(&mut thrift, report_at);
        };
        self.report(last, &mut tally);
        outcome
    }

    /// A machine's instant in the path's time.
    fn inside(&self, at: Instant) -> Instant {
        Instant::ZERO + at.since(self.origin)
    }

    fn take_in(
        &mut self,
        now: Instant,
        incoming: &mut Vec<(Instant, Direction, Frame)>,
        tally: &mut Tally,
    ) -> io::Result<usize> {
        let civil = clock::civil_nanos();
        let mut moved = 0;
        for direction in [Direction::Up, Direction::Down] {
            let watch = &self.watch;
            moved += self.ports[direction as usize].receive(now, civil, |frame, at| {
                tally.bytes_in[direction as usize] += frame.ip().len() as u64;
                if direction == Direction::Up {
                    let age = now.since(at).as_nanos() as u64;
                    tell_frame(
                        watch,
                        &mut tally.untold,
                        &frame,
                        direction,
                        civil.saturating_sub(age),
                    );
                }
                incoming.push((at, direction, frame));
            })?;
        }
        if let Some(door) = &self.datagrams {
            for (at, frame) in door.answers.try_iter().take(datagrams::WAITING_MAX) {
                tally.bytes_in[Direction::Down as usize] += frame.ip().len() as u64;
                incoming.push((at, Direction::Down, frame));
                moved += 1;
            }
        }
        // Each batch is in order; all batches together must be as well, because both directions may share one medium.
        incoming.sort_by_key(|(at, _, _)| *at);
        Ok(moved)
    }

    fn let_out(&mut self, now: Instant, outgoing: &mut [Vec<Frame>; 2], tally: &mut Tally) {
        if let Some((_, back)) = &self.door {
            outgoing[0].extend(back.try_iter());
        }
        let inside = self.inside(now);
        // Judged by the first due packet: a packet that leaves with it but was due later counts as equally late.
        let due = self.path.next_departure().unwrap_or(inside);
        let late = inside.since(due.min(inside));
        let mut left = 0;
        for direction in [Direction::Up, Direction::Down] {
            let out = &mut outgoing[direction as usize];
            while let Some(frame) = self.path.receive(direction, inside) {
                tally.bytes_out[direction as usize] += frame.ip().len() as u64;
                left += 1;
                if direction == Direction::Down {
                    tell_frame(
                        &self.watch,
                        &mut tally.untold,
                        &frame,
                        direction,
                        clock::civil_nanos(),
                    );
                }
                let mut frame = Some(frame);
                if direction == Direction::Up {
                    if let Some((door, _)) = &self.door {
                        frame = frame.and_then(|frame| door.announce(frame));
                    }
                    if let Some(door) = &mut self.datagrams {
                        frame = frame.and_then(|frame| door.take(frame));
                    }
                }
                out.extend(frame);
            }
            if direction == Direction::Up
                && let Some(door) = &mut self.datagrams
            {
                door.ring();
            }
            if !out.is_empty() {
                // Upward packets leave at the far port, and the other way round.
                self.ports[direction.reverse() as usize].send(out);
                out.clear();
            }
        }
        if left > 0 {
            tally.late_max = tally.late_max.max(late);
            tally.late += if late > LATE { left } else { 0 };
        }
    }

    fn report(&mut self, now: Instant, tally: &mut Tally) {
        tally.at = now;
        tally.cpu = clock::thread_cpu();
        tally.ways = [
            self.path.counters(Direction::Up),
            self.path.counters(Direction::Down),
        ];
        if let Some(door) = &self.datagrams {
            tally.udp = door.counts.read();
        }
        tally.refused = self.ports[0].refused + self.ports[1].refused;
        tally.overflowed = self.ports[0].overflowed() + self.ports[1].overflowed();
        if let Some(watch) = &self.watch
            && watch.to.try_send(Notice::Tally(Box::new(tally.clone()))).is_err()
        {
            tally.untold += 1;
        }
        if let Ok(mut shared) = self.control.tally.lock() {
            shared.clone_from(tally);
        }
    }

    /// Sleeps until a packet arrives, or until shortly before one is due, then spins.
    fn wait(&self, thrift: &mut Thrift, report_at: Instant) {
        let due = self
            .path
            .next_departure()
            .map(|due| self.origin + due.since(Instant::ZERO));
        let now = clock::now();
        let mut until = self.watch.as_ref().map(|_| report_at);
        if let Some(due) = due {
            let gap = due.since(now);
            let early = if thrift.saved > EARLY {
                EARLY
            } else {
                Duration::ZERO
            };
            if gap <= CLOSE {
                while clock::now() < due {
                    std::hint::spin_loop();
                }
                thrift.spend(gap);
                return;
            }
            if gap <= early {
                // Too near to sleep, far enough to check the ports again.
                thrift.spend(gap.min(Duration::from_micros(2)));
                return;
            }
            let wake = now + (gap - early);
            until = Some(until.map_or(wake, |until| until.min(wake)));
        }
        let timeout = until.map(|until| {
            let span = until.since(now);
            Timespec {
                tv_sec: span.as_secs() as i64,
                tv_nsec: i64::from(span.subsec_nanos()),
            }
        });
        let (near, far) = (self.ports[0].fd(), self.ports[1].fd());
        let mut waiting = [
            PollFd::from_borrowed_fd(near, PollFlags::IN),
            PollFd::from_borrowed_fd(far, PollFlags::IN),
            PollFd::new(self.control.bell.fd(), PollFlags::IN),
        ];
        // Interrupted or not: the loop checks everything anyway.
        let _ = poll(&mut waiting, timeout.as_ref());
        if waiting[2].revents().contains(PollFlags::IN) {
            self.control.bell.silence();
        }
    }
}

fn tell_frame(watch: &Option<Watch>, untold: &mut u64, frame: &Frame, direction: Direction, civil: u64) {
    let Some(watch) = watch.as_ref().filter(|watch| watch.frames) else {
        return;
    };
    let notice = Notice::Frame {
        civil,
        direction,
        ip: frame.ip().to_vec(),
    };
    if let Err(TrySendError::Full(_)) = watch.to.try_send(notice) {
        *untold += 1;
    }
}
