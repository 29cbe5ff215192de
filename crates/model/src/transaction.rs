//! One HTTP transaction over one link, alone: document 004, section 2.1 (symbols K, L, M, S, W, Tf, Tmin, T).
//!
//! Other users are not considered: `waiting` shares the link among users. Slow start is counted in whole round trips,
//! an upper bound; `tcp::ramp` counts the stalls exactly.

use crate::Seconds;
use crate::domain::{DomainError, positive};
use crate::explain::{Bound, Explained, Quantity, Region, significant};
use crate::tcp::setup::Setup;
use serde::Serialize;
use units::{Bytes, Rate};

const SOURCE: &str = "document 004, section 2.1";

/// Choice between exact definitions and the printed tables of document 004.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Mode {
    /// The definitions as written, in consistent units.
    #[default]
    Exact,
    /// The definitions as the document computed them: 1,000 B counted as 1,024 B in Tf (a factor of
    /// 1.024), K printed and used without rounding up.
    Paper,
}

/// Bits per byte the document's tables use: 8 x 1,024 / 1,000.
const PAPER_BITS_PER_BYTE: f64 = 8.192;

/// A file to move over a link.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Transfer {
    /// Size of the file.
    pub size: Bytes,
    /// `bw`, the rate of the link.
    pub rate: Rate,
    /// `R`, the round-trip time.
    pub rtt: Seconds,
    /// `MSS`, the largest segment.
    pub mss: Bytes,
}

/// All values that section 2.1 computes for a [`Transfer`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Transaction {
    /// The file and the link.
    pub transfer: Transfer,
    /// Treatment of units.
    pub mode: Mode,
    /// `K`, packets in the file; a fraction in [`Mode::Paper`].
    pub k: f64,
    /// `n`, whole packets in the file.
    pub n: u64,
    /// `L`, packets that fill the pipe during one round trip.
    pub l: f64,
    /// `M`, the largest useful window in packets.
    pub m: f64,
    /// `S`, round trips slow start costs at most.
    pub s: u32,
    /// `Tf`, time on the wire.
    pub tf: Seconds,
    /// `W`, connection setup and slow start.
    pub w: Seconds,
    /// `Tmin`, request and time on the wire.
    pub tmin: Seconds,
    /// `T`, the transaction over TCP.
    pub t: Seconds,
    /// The transaction over T/TCP, which needs no setup round trip.
    pub t_ttcp: Seconds,
}

impl Transfer {
    /// The transaction's times; errors name a parameter that is zero or negative.
    pub fn transaction(&self, mode: Mode) -> Result<Transaction, DomainError> {
        let size = positive("size", self.size.0 as f64, "1 B or more")?;
        let rate = positive("rate", self.rate.bits_per_second(), "1 bit/s or more")?;
        let mss = positive("MSS", self.mss.0 as f64, "1 B or more")?;
        let rtt = positive("RTT", self.rtt.0, "above 0 s")?;
        let n = self.size.0.div_ceil(self.mss.0);
        let (k, bits_per_byte) = match mode {
            Mode::Exact => (n as f64, 8.0),
            Mode::Paper => (size / mss, PAPER_BITS_PER_BYTE),
        };
        let l = rate * rtt / (8.0 * mss);
        let m = l.min(k);
        let s = slow_start_rounds(m);
        let tf = Seconds(size * bits_per_byte / rate);
        let w = self.rtt * f64::from(s) + self.rtt;
        let tmin = self.rtt + tf;
        let t = tmin + w;
        Ok(Transaction {
            transfer: *self,
            mode,
            k,
            n,
            l,
            m,
            s,
            tf,
            w,
            tmin,
            t,
            t_ttcp: tmin + self.rtt * f64::from(s),
        })
    }
}

/// `S = floor(log2(ceil(M/2)))`, zero for windows of two packets or less.
pub(crate) fn slow_start_rounds(m: f64) -> u32 {
    ((m / 2.0).ceil().max(1.0) as u64).ilog2()
}

impl Transaction {
    /// The transaction time with connection set-up `setup`: `T` if it costs a round trip, T of T/TCP if it costs
    /// none. Other set-ups are errors, because the document does not cover them.
    pub fn over(&self, setup: Setup) -> Result<Seconds, DomainError> {
        match setup.round_trips() {
            0 => Ok(self.t_ttcp),
            1 => Ok(self.t),
            more => Err(DomainError::Outside {
                parameter: "round trips of the set-up",
                value: f64::from(more),
                allowed: "0 or 1 for the document's reading, which knows T/TCP and TCP",
            }),
        }
    }

