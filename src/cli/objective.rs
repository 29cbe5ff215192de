//! The value of `--slo`: a limit on a statistic of response times, such as `p99<50ms`. Decides its spelling and how many
//! requests it needs; [`crate::load::search`] finds the highest load that meets it.

use ::load::times::Summary;
use server::config::parse_duration;
use std::fmt;
use std::str::FromStr;
use units::Duration;

/// A limit on a statistic of response times.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Objective {
    statistic: String,
    below: Duration,
}

impl FromStr for Objective {
    type Err = String;

    fn from_str(text: &str) -> Result<Objective, String> {
        let (statistic, below) = text
            .split_once('<')
            .ok_or_else(|| format!("`{text}` is not an objective: write one as in p99<50ms"))?;
        let statistic = statistic.trim().to_lowercase().replace("p99.9", "p999");
        if !["mean", "p50", "p90", "p99", "p999", "max"].contains(&statistic.as_str()) {
            return Err(format!(
                "`{statistic}` is not a statistic: choose mean, p50, p90, p99, p999 or max"
            ));
        }
        let below = bound(&statistic, below.trim())?;
        if below.is_zero() {
            return Err("the time must be more than 0".to_owned());
        }
        Ok(Objective { statistic, below })
    }
}

/// A time with a unit. A bare number means seconds elsewhere, but for response times users would mean milliseconds.
fn bound(statistic: &str, text: &str) -> Result<Duration, String> {
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return Err(format!(
            "`{text}` has no unit; write {statistic}<{text}ms for milliseconds, {statistic}<{text}s for seconds"
        ));
    }
    let Some(number) = text.strip_suffix("us").or_else(|| text.strip_suffix("µs")) else {
        return parse_duration(text).map_err(|why| format!("{why}; or 500us"));
    };
    let number: f64 = number
        .trim()
        .parse()
        .map_err(|_| format!("`{text}` is not a number of microseconds"))?;
    Duration::try_from_secs_f64(number / 1e6).map_err(|_| format!("`{text}` is not a time span"))
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.below.as_secs_f64();
        let (number, unit) = match self.below {
            below if below < Duration::from_millis(1) => (seconds * 1e6, "us"),
            below if below < Duration::from_secs(1) => (seconds * 1e3, "ms"),
            _ => (seconds, "s"),
        };
        write!(f, "{} < {} {unit}", self.statistic, (number * 1e3).round() / 1e3)
    }
}

impl Objective {
    /// The statistic's name in results: `mean`, `p50`, `p90`, `p99`, `p999` or `max`.
    pub(crate) fn statistic(&self) -> &str {
        &self.statistic
    }

    /// The statistic in milliseconds; none if it falls on a failed request.
    pub(crate) fn value(&self, times: &Summary) -> Option<f64> {
        match self.statistic.as_str() {
            "mean" => Some(times.mean),
            "p50" => times.p50,
            "p90" => times.p90,
            "p99" => times.p99,
            "p999" => times.p999,
            _ => times.max,
        }
    }

    /// Fewest requests for which the statistic differs from the maximum.
    fn requests_min(&self) -> u64 {
        match self.statistic.as_str() {
            "p50" => 2,
            "p90" => 10,
            "p99" => 100,
            "p999" => 1000,
            _ => 1,
        }
    }

    /// Why this number of requests in this time is too small to decide the objective; none if it is enough.
    pub(crate) fn undecided(&self, requests: u64, measured: Duration) -> Option<String> {
        let needed = self.requests_min();
        (requests < needed).then(|| {
            // A tenth more than that rate needs, because the next run may draw fewer.
            let seconds = measured.as_secs_f64() * needed as f64 / requests.max(1) as f64 * 1.1;
            format!(
                "{requests} requests are too few for {}, which needs {needed} or more: use --duration {:.0}s or a higher load",
                self.statistic,
                seconds.ceil()
            )
        })
    }

    /// The limit in milliseconds.
    pub(crate) fn below_ms(&self) -> f64 {
        self.below.as_secs_f64() * 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_read() {
        let objective: Objective = "p99 < 50ms".parse().expect("an objective");
        assert_eq!(objective.below, Duration::from_millis(50));
        assert_eq!("p99.9<1s".parse::<Objective>().expect("one").statistic, "p999");
        for (text, below, said) in [
            ("p50<500us", Duration::from_micros(500), "p50 < 500 us"),
            ("mean<2.5ms", Duration::from_micros(2500), "mean < 2.5 ms"),
            ("max<90s", Duration::from_secs(90), "max < 90 s"),
        ] {
            let objective: Objective = text.parse().expect(text);
            assert_eq!((objective.below, objective.to_string().as_str()), (below, said));
        }
        for wrong in ["p99", "p98<1s", "p99<x", "p99<0s", "p99<-1us", "p99<us", "p99<"] {
            assert!(wrong.parse::<Objective>().is_err(), "{wrong}");
        }
        let why = "p99<5".parse::<Objective>().expect_err("no unit");
        assert!(
            why.contains("has no unit; write p99<5ms") && why.contains("p99<5s"),
            "{why}"
        );
    }

    /// A quantile of too few requests is their maximum.
    #[test]
    fn few_requests_do_not_tell_a_quantile() {
        for (text, needed) in [("p50<1s", 2), ("p90<1s", 10), ("p99<1s", 100), ("p999<1s", 1000)] {
            let objective: Objective = text.parse().expect(text);
            let measured = Duration::from_secs(10);
            assert_eq!(objective.undecided(needed, measured), None, "{text}");
            assert!(objective.undecided(needed - 1, measured).is_some(), "{text}");
        }
        for text in ["max<1s", "mean<1s"] {
            let objective: Objective = text.parse().expect(text);
            assert_eq!(objective.undecided(1, Duration::from_secs(1)), None, "{text}");
        }
        let objective: Objective = "p999<50ms".parse().expect("one");
        assert_eq!(
            objective.undecided(75, Duration::from_secs(10)).as_deref(),
            Some(
                "75 requests are too few for p999, which needs 1000 or more: use --duration 147s or a higher load"
            )
        );
    }
}
