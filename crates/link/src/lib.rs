//! The emulated link: composable queues that delay, pace, lose, hold and drop packets.
//!
//! Pure code: the driver passes in the time and carries packets in and out. It serves two network namespaces as
//! well as two simulated hosts. Nothing here reads a clock or a file, and random numbers come from a seed.
//! Every part implements the four methods of [`Queue`], modeled on Mahimahi's link shells.
//!
//! ```
//! use link::{Datagram, Direction, Path, Profile};
//! use units::{Instant, Seed};
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
