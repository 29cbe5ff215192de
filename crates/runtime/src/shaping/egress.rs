//! One worker's access to the line: waiting responses in order, and a bucket shared with other workers.

use super::order::{Order, Pick, Right};
use super::{Bucket, FULL, SEGMENT, Shaping, on_the_line};
use crate::slot::Id;
use std::collections::HashMap;
use std::sync::Arc;
use units::{Duration, Instant};

/// Output that a worker holds back because the line is busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Withheld {
    /// Responses waiting now.
    pub answers: usize,
    /// Their unsent bytes.
    pub bytes: u64,
    /// Responses that had to wait so far.
    pub waited: u64,
    /// Sum of their waiting times so far; for responses waiting now, only earlier waits.
    pub time: Duration,
}

/// Permission to send this many content bytes of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) id: Id,
    /// Never zero.
    pub(crate) bytes: u64,
    right: Right,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    id: Id,
    /// Since when it waits, if it does.
    since: Option<Instant>,
    /// How long it waited before that, since it last advanced.
    before: Duration,
    /// The round in which it came: how often everything sendable had been sent.
    round: u64,
    /// Whether it had to wait before.
    waited: bool,
}

/// Connects a worker's sockets with the line.
#[derive(Debug)]
pub(crate) struct Egress {
    bucket: Arc<Bucket>,
    order: Order,
    held: HashMap<u32, Held>,
    /// Line bytes that are worth a wake-up.
    worth: u64,
    round: u64,
    waited: u64,
    time: Duration,
}

impl Egress {
    /// An egress queue that takes from this bucket.
    pub(crate) fn new(shaping: Shaping, bucket: Arc<Bucket>) -> Egress {
        let burst = bucket.burst();
        Egress {
            order: Order::new(shaping.precedence, burst / 8),
            held: HashMap::new(),
            worth: (burst / 4).max(FULL),
            round: 0,
            waited: 0,
            time: Duration::ZERO,
            bucket,
        }
    }

    /// This response has `left` bytes to send, at least one, and waits for the line; `beyond` bytes of it follow later.
    pub(crate) fn hold(&mut self, id: Id, left: u64, beyond: u64, now: Instant) {
        self.order.wait(id.index, left, beyond);
        let held = self.held.entry(id.index).or_insert(Held {
            id,
            since: None,
            before: Duration::ZERO,
            round: self.round,
            waited: false,
        });
        held.since.get_or_insert(now);
        held.round = self.round;
    }

