//! Whether a run is valid: did this program offer the requested load, and did it measure correctly?
//!
//! A slow server makes no run invalid, but requests it left unanswered cause a warning, because their times are
//! missing from the result; [`is_cut_off`] tells when there are too many. A run is invalid if the client was late,
//! lacked resources or received wrong bytes, or if the server completed nothing for a while ([`outage`]). Each reason
//! is a sentence.

use crate::outage;
use crate::record::{Record, Trouble};
use crate::replies::told;
use serde::{Deserialize, Serialize};
use units::Duration;

/// Largest number of error kinds in a sentence.
const KINDS_MAX: usize = 4;
/// Largest acceptable ratio of this client's lateness to the response time at one quantile.
const LAG_SHARE_MAX: f64 = 0.1;

/// The requested run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Asked {
    /// Measured time.
    pub duration: Duration,
    /// Planned arrivals of an open loop, warm-up included.
    pub arrivals: Option<u64>,
    /// Planned users; `None` for arrivals.
    pub users: Option<u64>,
    /// Number of users that may fail to begin.
    pub users_missing_max: u64,
    /// Whether users think, so that a busy client is also late.
    pub paced: bool,
    /// Corrected response time at p99.9; `None` in an open loop, or if unknown.
    pub corrected_p999: Option<Duration>,
}

/// Limits of a valid run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// The 99th percentile of lag, in seconds.
    #[serde(rename = "lag_max_s", with = "seconds")]
    pub lag_max: Duration,
    /// Longest time, in seconds, without a completion while requests are pending and nothing fails.
    #[serde(rename = "stall_max_s", with = "seconds")]
    pub stall_max: Duration,
    /// Largest share of failed files.
    pub failures_max: f64,
    /// Largest processor share of a thread in the measured time of a paced run.
    pub cpu_max: f64,
    /// Largest share of planned arrivals that do not begin.
    pub shortfall_max: f64,
}

mod seconds {
    use super::{Deserialize, Duration};
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(time.as_secs_f64())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

impl Bounds {
    /// The default bounds.
    pub const DEFAULT: Bounds = Bounds {
        lag_max: Duration::from_millis(10),
        stall_max: Duration::from_secs(2),
        failures_max: 0.01,
        cpu_max: 0.9,
        shortfall_max: 0.01,
    };

    /// Default of the longest stall in a run of length `measured`: 2 s. A closed loop's response times hardly show a
    /// stall, so its limit is a quarter of a run shorter than 8 s, at least 1 s.
    pub fn stall_max(measured: Duration, closed: bool) -> Duration {
        let most = Bounds::DEFAULT.stall_max;
        if closed {
            (measured / 4).clamp(Duration::from_secs(1), most)
        } else {
            most
        }
    }
}

/// The verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Whether the run is valid.
    pub valid: bool,
    /// Reasons for an invalid run; empty if valid.
    pub reasons: Vec<String>,
    /// Warnings about a valid run, to read before its figures.
    pub warnings: Vec<String>,
}

