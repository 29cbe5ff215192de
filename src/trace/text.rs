//! The text report: the whole capture, or one connection, as plain tables.

use super::counters::{DIRECTION, TOTALS, end, milliseconds, vantage};
use super::datagrams;
use super::quic;
use super::report::{Book, Listed};
use super::security;
use super::source::Ending;
use super::words;
use ::trace::{Finding, FindingTotals, Spread, Summary, Tls, Transaction};
use std::fmt::Write;
use std::time::{Duration as Span, SystemTime};
use tls::names;
use units::{Bytes, Duration};

/// Width of a bar in the timeline of requests, in columns.
const BAR: usize = 32;
/// Width of running text, in columns.
const WIDTH: usize = 100;

/// Time from a request's first byte to its response's last byte.
pub(super) fn took(t: &Transaction) -> Duration {
    t.request + t.wait.unwrap_or_default() + t.receive.unwrap_or_default()
}

/// The report on the whole capture.
pub(super) fn capture(book: &Book, summary: &Summary, ending: &Ending) -> String {
    let mut out = String::new();
    heading(&mut out, summary, ending);
    if summary.volume.packets > 0 {
        totals(&mut out, summary);
        connections_in_numbers(&mut out, summary);
        tls(&mut out, summary);
    }
    datagrams::totals(&mut out, summary);
    quic::totals(&mut out, summary);
    if summary.volume.packets + summary.quic.connections > 0 {
        http(&mut out, summary);
    }
    kinds(&mut out, summary);
    findings(&mut out, &book.findings, book.findings_seen, "costliest findings");
    connections(&mut out, book);
    quic::connections(&mut out, book);
    requests(&mut out, book, "slowest requests");
    datagrams::lookups(&mut out, book);
    notes(&mut out, summary, ending);
    out
}

// Writing to a String cannot fail; its results are dropped, here and below.

fn heading(out: &mut String, summary: &Summary, ending: &Ending) {
    let frames = &summary.frames;
    let _ = write!(out, "{}: {} frames", ending.name(), frames.total);
    if frames.total > 0 {
        let since = SystemTime::UNIX_EPOCH + Span::from_nanos(summary.start_ns);
        let _ = write!(
            out,
            ", {} on the wire, {:.6} s from {}",
            Bytes(frames.wire_bytes),
            summary.duration.as_secs_f64(),
            httpdate::fmt_http_date(since)
        );
    }
    out.push('\n');
    let [quic, dns, udp] = datagrams::frames(summary);
    let others = [
        quic,
        dns,
        udp,
        ("other IP", frames.other_ip),
        ("IP fragments", frames.fragments),
        ("not IP", frames.not_ip),
        ("malformed", frames.malformed),
        ("of unknown link types", frames.unknown_link),
        ("excluded by the filter", frames.turned_away),
    ];
    let named: Vec<String> = others
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(what, count)| format!("{count} {what}"))
        .collect();
    if frames.total > 0 {
        let _ = write!(out, "{} TCP", frames.tcp);
        for one in named {
            let _ = write!(out, ", {one}");
        }
        if frames.joined > 0 {
            let _ = write!(out, "; {} datagrams reassembled from fragments", frames.joined);
        }
        out.push('\n');
    }
}

fn totals(out: &mut String, summary: &Summary) {
    let rows = TOTALS.iter().map(|counter| {
        let of = |totals| (counter.of)(totals).text();
        [
            counter.words.to_owned(),
            of(&summary.from_clients),
            of(&summary.from_servers),
        ]
    });
    out.push('\n');
    columns(out, ["", "from clients", "from servers"], rows);
    let volume = summary.volume;
    let _ = writeln!(
        out,
        "\nboth: {} packets, {} B payload; {} B with 40-byte headers ({:.1} % overhead), {} B with true headers ({:.1} %)",
        volume.packets,
        volume.payload,
        volume.with_40(),
        volume.overhead_40(),
        volume.payload + volume.headers,
        volume.overhead()
    );
}

