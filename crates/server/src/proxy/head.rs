//! Heads for the other side. Every head is parsed and written anew, so that no two parsers see one message differently.
//!
//! Decides which field lines pass. Fields for one connection end here (RFC 9110 section 7.6.1): the well-known ones, and
//! those that `Connection` nominates. Framing is this server's own. `Via`, `Forwarded` (RFC 7239) and `X-Forwarded-*`
//! describe the client and the trusted proxies between; what a client claims in them is dropped, because it cannot be checked.
//! A rule may give scheme and host a fixed value, which then is in `Forwarded`, too.

use crate::checked::Guarded;
use crate::client_address::{From, UNKNOWN};
use crate::config::{RequestHeader, is_host};
use crate::field_rules::RuledLines;
use crate::own_fields::{HOP_BY_HOP, is_among};
use crate::request_id::RequestId;
use crate::traced::Trace;
use http_semantics::field::{Fields, Name};
use http_semantics::method::Method;
use http_semantics::request::{Protocol, RequestHead};
use http_semantics::status::Status;
use http1::framing::Framing;
use http1::head::Response;
use http1::version::Version;
use http1::{Misuse, request, response};
use runtime::listen::UNIX_PEER;
use std::io::Write as _;
use std::net::IpAddr;

/// Fields that this server writes itself into requests.
const OWN: [&str; 10] = [
    "host",
    "expect",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-server",
    "x-forwarded-prefix",
    "x-real-ip",
];

/// Fields in which some proxies say what `X-Forwarded-Proto` says. This server writes none of them, and passes those of trusted
/// proxies on if the client used https.
const CLAIMS: [&str; 6] = [
    "x-forwarded-ssl",
    "x-forwarded-scheme",
    "x-forwarded-protocol",
    "front-end-https",
    "x-scheme",
    "x-url-scheme",
];

/// Fields that mean nothing, or harm, in a trailer section (RFC 9110 section 6.5.1), and those that this server writes into
/// heads.
const NOT_IN_TRAILERS: [&str; 27] = [
    "host",
    "expect",
    "authorization",
    "cookie",
    "set-cookie",
    "cache-control",
    "content-type",
    "content-encoding",
    "content-range",
    "location",
    "www-authenticate",
    "range",
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "if-range",
    "max-forwards",
    "proxy-authenticate",
    "age",
    "date",
    "expires",
    "retry-after",
    "vary",
    "via",
    "cache-status",
    "strict-transport-security",
];

/// Whether this server writes a field of this name into requests, or believes it of trusted proxies only, in place of the client's.
pub(crate) fn is_own(name: &str) -> bool {
    is_among(name, &OWN) || is_among(name, &CLAIMS)
}

/// Fields of a client that its upstream does not get, because this server or a rule writes them.
#[derive(Debug)]
pub(crate) struct Replaced<'a> {
    rules: &'a RequestHeader,
    guarded: &'a Guarded,
    /// Name of the field with the id of the request, in lower case.
    id: Option<String>,
    is_traced: bool,
    /// Whether a trusted proxy may say in other fields that the client used https.
    may_claim_https: bool,
}

impl<'a> Replaced<'a> {
    /// Those of a request with this id, if requests have ids. `may_claim_https`: as in [`From`].
    pub(crate) fn of(
        rules: &'a RequestHeader,
        guarded: &'a Guarded,
        id: Option<&RequestId>,
        (is_traced, may_claim_https): (bool, bool),
    ) -> Replaced<'a> {
        Replaced {
            rules,
            guarded,
            id: id.map(|id| id.field().to_ascii_lowercase()),
            is_traced,
            may_claim_https,
        }
    }

    /// Whether a field of this name is among them.
    pub(crate) fn has(&self, name: &str) -> bool {
        // A proxy may replace a field and pass on the client's one whose name has `_` in place of `-`.
        let is_believed = self.may_claim_https && !name.contains('_') && is_among(name, &CLAIMS);
        (is_own(name) && !is_believed)
            || name.eq_ignore_ascii_case("via")
            || self.rules.drops(name)
            || self.id.as_deref().is_some_and(|own| is_among(name, &[own]))
            || (self.is_traced && Trace::replaces(name))
            || self.guarded.keeps_back(name)
    }
}

