//! W3C NOTE-pipelining-970624, Tables 4 to 9, simulated: what of them the period's TCP explains.
//!
//! The published figures are recalled and unverified, and the assumptions (below, each with its tag) were
//! fitted to them as one set by an earlier model: agreement here is in-sample and no evidence. What the test holds is that
//! this simulator reproduces what that model did, row by row, and the direction of the NOTE's claims.
//!
//! Not modeled: Jigsaw's pure ACK of each serial request (unexplained), compression in the modem, the
//! cache's files. Tags: [S] from the NOTE, [F] fitted, [A] assumed.

use super::{Application, Conn, Happened, HostSetup, Limits, Vantage, Work, World};
use link::{Direction, Profile};
use measure::{Bytes, Draw, Duration, Instant, Seed};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use tcp::{Setup, Stack};

const TABLES: &str = include_str!("../../testdata/w3c_tables_4_to_9.csv");

/// [S] 42 KB of HTML, its exact size [A]; deflated [S] 11 KB.
const PAGE: usize = 43_008;
const PAGE_DEFLATED: usize = 11_264;
/// The first 15 from a public copy of the page, the others made up to meet every published count and sum.
const IMAGES: [usize; 42] = [
    1403, 788, 157, 165, 151, 128, 682, 156, 44, 70, 40, 69, 62, 1664, 1698, 350, 420, 510, 640, 760, 1300,
    1500, 2400, 2450, 2500, 2591, 480, 920, 1250, 1750, 2300, 2800, 3200, 3500, 3800, 4200, 4600, 5100, 5741,
    40960, 13500, 11488,
];
/// [S] The client's output buffer and its timer; [A] the server's buffer.
const CLIENT_BUFFER: usize = 1_024;
const CLIENT_FLUSH: Duration = Duration::from_millis(50);
const SERVER_BUFFER: usize = 4_096;
/// The timer token of the flush; others are the ends of waits that are not used.
const FLUSH: u64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Four connections, a request each.
    Http10,
    Serial,
    Pipelined,
    Deflated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Net {
    Lan,
    Wan,
    Ppp,
}

/// A row of the tables.
#[derive(Clone, Copy, Debug)]
struct Case {
    jigsaw: bool,
    net: Net,
    mode: Mode,
    first: bool,
}

impl Case {
    /// [F] Request sizes; [S] 190 on average.
    fn request(self) -> usize {
        let size = match (self.first, self.jigsaw) {
            (true, _) => 190,
            (false, true) => 250,
            (false, false) => 206,
        };
        size - if self.net == Net::Ppp { 4 } else { 0 }
    }

    /// [F] Reply headers.
    fn header(self) -> usize {
        if self.mode == Mode::Http10 {
            return if self.jigsaw { 231 } else { 219 };
        }
        match (self.first, self.jigsaw) {
            (true, true) => 288 - if self.net == Net::Ppp { 23 } else { 0 },
            (true, false) => 222 - if self.net == Net::Ppp { 23 } else { 0 },
            (false, true) => 161,
            (false, false) => 120,
        }
    }

    /// Bytes of the reply to request `index`: 0 is the page.
    fn reply(self, index: usize, images: &[usize]) -> usize {
        let body = match index {
            // HTTP/1.0 revalidates with a GET of the page and HEADs of the images [S].
            0 if !self.first && self.mode != Mode::Http10 => 0,
            0 if self.mode == Mode::Deflated => PAGE_DEFLATED,
            0 => PAGE,
            _ if !self.first => 0,
            _ => images[index - 1],
        };
        self.header() + body
    }
}

/// Serves requests one after the other on its one processor, whatever connection they came on.
struct Server {
    case: Case,
    images: Vec<usize>,
    /// Requests read and not served.
    waiting: VecDeque<(Conn, usize)>,
    serving: bool,
    /// Bytes of an incomplete request, and of unwritten output, of each connection.
    partial: BTreeMap<Conn, Vec<u8>>,
    buffered: BTreeMap<Conn, usize>,
}

impl Server {
    fn serve(&mut self, work: &mut Work) {
        self.serving = !self.waiting.is_empty();
        if self.serving {
            // [F] Service times: interpreted Java, and Apache; a process more for each HTTP/1.0 connection.
            let ms = if self.case.jigsaw { 13 } else { 3 } + u64::from(self.case.mode == Mode::Http10);
            work.run(Duration::from_millis(ms));
            work.mark(0);
        }
    }
}

