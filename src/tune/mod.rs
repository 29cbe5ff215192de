//! `weir tune`: finds the best strategy, workers, sendfile threshold and buffers for this machine by trying them
//! (document 002's static adaptivity). Decides the settings to try, their order and their time. [`choose`] decides
//! which numbers win, and [`crate::testbed::workload`] what is requested.

mod choose;

use crate::cli::target::Target;
use crate::cli::tune::Flags;
use crate::failure::Failure;
use crate::output::print;
use crate::testbed::workload::Workload;
use crate::testbed::{Load, Server};
use crate::voice::Voice;
use choose::{LOOKS, Round, Tried, Verdict};
use client::plan::Mode;
use runtime::clock;
use serde::Serialize;
use serde_json::{Value, json};
use server::config::{Config, Machine, Probe, Tuned};
use std::fmt::Write;
use units::{Bytes, Duration, Instant, median};

/// Shortest useful and longest useful time of one measurement.
const SPAN_MIN: Duration = Duration::from_millis(200);
const SPAN_MAX: Duration = Duration::from_millis(1500);
/// Time to start and end a server and a load.
const AROUND: Duration = Duration::from_millis(350);

/// Smallest default send buffer of a socket (the kernel's `tcp_wmem`).
const SOCKET: u64 = 16 * 1024;

/// File size, in bytes, from which one response takes a noticeable part of a measurement.
const LARGE: u64 = 4 * 1024 * 1024;

