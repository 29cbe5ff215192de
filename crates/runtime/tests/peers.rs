//! The limits and the order of the connections that a session opens, each asked for by a line of its client.
//!
//! `dial T [PORT]`, `reuse T PORT`, `park T MOST SECONDS`, `join T PORT [REALM]`, `share T MOST SECONDS ROOM [REALM]`, `keep T`,
//! `read T`, `send T N`, `end T`, `close T` and `abort T` are asks for the peer with ticket T. `panic` panics at the next
//! event of a peer. What peers report is noted for the test to see.

use runtime::carrier::{Carrier, Place, Told};
use runtime::sim::{Client, Sim};
use runtime::{
    Accepted, Action, Ask, Dialing, Event, NoJob, Parcel, Parking, PeerEvent, Service, Session, Ticket, Tx,
    Unshared, Upstream,
};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use units::{Bytes, Duration, Instant};

type Notes = Arc<Mutex<Vec<String>>>;

#[derive(Default)]
struct Scripted {
    notes: Notes,
    dialing: Dialing,
}

struct Script {
    notes: Notes,
    asks: VecDeque<(Ticket, Ask)>,
    panics: bool,
    has_ended: bool,
}

fn upstream(port: u16) -> Upstream {
    Upstream::Tcp(SocketAddr::from(([192, 0, 2, 1], port)))
}

/// The realm of an ask: 0 if none is named.
fn realm(words: &[&str], at: usize) -> u64 {
    words.get(at).map_or(0, |word| word.parse().expect("a number"))
}

/// A protocol with streams. For each output, its place and its length; `.` in place of the length if the session left. A letter
/// of the upstream is for the place with its number in the alphabet; a capital one says that the place is lost.
struct Lines {
    most: usize,
    places: Vec<(Place, bool)>,
    out: Vec<u8>,
    told: VecDeque<(Place, Told)>,
    is_over: bool,
}

impl Lines {
    fn new(most: usize) -> Lines {
        Lines {
            most,
            places: Vec::new(),
            out: Vec::new(),
            told: VecDeque::new(),
            is_over: false,
        }
    }
}

impl Carrier for Lines {
    fn has_room(&self) -> bool {
        self.places.len() < self.most && !self.is_over
    }

    fn join(&mut self, place: Place) {
        self.places.push((place, false));
    }

    fn send(&mut self, place: Place, bytes: &[u8], _: Instant) {
        self.out.extend([place.0 as u8, bytes.len() as u8]);
        self.told.push_back((place, Told::Sent));
    }

    fn read(&mut self, place: Place, _: Instant) {
        for (its, reads) in &mut self.places {
            *reads |= *its == place;
        }
    }

    fn leave(&mut self, place: Place, _: Instant) {
        self.places.retain(|(its, _)| *its != place);
        self.out.extend([place.0 as u8, b'.']);
    }

    /// `-` ends the protocol, and `!` is not understood.
    fn receive(&mut self, bytes: &[u8], _: Instant) {
        for byte in bytes {
            match byte {
                b'!' => panic!("as asked"),
                b'-' => self.is_over = true,
                b'A'..=b'Z' => {
                    let place = Place(u64::from(byte - b'A'));
                    self.places.retain(|(its, _)| *its != place);
                    self.told
                        .push_back((place, Told::Lost(runtime::session::PeerLoss::Unprocessed)));
                }
                _ => {
                    let place = Place(u64::from(byte - b'a'));
                    if self.places.contains(&(place, true)) {
                        self.told.push_back((place, Told::Bytes(vec![*byte])));
                    }
                }
            }
        }
    }

    fn end(&mut self) {
        self.is_over = true;
        let reading = self.places.iter().filter(|(_, reads)| *reads);
        self.told.extend(reading.map(|(place, _)| (*place, Told::Eof)));
    }

