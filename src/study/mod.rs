//! `weir study`: reads plans, has `lab` run their arms and judge the claims, writes the report and prints a summary.
//! Knows no arm and no claim.

use crate::cli::study::Flags;
use crate::failure::Failure;
use crate::voice::Voice;
use ::lab::ledger::{Entry, Study, Verdict, apart, counts, ledger};
use ::lab::plan::{EMBEDDED, Plan, Size};
use ::lab::record::{OTHERS_MAX_PCT, STEAL_MAX_PCT, keep_newest_build};
use ::lab::report::{self, Material, Raw};
use ::lab::run::{self, Progress, Settings, Tally};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Interval of progress lines where no progress bar can be drawn.
const TELL_EVERY: Duration = Duration::from_secs(30);
/// The folder beside a published report where that on the protocols since lies, if it was published by itself.
const SINCE: &str = "since";
/// Arms named with their time after a study.
const ARMS_NAMED: usize = 4;

/// Runs the command.
///
/// # Errors
/// `Usage` for a plan that cannot be read, `Failed` if a run failed or stayed invalid, `System` if something cannot be
/// written or started.
pub(crate) fn run(flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    voice.listen();
    let plans = plans(flags)?;
    if flags.show_plan {
        if plans.len() > 1 {
            return Err(Failure::Usage(
                "--show-plan prints one plan: name one document, as in `weir study qos --show-plan`"
                    .to_owned(),
            ));
        }
        let all: Vec<&str> = plans.iter().map(|(_, text, _)| text.as_str()).collect();
        return print(&all.join("\n"));
    }
    let weir = runtime::process::reexec::path()
        .map_err(|error| Failure::System(format!("cannot find the path of this program: {error}")))?;
    let program = run::build(
        concat!("weir ", env!("CARGO_PKG_VERSION")),
        env!("WEIR_BUILD"),
        &weir,
    )
    .map_err(Failure::System)?;
    let settings = Settings {
        weir,
        program,
        out: flags.out.clone(),
        size: match (flags.full, flags.paper) {
            (_, true) => Size::Paper,
            (true, _) => Size::Full,
            _ => Size::Quick,
        },
        steal_max_pct: STEAL_MAX_PCT,
        others_max_pct: OTHERS_MAX_PCT,
        only: flags.only.clone(),
        figures: flags.figures,
    };
    if let Some(unknown) = flags
        .only
        .iter()
        .find(|only| !selects_an_arm(&plans, only, |_| true))
    {
        let names: Vec<&str> = arms(&plans).collect();
        return Err(Failure::Usage(format!(
            "no arm's name begins with `{unknown}`; write one of {}",
            names.join(", ")
        )));
    }
    if let Some(idle) = flags
        .only
        .iter()
        .filter(|_| !flags.report_only)
        .find(|only| !selects_an_arm(&plans, only, |arm| arm.runs_at(settings.size)))
    {
        let sizes: Vec<String> = Size::ALL
            .into_iter()
            .filter(|size| selects_an_arm(&plans, idle, |arm| arm.runs_at(*size)))
            .map(|size| format!("--{}", size.name()))
            .collect();
        return Err(Failure::Usage(format!(
            "`{idle}` has no run in --{}; its arms run with {}",
            settings.size.name(),
            sizes.join(" or ")
        )));
    }
    if flags.figures && plans.iter().all(|(_, _, plan)| run::is_idle(plan, &settings)) {
        return Err(Failure::Usage(format!(
            "no figure or table shows a number of these runs in --{}; leave out --figures",
            settings.size.name()
        )));
    }
    if flags.report_only && !settings.out.join("results").is_dir() {
        return Err(Failure::Usage(format!(
            "{} has no results: name the folder of a study with --out, or leave out --report-only to run it",
            settings.out.display()
        )));
    }
    // Without --quick, --full or --paper, --report-only takes the size from the results.
    let is_size_said = flags.quick || flags.full || flags.paper;
    let size = (is_size_said || !flags.report_only).then_some(settings.size);
    let _alone = run::alone(&settings.out).map_err(Failure::Usage)?;
    if !flags.report_only && voice.reports() && !voice.json {
        // A closed standard error is no reason to stop.
        let _ = writeln!(
            std::io::stderr(),
            "results go to {}; if interrupted, the same command continues there",
            settings.out.display()
        );
    }
    let mut left_later: Vec<f64> = Vec::new();
    let mut lacking: BTreeMap<String, usize> = BTreeMap::new();
    for (name, text, plan) in plans.iter().rev().filter(|_| !flags.report_only) {
        let after = left_later.last().copied().unwrap_or(0.0);
        let ahead = run::ahead(name, text, plan, &settings);
        left_later.push(after + ahead.left_s);
        for (reason, runs) in ahead.lacking {
            *lacking.entry(reason).or_default() += runs;
        }
    }
    if voice.reports() && !voice.json {
        // Said before hours are spent, not after.
        for (reason, runs) in &lacking {
            let noun = if *runs == 1 { "run" } else { "runs" };
            let _ = writeln!(std::io::stderr(), "{runs} {noun} will be left out: {reason}");
        }
    }
    // The last element includes all later studies; each study pops its own when it begins.
    let mut tally = Tally::default();
    let mut results = Vec::new();
    for (name, text, plan) in &plans {
        left_later.pop();
        if !flags.report_only {
            let later_s = left_later.last().copied().unwrap_or(0.0);
            let of_one = perform(name, text, plan, &settings, later_s, voice)?;
            tally.done += of_one.done;
            tally.kept += of_one.kept;
            tally.not_run += of_one.not_run;
            tally.failed += of_one.failed;
            tally.invalid += of_one.invalid;
        }
        results.push(run::results(&settings.out, name, plan, size).map_err(Failure::System)?);
    }
    let others = keep_newest_build(&mut results);
    let older: usize = others.values().sum();
    if older > 0 && voice.reports() {
        // A closed standard error is no reason to stop.
        let _ = writeln!(
            std::io::stderr(),
            "{older} results of other builds of weir are left out: a report shows the newest build only"
        );
    }
    let program = results
        .iter()
        .flat_map(|records| records.values().next())
        .next()
        .map_or(settings.program.clone(), |record| record.head.program.clone());
    let mut studies = Vec::new();
    for ((name, text, plan), records) in plans.into_iter().zip(results) {
        studies.push(Study::new(&name, &text, plan, records).map_err(Failure::Usage)?);
    }
    let ledger = ledger(&studies);
    let date = httpdate::fmt_http_date(moment());
    let material = Material {
        studies: &studies,
        ledger: &ledger,
        program: &program,
        date: &date,
        others: &others,
        raw: Raw::Files,
        since_folder: None,
    };
    write(&settings.out, &material)?;
    summary(&material, &tally, &settings.out, voice)?;
    if let Some(folder) = &flags.publish {
        publish(folder, &material)?;
    }
    match (tally.failed, tally.invalid) {
        (0, 0) => Ok(()),
        (failed, invalid) => Err(Failure::Failed(format!(
            "{failed} runs failed and {invalid} stayed invalid; the report says why"
        ))),
    }
}

