//! Limits on the requests of each client for some paths: their rate, and how many are under way.
//!
//! ```text
//!   request ─▶ rules that cover its path, and whose conditions it meets ─┬─ within all ─▶ Seats, held until the response is sent
//!                                                                        └─ above one ──▶ Exceeded (429)
//! ```
//! Each process counts for itself, and a reload begins anew. Rates use the algorithm of [`crate::rate_limit`], and tables
//! have its bound. This file knows no sessions.

use crate::config::{Config, Facts, Limit, spelling};
use crate::connection_limit::{Peers, unit};
use crate::rate_limit::{Paces, Rate};
use std::net::IpAddr;
use std::sync::Arc;
use units::Instant;

/// The rules of all sites. By default there are none.
#[derive(Debug, Default)]
pub(crate) struct RequestLimits {
    /// By index of the site; empty if no site has a rule.
    sites: Vec<Vec<Arc<Meter>>>,
}

/// A rule, and what its clients have requested.
#[derive(Debug)]
struct Meter {
    rule: Limit,
    rate: Option<Rate>,
    paces: Paces,
    under_way: Peers,
}

/// A request under way; released when dropped.
#[derive(Debug)]
struct Seat {
    meter: Arc<Meter>,
    client: IpAddr,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.meter.under_way.leave(self.client);
    }
}

/// What an admitted request holds.
#[derive(Debug, Default)]
pub(crate) struct Seats {
    seats: Vec<Seat>,
    is_ruled: bool,
}

impl Seats {
    /// Whether a rule covers the path: the next request may then get another answer.
    pub(crate) fn is_ruled(&self) -> bool {
        self.is_ruled
    }

    /// Whether nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    /// Takes over what other requests hold.
    pub(crate) fn append(&mut self, other: &mut Seats) {
        self.seats.append(&mut other.seats);
    }

    /// Releases everything.
    pub(crate) fn clear(&mut self) {
        self.seats.clear();
    }
}

/// A limit is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exceeded {
    /// Seconds after which another request can be admitted.
    pub(crate) retry_after: u32,
}

