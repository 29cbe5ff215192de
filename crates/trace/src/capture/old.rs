//! The classic pcap format: one header, then records of time, lengths and bytes.

use super::{Fault, be32};
use super::{LinkType, Order, Parsed, RECORD_MAX, Step};
use units::Instant;

pub(super) const HEADER_LEN: usize = 24;

/// Content of the file header.
#[derive(Debug)]
pub(super) struct Header {
    order: Order,
    /// Nanoseconds per unit of the record's fraction field.
    unit_ns: u64,
    /// 16, or 24 in Kuznetzov's variant, which adds interface, protocol and packet type.
    record_header: usize,
    link: LinkType,
}

/// Byte order, unit and record header length by magic number.
fn variant(input: &[u8]) -> Option<(Order, u64, usize)> {
    Some(match be32(input) {
        0xa1b2_c3d4 => (Order::Big, 1_000, 16),
        0xd4c3_b2a1 => (Order::Little, 1_000, 16),
        0xa1b2_3c4d => (Order::Big, 1, 16),
        0x4d3c_b2a1 => (Order::Little, 1, 16),
        0xa1b2_cd34 => (Order::Big, 1_000, 24),
        0x34cd_b2a1 => (Order::Little, 1_000, 24),
        _ => return None,
    })
}

pub(super) fn is_magic(input: &[u8]) -> bool {
    variant(input).is_some()
}

impl Header {
    /// `input` holds at least [`HEADER_LEN`] bytes.
    pub(super) fn parse(input: &[u8]) -> Option<Header> {
        let (order, unit_ns, record_header) = variant(input)?;
        Some(Header {
            order,
            unit_ns,
            record_header,
            // The upper half is the length of the frame check sequence, which is irrelevant because lengths come from
            // IP.
            link: LinkType(order.u32(input, 20) as u16),
        })
    }

    #[inline]
    pub(super) fn step<'a>(&self, input: &'a [u8]) -> Step<'a> {
        if input.len() < self.record_header {
            return Step::Need(self.record_header);
        }
        let captured = self.order.u32(input, 8) as usize;
        if captured > RECORD_MAX {
            return Step::Damage(Fault::Oversized {
                claimed: captured as u64,
            });
        }
        let total = self.record_header + captured;
        if input.len() < total {
            return Step::Need(total);
        }
        let secs = u64::from(self.order.u32(input, 0));
        let fraction = u64::from(self.order.u32(input, 4));
        Step::Frame(
            total,
            Parsed {
                at: Some(Instant::from_nanos(
                    secs * 1_000_000_000 + fraction * self.unit_ns,
                )),
                link: self.link,
                wire_len: self.order.u32(input, 12),
                data: &input[self.record_header..total],
            },
        )
    }
}