impl Application for Server {
    fn handle(&mut self, happened: Happened, work: &mut Work, _now: Instant) {
        match happened {
            Happened::Opened(conn) => work.no_delay(conn, true),
            Happened::Data(conn, data) => {
                let partial = self.partial.entry(conn).or_default();
                partial.extend(data);
                let size = self.case.request();
                while partial.len() >= size {
                    self.waiting.push_back((conn, usize::from(partial[0])));
                    partial.drain(..size);
                }
                if !self.serving {
                    self.serve(work);
                }
            }
            Happened::Reached(_) => {
                let Some((conn, index)) = self.waiting.pop_front() else {
                    return;
                };
                let buffered = self.buffered.entry(conn).or_default();
                *buffered += self.case.reply(index, &self.images);
                while *buffered >= SERVER_BUFFER {
                    work.write(conn, vec![0; SERVER_BUFFER]);
                    *buffered -= SERVER_BUFFER;
                }
                let more = self.waiting.iter().any(|(other, _)| *other == conn);
                let rest = vec![0; *buffered];
                if self.case.mode == Mode::Http10 {
                    // [F] The FIN is on the last data.
                    work.finish(conn, rest);
                    *buffered = 0;
                } else if !more && !rest.is_empty() {
                    work.write(conn, rest);
                    *buffered = 0;
                }
                self.serve(work);
            }
            Happened::Finished(conn) => work.close(conn),
            _ => {}
        }
    }
}

/// The robot.
struct Robot {
    case: Case,
    images: Vec<usize>,
    /// Requests asked for and not answered, by connection, and bytes of the first answer so far.
    asked: BTreeMap<Conn, (VecDeque<usize>, usize)>,
    /// Found in the page and not yet asked for.
    found: VecDeque<usize>,
    /// How many references have been found.
    seen: usize,
    /// Requests in the output buffer.
    buffer: Vec<u8>,
    conn: Option<Conn>,
    /// HTTP/1.0 connections being opened, with what for.
    opening: BTreeMap<Conn, usize>,
    answered: usize,
    /// How many answers there will be.
    wanted: usize,
    done: Rc<Cell<Option<Instant>>>,
}

impl Robot {
    fn request(&self, index: usize) -> Vec<u8> {
        vec![index as u8; self.case.request()]
    }

    /// What is found becomes requests, as the mode has it.
    fn go_on(&mut self, work: &mut Work) {
        match self.case.mode {
            Mode::Http10 => {
                while self.asked.len() + self.opening.len() < 4
                    && let Some(index) = self.found.pop_front()
                {
                    // [F] 1 ms a connect, 2 ms an open.
                    work.run(Duration::from_millis(3));
                    let conn = work.connect();
                    self.opening.insert(conn, index);
                }
            }
            Mode::Serial => {
                let Some(conn) = self.conn else { return };
                let asked = self.asked.entry(conn).or_default();
                if asked.0.is_empty()
                    && let Some(index) = self.found.pop_front()
                {
                    asked.0.push_back(index);
                    work.run(Duration::from_micros(500));
                    work.write(conn, vec![index as u8; self.case.request()]);
                }
            }
            Mode::Pipelined | Mode::Deflated => {
                let Some(conn) = self.conn else { return };
                while let Some(index) = self.found.pop_front() {
                    self.asked.entry(conn).or_default().0.push_back(index);
                    work.run(Duration::from_micros(500));
                    if self.buffer.is_empty() {
                        work.timer(CLIENT_FLUSH, FLUSH);
                    }
                    self.buffer.extend(self.request(index));
                    if self.buffer.len() >= CLIENT_BUFFER || index == 0 {
                        work.write(conn, std::mem::take(&mut self.buffer));
                    }
                }
            }
        }
    }

    /// `bytes` of the page are here: the references in them are found.
    fn parse(&mut self, bytes: usize) {
        let page = self.case.reply(0, &self.images) - self.case.header();
        let body = bytes.saturating_sub(self.case.header());
        let upto = if page == 0 || body >= page {
            // Not modified: the page is in the cache and all of it is known.
            if bytes >= self.case.header() { 42 } else { 0 }
        } else {
            body * 42 / page
        };
        while self.seen < upto.min(self.wanted - 1) {
            self.seen += 1;
            self.found.push_back(self.seen);
        }
    }
}

