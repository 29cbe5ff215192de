//! Heads: one tokenizer run over borrowed bytes, then one pass that finds the fields Weir acts on.
//!
//! `httparse` checks that methods and names are tokens and that values hold no control bytes. It is lenient
//! about line endings and leading empty lines, so this module checks those afterwards. For an invalid head,
//! `scan` finds the fault in byte order, off the fast path.

use crate::error::Fault;
use crate::framing::{self, Framing, Message};
use crate::limits::Limits;
use crate::scan::{Found, METHOD_BYTES_MAX, Scan, Section};
use crate::slots::Slots;
use crate::version::Version;
use core::mem::MaybeUninit;
use http_semantics::field::{Fields, MAX_FIELDS, Name, is_token_byte};
use http_semantics::method::Method;
use http_semantics::request::RequestHead;
use http_semantics::target::{self, Target};

/// The expectation of a request before it sends its body (RFC 9110 section 10.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Nothing,
    /// An interim 100 response.
    Continue,
    /// An unknown expectation: respond with [`Fault::Expectation`].
    Unknown,
}

/// A request's head.
#[derive(Clone, Copy, Debug)]
pub struct Request<'b, 's> {
    /// Method.
    pub method: Method,
    /// Method as received, including unknown methods.
    pub method_name: &'b str,
    /// Target; its form is valid for the method.
    pub target: Target<'b>,
    /// Target as received.
    pub target_raw: &'b [u8],
    /// Version.
    pub version: Version,
    /// How the body is delimited. No body event follows [`Framing::Empty`].
    pub framing: Framing,
    /// What the client expects before it sends the body.
    pub expect: Expect,
    /// Whether the client wants the connection to persist.
    pub persistent: bool,
    /// The field lines.
    pub fields: Fields<'b, 's>,
}

impl<'b, 's> Request<'b, 's> {
    /// The authority of the request: from the target, otherwise from `Host`. Validated; may be empty.
    pub fn authority(&self) -> Option<&'b [u8]> {
        self.target.authority().or_else(|| self.fields.get(Name::Host))
    }

    /// The head without what is peculiar to HTTP/1.
    #[inline]
    pub fn semantics(&self) -> RequestHead<'b, 's> {
        RequestHead {
            method: self.method,
            method_name: self.method_name,
            target: self.target,
            target_raw: self.target_raw,
            protocol: self.version.protocol(),
            fields: self.fields,
        }
    }
}

/// A response's head.
#[derive(Clone, Copy, Debug)]
pub struct Response<'b, 's> {
    /// Status code, 100 to 999.
    pub status: u16,
    /// Reason phrase; empty if it is not ASCII.
    pub reason: &'b str,
    /// Version.
    pub version: Version,
    /// How the body is delimited. No body event follows [`Framing::Empty`].
    pub framing: Framing,
    /// Whether the server wants the connection to persist.
    pub persistent: bool,
    /// The field lines.
    pub fields: Fields<'b, 's>,
}

/// Result of parsing the front of the input.
#[derive(Debug)]
pub(crate) enum Read<T> {
    /// Not a complete head; continue the scan from here.
    Partial(Scan),
    /// A head and its length in bytes.
    Head(T, usize),
}

/// Parses a request head from the front of `input`.
///
/// # Errors
/// The first fault in byte order, or, if all lines are valid, the first fault of their meaning.
#[inline]
pub(crate) fn request<'b, 's>(
    input: &'b [u8],
    mut scan: Scan,
    slots: &'s mut Slots<'b>,
    limits: &Limits,
) -> Result<Read<Request<'b, 's>>, Fault> {
    let Some(skipped) = before_request(input)? else {
        return Ok(Read::Partial(scan));
    };
    let block = &input[skipped..];
    if !scan.is_fresh() {
        match scan.advance(block, Section::Request, limits)? {
            Found::Partial => return Ok(Read::Partial(scan)),
            Found::Simple(end) => return simple(&block[..end], skipped, limits),
            Found::Complete(_) => {}
        }
    }
    let Slots { headers, again } = slots;
    let fields_max = headers.len().min(usize::from(limits.fields_max));
    let mut parsed = httparse::Request::new(&mut []);
    let outcome = parsed.parse_with_uninit_headers(block, &mut headers[..fields_max]);
    if let (Ok(httparse::Status::Complete(end)), Some(method), Some(target), Some(minor)) =
        (outcome, parsed.method, parsed.path, parsed.version)
    {
        let lines: &'s [httparse::Header<'b>] = parsed.headers;
        let sound = end <= limits.head_bytes_max as usize
            && target.len() <= limits.target_bytes_max as usize
            && method.len() <= METHOD_BYTES_MAX
            && lines_end_in_crlf(&block[..end], lines);
        if sound {
            let head = understand(method, target, minor, Fields::new(lines))?;
            return Ok(Read::Head(head, skipped + end));
        }
    }
    unsound_request(block, skipped, outcome.err(), again, limits)
}

