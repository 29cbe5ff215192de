//! The record layer against itself: what a peer may do and what ends the connection, between the two ends of a real handshake.

use super::*;
use crate::engine::tests::sealed;

/// What `to` reads of these bytes, and what it says in return.
fn read(to: &mut Records, bytes: &[u8]) -> (Result<Opened, Error>, Vec<u8>, Vec<u8>) {
    let (mut plain, mut out) = (Vec::new(), Vec::new());
    let result = to.receive(&mut bytes.to_vec(), &mut plain, &mut out);
    (result, plain, out)
}

/// A record with this content, sealed by `from`.
fn record(from: &mut Records, content: ContentType, plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    from.sealing.seal(content, plain, &mut out).expect("a record");
    out
}

/// A key update by `from`, which uses the next key from then on.
fn key_update(from: &mut Records, asks: bool) -> Vec<u8> {
    let mut out = Vec::new();
    from.update(asks, &mut out).expect("keys");
    out
}

/// The description of the alert in `out`, as the other end reads it.
fn alert(by: &mut Records, out: &[u8]) -> Result<Opened, Error> {
    read(by, out).0
}

#[test]
fn keys_are_replaced_before_they_wear_out() {
    let [mut client, mut server] = sealed();
    server.sealed_max = 3;
    let mut all = Vec::new();
    for n in 0..100_u8 {
        server.send(&[n; 10], &mut all).expect("a record");
    }
    let (result, plain, said) = read(&mut client, &all);
    assert_eq!(result.expect("all is well").used, all.len());
    assert!(said.is_empty(), "update_not_requested needs no answer");
    assert_eq!(plain, (0..100_u8).flat_map(|n| [n; 10]).collect::<Vec<_>>());
    // Sealed by a key that was made 32 times anew.
    assert!(server.sealing.sequence <= 4, "{}", server.sealing.sequence);
}

#[test]
fn a_request_for_new_keys_is_answered_once() {
    let [mut client, mut server] = sealed();
    let mut all = key_update(&mut client, true);
    all.extend(key_update(&mut client, true));
    client.send(b"question", &mut all).expect("a record");
    let (result, plain, mut said) = read(&mut server, &all);
    assert!(result.is_ok());
    assert_eq!(plain, b"question");
    server.send(b"answer", &mut said).expect("a record");
    let (result, plain, silence) = read(&mut client, &said);
    assert!(result.is_ok());
    assert_eq!((plain, silence), (b"answer".to_vec(), Vec::new()));
    // One for both requests: a header, message and content type, a tag.
    assert_eq!(said.len(), (HEADER + 5 + 1 + TAG) + (HEADER + 6 + 1 + TAG));
}

#[test]
fn a_key_update_may_come_in_records_of_a_byte() {
    let [mut client, mut server] = sealed();
    let mut all = Vec::new();
    for byte in [24, 0, 0, 1, 0] {
        all.extend(record(&mut client, ContentType::Handshake, &[byte]));
    }
    client.sealing = Protection::new(client.kernel.next_to_send().expect("keys")).expect("a key");
    client.send(b"after", &mut all).expect("a record");
    let (result, plain, _) = read(&mut server, &all);
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(plain, b"after");
}

#[test]
fn floods_end_the_connection() {
    let [mut client, mut server] = sealed();
    let mut error = None;
    for _ in 0..=u32::from(KEY_UPDATES_MAX) {
        let update = key_update(&mut client, false);
        error = read(&mut server, &update).0.err();
    }
    assert_eq!(error, Some(PeerMisbehaved::TooManyKeyUpdateRequests.into()));
    // Application data between them is no flood.
    let [mut client, mut server] = sealed();
    for _ in 0..100 {
        let mut update = key_update(&mut client, false);
        client.send(b"x", &mut update).expect("a record");
        assert!(read(&mut server, &update).0.is_ok());
    }
    let [mut client, mut server] = sealed();
    let empty: Vec<u8> = (0..=EMPTY_MAX)
        .flat_map(|_| record(&mut client, ContentType::ApplicationData, b""))
        .collect();
    let (result, _, said) = read(&mut server, &empty);
    assert_eq!(result.err(), Some(PeerMisbehaved::TooManyEmptyFragments.into()));
    assert_eq!(
        alert(&mut client, &said),
        Err(Error::AlertReceived(AlertDescription::UnexpectedMessage))
    );
}

#[test]
fn every_changed_bit_is_seen() {
    let [mut client, _] = sealed();
    let good = record(&mut client, ContentType::ApplicationData, b"a request");
    for bit in 0..good.len() * 8 {
        let [mut client, mut server] = sealed();
        let mut bad = record(&mut client, ContentType::ApplicationData, b"a request");
        bad[bit / 8] ^= 1 << (bit % 8);
        // A longer record is one that has not come whole; no more comes.
        bad.resize(bad.len() + FRAGMENT_MAX, 0);
        let (result, plain, said) = read(&mut server, &bad);
        // The version in the header is authenticated, too.
        assert!(result.is_err(), "bit {bit}");
        assert!(plain.is_empty());
        assert!(
            matches!(alert(&mut client, &said), Err(Error::AlertReceived(_))),
            "bit {bit}"
        );
        let mut out = Vec::new();
        assert!(
            server.send(b"more", &mut out).is_err(),
            "nothing follows the alert"
        );
    }
}

