//! What a driver sees of any connection, and what a connection sees of its driver.
//!
//! ```text
//!            accepted                    bytes, sent, eof, deadline, done
//!   driver ───────────▶ Service::accept ─────────────▶ Session::handle
//!     ▲                                                      │ fills Tx
//!     │          Read | Write | Wait | HalfClose | Close     ▼
//!     └───────────────────────────────────────────── Session::poll
//! ```
//!
//! Calling order: after `Service::accept` and after every `handle` but `Progress`, `Path` and `Lost`,
//! driver calls `poll` once. If `tx` then holds output it is sent first, whatever the action, and
//! `Event::Sent` and another `poll` follow; a job given meanwhile is started after the output is
//! sent. With nothing to send the driver does what the action says. It calls `handle(Bytes)` only
//! when the last action was `Read` or `HalfClose`. Every method returns at once; time is an
//! argument; nothing here blocks.
//!
//! A job may outlive the patience of its session: if `handle(Deadline)` writes to `tx` while a job is under way, the
//! session has given the job up. The driver sends that output and drops whatever the job brings; a job that no
//! thread has begun by then is dropped unrun.

use crate::complaints;
use crate::fs;
use crate::memory::Budget;
use crate::shaping::Withheld;
use bytes::Bytes;
use measure::{Duration, Instant, UnixTime};
use std::net::SocketAddr;
use std::sync::Arc;

/// One connection, as a pure state machine. It may move from one thread to another, never to another context;
/// `closed` is called even after another of its methods has panicked.
pub trait Session: Sized + Send {
    /// What all sessions of one worker share.
    type Cx: Context;

    /// Takes in what happened. Answers may be appended to `tx`, which is empty or holds earlier
    /// output of this same turn.
    fn handle(&mut self, cx: &mut Self::Cx, event: Event<'_, JobOf<Self>>, tx: &mut Tx, now: Instant);

    /// Says what the driver should do next. May append to `tx` (a reply with a part left).
    fn poll(&mut self, cx: &mut Self::Cx, tx: &mut Tx, now: Instant) -> Action<JobOf<Self>>;

    /// When this connection wants `Event::Deadline`, if nothing happens before. Consulted lazily: the
    /// driver asks when an earlier answer falls due, never per request, so a deadline may move later
    /// freely; one that moves *earlier* than the last answer is noticed within a second.
    fn deadline(&self) -> Option<Instant>;

    /// Since when the connection may be closed if another needs its place, which may be in the future; none while something is
    /// owed to the peer. Connections are closed in the order of these instants. Asked only where connections are short.
    fn idle_since(&self, _cx: &Self::Cx) -> Option<Instant> {
        None
    }

    /// The connection is gone; called exactly once, last.
    fn closed(&mut self, cx: &mut Self::Cx, now: Instant);
}

/// The job type of a session's context.
pub type JobOf<S> = <<S as Session>::Cx as Context>::Job;

/// What happened to a connection.
#[derive(Debug)]
pub enum Event<'a, J: Job> {
    /// Bytes arrived. All of them must be consumed or kept by the session.
    Bytes(&'a [u8]),
    /// How the path to the peer is, right before `Sent`; where [`Context::wants_path`] and the driver can tell.
    Path(Path),
    /// Everything in the last `Tx` has been handed to the kernel.
    Sent,
    /// Part of the last `Tx` was handed to the kernel while the rest had to wait: this many bytes
    /// since the last report. Lets a session tell a slow reader from a dead one.
    Progress(u64),
    /// Output waits, and the driver asked the kernel what the peer has acknowledged. Told about once a second while
    /// output waits, and right before `Deadline`; not where the driver cannot tell.
    Taken(Taken),
    /// The job given with `Action::Wait` finished.
    Done(J::Output),
    /// The peer closed its sending half. It may still be reading.
    Eof,
    /// The instant `deadline` named has come; where output waited for the line (see [`Context::line_patience`]) so much
    /// later.
    Deadline,
    /// The server is shutting down: finish what is owed, then close. An idle session answers with `Close` at the
    /// next poll.
    Drain,
    /// This listener's strategy is being replaced, and nothing is urgent: the next answer says that it is the
    /// last. An idle session waits for its next request, as one may be on its way.
    Retire,
    /// Its place or its memory is needed for others: an idle session answers with `Close` at the next poll. Told only to
    /// sessions that say since when they are idle ([`Session::idle_since`]).
    GiveWay(Need),
    /// Its bounds may have changed: one that waits may have to wait for less long.
    Reconsider,
    /// The connection failed (reset, broken pipe, a file that could not be read). Only `Close` is sensible.
    Lost(Loss),
}

/// Why an idle connection has to give way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The connection limit is reached, and a new connection waits.
    Place,
    /// The memory budget is nearly used up.
    Memory,
}

