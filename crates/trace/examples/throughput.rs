//! Measures the analyzer's speed: megabytes of capture per second on one core.
//!
//! `throughput FILE` analyzes a capture file. `throughput --write FILE MIB` first writes one with web traffic of many
//! connections. Without a file, the capture stays in memory. The time covers reading the chunks (memory or page cache),
//! decoding, flows, HTTP and findings. Compare with `tcptrace FILE` and `tshark -r FILE -q -z conv,tcp`;
//! `benches/trace` runs all three.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads clocks and files")]

use std::io::{Read, Write};
use std::time::Instant;
use trace::{Analyzer, Frame, LinkType, Options, PcapngWriter, Reader};
use units::Seed;

const MSS: usize = 1448;

/// Connections that fetch responses of 0.5 to 100 KB, interleaved, with delayed acknowledgments.
struct Generator {
    out: Vec<u8>,
    writer: PcapngWriter,
    interface: u32,
    nanos: u64,
    random: u64,
    connections: Vec<Web>,
    opened: u32,
    body: Vec<u8>,
}

#[derive(Clone, Copy, Default)]
struct Web {
    id: u32,
    requests: u32,
    left: u32,
    seq: [u32; 2],
    owed: u32,
}

impl Generator {
    fn new() -> Generator {
        let mut out = Vec::new();
        let mut writer = PcapngWriter::begin(&mut out, "weir throughput");
        let interface = writer.interface(&mut out, LinkType::ETHERNET, 0, "made up");
        Generator {
            out,
            writer,
            interface,
            nanos: 1_700_000_000_000_000_000,
            random: Seed(7).0,
            connections: vec![Web::default(); 256],
            opened: 0,
            body: vec![b'x'; 2 * MSS],
        }
    }

    fn random(&mut self) -> u32 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as u32
    }

    fn frame(&mut self, web: &Web, from_client: bool, flags: u8, payload: &[u8]) {
        self.nanos += 20_000;
        let mut data = [0u8; 66 + MSS];
        let n = 66 + payload.len();
        data[12..14].copy_from_slice(&[8, 0]);
        data[14] = 0x45;
        data[16..18].copy_from_slice(&((n - 14) as u16).to_be_bytes());
        data[22..24].copy_from_slice(&[64, 6]);
        let client = (0x0a00_0000 | (web.id >> 12)).to_be_bytes();
        let server = [192, 0, 2, 1];
        let (from, to) = if from_client {
            (client, server)
        } else {
            (server, client)
        };
        data[26..30].copy_from_slice(&from);
        data[30..34].copy_from_slice(&to);
        let port = (20_000 + (web.id & 0xfff) as u16).to_be_bytes();
        let http = 80u16.to_be_bytes();
        let (from, to) = if from_client { (port, http) } else { (http, port) };
        data[34..36].copy_from_slice(&from);
        data[36..38].copy_from_slice(&to);
        let own = usize::from(!from_client);
        data[38..42].copy_from_slice(&web.seq[own].to_be_bytes());
        data[42..46].copy_from_slice(&web.seq[1 - own].to_be_bytes());
        data[46] = 0x80;
        data[47] = flags;
        data[48..50].copy_from_slice(&[0xff, 0xff]);
        data[54..58].copy_from_slice(&[1, 1, 8, 10]);
        data[58..62].copy_from_slice(&((self.nanos / 1_000_000) as u32).to_be_bytes());
        data[66..n].copy_from_slice(payload);
        let frame = Frame {
            number: 0,
            at: units::Instant::from_nanos(self.nanos),
            link: LinkType::ETHERNET,
            wire_len: n as u32,
            data: &data[..n],
        };
        self.writer.frame(&mut self.out, self.interface, &frame);
    }

    /// One step of one connection.
    fn step(&mut self) {
        let at = self.random() as usize % self.connections.len();
        let mut web = self.connections[at];
        if web.requests == 0 && web.left == 0 {
            self.opened += 1;
            web = Web {
                id: self.opened,
                requests: 1 + self.random() % 10,
                ..Web::default()
            };
            self.frame(&web, true, 0x02, b"");
            web.seq[0] += 1;
            self.frame(&web, false, 0x12, b"");
            web.seq[1] += 1;
            self.frame(&web, true, 0x10, b"");
        }
        if web.left == 0 {
            let request = b"GET /some/file.html HTTP/1.1\r\nHost: www.example.org\r\nUser-Agent: weir\r\nAccept: */*\r\n\r\n";
            self.frame(&web, true, 0x18, request);
            web.seq[0] += request.len() as u32;
            let size = 500 + self.random() % (1 << (9 + self.random() % 9));
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {size}\r\n\r\n");
            self.frame(&web, false, 0x18, head.as_bytes());
            web.seq[1] += head.len() as u32;
            web.left = size;
        }
        for _ in 0..10 {
            let n = (web.left as usize).min(MSS);
            let body = std::mem::take(&mut self.body);
            self.frame(&web, false, 0x10, &body[..n]);
            self.body = body;
            web.seq[1] += n as u32;
            web.left -= n as u32;
            web.owed += 1;
            if web.owed == 2 || web.left == 0 {
                self.frame(&web, true, 0x10, b"");
                web.owed = 0;
            }
            if web.left == 0 {
                web.requests -= 1;
                break;
            }
        }
        if web.requests == 0 && web.left == 0 {
            self.frame(&web, true, 0x11, b"");
            web.seq[0] += 1;
            self.frame(&web, false, 0x11, b"");
            web.seq[1] += 1;
            self.frame(&web, true, 0x10, b"");
        }
        self.connections[at] = web;
    }
}

