//! Frames read whole and in pieces; payloads and their sizes; SETTINGS.

use super::*;
use crate::error::{Code, Fault};
use crate::varint;

/// Type, length, payload, and whether the frame ended.
type Read = (u64, u64, Vec<u8>, bool);

/// The frames of `input`, read in pieces of `size` bytes; whether the input ends between frames.
fn read(input: &[u8], size: usize) -> (Vec<Read>, bool) {
    let (mut reader, mut found) = (Reader::default(), Vec::new());
    for piece in input.chunks(size) {
        let mut rest = piece;
        loop {
            let (used, item) = reader.next(rest);
            rest = &rest[used..];
            match item {
                Item::Partial => break,
                Item::Frame { kind, length } => found.push((kind, length, Vec::new(), false)),
                Item::Payload(bytes) => found.last_mut().unwrap().2.extend_from_slice(bytes),
                Item::End => found.last_mut().unwrap().3 = true,
            }
        }
        assert!(rest.is_empty(), "all input is taken");
    }
    (found, reader.is_between())
}

#[test]
fn frames_do_not_depend_on_the_pieces() {
    let mut input = Vec::new();
    write::frame(kind::DATA, b"hello", &mut input);
    write::frame(kind::HEADERS, b"", &mut input);
    // Integers longer than they need be.
    input.extend_from_slice(&[0xc0, 0, 0, 0, 0, 0, 0, 0x21, 0xc0, 0, 0, 0, 0, 0, 0, 2, 1, 2]);
    write::go_away(1 << 40, &mut input);
    input.extend_from_slice(&[0x40]);
    let (whole, between) = read(&input, input.len());
    assert!(!between, "a byte of the next frame has come");
    assert_eq!(whole.len(), 4);
    assert_eq!(whole[0], (kind::DATA, 5, b"hello".to_vec(), true));
    assert_eq!(whole[1], (kind::HEADERS, 0, Vec::new(), true));
    assert_eq!(whole[2], (0x21, 2, vec![1, 2], true));
    for size in 1..input.len() {
        assert_eq!(read(&input, size), (whole.clone(), false), "{size}");
    }
    assert!(read(&input[..input.len() - 1], 3).1);
}

#[test]
fn a_frame_of_any_length_takes_no_memory() {
    let mut input = Vec::new();
    write::header(kind::DATA, varint::MAX, &mut input);
    input.extend_from_slice(&[7; 100]);
    let (found, between) = read(&input, 7);
    assert_eq!((found[0].1, found[0].2.len(), between), (varint::MAX, 100, false));
    assert!(size_of::<Reader>() <= 24, "{}", size_of::<Reader>());
}

#[test]
fn payloads_and_their_sizes() {
    let frame = |kind, payload| control(kind, payload);
    for kind in [kind::GOAWAY, kind::MAX_PUSH_ID, kind::CANCEL_PUSH] {
        for payload in [&[][..], &[0x40], &[1, 2]] {
            let result = frame(kind, payload);
            assert!(
                matches!(result, Err(Fault::Connection(Code::FRAME_ERROR, _))),
                "{kind:#x} {payload:?}"
            );
        }
    }
    assert_eq!(frame(kind::GOAWAY, &[8]), Ok(Some(Control::GoAway(8))));
    assert_eq!(frame(kind::MAX_PUSH_ID, &[8]), Ok(Some(Control::MaxPushId(8))));
    assert_eq!(frame(kind::CANCEL_PUSH, &[8]), Ok(Some(Control::CancelPush(8))));
    let update = Control::PriorityUpdate {
        stream: 4,
        value: b"u=1",
    };
    assert_eq!(frame(kind::PRIORITY_UPDATE, b"\x04u=1"), Ok(Some(update)));
    assert_eq!(
        frame(kind::PRIORITY_UPDATE_PUSH, b"\x04u=1"),
        Ok(Some(Control::PriorityUpdatePush(4)))
    );
    assert!(frame(kind::PRIORITY_UPDATE, b"\x40").is_err());
    assert_eq!(frame(0x21, b"x"), Ok(None));
    let mut out = Vec::new();
    write::priority_update(4, "u=1", &mut out);
    assert_eq!(out, b"\x80\x0f\x07\x00\x04\x04u=1");
}

#[test]
fn settings() {
    let code = |payload: &[u8]| match Settings::parse(payload) {
        Err(Fault::Connection(code, _)) => Some(code),
        Err(Fault::Stream(..)) => panic!("SETTINGS have no stream"),
        Ok(_) => None,
    };
    let expected = Settings {
        table_capacity: 4_096,
        section_size: 1 << 40,
        blocked_streams: 16,
    };
    let mut out = Vec::new();
    write::settings(expected, &mut out);
    assert_eq!(Settings::parse(&out[2..]), Ok(expected));
    assert_eq!(Settings::parse(&[]), Ok(Settings::default()));
    assert_eq!(
        code(&[0x21, 1, 0x40, 0x5f, 1]),
        None,
        "unknown settings are ignored"
    );
    for reserved in [0, 2, 3, 4, 5] {
        assert_eq!(code(&[reserved, 0]), Some(Code::SETTINGS_ERROR), "{reserved}");
    }
    assert_eq!(code(&[6, 1, 6, 1]), Some(Code::SETTINGS_ERROR), "twice");
    assert_eq!(
        code(&[0x21, 1, 1, 1, 0x21, 2]),
        Some(Code::SETTINGS_ERROR),
        "an unknown one twice"
    );
    for cut in [&[6][..], &[6, 0x40], &[0x40]] {
        assert_eq!(code(cut), Some(Code::FRAME_ERROR), "{cut:?}");
    }
}
