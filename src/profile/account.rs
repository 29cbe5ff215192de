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
use profiler::{Event, What, name};
use std::collections::{BTreeMap, HashMap};
use units::{Duration, Instant};

/// Largest number of descriptors with a remembered direction; beyond it, all are forgotten at once.
const DESCRIPTORS_MAX: usize = 1 << 16;
/// Bytes of the shortest request and response; shorter transfers are wake-ups and counters.
const MESSAGE_MIN: i64 = 16;

/// Totals of one system call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    /// Number of calls.
    pub(crate) count: u64,
    /// Number of calls that failed.
    pub(crate) errors: u64,
    /// Time on a processor.
    pub(crate) ran: Duration,
    /// Time off a processor: waiting for an event or for a processor.
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

/// State of a thread.
#[derive(Clone, Copy, Debug)]
enum Place {
    Unknown,
    Outside,
    Inside { call: u64, arguments: [u64; 2] },
}

#[derive(Debug)]
struct Thread {
    place: Place,
    /// End of the time accounted for so far.
    since: Instant,
    /// Whether it is on a processor; none until known.
    on: Option<bool>,
    /// Its processor time at that moment, if the events contain it.
    ran: Option<Duration>,
    /// Totals of the current call or of the current time outside calls.
    part: Cost,
}

/// The account.
#[derive(Debug)]
pub(crate) struct Account {
    threads: BTreeMap<u32, Thread>,
    calls: BTreeMap<(u64, Category), Cost>,
    user: Duration,
    preempted: Duration,
    voluntary: u64,
    involuntary: u64,
    seen: usize,
    /// For each process and descriptor, whether a request is unanswered.
    asked: HashMap<(u32, u64), bool>,
    exchanges: u64,
}

/// Totals of the account.
#[derive(Clone, Debug)]
pub(crate) struct Sum {
    /// Each call with its category.
    pub(crate) calls: Vec<(String, Category, Cost)>,
    /// Processor time outside calls: the program's own computing, and its page faults.
    pub(crate) user: Duration,
    /// Time outside calls without a processor, because another thread had it.
    pub(crate) preempted: Duration,
    /// Voluntary context switches: the thread waited.
    pub(crate) voluntary: u64,
    /// Involuntary context switches: another thread ran.
    pub(crate) involuntary: u64,
    /// Threads with any event.
    pub(crate) threads: usize,
    /// Responses begun on a descriptor after a request was received on it.
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

    /// Adds an event. Events of a thread must be in order of time.
    pub(crate) fn take(&mut self, event: &Event) {
        let seen = &mut self.seen;
        let thread = self.threads.entry(event.thread).or_insert_with(|| {
            *seen += 1;
            Thread {
                place: Place::Unknown,
                // Nothing is known before the first event: the thread may not have existed.
                since: event.at,
                on: None,
                ran: event.ran,
                part: Cost::default(),
            }
        });
        // A thread that gets a processor had none before; any other event needs one.
        let was_on = thread.on.unwrap_or(event.what != What::On);
        thread.pass(event.at, event.ran, was_on);
        thread.on = Some(!matches!(event.what, What::Off { .. }));
        match event.what {
            What::On => {}
            What::Off { preempted: true } => self.involuntary += 1,
            What::Off { preempted: false } => self.voluntary += 1,
            What::Enter { call, arguments } => {
                // A lost exit: the time belongs to no call.
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

    /// Totals at `end`; calls in progress count up to then.
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

    /// Counts the responses that follow a request on one descriptor.
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
    /// Advances the thread's time to `at`.
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

    /// System call numbers of x86-64.
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