fn report(name: &str, bytes: u64, frames: u64, started: Instant) {
    let s = started.elapsed().as_secs_f64();
    let (mb, ns) = (bytes as f64 / 1e6, s * 1e9 / frames as f64);
    println!(
        "{name}: {mb:.0} MB, {frames} frames, {s:.3} s, {:.0} MB/s, {ns:.0} ns/frame",
        mb / s
    );
}

fn run(name: &str, mut source: impl Read) {
    let mut chunk = vec![0; 1 << 20];
    let started = Instant::now();
    let mut analyzer = Analyzer::new(Options::default());
    let (mut bytes, mut connections, mut findings, mut transactions) = (0, 0, 0, 0);
    let mut drain = |analyzer: &mut Analyzer| {
        while let Some(event) = analyzer.next_event() {
            match event {
                trace::Event::Connection(_) | trace::Event::Quic(_) => connections += 1,
                trace::Event::Lookup(_)
                | trace::Event::Datagrams(_)
                | trace::Event::Packet(_)
                | trace::Event::Parameters(_)
                | trace::Event::Http3(_) => {}
                trace::Event::Finding(_) => findings += 1,
                trace::Event::Transaction(_) => transactions += 1,
            }
        }
    };
    loop {
        let n = source.read(&mut chunk).expect("the capture is readable");
        if n == 0 {
            break;
        }
        bytes += n as u64;
        if let Err(error) = analyzer.feed(&chunk[..n]) {
            println!("{error}");
            break;
        }
        drain(&mut analyzer);
    }
    if let Err(error) = analyzer.finish() {
        println!("{error}");
    }
    drain(&mut analyzer);
    report(name, bytes, analyzer.summary().frames.total, started);
    println!(
        "  {connections} connections, {transactions} transactions, {findings} findings; {}",
        peak()
    );
    for (title, totals) in &analyzer.summary().findings {
        println!(
            "  {title}: {} times, {:.3} s",
            totals.count,
            totals.cost.as_secs_f64()
        );
    }
}

fn read_only(file: &[u8]) {
    let started = Instant::now();
    let mut reader = Reader::new();
    let mut sum = 0u64;
    for chunk in file.chunks(1 << 20) {
        reader
            .feed(chunk, |found| match found {
                trace::Found::Frame(frame) => sum += frame.data.len() as u64,
                trace::Found::Secrets(_) => {}
            })
            .expect("a good capture");
    }
    report("reader alone", file.len() as u64, reader.frames(), started);
    assert!(sum > 0);
    let started = Instant::now();
    let mut oracle = pcap_parser::create_reader(1 << 20, file).expect("a good capture");
    let mut frames = 0;
    loop {
        match oracle.next() {
            Ok((used, block)) => {
                frames += u64::from(matches!(
                    block,
                    pcap_parser::PcapBlockOwned::NG(pcap_parser::Block::EnhancedPacket(_))
                ));
                oracle.consume(used);
            }
            Err(pcap_parser::PcapError::Incomplete(_)) => oracle.refill().expect("memory"),
            Err(_) => break,
        }
    }
    report("pcap-parser", file.len() as u64, frames, started);
}

/// Peak resident memory, if the system reports it.
fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find(|l| l.starts_with("VmHWM"))
        .unwrap_or("VmHWM unknown")
        .to_owned()
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--write", path, mib] => {
            let mib: usize = mib.parse().expect("a number of mebibytes");
            let mut file = std::fs::File::create(path).expect("a writable path");
            let mut generator = Generator::new();
            let mut written = 0;
            while written < mib << 20 {
                generator.step();
                if generator.out.len() > 1 << 20 {
                    file.write_all(&generator.out).expect("room on the disk");
                    written += generator.out.len();
                    generator.out.clear();
                }
            }
        }
        [path] => run("analyzer", std::fs::File::open(path).expect("a readable file")),
        _ => {
            let mut generator = Generator::new();
            while generator.out.len() < 256 << 20 {
                generator.step();
            }
            read_only(&generator.out);
            run("analyzer", &generator.out[..]);
        }
    }
}
