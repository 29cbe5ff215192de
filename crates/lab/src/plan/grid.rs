//! A table of our own numbers, which no document printed: which measures, and which labels make its rows and columns.

use crate::observation::Labels;
use serde::Deserialize;

/// A table of our own numbers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Grid {
    /// Title of the table.
    pub title: String,
    /// Measures, a row each.
    pub measures: Vec<String>,
    /// Labels whose values identify the rows, besides the measure.
    pub rows: Vec<String>,
    /// The label whose values are the columns.
    pub columns: String,
    /// Shows only numbers with these labels.
    #[serde(default)]
    pub only: Labels,
}
