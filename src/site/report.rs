//! The report of a site as one HTML file: its parameters and how well each stream fits, with plots. No network, light
//! and dark, readable on a phone.

use super::plot::{Curve, draw};
use super::write::{create, refused};
use super::{Outcome, sentence};
use crate::failure::Failure;
use ::load::manifest::{Kind, Manifest};
use ::load::parameters::Provenance;
use ::load::published::Figure;
use ::load::streams::{LEVEL, Stream, Unit, Verdict};
use chart::escaped;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b2430;--soft:#5b6776;--paper:#fff;--panel:#f4f6f9;--rule:#dde3ea;--model:#c2410c;--sample:#2563a8;--good:#1a7f4b;--bad:#b42318}\
@media(prefers-color-scheme:dark){:root{--ink:#e6ebf1;--soft:#9aa7b6;--paper:#12171e;--panel:#1a212b;--rule:#2c3644;--model:#fb923c;--sample:#6cb0f5;--good:#4ccb8b;--bad:#ff8a7a}}\
*{box-sizing:border-box}body{margin:0 auto;max-width:64rem;padding:1.5rem 1rem 4rem;background:var(--paper);color:var(--ink);font:1rem/1.5 system-ui,sans-serif}\
h1{font-size:1.5rem;margin:0 0 .25rem}h2{font-size:1.15rem;margin:2.5rem 0 .5rem}h3{font-size:1rem;margin:0}p{margin:.25rem 0 .75rem}.soft{color:var(--soft)}\
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.9rem}th,td{text-align:left;vertical-align:top;padding:.35rem .75rem .35rem 0;border-bottom:1px solid var(--rule)}\
th{color:var(--soft);font-weight:600}td.n{font-variant-numeric:tabular-nums;white-space:nowrap}code{font:.85em ui-monospace,monospace;overflow-wrap:anywhere}\
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.5rem,1fr));gap:.75rem;margin:1rem 0}.facts div{background:var(--panel);border-radius:.5rem;padding:.6rem .8rem}\
.facts b{display:block;font-size:1.2rem}.facts span{color:var(--soft);font-size:.85rem}\
@media(max-width:40rem){.stack tr:first-child{display:none}.stack tr{display:grid;grid-template-columns:repeat(4,minmax(0,1fr));gap:.1rem .5rem;padding:.4rem 0;border-bottom:1px solid var(--rule)}\
.stack td{border:0;padding:0;overflow-wrap:anywhere}.stack td:first-child{grid-column:1/-1;font-weight:600}.stack td.long{grid-column:1/-1}.stack td[data-of]::before{content:attr(data-of);display:block;color:var(--soft);font-size:.75rem;font-weight:400}}\
.stream{background:var(--panel);border-radius:.6rem;padding:1rem;margin:1rem 0}.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,20rem),1fr));gap:1rem;margin-top:.75rem}\
svg{width:100%;height:auto;display:block}.grid{stroke:var(--rule)}.mark{fill:var(--soft);font:11px system-ui,sans-serif}.title{fill:var(--ink);font:600 12px system-ui,sans-serif}\
.sample{fill:var(--sample);fill-opacity:.7}.model{fill:none;stroke:var(--model);stroke-width:1.8}.holds{color:var(--good);font-weight:600}.fails{color:var(--bad);font-weight:600}\
.key i{display:inline-block;width:.7rem;height:.7rem;border-radius:50%;margin:0 .3rem 0 .8rem;background:var(--sample)}.key i.line{height:.2rem;width:1.2rem;border-radius:0;vertical-align:middle;background:var(--model)}";

/// Checks that a requested report can be written. An existing file stays unchanged.
///
/// # Errors
/// `System`, naming the file.
pub(super) fn possible(path: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = path else {
        return Ok(());
    };
    let tried = match OpenOptions::new().append(true).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            create(path, false).and_then(|_| std::fs::remove_file(path))
        }
        tried => tried.map(drop),
    };
    tried.map_err(|error| refused("write the report", path, &error))
}

/// Writes the report and replaces an older one.
///
/// # Errors
/// `System`, naming the file.
pub(super) fn write(
    path: &Path,
    manifest: &Manifest,
    figures: &[Figure],
    streams: &[Stream],
    published: bool,
) -> Result<(), Failure> {
    let html = page(manifest, figures, streams, published);
    create(path, true)
        .and_then(|mut file| file.write_all(html.as_bytes()))
        .map_err(|error| refused("write the report", path, &error))
}

