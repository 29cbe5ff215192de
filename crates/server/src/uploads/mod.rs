//! Changes that clients make to the files of a folder: PUT, DELETE and the methods of WebDAV (RFC 4918, classes 1 and 2).
//!
//! ```text
//!   session ── route of a rule `[[uploads]]` ──▶ Forward ──▶ Upstream::Local ──▶ crate::local ──▶ desk
//!                access rules, limits, bodies                socket                a thread          files
//! ```
//! A rule is a route to an upstream that is part of this process. So a request is admitted, limited, streamed and logged as
//! one that is passed to another server, in every version of HTTP, and its thread may wait for the disk. [`crate::local`]
//! has the messages, `asked` and `condition` what a request says, `desk` and `changes` what becomes of it. `properties` has
//! what clients learn of files, and `dead` what they attach to them. `locks` and `locking` say who may change files, `room`
//! has the quota.

mod asked;
mod changes;
mod condition;
mod dead;
mod desk;
mod locking;
mod locks;
mod properties;
mod reply;
mod room;
#[cfg(test)]
mod tests;
mod xml;

pub(crate) use desk::Counts;

use crate::config::{Config, ContentTypes, Proxy, Uploads as Rule, UpstreamAddress};
use crate::local;
use crate::site::Site;
use desk::Desk;
use runtime::background::Background;
use runtime::fs::WriteFolder;
use runtime::local::Local;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use units::Duration;

/// Requests of a rule that are carried out at a time. Others wait.
const THREADS_MAX: usize = 16;

/// Time for a change after the whole request has arrived: large folders are copied, and disks are slow.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);

/// The rules of all sites.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    /// By index of the site.
    sites: Vec<Vec<Arc<Service>>>,
}

/// What a rule says, in its site.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    rule: Rule,
    /// The folder whose files may be changed.
    folder: PathBuf,
    /// Whether names that begin with a dot are files like others.
    hidden: bool,
    types: ContentTypes,
}

/// A rule, and what carries its requests out.
#[derive(Debug)]
pub(crate) struct Service {
    desk: Arc<Desk>,
    local: Local,
    cleaner: Background<Arc<Desk>>,
    cleaned: OnceLock<()>,
}

impl Uploads {
    /// The rules of these sites. A rule that `before` had goes on as it was.
    ///
    /// # Errors
    /// In words, which rule has no folder that can be used.
    pub(crate) fn of<'c>(
        sites: impl Iterator<Item = (&'c Config, &'c Arc<Site>)>,
        before: Option<&Uploads>,
    ) -> Result<Uploads, String> {
        let all: Vec<(&Config, &Arc<Site>)> = sites.collect();
        let mut services: Vec<Arc<Service>> = Vec::new();
        let mut sites = Vec::with_capacity(all.len());
        for (config, _) in &all {
            let mut own = Vec::with_capacity(config.uploads.len());
            for rule in &config.uploads {
                let settings = Settings::of(rule, config)?;
                if let Some(other) = services.iter().find(|other| other.disagrees(&settings)) {
                    return Err(format!(
                        "the rules for `{}` and `{}` share the folder `{}` but differ in their path or settings, `types` \
                         and `hidden` included; make them equal, or give each its own folder",
                        other.desk.settings.rule.path,
                        rule.path,
                        settings.folder.display()
                    ));
                }
                let kept = || {
                    before
                        .into_iter()
                        .flat_map(|before| before.sites.iter().flatten())
                };
                let mut known = services.iter().chain(kept());
                let service = match known.find(|known| known.desk.settings == settings) {
                    Some(known) => Arc::clone(known),
                    None => {
                        let same = kept().find(|known| known.desk.settings.folder == settings.folder);
                        Arc::new(Service::bind(settings, same.map(|known| &*known.desk))?)
                    }
                };
                if !services.iter().any(|known| Arc::ptr_eq(known, &service)) {
                    services.push(Arc::clone(&service));
                }
                own.push(service);
            }
            sites.push(own);
        }
        for service in &services {
            let roots = all.iter().flat_map(|(config, site)| {
                let own = config.root.iter().map(|root| (0, root));
                let mounts = config.mount.iter().enumerate();
                let mounted = mounts.map(|(at, mount)| (at + 1, &mount.root));
                own.chain(mounted).map(|(number, root)| (&**root, number, *site))
            });
            service.desk.tell(roots);
        }
        Ok(Uploads { sites })
    }

    /// The rules of the site at this index.
    pub(crate) fn of_site(&self, site: usize) -> &[Arc<Service>] {
        self.sites.get(site).map_or(&[], Vec::as_slice)
    }

    /// Begins to carry requests out. A process calls this once it does not fork any more.
    pub(crate) fn awaken(&self) {
        for service in self.sites.iter().flatten() {
            service.awaken();
        }
    }

    /// What each rule has done, by its folder.
    pub(crate) fn report(&self) -> Vec<(String, Counts)> {
        let mut seen: Vec<&Arc<Service>> = Vec::new();
        for service in self.sites.iter().flatten() {
            if !seen.iter().any(|known| Arc::ptr_eq(known, service)) {
                seen.push(service);
            }
        }
        let name = |service: &Service| service.desk.settings.folder.display().to_string();
        seen.iter()
            .map(|service| (name(service), service.desk.counts()))
            .collect()
    }
}

