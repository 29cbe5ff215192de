//! Users over HTTP/2 against a server of crate `http2` in virtual time.

use super::*;
use crate::crew::carrier::Sharing;
use http2::Code;
use http2::server::{Connection, Event};
use runtime::dial::{Crew as _, Wish};
use std::collections::{BTreeMap, BTreeSet};

/// What the server does with the requests of a connection, counted from 1.
#[derive(Clone, Copy, Default)]
struct Manners {
    /// Refuses each so many-th.
    refuses: u32,
    /// Resets the response to each so many-th after its head.
    resets: u32,
    /// Never answers each so many-th.
    ignores: u32,
    /// Leaves after so many: GOAWAY, and the connection ends with the last response.
    leaves: u32,
    /// Closes after the head of this one.
    cuts: u32,
    /// Nothing that is sent to it arrives.
    drops: bool,
    /// Closes with an error in place of a response to this one.
    fails: u32,
}

/// What a layer says of such an error.
const ERROR: &str = "the server closed the connection with H3_INTERNAL_ERROR (an error of its own)";

const BODY: u64 = 3;

/// An event of a connection.
enum News {
    Connected,
    /// With the number of responses in them.
    Bytes(Vec<u8>, u32),
    Eof,
    Error,
}

#[derive(Debug)]
struct Server {
    http: Connection,
    input: Vec<u8>,
    /// Requests so far.
    seen: u32,
    /// Requests whose responses the client has not got, and most of them at once.
    outstanding: u32,
    most: u32,
    closes: bool,
    fails: bool,
}

/// Runs a crew to its end; returns its record, the servers by connection, and the paths requested.
struct Play {
    record: Record,
    servers: Vec<Server>,
    asked: Vec<String>,
    /// Connections open at once, at most.
    most: usize,
}

impl Server {
    /// Answers what came; returns the output.
    fn hear(&mut self, bytes: &[u8], manners: Manners, asked: &mut Vec<String>, now: Instant) -> Vec<u8> {
        let mut out = Vec::new();
        self.input.extend_from_slice(bytes);
        let mut used = 0;
        let is = |each: u32, seen: u32| each > 0 && seen.is_multiple_of(each);
        loop {
            let received = self.http.receive(&self.input[used..], now, &mut out);
            used += received.used;
            let stream = match received.event {
                Event::Partial => break,
                Event::Request { stream, control, .. } => {
                    let path = control.path.expect("a path");
                    asked.push(String::from_utf8(path.to_vec()).expect("a path"));
                    stream
                }
                Event::Closed(fault) => panic!("the client is at fault: {fault:?}"),
                _ => continue,
            };
            self.seen += 1;
            self.outstanding += 1;
            self.most = self.most.max(self.outstanding);
            if is(manners.refuses, self.seen) {
                self.http.reset(stream, Code::REFUSED_STREAM, &mut out);
                continue;
            }
            if is(manners.ignores, self.seen) {
                continue;
            }
            if manners.fails == self.seen {
                self.fails = true;
                break;
            }
            self.http
                .respond(stream, &[0x88], false, &mut out)
                .expect("it is open");
            if manners.cuts == self.seen {
                self.closes = true;
                break;
            }
            if is(manners.resets, self.seen) {
                self.http.reset(stream, Code::INTERNAL_ERROR, &mut out);
                continue;
            }
            self.http.ready(stream, BODY).expect("it is open");
            self.http.finish(stream).expect("it is open");
            if manners.leaves == self.seen {
                self.http.leave(&mut out);
            }
        }
        self.input.drain(..used);
        while let Some(piece) = self.http.next(100_000, now, &mut out) {
            out.resize(out.len() + piece.bytes, b'x');
        }
        out
    }
}

