//! The results of a claim's rules in one world. Decides what counts as a result; knows no verdict.

use crate::document::RECALLED;
use crate::observation::{Observations, World};
use crate::rule::{Outcome, Planned, Rule, short};
use serde::Serialize;

/// Mark of a value from a single run.
pub(super) const SINGLE: &str = " (single run)";

/// The results of a claim's rules in one world.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct View {
    /// Left side of the first rule: one value, or the least and largest of several.
    pub value: String,
    /// Least and largest left side of the first rule; `None` if it could not be evaluated.
    pub range: Option<(f64, f64)>,
    /// How much of the plan was run, as in `1 of 3 networks run`; `None` if everything that the rules need was.
    pub partly_run: Option<String>,
    /// Whether every rule holds; `None` if one could not be evaluated, or if it holds in a part of the planned runs
    /// and the others are missing. A rule that fails in a part of them fails.
    pub holds: Option<bool>,
    /// The same, with every constant bound moved by [`crate::rule::BORDER`] against the rule.
    pub holds_strictly: Option<bool>,
    /// The same, with every constant bound moved in favor of the rule.
    pub holds_leniently: Option<bool>,
    /// For each rule: how often it was checked and held, and the case nearest to failing.
    pub rules: Vec<String>,
    /// For each rule, whether it holds; `None` if it could not be evaluated.
    pub met: Vec<Option<bool>>,
    /// Whether every premise holds, so that this world can decide the claim; `None` if one could not be evaluated.
    pub premise: Option<bool>,
    /// For each premise, as in `rules`.
    pub premises: Vec<String>,
    /// Names of the results used.
    pub sources: Vec<String>,
}

/// The results of several rules.
struct Results {
    texts: Vec<String>,
    met: Vec<Option<bool>>,
    /// The first rule of which only a part was run.
    partly_run: Option<String>,
    /// As written, strictly, leniently.
    holds: [Option<bool>; 3],
    /// Least and largest left side of the first rule.
    first: Option<(f64, f64)>,
    is_single: bool,
    sources: Vec<String>,
}

impl View {
    /// The results of premises and rules in a world; `None` if the world has no number for any rule.
    pub(super) fn of(
        premise: &[Rule],
        rules: &[Rule],
        known: &Observations,
        planned: &[Planned],
        world: World,
    ) -> Option<View> {
        let results = Results::of(rules, known, planned, world);
        if results.sources.is_empty() {
            return None;
        }
        let premises = Results::of(premise, known, planned, world);
        // Recalled numbers are never shown without that mark.
        let is_recalled = results.sources.iter().any(|source| source.ends_with(RECALLED));
        let mark = if is_recalled {
            " (recalled)"
        } else if results.is_single && world.is_live() {
            SINGLE
        } else {
            ""
        };
        let value = results.first.map(|(low, high)| match (short(low), short(high)) {
            (low, high) if low == high => low,
            (low, high) => format!("{low} to {high}"),
        });
        let [holds, holds_strictly, holds_leniently] = results.holds;
        Some(View {
            value: value.map(|value| value + mark).unwrap_or_default(),
            range: results.first,
            partly_run: results.partly_run,
            holds,
            holds_strictly,
            holds_leniently,
            rules: results.texts,
            met: results.met,
            premise: premises.holds[0],
            premises: premises.texts,
            sources: results.sources,
        })
    }

    /// Whether a premise fails.
    pub fn is_premise_unmet(&self) -> bool {
        self.premise == Some(false)
    }

    /// The numbers that decide in this world, or the premise that fails; `None` if numbers are missing.
    pub(super) fn says(&self) -> Option<String> {
        if self.is_premise_unmet() {
            return Some(format!("premise not met: {}", self.premises.join("; ")));
        }
        self.premise.and(self.holds).map(|_| self.rules.join("; "))
    }
}

impl Results {
    fn of(rules: &[Rule], known: &Observations, planned: &[Planned], world: World) -> Results {
        let mut results = Results {
            texts: Vec::new(),
            met: Vec::new(),
            partly_run: None,
            holds: [Some(true); 3],
            first: None,
            is_single: false,
            sources: Vec::new(),
        };
        let mut is_missing = false;
        for (number, rule) in rules.iter().enumerate() {
            match rule.evaluate(known, world) {
                Outcome::Missing(what) => {
                    is_missing = true;
                    results.met.push(None);
                    results.texts.push(what);
                }
                Outcome::Evaluated {
                    checked,
                    held,
                    held_strictly,
                    held_leniently,
                    range,
                    worst,
                    sources,
                    fewest,
                } => {
                    results.is_single |= fewest == 1;
                    let partly_run = rule.partly_run(planned, known, world);
                    let is_met = |held: usize| match held == checked {
                        true => partly_run.is_none().then_some(true),
                        false => Some(false),
                    };
                    results.met.push(is_met(held));
                    for (all, held) in results
                        .holds
                        .iter_mut()
                        .zip([held, held_strictly, held_leniently])
                    {
                        *all = match (*all, is_met(held)) {
                            (Some(false), _) | (_, Some(false)) => Some(false),
                            (Some(true), Some(true)) => Some(true),
                            _ => None,
                        };
                    }
                    if number == 0 {
                        results.first = Some(range);
                    }
                    let part = partly_run
                        .as_ref()
                        .map_or(String::new(), |part| format!("{part}: "));
                    results.texts.push(if checked == 1 {
                        part + &worst
                    } else {
                        format!("{part}{held} of {checked}; {worst}")
                    });
                    results.partly_run = results.partly_run.or(partly_run);
                    for source in sources {
                        if !results.sources.contains(&source) {
                            results.sources.push(source);
                        }
                    }
                }
            }
        }
        if is_missing {
            results.holds = [None; 3];
        }
        results
    }
}
