//! Counts of the segments that a host has sent, by kind: what remains of segments that are not logged.

use tcp::Segment;

/// Packets and bytes that one host has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Segments with data.
    pub data: u64,
    /// Segments without data, SYN and FIN.
    pub acks: u64,
    /// Segments with SYN.
    pub syns: u64,
    /// Segments with FIN; one with data counts as data, too.
    pub fins: u64,
    /// All segments.
    pub packets: u64,
    /// Bytes of data, repeated ones included.
    pub payload: u64,
    /// Bytes of IPv4 packets.
    pub bytes: u64,
}

impl Tally {
    pub(crate) fn count(&mut self, segment: &Segment) {
        let (flags, data) = (segment.flags, !segment.payload.is_empty());
        self.packets += 1;
        self.data += u64::from(data);
        self.syns += u64::from(flags.syn);
        self.fins += u64::from(flags.fin);
        self.acks += u64::from(!data && !flags.syn && !flags.fin);
        self.payload += segment.payload.len() as u64;
        self.bytes += segment.packet_bytes();
    }

    /// This without an earlier state.
    #[must_use]
    pub fn since(&self, earlier: &Tally) -> Tally {
        Tally {
            data: self.data - earlier.data,
            acks: self.acks - earlier.acks,
            syns: self.syns - earlier.syns,
            fins: self.fins - earlier.fins,
            packets: self.packets - earlier.packets,
            payload: self.payload - earlier.payload,
            bytes: self.bytes - earlier.bytes,
        }
    }

    /// This and another.
    #[must_use]
    pub fn and(&self, other: &Tally) -> Tally {
        Tally {
            data: self.data + other.data,
            acks: self.acks + other.acks,
            syns: self.syns + other.syns,
            fins: self.fins + other.fins,
            packets: self.packets + other.packets,
            payload: self.payload + other.payload,
            bytes: self.bytes + other.bytes,
        }
    }
}
