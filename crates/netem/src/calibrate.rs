//! The accuracy of an emulated link on this machine: probes over the real link, compared with the same link in virtual
//! time.
//!
//! Delay: datagrams are sent at a steady pace. The send times are fed to a second [`Path`] of the same profile and
//! seed, which computes when each should have arrived; the kernel's timestamp at the receiver says when it did. Chance,
//! queues and rates are thus part of the comparison and need no formula. Rate: more than the line takes, for a while;
//! measured between the first and the last arrival. Throughput: one TCP connection over a link that shapes nothing. The
//! same probes over a loopback show how much of the delay's error is the method's own. Passes no judgment.

use crate::netns::Netns;
use crate::setup::Setup;
use crate::{ADDRESS, Backend, Fault, GATEWAY, Plan};
use link::{Direction, Framing, Jitter, Packet, Path, Profile, Server};
use runtime::clock;
use runtime::sys;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use units::{Bytes, Duration, Instant, Rate};

/// Headers of IP and UDP before a probe's payload, in bytes.
const HEADERS: usize = 28;
/// Payload of a delay probe, in bytes: number and time.
const PROBE: usize = 16;
const PORT: u16 = 9;

/// How much effort to spend.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Delay probes per second; fewer if the line is too slow for them.
    pub probes_per_second: u32,
    /// Minimum duration of each part.
    pub span: Duration,
}

/// The results.
#[derive(Clone, Debug)]
pub struct Findings {
    /// The back end in use.
    pub backend: Backend,
    /// One-way delay, from the command's end to the far end.
    pub delay: DelayError,
    /// The line up and down, if it has a fixed rate.
    pub rates: [Option<RateError>; 2],
    /// Over a link that shapes nothing.
    pub unshaped: Throughput,
    /// Over a link that handles each packet but is too fast to shape anything.
    pub packetwise: Throughput,
}

/// Measured delay minus the expected delay.
#[derive(Clone, Debug)]
pub struct DelayError {
    /// Probes per second.
    pub pace: f64,
    /// Probes sent.
    pub sent: u64,
    /// Probes that arrived although the model lost them, or the other way round.
    pub misjudged: u64,
    /// Pairs in the wrong order, where the model kept the order.
    pub reordered: u64,
    /// Absolute errors.
    pub errors: Errors,
    /// The method's own share: from a probe's send time to the kernel's timestamp without a link.
    pub own: Errors,
    /// Packets lost to a busy machine.
    pub overflowed: u64,
}

/// Errors in nanoseconds, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errors(Vec<u64>);

impl Errors {
    fn new(mut nanos: Vec<u64>) -> Errors {
        nanos.sort_unstable();
        Errors(nanos)
    }

    /// The error's quantile for this share (0 to 1); zero without errors.
    pub fn quantile(&self, share: f64) -> Duration {
        let place = (share * self.0.len() as f64).ceil() as usize;
        let nanos = self
            .0
            .get(place.saturating_sub(1).min(self.0.len().saturating_sub(1)));
        Duration::from_nanos(nanos.copied().unwrap_or(0))
    }

