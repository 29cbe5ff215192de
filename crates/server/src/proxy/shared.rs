//! An HTTP/2 connection to an upstream on which several requests are under way, of any clients of an event loop.
//!
//! ```text
//!   Forward ── HTTP/1.1 ─▶ Passage ─┐                ┌─ frames ─▶ TLS ─▶ upstream
//!   Forward ── HTTP/1.1 ─▶ Passage ─┴─ one Connection┤
//!   Forward ◀─ HTTP/1.1 ── plain   ◀──────────────────┴─ frames ◀─ TLS ◀─ upstream
//! ```
//! Decides which stream sends next (they take turns), whose window is opened, and what an end of the connection or of a
//! stream means to each request. A client that takes no output holds the window of its stream and no more: the connection's
//! window is twice as large as all streams' together, so the others go on.

use super::http2::{Over, Passage, Tally};
use http2::Code;
use http2::client::{Connection, Event};
use runtime::carrier::{Carrier, Place, Told};
use runtime::session::PeerLoss;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tls::engine::Engine;
use units::Instant;

/// Bytes of frames that are made at a time. The streams take turns within them.
const PORTION: usize = 64 << 10;

/// One request.
#[derive(Debug, Default)]
struct Entry {
    passage: Passage,
    /// The response so far, as far as the client has not taken it.
    plain: Vec<u8>,
    /// Bytes of content in it, whose window is closed until it is taken.
    unread: u32,
    /// The session takes input.
    reads: bool,
    /// The session waits for the end of its output.
    sends: bool,
    /// Nothing follows what is in `plain`.
    over: Option<Over>,
    /// Receives of the connection before the request.
    heard: u64,
}

/// A connection that is shared.
pub(crate) struct Shared {
    engine: Option<Engine>,
    http: Connection,
    /// Frames that are not complete.
    input: Vec<u8>,
    /// Frames, and records, for the upstream.
    frames: Vec<u8>,
    out: Vec<u8>,
    entries: BTreeMap<Place, Entry>,
    streams: BTreeMap<u32, Place>,
    /// The last stream that was opened, and the last one whose request is in an output; 0 before the first.
    opened: u32,
    given: u32,
    told: VecDeque<(Place, Told)>,
    /// Most requests at a time.
    most: usize,
    /// No more requests: the upstream leaves, or does not answer.
    leaves: bool,
    /// Nothing comes any more, and nothing is sent.
    has_failed: bool,
    /// No more requests until one is answered: the upstream refused one.
    pauses: bool,
    /// Receives so far.
    heard: u64,
    tally: Arc<Tally>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("entries", &self.entries)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// A connection without requests. `input` came and is not decoded; `out` has to be sent.
    pub(crate) fn new(
        engine: Option<Engine>,
        http: Connection,
        (input, out): (Vec<u8>, Vec<u8>),
        most: usize,
        tally: Arc<Tally>,
    ) -> Shared {
        Shared {
            engine,
            http,
            input,
            frames: Vec::new(),
            out,
            entries: BTreeMap::new(),
            streams: BTreeMap::new(),
            opened: 0,
            given: 0,
            told: VecDeque::new(),
            most,
            leaves: false,
            has_failed: false,
            pauses: false,
            heard: 0,
            tally,
        }
    }

