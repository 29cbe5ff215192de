//! The server's figures at one moment, for the live page and `live.json`.

use crate::adapt::Noted;
use crate::config::{Adapt, Config, show_duration};
use crate::counters::Totals;
use crate::latency::Durations;
use crate::proxy::Forwarding;
use crate::proxy::cache::{Count, Report};
use crate::service::{Certificate, Server};
use crate::store::StoreCounters;
use balance::State;
use std::fmt::Write;
use units::{Duration, UnixTime};

/// A snapshot of the figures.
#[derive(Debug)]
pub(super) struct Figures {
    wall: UnixTime,
    pub(super) totals: Totals,
    pub(super) workers: Vec<(usize, Totals)>,
    pub(super) open: u32,
    pub(super) addresses: usize,
    pub(super) cache: StoreCounters,
    pub(super) cache_size: u64,
    pub(super) policy: String,
    pub(super) strategy: String,
    pub(super) durations: Durations,
    /// Settings changed by adaptation since the start.
    pub(super) changes: u64,
    /// Changes that a dry run decided and did not make. `None` if there is no dry run.
    pub(super) dry_run: Option<u64>,
    /// Idle timeout in force.
    pub(super) idle: String,
    /// The last decisions, newest first.
    pub(super) decisions: Vec<String>,
    /// Certificates and how long each is valid. Empty without TLS.
    pub(super) certificates: Vec<String>,
    /// Upstreams of `[[proxy]]` rules in the process that answers, each in a line.
    pub(super) upstreams: Vec<String>,
    pub(super) sites: usize,
    pub(super) uptime_secs: u64,
    /// ID of the process that answers, if there are several. The figures cover all of them.
    pub(super) process: Option<u32>,
    pub(super) processes: usize,
}

/// The quantiles of response times that are shown, with their names.
pub(super) const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// How many decisions the page shows.
pub(super) const DECISIONS_SHOWN: usize = 8;

impl Figures {
    pub(super) fn of(server: &Server, wall: UnixTime) -> Figures {
        let config = server.config();
        let readings = server.readings();
        let (cache, cache_size) = readings
            .cache
            .unwrap_or_else(|| (server.cache(), config.cache_size.0));
        let about = server.about();
        let decisions = server.decisions();
        let is_dry_run = config.adapt == Adapt::DryRun || decisions.dry_run() > 0;
        Figures {
            wall,
            totals: readings.totals(),
            workers: readings.workers,
            open: server.open_connections(),
            addresses: server.open_addresses(),
            cache,
            cache_size,
            policy: config.cache_policy.to_string(),
            strategy: about.strategy.clone(),
            durations: readings.durations,
            changes: server.changes(),
            idle: show_duration(server.settings().keep_alive.unwrap_or_else(|| idle(&config))),
            dry_run: is_dry_run.then_some(decisions.dry_run()),
            decisions: decisions.newest().take(DECISIONS_SHOWN).map(said).collect(),
            certificates: about
                .certificates
                .iter()
                .map(|certificate| validity(certificate, wall))
                .collect(),
            upstreams: server
                .upstreams()
                .iter()
                .flat_map(upstreams)
                .chain(server.caches().iter().map(proxy_cache))
                .collect(),
            sites: 1 + config.host.len(),
            process: about.process,
            processes: readings.processes,
            uptime_secs: (wall.secs - about.started.secs).max(0).unsigned_abs(),
        }
    }

    /// The figures as one JSON object, with the time of its counts (`at-ms`), so that readers can compute rates.
    pub(super) fn json(&self) -> String {
        let mut out = String::from("{");
        let millis = self.wall.secs * 1_000 + i64::from(self.wall.nanos / 1_000_000);
        let _ = write!(
            out,
            "\"at-ms\":{millis},\"process\":{},\"processes\":{},\"uptime-s\":{},\"strategy\":\"{}\",\"cache-policy\":\"{}\",\"certificates\":[{}],\"upstreams\":[{}],\"sites\":{},\
             \"connections\":{},\"addresses\":{},\"cache\":{{\"entries\":{},\"bytes\":{},\"bytes-max\":{},\
             \"descriptors\":{},\"evictions\":{},\"turned-away\":{},\"ahead\":{}}},\"totals\":",
            self.process.map_or("null".to_owned(), |pid| pid.to_string()),
            self.processes,
            self.uptime_secs,
            self.strategy,
            self.policy,
            self.certificates
                .iter()
                .map(|text| format!("\"{text}\""))
                .collect::<Vec<_>>()
                .join(","),
            self.upstreams
                .iter()
                .map(|text| format!("\"{text}\""))
                .collect::<Vec<_>>()
                .join(","),
            self.sites,
            self.open,
            self.addresses,
            self.cache.entries,
            self.cache.bytes,
            self.cache_size,
            self.cache.descriptors,
            self.cache.evictions,
            self.cache.turned_away,
            self.cache.ahead,
        );
        counts(&mut out, &self.totals);
        out.push_str(",\"workers\":[");
        for (index, (_, worker)) in self.workers.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            counts(&mut out, worker);
        }
        out.push_str("],\"latency-us\":{");
        for (index, (name, share)) in QUANTILES.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let value = self.durations.quantile(*share).map(|d| d.as_micros());
            let _ = match value {
                Some(micros) => write!(out, "{comma}\"{name}\":{micros}"),
                None => write!(out, "{comma}\"{name}\":null"),
            };
        }
        let _ = write!(
            out,
            "}},\"adaptation\":{{\"changes\":{},\"dry-run\":{},\"idle\":\"{}\",\"decisions\":[",
            self.changes,
            self.dry_run.map_or("null".to_owned(), |count| count.to_string()),
            self.idle
        );
        for (index, decision) in self.decisions.iter().enumerate() {
            // Durations, numbers and fixed words: nothing that needs escaping in JSON.
            let comma = if index > 0 { "," } else { "" };
            let _ = write!(out, "{comma}\"{decision}\"");
        }
        out.push_str("]},\"latency-cumulative\":[");
        for (index, (bound, count)) in self.durations.cumulative().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let _ = write!(out, "{comma}[{},{count}]", bound.as_micros());
        }
        out.push_str("]}\n");
        out
    }
}

