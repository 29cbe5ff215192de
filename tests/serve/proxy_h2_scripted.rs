//! An upstream of HTTP/2 that follows a script, frame by frame: GOAWAY, REFUSED_STREAM and resets at each point of a request,
//! and what the client and the next requests get.

use crate::serve::process::{Launch, PATIENCE, Server, Strategy, eventually};
use crate::serve::tree::Tree;
use crate::serve::{frames, on_strategy};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Bytes that a stream takes before any are given back (RFC 9113 section 6.9.2).
const WINDOW: usize = 65_535;

const PREFACE: usize = 24;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

/// END_STREAM on DATA and HEADERS, ACK on SETTINGS and PING.
const END: u8 = 1;

const REFUSED_STREAM: u32 = 7;
const INTERNAL_ERROR: u32 = 2;

/// What the upstream does with a request. Later ones of the connection are not read after those that end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Answers with the content, and goes on.
    Echo,
    /// Refuses it as soon as its head came.
    RefuseHead,
    /// Refuses it once it is whole.
    Refuse,
    /// Says that it did not process this request, and no later one.
    GoAwayBefore,
    /// Says that it processes no request after this one, and answers.
    GoAwayBehind,
    /// Fails it.
    Fail,
    /// Closes the connection without a word.
    Close,
    /// Says nothing.
    Ignore,
    /// Answers with a head, then says that it was not processed, which is untrue.
    RefuseLate,
    /// Gives the window back only for so much, then refuses it.
    RefuseAfter(usize),
    /// Waits until so many whole requests of the connection wait, then does this.
    With(usize, &'static Deed),
    /// Among requests that waited: so many of them were processed.
    GoAwayAmong(usize),
    /// Waits until so many requests of all connections are whole, then answers with the content.
    Gather(usize),
    /// Answers at once, whatever of the content comes.
    AnswerHead,
    /// Gives no window of its stream back until another request has `Feed`, then answers with the content.
    Starve,
    /// Opens the windows of streams that starve, and answers.
    Feed,
}

/// What the upstream got.
#[derive(Debug, Default)]
struct Heard {
    connections: usize,
    /// Requests whose heads have come.
    heads: usize,
    /// Most requests at a time on one connection.
    most: usize,
    /// Connection, stream and content of each whole request, in the order of their ends.
    requests: Vec<(usize, u32, Vec<u8>)>,
}

pub(crate) struct Scripted {
    pub(crate) url: String,
    heard: Arc<Mutex<Heard>>,
    sockets: Arc<Mutex<Vec<TcpStream>>>,
}

impl Scripted {
    /// An upstream that does this with the requests of all connections, in their order; and then what the last deed says.
    pub(crate) fn start(script: &[Deed]) -> Scripted {
        Scripted::with_settings(script, &[])
    }

    /// The same, with this payload of SETTINGS.
    fn with_settings(script: &[Deed], settings: &'static [u8]) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("h2c://{}", listener.local_addr().expect("its address"));
        let heard = Arc::new(Mutex::new(Heard::default()));
        let script = Arc::new(Mutex::new(script.to_vec()));
        let sockets: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let (noted, accepted) = (Arc::clone(&heard), Arc::clone(&sockets));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let socket = stream.try_clone().expect("a descriptor");
                accepted.lock().expect("no thread panics").push(socket);
                let number = {
                    let mut heard = noted.lock().expect("no thread panics");
                    heard.connections += 1;
                    heard.connections
                };
                let (heard, script) = (Arc::clone(&noted), Arc::clone(&script));
                let closing = stream.try_clone().expect("a descriptor");
                std::thread::spawn(move || {
                    let _ = Connection::new(stream, number, heard, script).run(settings);
                    // The list of sockets has a copy, which keeps the connection open. The peer may be gone.
                    let _ = closing.shutdown(Shutdown::Both);
                });
            }
        });
        Scripted { url, heard, sockets }
    }

    /// Closes all connections without a word.
    fn hang_up(&self) {
        for socket in self.sockets.lock().expect("no thread panics").drain(..) {
            socket.shutdown(Shutdown::Both).expect("an open connection");
        }
    }

    fn heads(&self) -> usize {
        self.heard.lock().expect("no thread panics").heads
    }

    pub(crate) fn connections(&self) -> usize {
        self.heard.lock().expect("no thread panics").connections
    }

    fn most(&self) -> usize {
        self.heard.lock().expect("no thread panics").most
    }

    fn requests(&self) -> Vec<(usize, u32, Vec<u8>)> {
        self.heard.lock().expect("no thread panics").requests.clone()
    }
}

