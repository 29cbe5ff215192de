//! Requests that are passed to other servers (RFC 9110 section 3.7: a gateway).
//!
//! ```text
//!   request ─▶ Proxies::find ─▶ Route ─▶ Forward: one exchange with one upstream
//!                                          head ─▶ heads are parsed and written anew
//! ```
//! This file decides which route a request takes. `balance` chooses among its upstreams, `places` knows where they listen,
//! `secured` has their TLS, `channel` the layers of a connection, `http2` the frames, `shared` a connection with several
//! requests. `forward` carries one request and its response; `head` decides which field lines pass, and `http1`
//! writes to a client of HTTP/1. `scripts` and `fastcgi` are for applications of FastCGI. `retry` bounds how often a
//! request is repeated, `failed` says why there is no response. `cache` stores responses, `refresh` validates them without
//! a client.

mod balance;
pub(crate) mod cache;
mod channel;
pub(crate) mod direct;
pub(crate) mod failed;
mod fastcgi;
pub(crate) mod forward;
pub(crate) mod head;
pub(crate) mod http1;
mod http2;
pub(crate) mod places;
mod refresh;
mod retry;
pub(crate) mod scripts;
mod secured;
mod shared;

use self::balance::{Balancer, DryRun};
use self::cache::{Cache, Cached, Purges};
use self::refresh::{Refresh, Refresher};
use self::scripts::{Asked, Scripts};
use crate::access_log;
use crate::checked::Vouched;
use crate::config::{Config, Facts, Proxy, Redirect};
use crate::hosts::Hosts;
use crate::site::OpenError;
use crate::uploads::{self, Service, Uploads};
use ::balance::{Policy, State};
use http_semantics::method::Method;
use http_semantics::request::{Protocol, RequestHead};
pub(crate) use places::Target;
use places::{Names, Place};
use runtime::names::Known;
use std::collections::BTreeSet;
use std::sync::Arc;
use units::{Duration, Instant, UnixTime};

/// The routes of all sites.
#[derive(Debug, Default)]
pub(crate) struct Proxies {
    /// By index of the site; empty if no site has a route.
    sites: Vec<Routes>,
    names: Names,
    caches: Vec<Named>,
    /// What carries out changes of files, behind routes of its own.
    uploads: Uploads,
}

/// A cache, and the first of the rules that share it.
#[derive(Debug)]
struct Named {
    rule: Proxy,
    cache: Arc<Cache>,
}

impl Named {
    /// Whether requests of `rule` get the same responses, stored in the same way.
    fn is_for(&self, rule: &Proxy) -> bool {
        fn asked(rule: &Proxy) -> impl PartialEq {
            (
                &rule.upstreams,
                &rule.cache,
                &rule.tls,
                rule.http2,
                rule.strip,
                &rule.rewrite,
                &rule.request_header,
            )
        }
        asked(&self.rule) == asked(rule)
    }
}

/// The routes of a site.
#[derive(Debug, Default)]
struct Routes {
    all: Vec<Arc<Route>>,
    /// The site's redirects, which come before routes of requests without a file, and before all routes if they have
    /// conditions; empty if none comes before a route.
    redirects: Vec<Redirect>,
}

/// A rule, and the state of its upstreams.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) rule: Proxy,
    balancer: Balancer,
    budget: retry::Budget,
    /// Where each upstream listens.
    places: Arc<[Place]>,
    /// Responses that are stored for other clients.
    pub(crate) cache: Option<Arc<Cache>>,
    refresher: Refresher,
    /// The upstream, if it is the part of this process that stores uploads. It accepts connections as long as requests have this route.
    uploads: Option<Arc<Service>>,
    /// The scripts of applications, if the upstreams speak FastCGI.
    pub(crate) scripts: Option<Arc<Scripts>>,
}

impl Route {
    fn new(
        rule: Proxy,
        names: &mut Names,
        before: Option<&Names>,
        cache: Option<Arc<Cache>>,
    ) -> Result<Route, String> {
        let places: Arc<[Place]> = names.places(&rule, before)?.into();
        Ok(Route {
            cache,
            refresher: refresh::refresher(),
            balancer: Balancer::new(&rule, &places)?,
            budget: retry::Budget::new(),
            places,
            rule,
            uploads: None,
            scripts: None,
        })
    }