/// Keys and values of `weir serve`.
type Setting = Vec<(&'static str, String)>;

/// Runs the command to its end.
///
/// # Errors
/// `Usage` for a missing root or log, a file that cannot be written, or too little time; `Invalid` if the measurements
/// are invalid, which keeps the defaults; `System` if the system refuses something.
pub(crate) fn run(flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    voice.listen();
    let workload = Workload::of(&flags.root, flags.log.as_deref())?;
    // Check that the file is writable before minutes of work. If interrupted, an existing profile stays unchanged.
    drop(Target::open(&flags.out)?);
    let began = clock::now();
    let until = began + flags.budget;
    let cores = runtime::machine::usable_cores();
    let has_uring = runtime::strategy::try_uring().is_ok();
    let mut stages: Vec<Stage> = stages(cores, has_uring)
        .into_iter()
        .map(|stage| stage.without_futile(&workload, flags.mode))
        .collect();
    let needed = (SPAN_MIN + AROUND) * stages.first().map_or(0, Stage::measurements);
    if flags.budget < needed {
        return Err(Failure::Usage(format!(
            "--budget {:.0}s is too little: the first stage alone takes {:.0} s",
            flags.budget.as_secs_f64(),
            needed.as_secs_f64().ceil()
        )));
    }
    let mut found = Found::default();
    while !stages.is_empty() {
        let mut stage = stages.remove(0);
        if stage.name == "workers" && found.best.contains(&("concurrency", "loop".to_owned())) {
            stage.settings.clear();
        }
        if stage.settings.is_empty() {
            found.futile.push(stage.name);
            continue;
        }
        let left: u32 = stage.measurements() + stages.iter().map(Stage::measurements).sum::<u32>();
        // Keep a reserve, because measurements may take longer than before.
        let remaining = until.since(clock::now()) * 9 / 10;
        let share = remaining / left;
        let span = share
            .saturating_sub(found.around.max(AROUND))
            .clamp(SPAN_MIN, SPAN_MAX);
        let bench = Bench {
            flags,
            workload: &workload,
            span,
            until,
            stage_until: clock::now() + remaining * stage.measurements() / left,
        };
        let ended = match bench.measure(&stage, &mut found, voice) {
            Ok(Some(tried)) => {
                found.take(stage.name, tried, voice)?;
                continue;
            }
            Ok(None) => None,
            // Completed stages are kept.
            Err(failure) if !found.probes.is_empty() => Some(failure),
            Err(failure) => return Err(failure),
        };
        found.untried.push(stage.name);
        found.untried.extend(stages.iter().map(|stage| stage.name));
        found.trouble = ended;
        break;
    }
    if found.probes.is_empty() {
        return Err(Failure::Invalid(format!(
            "no stage completed in {:.0} s, so no profile is written: this machine is busy{}; try again, or raise \
             --budget",
            flags.budget.as_secs_f64(),
            too_large(&workload)
        )));
    }
    found.write(flags, &workload, clock::now().since(began), voice)
}

/// A note on large files as a cause of slow measurements; empty if no file is large enough.
fn too_large(workload: &Workload) -> String {
    match workload.largest() {
        0..LARGE => String::new(),
        size => format!(
            ", or the files are too large for the time (the largest has {})",
            Bytes(size)
        ),
    }
}

/// A setting that could not be distinguished from the current one.
#[derive(Serialize)]
struct Undecided {
    stage: &'static str,
    setting: String,
    /// The 95 % interval of its gain, in percent.
    low_pct: f64,
    high_pct: f64,
    rounds: usize,
}

/// Results so far.
#[derive(Default)]
struct Found {
    best: Setting,
    probes: Vec<Probe>,
    /// Number of decided comparisons.
    decided: usize,
    /// Settings that could not be distinguished from the current ones.
    undecided: Vec<Undecided>,
    /// Stages without effect on these files.
    futile: Vec<&'static str>,
    /// Stages that were not tried.
    untried: Vec<&'static str>,
    /// The failure that prevented them; none if time ended.
    trouble: Option<Failure>,
    /// Overhead of a measurement beyond its span, a weighted mean in which recent ones count most.
    around: Duration,
}

impl Found {
    /// Judges a stage.
    fn take(&mut self, stage: &'static str, tried: Vec<Tried>, voice: &Voice) -> Result<(), Failure> {
        let Some((stands, others)) = tried.split_first() else {
            return Ok(());
        };
        let verdicts: Vec<Verdict> = others
            .iter()
            .map(|one| choose::judge(one, stands, others.len()))
            .collect();
        // The current setting is at index 0.
        let won = choose::winner(&verdicts).map_or(0, |place| place + 1);
        for (one, verdict) in others.iter().zip(&verdicts) {
            match *verdict {
                Verdict::Undecided { low, high } => self.undecided.push(Undecided {
                    stage,
                    setting: shown(&one.setting),
                    low_pct: tenths(low * 100.0),
                    high_pct: tenths(high * 100.0),
                    rounds: one.rounds.len(),
                }),
                Verdict::Better(_) | Verdict::NotBetter => self.decided += 1,
            }
        }
        for (place, one) in tried.iter().enumerate() {
            let setting = shown(&one.setting);
            let probe = Probe {
                stage: stage.to_owned(),
                setting,
                files_per_s: one.rounds.iter().map(|round| tenths(round.files_per_s)).collect(),
                p99_ms: one.rounds.iter().map(|round| thousandths(round.p99_ms)).collect(),
                chosen: place == won,
            };
            tell(&probe, voice)?;
            self.probes.push(probe);
        }
        // The first setting is the current one and adds nothing.
        for (key, value) in tried
            .into_iter()
            .nth(won)
            .map(|one| one.setting)
            .unwrap_or_default()
        {
            self.best.retain(|(other, _)| *other != key);
            self.best.push((key, value));
        }
        Ok(())
    }

    /// Writes the profile, and prints its contents and what is missing.
    fn write(self, flags: &Flags, workload: &Workload, took: Duration, voice: &Voice) -> Result<(), Failure> {
        // Numeric keys are written as numbers, without quotes.
        let lines: Vec<String> = self
            .best
            .iter()
            .map(|(key, value)| match value.parse::<u32>() {
                Ok(number) => format!("{key} = {number}"),
                Err(_) => format!("{key} = \"{value}\""),
            })
            .collect();
        let tuned = Tuned {
            version: 1,
            workload: format!(
                "{} clients, {}, {}",
                flags.clients,
                flags.mode.name(),
                workload.words()
            ),
            machine: machine(),
            serve: Tuned::keys(&lines.join("\n")).map_err(|error| Failure::System(error.to_string()))?,
            probe: self.probes,
        };
        let name = flags.out.display().to_string();
        Target::open(&flags.out)?.write(&tuned.text())?;
        if voice.json {
            let keys: serde_json::Map<String, Value> = self
                .best
                .iter()
                .map(|(key, value)| ((*key).to_owned(), json!(value)))
                .collect();
            let line = json!({ "event": "tuned", "version": 1, "file": name, "serve": keys, "machine": tuned.machine,
                "workload": tuned.workload, "took_s": took.as_secs_f64(), "undecided": self.undecided, "without-effect": self.futile,
                "untried": self.untried });
            print(&format!("{line}\n"))?;
        } else {
            let mut text = match lines.is_empty() {
                true => "\nno setting was measurably better than the defaults\n".to_owned(),
                false => format!("\n{}\n", lines.join(", ")),
            };
            // Writing to a String cannot fail, here and below.
            for one in &self.undecided {
                let _ = writeln!(
                    text,
                    "undecided against the current setting, {}: {} ({:+.0} to {:+.0} % after {} rounds)",
                    one.stage, one.setting, one.low_pct, one.high_pct, one.rounds
                );
            }
            if !self.undecided.is_empty() {
                let _ = writeln!(text, "a larger --budget narrows these intervals");
            }
            if !self.futile.is_empty() {
                let _ = writeln!(text, "no effect on these files: {}", self.futile.join(", "));
            }
            if !self.untried.is_empty() {
                let why = match self.trouble {
                    None => "because the time ended (raise --budget)",
                    Some(_) => "because a measurement failed",
                };
                let _ = writeln!(text, "not tried, {why}: {}", self.untried.join(", "));
            }
            let _ = writeln!(text, "written to {name} after {:.0} s", took.as_secs_f64());
            print(&text)?;
        }
        if let Some(failure) = self.trouble {
            return Err(failure);
        }
        if self.decided > 0 || self.undecided.is_empty() {
            return Ok(());
        }
        Err(Failure::Invalid(format!(
            "this machine is too noisy for {:.0} s: no setting could be distinguished from the defaults, which the profile keeps; stop \
             other programs, or raise --budget",
            took.as_secs_f64()
        )))
    }
}

/// One parameter to tune.
struct Stage {
    name: &'static str,
    /// Settings to compare with the current one.
    settings: Vec<Setting>,
}

impl Stage {
    /// Measurements up to the first look, the current setting included.
    fn measurements(&self) -> u32 {
        match self.settings.len() {
            0 => 0,
            len => u32::try_from((len + 1) * LOOKS[0]).unwrap_or(u32::MAX),
        }
    }

    /// The stage without settings that have no effect on files of these sizes.
    fn without_futile(mut self, workload: &Workload, mode: Mode) -> Stage {
        let usual = Config::default().cache_file_size.0;
        self.settings.retain(|setting| {
            setting.iter().all(|(key, value)| match *key {
                // A threshold affects only files between it and the current one.
                "cache-file-size" => {
                    let size = value.parse().map_or(usual, |size: Bytes| size.0);
                    workload.has_between(size.min(usual), size.max(usual))
                }
                // Whole responses fit, and no client sends the next request before it has the response.
                "send-buffer" => workload.largest() > SOCKET || mode == Mode::Pipelined,
                _ => true,
            })
        });
        self
    }
}

fn stages(cores: usize, has_uring: bool) -> Vec<Stage> {
    let pair = |concurrency: &str, io: &str| -> Setting {
        vec![("concurrency", concurrency.to_owned()), ("io", io.to_owned())]
    };
    let mut strategies = vec![
        pair("loop", "epoll"),
        pair("process-loops", "epoll"),
        pair("pool", "blocking"),
    ];
    if has_uring {
        strategies.push(pair("loops", "uring"));
    }
    // One worker per core is the current setting.
    let mut counts: Vec<usize> = vec![(cores / 2).max(1), cores * 2];
    counts.retain(|count| *count != cores);
    let one = |key: &'static str, values: &[&str]| -> Vec<Setting> {
        values
            .iter()
            .map(|value| vec![(key, (*value).to_owned())])
            .collect()
    };
    let counts: Vec<String> = counts.iter().map(usize::to_string).collect();
    let counts: Vec<&str> = counts.iter().map(String::as_str).collect();
    vec![
        Stage {
            name: "strategy",
            settings: strategies,
        },
        Stage {
            name: "workers",
            settings: one("workers", &counts),
        },
        Stage {
            name: "sendfile threshold",
            settings: one("cache-file-size", &["4KiB", "64KiB", "256KiB"]),
        },
        Stage {
            name: "socket buffers",
            settings: one("send-buffer", &["64KiB", "256KiB", "1MiB"]),
        },
    ]
}