/// Whether a field ends at this server.
pub(crate) fn ends_here(name: &str, fields: &Fields<'_, '_>) -> bool {
    is_among(name, &HOP_BY_HOP)
        || (fields.has(Name::Connection)
            && fields
                .values(Name::Connection)
                .members()
                .any(|nominated| nominated.eq_ignore_ascii_case(name.as_bytes())))
}

/// Whether a field with credentials or a challenge is of a scheme that authenticates a connection instead of a request (RFC
/// 4559 section 4): requests of other clients must not follow on that connection.
pub(crate) fn binds_connection(fields: &Fields<'_, '_>, name: &str) -> bool {
    let is_of = |part: &[u8], scheme: &[u8]| {
        part.get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    fields
        .iter()
        .filter(|(its, _)| its.eq_ignore_ascii_case(name))
        .flat_map(|(_, value)| value.split(|&b| b == b','))
        .map(<[u8]>::trim_ascii)
        .any(|part| is_of(part, b"negotiate") || is_of(part, b"ntlm"))
}

/// What may follow on the connection to the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follows {
    Nothing,
    /// Other requests.
    Requests,
    /// Nothing that field lines have to say: FastCGI says it, and who the client is.
    Records,
    /// WebSocket, if the upstream agrees (RFC 6455), otherwise other requests.
    WebSocket,
}

/// The lines of a switch to WebSocket, in either direction.
const SWITCH: &[u8] = b"Connection: Upgrade\r\nUpgrade: websocket\r\n";

/// Whether fields ask for WebSocket and nothing else, or agree to it.
fn name_websocket(fields: &Fields<'_, '_>) -> bool {
    let connection = fields.values(Name::Connection);
    let mut protocols = fields.values(Name::Upgrade).members();
    let is_websocket = |name: &[u8]| name.eq_ignore_ascii_case(b"websocket");
    connection
        .members()
        .any(|name| name.eq_ignore_ascii_case(b"upgrade"))
        && protocols.next().is_some_and(is_websocket)
        && protocols.next().is_none()
}

/// Whether a request asks to switch to WebSocket. Other protocols are not passed on: in HTTP/2 in cleartext, for example,
/// further requests could reach paths that no rule names.
pub(crate) fn asks_for_websocket(head: &RequestHead<'_, '_>, framing: Framing) -> bool {
    head.protocol == Protocol::Http11
        && head.method == Method::Get
        && framing == Framing::Empty
        && name_websocket(&head.fields)
}

/// Appends the head of a response with which the connection of the client switches to WebSocket.
///
/// # Errors
/// [`Misuse::Unwritable`] if the response switches to another protocol, or if a field cannot be written without changing
/// the message.
pub(crate) fn write_switch(out: &mut Vec<u8>, head: &Response<'_, '_>) -> Result<(), Misuse> {
    let status = Status::from_u16(head.status).map_err(|_| Misuse::Unwritable)?;
    if !name_websocket(&head.fields) {
        return Err(Misuse::Unwritable);
    }
    let nothing = Added {
        date: b"",
        hsts: b"",
        connection: b"",
        ruled: &RuledLines::NONE,
        received: head.version.protocol(),
    };
    response::status_line(out, status);
    write_fields(out, head, false, Outgoing::Empty, nothing)?;
    out.extend_from_slice(SWITCH);
    response::end(out);
    Ok(())
}