    /// The route to what carries out changes of files.
    fn to_uploads(service: &Arc<Service>, names: &mut Names) -> Result<Route, String> {
        Ok(Route {
            uploads: Some(Arc::clone(service)),
            ..Route::new(service.route(), names, None, None)?
        })
    }

    /// The route to what executes commands.
    pub(crate) fn to_control(rule: Proxy) -> Result<Route, String> {
        Route::new(rule, &mut Names::default(), None, None)
    }

    /// What is at its end.
    pub(crate) fn end(&self) -> End {
        match (&self.uploads, self.rule.is_local()) {
            (Some(_), _) => End::Uploads,
            (None, true) => End::Control,
            (None, false) => End::Upstreams,
        }
    }

    /// The cache that takes part in an exchange. `switches`: the connection switches to WebSocket. `is_personal`: another
    /// server decides about the request.
    ///
    /// # Errors
    /// Why none takes part, as a clause.
    pub(crate) fn cache_for(&self, switches: bool, is_personal: bool) -> Result<&Arc<Cache>, &'static str> {
        match &self.cache {
            None => Err("the rule has no `cache`"),
            Some(_) if switches => Err("the connection switches to WebSocket"),
            Some(_) if is_personal => {
                Err("another server decides about the request (`auth`), so the response is for one client")
            }
            Some(cache) => Ok(cache),
        }
    }

    /// Validates a stored response without a client.
    fn refresh(self: &Arc<Route>, request: Vec<u8>, cached: Cached, key: u64, now: Instant) {
        let route = Arc::downgrade(self);
        self.refresher.offer(Refresh {
            route,
            request,
            cached,
            key,
            now,
        });
    }
}

/// What is at the end of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Other servers.
    Upstreams,
    /// The part of this process that stores uploads.
    Uploads,
    /// The part of this process that takes commands for the operator.
    Control,
}

/// An upstream that did not answer a request.
#[derive(Clone, Debug)]
pub(crate) struct Tried {
    pub(crate) target: Target,
    /// Time from the dial to the failure.
    pub(crate) took: Duration,
    /// The request to it, if its trace is recorded.
    pub(crate) call: Option<access_log::Call>,
    /// What the cache of the rule did, in a word of `Cache-Status`, if it has one.
    pub(crate) cache: Option<&'static str>,
}

/// A route as the live page and the metrics show it.
#[derive(Debug)]
pub(crate) struct Forwarding {
    /// Number of its site: 0 is the top level, others are hosts in the order of the file.
    pub(crate) site: String,
    /// Pattern of the rule, and its conditions if it has any.
    pub(crate) path: String,
    pub(crate) policy: Policy,
    /// Address and state of each upstream.
    pub(crate) upstreams: Vec<(String, State)>,
    /// Of each upstream that may speak HTTP/2: requests sent in HTTP/2, those that found an open connection, GOAWAY frames, and
    /// requests that were not processed.
    pub(crate) http2: Vec<(String, [u64; 4])>,
    /// What is known of each upstream with a host name.
    pub(crate) names: Vec<(String, Known)>,
    pub(crate) dry_run: Option<DryRun>,
}

/// Where a request goes.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) route: Arc<Route>,
    /// Target for the upstream.
    pub(crate) target: Vec<u8>,
    /// What other servers say of the request, if they were asked and have answered.
    pub(crate) vouched: Option<Arc<Vouched>>,
    /// What an application of FastCGI is asked for.
    pub(crate) script: Option<Asked>,
}

impl Found {
    /// With what other servers say of the request.
    pub(crate) fn vouched(self, vouched: Option<Arc<Vouched>>) -> Found {
        Found { vouched, ..self }
    }
}

impl Proxies {
    /// The routes of these hosts. Rules that ask the same upstreams in the same way share a cache if its settings are the
    /// same: those of a flag, for example. A rule keeps the cache that such a rule of `before` had. What `before` knows of a host name
    /// stays known.
    ///
    /// # Errors
    /// In words, why the TLS of an upstream cannot be set up, a file cannot be opened, or a folder for uploads cannot be used.
    pub(crate) fn of(
        config: &Config,
        hosts: &Hosts,
        before: Option<&Proxies>,
        purges: &Purges,
    ) -> Result<Proxies, OpenError> {
        if !config.has_proxies() {
            return Ok(Proxies::default());
        }
        let sites = hosts.places().iter().map(|place| (&place.config, &place.site));
        let uploads = Uploads::of(sites, before.map(|before| &before.uploads)).map_err(OpenError::Uploads)?;
        Proxies::with(uploads, config, hosts, before, purges).map_err(OpenError::Upstreams)
    }