/// How settings are measured.
struct Bench<'a> {
    flags: &'a Flags,
    workload: &'a Workload,
    span: Duration,
    /// End of the budget.
    until: Instant,
    /// End of the stage's share of the budget; no look begins after it.
    stage_until: Instant,
}

impl Bench<'_> {
    /// Every setting of a stage in turn with what stands, round after round, in an order that rotates; what stands is the first
    /// of the result. A setting that a look decides takes no further part. None if time ends before the first look.
    fn measure(
        &self,
        stage: &Stage,
        found: &mut Found,
        voice: &Voice,
    ) -> Result<Option<Vec<Tried>>, Failure> {
        let settings = std::iter::once(Setting::new()).chain(stage.settings.iter().cloned());
        let mut tried: Vec<Tried> = settings
            .map(|setting| Tried {
                setting,
                rounds: Vec::new(),
            })
            .collect();
        let others = tried.len() - 1;
        let mut open: Vec<usize> = (0..tried.len()).collect();
        let mut rounds = 0;
        for look in LOOKS {
            if voice.reports() && !voice.json {
                eprintln!("{}: {} settings, up to round {look}", stage.name, open.len());
            }
            while rounds < look {
                if rounds >= LOOKS[0] && clock::now() >= self.stage_until {
                    return Ok(Some(tried));
                }
                for place in 0..open.len() {
                    let began = clock::now();
                    if began + self.span + found.around > self.until {
                        return Ok((rounds >= LOOKS[0]).then(|| whole(tried, rounds)));
                    }
                    let one = &mut tried[open[(place + rounds) % open.len()]];
                    let merged = merge(&found.best, &one.setting);
                    one.rounds
                        .push(once(self.flags, self.workload, &merged, self.span)?);
                    let around = clock::now().since(began).saturating_sub(self.span);
                    found.around = (found.around * 3 + around) / 4;
                }
                rounds += 1;
            }
            open.retain(|&place| {
                place == 0
                    || matches!(
                        choose::judge(&tried[place], &tried[0], others),
                        Verdict::Undecided { .. }
                    )
            });
            if open.len() == 1 {
                break;
            }
        }
        Ok(Some(tried))
    }
}

