//! Memory: a bounded server outlives clients that make it hold as much as they can, serves the others meanwhile, says what it
//! does about it, and gives memory back.

use crate::serve::files::noise;
use crate::serve::on_every_strategy;
use crate::serve::process::{Launch, Server, Strategy, eventually, within};
use crate::serve::tree::Tree;
use crate::serve::wire::{Connection, Response, head};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// A control group that bounds memory. Gone when dropped, once its processes are.
struct Group {
    folder: PathBuf,
    is_first_version: bool,
}

impl Group {
    /// A group with this bound; why there is none otherwise.
    fn make(name: &str, limit: u64) -> Result<Group, String> {
        let root = Path::new("/sys/fs/cgroup");
        let is_first_version = root.join("memory/memory.limit_in_bytes").exists();
        let name = format!("weir-test-{}-{name}", std::process::id());
        let (folder, bound) = match is_first_version {
            true => (root.join("memory").join(name), "memory.limit_in_bytes"),
            false => (root.join(name), "memory.max"),
        };
        std::fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let group = Group {
            folder,
            is_first_version,
        };
        let bound = group.folder.join(bound);
        std::fs::write(&bound, limit.to_string()).map_err(|error| format!("{}: {error}", bound.display()))?;
        Ok(group)
    }

    /// What a shell does to be in it, with room for many descriptors.
    fn enter(&self) -> String {
        format!("echo $$ > {}/cgroup.procs", self.folder.display())
    }

    /// Processes the kernel killed for want of memory.
    fn killed(&self) -> u64 {
        let file = match self.is_first_version {
            true => "memory.oom_control",
            false => "memory.events",
        };
        let text = std::fs::read_to_string(self.folder.join(file)).expect("the group is there");
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.and_then(|count| count.parse().ok()).expect("a count")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What was in it ends first.
        for _ in 0..500 {
            if std::fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }
}

/// Held while a test has thousands of connections: those of several tests together exceed the descriptors of a process.
static THOUSANDS: Mutex<()> = Mutex::new(());

/// Clients that ask for much and read nothing; the system gives up before it holds more for one than it will.
fn crowd(server: &Server, clients: usize) -> (Vec<TcpStream>, MutexGuard<'static, ()>) {
    let turn = THOUSANDS.lock().unwrap_or_else(PoisonError::into_inner);
    ((0..clients).filter_map(|_| greedy(server)).collect(), turn)
}

/// One of them; none if the system has no more.
fn greedy(server: &Server) -> Option<TcpStream> {
    let requests = head("GET", "/8k.bin", &[]).repeat(100);
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).ok()?;
    // So that little fills it, and this machine is not filled.
    socket.set_recv_buffer_size(4 << 10).ok()?;
    socket.connect(&server.address.into()).ok()?;
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(true).ok()?;
    // It takes what it has room for.
    let _ = std::io::Write::write(&mut &stream, requests.as_bytes());
    Some(stream)
}

/// The answer to a GET on a connection of its own, if there is one soon.
fn try_get(server: &Server, path: &str) -> Option<Response> {
    let mut connection = Connection::open(server.address);
    connection.patience(Duration::from_secs(5));
    connection.try_send(head("GET", path, &[])).then_some(())?;
    if connection.is_silent() {
        return None;
    }
    connection.try_receive("GET")
}

fn metric(server: &Server, name: &str) -> u64 {
    let text = server.connect().get("/.weir/metrics").text();
    let values = text
        .lines()
        .filter(|line| line.starts_with(name) && !line.starts_with('#'));
    values
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum::<f64>() as u64
}

