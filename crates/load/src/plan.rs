//! The request stream of a Surge run before any server has responded: user, file and time of each request.
//!
//! Users are simulated in virtual time in which every response takes the *nominal* time, by default zero. A user takes
//! the next object of the one shared sequence, is OFF, and takes the next. So the assignment of objects to users is
//! fixed before the run: each user then keeps its list and OFF times, and only the times depend on the server. Every
//! rank simulates all users (a heap entry and 56 bytes each) and keeps its own, so the union of the shards is the
//! whole.
//!
//! ```text
//!   START ──▶ session of N objects ─▶ object: file, active OFF, file, … ─▶ OFF ─▶ object … ─▶ session …
//! ```

use crate::arrivals::{Arrivals, Process, Schedule};
use crate::files::Class;
use crate::limits::USERS_MAX;
use crate::sequence::Sequence;
use crate::surge::Surge;
use crate::users::Habits;
use core::cmp::Reverse;
use serde::Serialize;
use std::collections::{BinaryHeap, VecDeque};
use units::{Duration, Instant, Seed};

/// The users of a run and their start times.
#[derive(Clone, Debug, PartialEq)]
pub enum Population {
    /// Closed system: user equivalents over all ranks that have one session after another.
    Users {
        /// Number of users.
        number: u32,
        /// Time between the starts of two users; 50 ms in the original.
        stagger: Duration,
    },
    /// Partly open system: users arrive, have one session and leave.
    Sessions {
        /// Arrival rate of users.
        schedule: Schedule,
        /// Arrival process of users.
        process: Process,
    },
}

impl Population {
    /// Whether each user has only one session.
    fn goes(&self) -> bool {
        matches!(self, Population::Sessions { .. })
    }
}

/// Settings of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// Users and their starts.
    pub who: Population,
    /// No object begins after this time.
    pub duration: Duration,
    /// Assumed time of every response.
    pub nominal: Duration,
    /// Number of machines; users are spread evenly over them by number.
    pub size: u32,
    /// Seed of all user behavior: OFF times, sessions and arrivals.
    pub seed: Seed,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Request {
    /// Position in the whole stream, from 0.
    pub n: u64,
    /// Number of the machine that sends it.
    pub rank: u32,
    /// Number of the user.
    pub user: u32,
    /// Session of the user, from 0.
    pub session: u64,
    /// Object number in the manifest.
    pub object: u32,
    /// File number in the manifest.
    pub file: u32,
    /// Path of the file.
    pub path: String,
    /// Role of the file in its object, if known.
    pub class: Option<Class>,
    /// Length of the file in bytes, if known.
    pub size: Option<u64>,
    /// Intended start of the object, in nanoseconds from the start of the run. `None` for its other files, which wait
    /// for responses.
    pub intended_ns: Option<u64>,
    /// OFF time of the user after this file, in nanoseconds.
    pub off_ns: u64,
    /// Whether the session ends with this file.
    pub last: bool,
}

/// State of a user between two objects.
#[derive(Debug)]
struct User {
    habits: Habits,
    session: u64,
    /// Objects left in the session.
    left: u64,
}

/// The request stream in the order in which objects begin; ties go by user number.
#[derive(Debug)]
pub struct Plan<'a> {
    surge: &'a Surge,
    layout: Layout,
    sequence: Sequence<'a>,
    users: Vec<User>,
    waiting: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Remaining requests of the current object.
    ready: VecDeque<Request>,
    n: u64,
}

/// The request stream of a workload. The sequence starts over at its end.
pub fn plan(surge: &Surge, layout: Layout) -> Plan<'_> {
    let starts = starts(&layout);
    Plan {
        surge,
        sequence: surge.sequence(),
        users: (0..starts.len() as u32)
            .map(|user| User {
                habits: Habits::new(layout.seed, user),
                session: 0,
                left: 0,
            })
            .collect(),
        waiting: (0..)
            .zip(starts)
            .map(|(user, start)| Reverse((start, user)))
            .collect(),
        layout,
        ready: VecDeque::new(),
        n: 0,
    }
}

