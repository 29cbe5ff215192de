//! The ledger: what became of each claim, by its own rule and the numbers of result files. Decides verdicts; no verdict
//! stands anywhere but in what a rule came to.

use crate::document::{RECALLED, Stated, cells, claims};
use crate::observation::{Observations, World};
use crate::plan::{Claim, Plan};
use crate::record::{OTHERS_MAX_PCT, Record, Status};
use crate::rule::{Outcome, Rule, short};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Its rules hold for what was measured today; a claim about a formula: for the formula.
    Reproduced,
    /// They hold in the simulated stack of then, and not today, or nothing was measured.
    SimulatedOnly,
    /// They do not hold.
    NotReproduced,
    /// Something that is needed is not on this machine.
    NotTestable,
    /// There is no run to judge it by.
    NotJudged,
}

impl Verdict {
    /// All, in the order they are counted.
    pub const ALL: [Verdict; 5] = [
        Verdict::Reproduced,
        Verdict::SimulatedOnly,
        Verdict::NotReproduced,
        Verdict::NotTestable,
        Verdict::NotJudged,
    ];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::SimulatedOnly => "simulated stack only",
            Verdict::NotReproduced => "not reproduced",
            Verdict::NotTestable => "not testable here",
            Verdict::NotJudged => "not judged",
        }
    }
}

/// What the rules of a claim came to in one world.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct View {
    /// The left side of the first rule: its value, or the least and largest of several.
    pub value: String,
    /// Whether every rule holds; none if one could not be evaluated.
    pub holds: Option<bool>,
    /// The rules in turn: how often each was checked and held, and the case nearest to failing.
    pub rules: Vec<String>,
    /// The names of the results used.
    pub sources: Vec<String>,
}

/// A claim and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// Its number.
    pub id: String,
    /// The document's number.
    pub document: String,
    /// The study that judges it; none if no plan names it.
    pub study: Option<String>,
    /// What is claimed.
    pub claim: String,
    /// What in the document supports it.
    pub check: String,
    /// The rules as written.
    pub rules: Vec<String>,
    /// What a value is.
    pub shows: String,
    /// The worlds that decide.
    pub by: Vec<World>,
    /// What the rules came to, by world; worlds without a number are absent.
    pub views: BTreeMap<World, View>,
    /// What became of it.
    pub verdict: Verdict,
    /// Why.
    pub reason: String,
}

/// A study with everything its results say.
#[derive(Clone, Debug)]
pub struct Study {
    /// Its name.
    pub name: String,
    /// Its plan as written.
    pub text: String,
    /// Its plan.
    pub plan: Plan,
    /// Its results by the names of their files.
    pub records: BTreeMap<String, Record>,
    /// Every number: the document's and the results'.
    pub known: Observations,
}

impl Study {
    /// Puts together a plan, its document's tables and its results.
    ///
    /// # Errors
    /// The plan describes a table that is not so.
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
        // A plan whose rules cannot be read was refused before.
        let rules = claim.read().unwrap_or_default();
        let views: BTreeMap<World, View> = World::ALL
            .into_iter()
            .filter_map(|world| Some((world, view(&rules, &self.known, world)?)))
            .collect();
        let (verdict, reason) = self.verdict(claim, &rules, &views);
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
            verdict,
            reason,
        }
    }

    fn verdict(&self, claim: &Claim, rules: &[Rule], views: &BTreeMap<World, View>) -> (Verdict, String) {
        if rules.is_empty() {
            return (Verdict::NotJudged, format!("no run yet: {}", claim.wanted));
        }
        let decided = |world: World| {
            let view = views.get(&world).filter(|_| claim.by.contains(&world))?;
            Some((view.holds?, view.rules.join("; ")))
        };
        let today = if claim.today.is_empty() {
            String::new()
        } else {
            format!(". Today: {}", claim.today)
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
                format!("simulated: {then}; measured: {why}{today}"),
            ),
            (Some((false, why)), Some((false, then)), _) => (
                Verdict::NotReproduced,
                format!("simulated: {then}; measured: {why}{today}"),
            ),
            (Some((false, why)), None, _) => (Verdict::NotReproduced, format!("measured: {why}{today}")),
            (None, Some((true, then)), _) => {
                let why = if claim.by.contains(&World::Measured) {
                    self.lacking(rules, World::Measured).1
                } else {
                    "it is about the stacks of then".to_owned()
                };
                (
                    Verdict::SimulatedOnly,
                    format!("simulated: {then}; not measured: {why}{today}"),
                )
            }
            (None, Some((false, then)), _) => (Verdict::NotReproduced, format!("simulated: {then}")),
            (None, None, Some((true, why))) => (Verdict::Reproduced, format!("the formulas: {why}")),
            // Formulas are what they were.
            (None, None, Some((false, why))) => (
                Verdict::NotReproduced,
                format!("the formulas: {why}{}", today.replace(". Today: ", "; ")),
            ),
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

    /// Why there is no number for these rules in a world.
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
        // A feature this program does not have yet is no property of the machine.
        if all_lack && !reason.contains("yet (") {
            (Verdict::NotTestable, reason)
        } else {
            (Verdict::NotJudged, reason)
        }
    }
}

fn view(rules: &[Rule], known: &Observations, world: World) -> Option<View> {
    let mut holds = Some(true);
    let mut value = None;
    let mut texts = Vec::new();
    let mut all_sources: Vec<String> = Vec::new();
    for (number, rule) in rules.iter().enumerate() {
        match rule.evaluate(known, world) {
            Outcome::Missing(what) => {
                holds = None;
                texts.push(what);
            }
            Outcome::Evaluated {
                checked,
                held,
                range: (low, high),
                worst,
                sources,
            } => {
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
    // Nothing at all is no view.
    if all_sources.is_empty() {
        return None;
    }
    // A number that nobody has seen in a copy of the document is not shown without saying so.
    let is_recalled = all_sources.iter().any(|source| source.ends_with(RECALLED));
    let mark = if is_recalled { " (recalled)" } else { "" };
    Some(View {
        value: value.map(|value| value + mark).unwrap_or_default(),
        holds,
        rules: texts,
        sources: all_sources,
    })
}

/// The ledger of all claims, from the studies there are.
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
                verdict: Verdict::NotJudged,
                reason: "its study was not asked for".to_owned(),
            })
        })
        .collect()
}

/// How many claims met each end, in the order of [`Verdict::ALL`].
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
today = "something else"
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
                "simulated: 3 ≥ 2; measured: 1.5 is not ≥ 2. Today: something else",
            ),
            (&[("live", Done, 150.0)], Verdict::NotReproduced, "1.5 is not ≥ 2"),
            (
                &[("live", Done, 150.0), ("then", Done, 100.0)],
                Verdict::NotReproduced,
                "simulated: 1 is not ≥ 2; measured: 1.5 is not ≥ 2. Today: something else",
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
            "its study was not asked for",
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
