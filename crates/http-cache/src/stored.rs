//! The head of a stored response: what is kept of it, how a 304 or another part of the same content changes it (RFC 9111
//! sections 3.1, 3.2 and 3.4), and which lines a response from it has.

use crate::directives::ResponseDirectives;
use crate::freshness::{Age, Lifetime, lifetime};
use http_semantics::field::{Fields, Line, Name};
use units::UnixTime;

/// Fields that are not stored: they are for one connection, or for a proxy (section 3.1). `Age` is kept as [`Age`].
const NOT_STORED: [&str; 12] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-length",
    "age",
];

/// The field that sets a cookie.
const COOKIE: &str = "set-cookie";

/// Fields that describe the stored content itself, so that no 304 changes them (section 3.2).
const NOT_UPDATED: [&str; 3] = ["content-encoding", "content-range", "content-type"];

/// The head of a stored response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Status.
    pub status: u16,
    /// Field lines as HTTP/1 sends them, each with CRLF.
    pub text: Box<[u8]>,
    /// Directives.
    pub directives: ResponseDirectives,
    /// Lifetime.
    pub lifetime: Lifetime,
    /// Age.
    pub age: Age,
}

/// Times and options that decide what is stored.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// When the request was sent.
    pub asked: UnixTime,
    /// When the head of the response arrived.
    pub received: UnixTime,
    /// Names of targeted fields, the most specific first.
    pub targets: &'a [&'a str],
    /// Seconds for which an error is fresh if the response does not say so.
    pub negative: u64,
}

impl Stored {
    /// The head of a response.
    pub fn of(status: u16, fields: &Fields<'_, '_>, terms: &Terms<'_>) -> Stored {
        let mut text = Vec::with_capacity(512);
        for (name, value) in fields.iter().filter(|(name, _)| is_stored(name, fields)) {
            write(&mut text, name, value);
        }
        Stored::new(status, text, fields, terms)
    }

    fn new(status: u16, text: Vec<u8>, fields: &Fields<'_, '_>, terms: &Terms<'_>) -> Stored {
        let directives = ResponseDirectives::of(fields, terms.targets);
        let mut lifetime = lifetime(status, fields, &directives, terms.received);
        let is_error = status >= 400 && crate::freshness::is_heuristic(status);
        if is_error && !lifetime.is_explicit && terms.negative > 0 {
            lifetime.seconds = terms.negative;
        }
        Stored {
            status,
            text: text.into(),
            directives,
            lifetime,
            age: Age::of(fields, terms.asked, terms.received),
        }
    }

    /// The lines, as views.
    pub fn lines(&self) -> Vec<Line<'_>> {
        lines(&self.text)
    }

    /// Whether it sets a cookie for all who get it.
    pub fn has_cookie(&self) -> bool {
        self.lines()
            .iter()
            .any(|line| line.name.eq_ignore_ascii_case(COOKIE))
    }

    /// The head after this 304, or after a response to HEAD or for another range of the same content: fields of the newer
    /// response replace those of the same name (section 3.2).
    pub fn freshened(&self, fields: &Fields<'_, '_>, terms: &Terms<'_>) -> Stored {
        // A cookie is added to no response that was stored without one: it may be for one user.
        let is_cookie = |name: &str| name.eq_ignore_ascii_case(COOKIE);
        let has_cookie = self.has_cookie();
        let replaces = |name: &str| {
            is_stored(name, fields) && !is_among(name, &NOT_UPDATED) && (has_cookie || !is_cookie(name))
        };
        let is_replaced =
            |name: &str| replaces(name) && fields.iter().any(|(newer, _)| newer.eq_ignore_ascii_case(name));
        let mut text = Vec::with_capacity(self.text.len());
        for line in self.lines() {
            if !is_replaced(line.name) {
                write(&mut text, line.name, line.value);
            }
        }
        for (name, value) in fields.iter().filter(|(name, _)| replaces(name)) {
            write(&mut text, name, value);
        }
        let all = lines(&text);
        let mut stored = Stored::new(self.status, Vec::new(), &Fields::new(&all), terms);
        // The age is that of the newer response.
        stored.age = Age::of(fields, terms.asked, terms.received);
        stored.text = text.into();
        stored
    }

    /// Whether a newer response may be of the same content: no validator and no length says otherwise.
    pub fn is_same_as(&self, length: Option<u64>, newer: &Fields<'_, '_>) -> bool {
        let lines = self.lines();
        let older = Fields::new(&lines);
        let agrees = |name: Name| match (older.get(name), newer.get(name)) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        };
        let newer_length = newer
            .single(Name::ContentLength)
            .and_then(http_semantics::field::decimal);
        let has_same_length = match (length, newer_length) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        };
        agrees(Name::ETag) && agrees(Name::LastModified) && has_same_length
    }

    /// Whether it is fresh at this age.
    pub fn is_fresh(&self, now: UnixTime) -> bool {
        self.lifetime.seconds > self.age.now(now)
    }

    /// Seconds until it is stale; negative if it is.
    pub fn ttl(&self, now: UnixTime) -> i64 {
        self.lifetime.seconds as i64 - self.age.now(now) as i64
    }

    /// Bytes of memory.
    pub fn held(&self) -> usize {
        size_of::<Stored>() + self.text.len()
    }
}

/// Whether a field of a response is stored.
fn is_stored(name: &str, fields: &Fields<'_, '_>) -> bool {
    let mut nominated = fields.values(Name::Connection).members();
    !is_among(name, &NOT_STORED) && !nominated.any(|listed| listed.eq_ignore_ascii_case(name.as_bytes()))
}

fn is_among(name: &str, names: &[&str]) -> bool {
    names.iter().any(|known| name.eq_ignore_ascii_case(known))
}

fn write(text: &mut Vec<u8>, name: &str, value: &[u8]) {
    text.extend_from_slice(name.as_bytes());
    text.extend_from_slice(b": ");
    text.extend_from_slice(value);
    text.extend_from_slice(b"\r\n");
}

/// The lines of such a text. What is no line is left out.
pub fn lines(text: &[u8]) -> Vec<Line<'_>> {
    text.split_inclusive(|&b| b == b'\n')
        .filter_map(|line| {
            let line = line.strip_suffix(b"\r\n")?;
            let colon = line.iter().position(|&b| b == b':')?;
            let name = std::str::from_utf8(&line[..colon]).ok()?;
            let value = http_semantics::field::trim(&line[colon + 1..]);
            Some(Line { name, value })
        })
        .collect()
}
