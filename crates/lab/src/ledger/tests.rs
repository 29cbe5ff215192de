//! Verdicts of a small study, by what its runs measured.

use super::*;
use crate::observation::Observation;
use crate::plan::EMBEDDED;
use crate::record::tests::head;

const PLAN: &str = r#"
document = "004"
title = "t"
question = "q"
prediction = "p"
[[arm]]
name = "live"
world = "measured"
repetitions = { quick = 1, full = 1, paper = 1 }
seconds = { quick = 1, full = 1, paper = 1 }
run = [["x"]]
read = [{ labels = { mode = "/mode" }, values = { packets = "/packets" } }]
[[arm]]
name = "then"
world = "simulated"
repetitions = { quick = 1, full = 1, paper = 1 }
seconds = { quick = 1, full = 1, paper = 1 }
run = [["x"]]
read = [{ labels = { mode = "/mode" }, values = { packets = "/packets" } }]
[[claim]]
id = "mo-01"
rules = ["packets{mode=old} / packets{mode=new} >= 2"]
# more keys
[[claim.cause]]
off = ["this"]
rules = ["packets{mode=this} / packets{mode=new} >= 2"]
[[claim.cause]]
off = ["this", "that"]
rules = ["packets{mode=that} / packets{mode=new} >= 2"]
[[claim]]
id = "mo-02"
wanted = "a run nobody has written"
[[claim]]
id = "mo-03"
rules = ["seconds > 1"]
"#;

#[test]
fn what_was_disturbed_counts_only_where_there_is_nothing_else() {
    let plan = Plan::parse("p", PLAN).expect("a plan");
    let run = |place: usize, others: f64, value: f64| {
        let mut head = head("live", Status::Done);
        head.parameters.clear();
        head.disturbance.others_pct = Some(others);
        let lines = vec![serde_json::json!({"mode": "old", "packets": value})];
        (format!("results/s/live.{place}.jsonl"), Record { head, lines })
    };
    for (runs, wanted) in [
        (vec![run(0, 5.0, 10.0), run(1, 90.0, 70.0)], 10.0),
        (vec![run(0, 90.0, 70.0)], 70.0),
    ] {
        let study = Study::new("s", PLAN, plan.clone(), runs.into_iter().collect()).expect("a study");
        let groups = study.known.select(
            World::Measured,
            "packets",
            &[("mode".to_owned(), "old".to_owned())].into(),
        );
        assert_eq!(groups[0].median(), wanted);
    }
}

#[test]
fn a_claim_for_every_network_is_open_until_each_was_run() {
    const PLAN: &str = r#"
document = "004"
title = "t"
question = "q"
prediction = "p"
[[arm]]
name = "live"
world = "measured"
over = { network = ["lan", "wan", "4g"] }
repetitions = { quick = 1, full = 1, paper = 1 }
seconds = { quick = 1, full = 1, paper = 1 }
run = [["x", "{network}"]]
read = [{ values = { packets = "/packets" } }]
[[claim]]
id = "mo-01"
rules = ["packets{network=$network} >= 2"]
each = { network = ["*"] }
"#;
    for (runs, wanted, says) in [
        (
            &[("4g", 3)][..],
            Verdict::NotJudged,
            "measured: 1 of 3 networks run: network 4g: 3 ≥ 2",
        ),
        (
            &[("4g", 3), ("wan", 1)],
            Verdict::NotReproduced,
            "measured: 2 of 3 networks run: 1 of 2; network wan: 1 is not ≥ 2",
        ),
        (
            &[("4g", 3), ("wan", 4), ("lan", 5)],
            Verdict::Reproduced,
            "measured: 3 of 3; network 4g: 3 ≥ 2",
        ),
    ] {
        let plan = Plan::parse("p", PLAN).expect("a plan");
        let record = |(network, packets): &(&str, i32)| {
            let mut head = head("live", Status::Done);
            head.run = format!("live-network={network}");
            head.parameters = [("network".to_owned(), (*network).to_owned())].into();
            let lines = vec![serde_json::json!({ "packets": packets })];
            (format!("{}.0.jsonl", head.run), Record { head, lines })
        };
        let study = Study::new("s", PLAN, plan, runs.iter().map(record).collect()).expect("a study");
        let entry = ledger(&[study])
            .into_iter()
            .find(|entry| entry.id == "mo-01")
            .expect("a claim");
        assert_eq!(entry.verdict, wanted, "{}", entry.reason);
        assert!(entry.reason.starts_with(says), "{}", entry.reason);
    }
}

