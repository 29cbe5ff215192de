//! Documents 000 and 002 in virtual time: period servers on hosts with processors, locks, memory and a disk.
//!
//! ```text
//!   load::crew ──▶ netsim::Dialing ──▶ tcp, link ──▶ station: workers ──▶ sessions of a real service
//!                                                       │
//!                                                       └▶ processors, locks, memory, disk: costs from parameters
//! ```
//! Users, TCP, links and sessions are those of `weir load`, `weir link` and `weir serve`. Period hosts are modeled:
//! what calls, copies, switches and the disk cost, and how a server maps connections to workers. Every parameter has a
//! source in `data/hosts.toml`, which also says what was changed after a run. Deterministic: one thread, one seed.

mod costs;
mod disk;
mod lock;
mod memory;
pub mod parameters;
mod processors;
mod requests;
mod station;
pub mod world;

pub use processors::{Spent, Task};
pub use station::Counts;
