//! One conversation over every supported link, through every supported tunnel, and in fragments: the report must equal
//! Ethernet's. If tshark is installed, it must find the same segments.

mod talk;

use std::path::PathBuf;
use std::process::Command;
use talk::{GET, Outcome, Seg, Talk, reply};
use trace::{Frame, LinkType, Options, PcapngWriter};

/// A request and a response of three segments, closed in order, as Ethernet frames.
fn conversation() -> Talk {
    let mut talk = Talk::default();
    talk.handshake(0, 20_000, 100).data(20_500, true, GET);
    for (i, part) in reply(4_000).chunks(1_400).enumerate() {
        talk.data(41_000 + i as u64 * 100, false, part);
    }
    talk.ack_all(41_500, true);
    talk.segment(50_000, true, "FA", b"")
        .segment(70_000, false, "FA", b"")
        .ack_all(70_100, true);
    talk
}

/// The frames as a capture of another link; each IP packet is wrapped or cut into several frames.
fn capture(talk: &Talk, link: LinkType, wrap: impl Fn(&[u8]) -> Vec<Vec<u8>>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = PcapngWriter::begin(&mut out, "weir test");
    let interface = writer.interface(&mut out, link, 0, "talk");
    let mut number = 0;
    for sent in &talk.frames {
        for data in wrap(&sent.data[14..]) {
            number += 1;
            let frame = Frame {
                number,
                link,
                wire_len: data.len() as u32,
                data: &data,
                ..sent.frame(number)
            };
            writer.frame(&mut out, interface, &frame);
        }
    }
    out
}

/// Compares everything that must not depend on the link: the connection, its request and the findings.
fn assert_same(name: &str, outcome: &Outcome, plain: &Outcome) {
    assert_eq!(outcome.error, None, "{name}");
    assert_eq!(outcome.connections, plain.connections, "{name}");
    assert_eq!(outcome.transactions, plain.transactions, "{name}");
    assert_eq!(outcome.findings, plain.findings, "{name}");
}

/// Payload lengths of TCP segments by tshark, the innermost of each frame; `None` if it is not installed.
#[allow(clippy::disallowed_methods, reason = "tests write captures for other tools")]
fn tshark(name: &str, capture: &[u8]) -> Option<Vec<u32>> {
    let path =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.pcapng", std::process::id()));
    std::fs::write(&path, capture).expect("a file");
    let fields = ["-Y", "tcp", "-T", "fields", "-e", "tcp.len"];
    let output = Command::new("tshark")
        .arg("-n")
        .arg("-r")
        .arg(&path)
        .args(fields)
        .output();
    let _ = std::fs::remove_file(&path);
    match output {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            Some(text.lines().filter_map(|line| line.parse().ok()).collect())
        }
        Err(error) => {
            println!("skipped: tshark: {error}");
            None
        }
    }
}

fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut ip = vec![
        0x45, 0, 0, 0, 0, 9, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2,
    ];
    ip[2..4].copy_from_slice(&((20 + payload.len()) as u16).to_be_bytes());
    ip.extend_from_slice(payload);
    ip
}

