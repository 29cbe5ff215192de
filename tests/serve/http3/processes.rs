//! HTTP/3 with worker processes: each has connections of its own, and dies alone.

use super::{
    Client, MOVES, handed_over, launch, metric, move_in_an_answer, open, site,
    two_upgrades_lose_no_connection,
};
use crate::serve::files::noise;
use crate::serve::process::{Launch, Server, Strategy, eventually, signal};
use crate::serve::tls::{Pairs, Secure};
use crate::serve::upgrade::Line;
use std::collections::BTreeSet;
use std::path::Path;

/// The worker process that has a client's connection, by the connection ID.
pub(super) fn process_of(client: &Client) -> u8 {
    let [_, _, process] = client.named.expect("it has sent a request");
    process
}

/// Connections of two processes, at least two of each: the kernel chooses by the port of the client.
fn connections_of_both(server: &Server, pairs: &Pairs) -> Vec<Client> {
    let mut clients: Vec<Client> = Vec::new();
    // That one process has fewer than two of so many does not happen in a lifetime.
    for _ in 0..64 {
        let mut client = open(server, pairs);
        client.get("/a.txt", &[]);
        clients.push(client);
        let of = |process| {
            clients
                .iter()
                .filter(|client| process_of(client) == process)
                .count()
        };
        if of(0).min(of(1)) >= 2 {
            assert_eq!(of(0) + of(1), clients.len(), "there are two");
            return clients;
        }
    }
    panic!("one process has fewer than two of 64 connections");
}

#[test]
fn each_process_serves_and_all_are_counted() {
    let pairs = site(&[("a.txt", b"a")]);
    let launch: Launch = pairs.launch(Strategy::PROCESS_LOOPS, &["a"]);
    let server = launch.args(["--http3=auto", "--live=all"]).start();
    assert_eq!(server.started["listeners"][0]["http3"], true);
    let clients = connections_of_both(&server, &pairs);
    let count = clients.len() as f64;
    for name in ["connections", "requests"] {
        let counted = metric(&server, &pairs, &format!("weir_http3_{name}_total"));
        assert_eq!(counted, count, "{name}");
    }
    let mut secure = Secure::open(server.address, &pairs.client(), "a.test");
    let answer = secure.try_ask("/a.txt").expect("an answer");
    let wanted = format!("Alt-Svc: h3=\":{}\"; ma=86400\r\n", server.address.port());
    assert!(answer.contains(&wanted), "{answer}");
}

#[test]
fn a_process_that_dies_loses_its_own_connections_only() {
    let pairs = site(&[("a.txt", b"a")]);
    let server = launch(Strategy::PROCESS_LOOPS, &pairs, &[]);
    let mut clients = connections_of_both(&server, &pairs);
    // The first is the parent.
    let victim = server.pids()[1];
    signal(victim, "KILL");
    let (mut lost, mut kept) = (BTreeSet::new(), BTreeSet::new());
    for client in &mut clients {
        let stream = client.ask("/a.txt");
        if client.run(|client| client.got[&stream].has_ended) {
            assert_eq!(client.got[&stream].body, b"a");
            kept.insert(process_of(client));
        } else {
            // The process that took the place of the dead one says so at once.
            let why = client.closed.as_deref().expect("it is closed");
            assert!(why.contains("reset"), "{why}");
            lost.insert(process_of(client));
        }
    }
    assert_eq!((lost.len(), kept.len()), (1, 1), "{lost:?} {kept:?}");
    assert!(lost.is_disjoint(&kept));
    assert!(!server.pids().contains(&victim));
    // Both serve again.
    connections_of_both(&server, &pairs);
}

#[test]
fn a_reload_reaches_all_processes_and_keeps_connections() {
    let pairs = site(&[("a.txt", b"a")]);
    let config = pairs.tree.join("weir.toml").display().to_string();
    pairs.tree.write("weir.toml", "header = ['X-Version: 1']\n");
    let server = launch(Strategy::PROCESS_LOOPS, &pairs, &["--config", &config]);
    let mut clients = connections_of_both(&server, &pairs);
    pairs.tree.replace("weir.toml", "header = ['X-Version: 2']\n");
    server.signal("HUP");
    for client in &mut clients {
        eventually("the new field", || {
            let got = client.get("/a.txt", &[]);
            (got.field("x-version") == Some("2")).then_some(())
        });
        assert!(!client.is_leaving);
    }
}

/// Threads and processes have their sockets in different ways, and take over what the others had.
#[test]
fn the_kind_of_server_may_change() {
    let large = noise(20 << 20);
    let pairs = site(&[("a.txt", b"a"), ("large.bin", &large)]);
    let kinds = ["process-loops", "loops", "process-loops"];
    for order in [[0, 1, 2], [1, 2, 1]] {
        let set = |upgrades: usize| {
            let text = format!(
                "root = 'site'\nlisten = '127.0.0.1:0'\nconcurrency = '{}'\nworkers = 2\nhttp3 = true\n\
                 tls-cert = 'a.pem'\ntls-key = 'a.key'\ngrace = '90s'\n",
                kinds[order[upgrades]]
            );
            pairs.tree.replace("weir.toml", text);
        };
        set(0);
        let launch = Launch::file(Path::new(env!("CARGO_BIN_EXE_weir")));
        let config = pairs.tree.join("weir.toml");
        let server = launch.args(["--config".as_ref(), config.as_os_str()]).start();
        two_upgrades_lose_no_connection(server, &pairs, &large, set);
    }
}

/// The sockets stay, and mean other workers then: of four sockets, two processes have two each. Nobody has to pass a packet on,
/// until a program comes that wants no help of the kernel.
#[test]
fn steering_is_that_of_the_newest_program() {
    let large = noise(4 << 20);
    let pairs = site(&[("large.bin", &large)]);
    let set = |workers: usize, steering: bool| {
        let text = format!(
            "root = 'site'\nlisten = '127.0.0.1:0'\nconcurrency = 'process-loops'\nworkers = {workers}\nhttp3 = true\n\
             http3-steering = {steering}\nlive = 'all'\ntls-cert = 'a.pem'\ntls-key = 'a.key'\n"
        );
        pairs.tree.replace("weir.toml", text);
    };
    set(4, true);
    let launch = Launch::file(Path::new(env!("CARGO_BIN_EXE_weir")));
    let config = pairs.tree.join("weir.toml");
    let mut line = Line::of(launch.args(["--config".as_ref(), config.as_os_str()]).start());
    for (workers, steering) in [(4, true), (2, true), (2, false), (4, true)] {
        set(workers, steering);
        line.upgrade();
        let moves = (0..MOVES).take_while(|_| {
            move_in_an_answer(&line.first, &pairs, &large);
            steering || handed_over(&line.first, &pairs) == [0.0; 2]
        });
        let moves = moves.count();
        let counted = handed_over(&line.first, &pairs);
        assert_eq!(counted == [0.0; 2], steering, "{workers} {moves}: {counted:?}");
    }
    line.stop();
}
