//! Writes frames.

use super::{Settings, kind, settings};
use crate::varint;

/// The type and length of a frame; its payload follows.
#[inline]
pub fn header(kind: u64, length: u64, out: &mut Vec<u8>) {
    varint::put(kind, out);
    varint::put(length, out);
}

/// A frame with its payload.
pub fn frame(kind: u64, payload: &[u8], out: &mut Vec<u8>) {
    header(kind, payload.len() as u64, out);
    out.extend_from_slice(payload);
}

/// SETTINGS. Those with their default values are left out.
pub fn settings(settings: Settings, out: &mut Vec<u8>) {
    let defaults = Settings::default();
    let mut payload = Vec::new();
    for (id, value, default) in [
        (
            settings::TABLE_CAPACITY,
            settings.table_capacity,
            defaults.table_capacity,
        ),
        (
            settings::SECTION_SIZE,
            settings.section_size,
            defaults.section_size,
        ),
        (
            settings::BLOCKED_STREAMS,
            settings.blocked_streams,
            defaults.blocked_streams,
        ),
    ] {
        if value != default {
            varint::put(id, &mut payload);
            varint::put(value, &mut payload);
        }
    }
    frame(kind::SETTINGS, &payload, out);
}

/// GOAWAY: no request stream, or push, from `id` on will be processed.
pub fn go_away(id: u64, out: &mut Vec<u8>) {
    header(kind::GOAWAY, varint::len(id) as u64, out);
    varint::put(id, out);
}

/// PRIORITY_UPDATE of a request stream, with the value of its `Priority` field.
pub fn priority_update(stream: u64, value: &str, out: &mut Vec<u8>) {
    header(
        kind::PRIORITY_UPDATE,
        (varint::len(stream) + value.len()) as u64,
        out,
    );
    varint::put(stream, out);
    out.extend_from_slice(value.as_bytes());
}
