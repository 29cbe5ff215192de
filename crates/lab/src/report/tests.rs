//! The report of a small study: required content and its place.

use super::*;
use crate::ledger::ledger;
use crate::observation::{Observation, World};
use crate::plan::Plan;
use crate::record::Record;
use crate::record::tests::head;
use std::collections::BTreeMap;

const PLAN: &str = r#"
document = "003"
title = "Small <study> (W3C)"
question = "q"
prediction = "p"
gaps = ["something is missing", "`a <b` is code"]
words = { "HTTP/1.0" = "http10", "HTTP/1.1-pipelined" = "pipelined" }
[[arm]]
name = "live"
world = "measured"
repetitions = { quick = 1, full = 1, paper = 1 }
seconds = { quick = 1, full = 1, paper = 1 }
run = [["x"]]
read = [{ labels = { mode = "/mode", users = "/users" }, values = { packets = "/packets" }, set = { test = "first_time" } }]
[[table]]
file = "w3c_table5.csv"
number = "5"
title = "Apache"
rows = ["client_mode", "test"]
values = ["packets"]
labels = { mode = "{client_mode}", test = "{test}" }
beside = { measured = { users = "40" } }
[[claim]]
id = "w3-01"
rules = ["packets{mode=http10,test=first_time} / packets{mode=pipelined,test=first_time} >= 2"]
shows = "packets of 1.0 for each of 1.1"
[[claim]]
id = "w3-02"
rules = ["packets{mode=$mode,test=first_time} / packets{mode=apart,test=first_time} <= 0.9"]
each = { mode = ["http10", "pipelined"] }
[[picture]]
title = "Packets"
worlds = ["simulated", "measured"]
measure = "packets"
x = "users"
series = "mode"
front = true
"#;

fn study() -> Study {
    let plan = Plan::parse("p", PLAN).expect("a plan");
    let mut records = BTreeMap::new();
    for (number, factor) in [1.0, 2.0, 3.0].into_iter().enumerate() {
        let mut head = head("live", Status::Done);
        head.parameters.clear();
        let lines = vec![
            serde_json::json!({"mode": "http10", "users": 40, "packets": 100.0 * factor}),
            serde_json::json!({"mode": "pipelined", "users": 40, "packets": 50.0}),
            serde_json::json!({"mode": "apart", "users": 40, "packets": 1000.0 + factor}),
        ];
        records.insert(
            format!("results/small/live.{number}.jsonl"),
            Record { head, lines },
        );
    }
    Study::new("small", PLAN, plan, records).expect("a study")
}

fn material<'s>(studies: &'s [Study], ledger: &'s [Entry], raw: Raw) -> Material<'s> {
    Material {
        studies,
        ledger,
        program: "weir 0",
        date: "today",
        others: &NO_OTHERS,
        raw,
        since_folder: None,
    }
}

/// All pages, one after the other.
fn page(material: &Material<'_>) -> String {
    pages(material).into_iter().map(|(_, text)| text).collect()
}

static NO_OTHERS: BTreeMap<String, usize> = BTreeMap::new();

