//! One HTTP/2 connection to a server: turns requests into frames and frames into responses (RFC 9113).
//!
//! Holds no socket and no clock. Windows are large, as in browsers, and are given back as content arrives: this client
//! keeps all of it. Knows neither the meaning of responses nor the purpose of requests.

use crate::session::Said;
use crate::streamed::{Came, Reset, STREAMS_MAX, head};
use http2::Code;
use http2::client::{Connection, Event};
pub use http2::priority::Priority;
use http2::{Limits, Misuse};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use units::Instant;

/// Bytes a server may send on a stream before more is granted: as in Chromium.
pub const STREAM_WINDOW: u32 = 6 << 20;
/// The same for all streams of a connection, unless one stream alone may have more.
const CONNECTION_WINDOW: u32 = 15 << 20;

/// Most bytes of a DATA frame and its header.
const FRAME_ROOM: usize = 16_393;

/// One connection.
#[derive(Debug)]
pub struct Streams {
    http: Connection,
    /// Frames to send.
    out: Vec<u8>,
    /// The start of a frame.
    kept: Vec<u8>,
    /// Bytes read since the last event: the start of a frame whose event is still to come counts for that.
    read: usize,
    /// The server leaves, or its connection failed.
    is_ending: bool,
    /// What came on each stream, and under 0 on all of them.
    meters: HashMap<u32, Meter>,
    /// Bytes granted at first: on a stream, on the connection.
    windows: [u32; 2],
    /// Contents of requests that are not sent completely, by stream, with the bytes sent.
    contents: HashMap<u32, (Arc<[u8]>, usize)>,
}

/// Bytes of bodies that came, and where the server had to stop unless it was told in time that it may send more.
#[derive(Debug)]
struct Meter {
    came: u64,
    /// Bytes that may come before more are granted.
    granted: u64,
    /// Bytes that had been granted, and when more were.
    stops: VecDeque<(u64, Instant)>,
}

impl Meter {
    fn new(window: u32) -> Meter {
        Meter {
            came: 0,
            granted: u64::from(window),
            stops: VecDeque::new(),
        }
    }

    fn dry(&self) -> Option<Instant> {
        let stop = self.stops.front().filter(|(bytes, _)| *bytes == self.came);
        stop.map(|(_, raised)| *raised)
    }
}

impl Streams {
    /// A new connection; its preface is the first output. `stream_window` is in bytes.
    pub fn new(stream_window: u32, now: Instant) -> Streams {
        let windows = [stream_window, CONNECTION_WINDOW.max(stream_window)];
        let limits = Limits {
            stream_window: windows[0],
            connection_window: windows[1],
            list_bytes_max: 256 << 10,
            block_bytes_max: 256 << 10,
            ..Limits::DEFAULT
        };
        let mut out = Vec::new();
        Streams {
            http: Connection::new(Arc::new(limits), now, &mut out),
            out,
            kept: Vec::new(),
            read: 0,
            is_ending: false,
            meters: HashMap::new(),
            windows,
            contents: HashMap::new(),
        }
    }

