//! In-place upgrades: a new process takes the sockets of the old one, and no client notices.

use crate::serve::process::{Launch, PATIENCE, Server, Strategy, eventually, signal, within};
use crate::serve::tree::Tree;
use crate::serve::wire::{Connection, head};
use crate::serve::{frames, on_every_strategy, on_strategy, where_workers_are_processes};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What the kernel may take to end a process that has nothing left to do: closing an inotify descriptor
/// waits for a worker of the kernel that all processes share, seconds on a busy machine.
pub(crate) const ENDING: Duration = Duration::from_secs(90);

/// A server and those that follow it; all of them are gone when this is dropped.
pub(crate) struct Line {
    pub(crate) first: Server,
    seen: usize,
    pub(crate) newest: u32,
}

impl Line {
    pub(crate) fn of(first: Server) -> Line {
        let newest = first.pid();
        Line {
            first,
            seen: 0,
            newest,
        }
    }

    /// Asks the newest for an upgrade and waits until it is gone and another serves, whose start-up line this is.
    pub(crate) fn upgrade(&mut self) -> Value {
        let old = self.newest;
        signal(old, "USR2");
        let started = self.next_start();
        self.newest = pid_of(&started);
        assert_ne!(self.newest, old);
        if old == self.first.pid() {
            let status = within(ENDING, "the old one ends", || self.first.has_ended());
            assert_eq!(status.code(), Some(0), "{}", self.first.stderr());
        } else {
            within(ENDING, "the old one ends", || has_ended(old).then_some(()));
        }
        started
    }

    /// The start-up line of the next process.
    pub(crate) fn next_start(&mut self) -> Value {
        eventually("the new one starts", || {
            let printed = self.first.stdout();
            let mut lines = printed.split_inclusive('\n').skip(self.seen);
            let line = lines.next().filter(|line| line.ends_with('\n'))?;
            self.seen += 1;
            let said: Value = serde_json::from_str(line).expect("JSON, as asked for");
            // One that failed says so in the same place.
            (said["event"] == "started").then_some(said)
        })
    }

    /// Stops the newest.
    pub(crate) fn stop(&mut self) {
        signal(self.newest, "TERM");
        if self.newest == self.first.pid() {
            within(ENDING, "it ends", || self.first.has_ended());
        } else {
            within(ENDING, "it ends", || has_ended(self.newest).then_some(()));
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.newest != self.first.pid() && !has_ended(self.newest) {
            signal(self.newest, "KILL");
        }
    }
}

pub(crate) fn pid_of(started: &Value) -> u32 {
    let pid = started["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    pid.unwrap_or_else(|| panic!("no pid in {started}"))
}

/// Whether a process that is not our child has ended; whoever inherits it may not have looked yet.
pub(crate) fn has_ended(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat
            .rsplit(')')
            .next()
            .is_some_and(|rest| rest.trim_start().starts_with('Z')),
        Err(_) => true,
    }
}

/// One request on a connection of its own: what went wrong, if anything did.
fn ask(address: SocketAddr, body: &str) -> Result<(), String> {
    let mut stream = TcpStream::connect(address).map_err(|error| format!("connect: {error}"))?;
    stream
        .set_read_timeout(Some(PATIENCE))
        .map_err(|error| error.to_string())?;
    stream
        .write_all(b"GET /a.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .map_err(|error| format!("send: {error}"))?;
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .map_err(|error| format!("receive: {error} after {} bytes", answer.len()))?;
    if answer.starts_with("HTTP/1.1 200 ") && answer.ends_with(body) {
        Ok(())
    } else {
        Err(format!("answer: {answer:?}"))
    }
}

/// Runs `meanwhile` while clients ask without a pause; returns how many requests were answered. None
/// may fail.
pub(crate) fn under_load(address: SocketAddr, body: &str, meanwhile: impl FnOnce(&AtomicU64)) -> u64 {
    const CLIENTS: usize = 4;
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let failures: Vec<String> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| {
                    let mut failures = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        match ask(address, body) {
                            Ok(()) => drop(answered.fetch_add(1, Ordering::Relaxed)),
                            Err(why) => failures.push(why),
                        }
                    }
                    failures
                })
            })
            .collect();
        // A panic in here would leave the clients running, and the scope waiting for them.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| meanwhile(&answered)));
        stop.store(true, Ordering::Relaxed);
        let joined = clients.into_iter().map(|client| client.join().expect("a client"));
        let failures = joined.flatten().collect();
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
        failures
    });
    let answered = answered.into_inner();
    println!("{answered} requests answered, {} failed", failures.len());
    assert!(
        failures.is_empty(),
        "{} of {answered}: {}",
        failures.len(),
        failures[0]
    );
    answered
}

