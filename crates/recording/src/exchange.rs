//! The file of one recorded exchange: a line of JSON that describes request and response, then the body as received.
//!
//! ```text
//!   {"format":"weir-exchange","version":1,"method":"GET","url":"https://example.org/",...,"body_bytes":1256}\n
//!   <!doctype html>...
//! ```
//! Head and body share a file, so no crash separates them. `body_bytes` tells a file that was cut short. The schema of
//! the line is `schemas/exchange.schema.json`.

use bytes::Bytes;
use core::fmt;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_128;
use units::{Duration, UnixTime};
use url::Url;

/// Suffix of the files of exchanges. Other files in the folder of a recording are left alone.
pub const SUFFIX: &str = ".exchange";

/// Longest first line, in bytes.
pub const HEAD_BYTES_MAX: usize = 1 << 20;

/// The format that the first line names.
const FORMAT: &str = "weir-exchange";

/// The version of the format.
const VERSION: u32 = 1;

/// Field lines: name and value.
pub type FieldLines = Vec<(String, String)>;

/// A request and its response.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// The method; never HEAD, which is answered from the GET.
    pub method: String,
    /// The URL: http or https, without a fragment, a name or a password.
    pub url: Url,
    /// The protocol that carried it, by its ALPN name.
    pub protocol: String,
    /// Civil time of the recording, in whole seconds.
    pub recorded: UnixTime,
    /// From the end of sending the request to the first byte of the response.
    pub first_byte: Duration,
    /// Fields of the request that responses may depend on.
    pub request_fields: FieldLines,
    /// The status of the response: 200 to 599.
    pub status: u16,
    /// The field lines of the response.
    pub fields: FieldLines,
    /// The body as received: without framing, with its content coding.
    pub body: Bytes,
}

/// The first line of a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    format: String,
    version: u32,
    method: String,
    url: String,
    protocol: String,
    recorded: i64,
    first_byte_seconds: f64,
    request_fields: FieldLines,
    status: u16,
    fields: FieldLines,
    body_bytes: u64,
}

/// Why a file is not a recorded exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The first line does not end, or is longer than [`HEAD_BYTES_MAX`].
    NoHead,
    /// The first line is not the JSON of this format: why.
    Head(String),
    /// The file is of another version of the format.
    Version(u32),
    /// A value of the first line cannot be replayed: which, and why.
    Value(String),
    /// The body has this many bytes, and the first line announces so many.
    Body(u64, u64),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::NoHead => write!(
                f,
                "its first line is longer than {HEAD_BYTES_MAX} bytes, or does not end"
            ),
            Fault::Head(why) => write!(f, "its first line is not that of an exchange: {why}"),
            Fault::Version(version) => write!(f, "it has version {version} of the format, not {VERSION}"),
            Fault::Value(why) => f.write_str(why),
            Fault::Body(have, said) => write!(
                f,
                "its body has {have} bytes, and its first line announces {said}"
            ),
        }
    }
}

impl Exchange {
    /// The name of its file: the same for every recording of the same method and URL.
    pub fn file_name(&self) -> String {
        let key = format!("{} {}", self.method, self.url);
        format!("{:032x}{SUFFIX}", XxHash3_128::oneshot(key.as_bytes()))
    }

