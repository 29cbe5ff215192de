//! The request target in its four forms (RFC 9112 section 3.2), as a borrowed view.
//!
//! Decides which form a target has and whether the method allows it, splits path and query, and decodes
//! percent-escapes. The server decides what a path means (dot segments, the document root).

use crate::method::Method;
use core::fmt;
use std::borrow::Cow;

/// A request target with no form valid for its method, a bad percent-escape, or a control byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadTarget;

impl fmt::Display for BadTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request target has no valid form")
    }
}

impl core::error::Error for BadTarget {}

/// A request target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'b> {
    /// `/path?query`: origin form, the usual one.
    Origin {
        /// Absolute path, still percent-encoded.
        path: &'b [u8],
        /// The text after the first `?`, if there is one.
        query: Option<&'b [u8]>,
    },
    /// `http://authority/path?query`: absolute form, sent to proxies; every server must accept it.
    Absolute {
        /// `http` or `https`, in the case received.
        scheme: &'b [u8],
        /// Host and port; overrides the `Host` field (RFC 9112 section 3.2.2).
        authority: &'b [u8],
        /// Path, still percent-encoded; `/` if the target has none.
        path: &'b [u8],
        /// The text after the first `?`, if there is one.
        query: Option<&'b [u8]>,
    },
    /// `host:port`: authority form, for CONNECT only.
    Authority(&'b [u8]),
    /// `*`: asterisk form, for OPTIONS only.
    Asterisk,
}

impl<'b> Target<'b> {
    /// Parses the target of a request with this method.
    ///
    /// # Errors
    /// [`BadTarget`] if the target has no form that the method allows.
    #[inline]
    pub fn parse(raw: &'b [u8], method: Method) -> Result<Target<'b>, BadTarget> {
        if raw.first() == Some(&b'/') && method != Method::Connect {
            let (path, query) = split(raw)?;
            return Ok(Target::Origin { path, query });
        }
        Target::parse_rare(raw, method)
    }

    #[cold]
    fn parse_rare(raw: &'b [u8], method: Method) -> Result<Target<'b>, BadTarget> {
        if method == Method::Connect {
            let has_port = raw
                .iter()
                .rposition(|&b| b == b':')
                .is_some_and(|colon| colon + 1 < raw.len());
            return if is_authority(raw) && has_port {
                Ok(Target::Authority(raw))
            } else {
                Err(BadTarget)
            };
        }
        if raw == b"*" && method == Method::Options {
            return Ok(Target::Asterisk);
        }
        let colon = memchr::memchr(b':', raw).ok_or(BadTarget)?;
        let (scheme, rest) = raw.split_at(colon);
        let known = scheme.eq_ignore_ascii_case(b"http") || scheme.eq_ignore_ascii_case(b"https");
        let rest = rest.strip_prefix(b"://").filter(|_| known).ok_or(BadTarget)?;
        let end = rest
            .iter()
            .position(|&b| b == b'/' || b == b'?')
            .unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        if authority.is_empty() || !is_authority(authority) {
            return Err(BadTarget);
        }
        let (path, query) = split(rest)?;
        Ok(Target::Absolute {
            scheme,
            authority,
            path: if path.is_empty() { b"/" } else { path },
            query,
        })
    }

    /// The path, still percent-encoded; `None` for authority and asterisk form.
    #[inline]
    pub fn path(&self) -> Option<&'b [u8]> {
        match *self {
            Target::Origin { path, .. } | Target::Absolute { path, .. } => Some(path),
            Target::Authority(_) | Target::Asterisk => None,
        }
    }

    /// The query without its `?`.
    #[inline]
    pub fn query(&self) -> Option<&'b [u8]> {
        match *self {
            Target::Origin { query, .. } | Target::Absolute { query, .. } => query,
            Target::Authority(_) | Target::Asterisk => None,
        }
    }

    /// The authority in the target; `None` for origin and asterisk form.
    #[inline]
    pub fn authority(&self) -> Option<&'b [u8]> {
        match *self {
            Target::Absolute { authority, .. } | Target::Authority(authority) => Some(authority),
            Target::Origin { .. } | Target::Asterisk => None,
        }
    }
}