fn arms(plans: &[(String, String, Plan)]) -> impl Iterator<Item = &str> {
    plans
        .iter()
        .flat_map(|(_, _, plan)| plan.arms.iter().map(|arm| arm.name.as_str()))
}

/// Whether `--only` selects one of these arms.
fn selects_an_arm(
    plans: &[(String, String, Plan)],
    only: &str,
    is_one: impl Fn(&::lab::plan::Arm) -> bool,
) -> bool {
    plans
        .iter()
        .flat_map(|(_, _, plan)| &plan.arms)
        .any(|arm| run::selects(only, &arm.name) && is_one(arm))
}

/// The current time, for the head of the report.
fn moment() -> SystemTime {
    let now = runtime::clock::wall();
    SystemTime::UNIX_EPOCH + Duration::new(u64::try_from(now.secs).unwrap_or(0), now.nanos)
}

fn plans(flags: &Flags) -> Result<Vec<(String, String, Plan)>, Failure> {
    if let Some(path) = &flags.plan {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))?;
        let plan = parse(&path.display().to_string(), &text)?;
        let name = path
            .file_stem()
            .map_or("plan".to_owned(), |stem| stem.to_string_lossy().into_owned());
        return Ok(vec![(name, text, plan)]);
    }
    EMBEDDED
        .iter()
        .filter(|(name, _)| flags.names.iter().any(|wanted| wanted.studies().contains(name)))
        .map(|(name, text)| {
            let plan = parse(&format!("experiments/{name}.toml"), text)?;
            Ok(((*name).to_owned(), (*text).to_owned(), plan))
        })
        .collect()
}

