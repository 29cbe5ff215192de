//! Malformed requests (RFC 9113 sections 8.1 to 8.3 and 8.5): always an error of the stream.

use super::*;

/// A request with these fields, without a body.
fn of(section: &'static str, text: &'static str, fields: &[(&str, &str)], expected: &'static str) -> Row {
    Row(
        section,
        text,
        vec![Send(headers(1, &pairs(fields), true))],
        expected,
    )
}

/// GET with one more field.
fn with(section: &'static str, text: &'static str, field: (&str, &str)) -> Row {
    of(section, text, &[&GET[..], &[field]].concat(), MALFORMED)
}

#[rustfmt::skip]
pub(crate) fn rows() -> Vec<Row> {
    let [method, scheme, authority, path] = GET;
    let post = [(":method", "POST"), scheme, authority, path, ("content-length", "3")];
    let sized = |end| headers(1, &pairs(&post), end);
    let data = |flags, bytes: &[u8]| raw(kind::DATA, flags, 1, bytes);
    let trailers = |fields: &[(&str, &str)], end| headers(1, &pairs(fields), end);
    let connect = || headers(1, &pairs(&[(":method", "CONNECT"), (":authority", "a:443")]), false);
    vec![
        // The sequence of frames.
        Row("8.1", "a second HEADERS without END_STREAM", vec![send(&[open(1), trailers(&[("x", "y")], false)])], MALFORMED),
        Row("8.1", "pseudo-fields in trailers", vec![send(&[open(1), trailers(&GET, true)])], MALFORMED),
        Row("8.1", "a name in upper case in trailers", vec![send(&[open(1), trailers(&[("X", "y")], true)])], MALFORMED),
        Row("8.1", "trailers", vec![send(&[open(1), trailers(&[("x", "y")], true)])], NONE),
        // Content-Length.
        Row("8.1.1", "no body, though one of 3 bytes is announced", vec![Send(sized(true))], MALFORMED),
        Row("8.1.1", "4 bytes for 3", vec![send(&[sized(false), data(0, b"four")])], MALFORMED),
        Row("8.1.1", "2 bytes for 3", vec![send(&[sized(false), data(1, b"12")])], MALFORMED),
        Row("8.1.1", "2 bytes and trailers for 3", vec![send(&[sized(false), data(0, b"12"), trailers(&[("x", "y")], true)])], MALFORMED),
        Row("8.1.1", "3 bytes in two frames", vec![send(&[sized(false), data(0, b"1"), data(1, b"23")])], NONE),
        with("8.1.1", "Content-Length is not a number", ("content-length", "x")),
        // Fields.
        with("8.2.1", "a name in upper case", ("Accept", "x")),
        with("8.2.1", "a name with a space", ("a b", "x")),
        with("8.2.1", "a name with a control byte", ("a\x01", "x")),
        with("8.2.1", "a name with a byte above 0x7f", ("a\u{e9}", "x")),
        with("8.2.1", "a name with a colon", ("a:b", "x")),
        with("8.2.1", "an empty name", ("", "x")),
        with("8.2.1", "a value with NUL", ("a", "\0")),
        with("8.2.1", "a value with CR", ("a", "b\rc")),
        with("8.2.1", "a value with LF", ("a", "b\nc")),
        with("8.2.1", "a value that begins with a space", ("a", " b")),
        with("8.2.1", "a value that ends with a tab", ("a", "b\t")),
        with("8.2.2", "Connection", ("connection", "close")),
        with("8.2.2", "Proxy-Connection", ("proxy-connection", "close")),
        with("8.2.2", "Keep-Alive", ("keep-alive", "1")),
        with("8.2.2", "Transfer-Encoding", ("transfer-encoding", "chunked")),
        with("8.2.2", "Upgrade", ("upgrade", "h2c")),
        with("8.2.2", "TE other than trailers", ("te", "gzip")),
        of("8.2.2", "TE: trailers", &[method, scheme, authority, path, ("te", "trailers")], NONE),
        of("8.2.3", "a cookie in crumbs", &[method, scheme, authority, path, ("cookie", "a=b"), ("cookie", "c=d")], NONE),
        // Pseudo-fields.
        with("8.3", "a pseudo-field behind a regular field", (":path", "/")),
        of("8.3", "a pseudo-field between regular ones", &[method, scheme, ("a", "b"), path], MALFORMED),
        of("8.3", "an unknown pseudo-field", &[method, scheme, path, (":own", "x")], MALFORMED),
        of("8.3", "a pseudo-field of responses", &[method, scheme, path, (":status", "200")], MALFORMED),
        of("8.3", "no fields", &[], MALFORMED),
        of("8.3.1", "no :method", &[scheme, authority, path], MALFORMED),
        of("8.3.1", "no :scheme", &[method, authority, path], MALFORMED),
        of("8.3.1", "no :path", &[method, scheme, authority], MALFORMED),
        of("8.3.1", "an empty :path", &[method, scheme, authority, (":path", "")], MALFORMED),
        of("8.3.1", "* for another method than OPTIONS", &[method, scheme, authority, (":path", "*")], MALFORMED),
        of("8.3.1", "* for OPTIONS", &[(":method", "OPTIONS"), scheme, authority, (":path", "*")], NONE),
        of("8.3.1", "two :method", &[method, method, scheme, authority, path], MALFORMED),
        of("8.3.1", "two :scheme", &[method, scheme, scheme, authority, path], MALFORMED),
        of("8.3.1", "two :path", &[method, scheme, authority, path, path], MALFORMED),
        of("8.3.1", "two :authority", &[method, scheme, authority, authority, path], MALFORMED),
        of("8.3.1", "an empty :authority", &[method, scheme, (":authority", ""), path], MALFORMED),
        of("8.3.1", "an empty Host", &[method, scheme, path, ("host", "")], MALFORMED),
        of("8.3.1", "user information in :authority", &[method, scheme, (":authority", "u@a"), path], MALFORMED),
        of("8.3.1", "Host differs from :authority", &[method, scheme, authority, path, ("host", "b")], MALFORMED),
        of("8.3.1", "Host alone", &[method, scheme, path, ("host", "b")], NONE),
        // CONNECT.
        of("8.5", "CONNECT with :scheme", &[(":method", "CONNECT"), scheme, authority], MALFORMED),
        of("8.5", "CONNECT with :path", &[(":method", "CONNECT"), authority, path], MALFORMED),
        of("8.5", "CONNECT without :authority", &[(":method", "CONNECT")], MALFORMED),
        Row("8.5", "HEADERS on a connected stream", vec![Send(connect()), Respond(1, false), Send(trailers(&[("x", "y")], true))], MALFORMED),
        Row("8.5", "DATA on a connected stream", vec![Send(connect()), Respond(1, false), Send(data(0, b"x"))], NONE),
        // The stream only: the next request is answered.
        Row("5.4.2", "a request behind a malformed one", vec![send(&[headers(1, &pairs(&[method]), true), request(3)]), Respond(3, true)], MALFORMED),
    ]
}