    /// The derivation, symbol by symbol.
    pub fn explain(&self) -> Explained<Transaction> {
        let Transfer { size, rate, rtt, mss } = self.transfer;
        let bits = match self.mode {
            Mode::Exact => "8",
            Mode::Paper => "8.192",
        };
        let line = format!(
            "{size} over {rate} with a round trip of {rtt}: {} over TCP, {} over T/TCP",
            self.t, self.t_ttcp
        );
        let mut e = Explained::new(*self, line);
        e.bounds.push(Bound {
            quantity: "T",
            low: (rtt * 2.0 + self.tf).0,
            high: Some((rtt * (2.0 + self.n as f64) + self.tf).0),
            unit: "s",
            source: "no wait for an acknowledgement; one after every packet",
        });
        let packets = format!("{} / {}", size.0, mss.0);
        match self.mode {
            Mode::Exact => {
                e.step(
                    "K",
                    "packets in the file",
                    "ceil(size/MSS)",
                    packets,
                    self.k,
                    "packets",
                    SOURCE,
                );
            }
            Mode::Paper => {
                e.step(
                    "K",
                    "packets in the file, not rounded",
                    "size/MSS",
                    packets,
                    self.k,
                    "packets",
                    SOURCE,
                );
            }
        }
        let numbers = format!("{} x {} / (8 x {})", rate.0, significant(rtt.0), mss.0);
        e.step(
            "L",
            "packets that fill the pipe",
            "bw R / (8 MSS)",
            numbers,
            self.l,
            "packets",
            SOURCE,
        );
        let numbers = format!("min({}, {})", significant(self.l), significant(self.k));
        e.step(
            "M",
            "largest useful window",
            "min(L, K)",
            numbers,
            self.m,
            "packets",
            SOURCE,
        );
        let numbers = format!("floor(log2(ceil({} / 2)))", significant(self.m));
        e.step(
            "S",
            "slow-start rounds",
            "floor(log2(ceil(M/2)))",
            numbers,
            f64::from(self.s),
            "rounds",
            SOURCE,
        );
        let numbers = format!("{bits} x {} / {}", size.0, rate.0);
        e.step(
            "Tf",
            "time on the wire",
            format!("{bits} size / bw"),
            numbers,
            self.tf.0,
            "s",
            SOURCE,
        );
        let numbers = format!("{} x {} + {}", significant(rtt.0), self.s, significant(rtt.0));
        e.step(
            "W",
            "setup and slow start",
            "R S + R",
            numbers,
            self.w.0,
            "s",
            SOURCE,
        );
        let numbers = format!("{} + {}", significant(rtt.0), significant(self.tf.0));
        e.step(
            "Tmin",
            "request and time on the wire",
            "R + Tf",
            numbers,
            self.tmin.0,
            "s",
            SOURCE,
        );
        let numbers = format!("{} + {}", significant(self.tmin.0), significant(self.w.0));
        e.step(
            "T",
            "transaction over TCP",
            "Tmin + W",
            numbers,
            self.t.0,
            "s",
            SOURCE,
        );
        let numbers = format!("{} - {}", significant(self.t.0), significant(rtt.0));
        e.step(
            "T_TTCP",
            "transaction over T/TCP",
            "T - R",
            numbers,
            self.t_ttcp.0,
            "s",
            SOURCE,
        );
        e.assumptions.extend([
            "one transaction alone on the link",
            "no loss, no server time, requests and headers take no time on the wire",
            "slow start from one segment, doubling, costs S whole round trips",
        ]);
        e.region.extend([
            Region {
                quantity: Quantity::Loss,
                low: 0.0,
                high: 0.001,
                outside: "retransmissions dominate; use the model with loss",
            },
            Region {
                quantity: Quantity::RttVariability,
                low: 0.0,
                high: 0.25,
                outside: "one RTT no longer describes the path",
            },
        ]);
        if self.mode == Mode::Paper {
            e.warnings
                .push("paper mode: Tf counts 1,000 B as 1,024 B and K is not rounded up".to_owned());
        }
        e
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer() -> Transfer {
        Transfer {
            size: Bytes(6000),
            rate: Rate(1_544_000),
            rtt: Seconds(0.1),
            mss: Bytes(512),
        }
    }

    #[test]
    fn exact_mode_rounds_packets_up_and_counts_eight_bits() {
        let exact = transfer().transaction(Mode::Exact).unwrap();
        assert_eq!((exact.k, exact.n, exact.s), (12.0, 12, 2));
        assert!((exact.tf.0 - 48_000.0 / 1_544_000.0).abs() < 1e-15);
        let paper = transfer().transaction(Mode::Paper).unwrap();
        assert!((paper.tf.0 / exact.tf.0 - 1.024).abs() < 1e-12);
        assert_eq!(paper.k, 11.71875);
    }

    #[test]
    fn slow_start_costs_nothing_up_to_two_packets() {
        for (m, s) in [
            (0.4, 0),
            (1.0, 0),
            (2.0, 0),
            (2.1, 1),
            (4.0, 1),
            (8.0, 2),
            (37.7, 4),
            (1092.2, 9),
        ] {
            assert_eq!(slow_start_rounds(m), s, "M = {m}");
        }
    }

    #[test]
    fn zero_parameters_are_named() {
        for (broken, name) in [
            (
                Transfer {
                    size: Bytes(0),
                    ..transfer()
                },
                "size",
            ),
            (
                Transfer {
                    rate: Rate(0),
                    ..transfer()
                },
                "rate",
            ),
            (
                Transfer {
                    rtt: Seconds(0.0),
                    ..transfer()
                },
                "RTT",
            ),
            (
                Transfer {
                    mss: Bytes(0),
                    ..transfer()
                },
                "MSS",
            ),
        ] {
            let error = broken.transaction(Mode::Exact).unwrap_err();
            assert!(error.to_string().starts_with(name), "{error}");
        }
    }

    #[test]
    fn the_derivation_shows_every_symbol_with_numbers() {
        let text = transfer().transaction(Mode::Exact).unwrap().explain().to_string();
        for part in [
            "K = ceil(size/MSS) = 6000 / 512 = 12 packets",
            "L = bw R / (8 MSS) = 1544000 x 0.1 / (8 x 512) = 37.7 packets",
            "S = floor(log2(ceil(M/2))) = floor(log2(ceil(12 / 2))) = 2 rounds",
            "T = Tmin + W = 0.1311 + 0.3 = 0.4311 s",
        ] {
            assert!(text.contains(part), "{part} missing in\n{text}");
        }
    }
}
