//! A crew that talks to a real socket on loopback, and one that only sleeps.

use super::*;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

/// Every line says hello, expects the reply, closes, sleeps and repeats.
struct Greeters {
    lines: u32,
    rounds: Vec<u32>,
    left: u32,
    late: Vec<Duration>,
    connected: u32,
    lost: Vec<Failing>,
    sleeps: Duration,
}

fn greeters(lines: u32, rounds: u32) -> Greeters {
    Greeters {
        lines,
        rounds: vec![rounds; lines as usize],
        left: lines,
        late: Vec::new(),
        connected: 0,
        lost: Vec::new(),
        sleeps: Duration::from_millis(3),
    }
}

impl Greeters {
    fn gone(&mut self, port: &mut Port) {
        self.left -= 1;
        if self.left == 0 {
            port.end();
        }
    }
}

impl Crew for Greeters {
    fn start(&mut self, port: &mut Port, now: Instant) {
        (0..self.lines).for_each(|line| port.wake(line, now + self.sleeps * (line % 7)));
    }

    fn handle(&mut self, line: u32, happened: Happened<'_>, port: &mut Port, now: Instant) {
        match happened {
            Happened::Woken(at) => {
                assert!(now >= at, "alarms never ring early");
                self.late.push(now - at);
                port.connect(line);
                port.send(line, |out| out.extend_from_slice(b"hel"));
                port.send(line, |out| out.extend_from_slice(b"lo"));
            }
            Happened::Connected => self.connected += 1,
            other @ (Happened::Inspected(_)
            | Happened::Measured(_)
            | Happened::Skipped(_)
            | Happened::Secured(_)
            | Happened::Stream(..)
            | Happened::Stopped(..)
            | Happened::Closed(_)
            | Happened::Refused(_)) => panic!("nobody asked for that: {other:?}"),
            Happened::Bytes(bytes) => assert_eq!(bytes, b"HELLO"),
            Happened::Eof => {
                port.close(line);
                self.rounds[line as usize] -= 1;
                if self.rounds[line as usize] > 0 {
                    port.wake(line, now + self.sleeps);
                } else {
                    self.gone(port);
                }
            }
            Happened::Lost(failing) => {
                self.lost.push(failing);
                self.gone(port);
            }
        }
    }

    fn stop(&mut self, port: &mut Port, _: Instant) {
        port.end();
    }
}

/// A server that answers five bytes in capitals and closes, `times` times.
fn shouter(times: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().take(times) {
            let mut stream = stream.expect("a connection");
            let mut said = [0; 5];
            stream.read_exact(&mut said).expect("five bytes");
            stream.write_all(&said.to_ascii_uppercase()).expect("sent");
        }
    });
    address
}

#[test]
fn lines_connect_speak_and_sleep() {
    let address = shouter(60);
    let running = start(vec![greeters(10, 3), greeters(10, 3)], address).expect("started");
    let crews = running.join().expect("no failure");
    for (crew, usage) in crews {
        assert_eq!((crew.connected, crew.late.len()), (30, 30));
        assert!(crew.lost.is_empty(), "{:?}", crew.lost);
        assert!(
            usage.wall >= Duration::from_millis(6) && usage.cpu <= usage.wall + Duration::from_millis(50)
        );
    }
}

/// A port that refuses connections, and that nobody else is given while the socket lives: bound, and never listened on.
fn refusing() -> (socket2::Socket, SocketAddr) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    socket.bind(&any.into()).expect("a port");
    let address = socket.local_addr().expect("an address").as_socket();
    (socket, address.expect("an address of IPv4"))
}

#[test]
fn a_refused_connection_is_lost_while_opening() {
    let (_socket, unused) = refusing();
    let running = start(vec![greeters(3, 1)], unused).expect("started");
    let (crew, _) = running.join().expect("no failure").remove(0);
    assert_eq!(crew.lost, [Failing::Opening(libc::ECONNREFUSED); 3]);
    assert_eq!(crew.connected, 0);
}

#[test]
fn crews_that_sleep_can_be_stopped() {
    let mut sleepy = greeters(1000, 1);
    sleepy.sleeps = Duration::from_secs(3600);
    // Otherwise line 0 of every seven would connect at once.
    sleepy.lines = 0;
    let running = start(vec![sleepy], shouter(0)).expect("started");
    assert!(!running.is_over());
    running.stopper().stop();
    running.join().expect("no failure");
}

