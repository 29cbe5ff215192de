//! Field sections of requests, responses and trailers of HTTP/2 and HTTP/3: which are malformed (RFC 9113
//! sections 8.1 to 8.3, RFC 9114 sections 4.1 to 4.3).
//!
//! Works on decoded fields; knows neither frames nor compression.

use crate::compression;
use crate::field::{Fields, Line, decimal, is_token_byte};
use crate::method::Method;
use crate::priority::Priority;
use crate::request::{Protocol, RequestHead};
use crate::target::{BadTarget, Target, is_authority};

/// The control data of a valid request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control<'b> {
    /// `:method`.
    pub method: &'b str,
    /// `:scheme`; absent only for CONNECT.
    pub scheme: Option<&'b [u8]>,
    /// `:authority`, otherwise `Host`.
    pub authority: Option<&'b [u8]>,
    /// `:path`; absent only for CONNECT.
    pub path: Option<&'b [u8]>,
    /// `Content-Length`.
    pub length: Option<u64>,
    /// From the `Priority` field.
    pub priority: Priority,
}

impl<'b> Control<'b> {
    /// The control data of fields that were kept from a request. `None` if they are those of no valid request.
    pub fn of(fields: &'b compression::Fields) -> Option<Control<'b>> {
        request(fields.iter()).ok()
    }

    /// The head of the request that `protocol` carried, with the regular fields of `fields` in `slots`; `Host` is taken from the control data.
    /// Fields beyond the length of `slots` are left out: use as many slots as the limit on fields.
    ///
    /// # Errors
    /// The target has no form the method allows: answer 400.
    pub fn head<'s>(
        &self,
        fields: impl Iterator<Item = (&'b [u8], &'b [u8])>,
        slots: &'s mut [Line<'b>],
        protocol: Protocol,
    ) -> Result<RequestHead<'b, 's>, BadTarget> {
        let host = self.authority.map(|authority| (&b"host"[..], authority));
        let regular = fields.filter(|(name, _)| !name.starts_with(b":") && *name != b"host");
        let mut count = 0;
        for (slot, (name, value)) in slots.iter_mut().zip(host.into_iter().chain(regular)) {
            let name = core::str::from_utf8(name).expect("field names are ASCII: they were checked");
            *slot = Line { name, value };
            count += 1;
        }
        let method = Method::of(self.method);
        let target_raw = self.path.or(self.authority).unwrap_or_default();
        Ok(RequestHead {
            method,
            method_name: self.method,
            target: Target::parse(target_raw, method)?,
            target_raw,
            protocol,
            fields: Fields::new(&slots[..count]),
        })
    }
}

/// The control data of a valid response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseControl {
    /// `:status`, 100 to 999 and not 101.
    pub code: u16,
    /// `Content-Length`.
    pub length: Option<u64>,
}

/// Bytes of content still to come by `Content-Length`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected(u64);

impl Expected {
    /// `Content-Length` is absent, or the message has no content whatever it says.
    pub const ANY: Expected = Expected(u64::MAX);

    /// What `Content-Length` announces.
    pub fn of(length: Option<u64>) -> Expected {
        length.map_or(Expected::ANY, Expected)
    }

    /// Counts `bytes` of content; `end` says that they are the last.
    ///
    /// # Errors
    /// There are more than announced, or the end comes before the announced length (RFC 9113 section 8.1.1, RFC 9114
    /// section 4.1.2).
    pub fn count(&mut self, bytes: u64, end: bool) -> Result<(), Malformed> {
        if *self == Expected::ANY {
            return Ok(());
        }
        match self.0.checked_sub(bytes) {
            None => Err("the body is longer than Content-Length"),
            Some(1..) if end => Err("the body is shorter than Content-Length"),
            Some(left) => {
                self.0 = left;
                Ok(())
            }
        }
    }
}

/// A malformed section; the text names the rule.
pub type Malformed = &'static str;

