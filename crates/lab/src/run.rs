//! Runs the arms of a plan, one after another and in turns, and keeps what they print. Decides the order, what need not
//! be run again, and what a run that failed is called; knows nothing of what a program does.
//!
//! A result is written beside its name and renamed when it is complete, so a run that is cut short leaves either the
//! whole result or none. A result is used again if the digest of its commands and of the program is the same.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the runner spawns programs and keeps their results: processes, files and a clock are what it is for"
)]

mod group;
mod machine;
mod peer;
mod process;
mod watch;

use crate::observation::{Labels, World};
use crate::plan::{Arm, Plan, Run, Size, fill};
use crate::record::{Head, Record, Status, VERSION};
use group::Group;
use machine::Machine;
use process::{Beside, Place, Server};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use watch::Watch;

/// Tries of a run that turns out invalid.
const TRIES: u32 = 3;
/// Names that stand for paths.
const PATHS: [&str; 4] = ["site", "files", "scratch", "weir"];
/// What a command may need beyond what the plan says, seconds.
const PATIENCE_S: f64 = 180.0;

/// How a study is run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The binary.
    pub weir: PathBuf,
    /// Its name and version.
    pub program: String,
    /// Where results go: `results/STUDY/RUN.REPETITION.jsonl` below it.
    pub out: PathBuf,
    /// How much is run.
    pub size: Size,
    /// Share of the processors that the host may take away from a run of the live machine, percent.
    pub steal_max_pct: f64,
    /// Only arms whose name begins with one of these; none: all.
    pub only: Vec<String>,
}

/// Where a study is.
#[derive(Clone, Debug)]
pub struct Progress<'r> {
    /// Runs that are behind.
    pub done: usize,
    /// All runs.
    pub all: usize,
    /// What is run now.
    pub run: &'r str,
    /// What the rest is expected to need, seconds.
    pub left_s: f64,
}

/// What a study came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Runs whose numbers can be used, old and new.
    pub done: usize,
    /// Of these, those that were there before.
    pub kept: usize,
    /// Runs that something was missing for.
    pub not_run: usize,
    /// Runs that failed.
    pub failed: usize,
    /// Runs that stayed invalid.
    pub invalid: usize,
}

/// Runs what is not there yet.
///
/// # Errors
/// Results cannot be written, or the binary cannot be started.
pub fn run(
    name: &str,
    text: &str,
    plan: &Plan,
    settings: &Settings,
    tell: &mut dyn FnMut(Progress<'_>),
) -> Result<Tally, String> {
    let folder = settings.out.join("results").join(name);
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    process::Scratch::sweep(&settings.out);
    group::sweep();
    let plans = settings.out.join("plans");
    fs::create_dir_all(&plans).map_err(|error| format!("cannot make {}: {error}", plans.display()))?;
    let copy = plans.join(format!("{name}.toml"));
    fs::write(&copy, text).map_err(|error| format!("cannot write {}: {error}", copy.display()))?;
    let runs: Vec<Run> = plan
        .runs(settings.size)
        .into_iter()
        .filter(|run| {
            settings.only.is_empty()
                || settings
                    .only
                    .iter()
                    .any(|only| plan.arms[run.arm].name.starts_with(only.as_str()))
        })
        .collect();
    let queue = interleaved(plan, &runs, settings.size);
    let mut bench = Bench {
        name,
        plan,
        plan_digest: digest(text),
        settings,
        folder: &folder,
        machine: Machine::look(&settings.weir),
    };
    let expected = |run: &Run| plan.arms[run.arm].seconds.at(settings.size) + 0.2;
    let all_expected: f64 = queue.iter().map(|(run, _)| expected(run)).sum();
    let (mut spent, mut spent_expected, mut behind_expected) = (0.0, 0.0, 0.0);
    let mut tally = Tally::default();
    for (done, (run, repetition)) in queue.iter().enumerate() {
        // What took longer than it should so far will go on doing so.
        let pace = if spent_expected > 0.0 {
            spent / spent_expected
        } else {
            1.0
        };
        tell(Progress {
            done,
            all: queue.len(),
            run: &run.id,
            left_s: (all_expected - behind_expected) * pace,
        });
        let began = Instant::now();
        let (status, is_new) = bench.take(run, *repetition)?;
        behind_expected += expected(run);
        if is_new {
            spent += began.elapsed().as_secs_f64();
            spent_expected += expected(run);
        }
        match status {
            Status::Done => {
                tally.done += 1;
                tally.kept += usize::from(!is_new);
            }
            Status::NotRun => tally.not_run += 1,
            Status::Failed => tally.failed += 1,
            Status::Invalid => tally.invalid += 1,
        }
    }
    Ok(tally)
}

/// All first repetitions, then all second ones: what disturbs the machine for a while disturbs every arm alike.
fn interleaved<'r>(plan: &Plan, runs: &'r [Run], size: Size) -> Vec<(&'r Run, u32)> {
    let most = plan
        .arms
        .iter()
        .map(|arm| *arm.repetitions.at(size))
        .max()
        .unwrap_or(0);
    (0..most)
        .flat_map(|repetition| {
            runs.iter()
                .filter(move |run| repetition < *plan.arms[run.arm].repetitions.at(size))
                .map(move |run| (run, repetition))
        })
        .collect()
}

