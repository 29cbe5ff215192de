//! HTTP/2 in captures: what each stream did and when, whatever the cuts between segments; and that no bytes, gaps or
//! losses are more than a finding.

mod talk;

use http2::frame::{Header, PREFACE, Setting, flag, kind, write};
use http2::hpack::Encoder;
use proptest::prelude::*;
use talk::{Outcome, Seg, Talk, analyze};
use trace::{Kind, Limits, Options, Side, Transaction, Undecodable};

/// What one end writes, with the state of its compression.
struct Writer {
    encoder: Encoder,
    bytes: Vec<u8>,
}

impl Writer {
    fn client() -> Writer {
        let mut bytes = PREFACE.to_vec();
        write::settings(&mut bytes, &[]);
        Writer {
            encoder: Encoder::new(4096),
            bytes,
        }
    }

    fn server() -> Writer {
        let mut bytes = Vec::new();
        write::settings(&mut bytes, &[Setting::MaxConcurrentStreams(100)]);
        write::settings_ack(&mut bytes);
        Writer {
            encoder: Encoder::new(4096),
            bytes,
        }
    }

    fn block(&mut self, fields: &[(&str, &str)]) -> Vec<u8> {
        let mut block = Vec::new();
        for (name, value) in fields {
            self.encoder.field(name.as_bytes(), value.as_bytes(), &mut block);
        }
        block
    }

    fn headers(&mut self, stream: u32, fields: &[(&str, &str)], end: bool) -> &mut Writer {
        let block = self.block(fields);
        write::headers(&mut self.bytes, stream, &block, end, 16_384);
        self
    }