struct Connection {
    stream: TcpStream,
    number: usize,
    heard: Arc<Mutex<Heard>>,
    script: Arc<Mutex<Vec<Deed>>>,
    /// Content and deed of each request that is not over.
    requests: BTreeMap<u32, (Vec<u8>, Deed)>,
    /// Whole requests that wait for others.
    waiting: Vec<(u32, Vec<u8>, Deed)>,
}

impl Connection {
    fn new(
        stream: TcpStream,
        number: usize,
        heard: Arc<Mutex<Heard>>,
        script: Arc<Mutex<Vec<Deed>>>,
    ) -> Connection {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("a socket");
        Connection {
            stream,
            number,
            heard,
            script,
            requests: BTreeMap::new(),
            waiting: Vec::new(),
        }
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> std::io::Result<()> {
        let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.stream.write_all(&frame)
    }

    fn run(&mut self, settings: &[u8]) -> std::io::Result<()> {
        let mut preface = [0; PREFACE];
        self.stream.read_exact(&mut preface)?;
        self.frame(SETTINGS, 0, 0, settings)?;
        loop {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head)?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let (kind, flags) = (head[3], head[4]);
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let mut payload = vec![0; length];
            self.stream.read_exact(&mut payload)?;
            match kind {
                SETTINGS if flags & END == 0 => self.frame(SETTINGS, END, 0, &[])?,
                PING if flags & END == 0 => self.frame(PING, END, 0, &payload)?,
                HEADERS => {
                    let deed = self.next_deed();
                    self.heard.lock().expect("no thread panics").heads += 1;
                    if deed == Deed::RefuseHead {
                        self.frame(RST_STREAM, 0, stream, &REFUSED_STREAM.to_be_bytes())?;
                        continue;
                    }
                    if deed == Deed::AnswerHead {
                        self.answer(stream, b"early")?;
                        continue;
                    }
                    self.requests.insert(stream, (Vec::new(), deed));
                    let mut heard = self.heard.lock().expect("no thread panics");
                    heard.most = heard.most.max(self.requests.len() + self.waiting.len());
                }
                DATA => self.take(stream, &payload)?,
                RST_STREAM => drop(self.requests.remove(&stream)),
                _ => {}
            }
            if matches!(kind, HEADERS | DATA) && flags & END != 0 && !self.end(stream)? {
                return Ok(());
            }
        }
    }

    fn next_deed(&self) -> Deed {
        let mut script = self.script.lock().expect("no thread panics");
        match script.len() {
            1 => script[0],
            _ => script.remove(0),
        }
    }

    fn take(&mut self, stream: u32, payload: &[u8]) -> std::io::Result<()> {
        let more = (payload.len() as u32).to_be_bytes();
        if !payload.is_empty() {
            self.frame(WINDOW_UPDATE, 0, 0, &more)?;
        }
        let Some((content, deed)) = self.requests.get_mut(&stream) else {
            return Ok(());
        };
        content.extend(payload);
        let starves = *deed == Deed::Starve;
        let is_enough = matches!(deed, Deed::RefuseAfter(most) if content.len() >= *most);
        if is_enough {
            self.requests.remove(&stream);
            return self.frame(RST_STREAM, 0, stream, &REFUSED_STREAM.to_be_bytes());
        }
        if !payload.is_empty() && !starves {
            self.frame(WINDOW_UPDATE, 0, stream, &more)?;
        }
        Ok(())
    }

