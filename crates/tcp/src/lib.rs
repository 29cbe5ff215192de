//! A TCP endpoint as a pure state machine, with the behavior of named stacks, for the simulator.
//!
//! States and rules are those of RFC 9293. A [`Stack`] holds the behavior in which stacks differ: initial
//! window, delayed ACKs, Nagle's algorithm per call or per segment, silly-window avoidance, idle restart and
//! timers. Each of its parameters has a name and a source in `data/stacks.toml`. An [`Endpoint`] has no socket,
//! clock or random numbers: it takes segments, application calls and instants, and returns segments. Selective
//! acknowledgments (RFC 2018, recovery by RFC 6675) and window scaling (RFC 7323) are used if both stacks
//! support them. Not modeled: RACK-TLP, duplicate SACK, other options, protection against wrapped sequence
//! numbers, urgent data, ECN and path MTU discovery.
//!
//! ```
//! use units::{Duration, Instant};
//! use tcp::{Endpoint, Setup, Stack};
//! let setup = |iss| Setup::new(Stack::preset("4.4bsd").expect("a preset"), iss);
//! let now = Instant::ZERO;
//! let mut client = Endpoint::connect(setup(1), now);
//! let mut server = Endpoint::listen(setup(9));
//! for _ in 0..3 {
//!     while let Some(segment) = client.transmit() { server.receive(segment, now); }
//!     while let Some(segment) = server.transmit() { client.receive(segment, now); }
//! }
//! assert!(client.is_established() && server.is_established());
//! assert_eq!(client.write(b"hello", now), 5);
//! server.receive(client.transmit().expect("a segment"), now);
//! assert_eq!(server.read(100), b"hello");
//! ```

mod ack;
mod capture;
mod congestion;
mod copied;
mod endpoint;
mod receive;
mod rto;
mod scoreboard;
mod segment;
mod send;
mod stack;
mod state;
mod suspicion;
mod wire;

pub use ack::beat_after;
pub use capture::Capture;
pub use congestion::Congestion;
pub use endpoint::{Endpoint, Limits, Setup};
pub use rto::Rto;
pub use segment::{Flags, Segment, Stamps};
pub use stack::{AckRule, AckTimer, IdleRestart, NagleIdle, PRESETS, SpuriousTimeouts, Stack};
pub use state::{Closed, State};
pub use wire::{internet_checksum, ipv4_packet, parse_ipv4_packet};