    fn get(&mut self, stream: u32, path: &str) -> &mut Writer {
        let fields = [
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "example.org"),
            (":path", path),
        ];
        self.headers(stream, &fields, true)
    }

    fn status(&mut self, stream: u32, status: &str) -> &mut Writer {
        self.headers(stream, &[(":status", status), ("server", "weir")], false)
    }

    fn data(&mut self, stream: u32, bytes: usize, end: bool) -> &mut Writer {
        write::data(&mut self.bytes, stream, bytes, end);
        self.bytes.resize(self.bytes.len() + bytes, b'x');
        self
    }

    fn raw(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> &mut Writer {
        let header = Header {
            length: payload.len() as u32,
            kind,
            flags,
            stream,
        };
        self.bytes.extend_from_slice(&header.bytes());
        self.bytes.extend_from_slice(payload);
        self
    }

    fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

fn begun() -> Talk {
    let mut talk = Talk::default();
    talk.handshake(0, 100, 10_000);
    talk
}

fn of(outcome: &Outcome, stream: u32) -> &Transaction {
    let found = outcome.transactions.iter().find(|t| t.stream == Some(stream));
    found.unwrap_or_else(|| panic!("no stream {stream}: {:?}", outcome.transactions))
}

fn ms(time: Option<units::Duration>) -> Option<u128> {
    time.map(|time| time.as_millis())
}

fn stopped(outcome: &Outcome) -> Vec<(Side, Undecodable)> {
    let findings = outcome.findings.iter().filter_map(|f| match f.kind {
        Kind::Http2DecodingStopped { cause } => Some((f.sender, cause)),
        _ => None,
    });
    findings.collect()
}

#[test]
fn each_stream_is_a_transaction_with_its_own_times() {
    let (mut client, mut server) = (Writer::client(), Writer::server());
    let mut talk = begun();
    // The server's SETTINGS may come before the client's preface.
    talk.data(10_200, false, &server.take());
    talk.data(11_000, true, &client.get(1, "/slow").take());
    talk.data(12_000, true, &client.get(3, "/fast").take());
    let interim = [(":status", "103"), ("link", "</a.css>")];
    talk.data(20_000, false, &server.headers(1, &interim, false).take());
    talk.data(30_000, false, &server.status(3, "200").data(3, 500, true).take());
    talk.data(40_000, false, &server.status(1, "404").data(1, 700, false).take());
    let trailers = [("checksum", "1")];
    talk.data(
        55_000,
        false,
        &server.data(1, 300, false).headers(1, &trailers, true).take(),
    );
    talk.ack_all(56_000, true);
    let outcome = talk.analyze();
    assert_eq!(stopped(&outcome), []);
    let (slow, fast) = (of(&outcome, 1), of(&outcome, 3));
    assert_eq!(
        (&*slow.method, &*slow.target, slow.status),
        ("GET", "/slow", Some(404))
    );
    assert_eq!(
        (&*fast.method, &*fast.target, fast.status),
        ("GET", "/fast", Some(200))
    );
    assert_eq!((slow.response_body_bytes, fast.response_body_bytes), (1000, 500));
    assert_eq!((ms(slow.wait), ms(slow.receive)), (Some(29), Some(15)));
    assert_eq!((ms(fast.wait), ms(fast.receive)), (Some(18), Some(0)));
    assert_eq!((slow.start.as_millis(), slow.ahead, fast.ahead), (11, 0, 1));
    assert!(slow.complete && fast.complete);
    assert_eq!((slow.first_packet, slow.last_packet, slow.packets), (5, 10, 6));
    let http = outcome.connections[0].http.expect("HTTP");
    assert_eq!((http.requests, http.responses, http.unanswered), (2, 2, 0));
    assert_eq!((http.pipelined, http.unmatched_responses), (0, 0));
}

#[test]
fn uploads_resets_and_pushes_are_followed() {
    let (mut client, mut server) = (Writer::client(), Writer::server());
    let mut talk = begun();
    let post = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/up"),
        (":authority", "a"),
    ];
    talk.data(
        11_000,
        true,
        &client.headers(1, &post, false).data(1, 600, false).take(),
    );
    talk.data(
        15_000,
        true,
        &client.data(1, 400, true).get(3, "/cancelled").take(),
    );
    talk.data(16_000, false, &server.status(1, "201").data(1, 0, true).take());
    let mut push = 2_u32.to_be_bytes().to_vec();
    push.extend(server.block(&[(":method", "GET"), (":path", "/pushed"), ("x", "indexed")]));
    server.raw(kind::PUSH_PROMISE, flag::END_HEADERS, 3, &push);
    talk.data(17_000, false, &server.status(2, "200").data(2, 50, true).take());
    talk.data(
        18_000,
        true,
        &client.raw(kind::RST_STREAM, 0, 3, &8_u32.to_be_bytes()).take(),
    );
    // It crossed the reset on its way.
    talk.data(19_000, false, &server.status(3, "200").data(3, 50, true).take());
    talk.ack_all(20_000, true);
    let outcome = talk.analyze();
    assert_eq!(stopped(&outcome), []);
    let (up, pushed, cancelled) = (of(&outcome, 1), of(&outcome, 2), of(&outcome, 3));
    assert_eq!((up.request_body_bytes, up.status), (1000, Some(201)));
    assert_eq!((up.request.as_millis(), ms(up.wait)), (4, Some(1)));
    assert_eq!((&*pushed.target, pushed.response_body_bytes), ("/pushed", 50));
    assert!(pushed.complete && !cancelled.complete);
    let reset = cancelled.reset.as_ref().expect("a reset");
    assert_eq!((reset.by, &*reset.code), (Side::Client, "CANCEL"));
    let http = outcome.connections[0].http.expect("HTTP");
    assert_eq!((http.requests, http.responses, http.unanswered), (3, 2, 1));
    assert_eq!(http.unmatched_responses, 0);
}

#[test]
fn missing_bytes_of_content_do_no_harm_and_others_stop_one_direction() {
    for is_content in [true, false] {
        let (mut client, mut server) = (Writer::client(), Writer::server());
        let mut talk = begun();
        talk.data(11_000, true, &client.get(1, "/a").get(3, "/b").take());
        server.status(1, "200");
        if is_content {
            let header = [0, 8, 0, kind::DATA, flag::END_STREAM, 0, 0, 0, 1];
            server.bytes.extend_from_slice(&header);
        }
        talk.data(20_000, false, &server.take());
        // 1000 bytes that the receiver has and the capture has not.
        talk.next[1] += 1000;
        talk.data(21_000, false, &[b'x'; 1048]);
        talk.ack_all(31_000, true);
        talk.data(32_000, false, &server.status(3, "200").data(3, 10, true).take());
        talk.data(33_000, true, &client.get(5, "/c").take());
        talk.ack_all(34_000, true);
        let outcome = talk.analyze();
        let http = outcome.connections[0].http.expect("HTTP");
        if is_content {
            assert_eq!(stopped(&outcome), []);
            assert_eq!(of(&outcome, 1).response_body_bytes, 2048);
            assert_eq!(
                (http.responses, http.unanswered, http.unmatched_requests),
                (2, 1, 0)
            );
        } else {
            assert_eq!(stopped(&outcome), [(Side::Server, Undecodable::Gap)]);
            assert_eq!(of(&outcome, 5).target, "/c");
            assert_eq!(
                (http.responses, http.unanswered, http.unmatched_requests),
                (0, 0, 3)
            );
        }
        assert_eq!(http.requests, 3);
    }
}