    /// A request is whole. Returns whether the connection goes on.
    fn end(&mut self, stream: u32) -> std::io::Result<bool> {
        let Some((content, deed)) = self.requests.remove(&stream) else {
            return Ok(true);
        };
        let note = (self.number, stream, content.clone());
        self.heard.lock().expect("no thread panics").requests.push(note);
        let Deed::With(count, then) = deed else {
            return self.act(stream, &content, deed);
        };
        self.waiting.push((stream, content, *then));
        if self.waiting.len() < count {
            return Ok(true);
        }
        let mut goes_on = true;
        let mut waiting = std::mem::take(&mut self.waiting);
        // A request may be whole before one of a lower stream is. GOAWAY names the last stream that was processed.
        waiting.sort_by_key(|(stream, ..)| *stream);
        for (at, (stream, content, deed)) in waiting.iter().enumerate() {
            match deed {
                Deed::GoAwayAmong(count) if at == 0 => {
                    let last = waiting[count - 1].0;
                    self.frame(GOAWAY, 0, 0, &[last.to_be_bytes(), [0; 4]].concat())?;
                    self.answer(*stream, content)?;
                }
                Deed::GoAwayAmong(count) if at < *count => self.answer(*stream, content)?,
                Deed::GoAwayAmong(_) => {}
                deed => goes_on &= self.act(*stream, content, *deed)?,
            }
        }
        Ok(goes_on)
    }

    /// Does this with a whole request. Returns whether the connection goes on.
    fn act(&mut self, stream: u32, content: &[u8], deed: Deed) -> std::io::Result<bool> {
        let go_away = |last: u32| [last.to_be_bytes(), [0; 4]].concat();
        match deed {
            Deed::With(..) | Deed::GoAwayAmong(_) => panic!("{deed:?} is for requests that wait"),
            Deed::Echo | Deed::Starve | Deed::AnswerHead => self.answer(stream, content)?,
            Deed::Gather(count) => {
                let heard = Arc::clone(&self.heard);
                eventually("requests of all connections", || {
                    let heard = heard.lock().expect("no thread panics");
                    (heard.requests.len() >= count).then_some(())
                });
                self.answer(stream, content)?;
            }
            Deed::Feed => {
                let starving = self
                    .requests
                    .iter()
                    .filter(|(_, (_, deed))| *deed == Deed::Starve);
                let streams: Vec<u32> = starving.map(|(stream, _)| *stream).collect();
                for starving in streams {
                    self.frame(WINDOW_UPDATE, 0, starving, &(1_u32 << 20).to_be_bytes())?;
                }
                self.answer(stream, content)?;
            }
            Deed::RefuseHead | Deed::Refuse | Deed::RefuseAfter(_) => {
                self.frame(RST_STREAM, 0, stream, &REFUSED_STREAM.to_be_bytes())?;
            }
            Deed::GoAwayBefore => {
                self.frame(GOAWAY, 0, 0, &go_away(stream.saturating_sub(2)))?;
                return Ok(false);
            }
            Deed::GoAwayBehind => {
                self.frame(GOAWAY, 0, 0, &go_away(stream))?;
                self.answer(stream, content)?;
            }
            Deed::Fail => self.frame(RST_STREAM, 0, stream, &INTERNAL_ERROR.to_be_bytes())?,
            Deed::Close => return Ok(false),
            Deed::Ignore => {}
            Deed::RefuseLate => {
                self.frame(HEADERS, 4, stream, &[0x88])?;
                self.frame(DATA, 0, stream, b"some")?;
                self.frame(RST_STREAM, 0, stream, &REFUSED_STREAM.to_be_bytes())?;
            }
        }
        Ok(true)
    }

    /// 200 with this content, in frames of the size that every peer takes. In place of content that the window of Weir does not
    /// permit at once, its length.
    fn answer(&mut self, stream: u32, content: &[u8]) -> std::io::Result<()> {
        let length = content.len().to_string();
        let content = if content.len() > WINDOW {
            length.as_bytes()
        } else {
            content
        };
        // END_HEADERS; the block is `:status: 200` of the static table.
        self.frame(HEADERS, 4, stream, &[0x88])?;
        for piece in content.chunks(16_384) {
            self.frame(DATA, 0, stream, piece)?;
        }
        self.frame(DATA, END, stream, &[])
    }
}