/// A table with names on the left and values on the right; rows without any value are left out.
pub(super) fn columns(out: &mut String, names: [&str; 3], rows: impl Iterator<Item = [String; 3]>) {
    let rows: Vec<[String; 3]> = rows
        .filter(|[words, a, b]| !(words.starts_with(' ') && is_nothing(a) && is_nothing(b)))
        .collect();
    let width = |column: usize| {
        let all = rows.iter().map(|row| row[column].len());
        all.max().unwrap_or(0).max(names[column].len())
    };
    let widths = [width(0), width(1), width(2)];
    for row in std::iter::once(&names.map(str::to_owned)).chain(&rows) {
        let _ = writeln!(
            out,
            "{:<first$}  {:>second$}  {:>third$}",
            row[0],
            row[1],
            row[2],
            first = widths[0],
            second = widths[1],
            third = widths[2]
        );
    }
}

fn is_nothing(text: &str) -> bool {
    matches!(text, "0" | "0 B" | "0 ms" | "-" | "0.0 %")
}

fn connections_in_numbers(out: &mut String, summary: &Summary) {
    let c = &summary.connections;
    let _ = writeln!(
        out,
        "\nconnections: {} seen, {} established, at most {} at once, {:.2} on average",
        c.seen, c.established, c.established_max, c.established_mean
    );
    let ended = [
        ("closed", c.closed),
        ("reset", c.reset),
        ("open at the end", c.open),
        ("silent for too long", c.idle),
        ("reported early because of --connections-max", c.evicted),
    ];
    let ended: Vec<String> = ended
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(how, count)| format!("{count} {how}"))
        .collect();
    let _ = writeln!(
        out,
        "  {}; established {:.3} s on average, {:.3} s in total",
        ended.join(", "),
        c.mean_duration.as_secs_f64(),
        c.connect_time.as_secs_f64()
    );
    spread(out, "handshakes", &c.handshake);
    let cwnd = &summary.cwnd_distribution;
    if cwnd.samples > 0 {
        let median = cwnd.cdf.iter().find(|(_, share)| *share >= 0.5);
        let _ = writeln!(
            out,
            "  estimated congestion window: mean {:.0} B, largest {} B, median {} segments, of {} round trips",
            cwnd.mean_bytes,
            cwnd.max_bytes,
            median.map_or(0, |(segments, _)| *segments),
            cwnd.samples
        );
    }
}

fn tls(out: &mut String, summary: &Summary) {
    let tls = &summary.tls;
    if tls.connections == 0 {
        return;
    }
    let parts = [
        ("with TLS 1.3", tls.tls13),
        ("with TLS 1.2", tls.tls12),
        ("resumed", tls.resumed),
        ("with a HelloRetryRequest", tls.retried),
        ("ended by an alert", tls.alerted),
        ("decrypted", tls.decrypted),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(what, count)| format!("{count} {what}"))
        .collect();
    let _ = writeln!(
        out,
        "TLS: {}; {}",
        words::counted(tls.connections, "connection"),
        parts.join(", ")
    );
    spread(out, "handshakes", &tls.handshake);
}

fn http(out: &mut String, summary: &Summary) {
    let http = &summary.http;
    if http.requests + http.unmatched_responses == 0 {
        return;
    }
    let _ = write!(
        out,
        "HTTP: {} requests, {} answered, {} pipelined, {} unanswered, {} responses without a request",
        http.requests, http.responses, http.pipelined, http.unanswered, http.unmatched_responses
    );
    if http.unmatched_requests > 0 {
        let _ = write!(
            out,
            ", {} requests whose response is ambiguous",
            http.unmatched_requests
        );
    }
    if let Some(packets) = summary.packets_per_request {
        let _ = write!(out, "; {packets:.1} packets per request");
    }
    out.push('\n');
    spread(out, "wait for response", &summary.http_wait);
    spread(out, "total time", &summary.http_total);
}

/// Least, greatest and mean of some times; nothing if there are none.
pub(super) fn spread(out: &mut String, what: &str, times: &Spread) {
    if times.count > 0 {
        let _ = writeln!(
            out,
            "  {what}: {} to {}, mean {}",
            milliseconds(times.min),
            milliseconds(times.max),
            milliseconds(times.mean())
        );
    }
}

