//! Workers that die are replaced, neighbors feel nothing, and no process is left behind.

use crate::serve::process::{Launch, Server, Strategy, eventually, signal, within};
use crate::serve::tree::Tree;
use crate::serve::wire::Connection;
use crate::serve::{on_every_strategy, where_workers_are_processes};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

fn tree() -> Tree {
    Tree::with(&[("a.txt", "a")])
}

/// Ends a process as a crash does.
fn kill(pid: u32) {
    let status = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    assert!(status.expect("kill(1)").success());
}

fn workers(server: &Server) -> Vec<u32> {
    server.pids().split_off(1)
}

fn a_killed_worker_process_is_replaced(strategy: Strategy) {
    let tree = tree();
    let mut server = Server::of(strategy, tree.path());
    for _ in 0..3 {
        let before = workers(&server);
        let mut held: Vec<Connection> = (0..4).map(|_| server.connect()).collect();
        for connection in &mut held {
            assert_eq!(connection.get("/a.txt").text(), "a");
        }
        kill(before[0]);
        eventually("another is started", || {
            let now = workers(&server);
            // Where they grow, five that are idle are enough.
            (now.len() >= before.len().min(5) && !now.contains(&before[0])).then_some(())
        });
        assert_eq!(server.connect().get("/a.txt").text(), "a");
        // Whoever was with another process is served as before.
        let alive = held
            .iter_mut()
            .map(|connection| {
                connection.try_send(crate::serve::wire::head("GET", "/a.txt", &[]))
                    && connection
                        .try_receive("GET")
                        .is_some_and(|answer| answer.text() == "a")
            })
            .filter(|is_served| *is_served)
            .count();
        assert!(
            alive >= 3 || !strategy.grows(),
            "{alive} of 4 connections are served"
        );
    }
    eventually("it says so", || {
        server.stderr().contains("killed by signal 9").then_some(())
    });
    assert_eq!(server.stop(), 0);
}

/// What kills many at once is one incident: nobody waits for a pause that doubles with each of them.
fn all_that_are_killed_at_once_are_replaced_at_once(strategy: Strategy) {
    let tree = tree();
    let strategy = Strategy {
        workers: 12,
        ..strategy
    };
    let mut server = Server::of(strategy, tree.path());
    let mut held: Vec<Connection> = (0..11).map(|_| server.connect()).collect();
    for connection in &mut held {
        assert_eq!(connection.get("/a.txt").text(), "a");
    }
    let before = workers(&server);
    assert!(before.len() >= 11, "{before:?}");
    before.iter().for_each(|&pid| kill(pid));
    // Pauses of eleven deaths in a row are 42.7 s.
    within(Duration::from_secs(40), "others serve", || {
        let mut connection = server.connect();
        let is_sent = connection.try_send(crate::serve::wire::head("GET", "/a.txt", &[]));
        let answer = is_sent.then(|| connection.try_receive("GET")).flatten()?;
        (answer.text() == "a").then_some(())
    });
    // The first by itself, and others together: all others, unless the founder is kept off a processor meanwhile.
    eventually("all are told of", || {
        let said = server.stderr();
        let lines = said
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let told = lines.map(|line| match line["message"].as_str() {
            Some(text) if text.contains("was killed by signal 9") => 1,
            Some(text) if text.starts_with("more worker processes died") => {
                line["count"].as_u64().expect("a count")
            }
            _ => 0,
        });
        let told: Vec<u64> = told.filter(|count| *count > 0).collect();
        let is_together = told.iter().any(|count| *count > 1);
        (is_together && told.iter().sum::<u64>() == before.len() as u64).then_some(())
    });
    assert_eq!(server.stop(), 0);
}

fn places_of_the_dead_are_free_again(strategy: Strategy) {
    let tree = tree();
    let server = Launch::new(strategy)
        .root(tree.path())
        .args(["--max-connections", "3"])
        .start();
    for _ in 0..3 {
        // The connection of the round before gives its place back once it is closed on both sides.
        let held = eventually("all places are free", || {
            let mut held: Vec<Connection> = (0..3).map(|_| server.connect()).collect();
            held.iter_mut()
                .all(|connection| {
                    connection.try_send(crate::serve::wire::head("GET", "/a.txt", &[]))
                        && connection.try_receive("GET").is_some()
                })
                .then_some(held)
        });
        let before = workers(&server);
        before.iter().copied().for_each(kill);
        drop(held);
        eventually("others take their places", || {
            let mut connection = server.connect();
            (connection.try_send(crate::serve::wire::head(
                "GET",
                "/a.txt",
                &[("Connection", "close")],
            )) && connection.try_receive("GET").is_some())
            .then_some(())
        });
    }
}

