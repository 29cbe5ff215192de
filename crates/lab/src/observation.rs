//! A number with what it is of: which world it comes from, which measure, under which labels, from where. Decides
//! what a selection picks; knows neither files nor rules.

use crate::statistics::median;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Names and values that tell one measurement from another: `mode` = `http10`.
pub type Labels = BTreeMap<String, String>;

/// Every one of these with every value of `name`, in that order.
pub(crate) fn with_each(all: &[Labels], name: &str, values: &[String]) -> Vec<Labels> {
    let with = |before: &Labels, value: &String| {
        let mut one = before.clone();
        one.insert(name.to_owned(), value.clone());
        one
    };
    all.iter()
        .flat_map(|before| values.iter().map(move |value| with(before, value)))
        .collect()
}

/// Where a number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum World {
    /// Printed in the document.
    Published,
    /// The stacks and hosts of then, in virtual time.
    Simulated,
    /// This machine, today.
    Measured,
    /// A formula.
    Model,
}

impl World {
    /// All, in the order of the ledger's columns.
    pub const ALL: [World; 4] = [World::Published, World::Simulated, World::Measured, World::Model];

    /// One word, as in plans.
    pub fn name(self) -> &'static str {
        match self {
            World::Published => "published",
            World::Simulated => "simulated",
            World::Measured => "measured",
            World::Model => "model",
        }
    }
}

/// One number.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Where it comes from.
    pub world: World,
    /// What was measured, a name of the plan: `packets`.
    pub measure: String,
    /// Of what.
    pub labels: Labels,
    /// The number, in the unit the plan gives the measure.
    pub value: f64,
    /// The name of the result file, or of the document's table.
    pub source: String,
}

/// Everything a study knows.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    all: Vec<Observation>,
}

/// The repetitions of one measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Of what.
    pub labels: Labels,
    /// Every repetition's value, in the order they were read.
    pub values: Vec<f64>,
    /// Where they come from, without repetition.
    pub sources: Vec<String>,
}

impl Group {
    /// The middle of the repetitions.
    pub fn median(&self) -> f64 {
        median(&self.values).unwrap_or(f64::NAN)
    }
}

impl Observations {
    /// Adds one; what is no number is left out.
    pub fn push(&mut self, observation: Observation) {
        if observation.value.is_finite() {
            self.all.push(observation);
        }
    }

    /// All of them.
    pub fn all(&self) -> &[Observation] {
        &self.all
    }

    /// The observations of a measure in a world that bear all these labels, repetitions together.
    pub fn select(&self, world: World, measure: &str, labels: &Labels) -> Vec<Group> {
        let mut groups: BTreeMap<&Labels, Group> = BTreeMap::new();
        let picked = self.all.iter().filter(|one| {
            one.world == world
                && one.measure == measure
                && labels
                    .iter()
                    .all(|(name, value)| one.labels.get(name) == Some(value))
        });
        for one in picked {
            let group = groups.entry(&one.labels).or_insert_with(|| Group {
                labels: one.labels.clone(),
                values: Vec::new(),
                sources: Vec::new(),
            });
            group.values.push(one.value);
            if !group.sources.contains(&one.source) {
                group.sources.push(one.source.clone());
            }
        }
        groups.into_values().collect()
    }

    /// The values a label has among the observations of a measure in a world, numbers in their order.
    pub fn values_of(&self, world: World, measure: &str, label: &str) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for one in &self.all {
            if one.world == world
                && one.measure == measure
                && let Some(value) = one.labels.get(label)
                && !found.contains(value)
            {
                found.push(value.clone());
            }
        }
        found.sort_by(|a, b| match (a.parse::<f64>(), b.parse::<f64>()) {
            (Ok(a), Ok(b)) => a.total_cmp(&b),
            _ => a.cmp(b),
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn repetitions_are_one_group_and_labels_narrow() {
        let mut known = Observations::default();
        for (mode, value) in [
            ("serial", 3.0),
            ("http10", 9.0),
            ("serial", 1.0),
            ("serial", 2.0),
            ("serial", f64::NAN),
        ] {
            known.push(Observation {
                world: World::Measured,
                measure: "packets".to_owned(),
                labels: labels(&[("mode", mode), ("users", "40")]),
                value,
                source: "a".to_owned(),
            });
        }
        assert_eq!(
            known
                .select(World::Measured, "packets", &labels(&[("users", "40")]))
                .len(),
            2
        );
        let serial = known.select(World::Measured, "packets", &labels(&[("mode", "serial")]));
        assert_eq!((serial.len(), serial[0].median()), (1, 2.0));
        assert!(
            known
                .select(World::Simulated, "packets", &Labels::new())
                .is_empty()
        );
        assert!(
            known
                .select(World::Measured, "packets", &labels(&[("other", "x")]))
                .is_empty()
        );
    }
}
