//! Slows a processor down: a thread with real-time priority takes a share of its time.
//!
//! If client and server share a machine and a request costs both equally, neither is clearly the bottleneck. With a
//! slower processor, the server is. Decides when to spin and when to sleep.

use std::io;
use std::time::Instant;
use units::Duration;

/// A share of each period is taken. It is short compared with a scheduler's time slice, so the processor appears slow
/// and not stopped.
const PERIOD: std::time::Duration = std::time::Duration::from_millis(2);
/// Maximum share: the kernel leaves 5 % to threads without real-time priority (`sched_rt_runtime_us`), and needs some
/// of it.
pub const SHARE_MAX: f64 = 0.9;

/// Takes a share of a processor's time, given by its number, for this long. Returns the share achieved.
///
/// # Errors
/// If this process may not use real-time priority (`CAP_SYS_NICE`, `RLIMIT_RTPRIO`), or not run on that processor.
pub fn take(processor: usize, share: f64, length: Duration) -> io::Result<f64> {
    crate::machine::run_on(processor)?;
    crate::sys::run_first()?;
    let busy = PERIOD.mul_f64(share.clamp(0.0, SHARE_MAX));
    let began = Instant::now();
    let used_before = used();
    let mut next = began;
    while began.elapsed() < length {
        let from = Instant::now();
        while from.elapsed() < busy {
            std::hint::spin_loop();
        }
        // Lost time is not made up for: after a standstill, the processor would appear slower than intended.
        next = (next + PERIOD).max(Instant::now());
        std::thread::sleep(next - Instant::now());
    }
    Ok((used() - used_before) / began.elapsed().as_secs_f64().max(1e-9))
}

/// Processor time of this thread so far, in seconds.
fn used() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_that_is_not_there_is_refused() {
        assert!(take(1023, 0.1, Duration::from_millis(1)).is_err());
    }
}
