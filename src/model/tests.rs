//! The command as a function: every example of the help texts in every form, and refused questions.

use super::*;
use crate::cli::{Cli, Command, Measure};
use clap::{CommandFactory, Parser};

fn flags(words: &[String]) -> Result<Flags, String> {
    let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
    let Command::Measure(Measure::Model(flags)) = cli.command else {
        panic!("another command")
    };
    Ok(*flags)
}

fn silent() -> Voice {
    let cli = Cli::try_parse_from(["weir", "--quiet", "model", "tables"]);
    cli.expect("a command").voice
}

/// The answer to a command line as a shell would split it.
pub(super) fn ask(line: &str, format: Format) -> Result<String, String> {
    let flags = flags(&split(line))?;
    let report = answer(&flags.question, &flags.output.measured, &silent()).map_err(|why| why.to_string())?;
    let text = report.render(format, flags.output.explain, name(&flags.question));
    text.map_err(|why| why.to_string())
}

/// The words of a command line: quotes group words, redirections are dropped.
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
        // The simulated million users is for release builds; result files are the user's.
        let example = example.replace("--users 1000000 --lines 1000", "--users 1000 --lines 1");
        // Long packet simulations have their own tests below.
        if [
            "results.csv",
            "one.json",
            "before.txt",
            "choices.jsonl",
            "model validate",
            "--measure",
        ]
        .iter()
        .any(|word| example.contains(word))
        {
            continue;
        }
        let parsed = |example: &str| flags(&split(example)).unwrap_or_else(|why| panic!("{example}: {why}"));
        let mut flags = parsed(&example);
        if example.contains("model balance") {
            // Nine cases of simulated upstreams take minutes in a build for tests.
            flags = parsed("weir model balance --upstreams 2 --duration 1s --runs 2");
        }
        let report = answer(&flags.question, &flags.output.measured, &silent())
            .unwrap_or_else(|why| panic!("{example}: {why}"));
        let render = |format, explain| report.render(format, explain, name(&flags.question));
        for explain in [false, true] {
            for format in [Format::Table, Format::Csv, Format::Markdown] {
                let text = render(format, explain).expect("always possible");
                assert!(text.ends_with('\n') && !text.contains("NaN"), "{example}: {text}");
            }
        }
        let text = render(Format::Json, false).expect("always possible");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["format"], "weir-model", "{example}");
        if let Ok(svg) = render(Format::Svg, false) {
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
        "waiting --group 5:6ms --group 10:4.333ms --packets 3",
        "distribute --users 50 --page 6000 --rtt 100ms --line T1 --line E1 --line T3",
        "distribute --users 3 --page 6000 --rtt 100ms --line T1 --line E1 --think 5s",
        "distribute --users 50 --page 6000 --rtt 100ms --line T1 --line T1 --line E1 --document",
        "distribute --users 50 --page 6000 --rtt 100ms --line T1 --line E1 --packets-in-turn",
        "distribute --users 50 --page 6000 --rtt 100ms --line T1 --turnaround 1s",
        "servers --arrivals 2000 --service 3ms --response 10ms",
    ] {
        let svg = ask(&format!("weir model {question}"), Format::Svg).expect(question);
        assert!(svg.matches("<path class=\"line").count() >= 2, "{question}");
        let parsed = roxmltree::Document::parse(&svg);
        assert!(parsed.is_ok(), "{question}: {parsed:?}");
    }
    let refused = ask("weir model tables", Format::Svg);
    assert!(refused.expect_err("no picture").contains("table, json, csv"));
}

/// The series names in a picture's legend, in order.
fn series(question: &str) -> Vec<String> {
    let flags = flags(&split(&format!("weir model {question}"))).expect(question);
    let report = answer(&flags.question, &flags.output.measured, &silent()).expect(question);
    let [chart] = &report.charts[..] else {
        panic!("{question}: one picture")
    };
    let svg = report.render(Format::Svg, false, "").expect(question);
    let document = roxmltree::Document::parse(&svg).expect("sound XML");
    let words: Vec<&str> = document.descendants().filter_map(|node| node.text()).collect();
    let names = chart.series.iter().map(|series| {
        assert!(
            words.contains(&series.name.as_str()),
            "{question}: {} in {words:?}",
            series.name
        );
        let is_drawn = series.points.len() > 1 || series.stroke == chart::Stroke::Dots;
        assert!(
            is_drawn && series.points.iter().all(|(x, y)| x.is_finite() && *y >= 0.0),
            "{series:?}"
        );
        series.name.clone()
    });
    names.collect()
}