fn page(manifest: &Manifest, figures: &[Figure], streams: &[Stream], published: bool) -> String {
    let totals = &manifest.totals;
    let kind = match manifest.kind {
        Kind::Surge => "Surge",
        Kind::Webstone => "WebStone",
        Kind::Microscape => "Microscape",
    };
    let count = |wanted| {
        let of = |stream: &&Stream| Outcome::of(stream, published) == wanted;
        streams.iter().filter(of).count()
    };
    let (failing, apart) = (count(Outcome::Fails), count(Outcome::Apart));
    let failing = failing + figures.iter().filter(|figure| !figure.holds).count();
    let what = match (figures.is_empty(), streams.is_empty()) {
        (true, _) => "stream",
        (false, true) => "figure",
        (false, false) => "figure and stream",
    };
    let verdict = match failing {
        0 if apart > 0 => format!(
            "<span class=\"holds\">Every {what} that decides holds.</span> {apart} of {} are apart: they are farther from their models \
             than the published parameters allow, but the parameters differ from these.",
            streams.len()
        ),
        0 => format!("<span class=\"holds\">Every {what} holds.</span>"),
        n => format!(
            "<span class=\"fails\">{n} of {} do not hold.</span>",
            streams.len() + figures.len()
        ),
    };
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{kind} site, seed {seed}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<style>{STYLE}</style>\n\
         <h1>{kind} site, seed {seed}</h1>\n<p class=\"soft\">Parameters {set}, made by {by}. {verdict}</p>\n\
         <div class=\"facts\">",
        seed = manifest.seed.0,
        set = escaped(&manifest.set),
        by = escaped(&manifest.generator),
    );
    let per_object = totals.files_per_object_hundredths as f64 / 100.0;
    let facts = [
        (grouped(totals.files), "files"),
        (units::Bytes(totals.bytes).to_string(), "in all"),
        (units::Bytes(totals.mean_bytes).to_string(), "mean size"),
        (units::Bytes(totals.median_bytes).to_string(), "median size"),
        (grouped(totals.objects), "objects"),
        (format!("{per_object:.2}"), "files per object"),
        (grouped(totals.sequence), "objects in one pass"),
        (
            format!("{:.2}", manifest.requested_files_per_object()),
            "files per requested object",
        ),
        (
            units::Bytes(manifest.requested_mean_bytes().round() as u64).to_string(),
            "per GET",
        ),
    ];
    // Figures about objects apply to Surge only, not to a list of files or a single page.
    let shown = if manifest.kind == Kind::Surge {
        facts.len()
    } else {
        4
    };
    for (value, what) in facts.into_iter().take(shown) {
        html += &format!("<div><b>{value}</b><span>{what}</span></div>");
    }
    html += "</div>\n";
    if !figures.is_empty() {
        html += &compared(figures);
        html += &listed(manifest);
    }
    if !streams.is_empty() {
        html += &table(streams, published);
        html += "<h2>Plots</h2>\n<p class=\"key soft\"><i></i>sample<i class=\"line\"></i>model</p>\n";
    }
    for stream in streams.iter().filter(|stream| !stream.points.is_empty()) {
        html += &section(stream);
    }
    html += "<h2>Parameters</h2>\n<div class=\"wide\"><table class=\"stack\"><tr><th>name<th>value<th>from<th>why</tr>\n";
    for choice in &manifest.choices {
        html += &format!(
            "<tr><td><code>{}</code><td class=\"long\" data-of=\"value\"><code>{}</code><td class=\"long\" data-of=\"from\">{}\
             <td class=\"long\" data-of=\"why\">{}</tr>\n",
            escaped(&choice.name),
            escaped(&choice.value),
            provenance(choice.provenance),
            escaped(&choice.reason)
        );
    }
    html += "</table></div>\n";
    html
}

