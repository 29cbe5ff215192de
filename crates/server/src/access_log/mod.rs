//! The access log: exactly one line per answered request.
//!
//! A line is composed together with its response, held while the response is being sent, and finished once its last
//! byte is handed to the kernel or the connection is lost. It then has the number of bytes actually sent:
//!
//! ```text
//!   Journal::compose ──▶ held in a slot ──▶ Journal::sent   ──▶ buffer ──▶ the log writer's thread
//!                                      └──▶ Journal::lost ──┘    (32 KiB or one second)
//! ```
//!
//! If requests are traced, their spans are made and finished with their lines, and go the same way to another destination.
//!
//! Slots and their memory are reused, so a line costs no allocation. This file decides the content of lines and when
//! they are written; it does not know where they go.

mod by_host;
mod escape;
mod span;
mod template;

use crate::clock::Clock;
use crate::config::{Config, LogFormat, LogTemplate, Variable};
use crate::host_counts::HostCounts;
use crate::hosts::Hosts;
use crate::request_limit::Seats;
use crate::traced::Trace;
use by_host::{ByHost, Place};
use escape::{push_clf, push_json};
use http_semantics::field::Fields;
use http_semantics::request::RequestHead;
use runtime::Path;
use runtime::listen::UNIX_PEER;
use runtime::session::TlsVersion;
use span::{Moment, Pending};
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use units::{Duration, Instant, UnixTime};

/// Number of buffered bytes from which on lines are written at once.
const FLUSH_BYTES: usize = 32 * 1024;

/// Longest time that a line stays in the buffer.
const FLUSH_AFTER: Duration = Duration::from_secs(1);

/// Maximum number of slots kept for reuse; more responses are rarely being sent at once.
const SPARE_SLOTS: usize = 256;

/// Largest memory of a slot kept for reuse, in bytes.
const SPARE_BYTES: usize = 4 * 1024;

/// The parts of a request that appear in a log line.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Address of the client.
    pub peer: IpAddr,
    /// Who the client is, as its certificate says.
    pub user: Option<&'a [u8]>,
    /// The stream that carried it, in a protocol with several.
    pub stream: Option<u64>,
    /// Arrival of the first byte of the request.
    pub started: Instant,
    /// The request line.
    pub line: RequestLine<'a>,
    /// Value of `Host`.
    pub host: Option<&'a [u8]>,
    /// Value of `Referer`.
    pub referer: Option<&'a [u8]>,
    /// Value of `User-Agent`.
    pub user_agent: Option<&'a [u8]>,
    /// All fields, if they are known.
    pub fields: Option<&'a Fields<'a, 'a>>,
    /// Whether the client used https: to this server, or to a trusted peer.
    pub is_secured: bool,
    /// Version of TLS, if the connection to this server is encrypted.
    pub tls: Option<TlsVersion>,
    /// What the cache for the upstream did, in a word of `Cache-Status`.
    pub cache: Option<&'static str>,
    /// The server that the request was passed to.
    pub upstream: Option<&'a Upstream<'a>>,
    /// Its id, if requests have ids.
    pub id: Option<&'a str>,
    /// Its part in its trace, if requests are traced.
    pub trace: Option<&'a Trace>,
}

impl<'a> Request<'a> {
    /// What the head of a request says; this client began to send it at `started`. The caller adds the rest.
    #[inline]
    pub(crate) fn of(head: &'a RequestHead<'a, 'a>, peer: IpAddr, started: Instant) -> Request<'a> {
        Request {
            peer,
            user: None,
            stream: None,
            started,
            line: RequestLine::Parsed {
                method: head.method_name.as_bytes(),
                target: head.target_raw,
                version: head.protocol.name(),
            },
            host: head.authority(),
            referer: head.referer(),
            user_agent: head.user_agent(),
            fields: Some(&head.fields),
            is_secured: false,
            tls: None,
            cache: None,
            upstream: None,
            id: None,
            trace: None,
        }
    }
}

/// The server that a request was passed to.
#[derive(Clone, Copy)]
pub struct Upstream<'a> {
    /// Where it listens; the host name and port if its address is unknown.
    pub target: &'a dyn fmt::Display,
    /// Time from the dial to the head of its response.
    pub took: Duration,
    /// The request to it, if its trace is recorded.
    pub call: Option<&'a Call>,
}

