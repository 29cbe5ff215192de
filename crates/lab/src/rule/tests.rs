//! Rules over small sets of numbers: how they are parsed, evaluated and shown.

use super::*;
use crate::observation::Observation;

fn known() -> Observations {
    let mut known = Observations::default();
    for (network, mode, value) in [
        ("lan", "http10", 500.0),
        ("lan", "http10", 520.0),
        ("lan", "http10", 510.0),
        ("lan", "pipelined", 180.0),
        ("wan", "http10", 560.0),
        ("wan", "pipelined", 300.0),
        ("ppp", "pipelined", 280.0),
    ] {
        known.push(Observation {
            world: World::Measured,
            measure: "packets".to_owned(),
            labels: [("network", network), ("mode", mode)]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            value,
            source: network.to_owned(),
        });
    }
    known
}

fn check(text: &str, each: &[(&str, &[&str])], want: Result<(usize, usize, &str), &str>) {
    let each = each
        .iter()
        .map(|(name, values)| {
            (
                (*name).to_owned(),
                values.iter().map(|v| (*v).to_owned()).collect(),
            )
        })
        .collect();
    let rule = Rule::parse(text, &each).unwrap_or_else(|error| panic!("{error}"));
    match (rule.evaluate(&known(), World::Measured), want) {
        (
            Outcome::Evaluated {
                checked, held, worst, ..
            },
            Ok((all, good, says)),
        ) => assert_eq!((checked, held, worst.as_str()), (all, good, says), "{text}"),
        (Outcome::Missing(what), Err(says)) => assert!(what.contains(says), "{text}: {what}"),
        (other, want) => panic!("{text}: {other:?} and not {want:?}"),
    }
}

#[test]
fn rules_are_arithmetic_over_medians() {
    let http = "packets{network=lan,mode=http10}";
    check(&format!("{http} >= 510"), &[], Ok((1, 1, "510 ≥ 510")));
    check(&format!("{http} > 510"), &[], Ok((1, 0, "510 is not > 510")));
    check(
        &format!("({http} - 10) / 2 * 2 + -100 <= 400"),
        &[],
        Ok((1, 1, "400 ≤ 400")),
    );
    check(
        "max(packets{network=lan}) / min(packets{network=lan}) < 3",
        &[],
        Ok((1, 1, "2.833 < 3")),
    );
    check(
        "spread(packets{mode=pipelined}) < 1",
        &[],
        Ok((1, 1, "0.667 < 1")),
    );
    check("count(packets) >= 5", &[], Ok((1, 1, "5 ≥ 5")));
}

#[test]
fn inside_a_function_measurements_of_the_same_thing_are_paired() {
    let lan_wan = "packets{mode=http10}";
    check(
        &format!("mean(1 - 255 / {lan_wan}) >= 0.5"),
        &[],
        Ok((1, 1, "0.522 ≥ 0.5")),
    );
    check(
        &format!("mean({lan_wan} / (2 * {lan_wan})) >= 0.5"),
        &[],
        Ok((1, 1, "0.5 ≥ 0.5")),
    );
    // The modem was measured in one mode only.
    check(
        &format!("mean({lan_wan} / packets{{mode=pipelined}}) >= 2"),
        &[],
        Err("the two sides do not match"),
    );
    check(&format!("{lan_wan} / 2 >= 1"), &[], Err("2 measurements"));
}

#[test]
fn each_repeats_a_rule_and_the_worst_is_told() {
    let rule = "packets{network=$network,mode=http10} / packets{network=$network,mode=pipelined} >= 2";
    let one = "network wan: 1.867 is not ≥ 2";
    check(rule, &[("network", &["lan", "wan"])], Ok((2, 1, one)));
    // There is no HTTP/1.0 over the modem, so two of the three are checked.
    check(rule, &[("network", &["*"])], Ok((2, 1, one)));
    check(
        rule,
        &[("network", &["moon"])],
        Err("no packets{mode=http10,network=moon}"),
    );
}

