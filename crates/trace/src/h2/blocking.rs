//! Head-of-line blocking: TCP delivers in order, so bytes of all streams wait behind a lost segment of one.

use super::{Moment, Stamp};

/// Limit on the streams named per packet.
const STREAMS_MAX: usize = 64;

/// The streams in the bytes that one packet made readable.
#[derive(Debug, Default)]
pub(super) struct Hole {
    /// Number of the packet.
    packet: u64,
    /// Streams with bytes in the packet itself.
    lost: Vec<u32>,
    /// Other streams, whose bytes came before it, and when the first of them came.
    waiting: Vec<(u32, Stamp)>,
}

impl Hole {
    /// Notes bytes of `stream`, in a frame that began at `begun`.
    pub(super) fn touch(&mut self, stream: u32, begun: Stamp, moment: &Moment) {
        if self.packet != moment.here.1 {
            self.packet = moment.here.1;
            self.lost.clear();
            self.waiting.clear();
        }
        let is_lost = moment.came == moment.here || begun.1 == moment.here.1;
        if is_lost && !self.lost.contains(&stream) && self.lost.len() < STREAMS_MAX {
            self.lost.push(stream);
        }
        let is_known = self.lost.contains(&stream) || self.waiting.iter().any(|(known, _)| *known == stream);
        if !is_lost && !is_known && self.waiting.len() < STREAMS_MAX {
            self.waiting.push((stream, moment.came));
        }
    }

    /// The streams with lost bytes, those that waited for them, and the first arrival of those.
    pub(super) fn blocked(&self, packet: u64) -> Option<(Vec<u32>, Vec<u32>, Stamp)> {
        if self.packet != packet || self.lost.is_empty() {
            return None;
        }
        let first = self.waiting.iter().map(|(_, came)| *came).min()?;
        let mut waiting: Vec<u32> = self.waiting.iter().map(|(stream, _)| *stream).collect();
        waiting.sort_unstable();
        Some((self.lost.clone(), waiting, first))
    }
}
