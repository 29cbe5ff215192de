//! Periods of a run in which the server completed nothing although requests were pending.
//!
//! A server that dies or stalls harms few requests: clients in a closed loop have at most one pending each, and fast
//! failures are a small share of the fast responses before. Runs are therefore judged by time too. A period lies
//! between two completions, or between one and an end of the run, and counts only while requests were pending. It is
//! an outage if, by the rest of the run, files should have completed in it: many at its rate, and with response times
//! far shorter than the period. If nothing fails, the server must also have sent almost nothing: one large file over
//! a slow line is no outage.
//!
//! Works on the series by second, which records when the first and last file of each second completed, so that a
//! period of a second or more is known exactly. Knows no clock and no verdict.

use crate::record::{Record, Second};
use crate::times::Sparse;
use core::ops::Range;
use units::Duration;

/// Minimum number of files that should have completed in the gap, at the rate of the rest of the run.
const EXPECTED_MIN: f64 = 10.0;
/// Minimum ratio of a gap to the 90th percentile of response times.
const LONGER: f64 = 3.0;
/// Maximum bytes received in a gap without failures, as a share of the usual amount in that time.
const TRICKLE_MAX: f64 = 0.1;
/// Minimum length of an outage with failed files, in runs of ten seconds and more.
const FAILING_MAX: Duration = Duration::from_secs(1);
/// Minimum length in the shortest runs; between the two limits it is a tenth of the run.
const FAILING_MIN: Duration = Duration::from_millis(100);
/// Minimum number of files that should have completed at the silent end of a run to report it.
const EXPECTED_TOLD: f64 = 3.0;
const SECOND: Duration = Duration::from_secs(1);

/// A period without completions although requests were pending.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outage {
    /// Last completion before the outage, from the start of the measured time.
    pub from: Duration,
    /// First completion after the outage.
    pub until: Duration,
    /// Files that failed in the seconds of the outage.
    pub failed: u64,
    /// Files per second in the rest of the run.
    pub files_per_s: f64,
}

/// A gap between completions, a candidate for an outage.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    from: Duration,
    until: Duration,
}

impl Stretch {
    fn length(&self) -> Duration {
        self.until.saturating_sub(self.from)
    }

    /// The seconds that overlap the gap.
    fn touched(&self) -> Range<usize> {
        self.from.as_secs() as usize..self.until.as_secs() as usize + 1
    }

    /// The seconds that lie entirely within the gap.
    fn whole(&self) -> Range<usize> {
        let from = self.from.as_secs() as usize + usize::from(self.from.subsec_nanos() > 0);
        from..(self.until.as_secs() as usize).max(from)
    }
}

/// The longest outage of a run of length `measured`. A gap without failures counts only above `stall_max`.
pub fn longest(record: &Record, measured: Duration, stall_max: Duration) -> Option<Outage> {
    let files = record.files_in_time as f64;
    let seconds = &record.seconds;
    let mut stretches = stretches(seconds, measured);
    let failing_min = (measured / 10).clamp(FAILING_MIN, FAILING_MAX);
    stretches.retain(|stretch| stretch.length() >= failing_min.min(stall_max));
    stretches.sort_by_key(|stretch| core::cmp::Reverse(stretch.length()));
    stretches.iter().find_map(|stretch| {
        let long = stretch.length();
        let failed = failed_in(seconds, stretch);
        let rest = measured.saturating_sub(long).as_secs_f64();
        let files_per_s = files / rest.max(1e-3);
        if files_per_s * long.as_secs_f64() < EXPECTED_MIN {
            return None;
        }
        let counts = if failed > 0 {
            long >= failing_min
        } else {
            let whole = stretch.whole();
            let bytes_per_s = record.bytes_received as f64 / rest.max(1e-3);
            let usual = bytes_per_s * whole.len() as f64;
            long > stall_max && sum(seconds, whole, |second| second.received) as f64 <= usual * TRICKLE_MAX
        };
        (counts && long.as_secs_f64() > LONGER * usually(seconds, stretch, measured)).then_some(Outage {
            from: stretch.from,
            until: stretch.until,
            failed,
            files_per_s,
        })
    })
}