    fn with(
        uploads: Uploads,
        config: &Config,
        hosts: &Hosts,
        before: Option<&Proxies>,
        purges: &Purges,
    ) -> Result<Proxies, String> {
        let mut files = BTreeSet::new();
        let mut records = config.proxies().filter_map(|rule| rule.balance_record.as_deref());
        if let Some(twice) = records.find(|file| !files.insert(*file)) {
            return Err(format!(
                "`balance-record` names `{}` for two rules; name a file for each",
                twice.display()
            ));
        }
        let mut names = Names::default();
        let known = before.map(|before| &before.names);
        let mut caches: Vec<Named> = Vec::new();
        let mut cache_of = |rule: &Proxy| -> Result<Option<Arc<Cache>>, String> {
            let Some(config) = &rule.cache else {
                return Ok(None);
            };
            let older = before.map(|before| &before.caches[..]).unwrap_or_default();
            let is_same = |named: &&Named| named.is_for(rule);
            if let Some(known) = caches.iter().find(is_same) {
                return Ok(Some(Arc::clone(&known.cache)));
            }
            let has_folder = |named: &Named| {
                named.rule.cache.as_ref().and_then(|other| other.disk.as_ref()) == config.disk.as_ref()
            };
            if let Some(folder) = &config.disk
                && caches.iter().any(has_folder)
            {
                return Err(format!(
                    "`disk` names `{}` for two rules that share no cache; name a folder for each",
                    folder.display()
                ));
            }
            let cache = match older.iter().find(is_same) {
                Some(kept) => Arc::clone(&kept.cache),
                None => Arc::new(Cache::new(config, purges)),
            };
            caches.push(Named {
                rule: rule.clone(),
                cache: Arc::clone(&cache),
            });
            Ok(Some(cache))
        };
        let mut routes = |site: usize, config: &Config| -> Result<Routes, String> {
            let rules = config.proxy.iter().cloned();
            let is_behind_files = config.proxy.iter().any(Proxy::is_behind_files);
            let have_conditions = config.redirect.iter().any(|rule| !rule.conditions().is_empty());
            let route = |rule: Proxy| {
                let cache = cache_of(&rule)?;
                let scripts = scripts(&rule, &hosts.places()[site])?;
                let route = Route::new(rule, &mut names, known, cache)?;
                Ok::<_, String>(Arc::new(Route { scripts, ..route }))
            };
            let proxied: Vec<Arc<Route>> = rules.map(route).collect::<Result<_, _>>()?;
            let changes = uploads.of_site(site).iter();
            let changes = changes.map(|service| Route::to_uploads(service, &mut names).map(Arc::new));
            let mut all: Vec<Arc<Route>> = changes.collect::<Result<_, _>>()?;
            all.extend(proxied);
            Ok(Routes {
                all,
                redirects: match is_behind_files || have_conditions {
                    true => config.redirect.clone(),
                    false => Vec::new(),
                },
            })
        };
        let sites = hosts.places().iter().enumerate();
        let sites = sites
            .map(|(site, place)| routes(site, &place.config))
            .collect::<Result<_, _>>()?;
        Ok(Proxies {
            sites,
            names,
            caches,
            uploads,
        })
    }

    /// What each cache has done and holds, with the upstreams of the rules that share it.
    pub(crate) fn cache_reports(&self) -> Vec<(String, cache::Report)> {
        let name = |named: &Named| {
            let upstreams: Vec<String> = named.rule.upstreams.iter().map(ToString::to_string).collect();
            upstreams.join(" ")
        };
        let caches = self.caches.iter();
        caches.map(|named| (name(named), named.cache.report())).collect()
    }