#[test]
fn the_page_has_printed_numbers_ours_links_and_nothing_from_outside() {
    let studies = [study()];
    let ledger = ledger(&studies);
    let material = material(&studies, &ledger, Raw::Files);
    let page = page(&material);
    for part in [
        "<span class=\"printed recalled\">489.4</span>",
        "<b class=\"mark\">m</b> 200</a> <small>100 to 300 of 3</small>",
        "<b class=\"mark\">s</b> simulated",
        "the 95 % bootstrap interval",
        "recalled, not verified in a copy",
        "Known gaps.",
        "<a href=\"small.html\">003 W3C</a>",
        "<a href=\"small.html#w3-01\">w3-01</a>",
        ">4</span>",
        "href=\"#results-small-live-0-jsonl\"",
        "id=\"results-small-live-0-jsonl\"",
        "href=\"results/small/live.0.jsonl\"",
        "Small &lt;study&gt;",
        "something is missing",
        "<code>a &lt;b</code> is code",
        "<svg",
        "verdict yes",
        "id=\"plan-small\"",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("95 %:"), "three runs have no interval");
    let first = page.find("<table").expect("a table");
    assert!(page.find("What the marks and verdicts mean").expect("a legend") < first);
    // Then beside now, and among all pictures.
    assert_eq!(page.matches("<h2>Packets").count(), 1);
    assert_eq!(page.matches("<b>Packets</b>").count(), 1);
    let pair = &page[page.find("<h2>Packets").expect("a pair")..];
    assert!(pair.find("<b>Then</b>").expect("then") < pair.find("<b>Now</b>").expect("now"));
    for outside in ["src=\"http", "href=\"http", "url(", "<script", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
    let entry = ledger.iter().find(|entry| entry.id == "w3-01").expect("it");
    assert_eq!(entry.views[&World::Measured].value, "4");
    // 489.4 packets against 175.8.
    assert_eq!(entry.views[&World::Published].value, "2.784 (recalled)");
    let text = text(&material);
    assert!(
        text.contains("| HTTP/1.0 | first time | 489.4 [recalled]<br>measured 200 (100 to 300 of 3) |"),
        "{text}"
    );
    let json = json(&material);
    assert_eq!(json["verdicts"]["reproduced"], 2);
    assert_eq!(json["ledger"].as_array().map(Vec::len), Some(45));
}

#[test]
fn a_report_without_any_result_is_still_one() {
    let plan = Plan::parse("p", PLAN).expect("a plan");
    let studies = [Study::new("small", PLAN, plan, BTreeMap::new()).expect("a study")];
    let ledger = ledger(&studies);
    let material = material(&studies, &ledger, Raw::Files);
    assert!(page(&material).contains("Nothing to draw yet"));
    assert!(page(&material).contains("No run has tested these 2 claims yet."));
    assert!(text(&material).contains("not judged: 41"));
}

#[test]
fn no_empty_picture_precedes_a_drawn_one() {
    let lost = r#"
[[picture]]
title = "Losses"
worlds = ["measured"]
measure = "losses"
x = "users"
series = "mode"
front = true
[[picture]]
title = "Packets""#;
    let text = PLAN.replacen("\n[[picture]]\ntitle = \"Packets\"", lost, 1);
    let heads = |records: BTreeMap<String, Record>| {
        let plan = Plan::parse("p", &text).expect("a plan");
        let studies = [Study::new("small", &text, plan, records).expect("a study")];
        let ledger = ledger(&studies);
        let page = page(&material(&studies, &ledger, Raw::Files));
        ["<h2>Losses", "<h2>Packets"].map(|head| page.contains(head))
    };
    assert_eq!(heads(study().records), [false, true]);
    assert_eq!(heads(BTreeMap::new()), [true, true]);
}

#[test]
fn what_no_run_decides_is_one_sentence() {
    let (name, text) = crate::plan::EMBEDDED[5];
    let plan = Plan::parse(name, text).expect("a plan");
    let studies = [Study::new(name, text, plan, BTreeMap::new()).expect("a study")];
    let ledger = ledger(&studies);
    let page = pages(&material(&studies, &ledger, Raw::Files))
        .into_iter()
        .map(|(_, text)| text)
        .find(|text| text.contains("No run decides"))
        .expect("a page");
    assert_eq!(page.matches("No run decides").count(), 1);
    let wanted = "No run decides si-01, si-05, si-02, si-03, si-10, si-11 and si-12 yet.";
    assert!(page.contains(wanted), "{page}");
}

#[test]
fn what_is_committed_has_every_run_and_number_and_links_to_tables() {
    let studies = [study()];
    let ledger = ledger(&studies);
    let material = material(&studies, &ledger, Raw::Tables);
    for text in [page(&material), text(&material)] {
        assert!(text.contains("results/small-values.csv") && !text.contains("(results/small/live.0.jsonl"));
    }
    assert_eq!(
        json(&material)["studies"][0]["numbers"],
        "results/small-values.csv"
    );
    let runs = runs_csv(&studies[0]);
    assert_eq!(runs.lines().count(), 4, "{runs}");
    assert!(
        runs.contains("\nlive,0,quick,measured,done,,0,1,0,1.0,0.00,,,"),
        "{runs}"
    );
    let values = values_csv(&studies[0]);
    assert_eq!(values.lines().count(), 10, "{values}");
    assert!(
        values.contains("\nlive,0,measured,packets,,mode=pipelined test=first_time users=40,50\n"),
        "{values}"
    );
    let snippet = snippet(&material);
    assert!(
        snippet.starts_with(
            "Of 41 claims: 2 reproduced; 39 not judged. Of 4 further claims of the documents: 4 not judged (weir 0"
        ),
        "{snippet}"
    );
}

#[test]
fn the_markdown_has_what_numbers_are_the_rules_the_pictures_and_a_tally() {
    let studies = [study()];
    let ledger = ledger(&studies);
    let mut material = material(&studies, &ledger, Raw::Tables);
    let published = text(&material);
    for part in [
        "<br>*numbers: packets of 1.0 for each of 1.1* |",
        "- w3-01: `packets{mode=http10,test=first_time} / packets{mode=pipelined,test=first_time} >= 2`\n",
        "<= 0.9`; for mode http10, pipelined\n",
        "![Verdicts by document](pictures/ledger.svg)",
        "![Packets](pictures/small-packets.svg)",
        "Known gaps:\n\n- something is missing",
        "| live | measured | 3 | 3 | 0 | 0 | 0 |",
        "(results/small-runs.csv)",
    ] {
        assert!(published.contains(part), "{part}: {published}");
    }
    for (name, _) in pictures(&material) {
        assert!(published.contains(&format!("(pictures/{name}.svg)")), "{name}");
    }
    material.raw = Raw::Files;
    assert!(text(&material).contains("[one file per run](results/small/)"));
}

#[test]
fn worlds_and_verdicts_have_one_color_each() {
    let studies = [study()];
    let ledger = ledger(&studies);
    let material = material(&studies, &ledger, Raw::Tables);
    let style = include_str!("style.css");
    let all = pictures(&material);
    let (_, ledger) = all.iter().find(|(name, _)| name == "ledger").expect("it");
    for (world, class) in [
        ("simulated", "s0"),
        ("measured", "s2"),
        ("model", "s4"),
        ("published", "s6"),
    ] {
        let colors = |text: &str, name: &str| -> Vec<String> {
            let name = format!("--{name}:");
            let parts = text.split(&name).skip(1);
            parts.map(|part| part[..7].to_owned()).collect()
        };
        assert_eq!(colors(style, world), colors(ledger, class), "{world}");
    }
    // "Reproduced" is green, as on the page.
    assert!(ledger.contains("<rect class=\"s2\""), "{ledger}");
}

#[test]
fn results_of_another_build_are_named_on_every_page() {
    let studies = [study()];
    let ledger = ledger(&studies);
    let mut material = material(&studies, &ledger, Raw::Tables);
    let sentence = "It uses those of one build and leaves out 3 of weir 9 (commit x).";
    for text in [page(&material), text(&material)] {
        assert!(!text.contains("leaves out"), "{text}");
    }
    let others = [("weir 9 (commit x)".to_owned(), 3)].into();
    material.others = &others;
    for text in [page(&material), text(&material)] {
        assert!(text.contains(sentence), "{text}");
    }
    assert_eq!(json(&material)["other_builds"]["weir 9 (commit x)"], 3);
}

#[test]
fn a_report_on_the_protocols_since_that_lies_beside_it_is_linked() {
    let studies = [study()];
    let ledger = ledger(&studies);
    let mut material = material(&studies, &ledger, Raw::Tables);
    let links = ["since/report.html", "since/report.md"];
    let without = page(&material) + &text(&material);
    assert!(!links.iter().any(|link| without.contains(link)), "{without}");
    material.since_folder = Some("since");
    let with = page(&material) + &text(&material);
    assert!(links.iter().all(|link| with.contains(link)), "{with}");
}

#[test]
fn every_measured_run_has_its_settings_behind_a_fold() {
    let mut one = study();
    let set = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(own).collect()
    };
    for (place, record) in one.records.values_mut().enumerate() {
        record.head.kernel = "Linux 9".to_owned();
        record.head.tcp = set(&[("tcp_congestion_control", "bbr")]);
        if place == 1 {
            record.head.run = "aged".to_owned();
            let near = set(&[("tcp_congestion_control", "reno")]);
            let far = set(&[("tcp_congestion_control", "reno"), ("tcp_timestamps", "0")]);
            record.head.links = vec![crate::record::Ends { near, far }];
        }
    }
    let found = environments(&one);
    assert_eq!(
        found,
        [
            (
                "Linux 9; this machine: tcp_congestion_control=bbr".to_owned(),
                vec!["live".to_owned()]
            ),
            (
                "Linux 9; client: tcp_congestion_control=reno; server: tcp_congestion_control=reno tcp_timestamps=0".to_owned(),
                vec!["aged".to_owned()]
            ),
        ]
    );
    let studies = [one];
    let ledger = ledger(&studies);
    let material = material(&studies, &ledger, Raw::Files);
    for text in [page(&material), text(&material)] {
        let fold = text.find("<details><summary>Kernel, congestion").expect("a fold");
        assert!(text[fold..].contains("tcp_congestion_control=reno"), "{text}");
    }
}

