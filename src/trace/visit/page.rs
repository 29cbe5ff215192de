//! `--report`: a visit as one HTML page: the waterfall of the browser with what the packets explain beneath it, connections and
//! findings. No network, no script, light and dark, readable on a phone. Decides form and words; the times are those of `--har`.

use super::super::counters::milliseconds;
use super::super::words::{counted, measures};
use super::super::{quic, security};
use super::{AFTER, After, BEFORE, Carrier, Joined, Object, Pause};
use crate::archive::Entry;
use ::trace::{Connection, Direction, End, Finding, Quic, Side, Spread};
use std::fmt::Write;
use units::Bytes;
use url::Position;

const STYLE: &str = include_str!("page.css");
/// Limit on objects that are shown; the page says if there are more.
const ROWS_MAX: usize = 1_000;
/// Marks on the time axis.
const MARKS: u32 = 4;

/// Class, name and meaning of each wait, in the order of [`BEFORE`] and [`AFTER`].
const WAITS: [(&str, &str, &str); BEFORE.len() + AFTER.len()] = [
    (
        "queued",
        "queued",
        "in the browser, before anything else: for example for a free connection",
    ),
    ("lookup", "name lookup", "for the address of the host"),
    ("connect", "connecting", "for the handshake of TCP or QUIC"),
    ("tls", "TLS handshake", "for the handshake of TLS"),
    (
        "trip",
        "round trip",
        "one round trip of the path: no server can answer sooner",
    ),
    (
        "server",
        "server",
        "beyond the round trip, for the first byte of the response",
    ),
    (
        "behind",
        "behind others",
        "for the first byte, while another response of the connection arrived",
    ),
    ("loss", "loss", "until lost packets were sent again"),
    ("timer", "ACK timer", "for an acknowledgment that a timer delayed"),
    ("flow", "flow control", "for a window of the receiver"),
    ("transfer", "transfer", "while request and response passed"),
    ("rest", "rest", "for what no packet shows: the browser's own work"),
];

/// Waits of an object; those of the capture are zero without one.
type Waits = [f64; WAITS.len()];

