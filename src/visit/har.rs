//! A visit as an HTTP archive (HAR 1.2), with the further fields that Chromium's own archives have (`_transferSize`,
//! `_resourceType`, `_priority`, `_fromCache`, `_error`), and one of Weir that counts what is missing (`_leftOut`). Bodies are left
//! out. The phases of a request follow each other: their sum is its time.

use super::log::{Exchange, Fate, Fields, Log, Response};
use crate::archive::civil::date;
use serde_json::{Value, json};
use units::{Duration, UnixTime};
use url::Url;

/// Milliseconds of consecutive phases; `None` if a phase does not apply.
#[derive(Debug, Default, PartialEq)]
struct Phases {
    blocked: f64,
    lookup: Option<f64>,
    connect: Option<f64>,
    tls: Option<f64>,
    send: f64,
    wait: f64,
    receive: f64,
}

/// The archive of a page. `product` is the browser's name and version, with a slash between.
pub(super) fn of(page: &Url, log: &Log, product: &str) -> Value {
    let first = log.exchanges.first();
    let (wall, issued) = first.map_or((0.0, 0.0), |first| (first.wall, first.issued));
    let since = |at: Option<f64>| at.map_or(-1.0, |at| milliseconds(at - issued));
    let (name, version) = product.split_once('/').unwrap_or((product, ""));
    let entries: Vec<Value> = log.exchanges.iter().map(entry).collect();
    let mut archive = json!({ "log": {
        "version": "1.2",
        "creator": { "name": "weir", "version": env!("CARGO_PKG_VERSION") },
        "browser": { "name": name, "version": version },
        "pages": [{
            "startedDateTime": civil(wall),
            "id": "page_1",
            "title": page.as_str(),
            "pageTimings": { "onContentLoad": since(log.content), "onLoad": since(log.load) },
        }],
        "entries": entries,
    } });
    if (log.left_out, log.unread) != (0, 0) {
        archive["log"]["_leftOut"] = json!({ "requests": log.left_out, "messages": log.unread });
    }
    archive
}

/// Milliseconds, without what a clock of microseconds does not have.
fn milliseconds(seconds: f64) -> f64 {
    (seconds * 1e6).round().max(0.0) / 1e3
}

fn civil(seconds: f64) -> String {
    // A number of an event may be any; years beyond 9999 have no spelling.
    let seconds = Duration::from_secs_f64(seconds.clamp(0.0, 2e11));
    date(UnixTime::from_secs(0), seconds)
}

fn entry(one: &Exchange) -> Value {
    let phases = Phases::of(one);
    let time = phases.blocked
        + phases.lookup.unwrap_or(0.0)
        + phases.connect.unwrap_or(0.0)
        + phases.send
        + phases.wait
        + phases.receive;
    let absent = |phase: Option<f64>| phase.unwrap_or(-1.0);
    let query: Vec<Value> = Url::parse(&one.url).map_or(Vec::new(), |url| {
        url.query_pairs()
            .map(|(name, value)| json!({ "name": name, "value": value }))
            .collect()
    });
    let response = one.response.as_ref();
    let version = response.map_or("", |response| version(&response.protocol));
    let error = match &one.fate {
        Fate::Done => None,
        Fate::Open | Fate::Abandoned => Some("unfinished"),
        Fate::Failed(why) => Some(why.as_str()),
    };
    let mut entry = json!({
        "pageref": "page_1",
        "startedDateTime": civil(one.wall),
        "time": time,
        "request": {
            "method": one.method, "url": one.url, "httpVersion": version, "cookies": [],
            "headers": pairs(&one.fields), "queryString": query, "headersSize": -1, "bodySize": -1,
        },
        "response": answer(one, response, version),
        "cache": {},
        "timings": {
            "blocked": phases.blocked, "dns": absent(phases.lookup), "connect": absent(phases.connect),
            "send": phases.send, "wait": phases.wait, "receive": phases.receive, "ssl": absent(phases.tls),
        },
        "_resourceType": one.kind.to_ascii_lowercase(),
        "_priority": one.priority,
        "_initiator": { "type": one.initiator.0 },
    });
    if let Some(url) = &one.initiator.1 {
        entry["_initiator"]["url"] = json!(url);
    }
    if let Some(cache) = one.cache {
        entry["_fromCache"] = json!(cache);
    }
    if let Some(why) = error {
        entry["response"]["_error"] = json!(why);
    }
    if let Some(response) = response {
        if response.connection_id > 0.0 {
            entry["connection"] = json!(format!("{:.0}", response.connection_id));
        }
        if !response.address.is_empty() {
            entry["serverIPAddress"] = json!(response.address);
        }
    }
    entry
}

