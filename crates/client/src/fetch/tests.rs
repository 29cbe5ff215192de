//! The fetch against a server in a closure, in virtual time: requests, their order and connections, and the
//! outcome when the server misbehaves.

mod chromium;
mod interim;
mod quic;

use super::*;
use crate::explain::{explain, sums};
use crate::plan::{Buffering, Limits, Manner, Priorities};
use crate::streams::STREAM_WINDOW;
use proptest::prelude::*;
use runtime::dial::Wish;
use std::collections::BTreeMap;
use std::io::Write as _;
use units::Duration;

/// One-way delay.
const ONE_WAY: Duration = Duration::from_millis(5);

/// The request count of a connection on which the server no longer responds.
const CLOSED: u32 = u32::MAX;

/// A server's response to one request.
struct Answer {
    bytes: Vec<u8>,
    /// Whether the server closes the connection after it.
    closes: bool,
}

fn ok(media: &str, body: &str) -> Answer {
    answer(
        &format!(
            "200 OK\r\nContent-Type: {media}\r\nContent-Length: {}",
            body.len()
        ),
        body,
    )
}

fn answer(head: &str, body: &str) -> Answer {
    Answer {
        bytes: format!("HTTP/1.1 {head}\r\n\r\n{body}").into_bytes(),
        closes: false,
    }
}

/// An event for the client.
enum Coming {
    Connected,
    Bytes(Vec<u8>),
    Eof,
    Alarm,
}

struct World<S> {
    fetch: Fetch,
    port: Port,
    now: Instant,
    coming: BTreeMap<(Instant, u64), (u32, Coming)>,
    alarms: BTreeMap<u32, Instant>,
    /// Unread input and number of requests served, by line; `None` once closed.
    server: BTreeMap<u32, (Vec<u8>, u32)>,
    serve: S,
    /// Targets in the order the server read them.
    asked: Vec<String>,
    count: u64,
    piece: usize,
}

impl<S: FnMut(&str, u32) -> Option<Answer>> World<S> {
    /// Runs a fetch to its end; returns its result and the requested targets.
    fn run(fetch: Fetch, piece: usize, serve: S) -> (Outcome, Vec<String>) {
        let mut world = World {
            fetch,
            port: Port::default(),
            now: Instant::ZERO,
            coming: BTreeMap::new(),
            alarms: BTreeMap::new(),
            server: BTreeMap::new(),
            serve,
            asked: Vec::new(),
            count: 0,
            piece,
        };
        world.fetch.start(&mut world.port, world.now);
        world.obey();
        while !world.port.is_ended() {
            let ((at, _), (line, coming)) = world
                .coming
                .pop_first()
                .expect("an unfinished fetch waits for an event");
            world.now = at;
            match coming {
                Coming::Alarm if world.alarms.get(&line) != Some(&at) => continue,
                Coming::Alarm => {
                    world.alarms.remove(&line);
                    world.tell(line, Happened::Woken(at));
                }
                _ if !world.server.contains_key(&line) => {}
                Coming::Connected => world.tell(line, Happened::Connected),
                Coming::Bytes(bytes) => world.tell(line, Happened::Bytes(&bytes)),
                Coming::Eof => world.tell(line, Happened::Eof),
            }
        }
        (world.fetch.into_outcome(), world.asked)
    }

    fn tell(&mut self, line: u32, happened: Happened<'_>) {
        self.fetch.handle(line, happened, &mut self.port, self.now);
        self.obey();
    }

    fn later(&mut self, after: Duration, line: u32, coming: Coming) {
        self.count += 1;
        self.coming.insert((self.now + after, self.count), (line, coming));
    }

    fn obey(&mut self) {
        let (wishes, bytes) = self.port.take();
        let mut from = 0;
        for wish in wishes {
            match wish {
                Wish::Connect(line) => {
                    self.server.insert(line, (Vec::new(), 0));
                    self.later(ONE_WAY * 2, line, Coming::Connected);
                }
                Wish::Send(line, len) => {
                    self.served(line, &bytes[from..from + len]);
                    from += len;
                }
                Wish::Close(line) | Wish::Leave(line) => {
                    self.server.remove(&line);
                }
                Wish::Wake(line, at) => {
                    self.alarms.insert(line, at);
                    self.later(at.since(self.now), line, Coming::Alarm);
                }
                Wish::Inspect(_) | Wish::Skip(..) | Wish::Write(..) | Wish::Abandon(..) | Wish::Blame(..) => {
                }
            }
        }
    }