#[test]
fn pictures_of_splits_and_groups_hold_what_was_asked_for() {
    let line = "--users 50 --page 6000 --rtt 100ms";
    assert_eq!(
        series(&format!(
            "distribute {line} --line T1:15 --line E1:15 --line T3:20"
        )),
        [
            "optimal split",
            "all on T1",
            "all on E1",
            "all on T3",
            "given split"
        ]
    );
    // Identical lines are one curve, and a split is at least as good as any single line.
    assert_eq!(
        series(&format!(
            "distribute {line} --line T1 --line T1 --line E1 --document"
        )),
        ["optimal split", "all on T1", "all on E1"]
    );
    for basis in ["", "--packets-in-turn", "--document", "--think 5s"] {
        let question = format!("weir model distribute {line} --line T1 --line E1 {basis}");
        let flags = flags(&split(&question)).expect(&question);
        let report = answer(&flags.question, &flags.output.measured, &silent()).expect(&question);
        let [split, alone @ ..] = &report.charts[0].series[..] else {
            panic!("{question}: series")
        };
        for one in alone {
            for ((users, least), (same, time)) in split.points.iter().zip(&one.points) {
                assert!(
                    users == same && *least <= time * (1.0 + 1e-9),
                    "{question}: {users} {least} {time}"
                );
            }
        }
        // At the requested number of users, the curve has the answer.
        let json = ask(&question, Format::Json).expect(&question);
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        let want = json["answers"][0]["answer"]["turnaround"]
            .as_f64()
            .expect("a time");
        let last = split.points.last().expect("points");
        assert!(
            last.0 == 50.0 && (last.1 / want - 1.0).abs() < 1e-9,
            "{question}: {last:?} {want}"
        );
    }
    let groups = "waiting --group 5:6ms --group 10:4.333ms --packets 3";
    assert_eq!(
        series(groups),
        [
            "turnaround",
            "waiting",
            "bound: all finish last",
            "bound: one after the other"
        ]
    );
}

/// The pictures of an answer.
fn charts(question: &str) -> Vec<chart::Chart> {
    let flags = flags(&split(&format!("weir model {question}"))).expect(question);
    let report = answer(&flags.question, &flags.output.measured, &silent()).expect(question);
    report.charts
}

#[test]
fn pictures_of_how_many_hold_the_answer_and_what_one_less_would_do() {
    for basis in ["", "--packets-in-turn", "--document"] {
        let question =
            format!("distribute --users 50 --page 6000 --rtt 100ms --line T1 --turnaround 1s {basis}");
        let charts = charts(&question);
        let [needs, users] = &charts[..] else {
            panic!("{question}: two pictures")
        };
        let [least, asked] = &needs.series[..] else {
            panic!("{question}: {:?}", needs.series)
        };
        // The requested point lies on the curve, which falls.
        assert_eq!(asked.points.len(), 1, "{question}");
        assert!(least.points.contains(&asked.points[0]), "{question}: {needs:?}");
        assert!(
            least.points.is_sorted_by(|a, b| a.0 < b.0 && a.1 >= b.1),
            "{question}: {needs:?}"
        );
        let last = |name: &str| {
            let series = users.series.iter().find(|series| series.name == name);
            series.expect(name).points.last().expect(name).1
        };
        assert!(
            last("turnaround") <= 1.0 && 1.0 < last("turnaround, one line fewer"),
            "{question}: {users:?}"
        );
        assert!(
            last("wanted") == 1.0 && last("waiting") < last("turnaround"),
            "{question}: {users:?}"
        );
    }
    // One line is enough; there is no curve for fewer.
    let one = charts("distribute --users 50 --page 6000 --rtt 100ms --line T1 --turnaround 4s");
    assert_eq!(one[1].series.len(), 3);
    let charts = charts("servers --arrivals 2000 --service 3ms --response 10ms");
    let [needs, arrivals] = &charts[..] else {
        panic!("two pictures")
    };
    let [pooled, separate, asked] = &needs.series[..] else {
        panic!("{:?}", needs.series)
    };
    assert_eq!(asked.points, [(0.01, 7.0), (0.01, 9.0)]);
    assert!(pooled.points.contains(&asked.points[0]) && separate.points.contains(&asked.points[1]));
    for (one, each) in pooled.points.iter().zip(&separate.points) {
        assert!(one.0 == each.0 && one.1 <= each.1, "{one:?} {each:?}");
    }
    // Below the service time there is nothing to draw.
    assert!(pooled.points.iter().all(|(response, _)| *response > 0.003));
    for series in &arrivals.series {
        assert!(
            series.points.iter().all(|(x, y)| *x > 0.0 && y.is_finite()),
            "{series:?}"
        );
        assert!(
            series.points.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1),
            "{series:?}"
        );
    }
}

