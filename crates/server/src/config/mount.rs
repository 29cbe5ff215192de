//! Folders of their own for paths of a site: tables `[[mount]]`.
//!
//! Decides which tables are valid, which of them covers a path, and what the path is called in its folder. Opens no
//! folder: [`crate::site`] does.

use super::pattern::PathPattern;
use super::{Config, ConfigError};
use crate::path;
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Deserializer, de};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Maximum number of mounts of all sites together, inherited ones included: each folder has a thread that watches it, and
/// an inotify instance.
const MOUNTS_MAX: usize = 100;

/// A table `[[mount]]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Mount {
    /// The path that stands for the folder. The longest path that covers a request decides.
    pub path: MountPath,
    /// The folder.
    pub root: PathBuf,
    /// Whether a file's name in the folder is its path without `path`, as with `alias` of nginx. `false`: the whole path,
    /// as with `root` in a `location`.
    #[serde(default = "strip")]
    pub strip: bool,
    /// See [`Config::index`]. `None`: that of the site.
    pub index: Option<Vec<String>>,
    /// See [`Config::listing`]. `None`: that of the site.
    pub listing: Option<bool>,
}

fn strip() -> bool {
    true
}

/// The path of a mount: that of a folder below `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPath {
    /// In normalized spelling, with a slash at both ends.
    spelled: String,
    /// Decoded, without these slashes.
    names: Vec<u8>,
}

impl MountPath {
    /// The decoded path, without a slash at either end.
    pub(crate) fn names(&self) -> &[u8] {
        &self.names
    }
}

impl FromStr for MountPath {
    type Err = String;

    fn from_str(text: &str) -> Result<MountPath, String> {
        let wrong = || {
            format!(
                "`{}` does not stand for a folder; write a path that begins and ends with a slash, as in /static/",
                text.escape_debug()
            )
        };
        if !text.starts_with('/') || !text.ends_with('/') || text.contains('*') {
            return Err(wrong());
        }
        let pattern: PathPattern = format!("{text}*").parse().map_err(|_| wrong())?;
        let spelled = pattern.example("");
        let mut resolved = Vec::new();
        path::resolve(spelled.as_bytes(), true, &mut resolved).map_err(|_| wrong())?;
        let names = without_slashes(&resolved);
        if names.is_empty() {
            return Err("`/` is the whole site; set `root` in place of this mount".to_owned());
        }
        Ok(MountPath {
            names: names.to_owned(),
            spelled,
        })
    }
}

impl fmt::Display for MountPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.spelled)
    }
}

impl<'de> Deserialize<'de> for MountPath {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<MountPath, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

/// A flag `--mount PATH=DIR`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountFlag(pub Mount);

impl FromStr for MountFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<MountFlag, String> {
        let (path, root) = match text.split_once('=') {
            Some((path, root)) if !root.is_empty() => (path, root),
            _ => {
                return Err(format!(
                    "`{}` is not PATH=DIR; write a path and a directory, as in /static/=/srv/assets",
                    text.escape_debug()
                ));
            }
        };
        let slash = if path.ends_with('/') { "" } else { "/" };
        Ok(MountFlag(Mount {
            path: format!("{path}{slash}").parse()?,
            root: root.into(),
            strip: true,
            index: None,
            listing: None,
        }))
    }
}

impl Mount {
    /// The folder that the path of the mount stands for: its root, or one in its root if the path is not stripped.
    pub fn folder(&self) -> PathBuf {
        match self.strip {
            true => self.root.clone(),
            false => self.root.join(OsStr::from_bytes(self.path.names())),
        }
    }

    /// What a path of the site is called in the folder. `None`: the mount does not cover it. Both are decoded, without
    /// slashes at their ends.
    pub(crate) fn below<'p>(&self, rel: &'p [u8]) -> Option<&'p [u8]> {
        let rest = rel.strip_prefix(self.path.names())?;
        let below = match rest.split_first() {
            None => rest,
            Some((b'/', below)) => below,
            Some(_) => return None,
        };
        Some(if self.strip { below } else { rel })
    }

    /// The mount with the longest path that covers a path of the site, by its index, and what the path is called in its
    /// folder.
    pub(crate) fn covering<'p>(mounts: &[Mount], rel: &'p [u8]) -> Option<(usize, &'p [u8])> {
        let covers = |(at, mount): (usize, &Mount)| Some((at, mount.below(rel)?));
        let covering = mounts.iter().enumerate().filter_map(covers);
        covering.max_by_key(|&(at, _)| mounts[at].path.names.len())
    }

    fn validate(&self, before: &[Mount], hidden: bool) -> Result<(), String> {
        let path = &self.path;
        if before.iter().any(|other| other.path == *path) {
            return Err(format!("`{path}` has two mounts; remove one of them"));
        }
        if self.root.as_os_str().is_empty() {
            return Err(format!("`{path}` has an empty `root`; name its folder"));
        }
        if !self.index.as_deref().is_none_or(are_file_names) {
            return Err(format!(
                "`{path}` has an `index` that is no file name; write names without `/`, as in \"index.html\""
            ));
        }
        let mut names = path.names.split(|&b| b == b'/').enumerate();
        if names.any(|(depth, name)| path::is_hidden(depth, name, hidden)) {
            return Err(format!(
                "`{path}` is never reached, because names that begin with a dot are hidden; set `hidden = true`, or choose \
                 another path"
            ));
        }
        Ok(())
    }
}

