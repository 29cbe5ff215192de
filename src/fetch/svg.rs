//! Fetches as a waterfall picture: one row per object, from its discovery to its last byte; above the rows the
//! critical path by cause. Several fetches, and archives of earlier ones, stand one above the other on one time scale.
//! Colors are classes with light and dark variants.

use super::Run;
use super::report::shortened;
use crate::archive::{Archive, Entry};
use client::explain::{Cause, explain};
use client::timeline::{Fate, Object};
use std::collections::HashMap;
use std::fmt::Write;
use units::{Duration, Instant};

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 250.0;
const RIGHT: f64 = 20.0;
const ROW: f64 = 17.0;
/// Height of the title and the legend.
const HEAD: f64 = 100.0;
/// Height above the rows of a waterfall: its label and the critical path.
const ABOVE: f64 = 45.0;
/// Height below the rows of a waterfall: its time marks.
const BELOW: f64 = 30.0;
/// Characters of a name that fit.
const NAME: usize = 36;
/// Characters of a name that fit beside a difference.
const NAME_BESIDE: usize = 26;
/// Number of time marks.
const TICKS: f64 = 8.0;

const STYLE: &str = "\
svg{--bg:#fff;--ink:#1d2430;--dim:#5d6878;--grid:#e3e7ed;font:12px system-ui,sans-serif}\
@media(prefers-color-scheme:dark){svg{--bg:#14181f;--ink:#e6eaf0;--dim:#98a3b3;--grid:#2b323d}}\
.bg{fill:var(--bg)}text{fill:var(--ink)}.dim{fill:var(--dim)}.grid{stroke:var(--grid)}\
.title{font-size:15px;font-weight:600}.known{fill:#c3cad4}.connect{fill:#e08a2e}.shake{fill:#d9b31c}.held{fill:#b085d6}\
.wait{fill:#8fc1ea}.come{fill:#2d6cb5}.failed{fill:#c8392f}\
.c0{fill:#e08a2e}.c1{fill:#d9b31c}.c2{fill:#8fc1ea}.c3{fill:#c8392f}.c4{fill:#e2807a}.c5{fill:#3a9c74}\
.c6{fill:#8a8f2a}.c7{fill:#2d6cb5}.c8{fill:#9aa5b4}.c9{fill:#8a4a2f}.c10{fill:#c99a86}.c11{fill:#b085d6}\
.c12{fill:#1f8f9c}.others{fill:#b9c9e8}.lookup{fill:#7a8a2e}";
/// Number of causes that fit into one line of the legend.
const LEGEND: usize = 6;

/// Where the rows of a waterfall come from.
#[derive(Clone, Copy)]
pub(super) enum Waterfall<'a> {
    /// A fetch of this command.
    Fetched(&'a Run),
    /// An earlier one, or one of a browser.
    Recorded(&'a Archive),
}

/// An object of a waterfall.
struct Row<'a> {
    /// Its URL without the origin of the page, so that the same object of two servers has one name.
    name: &'a str,
    /// From the start of the fetch to the last byte; `None` if the object is not complete.
    end: Option<Duration>,
}

impl<'a> Waterfall<'a> {
    fn elapsed(self) -> Duration {
        match self {
            Waterfall::Fetched(run) => run.timeline.ended - run.timeline.began,
            Waterfall::Recorded(archive) => milliseconds(archive.elapsed()),
        }
    }