    /// Notes a purge and drops stored responses of all caches. Returns how many. Only one thread of one process may call this.
    pub(crate) fn purge(&self, what: &cache::Purge, purges: &Purges, now: UnixTime) -> u64 {
        // Other threads would apply the purge first, and what they drop would not be counted here.
        let held = self
            .caches
            .iter()
            .map(|named| (&named.cache, named.cache.hold_purges()));
        let mut held: Vec<_> = held.collect();
        purges.note(what);
        let count = held.iter_mut().map(|(cache, applied)| cache.apply(applied)).sum();
        // Once the operator is told, no crash brings back what was dropped.
        for (cache, _) in held {
            cache.sweep(now);
        }
        count
    }

    /// Begins to look host names up, and to use the disks of caches. A process calls this once it does not fork any more.
    pub(crate) fn awaken(&self) {
        self.names.awaken();
        for named in &self.caches {
            named.cache.awaken();
        }
        self.uploads.awaken();
    }

    /// What each folder for uploads has taken, by its path.
    pub(crate) fn uploads_report(&self) -> Vec<(String, uploads::Counts)> {
        self.uploads.report()
    }

    /// What is known of the upstreams of all routes, site by site.
    pub(crate) fn report(&self) -> Vec<Forwarding> {
        let numbered = self.sites.iter().enumerate();
        let routes = numbered.flat_map(|(site, routes)| routes.all.iter().map(move |route| (site, route)));
        routes
            .filter(|(_, route)| route.uploads.is_none())
            .map(|(site, route)| Forwarding {
                site: site.to_string(),
                path: route.rule.shown(),
                policy: route.rule.balance,
                upstreams: route
                    .rule
                    .upstreams
                    .iter()
                    .map(ToString::to_string)
                    .zip(route.balancer.states())
                    .collect(),
                http2: route
                    .places
                    .iter()
                    .zip(&route.rule.upstreams)
                    .filter_map(|(place, upstream)| Some((upstream.to_string(), place.tally()?.counts())))
                    .collect(),
                names: route
                    .places
                    .iter()
                    .filter_map(|place| Some((place.name()?.to_string(), place.known()?)))
                    .collect(),
                dry_run: route.balancer.dry_run(),
            })
            .collect()
    }

    /// Whether there are no routes.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    /// The route of a request to the site at this index, if the request needs no file to be looked up. CONNECT and TRACE are
    /// never passed on: a tunnel could lead anywhere, and TRACE would show fields that this server adds.
    #[cold]
    pub(crate) fn find(&self, site: usize, facts: Facts<'_, '_, '_>, has_body: bool) -> Option<Found> {
        let (found, redirect) = self.first(site, facts)?;
        if let Some(Asked::Script { .. }) = found.script {
            // The file server never serves its source.
            return redirect.is_none().then_some(found);
        }
        let is_passed = match (redirect, found.route.rule.is_behind_files()) {
            // Without conditions, a redirect is for what no upstream answers.
            (Some(redirect), false) => redirect.conditions().is_empty(),
            (Some(_), true) => false,
            (None, false) => true,
            (None, true) => !asks_for_file(facts.head, has_body),
        };
        is_passed.then_some(found)
    }

    /// The route of a request to the site at this index for which there is no file, if no earlier rule covers its path.
    #[cold]
    pub(crate) fn without_file(&self, site: usize, facts: Facts<'_, '_, '_>) -> Option<Found> {
        let (found, _) = self.first(site, facts)?;
        found.route.rule.is_behind_files().then_some(found)
    }

    /// The route of the first rule that applies to the request, and the redirect that does.
    fn first(&self, site: usize, facts: Facts<'_, '_, '_>) -> Option<(Found, Option<&Redirect>)> {
        let head = facts.head;
        if head.protocol == Protocol::Http09 || matches!(head.method, Method::Connect | Method::Trace) {
            return None;
        }
        let routes = self.sites.get(site)?;
        let raw = head.target.path()?;
        let path = crate::config::spelling(raw)?;
        let found = routes.all.iter().find_map(|route| {
            let target = route.rule.target(&path, raw, head.target.query())?;
            route.rule.conditions.hold(facts).then_some(())?;
            let script = match &route.scripts {
                Some(scripts) => Some(scripts.asked(raw)?),
                None => None,
            };
            Some(Found {
                route: Arc::clone(route),
                target,
                vouched: None,
                script,
            })
        })?;
        let mut redirects = routes.redirects.iter();
        Some((found, redirects.find(|one| one.applies(&path, facts).is_some())))
    }
}