impl Application for Robot {
    fn handle(&mut self, happened: Happened, work: &mut Work, now: Instant) {
        match happened {
            Happened::Started => {
                work.run(Duration::from_millis(1));
                let conn = work.connect();
                if self.case.mode == Mode::Http10 {
                    self.opening.insert(conn, 0);
                } else {
                    self.conn = Some(conn);
                    work.no_delay(conn, true);
                }
            }
            Happened::Opened(conn) => {
                if let Some(index) = self.opening.remove(&conn) {
                    self.asked.insert(conn, (VecDeque::from([index]), 0));
                    work.run(Duration::from_micros(500));
                    let request = self.request(index);
                    work.write(conn, request);
                } else {
                    self.found.push_back(0);
                    self.go_on(work);
                }
            }
            Happened::Timer(FLUSH) => {
                if let Some(conn) = self.conn
                    && !self.buffer.is_empty()
                {
                    work.write(conn, std::mem::take(&mut self.buffer));
                }
            }
            Happened::Data(conn, data) => {
                // [F] 0.8 us a byte.
                work.run(Duration::from_nanos(800 * data.len() as u64));
                let mut left = data.len();
                while left > 0 {
                    let Some((queue, got)) = self.asked.get_mut(&conn) else {
                        return;
                    };
                    let Some(&index) = queue.front() else { return };
                    let size = self.case.reply(index, &self.images);
                    let part = left.min(size - *got);
                    *got += part;
                    left -= part;
                    let have = *got;
                    if have == size {
                        queue.pop_front();
                        *got = 0;
                        self.answered += 1;
                        // [F] 3 ms a reply.
                        work.run(Duration::from_millis(3));
                    }
                    if index == 0 {
                        self.parse(have);
                    }
                    if self.answered == self.wanted {
                        self.done.set(Some(now));
                        if let Some(conn) = self.conn {
                            work.close(conn);
                        }
                    }
                }
                self.go_on(work);
            }
            Happened::Finished(conn) => {
                work.close(conn);
                self.asked.remove(&conn);
                self.go_on(work);
            }
            _ => {}
        }
    }
}

/// Packets, payload bytes, seconds.
type Figures = [f64; 3];

fn simulate(case: Case, seed: Seed) -> Figures {
    simulate_part(case, seed, 43, 1.0)
}

/// The first `wanted` objects of the page, behind a modem that compresses by `gain`.
fn simulate_part(case: Case, seed: Seed, wanted: usize, gain: f64) -> Figures {
    let mut rng = seed.rng();
    let mut images = IMAGES.to_vec();
    for k in (1..images.len()).rev() {
        images.swap(k, (rng.next_u64() % (k as u64 + 1)) as usize);
    }
    let link = match case.net {
        Net::Lan => "rate=10M half-duplex=yes framing=ethernet delay=0.25ms mtu=1500", // [S], [A]
        Net::Wan => "rate=1.5M delay=44.5ms mtu=1500",                                 // [F]
        Net::Ppp => "rate=26.4k delay=65ms framing=ppp mtu=1500",                      // [F]
    };
    let profile = Profile::parse(link, &link::Limits::default(), &mut |_| Err(String::new())).expect(link);
    let preset = |name: &str| Stack::preset(name).expect(name);
    let mut client = preset(if case.net == Net::Ppp {
        "windows-nt-4.0"
    } else {
        "digital-unix-4.0"
    });
    let mut server = preset("solaris-2.5");
    let network = ["lan", "wan", "ppp"][case.net as usize];
    server.rto_fixed = Stack::rto_effective("solaris-2.5", network);
    server.send_buffer = Stack::send_buffer_effective("solaris-2.5").unwrap_or(Bytes(8_192));
    if case.net == Net::Ppp {
        // [F] The PPP rows contain no retransmission, of neither side.
        client.rto_fixed = server.rto_fixed;
    }
    let mut host = |stack: Stack, read_us| HostSetup {
        tcp: Setup {
            phase: Duration::from_micros(rng.next_u64() % 200_000),
            no_delay: true,
            ..Setup::new(stack, 0)
        },
        read_time: Duration::from_micros(read_us),
        read_max: 32_768,
        line_gain: gain,
    };
    let done = Rc::new(Cell::new(None));
    let robot = Robot {
        case,
        images: images.clone(),
        asked: BTreeMap::new(),
        found: VecDeque::new(),
        seen: 0,
        buffer: Vec::new(),
        conn: None,
        opening: BTreeMap::new(),
        answered: 0,
        wanted,
        done: Rc::clone(&done),
    };
    let apache = Server {
        case,
        images,
        waiting: VecDeque::new(),
        serving: false,
        partial: BTreeMap::new(),
        buffered: BTreeMap::new(),
    };
    let mut world = World::new(
        &profile,
        // [F] 1.5 ms a read.
        (host(client, 1_500), Box::new(robot)),
        (host(server, 0), Box::new(apache)),
        seed,
        Limits::default(),
    );
    world.run(Instant::ZERO + Duration::from_secs(300));
    let done = done.get().unwrap_or_else(|| panic!("{case:?} did not finish"));
    let seen = world.seen_from(Vantage::Client);
    // [F] Teardown is counted on LAN and WAN, not on PPP.
    let counted = seen.iter().filter(|(at, logged)| {
        case.net != Net::Ppp
            || (*at <= done || (logged.direction == Direction::Down && !logged.segment.payload.is_empty()))
    });
    let (mut packets, mut bytes) = (0, 0);
    for (_, logged) in counted {
        packets += 1;
        bytes += logged.segment.payload.len();
    }
    [f64::from(packets), bytes as f64, done.as_nanos() as f64 / 1e9]
}

