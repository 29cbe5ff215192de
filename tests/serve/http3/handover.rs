//! HTTP/3 while one program takes over from another: handshakes that are under way, and a successor that dies.

use super::{Client, Line, launch, open, open_at, site};
use crate::serve::files::noise;
use crate::serve::process::{PATIENCE, Strategy, eventually, signal, within};
use crate::serve::upgrade::{ENDING, has_ended, pid_of};

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

crate::serve::on_strategy!(loops, LOOPS: a_handshake_goes_on_through_an_upgrade, a_successor_that_dies_loses_its_own_connections_only);
crate::serve::on_strategy!(process_loops, PROCESS_LOOPS: a_handshake_goes_on_through_an_upgrade, a_successor_that_dies_loses_its_own_connections_only);
