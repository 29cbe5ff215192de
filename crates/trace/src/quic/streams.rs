//! The streams of a connection: bytes in order, bytes that came again, limits of flow control.

use super::assembly::{Arrival, Assembly};
use super::window::Window;
use crate::budget::Budget;
use crate::connection::Side;
use crate::quic_facts::{QuicDirection, QuicStream, TransportParameters};
use crate::times::Stamp;
use core::time::Duration;
use std::collections::BTreeMap;
use units::Instant;

/// Limit on streams that are followed, per connection.
const STREAMS_MAX: usize = 1024;
/// Share of the common budget per stream.
const STREAM_BYTES: usize = 512;

/// A hole in a sequence: the packet that left it, and its number.
type Hole = (Stamp, u64);

#[derive(Debug, Default)]
struct Half {
    assembly: Assembly,
    window: Window,
    fresh: u64,
    again: u64,
    hole: Option<Hole>,
    has_ended: bool,
}

#[derive(Debug)]
struct Stream {
    first: Instant,
    last: Instant,
    halves: [Half; 2],
}

/// A STREAM frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    pub(super) stream: u64,
    pub(super) offset: u64,
    pub(super) fin: bool,
    pub(super) data: &'a [u8],
    /// Number of its packet.
    pub(super) number: u64,
}

/// What a STREAM frame brought.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) arrival: Arrival,
    /// Bytes that are in order now.
    pub(super) ready: Vec<u8>,
    /// Whether the stream is complete now.
    pub(super) ends: bool,
    /// The hole that it filled, if packets before the one that left the hole are missing from the capture.
    pub(super) filled: Option<Stamp>,
    /// Whether the stream had bytes of this end before.
    pub(super) continues: bool,
}

/// The streams of one connection.
#[derive(Debug, Default)]
pub(super) struct Streams {
    followed: BTreeMap<u64, Stream>,
    pub(super) seen: u64,
    /// The connection's limit on each end.
    pub(super) windows: [Window; 2],
    /// Transport parameters of each end, with the limits that it set for its peer.
    parameters: [Option<TransportParameters>; 2],
}

impl Streams {
    /// Takes the transport parameters of `by`.
    pub(super) fn permit(&mut self, by: Side, values: TransportParameters, now: Stamp) {
        self.parameters[by as usize] = Some(values);
        self.windows[by.peer() as usize].raise(values.initial_max_data, now);
    }

    /// The initial limit for what `side` sends on a stream.
    fn initial(&self, side: Side, id: u64) -> Option<u64> {
        let values = self.parameters[side.peer() as usize]?;
        let opener = if id & 1 == 0 { Side::Client } else { Side::Server };
        Some(match (id & 2 != 0, opener == side) {
            (true, _) => values.initial_max_stream_data_uni,
            // `remote` and `local` are named from the receiver's side.
            (false, true) => values.initial_max_stream_data_bidi_remote,
            (false, false) => values.initial_max_stream_data_bidi_local,
        })
    }

    fn stream(&mut self, id: u64, now: Stamp, budget: &mut Budget) -> Option<&mut Stream> {
        if !self.followed.contains_key(&id) {
            self.seen += 1;
            if self.followed.len() >= STREAMS_MAX || !budget.hold(STREAM_BYTES) {
                return None;
            }
            let half = |side| Half {
                window: Window::new(self.initial(side, id)),
                ..Half::default()
            };
            let stream = Stream {
                first: now.0,
                last: now.0,
                halves: [half(Side::Client), half(Side::Server)],
            };
            self.followed.insert(id, stream);
        }
        self.followed.get_mut(&id)
    }

    /// Takes a STREAM frame of `side`. `has_gaps` says whether packet numbers of this end are missing from the capture.
    pub(super) fn take(
        &mut self,
        side: Side,
        piece: Piece<'_>,
        has_gaps: bool,
        now: Stamp,
        budget: &mut Budget,
    ) -> Taken {
        let mut taken = Taken::default();
        let Some(stream) = self.stream(piece.stream, now, budget) else {
            return taken;
        };
        stream.last = stream.last.max(now.0);
        let half = &mut stream.halves[side as usize];
        taken.continues = half.fresh > 0;
        let before = half.assembly.highest;
        let ready = &mut taken.ready;
        let arrival = half.assembly.take(piece.offset, piece.data, budget, |bytes| {
            ready.extend_from_slice(bytes)
        });
        half.fresh += arrival.fresh;
        half.again += arrival.again;
        if piece.fin {
            half.assembly.end = Some(piece.offset + piece.data.len() as u64);
        }
        if arrival.leaves && has_gaps {
            half.hole.get_or_insert((now, piece.number));
        }
        if arrival.fills
            && let Some((hole, number)) = half.hole.take()
            && piece.number > number
        {
            taken.filled = Some(hole);
        }
        taken.ends = half.assembly.is_whole() && !half.has_ended;
        half.has_ended |= taken.ends;
        let advance = half.assembly.highest - before;
        let has_more = half.assembly.end.is_none();
        half.window.spend(advance, has_more, now);
        self.windows[side as usize].spend(advance, has_more, now);
        taken.arrival = arrival;
        taken
    }

    /// `by` sent MAX_STREAM_DATA.
    pub(super) fn raise(&mut self, by: Side, id: u64, limit: u64, now: Stamp) {
        if let Some(stream) = self.followed.get_mut(&id) {
            stream.halves[by.peer() as usize].window.raise(limit, now);
        }
    }

    /// Whether a limit holds back `side` on this stream.
    pub(super) fn is_blocked(&self, side: Side, id: u64) -> bool {
        let stream = self.followed.get(&id);
        self.windows[side as usize].is_exhausted()
            || stream.is_some_and(|stream| stream.halves[side as usize].window.is_exhausted())
    }

    /// The windows of all streams and their identifiers.
    pub(super) fn each_window(&self, side: Side) -> impl Iterator<Item = (u64, &Window)> {
        self.followed
            .iter()
            .map(move |(id, stream)| (*id, &stream.halves[side as usize].window))
    }

    /// The report on all streams; their sums go to `sides`. Returns what is held to the budget.
    pub(super) fn finish(
        &mut self,
        start: Instant,
        sides: [&mut QuicDirection; 2],
        budget: &mut Budget,
    ) -> Vec<QuicStream> {
        let mut reports = Vec::new();
        let [client, server] = sides;
        for (id, mut stream) in core::mem::take(&mut self.followed) {
            budget.release(STREAM_BYTES);
            for half in &mut stream.halves {
                half.assembly.give_up(budget);
            }
            let [a, b] = &stream.halves;
            client.stream_bytes += a.fresh;
            client.stream_bytes_again += a.again;
            server.stream_bytes += b.fresh;
            server.stream_bytes_again += b.again;
            reports.push(QuicStream {
                id,
                start: stream.first.since(start),
                duration: stream.last.since(stream.first),
                bytes: [a.fresh, b.fresh],
                again: [a.again, b.again],
                complete: [a.has_ended, b.has_ended],
            });
        }
        reports.sort_by_key(|stream| stream.start);
        reports
    }

    /// Time for which limits held back `side`, over the connection and its streams.
    pub(super) fn waited(&self, side: Side) -> Duration {
        let streams: Duration = self.each_window(side).map(|(_, window)| window.total).sum();
        self.windows[side as usize].total + streams
    }
}
