//! Warnings that requests cause, as many of them as a log can bear.
//!
//! Decides how many lines are written: [`BURST`] at once, then one a second, for all threads and all worker
//! processes together. A failure that gets no line is counted, and the next line says how many there were. Refuses to
//! know why a request failed. What lasts, as a root that is gone, is told once in a while instead.
//!
//! Paths are clients' to choose, so they are escaped: a line in the log is always one line, and ASCII.

use crate::clock;
use crate::shared::Words;
use core::fmt;
use measure::{Duration, Instant};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Lines that may be written at once after a while of silence.
const BURST: u64 = 10;
/// After that one line may be written in this time.
const PAUSE: Duration = Duration::from_secs(1);
/// No more bytes of a path are shown.
const PATH_MAX: usize = 1024;

/// When the lines written so far are paid for, in nanoseconds of the monotonic clock.
const PAID: usize = 0;
/// Failures that got no line since the last.
const SILENT: usize = 1;
/// When something that lasts was told of last, by a hash of what it is.
const TOLD: usize = 2;
const TOPICS: usize = 256;
const LEN: usize = TOLD + TOPICS;

static COMMON: OnceLock<Complaints> = OnceLock::new();

/// How many lines were written lately.
#[derive(Debug)]
struct Complaints(Words);

impl Complaints {
    /// Whether a line may be written now; if so, how many failures got none since the last.
    fn admit(&self, now: Instant) -> Option<u64> {
        let silent = &self.0.get()[SILENT];
        if self.pay(now) {
            return Some(silent.swap(0, Ordering::Relaxed));
        }
        silent.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Whether failures got no line that one may be written of now; how many.
    fn owed(&self, now: Instant) -> Option<u64> {
        let silent = &self.0.get()[SILENT];
        let is_owed = silent.load(Ordering::Relaxed) > 0 && self.pay(now);
        is_owed
            .then(|| silent.swap(0, Ordering::Relaxed))
            .filter(|count| *count > 0)
    }

    /// Whether this may be told of again: not within `pause` of the last time. Two topics with the same hash wait for
    /// each other.
    fn may_tell(&self, topic: &[u8], now: Instant, pause: Duration) -> bool {
        let is_time = |told: u64| {
            let is_time = told == 0 || now.since(Instant::from_nanos(told)) >= pause;
            is_time.then_some(now.as_nanos().max(1))
        };
        self.told(topic)
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_time)
            .is_ok()
    }

    /// The topic is over: if it begins again, that may be told at once.
    fn is_over(&self, topic: &[u8]) {
        self.told(topic).store(0, Ordering::Relaxed);
    }

    /// When this was told of last.
    fn told(&self, topic: &[u8]) -> &AtomicU64 {
        // FNV-1a: every process must find the same word.
        let hash = topic.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &b| {
            (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
        });
        &self.0.get()[TOLD + hash as usize % TOPICS]
    }

    fn pay(&self, now: Instant) -> bool {
        let (now, pause) = (now.as_nanos(), PAUSE.as_nanos() as u64);
        let next = |paid: u64| {
            let paid = paid.max(now);
            (paid - now <= (BURST - 1) * pause).then_some(paid + pause)
        };
        let paid = &self.0.get()[PAID];
        paid.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .is_ok()
    }
}

fn common() -> &'static Complaints {
    COMMON.get_or_init(|| Complaints(Words::own(LEN)))
}

/// Counts for this process and those it forks from now on together. To be called before the first warning; later
/// it changes nothing.
///
/// # Errors
/// The system's, if it has no memory.
pub fn share() -> std::io::Result<()> {
    let words = Words::new(LEN)?;
    common_from(words);
    Ok(())
}

fn common_from(words: Words) {
    // Whoever was first stays.
    let _ = COMMON.set(Complaints(words));
}

/// Warns of a request for this path that failed, unless there were too many such warnings lately. `why` is only asked
/// for if the line is written.
pub fn warn<D: fmt::Display>(path: &[u8], why: impl FnOnce() -> D) {
    let Some(silent) = common().admit(clock::coarse()) else {
        return;
    };
    let shown = path.get(..PATH_MAX).unwrap_or(path).escape_ascii();
    let more = if path.len() > PATH_MAX { "..." } else { "" };
    match silent {
        0 => tracing::warn!("\"{shown}{more}\": {}", why()),
        _ => tracing::warn!(
            "\"{shown}{more}\": {}; {silent} more requests failed and were not logged",
            why()
        ),
    }
}

/// Whether something that lasts may be told of now: once in `pause`, by whichever process comes first.
pub(crate) fn may_tell(topic: &[u8], now: Instant, pause: Duration) -> bool {
    common().may_tell(topic, now, pause)
}

/// Something that lasted is over: if it begins again, that may be told at once.
pub(crate) fn is_over(topic: &[u8]) {
    common().is_over(topic);
}

/// Says how many failures got no line, once there is room for it. To be called once a second or so; costs two loads.
pub fn settle(now: Instant) {
    if let Some(silent) = COMMON.get().and_then(|common| common.owed(now)) {
        tracing::warn!("{silent} more requests failed and were not logged");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_written_and_the_rest_counted() {
        let complaints = Complaints(Words::own(LEN));
        let at = |ms: u64| Instant::ZERO + Duration::from_secs(3600) + Duration::from_millis(ms);
        for _ in 0..BURST {
            assert_eq!(complaints.admit(at(0)), Some(0));
        }
        assert_eq!(complaints.owed(at(0)), None);
        for ms in [0, 1, 500, 999] {
            assert_eq!(complaints.admit(at(ms)), None, "{ms}");
        }
        assert_eq!(complaints.admit(at(1_000)), Some(4), "one a second");
        assert_eq!(complaints.admit(at(1_001)), None);
        assert_eq!(complaints.owed(at(1_999)), None, "not yet");
        assert_eq!(complaints.owed(at(2_000)), Some(1));
        assert_eq!(complaints.owed(at(9_000)), None, "it was said");
        let at = |ms: u64| at(12_000 + ms);
        for _ in 0..BURST {
            assert_eq!(complaints.admit(at(0)), Some(0));
        }
        assert_eq!(complaints.admit(at(0)), None);
    }

    #[test]
    fn what_lasts_is_told_now_and_then() {
        let complaints = Complaints(Words::own(LEN));
        let at = |secs: u64| Instant::ZERO + Duration::from_secs(secs);
        let may =
            |topic: &str, secs| complaints.may_tell(topic.as_bytes(), at(secs), Duration::from_secs(60));
        assert!(may("/srv/one", 5) && may("/srv/two", 5));
        assert!(!may("/srv/one", 5) && !may("/srv/one", 64));
        assert!(may("/srv/one", 65) && !may("/srv/one", 66));
        complaints.is_over(b"/srv/one");
        assert!(may("/srv/one", 67) && !may("/srv/one", 68) && !may("/srv/two", 64));
    }

    #[test]
    fn processes_count_together() {
        let words = Words::new(LEN).unwrap();
        let [one, other] = [Complaints(words.clone()), Complaints(words)];
        let now = Instant::ZERO + Duration::from_secs(5);
        for _ in 0..BURST {
            assert!(one.admit(now).is_some());
        }
        assert_eq!(other.admit(now), None);
    }
}