/// Waits until this many more requests were answered.
pub(crate) fn more(answered: &AtomicU64, count: u64) {
    let until = answered.load(Ordering::Relaxed) + count;
    eventually("requests are answered", || {
        (answered.load(Ordering::Relaxed) >= until).then_some(())
    });
}

fn no_request_fails_while_upgrading_twice(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "content")]);
    let mut line = Line::of(Server::of(strategy, tree.path()));
    let address = line.first.address;
    under_load(address, "content", |answered| {
        more(answered, 200);
        line.upgrade();
        more(answered, 200);
        line.upgrade();
        more(answered, 200);
    });
    line.stop();
    assert!(
        TcpStream::connect(address).is_err(),
        "nobody holds the socket any more"
    );
}

/// What the kernel keeps a silent connection from a server that wants to hear of those that speak
/// (`TCP_DEFER_ACCEPT`); with room for its timers.
const DEFERRED: Duration = Duration::from_millis(800);

/// The kernel has such connections in a listener's queues, half of them not even as connections.
fn who_connected_before_and_speaks_later_is_answered(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "content")]);
    let mut line = Line::of(Server::of(strategy, tree.path()));
    let address = line.first.address;
    let began = Instant::now();
    let quiet: Vec<TcpStream> = (0..32)
        .map(|_| TcpStream::connect(address).expect("a connection"))
        .collect();
    line.upgrade();
    let took = began.elapsed();
    for stream in quiet {
        let mut connection = Connection::over(stream);
        let is_sent = connection.try_send(head("GET", "/a.txt", &[]));
        match connection.try_receive("GET").filter(|_| is_sent) {
            Some(answer) => assert_eq!(answer.text(), "content"),
            None => {
                // On a busy machine the old one may have been given it, and have found it idle at its end.
                assert!(took > DEFERRED, "closed, {took:?} after it was opened");
                println!("skipped: the upgrade took {took:?}");
                break;
            }
        }
    }
    line.stop();
}

/// Who keeps a connection and is idle when the upgrade comes is not cut off under the request he may be sending.
fn who_is_idle_gets_one_more_answer(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "content")]);
    let launch = Launch::new(strategy).root(tree.path());
    let mut line = Line::of(launch.args(["--grace", "12s"]).start());
    let (mut asks, mut silent) = (line.first.connect(), line.first.connect());
    for connection in [&mut asks, &mut silent] {
        assert!(!connection.get("/a.txt").closes());
    }
    signal(line.newest, "USR2");
    line.newest = pid_of(&line.next_start());
    eventually("the old one leaves", || {
        line.first.stderr().contains("stopping").then_some(())
    });
    // An answer may still be under way to it when its worker is told.
    eventually("the last answer, which says so", || {
        let answer = asks.get("/a.txt");
        assert_eq!(answer.text(), "content");
        answer.closes().then_some(())
    });
    asks.expect_close();
    // Who does not ask is let go before the grace is over, and in silence.
    silent.expect_close();
    let status = within(ENDING, "the old one ends", || line.first.has_ended());
    assert_eq!(status.code(), Some(0), "{}", line.first.stderr());
    line.stop();
}

