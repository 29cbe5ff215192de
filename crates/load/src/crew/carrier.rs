//! HTTP/2 and HTTP/3: requests of several lines on one connection.
//!
//! ```text
//!   lines:   user 0: lane 0, lane 1, ... │ user 1: lane 0, ...        each with one request outstanding
//!               └────────┴──────┬────────────┴──────┘
//!   carrier:         one connection, on the first of these lines; a stream per request
//! ```
//! A page's embedded files are dealt out to the lanes of its user when the page is complete, as to several connections.
//! At the limit on streams, lines wait in order. Decides which line a response belongs to and what the end of a stream
//! or of the connection means for it; the crew decides how the user continues.

use super::hearing::{Hearing, received};
use super::{Crew, FIRST, Phase, TRIES_MAX, User, parted, scripted};
use crate::record::Trouble;
use client::http3::Http3;
use client::multiplexed::{Arrived, Multiplexed};
use client::plan::Mode;
use client::session::{Heard, Said};
use client::streamed::{Came, Reset};
use client::streams::{Priority, STREAM_WINDOW, Streams};
use runtime::dial::Port;
use std::collections::VecDeque;
use std::sync::Arc;
use units::Instant;

/// How requests share connections of HTTP/2 or HTTP/3.
#[derive(Clone, Debug)]
pub struct Sharing {
    /// Most requests outstanding on a connection; a server may permit fewer.
    pub streams_max: usize,
    /// Users whose requests share a connection.
    pub users: u32,
    /// The scheme of the targets, `http` or `https`.
    pub scheme: &'static str,
    /// Host and port.
    pub authority: String,
    /// The fields of every request, with names in lower case.
    pub fields: Vec<(String, String)>,
    /// The content of every request; `content-length` is among the fields.
    pub content: Option<Arc<[u8]>>,
}

/// A connection and the lines whose requests it carries.
#[derive(Debug)]
pub(super) struct Carrier {
    streams: Multiplexed,
    /// Start of the connection attempt; `None` once established.
    opening: Option<Instant>,
    /// Start of the TLS handshake; `None` once it is complete, and for cleartext.
    shaking: Option<Instant>,
    /// When the connection was established.
    stands: Option<Instant>,
    /// When bytes last came.
    progress: Instant,
    /// The line of each outstanding request, by stream.
    asked: Vec<(u32, u32)>,
    /// Lines that wait for a stream.
    waiting: VecDeque<u32>,
    /// Whether nothing came for the timeout although a request was outstanding. Further requests wait then: for bytes,
    /// or for the timeouts of those outstanding, with which the connection is given up.
    is_silent: bool,
    /// Whether it is in the list of those with output.
    is_due: bool,
}

impl Carrier {
    fn new(mode: Mode, now: Instant) -> Carrier {
        Carrier {
            streams: match mode {
                Mode::Http3 => Multiplexed::Http3(Http3::new()),
                _ => Multiplexed::Http2(Streams::new(STREAM_WINDOW, now)),
            },
            opening: Some(now),
            shaking: None,
            stands: None,
            progress: now,
            asked: Vec::new(),
            waiting: VecDeque::new(),
            is_silent: false,
            is_due: false,
        }
    }

    /// Since when the connection is opening, and since when it is in its handshake. That of QUIC opens it.
    fn unopened(&self, mode: Mode) -> (Option<Instant>, Option<Instant>) {
        match mode {
            Mode::Http3 => (None, self.opening.or(self.shaking)),
            _ => (self.opening, self.shaking),
        }
    }

    /// The line of this stream, whose request is no longer outstanding.
    fn answered(&mut self, stream: u32) -> Option<u32> {
        let at = self.asked.iter().position(|(asked, _)| *asked == stream)?;
        Some(self.asked.swap_remove(at).1)
    }
}

/// What ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The server closed it.
    Closed,
    /// It failed.
    Failed(Trouble),
    /// Nothing came for the timeout: it is given up here, with the requests that are as old.
    Silent(Trouble),
}

impl Crew {
    /// Lines that share a connection.
    fn shared(&self) -> u32 {
        let users = self
            .setup
            .sharing
            .as_ref()
            .map_or(1, |sharing| sharing.users.max(1));
        users * self.setup.lanes.max(1)
    }

    /// The number of the carrier of this line.
    fn carrier_of(&self, line: u32) -> usize {
        ((line - FIRST) / self.shared()) as usize
    }

