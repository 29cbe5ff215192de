//! `weir cache replay --shared`: what the shared cache of `[[proxy]]` would have done with logged requests. Reads the logs once,
//! line by line, and counts what could not be judged. The server's own replay decides.

mod report;

use super::lines;
use crate::cli::cache::{Replay, Size};
use crate::failure::Failure;
use crate::voice::Voice;
use accesslog::{Fault, Record};
use report::{Report, Row};
use server::cache::Policy;
use server::config::ProxyCache;
use server::replay::shared::{self, Assumed, Fate, Limits, Logged};
use std::ops::ControlFlow;
use units::{Bytes, Word as _};

/// Default budgets. The second is that of `[proxy.cache]`.
const SIZES: [Size; 4] = [
    Size::Bytes(Bytes::mib(16)),
    Size::Bytes(Bytes::mib(64)),
    Size::Bytes(Bytes::mib(256)),
    Size::Bytes(Bytes::mib(1_024)),
];

/// Most names of fields in `--vary`. The server stores no response with more.
const VARY_MAX: usize = 32;

/// Lines by what became of them, except those that were judged.
#[derive(Debug, Default)]
struct Tally {
    lines: u64,
    /// Not understood.
    faults: u64,
    /// Log, line and fault of the first line not understood.
    first_fault: Option<(String, u64, Fault)>,
    /// Lines without a request the server understood.
    no_request: u64,
    /// The target is no path.
    target: u64,
    /// The path does not belong to the rule.
    path: u64,
    /// Requests that no cache answers.
    method: Passed,
    status: Passed,
    length: Passed,
    /// Names of fields in `--vary`, each with the judged requests that have it.
    vary: Vec<(String, u64)>,
    /// Whether the logs exceeded a limit.
    is_cut: bool,
}

/// Requests that always go to the upstream.
#[derive(Clone, Copy, Debug, Default)]
struct Passed {
    requests: u64,
    /// Bytes of content, as far as they are logged.
    bytes: u64,
}

impl Passed {
    fn add(&mut self, bytes: Option<u64>) {
        self.requests += 1;
        self.bytes += bytes.unwrap_or(0);
    }
}

