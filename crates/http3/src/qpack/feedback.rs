//! The peer's decoder stream (RFC 9204 section 4.4). As our sections never refer to the dynamic table, only the cancellation
//! of a stream is valid there.

/// How far an instruction has come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Feedback {
    /// Bytes of the integer under way, behind its first; 0 between instructions.
    within: u8,
}

impl Feedback {
    /// Takes all of `input`.
    ///
    /// # Errors
    /// The rule an instruction violates: QPACK_DECODER_STREAM_ERROR.
    pub(crate) fn instructions(&mut self, input: &[u8]) -> Result<(), &'static str> {
        for &byte in input {
            match (self.within, byte) {
                (0, 0x80..) => return Err("the acknowledgment of a section that needs none"),
                (0, 0..0x40) => return Err("an increment beyond the insertions"),
                (0, 0x7f) => self.within = 1,
                (0, _) => {}
                (9, 0x80..) => return Err("the identifier of a cancelled stream is too long"),
                (_, 0x80..) => self.within += 1,
                (_, _) => self.within = 0,
            }
        }
        Ok(())
    }
}
