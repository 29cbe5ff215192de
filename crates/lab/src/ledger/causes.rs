//! Why a claim fails: the smallest set of features or conditions that, switched off, makes it hold.

use super::View;
use super::view::SINGLE;
use crate::observation::World;
use serde::Serialize;

/// The results of a claim's rules with some features or conditions switched off.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Counterfactual {
    /// The features or conditions that were switched off.
    pub off: Vec<String>,
    /// Whether one of them is a condition that the document had, too: it cannot be what is different today.
    pub of_document: bool,
    /// The world of the results.
    pub world: World,
    /// The results; `None` if it has not been run.
    pub view: Option<View>,
}

/// How a set of features is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Naming {
    /// With what was done instead, in brackets, and with caveats.
    Whole,
    /// The features alone, for a line on a card.
    Brief,
}

impl Counterfactual {
    /// The features in words.
    pub fn name(&self) -> String {
        listed(&self.off)
    }

    fn named(&self, naming: Naming) -> String {
        match naming {
            Naming::Whole => format!("{}{}", self.name(), self.mark()),
            Naming::Brief => {
                let features = self.off.iter().map(|one| one.split(" (").next().unwrap_or(one));
                listed(&features.map(str::to_owned).collect::<Vec<_>>())
            }
        }
    }

    /// Whether the claim holds in it, its premises included, and still does with bounds that are 1 % stricter; `None` if numbers
    /// are missing. Otherwise a cause could rest on what the report calls borderline.
    fn holds(&self) -> Option<bool> {
        let view = self.view.as_ref()?;
        Some(view.premise? && view.holds? && view.holds_strictly.unwrap_or(true))
    }

    /// Whether a rule holds in it.
    fn meets(&self, rule: usize) -> Option<bool> {
        self.view.as_ref()?.met.get(rule).copied().flatten()
    }

    fn mark(&self) -> &'static str {
        let is_single = self
            .view
            .as_ref()
            .is_some_and(|view| view.value.ends_with(SINGLE));
        if is_single { SINGLE } else { "" }
    }
}