/// The request to an upstream, as its span describes it.
#[derive(Clone, Debug)]
pub struct Call {
    /// The last dial, or the choice of a connection.
    pub began: Instant,
    /// Whether it was encrypted.
    pub is_secured: bool,
    /// Its target.
    pub target: Arc<[u8]>,
    /// Status of the response; 0 without one.
    pub status: u16,
    /// Why there is no whole response, in a word.
    pub failure: Option<&'static str>,
}

impl fmt::Debug for Upstream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upstream({}, {:?})", self.target, self.took)
    }
}

/// The request line, as far as it arrived.
#[derive(Clone, Copy, Debug)]
pub enum RequestLine<'a> {
    /// A valid request line.
    Parsed {
        /// The method's token.
        method: &'a [u8],
        /// The target as sent by the client.
        target: &'a [u8],
        /// The version, such as `HTTP/1.1`.
        version: &'a str,
    },
    /// An invalid request line: the bytes up to the end of the first line.
    Raw(&'a [u8]),
}

/// Handle of a slot, which holds the lines of responses while they are being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

impl Slot {
    /// No slot.
    pub const NONE: Slot = Slot(u32::MAX);
}

/// Why a response was cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The client closed or lost the connection.
    Peer,
    /// The client accepted no bytes before a timeout.
    Timeout,
    /// The file became shorter or could not be read.
    File,
    /// The server that the request was passed to failed within its response.
    Upstream,
}

impl Cut {
    fn name(self) -> &'static [u8] {
        match self {
            Cut::Peer => b"peer",
            Cut::Timeout => b"timeout",
            Cut::File => b"file",
            Cut::Upstream => b"upstream",
        }
    }
}

/// The outcome of the responses of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Bytes handed to the kernel.
    pub bytes: u64,
    /// Number of responses not sent completely.
    pub cut: u64,
}

/// The log lines of one worker. Counts bytes sent even without a log.
#[derive(Debug)]
pub struct Journal {
    /// `None`: no log, or those of `by_host`.
    format: Option<LogFormat>,
    /// One line is written for so many responses that are no errors.
    sample: u32,
    /// Such responses since the last line.
    skipped: u32,
    /// The format of the operator, in place of `format`.
    template: Option<LogTemplate>,
    /// Logs of sites that differ in them; `None`: there is one log at most, in one format.
    by_host: Option<Box<ByHost>>,
    /// Where the logs go, by index.
    targets: Vec<PathBuf>,
    held: Vec<Held>,
    spare: Vec<u32>,
    /// Finished lines of the first log.
    buffer: Vec<u8>,
    buffered_since: Option<Instant>,
    /// Whether requests are traced.
    has_spans: bool,
    /// Finished spans, encoded, and their number.
    spans: (Vec<u8>, u32),
    /// The beginning of the turn.
    moment: Moment,
}

/// Responses of one connection that are being sent.
#[derive(Debug, Default)]
struct Held {
    /// Bytes given to the driver so far.
    given: u64,
    /// Bytes the kernel has accepted so far.
    taken: u64,
    text: Vec<u8>,
    lines: Vec<Line>,
    /// Places of late values in lines of templates, in order, and what belongs there.
    marks: Vec<(u32, Variable)>,
    /// Spans of the requests that are recorded, in the order of their lines.
    spans: Vec<Pending>,
    /// What the requests hold until they are answered.
    seats: Seats,
    /// State of the TCP path when the last byte was handed to the kernel, if known.
    path: Option<Path>,
}

impl Held {
    /// Forgets the lines of the last connection. A line that caused a panic has left them there.
    #[inline]
    fn forget(&mut self) {
        self.text.clear();
        self.lines.clear();
        self.marks.clear();
        self.spans.clear();
        self.path = None;
    }
}

/// One line: `text[..at]`, then the numbers known only at the end, then `text[at..end]`.
#[derive(Debug)]
struct Line {
    form: Form,
    started: Instant,
    at: u32,
    end: u32,
    head_bytes: u32,
    body_bytes: u64,
    place: Place,
}

/// How the end of a line is written.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// There is no line.
    None,
    /// A built-in format, whose numbers stand together.
    Fixed(LogFormat),
    /// A template with this many marks. Whether its lines are JSON.
    Template { marks: u16, is_json: bool },
}

