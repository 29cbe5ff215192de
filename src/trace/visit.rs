//! `--har`: the requests of a visit, as a browser recorded them, beside the packets that carried them. The archive knows what the
//! browser waited for before each request, and the capture what happened on the way after it.
//!
//! ```text
//!   archive ──▶ entries by start ─────────────────┐
//!                                                 ├─▶ same method and target, nearest in time ──▶ Object
//!   capture ──▶ requests, findings, connections ──┘
//! ```
//! The clocks of browser and capture may differ. Requests that both have once tell by how much.

mod page;

use super::Subject;
use super::security::printable;
use crate::archive::{Archive, Entry};
use crate::failure::Failure;
use ::trace::{Connection, Event, Finding, Kind, Quic, Spread, TARGET_MAX, Transaction};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::net::IpAddr;
use std::path::Path;
use units::Duration;
use url::Position;

/// Limit on results of the capture that are kept until its end; later ones are counted.
const RESULTS_MAX: usize = 1 << 16;
/// Limits on connections and findings that the page lists; it counts all of them.
const CONNECTIONS_MAX: usize = 200;
const FINDINGS_MAX: usize = 1_000;
/// How far a request of the capture may be outside the time of its entry, in milliseconds.
const SLACK: f64 = 1_000.0;

/// What an object waited for by the archive, before its request: name in JSON, column.
const BEFORE: [(&str, &str); 4] = [
    ("queued_ms", "queued"),
    ("lookup_ms", "lookup"),
    ("connect_ms", "connect"),
    ("tls_ms", "TLS"),
];
/// What it waited for by the capture, from its request on; last, the time that only the archive has.
const AFTER: [(&str, &str); 8] = [
    ("round_trip_ms", "trip"),
    ("server_ms", "server"),
    ("behind_ms", "behind"),
    ("loss_ms", "loss"),
    ("ack_timer_ms", "timer"),
    ("flow_control_ms", "flow"),
    ("transfer_ms", "transfer"),
    ("rest_ms", "rest"),
];

/// An interval of the capture, in milliseconds since its first frame.
type Interval = (f64, f64);

/// Requests of the capture by method and target.
type Index<'a> = HashMap<(&'a str, &'a str), Vec<usize>>;

/// An archive, and the results of the capture so far.
#[derive(Debug)]
pub(super) struct Visit {
    archive: Archive,
    requests: Vec<Request>,
    /// By connection.
    pauses: HashMap<u64, Vec<Pause>>,
    /// By connection.
    routes: HashMap<u64, Route>,
    /// What the page lists.
    connections: Vec<Carrier>,
    findings: Vec<Finding>,
    totals: Totals,
    kept: usize,
    dropped: u64,
    /// Whether there is a capture.
    pub(super) is_observed: bool,
    /// The link of the visit, if another command made it.
    link: Option<String>,
}

/// What the page counts, whether it is listed or not.
#[derive(Debug, Default)]
struct Totals {
    connections: u64,
    /// Packets that carried data again, or were lost.
    again: u64,
    findings: u64,
    /// By title.
    kinds: BTreeMap<&'static str, OfKind>,
}

/// All findings of a kind.
#[derive(Debug)]
struct OfKind {
    count: u64,
    cost: Duration,
    remedy: &'static str,
}

/// A connection for the page.
#[derive(Debug)]
enum Carrier {
    Tcp(Box<Connection>),
    Quic(Box<Quic>),
}

/// A request of the capture; times in milliseconds since the first frame.
#[derive(Debug)]
struct Request {
    connection: u64,
    index: u64,
    stream: Option<u32>,
    method: String,
    target: String,
    start: f64,
    sent: f64,
    /// First byte of the response; `sent` without one.
    answered: f64,
    done: f64,
    flow_control: f64,
}

/// What a connection could not do for a while.
#[derive(Debug)]
struct Pause {
    interval: Interval,
    cause: Cause,
    title: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// Data was sent again.
    Loss,
    /// An acknowledgment waited for a timer.
    AckTimer,
    /// The receiver's window was closed.
    Flow,
}

