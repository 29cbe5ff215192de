//! The interface between a driver (the strategy) and a connection (the session).
//!
//! ```text
//!            accepted                    bytes, sent, eof, deadline, done
//!   driver ───────────▶ Service::accept ─────────────▶ Session::handle
//!     ▲                                                      │ fills Tx
//!     │          Read | Write | Wait | HalfClose | Close     ▼
//!     └───────────────────────────────────────────── Session::poll
//!           Start | Duplex | Peer | End | Abort
//! ```
//!
//! Calling order: the driver calls `poll` once after `Service::accept` and after every `handle`, except for `Progress`,
//! `Path` and `Lost`. If `tx` then holds output, the driver sends it first, whatever the action; `Event::Sent` and
//! another `poll` follow. A job returned together with output starts after the output is sent. Without output, the
//! driver carries out the action. It calls `handle(Bytes)` only if the last action was `Read` or `HalfClose`. Every
//! method returns at once: time is an argument, and nothing here blocks.
//!
//! A session may take both ways at once and have several jobs. [`Action::Start`] starts a job under a ticket that the
//! session chooses. After [`Action::Duplex`], the driver reads while it sends. From then on, such a session answers with
//! `Start`, `Duplex`, `HalfClose` and `Close`. It writes nothing between its output and `Sent`: until then, it keeps what
//! it has to say.
//!
//! A session can also open connections itself ([`Action::Peer`]): [`crate::peer`] has the contract. From then on, it works
//! both ways, as after `Start`. It can end its half and read on ([`Action::End`]), and reset the connection
//! ([`Action::Abort`]).
//!
//! A session that waits for one job ([`Action::Wait`]) can give it up: it writes to `tx` in `handle(Deadline)`. The
//! driver then sends that output and discards the job's result; a job that no thread has started yet is dropped without
//! running.

use crate::complaints;
use crate::fs::{self, ReadError, Wait};
use crate::memory::Budget;
pub use crate::peer::{Ask, Dialing, Parcel, Parking, PeerEvent, PeerLoss, Upstream};
use crate::shaping::Withheld;
pub use crate::tcp_info::Path;
use bytes::Bytes;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;
use units::{Duration, Instant, UnixTime};

/// One connection, as a state machine without I/O. It may move between threads, but never to another context. `closed`
/// is called even after another method has panicked.
pub trait Session: Sized + Send {
    /// State shared by all sessions of one worker.
    type Cx: Context;

