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

/// Bytes of the option of selective acknowledgments with the padding that aligns it, and of each range in it.
pub(crate) const SACK_FIXED: u64 = 4;
pub(crate) const SACK_BLOCK: u64 = 8;

/// One segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first byte (of the SYN, if it has one).
    pub seq: u32,
    /// Acknowledgment number; zero without the flag.
    pub ack: u32,
    /// Control bits.
    pub flags: Flags,
    /// The window field: bytes, or units of the scale that both sides have agreed upon.
    pub window: u16,
    /// The maximum segment size option.
    pub mss: Option<u16>,
    /// The window-scale option of a SYN (RFC 7323, section 2): a shift.
    pub window_scale: Option<u8>,
    /// A SYN's option that permits selective acknowledgments (RFC 2018).
    pub sack_permitted: bool,
    /// Selective acknowledgments: start and end of ranges that were received beyond `ack`, the latest first.
    pub sacks: Vec<(u32, u32)>,
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
        let scale = if self.window_scale.is_some() { 4 } else { 0 };
        let stamps = self.stamps.map_or(0, |_| u64::from(Stamps::BYTES));
        // Where there are time stamps it takes the place of their padding.
        let permitted = if self.sack_permitted && self.stamps.is_none() {
            4
        } else {
            0
        };
        let sacks = match self.sacks.len() as u64 {
            0 => 0,
            n => SACK_FIXED + SACK_BLOCK * n,
        };
        20 + mss + scale + permitted + stamps + sacks
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
