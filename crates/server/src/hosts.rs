//! Selects the site for a request.
//!
//! The host name comes from the target or `Host` (RFC 9110 section 7.2), without port and regardless of case. An exact
//! name takes precedence over a wildcard, and a longer wildcard over a shorter one. Requests for unknown names get the
//! first site. This file also opens the sites; it does not know how they answer.

use crate::config::Config;
use crate::entry::Answer;
use crate::filter::{Filter, Filters};
use crate::site::{Logins, Lookup, OpenError, Site, SiteConfig, Source};
use crate::store::StoreCounters;
use core::fmt;
use runtime::fs::{VersionError, VersionFolder};
use runtime::session::Job;
use std::collections::HashMap;
use std::sync::Arc;
use units::{Instant, UnixTime};

/// Longest name in the DNS (RFC 1035 section 2.3.4); configured names are never longer.
const NAME_MAX: usize = 255;

/// A site with its configuration.
#[derive(Debug)]
pub(crate) struct Place {
    /// The configuration of this site alone. With `versions`, its root is the version in force.
    pub(crate) config: Config,
    pub(crate) site: Arc<Site>,
}

/// A configured page for errors or unknown paths that its site does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingPage {
    /// `error-pages` or `spa-fallback`.
    pub key: &'static str,
    /// Path of the page.
    pub page: String,
    /// The part of the configuration that names the page.
    pub named_by: NamedBy,
}

/// The part of a configuration that names a page of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// The top level, for its own site.
    Top,
    /// The host.
    Host {
        /// Index of the host, from 0.
        number: usize,
        /// First name of the host.
        name: String,
    },
    /// The top level, for a host that inherits the setting.
    TopForHost {
        /// Index of the host, from 0.
        number: usize,
        /// First name of the host.
        name: String,
    },
}

impl NamedBy {
    /// The part that names the page of `key` for the site at `index`.
    fn of(whole: &Config, index: usize, key: &str) -> NamedBy {
        let Some((number, host)) = index
            .checked_sub(1)
            .and_then(|at| Some((at, whole.host.get(at)?)))
        else {
            return NamedBy::Top;
        };
        let name = host.names.first().map(ToString::to_string).unwrap_or_default();
        let is_own = match key {
            "error-pages" => host.error_pages.is_some(),
            _ => host.spa_fallback.as_ref().is_some(),
        };
        match is_own {
            true => NamedBy::Host { number, name },
            false => NamedBy::TopForHost { number, name },
        }
    }
}

impl MissingPage {
    /// Whether the site itself configures the page. A host that only inherits the setting need not have the page.
    pub fn is_mistake(&self) -> bool {
        !matches!(self.named_by, NamedBy::TopForHost { .. })
    }
}

impl fmt::Display for MissingPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MissingPage { key, page, .. } = self;
        match &self.named_by {
            NamedBy::Top => write!(
                f,
                "`{page}` is not among the files served; create it, or configure another page"
            ),
            NamedBy::Host { name, .. } => write!(
                f,
                "`{page}` is not among the files of host `{name}`; create it, or configure another page"
            ),
            NamedBy::TopForHost { name, .. } => {
                let instead = match *key {
                    "error-pages" => "errors get the built-in page",
                    _ => "unknown paths get 404",
                };
                write!(
                    f,
                    "`{page}`, configured at the top level, is not among the files of host `{name}`: {instead}; create the \
                     page, or set `{key}` for the host"
                )
            }
        }
    }
}

/// The sites of a configuration; the first is that of the top level.
#[derive(Debug)]
pub(crate) struct Hosts {
    places: Vec<Place>,
    exact: HashMap<Box<[u8]>, usize>,
    /// Suffixes of wildcard names, with their leading dot.
    below: HashMap<Box<[u8]>, usize>,
    /// Length of the longest of them.
    below_max: usize,
}

