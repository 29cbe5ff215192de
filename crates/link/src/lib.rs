//! The emulated link: queues that delay, pace, lose, hold and drop packets, and compose.
//!
//! Pure: the driver says what time it is and carries packets in and out; the same queues stand between two
//! network namespaces and between two simulated hosts. Nothing here reads a clock or a file, and chance
//! comes from a seed. A queue answers four questions ([`Queue`]), after Mahimahi's link shells.
//!
//! ```
//! use link::{Datagram, Direction, Path, Profile};
//! use measure::{Instant, Seed};
//! let profile = Profile::preset("ppp").expect("a preset");
//! let mut path = Path::new(&profile, Seed(1), &link::Limits::default());
//! path.send(Direction::Up, Datagram::new(vec![0; 1500]), Instant::ZERO);
//! let arrived = loop {
//!     let at = path.next_departure().expect("one packet is under way");
//!     if path.receive(Direction::Up, at).is_some() {
//!         break at;
//!     }
//! };
//! // (1500 + 8) bytes at 28.8 kbit/s, then half of 150 ms.
//! assert_eq!(arrived.as_nanos(), 418_888_889 + 75_000_000);
//! ```

mod bottleneck;
mod chain;
mod codel;
mod delay;
mod discipline;
mod hold;
mod limits;
mod loss;
mod mtu;
mod packet;
mod path;
mod profile;
mod queue;
mod spec;
mod trace;

pub use bottleneck::{Bottleneck, Framing, Server};
pub use chain::Chain;
pub use codel::CodelParams;
pub use delay::{Delay, Jitter};
pub use discipline::Discipline;
pub use hold::{AckHold, HoldTimer};
pub use limits::Limits;
pub use loss::{Loss, LossModel};
pub use mtu::Mtu;
pub use packet::{Datagram, Flow, Packet, TcpView};
pub use path::{Direction, Path};
pub use profile::{PRESETS, Profile, Way};
pub use queue::{Cause, Counters, Drops, Queue, Verdict};
pub use spec::SpecError;
pub use trace::{OPPORTUNITY, Trace, TraceError};

#[cfg(test)]
mod tests;
