//! Heidemann 1997, "Performance Interactions Between P-HTTP and TCP Implementations": its two traces segment for
//! segment, and its Table 1.
//!
//! The stack is `sunos-4.1.3` with the buffers and the slow start the paper says it was given. Times of the
//! hosts (think, write gap, connection set-up, read) and the phases of their beats are scripted; what is
//! tested is what TCP makes of them. Seen on the line, as from a third host.

use super::{Application, Conn, Happened, HostSetup, Limits, Logged, Vantage, Work, World};
use link::Profile;
use measure::{Bytes, Duration, Instant, Seed};
use std::cell::RefCell;
use std::rc::Rc;
use tcp::{Setup, Stack};

const FIG2: &str = include_str!("../../testdata/heidemann_fig2.csv");
const FIG4: &str = include_str!("../../testdata/heidemann_fig4.csv");

/// A reply's header.
const HEADER: usize = 226;
/// The server's standard-output buffer: what one write takes.
const BUFFER: usize = 4_096;

fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

fn ethernet() -> Profile {
    let text = "rate=10M half-duplex=yes framing=ethernet delay=20us mtu=1500";
    Profile::parse(text, &link::Limits::default(), &mut |_| Err(String::new())).expect("a profile")
}

fn sunos(phase: Duration, read_time: Duration) -> HostSetup {
    let mut stack = Stack::preset("sunos-4.1.3").expect("a preset");
    // "16 KB default window, slow start enabled on LAN" (section 2.1).
    stack.send_buffer = Bytes(16_384);
    stack.recv_buffer = Bytes(16_384);
    stack.slow_start_on_lan = true;
    HostSetup {
        tcp: Setup {
            phase,
            local: true,
            ..Setup::new(stack, 0)
        },
        read_time,
        read_max: 65_536,
        line_gain: 1.0,
    }
}

/// The server: waits for a request, thinks, writes headers and body in calls of at most [`BUFFER`].
struct Server {
    /// Body bytes of each reply in turn, beginning again after the last.
    bodies: Vec<usize>,
    served: usize,
    think: Duration,
    gap: Duration,
    /// Headers are flushed before the body is written.
    separate_headers: bool,
    no_delay: bool,
    persistent: bool,
}

impl Application for Server {
    fn handle(&mut self, happened: Happened, work: &mut Work, _now: Instant) {
        match happened {
            Happened::Opened(conn) => work.no_delay(conn, self.no_delay),
            Happened::Data(conn, _) => {
                let body = self.bodies[self.served % self.bodies.len()];
                self.served += 1;
                work.run(self.think);
                let mut left = body + HEADER;
                if self.separate_headers {
                    work.write(conn, vec![b'h'; HEADER]);
                    work.run(self.gap);
                    left = body;
                }
                while left > 0 {
                    let call = left.min(BUFFER);
                    left -= call;
                    work.write(conn, vec![b'b'; call]);
                    if left > 0 {
                        work.run(self.gap);
                    }
                }
                if !self.persistent {
                    work.shutdown(conn);
                }
            }
            Happened::Finished(conn) => work.close(conn),
            _ => {}
        }
    }
}

/// When the client sends its next request.
#[derive(Clone, Copy)]
enum Pace {
    /// This long after the reply before.
    Think(Duration),
    /// At this instant.
    At(Instant),
}

/// The client: asks for one document after the other, page after page.
struct Client {
    /// Request and reply sizes of a page.
    page: Vec<(usize, usize)>,
    connect_time: Duration,
    pace: Pace,
    pause: Duration,
    persistent: bool,
    pages_left: usize,
    next: usize,
    got: usize,
    conn: Option<Conn>,
    began: Instant,
    /// How long each page took.
    took: Rc<RefCell<Vec<Duration>>>,
}

impl Client {
    fn ask(&mut self, work: &mut Work) {
        let Some(conn) = self.conn else { return };
        work.write(conn, vec![b'r'; self.page[self.next].0]);
    }

    fn open(&mut self, work: &mut Work) {
        self.conn = Some(work.connect());
    }