impl Joined<'_> {
    /// The page.
    pub(in super::super) fn page(&self) -> String {
        let name = escaped(&self.archive.name);
        let mut html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Visit of {name}</title>\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<style>{STYLE}</style>\n<h1>Visit of {name}</h1>\n"
        );
        self.head(&mut html);
        self.sum(&mut html);
        self.waterfall(&mut html);
        if self.visit.is_observed {
            self.causes(&mut html);
            self.carriers(&mut html);
        }
        let _ = writeln!(
            html,
            "<p class=\"soft small\">Made by weir {}. Times of the browser are those of its archive; times beneath them are from \
             the packets. <code>weir trace --har</code> explains each.</p>",
            env!("CARGO_PKG_VERSION")
        );
        html
    }

    /// Milliseconds that the waterfall shows.
    fn span(&self) -> f64 {
        let ends = self
            .objects
            .iter()
            .map(|object| self.start(object) + object.total());
        let page = &self.archive.page;
        let marks = page.load.into_iter().chain(page.content);
        ends.chain(marks).fold(1e-3, f64::max)
    }

    /// Milliseconds from the first request.
    fn start(&self, object: &Object<'_>) -> f64 {
        object.entry.start - self.archive.start()
    }

    fn head(&self, html: &mut String) {
        let page = &self.archive.page;
        let mut words = Vec::new();
        if !page.client.is_empty() {
            words.push(escaped(&page.client));
        }
        if let Some(link) = &self.visit.link {
            words.push(format!("behind the emulated link <code>{}</code>", escaped(link)));
        }
        words.push(match self.visit.is_observed {
            true => format!(
                "{} of {} in the capture",
                self.in_capture(),
                counted(self.objects.len() as u64, "request")
            ),
            false => "no capture: the times are the browser's alone".to_owned(),
        });
        if let Some(clock) = self.clock.filter(|clock| clock.abs() >= 1.0) {
            words.push(format!("clock of the capture {clock:+.1} ms"));
        }
        let _ = writeln!(html, "<p class=\"soft\">{}.</p>", words.join("; "));
        let time = |time: Option<f64>| time.map_or("-".to_owned(), |time| format!("{} ms", grouped(time)));
        let bytes = self.objects.iter().filter_map(|object| object.entry.bytes).sum();
        let mut tiles = vec![
            (time(page.load), "until the page was loaded"),
            (time(page.content), "until its document was parsed"),
            (time(Some(self.archive.elapsed())), "until the last byte"),
            (self.objects.len().to_string(), "requests"),
            (Bytes(bytes).to_string(), "received"),
        ];
        if self.visit.is_observed {
            let totals = &self.visit.totals;
            tiles.push((totals.connections.to_string(), "connections"));
            tiles.push((totals.again.to_string(), "packets lost or sent again"));
        }
        html.push_str("<div class=\"tiles\">");
        for (value, what) in tiles {
            let _ = write!(html, "<div><b>{value}</b><span>{what}</span></div>");
        }
        html.push_str("</div>\n");
        let failed = self.objects.iter().filter(|object| object.entry.error.is_some());
        let failed = failed.count() as u64;
        if failed > 0 {
            let _ = writeln!(
                html,
                "<p class=\"bad\">{} without a complete response.</p>",
                counted(failed, "request")
            );
        }
        let left_out = page.left_out;
        for (what, count) in [
            (
                "Requests beyond the limits of Weir, which are missing here",
                left_out.requests,
            ),
            (
                "Messages of the browser that were too long or could not be read, so that requests may be missing here",
                left_out.messages,
            ),
        ] {
            if count > 0 {
                let _ = writeln!(html, "<p class=\"bad\">{what}: {count}.</p>");
            }
        }
    }

    /// The sums of all waits.
    fn sum(&self, html: &mut String) {
        let mut sums: Waits = [0.0; WAITS.len()];
        for object in &self.objects {
            for (sum, wait) in sums.iter_mut().zip(object.waits()) {
                *sum += wait;
            }
        }
        let all: f64 = sums.iter().sum();
        html.push_str("<h2>Waits of all objects</h2>\n");
        if all <= 0.0 {
            html.push_str("<p class=\"soft\">No object took any time.</p>\n");
            return;
        }
        html.push_str("<div class=\"sum\" role=\"img\" aria-label=\"Shares of the waits\">");
        for ((class, name, _), took) in WAITS.iter().zip(sums).filter(|(_, took)| *took > 0.0) {
            let share = took / all * 100.0;
            let _ = write!(
                html,
                "<i class=\"{class}\" style=\"width:{share:.2}%\" title=\"{name}: {share:.0} %\"></i>"
            );
        }
        html.push_str("</div>\n");
        list(html, &sums, Some(all));
        html.push_str(
            "<p class=\"soft small\">Sums over all objects. Times of different objects overlap, so these are no shares of the \
             page's time.</p>\n",
        );
    }

    fn waterfall(&self, html: &mut String) {
        let span = self.span();
        html.push_str("<h2>Waterfall</h2>\n<p class=\"soft small\">");
        html.push_str(match self.visit.is_observed {
            true => {
                "Upper bar: as the browser saw it. Lower bar: what it waited for, by the packets, in the order of the list above. "
            }
            false => "",
        });
        html.push_str(
            "Open an object for its details. Dashed line: document parsed; solid line: page loaded.</p>\n",
        );
        html.push_str("<div class=\"objects\">\n<div class=\"axis\"><span></span><div>");
        for mark in 0..=MARKS {
            let share = f64::from(mark) / f64::from(MARKS);
            let unit = if mark == MARKS { " ms" } else { "" };
            let _ = write!(
                html,
                "<span style=\"left:{:.2}%\">{}{unit}</span>",
                share * 100.0,
                grouped((share * span).round())
            );
        }
        html.push_str("</div><span></span></div>\n");
        for object in self.objects.iter().take(ROWS_MAX) {
            self.object(html, object, span);
        }
        html.push_str("</div>\n");
        if self.objects.len() > ROWS_MAX {
            let _ = writeln!(
                html,
                "<p class=\"soft\">The first {ROWS_MAX} of {} objects.</p>",
                self.objects.len()
            );
        }
    }

    /// The row of an object, with its details folded.
    fn object(&self, html: &mut String, object: &Object<'_>, span: f64) {
        let entry = object.entry;
        let start = self.start(object);
        let name = escaped(&self.name(entry));
        let class = if entry.error.is_some() || entry.status >= 400 {
            " bad"
        } else {
            ""
        };
        let tracks = if self.visit.is_observed {
            "track"
        } else {
            "track one"
        };
        let _ = write!(
            html,
            "<details class=\"object\"><summary class=\"row\"><span class=\"name{class}\" title=\"{}\">{name}</span>\
             <span class=\"{tracks}\">",
            escaped(entry.url.as_str())
        );
        let place = |at: f64| at / span * 100.0;
        for (class, at) in [
            ("content", self.archive.page.content),
            ("load", self.archive.page.load),
        ] {
            if let Some(at) = at {
                let _ = write!(html, "<u class=\"{class}\" style=\"left:{:.2}%\"></u>", place(at));
            }
        }
        let mut strip = |kind: &str, parts: &[(&str, &str, f64)]| {
            let mut at = start;
            for (class, name, took) in parts.iter().filter(|part| part.2 > 0.0) {
                let _ = write!(
                    html,
                    "<i class=\"{kind} {class}\" style=\"left:{:.2}%;width:{:.2}%\" title=\"{name}: {took:.1} ms\"></i>",
                    place(at),
                    place(*took)
                );
                at += took;
            }
        };
        let phases = entry.phases;
        strip(
            "b",
            &[
                ("queued", "queued", phases.blocked),
                ("lookup", "name lookup", phases.lookup),
                ("connect", "connecting", phases.connect),
                ("tls", "TLS handshake", phases.tls),
                ("send", "sending", phases.send),
                ("trip", "waiting", phases.wait),
                ("transfer", "receiving", phases.receive),
            ],
        );
        if object.after.is_some() {
            let parts: Vec<(&str, &str, f64)> = WAITS
                .iter()
                .zip(object.waits())
                .map(|((class, name, _), took)| (*class, *name, took))
                .collect();
            strip("p", &parts);
        }
        let _ = write!(
            html,
            "</span><span class=\"took\">{} ms</span></summary><div class=\"more\">",
            grouped(object.total())
        );
        self.details(html, object);
        html.push_str("</div></details>\n");
    }

    fn details(&self, html: &mut String, object: &Object<'_>) {
        let entry = object.entry;
        let mut facts = vec![format!(
            "{} <code>{}</code>",
            escaped(&entry.method),
            escaped(entry.url.as_str())
        )];
        if entry.status > 0 {
            facts.push(entry.status.to_string());
        }
        facts.extend(
            [&entry.version, &entry.media]
                .into_iter()
                .filter(|text| !text.is_empty())
                .map(|text| escaped(text)),
        );
        if let Some(bytes) = entry.bytes {
            facts.push(Bytes(bytes).to_string());
        }
        facts.push(format!("begun after {} ms", grouped(self.start(object))));
        let _ = writeln!(html, "<p class=\"small\">{}</p>", facts.join(" · "));
        if let Some(why) = &entry.error {
            let _ = writeln!(html, "<p class=\"bad\">{}</p>", escaped(why));
        }
        match &object.after {
            Some(after) => {
                let stream = after.request.stream;
                let stream = stream.map_or(String::new(), |stream| format!(", stream {stream}"));
                let before = match after.request.index {
                    0 => "the first request of it".to_owned(),
                    earlier => format!("after {} on it", counted(earlier, "request")),
                };
                let _ = writeln!(
                    html,
                    "<p class=\"small\">Carried by <a href=\"#connection-{0}\">connection {0}</a>{stream}, {before}.</p>",
                    after.request.connection
                );
            }
            None if entry.is_cached => {
                html.push_str("<p class=\"small\">The browser's cache answered: no packet carried it.</p>\n");
            }
            None if self.visit.is_observed => html.push_str(
                "<p class=\"small\">No request of the capture has its method and target, so its time is split by the browser \
                 alone.</p>\n",
            ),
            None => {}
        }
        list(html, &object.waits(), None);
        let Some(after) = &object.after else { return };
        let found = self.within(after);
        if !found.is_empty() {
            html.push_str("<ul>");
            for finding in found {
                html.push_str(&line(finding));
            }
            html.push_str("</ul>\n");
        }
    }

    /// Findings of the object's connection during its time that delayed it.
    fn within(&self, after: &After<'_>) -> Vec<&Finding> {
        let request = after.request;
        let findings = self.visit.findings.iter();
        findings
            .filter(|finding| finding.connection.0 == request.connection)
            .filter(|finding| {
                Pause::of(finding)
                    .is_some_and(|pause| pause.interval.0 < request.done && pause.interval.1 > request.start)
            })
            .collect()
    }

    /// The findings by kind, with what to change.
    fn causes(&self, html: &mut String) {
        html.push_str("<h2>Findings</h2>\n");
        let totals = &self.visit.totals;
        if totals.kinds.is_empty() {
            html.push_str("<p class=\"soft\">None: no loss, no timer and no window cost time.</p>\n");
            return;
        }
        let mut kinds: Vec<_> = totals.kinds.iter().collect();
        kinds.sort_by_key(|(_, kind)| std::cmp::Reverse(kind.cost));
        html.push_str("<div class=\"cards\">\n");
        for (title, kind) in kinds {
            let _ = writeln!(
                html,
                "<div class=\"card\"><h3>{title}</h3><p>{}, {} together</p><p class=\"soft\">{}</p></div>",
                counted(kind.count, "time"),
                milliseconds(kind.cost),
                escaped(kind.remedy)
            );
        }
        html.push_str("</div>\n");
        let listed = self.visit.findings.len();
        if totals.findings > listed as u64 {
            let _ = writeln!(
                html,
                "<p class=\"soft\">Objects and connections list the first {listed} of {} findings.</p>",
                totals.findings
            );
        }
    }

    fn carriers(&self, html: &mut String) {
        html.push_str("<h2>Connections</h2>\n<div class=\"cards\">\n");
        let mut connections: Vec<&Carrier> = self.visit.connections.iter().collect();
        connections.sort_by_key(|connection| connection.id());
        for connection in connections {
            let rows = match connection {
                Carrier::Tcp(tcp) => of_tcp(tcp),
                Carrier::Quic(quic) => of_quic(quic),
            };
            let id = connection.id();
            let _ = write!(
                html,
                "<div class=\"card\" id=\"connection-{id}\"><h3>Connection {id}</h3><dl>"
            );
            let carried = self.objects.iter().filter_map(|object| object.after.as_ref());
            let carried = carried.filter(|after| after.request.connection == id).count();
            for (name, value) in rows.into_iter().chain([("objects", carried.to_string())]) {
                let _ = write!(html, "<dt>{name}</dt><dd>{}</dd>", escaped(&value));
            }
            html.push_str("</dl>");
            let findings = self.visit.findings.iter();
            let mut findings: Vec<&Finding> = findings.filter(|finding| finding.connection.0 == id).collect();
            findings.sort_by_key(|finding| std::cmp::Reverse(finding.cost));
            if !findings.is_empty() {
                html.push_str("<ul>");
                for finding in findings.iter().take(10) {
                    html.push_str(&line(finding));
                }
                html.push_str("</ul>");
            }
            if findings.len() > 10 {
                let _ = write!(html, "<p class=\"soft\">and {} more</p>", findings.len() - 10);
            }
            html.push_str("</div>\n");
        }
        html.push_str("</div>\n");
        let (listed, all) = (self.visit.connections.len(), self.visit.totals.connections);
        if all > listed as u64 {
            let _ = writeln!(
                html,
                "<p class=\"soft\">The first {listed} of {all} connections.</p>"
            );
        }
    }

    /// The URL, without the origin of the page.
    fn name(&self, entry: &Entry) -> String {
        let origin = |entry: &Entry| entry.url[..Position::BeforePath].to_owned();
        let page = self.objects.first().map(|first| origin(first.entry));
        match page {
            Some(page) if page == origin(entry) => entry.url[Position::BeforePath..].to_owned(),
            _ => entry.url.to_string(),
        }
    }
}