/// Appends the head of a request for an upstream, with this target and framing of its body.
///
/// # Errors
/// [`Misuse::Unwritable`] if a target, host or field cannot be written without changing the message.
pub(crate) fn write_request(
    out: &mut Vec<u8>,
    head: &RequestHead<'_, '_>,
    framing: Framing,
    target: &[u8],
    from: &From,
    follows: Follows,
    rules: &RequestHeader,
) -> Result<(), Misuse> {
    let host = head.authority().unwrap_or_default();
    let named = match rules.host() {
        Some(host) => host.as_bytes(),
        // HTTP/1.0 needs no host, and HTTP/1.1 allows an empty one.
        None if host.is_empty() => b"localhost",
        None => host,
    };
    request::line(out, head.method_name, target, named)?;
    // These versions may split the field; others must get it whole (RFC 9113 section 8.2.3, RFC 9114 section 4.2.1).
    let has_crumbs = matches!(head.protocol, Protocol::Http2 | Protocol::Http3);
    let mut cookies = Vec::new();
    let known = (from.trace.is_some(), from.may_claim_https);
    let replaced = Replaced::of(rules, &from.guarded, from.id.as_ref(), known);
    for (name, value) in head.fields.iter() {
        if ends_here(name, &head.fields) || replaced.has(name) {
            continue;
        }
        if has_crumbs && name == "cookie" {
            if !cookies.is_empty() {
                cookies.extend_from_slice(b"; ");
            }
            cookies.extend_from_slice(value);
            continue;
        }
        response::field(out, name, value)?;
    }
    if !cookies.is_empty() {
        response::field(out, "cookie", &cookies)?;
    }
    for (name, value) in rules.lines() {
        response::field(out, name, value.as_bytes())?;
    }
    match framing {
        Framing::Length(len) => response::content_length(out, len),
        Framing::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Framing::Empty | Framing::UntilClose => {
            // RFC 9110 section 8.6: these methods anticipate content.
            if matches!(head.method, Method::Post | Method::Put | Method::Patch) {
                response::content_length(out, 0);
            }
        }
    }
    if follows != Follows::Records {
        via(out, &head.fields, head.protocol)?;
    }
    // A rule that sets or removes the field has the last word.
    if let Some(id) = from.id.as_ref().filter(|id| !rules.drops(id.field())) {
        id.write(out);
    }
    if let Some(trace) = &from.trace {
        trace.write(out, |name| rules.drops(name));
    }
    // Applications that run behind a web server take `X-Forwarded-For` for a sign of another proxy.
    if follows == Follows::Records {
        response::end(out);
        return Ok(());
    }
    // Fixed values are among the lines of the rule.
    let (fixed_proto, fixed_host) = (rules.fixed("x-forwarded-proto"), rules.fixed("x-forwarded-host"));
    let proto: &[u8] = match fixed_proto {
        Some(proto) => proto.as_bytes(),
        None if from.is_secured => b"https",
        None => b"http",
    };
    let described: &[u8] = match fixed_host {
        Some(fixed) if is_host(fixed) => fixed.as_bytes(),
        // More than a host, which `Forwarded` has no parameter for.
        Some(_) => b"",
        None => host,
    };
    out.extend_from_slice(b"X-Forwarded-For: ");
    plain(out, from.peer);
    for hop in &from.hops {
        out.extend_from_slice(b", ");
        plain(out, *hop);
    }
    if fixed_proto.is_none() {
        out.extend_from_slice(b"\r\nX-Forwarded-Proto: ");
        out.extend_from_slice(proto);
    }
    out.extend_from_slice(b"\r\nForwarded: for=");
    node(out, from.peer);
    out.extend_from_slice(b";proto=");
    out.extend_from_slice(proto);
    if !described.is_empty() {
        out.extend_from_slice(b";host=\"");
        out.extend_from_slice(described);
        out.extend_from_slice(b"\"");
    }
    for hop in &from.hops {
        out.extend_from_slice(b", for=");
        node(out, *hop);
    }
    out.extend_from_slice(b"\r\n");
    if fixed_host.is_none() && !host.is_empty() {
        out.extend_from_slice(b"X-Forwarded-Host: ");
        out.extend_from_slice(host);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(match follows {
        Follows::Nothing => b"Connection: close\r\n",
        Follows::Requests | Follows::Records => b"",
        Follows::WebSocket => SWITCH,
    });
    response::end(out);
    Ok(())
}

/// Appends an address as in `X-Forwarded-For`.
fn plain(out: &mut Vec<u8>, address: IpAddr) {
    match address.to_canonical() {
        UNKNOWN => out.extend_from_slice(b"unknown"),
        address if address == UNIX_PEER.ip() => out.extend_from_slice(b"unknown"),
        // Each request has two of them, and the formatter of the library takes ten times as long.
        IpAddr::V4(address) => {
            let mut number = itoa::Buffer::new();
            for (at, octet) in address.octets().into_iter().enumerate() {
                if at > 0 {
                    out.push(b'.');
                }
                out.extend_from_slice(number.format(octet).as_bytes());
            }
        }
        IpAddr::V6(address) => {
            let _ = write!(out, "{address}");
        }
    }
}

/// Appends an address as in `Forwarded`.
fn node(out: &mut Vec<u8>, address: IpAddr) {
    match address.to_canonical() {
        address @ IpAddr::V6(_) if address != UNIX_PEER.ip() => {
            let _ = write!(out, "\"[{address}]\"");
        }
        address => plain(out, address),
    }
}

/// The line `Via`: what came before, and this server (RFC 9110 section 7.6.3).
fn via(out: &mut Vec<u8>, fields: &Fields<'_, '_>, protocol: Protocol) -> Result<(), Misuse> {
    let own: &[u8] = match protocol {
        Protocol::Http09 | Protocol::Http10 => b"1.0 weir",
        Protocol::Http11 => b"1.1 weir",
        Protocol::Http2 => b"2.0 weir",
        Protocol::Http3 => b"3.0 weir",
    };
    let named = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("via"));
    let mut others = named.map(|(_, value)| value).filter(|value| !value.is_empty());
    let Some(first) = others.next() else {
        out.extend_from_slice(b"Via: ");
        out.extend_from_slice(own);
        out.extend_from_slice(b"\r\n");
        return Ok(());
    };
    let mut before = first.to_vec();
    for value in others.chain([own]) {
        before.extend_from_slice(b", ");
        before.extend_from_slice(value);
    }
    response::field(out, "Via", &before)
}

