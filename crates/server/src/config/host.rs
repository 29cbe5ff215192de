//! Sites selected by the host that a request names (RFC 9110 section 7.2).
//!
//! A host states where it differs from the top level of the file and inherits everything else.

use super::mount;
use super::own::{self, Own};
use super::pattern::{self, PathPattern};
use super::proxy::Proxy;
use super::redirect::Redirect;
use super::tilde::Tilde;
use super::values::{self, ErrorPages, FieldLine};
use super::{
    Access, Config, ConfigError, ContentTypes, Cors, HeaderRule, Limit, LogFormat, LogTemplate, Mount,
    Respond, SecurityHeaders, TryFiles, Uploads,
};
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Deserializer, de};
use std::path::PathBuf;
use units::Bytes;

/// Maximum number of hosts. Each has a cache, a thread that watches its root, and descriptors, in each process; and each turn
/// of an event loop looks at the caches of all of them.
const HOSTS_MAX: usize = 1_000;

/// Smallest useful cache of a site.
const CACHE_MIN: Bytes = Bytes::kib(64);

/// A host name in lower case, without port; or all names below one (`*.example.org`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostName {
    name: String,
    /// Whether the names below this one are meant instead of it.
    below: bool,
}

impl HostName {
    /// The name, and whether the names below it are meant instead.
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

/// A table `[[host]]`: its names, and where it differs from the top level.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Host {
    /// Host names of requests that get this site.
    pub names: Vec<HostName>,
    /// See [`Config::root`].
    pub root: Option<PathBuf>,
    /// See [`Config::versions`].
    pub versions: Option<PathBuf>,
    /// See [`Config::mount`].
    pub mount: Option<Vec<Mount>>,
    /// PEM files with certificate chains for these names, at every address with TLS.
    #[serde(default, deserialize_with = "values::paths")]
    pub tls_cert: Vec<PathBuf>,
    /// PEM files with their private keys, in the same order.
    #[serde(default, deserialize_with = "values::paths")]
    pub tls_key: Vec<PathBuf>,
    /// Byte budget of this host's cache. Hosts without one share the rest equally with the top level.
    #[serde(default, deserialize_with = "values::some_bytes")]
    pub cache_size: Option<Bytes>,
    /// See [`Config::index`].
    pub index: Option<Vec<String>>,
    /// See [`Config::listing`].
    pub listing: Option<bool>,
    /// See [`Config::listing_readme`].
    pub listing_readme: Option<bool>,
    /// See [`Config::listing_stylesheet`].
    pub listing_stylesheet: Option<String>,
    /// See [`Config::listing_header`].
    pub listing_header: Option<String>,
    /// See [`Config::listing_footer`].
    pub listing_footer: Option<String>,
    /// See [`Config::hidden`].
    pub hidden: Option<bool>,
    /// See [`Config::symlinks`].
    pub symlinks: Option<bool>,
    /// See [`Config::compress`].
    pub compress: Option<bool>,
    /// See [`Config::precompressed`].
    pub precompressed: Option<bool>,
    /// See [`Config::compress_except`].
    #[serde(default, deserialize_with = "pattern::some_several")]
    pub compress_except: Option<Vec<PathPattern>>,
    /// See [`Config::early_hints`].
    pub early_hints: Option<bool>,
    /// See [`Config::types`]; replaces the table of the top level as a whole.
    pub types: Option<ContentTypes>,
    /// See [`Config::spa_fallback`]; `false` switches the inherited page off.
    #[serde(default, deserialize_with = "own::page_of_host")]
    pub spa_fallback: Own<String>,
    /// See [`Config::error_pages`].
    pub error_pages: Option<ErrorPages>,
    /// See [`Config::header`].
    pub header: Option<Vec<FieldLine>>,
    /// See [`Config::header_rule`].
    pub header_rule: Option<Vec<HeaderRule>>,
    /// See [`Config::security_headers`].
    pub security_headers: Option<SecurityHeaders>,
    /// See [`Config::cors`].
    pub cors: Option<Vec<Cors>>,
    /// See [`Config::try_files`].
    pub try_files: Option<Vec<TryFiles>>,
    /// See [`Config::access`].
    pub access: Option<Vec<Access>>,
    /// See [`Config::limit`].
    pub limit: Option<Vec<Limit>>,
    /// See [`Config::redirect`].
    pub redirect: Option<Vec<Redirect>>,
    /// See [`Config::respond`].
    pub respond: Option<Vec<Respond>>,
    /// See [`Config::proxy`].
    pub proxy: Option<Vec<Proxy>>,
    /// See [`Config::uploads`].
    pub uploads: Option<Vec<Uploads>>,
    /// See [`Config::tilde`]; replaces the table of the top level as a whole. `false` switches it off.
    #[serde(default, deserialize_with = "own::tilde_of_host")]
    pub tilde: Own<Tilde>,
    /// See [`Config::access_log`]; `false` switches the inherited log off.
    #[serde(default, deserialize_with = "own::log_of_host")]
    pub access_log: Own<PathBuf>,
    /// See [`Config::log_format`]; only with a log of its own, and in place of an inherited template.
    pub log_format: Option<LogFormat>,
    /// See [`Config::log_template`]; only with a log of its own.
    pub log_template: Option<LogTemplate>,
}

impl Config {
    /// A complete configuration per site, each with its share of the cache: first the top level, then the hosts in
    /// order.
    ///
    /// # Errors
    /// A name given twice, a host without a name, too many hosts, mounts or logs, or a cache too small for all sites.
    pub fn sites(&self) -> Result<Vec<Config>, ConfigError> {
        if self.host.len() > HOSTS_MAX {
            return Err(ConfigError::invalid(
                "host",
                format!(
                    "{} hosts are too many, and the limit is {HOSTS_MAX}; list the names of hosts that have equal settings in one",
                    self.host.len()
                ),
            ));
        }
        let mut names: Vec<&HostName> = self.host.iter().flat_map(|host| &host.names).collect();
        names.sort_unstable_by_key(|name| name.parts());
        if let Some(two) = names.windows(2).find(|two| two[0] == two[1]) {
            return Err(ConfigError::again(
                "names",
                format!(
                    "`{}` is listed twice among the names of hosts; list it once",
                    two[0]
                ),
            ));
        }
        if self.host.iter().any(|host| host.names.is_empty()) {
            return Err(ConfigError::invalid(
                "names",
                "a host without a name gets no requests; give it one",
            ));
        }
        self.validate_logs()?;
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
                    "{} is too little for {} sites: {share} would be left for each that sets no size of its own, \
                     and each needs at least {CACHE_MIN}",
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
        let mut sites = vec![top];
        sites.extend(hosts);
        mount::validate_sites(&sites)?;
        Ok(sites)
    }
}

impl Host {
    /// The configuration of this host: `top`, except where the host differs.
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
            listing_readme,
            listing_stylesheet,
            listing_header,
            listing_footer,
            hidden,
            symlinks,
            compress,
            precompressed,
            compress_except,
            early_hints,
            types,
            error_pages,
            header,
            header_rule,
            security_headers,
            cors,
            limit,
            mount,
            try_files,
            uploads,
            access,
            redirect,
            respond,
            proxy,
        );
        if self.root.is_some() || self.versions.is_some() {
            config.root.clone_from(&self.root);
            config.versions.clone_from(&self.versions);
        }
        config.tilde = self.tilde.over(&top.tilde);
        config.spa_fallback = self.spa_fallback.over(&top.spa_fallback);
        self.log_over(&mut config);
        config
    }
}
