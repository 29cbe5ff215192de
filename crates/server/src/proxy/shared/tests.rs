//! Several requests on one connection, against the server's end of the crate `http2`.

use super::*;
use crate::proxy::http2::Translator;
use http2::{Limits, server};

const NOW: Instant = Instant::ZERO;

struct Pair {
    shared: Shared,
    upstream: server::Connection,
    /// Frames for the connection.
    down: Vec<u8>,
    /// Streams of requests and of resets, in their order.
    asked: Vec<u32>,
    resets: Vec<u32>,
    /// What each place was told.
    told: Vec<(Place, Told)>,
}

impl Pair {
    fn new(limits: Limits, most: usize) -> Pair {
        let (mut up, mut down) = (Vec::new(), Vec::new());
        let tally = Arc::new(Tally::default());
        let (http, input, tally) = Translator::new(&tally, NOW, &mut up).into_parts();
        let upstream = server::Connection::new(Arc::new(limits), NOW, &mut down);
        let mut pair = Pair {
            shared: Shared::new(None, http, (input, up), most, tally),
            upstream,
            down,
            asked: Vec::new(),
            resets: Vec::new(),
            told: Vec::new(),
        };
        pair.settle();
        pair
    }

    /// Moves all bytes both ways.
    fn settle(&mut self) {
        loop {
            let up = self.shared.output(NOW);
            let mut used = 0;
            loop {
                let received = self.upstream.receive(&up[used..], NOW, &mut self.down);
                used += received.used;
                match received.event {
                    Event::Partial => break,
                    Event::Request { stream, .. } => self.asked.push(stream),
                    Event::Reset { stream, .. } => self.resets.push(stream),
                    Event::Body { stream, bytes } => {
                        let count = bytes.len() as u32;
                        self.upstream.consumed(stream, count, &mut self.down);
                    }
                    Event::Closed(fault) => panic!("{fault:?}"),
                    _ => {}
                }
            }
            assert_eq!(used, up.len(), "frames are written whole");
            let down = std::mem::take(&mut self.down);
            if !down.is_empty() {
                self.shared.receive(&down, NOW);
            }
            self.told.extend(std::iter::from_fn(|| self.shared.next()));
            if up.is_empty() && down.is_empty() {
                return;
            }
        }
    }

    /// A request at this place.
    fn ask(&mut self, place: u64, request: &str) {
        self.shared.join(Place(place));
        self.shared.send(Place(place), request.as_bytes(), NOW);
        self.settle();
    }

    fn read(&mut self, place: u64) -> Option<Told> {
        self.told.clear();
        self.shared.read(Place(place), NOW);
        self.settle();
        let its = self.told.iter().position(|(its, _)| *its == Place(place))?;
        Some(self.told.remove(its).1)
    }

    fn text(&mut self, place: u64) -> String {
        match self.read(place) {
            Some(Told::Bytes(bytes)) => String::from_utf8(bytes).expect("text"),
            other => panic!("{other:?}"),
        }
    }

    /// Answers the request that came in this place of the order.
    fn answer(&mut self, nth: usize, content: usize) {
        let stream = self.asked[nth];
        let mut lines = Vec::new();
        http2::hpack::block::status(200, &mut lines);
        let head = self
            .upstream
            .respond(stream, &lines, content == 0, &mut self.down);
        head.expect("a stream");
        if content > 0 {
            self.upstream.ready(stream, content as u64).expect("a stream");
            self.upstream.finish(stream).expect("a stream");
        }
        self.flow();
    }

    /// Sends content as far as windows permit. Returns its bytes.
    fn flow(&mut self) -> usize {
        let mut sent = 0;
        loop {
            while let Some(piece) = self.upstream.next(PORTION, NOW, &mut self.down) {
                self.down.resize(self.down.len() + piece.bytes, b'x');
                sent += piece.bytes;
            }
            if self.down.is_empty() {
                return sent;
            }
            self.settle();
        }
    }
}

const GET: &str = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";

#[test]
fn responses_come_in_any_order_and_only_to_those_who_read() {
    let mut pair = Pair::new(Limits::DEFAULT, 10);
    for place in 0..3 {
        pair.ask(place, GET);
    }
    assert_eq!(pair.asked, [1, 3, 5]);
    assert_eq!(pair.told.len(), 3, "each was sent: {:?}", pair.told);
    pair.told.clear();
    for nth in [2, 0, 1] {
        pair.answer(nth, 0);
    }
    assert_eq!(pair.told, []);
    for place in 0..3 {
        assert_eq!(pair.text(place), "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n");
        assert_eq!(pair.read(place), None);
        pair.shared.leave(Place(place), NOW);
    }
    pair.settle();
    assert!(pair.resets.is_empty());
    assert!(pair.shared.has_room() && !pair.shared.is_over());
}

#[test]
fn a_place_that_reads_nothing_holds_its_window_and_others_go_on() {
    let mut pair = Pair::new(Limits::DEFAULT, 10);
    for place in 0..10 {
        pair.ask(place, GET);
    }
    // Nine of ten read nothing, however much there is for them.
    for nth in 0..9 {
        pair.answer(nth, 10 << 20);
    }
    let held = pair.shared.held();
    assert!(held < 10 * (65_535 + (16 << 10)), "{held}");
    pair.answer(9, 3 << 20);
    let mut got = 0;
    loop {
        match pair.read(9) {
            Some(Told::Bytes(bytes)) => got += bytes.iter().filter(|byte| **byte == b'x').count(),
            None => break,
            other => panic!("{other:?}"),
        }
        pair.flow();
    }
    assert_eq!(got, 3 << 20);
    assert!(pair.shared.held() < held + (100 << 10), "{}", pair.shared.held());
    // One that reads gets more.
    let first = pair.text(0).len();
    assert!(first > 60_000, "{first}");
    assert!(pair.flow() > 60_000);
}