    fn rows(self) -> Vec<Row<'a>> {
        match self {
            Waterfall::Fetched(run) => {
                let objects = &run.timeline.objects;
                let page = objects.first().map_or("", |object| origin(&object.url));
                let row = |object: &'a Object| {
                    let last = object.tries.iter().rev().find_map(|one| one.last);
                    Row {
                        name: named(&object.url, page),
                        end: last.map(|last| last - run.timeline.began),
                    }
                };
                objects.iter().map(row).collect()
            }
            Waterfall::Recorded(archive) => {
                let entries = &archive.entries;
                let page = entries.first().map_or("", |entry| origin(entry.url.as_str()));
                let row = |entry: &'a Entry| Row {
                    name: named(entry.url.as_str(), page),
                    end: Some(milliseconds(entry.end() - archive.start())),
                };
                entries.iter().map(row).collect()
            }
        }
    }

    /// The line above the rows; `first` is the duration of the first waterfall, for the others.
    fn label(self, first: Option<Duration>) -> String {
        let elapsed = self.elapsed();
        let beside = first.map_or(String::new(), |first| {
            format!(" ({} ms)", difference(elapsed, first))
        });
        let took = format!("{:.1} ms{beside}", elapsed.as_secs_f64() * 1e3);
        match self {
            Waterfall::Fetched(run) => {
                let timeline = &run.timeline;
                let totals = timeline.sums();
                let lookup = run.dns.map_or(String::new(), |took| {
                    format!("; name lookup before it: {:.1} ms", took.as_secs_f64() * 1e3)
                });
                format!(
                    "{}: {took}, {} objects, {} connections, {} requests, {} in{lookup}",
                    run.manner,
                    timeline.objects.len(),
                    totals.connections,
                    totals.requests,
                    units::Bytes(totals.bytes_in)
                )
            }
            Waterfall::Recorded(archive) => format!(
                "{}: {took}, {} requests, recorded",
                shortened(&archive.name, 60),
                archive.entries.len()
            ),
        }
    }
}

/// The whole picture as SVG. Every waterfall has the same time scale. Those after the first have, at each object, by how much later
/// (+) or earlier (−) it was complete than in the first.
pub(super) fn draw(title: &str, waterfalls: &[Waterfall<'_>]) -> String {
    let elapsed = waterfalls.iter().map(|waterfall| waterfall.elapsed()).max();
    let elapsed = elapsed.unwrap_or_default();
    let scale = (WIDTH - LEFT - RIGHT) / elapsed.as_secs_f64().max(1e-9);
    let all: Vec<Vec<Row<'_>>> = waterfalls.iter().map(|waterfall| waterfall.rows()).collect();
    let tall = |rows: &Vec<Row<'_>>| ABOVE + ROW * rows.len() as f64 + BELOW;
    let height = HEAD + all.iter().map(tall).sum::<f64>();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" aria-label=\"Waterfall of {}\"><style>{STYLE}</style>\
         <rect class=\"bg\" width=\"{WIDTH}\" height=\"{height}\"/>\
         <text class=\"title\" x=\"10\" y=\"22\">{}</text>",
        escaped(title),
        escaped(&shortened(title, 110))
    );
    legends(&mut svg, waterfalls);
    let first: HashMap<&str, Duration> = all
        .first()
        .into_iter()
        .flatten()
        .filter_map(|row| Some((row.name, row.end?)))
        .collect();
    let mut y = HEAD;
    for (number, (waterfall, rows)) in waterfalls.iter().zip(&all).enumerate() {
        let before = waterfalls.first().filter(|_| number > 0);
        let label = waterfall.label(before.map(|waterfall| waterfall.elapsed()));
        let _ = write!(
            svg,
            "<text class=\"dim\" x=\"10\" y=\"{:.1}\">{}</text>",
            y + 12.0,
            escaped(&label)
        );
        let top = y + ABOVE;
        grid(&mut svg, elapsed, scale, top, y + tall(rows));
        let fits = if waterfalls.len() > 1 { NAME_BESIDE } else { NAME };
        for (row, place) in rows.iter().zip(0_u32..) {
            let line = top + ROW * f64::from(place) + 11.0;
            let _ = write!(
                svg,
                "<text x=\"10\" y=\"{line:.1}\">{}</text>",
                escaped(&shortened(row.name, fits))
            );
            if before.is_some() {
                let shown = match (row.end, first.get(row.name)) {
                    (Some(end), Some(first)) => difference(end, *first),
                    _ => "-".to_owned(),
                };
                let _ = write!(
                    svg,
                    "<text class=\"dim\" x=\"{:.1}\" y=\"{line:.1}\" text-anchor=\"end\">{shown}</text>",
                    LEFT - 6.0
                );
            }
        }
        match waterfall {
            Waterfall::Fetched(run) => fetched(&mut svg, run, top, scale),
            Waterfall::Recorded(archive) => recorded(&mut svg, archive, top, scale),
        }
        y += tall(rows);
    }
    svg.push_str("</svg>\n");
    svg
}

