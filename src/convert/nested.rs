//! Searches a document root for `.htaccess` files. Decides how far: the search follows no symbolic links, enters no folders that Weir hides,
//! and has limits. It names everything that it left out.

use convert::{Nested, Text};
use runtime::fs::read_small;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::DirEntry;
use std::io;
use std::path::{Path, PathBuf};

/// The name of the files.
const NAME: &str = ".htaccess";

/// Longest of the files, in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// Where a search ends.
struct Limits {
    /// Folders within each other below the root.
    depth: usize,
    /// Names in all folders.
    names: usize,
    /// `.htaccess` files. Each may become an access rule, of which a site has at most 1,000.
    files: usize,
    /// Files and folders that cannot be read.
    lost: usize,
}

const LIMITS: Limits = Limits {
    depth: 64,
    names: 2_000_000,
    files: 500,
    lost: 20,
};

/// A folder that the search has not read yet.
struct Folder {
    place: PathBuf,
    /// Below the root, as in URLs: empty, or as `/a/b`.
    path: String,
    depth: usize,
}

/// The `.htaccess` files in a root and below it.
pub(super) fn search(root: &Path) -> Nested {
    search_within(root, &LIMITS)
}

fn search_within(root: &Path, limits: &Limits) -> Nested {
    let mut search = Search {
        limits,
        found: Nested::default(),
        names: 0,
        links: Vec::new(),
        waiting: VecDeque::from([Folder {
            place: root.to_owned(),
            path: String::new(),
            depth: 0,
        }]),
    };
    // Folders near the root first, so that a limit leaves out deep ones.
    while let Some(folder) = search.waiting.pop_front() {
        if let Err(limit) = search.folder(&folder) {
            let why = format!("the search below `{}` ended after {limit}", root.display());
            search.found.lost.push(why);
            break;
        }
    }
    let Search { mut found, links, .. } = search;
    if let Some(first) = links.iter().min() {
        found.lost.push(format!(
            "`{}` is a symbolic link, and the search followed none ({} in all)",
            first.display(),
            links.len()
        ));
    }
    found.files.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

struct Search<'l> {
    limits: &'l Limits,
    found: Nested,
    names: usize,
    /// Symbolic links to folders, and those with the name of the files.
    links: Vec<PathBuf>,
    waiting: VecDeque<Folder>,
}

impl Search<'_> {
    /// Reads the names in a folder.
    ///
    /// # Errors
    /// The limit at which the search ends.
    fn folder(&mut self, folder: &Folder) -> Result<(), String> {
        let listed = match std::fs::read_dir(&folder.place) {
            Ok(listed) => listed,
            Err(error) => return self.lose(&folder.place, &error),
        };
        for entry in listed {
            self.names += 1;
            if self.names > self.limits.names {
                return Err(format!("{} names", self.limits.names));
            }
            match entry {
                Ok(entry) => self.entry(folder, &entry)?,
                Err(error) => self.lose(&folder.place, &error)?,
            }
        }
        Ok(())
    }

    fn entry(&mut self, folder: &Folder, entry: &DirEntry) -> Result<(), String> {
        let (name, place) = (entry.file_name(), entry.path());
        let is_wanted = name == OsStr::new(NAME);
        let kind = match entry.file_type() {
            Ok(kind) => kind,
            Err(error) => return self.lose(&place, &error),
        };
        if kind.is_symlink() {
            if is_wanted || (!is_hidden(folder, &name) && place.is_dir()) {
                self.links.push(place);
            }
            return Ok(());
        }
        if is_wanted {
            return self.file(folder, &place);
        }
        if !kind.is_dir() || is_hidden(folder, &name) {
            return Ok(());
        }
        if folder.depth == self.limits.depth {
            let why = format!("{} levels of folders", self.limits.depth);
            return self.lose(&place, &io::Error::other(format!("it is below {why}")));
        }
        self.waiting.push_back(Folder {
            path: format!("{}/{}", folder.path, name.to_string_lossy()),
            place,
            depth: folder.depth + 1,
        });
        Ok(())
    }

    fn file(&mut self, folder: &Folder, place: &Path) -> Result<(), String> {
        if self.found.files.len() == self.limits.files {
            return Err(format!("{} files", self.limits.files));
        }
        match read_small(place, BYTES_MAX) {
            Ok(bytes) => {
                let text = Text {
                    name: place.display().to_string(),
                    text: String::from_utf8_lossy(&bytes).into_owned(),
                };
                self.found.files.push((folder.path.clone(), text));
                Ok(())
            }
            Err(error) => self.lose(place, &error),
        }
    }

    /// Notes a file or folder that cannot be read.
    ///
    /// # Errors
    /// Too many of them.
    fn lose(&mut self, place: &Path, error: &io::Error) -> Result<(), String> {
        let why = format!("cannot read `{}`: {error}", place.display());
        self.found.lost.push(why);
        match self.found.lost.len() < self.limits.lost {
            true => Ok(()),
            false => Err(format!("{} errors", self.limits.lost)),
        }
    }
}

