//! When much was in use and little is any more: the moment to return to the system what the allocator keeps. Pure.

/// Connections of which, when they have gone, something is worth returning.
const CONNECTIONS_MIN: u64 = 64;
/// Bytes of which the same is true.
const BYTES_MIN: u64 = 4 << 20;
/// So much of the peak, as one part in this many, is little.
const LITTLE: u64 = 8;

/// The peak since memory was returned last.
#[derive(Debug)]
pub(crate) struct Ebb {
    peak: u64,
    least: u64,
}

impl Ebb {
    /// Of connections.
    pub(crate) const fn of_connections() -> Ebb {
        Ebb {
            peak: 0,
            least: CONNECTIONS_MIN,
        }
    }

    /// Of bytes.
    pub(super) const fn of_bytes() -> Ebb {
        Ebb {
            peak: 0,
            least: BYTES_MIN,
        }
    }

    /// So much is in use now, more than before.
    pub(crate) fn rise(&mut self, now: u64) {
        self.peak = self.peak.max(now);
    }

    /// So much is in use now; whether that is little after much. Says so once for each peak.
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
