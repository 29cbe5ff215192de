//! Signs of life for a service manager that wants them (systemd's `WatchdogSec=`). Decides when the next
//! one is due; what is said is `runtime::notify`'s.

use measure::{Duration, Instant};
use runtime::notify::{self, News};

/// When to say that the process is alive, if anybody wants to know.
#[derive(Debug)]
pub(crate) struct Heart {
    /// Half of what the manager waits, as its manual asks for.
    interval: Option<Duration>,
    next: Instant,
}

impl Heart {
    pub(crate) fn start(wanted: Option<Duration>, now: Instant) -> Heart {
        Heart {
            interval: wanted.map(|interval| interval / 2),
            next: now,
        }
    }

    /// How long may be waited for something else; `None` if nobody wants to know.
    pub(crate) fn patience(&self, now: Instant) -> Option<Duration> {
        self.interval.map(|_| {
            if self.next > now {
                self.next.since(now)
            } else {
                Duration::ZERO
            }
        })
    }

    /// Says so if it is due.
    pub(crate) fn beat(&mut self, now: Instant) {
        if let Some(interval) = self.interval
            && now >= self.next
        {
            notify::tell(&[News::Alive]);
            self.next = now + interval;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_beats_twice_in_the_time_that_is_waited() {
        let start = Instant::from_nanos(0);
        let mut heart = Heart::start(Some(Duration::from_secs(10)), start);
        assert_eq!(heart.patience(start), Some(Duration::ZERO));
        heart.beat(start);
        assert_eq!(heart.patience(start), Some(Duration::from_secs(5)));
        let later = start + Duration::from_secs(3);
        heart.beat(later);
        assert_eq!(heart.patience(later), Some(Duration::from_secs(2)));
        assert_eq!(Heart::start(None, start).patience(later), None);
    }
}
