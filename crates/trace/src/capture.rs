//! Capture files as a stream of frames: pcap (microseconds, nanoseconds, both byte orders, Kuznetzov's
//! variant) and pcapng (sections, interfaces, resolutions), cut anywhere.
//!
//! The caller pushes chunks. Records within one chunk are not copied; only a record that straddles two chunks is, so
//! memory is one record, whatever the file's size. Knows nothing of packets. A damaged file yields every frame before
//! the damage and then an error with the offset; nothing beyond it is guessed.
//!
//! Formats: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng. Weir has its own reader because the hot path must not
//! allocate or copy; `tests/reader.rs` compares it with the crate `pcap-parser`.

mod ng;
mod old;
mod writer;

use core::fmt;
use serde::Serialize;
use units::Instant;

pub use writer::PcapngWriter;

/// Limit on a captured frame or a block that must be held whole; a longer one counts as damage.
const RECORD_MAX: usize = 16 << 20;

/// A link-layer header type as numbered at tcpdump.org/linktypes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: four bytes of address family in the capturing host's order.
    pub const NULL: LinkType = LinkType(0);
    /// Ethernet, with or without VLAN tags.
    pub const ETHERNET: LinkType = LinkType(1);
    /// PPP: a protocol number, after HDLC's address and control bytes or without them.
    pub const PPP: LinkType = LinkType(9);
    /// FDDI, with an LLC header.
    pub const FDDI: LinkType = LinkType(10);
    /// PPP in HDLC-like framing, or Cisco's HDLC.
    pub const PPP_HDLC: LinkType = LinkType(50);
    /// PPPoE session packets without their Ethernet header.
    pub const PPP_ETHER: LinkType = LinkType(51);
    /// LLC over ATM (RFC 1483).
    pub const ATM_RFC1483: LinkType = LinkType(100);
    /// Cisco HDLC: address, control, EtherType.
    pub const C_HDLC: LinkType = LinkType(104);
    /// PPP with one byte in front that gives the packet's direction.
    pub const PPP_WITH_DIR: LinkType = LinkType(204);
    /// IPv4 or IPv6 without any link header.
    pub const RAW: LinkType = LinkType(101);
    /// OpenBSD loopback: four bytes of address family in network order.
    pub const LOOP: LinkType = LinkType(108);
    /// Linux "cooked" capture, version 1.
    pub const LINUX_SLL: LinkType = LinkType(113);
    /// IPv4 without any link header.
    pub const IPV4: LinkType = LinkType(228);
    /// IPv6 without any link header.
    pub const IPV6: LinkType = LinkType(229);
    /// Linux "cooked" capture, version 2.
    pub const LINUX_SLL2: LinkType = LinkType(276);
}

/// One captured frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Position in the file, counting from 1 as other analyzers do.
    pub number: u64,
    /// Capture time since 1970-01-01T00:00:00Z. A pcapng simple packet has no time and gets that of the frame before
    /// it.
    pub at: Instant,
    /// Link type: the frame's first header.
    pub link: LinkType,
    /// Length on the wire in bytes, at least `data.len()`.
    pub wire_len: u32,
    /// The captured bytes.
    pub data: &'a [u8],
}

/// What a capture file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// A frame.
    Frame(Frame<'a>),
    /// A key log of TLS (RFC 9850): the content of a pcapng Decryption Secrets Block.
    Secrets(&'a [u8]),
}

/// Why a file could not be read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ReadError {
    /// Offset of the damaged record in the file, in bytes.
    pub offset: u64,
    /// Frames before it, all of which are valid.
    pub frames: u64,
    /// The fault.
    pub fault: Fault,
}

