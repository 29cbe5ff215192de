//! Memory that a back end receives into and sends from. Whose bytes they are, and how many of them are sent, is not
//! known here.

/// Output in memory that the kernel may read while an operation is under way.
pub(crate) trait Outgoing {
    /// The unsent part of the head.
    fn head_left(&self) -> &[u8];

    /// The unsent part of the body, if it is in memory.
    fn body_left(&self) -> Option<&[u8]>;
}

/// Received bytes.
#[derive(Debug)]
pub(crate) struct Buf {
    pub(crate) bytes: Box<[u8]>,
    pub(crate) len: usize,
}

impl Buf {
    /// Maximum bytes of one receive, but for a peer that sends much.
    pub(crate) const CAPACITY: usize = 16 << 10;
    /// Maximum bytes of one receive from a peer whose last receive was at least [`Buf::CAPACITY`] long.
    pub(crate) const LONG: usize = 64 << 10;

    pub(crate) fn new() -> Buf {
        Buf::of(Buf::CAPACITY)
    }

    /// One for so many bytes.
    pub(crate) fn of(capacity: usize) -> Buf {
        Buf {
            bytes: vec![0; capacity].into_boxed_slice(),
            len: 0,
        }
    }

    #[inline]
    pub(crate) fn filled(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
