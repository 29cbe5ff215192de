//! Configuration of a site.

use crate::cache::CacheConfig;
use crate::coding::CompressConfig;
use crate::config::{
    Access, Behavior, Config, ConfigError, ContentTypes, FastCgi, Mount, PathPattern, Proxy, Redirect,
    Respond,
};
use crate::filter::Filters;
use crate::listing::Theme;
use crate::site::Logins;
use core::fmt;
use runtime::fs::VersionError;
use std::path::PathBuf;
use std::sync::Arc;
use units::{Bytes, UnixTime};

/// Configuration of a site.
#[derive(Clone, Debug)]
pub struct SiteConfig {
    /// Location of the files.
    pub source: Source,
    /// Folders of their own for paths of the site, each below a root of its own.
    pub mounts: Vec<Mount>,
    /// Index file names of a directory, tried in this order.
    pub index: Vec<String>,
    /// Whether directories without an index are listed.
    pub listing: bool,
    /// Maximum number of entries of a directory that are read for a listing.
    pub listing_entries_max: usize,
    /// Which READMEs listings show; `None`: none.
    pub readme: Option<ReadmeRules>,
    /// The operator's own parts of listings.
    pub theme: Theme,
    /// Which symbolic links below the root are followed.
    pub symlinks: Symlinks,
    /// Whether names that begin with a dot are served; `.well-known` at the root always is.
    pub hidden: bool,
    /// Whether precompressed siblings (`.br`, `.zst`, `.gz`) are served in place of a file.
    pub precompressed: bool,
    /// Paths whose files and listings are sent uncompressed: neither by `compress` nor as `precompressed`.
    pub compress_except: Vec<PathPattern>,
    /// Whether clients learn what a page embeds before it is ready (103, RFC 8297).
    pub early_hints: bool,
    /// Compression on first use; `None`: off.
    pub compress: Option<CompressConfig>,
    /// Policy and limits of the cache.
    pub cache: CacheConfig,
    /// Field lines of every 200, 206 and 304 response, as name and value. The caller has validated them.
    pub fields: Vec<(String, String)>,
    /// Filters of new cache entries, in order.
    pub filters: Filters,
    /// `Content-Type` by extension; overrides the built-in types.
    pub types: ContentTypes,
    /// `charset` of built-in text types; `None`: not sent.
    pub charset: Option<String>,
    /// Earliest `Last-Modified` of a file outside mounts: when the version that it belongs to was put in force, at which it changed for
    /// clients. `None` without versions.
    pub modified_min: Option<UnixTime>,
    /// Whether to use inotify. Otherwise, cached files are checked twice a second.
    pub change_events: bool,
    /// Logins with pages at `/~login/`; only for a site in a directory.
    pub logins: Option<Arc<Logins>>,
    /// Which files are scripts of applications: their source is not served. Empty: none.
    pub scripts: Vec<FastCgi>,
    /// Behaviors of historical servers, for measurements.
    pub behavior: Behavior,
}

impl SiteConfig {
    /// The default configuration for a source.
    pub fn new(source: Source) -> SiteConfig {
        SiteConfig {
            source,
            mounts: Vec::new(),
            index: vec!["index.html".to_owned()],
            listing: false,
            listing_entries_max: 100_000,
            readme: Some(ReadmeRules::default()),
            theme: Theme::default(),
            symlinks: Symlinks::FollowWithinRoot,
            hidden: false,
            precompressed: true,
            compress_except: Vec::new(),
            early_hints: false,
            compress: Some(CompressConfig::default()),
            cache: CacheConfig::default(),
            fields: Vec::new(),
            filters: Filters::default(),
            types: ContentTypes::default(),
            charset: Some("utf-8".to_owned()),
            modified_min: None,
            change_events: true,
            logins: None,
            scripts: Vec::new(),
            behavior: Behavior::default(),
        }
    }
}

