//! The largest few of many items in bounded memory, for lists in reports.

/// Keeps the `room` largest items by rank; of equal ranks, the earliest.
#[derive(Debug)]
pub(super) struct Largest<T, R> {
    room: usize,
    kept: Vec<(R, u64, T)>,
    /// Items with at most this rank are no longer among the largest.
    floor: Option<R>,
    seen: u64,
}

impl<T, R: Ord + Copy> Largest<T, R> {
    pub(super) fn new(room: usize) -> Largest<T, R> {
        Largest {
            room,
            kept: Vec::new(),
            floor: None,
            seen: 0,
        }
    }

    /// Offers an item, which is built only if it may be kept.
    pub(super) fn offer(&mut self, rank: R, make: impl FnOnce() -> T) {
        self.seen += 1;
        if self.room == 0 || self.floor.is_some_and(|floor| rank <= floor) {
            return;
        }
        self.kept.push((rank, self.seen, make()));
        // Sorts rarely, not on every offer.
        if self.kept.len() >= 2 * self.room.max(32) {
            self.cut();
            self.floor = self.kept.last().map(|least| least.0);
        }
    }

    fn cut(&mut self) {
        self.kept.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        self.kept.truncate(self.room);
    }

    /// Number of items offered.
    pub(super) fn seen(&self) -> u64 {
        self.seen
    }

    /// The kept items, largest first.
    pub(super) fn take(&mut self) -> Vec<T> {
        self.cut();
        let kept = std::mem::take(&mut self.kept);
        kept.into_iter().map(|(_, _, item)| item).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Largest;

    #[test]
    fn the_largest_are_kept_and_of_equals_the_first() {
        for room in [0, 1, 5, 100] {
            let mut largest = Largest::new(room);
            let numbers: Vec<u32> = (0..1000u32).map(|n| n * 7919 % 500).collect();
            let mut peak = 0;
            for (place, &number) in numbers.iter().enumerate() {
                largest.offer(number, || (number, place));
                peak = peak.max(largest.kept.len());
            }
            let mut want: Vec<(u32, usize)> = numbers.iter().copied().zip(0..).collect();
            want.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
            want.truncate(room);
            assert_eq!(largest.take(), want, "{room}");
            assert_eq!(largest.seen(), 1000);
            assert!(peak <= 2 * room.max(32), "{room}: {peak}");
        }
    }
}