/// Splits path and query, and rejects a fragment: RFC 9112 section 3.2 forbids one, and programs that handle
/// it differently can be led to different files.
#[inline]
fn split(raw: &[u8]) -> Result<(&[u8], Option<&[u8]>), BadTarget> {
    match memchr::memchr2(b'?', b'#', raw) {
        None => Ok((raw, None)),
        Some(at) if raw[at] == b'#' => Err(BadTarget),
        Some(at) => {
            let query = &raw[at + 1..];
            if memchr::memchr(b'#', query).is_some() {
                return Err(BadTarget);
            }
            Ok((&raw[..at], Some(query)))
        }
    }
}

/// Whether a text is `uri-host [":" port]` (RFC 3986 section 3.2, without the user information that RFC 9110
/// section 4.2.4 tells recipients to distrust). The empty text is valid: it means "unknown".
#[inline]
pub fn is_authority(text: &[u8]) -> bool {
    if let Some(literal) = text.strip_prefix(b"[") {
        return is_bracketed(literal);
    }
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&b| !is_plain_host_byte(b)) {
        let after = &rest[at + 1..];
        match rest[at] {
            b':' => return is_port(after),
            b'%' if is_escape(after) => rest = &after[2..],
            _ => return false,
        }
    }
    true
}

/// Whether a text is `address "]" [":" port]`. Accepts an IPv6 address, optionally with a zone (RFC 6874). An
/// address of a future version is checked by alphabet only: nothing connects to it.
#[cold]
fn is_bracketed(literal: &[u8]) -> bool {
    let Some(end) = memchr::memchr(b']', literal) else {
        return false;
    };
    let address = &literal[..end];
    let port = &literal[end + 1..];
    let is_sound = match address {
        [b'v' | b'V', future @ ..] => is_future(future),
        _ => {
            let (number, zone) = match memchr::memchr(b'%', address) {
                None => (address, None),
                Some(at) => (&address[..at], Some(&address[at + 1..])),
            };
            core::str::from_utf8(number).is_ok_and(|text| text.parse::<core::net::Ipv6Addr>().is_ok())
                && zone.is_none_or(|zone| {
                    !zone.is_empty() && zone.iter().all(|&b| b == b'%' || is_plain_host_byte(b))
                })
        }
    };
    is_sound && (port.is_empty() || port.strip_prefix(b":").is_some_and(is_port))
}

/// Whether a text can follow the `v` of a future address version (RFC 3986 section 3.2.2).
fn is_future(text: &[u8]) -> bool {
    memchr::memchr(b'.', text).is_some_and(|dot| {
        let (version, address) = (&text[..dot], &text[dot + 1..]);
        !version.is_empty()
            && version.iter().all(u8::is_ascii_hexdigit)
            && !address.is_empty()
            && address.iter().all(|&b| b == b':' || is_plain_host_byte(b))
    })
}

fn is_port(digits: &[u8]) -> bool {
    digits.len() <= 5
        && digits.iter().all(u8::is_ascii_digit)
        && digits.iter().fold(0_u32, |n, d| n * 10 + u32::from(d - b'0')) <= 65_535
}

fn is_escape(after_percent: &[u8]) -> bool {
    matches!(after_percent, [a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit())
}

/// Whether a byte is unreserved or a sub-delim (RFC 3986 section 3.2.2).
#[inline]
fn is_plain_host_byte(b: u8) -> bool {
    static PLAIN: [bool; 256] = {
        let mut table = [false; 256];
        let mut b = 0;
        while b < 256 {
            table[b] = matches!(
                b as u8,
                b'-' | b'.'
                    | b'_'
                    | b'~'
                    | b'!'
                    | b'$'
                    | b'&'
                    | b'\''
                    | b'('
                    | b')'
                    | b'*'
                    | b'+'
                    | b','
                    | b';'
                    | b'='
            ) || (b as u8).is_ascii_alphanumeric();
            b += 1;
        }
        table
    };
    PLAIN[usize::from(b)]
}

/// Decodes the percent-escapes of a path, once. Borrows a path without escapes.
///
/// # Errors
/// [`BadTarget`] for an escape that is not two hexadecimal digits, and for an escaped NUL. No file name
/// contains NUL, and other programs have truncated paths at it.
#[inline]
pub fn decode(raw: &[u8]) -> Result<Cow<'_, [u8]>, BadTarget> {
    match memchr::memchr(b'%', raw) {
        None => Ok(Cow::Borrowed(raw)),
        Some(at) => decode_from(raw, at).map(Cow::Owned),
    }
}

