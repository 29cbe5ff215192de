//! HTTP/3 while one program takes over from another: handshakes that are under way, and a successor that dies.

use super::{Client, Line, launch, open, open_at, site};
use crate::serve::files::noise;
use crate::serve::process::{Launch, PATIENCE, Strategy, eventually, signal, within};
use crate::serve::tls::{Pairs, Secure};
use crate::serve::upgrade::{ENDING, crash, has_ended, pid_of};

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

crate::serve::on_strategy!(one_loop, ONE_LOOP: one_signal_starts_http3_again);
crate::serve::on_strategy!(loops_uring, LOOPS_URING: one_signal_starts_http3_again);
crate::serve::on_strategy!(loops, LOOPS: a_handshake_goes_on_through_an_upgrade, a_successor_that_dies_loses_its_own_connections_only, one_signal_starts_http3_again, a_new_start_names_who_has_the_port);
crate::serve::on_strategy!(process_loops, PROCESS_LOOPS: a_handshake_goes_on_through_an_upgrade, a_successor_that_dies_loses_its_own_connections_only, one_signal_starts_http3_again, a_new_start_names_who_has_the_port);
