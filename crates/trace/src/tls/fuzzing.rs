//! What must hold for any bytes at all: memory stays bounded and cuts between packets change no fact.

use super::conversation::Conversation;
use crate::connection::Side;
use measure::Instant;

/// Reads `data` as pieces of a TLS conversation: a control byte (bit 0: sender, bit 1: a gap), a length byte, the
/// piece. For the fuzz target `tls_records`.
///
/// # Panics
/// If a reader that gets single bytes finds other facts than one that gets whole pieces.
pub fn fuzz_tls(mut data: &[u8]) {
    let (mut whole, mut single) = (Conversation::new(false), Conversation::new(false));
    let mut is_complete = true;
    while let [control, len, rest @ ..] = data {
        let side = if control & 1 == 0 {
            Side::Client
        } else {
            Side::Server
        };
        if control & 2 != 0 {
            whole.gap(side, Instant::ZERO, u64::from(*len));
            is_complete = false;
            data = rest;
            continue;
        }
        let (piece, rest) = rest.split_at(rest.len().min(usize::from(*len)));
        data = rest;
        whole.bytes(side, Instant::ZERO, piece);
        for byte in piece {
            single.bytes(side, Instant::ZERO, &[*byte]);
        }
    }
    assert!(!is_complete || whole.facts() == single.facts());
}
