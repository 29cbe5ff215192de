//! The blocking back end: a thread that serves one connection at a time, and waits for nothing else meanwhile.
//!
//! ```text
//!   no connection:  wait for the lead ─▶ lead: poll listeners ─▶ accept, pass the lead on
//!   connection:     poll its descriptor, and those of the connections that its session opened, for what is under way,
//!                   until the next deadline
//! ```
//! One idle thread of the pool leads: it alone polls the listeners, so a connection wakes one thread and not all.
//! Processes have no lead, because a killed process could not pass it on. Each waits in an epoll queue of its own,
//! registered exclusively, and the kernel wakes one. (Apache 1.3 used a lock around accept for this.) A connection may
//! also be given to a thread that accepts none itself. Every `poll` also watches the bell, which rings once, when the
//! pool drains. Reading a file's cold pages simply blocks: no other connection waits for this thread.

use super::SETTLED;
use super::accept_mutex::AcceptMutex;
use super::socket::{self, Disk, Pushed, Received};
use super::{Backend, Buf, Done, Id, Op, Out, PRESSED_RECEIVE};
use crate::clock;
use crate::memory::Step;
use crate::peer::{PeerLoss, Upstream};
use crate::roll::Roll;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::Shutdown;
use std::fmt;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use units::{Duration, Instant, UnixTime};

/// Event data that tells the bell from listeners.
const BELL: u64 = u64::MAX;
/// Events taken per system call.
const EVENTS: usize = 16;
/// How often a thread with an idle connection checks whether all places are taken.
const LOOK: Duration = Duration::from_millis(250);
/// How long a connection that was idle longer has to close before this thread checks again.
const YIELDS: Duration = Duration::from_millis(10);

/// State shared by the threads of a pool.
#[derive(Debug)]
pub(crate) struct AcceptLeader {
    lead: Mutex<Lead>,
    passed_on: Condvar,
    bell: OwnedFd,
}

#[derive(Debug, Default)]
struct Lead {
    taken: bool,
    rung: bool,
}

impl AcceptLeader {
    /// # Errors
    /// The system's, if it refuses a descriptor.
    pub(crate) fn new() -> std::io::Result<Arc<AcceptLeader>> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(AcceptLeader {
            lead: Mutex::default(),
            passed_on: Condvar::new(),
            bell,
        }))
    }

    /// Wakes every thread of the pool, permanently.
    pub(crate) fn ring(&self) {
        self.lead().rung = true;
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        self.passed_on.notify_all();
    }

    /// Waits until one of these is readable or the bell rings.
    ///
    /// # Errors
    /// Only errors after which waiting is impossible.
    pub(crate) fn wait_for(&self, listeners: &[Arc<OwnedFd>]) -> std::io::Result<()> {
        let mut polled: Vec<PollFd<'_>> = listeners
            .iter()
            .map(|fd| PollFd::new(&**fd, PollFlags::IN))
            .collect();
        polled.push(PollFd::new(&self.bell, PollFlags::IN));
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn lead(&self) -> MutexGuard<'_, Lead> {
        self.lead.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Connection {
    fd: OwnedFd,
    /// A receive is under way.
    receiving: bool,
    /// Output that waits for room.
    sending: Option<Box<Out>>,
    /// Input may have arrived before any thread waited for it.
    fresh: bool,
    /// It was dialed and is not open yet.
    opening: bool,
}

impl Connection {
    fn new(fd: OwnedFd) -> Connection {
        Connection {
            fd,
            receiving: false,
            sending: None,
            fresh: true,
            opening: false,
        }
    }

    /// Whether it waits for input.
    fn wants_input(&self) -> bool {
        self.receiving
    }

    /// Whether it waits for room for output, or to be open.
    fn wants_room(&self) -> bool {
        self.opening || self.sending.is_some()
    }

    fn held(&self) -> usize {
        self.sending.as_ref().map_or(0, |out| out.cost())
    }
}

/// A connection that the session opened.
#[derive(Debug)]
struct Dialed {
    generation: u32,
    connection: Connection,
}

/// What a thread watches while its connection is idle, so that the connection idle longest can be closed when no thread
/// (or process) is left for a new one. All idle threads wake up then. That is the cost of having no thread beside them,
/// and it arises only when there is no place.
pub(crate) struct Standby {
    roll: Roll,
    /// Listeners whose connections could take this thread's place.
    listeners: Vec<Arc<OwnedFd>>,
    /// Whether there is no place left.
    is_full: Box<dyn Fn() -> bool + Send>,
    /// Another connection was idle longer: it has until this instant to close.
    yields_until: Instant,
}

impl Standby {
    pub(crate) fn new(
        roll: Roll,
        listeners: Vec<Arc<OwnedFd>>,
        is_full: impl Fn() -> bool + Send + 'static,
    ) -> Standby {
        roll.free();
        Standby {
            roll,
            listeners,
            is_full: Box::new(is_full),
            yields_until: Instant::ZERO,
        }
    }
}

impl fmt::Debug for Standby {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Standby")
            .field("roll", &self.roll)
            .finish_non_exhaustive()
    }
}

