//! Sites told apart by the host a request is for (RFC 9110 section 7.2).
//!
//! A host says only what differs; everything else is as at the top level of the file.

use super::own::{self, Own};
use super::redirect::Redirect;
use super::tilde::Tilde;
use super::values::{self, ErrorPages, FieldLine};
use super::{Config, ConfigError, ContentTypes, HeaderRule};
use core::fmt;
use core::str::FromStr;
use measure::Bytes;
use serde::{Deserialize, Deserializer, de};
use std::path::PathBuf;

/// The most hosts: each has a watcher of its own, and systems allow few of these by default
/// (`fs.inotify.max_user_instances`, 128).
const HOSTS_MAX: usize = 100;

/// The least a site's cache is of use with.
const CACHE_MIN: Bytes = Bytes::kib(64);

/// A name requests come for: in lower case, without port; or all names below one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostName {
    name: String,
    /// Names that end in a dot and this one.
    below: bool,
}

impl HostName {
    /// The name, and whether those below it are meant instead of it.
    pub fn parts(&self) -> (&str, bool) {
        (&self.name, self.below)
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.below { "*." } else { "" }, self.name)
    }
}

impl FromStr for HostName {
    type Err = String;

    fn from_str(text: &str) -> Result<HostName, String> {
        let (name, below) = match text.strip_prefix("*.") {
            Some(name) => (name, true),
            None => (text, false),
        };
        let label = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        let literal = name.starts_with('[') && name.ends_with(']') && !below;
        if name.is_empty() || name.starts_with('.') || (!literal && !name.bytes().all(label)) {
            return Err(format!(
                "`{}` is not a host name; write it without scheme and port, as in example.org or *.example.org",
                text.escape_debug()
            ));
        }
        Ok(HostName {
            name: name.trim_end_matches('.').to_ascii_lowercase(),
            below,
        })
    }
}

impl<'de> Deserialize<'de> for HostName {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<HostName, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

/// What one host has of its own.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Host {
    /// Its names.
    pub names: Vec<HostName>,
    /// See [`Config::root`].
    pub root: Option<PathBuf>,
    /// Bytes of the cache for this host; the others share what is left.
    #[serde(default, deserialize_with = "values::some_bytes")]
    pub cache_size: Option<Bytes>,
    /// See [`Config::index`].
    pub index: Option<Vec<String>>,
    /// See [`Config::listing`].
    pub listing: Option<bool>,
    /// See [`Config::hidden`].
    pub hidden: Option<bool>,
    /// See [`Config::symlinks`].
    pub symlinks: Option<bool>,
    /// See [`Config::compress`].
    pub compress: Option<bool>,
    /// See [`Config::precompressed`].
    pub precompressed: Option<bool>,
    /// See [`Config::types`]; takes the place of that of the top level as a whole.
    pub types: Option<ContentTypes>,
    /// See [`Config::spa_fallback`]; `false` where the host has none of its own nor that of the top level.
    #[serde(default, deserialize_with = "own::page_of_host")]
    pub spa_fallback: Own<String>,
    /// See [`Config::error_pages`].
    pub error_pages: Option<ErrorPages>,
    /// See [`Config::header`].
    pub header: Option<Vec<FieldLine>>,
    /// See [`Config::header_rule`].
    pub header_rule: Option<Vec<HeaderRule>>,
    /// See [`Config::redirect`].
    pub redirect: Option<Vec<Redirect>>,
    /// See [`Config::tilde`]; takes the place of that of the top level as a whole, as `false` does.
    #[serde(default, deserialize_with = "own::tilde_of_host")]
    pub tilde: Own<Tilde>,
}

impl Config {
    /// The site of the top level first, then those of the hosts, each as a configuration of its own
    /// with its share of the cache.
    ///
    /// # Errors
    /// Names that two hosts have, or too little cache for all.
    pub fn sites(&self) -> Result<Vec<Config>, ConfigError> {
        if self.host.len() > HOSTS_MAX {
            return Err(ConfigError::invalid(
                "host",
                format!("more than {HOSTS_MAX} hosts; remove some"),
            ));
        }
        let mut names: Vec<&HostName> = self.host.iter().flat_map(|host| &host.names).collect();
        names.sort_unstable_by_key(|name| name.parts());
        if let Some(two) = names.windows(2).find(|two| two[0] == two[1]) {
            return Err(ConfigError::again(
                "names",
                format!("`{}` is listed twice among the names of hosts; list it once", two[0]),
            ));
        }
        if self.host.iter().any(|host| host.names.is_empty()) {
            return Err(ConfigError::invalid(
                "names",
                "a host without a name gets no requests; give it one",
            ));
        }
        let own: u64 = self
            .host
            .iter()
            .filter_map(|host| host.cache_size)
            .map(|size| size.0)
            .sum();
        let sharing = 1 + self.host.iter().filter(|host| host.cache_size.is_none()).count() as u64;
        let share = Bytes(self.cache_size.0.saturating_sub(own) / sharing);
        if !self.host.is_empty() && share < CACHE_MIN {
            return Err(ConfigError::invalid(
                "cache-size",
                format!(
                    "{} is too little for {} sites: {share} would be left for each that sets no size of its own",
                    self.cache_size,
                    self.host.len() + 1
                ),
            ));
        }
        let files = (self.cache_files / (1 + self.host.len() as u32)).max(1);
        let top = Config {
            cache_size: share,
            cache_files: files,
            host: Vec::new(),
            ..self.clone()
        };
        let hosts: Vec<Config> = self.host.iter().map(|host| host.over(&top)).collect();
        Ok([vec![top], hosts].concat())
    }
}

impl Host {
    /// The configuration of `top` where this host says nothing.
    fn over(&self, top: &Config) -> Config {
        let mut config = top.clone();
        macro_rules! take {
            ($($field:ident),* $(,)?) => {
                $(if let Some(value) = &self.$field { config.$field = value.clone(); })*
            };
        }
        take!(
            cache_size,
            index,
            listing,
            hidden,
            symlinks,
            compress,
            precompressed,
            types,
            error_pages,
            header,
            header_rule,
            redirect,
        );
        if self.root.is_some() {
            config.root.clone_from(&self.root);
        }
        config.tilde = self.tilde.over(&top.tilde);
        config.spa_fallback = self.spa_fallback.over(&top.spa_fallback);
        config
    }
}