/// Judges a run. `cpu` is the processor share of each thread in the measured time, `stopped` the time since the start
/// if the run was ended early.
pub fn judge(
    record: &Record,
    asked: &Asked,
    cpu: &[f64],
    stopped: Option<Duration>,
    bounds: &Bounds,
) -> Verdict {
    let mut reasons = Vec::new();
    let mut because = |holds: bool, why: String| {
        if holds {
            reasons.push(why);
        }
    };
    let answers = record.statuses.total();
    // The unsuccessful responses, appended to the sentence about them.
    let were = told(&record.refused, answers).map_or_else(String::new, |said| format!(": {said}"));
    let kinds = kinds(record);
    because(
        record.files == 0,
        if answers == 0 {
            format!("no file was completely received{kinds}")
        } else {
            format!("no file was received correctly{kinds}{were}")
        },
    );
    because(
        record.files > 0 && record.files_in_time == 0,
        format!(
            "none of its {} files completed within the measured time, so there is no rate; use a longer --duration",
            record.files
        ),
    );
    let early = stopped.filter(|&after| after < asked.duration);
    if let Some(after) = early {
        because(
            true,
            format!(
                "it was stopped after {:.1} of {:.1} s",
                after.as_secs_f64(),
                asked.duration.as_secs_f64()
            ),
        );
    } else if let Some(after) = stopped {
        because(
            record.unfinished > 0,
            format!(
                "it was stopped {:.1} s after its {:.1} s, when {} of {} objects were still pending: their times are unknown",
                after.saturating_sub(asked.duration).as_secs_f64(),
                asked.duration.as_secs_f64(),
                record.unfinished,
                record.objects_begun
            ),
        );
    }
    // Judged separately, because one may be far more numerous than the other.
    let (alarms, ticks) = (record.lag.quantile(0.99), record.tick.quantile(0.99));
    let (lag, what) = if alarms >= ticks {
        (alarms, "timers")
    } else {
        (ticks, "ticks (one every 10 ms)")
    };
    because(
        lag > bounds.lag_max,
        format!(
            "this client was late: 1 % of its {what} fired {:.1} ms late or more; --lag-max allows {:.1} ms",
            lag.as_secs_f64() * 1e3,
            bounds.lag_max.as_secs_f64() * 1e3
        ),
    );
    because(
        record.tick.count() == 0 && (asked.arrivals.is_none() || record.lag.count() == 0),
        "it was too short to measure this client's lateness: no tick (one every 10 ms) was due; use a longer --duration".to_owned(),
    );
    let measured = early.unwrap_or(asked.duration);
    let outage = outage::longest(record, measured, bounds.stall_max);
    let silence = outage::silent_end(record, measured).filter(|_| outage.is_none() && record.files > 0);
    if let Some(outage) = outage {
        let (from, until) = (outage.from.as_secs_f64(), outage.until.as_secs_f64());
        let (failed, rate) = (outage.failed, outage.files_per_s);
        because(
            true,
            if failed > 0 {
                format!(
                    "from {from:.2} s to {until:.2} s, no file completed and {failed} failed, while {rate:.0} per second completed in the \
                     rest of the run: the server was down for part of the run"
                )
            } else {
                format!(
                    "from {from:.2} s to {until:.2} s, no file completed although requests were pending, while {rate:.0} per second completed \
                     in the rest of the run: the server stalled for {:.1} s; --stall-max allows {:.1} s",
                    until - from,
                    bounds.stall_max.as_secs_f64()
                )
            },
        );
    }
    let busiest = cpu.iter().copied().fold(0.0, f64::max);
    because(
        asked.paced && busiest > bounds.cpu_max,
        format!(
            "this client was busy: a thread used {:.0} % of a processor, and {:.0} % is the limit; use more threads or machines",
            busiest * 100.0,
            bounds.cpu_max * 100.0
        ),
    );
    if let (Some(arrivals), None) = (asked.arrivals, early) {
        let begun = record.objects_begun + record.left_out.objects_begun;
        because(
            (begun as f64) < arrivals as f64 * (1.0 - bounds.shortfall_max),
            format!("only {begun} of {arrivals} planned arrivals began"),
        );
    }
    if let (Some(users), None) = (asked.users, early) {
        let begun = record.users_begun;
        because(
            begun.saturating_add(asked.users_missing_max) < users,
            format!(
                "only {begun} of {users} users ever began; use a shorter --stagger or a longer --duration"
            ),
        );
    }
    because(
        record.dropped > 0,
        format!(
            "{} arrivals found every connection busy and the queue full",
            record.dropped
        ),
    );
    let here = record.count(Trouble::Here);
    let errno = record.refusal.unwrap_or(0);
    because(
        here > 0,
        format!(
            "this machine refused {here} connections: {}; check `ulimit -n` and net.ipv4.ip_local_port_range",
            std::io::Error::from_raw_os_error(errno)
        ),
    );
    for (trouble, what) in [
        (Trouble::Length, "differ in length from the manifest"),
        (Trouble::Content, "differ in content from the manifest"),
        (Trouble::Truncated, "were truncated"),
    ] {
        let count = record.count(trouble);
        let first = record.examples.get(&trouble);
        let first = first.map_or_else(String::new, |first| format!("; the first was {first}"));
        because(count > 0, format!("{count} responses {what}{first}"));
    }
    let (failed, all) = (record.files_failed, record.files + record.files_failed);
    let share = |count: u64| count as f64 / all.max(1) as f64;
    // If no file succeeded, a reason above says so.
    because(
        share(failed) > bounds.failures_max && record.files > 0,
        format!(
            "{failed} of {all} files failed ({:.2} %); --failures-max allows {} %{kinds}{were}",
            share(failed) * 100.0,
            (bounds.failures_max * 1e6).round() / 1e4
        ),
    );
    let breaches = record.count(Trouble::Protocol);
    because(
        share(breaches) > bounds.failures_max,
        format!(
            "{breaches} times, data that is not HTTP arrived ({:.1} % of {all} files); --failures-max allows {:.1} %{}",
            share(breaches) * 100.0,
            bounds.failures_max * 100.0,
            record.breach.as_ref().map_or_else(String::new, |first| format!(
                "; first, {:.3} s after the start, {}: `{}`",
                first.at_ns as f64 / 1e9,
                first.fault,
                first.seen
            ))
        ),
    );
    let mut warnings = Vec::new();
    if let Some(silence) = silence {
        warnings.push(format!(
            "no file completed from {:.2} s to the end at {:.2} s, and {} files failed in that time: the server may have gone down",
            silence.from.as_secs_f64(),
            silence.until.as_secs_f64(),
            silence.failed
        ));
    }
    warnings.extend(late_quantiles(record, asked.corrected_p999, bounds));
    if record.unfinished > 0 && stopped.is_none() {
        let share = unfinished(record);
        warnings.push(format!(
            "{} of {} objects ({:.1} %) were still pending at the end of --grace: their times are unknown, and quantiles count them as \
             longer than all others",
            record.unfinished,
            record.objects_begun,
            share * 100.0
        ));
    }
    Verdict {
        valid: reasons.is_empty(),
        reasons,
        warnings,
    }
}

