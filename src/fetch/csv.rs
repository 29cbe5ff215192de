//! A fetch as CSV (RFC 4180): a row for each object. Times in milliseconds from the start of the fetch, sizes in bytes.

use super::Run;
use client::timeline::{Fate, Timeline};
use std::fmt::Write;
use units::Instant;

/// Columns of the table.
const HEADER: &str = "url,role,status,fate,protocol,connection,stream,found_ms,asked_ms,sent_ms,first_byte_ms,last_byte_ms,\
    head_bytes,body_bytes,content_bytes,requests\n";

/// The table of a fetch.
pub(super) fn of(run: &Run) -> String {
    let timeline: &Timeline = &run.timeline;
    let at = |instant: Instant| format!("{:.3}", instant.since(timeline.began).as_secs_f64() * 1e3);
    let maybe = |instant: Option<Instant>| instant.map_or(String::new(), at);
    let mut text = HEADER.to_owned();
    for object in &timeline.objects {
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
            "{},{},{},{fate},{protocol},{},{},{},{},{},{},{},{},{},{},{}",
            quoted(&object.url),
            object.role.name(),
            object.status.map_or(String::new(), |status| status.to_string()),
            last.map_or(String::new(), |one| one.connection.to_string()),
            last.and_then(|one| one.stream)
                .map_or(String::new(), |stream| stream.to_string()),
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
    text
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
        assert_eq!(HEADER.split(',').count(), 16);
    }
}
