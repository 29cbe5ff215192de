//! Runs a real service in a world: its sessions, unchanged, behind a simulated TCP.
//!
//! Keeps the calling order of [`runtime::session`] as the worker does, one connection at a time. Jobs run on the spot;
//! their results come after `job_time`, which is zero by default. A turn costs `turn_time`, charged before its output. Input that arrives while a session does
//! not read is kept here, up to a limit, instead of in the kernel.

use crate::host::{Application, Conn, Happened, Work};
use core::net::{Ipv4Addr, SocketAddr};
use runtime::fs::Wait;
use runtime::session::{
    Accepted, Action, Body, Context, Event, Job, JobOf, Loss, Service, Session, Ticket, Tx,
};
use std::collections::{BTreeMap, VecDeque};
use tcp::Closed;
use units::{Duration, Instant, UnixTime};

/// Maximum bytes kept for a session that does not read; a connection that sends more is reset.
const INPUT_MAX: usize = 1 << 20;

/// The timer that wakes sessions at their deadlines.
const DEADLINES: u64 = 0;

/// The timer of results that are due.
const RESULTS: u64 = 1;

/// Runs a [`Service`] as the application of a simulated host.
pub struct Hosted<V: Service> {
    service: V,
    cx: <V::Session as Session>::Cx,
    open: BTreeMap<Conn, Served<V::Session>>,
    turn_time: Duration,
    job_time: Duration,
    /// Results of jobs with the time at which they are due, the earliest first.
    results: VecDeque<Due<JobOf<V::Session>>>,
    wall_at_zero: UnixTime,
    wake_at: Option<Instant>,
}

/// The result of a job, until it is due.
struct Due<J: Job> {
    at: Instant,
    conn: Conn,
    ticket: Ticket,
    output: J::Output,
}

struct Served<S: Session> {
    session: S,
    tx: Tx,
    /// Output is on its way.
    sending: bool,
    /// The session takes input.
    reading: bool,
    /// A job that starts when the output before it is sent.
    held: Option<JobOf<S>>,
    input: VecDeque<Vec<u8>>,
    end: End,
    half_closed: bool,
}

/// State of the peer's end of input.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    /// It has arrived, and the session has not been told.
    Come,
    Told,
}

impl<V: Service> Hosted<V> {
    /// The service on a processor that spends `turn_time` on each output; `wall_at_zero` is the civil time at virtual
    /// time zero.
    ///
    /// # Panics
    /// If the service dials: a world has two hosts and no third for the upstream. [`runtime::sim`] has peers.
    pub fn new(service: V, turn_time: Duration, wall_at_zero: UnixTime) -> Hosted<V> {
        assert!(
            service.dialing().is_none(),
            "a service that dials needs a third host: simulate it with `runtime::sim`"
        );
        let cx = service.context(0);
        Hosted {
            service,
            cx,
            open: BTreeMap::new(),
            turn_time,
            job_time: Duration::ZERO,
            results: VecDeque::new(),
            wall_at_zero,
            wake_at: None,
        }
    }

    /// The same with jobs that each take this long, on as many processors as there are jobs.
    #[must_use]
    pub fn with_job_time(self, job_time: Duration) -> Hosted<V> {
        Hosted { job_time, ..self }
    }

    /// Runs a job. Returns whether its result is there at once.
    fn run(
        &mut self,
        conn: Conn,
        ticket: Ticket,
        job: JobOf<V::Session>,
        work: &mut Work,
        now: Instant,
    ) -> bool {
        let output = job.run();
        if self.job_time.is_zero() {
            self.tell(conn, Event::Done(ticket, output), now);
            return true;
        }
        self.results.push_back(Due {
            at: now + self.job_time,
            conn,
            ticket,
            output,
        });
        work.timer(self.job_time, RESULTS);
        false
    }

