//! What happens when a limit or a timeout is reached, and that everybody else is served meanwhile.
//! Timeouts are configured short, and the tests wait for what they cause, never for a clock.

use crate::serve::files::noise;
use crate::serve::process::{Launch, PATIENCE, Server, Strategy, eventually, within};
use crate::serve::tree::Tree;
use crate::serve::wire::{Connection, End, head};
use crate::serve::{on_every_strategy, where_connections_share_a_process};
use std::collections::HashMap;
use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

/// A timeout of 300 ms must have been noticed by then, also on a busy machine. Less than any default: a flag without effect
/// is noticed as well.
const NOTICED: Duration = Duration::from_secs(15);

fn tree() -> Tree {
    Tree::with(&[("a.txt", "a")])
}

fn launch(strategy: Strategy, tree: &Tree, flags: &[&str]) -> Server {
    Launch::new(strategy).root(tree.path()).args(flags).start()
}

fn a_head_that_is_too_large_is_431(strategy: Strategy) {
    let tree = tree();
    let server = launch(
        strategy,
        &tree,
        &[
            "--max-head-size",
            "2KiB",
            "--max-fields",
            "20",
            "--max-target-length",
            "1KiB",
        ],
    );
    let value = "x".repeat(1500);
    assert_eq!(
        server.connect().request("GET", "/a.txt", &[("X", &value)]).status,
        200,
        "within the bound"
    );
    let value = "x".repeat(4000);
    let mut connection = server.connect();
    let answer = connection.request("GET", "/a.txt", &[("X", &value)]);
    assert_eq!(answer.status, 431);
    assert!(answer.closes());
    // A head without an end is refused as soon as it is too large.
    let mut connection = server.connect();
    connection.send(format!("GET /a.txt HTTP/1.1\r\nX: {}", "y".repeat(4000)));
    assert_eq!(connection.receive("GET").status, 431);
    let fields: Vec<(&str, &str)> = vec![("X", "y"); 30];
    assert_eq!(server.connect().request("GET", "/a.txt", &fields).status, 431);
}

fn a_target_that_is_too_long_is_414(strategy: Strategy) {
    let tree = tree();
    let server = launch(strategy, &tree, &["--max-target-length", "100"]);
    let answer = server.connect().get(&format!("/a.txt?{}", "x".repeat(90)));
    assert_eq!(answer.status, 200);
    let answer = server.connect().get(&format!("/a.txt?{}", "x".repeat(200)));
    assert_eq!(answer.status, 414);
    assert!(answer.closes());
    let answer = Server::of(strategy, tree.path())
        .connect()
        .get(&"/x".repeat(4000));
    assert_eq!(answer.status, 404, "8,000 bytes are within the default");
}

fn a_body_that_is_too_large_is_413(strategy: Strategy) {
    let tree = tree();
    let server = launch(strategy, &tree, &["--max-body-size", "1000"]);
    let mut connection = server.connect();
    let answer = connection.request("POST", "/a.txt", &[("Content-Length", "1001")]);
    assert_eq!(answer.status, 413);
    assert!(answer.closes());
    // Chunks announce nothing: the bound is met on the way. Nothing after it is taken for a request.
    let mut connection = server.connect();
    connection.send(head("POST", "/a.txt", &[("Transfer-Encoding", "chunked")]));
    for _ in 0..4 {
        connection.try_send(format!("1f4\r\n{}\r\n", "x".repeat(500)));
    }
    assert_eq!(connection.receive("POST").status, 413);
    connection.try_send("0\r\n\r\n");
    connection.rest();
}

fn connections_beyond_the_bound_are_closed(strategy: Strategy) {
    let tree = tree();
    let server = launch(strategy, &tree, &["--max-connections", "5"]);
    tree.write("page.bin", noise(PAGE));
    // Idle ones would give way.
    let mut held: Vec<Connection> = (0..5).map(|_| narrow(server.address)).collect();
    held.iter_mut().for_each(keep_busy);
    let mut refused = server.connect();
    refused.try_send(head("GET", "/a.txt", &[]));
    assert!(refused.try_receive("GET").is_none());
    for connection in &mut held {
        let_finish(connection);
        assert_eq!(
            connection.get("/a.txt").text(),
            "a",
            "those inside do not feel it"
        );
    }
    held.pop();
    eventually("a place becomes free", || try_get(server.address, "/a.txt"));
}

