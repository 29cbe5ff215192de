//! Paths at which clients change the files of a folder, by WebDAV (RFC 4918) and PUT.
//!
//! Decides which rules are valid: each needs an access rule, because whoever reaches its path can replace the site. What
//! the requests do is decided elsewhere.

use super::access::{Access, Satisfy};
use super::pattern::PathPattern;
use super::values;
use super::{Config, ConfigError};
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Deserializer, de};
use std::path::{Path, PathBuf};
use units::Bytes;

/// Maximum number of rules of a site. Each has a socket and threads of its own.
const RULES_MAX: usize = 16;

/// Maximum number of locks in a folder at a time.
pub(crate) const LOCKS_MAX: u16 = 1_000;

/// Default limit on the locks of one user: ten users who hold as many as they can leave none.
const LOCKS_PER_USER: u16 = 100;

/// Default limit on the length of a file.
const LARGEST: Bytes = Bytes::mib(256);

/// A table `[[uploads]]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Uploads {
    /// The path that stands for the folder, with a slash at its end.
    pub path: UploadPath,
    /// The folder. `None`: the site's own (`root`).
    pub folder: Option<PathBuf>,
    /// Bytes of all files in the folder together. `None`: what the file system has room for.
    #[serde(default, deserialize_with = "values::some_bytes")]
    pub quota: Option<Bytes>,
    /// Bytes of a file. `None`: 256 MiB.
    #[serde(default, deserialize_with = "values::some_bytes")]
    pub largest: Option<Bytes>,
    /// Whether a change is on the disk before it is answered.
    #[serde(default = "sync")]
    pub sync: bool,
    /// Locks of one user at a time, from 1 to 1,000. Clients that name no user count as one. `None`: 100.
    pub locks_per_user: Option<u16>,
    /// Whether everyone may change the files: no access rule is needed.
    #[serde(default)]
    pub open: bool,
}

fn sync() -> bool {
    true
}

/// The path of a rule, in normalized spelling, and all paths below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadPath(PathPattern);

impl UploadPath {
    /// The paths below it, and itself.
    pub(crate) fn pattern(&self) -> &PathPattern {
        &self.0
    }

    /// The path itself, with its slash at the end.
    pub(crate) fn text(&self) -> String {
        self.0.example("")
    }
}

impl FromStr for UploadPath {
    type Err = String;

    fn from_str(text: &str) -> Result<UploadPath, String> {
        if !text.starts_with('/') || !text.ends_with('/') || text.contains('*') {
            return Err(format!(
                "`{}` does not stand for a folder; write a path that begins and ends with a slash, as in /dav/",
                text.escape_debug()
            ));
        }
        format!("{text}*").parse().map(UploadPath)
    }
}