/// Whether these names of index files are names in a directory.
pub(super) fn are_file_names(index: &[String]) -> bool {
    let is_name = |name: &String| !matches!(&**name, "" | "." | "..") && !name.contains(['/', '\0']);
    index.iter().all(is_name)
}

fn without_slashes(path: &[u8]) -> &[u8] {
    let path = path.strip_prefix(b"/").unwrap_or(path);
    path.strip_suffix(b"/").unwrap_or(path)
}

/// Validates the mounts of a site that serves names with a leading dot or not.
pub(super) fn validate(mounts: &[Mount], hidden: bool) -> Result<(), String> {
    if mounts.len() > MOUNTS_MAX {
        return Err(format!("more than {MOUNTS_MAX} mounts; remove some"));
    }
    let mut numbered = mounts.iter().enumerate();
    numbered.try_for_each(|(at, mount)| mount.validate(&mounts[..at], hidden))
}

/// Checks that all sites together have few enough mounts.
pub(super) fn validate_sites(sites: &[Config]) -> Result<(), ConfigError> {
    let count: usize = sites.iter().map(|site| site.mount.len()).sum();
    match count > MOUNTS_MAX {
        true => Err(ConfigError::invalid(
            "mount",
            format!(
                "{count} mounts in all sites together, and the limit is {MOUNTS_MAX}; hosts inherit those of the top level \
                 unless they set their own: write `mount = []` for hosts that need none"
            ),
        )),
        false => Ok(()),
    }
}

impl Config {
    /// The mount that covers a path in normalized spelling.
    pub(crate) fn mount_of(&self, spelled: &[u8]) -> Option<&Mount> {
        let mut resolved = Vec::new();
        path::resolve(spelled, true, &mut resolved).ok()?;
        let (at, _) = Mount::covering(&self.mount, without_slashes(&resolved))?;
        self.mount.get(at)
    }

    /// The names of index files in the directory with this path, in normalized spelling.
    pub(crate) fn index_of(&self, spelled: &[u8]) -> &[String] {
        let own = self.mount_of(spelled).and_then(|mount| mount.index.as_deref());
        own.unwrap_or(&self.index)
    }

    /// The names of index files in all directories of the site.
    pub(crate) fn all_index_names(&self) -> Vec<&str> {
        let own = self.mount.iter().filter_map(|mount| mount.index.as_ref());
        let all = self.index.iter().chain(own.flatten());
        let mut names: Vec<&str> = Vec::new();
        for name in all {
            if !names.contains(&&**name) {
                names.push(name);
            }
        }
        names
    }

    /// Whether any directory of the site may be listed.
    pub(crate) fn lists(&self) -> bool {
        self.listing || self.mount.iter().any(|mount| mount.listing == Some(true))
    }

    /// The mounts of the top level and those that hosts set themselves.
    pub fn mounts(&self) -> impl Iterator<Item = &Mount> {
        let own = self.host.iter().filter_map(|host| host.mount.as_ref());
        self.mount.iter().chain(own.flatten())
    }

