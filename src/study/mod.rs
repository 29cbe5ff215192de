//! `weir study`: reads plans, has their arms run by `lab`, judges, writes the report, says how it went. Knows no arm and
//! no claim.

use crate::cli::study::Flags;
use crate::cli::{Failure, Voice};
use ::lab::ledger::{Study, Verdict, counts, ledger};
use ::lab::plan::{EMBEDDED, Plan, Size};
use ::lab::record::STEAL_MAX_PCT;
use ::lab::report::{self, Material};
use ::lab::run::{self, Progress, Settings, Tally};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Runs the command to its end.
///
/// # Errors
/// `Usage` for a plan that cannot be read, `Failed` if a run failed or stayed invalid, `System` if something cannot be
/// written or started.
pub(crate) fn run(flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    voice.listen();
    let plans = plans(flags)?;
    if flags.show_plan {
        let all: Vec<&str> = plans.iter().map(|(_, text, _)| text.as_str()).collect();
        return print(&all.join("\n"));
    }
    let weir = runtime::itself::path()
        .map_err(|error| Failure::System(format!("cannot find this program: {error}")))?;
    let settings = Settings {
        weir,
        program: concat!("weir ", env!("CARGO_PKG_VERSION")).to_owned(),
        out: flags.out.clone(),
        size: match (flags.full, flags.paper) {
            (_, true) => Size::Paper,
            (true, _) => Size::Full,
            _ => Size::Quick,
        },
        steal_max_pct: STEAL_MAX_PCT,
        only: flags.only.clone(),
    };
    let mut tally = Tally::default();
    let mut studies = Vec::new();
    for (name, text, plan) in plans {
        if !flags.report_only {
            let of_one = perform(&name, &text, &plan, &settings, voice)?;
            tally.done += of_one.done;
            tally.kept += of_one.kept;
            tally.not_run += of_one.not_run;
            tally.failed += of_one.failed;
            tally.invalid += of_one.invalid;
        }
        let records = run::results(&settings.out, &name, &plan).map_err(Failure::System)?;
        studies.push(Study::new(&name, &text, plan, records).map_err(Failure::Usage)?);
    }
    let ledger = ledger(&studies);
    let date = httpdate::fmt_http_date(moment());
    let material = Material {
        studies: &studies,
        ledger: &ledger,
        program: &settings.program,
        date: &date,
    };
    write(&settings.out, &material)?;
    summary(&material, &tally, &settings.out, voice)?;
    match (tally.failed, tally.invalid) {
        (0, 0) => Ok(()),
        (failed, invalid) => Err(Failure::Failed(format!(
            "{failed} runs failed and {invalid} stayed invalid; the report says why"
        ))),
    }
}

/// The moment, for the head of the report.
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
    let wanted = flags.name.map_or(&[][..], |name| name.studies());
    EMBEDDED
        .iter()
        .filter(|(name, _)| wanted.contains(name))
        .map(|(name, text)| {
            let plan = parse(&format!("experiments/{name}.toml"), text)?;
            Ok(((*name).to_owned(), (*text).to_owned(), plan))
        })
        .collect()
}

fn parse(file: &str, text: &str) -> Result<Plan, Failure> {
    Plan::parse(file, text).map_err(|error| Failure::Usage(error.to_string()))
}

/// Runs the arms of one plan, with a bar on a terminal.
fn perform(
    name: &str,
    text: &str,
    plan: &Plan,
    settings: &Settings,
    voice: &Voice,
) -> Result<Tally, Failure> {
    let target = if voice.reports() && !voice.json {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(None, target);
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    let mut tell = |progress: Progress<'_>| {
        bar.set_length(progress.all as u64);
        bar.set_position(progress.done as u64);
        bar.set_message(format!(
            "{name}: {}, {} left",
            progress.run,
            duration(progress.left_s)
        ));
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
    for (name, text) in [
        ("report.html", report::page(material)),
        ("report.md", report::text(material)),
        ("report.json", json),
    ] {
        run::keep(&out.join(name), &text).map_err(Failure::System)?;
    }
    for (name, svg) in report::pictures(material) {
        let path = out.join("pictures").join(name + ".svg");
        run::keep(&path, &svg).map_err(Failure::System)?;
    }
    Ok(())
}

fn summary(material: &Material<'_>, tally: &Tally, out: &Path, voice: &Voice) -> Result<(), Failure> {
    if voice.json {
        let verdicts: serde_json::Map<String, serde_json::Value> = counts(material.ledger)
            .into_iter()
            .map(|(verdict, count)| (verdict.name().to_owned(), count.into()))
            .collect();
        let line = serde_json::json!({
            "event": "study", "done": tally.done, "kept": tally.kept, "not_run": tally.not_run,
            "failed": tally.failed, "invalid": tally.invalid, "verdicts": verdicts,
            "report": out.join("report.html"),
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
    let of_all: Vec<String> = counts(material.ledger)
        .into_iter()
        .filter(|(verdict, count)| *count > 0 || *verdict == Verdict::Reproduced)
        .map(|(verdict, count)| format!("{count} {}", verdict.name()))
        .collect();
    print(&format!(
        "{}\n{} of {} claims\n{} runs ({} of them from before), {} not run, {} failed, {} invalid\n{}\n",
        judged.concat(),
        of_all.join(", "),
        material.ledger.len(),
        tally.done,
        tally.kept,
        tally.not_run,
        tally.failed,
        tally.invalid,
        out.join("report.html").display()
    ))
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
    use super::duration;

    #[test]
    fn time_left_is_said_in_words() {
        assert_eq!(
            [0.2, 59.6, 125.0, 7300.0].map(duration),
            ["0 s", "1 min 0 s", "2 min 5 s", "2 h 1 min"]
        );
    }
}