/// The old one does not accept again, but nothing of it is in the way of a new start.
fn a_successor_that_crashes_is_reported_and_weir_starts_again(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "content")]);
    let launch = Launch::new(strategy).root(tree.path());
    let mut line = Line::of(launch.args(["--grace", "1h"]).start());
    let address = line.first.address;
    let mut kept = line.first.connect();
    assert_eq!(kept.get("/a.txt").status, 200);
    signal(line.newest, "USR2");
    line.newest = pid_of(&line.next_start());
    eventually("the old one leaves", || {
        line.first.stderr().contains("stopping").then_some(())
    });
    signal(line.newest, "KILL");
    let report = format!("the new process {} has ended (signal: 9 (SIGKILL))", line.newest);
    eventually("the report", || {
        line.first.stderr().contains(&report).then_some(())
    });
    within(ENDING, "nobody listens", || TcpStream::connect(address).err());
    let mut again = Launch::at(strategy, &address.to_string())
        .root(tree.path())
        .start();
    assert_eq!(again.connect().get("/a.txt").text(), "content");
    eventually("the last answer of the old one", || {
        let answer = kept.get("/a.txt");
        assert_eq!(answer.text(), "content");
        answer.closes().then_some(())
    });
    kept.expect_close();
    let status = within(ENDING, "the old one ends", || line.first.has_ended());
    assert_eq!(status.code(), Some(0), "{}", line.first.stderr());
    assert_eq!(line.first.stderr().matches(&report).count(), 1);
    assert_eq!(again.stop(), 0);
}

/// Has the newest, which serves in place of the first, die, and waits until the first says so for the `crashes`th time.
pub(crate) fn crash(line: &Line, crashes: usize) {
    signal(line.newest, "KILL");
    let report = format!("the new process {} has ended (signal: 9 (SIGKILL))", line.newest);
    eventually("the report", || {
        let said = line.first.stderr();
        let remedy = format!("send SIGUSR2 to this process ({})", line.first.pid());
        (said.contains(&report) && said.matches(&remedy).count() == crashes).then_some(())
    });
}

/// Has the first followed by another, with a connection that keeps it.
fn followed(strategy: Strategy, tree: &Tree) -> (Line, Connection) {
    let launch = Launch::new(strategy).root(tree.path());
    let mut line = Line::of(launch.args(["--grace", "1h"]).start());
    let mut kept = line.first.connect();
    assert_eq!(kept.get("/a.txt").status, 200);
    signal(line.newest, "USR2");
    line.newest = pid_of(&line.next_start());
    eventually("the old one leaves", || {
        line.first.stderr().contains("stopping").then_some(())
    });
    (line, kept)
}

/// Waits until the first of a line has ended well, which answers on `kept` until then.
fn end_of_first(line: &mut Line, mut kept: Connection) {
    eventually("the last answer of the old one", || {
        let answer = kept.get("/a.txt");
        assert_eq!(answer.text(), "content");
        answer.closes().then_some(())
    });
    kept.expect_close();
    let status = within(ENDING, "the old one ends", || line.first.has_ended());
    assert_eq!(status.code(), Some(0), "{}", line.first.stderr());
}

fn is_refused(address: SocketAddr) {
    let refused = TcpStream::connect(address).expect_err("nobody listens");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

/// As often as it is needed. Who is connected to the old one is not cut off, and no client waits where nobody serves.
fn one_signal_starts_again_what_has_crashed(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "content")]);
    let (mut line, kept) = followed(strategy, &tree);
    let address = line.first.address;
    line.first.signal("USR2");
    let serves = format!(
        "SIGUSR2 ignored: process {} serves in place of this one",
        line.newest
    );
    eventually("a word on who serves", || {
        line.first.stderr().contains(&serves).then_some(())
    });
    for crashes in 1..=2 {
        crash(&line, crashes);
        is_refused(address);
        line.first.signal("USR2");
        line.newest = pid_of(&line.next_start());
        for _ in 0..8 {
            ask(address, "content").expect("it serves");
        }
    }
    end_of_first(&mut line, kept);
    ask(address, "content").expect("the new one has the sockets alone");
    // It is a server as any other.
    under_load(address, "content", |answered| {
        more(answered, 50);
        line.upgrade();
        more(answered, 50);
    });
    line.stop();
    is_refused(address);
}