/// Reads the logs and judges the caches.
///
/// # Errors
/// `Usage` if a size is invalid, a log is missing or nothing can be judged; `System` if a log cannot be read.
pub(super) fn judge(flags: &Replay, voice: &Voice) -> Result<Report, Failure> {
    let mut vary = flags.vary.clone();
    vary.sort_unstable();
    vary.dedup();
    if vary.len() > VARY_MAX {
        return Err(Failure::Usage(format!(
            "--vary names {} fields; a response that names more than {VARY_MAX} is not stored",
            vary.len()
        )));
    }
    let assumed = Assumed {
        stale_while_revalidate: flags.stale_while_revalidate.unwrap_or_default().as_secs(),
        stale_if_error: flags.stale_if_error.unwrap_or_default().as_secs(),
        vary,
        lifetime: flags.lifetime.unwrap_or_default().as_secs(),
        negative: flags.negative_time.unwrap_or_default().as_secs(),
        object_max: flags
            .max_object_size
            .unwrap_or_else(|| ProxyCache::default().max_object_size)
            .0,
        path: flags.path.clone(),
    };
    let mut rows = caches(flags)?;
    let caches: Vec<(u64, Policy)> = rows
        .iter()
        .map(|row| (row.capacity.unwrap_or(u64::MAX), row.policy))
        .collect();
    let mut replay = shared::Replay::new(assumed.clone(), Limits::DEFAULT, &caches);
    let mut tally = Tally {
        vary: assumed.vary.iter().map(|name| (name.clone(), 0)).collect(),
        ..Tally::default()
    };
    lines::each(&flags.logs, voice, |at, record| {
        tally.lines += 1;
        match record {
            Ok(record) => tally.take(&mut replay, &record),
            Err(fault) => {
                tally.faults += 1;
                tally
                    .first_fault
                    .get_or_insert_with(|| (at.log.to_owned(), at.number, fault));
            }
        }
        Ok(match tally.is_cut {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    })?;
    for (row, outcome) in rows.iter_mut().zip(replay.outcomes()) {
        row.outcome = outcome;
    }
    let judged = replay.judged();
    if judged.requests == 0 {
        return Err(Failure::Usage(nothing(&tally, flags)));
    }
    Ok(Report {
        assumed,
        tally,
        judged,
        rows,
    })
}

impl Tally {
    fn take(&mut self, replay: &mut shared::Replay, record: &Record<'_>) {
        let Some(request) = &record.request else {
            self.no_request += 1;
            return;
        };
        let content = record.body_bytes.filter(|_| !record.is_cut);
        // The host is part of every key.
        let names = self.vary.iter().filter(|(name, _)| name != "host");
        let values: Vec<_> = names
            .filter_map(|(name, _)| Some((name.as_str(), record.field(name)?)))
            .collect();
        let fields: Vec<(&str, &[u8])> = values.iter().map(|(name, value)| (*name, &**value)).collect();
        let fate = replay.take(&Logged {
            fields: &fields,
            at: record.at,
            method: &request.method,
            host: record.host.as_deref().or(record.vhost.as_deref()),
            target: &request.target,
            status: record.status,
            content,
        });
        let has = |name: &str| match name {
            "host" => record.host.is_some() || record.vhost.is_some(),
            name => fields.iter().any(|(its, _)| *its == name),
        };
        let present: Vec<bool> = self.vary.iter().map(|(name, _)| has(name)).collect();
        match fate {
            Fate::Judged => {
                for ((_, count), is_present) in self.vary.iter_mut().zip(present) {
                    *count += u64::from(is_present);
                }
            }
            Fate::Method => self.method.add(record.body_bytes),
            Fate::Status => self.status.add(record.body_bytes),
            Fate::Length => self.length.add(record.body_bytes),
            Fate::Target => self.target += 1,
            Fate::Path => self.path += 1,
            Fate::Full => self.is_cut = true,
        }
    }
}

/// A row for each cache, and one for a cache with room for everything.
fn caches(flags: &Replay) -> Result<Vec<Row>, Failure> {
    let without_references: Vec<Policy> = Policy::ALL
        .iter()
        .copied()
        .filter(|policy| !policy.anticipates())
        .collect();
    let policies = match &flags.policy[..] {
        [] => &without_references[..],
        some => some,
    };
    let sizes = match &flags.size[..] {
        [] => &SIZES[..],
        some => some,
    };
    let mut rows = Vec::new();
    for size in sizes {
        let bytes = match *size {
            Size::Number(bytes) | Size::Bytes(Bytes(bytes)) => bytes,
            Size::Share(share) => {
                return Err(Failure::Usage(format!(
                    "with --shared, a size is a number of bytes, not {}%; write --size 64MiB",
                    share * 100.0
                )));
            }
        };
        if bytes < ProxyCache::SIZE_MIN.0 {
            return Err(Failure::Usage(format!(
                "a shared cache of {bytes} bytes is too small; the minimum is {}, as in [proxy.cache]",
                ProxyCache::SIZE_MIN
            )));
        }
        rows.extend(policies.iter().map(|&policy| Row::new(Some(bytes), policy)));
    }
    rows.push(Row::new(None, Policy::Lru));
    Ok(rows)
}

/// Why nothing was judged.
fn nothing(tally: &Tally, flags: &Replay) -> String {
    let names: Vec<String> = flags
        .logs
        .iter()
        .map(|path| format!("`{}`", path.display()))
        .collect();
    let names = names.join(", ");
    match &tally.first_fault {
        _ if tally.lines == 0 => format!("{names}: no lines"),
        Some((name, line, fault)) if tally.faults == tally.lines => format!(
            "no line of {names} is in a known format (Common, Combined, JSON of weir serve); {name}, line {line}, {fault}"
        ),
        _ => {
            let of_path = match &flags.path {
                Some(path) => format!(" for `{path}`"),
                None => String::new(),
            };
            format!(
                "no line of {names} is a GET or HEAD{of_path} whose response a shared cache stores, so there is nothing to \
                 replay ({} lines)",
                tally.lines
            )
        }
    }
}
