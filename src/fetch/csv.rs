//! Fetches as CSV (RFC 4180): a row for each object of each fetch. Instants are in milliseconds from the start of the
//! fetch, durations in milliseconds, sizes in bytes.

use super::Run;
use client::timeline::{Connection, Fate, Object, Timeline};
use std::fmt::Write;
use units::{Duration, Instant};

/// Columns of the table.
const HEADER: &str = "fetch,mode,url,role,status,fate,protocol,connection,stream,dns_ms,connect_ms,tls_ms,found_ms,asked_ms,sent_ms,\
    first_byte_ms,last_byte_ms,head_bytes,body_bytes,content_bytes,requests\n";

/// The table of these fetches, which have the numbers from 1.
pub(super) fn of(runs: &[Run]) -> String {
    let mut text = HEADER.to_owned();
    for (number, run) in (1..).zip(runs) {
        // The name is looked up once, before the first fetch.
        let dns = run.dns.filter(|_| number == 1);
        append(&mut text, number, run, dns);
    }
    text
}

/// Appends the rows of a fetch. `dns`: the time of the lookup before it.
fn append(text: &mut String, number: usize, run: &Run, dns: Option<Duration>) {
    let timeline: &Timeline = &run.timeline;
    let at = |instant: Instant| millis(instant.since(timeline.began));
    let maybe = |instant: Option<Instant>| instant.map_or(String::new(), at);
    let took = |span: Option<Duration>| span.map_or(String::new(), millis);
    for (place, object) in timeline.objects.iter().enumerate() {
        let fate = match &object.fate {
            Fate::Pending => "pending",
            Fate::Done(source) => source.name(),
            Fate::Moved(_) => "moved",
            Fate::Failed(_) => "failed",
        };
        let tries = &object.tries;
        let last = tries.last();
        let protocol = last.map_or("", |one| timeline.connections[one.connection].protocol);
        let _ = writeln!(
            text,
            "{number},{},{},{},{},{fate},{protocol},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            run.manner,
            quoted(&object.url),
            object.role.name(),
            object.status.map_or(String::new(), |status| status.to_string()),
            last.map_or(String::new(), |one| one.connection.to_string()),
            last.and_then(|one| one.stream)
                .map_or(String::new(), |stream| stream.to_string()),
            took(dns.filter(|_| place == 0)),
            took(opening(timeline, object, connecting)),
            took(opening(timeline, object, Connection::handshake)),
            at(object.found),
            maybe(tries.first().map(|one| one.asked)),
            maybe(tries.iter().find_map(|one| one.sent)),
            maybe(tries.iter().find_map(|one| one.first)),
            maybe(last.and_then(|one| one.last)),
            tries.iter().map(|one| one.head_bytes).sum::<u64>(),
            tries.iter().map(|one| one.body_bytes).sum::<u64>(),
            object.content_bytes,
            tries.len(),
        );
    }
}

fn millis(span: Duration) -> String {
    format!("{:.3}", span.as_secs_f64() * 1e3)
}

/// Sum of a time of the connections whose first request was for this object; `None` if none has it.
fn opening(
    timeline: &Timeline,
    object: &Object,
    time: impl Fn(&Connection) -> Option<Duration>,
) -> Option<Duration> {
    let first = object.tries.iter().filter(|one| one.turn == 0);
    let times = first.filter_map(|one| time(&timeline.connections[one.connection]));
    times.reduce(|sum, time| sum + time)
}

/// Time until TCP was established. QUIC and TLS have one handshake, which counts as that of TLS.
fn connecting(connection: &Connection) -> Option<Duration> {
    match connection.protocol {
        "h3" => None,
        _ => Some(connection.connected? - connection.opened),
    }
}

/// A value that may contain commas, quotes or line breaks.
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\r', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_where_they_must_be() {
        assert_eq!(quoted("http://h/a?b"), "http://h/a?b");
        assert_eq!(quoted("http://h/a,b"), "\"http://h/a,b\"");
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
        assert_eq!(HEADER.split(',').count(), 21);
    }
}
