//! Floods as bytes: what a hostile client sends. Knows only frames, so that the tests over sockets send the same.

use ::http2::frame::{HEADER, Header, PREFACE, Setting, WINDOW_MAX, flag, kind, write};
use ::http2::hpack::block;
use ::http2::{Code, priority::Priority};

/// Rounds that are enough for every limit.
pub(super) const ROUNDS: u32 = 5_000;

/// How a flood ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// GOAWAY with this code.
    With(Code),
    /// It is borne: each request is answered, and so is the next.
    Borne,
}

/// A flood.
pub(super) struct Flood {
    pub(super) name: &'static str,
    /// Writes what comes first, behind preface and SETTINGS.
    start: fn(&mut Vec<u8>),
    /// Writes one round; the number counts from 0.
    round: fn(u32, &mut Vec<u8>),
    pub(super) ends: Ends,
}

impl Flood {
    /// The bytes from the preface to the last round.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut out = PREFACE.to_vec();
        write::settings(&mut out, &[]);
        write::settings_ack(&mut out);
        // The answers that come are taken.
        write::window_update(&mut out, 0, 1 << 24);
        (self.start)(&mut out);
        for number in 0..ROUNDS {
            (self.round)(number, &mut out);
        }
        out
    }
}

/// Any frame.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    let length = payload.len() as u32;
    let header = Header {
        length,
        kind,
        flags,
        stream,
    };
    out.extend(header.bytes());
    out.extend(payload);
}

/// The stream of a round, behind the one that `start` may open.
fn stream(number: u32) -> u32 {
    2 * number + 3
}

/// The pseudo-fields of a request.
fn request(path: &str) -> Vec<u8> {
    let mut head = Vec::new();
    for (name, value) in [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", path),
    ] {
        block::field(name.as_bytes(), value.as_bytes(), &mut head);
    }
    head
}

/// A whole request for `path`, with `more` behind its fields.
pub(super) fn ask(stream: u32, path: &str, more: &[u8], out: &mut Vec<u8>) {
    let head = [&request(path)[..], more].concat();
    write::headers(out, stream, &head, true, 1 << 14);
}

/// A request on stream 1 whose body is awaited.
fn open(out: &mut Vec<u8>) {
    write::headers(out, 1, &request("/"), false, 1 << 14);
}

fn nothing(_: &mut Vec<u8>) {}

/// The beginning of a field block that goes on.
fn unfinished(out: &mut Vec<u8>) {
    frame(kind::HEADERS, flag::END_STREAM, 1, &request("/"), out);
}

/// A field of 4,000 bytes enters the dynamic table, as its newest entry.
fn large_entry(out: &mut Vec<u8>) {
    let mut field = vec![0x40, 1, b'x', 0x7f, 0xa1, 0x1e];
    field.resize(field.len() + 4_000, b'y');
    ask(1, "/", &field, out);
}

/// A crumb of a cookie enters the dynamic table.
fn crumb(out: &mut Vec<u8>) {
    ask(1, "/", b"\x60\x03a=b", out);
}

