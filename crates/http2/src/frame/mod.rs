//! Frames (RFC 9113 sections 4 and 6, RFC 9218 section 7.1): layout and size rules. Knows nothing of streams' states.

mod parse;
mod settings;
pub mod write;

#[cfg(test)]
mod tests;

pub use parse::{Frame, Padded, Prelude, parse, prelude};
pub use settings::{Setting, Settings};

/// Bytes of a frame header.
pub const HEADER: usize = 9;

/// The smallest and initial SETTINGS_MAX_FRAME_SIZE.
pub const SIZE_MIN: u32 = 1 << 14;

/// The largest SETTINGS_MAX_FRAME_SIZE.
pub const SIZE_MAX: u32 = (1 << 24) - 1;

/// The largest flow-control window.
pub const WINDOW_MAX: u32 = (1 << 31) - 1;

/// The initial flow-control window of the connection and of streams.
pub const WINDOW_INITIAL: u32 = 65_535;

/// What a client sends first, before its SETTINGS (RFC 9113 section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Types of frames.
pub mod kind {
    #![expect(
        missing_docs,
        reason = "each is the frame type of that name in RFC 9113 section 6"
    )]
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
    /// RFC 9218 section 7.1.
    pub const PRIORITY_UPDATE: u8 = 0x10;
}

/// Flags of frames; those a type does not define are ignored.
pub mod flag {
    #![expect(missing_docs, reason = "each is the flag of that name in RFC 9113 section 6")]
    pub const END_STREAM: u8 = 0x1;
    pub const ACK: u8 = 0x1;
    pub const END_HEADERS: u8 = 0x4;
    pub const PADDED: u8 = 0x8;
    pub const PRIORITY: u8 = 0x20;
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the payload, below 2^24.
    pub length: u32,
    /// Type; see [`kind`].
    pub kind: u8,
    /// Flags; see [`flag`].
    pub flags: u8,
    /// Stream identifier, below 2^31; 0 is the connection.
    pub stream: u32,
}

impl Header {
    /// The header from its nine bytes; the reserved bit is ignored.
    #[inline]
    pub const fn read(bytes: &[u8; HEADER]) -> Header {
        Header {
            length: u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]),
            kind: bytes[3],
            flags: bytes[4],
            stream: u32::from_be_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]) & WINDOW_MAX,
        }
    }

    /// The nine bytes.
    #[inline]
    pub const fn bytes(self) -> [u8; HEADER] {
        let length = self.length.to_be_bytes();
        let stream = self.stream.to_be_bytes();
        [
            length[1], length[2], length[3], self.kind, self.flags, stream[0], stream[1], stream[2],
            stream[3],
        ]
    }

    /// Whether `flag` is set.
    #[inline]
    pub const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}
