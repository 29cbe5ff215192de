//! A folder of versions: subfolders that hold a whole tree each, and two symbolic links, to the version in force and to the
//! one before it.
//!
//! ```text
//!   www/v41/   www/v42/   www/current -> v42   www/previous -> v41
//! ```
//! A link changes by rename(2): whoever reads it finds the old target or the new one, also after a crash. Decides which
//! names can be versions and how links change. What the trees are for is not known here. All calls block.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Component, Path, PathBuf};
use units::UnixTime;

/// The link to the version in force.
const CURRENT: &str = "current";

/// The link to the version that was in force before.
const PREVIOUS: &str = "previous";

/// Most versions that are listed.
const VERSIONS_MAX: usize = 1_000;

/// A folder of versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionFolder {
    path: PathBuf,
}

/// The versions that the links name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionLinks {
    /// The version in force.
    pub current: String,
    /// The version before it, if another was in force.
    pub previous: Option<String>,
}

/// Why a version cannot be found or put in force.
#[derive(Debug)]
pub enum VersionError {
    /// There is no link to a version in force, at this path.
    Unchosen(PathBuf),
    /// The file at this path is not a symbolic link.
    NoLink(PathBuf),
    /// The link leads to something other than a version in its folder.
    Astray(PathBuf, PathBuf),
    /// No version can have this name.
    Name(String),
    /// There is no folder for the version.
    Missing(PathBuf),
    /// The version is not a folder, but a file or a symbolic link.
    NoFolder(PathBuf),
    /// The folder of the version has no files, apart from hidden ones.
    Empty(PathBuf),
    /// There are more versions in the folder than are listed.
    TooMany(PathBuf, usize),
    /// The system refuses access to this path.
    Refused(PathBuf, io::Error),
}

impl fmt::Display for VersionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VersionError::Unchosen(link) => write!(
                f,
                "no version is in force, because `{link}` does not exist; create the link: ln -s VERSION {link}",
                link = link.display()
            ),
            VersionError::NoLink(link) => write!(
                f,
                "`{link}` is not a symbolic link; rename it, and create the link: ln -s VERSION {link}",
                link = link.display()
            ),
            VersionError::Astray(link, target) => write!(
                f,
                "`{}` leads to `{}`, which is not a version beside it; let it lead to one",
                link.display(),
                target.display()
            ),
            VersionError::Name(name) => write!(
                f,
                "`{}` cannot be a version: a version is the name of a folder without a slash or a leading dot, and not \
                 `{CURRENT}` or `{PREVIOUS}`",
                name.escape_debug()
            ),
            VersionError::Missing(path) => {
                write!(f, "there is no version `{}`; upload it first", path.display())
            }
            VersionError::NoFolder(path) => write!(
                f,
                "the version `{}` is not a folder; upload a folder of this name",
                path.display()
            ),
            VersionError::Empty(path) => write!(
                f,
                "the version `{}` is empty; upload its files first",
                path.display()
            ),
            VersionError::TooMany(folder, most) => write!(
                f,
                "there are more than {most} versions in `{}`; remove old ones",
                folder.display()
            ),
            VersionError::Refused(path, error) => write!(f, "cannot use `{}`: {error}", path.display()),
        }
    }
}

impl std::error::Error for VersionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            VersionError::Refused(_, error) => Some(error),
            _ => None,
        }
    }
}