    /// The first line of its file, with the line feed.
    ///
    /// # Errors
    /// [`Fault::NoHead`] if it would be too long to be read again.
    pub fn head(&self) -> Result<Vec<u8>, Fault> {
        let line = Line {
            format: FORMAT.to_owned(),
            version: VERSION,
            method: self.method.clone(),
            url: self.url.to_string(),
            protocol: self.protocol.clone(),
            recorded: self.recorded.secs,
            first_byte_seconds: self.first_byte.as_secs_f64(),
            request_fields: self.request_fields.clone(),
            status: self.status,
            fields: self.fields.clone(),
            body_bytes: self.body.len() as u64,
        };
        let mut text = serde_json::to_vec(&line).map_err(|error| Fault::Head(error.to_string()))?;
        text.push(b'\n');
        match text.len() <= HEAD_BYTES_MAX {
            true => Ok(text),
            false => Err(Fault::NoHead),
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// Why it is not an exchange.
    pub fn parse(file: &Bytes) -> Result<Exchange, Fault> {
        let start = &file[..file.len().min(HEAD_BYTES_MAX)];
        let end = start.iter().position(|&b| b == b'\n').ok_or(Fault::NoHead)?;
        let line: Line =
            serde_json::from_slice(&file[..end]).map_err(|error| Fault::Head(error.to_string()))?;
        let body = file.slice(end + 1..);
        if line.format != FORMAT {
            return Err(Fault::Head(format!("its `format` is not {FORMAT}")));
        }
        if line.version != VERSION {
            return Err(Fault::Version(line.version));
        }
        if body.len() as u64 != line.body_bytes {
            return Err(Fault::Body(body.len() as u64, line.body_bytes));
        }
        let wrong = |why: String| Err(Fault::Value(why));
        let url = match Url::parse(&line.url) {
            Ok(url) if is_recordable(&url) => url,
            _ => {
                return wrong(format!(
                    "`{}` is not an http or https URL",
                    line.url.escape_debug()
                ));
            }
        };
        let is_method = !line.method.is_empty()
            && line
                .method
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if !is_method || line.method == "HEAD" {
            return wrong(format!(
                "`{}` is not a method to replay; HEAD is answered from the GET",
                line.method.escape_debug()
            ));
        }
        if !(200..600).contains(&line.status) {
            return wrong(format!("the status {} is not from 200 to 599", line.status));
        }
        if has_no_body(line.status) && !body.is_empty() {
            return wrong(format!("responses with status {} have no body", line.status));
        }
        if !(0.0..=MOST_SECONDS).contains(&line.first_byte_seconds) {
            return wrong("`first_byte_seconds` is negative or more than a day".to_owned());
        }
        Ok(Exchange {
            method: line.method,
            url,
            protocol: line.protocol,
            recorded: UnixTime::from_secs(line.recorded),
            first_byte: Duration::from_secs_f64(line.first_byte_seconds),
            request_fields: line.request_fields,
            status: line.status,
            fields: line.fields,
            body,
        })
    }
}

/// Longest time to the first byte.
const MOST_SECONDS: f64 = 86_400.0;

/// Whether responses with this status have no body (RFC 9110 sections 15.3.5 and 15.4.5).
pub fn has_no_body(status: u16) -> bool {
    matches!(status, 204 | 304)
}

/// Whether an exchange can have this URL.
pub fn is_recordable(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
        && url.host_str().is_some_and(|host| !host.is_empty())
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exchange(body: &[u8]) -> Exchange {
        Exchange {
            method: "GET".to_owned(),
            url: Url::parse("https://example.org/a?b=1").unwrap(),
            protocol: "h2".to_owned(),
            recorded: UnixTime::from_secs(1_795_392_000),
            first_byte: Duration::from_millis(12),
            request_fields: vec![("Accept".to_owned(), "*/*".to_owned())],
            status: 200,
            fields: vec![("content-type".to_owned(), "text/html".to_owned())],
            body: Bytes::copy_from_slice(body),
        }
    }

    fn file(exchange: &Exchange) -> Bytes {
        let mut bytes = exchange.head().unwrap();
        bytes.extend_from_slice(&exchange.body);
        bytes.into()
    }

    #[test]
    fn an_exchange_is_read_as_it_was_written() {
        for body in [&b""[..], b"a\nb\n", b"\x1f\x8b\0\n"] {
            let one = exchange(body);
            assert_eq!(Exchange::parse(&file(&one)), Ok(one));
        }
    }

    #[test]
    fn the_name_of_a_file_is_by_method_and_url() {
        let one = exchange(b"a");
        assert_eq!(one.file_name(), exchange(b"b").file_name());
        let other = Exchange {
            method: "POST".to_owned(),
            ..one.clone()
        };
        assert_ne!(one.file_name(), other.file_name());
        assert_eq!(one.file_name().len(), 32 + SUFFIX.len());
    }

    #[test]
    fn a_file_that_was_cut_short_is_noticed() {
        let whole = file(&exchange(b"some bytes"));
        for end in 0..whole.len() {
            assert!(Exchange::parse(&whole.slice(..end)).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn a_head_at_the_limit_is_written_and_a_longer_one_is_not() {
        let with = |bytes: usize| Exchange {
            fields: vec![("a".to_owned(), "x".repeat(bytes))],
            ..exchange(b"")
        };
        let rest = with(0).head().unwrap().len();
        let most = with(HEAD_BYTES_MAX - rest);
        assert_eq!(most.head().unwrap().len(), HEAD_BYTES_MAX);
        assert_eq!(Exchange::parse(&file(&most)), Ok(most));
        assert_eq!(with(HEAD_BYTES_MAX - rest + 1).head(), Err(Fault::NoHead));
    }

    #[test]
    fn what_cannot_be_replayed_is_refused() {
        let text = String::from_utf8(file(&exchange(b"")).to_vec()).unwrap();
        for (from, to, fragment) in [
            ("\"version\":1", "\"version\":2", "version 2"),
            ("weir-exchange", "other", "`format`"),
            (
                "https://example.org",
                "ftp://example.org",
                "not an http or https URL",
            ),
            (
                "https://example.org",
                "https://me:secret@example.org",
                "not an http or https URL",
            ),
            ("\"GET\"", "\"HEAD\"", "answered from the GET"),
            ("\"GET\"", "\"G T\"", "not a method"),
            ("\"status\":200", "\"status\":100", "200 to 599"),
            ("\"status\":200", "\"status\":600", "200 to 599"),
            ("0.012", "-1", "negative"),
            ("\"status\"", "\"stratus\"", "stratus"),
            ("\"body_bytes\":0", "\"body_bytes\":1", "announces 1"),
        ] {
            let changed = text.replace(from, to);
            assert_ne!(changed, text, "{from}");
            let why = Exchange::parse(&Bytes::from(changed)).expect_err(to).to_string();
            assert!(why.contains(fragment), "{why}");
        }
        let with_body = Exchange {
            status: 304,
            ..exchange(b"x")
        };
        let why = Exchange::parse(&file(&with_body))
            .expect_err("a body")
            .to_string();
        assert!(why.contains("no body"), "{why}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_exchange_or_a_fault(bytes: Vec<u8>) {
            let _ = Exchange::parse(&Bytes::from(bytes));
        }
    }
}