/// The results of a study that belong to a plan and a size, by the names of their files.
///
/// # Errors
/// A file cannot be read, or is no result.
pub fn results(out: &Path, name: &str, plan: &Plan) -> Result<BTreeMap<String, Record>, String> {
    let folder = out.join("results").join(name);
    let mut found = BTreeMap::new();
    let Ok(entries) = fs::read_dir(&folder) else {
        return Ok(found);
    };
    let known: Vec<String> = [Size::Quick, Size::Full, Size::Paper]
        .into_iter()
        .flat_map(|size| plan.runs(size))
        .map(|run| run.id)
        .collect();
    for entry in entries.flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        let text =
            fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let record =
            Record::parse(&text).map_err(|error| format!("{} is no result: {error}", path.display()))?;
        // What an arm left that the plan no longer has is no evidence of anything.
        if known.contains(&record.head.run) {
            let file = entry.file_name().to_string_lossy().into_owned();
            found.insert(format!("results/{name}/{file}"), record);
        }
    }
    Ok(found)
}

/// Writes a file whole or not at all.
///
/// # Errors
/// The system refused.
pub fn keep(path: &Path, text: &str) -> Result<(), String> {
    let part = path.with_extension("part");
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    folder
        .and_then(|()| fs::write(&part, text))
        .and_then(|()| fs::rename(&part, path))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn digest(text: &str) -> String {
    format!("{:016x}", twox_hash::XxHash3_128::oneshot(text.as_bytes()) as u64)
}

/// Words with what is known filled in.
fn filled(words: &[String], known: &Labels) -> Vec<String> {
    words
        .iter()
        .flat_map(|word| {
            let filled = fill(word, known);
            let name = word.strip_prefix('{').and_then(|word| word.strip_suffix('}'));
            // A parameter may stand for several words, or for none; a path is one word whatever is in it.
            if name.is_some_and(|name| !PATHS.contains(&name)) {
                filled.split_whitespace().map(str::to_owned).collect()
            } else {
                vec![filled]
            }
        })
        .collect()
}

/// Writes files of these lengths; the first is a page that embeds the others.
fn page(folder: &Path, lengths: &[u64]) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    for (number, &length) in lengths.iter().enumerate() {
        let (name, mut text) = if number == 0 {
            let embedded: String = (1..lengths.len())
                .map(|number| format!("<img src=\"{number}.gif\">\n"))
                .collect();
            (
                "index.html".to_owned(),
                format!("<!doctype html><title>page</title>\n{embedded}<p>"),
            )
        } else {
            (format!("{number}.gif"), "GIF89a".to_owned())
        };
        while (text.len() as u64) < length {
            text.push_str("weir ");
        }
        text.truncate(length as usize);
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}

struct Bench<'s> {
    name: &'s str,
    plan: &'s Plan,
    plan_digest: String,
    settings: &'s Settings,
    folder: &'s Path,
    machine: Machine,
}

/// How one try ended.
struct Tried {
    status: Status,
    reason: String,
    commands: Vec<Vec<String>>,
    lines: Vec<serde_json::Value>,
}