    /// Takes what is in `input`.
    fn decode(&mut self, now: Instant) {
        let input = std::mem::take(&mut self.input);
        let mut used = 0;
        loop {
            let received = self.http.receive(&input[used..], now, &mut self.frames);
            used += received.used;
            let stream = match &received.event {
                Event::Partial => break,
                Event::GoAway { .. } => {
                    self.leaves = true;
                    self.tally.goaway();
                    continue;
                }
                Event::Closed(_) => {
                    self.fail();
                    break;
                }
                event => Passage::stream_of(event),
            };
            let place = stream.and_then(|stream| self.streams.get(&stream).copied());
            let body = match &received.event {
                Event::Body { stream, bytes } => Some((*stream, bytes.len() as u32)),
                _ => None,
            };
            let entry = place.and_then(|place| self.entries.get_mut(&place));
            if let Some(entry) = entry {
                let taken = entry.passage.take(&received.event, &mut entry.plain);
                if let (Some((_, bytes)), Ok(())) = (body, taken) {
                    entry.unread += bytes;
                }
                if let Err(over) = taken {
                    entry.over.get_or_insert(over);
                }
            } else if let Some((stream, bytes)) = body {
                self.http.consumed(stream, bytes, &mut self.frames);
            }
            if let Some(place) = place {
                self.deliver(place);
            }
        }
        self.input.extend_from_slice(&input[used..]);
    }

    /// Nothing follows on any stream. What the upstream was sent before it closed, it may have processed, unless it said otherwise
    /// (RFC 9113 section 8.7); what it was not sent, it has not.
    fn fail(&mut self) {
        (self.leaves, self.has_failed) = (true, true);
        let places: Vec<Place> = self.entries.keys().copied().collect();
        for place in places {
            let over = match self.is_unsent(place) {
                true => Over::Unprocessed,
                false => Over::Given,
            };
            if let Some(entry) = self.entries.get_mut(&place) {
                entry.over.get_or_insert(over);
            }
            self.deliver(place);
        }
    }

    /// Tells a session what it waits for, if that is there.
    fn deliver(&mut self, place: Place) {
        let Some(entry) = self.entries.get_mut(&place) else {
            return;
        };
        if entry.over == Some(Over::Unprocessed) && entry.plain.is_empty() {
            self.tally.refused();
            self.pauses = true;
            self.told.push_back((place, Told::Lost(PeerLoss::Unprocessed)));
            return self.forget(place);
        }
        if !entry.reads {
            return;
        }
        if !entry.plain.is_empty() {
            entry.reads = false;
            let plain = std::mem::take(&mut entry.plain);
            let unread = std::mem::take(&mut entry.unread);
            self.told.push_back((place, Told::Bytes(plain)));
            if let Some(stream) = entry.passage.stream() {
                self.http.consumed(stream, unread, &mut self.frames);
            }
        } else if entry.over.is_some() {
            entry.reads = false;
            self.told.push_back((place, Told::Eof));
        }
    }

    fn forget(&mut self, place: Place) {
        if let Some(entry) = self.entries.remove(&place)
            && let Some(stream) = entry.passage.stream()
        {
            self.streams.remove(&stream);
        }
    }

    /// Makes frames of what the sessions sent, as far as windows and the portion permit.
    fn pump(&mut self, now: Instant) {
        while self.frames.len() < PORTION {
            let room = PORTION - self.frames.len();
            let Some(piece) = self.http.next(room, now, &mut self.frames) else {
                break;
            };
            let place = self.streams.get(&piece.stream).copied();
            let entry = place.and_then(|place| Some((place, self.entries.get_mut(&place)?)));
            let Some((place, entry)) = entry else {
                // Streams without a request were reset, and send nothing.
                debug_assert!(false, "stream {} has no request", piece.stream);
                break;
            };
            entry.passage.fill(piece.bytes, &mut self.frames);
            entry.passage.finish(&mut self.http, &mut self.frames);
            if entry.passage.blocked() == 0 && std::mem::take(&mut entry.sends) {
                self.told.push_back((place, Told::Sent));
            }
        }
    }
}

impl Carrier for Shared {
    fn has_room(&self) -> bool {
        let permitted = match self.http.streams_max() {
            u32::MAX => self.tally.permitted(),
            permitted => permitted,
        };
        let most = self.most.min(permitted as usize);
        !self.leaves && !self.pauses && self.entries.len() < most && self.http.has_room()
    }

    fn join(&mut self, place: Place) {
        self.entries.insert(place, Entry::default());
    }

