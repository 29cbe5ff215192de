//! What one process may have of the machine: its share of the cache, of memory, of open files and of connections.

use super::descriptors::Shares;
use runtime::listen::Listening;
use runtime::memory::{Bound, Budget};
use runtime::strategy::Limits;
use server::config::{Concurrency, Config, MemoryBound};

/// The cache gets at most this fraction of the memory limit: `1 / CACHE_SHARE`, or `1 / CACHE_SHARE_MAX` with an
/// explicit size. With more, the cache could leave too little for requests, and all would be rejected for good.
const CACHE_SHARE: u64 = 8;
const CACHE_SHARE_MAX: u64 = 2;

/// Reduces limits of a configuration to what one process can have: its share of the cache, open files and connections.
pub(super) fn fit(config: &mut Config, shares: &Shares) {
    let processes = shares.processes.max(1);
    if let Some(limit) = memory_limit(config, shares) {
        // The default size suits machines with more memory.
        let is_said = config.cache_size != Config::default().cache_size;
        let share = if is_said { CACHE_SHARE_MAX } else { CACHE_SHARE };
        config.cache_size = config.cache_size.min(units::Bytes(limit.0 / share));
    }
    config.cache_size = units::Bytes(config.cache_size.0 / processes);
    config.cache_files = match u32::try_from(processes) {
        Ok(processes) => (shares.files / processes).max(1),
        Err(_) => 1,
    };
    // A user has few inotify instances (fs.inotify.max_user_instances), and this strategy many processes.
    config.change_events = config.concurrency != Concurrency::Processes;
    // The header timeout of a new connection counts the time the kernel held it back (TCP_DEFER_ACCEPT).
    config.deferred = Listening::DEFERRED;
    // A share of the possible connections, which scarce descriptors may reduce, not of the configured ones.
    let connections = shares.can_be_open(config);
    config.max_connections_per_address = Some(config.per_address(connections));
    config.max_handshakes.get_or_insert(connections / 2);
}

/// The memory limit of all processes of a server together, if there is one.
pub(super) fn memory_limit(config: &Config, shares: &Shares) -> Option<units::Bytes> {
    let whole = Shares {
        processes: 1,
        ..*shares
    };
    Budget::new(bound(config, &whole)).limit()
}

/// The source of the memory limit for one process; a size is divided among processes.
pub(super) fn bound(config: &Config, shares: &Shares) -> Bound {
    match config.memory {
        MemoryBound::Off => Bound::None,
        MemoryBound::Auto => Bound::Group,
        MemoryBound::At(bytes) => Bound::Told(units::Bytes(bytes.0 / shares.processes.max(1))),
    }
}

pub(super) fn limits(shares: &Shares) -> Limits {
    Limits {
        connections_max: usize::try_from(shares.connections).unwrap_or(usize::MAX),
        ..Limits::default()
    }
}