impl Object<'_> {
    /// All waits. Without a request in the capture, what the browser knows: sending and receiving are transfer, and waiting is
    /// the server's.
    fn waits(&self) -> Waits {
        let mut waits = [0.0; WAITS.len()];
        waits[..BEFORE.len()].copy_from_slice(&self.before);
        match &self.after {
            Some(after) => waits[BEFORE.len()..].copy_from_slice(&after.waits),
            None => {
                let phases = self.entry.phases;
                let place = |class: &str| WAITS.iter().position(|wait| wait.0 == class).unwrap_or(0);
                waits[place("server")] = phases.wait;
                waits[place("transfer")] = phases.send + phases.receive;
            }
        }
        waits
    }
}

impl Carrier {
    fn id(&self) -> u64 {
        match self {
            Carrier::Tcp(tcp) => tcp.id.0,
            Carrier::Quic(quic) => quic.id.0,
        }
    }
}

/// A list of the waits that took time, with their meaning; with `all`, each with its share of that.
fn list(html: &mut String, waits: &Waits, all: Option<f64>) {
    html.push_str("<div class=\"waits\">");
    for ((class, name, meaning), took) in WAITS.iter().zip(waits).filter(|(_, took)| **took >= 0.05) {
        let share = all.map_or(String::new(), |all| format!(" ({:.0} %)", took / all * 100.0));
        let _ = write!(
            html,
            "<i class=\"{class}\"></i><b>{name}</b><span class=\"n\">{} ms{share}</span><span class=\"m\">{meaning}</span>",
            grouped(*took)
        );
    }
    html.push_str("</div>\n");
}

