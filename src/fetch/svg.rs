//! A fetch as a waterfall picture: one row per object, from its discovery to its last byte; above the rows the
//! critical path by cause. Colors are classes with light and dark variants.

use super::Run;
use client::explain::{Cause, explain};
use client::timeline::{Fate, Object};
use std::fmt::Write;
use units::{Duration, Instant};
use url::{Position, Url};

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 250.0;
const RIGHT: f64 = 20.0;
const ROW: f64 = 17.0;
/// Top of the rows.
const TOP: f64 = 145.0;
/// Characters of a name that fit.
const NAME: usize = 36;
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
.c12{fill:#1f8f9c}.others{fill:#b9c9e8}";
/// Number of causes that fit into one line of the legend.
const LEGEND: usize = 6;

/// The whole picture as SVG.
pub(super) fn draw(page: &Url, run: &Run) -> String {
    let timeline = &run.timeline;
    let elapsed = timeline.ended - timeline.began;
    let scale = (WIDTH - LEFT - RIGHT) / elapsed.as_secs_f64().max(1e-9);
    let x = |at: Instant| LEFT + at.since(timeline.began).as_secs_f64() * scale;
    let height = TOP + ROW * timeline.objects.len() as f64 + 30.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" aria-label=\"Waterfall of {}\"><style>{STYLE}</style>\
         <rect class=\"bg\" width=\"{WIDTH}\" height=\"{height}\"/>",
        escaped(page.as_str())
    );
    let totals = timeline.sums();
    let lookup = run.dns.map_or(String::new(), |took| {
        format!("; name lookup before it: {:.1} ms", took.as_secs_f64() * 1e3)
    });
    let _ = write!(
        svg,
        "<text class=\"title\" x=\"10\" y=\"22\">{}</text><text class=\"dim\" x=\"10\" y=\"40\">{}: {:.1} ms, {} \
         objects, {} connections, {} requests, {} in{lookup}</text>",
        escaped(&shortened(page.as_str(), 110)),
        run.manner,
        elapsed.as_secs_f64() * 1e3,
        timeline.objects.len(),
        totals.connections,
        totals.requests,
        units::Bytes(totals.bytes_in)
    );
    legend(
        &mut svg,
        58.0,
        &[
            ("known", "known"),
            ("connect", "connecting"),
            ("shake", "TLS handshake"),
            ("held", "held in the buffer"),
            ("wait", "waiting"),
            ("come", "receiving"),
            ("others", "other streams"),
            ("failed", "failed"),
        ],
    );
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
        legend(&mut svg, 76.0 + 17.0 * row as f64, causes);
    }
    grid(&mut svg, elapsed, scale, height);
    let _ = write!(
        svg,
        "<text class=\"dim\" x=\"10\" y=\"{}\">critical path</text>",
        TOP - 10.0
    );
    for span in explain(timeline) {
        let place = Cause::ALL
            .iter()
            .position(|cause| *cause == span.cause)
            .unwrap_or(0);
        let took = (span.to - span.from).as_secs_f64() * 1e3;
        rect(
            &mut svg,
            &format!("c{place}"),
            x(span.from),
            x(span.to),
            TOP - 20.0,
            12.0,
            &format!("{}: {took:.2} ms", span.cause.name()),
        );
    }
    for (number, object) in timeline.objects.iter().enumerate() {
        let y = TOP + ROW * number as f64;
        let name = object
            .url
            .strip_prefix(&page[..Position::BeforePath])
            .unwrap_or(&object.url);
        let _ = write!(
            svg,
            "<text x=\"10\" y=\"{:.1}\">{}</text>",
            y + 11.0,
            escaped(&shortened(name, NAME))
        );
        row(&mut svg, object, run, y + 2.0, &x);
    }
    svg.push_str("</svg>\n");
    svg
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
fn grid(svg: &mut String, elapsed: Duration, scale: f64, height: f64) {
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
            TOP - 24.0,
            height - 22.0,
            height - 8.0,
            (-power.log10()).max(0.0) as usize,
        );
        at += step;
    }
    let _ = write!(
        svg,
        "<text class=\"dim\" x=\"10\" y=\"{:.1}\">milliseconds</text>",
        height - 8.0
    );
}

fn shortened(name: &str, most: usize) -> String {
    let count = name.chars().count();
    if count <= most {
        return name.to_owned();
    }
    let tail: String = name.chars().skip(count + 1 - most).collect();
    format!("…{tail}")
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}
