//! Facts about this machine: identity, features, current load. Decides only whether an arm's needs are met.

use crate::record::Disturbance;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Least number of ticks for a meaningful share of steal.
const TICKS_MIN: f64 = 100.0;

/// This machine.
pub(super) struct Machine {
    pub(super) kernel: String,
    pub(super) processor: String,
    /// The [`SETTINGS`] that this kernel has.
    pub(super) tcp: BTreeMap<String, String>,
    pub(super) is_root: bool,
    /// Number of processors.
    pub(super) processors: usize,
    /// Numbers of the processors that this process may use.
    pub(super) allowed: Vec<u32>,
    /// Whether the last measurement found no other load.
    was_quiet: bool,
    weir: PathBuf,
    /// Needs checked so far, with the reason for those that are not met.
    known: BTreeMap<String, Option<String>>,
}

/// The sysctls below /proc/sys/net/ipv4 that decide how measured TCP behaves. A new network namespace inherits the
/// machine's congestion control and has the kernel's defaults for the others.
const SETTINGS: [&str; 10] = [
    "tcp_autocorking",
    "tcp_congestion_control",
    "tcp_early_retrans",
    "tcp_ecn",
    "tcp_frto",
    "tcp_recovery",
    "tcp_sack",
    "tcp_slow_start_after_idle",
    "tcp_timestamps",
    "tcp_window_scaling",
];

/// Sampling time for the load of other programs, and the longest wait for it to fall.
const LOOK: Duration = Duration::from_millis(150);
const PATIENCE: Duration = Duration::from_secs(3);

/// Processor time so far.
pub(super) struct Busy {
    all: f64,
    steal: f64,
    waited_us: Option<f64>,
    at: Instant,
}

impl Machine {
    pub(super) fn look(weir: &Path) -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let processors = read("/proc/cpuinfo");
        let model = processors
            .lines()
            .find_map(|line| line.strip_prefix("model name"))
            .and_then(|rest| rest.split_once(": "))
            .map_or("unknown", |(_, name)| name);
        let count = processors
            .lines()
            .filter(|line| line.starts_with("processor"))
            .count();
        let is_root = read("/proc/self/status")
            .lines()
            .find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().nth(1))
            == Some("0");
        Machine {
            kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
            processor: format!("{count} x {model}"),
            tcp: SETTINGS
                .iter()
                .filter_map(|name| {
                    let value = fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?;
                    Some(((*name).to_owned(), value.trim().to_owned()))
                })
                .collect(),
            is_root,
            processors: count,
            allowed: read("/proc/self/status")
                .lines()
                .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
                .map_or_else(Vec::new, numbers),
            was_quiet: true,
            weir: weir.to_owned(),
            known: BTreeMap::new(),
        }
    }

    /// The reason why a need is not met; `None` if it is met.
    pub(super) fn lacks(&mut self, need: &str) -> Option<String> {
        if let Some(answer) = self.known.get(need) {
            return answer.clone();
        }
        let answer = self.look_for(need);
        self.known.insert(need.to_owned(), answer.clone());
        answer
    }

    fn look_for(&self, need: &str) -> Option<String> {
        let parts: Vec<&str> = need.splitn(3, ':').collect();
        match parts.as_slice() {
            ["root"] => (!self.is_root).then(|| "it needs root".to_owned()),
            ["groups"] => super::group::refusal(),
            ["processors", count] => {
                let here = self.allowed.len();
                let is_enough = count.parse().is_ok_and(|count: usize| here >= count);
                (!is_enough).then(|| format!("it needs {count} processors, and {here} are here"))
            }
            ["namespaces"] => self
                .fails(&["link", "lan", "--", "true"])
                .then(|| "no link can be made here: `weir lab doctor` says what would allow it".to_owned()),
            ["congestion", name] => {
                let known = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
                let is_here = known.is_ok_and(|known| known.split_whitespace().any(|known| known == *name));
                (!is_here).then(|| format!("the kernel has not loaded the congestion control {name}"))
            }
            ["program", name] => {
                let is_here = super::peer::program(name).is_some();
                (!is_here).then(|| format!("{name} is not installed"))
            }
            ["flag", command, flag] => {
                let help = Command::new(&self.weir)
                    .args([command, "--help"])
                    .stderr(Stdio::null())
                    .output();
                let has = help.is_ok_and(|help| {
                    String::from_utf8_lossy(&help.stdout)
                        .split(|c: char| c.is_whitespace() || c == ',' || c == '=')
                        .any(|word| word == *flag)
                });
                (!has).then(|| format!("`weir {command}` has no {flag} yet"))
            }
            _ => Some(format!("nobody knows what `{need}` is")),
        }
    }

    fn fails(&self, words: &[&str]) -> bool {
        let status = Command::new(&self.weir)
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        !status.is_ok_and(|status| status.success())
    }

    /// The share of the processors that other programs use while none of ours runs, in percent. Waits briefly for it
    /// to fall to `most`, but not at every call if it never falls.
    pub(super) fn others(&mut self, most: f64) -> f64 {
        let began = Instant::now();
        loop {
            let (used_before, all_before) = used();
            std::thread::park_timeout(LOOK);
            let (used_now, all_now) = used();
            let share = 100.0 * (used_now - used_before) / (all_now - all_before).max(1.0);
            let is_quiet = share <= most;
            if is_quiet || !self.was_quiet || began.elapsed() >= PATIENCE {
                self.was_quiet = is_quiet;
                return share;
            }
        }
    }

    pub(super) fn busy(&self) -> Busy {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let times: Vec<f64> = stat
            .lines()
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .skip(1)
            .take(8)
            .filter_map(|time| time.parse().ok())
            .collect();
        let pressure = fs::read_to_string("/proc/pressure/cpu").ok();
        Busy {
            all: times.iter().sum(),
            steal: times.get(7).copied().unwrap_or(0.0),
            waited_us: pressure.and_then(|text| text.lines().next()?.split_once("total=")?.1.parse().ok()),
            at: Instant::now(),
        }
    }

    pub(super) fn since(&self, before: &Busy) -> Disturbance {
        let now = self.busy();
        let all = now.all - before.all;
        // A tick is 10 ms: shares of less than a second are meaningless.
        let steal_pct = if all >= TICKS_MIN {
            100.0 * (now.steal - before.steal) / all
        } else {
            0.0
        };
        let took_us = before.at.elapsed().as_secs_f64() * 1e6;
        let cpu_pressure_pct = match (before.waited_us, now.waited_us) {
            (Some(before), Some(now)) if took_us > 0.0 => {
                Some((100.0 * (now - before) / took_us).clamp(0.0, 100.0))
            }
            _ => None,
        };
        Disturbance {
            steal_pct,
            cpu_pressure_pct,
            others_pct: None,
        }
    }
}