#[test]
fn equal_results_give_equal_bytes() {
    let made = || {
        let studies = [study()];
        let ledger = ledger(&studies);
        let material = material(&studies, &ledger, Raw::Files);
        (
            page(&material),
            text(&material),
            json(&material).to_string(),
            pictures(&material),
        )
    };
    assert_eq!(made(), made());
}

#[test]
fn a_grid_has_a_row_for_each_network_and_measure_and_a_column_for_each_mode() {
    let text = format!(
        "{PLAN}{}",
        r#"
[[grid]]
title = "Our packets"
measures = ["packets"]
rows = ["users"]
columns = "mode"
only = { test = "first_time" }
"#
    );
    let plan = Plan::parse("p", &text).expect("a plan");
    let studies = [Study::new("small", &text, plan, study().records).expect("a study")];
    let ledger = ledger(&studies);
    let material = material(&studies, &ledger, Raw::Files);
    let markdown = super::text(&material);
    // Modes in the plan's order first; the median and the range of three runs.
    assert!(
        markdown.contains("### Our packets\n\n| users |  | http10 | pipelined | apart |\n"),
        "{markdown}"
    );
    assert!(
        markdown
            .contains("| 40 | packets | 200 (100 to 300 of 3) | 50 (3 alike) | 1002 (1001 to 1003 of 3) |"),
        "{markdown}"
    );
    let html = page(&material);
    assert!(html.contains("<h3>Our packets</h3>") && html.contains("Tables: the median of the runs"));
    assert!(!html.contains("<span class=\"printed\"></span>"));
}

