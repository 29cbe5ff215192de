//! HTTP/3 sessions alone, over a transport in memory: a known request gets its stored response again, with the same bytes,
//! counts and log lines as from a lookup. Also since when a connection is idle, and how it ends. What clients see over QUIC,
//! `tests/serve/http3` and `tests/serve/proxy_http3` test.

use super::Http3;
use crate::Work;
use crate::config::{Config, LogFormat, Proxy, ProxyCache};
use crate::session::rig::{DATE, Rig, file, peer};
use ::http3::qpack::block;
use ::http3::varint;
use bytes::Bytes;
use runtime::session::{Ask, Need, PeerEvent, Secured, Ticket};
use runtime::streams::{Event, Input, LAST_WORDS, Service as _, Session as _, Transport, Wanted};
use std::collections::BTreeMap;
use units::Duration;

type Fields = &'static [(&'static str, &'static str)];

/// Requests for stored responses: path and fields.
const ASKED: [(&str, Fields); 4] = [
    ("/api/x", &[]),
    (
        "/api/x?q=1",
        &[
            ("user-agent", "u"),
            ("referer", "r"),
            ("cookie", "a=b"),
            ("cookie", "c=d"),
        ],
    ),
    ("/api/large", &[("priority", "u=1")]),
    ("/api/empty", &[]),
];

/// Streams of a connection whose client takes everything at once.
#[derive(Debug, Default)]
struct Wire {
    /// What the client has sent and the session has not read.
    input: BTreeMap<u64, Vec<u8>>,
    /// What the session has sent.
    sent: BTreeMap<u64, Vec<u8>>,
    /// Streams that the session has ended, in order.
    ended: Vec<u64>,
    /// The code and the reason with which the session has closed the connection.
    closed: Option<(u64, String)>,
}

impl Transport for Wire {
    fn read(&mut self, stream: u64, take: &mut dyn FnMut(&[u8])) -> Input {
        match self.input.remove(&stream) {
            Some(bytes) => take(&bytes),
            None => return Input::Gone,
        }
        Input::End
    }

    fn write(&mut self, stream: u64, bytes: &[u8]) -> Option<usize> {
        self.sent.entry(stream).or_default().extend_from_slice(bytes);
        Some(bytes.len())
    }

    fn write_shared(&mut self, stream: u64, bytes: &mut Bytes) -> Option<usize> {
        let taken = self.write(stream, bytes);
        bytes.clear();
        taken
    }

    fn finish(&mut self, stream: u64) {
        self.ended.push(stream);
    }

    fn reset(&mut self, stream: u64, code: u64) {
        panic!("stream {stream} is reset with {code}");
    }

    fn was_reset(&mut self, _: u64) -> Option<u64> {
        None
    }

    fn stop(&mut self, stream: u64, code: u64) {
        panic!("stream {stream} is stopped with {code}");
    }

    fn open(&mut self) -> Option<u64> {
        Some(3)
    }

    fn close(&mut self, code: u64, reason: &str) {
        self.closed = Some((code, reason.to_owned()));
    }

    fn room(&self) -> usize {
        1 << 20
    }
}

/// A client of one connection.
struct Client {
    rig: Rig,
    session: Http3,
    wire: Wire,
    asked: Vec<(Ticket, Ask)>,
    /// The next stream of a request.
    stream: u64,
}

impl Client {
    fn with(configure: impl FnOnce(&mut Config)) -> Client {
        let mut rig = Rig::with(configure);
        let session = accept(&mut rig);
        let mut client = Client {
            rig,
            session,
            wire: Wire::default(),
            asked: Vec::new(),
            stream: 0,
        };
        client.event(Event::Connected(Secured::default()));
        client
    }

    /// Another connection to the same worker.
    fn reconnect(&mut self) {
        self.session.closed(&mut self.rig.cx, self.rig.now);
        self.session = accept(&mut self.rig);
        (self.wire, self.stream) = (Wire::default(), 0);
        self.event(Event::Connected(Secured::default()));
    }

    fn event(&mut self, event: Event<'_, Work>) {
        let (cx, now) = (&mut self.rig.cx, self.rig.now);
        self.session.handle(cx, event, &mut self.wire, now);
        while let Some(wanted) = self.session.poll(cx, &mut self.wire, now) {
            match wanted {
                Wanted::Peer(ticket, ask) => self.asked.push((ticket, ask)),
                Wanted::Job(..) => panic!("stored responses need no job"),
            }
        }
    }

