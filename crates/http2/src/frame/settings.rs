//! The parameters of SETTINGS (RFC 9113 section 6.5.2, RFC 9218 section 2.1) and their permitted values.

use super::{SIZE_MAX, SIZE_MIN, WINDOW_MAX};
use crate::error::{Code, Fault};

/// One parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Bytes of the dynamic table with which the peer may compress.
    HeaderTableSize(u32),
    /// Whether the peer may push.
    EnablePush(bool),
    /// Streams the peer may have open at a time.
    MaxConcurrentStreams(u32),
    /// Flow-control window of new streams, in bytes.
    InitialWindowSize(u32),
    /// Bytes of the largest payload of a frame.
    MaxFrameSize(u32),
    /// Bytes of the largest header list, as RFC 9113 section 6.5.2 counts them.
    MaxHeaderListSize(u32),
    /// Whether extended CONNECT is supported (RFC 8441).
    EnableConnectProtocol(bool),
    /// Whether the priorities of RFC 7540 are unused (RFC 9218).
    NoRfc7540Priorities(bool),
    /// A parameter this crate does not know: ignored.
    Unknown(u16, u32),
}

impl Setting {
    /// Identifier and value.
    pub const fn pair(self) -> (u16, u32) {
        match self {
            Setting::HeaderTableSize(n) => (1, n),
            Setting::EnablePush(on) => (2, on as u32),
            Setting::MaxConcurrentStreams(n) => (3, n),
            Setting::InitialWindowSize(n) => (4, n),
            Setting::MaxFrameSize(n) => (5, n),
            Setting::MaxHeaderListSize(n) => (6, n),
            Setting::EnableConnectProtocol(on) => (8, on as u32),
            Setting::NoRfc7540Priorities(on) => (9, on as u32),
            Setting::Unknown(id, n) => (id, n),
        }
    }

    /// The parameter with this identifier.
    ///
    /// # Errors
    /// A connection error if the value is not permitted.
    pub const fn of(id: u16, value: u32) -> Result<Setting, Fault> {
        const fn bad<T>(code: Code, text: &'static str) -> Result<T, Fault> {
            Err(Fault::Connection(code, text))
        }
        Ok(match (id, value) {
            (1, _) => Setting::HeaderTableSize(value),
            (2, 0 | 1) => Setting::EnablePush(value == 1),
            (2, _) => return bad(Code::PROTOCOL_ERROR, "SETTINGS_ENABLE_PUSH is neither 0 nor 1"),
            (3, _) => Setting::MaxConcurrentStreams(value),
            (4, ..=WINDOW_MAX) => Setting::InitialWindowSize(value),
            (4, _) => {
                return bad(
                    Code::FLOW_CONTROL_ERROR,
                    "SETTINGS_INITIAL_WINDOW_SIZE is above 2^31-1",
                );
            }
            (5, SIZE_MIN..=SIZE_MAX) => Setting::MaxFrameSize(value),
            (5, _) => {
                return bad(
                    Code::PROTOCOL_ERROR,
                    "SETTINGS_MAX_FRAME_SIZE is outside 2^14 to 2^24-1",
                );
            }
            (6, _) => Setting::MaxHeaderListSize(value),
            (8, 0 | 1) => Setting::EnableConnectProtocol(value == 1),
            (8, _) => {
                return bad(
                    Code::PROTOCOL_ERROR,
                    "SETTINGS_ENABLE_CONNECT_PROTOCOL is neither 0 nor 1",
                );
            }
            (9, 0 | 1) => Setting::NoRfc7540Priorities(value == 1),
            (9, _) => {
                return bad(
                    Code::PROTOCOL_ERROR,
                    "SETTINGS_NO_RFC7540_PRIORITIES is neither 0 nor 1",
                );
            }
            _ => Setting::Unknown(id, value),
        })
    }
}

/// The parameters of one SETTINGS frame, in order; a multiple of six bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings<'b>(pub(super) &'b [u8]);

impl<'b> Settings<'b> {
    /// Number of parameters, repeated ones included.
    pub const fn len(self) -> usize {
        self.0.len() / 6
    }

    /// Whether the frame holds no parameter.
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The parameters, each checked by [`Setting::of`]. The order matters: a later one overrides.
    pub fn iter(self) -> impl Iterator<Item = Result<Setting, Fault>> + use<'b> {
        self.0.as_chunks::<6>().0.iter().map(|b| {
            Setting::of(
                u16::from_be_bytes([b[0], b[1]]),
                u32::from_be_bytes([b[2], b[3], b[4], b[5]]),
            )
        })
    }
}
