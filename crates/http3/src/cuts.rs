//! Properties for arbitrary input, shared by tests and fuzz targets: results do not depend on how streams are split, the
//! output is whole frames, and a stream ends once.

use crate::client;
use crate::connection::{Connection, Event, Output};
use crate::frame::{Item, Reader};
use crate::limits::Limits;
use crate::priority::Priority;
use crate::qpack::{Bounds, Decoded, Decoder, Fields, block};
use crate::server;
use std::collections::BTreeMap;
use std::sync::Arc;
use units::Instant;

/// Reads `data` as an encoder stream and a section: the first byte is the length of the former. The stream is executed whole
/// and byte by byte; what the section holds is encoded and decoded again.
///
/// # Panics
/// If the pieces change the table or the result, or a field does not survive.
pub fn qpack(data: &[u8]) {
    let Some((&length, data)) = data.split_first() else {
        return;
    };
    let (stream, section) = data.split_at(usize::from(length).min(data.len()));
    let (mut whole, mut cut) = (Decoder::new(512), Decoder::new(512));
    let executed = whole.instructions(stream);
    let in_pieces = stream.iter().try_for_each(|&byte| cut.instructions(&[byte]));
    assert_eq!(executed, in_pieces, "the result depends on the pieces");
    if executed.is_err() {
        return;
    }
    assert_eq!(whole.inserted(), cut.inserted());
    let bounds = Bounds {
        fields: 10_000,
        bytes: 1 << 22,
    };
    let Ok(prefix) = whole.open(section) else {
        return;
    };
    let (mut fields, mut same) = (Fields::default(), Fields::default());
    let result = whole.decode(prefix, section, bounds, &mut fields);
    assert_eq!(result, cut.decode(prefix, section, bounds, &mut same));
    assert!(fields.iter().eq(same.iter()), "the tables are equal");
    let mut again = Vec::new();
    block::begin(&mut again);
    for (name, value) in fields.iter() {
        block::field(name, value, &mut again);
    }
    let plain = Decoder::new(0);
    let prefix = plain.open(&again).expect("we wrote it");
    same.clear();
    assert_eq!(
        plain.decode(prefix, &again, bounds, &mut same),
        Ok(Decoded::Whole)
    );
    assert!(fields.iter().eq(same.iter()), "what was encoded is decoded");
}

/// Runs a server over the streams of `data[1..]`, whole and in pieces of `data[0]` bytes. It answers each request with a
/// body of 1,000 bytes.
///
/// # Panics
/// If the runs differ, or the output breaks a rule of RFC 9114.
pub fn server(data: &[u8]) {
    both(data, || {
        let server = server::Connection::new(limits());
        (
            server,
            &[0, 4, 8, 12, 2, 6, 10, 14][..],
            |server: &mut server::Connection, stream| {
                let mut head = Vec::new();
                block::begin(&mut head);
                block::status(200, &mut head);
                server.respond(stream, &head, false).expect("a new request");
                server.ready(stream, 1_000).expect("its head was sent");
                server.finish(stream).expect("it is not finished");
            },
        )
    });
}

/// Runs a client that has sent three requests over the streams of `data[1..]`, whole and in pieces of `data[0]` bytes.
///
/// # Panics
/// As [`server`].
pub fn client(data: &[u8]) {
    both(data, || {
        let mut client = client::Connection::new(limits());
        for stream in [0, 4, 8] {
            let mut head = Vec::new();
            block::begin(&mut head);
            for (name, value) in [
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", "a"),
                (":path", "/"),
            ] {
                block::field(name.as_bytes(), value.as_bytes(), &mut head);
            }
            let sent = client.request(stream, &head, true, stream == 8, Priority::DEFAULT);
            sent.expect("nobody leaves");
        }
        (
            client,
            &[0, 4, 8, 1, 3, 7, 11, 15][..],
            |_: &mut client::Connection, _| {},
        )
    });
}

