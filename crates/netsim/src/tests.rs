//! Worlds of two hosts, compared with closed formulas for a transfer; capture files that packet analyzers accept.

use super::{Application, Conn, Happened, HostSetup, Limits, Logged, Vantage, Work, World};
use link::{Direction, Profile};
use std::cell::RefCell;
use std::process::Command;
use std::rc::Rc;
use tcp::{AckRule, Closed, Setup, Stack};
use units::{Bytes, Duration, Instant, Seed};

/// Answers every read with this many bytes, and closes its half if told to.
struct Answer {
    bytes: usize,
    close: bool,
}

impl Application for Answer {
    fn handle(&mut self, happened: Happened, work: &mut Work, _now: Instant) {
        match happened {
            Happened::Data(conn, _) => {
                work.write(conn, vec![b'x'; self.bytes]);
                if self.close {
                    work.shutdown(conn);
                }
            }
            Happened::Finished(conn) => work.shutdown(conn),
            _ => {}
        }
    }
}

/// A client's observations: instant and size of each read, and how its connections ended.
#[derive(Default)]
struct Seen {
    reads: Vec<(Instant, usize)>,
    ends: Vec<Closed>,
}

/// Opens connections, sends one request on each, and records the replies.
struct Ask {
    connections: usize,
    seen: Rc<RefCell<Seen>>,
}

impl Application for Ask {
    fn handle(&mut self, happened: Happened, work: &mut Work, now: Instant) {
        match happened {
            Happened::Started => {
                for _ in 0..self.connections {
                    let _: Conn = work.connect();
                }
            }
            Happened::Opened(conn) => work.write(conn, b"?".to_vec()),
            Happened::Data(_, data) => self.seen.borrow_mut().reads.push((now, data.len())),
            Happened::Finished(conn) => work.close(conn),
            Happened::Closed(_, why) => self.seen.borrow_mut().ends.push(why),
            _ => {}
        }
    }
}

fn host(stack: Stack) -> HostSetup {
    HostSetup {
        tcp: Setup::new(stack, 0),
        read_time: Duration::ZERO,
        read_max: 1 << 20,
        line_gain: 1.0,
    }
}

fn stack(name: &str) -> Stack {
    Stack::preset(name).expect(name)
}

fn profile(text: &str) -> Profile {
    Profile::parse(text, &link::Limits::default(), &mut |_| Err(String::new())).expect(text)
}

/// One transfer of `bytes` over each of `connections`; runs for at most an hour.
fn fetch(
    link: &str,
    client: Stack,
    server: Stack,
    connections: usize,
    bytes: usize,
) -> (World, Rc<RefCell<Seen>>) {
    let seen = Rc::<RefCell<Seen>>::default();
    let ask = Ask {
        connections,
        seen: Rc::clone(&seen),
    };
    let mut world = World::new(
        &profile(link),
        (host(client), Box::new(ask)),
        (host(server), Box::new(Answer { bytes, close: true })),
        Seed(5),
        Limits::default(),
    );
    world.run(Instant::ZERO + Duration::from_secs(3_600));
    (world, seen)
}

fn seconds(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e9
}

/// A stack as the formulas assume: an initial window of two segments, an ACK per segment, windows that never limit.
fn ideal(mss: u16) -> Stack {
    let mut stack = stack("linux-6");
    stack.initial_cwnd_segments = 2;
    stack.ack_rule = AckRule::Segments;
    stack.delayed_ack = Duration::from_nanos(1);
    stack.send_buffer = Bytes(2 << 20);
    stack.recv_buffer = Bytes(65_535);
    stack.mss = mss;
    // The formulas assume no TCP options.
    stack.timestamps = false;
    stack
}

/// The index of deadlines agrees with asking every connection, at every event of a world that loses segments.
#[test]
fn the_index_of_deadlines_never_falls_behind() {
    for (client, server) in [("linux-6", "linux-6"), ("solaris-2.5", "linux-2.0")] {
        let seen = Rc::<RefCell<Seen>>::default();
        let ask = Ask {
            connections: 40,
            seen: Rc::clone(&seen),
        };
        let answer = Answer {
            bytes: 20_000,
            close: true,
        };
        let mut world = World::new(
            &profile("rate=2M rtt=40ms loss=3% mtu=1500 queue=60p"),
            (host(stack(client)), Box::new(ask)),
            (host(stack(server)), Box::new(answer)),
            Seed(11),
            Limits::default(),
        );
        let mut events = 0;
        loop {
            world.settle();
            for host in &world.hosts {
                assert_eq!(
                    *host.open.index(),
                    host.open.deadlines(),
                    "event {events}, seed 11"
                );
            }
            let Some(next) = world.next_event() else { break };
            world.now = world.now.max(next);
            events += 1;
        }
        let bytes: usize = seen.borrow().reads.iter().map(|(_, n)| n).sum();
        assert_eq!((bytes, world.hosts[0].open()), (40 * 20_000, 0), "seed 11");
        assert!(events > 1_000, "{events}");
    }
}

