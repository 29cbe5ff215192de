//! `weir model balance --record`: the choices that a server recorded, replayed through each policy. Reads the file and says
//! what the replay assumes; `balance::simulate` replays.

use super::grid::{Cell, Grid};
use super::report::Report;
use crate::failure::Failure;
use ::balance::record::{Choice, Line, Start};
use ::balance::simulate::{Outcome, Recorded};
use std::path::Path;
use units::Seed;

/// The choices between two starts of the server.
struct Segment {
    start: Start,
    choices: Vec<Choice>,
}

/// The outcome of each policy for the requests in this file.
pub(super) fn balance(path: &Path, runs: u64, seed: Seed) -> Result<Report, Failure> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| Failure::Usage(format!("{file}: {error}")))?;
    replay(&file, &text, runs, seed)
}

/// The same for the text of a file with this name.
fn replay(file: &str, text: &str, runs: u64, seed: Seed) -> Result<Report, Failure> {
    let refused = |why: String| Failure::Usage(format!("{file}: {why}"));
    let (segments, torn) =
        parse(text).map_err(|(line, why)| Failure::Usage(format!("{file}:{line}: {why}")))?;
    let count = segments.len();
    // The first of the longest ones.
    let longest = segments.into_iter().rev().max_by_key(|one| one.choices.len());
    let Some(segment) = longest.filter(|one| !one.choices.is_empty()) else {
        return Err(refused(
            "it has no choices; record some with `balance-record` in [[proxy]]".to_owned(),
        ));
    };
    let recorded = Recorded::of(&segment.start, &segment.choices).map_err(refused)?;
    let mut report = Report::default();
    let replays = recorded.compare(runs, seed);
    let own = replays.iter().find(|(policy, _)| *policy == recorded.policy);
    report.grids = vec![
        policies(&recorded, &replays),
        upstreams(&segment.start.rule, &recorded),
    ];
    report.notes = vec![
        format!(
            "{} requests for {}, {runs} runs of each policy, seeds {} to {}",
            recorded.requests(),
            segment.start.rule,
            seed.0,
            seed.0.wrapping_add(runs - 1)
        ),
        "assumed: requests arrive as recorded, whatever the policy".to_owned(),
        "assumed: a request needs the service time estimated at the upstream that got it; at another upstream, that \
         time scaled by the service times of both in the second table"
            .to_owned(),
        "assumed: an upstream shares its capacity equally among its requests; connections are kept, and a request \
         spends the time of the second table in the network"
            .to_owned(),
        "assumed: an upstream fails at a time if its last recorded request before that time failed".to_owned(),
    ];
    if let Some((policy, outcome)) = own {
        report.notes.push(format!(
            "{policy} was recorded with a mean of {} ms, and its replay has {} ms: smaller differences between \
             policies mean nothing",
            millis(recorded.measured.mean),
            millis(outcome.mean)
        ));
    }
    if recorded.given_up > 0 {
        report.notes.push(format!(
            "{} requests were given up before their response: the replays have them, the first row does not",
            recorded.given_up
        ));
    }
    if count > 1 {
        report.notes.push(format!(
            "the server was started or reloaded {count} times; this is the longest part of the file"
        ));
    }
    if torn > 0 {
        report
            .notes
            .push(format!("lines left out because they are cut off: {torn}"));
    }
    Ok(report)
}

fn millis(seconds: f64) -> String {
    format!("{:.3}", seconds * 1e3)
}

fn policies(recorded: &Recorded, replays: &[(::balance::Policy, Outcome)]) -> Grid {
    let columns = [
        ("policy", ""),
        ("mean", "ms"),
        ("99th percentile", "ms"),
        ("failed", "%"),
    ];
    let mut grid = Grid::new("response times", &columns);
    let row = |name: String, outcome: &Outcome| {
        [
            Cell::Text(name),
            Cell::Decimals(outcome.mean * 1e3, 3),
            Cell::Decimals(outcome.p99 * 1e3, 3),
            Cell::Decimals(outcome.errors * 100.0, 3),
        ]
    };
    grid.row(row(
        format!("{}, as recorded", recorded.policy),
        &recorded.measured,
    ));
    for (policy, outcome) in replays {
        grid.row(row(policy.to_string(), outcome));
    }
    grid
}

fn upstreams(rule: &str, recorded: &Recorded) -> Grid {
    let columns = [
        ("upstream", ""),
        ("requests", ""),
        ("failed", ""),
        ("service", "ms"),
        ("network", "ms"),
    ];
    let mut grid = Grid::new(format!("upstreams of rule {rule}"), &columns);
    for upstream in &recorded.upstreams {
        grid.row([
            Cell::from(upstream.address.as_str()),
            upstream.requests.into(),
            upstream.failures.into(),
            Cell::Decimals(upstream.service * 1e3, 3),
            Cell::Decimals(upstream.network * 1e3, 3),
        ]);
    }
    grid
}

