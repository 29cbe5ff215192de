//! The interface between a worker and its I/O back end.
//!
//! It is modeled on completion: a worker *submits* an operation, and the back end reports when it is *done*. A back end
//! that can finish at once returns the result from `submit` (epoll nearly always does); otherwise it comes from `wait`
//! (a ring nearly always does). Sessions never see the difference.
//!
//! ```text
//!              submit(op) ─────────────▶ Some(done)   at once
//!   worker                  backend
//!              wait(until) ────────────▶ done, done, done
//! ```
//! A receive owns no buffer until it completes, so an idle connection holds none. Output travels in a pooled box to the
//! operation and returns with its completion. It stays with a connection only while that connection is blocked.

pub(crate) mod accept_mutex;
pub(crate) mod blocking;
mod conduit;
pub(crate) mod epoll;
mod marker;
pub(crate) mod refusal;
mod socket;
pub(crate) mod table;
pub(crate) mod uring;

pub(crate) use crate::buffer::{Buf, Outgoing};
pub(crate) use crate::slot::Id;
pub(crate) use socket::{accept, open};

use crate::manner::Writing;
use crate::memory::Step;
use crate::peer::{PeerLoss, Upstream};
use crate::session::{Body, FileRange, Line, Loss, Path, Tx};
use crate::shaping::Withheld;
use crate::sys;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use units::{Duration, Instant, UnixTime};

/// A connection idle for less than this is between two requests and is left alone.
pub(crate) const SETTLED: Duration = Duration::from_millis(50);
/// Bytes received at a time under memory pressure: enough for the head of a browser's request.
pub(crate) const PRESSED_RECEIVE: usize = 1 << 10;

/// Output being sent, with its progress.
#[derive(Debug)]
pub(crate) struct Out {
    pub(crate) tx: Tx,
    /// Bytes of `tx.head` already sent. For the body, the sent part is cut off its front instead.
    pub(crate) head_sent: usize,
    /// Bytes sent and not yet reported by a completion.
    pub(crate) unreported: u64,
    /// Bytes of a file sent since it was last checked for modification.
    pub(crate) unchecked: u64,
    /// How output is divided into calls.
    pub(crate) writing: Writing,
    /// Whether it waits until the kernel has sent nearly all it has.
    pub(crate) is_patient: bool,
    /// Bytes of a file handed over per call; twice what the socket took last.
    pub(crate) at_once: usize,
    /// Whether the socket holds back segments that are not full (`TCP_CORK`).
    pub(crate) is_corked: bool,
}

impl Out {
    /// Room for what a session writes in one turn before it must wait (32 KiB), and for one more response.
    pub(crate) const HEAD_CAPACITY: usize = 40 << 10;

    pub(crate) fn new(writing: Writing) -> Box<Out> {
        Out::of(Vec::with_capacity(Out::HEAD_CAPACITY), writing)
    }

    /// These bytes.
    pub(crate) fn of(bytes: Vec<u8>, writing: Writing) -> Box<Out> {
        let tx = Tx {
            head: bytes,
            body: None,
            beyond: 0,
            asked: None,
        };
        Box::new(Out {
            tx,
            head_sent: 0,
            unreported: 0,
            unchecked: 0,
            writing,
            is_patient: false,
            at_once: conduit::CAPACITY,
            is_corked: false,
        })
    }

    /// Prepares the buffer for the next turn.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.tx.clear();
        self.head_sent = 0;
        self.unreported = 0;
        self.unchecked = 0;
        self.is_patient = false;
        self.at_once = conduit::CAPACITY;
        self.is_corked = false;
        // The buffer grew for a long response, or was shrunk to what a slow reader left.
        if !(Out::HEAD_CAPACITY..=4 * Out::HEAD_CAPACITY).contains(&self.tx.head.capacity()) {
            self.tx.head = Vec::with_capacity(Out::HEAD_CAPACITY);
        }
    }

    /// Counts `n` bytes in memory as sent: first of the head, then of the body.
    pub(crate) fn advance(&mut self, n: usize) {
        self.unreported += n as u64;
        let of_head = n.min(self.tx.head.len() - self.head_sent);
        self.head_sent += of_head;
        let of_body = n - of_head;
        match &mut self.tx.body {
            Some(Body::Bytes(bytes)) => bytes::Buf::advance(bytes, of_body),
            Some(Body::File(range)) => {
                range.offset += of_body as u64;
                range.len -= of_body as u64;
            }
            None => debug_assert_eq!(of_body, 0),
        }
    }

    /// Memory in bytes, without shared content.
    #[inline]
    pub(crate) fn cost(&self) -> usize {
        size_of::<Out>() + self.tx.head.capacity()
    }

    /// Unsent bytes.
    pub(crate) fn left(&self) -> u64 {
        let of_body = match &self.tx.body {
            None => 0,
            Some(Body::Bytes(bytes)) => bytes.len() as u64,
            Some(Body::File(range)) => range.len,
        };
        self.head_left().len() as u64 + of_body
    }

    /// Whether everything was sent, and nothing of the same answer follows.
    pub(crate) fn is_answer_sent(&self) -> bool {
        self.is_sent() && self.tx.beyond == 0
    }

    /// Whether everything was sent.
    #[inline]
    pub(crate) fn is_sent(&self) -> bool {
        self.head_sent == self.tx.head.len()
            && match &self.tx.body {
                None => true,
                Some(Body::Bytes(bytes)) => bytes.is_empty(),
                Some(Body::File(range)) => range.len == 0,
            }
    }
}