#[test]
fn requests_take_turns_and_wait_for_windows() {
    let narrow = Limits {
        stream_window: 1_000,
        ..Limits::DEFAULT
    };
    let mut pair = Pair::new(narrow, 10);
    let head = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 60000\r\n\r\n";
    for place in 0..2 {
        pair.shared.join(Place(place));
        let request = format!("{head}{}", "y".repeat(60_000));
        pair.shared.send(Place(place), request.as_bytes(), NOW);
    }
    let told: Vec<_> = std::iter::from_fn(|| pair.shared.next()).collect();
    assert_eq!(told, [], "the windows hold most of it back");
    pair.settle();
    assert_eq!(pair.told, [(Place(0), Told::Sent), (Place(1), Told::Sent)]);
}

#[test]
fn there_is_room_up_to_both_bounds() {
    let two = Limits {
        streams_max: 2,
        ..Limits::DEFAULT
    };
    for (limits, most) in [(two, 10), (Limits::DEFAULT, 2)] {
        let mut pair = Pair::new(limits, most);
        for place in 0..2 {
            assert!(pair.shared.has_room());
            pair.ask(place, GET);
        }
        assert!(!pair.shared.has_room());
        pair.answer(0, 0);
        assert!(!pair.shared.has_room(), "its place is taken");
        pair.shared.leave(Place(0), NOW);
        assert!(pair.shared.has_room());
    }
    // One too many is told so, and nobody else.
    let mut pair = Pair::new(two, 10);
    for place in 0..3 {
        pair.ask(place, GET);
    }
    assert_eq!(
        pair.told.last(),
        Some(&(Place(2), Told::Lost(PeerLoss::Unprocessed)))
    );
    assert_eq!(pair.asked.len(), 2);
}

#[test]
fn what_was_not_processed_is_told_apart_from_what_was() {
    let mut pair = Pair::new(Limits::DEFAULT, 10);
    for place in 0..3 {
        pair.ask(place, GET);
    }
    pair.told.clear();
    let unprocessed = |place| (Place(place), Told::Lost(PeerLoss::Unprocessed));
    pair.upstream
        .reset(pair.asked[0], Code::REFUSED_STREAM, &mut pair.down);
    pair.upstream
        .reset(pair.asked[1], Code::INTERNAL_ERROR, &mut pair.down);
    pair.settle();
    assert_eq!(pair.told, [unprocessed(0)]);
    assert!(!pair.shared.has_room(), "it has just refused one");
    assert_eq!(pair.read(1), Some(Told::Eof));
    pair.answer(2, 0);
    assert!(pair.text(2).starts_with("HTTP/1.1 200"));
    pair.shared.leave(Place(2), NOW);
    assert!(pair.shared.has_room());
    // GOAWAY with a request under way: it is answered, and no other one follows.
    pair.ask(3, GET);
    pair.upstream.leave(&mut pair.down);
    pair.settle();
    assert!(pair.shared.is_over() && !pair.shared.has_room());
    pair.answer(3, 0);
    assert!(pair.text(3).starts_with("HTTP/1.1 200"));
    pair.told.clear();
    pair.ask(4, GET);
    assert_eq!(pair.told, [unprocessed(4)]);
    assert_eq!(pair.shared.tally.counts(), [4, 0, 1, 2]);
}

#[test]
fn who_leaves_resets_its_stream_and_a_silent_upstream_gets_no_more() {
    let mut pair = Pair::new(Limits::DEFAULT, 10);
    for place in 0..2 {
        pair.ask(place, GET);
    }
    pair.answer(0, 1 << 20);
    pair.shared.leave(Place(0), NOW);
    pair.settle();
    assert_eq!(pair.resets, [1]);
    assert!(pair.shared.has_room(), "the upstream was heard since");
    // Nothing came since this request.
    pair.ask(2, GET);
    pair.shared.leave(Place(2), NOW);
    assert!(pair.shared.is_over() && !pair.shared.has_room());
    // The end of the connection is that of all.
    pair.shared.end();
    assert_eq!(pair.read(1), Some(Told::Eof));
}

#[test]
fn a_request_that_was_not_given_out_was_not_processed() {
    let mut pair = Pair::new(Limits::DEFAULT, 10);
    pair.ask(0, GET);
    // The connection ends before the upstream was sent anything of two others.
    pair.shared.join(Place(1));
    pair.shared.join(Place(2));
    pair.shared.send(Place(2), GET.as_bytes(), NOW);
    let unsent = [0, 1, 2, 9].map(|place| pair.shared.is_unsent(Place(place)));
    assert_eq!(unsent, [false, true, true, false]);
    pair.told.clear();
    pair.shared.end();
    pair.settle();
    let unprocessed = |place| (Place(place), Told::Lost(PeerLoss::Unprocessed));
    assert_eq!(
        pair.told,
        [(Place(2), Told::Sent), unprocessed(1), unprocessed(2)]
    );
    assert_eq!(pair.asked, [1], "what is sent again elsewhere is not sent here");
    assert_eq!(pair.read(0), Some(Told::Eof));
    assert!(pair.shared.is_over() && !pair.shared.has_room());
}