/// The parts of a record, and how many lines are cut off: the last one of a server that was killed. Otherwise, the number of
/// the first line that is no line of a record and the reason.
fn parse(text: &str) -> Result<(Vec<Segment>, usize), (usize, String)> {
    let mut segments: Vec<Segment> = Vec::new();
    let (mut cut, mut torn) = (None, 0);
    let lines = text.lines().enumerate();
    for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        match Line::parse(line) {
            Ok(Line::Start(start)) => {
                torn += usize::from(cut.take().is_some());
                let choices = Vec::new();
                segments.push(Segment { start, choices });
            }
            _ if cut.is_some() => break,
            Ok(Line::Choice(choice)) => match segments.last_mut() {
                Some(segment) => segment.choices.push(choice),
                None => {
                    let why = "a record begins with a line that has `balance-record`".to_owned();
                    return Err((number + 1, why));
                }
            },
            Err(why) => cut = Some((number + 1, why)),
        }
    }
    match cut {
        Some((number, why)) if text.ends_with('\n') || segments.is_empty() => Err((number, why)),
        Some((number, why)) if number < text.lines().count() => Err((number, why)),
        cut => Ok((segments, torn + usize::from(cut.is_some()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = "{\"balance-record\":1,\"weir\":\"1\",\"began-ms\":0,\"rule\":\"/*\",\"policy\":\"hash\",\"upstreams\":\
        [{\"address\":\"http://a\",\"weight\":1},{\"address\":\"http://b\",\"weight\":1}],\"max-failures\":3,\
        \"ejection-us\":10000000,\"slow-start-us\":0,\"retries\":1}";

    fn choice(request: u64, chosen: usize) -> String {
        format!(
            "{{\"at-us\":{},\"rule\":\"/*\",\"request\":{request},\"key\":\"0f\",\"tried\":[],\"candidates\":[],\"chosen\":{chosen},\
             \"response-us\":5000,\"service-us\":5000,\"bytes\":1,\"status\":200,\"outcome\":\"answered\",\"repeatable\":true}}",
            request * 10_000
        )
    }

    #[test]
    fn lines_that_are_cut_off_are_passed_over_and_others_are_named() {
        let whole = format!("{START}\n{}\n{}\n", choice(0, 0), choice(1, 1));
        let lengths = |text: &str| {
            let (segments, torn) = parse(text).map_err(|(line, _)| line)?;
            let lengths: Vec<usize> = segments.iter().map(|one| one.choices.len()).collect();
            Ok((lengths, torn))
        };
        assert_eq!(lengths(&whole), Ok((vec![2], 0)));
        let cut = &whole[..whole.len() - 9];
        assert_eq!(lengths(cut), Ok((vec![1], 1)));
        // The next start begins a line of its own.
        assert_eq!(lengths(&format!("{cut}\n{whole}")), Ok((vec![1, 2], 1)));
        assert_eq!(lengths(&format!("{cut}\n{}\n", choice(2, 0))), Err(3));
        assert_eq!(lengths(&format!("{whole}{{}}\n")), Err(4));
        assert_eq!(lengths(&choice(0, 0)), Err(1));
        assert_eq!(lengths("what"), Err(1));
        assert_eq!(lengths(""), Ok((vec![], 0)));
    }

    #[test]
    fn the_longest_part_is_replayed() {
        let many: Vec<String> = (0..50).map(|at| choice(at, (at % 2) as usize)).collect();
        let text = format!("{START}\n{}\n{START}\n{}\n", choice(0, 0), many.join("\n"));
        let report = replay("a.jsonl", &text, 2, Seed(1)).expect("a record");
        let shown = |format| {
            report
                .render(format, false, "balance")
                .expect("a form that it has")
        };
        let csv = shown(crate::cli::model::Format::Csv);
        assert_eq!(csv.lines().count(), 8, "{csv}");
        let text = shown(crate::cli::model::Format::Markdown);
        for name in ["hash, as recorded", "round-robin", "turnaround"] {
            let row = text.lines().find(|line| line.contains(name)).expect("a row");
            assert_eq!(row.matches(" 5.000 ").count(), 2, "mean and percentile: {row}");
        }
        assert!(
            report.notes[0].starts_with("50 requests for /*"),
            "{:?}",
            report.notes
        );
        let notes = report.notes.join("\n");
        assert!(notes.contains("reloaded 2 times"), "{notes}");
        let why = replay("a.jsonl", START, 2, Seed(1))
            .expect_err("no choices")
            .to_string();
        assert!(why.contains("a.jsonl: it has no choices"), "{why}");
    }
}
