//! Where the text of included files comes from. Decides how many there may be, and what one that cannot be read means; the caller opens
//! them.

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

/// Reads included files.
pub trait Files {
    /// The files that a name or a pattern with `*` stands for, in the order of their names. A relative name begins at the
    /// folder of the main file.
    ///
    /// # Errors
    /// Why a file cannot be read. A pattern that matches no file is an empty list.
    fn read(&self, pattern: &str) -> Result<Vec<Text>, String>;
}

/// The fate of a directive that includes a file which cannot be read, and why.
pub(crate) fn unread(why: &str) -> Fate {
    Fate::open(format!(
        "{why}; the file may limit access or pass requests on, so convert where it can be read"
    ))
}
