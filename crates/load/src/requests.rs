//! The request streams of arrivals and of clients without think time. [`crate::plan`] does this for Surge users.
//!
//! Objects come from the [`RequestSource`] that a run uses. For clients every response takes the *nominal* time, as in
//! [`crate::plan`]. In a run they keep the order of their objects, and only the times depend on the server. Every rank
//! computes the whole stream and keeps its own part.

use crate::arrivals::Arrivals;
use crate::plan::Request;
use crate::request_source::{Dealt, RequestSource};
use crate::work::Work;
use core::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use units::{Duration, Instant};

/// An object with its user and start time.
struct Begun<'a> {
    user: u32,
    rank: u32,
    files: &'a [u32],
    at: Instant,
}

impl Begun<'_> {
    /// The requests of its files; with `goes`, the last one ends the session.
    fn requests(&self, work: &Work, goes: bool, n: &mut u64) -> VecDeque<Request> {
        let each = self.files.iter().enumerate().map(|(index, &file)| {
            let target = &work.files[file as usize];
            *n += 1;
            Request {
                n: *n - 1,
                rank: self.rank,
                user: self.user,
                session: 0,
                object: 0,
                file,
                path: target.path.clone().into(),
                class: target.class,
                size: target.bytes,
                intended_ns: (index == 0).then_some(self.at.as_nanos()),
                off_ns: 0,
                last: goes && index + 1 == self.files.len(),
            }
        });
        each.collect()
    }
}

/// The stream of objects that arrive before `until`, independent of responses. Every arrival is a user with one object,
/// due at the arrival time.
pub fn arriving(
    work: &Work,
    mut dealt: Dealt,
    arrivals: Arrivals,
    until: Duration,
    size: u32,
) -> impl Iterator<Item = Request> + '_ {
    let mut n = 0;
    arrivals
        .take_while(move |&(_, at)| at < until)
        .flat_map(move |(number, at)| {
            let object = dealt.object(work, number);
            let begun = Begun {
                user: u32::try_from(number).unwrap_or(u32::MAX),
                rank: (number % u64::from(size)) as u32,
                files: &work.objects[object as usize],
                at: Instant::ZERO + at,
            };
            let mut requests = begun.requests(work, true, &mut n);
            requests.iter_mut().for_each(|request| request.object = object);
            requests
        })
}

/// Clients that request one object after another.
#[derive(Debug)]
pub struct Clients<'a> {
    work: &'a Work,
    supplies: Vec<RequestSource>,
    until: Duration,
    nominal: Duration,
    size: u32,
    waiting: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Remaining requests of the current object.
    ready: VecDeque<Request>,
    n: u64,
}

/// The stream of clients with these supplies, who all start at once; no object begins after `until`. Client numbers are
/// spread over `size` machines. `nominal` is at least 1 ns: without it, clients would request endlessly at one instant.
pub fn clients(
    work: &Work,
    supplies: Vec<RequestSource>,
    until: Duration,
    nominal: Duration,
    size: u32,
) -> Clients<'_> {
    Clients {
        work,
        waiting: (0..supplies.len() as u32)
            .map(|client| Reverse((Instant::ZERO, client)))
            .collect(),
        supplies,
        until,
        nominal: nominal.max(Duration::from_nanos(1)),
        size,
        ready: VecDeque::new(),
        n: 0,
    }
}

impl Iterator for Clients<'_> {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        while self.ready.is_empty() {
            let Reverse((at, client)) = self.waiting.pop()?;
            if at.since(Instant::ZERO) >= self.until {
                self.waiting.clear();
                return None;
            }
            let Some(object) = self.supplies[client as usize].object() else {
                continue;
            };
            let begun = Begun {
                user: client,
                rank: client % self.size,
                files: &self.work.objects[object as usize],
                at,
            };
            let files = begun.files.len().max(1) as u32;
            self.ready = begun.requests(self.work, false, &mut self.n);
            self.ready.iter_mut().for_each(|request| request.object = object);
            self.waiting.push(Reverse((at + self.nominal * files, client)));
        }
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrivals::{Process, Schedule};
    use crate::webstone::List;
    use std::sync::Arc;
    use units::Seed;

    fn work() -> Work {
        let mut work = Work::of_paths(["/a", "/b", "/c", "/d", "/e"].map(str::to_owned));
        work.objects = vec![[0, 1].into(), [2].into(), [3, 4, 0].into()];
        work
    }

    /// Each client requests the objects of its source, at times that follow from the nominal time.
    #[test]
    fn clients_take_turns() {
        let (work, order) = (work(), Arc::from([0, 1, 2]));
        let turn = |next| RequestSource::Turn {
            order: Arc::clone(&order),
            next,
            stride: 2,
        };
        let nominal = Duration::from_millis(10);
        let until = Duration::from_millis(35);
        let requests: Vec<Request> = clients(&work, vec![turn(0), turn(1)], until, nominal, 2).collect();
        let of = |user: u32| -> Vec<(u32, u32, Option<u64>)> {
            let mine = requests.iter().filter(|request| request.user == user);
            mine.map(|request| {
                (
                    request.object,
                    request.file,
                    request.intended_ns.map(|ns| ns / 1_000_000),
                )
            })
            .collect()
        };
        assert_eq!(
            of(0),
            [
                (0, 0, Some(0)),
                (0, 1, None),
                (2, 3, Some(20)),
                (2, 4, None),
                (2, 0, None)
            ]
        );
        assert_eq!(
            of(1),
            [
                (1, 2, Some(0)),
                (0, 0, Some(10)),
                (0, 1, None),
                (2, 3, Some(30)),
                (2, 4, None),
                (2, 0, None)
            ]
        );
        assert!(
            requests
                .iter()
                .zip(0..)
                .all(|(request, n)| request.n == n && request.rank == request.user)
        );
        assert!(requests.is_sorted_by_key(|request| request.n));
        assert_eq!(
            clients(&work, vec![turn(0)], until, Duration::ZERO, 1)
                .take(1000)
                .count(),
            1000
        );
    }

    /// Every arrival of the process has its own object, whichever rank owns it.
    #[test]
    fn arrivals_are_dealt_one_object_each() {
        let list = List::Table1;
        let work = Work::of_paths(list.files().iter().map(|file| format!("/{}", file.size.0)));
        let process = |shard, shards| {
            Arrivals::new(
                Process::Poisson,
                &Schedule::constant(200.0),
                Seed(1),
                shard,
                shards,
            )
        };
        let dealt = || Dealt::new(RequestSource::Weighted(list.choices(Seed(1), 0)));
        let until = Duration::from_secs(3);
        let whole: Vec<Request> = arriving(&work, dealt(), process(0, 1), until, 4).collect();
        assert!(whole.len() > 400, "{}", whole.len());
        for rank in 0..4 {
            let mut mine = dealt();
            let sent: Vec<(u64, u32)> = process(rank, 4)
                .take_while(|&(_, at)| at < until)
                .map(|(number, _)| (number, mine.object(&work, number)))
                .collect();
            let told: Vec<(u64, u32)> = whole
                .iter()
                .filter(|request| u64::from(request.rank) == rank)
                .map(|request| (u64::from(request.user), request.object))
                .collect();
            assert_eq!(sent, told, "rank {rank}");
        }
    }
}
