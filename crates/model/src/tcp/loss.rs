//! Expected latency of a transfer with packet loss: the transfer without loss, plus the effect of loss according to
//! Cardwell, Savage and Anderson, "Modeling TCP Latency", INFOCOM 2000.
//!
//! The paper counts rounds as real numbers and its path has no rate. Its sum can therefore be less than the time
//! without loss, and even less than the time on the wire. Weir uses its parts as differences, which vanish with the
//! loss:
//!
//! ```text
//! T = T_0 + (L_h(p) - L_h(0)) + T_loss + [T_ca - (T_ss(d) - T_ss(d_ss))]
//! ```
//!
//! `T_0` is the ramp form, windows over the link, exact without loss. The bracket is the time by which the segments
//! after the first loss take longer than in slow start. A link of rate C carries at most `R/s + 1` segments of `s`
//! seconds per `R + s`, which limits the windows of slow start; no long-run rate exceeds C or a window per round
//! trip. So latency never falls when loss, round trip or size grow.

use super::ramp::{Path, slow_start_rounds};
use super::setup::Setup;
use super::steady::{backoff, steady, timeout_chance};
use super::{Sender, Timeout};
use crate::Seconds;
use crate::domain::{DomainError, positive, within};
use crate::explain::{Bound, Explained, Quantity, Region, significant};
use serde::Serialize;
use units::Bytes;

const SOURCE: &str = "Cardwell et al. 2000";

/// The expected latency of one transfer, part by part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// `d`, segments.
    pub segments: f64,
    /// Set-up round trips with retransmitted SYNs, Eq. 4.
    pub setup: Seconds,
    /// The request's own round trip.
    pub request: Seconds,
    /// Segments sent before the first loss, Eq. 5.
    pub slow_start_segments: f64,
    /// Wire and stalls of these, from the windows over the link.
    pub slow_start: Seconds,
    /// Cost of the loss that ends slow start, Eq. 20.
    pub first_loss: Seconds,
    /// Rest of the data at the long-run rate, Eq. 24.
    pub congestion_avoidance: Seconds,
    /// The receiver's delayed first ACK.
    pub delayed_ack: Seconds,
    /// Sum of the parts.
    pub total: Seconds,
}

/// Intermediate values of the parts with loss.
#[derive(Clone, Copy, Debug)]
struct Lossy {
    /// `R + s/C`.
    rtt: f64,
    /// Largest number of segments in a round of slow start.
    cap: f64,
    /// `T_ss(d)` and `T_ss(d_ss)`.
    rounds: (f64, f64),
    /// `W`, the window at the first loss, in segments.
    window: f64,
    /// `Q`.
    timeout_chance: f64,
    /// `G`.
    backoff: f64,
    /// `T0`.
    timeout: f64,
    /// `R(p)`, segments per second: the long-run rate, the link's, and a window a round trip.
    rate: (f64, [f64; 3]),
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
    check(p)?;
    let clean = without_loss(path, sender, setup, size);
    let (parts, lossy) = if p == 0.0 {
        (clean, None)
    } else {
        let (parts, lossy) = with_loss(path, sender, setup, clean, p)?;
        (parts, Some(lossy))
    };
    Ok(explain(path, sender, setup, size, p, parts, clean, lossy))
}

/// Whether the model has an answer for loss `p`.
pub(crate) fn check(p: f64) -> Result<(), DomainError> {
    let allowed = "0 or more, below 0.5 per packet";
    within("loss", p, (0.0..0.5).contains(&p), allowed).map(|_| ())
}

/// The part of the expected latency of `size` that is due to loss, set-up included: [`latency`] with loss minus
/// [`latency`] without. Zero for zero bytes, and never negative.
pub fn added(
    path: &Path,
    sender: &Sender,
    setup: Setup,
    size: Bytes,
    p: f64,
) -> Result<Seconds, DomainError> {
    sender.check()?;
    positive("RTT", path.rtt.0, "above 0 s")?;
    check(p)?;
    if p == 0.0 || size.0 == 0 {
        return Ok(Seconds::ZERO);
    }
    let clean = without_loss(path, sender, setup, size);
    let (lossy, _) = with_loss(path, sender, setup, clean, p)?;
    Ok(Seconds((lossy.total - clean.total).0.max(0.0)))
}

