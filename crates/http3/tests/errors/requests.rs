//! The order of frames on request streams (RFC 9114 sections 4.1 and 7.2), their ends, and limits.

use crate::*;

#[test]
fn frames_of_a_request() {
    let stream = |frames: &[Vec<u8>]| [Send(0, frames.concat())];
    let whole = |frames: &[Vec<u8>]| [Fin(0, frames.concat())];
    let trailers = headers("a=b");
    check(
        Ours::Server,
        &[
            (&whole(&[get()]), ""),
            (&whole(&[get(), data(b"abc"), data(b""), trailers.clone()]), ""),
            // Unknown frames are ignored everywhere.
            (
                &whole(&[
                    frame(0x21, b"x"),
                    get(),
                    frame(0x21, b"x"),
                    trailers.clone(),
                    frame(0x21, &[7; 40_000]),
                ]),
                "",
            ),
            (&stream(&[data(b"abc")]), "connection H3_FRAME_UNEXPECTED"),
            (
                &stream(&[get(), trailers.clone(), data(b"")]),
                "connection H3_FRAME_UNEXPECTED",
            ),
            (
                &stream(&[get(), trailers.clone(), trailers.clone()]),
                "connection H3_FRAME_UNEXPECTED",
            ),
            (
                &stream(&[headers(":method=CONNECT :authority=a:1"), trailers.clone()]),
                "connection H3_FRAME_UNEXPECTED",
            ),
            (
                &whole(&[headers(":method=CONNECT :authority=a:1"), data(b"x")]),
                "",
            ),
            (
                &stream(&[get(), frame(5, &[0])]),
                "connection H3_FRAME_UNEXPECTED",
            ),
            (&[Fin(0, vec![0])], "connection H3_FRAME_ERROR"),
            (&[Fin(0, get()[..9].to_vec())], "connection H3_FRAME_ERROR"),
            (&whole(&[get(), vec![0, 2, 1]]), "connection H3_FRAME_ERROR"),
            (
                &whole(&[]),
                "reset 0 H3_REQUEST_INCOMPLETE, stop 0 H3_REQUEST_INCOMPLETE",
            ),
            (
                &whole(&[frame(0x21, b"x")]),
                "reset 0 H3_REQUEST_INCOMPLETE, stop 0 H3_REQUEST_INCOMPLETE",
            ),
            (&[Send(0, get()), Reset(0)], "reset 0 H3_REQUEST_CANCELLED"),
            (
                &[Send(0, get()), Stop(0)],
                "reset 0 H3_NO_ERROR, stop 0 H3_REQUEST_CANCELLED",
            ),
            (&[Fin(0, get()), Stop(0)], "reset 0 H3_NO_ERROR"),
        ],
    );
    for kind in [2, 3, 4, 6, 7, 8, 9, 0xd, 0xf0700, 0xf0701] {
        for frames in [stream(&[frame(kind, &[0])]), stream(&[get(), frame(kind, &[0])])] {
            check(Ours::Server, &[(&frames, "connection H3_FRAME_UNEXPECTED")]);
            check(
                Ours::Client,
                &[(&stream(&[frame(kind, &[0])]), "connection H3_FRAME_UNEXPECTED")],
            );
        }
    }
}

#[test]
fn frames_of_a_response() {
    let early = headers(":status=103");
    check(
        Ours::Client,
        &[
            (
                &[Fin(
                    0,
                    [early.clone(), ok(), data(b"abc"), headers("a=b")].concat(),
                )],
                "",
            ),
            (&[Send(0, data(b"abc"))], "connection H3_FRAME_UNEXPECTED"),
            (
                &[Send(0, [early.clone(), data(b"abc")].concat())],
                "connection H3_FRAME_UNEXPECTED",
            ),
            (
                &[Send(0, [ok(), frame(5, &[0])].concat())],
                "connection H3_ID_ERROR",
            ),
            // The requests were sent: only the peer's half is open.
            (&[Fin(0, vec![])], "stop 0 H3_MESSAGE_ERROR"),
            (&[Fin(0, early.clone())], "stop 0 H3_MESSAGE_ERROR"),
            (&[Reset(0)], ""),
            (&[Stop(0)], ""),
        ],
    );
}

#[test]
fn content_length() {
    let length = |n: u32| headers(&format!("{GET} content-length={n}"));
    let malformed = "reset 0 H3_MESSAGE_ERROR, stop 0 H3_MESSAGE_ERROR";
    check(
        Ours::Server,
        &[
            (&[Fin(0, [length(3), data(b"a"), data(b"bc")].concat())], ""),
            (&[Fin(0, [length(3), data(b"abcd")].concat())], malformed),
            (
                &[Fin(0, [length(3), data(b"ab"), headers("a=b")].concat())],
                malformed,
            ),
            (&[Fin(0, length(3))], malformed),
            (&[Fin(0, length(0))], ""),
        ],
    );
    let response = |status: u16| headers(&format!(":status={status} content-length=3"));
    check(
        Ours::Client,
        &[
            (&[Fin(0, response(200))], "stop 0 H3_MESSAGE_ERROR"),
            (&[Fin(0, response(304))], ""),
        ],
    );
}

