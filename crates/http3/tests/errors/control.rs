//! The control stream (RFC 9114 sections 6.2.1 and 7.2, RFC 9218 section 7.2).

use crate::*;

/// A control stream with SETTINGS and these frames.
fn control(frames: &[Vec<u8>]) -> [Step; 1] {
    [Send(CONTROL, [&[0, 4, 0], &frames.concat()[..]].concat())]
}

#[test]
fn the_first_frame_is_settings() {
    for ours in [Ours::Server, Ours::Client] {
        for kind in [0, 1, 2, 3, 5, 6, 7, 0xd, 0x21, 0xf0700] {
            let step = Send(CONTROL, [&[0], &frame(kind, &[0])[..]].concat());
            check(ours, &[(&[step], "connection H3_MISSING_SETTINGS")]);
        }
    }
}

#[test]
fn settings_errors() {
    let with = |payload: &[u8]| Send(CONTROL, [&[0], &frame(4, payload)[..]].concat());
    let cases: &[(&[Step], &str)] = &[
        (&[with(&[1, 0x40, 100, 6, 0x50, 0, 7, 16, 8, 1])], ""),
        (&[with(&[0x21, 7])], ""),
        (&[with(&[6, 1, 6, 1])], "connection H3_SETTINGS_ERROR"),
        (&[with(&[2, 0])], "connection H3_SETTINGS_ERROR"),
        (&[with(&[3, 0])], "connection H3_SETTINGS_ERROR"),
        (&[with(&[4, 0])], "connection H3_SETTINGS_ERROR"),
        (&[with(&[5, 0])], "connection H3_SETTINGS_ERROR"),
        (&[with(&[6])], "connection H3_FRAME_ERROR"),
        (&[with(&[0; 1_025])], "connection H3_EXCESSIVE_LOAD"),
        (&control(&[frame(4, &[])]), "connection H3_FRAME_UNEXPECTED"),
    ];
    check(Ours::Server, cases);
    check(Ours::Client, cases);
}

#[test]
fn frames_that_are_not_of_the_control_stream() {
    for ours in [Ours::Server, Ours::Client] {
        for kind in [0, 1, 5, 2, 6, 8, 9] {
            let steps = control(&[frame(kind, &[])]);
            check(ours, &[(&steps, "connection H3_FRAME_UNEXPECTED")]);
        }
        // Unknown ones are ignored.
        let large = frame(0x21, &[7; 5_000]);
        check(ours, &[(&control(&[large, frame(0x7_0000, &[])]), "")]);
    }
}

#[test]
fn frames_from_a_client() {
    check(
        Ours::Server,
        &[
            (
                &control(&[frame(0xd, &[4]), frame(0xd, &[4]), frame(0xd, &[5])]),
                "",
            ),
            (
                &control(&[frame(0xd, &[4]), frame(0xd, &[3])]),
                "connection H3_ID_ERROR",
            ),
            (&control(&[frame(0xd, &[4, 4])]), "connection H3_FRAME_ERROR"),
            (&control(&[frame(0xd, &[])]), "connection H3_FRAME_ERROR"),
            (&control(&[frame(3, &[0])]), "connection H3_ID_ERROR"),
            (&control(&[frame(7, &[9]), frame(7, &[8])]), ""),
            (
                &control(&[frame(7, &[8]), frame(7, &[9])]),
                "connection H3_ID_ERROR",
            ),
            (&control(&[frame(7, &[])]), "connection H3_FRAME_ERROR"),
            (&control(&[frame(7, &[0x40])]), "connection H3_FRAME_ERROR"),
            (&control(&[frame(0xf0700, b"\x04u=1")]), ""),
            (&control(&[frame(0xf0700, b"\x05u=1")]), "connection H3_ID_ERROR"),
            (&control(&[frame(0xf0700, b"")]), "connection H3_FRAME_ERROR"),
            (&control(&[frame(0xf0701, b"\x00u=1")]), "connection H3_ID_ERROR"),
        ],
    );
}

#[test]
fn frames_from_a_server() {
    check(
        Ours::Client,
        &[
            (&control(&[frame(0xd, &[4])]), "connection H3_FRAME_UNEXPECTED"),
            (&control(&[frame(3, &[0])]), "connection H3_ID_ERROR"),
            (
                &control(&[frame(0xf0700, b"\x04u=1")]),
                "connection H3_FRAME_UNEXPECTED",
            ),
            (
                &control(&[frame(0xf0701, b"\x04u=1")]),
                "connection H3_FRAME_UNEXPECTED",
            ),
            (&control(&[frame(7, &[12])]), ""),
            (&control(&[frame(7, &[9])]), "connection H3_ID_ERROR"),
            (
                &control(&[frame(7, &[12]), frame(7, &[16])]),
                "connection H3_ID_ERROR",
            ),
        ],
    );
    // The requests were sent, so that only their responses are stopped.
    let refused = "stop 4 H3_REQUEST_CANCELLED, stop 8 H3_REQUEST_CANCELLED";
    check(Ours::Client, &[(&control(&[frame(7, &[4])]), refused)]);
}

#[test]
fn floods() {
    let many = |kind, payload: &[u8], count| control(&vec![frame(kind, payload); count]);
    check(
        Ours::Server,
        &[
            (&many(0x21, b"", 101), ""),
            (&many(0x21, b"", 102), "connection H3_EXCESSIVE_LOAD"),
            (&many(0xd, &[1], 20), ""),
            (&many(0xd, &[1], 21), "connection H3_EXCESSIVE_LOAD"),
            (&many(0xf0700, &[0], 1_000), ""),
            (&many(0xf0700, &[0], 1_001), "connection H3_EXCESSIVE_LOAD"),
        ],
    );
    let strangers = |count: u64| {
        (0..count)
            .map(|n| Send(14 + 4 * n, vec![0x21]))
            .collect::<Vec<_>>()
    };
    let found = outcome(Ours::Server, limits(), &strangers(20), 1);
    assert_eq!(found.matches("H3_STREAM_CREATION_ERROR").count(), 20);
    let found = outcome(Ours::Server, limits(), &strangers(21), 1);
    assert_eq!(found, "connection H3_EXCESSIVE_LOAD");
}
