//! Expected latency of a transfer that may lose packets: Cardwell, Savage and Anderson, "Modeling TCP
//! Latency", INFOCOM 2000, extended by the rate of the slowest link.
//!
//! The paper's path has no rate. Here a link of rate C carries at most `R/s + 1` segments of `s` seconds
//! per `R + s`, which enters as one more cap on the window. At loss zero the ramp form is exact instead.

use super::Sender;
use super::ramp::{Path, slow_start_rounds};
use super::setup::Setup;
use super::steady::{backoff, steady, timeout_chance};
use crate::Seconds;
use crate::domain::{DomainError, positive, within};
use crate::explain::{Bound, Explained, Quantity, Region, significant};
use measure::Bytes;
use serde::Serialize;

const SOURCE: &str = "Cardwell et al. 2000";

/// The expected latency of one transfer, part by part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// `d`, segments.
    pub segments: f64,
    /// Setup round trips with lost SYNs sent again, Eq. 4.
    pub setup: Seconds,
    /// The request's own round trip, which the paper counts to the client's request.
    pub request: Seconds,
    /// Segments sent before the first loss, Eq. 5.
    pub slow_start_segments: f64,
    /// Time in slow start, Eq. 15; without loss from the windows over the link.
    pub slow_start: Seconds,
    /// Cost of the loss that ends slow start, Eq. 20.
    pub first_loss: Seconds,
    /// Rest of the data at the long-run rate, Eq. 24.
    pub congestion_avoidance: Seconds,
    /// The receiver's delayed first ACK.
    pub delayed_ack: Seconds,
    /// All of it.
    pub total: Seconds,
}

/// Latency of `size` over `path` with loss `p` per packet in each direction, `0 <= p < 0.5`.
pub fn latency(
    path: &Path,
    sender: &Sender,
    setup: Setup,
    size: Bytes,
    p: f64,
) -> Result<Explained<Latency>, DomainError> {
    sender.check()?;
    positive("size", size.0 as f64, "1 B or more")?;
    positive("RTT", path.rtt.0, "above 0 s")?;
    within(
        "loss",
        p,
        (0.0..0.5).contains(&p),
        "0 or more, below 0.5 per packet",
    )?;
    let parts = if p == 0.0 {
        without_loss(path, sender, setup, size)
    } else {
        with_loss(path, sender, setup, size, p)?
    };
    Ok(explain(path, sender, setup, size, p, parts))
}

fn setup_time(path: &Path, sender: &Sender, setup: Setup, p: f64) -> Seconds {
    let odds = (1.0 - p) / (1.0 - 2.0 * p);
    let trips = f64::from(setup.round_trips());
    // Each setup round trip is a message each way; only the SYN's timeout is that long, so the rest is bounded by it.
    let resent = if setup.round_trips() == 0 {
        0.0
    } else {
        sender.syn_timeout.0 * (2.0 * odds - 2.0)
    };
    Seconds(path.rtt.0 * trips + resent)
}

fn without_loss(path: &Path, sender: &Sender, setup: Setup, size: Bytes) -> Latency {
    let sent = path.send(sender, size, sender.initial_window);
    let setup = setup_time(path, sender, setup, 0.0);
    let delayed = if sender.initial_window.min(sender.cap()) < 2.0 && sent.segments > 1.0 {
        sender.first_ack_delay
    } else {
        Seconds::ZERO
    };
    Latency {
        segments: sent.segments,
        setup,
        request: path.rtt,
        slow_start_segments: sent.segments,
        slow_start: sent.sending() - delayed,
        first_loss: Seconds::ZERO,
        congestion_avoidance: Seconds::ZERO,
        delayed_ack: delayed,
        total: setup + path.rtt + sent.sending(),
    }
}

