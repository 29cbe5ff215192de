//! Stream types (RFC 9114 section 6): which may be opened, how often, and which may end.

use crate::*;

#[test]
fn unidirectional_streams() {
    let both: &[(&[Step], &str)] = &[
        (&[settings()], ""),
        (&[settings(), Send(ENCODER, vec![2]), Send(DECODER, vec![3])], ""),
        // The type may have a longer form than it needs.
        (&[Send(CONTROL, vec![0xc0, 0, 0, 0, 0, 0, 0, 0, 4, 0])], ""),
        (
            &[settings(), Send(ANOTHER, vec![0])],
            "connection H3_STREAM_CREATION_ERROR",
        ),
        (
            &[Send(ENCODER, vec![2]), Send(ANOTHER, vec![2])],
            "connection H3_STREAM_CREATION_ERROR",
        ),
        (
            &[Send(DECODER, vec![3]), Send(ANOTHER, vec![3])],
            "connection H3_STREAM_CREATION_ERROR",
        ),
        (
            &[Fin(CONTROL, vec![0, 4, 0])],
            "connection H3_CLOSED_CRITICAL_STREAM",
        ),
        (
            &[settings(), Reset(CONTROL)],
            "connection H3_CLOSED_CRITICAL_STREAM",
        ),
        (&[Fin(ENCODER, vec![2])], "connection H3_CLOSED_CRITICAL_STREAM"),
        (&[Fin(DECODER, vec![3])], "connection H3_CLOSED_CRITICAL_STREAM"),
        (
            &[Send(ENCODER, vec![2]), Reset(ENCODER)],
            "connection H3_CLOSED_CRITICAL_STREAM",
        ),
        (
            &[Send(DECODER, vec![3]), Reset(DECODER)],
            "connection H3_CLOSED_CRITICAL_STREAM",
        ),
        (&[Stop(CONTROL)], "connection H3_CLOSED_CRITICAL_STREAM"),
        // Our QPACK decoder stream.
        (&[Stop(ENCODER)], "connection H3_CLOSED_CRITICAL_STREAM"),
        // Ends before the type has come.
        (&[settings(), Fin(ANOTHER, vec![])], ""),
        (&[settings(), Fin(ANOTHER, vec![0x40])], ""),
        (&[settings(), Send(ANOTHER, vec![0x40]), Reset(ANOTHER)], ""),
    ];
    check(Ours::Server, both);
    check(Ours::Client, both);
    check(
        Ours::Server,
        &[
            (&[Send(ANOTHER, vec![1])], "connection H3_STREAM_CREATION_ERROR"),
            (
                &[Send(ANOTHER, vec![0x21, 1, 2])],
                "stop 14 H3_STREAM_CREATION_ERROR",
            ),
        ],
    );
    check(
        Ours::Client,
        &[
            (&[Send(ANOTHER, vec![1, 0])], "connection H3_ID_ERROR"),
            (
                &[Fin(ANOTHER, vec![0x21, 1, 2])],
                "stop 15 H3_STREAM_CREATION_ERROR",
            ),
            (&[Send(1, vec![])], "connection H3_STREAM_CREATION_ERROR"),
        ],
    );
}

#[test]
fn too_many_unidirectional_streams_are_stopped() {
    let limits = Limits {
        unidirectional_max: 3,
        ..limits()
    };
    let steps = [CONTROL, ENCODER, DECODER, ANOTHER].map(|stream| Send(stream, vec![]));
    let found = outcome(Ours::Server, limits, &steps, 1);
    assert_eq!(found, "stop 14 H3_STREAM_CREATION_ERROR");
}