impl fmt::Display for UploadPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl<'de> Deserialize<'de> for UploadPath {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<UploadPath, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

impl Access {
    /// Whether the rule keeps some clients out who cannot prove that they belong in.
    fn restricts(&self) -> bool {
        let asks = self.htpasswd.is_some() || self.auth.is_some() || self.certificate.is_needed();
        let lists = !self.allow.is_empty() && !self.allow.iter().any(|network| network.is_everyone());
        let denies_all = self.allow.is_empty() && self.deny.iter().any(|network| network.is_everyone());
        match self.satisfy {
            Satisfy::All => asks || lists || denies_all,
            Satisfy::Any => asks && lists,
        }
    }
}

impl Uploads {
    /// Checks that an access rule decides who may change files, the same one for all of them.
    fn validate(&self, access: &[Access]) -> Result<(), String> {
        let path = &self.path;
        if self.largest().0 == 0 {
            return Err(format!(
                "the rule for `{path}` admits no file; `largest` is at least 1"
            ));
        }
        let locks = self.locks_per_user();
        if !(1..=LOCKS_MAX).contains(&locks) {
            return Err(format!(
                "`locks-per-user` of the rule for `{path}` is {locks}; write a number from 1 to {LOCKS_MAX}, the limit of a \
                 folder"
            ));
        }
        let text = self.path.text();
        for rule in access {
            if rule.path.covers(text.as_bytes()) {
                if !rule.restricts() && !self.open {
                    return Err(format!(
                        "the access rule for `{}` admits everyone to `{path}`, where files can be changed; set `htpasswd`, \
                         `auth`, `certificate` or `allow` there, or `open = true` here",
                        rule.path
                    ));
                }
                // Other requests get the next rule that covers the path.
                match rule.conditions.is_empty() {
                    true => return Ok(()),
                    false => continue,
                }
            }
            if rule.path.meets(&text) {
                return Err(format!(
                    "the access rule for `{}` covers a part of `{path}`, and clients could move files past it; put a rule \
                     for `{path}*` before it",
                    rule.path
                ));
            }
        }
        match self.open {
            true => Ok(()),
            false => Err(format!(
                "everyone could change the files of `{path}`; add a table `[[access]]` with `path = \"{path}*\"` and \
                 `htpasswd`, `auth`, `certificate` or `allow`, or set `open = true`"
            )),
        }
    }
}

/// Validates the rules of a site with these access rules.
pub(super) fn validate(rules: &[Uploads], access: &[Access]) -> Result<(), String> {
    if rules.len() > RULES_MAX {
        return Err(format!("more than {RULES_MAX} rules; remove some"));
    }
    for (at, rule) in rules.iter().enumerate() {
        rule.validate(access)?;
        let text = rule.path.text();
        let before = &rules[..at];
        if let Some(other) = before.iter().find(|other| other.path.0.covers(text.as_bytes())) {
            return Err(format!(
                "the rule for `{}` never applies, because `{}` before it covers its path; put it first",
                rule.path, other.path
            ));
        }
    }
    Ok(())
}

impl Config {
    /// Whether clients may change files.
    pub fn has_uploads(&self) -> bool {
        let own = self.host.iter().filter_map(|host| host.uploads.as_ref());
        std::iter::once(&self.uploads)
            .chain(own)
            .any(|rules| !rules.is_empty())
    }

    /// Rules that are valid and cannot do what they say: the limit on a file is above that on all files together.
    ///
    /// # Errors
    /// As [`Config::sites`].
    pub fn upload_warnings(&self) -> Result<Vec<String>, ConfigError> {
        let mut warnings: Vec<String> = Vec::new();
        for site in self.sites()? {
            for rule in &site.uploads {
                if let (Some(quota), Some(largest)) = (rule.quota, rule.largest)
                    && quota < largest
                {
                    let warning = format!(
                        "uploads: the rule for `{}` has a `largest` of {largest} above its `quota` of {quota}; files above the quota \
                         get 507: raise `quota`, or lower `largest`",
                        rule.path
                    );
                    // Hosts inherit rules.
                    if !warnings.contains(&warning) {
                        warnings.push(warning);
                    }
                }
            }
        }
        Ok(warnings)
    }

    /// The folders whose files clients may change, without duplicates.
    ///
    /// # Errors
    /// As [`Config::sites`].
    pub fn upload_folders(&self) -> Result<Vec<PathBuf>, ConfigError> {
        let mut folders: Vec<PathBuf> = Vec::new();
        if self.has_uploads() {
            for site in self.sites()? {
                let own = site.uploads.iter().filter_map(|rule| rule.folder_in(&site));
                folders.extend(own.map(Path::to_owned));
            }
        }
        folders.sort_unstable();
        folders.dedup();
        Ok(folders)
    }
}

impl Uploads {
    /// Bytes of a file at most.
    pub(crate) fn largest(&self) -> Bytes {
        self.largest.unwrap_or(LARGEST)
    }

    /// Locks of one user at most.
    pub(crate) fn locks_per_user(&self) -> u16 {
        self.locks_per_user.unwrap_or(LOCKS_PER_USER)
    }

