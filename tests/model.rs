//! `weir model` from outside: what goes to which stream, and exit codes. The answers are tested where they are made.

use std::process::{Command, Output};

fn weir(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(line.split(' '));
    command.output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> &str {
    core::str::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn an_answer_goes_to_standard_output_and_nothing_else_is_said() {
    let out = weir("model dimension --users 200 --page 125KB --turnaround 2s --rtt 90ms");
    assert_eq!(out.status.code(), Some(0));
    assert!(
        text(&out.stdout).starts_with("103.286 Mbit/s for 200 users"),
        "{}",
        text(&out.stdout)
    );
    assert_eq!(text(&out.stderr), "");
}

#[test]
fn exit_codes_tell_a_no_from_a_mistake() {
    for (line, code, fragment) in [
        // The question made sense, and the answer is no.
        (
            "model dimension --users 5 --page 1MB --turnaround 10ms --rtt 90ms",
            1,
            "cannot be reached",
        ),
        ("model queue --arrivals 200 --service 10ms", 1, "overloaded"),
        ("model transaction --size 0 --rate 10M --rtt 1ms", 2, "size is 0"),
        (
            "model transaction --size 6000 --rate fast --rtt 1ms",
            2,
            "`fast` is not a rate",
        ),
        (
            "model servers --arrivals 1 --service 1ms --response 1s --format svg",
            2,
            "no picture",
        ),
        ("model fit no-such-file.csv", 2, "cannot read the measurements"),
        ("model", 2, "Usage"),
    ] {
        let out = weir(line);
        assert_eq!(out.status.code(), Some(code), "{line}: {}", text(&out.stderr));
        assert!(
            text(&out.stderr).contains(fragment),
            "{line}: {}",
            text(&out.stderr)
        );
    }
}

#[test]
fn json_is_one_object_a_line_with_the_derivation() {
    let out = weir("model waiting --users 50 --packets 12 --packet-time 36ms --json");
    let stdout = text(&out.stdout);
    assert_eq!(stdout.lines().count(), 1);
    let value: serde_json::Value = serde_json::from_str(stdout).expect("JSON");
    assert_eq!(value["command"], "waiting");
    assert_eq!(value["answers"][0]["steps"][1]["source"], "document 004, Eq. 2");
    assert_eq!(value["tables"][0]["columns"][1]["unit"], "s");
    assert!(value["answers"][0]["bounds"][0]["low"].is_number());
}

#[test]
fn help_shows_examples_for_every_question() {
    let help = weir("model --help");
    let help = text(&help.stdout);
    for question in [
        "transaction",
        "transfer",
        "waiting",
        "tables",
        "savings",
        "dimension",
        "distribute",
        "servers",
        "page",
        "queue",
        "closed",
        "srpt",
        "flow",
        "fit",
        "experiment",
        "validate",
    ] {
        assert!(help.contains(question), "{question}");
        let own = weir(&format!("model {question} --help"));
        assert!(text(&own.stdout).contains("Example"), "{question}");
    }
}
