//! A result as one HTML page: load, verdict, times and plots. No network, no script, light and dark, readable on a
//! phone.

use super::gate::Decision;
use super::plot::{Plot, Scale};
use super::report::{Report, row_length};
use ::load::record::Second;
use ::load::times::{Summary, Times};
use chart::escaped;
use std::fmt::Write;
use units::Bytes;

/// Length in seconds of the shortest row whose rate is shown.
const ROW_MIN: f64 = 0.1;
const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b2430;--soft:#5b6776;--paper:#fff;--panel:#f4f6f9;--rule:#dde3ea;--a:#0b5fb0;--b:#c2410c;--c:#0f7a53;--good:#1a7f4b;--bad:#b42318}\
@media(prefers-color-scheme:dark){:root{--ink:#e6ebf1;--soft:#9aa7b6;--paper:#12171e;--panel:#1a212b;--rule:#2c3644;--a:#6cb0f5;--b:#fb923c;--c:#4ccb8b;--good:#4ccb8b;--bad:#ff8a7a}}\
*{box-sizing:border-box}body{margin:0 auto;max-width:64rem;padding:1.5rem 1rem 4rem;background:var(--paper);color:var(--ink);font:1rem/1.5 system-ui,sans-serif}\
h1{font-size:1.5rem;margin:0 0 .25rem}h2{font-size:1.15rem;margin:2.5rem 0 .5rem}p{margin:.25rem 0 .75rem}.soft{color:var(--soft)}\
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.9rem}th,td{text-align:right;padding:.35rem 0 .35rem .9rem;border-bottom:1px solid var(--rule);white-space:nowrap;font-variant-numeric:tabular-nums}\
th{color:var(--soft);font-weight:600}th:first-child,td:first-child{text-align:left;padding-left:0}.facts th,.facts td{text-align:left;white-space:normal;vertical-align:top;overflow-wrap:anywhere}.facts th{width:9rem}\
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.5rem,1fr));gap:.75rem;margin:1rem 0}.tiles div{background:var(--panel);border-radius:.5rem;padding:.6rem .8rem}\
.tiles b{display:block;font-size:1.2rem}.tiles span{color:var(--soft);font-size:.85rem}.verdict{border-left:.3rem solid var(--good);background:var(--panel);padding:.6rem .9rem;border-radius:.3rem}\
.verdict.bad{border-color:var(--bad)}.verdict ul{margin:.25rem 0 0;padding-left:1.2rem}.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:1rem;margin-top:.75rem}\
@media(max-width:40rem){.stack tr:first-child{display:none}.stack tr{display:grid;grid-template-columns:repeat(4,minmax(0,1fr));gap:.1rem .5rem;padding:.4rem 0;border-bottom:1px solid var(--rule)}\
.stack td{border:0;padding:0;text-align:left;white-space:normal}.stack td:first-child{grid-column:1/-1;font-weight:600}.stack td::before{content:attr(data-of);display:block;color:var(--soft);font-size:.75rem}.stack td[colspan]{grid-column:2/-1}}\
figure{margin:0;background:var(--panel);border-radius:.6rem;padding:.75rem}figcaption{font-size:.85rem;color:var(--soft)}figcaption span{display:inline-block}svg{width:100%;height:auto;display:block}\
.grid{stroke:var(--rule)}.mark{fill:var(--soft);font:11px system-ui,sans-serif}.title{fill:var(--ink);font:600 13px system-ui,sans-serif}.line{fill:none;stroke-width:1.8;stroke-linejoin:round}.under{stroke-width:5;stroke-opacity:.4}\
.a{stroke:var(--a)}.b{stroke:var(--b)}.c{stroke:var(--c)}i{display:inline-block;width:1.2rem;height:.2rem;vertical-align:middle;margin:0 .3rem 0 .8rem}i.a{background:var(--a)}i.b{background:var(--b)}i.c{background:var(--c)}";

/// The page.
pub(super) fn page(report: &Report) -> String {
    let run = &report.run;
    let title = format!("Load on {}: {}, {}", escaped(&run.peer), run.model, run.mode);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<style>{STYLE}</style>\n<h1>{title}</h1>\n{}",
        verdict(report)
    );
    html += &requirements(report);
    tiles(&mut html, report);
    plots(&mut html, report);
    times(&mut html, report);
    steps(&mut html, report);
    counts(&mut html, report);
    facts(&mut html, report);
    html
}

