//! A toy protocol behind TLS, driven in memory: each line asks for so many bytes, from memory or from a file.

use super::*;
use crate::engine::tests::{client, configurations};
use crate::tickets::Secret;
use runtime::sim::{Client, Jobs, Sim};
use runtime::{Ask, Dialing, NoJob, PeerEvent, Ticket, Unshared, Upstream};
use std::net::SocketAddr;
use std::sync::Mutex;

/// `N` asks for N bytes as a copy, `memory N` for N bytes that are referenced and tells of progress, `bye` for an end.
#[derive(Default)]
struct Bytes {
    told: Told,
    budget: Arc<Budget>,
}

/// What the layer told its sessions.
type Told = Arc<Mutex<Vec<String>>>;

/// A silent client is given up after this.
const SILENCE: Duration = Duration::from_secs(10);

struct Asking {
    told: Told,
    line: Vec<u8>,
    deadline: Instant,
    state: State,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Reading,
    Sending { last: bool },
    Ending,
}

impl Session for Asking {
    type Cx = Unshared<NoJob>;

    fn handle(&mut self, _: &mut Unshared<NoJob>, event: Event<'_, NoJob>, tx: &mut Tx, now: Instant) {
        match event {
            Event::Bytes(bytes) => {
                self.line.extend_from_slice(bytes);
                let Some(text) = self.line.strip_suffix(b"\n") else {
                    return;
                };
                let last = text == b"bye";
                let (text, is_referenced) = match text.strip_prefix(b"memory ") {
                    Some(text) => (text, true),
                    None => (text, false),
                };
                let count: usize = str::from_utf8(text)
                    .ok()
                    .and_then(|text| text.parse().ok())
                    .unwrap_or(0);
                tx.head.extend_from_slice(b"head ");
                match is_referenced {
                    true => tx.body = Some(Body::Bytes(numbered(count).into())),
                    false => tx.head.resize(5 + count, b'x'),
                }
                self.line.clear();
                self.state = State::Sending { last };
                self.deadline = now + SILENCE;
            }
            Event::Sent => {
                self.state = match self.state {
                    State::Sending { last: true } => State::Ending,
                    _ => State::Reading,
                }
            }
            Event::Eof | Event::Drain | Event::Deadline | Event::Lost(_) => self.state = State::Ending,
            Event::Progress(_) => self.told.lock().expect("no panic").push("progress".to_owned()),
            Event::Secured(secured) => self.told.lock().expect("no panic").push(format!("{secured:?}")),
            Event::Unsecured(why) => self.told.lock().expect("no panic").push(format!("{why:?}")),
            _ => {}
        }
    }

    fn poll(&mut self, _: &mut Unshared<NoJob>, tx: &mut Tx, _: Instant) -> Action<NoJob> {
        match self.state {
            State::Reading => Action::Read,
            State::Sending { .. } if tx.is_empty() => Action::Stay,
            State::Sending { .. } => Action::Write,
            State::Ending => Action::Close,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.deadline)
    }

    fn closed(&mut self, _: &mut Unshared<NoJob>, _: Instant) {}
}

impl Service for Bytes {
    type Session = Asking;

    fn context(&self, _: usize) -> Unshared<NoJob> {
        Unshared::default()
    }

    fn accept(&self, _: &mut Unshared<NoJob>, _: &Accepted, now: Instant) -> Option<Asking> {
        Some(Asking {
            told: Arc::clone(&self.told),
            line: Vec::new(),
            deadline: now + SILENCE,
            state: State::Reading,
        })
    }

    fn budget(&self) -> Arc<Budget> {
        Arc::clone(&self.budget)
    }

    fn grace(&self) -> Duration {
        Duration::from_secs(1)
    }
}

fn tickets() -> Ratchet {
    let secret = Secret::new(1_800_000_000).expect("random bytes");
    Ratchet::new(secret).expect("a key")
}

/// A server in memory and one client of it.
struct Rig<V: Service = Bytes> {
    sim: Sim<SecuredService<V>>,
    slot: Slot,
    wire: Client,
    engine: Engine,
    plain: Vec<u8>,
}

impl Rig {
    fn new() -> (Rig, Told) {
        let service = Bytes::default();
        let told = Arc::clone(&service.told);
        (Rig::of(service), told)
    }
}

/// What was told, one line each.
fn said(told: &Told) -> String {
    told.lock().expect("no panic").join("\n")
}