/// One event loop, so that all requests find the same kept connections.
fn launch(strategy: Strategy, tree: &Tree, upstreams: &[&Scripted], more: &str) -> Server {
    let urls: Vec<String> = upstreams.iter().map(|one| format!("\"{}\"", one.url)).collect();
    let text = format!(
        "root = \"{}\"\nhttp2 = \"all\"\nlive = \"local\"\n[[proxy]]\npath = \"/api/*\"\nupstreams = [{}]\n{more}\n",
        tree.path().display(),
        urls.join(", ")
    );
    let config = tree.write("weir.toml", text);
    Launch::new(Strategy {
        workers: 1,
        ..strategy
    })
    .args(["--config".as_ref(), config.as_os_str()])
    .start()
}

fn tree() -> Tree {
    Tree::with(&[("a.txt", "a file")])
}

/// The status and content of the answer to a POST over each version of HTTP.
fn post(server: &Server, is_http2: bool, content: &str) -> (u16, String) {
    if is_http2 {
        let mut client = frames::connect(server);
        let stream = client.open("/api/x", &[(":method", "POST")], false);
        // A reset may come before all of it was sent.
        let _ = client.send_body(stream, content.as_bytes());
        if client.got.get(&stream).is_none_or(|got| !got.has_ended) {
            client.end(stream, &[]);
        }
        let got = client.end_of(stream);
        return (got.status, got.text());
    }
    let mut connection = server.connect();
    connection.send(format!(
        "POST /api/x HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n",
        content.len()
    ));
    connection.try_send(content);
    let answer = connection.receive("POST");
    (answer.status, answer.text())
}

fn a_request_that_was_not_processed_is_sent_again(strategy: Strategy) {
    let tree = tree();
    for deed in [Deed::RefuseHead, Deed::Refuse, Deed::GoAwayBefore] {
        for is_http2 in [false, true] {
            let upstream = Scripted::start(&[deed, Deed::Echo]);
            let server = launch(strategy, &tree, &[&upstream], "");
            let answer = post(&server, is_http2, "hello");
            assert_eq!(answer, (200, "hello".to_owned()), "{deed:?} {is_http2}");
            assert_eq!(upstream.connections(), 2, "{deed:?} {is_http2}");
            let last = upstream.requests().pop().expect("a request");
            assert_eq!(last, (2, 1, b"hello".to_vec()), "{deed:?} {is_http2}");
        }
    }
}

fn what_may_have_been_processed_is_not_sent_again(strategy: Strategy) {
    let tree = tree();
    for deed in [Deed::Fail, Deed::Close] {
        let upstream = Scripted::start(&[deed, Deed::Echo]);
        let server = launch(strategy, &tree, &[&upstream], "");
        assert_eq!(post(&server, false, "hello").0, 502, "{deed:?}");
        assert_eq!(upstream.requests().len(), 1, "{deed:?}");
        assert_eq!(post(&server, true, "again").0, 200, "{deed:?}");
    }
    // A response that has begun cannot be taken back, whatever the upstream says.
    let upstream = Scripted::start(&[Deed::RefuseLate, Deed::Echo]);
    let server = launch(strategy, &tree, &[&upstream], "");
    let mut client = frames::connect(&server);
    let stream = client.open("/api/x", &[(":method", "POST")], false);
    client.end(stream, &[]);
    assert!(client.run(|client| client.got[&stream].reset.is_some()));
    assert_eq!(upstream.requests().len(), 1);
}

fn a_body_that_was_let_go_is_not_sent_again(strategy: Strategy) {
    let tree = tree();
    let long = "0123456789abcdef".repeat(16 << 10);
    let short = "0123456789abcdef".repeat(3 << 10);
    for is_http2 in [false, true] {
        let upstream = Scripted::start(&[Deed::RefuseAfter(100 << 10), Deed::Echo]);
        let server = launch(strategy, &tree, &[&upstream], "");
        assert_eq!(post(&server, is_http2, &long).0, 502);
        assert_eq!(upstream.requests(), []);
        // 48 KiB are kept, and sent again from the beginning.
        let upstream = Scripted::start(&[Deed::RefuseAfter(40 << 10), Deed::Echo]);
        let server = launch(strategy, &tree, &[&upstream], "");
        let answer = post(&server, is_http2, &short);
        assert!(answer == (200, short.clone()), "{}", answer.0);
        assert_eq!(upstream.requests().len(), 1);
    }
}

