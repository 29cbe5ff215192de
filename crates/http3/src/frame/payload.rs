//! Payloads of the frames on a control stream.

use super::kind;
use crate::error::{Code, Fault};
use crate::varint;

/// A frame of the control stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control<'b> {
    /// SETTINGS; its payload is for [`Settings::parse`](super::Settings::parse).
    Settings(&'b [u8]),
    /// GOAWAY: a request stream from a server, a push from a client.
    GoAway(u64),
    /// MAX_PUSH_ID.
    MaxPushId(u64),
    /// CANCEL_PUSH.
    CancelPush(u64),
    /// PRIORITY_UPDATE of a request stream.
    PriorityUpdate {
        /// The prioritized stream.
        stream: u64,
        /// The value of its `Priority` field.
        value: &'b [u8],
    },
    /// PRIORITY_UPDATE of a push.
    PriorityUpdatePush(u64),
}

/// Interprets the whole payload of a frame; `None` for other types.
///
/// # Errors
/// H3_FRAME_ERROR: the payload is too short or too long (RFC 9114 section 7.1).
pub fn control(kind: u64, payload: &[u8]) -> Result<Option<Control<'_>>, Fault> {
    let whole = |text| match varint::read(payload) {
        Some((id, [])) => Ok(id),
        _ => Err(Fault::Connection(Code::FRAME_ERROR, text)),
    };
    let front = || {
        let text = "PRIORITY_UPDATE ends within its element";
        varint::read(payload).ok_or(Fault::Connection(Code::FRAME_ERROR, text))
    };
    Ok(Some(match kind {
        kind::SETTINGS => Control::Settings(payload),
        kind::GOAWAY => Control::GoAway(whole("GOAWAY is not one integer")?),
        kind::MAX_PUSH_ID => Control::MaxPushId(whole("MAX_PUSH_ID is not one integer")?),
        kind::CANCEL_PUSH => Control::CancelPush(whole("CANCEL_PUSH is not one integer")?),
        kind::PRIORITY_UPDATE => {
            let (stream, value) = front()?;
            Control::PriorityUpdate { stream, value }
        }
        kind::PRIORITY_UPDATE_PUSH => Control::PriorityUpdatePush(front()?.0),
        _ => return Ok(None),
    }))
}