    /// Sends a request. Returns its stream.
    fn ask(&mut self, (path, fields): (&str, &[(&str, &str)])) -> u64 {
        let mut section = Vec::new();
        block::begin(&mut section);
        let always = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "a"),
            (":path", path),
        ];
        for (name, value) in always.iter().chain(fields) {
            block::field(name.as_bytes(), value.as_bytes(), &mut section);
        }
        // A HEADERS frame (RFC 9114 section 7.2.2).
        let mut frame = vec![1];
        varint::put(section.len() as u64, &mut frame);
        frame.append(&mut section);
        let stream = self.stream;
        self.stream += 4;
        self.wire.input.insert(stream, frame);
        self.asked.clear();
        self.event(Event::Opened(stream));
        self.event(Event::Readable(stream));
        stream
    }

    /// Sends a request, which the upstream answers if it gets it. Returns whether it does.
    fn get(&mut self, request: (&str, &[(&str, &str)])) -> bool {
        let (path, stream) = (request.0, self.ask(request));
        let dialed = self.asked.first().map(|(ticket, _)| *ticket);
        if let Some(ticket) = dialed {
            self.event(Event::Peer(ticket, PeerEvent::Connected));
            self.event(Event::Peer(ticket, PeerEvent::Sent));
            self.event(Event::Peer(ticket, PeerEvent::Bytes(&response(path))));
        }
        assert_eq!(self.wire.ended.last(), Some(&stream), "{path}");
        self.event(Event::Finished(stream));
        assert_eq!(self.wire.closed, None, "{path}");
        dialed.is_some()
    }

    /// Lets the next deadline of the session come.
    fn wait_for_deadline(&mut self) {
        let due = self.session.deadline().expect("it is open");
        self.rig.wait(due.since(self.rig.now));
        self.event(Event::Deadline);
    }
}

fn accept(rig: &mut Rig) -> Http3 {
    rig.server
        .accept(&mut rig.cx, peer().peer, rig.now)
        .expect("no limit is reached")
}