fn verdict(report: &Report) -> String {
    let warnings = report.verdict.warnings.iter();
    let warnings: String = warnings
        .map(|warning| format!("<p class=\"verdict bad\">{}</p>\n", prose(warning)))
        .collect();
    if report.verdict.valid {
        return format!("<p class=\"verdict\">This run is valid.</p>\n{warnings}");
    }
    let reasons = report.verdict.reasons.iter();
    let reasons: String = reasons.map(|reason| format!("<li>{}", prose(reason))).collect();
    format!("<div class=\"verdict bad\">This run is invalid:<ul>{reasons}</ul></div>\n{warnings}")
}

/// Each requirement with its outcome.
fn requirements(report: &Report) -> String {
    let each = report.requirements.iter();
    let each = each.map(|one| {
        let bad = if one.outcome == Decision::Met { "" } else { " bad" };
        let (requirement, told) = (prose(&one.requirement), prose(&one.told));
        format!(
            "<p class=\"verdict{bad}\">{requirement}: {} ({told})</p>\n",
            one.outcome.word()
        )
    });
    each.collect()
}

fn tiles(html: &mut String, report: &Report) {
    *html += "<div class=\"tiles\">";
    for (value, what) in [
        (format!("{:.1}", report.files_per_s), "files per second"),
        (format!("{:.1}", report.objects_per_s), "objects begun per second"),
        (
            Bytes(report.content_bytes_per_s as u64).to_string(),
            "content per second",
        ),
        (in_ms(report.response_ms.p50), "median response"),
        (in_ms(report.response_ms.p99), "p99 response"),
        (report.errors.values().sum::<u64>().to_string(), "errors"),
        (format!("{:.1} s", report.duration_s), "measured"),
    ]
    .into_iter()
    .chain(
        report
            .corrected_ms
            .iter()
            .map(|times| (in_ms(times.p99), "p99 corrected")),
    ) {
        let _ = write!(html, "<div><b>{value}</b><span>{what}</span></div>");
    }
    *html += "</div>\n";
}

fn plots(html: &mut String, report: &Report) {
    let record = &report.run.record;
    let seconds = report.seconds();
    let series = |of: &dyn Fn(&Second) -> Option<f64>| -> Vec<(f64, f64)> {
        let each = seconds.iter().enumerate();
        each.filter_map(|(number, second)| Some((number as f64, of(second)?)))
            .collect()
    };
    let quantile = |share| {
        series(&move |second| {
            let time = second.response.quantile_with(share, second.failed)?;
            Some(time.as_secs_f64() * 1e3)
        })
    };
    let lost = report.response_ms.failed;
    let mut nine_lines = vec![
        ("a", nines(&record.response, lost)),
        ("b", nines(&record.service, lost)),
    ];
    if let Some((times, lost)) = report.run.corrected() {
        nine_lines.push(("c", nines(&times, lost.count)));
    }
    let plots = [
        (
            Plot {
                title: "Files and objects by second",
                x: ("second", Scale::Linear),
                y: Scale::Linear,
                lines: vec![
                    ("a", rates(seconds, report.duration_s, |second| second.files)),
                    ("b", rates(seconds, report.duration_s, |second| second.begun)),
                ],
            },
            &["files completed", "objects begun"][..],
        ),
        (
            Plot {
                title: "Response time by second, ms",
                x: ("second", Scale::Linear),
                y: Scale::Logarithmic,
                // Draw the longest first: with few files per second it equals the p99, which must stay visible on top.
                lines: vec![
                    ("c under", quantile(1.0)),
                    ("b", quantile(0.99)),
                    ("a", quantile(0.5)),
                ],
            },
            &["median", "p99", "longest"],
        ),
        (
            Plot {
                title: "Times by share of files, ms",
                x: ("percent not above", Scale::Nines),
                y: Scale::Logarithmic,
                lines: nine_lines,
            },
            if report.corrected_ms.is_some() {
                &[
                    "response, from the intended start",
                    "service, from the actual start",
                    "response, corrected for requests not sent",
                ][..]
            } else {
                &[
                    "response, from the intended start",
                    "service, from the actual start",
                ]
            },
        ),
        (
            Plot {
                title: "Object time by object size, ms",
                x: ("bytes of the object (decile)", Scale::Logarithmic),
                y: Scale::Logarithmic,
                lines: vec![
                    ("a", deciles(report, |times| times.p50)),
                    ("b", deciles(report, |times| times.p99)),
                ],
            },
            &["median", "p99"],
        ),
    ];
    *html += "<div class=\"plots\">";
    for (plot, key) in plots {
        let svg = plot.draw();
        if svg.is_empty() {
            continue;
        }
        let words = legend(&plot, key);
        let _ = write!(html, "<figure>{svg}<figcaption>{words}</figcaption></figure>");
    }
    *html += "</div>\n";
}

