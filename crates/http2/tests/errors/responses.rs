//! What a server can do wrong: responses (RFC 9113 sections 8.1 to 8.4) and frames only clients send.

use super::*;

/// A head on stream 1, with END_STREAM.
fn of(section: &'static str, text: &'static str, fields: &[(&str, &str)], expected: &'static str) -> Row {
    Row(
        section,
        text,
        vec![Send(headers(1, &pairs(fields), true))],
        expected,
    )
}

#[rustfmt::skip]
pub(crate) fn rows() -> Vec<Row> {
    const OK: (&str, &str) = (":status", "200");
    let head = |fields: &[(&str, &str)], end| headers(1, &pairs(fields), end);
    let ok = |end| head(&[OK], end);
    let sized = |end| head(&[OK, ("content-length", "3")], end);
    let data = |flags, bytes: &[u8]| raw(kind::DATA, flags, 1, bytes);
    vec![
        // Numbers and states.
        Row("5.1", "DATA on an idle stream", vec![Send(raw(kind::DATA, 0, 7, b"x"))], PROTOCOL),
        Row("5.1", "RST_STREAM on an idle stream", vec![Send(number(kind::RST_STREAM, 7, 8))], PROTOCOL),
        Row("5.1", "WINDOW_UPDATE on an idle stream", vec![Send(update(7, 9))], PROTOCOL),
        Row("5.1.1", "HEADERS on a stream we did not open", vec![Send(headers(7, &pairs(&[OK]), true))], PROTOCOL),
        Row("5.1.1", "HEADERS on a stream that was not promised", vec![Send(headers(2, &pairs(&[OK]), true))], PROTOCOL),
        Row("5.1", "DATA behind END_STREAM of both", vec![send(&[ok(true), data(0, b"x")])], "connection STREAM_CLOSED"),
        Row("5.1", "HEADERS behind END_STREAM of both", vec![send(&[ok(true), ok(true)])], "connection STREAM_CLOSED"),
        Row("5.4.2", "RST_STREAM is not answered", vec![send(&[number(kind::RST_STREAM, 1, 2), number(kind::RST_STREAM, 3, 7)])], NONE),
        Row("6.4", "NO_ERROR behind a whole response", vec![send(&[ok(true), number(kind::RST_STREAM, 1, 0)])], NONE),
        // Frames only a client sends.
        Row("6.5.2", "SETTINGS_ENABLE_PUSH 1", vec![Send(setting(2, 1))], PROTOCOL),
        Row("6.5.2", "SETTINGS_ENABLE_PUSH 0", vec![Send(setting(2, 0))], NONE),
        Row("6.6", "PUSH_PROMISE though push is disabled", vec![Send(raw(kind::PUSH_PROMISE, 4, 1, &[0, 0, 0, 2, 0x82]))], PROTOCOL),
        Row("8.4", "PUSH_PROMISE on an idle stream", vec![Send(raw(kind::PUSH_PROMISE, 4, 7, &[0, 0, 0, 2]))], PROTOCOL),
        Row("RFC 9218 7.1", "PRIORITY_UPDATE from a server", vec![Send(number(kind::PRIORITY_UPDATE, 0, 1))], PROTOCOL),
        // Windows.
        Row("6.9.1", "DATA beyond the stream's window", vec![Send(ok(false)), send(&vec![raw(kind::DATA, 0, 1, &[0; 1 << 14]); 5])], "stream 1 FLOW_CONTROL_ERROR"),
        Row("6.9", "WINDOW_UPDATE by 0 on the connection", vec![Send(update(0, 0))], PROTOCOL),
        Row("6.9.1", "a window of the connection above 2^31-1", vec![Send(update(0, WINDOW_MAX))], "connection FLOW_CONTROL_ERROR"),
        // The sequence of frames.
        Row("8.1", "DATA before HEADERS", vec![Send(data(0, b"x"))], MALFORMED),
        Row("8.1", "an interim response with END_STREAM", vec![Send(head(&[(":status", "103")], true))], MALFORMED),
        Row("8.1", "DATA behind an interim response", vec![send(&[head(&[(":status", "103")], false), data(0, b"x")])], MALFORMED),
        Row("8.1", "interim responses, then a final one", vec![send(&[head(&[(":status", "100")], false), head(&[(":status", "103")], false), ok(true)])], NONE),
        Row("8.1", "a second final response", vec![send(&[ok(false), ok(false)])], MALFORMED),
        Row("8.1", "an interim response behind the final one", vec![send(&[ok(false), head(&[(":status", "103")], false)])], MALFORMED),
        Row("8.1", ":status in trailers", vec![send(&[ok(false), ok(true)])], MALFORMED),
        Row("8.1", "trailers", vec![send(&[ok(false), data(0, b"x"), head(&[("x", "y")], true)])], NONE),
        // Content-Length.
        Row("8.1.1", "no body, though one of 3 bytes is announced", vec![Send(sized(true))], MALFORMED),
        Row("8.1.1", "4 bytes for 3", vec![send(&[sized(false), data(0, b"four")])], MALFORMED),
        Row("8.1.1", "2 bytes for 3", vec![send(&[sized(false), data(1, b"12")])], MALFORMED),
        Row("8.1.1", "2 bytes and trailers for 3", vec![send(&[sized(false), data(0, b"12"), head(&[("x", "y")], true)])], MALFORMED),
        of("8.1.1", "a length of 304", &[(":status", "304"), ("content-length", "3")], NONE),
        // Fields.
        of("8.2.1", "a name in upper case", &[OK, ("Date", "x")], MALFORMED),
        of("8.2.1", "a value with LF", &[OK, ("a", "b\nc")], MALFORMED),
        of("8.2.2", "Connection", &[OK, ("connection", "close")], MALFORMED),
        of("8.2.2", "Transfer-Encoding", &[OK, ("transfer-encoding", "chunked")], MALFORMED),
        of("8.3", "a pseudo-field of requests", &[OK, (":path", "/")], MALFORMED),
        of("8.3", ":status behind a regular field", &[("a", "b"), OK], MALFORMED),
        of("8.3.2", "no :status", &[("a", "b")], MALFORMED),
        of("8.3.2", "two :status", &[OK, OK], MALFORMED),
        of("8.3.2", ":status is not a number", &[(":status", "2x0")], MALFORMED),
        of("8.6", "101 Switching Protocols", &[(":status", "101")], MALFORMED),
        Row("4.3", "an index beyond the tables", vec![Send(headers(1, &[0xbe], true))], "connection COMPRESSION_ERROR"),
        // Going away.
        Row("6.8", "GOAWAY is not answered", vec![Send(raw(kind::GOAWAY, 0, 0, &[0; 8]))], NONE),
    ]
}
