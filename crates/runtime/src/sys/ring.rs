//! An io_uring whose operations own the memory that the kernel reads and writes.
//!
//! ```text
//!   send(out) ──▶ flight: holds `out` ──── completion ──▶ Sent { out }
//!   receive() ──▶ (nothing held) ── completion takes a provided buffer ──▶ Received(buf) ──▶ recycle
//! ```
//! Memory moves into an operation and returns with its completion, so no pointer held by the kernel can dangle: the
//! only sound rule for a ring. Dropping the ring cancels operations under way and waits for them. If the submission
//! queue is full, an operation submits the queue first. If the completion queue is full, the kernel keeps completions
//! (`IORING_FEAT_NODROP`), and they come with a later [`Ring::enter`].
//!
//! Descriptors of queued operations are plain numbers, so the ring also closes descriptors, after the operations queued
//! before ([`Ring::close`]). Decides nothing about connections. See `io_uring(7)`, `io_uring_setup(2)`.

use super::provided::Provided;
use crate::buffer::{Buf, Outgoing};
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{CancelBuilder, Fd, TimeoutFlags, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode};
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use units::Instant;

/// The sizes of a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Operations queued between two system calls.
    pub(crate) submissions: u32,
    /// Completions the kernel keeps in shared memory.
    pub(crate) completions: u32,
    /// Receive buffers; a power of two.
    pub(crate) buffers: u16,
    /// Bytes of each.
    pub(crate) buffer: usize,
}

/// A completion. `more`: the operation continues and further completions follow.
pub(crate) enum Completion<O> {
    /// Of a receive: a filled buffer, or none at the end of input.
    Received {
        token: u64,
        result: Result<Option<Buf>, i32>,
        more: bool,
    },
    /// Of a send: the number of bytes sent, and the output.
    Sent {
        token: u64,
        result: Result<usize, i32>,
        out: Box<O>,
    },
    /// Of an accept.
    Accepted {
        token: u64,
        result: Result<OwnedFd, i32>,
        more: bool,
    },
    /// Of a poll or a timer.
    Signaled { token: u64, more: bool },
}

/// The upper bits of the kernel's user data: the kind of operation. The rest is the caller's token or the number of a
/// flight.
const KIND_SHIFT: u32 = 61;
const RECEIVE: u64 = 1 << KIND_SHIFT;
const SEND: u64 = 2 << KIND_SHIFT;
const ACCEPT: u64 = 3 << KIND_SHIFT;
const SIGNAL: u64 = 4 << KIND_SHIFT;
/// Cancel and close operations: only failures complete, and those are ignored.
const QUIET: u64 = 5 << KIND_SHIFT;
const TOKEN: u64 = (1 << KIND_SHIFT) - 1;

/// The only buffer group.
const GROUP: u16 = 0;
/// How often dropping a ring checks whether everything is canceled.
const LAST_LOOKS: u32 = 1000;

/// A send under way, at a stable address.
struct Flight<O> {
    token: u64,
    out: Option<Box<O>>,
    message: libc::msghdr,
    pieces: [libc::iovec; 2],
}

/// Identifies a send, to cancel it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u32);

/// A ring that sends outputs of one type.
pub(crate) struct Ring<O: Outgoing + 'static> {
    ring: IoUring,
    provided: Provided,
    #[expect(
        clippy::vec_box,
        reason = "the kernel has pointers into them, so they must not move"
    )]
    flights: Vec<Box<Flight<O>>>,
    free_flights: Vec<u32>,
    /// Operations that found the submission queue full, in order.
    waiting: VecDeque<Entry>,
    /// Operations whose last completion has not been seen.
    under_way: usize,
    enabled: bool,
    /// Read by the kernel when a timer is submitted.
    timer: Box<Timespec>,
}

// SAFETY: the raw pointers inside are to memory this value alone owns; the ring is used from one thread
// at a time, as `&mut self` demands. (The kernel further insists on the thread that enabled it.)
unsafe impl<O: Outgoing + Send + 'static> Send for Ring<O> {}