impl Journal {
    /// An empty journal. Without a format, it only counts bytes.
    pub fn new(format: Option<LogFormat>) -> Journal {
        Journal {
            format,
            sample: 1,
            skipped: 0,
            template: None,
            by_host: None,
            targets: Vec::new(),
            held: Vec::new(),
            spare: Vec::new(),
            buffer: Vec::new(),
            buffered_since: None,
            has_spans: false,
            spans: (Vec::new(), 0),
            moment: Moment::default(),
        }
    }

    /// Takes over logs, if the configuration `has_logs`, formats and counts of hosts for new lines. Lines of responses being sent keep their format. They
    /// go to the log with the same target, and to the first log if there is none any more.
    pub(crate) fn follow(
        &mut self,
        config: &Config,
        hosts: &Arc<Hosts>,
        counts: &[Arc<HostCounts>],
        has_logs: bool,
    ) {
        let by_host = ByHost::of(config, hosts, counts, has_logs);
        let has_one = has_logs && by_host.is_none();
        self.set_format(has_one.then_some(config.log_format));
        self.set_template(config.log_template.clone().filter(|_| has_one));
        self.set_sample(config.log_sample);
        let targets = config.access_logs().into_iter().map(|log| log.target);
        let targets: Vec<PathBuf> = targets.collect();
        for line in self.held.iter_mut().flat_map(|held| &mut held.lines) {
            let target = self.targets.get(usize::from(line.place.log));
            let log = targets.iter().position(|one| Some(one) == target);
            let log = log.and_then(|log| u16::try_from(log).ok());
            line.place = match (&by_host, &self.by_host) {
                (Some(by_host), Some(before)) => by_host.moved(line.place, before),
                _ => Place::FIRST,
            }
            .in_log(log.unwrap_or(0));
        }
        (self.by_host, self.targets) = (by_host, targets);
    }

    /// Sets the format of new lines; lines of responses being sent keep theirs.
    pub fn set_format(&mut self, format: Option<LogFormat>) {
        self.format = format;
    }

    /// Sets the format of the operator for new lines, in place of the other; `None`: there is none.
    pub fn set_template(&mut self, template: Option<LogTemplate>) {
        self.template = template;
    }

    /// Sets whether requests are traced. Spans of responses being sent are finished in any case.
    pub fn set_spans(&mut self, has_spans: bool) {
        self.has_spans = has_spans;
    }

    /// Sets the time, on both clocks.
    pub fn set_time(&mut self, now: Instant, wall: UnixTime) {
        self.moment = Moment::new(now, wall);
    }

    /// Writes one line for `sample` responses, and one for each error.
    pub fn set_sample(&mut self, sample: u32) {
        self.sample = sample.max(1);
    }

    /// Whether a response gets no line.
    #[cold]
    fn skips(&mut self, status: u16) -> bool {
        if status >= 400 {
            return false;
        }
        self.skipped += 1;
        if self.skipped >= self.sample {
            self.skipped = 0;
        }
        self.skipped > 0
    }

    /// Keeps what a request holds until its response is sent or lost.
    pub(crate) fn hold(&mut self, slot: &mut Slot, mut seats: Seats) {
        self.slot(slot).seats.append(&mut seats);
    }

    /// Composes a line for a response of `head_bytes` and `body_bytes` that is about to be sent. `slot` receives the
    /// line, and is opened if it is [`Slot::NONE`]. Responses of one slot are sent in the order of these calls.
    #[inline]
    pub fn compose(
        &mut self,
        slot: &mut Slot,
        clock: &Clock,
        request: &Request<'_>,
        status: u16,
        head_bytes: u32,
        body_bytes: u64,
    ) {
        let sizes = (head_bytes, body_bytes);
        match self.has_spans {
            true => self.compose_traced(slot, clock, request, status, sizes),
            false => self.compose_line(slot, clock, request, status, sizes),
        }
    }

    /// Composes the line of a request and begins its span, if its trace is recorded.
    #[cold]
    fn compose_traced(
        &mut self,
        slot: &mut Slot,
        clock: &Clock,
        request: &Request<'_>,
        status: u16,
        sizes: (u32, u64),
    ) {
        let before = self.slot(slot).lines.len();
        self.compose_line(slot, clock, request, status, sizes);
        // Without a line, the bytes of this response could not be told from those of the others.
        if self.slot(slot).lines.len() == before {
            self.leave_out(slot, request, sizes, Place::FIRST);
        }
        if let Some(trace) = request.trace.filter(|trace| trace.is_sampled()) {
            let (batch, count) = &mut self.spans;
            let (pending, others) = Pending::begin(before, trace, request, status, self.moment, batch);
            *count += others;
            self.slot(slot).spans.push(pending);
        }
    }

