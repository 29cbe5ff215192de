//! What a running proxy observed: two readings of its metrics, some time apart, as the requests per second and the estimates
//! of each upstream. Reads OpenMetrics text as `/.weir/metrics` writes it; computes no model.

use super::Measured;
use super::grid::{Cell, Grid};
use super::report::Report;
use crate::failure::Failure;
use ::model::Seconds;
use ::model::upstreams::{ADDED_MAX, Upstream, capacity};
use std::collections::BTreeMap;
use std::path::Path;

/// A rule: its site and its path.
type Rule = (String, String);

/// The metrics of one moment.
#[derive(Debug, Default)]
struct Reading {
    uptime: Option<f64>,
    processes: f64,
    upstreams: BTreeMap<(Rule, String), Seen>,
}

/// An upstream at that moment. Estimates are absent before the first response.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    requests: f64,
    service: Option<f64>,
    network: Option<f64>,
    response: Option<f64>,
}

/// The capacity of each rule's upstreams between two readings, and what to add for a mean turnaround of at most `objective`.
pub(super) fn distribute(
    before: &Path,
    after: &Path,
    objective: Option<Seconds>,
    measured: Measured<'_>,
) -> Result<Report, Failure> {
    let (first, last) = (Reading::of(before)?, Reading::of(after)?);
    let uptime = |reading: &Reading, path: &Path| {
        reading.uptime.ok_or_else(|| {
            Failure::Usage(format!(
                "{}: no `weir_uptime_seconds`: save the answer of `/.weir/metrics` of a proxy",
                path.display()
            ))
        })
    };
    let span = uptime(&last, after)? - uptime(&first, before)?;
    if span <= 0.0 {
        return Err(Failure::Usage(format!(
            "{} is not later than {}, or the server was restarted between them: give the earlier reading first",
            after.display(),
            before.display()
        )));
    }
    let mut rules: BTreeMap<&Rule, Vec<(&str, Seen, f64)>> = BTreeMap::new();
    for ((rule, upstream), seen) in &last.upstreams {
        let earlier = first.upstreams.get(&(rule.clone(), upstream.clone()));
        let requests = seen.requests - earlier.map_or(0.0, |earlier| earlier.requests);
        if requests < 0.0 {
            return Err(Failure::Usage(format!(
                "`{upstream}` has fewer requests in {} than in {}: the configuration was reloaded between them",
                after.display(),
                before.display()
            )));
        }
        rules
            .entry(rule)
            .or_default()
            .push((upstream, *seen, requests / span));
    }
    if rules.is_empty() {
        return Err(Failure::Usage(format!(
            "{}: no `weir_upstream_requests_total`: the server has no `[[proxy]]` rule",
            after.display()
        )));
    }
    let mut report = Report::default();
    for (rule, upstreams) in rules {
        of_rule(rule, &upstreams, objective, measured, &mut report)?;
    }
    if report.answers.is_empty() {
        return Err(Failure::Failed(format!(
            "no upstream got a request in the {span:.1} s between the readings"
        )));
    }
    if last.processes > 1.0 {
        report.notes.push(format!(
            "the server has {} worker processes, and each reading is of the one that answered",
            last.processes
        ));
    }
    report.notes.push(format!("readings {span:.1} s apart"));
    Ok(report)
}

fn of_rule(
    rule: &Rule,
    upstreams: &[(&str, Seen, f64)],
    objective: Option<Seconds>,
    measured: Measured<'_>,
    report: &mut Report,
) -> Result<(), Failure> {
    // Site 0 is the top level of the configuration.
    let name = match rule {
        (site, path) if site == "0" || site.is_empty() => format!("rule {path}"),
        (site, path) => format!("rule {path} of host {site}"),
    };
    if upstreams.iter().all(|(_, _, rate)| *rate == 0.0) {
        report
            .notes
            .push(format!("{name}: no requests between the readings"));
        return Ok(());
    }
    let (mut known, mut responses) = (Vec::new(), Vec::new());
    for &(upstream, seen, arrivals) in upstreams {
        let Some(service) = seen.service.filter(|&service| service > 0.0) else {
            report.notes.push(format!(
                "{name}: {upstream} is left out, because it has sent no response"
            ));
            continue;
        };
        responses.push(seen.response);
        known.push(Upstream {
            name: upstream.to_owned(),
            arrivals,
            service: Seconds(service),
            network: Seconds(seen.network.unwrap_or(0.0)),
        });
    }
    let found = capacity(&known, objective)?;
    let answer = found.answer.clone();
    let mut now = Grid::new(
        format!("upstreams of {name}"),
        &[
            ("upstream", ""),
            ("requests", "1/s"),
            ("service", "s"),
            ("network", "s"),
            ("utilization", ""),
            ("turnaround", "s"),
            ("measured response", "s"),
            ("one more costs", "s"),
            ("requests, best split", "1/s"),
        ],
    );
    for (at, upstream) in known.iter().enumerate() {
        let share = answer.now.shares[at];
        let best = answer.best.as_ref().map(|best| best.shares[at].arrivals);
        now.row([
            upstream.name.as_str().into(),
            upstream.arrivals.into(),
            upstream.service.into(),
            upstream.network.into(),
            share.utilization.into(),
            share.turnaround.into(),
            responses[at].into(),
            share.growth.into(),
            best.into(),
        ]);
    }
    let columns = [
        ("further upstreams like", ""),
        ("number", ""),
        ("mean turnaround", "s"),
    ];
    let mut more = Grid::new(format!("capacity to add to {name}"), &columns);
    for (upstream, addition) in known.iter().zip(&answer.additions) {
        more.row(match addition {
            Some(addition) => [
                Cell::from(upstream.name.as_str()),
                addition.count.into(),
                addition.turnaround.into(),
            ],
            None => [
                upstream.name.as_str().into(),
                format!("more than {ADDED_MAX}").into(),
                Cell::Missing,
            ],
        });
    }
    report.answer(found, measured);
    report.grids.extend([now, more]);
    Ok(())
}