#[test]
fn the_protocols_since_are_apart_from_the_five_documents() {
    let (name, text) = crate::plan::EMBEDDED[5];
    let plan = || Plan::parse(name, text).expect("a plan");
    let since = || Study::new(name, text, plan(), BTreeMap::new()).expect("a study");
    let alone = [since()];
    let of_alone = ledger(&alone);
    let material_alone = material(&alone, &of_alone, Raw::Files);
    let html = page(&material_alone);
    assert!(html.contains("<h1>The protocols since, 17 claims</h1>") && !html.contains("Five documents"));
    assert!(html.contains("Source: RFC 9114 sections 1.1 and 1.2") && !html.contains("In the document: "));
    assert!(html.contains("No run has tested these 17 claims yet."));
    let markdown = super::text(&material_alone);
    assert!(
        markdown.starts_with("# The protocols since, 17 claims\n"),
        "{markdown}"
    );
    assert!(!markdown.contains("studies that were not selected"));
    let both = [study(), since()];
    let of_both = ledger(&both);
    let material_both = material(&both, &of_both, Raw::Files);
    let html = page(&material_both);
    assert!(html.contains("<h1>Five documents, 41 claims, and 17 on the protocols since</h1>"));
    assert!(html.contains("<h2>The protocols since: 17 claims</h2>"));
    let json = json(&material_both);
    assert_eq!(json["verdicts"]["not judged"], 39);
    assert_eq!(json["verdicts_since"]["not judged"], 17);
    let markdown = super::text(&material_both);
    let parts = [
        "- reproduced: 2 (measurements",
        "\nThe protocols since:\n\n- reproduced: 0 (",
        "## The protocols since: 17 claims",
    ];
    let places: Vec<usize> = parts
        .iter()
        .map(|part| markdown.find(part).expect(part))
        .collect();
    assert!(places.is_sorted(), "{places:?}");
    assert!(snippet(&material_both).starts_with(
        "Of 41 claims: 2 reproduced; 39 not judged. Of 4 further claims of the documents: 4 not judged. Of 17 claims on the \
         protocols since: 17 not judged (weir 0"
    ));
}

