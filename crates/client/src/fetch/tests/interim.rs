//! Interim responses (103) in sessions of HTTP/1.1 and HTTP/2, cut at every byte: however they arrive within an instant,
//! the record of the fetch is the same.

use super::*;
use crate::explain::hints;
use crate::timeline::Piece;

/// An event of the server.
enum Does {
    Connects,
    Sends(Vec<u8>),
    Resets,
}

/// The server's events: milliseconds, line, event.
type Script = Vec<(u64, u32, Does)>;

fn ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// Plays a script to the end of the fetch; `cut` divides the bytes of an event, which has this number.
fn played<'s>(fetch: Fetch, script: &'s Script, cut: impl Fn(usize, &'s [u8]) -> Vec<&'s [u8]>) -> Outcome {
    let (mut fetch, mut port) = (fetch, Port::default());
    fetch.start(&mut port, Instant::ZERO);
    for (number, (at, line, does)) in script.iter().enumerate() {
        assert!(!port.is_ended(), "event {number} comes after the end");
        let mut tell = |happened| {
            fetch.handle(*line, happened, &mut port, ms(*at));
            port.take();
        };
        match does {
            Does::Connects => tell(Happened::Connected),
            Does::Sends(bytes) => cut(number, bytes)
                .into_iter()
                .for_each(|piece| tell(Happened::Bytes(piece))),
            Does::Resets => tell(Happened::Lost(Failing::Open(104))),
        }
    }
    assert!(port.is_ended(), "{:#?}", fetch.timeline().objects);
    fetch.into_outcome()
}

/// The record, except into how many receipts the bytes were divided.
fn shown(outcome: &Outcome) -> String {
    let mut timeline = outcome.timeline.clone();
    for one in timeline.objects.iter_mut().flat_map(|object| &mut object.tries) {
        let (arrival, bytes) = (0, one.pieces.iter().map(|piece| piece.bytes).sum());
        one.pieces = vec![Piece {
            arrival,
            bytes,
            dry: None,
        }];
    }
    for connection in &mut timeline.connections {
        let bytes = connection.arrivals.iter().map(|one| one.bytes).sum();
        let last = connection.arrivals.last().expect("a receipt").at;
        connection.arrivals = vec![Arrival::after(None, last, bytes)];
    }
    format!("{timeline:#?} {:?} {:?}", outcome.entries, outcome.changed)
}

#[track_caller]
fn same(got: &str, want: &str, how: &str) {
    let mut lines = got.lines().zip(want.lines());
    let differing = lines.find(|(got, want)| got != want);
    assert!(got == want, "{how}: {differing:?}");
}

/// Plays the script whole, cut once at every byte of every event, and byte by byte; returns the common outcome.
#[track_caller]
fn check(fetch: impl Fn() -> Fetch, script: &Script) -> Outcome {
    let whole = played(fetch(), script, |_, bytes| vec![bytes]);
    let want = shown(&whole);
    for (event, (.., does)) in script.iter().enumerate() {
        let Does::Sends(bytes) = does else { continue };
        for at in 1..bytes.len() {
            let cut = played(fetch(), script, |number, bytes| match number == event {
                true => vec![&bytes[..at], &bytes[at..]],
                false => vec![bytes],
            });
            same(&shown(&cut), &want, &format!("event {event} cut at {at}"));
        }
    }
    let bytewise = played(fetch(), script, |_, bytes| bytes.chunks(1).collect());
    same(&shown(&bytewise), &want, "byte by byte");
    whole
}

fn fetch(manner: &str, entries: &Entries) -> Fetch {
    let url = Url::parse("http://example.org/").expect("a URL");
    let plan = Plan {
        revalidate: true,
        ..plan(manner)
    };
    Fetch::new(url, plan, entries.clone(), UnixTime::from_secs(1_000_000))
}

/// A cache with the page and its entity tag.
fn filled() -> Entries {
    let (first, _) = fetched(plan("serial"), Entries::new(), |_, _| {
        let head = "200 OK\r\nETag: \"1\"\r\nContent-Type: text/html\r\nContent-Length: 3";
        Some(answer(head, "<p>"))
    });
    first.entries
}

const PAGE: &str = "<link rel=stylesheet href=a.css>";
const HINT: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload; as=style\r\n\r\n";

/// The script of a server without HTTP/2.
fn spoken(events: &[(u64, u32, &str)]) -> Script {
    let sends = |&(at, line, text): &(u64, u32, &str)| match text {
        "connect" => (at, line, Does::Connects),
        "reset" => (at, line, Does::Resets),
        text => (at, line, Does::Sends(text.as_bytes().to_vec())),
    };
    events.iter().map(sends).collect()
}