/// Empty lines that are ignored before a request. RFC 9112 section 2.2 asks for at least one, because old
/// clients sent one after a body. The limit stops an endless stream of empty lines.
pub(crate) const EMPTY_LINES_MAX: usize = 4;

/// Bytes to skip before a request: at most [`EMPTY_LINES_MAX`] empty lines. `None`: more input is needed to tell.
#[inline]
fn before_request(input: &[u8]) -> Result<Option<usize>, Fault> {
    match input {
        [b'A'..=b'Z', ..] => Ok(Some(0)),
        _ => before_unusual_request(input),
    }
}

#[cold]
fn before_unusual_request(input: &[u8]) -> Result<Option<usize>, Fault> {
    let mut skipped = 0;
    loop {
        match input[skipped..] {
            [] => return Ok(None),
            // This byte alone decides: the outcome must not depend on how the input is split.
            [b'\r' | b'\n', ..] if skipped == EMPTY_LINES_MAX * 2 => return Err(Fault::RequestLine),
            [b'\r'] => return Ok(None),
            [b'\r', b'\n', ..] => skipped += 2,
            [b'\r', ..] => return Err(Fault::BareCr),
            [b'\n', ..] => return Err(Fault::BareLf),
            [byte, ..] if is_token_byte(byte) => return Ok(Some(skipped)),
            // The content type of a TLS handshake record.
            [0x16, ..] => return Err(Fault::Tls),
            [_, ..] => return Err(Fault::NotHttp),
        }
    }
}

/// Whether all lines end in CRLF. Each name follows a line feed directly, so the byte before that one
/// decides; the tokenizer itself rejects a bare CR.
#[inline]
fn lines_end_in_crlf(head: &[u8], lines: &[httparse::Header<'_>]) -> bool {
    let base = head.as_ptr() as usize;
    head.ends_with(b"\r\n\r\n")
        && lines.iter().all(|line| {
            let start = line.name.as_ptr() as usize - base;
            head.get(start.wrapping_sub(2)) == Some(&b'\r')
        })
}

/// Finds the fault of a head, complete or not, that the tokenizer rejects.
#[cold]
fn unsound_request<'b, 's>(
    block: &'b [u8],
    skipped: usize,
    error: Option<httparse::Error>,
    slots: &'s mut [MaybeUninit<httparse::Header<'b>>; MAX_FIELDS],
    limits: &Limits,
) -> Result<Read<Request<'b, 's>>, Fault> {
    let mut scan = Scan::default();
    match scan.advance(block, Section::Request, limits)? {
        Found::Partial => Ok(Read::Partial(scan)),
        Found::Simple(end) => simple(&block[..end], skipped, limits),
        Found::Complete(end) if error == Some(httparse::Error::Version) => match later_minor(&block[..end]) {
            None => Err(request_line_fault(&block[..end])),
            Some((method, target, fields)) => {
                let slots = slots.write_copy_of_slice(&[httparse::EMPTY_HEADER; MAX_FIELDS]);
                match httparse::parse_headers(fields, slots) {
                    Ok(httparse::Status::Complete((_, lines))) => {
                        let head = understand(method, target, 1, Fields::new(lines))?;
                        Ok(Read::Head(head, skipped + end))
                    }
                    Ok(httparse::Status::Partial) => Err(Fault::RequestLine),
                    Err(error) => Err(field_fault(error)),
                }
            }
        },
        Found::Complete(end) => Err(match error {
            Some(httparse::Error::Version | httparse::Error::Token) => request_line_fault(&block[..end]),
            Some(error) => field_fault(error),
            None => Fault::RequestLine,
        }),
    }
}