/// Drop the round that time cut off, because the current setting may be missing from it.
fn whole(mut tried: Vec<Tried>, rounds: usize) -> Vec<Tried> {
    for one in &mut tried {
        one.rounds.truncate(rounds);
    }
    tried
}

fn merge(best: &Setting, setting: &Setting) -> Setting {
    let mut merged: Setting = best
        .iter()
        .filter(|(key, _)| setting.iter().all(|(other, _)| other != key))
        .cloned()
        .collect();
    merged.extend(setting.iter().cloned());
    merged
}

fn once(flags: &Flags, workload: &Workload, setting: &Setting, span: Duration) -> Result<Round, Failure> {
    let mut serve = vec![
        flags.root.display().to_string(),
        "--adapt".to_owned(),
        "off".to_owned(),
    ];
    for (key, value) in setting {
        serve.extend([format!("--{key}"), value.clone()]);
    }
    let server = Server::start(&serve)?;
    let mut load = vec![
        "--clients".to_owned(),
        flags.clients.to_string(),
        "--mode".to_owned(),
        flags.mode.name().to_owned(),
        "--duration".to_owned(),
        format!("{}ms", span.as_millis()),
        "--grace".to_owned(),
        "1s".to_owned(),
        // A busy client is acceptable here, because settings are only compared with each other.
        "--lag-max".to_owned(),
        "1s".to_owned(),
    ];
    load.extend(workload.options());
    let result = Load::start(server.url(), &load)?.result()?;
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let (files, failed) = (number(&result["files"]), number(&result["files_failed"]));
    if files + failed <= 0.0 {
        return Err(Failure::Invalid(format!(
            "with `{}`, no file was answered in {:.1} s: this machine is busy{}",
            shown(setting),
            span.as_secs_f64(),
            too_large(workload)
        )));
    }
    if files <= 0.0 || failed > 0.01 * files {
        // The load reports statuses; the file at fault is found in the document root.
        let reasons = result["verdict"]["reasons"].as_array().into_iter().flatten();
        let reasons: Vec<&str> = reasons.filter_map(Value::as_str).collect();
        let reasons = match reasons.is_empty() {
            true => format!("{failed:.0} of {:.0}", files + failed),
            false => reasons.join("; "),
        };
        let which = workload.unreadable().map_or_else(String::new, |(file, error)| {
            format!("; for example, `{}` cannot be read: {error}", file.display())
        });
        return Err(Failure::Invalid(format!(
            "with `{}`, too many responses were errors: {reasons}{which}",
            shown(setting)
        )));
    }
    Ok(Round {
        files_per_s: number(&result["files_per_s"]),
        // If more than one in a hundred never completed, the p99 is unknown and at least the timeout.
        p99_ms: result["response_ms"]["p99"]
            .as_f64()
            .unwrap_or_else(|| 1e3 * number(&result["timeout_s"])),
    })
}

