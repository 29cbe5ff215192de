//! The memory that all connections share.

/// Budget shared by all connections, so that memory has one limit.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Unacknowledged segments that may still be stored.
    pub(crate) segments: usize,
    /// Bytes that may still be held out of order.
    pub(crate) bytes: usize,
    /// Segments that could not be stored.
    pub(crate) refused: u64,
}

impl Budget {
    pub(crate) fn hold(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.bytes;
        if fits {
            self.bytes -= bytes;
        }
        fits
    }

    pub(crate) fn release(&mut self, bytes: usize) {
        self.bytes += bytes;
    }
}