/// Sets near and distant alarms, some of them twice, and checks when they fire.
struct Sleepers {
    set: Vec<Instant>,
    rang: mpsc::Sender<(u32, Instant)>,
    left: usize,
}

impl Crew for Sleepers {
    fn start(&mut self, port: &mut Port, now: Instant) {
        for line in 0..200u32 {
            port.wake(line, now + Duration::from_secs(60));
            // Some lie in the wheel, some in the heap.
            let at = now + Duration::from_millis(u64::from(line * 37 % 400));
            port.wake(line, at);
            self.set.push(at);
        }
        self.left = self.set.len();
    }

    fn handle(&mut self, line: u32, happened: Happened<'_>, port: &mut Port, now: Instant) {
        let Happened::Woken(at) = happened else {
            panic!("nothing else happens")
        };
        assert_eq!(at, self.set[line as usize]);
        assert!(now >= at);
        self.rang.send((line, at)).expect("heard");
        self.left -= 1;
        if self.left == 0 {
            port.end();
        }
    }

    fn stop(&mut self, _: &mut Port, _: Instant) {}
}

#[test]
fn alarms_ring_once_in_order_at_what_was_set_last() {
    let (rang, heard) = mpsc::channel();
    let sleepers = Sleepers {
        set: Vec::new(),
        rang,
        left: 0,
    };
    let running = start(vec![sleepers], "127.0.0.1:9".parse().expect("an address")).expect("started");
    running.join().expect("no failure");
    let heard: Vec<(u32, Instant)> = heard.into_iter().collect();
    assert_eq!(heard.len(), 200);
    assert!(heard.is_sorted_by_key(|(_, at)| *at));
}

/// Sends nothing and reads until the end.
struct Drain {
    bytes: u64,
}

impl Crew for Drain {
    fn start(&mut self, port: &mut Port, _: Instant) {
        port.connect(0);
        port.send(0, |out| out.push(b'?'));
    }

    fn handle(&mut self, _: u32, happened: Happened<'_>, port: &mut Port, _: Instant) {
        match happened {
            Happened::Bytes(bytes) => self.bytes += bytes.len() as u64,
            Happened::Eof => port.end(),
            Happened::Connected => {}
            other => panic!("{other:?}"),
        }
    }

    fn stop(&mut self, _: &mut Port, _: Instant) {}
}

/// More than one turn's share, from a server that is always ahead: no completion may be lost between turns.
#[test]
fn a_long_stream_arrives_whole() {
    const PIECES: usize = 3000;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let piece = vec![7; 16 << 10];
        stream.read_exact(&mut [0]).expect("a byte");
        (0..PIECES).for_each(|_| stream.write_all(&piece).expect("sent"));
    });
    let running = start(vec![Drain { bytes: 0 }], address).expect("started");
    let (crew, _) = running.join().expect("no failure").remove(0);
    assert_eq!(crew.bytes, (PIECES * (16 << 10)) as u64);
}

/// Sends more than a socket takes, and records what comes back.
struct Uploader {
    said: Vec<u8>,
    lost: Option<Failing>,
    /// The bytes at which it ends.
    enough: usize,
}

impl Crew for Uploader {
    fn start(&mut self, port: &mut Port, _: Instant) {
        port.connect(0);
        port.send(0, |out| out.resize(64 << 20, 7));
    }

    fn handle(&mut self, _: u32, happened: Happened<'_>, port: &mut Port, _: Instant) {
        match happened {
            Happened::Connected => {}
            Happened::Bytes(bytes) => {
                self.said.extend_from_slice(bytes);
                if self.said.len() >= self.enough {
                    port.end();
                }
            }
            Happened::Eof => port.end(),
            Happened::Lost(failing) => {
                self.lost = Some(failing);
                port.end();
            }
            other => panic!("{other:?}"),
        }
    }

    fn stop(&mut self, _: &mut Port, _: Instant) {}
}

/// An answer is reported although the server reads nothing of what is still being sent, and also if it closes at once.
#[test]
fn an_answer_comes_before_all_was_sent() {
    for closes in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (over, is_over) = mpsc::channel::<()>();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.write_all(b"no").expect("sent");
            if !closes {
                // Open, and unread, as long as the client runs.
                let _ = is_over.recv();
            }
        });
        let crew = Uploader {
            said: Vec::new(),
            lost: None,
            enough: if closes { usize::MAX } else { 2 },
        };
        let running = start(vec![crew], address).expect("started");
        let (crew, _) = running.join().expect("no failure").remove(0);
        assert_eq!(crew.said, b"no", "closes: {closes}, lost: {:?}", crew.lost);
        drop(over);
    }
}

