//! An endpoint in virtual time: datagrams that a test sends it, over a path that may lose some, by a seed. Its jobs run on
//! the spot and take no time.

use super::{Asked, Datagram, Endpoint, Outbox};
use crate::peer::PeerEvent;
use crate::session::{Job, Ticket};
use std::net::SocketAddr;
use units::{Draw, Duration, Instant, Rng, Seed};

/// Bytes that wait to be sent at most, as with the driver's default.
const OUT_BYTES_MAX: usize = 256 << 10;

/// An endpoint, its clock and its path. Deterministic: what happens follows from the calls and the seed.
///
/// ```
/// use units::{Duration, Instant};
/// use runtime::datagram::{Address, Datagram, Endpoint, Outbox, Owner, Sim};
///
/// struct Echo;
/// impl Endpoint for Echo {
///     type Job = runtime::NoJob;
///     fn handle(&mut self, batch: &mut [Datagram<'_>], out: &mut Outbox, _: Instant) {
///         for datagram in batch {
///             out.push(|buffer| {
///                 buffer.extend_from_slice(datagram.bytes);
///                 Some(Address { local: datagram.local, ..Address::to(datagram.from) })
///             });
///         }
///     }
///     fn poll(&mut self, _: &mut Outbox, _: Instant) -> bool { false }
///     fn deadline(&self) -> Option<Instant> { None }
///     fn owner(&self, _: &[u8]) -> Owner { Owner::Anyone }
///     fn drain(&mut self, _: &mut Outbox, _: Instant) {}
///     fn is_idle(&self) -> bool { true }
/// }
///
/// let mut sim = Sim::new(Echo);
/// let peer = ([192, 0, 2, 1], 4_433).into();
/// sim.send(peer, b"hello");
/// assert_eq!(sim.take_sent(), [(peer, b"hello".to_vec())]);
/// ```
#[derive(Debug)]
pub struct Sim<E> {
    endpoint: E,
    now: Instant,
    out: Outbox,
    sent: Vec<(SocketAddr, Vec<u8>)>,
    asked: Vec<Asked>,
    loss: f64,
    rng: Rng,
    lost: u64,
}

impl<E: Endpoint> Sim<E> {
    /// At time zero, over a path that loses nothing.
    pub fn new(endpoint: E) -> Sim<E> {
        Sim::lossy(endpoint, 0.0, Seed(0))
    }

