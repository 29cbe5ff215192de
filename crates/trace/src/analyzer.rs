//! The analysis as one machine: capture bytes (or frames) in, events out, a summary at the end.
//!
//! ```text
//!   bytes -> Reader -> Packet -> Table -> Flow -> Event::{Finding, Transaction, Connection}
//!                                          \----> Meter -> Summary
//! ```
//!
//! Memory is bounded by [`Limits`] and by the events of one chunk, never by the capture's size.

use crate::capture::{Frame, ReadError, Reader};
use crate::clock::{Clock, Stamp};
use crate::exchange::Transaction;
use crate::filter::Filter;
use crate::finding::Finding;
use crate::flow::{Budget, Connection, ConnectionId, Context, End, Flow};
use crate::fragment::Joiner;
use crate::packet::{Packet, Segment};
use crate::series::{Recorder, Series};
use crate::summary::{Meter, Summary};
use crate::table::{List, Table};
use core::time::Duration;
use measure::Instant;
use serde::Serialize;
use std::collections::VecDeque;

/// What grows, and how far.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections followed at one time; beyond it the longest-over, then the longest-silent one is reported and forgotten.
    pub connections: usize,
    /// Unacknowledged segments remembered over all connections; beyond it round trips and stalls go unmeasured.
    pub segments: usize,
    /// Bytes held out of order over all connections for matching requests; beyond it they become gaps.
    pub reassembly: usize,
    /// Points recorded for plots.
    pub points: usize,
    /// A connection that was closed or reset is reported this long (in capture time) after its last packet.
    pub linger: Duration,
    /// A connection silent for this long is reported and forgotten.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 32_768,
            segments: 1 << 20,
            reassembly: 32 << 20,
            points: 1 << 20,
            linger: Duration::from_secs(10),
            idle: Duration::from_secs(2 * 3600),
        }
    }
}

/// The times that tell a stall from a round trip.
#[derive(Clone, Copy, Debug)]
pub struct Thresholds {
    /// G of the two 1997 predicates: an acknowledgment later than this, beyond the smallest round trip, was held by a timer.
    pub stall: Duration,
    /// A segment this soon after an acknowledgment was released by it (1997 predicates).
    pub prompt: Duration,
    /// Delay beyond the smallest round trip from which an acknowledgment counts as delayed.
    pub delayed_ack: Duration,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds {
            stall: Duration::from_millis(100),
            prompt: Duration::from_millis(10),
            delayed_ack: Duration::from_millis(30),
        }
    }
}

/// How to analyze.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Bounds.
    pub limits: Limits,
    /// Times.
    pub thresholds: Thresholds,
    /// The connection whose points are recorded.
    pub record: Option<ConnectionId>,
}

/// A result that is complete.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A problem.
    Finding(Finding),
    /// A request with its answer.
    Transaction(Transaction),
    /// A connection whose record has ended.
    Connection(Box<Connection>),
}

/// Analyzes one capture.
#[derive(Debug)]
pub struct Analyzer {
    reader: Reader,
    engine: Engine,
}

/// Everything behind the reader.
#[derive(Debug)]
struct Engine {
    options: Options,
    filter: Filter,
    table: Table,
    budget: Budget,
    meter: Meter,
    recorder: Recorder,
    events: VecDeque<Event>,
    clock: Clock,
    fragments: Joiner,
    start: Instant,
    now: Instant,
    number: u64,
}

impl Analyzer {
    /// An analyzer at the beginning of a capture.
    pub fn new(options: Options) -> Analyzer {
        Analyzer::with_filter(options, Filter::default())
    }

    /// The same for the segments that pass `filter`; the others are counted as turned away.
    pub fn with_filter(options: Options, filter: Filter) -> Analyzer {
        Analyzer {
            reader: Reader::new(),
            engine: Engine {
                options,
                filter,
                table: Table::new(),
                budget: Budget {
                    segments: options.limits.segments,
                    bytes: options.limits.reassembly,
                    refused: 0,
                },
                meter: Meter::new(),
                recorder: Recorder::new(options.record, options.limits.points),
                events: VecDeque::new(),
                clock: Clock::default(),
                fragments: Joiner::default(),
                start: Instant::ZERO,
                now: Instant::ZERO,
                number: 0,
            },
        }
    }