/// Reads the first bytes of a reply, skips the next `skip`, and reads what follows.
struct Skipping {
    skip: u64,
    asked: bool,
    seen: Vec<u8>,
    skipped: u64,
}

impl Crew for Skipping {
    fn start(&mut self, port: &mut Port, _: Instant) {
        port.connect(0);
        port.send(0, |out| out.push(b'?'));
    }

    fn handle(&mut self, line: u32, happened: Happened<'_>, port: &mut Port, _: Instant) {
        match happened {
            Happened::Connected => {}
            Happened::Bytes(bytes) => {
                self.seen.extend_from_slice(bytes);
                if !self.asked {
                    self.asked = true;
                    port.skip(line, self.skip);
                    // Only now does the server continue.
                    port.send(line, |out| out.push(b'!'));
                }
            }
            Happened::Skipped(bytes) => self.skipped += bytes,
            Happened::Eof => port.end(),
            other => panic!("{other:?}"),
        }
    }

    fn stop(&mut self, _: &mut Port, _: Instant) {}
}

/// Exactly the requested number of bytes is skipped, in however many segments; the following bytes are delivered.
#[test]
fn what_nobody_wants_to_see_is_dropped_and_counted() {
    for (skip, sent) in [(1, 1), (100_000, 100_000), (3 << 20, 3 << 20), (5 << 20, 1000)] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.read_exact(&mut [0]).expect("a question");
            stream.write_all(b"head").expect("sent");
            stream.read_exact(&mut [0]).expect("a word");
            stream.write_all(&vec![7; sent]).expect("sent");
            stream.write_all(b"tail").expect("sent");
        });
        let crew = Skipping {
            skip,
            asked: false,
            seen: Vec::new(),
            skipped: 0,
        };
        let running = start(vec![crew], address).expect("started");
        let (crew, _) = running.join().expect("no failure").remove(0);
        let (shown, dropped) = match skip as usize == sent {
            true => ("headtail", skip),
            false => ("head", sent as u64 + 4),
        };
        assert_eq!(
            (String::from_utf8_lossy(&crew.seen).as_ref(), crew.skipped),
            (shown, dropped)
        );
    }
}

/// Sends on many lines and records where in memory the replies lie.
struct Onlookers {
    lines: u32,
    left: u32,
    /// Signals that all replies have been sent.
    answered: mpsc::Receiver<()>,
    lay: BTreeSet<usize>,
}

impl Crew for Onlookers {
    fn start(&mut self, port: &mut Port, _: Instant) {
        for line in 0..self.lines {
            port.connect(line);
            port.send(line, |out| out.push(b'?'));
        }
    }

    fn handle(&mut self, line: u32, happened: Happened<'_>, port: &mut Port, _: Instant) {
        match happened {
            Happened::Connected => {}
            Happened::Bytes(bytes) => {
                // The first waits for the others, so that all are ready in the next turn.
                if self.lay.is_empty() {
                    self.answered.recv().expect("the server answers");
                }
                self.lay.insert(bytes.as_ptr() as usize);
                port.close(line);
                self.left -= 1;
                if self.left == 0 {
                    port.end();
                }
            }
            other => panic!("{other:?}"),
        }
    }

    fn stop(&mut self, _: &mut Port, _: Instant) {}
}

/// Otherwise each ready connection holds a buffer, and most of them are created and zeroed anew each turn.
#[test]
fn connections_that_are_ready_together_share_one_buffer() {
    const LINES: u32 = 64;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (sent, answered) = mpsc::channel();
    std::thread::spawn(move || {
        let mut streams: Vec<TcpStream> = (0..LINES)
            .map(|_| listener.accept().expect("a connection").0)
            .collect();
        for stream in &mut streams {
            stream.read_exact(&mut [0]).expect("a question");
        }
        for stream in &mut streams {
            stream.write_all(b"!").expect("answered");
        }
        sent.send(()).expect("heard");
        // Until the crew has closed them all.
        for stream in &mut streams {
            let _ = stream.read(&mut [0]);
        }
    });
    let crew = Onlookers {
        lines: LINES,
        left: LINES,
        answered,
        lay: BTreeSet::new(),
    };
    let running = start(vec![crew], address).expect("started");
    let (crew, _) = running.join().expect("no failure").remove(0);
    assert_eq!(crew.lay.len(), 1, "buffers");
}