#[test]
fn an_objective_that_is_asked_for_stands_in_its_table() {
    for (question, row) in [
        (
            "distribute --users 50 --page 6000 --rtt 100ms --line T1 --turnaround 1s",
            "1,2,",
        ),
        ("servers --arrivals 2000 --service 3ms --response 10ms", "0.01,7,"),
        // Without an answer, the table is empty.
        (
            "servers --arrivals 2000 --service 3ms --response 10ms",
            "0.0025,,,,",
        ),
    ] {
        let csv = ask(&format!("weir model {question}"), Format::Csv).expect(question);
        assert!(csv.lines().any(|line| line.starts_with(row)), "{question}: {csv}");
    }
}

#[test]
fn a_million_users_who_think_are_not_asked_about_twice_as_many() {
    let line = "dimension --users 1000001 --page 1KB --turnaround 1s --rtt 1ms --think 1s";
    let why = ask(&format!("weir model {line}"), Format::Table).expect_err("too many");
    assert!(why.contains("users is 1000001; allowed: 1 to 1,000,000"), "{why}");
    assert_eq!(users::numbers(600_000, true), [300_000, 600_000]);
    assert_eq!(users::numbers(500_000, true), [250_000, 500_000, 1_000_000]);
    assert_eq!(users::numbers(600_000, false), [300_000, 600_000, 1_200_000]);
    assert_eq!(users::numbers(1, false), [1, 2]);
    assert_eq!(users::numbers(u64::MAX, false), [u64::MAX / 2 + 1, u64::MAX]);
}

#[test]
fn a_start_that_is_not_over_is_said() {
    let line = "weir model flow --users 1000 --lines 4 --rate 10M --page 118750 --think 10s";
    let said = "the start is still in it; warm up longer";
    assert!(ask(line, Format::Table).expect("an answer").contains(said));
    let long = format!("{line} --warmup 600s --measure 600s");
    assert!(!ask(&long, Format::Table).expect("an answer").contains(said));
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
        first.contains("102.798 Mbit/s for 200 users") && first.contains("binds"),
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
    // 20 users, 0.1 s of service, 4 s of thinking: sharing answers in 178 ms, in order of arrival it takes 333 ms (simulated).
    let closed = "weir model closed --users 20 --station line=100ms --think 4s --measured service-scv=";
    let varied = ask(&format!("{closed}10"), Format::Table).expect("an answer");
    assert!(
        varied.contains("(scv) is 10; the model holds from 0.8 to 1.25"),
        "{varied}"
    );
    assert!(varied.contains("weir model flow --discipline fifo"), "{varied}");
    let plain = ask(&format!("{closed}1"), Format::Table).expect("an answer");
    assert!(!plain.contains("the model holds from"), "{plain}");
}

