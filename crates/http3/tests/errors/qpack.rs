//! Errors of QPACK (RFC 9204 section 6) with a table of 128 bytes and one blocked stream.

use crate::*;

/// An encoder stream with a capacity of 100 bytes and these instructions.
fn encoder(instructions: &[u8]) -> Step {
    Send(ENCODER, [&[2, 0x3f, 0x45], instructions].concat())
}

/// A request whose `:authority` is the first insertion.
fn dynamic() -> Vec<u8> {
    frame(1, &[2, 0, 0xd1, 0xd7, 0xc1, 0x80])
}

/// `:authority: a`.
const INSERT: &[u8] = &[0xc0, 1, b'a'];

#[test]
fn sections() {
    let failed = "connection QPACK_DECOMPRESSION_FAILED";
    for ours in [Ours::Server, Ours::Client] {
        check(
            ours,
            &[
                (&[Send(0, frame(1, &[]))], failed),
                (&[Send(0, frame(1, &[0]))], failed),
                (&[Send(0, frame(1, &[0, 0, 0x80]))], failed),
                (&[Send(0, frame(1, &[0, 0, 0xff, 0x24]))], failed),
                (&[Send(0, frame(1, &[0, 0, 0x51, 2, 0]))], failed),
                (&[Send(0, frame(1, &[9, 0]))], failed),
                (&[Send(0, dynamic()), Send(4, dynamic())], failed),
                // The entry was evicted when the section came.
                (
                    &[encoder(&[INSERT, INSERT, INSERT].concat()), Send(0, dynamic())],
                    failed,
                ),
            ],
        );
    }
    check(
        Ours::Server,
        &[
            (&[encoder(INSERT), Fin(0, dynamic())], ""),
            (&[Fin(0, dynamic()), encoder(INSERT)], ""),
            (&[Fin(0, dynamic()), encoder(INSERT), Fin(4, dynamic())], ""),
            // A blocked stream that is reset makes room for another.
            (
                &[Send(0, dynamic()), Reset(0), Send(4, dynamic())],
                "reset 0 H3_REQUEST_CANCELLED",
            ),
        ],
    );
    let none = Limits::DEFAULT;
    assert_eq!(outcome(Ours::Server, none, &[Send(0, dynamic())], 1), failed);
    assert_eq!(outcome(Ours::Server, none, &[Send(0, get())], 1), "");
}

#[test]
fn instructions() {
    let encoder_error = "connection QPACK_ENCODER_STREAM_ERROR";
    let decoder_error = "connection QPACK_DECODER_STREAM_ERROR";
    for ours in [Ours::Server, Ours::Client] {
        check(
            ours,
            &[
                (&[encoder(INSERT)], ""),
                (&[Send(ENCODER, vec![2, 0x3f, 0x7f])], encoder_error),
                (&[Send(ENCODER, vec![2, 0xc0, 1, b'a'])], encoder_error),
                (&[encoder(&[0])], encoder_error),
                (&[encoder(&[0xff, 0x24, 0])], encoder_error),
                (&[encoder(&[0xc0, 0x81, 0x18])], encoder_error),
                (&[Send(DECODER, vec![3, 0x44])], ""),
                (&[Send(DECODER, vec![3, 0x80])], decoder_error),
                (&[Send(DECODER, vec![3, 0])], decoder_error),
                (&[Send(DECODER, vec![3, 1])], decoder_error),
            ],
        );
    }
}
