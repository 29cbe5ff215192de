//! From a log of requests to the parameters of Surge: what each of its streams looks like in this log, which
//! family fits it best, and how badly.
//!
//! Streams are recovered as Barford and Crovella 1998 validated theirs: a client's pause of more than a second
//! is an OFF time, a shorter one an active OFF time; an object is a page and what the same client asks for before
//! its next pause or page; a session ends with a pause longer than a bound that the caller chooses. A log knows no
//! users, only addresses, so everything that counts by client mixes those who share one.
//!
//! Parameters are those of maximum likelihood in closed form where there is one, else by Newton's method; the
//! family with the least Kolmogorov-Smirnov distance is named best. Its p-value is too kind, as the parameters were
//! taken from the same values, so the distance is what counts. Refuses to know what a log looks like.

use crate::fit::kolmogorov_smirnov;
use crate::model::{Model, Shape};
use serde::Serialize;
use std::collections::HashMap;

/// Values below which nothing is estimated.
const VALUES_MIN: usize = 20;
/// Values of a stream that are looked at: evenly spaced ones if there are more.
const VALUES_MAX: usize = 200_000;
/// Where a tail may begin, as shares of the values.
const CUTS: [f64; 9] = [0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97];
/// A pause longer than this is an OFF time, in nanoseconds.
const OFF_NS: i64 = 1_000_000_000;
/// Depths of the stack that are searched; what lies deeper was not asked for lately.
const DEPTH_MAX: usize = 10_000;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Who, by number.
    pub client: u32,
    /// When, in nanoseconds.
    pub at_ns: i64,
    /// Which file, by number.
    pub file: u32,
    /// How long it was.
    pub bytes: u64,
    /// Whether it is a page, which an object begins with.
    pub page: bool,
}

/// A family fitted to a stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// As a flag takes it.
    pub model: String,
    /// The largest difference of the distribution functions.
    pub distance: f64,
    /// Of the Kolmogorov-Smirnov test; too kind.
    pub p_value: f64,
}

/// A stream of the log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// What it is.
    pub stream: &'static str,
    /// The flag of `weir site surge` that takes it, if one does.
    pub flag: Option<&'static str>,
    /// Values there were.
    pub values: u64,
    /// Their mean.
    pub mean: f64,
    /// Their median.
    pub median: f64,
    /// Families, best first; empty if there are too few values.
    pub candidates: Vec<Candidate>,
}

/// What a log says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimates {
    /// Requests.
    pub requests: u64,
    /// Different files.
    pub files: u64,
    /// Clients.
    pub clients: u64,
    /// `s` in references proportional to `1 / rank^s`; none with too few files.
    pub zipf_exponent: Option<f64>,
    /// Each stream.
    pub streams: Vec<Estimate>,
}

/// Estimates everything; a client that pauses for longer than `session_ns` begins another session.
pub fn estimate(mut visits: Vec<Visit>, session_ns: i64) -> Estimates {
    visits.sort_by_key(|visit| visit.at_ns);
    let mut sizes: HashMap<u32, u64> = HashMap::new();
    let mut references: HashMap<u32, u64> = HashMap::new();
    for visit in &visits {
        let size = sizes.entry(visit.file).or_default();
        *size = (*size).max(visit.bytes);
        *references.entry(visit.file).or_default() += 1;
    }
    let files: Vec<f64> = sizes
        .values()
        .filter(|&&bytes| bytes > 0)
        .map(|&bytes| bytes as f64)
        .collect();
    let sent = visits.iter().filter(|visit| visit.bytes > 0);
    let sent: Vec<f64> = sent.map(|visit| visit.bytes as f64).collect();
    let depths = depths(&visits);
    let mut by_client: HashMap<u32, Vec<&Visit>> = HashMap::new();
    for visit in &visits {
        by_client.entry(visit.client).or_default().push(visit);
    }
    let mut habits = Habits::default();
    by_client
        .values()
        .for_each(|visits| habits.read(visits, session_ns));
    let positive = [lognormal, pareto, weibull, exponential];
    Estimates {
        requests: visits.len() as u64,
        files: sizes.len() as u64,
        clients: by_client.len() as u64,
        zipf_exponent: zipf(references.into_values().collect()),
        streams: vec![
            described("sizes of files", None, files, &positive, true),
            described("sizes of requests", Some("request-size"), sent, &positive, true),
            described("stack distance", Some("stack-distance"), depths, &positive, false),
            described("OFF times, s", Some("off-time"), habits.off, &positive, false),
            described(
                "active OFF times, s",
                Some("active-off-time"),
                habits.active,
                &positive,
                false,
            ),
            described(
                "files per object",
                Some("files-per-object"),
                habits.files,
                &positive,
                false,
            ),
            described(
                "session lengths, objects",
                Some("session-length"),
                habits.sessions,
                &[inverse_gaussian, lognormal, exponential, pareto],
                false,
            ),
        ],
    }
}

