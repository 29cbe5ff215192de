//! The ledger: the verdict on each claim, from its own rules and the numbers of result files. Nothing else decides a
//! verdict.

use crate::document::{RECALLED, Stated, cells, claims};
use crate::observation::{Observations, World};
use crate::plan::{Claim, Plan};
use crate::record::{OTHERS_MAX_PCT, Record, Status};
use crate::rule::{Outcome, Rule, short};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Its rules hold for today's measurements; for a claim about a formula, they hold for the formula.
    Reproduced,
    /// Its rules hold in the simulated stack of the document's time; measurements fail them or are missing.
    SimulatedOnly,
    /// Its rules hold by construction: no result could make them fail.
    Identity,
    /// Its rules hold in a simulation that presumes the claim in one of its parameters.
    Assumed,
    /// Its rules do not hold.
    NotReproduced,
    /// This machine lacks something that the runs need.
    NotTestable,
    /// No run exists to judge it by.
    NotJudged,
}

impl Verdict {
    /// All verdicts, in the order of reports.
    pub const ALL: [Verdict; 7] = [
        Verdict::Reproduced,
        Verdict::SimulatedOnly,
        Verdict::Identity,
        Verdict::Assumed,
        Verdict::NotReproduced,
        Verdict::NotTestable,
        Verdict::NotJudged,
    ];

    /// Name in reports, as in `not testable here`.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::SimulatedOnly => "simulated stack only",
            Verdict::Identity => "identity",
            Verdict::Assumed => "assumed",
            Verdict::NotReproduced => "not reproduced",
            Verdict::NotTestable => "not testable here",
            Verdict::NotJudged => "not judged",
        }
    }
}

/// The results of a claim's rules in one world.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct View {
    /// Left side of the first rule: one value, or the least and largest of several.
    pub value: String,
    /// Whether every rule holds; `None` if one could not be evaluated.
    pub holds: Option<bool>,
    /// For each rule: how often it was checked and held, and the case nearest to failing.
    pub rules: Vec<String>,
    /// For each rule, whether it holds; `None` if it could not be evaluated.
    pub met: Vec<Option<bool>>,
    /// Names of the results used.
    pub sources: Vec<String>,
}

/// The measured results of a claim's rules with one feature switched off.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Counterfactual {
    /// The feature that was switched off.
    pub off: String,
    /// The results; `None` if it has not been run.
    pub view: Option<View>,
}

/// A claim with its verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// Number of the claim, as `bc-01`.
    pub id: String,
    /// Number of the document, `000` to `004`.
    pub document: String,
    /// Study that judges the claim; `None` if no selected plan names it.
    pub study: Option<String>,
    /// Statement of the claim.
    pub claim: String,
    /// Evidence in the document, and how it is checked.
    pub check: String,
    /// Source text of the rules.
    pub rules: Vec<String>,
    /// Meaning of the values, in words.
    pub shows: String,
    /// Worlds that decide the verdict.
    pub by: Vec<World>,
    /// Results of the rules by world; worlds without numbers are absent.
    pub views: BTreeMap<World, View>,
    /// Counterfactuals in the order of the plan.
    pub counterfactuals: Vec<Counterfactual>,
    /// The verdict.
    pub verdict: Verdict,
    /// Reason of the verdict.
    pub reason: String,
}

/// A study with all its results.
#[derive(Clone, Debug)]
pub struct Study {
    /// Name of the study, as in `weir study NAME`.
    pub name: String,
    /// The plan's TOML.
    pub text: String,
    /// The parsed plan.
    pub plan: Plan,
    /// Results by file name.
    pub records: BTreeMap<String, Record>,
    /// All observations: the document's and the results'.
    pub known: Observations,
}

impl Study {
    /// Combines a plan, its document's tables and its results.
    ///
    /// # Errors
    /// The plan describes a table that does not match the document's file.
    pub fn new(
        name: &str,
        text: &str,
        plan: Plan,
        records: BTreeMap<String, Record>,
    ) -> Result<Study, String> {
        let mut known = Observations::default();
        for table in &plan.tables {
            for cell in cells(table, &plan.words)? {
                if let Some(observation) = cell.observation(table) {
                    known.push(observation);
                }
            }
        }
        let undisturbed: BTreeSet<&str> = records
            .values()
            .filter(|record| record.head.status == Status::Done && !record.is_disturbed(OTHERS_MAX_PCT))
            .map(|record| record.head.run.as_str())
            .collect();
        for (file, record) in &records {
            if record.is_disturbed(OTHERS_MAX_PCT) && undisturbed.contains(record.head.run.as_str()) {
                continue;
            }
            for observation in record.observations(&plan, file) {
                known.push(observation);
            }
        }
        Ok(Study {
            name: name.to_owned(),
            text: text.to_owned(),
            plan,
            records,
            known,
        })
    }