fn study(runs: &[(&str, Status, f64)]) -> Study {
    let plan = Plan::parse("p", PLAN).expect("a plan");
    let mut records = BTreeMap::new();
    for (name, status, old) in runs {
        let mut head = head(name, *status);
        head.world = if *name == "then" {
            World::Simulated
        } else {
            World::Measured
        };
        if *status != Status::Done {
            head.reason = "it needs root".to_owned();
        }
        let lines = vec![
            serde_json::json!({"mode": "old", "packets": old}),
            serde_json::json!({"mode": "new", "packets": 100}),
        ];
        records.insert((*name).to_owned(), Record { head, lines });
    }
    Study::new("s", PLAN, plan, records).expect("a study")
}

fn verdict(id: &str, runs: &[(&str, Status, f64)]) -> (Verdict, String) {
    let ledger = ledger(&[study(runs)]);
    let entry = ledger.into_iter().find(|entry| entry.id == id).expect("a claim");
    (entry.verdict, entry.reason)
}

#[test]
fn what_is_measured_decides_then_what_is_simulated() {
    use Status::{Done, NotRun};
    for (runs, want, says) in [
        (
            &[("live", Done, 300.0)][..],
            Verdict::Reproduced,
            "measured: 3 ≥ 2",
        ),
        (
            &[("live", Done, 150.0), ("then", Done, 300.0)],
            Verdict::SimulatedOnly,
            "simulated: 3 ≥ 2; measured: 1.5 is not ≥ 2. Cause not tested: no counterfactual has been \
                 run",
        ),
        (&[("live", Done, 150.0)], Verdict::NotReproduced, "1.5 is not ≥ 2"),
        (
            &[("live", Done, 150.0), ("then", Done, 100.0)],
            Verdict::NotReproduced,
            "simulated: 1 is not ≥ 2; measured: 1.5 is not ≥ 2. Cause not tested",
        ),
        (
            &[("live", NotRun, 0.0), ("then", Done, 300.0)],
            Verdict::SimulatedOnly,
            "not measured: it needs root",
        ),
        (
            &[("then", Done, 100.0)],
            Verdict::NotReproduced,
            "simulated: 1 is not ≥ 2",
        ),
        (
            &[("live", NotRun, 0.0), ("then", NotRun, 0.0)],
            Verdict::NotTestable,
            "measured: it needs root (not run)",
        ),
        (
            &[("live", NotRun, 0.0)],
            Verdict::NotJudged,
            "simulated: it has not been run",
        ),
        (&[], Verdict::NotJudged, "measured: it has not been run"),
    ] {
        let (verdict, reason) = verdict("mo-01", runs);
        assert_eq!(verdict, want, "{runs:?}: {reason}");
        assert!(reason.contains(says), "{runs:?}: {reason}");
    }
}

/// The verdict of mo-01 with these keys, from one measured run with these packets by mode.
fn judged(keys: &str, packets: &[(&str, f64)]) -> Entry {
    judged_by("live", keys, packets)
}

/// By the arm of this name: `live` is measured, `then` simulated.
fn judged_by(arm: &str, keys: &str, packets: &[(&str, f64)]) -> Entry {
    let text = PLAN.replace("# more keys", keys);
    let plan = Plan::parse("p", &text).expect("a plan");
    let lines = packets
        .iter()
        .map(|(mode, packets)| serde_json::json!({"mode": mode, "packets": packets}))
        .collect();
    let mut head = head(arm, Status::Done);
    head.parameters.clear();
    if arm == "then" {
        head.world = World::Simulated;
    }
    let records = [(arm.to_owned(), Record { head, lines })].into();
    let study = Study::new("s", &text, plan, records).expect("a study");
    let ledger = ledger(&[study]);
    ledger
        .into_iter()
        .find(|entry| entry.id == "mo-01")
        .expect("a claim")
}