/// Rates by second. The last row is divided by its own length, unless that is too short for a rate.
fn rates(seconds: &[Second], duration_s: f64, of: impl Fn(&Second) -> u64) -> Vec<(f64, f64)> {
    let each = seconds.iter().enumerate();
    each.filter_map(|(number, second)| {
        let length = row_length(duration_s, number);
        (number == 0 || length >= ROW_MIN).then(|| (number as f64, of(second) as f64 / length.max(1e-9)))
    })
    .collect()
}

/// The names of a plot's lines `a`, `b` and `c`. A line without points has none: where each second has a failed request, no second has a
/// longest time that is known.
fn legend(plot: &Plot<'_>, key: &[&str]) -> String {
    let is_drawn = |class: &str| {
        let mut lines = plot.lines.iter();
        lines.any(|(name, points)| name.split(' ').next() == Some(class) && !points.is_empty())
    };
    let words = ["a", "b", "c"].iter().zip(key);
    words
        .filter(|(class, _)| is_drawn(class))
        .map(|(class, word)| format!("<span><i class=\"{class}\"></i>{word}</span> "))
        .collect()
}

/// Quantiles at evenly spaced nines, as far as the number of values distinguishes them.
fn nines(times: &Times, lost: u64) -> Vec<(f64, f64)> {
    if times.count() == 0 {
        return Vec::new();
    }
    let deepest = ((times.count() + lost) as f64).log10().max(1.0);
    (0..=100)
        .map(|step| deepest * f64::from(step) / 100.0)
        .filter_map(|nines| {
            let share = 1.0 - 10f64.powf(-nines);
            let time = times.quantile_with(share, lost)?;
            Some((10f64.powf(nines), time.as_secs_f64() * 1e3))
        })
        .collect()
}

fn deciles(report: &Report, of: impl Fn(&Summary) -> Option<f64>) -> Vec<(f64, f64)> {
    let each = report.deciles.iter();
    let known = each.filter(|decile| decile.object_ms.count > 0);
    known
        .filter_map(|decile| Some((decile.bytes_max as f64, of(&decile.object_ms)?)))
        .collect()
}

fn times(html: &mut String, report: &Report) {
    let names: String = COLUMNS.iter().map(|name| format!("<th>{name}")).collect();
    let head = format!("<tr><th><th>count{names}</tr>\n");
    let _ = write!(
        html,
        "<h2>Times, ms</h2>\n<p class=\"soft\">Response time counts from the intended start of a file, service time from the actual start. \
         Lag is how late this client acted on timers of users and arrivals; tick is the lateness of a 10 ms timer in each thread.</p>\n<div class=\"wide\"><table class=\"stack\">{head}"
    );
    for (name, times) in report.times() {
        row(html, name, times);
    }
    *html += "</table></div>\n";
    for note in [report.lost_note(), report.loop_note()].into_iter().flatten() {
        let _ = writeln!(html, "<p class=\"soft\">{}</p>", prose(&note));
    }
    if !report.deciles.is_empty() {
        let _ = write!(
            html,
            "<h2>Objects by size, ms</h2>\n<p class=\"soft\">Deciles of the requested objects, each up to the size given.</p>\n<div class=\"wide\"><table class=\"stack\">{head}"
        );
        for (decile, times) in report.by_size() {
            let name = Bytes(decile.bytes_max).to_string();
            match times {
                Ok(times) => row(html, &name, times),
                Err(why) => {
                    let _ = writeln!(
                        html,
                        "<tr><td>{name}<td data-of=\"count\">0<td colspan=\"6\">{why}</tr>"
                    );
                }
            }
        }
        *html += "</table></div>\n";
    }
}

