//! The server over the simulated runtime: the worker that drives sockets drives these, in virtual time, with many
//! clients, slow readers, held jobs and real files.

#![expect(clippy::disallowed_methods, reason = "a test creates the files it serves")]

use runtime::sim::{Client, Jobs, Sim};
use server::config::{ColdReads, Config, LogFormat};
use server::site::Source;
use server::{LogSink, Server};
use std::sync::{Arc, LazyLock, Mutex};
use units::{Bytes, Duration, Instant, Seed, UnixTime};

static BIG: LazyLock<&'static [u8]> = LazyLock::new(|| b"0123456789abcdef".repeat(20_000).leak());
static TEXT: LazyLock<&'static [u8]> = LazyLock::new(|| b"A weir regulates a flow. ".repeat(200).leak());
static FILES: LazyLock<Vec<(&'static str, &'static [u8])>> = LazyLock::new(|| {
    vec![
        ("/small.bin", b"small content".as_slice()),
        ("/big.bin", *BIG),
        ("/text.txt", *TEXT),
    ]
});

#[derive(Debug, Default)]
struct Lines(Mutex<Vec<u8>>);

impl LogSink for Lines {
    fn write(&self, lines: Vec<u8>, _now: Instant) -> (Vec<u8>, u64) {
        self.0.lock().unwrap().extend(lines);
        (Vec::new(), 0)
    }
}