#[test]
fn repeated_measurements_are_told_apart_by_rank() {
    let mut known = Observations::default();
    for (mode, values) in [
        ("old", &[6.0, 7.0, 8.0, 9.0, 10.0][..]),
        ("new", &[1.0, 2.0, 3.0, 4.0, 5.0]),
        ("few", &[1.0, 2.0, 3.0, 4.0]),
    ] {
        for &value in values {
            known.push(Observation {
                world: World::Measured,
                measure: "seconds".to_owned(),
                labels: [("mode".to_owned(), mode.to_owned())].into(),
                value,
                source: "f".to_owned(),
            });
        }
    }
    for (mode, wanted) in [
        // Of 252 choices of 5 from 10, two are as far apart.
        ("new", "2.667 ≥ 2 (rank test: p 0.00794, the least possible)"),
        // Four repetitions on a side are too few for a test.
        ("few", "3.2 ≥ 2"),
    ] {
        let text = format!("seconds{{mode=old}} / seconds{{mode={mode}}} >= 2");
        let rule = Rule::parse(&text, &BTreeMap::new()).expect("a rule");
        let Outcome::Evaluated { worst, .. } = rule.evaluate(&known, World::Measured) else {
            panic!("it has its numbers");
        };
        assert_eq!(worst, wanted);
    }
}

/// 510 packets against a bound within one percent, outside it, at equality, and against bounds that have no border.
#[test]
fn a_number_at_its_bound_is_told_from_one_that_is_clear() {
    for (text, holds, strictly, leniently) in [
        ("packets{network=lan,mode=http10} >= 510", true, false, true),
        ("packets{network=lan,mode=http10} >= 506", true, false, true),
        ("packets{network=lan,mode=http10} >= 504", true, true, true),
        ("packets{network=lan,mode=http10} > 514", false, false, true),
        ("packets{network=lan,mode=http10} > 516", false, false, false),
        ("packets{network=lan,mode=http10} <= 510", true, false, true),
        ("packets{network=lan,mode=http10} < 516", true, true, true),
        ("packets{network=lan,mode=http10} - 510 <= 0", true, true, true),
        (
            "packets{network=lan,mode=http10} >= max(packets{network=lan})",
            true,
            true,
            true,
        ),
    ] {
        let rule = Rule::parse(text, &BTreeMap::new()).expect("a rule");
        match rule.evaluate(&known(), World::Measured) {
            Outcome::Evaluated {
                held,
                held_strictly,
                held_leniently,
                ..
            } => assert_eq!(
                (held == 1, held_strictly == 1, held_leniently == 1),
                (holds, strictly, leniently),
                "{text}"
            ),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn a_rule_is_rewritten_for_other_measures_and_more_labels() {
    let rule = Rule::parse("mean(p{mode=old}) / p{mode=new} >= 2", &BTreeMap::new()).expect("a rule");
    let measures = [("p".to_owned(), "packets".to_owned())].into();
    let labels = [("network".to_owned(), "lan".to_owned())].into();
    let rule = rule.rewritten(&measures, &labels);
    assert_eq!(rule.measures(), ["packets"]);
    let Outcome::Missing(what) = rule.evaluate(&Observations::default(), World::Measured) else {
        panic!("there are no numbers");
    };
    assert_eq!(what, "no packets{mode=old,network=lan}");
}

#[test]
fn what_is_not_one_number_is_missing_and_says_so() {
    check("packets{network=lan} > 1", &[], Err("matches 2 measurements"));
    check("bytes > 1", &[], Err("no bytes{}"));
    check("packets{network=ppp} / 0 > 1", &[], Err("division by zero"));
}

#[test]
fn what_cannot_be_read_names_the_place() {
    for (text, wanted) in [
        (
            "packets",
            "`packets`: expected one of >=, <=, >, < at character 8",
        ),
        ("a > ", "a number or a measure"),
        ("a{b > 2", "`}`"),
        ("a{b} > 2", "label=value"),
        ("(a > 2", "`)`"),
        ("a > 2 3", "the end"),
        ("a > 1.2.3", "a number"),
    ] {
        let error = Rule::parse(text, &BTreeMap::new()).expect_err(text);
        assert!(error.contains(wanted), "{text}: {error}");
    }
}

#[test]
fn numbers_are_short() {
    for (value, want) in [
        (0.0, "0"),
        (1234.5, "1234"),
        (0.3333, "0.333"),
        (22.43, "22.43"),
        (-0.5, "-0.5"),
        (0.00012, "1.20e-4"),
        (1e-17, "1.00e-17"),
        (153.25, "153.2"),
    ] {
        assert_eq!(short(value), want, "{value}");
    }
}
