//! Where the time of each response over HTTP/2 or HTTP/3 went, from its request to its last byte.
//!
//! Divides that time at the receipts of its connection. The time before a receipt belongs to what the receipt brought:
//! bytes of this response, of others, or both in proportion. A receipt behind a missing segment was held up by that; one
//! a round trip after a used-up window was raised, by flow control. So the times of a response add up to its duration by
//! construction. Those of different responses overlap: [`super::explain`] says what the page waited for.

use super::{Loss, PAUSE_MIN, Path};
use crate::timeline::{Timeline, Try};
use std::collections::HashMap;
use units::{Duration, Instant};

/// What a response waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// One round trip for the request and the first byte.
    RoundTrip,
    /// The server's silence beyond the round trip, before the first byte.
    Server,
    /// Bytes of other responses on the connection, and what held those up.
    OtherStreams,
    /// The flow-control window of the stream or of the connection.
    FlowControl,
    /// A segment known to have been missing, whichever response was in it.
    LostSegment,
    /// Its own bytes, with pauses between them.
    OwnBytes,
}

impl Wait {
    /// All waits, in the order of tables.
    pub const ALL: [Wait; 6] = [
        Wait::RoundTrip,
        Wait::Server,
        Wait::OtherStreams,
        Wait::FlowControl,
        Wait::LostSegment,
        Wait::OwnBytes,
    ];

    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Wait::RoundTrip => "round trip",
            Wait::Server => "server",
            Wait::OtherStreams => "other streams",
            Wait::FlowControl => "flow control",
            Wait::LostSegment => "lost segment",
            Wait::OwnBytes => "own bytes",
        }
    }
}

/// The time of one response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamTime {
    /// Index of its object.
    pub object: usize,
    /// Index of its request among those for the object.
    pub one: usize,
    /// Its stream.
    pub stream: u32,
    /// The time of each wait, in the order of [`Wait::ALL`].
    pub waits: [Duration; Wait::ALL.len()],
}

impl StreamTime {
    /// From the request to the last byte.
    pub fn total(&self) -> Duration {
        self.waits.iter().copied().sum()
    }
}

/// The time of every complete response over HTTP/2, in the order of objects.
pub fn streams(timeline: &Timeline) -> Vec<StreamTime> {
    // Bytes that each receipt of each connection brought, of all responses.
    let mut brought: HashMap<(usize, usize), u64> = HashMap::new();
    for one in timeline.objects.iter().flat_map(|object| &object.tries) {
        for piece in &one.pieces {
            *brought.entry((one.connection, piece.arrival)).or_default() += piece.bytes;
        }
    }
    let mut all = Vec::new();
    for (object, record) in timeline.objects.iter().enumerate() {
        for (number, one) in record.tries.iter().enumerate() {
            if let (Some(stream), Some(last)) = (one.stream, one.last) {
                all.push(StreamTime {
                    object,
                    one: number,
                    stream,
                    waits: waits(timeline, one, last, &brought),
                });
            }
        }
    }
    all
}