/// The end of a run without completions but with failures, when the run is too short or too slow to call it an outage.
/// Reported if a few files should have completed in it and it is longer than most responses.
pub fn silent_end(record: &Record, measured: Duration) -> Option<Outage> {
    let seconds = &record.seconds;
    let stretch = stretches(seconds, measured).pop()?;
    let long = stretch.length().as_secs_f64();
    let failed = failed_in(seconds, &stretch);
    let rest = (measured.as_secs_f64() - long).max(1e-3);
    let files_per_s = record.files_in_time as f64 / rest;
    let is_told =
        failed > 0 && files_per_s * long >= EXPECTED_TOLD && long > usually(seconds, &stretch, measured);
    is_told.then_some(Outage {
        from: stretch.from,
        until: stretch.until,
        failed,
        files_per_s,
    })
}

/// Number of failures in the seconds of a gap. Zero if the last one came before the gap. In a gap too short to tell
/// (below `FAILING_MAX`), also zero if the last one came after it.
fn failed_in(seconds: &[Second], stretch: &Stretch) -> u64 {
    let touched = stretch.touched();
    let last = seconds.iter().enumerate().take(touched.end).skip(touched.start);
    let last = last
        .filter(|&(number, second)| second.failed > 0 && SECOND * (number as u32) < stretch.until)
        .map(|(number, second)| {
            // Results of older versions have only the second of the failure.
            let after = second.last_failed_ns.map_or(SECOND, Duration::from_nanos);
            SECOND * number as u32 + after
        })
        .max();
    match last {
        Some(last) if last >= stretch.from && (last <= stretch.until || stretch.length() >= FAILING_MAX) => {
            sum(seconds, touched, |second| second.failed)
        }
        _ => 0,
    }
}

/// All gaps between completions in which requests were pending.
fn stretches(seconds: &[Second], measured: Duration) -> Vec<Stretch> {
    let mut all = Vec::new();
    let mut from = Duration::ZERO;
    let count = measured.as_secs() as usize + usize::from(measured.subsec_nanos() > 0);
    let idle = Second::default();
    for number in 0..count {
        let begins = SECOND * number as u32;
        let second = seconds.get(number).unwrap_or(&idle);
        // Nothing was pending at the start of this second; its requests came later.
        if number > 0 && second.under_way == 0 && second.failed == 0 {
            all.push(Stretch { from, until: begins });
            from = if second.begun == 0 {
                begins + SECOND
            } else {
                begins
            };
        }
        if let (Some(first), Some(last)) = (second.first_ns, second.last_ns) {
            let until = begins + Duration::from_nanos(first);
            all.push(Stretch { from, until });
            from = begins + Duration::from_nanos(last);
        }
    }
    all.push(Stretch {
        from,
        until: measured,
    });
    all
}

fn sum(seconds: &[Second], range: Range<usize>, of: impl Fn(&Second) -> u64) -> u64 {
    let end = range.end.min(seconds.len());
    seconds[range.start.min(end)..end].iter().map(of).sum()
}

