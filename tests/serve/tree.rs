//! A folder of files that is gone after the test.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A temporary folder.
pub(crate) struct Tree {
    path: PathBuf,
}

impl Tree {
    /// An empty one, below the folder cargo gives to tests.
    pub(crate) fn new() -> Tree {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tree-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder below target/");
        Tree { path }
    }

    /// One with these files.
    pub(crate) fn with(files: &[(&str, &str)]) -> Tree {
        let tree = Tree::new();
        for (name, content) in files {
            tree.write(name, content);
        }
        tree
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file, with the folders above it.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        std::fs::create_dir_all(path.parent().expect("below the tree")).expect("a folder of the tree");
        std::fs::write(&path, content).expect("a file of the tree");
        path
    }

    /// Puts a whole new file in the place of another at once, as careful programs do.
    pub(crate) fn replace(&self, name: &str, content: impl AsRef<[u8]>) {
        let fresh = self.write(&format!("{name}.new"), content);
        std::fs::rename(fresh, self.join(name)).expect("a rename within the tree");
    }

    pub(crate) fn link(&self, name: &str, target: impl AsRef<Path>) {
        symlink(target, self.join(name)).expect("a symlink of the tree");
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