fn retries_have_their_bound(strategy: Strategy) {
    let tree = tree();
    let upstream = Scripted::start(&[Deed::Refuse]);
    let server = launch(strategy, &tree, &[&upstream], "retries = 2\nmax-failures = 0");
    assert_eq!(post(&server, false, "hello").0, 502);
    assert_eq!(upstream.requests().len(), 3, "the request and two retries");
    let upstream = Scripted::start(&[Deed::Refuse, Deed::Echo]);
    let server = launch(strategy, &tree, &[&upstream], "retries = 0");
    assert_eq!(post(&server, true, "hello").0, 502);
    assert_eq!(upstream.requests().len(), 1);
    // Another upstream is asked first.
    let refusing = Scripted::start(&[Deed::Refuse]);
    let other = Scripted::start(&[Deed::Echo]);
    let more = "balance = \"round-robin\"\nmax-failures = 0";
    let server = launch(strategy, &tree, &[&refusing, &other], more);
    for _ in 0..2 {
        assert_eq!(post(&server, false, "hello"), (200, "hello".to_owned()));
    }
    assert_eq!((refusing.requests().len(), other.requests().len()), (1, 2));
}

fn sequential_posts_use_one_connection(strategy: Strategy) {
    let tree = tree();
    let upstream = Scripted::start(&[Deed::Echo]);
    let server = launch(strategy, &tree, &[&upstream], "");
    for number in 0..100 {
        let content = format!("number {number}");
        assert_eq!(post(&server, number % 2 == 0, &content), (200, content));
    }
    assert_eq!(upstream.connections(), 1);
}

fn a_connection_that_ends_is_replaced(strategy: Strategy) {
    let tree = tree();
    // The third request finds a kept connection that goes away: that costs no retry.
    for deed in [Deed::GoAwayBefore, Deed::Refuse] {
        let upstream = Scripted::start(&[Deed::Echo, Deed::Echo, deed, Deed::Echo]);
        let server = launch(strategy, &tree, &[&upstream], "retries = 0");
        for number in 0..5 {
            let content = format!("number {number}");
            assert_eq!(post(&server, false, &content), (200, content), "{deed:?}");
        }
        assert_eq!(upstream.connections(), 2, "{deed:?}");
    }
    // One that is answered is the last of its connection.
    let upstream = Scripted::start(&[Deed::Echo, Deed::GoAwayBehind, Deed::Echo]);
    let server = launch(strategy, &tree, &[&upstream], "retries = 0");
    for number in 0..4 {
        let content = format!("number {number}");
        assert_eq!(post(&server, true, &content), (200, content));
    }
    let connections: Vec<usize> = upstream.requests().iter().map(|request| request.0).collect();
    assert_eq!(connections, [1, 1, 2, 2]);
}

/// Requests of one connection each for `connections`, `streams` of them on each; then their answers.
fn ask_at_once(server: &Server, connections: usize, streams: usize, method: &str) -> Vec<(u16, String)> {
    let mut clients: Vec<_> = (0..connections).map(|_| frames::connect(server)).collect();
    let mut asked = Vec::new();
    for (at, client) in clients.iter_mut().enumerate() {
        for number in 0..streams {
            let has_body = method == "POST";
            let stream = client.open("/api/x", &[(":method", method)], !has_body);
            if has_body {
                assert!(client.send_body(stream, format!("{at} {number}").as_bytes()));
                client.end(stream, &[]);
            }
            asked.push((at, stream));
        }
        // It acknowledges the SETTINGS of the server before the others ask, which may take long on a busy machine.
        assert!(client.run_once(), "{:?}", client.left);
    }
    asked
        .into_iter()
        .map(|(at, stream)| {
            let got = clients[at].end_of(stream);
            (got.status, got.text())
        })
        .collect()
}

fn all_echoed(connections: usize, streams: usize) -> Vec<(u16, String)> {
    let each =
        (0..connections).flat_map(|at| (0..streams).map(move |number| (200, format!("{at} {number}"))));
    each.collect()
}