impl Outgoing for Out {
    #[inline]
    fn head_left(&self) -> &[u8] {
        &self.tx.head[self.head_sent..]
    }

    #[inline]
    fn body_left(&self) -> Option<&[u8]> {
        match &self.tx.body {
            Some(Body::Bytes(body)) => Some(body),
            Some(Body::File(_)) | None => None,
        }
    }
}

/// An operation. At most one receive and one send per connection are under way at a time.
#[derive(Debug)]
pub(crate) enum Op {
    /// Accept a connection from this listener. The result comes at once: `Accepted`, `AcceptFailed`, or `None` if no
    /// connection waits (`Incoming` then announces the next).
    Accept { listener: usize },
    /// Stop accepting and close the listeners, at once or when [`Backend::is_listening`] ends. Until then, `Incoming`
    /// may still announce connections.
    StopListening,
    /// Receive what arrives: `Recv`, `Eof` or `Failed`, with `Input` before it where a receive does not complete by
    /// itself.
    Recv { id: Id },
    /// Forget the receive under way, if there is one: bytes that arrive wait for the next.
    Pause { id: Id },
    /// Send all of this: `Sent` or `Failed`, with `Progress`, `Ready` and `Cold` in between.
    Send { id: Id, out: Box<Out> },
    /// Continue the send under way after `Ready` or `Cold`; `Err` if the file could not be read.
    Resume { id: Id, warmed: Result<(), Loss> },
    /// Close the sending half.
    ShutdownWrite { id: Id },
    /// Drop the connection and any operation under way on it. No result is reported.
    Close { id: Id },
    /// As `Close`, with a reset: unsent data in the kernel is dropped. After `Close`, the kernel may offer that data
    /// for minutes to a peer that accepts nothing.
    Abort { id: Id },
}

/// A completed operation or an event.
#[derive(Debug)]
pub(crate) enum Done {
    /// Connections may be waiting at this listener.
    Incoming { listener: usize },
    /// A connection was accepted.
    Accepted { id: Id, peer: SocketAddr },
    /// Accepting failed with this errno.
    AcceptFailed { errno: i32 },
    /// The send under way can continue: submit `Resume`.
    Ready { id: Id },
    /// The receive under way can continue: submit `Recv`.
    Input { id: Id },
    /// Bytes arrived; return the buffer with `recycle`.
    Recv { id: Id, buf: Buf },
    /// The peer closed its sending half.
    Eof { id: Id },
    /// All output was handed to the kernel.
    Sent { id: Id, out: Box<Out> },
    /// This many more bytes of the output were handed to the kernel; the rest waits.
    Progress { id: Id, bytes: u64 },
    /// The output needs this file range read from disk; continue with `Resume`.
    Cold { id: Id, range: FileRange },
    /// The connection or the body's file failed; the only operation left is `Close`.
    Failed { id: Id, loss: Loss },
    /// The worker's waker was triggered.
    Woken,
    /// The connection limit is reached, another connection waits at a listener, and this idle one has to be closed.
    Contended { id: Id },
}

impl Done {
    /// The connection concerned, if any.
    pub(crate) fn id(&self) -> Option<Id> {
        match self {
            Done::Accepted { id, .. }
            | Done::Ready { id }
            | Done::Input { id }
            | Done::Recv { id, .. }
            | Done::Eof { id }
            | Done::Sent { id, .. }
            | Done::Progress { id, .. }
            | Done::Contended { id }
            | Done::Cold { id, .. }
            | Done::Failed { id, .. } => Some(*id),
            Done::Incoming { .. } | Done::AcceptFailed { .. } | Done::Woken => None,
        }
    }
}

/// Moves bytes between sockets and a worker.
pub(crate) trait Backend {
    /// Starts an operation. `Some` if it is already done; otherwise `wait` will report it.
    fn submit(&mut self, op: Op) -> Option<Done>;