    /// Reads requests and answers each at once, until the closure refuses.
    fn served(&mut self, line: u32, bytes: &[u8]) {
        let Some((mut input, mut count)) = self.server.remove(&line) else {
            return;
        };
        if count == CLOSED {
            self.server.insert(line, (input, count));
            return;
        }
        input.extend_from_slice(bytes);
        let (mut output, mut is_open) = (Vec::new(), true);
        while let Some(end) = input
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .filter(|_| is_open)
        {
            let head: Vec<u8> = input.drain(..end + 4).collect();
            let head = String::from_utf8(head).expect("text");
            let target = head.split(' ').nth(1).expect("a target").to_owned();
            self.asked.push(target);
            match (self.serve)(&head, count) {
                Some(answer) => {
                    count += 1;
                    output.extend(answer.bytes);
                    is_open = !answer.closes && !head.contains("HTTP/1.0\r");
                }
                // The server hangs.
                None => break,
            }
            is_open &= !head.contains("Connection: close");
        }
        // The connection must be established first.
        let first = self.fetch.timeline.connections[line as usize - 1].opened + ONE_WAY * 4;
        let after = first.since(self.now).max(ONE_WAY * 2);
        for piece in output.chunks(self.piece) {
            self.later(after, line, Coming::Bytes(piece.to_vec()));
        }
        if !is_open {
            self.later(after, line, Coming::Eof);
            count = CLOSED;
        }
        self.server.insert(line, (input, count));
    }
}

fn plan(manner: &str) -> Plan {
    let manner: Manner = manner.parse().expect("a manner");
    Plan {
        manner,
        connections: manner.mode.connections(),
        buffering: Buffering::DEFAULT,
        user_agent: "weir".to_owned(),
        fields: Vec::new(),
        cookies: Vec::new(),
        revalidate: false,
        first_bytes: None,
        embedded: true,
        priorities: Priorities::default(),
        stream_window: STREAM_WINDOW,
        limits: Limits::DEFAULT,
    }
}

fn fetched(
    plan: Plan,
    entries: Entries,
    serve: impl FnMut(&str, u32) -> Option<Answer>,
) -> (Outcome, Vec<String>) {
    let page = Url::parse("http://example.org/").expect("a URL");
    let wall = UnixTime::from_secs(1_000_000);
    let (outcome, asked) = World::run(Fetch::new(page, plan, entries, wall), 1460, serve);
    let timeline = &outcome.timeline;
    let sum: Duration = sums(&explain(timeline)).iter().map(|(_, took)| *took).sum();
    assert_eq!(sum, timeline.ended - timeline.began);
    assert!(timeline.objects.iter().all(|object| object.fate != Fate::Pending));
    (outcome, asked)
}

fn fates(outcome: &Outcome) -> Vec<&Fate> {
    outcome
        .timeline
        .objects
        .iter()
        .map(|object| &object.fate)
        .collect()
}

const NET: Fate = Fate::Done(Source::Network);

/// A page with `images` images and a style sheet that refers to another.
fn site(images: usize) -> impl FnMut(&str, u32) -> Option<Answer> {
    move |head, _| {
        let target = head.split(' ').nth(1).unwrap_or_default();
        Some(match target {
            "/" => {
                let tags: String = (0..images).map(|n| format!("<img src={n}.gif>")).collect();
                ok("text/html", &format!("<link rel=stylesheet href=s.css>{tags}"))
            }
            "/s.css" => ok("text/css", "p{background:url(deep/bg.png)}"),
            _ => ok("image/gif", "GIF"),
        })
    }
}

#[test]
fn every_mode_fetches_the_same_over_its_own_connections() {
    for (mode, connections) in [
        ("http10", 13),
        ("serial", 1),
        ("pipelined", 1),
        ("early-close", 1),
    ] {
        let (outcome, mut asked) = fetched(plan(mode), Entries::new(), site(10));
        let sums = outcome.timeline.sums();
        assert_eq!(
            (sums.connections, sums.requests, sums.failed),
            (connections, 13, 0),
            "{mode}"
        );
        asked.sort();
        asked.dedup();
        assert_eq!(asked.len(), 13, "{mode}");
        assert!(asked.contains(&"/deep/bg.png".to_owned()), "{mode}");
    }
}

