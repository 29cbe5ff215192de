//! What a crew is told, and what it shows during the run: its users or arrivals, its settings, its live counters.

use super::Sharing;
use crate::arrivals::Arrivals;
use crate::replies::Accept;
use crate::request_source::RequestSource;
use crate::scenario::Script;
use crate::work::Work;
use client::plan::Mode;
use client::session::Ending;
use core::sync::atomic::AtomicU64;
use std::sync::Arc;
use units::Duration;

/// Arrival model of a crew.
#[derive(Debug)]
pub enum Model {
    /// Closed loop: each user starts at its offset from the run's start, then alternates between fetching and thinking.
    Closed(Vec<(Duration, RequestSource)>),
    /// Open loop: objects are requested at their arrival times.
    Open {
        /// Arrival times of this shard.
        arrivals: Arrivals,
        /// Objects, one per arrival of the whole process, so that every shard draws the same sequence.
        source: RequestSource,
        /// Connection limit.
        lines_max: u32,
    },
}

/// Settings of a crew.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Files and objects to request.
    pub work: Arc<Work>,
    /// Connections and request order, as in document 000.
    pub mode: Mode,
    /// The part of every request after its target.
    pub ending: Arc<Ending>,
    /// Statuses that count as success.
    pub accept: Accept,
    /// Whether the content of a 200 response must have the known length of its file. False if responses may be coded.
    pub lengths: bool,
    /// Time excluded from all figures except rates: events whose intended time lies before its end go to the record of the
    /// warm-up.
    pub warmup: Duration,
    /// Time after the start when the run stops beginning objects. All times here count from the start.
    pub duration: Duration,
    /// Completions after this time, and during the warm-up, are left out of rates; at most `duration`.
    pub counted: Duration,
    /// Time after `duration` in which pending objects may still complete.
    pub grace: Duration,
    /// Maximum time a response may make no progress.
    pub timeout: Duration,
    /// Whether content is compared with the manifest's digests.
    pub verify: bool,
    /// Minimum number of remaining content bytes to skip in the kernel instead of copying them: they are counted, not
    /// inspected. Ignored if `verify` is set.
    pub unseen_from: u64,
    /// Requests that a user has outstanding at once, each on a connection of its own or, with `sharing`, on a stream. In
    /// an open loop over HTTP/1, 1.
    pub lanes: u32,
    /// How requests share connections: HTTP/2, with this mode; `None` for HTTP/1.
    pub sharing: Option<Arc<Sharing>>,
    /// Whether a layer below secures connections, so that a handshake follows each connection.
    pub secured: bool,
    /// Scenarios, whose steps are the files; the sources then give numbers of starts. Needs a mode with one request
    /// outstanding per user, and one lane.
    pub script: Option<Arc<Script>>,
    /// Seconds since 1970 at the start of the run: cookies of scenarios expire at dates.
    pub started: i64,
}

/// Live counters of a crew, for progress output.
#[derive(Debug, Default)]
pub struct Live {
    /// Completed files.
    pub files: AtomicU64,
    /// Content bytes received.
    pub bytes: AtomicU64,
    /// Errors of any kind.
    pub errors: AtomicU64,
    /// Objects in progress.
    pub active: AtomicU64,
    /// Sum of the response times of completed files, in nanoseconds.
    pub response_ns: AtomicU64,
    /// Longest response time since the last reset, in nanoseconds. The reader resets it to 0.
    pub longest_ns: AtomicU64,
}