fn waits(
    timeline: &Timeline,
    one: &Try,
    last: Instant,
    brought: &HashMap<(usize, usize), u64>,
) -> [Duration; Wait::ALL.len()] {
    let connection = &timeline.connections[one.connection];
    let path = Path::of(connection);
    let rtt = path.rtt.unwrap_or(Duration::ZERO);
    let ready = connection.ready().unwrap_or(connection.opened);
    let sent = one.sent.unwrap_or(one.asked).max(ready).min(last);
    let mut waits = [Duration::ZERO; Wait::ALL.len()];
    let mut spend = |wait: Wait, span: Duration| waits[wait as usize] += span;
    let mut pieces = one.pieces.iter().peekable();
    let mut is_begun = false;
    // When the window that this response has used up was raised.
    let mut dry = None;
    let reached = (sent + rtt).min(one.first.unwrap_or(last)).clamp(sent, last);
    spend(Wait::RoundTrip, reached - sent);
    let mut at = reached;
    for (number, arrival) in connection.arrivals.iter().enumerate() {
        let own = pieces.next_if(|piece| piece.arrival == number);
        let to = arrival.at.min(last);
        if to > at {
            let gap = to - at;
            let all = brought.get(&(one.connection, number)).copied().unwrap_or(0);
            let share = own.map_or(0.0, |piece| piece.bytes as f64 / all.max(1) as f64);
            let is_granted = dry.is_some_and(|raised| path.is_answer(raised, to));
            let is_dry = dry.is_some_and(|raised| to < raised + rtt.mul_f64(0.75));
            // Over QUIC, a missing packet holds up only the streams with data in it (RFC 9000 section 2).
            let is_held_up = own.is_some() || connection.quic.is_none();
            if Loss::before(connection, number) == Loss::Hole && is_held_up {
                spend(Wait::LostSegment, gap);
            } else if is_dry || (is_granted && own.is_some() && gap >= PAUSE_MIN) {
                spend(Wait::FlowControl, gap);
            } else if own.is_some() && !is_begun && gap >= PAUSE_MIN.max(rtt / 4) {
                // If the server was in the middle of another response, that was in the way, whatever held it up.
                let is_busy = is_another_under_way(timeline, one, at);
                spend(if is_busy { Wait::OtherStreams } else { Wait::Server }, gap);
            } else if all > 0 {
                let part = gap.mul_f64(share);
                spend(Wait::OwnBytes, part);
                spend(Wait::OtherStreams, gap - part);
            } else {
                spend(if is_begun { Wait::OwnBytes } else { Wait::Server }, gap);
            }
            at = to;
        }
        if let Some(piece) = own {
            (is_begun, dry) = (true, piece.dry);
        }
        if to >= last {
            break;
        }
    }
    spend(Wait::OwnBytes, last.since(at));
    waits
}