/// How the path to a peer is, as far as the kernel knows (`struct tcp_info`, tcp(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Smoothed round-trip time (RFC 6298).
    pub rtt: Duration,
    /// Congestion window in segments (RFC 5681).
    pub cwnd: u32,
    /// Segments sent again since the connection began.
    pub retransmitted: u32,
}

/// What a peer has acknowledged of output that waits: a kernel with a large send buffer asks for more only when a third of
/// it is free, which at a slow reader's rate can take minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// When counting began: within a second after output first had to wait.
    pub since: Instant,
    /// Bytes acknowledged since then.
    pub bytes: u64,
    /// Whether any of them were acknowledged since the session was last told. The first time it is assumed.
    pub moves: bool,
}

/// Why a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The socket failed with this errno (ECONNRESET, EPIPE, ETIMEDOUT ...).
    Socket(i32),
    /// The body's file failed with this errno while being sent, or ended early (0: truncated), or was written to
    /// meanwhile ([`Loss::CHANGED`]).
    File(i32),
}

impl Loss {
    /// The body's file was written to while it was being sent: what the peer got is a mixture.
    pub const CHANGED: Loss = Loss::File(libc::ESTALE);
}

/// What the driver should do next with a connection.
#[derive(Debug)]
pub enum Action<J> {
    /// Wait for bytes. (Any output in `tx` is sent first.)
    Read,
    /// Send `tx`, then `Event::Sent`; do not read meanwhile.
    Write,
    /// Nothing to do: output is on its way or a job is under way, and this `poll` was caused by
    /// `Deadline` or `Drain`.
    Stay,
    /// Send what is in `tx`, run the job where it may block, then `Event::Done`; do not read meanwhile.
    Wait(J),
    /// Send `tx`, shut down the sending half, then go on reading (the session discards) until
    /// `Eof` or `Deadline`, so that no reset eats the last answer.
    HalfClose,
    /// Send `tx`, then close.
    Close,
}

/// Output of one turn: a head that was copied together, then at most one referenced body.
///
/// Small bodies are copied into `head` (up to 8 KiB wins over gathering: 114 ns for a second piece);
/// several pipelined answers may stand in `head` one after another. A `body` ends the turn: nothing
/// can follow it before `Event::Sent`.
#[derive(Debug, Default)]
pub struct Tx {
    /// Bytes to send first. Pooled by the driver: cleared, never shrunk below its normal capacity.
    pub head: Vec<u8>,
    /// Bytes to send after `head`.
    pub body: Option<Body>,
}

impl Tx {
    /// Whether there is nothing to send.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.body.is_none()
    }

    /// Forgets the content, keeps the capacity.
    #[inline]
    pub fn clear(&mut self) {
        self.head.clear();
        self.body = None;
    }
}

/// A body that is referenced rather than copied.
#[derive(Clone, Debug)]
pub enum Body {
    /// Shared bytes in memory.
    Bytes(Bytes),
    /// A range of an open file, sent by whatever the I/O strategy likes best.
    File(FileRange),
}

/// `len` bytes of `file` from `offset`.
#[derive(Clone, Debug)]
pub struct FileRange {
    /// The open file; shared by every response that sends it.
    pub file: Arc<fs::File>,
    /// First byte.
    pub offset: u64,
    /// How many bytes; the file ending earlier is `Loss::File(0)`, its content changing meanwhile `Loss::CHANGED`.
    pub len: u64,
}