/// What is known of a connection.
#[derive(Debug)]
struct Route {
    server: IpAddr,
    server_name: Option<String>,
    /// Smallest one, in milliseconds; 0 if it is not known.
    round_trip: f64,
}

/// When the responses of a connection came, by their first bytes.
#[derive(Default)]
struct Arrivals {
    /// From the first byte to the last, and the number of the request.
    responses: Vec<(Interval, usize)>,
    /// For each, the latest last byte of those up to it.
    latest: Vec<f64>,
}

/// The archive beside the capture.
pub(super) struct Joined<'a> {
    visit: &'a Visit,
    archive: &'a Archive,
    /// Milliseconds by which the capture's clock is ahead; `None` if no request tells.
    clock: Option<f64>,
    objects: Vec<Object<'a>>,
}

/// An object of the visit; times in milliseconds.
struct Object<'a> {
    entry: &'a Entry,
    before: [f64; BEFORE.len()],
    /// `None` if its request is not in the capture.
    after: Option<After<'a>>,
}

struct After<'a> {
    request: &'a Request,
    waits: [f64; AFTER.len()],
    /// Titles of the findings within its time.
    findings: Vec<&'static str>,
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl Visit {
    /// Reads an archive.
    ///
    /// # Errors
    /// `Usage` if it cannot be read, or is no archive.
    pub(super) fn read(path: &Path) -> Result<Visit, Failure> {
        Archive::read(path, "--har").map(Visit::new)
    }

    fn new(archive: Archive) -> Visit {
        Visit {
            archive,
            requests: Vec::new(),
            pauses: HashMap::new(),
            routes: HashMap::new(),
            connections: Vec::new(),
            findings: Vec::new(),
            totals: Totals::default(),
            kept: 0,
            dropped: 0,
            is_observed: true,
            link: None,
        }
    }

    /// Names the visit by its page instead of the file.
    pub(super) fn concerns(&mut self, subject: &Subject<'_>) {
        subject.page.clone_into(&mut self.archive.name);
        self.link = Some(subject.link.to_owned()).filter(|link| !link.is_empty());
    }

    /// Takes a result of the capture.
    pub(super) fn event(&mut self, event: &Event) {
        let is_used = matches!(
            event,
            Event::Transaction(_) | Event::Finding(_) | Event::Connection(_) | Event::Quic(_)
        );
        if !is_used {
            return;
        }
        self.totals.add(event);
        if self.kept >= RESULTS_MAX {
            self.dropped += 1;
            return;
        }
        self.kept += 1;
        match event {
            Event::Transaction(transaction) => self.requests.push(Request::of(transaction)),
            Event::Finding(finding) => {
                if let Some(pause) = Pause::of(finding) {
                    self.pauses.entry(finding.connection.0).or_default().push(pause);
                }
                if self.findings.len() < FINDINGS_MAX {
                    self.findings.push(finding.clone());
                }
            }
            Event::Connection(connection) => {
                let hello = connection.tls.as_ref().and_then(|tls| tls.client.as_ref());
                let route = Route {
                    server: connection.server.address(),
                    server_name: hello.and_then(|hello| hello.server_name.clone()),
                    round_trip: round_trip(connection.handshake, &connection.from_client.rtt),
                };
                self.routes.insert(connection.id.0, route);
                if self.connections.len() < CONNECTIONS_MAX {
                    self.connections.push(Carrier::Tcp(connection.clone()));
                }
            }
            Event::Quic(quic) => {
                let hello = quic.client_hello.as_ref();
                let route = Route {
                    server: quic.server.address(),
                    server_name: hello.and_then(|hello| hello.server_name.clone()),
                    round_trip: round_trip(quic.handshake, &quic.from_client.rtt),
                };
                self.routes.insert(quic.id.0, route);
                if self.connections.len() < CONNECTIONS_MAX {
                    self.connections.push(Carrier::Quic(quic.clone()));
                }
            }
            _ => {}
        }
    }

    /// Joins both. `start_ns` is the time of the capture's first frame. Logs a warning if there is nothing to join, or not all.
    pub(super) fn joined(&self, start_ns: u64) -> Joined<'_> {
        let (found, clock) = self.matched(start_ns as f64 / 1e6);
        if self.is_observed && found.iter().all(Option::is_none) {
            tracing::warn!(
                "--har: no request of `{}` is in the capture; capture on the browser's machine during the visit, and for TLS and \
                 QUIC, name the browser's key log with --keys",
                self.archive.name
            );
        }
        if self.dropped > 0 {
            tracing::warn!(
                "--har: {} results of the capture beyond the limit are not used; choose fewer with --host and --port",
                self.dropped
            );
        }
        let arrivals = self.arrivals();
        let entries = self.archive.entries.iter().zip(found);
        let objects = entries.map(|(entry, found)| Object {
            entry,
            before: [
                entry.phases.blocked,
                entry.phases.lookup,
                entry.phases.connect,
                entry.phases.tls,
            ],
            after: found.map(|number| self.after(entry, number, &arrivals)),
        });
        Joined {
            visit: self,
            archive: &self.archive,
            clock,
            objects: objects.collect(),
        }
    }

    /// The request of each entry, and the difference of the clocks. `start`: time of the capture's first frame, in milliseconds
    /// since 1970.
    fn matched(&self, start: f64) -> (Vec<Option<usize>>, Option<f64>) {
        let mut index = Index::new();
        for (number, request) in self.requests.iter().enumerate() {
            let key = (request.method.as_str(), request.target.as_str());
            index.entry(key).or_default().push(number);
        }
        let mut single: HashMap<usize, Vec<f64>> = HashMap::new();
        for entry in self.archive.entries.iter().filter(|entry| !entry.is_cached) {
            let mut all = self.candidates(&index, entry);
            if let (Some(number), None) = (all.next(), all.next()) {
                let ahead = start + self.requests[number].start - entry.sent();
                single.entry(number).or_default().push(ahead);
            }
        }
        let mut clocks: Vec<f64> = single
            .into_values()
            .filter_map(|all| match *all {
                [ahead] => Some(ahead),
                _ => None,
            })
            .collect();
        clocks.sort_by(f64::total_cmp);
        let clock = clocks.get(clocks.len() / 2).copied();
        // From the archive's time to that of the capture.
        let shift = clock.unwrap_or(0.0) - start;
        let mut taken = vec![false; self.requests.len()];
        let found = self.archive.entries.iter().map(|entry| {
            if entry.is_cached {
                return None;
            }
            let (earliest, latest) = (entry.start + shift - SLACK, entry.end() + shift + SLACK);
            let distance = |number: usize| (self.requests[number].start - entry.sent() - shift).abs();
            let best = self
                .candidates(&index, entry)
                .filter(|&number| !taken[number])
                .filter(|&number| (earliest..=latest).contains(&self.requests[number].start))
                .min_by(|&one, &other| distance(one).total_cmp(&distance(other)));
            if let Some(best) = best {
                taken[best] = true;
            }
            best
        });
        (found.collect(), clock)
    }

    /// Requests of the capture with the method and target of the entry, to a server that may be its own.
    fn candidates<'a>(&'a self, index: &'a Index<'a>, entry: &'a Entry) -> impl Iterator<Item = usize> {
        let cut = |target: &'a str| target.get(..TARGET_MAX).unwrap_or(target);
        // A proxy gets the whole URL (RFC 9112, section 3.2.2).
        let whole = &entry.url[..Position::AfterQuery];
        let found = index
            .get(&(entry.method.as_str(), cut(entry.target())))
            .or_else(|| index.get(&(entry.method.as_str(), cut(whole))));
        let found = found.into_iter().flatten().copied();
        found.filter(move |&number| self.fits(entry, &self.requests[number]))
    }

    /// Whether the connection of the request may be one to the server of the entry.
    fn fits(&self, entry: &Entry, request: &Request) -> bool {
        let Some(route) = self.routes.get(&request.connection) else {
            return true;
        };
        let is_named = route.server_name.is_some() && route.server_name.as_deref() == entry.url.host_str();
        is_named || entry.server.is_none_or(|server| server == route.server)
    }

    /// The responses of each connection.
    fn arrivals(&self) -> HashMap<u64, Arrivals> {
        let mut all: HashMap<u64, Arrivals> = HashMap::new();
        for (number, request) in self.requests.iter().enumerate() {
            let of_connection = all.entry(request.connection).or_default();
            let interval = (request.answered, request.done);
            of_connection.responses.push((interval, number));
        }
        for of_connection in all.values_mut() {
            of_connection.sort();
        }
        all
    }

    /// What the object waited for from its request on.
    fn after(&self, entry: &Entry, number: usize, arrivals: &HashMap<u64, Arrivals>) -> After<'_> {
        let request = &self.requests[number];
        let route = self.routes.get(&request.connection);
        let pauses = self.pauses.get(&request.connection);
        let pauses = || pauses.into_iter().flatten();
        let round_trip = route.map_or(0.0, |route| route.round_trip);
        let returned = (request.sent + round_trip).min(request.answered);
        let mut waiting = vec![(returned, request.answered)];
        let mut coming = vec![(request.answered, request.done)];
        let [loss, timer, closed] = [Cause::Loss, Cause::AckTimer, Cause::Flow].map(|cause| {
            let of_cause = pauses().filter(|pause| pause.cause == cause);
            let cover: Vec<Interval> = of_cause.map(|pause| pause.interval).collect();
            claim(&mut waiting, &cover) + claim(&mut coming, &cover)
        });
        let others = arrivals.get(&request.connection);
        let others = others.map(|of_connection| of_connection.during((returned, request.answered), number));
        let behind = claim(&mut waiting, &others.unwrap_or_default());
        let left = length(&coming);
        let held = request.flow_control.min(left);
        let seen = request.done - request.start;
        let within = |pause: &&Pause| pause.interval.0 < request.done && pause.interval.1 > request.start;
        let mut findings: Vec<&'static str> = pauses().filter(within).map(|pause| pause.title).collect();
        findings.sort_unstable();
        findings.dedup();
        After {
            request,
            waits: [
                returned - request.sent,
                length(&waiting),
                behind,
                loss,
                timer,
                closed + held,
                request.sent - request.start + left - held,
                (entry.phases.exchange() - seen).max(0.0),
            ],
            findings,
        }
    }
}