    /// Sends a request with content, as far as the server permits; the rest follows as it permits more. The fields are
    /// those of [`Streams::ask`], with `content-length` among them.
    ///
    /// # Errors
    /// If the server permits no further request on this connection now.
    pub fn ask_with<'f>(
        &mut self,
        fields: impl IntoIterator<Item = (&'f str, &'f str)>,
        is_head: bool,
        priority: Priority,
        content: Arc<[u8]>,
        now: Instant,
    ) -> Result<u32, Misuse> {
        if content.is_empty() {
            return self.ask(fields, is_head, priority);
        }
        let fields = fields
            .into_iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let stream = self
            .http
            .request_with(&[], fields, false, is_head, priority, &mut self.out)?;
        self.http.ready(stream, content.len() as u64)?;
        self.http.finish(stream)?;
        self.contents.insert(stream, (content, 0));
        self.send_contents(now);
        Ok(stream)
    }

    /// Writes as much of the contents as the windows of the server permit.
    fn send_contents(&mut self, now: Instant) {
        while let Some(piece) = self.http.next(FRAME_ROOM, now, &mut self.out) {
            let Some((content, sent)) = self.contents.get_mut(&piece.stream) else {
                debug_assert!(false, "only requests with content have something to send");
                return;
            };
            let to = *sent + piece.bytes;
            self.out.extend_from_slice(&content[*sent..to]);
            *sent = to;
            if piece.last {
                self.contents.remove(&piece.stream);
            }
        }
    }

    /// Sends a request without content: its pseudo-fields first, names in lower case. Returns its stream.
    ///
    /// # Errors
    /// If the server permits no further request on this connection now.
    pub fn ask<'f>(
        &mut self,
        fields: impl IntoIterator<Item = (&'f str, &'f str)>,
        is_head: bool,
        priority: Priority,
    ) -> Result<u32, Misuse> {
        let fields = fields
            .into_iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        self.http
            .request_with(&[], fields, true, is_head, priority, &mut self.out)
    }

    /// Whether another request may be sent.
    pub fn has_room(&self) -> bool {
        !self.is_ending && self.http.streams() < STREAMS_MAX && self.http.has_room()
    }

    /// Whether the connection takes further requests, now or later.
    pub fn is_persistent(&self) -> bool {
        !self.is_ending
    }

    /// If the server has used up what it was granted on this stream, or on the connection: when more was granted, which it
    /// learns half a round trip later.
    pub fn dry(&self, stream: u32) -> Option<Instant> {
        let of = |stream| self.meters.get(&stream).and_then(Meter::dry);
        of(stream).max(of(0))
    }

    /// Counts a piece of a body and gives its bytes back to the windows.
    fn consume(&mut self, stream: u32, bytes: u32, now: Instant) {
        let ids = [stream, 0];
        let before = ids.map(|id| self.http.granted(id));
        self.http.consumed(stream, bytes, &mut self.out);
        for (id, before) in ids.into_iter().zip(before) {
            let more = u64::from(self.http.granted(id).saturating_sub(before));
            let window = self.windows[usize::from(id == 0)];
            let meter = self.meters.entry(id).or_insert_with(|| Meter::new(window));
            meter.came += u64::from(bytes);
            let came = meter.came;
            while meter.stops.front().is_some_and(|(stop, _)| *stop < came) {
                meter.stops.pop_front();
            }
            if more > 0 {
                meter.stops.push_back((meter.granted, now));
                meter.granted += more;
            }
        }
    }

    /// Gives a request up (RFC 9113 section 8.7): nothing more of it is reported.
    pub fn cancel(&mut self, stream: u32) {
        self.contents.remove(&stream);
        self.http.reset(stream, Code::CANCEL, &mut self.out);
    }

    /// Whether there are frames to send.
    pub fn has_output(&self) -> bool {
        !self.out.is_empty()
    }

    /// Appends the frames to send, which are then sent, to `to`.
    pub fn write_output(&mut self, to: &mut Vec<u8>) {
        to.append(&mut self.out);
    }

    /// Parses received bytes and passes what came to `hear`.
    ///
    /// # Errors
    /// The fault of the server; the connection is of no further use, but its output should be sent.
    pub fn listen(
        &mut self,
        bytes: &[u8],
        now: Instant,
        mut hear: impl FnMut(Came<'_, '_, '_>),
    ) -> Result<(), String> {
        let mut input = std::mem::take(&mut self.kept);
        input.extend_from_slice(bytes);
        let mut at = 0;
        loop {
            let received = self.http.receive(&input[at..], now, &mut self.out);
            at += received.used;
            let used = std::mem::take(&mut self.read) + received.used;
            match received.event {
                Event::Partial => {
                    self.read = used;
                    break;
                }
                Event::Response {
                    stream,
                    end,
                    status,
                    fields,
                } => head(stream, status, fields, end, used, &mut hear),
                Event::Body { stream, bytes } => {
                    let count = bytes.len() as u32;
                    hear(Came::Said(stream, Said::Body(bytes, used)));
                    self.consume(stream, count, now);
                }
                Event::Trailers { stream, .. } | Event::End { stream } => {
                    self.meters.remove(&stream);
                    hear(Came::Said(stream, Said::End(used)));
                }
                Event::Reset { stream, code } => {
                    self.meters.remove(&stream);
                    self.contents.remove(&stream);
                    let reset = Reset {
                        code: code.to_string(),
                        is_refused: code == Code::REFUSED_STREAM,
                    };
                    hear(Came::Reset(stream, reset));
                }
                Event::GoAway { .. } => self.is_ending = true,
                Event::Closed(fault) => {
                    self.is_ending = true;
                    return Err(fault.to_string());
                }
                Event::Request { .. } | Event::Oversized { .. } => {
                    debug_assert!(false, "a client gets no requests");
                }
            }
        }
        input.drain(..at);
        self.kept = input;
        if !self.contents.is_empty() {
            self.send_contents(now);
        }
        Ok(())
    }
}