/// The classes and their meanings.
fn legends(svg: &mut String, waterfalls: &[Waterfall<'_>]) {
    let mut entries = vec![
        ("known", "known"),
        ("connect", "connecting"),
        ("shake", "TLS handshake"),
        ("held", "held in the buffer"),
        ("wait", "waiting"),
        ("come", "receiving"),
        ("others", "other streams"),
        ("failed", "failed"),
    ];
    if waterfalls
        .iter()
        .any(|waterfall| matches!(waterfall, Waterfall::Recorded(_)))
    {
        entries.push(("lookup", "name lookup"));
    }
    legend(svg, 40.0, &entries);
    let causes: Vec<(String, &str)> = Cause::ALL
        .iter()
        .enumerate()
        .map(|(place, cause)| (format!("c{place}"), cause.name()))
        .collect();
    let causes: Vec<(&str, &str)> = causes
        .iter()
        .map(|(class, name)| (class.as_str(), *name))
        .collect();
    for (row, causes) in causes.chunks(LEGEND).enumerate() {
        legend(svg, 58.0 + 17.0 * row as f64, causes);
    }
}

/// The critical path of a fetch, and the bars of its objects.
fn fetched(svg: &mut String, run: &Run, top: f64, scale: f64) {
    let timeline = &run.timeline;
    let x = |at: Instant| LEFT + at.since(timeline.began).as_secs_f64() * scale;
    let _ = write!(
        svg,
        "<text class=\"dim\" x=\"10\" y=\"{:.1}\">critical path</text>",
        top - 10.0
    );
    for span in explain(timeline) {
        let place = Cause::ALL
            .iter()
            .position(|cause| *cause == span.cause)
            .unwrap_or(0);
        let took = (span.to - span.from).as_secs_f64() * 1e3;
        rect(
            svg,
            &format!("c{place}"),
            x(span.from),
            x(span.to),
            top - 20.0,
            12.0,
            &format!("{}: {took:.2} ms", span.cause.name()),
        );
    }
    for (object, place) in timeline.objects.iter().zip(0_u32..) {
        row(svg, object, run, top + ROW * f64::from(place) + 2.0, &x);
    }
}

/// The bars of an archive. It has no packets, so no critical path is known.
fn recorded(svg: &mut String, archive: &Archive, top: f64, scale: f64) {
    for (entry, place) in archive.entries.iter().zip(0_u32..) {
        let y = top + ROW * f64::from(place) + 2.0;
        let phases = entry.phases;
        let mut at = entry.start - archive.start();
        for (class, what, took) in [
            ("known", "known", phases.blocked),
            ("lookup", "name lookup", phases.lookup),
            ("connect", "connecting", phases.connect),
            ("shake", "TLS handshake", phases.tls),
            ("held", "sending", phases.send),
            ("wait", "waiting", phases.wait),
            ("come", "receiving", phases.receive),
        ] {
            let x = |ms: f64| LEFT + ms / 1e3 * scale;
            let (from, mut to) = (x(at), x(at + took));
            // A response received at once must still be visible.
            if class == "come" {
                to = to.max(from + 1.5);
            }
            let (y, height) = match class {
                "known" => (y + 4.5, 3.0),
                _ => (y, 12.0),
            };
            rect(svg, class, from, to, y, height, &format!("{what}: {took:.2} ms"));
            at += took;
        }
    }
}

fn row(svg: &mut String, object: &Object, run: &Run, y: f64, x: &impl Fn(Instant) -> f64) {
    let timeline = &run.timeline;
    let is_failed = matches!(object.fate, Fate::Failed(_));
    let title = |what: &str, from: Instant, to: Instant| {
        format!("{what}: {:.2} ms", (to.since(from)).as_secs_f64() * 1e3)
    };
    let mut known = object.found;
    for one in &object.tries {
        let connection = &timeline.connections[one.connection];
        let end = one
            .last
            .or(one.first)
            .or(connection.closed)
            .unwrap_or(timeline.ended);
        let first = one.first.unwrap_or(end);
        let mut at = one.asked;
        rect(
            svg,
            "known",
            x(known),
            x(at),
            y + 4.5,
            3.0,
            &title("known", known, at),
        );
        if connection.opened == one.asked {
            let stands = connection.connected.unwrap_or(end).min(first);
            let ready = connection.ready().unwrap_or(stands).min(first);
            rect(
                svg,
                "connect",
                x(at),
                x(stands),
                y,
                12.0,
                &title("connecting", at, stands),
            );
            if connection.secured.is_some() {
                let shown = title("TLS handshake", stands, ready);
                rect(svg, "shake", x(stands), x(ready), y, 12.0, &shown);
            }
            at = ready;
        }
        let sent = one.sent.unwrap_or(at).clamp(at, first.max(at));
        rect(svg, "held", x(at), x(sent), y, 12.0, &title("held", at, sent));
        rect(
            svg,
            "wait",
            x(sent),
            x(first),
            y,
            12.0,
            &title("waiting", sent, first),
        );
        let class = if is_failed || one.last.is_none() {
            "failed"
        } else {
            "come"
        };
        // A response received at once must still be visible.
        let until = x(end).max(x(first) + 1.5);
        if one.pieces.len() > 1 {
            let shown = title("receiving, other streams between", first, end);
            rect(svg, "others", x(first), until, y, 12.0, &shown);
            // Receipts without one of others between them are one bar.
            for run in one
                .pieces
                .chunk_by(|piece, next| piece.arrival + 1 == next.arrival)
            {
                let came = connection.arrivals[run[run.len() - 1].arrival].at;
                let before = run[0].arrival.checked_sub(1);
                let before = before.map_or(first, |before| connection.arrivals[before].at.max(first));
                let shown = format!("{} bytes", run.iter().map(|piece| piece.bytes).sum::<u64>());
                let from = x(before.min(came));
                rect(
                    svg,
                    class,
                    from,
                    x(came).max(from + 1.5).min(until),
                    y,
                    12.0,
                    &shown,
                );
            }
        } else {
            let shown = title("receiving", first, end);
            rect(svg, class, x(first), until, y, 12.0, &shown);
        }
        known = end;
    }
}

fn rect(svg: &mut String, class: &str, from: f64, to: f64, y: f64, height: f64, title: &str) {
    if to - from > 0.0 {
        let _ = write!(
            svg,
            "<rect class=\"{class}\" x=\"{from:.2}\" y=\"{y:.1}\" width=\"{:.2}\" height=\"{height}\"><title>{title}\
             </title></rect>",
            to - from
        );
    }
}

fn legend(svg: &mut String, y: f64, entries: &[(&str, &str)]) {
    let mut x = 10.0;
    for (class, name) in entries {
        let _ = write!(
            svg,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{:.1}\" width=\"10\" height=\"10\"/><text class=\"dim\" \
             x=\"{:.1}\" y=\"{y}\">{name}</text>",
            y - 9.0,
            x + 14.0
        );
        x += 30.0 + 6.6 * name.len() as f64;
    }
}

/// Vertical lines at round times, with the smallest step of 1, 2 or 5 that leaves room.
fn grid(svg: &mut String, elapsed: Duration, scale: f64, top: f64, bottom: f64) {
    let least = elapsed.as_secs_f64() * 1e3 / TICKS;
    let power = 10_f64.powf(least.max(1e-6).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| *step >= least);
    let step = step.unwrap_or(least.max(1e-6));
    let mut at = 0.0;
    while at <= elapsed.as_secs_f64() * 1e3 {
        let x = LEFT + at / 1e3 * scale;
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/><text class=\"dim\" \
             x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{at:.*}</text>",
            top - 24.0,
            bottom - 22.0,
            bottom - 8.0,
            (-power.log10()).max(0.0) as usize,
        );
        at += step;
    }
    let _ = write!(
        svg,
        "<text class=\"dim\" x=\"10\" y=\"{:.1}\">milliseconds</text>",
        bottom - 8.0
    );
}