    /// Processes an event. It may append responses to `tx`, which is empty or holds earlier output of this turn.
    fn handle(&mut self, cx: &mut Self::Cx, event: Event<'_, JobOf<Self>>, tx: &mut Tx, now: Instant);

    /// Returns the driver's next action. May append to `tx` (the next part of a response).
    fn poll(&mut self, cx: &mut Self::Cx, tx: &mut Tx, now: Instant) -> Action<JobOf<Self>>;

    /// When this connection wants `Event::Deadline` if nothing happens first. The driver asks lazily: when an earlier
    /// answer falls due, never per request. A deadline may therefore move later at no cost; one that moves *earlier*
    /// than the last answer is noticed within a second.
    fn deadline(&self) -> Option<Instant>;

    /// The instant from which the connection may be closed to make room for another; it may lie in the future. `None`
    /// while the peer is owed a response. Connections are closed in the order of these instants. Called when
    /// connections or memory run short, and before each wait of a worker whose single connection may have to go.
    fn idle_since(&self, _cx: &Self::Cx) -> Option<Instant> {
        None
    }

    /// The connection is gone. Called exactly once, as the last method.
    fn closed(&mut self, cx: &mut Self::Cx, now: Instant);
}

/// The job type of a session's context.
pub type JobOf<S> = <<S as Session>::Cx as Context>::Job;

/// What happened to a connection.
#[derive(Debug)]
pub enum Event<'a, J: Job> {
    /// Bytes arrived. The session must consume or store all of them.
    Bytes(&'a [u8]),
    /// State of the path to the peer, right before `Sent`. Only if [`Context::wants_path`] and the driver can tell.
    Path(Path),
    /// All output of the last `Tx` was handed to the kernel.
    Sent,
    /// This many bytes of the last `Tx` were handed to the kernel since the last report; the rest has to wait. Lets a
    /// session tell a slow reader from a dead one.
    Progress(u64),
    /// The driver asked the kernel how much of the waiting output the peer has acknowledged. Reported about once a
    /// second while output waits, and right before `Deadline`; never if the driver cannot tell.
    Taken(Taken),
    /// A job finished: that of `Action::Wait` ([`Ticket::ONLY`]), or one of those of `Action::Start`.
    Done(Ticket, J::Output),
    /// The peer closed its sending half. It may still read.
    Eof,
    /// The instant returned by `deadline` has come; later by the time that output waited for the line
    /// ([`Context::line_patience`]).
    Deadline,
    /// The server is shutting down: finish the responses that are due, then close. An idle session answers the next
    /// `poll` with `Close`.
    Drain,
    /// The listener's strategy is being replaced: announce the close with the next response. An idle session keeps
    /// waiting for its next request, which may already be on its way.
    Retire,
    /// Another connection needs this one's place or memory: an idle session answers the next `poll` with `Close`. Sent
    /// only to sessions that report since when they are idle ([`Session::idle_since`]).
    GiveWay(Need),
    /// The session's timeouts may have changed: a waiting session may have to wait less long.
    Reconsider,
    /// The connection failed (reset, broken pipe, unreadable file). The only sensible answer is `Close`.
    Lost(Loss),
    /// A layer around the session agreed with the peer (TLS, RFC 8446). Once, before any bytes.
    Secured(Secured<'a>),
    /// A layer around the session ends the connection. The session takes note; the layer closes.
    Unsecured(Unsecured),
    /// Something happened to a connection that the session opened under this ticket.
    Peer(Ticket, PeerEvent<'a>),
}

/// What a layer around a session and the peer agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Secured<'a> {
    /// The protocol above the layer (ALPN, RFC 7301), if one was agreed on.
    pub protocol: Option<&'a [u8]>,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// Who the peer is, as its certificate says. Only if one was asked for, sent and verified.
    pub identity: Option<&'a str>,
    /// The version of TLS, if the layer is TLS.
    pub version: Option<TlsVersion>,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// RFC 5246.
    V12,
    /// RFC 8446.
    V13,
}

impl TlsVersion {
    /// Its name, as OpenSSL and access logs write it.
    pub const fn name(self) -> &'static str {
        match self {
            TlsVersion::V12 => "TLSv1.2",
            TlsVersion::V13 => "TLSv1.3",
        }
    }
}

/// Why a layer around a session ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsecured {
    /// The peer and the layer could not agree, or the peer broke the layer's rules.
    Fault,
    /// The peer spoke plain HTTP.
    PlainHttp,
}

/// Why an idle connection has to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The connection limit is reached, and a new connection waits.
    Place,
    /// The memory budget is nearly used up.
    Memory,
}

/// How much of the waiting output a peer has acknowledged. Needed because a kernel with a large send buffer accepts
/// more only when a third of the buffer is free; at a slow reader's rate, that can take minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Start of the count: within a second after output first had to wait.
    pub since: Instant,
    /// Bytes acknowledged since then.
    pub bytes: u64,
    /// Whether the peer acknowledged any bytes since the last report. True in the first report.
    pub moves: bool,
}

/// Why a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The socket failed with this errno (ECONNRESET, EPIPE, ETIMEDOUT ...).
    Socket(i32),
    /// The body's file failed with this errno, ended early (0: truncated), or was modified while it was sent
    /// ([`Loss::CHANGED`]).
    File(i32),
}

impl Loss {
    /// The body's file was modified while it was sent: the peer may have received a mixture of both versions.
    pub const CHANGED: Loss = Loss::File(libc::ESTALE);
}