#[test]
fn further_claims_are_counted_apart_from_the_41() {
    let further = r#"[[claim]]
id = "w3-10"
rules = ["packets{mode=http10,test=first_time} / packets{mode=pipelined,test=first_time} >= 2"]
[[picture]]"#;
    let text = PLAN.replacen("[[picture]]", further, 1);
    let plan = Plan::parse("p", &text).expect("a plan");
    let studies = [Study::new("small", &text, plan, study().records).expect("a study")];
    let of_all = ledger(&studies);
    let with = material(&studies, &of_all, Raw::Files);
    let counted = "Of 4 further claims of the documents: 1 reproduced; 3 not judged";
    assert!(snippet(&with).starts_with(&format!("Of 41 claims: 2 reproduced; 39 not judged. {counted} (")));
    let json = json(&with);
    assert_eq!(json["verdicts"]["reproduced"], 2);
    assert_eq!(json["verdicts_further"]["reproduced"], 1);
    let markdown = super::text(&with);
    assert!(
        markdown.starts_with("# Five documents, 41 claims\n"),
        "{markdown}"
    );
    assert!(
        markdown.contains(&format!(
            "- not judged: 39 (no run decides the claim yet)\n\n{counted}.\n"
        )),
        "{markdown}"
    );
    let table = markdown
        .find("## Further claims of the documents: 4\n")
        .expect("a table of their own");
    assert!(markdown.find("| w3-10 |").expect("a row") > table, "{markdown}");
    // On the first page, a fold has them; on the page of the document, a card.
    let all = pages(&with);
    let overview = &all[0].1;
    let fold = overview
        .find(&format!("<details><summary>{counted}</summary>"))
        .expect("a fold");
    assert!(
        overview.find("small.html#w3-10").expect("a row") > fold,
        "{overview}"
    );
    assert!(overview.contains("Of 2 claims, ") && overview.contains("Of 1 further claim, "));
    let page = &all[1].1;
    assert!(
        page.contains("<a href=\"#w3-10\">w3-10</a> <span>further claim</span> <span class=\"verdict yes\">")
    );
    assert_eq!(page.matches("further claim</span>").count(), 1);
    let entries: Vec<&Entry> = of_all.iter().filter(|entry| entry.study.is_some()).collect();
    assert_eq!(
        conclusion::sentences(&studies[0], &entries),
        ["Of 2 claims, 0 hold by the document's formulas and 2 on this machine now."]
    );
    // The bars of the verdicts do not have them.
    let without = [study()];
    let of_others = ledger(&without);
    assert_eq!(
        verdicts(&with),
        verdicts(&material(&without, &of_others, Raw::Files))
    );
}

#[test]
fn a_conclusion_counts_only_worlds_that_decide() {
    let text = PLAN.replacen("id = \"w3-01\"\n", "id = \"w3-01\"\nby = [\"simulated\"]\n", 1);
    let plan = Plan::parse("p", &text).expect("a plan");
    let studies = [Study::new("small", &text, plan, study().records).expect("a study")];
    let ledger = ledger(&studies);
    let entries: Vec<&Entry> = ledger.iter().filter(|entry| entry.study.is_some()).collect();
    assert_eq!(
        conclusion::sentences(&studies[0], &entries),
        ["Of 2 claims, 0 hold by the document's formulas and 1 on this machine now."]
    );
}