    /// Takes the next bytes of a capture file; chunks of about a mebibyte are best. Drain
    /// [`Analyzer::next_event`] afterwards: events are kept until taken.
    ///
    /// # Errors
    /// The file is damaged here; what came before has been analyzed.
    pub fn feed(&mut self, chunk: &[u8]) -> Result<(), ReadError> {
        let engine = &mut self.engine;
        self.reader.feed(chunk, |frame| {
            engine.frame(&frame);
        })
    }

    /// Takes one frame from elsewhere: a live capture, a simulator. Frames are numbered by the caller.
    /// Returns whether it passed the filter, as everything does where there is none.
    pub fn frame(&mut self, frame: &Frame<'_>) -> bool {
        self.engine.frame(frame)
    }

    /// The next complete result.
    pub fn next_event(&mut self) -> Option<Event> {
        self.engine.events.pop_front()
    }

    /// The capture file ends: all connections still open are reported. Drain the events once more.
    ///
    /// # Errors
    /// The file ends inside a record or was damaged before; the reports are made nevertheless.
    pub fn finish(&mut self) -> Result<(), ReadError> {
        self.engine.finish();
        self.reader.finish()
    }

    /// The frames fed by [`Analyzer::frame`] end here: as [`Analyzer::finish`] without a file.
    pub fn finish_frames(&mut self) {
        self.engine.finish();
    }

    /// The capture so far; connections count once they are reported.
    pub fn summary(&self) -> Summary {
        self.engine.meter.summary(self.engine.budget.refused)
    }

    /// Connections being followed now.
    pub fn connections(&self) -> usize {
        self.engine.table.len()
    }

    /// The points recorded for [`Options::record`].
    pub fn take_series(&mut self) -> Series {
        self.engine.recorder.take()
    }
}

impl Engine {
    /// Takes a frame unless its time must be confirmed by the one after it. Returns whether it passes the filter.
    fn frame(&mut self, frame: &Frame<'_>) -> bool {
        if self.clock.is_waiting()
            && let Some((held, is_wrong)) = self.clock.judged(frame.at)
        {
            self.meter.frames.time_wrong += u64::from(is_wrong);
            self.take(&held.frame());
        }
        match self.clock.stamp(frame) {
            Stamp::Plausible => self.take(frame),
            Stamp::Held => match Packet::decode(frame) {
                Packet::Tcp(segment) => self.filter.is_empty() || self.filter.passes(&segment),
                Packet::Fragment(_) => true,
                _ => self.filter.is_empty(),
            },
        }
    }

    fn take(&mut self, frame: &Frame<'_>) -> bool {
        self.start = self.meter.frame(frame.at, frame.wire_len);
        if self.meter.frames.total == 1 {
            self.recorder.begin(self.start);
        }
        // A clock set back must not make connections idle or durations negative.
        self.now = self.now.max(frame.at);
        self.number = frame.number;
        let mut packet = Packet::decode(frame);
        let mut whole;
        // A packet put together may be a fragment again: what a tunnel's fragments carry.
        while let Packet::Fragment(fragment) = &packet {
            match self.fragments.add(fragment, frame.at) {
                Some(joined) => {
                    whole = joined.packet;
                    self.meter.frames.joined += 1;
                    self.meter.frames.joined_fragments += joined.before;
                    packet = Packet::of_ip(&whole, 0, 0);
                }
                None => break,
            }
        }
        let frames = &mut self.meter.frames;
        match packet {
            Packet::Tcp(segment) => {
                frames.tcp += 1;
                frames.cut_payload += u64::from((segment.payload.len() as u32) < segment.payload_len);
                let passes = self.filter.is_empty() || self.filter.passes(&segment);
                if passes {
                    self.segment(&segment, frame.at);
                } else {
                    frames.turned_away += 1;
                }
                return passes;
            }
            Packet::OtherIp(_) => frames.other_ip += 1,
            Packet::Fragment(_) => {
                frames.fragments += 1;
                // Whose it is only its datagram's first fragment says; to save one too many does no harm.
                return true;
            }
            Packet::NotIp => frames.not_ip += 1,
            Packet::Malformed => {
                frames.malformed += 1;
                frames.cut_headers += u64::from(frame.data.len() < frame.wire_len as usize);
            }
            Packet::UnknownLink(link) => {
                frames.unknown_link += 1;
                frames.unknown_link_type = Some(link.0);
            }
        }
        // What has no ports has none of those asked for.
        self.filter.is_empty()
    }