/// The blocking back end of one thread.
#[derive(Debug)]
pub(crate) struct Blocking {
    leader: Arc<AcceptLeader>,
    /// Empty once this thread has stopped accepting; they close when the last thread drops them.
    listeners: Vec<Arc<OwnedFd>>,
    accept_mutex: AcceptMutex,
    /// Without a lead: the epoll queue for listeners and the bell.
    queue: Option<OwnedFd>,
    generation: u32,
    /// The accepted connection: slot 0.
    connection: Option<Connection>,
    /// Those that its session opened, by slot from 1 on. The last one is there, so the list is empty if there are none.
    dialed: Vec<Option<Dialed>>,
    /// The generation of the next one that is dialed.
    next_dialed: u32,
    /// The thread was asked to stop listening while it had a connection. It serves waiting connections one after
    /// another and ends when none is left.
    last_calls: bool,
    /// Whether this thread has the lead.
    leads: bool,
    /// `Incoming` was reported, and the worker has not yet accepted all waiting connections.
    told: bool,
    /// Whether this thread has seen the bell, which keeps ringing.
    heard: bool,
    /// How it closes its idle connection for others, if places can run out.
    standby: Option<Standby>,
    /// Since when the connection is idle, if it is.
    idle: Option<Instant>,
    /// Bytes received at a time.
    receive_max: usize,
    /// Whether the kernel is to use a small send buffer.
    is_tight: bool,
    buf: Option<Buf>,
}

impl Blocking {
    pub(crate) fn new(
        leader: Arc<AcceptLeader>,
        listeners: Vec<Arc<OwnedFd>>,
        accept_mutex: AcceptMutex,
    ) -> Blocking {
        Blocking {
            leader,
            listeners,
            accept_mutex,
            queue: None,
            generation: 0,
            connection: None,
            dialed: Vec::new(),
            next_dialed: 0,
            last_calls: false,
            leads: false,
            told: false,
            heard: false,
            standby: None,
            idle: None,
            receive_max: Buf::CAPACITY,
            is_tight: false,
            buf: None,
        }
    }

    /// A back end that shares its listeners with other processes.
    ///
    /// # Errors
    /// The system's, if it refuses a descriptor.
    pub(crate) fn among_processes(
        leader: Arc<AcceptLeader>,
        listeners: Vec<Arc<OwnedFd>>,
        accept_mutex: AcceptMutex,
    ) -> std::io::Result<Blocking> {
        let queue = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(
            &queue,
            &leader.bell,
            EventData::new_u64(BELL),
            EventFlags::IN | EventFlags::ET,
        )?;
        for (at, listener) in listeners.iter().enumerate() {
            let flags = EventFlags::IN | EventFlags::EXCLUSIVE;
            epoll::add(&queue, &**listener, EventData::new_u64(at as u64), flags)?;
        }
        let mut blocking = Blocking::new(leader, listeners, accept_mutex);
        blocking.queue = Some(queue);
        Ok(blocking)
    }

    /// Lets an idle connection be closed for one that finds no place.
    pub(crate) fn standing_by(mut self, standby: Standby) -> Blocking {
        self.standby = Some(standby);
        self
    }

    /// The roll, if the thread stands by.
    fn roll(&self) -> Option<&Roll> {
        self.standby.as_ref().map(|standby| &standby.roll)
    }

