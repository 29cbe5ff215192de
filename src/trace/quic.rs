//! QUIC in the text report: totals of the capture, a table of connections, and everything about one.

use super::counters::{end, milliseconds};
use super::report::{Book, ListedQuic};
use super::security::{decryption, printable};
use super::source::Ending;
use super::text::{columns, of, spread};
use super::words;
use ::trace::{Decryption, Quic, QuicDirection, Spread, Summary};
use std::fmt::Write;
use tls::names;
use units::Duration;

// Writing to a String cannot fail; its results are dropped, here and below.

/// QUIC in numbers; nothing without connections.
pub(super) fn totals(out: &mut String, summary: &Summary) {
    let quic = &summary.quic;
    if quic.connections == 0 {
        return;
    }
    let parts = [
        ("with version 1", quic.version1),
        ("with version 2", quic.version2),
        ("with a Retry", quic.retried),
        ("with Version Negotiation", quic.negotiated),
        ("decrypted", quic.decrypted),
    ];
    let _ = write!(out, "QUIC: {}", words::counted(quic.connections, "connection"));
    for (what, count) in parts.iter().filter(|(_, count)| *count > 0) {
        let _ = write!(out, ", {count} {what}");
    }
    out.push('\n');
    spread(out, "handshakes", &quic.handshake);
    let (clients, servers) = (&quic.from_clients, &quic.from_servers);
    if quic.decrypted > 0 {
        let _ = writeln!(
            out,
            "  stream bytes: {} from clients and {} from servers, {} and {} sent again; packets lost: {} and {}",
            clients.stream_bytes,
            servers.stream_bytes,
            clients.stream_bytes_again,
            servers.stream_bytes_again,
            clients.lost,
            servers.lost
        );
    }
    spread(out, "round trips of clients", &clients.rtt);
    spread(out, "round trips of servers", &servers.rtt);
    spread(out, "spin bit of clients", &clients.spin);
    spread(out, "spin bit of servers", &servers.spin);
}

/// What the report leaves out, and what to do.
pub(super) fn notes(summary: &Summary) -> Vec<String> {
    let quic = &summary.quic;
    let mut notes = Vec::new();
    let closed = quic.connections - quic.decrypted - quic.undecrypted;
    if closed > 0 {
        notes.push(format!(
            "{} with QUIC not decrypted: streams, losses and requests within are not seen; name the key log of the client or \
             server with --keys",
            words::counted(closed, "connection")
        ));
    }
    if quic.undecrypted > 0 {
        notes.push(format!(
            "{} with QUIC not decrypted, although there are secrets: not theirs, or their cipher suite is not supported",
            words::counted(quic.undecrypted, "connection")
        ));
    }
    notes
}

/// Name of a version.
pub(super) fn version(number: u32) -> String {
    match number {
        1 => "QUIC 1".to_owned(),
        0x6b33_43cf => "QUIC 2".to_owned(),
        other => format!("QUIC version {other:#010x}"),
    }
}

/// Version, server name and protocol, for a column.
fn described(quic: &Quic) -> String {
    let name = quic
        .client_hello
        .as_ref()
        .and_then(|hello| hello.server_name.as_deref());
    [name, quic.alpn.as_deref()]
        .into_iter()
        .flatten()
        .fold(version(quic.version), |all, word| {
            format!("{all} {}", printable(word))
        })
}

/// The smallest round trip: that by acknowledgments, or that of the spin bit.
fn rtt(quic: &Quic) -> Option<Duration> {
    let longest = |a: &Spread, b: &Spread| {
        let all = [a, b].into_iter().filter(|spread| spread.count > 0);
        all.map(|spread| spread.min).max()
    };
    let (client, server) = (&quic.from_client, &quic.from_server);
    longest(&client.rtt, &server.rtt).or(longest(&client.spin, &server.spin))
}

