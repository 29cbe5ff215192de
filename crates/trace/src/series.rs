//! One connection's packets as points for plots: time-sequence, flight, congestion window, round-trip times.
//!
//! Records one chosen connection, within a limit. The writers turn points into the text that xplot, a spreadsheet or a
//! plotting program reads.

use crate::connection::{ConnectionId, Side};
use crate::quantity;
use core::fmt::Write as _;
use core::time::Duration;
use serde::Serialize;
use units::Instant;

/// Content of a point. Sequence numbers are relative: the first data byte of a direction is 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "mark", rename_all = "snake_case")]
pub enum Mark {
    /// Data, SYN or FIN sent by the point's side.
    Data {
        /// First sequence number.
        start: i64,
        /// One past the last payload byte.
        end: i64,
        /// Whether it is a retransmission.
        again: bool,
        /// SYN flag.
        syn: bool,
        /// FIN flag.
        fin: bool,
        /// Bytes in flight from this side after the packet.
        flight: u64,
    },
    /// The point's side acknowledged the other's data.
    Ack {
        /// Acknowledgment number: the next byte expected.
        ack: i64,
        /// Right edge of the advertised window.
        edge: i64,
        /// Bytes of the other side still in flight.
        flight: u64,
    },
    /// Largest flight of the point's side in one round trip, at the time it was reached.
    Cwnd {
        /// In bytes.
        bytes: u64,
    },
    /// A round-trip time sample for the point's side.
    Rtt {
        /// The sample, in milliseconds.
        #[serde(rename = "rtt_ms", serialize_with = "quantity::ms")]
        rtt: Duration,
    },
    /// The point's side reset the connection.
    Reset,
}

/// A mark at one time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Time since the first frame of the capture.
    #[serde(rename = "at_s", serialize_with = "quantity::seconds")]
    pub at: Duration,
    /// Frame number.
    pub packet: u64,
    /// Sender of the packet, or of the data that was measured.
    pub side: Side,
    /// Content of the point.
    #[serde(flatten)]
    pub mark: Mark,
}

/// The points of one connection.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    connection: Option<ConnectionId>,
    points: Vec<Point>,
    max: usize,
    start: Instant,
    dropped: u64,
}

impl Recorder {
    pub(crate) fn new(connection: Option<ConnectionId>, max: usize) -> Recorder {
        Recorder {
            connection,
            max,
            ..Recorder::default()
        }
    }

    pub(crate) fn begin(&mut self, start: Instant) {
        self.start = start;
    }

    #[inline]
    pub(crate) fn wants(&self, connection: ConnectionId) -> bool {
        self.connection == Some(connection)
    }

    pub(crate) fn record(
        &mut self,
        connection: ConnectionId,
        side: Side,
        at: Instant,
        packet: u64,
        mark: Mark,
    ) {
        if self.wants(connection) {
            let at = at.since(self.start);
            self.push(Point {
                at,
                packet,
                side,
                mark,
            });
        }
    }

    pub(crate) fn push(&mut self, point: Point) {
        if self.points.len() < self.max {
            self.points.push(point);
        } else {
            self.dropped += 1;
        }
    }

    pub(crate) fn take(&mut self) -> Series {
        Series {
            points: core::mem::take(&mut self.points),
            dropped: self.dropped,
        }
    }
}

/// A recorded connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Series {
    /// Points in capture order; those that sum up a round trip come after its packets.
    pub points: Vec<Point>,
    /// Number of points beyond [`crate::Limits::points`], which were not kept.
    pub dropped: u64,
}

impl Series {
    /// Time-sequence diagram of `sender`'s data for xplot: white arrows for data, red ones for retransmissions, green
    /// for acknowledgments, yellow for the window's edge.
    pub fn xplot(&self, sender: Side, title: &str) -> String {
        let mut out = String::from("timeval unsigned\n");
        let title: String = title.chars().filter(|c| !c.is_control()).collect();
        // Writing to a String cannot fail, so the results below are ignored.
        let _ = writeln!(out, "title\n{title}\nxlabel\ntime\nylabel\nsequence number");
        let mut last: Option<(Duration, i64, i64)> = None;
        for point in &self.points {
            let at = Stamp(point.at);
            match point.mark {
                Mark::Data {
                    start,
                    end,
                    again,
                    syn,
                    fin,
                    ..
                } if point.side == sender => {
                    let color = if again { "red" } else { "white" };
                    let _ = writeln!(
                        out,
                        "{color}\ndarrow {at} {start}\nuarrow {at} {end}\nline {at} {start} {at} {end}"
                    );
                    if again {
                        let _ = writeln!(out, "atext {at} {end}\nR");
                    }
                    if syn || fin {
                        let name = if syn { "SYN" } else { "FIN" };
                        let _ = writeln!(out, "atext {at} {end}\n{name}");
                    }
                }
                Mark::Ack { ack, edge, .. } if point.side != sender => {
                    if let Some((before, old_ack, old_edge)) = last {
                        let before = Stamp(before);
                        let _ = writeln!(
                            out,
                            "green\nline {before} {old_ack} {at} {old_ack}\nline {at} {old_ack} {at} {ack}"
                        );
                        let _ = writeln!(
                            out,
                            "yellow\nline {before} {old_edge} {at} {old_edge}\nline {at} {old_edge} {at} {edge}"
                        );
                    }
                    if last.is_some_and(|(_, old, _)| old == ack) {
                        let _ = writeln!(out, "green\ndtick {at} {ack}");
                    }
                    last = Some((point.at, ack, edge));
                }
                Mark::Reset => {
                    let y = last.map_or(0, |(_, ack, _)| ack);
                    let _ = writeln!(out, "red\nctext {at} {y}\nRST");
                }
                _ => {}
            }
        }
        out.push_str("go\n");
        out
    }

    /// All points as CSV with the columns `t_s,packet,from,mark,seq_start,seq_end,ack,edge,flight,bytes,rtt_ms`.
    pub fn csv(&self) -> String {
        let mut out = String::from("t_s,packet,from,mark,seq_start,seq_end,ack,edge,flight,bytes,rtt_ms\n");
        for point in &self.points {
            let from = match point.side {
                Side::Client => "client",
                Side::Server => "server",
            };
            let _ = write!(out, "{},{},{from},", Stamp9(point.at), point.packet);
            let _ = match point.mark {
                Mark::Data {
                    start,
                    end,
                    again,
                    flight,
                    ..
                } => {
                    let name = if again { "data-again" } else { "data" };
                    writeln!(out, "{name},{start},{end},,,{flight},,")
                }
                Mark::Ack { ack, edge, flight } => writeln!(out, "ack,,,{ack},{edge},{flight},,"),
                Mark::Cwnd { bytes } => writeln!(out, "cwnd,,,,,,{bytes},"),
                Mark::Rtt { rtt } => writeln!(out, "rtt,,,,,,,{}", rtt.as_nanos() as f64 / 1e6),
                Mark::Reset => writeln!(out, "reset,,,,,,,"),
            };
        }
        out
    }
}

/// Seconds and microseconds, the form of xplot's `timeval`.
struct Stamp(Duration);

impl core::fmt::Display for Stamp {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{:06}", self.0.as_secs(), self.0.subsec_micros())
    }
}

/// Seconds and nanoseconds.
struct Stamp9(Duration);

impl core::fmt::Display for Stamp9 {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{:09}", self.0.as_secs(), self.0.subsec_nanos())
    }
}