    fn judge(&self, stated: &Stated, claim: &Claim) -> Entry {
        // `Plan::parse` has already refused rules that cannot be read.
        let rules = claim.read().unwrap_or_default();
        let views: BTreeMap<World, View> = World::ALL
            .into_iter()
            .filter_map(|world| Some((world, view(&rules, &self.known, world)?)))
            .collect();
        let counterfactuals = self.counterfactuals(claim);
        let (verdict, reason) = self.verdict(claim, &rules, &views, &counterfactuals);
        Entry {
            id: stated.id.clone(),
            document: stated.doc.clone(),
            study: Some(self.name.clone()),
            claim: stated.claim.clone(),
            check: stated.check.clone(),
            rules: claim.rules.clone(),
            shows: claim.shows.clone(),
            by: claim.by.clone(),
            views,
            counterfactuals,
            verdict,
            reason,
        }
    }

    /// The verdict and its reason: the results of the rules, then the caveats.
    fn verdict(
        &self,
        claim: &Claim,
        rules: &[Rule],
        views: &BTreeMap<World, View>,
        counterfactuals: &[Counterfactual],
    ) -> (Verdict, String) {
        let (verdict, mut reason) = self.by_rules(claim, rules, views);
        let is_met = matches!(verdict, Verdict::Reproduced | Verdict::SimulatedOnly);
        let (verdict, basis) = match (claim.identity.as_str(), claim.assumed.as_str()) {
            (identity, _) if is_met && !identity.is_empty() => {
                (Verdict::Identity, format!(". Identity: {identity}"))
            }
            (_, assumed) if is_met && !assumed.is_empty() => {
                (Verdict::Assumed, format!(". Assumed: {assumed}"))
            }
            _ => (verdict, String::new()),
        };
        reason.push_str(&basis);
        if !claim.conditions.is_empty() && verdict != Verdict::NotJudged {
            reason.push_str(&format!(". Conditions: {}", claim.conditions));
        }
        if !claim.note.is_empty() && verdict != Verdict::NotJudged {
            reason.push_str(&format!(". Note: {}", claim.note));
        }
        let is_refuted = views
            .get(&World::Measured)
            .is_some_and(|view| view.holds == Some(false));
        let is_refuted = is_refuted || verdict == Verdict::NotReproduced;
        if is_refuted
            && let Some(measured) = views.get(&World::Measured)
            && !counterfactuals.is_empty()
        {
            reason.push_str(&format!(". {}", causes(measured, counterfactuals)));
        }
        if is_refuted && !claim.supposed.is_empty() {
            reason.push_str(&format!(". Supposed, not tested: {}", claim.supposed));
        }
        (verdict, reason)
    }

    fn counterfactuals(&self, claim: &Claim) -> Vec<Counterfactual> {
        // `Plan::parse` has already refused rules that cannot be read.
        let causes = claim.read_causes().unwrap_or_default();
        let read = |(off, rules): &(&str, Vec<Rule>)| Counterfactual {
            off: (*off).to_owned(),
            view: view(rules, &self.known, World::Measured),
        };
        causes.iter().map(read).collect()
    }

    /// The verdict of the rules alone.
    fn by_rules(&self, claim: &Claim, rules: &[Rule], views: &BTreeMap<World, View>) -> (Verdict, String) {
        if rules.is_empty() {
            return (Verdict::NotJudged, format!("no run yet: {}", claim.wanted));
        }
        let decided = |world: World| {
            let view = views.get(&world).filter(|_| claim.by.contains(&world))?;
            Some((view.holds?, view.rules.join("; ")))
        };
        let (measured, simulated, model) = (
            decided(World::Measured),
            decided(World::Simulated),
            decided(World::Model),
        );
        match (measured, simulated, model) {
            (Some((true, why)), _, _) => (Verdict::Reproduced, format!("measured: {why}")),
            (Some((false, why)), Some((true, then)), _) => (
                Verdict::SimulatedOnly,
                format!("simulated: {then}; measured: {why}"),
            ),
            (Some((false, why)), Some((false, then)), _) => (
                Verdict::NotReproduced,
                format!("simulated: {then}; measured: {why}"),
            ),
            (Some((false, why)), None, _) => (Verdict::NotReproduced, format!("measured: {why}")),
            (None, Some((true, then)), _) => {
                let why = if claim.by.contains(&World::Measured) {
                    self.lacking(rules, World::Measured).1
                } else {
                    "the claim is about the TCP stacks of its time".to_owned()
                };
                (
                    Verdict::SimulatedOnly,
                    format!("simulated: {then}; not measured: {why}"),
                )
            }
            (None, Some((false, then)), _) => (Verdict::NotReproduced, format!("simulated: {then}")),
            (None, None, Some((true, why))) => (Verdict::Reproduced, format!("the formulas: {why}")),
            (None, None, Some((false, why))) => (Verdict::NotReproduced, format!("the formulas: {why}")),
            (None, None, None) => {
                let reasons: Vec<(Verdict, String)> = claim
                    .by
                    .iter()
                    .map(|&world| {
                        let (verdict, why) = self.lacking(rules, world);
                        (verdict, format!("{}: {why}", world.name()))
                    })
                    .collect();
                let verdict = if reasons
                    .iter()
                    .all(|(verdict, _)| *verdict == Verdict::NotTestable)
                {
                    Verdict::NotTestable
                } else {
                    Verdict::NotJudged
                };
                let text: Vec<String> = reasons.into_iter().map(|(_, why)| why).collect();
                (verdict, text.join("; "))
            }
        }
    }

