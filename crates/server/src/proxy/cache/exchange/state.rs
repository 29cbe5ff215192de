//! How far the cache's part in one exchange is: what it waits for, whom others wait for, and what it does with the response.
//!
//! ```text
//!   New ── look_up ─┬─ stored ───────▶ Replied
//!    ▲              ├─ on the disk ──▶ Loading ───┐
//!    │              ├─ under way ────▶ Collapsed ─┤
//!    └──────────────┼──── woken, or too late ─────┘
//!                   └─ neither ──────▶ Forwarded ─┬─ 304, or an error with a stand-in ─▶ Replied
//!                                                 ├─ stored ───────────────────────────▶ Storing ─▶ Over
//!                                                 └─ not stored, or failed ────────────▶ Over
//! ```
//! The exchange decides on each step; here is what belongs to each state.

use super::super::body::Growing;
use super::super::flight::{Lead, WaitGuard, Waiter};
use super::super::object::Reply;
use super::super::store::Lookup;
use http_cache::partial::Part;
use http_cache::stored::Stored;
use http_semantics::request::Protocol;
use units::{Instant, UnixTime};

/// A state of the cache's part in an exchange.
#[derive(Debug)]
pub(super) enum State {
    /// A stored response is to be looked for, or to be looked for again. With what the first lookup has found, if that was made
    /// already.
    New(Option<Lookup>),
    /// It waits for a response from the disk.
    Loading(Wait),
    /// It waits since then for the request of another client.
    Collapsed { wait: Wait, since: Instant },
    /// The upstream has the request or will get it. Others may wait for its response.
    Forwarded(Option<Lead>),
    /// The upstream's response is being stored. Others may wait for the end of it.
    Storing {
        capture: Box<Capture>,
        lead: Option<Lead>,
    },
    /// The cache has the response for the client.
    Replied {
        reply: Reply,
        /// The response is stale, and a request of the server's own is to validate it.
        refresh: Option<Lead>,
    },
    /// The cache does no more for the exchange.
    Over,
}

impl State {
    /// The flight of others that wait for the upstream's response.
    pub(super) fn lead(&self) -> Option<&Lead> {
        match self {
            State::Forwarded(lead) | State::Storing { lead, .. } => lead.as_ref(),
            _ => None,
        }
    }

    /// Moves that flight out of the state.
    pub(super) fn take_lead(&mut self) -> Option<Lead> {
        match self {
            State::Forwarded(lead) | State::Storing { lead, .. } => lead.take(),
            _ => None,
        }
    }

    /// The wait that is under way.
    pub(super) fn wait(&self) -> Option<&WaitGuard> {
        match self {
            State::Loading(wait) | State::Collapsed { wait, .. } => Some(&wait.guard),
            _ => None,
        }
    }
}

/// A wait for the disk or for another client's request.
#[derive(Debug)]
pub(super) struct Wait {
    pub(super) guard: WaitGuard,
    /// The driver knows of it.
    is_told: bool,
}

impl Wait {
    pub(super) fn new(guard: WaitGuard) -> Wait {
        Wait {
            guard,
            is_told: false,
        }
    }

    /// What the driver is to be told, once.
    pub(super) fn tell(&mut self) -> Option<Waiter> {
        let is_told = std::mem::replace(&mut self.is_told, true);
        (!is_told).then(|| Waiter::clone(&self.guard))
    }
}

/// A response that is being stored.
#[derive(Debug)]
pub(super) struct Capture {
    pub(super) head: Stored,
    /// When the head arrived.
    pub(super) at: UnixTime,
    pub(super) names: Vec<String>,
    pub(super) variant: Vec<u8>,
    pub(super) body: Growing,
    pub(super) part: Option<Part>,
    pub(super) received: Protocol,
}