impl<O: Outgoing + 'static> Ring<O> {
    /// A ring that runs once it is [enabled](Ring::enable), possibly on another thread.
    ///
    /// # Errors
    /// The kernel's: `ENOSYS`, `EPERM` or `EACCES` if io_uring is not available, `EINVAL` if it lacks a feature used
    /// here (Linux 6.1 has all), or an error for lack of descriptors or memory.
    pub(crate) fn new(sizes: Sizes) -> std::io::Result<Ring<O>> {
        let ring = IoUring::builder()
            .setup_cqsize(sizes.completions)
            .setup_clamp()
            // Continue with the rest if one operation is rejected.
            .setup_submit_all()
            // Completions are processed when this thread asks for them, without interrupting it.
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_r_disabled()
            .build(sizes.submissions)?;
        let provided = Provided::new(sizes.buffers, sizes.buffer)?;
        let (address, count) = provided.address();
        // SAFETY: the ring of buffers is page-aligned, has `count` entries, and lives until after the
        // io_uring is closed: `drop` sees to that.
        unsafe {
            ring.submitter()
                .register_buf_ring_with_flags(address, count, GROUP, 0)?
        };
        Ok(Ring {
            ring,
            provided,
            flights: Vec::new(),
            free_flights: Vec::new(),
            waiting: VecDeque::new(),
            under_way: 0,
            enabled: false,
            timer: Box::new(Timespec::new()),
        })
    }

    /// Binds the ring to this thread, the only one that may use it from now on.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn enable(&mut self) -> std::io::Result<()> {
        self.ring.submitter().register_enable_rings()?;
        self.enabled = true;
        Ok(())
    }

    /// Completions that fit into shared memory: no single operation completes more at once.
    pub(crate) fn completions(&self) -> usize {
        self.ring.params().cq_entries() as usize
    }

    /// Accepts one connection, or (`multishot`) all that arrive until it fails or is canceled. Sockets are
    /// non-blocking.
    pub(crate) fn accept(&mut self, listener: BorrowedFd<'_>, token: u64, multishot: bool) {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let listener = Fd(listener.as_raw_fd());
        let entry = match multishot {
            true => opcode::AcceptMulti::new(listener).flags(flags).build(),
            false => opcode::Accept::new(listener, std::ptr::null_mut(), std::ptr::null_mut())
                .flags(flags)
                .build(),
        };
        self.start(entry, ACCEPT | token);
    }

    /// Receives everything that arrives until the end of input, a failure, a lack of buffers or a cancel.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>, token: u64) {
        let entry = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP).build();
        self.start(entry, RECEIVE | token);
    }

    /// Sends the in-memory part of `out`, as far as the kernel accepts it in one go.
    pub(crate) fn send(&mut self, socket: BorrowedFd<'_>, token: u64, out: Box<O>) -> Ticket {
        let number = self.free_flights.pop().unwrap_or_else(|| {
            self.flights.push(Box::new(Flight {
                token,
                out: None,
                // SAFETY: plain numbers and pointers, for which zero is a value.
                message: unsafe { std::mem::zeroed() },
                // SAFETY: as above.
                pieces: unsafe { std::mem::zeroed() },
            }));
            (self.flights.len() - 1) as u32
        });
        let flight = &mut *self.flights[number as usize];
        flight.token = token;
        let out = flight.out.insert(out);
        let socket = Fd(socket.as_raw_fd());
        let head = out.head_left();
        // The kernel reads memory that `out` lends as long as it is borrowed. Nothing touches or moves the output in its
        // box until completion, and as `O` is 'static, the memory is not borrowed from anything that may end before.
        let entry = match out.body_left() {
            Some(body) if !body.is_empty() => {
                let piece = |bytes: &[u8]| libc::iovec {
                    iov_base: bytes.as_ptr().cast_mut().cast(),
                    iov_len: bytes.len(),
                };
                flight.pieces = [piece(head), piece(body)];
                flight.message.msg_iov = flight.pieces.as_mut_ptr();
                flight.message.msg_iovlen = flight.pieces.len() as _;
                opcode::SendMsg::new(socket, &raw const flight.message)
                    .flags(libc::MSG_NOSIGNAL as u32)
                    .build()
            }
            _ => opcode::Send::new(
                socket,
                head.as_ptr(),
                u32::try_from(head.len()).unwrap_or(u32::MAX),
            )
            .flags(libc::MSG_NOSIGNAL)
            .build(),
        };
        self.start(entry, SEND | u64::from(number));
        Ticket(number)
    }

    /// Signals once when the socket has room for output.
    pub(crate) fn await_room(&mut self, socket: BorrowedFd<'_>, token: u64) {
        let entry = opcode::PollAdd::new(Fd(socket.as_raw_fd()), libc::POLLOUT as u32).build();
        self.start(entry, SIGNAL | token);
    }

    /// Signals whenever there is input.
    pub(crate) fn await_input(&mut self, fd: BorrowedFd<'_>, token: u64) {
        let entry = opcode::PollAdd::new(Fd(fd.as_raw_fd()), libc::POLLIN as u32)
            .multi(true)
            .build();
        self.start(entry, SIGNAL | token);
    }

    /// Signals at this time.
    pub(crate) fn start_timer(&mut self, token: u64, at: Instant) {
        self.set_time(at);
        let entry = opcode::Timeout::new(&raw const *self.timer)
            .flags(TimeoutFlags::ABS)
            .build();
        self.start(entry, SIGNAL | token);
    }

    /// Moves a started timer; if it fired meanwhile, it has signaled.
    pub(crate) fn move_timer(&mut self, token: u64, at: Instant) {
        self.set_time(at);
        let entry = opcode::TimeoutUpdate::new(SIGNAL | token, &raw const *self.timer)
            .flags(TimeoutFlags::ABS)
            .build();
        self.push(entry.user_data(QUIET).flags(Flags::SKIP_SUCCESS));
    }

    fn set_time(&mut self, at: Instant) {
        let nanos = at.as_nanos().max(1);
        // A timer still queued would be set to this instead, which has the desired effect as well.
        *self.timer = Timespec::new()
            .sec(nanos / 1_000_000_000)
            .nsec((nanos % 1_000_000_000) as u32);
    }

    /// Cancels a receive; its last completion reports that.
    pub(crate) fn cancel_receive(&mut self, token: u64) {
        self.cancel(RECEIVE | token);
    }

    /// Cancels a send; its completion returns the output.
    pub(crate) fn cancel_send(&mut self, ticket: Ticket) {
        self.cancel(SEND | u64::from(ticket.0));
    }

    /// Cancels an accept.
    pub(crate) fn cancel_accept(&mut self, token: u64) {
        self.cancel(ACCEPT | token);
    }

    /// Cancels a poll.
    pub(crate) fn cancel_poll(&mut self, token: u64) {
        self.cancel(SIGNAL | token);
    }

    fn cancel(&mut self, user_data: u64) {
        let entry = opcode::AsyncCancel::new(user_data).build();
        self.push(entry.user_data(QUIET).flags(Flags::SKIP_SUCCESS));
    }

    /// Closes a descriptor, after the operations queued before.
    pub(crate) fn close(&mut self, fd: OwnedFd) {
        let entry = opcode::Close::new(Fd(fd.into_raw_fd())).build();
        self.push(entry.user_data(QUIET).flags(Flags::SKIP_SUCCESS));
    }

    fn start(&mut self, entry: Entry, user_data: u64) {
        self.under_way += 1;
        self.push(entry.user_data(user_data));
    }

    fn push(&mut self, entry: Entry) {
        if self.waiting.is_empty() {
            if self.try_push(&entry) {
                return;
            }
            self.submit();
            if self.try_push(&entry) {
                return;
            }
        }
        self.waiting.push_back(entry);
    }

    fn try_push(&mut self, entry: &Entry) -> bool {
        // SAFETY: all an entry points to is owned by this ring until its completion was seen: outputs and
        // message headers by flights, the timer's time by `self.timer` until submitted.
        unsafe { self.ring.submission().push(entry).is_ok() }
    }

    /// Submits queued operations. Those the kernel rejects for now stay queued.
    fn submit(&mut self) {
        // Its errors are temporary: no memory, or completions that must be taken first.
        let _ = self.call(0, EnterFlags::empty());
    }

    /// Submits queued operations, lets the kernel complete what it can and, if `wait`, waits for at least one
    /// completion.
    ///
    /// # Errors
    /// Only errors after which the ring cannot continue.
    pub(crate) fn enter(&mut self, wait: bool) -> std::io::Result<()> {
        while let Some(entry) = self.waiting.pop_front() {
            if !self.try_push(&entry) {
                self.waiting.push_front(entry);
                let before = self.ring.submission().len();
                self.submit();
                if self.ring.submission().len() == before {
                    break;
                }
            }
        }
        let enough = u32::from(wait && self.waiting.is_empty());
        match self.call(enough, EnterFlags::GETEVENTS) {
            Err(error) if !is_of_the_moment(&error) => Err(error),
            _ => Ok(()),
        }
    }

    fn call(&mut self, enough: u32, flags: EnterFlags) -> std::io::Result<usize> {
        let queued = self.ring.submission().len() as u32;
        let submitter = self.ring.submitter();
        // SAFETY: the flags ask for no further argument, and none is given.
        unsafe { submitter.enter::<libc::sigset_t>(queued, enough, flags.bits(), None) }
    }

    /// The next available completion.
    pub(crate) fn next(&mut self) -> Option<Completion<O>> {
        loop {
            let entry = self.ring.completion().next()?;
            if let Some(completion) = self.understand(&entry) {
                return Some(completion);
            }
        }
    }

    fn understand(&mut self, entry: &cqueue::Entry) -> Option<Completion<O>> {
        let more = cqueue::more(entry.flags());
        let kind = entry.user_data() & !TOKEN;
        let token = entry.user_data() & TOKEN;
        let result = usize::try_from(entry.result()).map_err(|_| -entry.result());
        if kind != QUIET && !more {
            self.under_way -= 1;
        }
        match kind {
            RECEIVE => {
                let len = result.unwrap_or(0);
                let buf = cqueue::buffer_select(entry.flags()).map(|number| self.provided.take(number, len));
                let result = match (result, buf) {
                    (Ok(1..), Some(buf)) => Ok(Some(buf)),
                    (result, unused) => {
                        if let Some(buf) = unused {
                            self.provided.give(buf);
                        }
                        result.map(|_| None)
                    }
                };
                Some(Completion::Received { token, result, more })
            }
            SEND => {
                let flight = &mut *self.flights[token as usize];
                let out = flight.out.take().expect("a flight completes once");
                self.free_flights.push(token as u32);
                Some(Completion::Sent {
                    token: flight.token,
                    result,
                    out,
                })
            }
            ACCEPT => {
                // SAFETY: the kernel has just opened it for us, and says its number once.
                let result = result.map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) });
                Some(Completion::Accepted { token, result, more })
            }
            SIGNAL => Some(Completion::Signaled { token, more }),
            _ => None,
        }
    }

    /// Takes back the buffer of a receive; returns one that was not lent from here.
    pub(crate) fn recycle(&mut self, buf: Buf) -> Option<Buf> {
        self.provided.give(buf)
    }
}

