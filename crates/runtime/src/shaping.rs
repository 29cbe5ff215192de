//! A line whose rate was declared, and who of those that wait for it goes next.
//!
//! ```text
//!   an answer has bytes to send ──▶ Gate::hold ──▶ Order (least left first; an eighth to the eldest)
//!                                                     │
//!                         Gate::next ◀── Bucket ◀─────┘   so many bytes may leave now
//!                             │
//!                             ▼ the socket took fewer: Gate::used gives the rest back
//! ```
//! A server that fills its sockets has no say in whose bytes leave first: send buffers and the queue before the
//! slowest line on the way hold what was sent long before it leaves. If the server sends no faster than that line,
//! the queue is its own, and can be ordered. The [`bucket`] is shared by all workers of a process, the [`order`] is
//! each worker's own; [`gate`] puts both together. Time is an argument; nothing here knows sockets.

mod bucket;
mod gate;
mod order;

pub(crate) use bucket::Bucket;
pub use gate::Withheld;
pub(crate) use gate::{Gate, Grant};

use core::fmt;
use core::str::FromStr;
use measure::{Duration, Rate};

/// Bytes of content in a full segment: 1500 without the headers of IPv4 (20), of TCP (20) and its timestamps (12).
const SEGMENT: u64 = 1448;
/// What each segment takes of the line beyond its content.
const HEADERS: u64 = 52;
/// Bytes of the line that a full segment takes.
const FULL: u64 = SEGMENT + HEADERS;
/// Of the declared rate the hundredths that are used. The rest is for what the server does not send by its own
/// decision (handshakes, pure acknowledgments, segments sent again), and lets a queue that formed before the line go.
const USED: u64 = 99;
/// So much may leave at once after a pause.
const BURST: Duration = Duration::from_millis(2);
/// But always so many segments: fewer would make every write a segment.
const BURST_SEGMENTS: u64 = 4;
/// Of so many bytes one belongs to the answer that began first.
const SHARE: u64 = 8;

/// The slowest line on the way to the clients, which the server has to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shaping {
    /// What the line carries, headers of IP and TCP included.
    pub rate: Rate,
    /// Whose bytes leave first.
    pub precedence: Precedence,
}

impl Shaping {
    /// The least rate that can be declared: below it a single segment takes longer than a quarter of a second.
    pub const RATE_MIN: Rate = Rate::kbit(50);
    /// The most: above it a turn of a worker takes longer than what may leave at once.
    pub const RATE_MAX: Rate = Rate(100_000_000_000);

    /// Bytes per second that are sent at the most, headers included.
    fn bytes_per_second(self) -> u64 {
        (self.rate.0.clamp(Shaping::RATE_MIN.0, Shaping::RATE_MAX.0) / 8 * USED / 100).max(1)
    }

    /// Bytes of the line that may leave at once after a pause.
    fn burst(self) -> u64 {
        let span = u64::try_from(BURST.as_nanos()).unwrap_or(u64::MAX);
        let bytes = u128::from(self.bytes_per_second()) * u128::from(span) / 1_000_000_000;
        u64::try_from(bytes)
            .unwrap_or(u64::MAX)
            .max(BURST_SEGMENTS * FULL)
    }

    /// What a connection may have handed to the kernel that is not on its way yet (`TCP_NOTSENT_LOWAT`): more would be
    /// a queue that nobody can order. A full burst comes on top, as a write that is begun is taken whole.
    pub fn unsent_max(self) -> usize {
        usize::try_from((self.burst() / 2).max(2 * SEGMENT)).unwrap_or(usize::MAX)
    }
}

/// Whose bytes leave first when all of them wait for the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precedence {
    /// The answer with the least left to send (smallest remaining first), with a share for the one that began first.
    #[default]
    Smallest,
    /// All in turn.
    Shared,
}

impl Precedence {
    /// All there are.
    pub const ALL: [Precedence; 2] = [Precedence::Smallest, Precedence::Shared];

    /// Its name in configurations.
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

/// Bytes of the line that `content` takes, cut into full segments.
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
