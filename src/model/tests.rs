//! The command as a function: every example of the help in every form, and what is refused.

use super::*;
use crate::cli::{Cli, Command};
use clap::{CommandFactory, Parser};

fn flags(words: &[String]) -> Result<Flags, String> {
    let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
    let Command::Model(flags) = cli.command else {
        panic!("another command")
    };
    Ok(*flags)
}

/// The answer to a command line as a shell would split it.
fn ask(line: &str, format: Format) -> Result<String, String> {
    let flags = flags(&split(line))?;
    let (name, report) = answer(&flags.question, &flags.output.measured).map_err(|why| why.to_string())?;
    let text = report.render(format, flags.output.explain, name);
    text.map_err(|why| why.to_string())
}

/// Words of a command line; quotes hold words together, and what goes to a file is not our business.
fn split(line: &str) -> Vec<String> {
    let line = line.split(" > ").next().unwrap_or_default();
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in line.trim().chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            c => words.last_mut().expect("there is always one").push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Every `weir model ...` line of every help text.
fn examples() -> Vec<String> {
    let command = Cli::command();
    let model = command.find_subcommand("model").expect("a command");
    let mut texts: Vec<String> = model
        .get_after_help()
        .into_iter()
        .map(ToString::to_string)
        .collect();
    for question in model.get_subcommands() {
        let help = question.get_after_help();
        texts.push(
            help.unwrap_or_else(|| panic!("{} has no example", question.get_name()))
                .to_string(),
        );
    }
    texts
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(|line| line.find("weir model ").map(|at| line[at..].to_owned()))
        .collect()
}

#[test]
fn every_example_of_the_help_works_in_every_form() {
    let examples = examples();
    assert!(examples.len() > 20, "{examples:?}");
    for example in examples {
        // The simulated million is for release builds, files of results are the user's.
        let example = example.replace("--users 1000000 --lines 1000", "--users 1000 --lines 1");
        if example.contains("results.csv") || example.contains("QUANTITY") {
            continue;
        }
        for format in [Format::Table, Format::Csv, Format::Markdown] {
            let text = ask(&example, format).unwrap_or_else(|why| panic!("{example}: {why}"));
            assert!(text.ends_with('\n') && !text.contains("NaN"), "{example}: {text}");
        }
        let text = ask(&example, Format::Json).expect("as above");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["format"], "weir-model", "{example}");
        if let Ok(svg) = ask(&example, Format::Svg) {
            assert!(
                svg.starts_with("<svg") && !svg.contains("NaN"),
                "{example}: {svg}"
            );
        }
    }
}

#[test]
fn questions_with_curves_have_pictures() {
    for question in [
        "waiting --users 50 --packets 12 --packet-time 36ms",
        "savings",
        "dimension --users 200 --page 125KB --turnaround 2s --rtt 90ms",
        "closed --users 20 --think 1s --station cpu=5ms",
        "queue --arrivals 80 --service 10ms",
        "srpt --sizes exponential(10ms)",
        "page --rate 2M --rtt 90ms",
        "transfer --size 1MB --rate 20M --rtt 90ms",
    ] {
        let svg = ask(&format!("weir model {question}"), Format::Svg).expect(question);
        assert!(svg.matches("<path class=\"line").count() >= 2, "{question}");
    }
    let refused = ask(
        "weir model servers --arrivals 1 --service 1ms --response 1s",
        Format::Svg,
    );
    assert!(refused.expect_err("no picture").contains("table, json, csv"));
}

#[test]
fn the_headline_question_is_answered_in_one_line() {
    let text = ask(
        "weir model dimension --users 200 --page 125KB --turnaround 2s --rtt 90ms",
        Format::Table,
    )
    .expect("an answer");
    let first = text.lines().next().unwrap_or_default();
    assert!(
        first.contains("132.353 Mbit/s for 200 users") && first.contains("binds"),
        "{first}"
    );
    assert!(text.contains("bounds:") && text.contains("holds for:"), "{text}");
}

#[test]
fn explain_prints_formulas_with_the_numbers_in_them() {
    let line = "weir model waiting --users 50 --packets 12 --packet-time 36ms --explain";
    let text = ask(line, Format::Table).expect("an answer");
    assert!(
        text.contains("t_w = (m-1)(n-1/2) t = 49 x (12 - 1/2) x 0.036 = 20.29 s"),
        "{text}"
    );
    assert!(text.contains("assumes:"), "{text}");
}

