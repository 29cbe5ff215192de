//! What can be decided about a site.

use crate::cache::CacheConfig;
use crate::coding::CompressConfig;
use crate::config::{Behavior, ConfigError, ContentTypes};
use crate::filter::Filters;
use crate::site::Logins;
use core::fmt;
use measure::UnixTime;
use std::path::PathBuf;
use std::sync::Arc;

/// What to serve and how.
#[derive(Clone, Debug)]
pub struct SiteConfig {
    /// Where the files are.
    pub source: Source,
    /// File names tried, in order, for a directory.
    pub index: Vec<String>,
    /// Whether a directory without an index is listed.
    pub listing: bool,
    /// Entries a listing shows at most.
    pub listing_entries_max: usize,
    /// What a symbolic link below the root may do.
    pub symlinks: Symlinks,
    /// Whether names that begin with a dot are served; `.well-known` at the root always is.
    pub hidden: bool,
    /// Whether `.br`, `.zst` and `.gz` siblings stand in for a file.
    pub precompressed: bool,
    /// Compression on first use; `None` is off.
    pub compress: Option<CompressConfig>,
    /// How much is kept, and what leaves first.
    pub cache: CacheConfig,
    /// Field lines of every 200, 206 and 304, as name and value. Validated by whoever read them.
    pub fields: Vec<(String, String)>,
    /// What changes answers when they are made, in order.
    pub filters: Filters,
    /// `Content-Type` by extension, in place of the known ones.
    pub types: ContentTypes,
    /// `charset` of text types that are known; `None` sends none.
    pub charset: Option<String>,
    /// Whether the kernel is asked to tell of changes; else what is cached is looked at twice a second.
    pub change_events: bool,
    /// Whose directories are at `/~login/`; of a site in a directory only.
    pub logins: Option<Arc<Logins>>,
    /// What other servers do, to be measured.
    pub behavior: Behavior,
}

impl SiteConfig {
    /// The defaults for a source.
    pub fn new(source: Source) -> SiteConfig {
        SiteConfig {
            source,
            index: vec!["index.html".to_owned()],
            listing: false,
            listing_entries_max: 5_000,
            symlinks: Symlinks::FollowWithinRoot,
            hidden: false,
            precompressed: true,
            compress: Some(CompressConfig::default()),
            cache: CacheConfig::default(),
            fields: Vec::new(),
            filters: Filters::default(),
            types: ContentTypes::default(),
            charset: Some("utf-8".to_owned()),
            change_events: true,
            logins: None,
            behavior: Behavior::default(),
        }
    }
}

/// Where a site's files are.
#[derive(Clone, Debug)]
pub enum Source {
    /// Below a directory.
    Directory(PathBuf),
    /// Inside the executable.
    Embedded {
        /// Absolute path on the site (`/index.html`) and content of each file.
        files: &'static [(&'static str, &'static [u8])],
        /// `Last-Modified` of all of them.
        modified: UnixTime,
    },
}

/// What a symbolic link below the root may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symlinks {
    /// Links are not followed: 404.
    Refuse,
    /// Links are followed as long as nothing leaves the root.
    FollowWithinRoot,
}

/// Why a site could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The root is missing, no directory, or may not be read: the operator's to mend.
    Root(PathBuf, runtime::fs::OpenError),
    /// Hosts contradict each other.
    Hosts(ConfigError),
    /// The password database cannot be read.
    Logins(std::io::Error),
    /// `/~login/` beside the embedded site, which has no room for directories.
    NoRoot,
    /// The system refused the thread that watches for changes.
    Watch(std::io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Root(path, runtime::fs::OpenError::NotFound) => {
                write!(f, "cannot serve `{}`: there is no such directory", path.display())
            }
            OpenError::Root(path, cause) => write!(f, "cannot serve `{}`: {cause}", path.display()),
            OpenError::Hosts(cause) => cause.fmt(f),
            OpenError::Logins(cause) => write!(f, "cannot look up logins for `tilde`: {cause}"),
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
            OpenError::Root(_, cause) => Some(cause),
            OpenError::Hosts(cause) => Some(cause),
            OpenError::Logins(cause) | OpenError::Watch(cause) => Some(cause),
            OpenError::NoRoot => None,
        }
    }
}
