//! Clients that take their time, and disks that do: who waits is waited for as long as was said, and nobody else waits.

use crate::serve::files::noise;
use crate::serve::on_every_strategy;
use crate::serve::process::{Launch, Server, Strategy, eventually, within};
use crate::serve::tree::Tree;
use crate::serve::wire::{Connection, End, head};
use std::io::{ErrorKind, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// States of `/proc/net/tcp` in which a socket has a process, or is on its way out.
const FIN_WAIT_1: &str = "04";

/// The state in which the kernel has the server's end of a connection.
fn state(server: &Server, connection: &mut Connection) -> Option<String> {
    let client = connection.stream().local_addr().expect("an address").port();
    let (server, client) = (
        format!(":{:04X}", server.address.port()),
        format!(":{client:04X}"),
    );
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the kernel's connections");
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_it = fields.get(1)?.ends_with(&server) && fields.get(2)?.ends_with(&client);
        is_it.then(|| fields.get(3).unwrap_or(&"").to_string())
    })
}

/// A kernel that is left with what nobody takes would offer it for minutes (FIN-WAIT-1), and keep the memory.
fn what_a_client_does_not_take_goes_with_its_connection(strategy: Strategy) {
    let tree = Tree::new();
    tree.write("large.bin", noise(32 << 20));
    let server = Launch::new(strategy)
        .root(tree.path())
        .args(["--write-timeout", "500ms"])
        .start();
    let mut connection = server.connect();
    connection.send(head("GET", "/large.bin", &[]));
    assert_eq!(connection.exactly(8), b"HTTP/1.1", "the answer has begun");
    // Without the flag, its 30 seconds.
    within(Duration::from_secs(20), "the socket is gone", || {
        let state = state(&server, &mut connection);
        assert_ne!(state.as_deref(), Some(FIN_WAIT_1), "it is left to the kernel");
        state.is_none().then_some(())
    });
    let (rest, end) = connection.rest();
    assert_eq!(end, End::Reset);
    assert!(rest.len() < 32 << 20);
}

/// Reads some 400 KB/s for so long, as long as it is to, or until the end: far above nothing, and far below what empties a third of a send
/// buffer within two seconds.
pub(crate) fn read_slowly(
    connection: &mut Connection,
    span: Duration,
    mut goes_on: impl FnMut(&mut Connection) -> bool,
) -> Vec<u8> {
    let began = Instant::now();
    let mut all = Vec::new();
    while began.elapsed() < span && goes_on(connection) {
        let due = usize::try_from(began.elapsed().as_millis()).expect("some seconds") * 400;
        let mut part = vec![0; due.saturating_sub(all.len()).max(1)];
        match connection.stream().read(&mut part) {
            Ok(0) => break,
            Ok(count) => all.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("the server neither sends nor closes: {error}"),
        }
        std::thread::park_timeout(Duration::from_millis(50));
    }
    all
}

fn who_reads_slowly_gets_the_whole(strategy: Strategy) {
    let tree = Tree::new();
    let large = noise(12 << 20);
    tree.write("large.bin", &large);
    let server = Launch::new(strategy)
        .root(tree.path())
        .args(["--write-timeout", "2s"])
        .start();
    let mut connection = server.connect();
    connection.send(head("GET", "/large.bin", &[]));
    let mut slowly = read_slowly(&mut connection, Duration::from_secs(10), |_| true);
    let begins = crate::serve::wire::find(&slowly, b"\r\n\r\n").expect("a head") + 4;
    slowly.extend(connection.exactly(large.len() + begins - slowly.len()));
    assert!(slowly[begins..] == large);
}

/// A tracer that makes whoever opens a file wait. Dropped, it lets go.
struct SlowDisk(Child);

impl SlowDisk {
    /// None where the system has no such tracer or lets nobody trace; says why.
    fn under(server: &Server, delay: Duration) -> Option<SlowDisk> {
        let pids: Vec<String> = server.pids().iter().map(u32::to_string).collect();
        let inject = format!("inject=openat2:delay_enter={}", delay.as_micros());
        let started = Command::new("strace")
            .args([
                "-f",
                "-qq",
                "-o",
                "/dev/null",
                "-e",
                "trace=openat2",
                "-e",
                &inject,
            ])
            .args(["-p", &pids.join(",")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut child = match started {
            Ok(child) => child,
            Err(error) => {
                println!("skipped: no strace(1): {error}");
                return None;
            }
        };
        let is_traced = |pid: &String| {
            let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok();
            tasks.into_iter().flatten().flatten().all(|task| {
                let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
                !status.contains("TracerPid:\t0\n")
            })
        };
        let is_attached = eventually("the tracer attaches", || {
            match child.try_wait().expect("our own child") {
                Some(_) => Some(false),
                None => pids.iter().all(is_traced).then_some(true),
            }
        });
        if !is_attached {
            println!("skipped: strace(1) may trace nothing here");
            return None;
        }
        Some(SlowDisk(child))
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        // It lets those go that it traces.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

fn a_disk_that_hangs_is_answered_for_and_hurts_nobody_else(strategy: Strategy) {
    // Longer than all answers together take on a busy machine: nobody waits for it, as the tracer is ended before.
    const DELAY: Duration = Duration::from_secs(50);
    let tree = Tree::with(&[("warm.txt", "warm")]);
    for number in 0..12 {
        tree.write(&format!("cold{number}.txt"), "cold");
    }
    // Each file is opened by a helper, even if it could be opened at once: the tracer makes no difference.
    let flags = [
        "--cold-reads",
        "helper",
        "--disk-timeout",
        "1s",
        "--max-disk-queue",
        "8",
        "--live",
    ];
    let server = Launch::new(strategy).root(tree.path()).args(flags).start();
    // As many as there are processes without more being started, which would be slow as well.
    let count = if strategy.grows() { 3 } else { 12 };
    let mut warm = server.connect();
    // Where nothing tells of changes, a file that was changed just now is not kept.
    eventually("it is kept", || {
        assert_eq!(warm.get("/warm.txt").text(), "warm");
        let text = warm.get("/.weir/metrics").text();
        (!text.contains("weir_cache_entries 0\n")).then_some(())
    });
    let Some(slow) = SlowDisk::under(&server, DELAY) else {
        return;
    };
    let began = Instant::now();
    let mut clients: Vec<Connection> = (0..count).map(|_| server.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(head("GET", &format!("/cold{number}.txt"), &[]));
    }
    assert_eq!(warm.get("/warm.txt").text(), "warm");
    for client in &mut clients {
        let answer = client.receive("GET");
        assert_eq!(answer.status, 503);
        assert!(answer.field("Retry-After").is_some());
    }
    assert!(
        began.elapsed() < DELAY - Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    // They go on, and so do those who hang.
    for client in &mut clients {
        let text = client.get("/.weir/metrics").text();
        let timeouts = text
            .lines()
            .filter(|line| line.starts_with("weir_disk_timeouts_total"));
        let timeouts: f64 = timeouts
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum();
        assert!(timeouts >= 1.0, "{text}");
    }
    drop(slow);
    eventually("the disk is as it was", || {
        (clients[0].get("/cold0.txt").status == 200).then_some(())
    });
}

on_every_strategy!(
    what_a_client_does_not_take_goes_with_its_connection,
    who_reads_slowly_gets_the_whole,
    a_disk_that_hangs_is_answered_for_and_hurts_nobody_else,
);