impl Bench<'_> {
    /// The result of one repetition, and whether it was made now.
    fn take(&mut self, run: &Run, repetition: u32) -> Result<(Status, bool), String> {
        let arm = &self.plan.arms[run.arm];
        let seconds = *arm.seconds.at(self.settings.size);
        let seed = self.plan.seed + u64::from(repetition);
        let decides = format!(
            "{:?}{:?}{:?}{:?}{:?}{:?}{}{}{:?}{seconds}{seed}{}",
            arm.run,
            arm.serve,
            arm.site,
            arm.files,
            run.parameters,
            arm.confine,
            arm.apart,
            arm.watch,
            arm.meanwhile,
            self.settings.program
        );
        let decides = digest(&decides);
        let path = self.folder.join(format!("{}.{repetition}.jsonl", run.id));
        let mut excluded = 0;
        if let Ok(text) = fs::read_to_string(&path)
            && let Ok(before) = Record::parse(&text)
            && before.head.arm == decides
        {
            if before.head.status == Status::Done {
                return Ok((Status::Done, false));
            }
            excluded = before.head.excluded;
        }
        let began = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        for _ in 0..TRIES {
            let clock = Instant::now();
            let before = self.machine.busy();
            let mut tried = self.attempt(arm, run, seed, seconds);
            let disturbance = self.machine.since(&before);
            if arm.world == World::Measured
                && tried.status == Status::Done
                && disturbance.steal_pct > self.settings.steal_max_pct
            {
                tried.status = Status::Invalid;
                tried.reason = format!(
                    "the host took away {:.1} % of the processors",
                    disturbance.steal_pct
                );
            }
            let record = Record {
                head: Head {
                    format: "weir-study".to_owned(),
                    version: VERSION,
                    study: self.name.to_owned(),
                    name: arm.name.clone(),
                    run: run.id.clone(),
                    parameters: run.parameters.clone(),
                    repetition,
                    size: self.settings.size.name().to_owned(),
                    world: arm.world,
                    seed,
                    plan: self.plan_digest.clone(),
                    arm: decides.clone(),
                    commands: tried.commands,
                    status: tried.status,
                    reason: tried.reason,
                    excluded,
                    began,
                    seconds: clock.elapsed().as_secs_f64(),
                    program: self.settings.program.clone(),
                    kernel: self.machine.kernel.clone(),
                    processor: self.machine.processor.clone(),
                    clock: "CLOCK_MONOTONIC".to_owned(),
                    disturbance,
                },
                lines: tried.lines,
            };
            keep(&path, &record.text())?;
            if tried.status != Status::Invalid {
                return Ok((tried.status, true));
            }
            excluded += 1;
        }
        Ok((Status::Invalid, true))
    }

    fn attempt(&mut self, arm: &Arm, run: &Run, seed: u64, seconds: f64) -> Tried {
        let mut tried = Tried {
            status: Status::Done,
            reason: String::new(),
            commands: Vec::new(),
            lines: Vec::new(),
        };
        let of_bounds = ["groups"].into_iter().filter(|_| arm.confine.is_some());
        let of_processors = ["processors:2", "program:taskset"]
            .into_iter()
            .filter(|_| arm.apart);
        let needs: Vec<String> = arm
            .needs
            .iter()
            .map(|need| fill(need, &run.parameters))
            .chain(of_bounds.chain(of_processors).map(str::to_owned))
            .collect();
        if let Some(missing) = needs.iter().find_map(|need| self.machine.lacks(need)) {
            tried.status = Status::NotRun;
            tried.reason = missing;
            return tried;
        }
        if let Err((status, reason)) = self.perform(arm, run, seed, seconds, &mut tried) {
            tried.status = status;
            tried.reason = reason;
        }
        tried
    }

    fn perform(
        &mut self,
        arm: &Arm,
        run: &Run,
        seed: u64,
        seconds: f64,
        tried: &mut Tried,
    ) -> Result<(), (Status, String)> {
        let failed = |reason: String| (Status::Failed, reason);
        let weir = &self.settings.weir;
        let scratch = process::Scratch::new(&self.settings.out).map_err(failed)?;
        let mut known: Labels = run.parameters.clone();
        known.insert("seed".to_owned(), seed.to_string());
        known.insert("seconds".to_owned(), format!("{seconds}s"));
        known.insert("weir".to_owned(), weir.display().to_string());
        known.insert("scratch".to_owned(), scratch.path().display().to_string());
        if !arm.site.is_empty() {
            let words: Vec<String> = arm.site.iter().map(|word| fill(word, &known)).collect();
            let site = self.site(&words).map_err(failed)?;
            known.insert("site".to_owned(), site.display().to_string());
        }
        if !arm.files.is_empty() {
            let folder = scratch.path().join("files");
            page(&folder, &arm.files).map_err(failed)?;
            known.insert("files".to_owned(), folder.display().to_string());
        }
        let apart = |processors: &[u32]| {
            let list: Vec<String> = processors.iter().map(u32::to_string).collect();
            let taskset = ["taskset".to_owned(), "-c".to_owned(), list.join(",")];
            taskset.into_iter().filter(|_| arm.apart)
        };
        let (first, others) = self.machine.allowed.split_at(1.min(self.machine.allowed.len()));
        let (first, others): (Vec<String>, Vec<String>) = (apart(first).collect(), apart(others).collect());
        if arm.serve.is_empty() {
            return self.commands(arm, &known, &others, seconds, tried);
        }
        let root = known.get("site").map(PathBuf::from).unwrap_or_default();
        // A server that is watched is in a group where one can be made: only there the kernel's memory is counted.
        let group = match (&arm.confine, arm.watch && self.machine.lacks("groups").is_none()) {
            (None, false) => None,
            _ => Some(Group::make().map_err(failed)?),
        };
        if let (Some(group), Some(confine)) = (&group, &arm.confine) {
            group
                .fill(&root, &fill(&confine.memory, &known))
                .map_err(failed)?;
        }
        let before: Vec<String> = group.iter().flat_map(Group::before).chain(first).collect();
        let place = Place {
            weir,
            root: &root,
            scratch: scratch.path(),
            is_root: self.machine.is_root,
            before: &before,
        };
        let words = filled(&arm.serve, &known);
        let server = Server::start(place, &words).map_err(failed)?;
        tried.commands.push(server.command.clone());
        known.insert("url".to_owned(), server.url());
        known.insert("port".to_owned(), server.port.to_string());
        known.insert("pid".to_owned(), server.pid().to_string());
        if let (Some(group), Some(confine)) = (&group, &arm.confine) {
            group
                .throttle(&root, &fill(&confine.reads, &known))
                .map_err(failed)?;
        }
        let gauges = group.as_ref().map(Group::gauges);
        let reads = gauges.map_or(0, group::Gauges::reads);
        let clock = Instant::now();
        let watch = arm
            .watch
            .then(|| {
                Watch::start(
                    server.pid(),
                    server.port,
                    self.machine.processors,
                    gauges.cloned(),
                )
            })
            .transpose()
            .map_err(failed)?;
        let ended = self.commands(arm, &known, &others, seconds, tried);
        tried.lines.extend(watch.map(Watch::end));
        if let Some(gauges) = gauges {
            let mut line = gauges.line().map_err(failed)?;
            line["reads_per_s"] =
                ((gauges.reads() - reads) as f64 / clock.elapsed().as_secs_f64().max(1e-9)).into();
            tried.lines.push(line);
        }
        // Before the group, which ends whatever is left in it.
        drop(server);
        match group.map_or(Ok(0), |group| group.killed()).map_err(failed)? {
            0 => ended,
            killed => Err((
                Status::Invalid,
                format!("{killed} processes were killed for want of memory"),
            )),
        }
    }

    /// Runs the commands of an arm, and keeps the lines that the plan reads.
    fn commands(
        &self,
        arm: &Arm,
        known: &Labels,
        before: &[String],
        seconds: f64,
        tried: &mut Tried,
    ) -> Result<(), (Status, String)> {
        let failed = |reason: String| (Status::Failed, reason);
        let weir = &self.settings.weir;
        let shown = |words: &[String]| [&["weir".to_owned()][..], words].concat();
        let _beside = if arm.meanwhile.is_empty() {
            None
        } else {
            let words = filled(&arm.meanwhile, known);
            tried.commands.push(shown(&words));
            Some(Beside::start(before, weir, &words).map_err(failed)?)
        };
        for words in &arm.run {
            let words = filled(words, known);
            tried.commands.push(shown(&words));
            let said = process::run(before, weir, &words, 4.0 * seconds + PATIENCE_S).map_err(failed)?;
            let lines: Result<Vec<serde_json::Value>, _> = said
                .output
                .lines()
                .filter(|line| line.starts_with('{'))
                .map(serde_json::from_str)
                .collect();
            let lines = lines
                .map_err(|error| failed(format!("`weir {}` printed no JSON: {error}", words.join(" "))))?;
            // Of a long listing only what the plan reads is kept: a trace has a line for each request. And what a
            // simulation takes for granted.
            let is_read = |line: &serde_json::Value| {
                line["event"] == "assumption"
                    || arm.read.iter().any(|read| {
                        read.event
                            .as_ref()
                            .is_none_or(|event| line["event"].as_str() == Some(event))
                    })
            };
            tried.lines.extend(lines.into_iter().filter(is_read));
            match said.code {
                Some(0) => {}
                Some(code) if arm.accepts.contains(&code) => {}
                Some(3) => {
                    let why = said.last_words();
                    let why = why.strip_prefix("error: ").unwrap_or(&why);
                    return Err((Status::Invalid, why.to_owned()));
                }
                _ => return Err(failed(said.why())),
            }
        }
        Ok(())
    }

    /// The folder of a site, written if it is not there.
    fn site(&self, words: &[String]) -> Result<PathBuf, String> {
        let sites = self.settings.out.join("sites");
        fs::create_dir_all(&sites).map_err(|error| format!("cannot make {}: {error}", sites.display()))?;
        let path = sites.join(format!("{}-{}", words[0], digest(&words.join(" "))));
        if path.exists() {
            return path.canonicalize().map_err(|error| error.to_string());
        }
        let part = path.with_extension("part");
        let _ = fs::remove_dir_all(&part);
        let mut command = vec![
            "site".to_owned(),
            words[0].clone(),
            part.display().to_string(),
            "--quiet".to_owned(),
        ];
        command.extend(words[1..].iter().cloned());
        let said = process::run(&[], &self.settings.weir, &command, PATIENCE_S)?;
        if said.code != Some(0) {
            return Err(said.why());
        }
        fs::rename(&part, &path).map_err(|error| format!("cannot make {}: {error}", path.display()))?;
        path.canonicalize().map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests;