#[test]
fn every_split_has_its_turnaround_under_one_name() {
    for basis in ["", "--document", "--packets-in-turn", "--think 1s"] {
        let line =
            format!("weir model distribute --users 5 --page 6000 --rtt 1ms --line T1 --line E1 {basis}");
        let json: serde_json::Value =
            serde_json::from_str(&ask(&line, Format::Json).expect("an answer")).expect("JSON");
        assert!(
            json["answers"][0]["answer"]["turnaround"].is_number(),
            "{basis}: {json}"
        );
    }
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
        ("waiting --users 5 --packets 1", "the time of a packet is missing"),
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
            "closed --users 5 --station cpu=1ms --delay cpu=2ms",
            "two stations are named `cpu`",
        ),
        (
            "flow --users 4294967295 --page 6000 --rate 10M",
            "users is 4294967295",
        ),
        (
            "dimension --users 5 --page 1KB --turnaround 1s --rtt 1ms --document --setup tls1.3",
            "round trips of the set-up is 2; allowed: 0 or 1 for the document's reading",
        ),
        (
            "distribute --users 5 --page 1KB --rtt 1ms --line T1 --document --setup tls1.2",
            "round trips of the set-up is 3",
        ),
        (
            "dimension --users 5 --page 1KB --turnaround 1s --rtt 1ms --document --initial-window 10",
            "cannot be used with",
        ),
        (
            "distribute --users 5 --page 1KB --rtt 1ms --line T1 --document --sender bsd",
            "cannot be used with",
        ),
        (
            "distribute --users 6000 --page 1KB --rtt 1ms --line T1",
            "to 10,000,000 where packets are served in turn",
        ),
        (
            "distribute --users 5 --page 6000 --rtt 1ms --line T1:3 --line E1",
            "some lines have :USERS",
        ),
        (
            "distribute --users 5 --page 6000 --rtt 1ms --line T1:3 --line E1:3",
            "the users of the lines add up to 6",
        ),
        (
            "distribute --users 5 --page 6000 --rtt 1ms --line T1 --line E1 --turnaround 1s",
            "2 lines are given",
        ),
        ("flow --users 5 --page 6000 --rate 10M --lines 0", "0 lines given"),
        (
            "transfer --size 1MB --rtt 90ms --setup udp",
            "write one of open, tcp, t-tcp",
        ),
        ("tables 6", "6 is not in 1..=5"),
        (
            "transaction --size 6000.5 --rate 10M --rtt 1ms",
            "not a whole number of bytes",
        ),
        (
            "distribute --users 5 --page 6000 --rtt 1ms --line a=T1 --line a=E1",
            "two different lines are named `a`",
        ),
        // Flags without effect are refused, not ignored.
        (
            "waiting --users 5 --packets 3 --packet-time 1ms --inner-sum table3",
            "cannot be used with",
        ),
        (
            "waiting --users 5 --packets 3 --packet-time 1ms --paper",
            "cannot be used with",
        ),
        (
            "waiting --users 5 --packets 3 --packet-time 1ms --protocol t-tcp",
            "cannot be used with",
        ),
        (
            "flow --arrivals 2 --page 6000 --rate 10M --think 1s",
            "cannot be used with",
        ),
        (
            "flow --users 2 --page 6000 --rate 10M --quantum 500",
            "--quantum applies to",
        ),
        (
            "srpt --sizes exponential(10KB)",
            "--sizes are bytes: give their service rate",
        ),
        (
            "srpt --sizes fixed(10ms) --rate 10M",
            "--sizes are times but --rate serves bytes",
        ),
        (
            "flow --users 5 --sizes fixed(10ms) --rate 10M",
            "`fixed(10ms)` are times",
        ),
        (
            "flow --arrivals 20 --rate 10M --page 125KB",
            "overloaded (utilization 2.000)",
        ),
        (
            "flow --users 5 --rate 10M --page 125KB --measure 1us",
            "measured time is 0.000001; allowed: so long",
        ),
    ] {
        let error = ask(&format!("weir model {line}"), Format::Table).expect_err(line);
        assert!(error.contains(fragment), "{line}: {error}");
    }
}