/// With a dynamic table, so that sections can wait.
fn limits() -> Arc<Limits> {
    Arc::new(Limits {
        table_bytes: 512,
        blocked_max: 2,
        list_bytes_max: 2_000,
        block_bytes_max: 500,
        ..Limits::DEFAULT
    })
}

/// A chunk of a stream: which one, its bytes, and whether it is the last or followed by a reset.
struct Chunk<'a> {
    stream: u64,
    bytes: &'a [u8],
    fin: bool,
    reset: bool,
}

/// Chunks of one flag byte and one length byte each. A control stream with SETTINGS goes before them, unless the first byte
/// is odd.
fn chunks<'a>(mut data: &'a [u8], streams: &[u64]) -> Vec<Chunk<'a>> {
    let mut chunks = Vec::new();
    if data.first().is_some_and(|first| first & 1 == 0) {
        chunks.push(Chunk {
            stream: streams[4],
            bytes: &[0, 4, 0],
            fin: false,
            reset: false,
        });
    }
    while let [flags, length, rest @ ..] = data {
        let (bytes, after) = rest.split_at(usize::from(*length).min(rest.len()));
        chunks.push(Chunk {
            stream: streams[usize::from(flags >> 1 & 7)],
            bytes,
            fin: flags & 0xf0 == 0x10,
            reset: flags & 0xf0 == 0x20,
        });
        data = after;
    }
    chunks
}

type Answer<R> = fn(&mut Connection<R>, u64);