    fn output(&mut self, _: Instant) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    fn next(&mut self) -> Option<(Place, Told)> {
        self.told.pop_front()
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn held(&self) -> usize {
        self.out.capacity()
    }
}

impl Script {
    fn obey(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u32>().expect("a number");
        let ask = match words[0] {
            "dial" => Ask::Dial(Arc::new(upstream(number(words.len() - 1) as u16))),
            "reuse" => Ask::Reuse(Arc::new(upstream(number(2) as u16)), realm(&words, 3)),
            "park" => Ask::Park(Parking {
                most: number(2) as usize,
                time: Duration::from_secs(number(3).into()),
                realm: realm(&words, 4),
                parcel: Parcel::of(words[1].to_owned()),
            }),
            "join" => Ask::Join(Arc::new(upstream(number(2) as u16)), realm(&words, 3)),
            "share" => {
                let carrier: Box<dyn Carrier> = Box::new(Lines::new(number(4) as usize));
                Ask::Share(Parking {
                    most: number(2) as usize,
                    time: Duration::from_secs(number(3).into()),
                    realm: realm(&words, 5),
                    parcel: Parcel::of(carrier),
                })
            }
            "keep" => Ask::Keep,
            "read" => Ask::Read,
            "send" => Ask::Send(vec![b'x'; number(2) as usize]),
            "end" => Ask::End,
            "close" => Ask::Close,
            "abort" => Ask::Abort,
            _ => {
                self.panics = true;
                return;
            }
        };
        self.asks.push_back((Ticket(number(1)), ask));
    }
}

impl Session for Script {
    type Cx = Unshared<NoJob>;

    fn handle(&mut self, _: &mut Unshared<NoJob>, event: Event<'_, NoJob>, _: &mut Tx, _: Instant) {
        match event {
            Event::Bytes(bytes) => {
                let text = str::from_utf8(bytes).expect("text");
                text.lines().for_each(|line| self.obey(line));
            }
            Event::Peer(_, _) if self.panics => panic!("as asked"),
            Event::Peer(Ticket(ticket), event) => {
                let note = match event {
                    PeerEvent::Bytes(bytes) => format!("{ticket} {} bytes", bytes.len()),
                    PeerEvent::Lost(loss) => format!("{ticket} {loss:?}"),
                    PeerEvent::Reused(parcel) => {
                        let parked = parcel.take::<String>().expect("what was left");
                        format!("{ticket} Reused {parked}")
                    }
                    other => format!("{ticket} {other:?}"),
                };
                self.notes.lock().expect("no panic with it").push(note);
            }
            Event::Eof | Event::Lost(_) => self.has_ended = true,
            _ => {}
        }
    }