/// Each kind of finding with its cost and remedy, the costliest first.
fn kinds(out: &mut String, summary: &Summary) {
    if summary.findings.is_empty() {
        if summary.volume.packets + summary.quic.decrypted > 0 {
            out.push_str("\nno findings: no known waste of time\n");
        }
        return;
    }
    let mut kinds: Vec<(&str, &FindingTotals)> = summary
        .findings
        .iter()
        .map(|(title, totals)| (*title, totals))
        .collect();
    kinds.sort_by_key(|(_, totals)| std::cmp::Reverse(totals.cost));
    let _ = writeln!(
        out,
        "\n{:<34} {:>7} {:>10} {:>10}",
        "what cost time", "count", "total", "longest"
    );
    for (title, totals) in kinds {
        let _ = writeln!(
            out,
            "{title:<34} {:>7} {:>10} {:>10}",
            totals.count,
            milliseconds(totals.cost),
            milliseconds(totals.cost_max)
        );
        wrapped(out, totals.remedy, "    ");
    }
    out.push_str("Costs on parallel connections overlap: their sum is not a share of the elapsed time.\n");
}

/// Running text, wrapped and indented.
fn wrapped(out: &mut String, text: &str, indent: &str) {
    let mut column = 0;
    for word in text.split(' ') {
        if column > 0 && column + 1 + word.len() > WIDTH {
            out.push('\n');
            column = 0;
        }
        if column == 0 {
            out.push_str(indent);
            column = indent.len();
        } else {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += word.len();
    }
    out.push('\n');
}

fn findings(out: &mut String, findings: &[Finding], seen: u64, title: &str) {
    if findings.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{title}{}", of(findings.len(), seen));
    let _ = writeln!(
        out,
        "{:>10} {:>12} {:>6} {:<6}  what",
        "cost", "at", "conn", "from"
    );
    for f in findings {
        let _ = writeln!(
            out,
            "{:>10} {:>10.6} s {:>6} {:<6}  {}: {}; packets {}",
            milliseconds(f.cost),
            f.at.as_secs_f64(),
            f.connection.0,
            words::side(f.sender),
            f.kind.title(),
            words::measures(f),
            words::packets(&f.packets)
        );
    }
}

/// The number of rows shown and in total.
pub(super) fn of(shown: usize, seen: u64) -> String {
    if shown as u64 == seen {
        format!(" ({seen})")
    } else {
        format!(" ({shown} of {seen}; --top shows more, --csv all)")
    }
}

fn connections(out: &mut String, book: &Book) {
    if book.connections.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\nconnections by time lost, then size{}",
        of(book.connections.len(), book.connections_seen)
    );
    let ends = |listed: &Listed| {
        let c = &listed.connection;
        (c.client.to_string(), c.server.to_string())
    };
    let width = |pick: fn(&(String, String)) -> usize| {
        let all = book.connections.iter().map(|listed| pick(&ends(listed)));
        all.max().unwrap_or(0).max(6)
    };
    let (client, server) = (width(|e| e.0.len()), width(|e| e.1.len()));
    let _ = writeln!(
        out,
        "{:>6} {:<client$} {:<server$} {:>11} {:>10} {:>13} {:>19} {:>6} {:>9} {:>5} {:>9}  end",
        "conn", "client", "server", "start", "lasted", "packets", "payload", "again", "rtt", "reqs", "lost"
    );
    for listed in &book.connections {
        let c = &listed.connection;
        let (a, b) = (&c.from_client, &c.from_server);
        let rtt = [a.rtt, b.rtt]
            .into_iter()
            .filter(|rtt| rtt.count > 0)
            .map(|rtt| rtt.min)
            .max();
        let ends = ends(listed);
        let _ = writeln!(
            out,
            "{:>6} {:<client$} {:<server$} {:>9.3} s {:>10} {:>6}/{:<6} {:>9}/{:<9} {:>6} {:>9} {:>5} {:>9}  {}{}",
            c.id.0,
            ends.0,
            ends.1,
            c.start.as_secs_f64(),
            milliseconds(c.duration),
            a.volume.packets,
            b.volume.packets,
            a.volume.payload,
            b.volume.payload,
            a.retransmissions.packets + b.retransmissions.packets,
            rtt.map_or("-".to_owned(), milliseconds),
            c.http.map_or("-".to_owned(), |http| http.requests.to_string()),
            milliseconds(listed.cost),
            end(c.end),
            c.tls
                .as_ref()
                .map_or(String::new(), |tls| format!("; {}", security::tls(tls)))
        );
    }
}

