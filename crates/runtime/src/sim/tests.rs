//! The worker in virtual time: the driver's guarantees, tested without a socket.
use super::*;
use crate::fs::tests::Temp;
use crate::fs::{How, Root, Symlinks, Wait};
use crate::session::Loss;
use crate::toy::{IDLE, Seen, Toy};

fn sim() -> (Sim<Toy>, Toy) {
    let toy = Toy::default();
    (Sim::new(toy.clone()), toy)
}

fn seen<T>(toy: &Toy, look: impl FnOnce(&mut Seen) -> T) -> T {
    look(&mut toy.seen.lock().unwrap())
}

fn text(sim: &mut Sim<Toy>, client: Client) -> String {
    String::from_utf8(sim.take_received(client)).unwrap()
}

#[test]
fn lines_cut_anywhere_give_the_same_answers() {
    let input = b"echo one\necho two\nnow three\nlater four\necho five\n";
    for cut in 0..input.len() {
        let (mut sim, _) = sim();
        let client = sim.connect_local();
        sim.send(client, &input[..cut]);
        sim.send(client, &input[cut..]);
        assert_eq!(
            text(&mut sim, client),
            "one\ntwo\nthree\nfour\nfive\n",
            "cut at {cut}"
        );
        assert!(!sim.is_closed(client));
    }
}

#[test]
fn a_client_that_half_closes_first_gets_its_whole_answer() {
    let (mut sim, toy) = sim();
    let client = sim.connect_local();
    sim.queue(client, b"big 200000\necho end\n");
    sim.finish(client);
    assert_eq!(sim.take_received(client).len(), 200_004);
    assert!(sim.is_closed(client) && !sim.was_reset(client));
    assert_eq!(seen(&toy, |s| (s.eofs, s.closed)), (1, 1));
}

#[test]
fn a_client_that_stops_reading_blocks_only_itself() {
    let (mut sim, toy) = sim();
    let (slow, other) = (sim.connect_local(), sim.connect_local());
    sim.stop_reading_after(slow, 10);
    sim.send(slow, b"big 1000\necho after\n");
    assert_eq!(sim.received(slow).len(), 10);
    sim.send(slow, b"echo more\n");
    sim.send(other, b"echo hi\n");
    assert_eq!(text(&mut sim, other), "hi\n");
    sim.stop_reading_after(slow, 500);
    assert_eq!(sim.received(slow).len(), 510);
    sim.read_on(slow);
    assert_eq!(sim.received(slow).len(), 1000 + "after\nmore\n".len());
    assert_eq!(seen(&toy, |s| s.progress), 510);
}

#[test]
fn deadlines_fire_at_their_instant_and_progress_moves_them() {
    let (mut sim, _) = sim();
    let client = sim.connect_local();
    sim.advance(IDLE - Duration::from_millis(1));
    assert!(!sim.is_closed(client));
    sim.send(client, b"echo x\n");
    sim.advance(IDLE - Duration::from_millis(1));
    assert!(!sim.is_closed(client));
    sim.advance(Duration::from_millis(1));
    assert_eq!(text(&mut sim, client), "x\ntimeout\n");
    assert!(sim.is_closed(client));
}

#[test]
fn a_deadline_while_output_is_stuck_gives_up_on_the_connection() {
    let (mut sim, toy) = sim();
    let client = sim.connect_local();
    sim.stop_reading_after(client, 3);
    sim.send(client, b"big 1000\n");
    sim.advance(IDLE);
    assert!(sim.is_closed(client));
    assert_eq!(seen(&toy, |s| s.closed), 1);
}

#[test]
fn idle_connections_wake_the_worker_once_a_second_and_none_not_at_all() {
    let (mut sim, _) = sim();
    sim.advance(Duration::from_secs(100));
    let before = sim.context().turns;
    sim.advance(Duration::from_secs(1000));
    assert!(sim.context().turns - before <= 2, "no connection, no wake-up");
    let client = sim.connect_local();
    sim.send(client, b"echo x\n");
    let before = sim.context().turns;
    sim.advance(Duration::from_secs(4));
    let turns = sim.context().turns - before;
    assert!((4..200).contains(&turns), "{turns}");
    assert_eq!(sim.context().wall.secs, 1_767_225_600 + 1104);
}

#[test]
fn jobs_wait_until_told_and_late_outputs_of_the_gone_are_dropped() {
    let (mut sim, _) = sim();
    sim.set_jobs(Jobs::AsLoop);
    let (one, two) = (sim.connect_local(), sim.connect_local());
    sim.send(one, b"echo before\nlater a\necho after\n");
    sim.send(two, b"now b\nlater c\n");
    assert_eq!(text(&mut sim, one), "before\n");
    assert_eq!(text(&mut sim, two), "b\n");
    assert_eq!(sim.jobs_waiting(), 2);
    sim.advance(IDLE);
    assert!(sim.is_closed(one), "a session may give up on a job");
    assert_eq!(sim.run_jobs(), 2);
    assert_eq!(text(&mut sim, one), "");
    sim.set_jobs(Jobs::Held);
    let three = sim.connect_local();
    sim.send(three, b"now d\n");
    assert_eq!((text(&mut sim, three).as_str(), sim.jobs_waiting()), ("", 1));
    assert!(sim.run_job() && !sim.run_job());
    assert_eq!(text(&mut sim, three), "d\n");
}

