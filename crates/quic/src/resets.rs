//! How many stateless resets are sent (RFC 9000 section 10.3): a bound for each network of receivers. Packets of connections
//! that are gone may come as a flood, which must not keep other clients from learning that theirs are gone, too.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use units::{Allowance, Bucket, Instant};

/// Networks share a bucket by chance: one in so many.
const BUCKETS: usize = 1_024;

/// Resets that a network gets. A client needs one.
const ALLOWANCE: Allowance = Allowance {
    burst: 32,
    per_second: 16,
};

/// The buckets of one worker.
#[derive(Debug, Default)]
pub(crate) struct Resets {
    /// None before the first reset.
    buckets: Vec<Bucket>,
    hasher: RandomState,
}

impl Resets {
    /// Takes one from the allowance of the receiver's network; whether there was one.
    pub(crate) fn permits(&mut self, receiver: IpAddr, now: Instant) -> bool {
        if self.buckets.is_empty() {
            self.buckets.resize(BUCKETS, Bucket::default());
        }
        let at = self.hasher.hash_one(network(receiver)) % BUCKETS as u64;
        let bucket = usize::try_from(at).ok().and_then(|at| self.buckets.get_mut(at));
        bucket.is_some_and(|bucket| bucket.take(ALLOWANCE, now))
    }
}

/// The prefix that one site has at least: /24 of IPv4, /48 of IPv6.
fn network(address: IpAddr) -> u128 {
    let (bits, host) = match address.to_canonical() {
        IpAddr::V4(address) => (address.to_ipv6_mapped().to_bits(), 8),
        IpAddr::V6(address) => (Ipv6Addr::to_bits(address), 80),
    };
    bits >> host
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Duration;

    #[test]
    fn a_network_has_its_allowance_and_takes_nobody_elses() {
        let mut resets = Resets::default();
        let now = Instant::ZERO + Duration::from_secs(60);
        let mut count = |host: u8, now| {
            let flood = (0..1_000).filter(|_| resets.permits(IpAddr::from([192, 0, 2, host]), now));
            flood.count()
        };
        assert_eq!((count(1, now), count(2, now)), (32, 0));
        assert_eq!(count(3, now + Duration::from_secs(1)), 16);
        // Of so many networks, nearly all have a bucket without that one.
        let others = (0..100).filter(|&net| resets.permits(IpAddr::from([198, 51, net, 1]), now));
        assert!(others.count() >= 95);
    }

    #[test]
    fn a_site_is_one_network() {
        let same = |one: &str, other: &str| {
            let of = |text: &str| network(text.parse().expect("an address"));
            of(one) == of(other)
        };
        assert!(same("192.0.2.1", "::ffff:192.0.2.200"));
        assert!(!same("192.0.2.1", "192.0.3.1"));
        assert!(same("2001:db8:1:2::3", "2001:db8:1:ffff::"));
        assert!(!same("2001:db8:1::", "2001:db8:2::"));
    }
}