/// A name whose first address has no listener and whose second has one: often `localhost`.
#[test]
fn of_several_addresses_the_first_that_answers_is_used() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let open = listener.local_addr().expect("an address");
    let (_socket, closed) = refusing();
    assert_eq!(answering(&[closed, open]), Some(open));
    assert_eq!(answering(&[open, closed]), Some(open));
    assert_eq!(
        answering(&[closed, closed]),
        Some(closed),
        "the run says why it is refused"
    );
    assert_eq!(answering(&[]), None);
    drop((listener.accept(), listener.accept()));
    listener.set_nonblocking(true).expect("set");
    assert_eq!(answering(&[open]), Some(open));
    assert!(listener.accept().is_err(), "the only one is not tried");
}

/// Says hello on one line, requests the counters when the reply is there, and leaves.
#[derive(Default)]
struct Guest {
    /// Leaves when the peer has closed, not when it has answered.
    waits: bool,
    told: Vec<Tcp>,
}

impl Crew for Guest {
    fn start(&mut self, port: &mut Port, _: Instant) {
        port.connect(0);
        port.send(0, |out| out.extend_from_slice(b"hello"));
    }

    fn handle(&mut self, _: u32, happened: Happened<'_>, port: &mut Port, _: Instant) {
        match happened {
            Happened::Bytes(_) if self.waits => return,
            Happened::Bytes(_) | Happened::Eof => {}
            Happened::Inspected(tcp) => return self.told.push(tcp),
            _ => return,
        }
        port.inspect(0);
        port.leave(0);
        // No further event of that connection is reported, and the line is free again.
        port.connect(0);
        port.end();
    }

    fn stop(&mut self, port: &mut Port, _: Instant) {
        port.end();
    }
}

#[test]
fn segments_of_closing_are_counted_whoever_closes_first() {
    for waits in [false, true] {
        // The server closes once it has answered: before the guest does, or at the same time.
        let guest = Guest {
            waits,
            ..Guest::default()
        };
        let running = start(vec![guest], shouter(2)).expect("started");
        let (guest, usage) = running.join().expect("no failure").remove(0);
        let [before, after] = &guest.told[..] else {
            panic!("told twice: {:?}", guest.told)
        };
        assert!(!before.is_over && after.is_over, "{before:?} {after:?}");
        // A FIN each way, and the ACK of the server's FIN. The server's own ACK is not awaited; it may ride on another
        // segment.
        let all = |tcp: &Tcp| tcp.segments_in + tcp.segments_out;
        let heard = u32::from(waits);
        assert!(all(after) >= all(before) + 2 - heard, "{before:?} {after:?}");
        assert!((8..=12).contains(&all(after)), "{after:?}");
        assert!(usage.wall < PARTING, "nobody was waited for in vain");
    }
}

#[test]
fn a_peer_that_does_not_close_is_not_waited_for_forever() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (gone, wait) = mpsc::channel::<()>();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        stream.read_exact(&mut [0; 5]).expect("five bytes");
        stream.write_all(b"HELLO").expect("sent");
        // Until the guest has gone.
        let _ = wait.recv();
    });
    let running = start(vec![Guest::default()], address).expect("started");
    let (guest, usage) = running.join().expect("no failure").remove(0);
    drop(gone);
    server.join().expect("no panic");
    let is_over: Vec<bool> = guest.told.iter().map(|tcp| tcp.is_over).collect();
    assert_eq!(is_over, [false, false]);
    assert!(
        usage.wall >= PARTING && usage.wall < PARTING * 20,
        "{:?}",
        usage.wall
    );
}

/// Counts calls, and ends at the last one.
struct Called {
    left: u32,
    heard: mpsc::Sender<u32>,
}

impl Crew for Called {
    fn start(&mut self, _: &mut Port, _: Instant) {}

    fn handle(&mut self, _: u32, happened: Happened<'_>, _: &mut Port, _: Instant) {
        panic!("it has no connection: {happened:?}");
    }

    fn stop(&mut self, port: &mut Port, _: Instant) {
        port.end();
    }

    fn called(&mut self, port: &mut Port, _: Instant) {
        self.left -= 1;
        self.heard.send(self.left).expect("the test waits");
        if self.left == 0 {
            port.end();
        }
    }
}

#[test]
fn a_crew_hears_calls_from_the_first_on() {
    let (heard, calls) = mpsc::channel();
    let running = start(vec![Called { left: 3, heard }], shouter(0)).expect("started");
    for left in [2, 1, 0] {
        running.call();
        assert_eq!(calls.recv(), Ok(left));
    }
    running.call();
    running.join().expect("no failure");
}