/// What clients do between requests.
#[derive(Debug, Default)]
struct Habits {
    off: Vec<f64>,
    active: Vec<f64>,
    files: Vec<f64>,
    sessions: Vec<f64>,
}

impl Habits {
    /// The requests of one client, in order.
    fn read(&mut self, visits: &[&Visit], session_ns: i64) {
        let (mut files, mut objects) = (0u32, 0u32);
        let mut before: Option<i64> = None;
        for visit in visits {
            let pause = before.map_or(0, |before| visit.at_ns - before);
            let begins = files == 0 || pause > OFF_NS || visit.page;
            if begins && files > 0 {
                self.files.push(f64::from(files));
                files = 0;
            }
            if pause > session_ns {
                self.sessions.push(f64::from(objects));
                objects = 0;
            } else if pause > OFF_NS {
                self.off.push(pause as f64 / 1e9);
            } else if pause > 0 && !begins {
                self.active.push(pause as f64 / 1e9);
            }
            objects += u32::from(begins);
            files += 1;
            before = Some(visit.at_ns);
        }
        // The last object and session may go on after the end of the log, but most end with it.
        if files > 0 {
            self.files.push(f64::from(files));
            self.sessions.push(f64::from(objects));
        }
    }
}

/// How many different files were asked for since a file was asked for last.
fn depths(visits: &[Visit]) -> Vec<f64> {
    let mut stack: Vec<u32> = Vec::new();
    let mut depths = Vec::new();
    // Moving a file to the top costs its depth; a part of a long log says as much.
    for visit in visits.iter().take(VALUES_MAX) {
        let found = stack
            .iter()
            .rev()
            .take(DEPTH_MAX)
            .position(|&file| file == visit.file);
        if let Some(depth) = found {
            depths.push(depth as f64 + 1.0);
            stack.remove(stack.len() - 1 - depth);
        }
        stack.push(visit.file);
        if stack.len() > 2 * DEPTH_MAX {
            stack.drain(..DEPTH_MAX);
        }
    }
    depths
}

/// The exponent of popularity by maximum likelihood over ranks, by bisection of its derivative.
fn zipf(mut references: Vec<u64>) -> Option<f64> {
    if references.len() < VALUES_MIN {
        return None;
    }
    references.sort_unstable_by(|a, b| b.cmp(a));
    let logs: Vec<f64> = (1..=references.len())
        .map(|rank| libm::log(rank as f64))
        .collect();
    let all: f64 = references.iter().map(|&count| count as f64).sum();
    let seen: f64 = references
        .iter()
        .zip(&logs)
        .map(|(&count, log)| count as f64 * log)
        .sum();
    let expected = |s: f64| {
        let weights = logs.iter().map(|log| libm::exp(-s * log));
        let (above, below) = weights
            .zip(&logs)
            .fold((0.0, 0.0), |(above, below), (weight, log)| {
                (above + weight * log, below + weight)
            });
        above / below
    };
    let (mut low, mut high) = (0.0, 5.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        // Steeper popularity has a lower mean rank.
        if expected(middle) > seen / all {
            low = middle
        } else {
            high = middle
        }
    }
    Some((low + high) / 2.0)
}