impl Lines {
    fn count(&self) -> usize {
        self.0.lock().unwrap().iter().filter(|&&b| b == b'\n').count()
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

fn sim(configure: impl FnOnce(&mut Config)) -> (Sim<Server>, Server, Arc<Lines>) {
    let mut config = Config {
        log_format: LogFormat::Json,
        ..Config::default()
    };
    configure(&mut config);
    let lines = Arc::new(Lines::default());
    let source = Source::Embedded {
        files: FILES.as_slice(),
        modified: UnixTime::from_secs(784_111_777),
    };
    let server = Server::open(config, source, Some(lines.clone()), Seed(1)).unwrap();
    (Sim::new(server.clone()), server, lines)
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// Status and body of each response that a client received.
fn answers(bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut all = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let end = rest.windows(4).position(|w| w == b"\r\n\r\n").expect("a head") + 4;
        let head = std::str::from_utf8(&rest[..end]).unwrap();
        let len: usize = head
            .lines()
            .find_map(|l| l.strip_prefix("Content-Length: "))
            .map_or(0, |n| n.parse().unwrap());
        all.push((head[9..12].parse().unwrap(), rest[end..end + len].to_vec()));
        rest = &rest[end + len..];
    }
    all
}

fn statuses(bytes: &[u8]) -> Vec<u16> {
    answers(bytes).into_iter().map(|(status, _)| status).collect()
}

#[test]
fn a_slow_reader_slows_nobody() {
    let (mut sim, server, _) = sim(|_| {});
    let slow: Vec<Client> = (0..50).map(|_| sim.connect_local()).collect();
    for &client in &slow {
        sim.stop_reading_after(client, 100);
        sim.send(client, get("/big.bin").repeat(3).as_bytes());
    }
    let quick = sim.connect_local();
    sim.send(quick, get("/small.bin").as_bytes());
    assert_eq!(answers(sim.received(quick)), [(200, b"small content".to_vec())]);
    for &client in &slow {
        assert_eq!(sim.received(client).len(), 100);
        sim.read_on(client);
        let got = answers(sim.received(client));
        assert_eq!(got.len(), 3);
        assert!(got.iter().all(|(status, body)| *status == 200 && body == *BIG));
    }
    assert_eq!(server.totals().requests, 151);
}

#[test]
fn readers_that_never_read_are_dropped_in_time() {
    let (mut sim, server, lines) = sim(|_| {});
    let client = sim.connect_local();
    sim.stop_reading_after(client, 1_000);
    sim.send(client, get("/big.bin").as_bytes());
    sim.advance(Duration::from_secs(29));
    assert!(!sim.is_closed(client));
    sim.advance(Duration::from_secs(3));
    assert!(sim.is_closed(client));
    assert_eq!(server.totals().aborted, 1);
    sim.advance(Duration::from_secs(2));
    assert!(lines.text().contains("\"bytes\":1000,"), "{}", lines.text());
}

#[test]
fn the_first_request_for_a_coding_waits_and_others_do_not() {
    let (mut sim, ..) = sim(|_| {});
    let [first, meanwhile, after] = [(); 3].map(|()| sim.connect_local());
    let request = b"GET /text.txt HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n";
    sim.send(meanwhile, get("/text.txt").as_bytes());
    sim.take_received(meanwhile);
    sim.set_jobs(Jobs::Held);
    sim.send(first, request);
    assert_eq!((sim.received(first).len(), sim.jobs_waiting()), (0, 1));
    sim.send(meanwhile, request);
    let identity = answers(sim.received(meanwhile));
    assert_eq!(identity, [(200, TEXT.to_vec())]);
    sim.run_jobs();
    sim.send(after, request);
    assert_eq!(sim.jobs_waiting(), 0, "made once");
    let made = answers(sim.received(first));
    assert!(made[0].1.starts_with(b"\x1f\x8b") && made[0].1.len() < TEXT.len());
    assert_eq!(answers(sim.received(after)), made);
}

#[test]
fn requests_behind_one_that_waits_are_answered_in_order() {
    let (mut sim, ..) = sim(|_| {});
    let client = sim.connect_local();
    sim.send(client, get("/small.bin").as_bytes());
    sim.take_received(client);
    sim.set_jobs(Jobs::Held);
    let input = [
        get("/small.bin"),
        get("/big.bin"),
        get("/small.bin"),
        get("/nothing"),
    ]
    .concat();
    sim.send(client, input.as_bytes());
    assert_eq!(
        statuses(sim.received(client)),
        [200],
        "cached files are sent at once"
    );
    sim.run_jobs();
    assert_eq!(statuses(sim.received(client)), [200, 200, 200, 404]);
}

#[test]
fn no_answer_is_eaten_by_a_reset() {
    for input in [
        "BAD REQUEST\r\n\r\nmore that nobody reads".to_owned(),
        format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n{}",
            "x".repeat(50_000)
        ),
        format!(
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n{}",
            get("/small.bin").repeat(50)
        ),
    ] {
        let (mut sim, ..) = sim(|_| {});
        let client = sim.connect_local();
        for piece in input.as_bytes().chunks(1_000) {
            sim.send(client, piece);
        }
        assert_eq!(statuses(sim.received(client)).len(), 1, "{}", &input[..20]);
        assert!(sim.is_finished(client), "the client is told");
        sim.advance(Duration::from_secs(6));
        assert!(sim.is_closed(client), "and not kept forever");
        assert!(!sim.was_reset(client), "{}", &input[..20]);
    }
}

#[test]
fn a_client_that_closes_its_half_first_gets_everything() {
    let (mut sim, ..) = sim(|_| {});
    let client = sim.connect_local();
    sim.queue(client, get("/big.bin").repeat(5).as_bytes());
    sim.finish(client);
    assert_eq!(statuses(sim.received(client)), [200; 5]);
    assert!(sim.is_closed(client) && !sim.was_reset(client));
}

#[test]
fn slow_heads_end_with_408_and_do_not_stay() {
    let (mut sim, server, _) = sim(|_| {});
    let clients: Vec<Client> = (0..20).map(|_| sim.connect_local()).collect();
    for byte in get("/small.bin").as_bytes().chunks(1) {
        for &client in &clients {
            if !sim.is_closed(client) {
                sim.send(client, byte);
            }
        }
        sim.advance(Duration::from_secs(2));
    }
    sim.advance(Duration::from_secs(10));
    for &client in &clients {
        assert_eq!(statuses(sim.received(client)), [408]);
        assert!(sim.is_closed(client));
    }
    assert_eq!(server.open_connections(), 0);
}

#[test]
fn draining_ends_idle_connections_and_finishes_the_rest() {
    let (mut sim, server, lines) = sim(|_| {});
    let [idle, busy] = [sim.connect_local(), sim.connect_local()];
    sim.send(idle, get("/small.bin").as_bytes());
    sim.stop_reading_after(busy, 10);
    sim.send(busy, get("/big.bin").as_bytes());
    sim.drain(Duration::from_secs(10));
    assert!(sim.is_closed(idle) && !sim.is_closed(busy));
    sim.read_on(busy);
    assert_eq!(answers(sim.received(busy))[0].1, *BIG);
    sim.advance(Duration::from_secs(6));
    assert!(sim.is_closed(busy) && sim.is_drained());
    drop(sim);
    assert_eq!(
        (lines.count(), server.totals().requests),
        (2, 2),
        "nothing is lost at shutdown"
    );
}

#[test]
fn bounds_on_connections_give_back_what_is_closed() {
    let (mut sim, server, _) = sim(|c| c.max_connections_per_address = Some(3));
    let clients: Vec<Client> = (0..5).map(|_| sim.connect_local()).collect();
    let open = |sim: &Sim<Server>| clients.iter().filter(|&&c| !sim.is_closed(c)).count();
    assert_eq!((open(&sim), server.totals().refused_address), (3, 2));
    sim.finish(clients[0]);
    let again = sim.connect_local();
    sim.send(again, get("/small.bin").as_bytes());
    assert_eq!(statuses(sim.received(again)), [200]);
}

#[test]
fn files_from_disk_are_sent_by_descriptor_and_a_truncated_one_ends_the_connection() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.bin");
    let content = b"abcdefgh".repeat(40_000);
    std::fs::write(&path, &content).unwrap();
    let (mut sim, server, lines) = sim(|c| {
        c.root = Some(dir.path().to_owned());
        c.cache_file_size = units::Bytes::kib(64);
    });
    let client = sim.connect_local();
    let range = "GET /large.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=8-15,24-31,300000-300007\r\n\r\n";
    sim.send(client, [get("/large.bin").as_str(), range].concat().as_bytes());
    let got = answers(sim.received(client));
    assert!(got[0].1 == content);
    assert_eq!(got[1].0, 206);
    assert_eq!(
        got[1].1.windows(12).filter(|w| w == b"\r\n\r\nabcdefgh").count(),
        3
    );

