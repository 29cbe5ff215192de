//! The whole analysis: capture bytes or frames in, events out, a summary at the end.
//!
//! ```text
//!   bytes -> Reader -> Packet -> Table -> Flow, UdpFlow -> Event::{Finding, Transaction, Connection, ...}
//!                                                   \----> Meter -> Summary
//! ```
//!
//! Memory is bounded by [`Limits`] and by the events of one chunk, never by the capture's size.

use crate::budget::Budget;
use crate::capture::{Found, Frame, ReadError, Reader};
use crate::clock::{Clock, Stamp};
use crate::connection::{ConnectionId, End};
use crate::context::{Context, Thresholds};
use crate::event::Event;
use crate::filter::Filter;
use crate::flow::Flow;
use crate::fragment::Joiner;
use crate::packet::{Datagram, Endpoint, Packet, Segment};
use crate::series::{Recorder, Series};
use crate::summary::{Meter, Summary};
use crate::table::{List, Table, Tracked};
use crate::tls::{Keyring, Suites};
use crate::udp::UdpFlow;
use core::time::Duration;
use std::collections::VecDeque;
use units::Instant;

/// Limits on everything that grows.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections tracked at one time, and as many pairs of UDP ends. At the limit, the connection finished longest ago is reported and dropped, then
    /// the one silent longest.
    pub connections: usize,
    /// Unacknowledged segments stored over all connections; beyond the limit, round-trip times and stalls go
    /// unmeasured.
    pub segments: usize,
    /// Bytes held over all connections to match requests: segments out of order, requests without a response, and HTTP/2
    /// field blocks with their compression tables. Beyond the limit, segments become gaps, requests stay unmatched, and
    /// decoding of HTTP/2 stops.
    pub reassembly: usize,
    /// Points recorded for plots.
    pub points: usize,
    /// Time (in capture time) after its last packet at which a closed or reset connection is reported.
    pub linger: Duration,
    /// Silence after which a connection is reported and dropped.
    pub idle: Duration,
    /// Silence after which a pair of UDP ends is reported and dropped. RFC 4787, section 4.3, asks of a NAT at least two
    /// minutes and recommends five.
    pub udp_idle: Duration,
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
            udp_idle: Duration::from_secs(300),
        }
    }
}

/// Settings of an analysis.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Limits on memory.
    pub limits: Limits,
    /// Thresholds of findings.
    pub thresholds: Thresholds,
    /// Connection whose points are recorded.
    pub record: Option<ConnectionId>,
    /// Whether every QUIC packet is an event.
    pub packets: bool,
}

/// Analyzes one capture.
#[derive(Debug)]
pub struct Analyzer {
    reader: Reader,
    engine: Engine,
}

/// All stages after the reader.
#[derive(Debug)]
struct Engine {
    filter: Filter,
    table: Table<Flow>,
    datagrams: Table<UdpFlow>,
    clock: Clock,
    fragments: Joiner,
    now: Instant,
    all: Shared,
}

/// What every flow may use, in a [`Context`] of its own.
#[derive(Debug)]
struct Shared {
    options: Options,
    budget: Budget,
    meter: Meter,
    recorder: Recorder,
    events: VecDeque<Event>,
    keys: Keyring,
    /// Time of the capture's first frame.
    start: Instant,
    /// Number of the frame that is processed.
    number: u64,
}

impl Shared {
    fn context(&mut self, at: Instant, connection: ConnectionId) -> Context<'_> {
        Context {
            at,
            number: self.number,
            start: self.start,
            connection,
            thresholds: &self.options.thresholds,
            budget: &mut self.budget,
            events: &mut self.events,
            meter: &mut self.meter,
            recorder: &mut self.recorder,
            keys: &self.keys,
            logs: self.options.packets,
            peer_window_max: 0,
        }
    }
}

impl Analyzer {
    /// An analyzer at the beginning of a capture.
    pub fn new(options: Options) -> Analyzer {
        Analyzer::with_filter(options, Filter::default())
    }

    /// As [`Analyzer::new`], for the segments that pass `filter`; others are only counted.
    pub fn with_filter(options: Options, filter: Filter) -> Analyzer {
        Analyzer {
            reader: Reader::new(),
            engine: Engine {
                filter,
                table: Table::new(),
                datagrams: Table::new(),
                clock: Clock::default(),
                fragments: Joiner::default(),
                now: Instant::ZERO,
                all: Shared {
                    options,
                    budget: Budget {
                        segments: options.limits.segments,
                        bytes: options.limits.reassembly,
                        refused: 0,
                    },
                    meter: Meter::new(),
                    recorder: Recorder::new(options.record, options.limits.points),
                    events: VecDeque::new(),
                    keys: Keyring::default(),
                    start: Instant::ZERO,
                    number: 0,
                },
            },
        }
    }