impl Hosts {
    /// Opens the sites of `config` with the `added` filters. Sites that have not changed since `before` are kept with
    /// their cache.
    ///
    /// # Errors
    /// The first root or version that cannot be opened, hosts with conflicting settings, or a password database that
    /// cannot be read.
    pub(crate) fn open(
        config: &Config,
        embedded: &Source,
        added: &[Arc<dyn Filter>],
        before: Option<&Hosts>,
    ) -> Result<Hosts, OpenError> {
        let mut kept: Vec<&Place> = before.map_or(Vec::new(), |hosts| hosts.places.iter().collect());
        let mut places = Vec::with_capacity(config.host.len() + 1);
        let whole = config;
        for (index, mut config) in config.sites().map_err(OpenError::Hosts)?.into_iter().enumerate() {
            let host = index.checked_sub(1);
            let modified_min =
                take_version(&mut config).map_err(|cause| OpenError::Version { host, cause })?;
            let logins = config.tilde.as_ref().map(Logins::look_up).transpose();
            let logins = logins.map_err(OpenError::Logins)?.map(Arc::new);
            let of_mount = |error| mounted_by(host.filter(|&at| whole.host[at].mount.is_some()), error);
            let same = kept
                .iter()
                .position(|place| place.config.same_site(&config) && place.site.config().logins == logins);
            let site = match same.map(|at| kept.swap_remove(at)) {
                Some(place) => {
                    place.site.confirm().map_err(of_mount)?;
                    Arc::clone(&place.site)
                }
                None => Arc::new(
                    Site::open(SiteConfig {
                        logins,
                        modified_min,
                        filters: Filters::of(config.header_rule.clone(), added),
                        ..SiteConfig::of(&config, embedded.clone())
                    })
                    .map_err(of_mount)?,
                ),
            };
            places.push(Place { config, site });
        }
        let (mut exact, mut below) = (HashMap::new(), HashMap::<Box<[u8]>, usize>::new());
        for (index, host) in config.host.iter().enumerate() {
            for name in &host.names {
                match name.parts() {
                    (name, false) => drop(exact.insert(name.as_bytes().into(), index + 1)),
                    (name, true) => drop(below.insert(format!(".{name}").into_bytes().into(), index + 1)),
                }
            }
        }
        let below_max = below.keys().map(|name| name.len()).max().unwrap_or(0);
        Ok(Hosts {
            places,
            exact,
            below,
            below_max,
        })
    }

    /// Index of the site for a request to this authority.
    #[inline]
    pub(crate) fn index_of(&self, authority: Option<&[u8]>) -> usize {
        match authority {
            Some(authority) if self.places.len() > 1 => self.look_up(authority),
            _ => 0,
        }
    }

    fn look_up(&self, authority: &[u8]) -> usize {
        let name = without_port(authority);
        let name = name.strip_suffix(b".").unwrap_or(name);
        let mut lower = [0; NAME_MAX];
        let Some(lower) = lower.get_mut(..name.len()) else {
            return 0;
        };
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        if let Some(&index) = self.exact.get(&*lower) {
            return index;
        }
        // The longest suffix first; those that are longer than all names are not looked up.
        let first = lower.len().saturating_sub(self.below_max);
        let mut dots = (first..lower.len()).filter(|&at| lower[at] == b'.');
        let below = dots.find_map(|at| self.below.get(&lower[at..]));
        below.copied().unwrap_or(0)
    }

    /// The site at this index.
    #[inline]
    pub(crate) fn place(&self, index: usize) -> &Place {
        &self.places[index]
    }

    /// Cache counters of all sites together.
    pub(crate) fn cache(&self) -> StoreCounters {
        let mut cache = StoreCounters::default();
        for place in &self.places {
            cache += place.site.counters();
        }
        cache
    }

    /// Configured pages for errors and unknown paths that do not exist. `whole` is the configuration of all sites.
    pub(crate) fn missing_pages(&self, whole: &Config, now: Instant, wall: UnixTime) -> Vec<MissingPage> {
        let of = |(index, place): (usize, &Place)| {
            let config = &place.config;
            let errors = config.error_pages.paths().map(|path| ("error-pages", path));
            let fallback = config.spa_fallback.iter().map(|path| ("spa-fallback", &**path));
            let mut view = place.site.view(now, wall);
            let is_missing = |&(_, path): &(&str, &str)| {
                let found = match view.lookup(path.as_bytes()) {
                    Lookup::Hit(entry) => Arc::clone(entry),
                    Lookup::Load(load) => view.finish(load.try_now().unwrap_or_else(Job::run)),
                    Lookup::Refused => return true,
                };
                !matches!(found.answer, Answer::Resource(_))
            };
            let pages = errors.chain(fallback).filter(is_missing);
            pages
                .map(|(key, path)| MissingPage {
                    key,
                    page: path.to_owned(),
                    named_by: NamedBy::of(whole, index, key),
                })
                .collect::<Vec<_>>()
        };
        let mut missing: Vec<MissingPage> = self.places.iter().enumerate().flat_map(of).collect();
        // A host with the root and page of the top level would only repeat its error.
        let of_top: Vec<(&str, String)> = missing
            .iter()
            .filter(|one| one.named_by == NamedBy::Top)
            .map(|one| (one.key, one.page.clone()))
            .collect();
        missing.retain(|one| match one.named_by {
            NamedBy::TopForHost { number, .. }
                if whole.host[number].root.is_none() && whole.host[number].versions.is_none() =>
            {
                !of_top.contains(&(one.key, one.page.clone()))
            }
            _ => true,
        });
        missing
    }

    /// Whether the roots of all sites can be opened, as far as known. Also starts a new check.
    pub(crate) fn are_reachable(&self) -> bool {
        // Count instead of stopping at the first, so that every root is checked.
        let lost = self.places.iter().filter(|place| !place.site.is_reachable());
        lost.count() == 0
    }