#[test]
fn the_curve_of_a_closed_network_is_the_answer_at_its_users() {
    let station = "closed --users 100 --think 7s --station cpu=5ms --station app=40msx4 --delay net=90ms";
    let csv = ask(&format!("weir model {station}"), Format::Csv).expect("an answer");
    let rows: Vec<Vec<f64>> = csv
        .lines()
        .skip(1)
        .map(|line| {
            line.split(',')
                .map(|cell| cell.parse().expect("a number"))
                .collect()
        })
        .collect();
    let row = rows
        .iter()
        .find(|row| row[0] == 100.0)
        .expect("the users asked for");
    // Exact mean value analysis, load dependent: 0.135401 s.
    assert!((row[2] - 0.135_401).abs() < 1e-6, "{csv}");
    for row in rows {
        assert!(
            row[3] <= row[2] * (1.0 + 1e-9) && row[2] <= row[4] * (1.0 + 1e-9),
            "{csv}"
        );
        assert!(
            row[5] <= row[1] * (1.0 + 1e-9) && row[1] <= row[6] * (1.0 + 1e-9),
            "{csv}"
        );
    }
    // More users than the exact solution covers: a note, not an error.
    let text = ask(
        "weir model closed --users 20000000 --think 1s --station cpu=5ms",
        Format::Table,
    );
    assert!(
        text.expect("an answer").contains("is approximate"),
        "no word of it"
    );
    let error = ask(
        "weir model queue --arrivals 80 --service 10ms --servers 4000000000",
        Format::Table,
    );
    assert!(
        error
            .expect_err("too many")
            .contains("servers is 4000000000; allowed: 1 to 10,000,000")
    );
}

#[test]
fn a_simulation_of_flows_stands_beside_what_is_exact_and_between_its_bounds() {
    for (plan, exact) in [
        ("--page 125KB", "M/G/1-PS  0.5"),
        ("--page 125KB --discipline fifo", "M/G/1  0.5"),
        ("--discipline fifo --sizes fixed(125KB)", "M/G/1  0.3"),
    ] {
        let line = format!("weir model flow --arrivals 8 --rate 10M {plan}");
        let text = ask(&line, Format::Table).expect("an answer");
        let spaced = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(spaced(&text).contains(&spaced(exact)), "{text}");
        assert!(text.contains("bounds:") && text.contains("holds for:"), "{text}");
    }
    let users = "weir model flow --users 5 --think 0s --rate 10M --page 125KB --discipline fifo";
    let text = ask(users, Format::Table).expect("an answer");
    assert!(text.contains("mean value analysis"), "{text}");
}

#[test]
fn users_who_think_are_split_as_it_is_said() {
    let line = |split: &str| {
        ask(
            &format!("weir model distribute --users 6 --page 30000 --rtt 50ms --think 1s {split}"),
            Format::Table,
        )
    };
    let text = line("--line 2M:0 --line 3M@10ms:0 --line 10M@200ms:6").expect("an answer");
    assert!(text.starts_with("2M 0, 3M 0, 10M 6: mean turnaround"), "{text}");
    // The optimal split is shown beside it.
    assert!(text.contains("2M 0, 3M 6, 10M 0: mean turnaround"), "{text}");
    let text = line("--line 2M:3 --line 3M:3").expect("an answer");
    assert!(text.starts_with("2M 3, 3M 3: "), "{text}");
    for (split, why) in [
        ("--line 2M:3 --line 3M:2", "the users of the lines add up to 5"),
        ("--line 2M:3 --line 3M", "some lines have :USERS"),
    ] {
        assert!(line(split).expect_err(split).contains(why), "{split}");
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
        error.contains("bad.csv:3: throughput: `fast` is not a number"),
        "{error}"
    );
    for (line, why) in [
        ("2,3", "bad.csv:3: the line has no response"),
        ("2,3,-4", "bad.csv:3: response is -4; allowed: above 0"),
        ("0,3,4", "bad.csv:3: users is 0; allowed: above 0"),
        ("1.5,3,4", "bad.csv:3: users is 1.5; allowed: a whole number"),
    ] {
        put(&bad, &format!("users,throughput,response\n1,2,3\n{line}\n"));
        let error = ask(&format!("weir model fit {}", bad.display()), Format::Csv).expect_err(line);
        assert!(error.contains(why), "{error}");
    }
    put(&bad, "a,b\n1,2\n");
    let error = ask(&format!("weir model fit {}", bad.display()), Format::Csv).expect_err("no columns");
    assert!(
        error.contains("users,throughput,response or size,latency"),
        "{error}"
    );
    std::fs::remove_dir_all(&folder).expect("the folder made above");
}