impl Totals {
    fn add(&mut self, event: &Event) {
        match event {
            Event::Finding(finding) => {
                self.findings += 1;
                let kind = self.kinds.entry(finding.kind.title()).or_insert(OfKind {
                    count: 0,
                    cost: Duration::ZERO,
                    remedy: finding.kind.remedy(),
                });
                kind.count += 1;
                kind.cost += finding.cost;
            }
            Event::Connection(tcp) => {
                self.connections += 1;
                for side in [&tcp.from_client, &tcp.from_server] {
                    self.again += side.retransmissions.packets + side.out_of_order_late;
                }
            }
            Event::Quic(quic) => {
                self.connections += 1;
                for side in [&quic.from_client, &quic.from_server] {
                    self.again += side.lost + side.lost_before;
                }
            }
            _ => {}
        }
    }
}

impl Arrivals {
    fn sort(&mut self) {
        self.responses
            .sort_by(|(one, _), (other, _)| one.0.total_cmp(&other.0));
        let last_bytes = self.responses.iter().map(|((_, last), _)| *last);
        self.latest = last_bytes
            .scan(f64::NEG_INFINITY, |latest, last| {
                *latest = latest.max(last);
                Some(*latest)
            })
            .collect();
    }

    /// The responses that came at least in part within an interval, except that of one request, in the order of the capture.
    fn during(&self, (from, to): Interval, except: usize) -> Vec<Interval> {
        let end = self.responses.partition_point(|((first, _), _)| *first < to);
        let start = self.latest[..end].partition_point(|latest| *latest <= from);
        let mut found: Vec<(Interval, usize)> = self.responses[start..end]
            .iter()
            .filter(|((_, last), number)| *last > from && *number != except)
            .copied()
            .collect();
        // Sums of floating-point numbers depend on the order.
        found.sort_unstable_by_key(|(_, number)| *number);
        found.into_iter().map(|(interval, _)| interval).collect()
    }
}

