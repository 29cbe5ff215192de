//! What a worker asks of a back end, and what it hears from it.
//!
//! Completion is the common language: a worker *submits* an operation and is told when it is *done*.
//! A back end that can finish at once answers from `submit` itself (epoll does, nearly always); one
//! that cannot answers from `wait` (a ring does, nearly always). Sessions never see the difference.
//!
//! ```text
//!              submit(op) ─────────────▶ Some(done)   at once
//!   worker                  backend
//!              wait(until) ────────────▶ done, done, done
//! ```
//! A receive owns no buffer: its completion does, so an idle connection holds none. Output travels as
//! a pooled box to the operation and comes back with its completion, and stays with a connection only
//! while that one is blocked.

pub(crate) mod blocking;
pub(crate) mod epoll;
mod marker;
pub(crate) mod refusal;
mod socket;
pub(crate) mod table;
pub(crate) mod turnstile;
pub(crate) mod uring;

pub(crate) use socket::accept;

use crate::memory::Step;
use crate::session::{Body, FileRange, Line, Loss, Path, Tx};
use crate::shaping::Withheld;
use crate::strategy::Writing;
use measure::{Duration, Instant, UnixTime};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// Bytes received at a time under pressure: a head of a browser.
pub(crate) const PRESSED_RECEIVE: usize = 1 << 10;

/// A connection, told apart from earlier ones that used the same slot: descriptors and slots are
/// reused while news of their former owners is still in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Id {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// Bytes that arrived.
#[derive(Debug)]
pub(crate) struct Buf {
    pub(crate) bytes: Box<[u8]>,
    pub(crate) len: usize,
}

impl Buf {
    /// The most that one receive brings.
    pub(crate) const CAPACITY: usize = 16 << 10;

    pub(crate) fn new() -> Buf {
        Buf {
            bytes: vec![0; Buf::CAPACITY].into_boxed_slice(),
            len: 0,
        }
    }