#[test]
fn limits_on_sections() {
    let long = "x".repeat(200);
    let fields = |count: usize| headers(&format!("{GET} {}", format!("a={long} ").repeat(count)));
    // 32 KiB of fields of 233 bytes each; answered by the caller with 431.
    check(Ours::Server, &[(&[Fin(0, fields(150))], "")]);
    let response = headers(&format!(":status=200 {}", format!("a={long} ").repeat(150)));
    check(
        Ours::Client,
        &[(&[Send(0, response)], "stop 0 H3_EXCESSIVE_LOAD")],
    );
    let huge = [vec![1, 0x80, 1, 0, 0], vec![0; 1 << 16]].concat();
    let without_table = Limits::DEFAULT;
    assert_eq!(
        outcome(Ours::Server, without_table, &[Fin(0, huge.clone())], 1_000),
        ""
    );
    let found = outcome(Ours::Client, without_table, &[Fin(0, huge.clone())], 1_000);
    assert_eq!(found, "stop 0 H3_EXCESSIVE_LOAD");
    let found = outcome(Ours::Server, limits(), &[Fin(0, huge)], 1_000);
    assert_eq!(
        found, "connection H3_EXCESSIVE_LOAD",
        "its references would stay open"
    );
    // Sections that do not end: four streams with 30,000 bytes each, of which 100,000 may wait.
    let tight = Limits {
        pending_bytes_max: 100_000,
        ..limits()
    };
    let begun = [vec![1, 0x80, 0, 0x7f, 0], vec![0; 30_000]].concat();
    let steps = [0, 4, 8, 12].map(|stream| Send(stream, begun.clone()));
    assert_eq!(outcome(Ours::Server, tight, &steps[..3], 1_000), "");
    let found = outcome(Ours::Server, tight, &steps, 1_000);
    assert_eq!(found, "reset 12 H3_EXCESSIVE_LOAD, stop 12 H3_EXCESSIVE_LOAD");
}

#[test]
fn limits_on_streams_and_floods() {
    let three = Limits {
        streams_max: 3,
        ..limits()
    };
    let steps = [0, 4, 8, 12].map(|stream| Send(stream, get()));
    let found = outcome(Ours::Server, three, &steps, 7);
    assert_eq!(found, "reset 12 H3_REQUEST_REJECTED, stop 12 H3_REQUEST_REJECTED");
    let resets = |count: u64| {
        let each = |n| [Send(4 * n, get()), Reset(4 * n)];
        (0..count).flat_map(each).collect::<Vec<_>>()
    };
    let found = outcome(Ours::Server, limits(), &resets(1_000), usize::MAX);
    assert_eq!(found.matches("H3_REQUEST_CANCELLED").count(), 1_000);
    let found = outcome(Ours::Server, limits(), &resets(1_001), usize::MAX);
    assert_eq!(found, "connection H3_EXCESSIVE_LOAD");
    let stops = |count: u64| {
        let each = |n: u64| [Fin(4 * n, get()), Stop(4 * n)];
        (0..count).flat_map(each).collect::<Vec<_>>()
    };
    let found = outcome(Ours::Server, limits(), &stops(1_000), usize::MAX);
    assert_eq!(found.matches("H3_NO_ERROR").count(), 1_000);
    let found = outcome(Ours::Server, limits(), &stops(1_001), usize::MAX);
    assert_eq!(found, "connection H3_EXCESSIVE_LOAD");
    // Both draw on one allowance. A cancellation consists of both (RFC 9114 section 4.1.1), and counts once.
    let mut mixed = resets(1_000);
    mixed.extend([Fin(4_000, get()), Stop(4_000)]);
    let found = outcome(Ours::Server, limits(), &mixed, usize::MAX);
    assert_eq!(found, "connection H3_EXCESSIVE_LOAD");
    let cancel = |n: u64| [Send(4 * n, get()), Reset(4 * n), Stop(4 * n)];
    let cancels: Vec<_> = (0..1_000).flat_map(cancel).collect();
    let found = outcome(Ours::Server, limits(), &cancels, usize::MAX);
    assert_eq!(found.matches("H3_REQUEST_CANCELLED").count(), 1_000);
    let malformed = |count: u64| {
        (0..count)
            .map(|n| Fin(4 * n, headers(":method=GET")))
            .collect::<Vec<_>>()
    };
    let found = outcome(Ours::Server, limits(), &malformed(300), usize::MAX);
    assert_eq!(found.matches("H3_MESSAGE_ERROR").count(), 600);
    let found = outcome(Ours::Server, limits(), &malformed(301), usize::MAX);
    assert_eq!(found, "connection H3_EXCESSIVE_LOAD");
    let empty = |count| [Send(0, [get(), data(b"").repeat(count)].concat())];
    check(
        Ours::Server,
        &[(&empty(100), ""), (&empty(101), "connection H3_EXCESSIVE_LOAD")],
    );
}
