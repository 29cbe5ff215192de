//! The reader: every format variant, cut and damaged at every position, and compared with `pcap-parser`.

mod talk;

use pcap_parser::{Block, PcapBlockOwned, PcapError};
use proptest::prelude::*;
use talk::{GET, Talk, reply};
use trace::{Fault, Found, Frame, LinkType, Options, PcapngWriter, ReadError, Reader};
use units::Instant;

type Owned = (u64, u64, u16, u32, Vec<u8>);

fn read(chunks: &[&[u8]]) -> (Vec<Owned>, Option<ReadError>) {
    let mut reader = Reader::new();
    let mut frames = Vec::new();
    for chunk in chunks {
        let outcome = reader.feed(chunk, |found| {
            let Found::Frame(f) = found else {
                return;
            };
            frames.push((f.number, f.at.as_nanos(), f.link.0, f.wire_len, f.data.to_vec()));
        });
        if let Err(error) = outcome {
            // The error repeats.
            assert_eq!(
                reader.feed(b"more", |_| panic!("a frame after the damage")),
                Err(error)
            );
            assert_eq!(reader.finish(), Err(error));
            return (frames, Some(error));
        }
    }
    (frames, reader.finish().err())
}

/// Whole, byte by byte, and in two parts cut at every position.
fn check(file: &[u8]) -> (Vec<Owned>, Option<ReadError>) {
    let whole = read(&[file]);
    assert_eq!(read(&file.chunks(1).collect::<Vec<_>>()), whole, "per byte");
    for cut in 0..=file.len() {
        let (a, b) = file.split_at(cut);
        assert_eq!(read(&[a, b]), whole, "cut at {cut}");
    }
    whole
}

struct Order {
    big: bool,
}

impl Order {
    fn u32(&self, out: &mut Vec<u8>, v: u32) {
        out.extend_from_slice(&if self.big {
            v.to_be_bytes()
        } else {
            v.to_le_bytes()
        });
    }

    fn u16(&self, out: &mut Vec<u8>, v: u16) {
        out.extend_from_slice(&if self.big {
            v.to_be_bytes()
        } else {
            v.to_le_bytes()
        });
    }

    fn block(&self, out: &mut Vec<u8>, kind: u32, body: &[u8]) {
        let length = 12 + body.len().next_multiple_of(4);
        self.u32(out, kind);
        self.u32(out, length as u32);
        out.extend_from_slice(body);
        out.resize(out.len() + length - 12 - body.len(), 0);
        self.u32(out, length as u32);
    }

    fn section(&self, out: &mut Vec<u8>) {
        let mut body = Vec::new();
        self.u32(&mut body, 0x1a2b_3c4d);
        self.u16(&mut body, 1);
        self.u16(&mut body, 0);
        body.extend_from_slice(&[0xff; 8]);
        self.block(out, 0x0a0d_0d0a, &body);
    }

    /// An interface with a resolution and an offset in seconds.
    fn interface(
        &self,
        out: &mut Vec<u8>,
        link: u16,
        snaplen: u32,
        resolution: Option<u8>,
        offset: Option<u64>,
    ) {
        let mut body = Vec::new();
        self.u16(&mut body, link);
        self.u16(&mut body, 0);
        self.u32(&mut body, snaplen);
        if let Some(resolution) = resolution {
            self.u16(&mut body, 9);
            self.u16(&mut body, 1);
            body.extend_from_slice(&[resolution, 0, 0, 0]);
        }
        if let Some(offset) = offset {
            self.u16(&mut body, 14);
            self.u16(&mut body, 8);
            body.extend_from_slice(&if self.big {
                offset.to_be_bytes()
            } else {
                offset.to_le_bytes()
            });
        }
        self.block(out, 1, &body);
    }

    fn enhanced(&self, out: &mut Vec<u8>, interface: u32, ticks: u64, wire: u32, data: &[u8]) {
        let mut body = Vec::new();
        for word in [
            interface,
            (ticks >> 32) as u32,
            ticks as u32,
            data.len() as u32,
            wire,
        ] {
            self.u32(&mut body, word);
        }
        body.extend_from_slice(data);
        self.block(out, 6, &body);
    }