fn with_loss(
    path: &Path,
    sender: &Sender,
    setup: Setup,
    size: Bytes,
    p: f64,
) -> Result<Latency, DomainError> {
    let d = sender.segments(size);
    let segment = path.wire((sender.mss.0 + sender.header.0) as f64);
    let rtt = path.rtt.0 + segment;
    let pipe = if segment > 0.0 {
        rtt / segment
    } else {
        f64::INFINITY
    };
    let capped = Sender {
        window_max: Some(sender.cap().min(pipe).max(1.0)).filter(|cap| cap.is_finite()),
        initial_window: sender.initial_window.min(pipe.max(1.0)).min(sender.cap()),
        ..*sender
    };
    let survive = f64::exp(d * f64::ln_1p(-p));
    let slow_start_segments = ((1.0 - survive) * (1.0 - p) / p + 1.0).min(d);
    let g = capped.growth;
    let window = (slow_start_segments * (g - 1.0) / g + capped.initial_window / g).min(capped.cap());
    // Even one segment takes a round; the real-valued form would grant it a part of one.
    let slow_start = Seconds(rtt * slow_start_rounds(&capped, slow_start_segments).max(1.0));
    let chance = timeout_chance(p, window);
    let timeout = backoff(p) * sender.timeout.0 / (1.0 - p);
    let first_loss = Seconds((1.0 - survive) * (chance * timeout + (1.0 - chance) * rtt));
    let rate = steady(&capped, Seconds(rtt), p)?.throughput;
    let congestion_avoidance = Seconds((d - slow_start_segments) / rate);
    let delayed_ack = if capped.initial_window < 2.0 && d > 1.0 {
        sender.first_ack_delay
    } else {
        Seconds::ZERO
    };
    let setup = setup_time(path, sender, setup, p);
    // Cardwell's slow start counts whole rounds, the last of which is the data's way to the client and
    // the wait for its ACK: the request's round trip is inside it.
    let request = Seconds::ZERO;
    Ok(Latency {
        segments: d,
        setup,
        request,
        slow_start_segments,
        slow_start,
        first_loss,
        congestion_avoidance,
        delayed_ack,
        total: setup + request + slow_start + first_loss + congestion_avoidance + delayed_ack,
    })
}

