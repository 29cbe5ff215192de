//! From lines of a log to a trace: the requests that count, their objects, lengths and embedded files. Bounded,
//! because a log may be longer than memory.

use super::lines::{self, At};
use crate::cli::cache::Replay;
use crate::failure::Failure;
use crate::voice::Voice;
use accesslog::{Fault, OneHost, Record};
use runtime::fs::Root;
use server::replay::{self, Kind, Object, REFERENCES_MAX, Trace};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;

/// Limits of a trace.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Largest number of requests: four bytes each, and about forty while bounds are computed.
    requests_max: usize,
    /// Largest number of objects, whose paths are kept.
    objects_max: usize,
}

const LIMITS: Limits = Limits {
    requests_max: 100_000_000,
    objects_max: 10_000_000,
};

/// A log as a trace.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) trace: Trace,
    /// Requested files and their total bytes.
    pub(super) requested_files: u64,
    pub(super) requested_bytes: u64,
    pub(super) lines: u64,
    pub(super) skipped: Skipped,
    pub(super) source: Source,
    /// Files of the log that are missing below the root.
    pub(super) missing: u64,
    /// Whether the log exceeded a limit.
    pub(super) is_cut: bool,
}

/// Counts of skipped lines by reason.
#[derive(Debug, Default)]
pub(super) struct Skipped {
    /// Not understood.
    pub(super) faults: u64,
    /// Log, line and fault of the first line not understood.
    pub(super) first_fault: Option<(String, u64, Fault)>,
    /// Lines without a request the server understood.
    pub(super) no_request: u64,
    /// Not GET.
    pub(super) method: u64,
    /// Not 200, 206 or 304.
    pub(super) status: u64,
    /// The target is no path of a site.
    pub(super) target: u64,
}

/// Source of the embedded files of pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Source {
    /// None: no line had a `Referer`.
    #[default]
    Nowhere,
    /// The `Referer` of requests.
    Referer,
    /// The files below the root.
    Files,
}

impl Source {
    pub(super) fn name(self) -> &'static str {
        match self {
            Source::Nowhere => "none",
            Source::Referer => "referer",
            Source::Files => "root",
        }
    }
}

/// Reads the given logs, and the files if a root is given.
///
/// # Errors
/// `Usage` if a log is missing or has nothing to replay, `System` if it cannot be read.
pub(super) fn read(flags: &Replay, voice: &Voice) -> Result<Log, Failure> {
    let root = flags.root.as_deref().map(open_root).transpose()?;
    let mut building = Building::new(LIMITS, root.is_none());
    lines::each(&flags.logs, voice, |at, record| building.take(at, record))?;
    let log = building.finish(root.as_ref());
    if log.trace.requests.is_empty() {
        return Err(Failure::Usage(nothing(&log, flags)));
    }
    Ok(log)
}

fn open_root(path: &Path) -> Result<Root, Failure> {
    Root::open(path)
        .map_err(|error| Failure::Usage(format!("cannot read the folder `{}`: {error}", path.display())))
}

/// Why there is nothing to replay.
fn nothing(log: &Log, flags: &Replay) -> String {
    let names: Vec<String> = flags
        .logs
        .iter()
        .map(|path| format!("`{}`", path.display()))
        .collect();
    let names = names.join(", ");
    match &log.skipped.first_fault {
        _ if log.lines == 0 => format!("{names}: no lines"),
        Some((name, line, fault)) if log.skipped.faults == log.lines => format!(
            "no line of {names} is in a known format (Common, Combined, JSON of weir serve); {name}, line \
             {line}, {fault}"
        ),
        _ => format!(
            "no line of {names} is a GET answered with 200, 206 or 304, so there is nothing to replay ({} lines)",
            log.lines
        ),
    }
}

struct Building {
    limits: Limits,
    /// Whether embedded files come from `Referer`.
    refers: bool,
    log: Log,
    numbers: HashMap<Box<[u8]>, u32>,
    one: OneHost,
}

impl Building {
    fn new(limits: Limits, refers: bool) -> Building {
        Building {
            limits,
            refers,
            log: Log::default(),
            numbers: HashMap::new(),
            one: OneHost::default(),
        }
    }