    fn segment(&mut self, segment: &Segment<'_>, at: Instant) {
        self.expire();
        let mut found = self.table.find(segment);
        if let Some(slot) = found
            && self
                .table
                .flow(slot)
                .is_some_and(|flow| flow.is_reopened_by(segment))
        {
            self.retire(slot, End::Reused);
            found = None;
        }
        let slot = match found {
            Some(slot) => slot,
            None => self.admit(segment, at),
        };
        let Engine {
            table,
            options,
            budget,
            meter,
            recorder,
            events,
            start,
            number,
            ..
        } = self;
        if let Some(flow) = table.flow(slot) {
            let mut cx = Context {
                at,
                number: *number,
                start: *start,
                connection: flow.id,
                thresholds: &options.thresholds,
                budget,
                events,
                meter,
                recorder,
                peer_window_max: 0,
            };
            flow.packet(segment, &mut cx);
        }
        self.table.touch(slot);
    }

    fn admit(&mut self, segment: &Segment<'_>, at: Instant) -> u32 {
        while self.table.len() >= self.options.limits.connections.max(1) {
            let oldest = self
                .table
                .oldest(List::Over)
                .or_else(|| self.table.oldest(List::Live));
            match oldest {
                Some((slot, _)) => self.retire(slot, End::Evicted),
                None => break,
            }
        }
        let id = ConnectionId(self.meter.seen());
        let flow = Flow::new(id, segment, at, self.number);
        if flow.is_established() {
            self.meter.opened(at);
        }
        self.table.insert(flow)
    }

    /// Reports connections whose time is up; at most two a packet, so that no packet waits for many.
    #[inline]
    fn expire(&mut self) {
        let limits = self.options.limits;
        for (list, patience, end) in [
            (List::Over, limits.linger, End::Closed),
            (List::Live, limits.idle, End::Idle),
        ] {
            if let Some((slot, last)) = self.table.oldest(list)
                && self.now.since(last) > patience
            {
                self.retire(slot, end);
            }
        }
    }

    fn retire(&mut self, slot: u32, end: End) {
        let Some(flow) = self.table.remove(slot) else {
            return;
        };
        let mut cx = Context {
            at: flow.last_at(),
            number: self.number,
            start: self.start,
            connection: flow.id,
            thresholds: &self.options.thresholds,
            budget: &mut self.budget,
            events: &mut self.events,
            meter: &mut self.meter,
            recorder: &mut self.recorder,
            peer_window_max: 0,
        };
        let connection = flow.finish(end, &mut cx);
        self.meter.finished(&connection);
        self.events.push_back(Event::Connection(Box::new(connection)));
    }

    fn finish(&mut self) {
        if let Some((held, is_wrong)) = self.clock.unconfirmed() {
            self.meter.frames.time_wrong += u64::from(is_wrong);
            self.take(&held.frame());
        }
        // In the order of their last packets; what is over first.
        for list in [List::Over, List::Live] {
            while let Some((slot, _)) = self.table.oldest(list) {
                self.retire(slot, End::CaptureEnded);
            }
        }
    }
}
