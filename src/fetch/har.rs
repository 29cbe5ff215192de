//! A fetch as an HTTP archive (HAR 1.2, <http://www.softwareishard.com/blog/har-12-spec/>). Bodies are left out.
//!
//! One entry per request that got a response. `blocked` is the time from discovery to sending, `wait` the time to the
//! first byte; the first request of a connection has `connect`, which includes `ssl`, the TLS handshake. The lookup of the
//! host's name is `dns` of the page's first request and the beginning of the archive's times, unlike those of the fetch.
//! -1 means not applicable. Over HTTP/2 an entry has fields of its own: `_stream`, `_priority`, and `_waits` with milliseconds by what
//! the response waited for.

use super::Run;
use crate::archive::civil::{date, earlier};
use client::explain::{StreamTime, Wait, hints, streams};
use client::timeline::{Fate, Object, Role, Source, Timeline, Try};
use serde_json::{Value, json};
use units::{Duration, Word as _};
use url::Url;

pub(super) fn of(page: &Url, run: &Run) -> Value {
    let timeline = &run.timeline;
    let streams = streams(timeline);
    let hints = hints(timeline);
    let entries: Vec<Value> = timeline
        .objects
        .iter()
        .enumerate()
        .flat_map(|(number, object)| {
            let tries = object.tries.iter().enumerate();
            tries.map(move |(place, one)| (number, object, place, one))
        })
        .filter(|(.., one)| one.first.is_some())
        .map(|(number, object, place, one)| {
            let dns = run.dns.filter(|_| (number, place) == (0, 0));
            let mut entry = entry(run, object, one, dns);
            let time = streams
                .iter()
                .find(|time| (time.object, time.one) == (number, place));
            add_stream(&mut entry, one, time);
            entry["_initiator"] = json!({ "type": object.initiator.word() });
            if let Some(parent) = object.parent {
                entry["_initiator"]["url"] = json!(timeline.objects[parent].url);
            }
            if hints.iter().any(|hint| hint.object == number) {
                entry["comment"] = json!("announced by 103 (Early Hints)");
            }
            entry
        })
        .collect();
    // As in a browser, a page begins with the lookup.
    let dns = run.dns.unwrap_or_default();
    let elapsed = milliseconds(timeline.ended - timeline.began + dns);
    let content = timeline
        .objects
        .iter()
        .find(|object| object.role == Role::Page && matches!(object.fate, Fate::Done(_)))
        .and_then(|object| object.tries.last()?.last)
        .map(|last| milliseconds(last - timeline.began + dns));
    json!({ "log": {
        "version": "1.2",
        "creator": { "name": "weir", "version": env!("CARGO_PKG_VERSION") },
        "pages": [{
            "startedDateTime": date(earlier(run.began, dns), Duration::ZERO),
            "id": "page_1",
            "title": page.as_str(),
            "pageTimings": { "onContentLoad": content.unwrap_or(-1.0), "onLoad": elapsed },
            "comment": format!("mode {}; onContentLoad: the page itself was complete", run.manner),
        }],
        "entries": entries,
    } })
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Adds what only a request over HTTP/2 has.
fn add_stream(entry: &mut Value, one: &Try, time: Option<&StreamTime>) {
    let Some(stream) = one.stream else { return };
    entry["_stream"] = json!(stream);
    entry["_priority"] = json!(one.priority);
    if let Some(time) = time {
        let waits = Wait::ALL.iter().zip(time.waits);
        let waits = waits.map(|(wait, took)| (wait.name().to_owned(), json!(milliseconds(took))));
        entry["_waits"] = Value::Object(waits.collect());
    }
}

/// An entry; `dns` is how long the lookup before it took.
fn entry(run: &Run, object: &Object, one: &Try, dns: Option<Duration>) -> Value {
    let timeline: &Timeline = &run.timeline;
    let connection = &timeline.connections[one.connection];
    let first = one.first.unwrap_or(one.asked);
    let last = one.last.unwrap_or(first);
    let sent = one.sent.unwrap_or(one.asked);
    let is_opening = connection.opened == one.asked;
    let stands = connection.ready().unwrap_or(connection.opened).min(first);
    let ssl = connection
        .handshake()
        .filter(|_| is_opening)
        .map_or(-1.0, milliseconds);
    let (connect, left) = if is_opening {
        (milliseconds(stands - connection.opened), sent.max(stands))
    } else {
        (-1.0, sent.min(first))
    };
    let began = object.found.min(one.asked);
    let until = if is_opening { connection.opened } else { left };
    let blocked = milliseconds(until - began);
    let (wait, receive) = (milliseconds(first - left), milliseconds(last - first));
    let mut head = one.request.split("\r\n");
    let line: Vec<&str> = head.next().unwrap_or_default().split(' ').collect();
    let sent_fields: Vec<Value> = head
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| json!({ "name": name, "value": value }))
        .collect();
    let fields: Vec<Value> = one
        .fields
        .iter()
        .map(|(name, value)| json!({ "name": name, "value": value }))
        .collect();
    let to = client::cache::field(&one.fields, "location").unwrap_or_default();
    let is_validated = object.fate == Fate::Done(Source::Validated) && one.status != 200;
    let query: Vec<Value> = Url::parse(&object.url).map_or(Vec::new(), |url| {
        url.query_pairs()
            .map(|(name, value)| json!({ "name": name, "value": value }))
            .collect()
    });
    let version = match line.get(2) {
        Some(&version @ ("HTTP/2" | "HTTP/3")) => version,
        _ => "HTTP/1.1",
    };
    let started = earlier(run.began, dns.unwrap_or_default());
    let dns = dns.map_or(-1.0, milliseconds);
    let mut entry = json!({
        "pageref": "page_1",
        "startedDateTime": date(started, began - timeline.began),
        "time": blocked + dns.max(0.0) + connect.max(0.0) + wait + receive,
        "request": {
            "method": line.first(), "url": object.url, "httpVersion": line.get(2), "cookies": [],
            "headers": sent_fields, "queryString": query, "headersSize": one.request.len(), "bodySize": 0,
        },
        "response": {
            "status": one.status, "statusText": one.reason, "httpVersion": version, "cookies": [], "headers": fields,
            "content": { "size": object.content_bytes, "mimeType": object.media },
            "redirectURL": to, "headersSize": one.head_bytes, "bodySize": one.body_bytes,
        },
        "cache": if is_validated { json!({ "comment": "validated" }) } else { json!({}) },
        "timings": {
            "blocked": blocked, "dns": dns, "connect": connect, "send": 0, "wait": wait, "receive": receive, "ssl": ssl,
        },
        "connection": one.connection.to_string(),
    });
    if let Some(peer) = run.peer {
        entry["serverIPAddress"] = json!(peer.ip().to_string());
    }
    entry
}
