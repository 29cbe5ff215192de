//! SETTINGS (RFC 9114 section 7.2.4, RFC 9204 section 5).

use crate::error::{Code, Fault};
use crate::varint;

/// SETTINGS_QPACK_MAX_TABLE_CAPACITY.
pub(super) const TABLE_CAPACITY: u64 = 1;
/// SETTINGS_MAX_FIELD_SECTION_SIZE.
pub(super) const SECTION_SIZE: u64 = 6;
/// SETTINGS_QPACK_BLOCKED_STREAMS.
pub(super) const BLOCKED_STREAMS: u64 = 7;

/// What SETTINGS say; absent ones have their defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of the dynamic table that the sender's decoder permits.
    pub table_capacity: u64,
    /// Bytes of a field section that the sender accepts; `u64::MAX` if it named no limit.
    pub section_size: u64,
    /// Streams of which the sender's decoder accepts that they are blocked.
    pub blocked_streams: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            table_capacity: 0,
            section_size: u64::MAX,
            blocked_streams: 0,
        }
    }
}

impl Settings {
    /// Reads the payload of a frame. Unknown settings are ignored. Work grows with the square of their number, which the
    /// size of the payload bounds.
    ///
    /// # Errors
    /// H3_FRAME_ERROR for a payload that ends within a setting. H3_SETTINGS_ERROR for a setting that comes twice or that
    /// is one of HTTP/2 only.
    pub fn parse(payload: &[u8]) -> Result<Settings, Fault> {
        let mut found = Settings::default();
        let mut rest = payload;
        while !rest.is_empty() {
            let before = &payload[..payload.len() - rest.len()];
            let (id, value, after) = pair(rest).ok_or({
                let text = "SETTINGS end within a setting";
                Fault::Connection(Code::FRAME_ERROR, text)
            })?;
            let bad = |text| Err(Fault::Connection(Code::SETTINGS_ERROR, text));
            if pairs(before).any(|(other, _)| other == id) {
                return bad("a setting comes twice");
            }
            match id {
                TABLE_CAPACITY => found.table_capacity = value,
                SECTION_SIZE => found.section_size = value,
                BLOCKED_STREAMS => found.blocked_streams = value,
                0 | 2..=5 => return bad("a setting of HTTP/2 has no meaning in HTTP/3"),
                _ => {}
            }
            rest = after;
        }
        Ok(found)
    }
}

fn pair(rest: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (id, rest) = varint::read(rest)?;
    let (value, rest) = varint::read(rest)?;
    Some((id, value, rest))
}

/// The settings of a payload up to its first error.
fn pairs(mut rest: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    core::iter::from_fn(move || {
        let (id, value, after) = pair(rest)?;
        rest = after;
        Some((id, value))
    })
}