    #[inline]
    fn compose_line(
        &mut self,
        slot: &mut Slot,
        clock: &Clock,
        request: &Request<'_>,
        status: u16,
        sizes: (u32, u64),
    ) {
        let Some(format) = self.format else {
            if self.by_host.is_some() {
                self.compose_by_host(slot, clock, request, status, sizes);
            }
            return;
        };
        if self.sample > 1 && self.skips(status) {
            return self.leave_out(slot, request, sizes, Place::FIRST);
        }
        if self.template.is_some() {
            return self.compose_by_own_template(slot, clock, request, status, sizes);
        }
        self.compose_fixed(slot, clock, request, status, sizes, (format, Place::FIRST));
    }

    /// Composes a line by the template that all sites share.
    #[cold]
    fn compose_by_own_template(
        &mut self,
        slot: &mut Slot,
        clock: &Clock,
        request: &Request<'_>,
        status: u16,
        sizes: (u32, u64),
    ) {
        if let Some(template) = self.template.clone() {
            self.compose_by_template(slot, clock, request, status, sizes, (&template, Place::FIRST));
        }
    }

    /// Composes the line of a request whose host decides about log and format.
    #[inline(never)]
    fn compose_by_host(
        &mut self,
        slot: &mut Slot,
        clock: &Clock,
        request: &Request<'_>,
        status: u16,
        sizes: (u32, u64),
    ) {
        let Some(by_host) = &self.by_host else { return };
        let (place, style) = by_host.of_request(request.host, status);
        let Some(style) = style.cloned() else {
            return self.leave_out(slot, request, sizes, place);
        };
        if self.sample > 1 && self.skips(status) {
            return self.leave_out(slot, request, sizes, place);
        }
        match &style.template {
            Some(template) => {
                self.compose_by_template(slot, clock, request, status, sizes, (template, place));
            }
            None => self.compose_fixed(slot, clock, request, status, sizes, (style.format, place)),
        }
    }

    /// Notes a response without a line. Its bytes are told from those of the other responses of its slot.
    #[cold]
    fn leave_out(
        &mut self,
        slot: &mut Slot,
        request: &Request<'_>,
        (head_bytes, body_bytes): (u32, u64),
        place: Place,
    ) {
        let held = self.slot(slot);
        let end = held.text.len() as u32;
        held.lines.push(Line {
            form: Form::None,
            started: request.started,
            at: end,
            end,
            head_bytes,
            body_bytes,
            place,
        });
    }

    /// Composes a line in a built-in format.
    #[inline]
    fn compose_fixed(
        &mut self,
        slot: &mut Slot,
        clock: &Clock,
        request: &Request<'_>,
        status: u16,
        (head_bytes, body_bytes): (u32, u64),
        (format, place): (LogFormat, Place),
    ) {
        let held = self.slot(slot);
        let at = match format {
            LogFormat::Json => json_line(&mut held.text, clock, request, status),
            LogFormat::Common => clf_line(&mut held.text, clock, request, status, false),
            LogFormat::Combined => clf_line(&mut held.text, clock, request, status, true),
        };
        held.lines.push(Line {
            form: Form::Fixed(format),
            started: request.started,
            at,
            end: held.text.len() as u32,
            head_bytes,
            body_bytes,
            place,
        });
    }

    /// The same by a template.
    #[cold]
    fn compose_by_template(
        &mut self,
        slot: &mut Slot,
        clock: &Clock,
        request: &Request<'_>,
        status: u16,
        (head_bytes, body_bytes): (u32, u64),
        (template, place): (&LogTemplate, Place),
    ) {
        let held = self.slot(slot);
        let marks = held.marks.len();
        template::compose(
            template,
            (&mut held.text, &mut held.marks),
            clock,
            request,
            status,
        );
        let end = held.text.len() as u32;
        held.lines.push(Line {
            form: Form::Template {
                marks: (held.marks.len() - marks) as u16,
                is_json: template.is_json(),
            },
            started: request.started,
            at: end,
            end,
            head_bytes,
            body_bytes,
            place,
        });
    }

