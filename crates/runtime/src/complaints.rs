//! Warnings about requests, limited to a rate a log can bear.
//!
//! Decides how many lines are written: [`BURST`] at once, then one a second, for all threads and worker processes
//! together. A failure without a line is counted, and the next line reports the count. Why a request failed is not
//! known here. Lasting conditions, such as an unreachable root, are reported at intervals instead.
//!
//! Clients choose paths, so paths are escaped: a log entry is always one line of ASCII.

use crate::clock;
use crate::shared::Words;
use core::fmt;
use std::cell::RefCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Duration, Instant};

/// Lines that may be written at once after some silence.
const BURST: u64 = 10;
/// After that, one line per this time.
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum bytes shown of a path.
const PATH_MAX: usize = 1024;

/// When the lines written so far are used up, in nanoseconds of the monotonic clock.
const PAID: usize = 0;
/// Failures without a line since the last line.
const SILENT: usize = 1;
/// When a lasting condition was last reported, by a hash of its topic.
const TOLD: usize = 2;
const TOPICS: usize = 256;
/// When missing inotify instances were last reported. No topic shares this word: each root that is opened ends its topic.
const INSTANCES: usize = TOLD + TOPICS;
const LEN: usize = INSTANCES + 1;

static COMMON: OnceLock<Complaints> = OnceLock::new();

/// The rate of lines so far.
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

    /// How many failures got no line, if a line about them may be written now.
    fn owed(&self, now: Instant) -> Option<u64> {
        let silent = &self.0.get()[SILENT];
        let is_owed = silent.load(Ordering::Relaxed) > 0 && self.pay(now);
        is_owed
            .then(|| silent.swap(0, Ordering::Relaxed))
            .filter(|count| *count > 0)
    }

    /// Whether this may be reported again: not within `pause` of the last time. Two topics with equal hashes delay each
    /// other.
    fn may_tell(&self, topic: &[u8], now: Instant, pause: Duration) -> bool {
        is_due(self.told(topic), now, pause)
    }

    /// As [`Complaints::may_tell`], about missing inotify instances.
    fn may_tell_of_instances(&self, now: Instant, pause: Duration) -> bool {
        is_due(&self.0.get()[INSTANCES], now, pause)
    }

    /// The condition has ended: if it returns, it may be reported at once.
    fn is_over(&self, topic: &[u8]) {
        self.told(topic).store(0, Ordering::Relaxed);
    }

    /// When this was last reported.
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

/// Whether `pause` has passed since the time in `told`, which then becomes `now`.
fn is_due(told: &AtomicU64, now: Instant, pause: Duration) -> bool {
    let is_time = |told: u64| {
        let is_time = told == 0 || now.since(Instant::from_nanos(told)) >= pause;
        is_time.then_some(now.as_nanos().max(1))
    };
    told.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_time)
        .is_ok()
}

fn common() -> &'static Complaints {
    COMMON.get_or_init(|| Complaints(Words::own(LEN)))
}

/// Shares the limit between this process and its later children. Call it before the first warning; later, it has no
/// effect.
///
/// # Errors
/// The system's, if it has no memory.
pub fn share() -> std::io::Result<()> {
    let words = Words::new(LEN)?;
    common_from(words);
    Ok(())
}

fn common_from(words: Words) {
    // The first one stays.
    let _ = COMMON.set(Complaints(words));
}

thread_local! {
    /// Id of the request that this thread works for.
    static ABOUT: RefCell<Option<Box<str>>> = const { RefCell::new(None) };
}

/// Does `work` for the request with this id, which warnings then name; `None`: requests have no ids.
pub fn about<T>(id: Option<&str>, work: impl FnOnce() -> T) -> T {
    let Some(id) = id else { return work() };
    let before = ABOUT.replace(Some(id.into()));
    let done = work();
    ABOUT.set(before);
    done
}

/// Logs a warning about a failed request for this path, unless there were too many lately. `why` is called only if the
/// line is written.
pub fn warn<D: fmt::Display>(path: &[u8], why: impl FnOnce() -> D) {
    let Some(silent) = common().admit(clock::coarse()) else {
        return;
    };
    let shown = path.get(..PATH_MAX).unwrap_or(path).escape_ascii();
    let more = if path.len() > PATH_MAX { "..." } else { "" };
    let about = ABOUT.with_borrow(|id| id.as_ref().map(|id| format!(" (request {id})")));
    let more = format!("{more}\"{}", about.unwrap_or_default());
    match silent {
        0 => tracing::warn!("\"{shown}{more}: {}", why()),
        _ => tracing::warn!(
            "\"{shown}{more}: {}; {silent} more requests failed and were not logged",
            why()
        ),
    }
}

/// Whether a lasting condition may be reported now: once per `pause`, by the process that comes first.
pub(crate) fn may_tell(topic: &[u8], now: Instant, pause: Duration) -> bool {
    common().may_tell(topic, now, pause)
}

/// As [`may_tell`], about missing inotify instances, of which all roots need some.
pub(crate) fn may_tell_of_instances(now: Instant, pause: Duration) -> bool {
    common().may_tell_of_instances(now, pause)
}

/// A lasting condition has ended: if it returns, it may be reported at once.
pub(crate) fn is_over(topic: &[u8]) {
    common().is_over(topic);
}

/// Logs how many failures got no line, as soon as a line is permitted. Call it about once a second; costs two loads.
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
    fn missing_instances_are_told_once_however_many_roots_are_opened() {
        let complaints = Complaints(Words::own(LEN));
        let (now, pause) = (Instant::ZERO + Duration::from_secs(5), Duration::from_secs(60));
        let told = (0..2_000).filter(|root| {
            let may_tell = complaints.may_tell_of_instances(now, pause);
            complaints.is_over(format!("/srv/{root}").as_bytes());
            may_tell
        });
        assert_eq!(told.count(), 1);
        assert!(complaints.may_tell_of_instances(now + pause, pause));
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