/// What is started anew has the address alone, and the old one says who has it.
fn a_new_start_beside_the_old_one_is_not_disturbed(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "content")]);
    let (mut line, kept) = followed(strategy, &tree);
    let address = line.first.address;
    crash(&line, 1);
    let mut again = Launch::at(strategy, &address.to_string())
        .root(tree.path())
        .start();
    line.first.signal("USR2");
    let refusal = format!("not started again: cannot listen on {address}: Address already in use");
    eventually("the refusal", || {
        line.first.stderr().contains(&refusal).then_some(())
    });
    assert!(
        line.first
            .stderr()
            .contains("another program listens there by now")
    );
    for _ in 0..8 {
        ask(address, "content").expect("the new start serves");
    }
    end_of_first(&mut line, kept);
    assert_eq!(again.stop(), 0);
    // It was killed.
    line.newest = line.first.pid();
}

/// The old one has the sockets, but keeps nobody from an address that was given up in order.
fn a_stop_of_the_new_one_closes_the_address(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "content")]);
    let (mut line, kept) = followed(strategy, &tree);
    let address = line.first.address;
    signal(line.newest, "TERM");
    within(ENDING, "it ends", || has_ended(line.newest).then_some(()));
    is_refused(address);
    line.first.signal("USR2");
    eventually("a word on what to do", || {
        let said = line.first.stderr();
        let word = "SIGUSR2 ignored: this process has no listening sockets any more";
        (said.contains(word) && said.contains("start Weir again")).then_some(())
    });
    end_of_first(&mut line, kept);
    line.newest = line.first.pid();
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection on which the first bytes were sent already.
struct Begun {
    stream: TcpStream,
    sent: usize,
}

impl Read for Begun {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.stream.read(buffer)
    }
}

impl Write for Begun {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let (sent, rest) = bytes.split_at(self.sent.min(bytes.len()));
        self.sent -= sent.len();
        self.stream.write_all(rest)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

/// Who has just connected is answered by the old one, whatever he speaks, and then told to go. Half of what begins a connection
/// has arrived when the new one takes over.
fn who_is_about_to_ask_is_answered_and_told(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "content")]);
    let launch = Launch::new(strategy).root(tree.path());
    let mut line = Line::of(
        launch
            .args(["--grace", "1h", "--header-timeout", "1h", "--http2", "all"])
            .start(),
    );
    let asked = head("GET", "/a.txt", &[]);
    let (begun, rest) = asked.split_at(7);
    let mut http1 = line.first.connect();
    http1.send(begun);
    let mut raw = TcpStream::connect(line.first.address).expect("a connection");
    raw.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    raw.write_all(&PREFACE[..7]).expect("a send");
    // Each has been read: the worker that has it is done with the turn in which it came.
    let mut others: Vec<Connection> = (0..32).map(|_| line.first.connect()).collect();
    for other in &mut others {
        assert_eq!(other.get("/a.txt").status, 200);
    }
    drop(others);
    signal(line.newest, "USR2");
    line.newest = pid_of(&line.next_start());
    eventually("the old one leaves", || {
        line.first.stderr().contains("stopping").then_some(())
    });
    http1.send(rest);
    assert_eq!(http1.receive("GET").text(), "content");
    let mut http2 = frames::Client::new(Begun { stream: raw, sent: 7 });
    let stream = http2.ask("/a.txt");
    assert!(
        http2.run(|client| client.is_200(stream, b"content")),
        "{:?}",
        http2.got
    );
    assert!(http2.run(|client| client.left.is_some()), "it is not told to go");
    drop((http1, http2));
    let status = within(ENDING, "the old one ends", || line.first.has_ended());
    assert_eq!(status.code(), Some(0), "{}", line.first.stderr());
    line.stop();
}