    /// Puts the responses of `behind` behind those of `slot`: they are sent in this order, over one connection.
    #[inline]
    pub fn join(&mut self, slot: &mut Slot, behind: Slot) {
        match (*slot, behind) {
            (_, Slot::NONE) => {}
            (Slot::NONE, behind) => *slot = behind,
            (slot, behind) => self.append(slot, behind),
        }
    }

    fn append(&mut self, slot: Slot, behind: Slot) {
        let Some(from) = self.held.get_mut(behind.0 as usize) else {
            return;
        };
        let mut moved = std::mem::take(from);
        self.spare.push(behind.0);
        if let Some(into) = self.held.get_mut(slot.0 as usize) {
            let start = into.text.len() as u32;
            into.text.append(&mut moved.text);
            let lines = into.lines.len();
            into.spans
                .extend(moved.spans.drain(..).map(|span| span.behind(lines)));
            into.lines.extend(moved.lines.drain(..).map(|line| Line {
                at: start + line.at,
                end: start + line.end,
                ..line
            }));
            into.marks
                .extend(moved.marks.drain(..).map(|(at, variable)| (start + at, variable)));
            into.seats.append(&mut moved.seats);
            into.given += moved.given;
            into.taken += moved.taken;
        }
        (moved.given, moved.taken) = (0, 0);
        if let Some(from) = self.held.get_mut(behind.0 as usize) {
            // Its memory is for the next response.
            *from = moved;
        }
    }

    /// Adds `bytes` given to the driver for the responses of `slot`.
    #[inline]
    pub fn given(&mut self, slot: &mut Slot, bytes: u64) {
        self.slot(slot).given += bytes;
    }

    /// Sets the state of the TCP path for the responses of `slot`.
    pub fn path(&mut self, slot: Slot, path: Path) {
        if let Some(held) = self.held.get_mut(slot.0 as usize) {
            held.path = Some(path);
        }
    }

    /// Adds `bytes` that the kernel has accepted for `slot`.
    pub fn progress(&mut self, slot: Slot, bytes: u64) {
        if let Some(held) = self.held.get_mut(slot.0 as usize) {
            held.taken += bytes;
        }
    }

    /// The kernel has accepted everything given so far; the responses continue.
    pub fn part_sent(&mut self, slot: Slot) {
        if let Some(held) = self.held.get_mut(slot.0 as usize) {
            held.taken = held.given;
        }
    }

    /// All responses of `slot` were sent: finishes their lines and frees the slot.
    #[inline]
    pub fn sent(&mut self, slot: &mut Slot, now: Instant) -> Tally {
        self.part_sent(*slot);
        self.finish(slot, Cut::Peer, now)
    }

    /// The connection was lost while responses of `slot` were being sent: finishes their lines with `cut` and frees the
    /// slot.
    pub fn lost(&mut self, slot: &mut Slot, cut: Cut, now: Instant) -> Tally {
        self.finish(slot, cut, now)
    }