    /// Why these rules have no number in a world.
    fn lacking(&self, rules: &[Rule], world: World) -> (Verdict, String) {
        let measures: Vec<&str> = rules.iter().flat_map(Rule::measures).collect();
        let supplies = |name: &str| {
            self.plan
                .arms
                .iter()
                .find(|arm| arm.name == name)
                .is_some_and(|arm| {
                    arm.read.iter().any(|read| {
                        read.world.unwrap_or(arm.world) == world
                            && read.values.keys().any(|name| measures.contains(&name.as_str()))
                    })
                })
        };
        let planned: Vec<&str> = self
            .plan
            .arms
            .iter()
            .map(|arm| arm.name.as_str())
            .filter(|name| supplies(name))
            .collect();
        if planned.is_empty() {
            return (
                Verdict::NotJudged,
                "no arm of the plan measures all of this yet".to_owned(),
            );
        }
        let of_arm = |record: &&Record| planned.contains(&record.head.name.as_str());
        let mut runs = self
            .records
            .values()
            .filter(of_arm)
            .filter(|record| record.head.status != Status::Done)
            .peekable();
        let Some(first) = runs.peek() else {
            let any = self.records.values().filter(of_arm).count();
            return if any == 0 {
                (Verdict::NotJudged, "it has not been run".to_owned())
            } else {
                let missing = rules
                    .iter()
                    .find_map(|rule| match rule.evaluate(&self.known, world) {
                        Outcome::Missing(what) => Some(what),
                        Outcome::Evaluated { .. } => None,
                    });
                (
                    Verdict::NotJudged,
                    missing.unwrap_or_else(|| "a number is missing".to_owned()),
                )
            };
        };
        let reason = format!("{} ({})", first.head.reason, first.head.status.name());
        let all_lack = runs.all(|record| record.head.status == Status::NotRun);
        // A feature that this program does not have yet is not a property of the machine.
        if all_lack && !reason.contains("yet (") {
            (Verdict::NotTestable, reason)
        } else {
            (Verdict::NotJudged, reason)
        }
    }
}

/// For each rule that fails today, the first counterfactual in which it holds: its cause.
fn causes(measured: &View, counterfactuals: &[Counterfactual]) -> String {
    let failing = measured
        .met
        .iter()
        .enumerate()
        .filter(|(_, met)| **met == Some(false));
    let texts: Vec<String> = failing
        .map(|(rule, _)| {
            let of = |one: &&Counterfactual| {
                one.view
                    .as_ref()
                    .and_then(|view| view.met.get(rule).copied().flatten())
            };
            let found = counterfactuals.iter().find(|one| of(one) == Some(true));
            let rule = rule + 1;
            match found {
                Some(one) => {
                    let is_single = one.view.as_ref().is_some_and(|view| view.value.ends_with(SINGLE));
                    let mark = if is_single { SINGLE } else { "" };
                    format!("rule {rule} holds without {}{mark}", one.off)
                }
                None if counterfactuals.iter().all(|one| of(&one).is_some()) => {
                    format!("rule {rule} holds in no tested counterfactual, cause unknown")
                }
                None => format!("rule {rule}: counterfactuals have not been run, cause not tested"),
            }
        })
        .collect();
    format!("Causes: {}", texts.join("; "))
}

/// Mark of a value from a single run.
const SINGLE: &str = " (single run)";