/// A stop does not wait for who is idle at one that was followed.
#[test]
fn a_stop_ends_the_wait_for_who_is_idle() {
    let tree = Tree::with(&[("a.txt", "content")]);
    let launch = Launch::new(Strategy::LOOPS).root(tree.path());
    let mut line = Line::of(launch.args(["--grace", "1h"]).start());
    let mut silent = line.first.connect();
    assert_eq!(silent.get("/a.txt").status, 200);
    signal(line.newest, "USR2");
    line.newest = pid_of(&line.next_start());
    eventually("the old one leaves", || {
        line.first.stderr().contains("stopping").then_some(())
    });
    signal(line.first.pid(), "TERM");
    silent.expect_close();
    let status = within(ENDING, "the old one ends", || line.first.has_ended());
    assert_eq!(status.code(), Some(0), "{}", line.first.stderr());
    line.stop();
}

/// Whoever is left of the old one says that he is not ready, and waits for no load balancer to notice.
fn the_old_one_is_not_ready_and_does_not_linger(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "content")]);
    let launch = Launch::new(strategy).root(tree.path());
    // It keeps whoever is idle for most of its grace: however busy this machine is, there is time for a question.
    let flags = ["--health", "--drain-delay", "1h", "--grace", "1h"];
    let mut line = Line::of(launch.args(flags).start());
    let mut kept = line.first.connect();
    assert_eq!(kept.get("/readyz").status, 200);
    signal(line.newest, "USR2");
    line.newest = pid_of(&line.next_start());
    eventually("the old one leaves", || {
        line.first.stderr().contains("stopping").then_some(())
    });
    // Until it has closed its sockets, the old one still takes some.
    eventually("the new one says that it is ready", || {
        (line.first.connect().get("/readyz").status == 200).then_some(())
    });
    // Its worker may not have been told yet.
    eventually("the last answer of the old one, which is not ready", || {
        let answer = kept.get("/readyz");
        assert!(
            answer.status == 503 || (answer.status == 200 && !answer.closes()),
            "{answer:?}"
        );
        answer.closes().then_some(())
    });
    kept.expect_close();
    let status = within(ENDING, "the old one ends", || line.first.has_ended());
    assert_eq!(status.code(), Some(0), "{}", line.first.stderr());
    signal(line.newest, "TERM");
    eventually("it waits now, nobody having followed it", || {
        line.first.stderr().contains("not ready any more").then_some(())
    });
    // A second signal ends that.
    line.stop();
}

/// Only the founder decides, and only when the other program serves: what anybody sends to members means nothing.
fn worker_processes_do_not_go_because_somebody_tells_them(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "content")]);
    let mut server = Server::of(strategy, tree.path());
    let before = server.pids();
    for &member in &before[1..] {
        signal(member, "USR2");
    }
    for _ in 0..8 {
        assert_eq!(server.connect().get("/a.txt").text(), "content");
    }
    server.signal("HUP");
    eventually("all have reloaded", || {
        server.stderr().contains("reloaded").then_some(())
    });
    let after = server.pids();
    assert!(
        before.iter().all(|pid| after.contains(pid)),
        "{before:?} became {after:?}"
    );
    assert_eq!(server.stop(), 0);
}

/// The members of the one that was followed end with it, and those of the other are its own.
fn no_worker_process_is_left_behind(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "content")]);
    let mut line = Line::of(Server::of(strategy, tree.path()));
    let members = line.first.pids();
    line.upgrade();
    for pid in members {
        within(ENDING, "a member ends", || has_ended(pid).then_some(()));
    }
    assert_eq!(line.first.connect().get("/a.txt").text(), "content");
    line.stop();
}

