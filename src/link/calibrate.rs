//! `weir link --calibrate`: the accuracy of the link on this machine, as a table or JSON, checked against fixed
//! limits.

use super::refused;
use crate::cli::link::Flags;
use crate::failure::Failure;
use crate::output;
use crate::voice::Voice;
use netem::Plan;
use netem::calibrate::{Effort, Findings, measure};
use serde_json::json;
use units::{Duration, Rate};

/// Limits of an accurate link.
const RATE_ERROR_MAX: f64 = 0.01;
const DELAY_ERROR_P99_MAX: Duration = Duration::from_micros(200);
const UNSHAPED_MIN: Rate = Rate::mbit(1_000);

pub(super) fn run(plan: &Plan, flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    let mut plan = plan.clone();
    if flags.link.is_none() && flags.words.given().is_empty() {
        // A line that a thousand probes per second load lightly, and a delay well above noise.
        let text = "rate=10M delay=20ms";
        plan.profile = link::Profile::parse(text, &plan.limits, &mut |_| Err(String::new()))
            .map_err(|fault| Failure::Usage(fault.to_string()))?;
    }
    let effort = Effort {
        probes_per_second: 1_000,
        span: Duration::from_secs(2),
    };
    let found = measure(&plan, effort).map_err(refused)?;
    let faults = judge(&found);
    if voice.json {
        output::print(&format!("{}\n", json(&plan, &found, &faults)))?;
    } else {
        output::print(&format!("{}\n", table(&plan, &found)))?;
    }
    if faults.is_empty() {
        return Ok(());
    }
    Err(Failure::Invalid(format!(
        "the link is too inexact: {}; a busy machine is the usual cause, measure again when it is quiet",
        faults.join("; ")
    )))
}

fn judge(found: &Findings) -> Vec<String> {
    let mut faults = Vec::new();
    let p99 = found.delay.errors.quantile(0.99);
    if found.delay.errors.is_empty() {
        faults.push("no probe came through".to_owned());
    }
    if p99 > DELAY_ERROR_P99_MAX {
        faults.push(format!(
            "delay error p99 is {:.3} ms, more than 0.2 ms",
            p99.as_secs_f64() * 1e3
        ));
    }
    if found.delay.reordered > 0 {
        faults.push(format!("{} probes overtook others", found.delay.reordered));
    }
    if found.delay.misjudged > 0 {
        faults.push(format!(
            "{} probes were lost or came although the profile says otherwise",
            found.delay.misjudged
        ));
    }
    for (rate, name) in found.rates.iter().zip(["up", "down"]) {
        if let Some(rate) = rate.filter(|rate| rate.share().abs() > RATE_ERROR_MAX) {
            faults.push(format!(
                "the rate {name} is off by {:+.2} %, more than 1 %",
                rate.share() * 100.0
            ));
        }
    }
    if found.unshaped.bits_per_second < UNSHAPED_MIN.bits_per_second() {
        faults.push(format!(
            "unshaped it moves {:.2} Gbit/s, less than 1",
            found.unshaped.bits_per_second / 1e9
        ));
    }
    faults
}

fn table(plan: &Plan, found: &Findings) -> String {
    let ms = |share: f64| found.delay.errors.quantile(share).as_secs_f64() * 1e3;
    let own = |share: f64| found.delay.own.quantile(share).as_secs_f64() * 1e3;
    let mut lines = vec![
        format!("{} over {}", plan.profile.name, found.backend),
        format!(
            "delay     error p50 {:.4} ms, p90 {:.4}, p99 {:.4}, max {:.4} ({} probes at {:.0}/s)",
            ms(0.5),
            ms(0.9),
            ms(0.99),
            ms(1.0),
            found.delay.sent,
            found.delay.pace
        ),
        format!(
            "of which  p50 {:.4} ms, p99 {:.4} at most are the method's own: probes that cross no link",
            own(0.5),
            own(0.99)
        ),
        format!(
            "order     {} overtook others, {} wrongly lost or kept",
            found.delay.reordered, found.delay.misjudged
        ),
    ];
    for (rate, name) in found.rates.iter().zip(["up", "down"]) {
        lines.push(match rate {
            Some(rate) => format!(
                "rate {name:<4} {:+.3} % of {} ({} packets)",
                rate.share() * 100.0,
                rate.described,
                rate.packets
            ),
            None => format!("rate {name:<4} no fixed rate to compare with"),
        });
    }
    for (through, name) in [(&found.unshaped, "unshaped "), (&found.packetwise, "packets  ")] {
        lines.push(format!(
            "{name} {:.2} Gbit/s, the emulator's thread {:.0} % busy",
            through.bits_per_second / 1e9,
            through.emulator_load * 100.0
        ));
    }
    lines.join("\n")
}

fn json(plan: &Plan, found: &Findings, faults: &[String]) -> serde_json::Value {
    let ms = |share: f64| found.delay.errors.quantile(share).as_secs_f64() * 1e3;
    let own = |share: f64| found.delay.own.quantile(share).as_secs_f64() * 1e3;
    let rate = |k: usize| {
        found.rates[k].map(|rate| {
            json!({
                "described_bits_per_second": rate.described.0,
                "measured_bits_per_second": rate.measured,
                "error": rate.share(),
                "packets": rate.packets,
            })
        })
    };
    json!({
        "version": 1,
        "link": plan.profile.name,
        "seed": plan.seed.0,
        "backend": found.backend.to_string(),
        "delay_error_ms": { "p50": ms(0.5), "p90": ms(0.9), "p99": ms(0.99), "max": ms(1.0) },
        "method_error_ms": { "p50": own(0.5), "p99": own(0.99) },
        "probes": found.delay.sent,
        "probes_per_second": found.delay.pace,
        "reordered": found.delay.reordered,
        "misjudged": found.delay.misjudged,
        "overflowed": found.delay.overflowed,
        "rate_up": rate(0),
        "rate_down": rate(1),
        "unshaped_bits_per_second": found.unshaped.bits_per_second,
        "unshaped_emulator_load": found.unshaped.emulator_load,
        "packetwise_bits_per_second": found.packetwise.bits_per_second,
        "packetwise_emulator_load": found.packetwise.emulator_load,
        "bounds": {
            "rate_error": RATE_ERROR_MAX,
            "delay_error_p99_ms": DELAY_ERROR_P99_MAX.as_secs_f64() * 1e3,
            "reordered": 0,
            "unshaped_bits_per_second": UNSHAPED_MIN.0,
        },
        "met": faults.is_empty(),
        "faults": faults,
    })
}
