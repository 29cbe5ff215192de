//! What the system grants this process: cores, descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::num::NonZeroUsize;

/// Cores this process may use: its affinity mask and its cgroup's quota, as far as they are set.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Raises the soft limit of open descriptors to the hard one, and says what it is then. A server needs
/// one per connection, and the soft limit is kept low only for programs that use `select`.
pub fn raise_descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // Refused: the old limit holds.
    let _ = setrlimit(Resource::Nofile, raised);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_something_to_work_with() {
        assert!(cores() >= 1);
        let descriptors = raise_descriptors();
        assert!(descriptors >= 16);
        assert_eq!(raise_descriptors(), descriptors, "raising again changes nothing");
    }
}
