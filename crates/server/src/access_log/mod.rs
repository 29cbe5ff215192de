//! The access log: one line per answered request, never less and never more.
//!
//! A line is composed when its answer is, held while the answer is on its way, and finished with
//! the bytes really sent when the last of them is handed to the kernel or the connection is lost:
//!
//! ```text
//!   Journal::compose ──▶ held in a slot ──▶ Journal::sent   ──▶ buffer ──▶ the log writer's thread
//!                                      └──▶ Journal::lost ──┘    (32 KiB or one second)
//! ```
//!
//! Slots and their memory are reused, so a line costs no allocation. This file decides what lines
//! say and when they leave; it does not know where they go.

mod escape;

use crate::clock::Clock;
use crate::config::LogFormat;
use escape::{push_clf, push_json};
use measure::{Duration, Instant};
use runtime::Path;
use std::net::IpAddr;

/// Buffered bytes at which lines leave without waiting for the second to pass.
const FLUSH_BYTES: usize = 32 * 1024;

/// How long a line may stay in the buffer.
const FLUSH_AFTER: Duration = Duration::from_secs(1);

/// Slots kept for reuse; more than this many answers rarely wait at once.
const SPARE_SLOTS: usize = 256;

/// Memory a spare slot may keep.
const SPARE_BYTES: usize = 4 * 1024;

/// What a line says of a request and its answer.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Who asked.
    pub peer: IpAddr,
    /// When its first byte came.
    pub started: Instant,
    /// The request line as it stands in the log.
    pub line: RequestLine<'a>,
    /// `Host`.
    pub host: Option<&'a [u8]>,
    /// `Referer`.
    pub referer: Option<&'a [u8]>,
    /// `User-Agent`.
    pub user_agent: Option<&'a [u8]>,
}

/// The request line, as far as there was one.
#[derive(Clone, Copy, Debug)]
pub enum RequestLine<'a> {
    /// Understood.
    Parsed {
        /// The method's token.
        method: &'a [u8],
        /// The target as sent.
        target: &'a [u8],
        /// `HTTP/1.1` and so on.
        version: &'a str,
    },
    /// Not understood: the bytes that came, up to the first line's end.
    Raw(&'a [u8]),
}

/// A slot's number; the journal's owner keeps it while the answer is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

impl Slot {
    /// No slot: nothing is held.
    pub const NONE: Slot = Slot(u32::MAX);
}

/// Why an answer did not reach its reader whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The peer is gone.
    Peer,
    /// The peer took nothing for too long.
    Timeout,
    /// The file ended early or could not be read.
    File,
}

impl Cut {
    fn name(self) -> &'static [u8] {
        match self {
            Cut::Peer => b"peer",
            Cut::Timeout => b"timeout",
            Cut::File => b"file",
        }
    }
}

/// What became of the answers of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Bytes handed to the kernel.
    pub bytes: u64,
    /// Answers that were not, or not whole.
    pub cut: u64,
}

/// The lines of one worker. Counts bytes on their way even when no log is kept.
#[derive(Debug)]
pub struct Journal {
    /// None: no lines are composed.
    format: Option<LogFormat>,
    held: Vec<Held>,
    spare: Vec<u32>,
    buffer: Vec<u8>,
    buffered_since: Option<Instant>,
}

/// The answers of one connection that are on their way.
#[derive(Debug, Default)]
struct Held {
    /// Bytes given to the driver so far.
    given: u64,
    /// Bytes the kernel has taken so far.
    taken: u64,
    text: Vec<u8>,
    lines: Vec<Line>,
    /// How the path was when the last of it was handed to the kernel, if that is known.
    path: Option<Path>,
}

/// One line: `text[..at]`, then the numbers known at the end, then `text[at..end]`.
#[derive(Debug)]
struct Line {
    format: LogFormat,
    started: Instant,
    at: u32,
    end: u32,
    head_bytes: u32,
    body_bytes: u64,
}

impl Journal {
    /// An empty journal; with no format it only counts.
    pub fn new(format: Option<LogFormat>) -> Journal {
        Journal {
            format,
            held: Vec::new(),
            spare: Vec::new(),
            buffer: Vec::new(),
            buffered_since: None,
        }
    }

    /// Composes lines from now on in this format; those on their way keep theirs.
    pub fn set_format(&mut self, format: Option<LogFormat>) {
        self.format = format;
    }