fn several_requests_share_a_connection(strategy: Strategy) {
    let tree = tree();
    // The upstream answers none before it has all, from several clients with several requests each.
    for (connections, streams) in [(1, 30), (30, 1), (5, 12)] {
        let deed = match connections * streams {
            30 => Deed::With(30, &Deed::Echo),
            _ => Deed::With(60, &Deed::Echo),
        };
        let upstream = Scripted::start(&[deed]);
        let server = launch(strategy, &tree, &[&upstream], "");
        for _ in 0..3 {
            let answers = ask_at_once(&server, connections, streams, "POST");
            assert_eq!(answers, all_echoed(connections, streams));
        }
        assert_eq!(
            upstream.connections(),
            1,
            "{connections} connections, {streams} streams"
        );
    }
}

fn limits_on_streams_are_kept(strategy: Strategy) {
    let tree = tree();
    // SETTINGS_MAX_CONCURRENT_STREAMS is 3, which the first connection tells.
    let upstream = Scripted::with_settings(&[Deed::Echo], &[0, 3, 0, 0, 0, 3]);
    let server = launch(strategy, &tree, &[&upstream], "");
    assert_eq!(post(&server, false, "first"), (200, "first".to_owned()));
    for _ in 0..3 {
        assert_eq!(ask_at_once(&server, 3, 8, "POST"), all_echoed(3, 8));
    }
    assert!(upstream.most() <= 3, "{}", upstream.most());
    // The bound of the rule. None is answered before all have come: a connection answered earlier would be used again.
    let mut deeds = vec![Deed::With(2, &Deed::Gather(8)); 8];
    // Which idle connection a later request gets is a matter of time, so those wait for no other.
    deeds.push(Deed::Echo);
    let upstream = Scripted::start(&deeds);
    let server = launch(strategy, &tree, &[&upstream], "streams = 2");
    assert_eq!(ask_at_once(&server, 4, 2, "POST"), all_echoed(4, 2));
    assert_eq!((upstream.connections(), upstream.most()), (4, 2));
    // The connections that are idle now are used again.
    assert_eq!(ask_at_once(&server, 2, 2, "POST"), all_echoed(2, 2));
    assert_eq!(upstream.connections(), 4);
}

fn the_bounds_of_streams_hold(strategy: Strategy) {
    let tree = tree();
    // One at a time: each request has a connection of its own while others are under way, which are used again.
    let upstream = Scripted::start(&[Deed::Gather(6)]);
    let server = launch(strategy, &tree, &[&upstream], "streams = 1");
    assert_eq!(ask_at_once(&server, 3, 2, "POST"), all_echoed(3, 2));
    assert_eq!((upstream.connections(), upstream.most()), (6, 1));
    assert_eq!(ask_at_once(&server, 3, 2, "POST"), all_echoed(3, 2));
    assert_eq!((upstream.connections(), upstream.most()), (6, 1));
    // An upstream that permits one is asked no more, whatever the rule says. The first connection tells.
    let upstream = Scripted::with_settings(&[Deed::Gather(1), Deed::Gather(7)], &[0, 3, 0, 0, 0, 1]);
    let server = launch(strategy, &tree, &[&upstream], "streams = 1000");
    assert_eq!(post(&server, false, "first"), (200, "first".to_owned()));
    assert_eq!(ask_at_once(&server, 3, 2, "POST"), all_echoed(3, 2));
    assert_eq!((upstream.connections(), upstream.most()), (6, 1));
    // The most that a rule can say: the upstream answers none before it has a thousand on each of two connections.
    let upstream = Scripted::start(&[Deed::With(1_000, &Deed::Gather(2_000))]);
    let server = launch(strategy, &tree, &[&upstream], "streams = 1000");
    assert_eq!(ask_at_once(&server, 20, 100, "POST"), all_echoed(20, 100));
    assert_eq!((upstream.connections(), upstream.most()), (2, 1_000));
}