/// Ticks in which programs ran, and all ticks, over all processors.
fn used() -> (f64, f64) {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    shares(stat.lines().next().unwrap_or_default())
}

fn shares(line: &str) -> (f64, f64) {
    let times: Vec<f64> = line
        .split_whitespace()
        .skip(1)
        .take(8)
        .filter_map(|time| time.parse().ok())
        .collect();
    // User, nice, system.
    (times.iter().take(3).sum(), times.iter().sum())
}

/// The numbers of a kernel list: `0-2,7`.
fn numbers(list: &str) -> Vec<u32> {
    let mut all = Vec::new();
    for part in list.trim().split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(from), Ok(to)) = (from.parse::<u32>(), to.parse::<u32>()) {
            all.extend(from..=to);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel_are_read() {
        assert_eq!(numbers("\t0-2,7\n"), [0, 1, 2, 7]);
        assert_eq!(numbers("3"), [3]);
        assert!(numbers("").is_empty());
    }

    #[test]
    fn what_programs_used_is_told_from_idling_and_waiting() {
        assert_eq!(shares("cpu  10 5 25 50 7 1 2 0 0 0"), (40.0, 100.0));
        assert_eq!(shares(""), (0.0, 0.0));
    }

    #[test]
    fn a_machine_that_is_never_quiet_is_not_waited_for_again_and_again() {
        let mut machine = Machine::look(Path::new("/bin/true"));
        let share = machine.others(100.0);
        assert!((0.0..=100.0).contains(&share) && machine.was_quiet, "{share}");
        machine.was_quiet = false;
        let began = Instant::now();
        machine.others(-1.0);
        assert!(began.elapsed() < PATIENCE && !machine.was_quiet);
    }

    #[test]
    fn what_nobody_knows_is_lacking() {
        let mut machine = Machine::look(Path::new("/bin/true"));
        assert!(machine.lacks("processors:1").is_none());
        let why = machine.lacks("processors:100000").expect("too many");
        assert!(why.starts_with("it needs 100000 processors"), "{why}");
        // Every Linux has Reno.
        assert!(machine.lacks("congestion:reno").is_none());
        let why = machine.lacks("congestion:wings").expect("no such algorithm");
        assert!(why.ends_with("the congestion control wings"), "{why}");
        assert!(machine.lacks("wings").expect("nothing").contains("`wings`"));
    }
}
