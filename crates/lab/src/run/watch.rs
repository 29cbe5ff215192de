//! Samples a server's processes several times a second under load: processor time, pages, memory, connections
//! (document 000, section 3: quantities in Table 1, results in Tables 4 and 5). Decides which processes belong to the
//! server, and computes the memory per connection.
//!
//! Without a control group, processor time is a sum over processes, each of which loses up to a hundredth of a
//! second.
//!
//! Times are shares of all processors of the machine; document 000 had one. Memory includes kernel memory if the
//! processes are in a control group, otherwise only their own; both exclude cached files.

use super::group::Gauges;
use crate::statistics::least_squares;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Sampling interval.
const EVERY: Duration = Duration::from_millis(250);
/// Clock ticks per second, the same on every Linux.
const TICKS: f64 = 100.0;
/// Page size in bytes.
const PAGE: f64 = 4096.0;
/// Least range of connection counts for an estimate of memory per connection.
const RANGE_MIN: f64 = 10.0;

/// The sampling thread.
pub(super) struct Watch {
    /// Dropping this ends the thread.
    stop: Sender<()>,
    looks: JoinHandle<Vec<Look>>,
    processors: usize,
    of_server: Vec<u32>,
    in_group: bool,
}

/// One sample.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    at_s: f64,
    /// User time of the server so far, in ticks.
    user: f64,
    kernel: f64,
    /// Idle time of the whole machine, in ticks.
    idle: f64,
    /// Idle time of the server's own processors, in ticks.
    idle_of_server: f64,
    /// Bytes read so far.
    read: f64,
    written: f64,
    /// Current memory in bytes.
    memory: f64,
    connections: f64,
    processes: usize,
}

impl Watch {
    /// Starts sampling a process with its descendants, connections to a port, and the server's own processors.
    pub(super) fn start(
        pid: u32,
        port: u16,
        processors: usize,
        of_server: Vec<u32>,
        group: Option<Gauges>,
    ) -> Result<Watch, String> {
        let (stop, stopped) = mpsc::channel();
        let in_group = group.is_some();
        let alone = of_server.clone();
        let look = move || {
            let began = Instant::now();
            let mut looks = Vec::new();
            loop {
                looks.push(Look {
                    at_s: began.elapsed().as_secs_f64(),
                    ..Look::at(pid, port, &alone, group.as_ref())
                });
                if stopped.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout) {
                    return looks;
                }
            }
        };
        let looks = std::thread::Builder::new()
            .spawn(look)
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Watch {
            stop,
            looks,
            processors,
            of_server,
            in_group,
        })
    }

    /// The summary as a line of a result.
    pub(super) fn end(self) -> Value {
        drop(self.stop);
        // A thread that only reads files does not panic.
        let looks = self.looks.join().unwrap_or_default();
        summary(&looks, self.processors, self.of_server.len(), self.in_group)
    }
}

impl Look {
    fn at(pid: u32, port: u16, of_server: &[u32], group: Option<&Gauges>) -> Look {
        let stat_of_all = fs::read_to_string("/proc/stat").unwrap_or_default();
        let mut look = Look {
            idle: idle(&stat_of_all, "cpu"),
            idle_of_server: of_server
                .iter()
                .map(|number| idle(&stat_of_all, &format!("cpu{number}")))
                .sum(),
            connections: established(port),
            ..Look::default()
        };
        let tree = descendants(pid);
        look.processes = tree.len();
        for (pid, stat) in &tree {
            look.user += stat.user;
            look.kernel += stat.kernel;
            let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
            look.read += number(&io, "read_bytes:");
            look.written += number(&io, "write_bytes:");
            if group.is_none() {
                let parts = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
                look.memory += 1024.0 * number(&parts, "Pss_Anon:");
            }
        }
        if let Some(group) = group {
            look.memory = group.own_memory().unwrap_or(0.0);
            // Processor time of exited processes remains only in the group's counters.
            if let Some((user, kernel)) = group.processor_s() {
                (look.user, look.kernel) = (TICKS * user, TICKS * kernel);
            }
            look.read = group.bytes_read() as f64;
        }
        look
    }
}

fn summary(looks: &[Look], processors: usize, of_server: usize, in_group: bool) -> Value {
    let (Some(first), Some(last)) = (looks.first(), looks.last()) else {
        return json!({ "event": "resources", "looks": 0 });
    };
    let seconds = (last.at_s - first.at_s).max(1e-9);
    let share_of =
        |processors: usize, from: f64, to: f64| 100.0 * (to - from) / TICKS / seconds / processors as f64;
    let share = |from: f64, to: f64| share_of(processors.max(1), from, to);
    let server_idle = (of_server > 0).then(|| share_of(of_server, first.idle_of_server, last.idle_of_server));
    // Compared with the peak of connections so far, because a server keeps memory for a while.
    let mut most = 0.0_f64;
    let points: Vec<(f64, f64)> = looks
        .iter()
        .map(|look| {
            most = most.max(look.connections);
            (most, look.memory / 1024.0)
        })
        .collect();
    let least = points.first().map_or(0.0, |point| point.0);
    let line = (most - least >= RANGE_MIN)
        .then(|| least_squares(&points))
        .flatten();
    json!({
        "event": "resources", "looks": looks.len(), "seconds": seconds, "processors": processors,
        "user_pct": share(first.user, last.user), "kernel_pct": share(first.kernel, last.kernel),
        "idle_pct": share(first.idle, last.idle), "server_idle_pct": server_idle,
        "pages_read_per_s": (last.read - first.read) / PAGE / seconds,
        "pages_written_per_s": (last.written - first.written) / PAGE / seconds,
        "connections_max": most, "processes_max": looks.iter().map(|look| look.processes).max(),
        "memory": if in_group { "processes and kernel" } else { "processes" },
        "memory_max_kib": points.iter().map(|point| point.1).fold(0.0, f64::max),
        "kib_per_connection": line.map(|line| line.slope),
        "determination": line.map(|line| line.determination),
    })
}

