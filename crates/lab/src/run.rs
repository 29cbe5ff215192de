//! Runs the arms of a plan and keeps their output: first those that only compute, on all processors, then the others in
//! turns, one run at a time. Decides the order, which results are reused, and the status of failed runs; knows nothing
//! about the programs.
//!
//! A result is written to a temporary file and renamed, so an interrupted run leaves the whole result or none. A
//! result is reused if the digest of its commands and of the program is unchanged.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the runner spawns programs and keeps their results: processes, files and a clock are what it is for"
)]

mod alone;
mod group;
mod machine;
mod peer;
mod process;
mod watch;

pub use alone::{Alone, alone};

use crate::observation::Labels;
use crate::plan::{Arm, Plan, Run, Size, fill};
use crate::record::{Disturbance, Ends, Head, Record, Status, VERSION};
use crate::shown::Shown;
use group::Group;
use machine::Machine;
use process::{Beside, Place, Server};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use watch::Watch;

/// Attempts at a run that turns out invalid.
const TRIES: u32 = 3;
/// Placeholders that stand for paths.
const PATHS: [&str; 4] = ["site", "files", "scratch", "weir"];
/// Time that a command may take beyond the plan's estimate, in seconds.
const PATIENCE_S: f64 = 180.0;

/// The settings of a study.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Path of the binary.
    pub weir: PathBuf,
    /// Name, version and build; results of other builds are not reused.
    pub program: String,
    /// Output directory: results go to `results/STUDY/RUN.REPETITION.jsonl` in it.
    pub out: PathBuf,
    /// Size of the study.
    pub size: Size,
    /// Limit on steal during a run on the live machine, in percent.
    pub steal_max_pct: f64,
    /// Limit on the share of the processors that other programs use when such a run begins, in percent. A run above
    /// it is repeated once, after all other runs of its study, if the machine is quiet then.
    pub others_max_pct: f64,
    /// Prefixes of the arms to run, or with `$` behind it the whole name of one; empty means all.
    pub only: Vec<String>,
    /// Whether it makes only runs whose numbers a figure or table of the report shows.
    pub figures: bool,
}

/// Progress of a study.
#[derive(Clone, Debug)]
pub struct Progress<'r> {
    /// Number of finished runs.
    pub done: usize,
    /// Number of all runs.
    pub all: usize,
    /// Name of the current run.
    pub run: &'r str,
    /// Expected remaining time in seconds.
    pub left_s: f64,
}

/// Summary of a study.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Runs with usable numbers, old and new.
    pub done: usize,
    /// Runs of these whose results were reused.
    pub kept: usize,
    /// Runs that this machine cannot do.
    pub not_run: usize,
    /// Runs that failed.
    pub failed: usize,
    /// Runs that stayed invalid.
    pub invalid: usize,
}