    /// Waits for input on an idle connection and checks meanwhile whether another connection needs the place. Returns
    /// whether there is input.
    fn wait_idle(
        &mut self,
        fd: &OwnedFd,
        since: Instant,
        until: Option<Instant>,
        done: &mut Vec<Done>,
    ) -> std::io::Result<bool> {
        let Some(standby) = self.standby.take() else {
            return Ok(false);
        };
        let waited = self.wait_standing_by(&standby, fd, since, until);
        let (ready, contended) = match waited {
            Ok(waited) => waited,
            Err(error) => {
                self.standby = Some(standby);
                return Err(error);
            }
        };
        let mut standby = standby;
        if ready {
            standby.roll.busy();
        } else if contended && (standby.is_full)() {
            match standby.roll.is_eldest() {
                true => done.push(Done::Contended { id: self.id() }),
                false => standby.yields_until = clock::now() + YIELDS,
            }
        }
        self.standby = Some(standby);
        Ok(ready)
    }

    /// Whether there is input, and whether a connection waits at a listener.
    fn wait_standing_by(
        &mut self,
        standby: &Standby,
        fd: &OwnedFd,
        since: Instant,
        until: Option<Instant>,
    ) -> std::io::Result<(bool, bool)> {
        let now = clock::now();
        let sooner = |at: Instant| Some(until.map_or(at, |until| until.min(at)));
        let own = (fd, PollFlags::IN);
        let settled = since + SETTLED;
        if now < settled {
            return Ok((!self.poll(&[own], sooner(settled))?.is_empty(), false));
        }
        standby.roll.idle(since);
        if now < standby.yields_until {
            return Ok((
                !self.poll(&[own], sooner(standby.yields_until))?.is_empty(),
                false,
            ));
        }
        let next_look = sooner(now + LOOK);
        if !(standby.is_full)() {
            return Ok((!self.poll(&[own], next_look)?.is_empty(), false));
        }
        let listeners = standby.listeners.iter().map(|fd| (&**fd, PollFlags::IN));
        let fds: Vec<_> = std::iter::once(own).chain(listeners).collect();
        let ready = self.poll(&fds, next_look)?;
        Ok((ready.first() == Some(&0), !ready.is_empty()))
    }

    fn id(&self) -> Id {
        Id {
            index: 0,
            generation: self.generation,
        }
    }

    fn connection(&mut self, id: Id) -> Option<&mut Connection> {
        let Some(at) = id.index.checked_sub(1) else {
            return self
                .connection
                .as_mut()
                .filter(|_| id.generation == self.generation);
        };
        let dialed = self.dialed.get_mut(at as usize)?.as_mut()?;
        (dialed.generation == id.generation).then_some(&mut dialed.connection)
    }

    /// Whether this thread may accept: it has no connection, and leads where one does. When the pool drains, all accept
    /// what still waits.
    fn may_accept(&self) -> bool {
        let is_free = self.leads || self.queue.is_some() || self.last_calls || self.leader.lead().rung;
        self.connection.is_none() && is_free
    }

    fn accept(&mut self, listener: usize) -> Option<Done> {
        if !self.may_accept() {
            self.told = false;
            return None;
        }
        let accepted = self.accept_mutex.accept(self.listeners.get(listener)?);
        // A worker that cannot accept for now pauses and tries again on its own.
        self.told = accepted.is_err();
        match accepted {
            Ok(None) => {
                self.pass_on();
                if self.last_calls {
                    // The other listeners have new indices now and are asked in the next round.
                    self.listeners.remove(listener);
                }
                None
            }
            Ok(Some((fd, peer))) => {
                if self.is_tight {
                    socket::press(&fd);
                }
                self.connection = Some(Connection::new(fd));
                if let Some(roll) = self.roll() {
                    roll.busy();
                }
                Some(Done::Accepted { id: self.id(), peer })
            }
            Err(errno) => Some(Done::AcceptFailed { errno }),
        }
    }

    fn receive(&mut self, id: Id) -> Option<Done> {
        let mut buf = self.buf.take().unwrap_or_else(Buf::new);
        let most = self.receive_max;
        let connection = self.connection(id)?;
        let received = match connection.fresh {
            true => socket::receive(&connection.fd, &mut buf, most),
            false => Received::Nothing,
        };
        connection.receiving = false;
        let done = match received {
            Received::Bytes { all } => {
                connection.fresh = !all;
                return Some(Done::Recv { id, buf });
            }
            Received::Eof => Some(Done::Eof { id }),
            Received::Lost(loss) => Some(Done::Failed { id, loss }),
            Received::Nothing => {
                connection.fresh = false;
                connection.receiving = true;
                None
            }
        };
        self.buf = Some(buf);
        done
    }