fn play(setup: Setup, model: Model, manners: Manners) -> Play {
    let hop = Duration::from_millis(1);
    let mut now = Instant::from_nanos(1_000_000);
    let mut crew = Crew::new(setup, model, Arc::default());
    let mut port = Port::default();
    let mut alarms: BTreeMap<u32, Instant> = BTreeMap::new();
    // Connection of each line; what happens when, in the order of its making.
    let mut open: BTreeMap<u32, usize> = BTreeMap::new();
    let mut later: BTreeMap<(Instant, usize), (u32, usize, News)> = BTreeMap::new();
    let (mut servers, mut asked, mut most, mut order) = (Vec::<Server>::new(), Vec::new(), 0, 0);
    crew.start(&mut port, now);
    while !port.is_ended() {
        let (wishes, bytes) = port.take();
        let mut bytes = bytes.as_slice();
        for wish in wishes {
            match wish {
                Wish::Connect(line) => {
                    let mut out = Vec::new();
                    let http = Connection::new(Arc::default(), now, &mut out);
                    open.insert(line, servers.len());
                    most = most.max(open.len());
                    if !manners.drops {
                        order += 1;
                        later.insert((now + hop, order), (line, servers.len(), News::Connected));
                        order += 1;
                        later.insert((now + hop, order), (line, servers.len(), News::Bytes(out, 0)));
                    }
                    servers.push(Server {
                        http,
                        input: Vec::new(),
                        seen: 0,
                        outstanding: 0,
                        most: 0,
                        closes: false,
                        fails: false,
                    });
                }
                Wish::Send(line, length) => {
                    let (piece, rest) = bytes.split_at(length);
                    bytes = rest;
                    if manners.drops {
                        continue;
                    }
                    let number = open[&line];
                    let before = servers[number].seen;
                    let out = servers[number].hear(piece, manners, &mut asked, now);
                    let answers = servers[number].seen - before;
                    order += 1;
                    later.insert((now + hop * 2, order), (line, number, News::Bytes(out, answers)));
                    let server = &servers[number];
                    if server.closes || (manners.leaves > 0 && server.seen >= manners.leaves) {
                        order += 1;
                        later.insert((now + hop * 3, order), (line, number, News::Eof));
                    }
                    if server.fails {
                        order += 1;
                        later.insert((now + hop * 3, order), (line, number, News::Error));
                    }
                }
                Wish::Close(line) | Wish::Leave(line) => drop(open.remove(&line)),
                Wish::Wake(line, at) => drop(alarms.insert(line, at)),
                Wish::Inspect(_) | Wish::Skip(..) | Wish::Write(..) | Wish::Abandon(..) | Wish::Blame(..) => {
                    panic!("not over HTTP/2")
                }
            }
        }
        let alarm = alarms.iter().map(|(line, at)| (*at, *line)).min();
        let event = later.first_key_value().map(|(key, _)| key.0);
        now = now.max(alarm.map_or(NEVER, |alarm| alarm.0).min(event.unwrap_or(NEVER)));
        match alarm {
            Some((at, line)) if event.is_none_or(|event| at < event) => {
                alarms.remove(&line);
                crew.handle(line, Happened::Woken(at), &mut port, now);
            }
            _ => {
                let (_, (line, number, news)) = later.pop_first().expect("there is an event");
                if open.get(&line) != Some(&number) {
                    continue;
                }
                match news {
                    News::Connected => crew.handle(line, Happened::Connected, &mut port, now),
                    News::Eof => crew.handle(line, Happened::Eof, &mut port, now),
                    News::Error => crew.handle(line, Happened::Closed(ERROR), &mut port, now),
                    // Byte by byte: no cut changes anything.
                    News::Bytes(bytes, answers) => {
                        servers[number].outstanding -= answers;
                        for byte in bytes.chunks(1) {
                            if open.get(&line) == Some(&number) && !port.is_ended() {
                                crew.handle(line, Happened::Bytes(byte), &mut port, now);
                            }
                        }
                    }
                }
            }
        }
    }
    Play {
        record: crew.into_record(now),
        servers,
        asked,
        most,
    }
}