/// The table of published and made figures.
fn compared(figures: &[Figure]) -> String {
    let mut html = "<h2>Published and made</h2>\n<div class=\"wide\"><table class=\"stack\"><tr><th>figure<th>published<th>made<th>where<th></tr>\n"
        .to_owned();
    for figure in figures {
        let word = if figure.holds { "holds" } else { "fails" };
        html += &format!(
            "<tr><td>{}<td class=\"n\" data-of=\"published\">{}<td class=\"n\" data-of=\"made\">{}<td data-of=\"where\">{}\
             <td class=\"{word}\" data-of=\"verdict\">{word}</tr>\n",
            escaped(&figure.name),
            escaped(&figure.published),
            escaped(&figure.made),
            escaped(figure.source)
        );
    }
    html + "</table></div>\n"
}

/// The table of all files, for sites with few.
fn listed(manifest: &Manifest) -> String {
    let mut html = "<h2>Files</h2>\n<div class=\"wide\"><table class=\"stack\"><tr><th>file<th>type<th>bytes<th>request weight<th>length</tr>\n"
        .to_owned();
    for file in &manifest.files {
        html += &format!(
            "<tr><td><code>{}</code><td data-of=\"type\">{}<td class=\"n\" data-of=\"bytes\">{}<td class=\"n\" data-of=\"weight\">{}\
             <td class=\"long\" data-of=\"length\">{}</tr>\n",
            escaped(&file.path),
            escaped(&file.media_type),
            grouped(file.bytes),
            grouped(file.references),
            escaped(file.provenance.as_deref().unwrap_or("as in the list"))
        );
    }
    html + "</table></div>\n"
}

fn table(streams: &[Stream], published: bool) -> String {
    let mut html = format!(
        "<h2>Streams</h2>\n<p class=\"soft\">A stream drawn from its model must fit at p &gt; {LEVEL}; if it does not, it \
         is drawn once more. For a stream made by an algorithm, the table gives its distance and the tolerance.</p>\n\
         <div class=\"wide\"><table class=\"stack\"><tr><th>stream<th>values<th>mean<th>median<th>largest<th>fit<th></tr>\n"
    );
    for stream in streams {
        let (class, word) = match Outcome::of(stream, published) {
            Outcome::Holds => ("holds", "holds"),
            Outcome::Fails => ("fails", "fails"),
            Outcome::Apart => ("soft", "apart"),
        };
        html += &format!(
            "<tr><td>{}<td class=\"n\" data-of=\"values\">{}<td class=\"n\" data-of=\"mean\">{}<td class=\"n\" data-of=\"median\">{}\
             <td class=\"n\" data-of=\"largest\">{}<td class=\"long\" data-of=\"fit\">{}<td class=\"{class}\" data-of=\"verdict\">{word}</tr>\n",
            stream.name,
            grouped(stream.values),
            number(stream.mean),
            number(stream.median),
            number(stream.largest),
            sentence(&stream.verdict)
        );
    }
    html + "</table></div>\n"
}

fn section(stream: &Stream) -> String {
    let unit = match stream.unit {
        Unit::Bytes => "bytes",
        Unit::Seconds => "seconds",
        Unit::Count => "count",
        Unit::Rank => "rank",
    };
    let because = match &stream.verdict {
        Verdict::Made { because, .. } => format!(" ({because})"),
        Verdict::Drawn { .. } => String::new(),
    };
    format!(
        "<section class=\"stream\"><h3>{}</h3>\n<p class=\"soft\">model <code>{}</code><br>{}{}</p>\n\
         <div class=\"plots\">{}{}</div></section>\n",
        stream.name,
        escaped(&stream.model),
        sentence(&stream.verdict),
        escaped(&because),
        draw(&stream.points, Curve::Cumulative, unit),
        draw(&stream.points, Curve::Complementary, unit)
    )
}

fn provenance(provenance: Provenance) -> &'static str {
    match provenance {
        Provenance::Printed => "printed",
        Provenance::Recovered => "recovered",
        Provenance::ChosenHere => "chosen here",
        Provenance::RecalledUnverified => "recalled, unverified",
        Provenance::Given => "given",
    }
}

/// A number with thousands separators.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut shown = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

fn number(value: f64) -> String {
    if value >= 1000.0 {
        grouped(value.round() as u64)
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_numbers_are_grouped() {
        assert_eq!(escaped("a<b & \"c\""), "a&lt;b &amp; &quot;c&quot;");
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(grouped),
            ["0", "999", "1,000", "1,234,567"]
        );
    }
}