#[test]
fn http10_has_as_many_connections_at_once_as_planned() {
    let (outcome, _) = fetched(plan("http10"), Entries::new(), site(20));
    let connections = &outcome.timeline.connections;
    for one in connections {
        let open = connections
            .iter()
            .filter(|other| other.opened <= one.opened && other.closed.is_none_or(|end| end > one.opened))
            .count();
        assert!(open <= 4, "{open} at {:?}", one.opened);
    }
}

#[test]
fn pipelined_requests_leave_in_pieces_of_the_buffer() {
    let (outcome, _) = fetched(plan("pipelined"), Entries::new(), site(42));
    let mut departures: BTreeMap<Instant, usize> = BTreeMap::new();
    for one in outcome.timeline.objects.iter().flat_map(|object| &object.tries) {
        *departures.entry(one.sent.expect("sent")).or_default() += one.request.len();
    }
    let page = outcome.timeline.objects[0].tries[0].request.len();
    let sizes: Vec<usize> = departures.values().copied().collect();
    assert_eq!(sizes[0], page, "the page is flushed");
    assert!(
        outcome.timeline.ended - outcome.timeline.began >= Duration::from_millis(50),
        "the last ones wait"
    );
}

#[test]
fn early_close_says_so_in_the_last_request_only() {
    let (outcome, _) = fetched(plan("early-close"), Entries::new(), site(5));
    let all: Vec<&Try> = outcome
        .timeline
        .objects
        .iter()
        .flat_map(|object| &object.tries)
        .collect();
    let closing: Vec<&&Try> = all
        .iter()
        .filter(|one| one.request.contains("Connection: close"))
        .collect();
    assert_eq!(closing.len(), 1);
    assert_eq!(closing[0].sent, all.iter().filter_map(|one| one.sent).max());
}

#[test]
fn a_server_that_closes_every_five_is_asked_again() {
    for mode in ["serial", "pipelined"] {
        let mut serve = site(42);
        let (outcome, _) = fetched(plan(mode), Entries::new(), |head, count| {
            let mut answer = serve(head, count)?;
            answer.closes = count == 4;
            Some(answer)
        });
        let sums = outcome.timeline.sums();
        assert_eq!((sums.failed, sums.connections), (0, 9), "{mode}: 45 objects");
        assert!(
            sums.repeated >= 8,
            "{mode}: the server does not announce that it will close"
        );
        assert!(fates(&outcome).iter().all(|fate| **fate == NET));
    }
}

#[test]
fn a_server_that_closes_within_an_answer_is_asked_so_often_and_no_more() {
    let (outcome, asked) = fetched(plan("serial"), Entries::new(), |head, _| {
        Some(if head.starts_with("GET / ") {
            ok("text/html", "<img src=a.gif>")
        } else {
            Answer {
                closes: true,
                ..answer("200 OK\r\nContent-Length: 100", "short")
            }
        })
    });
    assert_eq!(asked, ["/", "/a.gif", "/a.gif", "/a.gif", "/a.gif"]);
    assert!(matches!(fates(&outcome)[1], Fate::Failed(why) if why.contains("during its response")));
}

#[test]
fn more_than_was_announced_is_a_fault() {
    let (outcome, _) = fetched(plan("pipelined"), Entries::new(), |head, _| {
        Some(if head.starts_with("GET / ") {
            ok("text/html", "<img src=a.gif><img src=b.gif>")
        } else {
            answer("200 OK\r\nContent-Length: 3", "GIF and more")
        })
    });
    let failed = fates(&outcome)
        .iter()
        .filter(|fate| matches!(fate, Fate::Failed(_)))
        .count();
    // Bytes after the first response cannot belong to another; the first is complete.
    assert!(failed <= 1, "{:?}", fates(&outcome));
    assert!(outcome.timeline.connections.len() > 1);
}