impl<V: Service> Rig<V> {
    fn of(service: V) -> Rig<V> {
        let (server, client_config) = configurations();
        let slot = Slot::new(server);
        let slots = vec![Some(slot.clone())];
        let mut sim = Sim::new(SecuredService::new(Arc::new(service), slots, tickets()));
        sim.set_jobs(Jobs::AtOnce);
        let wire = sim.connect(SocketAddr::from(([192, 0, 2, 1], 4_000)));
        Rig {
            sim,
            slot,
            wire,
            engine: client(&client_config),
            plain: Vec::new(),
        }
    }

    /// Carries what both say until they are silent.
    fn settle(&mut self, mut out: Vec<u8>) {
        let mut scratch = Vec::new();
        loop {
            if !out.is_empty() {
                self.sim.send(self.wire, &out);
                out.clear();
            }
            let came = self.sim.take_received(self.wire);
            if came.is_empty() {
                return;
            }
            self.engine
                .receive(&came, &mut scratch, &mut self.plain, &mut out)
                .expect("the server speaks TLS");
        }
    }

    fn shake_hands(&mut self) {
        let mut hello = Vec::new();
        self.engine
            .receive(&[], &mut Vec::new(), &mut Vec::new(), &mut hello)
            .expect("a hello");
        self.settle(hello);
        assert!(!self.engine.is_handshaking());
    }

    fn ask(&mut self, line: &str) {
        let mut out = Vec::new();
        self.engine.send(line.as_bytes(), &mut out).expect("records");
        self.settle(out);
    }
}

#[test]
fn a_protocol_is_served_over_tls_without_knowing() {
    let (mut rig, told) = Rig::new();
    rig.shake_hands();
    for count in [0, 1, 5_000, 300_000] {
        rig.plain.clear();
        rig.ask(&format!("{count}\n"));
        assert_eq!(rig.plain.len(), 5 + count);
        assert!(rig.plain.starts_with(b"head "));
    }
    rig.ask("bye\n");
    assert!(rig.sim.is_closed(rig.wire) && !rig.sim.was_reset(rig.wire));
    assert_eq!(
        said(&told),
        "Secured { protocol: Some([104, 116, 116, 112, 47, 49, 46, 49]), resumed: false, identity: None, \
         version: Some(V13) }"
    );
}

/// Bytes whose order can be told.
fn numbered(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at / 1_000) as u8).collect()
}

#[test]
fn a_body_in_memory_goes_out_by_chunks_and_in_order() {
    for count in [0, 1, CHUNK as usize, CHUNK as usize + 1, 5 * CHUNK as usize] {
        let (mut rig, told) = Rig::new();
        rig.shake_hands();
        told.lock().expect("no panic").clear();
        rig.ask(&format!("memory {count}\n"));
        assert_eq!(rig.plain, [b"head ", &numbered(count)[..]].concat(), "{count}");
        let chunks = count.div_ceil(CHUNK as usize).max(1);
        assert_eq!(told.lock().expect("no panic").len(), chunks - 1, "{count}");
        rig.plain.clear();
        rig.ask("3\n");
        assert_eq!(rig.plain, b"head xxx", "the next request is answered");
    }
    // A peer that takes nothing holds one chunk back, not the body, and its deadline ends it.
    let (mut rig, told) = Rig::new();
    rig.shake_hands();
    told.lock().expect("no panic").clear();
    rig.sim.stop_reading_after(rig.wire, 70_000);
    rig.ask(&format!("memory {}\n", 50 * CHUNK));
    // Of the layer for the first chunk, and of the driver for the part of the second that was taken.
    assert_eq!(said(&told), "progress\nprogress");
    rig.sim.advance(SILENCE + Duration::from_secs(1));
    assert!(rig.sim.is_closed(rig.wire));
}

