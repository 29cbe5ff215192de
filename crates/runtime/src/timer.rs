//! A coarse timer wheel: which connections to ask for their deadline, and when.
//!
//! ```text
//!   tick  ... 7   8   9   10  ...  262        slot = tick mod 256
//!             │       └▶ c3 ⇄ c1               later than 255 ticks: in the last slot, put back in
//!             └▶ c7                            when its turn comes
//! ```
//! Lists use links inside the entries, so arming and disarming neither search nor allocate. The wheel is lazy: it says
//! "ask", never "expired"; the owner of the deadline decides. It fires up to one tick late, never early. It reads no
//! clock.

use units::{Duration, Instant};

const SLOTS: u32 = 256;
const NONE: u32 = u32::MAX;
/// Marks a `previous` link that points to a slot rather than an entry.
const HEAD: u32 = 1 << 31;

#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
}

const UNLINKED: Link = Link {
    previous: NONE,
    next: NONE,
};
const PAGE: usize = 256;

/// The wheel. Entries are numbers below 2^31, small and dense.
#[derive(Debug)]
pub(crate) struct Wheel {
    origin: Instant,
    /// Nanoseconds.
    tick: u64,
    /// Every slot up to and including this tick has been emptied.
    done: u64,
    heads: [u32; SLOTS as usize],
    occupied: [u64; SLOTS as usize / 64],
    #[expect(clippy::vec_box, reason = "growing must add a page, not copy those there are")]
    links: Vec<Box<[Link; PAGE]>>,
}

impl Wheel {
    pub(crate) fn new(origin: Instant, tick: Duration) -> Wheel {
        Wheel {
            origin,
            tick: u64::try_from(tick.as_nanos()).unwrap_or(u64::MAX).max(1),
            done: 0,
            heads: [NONE; SLOTS as usize],
            occupied: [0; SLOTS as usize / 64],
            links: Vec::new(),
        }
    }

    /// Bytes of memory per entry.
    #[cfg(test)]
    pub(crate) const ENTRY_SIZE: usize = size_of::<Link>();

    /// Nanoseconds from the origin.
    #[inline]
    fn nanos(&self, at: Instant) -> u64 {
        at.as_nanos().saturating_sub(self.origin.as_nanos())
    }

    /// An instant on a scale no coarser than the wheel, for comparing thousands of stored instants. It saturates after
    /// 2^32 of its units; with a tick of 250 ms, that is 18 years.
    #[inline]
    pub(crate) fn coarse(&self, at: Instant) -> u32 {
        u32::try_from(self.nanos(at) >> self.tick.ilog2()).unwrap_or(u32::MAX)
    }

    fn link(&mut self, entry: u32) -> &mut Link {
        &mut self.links[entry as usize / PAGE][entry as usize % PAGE]
    }

    fn set_occupied(&mut self, slot: u32, occupied: bool) {
        let bit = 1 << (slot % 64);
        let word = &mut self.occupied[slot as usize / 64];
        *word = if occupied { *word | bit } else { *word & !bit };
    }

    /// Inserts an entry to be asked at `due` or up to one tick later; moves it if it is already in the wheel.
    pub(crate) fn arm(&mut self, entry: u32, due: Instant) {
        debug_assert!(entry < HEAD);
        while entry as usize / PAGE >= self.links.len() {
            self.links.push(Box::new([UNLINKED; PAGE]));
        }
        self.disarm(entry);
        let ticks = self.nanos(due).div_ceil(self.tick);
        let slot = (ticks.clamp(self.done + 1, self.done + u64::from(SLOTS) - 1) % u64::from(SLOTS)) as u32;
        let next = std::mem::replace(&mut self.heads[slot as usize], entry);
        if next != NONE {
            self.link(next).previous = entry;
        }
        *self.link(entry) = Link {
            previous: HEAD | slot,
            next,
        };
        self.set_occupied(slot, true);
    }

    /// Removes an entry, if it is in the wheel.
    pub(crate) fn disarm(&mut self, entry: u32) {
        let Some(page) = self.links.get_mut(entry as usize / PAGE) else {
            return;
        };
        let Link { previous, next } = std::mem::replace(&mut page[entry as usize % PAGE], UNLINKED);
        if previous == NONE {
            return;
        }
        if next != NONE {
            self.link(next).previous = previous;
        }
        if previous & HEAD != 0 {
            let slot = previous & !HEAD;
            self.heads[slot as usize] = next;
            self.set_occupied(slot, next != NONE);
        } else {
            self.link(previous).next = next;
        }
    }

