//! What single frames say wrong: sizes, stream numbers, padding, values of settings (RFC 9113 sections 4 and 6).

use super::*;

fn one(section: &'static str, text: &'static str, frame: Vec<u8>, expected: &'static str) -> Row {
    Row(section, text, vec![Send(frame)], expected)
}

/// The frame behind a request whose body is still to come, on stream 1.
fn on_open(section: &'static str, text: &'static str, frame: Vec<u8>, expected: &'static str) -> Row {
    Row(section, text, vec![Send(open(1)), Send(frame)], expected)
}

#[rustfmt::skip]
pub(crate) fn rows() -> Vec<Row> {
    let large = vec![0; SIZE_MIN as usize + 1];
    let padded = flag::PADDED;
    vec![
        // Sizes.
        on_open("4.2", "DATA above SETTINGS_MAX_FRAME_SIZE", raw(kind::DATA, 0, 1, &large), SIZE),
        one("4.2", "HEADERS above it", raw(kind::HEADERS, 4, 1, &large), SIZE),
        one("4.2", "SETTINGS above it", raw(kind::SETTINGS, 0, 0, &large), SIZE),
        one("4.2", "an unknown frame above it", raw(0x99, 0, 9, &large), SIZE),
        one("4.2", "padded HEADERS without a padding length", raw(kind::HEADERS, padded | 4, 1, &[]), SIZE),
        one("4.2", "HEADERS too short for their priority", raw(kind::HEADERS, flag::PRIORITY | 4, 1, &[0; 4]), SIZE),
        on_open("4.2", "padded DATA without a padding length", raw(kind::DATA, padded, 1, &[]), SIZE),
        one("6.8", "GOAWAY of 7 bytes", raw(kind::GOAWAY, 0, 0, &[0; 7]), SIZE),
        // Compression.
        one("4.3", "an index beyond the tables", headers(1, &[0xbe], true), "connection COMPRESSION_ERROR"),
        one("4.3", "a truncated literal", headers(1, &[0x40, 5, b'a'], true), "connection COMPRESSION_ERROR"),
        one("4.3", "an integer without end", headers(1, &[0xff; 6], true), "connection COMPRESSION_ERROR"),
        one("4.3", "Huffman code with EOS", headers(1, &[0, 0x84, 0xff, 0xff, 0xff, 0xff, 0], true), "connection COMPRESSION_ERROR"),
        one("4.3.1", "a table size above ours", headers(1, &[&[0x3f, 0xe2, 0x1f][..], &get()].concat(), true), "connection COMPRESSION_ERROR"),
        // The number of the stream.
        one("6.1", "DATA on stream 0", raw(kind::DATA, 0, 0, b"x"), PROTOCOL),
        one("6.2", "HEADERS on stream 0", raw(kind::HEADERS, 4, 0, &get()), PROTOCOL),
        one("6.3", "PRIORITY on stream 0", raw(kind::PRIORITY, 0, 0, &[0; 5]), PROTOCOL),
        one("6.4", "RST_STREAM on stream 0", number(kind::RST_STREAM, 0, 8), PROTOCOL),
        on_open("6.5", "SETTINGS on a stream", raw(kind::SETTINGS, 0, 1, &[]), PROTOCOL),
        on_open("6.5", "an acknowledgment of SETTINGS on a stream", raw(kind::SETTINGS, 1, 1, &[]), PROTOCOL),
        one("6.6", "PUSH_PROMISE on stream 0", raw(kind::PUSH_PROMISE, 4, 0, &[0; 4]), PROTOCOL),
        on_open("6.7", "PING on a stream", raw(kind::PING, 0, 1, &[0; 8]), PROTOCOL),
        on_open("6.8", "GOAWAY on a stream", raw(kind::GOAWAY, 0, 1, &[0; 8]), PROTOCOL),
        one("6.10", "CONTINUATION on stream 0", raw(kind::CONTINUATION, 4, 0, &[]), PROTOCOL),
        on_open("RFC 9218 7.1", "PRIORITY_UPDATE on a stream", raw(kind::PRIORITY_UPDATE, 0, 1, &[0, 0, 0, 1]), PROTOCOL),
        one("RFC 9218 7.1", "PRIORITY_UPDATE for stream 0", raw(kind::PRIORITY_UPDATE, 0, 0, &[0; 4]), PROTOCOL),
        one("RFC 9218 7.1", "PRIORITY_UPDATE for a pushed stream", number(kind::PRIORITY_UPDATE, 0, 2), PROTOCOL),
        one("RFC 9218 7.1", "PRIORITY_UPDATE of 3 bytes", raw(kind::PRIORITY_UPDATE, 0, 0, &[0; 3]), SIZE),
        // Padding.
        on_open("6.1", "padding of DATA as long as the payload", raw(kind::DATA, padded, 1, &[5, 0, 0, 0, 0]), PROTOCOL),
        on_open("6.1", "padding that fills the payload", raw(kind::DATA, padded, 1, &[4, 0, 0, 0, 0]), NONE),
        one("6.2", "padding of HEADERS as long as the payload", raw(kind::HEADERS, padded | 4, 1, &[4, 0x82, 0, 0]), PROTOCOL),
        one("6.2", "padding of HEADERS behind a priority", raw(kind::HEADERS, padded | flag::PRIORITY | 4, 1, &[1, 0, 0, 0, 0, 0]), PROTOCOL),
        // PRIORITY and RST_STREAM.
        on_open("6.3", "PRIORITY of 4 bytes", raw(kind::PRIORITY, 0, 1, &[0; 4]), "stream 1 FRAME_SIZE_ERROR"),
        on_open("6.3", "PRIORITY of 6 bytes", raw(kind::PRIORITY, 0, 1, &[0; 6]), "stream 1 FRAME_SIZE_ERROR"),
        one("6.3", "PRIORITY of 4 bytes on an idle stream", raw(kind::PRIORITY, 0, 3, &[0; 4]), SIZE),
        one("6.3", "PRIORITY on an idle stream", raw(kind::PRIORITY, 0, 9, &[0; 5]), NONE),
        on_open("RFC 7540 5.3.1", "PRIORITY on itself", raw(kind::PRIORITY, 0, 1, &[0, 0, 0, 1, 9]), MALFORMED),
        one("RFC 7540 5.3.1", "PRIORITY of an idle stream on itself", raw(kind::PRIORITY, 0, 3, &[0, 0, 0, 3, 9]), PROTOCOL),
        one("RFC 7540 5.3.1", "HEADERS that depend on themselves", raw(kind::HEADERS, flag::PRIORITY | 5, 1, &[&[0, 0, 0, 1, 9], &get()[..]].concat()), MALFORMED),
        on_open("6.4", "RST_STREAM of 3 bytes", raw(kind::RST_STREAM, 0, 1, &[0; 3]), SIZE),
        on_open("6.4", "RST_STREAM of 5 bytes", raw(kind::RST_STREAM, 0, 1, &[0; 5]), SIZE),
        // SETTINGS and PING.
        one("6.5", "an acknowledgment of SETTINGS with a payload", raw(kind::SETTINGS, 1, 0, &[0; 6]), SIZE),
        one("6.5", "SETTINGS of 5 bytes", raw(kind::SETTINGS, 0, 0, &[0; 5]), SIZE),
        one("6.5.2", "SETTINGS_ENABLE_PUSH of 2", setting(2, 2), PROTOCOL),
        one("6.5.2", "SETTINGS_INITIAL_WINDOW_SIZE of 2^31", setting(4, 1 << 31), "connection FLOW_CONTROL_ERROR"),
        one("6.5.2", "SETTINGS_MAX_FRAME_SIZE below 2^14", setting(5, SIZE_MIN - 1), PROTOCOL),
        one("6.5.2", "SETTINGS_MAX_FRAME_SIZE of 2^24", setting(5, 1 << 24), PROTOCOL),
        one("6.5.2", "an unknown setting", setting(99, 7), NONE),
        one("RFC 8441 3", "SETTINGS_ENABLE_CONNECT_PROTOCOL of 2", setting(8, 2), PROTOCOL),
        one("RFC 9218 2.1", "SETTINGS_NO_RFC7540_PRIORITIES of 2", setting(9, 2), PROTOCOL),
        one("6.7", "PING of 7 bytes", raw(kind::PING, 0, 0, &[0; 7]), SIZE),
        one("6.7", "an acknowledgment of PING of 9 bytes", raw(kind::PING, 1, 0, &[0; 9]), SIZE),
        // WINDOW_UPDATE.
        one("6.9", "WINDOW_UPDATE of 3 bytes", raw(kind::WINDOW_UPDATE, 0, 0, &[1; 3]), SIZE),
        on_open("6.9", "WINDOW_UPDATE of 5 bytes on a stream", raw(kind::WINDOW_UPDATE, 0, 1, &[1; 5]), SIZE),
        one("6.9", "WINDOW_UPDATE by 0 on the connection", update(0, 0), PROTOCOL),
        on_open("6.9", "WINDOW_UPDATE by 0 on a stream", update(1, 0), MALFORMED),
        one("6.9", "WINDOW_UPDATE by 0 with the reserved bit", update(0, 1 << 31), PROTOCOL),
        one("6.9.1", "a window of the connection above 2^31-1", update(0, WINDOW_MAX), "connection FLOW_CONTROL_ERROR"),
        on_open("6.9.1", "a window of a stream above 2^31-1", update(1, WINDOW_MAX), "stream 1 FLOW_CONTROL_ERROR"),
        on_open("6.9.2", "SETTINGS that make a window exceed 2^31-1", [update(1, 0x7fff_0000), setting(4, WINDOW_MAX)].concat(), "connection FLOW_CONTROL_ERROR"),
        // Extensions and reserved bits.
        one("5.5", "an unknown frame", raw(0x99, 0xff, 9, &[0; 100]), NONE),
        one("4.1", "undefined flags and the reserved bit", raw(kind::PING, 0xfe, 1 << 31, &[0; 8]), NONE),
    ]
}