impl<O: Outgoing + 'static> Drop for Ring<O> {
    /// Closes pending descriptors, cancels everything, and waits for the kernel to release our memory.
    fn drop(&mut self) {
        if !self.enabled {
            return;
        }
        let entry = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
        self.push(entry.user_data(QUIET));
        for _ in 0..LAST_LOOKS {
            let entered = self.enter(false);
            while self.next().is_some() {}
            if entered.is_err() || (self.under_way == 0 && self.waiting.is_empty()) {
                break;
            }
        }
        if self.under_way > 0 {
            // The kernel may still read or write this memory, so it is leaked rather than reused.
            std::mem::forget(std::mem::take(&mut self.flights));
            self.provided.leak();
        }
    }
}

/// Whether a failed call may succeed next time: a signal came, completions must be taken first, or the kernel was out
/// of memory.
fn is_of_the_moment(error: &std::io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINTR | libc::EBUSY | libc::EAGAIN)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    struct Plain(Vec<u8>, Option<Vec<u8>>);

    impl Outgoing for Plain {
        fn head_left(&self) -> &[u8] {
            &self.0
        }

        fn body_left(&self) -> Option<&[u8]> {
            self.1.as_deref()
        }
    }

    #[test]
    fn head_and_body_leave_together_and_the_output_returns() {
        const SIZES: Sizes = Sizes {
            submissions: 4,
            completions: 16,
            buffers: 2,
            buffer: 64,
        };
        let made = Ring::<Plain>::new(SIZES).and_then(|mut ring| ring.enable().map(|()| ring));
        let mut ring = match made {
            Ok(ring) => ring,
            Err(error) => return println!("skipped: no io_uring: {error}"),
        };
        for (body, whole) in [(None, "head"), (Some(b"body".to_vec()), "headbody")] {
            let (ours, mut theirs) = UnixStream::pair().expect("a pair");
            ring.send(ours.as_fd(), 7, Box::new(Plain(b"head".to_vec(), body.clone())));
            let completion = loop {
                ring.enter(true).expect("the ring works");
                if let Some(completion) = ring.next() {
                    break completion;
                }
            };
            let Completion::Sent { token, result, out } = completion else {
                panic!("not the completion of a send");
            };
            assert_eq!((token, result), (7, Ok(whole.len())));
            assert_eq!((out.0, out.1), (b"head".to_vec(), body));
            drop(ours);
            let mut received = String::new();
            theirs.read_to_string(&mut received).expect("what was sent");
            assert_eq!(received, whole);
        }
    }
}