fn parse(file: &str, text: &str) -> Result<Plan, Failure> {
    Plan::parse(file, text).map_err(|error| Failure::Usage(error.to_string()))
}

/// Runs the arms of one plan, with a progress bar on a terminal, otherwise with a line every [`TELL_EVERY`].
fn perform(
    name: &str,
    text: &str,
    plan: &Plan,
    settings: &Settings,
    later_s: f64,
    voice: &Voice,
) -> Result<Tally, Failure> {
    let is_welcome = voice.reports() && !voice.json;
    let is_drawn = is_welcome && std::io::stderr().is_terminal();
    let is_told = is_welcome && !is_drawn;
    let target = if is_drawn {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(None, target);
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    let mut told: Option<units::Instant> = None;
    let mut tell = |progress: Progress<'_>| {
        let left = duration(progress.left_s + later_s);
        bar.set_length(progress.all as u64);
        bar.set_position(progress.done as u64);
        bar.set_message(format!("{name}: {}, {left} left", progress.run));
        let now = runtime::clock::now();
        if is_told && told.is_none_or(|told| now.since(told) >= TELL_EVERY) {
            told = Some(now);
            let run = format!("{}/{} {}", progress.done + 1, progress.all, progress.run);
            // A closed standard error is no reason to stop.
            let _ = writeln!(std::io::stderr(), "{name} {run}, {left} left");
        }
    };
    let tally = run::run(name, text, plan, settings, &mut tell).map_err(Failure::System)?;
    bar.finish_and_clear();
    Ok(tally)
}

