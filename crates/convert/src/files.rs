//! Where the text of included files, and of those in folders of a site, comes from. Decides how many may be included, and what one that
//! cannot be read means; the caller opens them.

use crate::fate::Fate;

/// Most files that a configuration may include, each counted as often as it is included.
pub const INCLUDES_MAX: usize = 1_000;

/// Deepest nesting of includes and blocks.
pub(crate) const DEPTH_MAX: usize = 32;

/// A file: its name in reports, and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// Name of the file.
    pub name: String,
    /// Its content.
    pub text: String,
}

/// What a search for `.htaccess` files below a document root found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nested {
    /// Each file with its folder: empty for the root, otherwise as `/a/b`.
    pub files: Vec<(String, Text)>,
    /// Why others may exist: each folder or file that cannot be read, and limits of the search.
    pub lost: Vec<String>,
}

/// Reads included files.
pub trait Files {
    /// The files that a name or a pattern with `*` stands for, in the order of their names. A relative name begins at the
    /// folder of the main file.
    ///
    /// # Errors
    /// Why a file cannot be read. A pattern that matches no file is an empty list.
    fn read(&self, pattern: &str) -> Result<Vec<Text>, String>;

    /// The `.htaccess` files in a document root and the folders below it, in the order of their folders.
    fn nested(&self, root: &str) -> Nested;
}

/// The fate of a directive that includes a file which cannot be read, and why.
pub(crate) fn unread(why: &str) -> Fate {
    Fate::open(format!(
        "{why}; the file may limit access or pass requests on, so convert where it can be read"
    ))
}