fn answer(one: &Exchange, response: Option<&Response>, version: &str) -> Value {
    let empty = Fields::new();
    let fields = response.map_or(&empty, |response| &response.headers);
    let to = fields
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("location"))
        .and_then(|(_, value)| value.as_str());
    let head = response.map_or(-1.0, |response| response.encoded_data_length);
    let body = match (one.cache, one.transferred) {
        (None, Some(all)) => (all - head.max(0.0)).max(0.0),
        _ => -1.0,
    };
    let mut answer = json!({
        "status": response.map_or(0, |response| response.status),
        "statusText": response.map_or("", |response| response.status_text.as_str()),
        "httpVersion": version,
        "cookies": [],
        "headers": pairs(fields),
        "content": { "size": one.content, "mimeType": response.map_or("", |response| response.mime_type.as_str()) },
        "redirectURL": to.unwrap_or_default(),
        "headersSize": head,
        "bodySize": body,
    });
    if let Some(all) = one.transferred {
        answer["_transferSize"] = json!(all);
    }
    answer
}

/// Name and value of each field. The browser joins lines of one name with a line feed.
fn pairs(fields: &Fields) -> Vec<Value> {
    let line = |name: &String, value: &str| json!({ "name": name, "value": value });
    fields
        .iter()
        .flat_map(|(name, values)| {
            let values = values.as_str().unwrap_or_default();
            values.split('\n').map(move |value| line(name, value))
        })
        .collect()
}

/// A protocol of ALPN as archives spell it.
fn version(protocol: &str) -> &str {
    match protocol {
        "http/1.1" => "HTTP/1.1",
        "http/1.0" => "HTTP/1.0",
        "h2" => "HTTP/2",
        "h3" => "HTTP/3",
        other => other,
    }
}

