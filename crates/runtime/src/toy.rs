//! A line protocol for the tests of every driver: each line asks for one kind of trouble.
//!
//! `echo X`, `now X` (a job that need not block), `later X` (one that must), `big N` (N bytes from memory), `file N` (N
//! bytes of the toy's file), `bye` (response, half-close), `close`, `panic`, `jobpanic`, `stuck X` (a job that ends
//! when the test allows it, or when it is given up), `burn N` (N lines of response, one turn each), `poison` (its
//! worker panics in its next turn).

use crate::fs;
use crate::session::{
    self, Accepted, Action, Body, Context, Event, FileRange, Job, Loss, Service, Session, Tx,
};
use crate::shaping::Withheld;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use units::{Duration, Instant, UnixTime};

pub(crate) const IDLE: Duration = Duration::from_secs(20);

/// Recorded events, for tests to inspect.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) losses: Vec<Loss>,
    pub(crate) closed: usize,
    pub(crate) progress: u64,
    pub(crate) eofs: usize,
    pub(crate) job_threads: Vec<Option<String>>,
    pub(crate) panics: u32,
    pub(crate) rests: u64,
    /// Sessions that were told to reconsider.
    pub(crate) reconsidered: usize,
    /// Completed jobs, whether or not a session still waited for them.
    pub(crate) jobs_done: usize,
    /// Reports about waiting output.
    pub(crate) taken: Vec<session::Taken>,
}