fn both<R>(data: &[u8], make: impl Fn() -> (Connection<R>, &'static [u64], Answer<R>)) {
    let Some((&size, data)) = data.split_first() else {
        return;
    };
    let run = |size: usize| {
        let (connection, streams, answer) = make();
        run(connection, &chunks(data, streams), size, answer)
    };
    let (whole, cut) = (run(usize::MAX), run(usize::from(size).max(1)));
    assert_eq!(whole, cut, "the results depend on the pieces");
}

/// A stream of the peer as the transport holds it.
#[derive(Default)]
struct Held {
    bytes: Vec<u8>,
    fin: bool,
    /// Nothing more comes of it.
    ended: bool,
}

/// The events of each stream with their bodies joined, and the bytes written on each.
fn run<R>(
    mut connection: Connection<R>,
    chunks: &[Chunk<'_>],
    size: usize,
    answer: Answer<R>,
) -> (Vec<String>, BTreeMap<u64, Vec<u8>>) {
    let (now, mut events, mut held) = (Instant::ZERO, Vec::new(), BTreeMap::<u64, Held>::new());
    let mut bodies = BTreeMap::<u64, Vec<u8>>::new();
    let mut out = Written::default();
    out.take(&mut connection);
    'chunks: for chunk in chunks {
        let is_new = !held.contains_key(&chunk.stream);
        let stream = held.entry(chunk.stream).or_default();
        // A client has opened its requests itself.
        let own = chunk.stream & 3 == 0 && out.requests.contains(&chunk.stream);
        if is_new
            && !own
            && let Err(fault) = connection.open(chunk.stream, now)
        {
            events.push(fault.to_string());
            break;
        }
        if stream.ended {
            continue;
        }
        stream.ended = chunk.fin || chunk.reset;
        let mut pieces = chunk.bytes.chunks(size.min(chunk.bytes.len().max(1))).peekable();
        loop {
            let piece = pieces.next().unwrap_or_default();
            let is_last = pieces.peek().is_none();
            let stream = held.get_mut(&chunk.stream).expect("entered above");
            stream.bytes.extend_from_slice(piece);
            stream.fin = is_last && chunk.fin;
            let mut waiting = vec![chunk.stream];
            while let Some(id) = waiting.pop() {
                loop {
                    let stream = held.entry(id).or_default();
                    let received = connection.receive(id, &stream.bytes, stream.fin, now);
                    let (used, mut request) = (received.used, None);
                    let shown = match received.event {
                        Event::Partial => None,
                        Event::Closed(fault) => {
                            events.push(fault.to_string());
                            break 'chunks;
                        }
                        Event::Body { stream, bytes } => {
                            assert!(!bytes.is_empty(), "a body event is never empty");
                            bodies.entry(stream).or_default().extend_from_slice(bytes);
                            Some(Vec::new())
                        }
                        Event::Request {
                            stream, end, control, ..
                        } => {
                            request = Some(stream);
                            Some(vec![format!("request {stream} {control:?}"), ended(stream, end)])
                        }
                        Event::Oversized { stream, end } => {
                            request = Some(stream);
                            Some(vec![format!("oversized {stream}"), ended(stream, end)])
                        }
                        Event::Response {
                            stream, end, status, ..
                        } => Some(vec![format!("response {stream} {status}"), ended(stream, end)]),
                        Event::End { stream } => Some(vec![ended(stream, true)]),
                        Event::Resumed { stream } => {
                            waiting.push(stream);
                            Some(Vec::new())
                        }
                        other => Some(vec![format!("{other:?}")]),
                    };
                    held.get_mut(&id).expect("entered above").bytes.drain(..used);
                    if let Some(stream) = request {
                        answer(&mut connection, stream);
                    }
                    match shown {
                        None => break,
                        Some(lines) => events.extend(lines.into_iter().filter(|line| !line.is_empty())),
                    }
                }
            }
            if is_last {
                break;
            }
        }
        // Behind the chunk, not behind a piece: an error later in it takes back what waits to be sent.
        out.take(&mut connection);
        if chunk.reset {
            match connection.peer_reset(chunk.stream, now) {
                Ok(open) => events.push(format!("reset {} {open}", chunk.stream)),
                Err(fault) => {
                    events.push(fault.to_string());
                    break;
                }
            }
            out.take(&mut connection);
        }
    }
    events.push(format!("{bodies:?}"));
    out.check();
    (events, out.streams)
}

/// Whether the end comes with another event depends on the pieces.
fn ended(stream: u64, end: bool) -> String {
    if end {
        format!("end {stream}")
    } else {
        String::new()
    }
}

/// What a connection has written.
#[derive(Default)]
struct Written {
    streams: BTreeMap<u64, Vec<u8>>,
    ended: Vec<u64>,
    reset: Vec<u64>,
    requests: Vec<u64>,
}

impl Written {
    fn take<R>(&mut self, connection: &mut Connection<R>) {
        while let Some(output) = connection.poll() {
            let (id, bytes) = match output {
                Output::Write(piece) => {
                    let over = self.ended.contains(&piece.stream) || self.reset.contains(&piece.stream);
                    assert!(!over, "bytes behind the end of stream {}", piece.stream);
                    let stream = self.streams.entry(piece.stream).or_default();
                    stream.extend_from_slice(piece.frames);
                    stream.resize(stream.len() + piece.body as usize, 0);
                    if piece.end {
                        self.ended.push(piece.stream);
                    }
                    if piece.stream & 3 == 0 {
                        self.requests.push(piece.stream);
                    }
                    (piece.stream, piece.frames.len() as u64 + piece.body)
                }
                Output::Reset { stream, .. } => {
                    assert!(
                        !self.ended.contains(&stream) && !self.reset.contains(&stream),
                        "ended twice"
                    );
                    self.reset.push(stream);
                    continue;
                }
                Output::Stop { .. } => continue,
            };
            connection.sent(id, bytes);
        }
    }

    /// Frames are whole, unless the stream was reset.
    fn check(&self) {
        for (id, bytes) in &self.streams {
            let mut rest = match id & 2 {
                0 => &bytes[..],
                // The QPACK decoder stream has no frames; the type goes before those of the control stream.
                _ if bytes[0] != 0 => continue,
                _ => &bytes[1..],
            };
            let mut reader = Reader::default();
            loop {
                let (used, item) = reader.next(rest);
                rest = &rest[used..];
                if item == Item::Partial {
                    break;
                }
            }
            assert!(
                reader.is_between() || self.reset.contains(id),
                "stream {id} ends within a frame"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{kind, write};
    use proptest::prelude::*;

    /// Streams of messages with errors here and there, so that the state machine is reached. `head` begins each
    /// message.
    fn plausible(head: &'static [u8]) -> impl Strategy<Value = Vec<u8>> {
        let chunk = (
            0..8_u8,
            any::<u8>(),
            proptest::collection::vec(any::<u8>(), 0..12),
        );
        (1..40_u8, proptest::collection::vec(chunk, 1..30)).prop_map(move |(size, chunks)| {
            let (mut out, mut begun) = (vec![size], [false; 8]);
            for (at, (place, variant, noise)) in chunks.into_iter().enumerate() {
                // Request streams twice as often as the others; the fourth is an error of a server.
                let place = if variant.is_multiple_of(2) {
                    place % 3
                } else {
                    place
                };
                let is_new = !core::mem::replace(&mut begun[usize::from(place)], true);
                let bytes = match variant {
                    0..6 => noise,
                    6..12 => [&[variant], &noise[..]].concat(),
                    _ => step(head, place, is_new, variant, &noise),
                };
                // The first chunk says by its lowest bit whether SETTINGS go before everything.
                let first = u8::from(at == 0 && size == 7);
                let end = match variant {
                    20..60 if place < 3 => 0x10,
                    60..64 => 0x20,
                    64 => 0x10,
                    _ => 0,
                };
                out.extend([end | place << 1 | first, bytes.len() as u8]);
                out.extend(bytes);
            }
            out
        })
    }

    /// What an honest peer may send next.
    fn step(head: &[u8], place: u8, is_new: bool, variant: u8, noise: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match (place, is_new) {
            (0..4, true) => {
                // One in two heads needs the first entry of the dynamic table: its prefix, and the entry behind the base.
                let (prefix, more) = if variant % 4 < 2 {
                    ([2, 0x80], &[0x10][..])
                } else {
                    ([0, 0], &[][..])
                };
                write::frame(kind::HEADERS, &[&prefix, head, more].concat(), &mut out);
            }
            (0..4, false) if variant.is_multiple_of(8) => {
                write::frame(kind::HEADERS, b"\0\0\x23abc\x01d", &mut out)
            }
            (0..4, false) if variant % 8 == 1 => write::frame(0x21, noise, &mut out),
            (0..4, false) => write::frame(kind::DATA, noise, &mut out),
            (4, _) if variant.is_multiple_of(4) => write::frame(0x21, noise, &mut out),
            (4, _) if variant % 4 == 1 => write::go_away(8, &mut out),
            (4, _) => write::priority_update(u64::from(variant) / 4 * 4, "u=1, i", &mut out),
            (5, _) => {
                if is_new {
                    out.extend(b"\x02\x3f\x45");
                }
                out.extend(b"\x43x-a\x01b");
            }
            (6, true) => out.extend(b"\x03\x44"),
            (6, false) => out.push(0x44),
            (_, true) => out.extend(b"\x21abc"),
            (_, false) => out.extend(noise),
        }
        out
    }

    /// `:method: GET`, `:scheme: https`, `:path: /`, `:authority: a`.
    const GET: &[u8] = b"\xd1\xd7\xc1\x50\x01a";

    /// `:status: 200`.
    const OK: &[u8] = b"\xd9";

    proptest! {
        #[test]
        fn any_requests(data in plausible(GET)) {
            server(&data);
        }

        #[test]
        fn any_responses(data in plausible(OK)) {
            client(&data);
        }

        #[test]
        fn any_bytes(data in proptest::collection::vec(any::<u8>(), 0..200)) {
            server(&data);
            client(&data);
        }
    }
}