impl Settings {
    fn of(rule: &Rule, config: &Config) -> Result<Settings, String> {
        let folder = rule.folder_in(config).ok_or_else(|| {
            format!(
                "the rule for `{}` has no folder: the site {}; set `folder`",
                rule.path,
                match config.versions {
                    Some(_) => "has versions, and the one in force must not change file by file",
                    None => "has no `root`",
                }
            )
        })?;
        Ok(Settings {
            rule: rule.clone(),
            folder: folder.to_owned(),
            hidden: config.hidden,
            types: config.types.clone(),
        })
    }
}

impl Service {
    fn bind(settings: Settings, before: Option<&Desk>) -> Result<Service, String> {
        let path: &Path = &settings.folder;
        let folder = WriteFolder::open(path).map_err(|error| {
            format!(
                "the folder `{}` of the rule for `{}` cannot be used: {error}; create it, and let the user of the server write \
                 to it",
                path.display(),
                settings.rule.path
            )
        })?;
        let desk = Arc::new(Desk::new(settings, folder, before));
        let served = Arc::clone(&desk);
        let local = Local::bind("uploads", THREADS_MAX, move |stream| {
            local::serve(stream, |head, body| served.answer(head, body));
        });
        Ok(Service {
            desk,
            local: local.map_err(|error| format!("no socket for uploads: {error}"))?,
            cleaner: Background::new("weir-uploads", 1, |desk: Arc<Desk>, _| desk.clean()),
            cleaned: OnceLock::new(),
        })
    }

    /// Whether another rule uses the folder in another way. Their quotas would not know of each other.
    fn disagrees(&self, settings: &Settings) -> bool {
        let own = &self.desk.settings;
        own.folder == settings.folder && own != settings
    }

    fn awaken(&self) {
        self.local.awaken();
        self.cleaned.get_or_init(|| {
            if !self.cleaner.offer(Arc::clone(&self.desk)) {
                tracing::warn!(
                    "uploads: no thread looks for parts of interrupted uploads in `{}`; raise the limit on threads",
                    self.desk.settings.folder.display()
                );
            }
        });
    }

    /// The route of its requests.
    pub(crate) fn route(&self) -> Proxy {
        let rule = &self.desk.settings.rule;
        Proxy {
            // A change is made once, and no other upstream could make it.
            retries: 0,
            max_failures: 0,
            keepalive: Some(0),
            websocket: false,
            first_byte_timeout: ANSWER_TIMEOUT,
            max_body_size: rule.largest(),
            ..Proxy::new(
                rule.path.pattern().clone(),
                vec![UpstreamAddress::at(Arc::clone(self.local.upstream()))],
            )
        }
    }
}