/// A finding as an item of a list.
fn line(finding: &Finding) -> String {
    format!(
        "<li><b>{}</b> at {}, cost {}: {}</li>",
        finding.kind.title(),
        milliseconds(finding.at),
        milliseconds(finding.cost),
        escaped(&measures(finding))
    )
}

fn of_tcp(tcp: &Connection) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("server", format!("{} (TCP)", tcp.server)),
        (
            "opened after",
            format!("{} of the capture", milliseconds(tcp.start)),
        ),
        (
            "handshake",
            tcp.handshake
                .map_or("not in the capture".to_owned(), milliseconds),
        ),
    ];
    if let Some(tls) = &tcp.tls {
        let took = tls
            .handshake
            .map_or(String::new(), |took| format!(", {}", milliseconds(took)));
        rows.push((
            "TLS",
            format!(
                "{}{took}; {}",
                security::tls(tls),
                security::decryption(tls.decryption)
            ),
        ));
    }
    rows.push(("round trip", trips(&tcp.from_client.rtt, &tcp.from_server.rtt)));
    rows.push(("first flight", flight(&tcp.from_server)));
    rows.push((
        "largest flight",
        format!(
            "{} of the server",
            Bytes(tcp.from_server.cwnd.max.max(tcp.from_server.flight.max))
        ),
    ));
    rows.push((
        "packets",
        packets(tcp.from_client.volume.packets, tcp.from_server.volume.packets),
    ));
    let again = |side: &Direction| side.retransmissions.packets + side.out_of_order_late;
    rows.push((
        "sent again",
        packets(again(&tcp.from_client), again(&tcp.from_server)),
    ));
    rows.push(("end", ended(tcp.end)));
    rows
}