fn requests(out: &mut String, book: &Book, title: &str) {
    if book.requests.is_empty() {
        return;
    }
    let first = book.requests.iter().map(|t| t.start).min().unwrap_or_default();
    let last = book.requests.iter().map(|t| t.start + took(t)).max();
    let span = last.unwrap_or_default().saturating_sub(first);
    let _ = writeln!(
        out,
        "\n{title}{}; in the bar ~ is sent, - waited for, = received",
        of(book.requests.len(), book.requests_seen)
    );
    let _ = writeln!(
        out,
        "{:>6} {:>4} {:>12} {:>9} {:>9} {:>5} {:>6} {:>9} {:>7}  {:<BAR$}  request",
        "conn", "no.", "start", "wait", "receive", "ahead", "status", "body", "packets", ""
    );
    for t in &book.requests {
        let time = |time: Option<Duration>| time.map_or("-".to_owned(), milliseconds);
        let _ = writeln!(
            out,
            "{:>6} {:>4} {:>10.6} s {:>9} {:>9} {:>5} {:>6} {:>7} B {:>7}  {}  {} {}{}{}",
            t.connection.0,
            t.index,
            t.start.as_secs_f64(),
            time(t.wait),
            time(t.receive),
            t.ahead,
            t.status.map_or("none".to_owned(), |status| status.to_string()),
            t.response_body_bytes,
            t.packets,
            bar(t, first, span),
            security::printable(&t.method),
            security::printable(&t.target),
            words::stream(t),
            if t.complete {
                ""
            } else {
                " (no complete response seen)"
            }
        );
    }
}

/// The bar of a request on a time axis from the first request to the last.
fn bar(t: &Transaction, first: Duration, span: Duration) -> String {
    let column = |at: Duration| {
        let share = at.saturating_sub(first).as_secs_f64() / span.as_secs_f64().max(1e-9);
        ((share * BAR as f64) as usize).min(BAR - 1)
    };
    let sent = t.start + t.request;
    let answered = sent + t.wait.unwrap_or_default();
    let done = answered + t.receive.unwrap_or_default();
    let (from, to) = (column(t.start), column(done));
    (0..BAR)
        .map(|place| match place {
            _ if place < from || place > to => ' ',
            _ if t.receive.is_some() && place >= column(answered) => '=',
            _ if place >= column(sent) => '-',
            _ => '~',
        })
        .collect()
}

fn notes(out: &mut String, summary: &Summary, ending: &Ending) {
    let mut notes = Vec::new();
    if let Some(dropped) = ending.dropped().filter(|dropped| *dropped > 0) {
        notes.push(format!(
            "the kernel dropped {dropped} packets before they could be read: every counter is a lower bound"
        ));
    }
    let frames = &summary.frames;
    if frames.cut_headers > 0 {
        notes.push(format!(
            "{} frames were cut before the end of their headers and were only counted",
            frames.cut_headers
        ));
    }
    if frames.cut_payload > 0 {
        notes.push(format!(
            "{} segments were captured only in part: requests and responses that begin in the missing bytes are not seen, \
             most of them under a short snapshot length",
            frames.cut_payload
        ));
    }
    if summary.http.cut_heads > 0 {
        notes.push(format!(
            "{} HTTP header sections are cut off by the snapshot length: these requests and responses are missing from \
             every list and count; capture whole packets (tcpdump -s 0)",
            summary.http.cut_heads
        ));
    }
    let parts = frames.fragments.saturating_sub(frames.joined_fragments);
    if parts > 0 {
        notes.push(format!(
            "{parts} IP fragments were only counted: the rest of their datagrams was not captured whole"
        ));
    }
    if summary.frames.time_backwards > 0 {
        notes.push(format!(
            "{}; times nearby are unreliable",
            match summary.frames.time_backwards {
                1 => "1 frame is older than the frame before it".to_owned(),
                more => format!("{more} frames are older than the frame before them"),
            }
        ));
    }
    if summary.frames.time_wrong > 0 {
        notes.push(format!(
            "{} a time that contradicts its neighbors, replaced by the time of the frame before",
            match summary.frames.time_wrong {
                1 => "1 frame has".to_owned(),
                more => format!("{more} frames have"),
            }
        ));
    }
    if summary.untracked_segments > 0 {
        notes.push(format!(
            "{} segments could not be tracked until their acknowledgment: some round trips and stalls are missing",
            summary.untracked_segments
        ));
    }
    if summary.connections.evicted > 0 {
        notes.push(format!(
            "{} connections were reported early; raise --connections-max",
            summary.connections.evicted
        ));
    }
    let tls = &summary.tls;
    let closed = tls.connections - tls.decrypted - tls.undecrypted;
    if closed > 0 {
        notes.push(format!(
            "{} with TLS not decrypted: requests within are not seen; name the key log of the client or server with --keys",
            words::counted(closed, "connection")
        ));
    }
    if tls.undecrypted > 0 {
        notes.push(format!(
            "{} with TLS not decrypted, although there are secrets: not theirs, or their cipher suite is not supported; \
             --connection N says which",
            words::counted(tls.undecrypted, "connection")
        ));
    }
    notes.extend(quic::notes(summary));
    if summary.refused_secrets > 0 {
        notes.push(format!(
            "the key log holds the secrets of {} connections too many; these were not kept",
            summary.refused_secrets
        ));
    }
    if let Some(link) = summary.frames.unknown_link_type {
        notes.push(format!(
            "link type {link} is not supported; its frames were only counted"
        ));
    }
    if !notes.is_empty() {
        out.push('\n');
    }
    for note in notes {
        let _ = writeln!(out, "note: {note}");
    }
}

