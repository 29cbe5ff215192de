//! Queue disciplines: drop-tail by packets or bytes, or CoDel.
//!
//! Decides which packets wait and which are dropped. The packet in transmission does not count as waiting, as
//! in a kernel's queue above its device.

use crate::codel::{Codel, CodelParams};
use crate::limits::Limits;
use crate::packet::Packet;
use std::collections::VecDeque;
use units::{Bytes, Instant};

/// The discipline of the queue in front of a bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// Drops an arrival that does not fit. Without a limit here, [`Limits::queue_packets_max`] applies.
    DropTail {
        /// Most packets waiting; with neither limit, that of [`Limits`] applies.
        packets: Option<usize>,
        /// Most bytes waiting; `None` for no limit in bytes.
        bytes: Option<Bytes>,
    },
    /// CoDel at the head, drop-tail by packets at the tail.
    Codel {
        /// Target, interval and MTU of RFC 8289.
        params: CodelParams,
        /// Most packets waiting.
        packets: usize,
    },
}

impl Default for Discipline {
    fn default() -> Discipline {
        Discipline::DropTail {
            packets: None,
            bytes: None,
        }
    }
}

/// Packets waiting for transmission.
#[derive(Debug)]
pub(crate) struct Waiting<P> {
    fifo: VecDeque<(Instant, P)>,
    bytes: u64,
    packets_max: usize,
    bytes_max: Bytes,
    codel: Option<Codel>,
}

impl<P: Packet> Waiting<P> {
    pub(crate) fn new(discipline: Discipline, limits: &Limits) -> Waiting<P> {
        let (packets_max, bytes_max, codel) = match discipline {
            Discipline::DropTail { packets, bytes } => {
                let packets_max = match (packets, bytes) {
                    (Some(packets), _) => packets,
                    // A limit in bytes implies one in packets, because no packet is smaller than an IP header.
                    (None, Some(bytes)) => (bytes.0 / 20) as usize + 1,
                    (None, None) => limits.queue_packets_max,
                };
                (packets_max, bytes.unwrap_or(Bytes(u64::MAX)), None)
            }
            Discipline::Codel { params, packets } => (packets, Bytes(u64::MAX), Some(Codel::new(params))),
        };
        Waiting {
            fifo: VecDeque::new(),
            bytes: 0,
            packets_max,
            bytes_max,
            codel,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fifo.is_empty()
    }

    pub(crate) fn head_arrived(&self) -> Option<Instant> {
        self.fifo.front().map(|(at, _)| *at)
    }

    /// Adds a packet; returns false if it does not fit.
    pub(crate) fn push(&mut self, packet: P, now: Instant) -> bool {
        let size = packet.size().0;
        if self.fifo.len() >= self.packets_max || self.bytes + size > self.bytes_max.0 {
            return false;
        }
        self.bytes += size;
        self.fifo.push_back((now, packet));
        true
    }

    /// Takes the packet to transmit at `now`; calls `dropped` for each packet CoDel drops before it.
    pub(crate) fn pop(&mut self, now: Instant, mut dropped: impl FnMut()) -> Option<P> {
        loop {
            let Some((arrived, packet)) = self.fifo.pop_front() else {
                if let Some(codel) = &mut self.codel {
                    codel.empty();
                }
                return None;
            };
            let behind = Bytes(self.bytes);
            self.bytes -= packet.size().0;
            if !self
                .codel
                .as_mut()
                .is_some_and(|codel| codel.drops(now.since(arrived), behind, now))
            {
                return Some(packet);
            }
            dropped();
        }
    }
}
