//! The decoder: link types, IP versions, options, snapshot lengths; and frames of arbitrary bytes.

mod talk;

use core::net::IpAddr;
use etherparse::{PacketBuilder, TcpOptionElement};
use proptest::prelude::*;
use talk::{Seg, Talk};
use trace::{Analyzer, Endpoint, Frame, Limits, LinkType, Options, Packet, SeqNum};
use units::Instant;

fn frame(link: LinkType, data: &[u8]) -> Frame<'_> {
    Frame {
        number: 1,
        at: Instant::ZERO,
        link,
        wire_len: data.len() as u32,
        data,
    }
}

fn ip4(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        .tcp(1000, 80, 7, 99)
        .ack(8)
        .options(&[
            TcpOptionElement::Noop,
            TcpOptionElement::Noop,
            TcpOptionElement::Timestamp(3, 4),
        ])
        .unwrap()
        .write(&mut out, payload)
        .unwrap();
    out
}

fn ip6(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    PacketBuilder::ipv6([1; 16], [2; 16], 64)
        .tcp(1000, 80, 7, 99)
        .ack(8)
        .write(&mut out, payload)
        .unwrap();
    out
}

/// The frame must contain the one segment that all cases carry.
fn check(link: LinkType, data: &[u8], payload: &[u8]) {
    match Packet::decode(&frame(link, data)) {
        Packet::Tcp(s) => {
            assert_eq!(
                (s.from.port, s.to.port, s.seq, s.ack, s.window),
                (1000, 80, SeqNum(7), SeqNum(8), 99)
            );
            assert_eq!((s.payload, s.payload_len as usize), (payload, payload.len()));
        }
        other => panic!("{link:?}: {other:?}"),
    }
}

#[test]
fn every_link_type() {
    for ip in [ip4(b"data"), ip6(b"data")] {
        let v4 = ip[0] >> 4 == 4;
        let ethertype: [u8; 2] = if v4 { [8, 0] } else { [0x86, 0xdd] };
        let with = |head: &[u8]| [head, &ip].concat();
        check(LinkType::RAW, &ip, b"data");
        check(if v4 { LinkType::IPV4 } else { LinkType::IPV6 }, &ip, b"data");
        check(
            LinkType::NULL,
            &with(&[if v4 { 2 } else { 30 }, 0, 0, 0]),
            b"data",
        );
        check(LinkType::LOOP, &with(&[0, 0, 0, 24]), b"data");
        let mac = [0u8; 12];
        check(
            LinkType::ETHERNET,
            &with(&[&mac[..], &ethertype].concat()),
            b"data",
        );
        check(
            LinkType::ETHERNET,
            &with(&[&mac[..], &[0x81, 0, 0, 5], &ethertype].concat()),
            b"data",
        );
        let qinq = [&mac[..], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6], &ethertype].concat();
        check(LinkType::ETHERNET, &with(&qinq), b"data");
        let pppoe = [
            &mac[..],
            &[0x88, 0x64, 0x11, 0, 0, 1, 0, 99, 0, if v4 { 0x21 } else { 0x57 }],
        ]
        .concat();
        check(LinkType::ETHERNET, &with(&pppoe), b"data");
        check(
            LinkType::LINUX_SLL,
            &with(&[&[0; 14][..], &ethertype].concat()),
            b"data",
        );
        check(
            LinkType::LINUX_SLL2,
            &with(&[&ethertype[..], &[0; 18]].concat()),
            b"data",
        );
        check(
            LinkType::LINUX_SLL2,
            &with(&[&[0x81, 0][..], &[0; 18], &[0, 5], &ethertype].concat()),
            b"data",
        );
    }
}