/// The report on one connection.
pub(super) fn connection(book: &Book, ending: &Ending) -> String {
    let mut out = String::new();
    for listed in &book.connections {
        one(&mut out, listed, ending);
    }
    for listed in &book.quic {
        quic::one(&mut out, listed, ending);
    }
    findings(&mut out, &book.findings, book.findings_seen, "findings");
    let mut kinds: Vec<(&str, &str)> = Vec::new();
    for finding in &book.findings {
        if !kinds.iter().any(|(title, _)| *title == finding.kind.title()) {
            kinds.push((finding.kind.title(), finding.kind.remedy()));
        }
    }
    for (title, remedy) in kinds {
        wrapped(&mut out, &format!("{title}: {remedy}"), "  ");
    }
    if book.findings.is_empty() {
        out.push_str("\nno findings: no known waste of time\n");
    }
    requests(&mut out, book, "requests");
    out
}

fn one(out: &mut String, listed: &Listed, ending: &Ending) {
    let c = &listed.connection;
    let _ = writeln!(
        out,
        "{}: connection {}, {} to {}, {}",
        ending.name(),
        c.id.0,
        c.client,
        c.server,
        end(c.end)
    );
    let optional = |time: Option<Duration>| time.map_or("none seen".to_owned(), milliseconds);
    let _ = writeln!(
        out,
        "  packets {} to {}, from {:.6} s for {}; handshake {}, established {}; {} findings cost {}",
        c.packets.0,
        c.packets.1,
        c.start.as_secs_f64(),
        milliseconds(c.duration),
        optional(c.handshake),
        optional(c.established),
        listed.findings,
        milliseconds(listed.cost)
    );
    if let Some(http) = c.http {
        let _ = writeln!(
            out,
            "  HTTP: {} requests, {} answered, {} pipelined, {} unanswered, {} responses without a request; \
             {:.1} packets per request",
            http.requests,
            http.responses,
            http.pipelined,
            http.unanswered,
            http.unmatched_responses,
            c.packets_per_request.unwrap_or_default()
        );
    }
    if let Some(tls) = &c.tls {
        secured(out, tls);
    }
    let _ = writeln!(out, "  captured near: {}\n", vantage(c.vantage));
    let rows = DIRECTION.iter().map(|counter| {
        let of = |direction| (counter.of)(direction).text();
        [counter.words.to_owned(), of(&c.from_client), of(&c.from_server)]
    });
    columns(out, ["", "from client", "from server"], rows);
}

/// What is known of a connection's TLS.
fn secured(out: &mut String, tls: &Tls) {
    let mut parts = vec![security::tls(tls)];
    if let Some(server) = &tls.server {
        parts.push(names::suite(server.cipher_suite));
        parts.extend(server.group.map(names::group));
    }
    let how = match tls.resumption {
        Some(resumption) => format!("resumed by {}", security::resumption(resumption)),
        None => "full handshake".to_owned(),
    };
    let retried = if tls.retried {
        " with a HelloRetryRequest"
    } else {
        ""
    };
    let took = tls
        .handshake
        .map_or(String::new(), |took| format!(" in {}", milliseconds(took)));
    if tls.server.is_some() {
        parts.push(format!("{how}{retried}{took}"));
    } else {
        parts.push("no ServerHello seen".to_owned());
    }
    parts.push(format!("{} and {} records", tls.records[0], tls.records[1]));
    parts.push(security::decryption(tls.decryption).to_owned());
    let _ = writeln!(out, "  {}", parts.join(", "));
}
