//! Numbers with their world, measure, labels and source. Decides which numbers a selection matches; knows neither
//! files nor rules.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use units::median;

/// Names and values that distinguish measurements: `mode` = `http10`.
pub type Labels = BTreeMap<String, String>;

/// Each of these combined with each value of `name`, in that order.
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

/// The origin of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum World {
    /// Printed in the document.
    Published,
    /// Simulated in virtual time: with the stacks and hosts of the document's time; for the protocols since, with this
    /// program's own client and server over a modeled link and TCP.
    Simulated,
    /// Measured on this machine over links whose hosts have an aged TCP: what today's kernel has and the document's
    /// lacked is switched off as far as the kernel allows.
    Aged,
    /// Measured on this machine today.
    Measured,
    /// Computed from a formula.
    Model,
}

impl World {
    /// All worlds, in the order of the ledger's columns.
    pub const ALL: [World; 5] = [
        World::Published,
        World::Simulated,
        World::Aged,
        World::Measured,
        World::Model,
    ];

    /// Whether its numbers are measured on this machine, so that repetitions differ and other programs disturb.
    pub fn is_live(self) -> bool {
        matches!(self, World::Aged | World::Measured)
    }

    /// Name as in plans.
    pub fn name(self) -> &'static str {
        match self {
            World::Published => "published",
            World::Simulated => "simulated",
            World::Aged => "aged",
            World::Measured => "measured",
            World::Model => "model",
        }
    }
}

/// One number.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Its origin.
    pub world: World,
    /// Name of the measure in the plan: `packets`.
    pub measure: String,
    /// The labels that identify the measurement.
    pub labels: Labels,
    /// The number, in the measure's unit from the plan.
    pub value: f64,
    /// Name of the result file or of the document's table.
    pub source: String,
}

/// All observations of a study.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    all: Vec<Observation>,
}

/// The repetitions of one measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The labels that identify the measurement.
    pub labels: Labels,
    /// Values of all repetitions, in reading order.
    pub values: Vec<f64>,
    /// Their sources, without duplicates.
    pub sources: Vec<String>,
}

impl Group {
    /// Median of the repetitions.
    pub fn median(&self) -> f64 {
        median(&self.values).unwrap_or(f64::NAN)
    }
}

impl Observations {
    /// Adds an observation; values that are not finite are dropped.
    pub fn push(&mut self, observation: Observation) {
        if observation.value.is_finite() {
            self.all.push(observation);
        }
    }

    /// All observations.
    pub fn all(&self) -> &[Observation] {
        &self.all
    }

    /// The observations of a measure in a world with all these labels, grouped by measurement.
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

    /// The values of a label among the observations of a measure in a world; numbers in numeric order.
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
