//! Accounts for time from events: for each call the count, time on a processor and time waiting; for each thread the
//! rest. Pure: a list of events always gives the same account.
//!
//! ```text
//!            ┌─────────── enter ──────────┐
//!            ▼                            │        on a processor or off it is told apart in both: by switches,
//!   Inside { call } ──────── exit ──▶ Outside     or by what a thread says it has run
//!            ▲                            ▲
//!            └─ enter ── Unknown ── exit ─┘        a thread not heard of before: it may sleep in a call nobody saw
//! ```

use super::category::{self, Category, Direction};
use measure::{Duration, Instant};
use runtime::profiler::{Event, What, name};
use std::collections::{BTreeMap, HashMap};

/// Descriptors whose last direction is remembered; more are forgotten all at once.
const DESCRIPTORS_MAX: usize = 1 << 16;
/// Bytes of the shortest request and the shortest answer; less than that are wake-ups and counters.
const MESSAGE_MIN: i64 = 16;

/// What is known of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    /// How often.
    pub(crate) count: u64,
    /// How often with an error.
    pub(crate) errors: u64,
    /// On a processor.
    pub(crate) ran: Duration,
    /// Off it: waiting for something, or for a processor.
    pub(crate) waited: Duration,
}

impl Cost {
    pub(crate) fn add(&mut self, other: &Cost) {
        self.count += other.count;
        self.errors += other.errors;
        self.ran += other.ran;
        self.waited += other.waited;
    }
}

/// Where a thread is.
#[derive(Clone, Copy, Debug)]
enum Place {
    Unknown,
    Outside,
    Inside { call: u64, arguments: [u64; 2] },
}

#[derive(Debug)]
struct Thread {
    place: Place,
    /// Until when its time is accounted for.
    since: Instant,
    /// Whether it is on a processor; none before that is known.
    on: Option<bool>,
    /// What it had run then, where it says so.
    ran: Option<Duration>,
    /// In the part of a call or of the time outside that is going on.
    part: Cost,
}

/// Everything that was counted.
#[derive(Debug)]
pub(crate) struct Account {
    threads: BTreeMap<u32, Thread>,
    calls: BTreeMap<(u64, Category), Cost>,
    user: Duration,
    preempted: Duration,
    voluntary: u64,
    involuntary: u64,
    seen: usize,
    /// Of each process and descriptor, whether a request has come and not been answered.
    asked: HashMap<(u32, u64), bool>,
    exchanges: u64,
}

/// The sum of it.
#[derive(Clone, Debug)]
pub(crate) struct Sum {
    /// Each call with its category.
    pub(crate) calls: Vec<(String, Category, Cost)>,
    /// On a processor and in no call: what the program computes itself, and faults of its memory.
    pub(crate) user: Duration,
    /// In no call and not on a processor: another one had it.
    pub(crate) preempted: Duration,
    /// Switches because a thread waited.
    pub(crate) voluntary: u64,
    /// Switches because another thread was to run.
    pub(crate) involuntary: u64,
    /// Threads that did anything.
    pub(crate) threads: usize,
    /// Answers begun on a descriptor after something was received on it.
    pub(crate) exchanges: u64,
}

impl Account {
    /// Nothing yet.
    pub(crate) fn new() -> Account {
        Account {
            threads: BTreeMap::new(),
            calls: BTreeMap::new(),
            user: Duration::ZERO,
            preempted: Duration::ZERO,
            voluntary: 0,
            involuntary: 0,
            seen: 0,
            asked: HashMap::new(),
            exchanges: 0,
        }
    }