    fn pcap(&self, magic: u32, extra: usize) -> Vec<u8> {
        let mut out = Vec::new();
        self.u32(&mut out, magic);
        self.u16(&mut out, 2);
        self.u16(&mut out, 4);
        for word in [0, 0, 65_535, 0x3400_0001] {
            self.u32(&mut out, word);
        }
        for (secs, fraction, data) in [
            (1, 5, &b"first"[..]),
            (2, 999_999, b""),
            (u32::MAX, 7, b"third one"),
        ] {
            self.u32(&mut out, secs);
            self.u32(&mut out, fraction);
            self.u32(&mut out, data.len() as u32);
            self.u32(&mut out, 100);
            out.resize(out.len() + extra, 0xee);
            out.extend_from_slice(data);
        }
        out
    }
}

#[test]
fn pcap_in_both_orders_and_units() {
    for big in [false, true] {
        for (magic, unit, extra) in [
            (0xa1b2_c3d4, 1000, 0),
            (0xa1b2_3c4d, 1, 0),
            (0xa1b2_cd34, 1000, 8),
        ] {
            let (frames, error) = check(&Order { big }.pcap(magic, extra));
            assert_eq!(error, None);
            assert_eq!(
                frames,
                [
                    (1, 1_000_000_000 + 5 * unit, 1, 100, b"first".to_vec()),
                    (2, 2_000_000_000 + 999_999 * unit, 1, 100, Vec::new()),
                    (
                        3,
                        u64::from(u32::MAX) * 1_000_000_000 + 7 * unit,
                        1,
                        100,
                        b"third one".to_vec()
                    ),
                ]
            );
        }
    }
}

/// Two sections of different order, five resolutions, all packet blocks, unknown blocks between.
fn rich_pcapng() -> Vec<u8> {
    let mut out = Vec::new();
    let little = Order { big: false };
    little.section(&mut out);
    little.interface(&mut out, 1, 0, None, None);
    little.interface(&mut out, 101, 4, Some(9), Some(10));
    little.block(&mut out, 0x0bad, b"a block of some vendor");
    little.enhanced(&mut out, 0, 1_500_000, 60, b"micro");
    little.enhanced(&mut out, 1, 1_500_000_000, 4, b"nano");
    let mut simple = Vec::new();
    little.u32(&mut simple, 5);
    simple.extend_from_slice(b"hello");
    little.block(&mut out, 3, &simple);
    let big = Order { big: true };
    big.section(&mut out);
    for resolution in [3, 0x80 | 10, 12] {
        big.interface(&mut out, 276, 0, Some(resolution), None);
    }
    big.enhanced(&mut out, 0, 2500, 9, b"millis");
    big.enhanced(&mut out, 1, 1536, 9, b"binary");
    big.enhanced(&mut out, 2, 3_000_000_000_001, 9, b"pico");
    let mut obsolete = Vec::new();
    big.u16(&mut obsolete, 0);
    big.u16(&mut obsolete, 77);
    for word in [0, 4000, 3, 3] {
        big.u32(&mut obsolete, word);
    }
    obsolete.extend_from_slice(b"old");
    big.block(&mut out, 2, &obsolete);
    out
}

#[test]
fn pcapng_with_everything() {
    let (frames, error) = check(&rich_pcapng());
    assert_eq!(error, None);
    let short: Vec<_> = frames.iter().map(|f| (f.1, f.2, f.4.as_slice())).collect();
    assert_eq!(
        short,
        [
            (1_500_000_000, 1, &b"micro"[..]),
            (11_500_000_000, 101, b"nano"),
            (11_500_000_000, 1, b"hello"),
            (2_500_000_000, 276, b"millis"),
            (1_500_000_000, 276, b"binary"),
            (3_000_000_000, 276, b"pico"),
            (4_000_000_000, 276, b"old"),
        ]
    );
}