#[test]
fn other_bounds_of_streams_are_refused() {
    let tree = tree();
    for streams in [0, 1_001] {
        let text = format!(
            "root = \"{}\"\n[[proxy]]\npath = \"/a/*\"\nupstreams = [\"h2c://127.0.0.1:1\"]\nstreams = {streams}\n",
            tree.path().display()
        );
        let config = tree.write("weir.toml", text);
        let (code, said) = Launch::new(Strategy::LOOPS)
            .args(["--config".as_ref(), config.as_os_str()])
            .fail();
        assert_eq!(code, 2, "{said}");
        assert!(said.contains("`streams` must be from 1 to 1000"), "{said}");
    }
}

/// A request whose content the upstream does not take, and one that it does not answer.
fn a_slow_stream_stalls_no_other(strategy: Strategy) {
    let tree = tree();
    let mut script = vec![Deed::Starve, Deed::Ignore];
    script.resize(2 + 60, Deed::Echo);
    script.push(Deed::Feed);
    let upstream = Scripted::start(&script);
    let server = launch(strategy, &tree, &[&upstream], "");
    let long = "0123456789abcdef".repeat(6_000);
    assert!(long.len() > WINDOW);
    let mut starving = frames::connect(&server);
    let stream = starving.open("/api/x", &[(":method", "POST")], false);
    assert!(starving.send_body(stream, long.as_bytes()));
    starving.end(stream, &[]);
    eventually("the first request", || (upstream.heads() == 1).then_some(()));
    let mut ignored = server.connect();
    ignored.send("GET /api/x HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("the second request", || (upstream.heads() == 2).then_some(()));
    for number in 0..60 {
        let content = format!("number {number} ").repeat(3_000);
        let answer = post(&server, number % 2 == 0, &content);
        assert!(answer == (200, content), "{number}: {}", answer.0);
    }
    assert_eq!(upstream.requests().len(), 61, "the first one is not whole");
    assert_eq!(post(&server, false, "last"), (200, "last".to_owned()));
    let got = starving.end_of(stream);
    assert_eq!((got.status, got.text()), (200, long.len().to_string()));
    let requests = upstream.requests();
    assert_eq!((upstream.connections(), requests.len()), (1, 63));
    assert!(requests[62].2 == long.as_bytes(), "the content arrives whole");
}

fn a_connection_that_has_ended_gets_no_request(strategy: Strategy) {
    let tree = tree();
    let upstream = Scripted::start(&[Deed::Echo]);
    let server = launch(strategy, &tree, &[&upstream], "retries = 0\nmax-failures = 0");
    assert_eq!(post(&server, false, "first"), (200, "first".to_owned()));
    let mut connection = server.connect();
    assert_eq!(connection.get("/a.txt").text(), "a file");
    // Both wait for the server when it goes on: the request, then the end of the connection.
    server.signal("STOP");
    eventually("a server that stands still", || {
        is_stopped(server.pid()).then_some(())
    });
    connection.send("POST /api/x HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nsecond");
    upstream.hang_up();
    server.signal("CONT");
    let answer = connection.receive("POST");
    assert_eq!((answer.status, answer.text()), (200, "second".to_owned()));
    let requests = [(1, 1, b"first".to_vec()), (2, 1, b"second".to_vec())];
    assert_eq!(upstream.requests(), requests, "{}", server.stderr());
}

/// Whether all threads of a process are stopped (proc(5): the state follows the name in parentheses).
fn is_stopped(pid: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("a process");
    tasks.flatten().all(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
    })
}

fn a_reset_leaves_the_others_alone(strategy: Strategy) {
    let tree = tree();
    let fails = Deed::With(3, &Deed::Fail);
    let echoes = Deed::With(3, &Deed::Echo);
    let upstream = Scripted::start(&[echoes, fails, echoes, Deed::Echo]);
    let server = launch(strategy, &tree, &[&upstream], "");
    let answers = ask_at_once(&server, 1, 3, "POST");
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.0).collect();
    assert_eq!(statuses, [200, 502, 200]);
    assert_eq!(post(&server, false, "more"), (200, "more".to_owned()));
    assert_eq!(upstream.connections(), 1);
}