/// Whether another response on the connection of this one has begun and not ended.
fn is_another_under_way(timeline: &Timeline, this: &Try, at: Instant) -> bool {
    let mut all = timeline.objects.iter().flat_map(|object| &object.tries);
    all.any(|one| {
        one.connection == this.connection
            && one.stream != this.stream
            && one.first.is_some_and(|first| first <= at)
            && one.last.is_none_or(|last| last > at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::tests::{at, connection, object, one, timeline};
    use crate::timeline::{Arrival, Piece};
    use proptest::prelude::*;

    /// A response on a stream, asked for at 20 ms on a connection with a round trip of 20 ms, with (receipt, bytes).
    fn on_stream(stream: u32, [first, last]: [u64; 2], pieces: &[(usize, u64)]) -> Try {
        Try {
            stream: Some(stream),
            pieces: pieces
                .iter()
                .map(|&(arrival, bytes)| Piece {
                    arrival,
                    bytes,
                    dry: None,
                })
                .collect(),
            ..one(0, [20, 20, first, last])
        }
    }

    fn told(tries: Vec<Try>, arrivals: &[u64], change: impl Fn(&mut [Arrival])) -> Vec<Vec<(Wait, u64)>> {
        let mut connection = connection(0, arrivals);
        change(&mut connection.arrivals);
        let objects = tries.into_iter().map(|one| object(None, 0, vec![one])).collect();
        let timeline = timeline(*arrivals.last().expect("one"), objects, vec![connection]);
        let all = streams(&timeline);
        all.iter()
            .map(|one| {
                let shown = Wait::ALL.iter().zip(one.waits);
                let some = shown.filter(|(_, took)| !took.is_zero());
                some.map(|(wait, took)| (*wait, took.as_millis() as u64))
                    .collect()
            })
            .collect()
    }

    #[test]
    fn a_response_waits_for_the_bytes_of_another() {
        // The second response has to wait until the first is complete, then they would share.
        let first = on_stream(1, [40, 60], &[(0, 1460), (1, 1460), (2, 1460)]);
        let second = on_stream(3, [70, 80], &[(3, 1460), (4, 1460)]);
        let told = told(vec![first, second], &[40, 50, 60, 64, 80], |_| ());
        assert_eq!(told[0], [(Wait::RoundTrip, 20), (Wait::OwnBytes, 20)]);
        assert_eq!(
            told[1],
            [
                (Wait::RoundTrip, 20),
                (Wait::OtherStreams, 20),
                (Wait::OwnBytes, 20)
            ]
        );
    }

    #[test]
    fn receipts_of_two_are_shared() {
        let first = on_stream(1, [40, 60], &[(0, 1000), (1, 300)]);
        let second = on_stream(3, [40, 60], &[(0, 460), (1, 900)]);
        let told = told(vec![first, second], &[40, 60], |_| ());
        assert_eq!(
            told[0],
            [
                (Wait::RoundTrip, 20),
                (Wait::OtherStreams, 15),
                (Wait::OwnBytes, 5)
            ]
        );
        assert_eq!(
            told[1],
            [
                (Wait::RoundTrip, 20),
                (Wait::OtherStreams, 5),
                (Wait::OwnBytes, 15)
            ]
        );
    }

    /// A window used up at 42 ms and raised then: the server goes on a round trip later.
    #[test]
    fn a_window_that_is_used_up_is_told_from_a_slow_server() {
        for (is_dry, wanted) in [
            (
                true,
                vec![
                    (Wait::RoundTrip, 20),
                    (Wait::FlowControl, 21),
                    (Wait::OwnBytes, 2),
                ],
            ),
            (false, vec![(Wait::RoundTrip, 20), (Wait::OwnBytes, 23)]),
        ] {
            let mut one = on_stream(1, [40, 63], &[(0, 1460), (1, 1460), (2, 1460)]);
            one.pieces[1].dry = is_dry.then(|| at(42));
            assert_eq!(told(vec![one], &[40, 42, 63], |_| ()), [wanted]);
        }
    }

    proptest! {
        /// Whatever came when: the waits of a response are its time.
        #[test]
        fn the_waits_add_up(
            arrivals in prop::collection::vec((0_u64..300, 0_usize..3, any::<bool>(), any::<bool>()), 1..40),
            times in prop::collection::vec((0_u64..300, 0_u64..300, 0_u64..300), 3),
        ) {
            let mut arrivals = arrivals;
            arrivals.sort_unstable();
            let at_ms: Vec<u64> = arrivals.iter().map(|one| one.0).collect();
            let mut connection = connection(0, &at_ms);
            let mut tries: Vec<Try> = times
                .iter()
                .enumerate()
                .map(|(number, &(sent, first, last))| {
                    let mut one = on_stream(2 * number as u32 + 1, [first, last], &[]);
                    (one.asked, one.sent) = (at(sent), Some(at(sent)));
                    one
                })
                .collect();
            for (number, &(ms, whose, is_hole, is_dry)) in arrivals.iter().enumerate() {
                connection.arrivals[number].holes = u32::from(is_hole) * number as u32;
                tries[whose].pieces.push(Piece {
                    arrival: number,
                    bytes: 1460,
                    dry: is_dry.then(|| at(ms)),
                });
            }
            let objects = tries.iter().map(|one| object(None, 0, vec![one.clone()])).collect();
            let timeline = timeline(300, objects, vec![connection]);
            for (time, one) in streams(&timeline).iter().zip(&tries) {
                let last = one.last.expect("the end");
                let sent = one.sent.expect("sent").max(at(20)).min(last);
                prop_assert_eq!(time.total(), last - sent);
            }
        }
    }

    #[test]
    fn a_lost_segment_holds_up_every_response() {
        let first = on_stream(1, [40, 90], &[(0, 1460), (1, 1460)]);
        let second = on_stream(3, [90, 90], &[(1, 1460)]);
        for (is_lost, wait) in [(true, Wait::LostSegment), (false, Wait::OtherStreams)] {
            let told = told(vec![first.clone(), second.clone()], &[40, 90], |arrivals| {
                arrivals[1].holes = u32::from(is_lost);
            });
            assert_eq!(told[1], [(Wait::RoundTrip, 20), (wait, 50)]);
        }
    }
}