fn ipv6(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut ip = vec![0x60, 0, 0, 0, 0, 0, protocol, 64];
    ip[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
    ip.extend_from_slice(&[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    ip.extend_from_slice(&[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    ip.extend_from_slice(payload);
    ip
}

const MACS: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

fn ethernet(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    [&MACS[..], &ether_type.to_be_bytes(), payload].concat()
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() + 8) as u16;
    let words = [40_000, port, length, 0].map(u16::to_be_bytes);
    [&words.concat(), payload].concat()
}

/// Wraps an IP packet into a frame.
type Wrap = fn(&[u8]) -> Vec<u8>;

#[test]
fn every_link_and_tunnel_shows_the_same_conversation() {
    let talk = conversation();
    let plain = talk.analyze();
    assert!(plain.transactions[0].complete);
    let cases: &[(&str, LinkType, Wrap)] = &[
        ("ethernet", LinkType::ETHERNET, |ip| ethernet(0x0800, ip)),
        ("llc-snap", LinkType::ETHERNET, |ip| {
            let llc = [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], ip].concat();
            ethernet(llc.len() as u16, &llc)
        }),
        ("llc-ip", LinkType::ETHERNET, |ip| {
            let llc = [&[6, 6, 3], ip].concat();
            ethernet(llc.len() as u16, &llc)
        }),
        ("fddi", LinkType::FDDI, |ip| {
            [&[0x50][..], &MACS, &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], ip].concat()
        }),
        ("atm", LinkType::ATM_RFC1483, |ip| {
            [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], ip].concat()
        }),
        ("ppp", LinkType::PPP, |ip| [&[0xff, 3, 0, 0x21], ip].concat()),
        ("ppp-short", LinkType::PPP, |ip| [&[0x21], ip].concat()),
        ("ppp-hdlc", LinkType::PPP_HDLC, |ip| {
            [&[0xff, 3, 0, 0x21], ip].concat()
        }),
        ("cisco-hdlc", LinkType::C_HDLC, |ip| {
            [&[0x0f, 0, 8, 0], ip].concat()
        }),
        ("ppp-direction", LinkType::PPP_WITH_DIR, |ip| {
            [&[1, 0xff, 3, 0, 0x21], ip].concat()
        }),
        ("pppoe-bare", LinkType::PPP_ETHER, |ip| {
            let length = (ip.len() as u16 + 2).to_be_bytes();
            [&[0x11, 0, 0, 7], &length[..], &[0, 0x21], ip].concat()
        }),
        ("pppoe", LinkType::ETHERNET, |ip| {
            let length = (ip.len() as u16 + 2).to_be_bytes();
            ethernet(0x8864, &[&[0x11, 0, 0, 7], &length[..], &[0, 0x21], ip].concat())
        }),
        ("ipip", LinkType::ETHERNET, |ip| ethernet(0x0800, &ipv4(4, ip))),
        ("ip-in-six", LinkType::ETHERNET, |ip| {
            ethernet(0x86dd, &ipv6(4, ip))
        }),
        ("gre", LinkType::ETHERNET, |ip| {
            ethernet(0x0800, &ipv4(47, &[&[0, 0, 8, 0], ip].concat()))
        }),
        ("gre-key-sequence", LinkType::ETHERNET, |ip| {
            let head = [0x30, 0, 8, 0, 0, 0, 0, 5, 0, 0, 0, 1];
            ethernet(0x0800, &ipv4(47, &[&head, ip].concat()))
        }),
        ("gre-bridge", LinkType::ETHERNET, |ip| {
            ethernet(
                0x0800,
                &ipv4(47, &[&[0, 0, 0x65, 0x58], &ethernet(0x0800, ip)[..]].concat()),
            )
        }),
        ("pptp", LinkType::ETHERNET, |ip| {
            let length = (ip.len() as u16 + 4).to_be_bytes();
            let head = [
                &[0x30, 1, 0x88, 0x0b],
                &length[..],
                &[0, 7, 0, 0, 0, 1, 0xff, 3, 0, 0x21],
            ]
            .concat();
            ethernet(0x0800, &ipv4(47, &[&head, ip].concat()))
        }),
        ("vxlan", LinkType::ETHERNET, |ip| {
            let inner = [&[8, 0, 0, 0, 0, 0, 7, 0], &ethernet(0x0800, ip)[..]].concat();
            ethernet(0x0800, &ipv4(17, &udp(4_789, &inner)))
        }),
        ("vxlan-vlan-over-six", LinkType::ETHERNET, |ip| {
            let inner = ethernet(0x8100, &[&[0, 5, 8, 0], ip].concat());
            let inner = [&[8, 0, 0, 0, 0, 0, 7, 0], &inner[..]].concat();
            ethernet(0x86dd, &ipv6(17, &udp(4_789, &inner)))
        }),
        ("twice", LinkType::ETHERNET, |ip| {
            ethernet(0x0800, &ipv4(4, &ipv4(47, &[&[0, 0, 8, 0], ip].concat())))
        }),
    ];
    let lengths: Vec<u32> = talk
        .frames
        .iter()
        .map(|sent| sent.data.len() as u32 - 14 - 20 - 20)
        .collect();
    for (name, link, wrap) in cases {
        let file = capture(&talk, *link, |ip| vec![wrap(ip)]);
        assert_same(name, &talk::analyze(&file, Options::default()), &plain);
        if let Some(theirs) = tshark(name, &file) {
            // Both SYNs have four bytes of options.
            let ours = lengths
                .iter()
                .map(|length| if *length == 4 { 0 } else { *length });
            assert_eq!(theirs, ours.collect::<Vec<_>>(), "{name}");
        }
    }
    let plain = ipv4(17, &udp(4_789, b"no VXLAN at all"));
    let frame = Frame {
        link: LinkType::RAW,
        wire_len: plain.len() as u32,
        data: &plain,
        ..talk.frames[0].frame(1)
    };
    let trace::Packet::Udp(datagram) = trace::Packet::decode(&frame) else {
        panic!("a datagram");
    };
    assert_eq!(datagram.payload, b"no VXLAN at all");
    // Packets without TCP keep their outer protocol, and endless tunnels are not followed.
    let mut deep = talk.frames[0].data[14..].to_vec();
    for _ in 0..20 {
        deep = ipv4(4, &deep);
    }
    for (other, protocol) in [(deep, 4), (ipv4(47, &[0, 0, 8, 6]), 47)] {
        let frame = Frame {
            link: LinkType::RAW,
            wire_len: other.len() as u32,
            data: &other,
            ..talk.frames[0].frame(1)
        };
        let packet = trace::Packet::decode(&frame);
        assert!(
            matches!(packet, trace::Packet::OtherIp(n) if n == protocol),
            "{packet:?}"
        );
    }
}

/// An IP packet in fragments of `size` bytes of payload, as a router would cut it.
fn fragments(ip: &[u8], size: usize) -> Vec<Vec<u8>> {
    let (header, payload) = ip.split_at(20);
    let parts: Vec<&[u8]> = payload.chunks(size).collect();
    let last = parts.len() - 1;
    let part = |(n, part): (usize, &&[u8])| {
        let mut one = [header, part].concat();
        let more = if n < last { 0x2000 } else { 0 };
        let word = more | (n * size / 8) as u16;
        one[2..4].copy_from_slice(&((20 + part.len()) as u16).to_be_bytes());
        one[6..8].copy_from_slice(&word.to_be_bytes());
        one
    };
    parts.iter().enumerate().map(part).collect()
}

/// Gives each packet its own identification, which fragments need.
fn numbered(ip: &[u8]) -> Vec<u8> {
    let mut ip = ip.to_vec();
    let sum: u32 = ip[20..34].iter().map(|byte| u32::from(*byte) * 131).sum();
    let id = (sum ^ ip.len() as u32) as u16;
    ip[4..6].copy_from_slice(&id.to_be_bytes());
    ip[6] = 0;
    ip
}

/// Everything except frame numbers, which differ.
fn without_numbers(outcome: &Outcome) -> (Vec<trace::Connection>, Vec<trace::Transaction>) {
    let mut connections = outcome.connections.clone();
    connections.iter_mut().for_each(|one| one.packets = (0, 0));
    let mut transactions = outcome.transactions.clone();
    transactions
        .iter_mut()
        .for_each(|one| (one.first_packet, one.last_packet) = (0, 0));
    (connections, transactions)
}

#[test]
fn fragments_are_put_together() {
    let talk = conversation();
    let plain = without_numbers(&talk.analyze());
    let tunnel = |ip: &[u8]| ipv4(47, &[&[0, 0, 8, 0], ip].concat());
    type Cut = Box<dyn Fn(&[u8]) -> Vec<Vec<u8>>>;
    let cases: Vec<(&str, Cut)> = vec![
        ("in-order", Box::new(|ip| fragments(&numbered(ip), 552))),
        (
            "backwards",
            Box::new(|ip| fragments(&numbered(ip), 552).into_iter().rev().collect()),
        ),
        ("tiny", Box::new(|ip| fragments(&numbered(ip), 8))),
        (
            "in-a-tunnel",
            Box::new(move |ip| {
                fragments(&numbered(ip), 552)
                    .iter()
                    .map(|ip| tunnel(ip))
                    .collect()
            }),
        ),
        (
            "the-tunnel",
            Box::new(move |ip| {
                let id = numbered(ip)[4..6].to_vec();
                let mut outer = tunnel(ip);
                outer[4..6].copy_from_slice(&id);
                fragments(&outer, 552)
            }),
        ),
    ];
    for (name, cut) in cases {
        let file = capture(&talk, LinkType::RAW, &cut);
        let outcome = talk::analyze(&file, Options::default());
        assert_eq!(without_numbers(&outcome), plain, "{name}");
        let frames = outcome.summary.frames;
        assert_eq!(frames.tcp, talk.frames.len() as u64, "{name}");
        assert!(
            frames.joined >= 3 && frames.joined_fragments == frames.fragments,
            "{name}: {frames:?}"
        );
        if let Some(theirs) = tshark(name, &file) {
            assert_eq!(theirs.len() as u64, frames.tcp, "{name}");
        }
    }
    // IPv6: the packet in an IPv6 tunnel, which is fragmented.
    let six = |ip: &[u8]| {
        let outer = ipv6(4, ip);
        let parts: Vec<&[u8]> = outer[40..].chunks(552).collect();
        let last = parts.len() - 1;
        let id = numbered(ip)[4..6].to_vec();
        let one = |(n, part): (usize, &&[u8])| {
            let word = (n * 552) as u16 | u16::from(n < last);
            let head = [&[4, 0], &word.to_be_bytes()[..], &[0, 0], &id].concat();
            ipv6(44, &[&head, *part].concat())
        };
        parts.iter().enumerate().map(one).collect::<Vec<_>>()
    };
    let file = capture(&talk, LinkType::RAW, six);
    let outcome = talk::analyze(&file, Options::default());
    assert_eq!(without_numbers(&outcome), plain);
    if let Some(theirs) = tshark("six", &file) {
        assert_eq!(theirs.len(), talk.frames.len());
    }
}

#[test]
fn a_datagram_of_which_a_part_is_missing_is_only_counted() {
    let talk = conversation();
    let file = capture(&talk, LinkType::RAW, |ip| {
        let mut parts = fragments(&numbered(ip), 552);
        if parts.len() > 1 {
            parts.remove(1);
        }
        parts
    });
    let frames = talk::analyze(&file, Options::default()).summary.frames;
    assert_eq!((frames.joined, frames.joined_fragments), (0, 0));
    assert!(frames.fragments >= 4);
}

#[test]
fn heads_that_the_snapshot_length_cuts_are_counted() {
    let mut talk = conversation();
    // The head of the second request is whole, yet the connection's HTTP is lost.
    talk.push(
        80_000,
        Seg {
            payload: b"",
            ..Seg::default()
        },
    );
    let mut out = Vec::new();
    let mut writer = PcapngWriter::begin(&mut out, "weir test");
    let interface = writer.interface(&mut out, LinkType::ETHERNET, 80, "talk");
    for (n, sent) in talk.frames.iter().enumerate() {
        let frame = sent.frame(n as u64 + 1);
        let cut = Frame {
            data: &frame.data[..frame.data.len().min(80)],
            ..frame
        };
        writer.frame(&mut out, interface, &cut);
    }
    let outcome = talk::analyze(&out, Options::default());
    assert!(outcome.transactions.is_empty());
    // One of the request and one of the response.
    assert_eq!(outcome.summary.http.cut_heads, 2);
    assert_eq!(conversation().analyze().summary.http.cut_heads, 0);
}