    let slow = sim.connect_local();
    sim.stop_reading_after(slow, 5_000);
    sim.send(slow, get("/large.bin").as_bytes());
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|f| f.set_len(1_000))
        .unwrap();
    sim.read_on(slow);
    sim.send(slow, get("/large.bin").as_bytes());
    assert!(
        sim.is_closed(slow),
        "the end of the connection reveals a short body"
    );
    assert!(sim.received(slow).len() < content.len());
    assert_eq!(server.totals().truncated, 1);
    sim.advance(Duration::from_secs(2));
    assert!(lines.text().contains("\"aborted\":\"file\""));
}

#[test]
fn a_find_of_the_old_site_does_not_enter_the_new_one() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for (dir, content) in dirs.iter().zip(["old", "new"]) {
        std::fs::write(dir.path().join("a.txt"), content).unwrap();
    }
    let (mut sim, server, _) = sim(|c| c.root = Some(dirs[0].path().to_owned()));
    let client = sim.connect_local();
    sim.set_jobs(Jobs::Held);
    sim.send(client, get("/a.txt").as_bytes());
    assert_eq!(sim.jobs_waiting(), 1);
    let next = Config {
        root: Some(dirs[1].path().to_owned()),
        ..server.config()
    };
    server.reload(next, None).unwrap();
    sim.advance(Duration::from_secs(1));
    sim.run_jobs();
    assert_eq!(
        answers(&sim.take_received(client))[0].1,
        b"old",
        "begun on the old one"
    );
    for _ in 0..2 {
        sim.send(client, get("/a.txt").as_bytes());
        sim.run_jobs();
        assert_eq!(answers(&sim.take_received(client))[0].1, b"new");
    }
}

#[test]
fn log_lines_leave_within_a_second() {
    let (mut sim, _, lines) = sim(|_| {});
    let client = sim.connect_local();
    sim.send(client, get("/small.bin").as_bytes());
    assert_eq!(lines.count(), 0);
    sim.advance(Duration::from_millis(1_100));
    assert_eq!(lines.count(), 1);
}

/// A kernel with a large send buffer accepts nothing more for minutes from a server whose client reads slowly.
#[test]
fn who_reads_slowly_is_not_cut_off_and_who_stops_is() {
    let (mut sim, server, _) = sim(|_| {});
    let client = sim.connect_local();
    sim.stop_reading_after(client, 1_000);
    sim.acknowledge(client, 0);
    sim.send(client, get("/big.bin").as_bytes());
    for _ in 0..20 {
        sim.advance(Duration::from_secs(20));
        sim.acknowledge(client, 1);
    }
    assert!(!sim.is_closed(client));
    // The last byte is noticed within a second; from then on, the client has 30.
    sim.advance(Duration::from_secs(29));
    assert!(!sim.is_closed(client));
    sim.advance(Duration::from_secs(3));
    assert!(sim.is_closed(client) && sim.was_reset(client));
    assert_eq!((server.totals().aborted, server.totals().timeouts), (1, 1));
}