fn idle_connections_give_way_at_the_bound(strategy: Strategy) {
    let tree = tree();
    // Nobody leaves by himself.
    let flags = ["--max-connections", "5", "--idle-timeout", "1h"];
    let server = launch(strategy, &tree, &flags);
    idle_ones_give_way(&server, 5);
}

fn idle_connections_stay_while_nobody_waits(strategy: Strategy) {
    let tree = tree();
    let server = launch(strategy, &tree, &["--max-connections", "5"]);
    let mut held: Vec<Connection> = (0..5).map(|_| server.connect()).collect();
    for connection in &mut held {
        assert_eq!(connection.get("/a.txt").text(), "a");
    }
    // Longer than a connection must be idle before it gives way.
    for connection in &mut held {
        connection.patience(Duration::from_millis(60));
        assert!(connection.is_silent());
    }
}

/// More connections come, one after the other, than there is room for; each is served, and those before stay idle.
fn idle_ones_give_way(server: &Server, room: usize) {
    let mut held: Vec<Connection> = Vec::new();
    for _ in 0..3 * room {
        held.push(eventually("one gives way", || {
            let mut connection = server.connect();
            connection.try_send(head("GET", "/a.txt", &[]));
            // The server refuses one for which no place becomes free in time: on a busy machine, another process may need
            // longer to close one of its own.
            let answer = connection.try_receive("GET")?;
            assert_eq!(answer.text(), "a");
            Some(connection)
        }));
    }
    let mut newest = held.pop().expect("one");
    assert_eq!(newest.get("/a.txt").text(), "a", "the newest stays");
    // Which ones are closed depends on when each worker notes that its connection is idle: one that the system kept off
    // a processor after its response does so later.
    eventually("all but the limit are closed", || {
        let open = held.iter_mut().filter_map(|connection| {
            connection.patience(Duration::from_millis(1));
            connection.is_silent().then_some(())
        });
        (open.count() < room).then_some(())
    });
}

/// One client takes all places with connections that have said this much; neither it nor anybody else is kept out.
fn all_places_taken_by(strategy: Strategy, said: &[u8]) {
    let tree = tree();
    // Workers, or descriptors where a worker has many connections.
    let launch = match strategy.workers > 2 && strategy.concurrency != "thread-per-request" {
        true => Launch::new(strategy),
        false => Launch::wrapped(strategy, "ulimit -n 100"),
    };
    let all = ["--max-connections-per-address", "65536", "--cache-files", "8"];
    // Nobody's time ends while the test runs.
    let times = ["--header-timeout", "1h", "--idle-timeout", "1h"];
    let server = launch.root(tree.path()).args(all).args(times).start();
    let mut held: Vec<Connection> = Vec::new();
    for _ in 0..120 {
        let mut connection = Connection::open(server.address);
        connection.try_send(said);
        held.push(connection);
    }
    for _ in 0..3 {
        let mut neighbor = connect_from(Ipv4Addr::new(127, 0, 0, 2), server.address);
        assert_eq!(neighbor.get("/a.txt").text(), "a");
    }
}

fn a_client_that_holds_every_place_keeps_nobody_out(strategy: Strategy) {
    all_places_taken_by(strategy, head("GET", "/a.txt", &[]).as_bytes());
}

/// Each would have its place for the hour of `--header-timeout`.
fn requests_that_never_arrive_keep_nobody_out(strategy: Strategy) {
    all_places_taken_by(strategy, b"GET /a.txt HTTP/1.1\r\nHo");
}

/// With nothing said, what an address may hold follows from what there can be.
#[test]
fn the_bound_of_an_address_is_a_share_of_what_there_can_be() {
    let tree = tree();
    let bound = |before: &str, flags: &[&str]| {
        let server = Launch::wrapped(Strategy::LOOPS, before)
            .root(tree.path())
            .args(flags)
            .start();
        let limits = &server.started["limits"];
        let of = |name: &str| limits[name].as_u64().expect("a number");
        (of("max-connections"), of("max-connections-per-address"))
    };
    let (connections, address) = bound("ulimit -n 1024", &[]);
    assert!(connections < 1024, "{connections}");
    assert_eq!(address, connections / 4);
    assert_eq!(bound("ulimit -n 1024", &["--max-connections", "20"]), (20, 16));
    let said = ["--max-connections-per-address", "7"];
    assert_eq!(bound("ulimit -n 1024", &said).1, 7);
}

