//! The connections that an endpoint has opened to other hosts, beside its socket: the peers of a worker of TCP connections,
//! on an event loop that its thread looks at whenever something happens there.
//!
//! ```text
//!   endpoint ── next_ask ─▶ peers ─▶ epoll          the thread waits for epoll's descriptor among others
//!            ◀─ peer ────── news  ◀─
//! ```
//! Decides when peers have their turn; what they do is in [`peers`](crate::concurrency::peers).

use super::{Asked, Endpoint};
use crate::concurrency::peers::{Ground, News, Outcome, Parting, Peers, Spare};
use crate::io::accept_mutex::AcceptMutex;
use crate::io::epoll::{Epoll, Waker};
use crate::io::{Backend, Done, Id};
use crate::manner::Writing;
use crate::memory::{Budget, Step};
use crate::peer::{Ask, Dialing};
use crate::timer::Wheel;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use units::{Duration, Instant};

/// Granularity of the time for a connection to open or to stay parked.
const TICK: Duration = Duration::from_millis(250);

/// Receives in one turn, over all peers, before datagrams that arrived have their turn.
const RECEIVES_MAX: u32 = 64;

/// What sessions are told of shared connections at a time.
const NEWS_MAX: u32 = 4_096;

/// The peers of one endpoint.
#[derive(Debug)]
pub(super) struct Upstreams {
    backend: Epoll,
    wheel: Wheel,
    peers: Peers<u64>,
    budget: Arc<Budget>,
    /// Bytes reported to the budget, and what it asked for.
    held: usize,
    step: Step,
    is_draining: bool,
    /// Receives left in this turn, and those that wait for the next.
    receives_left: u32,
    later: Vec<Id>,
    done: Vec<Done>,
    due: Vec<u32>,
}

/// What an endpoint keeps idle.
struct IdleOf<'e, E>(&'e E);

impl<E: Endpoint> Spare for IdleOf<'_, E> {
    fn close_spare(&self) -> bool {
        self.0.close_idle()
    }
}

impl Upstreams {
    /// # Errors
    /// The system's, if it refuses descriptors.
    pub(super) fn new((bounds, budget): (Dialing, Arc<Budget>), now: Instant) -> io::Result<Upstreams> {
        Ok(Upstreams {
            backend: Epoll::new(Vec::new(), AcceptMutex::Open, &Waker::new()?)?,
            wheel: Wheel::new(now, TICK),
            peers: Peers::new(Some(bounds)),
            budget,
            held: 0,
            step: Step::default(),
            is_draining: false,
            receives_left: RECEIVES_MAX,
            later: Vec::new(),
            done: Vec::new(),
            due: Vec::new(),
        })
    }

