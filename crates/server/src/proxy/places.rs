//! Where the upstreams of a route listen: at one address, or at any of the addresses of a host name.
//!
//! ```text
//!   Names: a thread per host name ── known ──▶ Place::find ─▶ the addresses in the order in which a request tries them
//!                                                  ▲
//!                  a connection that did not open ─┘ Place::failed: tried last for a while
//! ```
//! A name is one upstream for the balancer, whatever the number of its addresses; its requests take turns on them. A request
//! keeps the list that it began with, so a change of the addresses does not touch it.

use super::channel::{Exchanged, Layers};
use super::http2::Tally;
use super::secured::Terms;
use crate::config::{Proxy, UpstreamAddress, UpstreamPlace};
use runtime::clock;
use runtime::names::{self, Known, Resolver, Watch};
use runtime::rounds;
use runtime::session::Upstream;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use units::{Duration, Instant};

/// Time for which an address that did not accept a connection is tried last.
const REST: Duration = Duration::from_secs(10);

/// A host name, which several upstreams may have.
#[derive(Debug)]
struct Name {
    host: Arc<str>,
    interval: Duration,
    resolve: Resolver,
    /// From the first use on: processes may be forked before it. `None`: the system had no thread.
    watch: OnceLock<Option<Watch>>,
}

impl Name {
    fn watch(&self) -> Option<&Watch> {
        let start = || {
            let started = Watch::start(&self.host, self.interval, self.resolve);
            let failed = |error| {
                let host = &self.host;
                tracing::warn!(
                    "host name {host}: no thread looks it up: {error}; raise the limit on threads"
                );
            };
            started.map_err(failed).ok()
        };
        self.watch.get_or_init(start).as_ref()
    }

    fn known(&self) -> Known {
        self.watch().map(Watch::known).unwrap_or_else(|| Known {
            failure: Some("no thread".into()),
            ..Known::default()
        })
    }
}

/// The host names of all routes.
#[derive(Debug)]
pub(crate) struct Names {
    all: Vec<Arc<Name>>,
    resolve: Resolver,
}

impl Default for Names {
    fn default() -> Names {
        Names::with(names::system)
    }
}

impl Names {
    fn with(resolve: Resolver) -> Names {
        Names {
            all: Vec::new(),
            resolve,
        }
    }

    /// The places of a rule's upstreams. What `before` knows of a name stays known.
    ///
    /// # Errors
    /// In words, why their TLS cannot be set up.
    pub(crate) fn places(&mut self, rule: &Proxy, before: Option<&Names>) -> Result<Vec<Place>, String> {
        let terms = Terms::of(rule)?;
        let place = |upstream: &UpstreamAddress| -> Result<Place, String> {
            let at = match &upstream.place {
                UpstreamPlace::Address(address) => At::Address(Arc::clone(address)),
                UpstreamPlace::Name { host, port } => At::Name(Box::new(Named {
                    name: self.name(host, rule.resolve_interval, before),
                    port: *port,
                    shown: upstream.to_string().into(),
                    addresses: Mutex::default(),
                })),
            };
            let terms = terms.as_ref().filter(|_| upstream.is_secured());
            let secure = terms.map(|terms| terms.for_upstream(upstream)).transpose()?;
            let layers = Layers::of(secure, upstream.is_http2(), upstream.is_fastcgi());
            Ok(Place { at, layers })
        };
        rule.upstreams.iter().map(place).collect()
    }

    fn name(&mut self, host: &Arc<str>, interval: Duration, before: Option<&Names>) -> Arc<Name> {
        let is_same = |name: &&Arc<Name>| name.host == *host && name.interval == interval;
        if let Some(name) = self.all.iter().find(is_same) {
            return Arc::clone(name);
        }
        let kept = before.and_then(|before| before.all.iter().find(is_same));
        let name = kept.cloned().unwrap_or_else(|| {
            Arc::new(Name {
                host: Arc::clone(host),
                interval,
                resolve: self.resolve,
                watch: OnceLock::new(),
            })
        });
        self.all.push(Arc::clone(&name));
        name
    }

    /// Looks all names up from now on, if that has not begun.
    pub(crate) fn awaken(&self) {
        for name in &self.all {
            name.watch();
        }
    }
}

/// Where an upstream listens, and the layers of its connections.
#[derive(Debug)]
pub(crate) struct Place {
    at: At,
    layers: Option<Layers>,
}

#[derive(Debug)]
enum At {
    Address(Arc<Upstream>),
    Name(Box<Named>),
}

/// An upstream with a host name.
#[derive(Debug)]
struct Named {
    name: Arc<Name>,
    port: u16,
    shown: Arc<str>,
    addresses: Mutex<Addresses>,
}

/// The addresses of a name, as requests use them.
#[derive(Debug, Default)]
struct Addresses {
    known: Arc<[IpAddr]>,
    /// With the time of the last connection that did not open.
    each: Vec<(Arc<Upstream>, Option<Instant>)>,
    /// Index of the first one for the next request.
    next: usize,
}

