//! HTTP/3 while one program takes over from another: handshakes that are under way, and programs and worker processes that die.

use super::processes::process_of;
use super::{Client, Line, launch, open, open_at, site};
use crate::serve::files::noise;
use crate::serve::handover::{Gate, follow, started_by_first};
use crate::serve::process::{Launch, PATIENCE, Strategy, eventually, signal, within};
use crate::serve::tls::{Pairs, Secure};
use crate::serve::upgrade::{ENDING, crash, has_ended, pid_of};
use std::net::UdpSocket;
use std::path::Path;

/// Has the newest program followed by another.
fn upgrade(line: &mut Line) {
    let before = line.first.stderr().matches("stopping:").count();
    signal(line.newest, "USR2");
    line.newest = pid_of(&line.next_start());
    eventually("the old one leaves", || {
        (line.first.stderr().matches("stopping:").count() > before).then_some(())
    });
}

/// The server has sent its first flight when it is followed by another, and has the client's second one passed on.
fn a_handshake_goes_on_through_an_upgrade(strategy: Strategy) {
    let pairs = site(&[("a.txt", b"a")]);
    let server = launch(strategy, &pairs, &["--grace", "90s"]);
    let mut cut = Client::new(server.address, &pairs.client(), "a.test");
    assert!(cut.run(|_| true), "the first flight is sent");
    cut.socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    cut.socket.peek(&mut [0]).expect("the server's first flight");
    let mut line = Line::of(server);
    upgrade(&mut line);
    assert!(cut.run(|client| client.is_connected), "{:?}", cut.closed);
    let stream = cut.ask("/a.txt");
    assert!(cut.run(Client::is_done), "{:?}", cut.closed);
    assert_eq!(cut.got[&stream].body, b"a");
    let [_, program, _] = cut.named.expect("it has sent a request");
    assert_eq!(program, 0, "the old one has it");
    assert!(cut.run(|client| client.is_leaving), "{:?}", cut.closed);
    cut.leave();
    within(ENDING, "the old one ends", || line.first.has_ended());
    line.stop();
}

/// The old program has the sockets again, and finishes what it has begun.
fn a_successor_that_dies_loses_its_own_connections_only(strategy: Strategy) {
    let large = noise(20 << 20);
    let pairs = site(&[("a.txt", b"a"), ("large.bin", &large)]);
    let server = launch(strategy, &pairs, &["--grace", "90s"]);
    let mut busy = open(&server, &pairs);
    let stream = busy.ask("/large.bin");
    assert!(busy.run(|client| client.got[&stream].body.len() > 1 << 20));
    let mut line = Line::of(server);
    upgrade(&mut line);
    let mut lost = open_at(1, &line.first, &pairs);
    assert!(!busy.got[&stream].has_ended);
    // Worker processes end once they have no connections, and the old ones wait for the last.
    lost.leave();
    signal(line.newest, "KILL");
    within(ENDING, "the new one is dead", || {
        has_ended(line.newest).then_some(())
    });
    assert!(busy.run(Client::is_done), "{:?}", busy.closed);
    assert!(busy.is_leaving);
    assert!(busy.got[&stream].body == large);
    busy.leave();
    let status = within(ENDING, "the old one ends", || line.first.has_ended());
    assert_eq!(status.code(), Some(0), "{}", line.first.stderr());
}