    fn send(&mut self, id: Id, mut out: Box<Out>) -> Option<Done> {
        let is_tight = self.is_tight;
        let connection = self.connection(id)?;
        if is_tight {
            socket::press(&connection.fd);
        }
        loop {
            match socket::push(&connection.fd, &mut out, Disk::Wait, socket::ALL, None) {
                Pushed::All => return Some(Done::Sent { id, out }),
                Pushed::Lost(loss) => return Some(Done::Failed { id, loss }),
                // No other connection waits for this thread.
                Pushed::Enough | Pushed::Cold(_) => {}
                Pushed::Blocked => {
                    let bytes = std::mem::take(&mut out.unreported);
                    socket::shrink(&mut out);
                    connection.sending = Some(out);
                    return (bytes > 0).then_some(Done::Progress { id, bytes });
                }
            }
        }
    }

    fn resume(&mut self, id: Id) -> Option<Done> {
        let out = self.connection(id)?.sending.take()?;
        self.send(id, out)
    }

    fn close(&mut self, id: Id) {
        if self.connection(id).is_none() {
            return;
        }
        if let Some(at) = id.index.checked_sub(1) {
            self.dialed[at as usize] = None;
            while self.dialed.last().is_some_and(Option::is_none) {
                self.dialed.pop();
            }
            return;
        }
        self.connection = None;
        if let Some(roll) = self.roll() {
            roll.free();
        }
        self.generation = (self.generation + 1) % u32::MAX;
    }

    /// Waits for what is under way on the accepted connection and on those that its session opened.
    fn wait_for_all(&mut self, until: Option<Instant>, done: &mut Vec<Done>) -> std::io::Result<()> {
        let own = self.id();
        let (connection, dialed) = (self.connection.take(), std::mem::take(&mut self.dialed));
        let opened = (1..).zip(&dialed).filter_map(|(index, slot)| {
            let generation = slot.as_ref()?.generation;
            Some((Id { index, generation }, &slot.as_ref()?.connection))
        });
        let all = connection
            .iter()
            .map(|connection| (own, connection))
            .chain(opened);
        // A descriptor that waits for both is there twice, so that each says what it is ready for.
        let (mut waits, mut fds) = (Vec::new(), Vec::new());
        for (id, connection) in all {
            for (wants, is_input) in [(connection.wants_room(), false), (connection.wants_input(), true)] {
                if wants {
                    waits.push((id, is_input));
                    fds.push((
                        &connection.fd,
                        if is_input { PollFlags::IN } else { PollFlags::OUT },
                    ));
                }
            }
        }
        let ready = self.poll(&fds, until);
        drop(fds);
        (self.connection, self.dialed) = (connection, dialed);
        for at in ready? {
            let (id, is_input) = waits[at];
            if is_input && let Some(connection) = self.connection(id) {
                connection.fresh = true;
            }
            done.push(match is_input {
                true => Done::Input { id },
                false => Done::Ready { id },
            });
        }
        Ok(())
    }

    fn pass_on(&mut self) {
        if std::mem::take(&mut self.leads) {
            self.leader.lead().taken = false;
            self.leader.passed_on.notify_one();
        }
    }