#[test]
fn an_unsound_answer_is_not_asked_for_again() {
    for head in [
        "200 OK\r\nContent-Length: 3\r\nContent-Length: 4",
        "200 OK\r\nTransfer-Encoding: chunked",
    ] {
        let (outcome, asked) = fetched(plan("http10"), Entries::new(), |_, _| {
            Some(answer(head, "zz\r\n"))
        });
        assert_eq!(asked, ["/"], "{head}");
        assert!(
            matches!(fates(&outcome)[0], Fate::Failed(why) if why.contains("invalid")),
            "{head}: {:?}",
            fates(&outcome)
        );
    }
}

#[test]
fn a_hole_is_known_by_what_the_kernel_counted() {
    let counted = |data_segments_in, bytes_in, out_of_order| Tcp {
        mss: 1_000,
        data_segments_in,
        bytes_in,
        out_of_order,
        ..Tcp::default()
    };
    let before = counted(10, 10_000, 2);
    for (now, want) in [
        (counted(13, 13_000, 2), false),
        (counted(13, 12_100, 2), false),
        // One arrived out of order.
        (counted(13, 13_000, 3), true),
        // One arrived and released two that had waited for it.
        (counted(11, 13_000, 2), true),
        // A kernel without these counters.
        (counted(0, 13_000, 0), false),
    ] {
        assert_eq!(is_hole_filled(Some(&before), &now), want, "{now:?}");
    }
    assert!(!is_hole_filled(None, &counted(3, 2_500, 0)));
}

#[test]
fn a_page_that_is_not_whole_is_not_here() {
    // Six bytes of a gzip header, announced as the whole content.
    let cut = "\x1f\u{8}\0\0\0\0";
    let (outcome, _) = fetched(plan("serial+gzip"), Entries::new(), |_, _| {
        let length = cut.len();
        Some(answer(
            &format!(
                "200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\nContent-Length: {length}"
            ),
            cut,
        ))
    });
    assert!(matches!(fates(&outcome)[0], Fate::Failed(why) if why.contains("too early")));
    assert!(outcome.entries.is_empty(), "nor in the cache");
    let (outcome, _) = fetched(plan("serial"), Entries::new(), |_, _| {
        Some(answer(
            "206 Partial Content\r\nContent-Range: bytes 0-4/9\r\nContent-Length: 5",
            "<img ",
        ))
    });
    assert!(matches!(fates(&outcome)[0], Fate::Failed(why) if why.contains("206")));
}

#[test]
fn a_hanging_server_is_given_up() {
    let (outcome, asked) = fetched(plan("serial"), Entries::new(), |head, _| {
        if head.starts_with("GET /b") {
            None
        } else {
            Some(ok("text/html", "<img src=a.gif><img src=b.gif><img src=c.gif>"))
        }
    });
    assert_eq!(asked, ["/", "/a.gif", "/b.gif", "/c.gif"]);
    assert!(matches!(fates(&outcome)[2], Fate::Failed(why) if why.contains("sent nothing")));
    assert_eq!(fates(&outcome)[3], &NET);
}