/// Ten thousand connections at once. Scanning all of them for every event would take minutes.
#[test]
fn ten_thousand_connections_end_in_the_time_a_test_has() {
    let (world, seen) = fetch(
        "rate=1G rtt=20ms mtu=1500 queue=100000p",
        stack("linux-6"),
        stack("linux-6"),
        10_000,
        1_000,
    );
    let seen = seen.borrow();
    assert_eq!(seen.reads.iter().map(|(_, n)| n).sum::<usize>(), 10_000 * 1_000);
    assert_eq!((world.hosts[0].open(), world.hosts[1].open()), (0, 0));
    // Ten megabytes with headers, at one gigabit per second, after two round trips.
    let last = seen.reads.iter().map(|(at, _)| seconds(*at)).fold(0.0, f64::max);
    assert!((0.1..0.2).contains(&last), "{last}");
}

/// T = 2R + Tf + R S, with S = floor(log2(ceil(M / 2))) and M = min(L, K) (document 004, section 2.1), for its lines
/// and its two files. The document omits headers; here they are included in Tf.
#[test]
fn a_transfer_takes_the_time_of_document_004() {
    let rtt = 0.1;
    for (name, rate) in [("T1", 1.544e6), ("E1", 2.048e6), ("T3", 44.736e6)] {
        for bytes in [6_000_usize, 1_048_576] {
            let mss = 512.0;
            let k = (bytes as f64 / mss).ceil();
            let l = rate * rtt / (8.0 * mss);
            let m = l.min(k);
            let rounds = if m <= 2.0 {
                0.0
            } else {
                (m / 2.0).ceil().log2().floor()
            };
            let tf = (bytes as f64 + 40.0 * k) * 8.0 / rate;
            let want = 2.0 * rtt + tf + rtt * rounds;
            let link = format!("rate={}k rtt=100ms mtu=1500 queue=10000p", rate / 1e3);
            let (_, seen) = fetch(&link, ideal(512), ideal(512), 1, bytes);
            let seen = seen.borrow();
            assert_eq!(seen.reads.iter().map(|(_, n)| n).sum::<usize>(), bytes);
            let took = seconds(seen.reads.last().expect("reads").0);
            println!("{name} {bytes} B: {took:.4} s, formula {want:.4} s");
            // The formula counts whole rounds, which overlap with sending: an upper bound within one round. On T3, the
            // unscaled window of 65,535 bytes limits the transfer; the formula does not model that.
            if name == "T3" && bytes > 6_000 {
                assert!(took > want, "{name} {bytes}: {took} {want}");
                continue;
            }
            assert!(took < want * 1.02, "{name} {bytes}: {took} {want}");
            assert!(took > want - rtt, "{name} {bytes}: {took} {want}");
        }
    }
}

#[test]
fn throughput_is_the_lines_or_the_windows_whichever_is_less() {
    let goodput = |link: &str, window: u64| {
        let mut client = stack("4.4bsd");
        let mut server = stack("4.4bsd");
        client.recv_buffer = Bytes(window);
        server.send_buffer = Bytes(window);
        let (_, seen) = fetch(link, client, server, 1, 2 << 20);
        let seen = seen.borrow();
        let half = seen.reads.len() / 2;
        let bytes: usize = seen.reads[half + 1..].iter().map(|(_, n)| n).sum();
        let (from, to) = (seen.reads[half].0, seen.reads[seen.reads.len() - 1].0);
        bytes as f64 * 8.0 / (seconds(to) - seconds(from))
    };
    let line = goodput("rate=1.5M rtt=90ms queue=1000p mtu=1500", 60_000);
    let share = line / (1.5e6 * 1_460.0 / 1_500.0);
    assert!((0.98..1.001).contains(&share), "{share}");
    let window = goodput("rate=100M rtt=90ms queue=1000p mtu=1500", 8_760);
    let share = window / (8_760.0 * 8.0 / 0.0905);
    assert!((0.95..1.03).contains(&share), "{share}");
}

