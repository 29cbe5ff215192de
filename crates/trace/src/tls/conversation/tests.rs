//! Conversations between OpenSSL's `s_client` and `s_server`, recorded by a relay: each line of a file is what one
//! `recv` returned. Bytes beyond 2400 per direction are left out.

use super::*;
use units::Instant;

const FULL_13: &str = include_str!("../../../testdata/tls/tls13.txt");
const RESUMED_13: &str = include_str!("../../../testdata/tls/tls13_resumed.txt");
const RETRY_13: &str = include_str!("../../../testdata/tls/tls13_retry.txt");
const FULL_12: &str = include_str!("../../../testdata/tls/tls12.txt");
const RESUMED_12: &str = include_str!("../../../testdata/tls/tls12_resumed.txt");
const REFUSED: &str = include_str!("../../../testdata/tls/refused.txt");

/// Pieces of a recording, one millisecond apart.
fn pieces(text: &str) -> Vec<(Side, Instant, Vec<u8>)> {
    let piece = |(n, line): (usize, &str)| {
        let (who, hex) = line.split_once(' ').expect(line);
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect(line);
        let side = match who {
            "client" => Side::Client,
            _ => Side::Server,
        };
        let at = Instant::ZERO + Duration::from_millis(n as u64);
        (side, at, (0..hex.len()).step_by(2).map(byte).collect())
    };
    text.lines().enumerate().map(piece).collect()
}

/// Gives a conversation a piece without any secret.
fn read(conversation: &mut Conversation, side: Side, at: Instant, bytes: &[u8]) {
    let mut contents = Vec::new();
    conversation.bytes(
        side,
        ((at, 1), (at, 1)),
        bytes,
        &Keyring::default(),
        &mut contents,
    );
    assert!(
        !contents
            .iter()
            .any(|(_, content)| matches!(content, Content::Plain(..)))
    );
}

fn facts(text: &str) -> Tls {
    let mut conversation = Conversation::new(false);
    for (side, at, bytes) in pieces(text) {
        read(&mut conversation, side, at, &bytes);
    }
    assert!(!conversation.is_opaque());
    conversation.facts().clone()
}

fn chosen(facts: &Tls) -> &ServerHello {
    facts.server.as_ref().expect("a ServerHello")
}

#[test]
fn a_full_handshake_of_tls_1_3() {
    let facts = facts(FULL_13);
    let client = facts.client.as_ref().expect("a ClientHello");
    assert_eq!(client.server_name.as_deref(), Some("example.org"));
    assert_eq!(client.alpn, ["h2", "http/1.1"]);
    assert_eq!(client.versions.first(), Some(&0x0304));
    assert_eq!(client.groups, [0x001d]);
    let server = chosen(&facts);
    assert_eq!((server.version, server.cipher_suite), (0x0304, 0x1302));
    assert_eq!(server.group, Some(0x001d));
    assert_eq!((facts.resumption, facts.retried), (None, false));
    assert!(!facts.certificate_seen);
    assert_eq!(facts.alerts, []);
    // ClientHello, the server's flight, the client's Finished.
    assert_eq!(facts.handshake, Some(Duration::from_millis(2)));
}

#[test]
fn resumed_sessions_are_known_as_such() {
    assert_eq!(facts(RESUMED_13).resumption, Some(Resumption::Psk));
    assert_eq!(facts(RESUMED_12).resumption, Some(Resumption::Ticket));
    assert!(!facts(RESUMED_12).certificate_seen);
}

#[test]
fn a_hello_retry_request_is_no_choice() {
    let facts = facts(RETRY_13);
    assert!(facts.retried);
    assert_eq!(chosen(&facts).group, Some(0x0017));
    assert!(!chosen(&facts).is_retry);
    // Two more flights than without.
    assert_eq!(facts.handshake, Some(Duration::from_millis(4)));
}

#[test]
fn a_full_handshake_of_tls_1_2() {
    let facts = facts(FULL_12);
    assert_eq!(chosen(&facts).version, 0x0303);
    assert_eq!(chosen(&facts).alpn.as_deref(), Some("http/1.1"));
    assert_eq!(facts.resumption, None);
    assert!(facts.certificate_seen);
    assert_eq!(facts.handshake, Some(Duration::from_millis(2)));
}

#[test]
fn an_alert_in_clear_names_the_refusal() {
    let facts = facts(REFUSED);
    assert_eq!(facts.server, None);
    assert_eq!(facts.handshake, None);
    let alert = facts.alerts[0];
    // protocol_version (RFC 8446, section 6).
    assert_eq!(
        (alert.sender, alert.fatal, alert.description),
        (Side::Server, true, 70)
    );
}

