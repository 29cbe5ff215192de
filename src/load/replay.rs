//! An access log as a list of arrivals, with the log's own targets and times.
//!
//! Most logs have whole seconds, so the requests of one second are spread evenly over it, in their order. Finer times
//! are kept. Lines are sorted by time, because servers write a line when a response ends.

use super::log;
use crate::failure::Failure;
use ::load::work::Work;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use units::Duration;

/// Largest number of requests: 20 bytes each.
const REQUESTS_MAX: usize = 50_000_000;
const SECOND: i128 = 1_000_000_000;

/// The requests of a log.
#[derive(Clone, Debug)]
pub(super) struct Replay {
    /// Time of each request from the first one, divided by `--speed`.
    pub(super) times: Arc<[Duration]>,
    /// Object of each request.
    pub(super) order: Arc<[u32]>,
    /// Duration from the first request: through the second of the last one if the log has whole seconds, otherwise plus
    /// one average gap.
    pub(super) span: Duration,
}

/// Reads a log.
///
/// # Errors
/// `Usage` for a missing log or one without requests to replay, `System` if it cannot be read.
pub(super) fn read(path: &Path, speed: f64) -> Result<(Work, Replay), Failure> {
    let name = path.display();
    if !(speed > 0.0 && speed.is_finite()) {
        return Err(Failure::Usage(format!(
            "`--speed` is {speed}; it must be more than 0"
        )));
    }
    let mut numbers: HashMap<String, u32> = HashMap::new();
    let mut requests: Vec<(i128, u32)> = Vec::new();
    let passed_over = log::each(path, |get| {
        if requests.len() >= REQUESTS_MAX {
            return Err(Failure::Usage(format!(
                "`{name}` has more than {REQUESTS_MAX} requests; replay a part of it"
            )));
        }
        let next = numbers.len() as u32;
        requests.push((get.at_ns, *numbers.entry(get.target.to_owned()).or_insert(next)));
        Ok(())
    })?;
    if requests.is_empty() {
        return Err(passed_over.nothing(path, "no GET of a path to replay"));
    }
    let passed_over = passed_over.lines();
    if passed_over > 0 {
        tracing::warn!("{passed_over} lines of {name} were skipped: each is no GET of a path");
    }
    let mut paths = vec![String::new(); numbers.len()];
    for (path, number) in numbers {
        paths[number as usize] = path;
    }
    let (times, span) = spread(&mut requests, speed);
    let replay = Replay {
        times,
        span,
        order: requests.iter().map(|&(_, object)| object).collect(),
    };
    Ok((Work::of_paths(paths), replay))
}

/// Sorts requests and spreads those of whole seconds evenly. Returns times from the first one, and the duration.
fn spread(requests: &mut [(i128, u32)], speed: f64) -> (Arc<[Duration]>, Duration) {
    requests.sort_by_key(|&(at, _)| at);
    let whole = requests.iter().all(|&(at, _)| at % SECOND == 0);
    let last = requests.last().map_or(0, |&(at, _)| at);
    if whole {
        for second in requests.chunk_by_mut(|a, b| a.0 == b.0) {
            let count = second.len() as i128;
            for (position, request) in (0..).zip(second) {
                request.0 += position * SECOND / count;
            }
        }
    }
    let first = requests.first().map_or(0, |&(at, _)| at);
    let at_speed = |ns: i128| Duration::try_from_secs_f64(ns as f64 / 1e9 / speed).unwrap_or(Duration::MAX);
    let gaps = requests.len() as i128 - 1;
    let end = match gaps {
        _ if whole => last + SECOND,
        // One request has no average gap.
        0 => last + SECOND,
        _ => last + ((last - first) / gaps).max(1),
    };
    let times = requests.iter().map(|&(at, _)| at_speed(at - first)).collect();
    (times, at_speed(end - first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_a_second_are_spread_over_it() {
        let mut requests = [(7, 0), (5, 1), (5, 2), (5, 3), (5, 4)].map(|(at, object)| (at * SECOND, object));
        let (times, span) = spread(&mut requests, 2.0);
        assert_eq!(span.as_millis(), 1500, "through the second of the last one");
        let times: Vec<u128> = times.iter().map(Duration::as_millis).collect();
        assert_eq!(times, [0, 125, 250, 375, 1000]);
        assert_eq!(requests.map(|(_, object)| object), [1, 2, 3, 4, 0]);
        let mut fine = [(5 * SECOND + 1_000_000, 0), (5 * SECOND, 1), (5 * SECOND, 2)];
        let (times, span) = spread(&mut fine, 1.0);
        assert_eq!(
            span,
            Duration::from_micros(1500),
            "three requests, half a millisecond apart"
        );
        let times: Vec<u128> = times.iter().map(Duration::as_millis).collect();
        assert_eq!(times, [0, 0, 1]);
        assert_eq!(spread(&mut [(7, 0)], 4.0).1, Duration::from_millis(250));
        // Far apart and slow: times saturate.
        assert_eq!(
            spread(&mut [(0, 0), (i128::from(i64::MAX), 1)], 1e-300).1,
            Duration::MAX
        );
    }
}