fn response(path: &str) -> Vec<u8> {
    let (kind, body) = match path {
        "/api/large" => ("text/css", file("/big.png")),
        "/api/empty" => ("image/png", &b""[..]),
        _ => ("image/png", file("/small.png")),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nDate: {DATE}\r\nContent-Type: {kind}\r\nCache-Control: max-age=60\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// Without GOAWAY, a client cannot tell whether a request that crosses the close was processed (RFC 9114 section 5.2).
#[test]
fn goaway_names_the_requests_that_were_taken_before_a_connection_is_closed() {
    type End = fn(&mut Client);
    let ends: [(&str, End, Duration); 4] = [
        ("idle", Client::wait_for_deadline, LAST_WORDS),
        (
            "idle",
            |client| client.event(Event::GiveWay(Need::Memory)),
            Duration::ZERO,
        ),
        (
            "",
            |client| {
                client.event(Event::Drain);
                client.wait_for_deadline();
            },
            LAST_WORDS,
        ),
        (super::ENDS, |client| client.event(Event::Cut), LAST_WORDS),
    ];
    for (why, end, patience) in ends {
        let mut client = Client::with(|config| {
            let route = "path = '/api/*'\nupstreams = ['http://127.0.0.1:1']\ncache = true";
            config.proxy = vec![toml::from_str(route).unwrap()];
        });
        client.get(ASKED[0]);
        end(&mut client);
        // GOAWAY is type 7, and the next request would be that of stream 4.
        let control = &client.wire.sent[&3];
        assert!(
            control.ends_with(&[7, 1, 4]),
            "{why:?}: {}",
            control.escape_ascii()
        );
        assert_eq!(client.wire.closed, None, "{why:?}: it is sent before the close");
        assert_eq!(
            client.session.deadline(),
            Some(client.rig.now + patience),
            "{why:?}"
        );
        // A request that crosses it is not taken.
        let late = client.ask(ASKED[0]);
        assert!(!client.wire.sent.contains_key(&late), "{why:?}");
        assert_eq!(client.rig.cx.counters.http3_requests().get(), 1, "{why:?}");
        client.wait_for_deadline();
        // H3_NO_ERROR.
        assert_eq!(client.wire.closed, Some((0x100, why.to_owned())));
        assert_eq!(client.session.deadline(), None);
    }
}

/// An address that has all connections it may have is refused. It must not cost others theirs.
#[test]
fn a_server_is_full_for_those_whom_only_the_connection_limit_keeps_out() {
    // One connection over TCP and one of HTTP/3, of one address.
    for (of_all, of_address, wanted) in [
        (3, 2, [false, false]),
        (2, 2, [false, true]),
        (2, 3, [true, true]),
    ] {
        let client = Client::with(|config| {
            config.max_connections = of_all;
            config.max_connections_per_address = Some(of_address);
        });
        let elsewhere = "192.0.2.8:4711".parse().expect("an address");
        let is_full = |peer| client.rig.server.is_full(&client.rig.cx, peer);
        assert_eq!(
            [peer().peer, elsewhere].map(is_full),
            wanted,
            "{of_all} {of_address}"
        );
    }
}

/// As over TCP.
#[test]
fn connections_that_are_closed_for_new_ones_or_refused_are_counted() {
    // One connection over TCP and one of HTTP/3.
    let mut client = Client::with(|config| config.max_connections = 2);
    let elsewhere = "192.0.2.8:4711".parse().expect("an address");
    let refused = client
        .rig
        .server
        .accept(&mut client.rig.cx, elsewhere, client.rig.now);
    assert!(refused.is_none());
    let totals = client.rig.server.totals();
    assert_eq!((totals.refused_total, totals.idle_closed), (1, 0));
    client.event(Event::GiveWay(Need::Place));
    let totals = client.rig.server.totals();
    assert_eq!((totals.refused_total, totals.idle_closed), (1, 1));
}

/// Sessions close idle connections at their timeout, also one that a reload made longer. The transport must not do so before.
#[test]
fn the_transport_of_new_connections_follows_a_reload() {
    let mut rig = Rig::new();
    let silence_max = |rig: &Rig| rig.server.silence_max(&rig.cx);
    assert_eq!(silence_max(&rig), Some(Duration::from_secs(65)));
    let mut config = rig.server.config();
    config.idle_timeout = Duration::from_secs(300);
    rig.server.reload(config, None).unwrap();
    rig.turn();
    assert_eq!(silence_max(&rig), Some(Duration::from_secs(300)));
}

/// In the order of these instants, connections give way to new ones.
#[test]
fn a_connection_is_idle_since_its_last_response_or_its_handshake() {
    let mut client = Client::with(|config| {
        let route = "path = '/api/*'\nupstreams = ['http://127.0.0.1:1']\ncache = true";
        config.proxy = vec![toml::from_str(route).unwrap()];
    });
    let idle_since = |client: &Client| client.session.idle_since(&client.rig.cx);
    assert_eq!(idle_since(&client), Some(client.rig.now));
    client.rig.wait(Duration::from_secs(3));
    client.get(ASKED[0]);
    let answered = client.rig.now;
    client.rig.wait(Duration::from_secs(3));
    assert_eq!(idle_since(&client), Some(answered));
    client.event(Event::Opened(4));
    assert_eq!(idle_since(&client), None, "a request has begun");
    client.event(Event::Drain);
    assert_eq!(idle_since(&client), None);
}

#[test]
fn a_stored_response_is_not_repeated_for_requests_that_meet_other_conditions() {
    let mut client = Client::with(|config| {
        let route = |port: u16, condition: &str| -> Proxy {
            let text = format!(
                "path = '/api/*'\nupstreams = ['http://127.0.0.1:{port}']\ncache = true\n{condition}"
            );
            toml::from_str(&text).unwrap()
        };
        config.proxy = vec![route(1, "if = 'cookie beta'"), route(2, "")];
        config.redirect = vec![toml::from_str("from = '/api/x'\nto = '/y'\nif = 'query go'").unwrap()];
    });
    // The first request to each upstream is passed on, and none after it, known or not.
    for round in 0..4 {
        for (path, fields) in [
            ("/api/x", &[][..]),
            ("/api/x", &[("cookie", "a=1"), ("cookie", "beta=1")]),
        ] {
            client.reconnect();
            assert_eq!(client.get((path, fields)), round == 0, "{round}: {fields:?}");
        }
        client.reconnect();
        assert!(
            !client.get(("/api/x?go", &[("cookie", "beta=1")])),
            "it is redirected"
        );
        let sent = &client.wire.sent[&0];
        assert!(
            memchr::memmem::find(sent, b"/y?go").is_some(),
            "{}",
            sent.escape_ascii()
        );
    }
    let stored = client.rig.cx.state.proxies.cache_reports();
    assert_eq!(stored.len(), 2, "each upstream has a cache of its own");
}

#[test]
fn a_stored_response_has_the_lines_of_the_rule_whose_conditions_its_request_meets() {
    let mut client = Client::with(|config| {
        let route = "path = '/api/*'\nupstreams = ['http://127.0.0.1:1']\ncache = true";
        config.proxy = vec![toml::from_str(route).unwrap()];
        let cors = "origins = ['https://a.test']\nif = 'cookie beta'";
        config.cors = vec![toml::from_str(cors).unwrap()];
    });
    let origin = ("origin", "https://a.test");
    let mut line = Vec::new();
    block::field(b"access-control-allow-origin", b"https://a.test", &mut line);
    for round in 0..4 {
        for (fields, is_allowed) in [
            (&[origin][..], false),
            (&[origin, ("cookie", "beta=1")], true),
            (&[origin, ("cookie", "a=1")], false),
        ] {
            // Several in a row, because their path has one slot.
            for again in 0..3 {
                client.reconnect();
                let is_first = round == 0 && again == 0 && fields.len() == 1;
                assert_eq!(client.get(("/api/x", fields)), is_first, "{round}: {fields:?}");
                let sent = &client.wire.sent[&0];
                let found = memchr::memmem::find(sent, &line).is_some();
                assert_eq!(found, is_allowed, "{fields:?}: {}", sent.escape_ascii());
            }
        }
    }
    assert!(!client.rig.cx.field_cache.is_empty());
}

#[test]
fn a_limit_counts_requests_that_meet_its_conditions() {
    let mut client = Client::with(|config| {
        let route = "path = '/api/*'\nupstreams = ['http://127.0.0.1:1']\ncache = true";
        config.proxy = vec![toml::from_str(route).unwrap()];
        let limit = "rate = '2/h'\nburst = 2\nif = ['cookie beta', 'scheme https']";
        config.limit = vec![toml::from_str(limit).unwrap()];
    });
    for round in 0..4 {
        for (fields, is_admitted) in [(&[][..], true), (&[("cookie", "beta=1")], round < 2)] {
            client.reconnect();
            let is_first = round == 0 && fields.is_empty();
            assert_eq!(client.get(("/api/x", fields)), is_first, "{round}: {fields:?}");
            let sent = &client.wire.sent[&0];
            let has_content = memchr::memmem::find(sent, file("/small.png")).is_some();
            assert_eq!(has_content, is_admitted, "{round}: {fields:?}");
        }
    }
    assert_eq!(client.rig.cx.field_cache.len(), 0);
    assert_eq!(client.rig.cx.counters.too_many().get(), 2);
}

#[test]
fn a_stored_response_is_repeated_as_a_lookup_would_answer() {
    for format in [LogFormat::Combined, LogFormat::Json] {
        for request in ASKED {
            let mut clients = [false, true].map(|fresh_head| {
                Client::with(|config| {
                    let upstream = "http://127.0.0.1:1".parse().unwrap();
                    let mut rule = Proxy::new("/api/*".parse().unwrap(), vec![upstream]);
                    rule.cache = Some(ProxyCache::default());
                    config.proxy.push(rule);
                    config.log_format = format;
                    config.behavior.fresh_head = fresh_head;
                })
            });
            // At first, with other numbers, and from the second on in which it is stale: the date of the upstream stands still.
            for (round, wait) in [0, 0, 0, 0, 0, 9, 0, 41, 9, 1, 0].into_iter().enumerate() {
                for client in &mut clients {
                    client.rig.wait(Duration::from_secs(wait));
                    if round % 3 == 0 || wait > 0 {
                        client.reconnect();
                    }
                    let is_passed_on = client.get(request);
                    assert_eq!(is_passed_on, matches!(round, 0 | 9 | 10), "{request:?}: {round}");
                }
                let [client, reference] = &clients;
                assert!(client.wire.sent == reference.wire.sent, "{request:?}: {round}");
                let kept = |client: &Client| client.rig.cx.field_cache.len();
                assert_eq!(
                    (kept(client), kept(reference)),
                    (usize::from(round > 1), 0),
                    "{request:?}: {round}"
                );
                // From the third on, which is kept, until it is stale.
                if matches!(round, 3..=8) {
                    let has_passed = (client.session.has_passed, reference.session.has_passed);
                    assert_eq!(has_passed, (false, true), "{request:?}: {round}");
                }
            }
            let counts = clients.each_ref().map(|client| {
                let hits = client.rig.cx.state.proxies.cache_reports()[0].1.counts[0];
                (hits, client.rig.cx.counters.http3_requests().get())
            });
            assert_eq!(counts, [(8, 11); 2]);
            let [log, expected] = clients.map(|mut client| client.rig.log());
            assert_eq!(log, expected);
            assert_eq!(log.lines().count(), 11, "{log}");
        }
    }
}