/// 90th percentile of response times in seconds outside the gap, in seconds: responses that the gap delayed complete at
/// its end. If there are no other responses, the median of all.
fn usually(seconds: &[Second], stretch: &Stretch, measured: Duration) -> f64 {
    let mut delayed = stretch.touched();
    // A gap at the end delays what completes in the second behind the last one, also if that is a part of one.
    if stretch.until >= measured && measured.subsec_nanos() > 0 {
        delayed.end += 1;
    }
    let (mut rest, mut all) = (Sparse::default(), Sparse::default());
    for (number, second) in seconds.iter().enumerate() {
        all.merge(&second.response);
        if !delayed.contains(&number) {
            rest.merge(&second.response);
        }
    }
    let time = rest.quantile(0.9).or_else(|| all.quantile(0.5));
    time.map_or(0.0, |time| time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Instant;

    const STALL_MAX: Duration = Duration::from_secs(2);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A run whose files complete at these milliseconds after `took` each, while `clients` always have a request
    /// pending.
    fn run(at: impl IntoIterator<Item = u64>, took: u64, clients: u64, measured: u64) -> Record {
        let mut record = Record::default();
        for at in at {
            let now = Instant::ZERO + ms(at);
            record.respond(ms(took), now, Instant::ZERO);
            record.complete(100, now, Instant::ZERO);
            record.bytes_received += 200;
            let second = record.second(now, Instant::ZERO);
            second.received += 200;
            second.begun += 1;
            record.files += 1;
            record.files_in_time += 1;
        }
        for second in 1..measured.div_ceil(1000) {
            let now = Instant::ZERO + ms(1000 * second);
            record.second(now, Instant::ZERO).under_way += clients;
        }
        record.settle();
        record
    }

    fn check(record: &Record, measured: u64, wanted: Option<(u64, u64)>) {
        let found = longest(record, ms(measured), STALL_MAX);
        let found = found.map(|outage| (outage.from.as_millis() as u64, outage.until.as_millis() as u64));
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_server_that_stands_still_is_found_and_a_short_pause_is_not() {
        let steady = || (0..8000).step_by(10);
        check(&run(steady(), 5, 10, 8000), 8000, None);
        let frozen =
            |from: u64, until: u64| run(steady().filter(|at| !(from..until).contains(at)), 5, 10, 8000);
        check(&frozen(2010, 8000), 8000, Some((2000, 8000)));
        check(&frozen(2510, 5000), 8000, Some((2500, 5000)));
        check(&frozen(0, 4000), 8000, Some((0, 4000)));
        check(&frozen(2510, 3600), 8000, None);
        // With several threads, a gap is one of all threads together.
        let mut whole = frozen(2010, 8000);
        whole.merge(&run(steady(), 5, 10, 8000));
        check(&whole, 8000, None);
    }

    #[test]
    fn a_server_that_refuses_is_found_sooner() {
        let steady = (0..4000).step_by(10).filter(|at| !(2000..3500).contains(at));
        let mut record = run(steady, 5, 10, 4000);
        check(&record, 4000, None);
        // Clients that pause before a retry have nothing pending.
        for second in 2..4 {
            let now = Instant::ZERO + ms(1000 * second);
            record.second(now, Instant::ZERO).under_way = 0;
            record.fail(3, ms(1), now, Instant::ZERO);
        }
        check(&record, 4000, Some((1990, 3500)));
    }

    #[test]
    fn what_is_slow_or_asks_for_nothing_is_no_outage() {
        // One client of a server that takes four seconds per response.
        let mut slow = run((4000..60_000).step_by(4000), 4000, 1, 60_000);
        check(&slow, 60_000, None);
        // One request failed.
        slow.fail(1, ms(4000), Instant::ZERO + ms(32_000), Instant::ZERO);
        check(&slow, 60_000, None);
        // A hundred requests at once, each of which takes four seconds.
        let bursts = (4000..60_000)
            .step_by(4000)
            .flat_map(|at| (0..100).map(move |n| at + n / 10));
        check(&run(bursts, 4000, 100, 60_000), 60_000, None);
        // Users who sleep for six seconds.
        let sleeping = (0..8000).step_by(10).filter(|at| !(1000..7000).contains(at));
        let mut record = run(sleeping, 5, 0, 8000);
        check(&record, 8000, None);
        // One request was pending meanwhile; the series does not say since when within its second.
        for second in 2..7 {
            record.seconds[second].under_way = 1;
        }
        check(&record, 8000, Some((2000, 7000)));
        // It was a large file, still arriving.
        for second in 1..7 {
            record.seconds[second].received = 20_000;
            record.bytes_received += 20_000;
        }
        check(&record, 8000, None);
    }

    /// A run whose server is killed at `killed`: every later attempt is refused, one per 100 ms.
    fn killed(every: u64, took: u64, killed: u64, measured: u64) -> Record {
        let mut record = run((took..killed).step_by(every as usize), took, 4, measured);
        for at in (killed..measured).step_by(100) {
            record.fail(4, Duration::ZERO, Instant::ZERO + ms(at), Instant::ZERO);
        }
        record
    }

    #[test]
    fn a_server_that_dies_near_the_end_of_a_short_run_is_found() {
        for (at, measured) in [(1200, 2000), (3100, 4000), (2200, 3000), (800, 1000)] {
            let record = killed(2, 1, at, measured);
            let found = longest(&record, ms(measured), STALL_MAX).expect("an outage");
            assert!(found.from.abs_diff(ms(at)) <= ms(2), "{found:?}");
            assert_eq!(found.until, ms(measured));
            assert!(found.failed >= 4, "{found:?}");
        }
        // In runs of ten seconds and more, the minimum is one second.
        let found = |at| longest(&killed(2, 1, at, 20_000), ms(20_000), STALL_MAX);
        assert!(found(18_900).is_some() && found(19_100).is_none());
    }

    /// Responses that the end of a short run delays are no measure of its other responses.
    #[test]
    fn what_completes_after_half_a_second_does_not_hide_its_outage() {
        let mut record = run((0..100).step_by(2), 1, 4, 500);
        record.fail(1, ms(5), Instant::ZERO + ms(200), Instant::ZERO);
        for _ in 0..4 {
            record.respond(ms(450), Instant::ZERO + ms(1000), Instant::ZERO);
        }
        record.settle();
        check(&record, 500, Some((98, 500)));
    }

    #[test]
    fn what_fails_in_a_short_run_of_a_slow_server_is_no_outage() {
        let fails = |mut record: Record, at: u64| {
            record.fail(1, ms(5), Instant::ZERO + ms(at), Instant::ZERO);
            record
        };
        // Responses of 1.5 s, all at once; one client downloading for 12 s; two responses a second.
        let slow = |every: usize, took: u64, measured: u64| {
            let clients = if every == 1500 { 10 } else { 1 };
            let at = (took..measured).step_by(every);
            run(
                at.flat_map(|at| (0..clients).map(move |n| at + n / 10)),
                took,
                clients,
                measured,
            )
        };
        for (every, took, measured) in [(1500, 1500, 4000), (12_000, 12_000, 30_000), (500, 1, 1000)] {
            let record = fails(slow(every, took, measured), measured - 10);
            check(&record, measured, None);
        }
        // A gap with a failure before, after and within it, in the same seconds.
        let paused = || {
            run(
                (0..3000).step_by(2).filter(|at| !(1700..2300).contains(at)),
                1,
                4,
                3000,
            )
        };
        check(&fails(paused(), 1600), 3000, None);
        check(&fails(paused(), 2500), 3000, None);
        check(&fails(paused(), 1800), 3000, Some((1698, 2300)));
        // A gap that lasts until the end.
        let ended = || run((0..1300).step_by(2), 1, 4, 2000);
        check(&fails(ended(), 1100), 2000, None);
        check(&fails(ended(), 1400), 2000, Some((1298, 2000)));
    }

    #[test]
    fn a_silent_end_is_told_where_it_is_too_short_for_an_outage() {
        // The last 0.9 of 20 seconds.
        let record = killed(2, 1, 19_100, 20_000);
        let told = silent_end(&record, ms(20_000)).expect("told");
        assert_eq!((told.from, told.until, told.failed), (ms(19_099), ms(20_000), 36));
        // Eight files should have completed, too few for an outage.
        let few = killed(100, 10, 1200, 2000);
        assert_eq!(longest(&few, ms(2000), STALL_MAX), None);
        assert!(silent_end(&few, ms(2000)).is_some());
        // Nothing failed; the last failure preceded the last completion; responses take as long.
        assert_eq!(silent_end(&run((0..1200).step_by(2), 1, 4, 2000), ms(2000)), None);
        let mut whole = run((0..2000).step_by(2), 1, 4, 2000);
        whole.fail(1, ms(1), Instant::ZERO + ms(1500), Instant::ZERO);
        assert_eq!(silent_end(&whole, ms(2000)), None);
        let slow = killed(100, 1500, 3000, 4000);
        assert_eq!(silent_end(&slow, ms(4000)), None);
    }

    #[test]
    fn nothing_is_said_of_a_run_without_a_series() {
        let record = Record {
            files_in_time: 1000,
            ..Record::default()
        };
        check(&record, 8000, None);
    }
}
