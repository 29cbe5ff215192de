//! A TCP segment as values (RFC 9293, section 3.1), before it is bytes.

use core::fmt;

/// The control bits the endpoint uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    /// Synchronize sequence numbers.
    pub syn: bool,
    /// No more data from the sender.
    pub fin: bool,
    /// Reset.
    pub rst: bool,
    /// Push.
    pub psh: bool,
    /// The acknowledgment field counts.
    pub ack: bool,
}

impl fmt::Display for Flags {
    /// `S`, `SA`, `PA`, `FPA`, `A`, `R`: the letters traces use.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (set, letter) in [
            (self.syn, "S"),
            (self.fin, "F"),
            (self.rst, "R"),
            (self.psh, "P"),
            (self.ack, "A"),
        ] {
            if set {
                f.write_str(letter)?;
            }
        }
        Ok(())
    }
}

/// The time-stamp option (RFC 7323, section 3), in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamps {
    /// The sender's clock.
    pub value: u32,
    /// The stamp of the peer that is answered; zero in a segment without acknowledgment.
    pub echo: u32,
}

impl Stamps {
    /// Bytes in a segment, with the padding that aligns them.
    pub const BYTES: u16 = 12;
}

/// One segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first byte (of the SYN, if it has one).
    pub seq: u32,
    /// Acknowledgment number; zero without the flag.
    pub ack: u32,
    /// Control bits.
    pub flags: Flags,
    /// The window offered, in bytes, never scaled.
    pub window: u16,
    /// The maximum segment size option.
    pub mss: Option<u16>,
    /// The time-stamp option.
    pub stamps: Option<Stamps>,
    /// The data.
    pub payload: Vec<u8>,
}

impl Segment {
    /// Sequence numbers the segment takes: its data, SYN and FIN.
    pub fn space(&self) -> u32 {
        self.payload.len() as u32 + u32::from(self.flags.syn) + u32::from(self.flags.fin)
    }

    /// Bytes of the TCP header, options included.
    pub fn header_bytes(&self) -> u64 {
        let mss = if self.mss.is_some() { 4 } else { 0 };
        let stamps = self.stamps.map_or(0, |_| u64::from(Stamps::BYTES));
        20 + mss + stamps
    }

    /// Bytes of the segment in an IPv4 packet.
    pub fn packet_bytes(&self) -> u64 {
        20 + self.header_bytes() + self.payload.len() as u64
    }

    /// Whether it only acknowledges.
    pub fn is_pure_ack(&self) -> bool {
        self.space() == 0 && self.flags.ack && !self.flags.rst
    }
}