    fn poll(&mut self, _: &mut Unshared<NoJob>, tx: &mut Tx, _: Instant) -> Action<NoJob> {
        if let Some((ticket, ask)) = self.asks.pop_front() {
            return tx.ask(ticket, ask);
        }
        match self.has_ended {
            true => Action::Close,
            false => Action::Duplex {
                read: true,
                patient: false,
            },
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn closed(&mut self, _: &mut Unshared<NoJob>, _: Instant) {}
}

impl Service for Scripted {
    type Session = Script;

    fn context(&self, _: usize) -> Unshared<NoJob> {
        Unshared::default()
    }

    fn accept(&self, _: &mut Unshared<NoJob>, _: &Accepted, _: Instant) -> Option<Script> {
        Some(Script {
            notes: Arc::clone(&self.notes),
            asks: VecDeque::new(),
            panics: false,
            has_ended: false,
        })
    }

    fn dialing(&self) -> Option<Dialing> {
        Some(self.dialing)
    }

    fn grace(&self) -> Duration {
        Duration::from_secs(1)
    }
}

struct Rig {
    sim: Sim<Scripted>,
    client: Client,
    notes: Notes,
}

impl Rig {
    fn new(dialing: Dialing) -> Rig {
        let service = Scripted {
            dialing,
            ..Scripted::default()
        };
        let notes = Arc::clone(&service.notes);
        let mut sim = Sim::new(service);
        let client = sim.connect_local();
        Rig { sim, client, notes }
    }

    /// What the peers reported because of this.
    fn tell(&mut self, lines: &str) -> Vec<String> {
        self.sim.send(self.client, lines.as_bytes());
        self.noted()
    }

    fn noted(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().expect("no panic with it"))
    }

    /// A peer that is connected.
    fn joined(&mut self, ticket: u32) -> Client {
        assert_eq!(self.tell(&format!("dial {ticket}\n")), [""; 0]);
        let (peer, to) = self.sim.next_dial().expect("it dials");
        assert_eq!(to, upstream(ticket as u16));
        self.sim.answer(peer);
        assert_eq!(self.noted(), [format!("{ticket} Connected")]);
        peer
    }
}

#[test]
fn a_session_has_as_many_peers_as_its_limit_says() {
    let most = Dialing::default().peers_max as u32;
    let mut rig = Rig::new(Dialing::default());
    let peers: Vec<Client> = (0..most).map(|ticket| rig.joined(ticket)).collect();
    assert_eq!(rig.tell(&format!("dial {most}\n")), [format!("{most} TooMany")]);
    assert!(rig.sim.next_dial().is_none());
    assert_eq!(rig.tell("close 0\n"), [""; 0]);
    assert!(rig.sim.is_closed(peers[0]) && !rig.sim.was_reset(peers[0]));
    rig.joined(most);
    rig.sim.finish(rig.client);
    assert!(
        peers.iter().all(|peer| rig.sim.is_closed(*peer)),
        "peers end with their session"
    );
}

#[test]
fn a_peer_is_sent_as_much_at_a_time_as_the_limit_says() {
    let mut rig = Rig::new(Dialing {
        buffered_max: Bytes(1_000),
        ..Dialing::default()
    });
    let peer = rig.joined(0);
    assert_eq!(rig.tell("send 0 1000\n"), ["0 Sent"]);
    assert_eq!(rig.sim.take_received(peer).len(), 1_000);
    assert_eq!(rig.tell("send 0 1001\n"), ["0 TooMuch"]);
    assert!(rig.sim.was_reset(peer));
    assert_eq!(rig.tell("send 0 1\nread 0\n"), [""; 0], "it is gone");
    rig.joined(0);
    let most = Dialing::default().buffered_max.0;
    let mut rig = Rig::new(Dialing::default());
    let peer = rig.joined(0);
    assert_eq!(rig.tell(&format!("send 0 {most}\n")), ["0 Sent"]);
    assert_eq!(rig.sim.received(peer).len() as u64, most);
}

#[test]
fn a_dial_that_nobody_answers_ends_at_the_connect_timeout() {
    let mut rig = Rig::new(Dialing::default());
    rig.joined(1);
    assert_eq!(rig.tell("dial 0\n"), [""; 0]);
    let (peer, _) = rig.sim.next_dial().expect("it dials");
    let patience = Dialing::default().connect_time_max;
    rig.sim.advance(patience - Duration::from_millis(1));
    assert_eq!(rig.noted(), [""; 0]);
    rig.sim.advance(Duration::from_millis(2));
    assert_eq!(rig.noted(), ["0 TimedOut"]);
    assert!(rig.sim.is_closed(peer));
    rig.sim.advance(patience * 100);
    assert_eq!(rig.noted(), [""; 0], "the timeout is that of connecting only");
    rig.joined(0);
}

#[test]
fn each_ask_has_its_outcome_and_input_waits_for_a_read() {
    let mut rig = Rig::new(Dialing::default());
    let peer = rig.joined(7);
    rig.sim.send(peer, b"abc");
    rig.sim.send(peer, b"de");
    rig.sim.finish(peer);
    assert_eq!(rig.noted(), [""; 0]);
    assert_eq!(rig.tell("read 7\n"), ["7 3 bytes"]);
    assert_eq!(rig.tell("read 7\n"), ["7 2 bytes"]);
    assert_eq!(rig.tell("read 7\n"), ["7 Eof"]);
    assert_eq!(rig.tell("read 7\n"), ["7 Eof"], "as often as it asks");
    rig.sim.stop_reading_after(peer, 10);
    assert_eq!(rig.tell("send 7 20\n"), [""; 0]);
    rig.sim.read_on(peer);
    assert_eq!(rig.noted(), ["7 Sent"]);
    assert_eq!(rig.tell("end 7\n"), [""; 0]);
    assert!(rig.sim.is_finished(peer) && !rig.sim.is_closed(peer));
    let gone = rig.joined(8);
    rig.sim.reset(gone);
    let lost = format!("8 Open({})", libc::ECONNRESET);
    assert_eq!(rig.tell("read 8\n"), [lost]);
    assert_eq!(rig.tell("dial 9\n"), [""; 0]);
    let (refused, _) = rig.sim.next_dial().expect("it dials");
    rig.sim.refuse(refused, libc::EHOSTUNREACH);
    assert_eq!(rig.noted(), [format!("9 Opening({})", libc::EHOSTUNREACH)]);
}

#[test]
fn a_peer_given_up_in_the_middle_is_reset() {
    let mut rig = Rig::new(Dialing::default());
    for ask in ["close", "abort"] {
        let peer = rig.joined(0);
        rig.sim.stop_reading_after(peer, 10);
        assert_eq!(rig.tell("send 0 20\n"), [""; 0]);
        assert_eq!(rig.tell(&format!("{ask} 0\n")), [""; 0]);
        assert!(rig.sim.was_reset(peer), "{ask}");
    }
    let peer = rig.joined(0);
    assert_eq!(rig.tell("abort 0\n"), [""; 0]);
    assert!(
        rig.sim.was_reset(peer),
        "nothing is under way, but it was asked for"
    );
}

#[test]
fn a_session_that_panics_or_breaks_the_order_loses_its_own_connection_only() {
    let mut rig = Rig::new(Dialing::default());
    let wrong = [
        ("panic\nread 0\n", true),
        ("read 0\nread 0\n", false),
        ("dial 0\n", false),
        ("dial 1\nread 1\n", false),
    ];
    for (lines, comes_of_an_event) in wrong {
        let other = rig.client;
        let other_peer = rig.joined(0);
        rig.client = rig.sim.connect_local();
        let peer = rig.joined(0);
        rig.tell(lines);
        if comes_of_an_event {
            assert!(!rig.sim.is_closed(rig.client));
            rig.sim.send(peer, b"an event");
        }
        assert!(
            rig.sim.is_closed(rig.client) && rig.sim.is_closed(peer),
            "{lines}"
        );
        while rig.sim.next_dial().is_some() {}
        rig.client = other;
        assert_eq!(rig.tell("send 0 3\n"), ["0 Sent"]);
        assert_eq!(rig.sim.received(other_peer), b"xxx");
        rig.tell("close 0\n");
    }
    assert_eq!(rig.sim.open(), 1);
}

#[test]
fn a_drain_that_is_over_closes_peers_too() {
    let mut rig = Rig::new(Dialing::default());
    let peer = rig.joined(0);
    rig.sim.drain(Duration::from_secs(1));
    assert!(!rig.sim.is_closed(peer), "the session is not done");
    rig.sim.advance(Duration::from_secs(2));
    assert!(rig.sim.is_closed(rig.client) && rig.sim.is_closed(peer));
    assert!(rig.sim.is_drained());
}

impl Rig {
    /// A connection to this port that is parked, with a bound on all to it and a time in seconds.
    fn parked(&mut self, ticket: u32, port: u32, most: u32, seconds: u32) -> Client {
        assert_eq!(self.tell(&format!("dial {ticket} {port}\n")), [""; 0]);
        let (peer, _) = self.sim.next_dial().expect("it dials");
        self.sim.answer(peer);
        self.noted();
        assert_eq!(self.tell(&format!("park {ticket} {most} {seconds}\n")), [""; 0]);
        peer
    }
}

#[test]
fn a_parked_connection_goes_to_the_next_session_that_asks() {
    let mut rig = Rig::new(Dialing::default());
    let first = rig.parked(0, 80, 8, 60);
    let second = rig.parked(1, 80, 8, 60);
    // Its session ends, and the connection stays.
    rig.sim.finish(rig.client);
    assert!(!rig.sim.is_closed(first));
    rig.client = rig.sim.connect_local();
    for (other, why) in [
        ("reuse 5 81\n", "that is another upstream"),
        ("reuse 6 80 1\n", "another realm"),
    ] {
        assert_eq!(rig.tell(other), [""; 0], "{why}");
        assert!(rig.sim.next_dial().is_some(), "{why}");
    }
    // The one parked last comes first.
    assert_eq!(rig.tell("reuse 0 80\nsend 0 3\n"), ["0 Reused 1", "0 Sent"]);
    assert_eq!(rig.sim.take_received(second), b"xxx");
    assert_eq!(rig.tell("reuse 1 80\nread 1\n"), ["1 Reused 0"]);
    rig.sim.send(first, b"abc");
    assert_eq!(rig.noted(), ["1 3 bytes"]);
    assert!(rig.sim.next_dial().is_none());
    // No more are parked.
    assert_eq!(rig.tell("reuse 2 80\n"), [""; 0]);
    let (third, _) = rig.sim.next_dial().expect("it dials");
    rig.sim.answer(third);
    assert_eq!(rig.noted(), ["2 Connected"]);
    // A reused connection belongs to its session, and has no time.
    rig.sim.advance(Duration::from_secs(100));
    assert!(!rig.sim.is_closed(second));
    rig.sim.finish(rig.client);
    assert!(rig.sim.is_closed(second) && rig.sim.is_closed(first));
}

#[test]
fn a_parked_connection_that_receives_anything_is_closed() {
    let mut rig = Rig::new(Dialing::default());
    for stir in [
        (|sim, peer| sim.send(peer, b"HTTP/1.1 408 ")) as fn(&mut Sim<Scripted>, Client),
        |sim, peer| sim.finish(peer),
        |sim, peer| sim.reset(peer),
    ] {
        let peer = rig.parked(0, 80, 8, 60);
        stir(&mut rig.sim, peer);
        assert!(rig.sim.is_closed(peer));
        assert_eq!(rig.noted(), [""; 0], "no session is told");
        // In the same turn as the request, and before it was seen.
        let peer = rig.parked(0, 80, 8, 60);
        rig.sim.queue(rig.client, b"reuse 1 80\n");
        stir(&mut rig.sim, peer);
        assert!(rig.sim.is_closed(peer));
        assert!(rig.sim.next_dial().is_some(), "another one is opened");
        assert_eq!(rig.tell("abort 1\n"), [""; 0]);
        // Before it is parked.
        rig.joined(80);
        let peer = {
            let peer = rig.joined(81);
            rig.sim.queue(peer, b"x");
            peer
        };
        rig.tell("park 81 8 60\nabort 80\n");
        assert!(rig.sim.is_closed(peer));
    }
}

#[test]
fn parked_connections_have_bounds() {
    let mut rig = Rig::new(Dialing {
        parked_max: 4,
        ..Dialing::default()
    });
    // Per upstream: the one parked first goes, after a second.
    let three: Vec<Client> = (0..3).map(|ticket| rig.parked(ticket, 80, 2, 60)).collect();
    let closed = |rig: &Rig, peers: &[Client]| -> Vec<bool> {
        peers.iter().map(|peer| rig.sim.is_closed(*peer)).collect()
    };
    assert_eq!(closed(&rig, &three), [false; 3]);
    rig.sim.advance(Duration::from_millis(1_250));
    assert_eq!(closed(&rig, &three), [true, false, false]);
    // In total: no more are parked.
    let others: Vec<Client> = (0..3)
        .map(|ticket| rig.parked(ticket, 81 + ticket, 2, 10))
        .collect();
    assert_eq!(closed(&rig, &others), [false, false, true]);
    // In time.
    rig.sim.advance(Duration::from_millis(9_999));
    assert_eq!(closed(&rig, &others), [false, false, true]);
    rig.sim.advance(Duration::from_millis(2));
    assert_eq!(closed(&rig, &others), [true, true, true]);
    assert_eq!(closed(&rig, &three), [true, false, false]);
    let none = rig.parked(0, 90, 0, 60);
    assert!(rig.sim.is_closed(none));
    // A session has no more peers than it may, wherever they come from.
    for ticket in 10..17 {
        rig.joined(ticket);
    }
    assert_eq!(rig.tell("reuse 1 80\nreuse 2 80\n"), ["1 Reused 2", "2 TooMany"]);
}

/// Each of several bursts has the connections of the one before it.
#[test]
fn a_burst_closes_no_connections_that_the_next_one_needs() {
    const PARK: &str = "park 0 2 60\npark 1 2 60\npark 2 2 60\npark 3 2 60\npark 4 2 60\n";
    let mut rig = Rig::new(Dialing::default());
    let five: Vec<Client> = (0..5).map(|ticket| rig.parked(ticket, 80, 8, 60)).collect();
    let closed = |rig: &Rig| five.iter().filter(|peer| rig.sim.is_closed(**peer)).count();
    for _ in 0..3 {
        rig.sim.advance(Duration::from_millis(900));
        let reused = rig.tell("reuse 0 80\nreuse 1 80\nreuse 2 80\nreuse 3 80\nreuse 4 80\n");
        assert_eq!(reused.len(), 5);
        assert!(reused.iter().all(|line| line.contains("Reused")), "{reused:?}");
        assert_eq!(rig.tell(PARK), [""; 0]);
        assert_eq!(closed(&rig), 0);
    }
    // Then, those that are too many go, and the others stay their time.
    rig.sim.advance(Duration::from_millis(1_250));
    assert_eq!(closed(&rig), 3);
    rig.sim.advance(Duration::from_secs(58));
    assert_eq!(closed(&rig), 3);
    rig.sim.advance(Duration::from_secs(2));
    assert_eq!(closed(&rig), 5);
}

#[test]
fn parked_connections_end_with_a_drain_and_only_idle_ones_are_parked() {
    let mut rig = Rig::new(Dialing::default());
    let peer = rig.parked(0, 80, 8, 60);
    let used = rig.joined(1);
    rig.sim.drain(Duration::from_secs(100));
    assert!(rig.sim.is_closed(peer));
    assert_eq!(rig.tell("park 1 8 60\n"), [""; 0]);
    assert!(rig.sim.is_closed(used), "nobody would use it");
    for lines in ["read 0\npark 0 8 60\n", "send 0 20\npark 0 8 60\n"] {
        let mut rig = Rig::new(Dialing::default());
        let peer = rig.joined(0);
        rig.sim.stop_reading_after(peer, 10);
        rig.tell(lines);
        assert!(
            rig.sim.is_closed(rig.client) && rig.sim.is_closed(peer),
            "{lines}"
        );
    }
}

impl Rig {
    /// A connection that this session shares, with so much room.
    fn shared(&mut self, ticket: u32, most: usize, seconds: u32, room: usize) -> Client {
        assert_eq!(self.tell(&format!("join {ticket} 80\n")), [""; 0]);
        let (peer, to) = self.sim.next_dial().expect("it dials");
        assert_eq!(to, upstream(80));
        self.sim.answer(peer);
        assert_eq!(self.noted(), [format!("{ticket} Connected")]);
        let share = format!("share {ticket} {most} {seconds} {room}\n");
        assert_eq!(self.tell(&share), [""; 0]);
        peer
    }
}

#[test]
fn several_sessions_use_a_shared_connection() {
    let mut rig = Rig::new(Dialing::default());
    let peer = rig.shared(0, 8, 60, 3);
    let other = rig.sim.connect_local();
    rig.sim.send(other, b"join 7 80\nsend 7 5\nread 7\n");
    assert_eq!(rig.noted(), ["7 Joined", "7 Sent"]);
    assert_eq!(
        rig.tell("join 1 80\nread 1\nread 0\nsend 0 9\n"),
        ["1 Joined", "0 Sent"]
    );
    assert!(rig.sim.next_dial().is_none());
    assert_eq!(rig.sim.take_received(peer), [1, 5, 0, 9]);
    // Each gets its own, whoever asked last.
    rig.sim.send(peer, b"cab");
    assert_eq!(rig.noted(), ["1 1 bytes", "0 1 bytes", "7 1 bytes"]);
    // There is no more room, and another realm is another connection.
    assert_eq!(rig.tell("join 2 80\njoin 3 80 1\n"), [""; 0]);
    assert!(rig.sim.next_dial().is_some() && rig.sim.next_dial().is_some());
    // A session that ends leaves, and the connection stays.
    rig.sim.finish(other);
    assert_eq!(rig.sim.take_received(peer), [1, b'.']);
    assert!(!rig.sim.is_closed(peer));
    assert_eq!(rig.tell("join 4 80\n"), ["4 Joined"]);
    // One place is lost, and the others are not.
    rig.sim.send(peer, b"Ac");
    assert_eq!(rig.noted(), ["0 Unprocessed", "1 1 bytes"]);
    assert!(!rig.sim.is_closed(peer));
}

/// A session that asks in the turn in which the end of the connection has arrived, before the session that is told of that end.
#[test]
fn a_shared_connection_whose_end_has_arrived_gets_no_session() {
    for end in [
        (|sim, peer| sim.queue_finish(peer)) as fn(&mut Sim<Scripted>, Client),
        |sim, peer| sim.queue_reset(peer),
        // What was sent before the end has not been received yet.
        |sim, peer| {
            sim.queue(peer, b"a");
            sim.queue_finish(peer);
        },
    ] {
        let mut rig = Rig::new(Dialing::default());
        let peer = rig.shared(0, 8, 60, 8);
        rig.sim.queue(rig.client, b"join 1 80\nread 0\n");
        end(&mut rig.sim, peer);
        rig.sim.settle();
        let noted = rig.noted();
        assert!(noted.iter().all(|note| note.starts_with("0 ")), "{noted:?}");
        let (second, to) = rig.sim.next_dial().expect("it dials another one");
        assert_eq!(to, upstream(80));
        rig.sim.answer(second);
        assert_eq!(rig.noted(), ["1 Connected"]);
        // The new one is shared in turn.
        assert_eq!(rig.tell("share 1 8 60 8\n"), [""; 0]);
        assert_eq!(rig.tell("join 2 80\n"), ["2 Joined"]);
    }
}

#[test]
fn sessions_wait_for_a_connection_that_opens() {
    let mut rig = Rig::new(Dialing::default());
    let other = rig.sim.connect_local();
    assert_eq!(rig.tell("join 0 80\njoin 1 80\njoin 2 80\n"), [""; 0]);
    rig.sim.send(other, b"join 3 80\njoin 4 80\n");
    let (peer, _) = rig.sim.next_dial().expect("it dials");
    assert!(rig.sim.next_dial().is_none(), "the others wait");
    // One gives up, and one has room when it opens; the last one opens another.
    assert_eq!(rig.tell("close 1\n"), [""; 0]);
    rig.sim.answer(peer);
    assert_eq!(
        rig.tell("share 0 8 60 3\n"),
        ["0 Connected", "2 Joined", "3 Joined"]
    );
    let (second, _) = rig.sim.next_dial().expect("it dials");
    rig.sim.answer(second);
    assert_eq!(rig.noted(), ["4 Connected"]);
    // Sessions that end wait no longer.
    let gone = rig.sim.connect_local();
    rig.sim.send(gone, b"join 9 80\n");
    assert_eq!(rig.tell("join 5 80\n"), [""; 0]);
    rig.sim.finish(gone);
    // Its session keeps the connection: who waits opens one in turn. So it is if one fails.
    rig.sim.send(other, b"keep 4\n");
    let (third, _) = rig.sim.next_dial().expect("it dials");
    assert_eq!(rig.tell("join 6 80\n"), [""; 0]);
    rig.sim.refuse(third, 111);
    let noted = rig.noted();
    assert!(noted[0].starts_with("5 Opening"), "{noted:?}");
    let (fourth, _) = rig.sim.next_dial().expect("it dials");
    rig.sim.answer(fourth);
    assert_eq!(rig.noted(), ["6 Connected"]);
}

#[test]
fn a_shared_connection_without_sessions_has_bounds() {
    let mut rig = Rig::new(Dialing {
        parked_max: 2,
        ..Dialing::default()
    });
    let peers: Vec<Client> = (0..4).map(|ticket| rig.shared(ticket, 8, 60, 1)).collect();
    let closed = |rig: &Rig| -> Vec<bool> { peers.iter().map(|peer| rig.sim.is_closed(*peer)).collect() };
    // In total.
    rig.tell("close 0\nclose 1\nclose 2\n");
    assert_eq!(closed(&rig), [false, false, true, false]);
    // In time, unless it is used again.
    assert_eq!(rig.tell("join 5 80\n"), ["5 Joined"]);
    rig.sim.advance(Duration::from_millis(60_500));
    assert_eq!(closed(&rig), [false, true, true, false]);
    rig.tell("park 5 1 1\n");
    assert_eq!(closed(&rig), [false, true, true, false]);
    // Per upstream, each with what it was shared with.
    let mut rig = Rig::new(Dialing::default());
    let peers: Vec<Client> = (0..3).map(|ticket| rig.shared(ticket, 2, 60, 1)).collect();
    rig.tell("close 0\nclose 1\nclose 2\n");
    let closed: Vec<bool> = peers.iter().map(|peer| rig.sim.is_closed(*peer)).collect();
    assert_eq!(closed, [true, false, false]);
    // None is kept while the event loop ends, or if the protocol is over.
    assert_eq!(rig.tell("join 5 80\n"), ["5 Joined"]);
    rig.sim.send(peers[1], b"-");
    assert!(!rig.sim.is_closed(peers[1]));
    rig.tell("close 5\n");
    assert!(rig.sim.is_closed(peers[1]) && !rig.sim.is_closed(peers[2]));
    rig.sim.drain(Duration::from_secs(100));
    assert!(peers.iter().all(|peer| rig.sim.is_closed(*peer)));
}

#[test]
fn what_happens_to_a_shared_connection_happens_to_its_sessions_alone() {
    for (end, told) in [
        (
            (|sim, peer| sim.reset(peer)) as fn(&mut Sim<Scripted>, Client),
            "Open",
        ),
        (|sim, peer| sim.send(peer, b"!"), "Open(5)"),
        (|sim, peer| sim.finish(peer), "Eof"),
    ] {
        let mut rig = Rig::new(Dialing::default());
        let peer = rig.shared(0, 8, 60, 8);
        let other = rig.sim.connect_local();
        rig.sim.send(other, b"join 7 80\nread 7\n");
        assert_eq!(rig.tell("join 1 80\nread 0\nread 1\n"), ["7 Joined", "1 Joined"]);
        let alone = rig.joined(90);
        end(&mut rig.sim, peer);
        let mut noted = rig.noted();
        noted.sort();
        for (note, ticket) in noted.iter().zip(["0", "1", "7"]) {
            assert!(note.starts_with(&format!("{ticket} {told}")), "{noted:?}");
        }
        assert_eq!(noted.len(), 3, "{noted:?}");
        // Who has left is told nothing more.
        assert_eq!(rig.tell("send 90 1\nsend 0 1\nclose 0\nclose 1\n"), ["90 Sent"]);
        rig.sim.send(other, b"close 7\n");
        assert!(rig.sim.is_closed(peer) && !rig.sim.is_closed(alone));
        assert!(!rig.sim.is_closed(rig.client) && !rig.sim.is_closed(other));
    }
}