#[test]
fn damage_is_named() {
    let damages: [(&[u8], Undecodable); 4] = [
        (
            &[0, 0, 1, kind::HEADERS, 5, 0, 0, 0, 1, 0xff],
            Undecodable::Compression,
        ),
        (
            &[0, 0, 3, kind::RST_STREAM, 0, 0, 0, 0, 1, 0, 0, 0],
            Undecodable::Malformed,
        ),
        (
            &[0, 0, 0, kind::CONTINUATION, 4, 0, 0, 0, 1],
            Undecodable::Malformed,
        ),
        (&[1, 0, 1, kind::HEADERS, 4, 0, 0, 0, 1], Undecodable::Memory),
    ];
    for (bytes, cause) in damages {
        let mut client = Writer::client();
        client.bytes.extend_from_slice(bytes);
        let mut talk = begun();
        talk.data(11_000, true, &client.take());
        talk.data(12_000, true, &client.get(1, "/unseen").take());
        assert_eq!(stopped(&talk.analyze()), [(Side::Client, cause)], "{bytes:?}");
    }
}

#[test]
fn a_server_without_http2_answers_the_preface_in_http1() {
    let mut talk = begun();
    talk.data(11_000, true, &Writer::client().get(1, "/").take());
    talk.data(
        12_000,
        false,
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
    );
    let outcome = talk.analyze();
    assert_eq!(stopped(&outcome), [(Side::Server, Undecodable::Malformed)]);
    let http = outcome.connections[0].http.expect("HTTP");
    assert_eq!((http.requests, http.unmatched_requests), (1, 1));
}

#[test]
fn what_grows_is_bounded() {
    let mut client = Writer::client();
    let mut talk = begun();
    let mut bytes = client.take();
    for stream in (1..4000).step_by(2) {
        bytes.extend(client.get(stream, "/").take());
    }
    for (i, part) in bytes.chunks(1400).enumerate() {
        talk.data(11_000 + i as u64, true, part);
    }
    let outcome = talk.analyze();
    let http = outcome.connections[0].http.expect("HTTP");
    assert_eq!((http.requests, http.unanswered), (2000, 2000));
    assert_eq!(outcome.transactions.len(), 1024);
    let limits = Limits {
        reassembly: 10_000,
        ..Limits::default()
    };
    let options = Options {
        limits,
        ..Options::default()
    };
    let outcome = analyze(&talk.pcapng(), options);
    assert!(outcome.transactions.len() <= 10_000 / 640);
    let mut large = Writer::client();
    let block = vec![b'x'; 16_000];
    large.raw(kind::HEADERS, 0, 1, &block);
    let mut talk = begun();
    talk.data(11_000, true, &large.take());
    let outcome = analyze(&talk.pcapng(), options);
    assert_eq!(stopped(&outcome), [(Side::Client, Undecodable::Memory)]);
}

#[test]
fn a_connection_whose_opening_was_not_captured_is_recognized_by_its_preface() {
    let (mut client, mut server) = (Writer::client(), Writer::server());
    let mut talk = Talk {
        client_port: 80,
        ..Talk::default()
    };
    talk.data(11_000, true, &client.get(1, "/").take());
    talk.data(12_000, false, &server.status(1, "200").data(1, 9, true).take());
    let outcome = talk.analyze();
    assert_eq!(outcome.connections[0].client.port, 80);
    assert_eq!(of(&outcome, 1).response_body_bytes, 9);
}