    /// One more event. Those of a thread come in order of time.
    pub(crate) fn take(&mut self, event: &Event) {
        let seen = &mut self.seen;
        let thread = self.threads.entry(event.thread).or_insert_with(|| {
            *seen += 1;
            Thread {
                place: Place::Unknown,
                // Before that nothing is known: it may not have been there.
                since: event.at,
                on: None,
                ran: event.ran,
                part: Cost::default(),
            }
        });
        // One who got a processor had none until then; any other event needs one.
        let was_on = thread.on.unwrap_or(event.what != What::On);
        thread.pass(event.at, event.ran, was_on);
        thread.on = Some(!matches!(event.what, What::Off { .. }));
        match event.what {
            What::On => {}
            What::Off { preempted: true } => self.involuntary += 1,
            What::Off { preempted: false } => self.voluntary += 1,
            What::Enter { call, arguments } => {
                // An exit that was lost: the time is nobody's.
                let part = std::mem::take(&mut thread.part);
                if !matches!(thread.place, Place::Inside { .. }) {
                    self.user += part.ran;
                    self.preempted += part.waited;
                }
                thread.place = Place::Inside { call, arguments };
            }
            What::Exit { result } => {
                let mut part = std::mem::take(&mut thread.part);
                let place = std::mem::replace(&mut thread.place, Place::Outside);
                if let Place::Inside { call, arguments } = place {
                    part.count = 1;
                    part.errors = u64::from(result < 0);
                    self.settle(call, arguments, part);
                    self.exchange(event.process, call, arguments[0], result);
                }
            }
            What::Gone => {
                if let Some(thread) = self.threads.remove(&event.thread) {
                    self.close(thread);
                }
            }
        }
    }

    /// The sum at the end: what is going on counts up to then.
    pub(crate) fn sum(mut self, end: Instant) -> Sum {
        for (_, mut thread) in std::mem::take(&mut self.threads) {
            // Without a word of what it has run since, one who does not say so is as it was last.
            if thread.ran.is_none() {
                let on = thread.on.unwrap_or(false);
                thread.pass(end.max(thread.since), None, on);
            }
            self.close(thread);
        }
        let shown = |call: u64| name(call).map_or_else(|| format!("call {call}"), str::to_owned);
        Sum {
            calls: self
                .calls
                .iter()
                .map(|((call, category), cost)| (shown(*call), *category, *cost))
                .collect(),
            user: self.user,
            preempted: self.preempted,
            voluntary: self.voluntary,
            involuntary: self.involuntary,
            threads: self.seen,
            exchanges: self.exchanges,
        }
    }

    /// What a thread was at when it ended, or when nobody looked any longer: a call that did not return has time, but
    /// is no call yet.
    fn close(&mut self, thread: Thread) {
        match thread.place {
            Place::Inside { call, arguments } => self.settle(call, arguments, thread.part),
            Place::Outside => {
                self.user += thread.part.ran;
                self.preempted += thread.part.waited;
            }
            Place::Unknown => {}
        }
    }

    fn settle(&mut self, call: u64, arguments: [u64; 2], part: Cost) {
        let category = Category::of(name(call).unwrap_or(""), arguments[1]);
        self.calls.entry((call, category)).or_default().add(&part);
    }

    /// Counts the answers that follow a request on the same descriptor.
    fn exchange(&mut self, process: u32, call: u64, descriptor: u64, result: i64) {
        let name = name(call).unwrap_or("");
        if name == "close" {
            self.asked.remove(&(process, descriptor));
            return;
        }
        let Some(direction) = category::direction(name) else {
            return;
        };
        if result < MESSAGE_MIN {
            return;
        }
        match direction {
            Direction::In => {
                if self.asked.len() >= DESCRIPTORS_MAX {
                    self.asked.clear();
                }
                self.asked.insert((process, descriptor), true);
            }
            Direction::Out => {
                if self.asked.remove(&(process, descriptor)).is_some() {
                    self.exchanges += 1;
                }
            }
        }
    }
}