    /// Hands over the results that are due.
    fn hand_over(&mut self, work: &mut Work, now: Instant) {
        while self.results.front().is_some_and(|due| due.at <= now)
            && let Some(Due {
                conn, ticket, output, ..
            }) = self.results.pop_front()
        {
            self.tell(conn, Event::Done(ticket, output), now);
            if self
                .open
                .get(&conn)
                .is_some_and(|served| !served.sending || served.reading)
            {
                self.go_on(conn, work, now);
            }
        }
    }

    fn wall(&self, now: Instant) -> UnixTime {
        let ns = u64::from(self.wall_at_zero.nanos) + now.as_nanos();
        UnixTime {
            secs: self.wall_at_zero.secs + (ns / 1_000_000_000) as i64,
            nanos: (ns % 1_000_000_000) as u32,
        }
    }

    fn tell(&mut self, conn: Conn, event: Event<'_, JobOf<V::Session>>, now: Instant) {
        if let Some(served) = self.open.get_mut(&conn) {
            served.session.handle(&mut self.cx, event, &mut served.tx, now);
        }
    }

    /// Polls a session until it waits for something.
    fn go_on(&mut self, conn: Conn, work: &mut Work, now: Instant) {
        while let Some(served) = self.open.get_mut(&conn) {
            let action = served.session.poll(&mut self.cx, &mut served.tx, now);
            let action = match action {
                Action::Start(ticket, job) => {
                    self.run(conn, ticket, job, work, now);
                    continue;
                }
                other => other,
            };
            if !served.tx.is_empty() {
                assert!(!served.sending, "a session wrote while its output was under way");
                let Some(bytes) = flatten(&mut served.tx) else {
                    self.tell(conn, Event::Lost(Loss::File(0)), now);
                    continue;
                };
                served.sending = true;
                served.reading = matches!(action, Action::Duplex { read: true, .. });
                if let Action::Wait(job) = action {
                    served.held = Some(job);
                }
                work.run(self.turn_time);
                work.write(conn, bytes);
                match served.reading {
                    // It may have input already.
                    true => continue,
                    false => return,
                }
            }
            let action = match served.held.take() {
                Some(job) => Action::Wait(job),
                None => action,
            };
            match action {
                Action::Wait(job) => {
                    served.reading = false;
                    if !self.run(conn, Ticket::ONLY, job, work, now) {
                        return;
                    }
                }
                Action::Duplex { read: false, .. } => {
                    served.reading = false;
                    return;
                }
                Action::Duplex { read: true, .. } if served.end == End::Told => return,
                Action::Duplex { read: true, .. } | Action::Read | Action::HalfClose => {
                    if matches!(action, Action::HalfClose) && !served.half_closed {
                        served.half_closed = true;
                        work.shutdown(conn);
                    }
                    served.reading = true;
                    if let Some(bytes) = served.input.pop_front() {
                        self.tell(conn, Event::Bytes(&bytes), now);
                    } else {
                        match served.end {
                            End::Open => return,
                            End::Come => {
                                served.end = End::Told;
                                self.tell(conn, Event::Eof, now);
                            }
                            End::Told => return self.close(conn, work, now),
                        }
                    }
                }
                Action::Close => {
                    if served.sending {
                        work.abort(conn);
                    }
                    return self.close(conn, work, now);
                }
                Action::End => {
                    served.half_closed = true;
                    work.shutdown(conn);
                }
                Action::Abort => {
                    work.abort(conn);
                    return self.close(conn, work, now);
                }
                Action::Peer => unreachable!("`new` takes no service that dials"),
                Action::Write | Action::Stay | Action::Start(..) => return,
            }
        }
    }

    fn close(&mut self, conn: Conn, work: &mut Work, now: Instant) {
        if let Some(mut served) = self.open.remove(&conn) {
            served.session.closed(&mut self.cx, now);
            work.close(conn);
        }
    }

