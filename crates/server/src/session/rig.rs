//! A driver and a peer in memory: one connection at a time, jobs run at once or on request, and time advances on
//! request.

use crate::config::{Config, LogFormat};
use crate::service::LogSink;
use crate::site::Source;
use crate::{Cx, Server, Session, Work};
use runtime::fs::Wait;
use runtime::session::{Ask, Job as _, Loss, Need, PeerEvent, Secured, Ticket};
use runtime::{Accepted, Action, Body, Context as _, Event, Service as _, Session as _, Tx};
use std::sync::{Arc, LazyLock, Mutex};
use units::{Draw as _, Duration, Instant, Seed, UnixTime};

/// The site of these tests: path and content.
static FILES: LazyLock<Vec<(&'static str, &'static [u8])>> = LazyLock::new(|| {
    let leak = |bytes: Vec<u8>| &*bytes.leak();
    let noise = |len: usize| {
        let mut rng = Seed(7).rng();
        leak((0..len).map(|_| rng.next_u64() as u8).collect())
    };
    vec![
        (
            "/index.html",
            b"<!DOCTYPE html><title>Home</title><p>Hello.".as_slice(),
        ),
        ("/digits.bin", b"0123456789"),
        ("/small.png", noise(1_000)),
        ("/page.png", noise(8_192)),
        ("/big.png", noise(100_000)),
        ("/text.txt", leak(b"Weirs regulate flows. ".repeat(100))),
        ("/empty.bin", b""),
        ("/dir/index.html", b"<p>In a directory."),
        ("/bare/file.txt", b"No index beside me."),
        ("/errors/404.html", b"<p>Ours: nothing here."),
        ("/errors/any.html", b"<p>Ours: an error."),
        ("/app.html", b"<p>The application."),
    ]
});

pub(super) const MODIFIED: UnixTime = UnixTime::from_secs(784_111_777);
const WALL: i64 = 1_000_000_000;
pub(super) const DATE: &str = "Sun, 09 Sep 2001 01:46:40 GMT";

pub(super) fn source() -> Source {
    Source::Embedded {
        files: FILES.as_slice(),
        modified: MODIFIED,
    }
}

pub(super) fn file(path: &str) -> &'static [u8] {
    FILES
        .iter()
        .find(|(p, _)| *p == path)
        .expect("a file of the site")
        .1
}

/// Keeps log lines.
#[derive(Debug, Default)]
pub(super) struct Lines(Mutex<Vec<u8>>);

impl LogSink for Lines {
    fn write(&self, lines: Vec<u8>, _now: Instant) -> (Vec<u8>, u64) {
        self.0.lock().unwrap().extend(lines);
        (Vec::new(), 0)
    }
}

impl Lines {
    pub(super) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// State of a connection, seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Open and ready to read.
    Open,
    /// Output waits for a peer that does not read.
    Blocked,
    /// The server has closed its half and still reads.
    HalfClosed,
    Closed,
}

/// One worker of a server, with one connection.
pub(super) struct Rig {
    pub(super) server: Server,
    pub(super) cx: Cx,
    pub(super) session: Session,
    pub(super) now: Instant,
    pub(super) out: Vec<u8>,
    pub(super) end: End,
    /// The peer reads nothing.
    pub(super) stalled: bool,
    pub(super) lines: Arc<Lines>,
    /// Largest single output, header block and body.
    pub(super) output_max: usize,
    /// Jobs are kept in `jobs` instead of being run at once.
    pub(super) holds_jobs: bool,
    pub(super) jobs: Vec<(Ticket, Work)>,
    /// What the session asked for its connections to upstreams, in order. Nothing happens to them but what a test tells.
    pub(super) asked: Vec<(Ticket, Ask)>,
    tx: Tx,
    gone: bool,
}

pub(super) fn peer() -> Accepted {
    Accepted::at_first("192.0.2.7:4711".parse().unwrap())
}

impl Rig {
    pub(super) fn new() -> Rig {
        Rig::with(|_| {})
    }

    pub(super) fn with(configure: impl FnOnce(&mut Config)) -> Rig {
        let mut config = Config {
            log_format: LogFormat::Json,
            ..Config::default()
        };
        configure(&mut config);
        config.validate().unwrap();
        let lines = Arc::new(Lines::default());
        let log: Arc<dyn LogSink> = lines.clone();
        Rig::of(Server::open(config, source(), Some(log), Seed(1)).unwrap(), lines)
    }

    pub(super) fn of(server: Server, lines: Arc<Lines>) -> Rig {
        let now = Instant::from_nanos(1_000_000_000);
        let mut cx = server.context(0);
        cx.turn(now, UnixTime::from_secs(WALL));
        let session = server.accept(&mut cx, &peer(), now).unwrap();
        Rig {
            server,
            cx,
            session,
            now,
            out: Vec::new(),
            end: End::Open,
            stalled: false,
            lines,
            output_max: 0,
            holds_jobs: false,
            jobs: Vec::new(),
            asked: Vec::new(),
            tx: Tx::default(),
            gone: false,
        }
    }

