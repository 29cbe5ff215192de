//! A JSON line as written by `weir serve --log-format json`: one object. Unknown members are ignored.

use crate::{Fault, Record, Request};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::borrow::Cow;
use units::{Duration, civil};

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    time: Cow<'a, str>,
    #[serde(borrow)]
    peer: Cow<'a, str>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    target: Option<Cow<'a, str>>,
    #[serde(borrow)]
    version: Option<Cow<'a, str>>,
    #[serde(borrow)]
    host: Option<Cow<'a, str>>,
    #[serde(borrow)]
    referer: Option<Cow<'a, str>>,
    #[serde(borrow)]
    user_agent: Option<Cow<'a, str>>,
    status: u16,
    body_bytes: Option<u64>,
    duration_us: Option<u64>,
    #[serde(borrow)]
    aborted: Option<Cow<'a, str>>,
}

pub(crate) fn parse(line: &[u8]) -> Result<Record<'_>, Fault> {
    let read: Line<'_> = serde_json::from_slice(line).map_err(|error| Fault {
        expected: "JSON as weir serve writes it (time, peer, status and more)",
        at: error.column().saturating_sub(1).min(line.len()),
    })?;
    let at = civil::rfc3339(read.time.as_bytes()).ok_or(Fault {
        expected: "a time as in 1994-11-06T08:49:37Z",
        at: 0,
    })?;
    let request = match (read.method, read.target) {
        (Some(method), Some(target)) => Some(Request {
            method: bytes(method),
            target: bytes(target),
            version: bytes(read.version.unwrap_or_default()),
        }),
        _ => None,
    };
    Ok(Record {
        at,
        client: bytes(read.peer),
        host: read.host.map(bytes),
        vhost: None,
        request,
        status: read.status,
        body_bytes: read.body_bytes,
        duration: read.duration_us.map(Duration::from_micros),
        referer: read.referer.map(bytes),
        user_agent: read.user_agent.map(bytes),
        is_cut: read.aborted.is_some(),
        json: Some(line),
    })
}

/// The text of the member for a request field: its name in lower case, with `_` in place of `-`.
pub(crate) fn member(line: &[u8], field: &str) -> Option<Vec<u8>> {
    let members: Map<String, Value> = serde_json::from_slice(line).ok()?;
    let value = members.get(&field.to_ascii_lowercase().replace('-', "_"))?;
    Some(value.as_str()?.as_bytes().to_vec())
}

fn bytes(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::UnixTime;

    #[test]
    fn what_weir_writes_is_read() {
        let line = br#"{"time":"1994-11-06T08:49:37Z","peer":"192.0.2.7","method":"GET","target":"/a?b","version":"HTTP/1.1","host":"example.org","user_agent":"a \"b\"","status":200,"bytes":1124,"body_bytes":1024,"duration_us":250}"#;
        let record = parse(line).unwrap();
        assert_eq!(record.at, UnixTime::from_secs(784_111_777));
        assert_eq!(record.request.unwrap().target, Cow::Borrowed(b"/a?b"));
        assert_eq!(record.host.as_deref(), Some(&b"example.org"[..]));
        assert_eq!(record.user_agent.as_deref(), Some(&b"a \"b\""[..]));
        assert_eq!(
            (record.status, record.body_bytes, record.is_cut),
            (200, Some(1024), false)
        );
        assert_eq!(record.duration, Some(Duration::from_micros(250)));
        let cut = br#"{"time":"1994-11-06T08:49:37Z","peer":"::1","raw":"x","status":400,"bytes":9,"body_bytes":0,"duration_us":2,"aborted":"peer"}"#;
        let record = parse(cut).unwrap();
        assert!(record.is_cut && record.request.is_none());
    }

    #[test]
    fn a_line_may_have_other_fields() {
        let line = br#"{"time":"1994-11-06T08:49:37Z","peer":"::1","status":200,"user_agent":"x","accept_language":"de, en","cookie":"","bytes":1,"host":"a"}"#;
        let record = parse(line).unwrap();
        let field = |name: &str| record.field(name).map(Cow::into_owned);
        assert_eq!(field("Accept-Language").as_deref(), Some(&b"de, en"[..]));
        assert_eq!(field("User-Agent").as_deref(), Some(&b"x"[..]));
        assert_eq!(field("Host").as_deref(), Some(&b"a"[..]));
        // Empty, no text, and not there.
        for name in ["Cookie", "Bytes", "Origin", "Referer"] {
            assert_eq!(field(name), None, "{name}");
        }
    }

    #[test]
    fn faults_say_where() {
        assert!(parse(b"{").is_err() && parse(b"{}").is_err());
        let late = parse(br#"{"time":"yesterday","peer":"::1","status":200}"#).unwrap_err();
        assert!(late.expected.contains("time"));
        let column = parse(br#"{"time":"1994-11-06T08:49:37Z","peer":7,"status":200}"#).unwrap_err();
        assert_eq!(column.at, 38);
    }
}
