//! Detects when much was in use and little is left: the moment to return the allocator's free memory to the system.
//! Pure.

/// Minimum peak of connections worth returning memory for.
const CONNECTIONS_MIN: u64 = 64;
/// Minimum peak of bytes worth returning memory for.
const BYTES_MIN: u64 = 4 << 20;
/// Use below the peak divided by this is little.
const LITTLE: u64 = 8;

/// The peak since memory was last returned.
#[derive(Debug)]
pub(crate) struct Ebb {
    peak: u64,
    least: u64,
}

impl Ebb {
    /// Counts connections.
    pub(crate) const fn of_connections() -> Ebb {
        Ebb {
            peak: 0,
            least: CONNECTIONS_MIN,
        }
    }

    /// Counts bytes.
    pub(super) const fn of_bytes() -> Ebb {
        Ebb {
            peak: 0,
            least: BYTES_MIN,
        }
    }

    /// Notes that use has risen to `now`.
    pub(crate) fn rise(&mut self, now: u64) {
        self.peak = self.peak.max(now);
    }

    /// Notes the use `now`; returns whether it is little after a peak. True once per peak.
    pub(crate) fn is_low(&mut self, now: u64) -> bool {
        self.rise(now);
        let is_low = self.peak >= self.least && now <= self.peak / LITTLE;
        if is_low {
            self.peak = now;
        }
        is_low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_after_much_is_noticed_once() {
        let mut ebb = Ebb::of_connections();
        let noticed: Vec<u64> = (0..3_000)
            .chain((0..3_000).rev())
            .filter(|open| ebb.is_low(*open))
            .collect();
        assert_eq!(
            noticed,
            [374, 46],
            "what is left of the first is a peak of its own"
        );
        assert!(
            (0..63).chain((0..63).rev()).all(|open| !ebb.is_low(open)),
            "too little to bother"
        );
    }
}