    fn replied(&mut self, work: &mut Work, now: Instant) {
        self.got = 0;
        self.next += 1;
        if self.next == self.page.len() {
            self.took.borrow_mut().push(now.since(self.began));
            self.pages_left -= 1;
            self.next = 0;
            if let Some(conn) = self.conn.take() {
                work.close(conn);
            }
            if self.pages_left > 0 {
                work.timer(self.pause, 0);
            }
        } else if !self.persistent {
            if let Some(conn) = self.conn.take() {
                work.close(conn);
            }
            self.open(work);
        } else {
            match self.pace {
                Pace::Think(time) => {
                    work.run(time);
                    self.ask(work);
                }
                Pace::At(at) => work.timer(at.since(now), 1),
            }
        }
    }
}

impl Application for Client {
    fn handle(&mut self, happened: Happened, work: &mut Work, now: Instant) {
        match happened {
            Happened::Started | Happened::Timer(0) => {
                self.began = now;
                self.open(work);
            }
            Happened::Timer(_) => self.ask(work),
            Happened::Opened(_) => {
                work.run(self.connect_time);
                self.ask(work);
            }
            Happened::Data(conn, bytes) if Some(conn) == self.conn => {
                self.got += bytes.len();
                if self.got == self.page[self.next].1 {
                    self.replied(work, now);
                }
            }
            _ => {}
        }
    }
}

fn client(page: Vec<(usize, usize)>) -> Client {
    Client {
        page,
        connect_time: us(650),
        pace: Pace::Think(us(650)),
        pause: Duration::from_millis(5),
        persistent: true,
        pages_left: 1,
        next: 0,
        got: 0,
        conn: None,
        began: Instant::ZERO,
        took: Rc::default(),
    }
}

/// A segment as a row of a published trace.
#[derive(Debug, PartialEq)]
struct Row {
    from: String,
    flags: String,
    /// First and last position of the data, if there is any.
    seq: Option<(u32, u32)>,
    /// The position acknowledged, if any.
    ack: Option<u32>,
    window: u16,
}

/// The published rows with their times in milliseconds.
fn published(text: &str) -> Vec<(f64, Row)> {
    text.lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()))
        .map(|line| {
            let cell: Vec<&str> = line.split(',').collect();
            let seq = cell[4].parse().ok().zip(cell[5].parse().ok());
            let row = Row {
                from: cell[1].to_owned(),
                flags: cell[3].to_owned(),
                seq,
                ack: cell[7].parse().ok(),
                window: cell[8].parse().expect("a window"),
            };
            (cell[0].parse::<f64>().expect("a time") * 1e3, row)
        })
        .collect()
}

/// The simulated segments in the same form, positions relative to each side's SYN.
fn rows(seen: &[(Instant, &Logged)]) -> Vec<(f64, Row)> {
    let first = |direction| {
        let syn = seen
            .iter()
            .find(|(_, logged)| logged.direction == direction && logged.segment.flags.syn);
        syn.map_or(0, |(_, logged)| logged.segment.seq)
    };
    let starts = [first(link::Direction::Up), first(link::Direction::Down)];
    seen.iter()
        .map(|(at, logged)| {
            let side = logged.direction as usize;
            let segment = &logged.segment;
            let start = segment.seq.wrapping_sub(starts[side]);
            let len = segment.payload.len() as u32;
            let ack = segment.ack.wrapping_sub(starts[1 - side]);
            let row = Row {
                from: ["client", "server"][side].to_owned(),
                flags: segment.flags.to_string(),
                seq: (len > 0).then_some((start, start + len)),
                ack: (segment.flags.ack && !segment.flags.syn).then_some(ack),
                window: segment.window,
            };
            (at.as_nanos() as f64 / 1e6, row)
        })
        .collect()
}

/// Compares segment for segment; times may differ by `tolerance_ms` after both clocks start at the first row.
fn compare(simulated: &[(f64, Row)], published: &[(f64, Row)], tolerance_ms: f64) {
    let shown = |rows: &[(f64, Row)]| -> String {
        rows.iter()
            .map(|(at, row)| format!("{at:9.3} {row:?}\n"))
            .collect()
    };
    let all = format!("simulated\n{}published\n{}", shown(simulated), shown(published));
    assert!(simulated.len() >= published.len(), "{all}");
    let start = simulated[0].0 - published[0].0;
    for ((at, row), (want_at, want)) in simulated.iter().zip(published) {
        assert_eq!(row, want, "{all}");
        assert!((at - start - want_at).abs() < tolerance_ms, "{all}");
    }
}