/// The old program has its connections all the time, and the next one new peers from the moment it serves.
fn one_signal_starts_http3_again(strategy: Strategy) {
    let large = noise(20 << 20);
    let pairs = site(&[("a.txt", b"a"), ("large.bin", &large)]);
    let server = launch(strategy, &pairs, &["--grace", "90s"]);
    let mut busy = open(&server, &pairs);
    let stream = busy.ask("/large.bin");
    assert!(busy.run(|client| client.got[&stream].body.len() > 1 << 20));
    let mut line = Line::of(server);
    upgrade(&mut line);
    for crashes in 1..=2 {
        // Worker processes that have lost their parent wait for the last connections over TCP only.
        let _lost = open_at(1, &line.first, &pairs);
        crash(&line, crashes);
        within(ENDING, "the new one is dead", || {
            has_ended(line.newest).then_some(())
        });
        // It has the sockets again.
        let had = busy.got[&stream].body.len();
        assert!(
            busy.run(|client| client.got[&stream].body.len() > had + (1 << 20)),
            "{:?}",
            busy.closed
        );
        line.first.signal("USR2");
        line.newest = pid_of(&line.next_start());
        eventually("the old one knows", || {
            let said = line.first.stderr();
            said.contains(&format!("started again: process {} serves", line.newest))
                .then_some(())
        });
    }
    let mut fresh = open_at(1, &line.first, &pairs);
    for _ in 0..16 {
        // Nobody refuses what is the new one's, or resets it.
        let mut another = open(&line.first, &pairs);
        assert_eq!(another.get("/a.txt", &[]).body, b"a");
        let [_, program, _] = another.named.expect("it has sent a request");
        assert_eq!(program, 1);
        another.leave();
    }
    assert!(busy.run(Client::is_done), "{:?}", busy.closed);
    assert!(busy.got[&stream].body == large);
    busy.leave();
    let status = within(ENDING, "the old one ends", || line.first.has_ended());
    assert_eq!(status.code(), Some(0), "{}", line.first.stderr());
    assert_eq!(fresh.get("/a.txt", &[]).body, b"a");
    assert!(!fresh.is_leaving);
    fresh.leave();
    open_at(1, &line.first, &pairs).leave();
    line.stop();
}

/// Its connections keep the port of UDP. A new start serves over TCP, says who has the port, and has HTTP/3 once that has ended.
fn a_new_start_names_who_has_the_port(strategy: Strategy) {
    let large = noise(20 << 20);
    let pairs = site(&[("a.txt", b"a"), ("large.bin", &large)]);
    let mut old = launch(strategy, &pairs, &["--grace", "90s"]);
    let mut busy = open(&old, &pairs);
    let stream = busy.ask("/large.bin");
    assert!(busy.run(|client| client.got[&stream].body.len() > 1 << 20));
    old.signal("TERM");
    assert!(busy.run(|client| client.is_leaving), "{:?}", busy.closed);
    let holders = old.pids();
    let address = old.address.to_string();
    let anew = |http3: &str| {
        let pairs: &Pairs = &pairs;
        let flags = ["a.pem", "a.key"].map(|name| pairs.tree.join(name));
        Launch::at(strategy, &address)
            .root(&pairs.tree.join("site"))
            .args([
                "--tls-cert".as_ref(),
                flags[0].as_os_str(),
                "--tls-key".as_ref(),
                flags[1].as_os_str(),
            ])
            .args([http3])
    };
    let names = |said: &str| {
        assert!(
            said.contains(&format!("cannot receive UDP at {address} for HTTP/3")),
            "{said}"
        );
        let who = holders
            .iter()
            .any(|pid| said.contains(&format!("(process {pid}")));
        assert!(who && said.contains("SIGUSR2") && said.contains("TERM"), "{said}");
    };
    within(ENDING, "the port of TCP is free", || {
        std::net::TcpStream::connect(old.address).err()
    });
    let (code, said) = anew("--http3=true").fail();
    assert_ne!(code, 0);
    names(&said);
    let mut again = anew("--http3=auto").start();
    names(&again.stderr());
    let mut secure = Secure::open(again.address, &pairs.client(), "a.test");
    let answer = secure.try_ask("/a.txt").expect("an answer");
    assert!(!answer.contains("Alt-Svc"), "{answer}");
    assert!(busy.run(Client::is_done), "{:?}", busy.closed);
    assert!(busy.got[&stream].body == large);
    busy.leave();
    let status = within(ENDING, "the old one ends", || old.has_ended());
    assert_eq!(status.code(), Some(0), "{}", old.stderr());
    assert_eq!(again.stop(), 0);
    let mut last = anew("--http3=true").start();
    let mut client = open(&last, &pairs);
    assert_eq!(client.get("/a.txt", &[]).body, b"a");
    client.leave();
    assert_eq!(last.stop(), 0);
}

/// A server of `a.txt` and, in `large.bin`, 20 MiB, whose configuration waits for the test.
fn gated(strategy: Strategy) -> (Line, Gate, Pairs, Vec<u8>) {
    let large = noise(20 << 20);
    let pairs = site(&[("a.txt", b"a"), ("large.bin", &large)]);
    let gate = Gate::new(&pairs.tree, "grace = '1h'\n");
    let launch: Launch = pairs.launch(strategy, &["a"]);
    let line = Line::of(gate.start(launch.args(["--http3"])));
    (line, gate, pairs, large)
}