/// So many lanes and users per connection.
fn shared(lanes: u32, streams_max: usize, users: u32) -> Setup {
    Setup {
        lanes,
        lengths: false,
        sharing: Some(Arc::new(Sharing {
            content: None,
            streams_max,
            users,
            scheme: "http",
            authority: "h".to_owned(),
            fields: vec![("user-agent".to_owned(), "weir".to_owned())],
        })),
        ..setup(Mode::Http2)
    }
}

/// Clients that never sleep, with objects of one file.
fn clients(count: u32) -> Model {
    let source = |user: u32| {
        let steps: Vec<Step> = (0..50)
            .map(|number| Step {
                file: (user * 7 + number) % 100,
                begins: true,
                last: false,
                off: Duration::from_millis(1),
            })
            .collect();
        let source = RequestSource::Script {
            steps: steps.into(),
            next: 0,
        };
        (Duration::ZERO, source)
    };
    Model::Closed((0..count).map(source).collect())
}

#[test]
fn a_page_is_asked_alone_and_its_files_at_once() {
    let played = play(shared(8, 100, 1), script(&[9, 3], 2), Manners::default());
    assert_eq!(played.record.files, 12);
    assert_eq!(played.record.objects, 2);
    assert_eq!(played.servers.len(), 1, "one connection");
    assert_eq!(played.servers[0].most, 8);
    let wanted: Vec<String> = (0..12).map(|file| format!("/{file}")).collect();
    assert_eq!(played.asked[0], "/0");
    assert_eq!(
        played.asked.iter().collect::<BTreeSet<_>>(),
        wanted.iter().collect()
    );
    assert_eq!((played.record.files_failed, played.record.errors()), (0, 0));
}

#[test]
fn files_beyond_the_streams_wait_for_one() {
    let played = play(shared(8, 3, 1), script(&[30], 1), Manners::default());
    assert_eq!(played.record.files, 30);
    assert_eq!(played.servers[0].most, 3);
}

#[test]
fn users_share_connections() {
    let played = play(shared(1, 100, 4), clients(10), Manners::default());
    assert_eq!(played.servers.len(), 3, "four, four and two");
    assert_eq!(played.most, 3);
    assert_eq!(played.record.files, 500);
    assert_eq!(played.servers.iter().map(|server| server.most).max(), Some(4));
    assert_eq!(played.record.established, 3);
}

#[test]
fn an_open_loop_fills_the_streams_of_its_connections() {
    let model = Model::Open {
        arrivals: Arrivals::new(Process::Constant, &Schedule::constant(1000.0), Seed(1), 0, 1),
        source: RequestSource::Turn {
            order: [0].into(),
            next: 0,
            stride: 1,
        },
        lines_max: 8,
    };
    let played = play(shared(1, 100, 4), model, Manners::default());
    // Each takes two hops, so two or three are under way: the first connection has room for four.
    assert_eq!(played.record.objects, 2000);
    assert_eq!(played.servers.len(), 1);
    assert!(
        (2..=4).contains(&played.servers[0].most),
        "{}",
        played.servers[0].most
    );
}