impl Reading {
    fn of(path: &Path) -> Result<Reading, Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
        Reading::parse(&text)
            .map_err(|(line, why)| Failure::Usage(format!("{}:{line}: {why}", path.display())))
    }

    /// The reading, or the number of the first line that is no sample and the reason.
    fn parse(text: &str) -> Result<Reading, (usize, String)> {
        let mut reading = Reading::default();
        for (number, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, labels, value) = sample(line)
                .ok_or_else(|| (number + 1, format!("`{line}` is no sample of OpenMetrics text")))?;
            let label = |key: &str| {
                let found = labels.iter().find(|(name, _)| name == key);
                found.map(|(_, value)| value.clone()).unwrap_or_default()
            };
            match name.strip_prefix("weir_") {
                Some("uptime_seconds") => reading.uptime = Some(value),
                Some("processes") => reading.processes = value,
                Some(metric) if metric.starts_with("upstream_") => {
                    let key = ((label("site"), label("rule")), label("upstream"));
                    let seen = reading.upstreams.entry(key).or_default();
                    match metric {
                        "upstream_requests_total" => seen.requests = value,
                        "upstream_service_seconds" => seen.service = Some(value),
                        "upstream_network_seconds" => seen.network = Some(value),
                        "upstream_response_seconds" => seen.response = Some(value),
                        _ => (),
                    }
                }
                _ => (),
            }
        }
        Ok(reading)
    }
}

/// Names and values.
type Labels = Vec<(String, String)>;

/// Name, labels and value of a sample. A time stamp after the value is skipped.
fn sample(line: &str) -> Option<(&str, Labels, f64)> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (key, after) = rest.trim_start_matches(',').split_once("=\"")?;
            let (value, after) = quoted(after)?;
            labels.push((key.to_owned(), value));
            rest = after;
        }
        rest = &rest[1..];
    }
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some((name, labels, value))
}

/// The text up to the next quotation mark without its escapes, and what follows the mark.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    loop {
        let (at, character) = characters.next()?;
        match character {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_a_name_labels_and_a_value() {
        let line = r#"weir_upstream_requests_total{site="",rule="/a\"b\\,c",upstream="http://[::1]:80"} 12 1700000000"#;
        let (name, labels, value) = sample(line).expect("a sample");
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!((name, value), ("weir_upstream_requests_total", 12.0));
        assert_eq!(
            labels,
            [
                pair("site", ""),
                pair("rule", "/a\"b\\,c"),
                pair("upstream", "http://[::1]:80")
            ]
        );
        for broken in ["x", "x{a=\"b", "x{a=\"b\"}", "x{a} 1", "x{a=\"b\"} one"] {
            assert_eq!(sample(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_faulty_line_is_named() {
        let text = "# TYPE x gauge\nweir_uptime_seconds 2.5\nnonsense\n";
        let (line, why) = Reading::parse(text).expect_err("no sample");
        assert_eq!(line, 3);
        assert!(why.contains("nonsense"), "{why}");
    }

    /// A reading may end anywhere, as when a disk is full: it is read or refused.
    #[test]
    fn a_reading_may_be_cut_anywhere() {
        let text = "weir_uptime_seconds 2.5\nweir_upstream_requests_total{site=\"\",rule=\"/\\\\\",upstream=\"h\"} 7\n";
        for end in 0..text.len() {
            if let Ok(reading) = Reading::parse(&text[..end]) {
                assert!(
                    reading.upstreams.values().all(|seen| seen.requests <= 7.0),
                    "{end}"
                );
            }
        }
        assert_eq!(Reading::parse(text).expect("whole").upstreams.len(), 1);
    }
}
