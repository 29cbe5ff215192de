//! The source of the figures: the control group, which includes the kernel's memory for sockets, and the process's
//! resident memory.
//!
//! Memory that can be dropped and read again (cached files) does not count as used.

use super::Bound;
use crate::machine;
use crate::sensors::cgroup::{Cgroup, Used};
use std::path::Path;
use units::Bytes;

/// The files to read.
pub(super) struct Source {
    group: Option<Cgroup>,
    told: Option<Bytes>,
    #[cfg(test)]
    script: Option<(u64, Box<dyn FnMut() -> u64 + Send>)>,
}

impl Source {
    pub(super) fn none() -> Source {
        Source {
            group: None,
            told: None,
            #[cfg(test)]
            script: None,
        }
    }

    pub(super) fn of(bound: Bound) -> Source {
        let mut source = Source::none();
        if bound != Bound::None {
            source.group = Cgroup::find(Path::new("/")).filter(|group| group.demand().is_some());
        }
        if let Bound::Told(bytes) = bound {
            source.told = Some(bytes);
        }
        source
    }

    #[cfg(test)]
    pub(super) fn scripted(limit: u64, used: impl FnMut() -> u64 + Send + 'static) -> Source {
        Source {
            script: Some((limit, Box::new(used))),
            ..Source::none()
        }
    }

    /// The lowest limit.
    pub(super) fn limit(&self) -> Option<u64> {
        let group = self
            .group
            .as_ref()
            .and_then(Cgroup::demand)
            .map(|used| used.limit);
        group.into_iter().chain(self.told.map(|told| told.0)).min()
    }

    /// The use of the nearest limit; `None` if nothing can be read.
    pub(super) fn read(&mut self) -> Option<Used> {
        #[cfg(test)]
        if let Some((limit, used)) = &mut self.script {
            return Some(Used {
                bytes: used(),
                limit: *limit,
            });
        }
        let of_process = self.told.and_then(|told| {
            Some(Used {
                bytes: machine::anonymous_bytes()?,
                limit: told.0,
            })
        });
        let of_group = self.group.as_ref().and_then(Cgroup::demand);
        of_process
            .into_iter()
            .chain(of_group)
            .max_by_key(|used| used.thousandths())
    }
}