#[test]
fn http_1_passes_over_interim_responses_however_they_are_cut() {
    let page = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{PAGE}",
        PAGE.len()
    );
    let sheet = "HTTP/1.1 200 OK\r\nContent-Type: text/css\r\nContent-Length: 3\r\n\r\np{}";
    let (twice, last) = (format!("{HINT}{HINT}"), format!("{HINT}{page}"));
    let new = || fetch("serial", &Entries::new());
    let several = [
        (10, 1, "connect"),
        (20, 1, &twice),
        (30, 1, &last),
        (40, 1, sheet),
    ];
    let outcome = check(new, &spoken(&several));
    assert_eq!(fates(&outcome), [&NET, &NET]);
    // The interim responses are no part of the response, and name nothing: as browsers, over HTTP/2 only.
    let one = &outcome.timeline.objects[0].tries[0];
    assert_eq!((one.hinted, one.first), (None, Some(ms(30))));
    assert!(hints(&outcome.timeline).is_empty());

    let entries = filled();
    let same = "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n";
    let valid = [(10, 1, "connect"), (20, 1, HINT), (30, 1, same)];
    let outcome = check(|| fetch("serial", &entries), &spoken(&valid));
    assert_eq!(fates(&outcome), [&Fate::Done(Source::Validated)]);

    let again = [
        (10, 1, "connect"),
        (20, 1, HINT),
        (30, 1, "reset"),
        (40, 2, "connect"),
        (50, 2, &last),
        (60, 2, sheet),
    ];
    let outcome = check(new, &spoken(&again));
    assert_eq!(fates(&outcome), [&NET, &NET]);
    let tries = &outcome.timeline.objects[0].tries;
    assert_eq!((tries[0].first, tries[1].first), (None, Some(ms(50))));
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A field block without compression (RFC 7541 section 6.2.2).
fn block(status: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = vec![0x08, status.len() as u8];
    block.extend(status.bytes());
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            block.push(text.len() as u8);
            block.extend(text.bytes());
        }
    }
    block
}

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn head(stream: u32, status: &str, fields: &[(&str, &str)], flags: u8) -> Vec<u8> {
    frame(1, END_HEADERS | flags, stream, &block(status, fields))
}

fn hint(target: &str) -> Vec<u8> {
    let link = format!("<{target}>; rel=preload; as=style");
    head(1, "103", &[("link", &link)], 0)
}

/// The same interim response in two frames.
fn hint_in_two(target: &str) -> Vec<u8> {
    let link = format!("<{target}>; rel=preload; as=style");
    let block = block("103", &[("link", &link)]);
    let (a, b) = block.split_at(9);
    [frame(1, 0, 1, a), frame(9, END_HEADERS, 1, b)].concat()
}

fn response(stream: u32, media: &str, body: &str) -> Vec<u8> {
    let head = head(stream, "200", &[("content-type", media)], 0);
    [head, frame(0, END_STREAM, stream, body.as_bytes())].concat()
}

/// The script of a server of HTTP/2 that sends these bytes 10 ms apart.
fn framed(events: Vec<Vec<u8>>) -> Script {
    let mut all = events.into_iter();
    let first = [frame(4, 0, 0, &[]), all.next().unwrap_or_default()].concat();
    let sent = std::iter::once(first).chain(all).enumerate();
    let sent = sent.map(|(number, bytes)| (20 + 10 * number as u64, 1, Does::Sends(bytes)));
    std::iter::once((10, 1, Does::Connects)).chain(sent).collect()
}

#[test]
fn http_2_follows_early_hints_however_they_are_cut() {
    let new = || fetch("h2", &Entries::new());
    // The page is on stream 1, the style sheets on 3 and 5 as they are hinted.
    let several = framed(vec![
        [hint("/a.css"), hint_in_two("/b.css")].concat(),
        hint("/a.css"),
        response(1, "text/html", PAGE),
        [response(3, "text/css", "p{}"), response(5, "text/css", "")].concat(),
    ]);
    let outcome = check(new, &several);
    assert_eq!(fates(&outcome), [&NET, &NET, &NET]);
    let one = &outcome.timeline.objects[0].tries[0];
    assert_eq!((one.hinted, one.first), (Some(ms(20)), Some(ms(40))));
    let of_hints = hints(&outcome.timeline);
    let lead = Some(Duration::from_millis(20));
    let got: Vec<_> = of_hints
        .iter()
        .map(|one| (one.object, one.before_head, one.earlier, one.is_used))
        .collect();
    assert_eq!(got, [(1, lead, lead, true), (2, lead, None, false)]);

    let entries = filled();
    let valid = framed(vec![
        hint("/a.css"),
        head(1, "304", &[("etag", "\"1\"")], END_STREAM),
        response(3, "text/css", "p{}"),
    ]);
    let outcome = check(|| fetch("h2", &entries), &valid);
    assert_eq!(fates(&outcome), [&Fate::Done(Source::Validated), &NET]);
    assert!(
        !hints(&outcome.timeline)[0].is_used,
        "the cached page names nothing"
    );

    // The page is requested again, on stream 5.
    let cancel = 8_u32.to_be_bytes();
    let again = framed(vec![
        hint("/a.css"),
        frame(3, 0, 1, &cancel),
        response(3, "text/css", "p{}"),
        response(5, "text/html", PAGE),
    ]);
    let outcome = check(new, &again);
    assert_eq!(fates(&outcome), [&NET, &NET]);
    let tries = &outcome.timeline.objects[0].tries;
    assert_eq!(
        (tries.len(), tries[0].first, tries[1].first),
        (2, None, Some(ms(50)))
    );
    let hint = hints(&outcome.timeline)[0];
    assert_eq!(
        (hint.earlier, hint.is_used),
        (Some(Duration::from_millis(30)), true)
    );
}