    /// Whether there are no errors.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A line's rate, measured and described.
#[derive(Clone, Copy, Debug)]
pub struct RateError {
    /// The profile's rate.
    pub described: Rate,
    /// Measured bits per second, framing included.
    pub measured: f64,
    /// Packets measured.
    pub packets: u64,
}

impl RateError {
    /// Relative error, as a share.
    pub fn share(&self) -> f64 {
        self.measured / self.described.bits_per_second() - 1.0
    }
}

/// Throughput of one TCP connection.
#[derive(Clone, Copy, Debug)]
pub struct Throughput {
    /// Payload bits per second.
    pub bits_per_second: f64,
    /// Share of one processor used by the emulator.
    pub emulator_load: f64,
}

/// A probe on the path in virtual time.
#[derive(Debug)]
struct Expected(u64, u64);

impl Packet for Expected {
    fn size(&self) -> Bytes {
        Bytes(self.1)
    }
}

/// Measures delay, rates and throughput.
///
/// # Errors
/// The step that was refused.
pub fn measure(plan: &Plan, effort: Effort) -> Result<Findings, Fault> {
    let (backend, delay) = delay(plan, effort)?;
    let mut rates = [None, None];
    for direction in [Direction::Up, Direction::Down] {
        rates[direction as usize] = rate(plan, direction, effort)?;
    }
    let bare = |server| Plan {
        profile: {
            let mut profile = Profile::default();
            profile.up.server.clone_from(&server);
            profile.down.server = server;
            profile
        },
        ..plan.clone()
    };
    Ok(Findings {
        backend,
        delay,
        rates,
        unshaped: throughput(&bare(None), effort)?,
        packetwise: throughput(&bare(Some(Server::Rate(Rate::mbit(1_000_000)))), effort)?,
    })
}

/// A socket at each end: the sender's, connected, and the receiver's, with kernel timestamps.
fn ends(setup: &Setup, direction: Direction) -> Result<(UdpSocket, UdpSocket), Fault> {
    match direction {
        Direction::Up => between(&setup.near, &setup.far, GATEWAY),
        Direction::Down => between(&setup.far, &setup.near, ADDRESS),
    }
}

fn between(from: &Netns, to: &Netns, address: Ipv4Addr) -> Result<(UdpSocket, UdpSocket), Fault> {
    let fault = || Fault::at("opening a socket for probes");
    let receiver = to
        .call(move || {
            let socket = UdpSocket::bind(SocketAddrV4::new(address, PORT))?;
            sys::stamp_arrivals(socket.as_fd())?;
            socket.set_read_timeout(Some(std::time::Duration::from_millis(200)))?;
            io::Result::Ok(socket)
        })
        .and_then(|socket| socket)
        .map_err(fault())?;
    let sender = from
        .call(move || {
            let socket = UdpSocket::bind(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0))?;
            socket.connect(SocketAddrV4::new(address, PORT))?;
            io::Result::Ok(socket)
        })
        .and_then(|socket| socket)
        .map_err(fault())?;
    Ok((sender, receiver))
}

/// Receives until nothing has arrived for `patience` after `done` was set: number and timestamp of each probe.
fn receive(socket: &UdpSocket, patience: Duration, done: &std::sync::atomic::AtomicBool) -> Vec<(u64, u64)> {
    use std::sync::atomic::Ordering;
    let mut got = Vec::new();
    let mut buffer = [0u8; 2_048];
    let mut quiet_since = clock::now();
    loop {
        match sys::receive_stamped(socket.as_fd(), &mut buffer) {
            Ok((len, stamp)) if len >= PROBE => {
                let number = u64::from_be_bytes(buffer[..8].try_into().expect("eight bytes"));
                got.push((number, stamp.unwrap_or(0)));
                quiet_since = clock::now();
            }
            _ => {
                if done.load(Ordering::Acquire) && clock::now().since(quiet_since) > patience {
                    return got;
                }
            }
        }
    }
}

fn delay(plan: &Plan, effort: Effort) -> Result<(Backend, DelayError), Fault> {
    let mut setup = Setup::make(plan)?;
    let running = setup.start(plan, None, None)?;
    let (sender, receiver) = ends(&setup, Direction::Up)?;
    let size = (PROBE + HEADERS) as u64;
    // At most half of what the line takes, so that queues stay short.
    let bearable = match &plan.profile.up.server {
        Some(Server::Rate(rate)) => {
            rate.bits_per_second() / 16.0 / on_line(plan.profile.up.framing, size) as f64
        }
        Some(Server::Trace(trace)) => trace.rate().bits_per_second() / 24_000.0,
        None => f64::INFINITY,
    };
    let pace = f64::from(effort.probes_per_second).min(bearable).max(0.1);
    let count = ((effort.span.as_secs_f64() * pace) as u64).max(200);
    let patience = plan.profile.up.delay + Duration::from_millis(500);
    let (sent, got) = probe(&sender, &receiver, pace, count, patience);
    let origin = running.origin;
    let tally = running.stop();
    let own = own_error(&setup, pace, count.min(1_000))?;
    let expected = expect(plan, &sent, size, origin);
    let mut errors = Vec::new();
    let mut came = vec![false; sent.len()];
    let mut reordered = 0;
    let mut latest = 0;
    for &(number, stamp) in &got {
        let Some(place) = usize::try_from(number).ok().filter(|place| *place < sent.len()) else {
            continue;
        };
        came[place] = true;
        reordered += u64::from(number < latest && !plan.profile.up.reorder);
        latest = latest.max(number);
        if let Some(due) = expected[place] {
            errors.push(stamp.abs_diff(due));
        }
    }
    let misjudged = came
        .iter()
        .zip(&expected)
        .filter(|(came, due)| **came != due.is_some())
        .count();
    let found = DelayError {
        pace,
        sent: count,
        misjudged: misjudged as u64,
        reordered,
        errors: Errors::new(errors),
        own,
        overflowed: tally.overflowed,
    };
    Ok((setup.backend, found))
}