impl FileRange {
    /// The loss of a connection for the sake of this file; warns of it.
    pub fn lost(&self, loss: Loss) -> Loss {
        if let Loss::File(errno) = loss {
            let path = [b"/", self.file.name()].concat();
            complaints::warn(&path, || {
                match loss {
                Loss::CHANGED => "cut off while it was being sent: the file was written to meanwhile; replace files by renaming"
                    .to_owned(),
                Loss::File(0) => "cut off while it was being sent: the file became shorter; replace files by renaming".to_owned(),
                _ => format!("cut off while it was being sent: {}", std::io::Error::from_raw_os_error(errno)),
            }
            });
        }
        loss
    }
}

/// What all sessions of one worker share: caches, clock strings, counters, the log buffer.
///
/// No method has a default: a context that wraps another would silently drop the calls it forgot to pass on.
pub trait Context: Send + 'static {
    /// Work that may block.
    type Job: Job;

    /// Called at the start of each turn of the driver, and at least once a second while any
    /// connection is open. `wall` is civil time, read once per turn.
    fn turn(&mut self, now: Instant, wall: UnixTime);

    /// When `turn` must be called even if nothing happens (to flush a log buffer, say).
    fn wake(&self) -> Option<Instant>;

    /// Whether the bounds of sessions have changed since this was last asked: each is told to reconsider.
    fn has_new_bounds(&mut self) -> bool;

    /// Whether it wants to be told when a turn has ended, which costs a reading of the clock.
    fn is_timed(&self) -> bool;

    /// Whether sessions are told of the path with everything that is sent, which costs a system call.
    fn wants_path(&self) -> bool;

    /// What the driver holds back because the line is taken; told at the end of each turn where it looks after one.
    fn withheld(&mut self, what: Withheld);

    /// How long output may wait for the line at a stretch, nothing of it being offered to the peer, before that counts
    /// against the session's deadline as anything else does.
    fn line_patience(&self) -> Duration;

    /// The turn that began last, with this line, has ended; the driver rests or begins another. Called only where
    /// [`Context::is_timed`].
    fn rest(&mut self, now: Instant, line: Line);
}

/// What a driver found in line at the beginning of a turn: of what was ready, what is still to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// It took all there was.
    Taken,
    /// There is more than it takes in a turn; how long that will wait is not known yet.
    Longer,
    /// What was last in line some turns ago has waited so long for this one.
    Waited(Duration),
}

/// Work that may block: opening a cold file, compressing a body.
pub trait Job: Send + 'static {
    /// What comes back to the session.
    type Output: Send + 'static;

    /// Does the work now if that takes no waiting (cached directory entries, pages in memory);
    /// otherwise gives the job back, to be `run` on a helper thread. Event loops call this first.
    ///
    /// # Errors
    /// The job itself, unfinished.
    fn try_now(self) -> Result<Self::Output, Self>
    where
        Self: Sized;

    /// Does the work, blocking as needed.
    fn run(self) -> Self::Output;
}

/// A connection that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The client's end.
    pub peer: SocketAddr,
    /// The listener it came from: its place (0-based) among those the strategy was started with. 255 stands for that one and all
    /// after it.
    pub listener: u8,
}

impl Accepted {
    /// One at the first listener.
    pub const fn at_first(peer: SocketAddr) -> Accepted {
        Accepted { peer, listener: 0 }
    }
}

/// Makes contexts for workers and sessions for connections.
pub trait Service: Send + Sync + 'static {
    /// The connections this service speaks.
    type Session: Session;

    /// The context of worker number `worker` (0-based), made on the worker's own thread.
    fn context(&self, worker: usize) -> <Self::Session as Session>::Cx;

    /// A connection was accepted. `None` refuses it: the driver closes it at once.
    fn accept(
        &self,
        cx: &mut <Self::Session as Session>::Cx,
        accepted: &Accepted,
        now: Instant,
    ) -> Option<Self::Session>;

    /// Whether its own bound on all connections is reached, so that it would refuse the next one. The driver then closes the
    /// connection that has been idle longest and asks again; where none is idle, it offers the connection after a while all
    /// the same.
    fn is_full(&self) -> bool {
        false
    }

    /// The memory budget its connections share.
    fn budget(&self) -> Arc<Budget> {
        Arc::default()
    }

    /// How long a drained connection may take to finish what it owes.
    fn grace(&self) -> Duration;
}
