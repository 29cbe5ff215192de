//! The clocks: monotonic time for deadlines, civil time for the protocol. Read once per turn.

use rustix::time::{ClockId, clock_gettime};
use units::{Instant, UnixTime};

/// Nanoseconds since the machine started, without suspension.
#[inline]
pub fn now() -> Instant {
    let t = clock_gettime(ClockId::Monotonic);
    Instant::from_nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// The standard library's instant for one of ours, for libraries that take those. Both may lie in virtual time: the two
/// clocks share an origin that is fixed at the first call, and [`from_standard`] is the way back.
pub fn to_standard(instant: Instant) -> std::time::Instant {
    standard_origin() + instant.since(Instant::ZERO)
}

/// The inverse of [`to_standard`].
pub fn from_standard(instant: std::time::Instant) -> Instant {
    Instant::ZERO + instant.duration_since(standard_origin())
}

fn standard_origin() -> std::time::Instant {
    static ORIGIN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    *ORIGIN.get_or_init(std::time::Instant::now)
}

/// As [`now`], up to one timer tick (4 ms) behind and never ahead: 8 ns instead of 22.
#[inline]
pub(crate) fn coarse() -> Instant {
    let t = clock_gettime(ClockId::MonotonicCoarse);
    Instant::from_nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// Blocks this thread for a span.
pub fn pause(span: units::Duration) {
    std::thread::sleep(span);
}

/// Civil time, to within one timer tick (4 ms): 8 ns instead of 22.
#[inline]
pub fn wall() -> UnixTime {
    let t = clock_gettime(ClockId::RealtimeCoarse);
    UnixTime {
        secs: t.tv_sec,
        nanos: t.tv_nsec as u32,
    }
}

/// Civil time in nanoseconds since 1970, exact: the clock of the kernel's packet timestamps.
pub fn civil_nanos() -> u64 {
    let t = clock_gettime(ClockId::Realtime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Processor time used by the calling thread.
pub fn thread_cpu() -> units::Duration {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    units::Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}