    /// The folders of these mounts, for changes.
    pub fn mount_roots_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let own = self.host.iter_mut().filter_map(|host| host.mount.as_mut());
        let all = self.mount.iter_mut().chain(own.flatten());
        all.map(|mount| &mut mount.root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Result<Config, String> {
        Config::from_toml(text, "w.toml").map_err(|error| error.to_string())
    }

    fn mount(path: &str, strip: bool) -> Mount {
        let MountFlag(mount) = format!("{path}=dir").parse().unwrap();
        Mount { strip, ..mount }
    }

    #[test]
    fn a_path_below_a_mount_has_a_name_in_its_folder() {
        for (path, strip, asked, below) in [
            ("/static/", true, "static", Some("")),
            ("/static/", true, "static/a/b", Some("a/b")),
            ("/static/", true, "statics/a", None),
            ("/static/", true, "stati", None),
            ("/static/", true, "", None),
            ("/static/", false, "static", Some("static")),
            ("/static/", false, "static/a", Some("static/a")),
            ("/a/b/", true, "a/b/c", Some("c")),
            ("/a/b/", true, "a", None),
            ("/a%20%C3%A4/", true, "a ä/x", Some("x")),
        ] {
            let found = mount(path, strip).below(asked.as_bytes()).map(<[u8]>::to_vec);
            assert_eq!(
                found,
                below.map(|below| below.as_bytes().to_vec()),
                "{path} {asked}"
            );
        }
    }

    #[test]
    fn the_longest_path_decides() {
        let mounts = ["/a/", "/a/b/c/", "/a/b/"].map(|path| mount(path, true));
        for (asked, covering) in [
            ("a/x", Some((0, "x"))),
            ("a/bx", Some((0, "bx"))),
            ("a/b/x", Some((2, "x"))),
            ("a/b/c/x", Some((1, "x"))),
            ("b", None),
        ] {
            let found = Mount::covering(&mounts, asked.as_bytes());
            assert_eq!(
                found,
                covering.map(|(at, below)| (at, below.as_bytes())),
                "{asked}"
            );
        }
    }

    #[test]
    fn a_flag_names_a_path_and_a_directory() {
        for (flag, path, root) in [
            ("/static/=/srv/assets", "/static/", "/srv/assets"),
            ("/static=assets", "/static/", "assets"),
            ("/a/%62=x=y", "/a/b/", "x=y"),
        ] {
            let MountFlag(mount) = flag.parse().unwrap();
            assert_eq!(
                (mount.path.to_string().as_str(), mount.root),
                (path, root.into()),
                "{flag}"
            );
        }
        for flag in ["/static/", "/static/=", "static=x"] {
            let why = flag.parse::<MountFlag>().unwrap_err();
            assert!(why.contains("/static/"), "{why}");
        }
    }

    #[test]
    fn mistakes_are_explained() {
        let table = |rest: &str| config(&format!("[[mount]]\n{rest}"));
        for (text, advice) in [
            ("path = '/'\nroot = 'x'", "set `root`"),
            ("path = '/static'\nroot = 'x'", "ends with a slash"),
            ("path = 'static/'\nroot = 'x'", "begins and ends"),
            ("path = '/a*/'\nroot = 'x'", "begins and ends"),
            ("path = '/a//b/'\nroot = 'x'", "begins and ends"),
            ("path = '/a/../b/'\nroot = 'x'", "begins and ends"),
            ("path = '/a%2fb/'\nroot = 'x'", "begins and ends"),
            ("path = '/a/'", "root"),
            ("path = '/a/'\nroot = ''", "an empty `root`"),
            ("path = '/a/'\nroot = 'x'\nindex = ['b/c']", "no file name"),
            ("path = '/a/'\nroot = 'x'\nstrips = true", "did you mean `strip`"),
            ("path = '/.git/'\nroot = 'x'", "`hidden = true`"),
            (
                "path = '/a/'\nroot = 'x'\n[[mount]]\npath = '/%61/'\nroot = 'y'",
                "`/a/` has two mounts",
            ),
        ] {
            let why = table(text).unwrap_err();
            assert!(why.contains(advice), "{text}: {why}");
        }
        let fine = table("path = '/.well-known/acme/'\nroot = 'x'").unwrap();
        assert_eq!(fine.mount[0].path.names(), b".well-known/acme");
        assert!(config("hidden = true\n[[mount]]\npath = '/.git/'\nroot = 'x'").is_ok());
    }

    #[test]
    fn hosts_inherit_mounts_and_replace_them() {
        let config = config(
            "index = ['i']\n[[mount]]\npath = '/a/'\nroot = 'x'\nindex = ['j']\nlisting = true\n\
             [[host]]\nnames = ['same.test']\n[[host]]\nnames = ['none.test']\nmount = []\n\
             [[host]]\nnames = ['own.test']\n[[host.mount]]\npath = '/b/'\nroot = 'y'\nstrip = false\n",
        )
        .unwrap();
        let sites = config.sites().unwrap();
        let paths = |site: &Config| -> Vec<String> {
            let mounts = site.mount.iter();
            mounts.map(|mount| mount.path.to_string()).collect()
        };
        let all: Vec<Vec<String>> = sites.iter().map(paths).collect();
        assert_eq!(all, [vec!["/a/"], vec!["/a/"], vec![], vec!["/b/"]]);
        assert!(sites[1].lists() && !sites[2].lists() && !sites[3].mount[0].strip);
        assert_eq!(sites[1].index_of(b"/a/c/"), ["j"]);
        assert_eq!(sites[1].index_of(b"/"), ["i"]);
        assert_eq!(sites[1].all_index_names(), ["i", "j"]);
        assert_eq!(config.mounts().count(), 2);
    }

    #[test]
    fn all_sites_together_have_a_limit() {
        let mounts = |count: usize| -> String {
            let table = |at: usize| format!("[[mount]]\npath = '/{at}/'\nroot = 'x'\n");
            (0..count).map(table).collect()
        };
        assert_eq!(config(&mounts(MOUNTS_MAX)).unwrap().mount.len(), MOUNTS_MAX);
        assert!(
            config(&mounts(MOUNTS_MAX + 1))
                .unwrap_err()
                .contains("more than 100 mounts")
        );
        let host = "[[host]]\nnames = ['a.test']\n";
        assert!(config(&format!("{}{host}", mounts(MOUNTS_MAX / 2))).is_ok());
        let why = config(&format!("{}{host}", mounts(MOUNTS_MAX / 2 + 1))).unwrap_err();
        assert!(
            why.contains("102 mounts") && why.contains("`mount = []`"),
            "{why}"
        );
    }
}