/// Two streams share the connection; a segment with bytes of one is lost before the capture point, and bytes of the other
/// arrive 40 ms before its retransmission.
#[test]
fn a_lost_segment_of_one_stream_holds_back_the_others() {
    for is_own in [false, true] {
        let (mut client, mut server) = (Writer::client(), Writer::server());
        let mut talk = begun();
        talk.data(
            11_000,
            true,
            &client.get(1, "/a").get(3, "/b").get(5, "/c").take(),
        );
        talk.data(
            20_000,
            false,
            &server.status(1, "200").status(3, "200").status(5, "200").take(),
        );
        let lost_at = talk.next[1];
        let lost = server.data(3, 1400, false).take();
        talk.next[1] += lost.len() as u32;
        let others = if is_own { [3; 4] } else { [5, 1, 5, 1] };
        for (i, stream) in others.into_iter().enumerate() {
            let at = 21_000 + 10_000 * i as u64;
            let behind = server.data(stream, 1400, false).take();
            talk.data(at, false, &behind).ack(at + 100, true, lost_at);
        }
        talk.push(
            61_000,
            Seg {
                from_client: false,
                flags: "PA",
                seq: lost_at,
                ack: talk.next[0],
                payload: &lost,
                ..Seg::default()
            },
        );
        talk.ack_all(61_100, true);
        let outcome = talk.analyze();
        assert_eq!(stopped(&outcome), []);
        let found = outcome.findings.iter().find_map(|f| match &f.kind {
            Kind::HeadOfLineBlocking { lost, waiting } => {
                Some((lost.clone(), waiting.clone(), f.cost.as_millis()))
            }
            _ => None,
        });
        let wanted = (!is_own).then(|| (vec![3], vec![1, 5], 40));
        assert_eq!(found, wanted, "{:?}", outcome.findings);
    }
}

#[test]
fn waits_for_a_window_are_measured_by_stream() {
    let mut server = Writer::server();
    let mut client = Writer {
        encoder: Encoder::new(4096),
        bytes: PREFACE.to_vec(),
    };
    write::settings(&mut client.bytes, &[Setting::InitialWindowSize(1000)]);
    let mut talk = begun();
    talk.data(11_000, true, &client.get(1, "/large").get(3, "/small").take());
    talk.data(
        20_000,
        false,
        &server
            .status(1, "200")
            .data(1, 1000, false)
            .status(3, "200")
            .data(3, 1000, true)
            .take(),
    );
    write::window_update(&mut client.bytes, 1, 500);
    talk.data(60_000, true, &client.take());
    talk.data(61_000, false, &server.data(1, 500, false).take());
    // A larger initial window applies to open streams, too.
    write::settings(&mut client.bytes, &[Setting::InitialWindowSize(5000)]);
    talk.data(71_000, true, &client.take());
    talk.data(72_000, false, &server.data(1, 100, true).take());
    talk.ack_all(73_000, true);
    let outcome = talk.analyze();
    assert_eq!(stopped(&outcome), []);
    assert_eq!(ms(of(&outcome, 1).flow_control), Some(50));
    assert_eq!(ms(of(&outcome, 3).flow_control), Some(0));
    let found: Vec<(u32, u64, u128, &[u64])> = outcome
        .findings
        .iter()
        .filter_map(|f| match f.kind {
            Kind::StreamFlowControl { stream, waits } => {
                Some((stream, waits, f.cost.as_millis(), &*f.packets))
            }
            _ => None,
        })
        .collect();
    assert_eq!(found, [(1, 2, 50, &[5, 6][..])]);
}

#[test]
fn the_window_of_the_connection_holds_back_all_streams_with_content_left() {
    let (mut client, mut server) = (Writer::client(), Writer::server());
    let mut talk = begun();
    talk.data(
        11_000,
        true,
        &client.get(1, "/a").get(3, "/b").get(5, "/c").take(),
    );
    server
        .status(1, "200")
        .data(1, 16_000, false)
        .data(1, 16_000, false);
    server
        .status(3, "200")
        .data(3, 16_000, false)
        .data(3, 16_000, false);
    server.data(1, 1_535, false);
    for (i, part) in server.take().chunks(1400).enumerate() {
        talk.data(20_000 + i as u64, false, part);
    }
    write::window_update(&mut client.bytes, 0, 10_000);
    talk.data(120_000, true, &client.take());
    talk.data(121_000, false, &server.data(1, 10, true).data(3, 10, true).take());
    let outcome = talk.analyze();
    assert_eq!(stopped(&outcome), []);
    for stream in [1, 3] {
        assert_eq!(ms(of(&outcome, stream).flow_control), Some(99), "{stream}");
    }
    assert_eq!(ms(of(&outcome, 5).flow_control), Some(0));
}