/// A client in the middle of a large answer, and the stream of that.
fn busy(line: &Line, pairs: &Pairs) -> (Client, u64) {
    let mut client = open(&line.first, pairs);
    let stream = client.ask("/large.bin");
    assert!(client.run(|client| client.got[&stream].body.len() > 1 << 20));
    (client, stream)
}

fn gets_the_rest(mut client: Client, stream: u64, large: &[u8]) {
    assert!(client.run(Client::is_done), "{:?}", client.closed);
    assert!(client.got[&stream].body == large);
    client.leave();
}

/// The new program has the sockets, and dies before it serves. The old one receives from them all the time.
fn a_new_program_that_dies_before_it_serves_is_not_missed(strategy: Strategy) {
    let (mut line, gate, pairs, large) = gated(strategy);
    let (client, stream) = busy(&line, &pairs);
    for attempts in 1..=2 {
        line.first.signal("USR2");
        let held = gate.hold();
        open_at(0, &line.first, &pairs).leave();
        signal(started_by_first(&line), "KILL");
        eventually("the complaint", || {
            (line.first.stderr().matches("not upgraded").count() == attempts).then_some(())
        });
        drop(held);
        open_at(0, &line.first, &pairs).leave();
    }
    assert!(!client.is_leaving);
    follow(&mut line, &gate);
    open_at(1, &line.first, &pairs).leave();
    gets_the_rest(client, stream, &large);
    within(ENDING, "the old one ends", || line.first.has_ended());
    gate.only(line.newest);
    line.stop();
}

/// The old program dies while the new one starts, or after it was followed. Its worker processes finish their responses, with
/// packets that the new program passes on.
fn an_old_program_that_dies_leaves_the_sockets(strategy: Strategy) {
    for is_followed in [false, true] {
        let (mut line, gate, pairs, large) = gated(strategy);
        let (client, stream) = busy(&line, &pairs);
        if is_followed {
            follow(&mut line, &gate);
            line.first.signal("KILL");
            within(ENDING, "it is dead", || line.first.has_ended());
        } else {
            line.first.signal("USR2");
            let held = gate.hold();
            line.first.signal("KILL");
            within(ENDING, "it is dead", || line.first.has_ended());
            gate.pass(held);
            line.newest = pid_of(&line.next_start());
        }
        let mut fresh = open_at(1, &line.first, &pairs);
        if strategy.is_of_processes() {
            gets_the_rest(client, stream, &large);
        }
        gate.only(line.newest);
        assert_eq!(fresh.get("/a.txt", &[]).body, b"a");
        fresh.leave();
        follow(&mut line, &gate);
        open_at(2, &line.first, &pairs).leave();
        line.stop();
    }
}

/// Two clients in the middle of a large answer, of the worker processes 0 and 1.
fn busy_with_each(line: &Line, pairs: &Pairs) -> [(Client, u64); 2] {
    // That one process gets none of so many does not happen in a lifetime.
    let mut found = [None, None];
    for _ in 0..64 {
        let (mut client, stream) = busy(line, pairs);
        let place = &mut found[usize::from(process_of(&client))];
        match place {
            None => *place = Some((client, stream)),
            Some(_) => client.leave(),
        }
        if found.iter().all(Option::is_some) {
            return found.map(|one| one.expect("it is there"));
        }
    }
    panic!("one process has none of 64 connections");
}

/// The parent of worker processes that have followed another program dies. The old program can give their number to others, so
/// clients are told at once, and no process waits for them.
#[test]
fn worker_processes_without_a_parent_do_not_wait_beside_an_old_program() {
    let (mut line, mut gate, pairs, large) = gated(Strategy::PROCESS_LOOPS);
    let (client, stream) = busy(&line, &pairs);
    gate.set("grace = '1h'\nidle-timeout = '1h'\n");
    follow(&mut line, &gate);
    // With nothing under way, so that what it is told is not lost.
    let mut idle = open_at(1, &line.first, &pairs);
    let _lost = busy_with_each(&line, &pairs);
    crash(&line, 1);
    assert!(!idle.run(|_| false));
    let why = idle.closed.expect("it is told");
    assert!(why.contains("by peer"), "{why}");
    gate.only(line.first.pid());
    gets_the_rest(client, stream, &large);
    let status = within(ENDING, "the old one ends", || line.first.has_ended());
    assert_eq!(status.code(), Some(0), "{}", line.first.stderr());
}