    /// Reports expired deadlines to their sessions.
    fn fire(&mut self, work: &mut Work, now: Instant) {
        self.wake_at = None;
        let due: Vec<Conn> = self
            .open
            .iter()
            .filter(|(_, served)| served.session.deadline().is_some_and(|at| at <= now))
            .map(|(conn, _)| *conn)
            .collect();
        for conn in due {
            self.tell(conn, Event::Deadline, now);
            let sending = self
                .open
                .get(&conn)
                .is_some_and(|served| served.sending && !served.reading);
            if !sending {
                self.go_on(conn, work, now);
            } else if let Some(served) = self.open.get_mut(&conn) {
                let mut aside = Tx::default();
                if let Action::Close = served.session.poll(&mut self.cx, &mut aside, now) {
                    work.abort(conn);
                    self.close(conn, work, now);
                }
            }
        }
    }

    fn arm(&mut self, work: &mut Work, now: Instant) {
        let next = self
            .open
            .values()
            .filter_map(|served| served.session.deadline())
            .min();
        if let Some(next) = next
            && self.wake_at.is_none_or(|at| next < at)
        {
            self.wake_at = Some(next);
            work.timer(next.since(now), DEADLINES);
        }
    }
}

/// The output as bytes; `None` if a file is shorter than announced.
fn flatten(tx: &mut Tx) -> Option<Vec<u8>> {
    let mut bytes = std::mem::take(&mut tx.head);
    match tx.body.take() {
        None => {}
        Some(Body::Bytes(body)) => bytes.extend_from_slice(&body),
        Some(Body::File(range)) => {
            let len = usize::try_from(range.len).ok()?;
            let body = range.file.read_all(range.offset, len, Wait::Block).ok()?;
            if body.len() != len {
                return None;
            }
            bytes.extend_from_slice(&body);
        }
    }
    Some(bytes)
}