type Family = fn(&[f64]) -> Option<Shape>;

fn described(
    stream: &'static str,
    flag: Option<&'static str>,
    mut values: Vec<f64>,
    families: &[Family],
    hybrid: bool,
) -> Estimate {
    values.sort_unstable_by(f64::total_cmp);
    let count = values.len();
    let mean = values.iter().sum::<f64>() / count.max(1) as f64;
    let median = values.get(count / 2).copied().unwrap_or(0.0);
    if count > VALUES_MAX {
        values = (0..VALUES_MAX).map(|n| values[n * count / VALUES_MAX]).collect();
    }
    let mut candidates = Vec::new();
    if values.len() >= VALUES_MIN {
        let models = families
            .iter()
            .filter_map(|family| Model::single(family(&values)?, 0.0, f64::INFINITY).ok());
        let hybrids = CUTS
            .iter()
            .filter(|_| hybrid)
            .filter_map(|&cut| body_and_tail(&values, cut));
        candidates.extend(models.map(|model| held_against(&values, &model)));
        candidates.extend(
            hybrids
                .map(|model| held_against(&values, &model))
                .min_by(|a, b| a.distance.total_cmp(&b.distance)),
        );
        candidates.sort_by(|a, b| a.distance.total_cmp(&b.distance));
    }
    Estimate {
        stream,
        flag,
        values: count as u64,
        mean,
        median,
        candidates,
    }
}

fn held_against(values: &[f64], model: &Model) -> Candidate {
    let mut sample = values.to_vec();
    let fit = kolmogorov_smirnov(&mut sample, |x| model.cdf(x));
    Candidate {
        model: model.to_string(),
        distance: fit.statistic,
        p_value: fit.p_value,
    }
}

/// A number as it is worth writing.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = libm::pow(10.0, 4.0 - libm::floor(libm::log10(value.abs())));
    libm::round(value * scale) / scale
}

fn log_moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().map(|&x| libm::log(x)).sum::<f64>() / n;
    let square = values
        .iter()
        .map(|&x| libm::pow(libm::log(x) - mean, 2.0))
        .sum::<f64>()
        / n;
    (mean, square.sqrt())
}

fn lognormal(values: &[f64]) -> Option<Shape> {
    let (mu, sigma) = log_moments(values);
    (sigma > 0.0).then(|| Shape::Lognormal {
        mu: rounded(mu),
        sigma: rounded(sigma),
    })
}

fn pareto(values: &[f64]) -> Option<Shape> {
    let k = values.first().copied().filter(|&k| k > 0.0)?;
    let sum: f64 = values.iter().map(|&x| libm::log(x / k)).sum();
    (sum > 0.0).then(|| Shape::Pareto {
        k,
        alpha: rounded(values.len() as f64 / sum),
    })
}

fn exponential(values: &[f64]) -> Option<Shape> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (mean > 0.0).then(|| Shape::Exponential { mean: rounded(mean) })
}

fn inverse_gaussian(values: &[f64]) -> Option<Shape> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let spread: f64 = values.iter().map(|x| 1.0 / x - 1.0 / mean).sum();
    (mean > 0.0 && spread > 0.0).then(|| Shape::InverseGaussian {
        mean: rounded(mean),
        lambda: rounded(n / spread),
    })
}