impl Request {
    fn of(transaction: &Transaction) -> Request {
        let start = ms(transaction.start);
        let sent = start + ms(transaction.request);
        let answered = sent + transaction.wait.map_or(0.0, ms);
        Request {
            connection: transaction.connection.0,
            index: transaction.index,
            stream: transaction.stream,
            method: transaction.method.clone(),
            target: transaction.target.clone(),
            start,
            sent,
            answered,
            done: answered + transaction.receive.map_or(0.0, ms),
            flow_control: transaction.flow_control.map_or(0.0, ms),
        }
    }
}

impl Pause {
    /// `None` for findings that are no single interval.
    fn of(finding: &Finding) -> Option<Pause> {
        // Some findings have the time of their beginning, some that of their end.
        let (cause, is_end) = match &finding.kind {
            Kind::FastRecovery { .. }
            | Kind::Reordering { .. }
            | Kind::QuicLossRecovery { .. }
            | Kind::QuicProbeTimeout { .. } => (Cause::Loss, false),
            Kind::RetransmissionTimeout { .. } => (Cause::Loss, true),
            Kind::ShortInitialSegment { .. }
            | Kind::OddShortFinalSegment { .. }
            | Kind::DelayedAck { .. }
            | Kind::NagleBuffering { .. } => (Cause::AckTimer, true),
            Kind::ZeroWindow { .. } => (Cause::Flow, false),
            _ => return None,
        };
        let (at, cost) = (ms(finding.at), ms(finding.cost));
        let from = if is_end { at - cost } else { at };
        Some(Pause {
            interval: (from, from + cost),
            cause,
            title: finding.kind.title(),
        })
    }
}