#[test]
fn a_file_that_ends_too_early_gives_what_is_there_and_the_offset() {
    for file in [Order { big: false }.pcap(0xa1b2_c3d4, 0), rich_pcapng()] {
        let (all, _) = read(&[&file]);
        let mut ends = Vec::new();
        for cut in 0..file.len() {
            let (frames, error) = read(&[&file[..cut]]);
            assert_eq!(frames[..], all[..frames.len()], "cut at {cut}");
            if let Some(error) = error {
                assert_eq!(error.frames, frames.len() as u64);
                assert!(
                    error.offset <= cut as u64 && cut as u64 - error.offset < 100,
                    "{error} cut at {cut}"
                );
                assert!(matches!(error.fault, Fault::Truncated { .. }), "{error}");
            } else {
                ends.push(cut);
            }
        }
        assert!(ends.len() < 16, "only record boundaries are ends: {ends:?}");
    }
}

#[test]
fn damage_is_named() {
    let fault = |file: &[u8]| check(file).1.map(|e| (e.offset, e.frames, e.fault));
    assert_eq!(
        fault(b"GET / HTTP/1.1"),
        Some((0, 0, Fault::NotACapture { magic: 0x4745_5420 }))
    );
    assert_eq!(fault(b""), Some((0, 0, Fault::Truncated { present: 0 })));
    let gzip = check(b"\x1f\x8b\x08\x00rest").1.unwrap();
    assert!(gzip.to_string().contains("decompress"), "{gzip}");
    let little = Order { big: false };
    let mut pcap = little.pcap(0xa1b2_c3d4, 0);
    let second = 24 + 16 + 5;
    pcap[second + 11] = 0x7f;
    assert_eq!(
        fault(&pcap),
        Some((second as u64, 1, Fault::Oversized { claimed: 0x7f00_0000 }))
    );
    let mut base = Vec::new();
    little.section(&mut base);
    let at = base.len() as u64;
    let mut unknown = base.clone();
    little.enhanced(&mut unknown, 3, 0, 4, b"data");
    assert_eq!(fault(&unknown), Some((at, 0, Fault::Interface { id: 3 })));
    let mut uneven = base.clone();
    little.interface(&mut uneven, 1, 0, None, None);
    let last = uneven.len() - 4;
    uneven[last] ^= 4;
    assert_eq!(fault(&uneven), Some((at, 0, Fault::BlockLength { claimed: 20 })));
    let mut section = base.clone();
    section[8] = 0;
    assert_eq!(fault(&section), Some((0, 0, Fault::Section)));
}

