//! The ledger: the verdict on each claim, from its own rules and the numbers of result files. Nothing else decides a
//! verdict.

mod causes;
mod decision;
mod view;

use crate::document::{SINCE, Stated, cells, claims, further, since};
use crate::observation::{Observations, World};
use crate::plan::{Claim, Plan, Size, Unit};
use crate::record::{OTHERS_MAX_PCT, Record, Status};
use crate::rule::{Outcome, Planned, Rule};
use decision::{Decision, Strictness};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

pub use causes::Counterfactual;
use causes::Naming;
pub use view::View;

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Its rules hold for today's measurements; for a claim about a formula, they hold for the formula.
    Reproduced,
    /// Its rules hold on today's kernel with an aged TCP; measurements with today's TCP fail them or are missing.
    AgedOnly,
    /// Its rules hold in the simulation, of the document's time or for the protocols since of today; measurements fail them or
    /// are missing.
    SimulatedOnly,
    /// A number lies within [`crate::rule::BORDER`] of its bound, so that the verdict depends on the exact bound.
    Borderline,
    /// Its rules hold by construction: no result could make them fail.
    Identity,
    /// Its rules hold in a simulation that presumes the claim in one of its parameters.
    Assumed,
    /// Its rules do not hold.
    NotReproduced,
    /// The measurements do not exercise what the claim is about.
    PremiseNotMet,
    /// This machine lacks something that the runs need.
    NotTestable,
    /// No run exists to judge it by.
    NotJudged,
}

impl Verdict {
    /// All verdicts, in the order of reports.
    pub const ALL: [Verdict; 10] = [
        Verdict::Reproduced,
        Verdict::AgedOnly,
        Verdict::SimulatedOnly,
        Verdict::Borderline,
        Verdict::Identity,
        Verdict::Assumed,
        Verdict::NotReproduced,
        Verdict::PremiseNotMet,
        Verdict::NotTestable,
        Verdict::NotJudged,
    ];

    /// Name in reports, as in `not testable here`.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::AgedOnly => "aged kernel only",
            Verdict::SimulatedOnly => "simulated stack only",
            Verdict::Borderline => "borderline",
            Verdict::Identity => "identity, checked",
            Verdict::Assumed => "assumed, not reproduced",
            Verdict::NotReproduced => "not reproduced",
            Verdict::PremiseNotMet => "premise not met",
            Verdict::NotTestable => "not testable here",
            Verdict::NotJudged => "not judged",
        }
    }

    /// What it says of a claim, for readers of a report.
    pub fn means(self) -> &'static str {
        match self {
            Verdict::Reproduced => {
                "measurements on this machine meet the claim's rules; for claims about formulas, the formulas do"
            }
            Verdict::AgedOnly => {
                "measurements meet the rules on this kernel with an aged TCP, and not with today's"
            }
            Verdict::SimulatedOnly => {
                "the simulation meets the rules. Measurements do not, do not exercise the claim, or are missing"
            }
            Verdict::Borderline => "a number is within 1 % of its bound, so the exact bound decides",
            Verdict::Identity => "the rules hold by construction, whatever the results are",
            Verdict::Assumed => {
                "only a simulation meets the rules, and one of its parameters presumes the claim"
            }
            Verdict::NotReproduced => "the results break a rule",
            Verdict::PremiseNotMet => "the runs do not exercise what the claim is about",
            Verdict::NotTestable => "this machine lacks something that the runs need",
            Verdict::NotJudged => "no run decides the claim yet",
        }
    }
}

/// A claim with its verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// Number of the claim, as `bc-01`.
    pub id: String,
    /// Number of the document, `000` to `004`, or [`SINCE`].
    pub document: String,
    /// Whether it is one of the documents' further claims.
    #[serde(rename = "further")]
    pub is_further: bool,
    /// Study that judges the claim; `None` if no selected plan names it.
    pub study: Option<String>,
    /// Statement of the claim.
    pub claim: String,
    /// Evidence in the document, and how it is checked. For a claim on the protocols since: its source first.
    pub check: String,
    /// Source text of the rules.
    pub rules: Vec<String>,
    /// Source text of the premises: rules that a world must meet to decide the claim.
    pub premise: Vec<String>,
    /// Meaning of the values, in words.
    pub shows: String,
    /// Unit of the values.
    pub unit: Unit,
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
    /// The part of the reason that says why the worlds differ, or what the verdict presumes; empty without one.
    pub cause: String,
    /// The same with each feature in few words, for a card.
    #[serde(skip)]
    pub brief_cause: String,
}