fn view(rules: &[Rule], known: &Observations, world: World) -> Option<View> {
    let mut holds = Some(true);
    let mut value = None;
    let mut texts = Vec::new();
    let mut met = Vec::new();
    let mut all_sources: Vec<String> = Vec::new();
    let mut is_single = false;
    for (number, rule) in rules.iter().enumerate() {
        match rule.evaluate(known, world) {
            Outcome::Missing(what) => {
                holds = None;
                met.push(None);
                texts.push(what);
            }
            Outcome::Evaluated {
                checked,
                held,
                range: (low, high),
                worst,
                sources,
                fewest,
            } => {
                is_single |= fewest == 1;
                met.push(Some(held == checked));
                if held < checked {
                    holds = holds.map(|_| false);
                }
                if number == 0 {
                    let (low, high) = (short(low), short(high));
                    value = Some(if low == high {
                        low
                    } else {
                        format!("{low} to {high}")
                    });
                }
                texts.push(if checked == 1 {
                    worst
                } else {
                    format!("{held} of {checked}; {worst}")
                });
                for source in sources {
                    if !all_sources.contains(&source) {
                        all_sources.push(source);
                    }
                }
            }
        }
    }
    // A world without any number has no view.
    if all_sources.is_empty() {
        return None;
    }
    // Recalled numbers are never shown without that mark.
    let is_recalled = all_sources.iter().any(|source| source.ends_with(RECALLED));
    let mark = if is_recalled {
        " (recalled)"
    } else if is_single && world == World::Measured {
        SINGLE
    } else {
        ""
    };
    Some(View {
        value: value.map(|value| value + mark).unwrap_or_default(),
        holds,
        rules: texts,
        met,
        sources: all_sources,
    })
}

/// The verdicts of all claims, from these studies.
pub fn ledger(studies: &[Study]) -> Vec<Entry> {
    claims()
        .iter()
        .map(|stated| {
            let judged = studies.iter().find_map(|study| {
                let claim = study.plan.claims.iter().find(|claim| claim.id == stated.id)?;
                Some(study.judge(stated, claim))
            });
            judged.unwrap_or_else(|| Entry {
                id: stated.id.clone(),
                document: stated.doc.clone(),
                study: None,
                claim: stated.claim.clone(),
                check: stated.check.clone(),
                rules: Vec::new(),
                shows: String::new(),
                by: Vec::new(),
                views: BTreeMap::new(),
                counterfactuals: Vec::new(),
                verdict: Verdict::NotJudged,
                reason: "its study was not selected".to_owned(),
            })
        })
        .collect()
}

/// Number of claims by verdict, in the order of [`Verdict::ALL`].
pub fn counts(ledger: &[Entry]) -> Vec<(Verdict, usize)> {
    Verdict::ALL
        .into_iter()
        .map(|verdict| {
            (
                verdict,
                ledger.iter().filter(|entry| entry.verdict == verdict).count(),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
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
supposed = "something else"
[[claim.cause]]
off = "this"
rules = ["packets{mode=this} / packets{mode=new} >= 2"]
[[claim.cause]]
off = "this and that"
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
                "simulated: 3 ≥ 2; measured: 1.5 is not ≥ 2. Causes: rule 1: counterfactuals have not been run, cause not \
                 tested. Supposed, not tested: something else",
            ),
            (&[("live", Done, 150.0)], Verdict::NotReproduced, "1.5 is not ≥ 2"),
            (
                &[("live", Done, 150.0), ("then", Done, 100.0)],
                Verdict::NotReproduced,
                "simulated: 1 is not ≥ 2; measured: 1.5 is not ≥ 2. Causes: rule 1",
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

    /// The verdict of mo-01 with this in place of its `supposed`, from one measured run with these packets by mode.
    fn judged(keys: &str, packets: &[(&str, f64)]) -> Entry {
        let text = PLAN.replace("supposed = \"something else\"", keys);
        let plan = Plan::parse("p", &text).expect("a plan");
        let lines = packets
            .iter()
            .map(|(mode, packets)| serde_json::json!({"mode": mode, "packets": packets}))
            .collect();
        let mut head = head("live", Status::Done);
        head.parameters.clear();
        let records = [("live".to_owned(), Record { head, lines })].into();
        let study = Study::new("s", &text, plan, records).expect("a study");
        let ledger = ledger(&[study]);
        ledger
            .into_iter()
            .find(|entry| entry.id == "mo-01")
            .expect("a claim")
    }

    #[test]
    fn the_first_counterfactual_that_meets_all_rules_is_the_cause() {
        let today = [("old", 150.0), ("new", 100.0)];
        for (this, that, says) in [
            (
                100.0,
                300.0,
                "Causes: rule 1 holds without this and that (single run)",
            ),
            (300.0, 300.0, "Causes: rule 1 holds without this (single run)"),
            (
                100.0,
                100.0,
                "rule 1 holds in no tested counterfactual, cause unknown",
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
            ("assumed = 'A'", &holds, Verdict::Assumed, "2.5 ≥ 2. Assumed: A"),
            // A failing check overrides `identity` and `assumed`.
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
        let both = PLAN.replace("supposed = \"something else\"", "identity = 'I'\nassumed = 'A'");
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
        assert_eq!(ledger.len(), 41);
        assert_eq!(counts(&ledger).iter().map(|(_, count)| count).sum::<usize>(), 41);
    }
}