/// Whether Weir sends nothing from a folder of this name: it begins with a dot.
fn is_hidden(around: &Folder, name: &OsStr) -> bool {
    let is_known = around.depth == 0 && name == OsStr::new(".well-known");
    name.as_encoded_bytes().starts_with(b".") && !is_known
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "the test writes the files that the search finds"
)]
mod tests {
    use super::*;

    /// A root with these files: each says where it is.
    fn root(names: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for name in names {
            let place = root.path().join(name);
            std::fs::create_dir_all(place.parent().expect("a folder")).expect("a folder");
            std::fs::write(place, name).expect("a file");
        }
        root
    }

    fn folders(found: &Nested) -> Vec<&str> {
        found.files.iter().map(|(folder, _)| folder.as_str()).collect()
    }

    #[test]
    fn files_of_folders_are_found_with_their_folders() {
        let root = root(&[
            "index.html",
            ".htaccess",
            "b/.htaccess",
            "a/in/.htaccess",
            "a/in/.htaccess.old",
            "c/index.html",
            // Weir hides these folders.
            ".git/.htaccess",
            "a/.well-known/.htaccess",
            ".well-known/x/.htaccess",
        ]);
        let found = search(root.path());
        assert_eq!(
            folders(&found),
            ["", "/.well-known/x", "/a/in", "/b"],
            "{found:?}"
        );
        assert!(found.lost.is_empty(), "{found:?}");
        let (_, file) = &found.files[2];
        assert_eq!(file.text, "a/in/.htaccess");
        let place = root.path().join("a/in/.htaccess");
        assert_eq!(file.name, place.display().to_string());
    }

    #[test]
    fn symbolic_links_are_named_and_not_followed() {
        let root = root(&["a/.htaccess", "page.html"]);
        let link = |to: &str, name: &str| {
            let place = root.path().join(name);
            std::os::unix::fs::symlink(root.path().join(to), place).expect("a link");
        };
        link("page.html", "other.html");
        assert!(search(root.path()).lost.is_empty(), "no folder");
        // A circle, and a file.
        link("", "round");
        link("page.html", ".htaccess");
        let found = search(root.path());
        assert_eq!(folders(&found), ["/a"], "{found:?}");
        let [lost] = found.lost.as_slice() else {
            panic!("{found:?}");
        };
        assert!(lost.contains(".htaccess`") && lost.contains("2 in all"), "{lost}");
    }

    #[test]
    fn a_search_names_what_it_left_out() {
        let found = search(Path::new("/no-such-folder-of-weir"));
        assert!(found.files.is_empty());
        let [lost] = found.lost.as_slice() else {
            panic!("{found:?}");
        };
        assert!(
            lost.starts_with("cannot read `/no-such-folder-of-weir`"),
            "{lost}"
        );
        let limits = Limits { lost: 1, ..LIMITS };
        let found = search_within(Path::new("/no-such-folder-of-weir"), &limits);
        assert!(found.lost[1].ends_with("ended after 1 errors"), "{found:?}");
        // A folder in place of a file.
        let root = root(&["a/.htaccess/x"]);
        let found = search(root.path());
        assert_eq!((found.files.len(), found.lost.len()), (0, 1), "{found:?}");
    }

    #[test]
    fn a_search_ends_at_its_limits() {
        let root = root(&["a/b/.htaccess", "a/.htaccess", ".htaccess"]);
        let found = |limits: Limits| {
            let found = search_within(root.path(), &limits);
            (found.files.len(), found.lost.join("; "))
        };
        let (files, lost) = found(LIMITS);
        assert_eq!((files, lost.as_str()), (3, ""));
        for (limits, left, why) in [
            (Limits { files: 2, ..LIMITS }, 2, "after 2 files"),
            (Limits { names: 4, ..LIMITS }, 2, "after 4 names"),
            (Limits { depth: 1, ..LIMITS }, 2, "below 1 levels"),
        ] {
            let (files, lost) = found(limits);
            assert_eq!(files, left, "{lost}");
            assert!(lost.contains(why), "{lost}");
        }
    }
}