#[test]
fn redirections_are_followed_but_not_in_circles() {
    let (outcome, _) = fetched(plan("serial"), Entries::new(), |head, _| {
        Some(match head.split(' ').nth(1).unwrap_or_default() {
            "/" => answer("301 Moved\r\nLocation: /home/\r\nContent-Length: 0", ""),
            "/home/" => ok("text/html", "<img src=a.gif><img src=b.gif><img src=/n1>"),
            "/home/a.gif" => answer("302 Found\r\nLocation: b.gif\r\nContent-Length: 0", ""),
            "/home/b.gif" => answer("302 Found\r\nLocation: a.gif\r\nContent-Length: 0", ""),
            on => {
                let next: u32 = on[2..].parse::<u32>().map_or(0, |n| n + 1);
                answer(&format!("307 On\r\nLocation: /n{next}\r\nContent-Length: 0"), "")
            }
        })
    });
    let failed: Vec<String> = fates(&outcome)
        .iter()
        .filter_map(|fate| match fate {
            Fate::Failed(why) => Some(why.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(failed, ["redirection loop", "more than 10 redirections"]);
    assert_eq!(fates(&outcome)[0], &Fate::Moved(1));
}

#[test]
fn bounds_hold() {
    let mut bounded = plan("serial");
    bounded.limits.objects_max = 5;
    let (outcome, asked) = fetched(bounded, Entries::new(), site(10));
    assert_eq!((asked.len(), outcome.timeline.skipped.len()), (5, 8));
    let mut bounded = plan("serial");
    bounded.limits.bytes_max = 600;
    let (outcome, _) = fetched(bounded, Entries::new(), site(20));
    assert!(
        fates(&outcome)
            .iter()
            .any(|fate| matches!(fate, Fate::Failed(why) if why.contains("more than 600")))
    );
}

#[test]
fn a_bomb_is_refused_and_what_is_behind_it_comes() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&[b' '; 4 << 20]).expect("memory");
    let bomb = encoder.finish().expect("memory");
    for manner in ["serial+gzip", "pipelined+gzip"] {
        let (outcome, asked) = fetched(plan(manner), Entries::new(), |head, _| {
            Some(match head.split(' ').nth(1).unwrap_or_default() {
                "/" => ok("text/html", "<link rel=stylesheet href=s.css><img src=a.gif>"),
                "/s.css" => {
                    let length = bomb.len();
                    let head = format!(
                        "200 OK\r\nContent-Type: text/css\r\nContent-Encoding: gzip\r\nContent-Length: {length}"
                    );
                    let mut answer = answer(&head, "");
                    answer.bytes.extend_from_slice(&bomb);
                    answer
                }
                _ => ok("image/gif", "GIF"),
            })
        });
        let fates = fates(&outcome);
        assert!(
            matches!(fates[1], Fate::Failed(why) if why.contains("200 times")),
            "{manner}: {fates:?}"
        );
        assert_eq!((fates[0], fates[2]), (&NET, &NET), "{manner}: {asked:?}");
        assert_eq!(outcome.timeline.connections.len(), 1, "{manner}");
        let bytes = outcome.timeline.objects[1].content_bytes;
        assert!(bytes <= (1 << 20) + 200 * bomb.len() as u64, "{manner}: {bytes}");
        assert!(!outcome.entries.contains_key("http://example.org/s.css"));
    }
}

/// A server of one page and images with entity tags; supports conditional requests, HEAD and ranges.
fn tagged(version: &'static str) -> impl FnMut(&str, u32) -> Option<Answer> {
    move |head, _| {
        let target = head.split(' ').nth(1).unwrap_or_default();
        let (media, body) = match target {
            "/" => ("text/html", "<img src=a.gif><img src=b.gif>".to_owned()),
            _ => ("image/gif", format!("{target} {version} {}", "x".repeat(400))),
        };
        let tag = format!("\"{version}{target}\"");
        let fields = format!("ETag: {tag}\r\nContent-Type: {media}");
        let says = |name: &str| head.split("\r\n").find_map(|line| line.strip_prefix(name));
        if says("If-None-Match: ") == Some(tag.as_str()) {
            return Some(answer(&format!("304 Not Modified\r\n{fields}"), ""));
        }
        if head.starts_with("HEAD") {
            return Some(answer(
                &format!("200 OK\r\n{fields}\r\nContent-Length: {}", body.len()),
                "",
            ));
        }
        let range = says("Range: bytes=").filter(|_| says("If-Range: ").is_none_or(|theirs| theirs == tag));
        if let Some((from, to)) = range.and_then(|range| range.split_once('-')) {
            let from: usize = from.parse().expect("a number");
            let to = to
                .parse::<usize>()
                .map_or(body.len(), |to| to + 1)
                .min(body.len());
            let part = &body[from..to];
            let fields = format!(
                "206 Partial\r\n{fields}\r\nContent-Length: {}\r\nContent-Range: bytes {from}-{}/{}",
                part.len(),
                to - 1,
                body.len()
            );
            return Some(answer(&fields, part));
        }
        Some(answer(
            &format!("200 OK\r\n{fields}\r\nContent-Length: {}", body.len()),
            &body,
        ))
    }
}

#[test]
fn a_second_visit_asks_whether_it_is_still_true() {
    let (first, _) = fetched(plan("pipelined"), Entries::new(), tagged("1"));
    assert_eq!(first.changed.len(), 3);
    let mut again = plan("pipelined");
    again.revalidate = true;
    let (second, asked) = fetched(again.clone(), first.entries.clone(), tagged("1"));
    assert_eq!(asked.len(), 3);
    assert!(
        fates(&second)
            .iter()
            .all(|fate| **fate == Fate::Done(Source::Validated))
    );
    let (third, _) = fetched(again, first.entries, tagged("2"));
    assert!(fates(&third).iter().all(|fate| **fate == NET));
    assert!(
        third.entries["http://example.org/a.gif"]
            .body
            .starts_with(b"/a.gif 2")
    );
}

#[test]
fn http10_revalidates_with_one_get_and_heads() {
    let (first, _) = fetched(plan("serial"), Entries::new(), tagged("1"));
    let mut again = plan("http10");
    again.revalidate = true;
    let (second, _) = fetched(again, first.entries, tagged("1"));
    let requests: Vec<&str> = second
        .timeline
        .objects
        .iter()
        .flat_map(|object| &object.tries)
        .map(|one| one.request.split(' ').next().unwrap_or_default())
        .collect();
    assert_eq!(requests, ["GET", "HEAD", "HEAD"]);
    assert_eq!(fates(&second)[1], &Fate::Done(Source::Validated));
}

#[test]
fn first_bytes_of_all_before_the_rest_of_any() {
    let mut ranged = plan("pipelined");
    ranged.first_bytes = Some(100);
    let (outcome, asked) = fetched(ranged.clone(), Entries::new(), tagged("1"));
    assert_eq!(asked, ["/", "/a.gif", "/b.gif", "/a.gif", "/b.gif"]);
    assert!(fates(&outcome).iter().all(|fate| **fate == NET));
    let whole = &outcome.entries["http://example.org/b.gif"];
    assert_eq!(whole.body, format!("/b.gif 1 {}", "x".repeat(400)).into_bytes());
    // The object changes between its parts: with If-Range it arrives whole.
    let (mut old, mut new) = (tagged("1"), tagged("2"));
    let (outcome, _) = fetched(ranged, Entries::new(), |head, count| {
        if head.contains("If-Range") {
            new(head, count)
        } else {
            old(head, count)
        }
    });
    assert!(
        outcome.entries["http://example.org/a.gif"]
            .body
            .starts_with(b"/a.gif 2")
    );
}

#[test]
fn what_is_elsewhere_is_named_and_left() {
    let (outcome, asked) = fetched(plan("serial"), Entries::new(), |_, _| {
        Some(ok(
            "text/html",
            "<img src=http://other.example/a.gif><img src='data:image/gif;base64,R0'>",
        ))
    });
    assert_eq!(asked, ["/"]);
    assert_eq!(
        outcome.timeline.skipped,
        [("http://other.example/a.gif".to_owned(), Skipped::Elsewhere)]
    );
}

proptest! {
    /// Whatever the server cuts, closes or omits, the fetch ends with no object pending.
    #[test]
    fn it_always_ends(
        mode in 0_usize..4,
        whims in proptest::collection::vec(0_u8..8, 1..40),
        piece in 1_usize..2000,
        images in 0_usize..20,
    ) {
        let page = Url::parse("http://example.org/").expect("a URL");
        let manner = crate::plan::Mode::ALL[mode].name();
        let fetch = Fetch::new(page, plan(manner), Entries::new(), UnixTime::from_secs(0));
        let (mut serve, mut turn) = (site(images), 0);
        let (outcome, _) = World::run(fetch, piece, |head, count| {
            turn += 1;
            let mut answer = serve(head, count)?;
            match whims[turn % whims.len()] {
                0 => answer.closes = true,
                1 => { answer.bytes.pop(); answer.closes = true; }
                2 => return None,
                3 => answer.bytes.extend_from_slice(b"junk"),
                _ => {}
            }
            Some(answer)
        });
        let timeline = &outcome.timeline;
        prop_assert!(timeline.objects.iter().all(|object| object.fate != Fate::Pending));
        let sum: Duration = sums(&explain(timeline)).iter().map(|(_, took)| *took).sum();
        prop_assert_eq!(sum, timeline.ended - timeline.began);
    }
}
