//! The presentation language of TLS (RFC 8446, section 3): big-endian integers and vectors with a length prefix.

/// Unread bytes of a message. Each method returns `None` if the message ends too early.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// A vector with a one-byte length.
    pub(crate) fn vec8(&mut self) -> Option<Fields<'a>> {
        let len = self.u8()?;
        self.take(usize::from(len)).map(Fields)
    }

    /// A vector with a two-byte length.
    pub(crate) fn vec16(&mut self) -> Option<Fields<'a>> {
        let len = self.u16()?;
        self.take(usize::from(len)).map(Fields)
    }

    /// At most `max` two-byte values, to the end of the bytes. An odd last byte is ignored.
    pub(crate) fn u16s(mut self, max: usize) -> Vec<u16> {
        core::iter::from_fn(|| self.u16()).take(max).collect()
    }
}