/// The scripts of a rule for this site; `None`: its upstreams do not speak FastCGI.
///
/// # Errors
/// In words, why the application cannot be told where they are.
fn scripts(rule: &Proxy, place: &crate::hosts::Place) -> Result<Option<Arc<Scripts>>, String> {
    let Some(scripts) = rule.scripts() else {
        return Ok(None);
    };
    let root = place.config.root.as_ref().ok_or_else(|| {
        format!(
            "the rule for `{}` runs scripts below `root`, and the site has none; name the directory of the scripts",
            rule.path
        )
    })?;
    let root = std::path::absolute(root)
        .map_err(|error| format!("`root` has no absolute path: {error}; write one, as FastCGI needs it"))?;
    let scripts = Scripts::new(scripts, &place.site, &root, place.config.hidden);
    Ok(Some(Arc::new(scripts)))
}

/// Whether a file may answer the request. The file server would discard a body.
fn asks_for_file(head: &RequestHead<'_, '_>, has_body: bool) -> bool {
    matches!(head.method, Method::Get | Method::Head) && !has_body
}

#[cfg(test)]
mod tests {
    use super::failed::Failed;
    use super::forward::Forward;
    use super::*;
    use crate::checked::Guarded;
    use crate::client_address::From;
    use ::http1::framing::Framing;
    use ::http1::server::{Connection, Step};
    use ::http1::slots::Slots;
    use ::http1::{Fault, Limits};
    use runtime::session::Ask;
    use units::Seed;

    /// Its size is not the fault of an upstream.
    #[test]
    fn a_request_with_more_lines_than_can_be_read_goes_to_no_upstream() {
        let rule = "path = '/a/*'\nupstreams = ['h2c://10.0.0.1:80']\nkeepalive = 0";
        let rule: Proxy = toml::from_str(rule).expect("a rule");
        let route = Route::new(rule, &mut Names::default(), None, None).expect("a route");
        let route = Arc::new(route);
        let from = From {
            peer: "192.0.2.7".parse().expect("an address"),
            hops: Vec::new(),
            may_claim_https: false,
            is_secured: false,
            guarded: Guarded::default(),
            id: None,
            trace: None,
        };
        let now = Instant::ZERO;
        for (lines, failed) in [(200, None), (260, Some(Failed::Request(Fault::TooManyFields)))] {
            let mut slots = Slots::new();
            let text = b"GET /a/x HTTP/1.1\r\nHost: a.test\r\n\r\n";
            let mut http = Connection::new();
            let Ok(Step::Request { head, .. }) = http.receive(text, &mut slots, &Limits::DEFAULT) else {
                panic!("a request")
            };
            let found = Found {
                route: Arc::clone(&route),
                target: b"/a/x".to_vec(),
                vouched: Some(Arc::new(Vouched {
                    lines: b"X-Group: y\r\n".repeat(lines),
                    user: None,
                })),
                script: None,
            };
            let times = (UnixTime::from_secs(0), now);
            let forward = Forward::new(found, &head.semantics(), Framing::Empty, &from, 0, times);
            let mut forward = forward.expect("it can be written");
            forward.start(&mut Seed(1).rng(), now);
            assert_eq!(forward.failed(), failed, "{lines}");
            if failed.is_none() {
                assert!(matches!(forward.ask(now), Some((_, Ask::Dial(_)))));
                assert!(forward.opened(now));
                assert!(matches!(forward.ask(now), Some((_, Ask::Send(_)))));
                assert_eq!(forward.failed(), None);
            }
        }
    }

    #[test]
    fn rules_share_a_cache_if_they_ask_alike() {
        let rule = |more: &str| -> Proxy {
            let text = format!("path = '/a/*'\nupstreams = ['http://10.0.0.1:80']\ncache = true\n{more}");
            toml::from_str(&text).expect("a rule")
        };
        let first = rule("");
        let cache = Cache::new(first.cache.as_ref().expect("a cache"), &Purges::default());
        let cache = Arc::new(cache);
        let named = Named { rule: first, cache };
        assert!(named.is_for(&rule("balance = 'hash'")));
        for other in [
            "strip = true",
            "rewrite = '/b/*'",
            "[request-header]\nset = ['Host: b.test']",
            "[tls]\nserver-name = 'b.test'",
        ] {
            assert!(!named.is_for(&rule(other)), "{other}");
        }
    }
}
