//! A disk with one arm: requests are served in order of arrival, each with a seek, half a rotation and the transfer of
//! its bytes. Which requests there are, the memory decides.

use units::{Duration, Instant};

/// Times of a disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    /// Mean seek and half a rotation.
    pub(crate) position: Duration,
    /// Bytes per second from the medium.
    pub(crate) bytes_per_s: f64,
}

/// A disk and its totals.
#[derive(Debug)]
pub(crate) struct Disk {
    geometry: Geometry,
    free_at: Instant,
    /// Requests so far.
    pub(crate) reads: u64,
    /// Time in service so far.
    pub(crate) busy: Duration,
}

impl Disk {
    pub(crate) fn new(geometry: Geometry) -> Disk {
        Disk {
            geometry,
            free_at: Instant::ZERO,
            reads: 0,
            busy: Duration::ZERO,
        }
    }

    /// Queues `reads` requests for `bytes` in all; returns when the last is served.
    pub(crate) fn read(&mut self, reads: u64, bytes: u64, now: Instant) -> Instant {
        let position = self.geometry.position.as_secs_f64() * reads as f64;
        let time = Duration::from_secs_f64(position + bytes as f64 / self.geometry.bytes_per_s);
        self.reads += reads;
        self.busy += time;
        self.free_at = self.free_at.max(now) + time;
        self.free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_wait_for_the_ones_before() {
        let geometry = Geometry {
            position: Duration::from_millis(10),
            bytes_per_s: 1e6,
        };
        let mut disk = Disk::new(geometry);
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        assert_eq!(disk.read(2, 5_000, at(0)), at(25));
        assert_eq!(disk.read(1, 0, at(10)), at(35));
        assert_eq!(disk.read(1, 0, at(100)), at(110));
        assert_eq!(disk.reads, 4);
        assert_eq!(disk.busy, Duration::from_millis(45));
    }
}