impl Thread {
    /// Time goes on to `at`.
    fn pass(&mut self, at: Instant, ran: Option<Duration>, on: bool) {
        let span = at.since(self.since);
        self.since = self.since.max(at);
        let ran_now = match (self.ran, ran) {
            (Some(before), Some(after)) => after.saturating_sub(before).min(span),
            _ if on => span,
            _ => Duration::ZERO,
        };
        self.ran = ran.or(self.ran);
        self.part.ran += ran_now;
        self.part.waited += span - ran_now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: u64 = 0;
    const WRITE: u64 = 1;
    const CLOSE: u64 = 3;

    fn us(at: u64) -> Instant {
        Instant::from_nanos(at * 1000)
    }

    fn event(thread: u32, at: u64, what: What) -> Event {
        Event {
            process: 7,
            thread,
            at: us(at),
            ran: None,
            what,
        }
    }

    fn enter(call: u64, descriptor: u64) -> What {
        What::Enter {
            call,
            arguments: [descriptor, 0],
        }
    }

    fn sum(events: &[Event]) -> Sum {
        let mut account = Account::new();
        events.iter().for_each(|event| account.take(event));
        account.sum(us(1000))
    }

    fn of<'a>(sum: &'a Sum, name: &str) -> &'a Cost {
        &sum.calls.iter().find(|(one, ..)| one == name).expect(name).2
    }

    const OFF: What = What::Off { preempted: false };
    const PUSHED: What = What::Off { preempted: true };

    /// Numbers of calls as x86-64 has them.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn time_goes_where_the_thread_was() {
        let sum = sum(&[
            event(1, 10, enter(READ, 4)),
            event(1, 12, OFF),
            event(1, 112, What::On),
            event(1, 115, What::Exit { result: 100 }),
            event(1, 120, PUSHED),
            event(1, 150, What::On),
            event(1, 165, enter(WRITE, 4)),
            event(1, 185, What::Exit { result: 200 }),
            event(1, 190, enter(CLOSE, 4)),
            event(1, 191, What::Exit { result: -9 }),
            event(1, 200, What::Gone),
        ]);
        let micros = Duration::from_micros;
        let expect = |count, errors, ran, waited| Cost {
            count,
            errors,
            ran: micros(ran),
            waited: micros(waited),
        };
        assert_eq!(of(&sum, "read"), &expect(1, 0, 5, 100));
        assert_eq!(of(&sum, "write"), &expect(1, 0, 20, 0));
        assert_eq!(of(&sum, "close"), &expect(1, 1, 1, 0));
        // Between the calls 5, 15 and 5; until its end 9.
        assert_eq!(sum.user, micros(5 + 15 + 5 + 9));
        assert_eq!(sum.preempted, micros(30));
        assert_eq!((sum.voluntary, sum.involuntary, sum.threads), (1, 1, 1));
        assert_eq!(sum.exchanges, 1);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn one_that_waits_from_the_beginning_or_to_the_end_is_counted_so() {
        // Found asleep in a call nobody saw it enter, then asleep in another at the end.
        let sum = sum(&[
            event(1, 300, What::On),
            event(1, 310, What::Exit { result: 50 }),
            event(1, 330, enter(READ, 4)),
            event(1, 340, OFF),
        ]);
        assert_eq!(of(&sum, "read").count, 0, "it has not returned");
        assert_eq!(of(&sum, "read").ran, Duration::from_micros(10));
        assert_eq!(of(&sum, "read").waited, Duration::from_micros(660));
        assert_eq!(sum.user, Duration::from_micros(20));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_thread_that_says_what_it_ran_is_believed() {
        let said = |at: u64, ran: u64, what| Event {
            ran: Some(Duration::from_micros(ran)),
            ..event(1, at, what)
        };
        let sum = sum(&[
            said(10, 500, enter(READ, 4)),
            said(110, 503, What::Exit { result: 0 }),
            said(150, 540, enter(READ, 4)),
        ]);
        assert_eq!(of(&sum, "read").ran, Duration::from_micros(3));
        assert_eq!(of(&sum, "read").waited, Duration::from_micros(97));
        assert_eq!(sum.user, Duration::from_micros(37));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn wake_ups_are_no_exchanges_and_lost_exits_no_time() {
        let sum = sum(&[
            event(1, 10, enter(READ, 9)),
            event(1, 11, What::Exit { result: 8 }),
            event(2, 12, enter(WRITE, 9)),
            event(2, 13, What::Exit { result: 8 }),
            event(1, 20, enter(READ, 5)),
            event(1, 700, enter(READ, 5)),
            event(1, 701, What::Exit { result: 40 }),
            event(1, 702, enter(WRITE, 6)),
            event(1, 703, What::Exit { result: 40 }),
        ]);
        assert_eq!(sum.exchanges, 0);
        assert_eq!(of(&sum, "read").count, 2);
        assert!(of(&sum, "read").ran < Duration::from_micros(10));
    }
}