/// What is wrong with a capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The first four bytes match no capture format.
    NotACapture {
        /// The bytes as a big-endian number.
        magic: u32,
    },
    /// The file ends inside a record.
    Truncated {
        /// Bytes of the record that are present.
        present: u64,
    },
    /// A record claims more bytes than any capture tool writes.
    Oversized {
        /// The claimed length in bytes.
        claimed: u64,
    },
    /// A pcapng block's length is impossible, or its two length fields differ.
    BlockLength {
        /// The first length field in bytes.
        claimed: u32,
    },
    /// A pcapng section has no valid byte-order mark or an unknown major version.
    Section,
    /// A pcapng packet names an interface that was not described.
    Interface {
        /// The interface's number in its section.
        id: u32,
    },
    /// A pcapng section describes more interfaces than are tracked.
    Interfaces,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {} after {} frames: ", self.offset, self.frames)?;
        match self.fault {
            Fault::NotACapture { magic } if magic >> 16 == 0x1f8b => {
                f.write_str("this is gzip data; decompress it first")
            }
            Fault::NotACapture { magic: 0x28b5_2ffd } => {
                f.write_str("this is zstd data; decompress it first")
            }
            Fault::NotACapture { magic } => {
                write!(
                    f,
                    "neither pcap nor pcapng starts with {magic:#010x}; is this a capture file?"
                )
            }
            Fault::Truncated { present } => write!(
                f,
                "the file ends {present} bytes into a record; the capture was probably interrupted, everything \
                 before it was read"
            ),
            Fault::Oversized { claimed } => {
                write!(
                    f,
                    "a record claims {claimed} bytes; the file is damaged from here on"
                )
            }
            Fault::BlockLength { claimed } => {
                write!(
                    f,
                    "a block's length {claimed} is impossible; the file is damaged from here on"
                )
            }
            Fault::Section => f.write_str("a section header has no valid byte order or an unknown version"),
            Fault::Interface { id } => write!(f, "a packet names interface {id}, which no block describes"),
            Fault::Interfaces => f.write_str("a section describes more than 4096 interfaces"),
        }
    }
}

impl std::error::Error for ReadError {}

/// Reads one capture file pushed in chunks.
///
/// ```text
///   Magic --a1b2c3d4..--> Pcap    --+
///     |  \--0a0d0d0a----> Pcapng  --+--damage--> Failed (every later call repeats the error)
///     +------other bytes-----------------------> Failed
/// ```
#[derive(Debug)]
pub struct Reader {
    format: Format,
    /// Start of a record whose end has not arrived.
    carry: Vec<u8>,
    /// File offset of the next unread byte (of `carry`'s first byte if it holds any).
    offset: u64,
    /// Bytes of a skipped block still to come.
    skip: u64,
    frames: u64,
    last_at: Instant,
}

#[derive(Debug)]
enum Format {
    Magic,
    Pcap(old::Header),
    Pcapng(ng::Section),
    Failed(ReadError),
}

/// Result of parsing the start of the input.
enum Step<'a> {
    /// This many bytes are needed, counted from the record's start.
    Need(usize),
    /// A record of this length without a frame.
    Pass(usize),
    /// A record of this length that need not be held in memory.
    Skip(u64),
    /// A record of this length with a key log of TLS.
    Secrets(usize, &'a [u8]),
    /// A record of this length, and its frame (time may be absent).
    Frame(usize, Parsed<'a>),
    Damage(Fault),
}

struct Parsed<'a> {
    at: Option<Instant>,
    link: LinkType,
    wire_len: u32,
    data: &'a [u8],
}

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

impl Reader {
    /// A reader at the beginning of a file.
    pub fn new() -> Reader {
        Reader {
            format: Format::Magic,
            carry: Vec::new(),
            offset: 0,
            skip: 0,
            frames: 0,
            last_at: Instant::ZERO,
        }
    }

