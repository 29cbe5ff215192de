//! Slow-start restart: after a pause, a connection with an open window begins again with a small one.
//!
//! Watching begins when new data follows a pause longer than the retransmission timeout with everything acknowledged.
//! Confirmed if the first flight was no larger than the connection's initial window and smaller than the one before the
//! pause, later flights were released by acknowledgments and grew, and nothing was lost.

use super::half::Half;
use crate::context::Context;
use crate::finding::Kind;
use core::time::Duration;
use units::Instant;

/// Limit on flights until the old window is reached; doubling from one byte needs no more.
const ROUNDS_MAX: usize = 40;
/// Segments of RFC 6928's initial window, for connections whose own start was not captured.
const INITIAL_SEGMENTS: u64 = 10;
/// Minimum growth per round trip: slow start grows by half if every second segment is acknowledged, less a tolerance.
const GROWTH: f64 = 1.3;

/// A restart being watched.
#[derive(Debug)]
pub(super) struct Restart {
    idle: Duration,
    before: u64,
    last_before: u64,
    first: (Instant, u64),
    start: u64,
    /// Round in which it began, and the largest flight of each round since.
    round: u32,
    flights: Vec<u64>,
    /// Latest segment that would have fit into the old window.
    reached: (Instant, u64),
}

impl Half {
    /// Watches new data up to `end`; the flight already includes it.
    pub(super) fn watch_restart(&mut self, start: u64, end: u64, cx: &mut Context<'_>) {
        let flight = self.flight();
        let payload = end - start;
        if flight == payload
            && let Some((last_at, last_packet)) = self.last_data
        {
            let idle = cx.at.since(last_at);
            if idle > self.rto() {
                self.finish_restart(cx);
                let before = core::mem::replace(&mut self.peak, flight);
                if before > flight {
                    self.restart = Some(Restart {
                        idle,
                        before,
                        last_before: last_packet,
                        first: (cx.at, cx.number),
                        start,
                        round: self.rounds,
                        flights: vec![flight],
                        reached: (cx.at, cx.number),
                    });
                }
                return;
            }
        }
        let rounds = self.rounds;
        let Some(restart) = &mut self.restart else {
            return;
        };
        let round = (rounds - restart.round) as usize;
        if round >= restart.flights.len() {
            if restart.flights.len() >= ROUNDS_MAX {
                self.restart = None;
                return;
            }
            restart.flights.push(flight);
        } else if let Some(current) = restart.flights.last_mut() {
            *current = flight.max(*current);
        }
        if end - restart.start <= restart.before {
            restart.reached = (cx.at, cx.number);
        } else {
            self.finish_restart(cx);
        }
    }

    /// Ends watching: the old window was reached, or the data ended before.
    pub(super) fn finish_restart(&mut self, cx: &mut Context<'_>) {
        let Some(restart) = self.restart.take() else {
            return;
        };
        let flights = &restart.flights;
        let own = if self.peer_mss.is_some() && self.initial_flight > 0 {
            self.initial_flight
        } else {
            INITIAL_SEGMENTS * u64::from(self.mss())
        };
        let small = flights[0] < restart.before && flights[0] <= own.max(u64::from(self.mss()));
        // The last flight is incomplete: the data ended or the old window was reached.
        let grows = flights[..flights.len() - 1]
            .windows(2)
            .all(|w| w[1] as f64 >= w[0] as f64 * GROWTH);
        if flights.len() >= 2 && small && grows {
            let packets = [restart.last_before, restart.first.1, restart.reached.1];
            let kind = Kind::SlowStartRestart {
                idle: restart.idle,
                flight_before: restart.before,
                flight_after: flights[0],
                rounds: flights.len() as u32,
            };
            let (from, to) = (restart.first.0, restart.reached.0);
            cx.finding(self.side, from, to.since(from), &packets, kind);
        }
    }
}