#[test]
fn what_does_not_belong_here_is_refused() {
    let refused = |content: ContentType, plain: &[u8]| {
        let [mut client, mut server] = sealed();
        let bytes = record(&mut client, content, plain);
        let (result, _, said) = read(&mut server, &bytes);
        let alert = match alert(&mut client, &said) {
            Err(Error::AlertReceived(alert)) => Some(alert),
            _ => None,
        };
        (result.expect_err("a refusal"), alert)
    };
    use AlertDescription::{DecodeError, UnexpectedMessage};
    // A new ClientHello, a ticket for a server, a Finished.
    for kind in [1, 4, 20] {
        assert_eq!(
            refused(ContentType::Handshake, &[kind, 0, 0, 0]).1,
            Some(UnexpectedMessage),
            "{kind}"
        );
    }
    assert_eq!(
        refused(ContentType::Handshake, &[24, 0, 0, 1, 2]).1,
        Some(DecodeError)
    );
    assert_eq!(refused(ContentType::Handshake, b"").1, Some(DecodeError));
    assert_eq!(
        refused(ContentType::Handshake, &[24, 1, 0, 0]).0,
        InvalidMessage::MessageTooLarge.into()
    );
    // More in the record than the update, which would be under the old key.
    assert_eq!(
        refused(ContentType::Handshake, &[24, 0, 0, 1, 0, 24]).0,
        PeerMisbehaved::KeyEpochWithPendingFragment.into()
    );
    assert_eq!(refused(ContentType::ChangeCipherSpec, &[1]).1, Some(DecodeError));
    assert_eq!(refused(ContentType::Alert, &[2]).1, Some(DecodeError));
    // The peer knows of its own alert.
    let (error, said) = refused(ContentType::Alert, &[2, 40]);
    assert_eq!(
        (error, said),
        (Error::AlertReceived(AlertDescription::HandshakeFailure), None)
    );
    // Records in clear.
    for kind in [20, 21, 22, 99] {
        let [_, mut server] = sealed();
        assert!(read(&mut server, &[kind, 3, 3, 0, 1, 1]).0.is_err(), "{kind}");
    }
    let [_, mut server] = sealed();
    let (result, ..) = read(&mut server, &[23, 3, 3, 0xff, 0xff]);
    assert_eq!(result, Err(Error::PeerSentOversizedRecord), "before it has come");
}

#[test]
fn data_within_a_handshake_message_is_refused() {
    let [mut client, mut server] = sealed();
    let mut all = record(&mut client, ContentType::Handshake, &[24, 0]);
    all.extend(record(&mut client, ContentType::ApplicationData, b"x"));
    assert_eq!(
        read(&mut server, &all).0,
        Err(PeerMisbehaved::MessageInterleavedWithHandshakeMessage.into())
    );
}

#[test]
fn padding_is_no_content() {
    let [mut client, mut server] = sealed();
    // A record whose content ends in zeros, one with padding, one that is nothing but padding.
    let mut all = record(&mut client, ContentType::ApplicationData, b"zeros\0\0");
    let mut padded = b"padded\x17".to_vec();
    padded.extend([0; 500]);
    let raw = |client: &mut Records, inner: &[u8]| {
        // The last byte of what is sealed is the content type: zero here.
        record(client, ContentType::Unknown(0), inner)
    };
    all.extend(raw(&mut client, &padded));
    let (result, plain, _) = read(&mut server, &all);
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(plain, b"zeros\0\0padded");
    let nothing = raw(&mut client, &[0; 20]);
    assert_eq!(
        read(&mut server, &nothing).0,
        Err(PeerMisbehaved::IllegalTlsInnerPlaintext.into())
    );
}

#[test]
fn nothing_follows_close_notify() {
    let [mut client, mut server] = sealed();
    let mut all = Vec::new();
    client.send(b"last", &mut all).expect("a record");
    client.close(&mut all).expect("a close");
    client.close(&mut all).expect("once is enough");
    assert!(client.send(b"more", &mut Vec::new()).is_err());
    let length = all.len();
    all.extend([0xff; 30]);
    let (result, plain, said) = read(&mut server, &all);
    assert_eq!(
        result,
        Ok(Opened {
            used: length + 30,
            closed: true
        })
    );
    assert_eq!((plain, said), (b"last".to_vec(), Vec::new()));
    // The other half goes on.
    let mut answer = Vec::new();
    server.send(b"answer", &mut answer).expect("a record");
    assert_eq!(read(&mut client, &answer).1, b"answer");
}

#[test]
fn records_may_be_cut_anywhere() {
    let [mut client, _] = sealed();
    let mut whole = Vec::new();
    client.send(b"first", &mut whole).expect("a record");
    let first = whole.len();
    client.send(b"second", &mut whole).expect("a record");
    for cut in 0..whole.len() {
        let [mut client, mut server] = sealed();
        let mut all = Vec::new();
        client.send(b"first", &mut all).expect("a record");
        client.send(b"second", &mut all).expect("a record");
        let (result, mut plain, _) = read(&mut server, &all[..cut]);
        let used = result.expect("a part is no fault").used;
        assert_eq!(used, if cut < first { 0 } else { first }, "{cut}");
        let (result, rest, _) = read(&mut server, &all[used..]);
        plain.extend(rest);
        assert_eq!(result.expect("all of it").used, all.len() - used);
        assert_eq!(plain, b"firstsecond");
    }
}