fn one_address_cannot_take_all_places(strategy: Strategy) {
    let tree = tree();
    let server = launch(strategy, &tree, &["--max-connections-per-address", "3"]);
    let mut held: Vec<Connection> = (0..3).map(|_| server.connect()).collect();
    for connection in &mut held {
        assert_eq!(connection.get("/a.txt").text(), "a");
    }
    let mut refused = server.connect();
    refused.try_send(head("GET", "/a.txt", &[]));
    assert!(refused.try_receive("GET").is_none());
    let mut neighbor = connect_from(Ipv4Addr::new(127, 0, 0, 2), server.address);
    assert_eq!(neighbor.get("/a.txt").text(), "a", "another address is served");
    held.pop();
    eventually("a place becomes free", || try_get(server.address, "/a.txt"));
}

fn one_address_cannot_ask_for_everything(strategy: Strategy) {
    let tree = tree();
    let flags = ["--max-request-rate", "1", "--max-request-burst", "5"];
    let server = launch(strategy, &tree, &flags);
    let began = Instant::now();
    let mut statuses = Vec::new();
    // A connection for each, and one for many: it is the address that counts.
    for _ in 0..4 {
        statuses.push(server.connect().get("/a.txt").status);
    }
    let mut connection = server.connect();
    eventually("a request too many", || {
        let answer = connection.get("/a.txt");
        assert!(!answer.closes(), "slowing down is enough");
        assert!(answer.status == 200 || answer.must("Retry-After") == "1");
        statuses.push(answer.status);
        (answer.status == 429).then_some(())
    });
    let served = statuses.iter().filter(|status| **status == 200).count();
    assert!(
        statuses[..5].iter().all(|status| *status == 200),
        "the burst: {statuses:?}"
    );
    // One more for each second that went by. Each process counts by itself, and those before were perhaps of others.
    let elsewhere = if strategy.is_of_processes() { 4 } else { 0 };
    let most = 6 + elsewhere + usize::try_from(began.elapsed().as_secs()).expect("a few");
    assert!(served <= most, "{served} of at most {most}: {statuses:?}");
    let mut neighbor = connect_from(Ipv4Addr::new(127, 0, 0, 2), server.address);
    assert_eq!(neighbor.get("/a.txt").text(), "a", "another address is served");
    eventually("it may ask again", || {
        (connection.get("/a.txt").status == 200).then_some(())
    });
}

fn probes_are_answered_whatever_else_their_address_asks(strategy: Strategy) {
    let tree = tree();
    let flags = [
        "--health",
        "--live",
        "--max-request-rate",
        "1",
        "--max-request-burst",
        "3",
    ];
    let server = launch(strategy, &tree, &flags);
    let mut connection = server.connect();
    for _ in 0..10 {
        assert_eq!(connection.get("/healthz").status, 200);
        assert_eq!(connection.get("/readyz").status, 200);
    }
    let probe = |url: String| crate::cli::weir(&["health", &url]);
    let output = probe(format!("http://{}/healthz", server.address));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    // They counted for nothing, so the burst is whole.
    let statuses: Vec<u16> = (0..3).map(|_| connection.get("/a.txt").status).collect();
    assert_eq!(statuses, [200; 3]);
    // Figures are no probes, nor is a POST: each is too much for its address sooner or later.
    for (method, path) in [("GET", "/a.txt"), ("GET", "/.weir/metrics"), ("POST", "/healthz")] {
        eventually("a request too many", || {
            (connection.request(method, path, &[]).status == 429).then_some(())
        });
        for path in ["/healthz", "/readyz"] {
            assert_eq!(connection.get(path).status, 200, "{path}");
            assert_eq!(connection.request("HEAD", path, &[]).status, 200, "{path}");
        }
    }
}

