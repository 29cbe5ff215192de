//! Counts the connections of each address, for the per-address limit.
//!
//! Addresses are IPv4 addresses and IPv6 /64 networks, because an IPv6 client commands a whole /64. An IPv4 address
//! mapped into IPv6 counts as the IPv4 address. The table holds only addresses with an open connection, so the
//! connection limit bounds its size. Shards keep workers from waiting for each other. Only accepting and closing use
//! the table, never a request.

use hashbrown::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of shards: a power of two well above the number of workers, so that two workers rarely need the same one.
const SHARDS: usize = 64;

mod among;

pub use among::Among;

/// Open connections in total and per address, of this process or of several processes together.
#[derive(Debug)]
pub struct Peers {
    total: AtomicU32,
    shards: Box<[Mutex<Shard>]>,
    hasher: foldhash::fast::RandomState,
    among: Option<Among>,
    /// Held while this process changes its table of `among`: it may have threads for HTTP/3 besides its worker.
    changing: Mutex<()>,
}

type Shard = HashMap<u64, u32, foldhash::fast::RandomState>;

/// The limit that a connection would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The connection limit.
    Total,
    /// The per-address limit.
    Address,
}

impl Default for Peers {
    fn default() -> Peers {
        let hasher = foldhash::fast::RandomState::default();
        Peers {
            total: AtomicU32::new(0),
            shards: (0..SHARDS)
                .map(|_| Mutex::new(HashMap::with_hasher(hasher.clone())))
                .collect(),
            hasher,
            among: None,
            changing: Mutex::default(),
        }
    }
}

impl From<Among> for Peers {
    /// Counts for several processes together.
    fn from(among: Among) -> Peers {
        Peers {
            among: Some(among),
            ..Peers::default()
        }
    }
}

impl Peers {
    /// Counts a new connection of `ip`, unless it would exceed a limit.
    ///
    /// # Errors
    /// The limit that it would exceed; the connection is then not counted.
    pub fn enter(&self, ip: IpAddr, total_max: u32, address_max: u32) -> Result<(), Refused> {
        if let Some(among) = &self.among {
            let _changing = self.changing();
            return among.enter(unit(ip), total_max, address_max);
        }
        if self.total.fetch_add(1, Ordering::Relaxed) >= total_max {
            self.total.fetch_sub(1, Ordering::Relaxed);
            return Err(Refused::Total);
        }
        let key = unit(ip);
        let mut shard = self.shard(key);
        let count = shard.entry(key).or_insert(0);
        if *count >= address_max {
            if *count == 0 {
                shard.remove(&key);
            }
            drop(shard);
            self.total.fetch_sub(1, Ordering::Relaxed);
            return Err(Refused::Address);
        }
        *count += 1;
        Ok(())
    }

    /// Ends the count of a connection of `ip`. Must follow exactly one successful [`Peers::enter`].
    pub fn leave(&self, ip: IpAddr) {
        let key = unit(ip);
        if let Some(among) = &self.among {
            let _changing = self.changing();
            return among.leave(key);
        }
        let mut shard = self.shard(key);
        if let Some(count) = shard.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                shard.remove(&key);
            }
            self.total.fetch_sub(1, Ordering::Relaxed);
        } else {
            debug_assert!(false, "leave without a matching enter");
        }
    }

    /// Open connections of the address that `ip` belongs to.
    pub fn held(&self, ip: IpAddr) -> u32 {
        let key = unit(ip);
        match &self.among {
            Some(among) => among.held(key),
            None => self.shard(key).get(&key).copied().unwrap_or(0),
        }
    }

    /// Open connections in total.
    pub fn total(&self) -> u32 {
        if let Some(among) = &self.among {
            return among.total();
        }
        self.total.load(Ordering::Relaxed)
    }

    /// Addresses with an open connection.
    pub fn addresses(&self) -> usize {
        if let Some(among) = &self.among {
            return among.addresses();
        }
        self.shards
            .iter()
            .map(|s| s.lock().unwrap_or_else(PoisonError::into_inner).len())
            .sum()
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        // A table is consistent wherever a panic could occur.
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shard(&self, key: u64) -> MutexGuard<'_, Shard> {
        use std::hash::BuildHasher as _;
        let index = (self.hasher.hash_one(key) >> 32) as usize % SHARDS;
        // Middle bits of the hash, because the map inside the shard uses the top and bottom ones. Counts are consistent
        // wherever a panic could occur, so a poisoned shard is still valid.
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The unit that one client commands: an IPv4 address, or the upper half of an IPv6 address. They cannot collide: IPv4
/// keys are below 2^32, and no global unicast /64 is.
pub(crate) fn unit(ip: IpAddr) -> u64 {
    match ip {
        IpAddr::V4(v4) => u64::from(u32::from(v4)),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => u64::from(u32::from(v4)),
            None => upper_half(v6),
        },
    }
}