/// The region in which an answer for loss `p` holds.
fn region(p: f64) -> [Region; 2] {
    [
        Region {
            quantity: Quantity::Loss,
            low: p / 2.0,
            high: if p == 0.0 { 0.001 } else { (p * 2.0).min(0.5) },
            outside: "latency was computed for another loss rate",
        },
        Region {
            quantity: Quantity::RttVariability,
            low: 0.0,
            high: 0.25,
            outside: "one RTT no longer describes the path",
        },
    ]
}

/// Caveats for loss `p`.
fn caveat(p: f64) -> Option<String> {
    (p > 0.1).then(|| {
        format!(
            "loss {} is beyond the 10 % up to which PFTK was validated",
            significant(p)
        )
    })
}

/// Adds the assumptions about losses to `e`: none, with `advice` for lossy paths; or a share `p` of the packets, from
/// which Reno recovers.
pub(crate) fn grant<T>(e: &mut Explained<T>, p: f64, advice: &'static str) {
    if p == 0.0 {
        e.assumptions.push("no loss");
        e.region.push(Region {
            quantity: Quantity::Loss,
            low: 0.0,
            high: 0.001,
            outside: advice,
        });
        return;
    }
    e.assumptions.push(
        "Reno; losses are independent between rounds, and within a round everything after the first is lost",
    );
    e.region.extend(region(p));
    e.warnings.extend(caveat(p));
}

/// Set-up round trips with retransmitted SYNs, Eq. 4.
pub(crate) fn setup_time(path: &Path, sender: &Sender, setup: Setup, p: f64) -> Seconds {
    let odds = (1.0 - p) / (1.0 - 2.0 * p);
    let trips = f64::from(setup.round_trips());
    // Each set-up round trip is a message in each direction. Only the SYN has the long timeout, so this bounds the
    // others.
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
    clean: Latency,
    p: f64,
) -> Result<(Latency, Lossy), DomainError> {
    let d = clean.segments;
    let segment = path.wire((sender.mss.0 + sender.header.0) as f64);
    let rtt = path.rtt.0 + segment;
    let pipe = if segment > 0.0 {
        rtt / segment
    } else {
        f64::INFINITY
    };
    let cap = sender.cap().min(pipe).max(1.0);
    let capped = Sender {
        window_max: Some(cap).filter(|cap| cap.is_finite()),
        initial_window: sender.initial_window.min(cap),
        ..*sender
    };
    let survive = f64::exp(d * f64::ln_1p(-p));
    let slow_start_segments = ((1.0 - survive) * (1.0 - p) / p + 1.0).min(d);
    // The window may exceed the pipe, because a queue holds the rest, but not the sender's own limit.
    let g = sender.growth;
    let window = (slow_start_segments * (g - 1.0) / g + sender.initial_window / g).min(sender.cap());
    // Even one segment takes a round; the real-valued form would count only a part of one.
    let rounds = |segments: f64| rtt * slow_start_rounds(&capped, segments).max(1.0);
    let rounds = (rounds(d), rounds(slow_start_segments));
    let timeout_chance = timeout_chance(p, window);
    let backoff = backoff(p);
    let timeout = sender.timeout.after(Seconds(rtt)).0;
    let costs = timeout_chance * backoff * timeout / (1.0 - p) + (1.0 - timeout_chance) * rtt;
    let first_loss = Seconds((1.0 - survive) * costs);
    let limits = [
        steady(sender, Seconds(rtt), p)?.throughput,
        if segment > 0.0 {
            1.0 / segment
        } else {
            f64::INFINITY
        },
        window / rtt,
    ];
    let rate = limits.into_iter().fold(f64::INFINITY, f64::min);
    let congestion_avoidance = Seconds((d - slow_start_segments) / rate);
    let slow_start = clean.slow_start - Seconds(rounds.0 - rounds.1);
    let setup = setup_time(path, sender, setup, p);
    let parts = Latency {
        setup,
        slow_start_segments,
        slow_start,
        first_loss,
        congestion_avoidance,
        total: setup + clean.request + slow_start + first_loss + congestion_avoidance + clean.delayed_ack,
        ..clean
    };
    let lossy = Lossy {
        rtt,
        cap,
        rounds,
        window,
        timeout_chance,
        backoff,
        timeout,
        rate: (rate, limits),
    };
    Ok((parts, lossy))
}

