//! A host: TCP endpoints, one processor, and an application that receives events and answers with work.
//!
//! Work is done in order of arrival, one item at a time. Reading is work, too.

mod connections;

use connections::Connections;
use core::fmt;
use std::collections::{BTreeSet, VecDeque};
use tcp::{Closed, Endpoint, Segment, Setup, State};
use units::{Draw, Duration, Instant, Rng, Seed};

/// A connection, by the number of its client's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Conn(u16);

impl Conn {
    pub(crate) fn port(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port {}", self.0)
    }
}

/// An event reported to an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happened {
    /// The simulation starts.
    Started,
    /// A connection is open: requested by this host, or made by a client.
    Opened(Conn),
    /// These bytes were read.
    Data(Conn, Vec<u8>),
    /// The peer closed its sending half, and everything is read.
    Finished(Conn),
    /// This many more written bytes entered the send buffer; others still wait.
    Progress(Conn, u64),
    /// Everything written has entered the send buffer.
    Drained(Conn),
    /// The connection is gone.
    Closed(Conn, Closed),
    /// A timer expired; its token.
    Timer(u64),
    /// The work before a mark is done; the mark's token.
    Reached(u64),
}

/// An application on a host.
pub trait Application {
    /// Processes an event and appends the resulting work to `work`, in order.
    fn handle(&mut self, happened: Happened, work: &mut Work, now: Instant);
}

/// The properties of a host.
#[derive(Clone, Debug)]
pub struct HostSetup {
    /// Its TCP; the initial sequence number is drawn per connection.
    pub tcp: Setup,
    /// Processor time per read.
    pub read_time: Duration,
    /// Maximum bytes per read.
    pub read_max: usize,
    /// Factor by which a modem before the line compresses this host's data; 1 without one.
    pub line_gain: f64,
}

/// One thing to do.
#[derive(Debug)]
enum Step {
    Run(Duration),
    Connect(Conn),
    Write(Conn, Vec<u8>),
    Finish(Conn, Vec<u8>),
    Shutdown(Conn),
    Close(Conn),
    Abort(Conn),
    NoDelay(Conn, bool),
    Timer(Duration, u64),
    Mark(u64),
    Read(Conn),
}

/// The work of an application, in order, for its host's one processor.
#[derive(Debug, Default)]
pub struct Work {
    steps: VecDeque<Step>,
    next_port: u16,
}

impl Work {
    /// Occupies the processor for `time`.
    pub fn run(&mut self, time: Duration) {
        self.steps.push_back(Step::Run(time));
    }

    /// Opens a connection to the other host.
    pub fn connect(&mut self) -> Conn {
        let conn = Conn(40_000 + self.next_port % 20_000);
        self.next_port = self.next_port.wrapping_add(1);
        self.steps.push_back(Step::Connect(conn));
        conn
    }

    /// Writes with one call. Data beyond the send buffer follows as it empties; the processor does not wait.
    pub fn write(&mut self, conn: Conn, data: Vec<u8>) {
        self.steps.push_back(Step::Write(conn, data));
    }

    /// Writes and closes the sending half before TCP transmits: the FIN can ride on the last data.
    pub fn finish(&mut self, conn: Conn, data: Vec<u8>) {
        self.steps.push_back(Step::Finish(conn, data));
    }

    /// Closes the sending half.
    pub fn shutdown(&mut self, conn: Conn) {
        self.steps.push_back(Step::Shutdown(conn));
    }

    /// Closes both halves.
    pub fn close(&mut self, conn: Conn) {
        self.steps.push_back(Step::Close(conn));
    }

    /// Resets the connection.
    pub fn abort(&mut self, conn: Conn) {
        self.steps.push_back(Step::Abort(conn));
    }

    /// Disables or enables Nagle's algorithm.
    pub fn no_delay(&mut self, conn: Conn, no_delay: bool) {
        self.steps.push_back(Step::NoDelay(conn, no_delay));
    }

    /// Asks for [`Happened::Timer`] with `token` after `wait`.
    pub fn timer(&mut self, wait: Duration, token: u64) {
        self.steps.push_back(Step::Timer(wait, token));
    }

    /// Asks for [`Happened::Reached`] with `token` when all earlier work is done.
    pub fn mark(&mut self, token: u64) {
        self.steps.push_back(Step::Mark(token));
    }
}