    fn take(&mut self, at: At<'_>, record: Result<Record<'_>, Fault>) -> Result<ControlFlow<()>, Failure> {
        self.log.lines += 1;
        match record {
            Ok(record) => {
                self.one.admit(&record).map_err(|several| {
                    Failure::Usage(format!("`{}`, line {}: {several}", at.log, at.number))
                })?;
                self.add(&record);
            }
            Err(fault) => {
                let skipped = &mut self.log.skipped;
                skipped.faults += 1;
                skipped
                    .first_fault
                    .get_or_insert_with(|| (at.log.to_owned(), at.number, fault));
            }
        }
        Ok(match self.log.is_cut {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    }

    fn add(&mut self, record: &Record<'_>) {
        let skipped = &mut self.log.skipped;
        let Some(request) = &record.request else {
            skipped.no_request += 1;
            return;
        };
        if *request.method != *b"GET" {
            skipped.method += 1;
            return;
        }
        if !matches!(record.status, 200 | 206 | 304) {
            skipped.status += 1;
            return;
        }
        let Some(path) = replay::resolve(&request.target) else {
            skipped.target += 1;
            return;
        };
        if self.log.trace.requests.len() >= self.limits.requests_max {
            self.log.is_cut = true;
            return;
        }
        let Some(number) = self.number(&path) else {
            self.log.is_cut = true;
            return;
        };
        self.log.trace.requests.push(number);
        let object = &mut self.log.trace.objects[number as usize];
        if record.status == 200 {
            object.size = object.size.max(record.body_bytes.unwrap_or(0));
        }
        if self.refers
            && let Some(referer) = &record.referer
            && replay::classify(&path) == Kind::Part
        {
            self.refer(referer, record.host.as_deref(), number);
        }
    }

    /// The number of a path, assigned at first use; `None` if there are too many.
    fn number(&mut self, path: &[u8]) -> Option<u32> {
        if let Some(&number) = self.numbers.get(path) {
            return Some(number);
        }
        let objects = &mut self.log.trace.objects;
        if objects.len() >= self.limits.objects_max {
            return None;
        }
        let number = objects.len() as u32;
        objects.push(Object::default());
        self.numbers.insert(path.into(), number);
        Some(number)
    }

    /// An embeddable file was requested with a page as `Referer`: count it as embedded in that page.
    fn refer(&mut self, referer: &[u8], host: Option<&[u8]>, part: u32) {
        let authority = memchr::memmem::find(referer, b"://").map(|at| &referer[at + 3..]);
        let is_here = |host: &[u8]| {
            authority.is_some_and(|authority| {
                let end = authority
                    .iter()
                    .position(|b| b"/?#".contains(b))
                    .unwrap_or(authority.len());
                authority[..end].eq_ignore_ascii_case(host)
            })
        };
        if !host.is_none_or(is_here) {
            return;
        }
        let page = replay::resolve(referer).filter(|path| replay::classify(path) == Kind::Page);
        let Some(&page) = page.and_then(|path| self.numbers.get(&path[..])) else {
            return;
        };
        let references = &mut self.log.trace.objects[page as usize].references;
        if references.len() < REFERENCES_MAX && !references.contains(&part) {
            references.push(part);
            self.log.source = Source::Referer;
        }
    }

    /// Replaces lengths and references by those of the files, where they exist.
    fn finish(mut self, root: Option<&Root>) -> Log {
        let asked_for = self.log.trace.objects.len();
        if let Some(root) = root {
            self.log.source = Source::Files;
            let mut paths: Vec<(Box<[u8]>, u32)> = self
                .numbers
                .iter()
                .map(|(path, &number)| (path.clone(), number))
                .collect();
            paths.sort_unstable_by_key(|&(_, number)| number);
            for (path, number) in paths {
                let Some(known) = replay::look(root, &path) else {
                    self.log.missing += 1;
                    continue;
                };
                let mut references = Vec::new();
                for part in &known.references {
                    references.extend(self.part(root, part, asked_for));
                }
                let object = &mut self.log.trace.objects[number as usize];
                object.size = known.size;
                object.references = references;
            }
        }
        let requested = &self.log.trace.objects[..asked_for];
        self.log.requested_files = asked_for as u64;
        self.log.requested_bytes = requested.iter().map(|object| object.size).sum();
        self.log
    }

    /// The number of what a page embeds; also of what nobody asked for, as it would be loaded, if there
    /// is such a file.
    fn part(&mut self, root: &Root, path: &[u8], asked_for: usize) -> Option<u32> {
        let is_new = !self.numbers.contains_key(path);
        let size = is_new.then(|| replay::look(root, path).map(|known| known.size));
        if size == Some(None) {
            return None;
        }
        let number = self.number(path)?;
        if number as usize >= asked_for
            && let Some(Some(size)) = size
        {
            self.log.trace.objects[number as usize].size = size;
        }
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(limits: Limits, text: &str) -> Log {
        let mut building = Building::new(limits, true);
        for (number, line) in (1..).zip(text.lines()) {
            let at = At { log: "log", number };
            let flow = building.take(at, accesslog::parse(line.as_bytes()));
            if flow.expect("one host").is_break() {
                break;
            }
        }
        building.finish(None)
    }

    fn line(target: &str, status: u16, bytes: &str, referer: &str) -> String {
        format!(
            "a - - [06/Nov/1994:08:49:37 +0000] \"GET {target} HTTP/1.1\" {status} {bytes} \"{referer}\" \"-\"\n"
        )
    }

    #[test]
    fn what_counts_is_counted_and_the_rest_is_named() {
        let text = [
            line("/", 200, "100", "-"),
            line("/a.png", 200, "50", "http://x/"),
            line("/a.png?v=2", 304, "-", "http://x/"),
            line("/b.pdf", 206, "10", "http://x/"),
            line("/missing", 404, "9", "-"),
            line("*", 200, "9", "-"),
            line("/", 200, "100", "-").replace("GET", "HEAD"),
            line("/", 400, "-", "-").replace("GET / HTTP/1.1", "-"),
            "nonsense\n".to_owned(),
        ]
        .concat();
        let log = built(LIMITS, &text);
        assert_eq!(log.trace.requests, [0, 1, 1, 2]);
        let sizes: Vec<u64> = log.trace.objects.iter().map(|object| object.size).collect();
        assert_eq!(
            (sizes, log.trace.objects[0].references.clone()),
            (vec![100, 50, 0], vec![1])
        );
        let skipped = &log.skipped;
        assert_eq!(
            [
                skipped.faults,
                skipped.no_request,
                skipped.method,
                skipped.status,
                skipped.target
            ],
            [1; 5]
        );
        assert_eq!(skipped.first_fault.as_ref().map(|(_, line, _)| *line), Some(9));
        assert_eq!((log.lines, log.source), (9, Source::Referer));
    }

    #[test]
    fn another_host_refers_to_nothing_here() {
        let json = |target: &str, referer: &str| {
            format!(
                "{{\"time\":\"1994-11-06T08:49:37Z\",\"peer\":\"a\",\"method\":\"GET\",\"target\":\"{target}\",\
                 \"host\":\"here:80\",\"referer\":\"{referer}\",\"status\":200,\"body_bytes\":5}}\n"
            )
        };
        let text = [
            json("/", ""),
            json("/a.png", "http://there/"),
            json("/b.png", "http://HERE:80/"),
        ]
        .concat();
        let log = built(LIMITS, &text);
        assert_eq!(log.trace.objects[0].references, [2]);
    }

    #[test]
    fn a_log_that_is_too_long_is_cut() {
        let text: String = (0..9).map(|n| line(&format!("/{n}"), 200, "1", "-")).collect();
        let few = |requests_max, objects_max| {
            built(
                Limits {
                    requests_max,
                    objects_max,
                },
                &text,
            )
        };
        let log = few(5, 9);
        assert_eq!((log.trace.requests.len(), log.is_cut), (5, true));
        let log = few(9, 5);
        assert_eq!((log.trace.requests.len(), log.is_cut), (5, true));
        assert!(!few(9, 9).is_cut);
    }

    #[test]
    fn a_page_has_no_more_references_than_count() {
        let parts: String = (0..100)
            .map(|n| line(&format!("/{n}.png"), 200, "1", "http://x/"))
            .collect();
        let log = built(LIMITS, &(line("/", 200, "1", "-") + &parts));
        assert_eq!(log.trace.objects[0].references.len(), REFERENCES_MAX);
    }
}
