//! The record of a rule's choices (`balance-record`): what each request saw, where it went, and what became of it.
//!
//! ```text
//!   enter ─▶ Note, with the request ─▶ answered, failed ─▶ leave ─▶ a line ─▶ runtime::logfile: a bounded queue, a thread
//! ```
//! Decides how much is recorded: a file has at most 256 MiB, and lines are dropped if the disk is slower than the requests.
//! `balance::record` has the format.

use crate::config::{Proxy, UpstreamAddress};
use ::balance::record::{Candidate, Choice, End, Named, Start, VERSION, micros};
use ::balance::{State, Visit};
use runtime::clock;
use runtime::logfile::{LogFile, Target, length_of};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use units::{Duration, Instant};

/// Most bytes of a file: those of a few hundred thousand choices.
const FILE_MAX: u64 = 256 << 20;

/// The record of a rule.
#[derive(Debug)]
pub(super) struct Recorder {
    path: PathBuf,
    log: LogFile,
    start: Start,
    /// Time of the first choice.
    began: OnceLock<Instant>,
    requests: AtomicU64,
    /// Bytes that the file can still take.
    left: AtomicU64,
    is_full: AtomicBool,
    has_dropped: AtomicBool,
}

/// A choice whose request is under way.
#[derive(Debug)]
pub(super) struct Note {
    at: Duration,
    request: u64,
    key: u64,
    tried: u64,
    seen: Vec<(usize, State)>,
    /// How the upstream failed, and after which time.
    failure: OnceLock<(End, Duration)>,
}

/// What the exchange knows of a request that leaves its upstream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Left {
    /// Bytes of content for the client.
    pub(crate) bytes: u64,
    /// Status of the response; 0 if none was passed on.
    pub(crate) status: u16,
    /// The request may be sent again although an upstream may have processed it.
    pub(crate) is_repeatable: bool,
}

impl Recorder {
    /// Opens the file of this rule, if it names one.
    ///
    /// # Errors
    /// In words, why the file cannot be opened.
    pub(super) fn open(rule: &Proxy) -> Result<Option<Recorder>, String> {
        let Some(path) = &rule.balance_record else {
            return Ok(None);
        };
        let log = LogFile::open(Target::File(path.clone())).map_err(|error| {
            format!(
                "cannot open the file `{}` of `balance-record`: {error}; its folder must exist and be writable",
                path.display()
            )
        })?;
        let named = |(at, upstream): (usize, &UpstreamAddress)| Named {
            address: upstream.to_string(),
            weight: rule.weights.get(at).copied().unwrap_or(1),
        };
        Ok(Some(Recorder {
            path: path.clone(),
            log,
            start: Start {
                balance_record: VERSION,
                weir: env!("CARGO_PKG_VERSION").to_owned(),
                began_ms: 0,
                rule: rule.path.to_string(),
                policy: rule.balance,
                upstreams: rule.upstreams.iter().enumerate().map(named).collect(),
                max_failures: rule.max_failures,
                ejection_us: micros(rule.ejection_time),
                slow_start_us: micros(rule.slow_start),
                retries: rule.retries,
            },
            began: OnceLock::new(),
            requests: AtomicU64::new(0),
            left: AtomicU64::new(FILE_MAX.saturating_sub(length_of(path))),
            is_full: AtomicBool::new(false),
            has_dropped: AtomicBool::new(false),
        }))
    }

    /// Whether choices are recorded: the file is not full.
    pub(super) fn is_on(&self) -> bool {
        !self.is_full.load(Ordering::Relaxed)
    }

    /// A choice among these upstreams. `request`: the number of the request, if this is not its first choice.
    pub(super) fn note(
        &self,
        (tried, key): (u64, u64),
        seen: Vec<(usize, State)>,
        request: Option<u64>,
        now: Instant,
    ) -> Note {
        let began = self.began.get_or_init(|| {
            let wall = clock::wall();
            let began_ms = wall.secs.unsigned_abs() * 1_000 + u64::from(wall.nanos / 1_000_000);
            // The file may end within a line, as after a kill.
            self.write(
                b"\n",
                &Start {
                    began_ms,
                    ..self.start.clone()
                },
            );
            now
        });
        Note {
            at: now.max(*began) - *began,
            request: request.unwrap_or_else(|| self.requests.fetch_add(1, Ordering::Relaxed)),
            key,
            tried,
            seen,
            failure: OnceLock::new(),
        }
    }

    /// The request of a choice is no longer at its upstream.
    pub(super) fn leave(&self, note: &Note, visit: &Visit, left: Left) {
        let failure = note.failure.get();
        let service = |seconds: f64| (seconds * 1e6) as u64;
        let choice = Choice {
            at_us: micros(note.at),
            rule: self.start.rule.clone(),
            request: note.request,
            key: format!("{:016x}", note.key),
            tried: (0..64).filter(|at| note.tried & 1 << at != 0).collect(),
            candidates: note
                .seen
                .iter()
                .map(|(at, state)| Candidate::of(*at, state))
                .collect(),
            chosen: visit.at,
            connect_us: visit.connect.map(micros),
            response_us: visit.answer.map(|(took, _)| micros(took)),
            service_us: visit.answer.map(|(_, seconds)| service(seconds)),
            failed_us: failure.map(|(_, took)| micros(*took)),
            bytes: left.bytes,
            status: (left.status != 0).then_some(left.status),
            outcome: match failure {
                Some((end, _)) => *end,
                None if visit.answer.is_some() => End::Answered,
                None => End::GivenUp,
            },
            repeatable: left.is_repeatable,
        };
        self.write(b"", &choice);
    }

    fn write(&self, before: &[u8], value: &impl Serialize) {
        let mut line = before.to_vec();
        if serde_json::to_writer(&mut line, value).is_err() {
            debug_assert!(false, "numbers and texts can be written");
            return;
        }
        line.push(b'\n');
        let bytes = line.len() as u64;
        let less = |left: u64| left.checked_sub(bytes);
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        if taken.is_err() {
            if !self.is_full.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    "recording of choices stopped: `{}` has reached 256 MiB; move it away and reload",
                    self.path.display()
                );
            }
            return;
        }
        let (_, dropped) = self.log.write(line);
        if dropped > 0 && !self.has_dropped.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "`{}` misses choices: the disk is slower than the requests; use another disk",
                self.path.display()
            );
        }
    }
}

impl Note {
    /// Number of its request.
    pub(super) fn request(&self) -> u64 {
        self.request
    }

    /// The upstream failed, this long after the choice. The first failure counts.
    pub(super) fn failed(&self, is_processed: bool, took: Duration) {
        let end = match is_processed {
            true => End::Failed,
            false => End::Unprocessed,
        };
        let _ = self.failure.set((end, took));
    }
}
