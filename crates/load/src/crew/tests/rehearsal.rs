//! A simulated server with a crew in virtual time; everything sent is recorded.

use crate::crew::*;
use crate::replies::Accept;
use crate::work::Work;
use client::plan::Mode;
use client::session::{Ending, Version};
use runtime::dial::{Crew as _, Wish};
use std::collections::{BTreeMap, BinaryHeap};

/// Behavior of the server on a connection.
#[derive(Clone, Copy)]
pub(super) struct Server {
    /// Time until each response.
    pub(super) needs: Duration,
    /// Number of responses before it closes; the last one announces the close if `says`.
    pub(super) answers: usize,
    pub(super) says: bool,
    /// Whether it refuses every connection.
    pub(super) refuses: bool,
    /// Whether nothing that is sent to it arrives.
    pub(super) drops: bool,
    /// Number of responses on a connection after which it sends nothing and does not close.
    pub(super) hangs: usize,
    /// Index of the response on a connection that it truncates, closing the connection.
    pub(super) cuts: usize,
    /// Whether it resets the connection then.
    pub(super) resets: bool,
    /// If set, it never responds: it closes the connection, or resets it if `true`.
    pub(super) shuts: Option<bool>,
    /// Bytes it sends unrequested, a millisecond after each response.
    pub(super) babbles: &'static [u8],
}

pub(super) const GOOD: Server = Server {
    needs: Duration::from_millis(2),
    answers: usize::MAX,
    says: false,
    refuses: false,
    drops: false,
    hangs: usize::MAX,
    cuts: usize::MAX,
    resets: false,
    shuts: None,
    babbles: b"",
};

/// A future event, ordered by time, then by cause.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Later {
    Connected(u32, u64),
    Bytes(u32, u64, Vec<u8>),
    Eof(u32, u64),
    Refused(u32, u64),
    Reset(u32, u64),
    Alarm(u32),
}

/// Runs a crew to its end.
pub(super) struct Rehearsal {
    pub(super) crew: Crew,
    pub(super) server: Server,
    pub(super) port: Port,
    pub(super) now: Instant,
    pub(super) later: BinaryHeap<core::cmp::Reverse<(Instant, u64, Later)>>,
    pub(super) order: u64,
    pub(super) alarms: BTreeMap<u32, Instant>,
    /// Number of timers set for users.
    pub(super) set: usize,
    /// Current connection of each line: its number, and the number of its requests.
    pub(super) open: BTreeMap<u32, (u64, usize)>,
    pub(super) connections: u64,
    /// Time in milliseconds, line, number of the connection, and targets sent in one piece.
    pub(super) sent: Vec<(u64, u32, u64, Vec<String>)>,
    /// Time of each close by the crew.
    pub(super) closed: Vec<(u64, u64)>,
    /// Number of coming bytes per line that the crew asked to skip.
    pub(super) skips: BTreeMap<u32, u64>,
    /// Number of bytes skipped.
    pub(super) skipped: u64,
    /// Events from the first time on are reported at the second: the thread is stopped meanwhile.
    pub(super) still: Option<(Instant, Instant)>,
    /// Time at which the run is stopped from outside.
    pub(super) stopped: Option<Instant>,
}

impl Rehearsal {
    pub(super) fn at(&mut self, at: Instant, later: Later) {
        self.order += 1;
        self.later.push(core::cmp::Reverse((at, self.order, later)));
    }

    /// The record at the end.
    pub(super) fn recorded(self) -> Record {
        self.crew.into_record(self.now)
    }

    pub(super) fn obey(&mut self) {
        loop {
            let (wishes, bytes) = self.port.take();
            if wishes.is_empty() {
                return;
            }
            let mut bytes = bytes.as_slice();
            for wish in wishes {
                match wish {
                    Wish::Connect(line) => {
                        self.connections += 1;
                        let number = self.connections;
                        self.open.insert(line, (number, 0));
                        let news = if self.server.refuses {
                            Later::Refused(line, number)
                        } else {
                            Later::Connected(line, number)
                        };
                        if !self.server.drops {
                            self.at(self.now + Duration::from_millis(1), news);
                        }
                    }
                    Wish::Send(line, len) => {
                        let (piece, rest) = bytes.split_at(len);
                        bytes = rest;
                        self.send(line, piece);
                    }
                    Wish::Close(line) | Wish::Leave(line) => {
                        if let Some((number, _)) = self.open.remove(&line) {
                            self.closed.push((self.now.as_nanos() / 1_000_000, number));
                        }
                    }
                    Wish::Inspect(_) => {}
                    Wish::Write(..) | Wish::Abandon(..) | Wish::Blame(..) => panic!("not over HTTP/1"),
                    Wish::Skip(line, bytes) => {
                        self.skips.insert(line, bytes);
                    }
                    Wish::Wake(line, at) => {
                        self.set += usize::from(line >= FIRST);
                        self.alarms.insert(line, at);
                        self.at(at.max(self.now), Later::Alarm(line));
                    }
                }
            }
        }
    }

