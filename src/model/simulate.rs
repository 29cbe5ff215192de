//! Users of one line, simulated packet by packet: real TCP endpoints over an emulated link in virtual time. Decides
//! how users and server behave; the stack implements TCP, the link its queues.
//!
//! ```text
//!             start / think over        connected              last byte
//!   [thinking] -------------> [connecting] -------> [waiting] ----------> [thinking] or done
//! ```
//!
//! A user opens a connection per request, as in HTTP/1.0; the server closes it after the response.

use crate::failure::Failure;
use ::model::tcp::{Sender, Timeout};
use ::model::{Seconds, Sizes};
use link::Profile;
use netsim::{Application, Conn, Happened, HostSetup, Limits, Logged, Work, World};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tcp::{AckRule, AckTimer, PRESETS, Setup, Stack};
use units::{Bytes, Duration, Instant, Rate, Rng, Seed};

/// The parameters of a simulation.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    /// Bandwidth of the line in each direction.
    pub(super) rate: Rate,
    /// Round-trip time of the empty line.
    pub(super) rtt: Seconds,
    /// Whether both hosts are on one network, where some stacks skip slow start.
    pub(super) local: bool,
    pub(super) client: Stack,
    pub(super) server: Stack,
    pub(super) users: usize,
    /// Bytes of a response, header section included.
    pub(super) page: Bytes,
    /// Processor time of a response; the server has one processor.
    pub(super) server_time: Seconds,
    /// Random seed.
    pub(super) seed: Seed,
}

/// Bytes of a request: a short GET.
const REQUEST: usize = 64;

/// The TCP stack of this name.
pub(super) fn stack(name: &str) -> Result<Stack, Failure> {
    let mut stack = Stack::preset(name).ok_or_else(|| {
        Failure::Usage(format!(
            "`{name}` is not a TCP stack; write one of {}",
            PRESETS.join(", ")
        ))
    })?;
    if name == "linux-6" {
        // Modern buffers grow with the connection; the preset has their initial size.
        stack.send_buffer = Bytes(65_535);
        stack.recv_buffer = Bytes(65_535);
    }
    Ok(stack)
}

/// The formulas' sender, from the parameters of the simulated stacks.
pub(super) fn sender(client: &Stack, server: &Stack) -> Sender {
    let opened = u32::from(server.handshake_ack_opens_cwnd);
    let initial = f64::from(server.initial_cwnd_segments + opened);
    // Timestamps reduce the data of a segment.
    let stamps = if server.timestamps && client.timestamps {
        12
    } else {
        0
    };
    let mss = Bytes(u64::from(server.mss.min(client.mss) - stamps));
    let wait = client.delayed_ack.as_secs_f64();
    let first_ack_delay = match (client.ack_rule, client.ack_timer) {
        // The first segments are acknowledged at once.
        (AckRule::QuickThenBytes, _) => 0.0,
        // A heartbeat timer fires after half its period on average.
        (_, AckTimer::Heartbeat) => wait / 2.0,
        (_, AckTimer::PerSegment) => wait,
    };
    let counts_bytes = client.ack_rule == AckRule::QuickThenBytes;
    let growth = if counts_bytes { 2.0 } else { 1.5 };
    Sender {
        header: Bytes(40 + u64::from(stamps)),
        growth,
        segments_per_ack: 2.0,
        rounds_per_increase: if counts_bytes { 1.0 } else { 2.0 },
        window_max: Some(server.send_buffer.0.min(client.recv_buffer.0) as f64 / mss.0 as f64),
        first_ack_delay: Seconds(first_ack_delay),
        timeout: Timeout::AtLeast(Seconds(server.rto_min.as_secs_f64())),
        syn_timeout: Seconds(client.rto_initial.as_secs_f64()),
        ..Sender::document(mss).with_initial_window(initial)
    }
}

