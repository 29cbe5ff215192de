//! A path for datagrams in virtual time: delay, loss and reordering from a seed.

use core::time::Duration;
use std::collections::BTreeMap;
use units::{Draw, Instant, Rng, Seed};

/// What the path does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// From one end to the other.
    pub(crate) delay: Duration,
    /// Datagrams lost, of a thousand.
    pub(crate) loss: u64,
    /// Datagrams that come 5 ms later, of a thousand.
    pub(crate) late: u64,
}

/// Datagrams under way.
#[derive(Debug)]
pub(crate) struct Network {
    path: Path,
    rng: Rng,
    /// By arrival and order of sending: whether it goes to the server, and its bytes.
    under_way: BTreeMap<(Instant, u64), (bool, Vec<u8>)>,
    pub(crate) sent: u64,
    pub(crate) lost: u64,
}

impl Network {
    pub(crate) fn new(path: Path, seed: Seed) -> Network {
        Network {
            path,
            rng: seed.rng(),
            under_way: BTreeMap::new(),
            sent: 0,
            lost: 0,
        }
    }

    pub(crate) fn send(&mut self, to_server: bool, datagram: Vec<u8>, now: Instant) {
        self.sent += 1;
        if self.rng.next_u64() % 1_000 < self.path.loss {
            self.lost += 1;
            return;
        }
        let late = self.rng.next_u64() % 1_000 < self.path.late;
        let extra = if late {
            Duration::from_millis(5)
        } else {
            Duration::ZERO
        };
        let due = now + self.path.delay + extra;
        self.under_way.insert((due, self.sent), (to_server, datagram));
    }

    /// When the next datagram arrives.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.under_way.keys().next().map(|&(due, _)| due)
    }

    /// The next datagram that has arrived.
    pub(crate) fn arrived(&mut self, now: Instant) -> Option<(bool, Vec<u8>)> {
        let entry = self.under_way.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }
}