fn decode_from(raw: &[u8], first: usize) -> Result<Vec<u8>, BadTarget> {
    let mut out = Vec::with_capacity(raw.len());
    out.extend_from_slice(&raw[..first]);
    let mut rest = &raw[first..];
    while let Some((&b, after)) = rest.split_first() {
        if b != b'%' {
            out.push(b);
            rest = after;
            continue;
        }
        let (high, low) = match after {
            [high, low, ..] => (hex(*high), hex(*low)),
            _ => (None, None),
        };
        match high.zip(low) {
            Some((0, 0)) | None => return Err(BadTarget),
            Some((high, low)) => out.push(high << 4 | low),
        }
        rest = &after[2..];
    }
    Ok(out)
}

fn hex(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).map(|value| value as u8)
}

/// Parses a target with every method and decodes its path.
///
/// # Panics
/// If the parts of a target do not add up to it, or a path changes after decoding and encoding.
#[cfg(any(test, fuzzing))]
pub fn fuzz(data: &[u8]) {
    for method in [Method::Get, Method::Options, Method::Connect] {
        let Ok(target) = Target::parse(data, method) else {
            continue;
        };
        let query = target.query().map_or(Vec::new(), |query| [b"?", query].concat());
        let again = match target {
            Target::Origin { path, .. } => [path, &query].concat(),
            Target::Absolute {
                scheme,
                authority,
                path,
                ..
            } => {
                let before = [scheme, b"://", authority].concat();
                let had_path = data.len() > before.len() && data[before.len()] == b'/';
                [&before[..], if had_path { path } else { b"" }, &query[..]].concat()
            }
            Target::Authority(authority) => authority.to_vec(),
            Target::Asterisk => b"*".to_vec(),
        };
        assert_eq!(again, data);
        assert!(
            target
                .authority()
                .is_none_or(|authority| is_authority(authority) && !authority.is_empty())
        );
        if let Some(path) = target.path() {
            assert!(path.starts_with(b"/") && memchr::memchr2(b'?', b'#', path).is_none());
            if let Ok(decoded) = decode(path) {
                assert!(memchr::memchr(0, &decoded).is_none() || memchr::memchr(0, path).is_some());
                let escaped: Vec<u8> = decoded
                    .iter()
                    .flat_map(|b| format!("%{b:02x}").into_bytes())
                    .collect();
                if !decoded.contains(&0) {
                    assert_eq!(decode(&escaped).as_deref(), Ok(&*decoded));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn authorities() {
        for good in [
            "",
            "h",
            "h:",
            "h:1",
            "h:65535",
            "a.b-c_d~e",
            "%41",
            "[::1]",
            "[fe80::1%25eth0]:80",
            "[::ffff:192.0.2.1]:",
            "[v1.a:b]",
            "h;x=1",
        ] {
            assert!(is_authority(good.as_bytes()), "{good}");
        }
        for bad in [
            "h:65536",
            "h:x",
            "h:1:2",
            "a b",
            "a/b",
            "a?b",
            "a#b",
            "a@b",
            "%4",
            "%g0",
            "[]",
            "[::1",
            "[::1]x",
            "[::1]:x",
            "\u{e9}",
            "[::g]",
            "[:::]",
            "[1::2::3]",
            "[1:2:3:4:5:6:7]",
            "[127.0.0.1]",
            "[a]",
            "[::1%]",
            "[v.a]",
            "[v1.]",
            "[vg.a]",
        ] {
            assert!(!is_authority(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn a_path_without_escapes_is_not_copied() {
        assert!(matches!(decode(b"/plain"), Ok(Cow::Borrowed(b"/plain"))));
        assert!(matches!(decode(b"/%70lain"), Ok(Cow::Owned(path)) if path == b"/plain"));
    }

    proptest! {
        #![proptest_config(crate::seeded::cases(2_000))]
        #[test]
        fn any_target_is_read_soundly(
            target in "(http|https|HTTP|x)?(://)?[a-z0-9.:@%\\[\\]]{0,12}[/?#%a-f0-9]{0,12}|[*]|.{0,20}",
        ) {
            fuzz(target.as_bytes());
        }
    }
}