    /// The line of this carrier's connection.
    fn line_of(&self, carrier: usize) -> u32 {
        FIRST + carrier as u32 * self.shared()
    }

    /// Sends the next request of a line, on a new connection if necessary, or lets it wait for a stream.
    pub(super) fn ask_on_stream(&mut self, line: u32, port: &mut Port, now: Instant) {
        let number = self.carrier_of(line);
        let connection = self.line_of(number);
        if self.carriers.len() <= number {
            self.carriers.resize_with(number + 1, || None);
        }
        let Some(sharing) = &self.setup.sharing else {
            return;
        };
        let User { phase, visitor, .. } = &mut self.users[(line - FIRST) as usize];
        let Phase::Fetching(fetch) = phase else {
            return;
        };
        let Some(part) = fetch.parts.get(fetch.got) else {
            return;
        };
        let slot = &mut self.carriers[number];
        if slot
            .as_ref()
            .is_some_and(|carrier| !carrier.streams.is_persistent() && carrier.asked.is_empty())
            && let Some(mut old) = slot.take()
        {
            parted(&mut old.stands, &mut self.ledger, now);
            port.close(connection);
        }
        let carrier = slot.get_or_insert_with(|| {
            port.connect(connection);
            Box::new(Carrier::new(self.setup.mode, now))
        });
        fetch.asked = fetch.got + 1;
        fetch.mark = now;
        fetch.sent = now;
        fetch.progress = now;
        let has_room = carrier.asked.len() < sharing.streams_max && carrier.streams.has_room();
        if carrier.is_silent || !has_room {
            carrier.waiting.push_back(line);
            return;
        }
        let verb = self.setup.ending.verb();
        let path = &self.setup.work.files[part.file as usize].path;
        let pseudo = [
            (":method", verb.name()),
            (":scheme", sharing.scheme),
            (":authority", &sharing.authority),
            (":path", path),
        ];
        let regular = sharing
            .fields
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let fields = pseudo.into_iter().chain(regular);
        let (is_head, priority) = (verb.is_head(), Priority::DEFAULT);
        let stream = match (&sharing.content, &self.setup.script, visitor) {
            (_, Some(script), Some(visitor)) => scripted::ask(
                &mut carrier.streams,
                sharing.scheme,
                script,
                visitor,
                part.file,
                now,
            ),
            (None, ..) => carrier.streams.ask(fields, is_head, priority),
            (Some(content), ..) => {
                let content = Arc::clone(content);
                carrier.streams.ask_with(fields, is_head, priority, content, now)
            }
        };
        match stream {
            Some(stream) => carrier.asked.push((stream, line)),
            None => carrier.waiting.push_back(line),
        }
        if !std::mem::replace(&mut carrier.is_due, true) {
            self.due.push(number);
        }
    }

    /// Sends what the carriers have written since the last call.
    pub(super) fn flush(&mut self, port: &mut Port) {
        for number in std::mem::take(&mut self.due) {
            let line = self.line_of(number);
            if let Some(Some(carrier)) = self.carriers.get_mut(number) {
                carrier.is_due = false;
                carrier.streams.send(line, port);
            }
        }
    }

    /// Records an established connection.
    pub(super) fn carrier_stands(&mut self, line: u32, now: Instant) {
        let number = self.carrier_of(line);
        let is_secured = self.setup.secured;
        let Some(Some(carrier)) = self.carriers.get_mut(number) else {
            return;
        };
        carrier.stands = Some(now);
        carrier.progress = now;
        carrier.shaking = is_secured.then_some(now);
        // QUIC's handshake and that of TLS are one, which `carrier_secured` reports.
        if self.setup.mode == Mode::Http3 {
            carrier.shaking = carrier.opening.take();
        }
        if let Some(opened) = carrier.opening.take() {
            self.ledger.of(opened).connect.add(now.since(opened));
        }
        self.wait_from(number, now);
    }

    /// Records a complete TLS handshake; returns when it began.
    pub(super) fn carrier_secured(&mut self, line: u32, now: Instant) -> Option<Instant> {
        let number = self.carrier_of(line);
        let carrier = self.carriers.get_mut(number)?.as_mut()?;
        let since = carrier.shaking.take();
        carrier.progress = now;
        self.wait_from(number, now);
        since
    }

