//! From frames to bytes, appended to the caller's output.

use super::{Header, Setting, flag, kind};
use crate::error::Code;

fn header(output: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, length: usize) {
    let length = u32::try_from(length).expect("a payload is below 2^24 bytes");
    output.extend_from_slice(
        &Header {
            length,
            kind,
            flags,
            stream,
        }
        .bytes(),
    );
}

/// The header of an unpadded DATA frame with `length` bytes, which the caller appends.
#[inline]
pub fn data(output: &mut Vec<u8>, stream: u32, length: usize, end: bool) {
    header(
        output,
        kind::DATA,
        u8::from(end) * flag::END_STREAM,
        stream,
        length,
    );
}

/// A field block as HEADERS and, above `max` bytes, CONTINUATION.
pub fn headers(output: &mut Vec<u8>, stream: u32, block: &[u8], end: bool, max: u32) {
    let (mut kind, mut flags, mut rest) = (kind::HEADERS, u8::from(end) * flag::END_STREAM, block);
    loop {
        let (fragment, after) = rest.split_at(rest.len().min(max as usize));
        if after.is_empty() {
            flags |= flag::END_HEADERS;
        }
        header(output, kind, flags, stream, fragment.len());
        output.extend_from_slice(fragment);
        if after.is_empty() {
            return;
        }
        (kind, flags, rest) = (kind::CONTINUATION, 0, after);
    }
}

/// RST_STREAM.
pub fn reset(output: &mut Vec<u8>, stream: u32, code: Code) {
    header(output, kind::RST_STREAM, 0, stream, 4);
    output.extend_from_slice(&code.0.to_be_bytes());
}

/// SETTINGS.
pub fn settings(output: &mut Vec<u8>, settings: &[Setting]) {
    header(output, kind::SETTINGS, 0, 0, 6 * settings.len());
    for (id, value) in settings.iter().map(|setting| setting.pair()) {
        output.extend_from_slice(&id.to_be_bytes());
        output.extend_from_slice(&value.to_be_bytes());
    }
}

/// The acknowledgment of SETTINGS.
pub fn settings_ack(output: &mut Vec<u8>) {
    header(output, kind::SETTINGS, flag::ACK, 0, 0);
}

/// PING, or its acknowledgment.
pub fn ping(output: &mut Vec<u8>, ack: bool, payload: [u8; 8]) {
    header(output, kind::PING, u8::from(ack) * flag::ACK, 0, 8);
    output.extend_from_slice(&payload);
}

/// GOAWAY with debug data.
pub fn go_away(output: &mut Vec<u8>, last: u32, code: Code, debug: &str) {
    header(output, kind::GOAWAY, 0, 0, 8 + debug.len());
    output.extend_from_slice(&last.to_be_bytes());
    output.extend_from_slice(&code.0.to_be_bytes());
    output.extend_from_slice(debug.as_bytes());
}

/// WINDOW_UPDATE by `increment` bytes, 1 to 2^31-1; stream 0 is the connection.
pub fn window_update(output: &mut Vec<u8>, stream: u32, increment: u32) {
    header(output, kind::WINDOW_UPDATE, 0, stream, 4);
    output.extend_from_slice(&increment.to_be_bytes());
}

/// PRIORITY_UPDATE with the value of a `Priority` field (RFC 9218 section 7.1).
pub fn priority_update(output: &mut Vec<u8>, stream: u32, value: &str) {
    header(output, kind::PRIORITY_UPDATE, 0, 0, 4 + value.len());
    output.extend_from_slice(&stream.to_be_bytes());
    output.extend_from_slice(value.as_bytes());
}