on_every_strategy!(
    no_request_fails_while_upgrading_twice,
    who_connected_before_and_speaks_later_is_answered,
    who_is_idle_gets_one_more_answer,
    a_successor_that_crashes_is_reported_and_weir_starts_again,
    one_signal_starts_again_what_has_crashed,
    a_new_start_beside_the_old_one_is_not_disturbed,
    a_stop_of_the_new_one_closes_the_address,
    the_old_one_is_not_ready_and_does_not_linger,
);
mod has_just_connected {
    use super::*;
    on_strategy!(loops, LOOPS: who_is_about_to_ask_is_answered_and_told);
    on_strategy!(one_loop, ONE_LOOP: who_is_about_to_ask_is_answered_and_told);
    on_strategy!(process_loops, PROCESS_LOOPS: who_is_about_to_ask_is_answered_and_told);
    on_strategy!(loops_uring, LOOPS_URING: who_is_about_to_ask_is_answered_and_told);
}
where_workers_are_processes!(
    worker_processes_do_not_go_because_somebody_tells_them,
    no_worker_process_is_left_behind,
);

fn configured_as(tree: &Tree, concurrency: &str, io: &str, workers: u32) {
    let text = format!(
        "root = 'site'\nlisten = '127.0.0.1:0'\nworkers = {workers}\nconcurrency = '{concurrency}'\nio = '{io}'\n"
    );
    tree.replace("weir.toml", text);
}

/// A server of whatever its configuration says, and those that follow it.
fn line_of(tree: &Tree) -> Line {
    let launch = Launch::file(Path::new(env!("CARGO_BIN_EXE_weir")));
    let config = tree.join("weir.toml");
    Line::of(launch.args(["--config".as_ref(), config.as_os_str()]).start())
}

#[test]
fn the_number_of_workers_may_change() {
    let ways = [Strategy::LOOPS, Strategy::LOOPS_URING];
    for Strategy { concurrency, io, .. } in ways.into_iter().filter(|way| way.is_possible()) {
        let tree = Tree::with(&[("site/a.txt", "content")]);
        configured_as(&tree, concurrency, io, 4);
        let mut line = line_of(&tree);
        under_load(line.first.address, "content", |answered| {
            for workers in [1, 3, 4] {
                configured_as(&tree, concurrency, io, workers);
                line.upgrade();
                more(answered, 200);
            }
        });
        line.stop();
    }
}

/// Each kind holds its sockets in a way of its own, and takes over what another held.
#[test]
fn the_kind_of_server_may_change() {
    let tree = Tree::with(&[("site/a.txt", "content")]);
    let ways = [
        Strategy::LOOPS,
        Strategy::PROCESS_LOOPS,
        Strategy::POOL,
        Strategy::LOOPS_URING,
        Strategy::PROCESSES,
        Strategy::PROCESS_LOOPS,
        Strategy::PER_CONNECTION,
        Strategy::PROCESSES,
        Strategy::ONE_LOOP,
        Strategy::LOOPS,
    ];
    let set = |way: Strategy| {
        let workers = u32::try_from(way.workers).expect("a few");
        configured_as(&tree, way.concurrency, way.io, workers);
    };
    set(Strategy::PER_REQUEST);
    let mut line = line_of(&tree);
    under_load(line.first.address, "content", |answered| {
        for way in ways.into_iter().filter(|way| way.is_possible()) {
            println!("{} over {}", way.concurrency, way.io);
            set(way);
            line.upgrade();
            more(answered, 100);
        }
    });
    line.stop();
}

#[test]
fn a_new_program_that_cannot_serve_changes_nothing() {
    for concurrency in ["loops", "process-loops"] {
        what_cannot_serve_changes_nothing(concurrency);
    }
}