/// The smallest round trip that handshake and acknowledgments show, in milliseconds.
fn round_trip(handshake: Option<Duration>, rtt: &Spread) -> f64 {
    let measured = (rtt.count > 0).then_some(rtt.min);
    let all = handshake.into_iter().chain(measured);
    all.min().map_or(0.0, ms)
}

/// Takes the covered parts out of intervals that do not overlap, and returns their length.
fn claim(free: &mut Vec<Interval>, cover: &[Interval]) -> f64 {
    let mut taken = 0.0;
    for &(from, to) in cover {
        let mut left = Vec::new();
        for &(start, end) in free.iter() {
            let (covered, until) = (start.max(from), end.min(to));
            if covered >= until {
                left.push((start, end));
                continue;
            }
            taken += until - covered;
            let around = [(start, covered), (until, end)];
            left.extend(around.into_iter().filter(|(start, end)| start < end));
        }
        *free = left;
    }
    taken
}

fn length(intervals: &[Interval]) -> f64 {
    // The sum of no numbers is -0.0, which would be printed.
    intervals.iter().map(|(from, to)| to - from).sum::<f64>() + 0.0
}

impl Object<'_> {
    /// All that it waited for; without a request in the capture, the time of the archive.
    fn total(&self) -> f64 {
        let after = self.after.as_ref();
        let after = after.map_or(self.entry.phases.exchange(), |after| after.waits.iter().sum());
        self.before.iter().sum::<f64>() + after
    }
}