#[test]
fn padding_is_no_payload_and_a_snapshot_length_loses_none() {
    let mut padded = [&[0u8; 12][..], &[8, 0], &ip4(b"")].concat();
    padded.resize(80, 0xaa);
    check(LinkType::ETHERNET, &padded, b"");
    let full = ip4(&[b'x'; 1000]);
    let cut = Frame {
        wire_len: full.len() as u32,
        ..frame(LinkType::RAW, &full[..60])
    };
    match Packet::decode(&cut) {
        Packet::Tcp(s) => {
            assert_eq!((s.payload_len, s.payload.len()), (1000, 60 - 52));
            assert_eq!(s.options.timestamps, Some((3, 4)));
        }
        other => panic!("{other:?}"),
    }
    // Segmentation offload leaves the total length 0: the frame's own length counts.
    let mut offloaded = full.clone();
    offloaded[2..4].fill(0);
    let cut = Frame {
        wire_len: full.len() as u32,
        ..frame(LinkType::RAW, &offloaded[..60])
    };
    assert!(matches!(Packet::decode(&cut), Packet::Tcp(s) if s.payload_len == 1000));
}

#[test]
fn ipv6_extension_headers_are_passed() {
    let plain = ip6(b"data");
    let mut ip = plain[..40].to_vec();
    ip[6] = 0;
    let length = (plain.len() - 40 + 8 + 24 + 8) as u16;
    ip[4..6].copy_from_slice(&length.to_be_bytes());
    ip.extend_from_slice(&[43, 0, 0, 0, 0, 0, 0, 0]);
    let mut routing = vec![44, 2];
    routing.resize(24, 0);
    ip.extend_from_slice(&routing);
    // An atomic fragment: offset 0 and no more fragments.
    ip.extend_from_slice(&[6, 0, 0, 0, 0, 0, 0, 1]);
    ip.extend_from_slice(&plain[40..]);
    check(LinkType::RAW, &ip, b"data");
    ip[40 + 8 + 24 + 3] = 1;
    assert!(matches!(
        Packet::decode(&frame(LinkType::RAW, &ip)),
        Packet::Fragment(_)
    ));
}

#[test]
fn what_is_no_tcp_is_counted_as_what_it_is() {
    let mut udp = ip4(b"");
    udp[9] = 17;
    assert!(matches!(
        Packet::decode(&frame(LinkType::RAW, &udp)),
        Packet::Udp(datagram) if datagram.payload_len == 24
    ));
    udp[9] = 132;
    assert!(matches!(
        Packet::decode(&frame(LinkType::RAW, &udp)),
        Packet::OtherIp(132)
    ));
    let mut fragment = ip4(b"");
    fragment[6] = 0x20;
    assert!(matches!(
        Packet::decode(&frame(LinkType::RAW, &fragment)),
        Packet::Fragment(_)
    ));
    let arp = [&[0u8; 12][..], &[8, 6], &[0; 28]].concat();
    assert!(matches!(
        Packet::decode(&frame(LinkType::ETHERNET, &arp)),
        Packet::NotIp
    ));
    assert!(matches!(
        Packet::decode(&frame(LinkType(147), &arp)),
        Packet::UnknownLink(LinkType(147))
    ));
    assert!(matches!(
        Packet::decode(&frame(LinkType::RAW, &ip4(b"")[..30])),
        Packet::Malformed
    ));
    assert!(matches!(
        Packet::decode(&frame(LinkType::RAW, b"")),
        Packet::Malformed
    ));
}

#[test]
fn endpoints_print_as_people_write_them() {
    let v4 = Endpoint::new("192.0.2.1".parse::<IpAddr>().unwrap(), 80);
    let v6 = Endpoint::new("2001:db8::1".parse::<IpAddr>().unwrap(), 443);
    assert_eq!(
        (v4.to_string(), v6.to_string()),
        ("192.0.2.1:80".into(), "[2001:db8::1]:443".into())
    );
    assert_eq!(v4.address(), "192.0.2.1".parse::<IpAddr>().unwrap());
}

#[test]
fn the_flow_table_keeps_its_bound_and_reports_every_connection() {
    let limits = Limits {
        connections: 10,
        ..Limits::default()
    };
    let mut analyzer = Analyzer::new(Options {
        limits,
        ..Options::default()
    });
    let mut reports = 0;
    for port in 0..1000u16 {
        let mut talk = Talk {
            client_port: 10_000 + port,
            ..Talk::default()
        };
        talk.handshake(u64::from(port) * 1000, 10, 10);
        for (i, sent) in talk.frames.iter().enumerate() {
            analyzer.frame(&sent.frame(u64::from(port) * 3 + i as u64 + 1));
        }
        assert!(analyzer.connections() <= 10);
        while analyzer.next_event().is_some() {
            reports += 1;
        }
    }
    analyzer.finish_frames();
    while analyzer.next_event().is_some() {
        reports += 1;
    }
    assert_eq!(reports, 1000);
    let summary = analyzer.summary();
    assert_eq!(
        (
            summary.connections.seen,
            summary.connections.evicted,
            summary.connections.open
        ),
        (1000, 990, 10)
    );
    assert_eq!(summary.kinds.syn, 2000);
}