impl RequestLimits {
    /// The rules of these sites.
    pub(crate) fn of<'c>(sites: impl Iterator<Item = &'c Config>) -> RequestLimits {
        let meter = |rule: &Limit| {
            Arc::new(Meter {
                rate: rule.rate.map(|rate| Rate::every(rate.interval(), rule.burst())),
                rule: rule.clone(),
                paces: Paces::default(),
                under_way: Peers::default(),
            })
        };
        let sites: Vec<Vec<_>> = sites
            .map(|config| config.limit.iter().map(meter).collect())
            .collect();
        match sites.iter().all(Vec::is_empty) {
            true => RequestLimits::default(),
            false => RequestLimits { sites },
        }
    }

    /// Whether no site has a rule.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    /// Counts a request of `peer` to the site at this index, unless a limit is exceeded.
    ///
    /// # Errors
    /// The limit that the request would exceed.
    #[cold]
    pub(crate) fn admit(
        &self,
        site: usize,
        facts: Facts<'_, '_, '_>,
        peer: IpAddr,
        now: Instant,
    ) -> Result<Seats, Exceeded> {
        let mut seats = Seats::default();
        let rules = self.sites.get(site).map_or(&[][..], Vec::as_slice);
        let spelled = (!rules.is_empty()).then(|| facts.head.target.path().and_then(spelling));
        let Some(spelled) = spelled.flatten() else {
            return Ok(seats);
        };
        let peer = peer.to_canonical();
        for meter in rules.iter().filter(|meter| meter.rule.path.covers(&spelled)) {
            // Whether it meets the conditions or not: in the other scheme, the same head may.
            seats.is_ruled = true;
            if !meter.rule.counts(facts) {
                continue;
            }
            let Some(client) = meter.rule.client(peer) else {
                continue;
            };
            if let Some(most) = meter.rule.concurrent {
                if meter.under_way.enter(client, u32::MAX, most).is_err() {
                    return Err(Exceeded { retry_after: 1 });
                }
                seats.seats.push(Seat {
                    meter: Arc::clone(meter),
                    client,
                });
            }
            if let Some(rate) = meter.rate
                && !meter.paces.of(unit(client), now).admits(rate, now)
            {
                let interval = meter.rule.rate.map_or(0, |rate| rate.interval().as_millis());
                let secs = u32::try_from(interval.div_ceil(1_000)).unwrap_or(u32::MAX);
                return Err(Exceeded {
                    retry_after: secs.max(1),
                });
            }
        }
        Ok(seats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_semantics::field::{Fields, Line};
    use http_semantics::method::Method;
    use http_semantics::request::{Protocol, RequestHead};
    use http_semantics::target::Target;
    use units::Duration;

    fn limits(text: &str) -> RequestLimits {
        RequestLimits::of([Config::from_toml(text, "w.toml").unwrap()].iter())
    }

    /// Asks to admit a GET request, in cleartext without field lines.
    fn admit(limits: &RequestLimits, path: &str, peer: &str, millis: u64) -> Result<Seats, Exceeded> {
        admit_with(limits, (path, &[], false), peer, millis)
    }

    /// Asks to admit a GET request for a path with these field lines. The last value says whether it comes over TLS.
    fn admit_with(
        limits: &RequestLimits,
        (path, lines, is_secured): (&str, &[(&'static str, &str)], bool),
        peer: &str,
        millis: u64,
    ) -> Result<Seats, Exceeded> {
        let lines: Vec<Line<'_>> = lines
            .iter()
            .map(|(name, value)| Line {
                name,
                value: value.as_bytes(),
            })
            .collect();
        let head = RequestHead {
            method: Method::Get,
            method_name: "GET",
            target: Target::parse(path.as_bytes(), Method::Get).unwrap(),
            target_raw: path.as_bytes(),
            protocol: Protocol::Http11,
            fields: Fields::new(&lines),
        };
        let facts = Facts {
            head: &head,
            is_secured,
        };
        let now = Instant::ZERO + Duration::from_secs(100) + Duration::from_millis(millis);
        limits.admit(0, facts, peer.parse().unwrap(), now)
    }

    #[test]
    fn a_rule_counts_only_requests_that_meet_its_conditions() {
        let limits = limits(
            "[[limit]]\nrate = '2/h'\nburst = 2\nif = ['header User-Agent~*bot*', 'not cookie friend']\n\
             [[limit]]\npath = '/q*'\nconcurrent = 1\nif = 'query full'\n\
             [[limit]]\npath = '/s'\nrate = '1/h'\nif = 'scheme http'\n",
        );
        let bot: &[_] = &[("User-Agent", "A Bot/1")];
        let friend: &[_] = &[("User-Agent", "A Bot/1"), ("Cookie", "friend=1")];
        let client = "192.0.2.1";
        // Those that are not counted leave the rate to the others.
        for _ in 0..5 {
            for lines in [&[][..], friend, &[("User-Agent", "Mozilla")]] {
                let seats = admit_with(&limits, ("/", lines, true), client, 0).unwrap();
                assert!(seats.is_ruled(), "the next request with this path may be counted");
            }
        }
        let counts = [0; 4].map(|_| admit_with(&limits, ("/", bot, true), client, 0).is_ok());
        assert_eq!(counts, [true, true, false, false]);
        assert!(admit_with(&limits, ("/", bot, true), "192.0.2.2", 0).is_ok());
        assert!(admit_with(&limits, ("/", friend, true), client, 0).is_ok());
        // Each rule has conditions of its own, and all rules apply whose conditions hold.
        let held = admit_with(&limits, ("/q?full", &[], true), client, 0).unwrap();
        assert!(!held.is_empty());
        assert!(admit_with(&limits, ("/q?full", &[], true), client, 0).is_err());
        assert!(
            admit_with(&limits, ("/q?x", &[], true), client, 0)
                .unwrap()
                .is_empty()
        );
        assert!(admit_with(&limits, ("/q?x", bot, true), client, 0).is_err());
        drop(held);
        assert!(admit_with(&limits, ("/q?full", &[], true), client, 0).is_ok());
        for (is_secured, expected) in [(false, true), (true, true), (false, false), (true, true)] {
            let found = admit_with(&limits, ("/s", &[], is_secured), client, 0);
            assert_eq!(found.is_ok(), expected, "{is_secured}");
        }
    }

    #[test]
    fn each_client_has_its_rate_for_each_path() {
        let limits = limits("[[limit]]\npath = '/a/*'\nrate = '2/m'\nburst = 2\n");
        for _ in 0..2 {
            assert!(admit(&limits, "/a/x", "192.0.2.1", 0).unwrap().is_ruled());
        }
        for path in ["/a/y", "/a", "/A/x", "/%61//x"] {
            let refused = admit(&limits, path, "192.0.2.1", 0).unwrap_err();
            assert_eq!(refused.retry_after, 30, "{path}");
        }
        assert!(admit(&limits, "/a/x", "::ffff:192.0.2.1", 0).is_err());
        assert!(admit(&limits, "/a/x", "192.0.2.2", 0).is_ok());
        assert!(!admit(&limits, "/b", "192.0.2.1", 0).unwrap().is_ruled());
        assert!(admit(&limits, "/a/x", "192.0.2.1", 30_000).is_ok());
        assert!(admit(&limits, "/a/x", "192.0.2.1", 30_001).is_err());
    }

    #[test]
    fn requests_under_way_hold_their_seats() {
        let limits = limits("[[limit]]\npath = '/a'\nconcurrent = 2\n");
        let first = admit(&limits, "/a", "192.0.2.1", 0).unwrap();
        let mut second = admit(&limits, "/a", "192.0.2.1", 0).unwrap();
        assert!(admit(&limits, "/a", "192.0.2.1", 0).is_err());
        let other = admit(&limits, "/a", "192.0.2.2", 0).unwrap();
        drop(first);
        let third = admit(&limits, "/a", "192.0.2.1", 0).unwrap();
        assert!(admit(&limits, "/a", "192.0.2.1", 0).is_err());
        second.clear();
        assert!(second.is_empty());
        assert!(admit(&limits, "/a", "192.0.2.1", 0).is_ok());
        drop((third, other));
    }

    #[test]
    fn a_refused_request_holds_nothing() {
        let limits = limits(
            "[[limit]]\npath = '/a'\nconcurrent = 1\nrate = '1/h'\n[[limit]]\npath = '*'\nconcurrent = 9\n",
        );
        drop(admit(&limits, "/a", "192.0.2.1", 0).unwrap());
        for _ in 0..20 {
            assert_eq!(
                admit(&limits, "/a", "192.0.2.1", 0).unwrap_err().retry_after,
                3_600
            );
        }
        let held: Vec<Seats> = (0..9)
            .map(|_| admit(&limits, "/b", "192.0.2.1", 0).unwrap())
            .collect();
        assert!(admit(&limits, "/b", "192.0.2.1", 0).is_err());
        drop(held);
    }
}