/// What is simulated for the protocols since is of today: no report calls it then.
#[test]
fn the_simulation_of_the_protocols_since_is_not_of_then() {
    let (name, text) = crate::plan::EMBEDDED[5];
    let plan = Plan::parse(name, text).expect("a plan");
    let mut study = Study::new(name, text, plan, BTreeMap::new()).expect("a study");
    let mut add = |world, mode: &str, packets| {
        for network in ["lan", "wan", "4g"] {
            for test in ["first_time", "cache_validation"] {
                let labels = [
                    ("network", network),
                    ("test", test),
                    ("mode", mode),
                    ("loss", "0%"),
                ];
                let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
                study.known.push(Observation {
                    world,
                    measure: "packets".to_owned(),
                    labels: labels.into(),
                    value: packets,
                    source: format!("{mode}.jsonl"),
                });
            }
        }
    };
    for (world, each) in [(World::Simulated, 600.0), (World::Measured, 150.0)] {
        add(world, "h1-each", each);
        add(world, "h1-pipelined", 100.0);
    }
    // Nothing is missing of the rules' combinations, so a part of the plan does not leave them open.
    study.planned.clear();
    let studies = [study];
    let ledger = ledger(&studies);
    assert_eq!(ledger[0].verdict, Verdict::SimulatedOnly, "{}", ledger[0].reason);
    let entries: Vec<&Entry> = ledger.iter().collect();
    let all = conclusion::sentences(&studies[0], &entries);
    assert_eq!(
        all[0],
        "Of 17 claims, 0 hold on this machine; of 2 that the simulation decides, 2 hold there."
    );
    assert!(
        all[1].starts_with("On at least one network, one connection saves fewer packets"),
        "{all:?}"
    );
    let html = page(&material(&studies, &ledger, Raw::Files));
    assert!(html.contains("<th>Simulated<th>Aged<th>Now") && !html.contains("<th>Then<"));
}

#[test]
fn a_conclusion_says_what_the_results_say() {
    let sentence = r#"
[[conclusion]]
claims = ["w3-01"]
then = "Only then."
not-then-alone = "Not even then."
[[conclusion]]
claims = ["w3-01", "w3-02"]
both = "Always."
"#;
    let mut plan = Plan::parse("p", &format!("{PLAN}{sentence}")).expect("a plan");
    let of = |plan: &Plan| {
        let studies = [Study::new("small", PLAN, plan.clone(), study().records).expect("a study")];
        let ledger = ledger(&studies);
        let entries: Vec<&Entry> = ledger.iter().filter(|entry| entry.study.is_some()).collect();
        conclusion::sentences(&studies[0], &entries)
    };
    // Nothing is simulated, so that no sentence of the plan fits.
    let all = of(&plan);
    assert_eq!(
        all,
        [
            "Of 2 claims, 0 hold by the document's formulas and 2 on this machine now.",
            "w3-01 is undecided then and holds now.",
            "w3-01 with w3-02 is undecided then and holds now.",
        ]
    );
    for arm in &mut plan.arms {
        arm.world = World::Simulated;
    }
    let simulated = |mut study: Study| {
        for record in study.records.values_mut() {
            record.head.world = World::Simulated;
        }
        study.records
    };
    let studies = [Study::new("small", PLAN, plan, simulated(study())).expect("a study")];
    let ledger = ledger(&studies);
    let entries: Vec<&Entry> = ledger.iter().filter(|entry| entry.study.is_some()).collect();
    let all = conclusion::sentences(&studies[0], &entries);
    assert_eq!(all.len(), 3, "{all:?}");
    assert!(
        all[0].starts_with("Of 2 claims, 2 hold in the simulated world of then"),
        "{all:?}"
    );
    let unknown = format!("{PLAN}[[conclusion]]\nclaims = [\"xx-99\"]\n");
    let error = Plan::parse("p", &unknown).expect_err("no such claim");
    assert!(error.to_string().contains("no claim `xx-99`"), "{error}");
}