fn of_quic(one: &Quic) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        (
            "server",
            format!("{} (QUIC {})", one.server, quic::version(one.version)),
        ),
        (
            "opened after",
            format!("{} of the capture", milliseconds(one.start)),
        ),
        (
            "handshake",
            one.handshake
                .map_or("not in the capture".to_owned(), milliseconds),
        ),
        ("content", security::decryption(one.decryption).to_owned()),
    ];
    rows.push(("round trip", trips(&one.from_client.rtt, &one.from_server.rtt)));
    rows.push((
        "datagrams",
        packets(one.from_client.volume.datagrams, one.from_server.volume.datagrams),
    ));
    let lost = [&one.from_client, &one.from_server].map(|side| side.lost + side.lost_before);
    rows.push(("packets lost", packets(lost[0], lost[1])));
    rows.push(("end", ended(one.end)));
    rows
}

fn packets(client: u64, server: u64) -> String {
    format!("{client} of the client, {server} of the server")
}

/// Round trips from the client's packets to their acknowledgments; if there are none, from the server's.
fn trips(client: &Spread, server: &Spread) -> String {
    let measured = [client, server].into_iter().find(|spread| spread.count > 0);
    measured.map_or("not measured".to_owned(), |spread| {
        format!(
            "{} to {}, mean {}",
            milliseconds(spread.min),
            milliseconds(spread.max),
            milliseconds(spread.mean())
        )
    })
}

