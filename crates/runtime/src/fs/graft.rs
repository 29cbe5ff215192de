//! Names directly below a root that stand for directories elsewhere.
//!
//! Decides which part of a path is such a name and what is left for the directory it stands for. Which
//! names there are is the owner's to say, and how a directory is opened is [`super::open`]'s.

use std::fmt;
use std::path::PathBuf;

/// Where a grafted directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graft {
    /// An absolute path that whoever named it answers for: links on it are followed.
    pub base: PathBuf,
    /// The directory below that. No link on this part is followed; it must be readable.
    pub below: Vec<u8>,
    /// False for one that is only to be looked for like the others, and never found.
    pub exists: bool,
}

/// Says where a name leads; `None` if it is an ordinary one.
type Lead = Box<dyn Fn(&[u8]) -> Option<Graft> + Send + Sync>;

/// The grafted directories of a root.
pub struct Grafts(Lead);

impl Grafts {
    /// Those that `lead` knows. It is asked for each path that is opened, on threads that must not wait.
    pub fn new(lead: impl Fn(&[u8]) -> Option<Graft> + Send + Sync + 'static) -> Grafts {
        Grafts(Box::new(lead))
    }

    /// Where a path leads, and what follows the name.
    pub(super) fn find<'p>(&self, rel: &'p [u8]) -> Option<(Graft, &'p [u8])> {
        let (name, rest) = match rel.iter().position(|&b| b == b'/') {
            Some(slash) => (&rel[..slash], &rel[slash + 1..]),
            None => (rel, &rel[rel.len()..]),
        };
        Some(((self.0)(name)?, rest))
    }

    /// Whether a path is the name of a grafted directory and nothing more.
    pub(super) fn is_one(&self, rel: &[u8]) -> bool {
        !rel.contains(&b'/') && (self.0)(rel).is_some()
    }
}

impl fmt::Debug for Grafts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Grafts")
    }
}