/// Time on the wire before a transfer: SYN and SYN-ACK with an MSS option (RFC 9293, section 3.7.1), the ACK of the
/// handshake, and the request.
pub(super) fn opening(sender: &Sender, rate: Rate) -> Seconds {
    const MSS_OPTION: u64 = 4;
    let bytes = 4 * sender.header.0 + 2 * MSS_OPTION + REQUEST as u64;
    Seconds(rate.seconds_for(Bytes(bytes)))
}

/// Times of one response: of its request and of its last byte.
#[derive(Clone, Copy, Debug)]
struct Served {
    asked: Instant,
    done: Instant,
}

/// The record of all users.
#[derive(Debug, Default)]
struct Record {
    served: Vec<Served>,
    /// Connections that ended before the end of the response.
    broken: u64,
}

/// The users of one host.
struct Users {
    page: u64,
    /// Think time; `None` if each user asks once, at the start.
    think: Option<(Sizes, Rng)>,
    users: usize,
    /// By connection: user, start, and bytes so far.
    open: BTreeMap<Conn, (usize, Instant, u64)>,
    record: Rc<RefCell<Record>>,
}

impl Users {
    fn ask(&mut self, user: usize, work: &mut Work, now: Instant) {
        let conn = work.connect();
        self.open.insert(conn, (user, now, 0));
    }

    fn think(&mut self, user: usize, work: &mut Work) {
        if let Some((think, rng)) = &mut self.think {
            work.timer(Duration::from_secs_f64(think.draw(rng)), user as u64);
        }
    }
}

impl Application for Users {
    fn handle(&mut self, happened: Happened, work: &mut Work, now: Instant) {
        match happened {
            Happened::Started => {
                for user in 0..self.users {
                    if self.think.is_some() {
                        self.think(user, work);
                    } else {
                        self.ask(user, work, now);
                    }
                }
            }
            Happened::Timer(user) => self.ask(user as usize, work, now),
            Happened::Opened(conn) => work.write(conn, vec![b'r'; REQUEST]),
            Happened::Data(conn, bytes) => {
                let Some((user, asked, got)) = self.open.get_mut(&conn) else {
                    return;
                };
                *got += bytes.len() as u64;
                if *got >= self.page {
                    let (user, asked) = (*user, *asked);
                    self.open.remove(&conn);
                    self.record.borrow_mut().served.push(Served { asked, done: now });
                    work.close(conn);
                    self.think(user, work);
                }
            }
            Happened::Closed(conn, _) => {
                if let Some((user, ..)) = self.open.remove(&conn) {
                    self.record.borrow_mut().broken += 1;
                    self.think(user, work);
                }
            }
            _ => {}
        }
    }
}

/// The server of these users.
struct Server {
    page: usize,
    time: Duration,
    asked: BTreeMap<Conn, usize>,
}

impl Application for Server {
    fn handle(&mut self, happened: Happened, work: &mut Work, _now: Instant) {
        match happened {
            Happened::Data(conn, bytes) => {
                let got = self.asked.entry(conn).or_default();
                *got += bytes.len();
                if *got == REQUEST {
                    work.run(self.time);
                    work.finish(conn, vec![b'b'; self.page]);
                }
            }
            Happened::Finished(conn) => work.close(conn),
            Happened::Closed(conn, _) => {
                self.asked.remove(&conn);
            }
            _ => {}
        }
    }
}

/// The measurements of a simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Simulated {
    /// Number of responses counted.
    pub(super) answers: u64,
    /// Mean time from the request to the last byte.
    pub(super) turnaround: Seconds,
    /// Half width of its 95 % interval by batch means; `None` if every user asked once.
    pub(super) half_width: Option<Seconds>,
    /// Connections that ended before the end of the response.
    pub(super) broken: u64,
}