    /// Finishes the lines of `slot` and frees it. Always inlined, because a call would cost each response the saving of
    /// registers.
    #[inline(always)]
    fn finish(&mut self, slot: &mut Slot, cut: Cut, now: Instant) -> Tally {
        let Some(held) = self.held.get_mut(slot.0 as usize) else {
            return Tally::default();
        };
        let mut tally = Tally {
            bytes: held.taken,
            cut: 0,
        };
        if !held.lines.is_empty() {
            let mut left = held.taken;
            let path = held.path.take();
            let mut from = 0;
            let has_spans = !held.spans.is_empty();
            let mut has_written = has_spans;
            // Taken out of the slot: if a line causes a panic, the worker ends the session, which finishes the slot again.
            // The second call must not find that line.
            let mut lines = std::mem::take(&mut held.lines);
            for (number, line) in lines.iter().enumerate() {
                let whole = u64::from(line.head_bytes) + line.body_bytes;
                let got = whole.min(left);
                left -= got;
                tally.cut += u64::from(got < whole);
                let (at, end) = (line.at as usize, line.end as usize);
                let numbers = Numbers {
                    bytes: got,
                    body_bytes: got.saturating_sub(line.head_bytes.into()),
                    duration: now - line.started,
                    cut: (got < whole).then_some(cut),
                    path,
                };
                if has_spans {
                    self.spans.1 += span::end(&mut held.spans, number, &numbers, &mut self.spans.0);
                }
                if let Some(by_host) = &self.by_host {
                    by_host.count(line.place, got, numbers.duration);
                }
                let of_host = self
                    .by_host
                    .as_mut()
                    .and_then(|by_host| by_host.buffer(line.place.log));
                let out = match of_host {
                    Some(buffer) => buffer,
                    None => &mut self.buffer,
                };
                match line.form {
                    Form::None => {}
                    Form::Fixed(format) => {
                        out.extend_from_slice(&held.text[from..at]);
                        numbers.push(out, format);
                        out.extend_from_slice(&held.text[at..end]);
                    }
                    Form::Template { marks, is_json } => {
                        let text = &held.text[..end];
                        let marks = held.marks.drain(..usize::from(marks));
                        numbers.fill(out, (text, from), marks, is_json);
                    }
                }
                has_written |= !matches!(line.form, Form::None);
                from = end;
            }
            lines.clear();
            held.lines = lines;
            if has_written {
                self.buffered_since.get_or_insert(now);
            }
        } else if held.taken < held.given {
            tally.cut = 1;
        }
        (held.given, held.taken) = (0, 0);
        if !held.seats.is_empty() {
            held.seats.clear();
        }
        if held.text.capacity() > SPARE_BYTES || self.spare.len() >= SPARE_SLOTS {
            *held = Held::default();
        }
        self.spare.push(slot.0);
        *slot = Slot::NONE;
        tally
    }

    #[inline]
    fn slot(&mut self, slot: &mut Slot) -> &mut Held {
        if *slot == Slot::NONE {
            *slot = self.open();
        }
        &mut self.held[slot.0 as usize]
    }

    #[inline]
    fn open(&mut self) -> Slot {
        match self.spare.pop() {
            Some(index) => {
                if let Some(held) = self.held.get_mut(index as usize) {
                    held.forget();
                }
                Slot(index)
            }
            None => self.add_slot(),
        }
    }

    /// Adds a slot. A separate function, so that responses that reuse a slot need no stack space for a new one.
    #[cold]
    fn add_slot(&mut self) -> Slot {
        self.held.push(Held::default());
        Slot((self.held.len() - 1) as u32)
    }

    /// When the buffered lines are due even without further requests.
    #[inline]
    pub fn wake(&self) -> Option<Instant> {
        self.buffered_since.map(|since| since + FLUSH_AFTER)
    }

    /// Whether buffered lines should be written now.
    #[inline]
    pub fn is_due(&self, now: Instant) -> bool {
        match self.buffered_since {
            None => false,
            Some(since) => {
                self.buffer.len() >= FLUSH_BYTES
                    || self.spans.0.len() >= FLUSH_BYTES
                    || now - since >= FLUSH_AFTER
                    || self
                        .by_host
                        .as_ref()
                        .is_some_and(|by_host| by_host.has_buffered(FLUSH_BYTES))
            }
        }
    }

    /// Finished lines of the logs after the first, as far as there are any, with the index of each log.
    pub(crate) fn others(&mut self) -> impl Iterator<Item = (usize, &mut Vec<u8>)> {
        let buffers = self.by_host.iter_mut().flat_map(|by_host| &mut by_host.buffers);
        buffers
            .enumerate()
            .map(|(at, lines)| (at + 1, lines))
            .filter(|(_, lines)| !lines.is_empty())
    }

    /// Takes the finished lines of the first log, all of them complete, and leaves `empty` in their place.
    pub fn take(&mut self, empty: Vec<u8>) -> Vec<u8> {
        self.buffered_since = None;
        std::mem::replace(&mut self.buffer, empty)
    }

    /// Takes the finished spans and their number, if there are any.
    pub fn take_spans(&mut self) -> Option<(Vec<u8>, u32)> {
        let (spans, count) = std::mem::take(&mut self.spans);
        if count > 0 {
            self.buffered_since = None;
        }
        (count > 0).then_some((spans, count))
    }

    /// Makes `empty` the buffer if no lines are buffered, so that its memory is reused.
    pub fn recycle(&mut self, empty: Vec<u8>) {
        if self.buffer.is_empty() {
            self.buffer = empty;
            self.buffer.clear();
        }
    }