/// The steps of scenarios; nothing without any.
fn steps(html: &mut String, report: &Report) {
    if report.steps.is_empty() {
        return;
    }
    let names: String = COLUMNS.iter().map(|name| format!("<th>{name}")).collect();
    let _ = write!(
        html,
        "<h2>Steps, ms</h2>\n<p class=\"soft\">Response times of each step of the scenarios. A request that failed is \
         slower than all others in quantiles, and lasted at least the timeout in the mean.</p>\n<div class=\"wide\"><table class=\"stack\"><tr><th><th>count{names}</tr>\n"
    );
    let mut lost = String::new();
    for step in &report.steps {
        let name = escaped(&format!("{}: {}", step.name.scenario, step.name.name));
        row(html, &name, &step.response_ms);
        if !step.lost().is_empty() {
            let _ = write!(lost, "<li>{name}: {}", escaped(&step.lost()));
        }
    }
    *html += "</table></div>\n";
    if !lost.is_empty() {
        let _ = writeln!(html, "<p>Not answered:</p><ul>{lost}</ul>");
    }
    let interrupted = report.run.record.interrupted;
    if interrupted > 0 {
        let _ = writeln!(
            html,
            "<p class=\"soft\">{interrupted} scenarios ended with the run, in the think time behind a step.</p>"
        );
    }
}

/// Columns of the tables of times, after the count.
const COLUMNS: [&str; 6] = ["mean", "p50", "p90", "p99", "p99.9", "max"];

fn row(html: &mut String, name: &str, times: &Summary) {
    let _ = write!(html, "<tr><td>{name}<td data-of=\"count\">{}", times.count);
    let all = [
        Some(times.mean),
        times.p50,
        times.p90,
        times.p99,
        times.p999,
        times.max,
    ];
    // Nothing happened: steps that were skipped.
    let values = all.map(|value| value.filter(|_| times.count > 0 || times.mean > 0.0));
    // On a narrow screen each value is below its name, so that all stay visible.
    for (column, value) in COLUMNS.iter().zip(values) {
        let value = value.map_or_else(|| "-".to_owned(), number);
        let _ = write!(html, "<td data-of=\"{column}\">{value}");
    }
    *html += "</tr>\n";
}

fn counts(html: &mut String, report: &Report) {
    let table6 = &report.table6;
    let record = &report.run.record;
    *html += "<h2>Connections and errors</h2>\n<div class=\"wide\"><table class=\"facts\">";
    let mut rows = vec![
        ("connects", table6.total_connects.to_string()),
        (
            "established",
            format!("{} on average", number(table6.average_established)),
        ),
        (
            "duration",
            format!("{} ms on average", number(table6.average_duration_s * 1e3)),
        ),
        ("connect-seconds", number(table6.connect_seconds)),
        ("closed by server", record.closed_by_server.to_string()),
        ("requests repeated", record.resent.to_string()),
        ("files failed", report.files_failed.to_string()),
    ];
    let errors: Vec<String> = report
        .errors
        .iter()
        .map(|(trouble, count)| format!("{count} {}", trouble.name()))
        .collect();
    rows.push((
        "errors",
        if errors.is_empty() {
            "none".to_owned()
        } else {
            errors.join(", ")
        },
    ));
    if report.has_other_answers() {
        rows.push(("responses", report.answers()));
    }
    if let Some(metrics) = &report.webstone {
        rows.push((
            "WebStone",
            format!(
                "{} connections/s, {} Mbit/s, Little's load factor {}, {} ms, error level {} %",
                number(metrics.connection_rate),
                number(metrics.server_throughput),
                number(metrics.littles_load_factor),
                number(metrics.average_response_time),
                number(metrics.error_level)
            ),
        ));
    }
    for (what, value) in rows {
        let _ = writeln!(html, "<tr><th>{what}<td>{value}</tr>");
    }
    *html += "</table></div>\n";
}