/// The setting as in a file, on one line.
fn shown(setting: &Setting) -> String {
    if setting.is_empty() {
        return "as before".to_owned();
    }
    let pairs: Vec<String> = setting
        .iter()
        .map(|(key, value)| format!("{key} = {value}"))
        .collect();
    pairs.join(", ")
}

fn tell(probe: &Probe, voice: &Voice) -> Result<(), Failure> {
    if voice.json {
        return print(&format!("{}\n", json!({ "event": "probe", "probe": probe })));
    }
    if !voice.reports() {
        return Ok(());
    }
    let middle = median(&probe.files_per_s).unwrap_or(0.0);
    let late = median(&probe.p99_ms).unwrap_or(0.0);
    let mark = if probe.chosen { "*" } else { " " };
    print(&format!(
        "{mark} {:<40}{middle:>12.0} files/s{late:>10.2} ms p99\n",
        probe.setting
    ))
}

/// Description of this machine.
pub(crate) fn machine() -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let info = read("/proc/cpuinfo");
    let model = ["model name", "CPU part"].iter().find_map(|key| {
        let line = info.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    Machine {
        cpu: model.unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        cores: runtime::machine::usable_cores(),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
    }
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn thousandths(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_one_that_serve_takes_and_none_is_tried_twice() {
        for cores in [1, 2, 64] {
            for stage in stages(cores, true) {
                let stands = stage.settings.iter().any(Vec::is_empty);
                assert!(
                    !stands,
                    "{}: what stands is tried without being named",
                    stage.name
                );
                for (place, setting) in stage.settings.iter().enumerate() {
                    assert!(!stage.settings[..place].contains(setting), "{cores}: {setting:?}");
                    let keys: Vec<String> = setting
                        .iter()
                        .map(|(key, value)| match value.parse::<u32>() {
                            Ok(number) => format!("{key} = {number}"),
                            Err(_) => format!("{key} = \"{value}\""),
                        })
                        .collect();
                    let read = server::config::Config::from_toml(&keys.join("\n"), "setting");
                    assert!(read.is_ok(), "{read:?}");
                }
            }
        }
    }

    /// Settings that remain in each stage for a folder with one file of this size.
    fn left(size: usize, mode: Mode) -> Vec<usize> {
        let folder = tempfile::tempdir().expect("a folder");
        Target::open(&folder.path().join("a.bin"))
            .and_then(|target| target.write(&"7".repeat(size)))
            .expect("a file");
        let workload = Workload::of(folder.path(), None).expect("something to ask for");
        stages(2, true)
            .into_iter()
            .map(|stage| stage.without_futile(&workload, mode).settings.len())
            .collect()
    }

    #[test]
    fn what_makes_no_difference_for_these_files_is_not_tried() {
        assert_eq!(left(3, Mode::Serial), [4, 2, 0, 0], "all fit everywhere");
        assert_eq!(left(3, Mode::Pipelined), [4, 2, 0, 3]);
        assert_eq!(
            left(10_000, Mode::Serial),
            [4, 2, 1, 0],
            "held, or not from 4 KiB on"
        );
        assert_eq!(
            left(100_000, Mode::Serial),
            [4, 2, 1, 3],
            "held up to 256 KiB, or not"
        );
    }

    #[test]
    fn what_a_stage_sets_replaces_what_stood() {
        let best = vec![("workers", "4".to_owned()), ("io", "epoll".to_owned())];
        let merged = merge(&best, &vec![("workers", "8".to_owned())]);
        assert_eq!(shown(&merged), "io = epoll, workers = 8");
    }
}
