//! A processor made slower for everybody else: a share of its time is taken away by a thread that runs before whatever is
//! not real-time.
//!
//! Where client and server are on one machine, and a request costs both the same, neither is clearly the bottleneck; a
//! server whose processor is slower is. Decides when to spin and when to sleep.

use measure::Duration;
use std::io;
use std::time::Instant;

/// A share is taken of each of these: short beside what a scheduler gives a process at a time, so that a
/// processor seems slow and not stopped.
const PERIOD: std::time::Duration = std::time::Duration::from_millis(2);
/// More is not taken: the kernel leaves 5 % to what is not real-time (`sched_rt_runtime_us`), and needs some of it.
pub const SHARE_MAX: f64 = 0.9;

/// Takes a share of a processor's time, by its number, for so long. Returns the share that it came to.
///
/// # Errors
/// This process may not run before others (`CAP_SYS_NICE`, `RLIMIT_RTPRIO`), or not on that processor.
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
        // What was lost is not made up for: a processor that stood still would look slower than it is.
        next = (next + PERIOD).max(Instant::now());
        std::thread::sleep(next - Instant::now());
    }
    Ok((used() - used_before) / began.elapsed().as_secs_f64().max(1e-9))
}

/// Processor time of this thread so far, seconds.
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