    /// The next response and how many of its bytes may leave, if any may. Report the outcome to [`Egress::used`] before
    /// the next call.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Grant> {
        let Some(Pick {
            index,
            left,
            most,
            right,
        }) = self.order.next()
        else {
            self.round += 1;
            return None;
        };
        let wanted = left.min(most);
        let whole = on_the_line(wanted);
        let taken = self.bucket.take(on_the_line(wanted.min(SEGMENT)), whole, now);
        if taken == 0 {
            self.round += 1;
            return None;
        }
        // Whole segments, unless everything that is left fits.
        let bytes = match taken == whole {
            true => wanted,
            false => taken / FULL * SEGMENT,
        };
        self.bucket.give_back(taken - on_the_line(bytes));
        self.order.leave(index);
        let held = self.held.get_mut(&index)?;
        let waited = held.since.take().map_or(Duration::ZERO, |since| now - since);
        held.before += waited;
        if held.round != self.round {
            self.time += waited;
            self.waited += u64::from(!std::mem::replace(&mut held.waited, true));
        }
        Some(Grant {
            id: held.id,
            bytes,
            right,
        })
    }

    /// Reports how many of the granted bytes were sent.
    pub(crate) fn used(&mut self, grant: Grant, sent: u64) {
        let sent = sent.min(grant.bytes);
        self.bucket
            .give_back(on_the_line(grant.bytes) - on_the_line(sent));
        self.order.got(grant.right, sent);
    }

    /// Notes that the response's session was told of progress.
    pub(crate) fn advanced(&mut self, id: Id) {
        if let Some(held) = self.held.get_mut(&id.index).filter(|held| held.id == id) {
            held.before = Duration::ZERO;
        }
    }

    /// How long this response has waited for the line since it last advanced: time in which its peer was offered
    /// nothing.
    pub(crate) fn waited(&self, id: Id, now: Instant) -> Duration {
        let Some(held) = self.held.get(&id.index).filter(|held| held.id == id) else {
            return Duration::ZERO;
        };
        held.before + held.since.map_or(Duration::ZERO, |since| now - since)
    }

    /// This response has nothing more to send, or its connection is gone.
    pub(crate) fn forget(&mut self, id: Id) {
        if self.held.get(&id.index).is_some_and(|held| held.id == id) {
            self.held.remove(&id.index);
            self.order.forget(id.index);
        }
    }

    /// When to ask again, if any response waits.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        let pick = self.order.next()?;
        // The next response may have less left; but waking a worker for each of many small rests would cost too much.
        let enough = on_the_line(pick.left.min(SEGMENT)).max(self.worth);
        Some(self.bucket.ready_at(enough, now))
    }

    /// What is held back now.
    pub(crate) fn withheld(&self) -> Withheld {
        Withheld {
            answers: self.order.waiting(),
            bytes: self.order.waiting_bytes(),
            waited: self.waited,
            time: self.time,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shaping::Precedence;
    use units::{Draw, Rate, Seed};

    fn egress(rate: Rate) -> Egress {
        let shaping = Shaping {
            rate,
            precedence: Precedence::Smallest,
        };
        Egress::new(shaping, Arc::new(Bucket::new(shaping)))
    }

    fn id(index: u32) -> Id {
        Id { index, generation: 0 }
    }

    const START: Instant = Instant::from_nanos(1 << 40);

    /// Sends all waiting responses as fast as allowed; returns when each was sent.
    fn run(egress: &mut Egress, sizes: &[u64]) -> Vec<(u32, Duration)> {
        let mut left = sizes.to_vec();
        let mut now = START;
        for (index, size) in sizes.iter().enumerate() {
            egress.hold(id(index as u32), *size, 0, now);
        }
        let mut ends = Vec::new();
        loop {
            while let Some(grant) = egress.next(now) {
                egress.used(grant, grant.bytes);
                let rest = &mut left[grant.id.index as usize];
                *rest -= grant.bytes;
                match *rest {
                    0 => {
                        egress.forget(grant.id);
                        ends.push((grant.id.index, now.since(START)));
                    }
                    rest => egress.hold(grant.id, rest, 0, now),
                }
            }
            let Some(due) = egress.due(now) else { return ends };
            assert!(due > now, "it would be asked for ever");
            now = due;
        }
    }

    #[test]
    fn a_small_answer_is_sent_before_a_large_one_that_began_earlier() {
        let mut egress = egress(Rate::mbit(20));
        let ends = run(&mut egress, &[1_000_000, 10_000]);
        assert_eq!([ends[0].0, ends[1].0], [1, 0]);
        // 10 kB take 4 ms of the line, minus the first burst, plus the other's share.
        assert!(ends[0].1 < Duration::from_millis(5), "{:?}", ends[0]);
        // 1010 kB with headers at 99 % of 20 Mbit/s.
        assert!(
            ends[1].1 > Duration::from_millis(418) && ends[1].1 < Duration::from_millis(426),
            "{:?}",
            ends[1]
        );
        let withheld = egress.withheld();
        assert_eq!((withheld.answers, withheld.bytes, withheld.waited), (0, 0, 2));
        assert!(withheld.time > Duration::from_millis(400), "{withheld:?}");
    }

    /// Large responses of one size, more than the line carries soon: all are sent, and none of their peers appears slow
    /// meanwhile, however long it received nothing.
    #[test]
    fn who_waits_for_the_line_is_not_slow() {
        const SIZE: u64 = 1_000_000;
        let mut egress = egress(Rate::mbit(20));
        let mut now = START;
        // Bytes left of each, and when some were last taken.
        let mut answers = [(SIZE, START); 3];
        for index in 0..3 {
            egress.hold(id(index), SIZE, 0, START);
        }
        let mut longest = Duration::ZERO;
        let (mut first, mut second_then) = (None, 0);
        while answers.iter().any(|(left, _)| *left > 0) {
            while let Some(grant) = egress.next(now) {
                egress.used(grant, grant.bytes);
                egress.advanced(grant.id);
                let (left, latest) = &mut answers[grant.id.index as usize];
                (*left, *latest) = (*left - grant.bytes, now);
                match *left {
                    0 => egress.forget(grant.id),
                    left => egress.hold(grant.id, left, 0, now),
                }
            }
            if answers[0].0 == 0 && first.is_none() {
                first = Some(now - START);
                second_then = SIZE - answers[1].0;
            }
            now = egress.due(now).unwrap_or(now);
            for (index, (left, latest)) in answers.iter().enumerate() {
                let silent = now - *latest;
                let waited = egress.waited(id(index as u32), now);
                if *left > 0 {
                    assert_eq!(silent, waited, "{index}");
                    longest = longest.max(silent);
                }
            }
        }
        let first = first.expect("it was sent");
        // Seven eighths of 2.475 MB/s, and the rest for the second one.
        assert!(
            first > Duration::from_millis(470) && first < Duration::from_millis(490),
            "{first:?}"
        );
        assert!(second_then > 135_000 && second_then < 150_000, "{second_then}");
        assert!(longest > Duration::from_millis(450), "{longest:?}");
    }

    #[test]
    fn a_socket_that_takes_nothing_is_not_excused() {
        let mut egress = egress(Rate::mbit(20));
        let after = |millis| START + Duration::from_millis(millis);
        egress.hold(id(0), 100 * SEGMENT, 0, START);
        let grant = egress.next(after(40)).expect("the bucket is full");
        egress.used(grant, 0);
        assert_eq!(egress.waited(id(0), after(900)), Duration::from_millis(40));
        egress.hold(id(0), 100 * SEGMENT, 0, after(1_000));
        assert_eq!(egress.waited(id(0), after(1_005)), Duration::from_millis(45));
        egress.advanced(id(0));
        assert_eq!(egress.waited(id(0), after(1_005)), Duration::from_millis(5));
        let other = Id {
            index: 0,
            generation: 1,
        };
        assert_eq!(egress.waited(other, after(1_005)), Duration::ZERO);
    }

    #[test]
    fn what_a_socket_does_not_take_the_next_one_gets() {
        let mut egress = egress(Rate::mbit(20));
        egress.hold(id(0), 2 * SEGMENT, 0, START);
        egress.hold(id(1), 100 * SEGMENT, 0, START);
        let first = egress.next(START).expect("the bucket is full");
        assert_eq!((first.id, first.bytes), (id(0), 2 * SEGMENT));
        egress.used(first, 0);
        let second = egress.next(START).expect("nothing was taken yet");
        // Returned bytes are rounded down, so one byte is missing for a fourth segment.
        assert_eq!((second.id, second.bytes), (id(1), 3 * SEGMENT));
        egress.used(second, 2 * SEGMENT);
        egress.hold(id(0), 2 * SEGMENT, 0, START);
        let third = egress.next(START).expect("a segment is left");
        assert_eq!((third.id, third.bytes), (id(0), SEGMENT));
    }

    #[test]
    fn who_has_gone_is_not_picked() {
        let mut egress = egress(Rate::mbit(20));
        egress.hold(id(0), 5, 0, START);
        let other = Id {
            index: 0,
            generation: 1,
        };
        egress.forget(other);
        assert_eq!(egress.withheld().answers, 1);
        egress.forget(id(0));
        assert_eq!(
            (egress.next(START), egress.due(START), egress.withheld().bytes),
            (None, None, 0)
        );
    }

    /// Responses of any size come and go, and the sockets of some take less than offered. Sending keeps to the rate,
    /// and while any response can send, less than a segment is held back.
    #[test]
    fn what_may_be_sent_is_sent_and_nothing_beyond() {
        for seed in 0..20 {
            let mut rng = Seed(seed).rng();
            let mut below = |bound: u64| rng.next_u64() % bound;
            let mut egress = egress(Rate::mbit(20));
            let mut left: HashMap<u32, u64> = HashMap::new();
            let mut blocked: Vec<u32> = Vec::new();
            let (mut now, mut came, mut sent) = (START, 0, 0);
            for _ in 0..3_000 {
                now = now + Duration::from_nanos(below(1_500_000));
                if below(3) == 0 {
                    let most = 1 << (1 + below(18));
                    let size = 1 + below(most);
                    left.insert(came, size);
                    egress.hold(id(came), size, 0, now);
                    came += 1;
                }
                for index in blocked.drain(..) {
                    egress.hold(id(index), left[&index], 0, now);
                }
                while let Some(grant) = egress.next(now) {
                    let takes = match below(4) {
                        0 => below(grant.bytes + 1),
                        _ => grant.bytes,
                    };
                    egress.used(grant, takes);
                    sent += on_the_line(takes);
                    let index = grant.id.index;
                    let rest = left.get_mut(&index).expect("it waited");
                    *rest -= takes;
                    match *rest {
                        0 => egress.forget(grant.id),
                        _ if takes < grant.bytes => blocked.push(index),
                        rest => egress.hold(grant.id, rest, 0, now),
                    }
                }
                if egress.withheld().answers > 0 {
                    assert_eq!(
                        egress.bucket.take(FULL, FULL, now),
                        0,
                        "seed {seed}: nobody was given it"
                    );
                }
                let span = u64::try_from(now.since(START).as_nanos()).expect("seconds");
                assert!(
                    sent <= span * 2_475 / 1_000_000 + 6_000,
                    "seed {seed}: {sent} in {span} ns"
                );
            }
            assert!(sent > 1_000_000, "seed {seed}: {sent}");
        }
    }

    /// Two workers together send no more than one would.
    #[test]
    fn workers_share_one_bucket() {
        let shaping = Shaping {
            rate: Rate::mbit(8),
            precedence: Precedence::Smallest,
        };
        let bucket = Arc::new(Bucket::new(shaping));
        let mut gates = [0, 1].map(|_| Egress::new(shaping, Arc::clone(&bucket)));
        let mut sent = [0, 0];
        let (mut now, mut turn) = (START, 0);
        let end = START + Duration::from_secs(1);
        for egress in &mut gates {
            egress.hold(id(0), 1 << 30, 0, START);
        }
        while now < end {
            turn ^= 1;
            let egress = &mut gates[turn];
            if let Some(grant) = egress.next(now) {
                egress.used(grant, grant.bytes);
                sent[turn] += on_the_line(grant.bytes);
                egress.hold(grant.id, 1 << 30, 0, now);
            }
            now = now.max(gates[turn ^ 1].due(now).expect("it waits"));
        }
        let sum = sent[0] + sent[1];
        assert!(sum <= 990_000 + 6_000 && sum > 980_000, "{sent:?}");
        assert!(sent.iter().all(|sent| *sent > 400_000), "{sent:?}");
    }
}