/// A duration of a file, which has no packets and so no instants.
fn milliseconds(ms: f64) -> Duration {
    Duration::from_secs_f64(ms.max(0.0) / 1e3)
}

/// Milliseconds by which a duration is longer than another, with a sign.
fn difference(one: Duration, other: Duration) -> String {
    let ms = (one.as_secs_f64() - other.as_secs_f64()) * 1e3;
    // Less than is shown has no sign.
    match (ms * 10.0).round() / 10.0 {
        ms if ms > 0.0 => format!("+{ms:.1}"),
        ms if ms < 0.0 => format!("−{:.1}", -ms),
        _ => "0.0".to_owned(),
    }
}

/// Scheme and authority of a URL.
fn origin(url: &str) -> &str {
    let authority = url.find("://").map_or(0, |at| at + 3);
    url[authority..]
        .find('/')
        .map_or(url, |path| &url[..authority + path])
}

/// A URL without the origin of the page, or a whole URL of another origin.
fn named<'a>(url: &'a str, page: &str) -> &'a str {
    match origin(url) == page {
        true => &url[page.len()..],
        false => url,
    }
}

fn escaped(text: &str) -> String {
    let shown: String = text.chars().filter(|c| !c.is_control()).collect();
    chart::escaped(&shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive of two requests, of which the second waits so long.
    fn archive(name: &str, host: &str, wait: f64) -> Archive {
        let entry = |path: &str, at: u32, wait: f64| {
            format!(
                r#"{{"startedDateTime":"2026-11-24T10:11:12.{at:03}Z","request":{{"method":"GET","url":"{host}{path}"}},
                    "timings":{{"send":0,"wait":{wait},"receive":10}}}}"#
            )
        };
        let entries = [entry("/", 0, 20.0), entry("/a.png?x=%3C&y", 30, wait)].join(",");
        let text = format!(r#"{{"log":{{"entries":[{entries}]}}}}"#);
        Archive::parse(&text, name.to_owned()).expect("an archive")
    }

    #[test]
    fn two_waterfalls_have_one_scale_and_say_which_object_took_longer() {
        let one = archive("a <before>.har", "http://one", 60.0);
        let other = archive("after & more.har", "https://other:8443", 160.0);
        let both = [Waterfall::Recorded(&one), Waterfall::Recorded(&other)];
        let svg = draw("http://one/?<&>", &both);
        let document = roxmltree::Document::parse(&svg).expect("XML");
        let texts: Vec<&str> = document
            .descendants()
            .filter(|node| node.tag_name().name() == "text")
            .filter_map(|node| node.text())
            .collect();
        for wanted in [
            "http://one/?<&>",
            "a <before>.har: 100.0 ms, 2 requests, recorded",
            "after & more.har: 200.0 ms (+100.0 ms), 2 requests, recorded",
            "0.0",
            "+100.0",
        ] {
            assert!(texts.contains(&wanted), "{wanted}: {texts:?}");
        }
        let named = texts.iter().filter(|text| **text == "/a.png?x=%3C&y");
        assert_eq!(named.count(), 2, "hosts are left out: {texts:?}");
        let bars: Vec<(f64, f64, f64)> = document
            .descendants()
            .filter(|node| node.attribute("class") == Some("wait") && node.has_children())
            .map(|node| {
                let number = |name: &str| node.attribute(name).and_then(|text| text.parse::<f64>().ok());
                let [x, y, width] = ["x", "y", "width"].map(|name| number(name).expect("a number"));
                (x, y, width)
            })
            .collect();
        assert_eq!(bars.len(), 4, "{bars:?}");
        // The second object of both begins after 30 ms of 200.
        let scale = (WIDTH - LEFT - RIGHT) / 200.0;
        for (bar, wait) in [(bars[1], 60.0), (bars[3], 160.0)] {
            assert!((bar.0 - LEFT - 30.0 * scale).abs() < 0.01, "{bar:?}");
            assert!((bar.2 - wait * scale).abs() < 0.01, "{bar:?}");
        }
        assert!(bars[1].1 < bars[2].1, "one above the other: {bars:?}");
        let alone = draw("http://one/", &both[..1]);
        assert!(!alone.contains("text-anchor=\"end\""), "{alone}");
    }
}
