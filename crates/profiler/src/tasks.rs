//! The processes and threads below a process, from `/proc` (proc(5)).

use std::collections::BTreeMap;
use units::Duration;

/// Maximum processes: more than that is not a server.
const PROCESSES_MAX: usize = 4096;

/// This process and its descendants, and all their threads. io_uring's own threads are left out: they make no calls.
pub(super) fn below(process: u32) -> (Vec<u32>, Vec<u32>) {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for pid in numbers("/proc") {
        if let Some(parent) = field(pid, 4) {
            children.entry(parent as u32).or_default().push(pid);
        }
    }
    let mut processes = vec![process];
    let mut next = 0;
    while next < processes.len() && processes.len() < PROCESSES_MAX {
        processes.extend(children.remove(&processes[next]).unwrap_or_default());
        next += 1;
    }
    let threads = processes.iter().flat_map(|pid| {
        numbers(&format!("/proc/{pid}/task"))
            .into_iter()
            .filter(move |tid| !is_of_io_uring(*pid, *tid))
    });
    let threads = threads.collect();
    (processes, threads)
}

fn is_of_io_uring(pid: u32, tid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).is_ok_and(|name| name.starts_with("iou-"))
}

fn numbers(folder: &str) -> Vec<u32> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

/// A field of `/proc/PID/stat`, numbered as in the manual, from the fourth on.
fn field(pid: u32, number: usize) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name, in parentheses, may contain anything.
    let rest = stat.rsplit_once(')')?.1;
    rest.split_ascii_whitespace().nth(number - 3)?.parse().ok()
}

/// Whether it has ended; a zombie counts as ended.
pub(super) fn is_gone(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat
            .rsplit_once(')')
            .is_none_or(|(_, rest)| rest.trim_start().starts_with(['Z', 'X'])),
        Err(_) => true,
    }
}

/// How long the current threads have waited for a processor in total.
pub(super) fn queued(processes: &[u32]) -> Duration {
    let mut total = Duration::ZERO;
    for pid in processes {
        for tid in numbers(&format!("/proc/{pid}/task")) {
            if let Some((_, waited)) = schedstat(&format!("/proc/{pid}/task/{tid}/schedstat")) {
                total += waited;
            }
        }
    }
    total
}

fn schedstat(path: &str) -> Option<(Duration, Duration)> {
    parse_schedstat(&std::fs::read_to_string(path).ok()?)
}

/// Time on a processor, and time waiting for one.
pub(super) fn parse_schedstat(text: &str) -> Option<(Duration, Duration)> {
    let mut fields = text.split_ascii_whitespace();
    let mut next = || Some(Duration::from_nanos(fields.next()?.parse().ok()?));
    Some((next()?, next()?))
}

/// The process of a thread.
pub(super) fn process_of(thread: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    line.trim().parse().ok()
}

/// The processes of these threads, each once, in order; a thread that has ended stands for itself.
pub(super) fn owners(threads: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut owners: Vec<u32> = threads
        .map(|thread| process_of(thread).unwrap_or(thread))
        .collect();
    owners.sort_unstable();
    owners.dedup();
    owners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_there_with_its_threads() {
        let own = std::process::id();
        let (processes, threads) = below(own);
        assert_eq!(processes[0], own);
        assert!(threads.contains(&own), "{threads:?}");
        assert_eq!(process_of(own), Some(own));
        assert!(!is_gone(own));
        // The largest possible process ID is below this one.
        assert!(is_gone(1 << 23));
        assert!(below(1 << 23).1.is_empty());
        assert_eq!(
            parse_schedstat("5 7 1\n"),
            Some((Duration::from_nanos(5), Duration::from_nanos(7)))
        );
        assert_eq!(parse_schedstat("5"), None);
    }
}