fn facts(html: &mut String, report: &Report) {
    let run = &report.run;
    let ranks: Vec<String> = report.ranks.iter().map(u32::to_string).collect();
    let unknown = || "unknown".to_owned();
    let cpu: Vec<String> = run
        .cpu
        .iter()
        .map(|share| format!("{:.0} %", share * 100.0))
        .collect();
    *html += "<h2>Provenance</h2>\n<div class=\"wide\"><table class=\"facts\">";
    let mut asked = vec![format!("{} s", number(run.asked_s))];
    if run.warmup_s > 0.0 {
        let left_out = &report.left_out;
        asked.push(format!(
            "after a warm-up of {} s, excluded with its {} objects and {} files",
            number(run.warmup_s),
            left_out.objects_begun,
            left_out.files
        ));
    }
    if let (Some(rate), Some(drawn)) = (run.rate_asked, run.arrivals_drawn) {
        asked.push(format!("{} objects/s, {drawn} arrivals drawn", number(rate)));
    }
    if let (Some(begun), Some(last)) = (report.users_begun, report.last_user_begun_s) {
        asked.push(format!("{begun} users began, the last after {} s", number(last)));
    }
    asked.push(format!(
        "{} files completed in that time, {} later",
        report.files_in_time,
        report.files_late()
    ));
    for (what, value) in [
        ("load", asked.join("; ")),
        ("command", run.command.join(" ")),
        ("program", run.program.clone()),
        ("kernel", run.kernel.clone().unwrap_or_else(unknown)),
        ("processor", run.processor.clone().unwrap_or_else(unknown)),
        ("clock", run.clock.clone()),
        ("seed", run.seed.to_string()),
        ("plan", run.plan.clone()),
        ("ranks", format!("{} of {}", ranks.join(", "), run.size)),
        ("client threads", cpu.join(", ")),
    ] {
        let _ = writeln!(html, "<tr><th>{what}<td>{}</tr>", escaped(&value));
    }
    for missing in &report.missing {
        let share = &missing.share;
        let _ = writeln!(
            html,
            "<tr><th>missing<td>rank {}: {} users, {} objects, {} files</tr>",
            missing.rank,
            share.users,
            share.objects.map_or_else(unknown, |objects| objects.to_string()),
            share.files.map_or_else(unknown, |files| files.to_string())
        );
    }
    *html += "</table></div>\n";
}

/// A time, or `unknown`.
fn in_ms(time: Option<f64>) -> String {
    time.map_or_else(|| "unknown".to_owned(), |time| format!("{} ms", number(time)))
}

/// Three significant digits.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size == 0.0 || size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// A sentence as HTML; text between two backticks becomes code.
fn prose(text: &str) -> String {
    let pieces: Vec<&str> = text.split('`').collect();
    // An unpaired backtick stays as it is.
    let pairs = (pieces.len() - 1) / 2;
    let mut html = String::new();
    for (number, piece) in pieces.iter().enumerate() {
        html += match number {
            0 => "",
            _ if number > 2 * pairs => "`",
            _ if number % 2 == 1 => "<code>",
            _ => "</code>",
        };
        html += &escaped(piece);
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_a_part_of_a_second_is_that_of_its_length() {
        let row = |files: &u64| Second {
            files: *files,
            ..Second::default()
        };
        for (files, duration_s, wanted) in [
            (&[100, 100][..], 2.0, &[100.0, 100.0][..]),
            (&[100, 100, 50], 2.5, &[100.0, 100.0, 100.0]),
            (&[25], 0.25, &[100.0]),
            // A run that was stopped just after a second.
            (&[100, 100, 1], 2.001, &[100.0, 100.0]),
        ] {
            let rows: Vec<Second> = files.iter().map(row).collect();
            let found = rates(&rows, duration_s, |second| second.files);
            let found: Vec<f64> = found.into_iter().map(|(_, rate)| rate).collect();
            assert_eq!(found, wanted, "{duration_s}");
        }
    }

    #[test]
    fn a_line_without_points_is_in_no_legend() {
        let legend = |longest: Vec<(f64, f64)>| {
            let some = vec![(0.0, 1.0)];
            let plot = Plot {
                title: "t",
                x: ("second", Scale::Linear),
                y: Scale::Logarithmic,
                lines: vec![("c under", longest), ("b", some.clone()), ("a", some)],
            };
            super::legend(&plot, &["median", "p99", "longest"])
        };
        let whole = legend(vec![(0.0, 2.0)]);
        assert!(
            whole.contains("median") && whole.contains("<i class=\"c\"></i>longest"),
            "{whole}"
        );
        let failing = legend(Vec::new());
        assert!(
            failing.contains("p99") && !failing.contains("longest"),
            "{failing}"
        );
    }

    #[test]
    fn sentences_have_no_backticks() {
        for (text, html) in [
            ("plain & simple", "plain &amp; simple"),
            ("`-` marks <it>", "<code>-</code> marks &lt;it&gt;"),
            (
                "see `ulimit -n` and `<a>`",
                "see <code>ulimit -n</code> and <code>&lt;a&gt;</code>",
            ),
            ("an odd ` one", "an odd ` one"),
            ("`a` and ` one", "<code>a</code> and ` one"),
        ] {
            assert_eq!(prose(text), html);
        }
    }
}
