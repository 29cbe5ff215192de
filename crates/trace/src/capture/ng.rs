//! The pcapng format: blocks in sections, each section with its own byte order and interfaces.

use super::{Fault, LinkType, Order, Parsed, RECORD_MAX, Step};
use units::Instant;

/// Type of a section header block, the same in both byte orders.
pub(super) const SHB: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

const IDB: u32 = 1;
const OPB: u32 = 2;
const SPB: u32 = 3;
const EPB: u32 = 6;
/// Decryption Secrets Block.
pub(super) const DSB: u32 = 10;
/// Secrets of this type are a key log of TLS: "TLSK".
pub(super) const TLS_KEY_LOG: u32 = 0x544c_534b;
const INTERFACES_MAX: usize = 4096;

/// State of the current section.
#[derive(Debug, Default)]
pub(super) struct Section {
    order: Order,
    interfaces: Vec<Interface>,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: LinkType,
    snaplen: u32,
    resolution: Resolution,
    /// Seconds to add to every timestamp.
    offset_s: i64,
}

/// Unit of an interface's timestamps (option `if_tsresol`).
#[derive(Clone, Copy, Debug)]
enum Resolution {
    /// This many nanoseconds each.
    Nanos(u64),
    /// 10 to this power per second, finer than a nanosecond.
    Decimal(u32),
    /// 2 to this power per second.
    Binary(u32),
}

impl Resolution {
    fn from_option(value: u8) -> Resolution {
        let n = u32::from(value & 0x7f);
        match (value & 0x80 != 0, n) {
            (true, n) => Resolution::Binary(n),
            (false, n) if n <= 9 => Resolution::Nanos(10u64.pow(9 - n)),
            (false, n) => Resolution::Decimal(n),
        }
    }

    #[inline]
    fn nanos(self, ticks: u64) -> u64 {
        match self {
            Resolution::Nanos(unit) => ticks.saturating_mul(unit),
            Resolution::Decimal(n) => 10u64.checked_pow(n - 9).map_or(0, |unit| ticks / unit),
            Resolution::Binary(n) if n < 64 => {
                u64::try_from((u128::from(ticks) * 1_000_000_000) >> n).unwrap_or(u64::MAX)
            }
            Resolution::Binary(_) => 0,
        }
    }
}