#[test]
fn loss_delays_and_nothing_is_missing() {
    for name in tcp::PRESETS {
        let link = "rate=2M rtt=40ms loss=3% queue=20p mtu=1500";
        let (world, seen) = fetch(link, stack(name), stack(name), 4, 100_000);
        let seen = seen.borrow();
        assert_eq!(
            seen.reads.iter().map(|(_, n)| n).sum::<usize>(),
            400_000,
            "{name}"
        );
        assert_eq!(seen.ends, [Closed::Orderly; 4], "{name}");
        assert!(
            world.log().iter().any(|logged| logged.arrived.is_none()),
            "{name}"
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let run = || {
        let (world, _) = fetch(
            "mobile loss=1% jitter=3ms",
            stack("linux-6"),
            stack("4.4bsd"),
            3,
            50_000,
        );
        world.pcapng(Vantage::Client, Duration::ZERO)
    };
    let (one, two) = (run(), run());
    assert!(one.len() > 150_000);
    assert!(one == two, "two runs from one seed differ");
}

#[test]
fn connections_beyond_the_bound_are_not_answered() {
    let seen = Rc::<RefCell<Seen>>::default();
    let ask = Ask {
        connections: 3,
        seen: Rc::clone(&seen),
    };
    let limits = Limits {
        connections_max: 2,
        log_max: 10,
        ..Limits::default()
    };
    let answer = Answer {
        bytes: 10,
        close: false,
    };
    let mut world = World::new(
        &profile("delay=1ms"),
        (host(stack("4.4bsd")), Box::new(ask)),
        (host(stack("4.4bsd")), Box::new(answer)),
        Seed(1),
        limits,
    );
    world.run(Instant::ZERO + Duration::from_secs(5));
    assert_eq!(seen.borrow().reads.len(), 2);
    assert_eq!(world.log().len(), 10);
}

/// Runs a tool on a capture and returns its output; if the tool is missing, prints a note and returns `None`.
fn tool(name: &str, arguments: &[&str], capture: &[u8]) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("simulated.pcapng");
    std::fs::write(&file, capture).expect("a file");
    match Command::new(name).arg("-r").arg(&file).args(arguments).output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{name}: {said}");
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Err(error) => {
            println!("skipped: {name}: {error}");
            None
        }
    }
}

#[test]
fn analyzers_accept_the_capture_and_every_checksum_in_it() {
    let link = "wan loss=2%";
    let (world, _) = fetch(link, stack("windows-nt-4.0"), stack("solaris-2.5"), 2, 60_001);
    let capture = world.pcapng(Vantage::Client, Duration::from_secs(867_000_000));
    let segments = world.seen_from(Vantage::Client).len();
    let fields = [
        "-o",
        "tcp.check_checksum:TRUE",
        "-o",
        "ip.check_checksum:TRUE",
        "-T",
        "fields",
        "-e",
        "tcp.checksum.status",
        "-e",
        "ip.checksum.status",
        "-e",
        "_ws.malformed",
    ];
    if let Some(said) = tool("tshark", &fields, &capture) {
        let lines: Vec<&str> = said.lines().map(str::trim_end).collect();
        assert_eq!(lines.len(), segments);
        assert!(lines.iter().all(|line| *line == "1\t1"), "{said}");
    }
    if let Some(said) = tool("tcpdump", &["-nvv"], &capture) {
        assert_eq!(said.matches("(correct)").count(), segments, "{said}");
    }
    // At the client, a capture shows the down segments that arrived and the up segments that were sent.
    let down = world
        .log()
        .iter()
        .filter(|logged| logged.direction == Direction::Down);
    assert!(down.clone().count() > down.filter(|logged| logged.arrived.is_some()).count());
}

/// Ten segments at once fill a modem's line for four seconds, longer than a first RTO. Today's stack recognizes that
/// nothing is lost and retransmits next to nothing (RFC 7323, RFC 3522, RFC 5682); without that, it would go back.
#[test]
fn a_modem_is_no_loss_to_todays_stack() {
    let again = |change: fn(&mut Stack)| {
        let mut today = stack("linux-6");
        change(&mut today);
        let (world, seen) = fetch("ppp", today.clone(), today, 1, 60_000);
        let bytes: usize = seen.borrow().reads.iter().map(|(_, n)| n).sum();
        assert_eq!(bytes, 60_000);
        let data =
            |logged: &&Logged| !logged.segment.payload.is_empty() && logged.direction == Direction::Down;
        let sent: usize = world
            .log()
            .iter()
            .filter(data)
            .map(|logged| logged.segment.payload.len())
            .sum();
        sent - bytes
    };
    let back = again(|stack| stack.spurious_timeouts = tcp::SpuriousTimeouts::GoBack);
    let stamped = again(|_| ());
    let unstamped = again(|stack| stack.timestamps = false);
    println!("bytes sent again: {back}, undone {stamped}, without stamps {unstamped}");
    assert!(
        stamped <= 2 * 1_448 && unstamped < back / 2,
        "{stamped} {unstamped} {back}"
    );
    assert!(back > 4 * 1_448, "{back}");
}
