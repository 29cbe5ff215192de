//! Flow control as the capture shows it (RFC 9113, section 5.2): how long a sender waited with an exhausted window.
//!
//! A window counts as changed when the frame that changes it passes the capture point.

use super::Stamp;
use core::time::Duration;
use http2::frame::WINDOW_INITIAL;

/// What one end may send on the connection, and on a new stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Windows {
    /// Bytes left for all streams; negative if frames were missed.
    pub(super) connection: i64,
    /// The peer's SETTINGS_INITIAL_WINDOW_SIZE.
    pub(super) initial: i64,
}

impl Windows {
    pub(super) const fn new() -> Windows {
        Windows {
            connection: WINDOW_INITIAL as i64,
            initial: WINDOW_INITIAL as i64,
        }
    }
}

/// One direction of one stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    /// Bytes that may be sent.
    pub(super) window: i64,
    /// Whether content was sent and more is to come.
    pub(super) is_owed: bool,
    since: Option<Stamp>,
    /// Number of waits.
    pub(super) waits: u64,
    /// All waits together.
    pub(super) total: Duration,
    /// The longest one, and the frames at its start and end.
    pub(super) longest: (Duration, u64, u64),
}

impl Flow {
    pub(super) fn new(window: i64) -> Flow {
        Flow {
            window,
            is_owed: false,
            since: None,
            waits: 0,
            total: Duration::ZERO,
            longest: (Duration::ZERO, 0, 0),
        }
    }

    /// Notes at `here` whether the sender must wait. `connection` is the window of the connection.
    pub(super) fn judge(&mut self, connection: i64, here: Stamp) {
        let must_wait = self.is_owed && (connection <= 0 || self.window <= 0);
        match (must_wait, self.since) {
            (true, None) => self.since = Some(here),
            (false, Some((since, packet))) => {
                self.since = None;
                let time = here.0.since(since);
                self.waits += u64::from(time > Duration::ZERO);
                self.total += time;
                if time > self.longest.0 {
                    self.longest = (time, packet, here.1);
                }
            }
            _ => {}
        }
    }

    /// Nothing more is known of the window.
    pub(super) fn forget(&mut self) {
        (self.is_owed, self.since) = (false, None);
    }
}