/// Start time of each user.
fn starts(layout: &Layout) -> Vec<Instant> {
    match &layout.who {
        Population::Users { number, stagger } => {
            (0..*number).map(|user| Instant::ZERO + *stagger * user).collect()
        }
        Population::Sessions { schedule, process } => Arrivals::new(*process, schedule, layout.seed, 0, 1)
            .map(|(_, at)| at)
            .take_while(|&at| at < layout.duration)
            .take(USERS_MAX as usize)
            .map(|at| Instant::ZERO + at)
            .collect(),
    }
}

impl Plan<'_> {
    /// Number of users, including those that arrive later.
    pub fn users(&self) -> u32 {
        self.users.len() as u32
    }

    /// Simulates the user whose object begins next.
    fn object(&mut self) -> Option<()> {
        let Reverse((begin, number)) = self.waiting.pop()?;
        if begin.since(Instant::ZERO) >= self.layout.duration {
            // All other users begin even later.
            self.waiting.clear();
            return None;
        }
        let object = match self.sequence.next() {
            Some(object) => object,
            None => {
                self.sequence = self.surge.sequence();
                self.sequence.next()?
            }
        };
        let user = &mut self.users[number as usize];
        if user.left == 0 {
            user.left = user.habits.session_length(&self.surge.parameters);
        }
        let files = &self.surge.objects[object as usize].files;
        let mut at = begin;
        for (index, &file) in files.iter().enumerate() {
            let end = index + 1 == files.len();
            let off = if end {
                user.habits.off_time(&self.surge.parameters)
            } else {
                user.habits.active_off_time(&self.surge.parameters)
            };
            let about = self.surge.files[file as usize];
            self.ready.push_back(Request {
                n: self.n,
                rank: number % self.layout.size,
                user: number,
                session: user.session,
                object,
                file,
                path: format!("/{}", crate::site::surge::path(file, about.class)),
                class: Some(about.class),
                size: Some(about.size.0),
                intended_ns: (index == 0).then_some(begin.as_nanos()),
                off_ns: u64::try_from(off.as_nanos()).unwrap_or(u64::MAX),
                last: end && user.left == 1,
            });
            self.n += 1;
            at = at + self.layout.nominal + off;
        }
        user.left -= 1;
        if user.left == 0 {
            user.session += 1;
            if self.layout.who.goes() {
                return Some(());
            }
        }
        self.waiting.push(Reverse((at, number)));
        Some(())
    }
}