/// How the body of a response goes to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outgoing {
    /// There is none.
    Empty,
    /// As it comes; its length was announced.
    Length,
    /// In chunks.
    Chunked,
    /// As it comes, until the connection ends: for clients of HTTP/1.0. In HTTP/2, until the stream ends.
    UntilClose,
}

impl Outgoing {
    /// The framing for a client of this version.
    pub(crate) fn of(framing: Framing, client: Version) -> Outgoing {
        match (framing, client) {
            (Framing::Empty, _) => Outgoing::Empty,
            (Framing::Length(_), _) => Outgoing::Length,
            (_, Version::Http11) => Outgoing::Chunked,
            (_, Version::Http10 | Version::Http09) => Outgoing::UntilClose,
        }
    }
}

/// The field with which a site asks for https.
const HSTS: &str = "strict-transport-security";

/// The lines that the client's connection adds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Added<'a> {
    /// The line `Date`, for a response without one.
    pub(crate) date: &'a [u8],
    /// The line `Strict-Transport-Security`, or nothing.
    pub(crate) hsts: &'a [u8],
    /// The line `Connection`, or nothing.
    pub(crate) connection: &'a [u8],
    /// Lines of rules, some of which replace those of the upstream.
    pub(crate) ruled: &'a RuledLines,
    /// The version in which the upstream sent the response, for `Via`.
    pub(crate) received: Protocol,
}

/// Appends the head of a response for the client.
///
/// # Errors
/// [`Misuse::Unwritable`] if a field cannot be written without changing the message, or the status is none.
pub(crate) fn write_response(
    out: &mut Vec<u8>,
    head: &Response<'_, '_>,
    is_to_head: bool,
    outgoing: Outgoing,
    added: Added<'_>,
) -> Result<(), Misuse> {
    let status = Status::from_u16(head.status).map_err(|_| Misuse::Unwritable)?;
    response::status_line(out, status);
    write_fields(out, head, is_to_head, outgoing, added)?;
    response::end(out);
    Ok(())
}

/// Appends the field lines of [`write_response`].
///
/// # Errors
/// [`Misuse::Unwritable`] if a field cannot be written without changing the message.
pub(crate) fn write_fields(
    out: &mut Vec<u8>,
    head: &Response<'_, '_>,
    is_to_head: bool,
    outgoing: Outgoing,
    added: Added<'_>,
) -> Result<(), Misuse> {
    for (name, value) in head.fields.iter() {
        let passes = !ends_here(name, &head.fields) && !name.eq_ignore_ascii_case("via");
        if passes && !added.ruled.replaces(name) {
            response::field(out, name, value)?;
        }
    }
    via(out, &head.fields, added.received)?;
    if head.status >= 200 {
        match (outgoing, head.framing) {
            (Outgoing::Length, Framing::Length(len)) => response::content_length(out, len),
            (Outgoing::Chunked, _) => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
            (Outgoing::Empty, _) if is_to_head || head.status == 304 => {
                // The length of the content that a GET would get.
                let length = head.fields.single(Name::ContentLength);
                if let Some(length) = length.and_then(http_semantics::field::decimal) {
                    response::content_length(out, length);
                }
            }
            (Outgoing::Empty, _) if head.status != 204 => response::content_length(out, 0),
            _ => {}
        }
        if !head.fields.has(Name::Date) {
            out.extend_from_slice(added.date);
        }
        // A line of the upstream that a rule removes is not there in place of that of this server.
        let is_theirs = head.fields.find(HSTS).is_some() && !added.ruled.removes(HSTS);
        if !added.hsts.is_empty() && !is_theirs {
            out.extend_from_slice(added.hsts);
        }
        out.extend_from_slice(added.ruled.list().text());
        out.extend_from_slice(added.connection);
    }
    Ok(())
}