#[test]
fn priorities_and_goaway_are_reported() {
    let (mut client, mut server) = (Writer::client(), Writer::server());
    let mut talk = begun();
    let fields = [(":method", "GET"), (":path", "/a"), ("priority", "u=1, i")];
    client.headers(1, &fields, true).get(3, "/b").get(5, "/c");
    write::priority_update(&mut client.bytes, 3, "u=6");
    talk.data(11_000, true, &client.take());
    write::go_away(&mut server.bytes, 3, http2::Code::ENHANCE_YOUR_CALM, "slow down");
    talk.data(12_000, false, &server.take());
    let outcome = talk.analyze();
    let priority = |stream| of(&outcome, stream).priority.as_deref();
    assert_eq!(
        [priority(1), priority(3), priority(5)],
        [Some("u=1, i"), Some("u=6"), None]
    );
    let found = outcome.findings.iter().find_map(|f| match &f.kind {
        Kind::GoAway {
            code,
            last_stream,
            refused,
        } => Some((f.sender, code.as_str(), *last_stream, *refused)),
        _ => None,
    });
    assert_eq!(found, Some((Side::Server, "ENHANCE_YOUR_CALM", 3, 1)));
}

/// The bytes of both ends of a conversation with everything in it.
fn conversation() -> [Vec<u8>; 2] {
    let (mut client, mut server) = (Writer::client(), Writer::server());
    client.get(1, "/a").get(3, "/b").get(5, "/c");
    server.status(1, "200").data(1, 300, false).status(5, "500");
    server.raw(
        kind::DATA,
        flag::PADDED | flag::END_STREAM,
        5,
        &[3, b'x', 0, 0, 0],
    );
    server.raw(kind::PING, 0, 0, &[0; 8]).data(1, 100, true);
    server.raw(kind::RST_STREAM, 0, 3, &7_u32.to_be_bytes());
    client.raw(kind::WINDOW_UPDATE, 0, 0, &[0, 0, 1, 0]);
    [client.take(), server.take()]
}

fn cut(bytes: &[u8], cuts: &[usize], from_client: bool, talk: &mut Talk) {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    for pair in at.windows(2) {
        if pair[0] < pair[1] {
            talk.data(20_000, from_client, &bytes[pair[0]..pair[1]]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Cuts between segments change no figure but the numbers of packets.
    #[test]
    fn cuts_change_nothing(
        client in proptest::collection::vec(any::<usize>(), 0..12),
        server in proptest::collection::vec(any::<usize>(), 0..12),
    ) {
        let read = |cuts: [&[usize]; 2]| {
            let [up, down] = conversation();
            let mut talk = begun();
            cut(&up, cuts[0], true, &mut talk);
            cut(&down, cuts[1], false, &mut talk);
            let outcome = talk.analyze();
            assert_eq!(stopped(&outcome), []);
            let mut transactions = outcome.transactions;
            for one in &mut transactions {
                (one.packets, one.first_packet, one.last_packet) = (0, 0, 0);
            }
            (transactions, outcome.connections[0].http)
        };
        let whole = read([&[], &[]]);
        prop_assert_eq!(whole.0.len(), 3);
        prop_assert_eq!(read([&client, &server]), whole);
    }

    /// Any bytes behind a preface, in any cuts, with segments lost by the capture or by the network.
    #[test]
    fn no_bytes_panic(
        pieces in proptest::collection::vec(
            (any::<bool>(), 0_u8..8, proptest::collection::vec(any::<u8>(), 1..40)),
            0..40,
        ),
        damage in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..4),
        cuts in proptest::collection::vec(any::<usize>(), 0..12),
    ) {
        let mut talk = begun();
        let [mut up, mut down] = conversation();
        for (place, byte) in damage {
            let bytes = if place % 2 == 0 { &mut up } else { &mut down };
            let place = place / 2 % bytes.len();
            if place >= PREFACE.len() || place % 2 == 1 {
                bytes[place] = byte;
            }
        }
        cut(&up, &cuts, true, &mut talk);
        cut(&down, &cuts, false, &mut talk);
        for (i, (from_client, fate, bytes)) in pieces.iter().enumerate() {
            let at = 30_000 + i as u64;
            talk.data(at, *from_client, bytes);
            match fate {
                0 => drop(talk.frames.pop()),
                1 => {
                    let last = talk.frames.len() - 1;
                    talk.frames.swap(last, last - 1);
                }
                2 => drop(talk.ack_all(at, !from_client)),
                _ => {}
            }
        }
        let outcome = talk.analyze();
        prop_assert!(outcome.error.is_none());
        prop_assert_eq!(outcome.connections.len(), 1);
        // A capture whose beginning is whole always has its protocol recognized.
        let http = outcome.connections[0].http;
        prop_assert!(http.is_none_or(|http| http.responses <= http.requests));
    }
}