fn what_cannot_serve_changes_nothing(concurrency: &str) {
    let tree = Tree::with(&[("site/a.txt", "content")]);
    let configured = |tree: &Tree, workers: u32| configured_as(tree, concurrency, "auto", workers);
    configured(&tree, 2);
    let binary = Path::new(env!("CARGO_BIN_EXE_weir"));
    tree.link("weir", binary);
    // What is started instead lies where a confined process may not execute.
    let launch = Launch::file(&tree.join("weir"))
        .args(["--landlock", "off", "--config"])
        .args([tree.join("weir.toml")]);
    let mut line = Line::of(launch.start());
    let old = line.newest;
    let relink = |target: &Path| {
        std::fs::remove_file(tree.join("weir")).expect("the link");
        tree.link("weir", target);
    };
    let mut complained = 0;
    let mut try_and_fail = |line: &mut Line, words: &[&str]| {
        signal(old, "USR2");
        complained += 1;
        eventually("the complaint", || {
            let said = line.first.stderr();
            (said.matches("not upgraded").count() == complained).then_some(())
        });
        let said = line.first.stderr();
        let last = said
            .lines()
            .rfind(|line| line.contains("not upgraded"))
            .unwrap_or_default();
        for word in words {
            assert!(last.contains(word), "{word} is not in {last}");
        }
        assert!(line.first.has_ended().is_none(), "it goes on");
        ask(line.first.address, "content").expect("it serves");
    };
    relink(Path::new("nowhere"));
    try_and_fail(&mut line, &["cannot start", "weir", "No such file"]);
    relink(Path::new("/bin/false"));
    try_and_fail(&mut line, &["it ended (exit status: 1)"]);
    relink(binary);
    tree.replace("weir.toml", "root = 'sight'\nlisten = '127.0.0.1:0'\n");
    try_and_fail(&mut line, &["sight", "root"]);
    configured(&tree, 2);
    line.upgrade();
    ask(line.first.address, "content").expect("it serves");
    line.stop();
}

#[test]
fn a_start_again_that_fails_may_be_repeated() {
    for concurrency in ["loops", "process-loops"] {
        what_cannot_start_again_is_told(concurrency);
    }
}

fn what_cannot_start_again_is_told(concurrency: &str) {
    let tree = Tree::with(&[("site/a.txt", "content")]);
    configured_as(&tree, concurrency, "auto", 2);
    let binary = Path::new(env!("CARGO_BIN_EXE_weir"));
    tree.link("weir", binary);
    // What is started instead lies where a confined process may not execute.
    let launch = Launch::file(&tree.join("weir"))
        .args(["--landlock", "off", "--grace", "1h", "--config"])
        .args([tree.join("weir.toml")]);
    let mut line = Line::of(launch.start());
    let address = line.first.address;
    let mut kept = line.first.connect();
    assert_eq!(kept.get("/a.txt").status, 200);
    signal(line.newest, "USR2");
    line.newest = pid_of(&line.next_start());
    eventually("the old one leaves", || {
        line.first.stderr().contains("stopping").then_some(())
    });
    crash(&line, 1);
    let relink = |target: &Path| {
        std::fs::remove_file(tree.join("weir")).expect("the link");
        tree.link("weir", target);
    };
    for (target, why) in [
        ("nowhere", "No such file"),
        ("/bin/false", "it ended (exit status: 1)"),
    ] {
        relink(Path::new(target));
        line.first.signal("USR2");
        eventually("the complaint", || {
            let said = line.first.stderr();
            let mut lines = said.lines().filter(|line| line.contains("not started again"));
            lines
                .any(|line| line.contains(why) && line.contains("SIGUSR2 again"))
                .then_some(())
        });
        is_refused(address);
    }
    relink(binary);
    line.first.signal("USR2");
    line.newest = pid_of(&line.next_start());
    ask(address, "content").expect("it serves");
    end_of_first(&mut line, kept);
    line.stop();
}