/// A worker process dies when its parent starts no other in its place. The one that is left tells its clients.
#[test]
fn who_is_left_of_two_worker_processes_answers_for_both() {
    let (mut line, gate, pairs, large) = gated(Strategy::PROCESS_LOOPS);
    let [(mut lost, asked), (kept, stream)] = busy_with_each(&line, &pairs);
    let members = line.first.pids();
    follow(&mut line, &gate);
    open_at(1, &line.first, &pairs).leave();
    signal(members[1], "KILL");
    within(ENDING, "it is dead", || has_ended(members[1]).then_some(()));
    // The server learns from it that the client is there.
    lost.cancel(asked);
    assert!(!lost.run(|_| false));
    let why = lost.closed.expect("it is told");
    assert!(why.contains("reset"), "{why}");
    gets_the_rest(kept, stream, &large);
    within(ENDING, "the old one ends", || line.first.has_ended());
    gate.only(line.newest);
    line.stop();
}

/// The kernel finds workers as the newest program has told it, which here is by addresses alone. If that program has died, packets
/// must not arrive where a worker process has ended.
#[test]
fn who_is_left_of_two_worker_processes_is_found_after_a_crash() {
    // Enough for all moves: about 1 MiB is under way at each.
    let large = noise(40 << 20);
    let pairs = site(&[("a.txt", b"a"), ("large.bin", &large)]);
    let text = |steering: bool| {
        format!(
            "root = 'site'\nlisten = '127.0.0.1:0'\nconcurrency = 'process-loops'\nworkers = 2\nhttp3 = true\n\
             http3-steering = {steering}\ntls-cert = 'a.pem'\ntls-key = 'a.key'\ngrace = '1h'\n"
        )
    };
    let mut gate = Gate::new(&pairs.tree, &text(true));
    let mut line = Line::of(gate.start(Launch::file(Path::new(env!("CARGO_BIN_EXE_weir")))));
    let [(mut first, _), (mut client, stream)] = busy_with_each(&line, &pairs);
    let members = line.first.pids();
    gate.set(&text(false));
    follow(&mut line, &gate);
    open_at(1, &line.first, &pairs).leave();
    first.leave();
    within(ENDING, "an idle process ends", || {
        has_ended(members[1]).then_some(())
    });
    crash(&line, 1);
    gate.only(line.first.pid());
    for urgency in (0..8).cycle().take(MOVES_LEFT) {
        client.socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        // What it sends tells the server where it is.
        client.prioritize(stream, urgency);
        let had = client.got[&stream].body.len();
        let has_more = client.run(|client| client.got[&stream].body.len() > had + 100_000);
        assert!(has_more, "{:?}", client.closed);
    }
    line.first.signal("USR2");
    gate.open();
    line.newest = pid_of(&line.next_start());
    open_at(1, &line.first, &pairs).leave();
    gets_the_rest(client, stream, &large);
    within(ENDING, "the old one ends", || line.first.has_ended());
    gate.only(line.newest);
    line.stop();
}

/// Moves to an address that the kernel's hash gives to the other worker process half of the time. That none of so many is one
/// does not happen.
const MOVES_LEFT: usize = 16;

crate::serve::on_strategy!(one_loop, ONE_LOOP: one_signal_starts_http3_again);
crate::serve::on_strategy!(loops_uring, LOOPS_URING: one_signal_starts_http3_again);
crate::serve::on_strategy!(loops, LOOPS: a_new_program_that_dies_before_it_serves_is_not_missed, an_old_program_that_dies_leaves_the_sockets, a_handshake_goes_on_through_an_upgrade, a_successor_that_dies_loses_its_own_connections_only, one_signal_starts_http3_again, a_new_start_names_who_has_the_port);
crate::serve::on_strategy!(process_loops, PROCESS_LOOPS: a_new_program_that_dies_before_it_serves_is_not_missed, an_old_program_that_dies_leaves_the_sockets, a_handshake_goes_on_through_an_upgrade, a_successor_that_dies_loses_its_own_connections_only, one_signal_starts_http3_again, a_new_start_names_who_has_the_port);