#[expect(
    clippy::too_many_arguments,
    reason = "the question, its answer, and what the answer is made of"
)]
fn explain(
    path: &Path,
    sender: &Sender,
    setup: Setup,
    size: Bytes,
    p: f64,
    parts: Latency,
    clean: Latency,
    lossy: Option<Lossy>,
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
    e.step(
        "L_h(0)",
        setup.name(),
        "round trips x R",
        numbers,
        clean.setup.0,
        "s",
        setup.source(),
    );
    e.step("R", "request", "R", "", path.rtt.0, "s", "document 004");
    let numbers = format!(
        "w = {}, g = {}, {} segments",
        significant(sender.initial_window),
        significant(sender.growth),
        significant(parts.segments)
    );
    e.step(
        "T_w",
        "wire and stalls without loss",
        "o/C + sum_i max(0, R + s/C - w g^i s/C)",
        numbers,
        clean.slow_start.0,
        "s",
        "Kurose and Ross, generalized",
    );
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
    match lossy {
        None => e.step(
            "T",
            "latency",
            "L_h + R + T_w + T_delack",
            "",
            parts.total.0,
            "s",
            "sum of the parts",
        ),
        Some(lossy) => lossy.explain(&mut e, sender, setup, p, clean),
    }
    let floor = path.rtt.0 * f64::from(setup.round_trips() + 1) + path.wire(sender.wire_bytes(size));
    e.bounds.push(Bound {
        quantity: "latency",
        low: floor,
        high: None,
        unit: "s",
        source: "round trips and time on the wire alone",
    });
    if p > 0.0 {
        e.bounds.push(Bound {
            quantity: "latency",
            low: clean.total.0,
            high: None,
            unit: "s",
            source: "the same transfer without loss",
        });
    }
    e.assumptions.extend([
        "Reno with slow start and congestion avoidance; the link is not shared",
        "losses are independent between rounds; within a round everything after the first loss is lost",
    ]);
    e.region.extend(region(p));
    if let Some(caveat) = setup.caveat() {
        e.warnings.push(caveat.to_owned());
    }
    e.warnings.extend(self::caveat(p));
    e
}