    /// Waits for the lead until `until`; returns whether this thread has it then.
    fn take_lead(&mut self, until: Option<Instant>) -> bool {
        let mut lead = self.leader.lead();
        while lead.taken {
            if lead.rung && !self.heard {
                self.heard = true;
                return false;
            }
            lead = match until {
                None => self
                    .leader
                    .passed_on
                    .wait(lead)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.since(clock::now());
                    if left.is_zero() {
                        return false;
                    }
                    let waited = self.leader.passed_on.wait_timeout(lead, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        lead.taken = true;
        self.leads = true;
        true
    }

    /// Waits for one of these or the bell until `until`; returns the index of the ready one.
    fn poll(&mut self, fds: &[(&OwnedFd, PollFlags)], until: Option<Instant>) -> std::io::Result<Vec<usize>> {
        let leader = Arc::clone(&self.leader);
        let mut polled: Vec<PollFd<'_>> = fds.iter().map(|(fd, want)| PollFd::new(*fd, *want)).collect();
        if !self.heard {
            polled.push(PollFd::new(&leader.bell, PollFlags::IN));
        }
        match poll(&mut polled, until.map(timeout).as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        self.heard |= polled.get(fds.len()).is_some_and(ready);
        Ok((0..fds.len()).filter(|&at| ready(&polled[at])).collect())
    }

    fn wait_for_connection(&mut self, until: Option<Instant>, done: &mut Vec<Done>) -> std::io::Result<()> {
        if self.listeners.is_empty() || self.last_calls {
            self.pass_on();
            return self.poll(&[], until).map(drop);
        }
        if self.told {
            // Keeps the lead: another thread would find the same limit.
            return self.poll(&[], until).map(drop);
        }
        if self.queue.is_some() {
            return self.wait_in_queue(until, done);
        }
        if !self.leads && !self.take_lead(until) {
            return Ok(());
        }
        let listeners = self.listeners.clone();
        let fds: Vec<_> = listeners.iter().map(|fd| (&**fd, PollFlags::IN)).collect();
        let ready = self.poll(&fds, until)?;
        if ready.is_empty() {
            self.pass_on();
        }
        self.told = !ready.is_empty();
        done.extend(ready.into_iter().map(|listener| Done::Incoming { listener }));
        Ok(())
    }
}

impl Blocking {
    fn wait_in_queue(&mut self, until: Option<Instant>, done: &mut Vec<Done>) -> std::io::Result<()> {
        let Some(queue) = &self.queue else {
            return Ok(());
        };
        let mut room = [const { MaybeUninit::<Event>::uninit() }; EVENTS];
        match epoll::wait(queue, &mut room, until.map(timeout).as_ref()) {
            Ok((events, _)) => {
                for event in events {
                    match event.data.u64() {
                        BELL => self.heard = true,
                        at => done.push(Done::Incoming {
                            listener: at as usize,
                        }),
                    }
                }
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        self.told = !done.is_empty();
        Ok(())
    }
}

/// Time left until `until`.
fn timeout(until: Instant) -> Timespec {
    let left = until.since(clock::now());
    // At most one day: a longer wait is repeated.
    Timespec {
        tv_sec: left.as_secs().min(86_400) as i64,
        tv_nsec: i64::from(left.subsec_nanos()),
    }
}

impl Drop for Blocking {
    /// A thread that panics while it leads must pass the lead on.
    fn drop(&mut self) {
        if let Some(roll) = self.roll() {
            roll.free();
        }
        self.pass_on();
    }
}

impl Backend for Blocking {
    fn submit(&mut self, op: Op) -> Option<Done> {
        if !matches!(op, Op::Accept { .. }) {
            // The connection that was accepted counts by now. Whoever leads next compares with the limit.
            self.pass_on();
        }
        match op {
            Op::Accept { listener } => self.accept(listener),
            Op::Recv { id } => self.receive(id),
            Op::Pause { id } => {
                if let Some(connection) = self.connection(id) {
                    connection.receiving = false;
                }
                None
            }
            Op::Send { id, out } => self.send(id, out),
            Op::Resume { id, .. } => self.resume(id),
            Op::ShutdownWrite { id } => {
                // Fails only if the connection is gone; the next receive reports that.
                if let Some(connection) = self.connection(id) {
                    let _ = rustix::net::shutdown(&connection.fd, Shutdown::Write);
                }
                None
            }
            Op::Close { id } => {
                self.close(id);
                None
            }
            Op::Abort { id } => {
                if let Some(connection) = self.connection(id) {
                    socket::reset_when_closed(&connection.fd);
                }
                self.close(id);
                None
            }
            Op::StopListening => {
                // Other processes may hold the listeners, so only closing the queue ends its events.
                self.queue = None;
                self.standby = None;
                self.listeners
                    .retain(|listener| self.connection.is_some() && socket::is_awaited(listener));
                self.last_calls = !self.listeners.is_empty();
                self.pass_on();
                None
            }
        }
    }

    fn is_awaited(&mut self, listener: usize) -> bool {
        let listener = self.listeners.get(listener).filter(|_| self.may_accept());
        self.told = listener.is_some_and(|listener| socket::is_awaited(listener));
        if !self.told && self.connection.is_none() {
            self.pass_on();
        }
        self.told
    }

    fn wait(&mut self, until: Option<Instant>, done: &mut Vec<Done>) -> std::io::Result<Instant> {
        if self.connection.is_some() && !self.dialed.is_empty() {
            self.pass_on();
            self.wait_for_all(until, done)?;
            return Ok(clock::now());
        }
        let Some(mut connection) = self.connection.take() else {
            self.wait_for_connection(until, done)?;
            return Ok(clock::now());
        };
        // A connection that did not come by leading (the last of the accept queue): pass the lead on.
        self.pass_on();
        let (mut input, mut room) = (PollFlags::empty(), PollFlags::empty());
        if connection.receiving {
            input = PollFlags::IN;
        }
        if connection.sending.is_some() {
            room = PollFlags::OUT;
        }
        let want = input | room;
        let idle = self
            .idle
            .filter(|_| self.standby.is_some() && want == PollFlags::IN);
        let ready = match idle {
            Some(since) => match self.wait_idle(&connection.fd, since, until, done) {
                Ok(true) => Ok(PollFlags::IN),
                Ok(false) => Ok(PollFlags::empty()),
                Err(error) => Err(error),
            },
            None if want.is_empty() => self.poll(&[], until).map(|_| PollFlags::empty()),
            // Twice the descriptor, so that each says what it is ready for.
            None if !input.is_empty() && !room.is_empty() => self
                .poll(&[(&connection.fd, input), (&connection.fd, room)], until)
                .map(|ready| {
                    let of = |at, flags| match ready.contains(&at) {
                        true => flags,
                        false => PollFlags::empty(),
                    };
                    of(0, input) | of(1, room)
                }),
            None => self
                .poll(&[(&connection.fd, want)], until)
                .map(|ready| match ready.is_empty() {
                    true => PollFlags::empty(),
                    false => want,
                }),
        };
        if let Ok(ready) = ready {
            let id = self.id();
            if ready.contains(PollFlags::OUT) {
                done.push(Done::Ready { id });
            }
            if ready.contains(PollFlags::IN) {
                connection.fresh = true;
                done.push(Done::Input { id });
            }
        }
        self.connection = Some(connection);
        ready.map(|_| clock::now())
    }

    fn owes(&self) -> bool {
        self.last_calls && !self.listeners.is_empty()
    }

    fn held(&self) -> usize {
        let opened = self.dialed.iter().flatten().map(|dialed| &dialed.connection);
        self.connection.iter().chain(opened).map(Connection::held).sum()
    }

    fn press(&mut self, step: Step) {
        self.receive_max = match step {
            Step::Calm => Buf::CAPACITY,
            _ => PRESSED_RECEIVE,
        };
        self.is_tight = step >= Step::Idle;
    }

    fn stands_by(&self) -> bool {
        self.standby.is_some()
    }

    fn idle(&mut self, since: Option<Instant>) {
        self.idle = since;
    }

    fn recycle(&mut self, buf: Buf) {
        self.buf = Some(buf);
    }

    fn release(&mut self, id: Id) -> Option<OwnedFd> {
        let connection = self.connection.take_if(|_| {
            id == Id {
                index: 0,
                generation: self.generation,
            }
        })?;
        if let Some(roll) = self.roll() {
            roll.free();
        }
        self.generation = (self.generation + 1) % u32::MAX;
        Some(connection.fd)
    }

    fn adopt(&mut self, fd: OwnedFd) -> Option<Id> {
        if self.connection.is_some() {
            return None;
        }
        self.connection = Some(Connection::new(fd));
        if let Some(roll) = self.roll() {
            roll.busy();
        }
        Some(self.id())
    }

    fn dial(&mut self, to: &Upstream) -> Result<Id, PeerLoss> {
        let connection = Connection::new(socket::open(to)?);
        let generation = self.next_dialed;
        self.next_dialed = (generation + 1) % u32::MAX;
        let dialed = Some(Dialed {
            generation,
            connection,
        });
        let free = self.dialed.iter().position(Option::is_none);
        let at = free.unwrap_or(self.dialed.len());
        match free {
            Some(at) => self.dialed[at] = dialed,
            None => self.dialed.push(dialed),
        }
        Ok(Id {
            index: at as u32 + 1,
            generation,
        })
    }

    fn opened(&mut self, id: Id) -> Option<Result<(), i32>> {
        let connection = self.connection(id)?;
        let opened = socket::opened(&connection.fd);
        connection.opening = opened.is_none();
        opened
    }

    /// A thread waits for nothing besides its one connection, so nobody would notice that the other end closes.
    fn keeps_unused(&self) -> bool {
        false
    }

    fn socket(&mut self, id: Id) -> Option<&OwnedFd> {
        Some(&self.connection(id)?.fd)
    }

    fn wall(&self) -> UnixTime {
        clock::wall()
    }

    fn now(&self) -> Instant {
        clock::now()
    }
}