#[allow(clippy::disallowed_methods, reason = "a test of reading a file writes one")]
pub(super) fn put(path: &std::path::Path, text: &str) {
    std::fs::write(path, text).expect("a file");
}

/// The number in the row of `size`, `users` and `mean`, in the column whose header begins with `head`.
fn cell(csv: &str, size: &str, users: &str, mean: &str, head: &str) -> f64 {
    // Only headers with commas are quoted.
    let heads: Vec<String> = csv
        .lines()
        .next()
        .unwrap_or_default()
        .replace("\"printed, computed [ms]\"", "published")
        .replace("\"printed, experiment [ms]\"", "published experiment")
        .replace("\"Eqs. 2, 4 [ms]\"", "equations")
        .replace("\"Eqs. 2, 4 error [%]\"", "equations error")
        .replace("\"windows, then [ms]\"", "windows then")
        .replace("\"windows, now [ms]\"", "windows now")
        .replace("\"simulated, then [ms]\"", "simulated then")
        .replace("\"simulated, now [ms]\"", "simulated now")
        .split(',')
        .map(str::to_owned)
        .collect();
    let at = heads.iter().position(|name| name.starts_with(head)).expect(head);
    let row = csv
        .lines()
        .map(|line| line.split(',').collect::<Vec<_>>())
        .find(|cells| cells[0] == size && cells[1] == users && cells[2] == mean)
        .expect("a row");
    row[at].parse().expect("a number")
}

#[test]
fn the_experiment_shows_published_modeled_and_simulated() {
    let csv = ask("weir model experiment", Format::Csv).expect("an answer");
    assert_eq!(csv.lines().count(), 1 + 15, "{csv}");
    assert_eq!(cell(&csv, "6000", "5", "turnaround", "published"), 27.0);
    assert_eq!(
        cell(&csv, "12000", "1", "turnaround", "published experiment"),
        35.63
    );
    // The equations in exact mode: Table 2 without its 1,024.
    assert!((cell(&csv, "3000", "1", "turnaround", "equations") - 3.4).abs() < 1e-9);
    for size in ["3000", "6000", "12000"] {
        for users in ["1", "5", "10"] {
            // Serving windows in turn matches today's simulated TCP.
            let error = cell(&csv, size, users, "turnaround", "windows error now");
            assert!(error.abs() < 3.0, "{size} {users}: {error}");
            let error = cell(&csv, size, users, "turnaround", "windows error [");
            assert!(error.abs() < 4.0, "{size} {users}: {error}");
        }
        // Serving packets in turn does not: a first-in first-out queue serves whole windows.
        assert!(
            cell(&csv, size, "10", "waiting", "equations")
                > 1.4 * cell(&csv, size, "10", "waiting", "simulated now")
        );
    }
    let again = ask("weir model experiment", Format::Csv).expect("an answer");
    assert_eq!(csv, again, "the same seed gives the same bytes");
}

/// `docs/model.md` shows the command's output, to the digit.
#[test]
fn the_documented_experiment_is_the_one_made_here() {
    let table = ask("weir model experiment", Format::Markdown).expect("an answer");
    assert!(
        include_str!("../../docs/model.md").contains(&table),
        "docs/model.md should hold\n{table}"
    );
}