fn a_head_that_does_not_end_is_408(strategy: Strategy) {
    let tree = tree();
    let server = launch(strategy, &tree, &["--header-timeout", "300ms"]);
    // One byte now and then does not buy time.
    let mut slow = server.connect();
    let began = Instant::now();
    slow.send("GET /a.txt HTTP/1.1\r\nHost: weir.test\r\n");
    slow.patience(Duration::from_millis(20));
    while slow.is_silent() {
        assert!(
            began.elapsed() < NOTICED,
            "still waiting for a head that never ends"
        );
        slow.try_send("X: y\r\n");
    }
    slow.patience(NOTICED);
    let answer = slow.receive("GET");
    assert_eq!(answer.status, 408);
    assert!(answer.closes());
    // Who never says anything is let go without a word.
    let mut mute = server.connect();
    mute.patience(NOTICED);
    mute.expect_close();
}

/// The kernel keeps a connection that says nothing from the server for a second (`TCP_DEFER_ACCEPT`): that is part of its
/// time, not added to it.
#[test]
fn who_says_nothing_has_the_header_timeout_and_no_more() {
    let tree = tree();
    let timeout = Duration::from_secs(2);
    let server = launch(Strategy::LOOPS, &tree, &["--header-timeout", "2s"]);
    // Other work on the machine can only make it later.
    eventually("one is closed in time", || {
        let began = Instant::now();
        let mut mute = server.connect();
        mute.patience(NOTICED);
        mute.expect_close();
        let took = began.elapsed();
        assert!(took > timeout - Duration::from_millis(100), "{took:?}");
        (took < timeout + Duration::from_millis(700)).then_some(())
    });
}

fn an_idle_connection_is_closed_in_silence(strategy: Strategy) {
    let tree = tree();
    let server = launch(
        strategy,
        &tree,
        &["--idle-timeout", "300ms", "--header-timeout", "60s"],
    );
    let mut connection = server.connect();
    assert_eq!(connection.get("/a.txt").text(), "a");
    connection.patience(NOTICED);
    connection.expect_close();
}

fn a_body_that_does_not_come_is_408(strategy: Strategy) {
    let tree = tree();
    let server = launch(
        strategy,
        &tree,
        &["--body-timeout", "300ms", "--min-body-rate", "1000000"],
    );
    let mut connection = server.connect();
    connection.send(head("POST", "/a.txt", &[("Content-Length", "1000")]) + "only this");
    connection.patience(NOTICED);
    assert_eq!(connection.receive("POST").status, 408);
    let (_, end) = connection.rest();
    assert_eq!(end, End::Closed);
}

fn a_client_that_does_not_read_is_given_up(strategy: Strategy) {
    let tree = tree();
    tree.write("large.bin", noise(32 << 20));
    let server = launch(
        strategy,
        &tree,
        &["--write-timeout", "300ms", "--idle-timeout", "60s"],
    );
    let before = server.descriptors();
    let mut connection = server.connect();
    connection.send(head("GET", "/large.bin", &[]));
    assert_eq!(connection.exactly(8), b"HTTP/1.1", "the answer has begun");
    within(NOTICED, "the connection is given up", || {
        (!is_held(&server, &mut connection)).then_some(())
    });
    if strategy.grows() {
        // Descriptors come and go with processes.
        assert_eq!(server.connect().get("/a.txt").text(), "a");
        return;
    }
    // It had the descriptor of the socket and perhaps of the file; both go, or only the cache keeps one.
    within(NOTICED, "its descriptors are closed", || {
        (server.descriptors() <= before + 1).then_some(())
    });
    assert_eq!(server.connect().get("/a.txt").text(), "a");
}

fn slow_clients_never_slow_others(strategy: Strategy) {
    let tree = tree();
    tree.write("large.bin", noise(32 << 20));
    // Nobody's time ends while the test runs: whoever had to wait for one of them would wait in vain.
    let flags = [
        "--header-timeout",
        "1h",
        "--body-timeout",
        "1h",
        "--write-timeout",
        "1h",
    ];
    let server = launch(strategy, &tree, &flags);
    // Readers that do not read, senders that do not finish, bodies that do not come.
    let mut slow: Vec<Connection> = Vec::new();
    for i in 0..12 {
        let mut connection = server.connect();
        match i % 3 {
            0 => connection.send(head("GET", "/large.bin", &[])),
            1 => connection.send("GET /a.txt HTTP/1.1\r\nHost: w"),
            _ => connection.send(head("POST", "/a.txt", &[("Content-Length", "1000")])),
        }
        slow.push(connection);
    }
    let mut quick = server.connect();
    for _ in 0..200 {
        assert_eq!(quick.get("/a.txt").text(), "a");
    }
}