fn listed(features: &[String]) -> String {
    match features {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// The smallest sets for which `holds` is true, in words; `None` if there is none. `all`: those that may be named. `planned`:
/// all of the plan.
fn smallest(
    all: &[&Counterfactual],
    planned: &[Counterfactual],
    naming: Naming,
    holds: impl Fn(&Counterfactual) -> Option<bool>,
) -> Option<String> {
    let flips = || all.iter().filter(|one| holds(one) == Some(true));
    let size = flips().map(|one| one.off.len()).min()?;
    let is_missing = |one: &Counterfactual| one.off.len() < size && holds(one).is_none();
    let is_smallest = |one: &Counterfactual| {
        one.off.len() == 1
            || one
                .off
                .iter()
                .all(|left| has_set_without(planned, &one.off, left))
    };
    let chosen: Vec<&&Counterfactual> = flips().filter(|one| one.off.len() == size).collect();
    let caveat = if naming == Naming::Brief {
        ""
    } else if planned.iter().any(is_missing) {
        " (smaller sets have not been run)"
    } else if !chosen.iter().all(|one| is_smallest(one)) {
        " (not every smaller set was tested)"
    } else {
        ""
    };
    let mut names: Vec<String> = chosen.iter().map(|one| one.named(naming)).collect();
    // Sets that differ by what was done instead have one brief name.
    names.dedup();
    Some(names.join(", or ") + caveat)
}

/// Whether the plan has the set that lacks one of these features.
fn has_set_without(planned: &[Counterfactual], off: &[String], left: &String) -> bool {
    planned.iter().any(|one| {
        let is_within = |name: &String| name != left && off.contains(name);
        one.off.len() + 1 == off.len() && one.off.iter().all(is_within)
    })
}

/// The smallest set of features without which the claim holds. If there is none, the set for each rule that fails. A condition of
/// the document without which it holds is named as such.
pub(super) fn named(measured: &View, all: &[Counterfactual], naming: Naming) -> String {
    let (conditions, features): (Vec<&Counterfactual>, Vec<&Counterfactual>) =
        all.iter().partition(|one| one.of_document);
    if let Some(names) = smallest(&features, all, naming, Counterfactual::holds) {
        return format!("Cause: {names}");
    }
    let unknown = unknown(measured, &features, all, naming);
    match smallest(&conditions, all, naming, Counterfactual::holds) {
        Some(names) => {
            format!("{unknown}. Condition: {names}, which the document had")
        }
        None => unknown,
    }
}

/// That no set is enough, and which one each rule needs.
fn unknown(
    measured: &View,
    features: &[&Counterfactual],
    planned: &[Counterfactual],
    naming: Naming,
) -> String {
    if planned.is_empty() {
        return "Cause not tested: the plan has no counterfactual".to_owned();
    }
    if planned.iter().all(|one| one.view.is_none()) {
        return "Cause not tested: no counterfactual has been run".to_owned();
    }
    let is_run = features.iter().all(|one| one.holds().is_some());
    let whole = match (is_run, planned.len() - features.len()) {
        _ if features.is_empty() => "Cause not tested: only conditions of the document were changed",
        (true, 0) => "Cause unknown: the claim holds in no tested counterfactual",
        (true, _) => "Cause unknown: no tested feature is enough",
        (false, _) => "Cause unknown: some counterfactuals have not been run",
    };
    let failing = measured
        .met
        .iter()
        .enumerate()
        .filter(|(_, met)| **met == Some(false));
    let parts: Vec<String> = failing
        .filter(|_| measured.met.len() > 1)
        .map(
            |(rule, _)| match smallest(features, planned, naming, |one| one.meets(rule)) {
                Some(names) => format!("rule {} holds without {names}", rule + 1),
                None => format!("rule {} in none", rule + 1),
            },
        )
        .collect();
    match parts.as_slice() {
        [] => whole.to_owned(),
        parts => format!("{whole}; {}", parts.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results with these rules met.
    fn view(premise: bool, met: &[bool]) -> View {
        View {
            value: "1".to_owned(),
            range: None,
            partly_run: None,
            holds: Some(met.iter().all(|met| *met)),
            holds_strictly: None,
            holds_leniently: None,
            rules: Vec::new(),
            met: met.iter().copied().map(Some).collect(),
            premise: Some(premise),
            premises: Vec::new(),
            sources: Vec::new(),
        }
    }

    #[test]
    fn the_smallest_set_is_named_wherever_the_plan_has_it() {
        let without = |off: &[&str], premise: bool, met: &[bool]| Counterfactual {
            off: off.iter().map(|name| (*name).to_owned()).collect(),
            of_document: off.contains(&"D"),
            world: World::Measured,
            view: Some(view(premise, met)),
        };
        let barely = |off: &str| {
            let mut one = without(&[off], true, &[true, true]);
            one.view.as_mut().expect("it has one").holds_strictly = Some(false);
            one
        };
        let not_run = || Counterfactual {
            off: vec!["C".to_owned()],
            of_document: false,
            world: World::Measured,
            view: None,
        };
        let today = view(true, &[false, false]);
        for (all, wanted) in [
            (
                vec![
                    without(&["A", "B"], true, &[true, true]),
                    without(&["B"], true, &[true, true]),
                    without(&["A"], true, &[true, false]),
                ],
                "Cause: B",
            ),
            (
                vec![
                    without(&["A", "B", "C"], true, &[true, true]),
                    without(&["A"], false, &[true, true]),
                ],
                "Cause: A, B and C (not every smaller set was tested)",
            ),
            (
                vec![
                    without(&["A"], true, &[true, true]),
                    without(&["B"], true, &[true, true]),
                ],
                "Cause: A, or B",
            ),
            (
                vec![barely("A"), without(&["B", "C"], true, &[true, true])],
                "Cause: B and C (not every smaller set was tested)",
            ),
            (
                vec![
                    without(&["A", "B"], true, &[true, true]),
                    without(&["B"], true, &[true, false]),
                    without(&["A"], true, &[true, false]),
                ],
                "Cause: A and B",
            ),
            // A condition of the document is no cause, alone or with others.
            (
                vec![
                    without(&["D"], true, &[true, true]),
                    without(&["A"], true, &[true, false]),
                ],
                "Cause unknown: no tested feature is enough; rule 1 holds without A; rule 2 in none. Condition: D, which the \
                 document had",
            ),
            (
                vec![
                    without(&["A"], true, &[true, false]),
                    without(&["A", "B"], true, &[true, false]),
                ],
                "Cause unknown: the claim holds in no tested counterfactual; rule 1 holds without A; rule 2 in none",
            ),
            (
                vec![without(&["A"], true, &[false, true]), not_run()],
                "Cause unknown: some counterfactuals have not been run; rule 1 in none; rule 2 holds without A",
            ),
            (
                vec![without(&["A", "B"], true, &[true, true]), not_run()],
                "Cause: A and B (smaller sets have not been run)",
            ),
            (
                vec![not_run()],
                "Cause not tested: no counterfactual has been run",
            ),
        ] {
            assert_eq!(named(&today, &all, Naming::Whole), wanted);
        }
        let all = [
            without(&["a (x=1)", "b (y (z))"], true, &[true, true]),
            without(&["a (x=2)", "b (y (z))"], true, &[true, true]),
            without(&["c", "d"], true, &[true, true]),
        ];
        assert_eq!(named(&today, &all, Naming::Brief), "Cause: a and b, or c and d");
    }
}
