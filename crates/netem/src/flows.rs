//! The table of UDP flows: a bounded map whose entries end when they have been idle for long enough (RFC 4787,
//! section 4.3).
//!
//! ```text
//!  absent ── insert ──▶ open ── touch ──▶ open ─┬─ idle ─────────────────────────────────▶ expired
//!                                               └─ table full and idle the longest ──────▶ evicted by another
//! ```
//! Decides which flows there are, not what becomes of them: that is the caller's, who also brings the time.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use units::{Duration, Instant};

/// Flows of type `F` by their key, and by a number that is never used twice.
pub(super) struct Table<K, F> {
    numbers: HashMap<K, u64>,
    flows: HashMap<u64, Open<K, F>>,
    /// The last use of each flow, in order.
    uses: BTreeSet<(Instant, u64)>,
    next: u64,
    flows_max: usize,
    idle: Duration,
}

struct Open<K, F> {
    key: K,
    used: Instant,
    flow: F,
}

impl<K: Copy + Eq + Hash, F> Table<K, F> {
    /// An empty table for at most `flows_max` flows, at least one, that end after `idle` without use. Numbers start at
    /// `first`.
    pub(super) fn new(flows_max: usize, idle: Duration, first: u64) -> Table<K, F> {
        Table {
            numbers: HashMap::new(),
            flows: HashMap::new(),
            uses: BTreeSet::new(),
            next: first,
            flows_max: flows_max.max(1),
            idle,
        }
    }

    /// The number of a flow.
    pub(super) fn number(&self, key: &K) -> Option<u64> {
        self.numbers.get(key).copied()
    }

    /// The number that the next flow gets.
    pub(super) fn next_number(&self) -> u64 {
        self.next
    }

    pub(super) fn get(&self, number: u64) -> Option<&F> {
        self.flows.get(&number).map(|open| &open.flow)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut F> {
        self.flows.get_mut(&number).map(|open| &mut open.flow)
    }

    /// Whether a new flow evicts another.
    pub(super) fn is_full(&self) -> bool {
        self.flows.len() >= self.flows_max
    }

    /// Removes the flow that has been idle the longest.
    pub(super) fn evict(&mut self) -> Option<F> {
        let (_, number) = self.uses.first().copied()?;
        self.remove(number)
    }

    /// Adds a flow in use `now`. A full table loses another first; call [`Table::evict`] before to learn which.
    pub(super) fn insert(&mut self, key: K, flow: F, now: Instant) -> u64 {
        if let Some(old) = self.number(&key) {
            self.remove(old);
        }
        while self.is_full() {
            self.evict();
        }
        let number = self.next;
        self.next += 1;
        self.numbers.insert(key, number);
        self.uses.insert((now, number));
        let used = now;
        self.flows.insert(number, Open { key, used, flow });
        number
    }

    /// Records a use of a flow.
    pub(super) fn touch(&mut self, number: u64, now: Instant) {
        if let Some(open) = self.flows.get_mut(&number) {
            self.uses.remove(&(open.used, number));
            open.used = open.used.max(now);
            self.uses.insert((open.used, number));
        }
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<F> {
        let open = self.flows.remove(&number)?;
        self.numbers.remove(&open.key);
        self.uses.remove(&(open.used, number));
        Some(open.flow)
    }

    /// Removes the flows that have been idle for long enough; returns one of them, if there is one.
    pub(super) fn expired(&mut self, now: Instant) -> Option<F> {
        let due = self.next_expiry()?;
        if due <= now { self.evict() } else { None }
    }

    /// When the next flow expires if none is used.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.uses.first().map(|(used, _)| *used + self.idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_full_table_evicts_the_flow_that_has_been_idle_the_longest() {
        let mut table = Table::new(3, Duration::from_secs(120), 7);
        let numbers: Vec<u64> = (0..3).map(|key| table.insert(key, key * 10, at(key))).collect();
        assert_eq!(numbers, [7, 8, 9]);
        assert!(table.is_full());
        table.touch(7, at(5));
        assert_eq!(table.insert(3, 30, at(6)), 10);
        assert_eq!(table.number(&1), None, "the second was idle the longest");
        assert_eq!((table.number(&0), table.number(&2)), (Some(7), Some(9)));
        assert_eq!(table.evict(), Some(20));
        assert_eq!(table.get(10), Some(&30));
        // The same key again is the same flow no more.
        assert_eq!(table.insert(3, 31, at(7)), 11);
        assert_eq!((table.get(10), table.get(11)), (None, Some(&31)));
    }

    #[test]
    fn flows_expire_after_their_last_use_in_its_order() {
        let mut table = Table::new(10, Duration::from_secs(120), 1);
        assert_eq!(table.next_expiry(), None);
        let a = table.insert('a', 1, at(0));
        table.insert('b', 2, at(1));
        table.touch(a, at(50));
        assert_eq!(table.next_expiry(), Some(at(121)));
        assert_eq!(table.expired(at(120)), None);
        assert_eq!(table.expired(at(121)), Some(2));
        assert_eq!(table.expired(at(121)), None);
        // A use that is reported late does not make a flow older.
        table.touch(a, at(40));
        assert_eq!(table.expired(at(169)), None);
        assert_eq!(table.expired(at(170)), Some(1));
        assert_eq!((table.number(&'a'), table.next_expiry()), (None, None));
    }

    #[test]
    fn a_table_holds_at_least_one() {
        let mut table = Table::new(0, Duration::from_secs(1), 1);
        let number = table.insert('a', (), at(0));
        assert_eq!(table.get(number), Some(&()));
    }
}