    /// Readable while something has happened to peers.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.backend.fd()
    }

    /// When it must have a turn even if nothing happens.
    pub(super) fn next(&self) -> Option<Instant> {
        match self.later.is_empty() && !self.backend.has_more() && !self.peers.has_news() {
            true => self.wheel.next(),
            false => Some(Instant::ZERO),
        }
    }

    /// The event loop ends: nothing is parked any more.
    pub(super) fn drain(&mut self, now: Instant) {
        self.is_draining = true;
        self.close_parked(now);
    }

    fn close_parked(&mut self, now: Instant) {
        let (peers, mut ground) = self.split(now);
        peers.close_parked(&mut ground);
    }

    fn split(&mut self, now: Instant) -> (&mut Peers<u64>, Ground<'_, Epoll>) {
        let ground = Ground {
            backend: &mut self.backend,
            wheel: &mut self.wheel,
            spare: None,
            writing: Writing::default(),
            is_draining: self.is_draining,
            now,
        };
        (&mut self.peers, ground)
    }

    /// Takes in what has happened.
    ///
    /// # Errors
    /// Those after which the event loop cannot continue.
    pub(super) fn turn<E: Endpoint>(&mut self, endpoint: &mut E, now: Instant) -> io::Result<()> {
        self.receives_left = RECEIVES_MAX;
        if !self.peers.are_any() {
            return Ok(());
        }
        let mut done = std::mem::take(&mut self.done);
        self.backend.wait(Some(Instant::ZERO), &mut done)?;
        for id in std::mem::take(&mut self.later) {
            let (peers, mut ground) = self.split(now);
            let outcome = peers.go_on(&mut ground, id);
            self.tell(endpoint, outcome, now);
        }
        for done in done.drain(..) {
            let (peers, mut ground) = self.split(now);
            let outcome = peers.take(&mut ground, done);
            self.tell(endpoint, outcome, now);
        }
        self.done = done;
        let mut due = std::mem::take(&mut self.due);
        self.wheel.expire(now, &mut due);
        for index in due.drain(..) {
            let (peers, mut ground) = self.split(now);
            let outcome = peers.expire(&mut ground, index);
            self.tell(endpoint, outcome, now);
        }
        self.due = due;
        self.tell_news(endpoint, now);
        self.relieve(now);
        Ok(())
    }

    /// Carries out what the endpoint asks. Returns whether it was told anything.
    pub(super) fn carry_out<E: Endpoint>(&mut self, endpoint: &mut E, now: Instant) -> bool {
        let mut was_told = false;
        while let Some(asked) = endpoint.next_ask() {
            let (owner, ticket, ask) = match asked {
                Asked::Of(owner, ticket, ask) => (owner, ticket, ask),
                Asked::Over(owner) => {
                    let (peers, mut ground) = self.split(now);
                    peers.part_with_all(&mut ground, owner, Parting::Reset);
                    continue;
                }
            };
            let may_read = self.receives_left > 0;
            if may_read && ask == Ask::Read {
                self.receives_left -= 1;
            }
            let spare = IdleOf(endpoint);
            let (peers, mut ground) = self.split(now);
            ground.spare = Some(&spare);
            let outcome = peers.ask(&mut ground, owner, (ticket, ask), may_read);
            was_told |= self.tell(endpoint, outcome, now);
        }
        was_told | self.tell_news(endpoint, now)
    }

    /// Tells the endpoint what happened on connections that its sessions share; whether there was something to tell.
    fn tell_news<E: Endpoint>(&mut self, endpoint: &mut E, now: Instant) -> bool {
        let mut was_told = false;
        for _ in 0..NEWS_MAX {
            if !self.peers.has_news() {
                break;
            }
            let (peers, mut ground) = self.split(now);
            let outcome = peers.next(&mut ground);
            was_told |= self.tell(endpoint, outcome, now);
        }
        was_told
    }

    /// Tells the endpoint what came of a call; whether there was something to tell.
    fn tell<E: Endpoint>(&mut self, endpoint: &mut E, outcome: Outcome<u64>, now: Instant) -> bool {
        match outcome {
            Outcome::Nothing => false,
            Outcome::Later(id) => {
                self.later.push(id);
                false
            }
            Outcome::Told(owner, ticket, news) => {
                endpoint.peer(owner, ticket, news.event(), now);
                if let News::Bytes(buf) = news {
                    self.backend.recycle(buf);
                }
                true
            }
        }
    }

    /// Reports to the memory budget, and saves memory as it asks.
    fn relieve(&mut self, now: Instant) {
        let held = self.backend.held() + self.peers.held();
        if held != self.held {
            self.budget.hold(held as i64 - self.held as i64);
            self.held = held;
        }
        let step = self.budget.step();
        if step != self.step {
            self.step = step;
            self.backend.press(step);
        }
        if step >= Step::Idle {
            self.close_parked(now);
        }
    }
}