    /// Whether a log is kept, responses are counted by host, or requests are traced.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.format.is_some() || self.by_host.is_some() || self.has_spans
    }

    /// Finished lines of the first log not taken yet.
    pub fn buffered(&self) -> &[u8] {
        &self.buffer
    }
}

/// The numbers known only once a response has been sent.
struct Numbers {
    bytes: u64,
    body_bytes: u64,
    duration: Duration,
    cut: Option<Cut>,
    path: Option<Path>,
}

impl Numbers {
    #[inline]
    fn push(&self, out: &mut Vec<u8>, format: LogFormat) {
        match format {
            // The field is the length of the content, with a dash for none.
            LogFormat::Common | LogFormat::Combined if self.body_bytes == 0 => out.push(b'-'),
            LogFormat::Common | LogFormat::Combined => push_number(out, self.body_bytes),
            LogFormat::Json => {
                out.extend_from_slice(b",\"bytes\":");
                push_number(out, self.bytes);
                out.extend_from_slice(b",\"body_bytes\":");
                push_number(out, self.body_bytes);
                out.extend_from_slice(b",\"duration_us\":");
                push_number(out, self.duration.as_micros() as u64);
                if let Some(path) = self.path {
                    out.extend_from_slice(b",\"rtt_us\":");
                    push_number(out, path.rtt.as_micros() as u64);
                    out.extend_from_slice(b",\"cwnd\":");
                    push_number(out, path.cwnd.into());
                    out.extend_from_slice(b",\"retransmitted\":");
                    push_number(out, path.retransmitted.into());
                }
                if let Some(cut) = self.cut {
                    out.extend_from_slice(b",\"aborted\":\"");
                    out.extend_from_slice(cut.name());
                    out.push(b'"');
                }
            }
        }
    }
}

impl Numbers {
    /// Appends the text of a line from `from` on, with values at the marks.
    #[cold]
    fn fill(
        &self,
        out: &mut Vec<u8>,
        (text, mut from): (&[u8], usize),
        marks: impl Iterator<Item = (u32, Variable)>,
        is_json: bool,
    ) {
        for (at, variable) in marks {
            let at = at as usize;
            out.extend_from_slice(&text[from..at]);
            template::late(variable, is_json, self, out);
            from = at;
        }
        out.extend_from_slice(&text[from..]);
    }
}

/// Composes `host - user [time] "request" status |bytes| "referer" "agent"`. Returns the position of the byte count.
fn clf_line(out: &mut Vec<u8>, clock: &Clock, request: &Request<'_>, status: u16, combined: bool) -> u32 {
    push_ip(out, request.peer);
    match request.user {
        None => out.extend_from_slice(b" - - "),
        Some(user) => push_user(out, user),
    }
    out.extend_from_slice(clock.bracketed());
    out.extend_from_slice(b" \"");
    match request.line {
        RequestLine::Parsed {
            method,
            target,
            version,
        } => {
            push_clf(out, method);
            out.push(b' ');
            push_clf(out, target);
            out.push(b' ');
            out.extend_from_slice(version.as_bytes());
        }
        RequestLine::Raw([]) => out.push(b'-'),
        RequestLine::Raw(bytes) => push_clf(out, bytes),
    }
    out.extend_from_slice(b"\" ");
    push_status(out, status);
    out.push(b' ');
    let at = out.len() as u32;
    if combined {
        for field in [request.referer, request.user_agent] {
            match field {
                None | Some([]) => out.extend_from_slice(b" \"-\""),
                Some(value) => {
                    out.extend_from_slice(b" \"");
                    push_clf(out, value);
                    out.push(b'"');
                }
            }
        }
    }
    out.push(b'\n');
    at
}

/// Appends the name of a client, as the third field. A space would end the field early, so it is escaped like a control character.
#[cold]
fn push_user(out: &mut Vec<u8>, user: &[u8]) {
    out.extend_from_slice(b" - ");
    for (at, word) in user.split(|&b| b == b' ').enumerate() {
        if at > 0 {
            out.extend_from_slice(b"\\x20");
        }
        push_clf(out, word);
    }
    out.push(b' ');
}