/// The floods.
pub(super) const FLOODS: &[Flood] = {
    const CALM: Ends = Ends::With(Code::ENHANCE_YOUR_CALM);
    &[
        Flood {
            name: "rapid reset (CVE-2023-44487)",
            start: nothing,
            round: |n, out| {
                ask(stream(n), "/", &[], out);
                write::reset(out, stream(n), Code::CANCEL);
            },
            ends: CALM,
        },
        Flood {
            name: "resets while jobs are under way",
            start: nothing,
            round: |n, out| {
                ask(stream(n), &format!("/nothing/{n}"), &[], out);
                write::reset(out, stream(n), Code::CANCEL);
            },
            ends: CALM,
        },
        Flood {
            name: "MadeYouReset (CVE-2025-8671): WINDOW_UPDATE by 0",
            start: nothing,
            round: |n, out| {
                ask(stream(n), &format!("/nothing/{n}"), &[], out);
                write::window_update(out, stream(n), 0);
            },
            ends: CALM,
        },
        Flood {
            name: "MadeYouReset: a window beyond 2^31-1",
            start: nothing,
            round: |n, out| {
                ask(stream(n), &format!("/nothing/{n}"), &[], out);
                write::window_update(out, stream(n), WINDOW_MAX);
            },
            ends: CALM,
        },
        Flood {
            name: "MadeYouReset: malformed requests",
            start: nothing,
            round: |n, out| write::headers(out, stream(n), b"\x82", true, 1 << 14),
            ends: CALM,
        },
        Flood {
            name: "CONTINUATION",
            start: unfinished,
            round: |_, out| frame(kind::CONTINUATION, 0, 1, b"\x88", out),
            ends: CALM,
        },
        Flood {
            name: "CONTINUATION without content",
            start: unfinished,
            round: |_, out| frame(kind::CONTINUATION, 0, 1, &[], out),
            ends: CALM,
        },
        Flood {
            name: "CONTINUATION of 16 KiB",
            start: unfinished,
            round: |n, out| {
                frame(
                    kind::CONTINUATION,
                    0,
                    1,
                    &[0x88; 1 << 14][..(1 << 14) * usize::from(n < 100)],
                    out,
                )
            },
            ends: CALM,
        },
        Flood {
            name: "SETTINGS",
            start: nothing,
            round: |n, out| write::settings(out, &[Setting::InitialWindowSize(n)]),
            ends: CALM,
        },
        Flood {
            name: "acknowledgments of SETTINGS",
            start: nothing,
            round: |_, out| write::settings_ack(out),
            ends: CALM,
        },
        Flood {
            name: "PING",
            start: nothing,
            round: |_, out| write::ping(out, false, [7; 8]),
            ends: CALM,
        },
        Flood {
            name: "PRIORITY",
            start: nothing,
            round: |n, out| frame(kind::PRIORITY, 0, stream(n), &[0; 5], out),
            ends: CALM,
        },
        Flood {
            name: "PRIORITY_UPDATE",
            start: nothing,
            round: |n, out| write::priority_update(out, stream(n), Priority::DEFAULT.value()),
            ends: CALM,
        },
        Flood {
            name: "DATA without content",
            start: open,
            round: |_, out| frame(kind::DATA, 0, 1, &[], out),
            ends: CALM,
        },
        Flood {
            name: "unknown frames",
            start: nothing,
            round: |_, out| frame(0x77, 0, 0, &[], out),
            ends: CALM,
        },
        Flood {
            name: "WINDOW_UPDATE by 1",
            start: nothing,
            round: |_, out| write::window_update(out, 0, 1),
            ends: CALM,
        },
        Flood {
            name: "HPACK bomb: 12 MB in 3,000 bytes",
            start: large_entry,
            round: |n, out| {
                if n < 200 {
                    ask(stream(n), "/", &[0xbe; 3_000], out);
                }
            },
            ends: Ends::Borne,
        },
        Flood {
            name: "a cookie in 3,000 crumbs",
            start: crumb,
            round: |n, out| {
                if n < 200 {
                    ask(stream(n), "/", &[0xbe; 3_000], out);
                }
            },
            ends: Ends::Borne,
        },
    ]
};

/// The frames of an output: type, stream, payload.
pub(super) fn frames(mut out: &[u8]) -> Vec<(u8, u32, &[u8])> {
    let mut found = Vec::new();
    while let Some(header) = out.first_chunk::<HEADER>() {
        let header = Header::read(header);
        let Some(payload) = out.get(HEADER..HEADER + header.length as usize) else {
            break;
        };
        found.push((header.kind, header.stream, payload));
        out = &out[HEADER + payload.len()..];
    }
    found
}

/// The code of the GOAWAY in an output.
pub(super) fn left(out: &[u8]) -> Option<Code> {
    let (_, _, payload) = frames(out)
        .into_iter()
        .rfind(|(kind, ..)| *kind == kind::GOAWAY)?;
    Some(Code(u32::from_be_bytes(*payload[4..].first_chunk()?)))
}
