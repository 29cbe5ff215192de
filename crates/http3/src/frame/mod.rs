//! Frames (RFC 9114 section 7, RFC 9218 section 7.2): layout and size rules. Knows nothing of streams' states.

mod payload;
mod reader;
mod settings;
pub mod write;

#[cfg(test)]
mod tests;

pub use payload::{Control, control};
pub use reader::{Item, Reader};
pub use settings::Settings;

/// Types of frames.
pub mod kind {
    #![expect(
        missing_docs,
        reason = "each is the frame type of that name in RFC 9114 section 7.2"
    )]
    pub const DATA: u64 = 0;
    pub const HEADERS: u64 = 1;
    pub const CANCEL_PUSH: u64 = 3;
    pub const SETTINGS: u64 = 4;
    pub const PUSH_PROMISE: u64 = 5;
    pub const GOAWAY: u64 = 7;
    pub const MAX_PUSH_ID: u64 = 0xd;
    /// RFC 9218 section 7.2, for a request stream.
    pub const PRIORITY_UPDATE: u64 = 0xf0700;
    /// RFC 9218 section 7.2, for a push.
    pub const PRIORITY_UPDATE_PUSH: u64 = 0xf0701;

    /// Whether HTTP/2 has this frame type and HTTP/3 forbids it: PRIORITY, PING, WINDOW_UPDATE and CONTINUATION
    /// (RFC 9114 section 7.2.8).
    pub const fn is_of_http2(kind: u64) -> bool {
        matches!(kind, 2 | 6 | 8 | 9)
    }
}

/// Types of unidirectional streams (RFC 9114 section 6.2, RFC 9204 section 4.2).
pub mod stream {
    #![expect(missing_docs, reason = "each is the stream type of that name")]
    pub const CONTROL: u64 = 0;
    pub const PUSH: u64 = 1;
    pub const QPACK_ENCODER: u64 = 2;
    pub const QPACK_DECODER: u64 = 3;
}