/// What the driver should do next with a connection.
#[derive(Debug)]
pub enum Action<J> {
    /// Send any output in `tx`, then wait for bytes.
    Read,
    /// Send `tx`, then report `Event::Sent`; do not read meanwhile.
    Write,
    /// Nothing to do: output or a job is already under way, and `Deadline` or `Drain` caused this `poll`.
    Stay,
    /// Send `tx`, run the job where it may block, then report `Event::Done`; do not read meanwhile.
    Wait(J),
    /// Run the job where it may block and ask again at once. Not together with output. `Event::Done` follows once, with this ticket, unless the
    /// connection ends before. Jobs may finish in any order. The session bounds how many it has under way. It gets every
    /// result and ignores one that comes too late. A driver whose thread serves this connection only may run the job
    /// there and report nothing else meanwhile.
    Start(Ticket, J),
    /// Send `tx`, then report `Event::Sent`; meanwhile, report what the peer sends if `read` is set. Bytes may come once
    /// after it is no longer set. Not after the end of a sending half.
    Duplex {
        /// Whether the session takes input now.
        read: bool,
        /// Whether `tx` waits until the kernel has sent nearly all it has: what is given later may be more urgent.
        patient: bool,
    },
    /// Send `tx`, close the sending half, then keep reading (the session discards the input) until `Eof` or `Deadline`.
    /// Otherwise a reset could destroy the last response before the peer reads it.
    HalfClose,
    /// Send `tx`, then close. Output that is under way already is given up.
    Close,
    /// Carry out what `tx` asks for one of the session's peers ([`Tx::ask`]), and ask again at once. Not together with
    /// output. Only if [`Service::dialing`] has limits for it.
    Peer,
    /// Close the sending half and ask again at once. Not together with output, and with none under way. The session
    /// works both ways; it goes on reading as before.
    End,
    /// Reset the connection, so that the peer does not take what it received for complete. Not together with output.
    Abort,
}

/// Tells the jobs of one connection apart. Numbers from 2³¹ on belong to layers around the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u32);

impl Ticket {
    /// That of `Action::Wait`.
    pub const ONLY: Ticket = Ticket(u32::MAX);
}

/// Output of one turn: a copied head, then at most one referenced body.
///
/// Small bodies are copied into `head`: up to 8 KiB, copying is faster than a gathering write (a second piece costs 114
/// ns). Several pipelined responses may share `head`. A `body` ends the turn: nothing can follow it before
/// `Event::Sent`.
#[derive(Debug, Default)]
pub struct Tx {
    /// Bytes to send first. The driver pools this buffer: it is cleared, but never shrunk below its normal capacity.
    pub head: Vec<u8>,
    /// Bytes to send after `head`.
    pub body: Option<Body>,
    /// Bytes of the same answer that a later output will have. Where answers wait for a line with a declared rate, the one
    /// with the fewest bytes left goes first, these included.
    pub beyond: u64,
    /// What the driver is to do for a peer. Not part of [`Action::Peer`], so that dropping an action costs sessions without
    /// peers nothing.
    pub asked: Option<Box<(Ticket, Ask)>>,
}

impl Tx {
    /// Whether there is nothing to send.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.body.is_none()
    }

    /// Asks something for the session's peer with this ticket; the action to return.
    pub fn ask<J>(&mut self, ticket: Ticket, ask: Ask) -> Action<J> {
        self.asked = Some(Box::new((ticket, ask)));
        Action::Peer
    }

    /// Removes the output and keeps the capacity.
    #[inline]
    pub fn clear(&mut self) {
        self.head.clear();
        self.body = None;
        self.beyond = 0;
    }
}

/// A body that is referenced rather than copied.
#[derive(Clone, Debug)]
pub enum Body {
    /// Shared bytes in memory.
    Bytes(Bytes),
    /// A range of an open file; the I/O back end decides how to send it.
    File(FileRange),
}

/// `len` bytes of `file` from `offset`.
#[derive(Clone, Debug)]
pub struct FileRange {
    /// The open file; shared by every response that sends it.
    pub file: Arc<fs::File>,
    /// First byte.
    pub offset: u64,
    /// Length in bytes. A file that ends earlier is `Loss::File(0)`; one that is modified meanwhile is `Loss::CHANGED`.
    pub len: u64,
}

