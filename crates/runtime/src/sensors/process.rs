//! A process's figures in `/proc/PID` (proc(5)).

use super::Process;
use std::path::Path;
use units::{Bytes, Duration};

/// Maximum threads whose waiting is read: with more, reading would cost more than it is worth.
const THREADS_MAX: usize = 64;

/// The process of this directory; `None` if it does not exist.
pub(super) fn read(folder: &Path) -> Option<Process> {
    let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
    let mut process = parse(&stat)?;
    process.run_delay = run_delay(&folder.join("task"));
    Some(process)
}

fn parse(stat: &str) -> Option<Process> {
    // The second field is the program's name in parentheses, which may contain anything.
    let rest = stat.rsplit_once(')')?.1;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // Numbered as in the manual, where the state is the third.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let ticks = field(14)? + field(15)?;
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Some(Process {
        cpu: Duration::from_nanos(ticks.saturating_mul(1_000_000_000 / per_second)),
        run_delay: None,
        major_faults: field(12)?,
        resident: Bytes(field(24)?.saturating_mul(rustix::param::page_size() as u64)),
    })
}

fn run_delay(tasks: &Path) -> Option<Duration> {
    let mut total = Duration::ZERO;
    for (number, task) in std::fs::read_dir(tasks).ok()?.enumerate() {
        if number >= THREADS_MAX {
            return None;
        }
        // A thread that has ended meanwhile no longer waits.
        if let Ok(text) = std::fs::read_to_string(task.ok()?.path().join("schedstat")) {
            let nanos = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
            total += Duration::from_nanos(nanos);
        }
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = "77 (a) b (c)) S 1 77 77 0 -1 4194560 500 0 9 0 250 50 0 0 20 0 3 0 100 1000000 42 18446744073709551615";
        let process = parse(stat).unwrap();
        let tick = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        assert_eq!(process.cpu, Duration::from_nanos(300 * tick));
        assert_eq!(process.major_faults, 9);
        assert_eq!(process.resident, Bytes(42 * rustix::param::page_size() as u64));
        for nonsense in ["", "77 (a S 1", "77 (a) S 1 2"] {
            assert_eq!(parse(nonsense), None, "{nonsense:?}");
        }
    }
}
