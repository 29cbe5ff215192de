//! `weir site`: writes a site and its manifest into a folder, and reports how well its streams fit.
//!
//! The crate `load` decides content and length of the files. This module handles folders, files, progress and
//! wording.

mod plot;
mod report;
mod write;

use crate::cli::site::{Command, MicroscapeFlags, SurgeFlags, Target, WebstoneFlags};
use crate::failure::Failure;
use crate::output;
use crate::voice::Voice;
use ::load::manifest::{Kind, Manifest};
use ::load::parameters::{Choice, Provenance, Set};
use ::load::published::{self, Figure, REQUESTED_FILES_PER_OBJECT, REQUESTED_MEAN_BYTES};
use ::load::site::Site;
use ::load::streams::{self, LEVEL, Stream, Verdict};
use ::load::surge::Surge;
use serde_json::{Value, json};
use std::path::Path;

/// Runs the command to its end.
///
/// # Errors
/// `Usage` for impossible parameters or files that would be overwritten, `System` if the system refuses something,
/// `Failed` if a stream does not fit.
pub(crate) fn run(command: &Command, voice: &Voice) -> Result<(), Failure> {
    match command {
        Command::Surge(flags) => surge(flags, voice),
        Command::Webstone(flags) => webstone(flags, voice),
        Command::Microscape(flags) => microscape(flags, voice),
    }
}

fn webstone(flags: &WebstoneFlags, voice: &Voice) -> Result<(), Failure> {
    let (list, seed) = (flags.list(), flags.seed());
    report::possible(flags.report.as_deref())?;
    let depth = flags.depth;
    let manifest = written(&Site::Webstone { list, seed, depth }, &flags.target, voice)?;
    let Some(path) = &flags.report else {
        return Ok(());
    };
    let (figures, streams) = (
        published::webstone(list, &manifest),
        streams::webstone(list, seed),
    );
    report::write(path, &manifest, &figures, &streams, true)?;
    tell(&figures, &streams, true, path, voice)?;
    judged(&figures, &streams, true)
}

fn microscape(flags: &MicroscapeFlags, voice: &Voice) -> Result<(), Failure> {
    let (tags, seed) = (flags.tags(), flags.seed());
    let site = Site::Microscape { tags, seed };
    report::possible(flags.report.as_deref())?;
    let manifest = written(&site, &flags.target, voice)?;
    let Some(path) = &flags.report else {
        return Ok(());
    };
    let mut page = Vec::new();
    let made = site.contents().write(0, &mut page);
    made.map_err(|error| Failure::System(format!("cannot make the page again: {error}")))?;
    let figures = published::microscape(tags, &manifest, repro::page::deflated(&page).len() as u64);
    report::write(path, &manifest, &figures, &[], true)?;
    tell(&figures, &[], true, path, voice)?;
    judged(&figures, &[], true)
}

fn surge(flags: &SurgeFlags, voice: &Voice) -> Result<(), Failure> {
    // Check folder and report first, because generating takes minutes.
    write::usable(&flags.target)?;
    report::possible(flags.report.as_deref())?;
    let parameters = flags.workload.parameters()?;
    let surge =
        Surge::new(parameters, flags.workload.seed()).map_err(|error| Failure::Usage(error.to_string()))?;
    let site = Site::Surge(Box::new(surge.clone()));
    let manifest = written(&site, &flags.target, voice)?;
    let Some(path) = &flags.report else {
        return Ok(());
    };
    let streams = streams::all(&surge);
    let given = |choice: &Choice| choice.provenance == Provenance::Given;
    let published = !manifest.choices.iter().any(given);
    report::write(path, &manifest, &[], &streams, published)?;
    tell(&[], &streams, published, path, voice)?;
    judged(&[], &streams, published)
}

/// Writes a site and prints its totals.
fn written(site: &Site, target: &Target, voice: &Voice) -> Result<Manifest, Failure> {
    write::usable(target)?;
    let manifest = write::site(site, target, voice)?;
    let totals = &manifest.totals;
    let dir = target.dir.display();
    if voice.json {
        let line = json!({
            "event": "written", "dir": target.dir, "kind": manifest.kind, "set": manifest.set,
            "seed": manifest.seed, "totals": totals,
        });
        output::line(&line)?;
    } else if voice.reports() {
        output::line(format_args!(
            "{} files, {}, in {dir}: mean {}, median {}; {} objects of {}.{:02} files; one pass asks for {} objects",
            totals.files,
            units::Bytes(totals.bytes),
            units::Bytes(totals.mean_bytes),
            units::Bytes(totals.median_bytes),
            totals.objects,
            totals.files_per_object_hundredths / 100,
            totals.files_per_object_hundredths % 100,
            totals.sequence,
        ))?;
        if manifest.kind == Kind::Surge && manifest.set == Set::Table8.name() {
            output::line(requested(&manifest))?;
        }
    }
    Ok(manifest)
}

/// Files per object and bytes per GET of one pass, beside those of the document's own runs.
fn requested(manifest: &Manifest) -> String {
    let (files, bytes) = (REQUESTED_FILES_PER_OBJECT, REQUESTED_MEAN_BYTES);
    let bytes_of = |bytes: f64| units::Bytes(bytes.round() as u64);
    format!(
        "requested: {:.2} files an object, {} a GET; document 000's runs: {} to {} and {} to {} (docs/site.md, \"Requests\")",
        manifest.requested_files_per_object(),
        bytes_of(manifest.requested_mean_bytes()),
        files.0,
        files.1,
        bytes_of(bytes.0),
        bytes_of(bytes.1),
    )
}