    /// Opens TLS with these ciphers, as far as there are secrets: in the capture, or by [`Analyzer::add_secrets`].
    pub fn open_with(&mut self, suites: Box<dyn Suites>) {
        self.engine.all.keys.set_suites(suites);
    }

    /// Adds the next bytes of a key log (RFC 9850). Records that were read before stay closed, unless
    /// [`Analyzer::await_secrets`] was called.
    pub fn add_secrets(&mut self, text: &[u8]) {
        self.engine.all.keys.add(text);
    }

    /// Adds a whole key log, as of [`Found::Secrets`].
    pub fn add_secret_block(&mut self, text: &[u8]) {
        self.engine.all.keys.add_block(text);
    }

    /// Ends a key log, whose last line may lack its line end.
    pub fn end_secrets(&mut self) {
        self.engine.all.keys.finish();
    }

    /// From here on, holds up to 64 KiB of a connection's records until its secrets come: a live capture may see records
    /// before an end has logged their secrets.
    pub fn await_secrets(&mut self) {
        self.engine.all.keys.set_grows();
    }

    /// Reads the next bytes of a capture file; chunks of about a mebibyte work best. Drain [`Analyzer::next_event`]
    /// afterwards: events are kept until taken.
    ///
    /// # Errors
    /// If the file is damaged here; everything before has been analyzed.
    pub fn feed(&mut self, chunk: &[u8]) -> Result<(), ReadError> {
        let engine = &mut self.engine;
        self.reader.feed(chunk, |found| match found {
            Found::Frame(frame) => {
                engine.frame(&frame);
            }
            Found::Secrets(text) => engine.all.keys.add_block(text),
        })
    }

    /// Processes one frame from a live capture or simulator; the caller numbers frames. Returns whether it passed the
    /// filter, `true` without one.
    pub fn frame(&mut self, frame: &Frame<'_>) -> bool {
        self.engine.frame(frame)
    }

    /// The next complete result.
    pub fn next_event(&mut self) -> Option<Event> {
        self.engine.all.events.pop_front()
    }

    /// Ends the file and reports all open connections. Drain the events once more.
    ///
    /// # Errors
    /// If the file ends inside a record or was damaged before; the reports are made nevertheless.
    pub fn finish(&mut self) -> Result<(), ReadError> {
        self.engine.finish();
        self.reader.finish()
    }

    /// Ends the frames fed by [`Analyzer::frame`], as [`Analyzer::finish`] ends a file.
    pub fn finish_frames(&mut self) {
        self.engine.finish();
    }

    /// Summary so far; connections count once they are reported.
    pub fn summary(&self) -> Summary {
        let Shared {
            meter, budget, keys, ..
        } = &self.engine.all;
        meter.summary(budget.refused, keys.refused())
    }

    /// Number of connections and pairs of UDP ends tracked now.
    pub fn connections(&self) -> usize {
        self.engine.table.len() + self.engine.datagrams.len()
    }

    /// Whether all memory that connections shared has been returned.
    pub(crate) fn has_returned_memory(&self) -> bool {
        let Shared { budget, options, .. } = &self.engine.all;
        budget.bytes == options.limits.reassembly && budget.segments == options.limits.segments
    }

    /// The points recorded for [`Options::record`].
    pub fn take_series(&mut self) -> Series {
        self.engine.all.recorder.take()
    }
}

impl Engine {
    /// Processes a frame unless the next one must confirm its time. Returns whether it passes the filter.
    fn frame(&mut self, frame: &Frame<'_>) -> bool {
        if self.clock.is_waiting()
            && let Some((held, is_wrong)) = self.clock.judged(frame.at)
        {
            self.all.meter.frames.time_wrong += u64::from(is_wrong);
            self.take(&held.frame());
        }
        match self.clock.stamp(frame) {
            Stamp::Plausible => self.take(frame),
            Stamp::Held => match Packet::decode(frame) {
                Packet::Tcp(segment) => self.passes(segment.from, segment.to),
                Packet::Udp(datagram) => self.passes(datagram.from, datagram.to),
                Packet::Fragment(_) => true,
                _ => self.filter.is_empty(),
            },
        }
    }

