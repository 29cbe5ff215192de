//! Which of several upstreams gets the next request.
//!
//! ```text
//!   request ─▶ Balancer::enter ─▶ health: which upstreams take part ─▶ policy: which of them ─▶ Visit
//!                    ▲                                                                            │
//!                    └── state of each upstream ◀── opened, answered, failed, leave ◀─────────────┘
//! ```
//! Pure: time and randomness are arguments. The same code decides in the server and in the experiment
//! ([`simulate`]). Each policy has a file of its own; it sees the upstreams and returns the index of one.

mod balancer;
mod choices;
mod estimate;
mod ewma;
mod hash;
mod health;
mod least;
mod policy;
pub mod record;
pub mod simulate;
mod speeds;
mod turnaround;
mod turns;
mod upstream;

pub use balancer::{Balancer, Request, Settings, State, Visit};
pub use hash::of_bytes;
pub use policy::Policy;