/// What a server does to some requests is counted for these, once each; all others succeed.
#[test]
fn what_a_server_does_to_some_concerns_no_other() {
    let of = |manners| play(shared(1, 100, 4), clients(4), manners);
    // A refused request was not processed, and is repeated.
    let refused = of(Manners {
        refuses: 5,
        ..Manners::default()
    });
    let record = &refused.record;
    assert_eq!((record.files, record.files_failed), (200, 0));
    assert_eq!(record.resent, u64::from(refused.servers[0].seen) - 200);
    assert!(record.resent >= 40);

    let reset = of(Manners {
        resets: 5,
        ..Manners::default()
    });
    let record = &reset.record;
    assert_eq!((record.files, record.files_failed), (160, 40));
    assert_eq!(record.troubles.get(&Trouble::Truncated), Some(&40));
    assert_eq!(record.held.count(), 40);
    assert_eq!(reset.servers.len(), 1, "the connection stays");

    let ignored = of(Manners {
        ignores: 50,
        ..Manners::default()
    });
    let record = &ignored.record;
    assert_eq!(record.troubles.get(&Trouble::Timeout), Some(&record.files_failed));
    assert!((1..=4).contains(&record.files_failed), "{}", record.files_failed);

    let left = of(Manners {
        leaves: 20,
        ..Manners::default()
    });
    let record = &left.record;
    assert_eq!((record.files, record.files_failed), (200, 0));
    assert!(left.servers.len() >= 10, "{}", left.servers.len());
    assert_eq!(left.most, 1, "one after another");

    let cut = of(Manners {
        cuts: 20,
        ..Manners::default()
    });
    let record = &cut.record;
    assert_eq!(record.files + record.files_failed, 200);
    let closed = cut.servers.iter().filter(|server| server.closes).count();
    assert_eq!(record.troubles.get(&Trouble::Truncated), Some(&(closed as u64)));
    assert!(closed > 5, "{closed}");
}

/// A connection that does not open is one failed attempt, however many requests wait for it.
#[test]
fn an_attempt_to_connect_fails_once() {
    let drops = Manners {
        drops: true,
        ..Manners::default()
    };
    let played = play(shared(1, 100, 4), clients(4), drops);
    let record = &played.record;
    assert_eq!(record.count(Trouble::Timeout), record.files_failed);
    let attempts = played.servers.len() as u64;
    assert_eq!(
        (record.connects_failed, record.files_failed),
        (attempts, 4 * attempts)
    );
    assert!(attempts > 1, "{attempts}");
}

/// Requests that share a silent connection, or one that does not open, time out one by one: each as long after its own
/// begin.
#[test]
fn a_timeout_counts_from_the_begin_of_its_own_request() {
    let ignores = Manners {
        ignores: 1,
        ..Manners::default()
    };
    let drops = Manners {
        drops: true,
        ..Manners::default()
    };
    for (name, manners) in [("ignores", ignores), ("drops", drops)] {
        // The second user begins just before the first request times out.
        let users = [0, 400].map(|ms| (Duration::from_millis(ms), one_object()));
        let played = play(shared(1, 100, 2), Model::Closed(users.into()), manners);
        let record = &played.record;
        assert_eq!(record.count(Trouble::Timeout), record.files_failed, "{name}");
        assert!(record.files_failed >= 6, "{name}: {}", record.files_failed);
        assert_eq!((record.files, record.unfinished), (0, 0), "{name}");
        // The upper end of the lowest bucket: its lower end is below what was recorded.
        let soonest = record.failed.quantile(0.01);
        assert!(soonest >= Duration::from_millis(500), "{name}: {soonest:?}");
        // A request that waits for another connection has no more time than the others.
        if manners.drops {
            let latest = record.failed.quantile(1.0);
            assert!(latest < Duration::from_millis(510), "{name}: {latest:?}");
            assert_eq!(record.connects_failed, played.servers.len() as u64, "{name}");
        }
        assert!(
            played.servers.len() > 1,
            "{name}: a silent connection is given up"
        );
    }
}

/// Its requests are repeated, as after a reset, but it counts as an error, and the report names it.
#[test]
fn a_connection_closed_with_an_error_is_no_ordinary_close() {
    let manners = Manners {
        fails: 20,
        ..Manners::default()
    };
    let failed = play(shared(1, 100, 4), clients(4), manners);
    let record = &failed.record;
    assert_eq!((record.files, record.files_failed), (200, 0));
    let closed = failed.servers.iter().filter(|server| server.fails).count() as u64;
    assert!(closed > 5, "{closed}");
    assert!(
        record.count(Trouble::Lost) >= closed,
        "{closed} {:?}",
        record.troubles
    );
    assert_eq!(record.closed_by_server, closed);
    assert_eq!(record.close_fault.as_deref(), Some(ERROR));
}
