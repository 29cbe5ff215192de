//! A line with a declared rate, and which waiting response goes next.
//!
//! ```text
//!   an answer has bytes to send ──▶ Egress::hold ──▶ Order (least left first; an eighth to the eldest)
//!                                                     │
//!                         Egress::next ◀── Bucket ◀─────┘   so many bytes may leave now
//!                             │
//!                             ▼ the socket took fewer: Egress::used gives the rest back
//! ```
//! A server that fills its sockets cannot choose whose bytes leave first: send buffers and the queue before the slowest
//! line on the path hold data long before it leaves. If the server sends no faster than that line, the queue is in the
//! server, and can be ordered. All workers of a process share the [`bucket`]; each worker has its own [`order`];
//! [`egress`] combines both. Time is an argument; nothing here knows sockets.

mod bucket;
mod egress;
mod order;

pub(crate) use bucket::Bucket;
pub use egress::Withheld;
pub(crate) use egress::{Egress, Grant};

use core::fmt;
use core::str::FromStr;
use units::{Duration, Rate};

/// Content bytes of a full segment: 1500 without the headers of IPv4 (20), of TCP (20) and its timestamps (12).
const SEGMENT: u64 = 1448;
/// Line bytes of each segment beyond its content.
const HEADERS: u64 = 52;
/// Line bytes of a full segment.
const FULL: u64 = SEGMENT + HEADERS;
/// Percentage of the declared rate that is used. The rest is for packets the server does not schedule (handshakes, pure
/// ACKs, retransmissions), and lets a queue before the line drain.
const USED: u64 = 99;
/// Burst that may leave at once after a pause.
const BURST: Duration = Duration::from_millis(2);
/// Minimum burst: with fewer segments, every write would be one segment.
const BURST_SEGMENTS: u64 = 4;
/// One byte in this many belongs to the response that began first.
const SHARE: u64 = 8;

/// The slowest line on the path to the clients, used by this server alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shaping {
    /// The line's rate, IP and TCP headers included.
    pub rate: Rate,
    /// Which response leaves first.
    pub precedence: Precedence,
}

impl Shaping {
    /// The minimum rate that can be declared: below it, a single segment takes longer than a quarter of a second.
    pub const RATE_MIN: Rate = Rate::kbit(50);
    /// The maximum: above it, a worker's turn takes longer than the burst.
    pub const RATE_MAX: Rate = Rate(100_000_000_000);

    /// Maximum bytes sent per second, headers included.
    fn bytes_per_second(self) -> u64 {
        (self.rate.0.clamp(Shaping::RATE_MIN.0, Shaping::RATE_MAX.0) / 8 * USED / 100).max(1)
    }

    /// Line bytes that may leave at once after a pause.
    fn burst(self) -> u64 {
        let span = u64::try_from(BURST.as_nanos()).unwrap_or(u64::MAX);
        let bytes = u128::from(self.bytes_per_second()) * u128::from(span) / 1_000_000_000;
        u64::try_from(bytes)
            .unwrap_or(u64::MAX)
            .max(BURST_SEGMENTS * FULL)
    }

    /// Maximum bytes that a connection may have in the kernel unsent (`TCP_NOTSENT_LOWAT`): more would be a queue that
    /// the server cannot order. A full burst comes on top, because the kernel takes a started write whole.
    pub fn unsent_max(self) -> usize {
        usize::try_from((self.burst() / 2).max(2 * SEGMENT)).unwrap_or(usize::MAX)
    }
}

/// Which response leaves first when all of them wait for the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precedence {
    /// The response with the fewest bytes left (smallest remaining first), with a share for the one that began first.
    #[default]
    Smallest,
    /// All in turn.
    Shared,
}

impl Precedence {
    /// All orders.
    pub const ALL: [Precedence; 2] = [Precedence::Smallest, Precedence::Shared];

    /// Its name in configurations and flags.
    pub const fn name(self) -> &'static str {
        match self {
            Precedence::Smallest => "smallest",
            Precedence::Shared => "shared",
        }
    }
}

impl fmt::Display for Precedence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Precedence {
    type Err = String;
    fn from_str(text: &str) -> Result<Precedence, String> {
        let found = Precedence::ALL.into_iter().find(|known| known.name() == text);
        found.ok_or_else(|| format!("`{text}` is not a valid line order; choose one of: smallest, shared"))
    }
}

/// Line bytes of `content`, divided into full segments.
fn on_the_line(content: u64) -> u64 {
    content + content.div_ceil(SEGMENT) * HEADERS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_takes_1500_bytes_and_what_is_left_of_an_answer_one_of_its_own() {
        for (content, line) in [(0, 0), (1, 53), (1448, 1500), (1449, 1553), (14_480, 15_000)] {
            assert_eq!(on_the_line(content), line);
        }
    }

    #[test]
    fn names_read_back() {
        for one in Precedence::ALL {
            assert_eq!(one.to_string().parse(), Ok(one));
        }
        assert!(
            "largest"
                .parse::<Precedence>()
                .unwrap_err()
                .contains("smallest, shared")
        );
    }

    #[test]
    fn a_burst_is_two_milliseconds_and_at_least_four_segments() {
        let of = |rate| Shaping {
            rate,
            precedence: Precedence::Smallest,
        };
        assert_eq!(of(Rate::mbit(1000)).burst(), 247_500);
        assert_eq!(of(Rate::mbit(20)).burst(), 6_000);
        assert_eq!(of(Rate::kbit(100)).unsent_max(), 3_000);
        assert_eq!(of(Rate::mbit(1000)).unsent_max(), 123_750);
    }
}