fn explain(
    path: &Path,
    sender: &Sender,
    setup: Setup,
    size: Bytes,
    p: f64,
    parts: Latency,
) -> Explained<Latency> {
    let over = path
        .rate
        .map_or_else(|| "no rate limit".to_owned(), |rate| rate.to_string());
    let line = format!(
        "{size} over {over}, round trip {}, loss {}: {}",
        path.rtt,
        significant(p),
        parts.total
    );
    let mut e = Explained::new(parts, line);
    let numbers = format!("{} / {}", size.0, sender.mss.0);
    e.step(
        "d",
        "segments",
        "ceil(size/MSS)",
        numbers,
        parts.segments,
        "segments",
        SOURCE,
    );
    let numbers = format!("{} x {}", setup.round_trips(), significant(path.rtt.0));
    if p == 0.0 {
        e.step(
            "L_h",
            setup.name(),
            "round trips x R",
            numbers,
            parts.setup.0,
            "s",
            setup.source(),
        );
        e.step("R", "request", "R", "", parts.request.0, "s", "document 004");
        let numbers = format!(
            "w = {}, g = {}, {} segments",
            significant(sender.initial_window),
            significant(sender.growth),
            significant(parts.segments)
        );
        let formula = "o/C + sum_i max(0, R + s/C - w g^i s/C)";
        e.step(
            "T_ss",
            "wire and stalls",
            formula,
            numbers,
            parts.slow_start.0,
            "s",
            "Kurose and Ross, generalized",
        );
    } else {
        let formula = "trips x R + Ts (2 (1-p)/(1-2p) - 2)";
        let numbers = format!("{numbers} + {} (...)", significant(sender.syn_timeout.0));
        e.step(
            "L_h",
            setup.name(),
            formula,
            numbers,
            parts.setup.0,
            "s",
            "Cardwell et al. 2000, Eq. 4",
        );
        let formula = "min(d, (1-(1-p)^d)(1-p)/p + 1)";
        let numbers = format!("d = {}, p = {}", significant(parts.segments), significant(p));
        let value = parts.slow_start_segments;
        e.step(
            "d_ss",
            "segments before the first loss",
            formula,
            numbers,
            value,
            "segments",
            "Cardwell et al. 2000, Eq. 5",
        );
        let formula = "R log_g(d_ss (g-1)/w + 1), capped at Wmax";
        let numbers = format!(
            "R = {}, g = {}, w = {}",
            significant(path.rtt.0),
            significant(sender.growth),
            significant(sender.initial_window)
        );
        e.step(
            "T_ss",
            "slow start",
            formula,
            numbers,
            parts.slow_start.0,
            "s",
            "Cardwell et al. 2000, Eq. 15",
        );
        let formula = "(1-(1-p)^d)(Q G(p) T0/(1-p) + (1-Q) R)";
        let numbers = format!("T0 = {}", significant(sender.timeout.0));
        e.step(
            "T_loss",
            "first loss",
            formula,
            numbers,
            parts.first_loss.0,
            "s",
            "Cardwell et al. 2000, Eqs. 16 to 20",
        );
        let left = parts.segments - parts.slow_start_segments;
        let numbers = format!("{} segments left", significant(left));
        e.step(
            "T_ca",
            "rest at the long-run rate",
            "(d - d_ss)/R(p)",
            numbers,
            parts.congestion_avoidance.0,
            "s",
            "Cardwell et al. 2000, Eqs. 21 to 24",
        );
    }
    if parts.delayed_ack.0 > 0.0 {
        e.step(
            "T_delack",
            "delayed first ACK",
            "mean of the timer",
            "",
            parts.delayed_ack.0,
            "s",
            SOURCE,
        );
    }
    e.step(
        "T",
        "expected latency",
        "sum of the parts",
        "",
        parts.total.0,
        "s",
        "Cardwell et al. 2000, Eq. 25",
    );
    let floor = path.rtt.0 * f64::from(setup.round_trips() + 1) + path.wire(sender.wire_bytes(size));
    e.bounds.push(Bound {
        quantity: "latency",
        low: if p == 0.0 { floor } else { floor - path.rtt.0 },
        high: None,
        unit: "s",
        source: "round trips and time on the wire alone",
    });
    e.assumptions.extend([
        "Reno with slow start and congestion avoidance; the link is not shared",
        "losses are independent between rounds; within a round everything after the first loss is lost",
    ]);
    e.region.push(Region {
        quantity: Quantity::Loss,
        low: p / 2.0,
        high: if p == 0.0 { 0.001 } else { (p * 2.0).min(0.1) },
        outside: "latency was computed for another loss rate",
    });
    e.region.push(Region {
        quantity: Quantity::RttVariability,
        low: 0.0,
        high: 0.25,
        outside: "one RTT no longer describes the path",
    });
    if let Some(caveat) = setup.caveat() {
        e.warnings.push(caveat.to_owned());
    }
    if p > 0.1 {
        e.warnings.push(format!(
            "loss {} is beyond the 10 % up to which PFTK was validated",
            significant(p)
        ));
    }
    e
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::Rate;

    fn path() -> Path {
        Path {
            rate: None,
            rtt: Seconds(0.1),
        }
    }

    fn total(path: Path, size: u64, p: f64) -> f64 {
        latency(&path, &Sender::modern(Bytes(1460)), Setup::Tcp, Bytes(size), p)
            .unwrap()
            .answer
            .total
            .0
    }

    #[test]
    fn vanishing_loss_becomes_the_windows_without_loss() {
        // 10 + 20 + 40 + 80 segments are exactly four rounds.
        let lossy = total(path(), 150 * 1460, 1e-9);
        let clean = total(path(), 150 * 1460, 0.0);
        assert!((lossy - clean).abs() < 1e-3, "{lossy} {clean}");
    }

    #[test]
    fn latency_grows_with_loss_and_size() {
        for size in [1_000, 50_000, 1_000_000] {
            let mut last = 0.0;
            for p in [0.0001, 0.001, 0.01, 0.05, 0.1, 0.2, 0.4] {
                let t = total(path(), size, p);
                assert!(t > last, "{size} {p}: {t} after {last}");
                last = t;
            }
        }
        assert!(total(path(), 1_000_000, 0.01) > total(path(), 100_000, 0.01));
    }

    #[test]
    fn a_bulk_transfer_runs_at_the_long_run_rate_or_the_link() {
        let sender = Sender::modern(Bytes(1460));
        let size = 1460 * 1_000_000;
        let t = total(path(), size, 0.01);
        let rate = steady(&sender, Seconds(0.1), 0.01).unwrap().throughput;
        assert!((t / (1_000_000.0 / rate) - 1.0).abs() < 0.01);
        let slow = Path {
            rate: Some(Rate(100_000)),
            rtt: Seconds(0.1),
        };
        let wire = 1512.0 * 8.0 / 100_000.0 * 1_000.0;
        let t = total(slow, 1460 * 1000, 1e-7);
        assert!((t / wire - 1.0).abs() < 0.02, "{t} {wire}");
    }

    #[test]
    fn the_domain_is_guarded() {
        for p in [-0.1, 0.5, f64::NAN] {
            assert!(latency(&path(), &Sender::modern(Bytes(1460)), Setup::Tcp, Bytes(1), p).is_err());
        }
        assert!(latency(&path(), &Sender::modern(Bytes(1460)), Setup::Tcp, Bytes(0), 0.0).is_err());
    }

    #[test]
    fn setups_differ_by_whole_round_trips() {
        let base = total(path(), 1000, 0.0);
        for setup in Setup::ALL {
            let t = latency(&path(), &Sender::modern(Bytes(1460)), setup, Bytes(1000), 0.0).unwrap();
            let trips = (t.answer.total.0 - base) / 0.1 + 1.0;
            assert!(
                (trips - f64::from(setup.round_trips())).abs() < 1e-9,
                "{}",
                setup.name()
            );
            assert_eq!(t.warnings.is_empty(), setup.caveat().is_none());
        }
    }
}