/// Segments, messages and boxes: a world has a picture only if it has the numbers.
#[test]
fn strokes_messages_and_boxes_are_drawn_from_the_runs_numbers() {
    let plan = r#"
document = "004"
title = "t"
question = "q"
prediction = "p"
units = { share = "%" }
[[arm]]
name = "live"
world = "simulated"
repetitions = { quick = 1, full = 1, paper = 1 }
seconds = { quick = 1, full = 1, paper = 1 }
run = [["x"]]
read = [
  { event = "segment", labels = { ms = "/ms" }, set = { side = "sent" }, values = { low = "/from", high = "/to" } },
  { event = "ack", labels = { ms = "/ms" }, set = { side = "acknowledged" }, values = { acknowledged = "/to" } },
  { event = "message", labels = { number = "/number", from = "/from", kind = "/kind" }, values = { sent = "/sent", arrived = "/arrived" } },
  { event = "task", labels = { task = "/task" }, values = { share = "/share" } },
]
[[claim]]
id = "mo-01"
rules = ["share{task=a} > 0"]
[[picture]]
title = "Segments"
worlds = ["simulated", "measured"]
measure = "high"
from = "low"
holds = "acknowledged"
x = "ms"
series = "side"
[[picture]]
title = "Ends"
worlds = ["simulated"]
measure = "high"
x = "ms"
series = "side"
log = true
[[picture]]
title = "Messages"
worlds = ["simulated"]
measure = "sent"
x = "number"
series = "kind"
ladder = { sender = "from", hosts = ["client", "server"], arrived = "arrived" }
[[picture]]
title = "Parts"
worlds = ["measured", "simulated"]
measure = "share"
arrows = [{ from = "first", to = "second" }]
[[picture.box]]
name = "first"
at = [0, 0]
lines = ["both: {value}"]
of = [{ task = "a" }, { task = "b" }]
[[picture.box]]
name = "second"
at = [1, 0]
lines = ["no number"]
[[picture]]
title = "Unknown parts"
worlds = ["simulated"]
measure = "share"
[[picture.box]]
name = "third"
at = [0, 0]
of = [{ task = "c" }]
"#;
    let parsed = Plan::parse("p", plan).expect("a plan");
    let mut head = head("live", Status::Done);
    (head.world, head.study) = (World::Simulated, "small".to_owned());
    head.parameters.clear();
    let lines = vec![
        serde_json::json!({"event": "segment", "ms": 1.5, "from": 1, "to": 227}),
        serde_json::json!({"event": "segment", "ms": 190.0, "from": 227, "to": 1687}),
        serde_json::json!({"event": "ack", "ms": 189.0, "to": 227}),
        serde_json::json!({"event": "message", "number": 1, "from": "client", "kind": "request", "sent": 0, "arrived": 50}),
        serde_json::json!({"event": "message", "number": 2, "from": "server", "kind": "data", "sent": 50, "arrived": 100}),
        serde_json::json!({"event": "message", "number": 3, "from": "server", "kind": "data", "sent": 60, "arrived": null}),
        serde_json::json!({"event": "task", "task": "a", "share": 10.0}),
        serde_json::json!({"event": "task", "task": "b", "share": 2.5}),
    ];
    let records = BTreeMap::from([("results/small/live.0.jsonl".to_owned(), Record { head, lines })]);
    let study = Study::new("small", plan, parsed, records).expect("a study");
    let drawn = |title: &str| -> Option<(String, Vec<World>)> {
        let one = study
            .plan
            .pictures
            .iter()
            .find(|one| one.title == title)
            .expect("a picture");
        let sides = picture::by_world(&study, one);
        assert_eq!(sides.len(), 1, "{title}");
        picture::draw(&study, &sides[0], "")
    };
    let (svg, worlds) = drawn("Segments").expect("a picture");
    assert_eq!(worlds, [World::Simulated]);
    // Two strokes and a mark in the legend, beside the steps.
    let path = &svg[svg.find("<path class=\"line s0\"").expect("strokes")..];
    assert_eq!(
        path.split('"').nth(3).expect("its data").matches('V').count(),
        2,
        "{svg}"
    );
    assert!(svg.contains(">acknowledged<") && svg.contains(">sent<"), "{svg}");
    let (svg, _) = drawn("Ends").expect("a picture");
    // From 227 to 1,687: a linear axis has marks at 0, 500, 1000, 1500 and 2000.
    assert!(svg.contains(">1000<") && !svg.contains(">1500<"), "{svg}");
    let (svg, _) = drawn("Messages").expect("a picture");
    // What never arrived has no arrow: one of each kind, and a mark of each in the legend.
    for class in ["s0", "s1"] {
        assert_eq!(
            svg.matches(&format!("class=\"line {class}\"")).count(),
            2,
            "{svg}"
        );
    }
    let (svg, worlds) = drawn("Parts").expect("a picture");
    assert_eq!(worlds, [World::Simulated]);
    assert!(
        svg.contains(">both: 12.5\u{a0}%<") && svg.contains(">no number<"),
        "{svg}"
    );
    assert!(drawn("Unknown parts").is_none());
}
