//! `weir tune`: which strategy, how many workers, from which size sendfile, how large buffers are best here, found out by
//! trying (document 002's static adaptivity). Decides what is tried, in which order and for how long; which numbers win
//! says [`choose`], what is asked for [`workload`].

mod choose;
mod workload;

use crate::cli::tune::Flags;
use crate::cli::{Failure, Voice};
use crate::trial::{Load, Server};
use choose::{Round, Tried};
use measure::{Duration, Instant};
use runtime::clock;
use serde_json::{Value, json};
use server::config::{Machine, Probe, Tuned};
use std::io::Write;
use workload::Workload;

/// Rounds of a stage; all its settings take turns in each.
const ROUNDS: usize = 3;
/// One measurement, as short as says anything and as long as more tells more.
const SPAN_MIN: Duration = Duration::from_millis(200);
const SPAN_MAX: Duration = Duration::from_millis(1500);
/// Starting a server and a load, and ending both.
const AROUND: Duration = Duration::from_millis(350);

/// Keys and values of `weir serve`.
type Setting = Vec<(&'static str, String)>;

/// Runs the command to its end.
///
/// # Errors
/// `Usage` for a root or a log that is not there, `Invalid` if a load does not trust its numbers, `System` for what the
/// system refuses.
pub(crate) fn run(flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    voice.listen();
    let workload = Workload::of(flags)?;
    let began = clock::now();
    let cores = runtime::machine::usable_cores();
    let has_uring = runtime::strategy::try_uring().is_ok();
    let stages = stages(cores, has_uring);
    let measurements: usize = stages.iter().map(|stage| stage.settings.len() * ROUNDS).sum();
    let share = flags.budget / u32::try_from(measurements).unwrap_or(u32::MAX).max(1);
    let span = share.saturating_sub(AROUND).clamp(SPAN_MIN, SPAN_MAX);
    let mut best: Setting = Vec::new();
    let mut probes = Vec::new();
    for stage in stages {
        let tried = measure(flags, &workload, &stage, &best, span, began, voice)?;
        let won = choose::winner(&tried);
        for (place, one) in tried.iter().enumerate() {
            let probe = Probe {
                stage: stage.name.to_owned(),
                setting: shown(&one.setting),
                files_per_s: one.rounds.iter().map(|round| tenths(round.files_per_s)).collect(),
                p99_ms: one.rounds.iter().map(|round| thousandths(round.p99_ms)).collect(),
                chosen: place == won,
            };
            tell(&probe, voice);
            probes.push(probe);
        }
        // What stood before is the first: it adds nothing.
        for (key, value) in tried
            .into_iter()
            .nth(won)
            .map(|one| one.setting)
            .unwrap_or_default()
        {
            best.retain(|(other, _)| *other != key);
            best.push((key, value));
        }
    }
    write(flags, &workload, &best, probes, clock::now().since(began), voice)
}

/// One thing that is varied.
struct Stage {
    name: &'static str,
    /// The first is as without this stage.
    settings: Vec<Setting>,
}

fn stages(cores: usize, has_uring: bool) -> Vec<Stage> {
    let pair = |concurrency: &str, io: &str| -> Setting {
        vec![("concurrency", concurrency.to_owned()), ("io", io.to_owned())]
    };
    let mut strategies = vec![
        Setting::new(),
        pair("loop", "epoll"),
        pair("process-loops", "epoll"),
        pair("pool", "blocking"),
    ];
    if has_uring {
        strategies.push(pair("loops", "uring"));
    }
    let mut counts: Vec<usize> = vec![(cores / 2).max(1), cores * 2];
    counts.dedup();
    let one = |key: &'static str, values: &[&str]| -> Vec<Setting> {
        let tried = values.iter().map(|value| vec![(key, (*value).to_owned())]);
        std::iter::once(Setting::new()).chain(tried).collect()
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

/// Every setting of a stage in turn, round after round, in an order that rotates.
fn measure(
    flags: &Flags,
    workload: &Workload,
    stage: &Stage,
    best: &Setting,
    span: Duration,
    began: Instant,
    voice: &Voice,
) -> Result<Vec<Tried>, Failure> {
    let mut tried: Vec<Tried> = stage
        .settings
        .iter()
        .map(|setting| Tried {
            setting: setting.clone(),
            rounds: Vec::new(),
        })
        .collect();
    if voice.reports() && !voice.json {
        eprintln!("{}: {} settings, {ROUNDS} rounds", stage.name, tried.len());
    }
    for round in 0..ROUNDS {
        for place in 0..tried.len() {
            if clock::now().since(began) > flags.budget + flags.budget / 5 {
                return Err(Failure::Invalid(format!(
                    "it takes far longer than {:.0} s: this machine is busy; try again, or give more with --budget",
                    flags.budget.as_secs_f64()
                )));
            }
            let at = (place + round) % tried.len();
            let merged = merge(best, &tried[at].setting);
            let measured = once(flags, workload, &merged, span)?;
            tried[at].rounds.push(measured);
        }
    }
    Ok(tried)
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
        "--stagger".to_owned(),
        "0ms".to_owned(),
        "--grace".to_owned(),
        "1s".to_owned(),
        // The machine is meant to be busy, and settings are compared with each other only.
        "--lag-max".to_owned(),
        "1s".to_owned(),
    ];
    load.extend(workload.options());
    let result = Load::start(server.url(), &load)?.result()?;
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let (files, failed) = (number(&result["files"]), number(&result["files_failed"]));
    if files <= 0.0 || failed > 0.01 * files {
        return Err(Failure::Invalid(format!(
            "with `{}` {failed:.0} of {:.0} files failed: {}",
            shown(setting),
            files + failed,
            result["errors"]
        )));
    }
    Ok(Round {
        files_per_s: number(&result["files_per_s"]),
        p99_ms: number(&result["response_ms"]["p99"]),
    })
}

/// As it would stand in a file, in one line.
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

fn tell(probe: &Probe, voice: &Voice) {
    if voice.json {
        println!("{}", json!({ "event": "probe", "probe": probe }));
    } else if voice.reports() {
        let middle = choose::median(probe.files_per_s.iter().copied());
        let late = choose::median(probe.p99_ms.iter().copied());
        let mark = if probe.chosen { "*" } else { " " };
        println!(
            "{mark} {:<40}{middle:>12.0} files/s{late:>10.2} ms p99",
            probe.setting
        );
    }
}

fn write(
    flags: &Flags,
    workload: &Workload,
    best: &Setting,
    probe: Vec<Probe>,
    took: Duration,
    voice: &Voice,
) -> Result<(), Failure> {
    // The keys of a file have numbers where they are numbers.
    let lines: Vec<String> = best
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
        probe,
    };
    let name = flags.out.display().to_string();
    save(&flags.out, &tuned.text()).map_err(|error| Failure::System(format!("`{name}`: {error}")))?;
    if voice.json {
        let keys: serde_json::Map<String, Value> = best
            .iter()
            .map(|(key, value)| ((*key).to_owned(), json!(value)))
            .collect();
        println!(
            "{}",
            json!({ "event": "tuned", "version": 1, "file": name, "serve": keys, "machine": tuned.machine,
                "workload": tuned.workload, "took_s": took.as_secs_f64() })
        );
    } else {
        let found = match lines.is_empty() {
            true => "the defaults are best here".to_owned(),
            false => lines.join(", "),
        };
        println!("\n{found}\nwritten to {name} after {:.0} s", took.as_secs_f64());
    }
    Ok(())
}

#[allow(
    clippy::disallowed_methods,
    reason = "a command writes the file it is told to"
)]
fn save(path: &std::path::Path, text: &str) -> std::io::Result<()> {
    let mut file = std::fs::File::create(path)?;
    file.write_all(text.as_bytes())
}

/// What this machine is.
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
                assert!(
                    stage.settings[0].is_empty(),
                    "{}: what stands is tried too",
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

    #[test]
    fn what_a_stage_sets_replaces_what_stood() {
        let best = vec![("workers", "4".to_owned()), ("io", "epoll".to_owned())];
        let merged = merge(&best, &vec![("workers", "8".to_owned())]);
        assert_eq!(shown(&merged), "io = epoll, workers = 8");
    }
}