/// Outcome of a stream's test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It fits its model, or is within its tolerance.
    Holds,
    /// It does not fit, which decides.
    Fails,
    /// It is outside the tolerance, which applies to the published parameters only, and these are others.
    Apart,
}

impl Outcome {
    /// Tolerances of streams made by an algorithm apply to the published parameters. With others they are reported and
    /// do not decide.
    fn of(stream: &Stream, published: bool) -> Outcome {
        match stream.holds(LEVEL) {
            true => Outcome::Holds,
            false if published || stream.drawn() => Outcome::Fails,
            false => Outcome::Apart,
        }
    }
}

/// Prints the outcome of each figure and stream.
fn tell(
    figures: &[Figure],
    streams: &[Stream],
    published: bool,
    path: &Path,
    voice: &Voice,
) -> Result<(), Failure> {
    let word = |outcome| match outcome {
        Outcome::Holds => "holds",
        Outcome::Fails => "FAILS",
        Outcome::Apart => "apart",
    };
    for figure in figures {
        if voice.json {
            let mut line = serde_json::to_value(figure).unwrap_or(Value::Null);
            if let Some(fields) = line.as_object_mut() {
                fields.insert("event".to_owned(), json!("figure"));
            }
            output::line(&line)?;
        } else if voice.reports() {
            output::line(format_args!(
                "  {}  {:<38} {} (published {})",
                word(if figure.holds {
                    Outcome::Holds
                } else {
                    Outcome::Fails
                }),
                figure.name,
                figure.made,
                figure.published
            ))?;
        }
    }
    for stream in streams {
        if voice.json {
            let mut line = serde_json::to_value(stream).unwrap_or(Value::Null);
            if let Some(fields) = line.as_object_mut() {
                fields.remove("points");
                fields.insert("event".to_owned(), json!("stream"));
                fields.insert("holds".to_owned(), json!(stream.holds(LEVEL)));
                fields.insert("decides".to_owned(), json!(published || stream.drawn()));
            }
            output::line(&line)?;
        } else if voice.reports() {
            let word = word(Outcome::of(stream, published));
            output::line(format_args!(
                "  {word}  {:<38} {}",
                stream.name,
                sentence(&stream.verdict)
            ))?;
        }
    }
    let is_apart = |stream: &Stream| Outcome::of(stream, published) == Outcome::Apart;
    if !voice.json && voice.reports() && streams.iter().any(is_apart) {
        output::line(
            "  apart: beyond the tolerance for the published parameters; with other parameters, this does not decide",
        )?;
    }
    if !voice.json && voice.reports() {
        output::line(format_args!("report: {}", path.display()))?;
    }
    Ok(())
}

/// A verdict as a sentence.
fn sentence(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Drawn { fit, again } => {
            let shown = |fit: &::load::fit::Fit| match fit.degrees_of_freedom {
                None => format!(
                    "KS D = {:.5}, p = {:.3} over {} draws",
                    fit.statistic, fit.p_value, fit.sample
                ),
                Some(freedom) => format!(
                    "chi-square = {:.1} ({freedom} degrees of freedom), p = {:.3} over {} draws",
                    fit.statistic, fit.p_value, fit.sample
                ),
            };
            match again {
                None => shown(fit),
                Some(again) => format!("{}; again: {}", shown(fit), shown(again)),
            }
        }
        Verdict::Made {
            distance, tolerance, ..
        } => format!("distance {distance:.4}, at most {tolerance}"),
    }
}

/// `Failed` unless every figure is as published and every deciding stream fits or is within its tolerance.
fn judged(figures: &[Figure], streams: &[Stream], published: bool) -> Result<(), Failure> {
    if let Some(figure) = figures.iter().find(|figure| !figure.holds) {
        return Err(Failure::Failed(format!(
            "{} is {}, published as {}; the site is written, but differs from the document's",
            figure.name, figure.made, figure.published
        )));
    }
    let failed: Vec<String> = streams
        .iter()
        .filter(|stream| Outcome::of(stream, published) == Outcome::Fails)
        .map(|stream| format!("{} ({})", stream.name, sentence(&stream.verdict)))
        .collect();
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::Failed(format!(
        "does not fit its model at p > {LEVEL}, or not within its tolerance: {}; the site is written, but do not use it: its \
         generator is faulty",
        failed.join("; ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tolerance_that_is_not_kept_fails_the_command() {
        let check = |distance: f64, published: bool, fails: bool| {
            let stream = Stream {
                name: "popularity",
                model: String::new(),
                unit: ::load::streams::Unit::Rank,
                values: 1,
                mean: 1.0,
                median: 1.0,
                largest: 1.0,
                verdict: Verdict::Made {
                    distance,
                    tolerance: 0.1,
                    because: "",
                },
                points: Vec::new(),
            };
            let apart = Outcome::of(&stream, published) == Outcome::Apart;
            assert_eq!(apart, distance > 0.1 && !published);
            let outcome = judged(&[], &[stream], published);
            assert_eq!(matches!(outcome, Err(Failure::Failed(_))), fails, "{outcome:?}");
        };
        check(0.09, true, false);
        check(0.11, true, true);
        check(0.11, false, false);
    }
}
