//! From bytes to frames: the size and stream-number rules that hold in every state.
//!
//! [`prelude`] reads a frame header with the padding length, so that DATA can be taken piece by piece. [`parse`] reads
//! the whole payload of any other frame.

use super::settings::Settings;
use super::{HEADER, Header, WINDOW_MAX, flag, kind};
use crate::error::{Code, Fault};

/// A frame with its payload. DATA is a [`Padded`] instead; unknown types are [`Frame::Unknown`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'b> {
    /// HEADERS; the deprecated priority is checked by the connection, as it may name its own stream.
    Headers {
        /// The fragment of the field block.
        fragment: &'b [u8],
        /// The stream this one depends on, if the deprecated priority is present.
        depends: Option<u32>,
    },
    /// PRIORITY (deprecated): the stream it depends on.
    Priority {
        /// Stream identifier.
        depends: u32,
    },
    /// RST_STREAM.
    Reset(Code),
    /// SETTINGS without ACK.
    Settings(Settings<'b>),
    /// SETTINGS with ACK.
    SettingsAck,
    /// PUSH_PROMISE. A connection of this crate refuses it, as push is disabled; an observer needs the field block, which
    /// changes the dynamic table.
    PushPromise {
        /// The reserved stream.
        promised: u32,
        /// The fragment of the field block.
        fragment: &'b [u8],
    },
    /// PING without ACK.
    Ping([u8; 8]),
    /// PING with ACK.
    PingAck([u8; 8]),
    /// GOAWAY.
    GoAway {
        /// The last stream that was or might be processed.
        last: u32,
        /// Reason.
        code: Code,
        /// Additional debug data.
        debug: &'b [u8],
    },
    /// WINDOW_UPDATE; 0 is an error of the stream or the connection.
    WindowUpdate(u32),
    /// CONTINUATION.
    Continuation(&'b [u8]),
    /// PRIORITY_UPDATE (RFC 9218).
    PriorityUpdate {
        /// The prioritized stream.
        stream: u32,
        /// The value of its `Priority` field.
        value: &'b [u8],
    },
    /// A type this crate does not know: skipped.
    Unknown,
}

/// The layout of a DATA frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Padded {
    /// Bytes of content.
    pub content: u32,
    /// Bytes of padding behind it; the length byte before it is not counted.
    pub padding: u8,
}

/// The front of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prelude {
    /// More bytes are needed.
    Partial,
    /// A DATA frame whose content begins after `used` bytes.
    Data {
        /// Header.
        header: Header,
        /// What follows `used`.
        layout: Padded,
        /// Bytes of the header and the padding length.
        used: usize,
    },
    /// Any other frame; its payload begins after nine bytes.
    Other(Header),
}

const fn size<T>(text: &'static str) -> Result<T, Fault> {
    Err(Fault::Connection(Code::FRAME_SIZE_ERROR, text))
}

const fn protocol<T>(text: &'static str) -> Result<T, Fault> {
    Err(Fault::Connection(Code::PROTOCOL_ERROR, text))
}

/// Reads the header at the front of `input`; `max` is the largest payload we announced (SETTINGS_MAX_FRAME_SIZE).
///
/// # Errors
/// A connection error: the frame is too large, DATA is on stream 0, or its padding exceeds the payload. An oversized
/// DATA frame would permit a stream error, but skipping it costs more than it saves an honest peer.
#[inline]
pub fn prelude(input: &[u8], max: u32) -> Result<Prelude, Fault> {
    let Some(bytes) = input.first_chunk::<HEADER>() else {
        return Ok(Prelude::Partial);
    };
    let header = Header::read(bytes);
    if header.length > max {
        return size("a frame is larger than SETTINGS_MAX_FRAME_SIZE");
    }
    if header.kind != kind::DATA {
        return Ok(Prelude::Other(header));
    }
    if header.stream == 0 {
        return protocol("DATA on stream 0");
    }
    if !header.has(flag::PADDED) {
        let layout = Padded {
            content: header.length,
            padding: 0,
        };
        return Ok(Prelude::Data {
            header,
            layout,
            used: HEADER,
        });
    }
    if header.length == 0 {
        return size("padded DATA without a padding length");
    }
    let Some(&padding) = input.get(HEADER) else {
        return Ok(Prelude::Partial);
    };
    match (header.length - 1).checked_sub(u32::from(padding)) {
        Some(content) => {
            let layout = Padded { content, padding };
            Ok(Prelude::Data {
                header,
                layout,
                used: HEADER + 1,
            })
        }
        None => protocol("the padding of DATA exceeds its payload"),
    }
}