/// What the server sent before the first acknowledgment: slow start begins with it.
fn flight(server: &Direction) -> String {
    format!(
        "{} in {} of the server before an acknowledgment",
        Bytes(server.initial_window),
        counted(server.initial_packets, "segment")
    )
}

fn ended(end: End) -> String {
    match end {
        End::Closed => "closed by both ends",
        End::Reset(Side::Client) => "reset by the client",
        End::Reset(Side::Server) => "reset by the server",
        End::CaptureEnded => "open when the capture ended",
        End::Idle => "silent until the end",
        End::Evicted => "no longer followed: too many connections",
        End::Reused => "its ends opened a new one",
    }
    .to_owned()
}

/// A number with one digit behind the point, or none from 1,000 on, and commas between thousands.
fn grouped(number: f64) -> String {
    if number < 1_000.0 {
        let text = format!("{number:.1}");
        return text.strip_suffix(".0").map_or(text.clone(), str::to_owned);
    }
    let digits = format!("{number:.0}");
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Text for HTML, also within an attribute. Control characters are replaced.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in security::printable(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests::{request, visit};
    use super::super::{CONNECTIONS_MAX, FINDINGS_MAX, RESULTS_MAX};
    use super::*;
    use crate::archive::LeftOut;
    use ::trace::{ConnectionId, Event, Kind};
    use units::Duration;

    const START_NS: u64 = 60_000_000_000;

    /// A finding of connection 1, from 20 to 50 ms.
    fn recovery() -> Event {
        Event::Finding(Finding {
            connection: ConnectionId(1),
            sender: Side::Server,
            at: Duration::from_millis(20),
            cost: Duration::from_millis(30),
            packets: vec![7],
            kind: Kind::FastRecovery {
                segments: 2,
                upstream: false,
            },
        })
    }

    #[test]
    fn a_page_has_each_object_its_waits_and_what_delayed_it() {
        let mut visit = visit(&[
            ("/a", 0, 5.0, 100.0),
            ("/b?x=%3Cscript%3E", 30, 0.0, 100.0),
            ("/gone", 40, 0.0, 1.0),
        ]);
        visit.requests = vec![
            request(1, "/a", 5.0, 80.0, 20.0),
            request(1, "/b?x=%3Cscript%3E", 30.0, 50.0, 10.0),
        ];
        visit.archive.name = "http://h/<script>\"".to_owned();
        visit.archive.entries[2].error = Some("net::ERR_<b>".to_owned());
        visit.archive.page.load = Some(120.0);
        visit.link = Some("ppp".to_owned());
        visit.event(&recovery());
        let page = visit.joined(START_NS).page();
        for part in [
            "<title>Visit of http://h/&lt;script&gt;&quot;</title>",
            "behind the emulated link <code>ppp</code>",
            "2 of 3 requests in the capture",
            "<b>120 ms</b><span>until the page was loaded</span>",
            ">/b?x=%3Cscript%3E</span>",
            "net::ERR_&lt;b&gt;",
            "No request of the capture has its method and target",
            "Carried by <a href=\"#connection-1\">connection 1</a>, the first request of it.",
            "<b>fast recovery</b> at 20.0 ms, cost 30.0 ms: 2 segments lost and sent again",
            "<h3>fast recovery</h3><p>1 time, 30.0 ms together</p>",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        for outside in ["<script", "http-equiv", "src=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}: {page}");
        }
        // Nothing is drawn beside the waterfall.
        for bar in page.split("style=\"left:").skip(1) {
            let left: f64 = bar
                .split('%')
                .next()
                .and_then(|left| left.parse().ok())
                .expect("a share");
            let width = bar.split("width:").nth(1).and_then(|rest| rest.split('%').next());
            let is_bar = bar.split('"').next().is_some_and(|style| style.contains("width"));
            let width: f64 = width
                .filter(|_| is_bar)
                .and_then(|width| width.parse().ok())
                .unwrap_or(0.0);
            assert!(left >= 0.0 && left + width <= 100.1, "{bar:.80}");
        }
        // The finding delayed both objects of its connection, and is listed with each.
        assert_eq!(page.matches("<li><b>fast recovery</b>").count(), 2, "{page}");
    }

    #[test]
    fn without_a_capture_the_page_says_so_and_has_one_bar_each() {
        let mut visit = visit(&[("/a", 0, 5.0, 100.0)]);
        visit.is_observed = false;
        let page = visit.joined(0).page();
        assert!(
            page.contains("no capture") && page.contains("track one"),
            "{page}"
        );
        for absent in ["<h2>Connections", "<h2>Findings", "class=\"p ", "in the capture"] {
            assert!(!page.contains(absent), "{absent}: {page}");
        }
    }

    #[test]
    fn what_the_archive_lacks_is_told() {
        let mut visit = visit(&[("/a", 0, 5.0, 100.0)]);
        assert!(!visit.joined(0).page().contains("missing here"));
        visit.archive.page.left_out = LeftOut {
            requests: 7,
            messages: 2,
        };
        let page = visit.joined(0).page();
        for part in [
            "Requests beyond the limits of Weir, which are missing here: 7.",
            "could not be read, so that requests may be missing here: 2.",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn every_wait_has_a_color_and_the_names_of_the_table() {
        for (class, ..) in WAITS {
            assert!(
                STYLE.contains(&format!(".{class}{{background:var(--{class})}}")),
                "{class}"
            );
            // One for light and one for dark.
            assert_eq!(STYLE.matches(&format!("--{class}:")).count(), 2, "{class}");
        }
        let columns = BEFORE.iter().chain(&AFTER).map(|(name, _)| *name);
        let classes = [
            "queued",
            "lookup",
            "connect",
            "tls",
            "round_trip",
            "server",
            "behind",
            "loss",
            "ack_timer",
            "flow_control",
            "transfer",
            "rest",
        ];
        assert!(columns.eq(classes.map(|class| format!("{class}_ms"))));
    }

    #[test]
    fn more_rows_than_the_limit_are_counted() {
        let entries: Vec<(String, u32)> = (0..ROWS_MAX + 5)
            .map(|number| (format!("/{number}"), number as u32 % 900))
            .collect();
        let entries: Vec<(&str, u32, f64, f64)> = entries
            .iter()
            .map(|(name, at)| (name.as_str(), *at, 0.0, 1.0))
            .collect();
        let page = visit(&entries).joined(0).page();
        assert_eq!(page.matches("<details").count(), ROWS_MAX);
        assert!(page.contains("The first 1000 of 1005 objects."), "limit");
    }

    #[test]
    fn totals_count_what_is_not_listed() {
        let mut visit = visit(&[("/a", 0, 5.0, 100.0)]);
        for _ in 0..FINDINGS_MAX {
            visit.event(&recovery());
        }
        let page = visit.joined(START_NS).page();
        assert!(
            page.contains("<p>1000 times,") && !page.contains("list the first"),
            "{page}"
        );
        visit.totals.connections = CONNECTIONS_MAX as u64 + 3;
        visit.event(&recovery());
        // Beyond this limit, results are no longer kept.
        visit.kept = RESULTS_MAX;
        visit.event(&recovery());
        let page = visit.joined(START_NS).page();
        for part in [
            "<p>1002 times,",
            "list the first 1000 of 1002 findings.",
            "<b>203</b><span>connections</span>",
            "The first 0 of 203 connections.",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn numbers_have_the_digits_that_matter() {
        for (number, text) in [
            (0.04, "0"),
            (12.34, "12.3"),
            (999.9, "999.9"),
            (1_234.5, "1,234"),
            (1_234_567.0, "1,234,567"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }
}
