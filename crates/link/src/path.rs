//! Builds a link from a profile: two directions, each a chain of queues, or both through one half-duplex
//! medium.
//!
//! Packets pass the parts in a fixed order: ACK holding, MTU, bottleneck, loss, delay. A lost packet has
//! therefore taken transmission time, and a held ACK has not.

use crate::bottleneck::Bottleneck;
use crate::chain::Chain;
use crate::delay::{Delay, Jitter};
use crate::hold::AckHold;
use crate::limits::Limits;
use crate::loss::Loss;
use crate::mtu::Mtu;
use crate::packet::{Packet, TcpView};
use crate::profile::{Profile, Way};
use crate::queue::{Counters, Queue, Verdict};
use units::{Bytes, Draw, Instant, Rng, Seed};

/// Direction of travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From client to server.
    Up,
    /// From server to client.
    Down,
}

impl Direction {
    /// The opposite direction.
    pub fn reverse(self) -> Direction {
        match self {
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        }
    }
}

/// Both directions of an emulated link.
#[derive(Debug)]
pub struct Path<P>(Ways<P>);

#[derive(Debug)]
enum Ways<P> {
    /// Full duplex: the directions are independent.
    Apart([Chain<P>; 2]),
    /// Half duplex: both directions queue for one medium, in order of arrival. Collisions are not modeled.
    Shared {
        before: [Chain<P>; 2],
        medium: Box<Bottleneck<Tagged<P>>>,
        after: [Chain<P>; 2],
    },
}

/// A packet on the shared medium.
#[derive(Debug)]
struct Tagged<P>(Direction, P);

impl<P: Packet> Packet for Tagged<P> {
    fn size(&self) -> Bytes {
        self.1.size()
    }
    fn line_size(&self) -> Bytes {
        self.1.line_size()
    }
    fn tcp(&self) -> Option<TcpView> {
        self.1.tcp()
    }
}

type Part<P> = Box<dyn Queue<P> + Send>;

impl Way {
    /// The parts in front of the bottleneck.
    fn before<P: Packet + Send + 'static>(&self, limits: &Limits) -> Vec<Part<P>> {
        let mut parts: Vec<Part<P>> = Vec::new();
        if let Some(timer) = self.hold_acks {
            parts.push(Box::new(AckHold::new(timer, self.hold_mss, limits.flows_max)));
        }
        if let Some(mtu) = self.mtu {
            parts.push(Box::new(Mtu::new(mtu)));
        }
        parts
    }

    /// The parts behind the bottleneck.
    fn after<P: Send + 'static>(&self, rng: &mut Rng, limits: &Limits) -> Vec<Part<P>> {
        let mut parts: Vec<Part<P>> = Vec::new();
        // Draws both seeds in any case, so that adding loss does not change the jitter.
        let (loss_seed, jitter_seed) = (Seed(rng.next_u64()), Seed(rng.next_u64()));
        if let Some(model) = self.loss {
            parts.push(Box::new(Loss::new(model, loss_seed)));
        }
        if !self.delay.is_zero() || self.jitter != Jitter::None {
            parts.push(Box::new(Delay::with_jitter(
                self.delay,
                self.jitter,
                self.reorder,
                jitter_seed,
                limits.in_flight_max,
            )));
        }
        parts
    }

    /// The whole direction as one queue, for a full-duplex link.
    fn chain<P: Packet + Send + 'static>(&self, rng: &mut Rng, limits: &Limits) -> Chain<P> {
        let mut parts = self.before(limits);
        if let Some(server) = &self.server {
            parts.push(Box::new(Bottleneck::new(
                server.clone(),
                self.framing,
                self.discipline,
                limits,
            )));
        }
        parts.extend(self.after(rng, limits));
        Chain::new(parts)
    }
}

impl<P: Packet + Send + 'static> Path<P> {
    /// The link of `profile`, with random numbers from `seed`.
    pub fn new(profile: &Profile, seed: Seed, limits: &Limits) -> Path<P> {
        let mut rng = seed.rng();
        let (up, down) = (&profile.up, &profile.down);
        Path(match (&up.server, profile.half_duplex) {
            (Some(server), true) => Ways::Shared {
                before: [Chain::new(up.before(limits)), Chain::new(down.before(limits))],
                medium: Box::new(Bottleneck::new(server.clone(), up.framing, up.discipline, limits)),
                after: [
                    Chain::new(up.after(&mut rng, limits)),
                    Chain::new(down.after(&mut rng, limits)),
                ],
            },
            _ => Ways::Apart([up.chain(&mut rng, limits), down.chain(&mut rng, limits)]),
        })
    }

    /// Gives the link a packet at `now`; returns whether it was queued or dropped.
    pub fn send(&mut self, direction: Direction, packet: P, now: Instant) -> Verdict {
        self.advance(now);
        let verdict = match &mut self.0 {
            Ways::Apart(ways) => ways[direction as usize].enqueue(packet, now),
            Ways::Shared { before, .. } => before[direction as usize].enqueue(packet, now),
        };
        self.advance(now);
        verdict
    }

    /// The next packet that has arrived by `now`.
    pub fn receive(&mut self, direction: Direction, now: Instant) -> Option<P> {
        self.advance(now);
        match &mut self.0 {
            Ways::Apart(ways) => ways[direction as usize].dequeue(now),
            Ways::Shared { after, .. } => after[direction as usize].dequeue(now),
        }
    }

    /// The earliest instant at which a packet may arrive, in either direction.
    pub fn next_departure(&self) -> Option<Instant> {
        match &self.0 {
            Ways::Apart(ways) => ways.iter().filter_map(Queue::next_departure).min(),
            Ways::Shared {
                before,
                medium,
                after,
            } => before
                .iter()
                .chain(after)
                .filter_map(Queue::next_departure)
                .chain(medium.next_departure())
                .min(),
        }
    }

    /// Packets in, out and dropped in one direction. Packets that wait for a shared medium, or that its queue
    /// dropped, count in both directions.
    pub fn counters(&self, direction: Direction) -> Counters {
        match &self.0 {
            Ways::Apart(ways) => ways[direction as usize].counters(),
            Ways::Shared {
                before,
                medium,
                after,
            } => {
                let (before, after) = (
                    before[direction as usize].counters(),
                    after[direction as usize].counters(),
                );
                let medium = medium.counters();
                let mut total = before;
                total.left = after.left;
                total.waiting += medium.waiting + after.waiting;
                total.dropped.add(&medium.dropped);
                total.dropped.add(&after.dropped);
                total
            }
        }
    }

    fn advance(&mut self, now: Instant) {
        let Ways::Shared {
            before,
            medium,
            after,
        } = &mut self.0
        else {
            return;
        };
        loop {
            let up = before[0].next_departure().map(|at| (at, 1));
            let down = before[1].next_departure().map(|at| (at, 2));
            let done = medium.next_departure().map(|at| (at, 0));
            let Some((at, which)) = up.into_iter().chain(down).chain(done).min() else {
                return;
            };
            if at > now {
                return;
            }
            match which {
                0 => {
                    if let Some(Tagged(direction, packet)) = medium.dequeue(at) {
                        after[direction as usize].enqueue(packet, at);
                    }
                }
                1 => {
                    if let Some(packet) = before[0].dequeue(at) {
                        medium.enqueue(Tagged(Direction::Up, packet), at);
                    }
                }
                _ => {
                    if let Some(packet) = before[1].dequeue(at) {
                        medium.enqueue(Tagged(Direction::Down, packet), at);
                    }
                }
            }
        }
    }
}
