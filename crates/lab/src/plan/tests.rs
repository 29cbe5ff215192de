//! Plans: the embedded ones, and what a plan may not say.

use super::*;

const SMALL: &str = r#"
document = "000"
title = "t"
question = "q"
prediction = "p"
[[arm]]
name = "a"
world = "model"
over = { x = ["1", "2"], y = ["a/b"] }
repetitions = { quick = 1, full = 2, paper = 3 }
seconds = { quick = 1, full = 1, paper = 1 }
run = [["model", "tables", "{x}", "{y}"]]
read = [{ values = { v = "/v" } }]
"#;

fn error(text: &str) -> String {
    Plan::parse("p.toml", text).expect_err(text).to_string()
}

#[test]
fn the_plans_of_this_program_can_be_read_and_name_every_claim_once() {
    let mut ids: Vec<String> = Vec::new();
    for (name, text) in EMBEDDED {
        let plan = Plan::parse(name, text).unwrap_or_else(|error| panic!("{error}"));
        ids.extend(plan.claims.iter().map(|claim| claim.id.clone()));
        for table in &plan.tables {
            assert!(
                crate::document::table(&table.file).is_ok(),
                "{name}: {}",
                table.file
            );
        }
    }
    let mut known: Vec<String> = crate::document::claims()
        .iter()
        .chain(&crate::document::further())
        .chain(&crate::document::since())
        .map(|claim| claim.id.clone())
        .collect();
    ids.sort();
    known.sort();
    assert_eq!(ids, known);
}

#[test]
fn parameters_run_over_all_their_values() {
    let plan = Plan::parse("p.toml", SMALL).expect("a plan");
    let ids = |plan: &Plan| -> Vec<String> { plan.runs(Size::Quick).into_iter().map(|run| run.id).collect() };
    assert_eq!(ids(&plan), ["a-x=1-y=a_b", "a-x=2-y=a_b"]);
    let of_the_site = SMALL.replace("\"{x}\", \"{y}\"]]", "\"{y}\"]]\nsite = [\"--seed\", \"{x}\"]");
    assert_ne!(of_the_site, SMALL);
    let plan = Plan::parse("p.toml", &of_the_site).expect("a parameter that only the site takes is used");
    assert_eq!(ids(&plan), ["a-x=1-y=a_b", "a-x=2-y=a_b"]);
}

#[test]
fn a_key_that_means_nothing_names_the_one_that_was_meant() {
    for (from, to, wanted) in [
        (
            "question",
            "qestion",
            "line 4: unknown key `qestion`; did you mean `question`?",
        ),
        (
            "repetitions",
            "repetition",
            "line 10: unknown key `repetition`; did you mean `repetitions`?",
        ),
        (
            "quick = 1, full = 2",
            "quik = 1, full = 2",
            "did you mean `quick`?",
        ),
        ("\"model\"\nover", "\"modell\"\nover", "did you mean `model`?"),
        (
            "run = [[\"model\", \"tables\", \"{x}\", \"{y}\"]]",
            "run = [[\"model\", \"{y}\"]]",
            "`x` is in no command",
        ),
    ] {
        assert!(SMALL.contains(from), "{from}");
        let said = error(&SMALL.replacen(from, to, 1));
        assert!(said.starts_with("p.toml: ") && said.contains(wanted), "{said}");
    }
    let twice = SMALL.to_owned() + &SMALL[SMALL.find("[[arm]]").expect("an arm")..];
    assert!(error(&twice).contains("two arms are called `a`"));
    let claim = SMALL.to_owned() + "[[claim]]\nid = 'x'\nrules = ['a >']\n";
    assert!(error(&claim).contains("claim x: `a >`"));
    assert!(error(&(SMALL.to_owned() + "[[claim]]\nid = 'x'\n")).contains("give `rules`"));
}

#[test]
fn tables_go_by_their_number_or_by_their_name() {
    let plan = Plan::parse("barford", EMBEDDED[2].1).expect("a plan");
    let names: Vec<String> = plan.tables.iter().map(Table::name).collect();
    assert_eq!(names.first().map(String::as_str), Some("Table 2"));
    assert_eq!(names.last().map(String::as_str), Some("Memory"));
}

#[test]
fn texts_stand_in_commands_with_the_parameters_of_the_arm() {
    let shared = SMALL
        .replace("[[arm]]", "[texts]\nboth = 'say {x} and {y}'\n[[arm]]")
        .replace("\"{x}\", \"{y}\"", "\"{both}\"");
    let plan = Plan::parse("p.toml", &shared).expect("a plan");
    assert_eq!(plan.arms[0].run[0], ["model", "tables", "say {x} and {y}"]);
    assert_eq!(plan.runs(Size::Quick).len(), 2);
    let unused = shared.replace("{both}", "{x} {y}");
    assert_eq!(error(&unused), "p.toml: texts: no command has `{both}`");
}

