//! A line of the Common or Combined format: `host ident user [time] "request" status bytes`, then optionally
//! `"referer" "user agent"`. Anything a server adds after these is ignored. Apache httpd's `vhost_combined` puts the
//! virtual host in front: `www.example.org:80 host ...`.

use crate::{Fault, Record, Request, time};
use std::borrow::Cow;
use std::net::IpAddr;

pub(crate) fn parse(line: &[u8]) -> Result<Record<'_>, Fault> {
    let mut rest = Rest { line, at: 0 };
    let vhost = vhost(line);
    if vhost.is_some() {
        rest.word("a virtual host")?;
    }
    let client = rest.word("a client address or name")?;
    rest.word("an RFC 1413 identity")?;
    // A user name may contain spaces; only the time begins with a bracket.
    let bracket = memchr::memmem::find(&line[rest.at..], b" [")
        .map(|offset| rest.at + offset)
        .ok_or(rest.fault("a time in brackets"))?;
    rest.at = bracket + 2;
    let end = memchr::memchr(b']', &line[rest.at..]).ok_or(rest.fault("a time in brackets"))?;
    let at = time::common(&line[rest.at..rest.at + end]).ok_or(rest.fault("a time"))?;
    rest.at += end + 1;
    rest.space()?;
    let request = request(rest.quoted("a request in quotes")?);
    rest.space()?;
    let status_at = rest;
    let status = rest
        .word("a status")
        .ok()
        .and_then(number)
        .and_then(|status| u16::try_from(status).ok())
        .filter(|status| (100..1000).contains(status))
        .ok_or(status_at.fault("a status"))?;
    let bytes_at = rest;
    let body_bytes = match rest.word("a number of bytes")? {
        b"-" => 0,
        digits => number(digits).ok_or(bytes_at.fault("a number of bytes"))?,
    };
    let (referer, user_agent) = match rest.line.get(rest.at) {
        Some(b'"') => {
            let referer = rest.quoted("a referrer in quotes")?;
            rest.space()?;
            (some(referer), some(rest.quoted("a user agent in quotes")?))
        }
        _ => (None, None),
    };
    Ok(Record {
        at,
        client: Cow::Borrowed(client),
        host: None,
        vhost: vhost.map(Cow::Borrowed),
        request,
        status,
        body_bytes: Some(body_bytes),
        duration: None,
        referer,
        user_agent,
        is_cut: false,
        json: None,
    })
}

/// The virtual host at the start of a line, if any. Such a line has four words before the time, as has one
/// whose user name contains a space. Two checks distinguish them: an identity is never an address, and a client
/// rarely has both a port and an identity.
fn vhost(line: &[u8]) -> Option<&[u8]> {
    let end = memchr::memmem::find(line, b" [")?;
    let words: Vec<&[u8]> = line[..end].splitn(4, |&b| b == b' ').collect();
    let &[first, second, ..] = &words[..] else {
        return None;
    };
    let is_address = |word: &[u8]| str::from_utf8(word).is_ok_and(|word| word.parse::<IpAddr>().is_ok());
    let has_port = |word: &[u8]| {
        let colon = memchr::memrchr(b':', word);
        colon.is_some_and(|at| {
            let (name, port) = (&word[..at], &word[at + 1..]);
            let is_name = !name.is_empty() && (!name.contains(&b':') || name.ends_with(b"]"));
            is_name && !port.is_empty() && port.iter().all(u8::is_ascii_digit)
        })
    };
    let is_vhost = words.len() == 4 && (is_address(second) || (has_port(first) && *second != *b"-"));
    is_vhost.then_some(first)
}