#[test]
fn a_panic_loses_one_connection_and_no_other() {
    let (mut sim, toy) = sim();
    let (bad, worse, good) = (sim.connect_local(), sim.connect_local(), sim.connect_local());
    sim.send(bad, b"panic\n");
    sim.send(worse, b"jobpanic\n");
    sim.send(good, b"echo fine\n");
    assert!(sim.is_closed(bad) && sim.is_closed(worse));
    assert_eq!(text(&mut sim, good), "fine\n");
    assert_eq!(sim.open(), 1);
    assert_eq!(seen(&toy, |s| s.losses.clone()), [Loss::File(libc::EIO)]);
}

#[test]
fn half_closing_lingers_for_a_bounded_number_of_bytes() {
    let (mut sim, _) = sim();
    let (polite, rude) = (sim.connect_local(), sim.connect_local());
    for client in [polite, rude] {
        sim.send(client, b"bye\n");
        assert_eq!(text(&mut sim, client), "bye\n");
        assert!(sim.is_finished(client) && !sim.is_closed(client));
    }
    sim.send(polite, b"whatever");
    sim.finish(polite);
    assert!(sim.is_closed(polite) && !sim.was_reset(polite));
    for _ in 0..16 {
        assert!(!sim.is_closed(rude));
        sim.send(rude, &[0; 16 << 10]);
    }
    sim.send(rude, b"one too many");
    assert!(sim.is_closed(rude));
}

#[test]
fn draining_lets_everyone_finish_within_the_grace() {
    let (mut sim, _) = sim();
    let (idle, busy, stuck) = (sim.connect_local(), sim.connect_local(), sim.connect_local());
    for client in [busy, stuck] {
        sim.stop_reading_after(client, 1);
        sim.send(client, b"big 1000\n");
    }
    sim.drain(Duration::from_secs(2));
    assert!(sim.is_closed(idle) && !sim.is_closed(busy));
    let late = sim.connect_local();
    assert!(sim.was_reset(late), "nobody listens any more");
    sim.read_on(busy);
    assert_eq!(sim.received(busy).len(), 1000);
    assert!(sim.is_closed(busy) && !sim.is_drained());
    sim.advance(Duration::from_secs(2));
    assert!(sim.is_closed(stuck) && sim.is_drained());
}

#[test]
fn a_peer_that_resets_is_told_of_once() {
    let (mut sim, toy) = sim();
    let (reading, sending) = (sim.connect_local(), sim.connect_local());
    sim.stop_reading_after(sending, 5);
    sim.send(sending, b"big 1000\n");
    sim.reset(reading);
    sim.reset(sending);
    assert!(sim.is_closed(reading) && sim.is_closed(sending));
    let losses = seen(&toy, |s| s.losses.clone());
    assert_eq!(
        losses,
        [Loss::Socket(libc::ECONNRESET), Loss::Socket(libc::EPIPE)]
    );
    assert_eq!(seen(&toy, |s| s.closed), 2);
}

#[test]
fn a_refused_connection_is_closed_at_once() {
    let mut sim = Sim::new(Toy {
        refuse: true,
        ..Toy::default()
    });
    let client = sim.connect_local();
    assert!(sim.is_closed(client));
    assert_eq!(sim.open(), 0);
}

#[test]
fn a_session_that_writes_without_end_shares_the_worker() {
    let (mut sim, _) = sim();
    let (hog, other) = (sim.connect_local(), sim.connect_local());
    sim.queue(hog, b"burn 1000\n");
    sim.queue(other, b"echo x\n");
    sim.settle();
    assert_eq!(sim.take_received(hog).len(), 5 * 1001);
    assert_eq!(text(&mut sim, other), "x\n");
}

#[test]
fn files_are_sent_and_one_that_shrank_is_a_loss() {
    let dir = Temp::new();
    dir.write("f", &[7; 100_000]);
    let root = Root::open(dir.path()).unwrap();
    let how = How {
        symlinks: Symlinks::Refuse,
        wait: Wait::Block,
    };
    let file = root.open_file(b"f", how).unwrap();
    let toy = Toy {
        file: Some(Arc::new(file)),
        ..Toy::default()
    };
    let mut sim = Sim::new(toy.clone());
    let client = sim.connect_local();
    sim.send(client, b"file 100000\necho end\n");
    let got = sim.take_received(client);
    assert_eq!(
        (got.len(), &got[..5], &got[100_005..]),
        (100_009, &b"file:"[..], &b"end\n"[..])
    );
    dir.write("f", &[7; 10]);
    sim.send(client, b"file 100000\n");
    assert!(sim.is_closed(client));
    assert_eq!(seen(&toy, |s| s.losses.clone()), [Loss::File(0)]);
}