/// The shape solves `S1(k)/S0(k) - 1/k = mean of logarithms`, by Newton's method.
fn weibull(values: &[f64]) -> Option<Shape> {
    let (log_mean, log_deviation) = log_moments(values);
    if log_deviation <= 0.0 {
        return None;
    }
    let mut shape = 1.2 / log_deviation;
    // Values are taken in units of their geometric mean, so that no power overflows.
    let logs: Vec<f64> = values.iter().map(|&x| libm::log(x) - log_mean).collect();
    for _ in 0..100 {
        let (mut s0, mut s1, mut s2) = (0.0, 0.0, 0.0);
        for &log in &logs {
            let power = libm::exp(shape * log);
            s0 += power;
            s1 += power * log;
            s2 += power * log * log;
        }
        let off = s1 / s0 - 1.0 / shape;
        let slope = s2 / s0 - libm::pow(s1 / s0, 2.0) + 1.0 / (shape * shape);
        let next = (shape - off / slope).clamp(shape / 2.0, shape * 2.0);
        let done = (next - shape).abs() < 1e-9 * shape;
        shape = next;
        if done || !shape.is_finite() {
            break;
        }
    }
    let mean_power = logs.iter().map(|log| libm::exp(shape * log)).sum::<f64>() / logs.len() as f64;
    let scale = libm::exp(log_mean + libm::log(mean_power) / shape);
    (shape.is_finite() && scale.is_finite()).then(|| Shape::Weibull {
        scale: rounded(scale),
        shape: rounded(shape),
    })
}

/// A lognormal body and a Pareto tail, meeting at this share of the values.
fn body_and_tail(values: &[f64], cut: f64) -> Option<Model> {
    let at = (values.len() as f64 * cut) as usize;
    let (body, tail) = values.split_at(at);
    if body.len() < VALUES_MIN || tail.len() < VALUES_MIN {
        return None;
    }
    let k = rounded(tail[0]);
    let sum: f64 = tail.iter().map(|&x| libm::log((x / k).max(1.0))).sum();
    if sum <= 0.0 {
        return None;
    }
    // The body's parameters from two quantiles of all values: its mean would be that of a body cut off.
    let quantile = |share: f64| libm::log(values[((values.len() - 1) as f64 * share) as usize]);
    let (low, high) = (cut * 0.25, cut * 0.75);
    let (z_low, z_high) = (normal_quantile(low), normal_quantile(high));
    let sigma = (quantile(high) - quantile(low)) / (z_high - z_low);
    let body = Shape::Lognormal {
        mu: rounded(quantile(low) - sigma * z_low),
        sigma: rounded(sigma),
    };
    let tail = Shape::Pareto {
        k,
        alpha: rounded(tail.len() as f64 / sum),
    };
    Model::hybrid(body, tail, 0.0, k, f64::INFINITY).ok()
}