/// Splits a request line. The target may contain spaces, because careless clients send them and servers log
/// them.
fn request(line: Cow<'_, [u8]>) -> Option<Request<'_>> {
    let (method, target, version) = split(&line)?;
    Some(match line {
        Cow::Borrowed(line) => {
            let (method, target, version) = (&line[..method], &line[target], &line[version..]);
            Request {
                method: method.into(),
                target: target.into(),
                version: version.into(),
            }
        }
        Cow::Owned(ref line) => Request {
            method: line[..method].to_vec().into(),
            target: line[target].to_vec().into(),
            version: line[version..].to_vec().into(),
        },
    })
}

/// End of the method, range of the target, start of the version.
fn split(line: &[u8]) -> Option<(usize, std::ops::Range<usize>, usize)> {
    let method = memchr::memchr(b' ', line).filter(|&end| end > 0)?;
    if !line[..method]
        .iter()
        .all(|b| b.is_ascii_alphabetic() || b"-_".contains(b))
    {
        return None;
    }
    let last =
        memchr::memrchr(b' ', line).filter(|&last| last > method && line[last + 1..].starts_with(b"HTTP/"));
    let target = method + 1..last.unwrap_or(line.len());
    (!target.is_empty()).then_some((method, target, last.map_or(line.len(), |last| last + 1)))
}

/// A field's value; `None` if it is empty or `-`.
fn some(value: Cow<'_, [u8]>) -> Option<Cow<'_, [u8]>> {
    (!value.is_empty() && *value != *b"-").then_some(value)
}

fn number(digits: &[u8]) -> Option<u64> {
    // `parse` also accepts a sign.
    let is_number = digits.iter().all(u8::is_ascii_digit);
    is_number
        .then(|| str::from_utf8(digits).ok()?.parse().ok())
        .flatten()
}

/// The unread rest of a line.
#[derive(Clone, Copy)]
struct Rest<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Rest<'a> {
    fn fault(&self, expected: &'static str) -> Fault {
        Fault {
            expected,
            at: self.at.min(self.line.len()),
        }
    }

    /// Reads up to the next space and skips it.
    fn word(&mut self, expected: &'static str) -> Result<&'a [u8], Fault> {
        let rest = &self.line[self.at.min(self.line.len())..];
        let end = memchr::memchr(b' ', rest).unwrap_or(rest.len());
        if end == 0 {
            return Err(self.fault(expected));
        }
        self.at += end;
        if end < rest.len() {
            self.at += 1;
        }
        Ok(&rest[..end])
    }

    fn space(&mut self) -> Result<(), Fault> {
        match self.line.get(self.at) {
            Some(b' ') => {
                self.at += 1;
                Ok(())
            }
            _ => Err(self.fault("a space")),
        }
    }

    /// Reads text in quotes and decodes the escapes of Apache httpd and nginx.
    fn quoted(&mut self, expected: &'static str) -> Result<Cow<'a, [u8]>, Fault> {
        let inside = match self.line.get(self.at) {
            Some(b'"') => &self.line[self.at + 1..],
            _ => return Err(self.fault(expected)),
        };
        let mut from = 0;
        let end = loop {
            match memchr::memchr2(b'"', b'\\', &inside[from..]).map(|offset| from + offset) {
                Some(at) if inside[at] == b'"' => break at,
                // An escaped character does not end the text.
                Some(at) if at + 1 < inside.len() => from = at + 2,
                _ => return Err(self.fault(expected)),
            }
        };
        self.at += end + 2;
        Ok(plain(&inside[..end]))
    }
}

/// Decodes escapes.
fn plain(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&b, after)) = rest.split_first() {
        rest = after;
        if b != b'\\' {
            out.push(b);
            continue;
        }
        let Some((&kind, after)) = rest.split_first() else {
            out.push(b);
            break;
        };
        rest = after;
        match kind {
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'b' => out.push(8),
            b'v' => out.push(11),
            b'f' => out.push(12),
            b'x' => match after {
                [a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => {
                    let digit = |b: u8| (b as char).to_digit(16).unwrap_or(0) as u8;
                    out.push(digit(*a) << 4 | digit(*b));
                    rest = &after[2..];
                }
                _ => out.extend(b"\\x"),
            },
            other => out.push(other),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::UnixTime;

    #[test]
    fn the_common_format() {
        let line = b"192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"GET /a?b HTTP/1.1\" 200 1024";
        let record = parse(line).unwrap();
        assert_eq!(record.at, UnixTime::from_secs(784_111_777));
        assert_eq!(
            (&*record.client, record.status, record.body_bytes),
            (&b"192.0.2.7"[..], 200, Some(1024))
        );
        let request = record.request.unwrap();
        assert!(matches!(request.target, Cow::Borrowed(b"/a?b")));
        assert_eq!(
            (&*request.method, &*request.version),
            (&b"GET"[..], &b"HTTP/1.1"[..])
        );
        assert_eq!((record.referer, record.user_agent), (None, None));
    }

    #[test]
    fn the_combined_format_and_what_follows_it() {
        let line = b"::1 - jane doe [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.0\" 304 - \"http://a/b\" \"Mozilla (\\\"x\\\")\" 17 \"more\"";
        let record = parse(line).unwrap();
        assert_eq!(record.body_bytes, Some(0));
        assert_eq!(record.referer.as_deref(), Some(&b"http://a/b"[..]));
        assert_eq!(record.user_agent.as_deref(), Some(&b"Mozilla (\"x\")"[..]));
    }

    #[test]
    fn a_virtual_host_in_front_is_no_client() {
        for (front, vhost, client) in [
            (
                "www.example.org:80 10.0.0.1 - -",
                Some("www.example.org:80"),
                "10.0.0.1",
            ),
            ("[::1]:8080 ::1 - jane doe", Some("[::1]:8080"), "::1"),
            (
                "www.example.org 10.0.0.1 - -",
                Some("www.example.org"),
                "10.0.0.1",
            ),
            (
                "a:443 client.example.net - -",
                Some("a:443"),
                "client.example.net",
            ),
            ("::1 - jane doe", None, "::1"),
            ("10.0.0.1:4000 - jane doe", None, "10.0.0.1:4000"),
            ("client.example.net ident jane doe", None, "client.example.net"),
            ("10.0.0.1 - -", None, "10.0.0.1"),
        ] {
            let line = format!("{front} [06/Nov/1994:08:49:37 +0000] \"GET /a HTTP/1.1\" 200 1 \"-\" \"x\"");
            let record = parse(line.as_bytes()).expect(front);
            assert_eq!(record.vhost.as_deref(), vhost.map(str::as_bytes), "{front}");
            assert_eq!(&*record.client, client.as_bytes(), "{front}");
        }
    }

    #[test]
    fn request_lines_that_are_none_are_none() {
        let of = |request: &str| {
            let line = format!("a - - [06/Nov/1994:08:49:37 +0000] \"{request}\" 400 -");
            parse(line.as_bytes())
                .unwrap()
                .request
                .map(|r| String::from_utf8_lossy(&r.target).into_owned())
        };
        assert_eq!(of("GET /a b HTTP/1.1").as_deref(), Some("/a b"));
        assert_eq!(of("GET /old").as_deref(), Some("/old"));
        assert_eq!(of("GET /\\xc3\\xa4\\\" HTTP/1.1").as_deref(), Some("/ä\""));
        for none in [
            "-",
            "",
            "GET",
            "\\x16\\x03\\x01",
            "GET  HTTP/1.1",
            "\\x16\\x03 /a HTTP/1.1",
        ] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    #[test]
    fn faults_say_where() {
        for (line, at, expected) in [
            ("", 0, "a client address or name"),
            ("a", 1, "an RFC 1413 identity"),
            ("a - - 06/Nov/1994", 4, "a time in brackets"),
            ("a - - [06/Nov/94] \"GET / HTTP/1.1\" 200 1", 7, "a time"),
            (
                "a - - [06/Nov/1994:08:49:37 +0000] GET / 200 1",
                35,
                "a request in quotes",
            ),
            (
                "a - - [06/Nov/1994:08:49:37 +0000] \"GET / HTTP/1.1",
                35,
                "a request in quotes",
            ),
            (
                "a - - [06/Nov/1994:08:49:37 +0000] \"GET / HTTP/1.1\" 20x 1",
                52,
                "a status",
            ),
            (
                "a - - [06/Nov/1994:08:49:37 +0000] \"GET / HTTP/1.1\" 200 1k",
                56,
                "a number of bytes",
            ),
            (
                "a - - [06/Nov/1994:08:49:37 +0000] \"GET / HTTP/1.1\" 200",
                55,
                "a number of bytes",
            ),
            (
                "a - - [06/Nov/1994:08:49:37 +0000] \"GET / HTTP/1.1\" 200 +1",
                56,
                "a number of bytes",
            ),
        ] {
            assert_eq!(parse(line.as_bytes()), Err(Fault { expected, at }), "{line}");
        }
    }
}