impl FileRange {
    /// Reads the bytes, for a protocol that must change them before they are sent. `is_last`: the body ends with this
    /// range, so its file must still be the same. `None` if the read would have to wait and must not. A loss is logged.
    pub fn read(&self, is_last: bool, wait: Wait) -> Option<Result<Vec<u8>, Loss>> {
        let length = usize::try_from(self.len).unwrap_or(usize::MAX);
        let read = match self.file.read_all(self.offset, length, wait) {
            Err(ReadError::WouldBlock) => return None,
            Err(ReadError::Io(errno)) => Err(Loss::File(errno)),
            Ok(bytes) if bytes.len() < length => Err(Loss::File(0)),
            Ok(_) if is_last && !self.file.has_same_content() => Err(Loss::CHANGED),
            Ok(bytes) => Ok(bytes),
        };
        Some(read.map_err(|loss| self.lost(loss)))
    }

    /// Logs the loss of a connection caused by this file, and returns it.
    pub fn lost(&self, loss: Loss) -> Loss {
        if let Loss::File(errno) = loss {
            let path = [b"/", self.file.name()].concat();
            complaints::warn(&path, || match loss {
                Loss::CHANGED => {
                    "response cut off: the file was modified while it was sent; replace files by renaming"
                        .to_owned()
                }
                Loss::File(0) => {
                    "response cut off: the file became shorter while it was sent; replace files by renaming"
                        .to_owned()
                }
                _ => format!("response cut off: {}", std::io::Error::from_raw_os_error(errno)),
            });
        }
        loss
    }
}

/// State shared by all sessions of one worker: caches, formatted dates, counters, the log buffer.
///
/// No method has a default: a context that wraps another would silently drop the calls it does not forward.
pub trait Context: Send + 'static {
    /// Work that may block.
    type Job: Job;

    /// Called at the start of each turn of the driver, within one when the memory step changes, and at least once a second
    /// while any connection is open. `wall` is civil time, read once per turn.
    fn turn(&mut self, now: Instant, wall: UnixTime);

    /// When `turn` must be called even if nothing happens, for example to flush a log buffer.
    fn wake(&self) -> Option<Instant>;

    /// Whether the sessions' timeouts have changed since the last call. If so, each gets [`Event::Reconsider`].
    fn has_new_bounds(&mut self) -> bool;

    /// Whether to call [`Context::rest`] after each turn, which costs reading the clock.
    fn is_timed(&self) -> bool;

    /// Whether to report [`Event::Path`] with everything sent, which costs a system call.
    fn wants_path(&self) -> bool;

    /// Reports the output the driver holds back because the line is busy, at the end of each turn. Only from drivers
    /// that limit the line's rate.
    fn withheld(&mut self, what: Withheld);

    /// How long output may wait for the line without a break, with none of it offered to the peer, before the wait
    /// counts against the session's deadline.
    fn line_patience(&self) -> Duration;

    /// The last turn, which began with this line, has ended; the driver rests or begins another. Called only if
    /// [`Context::is_timed`].
    fn rest(&mut self, now: Instant, line: Line);
}

/// The queue of ready events that a driver found at the beginning of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// The driver took all of them.
    Taken,
    /// There are more than a turn takes; how long the rest will wait is not known yet.
    Longer,
    /// The last event of a queue found some turns ago has waited this long for the current turn.
    Waited(Duration),
}

/// The context of sessions that share nothing. It asks for no turns and no reports.
#[derive(Debug)]
pub struct Unshared<J>(PhantomData<fn() -> J>);

impl<J> Default for Unshared<J> {
    fn default() -> Unshared<J> {
        Unshared(PhantomData)
    }
}

impl<J: Job> Context for Unshared<J> {
    type Job = J;

    fn turn(&mut self, _: Instant, _: UnixTime) {}

    fn wake(&self) -> Option<Instant> {
        None
    }

    fn has_new_bounds(&mut self) -> bool {
        false
    }

    fn is_timed(&self) -> bool {
        false
    }

    fn wants_path(&self) -> bool {
        false
    }

    fn withheld(&mut self, _: Withheld) {}

    fn line_patience(&self) -> Duration {
        Duration::MAX
    }

    fn rest(&mut self, _: Instant, _: Line) {}
}

/// The job of sessions that have no work that blocks: there is none.
#[derive(Debug)]
pub enum NoJob {}