impl SiteConfig {
    /// The site of a configuration. Without a `root`, the files are `embedded`.
    pub fn of(config: &Config, embedded: Source) -> SiteConfig {
        let source = match &config.root {
            Some(root) => Source::Directory(root.clone()),
            None => embedded,
        };
        let fields = config
            .general_lines()
            .into_iter()
            .map(|line| (line.name().to_owned(), line.value().to_owned()));
        let defaults = SiteConfig::new(source);
        SiteConfig {
            mounts: config.mount.clone(),
            index: config.index.clone(),
            listing: config.listing,
            readme: config.listing_readme.then(|| ReadmeRules::of(config)),
            theme: Theme {
                stylesheet: config.listing_stylesheet.clone(),
                header: config.listing_header.clone(),
                footer: config.listing_footer.clone(),
            },
            symlinks: match config.symlinks {
                true => Symlinks::FollowWithinRoot,
                false => Symlinks::Refuse,
            },
            hidden: config.hidden,
            precompressed: config.precompressed,
            compress_except: config.compress_except.clone(),
            early_hints: config.early_hints,
            types: config.types.clone(),
            compress: config.compress.then(CompressConfig::default),
            cache: CacheConfig {
                policy: config.cache_policy,
                budget: config.cache_size,
                memory_file_max: match config.behavior.copies {
                    true => Bytes(0),
                    false => config.cache_file_size,
                },
                descriptors_max: config.cache_files as usize,
                ..defaults.cache
            },
            fields: fields.collect(),
            scripts: config.scripts().collect(),
            change_events: config.change_events,
            behavior: config.behavior.clone(),
            filters: Filters::of(config.header_rule.clone(), &[]),
            ..defaults
        }
    }
}

/// Rules that keep a README out of a listing, because a request for the file might not get it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadmeRules {
    access: Vec<Access>,
    redirect: Vec<Redirect>,
    respond: Vec<Respond>,
    proxy: Vec<Proxy>,
}

impl ReadmeRules {
    /// The rules of a site.
    pub(crate) fn of(config: &Config) -> ReadmeRules {
        ReadmeRules {
            access: config.access.clone(),
            redirect: config.redirect.clone(),
            respond: config.respond.clone(),
            proxy: config.proxy.clone(),
        }
    }

    /// Whether whoever gets the listing of `directory` gets `file`, too. Both paths are in normalized spelling.
    pub(crate) fn admit(&self, directory: &[u8], file: &[u8]) -> bool {
        // Whatever conditions a request meets, the same rule decides about both.
        let covers_first = |path: &[u8]| -> Vec<usize> {
            let mut covering = Vec::new();
            for (at, access) in self.access.iter().enumerate() {
                if access.path.covers(path) {
                    covering.push(at);
                    if access.conditions.is_empty() {
                        break;
                    }
                }
            }
            covering
        };
        covers_first(file) == covers_first(directory)
            && !self.proxy.iter().any(|proxy| proxy.covers(file))
            && !self.redirect.iter().any(|redirect| redirect.covers(file))
            && !self.respond.iter().any(|respond| respond.covers(file))
    }
}

/// Location of a site's files.
#[derive(Clone, Debug)]
pub enum Source {
    /// Below a directory of the file system.
    Directory(PathBuf),
    /// In the executable.
    Embedded {
        /// Absolute path on the site (such as `/index.html`) and content of each file.
        files: &'static [(&'static str, &'static [u8])],
        /// `Last-Modified` of all of them.
        modified: UnixTime,
    },
}

/// Which symbolic links below the root are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symlinks {
    /// None; a link is 404.
    Refuse,
    /// Links that stay within the root.
    FollowWithinRoot,
}