    /// Another connection of the same worker.
    pub(super) fn reconnect(&mut self) {
        self.hang_up();
        self.session = self.server.accept(&mut self.cx, &peer(), self.now).unwrap();
        self.out.clear();
        self.end = End::Open;
        self.gone = false;
        self.stalled = false;
        self.tx.clear();
    }

    /// Ends the connection from the peer's side.
    pub(super) fn hang_up(&mut self) {
        if !self.gone {
            self.gone = true;
            self.session.closed(&mut self.cx, self.now);
        }
    }

    /// Sends bytes from the peer. Bytes that cannot be read because the connection ended are lost.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        if matches!(self.end, End::Open | End::HalfClosed) {
            self.event(Event::Bytes(bytes));
        }
    }

    /// Agrees on HTTP/2, as TLS does.
    pub(super) fn agree_on_http2(&mut self) {
        self.event(Event::Secured(Secured {
            protocol: Some(b"h2"),
            ..Secured::default()
        }));
    }

    /// Runs the jobs that were kept.
    pub(super) fn run_jobs(&mut self) {
        for (ticket, job) in std::mem::take(&mut self.jobs) {
            self.event(Event::Done(ticket, job.run()));
        }
    }

    /// Sends bytes from the peer, one by one.
    pub(super) fn send_slowly(&mut self, bytes: &[u8]) {
        for byte in bytes.chunks(1) {
            self.send(byte);
        }
    }

    pub(super) fn eof(&mut self) {
        self.event(Event::Eof);
    }

    pub(super) fn give_way(&mut self) {
        self.event(Event::GiveWay(Need::Place));
    }

    /// As [`Rig::drain`], without haste.
    pub(super) fn retire(&mut self) {
        self.event(Event::Retire);
    }

    pub(super) fn drain(&mut self) {
        self.event(Event::Drain);
    }

    pub(super) fn lose(&mut self, loss: Loss) {
        self.event(Event::Lost(loss));
    }

    /// Tells what happened to a connection to an upstream.
    pub(super) fn upstream(&mut self, ticket: Ticket, event: PeerEvent<'_>) {
        self.event(Event::Peer(ticket, event));
    }

    /// Reports that part of the output was accepted.
    pub(super) fn progress(&mut self, bytes: u64) {
        self.event(Event::Progress(bytes));
    }

    /// Advances time; deadlines fire when due.
    pub(super) fn wait(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some(at) = self.session.deadline().filter(|&at| at <= until) {
            if self.end == End::Closed {
                break;
            }
            self.now = self.now.max(at);
            self.turn();
            self.event(Event::Deadline);
        }
        self.now = until;
        self.turn();
    }

    pub(super) fn turn(&mut self) {
        let secs = (self.now.as_nanos() / 1_000_000_000) as i64 - 1;
        self.cx.turn(self.now, UnixTime::from_secs(WALL + secs));
        if self.cx.has_new_bounds() {
            self.event(Event::Reconsider);
        }
    }

    /// Lets the peer read again.
    /// The peer takes the output under way in this time, and then stops again; returns how many bytes that was.
    pub(super) fn take_within(&mut self, span: Duration) -> usize {
        let bytes = self.tx.head.len();
        self.progress(bytes as u64 / 2);
        self.now = self.now + span;
        self.take();
        self.event(Event::Sent);
        bytes
    }

    pub(super) fn unstall(&mut self) {
        self.stalled = false;
        if self.end == End::Blocked {
            self.end = End::Open;
        }
        if !self.tx.is_empty() {
            self.take();
            self.event(Event::Sent);
        }
    }

    fn take(&mut self) {
        let start = self.out.len();
        self.out.append(&mut self.tx.head);
        match self.tx.body.take() {
            None => {}
            Some(Body::Bytes(bytes)) => self.out.extend_from_slice(&bytes),
            // One in memory: those of the site are embedded.
            Some(Body::File(range)) => {
                let read = range.read(true, Wait::Block).expect("it may wait");
                self.out.extend(read.expect("it does not change"));
            }
        }
        self.output_max = self.output_max.max(self.out.len() - start);
    }

    fn event(&mut self, event: Event<'_, Work>) {
        if self.end == End::Closed {
            return;
        }
        // The waiting output belongs to the operation; the session gets an empty one.
        let mut tx = Tx::default();
        self.session.handle(&mut self.cx, event, &mut tx, self.now);
        loop {
            let action = self.session.poll(&mut self.cx, &mut tx, self.now);
            if !tx.is_empty() {
                assert!(self.tx.is_empty(), "output while output is pending");
                let is_duplex = matches!(action, Action::Duplex { .. });
                if let Action::Start(ticket, job) = action {
                    self.start(ticket, job, &mut tx);
                    continue;
                }
                self.tx = std::mem::take(&mut tx);
                if self.stalled {
                    if !is_duplex {
                        self.end = End::Blocked;
                    }
                    return;
                }
                self.take();
                assert!(
                    is_duplex || matches!(action, Action::Write | Action::Close),
                    "output needs Write: {action:?}"
                );
                if matches!(action, Action::Close) {
                    self.end = End::Closed;
                    self.hang_up();
                    return;
                }
                self.session.handle(&mut self.cx, Event::Sent, &mut tx, self.now);
                continue;
            }
            match action {
                Action::Wait(job) => {
                    let output = job.run();
                    self.session
                        .handle(&mut self.cx, Event::Done(Ticket::ONLY, output), &mut tx, self.now);
                }
                Action::Read => {
                    self.end = End::Open;
                    return;
                }
                Action::HalfClose => {
                    self.end = End::HalfClosed;
                    return;
                }
                Action::Close => {
                    self.end = End::Closed;
                    self.hang_up();
                    return;
                }
                Action::Stay => return,
                Action::Write => panic!("nothing to write"),
                Action::Start(ticket, job) => self.start(ticket, job, &mut tx),
                Action::Peer => self.asked.extend(tx.asked.take().map(|asked| *asked)),
                Action::End | Action::Abort => panic!("HTTP sessions do not ask for this"),
                Action::Duplex { .. } => {
                    self.end = End::Open;
                    return;
                }
            }
        }
    }

    /// Runs a job of several, or keeps it.
    fn start(&mut self, ticket: Ticket, job: Work, tx: &mut Tx) {
        match self.holds_jobs {
            true => self.jobs.push((ticket, job)),
            false => {
                let done = Event::Done(ticket, job.run());
                self.session.handle(&mut self.cx, done, tx, self.now);
            }
        }
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    /// The log so far.
    pub(super) fn log(&mut self) -> String {
        self.wait(Duration::from_secs(2));
        self.lines.text()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.hang_up();
    }
}