impl Joined<'_> {
    fn in_capture(&self) -> usize {
        let found = self.objects.iter().filter(|object| object.after.is_some());
        found.count()
    }

    /// Sums over all objects; those of the capture over the objects in it.
    fn sums(&self) -> ([f64; BEFORE.len()], [f64; AFTER.len()]) {
        let (mut before, mut after) = ([0.0; BEFORE.len()], [0.0; AFTER.len()]);
        for object in &self.objects {
            add(&mut before, &object.before);
            if let Some(found) = &object.after {
                add(&mut after, &found.waits);
            }
        }
        (before, after)
    }

    /// Lines of `--json`: one for each object, then one for the visit.
    pub(super) fn json(&self) -> Vec<String> {
        let objects = self.objects.iter().map(|object| {
            let after = object.after.as_ref();
            let mut line = json!({
                "event": "object",
                "method": object.entry.method,
                "url": object.entry.url.as_str(),
                "start_ms": object.entry.start - self.archive.start(),
                "total_ms": object.total(),
                "connection": after.map(|after| after.request.connection),
                "index": after.map(|after| after.request.index),
                "stream": after.and_then(|after| after.request.stream),
                "findings": after.map(|after| &after.findings),
            });
            name(&mut line, &object.before, after.map(|after| &after.waits));
            line
        });
        let mut visit = json!({
            "event": "visit",
            "file": self.archive.name,
            "objects": self.objects.len(),
            "in_capture": self.in_capture(),
            "elapsed_ms": self.archive.elapsed(),
            "clock_ms": self.clock,
        });
        let (before, after) = self.sums();
        name(&mut visit, &before, Some(&after));
        let lines = objects.chain([visit]);
        lines.map(|line| format!("{line}\n")).collect()
    }

    /// The table.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        let found = match self.visit.is_observed {
            true => format!("{} of {} in the capture", self.in_capture(), self.objects.len()),
            false => format!("{}, without a capture", self.objects.len()),
        };
        let _ = write!(
            out,
            "\nobjects of `{}`: {found}, {:.1} ms from the first request to the last byte",
            printable(&self.archive.name),
            self.archive.elapsed()
        );
        if let Some(load) = self.archive.page.load {
            let _ = write!(out, ", loaded after {load:.1} ms");
        }
        if let Some(clock) = self.clock {
            let _ = write!(out, "; clock of the capture {clock:+.1} ms");
        }
        out.push_str("\nmilliseconds by what each object waited for; times of different objects overlap\n");
        let _ = write!(out, "{:>9} {:>9}", "start", "total");
        for (_, column) in BEFORE.iter().chain(&AFTER) {
            let _ = write!(out, " {column:>8}");
        }
        let _ = writeln!(out, " {:>6}  object", "conn");
        for object in &self.objects {
            let start = object.entry.start - self.archive.start();
            let _ = write!(out, "{start:>9.1} {:>9.1}", object.total());
            let after = object.after.as_ref();
            cells(&mut out, &object.before, after.map(|after| &after.waits));
            let connection = after.map_or("-".to_owned(), |after| after.request.connection.to_string());
            let _ = write!(
                out,
                " {connection:>6}  {} {}",
                printable(&object.entry.method),
                object.entry.url
            );
            if let Some(after) = after.filter(|after| !after.findings.is_empty()) {
                let _ = write!(out, " ({})", after.findings.join(", "));
            }
            if let Some(why) = &object.entry.error {
                let _ = write!(out, " ({})", printable(why));
            }
            out.push('\n');
        }
        let (before, after) = self.sums();
        let all: f64 = self.objects.iter().map(Object::total).sum();
        let _ = write!(out, "{:>9} {all:>9.1}", "sum");
        cells(&mut out, &before, Some(&after));
        out.push('\n');
        out
    }
}

/// Writes the page of --report.
///
/// # Errors
/// `System` if the file cannot be written.
#[allow(
    clippy::disallowed_methods,
    reason = "a command writes the file it is told to"
)]
pub(super) fn write(path: &Path, page: &str) -> Result<(), Failure> {
    std::fs::write(path, page).map_err(|error| {
        Failure::System(format!(
            "cannot write `{}`: {error}; name a file in a writable directory",
            path.display()
        ))
    })
}

