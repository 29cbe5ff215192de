//! Notifications to the service manager (systemd's `sd_notify` protocol): ready, reloading, stopping, a new main
//! process, and watchdog pings (`WatchdogSec=`). Decides wording and timing; `runtime::process::notify` sends them.

use runtime::process::notify::{self, News};
use units::{Duration, Instant};

/// Reports that the server serves; `trouble` is why the last reload failed.
pub(crate) fn serves(trouble: Option<&str>) {
    let status = match trouble {
        // A newline would begin another message.
        Some(why) => format!("serving; not reloaded: {}", why.replace('\n', " ")),
        None => "serving".to_owned(),
    };
    notify::tell(&[News::Ready, News::Status(&status)]);
}

/// Reports a reload; [`serves`] must follow, also after a failure.
pub(crate) fn reloading() {
    notify::tell(&[News::Reloading]);
}

/// Reports that the server is stopping.
pub(crate) fn stopping() {
    notify::tell(&[News::Stopping]);
}

/// Reports process `pid` as the main process after an upgrade in place. The old process must send this: the manager
/// ignores the new one until then.
pub(crate) fn followed_by(pid: u32) {
    notify::tell(&[News::MainPid(pid), News::Ready]);
}

/// The schedule of watchdog pings.
#[derive(Debug)]
pub(crate) struct Heart {
    /// Half of the manager's watchdog timeout, as sd_watchdog_enabled(3) recommends; `None`: no watchdog.
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

    /// Time until the next ping is due; `None` without a watchdog.
    pub(crate) fn patience(&self, now: Instant) -> Option<Duration> {
        self.interval.map(|_| {
            if self.next > now {
                self.next.since(now)
            } else {
                Duration::ZERO
            }
        })
    }

    /// Sends a ping if one is due.
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
