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
    /// Maximum bytes of one receive.
    pub(crate) const CAPACITY: usize = 16 << 10;

    pub(crate) fn new() -> Buf {
        Buf {
            bytes: vec![0; Buf::CAPACITY].into_boxed_slice(),
            len: 0,
        }
    }

    #[inline]
    pub(crate) fn filled(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