#[test]
fn figure_2_the_short_initial_segment() {
    let script = client(vec![(52, HEADER + 6_651)]);
    let server = Server {
        bodies: vec![6_651],
        served: 0,
        think: us(1_600),
        gap: us(1_600),
        separate_headers: true,
        no_delay: false,
        persistent: true,
    };
    let mut world = World::new(
        &ethernet(),
        (sunos(us(189_100), us(300)), Box::new(script)),
        (sunos(us(100_000), us(300)), Box::new(server)),
        Seed(1),
        Limits::default(),
    );
    world.run(Instant::ZERO + Duration::from_secs(5));
    compare(&rows(&world.seen_from(Vantage::Line)), &published(FIG2), 1.5);
}

/// The trace begins with the second request of a connection. The server's pure ACK of that request, with the
/// request still in its buffer, is the server's beat falling between arrival and read: our reading, and with it
/// every segment is explained.
#[test]
fn figure_4_the_odd_and_short_final_segment() {
    let base = Instant::ZERO + Duration::from_secs(1);
    let mut script = client(vec![(52, 6_675), (58, HEADER + 3_883)]);
    script.pace = Pace::At(base + us(10_598));
    let server = Server {
        // "The first reply is 6,675 B" in this trace, headers included.
        bodies: vec![6_675 - HEADER, 3_883],
        served: 0,
        think: us(7_600),
        gap: us(1_600),
        separate_headers: false,
        no_delay: false,
        persistent: true,
    };
    let mut world = World::new(
        &ethernet(),
        (sunos(us(189_200), us(300)), Box::new(script)),
        (sunos(us(11_000), us(600)), Box::new(server)),
        Seed(1),
        Limits::default(),
    );
    world.run(base + Duration::from_secs(2));
    let simulated = rows(&world.seen_from(Vantage::Line));
    let request = simulated
        .iter()
        .position(|(_, row)| row.seq == Some((53, 111)))
        .expect("a second request");
    compare(&simulated[request..], &published(FIG4), 2.3);
}

/// Mean page time in milliseconds over 100 pages, in the manner of Table 1.
fn table_1(persistent: bool, separate_headers: bool, no_delay: bool, seed: u64) -> f64 {
    let documents = [6_651, 3_883, 1_866];
    let mut script = client(documents.iter().map(|body| (55, HEADER + body)).collect());
    // Fitted to the row "both fixes" and to plain HTTP together, used for all rows.
    script.connect_time = us(3_500);
    script.persistent = persistent;
    script.pages_left = 100;
    let took = Rc::clone(&script.took);
    let server = Server {
        bodies: documents.to_vec(),
        served: 0,
        think: us(2_200),
        gap: us(1_600),
        separate_headers,
        no_delay,
        persistent,
    };
    let phases = (us(seed * 37_000 % 200_000), us(seed * 91_000 % 200_000));
    let mut world = World::new(
        &ethernet(),
        (sunos(phases.0, us(300)), Box::new(script)),
        (sunos(phases.1, us(300)), Box::new(server)),
        Seed(seed),
        Limits::default(),
    );
    world.run(Instant::ZERO + Duration::from_secs(600));
    let took = took.borrow();
    assert_eq!(took.len(), 100);
    took.iter().map(Duration::as_secs_f64).sum::<f64>() * 1e3 / 100.0
}

#[test]
fn table_1_means() {
    let rows = [
        ("P-HTTP", (true, true, false), 605.0),
        ("P-HTTP, headers with the body", (true, false, false), 195.0),
        ("P-HTTP, and without Nagle", (true, false, true), 26.0),
    ];
    for (name, (persistent, separate, no_delay), published) in rows {
        let mean = table_1(persistent, separate, no_delay, 1);
        println!("{name}: {mean:.1} ms, published {published} ms");
        assert!(
            ((mean - published) / published).abs() < 0.05,
            "{name}: {mean:.1} ms"
        );
    }
    // Plain HTTP: headers leave with the body, for the flush that separates them is made for persistent
    // connections only (our reading: otherwise two more beats would pass), and the FIN pushes the tail out.
    // 43 ms published with a deviation of 40, which a few stalled pages explain and nothing here causes.
    let http = table_1(false, false, false, 1);
    println!("HTTP: {http:.1} ms, published 43 ms");
    assert!((30.0..45.0).contains(&http), "{http}");
}