impl VersionFolder {
    /// The folder at this path, which need not exist.
    pub fn at(path: &Path) -> VersionFolder {
        VersionFolder {
            path: path.to_owned(),
        }
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the link to the version in force.
    pub fn current(&self) -> PathBuf {
        self.path.join(CURRENT)
    }

    /// The path of a version.
    pub fn version(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The versions that the links name, whether or not they exist.
    ///
    /// # Errors
    /// If there is no version in force, or a link does not lead to a version.
    pub fn links(&self) -> Result<VersionLinks, VersionError> {
        let current = self.target(CURRENT)?;
        let current = current.ok_or_else(|| VersionError::Unchosen(self.current()))?;
        // A crash between the changes of both links leaves the same version in both.
        let previous = self.target(PREVIOUS)?.filter(|previous| *previous != current);
        Ok(VersionLinks { current, previous })
    }

    /// When the link to the version in force was made.
    ///
    /// # Errors
    /// If there is no such link.
    pub fn chosen_at(&self) -> Result<UnixTime, VersionError> {
        let link = self.current();
        match fs::symlink_metadata(&link) {
            Ok(found) => Ok(UnixTime {
                secs: found.mtime(),
                nanos: u32::try_from(found.mtime_nsec()).unwrap_or(0),
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(VersionError::Unchosen(link)),
            Err(error) => Err(VersionError::Refused(link, error)),
        }
    }

    /// The names of all versions, sorted.
    ///
    /// # Errors
    /// If there are more than 1,000, or the folder cannot be read.
    pub fn list(&self) -> Result<Vec<String>, VersionError> {
        self.list_within(VERSIONS_MAX)
    }

    fn list_within(&self, most: usize) -> Result<Vec<String>, VersionError> {
        let refused = |error| VersionError::Refused(self.path.clone(), error);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(refused)? {
            let entry = entry.map_err(refused)?;
            let name = entry.file_name().into_string();
            let Some(name) = name.ok().filter(|name| can_be_version(name)) else {
                continue;
            };
            if !entry.file_type().map_err(refused)?.is_dir() {
                continue;
            }
            if names.len() == most {
                return Err(VersionError::TooMany(self.path.clone(), most));
            }
            names.push(name);
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Checks that a version can be put in force: that it is a folder with files, which this process may list.
    ///
    /// # Errors
    /// Why not, with the path of the version.
    pub fn check(&self, name: &str) -> Result<(), VersionError> {
        if !can_be_version(name) {
            return Err(VersionError::Name(name.to_owned()));
        }
        let path = self.version(name);
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(VersionError::NoFolder(path)),
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(VersionError::Missing(path)),
            Err(error) => return Err(VersionError::Refused(path, error)),
        }
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) => return Err(VersionError::Refused(path, error)),
        };
        for entry in entries {
            match entry {
                Ok(entry) if entry.file_name().as_encoded_bytes().starts_with(b".") => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(VersionError::Refused(path, error)),
            }
        }
        Err(VersionError::Empty(path))
    }

    /// Makes the links name these versions, and waits until the change is on disk. A link that names its version already
    /// stays as it is.
    ///
    /// # Errors
    /// The link that cannot be changed. The other one may have changed.
    pub fn set(&self, links: &VersionLinks) -> Result<(), VersionError> {
        // The version in force last: until then, a crash has changed nothing.
        match &links.previous {
            Some(name) => self.point(PREVIOUS, name)?,
            None => self.remove(PREVIOUS)?,
        }
        self.point(CURRENT, &links.current)?;
        File::open(&self.path)
            .and_then(|folder| folder.sync_all())
            .map_err(|error| VersionError::Refused(self.path.clone(), error))
    }

    fn point(&self, link: &str, name: &str) -> Result<(), VersionError> {
        if self
            .target(link)
            .is_ok_and(|target| target.as_deref() == Some(name))
        {
            return Ok(());
        }
        // Hidden, so that it is no version.
        let fresh = self.path.join(format!(".{link}-{}", std::process::id()));
        // A crash may have left one.
        let _ = fs::remove_file(&fresh);
        let path = self.path.join(link);
        symlink(name, &fresh)
            .and_then(|()| fs::rename(&fresh, &path))
            .map_err(|error| {
                let _ = fs::remove_file(&fresh);
                VersionError::Refused(path, error)
            })
    }

    fn remove(&self, link: &str) -> Result<(), VersionError> {
        let path = self.path.join(link);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(VersionError::Refused(path, error)),
            _ => Ok(()),
        }
    }

    /// The version that a link names; `None` without the link.
    fn target(&self, link: &str) -> Result<Option<String>, VersionError> {
        let path = self.path.join(link);
        let target = match fs::read_link(&path) {
            Ok(target) => target,
            Err(error) => {
                return match error.kind() {
                    ErrorKind::NotFound => Ok(None),
                    ErrorKind::InvalidInput => Err(VersionError::NoLink(path)),
                    _ => Err(VersionError::Refused(path, error)),
                };
            }
        };
        match self.name_of(&target) {
            Some(name) => Ok(Some(name)),
            None => Err(VersionError::Astray(path, target)),
        }
    }

    /// The version at the target of a link in this folder.
    fn name_of(&self, target: &Path) -> Option<String> {
        let spellings = [std::path::absolute(&self.path), self.path.canonicalize()];
        let below = match target.is_absolute() {
            false => target,
            true => spellings
                .iter()
                .flatten()
                .find_map(|folder| target.strip_prefix(folder).ok())?,
        };
        let mut parts = below.components().filter(|part| *part != Component::CurDir);
        match (parts.next(), parts.next()) {
            (Some(Component::Normal(name)), None) => name
                .to_str()
                .filter(|name| can_be_version(name))
                .map(str::to_owned),
            _ => None,
        }
    }
}

/// Whether a folder of this name can be a version.
fn can_be_version(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('.')
        && !name.contains(['/', '\0'])
        && ![CURRENT, PREVIOUS].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with the versions `a` and `b`, the empty version `c`, and other files.
    fn folder() -> (tempfile::TempDir, VersionFolder) {
        let temp = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c", ".hidden"] {
            fs::create_dir(temp.path().join(name)).unwrap();
        }
        for name in ["a/x", "b/x", "c/.x", "file"] {
            fs::write(temp.path().join(name), "x").unwrap();
        }
        symlink("a", temp.path().join("link")).unwrap();
        let folder = VersionFolder::at(temp.path());
        (temp, folder)
    }

    fn links(current: &str, previous: Option<&str>) -> VersionLinks {
        VersionLinks {
            current: current.to_owned(),
            previous: previous.map(str::to_owned),
        }
    }

    #[test]
    fn links_change_and_are_read_back() {
        let (temp, folder) = folder();
        let why = folder.links().unwrap_err().to_string();
        assert!(
            why.contains("ln -s VERSION ") && why.contains("/current"),
            "{why}"
        );
        assert!(matches!(folder.chosen_at(), Err(VersionError::Unchosen(_))));
        for wanted in [
            links("a", None),
            links("b", Some("a")),
            links("a", Some("b")),
            links("b", None),
        ] {
            folder.set(&wanted).unwrap();
            assert_eq!(folder.links().unwrap(), wanted);
        }
        assert_eq!(
            fs::read_link(temp.path().join("current")).unwrap(),
            Path::new("b")
        );
        // Nothing is left of the links that were renamed.
        let names = fs::read_dir(temp.path()).unwrap();
        let hidden = names
            .flatten()
            .filter(|one| one.file_name().as_encoded_bytes().starts_with(b"."));
        assert_eq!(hidden.count(), 1);
    }

    #[test]
    fn a_link_that_names_its_version_stays() {
        let (temp, folder) = folder();
        folder.set(&links("a", None)).unwrap();
        let inode = || fs::symlink_metadata(temp.path().join("current")).unwrap().ino();
        let before = inode();
        folder.set(&links("a", Some("b"))).unwrap();
        assert_eq!(inode(), before);
        folder.set(&links("b", Some("a"))).unwrap();
        assert_ne!(inode(), before);
    }

    #[test]
    fn a_crash_between_both_links_leaves_no_version_before() {
        let (temp, folder) = folder();
        folder.set(&links("a", None)).unwrap();
        symlink("a", temp.path().join("previous")).unwrap();
        assert_eq!(folder.links().unwrap(), links("a", None));
    }

    #[test]
    fn links_may_be_made_by_hand_and_lead_nowhere_else() {
        let (temp, folder) = folder();
        let current = temp.path().join("current");
        let whole = temp.path().canonicalize().unwrap();
        for (target, wanted) in [
            (PathBuf::from("a"), Some("a")),
            ("./a/".into(), Some("a")),
            (temp.path().join("b"), Some("b")),
            (whole.join("b"), Some("b")),
            // It is named, and missing only when it is served.
            ("none".into(), Some("none")),
            ("../a".into(), None),
            ("a/x".into(), None),
            (".".into(), None),
            (".hidden".into(), None),
            ("previous".into(), None),
            ("/elsewhere/a".into(), None),
        ] {
            symlink(&target, &current).unwrap();
            let found = folder.links();
            assert_eq!(
                found.as_ref().ok().map(|links| links.current.as_str()),
                wanted,
                "{target:?}: {found:?}"
            );
            if let Err(error) = found {
                let why = error.to_string();
                assert!(why.contains(&*target.to_string_lossy()), "{why}");
            }
            fs::remove_file(&current).unwrap();
        }
        fs::create_dir(&current).unwrap();
        assert!(matches!(folder.links(), Err(VersionError::NoLink(_))));
    }

    #[test]
    fn only_folders_with_files_are_versions() {
        let (_temp, folder) = folder();
        folder.check("a").unwrap();
        for (name, fragment) in [
            ("none", "there is no version `"),
            ("file", "is not a folder"),
            ("link", "is not a folder"),
            ("c", "is empty"),
            ("", "cannot be a version"),
            (".hidden", "cannot be a version"),
            ("../a", "cannot be a version"),
            ("current", "cannot be a version"),
            ("previous", "cannot be a version"),
        ] {
            let why = folder.check(name).unwrap_err().to_string();
            assert!(why.contains(fragment) && why.contains(name), "{name}: {why}");
        }
    }

    #[test]
    fn versions_are_listed_up_to_a_bound() {
        let (_temp, folder) = folder();
        assert_eq!(folder.list().unwrap(), ["a", "b", "c"]);
        assert_eq!(folder.list_within(3).unwrap().len(), 3);
        let why = folder.list_within(2).unwrap_err().to_string();
        assert!(why.contains("more than 2 versions"), "{why}");
        let none = VersionFolder::at(&folder.path().join("none"));
        assert!(matches!(none.list(), Err(VersionError::Refused(..))));
    }
}
