//! The value of `--require`: a condition on a finished load, such as `p99<200ms`, `failures<1%` or `rate>=500`. Decides
//! its spelling; [`crate::load`] judges it.

use super::objective::Objective;
use super::share::parse_share;
use std::fmt;
use std::str::FromStr;

/// The times that a requirement may name. `lag` and `tick` are of the client and have `--lag-max`.
const FIGURES: [&str; 8] = [
    "response",
    "corrected",
    "service",
    "object",
    "connect",
    "handshake",
    "first-byte",
    "transfer",
];

/// A condition on a finished load.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Requirement {
    /// A statistic of one of the reported times is below a limit.
    Time {
        /// One of [`FIGURES`].
        figure: &'static str,
        objective: Objective,
    },
    /// The share of requests that failed or never completed, from 0 to 1.
    Failures(Limit),
    /// Files completed within the measured time, per second.
    Rate(Limit),
    /// A condition on the requests of one step of a scenario: a response time, or the share of failures.
    Step(String, Box<Requirement>),
}

/// A limit on a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Limit {
    pub(crate) number: f64,
    /// Whether the number itself meets the requirement, as in `<=`.
    pub(crate) inclusive: bool,
}

impl FromStr for Requirement {
    type Err = String;

    fn from_str(text: &str) -> Result<Requirement, String> {
        if let Some((step, condition)) = text.split_once(':') {
            let condition: Requirement = condition.parse()?;
            return match condition {
                Requirement::Time {
                    figure: "response", ..
                }
                | Requirement::Failures(_) => {
                    Ok(Requirement::Step(step.trim().to_owned(), Box::new(condition)))
                }
                other => Err(format!(
                    "`{other}` is not measured by step: write a statistic of its response times or failures, as in login:p99<200ms"
                )),
            };
        }
        let sign = text.find(['<', '>']).ok_or_else(|| {
            format!("`{text}` is not a requirement: write one as in p99<200ms, failures<1% or rate>=500")
        })?;
        let (name, rest) = (text[..sign].trim().to_lowercase(), &text[sign + 1..]);
        let (inclusive, bound) = match rest.strip_prefix('=') {
            Some(bound) => (true, bound.trim()),
            None => (false, rest.trim()),
        };
        let wrong_sign = |right: char| Err(format!("`{name}` needs `{right}`, as a limit on it"));
        match (name.as_str(), text.as_bytes()[sign]) {
            ("failures", b'<') => {
                let number = parse_share(bound)?;
                if number == 0.0 && !inclusive {
                    return Err("no share is below 0; to allow no failure, write failures<=0".to_owned());
                }
                Ok(Requirement::Failures(Limit { number, inclusive }))
            }
            ("failures", _) => wrong_sign('<'),
            ("rate", b'>') => {
                let number = bound
                    .parse()
                    .ok()
                    .filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
                let number =
                    number.ok_or_else(|| format!("`{bound}` is not a number of files per second above 0"))?;
                Ok(Requirement::Rate(Limit { number, inclusive }))
            }
            ("rate", _) => wrong_sign('>'),
            (_, b'>') => wrong_sign('<'),
            _ if inclusive => Err(format!("a limit on `{name}` is written with `<`, without `=`")),
            _ => time(&name, bound),
        }
    }
}

/// A limit on a time: `p99`, or `corrected.p99` for other times than the response.
fn time(name: &str, bound: &str) -> Result<Requirement, String> {
    // `p99.9` has a point, too.
    let split = name
        .split_once('.')
        .filter(|(figure, _)| !figure.starts_with('p'));
    let (figure, statistic) = split.unwrap_or(("response", name));
    let figure = FIGURES
        .into_iter()
        .find(|known| *known == figure)
        .ok_or_else(|| format!("`{figure}` is not a reported time: choose {}", FIGURES.join(", ")))?;
    let objective = format!("{statistic}<{bound}").parse().map_err(|why| {
        // The statistics alone would hide the two other requirements.
        format!("{why}; or failures or rate")
    })?;
    Ok(Requirement::Time { figure, objective })
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_equal = |limit: &Limit| if limit.inclusive { "=" } else { "" };
        match self {
            Requirement::Time {
                figure: "response",
                objective,
            } => write!(f, "{objective}"),
            Requirement::Time { figure, objective } => write!(f, "{figure}.{objective}"),
            Requirement::Failures(limit) => {
                write!(
                    f,
                    "failures <{} {} %",
                    or_equal(limit),
                    digits(limit.number * 100.0)
                )
            }
            Requirement::Step(step, condition) => write!(f, "{step}: {condition}"),
            Requirement::Rate(limit) => {
                write!(f, "rate >{} {} files/s", or_equal(limit), digits(limit.number))
            }
        }
    }
}

/// The number without the digits that a product with 100 adds.
fn digits(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_read_and_said() {
        for (text, said) in [
            ("p99<200ms", "p99 < 200 ms"),
            ("P99.9 < 1s", "p999 < 1 s"),
            ("response.p50<500us", "p50 < 500 us"),
            ("corrected.p99.9<80ms", "corrected.p999 < 80 ms"),
            ("first-byte.mean<3ms", "first-byte.mean < 3 ms"),
            ("failures<1%", "failures < 1 %"),
            ("failures<0.07", "failures < 7 %"),
            ("failures<=0", "failures <= 0 %"),
            ("rate>500", "rate > 500 files/s"),
            ("rate >= 0.5", "rate >= 0.5 files/s"),
        ] {
            let read: Requirement = text.parse().expect(text);
            assert_eq!(read.to_string(), said, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, why) in [
            ("p99", "`p99` is not a requirement: write one as in p99<200ms"),
            ("p99>1s", "`p99` needs `<`"),
            ("p99<=1s", "written with `<`, without `=`"),
            ("p99<5", "has no unit; write p99<5ms"),
            (
                "p98<1s",
                "choose mean, p50, p90, p99, p999 or max; or failures or rate",
            ),
            (
                "lag.p99<1ms",
                "`lag` is not a reported time: choose response, corrected",
            ),
            ("failures<0", "write failures<=0"),
            ("failures>1%", "`failures` needs `<`"),
            ("failures<2", "is out of range"),
            ("rate<5", "`rate` needs `>`"),
            ("rate>x", "`x` is not a number of files per second above 0"),
            ("rate>0", "above 0"),
            ("rate>inf", "above 0"),
            ("<1s", "is not a statistic"),
        ] {
            let error = text.parse::<Requirement>().expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
