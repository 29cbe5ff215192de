//! What a service manager hears of a server: that it serves, reloads, stops, is followed by another
//! process, and signs of life if it wants them (systemd's `WatchdogSec=`). Decides the words and when the
//! next sign is due; how they are sent is `runtime::notify`'s.

use measure::{Duration, Instant};
use runtime::notify::{self, News};

/// It serves; `trouble` is why not as it was last asked to.
pub(crate) fn serves(trouble: Option<&str>) {
    let status = match trouble {
        // A line of its own would be another message.
        Some(why) => format!("serving; not reloaded: {}", why.replace('\n', " ")),
        None => "serving".to_owned(),
    };
    notify::tell(&[News::Ready, News::Status(&status)]);
}

/// It reads its configuration again; [`serves`] follows in any case.
pub(crate) fn reloading() {
    notify::tell(&[News::Reloading]);
}

/// It takes no new connections, or soon will not.
pub(crate) fn stopping() {
    notify::tell(&[News::Stopping]);
}

/// That process serves from now on. Said by the one before, which the manager still believes.
pub(crate) fn followed_by(pid: u32) {
    notify::tell(&[News::MainPid(pid), News::Ready]);
}

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