/// Sends `count` probes at `pace` per second; returns when each was sent, and the arrivals with the kernel's
/// timestamps.
fn probe(
    sender: &UdpSocket,
    receiver: &UdpSocket,
    pace: f64,
    count: u64,
    patience: Duration,
) -> (Vec<u64>, Vec<(u64, u64)>) {
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let taking = scope.spawn(|| receive(receiver, patience, &done));
        let mut sent: Vec<u64> = Vec::new();
        let start = clock::now();
        for number in 0..count {
            sleep_until(start + Duration::from_secs_f64(number as f64 / pace));
            let mut probe = [0u8; PROBE];
            probe[..8].copy_from_slice(&number.to_be_bytes());
            let at = clock::civil_nanos();
            // A probe the socket rejects counts as one that does not arrive.
            let _ = sender.send(&probe);
            sent.push(at);
        }
        done.store(true, std::sync::atomic::Ordering::Release);
        (sent, taking.join().unwrap_or_default())
    })
}

/// The method's own error: the same probes over a loopback, where nothing delays them.
fn own_error(setup: &Setup, pace: f64, count: u64) -> Result<Errors, Fault> {
    let (sender, receiver) = between(&setup.near, &setup.near, Ipv4Addr::LOCALHOST)?;
    let (sent, got) = probe(&sender, &receiver, pace, count, Duration::from_millis(50));
    let late = |(number, stamp): &(u64, u64)| {
        let sent = sent.get(usize::try_from(*number).ok()?)?;
        Some(stamp.abs_diff(*sent))
    };
    Ok(Errors::new(got.iter().filter_map(late).collect()))
}

/// When each probe should have arrived, by a path in virtual time.
fn expect(plan: &Plan, sent: &[u64], size: u64, origin: Instant) -> Vec<Option<u64>> {
    let mut due = vec![None; sent.len()];
    // The emulator's time began at `origin`: this is `origin` in civil time.
    let zero = clock::civil_nanos().saturating_sub(clock::now().since(origin).as_nanos() as u64);
    let mut path = Path::new(&plan.profile, plan.seed, &plan.limits);
    let take = |path: &mut Path<Expected>, until: Instant, due: &mut Vec<Option<u64>>| {
        while let Some(at) = path.next_departure().filter(|at| *at <= until) {
            while let Some(Expected(number, _)) = path.receive(Direction::Up, at) {
                due[number as usize] = Some(at.as_nanos() + zero);
            }
        }
    };
    for (number, at) in sent.iter().enumerate() {
        let at = Instant::from_nanos(at.saturating_sub(zero));
        take(&mut path, at, &mut due);
        path.send(Direction::Up, Expected(number as u64, size), at);
    }
    take(&mut path, Instant::from_nanos(u64::MAX - 1), &mut due);
    due
}

fn on_line(framing: Framing, size: u64) -> u64 {
    size.max(framing.padded_to.0) + framing.per_packet.0
}