    fn take(&mut self, frame: &Frame<'_>) -> bool {
        self.all.start = self.all.meter.frame(frame.at, frame.wire_len);
        if self.all.meter.frames.total == 1 {
            self.all.recorder.begin(self.all.start);
        }
        // A clock set back must not make connections idle or durations negative.
        self.now = self.now.max(frame.at);
        self.all.number = frame.number;
        let mut packet = Packet::decode(frame);
        let mut whole;
        // A reassembled packet may be a fragment again: the content of a tunnel's fragments.
        while let Packet::Fragment(fragment) = &packet {
            match self.fragments.add(fragment, frame.at) {
                Some(joined) => {
                    whole = joined.packet;
                    self.all.meter.frames.joined += 1;
                    self.all.meter.frames.joined_fragments += joined.before;
                    packet = Packet::of_ip(&whole, 0, 0);
                }
                None => break,
            }
        }
        let frames = &mut self.all.meter.frames;
        match packet {
            Packet::Tcp(segment) => {
                frames.tcp += 1;
                frames.cut_payload += u64::from((segment.payload.len() as u32) < segment.payload_len);
                let passes = self.passes(segment.from, segment.to);
                if passes {
                    self.segment(&segment, frame.at);
                } else {
                    self.all.meter.frames.turned_away += 1;
                }
                return passes;
            }
            Packet::Udp(datagram) => {
                frames.udp += 1;
                frames.cut_payload += u64::from((datagram.payload.len() as u32) < datagram.payload_len);
                let passes = self.passes(datagram.from, datagram.to);
                if passes {
                    self.datagram(&datagram, frame.at);
                } else {
                    self.all.meter.frames.turned_away += 1;
                }
                return passes;
            }
            Packet::OtherIp(_) => frames.other_ip += 1,
            Packet::Fragment(_) => {
                frames.fragments += 1;
                // Only the datagram's first fragment shows its ports; saving one too many does no harm.
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
        // A packet without ports matches no filter by port.
        self.filter.is_empty()
    }

    fn passes(&self, from: Endpoint, to: Endpoint) -> bool {
        self.filter.is_empty() || self.filter.passes(from, to)
    }

    fn datagram(&mut self, datagram: &Datagram<'_>, at: Instant) {
        self.expire();
        let slot = match self.datagrams.find(datagram.from, datagram.to) {
            Some(slot) => slot,
            None => {
                while self.datagrams.len() >= self.all.options.limits.connections.max(1) {
                    let Some((oldest, _)) = self.datagrams.oldest(List::Live) else {
                        break;
                    };
                    self.all.meter.udp.evicted += 1;
                    self.retire_datagrams(oldest, End::Evicted);
                }
                self.all.meter.udp.flows += 1;
                self.datagrams.insert(UdpFlow::new(datagram, at, self.all.number))
            }
        };
        if let Some(flow) = self.datagrams.flow(slot) {
            let mut cx = self.all.context(at, ConnectionId::default());
            flow.datagram(datagram, &mut cx);
        }
        self.datagrams.touch(slot);
    }

    fn segment(&mut self, segment: &Segment<'_>, at: Instant) {
        self.expire();
        let mut found = self.table.find(segment.from, segment.to);
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
        if let Some(flow) = self.table.flow(slot) {
            let mut cx = self.all.context(at, flow.id);
            flow.packet(segment, &mut cx);
        }
        self.table.touch(slot);
    }

    fn admit(&mut self, segment: &Segment<'_>, at: Instant) -> u32 {
        while self.table.len() >= self.all.options.limits.connections.max(1) {
            let oldest = self
                .table
                .oldest(List::Over)
                .or_else(|| self.table.oldest(List::Live));
            match oldest {
                Some((slot, _)) => self.retire(slot, End::Evicted),
                None => break,
            }
        }
        let id = self.all.meter.seen();
        let flow = Flow::new(id, segment, at, self.all.number);
        if flow.is_established() {
            self.all.meter.opened(at);
        }
        self.table.insert(flow)
    }

    /// Reports connections whose time is up, at most three per packet, so that no packet waits for many.
    #[inline]
    fn expire(&mut self) {
        let limits = self.all.options.limits;
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
        if let Some((slot, last)) = self.datagrams.oldest(List::Live)
            && self.now.since(last) > limits.udp_idle
        {
            self.retire_datagrams(slot, End::Idle);
        }
    }

    fn retire_datagrams(&mut self, slot: u32, end: End) {
        let Some(flow) = self.datagrams.remove(slot) else {
            return;
        };
        let mut cx = self.all.context(flow.last_at(), ConnectionId::default());
        flow.finish(end, &mut cx);
    }

    fn retire(&mut self, slot: u32, end: End) {
        let Some(flow) = self.table.remove(slot) else {
            return;
        };
        let mut cx = self.all.context(flow.last_at(), flow.id);
        let connection = flow.finish(end, &mut cx);
        self.all.meter.finished(&connection);
        self.all.events.push_back(Event::Connection(Box::new(connection)));
    }

    fn finish(&mut self) {
        if let Some((held, is_wrong)) = self.clock.unconfirmed() {
            self.all.meter.frames.time_wrong += u64::from(is_wrong);
            self.take(&held.frame());
        }
        // In order of their last packets; finished ones first.
        for list in [List::Over, List::Live] {
            while let Some((slot, _)) = self.table.oldest(list) {
                self.retire(slot, End::CaptureEnded);
            }
        }
        while let Some((slot, _)) = self.datagrams.oldest(List::Live) {
            self.retire_datagrams(slot, End::CaptureEnded);
        }
    }
}