impl Iterator for Plan<'_> {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        if self.ready.is_empty() {
            self.object()?;
        }
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::of_session;
    use crate::parameters::{Parameters, Set};
    use client::plan::Mode;
    use std::collections::BTreeMap;

    fn surge(set: Set) -> Surge {
        Surge::new(Parameters::published(set), Seed(1)).unwrap()
    }

    fn layout(users: u32, seconds: u64, size: u32) -> Layout {
        Layout {
            who: Population::Users {
                number: users,
                stagger: Duration::from_millis(50),
            },
            duration: Duration::from_secs(seconds),
            nominal: Duration::ZERO,
            size,
            seed: Seed(1),
        }
    }

    #[test]
    fn the_union_of_the_shards_is_the_whole() {
        let surge = surge(Set::Table8);
        for size in [1, 2, 3, 7, 64] {
            let whole: Vec<Request> = plan(&surge, layout(40, 60, size)).collect();
            let mut union: Vec<Request> = (0..size)
                .flat_map(|rank| {
                    plan(&surge, layout(40, 60, size)).filter(move |request| request.rank == rank)
                })
                .collect();
            union.sort_by_key(|request| request.n);
            assert_eq!(union, whole, "{size} ranks");
            let alone: Vec<Request> = plan(&surge, layout(40, 60, 1)).collect();
            let unranked: Vec<Request> = whole
                .into_iter()
                .map(|request| Request { rank: 0, ..request })
                .collect();
            assert_eq!(unranked, alone, "{size} ranks");
        }
    }

    /// Objects follow the shared sequence; users think and stop as planned.
    #[test]
    fn users_take_turns_at_one_sequence() {
        let surge = surge(Set::Table8);
        let requests: Vec<Request> = plan(&surge, layout(40, 120, 1)).collect();
        let begun: Vec<&Request> = requests
            .iter()
            .filter(|request| request.intended_ns.is_some())
            .collect();
        let objects: Vec<u32> = begun.iter().map(|request| request.object).collect();
        let sequence: Vec<u32> = surge.sequence().take(objects.len()).collect();
        assert_eq!(objects, sequence);
        assert!(begun.is_sorted_by_key(|request| request.intended_ns));
        let cycle = 120.0 * 40.0 / begun.len() as f64;
        assert!((2.5..4.5).contains(&cycle), "{cycle} s per object");
        let mut next: BTreeMap<u32, u64> = BTreeMap::new();
        for user in 0..40 {
            assert_eq!(
                begun
                    .iter()
                    .find(|request| request.user == user)
                    .unwrap()
                    .intended_ns,
                Some(u64::from(user) * 50_000_000)
            );
        }
        let mut waits: BTreeMap<u32, u64> = BTreeMap::new();
        for request in &requests {
            if let Some(at) = request.intended_ns {
                assert_eq!(*next.get(&request.user).unwrap_or(&at), at);
                waits.insert(request.user, at);
            }
            *waits.get_mut(&request.user).unwrap() += request.off_ns;
            next.insert(request.user, waits[&request.user]);
        }
    }

    /// Claim bc-11, counted over a plan.
    #[test]
    fn connections_follow_from_sessions() {
        let surge = surge(Set::Table8);
        let mut sessions: BTreeMap<(u32, u64), Vec<u64>> = BTreeMap::new();
        let mut requests = 0;
        for request in plan(&surge, layout(40, 60, 1)) {
            let session = sessions.entry((request.user, request.session)).or_default();
            if request.intended_ns.is_some() {
                session.push(0);
            }
            *session.last_mut().unwrap() += 1;
            requests += 1;
        }
        let count = |mode: Mode| {
            sessions
                .values()
                .map(|session| of_session(mode, session))
                .sum::<u64>()
        };
        let objects: usize = sessions.values().map(Vec::len).sum();
        assert_eq!(count(Mode::Http10), requests);
        assert_eq!(count(Mode::EarlyClose), objects as u64);
        assert_eq!(count(Mode::Serial), sessions.len() as u64);
        assert_eq!(count(Mode::Pipelined), sessions.len() as u64);
    }

    #[test]
    fn the_sequence_begins_again() {
        let parameters = Parameters::with(Set::Table8, &[("files", "3"), ("references", "3")]).unwrap();
        let surge = Surge::new(parameters, Seed(1)).unwrap();
        let pass = surge.sequence_length() as usize;
        let begun: Vec<u32> = plan(&surge, layout(5, 60, 1))
            .filter(|request| request.intended_ns.is_some())
            .map(|request| request.object)
            .collect();
        assert!(begun.len() > 3 * pass);
        assert_eq!(begun[..pass], begun[pass..2 * pass]);
    }

    #[test]
    fn active_off_times_stand_between_files() {
        let surge = surge(Set::First);
        let requests: Vec<Request> = plan(&surge, layout(20, 60, 1)).collect();
        assert!(
            requests
                .windows(2)
                .any(|pair| pair[1].intended_ns.is_none() && pair[0].off_ns > 0)
        );
        assert!(plan(&surge, layout(0, 60, 1)).next().is_none());
        assert!(plan(&surge, layout(5, 0, 1)).next().is_none());
    }

    /// Sessions are complete and as drawn, and no user has a second one.
    #[test]
    fn sessions_come_and_go() {
        let surge = surge(Set::Table8);
        let layout = Layout {
            who: Population::Sessions {
                schedule: Schedule::constant(5.0),
                process: Process::Poisson,
            },
            ..layout(0, 200, 3)
        };
        let requests: Vec<Request> = plan(&surge, layout).collect();
        let mut starts: BTreeMap<u32, u64> = BTreeMap::new();
        let mut ends = 0;
        for request in &requests {
            assert_eq!(request.session, 0);
            if let Some(at) = request.intended_ns {
                starts.entry(request.user).or_insert(at);
            }
            ends += u32::from(request.last);
        }
        // Expected are 1,000 with a standard deviation of 32; the end cuts off some.
        assert!((870..1130).contains(&starts.len()), "{}", starts.len());
        assert!(ends as usize > starts.len() * 8 / 10 && ends as usize <= starts.len());
        let starts: Vec<u64> = starts.into_values().collect();
        assert!(starts.is_sorted());
    }

    #[test]
    fn a_user_is_small() {
        assert!(size_of::<User>() + size_of::<Reverse<(Instant, u32)>>() <= 80);
    }
}