    pub(super) fn send(&mut self, line: u32, piece: &[u8]) {
        let text = core::str::from_utf8(piece).expect("text");
        let targets: Vec<String> = text
            .lines()
            .filter_map(|line| line.strip_prefix("GET "))
            .map(|rest| rest.split(' ').next().expect("a target").to_owned())
            .collect();
        let Some(&(number, before)) = self.open.get(&line) else {
            panic!("sent without a connection")
        };
        if self.server.drops {
            return;
        }
        let mut at = self.now + self.server.needs;
        if let Some(resets) = self.server.shuts {
            let news = match resets {
                true => Later::Reset(line, number),
                false => Later::Eof(line, number),
            };
            self.at(at, news);
        }
        for (position, target) in targets.iter().enumerate() {
            if self.server.shuts.is_some() {
                break;
            }
            let given = before + position + 1;
            if given > self.server.answers.min(self.server.hangs) {
                break;
            }
            let last = given == self.server.answers;
            let close = if last && self.server.says {
                "Connection: close\r\n"
            } else {
                ""
            };
            let reply = format!(
                "HTTP/1.1 200 OK\r\n{close}Content-Length: {}\r\n\r\n{target}",
                target.len()
            );
            if given == self.server.cuts {
                let half = reply.as_bytes()[..reply.len() / 2].to_vec();
                self.at(at, Later::Bytes(line, number, half));
                let end = match self.server.resets {
                    true => Later::Reset(line, number),
                    false => Later::Eof(line, number),
                };
                self.at(at + Duration::from_millis(1), end);
                break;
            }
            self.at(at, Later::Bytes(line, number, reply.into_bytes()));
            if !self.server.babbles.is_empty() {
                let babble = self.server.babbles.to_vec();
                self.at(at + Duration::from_millis(1), Later::Bytes(line, number, babble));
            }
            if last {
                self.at(at + Duration::from_millis(1), Later::Eof(line, number));
            }
            at = at + self.server.needs;
        }
        self.open.insert(line, (number, before + targets.len()));
        let ms = self.now.as_nanos() / 1_000_000;
        self.sent.push((ms, line, number, targets));
    }

    /// Delivers bytes; the last ones of each response come one by one.
    pub(super) fn tell(&mut self, line: u32, bytes: &[u8], at: Instant) {
        let (first, rest) = bytes.split_at(bytes.len() - 2);
        for piece in [first, &rest[..1], &rest[1..]] {
            let skip = self.skips.remove(&line).unwrap_or(0);
            let happened = if skip > 0 {
                assert!(skip >= piece.len() as u64, "the skipped bytes were content");
                self.skips.insert(line, skip - piece.len() as u64);
                self.skipped += piece.len() as u64;
                Happened::Skipped(piece.len() as u64)
            } else {
                Happened::Bytes(piece)
            };
            self.crew.handle(line, happened, &mut self.port, at);
            self.obey();
        }
    }