impl Phases {
    fn of(one: &Exchange) -> Phases {
        let timing = one.response.as_ref().and_then(|response| response.timing);
        let Some(timing) = timing.filter(|_| one.cache.is_none()) else {
            let until = milliseconds(one.latest - one.issued);
            return match one.response {
                Some(_) => Phases {
                    wait: until,
                    ..Phases::default()
                },
                None => Phases {
                    blocked: until,
                    ..Phases::default()
                },
            };
        };
        let base = (timing.request_time - one.issued) * 1e3;
        // Ends of phases; each phase lasts from the end of the one before to its own.
        let mut at = 0.0;
        let mut until = |end: f64| {
            let end = (base + end).max(at);
            let took = milliseconds((end - at) / 1e3);
            at = end;
            took
        };
        let applies = |from: f64, to: f64| (from >= 0.0 && to > from).then_some(to);
        let lookup = applies(timing.dns_start, timing.dns_end);
        let connect = applies(timing.connect_start, timing.connect_end);
        let tls = applies(timing.ssl_start, timing.ssl_end);
        let start = match (lookup, connect) {
            (Some(_), _) => timing.dns_start,
            (None, Some(_)) => timing.connect_start,
            (None, None) => timing.send_start,
        };
        let blocked = until(start);
        let lookup = lookup.map(&mut until);
        let connect = connect.map(&mut until);
        let send = until(timing.send_end);
        let first = match timing.receive_headers_start > 0.0 {
            true => timing.receive_headers_start,
            false => timing.receive_headers_end,
        };
        let wait = until(first);
        let receive = until((one.latest - timing.request_time) * 1e3);
        let tls = tls.zip(connect).map(|(end, connect)| {
            let took = milliseconds((end - timing.ssl_start) / 1e3);
            took.min(connect)
        });
        Phases {
            blocked,
            lookup,
            connect,
            tls,
            send,
            wait,
            receive,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::Archive;

    /// Events of a Chromium 156 that visited a page with a style sheet, two images of which one is missing, a frame behind a
    /// redirect, and a request of a script after the page was loaded.
    const EVENTS: &str = include_str!("../../testdata/visit/events.jsonl");

    /// Path, status and whether a cache answered, in the order of starts.
    const EXPECTED: [(&str, u16, bool); 7] = [
        ("/", 200, false),
        ("/style.css", 200, false),
        ("/a.png", 200, false),
        ("/missing.png", 404, false),
        ("/sub", 301, false),
        ("/sub/", 200, false),
        ("/late.txt", 200, false),
    ];

    fn log(events: &str) -> Log {
        let mut log = Log::default();
        for line in events.lines() {
            let mut event: Value = serde_json::from_str(line).expect("JSON");
            let method = event["method"].as_str().expect("a method").to_owned();
            log.take("S", &method, event["params"].take());
        }
        log
    }

    fn written(log: &Log) -> Value {
        of(&Url::parse("http://h/").expect("a URL"), log, "Chrome/156.0")
    }

    /// Response to a request of 10.0 s, with these milliseconds in its timing; received until 10.5 s.
    fn exchange(timing: &Value, more: &str) -> Value {
        let request = json!({ "method": "Network.requestWillBeSent", "params": { "requestId": "1", "timestamp": 10.0,
            "wallTime": 1_000.25, "type": "Image", "request": { "url": "https://h/a?b=c%20d", "method": "GET" } } });
        let response = json!({ "method": "Network.responseReceived", "params": { "requestId": "1", "timestamp": 10.4,
            "response": { "status": 200, "protocol": "h2", "timing": timing, "encodedDataLength": 100 } } });
        let done = json!({ "method": "Network.loadingFinished", "params": { "requestId": "1", "timestamp": 10.5,
            "encodedDataLength": 300 } });
        let events = format!("{request}\n{response}\n{more}{done}");
        written(&log(&events))["log"]["entries"][0].take()
    }

    fn timing(parts: [f64; 9]) -> Value {
        let names = [
            "requestTime",
            "dnsStart",
            "dnsEnd",
            "connectStart",
            "connectEnd",
            "sslStart",
            "sslEnd",
            "sendStart",
            "sendEnd",
        ];
        let mut timing = json!({ "receiveHeadersStart": 350.0, "receiveHeadersEnd": 351.0 });
        for (name, part) in names.iter().zip(parts) {
            timing[*name] = json!(part);
        }
        timing
    }

    #[test]
    fn phases_follow_each_other_and_their_sum_is_the_time() {
        let first = exchange(
            &timing([10.01, 5.0, 25.0, 26.0, 86.0, 46.0, 86.0, 88.0, 89.0]),
            "",
        );
        let want = json!({ "blocked": 15.0, "dns": 20.0, "connect": 61.0, "ssl": 40.0, "send": 3.0, "wait": 261.0, "receive": 140.0 });
        assert_eq!(first["timings"], want);
        assert_eq!(first["time"], json!(500.0));
        assert_eq!(first["startedDateTime"], json!("1970-01-01T00:16:40.250Z"));
        assert_eq!(
            first["request"]["queryString"],
            json!([{ "name": "b", "value": "c d" }])
        );
        let sizes = [
            &first["response"]["headersSize"],
            &first["response"]["bodySize"],
            &first["response"]["_transferSize"],
        ];
        assert_eq!(sizes, [100.0, 200.0, 300.0]);
        let reused = exchange(&timing([10.1, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0, 2.0, 3.0]), "");
        let want = json!({ "blocked": 102.0, "dns": -1.0, "connect": -1.0, "ssl": -1.0, "send": 1.0, "wait": 347.0, "receive": 50.0 });
        assert_eq!(reused["timings"], want);
        // Clocks of different processes: nothing becomes negative.
        let odd = exchange(&timing([9.0, -1.0, -1.0, 900.0, 800.0, 5.0, 4.0, 2.0, 1.0]), "");
        for (name, phase) in odd["timings"].as_object().expect("phases") {
            let phase = phase.as_f64().expect("a number");
            assert!(phase >= 0.0 || phase == -1.0, "{name}: {odd}");
        }
        let cached = exchange(
            &timing([10.01, 5.0, 25.0, 26.0, 86.0, 46.0, 86.0, 88.0, 89.0]),
            "{\"method\":\"Network.requestServedFromCache\",\"params\":{\"requestId\":\"1\"}}\n",
        );
        assert_eq!(
            (&cached["_fromCache"], &cached["timings"]["wait"]),
            (&json!("memory"), &json!(500.0))
        );
    }

    #[test]
    fn recorded_events_become_an_archive_that_weir_reads() {
        let log = log(EVENTS);
        assert_eq!(log.outstanding, 0);
        let written = written(&log).to_string();
        let archive = Archive::parse(&written, "x".to_owned()).expect("an archive");
        assert_eq!(archive.page.client, "Chrome 156.0");
        let all: Vec<(&str, u16, bool)> = archive
            .entries
            .iter()
            .map(|entry| (entry.url.path(), entry.status, entry.is_cached))
            .collect();
        assert_eq!(all, EXPECTED);
        for entry in &archive.entries {
            assert!(entry.phases.total() < 10_000.0, "{entry:?}");
            assert_eq!(
                entry.server,
                Some(std::net::Ipv4Addr::LOCALHOST.into()),
                "{entry:?}"
            );
        }
    }

    #[test]
    fn what_has_no_end_or_no_response_says_so() {
        let request = |id: &str| {
            json!({ "method": "Network.requestWillBeSent", "params": { "requestId": id, "timestamp": 10.0, "wallTime": 5.0,
                "request": { "url": "http://h/", "method": "GET" } } })
        };
        let failed = json!({ "method": "Network.loadingFailed", "params": { "requestId": "2", "timestamp": 10.25,
            "errorText": "net::ERR_FAILED", "blockedReason": "csp" } });
        let events = format!("{}\n{}\n{failed}", request("1"), request("2"));
        let written = written(&log(&events));
        let entries = &written["log"]["entries"];
        assert_eq!(entries[0]["response"]["_error"], json!("unfinished"));
        assert_eq!(entries[1]["response"]["_error"], json!("net::ERR_FAILED (csp)"));
        assert_eq!(entries[1]["timings"]["blocked"], json!(250.0));
        assert_eq!(written["log"]["pages"][0]["pageTimings"]["onLoad"], json!(-1.0));
    }

    #[test]
    fn an_archive_counts_what_is_left_out() {
        let mut log = log(EVENTS);
        assert_eq!(written(&log)["log"]["_leftOut"], Value::Null);
        (log.left_out, log.unread) = (2, 3);
        let archive = Archive::parse(&written(&log).to_string(), "x".to_owned()).expect("an archive");
        let left_out = archive.page.left_out;
        assert_eq!((left_out.requests, left_out.messages), (2, 3));
    }

    #[test]
    fn fields_of_one_name_are_lines_again() {
        let fields = json!({ "Set-Cookie": "a=1\nb=2", "X": "y" });
        let lines = pairs(fields.as_object().expect("an object"));
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[1], json!({ "name": "Set-Cookie", "value": "b=2" }));
    }
}