#[test]
fn the_smallest_counterfactual_that_meets_all_rules_is_the_cause() {
    let today = [("old", 150.0), ("new", 100.0)];
    for (this, that, says) in [
        (100.0, 300.0, "Cause: this and that (single run)"),
        (300.0, 300.0, "Cause: this (single run)"),
        (
            100.0,
            100.0,
            "Cause unknown: the claim holds in no tested counterfactual",
        ),
    ] {
        let packets = [&today[..], &[("this", this), ("that", that)]].concat();
        let entry = judged("", &packets);
        assert_eq!(entry.verdict, Verdict::NotReproduced);
        assert!(entry.reason.contains(says), "{}", entry.reason);
    }
    // A rule that holds needs no cause.
    let entry = judged(
        "",
        &[("old", 250.0), ("new", 100.0), ("this", 300.0), ("that", 100.0)],
    );
    assert_eq!(
        (entry.verdict, entry.reason.as_str()),
        (Verdict::Reproduced, "measured: 2.5 ≥ 2")
    );
}

#[test]
fn what_holds_by_construction_is_no_reproduction() {
    let holds = [("old", 250.0), ("new", 100.0)];
    for (keys, packets, wanted, says) in [
        (
            "identity = 'I'",
            &holds[..],
            Verdict::Identity,
            "2.5 ≥ 2. Identity: I",
        ),
        // What a simulation presumes says nothing about a measurement.
        ("assumed = 'A'", &holds, Verdict::Reproduced, "measured: 2.5 ≥ 2"),
        // A failing check overrides `identity`.
        (
            "identity = 'I'",
            &[("old", 150.0), ("new", 100.0)],
            Verdict::NotReproduced,
            "1.5 is not ≥ 2",
        ),
        (
            "conditions = 'C'",
            &holds,
            Verdict::Reproduced,
            "2.5 ≥ 2. Conditions: C",
        ),
    ] {
        let entry = judged(keys, packets);
        assert_eq!(entry.verdict, wanted, "{}", entry.reason);
        assert!(entry.reason.contains(says), "{}", entry.reason);
        assert!(entry.views[&World::Measured].value.ends_with(" (single run)"));
    }
    let entry = judged_by("then", "assumed = 'A'", &holds);
    assert_eq!(entry.verdict, Verdict::Assumed, "{}", entry.reason);
    assert!(entry.reason.ends_with(". Assumed: A"), "{}", entry.reason);
    let both = PLAN.replace("# more keys", "identity = 'I'\nassumed = 'A'");
    let refused = Plan::parse("p", &both).expect_err("both").to_string();
    assert!(refused.contains("exclude each other"), "{refused}");
}

#[test]
fn what_nobody_measures_is_not_judged_and_says_why() {
    let runs = [("live", Status::Done, 300.0)];
    assert_eq!(
        verdict("mo-02", &runs),
        (
            Verdict::NotJudged,
            "no run yet: a run nobody has written".to_owned()
        )
    );
    let (all, reason) = verdict("mo-03", &runs);
    assert_eq!(all, Verdict::NotJudged);
    assert!(reason.contains("no arm of the plan"), "{reason}");
    assert_eq!(
        verdict("bc-01", &runs).1,
        "its study was not selected",
        "a claim of another study"
    );
}

#[test]
fn the_ledger_has_every_claim_once() {
    let ledger = ledger(&[]);
    assert_eq!(ledger.len(), 45);
    let sets = apart(&ledger);
    let count = |entries: &[&Entry]| counts(entries).iter().map(|(_, count)| count).sum::<usize>();
    assert_eq!((count(&sets.documents), count(&sets.further)), (41, 4));
    assert!(sets.since.is_empty());
}