    /// The wait for the first byte of all requests outstanding on this carrier begins now.
    fn wait_from(&mut self, number: usize, now: Instant) {
        let Some(Some(carrier)) = self.carriers.get(number) else {
            return;
        };
        for (_, line) in &carrier.asked {
            if let Phase::Fetching(fetch) = &mut self.users[(line - FIRST) as usize].phase {
                fetch.sent = now;
                fetch.progress = now;
            }
        }
    }

    /// Whether the handshake of this line's carrier is not complete: that of TLS, or of QUIC, which opens with it.
    pub(super) fn is_carrier_shaking(&self, line: u32) -> bool {
        let carrier = self
            .carriers
            .get(self.carrier_of(line))
            .and_then(Option::as_deref);
        // Before TLS, a connection of TCP opens; that of QUIC opens with it.
        let opens_with_it = self.setup.mode == Mode::Http3;
        carrier
            .is_some_and(|carrier| carrier.shaking.is_some() || (opens_with_it && carrier.opening.is_some()))
    }

    /// Processes bytes of a carrier's connection.
    pub(super) fn carried(&mut self, line: u32, arrived: Arrived<'_>, port: &mut Port, now: Instant) {
        let number = self.carrier_of(line);
        let Some(mut carrier) = self.carriers.get_mut(number).and_then(Option::take) else {
            return;
        };
        received(&mut self.ledger, arrived.bytes(), now);
        carrier.progress = now;
        carrier.is_silent = false;
        let (mut ended, mut resets) = (std::mem::take(&mut self.ended), Vec::new());
        let Carrier { streams, asked, .. } = &mut *carrier;
        let heard = streams.listen(arrived, now, |came| {
            let (stream, said) = match came {
                Came::Said(stream, said) => (stream, said),
                // Users request what their plan says.
                Came::Hints(..) => return,
                Came::Reset(stream, reset) => return resets.push((stream, reset)),
            };
            // A request that was given up has no line any more.
            let Some((_, line)) = asked.iter().find(|(asked, _)| *asked == stream) else {
                return;
            };
            let User { phase, visitor, .. } = &mut self.users[(line - FIRST) as usize];
            let Phase::Fetching(fetch) = phase else { return };
            fetch.progress = now;
            let mut hearing = Hearing {
                fetch,
                visitor: visitor.as_deref_mut(),
                began: self.began,
                setup: &self.setup,
                ledger: &mut self.ledger,
                live: &self.live,
                now,
            };
            let took = match &said {
                Said::Head(_, took) | Said::Body(_, took) | Said::End(took) => *took as u64,
            };
            hearing.fetch.received += took;
            match said {
                Said::Head(head, _) => hearing.hear(Heard::Head(head.status, Some(head.fields.into()))),
                Said::Body(bytes, _) => hearing.hear(Heard::Body(bytes)),
                Said::End(_) => {
                    hearing.hear(Heard::End);
                    ended.push(stream);
                }
            }
        });
        if carrier.streams.has_output() && !std::mem::replace(&mut carrier.is_due, true) {
            self.due.push(number);
        }
        self.carriers[number] = Some(carrier);
        for stream in ended.drain(..) {
            self.stream_ended(number, stream, port, now);
        }
        self.ended = ended;
        for (stream, reset) in resets {
            self.stream_reset(number, stream, &reset, port, now);
        }
        if let Err(fault) = heard {
            let from = self.ledger.from();
            self.ledger.of(now).breached(&fault, &[], now, from);
            self.flush(port);
            self.carrier_ended(line, Ended::Failed(Trouble::Protocol), port, now);
            return;
        }
        self.admit(number, port, now);
    }

    /// Lets waiting lines send as far as streams are free; leaves a connection whose server leaves it.
    fn admit(&mut self, number: usize, port: &mut Port, now: Instant) {
        loop {
            let Some(sharing) = &self.setup.sharing else {
                return;
            };
            let Some(Some(carrier)) = self.carriers.get_mut(number) else {
                return;
            };
            let is_leaving = !carrier.streams.is_persistent();
            if is_leaving && carrier.asked.is_empty() {
                self.ledger.of(now).closed_by_server += 1;
                let line = self.line_of(number);
                self.carrier_ended(line, Ended::Closed, port, now);
                return;
            }
            let has_room = carrier.asked.len() < sharing.streams_max && carrier.streams.has_room();
            let may_send = has_room && !carrier.is_silent;
            let Some(line) = carrier.waiting.pop_front_if(|_| may_send) else {
                return;
            };
            self.ask_on_stream(line, port, now);
        }
    }