/// One end of a connection, with the events its application has received.
pub(super) struct Open {
    pub(super) endpoint: Endpoint,
    /// Written by the application and not yet in the send buffer; one entry per call.
    pending: VecDeque<Vec<u8>>,
    /// Bytes of the first of them that are in it already.
    taken: usize,
    /// What to do when nothing is pending any more.
    closing: Option<Step>,
    told_open: bool,
    told_finished: bool,
    read_queued: bool,
}

impl Open {
    fn new(endpoint: Endpoint) -> Open {
        Open {
            endpoint,
            pending: VecDeque::new(),
            taken: 0,
            closing: None,
            told_open: false,
            told_finished: false,
            read_queued: false,
        }
    }

    /// Moves pending bytes into the send buffer; returns the resulting event.
    fn pump(&mut self, conn: Conn, now: Instant) -> Option<Happened> {
        let had = !self.pending.is_empty();
        let mut moved = 0;
        while let Some(data) = self.pending.front() {
            let rest = &data[self.taken..];
            let last = self.pending.len() == 1 && matches!(self.closing, Some(Step::Shutdown(_)));
            let taken = if last {
                self.endpoint.write_last(rest, now)
            } else {
                self.endpoint.write(rest, now)
            };
            moved += taken as u64;
            if taken < rest.len() {
                self.taken += taken;
                return (moved > 0).then_some(Happened::Progress(conn, moved));
            }
            self.taken = 0;
            self.pending.pop_front();
        }
        match self.closing.take() {
            Some(Step::Shutdown(_)) => self.endpoint.shutdown(now),
            Some(Step::Close(_)) => self.endpoint.close(now),
            _ => {}
        }
        had.then_some(Happened::Drained(conn))
    }
}

/// A connection's pending output.
enum Out {
    Segment(Segment),
    /// The connection has ended; how, if the application is to be told.
    Gone(Option<Closed>),
    Nothing,
}

pub(crate) struct Host {
    setup: HostSetup,
    application: Box<dyn Application>,
    pub(super) open: Connections,
    work: Work,
    /// Events for the application, in order.
    news: VecDeque<Happened>,
    timers: BTreeSet<(Instant, u64)>,
    busy_until: Instant,
    /// Connections that may have segments to send, in the order they became ready.
    out: VecDeque<Conn>,
    /// Source of initial sequence numbers.
    rng: Rng,
}

impl Host {
    pub(crate) fn new(setup: HostSetup, application: Box<dyn Application>, seed: Seed) -> Host {
        Host {
            setup,
            application,
            open: Connections::default(),
            work: Work::default(),
            news: VecDeque::new(),
            timers: BTreeSet::new(),
            busy_until: Instant::ZERO,
            out: VecDeque::new(),
            rng: seed.rng(),
        }
    }

    fn tcp(&mut self) -> Setup {
        Setup {
            iss: self.rng.next_u32(),
            ..self.setup.tcp.clone()
        }
    }

    pub(crate) fn tell(&mut self, happened: Happened) {
        self.news.push_back(happened);
    }

    pub(crate) fn line_gain(&self) -> f64 {
        self.setup.line_gain
    }

    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn windows(&self) -> Vec<f64> {
        let open = self.open.all().map(|open| &open.endpoint);
        open.filter(|endpoint| endpoint.is_established())
            .map(|endpoint| endpoint.congestion().window() as f64 / endpoint.mss().max(1) as f64)
            .collect()
    }

    pub(crate) fn next_event(&self) -> Option<Instant> {
        let has_work = !self.work.steps.is_empty() || !self.news.is_empty();
        self.open
            .next_deadline()
            .into_iter()
            .chain(self.timers.first().map(|(at, _)| *at))
            .chain(has_work.then_some(self.busy_until))
            .min()
    }

    /// Receives a segment; `accepts` says whether a SYN may open a connection.
    pub(crate) fn receive(&mut self, conn: Conn, segment: Segment, accepts: bool, now: Instant) {
        if !self.open.has(conn) {
            if segment.flags.syn && !accepts {
                return;
            }
            // A listening endpoint answers anything but a SYN with a reset; it is then dropped.
            let endpoint = Endpoint::listen(self.tcp());
            self.open.insert(conn, Open::new(endpoint));
        }
        self.open.change(conn, |open| open.endpoint.receive(segment, now));
        self.notice(conn, now);
    }