    /// When the next entry is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        let first = ((self.done + 1) % u64::from(SLOTS)) as u32;
        let mut distance = 0;
        while distance < SLOTS {
            let slot = (first + distance) % SLOTS;
            let word = self.occupied[slot as usize / 64] >> (slot % 64);
            if word != 0 {
                let ticks = self.done + 1 + u64::from(distance + word.trailing_zeros());
                return Some(self.origin + Duration::from_nanos(self.tick.saturating_mul(ticks)));
            }
            distance += 64 - slot % 64;
        }
        None
    }

    /// Whether [`Wheel::expire`] may find something: asked in each turn, so without a division.
    #[inline]
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.nanos(now) >= self.tick.saturating_mul(self.done + 1)
    }

    /// Removes all entries that are due by `now`.
    pub(crate) fn expire(&mut self, now: Instant, due: &mut Vec<u32>) {
        let now_ticks = self.nanos(now) / self.tick;
        if now_ticks <= self.done {
            return;
        }
        let last = now_ticks.min(self.done + u64::from(SLOTS));
        for tick in self.done + 1..=last {
            let slot = (tick % u64::from(SLOTS)) as u32;
            let mut entry = std::mem::replace(&mut self.heads[slot as usize], NONE);
            self.set_occupied(slot, false);
            while entry != NONE {
                due.push(entry);
                entry = std::mem::replace(self.link(entry), UNLINKED).next;
            }
        }
        self.done = now_ticks;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use units::Seed;

    const TICK: Duration = Duration::from_millis(250);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn expired(wheel: &mut Wheel, now: Instant) -> Vec<u32> {
        let mut due = Vec::new();
        let is_due = wheel.is_due(now);
        wheel.expire(now, &mut due);
        assert!(is_due || due.is_empty(), "{due:?}");
        assert!(!wheel.is_due(now), "all ticks up to now are emptied");
        due.sort_unstable();
        due
    }

    #[test]
    fn fires_within_a_tick_and_never_early() {
        let mut wheel = Wheel::new(Instant::ZERO, TICK);
        assert_eq!(wheel.next(), None);
        wheel.arm(5, at(1_001));
        wheel.arm(6, at(1_000));
        wheel.arm(7, at(900));
        assert_eq!(wheel.next(), Some(at(1_000)));
        assert_eq!(expired(&mut wheel, at(999)), []);
        assert_eq!(expired(&mut wheel, at(1_000)), [6, 7]);
        assert_eq!(wheel.next(), Some(at(1_250)));
        wheel.disarm(5);
        assert_eq!(wheel.next(), None);
        wheel.arm(5, at(0));
        assert_eq!(
            wheel.next(),
            Some(at(1_250)),
            "a time gone by is asked for at the next tick"
        );
    }

    #[test]
    fn far_deadlines_come_up_for_being_put_back() {
        let mut wheel = Wheel::new(Instant::ZERO, TICK);
        wheel.arm(1, at(3_600_000));
        let first = wheel.next().unwrap();
        assert!(first < at(3_600_000) && first > at(60_000));
        assert_eq!(expired(&mut wheel, first), [1]);
        wheel.arm(2, Instant::ZERO + Duration::MAX);
        assert!(wheel.next().is_some());
        assert_eq!(
            expired(&mut wheel, at(3_600_000_000)),
            [2],
            "a jump of the clock loses nobody"
        );
    }

    #[test]
    fn agrees_with_a_sorted_map() {
        let seed = Seed(7);
        let mut rng = seed.rng();
        let mut draw = |n: u64| rand_xoshiro_next(&mut rng) % n;
        let mut wheel = Wheel::new(Instant::ZERO, TICK);
        let mut model: BTreeMap<u32, u64> = BTreeMap::new();
        let mut now = 0;
        for _ in 0..20_000 {
            let entry = draw(700) as u32;
            match draw(4) {
                0 => {
                    wheel.disarm(entry);
                    model.remove(&entry);
                }
                1 => {
                    now += draw(400);
                    let floor = now / 250 * 250;
                    let want: Vec<u32> = model
                        .iter()
                        .filter(|&(_, &ms)| ms <= floor)
                        .map(|(&e, _)| e)
                        .collect();
                    assert_eq!(expired(&mut wheel, at(now)), want, "{seed} at {now} ms");
                    model.retain(|_, ms| *ms > floor);
                }
                _ => {
                    let due = now + 1 + draw(60_000);
                    wheel.arm(entry, at(due));
                    model.insert(entry, due);
                }
            }
        }
    }

    fn rand_xoshiro_next(rng: &mut units::Rng) -> u64 {
        use units::Draw as _;
        rng.next_u64()
    }
}