/// Why a claim has its verdict, whole and for a card.
struct Cause {
    whole: String,
    brief: String,
}

impl Cause {
    fn told(text: String) -> Cause {
        Cause {
            brief: text.clone(),
            whole: text,
        }
    }
}

fn joined(causes: &[Cause], form: fn(&Cause) -> &String) -> String {
    let texts: Vec<&str> = causes.iter().map(|one| form(one).as_str()).collect();
    texts.join(". ")
}

impl Entry {
    /// Whether the claim is on the protocols since, and so of none of the five documents.
    pub fn is_since(&self) -> bool {
        self.document == SINCE
    }
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
    /// The measurements of the whole plan, in the largest size that has results.
    pub planned: Vec<Planned>,
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
        let has = |size: &Size| records.values().any(|record| record.head.size == size.name());
        let size = Size::ALL.into_iter().rev().find(has).unwrap_or(Size::Quick);
        Ok(Study {
            planned: plan.planned(size),
            name: name.to_owned(),
            text: text.to_owned(),
            plan,
            records,
            known,
        })
    }

    /// Whether it is the study of the protocols since.
    pub fn is_since(&self) -> bool {
        self.plan.document == SINCE
    }

    fn judge(&self, stated: &Stated, claim: &Claim) -> Entry {
        // `Plan::parse` has already refused rules that cannot be read.
        let rules = claim.read().unwrap_or_default();
        let premise = claim.read_premise().unwrap_or_default();
        let views: BTreeMap<World, View> = World::ALL
            .into_iter()
            .filter_map(|world| {
                Some((
                    world,
                    View::of(&premise, &rules, &self.known, &self.planned, world)?,
                ))
            })
            .collect();
        let counterfactuals = self.counterfactuals(claim);
        let (verdict, reason, causes) = self.verdict(claim, &rules, &views, &counterfactuals);
        Entry {
            id: stated.id.clone(),
            document: stated.doc.clone(),
            is_further: stated.is_further,
            study: Some(self.name.clone()),
            claim: stated.claim.clone(),
            check: evidence(stated),
            rules: claim.rules.clone(),
            premise: claim.premise.clone(),
            shows: claim.shows.clone(),
            unit: claim.unit,
            by: claim.by.clone(),
            views,
            counterfactuals,
            verdict,
            reason,
            cause: joined(&causes, |one| &one.whole),
            brief_cause: joined(&causes, |one| &one.brief),
        }
    }

    /// The verdict and its reason: the results of the rules, then the caveats. Last what the causes are.
    fn verdict(
        &self,
        claim: &Claim,
        rules: &[Rule],
        views: &BTreeMap<World, View>,
        counterfactuals: &[Counterfactual],
    ) -> (Verdict, String, Vec<Cause>) {
        if rules.is_empty() {
            return (
                Verdict::NotJudged,
                format!("no run yet: {}", claim.wanted),
                Vec::new(),
            );
        }
        let mut all_causes: Vec<Cause> = Vec::new();
        let decide = |strictness: Strictness| decision::decide(&claim.by, views, strictness);
        let nominal = decide(Strictness::AsWritten);
        let (verdict, mut reason) = match nominal {
            Decision::Open => self.open(claim, rules, views),
            Decision::Verdict(verdict) => (verdict, self.reason(claim, rules, views, verdict)),
        };
        let is_met = matches!(
            verdict,
            Verdict::Reproduced | Verdict::AgedOnly | Verdict::SimulatedOnly
        );
        // A simulation of another time may say what no measurement can fail today.
        let is_then = verdict == Verdict::SimulatedOnly;
        let verdict = if is_met && !is_then && !claim.identity.is_empty() {
            reason.push_str(&format!(". Identity: {}", claim.identity));
            all_causes.push(Cause::told(format!("Identity: {}", claim.identity)));
            Verdict::Identity
        } else if is_then && !claim.assumed.is_empty() {
            reason.push_str(&format!(". Assumed: {}", claim.assumed));
            all_causes.push(Cause::told(format!("Assumed: {}", claim.assumed)));
            Verdict::Assumed
        } else {
            let [strict, lenient] = [Strictness::Strict, Strictness::Lenient].map(decide);
            match (strict, lenient) {
                (Decision::Verdict(strict), Decision::Verdict(lenient)) if strict != lenient => {
                    let borderline = format!(
                        "Borderline: with every constant bound moved by 1 % the verdict is \"{}\" or \"{}\"",
                        strict.name(),
                        lenient.name()
                    );
                    reason.push_str(&format!(". {borderline}"));
                    all_causes.push(Cause::told(borderline));
                    Verdict::Borderline
                }
                _ => verdict,
            }
        };
        let is_judged = verdict != Verdict::NotJudged;
        for (word, text) in [("Conditions", &claim.conditions), ("Note", &claim.note)] {
            if is_judged && !text.is_empty() {
                reason.push_str(&format!(". {word}: {text}"));
            }
        }
        let measured = views.get(&World::Measured);
        let is_refuted = measured.is_some_and(|view| view.holds == Some(false) || view.is_premise_unmet())
            || verdict == Verdict::NotReproduced;
        for (world, is_open) in [(World::Measured, is_refuted), (World::Simulated, true)] {
            let of_world = counterfactuals.iter().filter(|one| one.world == world);
            let of_world: Vec<Counterfactual> = of_world.cloned().collect();
            let fails = |view: &&View| view.holds == Some(false) || view.is_premise_unmet();
            let view = match world {
                // If it holds, but does not decide, there is nothing to explain.
                World::Measured => {
                    measured.filter(|view| view.holds != Some(true) || view.is_premise_unmet())
                }
                world => views.get(&world).filter(fails),
            };
            if is_open && let Some(view) = view {
                let [whole, brief] = [Naming::Whole, Naming::Brief].map(|naming| {
                    let cause = causes::named(view, &of_world, naming);
                    match (world, cause.strip_prefix("Cause: ")) {
                        (World::Measured, _) => cause,
                        (_, Some(names)) => format!("Cause in the simulation: {names}"),
                        (_, None) => format!("In the simulation: {cause}"),
                    }
                });
                reason.push_str(&format!(". {whole}"));
                all_causes.push(Cause { whole, brief });
            }
        }
        (verdict, reason, all_causes)
    }

    fn counterfactuals(&self, claim: &Claim) -> Vec<Counterfactual> {
        // `Plan::parse` has already refused rules that cannot be read.
        let suspects = claim.read_causes().unwrap_or_default();
        let read = |one: &crate::plan::Suspects<'_>| Counterfactual {
            off: one.off.to_vec(),
            of_document: one.of_document,
            world: one.world,
            view: View::of(&one.premise, &one.rules, &self.known, &self.planned, one.world),
        };
        suspects.iter().map(read).collect()
    }

    /// The numbers behind a verdict, by world.
    fn reason(
        &self,
        claim: &Claim,
        rules: &[Rule],
        views: &BTreeMap<World, View>,
        verdict: Verdict,
    ) -> String {
        let shown: &[World] = match verdict {
            Verdict::Reproduced => &[World::Measured, World::Model],
            Verdict::AgedOnly => &[World::Aged, World::Measured],
            _ => &[World::Simulated, World::Aged, World::Measured, World::Model],
        };
        let mut parts = Vec::new();
        for world in shown.iter().filter(|world| claim.by.contains(world)) {
            let name = match world {
                World::Model => "the formulas",
                world => world.name(),
            };
            if let Some(view) = views.get(world)
                && let Some(text) = view.says()
            {
                parts.push(format!("{name}: {text}"));
            } else if *world == World::Measured && verdict != Verdict::NotReproduced {
                let partly = views.get(world).filter(|view| view.partly_run.is_some());
                parts.push(match partly {
                    Some(view) => format!("not decided by measurement: {}", view.rules.join("; ")),
                    None => format!("not measured: {}", self.lacking(rules, World::Measured).1),
                });
            }
        }
        if verdict == Verdict::SimulatedOnly && !claim.by.contains(&World::Measured) {
            parts.push("not measured: the claim is about the TCP stacks of its time".to_owned());
        }
        parts.join("; ")
    }

    /// The verdict on a claim that no world decides, and what is missing in each.
    fn open(&self, claim: &Claim, rules: &[Rule], views: &BTreeMap<World, View>) -> (Verdict, String) {
        let has_arm = |world: World| self.plan.arms.iter().any(|arm| arm.world == world);
        let reasons: Vec<(Verdict, String)> = claim
            .by
            .iter()
            // Few plans have an aged world; in the others, nobody misses it.
            .filter(|&&world| world != World::Aged || has_arm(world))
            .map(|&world| {
                let partly = views.get(&world).filter(|view| view.partly_run.is_some());
                let (verdict, why) = match partly {
                    Some(view) => (Verdict::NotJudged, view.rules.join("; ")),
                    None => self.lacking(rules, world),
                };
                (verdict, format!("{}: {why}", world.name()))
            })
            .collect();
        let is_lacking = |(verdict, _): &(Verdict, String)| *verdict == Verdict::NotTestable;
        let verdict = if reasons.iter().all(is_lacking) {
            Verdict::NotTestable
        } else {
            Verdict::NotJudged
        };
        let texts: Vec<String> = reasons.into_iter().map(|(_, why)| why).collect();
        (verdict, texts.join("; "))
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

/// The source of a claim and the evidence for it.
fn evidence(stated: &Stated) -> String {
    match stated.doc == SINCE {
        true => format!("{}: {}", stated.provenance, stated.check),
        false => stated.check.clone(),
    }
}

/// The verdicts of all claims of the five documents, from these studies, then of their further claims, and those on the
/// protocols since, if their study is among these. Without a study of a document, only the latter.
pub fn ledger(studies: &[Study]) -> Vec<Entry> {
    let mut all = Vec::new();
    if studies.is_empty() || studies.iter().any(|study| !study.is_since()) {
        all.extend(claims());
        all.extend(further());
    }
    if studies.iter().any(Study::is_since) {
        all.extend(since());
    }
    all.iter()
        .map(|stated| {
            let judged = studies.iter().find_map(|study| {
                let claim = study.plan.claims.iter().find(|claim| claim.id == stated.id)?;
                Some(study.judge(stated, claim))
            });
            judged.unwrap_or_else(|| Entry {
                id: stated.id.clone(),
                document: stated.doc.clone(),
                is_further: stated.is_further,
                study: None,
                claim: stated.claim.clone(),
                check: evidence(stated),
                rules: Vec::new(),
                premise: Vec::new(),
                shows: String::new(),
                unit: Unit::default(),
                by: Vec::new(),
                views: BTreeMap::new(),
                counterfactuals: Vec::new(),
                verdict: Verdict::NotJudged,
                reason: "its study was not selected".to_owned(),
                cause: String::new(),
                brief_cause: String::new(),
            })
        })
        .collect()
}

/// The claims of a ledger in the sets that are counted apart.
#[derive(Clone, Debug, Default)]
pub struct Sets<'l> {
    /// The 41 claims of the five documents.
    pub documents: Vec<&'l Entry>,
    /// Further claims of the five documents.
    pub further: Vec<&'l Entry>,
    /// The claims on the protocols since.
    pub since: Vec<&'l Entry>,
}

/// The sets of a ledger.
pub fn apart(ledger: &[Entry]) -> Sets<'_> {
    let mut sets = Sets::default();
    for entry in ledger {
        let set = if entry.is_since() {
            &mut sets.since
        } else if entry.is_further {
            &mut sets.further
        } else {
            &mut sets.documents
        };
        set.push(entry);
    }
    sets
}

/// Number of claims by verdict, in the order of [`Verdict::ALL`].
pub fn counts(entries: &[&Entry]) -> Vec<(Verdict, usize)> {
    let count = |verdict| entries.iter().filter(|entry| entry.verdict == verdict).count();
    Verdict::ALL
        .into_iter()
        .map(|verdict| (verdict, count(verdict)))
        .collect()
}

#[cfg(test)]
mod tests;