impl Lossy {
    /// The effect of loss step by step, and the sum.
    fn explain(&self, e: &mut Explained<Latency>, sender: &Sender, setup: Setup, p: f64, clean: Latency) {
        let parts = e.answer;
        let (d, d_ss) = (parts.segments, parts.slow_start_segments);
        let s = significant;
        e.step(
            "T_0",
            "the transfer without loss",
            "L_h(0) + R + T_w + T_delack",
            "",
            clean.total.0,
            "s",
            "sum of the parts",
        );
        let resent = (parts.setup - clean.setup).0;
        let (formula, numbers) = if setup.round_trips() == 0 {
            ("0, nothing precedes the request", String::new())
        } else {
            let odds = format!("(2 x {} / {} - 2)", s(1.0 - p), s(1.0 - 2.0 * p));
            (
                "Ts (2 (1-p)/(1-2p) - 2)",
                format!("{} x {odds}", s(sender.syn_timeout.0)),
            )
        };
        let eq_4 = "Cardwell et al. 2000, Eq. 4";
        e.step(
            "L_h - L_h(0)",
            "lost SYNs sent again",
            formula,
            numbers,
            resent,
            "s",
            eq_4,
        );
        e.step(
            "d_ss",
            "segments before the first loss",
            "min(d, (1-(1-p)^d)(1-p)/p + 1)",
            format!("d = {}, p = {}", s(d), s(p)),
            d_ss,
            "segments",
            "Cardwell et al. 2000, Eq. 5",
        );
        e.step(
            "R'",
            "round trip of a full segment",
            "R + s/C",
            "",
            self.rtt,
            "s",
            "tcp::loss",
        );
        if self.cap.is_finite() {
            let (own, pipe) = (sender.cap(), self.cap);
            let numbers = if own.is_finite() {
                format!("Wmax = {}", s(own))
            } else {
                String::new()
            };
            let (means, formula) = ("most segments of a round", "min(Wmax, C R'/s)");
            e.step("cap", means, formula, numbers, pipe, "segments", "tcp::loss");
        }
        let start = sender.initial_window.min(self.cap);
        let of = |segments: f64| {
            let capped = if self.cap.is_finite() {
                format!(", cap = {}", s(self.cap))
            } else {
                String::new()
            };
            format!(
                "R' = {}, g = {}, w = {}, {} segments{capped}",
                s(self.rtt),
                s(sender.growth),
                s(start),
                s(segments)
            )
        };
        let formula = "R' max(1, log_g(d (g-1)/w + 1)), beyond the cap R' (log_g(cap/w) + 1 + (d - (g cap - w)/(g-1))/cap)";
        let eq_15 = "Cardwell et al. 2000, Eq. 15";
        let (all, first) = self.rounds;
        e.step(
            "T_ss(d)",
            "slow start of all segments",
            formula,
            of(d),
            all,
            "s",
            eq_15,
        );
        let means = "slow start of those before the first loss";
        e.step("T_ss(d_ss)", means, formula, of(d_ss), first, "s", eq_15);
        let numbers = format!(
            "{} x {} / {} + {} / {}",
            s(d_ss),
            s(sender.growth - 1.0),
            s(sender.growth),
            s(sender.initial_window),
            s(sender.growth)
        );
        let (means, formula) = ("window at the first loss", "min(Wmax, d_ss (g-1)/g + w/g)");
        e.step(
            "W",
            means,
            formula,
            numbers,
            self.window,
            "segments",
            "Cardwell et al. 2000",
        );
        e.step(
            "Q",
            "chance that the loss ends in a timeout",
            "min(1, (1 + (1-p)^3 (1 - (1-p)^(W-3))) (1 - (1-p)^3) / (1 - (1-p)^W))",
            format!("p = {}, W = {}", s(p), s(self.window)),
            self.timeout_chance,
            "",
            "Padhye et al. 1998, Eq. 24",
        );
        e.step(
            "G",
            "timeouts of a loss with their backoff, in units of the first",
            "1 + p + 2 p^2 + 4 p^3 + 8 p^4 + 16 p^5 + 32 p^6",
            format!("p = {}", s(p)),
            self.backoff,
            "",
            "Padhye et al. 1998, Eq. 28",
        );
        let numbers = match sender.timeout {
            Timeout::AtLeast(least) => format!("max({}, {})", s(least.0), s(self.rtt)),
            Timeout::Beyond(margin) => format!("{} + {}", s(self.rtt), s(margin.0)),
        };
        let means = "retransmission timeout";
        let (formula, source) = (sender.timeout.formula(), sender.timeout.source());
        e.step("T0", means, formula, numbers, self.timeout, "s", source);
        let numbers = format!(
            "(1 - {}^{}) ({} x {} x {} / {} + {} x {})",
            s(1.0 - p),
            s(d),
            s(self.timeout_chance),
            s(self.backoff),
            s(self.timeout),
            s(1.0 - p),
            s(1.0 - self.timeout_chance),
            s(self.rtt)
        );
        e.step(
            "T_loss",
            "first loss",
            "(1-(1-p)^d)(Q G T0/(1-p) + (1-Q) R')",
            numbers,
            parts.first_loss.0,
            "s",
            "Cardwell et al. 2000, Eqs. 16 to 20",
        );
        e.step(
            "b",
            "round trips in which congestion avoidance adds a segment to the window",
            "segments an ACK covers, or 1 where bytes are counted",
            "",
            sender.rounds_per_increase,
            "round trips",
            "RFC 3465, section 2.1",
        );
        let (rate, [long_run, link, window]) = self.rate;
        e.step(
            "R(p)",
            "rate after the first loss",
            "min(PFTK(p, R', T0, b, Wmax), C/s, W/R')",
            format!(
                "min({}, {}, {})",
                s(long_run),
                if link.is_finite() {
                    s(link)
                } else {
                    "no limit".to_owned()
                },
                s(window)
            ),
            rate,
            "segments/s",
            "Padhye et al. 1998, throughput",
        );
        e.step(
            "T_ca",
            "rest at that rate",
            "(d - d_ss)/R(p)",
            format!("({} - {}) / {}", s(d), s(d_ss), s(rate)),
            parts.congestion_avoidance.0,
            "s",
            "Cardwell et al. 2000, Eqs. 21 to 24",
        );
        e.step(
            "T",
            "expected latency",
            "T_0 + (L_h - L_h(0)) + T_loss + T_ca - (T_ss(d) - T_ss(d_ss))",
            format!(
                "{} + {} + {} + {} - ({} - {})",
                s(clean.total.0),
                s(resent),
                s(parts.first_loss.0),
                s(parts.congestion_avoidance.0),
                s(all),
                s(first)
            ),
            parts.total.0,
            "s",
            "Cardwell et al. 2000, Eq. 25, as what loss adds",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rate;

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
        // Whole rounds and parts of one, on links and off them; a lone byte, too.
        for rate in [
            None,
            Some(Rate(10_000)),
            Some(Rate::mbit(20)),
            Some(Rate::mbit(1000)),
        ] {
            let path = Path { rate, ..path() };
            for size in [1, 1448, 1449, 20_000, 150 * 1448, 10_000_000] {
                let lossy = total(path, size, 1e-12);
                let clean = total(path, size, 0.0);
                assert!(
                    (lossy / clean - 1.0).abs() < 1e-4,
                    "{rate:?} {size}: {lossy} {clean}"
                );
            }
        }
    }

    #[test]
    fn loss_makes_no_transfer_faster() {
        // Found by a search: 461 ms without loss, 387 ms with 0.01 %, and 66 ms where bytes and round trips take 72
        // ms.
        let path = |rtt: f64| Path {
            rate: Some(Rate::mbit(20)),
            rtt: Seconds(rtt),
        };
        let clean = total(path(0.09), 125_000, 0.0);
        assert!(total(path(0.09), 125_000, 0.0001) > clean);
        assert!(total(path(0.01), 125_000, 1e-7) >= 0.02 + 125_000.0 * 8.0 / 20e6);
        let e = latency(
            &path(0.09),
            &Sender::modern(Bytes(1460)),
            Setup::Open,
            Bytes(1448),
            0.01,
        );
        let e = e.unwrap();
        assert!(e.bounds.iter().all(|bound| bound.low > 0.09), "{e}");
        assert!(
            e.bounds.iter().all(|bound| bound.contains(e.answer.total.0)),
            "{e}"
        );
    }

    #[test]
    fn every_number_of_the_derivation_is_in_it() {
        let path = Path {
            rate: Some(Rate::mbit(20)),
            rtt: Seconds(0.09),
        };
        let e = latency(
            &path,
            &Sender::modern(Bytes(1460)),
            Setup::Tcp,
            Bytes(125_000),
            0.01,
        );
        let e = e.unwrap();
        let text = e.to_string();
        for symbol in ["R'", "cap", "W", "Q", "G", "T0", "b", "R(p)", "T_ss(d_ss)"] {
            let step = e.steps.iter().find(|step| step.symbol == symbol);
            assert!(step.is_some_and(|step| step.value > 0.0), "{symbol}: {text}");
        }
        assert!(!text.contains("(...)"), "{text}");
        let of = |symbol: &str| e.steps.iter().find(|step| step.symbol == symbol).unwrap().value;
        let sum =
            of("T_0") + of("L_h - L_h(0)") + of("T_loss") + of("T_ca") - (of("T_ss(d)") - of("T_ss(d_ss)"));
        assert!((sum - of("T")).abs() < 1e-12, "{text}");
        assert!((of("T0") - (of("R'") + 0.2)).abs() < 1e-12, "{text}");
    }

    #[test]
    fn a_region_is_never_upside_down() {
        let lossy = latency(
            &path(),
            &Sender::modern(Bytes(1460)),
            Setup::Tcp,
            Bytes(1000),
            0.499,
        )
        .unwrap();
        assert!(
            lossy.region.iter().all(|region| region.low < region.high),
            "{lossy}"
        );
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
        let size = 1448 * 1_000_000;
        let t = total(path(), size, 0.01);
        let rate = steady(&sender, Seconds(0.1), 0.01).unwrap().throughput;
        assert!((t / (1_000_000.0 / rate) - 1.0).abs() < 0.01);
        let slow = Path {
            rate: Some(Rate(100_000)),
            rtt: Seconds(0.1),
        };
        let wire = 1500.0 * 8.0 / 100_000.0 * 1_000.0;
        let t = total(slow, 1448 * 1000, 1e-7);
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
