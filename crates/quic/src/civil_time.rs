//! Civil time for the library, which reads it to date tokens of Retry: what the driver says, not a clock of its own.

use quinn_proto::TimeSource;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use units::UnixTime;

/// The time of the last turn of any worker, in whole seconds. Before the first turn, 1970.
#[derive(Debug, Default)]
pub(crate) struct CivilTime(AtomicU64);

impl CivilTime {
    /// Moves it on. Workers share it, so it is written once a second only.
    pub(crate) fn turn(&self, wall: UnixTime) {
        let secs = u64::try_from(wall.secs).unwrap_or(0);
        if self.0.load(Ordering::Relaxed) != secs {
            self.0.store(secs, Ordering::Relaxed);
        }
    }
}

impl TimeSource for CivilTime {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}