/// The fields of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stat {
    parent: u32,
    /// User time, with that of waited-for children, in ticks.
    user: f64,
    kernel: f64,
}

fn stat(text: &str) -> Option<Stat> {
    // The name is in parentheses and may contain anything.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |place: usize| fields.get(place)?.parse::<f64>().ok();
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        user: field(11)? + field(13)?,
        kernel: field(12)? + field(14)?,
    })
}

/// A process and all its descendants.
fn descendants(pid: u32) -> BTreeMap<u32, Stat> {
    let all: BTreeMap<u32, Stat> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            Some((pid, stat(&fs::read_to_string(entry.path().join("stat")).ok()?)?))
        })
        .collect();
    of(pid, &all)
}

fn of(pid: u32, all: &BTreeMap<u32, Stat>) -> BTreeMap<u32, Stat> {
    let mut found: BTreeMap<u32, Stat> = all
        .get_key_value(&pid)
        .map(|(pid, stat)| (*pid, *stat))
        .into_iter()
        .collect();
    loop {
        let more: Vec<(u32, Stat)> = all
            .iter()
            .filter(|(pid, stat)| !found.contains_key(pid) && found.contains_key(&stat.parent))
            .map(|(pid, stat)| (*pid, *stat))
            .collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// Ticks in which a processor, or all of them (`cpu`), was idle or waited for a disk.
fn idle(stat: &str, name: &str) -> f64 {
    let line = stat
        .lines()
        .find(|line| line.split_whitespace().next() == Some(name));
    line.unwrap_or_default()
        .split_whitespace()
        .skip(4)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok())
        .sum()
}

/// Established connections to a local port, from the server's side.
fn established(port: u16) -> f64 {
    let end = format!(":{port:04X}");
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .map(|text| {
            let of_port = |line: &&str| {
                let mut fields = line.split_whitespace().skip(1);
                let local = fields.next().is_some_and(|local| local.ends_with(&end));
                // State 01 is ESTABLISHED.
                local && fields.nth(1) == Some("01")
            };
            text.lines().filter(of_port).count() as f64
        })
        .sum()
}

/// The number after a name at the start of a line.
fn number(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_fields() {
        let text = "7 (a) b) S 3 7 7 0 -1 4194560 100 0 0 0 11 22 33 44 20 0 1 0";
        let wanted = Stat {
            parent: 3,
            user: 44.0,
            kernel: 66.0,
        };
        assert_eq!(stat(text), Some(wanted));
        assert_eq!(stat("7 nonsense"), None);
    }

    #[test]
    fn a_server_is_its_process_and_all_below() {
        let all = [(1, 0), (5, 1), (6, 5), (7, 6), (8, 1)]
            .map(|(pid, parent)| {
                let stat = Stat {
                    parent,
                    user: 0.0,
                    kernel: 0.0,
                };
                (pid, stat)
            })
            .into();
        let found: Vec<u32> = of(5, &all).into_keys().collect();
        assert_eq!(found, [5, 6, 7]);
        assert!(of(9, &all).is_empty());
    }

    #[test]
    fn shares_are_of_all_processors_and_memory_grows_by_the_connection() {
        let look = |second: f64| Look {
            at_s: second,
            user: 50.0 * second,
            kernel: 20.0 * second,
            idle: 100.0 * second,
            idle_of_server: 30.0 * second,
            read: 8.0 * PAGE * second,
            written: 0.0,
            memory: 1024.0 * (1000.0 + 30.0 * 10.0 * second),
            connections: 10.0 * second,
            processes: 4,
        };
        let looks: Vec<Look> = (0..=4).map(|second| look(f64::from(second))).collect();
        let line = summary(&looks, 2, 1, true);
        for (name, wanted) in [
            ("user_pct", 25.0),
            ("kernel_pct", 10.0),
            ("idle_pct", 50.0),
            ("server_idle_pct", 30.0),
            ("pages_read_per_s", 8.0),
            ("kib_per_connection", 30.0),
            ("connections_max", 40.0),
        ] {
            let value = line[name].as_f64().expect(name);
            assert!((value - wanted).abs() < 1e-9, "{name}: {value}");
        }
        // Memory stays after connections close.
        let later: Vec<Look> = (5..9)
            .map(|second| Look {
                connections: 0.0,
                memory: looks[4].memory,
                ..look(f64::from(second))
            })
            .collect();
        let line = summary(&[looks.clone(), later].concat(), 2, 0, true);
        assert!((line["kib_per_connection"].as_f64().expect("KiB") - 30.0).abs() < 1e-9);
        assert!(line["server_idle_pct"].is_null(), "no processor is its alone");
        // Without open connections there is no estimate.
        assert!(summary(&looks[..1], 2, 0, false)["kib_per_connection"].is_null());
    }

    #[test]
    fn processors_idle_one_by_one_and_together() {
        let stat = "cpu  1 0 2 30 4 0 0\ncpu0 1 0 1 10 1 0 0\ncpu1 0 0 1 20 3 0 0\n";
        assert_eq!(
            ["cpu", "cpu1", "cpu2"].map(|name| idle(stat, name)),
            [34.0, 23.0, 0.0]
        );
    }

    #[test]
    fn a_real_process_is_seen() {
        let watch = Watch::start(std::process::id(), 1, 1, vec![0], None).expect("a watch");
        let line = watch.end();
        assert_eq!(line["event"], "resources");
        assert!(
            line["looks"].as_u64().expect("looks") >= 1
                && line["memory_max_kib"].as_f64().expect("memory") > 0.0
        );
    }
}