/// The frames that `pcap-parser` reads from a file: time in nanoseconds, captured and original length, bytes.
fn oracle(file: &[u8]) -> Vec<(u64, u32, Vec<u8>)> {
    let mut reader = pcap_parser::create_reader(1 << 20, file).expect("a capture");
    let mut frames = Vec::new();
    let mut nanos_unit = 1000;
    let mut interfaces: Vec<(u64, i64, u32)> = Vec::new();
    loop {
        match reader.next() {
            Ok((used, block)) => {
                match block {
                    PcapBlockOwned::LegacyHeader(h) => {
                        nanos_unit = if h.is_nanosecond_precision() { 1 } else { 1000 }
                    }
                    PcapBlockOwned::Legacy(b) => frames.push((
                        u64::from(b.ts_sec) * 1_000_000_000 + u64::from(b.ts_usec) * nanos_unit,
                        b.origlen,
                        b.data.to_vec(),
                    )),
                    PcapBlockOwned::NG(Block::SectionHeader(_)) => interfaces.clear(),
                    PcapBlockOwned::NG(Block::InterfaceDescription(i)) => {
                        interfaces.push((i.ts_resolution().unwrap_or(1_000_000), i.ts_offset(), i.snaplen));
                    }
                    PcapBlockOwned::NG(Block::EnhancedPacket(p)) => {
                        let (unit, offset, _) = interfaces[p.if_id as usize];
                        let ticks = (u128::from(p.ts_high) << 32) | u128::from(p.ts_low);
                        let nanos = (ticks * 1_000_000_000 / u128::from(unit)) as u64;
                        frames.push((
                            nanos + offset as u64 * 1_000_000_000,
                            p.origlen,
                            p.data[..p.caplen as usize].to_vec(),
                        ));
                    }
                    _ => {}
                }
                reader.consume(used);
            }
            Err(PcapError::Eof) => return frames,
            Err(PcapError::Incomplete(_)) => reader.refill().expect("memory"),
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[test]
fn the_same_frames_as_pcap_parser() {
    let mut talk = Talk::default();
    talk.handshake(0, 100, 100)
        .data(300, true, GET)
        .data(500, false, &reply(3000)[..1460]);
    for file in [
        Order { big: false }.pcap(0xa1b2_c3d4, 0),
        Order { big: true }.pcap(0xa1b2_3c4d, 0),
        talk.pcapng(),
    ] {
        let (frames, error) = read(&[&file]);
        assert_eq!(error, None);
        let ours: Vec<_> = frames.into_iter().map(|f| (f.1, f.3, f.4)).collect();
        assert_eq!(ours, oracle(&file));
    }
}

#[test]
fn analysis_does_not_depend_on_chunks() {
    let mut talk = Talk::default();
    talk.handshake(0, 100, 100).data(300, true, GET);
    for (i, part) in reply(4000).chunks(1460).enumerate() {
        talk.data(500 + i as u64, false, part);
    }
    talk.ack_all(600, true)
        .segment(700, true, "FA", b"")
        .segment(710, false, "FA", b"")
        .ack_all(720, true);
    let file = talk.pcapng();
    let whole = talk::analyze(&file, Options::default());
    for chunk in [1, 7, 64, 1000] {
        let parts = talk::analyze_chunks(&file, chunk, Options::default());
        assert_eq!(
            (&parts.connections, &parts.transactions),
            (&whole.connections, &whole.transactions)
        );
        assert_eq!(parts.summary, whole.summary);
    }
    assert_eq!(whole.error, None);
}

proptest! {
    #[test]
    fn what_the_writer_writes_the_reader_reads(packets in proptest::collection::vec((any::<u64>(), proptest::collection::vec(any::<u8>(), 0..80)), 0..20), cut in 0usize..2000) {
        let mut file = Vec::new();
        let mut writer = PcapngWriter::begin(&mut file, "weir");
        let id = writer.interface(&mut file, LinkType::RAW, 0, "sim");
        for (i, (at, data)) in packets.iter().enumerate() {
            let frame = Frame { number: i as u64 + 1, at: Instant::from_nanos(*at), link: LinkType::RAW, wire_len: 0, data };
            writer.frame(&mut file, id, &frame);
        }
        let (a, b) = file.split_at(cut.min(file.len()));
        let (frames, error) = read(&[a, b]);
        prop_assert_eq!(error, None);
        let read: Vec<_> = frames.into_iter().map(|f| (f.1, f.4)).collect();
        prop_assert_eq!(read, packets);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in 0usize..4) {
        let little = Order { big: false };
        let mut file = match kind {
            0 => Vec::new(),
            1 => little.pcap(0xa1b2_c3d4, 0),
            2 => { let mut f = Vec::new(); little.section(&mut f); f }
            _ => { let mut f = Vec::new(); little.section(&mut f); little.interface(&mut f, 1, 0, None, None); f }
        };
        file.extend_from_slice(&bytes);
        let whole = read(&[&file]);
        prop_assert_eq!(read(&file.chunks(3).collect::<Vec<_>>()), whole);
    }

    /// A valid file with one byte changed: no panic, and every frame before the byte is read.
    #[test]
    fn one_wrong_byte_never_panics(at in 0usize..1000, value: u8) {
        let mut file = rich_pcapng();
        let at = at % file.len();
        file[at] = value;
        let whole = read(&[&file]);
        prop_assert_eq!(read(&file.chunks(5).collect::<Vec<_>>()), whole);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// The fuzz target's assertions, on conversations with changed bytes and on noise.
    #[test]
    fn any_bytes_keep_what_the_fuzz_target_asserts(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..12),
        noise in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut talk = Talk::default();
        talk.handshake(0, 100, 100).data(300, true, GET).data(500, false, &reply(3000));
        let mut file = talk.pcapng();
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        trace::fuzz(&file);
        trace::fuzz(&noise);
    }
}