    /// At time zero, over a path that loses this share (0 to 1) of the datagrams in each direction.
    pub fn lossy(endpoint: E, loss: f64, seed: Seed) -> Sim<E> {
        Sim {
            endpoint,
            now: Instant::ZERO,
            out: Outbox::new(OUT_BYTES_MAX),
            sent: Vec::new(),
            asked: Vec::new(),
            loss,
            rng: seed.rng(),
            lost: 0,
        }
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The endpoint.
    pub fn endpoint(&mut self) -> &mut E {
        &mut self.endpoint
    }

    /// The endpoint, at the end.
    pub fn into_endpoint(self) -> E {
        self.endpoint
    }

    /// Datagrams that the path lost so far, in both directions.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// A peer sends a datagram; what follows from it at once happens.
    pub fn send(&mut self, from: SocketAddr, bytes: &[u8]) {
        self.send_batch(&[(from, bytes)]);
    }

    /// These datagrams arrive together, but for those that the path loses.
    pub fn send_batch(&mut self, datagrams: &[(SocketAddr, &[u8])]) {
        let mut arriving: Vec<(SocketAddr, Vec<u8>)> = Vec::new();
        for (from, bytes) in datagrams {
            if !self.loses() {
                arriving.push((*from, bytes.to_vec()));
            }
        }
        let mut batch: Vec<Datagram<'_>> = arriving
            .iter_mut()
            .map(|(from, bytes)| Datagram {
                bytes,
                from: *from,
                local: None,
                ecn: 0,
            })
            .collect();
        if !batch.is_empty() {
            self.endpoint.handle(&mut batch, &mut self.out, self.now);
        }
        self.settle();
    }

    /// Time passes; what falls due on the way happens at its instant.
    pub fn advance(&mut self, by: Duration) {
        let until = self.now + by;
        while let Some(at) = self.endpoint.deadline().filter(|&at| at <= until) {
            self.now = self.now.max(at);
            self.settle();
            // One that wants to be asked again at once would hold the clock.
            if self.endpoint.deadline().is_some_and(|again| again <= at) {
                break;
            }
        }
        self.now = until;
        self.settle();
    }

    /// The endpoint is told to drain.
    pub fn drain(&mut self) {
        self.endpoint.drain(&mut self.out, self.now);
        self.settle();
    }

    /// What has arrived at peers since this was last asked: receiver and payload, segments one by one.
    pub fn take_sent(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        std::mem::take(&mut self.sent)
    }

    /// What the endpoint has asked for its connections to other hosts since this was last asked, in order. Nothing happens to
    /// them but what [`Sim::peer`] tells.
    pub fn take_asked(&mut self) -> Vec<Asked> {
        std::mem::take(&mut self.asked)
    }

    /// Something happens to a connection to another host, which `owner` has opened under this ticket.
    pub fn peer(&mut self, owner: u64, ticket: Ticket, event: PeerEvent<'_>) {
        self.endpoint.peer(owner, ticket, event, self.now);
        self.settle();
    }

    fn settle(&mut self) {
        loop {
            let more = self.endpoint.poll(&mut self.out, self.now);
            self.asked.extend(std::iter::from_fn(|| self.endpoint.next_ask()));
            let has_worked = self.work();
            if self.out.is_empty() && !more && !has_worked {
                return;
            }
            self.deliver();
        }
    }

    /// Runs the jobs that the endpoint gives out; returns whether there were any.
    fn work(&mut self) -> bool {
        let mut is_any = false;
        while let Some((number, job)) = self.endpoint.next_job() {
            is_any = true;
            self.endpoint.done(number, Some(job.run()), self.now);
        }
        is_any
    }

    fn deliver(&mut self) {
        while let Some((address, bytes)) = self.out.first() {
            let segment = address.segment.map_or(bytes.len(), usize::from).max(1);
            let segments: Vec<Vec<u8>> = bytes.chunks(segment).map(<[u8]>::to_vec).collect();
            self.out.drop_first();
            for bytes in segments {
                if !self.loses() {
                    self.sent.push((address.to, bytes));
                }
            }
        }
    }

    fn loses(&mut self) -> bool {
        // The upper bits make a number from 0 to 1.
        let drawn = (self.rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let loses = drawn < self.loss;
        self.lost += u64::from(loses);
        loses
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Address, Owner};
    use super::*;

    /// Sends a greeting to each peer three times, a second apart, two copies as segments of one payload.
    #[derive(Default)]
    struct Repeater {
        due: Vec<(Instant, SocketAddr, u8)>,
    }

    impl Endpoint for Repeater {
        type Job = crate::NoJob;

        fn handle(&mut self, batch: &mut [Datagram<'_>], _: &mut Outbox, now: Instant) {
            for datagram in batch {
                self.due.push((now, datagram.from, 3));
            }
        }

        fn poll(&mut self, out: &mut Outbox, now: Instant) -> bool {
            for (at, to, left) in &mut self.due {
                if *at > now || *left == 0 {
                    continue;
                }
                let pushed = out.push(|buffer| {
                    buffer.extend_from_slice(b"hello\nhello\n");
                    Some(Address {
                        segment: Some(6),
                        ..Address::to(*to)
                    })
                });
                if !pushed {
                    return true;
                }
                *at = now + Duration::from_secs(1);
                *left -= 1;
            }
            false
        }

        fn deadline(&self) -> Option<Instant> {
            let due = self.due.iter().filter(|(_, _, left)| *left > 0);
            due.map(|(at, ..)| *at).min()
        }

        fn owner(&self, _: &[u8]) -> Owner {
            Owner::Anyone
        }

        fn drain(&mut self, _: &mut Outbox, _: Instant) {
            self.due.clear();
        }

        fn is_idle(&self) -> bool {
            self.deadline().is_none()
        }
    }

    fn peer(host: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, host], 4_433))
    }