/// Appends content, as a chunk if the body is chunked.
pub(crate) fn write_content(out: &mut Vec<u8>, data: &[u8], is_chunked: bool) {
    if !is_chunked {
        return out.extend_from_slice(data);
    }
    let _ = write!(out, "{:x}\r\n", data.len());
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// Appends the end of a chunked body, with those trailer fields that pass. `is_replaced` says which do not pass in the head,
/// either.
pub(crate) fn write_last_chunk(
    out: &mut Vec<u8>,
    trailers: &Fields<'_, '_>,
    is_replaced: impl Fn(&str) -> bool,
) {
    out.extend_from_slice(b"0\r\n");
    write_trailers(out, trailers, is_replaced);
    out.extend_from_slice(b"\r\n");
}

/// Appends those trailer fields that pass, as [`write_last_chunk`]: a recipient may merge them into the head (RFC 9110 section
/// 6.5).
pub(crate) fn write_trailers(
    out: &mut Vec<u8>,
    trailers: &Fields<'_, '_>,
    is_replaced: impl Fn(&str) -> bool,
) {
    for (name, value) in trailers.iter() {
        let has_no_place = is_own(name) || is_among(name, &NOT_IN_TRAILERS) || is_replaced(name);
        if !has_no_place && !ends_here(name, trailers) {
            // A field that cannot be written is dropped, as a recipient may drop any trailer field.
            let _ = response::field(out, name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Facts};
    use crate::field_rules::FieldRules;
    use http1::Limits;
    use http1::slots::Slots;
    use http1::{client, server};

    fn request(text: &str) -> String {
        let from = From {
            peer: "192.0.2.7".parse().unwrap(),
            hops: Vec::new(),
            may_claim_https: false,
            is_secured: false,
            guarded: Guarded::default(),
            id: None,
            trace: None,
        };
        request_from(text, &from, &RequestHeader::default())
    }

    fn request_from(text: &str, from: &From, rules: &RequestHeader) -> String {
        let mut slots = Slots::new();
        let mut connection = server::Connection::new();
        let step = connection.receive(text.as_bytes(), &mut slots, &Limits::DEFAULT);
        let Ok(server::Step::Request { head, .. }) = step else {
            panic!("{step:?}")
        };
        let mut out = Vec::new();
        write_request(
            &mut out,
            &head.semantics(),
            head.framing,
            b"/t",
            from,
            Follows::Nothing,
            rules,
        )
        .unwrap();
        String::from_utf8(out).unwrap()
    }

    fn response(text: &str, method: Method, version: Version) -> String {
        let ruled = RuledLines::NONE;
        ruled_response(text, (method, version), (b"", &ruled))
    }

    fn ruled_response(
        text: &str,
        (method, version): (Method, Version),
        (hsts, ruled): (&[u8], &RuledLines),
    ) -> String {
        let mut slots = Slots::new();
        let mut connection = client::Connection::new();
        connection.begin_request(method, false, &Limits::DEFAULT).unwrap();
        let step = connection.receive(text.as_bytes(), &mut slots, &Limits::DEFAULT);
        let Ok(client::Step::Response { head, .. }) = step else {
            panic!("{step:?}")
        };
        let added = Added {
            date: b"Date: now\r\n",
            hsts,
            connection: b"Connection: close\r\n",
            ruled,
            received: head.version.protocol(),
        };
        let outgoing = Outgoing::of(head.framing, version);
        let mut out = Vec::new();
        write_response(&mut out, &head, method == Method::Head, outgoing, added).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_removed_line_of_the_upstream_does_not_replace_that_of_this_server() {
        let lines = |rule: &str| {
            let config = Config::from_toml(rule, "w.toml").unwrap();
            let mut slots = Slots::new();
            let text = b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
            let mut connection = server::Connection::new();
            let Ok(server::Step::Request { head, .. }) =
                connection.receive(text, &mut slots, &Limits::DEFAULT)
            else {
                panic!("a request")
            };
            let facts = Facts {
                head: &head.semantics(),
                is_secured: true,
            };
            FieldRules::of(std::iter::once(&config)).passed(0, facts, None)
        };
        let text = "HTTP/1.1 204 No\r\nStrict-Transport-Security: max-age=1\r\n\r\n";
        let own = &b"Strict-Transport-Security: max-age=9\r\n"[..];
        for (rule, sent) in [
            ("", &["max-age=1"][..]),
            (
                "[[header-rule]]\nremove = ['strict-transport-security']\nalways = true\n",
                &["max-age=9"],
            ),
            (
                "[[header-rule]]\nheader = ['Strict-Transport-Security: max-age=5']\nalways = true\n",
                &["max-age=5"],
            ),
        ] {
            let got = ruled_response(text, (Method::Get, Version::Http11), (own, &lines(rule)));
            let named = got
                .lines()
                .filter_map(|line| line.strip_prefix("Strict-Transport-Security: "));
            assert_eq!(named.collect::<Vec<_>>(), sent, "{rule}: {got}");
        }
    }

    #[test]
    fn a_request_is_written_anew() {
        let got = request(
            "GET /a HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive, X-Private\r\nx-private: 1\r\nKeep-Alive: 5\r\n\
             TE: trailers\r\nUpgrade: h2c\r\nX-Forwarded-For: 10.0.0.1\r\nX_Forwarded_For: 10.0.0.2\r\n\
             Forwarded: for=10.0.0.1\r\nVia: 1.0 first\r\nAccept: */*\r\nProxy-Connection: x\r\n\r\n",
        );
        assert_eq!(
            got,
            "GET /t HTTP/1.1\r\nHost: a.test\r\nAccept: */*\r\nVia: 1.0 first, 1.1 weir\r\n\
             X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: http\r\n\
             Forwarded: for=192.0.2.7;proto=http;host=\"a.test\"\r\nX-Forwarded-Host: a.test\r\n\
             Connection: close\r\n\r\n"
        );
    }

    #[test]
    fn trusted_proxies_follow_the_client() {
        let address = |text: &str| text.parse().unwrap();
        let text = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1.1.1.1\r\n\r\n";
        for (peer, hops, lines) in [
            (
                "2001:db8::7",
                &["10.0.0.2", "2001:db8::1"][..],
                "X-Forwarded-For: 2001:db8::7, 10.0.0.2, 2001:db8::1\r\nX-Forwarded-Proto: https\r\n\
                 Forwarded: for=\"[2001:db8::7]\";proto=https;host=\"a\", for=10.0.0.2, for=\"[2001:db8::1]\"\r\n",
            ),
            (
                "0.0.0.0",
                &["10.0.0.2"],
                "X-Forwarded-For: unknown, 10.0.0.2\r\nX-Forwarded-Proto: https\r\n\
                 Forwarded: for=unknown;proto=https;host=\"a\", for=10.0.0.2\r\n",
            ),
        ] {
            let from = From {
                peer: address(peer),
                hops: hops.iter().map(|hop| address(hop)).collect(),
                may_claim_https: true,
                is_secured: true,
                guarded: Guarded::default(),
                id: None,
                trace: None,
            };
            let got = request_from(text, &from, &RequestHeader::default());
            assert!(got.contains(&format!("\r\n{lines}")), "{got}");
        }
    }

    #[test]
    fn only_trusted_proxies_say_in_other_fields_that_the_client_used_https() {
        let lines = "X-Forwarded-Ssl: on\r\nX-Forwarded-Scheme: https\r\nX-Forwarded-Protocol: https\r\n\
                     Front-End-Https: on\r\nX-Scheme: https\r\nX-Url-Scheme: https\r\n";
        let text = format!("GET /a HTTP/1.1\r\nHost: a.test\r\n{lines}X_Forwarded_Ssl: on\r\n\r\n");
        let got = request(&text).to_ascii_lowercase();
        for name in CLAIMS.into_iter().chain(["x_forwarded_ssl"]) {
            assert!(!got.contains(name), "{name}: {got}");
        }
        let from = |may_claim_https: bool| From {
            peer: "192.0.2.7".parse().unwrap(),
            hops: Vec::new(),
            may_claim_https,
            is_secured: false,
            guarded: Guarded::default(),
            id: None,
            trace: None,
        };
        let got = request_from(&text, &from(true), &RequestHeader::default());
        assert!(got.contains(lines) && !got.contains("X_Forwarded_Ssl"), "{got}");
        // A rule has the last word.
        let rules: RequestHeader = toml::from_str("set = ['X-Forwarded-Ssl: off']").unwrap();
        for may_claim_https in [false, true] {
            let got = request_from(&text, &from(may_claim_https), &rules);
            assert!(got.contains("X-Forwarded-Ssl: off\r\n"), "{got}");
            assert!(!got.contains("X-Forwarded-Ssl: on\r\n"), "{got}");
        }
    }

    #[test]
    fn rules_change_fields() {
        let rules: RequestHeader = toml::from_str(
            "set = ['X-Env: prod', 'Host: app.internal', 'X-Real-IP: hidden']\nadd = ['X-Many: 2']\nremove = ['Cookie']\n",
        )
        .unwrap();
        let from = From {
            peer: "192.0.2.7".parse().unwrap(),
            hops: Vec::new(),
            may_claim_https: false,
            is_secured: false,
            guarded: Guarded::default(),
            id: None,
            trace: None,
        };
        let text = "GET /a HTTP/1.1\r\nHost: a.test\r\nx-env: dev\r\nX-Env: test\r\nX-Many: 1\r\nCookie: a=b\r\n\
                    X-Real-IP: 10.0.0.1\r\n\r\n";
        assert_eq!(
            request_from(text, &from, &rules),
            "GET /t HTTP/1.1\r\nHost: app.internal\r\nX-Many: 1\r\nX-Env: prod\r\nX-Real-IP: hidden\r\nX-Many: 2\r\n\
             Via: 1.1 weir\r\nX-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: http\r\n\
             Forwarded: for=192.0.2.7;proto=http;host=\"a.test\"\r\nX-Forwarded-Host: a.test\r\n\
             Connection: close\r\n\r\n"
        );
    }

    #[test]
    fn a_rule_replaces_scheme_and_host_of_the_client() {
        let from = From {
            peer: "192.0.2.7".parse().unwrap(),
            hops: Vec::new(),
            may_claim_https: false,
            is_secured: false,
            guarded: Guarded::default(),
            id: None,
            trace: None,
        };
        let text =
            "GET /a HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-Proto: ftp\r\nX-Forwarded-Port: 21\r\n\r\n";
        for (set, lines, forwarded) in [
            (
                "'X-Forwarded-Proto: https', 'X-Forwarded-Port: 443'",
                "X-Forwarded-Proto: https\r\nX-Forwarded-Port: 443\r\n",
                "for=192.0.2.7;proto=https;host=\"a.test\"\r\nX-Forwarded-Host: a.test\r\n",
            ),
            (
                "'X-Forwarded-Host: b.test:8443'",
                "X-Forwarded-Host: b.test:8443\r\n",
                "for=192.0.2.7;proto=http;host=\"b.test:8443\"\r\n",
            ),
            // `Forwarded` says nothing rather than something else.
            (
                "'X-Forwarded-Host: a.test/office'",
                "X-Forwarded-Host: a.test/office\r\n",
                "for=192.0.2.7;proto=http\r\n",
            ),
        ] {
            let rules: RequestHeader = toml::from_str(&format!("set = [{set}]")).unwrap();
            let got = request_from(text, &from, &rules);
            let proto = match set.contains("Proto") {
                true => "",
                false => "X-Forwarded-Proto: http\r\n",
            };
            assert_eq!(
                got,
                format!(
                    "GET /t HTTP/1.1\r\nHost: a.test\r\n{lines}Via: 1.1 weir\r\nX-Forwarded-For: 192.0.2.7\r\n{proto}\
                     Forwarded: {forwarded}Connection: close\r\n\r\n"
                )
            );
        }
    }

    #[test]
    fn a_request_has_one_framing() {
        let chunked =
            request("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\nTrailer: x\r\n\r\n");
        assert!(
            chunked.contains("\r\nTransfer-Encoding: chunked\r\n"),
            "{chunked}"
        );
        assert!(
            !chunked.contains("Content-Length") && !chunked.contains("Trailer"),
            "{chunked}"
        );
        let sized = request("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 05\r\n\r\n");
        assert_eq!(sized.matches("Content-Length: 5\r\n").count(), 1, "{sized}");
        let empty = request("POST / HTTP/1.0\r\n\r\n");
        assert!(
            empty.starts_with("POST /t HTTP/1.1\r\nHost: localhost\r\n"),
            "{empty}"
        );
        assert!(
            empty.contains("Content-Length: 0\r\n") && empty.contains("Via: 1.0 weir\r\n"),
            "{empty}"
        );
    }

    #[test]
    fn a_response_is_framed_for_its_client() {
        for (text, method, version, expected) in [
            (
                "HTTP/1.1 200 Fine\r\nContent-Length: 3\r\nConnection: X-A\r\nX-A: 1\r\nDate: then\r\n\r\n",
                Method::Get,
                Version::Http11,
                "HTTP/1.1 200 OK\r\nDate: then\r\nVia: 1.1 weir\r\nContent-Length: 3\r\nConnection: close\r\n\r\n",
            ),
            (
                "HTTP/1.0 200 OK\r\nA: b\r\n\r\n",
                Method::Get,
                Version::Http11,
                "HTTP/1.1 200 OK\r\nA: b\r\nVia: 1.0 weir\r\nTransfer-Encoding: chunked\r\nDate: now\r\n\
                 Connection: close\r\n\r\n",
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                Method::Get,
                Version::Http10,
                "HTTP/1.1 200 OK\r\nVia: 1.1 weir\r\nDate: now\r\nConnection: close\r\n\r\n",
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n",
                Method::Head,
                Version::Http11,
                "HTTP/1.1 200 OK\r\nVia: 1.1 weir\r\nContent-Length: 7\r\nDate: now\r\nConnection: close\r\n\r\n",
            ),
            (
                "HTTP/1.1 204 No Content\r\n\r\n",
                Method::Get,
                Version::Http11,
                "HTTP/1.1 204 No Content\r\nVia: 1.1 weir\r\nDate: now\r\nConnection: close\r\n\r\n",
            ),
        ] {
            assert_eq!(response(text, method, version), expected, "{text:?}");
        }
    }

    #[test]
    fn trailers_hold_no_framing() {
        let lines = [
            http_semantics::field::Line {
                name: "Content-Length",
                value: b"5",
            },
            http_semantics::field::Line {
                name: "Checksum",
                value: b"x",
            },
            http_semantics::field::Line {
                name: "Set-Cookie",
                value: b"a=b",
            },
        ];
        let mut out = Vec::new();
        write_last_chunk(&mut out, &Fields::new(&lines), |_| false);
        assert_eq!(out, b"0\r\nChecksum: x\r\n\r\n");
    }

    /// What the head of a request may not say, its trailer section may not say either.
    #[test]
    fn trailers_hold_no_field_that_is_replaced() {
        let rules: RequestHeader = toml::from_str("set = ['X-Env: prod']\nremove = ['X-Secret']\n").unwrap();
        let guarded = Guarded {
            kept_back: Some(vec!["remote-user".to_owned()].into()),
            ..Guarded::default()
        };
        let names = [
            "x-env",
            "X-Secret",
            "Remote-User",
            "Remote_User",
            "traceparent",
            "Via",
            "X-Forwarded-For",
            "X-Forwarded-Ssl",
            "If-Range",
            "X-Sum",
        ];
        let lines = names.map(|name| http_semantics::field::Line { name, value: b"1" });
        let replaced = Replaced::of(&rules, &guarded, None, (true, true));
        let mut out = Vec::new();
        write_last_chunk(&mut out, &Fields::new(&lines), |name| replaced.has(name));
        assert_eq!(out, b"0\r\nX-Sum: 1\r\n\r\n");
    }
}