fn add<const N: usize>(sums: &mut [f64; N], times: &[f64; N]) {
    for (sum, time) in sums.iter_mut().zip(times) {
        *sum += time;
    }
}

/// Adds the times under their names; `null` for those that only a capture has.
fn name(line: &mut Value, before: &[f64; BEFORE.len()], after: Option<&[f64; AFTER.len()]>) {
    for ((name, _), time) in BEFORE.iter().zip(before) {
        line[*name] = json!(time);
    }
    for (place, (name, _)) in AFTER.iter().enumerate() {
        line[*name] = json!(after.map(|after| after[place]));
    }
}

/// Adds the times as cells; `-` for those that only a capture has.
fn cells(out: &mut String, before: &[f64; BEFORE.len()], after: Option<&[f64; AFTER.len()]>) {
    let known = before.iter().chain(after.into_iter().flatten());
    let known = known.map(|time| format!("{time:.1}"));
    let missing = if after.is_some() { 0 } else { AFTER.len() };
    for cell in known.chain(std::iter::repeat_n("-".to_owned(), missing)) {
        let _ = write!(out, " {cell:>8}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests for these targets: start in milliseconds, blocked before, wait.
    pub(super) fn visit(entries: &[(&str, u32, f64, f64)]) -> Visit {
        let entry = |(target, at, blocked, wait): &(&str, u32, f64, f64)| {
            format!(
                r#"{{"startedDateTime":"1970-01-01T00:01:00.{at:03}Z","serverIPAddress":"192.0.2.1",
                    "request":{{"method":"GET","url":"http://h{target}"}},
                    "timings":{{"blocked":{blocked},"send":0,"wait":{wait},"receive":10}}}}"#
            )
        };
        let entries: Vec<String> = entries.iter().map(entry).collect();
        let text = format!(r#"{{"log":{{"entries":[{}]}}}}"#, entries.join(","));
        let mut visit = Visit::new(Archive::parse(&text, "x.har".to_owned()).expect("an archive"));
        for (connection, server) in [(1, [192_u8, 0, 2, 1]), (2, [192, 0, 2, 2])] {
            let route = Route {
                server: server.into(),
                server_name: None,
                round_trip: 20.0,
            };
            visit.routes.insert(connection, route);
        }
        visit
    }

    pub(super) fn request(connection: u64, target: &str, start: f64, wait: f64, receive: f64) -> Request {
        Request {
            connection,
            index: 0,
            stream: None,
            method: "GET".to_owned(),
            target: target.to_owned(),
            start,
            sent: start,
            answered: start + wait,
            done: start + wait + receive,
            flow_control: 0.0,
        }
    }

    #[test]
    fn parts_of_intervals_are_claimed_once() {
        let mut free = vec![(0.0, 10.0), (20.0, 30.0)];
        assert_eq!(claim(&mut free, &[(5.0, 25.0), (8.0, 26.0), (40.0, 50.0)]), 11.0);
        assert_eq!(free, [(0.0, 5.0), (26.0, 30.0)]);
        assert_eq!(length(&free), 9.0);
        assert_eq!(format!("{:.1}", length(&[])), "0.0");
    }

    #[test]
    fn responses_during_a_wait_are_found_by_time_and_kept_in_the_order_of_the_capture() {
        let mut visit = visit(&[("/own", 0, 0.0, 30.0)]);
        visit.requests = vec![
            request(1, "/late", 0.0, 40.0, 10.0),
            request(1, "/long", 0.0, 5.0, 100.0),
            request(1, "/own", 0.0, 30.0, 10.0),
            request(2, "/elsewhere", 0.0, 20.0, 10.0),
            request(1, "/early", 0.0, 6.0, 4.0),
            request(1, "/within", 0.0, 20.0, 2.0),
            request(1, "/touching", 0.0, 30.0, 2.0),
        ];
        let arrivals = visit.arrivals();
        let found = arrivals[&1].during((10.0, 30.0), 2);
        assert_eq!(found, [(5.0, 105.0), (20.0, 22.0)]);
        assert_eq!(arrivals[&1].during((0.0, 5.0), 2), []);
        assert_eq!(arrivals[&1].during((45.0, 50.0), 2), [(40.0, 50.0), (5.0, 105.0)]);
    }

    #[test]
    fn requests_are_matched_by_target_server_and_time_on_clocks_that_differ() {
        let mut visit = visit(&[
            ("/", 0, 0.0, 50.0),
            ("/twice", 100, 0.0, 50.0),
            ("/twice", 300, 0.0, 50.0),
            ("/missing", 400, 0.0, 50.0),
        ]);
        visit.requests = vec![
            request(1, "/twice", 301.0, 50.0, 10.0),
            request(1, "/twice", 101.0, 50.0, 10.0),
            request(2, "/", 3.0, 50.0, 10.0),
            request(1, "/", 1.0, 50.0, 10.0),
            request(2, "/missing", 401.0, 50.0, 10.0),
        ];
        // The capture's clock is an hour ahead.
        let (found, clock) = visit.matched(60_000.0 + 3_600_000.0);
        assert_eq!(found, [Some(3), Some(1), Some(0), None]);
        assert_eq!(clock, Some(3_600_001.0));
        // Nothing that is more than a second away.
        visit.requests = vec![
            request(1, "/twice", 101.0, 50.0, 10.0),
            request(1, "/twice", 9_000.0, 50.0, 10.0),
        ];
        assert_eq!(visit.matched(60_000.0).0, [None, Some(0), None, None]);
    }

    #[test]
    fn the_time_of_an_object_is_split_without_rest_and_overlap() {
        let mut visit = visit(&[("/a", 0, 5.0, 100.0), ("/b", 0, 0.0, 100.0)]);
        visit.requests = vec![
            request(1, "/a", 5.0, 80.0, 20.0),
            // Another response comes while the first is waited for.
            request(1, "/b", 5.0, 50.0, 10.0),
        ];
        visit.requests[0].flow_control = 4.0;
        let pause = |from, to, cause| Pause {
            interval: (from, to),
            cause,
            title: "fast recovery",
        };
        // Within the round trip, in the wait and across the first byte; the last is of a time without the object.
        visit.pauses.insert(
            1,
            vec![
                pause(0.0, 30.0, Cause::Loss),
                pause(80.0, 90.0, Cause::Loss),
                pause(88.0, 92.0, Cause::AckTimer),
                pause(500.0, 600.0, Cause::Flow),
            ],
        );
        let joined = visit.joined(60_000_000_000);
        let object = &joined.objects[0];
        assert_eq!(object.before, [5.0, 0.0, 0.0, 0.0]);
        let after = object.after.as_ref().expect("in the capture");
        // Round trip until 25, loss until 30, server until 55, the other response until 65, server until 80, loss until 90,
        // timer until 92, flow control 4, transfer 9; 110 in the archive, 100 in the capture.
        assert_eq!(after.waits, [20.0, 40.0, 10.0, 15.0, 2.0, 4.0, 9.0, 10.0]);
        assert_eq!(after.findings, ["fast recovery"]);
        assert_eq!(object.total(), 115.0);
        let text = joined.text();
        assert!(text.contains("`x.har`: 2 of 2 in the capture"), "{text}");
        assert!(text.contains("http://h/a (fast recovery)\n"), "{text}");
        let lines = joined.json();
        assert_eq!(lines.len(), 3);
        let visit: Value = serde_json::from_str(&lines[2]).expect("JSON");
        assert_eq!(visit["queued_ms"], json!(5.0));
        assert_eq!(visit["in_capture"], json!(2));
    }
}
