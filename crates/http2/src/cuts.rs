//! Properties for arbitrary input, shared by tests and fuzz targets: results do not depend on how the input is split,
//! the output is whole frames, and no message frame follows the end of its stream.

mod hpack;

pub use hpack::{decode as hpack_decode, encode as hpack_encode};

use crate::frame::{self, HEADER, Header, PREFACE, Prelude, SIZE_MIN, flag, kind};
use crate::limits::Limits;
use crate::server::{Connection, Event};
use std::collections::BTreeMap;
use std::sync::Arc;
use units::Instant;

/// Field compression in both directions: [`hpack_decode`] and [`hpack_encode`].
///
/// # Panics
/// As these.
pub fn hpack(data: &[u8]) {
    hpack_decode(data);
    hpack_encode(data);
}

/// Parses every frame of `data`, twice: whole and cut after each byte.
///
/// # Panics
/// If a prefix of a frame is read differently from the frame.
pub fn frames(data: &[u8]) {
    let mut rest = data;
    loop {
        let whole = frame::prelude(rest, SIZE_MIN);
        for cut in 0..rest.len().min(HEADER + 1) {
            let part = frame::prelude(&rest[..cut], SIZE_MIN);
            assert!(
                part == Ok(Prelude::Partial) || part == whole,
                "{part:?} is not {whole:?}"
            );
        }
        let (header, used) = match whole {
            Ok(Prelude::Other(header)) => (header, HEADER),
            Ok(Prelude::Data { header, layout, used }) => {
                let length = layout.content + u32::from(layout.padding);
                assert_eq!(used - HEADER + length as usize, header.length as usize);
                (header, HEADER)
            }
            Ok(Prelude::Partial) | Err(_) => return,
        };
        let Some(payload) = rest.get(used..used + header.length as usize) else {
            return;
        };
        if header.kind != kind::DATA {
            // Faults are results too; the property is that none panics.
            let _ = frame::parse(header, payload);
        }
        rest = &rest[used + payload.len()..];
    }
}

/// Runs a server over `data[1..]`, whole and in pieces of `data[0]` bytes. The server answers each request with a body
/// of 100,000 bytes.
///
/// # Panics
/// If the runs differ, or the output breaks a rule of RFC 9113.
pub fn server(data: &[u8]) {
    let Some((&size, data)) = data.split_first() else {
        return;
    };
    let whole = run(data, data.len().max(1));
    let cut = run(data, usize::from(size).max(1));
    assert_eq!(whole, cut, "the results depend on the pieces");
}

/// Events with their bodies joined, and the bytes written.
fn run(data: &[u8], size: usize) -> (Vec<String>, Vec<u8>) {
    let (now, mut out, mut events) = (Instant::ZERO, Vec::new(), Vec::<String>::new());
    let mut server = Connection::new(Arc::new(Limits::DEFAULT), now, &mut out);
    let settings = Header {
        length: 0,
        kind: kind::SETTINGS,
        flags: 0,
        stream: 0,
    };
    let input = [&PREFACE[..], &settings.bytes(), data].concat();
    let mut bodies = BTreeMap::<u32, usize>::new();
    let (mut begin, mut end, mut closed) = (0, 0, false);
    while end < input.len() && !closed {
        end = input.len().min(end + size);
        loop {
            let received = server.receive(&input[begin..end], now, &mut out);
            begin += received.used;
            match received.event {
                Event::Partial => break,
                Event::Closed(fault) => {
                    events.push(fault.to_string());
                    closed = true;
                    break;
                }
                Event::Body { stream, bytes } => {
                    // Never returned to the windows: the place of WINDOW_UPDATE would depend on the pieces.
                    assert!(!bytes.is_empty(), "a body event is never empty");
                    *bodies.entry(stream).or_default() += bytes.len();
                }
                Event::Request {
                    stream, end, control, ..
                } => {
                    events.push(format!("request {stream} {end} {control:?}"));
                    server
                        .respond(stream, &[0x88], false, &mut out)
                        .expect("a new stream");
                    server.ready(stream, 100_000).expect("its head was sent");
                    server.finish(stream).expect("it is not finished");
                }
                other => events.push(format!("{other:?}")),
            }
        }
    }
    events.push(format!("{bodies:?}"));
    let control = out.clone();
    check(&mut server, now, out);
    (events, control)
}

/// Pulls all bodies and checks the output: frames are whole, windows hold, nothing follows END_STREAM.
fn check(server: &mut Connection, now: Instant, mut out: Vec<u8>) {
    while let Some(piece) = server.next(20_000, now, &mut out) {
        out.resize(out.len() + piece.bytes, 0);
    }
    let (mut rest, mut ended) = (&out[..], Vec::new());
    while let Some(bytes) = rest.first_chunk::<HEADER>() {
        let header = Header::read(bytes);
        assert!(header.length <= 1 << 24);
        rest = &rest[HEADER + header.length as usize..];
        if matches!(header.kind, kind::DATA | kind::HEADERS) {
            assert!(
                !ended.contains(&header.stream),
                "a frame behind the end of a stream"
            );
            if header.has(flag::END_STREAM) {
                ended.push(header.stream);
            }
        } else if header.kind == kind::RST_STREAM {
            ended.push(header.stream);
        }
    }
    assert!(rest.is_empty(), "the output ends with a whole frame");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Frames with plausible headers, so that the state machine is reached.
    fn plausible() -> impl Strategy<Value = Vec<u8>> {
        let get = b"\x82\x87\x84\x41\x01a".to_vec();
        let payload = prop_oneof![
            Just(get.clone()),
            Just(get),
            proptest::collection::vec(any::<u8>(), 0..12),
            (0..4_u32, any::<u8>()).prop_map(|(n, b)| [n.to_be_bytes(), [b, 0, 0, b]].concat()),
            (0..3_000_u32).prop_map(|n| n.to_be_bytes().to_vec()),
        ];
        let one = (0..18_u8, any::<u8>(), 0..12_u32, payload);
        proptest::collection::vec(one, 0..30).prop_map(|list| {
            let mut out = vec![5];
            for (kind, flags, stream, payload) in list {
                let length = payload.len() as u32;
                out.extend(
                    Header {
                        length,
                        kind,
                        flags,
                        stream,
                    }
                    .bytes(),
                );
                out.extend(payload);
            }
            out
        })
    }

    proptest! {
        #[test]
        fn any_frames(data in plausible(), cut in 1..40_u8) {
            let mut data = data;
            data[0] = cut;
            frames(&data[1..]);
            server(&data);
        }

        #[test]
        fn any_bytes(data in proptest::collection::vec(any::<u8>(), 0..200)) {
            frames(&data);
            server(&data);
        }
    }
}