#[test]
fn segments_of_one_byte_tell_the_same() {
    for text in [FULL_13, RESUMED_13, RETRY_13, FULL_12, RESUMED_12, REFUSED] {
        let mut conversation = Conversation::new(false);
        for (side, at, bytes) in pieces(text) {
            bytes
                .iter()
                .for_each(|byte| read(&mut conversation, side, at, &[*byte]));
        }
        assert_eq!(*conversation.facts(), facts(text));
    }
}

#[test]
fn a_lost_server_hello_leaves_the_choice_unknown() {
    let mut conversation = Conversation::new(false);
    for (n, (side, at, bytes)) in pieces(FULL_13).into_iter().enumerate() {
        match n {
            1 => conversation.gap(
                side,
                (at, 1),
                bytes.len() as u64,
                &Keyring::default(),
                &mut Vec::new(),
            ),
            _ => read(&mut conversation, side, at, &bytes),
        }
    }
    assert_eq!(conversation.facts().server, None);
    assert!(conversation.facts().client.is_some());
    assert!(!conversation.is_opaque());
}

#[test]
fn hellos_cut_short_are_errors_and_never_panic() {
    let all = pieces(FULL_13);
    // Record header (5) and message header (4) precede the body.
    let body = &all[0].2[9..];
    assert!(ClientHello::parse(body).is_ok());
    for cut in 0..body.len() {
        let cuts_extensions = ClientHello::parse(&body[..cut]);
        // A hello may end before its extensions; nowhere else.
        if let Ok(hello) = cuts_extensions {
            assert_eq!(hello.server_name, None, "{cut}");
        }
    }
}

#[test]
fn a_message_larger_than_the_limit_is_skipped() {
    let mut conversation = Conversation::new(false);
    let header = [22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff];
    let at = Instant::ZERO;
    read(&mut conversation, Side::Client, at, &header);
    read(&mut conversation, Side::Client, at, &[0; (1 << 14) - 4]);
    assert_eq!(conversation.facts().client, None);
    assert!(conversation.halves[0].message.is_empty());
    assert_eq!(conversation.halves[0].skip.1, 0x00ff_ffff - ((1 << 14) - 4));
}

#[test]
fn damaged_conversations_keep_what_the_fuzz_target_checks() {
    for text in [FULL_13, RESUMED_12, RETRY_13] {
        // Secrets for the target's own ciphers, which open every other record.
        let random = facts(text).client.map(|hello| hello.random).unwrap_or_default();
        let random: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let labels = [
            "CLIENT_RANDOM",
            "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
            "SERVER_HANDSHAKE_TRAFFIC_SECRET",
            "CLIENT_TRAFFIC_SECRET_0",
            "SERVER_TRAFFIC_SECRET_0",
        ];
        let mut data = Vec::new();
        for label in labels {
            let line = format!("{label} {random} 00\n");
            data.extend_from_slice(&[4, line.len() as u8]);
            data.extend_from_slice(line.as_bytes());
        }
        for (side, _, bytes) in pieces(text) {
            for part in bytes.chunks(255) {
                data.extend_from_slice(&[side as u8, part.len() as u8]);
                data.extend_from_slice(part);
            }
        }
        for at in (0..data.len()).step_by(7) {
            let mut damaged = data.clone();
            damaged[at] ^= 1 << (at % 8);
            crate::fuzz_tls(&damaged);
        }
    }
}

#[test]
fn a_connection_beyond_the_budget_is_given_up_and_holds_nothing() {
    let mut conversation = Conversation::new(false);
    let mut budget = Budget {
        segments: 0,
        bytes: 200,
        refused: 0,
    };
    let at = (Instant::ZERO, 1);
    // The beginning of a ClientHello that is longer than the budget.
    let hello = &pieces(FULL_13)[0].2;
    assert!(hello.len() > 300);
    for byte in &hello[..300] {
        let mut contents = Vec::new();
        conversation.bytes(
            Side::Client,
            (at, at),
            &[*byte],
            &Keyring::default(),
            &mut contents,
        );
        conversation.charge(Side::Client, at, &mut budget, &mut contents);
    }
    assert!(conversation.is_opaque());
    assert_eq!(budget.bytes, 200);
    assert_eq!(conversation.halves[0].records.memory(), 0);
}

#[test]
fn a_connection_at_rest_holds_no_record() {
    let mut conversation = Conversation::new(false);
    let at = (Instant::ZERO, 1);
    let mut record = vec![22, 3, 1, 0x40, 0, 11, 0, 0x3f, 0xfc];
    record.resize(5 + 0x4000, 0);
    for piece in record.chunks(1000) {
        read(&mut conversation, Side::Client, at.0, piece);
    }
    assert!(conversation.halves[0].records.memory() <= 1024);
}