#[test]
fn who_reads_slower_than_the_least_rate_is_cut_off() {
    for (rate, took) in [(0, None), (1_000, None), (10_000, Some(30..40))] {
        let (mut sim, server, _) = sim(|config| config.min_send_rate = Bytes(rate));
        let client = sim.connect_local();
        sim.stop_reading_after(client, 1_000);
        sim.acknowledge(client, 0);
        sim.send(client, get("/big.bin").as_bytes());
        let began = sim.now();
        let closed = (0..120).find(|_| {
            sim.advance(Duration::from_secs(1));
            sim.acknowledge(client, 2_000);
            sim.is_closed(client)
        });
        let after = closed.map(|_| (sim.now() - began).as_secs());
        match (took, after) {
            (None, None) => {}
            (Some(range), Some(after)) => assert!(range.contains(&after), "{rate}: {after} s"),
            other => panic!("{rate}: {other:?}"),
        }
        assert_eq!(server.totals().timeouts, u64::from(closed.is_some()));
        sim.reset(client);
    }
}

fn cold(config: &mut Config) {
    // The files of these tests are in memory, so a helper must read them for a job to exist.
    config.behavior.cold_reads = ColdReads::Helper;
}

#[test]
fn a_disk_that_hangs_is_answered_for_in_time() {
    let (mut sim, server, lines) = sim(cold);
    sim.set_jobs(Jobs::AsLoop);
    let client = sim.connect_local();
    sim.send(client, (get("/small.bin") + &get("/small.bin")).as_bytes());
    sim.advance(Duration::from_millis(19_900));
    assert_eq!((sim.received(client).len(), server.jobs_waiting()), (0, 1));
    sim.advance(Duration::from_millis(200));
    let got = sim.take_received(client);
    assert_eq!(statuses(&got), [503]);
    assert!(String::from_utf8_lossy(&got).contains("Retry-After: "));
    // The request behind it waits for a job of its own. The first job's result is not its answer, but puts the file in
    // memory.
    assert_eq!((sim.jobs_waiting(), server.jobs_waiting()), (2, 2));
    assert!(sim.run_job());
    assert_eq!((sim.received(client).len(), server.jobs_waiting()), (0, 1));
    assert!(sim.run_job());
    assert_eq!(
        answers(&sim.take_received(client)),
        [(200, b"small content".to_vec())]
    );
    sim.send(client, get("/small.bin").as_bytes());
    assert_eq!(statuses(sim.received(client)), [200]);
    assert_eq!((server.jobs_waiting(), server.totals().disk_timeouts), (0, 1));
    sim.advance(Duration::from_secs(2));
    assert!(lines.text().contains("503"), "{}", lines.text());
}

#[test]
fn more_than_may_wait_for_the_disk_are_refused_at_once() {
    let (mut sim, server, _) = sim(|config| {
        cold(config);
        config.max_disk_queue = 2;
        config.disk_timeout = Duration::from_secs(5);
    });
    sim.set_jobs(Jobs::AsLoop);
    let clients: Vec<Client> = (0..3).map(|_| sim.connect_local()).collect();
    for &client in &clients {
        sim.send(client, get("/small.bin").as_bytes());
    }
    assert_eq!(
        (sim.received(clients[0]).len(), sim.received(clients[1]).len()),
        (0, 0)
    );
    assert_eq!(statuses(&sim.take_received(clients[2])), [503]);
    // No request waits for the two jobs any more, but they have not ended.
    sim.advance(Duration::from_secs(6));
    assert_eq!(statuses(&sim.take_received(clients[0])), [503]);
    sim.send(clients[2], get("/big.bin").as_bytes());
    assert_eq!(statuses(&sim.take_received(clients[2])), [503]);
    assert_eq!((server.jobs_waiting(), server.totals().disk_refused), (2, 2));
    sim.run_jobs();
    assert_eq!(server.jobs_waiting(), 0);
    sim.send(clients[2], get("/big.bin").as_bytes());
    sim.run_jobs();
    assert_eq!(statuses(sim.received(clients[2])), [200]);
}