/// Composes `{"time":…,…,"status":200|,"bytes":…|}`. Returns the position of the numbers.
fn json_line(out: &mut Vec<u8>, clock: &Clock, request: &Request<'_>, status: u16) -> u32 {
    out.extend_from_slice(b"{\"time\":\"");
    out.extend_from_slice(clock.iso());
    out.extend_from_slice(b"\",\"peer\":\"");
    push_ip(out, request.peer);
    out.push(b'"');
    let mut field = |name: &[u8], value: &[u8]| {
        out.extend_from_slice(b",\"");
        out.extend_from_slice(name);
        out.extend_from_slice(b"\":\"");
        push_json(out, value);
        out.push(b'"');
    };
    match request.line {
        RequestLine::Parsed {
            method,
            target,
            version,
        } => {
            field(b"method", method);
            field(b"target", target);
            field(b"version", version.as_bytes());
        }
        RequestLine::Raw(bytes) => field(b"raw", bytes),
    }
    if let Some(user) = request.user {
        field(b"user", user);
    }
    for (name, value) in [
        (&b"host"[..], request.host),
        (b"referer", request.referer),
        (b"user_agent", request.user_agent),
    ] {
        if let Some(value) = value {
            field(name, value);
        }
    }
    if let Some(id) = request.id {
        out.extend_from_slice(b",\"request_id\":\"");
        push_json(out, id.as_bytes());
        out.push(b'"');
    }
    if let Some(trace) = request.trace {
        push_trace(out, trace);
    }
    if let Some(stream) = request.stream {
        out.extend_from_slice(b",\"stream\":");
        push_number(out, stream);
    }
    if let Some(upstream) = request.upstream {
        out.extend_from_slice(b",\"upstream\":\"");
        push_json(out, upstream.target.to_string().as_bytes());
        out.extend_from_slice(b"\",\"upstream_us\":");
        push_number(out, upstream.took.as_micros() as u64);
    }
    out.extend_from_slice(b",\"status\":");
    push_status(out, status);
    let at = out.len() as u32;
    out.extend_from_slice(b"}\n");
    at
}

/// Appends the ids of the trace and the span of a request.
#[cold]
fn push_trace(out: &mut Vec<u8>, trace: &Trace) {
    use std::io::Write as _;
    let context = trace.context();
    // Writing to a `Vec` cannot fail.
    let _ = write!(
        out,
        ",\"trace_id\":\"{}\",\"span_id\":\"{}\"",
        context.trace, context.span
    );
}

#[inline]
fn push_number(out: &mut Vec<u8>, n: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
}

/// Appends the status, which always has three digits.
#[inline]
fn push_status(out: &mut Vec<u8>, status: u16) {
    let digit = |n: u16| b'0' + (n % 10) as u8;
    out.extend_from_slice(&[digit(status / 100), digit(status / 10), digit(status)]);
}

/// Every octet in decimal with a dot behind it, and its number of digits.
static OCTETS: [([u8; 4], usize); 256] = {
    let mut octets = [([0; 4], 0); 256];
    let mut octet = 0;
    while octet < octets.len() {
        let hundreds = b'0' + (octet / 100) as u8;
        let tens = b'0' + (octet / 10 % 10) as u8;
        let ones = b'0' + (octet % 10) as u8;
        octets[octet] = match octet {
            0..10 => ([ones, b'.', 0, 0], 1),
            10..100 => ([tens, ones, b'.', 0], 2),
            _ => ([hundreds, tens, ones, b'.'], 3),
        };
        octet += 1;
    }
    octets
};

#[inline]
fn push_ip(out: &mut Vec<u8>, ip: IpAddr) {
    if ip == UNIX_PEER.ip() {
        return out.extend_from_slice(b"unix:");
    }
    let v4 = match ip {
        IpAddr::V4(v4) => v4,
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => v4,
            None => {
                use std::io::Write as _;
                write!(out, "{v6}").expect("writing to a Vec cannot fail");
                return;
            }
        },
    };
    // Put together beside the log, and appended at once.
    let mut text = [0; 4 * 4];
    let mut len = 0;
    for octet in v4.octets() {
        let (dotted, digits) = OCTETS[usize::from(octet)];
        text[len..len + 4].copy_from_slice(&dotted);
        len += digits + 1;
    }
    out.extend_from_slice(&text[..len - 1]);
}

#[cfg(test)]
mod tests;
