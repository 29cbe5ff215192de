//! What this machine and its administrator allow: processors, descriptors, memory.

use rustix::param::page_size;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::atomic::{AtomicBool, Ordering};

/// How many processors this process can use: its affinity, limited by its control group's quota (cgroup v2 `cpu.max`,
/// v1 `cpu.cfs_quota_us`). At least 1.
pub fn usable_cores() -> usize {
    // The standard library reads the affinity and both kinds of quota.
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Whether this process, or the whole system, has reached its limit of open files (`EMFILE`, `ENFILE`).
pub fn is_out_of_descriptors(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Whether an errno of accept means that the next attempt would fail as well for now: no descriptors or no memory.
pub(crate) const fn is_out_of_resources(errno: i32) -> bool {
    matches!(errno, libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
}

/// Pins the calling thread to one of the processors this process may use: number `number` modulo their count. Returns
/// whether the system agreed.
pub fn pin_thread(number: usize) -> bool {
    use rustix::thread::{CpuSet, sched_getaffinity};
    let Ok(allowed) = sched_getaffinity(None) else {
        return false;
    };
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    let Some(&cpu) = allowed.get(number % allowed.len().max(1)) else {
        return false;
    };
    run_on(cpu).is_ok()
}

/// Pins the calling thread to this processor, by the system's number.
///
/// # Errors
/// If there is no such processor, or this process may not use it.
pub(crate) fn run_on(processor: usize) -> std::io::Result<()> {
    use rustix::thread::{CpuSet, sched_setaffinity};
    if processor >= CpuSet::MAX_CPU {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    let mut one = CpuSet::new();
    one.set(processor);
    Ok(sched_setaffinity(None, &one)?)
}

/// Makes the allocator keep little of the memory freed from now on: for a program that runs for months and may have
/// hundreds of threads for a while. Blocks of 128 KiB and more are then allocated from the system directly. A request
/// whose file is in memory needs none of them. Returns whether the allocator supports it.
pub fn keep_little_memory() -> bool {
    const FREE_AT_MOST: i32 = 128 << 10;
    crate::sys::set_trim_threshold(FREE_AT_MOST)
}

/// Returns the allocator's unused memory to the system. Takes milliseconds and every arena's lock in turn: for when
/// much has ended, not for every turn of a loop.
pub fn give_memory_back() {
    crate::sys::trim();
}

/// [`give_memory_back`] on a thread of its own, so that no loop waits for it; one at a time. If the system has no
/// thread for it, the memory stays with the allocator until the next occasion.
pub(crate) fn give_memory_back_aside() {
    static IS_UNDERWAY: AtomicBool = AtomicBool::new(false);
    if IS_UNDERWAY.swap(true, Ordering::Relaxed) {
        return;
    }
    let thread = std::thread::Builder::new().name("weir-memory".to_owned());
    let started = thread.spawn(|| {
        give_memory_back();
        IS_UNDERWAY.store(false, Ordering::Relaxed);
    });
    if started.is_err() {
        IS_UNDERWAY.store(false, Ordering::Relaxed);
    }
}

/// Makes the system unmap the code and constants of this program and its libraries, most of which are needed only at
/// the start. Pages needed later come back from the page cache within microseconds. The system can then reuse the rest
/// without scanning the page tables of every process that runs this program. Returns the total number of bytes.
pub fn let_go_of_program() -> usize {
    crate::sys::let_go_of_program()
}

/// Raises this process's descriptor limit as far as the administrator allows; returns the limit in force. A process
/// without the right to raise it keeps its limit.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    // None means unlimited; the kernel's own limit is then fs.nr_open.
    let maximum = limit.maximum.unwrap_or(1 << 20);
    if limit.current.is_some_and(|current| current < maximum) {
        let raised = Rlimit {
            current: Some(maximum),
            maximum: limit.maximum,
        };
        // Fails only if the limit changed meanwhile.
        let _ = setrlimit(Resource::Nofile, raised);
    }
    getrlimit(Resource::Nofile).current.unwrap_or(maximum)
}

/// Resident anonymous memory of this process in bytes, if `/proc` can be read.
pub(crate) fn anonymous_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = statm.split_ascii_whitespace().skip(1).map(str::parse::<u64>);
    let (resident, of_files) = (pages.next()?.ok()?, pages.next()?.ok()?);
    Some(resident.saturating_sub(of_files) * page_size() as u64)
}

/// Resident memory of this process in bytes, if `/proc` can be read.
pub fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_something_to_offer() {
        assert!(usable_cores() >= 1);
        assert!(raise_descriptor_limit() >= 64);
        let pinned = std::thread::spawn(|| (pin_thread(3), usable_cores()))
            .join()
            .unwrap();
        assert_eq!(pinned, (true, 1));
        assert!(resident_bytes().is_some_and(|bytes| bytes > 100_000));
    }
}