/// The table of connections.
pub(super) fn connections(out: &mut String, book: &Book) {
    if book.quic.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\nQUIC connections by time lost, then size{}",
        of(book.quic.len(), book.quic_seen)
    );
    let ends: Vec<(String, String)> = book
        .quic
        .iter()
        .map(|listed| (listed.quic.client.to_string(), listed.quic.server.to_string()))
        .collect();
    let width = |pick: fn(&(String, String)) -> usize| ends.iter().map(pick).max().unwrap_or(0).max(6);
    let (client, server) = (width(|e| e.0.len()), width(|e| e.1.len()));
    let _ = writeln!(
        out,
        "{:>6} {:<client$} {:<server$} {:>11} {:>10} {:>9} {:>13} {:>19} {:>9} {:>9} {:>5} {:>9}  end",
        "conn",
        "client",
        "server",
        "start",
        "lasted",
        "handshake",
        "datagrams",
        "payload",
        "lost pkts",
        "rtt",
        "reqs",
        "lost"
    );
    for (listed, (a, b)) in book.quic.iter().zip(&ends) {
        let q = &listed.quic;
        let (from, to) = (&q.from_client, &q.from_server);
        let time = |time: Option<Duration>| time.map_or("-".to_owned(), milliseconds);
        let _ = writeln!(
            out,
            "{:>6} {a:<client$} {b:<server$} {:>9.3} s {:>10} {:>9} {:>6}/{:<6} {:>9}/{:<9} {:>9} {:>9} {:>5} {:>9}  {}; {}",
            q.id.0,
            q.start.as_secs_f64(),
            milliseconds(q.duration),
            time(q.handshake),
            from.volume.datagrams,
            to.volume.datagrams,
            from.volume.payload,
            to.volume.payload,
            lost(q),
            time(rtt(q)),
            q.http.map_or("-".to_owned(), |http| http.requests.to_string()),
            milliseconds(listed.cost),
            end(q.end),
            described(q)
        );
    }
}

/// Packets lost in both directions, or `-` where only the handshake could be read: acknowledgments are encrypted.
fn lost(quic: &Quic) -> String {
    let (from, to) = (&quic.from_client, &quic.from_server);
    match from.lost + from.lost_before + to.lost + to.lost_before {
        0 if !matches!(quic.decryption, Decryption::Done | Decryption::Stopped) => "-".to_owned(),
        packets => packets.to_string(),
    }
}

/// Everything about one connection.
pub(super) fn one(out: &mut String, listed: &ListedQuic, ending: &Ending) {
    let q = &listed.quic;
    let _ = writeln!(
        out,
        "{}: connection {}, {} to {}, {}",
        ending.name(),
        q.id.0,
        q.client,
        q.server,
        end(q.end)
    );
    let optional = |time: Option<Duration>| time.map_or("none seen".to_owned(), milliseconds);
    let _ = writeln!(
        out,
        "  packets {} to {}, from {:.6} s for {}; handshake {}, its last packet at {}; {} findings cost {}",
        q.packets.0,
        q.packets.1,
        q.start.as_secs_f64(),
        milliseconds(q.duration),
        optional(q.handshake),
        q.handshake_last
            .map_or("-".to_owned(), |at| format!("{:.6} s", at.as_secs_f64())),
        listed.findings,
        milliseconds(listed.cost)
    );
    let id = |id: &str| {
        if id.is_empty() {
            "none".to_owned()
        } else {
            id.to_owned()
        }
    };
    let _ = writeln!(
        out,
        "  connection IDs: first destination {}, client {}, server {}; {} datagrams with several packets",
        id(&q.original_id),
        id(&q.client_id),
        id(&q.server_id),
        q.coalesced
    );
    secured(out, q);
    if let Some(close) = &q.close {
        let _ = writeln!(
            out,
            "  closed by {}: {}{}",
            words::side(close.by),
            words::error(close.space, close.code),
            match printable(&close.reason) {
                reason if reason.is_empty() => String::new(),
                reason => format!(" ({reason})"),
            }
        );
    }
    if let Some(http) = q.http {
        let _ = writeln!(
            out,
            "  HTTP/3: {} requests, {} answered, {} unanswered",
            http.requests, http.responses, http.unanswered
        );
    }
    out.push('\n');
    columns(out, ["", "from client", "from server"], rows(q).into_iter());
    streams(out, q);
}