    /// The folder of the rule in a site; `None`: the site has no folder of its own.
    pub(crate) fn folder_in<'c>(&'c self, site: &'c Config) -> Option<&'c Path> {
        self.folder.as_deref().or(match site.versions {
            // Readers of a version in force must not see it change file by file.
            Some(_) => None,
            None => site.root.as_deref(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Result<Config, String> {
        Config::from_toml(&format!("root = 'site'\n{text}"), "weir.toml").map_err(|error| error.to_string())
    }

    #[test]
    fn a_rule_has_defaults() {
        let config = config("[[uploads]]\npath = '/dav/'\nopen = true").unwrap();
        let rule = &config.uploads[0];
        assert_eq!(
            (rule.quota, rule.largest(), rule.sync, rule.locks_per_user()),
            (None, Bytes::mib(256), true, 100)
        );
        assert_eq!(rule.folder_in(&config), Some(Path::new("site")));
        assert!(rule.path.pattern().matches(b"/dav/") && rule.path.pattern().matches(b"/dav/a/b"));
        assert!(!rule.path.pattern().matches(b"/dav") && !rule.path.pattern().matches(b"/davx/"));
        assert_eq!(config.upload_folders().unwrap(), [PathBuf::from("site")]);
    }

    #[test]
    fn whoever_may_change_files_is_decided_by_one_access_rule() {
        let uploads = "[[uploads]]\npath = '/dav/'\n";
        let access = |rule: &str| format!("[[access]]\n{rule}\n");
        for (rules, open, fault) in [
            (vec![], false, Some("everyone could change")),
            (vec![], true, None),
            (vec!["path = '/dav/*'\nhtpasswd = 'u'"], false, None),
            (vec!["path = '/dav'\nhtpasswd = 'u'"], false, None),
            (vec!["path = '/dav'\ncertificate = true"], false, None),
            (vec!["path = '/*'\nallow = '10.0.0.0/8'"], false, None),
            (vec!["path = '/*'\nauth = 'http://127.0.0.1:1'"], false, None),
            (vec!["path = '/dav/*'\ndeny = 'all'"], false, None),
            (
                vec!["path = '/dav/*'\ndeny = '10.0.0.0/8'"],
                false,
                Some("admits everyone"),
            ),
            (
                vec!["path = '/dav/*'\nallow = 'all'"],
                false,
                Some("admits everyone"),
            ),
            (
                vec!["path = '/dav/*'\nallow = '0.0.0.0/0'"],
                false,
                Some("admits everyone"),
            ),
            (
                vec!["path = '/dav/*'\nallow = 'all'\nhtpasswd = 'u'\nsatisfy = 'any'"],
                false,
                Some("admits everyone"),
            ),
            (vec!["path = '/dav/*'\nallow = 'all'"], true, None),
            // Each rule that may apply has to restrict.
            (
                vec![
                    "path = '/dav/*'\nallow = 'all'\nif = 'header X'",
                    "path = '/dav/*'\nhtpasswd = 'u'",
                ],
                false,
                Some("admits everyone"),
            ),
            (
                vec![
                    "path = '/dav/*'\nhtpasswd = 'u'\nif = 'header X'",
                    "path = '/dav/*'\nallow = 'all'",
                ],
                false,
                Some("admits everyone"),
            ),
            (
                vec![
                    "path = '/dav/*'\ndeny = 'all'\nif = 'header X'",
                    "path = '/dav/*'\nhtpasswd = 'u'",
                ],
                false,
                None,
            ),
            (
                vec!["path = '/other/*'\nhtpasswd = 'u'"],
                false,
                Some("everyone could change"),
            ),
            (
                vec![
                    "path = '/dav/a/*'\nhtpasswd = 'u'",
                    "path = '/dav/*'\nhtpasswd = 'v'",
                ],
                false,
                Some("covers a part"),
            ),
            (
                vec!["path = '/dav/a'\nhtpasswd = 'u'"],
                true,
                Some("covers a part"),
            ),
            (
                vec!["path = '*.html'\nhtpasswd = 'u'"],
                true,
                Some("covers a part"),
            ),
            (
                vec!["path = '/D*.x'\nhtpasswd = 'u'"],
                true,
                Some("covers a part"),
            ),
            (
                vec![
                    "path = '/dav/*'\nhtpasswd = 'v'",
                    "path = '/dav/a/*'\nhtpasswd = 'u'",
                ],
                false,
                None,
            ),
        ] {
            let open = if open { "open = true\n" } else { "" };
            let rules: String = rules.iter().map(|rule| access(rule)).collect();
            let found = config(&format!("{uploads}{open}{rules}")).err();
            match (fault, &found) {
                (None, None) => {}
                (Some(fault), Some(error)) if error.contains(fault) && error.contains("/dav/") => {}
                _ => panic!("{open}{rules}: {fault:?} {found:?}"),
            }
        }
    }

    #[test]
    fn mistakes_are_refused() {
        for (text, fault) in [
            ("path = '/dav'", "begins and ends with a slash"),
            ("path = 'dav/'", "begins and ends with a slash"),
            ("path = '/dav/*'", "begins and ends with a slash"),
            ("path = '/a/../dav/'", "matches no path"),
            ("path = '/dav/'\nlargest = 0", "`largest` is at least 1"),
            ("path = '/dav/'\nlocks-per-user = 0", "a number from 1 to 1000"),
            ("path = '/dav/'\nlocks-per-user = 1001", "a number from 1 to 1000"),
            (
                "path = '/dav/'\n[[uploads]]\nopen = true\npath = '/dav/a/'",
                "never applies",
            ),
        ] {
            let error = config(&format!("[[uploads]]\nopen = true\n{text}")).unwrap_err();
            assert!(error.contains(fault), "{text}: {error}");
        }
        let rules = |count: usize| -> String {
            (0..count)
                .map(|number| format!("[[uploads]]\nopen = true\npath = '/{number:02}/'\n"))
                .collect()
        };
        assert!(config(&rules(RULES_MAX)).is_ok());
        assert!(
            config(&rules(RULES_MAX + 1))
                .unwrap_err()
                .contains("more than 16 rules")
        );
        let versioned =
            Config::from_toml("versions = 'v'\n[[uploads]]\npath = '/dav/'\nopen = true", "w").unwrap();
        assert_eq!(versioned.uploads[0].folder_in(&versioned), None);
    }

    #[test]
    fn a_limit_above_the_quota_is_pointed_out() {
        let warnings = |rule: &str| {
            let text = format!(
                "[[uploads]]\npath = '/dav/'\nopen = true\n{rule}[[host]]\nnames = ['a']\nroot = 'a'"
            );
            config(&text).unwrap().upload_warnings().unwrap()
        };
        let found = warnings("quota = '1KiB'\nlargest = '2KiB'\n");
        let [warning] = &found[..] else {
            panic!("{found:?}");
        };
        assert!(
            warning.contains("`/dav/`") && warning.contains("raise `quota`"),
            "{warning}"
        );
        // The default limit says nothing.
        for rule in [
            "quota = '1KiB'\n",
            "quota = '2KiB'\nlargest = '2KiB'\n",
            "largest = '2KiB'\n",
        ] {
            assert!(warnings(rule).is_empty(), "{rule}");
        }
    }

    #[test]
    fn hosts_inherit_the_rules_and_have_folders_of_their_own() {
        let config = config(
            "[[uploads]]\npath = '/dav/'\nopen = true\n[[host]]\nnames = ['a.test']\nroot = 'a'\n[[host]]\nnames = \
             ['b.test']\nuploads = []\n",
        )
        .unwrap();
        assert_eq!(
            config.upload_folders().unwrap(),
            [PathBuf::from("a"), PathBuf::from("site")]
        );
        assert!(config.sites().unwrap()[2].uploads.is_empty());
    }
}