/// The value that a standard normal variable is not above with this chance, by bisection.
fn normal_quantile(share: f64) -> f64 {
    let cdf = |z: f64| 0.5 * libm::erfc(-z / core::f64::consts::SQRT_2);
    let (mut low, mut high) = (-10.0, 10.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if cdf(middle) < share {
            low = middle
        } else {
            high = middle
        }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Class;
    use crate::parameters::{Parameters, Set};
    use crate::plan::{Layout, Population, plan};
    use crate::surge::Surge;
    use measure::{Duration, Seed};

    fn sample(model: &str, count: usize) -> Vec<f64> {
        let model: Model = model.parse().expect("a model");
        let mut rng = Seed(1).rng();
        let mut values: Vec<f64> = (0..count).map(|_| model.draw(&mut rng)).collect();
        values.sort_unstable_by(f64::total_cmp);
        values
    }

    /// Each family finds its own parameters again.
    #[test]
    fn parameters_are_recovered() {
        for (model, family, wanted) in [
            ("lognormal(7.63,1.001)", lognormal as Family, [7.63, 1.001]),
            ("pareto(1,1.4)", pareto, [1.0, 1.4]),
            ("weibull(1.46,0.382)", weibull, [1.46, 0.382]),
            ("exponential(3.5)", exponential, [3.5, 3.5]),
            ("inverse-gaussian(3.86,6.08)", inverse_gaussian, [3.86, 6.08]),
        ] {
            let values = sample(model, 50_000);
            let numbers = match family(&values).expect(model) {
                Shape::Lognormal { mu, sigma } => [mu, sigma],
                Shape::Pareto { k, alpha } => [k, alpha],
                Shape::Weibull { scale, shape } => [scale, shape],
                Shape::InverseGaussian { mean, lambda } => [mean, lambda],
                Shape::Exponential { mean } => [mean, mean],
                Shape::Constant(_) => panic!("{model}"),
            };
            for (found, wanted) in numbers.iter().zip(wanted) {
                assert!(
                    (found / wanted - 1.0).abs() < 0.03,
                    "{model}: {found}, not {wanted}"
                );
            }
        }
    }

    #[test]
    fn the_best_family_is_the_one_it_was_drawn_from() {
        let positive = [lognormal as Family, pareto, weibull, exponential];
        for (model, hybrid) in [
            ("lognormal(7.63,1.001)", false),
            ("pareto(1,1.4)", false),
            ("weibull(1.46,0.382)", false),
            (
                "0.93*lognormal(7.881,1.339)@1..34102 + 0.07*pareto(34102,1.177)@34102..1e12",
                true,
            ),
        ] {
            let found = described("", None, sample(model, 20_000), &positive, hybrid);
            let best = &found.candidates[0];
            let family = model.split('(').next().expect("a name");
            let family = family.rsplit('*').next().expect("a name");
            assert!(best.model.contains(family), "{model}: {best:?}");
            assert_eq!(best.model.contains('+'), hybrid, "{model}: {best:?}");
            assert!(best.distance < 0.02, "{model}: {best:?}");
        }
    }

    #[test]
    fn popularity_has_its_exponent() {
        for s in [0.6, 1.0, 1.3] {
            let references = (1..=2000)
                .map(|rank| (1e6 / f64::powf(f64::from(rank), s)) as u64)
                .collect();
            let found = zipf(references).expect("enough files");
            assert!((found - s).abs() < 0.02, "{found}, not {s}");
        }
        assert_eq!(zipf(vec![1; 3]), None);
    }

    #[test]
    fn depths_count_different_files() {
        let visits = [1, 2, 3, 1, 1, 2].map(|file| Visit {
            client: 0,
            at_ns: 0,
            file,
            bytes: 1,
            page: true,
        });
        assert_eq!(depths(&visits), [3.0, 1.0, 3.0]);
    }

    /// What Surge's users do in a plan is found in a log of it.
    #[test]
    fn the_habits_of_a_plan_are_found_in_its_log() {
        let surge = Surge::new(Parameters::published(Set::Table8), Seed(1)).expect("the published set");
        let layout = Layout {
            who: Population::Users {
                number: 200,
                stagger: Duration::from_millis(50),
            },
            duration: Duration::from_secs(1000),
            nominal: Duration::from_millis(1),
            size: 1,
            seed: surge.seed,
        };
        let mut at = 0;
        let visits: Vec<Visit> = plan(&surge, layout)
            .map(|request| {
                at = request.intended_ns.unwrap_or(at + 1_000_000);
                Visit {
                    client: request.user,
                    at_ns: at as i64,
                    file: request.file,
                    bytes: request.size.unwrap_or(0),
                    page: request.class != Some(Class::Embedded),
                }
            })
            .collect();
        let found = estimate(visits, i64::MAX);
        assert_eq!(found.clients, 200);
        let best = |stream: &str| {
            let found = found.streams.iter().find(|estimate| estimate.stream == stream);
            found.expect(stream).candidates[0].model.clone()
        };
        let off = best("OFF times, s");
        let alpha = off
            .strip_prefix("pareto(")
            .and_then(|rest| rest.split([',', ')']).nth(1));
        let alpha: f64 = alpha
            .and_then(|alpha| alpha.parse().ok())
            .unwrap_or_else(|| panic!("{off}"));
        // The end of the run cuts off the longest.
        assert!((alpha - 1.4).abs() < 0.1, "{off}");
        let exponent = found.zipf_exponent.expect("enough files");
        assert!((0.7..1.3).contains(&exponent), "{exponent}");
    }

    #[test]
    fn too_few_values_say_nothing() {
        let found = estimate(Vec::new(), 1);
        assert_eq!((found.requests, found.zipf_exponent), (0, None));
        assert!(found.streams.iter().all(|stream| stream.candidates.is_empty()));
    }
}