    /// All sites, that of the top level first.
    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }
}

/// Names the host that sets a mount whose root cannot be opened; `None`: the top level sets it.
fn mounted_by(host: Option<usize>, error: OpenError) -> OpenError {
    match error {
        OpenError::Mount {
            path, root, cause, ..
        } => OpenError::Mount {
            host,
            path,
            root,
            cause,
        },
        error => error,
    }
}

/// Makes the version in force the root of a site that has versions. Returns when it was put in force.
fn take_version(config: &mut Config) -> Result<Option<UnixTime>, VersionError> {
    let Some(folder) = config.versions.as_deref().map(VersionFolder::at) else {
        return Ok(None);
    };
    let chosen_at = folder.chosen_at()?;
    let name = folder.links()?.current;
    match folder.check(&name) {
        Err(fault @ (VersionError::Missing(_) | VersionError::NoFolder(_))) => return Err(fault),
        // What else is wrong is so with any root. One that has become empty can be served.
        _ => config.root = Some(folder.version(&name)),
    }
    Ok(Some(chosen_at))
}

/// The authority without its port: the digits after the last colon outside an IPv6 literal.
pub(crate) fn without_port(authority: &[u8]) -> &[u8] {
    match authority.iter().rposition(|&b| b == b':' || b == b']') {
        Some(at) if authority[at] == b':' => &authority[..at],
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn source() -> Source {
        Source::Embedded {
            files: &[("/a.txt", b"a")],
            modified: UnixTime::from_secs(784_111_777),
        }
    }

    #[test]
    fn names_find_their_site() {
        let text = "[[host]]\nnames = ['example.org', '*.example.org']\n\
                    [[host]]\nnames = ['www.example.org', '[::1]']\n\
                    [[host]]\nnames = ['*.dev.example.org']\n";
        let config = Config::from_toml(text, "w.toml").unwrap();
        let hosts = Hosts::open(&config, &source(), &[], None).unwrap();
        for (authority, index) in [
            ("example.org", 1),
            ("EXAMPLE.org:8080", 1),
            ("example.org.", 1),
            ("a.example.org", 1),
            ("a.b.example.org:80", 1),
            ("www.example.org", 2),
            ("x.dev.example.org", 3),
            ("dev.example.org", 1),
            (".example.org", 1),
            ("a.b.c.d.e.f.g.dev.example.org", 3),
            ("org", 0),
            ("notexample.org", 0),
            ("other.test", 0),
            ("[::1]:8080", 2),
            ("[::1]", 2),
            ("", 0),
            (":80", 0),
            (&"x".repeat(300), 0),
        ] {
            assert_eq!(hosts.index_of(Some(authority.as_bytes())), index, "{authority}");
        }
        assert_eq!(hosts.index_of(None), 0);
    }

    /// As many as there may be.
    #[test]
    fn each_of_many_hosts_is_found_and_kept() {
        let hosts: Vec<String> = (0..1_000)
            .map(|n| format!("[[host]]\nnames = ['h{n}.test', '*.h{n}.test']\n"))
            .collect();
        let config = Config::from_toml(&hosts.concat(), "w.toml").unwrap();
        let before = Hosts::open(&config, &source(), &[], None).unwrap();
        let after = Hosts::open(&config, &source(), &[], Some(&before)).unwrap();
        for n in 0..1_000 {
            for authority in [format!("h{n}.test"), format!("a.b.h{n}.test:80")] {
                assert_eq!(after.index_of(Some(authority.as_bytes())), n + 1, "{authority}");
            }
        }
        assert_eq!(after.index_of(Some(b"h1000.test")), 0);
        let sites = |hosts: &Hosts| -> BTreeSet<*const Site> {
            hosts
                .places()
                .iter()
                .map(|place| Arc::as_ptr(&place.site))
                .collect()
        };
        assert_eq!(sites(&before).len(), 1_001);
        assert_eq!(sites(&before), sites(&after));
    }

    #[test]
    fn sites_that_stay_the_same_keep_their_cache() {
        let one = "[[host]]\nnames = ['a']\nlisting = true\n[[host]]\nnames = ['b']\n";
        let other = "[[host]]\nnames = ['b']\n[[host]]\nnames = ['c']\nlisting = true\n";
        let open = |text: &str, before: Option<&Hosts>| {
            let config = Config::from_toml(text, "w.toml").unwrap();
            Hosts::open(&config, &source(), &[], before).unwrap()
        };
        let before = open(one, None);
        let after = open(other, Some(&before));
        let same = |a: usize, b: usize| Arc::ptr_eq(&before.place(a).site, &after.place(b).site);
        assert!(same(0, 0) && same(1, 2) && same(2, 1));
        let fewer = open("listing = true", Some(&before));
        assert!(
            !Arc::ptr_eq(&before.place(1).site, &fewer.place(0).site),
            "its share of the cache has changed"
        );
    }
}