/// What the handshake says.
fn secured(out: &mut String, q: &Quic) {
    let mut parts = vec![described(q)];
    if q.offered_version != q.version {
        parts.push(format!("offered as {}", version(q.offered_version)));
    }
    if !q.supported_versions.is_empty() {
        let all: Vec<String> = q.supported_versions.iter().map(|one| version(*one)).collect();
        parts.push(format!("the server speaks {}", all.join(" and ")));
    }
    if q.retried {
        parts.push("with a Retry".to_owned());
    }
    if let Some(server) = &q.server_hello {
        parts.push(names::suite(server.cipher_suite));
        parts.extend(server.group.map(names::group));
        let how = if server.has_psk {
            "resumed"
        } else {
            "full handshake"
        };
        parts.push(how.to_owned());
    }
    if let (Some(hello), None) = (&q.client_hello, &q.alpn)
        && !hello.alpn.is_empty()
    {
        parts.push(format!("the client offers {}", printable(&hello.alpn.join(" "))));
    }
    if q.key_updates > 0 {
        parts.push(words::counted(q.key_updates, "key update"));
    }
    parts.push(decryption(q.decryption).to_owned());
    let _ = writeln!(out, "  {}", parts.join(", "));
}

fn rows(q: &Quic) -> Vec<[String; 3]> {
    let count = |words: &str, of: fn(&QuicDirection) -> u64| {
        [
            words.to_owned(),
            of(&q.from_client).to_string(),
            of(&q.from_server).to_string(),
        ]
    };
    let time = |words: &str, of: fn(&QuicDirection) -> Duration| {
        [
            words.to_owned(),
            milliseconds(of(&q.from_client)),
            milliseconds(of(&q.from_server)),
        ]
    };
    let mut rows = vec![
        count("datagrams", |d| d.volume.datagrams),
        count("payload, B", |d| d.volume.payload),
        count("headers of IP and UDP, B", |d| d.volume.headers),
        count("packets", |d| d.initial + d.zero_rtt + d.handshake + d.one_rtt),
        count("  Initial", |d| d.initial),
        count("  0-RTT", |d| d.zero_rtt),
        count("  Handshake", |d| d.handshake),
        count("  1-RTT", |d| d.one_rtt),
        count("  opened", |d| d.opened),
        count("  not authentic", |d| d.not_authentic),
        count("stream bytes", |d| d.stream_bytes),
        count("  sent again", |d| d.stream_bytes_again),
        count("lost packets", |d| d.lost + d.lost_before),
        count("  before the capture point", |d| d.lost_before),
        count("  acknowledged later", |d| d.spurious),
        count("out of order", |d| d.out_of_order),
        count("ACK frames", |d| d.acks),
        count("frames about blocking", |d| d.blocked),
        time("held back by flow control", |d| d.flow_control),
    ];
    for (words, of) in [
        (
            "round trips",
            (|d: &QuicDirection| d.rtt) as fn(&QuicDirection) -> Spread,
        ),
        ("round trips by the spin bit", |d| d.spin),
    ] {
        let (a, b) = (of(&q.from_client), of(&q.from_server));
        if a.count + b.count > 0 {
            rows.push([words.to_owned(), a.count.to_string(), b.count.to_string()]);
            rows.push(["  least".to_owned(), milliseconds(a.min), milliseconds(b.min)]);
            rows.push([
                "  mean".to_owned(),
                milliseconds(a.mean()),
                milliseconds(b.mean()),
            ]);
            rows.push(["  largest".to_owned(), milliseconds(a.max), milliseconds(b.max)]);
        }
    }
    rows
}

/// Streams shown at most; `--json` has all that were followed.
const STREAMS_SHOWN: usize = 100;

fn streams(out: &mut String, q: &Quic) {
    if q.streams.is_empty() {
        return;
    }
    let shown = q.streams.len().min(STREAMS_SHOWN);
    let _ = writeln!(out, "\nstreams ({shown} of {})", q.streams_seen);
    let _ = writeln!(
        out,
        "{:>8} {:>12} {:>10} {:>19} {:>15}  complete",
        "stream", "start", "lasted", "bytes", "again"
    );
    for stream in &q.streams[..shown] {
        let complete = match stream.complete {
            [true, true] => "both",
            [true, false] => "client",
            [false, true] => "server",
            [false, false] => "-",
        };
        let _ = writeln!(
            out,
            "{:>8} {:>10.6} s {:>10} {:>9}/{:<9} {:>7}/{:<7}  {complete}",
            stream.id,
            stream.start.as_secs_f64(),
            milliseconds(stream.duration),
            stream.bytes[0],
            stream.bytes[1],
            stream.again[0],
            stream.again[1]
        );
    }
}