/// What a request can do with a place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Connect to this address; the others are tried from the last one on.
    At(Arc<Upstream>, Vec<Arc<Upstream>>),
    /// Wait: the name was not looked up yet.
    Unknown,
    /// Nothing: the name has no known address.
    Nowhere,
}

impl Place {
    /// The addresses for a request.
    pub(crate) fn find(&self, now: Instant) -> Found {
        match &self.at {
            At::Address(address) => Found::At(Arc::clone(address), Vec::new()),
            At::Name(named) => named.find(now),
        }
    }

    /// As [`Place::find`], but waits for the first lookup of a name, at most until then.
    pub(crate) fn find_by(&self, until: Instant) -> Found {
        if let At::Name(named) = &self.at
            && let Some(watch) = named.name.watch()
        {
            watch.await_first(until);
        }
        self.find(clock::now())
    }

    /// Its address, unless it has a host name.
    pub(crate) fn address(&self) -> Option<&Arc<Upstream>> {
        match &self.at {
            At::Address(address) => Some(address),
            At::Name(_) => None,
        }
    }

    /// The layers of its connections, if there are any.
    pub(crate) fn layers(&self) -> Option<&Layers> {
        self.layers.as_ref()
    }

    /// What its HTTP/2 connections have done; `None` if it has none.
    pub(crate) fn tally(&self) -> Option<&Arc<Tally>> {
        let layers = self.layers.as_ref().filter(|layers| layers.may_speak_http2())?;
        Some(layers.tally())
    }

    /// Whether its connections may carry HTTP/2.
    pub(crate) fn may_speak_http2(&self) -> bool {
        self.layers.as_ref().is_some_and(Layers::may_speak_http2)
    }

    /// As [`rounds::exchange`], over TLS and in HTTP/2 if the upstream has them. `announcement` is sent first, in the clear.
    pub(crate) fn exchange(
        &self,
        upstream: &Upstream,
        announcement: &[u8],
        bytes: &[u8],
        patience: Duration,
        is_enough: impl FnMut(&mut Vec<u8>, bool) -> io::Result<bool>,
    ) -> Exchanged {
        match &self.layers {
            None => {
                let bytes = [announcement, bytes].concat();
                let (answer, at) = rounds::exchange(upstream, &bytes, patience, is_enough);
                Exchanged {
                    answer,
                    at,
                    is_http2: false,
                }
            }
            Some(layers) => layers.exchange(upstream, announcement, bytes, patience, is_enough),
        }
    }

    /// The realm of its kept connections that carry HTTP/2, or of those that carry HTTP/1.1.
    pub(crate) fn realm(&self, is_http2: bool) -> u64 {
        self.layers.as_ref().map_or(0, |layers| layers.realm(is_http2))
    }

    /// Whether the next connection probably carries HTTP/2: the last one did, or there was none and it is offered.
    pub(crate) fn speaks_http2(&self) -> bool {
        self.layers.as_ref().is_some_and(Layers::speaks_http2)
    }

    /// A connection to this address did not open.
    pub(crate) fn failed(&self, address: &Arc<Upstream>, now: Instant) {
        if let At::Name(named) = &self.at {
            let mut addresses = named.lock();
            if let Some((_, failed)) = addresses.each.iter_mut().find(|(its, _)| its == address) {
                *failed = Some(now);
            }
        }
    }

    /// What is known of the name, if it has one.
    pub(crate) fn known(&self) -> Option<Known> {
        match &self.at {
            At::Address(_) => None,
            At::Name(named) => Some(named.name.known()),
        }
    }

    /// The name, with the port.
    pub(crate) fn name(&self) -> Option<&Arc<str>> {
        match &self.at {
            At::Address(_) => None,
            At::Name(named) => Some(&named.shown),
        }
    }
}

impl Named {
    fn lock(&self) -> MutexGuard<'_, Addresses> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, now: Instant) -> Found {
        let known = self.name.known();
        if known.addresses.is_empty() {
            return match known.failure {
                Some(_) => Found::Nowhere,
                None => Found::Unknown,
            };
        }
        let mut addresses = self.lock();
        if !Arc::ptr_eq(&addresses.known, &known.addresses) {
            addresses.replace(&known.addresses, self.port);
        }
        addresses.turn(now)
    }
}

impl Addresses {
    fn replace(&mut self, known: &Arc<[IpAddr]>, port: u16) {
        let before = std::mem::take(&mut self.each);
        let upstream = |address: &IpAddr| {
            let upstream = Upstream::Tcp(SocketAddr::new(*address, port));
            let kept = before.iter().find(|(its, _)| **its == upstream);
            kept.cloned().unwrap_or_else(|| (Arc::new(upstream), None))
        };
        self.each = known.iter().map(upstream).collect();
        self.known = Arc::clone(known);
    }