    /// Reads the next bytes of the file and calls `sink` for every completed frame and key log.
    ///
    /// # Errors
    /// If the file is not a capture or is damaged; every frame before the damage has reached `sink`.
    pub fn feed(&mut self, mut chunk: &[u8], mut sink: impl FnMut(Found<'_>)) -> Result<(), ReadError> {
        if let Format::Failed(error) = self.format {
            return Err(error);
        }
        self.skip_block(&mut chunk);
        while !self.carry.is_empty() && !chunk.is_empty() {
            let mut carry = core::mem::take(&mut self.carry);
            let step = self.step(&carry);
            match step {
                Step::Need(n) => {
                    let take = n.saturating_sub(carry.len()).clamp(1, chunk.len());
                    carry.extend_from_slice(&chunk[..take]);
                    chunk = &chunk[take..];
                    // The record may be complete now; check before asking for more.
                    if let Step::Need(_) = self.step(&carry) {
                        self.carry = carry;
                        continue;
                    }
                    let used = self.take(&carry, &mut sink)?;
                    carry.drain(..used.min(carry.len()));
                    self.carry = carry;
                }
                _ => {
                    let used = self.take(&carry, &mut sink)?;
                    carry.drain(..used.min(carry.len()));
                    self.carry = carry;
                }
            }
            self.skip_block(&mut chunk);
        }
        while !chunk.is_empty() {
            let used = self.take(chunk, &mut sink)?;
            if used == 0 {
                break;
            }
            chunk = &chunk[used..];
            self.skip_block(&mut chunk);
        }
        if !chunk.is_empty() {
            self.carry.extend_from_slice(chunk);
        }
        Ok(())
    }

    /// Ends the file.
    ///
    /// # Errors
    /// If the file ends inside a record, is empty, or was damaged before.
    pub fn finish(&mut self) -> Result<(), ReadError> {
        if let Format::Failed(error) = self.format {
            return Err(error);
        }
        if self.carry.is_empty() && self.skip == 0 && !matches!(self.format, Format::Magic) {
            return Ok(());
        }
        let present = self.carry.len() as u64;
        Err(self.fail(Fault::Truncated { present }))
    }

    /// Frames read so far.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    fn skip_block(&mut self, chunk: &mut &[u8]) {
        let n = self.skip.min(chunk.len() as u64);
        self.skip -= n;
        self.offset += n;
        *chunk = &chunk[n as usize..];
    }

    fn fail(&mut self, fault: Fault) -> ReadError {
        let error = ReadError {
            offset: self.offset,
            frames: self.frames,
            fault,
        };
        self.format = Format::Failed(error);
        self.carry = Vec::new();
        error
    }

    #[inline]
    fn step<'a>(&mut self, input: &'a [u8]) -> Step<'a> {
        match &mut self.format {
            Format::Pcap(header) => header.step(input),
            Format::Pcapng(section) => section.step(input),
            Format::Magic => magic(input),
            Format::Failed(error) => Step::Damage(error.fault),
        }
    }

    /// Processes the record at the start of `input`; returns its length, or 0 if more bytes are needed.
    #[inline]
    fn take(&mut self, input: &[u8], sink: &mut impl FnMut(Found<'_>)) -> Result<usize, ReadError> {
        if let Format::Magic = self.format {
            return self.begin(input);
        }
        match self.step(input) {
            Step::Need(_) => Ok(0),
            Step::Pass(n) => {
                if let Format::Pcapng(section) = &mut self.format {
                    section.absorb(&input[..n]);
                }
                self.offset += n as u64;
                Ok(n)
            }
            Step::Skip(n) => {
                let here = n.min(input.len() as u64);
                self.skip = n - here;
                self.offset += here;
                Ok(here as usize)
            }
            Step::Frame(n, parsed) => {
                self.frames += 1;
                self.offset += n as u64;
                let at = parsed.at.unwrap_or(self.last_at);
                self.last_at = at;
                sink(Found::Frame(Frame {
                    number: self.frames,
                    at,
                    link: parsed.link,
                    wire_len: parsed.wire_len.max(parsed.data.len() as u32),
                    data: parsed.data,
                }));
                Ok(n)
            }
            Step::Secrets(n, text) => {
                self.offset += n as u64;
                sink(Found::Secrets(text));
                Ok(n)
            }
            Step::Damage(fault) => Err(self.fail(fault)),
        }
    }

    fn begin(&mut self, input: &[u8]) -> Result<usize, ReadError> {
        match magic(input) {
            Step::Need(_) => Ok(0),
            Step::Damage(fault) => Err(self.fail(fault)),
            _ if input[..4] == ng::SHB => {
                self.format = Format::Pcapng(ng::Section::default());
                // The section header is an ordinary block that the next step reads; no bytes are consumed.
                self.take(input, &mut |_| {})
            }
            _ => match old::Header::parse(input) {
                Some(header) => {
                    self.format = Format::Pcap(header);
                    self.offset += old::HEADER_LEN as u64;
                    Ok(old::HEADER_LEN)
                }
                None => Err(self.fail(Fault::NotACapture { magic: be32(input) })),
            },
        }
    }
}