/// Method, target and field section of a head of HTTP/1.2 or a later 1.x, which is processed as 1.1 (RFC 9110
/// section 2.5) but unknown to the tokenizer. Its lines are known to end in CRLF.
fn later_minor(head: &[u8]) -> Option<(&str, &str, &[u8])> {
    let line = &head[..head.iter().position(|&b| b == b'\r')?];
    let (before, minor) = line.split_at(line.len().checked_sub(1)?);
    if !before.ends_with(b" HTTP/1.") || !matches!(minor, [b'2'..=b'9']) {
        return None;
    }
    // The tokenizer checks the rest of the line with a version it knows.
    let known = [before, b"1\r\n\r\n"].concat();
    let mut parsed = httparse::Request::new(&mut []);
    let Ok(httparse::Status::Complete(_)) = parsed.parse(&known) else {
        return None;
    };
    let (method, target) = (parsed.method?.len(), parsed.path?.len());
    let method_name = core::str::from_utf8(&head[..method]).ok()?;
    let target = core::str::from_utf8(&head[method + 1..][..target]).ok()?;
    Some((method_name, target, &head[line.len() + 2..]))
}

/// A request line of the form `method SP target`. It is HTTP/0.9 if enabled, with GET and a path only;
/// otherwise it is a request line without its version.
fn simple<'b, 's>(line: &'b [u8], skipped: usize, limits: &Limits) -> Result<Read<Request<'b, 's>>, Fault> {
    if !limits.http09 {
        return Err(Fault::RequestLine);
    }
    let target = line
        .strip_prefix(b"GET ")
        .and_then(|rest| rest.strip_suffix(b"\r\n"))
        .filter(|target| target.starts_with(b"/") && target.iter().all(|b| b.is_ascii_graphic()))
        .ok_or(Fault::RequestLine)?;
    let head = Request {
        method: Method::Get,
        method_name: "GET",
        target: Target::parse(target, Method::Get)?,
        target_raw: target,
        version: Version::Http09,
        framing: Framing::Empty,
        expect: Expect::Nothing,
        persistent: false,
        fields: Fields::EMPTY,
    };
    Ok(Read::Head(head, skipped + line.len()))
}