    fn stream_ended(&mut self, number: usize, stream: u32, port: &mut Port, now: Instant) {
        let carrier = self.carriers.get_mut(number).and_then(Option::as_mut);
        let Some(line) = carrier.and_then(|carrier| carrier.answered(stream)) else {
            return;
        };
        if let Phase::Fetching(fetch) = &mut self.users[(line - FIRST) as usize].phase {
            fetch.tries = 0;
        }
        self.next_on_stream(line, port, now);
    }

    fn next_on_stream(&mut self, line: u32, port: &mut Port, now: Instant) {
        let Phase::Fetching(fetch) = &self.users[(line - FIRST) as usize].phase else {
            return;
        };
        if fetch.got == fetch.parts.len() {
            self.finish(line, core::time::Duration::ZERO, port, now);
        } else {
            self.go_on(line, port, now);
        }
    }

    /// A stream ended without a whole response. A refused one was not processed and is repeated.
    #[cold]
    fn stream_reset(&mut self, number: usize, stream: u32, reset: &Reset, port: &mut Port, now: Instant) {
        let carrier = self.carriers.get_mut(number).and_then(Option::as_mut);
        let Some(line) = carrier.and_then(|carrier| carrier.answered(stream)) else {
            return;
        };
        match reset.is_refused {
            true => self.unanswered(line, port, now),
            false => self.failed_on_stream(line, Trouble::Truncated, port, now),
        }
    }

    /// Repeats the request of a line that the server did not process, or gives it up.
    #[cold]
    fn unanswered(&mut self, line: u32, port: &mut Port, now: Instant) {
        let Phase::Fetching(fetch) = &mut self.users[(line - FIRST) as usize].phase else {
            return;
        };
        let took = now.since(fetch.mark);
        self.ledger.transferred(fetch.part_intended, took, None, now);
        fetch.tries += 1;
        fetch.received = 0;
        if fetch.tries > TRIES_MAX {
            self.lost(line, Trouble::Unanswered, port, now);
            return;
        }
        self.ledger.of(now).resent += 1;
        self.ask_on_stream(line, port, now);
    }

    /// The file of a line failed and is not repeated: it was answered in part.
    #[cold]
    fn failed_on_stream(&mut self, line: u32, trouble: Trouble, port: &mut Port, now: Instant) {
        self.fail_part(line, trouble, now);
        self.next_on_stream(line, port, now);
    }

    /// A line made no progress within the timeout. A connection that is silent as a whole is given up as soon as no
    /// younger request is outstanding on it.
    #[cold]
    pub(super) fn late_on_stream(&mut self, line: u32, trouble: Trouble, port: &mut Port, now: Instant) {
        let (number, timeout) = (self.carrier_of(line), self.setup.timeout);
        let connection = self.line_of(number);
        let Some(Some(carrier)) = self.carriers.get(number) else {
            return self.lost(line, trouble, port, now);
        };
        let is_silent = carrier.progress + timeout <= now;
        // Requests of a connection that is not open were not sent, so another can have them.
        let is_open = carrier.stands.is_some() && carrier.shaking.is_none();
        let is_awaited = is_open && carrier.asked.iter().any(|(_, asked)| !self.is_late(*asked, now));
        if is_silent && !is_awaited {
            self.carrier_ended(connection, Ended::Silent(trouble), port, now);
            return;
        }
        let Some(Some(carrier)) = self.carriers.get_mut(number) else {
            return;
        };
        carrier.is_silent |= is_silent;
        carrier.waiting.retain(|waiting| *waiting != line);
        let asked = carrier.asked.iter().find(|(_, asked)| *asked == line);
        if let Some(stream) = asked.map(|(stream, _)| *stream) {
            carrier.answered(stream);
            carrier.streams.cancel(stream);
            if !std::mem::replace(&mut carrier.is_due, true) {
                self.due.push(number);
            }
        }
        self.lost(line, trouble, port, now);
        self.admit(number, port, now);
    }

    /// Whether the request of a line made no progress within the timeout.
    fn is_late(&self, line: u32, now: Instant) -> bool {
        match &self.users[(line - FIRST) as usize].phase {
            Phase::Fetching(fetch) => fetch.progress + self.setup.timeout <= now,
            _ => false,
        }
    }