#[test]
fn measurements_outside_the_region_warn() {
    let line = "weir model waiting --users 50 --packets 12 --packet-time 36ms --measured size-scv=4 --measured loss=0";
    let text = ask(line, Format::Table).expect("an answer");
    assert!(
        text.contains("measured variability of sizes (scv) is 4; the model holds from 0 to 0.1"),
        "{text}"
    );
    let queue = ask(
        "weir model queue --arrivals 80 --service 10ms --service-scv 4",
        Format::Table,
    );
    assert!(queue.expect("an answer").contains("service is not exponential"));
}

#[test]
fn what_is_refused_is_named() {
    for (line, fragment) in [
        (
            "transaction --size 0 --rate 10M --rtt 1ms",
            "size is 0; allowed: 1 B or more",
        ),
        (
            "transaction --size 6000 --rate 10M --rtt=-1ms",
            "RTT is -0.001; allowed: above 0 s",
        ),
        (
            "transaction --size 6000 --rate fast --rtt 1ms",
            "`fast` is not a rate",
        ),
        (
            "waiting --users 0 --packets 1 --packet-time 1ms",
            "users is 0; allowed: 1 or more",
        ),
        ("waiting --users 5 --packets 1", "how long does a packet take"),
        (
            "transfer --size 1MB --rtt 90ms --loss 60%",
            "loss is 0.6; allowed",
        ),
        (
            "transfer --size 1MB --rtt 90ms --initial-window 0.5",
            "initial window is 0.5",
        ),
        (
            "dimension --users 5 --page 1MB --turnaround 10ms --rtt 90ms",
            "cannot be reached",
        ),
        (
            "queue --arrivals 200 --service 10ms",
            "overloaded (utilization 2.000)",
        ),
        ("closed --users 5 --station cpu=0ms", "total demand is 0"),
        (
            "distribute --users 5 --page 6000 --rtt 1ms --line T1:3 --line E1",
            "users are given for some lines",
        ),
        (
            "distribute --users 5 --page 6000 --rtt 1ms --line T1:3 --line E1:3",
            "the lines have 6 users",
        ),
        (
            "distribute --users 5 --page 6000 --rtt 1ms --line T1 --line E1 --turnaround 1s",
            "2 lines are given",
        ),
        ("flow --users 5 --page 6000 --rate 10M --lines 0", "0 lines given"),
        (
            "transfer --size 1MB --rtt 90ms --setup udp",
            "there are open, tcp, t-tcp",
        ),
        ("tables 6", "6 is not in 1..=5"),
    ] {
        let error = ask(&format!("weir model {line}"), Format::Table).expect_err(line);
        assert!(error.contains(fragment), "{line}: {error}");
    }
}

#[test]
fn a_fit_finds_what_made_the_samples() {
    let network = ::model::closed::Network::new(
        vec![
            ::model::closed::Station::queue("bottleneck", ::model::Seconds(0.004)),
            ::model::closed::Station::delay("rest", ::model::Seconds(0.05)),
        ],
        ::model::Seconds(2.0),
    )
    .expect("a network");
    let mut text = String::from("# made\nseconds,users,throughput,response\n");
    for users in [50u64, 200, 400, 600, 800] {
        let solved = network.exact(users).expect("a solution");
        text.push_str(&format!(
            "60,{users},{},{}\n",
            solved.throughput, solved.response.0
        ));
    }
    let folder = std::env::temp_dir().join(format!("weir-fit-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let good = folder.join("good.csv");
    put(&good, &text);
    let answer = ask(
        &format!("weir model fit {} --predict 1000", good.display()),
        Format::Csv,
    )
    .expect("a fit");
    let demand = answer.lines().nth(1).expect("a row");
    let value: f64 = demand
        .split(',')
        .nth(1)
        .and_then(|cell| cell.parse().ok())
        .expect("a number");
    assert!((value / 0.004 - 1.0).abs() < 1e-3, "{answer}");
    let bad = folder.join("bad.csv");
    put(&bad, "users,throughput,response\n1,2,3\n2,fast,3\n");
    let error = ask(&format!("weir model fit {}", bad.display()), Format::Csv).expect_err("no number");
    assert!(
        error.contains("bad.csv:3: `fast` is no number for throughput"),
        "{error}"
    );
    put(&bad, "a,b\n1,2\n");
    let error = ask(&format!("weir model fit {}", bad.display()), Format::Csv).expect_err("no columns");
    assert!(
        error.contains("users,throughput,response or size,latency"),
        "{error}"
    );
    std::fs::remove_dir_all(&folder).expect("the folder made above");
}

#[allow(clippy::disallowed_methods, reason = "a test of reading a file writes one")]
fn put(path: &std::path::Path, text: &str) {
    std::fs::write(path, text).expect("a file");
}
