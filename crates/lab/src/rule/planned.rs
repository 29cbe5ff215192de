//! Coverage of a rule: for which of the planned combinations of `each` its world has numbers. Knows no verdict.

use super::{Rule, Term, filled};
use crate::observation::{Labels, Observations, World, with_each};
use std::collections::{BTreeMap, BTreeSet};

/// A measurement that a plan asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// World of its numbers.
    pub world: World,
    /// Name of the measure.
    pub measure: String,
    /// Labels that the plan fixes.
    pub labels: Labels,
    /// Names of the labels whose values only the output has.
    pub open: BTreeSet<String>,
}

impl Planned {
    /// Whether it may be the measurement that these labels select.
    pub(crate) fn fits(&self, measure: &str, labels: &Labels) -> bool {
        let is_met = |(name, value): (&String, &String)| {
            self.open.contains(name) || self.labels.get(name) == Some(value)
        };
        self.measure == measure && labels.iter().all(is_met)
    }
}

impl Rule {
    /// How much of the rule was run in a world, as in `1 of 3 networks run`; `None` if everything was.
    pub fn partly_run(&self, planned: &[Planned], known: &Observations, world: World) -> Option<String> {
        let planned: Vec<&Planned> = planned.iter().filter(|one| one.world == world).collect();
        let wanted: Vec<Labels> = self
            .planned_combinations(&planned)
            .into_iter()
            .filter(|chosen| {
                let fits = |(measure, labels): (&str, &Labels)| {
                    let labels = filled(labels, chosen);
                    planned.iter().any(|one| one.fits(measure, &labels))
                };
                self.selections().into_iter().all(fits)
            })
            .collect();
        let has = |chosen: &&Labels| {
            let is_known = |(measure, labels): (&str, &Labels)| {
                !known.select(world, measure, &filled(labels, chosen)).is_empty()
            };
            self.selections().into_iter().all(is_known)
        };
        let run: Vec<&Labels> = wanted.iter().filter(has).collect();
        if run.len() == wanted.len() {
            return None;
        }
        let values = |all: &[&Labels]| -> BTreeMap<String, usize> {
            let mut found: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
            for (name, value) in all.iter().copied().flatten() {
                found.entry(name).or_default().insert(value);
            }
            found
                .into_iter()
                .map(|(name, values)| (name.clone(), values.len()))
                .collect()
        };
        let of_run = values(&run);
        let parts: Vec<String> = values(&wanted.iter().collect::<Vec<_>>())
            .into_iter()
            .filter_map(|(name, all)| {
                let run = of_run.get(&name).copied().unwrap_or(0);
                (run < all).then(|| format!("{run} of {all} {}", plural(&name)))
            })
            .collect();
        Some(match parts.as_slice() {
            [] => format!("{} of {} combinations run", run.len(), wanted.len()),
            parts => format!("{} run", parts.join(", ")),
        })
    }

    /// The combinations of the `each` values that the plan asks for: `*` stands for all values that it fixes.
    fn planned_combinations(&self, planned: &[&Planned]) -> Vec<Labels> {
        let measures = self.measures();
        let mut all = vec![Labels::new()];
        for (name, values) in self.named() {
            let every: BTreeSet<&String> = planned
                .iter()
                .filter(|one| measures.contains(&one.measure.as_str()) && !one.open.contains(name))
                .filter_map(|one| one.labels.get(name))
                .collect();
            let every: Vec<String> = every.into_iter().cloned().collect();
            let is_every = values.iter().any(|value| value == "*");
            all = with_each(&all, name, if is_every { &every } else { values });
        }
        all
    }

    /// The measures with the labels that select them.
    fn selections(&self) -> Vec<(&str, &Labels)> {
        let mut found = Vec::new();
        self.left.selections(&mut found);
        self.right.selections(&mut found);
        found
    }
}

impl Term {
    fn selections<'t>(&'t self, found: &mut Vec<(&'t str, &'t Labels)>) {
        match self {
            Term::Number(_) => {}
            Term::Measure(name, labels) => found.push((name, labels)),
            Term::Call(_, inner) => inner.selections(found),
            Term::Pair(left, _, right) => {
                left.selections(found);
                right.selections(found);
            }
        }
    }
}

/// The name of a label for several of its values.
fn plural(name: &str) -> String {
    if name.ends_with("ss") {
        format!("{name} rates")
    } else if name.ends_with('s') {
        name.to_owned()
    } else {
        format!("{name}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Observation;

    fn labels(of: &[(&str, &str)]) -> Labels {
        of.iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn what_the_plan_asks_for_and_nobody_ran_is_counted() {
        let planned: Vec<Planned> = ["lan", "wan", "4g"]
            .into_iter()
            .flat_map(|network| ["1%", "3%"].map(|loss| (network, loss)))
            .map(|(network, loss)| Planned {
                world: World::Measured,
                measure: "seconds".to_owned(),
                labels: labels(&[("network", network), ("loss", loss)]),
                open: ["test".to_owned()].into(),
            })
            .collect();
        let each = [
            ("network".to_owned(), vec!["*".to_owned()]),
            (
                "loss".to_owned(),
                vec!["1%".to_owned(), "3%".to_owned(), "9%".to_owned()],
            ),
        ]
        .into();
        let rule =
            Rule::parse("seconds{network=$network,loss=$loss,test=first} <= 1", &each).expect("a rule");
        let mut known = Observations::default();
        let mut run = |network: &str, loss: &str| {
            known.push(Observation {
                world: World::Measured,
                measure: "seconds".to_owned(),
                labels: labels(&[("network", network), ("loss", loss), ("test", "first")]),
                value: 1.0,
                source: "run".to_owned(),
            });
            rule.partly_run(&planned, &known, World::Measured)
        };
        assert_eq!(
            run("4g", "1%").as_deref(),
            Some("1 of 2 loss rates, 1 of 3 networks run")
        );
        assert_eq!(run("4g", "3%").as_deref(), Some("1 of 3 networks run"));
        run("lan", "1%");
        run("lan", "3%");
        assert_eq!(run("wan", "3%").as_deref(), Some("5 of 6 combinations run"));
        // The plan has no loss of 9 %: nothing is missing.
        assert_eq!(run("wan", "1%"), None);
        assert_eq!(rule.partly_run(&planned, &known, World::Simulated), None);
    }
}