/// The fault in the request line of a complete head.
fn request_line_fault(head: &[u8]) -> Fault {
    if head.starts_with(b"PRI * HTTP/2.0\r\n") {
        return Fault::Http2;
    }
    let line = head
        .iter()
        .position(|&b| b == b'\r')
        .map_or(head, |end| &head[..end]);
    let mut parts = line.split(|&b| b == b' ');
    let (method, target, version, more) = (parts.next(), parts.next(), parts.next(), parts.next());
    let method_is_token = method.is_some_and(|m| !m.is_empty() && m.iter().all(|&b| is_token_byte(b)));
    let target_is_there = target.is_some_and(|target| !target.is_empty());
    match version {
        _ if !method_is_token || !target_is_there || more.is_some() => Fault::RequestLine,
        Some(b"HTTP/1.0" | b"HTTP/1.1") => Fault::Target,
        Some([b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9']) => Fault::Version,
        _ => Fault::RequestLine,
    }
}

/// The fault for a tokenizer error.
pub(crate) fn field_fault(error: httparse::Error) -> Fault {
    match error {
        httparse::Error::HeaderName => Fault::FieldName,
        httparse::Error::HeaderValue => Fault::FieldValue,
        httparse::Error::TooManyHeaders => Fault::TooManyFields,
        // The scan has checked the line ends, so the missing one can only be after the start line.
        httparse::Error::Token | httparse::Error::Version | httparse::Error::NewLine => Fault::RequestLine,
        httparse::Error::Status => Fault::StatusLine,
    }
}

#[inline]
fn understand<'b, 's>(
    method_name: &'b str,
    target: &'b str,
    minor: u8,
    fields: Fields<'b, 's>,
) -> Result<Request<'b, 's>, Fault> {
    let method = Method::of(method_name);
    let version = if minor == 0 {
        Version::Http10
    } else {
        Version::Http11
    };
    let target_raw = target.as_bytes();
    let target = Target::parse(target_raw, method)?;
    match fields.get(Name::Host) {
        Some(_) if fields.is_repeated(Name::Host) => return Err(Fault::HostRepeated),
        Some(host) if !target::is_authority(host) => return Err(Fault::HostInvalid),
        None if version == Version::Http11 => return Err(Fault::HostMissing),
        Some(_) | None => {}
    }
    Ok(Request {
        method,
        method_name,
        target,
        target_raw,
        version,
        framing: framing::of(Message::Request, version, &fields)?,
        expect: expectation(version, &fields),
        persistent: framing::persists(version, &fields),
        fields,
    })
}

/// The expectation of a request; `Nothing` for HTTP/1.0, where the field must be ignored (RFC 9110 section
/// 10.1.1).
#[inline]
fn expectation(version: Version, fields: &Fields<'_, '_>) -> Expect {
    if !fields.has(Name::Expect) || version != Version::Http11 {
        return Expect::Nothing;
    }
    let mut expect = Expect::Nothing;
    for member in fields.values(Name::Expect).members() {
        if !member.eq_ignore_ascii_case(b"100-continue") {
            return Expect::Unknown;
        }
        expect = Expect::Continue;
    }
    expect
}

/// Parses a response head from the front of `input`; `to` is the method of the request it answers.
///
/// # Errors
/// The first fault in byte order, or, if all lines are valid, the first fault of their meaning.
#[inline]
pub(crate) fn response<'b, 's>(
    input: &'b [u8],
    mut scan: Scan,
    to: Method,
    slots: &'s mut Slots<'b>,
    limits: &Limits,
) -> Result<Read<Response<'b, 's>>, Fault> {
    match input.first() {
        None => return Ok(Read::Partial(scan)),
        Some(b'H') => {}
        Some(0x15 | 0x16) => return Err(Fault::Tls),
        Some(_) => return Err(Fault::NotHttp),
    }
    if !scan.is_fresh() {
        match scan.advance(input, Section::Response, limits)? {
            Found::Partial => return Ok(Read::Partial(scan)),
            Found::Complete(_) | Found::Simple(_) => {}
        }
    }
    let fields_max = slots.headers.len().min(usize::from(limits.fields_max));
    let mut parsed = httparse::Response::new(&mut []);
    let outcome = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut parsed,
        input,
        &mut slots.headers[..fields_max],
    );
    if let (Ok(httparse::Status::Complete(end)), Some(status @ 100..), Some(minor)) =
        (outcome, parsed.code, parsed.version)
    {
        let lines: &'s [httparse::Header<'b>] = parsed.headers;
        if end <= limits.head_bytes_max as usize && lines_end_in_crlf(&input[..end], lines) {
            let version = if minor == 0 {
                Version::Http10
            } else {
                Version::Http11
            };
            let fields = Fields::new(lines);
            let framing = framing::of(Message::Response { to, status }, version, &fields)?;
            let head = Response {
                status,
                reason: parsed.reason.unwrap_or(""),
                version,
                framing,
                persistent: framing != Framing::UntilClose && framing::persists(version, &fields),
                fields,
            };
            return Ok(Read::Head(head, end));
        }
    }
    unsound_response(input, outcome.err(), limits)
}

#[cold]
fn unsound_response<'b, 's>(
    input: &'b [u8],
    error: Option<httparse::Error>,
    limits: &Limits,
) -> Result<Read<Response<'b, 's>>, Fault> {
    let mut scan = Scan::default();
    match scan.advance(input, Section::Response, limits)? {
        Found::Partial => Ok(Read::Partial(scan)),
        Found::Simple(_) => Err(Fault::StatusLine),
        Found::Complete(_) => Err(match error.map(field_fault) {
            None | Some(Fault::RequestLine) => Fault::StatusLine,
            Some(fault) => fault,
        }),
    }
}