    /// Sends a request again that has not been sent yet. Its timeout still counts from its begin.
    #[cold]
    fn ask_elsewhere(&mut self, line: u32, port: &mut Port, now: Instant) {
        let Phase::Fetching(fetch) = &self.users[(line - FIRST) as usize].phase else {
            return;
        };
        let progress = fetch.progress;
        self.ask_on_stream(line, port, now);
        if let Phase::Fetching(fetch) = &mut self.users[(line - FIRST) as usize].phase {
            fetch.progress = progress;
        }
    }

    /// The connection is gone, or is given up here: each of its lines repeats its request or fails.
    pub(super) fn carrier_ended(&mut self, line: u32, ended: Ended, port: &mut Port, now: Instant) {
        let number = self.carrier_of(line);
        let Some(mut carrier) = self.carriers.get_mut(number).and_then(Option::take) else {
            return;
        };
        port.close(self.line_of(number));
        let stood = carrier.stands.is_some();
        let (opening, shaking) = carrier.unopened(self.setup.mode);
        self.ledger.unopened(opening, shaking);
        parted(&mut carrier.stands, &mut self.ledger, now);
        self.due.retain(|due| *due != number);
        for line in carrier.waiting {
            // Its request was not sent.
            match ended {
                Ended::Failed(trouble) if !stood => self.lost(line, trouble, port, now),
                Ended::Silent(trouble) if self.is_late(line, now) => self.lost(line, trouble, port, now),
                Ended::Silent(_) => self.ask_elsewhere(line, port, now),
                Ended::Closed | Ended::Failed(_) => self.ask_on_stream(line, port, now),
            }
        }
        for (_, line) in carrier.asked {
            let Phase::Fetching(fetch) = &self.users[(line - FIRST) as usize].phase else {
                continue;
            };
            let is_answered = fetch.first.is_some();
            match ended {
                // The server may have processed it.
                Ended::Closed if !is_answered && !self.setup.verb(fetch).is_idempotent() => {
                    self.lost(line, Trouble::Unanswered, port, now);
                }
                Ended::Closed if is_answered => self.failed_on_stream(line, Trouble::Truncated, port, now),
                Ended::Closed => self.unanswered(line, port, now),
                Ended::Failed(Trouble::Lost) if is_answered => {
                    self.failed_on_stream(line, Trouble::Truncated, port, now);
                }
                Ended::Silent(_) if !self.is_late(line, now) => self.ask_elsewhere(line, port, now),
                Ended::Failed(trouble) | Ended::Silent(trouble) => self.lost(line, trouble, port, now),
            }
        }
    }

    /// Whether a request is outstanding or waiting on the carrier of this line.
    pub(super) fn is_carrier_busy(&self, line: u32) -> bool {
        let carrier = self
            .carriers
            .get(self.carrier_of(line))
            .and_then(Option::as_deref);
        carrier.is_some_and(|carrier| !carrier.asked.is_empty() || !carrier.waiting.is_empty())
    }

    /// Closes the connection of a user who leaves, if it was this user's alone.
    pub(super) fn leave_carrier(&mut self, line: u32, port: &mut Port, now: Instant) {
        let is_alone = self
            .setup
            .sharing
            .as_ref()
            .is_none_or(|sharing| sharing.users <= 1);
        if !is_alone || self.is_carrier_busy(line) {
            return;
        }
        let number = self.carrier_of(line);
        if let Some(mut carrier) = self.carriers.get_mut(number).and_then(Option::take) {
            parted(&mut carrier.stands, &mut self.ledger, now);
            self.due.retain(|due| *due != number);
            port.close(self.line_of(number));
        }
    }

    /// Records the carriers' connections that are not open yet at the end of the grace period.
    pub(super) fn abandon_carriers(&mut self) {
        for carrier in self.carriers.iter().flatten() {
            let (opening, shaking) = carrier.unopened(self.setup.mode);
            self.ledger.unopened(opening, shaking);
        }
    }

    /// Records the end of all carriers' connections.
    pub(super) fn part_from_carriers(&mut self, now: Instant) {
        for carrier in self.carriers.iter_mut().flatten() {
            parted(&mut carrier.stands, &mut self.ledger, now);
        }
    }
}