fn duration(seconds: f64) -> String {
    let seconds = seconds.round().max(0.0) as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

fn write(out: &Path, material: &Material<'_>) -> Result<(), Failure> {
    let json = report::json(material).to_string() + "\n";
    let mut files = report::pages(material);
    files.push(("report.md".to_owned(), report::text(material)));
    files.push(("report.json".to_owned(), json));
    for (name, text) in files {
        run::keep(&out.join(name), &text).map_err(Failure::System)?;
    }
    for (name, svg) in report::pictures(material) {
        let path = out.join("pictures").join(name + ".svg");
        run::keep(&path, &svg).map_err(Failure::System)?;
    }
    Ok(())
}

/// Writes the files to commit: the report and its pictures, and instead of raw results a table of every number. The
/// page contains each plan's text, so that plans are not copied beside it. A report of `weir study since` in a folder of that
/// name is linked.
fn publish(folder: &Path, material: &Material<'_>) -> Result<(), Failure> {
    let is_beside = apart(material.ledger).since.is_empty() && folder.join(SINCE).join("report.md").is_file();
    let material = &Material {
        raw: Raw::Tables,
        since_folder: is_beside.then_some(SINCE),
        ..*material
    };
    write(folder, material)?;
    let mut files = vec![("for-readme.txt".to_owned(), report::snippet(material))];
    for study in material.studies {
        let name = &study.name;
        files.push((format!("results/{name}-runs.csv"), report::runs_csv(study)));
        files.push((format!("results/{name}-values.csv"), report::values_csv(study)));
    }
    for (name, text) in files {
        run::keep(&folder.join(name), &text).map_err(Failure::System)?;
    }
    Ok(())
}

fn summary(material: &Material<'_>, tally: &Tally, out: &Path, voice: &Voice) -> Result<(), Failure> {
    let sets = apart(material.ledger);
    if voice.json {
        let line = serde_json::json!({
            "event": "study", "done": tally.done, "kept": tally.kept, "not_run": tally.not_run,
            "failed": tally.failed, "invalid": tally.invalid, "verdicts": report::by_verdict(&sets.documents),
            "verdicts_further": report::by_verdict(&sets.further), "verdicts_since": report::by_verdict(&sets.since),
            "seconds": seconds_by_arm(material), "report": out.join("report.html"),
        });
        return print(&format!("{line}\n"));
    }
    if !voice.reports() {
        return Ok(());
    }
    let judged: Vec<String> = material
        .ledger
        .iter()
        .filter(|entry| entry.study.is_some())
        .map(|entry| format!("{}  {:<20}  {}\n", entry.id, entry.verdict.name(), entry.claim))
        .collect();
    let counted = |entries: &[&Entry], of: &str| -> String {
        if entries.is_empty() {
            return String::new();
        }
        let each: Vec<String> = counts(entries)
            .into_iter()
            .filter(|(verdict, count)| *count > 0 || *verdict == Verdict::Reproduced)
            .map(|(verdict, count)| format!("{count} {}", verdict.name()))
            .collect();
        format!("{} of {} {of}\n", each.join("; "), entries.len())
    };
    let disturbed = material
        .studies
        .iter()
        .flat_map(|study| study.records.values())
        .filter(|record| record.is_disturbed(OTHERS_MAX_PCT))
        .count();
    let warning = if disturbed == 0 {
        String::new()
    } else {
        format!(
            "{disturbed} runs began while other programs used more than {OTHERS_MAX_PCT} % of the processors: the report uses \
             them only where it has no better run\n"
        )
    };
    print(&format!(
        "{}\n{}{}{}{} runs ({} of them kept from earlier), {} not run, {} failed, {} invalid\n{}{warning}{}\n",
        judged.concat(),
        counted(&sets.documents, "claims"),
        counted(&sets.further, "further claims"),
        counted(&sets.since, "claims on the protocols since"),
        tally.done,
        tally.kept,
        tally.not_run,
        tally.failed,
        tally.invalid,
        durations(&seconds_by_arm(material)),
        out.join("report.html").display()
    ))
}

/// Seconds of the runs by study and arm. Runs that only compute go on at once, so that they sum to more than they took.
fn seconds_by_arm(material: &Material<'_>) -> BTreeMap<String, BTreeMap<String, f64>> {
    let of = |study: &Study| {
        let mut arms = BTreeMap::new();
        for head in study.records.values().map(|record| &record.head) {
            *arms.entry(head.name.clone()).or_default() += head.seconds;
        }
        (study.name.clone(), arms)
    };
    material.studies.iter().map(of).collect()
}

/// A line for each study with runs: the time of all of them, and of the arms that took longest.
fn durations(seconds: &BTreeMap<String, BTreeMap<String, f64>>) -> String {
    let mut text = String::new();
    for (study, arms) in seconds.iter().filter(|(_, arms)| !arms.is_empty()) {
        let mut longest: Vec<(&String, f64)> = arms.iter().map(|(arm, seconds)| (arm, *seconds)).collect();
        longest.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        let named: Vec<String> = longest
            .iter()
            .take(ARMS_NAMED)
            .map(|(arm, seconds)| format!("{arm} {}", duration(*seconds)))
            .collect();
        text += &format!(
            "{study}: runs of {} ({})\n",
            duration(arms.values().sum()),
            named.join(", ")
        );
    }
    text
}

fn print(text: &str) -> Result<(), Failure> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::System(format!("cannot write: {error}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{duration, durations};
    use std::collections::BTreeMap;

    #[test]
    fn the_longest_arms_are_named_with_their_time() {
        let arms = [("a", 1.0), ("b", 61.0), ("c", 3.0), ("d", 2.0), ("e", 0.4)];
        let arms: BTreeMap<String, f64> = arms
            .iter()
            .map(|(arm, seconds)| ((*arm).to_owned(), *seconds))
            .collect();
        let all = BTreeMap::from([("jaws".to_owned(), arms), ("qos".to_owned(), BTreeMap::new())]);
        assert_eq!(
            durations(&all),
            "jaws: runs of 1 min 7 s (b 1 min 1 s, c 3 s, d 2 s, a 1 s)\n"
        );
    }

    #[test]
    fn time_left_is_said_in_words() {
        assert_eq!(
            [0.2, 59.6, 125.0, 7300.0].map(duration),
            ["0 s", "1 min 0 s", "2 min 5 s", "2 h 1 min"]
        );
    }
}