/// 3,000 of them make a server use 55 MiB where nothing is done about it, and the kernel kills one with less.
fn clients_that_read_nothing_do_not_kill_a_bounded_server(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a")]);
    tree.write("8k.bin", noise(8 << 10));
    let name = format!("{}-{}", strategy.concurrency, strategy.io);
    let group = match Group::make(&name, 40 * MIB) {
        Ok(group) => group,
        Err(why) => return println!("skipped: no control group can be made: {why}"),
    };
    let mut server = Launch::wrapped(strategy, &group.enter())
        .root(tree.path())
        .args([
            "--max-connections-per-address",
            "65536",
            "--live",
            "--adapt",
            "off",
        ])
        .start();
    assert_eq!(server.started["limits"]["memory"].as_u64(), Some(40 * MIB));
    let crowd = crowd(&server, 3_000);
    // Where a worker has one connection, or one request, at a time, all are taken by clients that are not idle: others wait
    // until `--write-timeout` gives those up.
    if strategy.workers <= 2 {
        within(Duration::from_secs(60), "others are served meanwhile", || {
            (try_get(&server, "/a.txt")?.status == 200).then_some(())
        });
        let stderr = server.stderr();
        let [first, second] = [
            "connections read 1 KiB at a time",
            "connections get one answer per turn",
        ]
        .map(|step| {
            stderr
                .find(step)
                .unwrap_or_else(|| panic!("`{step}` is not said: {stderr}"))
        });
        assert!(first < second, "in order");
        // A worker counts a step at its next turn, which may come after the line in the log.
        eventually("the step is counted", || {
            (metric(&server, "weir_memory_output_total") >= 1).then_some(())
        });
    }
    assert!(
        server.has_ended().is_none() && group.killed() == 0,
        "{}",
        server.stderr()
    );
    drop(crowd);
    within(Duration::from_secs(60), "everybody is served again", || {
        (try_get(&server, "/a.txt")?.status == 200).then_some(())
    });
    assert_eq!(server.stop(), 0);
    drop(server);
}

/// What is told bounds memory as a control group does, and the last step refuses; probes are answered all the same.
#[test]
fn out_of_memory_it_refuses_and_says_so() {
    let tree = Tree::with(&[("a.txt", "a")]);
    tree.write("8k.bin", noise(8 << 10));
    let server = Launch::new(Strategy::LOOPS)
        .root(tree.path())
        .args([
            "--memory",
            "16MiB",
            "--cache-size",
            "100MiB",
            "--health",
            "--adapt",
            "off",
        ])
        .args(["--max-connections-per-address", "65536"])
        .start();
    assert_eq!(
        server.started["cache"]["bytes"].as_u64(),
        Some(8 * MIB),
        "half of it at the most"
    );
    let mut idle = server.connect();
    assert_eq!(idle.get("/a.txt").text(), "a");
    // A site in memory, and clients who hold the rest.
    for number in 0..600 {
        tree.write(&format!("{number}.txt"), noise(14 << 10));
        try_get(&server, &format!("/{number}.txt"));
    }
    let mut crowd = crowd(&server, 6_000);
    let refused = eventually("a request is refused", || {
        let refused = try_get(&server, "/a.txt").filter(|answer| answer.status == 503);
        // The slower they come, the earlier the server saves, and the more of them it takes to fill it.
        if refused.is_none() && crowd.0.len() < 12_000 {
            crowd.0.extend((0..100).filter_map(|_| greedy(&server)));
        }
        refused
    });
    assert!(refused.closes() && refused.field("Retry-After").is_some());
    assert_eq!(server.connect().get("/healthz").status, 200);
    eventually("idle connections are closed", || {
        idle.patience(Duration::from_millis(100));
        (!idle.is_silent()).then_some(())
    });
    idle.expect_close();
    let stderr = server.stderr();
    let places: Vec<usize> = [
        "1 KiB at a time",
        "one answer per turn",
        "idle connections are closed",
        "requests get 503",
    ]
    .into_iter()
    .map(|step| {
        stderr
            .find(step)
            .unwrap_or_else(|| panic!("`{step}` is not said: {stderr}"))
    })
    .collect();
    assert!(places.is_sorted(), "{stderr}");
    drop(crowd);
    eventually("everybody is served again", || {
        (try_get(&server, "/a.txt")?.status == 200).then_some(())
    });
}

/// Bytes of a process that are resident and of no file.
fn resident(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.expect("a number") << 10
}

/// As 3,000 slow connections had left 136 MB behind.
#[test]
fn memory_of_connections_that_have_gone_is_given_back() {
    let tree = Tree::with(&[("a.txt", "a")]);
    tree.write("8k.bin", noise(8 << 10));
    let server = Launch::new(Strategy::LOOPS)
        .root(tree.path())
        .args([
            "--max-connections-per-address",
            "65536",
            "--memory",
            "off",
            "--adapt",
            "off",
        ])
        .start();
    assert_eq!(server.connect().get("/8k.bin").status, 200);
    let before = resident(&server);
    let crowd = crowd(&server, 3_000);
    let mut most = 0;
    within(Duration::from_secs(60), "they hold memory", || {
        most = resident(&server);
        (most > before + 20 * MIB).then_some(())
    });
    drop(crowd);
    within(Duration::from_secs(60), "it is given back", || {
        (resident(&server) < before + (most - before) / 8).then_some(())
    });
}

on_every_strategy!(clients_that_read_nothing_do_not_kill_a_bounded_server);