/// Service managers send what they send to all processes of a service.
fn only_the_founder_is_obeyed_and_once(strategy: Strategy) {
    const LARGE: usize = 24 << 20;
    let tree = Tree::with(&[("site/a.txt", "a"), ("weir.toml", "root = 'site'\n")]);
    tree.write("site/large", vec![b'x'; LARGE]);
    let config = tree.join("weir.toml");
    let mut server = Launch::new(strategy)
        .args(["--config".as_ref(), config.as_os_str()])
        .args(["--grace", "60s"])
        .start();
    let mut owed = server.connect();
    owed.send(crate::serve::wire::head("GET", "/large", &[]));
    let members = workers(&server);
    tree.replace("weir.toml", "no-such-key = 1\n");
    for name in ["HUP", "TERM", "TERM", "INT", "USR2"] {
        members.iter().for_each(|&member| signal(member, name));
    }
    for _ in 0..8 {
        assert_eq!(server.connect().get("/a.txt").text(), "a");
    }
    let now = workers(&server);
    assert!(
        members.iter().all(|pid| now.contains(pid)),
        "{members:?} became {now:?}"
    );
    for _ in 0..2 {
        members.iter().for_each(|&member| signal(member, "TERM"));
    }
    server.signal("TERM");
    eventually("it stops", || server.stderr().contains("stopping").then_some(()));
    let still = workers(&server);
    for _ in 0..2 {
        // Those without a connection may have ended.
        let status = Command::new("kill")
            .arg("-TERM")
            .args(still.iter().map(u32::to_string))
            .output();
        status.expect("kill(1)");
    }
    assert_eq!(owed.receive("GET").body.len(), LARGE, "what is owed is finished");
    assert_eq!(server.wait(), 0);
    assert!(!server.stderr().contains("cut off"), "{}", server.stderr());
}

fn a_founder_that_is_killed_leaves_nobody_behind(strategy: Strategy) {
    let tree = tree();
    let server = Server::of(strategy, tree.path());
    assert_eq!(server.connect().get("/a.txt").text(), "a");
    let all = server.pids();
    kill(all[0]);
    eventually("all are gone", || {
        // The first is a zombie until the test waits for it.
        let alive = |pid: &&u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z ")
        };
        (all.iter().filter(alive).count() == 0).then_some(())
    });
}

fn many_processes_write_whole_lines_to_one_log(strategy: Strategy) {
    let tree = tree();
    let log = tree.join("access.log");
    let mut server = Launch::new(strategy)
        .root(tree.path())
        .args(["--log-format", "json", "--access-log"])
        .args([&log])
        .start();
    let address = server.address;
    let clients: Vec<_> = (0..6)
        .map(|client| {
            std::thread::spawn(move || {
                let mut connection = Connection::open(address);
                for request in 0..300 {
                    connection.get(&format!("/a.txt?{client}-{request}-{}", "x".repeat(200)));
                }
            })
        })
        .collect();
    for client in clients {
        client.join().expect("a client");
    }
    assert_eq!(server.stop(), 0);
    let text = std::fs::read_to_string(&log).expect("the log");
    assert_eq!(text.lines().count(), 1800);
    for line in text.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    }
}

#[test]
fn idle_processes_come_and_go_with_the_load() {
    let tree = tree();
    // Whoever leaves alone has nobody to warn.
    let server = Launch::new(Strategy::PROCESSES)
        .root(tree.path())
        .args(["--drain-delay", "1h"])
        .start();
    assert_eq!(workers(&server).len(), 5, "as many as Apache 1.3 kept idle");
    let mut held: Vec<Connection> = (0..16).map(|_| server.connect()).collect();
    for connection in &mut held {
        assert_eq!(connection.get("/a.txt").text(), "a");
    }
    eventually("five are idle beside sixteen", || {
        (workers(&server).len() == 21).then_some(())
    });
    drop(held);
    eventually("the idle are sent away one by one", || {
        (workers(&server).len() <= 18).then_some(())
    });
    assert!(!server.stderr().contains("ERROR"), "{}", server.stderr());
}

where_workers_are_processes!(
    a_killed_worker_process_is_replaced,
    all_that_are_killed_at_once_are_replaced_at_once,
    places_of_the_dead_are_free_again,
    only_the_founder_is_obeyed_and_once,
);
on_every_strategy!(
    a_founder_that_is_killed_leaves_nobody_behind,
    many_processes_write_whole_lines_to_one_log,
);