impl Drop for Upstreams {
    fn drop(&mut self) {
        self.budget.hold(-(self.held as i64));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Address, Datagram, Driver, Limits, Outbox, Owner, bind};
    use super::*;
    use crate::clock;
    use crate::peer::{Parcel, Parking, PeerEvent, Upstream};
    use crate::session::Ticket;
    use std::collections::VecDeque;
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpListener, UdpSocket};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use units::Bytes;

    /// Has another host answer each datagram, over a connection that is parked afterwards. One that begins with `over` ends
    /// its owner while the answer is awaited.
    struct Asker {
        upstream: Arc<Upstream>,
        peers_max: usize,
        asks: VecDeque<Asked>,
        questions: Vec<(SocketAddr, Vec<u8>)>,
        answers: VecDeque<(SocketAddr, Vec<u8>)>,
    }

    const TICKET: Ticket = Ticket(7);

    impl Asker {
        fn of(&mut self, owner: u64, ask: Ask) {
            self.asks.push_back(Asked::Of(owner, TICKET, ask));
        }

        fn answer(&mut self, owner: u64, text: &[u8]) {
            let to = self.questions[owner as usize].0;
            self.answers.push_back((to, text.to_vec()));
        }
    }

    impl Endpoint for Asker {
        type Job = crate::NoJob;

        fn dialing(&self) -> Option<(Dialing, Arc<Budget>)> {
            let bounds = Dialing {
                peers_max: self.peers_max,
                buffered_max: Bytes(1_000),
                ..Dialing::default()
            };
            Some((bounds, Arc::default()))
        }

        fn next_ask(&mut self) -> Option<Asked> {
            self.asks.pop_front()
        }

        fn peer(&mut self, owner: u64, _: Ticket, event: PeerEvent<'_>, _: Instant) {
            let question = self.questions[owner as usize].1.clone();
            match event {
                PeerEvent::Connected | PeerEvent::Reused(_) | PeerEvent::Joined => {
                    self.of(owner, Ask::Send(question))
                }
                PeerEvent::Sent if question.starts_with(b"over") => {
                    self.asks.push_back(Asked::Over(owner));
                    self.answer(owner, b"gone");
                }
                PeerEvent::Sent => self.of(owner, Ask::Read),
                PeerEvent::Bytes(bytes) => {
                    self.answer(owner, bytes);
                    let parking = Parking {
                        most: 4,
                        time: Duration::from_secs(60),
                        realm: 0,
                        parcel: Parcel::default(),
                    };
                    self.of(owner, Ask::Park(parking));
                }
                PeerEvent::Eof => self.of(owner, Ask::Close),
                PeerEvent::Lost(loss) => self.answer(owner, format!("{loss:?}").as_bytes()),
            }
        }

        fn handle(&mut self, batch: &mut [Datagram<'_>], _: &mut Outbox, _: Instant) {
            for datagram in batch {
                let owner = self.questions.len() as u64;
                self.questions.push((datagram.from, datagram.bytes.to_vec()));
                self.of(owner, Ask::Reuse(Arc::clone(&self.upstream), 0));
            }
        }

        fn poll(&mut self, out: &mut Outbox, _: Instant) -> bool {
            while let Some((to, answer)) = self.answers.pop_front() {
                out.push(|buffer| {
                    buffer.extend_from_slice(&answer);
                    Some(Address::to(to))
                });
            }
            false
        }

        fn deadline(&self) -> Option<Instant> {
            None
        }

        fn owner(&self, _: &[u8]) -> Owner {
            Owner::Anyone
        }

        fn drain(&mut self, _: &mut Outbox, _: Instant) {}

        fn is_idle(&self) -> bool {
            true
        }
    }

    /// Runs `test` with a client of an endpoint that asks this upstream, on a thread of its own.
    fn with(upstream: SocketAddr, peers_max: usize, test: impl FnOnce(&dyn Fn(&[u8]) -> Vec<u8>)) {
        let socket = bind(SocketAddr::from(([127, 0, 0, 1], 0)), 1, false)
            .expect("a socket")
            .remove(0);
        let server = socket.local_addr().expect("an address");
        let endpoint = Asker {
            upstream: Arc::new(Upstream::Tcp(upstream)),
            peers_max,
            asks: VecDeque::new(),
            questions: Vec::new(),
            answers: VecDeque::new(),
        };
        let driver = Driver::new(socket, endpoint, Limits::default()).expect("descriptors");
        let stop = driver.stop();
        let thread = std::thread::spawn(|| driver.run().map(drop));
        let client = UdpSocket::bind("127.0.0.1:0").expect("a port");
        client
            .set_read_timeout(Some(std::time::Duration::from_secs(60)))
            .expect("a timeout");
        test(&|question| {
            client.send_to(question, server).expect("a send");
            let mut buffer = [0; 2_000];
            let length = client.recv(&mut buffer).expect("an answer");
            buffer[..length].to_vec()
        });
        stop.stop();
        thread.join().expect("no panic").expect("no failure");
    }

    /// Sends back what comes; counts its connections, and those of them that were reset.
    fn echo() -> (SocketAddr, Arc<AtomicUsize>, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let (accepted, reset): (Arc<AtomicUsize>, Arc<AtomicUsize>) = Default::default();
        let counts = (Arc::clone(&accepted), Arc::clone(&reset));
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                counts.0.fetch_add(1, Ordering::SeqCst);
                let reset = Arc::clone(&counts.1);
                std::thread::spawn(move || {
                    let mut buffer = [0; 2_000];
                    loop {
                        match stream.read(&mut buffer) {
                            Ok(0) => return,
                            Ok(_) if buffer.starts_with(b"over") => {}
                            Ok(length) => drop(stream.write_all(&buffer[..length])),
                            Err(_) => {
                                reset.fetch_add(1, Ordering::SeqCst);
                                return;
                            }
                        }
                    }
                });
            }
        });
        (address, accepted, reset)
    }

    #[test]
    fn another_host_answers_over_a_connection_that_is_reused() {
        let (address, accepted, _) = echo();
        with(address, 1, |ask| {
            for number in 0..20 {
                let question = format!("question {number}");
                assert_eq!(ask(question.as_bytes()), question.as_bytes());
            }
        });
        assert_eq!(accepted.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn an_owner_that_ends_resets_its_peers() {
        let (address, accepted, reset) = echo();
        with(address, 1, |ask| {
            assert_eq!(ask(b"over"), b"gone");
            let until = clock::now() + Duration::from_secs(10);
            while reset.load(Ordering::SeqCst) == 0 {
                assert!(
                    clock::now() < until,
                    "the connection of an owner that ended was not reset"
                );
                std::thread::yield_now();
            }
            assert_eq!(ask(b"a question"), b"a question");
        });
        assert_eq!(accepted.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn bounds_and_failures_are_told() {
        let (address, ..) = echo();
        with(address, 0, |ask| assert_eq!(ask(b"a question"), b"TooMany"));
        with(address, 1, |ask| {
            assert_eq!(ask(&[b'x'; 1_001]), b"TooMuch");
            assert_eq!(ask(&[b'x'; 1_000]), [b'x'; 1_000]);
        });
        let gone = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = gone.local_addr().expect("its address");
        drop(gone);
        let refused = format!("Opening({})", libc::ECONNREFUSED);
        with(address, 1, |ask| {
            assert_eq!(ask(b"a question"), refused.as_bytes())
        });
    }
}
