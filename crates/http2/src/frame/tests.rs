//! Layouts against bytes written by hand from RFC 9113, and every size rule with its code.

use super::*;
use crate::error::{Code, Fault};

fn raw(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Header {
        length: payload.len() as u32,
        kind,
        flags,
        stream,
    }
    .bytes()
    .to_vec();
    bytes.extend_from_slice(payload);
    bytes
}

fn code(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Result<(), (bool, Code)> {
    let bytes = raw(kind, flags, stream, payload);
    let result = match prelude(&bytes, SIZE_MIN) {
        Ok(Prelude::Other(header)) => parse(header, payload).map(|_| ()),
        Ok(Prelude::Data { .. }) => Ok(()),
        Ok(Prelude::Partial) => panic!("{kind}: the frame is whole"),
        Err(fault) => Err(fault),
    };
    result.map_err(|fault| match fault {
        Fault::Connection(code, _) => (true, code),
        Fault::Stream(id, code, _) => {
            assert_eq!(id, stream);
            (false, code)
        }
    })
}

#[test]
fn a_push_promise_names_its_stream_and_its_fragment() {
    let header = |flags, length| Header {
        length,
        kind: kind::PUSH_PROMISE,
        flags,
        stream: 1,
    };
    let promise = Frame::PushPromise {
        promised: 2,
        fragment: b"ab",
    };
    assert_eq!(parse(header(0, 6), b"\x80\0\0\x02ab"), Ok(promise));
    assert_eq!(parse(header(flag::PADDED, 8), b"\x01\0\0\0\x02ab\0"), Ok(promise));
    for (payload, code) in [
        (&b"\0\0\0"[..], Code::FRAME_SIZE_ERROR),
        (b"", Code::FRAME_SIZE_ERROR),
        (b"\x02\0\0\0\x02a", Code::PROTOCOL_ERROR),
    ] {
        let flags = if payload.len() == 3 { 0 } else { flag::PADDED };
        let result = parse(header(flags, payload.len() as u32), payload);
        assert!(
            matches!(result, Err(Fault::Connection(found, _)) if found == code),
            "{payload:?}"
        );
    }
}

#[test]
fn written_bytes_are_those_of_the_rfc() {
    let mut out = Vec::new();
    write::ping(&mut out, true, *b"12345678");
    assert_eq!(out, b"\0\0\x08\x06\x01\0\0\0\x0012345678");
    out.clear();
    write::settings(
        &mut out,
        &[
            Setting::NoRfc7540Priorities(true),
            Setting::MaxConcurrentStreams(128),
        ],
    );
    assert_eq!(out, b"\0\0\x0c\x04\0\0\0\0\0\0\x09\0\0\0\x01\0\x03\0\0\0\x80");
    out.clear();
    write::data(&mut out, 0x0102_0304, 0x0506, true);
    assert_eq!(out, b"\0\x05\x06\0\x01\x01\x02\x03\x04");
    out.clear();
    write::go_away(&mut out, 7, Code::CANCEL, "bye");
    assert_eq!(out, b"\0\0\x0b\x07\0\0\0\0\0\0\0\0\x07\0\0\0\x08bye");
    out.clear();
    write::priority_update(&mut out, 5, "u=1");
    assert_eq!(out, b"\0\0\x07\x10\0\0\0\0\0\0\0\0\x05u=1");
}

#[test]
fn every_rule_on_sizes_and_stream_numbers() {
    let size = Err((true, Code::FRAME_SIZE_ERROR));
    let protocol = Err((true, Code::PROTOCOL_ERROR));
    let long = vec![0; SIZE_MIN as usize + 1];
    for kind in 0..=0xff {
        assert_eq!(code(kind, 0, 1, &long), size, "{kind}");
    }
    for (kind, length) in [(kind::RST_STREAM, 4), (kind::PING, 8), (kind::WINDOW_UPDATE, 4)] {
        let stream = u32::from(kind != kind::PING);
        for bytes in 0..12 {
            let expected = if bytes == length { Ok(()) } else { size };
            assert_eq!(code(kind, 0, stream, &long[..bytes]), expected, "{kind} {bytes}");
        }
    }
    for bytes in 0..12 {
        let expected = if bytes == 5 {
            Ok(())
        } else {
            Err((false, Code::FRAME_SIZE_ERROR))
        };
        assert_eq!(code(kind::PRIORITY, 0, 3, &long[..bytes]), expected);
        let expected = if bytes >= 8 { Ok(()) } else { size };
        assert_eq!(code(kind::GOAWAY, 0, 0, &long[..bytes]), expected);
        let expected = if bytes % 6 == 0 { Ok(()) } else { size };
        assert_eq!(code(kind::SETTINGS, 0, 0, &long[..bytes]), expected);
        let expected = if bytes == 0 { Ok(()) } else { size };
        assert_eq!(code(kind::SETTINGS, flag::ACK, 0, &long[..bytes]), expected);
    }
    assert_eq!(code(kind::PRIORITY_UPDATE, 0, 0, &[0, 0, 0]), size);
    assert_eq!(code(kind::PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 0]), protocol);
    assert_eq!(code(kind::PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 1]), Ok(()));
    for kind in [
        kind::DATA,
        kind::HEADERS,
        kind::PRIORITY,
        kind::RST_STREAM,
        kind::PUSH_PROMISE,
        kind::CONTINUATION,
    ] {
        assert_eq!(code(kind, 0, 0, &[0; 5]), protocol, "{kind}");
    }
    for kind in [kind::SETTINGS, kind::PING, kind::GOAWAY, kind::PRIORITY_UPDATE] {
        assert_eq!(code(kind, 0, 1, &[1; 8]), protocol, "{kind}");
    }
    for kind in [kind::DATA, kind::HEADERS] {
        assert_eq!(code(kind, flag::PADDED, 1, &[]), size, "{kind}");
        assert_eq!(code(kind, flag::PADDED, 1, &[2, 0]), protocol, "{kind}");
        assert_eq!(code(kind, flag::PADDED, 1, &[2, 0, 0]), Ok(()), "{kind}");
    }
    assert_eq!(code(kind::HEADERS, flag::PRIORITY, 1, &[0; 4]), size);
    assert_eq!(
        code(0x77, 0xff, 9, &[1, 2, 3]),
        Ok(()),
        "unknown types are skipped"
    );
}