#[test]
fn an_experiment_can_be_another() {
    let one = ask(
        "weir model experiment --users 1 --size 20KB --server-time 0s",
        Format::Csv,
    )
    .expect("an answer");
    let slow = ask(
        "weir model experiment --users 1 --size 20KB --server-time 5ms",
        Format::Csv,
    )
    .expect("an answer");
    for column in ["simulated now", "windows now"] {
        let at = |csv: &str| cell(csv, "20000", "1", "turnaround", column);
        assert!((at(&slow) - at(&one) - 5.0).abs() < 0.1, "{one}{slow}");
    }
    // Users wait for the processor if it is slower than the line.
    let many = ask(
        "weir model experiment --users 6 --size 3000 --server-time 20ms",
        Format::Csv,
    )
    .expect("an answer");
    let error = cell(&many, "3000", "6", "turnaround", "windows error now");
    assert!(error.abs() < 3.0, "{many}");
    // The document printed nothing for other links.
    let other = "weir model experiment --users 1 --size 3000";
    let columns = |link: &str| {
        let csv = ask(&format!("{other} {link}"), Format::Csv).expect("an answer");
        let row = csv.lines().nth(1).expect("a row").to_owned();
        row.split(',')
            .skip(3)
            .take(2)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(columns(""), ["3.46", "14.3"]);
    assert_eq!(columns("--rate T1"), ["", ""]);
    assert_eq!(columns("--rtt 1ms"), ["", ""]);
    let error = ask("weir model experiment --client-stack plan9", Format::Csv).expect_err("no stack");
    assert!(
        error.contains("`plan9` is not a TCP stack; write one of"),
        "{error}"
    );
}

#[test]
fn what_packets_say_is_judged_too() {
    let line = |words: &str| {
        let line = format!("weir model validate --lines 1 {words}");
        let flags = flags(&split(&line)).expect("flags");
        answer(&flags.question, &[], &silent()).map(|report| report.failed)
    };
    // First-in first-out windows wait less than the prediction's equal shares; how much less is not accepted here.
    let why = line("--users 63 --packet-answers 1500 --packet-tolerance 0%")
        .expect("an answer")
        .expect("a complaint");
    assert!(
        why.contains("from the packet simulation than 0 % and its interval: 63 users on 1 line: +"),
        "{why}"
    );
    assert_eq!(
        line("--users 3 --packet-answers 100 --packet-tolerance 60%").expect("an answer"),
        None
    );
    let none = ask("weir model validate --users 3 --lines 10", Format::Table).expect_err("no cell");
    assert!(none.contains("nothing to predict"), "{none}");
    for (words, why) in [
        ("validate --tolerance=-1", "below 0"),
        ("validate --fitted 3", "--load"),
        ("validate --load --users 3", "cannot be used with"),
    ] {
        let error = ask(&format!("weir model {words}"), Format::Table).expect_err(words);
        assert!(error.contains(why), "{words}: {error}");
    }
}

#[test]
fn predictions_hold_for_flows_and_stand_beside_packets() {
    let line = "weir model validate --users 1 --users 7 --lines 1 --lines 4 --page 30KB --rate 2M --think 2s --packet-users 2 --packet-answers 100";
    let flags = flags(&split(line)).expect("flags");
    let report = answer(&flags.question, &[], &silent()).expect("an answer");
    assert!(report.failed.is_none(), "{:?}", report.failed);
    let csv = report.render(Format::Csv, false, "validate").expect("CSV");
    let rows: Vec<Vec<&str>> = csv
        .lines()
        .skip(1)
        .map(|line| line.split(',').collect())
        .collect();
    assert_eq!(rows.len(), 3, "{csv}");
    let number = |row: &[&str], at: usize| row[at].parse::<f64>().expect("a number");
    for row in &rows {
        assert!(
            number(row, 4) <= number(row, 3) * 1.000_001 && number(row, 3) <= number(row, 5) * 1.000_001,
            "{csv}"
        );
        // Seven users per line exceed the packet simulation's limit.
        assert_eq!(row[9].is_empty(), row[0] == "7" && row[1] == "1", "{csv}");
    }
    assert!(number(&rows[0], 11).abs() < 3.0, "one user alone: {csv}");
}