fn mean(case: Case) -> Figures {
    let mut sum = [0.0; 3];
    for seed in 1..=5 {
        for (sum, value) in sum.iter_mut().zip(simulate(case, Seed(seed))) {
            *sum += value / 5.0;
        }
    }
    sum
}

#[test]
fn tables_4_to_9() {
    let mut within = [0; 3];
    let mut rows = 0;
    let mut all: BTreeMap<String, Figures> = BTreeMap::new();
    for line in TABLES.lines().filter(|line| !line.starts_with('#')) {
        let cell: Vec<&str> = line.split(',').collect();
        let case = Case {
            jigsaw: cell[1] == "Jigsaw",
            net: match cell[2] {
                "LAN" => Net::Lan,
                "WAN" => Net::Wan,
                _ => Net::Ppp,
            },
            mode: match cell[3] {
                "HTTP/1.0" => Mode::Http10,
                "HTTP/1.1" => Mode::Serial,
                "HTTP/1.1-pipelined" => Mode::Pipelined,
                _ => Mode::Deflated,
            },
            first: cell[4] == "first_time",
        };
        let got = mean(case);
        let mut shown = format!("{:60}", cell[..5].join(" "));
        for (k, tolerance) in [0.1, 0.1, 0.2].into_iter().enumerate() {
            let want: f64 = cell[5 + k].parse().expect("a number");
            let good = ((got[k] - want) / want).abs() <= tolerance;
            within[k] += usize::from(good);
            shown += &format!(" {:>9.2} / {want:<9}{}", got[k], if good { ' ' } else { '!' });
        }
        println!("{shown}");
        rows += 1;
        all.insert(cell[1..5].join(" "), got);
    }
    println!("within 10 % packets, 10 % bytes, 20 % seconds: {within:?} of {rows}");
    assert_eq!(rows, 44);
    // What is outside is not explained: Jigsaw's extra ACKs, the WAN's second retransmissions, LAN caches. Fewer
    // rows inside than this is a change of behavior to look at, more is no reason to tune.
    assert!(
        within[0] >= 35 && within[1] >= 41 && within[2] >= 41,
        "{within:?}"
    );
    // The NOTE's claims, in the simulation.
    for server in ["Jigsaw", "Apache"] {
        for net in ["LAN", "WAN"] {
            let row = |mode: &str, test: &str| all[&format!("{server} {net} {mode} {test}")];
            for test in ["first_time", "cache_validation"] {
                let (old, new) = (row("HTTP/1.0", test), row("HTTP/1.1-pipelined", test));
                assert!(old[0] >= 2.0 * new[0], "fewer packets: {server} {net} {test}");
                assert!(new[2] < old[2], "and faster: {server} {net} {test}");
            }
            let serial = row("HTTP/1.1", "cache_validation");
            let pipelined = row("HTTP/1.1-pipelined", "cache_validation");
            assert!(
                serial[0] > 2.5 * pipelined[0],
                "a third of the packets: {server} {net}"
            );
        }
    }
}

/// The page alone over the modem, plain and deflated: 67 packets and 12.2 s against 21 and 4.4 s (recovered from a
/// public copy). The compression of 1.2 for plain HTML is [F], fitted to the first; nothing compresses twice.
#[test]
fn the_page_alone_over_the_modem() {
    let figures = |mode, gain| {
        let case = Case {
            jigsaw: false,
            net: Net::Ppp,
            mode,
            first: true,
        };
        simulate_part(case, Seed(1), 1, gain)
    };
    let plain = figures(Mode::Pipelined, 1.2);
    let deflated = figures(Mode::Deflated, 1.0);
    println!("plain {plain:?}, deflated {deflated:?}");
    for (got, packets, seconds) in [(plain, 67.0, 12.2), (deflated, 21.0, 4.4)] {
        assert!((got[0] / packets - 1.0).abs() < 0.1, "{got:?}");
        assert!((got[2] / seconds - 1.0).abs() < 0.1, "{got:?}");
    }
}