    fn send(&mut self, place: Place, bytes: &[u8], now: Instant) {
        let is_secured = self.engine.is_some();
        let Some(entry) = self.entries.get_mut(&place) else {
            return;
        };
        let is_new = entry.passage.stream().is_none();
        let sent = entry
            .passage
            .send(bytes, is_secured, &mut self.http, &mut self.frames);
        if let Some(stream) = entry.passage.stream().filter(|_| is_new) {
            self.streams.insert(stream, place);
            self.opened = stream;
            entry.heard = self.heard;
            self.tally.stream();
        }
        match sent {
            Err(over) => {
                entry.over.get_or_insert(over);
            }
            Ok(()) if entry.passage.blocked() == 0 => {
                entry.passage.finish(&mut self.http, &mut self.frames);
                self.told.push_back((place, Told::Sent));
            }
            Ok(()) => {
                entry.sends = true;
                self.pump(now);
            }
        }
        self.deliver(place);
    }

    fn read(&mut self, place: Place, _: Instant) {
        if let Some(entry) = self.entries.get_mut(&place) {
            entry.reads = true;
            self.deliver(place);
        }
    }

    fn leave(&mut self, place: Place, _: Instant) {
        let Some(entry) = self.entries.get(&place) else {
            return;
        };
        // An upstream that was silent since may be gone without a word: later requests use another connection.
        let is_silent = entry.heard == self.heard && entry.passage.stream().is_some();
        self.leaves |= is_silent && !entry.passage.is_whole();
        self.pauses &= !entry.passage.is_whole();
        if let Some(stream) = entry.passage.stream() {
            self.http.reset(stream, Code::CANCEL, &mut self.frames);
        }
        self.forget(place);
    }

    fn receive(&mut self, bytes: &[u8], now: Instant) {
        self.heard += 1;
        match &mut self.engine {
            None => self.input.extend_from_slice(bytes),
            Some(engine) => {
                let mut decrypted = Vec::new();
                let received = engine.receive(bytes, &mut Vec::new(), &mut decrypted, &mut self.out);
                self.input.append(&mut decrypted);
                if received.is_err() {
                    self.decode(now);
                    return self.fail();
                }
            }
        }
        self.decode(now);
        self.pump(now);
        self.tally.permits(self.http.streams_max());
    }

    fn end(&mut self) {
        self.fail();
    }

    fn output(&mut self, now: Instant) -> Vec<u8> {
        if self.has_failed {
            // Requests in them may be on their way over another connection. Only an alert of TLS is due.
            self.frames.clear();
            return std::mem::take(&mut self.out);
        }
        self.pump(now);
        let frames = std::mem::take(&mut self.frames);
        self.given = self.opened;
        match &mut self.engine {
            None => self.out.extend_from_slice(&frames),
            Some(_) if frames.is_empty() => {}
            Some(engine) => {
                // Keys that are used up take terabytes.
                if engine.send(&frames, &mut self.out).is_err() {
                    self.fail();
                }
            }
        }
        std::mem::take(&mut self.out)
    }

    fn is_unsent(&self, place: Place) -> bool {
        let entry = self.entries.get(&place);
        // A head is written whole, before all other frames of its stream.
        entry.is_some_and(|entry| entry.passage.stream().is_none_or(|stream| stream > self.given))
    }

    fn next(&mut self) -> Option<(Place, Told)> {
        self.told.pop_front()
    }

    fn is_over(&self) -> bool {
        self.leaves || (self.pauses && self.entries.is_empty())
    }

    fn held(&self) -> usize {
        let entries = self.entries.values();
        let entries: usize = entries
            .map(|entry| size_of::<Entry>() + entry.passage.held() + entry.plain.capacity())
            .sum();
        let engine = self.engine.as_ref().map_or(0, Engine::held);
        let buffers = self.input.capacity() + self.frames.capacity() + self.out.capacity();
        size_of::<Shared>() + self.http.memory() + entries + engine + buffers
    }
}

#[cfg(test)]
mod tests;
