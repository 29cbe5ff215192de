//! A TCP segment as values (RFC 9293, section 3.1); `wire` turns it into bytes.
//!
//! Knows the sizes of the header and its options, and nothing about connections.

use core::fmt;

/// The control bits the endpoint uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    /// SYN: synchronizes sequence numbers.
    pub syn: bool,
    /// FIN: the sender has no more data.
    pub fin: bool,
    /// RST: resets the connection.
    pub rst: bool,
    /// PSH: asks the receiver to pass the data on at once.
    pub psh: bool,
    /// ACK: the acknowledgment field is valid.
    pub ack: bool,
}

impl fmt::Display for Flags {
    /// `S`, `SA`, `PA`, `FPA`, `A`, `R`: the letters used in traces.
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

/// The timestamp option (RFC 7323, section 3), in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamps {
    /// The sender's clock (TSval).
    pub value: u32,
    /// The peer's timestamp being echoed (TSecr); zero in a segment without acknowledgment.
    pub echo: u32,
}

impl Stamps {
    /// Bytes of the option in a segment, with alignment padding.
    pub const BYTES: u16 = 12;
}

/// Bytes of the selective-acknowledgment option with alignment padding, and of each range in it.
pub(crate) const SACK_FIXED: u64 = 4;
pub(crate) const SACK_BLOCK: u64 = 8;

/// A segment: header fields, options and data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first byte, or of the SYN.
    pub seq: u32,
    /// Acknowledgment number; zero without the ACK flag.
    pub ack: u32,
    /// Control bits.
    pub flags: Flags,
    /// The window field: bytes, or units of the scale both sides agreed on.
    pub window: u16,
    /// The maximum segment size option, in bytes.
    pub mss: Option<u16>,
    /// The window-scale option of a SYN: a shift (RFC 7323, section 2).
    pub window_scale: Option<u8>,
    /// The SACK-permitted option of a SYN (RFC 2018).
    pub sack_permitted: bool,
    /// Selective acknowledgments: start and end of ranges received beyond `ack`, the latest first.
    pub sacks: Vec<(u32, u32)>,
    /// The timestamp option.
    pub stamps: Option<Stamps>,
    /// Data bytes.
    pub payload: Vec<u8>,
}

impl Segment {
    /// Sequence numbers the segment consumes: its data, SYN and FIN.
    pub fn space(&self) -> u32 {
        self.payload.len() as u32 + u32::from(self.flags.syn) + u32::from(self.flags.fin)
    }

    /// Bytes of the TCP header, options included.
    pub fn header_bytes(&self) -> u64 {
        let mss = if self.mss.is_some() { 4 } else { 0 };
        let scale = if self.window_scale.is_some() { 4 } else { 0 };
        let stamps = self.stamps.map_or(0, |_| u64::from(Stamps::BYTES));
        // With timestamps, the SACK-permitted option takes the place of their padding.
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

    /// Bytes of the IPv4 packet: both headers and the data.
    pub fn packet_bytes(&self) -> u64 {
        20 + self.header_bytes() + self.payload.len() as u64
    }

    /// Whether it carries only an acknowledgment: no data, SYN, FIN or RST.
    pub fn is_pure_ack(&self) -> bool {
        self.space() == 0 && self.flags.ack && !self.flags.rst
    }
}