fn goaway_among_several_requests_repeats_those_behind_it(strategy: Strategy) {
    let tree = tree();
    let among = Deed::With(4, &Deed::GoAwayAmong(2));
    let upstream = Scripted::start(&[among, among, among, among, Deed::Echo]);
    let server = launch(strategy, &tree, &[&upstream], "retries = 0");
    assert_eq!(ask_at_once(&server, 2, 2, "POST"), all_echoed(2, 2));
    assert_eq!(upstream.connections(), 2);
    assert_eq!(upstream.requests().len(), 6);
}

fn a_lost_connection_fails_what_may_not_be_repeated(strategy: Strategy) {
    let tree = tree();
    for (method, status, requests) in [("POST", 502, 3), ("GET", 200, 6)] {
        let closes = Deed::With(3, &Deed::Close);
        let upstream = Scripted::start(&[Deed::Echo, closes, closes, closes, Deed::Echo]);
        let server = launch(strategy, &tree, &[&upstream], "retries = 0\nmax-failures = 0");
        assert_eq!(post(&server, false, "first").0, 200);
        let answers = ask_at_once(&server, 3, 1, method);
        assert!(
            answers.iter().all(|answer| answer.0 == status),
            "{method}: {answers:?}"
        );
        assert_eq!(upstream.requests().len(), 1 + requests, "{method}");
        assert_eq!(post(&server, false, "last"), (200, "last".to_owned()));
    }
}

#[test]
fn a_silent_connection_gets_no_more_requests() {
    let tree = tree();
    let upstream = Scripted::start(&[Deed::Echo, Deed::Ignore, Deed::Echo]);
    let more = "first-byte-timeout = \"2s\"\nmax-failures = 0";
    let server = launch(Strategy::LOOPS, &tree, &[&upstream], more);
    assert_eq!(post(&server, false, "first"), (200, "first".to_owned()));
    // A window that is opened would be a sign of life.
    assert_eq!(server.connect().get("/api/x").status, 504);
    assert_eq!(post(&server, false, "third"), (200, "third".to_owned()));
    let connections: Vec<usize> = upstream.requests().iter().map(|request| request.0).collect();
    assert_eq!(connections, [1, 1, 2]);
}

#[test]
fn metrics_count_what_connections_did() {
    let tree = tree();
    let upstream = Scripted::start(&[Deed::Echo, Deed::GoAwayBefore, Deed::Echo]);
    let server = launch(Strategy::LOOPS, &tree, &[&upstream], "");
    for content in ["first", "second"] {
        assert_eq!(post(&server, false, content), (200, content.to_owned()));
    }
    let text = server.connect().get("/.weir/metrics").text();
    for (name, count) in [("streams", 3), ("reused", 1), ("goaway", 1), ("refused", 1)] {
        let line = format!("weir_upstream_http2_{name}_total{{");
        let line = text.lines().find(|its| its.starts_with(&line));
        let line = line.unwrap_or_else(|| panic!("{name}: {text}"));
        assert!(
            line.ends_with(&format!(" {count}")) && line.contains(&upstream.url),
            "{line}"
        );
    }
}

on_strategy!(loops, LOOPS:
    the_bounds_of_streams_hold, a_slow_stream_stalls_no_other, a_connection_that_has_ended_gets_no_request,
    several_requests_share_a_connection, limits_on_streams_are_kept, a_reset_leaves_the_others_alone,
    goaway_among_several_requests_repeats_those_behind_it, a_lost_connection_fails_what_may_not_be_repeated,
    a_request_that_was_not_processed_is_sent_again, what_may_have_been_processed_is_not_sent_again,
    a_body_that_was_let_go_is_not_sent_again, retries_have_their_bound, sequential_posts_use_one_connection,
    a_connection_that_ends_is_replaced);
on_strategy!(loops_uring, LOOPS_URING:
    the_bounds_of_streams_hold, a_slow_stream_stalls_no_other, a_connection_that_has_ended_gets_no_request,
    a_request_that_was_not_processed_is_sent_again, a_body_that_was_let_go_is_not_sent_again,
    a_connection_that_ends_is_replaced, several_requests_share_a_connection, limits_on_streams_are_kept,
    a_reset_leaves_the_others_alone, goaway_among_several_requests_repeats_those_behind_it,
    a_lost_connection_fails_what_may_not_be_repeated);
