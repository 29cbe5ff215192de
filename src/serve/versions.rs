//! Versions of sites (`versions`): lists them for `weir ctl site`, and changes the links that say which one is in force.
//! Decides which site is meant and the wording; `runtime::fs` changes links, and the caller opens the version.

use crate::failure::Failure;
use runtime::fs::{VersionError, VersionFolder, VersionLinks};
use runtime::process::privilege;
use serde_json::{Value, json};
use server::config::{Config, HostName};

/// The version to put in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To<'a> {
    /// The one of this name.
    Version(&'a str),
    /// The one that was in force before.
    Previous,
}

/// A site whose files come in versions.
struct Site<'c> {
    /// Names of its host; none for the top level.
    names: &'c [HostName],
    folder: VersionFolder,
}

/// A change of the version in force.
#[derive(Debug)]
pub(super) struct Turn {
    folder: VersionFolder,
    before: VersionLinks,
    after: VersionLinks,
}

/// The sites with versions, the versions of each, and those in force.
pub(super) fn list(config: &Config) -> Value {
    let listed = sites(config).map(|site| {
        let links = site.folder.links();
        let versions = site.folder.list();
        let trouble = links
            .as_ref()
            .err()
            .or(versions.as_ref().err())
            .map(ToString::to_string);
        let links = links.ok();
        json!({
            "hosts": site.names.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "folder": site.folder.path(),
            "current": links.as_ref().map(|links| &links.current),
            "previous": links.as_ref().and_then(|links| links.previous.as_ref()),
            "versions": versions.unwrap_or_default(),
            "trouble": trouble,
        })
    });
    json!({ "ok": true, "sites": listed.collect::<Vec<_>>() })
}

/// The error of a change while an upgrade in place is under way: the new program may have read the links already.
pub(super) fn during_upgrade() -> Failure {
    Failure::System("an upgrade in place is under way; switch the site when it is over".to_owned())
}

impl Turn {
    /// The change to a version, which must exist and have files.
    ///
    /// # Errors
    /// `Usage` for a site or version that does not exist, `System` for one that cannot be read.
    pub(super) fn of(config: &Config, host: Option<&str>, to: To<'_>) -> Result<Turn, Failure> {
        let folder = find(config, host)?.folder;
        let before = folder.links().map_err(|error| failure(error, &folder))?;
        let name = match to {
            To::Version(name) => name,
            To::Previous => before.previous.as_deref().ok_or_else(|| {
                Failure::Usage(format!(
                    "there is no version to go back to in `{}`: no other one was in force before `{}`; use `weir ctl site \
                     switch`",
                    folder.path().display(),
                    before.current
                ))
            })?,
        };
        folder.check(name).map_err(|error| failure(error, &folder))?;
        let after = match name == before.current {
            // It may have been chosen by hand, and not be in force yet.
            true => before.clone(),
            false => VersionLinks {
                current: name.to_owned(),
                previous: Some(before.current.clone()),
            },
        };
        Ok(Turn {
            folder,
            before,
            after,
        })
    }

    /// Changes the links, then has the version opened. Returns what is in force, in words.
    ///
    /// # Errors
    /// If either fails. The links are then as before.
    pub(super) fn make(&self, open: impl FnOnce() -> Result<(), Failure>) -> Result<String, Failure> {
        let made = self
            .folder
            .set(&self.after)
            .map_err(|error| failure(error, &self.folder))
            .and_then(|()| open());
        if made.is_err()
            && let Err(error) = self.folder.set(&self.before)
        {
            tracing::error!("the link to the version in force cannot be set back: {error}");
        }
        made.map(|()| self.in_words())
    }

    fn in_words(&self) -> String {
        let folder = self.folder.path().display();
        match &self.after.previous {
            Some(previous) if self.after != self.before => format!(
                "version `{}` of `{folder}` is in force, in place of `{previous}`",
                self.after.current
            ),
            _ => format!(
                "version `{}` of `{folder}` is in force, as before",
                self.after.current
            ),
        }
    }
}

fn sites(config: &Config) -> impl Iterator<Item = Site<'_>> {
    let folders = config.version_folders();
    folders.map(|(names, path)| Site {
        names,
        folder: VersionFolder::at(path),
    })
}

/// The site of a host; without one, that of the top level, or the only one with versions.
fn find<'c>(config: &'c Config, host: Option<&str>) -> Result<Site<'c>, Failure> {
    let mut all: Vec<Site<'_>> = sites(config).collect();
    let is_meant = |site: &Site<'_>| match host {
        Some(host) => {
            let mut names = site.names.iter().map(ToString::to_string);
            names.any(|name| name.eq_ignore_ascii_case(host))
        }
        None => site.names.is_empty(),
    };
    let found = match (all.iter().position(is_meant), host) {
        (None, None) if all.len() == 1 => Some(0),
        (found, _) => found,
    };
    if let Some(at) = found {
        return Ok(all.swap_remove(at));
    }
    let hosts: Vec<String> = all
        .iter()
        .filter_map(|site| site.names.first())
        .map(|name| format!("--host {name}"))
        .collect();
    Err(Failure::Usage(match (host, all.is_empty()) {
        (_, true) => {
            "no site here has versions; set `versions`, in place of `root`, to the folder that holds them"
                .to_owned()
        }
        (None, false) => format!("more than one host has versions; name one: {}", hosts.join(", ")),
        (Some(host), false) => {
            let others = match hosts.is_empty() {
                true => "leave out --host for the top level".to_owned(),
                false => format!("name one that has: {}", hosts.join(", ")),
            };
            format!(
                "host `{}` has no versions of its own; {others}",
                host.escape_debug()
            )
        }
    }))
}

/// A failure with the versions in this folder.
fn failure(error: VersionError, folder: &VersionFolder) -> Failure {
    match error {
        VersionError::Refused(..) => Failure::System(format!(
            "{error}; user {}, as which the server runs, needs write permission for `{}`, and read permission for the versions \
             in it",
            privilege::current().0,
            folder.path().display()
        )),
        _ => Failure::Usage(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(config: &Config, host: Option<&str>) -> Result<String, String> {
        find(config, host)
            .map(|site| site.folder.path().display().to_string())
            .map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_site_is_meant_by_its_host_or_by_being_the_only_one() {
        let config = |text: &str| Config::from_toml(text, "w.toml").expect("a valid file");
        let none = config("root = '/a'\n");
        assert!(names(&none, None).is_err_and(|why| why.contains("set `versions`")));
        let one = config("[[host]]\nnames = ['a.test', '*.a.test']\nversions = '/a'\n");
        for host in [None, Some("A.test"), Some("*.a.test")] {
            assert_eq!(names(&one, host), Ok("/a".to_owned()), "{host:?}");
        }
        let why = names(&one, Some("b.test")).expect_err("it has none");
        assert!(why.contains("`b.test`") && why.contains("--host a.test"), "{why}");
        let text =
            "[[host]]\nnames = ['a.test']\nversions = '/a'\n[[host]]\nnames = ['b.test']\nversions = '/b'\n";
        let two = config(text);
        let why = names(&two, None).expect_err("which?");
        assert!(why.contains("--host a.test, --host b.test"), "{why}");
        let three = config(&format!("versions = '/top'\n{text}"));
        assert_eq!(names(&three, None), Ok("/top".to_owned()));
        assert_eq!(names(&three, Some("b.test")), Ok("/b".to_owned()));
    }
}