/// Checks the section of a request, whose fields are given as (name, value).
///
/// # Errors
/// The rule that it violates.
pub fn request<'b>(fields: impl Iterator<Item = (&'b [u8], &'b [u8])>) -> Result<Control<'b>, Malformed> {
    let mut pseudo = [None; 4];
    let (mut host, mut length, mut priority) = (None, None, Priority::DEFAULT);
    let mut regular_seen = false;
    for (name, value) in fields {
        if let Some(at) = [&b":method"[..], b":scheme", b":authority", b":path"]
            .iter()
            .position(|known| *known == name)
        {
            valid_value(value)?;
            if regular_seen || pseudo[at].replace(value).is_some() {
                return Err("a pseudo-field is repeated or behind regular fields");
            }
            continue;
        }
        regular_seen = true;
        regular(name, value, &mut length)?;
        match name {
            b"host" if host.replace(value).is_some() => return Err("Host is repeated"),
            b"priority" => priority = priority.updated(value),
            _ => {}
        }
    }
    let [method, scheme, authority, path] = pseudo;
    let method = method.ok_or(":method is missing")?;
    if method.is_empty() || !method.iter().all(|&b| is_token_byte(b)) {
        return Err(":method is not a token");
    }
    let method = core::str::from_utf8(method).map_err(|_| ":method is not a token")?;
    if method == "CONNECT" {
        if scheme.is_some() || path.is_some() || authority.is_none() {
            return Err("CONNECT has :scheme or :path, or no :authority");
        }
    } else {
        let scheme = scheme.ok_or(":scheme is missing")?;
        let path = path.ok_or(":path is missing")?;
        let starred = path == b"*" && method == "OPTIONS";
        // RFC 3986 section 3.1. Behind other bytes, an upstream could find another host or path.
        let is_of_scheme = |b: &u8| b.is_ascii_alphanumeric() || b"+-.".contains(b);
        if !scheme.first().is_some_and(u8::is_ascii_alphabetic) || !scheme.iter().all(is_of_scheme) {
            return Err(":scheme is not a scheme");
        }
        // Control bytes and spaces would split the request line of a log or of an HTTP/1 upstream.
        if !(path.starts_with(b"/") || starred) || path.iter().any(|&b| b <= b' ' || b == 0x7f) {
            return Err(":path is not an absolute path");
        }
    }
    if let (Some(authority), Some(host)) = (authority, host)
        && !authority.eq_ignore_ascii_case(host)
    {
        return Err("Host differs from :authority");
    }
    let authority = authority.or(host);
    // Neither may be empty (section 8.3.1). A request without both is left to the caller, which can answer 400.
    if authority.is_some_and(|text| text.is_empty() || !is_authority(text)) {
        return Err(":authority is not a host with an optional port");
    }
    Ok(Control {
        method,
        scheme,
        authority,
        path,
        length,
        priority,
    })
}

/// Checks the section of a response.
///
/// # Errors
/// The rule that it violates.
pub fn response<'b>(
    fields: impl Iterator<Item = (&'b [u8], &'b [u8])>,
) -> Result<ResponseControl, Malformed> {
    let (mut code, mut length, mut regular_seen) = (None, None, false);
    for (name, value) in fields {
        if name == b":status" {
            let valid = value.len() == 3 && value.iter().all(u8::is_ascii_digit) && value[0] != b'0';
            if !valid {
                return Err(":status is not three digits");
            }
            let number = value.iter().fold(0, |n, b| n * 10 + u16::from(b - b'0'));
            if regular_seen || code.replace(number).is_some() {
                return Err("a pseudo-field is repeated or behind regular fields");
            }
            continue;
        }
        regular_seen = true;
        regular(name, value, &mut length)?;
    }
    match code.ok_or(":status is missing")? {
        101 => Err("101 Switching Protocols does not exist in HTTP/2 and HTTP/3"),
        code => Ok(ResponseControl { code, length }),
    }
}

/// Checks a trailer section.
///
/// # Errors
/// The rule that it violates.
pub fn trailers<'b>(mut fields: impl Iterator<Item = (&'b [u8], &'b [u8])>) -> Result<(), Malformed> {
    fields.try_for_each(|(name, value)| regular(name, value, &mut None))
}

/// Checks one regular field (sections 8.2.1 and 8.2.2) and notes `Content-Length`.
fn regular(name: &[u8], value: &[u8], length: &mut Option<u64>) -> Result<(), Malformed> {
    if name.starts_with(b":") {
        return Err("a pseudo-field is unknown here");
    }
    if name.is_empty() || !name.iter().all(|&b| is_token_byte(b) && !b.is_ascii_uppercase()) {
        return Err("a field name is not a token in lower case");
    }
    valid_value(value)?;
    match name {
        b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding" | b"upgrade" => {
            Err("a field is specific to an HTTP/1 connection")
        }
        b"te" if !value.eq_ignore_ascii_case(b"trailers") => Err("TE has a value other than trailers"),
        b"content-length" => {
            let number = decimal(value).ok_or("Content-Length is not a number")?;
            match length.replace(number) {
                Some(other) if other != number => Err("two Content-Length values differ"),
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

fn valid_value(value: &[u8]) -> Result<(), Malformed> {
    // Stricter than section 8.2.1, which permits other control bytes: RFC 9110 section 5.5 does not.
    let space = |b: Option<&u8>| matches!(b, Some(b' ' | b'\t'));
    if space(value.first()) || space(value.last()) {
        return Err("a field value begins or ends with white space");
    }
    match value.iter().any(|&b| (b < b' ' && b != b'\t') || b == 0x7f) {
        true => Err("a field value contains a control byte"),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