/// Warning that displayed quantiles may be this client's own delay: its lateness at that quantile is above the limit
/// and a relevant share of the time. Up to p99, lateness makes a run invalid instead.
fn late_quantiles(record: &Record, corrected_p999: Option<Duration>, bounds: &Bounds) -> Option<String> {
    let lost = record.files_failed + record.pending();
    let response = |share| record.response.quantile_with(share, lost);
    let mut names = Vec::new();
    let mut late_ms = Vec::new();
    for (name, share, times) in [
        ("p99.9", 0.999, [response(0.999), corrected_p999]),
        ("max", 1.0, [response(1.0), None]),
    ] {
        let late = record.lag.quantile(share).max(record.tick.quantile(share));
        // A delay of this client cannot be part of a shorter response time.
        let matters = |time: Duration| {
            time >= bounds.lag_max && late.as_secs_f64() > time.as_secs_f64() * LAG_SHARE_MAX
        };
        if late > bounds.lag_max && times.into_iter().flatten().any(matters) {
            names.push(name);
            late_ms.push(format!("{:.1} ms", late.as_secs_f64() * 1e3));
        }
    }
    (!names.is_empty()).then(|| {
        format!(
            "{} may be this client's own delay, not the server's: its timers fired {} late at {}; --lag-max allows {:.1} ms",
            names.join(" and "),
            late_ms.join(" and "),
            if names.len() == 1 { "that quantile" } else { "those quantiles" },
            bounds.lag_max.as_secs_f64() * 1e3
        )
    })
}

/// Error kinds in parentheses, most frequent first; empty if only statuses were wrong, which other text lists.
fn kinds(record: &Record) -> String {
    let counts = record.troubles.iter().filter(|&(_, &count)| count > 0);
    let mut counts: Vec<(Trouble, u64)> = counts.map(|(&trouble, &count)| (trouble, count)).collect();
    if let [] | [(Trouble::Status, _)] = counts[..] {
        return String::new();
    }
    counts.sort_by_key(|&(trouble, count)| (core::cmp::Reverse(count), trouble));
    let mut named: Vec<String> = counts
        .iter()
        .take(KINDS_MAX)
        .map(|(trouble, count)| format!("{count} {}", trouble.name()))
        .collect();
    let others: u64 = counts.iter().skip(KINDS_MAX).map(|(_, count)| count).sum();
    if others > 0 {
        named.push(format!("{others} others"));
    }
    format!(" (errors: {})", named.join(", "))
}

/// Share of begun objects that neither completed nor failed.
fn unfinished(record: &Record) -> f64 {
    record.unfinished as f64 / record.objects_begun.max(record.unfinished).max(1) as f64
}

