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

/// The lines of one worker.
#[derive(Debug)]
pub struct Journal {
    format: LogFormat,
    held: Vec<Held>,
    spare: Vec<u32>,
    buffer: Vec<u8>,
    buffered_since: Option<Instant>,
}

/// The lines of one connection's present turn.
#[derive(Debug, Default)]
struct Held {
    text: Vec<u8>,
    lines: Vec<Line>,
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
    /// An empty journal.
    pub fn new(format: LogFormat) -> Journal {
        Journal {
            format,
            held: Vec::new(),
            spare: Vec::new(),
            buffer: Vec::new(),
            buffered_since: None,
        }
    }

    /// Composes lines from now on in this format; those on their way keep theirs.
    pub fn set_format(&mut self, format: LogFormat) {
        self.format = format;
    }

    /// Composes a line for an answer of `head_bytes` and `body_bytes` that is about to be sent, into
    /// `slot`, which is made if it is [`Slot::NONE`]. Answers of one slot are sent in this order.
    pub fn compose(
        &mut self,
        slot: &mut Slot,
        clock: &Clock,
        request: &Request<'_>,
        status: u16,
        head_bytes: u32,
        body_bytes: u64,
    ) {
        if *slot == Slot::NONE {
            *slot = self.open();
        }
        let held = &mut self.held[slot.0 as usize];
        let at = match self.format {
            LogFormat::Json => json_line(&mut held.text, clock, request, status),
            format => clf_line(
                &mut held.text,
                clock,
                request,
                status,
                format == LogFormat::Combined,
            ),
        };
        held.lines.push(Line {
            format: self.format,
            started: request.started,
            at,
            end: held.text.len() as u32,
            head_bytes,
            body_bytes,
        });
    }

    /// Corrects the last composed line of `slot`: the answer grew by a part of `bytes`.
    pub fn extend(&mut self, slot: Slot, bytes: u64) {
        if let Some(line) = self
            .held
            .get_mut(slot.0 as usize)
            .and_then(|h| h.lines.last_mut())
        {
            line.body_bytes += bytes;
        }
    }

    /// Everything held in `slot` was sent; its lines are finished and the slot is free.
    #[inline]
    pub fn sent(&mut self, slot: &mut Slot, now: Instant) {
        if *slot != Slot::NONE {
            self.finish(slot, u64::MAX, now);
        }
    }

    /// The connection was lost after `sent` bytes of what `slot` holds. Returns how many answers
    /// were cut.
    pub fn lost(&mut self, slot: &mut Slot, sent: u64, now: Instant) -> u64 {
        if *slot == Slot::NONE {
            0
        } else {
            self.finish(slot, sent, now)
        }
    }

    fn finish(&mut self, slot: &mut Slot, sent: u64, now: Instant) -> u64 {
        let index = slot.0 as usize;
        let held = &mut self.held[index];
        let mut left = sent;
        let mut cut = 0;
        let mut from = 0;
        for line in held.lines.drain(..) {
            let whole = u64::from(line.head_bytes) + line.body_bytes;
            let got = whole.min(left);
            left -= if sent == u64::MAX { 0 } else { got };
            cut += u64::from(got < whole);
            self.buffer.extend_from_slice(&held.text[from..line.at as usize]);
            let numbers = Numbers {
                bytes: got,
                body_bytes: got.saturating_sub(line.head_bytes.into()),
                duration: now - line.started,
                aborted: got < whole,
            };
            numbers.push(&mut self.buffer, line.format);
            self.buffer
                .extend_from_slice(&held.text[line.at as usize..line.end as usize]);
            from = line.end as usize;
        }
        held.text.clear();
        if held.text.capacity() > SPARE_BYTES || self.spare.len() >= SPARE_SLOTS {
            *held = Held::default();
        }
        self.spare.push(slot.0);
        *slot = Slot::NONE;
        self.buffered_since.get_or_insert(now);
        cut
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
    aborted: bool,
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
                if self.aborted {
                    out.extend_from_slice(b",\"aborted\":true");
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