/// What the help and the documents promise: without root, the size that is the default; with it, the one for a night.
#[test]
fn the_five_documents_take_a_quarter_of_an_hour_or_three_hours() {
    for (size, with_root, minutes_max) in [(Size::Quick, false, 15.0), (Size::Full, true, 180.0)] {
        let mut seconds = 0.0;
        for (name, text) in EMBEDDED
            .iter()
            .filter(|(name, _)| *name != crate::document::SINCE)
        {
            let plan = Plan::parse(name, text).expect("a plan");
            for run in plan.runs(size) {
                let arm = &plan.arms[run.arm];
                let needs_root = arm.needs.iter().any(|need| need == "root") || arm.confine.is_some();
                if needs_root && !with_root {
                    continue;
                }
                let one = f64::from(*arm.repetitions.at(size)) * (arm.seconds.at(size) + arm.lead);
                // Simulations run two at a time on two processors.
                seconds += if arm.world.is_live() { one } else { one / 2.0 };
            }
        }
        assert!(
            (5.0..=minutes_max).contains(&(seconds / 60.0)),
            "{}: {seconds} s",
            size.name()
        );
    }
}

/// Runs of seconds, as the plan says: what the help and the documents promise.
#[test]
fn the_protocols_since_take_ten_minutes_or_forty() {
    let (name, text) = EMBEDDED[5];
    assert_eq!(name, crate::document::SINCE);
    let plan = Plan::parse(name, text).expect("a plan");
    for (size, minutes_max) in [(Size::Quick, 10.0), (Size::Full, 40.0)] {
        let seconds = |is_live: bool| -> f64 {
            let runs = plan.runs(size);
            let arms = runs.iter().map(|run| &plan.arms[run.arm]);
            let of_world = arms.filter(|arm| arm.world.is_live() == is_live);
            of_world
                .map(|arm| f64::from(*arm.repetitions.at(size)) * (arm.seconds.at(size) + arm.lead + 0.2))
                .sum()
        };
        // Simulations run two at a time on two processors, before the measured runs.
        let (measured, simulated) = (seconds(true), seconds(false) / 2.0);
        assert!(
            (1.0..=minutes_max).contains(&(measured / 60.0)),
            "{}: {measured} s",
            size.name()
        );
        assert!(
            (0.1..=minutes_max / 2.0).contains(&(simulated / 60.0)),
            "{}: {simulated} s",
            size.name()
        );
    }
    // TCP's congestion control is in the name of every run over a link.
    for run in plan.runs(Size::Paper) {
        let is_linked = plan.arms[run.arm].run[0][0] == "link";
        assert_eq!(run.parameters.contains_key("congestion"), is_linked, "{}", run.id);
    }
}

#[test]
fn only_what_is_known_is_filled_in() {
    let known = [("a".to_owned(), "1".to_owned())].into();
    assert_eq!(fill("x{a}{b}{a", &known), "x1{b}{a");
}

#[test]
fn a_picture_has_what_its_form_needs() {
    let picture = |rest: &str| {
        format!("{SMALL}[[picture]]\ntitle = \"P\"\nworlds = [\"model\"]\nmeasure = \"v\"\n{rest}")
    };
    let boxes = "[[picture.box]]\nname = \"a\"\nat = [0, 0]\nof = [{ x = \"1\" }]\n[[picture.box]]\nname = \"b\"\nat = [1, 0]\n";
    for (rest, wanted) in [
        (
            "x = \"x\"\n".to_owned(),
            "picture \"P\": give `x` and `series`, or boxes",
        ),
        (
            "x = \"x\"\nseries = \"y\"\nholds = \"v\"\n".to_owned(),
            "`holds` needs `from`",
        ),
        (
            "x = \"x\"\nseries = \"y\"\narrows = [{ from = \"a\", to = \"b\" }]\n".to_owned(),
            "`arrows` need boxes",
        ),
        (
            format!("arrows = [{{ from = \"a\", to = \"c\" }}]\n{boxes}"),
            "no box is called `c`",
        ),
        (boxes.replace("of = [{ x = \"1\" }]\n", ""), "no box has a number"),
    ] {
        let error = error(&picture(&rest));
        assert!(error.contains(wanted), "{error}");
    }
    let whole = picture(&format!(
        "arrows = [{{ from = \"a\", to = \"b\", two-way = true }}]\n{boxes}"
    ));
    let plan = Plan::parse("p.toml", &whole).expect("a plan");
    assert_eq!(
        (plan.pictures[0].blocks[1].at, plan.pictures[0].blocks[1].columns),
        ((1, 0), 1)
    );
}