impl<V: Service> Application for Hosted<V> {
    fn handle(&mut self, happened: Happened, work: &mut Work, now: Instant) {
        let wall = self.wall(now);
        self.cx.turn(now, wall);
        match happened {
            Happened::Opened(conn) => {
                work.no_delay(conn, true);
                let peer = SocketAddr::from((Ipv4Addr::new(198, 18, 0, 1), conn.port()));
                match self.service.accept(&mut self.cx, &Accepted::at_first(peer), now) {
                    None => work.close(conn),
                    Some(session) => {
                        let served = Served {
                            session,
                            tx: Tx::default(),
                            sending: false,
                            reading: true,
                            held: None,
                            input: VecDeque::new(),
                            end: End::Open,
                            half_closed: false,
                        };
                        self.open.insert(conn, served);
                        self.go_on(conn, work, now);
                    }
                }
            }
            Happened::Data(conn, bytes) => {
                if let Some(served) = self.open.get_mut(&conn) {
                    served.input.push_back(bytes);
                    if served.input.iter().map(Vec::len).sum::<usize>() > INPUT_MAX {
                        work.abort(conn);
                    } else if served.reading
                        && let Some(bytes) = served.input.pop_front()
                    {
                        self.tell(conn, Event::Bytes(&bytes), now);
                        self.go_on(conn, work, now);
                    }
                }
            }
            Happened::Progress(conn, bytes) => self.tell(conn, Event::Progress(bytes), now),
            Happened::Drained(conn) => {
                if let Some(served) = self.open.get_mut(&conn)
                    && std::mem::take(&mut served.sending)
                {
                    self.tell(conn, Event::Sent, now);
                    self.go_on(conn, work, now);
                }
            }
            Happened::Finished(conn) => {
                if let Some(served) = self.open.get_mut(&conn) {
                    served.end = End::Come;
                    if served.reading {
                        served.end = End::Told;
                        self.tell(conn, Event::Eof, now);
                        self.go_on(conn, work, now);
                    }
                }
            }
            Happened::Closed(conn, why) => {
                if why != Closed::Orderly {
                    self.tell(conn, Event::Lost(Loss::Socket(libc::ECONNRESET)), now);
                }
                self.close(conn, work, now);
            }
            Happened::Timer(RESULTS) => self.hand_over(work, now),
            Happened::Timer(_) => self.fire(work, now),
            Happened::Started | Happened::Reached(_) => {}
        }
        self.arm(work, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toy::Toy;
    use crate::{HostSetup, Limits, World};
    use runtime::Dialing;
    use std::cell::RefCell;
    use std::rc::Rc;
    use tcp::{Setup, Stack};
    use units::Seed;

    /// Sends its lines once connected, one piece each, and keeps the replies.
    struct Typist {
        pieces: Vec<Vec<u8>>,
        heard: Rc<RefCell<Vec<u8>>>,
        finishes: bool,
    }

    impl Application for Typist {
        fn handle(&mut self, happened: Happened, work: &mut Work, _now: Instant) {
            match happened {
                Happened::Started => {
                    let _: Conn = work.connect();
                }
                Happened::Opened(conn) => {
                    for piece in self.pieces.drain(..) {
                        work.write(conn, piece);
                        work.run(Duration::from_millis(300));
                    }
                    if self.finishes {
                        work.shutdown(conn);
                    }
                }
                Happened::Data(_, bytes) => self.heard.borrow_mut().extend(bytes),
                Happened::Finished(conn) => work.close(conn),
                Happened::Closed(_, why) if why != Closed::Orderly => {
                    self.heard.borrow_mut().extend(b"RESET")
                }
                _ => {}
            }
        }
    }

    /// The replies to a client that types `pieces` over `link`, and the toy that answered.
    fn check(link: &str, pieces: &[&str], finishes: bool) -> (Vec<u8>, Toy, Instant) {
        let toy = Toy::default();
        let (heard, now) = typed(link, pieces, finishes, toy.clone());
        (heard, toy, now)
    }

    /// The same, of any service.
    fn typed<V: Service>(link: &str, pieces: &[&str], finishes: bool, service: V) -> (Vec<u8>, Instant) {
        let profile = link::Profile::parse(link, &link::Limits::default(), &mut |_| Err(String::new()));
        let heard = Rc::<RefCell<Vec<u8>>>::default();
        let host = || HostSetup {
            tcp: Setup::new(Stack::preset("linux-6").expect("a preset"), 0),
            read_time: Duration::ZERO,
            read_max: 65_536,
            line_gain: 1.0,
        };
        let typist = Typist {
            pieces: pieces.iter().map(|piece| piece.as_bytes().to_vec()).collect(),
            heard: Rc::clone(&heard),
            finishes,
        };
        let hosted = Hosted::new(service, Duration::from_millis(1), UnixTime::from_secs(0));
        let mut world = World::new(
            &profile.expect(link),
            (host(), Box::new(typist)),
            (host(), Box::new(hosted)),
            Seed(4),
            Limits::default(),
        );
        world.run(Instant::ZERO + Duration::from_secs(600));
        let heard = heard.borrow().clone();
        (heard, world.now())
    }

    #[test]
    fn a_session_answers_over_any_link_as_over_a_socket() {
        let pieces = ["echo a\nbig 50000\nlat", "er x\nnow y\n", "echo b\nbye\n"];
        let (direct, _, _) = check("delay=0ms", &pieces, false);
        assert!(direct.len() > 50_000, "{}", direct.len());
        assert!(direct.ends_with(b"bye\n"));
        for link in ["ppp", "mobile loss=3%", "dsl jitter=5ms queue=20p"] {
            let (heard, toy, _) = check(link, &pieces, false);
            assert!(
                heard == direct,
                "{link}: {} of {} bytes",
                heard.len(),
                direct.len()
            );
            assert_eq!(toy.seen.lock().unwrap().closed, 1, "{link}");
        }
    }

    /// Sends back what it gets, and reads while it sends.
    #[derive(Default)]
    struct Mirrors {
        dialing: Option<Dialing>,
        last: Last,
    }

    /// How a mirror ends its connection.
    #[derive(Clone, Copy, Default)]
    enum Last {
        #[default]
        Close,
        /// Its half first.
        End,
        Abort,
    }

    #[derive(Default)]
    struct Mirror {
        last: Last,
        pending: Vec<u8>,
        sending: bool,
        ended: bool,
    }

    impl Session for Mirror {
        type Cx = <<Toy as Service>::Session as Session>::Cx;

        fn handle(&mut self, _: &mut Self::Cx, event: Event<'_, JobOf<Self>>, _: &mut Tx, _: Instant) {
            match event {
                Event::Bytes(bytes) => self.pending.extend_from_slice(bytes),
                Event::Sent => self.sending = false,
                Event::Eof | Event::Lost(_) => self.ended = true,
                _ => {}
            }
        }

        fn poll(&mut self, _: &mut Self::Cx, tx: &mut Tx, _: Instant) -> Action<JobOf<Self>> {
            if !self.sending {
                tx.head.append(&mut self.pending);
                self.sending = !tx.is_empty();
            }
            match self.sending || !self.ended {
                true => Action::Duplex {
                    read: true,
                    patient: false,
                },
                false => match std::mem::take(&mut self.last) {
                    Last::Close => Action::Close,
                    Last::End => Action::End,
                    Last::Abort => Action::Abort,
                },
            }
        }

        fn deadline(&self) -> Option<Instant> {
            None
        }

        fn closed(&mut self, _: &mut Self::Cx, _: Instant) {}
    }

    impl Service for Mirrors {
        type Session = Mirror;

        fn context(&self, worker: usize) -> <Mirror as Session>::Cx {
            Toy::default().context(worker)
        }

        fn accept(&self, _: &mut <Mirror as Session>::Cx, _: &Accepted, _: Instant) -> Option<Mirror> {
            Some(Mirror {
                last: self.last,
                ..Mirror::default()
            })
        }

        fn dialing(&self) -> Option<Dialing> {
            self.dialing
        }

        fn grace(&self) -> Duration {
            Duration::ZERO
        }
    }

    #[test]
    fn a_session_ends_its_half_or_resets_the_connection() {
        let ended = |last| {
            let service = Mirrors {
                last,
                ..Mirrors::default()
            };
            typed("delay=10ms", &["abc", "def"], true, service).0
        };
        assert_eq!(ended(Last::Close), b"abcdef");
        assert_eq!(ended(Last::End), b"abcdef");
        assert_eq!(ended(Last::Abort), b"abcdefRESET");
    }

    #[test]
    #[should_panic(expected = "needs a third host")]
    fn a_service_that_dials_is_refused() {
        let service = Mirrors {
            dialing: Some(Dialing::default()),
            ..Mirrors::default()
        };
        let _ = typed("delay=10ms", &[], true, service);
    }

    #[test]
    fn a_session_of_both_ways_reads_while_it_sends() {
        let text = "x".repeat(40_000);
        let pieces = [text.as_str(); 5];
        let direct = text.repeat(5).into_bytes();
        for link in ["ppp", "mobile loss=3%"] {
            let (heard, _) = typed(link, &pieces, true, Mirrors::default());
            assert!(
                heard == direct,
                "{link}: {} of {} bytes",
                heard.len(),
                direct.len()
            );
        }
    }

    #[test]
    fn an_idle_session_gets_its_deadline_and_a_finished_one_its_end() {
        let (_, toy, now) = check("wan", &["echo a\n"], false);
        assert_eq!(toy.seen.lock().unwrap().closed, 1);
        assert!(now >= Instant::ZERO + crate::toy::IDLE, "{now:?}");
        let (heard, toy, _) = check("wan", &["echo a\n"], true);
        assert_eq!(heard, b"a\n");
        assert_eq!(toy.seen.lock().unwrap().eofs, 1);
    }
}
