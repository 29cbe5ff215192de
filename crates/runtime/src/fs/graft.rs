//! Names directly below a root that stand for directories elsewhere.
//!
//! Decides which part of a path is such a name and which part is left for its directory. The owner decides where a name
//! leads; [`super::open`] opens the directory.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Where a grafted directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graft {
    /// A path chosen by the operator: links on it are followed.
    pub base: PathBuf,
    /// The directory below the base. No link on this part is followed; it must be readable and searchable.
    pub below: Vec<u8>,
    /// False for a graft that takes the same lookup steps and is never found.
    pub exists: bool,
}

impl Graft {
    pub(super) fn path(&self) -> PathBuf {
        self.base.join(OsStr::from_bytes(&self.below))
    }
}

/// Returns where a name leads.
type Lead = Box<dyn Fn(&[u8]) -> Graft + Send + Sync>;

/// The grafted directories of a root: all names that begin with one byte.
pub struct Grafts {
    sign: u8,
    lead: Lead,
}

impl Grafts {
    /// Names that begin with `sign` lead where `lead` says. It is called for each opened path, with the name including
    /// its sign. It must not block, and should take equally long for a name that leads nowhere.
    pub fn new(sign: u8, lead: impl Fn(&[u8]) -> Graft + Send + Sync + 'static) -> Grafts {
        Grafts {
            sign,
            lead: Box::new(lead),
        }
    }

    /// Where a path leads, and the part after the name. `None` if it leads below the root.
    pub(super) fn find<'p>(&self, rel: &'p [u8]) -> Option<(Graft, &'p [u8])> {
        let name = self.name(rel)?;
        let rest = rel.get(name.len() + 1..).unwrap_or_default();
        Some(((self.lead)(name), rest))
    }

    /// The grafted name at the start of a path.
    pub(super) fn name<'p>(&self, rel: &'p [u8]) -> Option<&'p [u8]> {
        let name = rel.split(|&b| b == b'/').next()?;
        (name.first() == Some(&self.sign)).then_some(name)
    }
}

impl fmt::Debug for Grafts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Grafts({:?})", char::from(self.sign))
    }
}