/// Interprets the whole payload of a frame other than DATA.
///
/// # Errors
/// A connection error, or a stream error where RFC 9113 section 6 says so: a wrong size, a wrong stream number, padding
/// that exceeds the payload.
#[inline]
pub fn parse(header: Header, payload: &[u8]) -> Result<Frame<'_>, Fault> {
    debug_assert_eq!(header.length as usize, payload.len(), "the whole payload");
    let on_connection = matches!(
        header.kind,
        kind::SETTINGS | kind::PING | kind::GOAWAY | kind::PRIORITY_UPDATE
    );
    let on_stream = matches!(
        header.kind,
        kind::HEADERS | kind::PRIORITY | kind::RST_STREAM | kind::PUSH_PROMISE | kind::CONTINUATION
    );
    if on_connection && header.stream != 0 {
        return protocol("a frame of the connection is on a stream");
    }
    if on_stream && header.stream == 0 {
        return protocol("a frame of a stream is on stream 0");
    }
    Ok(match header.kind {
        kind::HEADERS => return headers(header, payload),
        kind::PRIORITY => match payload.first_chunk::<5>() {
            Some(bytes) if payload.len() == 5 => Frame::Priority {
                depends: number(bytes),
            },
            _ => {
                let text = "PRIORITY does not have 5 bytes";
                return Err(Fault::Stream(header.stream, Code::FRAME_SIZE_ERROR, text));
            }
        },
        kind::RST_STREAM => match <[u8; 4]>::try_from(payload) {
            Ok(bytes) => Frame::Reset(Code(u32::from_be_bytes(bytes))),
            Err(_) => return size("RST_STREAM does not have 4 bytes"),
        },
        kind::SETTINGS if header.has(flag::ACK) => {
            if !payload.is_empty() {
                return size("an acknowledgment of SETTINGS has a payload");
            }
            Frame::SettingsAck
        }
        kind::SETTINGS => {
            if !payload.len().is_multiple_of(6) {
                return size("SETTINGS is not a multiple of 6 bytes");
            }
            Frame::Settings(Settings(payload))
        }
        kind::PUSH_PROMISE => return push_promise(header, payload),
        kind::PING => match <[u8; 8]>::try_from(payload) {
            Ok(bytes) if header.has(flag::ACK) => Frame::PingAck(bytes),
            Ok(bytes) => Frame::Ping(bytes),
            Err(_) => return size("PING does not have 8 bytes"),
        },
        kind::GOAWAY => match payload.split_first_chunk::<8>() {
            Some((b, debug)) => Frame::GoAway {
                last: number(b),
                code: Code(u32::from_be_bytes([b[4], b[5], b[6], b[7]])),
                debug,
            },
            None => return size("GOAWAY has less than 8 bytes"),
        },
        kind::WINDOW_UPDATE => match <[u8; 4]>::try_from(payload) {
            Ok(bytes) => Frame::WindowUpdate(number(&bytes)),
            Err(_) => return size("WINDOW_UPDATE does not have 4 bytes"),
        },
        kind::CONTINUATION => Frame::Continuation(payload),
        kind::PRIORITY_UPDATE => match payload.split_first_chunk::<4>() {
            Some((bytes, value)) => match number(bytes) {
                0 => return protocol("PRIORITY_UPDATE names stream 0"),
                stream => Frame::PriorityUpdate { stream, value },
            },
            None => return size("PRIORITY_UPDATE has less than 4 bytes"),
        },
        _ => Frame::Unknown,
    })
}

/// A 31-bit number at the front of `bytes`, its reserved bit ignored.
#[inline]
fn number<const N: usize>(bytes: &[u8; N]) -> u32 {
    const { assert!(N >= 4) };
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) & WINDOW_MAX
}

fn push_promise(header: Header, payload: &[u8]) -> Result<Frame<'_>, Fault> {
    let (rest, padding) = match (header.has(flag::PADDED), payload.split_first()) {
        (false, _) => (payload, 0),
        (true, Some((&length, after))) => (after, usize::from(length)),
        (true, None) => return size("padded PUSH_PROMISE without a padding length"),
    };
    let Some((bytes, rest)) = rest.split_first_chunk::<4>() else {
        return size("PUSH_PROMISE is too short for its stream");
    };
    match rest.len().checked_sub(padding) {
        Some(length) => Ok(Frame::PushPromise {
            promised: number(bytes),
            fragment: &rest[..length],
        }),
        None => protocol("the padding of PUSH_PROMISE exceeds its payload"),
    }
}

#[inline]
fn headers(header: Header, payload: &[u8]) -> Result<Frame<'_>, Fault> {
    let mut rest = payload;
    let mut padding = 0;
    if header.has(flag::PADDED) {
        match rest.split_first() {
            Some((&length, after)) => (padding, rest) = (usize::from(length), after),
            None => return size("padded HEADERS without a padding length"),
        }
    }
    let mut depends = None;
    if header.has(flag::PRIORITY) {
        match rest.split_first_chunk::<5>() {
            Some((bytes, after)) => (depends, rest) = (Some(number(bytes)), after),
            None => return size("HEADERS is too short for its priority"),
        }
    }
    match rest.len().checked_sub(padding) {
        Some(length) => Ok(Frame::Headers {
            fragment: &rest[..length],
            depends,
        }),
        None => protocol("the padding of HEADERS exceeds its payload"),
    }
}