/// Runs everything that has no result yet.
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
    fs::create_dir_all(&folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    process::Scratch::sweep(&settings.out);
    group::sweep();
    let plans = settings.out.join("plans");
    fs::create_dir_all(&plans).map_err(|error| format!("cannot create {}: {error}", plans.display()))?;
    let copy = plans.join(format!("{name}.toml"));
    fs::write(&copy, text).map_err(|error| format!("cannot write {}: {error}", copy.display()))?;
    let runs = wanted(plan, settings);
    let queue = interleaved(plan, &runs, settings.size);
    let bench = || Bench {
        name,
        plan,
        plan_digest: digest(text),
        settings,
        folder: &folder,
        machine: Machine::look(&settings.weir),
    };
    let mut computed = compute(&bench, &queue, tell)?;
    let mut bench = bench();
    let mut outlook = Outlook::new(&mut bench, &queue);
    let mut tally = Tally::default();
    for (done, (run, repetition)) in queue.iter().enumerate() {
        tell(Progress {
            done,
            all: queue.len(),
            run: &run.id,
            left_s: outlook.left_s(&queue[done..], done),
        });
        let (status, is_new) = match computed.remove(&done) {
            Some(taken) => taken,
            None => {
                let began = Instant::now();
                let taken = bench.take(run, *repetition)?;
                if taken.1 {
                    outlook.learn(run.arm, began.elapsed().as_secs_f64());
                }
                taken
            }
        };
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
    // Once, and at the end: other programs may have finished by then.
    let disturbed: Vec<(&Run, u32)> = queue
        .iter()
        .copied()
        .filter(|(run, repetition)| bench.was_disturbed(run, *repetition))
        .collect();
    for (done, (run, repetition)) in disturbed.iter().enumerate() {
        let others_pct = bench.machine.others(settings.others_max_pct);
        if others_pct > settings.others_max_pct {
            break;
        }
        let left = disturbed[done..].iter();
        tell(Progress {
            done: queue.len() + done,
            all: queue.len() + disturbed.len(),
            run: &run.id,
            left_s: left.map(|(run, _)| outlook.of_arm(run.arm)).sum(),
        });
        bench.repeat(run, *repetition, others_pct)?;
    }
    Ok(tally)
}

/// Runs what only computes, on all processors that this process may use: nothing of it depends on the machine's load.
/// Returns by position in the queue what [`Bench::take`] returns. Measured runs are left: they need the machine.
fn compute<'b>(
    bench: &(dyn Fn() -> Bench<'b> + Sync),
    queue: &[(&Run, u32)],
    tell: &mut dyn FnMut(Progress<'_>),
) -> Result<BTreeMap<usize, (Status, bool)>, String> {
    let mut first = bench();
    let mut outlook = Outlook::new(&mut first, queue);
    let places: Vec<usize> = (0..queue.len())
        .filter(|&place| first.plan.arms[queue[place].0.arm].only_computes())
        .collect();
    let workers = first.machine.allowed.len().clamp(1, places.len().max(1));
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    let mut taken = BTreeMap::new();
    std::thread::scope(|scope| {
        for _ in 0..workers {
            let (sender, places, next) = (sender.clone(), &places, &next);
            scope.spawn(move || {
                let mut bench = bench();
                while let Some(&place) = places.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (run, repetition) = queue[place];
                    let began = Instant::now();
                    let took = bench.take(run, repetition);
                    // Nobody listens after a failure to write results.
                    if sender.send((place, took, began.elapsed().as_secs_f64())).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut say = |done: usize, outlook: &Outlook| {
            // Runs begin in order: the first that is not done is under way.
            if let Some(&place) = places.get(done) {
                tell(Progress {
                    done,
                    all: queue.len(),
                    run: &queue[place].0.id,
                    left_s: outlook.left_s(queue, 0),
                });
            }
        };
        say(0, &outlook);
        for (place, took, seconds) in receiver {
            let (status, is_new) = took?;
            if is_new {
                outlook.learn(queue[place].0.arm, seconds);
            }
            taken.insert(place, (status, is_new));
            outlook.kept[place] = true;
            say(taken.len(), &outlook);
        }
        Ok(taken)
    })
}

/// What a study has ahead of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Ahead {
    /// Expected remaining time in seconds, from the plan or from earlier runs of the same arms.
    pub left_s: f64,
    /// Numbers of runs that cannot be made on this machine, by reason.
    pub lacking: BTreeMap<String, usize>,
}

/// What a study has ahead of it. Looks at the machine, so it takes as long as making a link.
pub fn ahead(name: &str, text: &str, plan: &Plan, settings: &Settings) -> Ahead {
    let folder = settings.out.join("results").join(name);
    let runs = wanted(plan, settings);
    let queue = interleaved(plan, &runs, settings.size);
    let mut bench = Bench {
        name,
        plan,
        plan_digest: digest(text),
        settings,
        folder: &folder,
        machine: Machine::look(&settings.weir),
    };
    let outlook = Outlook::new(&mut bench, &queue);
    Ahead {
        left_s: outlook.left_s(&queue, 0),
        lacking: outlook.lacking,
    }
}

/// The selected runs of a plan.
fn wanted(plan: &Plan, settings: &Settings) -> Vec<Run> {
    let shown = settings.figures.then(|| Shown::of(plan));
    plan.runs(settings.size)
        .into_iter()
        .filter(|run| {
            let name = &plan.arms[run.arm].name;
            settings.only.is_empty() || settings.only.iter().any(|only| selects(only, name))
        })
        .filter(|run| {
            let is_shown = |shown: &Shown| shown.has_any(&plan.planned_of(run));
            shown.as_ref().is_none_or(is_shown)
        })
        .collect()
}

/// Whether a study of this plan has no run with these settings.
pub fn is_idle(plan: &Plan, settings: &Settings) -> bool {
    interleaved(plan, &wanted(plan, settings), settings.size).is_empty()
}

/// Whether `--only` selects the arm of this name: by a prefix, or by the whole name and `$`.
pub fn selects(only: &str, name: &str) -> bool {
    match only.strip_suffix('$') {
        Some(whole) => name == whole,
        None => name.starts_with(only),
    }
}

/// Estimate of the remaining time: each run takes as long as earlier runs of its arm, or as the plan says; runs that
/// only compute share the processors.
struct Outlook {
    /// By arm: how many of its runs go on at once.
    abreast: Vec<f64>,
    /// By arm: the plan's estimate in seconds.
    planned: Vec<f64>,
    /// By arm: number of runs so far, and their total time in seconds.
    taken: Vec<(u32, f64)>,
    /// By position in the queue: whether the result exists already, or never will.
    kept: Vec<bool>,
    /// Numbers of runs that cannot be made on this machine, by reason.
    lacking: BTreeMap<String, usize>,
}

impl Outlook {
    fn new(bench: &mut Bench<'_>, queue: &[(&Run, u32)]) -> Outlook {
        let arms = &bench.plan.arms;
        let size = bench.settings.size;
        let processors = bench.machine.allowed.len().max(1) as f64;
        let mut outlook = Outlook {
            abreast: arms
                .iter()
                .map(|arm| if arm.only_computes() { processors } else { 1.0 })
                .collect(),
            planned: arms
                .iter()
                .map(|arm| arm.seconds.at(size) + arm.lead + 0.2)
                .collect(),
            taken: vec![(0, 0.0); arms.len()],
            kept: Vec::new(),
            lacking: BTreeMap::new(),
        };
        for (run, repetition) in queue {
            let before = bench.before(run, *repetition);
            let done = before.filter(|record| record.head.status == Status::Done);
            let reason = if done.is_none() { bench.lacks(run) } else { None };
            outlook.kept.push(done.is_some() || reason.is_some());
            if let Some(record) = done {
                outlook.learn(run.arm, record.head.seconds);
            }
            if let Some(reason) = reason {
                *outlook.lacking.entry(reason).or_default() += 1;
            }
        }
        outlook
    }

    fn learn(&mut self, arm: usize, seconds: f64) {
        self.taken[arm].0 += 1;
        self.taken[arm].1 += seconds;
    }

    /// Remaining time for the rest of the queue, which begins at `place`.
    fn left_s(&self, rest: &[(&Run, u32)], place: usize) -> f64 {
        rest.iter()
            .zip(&self.kept[place..])
            .filter(|(_, is_kept)| !**is_kept)
            .map(|((run, _), _)| self.of_arm(run.arm) / self.abreast[run.arm])
            .sum()
    }

    /// Expected time of one run of this arm.
    fn of_arm(&self, arm: usize) -> f64 {
        match self.taken[arm] {
            (0, _) => self.planned[arm],
            (runs, seconds) => seconds / f64::from(runs),
        }
    }
}

/// All first repetitions, then all second ones, so that a temporary disturbance affects all arms alike.
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

/// The results of a study that belong to a plan and a size, by file name; without a size, to the largest size that
/// has results. A run with equal durations in two sizes belongs to both.
///
/// # Errors
/// A file cannot be read or is not a result.
pub fn results(
    out: &Path,
    name: &str,
    plan: &Plan,
    size: Option<Size>,
) -> Result<BTreeMap<String, Record>, String> {
    let folder = out.join("results").join(name);
    let mut found = BTreeMap::new();
    let Ok(entries) = fs::read_dir(&folder) else {
        return Ok(found);
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        let text =
            fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let record =
            Record::parse(&text).map_err(|error| format!("{} is not a result: {error}", path.display()))?;
        let file = entry.file_name().to_string_lossy().into_owned();
        found.insert(format!("results/{name}/{file}"), record);
    }
    let has = |size: &Size| found.values().any(|record| record.head.size == size.name());
    let size = size
        .or_else(|| Size::ALL.into_iter().rev().find(has))
        .unwrap_or(Size::Quick);
    let runs: BTreeMap<String, usize> = plan.runs(size).into_iter().map(|run| (run.id, run.arm)).collect();
    // Results of arms that the plan no longer has, or of another size, are not evidence.
    found.retain(|_, record| {
        let Some(arm) = runs.get(&record.head.run).map(|&arm| &plan.arms[arm]) else {
            return false;
        };
        let of = Size::ALL.into_iter().find(|size| record.head.size == size.name());
        let lasts_as_long = of.is_some_and(|of| arm.seconds.at(of) == arm.seconds.at(size));
        lasts_as_long && record.head.repetition < *arm.repetitions.at(size)
    });
    Ok(found)
}

/// Version of a program, what its build says of itself (`about`: commit, profile, target), and a digest of its file,
/// which distinguishes any two builds.
///
/// # Errors
/// The file cannot be read.
pub fn build(version: &str, about: &str, program: &Path) -> Result<String, String> {
    let bytes = fs::read(program).map_err(|error| format!("cannot read {}: {error}", program.display()))?;
    let digest = twox_hash::XxHash3_128::oneshot(&bytes) as u64;
    Ok(format!("{version} ({about}, build {digest:016x})"))
}

/// Writes a whole file or nothing.
///
/// # Errors
/// The file cannot be written.
pub fn keep(path: &Path, text: &str) -> Result<(), String> {
    let part = path.with_extension("part");
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    folder
        .and_then(|()| fs::write(&part, text))
        .and_then(|()| fs::rename(&part, path))
        .map_err(|error| {
            // A partial file would waste space on a full disk.
            let _ = fs::remove_file(&part);
            format!("cannot write {}: {error}", path.display())
        })
}

fn digest(text: &str) -> String {
    format!("{:016x}", twox_hash::XxHash3_128::oneshot(text.as_bytes()) as u64)
}

/// The words with known placeholders replaced.
fn filled(words: &[String], known: &Labels) -> Vec<String> {
    words
        .iter()
        .flat_map(|word| {
            let filled = fill(word, known);
            let inside = word.strip_prefix('{').and_then(|word| word.strip_suffix('}'));
            // Two parameters with a text between them are one word: `{network} loss={loss}`.
            let name = inside.filter(|name| !name.contains(['{', '}']));
            // A parameter may stand for several words or none; a path is always one word.
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

/// Outcome of one attempt.
struct Tried {
    status: Status,
    reason: String,
    commands: Vec<Vec<String>>,
    lines: Vec<serde_json::Value>,
    /// TCP settings of the hosts of its links.
    links: Vec<Ends>,
    /// Its temporary directory while it ran.
    scratch: Option<String>,
}

impl Tried {
    /// Replaces paths of this machine by `SCRATCH`, `OUT` and `weir`, which mean something elsewhere, too.
    fn without_places(&mut self, weir: &Path, out: &Path) {
        let out = out.canonicalize().unwrap_or_else(|_| out.to_owned());
        let places = [
            (self.scratch.take().unwrap_or_default(), "SCRATCH"),
            (out.display().to_string(), "OUT"),
            (weir.display().to_string(), "weir"),
        ];
        for text in self.commands.iter_mut().flatten().chain([&mut self.reason]) {
            for (place, word) in places.iter().filter(|(place, _)| !place.is_empty()) {
                *text = text.replace(place, word);
            }
        }
    }
}

impl Bench<'_> {
    fn seed(&self, repetition: u32) -> u64 {
        self.plan.seed + u64::from(repetition)
    }

    fn path(&self, run: &Run, repetition: u32) -> PathBuf {
        self.folder.join(format!("{}.{repetition}.jsonl", run.id))
    }

    /// Digest of everything that decides a result.
    fn decides(&self, run: &Run, repetition: u32) -> String {
        let arm = &self.plan.arms[run.arm];
        let seconds = *arm.seconds.at(self.settings.size);
        let seed = self.seed(repetition);
        digest(&format!(
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
        ))
    }

    /// The existing result, if its digest matches.
    fn before(&self, run: &Run, repetition: u32) -> Option<Record> {
        let text = fs::read_to_string(self.path(run, repetition)).ok()?;
        let record = Record::parse(&text).ok()?;
        (record.head.arm == self.decides(run, repetition)).then_some(record)
    }

    /// The result of one repetition, and whether it is new.
    fn take(&mut self, run: &Run, repetition: u32) -> Result<(Status, bool), String> {
        let before = self.before(run, repetition);
        if before
            .as_ref()
            .is_some_and(|before| before.head.status == Status::Done)
        {
            return Ok((Status::Done, false));
        }
        let excluded_before = before.map_or(0, |before| {
            before.head.excluded + u32::from(before.head.status == Status::Invalid)
        });
        for tried_before in 0..TRIES {
            let others_pct = self.plan.arms[run.arm]
                .world
                .is_live()
                .then(|| self.machine.others(self.settings.others_max_pct));
            let record = self.measure(run, repetition, excluded_before + tried_before, others_pct);
            keep(&self.path(run, repetition), &record.text())?;
            if record.head.status != Status::Invalid {
                return Ok((record.head.status, true));
            }
        }
        Ok((Status::Invalid, true))
    }

    /// Whether the existing result was measured while other programs were busy.
    fn was_disturbed(&self, run: &Run, repetition: u32) -> bool {
        self.before(run, repetition).is_some_and(|record| {
            record.head.status == Status::Done && record.is_disturbed(self.settings.others_max_pct)
        })
    }

    /// Repeats a disturbed run. The new result replaces the old one only if it is better.
    fn repeat(&mut self, run: &Run, repetition: u32, others_pct: f64) -> Result<(), String> {
        let before = self.before(run, repetition);
        let excluded = before.map_or(0, |before| before.head.excluded) + 1;
        let record = self.measure(run, repetition, excluded, Some(others_pct));
        match record.head.status {
            Status::Done => keep(&self.path(run, repetition), &record.text()),
            Status::NotRun | Status::Failed | Status::Invalid => Ok(()),
        }
    }

    /// One attempt after `excluded` others, with the share of the processors that other programs use.
    fn measure(&mut self, run: &Run, repetition: u32, excluded: u32, others_pct: Option<f64>) -> Record {
        let arm = &self.plan.arms[run.arm];
        let seconds = *arm.seconds.at(self.settings.size);
        let seed = self.seed(repetition);
        let began = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let clock = Instant::now();
        let before = self.machine.busy();
        let mut tried = self.attempt(arm, run, seed, seconds);
        let disturbance = Disturbance {
            others_pct,
            ..self.machine.since(&before)
        };
        if arm.world.is_live()
            && tried.status == Status::Done
            && disturbance.steal_pct > self.settings.steal_max_pct
        {
            tried.status = Status::Invalid;
            tried.reason = format!(
                "the host took away {:.1} % of the processors",
                disturbance.steal_pct
            );
        }
        Record {
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
                arm: self.decides(run, repetition),
                commands: tried.commands,
                status: tried.status,
                reason: tried.reason,
                excluded,
                began,
                seconds: clock.elapsed().as_secs_f64(),
                program: self.settings.program.clone(),
                kernel: self.machine.kernel.clone(),
                processor: self.machine.processor.clone(),
                tcp: self.machine.tcp.clone(),
                links: tried.links,
                clock: "CLOCK_MONOTONIC".to_owned(),
                disturbance,
            },
            lines: tried.lines,
        }
    }

    /// The reason why a run cannot be made on this machine; `None` if it can.
    fn lacks(&mut self, run: &Run) -> Option<String> {
        let arm = &self.plan.arms[run.arm];
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
        needs.iter().find_map(|need| self.machine.lacks(need))
    }

    fn attempt(&mut self, arm: &Arm, run: &Run, seed: u64, seconds: f64) -> Tried {
        let mut tried = Tried {
            status: Status::Done,
            reason: String::new(),
            commands: Vec::new(),
            lines: Vec::new(),
            links: Vec::new(),
            scratch: None,
        };
        if let Some(missing) = self.lacks(run) {
            tried.status = Status::NotRun;
            tried.reason = missing;
            return tried;
        }
        if let Err((status, reason)) = self.perform(arm, run, seed, seconds, &mut tried) {
            tried.status = status;
            tried.reason = reason;
        }
        tried.without_places(&self.settings.weir, &self.settings.out);
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
        tried.scratch = Some(scratch.path().display().to_string());
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
        let of_server = if arm.apart { first.to_vec() } else { Vec::new() };
        if let Some(processor) = of_server.first() {
            known.insert("processor".to_owned(), processor.to_string());
        }
        let (first, others): (Vec<String>, Vec<String>) = (apart(first).collect(), apart(others).collect());
        if arm.serve.is_empty() {
            return self.commands(arm, &known, &others, seconds, tried);
        }
        let root = known.get("site").map(PathBuf::from).unwrap_or_default();
        // The server of a watched arm is put into a control group where possible: only a group counts kernel memory.
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
                    of_server,
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
        // Before the group, whose drop kills everything left in it.
        drop(server);
        match group.map_or(Ok(0), |group| group.killed()).map_err(failed)? {
            0 => ended,
            killed => Err((
                Status::Invalid,
                format!("{killed} processes were killed for want of memory"),
            )),
        }
    }

    /// Runs the commands of an arm and keeps the lines that the plan reads.
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
        let mut beside = None;
        if !arm.meanwhile.is_empty() {
            let words = filled(&arm.meanwhile, known);
            tried.commands.push(shown(&words));
            beside = Some(Beside::start(before, weir, &words).map_err(failed)?);
        }
        for (number, words) in arm.run.iter().enumerate() {
            let mut words = filled(words, known);
            // The settings of a link's hosts exist only while it runs.
            let settings = (words[0] == "link").then(|| format!("{}/settings-{number}", known["scratch"]));
            if let Some(path) = &settings {
                words.splice(1..1, ["--settings".to_owned(), path.clone()]);
            }
            tried.commands.push(shown(&words));
            let said = process::run(before, weir, &words, 4.0 * seconds + PATIENCE_S).map_err(failed)?;
            // Without its settings, the run counts all the same: its failure says why it has none.
            let ends = settings.and_then(|path| serde_json::from_str(&fs::read_to_string(path).ok()?).ok());
            tried.links.extend::<Option<Ends>>(ends);
            let lines: Result<Vec<serde_json::Value>, _> = said
                .output
                .lines()
                .filter(|line| line.starts_with('{'))
                .map(serde_json::from_str)
                .collect();
            let lines = lines
                .map_err(|error| failed(format!("`weir {}` printed no JSON: {error}", words.join(" "))))?;
            // A long listing, such as a trace with a line per request, is reduced to the lines that the plan reads
            // and the assumptions of simulations.
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
        // Without the parallel command, the conditions of the measurement were different.
        match beside.and_then(|mut beside| beside.refusal()) {
            None => Ok(()),
            Some(why) => Err(failed(format!("`weir {}`: {why}", arm.meanwhile.join(" ")))),
        }
    }

    /// The directory of a site, generated if it does not exist.
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