fn magic(input: &[u8]) -> Step<'_> {
    if input.len() < 4 {
        return Step::Need(4);
    }
    if input[..4] == ng::SHB {
        return if input.len() < 12 {
            Step::Need(12)
        } else {
            Step::Pass(0)
        };
    }
    if !old::is_magic(input) {
        return Step::Damage(Fault::NotACapture { magic: be32(input) });
    }
    if input.len() < old::HEADER_LEN {
        return Step::Need(old::HEADER_LEN);
    }
    Step::Pass(old::HEADER_LEN)
}

fn be32(b: &[u8]) -> u32 {
    u32::from_be_bytes([b[0], b[1], b[2], b[3]])
}

/// Byte order of a file or section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Order {
    #[default]
    Little,
    Big,
}

impl Order {
    #[inline]
    fn u16(self, b: &[u8], at: usize) -> u16 {
        let v = [b[at], b[at + 1]];
        match self {
            Order::Little => u16::from_le_bytes(v),
            Order::Big => u16::from_be_bytes(v),
        }
    }

    #[inline]
    fn u32(self, b: &[u8], at: usize) -> u32 {
        let v = [b[at], b[at + 1], b[at + 2], b[at + 3]];
        match self {
            Order::Little => u32::from_le_bytes(v),
            Order::Big => u32::from_be_bytes(v),
        }
    }
}

/// Reads any bytes as a capture, whole and in pieces cut at positions they name themselves, and analyzes them. For a
/// fuzz target and a property test.
///
/// # Panics
/// If the cuts change a frame or an error, or counters do not add up.
pub fn fuzz(data: &[u8]) {
    use crate::{Analyzer, Limits, Options};
    type Owned = (u64, Instant, u32, Vec<u8>);
    fn read(pieces: &[&[u8]]) -> (Vec<Owned>, Result<(), ReadError>) {
        let mut reader = Reader::new();
        let mut frames = Vec::new();
        let mut outcome = Ok(());
        for piece in pieces {
            outcome = reader.feed(piece, |found| {
                let Found::Frame(frame) = found else {
                    return;
                };
                assert!(frame.wire_len as usize >= frame.data.len());
                frames.push((frame.number, frame.at, frame.wire_len, frame.data.to_vec()));
            });
            if outcome.is_err() {
                break;
            }
        }
        let outcome = outcome.and_then(|()| reader.finish());
        assert_eq!(reader.frames(), frames.len() as u64);
        (frames, outcome)
    }
    let whole = read(&[data]);
    if let Err(error) = whole.1 {
        assert!(error.offset <= data.len() as u64 && error.frames == whole.0.len() as u64);
    }
    let step = 1 + usize::from(data.first().copied().unwrap_or(0)) % 61;
    assert_eq!(read(&data.chunks(step).collect::<Vec<_>>()), whole);
    // Limits low enough to be reached.
    let limits = Limits {
        connections: 2,
        segments: 3,
        reassembly: 64,
        points: 4,
        ..Limits::default()
    };
    for limits in [limits, Limits::default()] {
        let mut analyzer = Analyzer::new(Options {
            limits,
            record: Some(crate::ConnectionId(1)),
            ..Options::default()
        });
        let _ = analyzer.feed(data);
        let _ = analyzer.finish();
        let summary = analyzer.summary();
        let frames = summary.frames;
        let others =
            frames.other_ip + frames.fragments + frames.not_ip + frames.malformed + frames.unknown_link;
        assert_eq!(frames.total, frames.tcp + frames.udp + others);
        assert_eq!(summary.volume.packets, frames.tcp);
        let udp = summary.udp;
        assert_eq!(
            udp.from_clients.datagrams + udp.from_servers.datagrams,
            frames.udp
        );
        assert_eq!(udp.dns.questions, udp.dns.answered + udp.dns.unanswered);
        assert_eq!(analyzer.connections(), 0);
        assert!(analyzer.take_series().points.len() <= limits.points);
        while analyzer.next_event().is_some() {}
    }
}