/// What stuck jobs wait for.
#[derive(Debug, Default)]
pub(crate) struct Latch {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Latch {
    pub(crate) fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn wait(&self) {
        let open = self.open.lock().unwrap();
        let waited = self
            .opened
            .wait_timeout_while(open, std::time::Duration::from_secs(60), |open| !*open);
        assert!(*waited.unwrap().0, "nobody let the job end");
    }
}

#[derive(Clone, Default)]
pub(crate) struct Toy {
    pub(crate) seen: Arc<Mutex<Seen>>,
    pub(crate) file: Option<Arc<fs::File>>,
    pub(crate) idle: Option<Duration>,
    pub(crate) refuse: bool,
    /// What `stuck` waits for.
    pub(crate) latch: Arc<Latch>,
    /// Incremented to make sessions reconsider.
    pub(crate) bounds: Arc<AtomicU64>,
    /// Time limit of jobs; if `None`, a connection's idle timeout.
    pub(crate) patience: Option<Duration>,
    pub(crate) timed: bool,
    pub(crate) gives_way: bool,
}

pub(crate) struct Cx {
    seen: Arc<Mutex<Seen>>,
    file: Option<Arc<fs::File>>,
    pub(crate) turns: u64,
    pub(crate) wall: UnixTime,
    poisoned: bool,
    latch: Arc<Latch>,
    bounds: Arc<AtomicU64>,
    seen_bounds: u64,
    timed: bool,
}

#[derive(Debug)]
pub(crate) enum Work {
    Now(Vec<u8>),
    Later(Vec<u8>),
    Stuck(Vec<u8>, Arc<Latch>, Arc<Mutex<Seen>>),
    Panic,
}

impl Job for Work {
    type Output = (Vec<u8>, Option<String>);
    fn try_now(self) -> Result<Self::Output, Work> {
        match self {
            Work::Now(text) => Ok((text, None)),
            other => Err(other),
        }
    }
    fn run(self) -> Self::Output {
        let name = std::thread::current().name().map(str::to_owned);
        match self {
            Work::Now(text) | Work::Later(text) => (text, name),
            Work::Stuck(text, latch, seen) => {
                latch.wait();
                seen.lock().unwrap().jobs_done += 1;
                (text, name)
            }
            Work::Panic => panic!("a job that panics, on purpose"),
        }
    }
}

impl Context for Cx {
    type Job = Work;
    fn turn(&mut self, _: Instant, wall: UnixTime) {
        self.turns += 1;
        self.wall = wall;
        if std::mem::take(&mut self.poisoned) {
            self.seen.lock().unwrap().panics += 1;
            panic!("a worker that panics, on purpose");
        }
    }
    fn wake(&self) -> Option<Instant> {
        None
    }
    fn has_new_bounds(&mut self) -> bool {
        let bounds = self.bounds.load(Ordering::Relaxed);
        std::mem::replace(&mut self.seen_bounds, bounds) != bounds
    }
    fn is_timed(&self) -> bool {
        self.timed
    }
    fn wants_path(&self) -> bool {
        false
    }
    fn withheld(&mut self, _: Withheld) {}
    fn line_patience(&self) -> Duration {
        Duration::MAX
    }
    fn rest(&mut self, _: Instant, _: session::Line) {
        self.seen.lock().unwrap().rests += 1;
    }
}

#[derive(Debug, PartialEq)]
enum Phase {
    Lines,
    Sending,
    Working,
    Lingering,
    Gone,
}

pub(crate) struct Line {
    input: VecDeque<u8>,
    job: Option<Work>,
    phase: Phase,
    /// The phase after the output is sent.
    then: Phase,
    burn: u32,
    deadline: Instant,
    idle: Duration,
    patience: Option<Duration>,
    draining: bool,
    eof: bool,
    /// Whether it reports since when it is idle.
    gives_way: bool,
}

impl Line {
    fn lines(&mut self, cx: &mut Cx, tx: &mut Tx) {
        while self.phase == Phase::Lines && tx.body.is_none() && tx.head.len() < 32 << 10 {
            let Some(end) = self.input.iter().position(|&b| b == b'\n') else {
                break;
            };
            let line: Vec<u8> = self.input.drain(..=end).take(end).collect();
            let text = String::from_utf8(line).expect("tests send text");
            let (verb, rest) = text.split_once(' ').unwrap_or((&text, ""));
            let number = || rest.parse::<u64>().expect("a number");
            match verb {
                "echo" => tx.head.extend_from_slice(format!("{rest}\n").as_bytes()),
                "now" => self.work(Work::Now(rest.into())),
                "later" => self.work(Work::Later(rest.into())),
                "jobpanic" => self.work(Work::Panic),
                "stuck" => {
                    let (latch, seen) = (Arc::clone(&cx.latch), Arc::clone(&cx.seen));
                    self.work(Work::Stuck(rest.into(), latch, seen));
                }
                "big" => tx.body = Some(Body::Bytes(vec![b'x'; number() as usize].into())),
                "file" => {
                    let file = Arc::clone(cx.file.as_ref().expect("the test gave a file"));
                    tx.head.extend_from_slice(b"file:");
                    tx.body = Some(Body::File(FileRange {
                        file,
                        offset: 0,
                        len: number(),
                    }));
                }
                "bye" => {
                    tx.head.extend_from_slice(b"bye\n");
                    self.then = Phase::Lingering;
                    break;
                }
                "close" => {
                    tx.head.extend_from_slice(b"closing\n");
                    self.then = Phase::Gone;
                    break;
                }
                "burn" => {
                    self.burn = number() as u32;
                    tx.head.extend_from_slice(b"burn\n");
                    break;
                }
                "poison" => cx.poisoned = true,
                "panic" => panic!("a session that panics, on purpose"),
                other => panic!("no such verb: {other}"),
            }
        }
        if !tx.is_empty() && self.phase == Phase::Lines {
            self.phase = Phase::Sending;
        }
        if self.eof && tx.is_empty() && self.phase == Phase::Lines {
            self.phase = Phase::Gone;
        }
    }

    fn work(&mut self, work: Work) {
        self.job = Some(work);
        self.phase = Phase::Working;
    }
}

impl Session for Line {
    type Cx = Cx;