impl Job for NoJob {
    type Output = ();

    fn try_now(self) -> Result<(), NoJob> {
        match self {}
    }

    fn run(self) {
        match self {}
    }
}

/// Work that may block: opening a cold file, compressing a body.
pub trait Job: Send + 'static {
    /// The result, which goes back to the session.
    type Output: Send + 'static;

    /// Does the work now if that cannot block (cached directory entries, pages in memory). Otherwise it returns the
    /// job, for a helper thread to `run`. Event loops call this first.
    ///
    /// # Errors
    /// The unfinished job.
    fn try_now(self) -> Result<Self::Output, Self>
    where
        Self: Sized;

    /// Does the work and may block.
    fn run(self) -> Self::Output;

    /// Takes work that only waits for something to happen elsewhere, so that it occupies no helper thread: `later` is to be
    /// called with the output once, from any thread. Event loops call this after `try_now`.
    ///
    /// # Errors
    /// The job, if it is not of this kind. A job that wraps another asks that one.
    fn defer(self, _later: Later<Self::Output>) -> Result<(), Self>
    where
        Self: Sized,
    {
        Err(self)
    }
}

/// Reports the output of a job that was deferred.
pub struct Later<O>(Box<dyn FnOnce(O) + Send>);

impl<O: 'static> Later<O> {
    /// Calls this function with the output.
    pub fn new(report: impl FnOnce(O) + Send + 'static) -> Later<O> {
        Later(Box::new(report))
    }

    /// Reports the output.
    pub fn report(self, output: O) {
        (self.0)(output);
    }

    /// For the same work whose output is wrapped.
    pub fn map<P: 'static>(self, wrap: impl FnOnce(P) -> O + Send + 'static) -> Later<P> {
        Later::new(move |output| self.report(wrap(output)))
    }
}

impl<O> std::fmt::Debug for Later<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Later").finish_non_exhaustive()
    }
}

/// A connection that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The client's end.
    pub peer: SocketAddr,
    /// The listener it came from: its place (0-based) among those the strategy was started with. 255 stands for that one and all
    /// after it.
    pub listener: u8,
    /// Whether a layer around the session has to agree with the client first ([`Event::Secured`]).
    pub is_to_agree: bool,
}

impl Accepted {
    /// One at the first listener.
    pub const fn at_first(peer: SocketAddr) -> Accepted {
        Accepted {
            peer,
            listener: 0,
            is_to_agree: false,
        }
    }
}

/// Creates contexts for workers and sessions for connections.
pub trait Service: Send + Sync + 'static {
    /// The protocol of this service.
    type Session: Session;

    /// Creates the context of worker number `worker` (0-based), on the worker's own thread.
    fn context(&self, worker: usize) -> <Self::Session as Session>::Cx;

    /// A connection was accepted. `None` rejects it: the driver closes it at once.
    fn accept(
        &self,
        cx: &mut <Self::Session as Session>::Cx,
        accepted: &Accepted,
        now: Instant,
    ) -> Option<Self::Session>;

    /// Whether the service's own connection limit is reached, so that it would reject the next connection. The driver
    /// then closes the connection that has been idle longest and asks again. If none is idle, it offers the new
    /// connection anyway after a while.
    fn is_full(&self) -> bool {
        false
    }

    /// Closes the connections that the service keeps idle outside of its sessions and of [`crate::peer`]. Returns whether there
    /// were any. The driver calls this when descriptors or memory run short. It must not block.
    fn close_idle(&self) -> bool {
        false
    }

    /// The memory budget shared by its connections.
    fn budget(&self) -> Arc<Budget> {
        Arc::default()
    }

    /// Connections accepted from one listener ([`Accepted::listener`]) per turn, before those that are open have theirs. Where
    /// the system accepts by itself (io_uring), it is no bound.
    fn accepts_per_turn(&self, _listener: u8) -> u32 {
        64
    }

    /// Limits of the connections that its sessions open ([`crate::peer`]); `None` if they open none.
    fn dialing(&self) -> Option<Dialing> {
        None
    }

    /// How long a draining connection may take to finish the responses that are due.
    fn grace(&self) -> Duration;
}