#[test]
fn the_segment_budget_keeps_its_bound_and_counters_stay_exact() {
    let mut talk = Talk::default();
    talk.handshake(0, 10, 10);
    for i in 0..100 {
        talk.data(100 + i, false, &[b'.'; 1000]);
    }
    talk.ack_all(1000, true);
    let limits = Limits {
        segments: 20,
        ..Limits::default()
    };
    let outcome = talk::analyze(
        &talk.pcapng(),
        Options {
            limits,
            ..Options::default()
        },
    );
    assert_eq!(outcome.summary.untracked_segments, 80);
    assert_eq!(outcome.connections[0].from_server.unique_bytes, 100_000);
    assert_eq!(outcome.connections[0].from_server.flight.max, 100_000);
}

#[test]
fn sequence_numbers_wrap_without_a_trace() {
    let build = |isn| {
        let mut talk = Talk {
            server_isn: isn,
            ..Talk::default()
        };
        talk.handshake(0, 100, 100).data(300, true, talk::GET);
        for (i, part) in talk::reply(20_000).chunks(1460).enumerate() {
            talk.data(400 + i as u64 * 10, false, part)
                .ack_all(405 + i as u64 * 10, true);
        }
        talk.push(
            900,
            Seg {
                from_client: false,
                seq: 1,
                ack: talk.next[0],
                payload: b"HTTP",
                ..Seg::default()
            },
        );
        let outcome = talk.analyze();
        (outcome.connections, outcome.transactions)
    };
    let calm = build(1000);
    assert_eq!(calm.0[0].from_server.retransmissions.needless, 1);
    assert!(calm.1[0].complete);
    assert_eq!(build(u32::MAX - 5000), calm);
    assert_eq!(build(u32::MAX), calm);
}

proptest! {
    #[test]
    fn arbitrary_frames_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120), link in 0usize..15) {
        let link = [0, 1, 101, 108, 113, 228, 276, 999, 9, 10, 50, 51, 100, 104, 204][link];
        let _ = Packet::decode(&frame(LinkType(link), &bytes));
    }

    /// Random segments of two connections: no panic, and packets, bytes and kinds add up.
    #[test]
    fn arbitrary_conversations_keep_the_books(
        segments in proptest::collection::vec((any::<bool>(), 0u8..64, 0u32..6000, 0u32..6000, 0usize..1500, 0u64..300_000, 0u16..3), 1..120),
        isn: u32,
    ) {
        let mut talk = Talk { client_isn: isn, ..Talk::default() };
        let mut at = 0;
        let mut payload_total = 0;
        let body = talk::reply(3000);
        for (from_client, bits, seq, ack, len, step, window) in &segments {
            at += step;
            let mut flags = String::new();
            for (bit, name) in [(1, 'F'), (2, 'S'), (4, 'R'), (8, 'P')] {
                // SYN and RST are made rare.
                if bits & bit != 0 && (name == 'P' || bits & 48 == 48) {
                    flags.push(name);
                }
            }
            flags.push('A');
            payload_total += len;
            talk.push(at, Seg {
                from_client: *from_client,
                flags: &flags,
                seq: *seq,
                ack: *ack,
                window: window * 5000,
                payload: &body[..*len],
                ..Seg::default()
            });
        }
        let outcome = talk.analyze();
        let s = &outcome.summary;
        prop_assert_eq!(s.volume.packets as usize, segments.len());
        prop_assert_eq!(s.volume.payload as usize, payload_total);
        for c in &outcome.connections {
            for d in [&c.from_client, &c.from_server] {
                prop_assert!(d.unique_bytes <= d.volume.payload);
                prop_assert!(d.retransmissions.bytes <= d.volume.payload);
            }
        }
    }
}