impl Scene {
    fn world(
        &self,
        think: Option<(Sizes, Rng)>,
        log_max: usize,
    ) -> Result<(World, Rc<RefCell<Record>>), Failure> {
        let delay = (self.rtt.0 / 2.0 * 1e6).round();
        // The queue holds all windows at once: the formulas assume no loss.
        let text = format!(
            "rate={} delay={delay}us mtu=1500 queue={}p",
            self.rate.0,
            (self.users * 64).clamp(1_000, 100_000)
        );
        let limits = Limits {
            connections_max: 20_000,
            log_max,
            link: link::Limits::default(),
        };
        let profile = Profile::parse(&text, &limits.link, &mut |_| Err(String::new()))
            .map_err(|why| Failure::Usage(format!("the line cannot be simulated: {why}")))?;
        let record = Rc::<RefCell<Record>>::default();
        let users = Users {
            page: self.page.0,
            think,
            users: self.users,
            open: BTreeMap::new(),
            record: Rc::clone(&record),
        };
        let server = Server {
            page: usize::try_from(self.page.0).unwrap_or(usize::MAX),
            time: Duration::from_secs_f64(self.server_time.0.max(0.0)),
            asked: BTreeMap::new(),
        };
        let world = World::new(
            &profile,
            (self.host(&self.client), Box::new(users)),
            (self.host(&self.server), Box::new(server)),
            self.seed,
            limits,
        );
        Ok((world, record))
    }

    fn host(&self, stack: &Stack) -> HostSetup {
        HostSetup {
            tcp: Setup {
                local: self.local,
                mss: self.client.mss.min(self.server.mss),
                ..Setup::new(stack.clone(), 0)
            },
            read_time: Duration::ZERO,
            read_max: 1 << 20,
            line_gain: 1.0,
        }
    }

    /// All users ask at the same time, each for one page.
    pub(super) fn burst(&self) -> Result<Simulated, Failure> {
        let (mut world, record) = self.world(None, 0)?;
        world.run(Instant::ZERO + DAY);
        let record = record.borrow();
        let spans = record
            .served
            .iter()
            .map(|served| served.done.since(served.asked).as_secs_f64());
        let answers = record.served.len() as u64;
        Ok(Simulated {
            answers,
            turnaround: Seconds(spans.sum::<f64>() / (answers.max(1)) as f64),
            half_width: None,
            broken: record.broken + (self.users as u64).saturating_sub(answers),
        })
    }

    /// All users ask at the same time; returns their segments, at most `max`, in the order in which they were sent.
    pub(super) fn segments(&self, max: usize) -> Result<Vec<Logged>, Failure> {
        let (mut world, _) = self.world(None, max)?;
        world.run(Instant::ZERO + DAY);
        Ok(world.log().to_vec())
    }

    /// Users think, ask and think again; measured for `measured` after `warmup`.
    pub(super) fn closed(
        &self,
        think: &Sizes,
        warmup: Seconds,
        measured: Seconds,
    ) -> Result<Simulated, Failure> {
        let (mut world, record) =
            self.world(Some((think.clone(), Seed(self.seed.0.wrapping_add(1)).rng())), 0)?;
        let begin = Instant::ZERO + Duration::from_secs_f64(warmup.0);
        let end = begin + Duration::from_secs_f64(measured.0);
        world.run(end);
        let record = record.borrow();
        let mut batches = [(0u64, 0.0); BATCHES];
        let inside = record
            .served
            .iter()
            .filter(|served| served.done >= begin && served.done < end);
        for served in inside {
            let share = served.done.since(begin).as_secs_f64() / measured.0;
            let batch = &mut batches[((share * BATCHES as f64) as usize).min(BATCHES - 1)];
            batch.0 += 1;
            batch.1 += served.done.since(served.asked).as_secs_f64();
        }
        let answers: u64 = batches.iter().map(|batch| batch.0).sum();
        let sum: f64 = batches.iter().map(|batch| batch.1).sum();
        let means: Vec<f64> = batches
            .iter()
            .filter(|batch| batch.0 > 0)
            .map(|batch| batch.1 / batch.0 as f64)
            .collect();
        Ok(Simulated {
            answers,
            turnaround: Seconds(sum / answers.max(1) as f64),
            half_width: ::model::fit::half_width(&means).map(Seconds),
            broken: record.broken,
        })
    }
}

/// Longer than any simulation that ends.
const DAY: Duration = Duration::from_secs(86_400);
const BATCHES: usize = 20;