/// The old one waits for the outcome, although nothing else keeps it.
#[test]
fn a_start_again_outlives_the_last_connection() {
    for concurrency in ["loops", "process-loops"] {
        who_starts_again_waits_for_it(concurrency);
    }
}

fn who_starts_again_waits_for_it(concurrency: &str) {
    let tree = Tree::with(&[("site/a.txt", "content")]);
    configured_as(&tree, concurrency, "auto", 2);
    let binary = env!("CARGO_BIN_EXE_weir");
    // It starts once it is let.
    let slow = tree.write(
        "slow",
        format!("#!/bin/sh\necho $$ > \"$0.pid\"\nread line < \"$0.gate\"\nexec {binary} \"$@\" <&0\n"),
    );
    Launch::executable(&slow);
    tree.link("weir", binary);
    let launch = Launch::file(&tree.join("weir"))
        .args(["--landlock", "off", "--grace", "1h", "--config"])
        .args([tree.join("weir.toml")]);
    let mut line = Line::of(launch.start());
    let address = line.first.address;
    let mut kept = line.first.connect();
    assert_eq!(kept.get("/a.txt").status, 200);
    signal(line.newest, "USR2");
    line.newest = pid_of(&line.next_start());
    eventually("the old one leaves", || {
        line.first.stderr().contains("stopping").then_some(())
    });
    crash(&line, 1);
    let gate = tree.join("weir.gate");
    let made = std::process::Command::new("mkfifo")
        .arg(&gate)
        .status()
        .expect("mkfifo");
    assert!(made.success());
    std::fs::remove_file(tree.join("weir")).expect("the link");
    tree.link("weir", &slow);
    line.first.signal("USR2");
    eventually("the new one is about to start", || {
        let text = std::fs::read_to_string(tree.join("weir.pid")).ok()?;
        text.trim().parse::<u32>().ok()
    });
    eventually("the last answer of the old one", || {
        kept.get("/a.txt").closes().then_some(())
    });
    kept.expect_close();
    assert!(line.first.has_ended().is_none());
    std::fs::write(&gate, "go\n").expect("the gate");
    line.newest = pid_of(&line.next_start());
    ask(address, "content").expect("it serves");
    let status = within(ENDING, "the old one ends", || line.first.has_ended());
    assert_eq!(status.code(), Some(0), "{}", line.first.stderr());
    line.stop();
}

#[test]
fn told_to_stop_while_upgrading_it_stops() {
    for concurrency in ["loops", "process-loops"] {
        a_stop_ends_what_is_to_follow(concurrency);
    }
}

fn a_stop_ends_what_is_to_follow(concurrency: &str) {
    let tree = Tree::with(&[("site/a.txt", "content")]);
    configured_as(&tree, concurrency, "auto", 2);
    let script = tree.write("slow", "#!/bin/sh\necho $$ > \"$0.pid\"\nexec sleep 600 <&0\n");
    Launch::executable(&script);
    tree.link("weir", env!("CARGO_BIN_EXE_weir"));
    // What is started instead lies where a confined process may not execute.
    let launch = Launch::file(&tree.join("weir"))
        .args(["--landlock", "off", "--config"])
        .args([tree.join("weir.toml")]);
    let mut line = Line::of(launch.start());
    std::fs::remove_file(tree.join("weir")).expect("the link");
    tree.link("weir", &script);
    line.first.signal("USR2");
    // The script is started by the name of the link.
    let pid = eventually("the new one runs", || {
        let text = std::fs::read_to_string(tree.join("weir.pid")).ok()?;
        text.trim().parse::<u32>().ok()
    });
    line.first.signal("TERM");
    let status = eventually("it ends", || line.first.has_ended());
    assert_eq!(status.code(), Some(0));
    eventually("the new one is ended too", || has_ended(pid).then_some(()));
}