impl Section {
    #[inline]
    pub(super) fn step<'a>(&mut self, input: &'a [u8]) -> Step<'a> {
        if input.len() < 12 {
            return Step::Need(12);
        }
        let is_section = input[..4] == SHB;
        if is_section {
            match self.byte_order(input) {
                Some(order) => {
                    // A new section discards the interfaces of the previous one.
                    self.order = order;
                    self.interfaces.clear();
                }
                None => return Step::Damage(Fault::Section),
            }
        }
        let kind = self.order.u32(input, 0);
        let claimed = self.order.u32(input, 4);
        let length = claimed as usize;
        let least = if is_section { 28 } else { 12 };
        if length < least || !length.is_multiple_of(4) {
            return Step::Damage(Fault::BlockLength { claimed });
        }
        if !is_section && !matches!(kind, IDB | OPB | SPB | EPB | DSB) {
            return Step::Skip(length as u64);
        }
        if kind == DSB && length > RECORD_MAX {
            return Step::Skip(length as u64);
        }
        if length > RECORD_MAX {
            return Step::Damage(Fault::Oversized {
                claimed: length as u64,
            });
        }
        if input.len() < length {
            return Step::Need(length);
        }
        let block = &input[..length];
        if self.order.u32(block, length - 4) != claimed {
            return Step::Damage(Fault::BlockLength { claimed });
        }
        let body = &block[8..length - 4];
        match kind {
            EPB => self.enhanced(length, claimed, body),
            SPB => self.simple(length, claimed, body),
            OPB => self.obsolete(length, claimed, body),
            DSB => self.secrets(length, claimed, body),
            IDB if body.len() < 8 => Step::Damage(Fault::BlockLength { claimed }),
            IDB if self.interfaces.len() >= INTERFACES_MAX => Step::Damage(Fault::Interfaces),
            _ if is_section && self.order.u16(body, 4) != 1 => Step::Damage(Fault::Section),
            _ => Step::Pass(length),
        }
    }

    fn byte_order(&self, input: &[u8]) -> Option<Order> {
        match input[8..12] {
            [0x1a, 0x2b, 0x3c, 0x4d] => Some(Order::Big),
            [0x4d, 0x3c, 0x2b, 0x1a] => Some(Order::Little),
            _ => None,
        }
    }

    /// Reads a block that [`Section::step`] has checked and passed.
    pub(super) fn absorb(&mut self, block: &[u8]) {
        if block[..4] == SHB || self.order.u32(block, 0) != IDB {
            return;
        }
        let body = &block[8..block.len() - 4];
        let mut interface = Interface {
            link: LinkType(self.order.u16(body, 0)),
            snaplen: self.order.u32(body, 4),
            resolution: Resolution::Nanos(1_000),
            offset_s: 0,
        };
        let mut options = &body[8..];
        while options.len() >= 4 {
            let (code, length) = (
                self.order.u16(options, 0),
                usize::from(self.order.u16(options, 2)),
            );
            let Some(value) = options.get(4..4 + length) else {
                break;
            };
            match (code, value) {
                (0, _) => break,
                (9, &[resolution, ..]) => interface.resolution = Resolution::from_option(resolution),
                (14, value) if value.len() == 8 => {
                    let (a, b) = (self.order.u32(value, 0), self.order.u32(value, 4));
                    let (high, low) = match self.order {
                        Order::Big => (a, b),
                        Order::Little => (b, a),
                    };
                    interface.offset_s = ((u64::from(high) << 32) | u64::from(low)) as i64;
                }
                _ => {}
            }
            options = options.get(4 + length.next_multiple_of(4)..).unwrap_or(&[]);
        }
        self.interfaces.push(interface);
    }

    #[inline]
    fn frame<'a>(&self, length: usize, id: u32, ticks: u64, wire_len: u32, data: &'a [u8]) -> Step<'a> {
        let Some(interface) = self.interfaces.get(id as usize) else {
            return Step::Damage(Fault::Interface { id });
        };
        let nanos = interface.resolution.nanos(ticks);
        let nanos = nanos.saturating_add_signed(interface.offset_s.saturating_mul(1_000_000_000));
        Step::Frame(
            length,
            Parsed {
                at: Some(Instant::from_nanos(nanos)),
                link: interface.link,
                wire_len,
                data,
            },
        )
    }

    #[inline]
    fn enhanced<'a>(&self, length: usize, claimed: u32, body: &'a [u8]) -> Step<'a> {
        if body.len() < 20 {
            return Step::Damage(Fault::BlockLength { claimed });
        }
        let order = self.order;
        let ticks = (u64::from(order.u32(body, 4)) << 32) | u64::from(order.u32(body, 8));
        let captured = order.u32(body, 12) as usize;
        match body[20..].get(..captured) {
            Some(data) => self.frame(length, order.u32(body, 0), ticks, order.u32(body, 16), data),
            None => Step::Damage(Fault::BlockLength { claimed }),
        }
    }

    fn obsolete<'a>(&self, length: usize, claimed: u32, body: &'a [u8]) -> Step<'a> {
        if body.len() < 20 {
            return Step::Damage(Fault::BlockLength { claimed });
        }
        let order = self.order;
        let ticks = (u64::from(order.u32(body, 4)) << 32) | u64::from(order.u32(body, 8));
        let captured = order.u32(body, 12) as usize;
        match body[20..].get(..captured) {
            Some(data) => {
                let id = u32::from(order.u16(body, 0));
                self.frame(length, id, ticks, order.u32(body, 16), data)
            }
            None => Step::Damage(Fault::BlockLength { claimed }),
        }
    }

    /// Secrets of other protocols are passed over.
    fn secrets<'a>(&self, length: usize, claimed: u32, body: &'a [u8]) -> Step<'a> {
        if body.len() < 8 {
            return Step::Damage(Fault::BlockLength { claimed });
        }
        let text = body[8..].get(..self.order.u32(body, 4) as usize);
        match (self.order.u32(body, 0), text) {
            (_, None) => Step::Damage(Fault::BlockLength { claimed }),
            (TLS_KEY_LOG, Some(text)) => Step::Secrets(length, text),
            _ => Step::Pass(length),
        }
    }

    /// A simple packet has neither time nor captured length: interface 0's snapshot length decides.
    fn simple<'a>(&self, length: usize, claimed: u32, body: &'a [u8]) -> Step<'a> {
        let Some(interface) = self.interfaces.first() else {
            return Step::Damage(Fault::Interface { id: 0 });
        };
        if body.len() < 4 {
            return Step::Damage(Fault::BlockLength { claimed });
        }
        let wire_len = self.order.u32(body, 0);
        let mut captured = (body.len() - 4).min(wire_len as usize);
        if interface.snaplen > 0 {
            captured = captured.min(interface.snaplen as usize);
        }
        Step::Frame(
            length,
            Parsed {
                at: None,
                link: interface.link,
                wire_len,
                data: &body[4..4 + captured],
            },
        )
    }
}