    /// The order for the next request: one after the other is the first, and those that failed lately are last.
    fn turn(&mut self, now: Instant) -> Found {
        let count = self.each.len();
        let first = self.next % count;
        self.next = first + 1;
        let in_turn = (0..count).map(|offset| &self.each[(first + offset) % count]);
        let rests = |failed: &Option<Instant>| failed.is_some_and(|failed| now.since(failed) < REST);
        let (resting, well): (Vec<_>, Vec<_>) = in_turn.partition(|(_, failed)| rests(failed));
        let mut order = well
            .into_iter()
            .chain(resting)
            .map(|(upstream, _)| Arc::clone(upstream));
        let Some(to) = order.next() else {
            return Found::Nowhere;
        };
        let mut others: Vec<_> = order.collect();
        others.reverse();
        Found::At(to, others)
    }
}

/// Where a request goes, for logs.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) name: Option<Arc<str>>,
    /// `None`: no address of the name is known.
    pub(crate) address: Option<Arc<Upstream>>,
}

impl Target {
    /// The address; the name if none is known.
    pub(crate) fn place(&self) -> &dyn fmt::Display {
        match (&self.address, &self.name) {
            (Some(address), _) => address,
            (None, Some(name)) => name,
            (None, None) => &"-",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.name, &self.address) {
            (Some(name), Some(address)) => write!(f, "{name} ({address})"),
            (None, Some(address)) => address.fmt(f),
            (Some(name), None) => f.write_str(name),
            (None, None) => f.write_str("-"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Proxy;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn rule(upstreams: &[&str]) -> Proxy {
        let upstreams = upstreams.iter().map(|text| text.parse().unwrap());
        Proxy::new("/api/*".parse().unwrap(), upstreams.collect())
    }

    fn ports_of(found: Found) -> Vec<String> {
        let Found::At(to, mut others) = found else {
            panic!("{found:?}");
        };
        others.reverse();
        let all = std::iter::once(to).chain(others);
        all.map(|upstream| upstream.to_string()).collect()
    }

    fn addresses(count: u8) -> Arc<[IpAddr]> {
        (1..=count).map(|last| IpAddr::from([192, 0, 2, last])).collect()
    }

    #[test]
    fn addresses_take_turns_and_one_that_failed_is_last_for_a_while() {
        let now = Instant::from_nanos(1_000_000_000);
        let mut all = Addresses::default();
        all.replace(&addresses(3), 80);
        let turn = |all: &mut Addresses, now| ports_of(all.turn(now));
        assert_eq!(
            turn(&mut all, now),
            ["192.0.2.1:80", "192.0.2.2:80", "192.0.2.3:80"]
        );
        assert_eq!(
            turn(&mut all, now),
            ["192.0.2.2:80", "192.0.2.3:80", "192.0.2.1:80"]
        );
        all.each[2].1 = Some(now);
        assert_eq!(
            turn(&mut all, now),
            ["192.0.2.1:80", "192.0.2.2:80", "192.0.2.3:80"]
        );
        // What is known of an address outlives a change of the others.
        all.replace(&addresses(4), 80);
        all.next = 2;
        let rests = ["192.0.2.4:80", "192.0.2.1:80", "192.0.2.2:80", "192.0.2.3:80"];
        assert_eq!(turn(&mut all, now), rests);
        all.next = 2;
        assert_eq!(turn(&mut all, now + REST)[0], "192.0.2.3:80");
        all.replace(&addresses(1), 80);
        assert_eq!(turn(&mut all, now), ["192.0.2.1:80"]);
    }

    #[test]
    fn a_name_is_looked_up_once_for_all_rules_and_kept_by_a_reload() {
        static LOOKUPS: AtomicU32 = AtomicU32::new(0);
        fn resolve(host: &str) -> io::Result<Vec<IpAddr>> {
            LOOKUPS.fetch_add(1, Ordering::SeqCst);
            match host {
                "app" => Ok(addresses(2).to_vec()),
                _ => Err(io::Error::other("no such name")),
            }
        }
        let now = Instant::from_nanos(1);
        let mut names = Names::with(resolve);
        let first = names
            .places(&rule(&["http://app:1", "http://192.0.2.9:1"]), None)
            .unwrap();
        let second = names
            .places(&rule(&["http://app:2", "http://none:2"]), None)
            .unwrap();
        assert_eq!((names.all.len(), LOOKUPS.load(Ordering::SeqCst)), (2, 0));
        names.awaken();
        while LOOKUPS.load(Ordering::SeqCst) < 2 || first[0].find(now) == Found::Unknown {
            std::thread::yield_now();
        }
        assert_eq!(ports_of(first[1].find(now)), ["192.0.2.9:1"]);
        assert_eq!(ports_of(second[0].find(now)), ["192.0.2.1:2", "192.0.2.2:2"]);
        while second[1].find(now) == Found::Unknown {
            std::thread::yield_now();
        }
        assert_eq!(second[1].find(now), Found::Nowhere);
        let mut after = Names::with(resolve);
        let third = after.places(&rule(&["http://app:3"]), Some(&names)).unwrap();
        assert_eq!(ports_of(third[0].find(now)), ["192.0.2.1:3", "192.0.2.2:3"]);
        assert!(Arc::ptr_eq(&names.all[0], &after.all[0]));
    }
}