    #[inline]
    pub(crate) fn filled(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Output on its way, with how far it has come.
#[derive(Debug)]
pub(crate) struct Out {
    pub(crate) tx: Tx,
    /// Bytes of `tx.head` that went. The body is shortened from its front instead.
    pub(crate) head_sent: usize,
    /// Bytes that went and that no completion has told of yet.
    pub(crate) unreported: u64,
    /// Bytes of a file that went since it was last looked whether it was written to.
    pub(crate) unchecked: u64,
    /// How it is cut into calls.
    pub(crate) writing: Writing,
}

impl Out {
    /// Holds what a session writes in one turn before it must wait (32 KiB), and an answer over.
    pub(crate) const HEAD_CAPACITY: usize = 40 << 10;

    pub(crate) fn new(writing: Writing) -> Box<Out> {
        let tx = Tx {
            head: Vec::with_capacity(Out::HEAD_CAPACITY),
            body: None,
        };
        Box::new(Out {
            tx,
            head_sent: 0,
            unreported: 0,
            unchecked: 0,
            writing,
        })
    }

    /// Makes it ready for the next turn.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.tx.clear();
        self.head_sent = 0;
        self.unreported = 0;
        self.unchecked = 0;
        // One that a long answer blew up, or one that was cut down to what a slow reader left.
        if !(Out::HEAD_CAPACITY..=4 * Out::HEAD_CAPACITY).contains(&self.tx.head.capacity()) {
            self.tx.head = Vec::with_capacity(Out::HEAD_CAPACITY);
        }
    }

    /// Counts `n` bytes of what stood in memory as sent: of the head, then of the body.
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

    /// What of the head is still to go.
    #[inline]
    pub(crate) fn head_left(&self) -> &[u8] {
        &self.tx.head[self.head_sent..]
    }

    /// Bytes of memory it takes, shared content aside.
    #[inline]
    pub(crate) fn cost(&self) -> usize {
        size_of::<Out>() + self.tx.head.capacity()
    }

    /// Bytes that are still to go.
    pub(crate) fn left(&self) -> u64 {
        let of_body = match &self.tx.body {
            None => 0,
            Some(Body::Bytes(bytes)) => bytes.len() as u64,
            Some(Body::File(range)) => range.len,
        };
        self.head_left().len() as u64 + of_body
    }

    /// Whether everything went.
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

/// What a worker asks for. At most one receive and one send of a connection are under way at a time.
#[derive(Debug)]
pub(crate) enum Op {
    /// Take a waiting connection from this listener. At once: `Accepted`, `AcceptFailed`, or `None`
    /// when no connection waits (then `Incoming` tells of the next).
    Accept { listener: usize },
    /// Take listeners out of service and close them, at once or when [`Backend::is_listening`] ends. Until then
    /// `Incoming` may still tell of connections.
    StopListening,
    /// Receive what arrives: `Recv`, `Eof` or `Failed`.
    Recv { id: Id },
    /// Send all of this: `Sent` or `Failed`, with `Progress`, `Ready` and `Cold` on the way.
    Send { id: Id, out: Box<Out> },
    /// Go on with what was under way, after `Ready`, `Progress` or `Cold`; `Err` if the file could not
    /// be read.
    Resume { id: Id, warmed: Result<(), Loss> },
    /// Close the sending half.
    ShutdownWrite { id: Id },
    /// Forget the connection and whatever is under way on it. Never answered.
    Close { id: Id },
    /// The same, with a reset: what the kernel has not sent yet is dropped, where `Close` leaves it to a kernel that
    /// may offer it for minutes to a peer that takes nothing.
    Abort { id: Id },
}

/// What a worker is told.
#[derive(Debug)]
pub(crate) enum Done {
    /// Connections may be waiting at this listener.
    Incoming { listener: usize },
    /// A connection was taken.
    Accepted { id: Id, peer: SocketAddr },
    /// None could be taken, for this errno.
    AcceptFailed { errno: i32 },
    /// The operation under way may go on: submit `Resume`.
    Ready { id: Id },
    /// Bytes arrived; the buffer goes back with `recycle`.
    Recv { id: Id, buf: Buf },
    /// The peer closed its sending half.
    Eof { id: Id },
    /// All output was handed to the kernel.
    Sent { id: Id, out: Box<Out> },
    /// This many bytes more of the output were handed to the kernel; the rest waits.
    Progress { id: Id, bytes: u64 },
    /// The output needs this range of a file from disk before it goes on with `Resume`.
    Cold { id: Id, range: FileRange },
    /// The connection or the body's file failed; only `Close` is left.
    Failed { id: Id, loss: Loss },
    /// The waker was used.
    Woken,
    /// All connections there may be are open, another waits at a listener, and this idle one is to give way.
    Contended { id: Id },
}

impl Done {
    /// The connection it is about, if it is about one.
    pub(crate) fn id(&self) -> Option<Id> {
        match self {
            Done::Accepted { id, .. }
            | Done::Ready { id }
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
    /// Starts an operation. `Some`: it is done already; `None`: `wait` will tell.
    fn submit(&mut self, op: Op) -> Option<Done>;

    /// Waits until something is done or `until` has come (`None`: however long that takes), appends
    /// what is done, and returns the time.
    ///
    /// # Errors
    /// Only such as make going on impossible.
    fn wait(&mut self, until: Option<Instant>, done: &mut Vec<Done>) -> std::io::Result<Instant>;

    /// What the last `wait` found in line. A back end that takes all there is says nothing else.
    fn line(&self) -> Line {
        Line::Taken
    }

    /// Whether connections may still come although it was asked to stop listening.
    fn is_listening(&self) -> bool {
        false
    }

    /// Whether connections may wait that it can take only when the one it has is gone.
    fn owes(&self) -> bool {
        false
    }

    /// What it holds back because the line is taken, if it looks after one.
    #[inline]
    fn withheld(&self) -> Option<Withheld> {
        None
    }

    /// How long the output of a connection waited because the line is taken, since the last `Progress` of it.
    fn waited(&self, _id: Id, _now: Instant) -> Duration {
        Duration::ZERO
    }

    /// Bytes of output that connections hold because their peers take none.
    #[inline]
    fn held(&self) -> usize {
        0
    }

    /// Saves memory from now on as this step asks for: receives [`PRESSED_RECEIVE`] bytes at a time and few ahead of being asked;
    /// and from [`Step::Idle`] on, has the kernel buffer little for connections that come or are sent something.
    fn press(&mut self, _step: Step) {}

    /// Whether it looks, while it waits with an idle connection, for others that have no place.
    #[inline]
    fn stands_by(&self) -> bool {
        false
    }

    /// Since when its one connection is idle, if it is; told before each wait of a back end that stands by.
    fn idle(&mut self, _since: Option<Instant>) {}

    /// Takes back the buffer of a receive.
    fn recycle(&mut self, buf: Buf);

    /// Gives up a connection that waits for input, for another back end to take over. `None`: this kind
    /// cannot, or there is no such connection.
    fn release(&mut self, _id: Id) -> Option<OwnedFd> {
        None
    }

    /// Takes over a connection. `None`: this kind cannot, and the connection is closed.
    fn adopt(&mut self, _fd: OwnedFd) -> Option<Id> {
        None
    }

    /// Bytes of output the peer has acknowledged since the connection began; `None` if this kind cannot tell.
    fn acknowledged(&mut self, id: Id) -> Option<u64>;

    /// How the path of a connection is; `None` if this kind cannot tell.
    fn path(&mut self, _id: Id) -> Option<Path> {
        None
    }

    /// Civil time, at a coarse grain.
    fn wall(&self) -> UnixTime;

    /// The time.
    fn now(&self) -> Instant;
}
