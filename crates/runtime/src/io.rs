//! The seam between a worker and the kernel: operations go in, completions come out.
//!
//! Completion is the common language. A back end that learns of readiness (epoll) tries an operation
//! when it is submitted and returns the completion inline; when it cannot, it parks the operation and
//! later asks for it [`Done::Again`]. A back end that learns of completions (a ring) returns nothing
//! inline. A worker cannot tell the difference.
//!
//! A received buffer belongs to its completion, so an idle connection holds none.

pub mod epoll;
mod table;

use crate::session::{FileRange, Loss, Tx};
use measure::Instant;
use std::net::SocketAddr;

pub(crate) use table::Table;

/// A connection of one back end. The generation tells a late event from the slot's next owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnId {
    /// Where it is kept; reused.
    pub slot: u32,
    /// Which owner of the slot it is.
    pub generation: u32,
}

/// What a worker wants done.
#[derive(Debug)]
pub enum Op {
    /// Take a connection from this listener.
    Accept {
        /// Index of the listener.
        listener: u32,
    },
    /// Receive what is there, or wait for it.
    Recv {
        /// The connection.
        id: ConnId,
    },
    /// Send all of `tx`.
    Send {
        /// The connection.
        id: ConnId,
        /// What to send; comes back in `Sent`.
        tx: Box<Tx>,
    },
    /// Go on with a send that had to wait.
    Resume {
        /// The connection.
        id: ConnId,
    },
    /// Shut down the sending half.
    Shutdown {
        /// The connection.
        id: ConnId,
    },
    /// Close. Nothing of this connection completes afterwards.
    Close {
        /// The connection.
        id: ConnId,
    },
}

/// What came of it.
#[derive(Debug)]
pub enum Done {
    /// The operation was parked and can be tried now: submit it again.
    Again(Op),
    /// A connection was accepted.
    Accepted {
        /// Its id from now on.
        id: ConnId,
        /// The other end.
        peer: SocketAddr,
        /// Index of the listener it came by.
        listener: u32,
    },
    /// Accepting failed with this errno; the listener is not asked again before `Op::Accept` is.
    Refused {
        /// Index of the listener.
        listener: u32,
        /// Why (EMFILE, ENFILE, ENOBUFS, ENOMEM ...).
        errno: i32,
    },
    /// Bytes came. Give the buffer back with `recycle`.
    Recv {
        /// The connection.
        id: ConnId,
        /// The bytes.
        buf: Buf,
    },
    /// All was handed to the kernel.
    Sent {
        /// The connection.
        id: ConnId,
        /// What was sent, to be reused.
        tx: Box<Tx>,
    },
    /// A part was handed to the kernel and the rest waits.
    Progress {
        /// The connection.
        id: ConnId,
        /// Bytes since the last report.
        bytes: u64,
    },
    /// The next part of the file is not in memory: warm it, then `Op::Resume`.
    Cold {
        /// The connection.
        id: ConnId,
        /// The part.
        range: FileRange,
    },
    /// The peer will send nothing more.
    Eof {
        /// The connection.
        id: ConnId,
    },
    /// The connection failed.
    Lost {
        /// The connection.
        id: ConnId,
        /// How.
        loss: Loss,
    },
    /// Somebody called [`Waker::wake`].
    Woken,
}

/// Received bytes. Its capacity is the receive size; never zeroed.
pub type Buf = Vec<u8>;

/// Moves bytes between connections and a worker.
pub trait Backend {
    /// Starts an operation. `Some`: it completed already; `None`: its completion comes from `wait`.
    fn submit(&mut self, op: Op) -> Option<Done>;

    /// Collects completions, waiting for the first until `until` (`None`: as long as it takes).
    /// Returns the time after waiting.
    ///
    /// # Errors
    /// What the system says to waiting itself; nothing can go on then.
    fn wait(&mut self, until: Option<Instant>, done: &mut Vec<Done>) -> std::io::Result<Instant>;

    /// Takes a receive buffer back.
    fn recycle(&mut self, buf: Buf);

    /// Stops accepting from all listeners until `resume_accepting`.
    fn pause_accepting(&mut self);

    /// Accepts again.
    fn resume_accepting(&mut self);

    /// Stops accepting for good and closes the listeners.
    fn close_listeners(&mut self);
}

/// Wakes a worker from another thread.
pub trait Waker: Send + Sync {
    /// Makes the worker's `wait` return with [`Done::Woken`].
    fn wake(&self);
}
