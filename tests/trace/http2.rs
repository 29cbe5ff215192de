//! HTTP/2 in a capture: two streams, one of them reset, as the report, the JSON lines and the CSV show them.

use super::{folder, json, of, show, text, weir};
use ::http2::frame::{PREFACE, write};
use ::http2::hpack::Encoder;
use serde_json::json;
use trace::{Frame, LinkType, PcapngWriter};

const SYN: u8 = 2;
const ACK: u8 = 16;

/// A TCP segment in an IPv4 packet between two fixed endpoints. Checksums stay zero, as with offloading.
fn segment(from_client: bool, flags: u8, seq: u32, ack: u32, payload: &[u8]) -> Vec<u8> {
    let (from, to) = if from_client { (1, 2) } else { (2, 1) };
    let (source, target) = if from_client {
        (40_000_u16, 80_u16)
    } else {
        (80, 40_000)
    };
    let length = 40 + payload.len() as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 198, 18, 0, from, 198, 18, 0, to]);
    packet.extend(source.to_be_bytes());
    packet.extend(target.to_be_bytes());
    packet.extend(seq.to_be_bytes());
    packet.extend(ack.to_be_bytes());
    packet.extend([5 << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
    packet.extend(payload);
    packet
}

/// A connection with two requests: the first is answered, the client resets the second.
pub(super) fn capture() -> Vec<u8> {
    let (mut up, mut down) = (Encoder::new(4096), Encoder::new(4096));
    let mut requests = PREFACE.to_vec();
    write::settings(&mut requests, &[]);
    for (stream, path) in [(1, "/first"), (3, "/second")] {
        let mut block = Vec::new();
        for (name, value) in [
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "example.org"),
            (":path", path),
            ("priority", "u=2"),
        ] {
            up.field(name.as_bytes(), value.as_bytes(), &mut block);
        }
        write::headers(&mut requests, stream, &block, true, 16_384);
    }
    let mut settings = Vec::new();
    write::settings(&mut settings, &[]);
    let (mut response, mut block) = (Vec::new(), Vec::new());
    down.field(b":status", b"200", &mut block);
    write::headers(&mut response, 1, &block, false, 16_384);
    write::data(&mut response, 1, 700, true);
    response.extend([b'x'; 700]);
    let mut reset = Vec::new();
    write::reset(&mut reset, 3, ::http2::Code::CANCEL);

    let mut out = Vec::new();
    let mut writer = PcapngWriter::begin(&mut out, "weir test");
    let interface = writer.interface(&mut out, LinkType::RAW, 0, "test");
    // Client and server, from their first sequence numbers on.
    let mut next = [1000_u32, 5000];
    let script: [(u64, bool, u8, &[u8]); 7] = [
        (0, true, SYN, b""),
        (100, false, SYN | ACK, b""),
        (200, true, ACK, b""),
        (300, false, ACK, &settings),
        (1_000, true, ACK, &requests),
        (21_000, false, ACK, &response),
        (30_000, true, ACK, &reset),
    ];
    for (number, (at_us, from_client, flags, payload)) in (1..).zip(script) {
        let (own, peer) = if from_client { (0, 1) } else { (1, 0) };
        let ack = if flags & ACK == 0 { 0 } else { next[peer] };
        let data = segment(from_client, flags, next[own], ack, payload);
        next[own] += payload.len() as u32 + u32::from(flags & SYN != 0);
        let frame = Frame {
            number,
            at: units::Instant::from_nanos(1_700_000_000_000_000_000 + at_us * 1000),
            link: LinkType::RAW,
            wire_len: data.len() as u32,
            data: &data,
        };
        writer.frame(&mut out, interface, &frame);
    }
    out
}

#[test]
fn streams_are_listed_as_requests() {
    let folder = folder("http2");
    let path = folder.join("http2.pcapng");
    std::fs::write(&path, capture()).expect("a file");
    let output = weir(&[show(&path)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report = text(&output.stdout);
    for fragment in [
        "HTTP: 2 requests, 1 answered, 0 pipelined, 1 unanswered",
        "GET /first (stream 1)\n",
        "GET /second (stream 3, reset by client: CANCEL) (no complete response seen)",
    ] {
        assert!(report.contains(fragment), "{fragment}:\n{report}");
    }
    let lines = json(&[show(&path)]);
    let first = of(&lines, "transaction")[0];
    for (name, wanted) in [
        ("stream", json!(1)),
        ("method", json!("GET")),
        ("target", json!("/first")),
        ("status", json!(200)),
        ("response_body_bytes", json!(700)),
        ("wait_ms", json!(20.0)),
        ("priority", json!("u=2")),
        ("flow_control_ms", json!(0.0)),
        ("reset", json!(null)),
    ] {
        assert_eq!(first[name], wanted, "{name}");
    }
    let reset = &of(&lines, "transaction")[1]["reset"];
    assert_eq!(*reset, json!({ "by": "client", "code": "CANCEL" }));
    let output = weir(&[show(&path), "--csv", "requests"]);
    let sheet = text(&output.stdout);
    assert!(
        sheet.contains(",stream,reset,priority,flow_control_ms\n"),
        "{sheet}"
    );
    assert!(sheet.contains(",3,CANCEL,u=2,0.000000\n"), "{sheet}");
}