    /// Whether a connection may be waiting at this listener. `false` is as an `Accept` without a result: `Incoming`
    /// announces the next. Asked at the connection limit, before an idle connection is closed for a new one.
    fn is_awaited(&mut self, listener: usize) -> bool;

    /// Waits until something is done or until `until` (`None`: without limit), appends the results and returns the
    /// time.
    ///
    /// # Errors
    /// Only errors after which the back end cannot continue.
    fn wait(&mut self, until: Option<Instant>, done: &mut Vec<Done>) -> std::io::Result<Instant>;

    /// The queue of ready events the last `wait` found. A back end that takes all events keeps the default.
    fn line(&self) -> Line {
        Line::Taken
    }

    /// Whether connections may still arrive although the back end was asked to stop listening.
    fn is_listening(&self) -> bool {
        false
    }

    /// Whether connections may be waiting that it can accept only after its current one has ended.
    fn owes(&self) -> bool {
        false
    }

    /// Output held back because the line is busy, if the back end limits the line's rate.
    #[inline]
    fn withheld(&self) -> Option<Withheld> {
        None
    }

    /// How long a connection's output waited for the line since its last `Progress`.
    fn waited(&self, _id: Id, _now: Instant) -> Duration {
        Duration::ZERO
    }

    /// Bytes of output held by connections whose peers accept none.
    #[inline]
    fn held(&self) -> usize {
        0
    }

    /// Saves memory according to this step: receives [`PRESSED_RECEIVE`] bytes at a time, and few before they are asked
    /// for. From [`Step::Idle`] on, it also limits the kernel's send buffer of new connections and of those that are
    /// sent something.
    fn press(&mut self, _step: Step) {}

    /// Whether, while waiting with an idle connection, it watches for others that have no place.
    #[inline]
    fn stands_by(&self) -> bool {
        false
    }

    /// Since when its one connection is idle, if it is. Called before each wait of a back end that stands by.
    fn idle(&mut self, _since: Option<Instant>) {}

    /// Returns the buffer of a receive.
    fn recycle(&mut self, buf: Buf);

    /// Hands over a connection that waits for input to another back end. `None` if this kind cannot, or if there is no
    /// such connection.
    fn release(&mut self, _id: Id) -> Option<OwnedFd> {
        None
    }

    /// Takes over a connection. `None` if this kind cannot; the connection is then closed.
    fn adopt(&mut self, _fd: OwnedFd) -> Option<Id> {
        None
    }

    /// Starts to open a connection. [`Backend::opened`] says how that goes.
    ///
    /// # Errors
    /// Why it cannot be opened, if that is already known.
    fn dial(&mut self, to: &Upstream) -> Result<Id, PeerLoss>;

    /// Whether a connection of [`Backend::dial`] is open, or the errno that it failed with. `None` while it is being
    /// opened: `Ready` announces when to ask again.
    fn opened(&mut self, id: Id) -> Option<Result<(), i32>>;

    /// Whether connections of [`Backend::dial`] may stay open while no session uses them.
    fn keeps_unused(&self) -> bool {
        true
    }

    /// Whether a receive under way on a connection that was dialed has brought nothing and would bring nothing now, so that
    /// the connection is open and quiet. Asked before another session gets the connection.
    fn is_quiet(&mut self, _id: Id) -> bool {
        false
    }

    /// Whether the other end of a connection that was dialed has closed its half or reset the connection, although bytes that it
    /// sent before may not have been received yet. `false` if this kind cannot tell. Asked before another session gets a
    /// place on the connection.
    fn has_hung_up(&mut self, _id: Id) -> bool {
        false
    }

    /// The kernel's socket of a connection; `None` if this kind has none, or if there is no such connection.
    fn socket(&mut self, _id: Id) -> Option<&OwnedFd> {
        None
    }

    /// Bytes of output the peer has acknowledged since the connection began; `None` if this kind cannot tell.
    fn acknowledged(&mut self, id: Id) -> Option<u64> {
        sys::acknowledged(self.socket(id)?.as_fd())
    }

    /// Keeps few unsent bytes of a connection in the kernel from now on, so that what is given later and more urgent
    /// need not wait behind them.
    fn keep_shallow(&mut self, id: Id) {
        if let Some(fd) = self.socket(id) {
            socket::keep_shallow(fd);
        }
    }

    /// State of a connection's path; `None` if this kind cannot tell.
    fn path(&mut self, id: Id) -> Option<Path> {
        sys::path_of(self.socket(id)?.as_fd())
    }

    /// Civil time, coarse.
    fn wall(&self) -> UnixTime;

    /// The time.
    fn now(&self) -> Instant;
}