/// The configured idle timeout, or the early close if that is shorter.
fn idle(config: &Config) -> Duration {
    match config.behavior.early_close {
        Duration::ZERO => config.idle_timeout,
        early => early.min(config.idle_timeout),
    }
}

/// A rule's upstreams in words, and its dry run. Paths and addresses may be anything, so only what they are usually made of
/// is shown.
fn upstreams(forwarding: &Forwarding) -> Vec<String> {
    let plain = |text: &str| -> String {
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || ".-*_:/[]".contains(*c);
        text.chars().filter(is_plain).collect()
    };
    let path = plain(&forwarding.path);
    let time = |name: &str, seconds: Option<f64>| {
        seconds.map_or(String::new(), |seconds| {
            format!(", {name} {:.3} ms", seconds * 1e3)
        })
    };
    let line = |(address, state): &(String, State)| {
        // Before the first response, the growth has no unit.
        let growth = state.service.map(|_| state.growth);
        format!(
            "{path} {}: {}, {} under way of {}{}{}{}{}",
            plain(address),
            state.health,
            state.under_way,
            state.requests,
            time("response", state.response),
            time("service", state.service),
            time("network", state.network),
            time("next request adds", growth),
        )
    };
    let mut lines: Vec<String> = forwarding.upstreams.iter().map(line).collect();
    if let Some(dry) = forwarding.dry_run {
        lines.push(format!(
            "{path}: {} of {} choices would differ with {} in place of {}",
            dry.differing, dry.choices, dry.policy, forwarding.policy
        ));
    }
    lines
}

/// A cache of the proxy in words.
fn proxy_cache((upstreams, report): &(String, Report)) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || ".-*_:/[] ".contains(*c);
    let upstreams: String = upstreams.chars().filter(is_plain).collect();
    let count = |what: Count| report.counts[what as usize];
    format!(
        "cache of {upstreams}: {} hits, {} misses, {} validated, {} collapsed, {} responses in {} of {} KiB, {} evicted",
        count(Count::Hits),
        count(Count::Misses),
        count(Count::Validated),
        count(Count::Collapsed),
        report.entries,
        report.bytes >> 10,
        report.bytes_max >> 10,
        report.evictions,
    )
}

/// A certificate in words. Its name may be anything, so only what names are made of is shown.
fn validity(certificate: &Certificate, now: UnixTime) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || ".-*_:/".contains(*c);
    let name: String = certificate.name.chars().filter(plain).collect();
    match certificate.expires.secs.saturating_sub(now.secs) {
        ..=0 => format!("{name}: expired"),
        left @ 1..172_800 => format!("{name}: {} hours left", left / 3_600),
        left => format!("{name}: {} days left", left / 86_400),
    }
}

/// A decision as one line, with the time of day in UTC, marked if it is a dry run's.
fn said(noted: &Noted) -> String {
    let of_day = noted.at.secs.rem_euclid(86_400);
    let decision = &noted.decision;
    let (dry, changes) = match noted.applied {
        true => ("", ""),
        false => ("dry run: ", " would change"),
    };
    format!(
        "{:02}:{:02}:{:02} {dry}{}{changes} from {} to {}: {}",
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60,
        decision.knob.name(),
        decision.from,
        decision.to,
        decision.why
    )
}

fn counts(out: &mut String, totals: &Totals) {
    out.push('{');
    for (index, (name, count)) in totals.each().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let _ = write!(out, "{comma}\"{}\":{count}", name.replace('_', "-"));
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_of_a_dry_run_says_that_it_is_one() {
        let mut noted = Noted {
            at: UnixTime::from_secs(86_400 + 3_661),
            decision: crate::adapt::Decision {
                knob: crate::adapt::Knob::Compression,
                from: "a".to_owned(),
                to: "b".to_owned(),
                why: "so".to_owned(),
            },
            applied: true,
        };
        assert_eq!(said(&noted), "01:01:01 compression from a to b: so");
        noted.applied = false;
        assert_eq!(
            said(&noted),
            "01:01:01 dry run: compression would change from a to b: so"
        );
    }

    #[test]
    fn what_closes_first_is_how_long_a_connection_may_be_idle() {
        let mut config = Config::default();
        assert_eq!(idle(&config), config.idle_timeout);
        config.behavior.early_close = Duration::from_secs(5);
        assert_eq!(show_duration(idle(&config)), "5s");
        config.behavior.early_close = config.idle_timeout * 2;
        assert_eq!(idle(&config), config.idle_timeout);
    }
}