fn upper_half(v6: Ipv6Addr) -> u64 {
    (u128::from(v6) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_address_cannot_exceed_its_share_and_gets_it_back() {
        let peers = Peers::default();
        for _ in 0..3 {
            peers.enter(ip("192.0.2.1"), 100, 3).unwrap();
        }
        assert_eq!(peers.enter(ip("192.0.2.1"), 100, 3), Err(Refused::Address));
        assert_eq!(peers.enter(ip("::ffff:192.0.2.1"), 100, 3), Err(Refused::Address));
        peers.enter(ip("192.0.2.2"), 100, 3).unwrap();
        assert_eq!(peers.total(), 4);
        assert_eq!(peers.held(ip("::ffff:192.0.2.1")), 3);
        assert_eq!(peers.held(ip("192.0.2.3")), 0);
        peers.leave(ip("192.0.2.1"));
        peers.enter(ip("192.0.2.1"), 100, 3).unwrap();
        for _ in 0..3 {
            peers.leave(ip("192.0.2.1"));
        }
        peers.leave(ip("192.0.2.2"));
        assert_eq!((peers.total(), peers.addresses()), (0, 0));
    }

    #[test]
    fn threads_of_a_process_share_its_table() {
        let len = Among::len_for(4);
        let words = runtime::shared::Words::new(len).unwrap();
        let peers = Peers::from(Among::new(words, len, 0));
        std::thread::scope(|scope| {
            for first in [1, 3] {
                let peers = &peers;
                scope.spawn(move || {
                    for round in 0..20_000_u32 {
                        let ip = IpAddr::from([192, 0, 2, first + (round % 2) as u8]);
                        peers.enter(ip, 10, 1).unwrap();
                        assert_eq!(peers.held(ip), 1);
                        peers.leave(ip);
                    }
                });
            }
        });
        assert_eq!((peers.total(), peers.addresses()), (0, 0));
    }

    #[test]
    fn an_ipv6_client_is_its_64() {
        let peers = Peers::default();
        peers.enter(ip("2001:db8::1"), 100, 1).unwrap();
        assert_eq!(peers.enter(ip("2001:db8::ffff:2"), 100, 1), Err(Refused::Address));
        peers.enter(ip("2001:db8:0:1::1"), 100, 1).unwrap();
    }

    #[test]
    fn the_total_refuses_without_leaking_a_count() {
        let peers = Peers::default();
        peers.enter(ip("192.0.2.1"), 1, 9).unwrap();
        for _ in 0..10 {
            assert_eq!(peers.enter(ip("192.0.2.2"), 1, 9), Err(Refused::Total));
        }
        peers.leave(ip("192.0.2.1"));
        peers.enter(ip("192.0.2.2"), 1, 9).unwrap();
        assert_eq!(peers.enter(ip("192.0.2.3"), 9, 0), Err(Refused::Address));
        assert_eq!((peers.total(), peers.addresses()), (1, 1));
    }
}