fn rate(plan: &Plan, direction: Direction, effort: Effort) -> Result<Option<RateError>, Fault> {
    let way = match direction {
        Direction::Up => &plan.profile.up,
        Direction::Down => &plan.profile.down,
    };
    let Some(Server::Rate(described)) = way.server else {
        return Ok(None);
    };
    if described.0 == 0 {
        return Ok(None);
    }
    let mut plan = plan.clone();
    for way in [&mut plan.profile.up, &mut plan.profile.down] {
        // Loss and delay after the line do not affect its rate.
        way.loss = None;
        way.jitter = Jitter::None;
        way.delay = Duration::ZERO;
    }
    let mtu = way.mtu.map_or(1_500, |mtu| mtu.0).clamp(68, 1_500);
    let framing = match (plan.profile.half_duplex, direction) {
        (true, _) => plan.profile.up.framing,
        (false, _) => way.framing,
    };
    let bits = on_line(framing, mtu) as f64 * 8.0;
    let per_packet = bits / described.bits_per_second();
    let count = ((effort.span.as_secs_f64() / per_packet) as u64).clamp(8, 200_000);
    let mut setup = Setup::make(&plan)?;
    let running = setup.start(&plan, None, None)?;
    let (sender, receiver) = ends(&setup, direction)?;
    let done = std::sync::atomic::AtomicBool::new(false);
    let patience = Duration::from_secs_f64(per_packet * 3.0) + Duration::from_millis(300);
    let got = std::thread::scope(|scope| {
        let taking = scope.spawn(|| receive(&receiver, patience, &done));
        let start = clock::now();
        let mut packet = vec![0u8; mtu as usize - HEADERS];
        for number in 0..count {
            // A tenth faster than the line, so that the line never waits.
            sleep_until(start + Duration::from_secs_f64(number as f64 * per_packet / 1.1));
            packet[..8].copy_from_slice(&number.to_be_bytes());
            let _ = sender.send(&packet);
        }
        done.store(true, std::sync::atomic::Ordering::Release);
        taking.join().unwrap_or_default()
    });
    let _ = running.stop();
    let (Some((_, first)), Some((_, last))) = (got.first(), got.last()) else {
        return Ok(Some(RateError {
            described,
            measured: 0.0,
            packets: 0,
        }));
    };
    let span = last.saturating_sub(*first) as f64 / 1e9;
    Ok(Some(RateError {
        described,
        measured: (got.len() - 1) as f64 * bits / span.max(1e-9),
        packets: got.len() as u64,
    }))
}

fn throughput(plan: &Plan, effort: Effort) -> Result<Throughput, Fault> {
    let mut setup = Setup::make(plan)?;
    let running = setup.start(plan, None, None)?;
    let fault = || Fault::at("opening a connection over the link");
    let listener = setup
        .far
        .call(|| TcpListener::bind(SocketAddrV4::new(GATEWAY, PORT)))
        .and_then(|listener| listener)
        .map_err(fault())?;
    let mut sender = setup
        .near
        .call(|| TcpStream::connect(SocketAddrV4::new(GATEWAY, PORT)))
        .and_then(|stream| stream)
        .map_err(fault())?;
    let (mut taker, _) = listener.accept().map_err(fault())?;
    let (bytes, took) = std::thread::scope(|scope| {
        let taking = scope.spawn(move || {
            let mut buffer = vec![0u8; 1 << 18];
            let (mut total, start) = (0u64, clock::now());
            while let Ok(n @ 1..) = taker.read(&mut buffer) {
                total += n as u64;
            }
            (total, clock::now().since(start))
        });
        let data = vec![0u8; 1 << 18];
        let end = clock::now() + effort.span;
        while clock::now() < end && sender.write_all(&data).is_ok() {}
        drop(sender);
        taking.join().unwrap_or((0, effort.span))
    });
    let tally = running.stop();
    let seconds = took.as_secs_f64().max(1e-9);
    Ok(Throughput {
        bits_per_second: bytes as f64 * 8.0 / seconds,
        emulator_load: tally.cpu.as_secs_f64() / seconds,
    })
}

fn sleep_until(at: Instant) {
    let now = clock::now();
    if at > now {
        // Sleeping is intended: packets have to leave at a known pace, and nothing else happens here.
        std::thread::sleep(at.since(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_least_error_that_enough_stay_below() {
        let errors = Errors::new(vec![40, 10, 30, 20]);
        for (share, nanos) in [
            (0.0, 10),
            (0.25, 10),
            (0.5, 20),
            (0.51, 30),
            (0.99, 40),
            (1.0, 40),
        ] {
            assert_eq!(errors.quantile(share).as_nanos(), nanos, "{share}");
        }
        assert_eq!(Errors::default().quantile(0.5).as_nanos(), 0);
        assert!(Errors::default().is_empty() && !errors.is_empty());
    }
}