    #[test]
    fn deadlines_fall_due_in_order_and_segments_arrive_one_by_one() {
        let mut sim = Sim::new(Repeater::default());
        sim.send(peer(1), b"x");
        assert_eq!(sim.take_sent().len(), 2);
        sim.advance(Duration::from_millis(500));
        sim.send(peer(2), b"x");
        assert_eq!(sim.take_sent().len(), 2);
        sim.advance(Duration::from_millis(1_499));
        let sent: Vec<SocketAddr> = sim.take_sent().into_iter().map(|(to, _)| to).collect();
        assert_eq!(sent, [peer(1), peer(1), peer(2), peer(2)]);
        sim.advance(Duration::from_secs(10));
        assert_eq!(sim.take_sent().len(), 4);
        assert!(sim.endpoint().is_idle());
        sim.send(peer(3), b"x");
        sim.drain();
        assert!(sim.endpoint().is_idle());
    }

    /// Answers each datagram with the double of its first byte, which a job computes.
    #[derive(Default)]
    struct Doubler {
        jobs: Vec<(u64, Double)>,
        asked_by: Vec<SocketAddr>,
        done: Vec<(SocketAddr, u8)>,
    }

    struct Double(u8);

    impl Job for Double {
        type Output = u8;

        fn try_now(self) -> Result<u8, Double> {
            Err(self)
        }

        fn run(self) -> u8 {
            self.0 * 2
        }
    }

    impl Endpoint for Doubler {
        type Job = Double;

        fn next_job(&mut self) -> Option<(u64, Double)> {
            self.jobs.pop()
        }

        fn done(&mut self, job: u64, output: Option<u8>, _: Instant) {
            self.done
                .push((self.asked_by[job as usize], output.expect("no panic")));
        }

        fn handle(&mut self, batch: &mut [Datagram<'_>], _: &mut Outbox, _: Instant) {
            for datagram in batch {
                let number = self.asked_by.len() as u64;
                self.asked_by.push(datagram.from);
                self.jobs.push((number, Double(datagram.bytes[0])));
            }
        }

        fn poll(&mut self, out: &mut Outbox, _: Instant) -> bool {
            for (to, byte) in self.done.drain(..) {
                out.push(|buffer| {
                    buffer.push(byte);
                    Some(Address::to(to))
                });
            }
            false
        }

        fn deadline(&self) -> Option<Instant> {
            None
        }

        fn owner(&self, _: &[u8]) -> Owner {
            Owner::Anyone
        }

        fn drain(&mut self, _: &mut Outbox, _: Instant) {}

        fn is_idle(&self) -> bool {
            self.jobs.is_empty()
        }
    }

    #[test]
    fn jobs_run_on_the_spot_and_their_output_is_sent() {
        let mut sim = Sim::new(Doubler::default());
        sim.send(peer(1), &[4]);
        assert_eq!(sim.take_sent(), [(peer(1), vec![8])]);
        assert!(sim.into_endpoint().is_idle());
    }

    #[test]
    fn a_seed_loses_the_same_datagrams() {
        let run = |seed| {
            let mut sim = Sim::lossy(Repeater::default(), 0.3, Seed(seed));
            for host in 0..100 {
                sim.send(peer(host), b"x");
            }
            sim.advance(Duration::from_secs(5));
            (sim.lost(), sim.take_sent())
        };
        let (lost, sent) = run(1);
        assert_eq!((lost, sent.clone()), run(1));
        assert_ne!((lost, sent), run(2));
        // 100 that arrive and six answers to each that did.
        assert!((120..260).contains(&lost), "{lost}");
    }
}