/// Ways to split input: whole, by byte, and at random places.
pub(super) fn cuts(input: &[u8]) -> Vec<Vec<&[u8]>> {
    let mut all = vec![vec![input], input.chunks(1).collect()];
    for seed in 0..6 {
        let mut rng = Seed(seed).rng();
        let mut rest = input;
        let mut pieces = Vec::new();
        while !rest.is_empty() {
            let len = 1 + rng.next_u64() as usize % rest.len().min(40);
            let (piece, behind) = rest.split_at(len);
            pieces.push(piece);
            rest = behind;
        }
        all.push(pieces);
    }
    all
}

/// The peer's input for `input`, and the state of the connection. Checks that they do not depend on how the input is
/// split.
pub(super) fn exchange(configure: impl Fn(&mut Config), input: &[u8]) -> (String, End) {
    let mut first: Option<(String, End)> = None;
    for pieces in cuts(input) {
        let mut rig = Rig::with(&configure);
        for piece in &pieces {
            rig.send(piece);
        }
        let got = (rig.text(), rig.end);
        match &first {
            None => first = Some(got),
            Some(first) => assert_eq!(first, &got, "cut into {} pieces", pieces.len()),
        }
    }
    first.unwrap()
}

/// [`exchange`] with the default configuration.
pub(super) fn ask(input: &str) -> (String, End) {
    exchange(|_| {}, input.as_bytes())
}

/// A parsed response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let mut found = self.head.lines().skip(1).filter_map(|line| {
            let (n, v) = line.split_once(": ")?;
            n.eq_ignore_ascii_case(name).then_some(v)
        });
        let first = found.next();
        assert!(found.next().is_none(), "{name} is repeated in {}", self.head);
        first
    }
}

/// Parses an output; `to_head` tells which final responses are to HEAD.
pub(super) fn answers(out: &[u8], to_head: impl Fn(usize) -> bool) -> Vec<Answer> {
    let mut all = Vec::new();
    let mut finals = 0;
    let mut rest = out;
    while !rest.is_empty() {
        let end = rest
            .windows(4)
            .position(|w| w == b"\r\n\r\n")
            .expect("a whole head")
            + 4;
        let head = String::from_utf8(rest[..end].to_vec()).unwrap();
        let status: u16 = head[9..12].parse().unwrap();
        let mut answer = Answer {
            status,
            head,
            body: Vec::new(),
        };
        rest = &rest[end..];
        let bodiless = status < 200 || status == 204 || status == 304 || to_head(finals);
        let len: usize = answer.field("content-length").map_or(0, |v| v.parse().unwrap());
        if status >= 200 && status != 204 && status != 304 {
            assert!(answer.field("content-length").is_some(), "{}", answer.head);
        }
        if status >= 200 {
            finals += 1;
            assert!(answer.field("date").is_some(), "{}", answer.head);
        }
        if !bodiless {
            answer.body = rest[..len].to_vec();
            rest = &rest[len..];
        }
        all.push(answer);
    }
    all
}

/// The only response to a request.
pub(super) fn one(configure: impl Fn(&mut Config), request: &str) -> Answer {
    let (text, _) = exchange(&configure, request.as_bytes());
    let mut rig = Rig::with(configure);
    rig.send(request.as_bytes());
    assert_eq!(String::from_utf8_lossy(&rig.out), text);
    let mut all = answers(&rig.out, |_| request.starts_with("HEAD"));
    assert_eq!(all.len(), 1, "{text}");
    all.pop().unwrap()
}

/// The response to `GET path` with these extra field lines.
pub(super) fn get(path: &str, lines: &str) -> Answer {
    one(|_| {}, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n"))
}