#[test]
fn plain_http_is_told_so() {
    let (mut rig, told) = Rig::new();
    rig.sim.send(rig.wire, b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let answer = rig.sim.take_received(rig.wire);
    assert_eq!(answer, PLAIN_HTTP);
    let body = answer.split(|&b| b == b'\n').next_back();
    assert_eq!(body, Some(&b""[..]));
    let text = String::from_utf8(answer).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    assert!(
        head.contains(&format!("Content-Length: {}", body.len())),
        "{head}"
    );
    assert!(rig.sim.is_closed(rig.wire));
    assert_eq!(said(&told), "PlainHttp");
}

#[test]
fn garbage_gets_an_alert_and_an_end() {
    let (mut rig, told) = Rig::new();
    rig.sim.send(rig.wire, &[0x16, 3, 1, 0, 4, 0xff, 0, 0, 0]);
    assert_eq!(rig.sim.take_received(rig.wire).first(), Some(&21));
    assert!(rig.sim.is_closed(rig.wire));
    assert_eq!(said(&told), "Fault");
}

#[test]
fn a_handshake_that_does_not_go_on_is_given_up() {
    let (mut rig, _) = Rig::new();
    rig.sim.send(rig.wire, &[0x16, 3, 1, 2]);
    rig.sim.advance(SILENCE - Duration::from_secs(1));
    assert!(!rig.sim.is_closed(rig.wire));
    rig.sim.advance(Duration::from_secs(2));
    assert!(rig.sim.is_closed(rig.wire));
}

#[test]
fn what_is_kept_of_a_record_counts_as_memory() {
    let service = Bytes::default();
    let budget = Arc::clone(&service.budget);
    let mut rig = Rig::of(service);
    let held = || budget.held().0;
    let mut hello = Vec::new();
    let began = rig
        .engine
        .receive(&[], &mut Vec::new(), &mut Vec::new(), &mut hello);
    assert!(began.is_ok());
    rig.sim.send(rig.wire, &hello[..100]);
    assert!(held() >= 100, "a part of a hello: {}", held());
    rig.settle(hello[100..].to_vec());
    assert_eq!(held(), 0);
    let mut record = Vec::new();
    rig.engine.send(&[b'1'; 9_000], &mut record).expect("a record");
    rig.sim.send(rig.wire, &record[..1_000]);
    assert!(held() >= 1_000, "a part of a record: {}", held());
    rig.sim.send(rig.wire, &record[1_000..]);
    assert_eq!(held(), 0);
    rig.sim.send(rig.wire, &record[..5]);
    assert!(held() > 0);
    rig.sim.reset(rig.wire);
    assert_eq!(held(), 0, "a connection takes its count with it");
}

#[test]
fn a_listener_without_tls_passes_through() {
    let mut sim = Sim::new(SecuredService::new(
        Arc::new(Bytes::default()),
        vec![None],
        tickets(),
    ));
    let wire = sim.connect_local();
    sim.send(wire, b"3\n");
    assert_eq!(sim.take_received(wire), b"head xxx");
}

#[test]
fn few_are_accepted_per_turn_where_each_brings_a_handshake() {
    let slots = vec![None, Some(Slot::new(configurations().0))];
    let service = SecuredService::new(Arc::new(Bytes::default()), slots, tickets());
    let clear = Bytes::default().accepts_per_turn(0);
    assert_eq!(service.accepts_per_turn(0), clear);
    assert!(service.accepts_per_turn(1) < clear);
    assert!(service.accepts_per_turn(2) < clear, "beyond the end as the last");
}

#[test]
fn a_replaced_configuration_is_for_new_connections() {
    let (mut rig, _) = Rig::new();
    rig.shake_hands();
    let (other, _) = configurations();
    rig.slot.replace(other);
    rig.ask("10\n");
    assert_eq!(rig.plain.len(), 15);
    let late = rig.sim.connect(SocketAddr::from(([192, 0, 2, 2], 4_000)));
    let mut hello = Vec::new();
    let mut stranger = client(&configurations().1);
    stranger
        .receive(&[], &mut Vec::new(), &mut Vec::new(), &mut hello)
        .expect("a hello");
    rig.sim.send(late, &hello);
    let came = rig.sim.take_received(late);
    let refused = stranger.receive(&came, &mut Vec::new(), &mut Vec::new(), &mut Vec::new());
    assert!(refused.is_err(), "it trusts another certificate");
}

/// Answers each line at once, in the order of the lines, and reads all the while: a number with that many bytes, `file`
/// with a file, `bye` with the end.
struct Sides(Option<Arc<runtime::fs::File>>);

struct BothWays {
    file: Option<Arc<runtime::fs::File>>,
    line: Vec<u8>,
    answers: std::collections::VecDeque<Body>,
    is_sending: bool,
    has_ended: bool,
}

impl Session for BothWays {
    type Cx = Unshared<NoJob>;

    fn handle(&mut self, _: &mut Unshared<NoJob>, event: Event<'_, NoJob>, _: &mut Tx, _: Instant) {
        match event {
            Event::Bytes(bytes) => {
                self.line.extend_from_slice(bytes);
                while let Some(end) = self.line.iter().position(|&b| b == b'\n') {
                    let line: Vec<u8> = self.line.drain(..=end).collect();
                    match str::from_utf8(&line[..end]).expect("text") {
                        "bye" => self.has_ended = true,
                        "file" => {
                            let file = Arc::clone(self.file.as_ref().expect("a file"));
                            let len = file.meta().len;
                            self.answers
                                .push_back(Body::File(FileRange { file, offset: 0, len }));
                        }
                        count => {
                            let count = count.parse().expect("a number");
                            self.answers.push_back(Body::Bytes(vec![b'x'; count].into()));
                        }
                    }
                }
            }
            Event::Sent => self.is_sending = false,
            Event::Eof | Event::Lost(_) => self.has_ended = true,
            _ => {}
        }
    }

    fn poll(&mut self, _: &mut Unshared<NoJob>, tx: &mut Tx, _: Instant) -> Action<NoJob> {
        if !self.is_sending {
            tx.body = self.answers.pop_front();
            self.is_sending = tx.body.is_some();
        }
        match self.is_sending || !self.has_ended {
            true => Action::Duplex {
                read: !self.has_ended,
                patient: false,
            },
            false => Action::Close,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn closed(&mut self, _: &mut Unshared<NoJob>, _: Instant) {}
}

impl Service for Sides {
    type Session = BothWays;

    fn context(&self, _: usize) -> Unshared<NoJob> {
        Unshared::default()
    }

    fn accept(&self, _: &mut Unshared<NoJob>, _: &Accepted, _: Instant) -> Option<BothWays> {
        Some(BothWays {
            file: self.0.clone(),
            line: Vec::new(),
            answers: std::collections::VecDeque::new(),
            is_sending: false,
            has_ended: false,
        })
    }

    fn grace(&self) -> Duration {
        Duration::from_secs(1)
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a file for the test to serve")]
fn a_session_of_both_ways_is_served_over_tls() {
    let folder = std::env::temp_dir().join(format!("weir-secured-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let text: Vec<u8> = (0..200_000u32).flat_map(|i| (i as u16).to_be_bytes()).collect();
    std::fs::write(folder.join("file"), &text).expect("a file");
    let how = runtime::fs::How {
        symlinks: runtime::fs::Symlinks::Refuse,
        wait: Wait::Block,
    };
    let root = runtime::fs::Root::open(&folder).expect("the folder");
    let file = Arc::new(root.open_file(b"file", how).expect("the file"));
    for jobs in [Jobs::AtOnce, Jobs::Held] {
        let mut rig = Rig::of(Sides(Some(Arc::clone(&file))));
        rig.sim.set_jobs(jobs);
        rig.shake_hands();
        rig.ask("5\nfile\n3\n");
        while rig.sim.run_job() {
            rig.settle(Vec::new());
        }
        let expected = [b"xxxxx", &text[..], b"xxx"].concat();
        assert!(rig.plain == expected, "{} of {}", rig.plain.len(), expected.len());
        rig.ask("bye\n");
        assert!(rig.sim.is_closed(rig.wire) && !rig.sim.was_reset(rig.wire));
    }
    std::fs::remove_dir_all(folder).expect("our own folder");
}

#[test]
fn a_session_of_both_ways_reads_while_its_records_wait() {
    let mut rig = Rig::of(Sides(None));
    rig.shake_hands();
    rig.sim.stop_reading_after(rig.wire, 100);
    for line in ["70000\n", "5\n"] {
        let mut out = Vec::new();
        rig.engine.send(line.as_bytes(), &mut out).expect("records");
        rig.sim.send(rig.wire, &out);
    }
    assert_eq!(rig.sim.received(rig.wire).len(), 100);
    rig.sim.read_on(rig.wire);
    rig.settle(Vec::new());
    assert_eq!(rig.plain.len(), 70_005);
}

#[test]
fn a_session_that_ends_does_not_wait_for_ever_for_its_peer_to_hear_it() {
    let mut rig = Rig::of(Sides(None));
    rig.shake_hands();
    rig.sim.stop_reading_after(rig.wire, 0);
    let mut out = Vec::new();
    rig.engine.send(b"bye\n", &mut out).expect("records");
    rig.sim.send(rig.wire, &out);
    assert!(!rig.sim.is_closed(rig.wire), "the end of TLS is not sent yet");
    rig.sim.advance(Duration::from_secs(6));
    assert!(rig.sim.is_closed(rig.wire));
}

/// Joins a client to an upstream.
struct Joining;

#[derive(Default)]
struct Joined {
    asks: std::collections::VecDeque<Ask>,
    is_connected: bool,
    is_sending: bool,
    /// The upstream's half has ended.
    ends: bool,
    has_ended: bool,
    aborts: bool,
}

impl Session for Joined {
    type Cx = Unshared<NoJob>;

    fn handle(&mut self, _: &mut Unshared<NoJob>, event: Event<'_, NoJob>, tx: &mut Tx, _: Instant) {
        match event {
            Event::Bytes(bytes) => self.asks.push_back(Ask::Send(bytes.to_vec())),
            Event::Sent => self.is_sending = false,
            Event::Peer(_, PeerEvent::Connected) => {
                self.is_connected = true;
                self.asks.push_back(Ask::Read);
            }
            Event::Peer(_, PeerEvent::Bytes(bytes)) => {
                tx.head.extend_from_slice(bytes);
                self.is_sending = true;
                self.asks.push_back(Ask::Read);
            }
            Event::Peer(_, PeerEvent::Eof) => self.ends = true,
            Event::Peer(_, PeerEvent::Lost(_)) => self.aborts = true,
            Event::Eof | Event::Lost(_) => self.has_ended = true,
            _ => {}
        }
    }

    fn poll(&mut self, _: &mut Unshared<NoJob>, tx: &mut Tx, _: Instant) -> Action<NoJob> {
        if self.aborts {
            return Action::Abort;
        }
        if tx.is_empty() {
            if let Some(ask) = self.asks.pop_front() {
                return tx.ask(Ticket(0), ask);
            }
            if !self.is_sending && std::mem::take(&mut self.ends) {
                return Action::End;
            }
            if self.has_ended {
                return Action::Close;
            }
        }
        Action::Duplex {
            read: self.is_connected,
            patient: false,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn closed(&mut self, _: &mut Unshared<NoJob>, _: Instant) {}
}

impl Service for Joining {
    type Session = Joined;

    fn context(&self, _: usize) -> Unshared<NoJob> {
        Unshared::default()
    }

    fn accept(&self, _: &mut Unshared<NoJob>, _: &Accepted, _: Instant) -> Option<Joined> {
        let upstream = Upstream::Tcp(SocketAddr::from(([192, 0, 2, 2], 80)));
        Some(Joined {
            asks: [Ask::Dial(Arc::new(upstream))].into(),
            ..Joined::default()
        })
    }

    fn dialing(&self) -> Option<Dialing> {
        Some(Dialing::default())
    }

    fn grace(&self) -> Duration {
        Duration::from_secs(1)
    }
}

#[test]
fn a_session_over_tls_has_peers_and_its_half_ends_by_itself() {
    let mut rig = Rig::of(Joining);
    let (peer, _) = rig.sim.next_dial().expect("it dials");
    rig.sim.answer(peer);
    rig.shake_hands();
    rig.ask("question");
    assert_eq!(rig.sim.take_received(peer), b"question");
    rig.sim.send(peer, b"answer");
    rig.settle(Vec::new());
    assert_eq!(rig.plain, b"answer");

    rig.sim.finish(peer);
    let came = rig.sim.take_received(rig.wire);
    let received = rig
        .engine
        .receive(&came, &mut Vec::new(), &mut rig.plain, &mut Vec::new());
    assert!(received.expect("the server speaks TLS").closed, "close_notify");
    assert!(!rig.sim.is_finished(rig.wire), "the client may still send");
    rig.ask("and more");
    assert_eq!(rig.sim.take_received(peer), b"and more");

    let mut goodbye = Vec::new();
    rig.engine.close(&mut goodbye).expect("close_notify");
    rig.sim.send(rig.wire, &goodbye);
    for end in [rig.wire, peer] {
        assert!(rig.sim.is_closed(end) && !rig.sim.was_reset(end));
    }

    let mut rig = Rig::of(Joining);
    let (peer, _) = rig.sim.next_dial().expect("it dials");
    rig.sim.answer(peer);
    rig.shake_hands();
    rig.sim.reset(peer);
    assert!(rig.sim.was_reset(rig.wire), "without close_notify");
    assert_eq!(rig.sim.take_received(rig.wire), b"");
}