    /// Composes a line for an answer of `head_bytes` and `body_bytes` that is about to be sent, into
    /// `slot`, which is made if it is [`Slot::NONE`]. Answers of one slot are sent in this order.
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
        let Some(format) = self.format else {
            return;
        };
        let held = self.slot(slot);
        let at = match format {
            LogFormat::Json => json_line(&mut held.text, clock, request, status),
            LogFormat::Common => clf_line(&mut held.text, clock, request, status, false),
            LogFormat::Combined => clf_line(&mut held.text, clock, request, status, true),
        };
        held.lines.push(Line {
            format,
            started: request.started,
            at,
            end: held.text.len() as u32,
            head_bytes,
            body_bytes,
        });
    }

    /// `bytes` of `slot`'s answers are given to the driver.
    #[inline]
    pub fn given(&mut self, slot: &mut Slot, bytes: u64) {
        self.slot(slot).given += bytes;
    }

    /// How the path to the reader of `slot`'s answers is.
    pub fn path(&mut self, slot: Slot, path: Path) {
        if let Some(held) = self.held.get_mut(slot.0 as usize) {
            held.path = Some(path);
        }
    }

    /// The kernel took `bytes` of what was given last.
    pub fn progress(&mut self, slot: Slot, bytes: u64) {
        if let Some(held) = self.held.get_mut(slot.0 as usize) {
            held.taken += bytes;
        }
    }

    /// The kernel took all that was given, and more of the same answers follows.
    pub fn part_sent(&mut self, slot: Slot) {
        if let Some(held) = self.held.get_mut(slot.0 as usize) {
            held.taken = held.given;
        }
    }

    /// Everything held in `slot` was sent; its lines are finished and the slot is free.
    #[inline]
    pub fn sent(&mut self, slot: &mut Slot, now: Instant) -> Tally {
        self.part_sent(*slot);
        self.finish(slot, Cut::Peer, now)
    }

    /// The connection was lost while what `slot` holds was on its way.
    pub fn lost(&mut self, slot: &mut Slot, cut: Cut, now: Instant) -> Tally {
        self.finish(slot, cut, now)
    }

    #[inline]
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
            for line in held.lines.drain(..) {
                let whole = u64::from(line.head_bytes) + line.body_bytes;
                let got = whole.min(left);
                left -= got;
                tally.cut += u64::from(got < whole);
                let (at, end) = (line.at as usize, line.end as usize);
                self.buffer.extend_from_slice(&held.text[from..at]);
                let numbers = Numbers {
                    bytes: got,
                    body_bytes: got.saturating_sub(line.head_bytes.into()),
                    duration: now - line.started,
                    cut: (got < whole).then_some(cut),
                    path,
                };
                numbers.push(&mut self.buffer, line.format);
                self.buffer.extend_from_slice(&held.text[at..end]);
                from = end;
            }
            held.text.clear();
            self.buffered_since.get_or_insert(now);
        } else if held.taken < held.given {
            tally.cut = 1;
        }
        (held.given, held.taken) = (0, 0);
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
        if let Some(index) = self.spare.pop() {
            return Slot(index);
        }
        self.held.push(Held::default());
        Slot((self.held.len() - 1) as u32)
    }

    /// When [`Journal::take`] has something to give even if nothing more happens.
    #[inline]
    pub fn wake(&self) -> Option<Instant> {
        self.buffered_since.map(|since| since + FLUSH_AFTER)
    }

    /// Whether lines should leave now.
    #[inline]
    pub fn is_due(&self, now: Instant) -> bool {
        match self.buffered_since {
            None => false,
            Some(since) => self.buffer.len() >= FLUSH_BYTES || now - since >= FLUSH_AFTER,
        }
    }

    /// Takes the finished lines, leaving `empty` in their place. Lines are whole.
    pub fn take(&mut self, empty: Vec<u8>) -> Vec<u8> {
        self.buffered_since = None;
        std::mem::replace(&mut self.buffer, empty)
    }

    /// Fills `empty` from now on, so that its memory is used again.
    pub fn recycle(&mut self, empty: Vec<u8>) {
        if self.buffer.is_empty() {
            self.buffer = empty;
            self.buffer.clear();
        }
    }

    /// Whether lines are composed at all.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.format.is_some()
    }

    /// Finished lines not yet taken.
    pub fn buffered(&self) -> &[u8] {
        &self.buffer
    }
}

/// What is known only at the end.
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
            // The field is the content's length, and a dash for none.
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

/// `host - - [time] "request" status |bytes| "referer" "agent"`. Returns where the bytes go.
fn clf_line(out: &mut Vec<u8>, clock: &Clock, request: &Request<'_>, status: u16, combined: bool) -> u32 {
    push_ip(out, request.peer);
    out.extend_from_slice(b" - - ");
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
            out.extend_from_slice(b" \"");
            match field {
                None | Some([]) => out.push(b'-'),
                Some(value) => push_clf(out, value),
            }
            out.push(b'"');
        }
    }
    out.push(b'\n');
    at
}

/// `{"time":…,…,"status":200|,"bytes":…|}`. Returns where the numbers go.
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
    for (name, value) in [
        (&b"host"[..], request.host),
        (b"referer", request.referer),
        (b"user_agent", request.user_agent),
    ] {
        if let Some(value) = value {
            field(name, value);
        }
    }
    out.extend_from_slice(b",\"status\":");
    push_status(out, status);
    let at = out.len() as u32;
    out.extend_from_slice(b"}\n");
    at
}

#[inline]
fn push_number(out: &mut Vec<u8>, n: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
}

/// Three digits; every status this server sends has them.
#[inline]
fn push_status(out: &mut Vec<u8>, status: u16) {
    let digit = |n: u16| b'0' + (n % 10) as u8;
    out.extend_from_slice(&[digit(status / 100), digit(status / 10), digit(status)]);
}

#[inline]
fn push_ip(out: &mut Vec<u8>, ip: IpAddr) {
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
    let [a, b, c, d] = v4.octets();
    for (octet, dot) in [(a, true), (b, true), (c, true), (d, false)] {
        out.extend_from_slice(itoa::Buffer::new().format(octet).as_bytes());
        if dot {
            out.push(b'.');
        }
    }
}

#[cfg(test)]
mod tests;