    pub(super) fn play(mut self) -> Rehearsal {
        self.crew.start(&mut self.port, self.now);
        self.obey();
        let mut turns = 0;
        while let (Some(core::cmp::Reverse((at, _, later))), false) = (self.later.pop(), self.port.is_ended())
        {
            turns += 1;
            assert!(turns < 1_000_000, "it ends");
            let told = self.still.filter(|still| (still.0..still.1).contains(&at));
            self.now = told.map_or(at, |still| still.1);
            let now = self.now;
            if self.stopped.is_some_and(|stopped| stopped <= now) {
                self.stopped = None;
                self.crew.stop(&mut self.port, now);
                self.obey();
            }
            let has = |rehearsal: &Rehearsal, line, number| {
                rehearsal.open.get(&line).is_some_and(|open| open.0 == number)
            };
            match later {
                Later::Alarm(line) if self.alarms.get(&line) == Some(&at) => {
                    self.alarms.remove(&line);
                    self.crew.handle(line, Happened::Woken(at), &mut self.port, now);
                }
                Later::Connected(line, number) if has(&self, line, number) => {
                    self.crew.handle(line, Happened::Connected, &mut self.port, now);
                }
                Later::Bytes(line, number, bytes) if has(&self, line, number) => {
                    self.tell(line, &bytes, now);
                }
                Later::Eof(line, number) if has(&self, line, number) => {
                    self.crew.handle(line, Happened::Eof, &mut self.port, now);
                }
                Later::Reset(line, number) if has(&self, line, number) => {
                    self.open.remove(&line);
                    let lost = Happened::Lost(Failing::Open(104));
                    self.crew.handle(line, lost, &mut self.port, now);
                }
                Later::Refused(line, number) if has(&self, line, number) => {
                    self.open.remove(&line);
                    let lost = Happened::Lost(Failing::Opening(111));
                    self.crew.handle(line, lost, &mut self.port, now);
                }
                _ => {}
            }
            self.obey();
        }
        assert!(self.port.is_ended(), "the bell ends it");
        self
    }
}

pub(super) fn rehearse(mode: Mode, model: Model, server: Server) -> Rehearsal {
    rehearse_with(1, mode, model, server)
}

/// Runs with several connections per user.
pub(super) fn rehearse_with(lanes: u32, mode: Mode, model: Model, server: Server) -> Rehearsal {
    rehearse_unseen(u64::MAX, lanes, mode, model, server)
}

/// Runs with skipped content from a number of bytes on.
pub(super) fn rehearse_unseen(
    unseen_from: u64,
    lanes: u32,
    mode: Mode,
    model: Model,
    server: Server,
) -> Rehearsal {
    let setup = Setup {
        unseen_from,
        lanes,
        ..setup(mode)
    };
    rehearse_as(setup, model, server)
}

/// Two seconds, one connection per user.
pub(super) fn setup(mode: Mode) -> Setup {
    let version = if mode == Mode::Http10 {
        Version::Http10
    } else {
        Version::Http11
    };
    Setup {
        work: Arc::new(Work::of_paths((0..100).map(|n| format!("/{n}")))),
        mode,
        ending: Arc::new(Ending::new(version, "h", "weir")),
        accept: Accept::default(),
        lengths: true,
        warmup: Duration::ZERO,
        duration: Duration::from_secs(2),
        counted: Duration::from_secs(2),
        grace: Duration::from_secs(1),
        timeout: Duration::from_millis(500),
        verify: false,
        unseen_from: u64::MAX,
        lanes: 1,
        sharing: None,
        secured: false,
        script: None,
        started: 0,
    }
}

pub(super) fn rehearse_as(setup: Setup, model: Model, server: Server) -> Rehearsal {
    rehearse_still(None, setup, model, server)
}

/// Runs until a stop at this many milliseconds after the start.
pub(super) fn rehearse_stopped(
    stopped: Option<u64>,
    setup: Setup,
    model: Model,
    server: Server,
) -> Rehearsal {
    let mut rehearsal = rehearsal(setup, model, server);
    rehearsal.stopped = stopped.map(|ms| rehearsal.now + Duration::from_millis(ms));
    rehearsal.play()
}

/// Runs with the thread stopped between these milliseconds after the start.
pub(super) fn rehearse_still(
    still: Option<(u64, u64)>,
    setup: Setup,
    model: Model,
    server: Server,
) -> Rehearsal {
    let mut rehearsal = rehearsal(setup, model, server);
    let after = |ms| rehearsal.now + Duration::from_millis(ms);
    rehearsal.still = still.map(|(from, to)| (after(from), after(to)));
    rehearsal.play()
}

/// A rehearsal that has not begun.
pub(super) fn rehearsal(setup: Setup, model: Model, server: Server) -> Rehearsal {
    Rehearsal {
        crew: Crew::new(setup, model, Arc::default()),
        server,
        port: Port::default(),
        now: Instant::from_nanos(5_000_000_000),
        later: BinaryHeap::new(),
        order: 0,
        alarms: BTreeMap::new(),
        set: 0,
        open: BTreeMap::new(),
        connections: 0,
        sent: Vec::new(),
        closed: Vec::new(),
        skips: BTreeMap::new(),
        skipped: 0,
        still: None,
        stopped: None,
    }
}