fn one_greedy_reader_does_not_starve_the_rest(strategy: Strategy) {
    let tree = tree();
    tree.write("large.bin", noise(64 << 20));
    let server = Server::of(strategy, tree.path());
    let address = server.address;
    let greedy = std::thread::spawn(move || {
        let mut connection = Connection::open(address);
        for _ in 0..3 {
            assert_eq!(connection.get("/large.bin").body.len(), 64 << 20);
        }
    });
    let mut quick = server.connect();
    // Behind whole answers of the other there would be one for each of them. No time is measured: on a busy machine
    // both are slow.
    let mut answers = 0;
    while !greedy.is_finished() {
        assert_eq!(quick.get("/a.txt").text(), "a");
        answers += 1;
    }
    greedy.join().expect("the greedy one is served too");
    assert!(answers >= 20, "{answers} small files during three large ones");
}

fn a_pipeline_that_is_not_read_costs_little(strategy: Strategy) {
    let tree = tree();
    tree.write("page.txt", noise(6000));
    let server = Server::of(strategy, tree.path());
    // Where each has a process of its own, that is there before it is looked at.
    let mut connections: Vec<Connection> = (0..8).map(|_| server.connect()).collect();
    for connection in &mut connections {
        assert_eq!(connection.get("/page.txt").body.len(), 6000);
    }
    let before = resident(&server);
    let batch = head("GET", "/page.txt", &[]).repeat(200);
    for connection in &mut connections {
        let stream = connection.stream();
        stream.set_nonblocking(true).expect("a socket option");
        // Until the server takes no more: it must stop reading, not go on answering into memory.
        let mut refusals = 0;
        let began = Instant::now();
        while refusals < 40 && began.elapsed() < PATIENCE {
            match stream.write(batch.as_bytes()) {
                Ok(_) => refusals = 0,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    refusals += 1;
                    std::thread::park_timeout(Duration::from_millis(2));
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(refusals, 40, "the server swallows requests without end");
    }
    let grown: usize = resident(&server)
        .iter()
        .filter_map(|(pid, now)| Some(now.saturating_sub(*before.get(pid)?)))
        .sum();
    assert!(
        grown < 8 << 20,
        "{grown} bytes for eight connections that do not read"
    );
    assert_eq!(server.connect().get("/a.txt").text(), "a");
}

#[test]
fn roots_of_hosts_leave_descriptors_to_connections() {
    let tree = Tree::with(&[("site/a.txt", "a")]);
    let hosts: String = (0..20)
        .map(|number| format!("[[host]]\nnames = ['h{number}.test']\nroot = 'site'\n"))
        .collect();
    tree.write("weir.toml", format!("root = 'site'\n{hosts}"));
    let config = tree.join("weir.toml").display().to_string();
    let (code, said) = Launch::wrapped(Strategy::LOOPS, "ulimit -n 128")
        .args(["--config", &config])
        .fail();
    assert_eq!(code, 4, "{said}");
    for word in ["limit of 128 is too low", "need 60 descriptors", "`ulimit -n`"] {
        assert!(said.contains(word), "{word} is not in {said}");
    }
}

/// No line of the file is at fault.
#[test]
fn a_check_without_descriptors_for_its_roots_says_so() {
    let tree = Tree::with(&[("site/a.txt", "a")]);
    let hosts: String = (0..100)
        .map(|number| format!("[[host]]\nnames = ['h{number}.test']\nroot = 'site'\n"))
        .collect();
    tree.write("weir.toml", format!("root = 'site'\n{hosts}"));
    let config = tree.join("weir.toml").display().to_string();
    let (code, said) = Launch::wrapped(Strategy::LOOPS, "ulimit -n 100")
        .args(["--check", "--config", &config])
        .fail();
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("ulimit -n"), "{said}");
    assert!(
        !said.contains("weir.toml:") && !said.contains("readable directory"),
        "{said}"
    );
}

fn out_of_descriptors_it_keeps_serving_and_recovers(strategy: Strategy) {
    let tree = tree();
    let mut strategy = strategy;
    strategy.workers = strategy.workers.min(48);
    let server = Launch::wrapped(strategy, "ulimit -n 64")
        .root(tree.path())
        .start();
    let mut inside = server.connect();
    assert_eq!(inside.get("/a.txt").text(), "a");
    let began_crowd = Instant::now();
    // Idle ones would give way to the crowd; this one is always in the middle of a request.
    let (begin, end) = ("GET /a.txt HTTP/1.1\r\nHost: w", "eir.test\r\n\r\n");
    inside.send(begin);
    let mut crowd: Vec<Connection> = (0..100).map(|_| server.connect()).collect();
    // Nor is anybody of the crowd idle, once it is inside.
    for connection in &mut crowd {
        connection.try_send(begin);
    }
    // Those inside are served, again and again.
    for _ in 0..20 {
        inside.send(format!("{end}{begin}"));
        assert_eq!(inside.receive("GET").text(), "a");
    }
    // It waits instead of spinning: processor time over a second of doing nothing.
    let (cpu, began) = (server.cpu(), Instant::now());
    inside.patience(Duration::from_secs(1));
    assert!(inside.is_silent());
    let (spent, passed) = (server.cpu() - cpu, began.elapsed());
    assert!(spent < passed / 2, "{spent:?} of processor time in {passed:?}");
    // They say so once a second together, not once per attempt.
    eventually("what to do", || {
        server.stderr().contains("ulimit -n").then_some(())
    });
    let stderr = server.stderr();
    let complaints = stderr
        .lines()
        .filter(|line| line.contains("WARN") || line.contains("ERROR"))
        .count();
    let seconds_at_most = began_crowd.elapsed().as_secs() as usize + 2;
    assert!(complaints <= seconds_at_most, "{complaints} complaints: {stderr}");
    crowd.clear();
    drop(inside);
    eventually("new connections are served again", || {
        try_get(server.address, "/a.txt")
    });
}

/// The system may refuse a descriptor where the process expected to get one.
fn a_system_without_descriptors_is_outlived(strategy: Strategy) {
    let tree = tree();
    tree.write("page.bin", noise(PAGE));
    let mut strategy = strategy;
    if strategy.io == "uring" || strategy.is_of_processes() {
        // Each worker has an accept armed that goes by the limit that held when it was, and each process a limit: one
        // to know of.
        strategy.workers = 1;
    }
    // So few that a ring's accepts are armed one by one.
    let server = Launch::wrapped(strategy, "ulimit -n 1024")
        .root(tree.path())
        .start();
    let mut first = narrow(server.address);
    // What is in memory takes no descriptor.
    for _ in 0..3 {
        assert_eq!(first.get("/a.txt").text(), "a");
        assert_eq!(first.get("/page.bin").body.len(), PAGE);
    }
    let pid = *server.pids().last().expect("whoever has the connections");
    let limit = |most: usize| {
        let changed = std::process::Command::new("prlimit")
            .args([format!("--pid={pid}"), format!("--nofile={most}:")])
            .status();
        changed.is_ok_and(|status| status.success())
    };
    // The lowest number that is free is the next to be given out.
    let taken = |number: &usize| std::fs::exists(format!("/proc/{pid}/fd/{number}")).unwrap_or(false);
    let next = (0..).find(|number| !taken(number)).expect("numbers do not end");
    if !limit(next) {
        println!("skipped: prlimit(1) is not there or refused");
        return;
    }
    // A descriptor that was open only while the first was answered has left a place below the limit, and a ring has an
    // accept armed that goes by the limit before: who gets in fills that place.
    let says_so = || {
        let stderr = server.stderr();
        stderr.contains("out of descriptors") && stderr.contains("\"errno\":24")
    };
    keep_busy(&mut first);
    let mut inside = vec![first];
    let (mut outside, spent, passed) = loop {
        let mut next = narrow(server.address);
        next.send(head("GET", "/a.txt", &[]));
        next.patience(Duration::from_millis(50));
        eventually("an answer, or that it is out of descriptors", || {
            (!next.is_silent() || says_so()).then_some(())
        });
        let (cpu, began) = (server.cpu(), Instant::now());
        next.patience(Duration::from_secs(1));
        if next.is_silent() {
            break (next, server.cpu() - cpu, began.elapsed());
        }
        assert_eq!(next.receive("GET").text(), "a");
        // An idle one would give way.
        keep_busy(&mut next);
        inside.push(next);
        assert!(inside.len() < 10, "the limit does not hold");
    };
    assert!(says_so());
    assert!(spent < passed / 2, "{spent:?} of processor time in {passed:?}");
    for connection in &mut inside {
        let_finish(connection);
        keep_busy(connection);
    }
    assert!(limit(1024));
    outside.patience(PATIENCE);
    assert_eq!(outside.receive("GET").text(), "a");
}

/// Bytes of a page, which are kept in memory.
const PAGE: usize = 16 << 10;
/// Pages that are more than the kernel buffers of what is sent (4 MiB, `tcp_wmem`) for a client with a narrow window.
const PAGES: usize = 400;

/// A connection whose client buffers little.
fn narrow(to: SocketAddr) -> Connection {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a size");
    socket.connect(&to.into()).expect("a connection to the server");
    Connection::over(socket.into())
}

/// Asks for more pages than are taken, so that the server owes the rest.
fn keep_busy(connection: &mut Connection) {
    connection.send(head("GET", "/page.bin", &[]).repeat(PAGES));
    assert!(!connection.is_silent(), "the first has begun");
}

fn let_finish(connection: &mut Connection) {
    for _ in 0..PAGES {
        assert_eq!(connection.receive("GET").body.len(), PAGE);
    }
}

/// Whether a process has the server's end of this connection.
fn is_held(server: &Server, connection: &mut Connection) -> bool {
    let port = |address: SocketAddr| format!(":{:04X}", address.port());
    let client = connection.stream().local_addr().expect("an address");
    let table = std::fs::read_to_string("/proc/net/tcp").expect("/proc");
    table.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.len() > 9
            && fields[1].ends_with(&port(server.address))
            && fields[2].ends_with(&port(client))
            && fields[9] != "0"
    })
}