    fn handle(&mut self, cx: &mut Cx, event: Event<'_, Work>, tx: &mut Tx, now: Instant) {
        match event {
            Event::Bytes(bytes) => {
                self.deadline = now + self.idle;
                if self.phase == Phase::Lines {
                    self.input.extend(bytes);
                    self.lines(cx, tx);
                }
                if let (Phase::Working, Some(patience)) = (&self.phase, self.patience) {
                    self.deadline = now + patience;
                }
            }
            Event::Sent => {
                self.deadline = now + self.idle;
                if self.burn > 0 {
                    self.burn -= 1;
                    tx.head.extend_from_slice(b"burn\n");
                } else if self.phase == Phase::Sending {
                    self.phase = std::mem::replace(&mut self.then, Phase::Lines);
                    if self.phase == Phase::Lines {
                        self.lines(cx, tx);
                    }
                    if self.draining && self.phase == Phase::Lines {
                        self.phase = Phase::Gone;
                    }
                }
            }
            Event::Path(_) | Event::Secured(_) | Event::Unsecured(_) => {}
            Event::Reconsider => cx.seen.lock().unwrap().reconsidered += 1,
            Event::Taken(taken) => {
                cx.seen.lock().unwrap().taken.push(taken);
                if taken.moves {
                    self.deadline = now + self.idle;
                }
            }
            Event::GiveWay(_) => self.phase = Phase::Gone,
            Event::Retire => self.draining = true,
            Event::Progress(bytes) => {
                cx.seen.lock().unwrap().progress += bytes;
                self.deadline = now + self.idle;
            }
            Event::Done(_, (text, thread)) => {
                assert_eq!(self.phase, Phase::Working);
                self.deadline = now + self.idle;
                cx.seen.lock().unwrap().job_threads.push(thread);
                tx.head.extend_from_slice(&text);
                tx.head.push(b'\n');
                self.phase = Phase::Lines;
                self.lines(cx, tx);
            }
            Event::Peer(..) => panic!("nothing was dialed"),
            Event::Eof => {
                cx.seen.lock().unwrap().eofs += 1;
                self.eof = true;
                self.phase = match self.phase {
                    Phase::Lines | Phase::Lingering => Phase::Gone,
                    _ => panic!("end of input while not reading"),
                };
            }
            Event::Deadline => {
                if self.phase == Phase::Working && self.patience.is_some() {
                    tx.head.extend_from_slice(b"late\n");
                    self.phase = Phase::Sending;
                    self.deadline = now + self.idle;
                } else if self.phase == Phase::Lines {
                    tx.head.extend_from_slice(b"timeout\n");
                    self.phase = Phase::Sending;
                    self.then = Phase::Gone;
                    self.deadline = now + self.idle;
                } else {
                    self.phase = Phase::Gone;
                }
            }
            Event::Drain => {
                self.draining = true;
                if self.phase == Phase::Lines && self.input.is_empty() {
                    self.phase = Phase::Gone;
                }
            }
            Event::Lost(loss) => {
                cx.seen.lock().unwrap().losses.push(loss);
                self.phase = Phase::Gone;
            }
        }
    }

    fn poll(&mut self, _: &mut Cx, tx: &mut Tx, _: Instant) -> Action<Work> {
        match self.phase {
            Phase::Lines => Action::Read,
            Phase::Sending if tx.is_empty() => Action::Stay,
            Phase::Sending => Action::Write,
            Phase::Working => self.job.take().map_or(Action::Stay, Action::Wait),
            Phase::Lingering => Action::HalfClose,
            Phase::Gone => Action::Close,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.deadline)
    }

    fn idle_since(&self, _: &Cx) -> Option<Instant> {
        let idle = self.gives_way && self.phase == Phase::Lines && self.input.is_empty();
        let nanos = u64::try_from(self.idle.as_nanos()).expect("years");
        idle.then(|| Instant::from_nanos(self.deadline.as_nanos().saturating_sub(nanos)))
    }

    fn closed(&mut self, cx: &mut Cx, _: Instant) {
        cx.seen.lock().unwrap().closed += 1;
    }
}

impl Service for Toy {
    type Session = Line;

    fn context(&self, _: usize) -> Cx {
        Cx {
            seen: Arc::clone(&self.seen),
            file: self.file.clone(),
            turns: 0,
            wall: UnixTime::default(),
            poisoned: false,
            latch: Arc::clone(&self.latch),
            bounds: Arc::clone(&self.bounds),
            seen_bounds: self.bounds.load(Ordering::Relaxed),
            timed: self.timed,
        }
    }

    fn accept(&self, _: &mut Cx, _: &Accepted, now: Instant) -> Option<Line> {
        let idle = self.idle.unwrap_or(IDLE);
        (!self.refuse).then(|| Line {
            input: VecDeque::new(),
            job: None,
            phase: Phase::Lines,
            then: Phase::Lines,
            burn: 0,
            deadline: now + idle,
            idle,
            patience: self.patience,
            draining: false,
            eof: false,
            gives_way: self.gives_way,
        })
    }

    fn grace(&self) -> Duration {
        Duration::from_secs(1)
    }
}