#[test]
fn headers_lose_padding_and_priority() {
    let payload = b"\x02\x80\0\0\x05\x10blockpp";
    let bytes = raw(kind::HEADERS, flag::PADDED | flag::PRIORITY, 0x8000_0003, payload);
    let Ok(Prelude::Other(header)) = prelude(&bytes, SIZE_MIN) else {
        panic!("a header");
    };
    assert_eq!(header.stream, 3, "the reserved bit is ignored");
    let expected = Frame::Headers {
        fragment: b"block",
        depends: Some(5),
    };
    assert_eq!(parse(header, payload), Ok(expected));
}

#[test]
fn data_is_known_from_its_first_bytes() {
    let bytes = raw(kind::DATA, flag::PADDED | flag::END_STREAM, 1, b"\x03contentppp");
    for cut in 0..10 {
        assert_eq!(prelude(&bytes[..cut], SIZE_MIN), Ok(Prelude::Partial), "{cut}");
    }
    for cut in 10..bytes.len() {
        let Ok(Prelude::Data { layout, used, .. }) = prelude(&bytes[..cut], SIZE_MIN) else {
            panic!("the layout is known after ten bytes, not after {cut}");
        };
        assert_eq!(
            (layout, used),
            (
                Padded {
                    content: 7,
                    padding: 3
                },
                10
            )
        );
    }
}

#[test]
fn settings_are_checked_one_by_one() {
    use Setting::*;
    let flow = Err(Code::FLOW_CONTROL_ERROR);
    let protocol = Err(Code::PROTOCOL_ERROR);
    for (id, value, expected) in [
        (1, u32::MAX, Ok(HeaderTableSize(u32::MAX))),
        (2, 2, protocol),
        (2, 1, Ok(EnablePush(true))),
        (3, 0, Ok(MaxConcurrentStreams(0))),
        (4, WINDOW_MAX, Ok(InitialWindowSize(WINDOW_MAX))),
        (4, WINDOW_MAX + 1, flow),
        (5, SIZE_MIN - 1, protocol),
        (5, SIZE_MAX, Ok(MaxFrameSize(SIZE_MAX))),
        (5, SIZE_MAX + 1, protocol),
        (6, 9, Ok(MaxHeaderListSize(9))),
        (8, 2, protocol),
        (9, 2, protocol),
        (0x4a4a, 2, Ok(Unknown(0x4a4a, 2))),
    ] {
        let got = Setting::of(id, value).map_err(|fault| match fault {
            Fault::Connection(code, _) | Fault::Stream(_, code, _) => code,
        });
        assert_eq!(got, expected, "{id} {value}");
        if let Ok(setting) = got {
            assert_eq!(setting.pair(), (id, value));
        }
    }
}

#[test]
fn long_blocks_continue() {
    for (length, frames) in [(0, 1), (10, 1), (11, 2), (20, 2), (21, 3)] {
        let block: Vec<u8> = (0..length).collect();
        let mut out = Vec::new();
        write::headers(&mut out, 1, &block, true, 10);
        let (mut rest, mut found, mut joined) = (&out[..], 0, Vec::new());
        while !rest.is_empty() {
            let Ok(Prelude::Other(header)) = prelude(rest, SIZE_MIN) else {
                panic!("a header");
            };
            let end = HEADER + header.length as usize;
            match parse(header, &rest[HEADER..end]) {
                Ok(Frame::Headers { fragment, .. }) => {
                    assert!(found == 0 && header.has(flag::END_STREAM));
                    joined.extend_from_slice(fragment);
                }
                Ok(Frame::Continuation(fragment)) => joined.extend_from_slice(fragment),
                other => panic!("{other:?}"),
            }
            found += 1;
            rest = &rest[end..];
            assert_eq!(header.has(flag::END_HEADERS), rest.is_empty());
        }
        assert_eq!((found, joined), (frames, block));
    }
}