/// A number of a study: its world, measure, labels such as `server=jaws clients=42`, and value.
type Number = (World, &'static str, String, f64);

/// A measured number.
fn measured(measure: &'static str, labels: String, value: f64) -> Number {
    (World::Measured, measure, labels, value)
}

/// An entry of an embedded study whose runs gave these numbers.
fn entry_with(study: &str, id: &str, numbers: Vec<Number>) -> Entry {
    let embedded = EMBEDDED.into_iter().find(|(name, _)| *name == study);
    let (name, text) = embedded.expect("an embedded study");
    let plan = Plan::parse(name, text).expect("a plan");
    let mut study = Study::new(name, text, plan, BTreeMap::new()).expect("a study");
    for (world, measure, labels, value) in numbers {
        let pair = |label: &str| {
            let (name, value) = label.split_once('=').expect("a label");
            (name.to_owned(), value.to_owned())
        };
        study.known.push(Observation {
            world,
            measure: measure.to_owned(),
            labels: labels.split(' ').map(pair).collect(),
            value,
            source: "run".to_owned(),
        });
    }
    let ledger = ledger(&[study]);
    ledger.into_iter().find(|entry| entry.id == id).expect("a claim")
}

#[test]
fn jaws_is_ahead_under_heavy_load_and_enterprise_under_light_load() {
    for (heavy, light, wanted) in [
        (110.0, 20.0, Verdict::Reproduced),
        (100.0, 20.0, Verdict::NotReproduced),
        (110.0, 30.0, Verdict::NotReproduced),
    ] {
        let of = |server: &str, clients: &str, value: f64| {
            measured("apart_mbit", format!("server={server} clients={clients}"), value)
        };
        let numbers = vec![
            of("jaws", "42", heavy),
            of("enterprise", "42", 100.0),
            of("jaws", "1", light),
            of("enterprise", "1", 25.0),
        ];
        let entry = entry_with("jaws", "ja-10", numbers);
        assert_eq!(entry.verdict, wanted, "{heavy} {light}: {}", entry.reason);
        assert!(entry.is_further, "{entry:?}");
    }
}

/// Numbers of a page over the LAN and the WAN: of HTTP/1.0, and of pipelined HTTP/1.1 by network.
fn visits(world: World, measure: &'static str, http10: f64, lan: f64, wan: f64) -> Vec<Number> {
    let mut all = Vec::new();
    for (network, pipelined) in [("lan", lan), ("wan", wan)] {
        for test in ["first_time", "cache_validation"] {
            for (mode, value) in [("http10", http10), ("pipelined", pipelined)] {
                let labels = format!("server=Weir network={network} test={test} mode={mode}");
                all.push((world, measure, labels, value));
            }
        }
    }
    all
}

#[test]
fn pipelining_is_faster_in_every_network_or_the_claim_fails() {
    for (lan, wanted) in [
        (0.7, Verdict::Reproduced),
        (0.95, Verdict::NotReproduced),
        (1.1, Verdict::NotReproduced),
    ] {
        let entry = entry_with("w3c", "w3-10", visits(World::Measured, "seconds", 1.0, lan, 0.5));
        assert_eq!(entry.verdict, wanted, "{lan}: {}", entry.reason);
        // The rule holds for the numbers that the document printed, which have no HTTP/1.0 over the modem.
        let published = &entry.views[&World::Published];
        assert_eq!(published.holds, Some(true), "{:?}", published.rules);
        assert!(
            published.rules[0].starts_with("8 of 8; "),
            "{:?}",
            published.rules
        );
    }
    // A modem decides, too, if it was measured.
    let mut numbers = visits(World::Measured, "seconds", 1.0, 0.7, 0.5);
    for (mode, value) in [("http10", 60.0), ("pipelined", 61.0)] {
        let labels = format!("server=Weir network=ppp test=first_time mode={mode}");
        numbers.push(measured("seconds", labels, value));
    }
    let entry = entry_with("w3c", "w3-10", numbers);
    assert_eq!(entry.verdict, Verdict::NotReproduced, "{}", entry.reason);
    // The simulation is fitted to these seconds: it is shown, and decides nothing.
    let entry = entry_with("w3c", "w3-10", visits(World::Simulated, "seconds", 1.0, 0.7, 0.5));
    assert_eq!(entry.views[&World::Simulated].holds, Some(true));
    assert_eq!(entry.verdict, Verdict::NotJudged, "{}", entry.reason);
}

/// The document has no HTTP/1.0 over the modem, so the simulation decides without it.
#[test]
fn a_validation_needs_a_fifth_of_the_packets_where_http10_is_simulated() {
    for (pipelined, wanted) in [(90.0, Verdict::SimulatedOnly), (120.0, Verdict::NotReproduced)] {
        let mut numbers = visits(World::Simulated, "packets", 500.0, pipelined, pipelined);
        let labels = "server=Weir network=ppp test=cache_validation mode=pipelined";
        numbers.push((World::Simulated, "packets", labels.to_owned(), pipelined));
        let entry = entry_with("w3c", "w3-01", numbers);
        assert_eq!(entry.verdict, wanted, "{pipelined}: {}", entry.reason);
    }
}

#[test]
fn pipelined_packets_are_larger_and_more_in_a_connection() {
    for (packets, wanted) in [(180.0, Verdict::Reproduced), (400.0, Verdict::NotReproduced)] {
        let numbers = [
            visits(World::Measured, "packets", 500.0, packets, packets),
            visits(World::Measured, "bytes", 200_000.0, 190_000.0, 190_000.0),
            visits(World::Measured, "connections", 43.0, 1.0, 1.0),
        ];
        let entry = entry_with("w3c", "w3-11", numbers.concat());
        assert_eq!(entry.verdict, wanted, "{packets}: {}", entry.reason);
        // Roughly doubled, by the recalled rows of a first visit. They have no connections.
        let published = &entry.views[&World::Published];
        let (least, _) = published.range.expect("a range");
        assert!((2.1..2.2).contains(&least), "{least}");
        assert_eq!((published.met[0], published.holds), (Some(true), None));
    }
}

#[test]
fn a_model_matches_its_experiment_if_every_mean_is_within_a_quarter() {
    for (last, wanted) in [(90.0, Verdict::Reproduced), (45.0, Verdict::NotReproduced)] {
        let of = |users: u32, mean: &str, value: f64| {
            let labels = format!("size=12000 users={users} mean={mean} stacks=kernel");
            measured("experiment", labels, value)
        };
        let numbers = vec![
            of(1, "turnaround", 11.8),
            of(5, "turnaround", 50.0),
            of(5, "waiting", 40.0),
            of(10, "turnaround", 100.0),
            of(10, "waiting", last),
        ];
        let entry = entry_with("qos", "mo-06", numbers);
        assert_eq!(entry.verdict, wanted, "{last}: {}", entry.reason);
        assert_eq!(
            entry.reason.contains("Cause not tested: "),
            wanted == Verdict::NotReproduced,
            "{}",
            entry.reason
        );
    }
}

/// Windows on this machine are those of its congestion control: they are shown, and need no cause.
#[test]
fn windows_of_this_machine_do_not_decide() {
    let windows = |world: World, all_users: &[&str], ratio: f64| -> Vec<Number> {
        let mut all = Vec::new();
        for users in all_users {
            for (mode, value) in [
                ("http10", 10.0),
                ("serial", 10.0 * ratio),
                ("pipelined", 10.0 * ratio),
            ] {
                let labels = format!("users={users} mode={mode}");
                all.push((world, "cwnd_average", labels, value));
            }
        }
        all
    };
    for (then, wanted, cause) in [
        (
            1.2,
            Verdict::NotReproduced,
            "In the simulation: Cause not tested: no counterfactual has been run",
        ),
        (2.0, Verdict::SimulatedOnly, ""),
        // More than the document found by half of that.
        (
            4.5,
            Verdict::NotReproduced,
            "In the simulation: Cause not tested: no counterfactual has been run",
        ),
    ] {
        let numbers = [
            windows(World::Measured, &["20", "40", "80"], 1.8),
            windows(World::Simulated, &["40", "280", "520"], then),
        ];
        let entry = entry_with("barford", "bc-03", numbers.concat());
        assert_eq!(entry.verdict, wanted, "{then}: {}", entry.reason);
        assert_eq!(entry.views[&World::Measured].holds, Some(true));
        assert_eq!(entry.cause, cause, "{}", entry.reason);
    }
}

/// Apache itself stands beside its preset where a rule is about one server.
#[test]
fn apache_itself_decides_what_the_document_says_of_apache() {
    for (of_preset, of_apache, is_met) in [(60.0, 60.0, true), (60.0, 20.0, false), (20.0, 60.0, false)] {
        let of = |server: &str, task: &str, value: f64| {
            measured("percent", format!("server={server} task={task}"), value)
        };
        let numbers = vec![
            of("apache-1.3", "context_switching", of_preset),
            of("apache-1.3", "writing_files", 40.0),
            of("apache-prefork", "context_switching", of_apache),
            of("apache-prefork", "writing_files", 40.0),
            of("phttpd", "synchronization", 50.0),
        ];
        let entry = entry_with("jaws", "ja-04", numbers);
        let view = &entry.views[&World::Measured];
        assert_eq!(view.met, [Some(is_met), Some(true)], "{:?}", view.rules);
    }
}

#[test]
fn the_protocols_since_are_judged_only_with_their_study_and_counted_apart() {
    let (name, text) = EMBEDDED[5];
    let study = || {
        Study::new(
            name,
            text,
            Plan::parse(name, text).expect("a plan"),
            BTreeMap::new(),
        )
        .expect("a study")
    };
    let alone = ledger(&[study()]);
    assert_eq!(alone.len(), 17);
    assert!(alone.iter().all(Entry::is_since));
    // The source comes with the evidence.
    assert!(
        alone[0].check.starts_with("W3C NOTE-pipelining-970624"),
        "{}",
        alone[0].check
    );
    let (of_qos, plan) = EMBEDDED[4];
    let qos = Study::new(
        of_qos,
        plan,
        Plan::parse(of_qos, plan).expect("a plan"),
        BTreeMap::new(),
    );
    let both = ledger(&[qos.expect("a study"), study()]);
    let sets = apart(&both);
    assert_eq!(
        (sets.documents.len(), sets.further.len(), sets.since.len()),
        (41, 4, 17)
    );
    assert!(counts(&sets.since).contains(&(Verdict::NotJudged, 17)));
}

/// Declared kinds keep their verdict at the bound; a number at its bound is borderline; one clear of it is not.
#[test]
fn a_number_at_its_bound_is_borderline() {
    for (keys, old, wanted, says) in [
        (
            "",
            200.0,
            Verdict::Borderline,
            "measured: 2 ≥ 2. Borderline: with every constant bound moved by 1 % the verdict is \"not reproduced\" or \
             \"reproduced\"",
        ),
        ("", 199.0, Verdict::Borderline, "1.99 is not ≥ 2. Borderline"),
        ("", 203.0, Verdict::Reproduced, "2.03 ≥ 2"),
        ("", 197.0, Verdict::NotReproduced, "1.97 is not ≥ 2"),
        ("identity = 'I'", 200.0, Verdict::Identity, "2 ≥ 2. Identity: I"),
    ] {
        let entry = judged(keys, &[("old", old), ("new", 100.0)]);
        assert_eq!(entry.verdict, wanted, "{keys} {old}: {}", entry.reason);
        assert!(entry.reason.contains(says), "{}", entry.reason);
    }
}

#[test]
fn a_measurement_that_does_not_exercise_the_claim_does_not_decide_it() {
    let premise = "premise = ['packets{mode=new} <= 100']";
    for (new, old, wanted, says) in [
        (100.0, 300.0, Verdict::Reproduced, "measured: 3 ≥ 2"),
        // Neither a success nor a failure counts without the premise.
        (
            120.0,
            300.0,
            Verdict::PremiseNotMet,
            "measured: premise not met: 120 is not ≤ 100",
        ),
        (
            120.0,
            130.0,
            Verdict::PremiseNotMet,
            "premise not met: 120 is not ≤ 100",
        ),
    ] {
        let entry = judged(premise, &[("old", old), ("new", new)]);
        assert_eq!(entry.verdict, wanted, "{new} {old}: {}", entry.reason);
        assert!(entry.reason.contains(says), "{}", entry.reason);
    }
    // A premise without numbers decides nothing, either.
    let entry = judged("premise = ['other > 1']", &[("old", 300.0), ("new", 100.0)]);
    assert_eq!(entry.verdict, Verdict::NotJudged, "{}", entry.reason);
}

#[test]
fn an_aged_kernel_is_a_world_of_its_own() {
    let text = PLAN.replace(
        "[[claim]]\nid = \"mo-01\"",
        "[[arm]]\nname = \"aged\"\nworld = \"aged\"\nrepetitions = { quick = 1, full = 1, paper = 1 }\nseconds = { quick = 1, \
         full = 1, paper = 1 }\nrun = [[\"x\"]]\nread = [{ labels = { mode = \"/mode\" }, values = { packets = \"/packets\" } }]\n\
         [[claim]]\nid = \"mo-01\"",
    );
    let plan = Plan::parse("p", &text).expect("a plan");
    let run = |name: &str, world: World, old: f64| {
        let mut head = head(name, Status::Done);
        head.world = world;
        head.parameters.clear();
        let lines = vec![
            serde_json::json!({"mode": "old", "packets": old}),
            serde_json::json!({"mode": "new", "packets": 100}),
        ];
        (name.to_owned(), Record { head, lines })
    };
    let records = [
        run("live", World::Measured, 150.0),
        run("aged", World::Aged, 300.0),
    ]
    .into();
    let study = Study::new("s", &text, plan, records).expect("a study");
    let ledger = ledger(&[study]);
    let entry = ledger.iter().find(|entry| entry.id == "mo-01").expect("a claim");
    assert_eq!(entry.verdict, Verdict::AgedOnly, "{}", entry.reason);
    assert!(
        entry.reason.starts_with("aged: 3 ≥ 2; measured: 1.5 is not ≥ 2"),
        "{}",
        entry.reason
    );
}