/// GET on a connection of its own, if the server answers 200.
fn try_get(address: SocketAddr, path: &str) -> Option<()> {
    let mut connection = Connection::open(address);
    connection.patience(Duration::from_secs(2));
    if !connection.try_send(head("GET", path, &[("Connection", "close")])) {
        return None;
    }
    (!connection.is_silent() && connection.try_receive("GET")?.status == 200).then_some(())
}

/// A connection whose client has this address.
fn connect_from(source: Ipv4Addr, to: SocketAddr) -> Connection {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket
        .bind(&SocketAddr::from((source, 0)).into())
        .expect("an address of loopback");
    socket.connect(&to.into()).expect("a connection to the server");
    Connection::over(socket.into())
}

/// Resident bytes of each process of the server, what it shares with others and with its file aside.
fn resident(server: &Server) -> HashMap<u32, usize> {
    server
        .pids()
        .into_iter()
        .map(|pid| (pid, resident_of(pid)))
        .collect()
}

fn resident_of(pid: u32) -> usize {
    // A process that is sent away meanwhile has nothing any more.
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with("RssAnon:"))
        .unwrap_or("RssAnon: 0 kB");
    let kib: usize = line
        .split_whitespace()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .expect("a number");
    kib << 10
}

on_every_strategy!(
    idle_connections_give_way_at_the_bound,
    idle_connections_stay_while_nobody_waits,
    a_client_that_holds_every_place_keeps_nobody_out,
    requests_that_never_arrive_keep_nobody_out,
    a_head_that_is_too_large_is_431,
    a_target_that_is_too_long_is_414,
    a_body_that_is_too_large_is_413,
    connections_beyond_the_bound_are_closed,
    one_address_cannot_take_all_places,
    one_address_cannot_ask_for_everything,
    probes_are_answered_whatever_else_their_address_asks,
    a_head_that_does_not_end_is_408,
    an_idle_connection_is_closed_in_silence,
    a_body_that_does_not_come_is_408,
    a_client_that_does_not_read_is_given_up,
    slow_clients_never_slow_others,
    one_greedy_reader_does_not_starve_the_rest,
    a_pipeline_that_is_not_read_costs_little,
);

// Of `processes` each has one connection, and runs out of nothing.
where_connections_share_a_process!(
    out_of_descriptors_it_keeps_serving_and_recovers,
    a_system_without_descriptors_is_outlived,
);
