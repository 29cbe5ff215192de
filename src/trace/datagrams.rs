//! UDP and DNS in the text report: totals of the capture, and the slowest lookups.

use super::counters::milliseconds;
use super::report::Book;
use super::security::printable;
use super::text::{of, spread};
use super::words;
use ::trace::{Lookup, Summary};
use std::fmt::Write;

// Writing to a String cannot fail; its results are dropped, here and below.

/// Datagrams by protocol, for the line of frames by content.
pub(super) fn frames(summary: &Summary) -> [(&'static str, u64); 3] {
    let (dns, quic) = (summary.udp.dns_datagrams, summary.udp.quic_datagrams);
    let all = summary.udp.from_clients.datagrams + summary.udp.from_servers.datagrams;
    [("QUIC", quic), ("DNS", dns), ("other UDP", all - dns - quic)]
}

/// UDP and DNS in numbers; nothing without datagrams.
pub(super) fn totals(out: &mut String, summary: &Summary) {
    let udp = &summary.udp;
    let (clients, servers) = (udp.from_clients, udp.from_servers);
    if clients.datagrams + servers.datagrams == 0 {
        return;
    }
    let _ = write!(
        out,
        "\nUDP: {} of ends, {} datagrams and {} B from clients, {} and {} B from servers",
        words::counted(udp.flows, "pair"),
        clients.datagrams,
        clients.payload,
        servers.datagrams,
        servers.payload
    );
    if udp.evicted > 0 {
        let _ = write!(
            out,
            "; {} reported early because of --connections-max",
            udp.evicted
        );
    }
    out.push('\n');
    let dns = &udp.dns;
    if udp.dns_datagrams == 0 {
        return;
    }
    let _ = write!(
        out,
        "DNS: {}, {} answered",
        words::counted(dns.questions, "lookup"),
        dns.answered
    );
    let parts = [
        ("unanswered", dns.unanswered),
        ("of names that do not exist", dns.nonexistent),
        ("failed", dns.failed),
        ("queries sent again", dns.repeated),
        ("responses without a query", dns.unmatched_responses),
        ("messages not readable", dns.malformed),
    ];
    for (what, count) in parts.iter().filter(|(_, count)| *count > 0) {
        let _ = write!(out, ", {count} {what}");
    }
    out.push('\n');
    spread(out, "round trips", &dns.round_trip);
}

/// The slowest lookups.
pub(super) fn lookups(out: &mut String, book: &Book) {
    if book.lookups.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\nslowest DNS lookups, unanswered ones first{}",
        of(book.lookups.len(), book.lookups_seen)
    );
    let servers: Vec<String> = book
        .lookups
        .iter()
        .map(|lookup| lookup.server.to_string())
        .collect();
    let width = servers.iter().map(String::len).max().unwrap_or(0).max(6);
    let _ = writeln!(
        out,
        "{:>12} {:>9} {:>5} {:<width$} {:<10} {:<6} name",
        "start", "wait", "sent", "server", "result", "type"
    );
    for (lookup, server) in book.lookups.iter().zip(servers) {
        let _ = writeln!(
            out,
            "{:>10.6} s {:>9} {:>5} {server:<width$} {:<10} {:<6} {}",
            lookup.start.as_secs_f64(),
            lookup.wait.map_or("none".to_owned(), milliseconds),
            lookup.transmissions,
            result(lookup),
            record(lookup.record),
            printable(&lookup.name)
        );
    }
}

/// The result of a lookup, by the names of the response codes (RFC 6895, section 2.3).
pub(super) fn result(lookup: &Lookup) -> String {
    match lookup.code {
        None => "unanswered".to_owned(),
        Some(0) if lookup.truncated => "truncated".to_owned(),
        Some(0) => words::counted(lookup.answers, "record"),
        Some(1) => "FORMERR".to_owned(),
        Some(2) => "SERVFAIL".to_owned(),
        Some(3) => "NXDOMAIN".to_owned(),
        Some(4) => "NOTIMP".to_owned(),
        Some(5) => "REFUSED".to_owned(),
        Some(code) => format!("code {code}"),
    }
}

/// Name of a record type; of the others, the form of RFC 3597.
pub(super) fn record(number: u16) -> String {
    let name = match number {
        1 => "A",
        2 => "NS",
        5 => "CNAME",
        6 => "SOA",
        12 => "PTR",
        15 => "MX",
        16 => "TXT",
        28 => "AAAA",
        33 => "SRV",
        43 => "DS",
        48 => "DNSKEY",
        64 => "SVCB",
        65 => "HTTPS",
        255 => "ANY",
        257 => "CAA",
        _ => return format!("TYPE{number}"),
    };
    name.to_owned()
}