    /// Checks a connection for changes and queues the events.
    fn notice(&mut self, conn: Conn, now: Instant) {
        self.out.push_back(conn);
        let Host {
            open,
            news,
            work,
            setup,
            ..
        } = self;
        open.change(conn, |open| {
            if open.endpoint.is_established() && !open.told_open {
                open.told_open = true;
                news.push_back(Happened::Opened(conn));
            }
            if open.endpoint.is_established()
                && let Some(happened) = open.pump(conn, now)
            {
                news.push_back(happened);
            }
            if open.endpoint.readable() > 0 && !open.read_queued {
                open.read_queued = true;
                work.steps.push_back(Step::Run(setup.read_time));
                work.steps.push_back(Step::Read(conn));
            }
            if open.endpoint.is_eof() && !open.told_finished {
                open.told_finished = true;
                news.push_back(Happened::Finished(conn));
            }
        });
    }

    /// Does the work that is due now; returns whether there was any.
    pub(crate) fn turn(&mut self, now: Instant) -> bool {
        let mut moved = false;
        for conn in self.open.due(now) {
            moved = true;
            self.open.change(conn, |open| open.endpoint.expire(now));
            self.notice(conn, now);
        }
        while let Some((at, token)) = self.timers.first().copied()
            && at <= now
        {
            self.timers.pop_first();
            self.news.push_back(Happened::Timer(token));
        }
        while self.busy_until <= now {
            if let Some(step) = self.work.steps.pop_front() {
                self.step(step, now);
            } else if let Some(happened) = self.news.pop_front() {
                self.application.handle(happened, &mut self.work, now);
            } else {
                break;
            }
            moved = true;
        }
        moved
    }

    fn step(&mut self, step: Step, now: Instant) {
        match step {
            Step::Run(time) => self.busy_until = now + time,
            Step::Timer(wait, token) => {
                self.timers.insert((now + wait, token));
            }
            Step::Mark(token) => self.news.push_back(Happened::Reached(token)),
            Step::Connect(conn) => {
                let setup = self.tcp();
                self.open.insert(conn, Open::new(Endpoint::connect(setup, now)));
                self.out.push_back(conn);
            }
            Step::Write(conn, data) => {
                self.open.change(conn, |open| open.pending.push_back(data));
                self.notice(conn, now);
            }
            Step::Finish(conn, data) => {
                self.open.change(conn, |open| {
                    open.pending.push_back(data);
                    open.closing = Some(Step::Shutdown(conn));
                });
                self.notice(conn, now);
            }
            Step::Shutdown(conn) | Step::Close(conn) => {
                self.open.change(conn, |open| open.closing = Some(step));
                self.notice(conn, now);
            }
            Step::Abort(conn) => {
                self.open.change(conn, |open| open.endpoint.abort());
                self.notice(conn, now);
            }
            Step::NoDelay(conn, no_delay) => {
                self.open
                    .change(conn, |open| open.endpoint.set_no_delay(no_delay));
            }
            Step::Read(conn) => {
                let most = self.setup.read_max;
                let data = self.open.change(conn, |open| {
                    open.read_queued = false;
                    open.endpoint.read(most)
                });
                if let Some(data) = data
                    && !data.is_empty()
                {
                    self.news.push_back(Happened::Data(conn, data));
                }
                self.notice(conn, now);
            }
        }
    }

    /// The next segment to send.
    pub(crate) fn transmit(&mut self) -> Option<(Conn, Segment)> {
        while let Some(conn) = self.out.front().copied() {
            let looked_at = self.open.change(conn, |open| match open.endpoint.transmit() {
                Some(segment) => Out::Segment(segment),
                None => match open.endpoint.state() {
                    State::Closed(why) => Out::Gone(open.told_open.then_some(why)),
                    State::Listen => Out::Gone(None),
                    _ => Out::Nothing,
                },
            });
            match looked_at {
                Some(Out::Segment(segment)) => return Some((conn, segment)),
                Some(Out::Gone(told)) => {
                    if let Some(why) = told {
                        self.news.push_back(Happened::Closed(conn, why));
                    }
                    self.open.remove(conn);
                }
                Some(Out::Nothing) | None => {}
            }
            self.out.pop_front();
        }
        None
    }
}