/// Why a site could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The root does not exist, is not a directory, or cannot be read.
    Root(PathBuf, runtime::fs::OpenError),
    /// The root of a mount does not exist, is not a directory, or cannot be read.
    Mount {
        /// Index of the host that sets the mount, from 0; `None`: the top level does.
        host: Option<usize>,
        /// The path of the mount.
        path: String,
        /// Its root.
        root: PathBuf,
        /// Why.
        cause: runtime::fs::OpenError,
    },
    /// Hosts with conflicting settings.
    Hosts(ConfigError),
    /// The password database cannot be read.
    Logins(std::io::Error),
    /// A file of users cannot be used: which, and why.
    Users(String),
    /// The TLS of upstreams cannot be set up: why.
    Upstreams(String),
    /// A folder for uploads cannot be used: which, and why.
    Uploads(String),
    /// A token of the admin addresses cannot be used: its key and file, and why.
    Token(String),
    /// Commands cannot be taken at the admin addresses: why.
    Control(String),
    /// The recording cannot be read: which folder or file, and why.
    Replay(String),
    /// No version of a site can be found.
    Version {
        /// Index of the host that names the folder, from 0; `None`: the top level does.
        host: Option<usize>,
        /// Why.
        cause: VersionError,
    },
    /// `/~login/` with the embedded site, which has no directories.
    NoRoot,
    /// The thread that watches for changes could not be started.
    Watch(std::io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Root(path, runtime::fs::OpenError::NotFound) => {
                write!(f, "cannot serve `{}`: there is no such directory", path.display())
            }
            OpenError::Root(path, cause) => write!(f, "cannot serve `{}`: {cause}", path.display()),
            // It begins with the path, by which the line of the table is found.
            OpenError::Mount {
                path, root, cause, ..
            } => {
                write!(f, "`{path}` cannot be served from `{}`: ", root.display())?;
                match cause {
                    runtime::fs::OpenError::NotFound => f.write_str("there is no such directory"),
                    cause => cause.fmt(f),
                }
            }
            OpenError::Hosts(cause) => cause.fmt(f),
            OpenError::Logins(cause) => write!(f, "cannot look up logins for `tilde`: {cause}"),
            OpenError::Users(why) => write!(f, "`htpasswd`: {why}"),
            OpenError::Upstreams(why) => write!(f, "`proxy`: {why}"),
            OpenError::Uploads(why) => write!(f, "`uploads`: {why}"),
            OpenError::Replay(why) => write!(f, "`replay`: {why}"),
            OpenError::Version { cause, .. } => write!(f, "`versions`: {cause}"),
            OpenError::Token(why) => f.write_str(why),
            OpenError::Control(why) => write!(f, "`control` in `[admin]`: {why}"),
            OpenError::NoRoot => {
                f.write_str("`tilde` needs a document root: the embedded site cannot have pages of logins; set `root`, too")
            }
            OpenError::Watch(cause) => write!(f, "cannot watch the files for changes: {cause}"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Root(_, cause) | OpenError::Mount { cause, .. } => Some(cause),
            OpenError::Hosts(cause) => Some(cause),
            OpenError::Logins(cause) | OpenError::Watch(cause) => Some(cause),
            OpenError::Version { cause, .. } => Some(cause),
            OpenError::NoRoot
            | OpenError::Users(_)
            | OpenError::Upstreams(_)
            | OpenError::Uploads(_)
            | OpenError::Token(_)
            | OpenError::Control(_)
            | OpenError::Replay(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_readme_is_for_whoever_gets_the_listing_whatever_conditions_hold() {
        let admits = |rules: &str| {
            let config = Config::from_toml(rules, "w.toml").unwrap();
            ReadmeRules::of(&config).admit(b"/a/", b"/a/README.md")
        };
        let closed = "[[access]]\npath = '/a/*'\ndeny = 'all'\n";
        for (rules, expected) in [
            (String::new(), true),
            (closed.to_owned(), true),
            (
                format!("[[access]]\npath = '/a/*'\nif = 'cookie c'\nallow = 'all'\n{closed}"),
                true,
            ),
            // Some clients of the listing do not get the file.
            (
                "[[access]]\npath = '*.md'\nif = 'cookie c'\ndeny = 'all'\n[[access]]\nallow = 'all'\n"
                    .to_owned(),
                false,
            ),
            (
                "[[redirect]]\nfrom = '*.md'\nto = '/x'\nif = 'cookie c'\n".to_owned(),
                false,
            ),
            (
                "[[redirect]]\nfrom = '*'\nto = 'https://b.test*'\nexcept = '/a/*'\n".to_owned(),
                true,
            ),
            ("[[respond]]\npath = '*.md'\nif = 'cookie c'\n".to_owned(), false),
            (
                "[[proxy]]\npath = '*.md'\nif = 'cookie c'\nupstreams = ['http://127.0.0.1:1']\n".to_owned(),
                false,
            ),
        ] {
            assert_eq!(admits(&rules), expected, "{rules}");
        }
    }
}