/// Whether more objects than may fail never completed, so that the times describe only the fast ones.
pub fn is_cut_off(record: &Record, bounds: &Bounds) -> bool {
    unfinished(record) > bounds.failures_max
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::times::Times;
    use units::Instant;

    const ASKED: Asked = Asked {
        duration: Duration::from_secs(10),
        arrivals: None,
        users: None,
        users_missing_max: 0,
        paced: true,
        corrected_p999: None,
    };

    fn good() -> Record {
        let mut record = Record {
            files: 1000,
            files_in_time: 1000,
            objects_begun: 1000,
            ..Record::default()
        };
        (0..1000).for_each(|us| record.lag.add(Duration::from_micros(us)));
        (0..1000).for_each(|us| record.tick.add(Duration::from_micros(us)));
        record
    }

    fn check(record: &Record, asked: Asked, cpu: f64, stopped: Option<Duration>, fragment: &str) {
        let verdict = judge(record, &asked, &[0.1, cpu], stopped, &Bounds::DEFAULT);
        assert_eq!(verdict.valid, fragment.is_empty(), "{verdict:?}");
        assert_eq!(
            verdict.reasons.len(),
            usize::from(!fragment.is_empty()),
            "{verdict:?}"
        );
        assert!(verdict.reasons.concat().contains(fragment), "{verdict:?}");
    }

    #[test]
    fn every_reason_alone_makes_a_run_invalid() {
        check(&good(), ASKED, 0.5, None, "");
        check(
            &good(),
            Asked {
                arrivals: Some(1000),
                ..ASKED
            },
            0.5,
            None,
            "",
        );
        check(
            &good(),
            Asked {
                arrivals: Some(1200),
                ..ASKED
            },
            0.5,
            None,
            "of 1200 planned arrivals began",
        );
        let users = |begun, missing| {
            let record = Record {
                users_begun: begun,
                ..good()
            };
            let asked = Asked {
                users: Some(1000),
                users_missing_max: missing,
                ..ASKED
            };
            (record, asked)
        };
        for (begun, missing, fragment) in [
            (1000, 0, ""),
            (60, 0, "only 60 of 1000 users ever began"),
            (999, 0, "only 999 of 1000"),
            (990, 10, ""),
            (989, 10, "only 989 of 1000"),
        ] {
            let (record, asked) = users(begun, missing);
            check(&record, asked, 0.5, None, fragment);
        }
        let warm = Record {
            left_out: crate::record::LeftOut {
                objects_begun: 200,
                ..crate::record::LeftOut::default()
            },
            ..good()
        };
        let asked = Asked {
            arrivals: Some(1200),
            ..ASKED
        };
        check(&warm, asked, 0.5, None, "");
        check(&good(), ASKED, 0.97, None, "97 % of a processor");
        check(
            &good(),
            Asked {
                paced: false,
                ..ASKED
            },
            0.97,
            None,
            "",
        );
        check(
            &good(),
            ASKED,
            0.5,
            Some(Duration::from_secs(4)),
            "stopped after 4.0 of 10.0 s",
        );
        // An early stop in the grace period matters only if objects were pending.
        let over = Some(Duration::from_secs(11));
        check(&good(), ASKED, 0.5, over, "");
        let waiting = Record {
            unfinished: 90,
            ..good()
        };
        let said = "stopped 1.0 s after its 10.0 s, when 90 of 1000 objects were still pending";
        check(&waiting, ASKED, 0.5, over, said);
        check(&waiting, ASKED, 0.5, None, "");
        let mut late = good();
        (0..20).for_each(|_| late.lag.add(Duration::from_millis(50)));
        check(&late, ASKED, 0.5, None, "1 % of its timers fired 50.");
        // A stopped thread, whose users set no timer.
        let mut still = Record {
            lag: Times::default(),
            ..good()
        };
        let unpaced = Asked {
            paced: false,
            ..ASKED
        };
        check(&still, unpaced, 0.97, None, "");
        (0..100).for_each(|tick| still.tick.add(Duration::from_millis(10 * tick)));
        let late = "1 % of its ticks (one every 10 ms) fired 8";
        check(&still, unpaced, 0.97, None, late);
        let failed = Record {
            files_failed: 20,
            ..good()
        };
        check(&failed, ASKED, 0.5, None, "20 of 1020 files failed");
        // The sentence names the causes, most frequent first.
        let mut failed = failed;
        let at = Instant::ZERO;
        for (trouble, count) in [
            (Trouble::Lost, 3),
            (Trouble::Timeout, 12),
            (Trouble::Status, 5),
            (Trouble::Connect, 4),
            (Trouble::Protocol, 2),
        ] {
            (0..count).for_each(|_| failed.trouble(trouble, at, at));
        }
        let said = "20 of 1020 files failed (1.96 %); --failures-max allows 1 % (errors: 12 timeout, 5 status, 4 connect, 3 lost, 2 others)";
        check(&failed, ASKED, 0.5, None, said);
        let mut nobody = Record {
            files: 0,
            files_failed: 30,
            ..good()
        };
        (0..30).for_each(|_| nobody.trouble(Trouble::Connect, at, at));
        check(
            &nobody,
            ASKED,
            0.5,
            None,
            "no file was completely received (errors: 30 connect)",
        );
        check(
            &Record {
                files_failed: 2,
                ..good()
            },
            ASKED,
            0.5,
            None,
            "",
        );
        check(
            &Record { dropped: 1, ..good() },
            ASKED,
            0.5,
            None,
            "the queue full",
        );
        check(&Record { files: 0, ..good() }, ASKED, 0.5, None, "no file");
        let late = Record {
            files: 4,
            files_in_time: 0,
            ..good()
        };
        check(
            &late,
            ASKED,
            0.5,
            None,
            "none of its 4 files completed within the measured time",
        );
        for (trouble, fragment) in [
            (Trouble::Here, "ulimit"),
            (Trouble::Length, "length from the manifest"),
            (Trouble::Content, "content from the manifest"),
            (Trouble::Truncated, "truncated"),
        ] {
            let mut record = good();
            record.trouble(trouble, Instant::ZERO, Instant::ZERO);
            check(&record, ASKED, 0.5, None, fragment);
        }
        let mut moved = good();
        (0..300).for_each(|_| moved.replied(301, Instant::ZERO, Instant::ZERO));
        (moved.files, moved.files_failed) = (0, 300);
        let refused = moved.refused.entry(301).or_default();
        refused.count = 300;
        refused.points_to(b"/there/");
        check(
            &moved,
            ASKED,
            0.5,
            None,
            "no file was received correctly: all 300 responses were 301 to /there/; redirects are not followed: use that URL",
        );
        (moved.files, moved.objects_begun) = (100, 1000);
        check(
            &moved,
            ASKED,
            0.5,
            None,
            "300 of 400 files failed (75.00 %); --failures-max allows 1 %: all 300 responses were 301",
        );
        let mut broken = good();
        let later = Instant::ZERO + Duration::from_millis(250);
        for at in [later, later + Duration::from_millis(1)] {
            broken.trouble(Trouble::Protocol, at, Instant::ZERO);
            broken.breached("this was wrong", b"EX\r\n", at, Instant::ZERO);
        }
        check(&broken, ASKED, 0.5, None, "");
        (0..18).for_each(|_| broken.trouble(Trouble::Protocol, later, Instant::ZERO));
        check(
            &broken,
            ASKED,
            0.5,
            None,
            "20 times, data that is not HTTP arrived (2.0 % of 1000 files); --failures-max allows 1.0 %; first, 0.250 s after \
             the start, this was wrong: `EX\\r\\n`",
        );
        let mut slow = good();
        slow.trouble(Trouble::Lost, Instant::ZERO, Instant::ZERO);
        check(&slow, ASKED, 0.5, None, "");
    }

    #[test]
    fn a_run_that_is_too_short_to_tell_lateness_is_invalid() {
        let mut short = good();
        short.tick = Times::default();
        check(&short, ASKED, 0.5, None, "no tick (one every 10 ms) was due");
        // Every arrival measures lateness.
        let open = Asked {
            arrivals: Some(1000),
            ..ASKED
        };
        check(&short, open, 0.5, None, "");
        short.lag = Times::default();
        check(&short, open, 0.5, None, "no tick");
    }

    #[test]
    fn the_first_file_that_was_wrong_is_named() {
        for (trouble, lengths, said) in [
            (
                Trouble::Length,
                [Some(7), Some(5)],
                "; the first was `/b.html`, 5 bytes instead of 7",
            ),
            (Trouble::Content, [None, None], "; the first was `/b.html`"),
        ] {
            let mut record = good();
            for (path, ms) in [("/a.html", 9), ("/b.html", 4), ("/c.html", 6)] {
                let at = Instant::ZERO + Duration::from_millis(ms);
                record.trouble(trouble, at, Instant::ZERO);
                record.example(trouble, path, lengths, at, Instant::ZERO);
            }
            check(&record, ASKED, 0.5, None, said);
        }
    }

    /// A client stopped for 70 ms of ten seconds: seven ticks of a thousand, which p99 does not show.
    #[test]
    fn lateness_is_judged_at_every_quantile_that_is_shown() {
        let mut record = good();
        (0..7).for_each(|tick| record.tick.add(Duration::from_millis(70 - 10 * tick)));
        let warned = |record: &Record, corrected_ms: Option<u64>| {
            let corrected_p999 = corrected_ms.map(Duration::from_millis);
            let asked = Asked {
                corrected_p999,
                ..ASKED
            };
            let verdict = judge(record, &asked, &[0.1], None, &Bounds::DEFAULT);
            assert!(verdict.valid, "{verdict:?}");
            verdict.warnings.concat()
        };
        // No displayed time is that long.
        (0..2000).for_each(|_| record.response.add(Duration::from_millis(1)));
        assert_eq!(warned(&record, None), "");
        // The corrected figure includes the missing requests, unless it is much longer or not long enough.
        let said = warned(&record, Some(65));
        assert!(said.starts_with("p99.9 may be this client's own delay"), "{said}");
        assert_eq!(warned(&record, Some(5)), "");
        assert_eq!(warned(&record, Some(1500)), "");
        record.response.add(Duration::from_millis(65));
        let said = warned(&record, None);
        assert!(said.starts_with("max may be this client's"), "{said}");
        (0..3).for_each(|_| record.response.add(Duration::from_millis(60)));
        let said = warned(&record, None);
        assert!(
            said.starts_with("p99.9 and max may be")
                && said.contains(" and 70.")
                && said.contains("allows 10.0 ms"),
            "{said}"
        );
        // An unknown quantile is not this client's delay.
        record.files_failed = 4;
        assert_eq!(warned(&record, None), "");
    }

    /// A client 15 ms late still measures a server that takes 1.5 s.
    #[test]
    fn lateness_that_is_a_small_share_of_a_time_is_no_warning() {
        let mut record = good();
        (0..7).for_each(|_| record.tick.add(Duration::from_millis(15)));
        (0..100).for_each(|_| record.response.add(Duration::from_millis(1504)));
        let asked = Asked {
            corrected_p999: Some(Duration::from_millis(1504)),
            ..ASKED
        };
        let verdict = judge(&record, &asked, &[0.1], None, &Bounds::DEFAULT);
        assert_eq!((verdict.valid, verdict.warnings), (true, Vec::new()));
    }

    #[test]
    fn a_server_that_was_down_makes_a_run_invalid() {
        let mut record = good();
        record.files_in_time = 8000;
        for at in (0..8000).map(Duration::from_millis) {
            let at = Instant::ZERO + at;
            record.complete(1, at, Instant::ZERO);
            record.respond(Duration::from_millis(1), at, Instant::ZERO);
        }
        record.settle();
        record.seconds.resize(10, crate::record::Second::default());
        record.seconds.iter_mut().for_each(|second| second.under_way = 10);
        let said = "from 8.00 s to 10.00 s, no file completed although requests were pending, while 1000 per second completed in \
                    the rest of the run: the server stalled for 2.0 s; --stall-max allows 2.0 s";
        check(&record, ASKED, 0.5, None, said);
        record.fail(
            3,
            Duration::ZERO,
            Instant::ZERO + Duration::from_secs(9),
            Instant::ZERO,
        );
        check(
            &record,
            ASKED,
            0.5,
            None,
            "from 8.00 s to 10.00 s, no file completed and 3 failed",
        );
    }

    #[test]
    fn a_short_run_allows_a_shorter_stall() {
        for (measured, stall) in [(60, 2000), (8, 2000), (6, 1500), (4, 1000), (1, 1000)] {
            let measured = Duration::from_secs(measured);
            let of = Bounds::stall_max(measured, true);
            assert_eq!(of, Duration::from_millis(stall), "{measured:?}");
            // Arrivals of an open loop wait, and their times show it.
            assert_eq!(Bounds::stall_max(measured, false), Duration::from_secs(2));
        }
    }

    #[test]
    fn what_was_never_complete_is_a_warning() {
        let judged = |unfinished| {
            let record = Record { unfinished, ..good() };
            let verdict = judge(&record, &ASKED, &[0.1], None, &Bounds::DEFAULT);
            assert!(verdict.valid, "{verdict:?}");
            (verdict.warnings.concat(), is_cut_off(&record, &Bounds::DEFAULT))
        };
        assert_eq!(judged(0), (String::new(), false));
        for (unfinished, cut_off) in [(10, false), (11, true)] {
            let (said, is_cut_off) = judged(unfinished);
            assert!(
                said.contains(&format!("{unfinished} of 1000 objects (1.")),
                "{said}"
            );
            assert_eq!(is_cut_off, cut_off);
        }
    }
}
