//! Frames in states that do not permit them (RFC 9113 sections 5.1, 5.1.1, 5.1.2, 6.9.1, 6.10).

use super::*;

#[rustfmt::skip]
pub(crate) fn rows() -> Vec<Row> {
    let begun = || raw(kind::HEADERS, 0, 1, &get());
    let data = |stream| raw(kind::DATA, 0, stream, b"x");
    let cancel = |stream| number(kind::RST_STREAM, stream, 8);
    let whole = || vec![0; SIZE_MIN as usize];
    let closed = || vec![send(&[request(1)]), Respond(1, true)];
    let behind = |mut steps: Vec<Step>, frame: Vec<u8>| { steps.push(Send(frame)); steps };
    let ended = "connection STREAM_CLOSED";
    let refused = "stream 1 STREAM_CLOSED";
    let mut rows = vec![
        // Idle.
        Row("5.1", "DATA on an idle stream", vec![Send(data(1))], PROTOCOL),
        Row("5.1", "RST_STREAM on an idle stream", vec![Send(cancel(1))], PROTOCOL),
        Row("5.1", "WINDOW_UPDATE on an idle stream", vec![Send(update(1, 9))], PROTOCOL),
        Row("5.1", "CONTINUATION on an idle stream", vec![Send(raw(kind::CONTINUATION, 4, 1, &[]))], PROTOCOL),
        Row("5.1", "DATA on an idle stream of the server", vec![Send(data(2))], PROTOCOL),
        Row("6.6", "PUSH_PROMISE from a client", vec![Send(raw(kind::PUSH_PROMISE, 4, 1, &[0; 4]))], PROTOCOL),
        // Half-closed (remote).
        Row("5.1", "DATA behind END_STREAM", vec![send(&[request(1), data(1)])], refused),
        Row("5.1", "HEADERS behind END_STREAM", vec![send(&[request(1), request(1)])], refused),
        Row("5.1", "CONTINUATION behind END_STREAM", vec![send(&[request(1), raw(kind::CONTINUATION, 4, 1, &[])])], PROTOCOL),
        Row("5.1", "WINDOW_UPDATE, PRIORITY and RST_STREAM behind END_STREAM", vec![send(&[request(1), update(1, 9), raw(kind::PRIORITY, 0, 1, &[0; 5]), cancel(1)])], NONE),
        Row("5.1", "DATA behind DATA with END_STREAM", vec![send(&[open(1), raw(kind::DATA, 1, 1, b"x"), data(1)])], refused),
        // Closed by the peer's reset.
        Row("5.1", "DATA behind RST_STREAM", vec![send(&[open(1), cancel(1), data(1)])], refused),
        Row("5.1", "HEADERS behind RST_STREAM", vec![send(&[open(1), cancel(1), request(1)])], refused),
        Row("5.4.2", "RST_STREAM behind RST_STREAM", vec![send(&[open(1), cancel(1), cancel(1)])], NONE),
        Row("5.1", "WINDOW_UPDATE behind RST_STREAM", vec![send(&[open(1), cancel(1), update(1, 9)])], NONE),
        // Closed by our reset: what was under way is ignored.
        Row("5.1", "frames behind our RST_STREAM", vec![Send(open(1)), Reset(1), send(&[data(1), update(1, 9), headers(1, &pairs(&[("x", "y")]), true), cancel(1)])], NONE),
        // Numbers.
        Row("5.1.1", "a request on an even stream", vec![Send(request(2))], PROTOCOL),
        Row("5.1.1", "a request on a lower stream", vec![send(&[request(5), request(3)])], PROTOCOL),
        Row("5.1.1", "DATA on a skipped stream", vec![send(&[request(5), data(3)])], "stream 3 STREAM_CLOSED"),
        Row("5.1.2", "a fourth stream of three permitted", vec![send(&[open(1), open(3), open(5), open(7)])], "stream 7 REFUSED_STREAM"),
        Row("5.1.2", "a third stream in place of a closed one", vec![send(&[open(1), open(3), open(5), cancel(3), open(7)])], NONE),
        // Field blocks are contiguous.
        Row("6.10", "CONTINUATION without HEADERS", vec![Send(raw(kind::CONTINUATION, 4, 1, &get()))], PROTOCOL),
        Row("6.10", "CONTINUATION behind END_HEADERS", vec![send(&[open(1), raw(kind::CONTINUATION, 4, 1, &[])])], PROTOCOL),
        Row("6.10", "CONTINUATION behind DATA", vec![send(&[open(1), data(1), raw(kind::CONTINUATION, 4, 1, &[])])], PROTOCOL),
        Row("6.10", "CONTINUATION of another stream", vec![send(&[begun(), raw(kind::CONTINUATION, 4, 3, &[])])], PROTOCOL),
        Row("6.2", "HEADERS within a block", vec![send(&[begun(), request(3)])], PROTOCOL),
        Row("6.2", "DATA within a block", vec![send(&[begun(), data(1)])], PROTOCOL),
        Row("6.2", "PING within a block", vec![send(&[begun(), raw(kind::PING, 0, 0, &[0; 8])])], PROTOCOL),
        Row("5.5", "an unknown frame within a block", vec![send(&[begun(), raw(0x99, 0, 0, &[])])], PROTOCOL),
        Row("6.10", "a block in three frames", vec![send(&[raw(kind::HEADERS, 1, 1, &get()[..1]), raw(kind::CONTINUATION, 0, 1, &get()[1..2]), raw(kind::CONTINUATION, 4, 1, &get()[2..])])], NONE),
        // Windows.
        Row("6.9.1", "DATA beyond the stream's window", vec![Send(open(1)), send(&vec![raw(kind::DATA, 0, 1, &whole()); 5])], "stream 1 FLOW_CONTROL_ERROR"),
        Row("6.9.1", "padding counts", vec![Send(open(1)), send(&vec![raw(kind::DATA, flag::PADDED, 1, &[&[255][..], &[0; 256]].concat()); 256])], "stream 1 FLOW_CONTROL_ERROR"),
        Row("6.8", "a request behind our client's GOAWAY", vec![send(&[raw(kind::GOAWAY, 0, 0, &[0; 8]), request(1)])], NONE),
    ];
    // Closed by END_STREAM of both.
    for (text, frame, expected) in [
        ("DATA on a closed stream", data(1), ended),
        ("HEADERS on a closed stream", request(1), ended),
        ("WINDOW_UPDATE on a closed stream", update(1, 9), NONE),
        ("PRIORITY on a closed stream", raw(kind::PRIORITY, 0, 1, &[0; 5]), NONE),
        ("RST_STREAM on a closed stream", cancel(1), NONE),
    ] {
        rows.push(Row("5.1", text, behind(closed(), frame), expected));
    }
    rows
}
