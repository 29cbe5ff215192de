//! Field lines for responses to certain paths.

use super::condition::Conditions;
use super::pattern::PathPattern;
use super::values::FieldLine;
use serde::Deserialize;

/// Adds field lines to responses for matching paths, besides those for all responses.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct HeaderRule {
    /// Matches the path of the request, or of the file that answers it (an index).
    #[serde(default)]
    pub path: PathPattern,
    /// What requests must have for the rule to apply.
    #[serde(default, rename = "if")]
    pub conditions: Conditions,
    /// Field lines, each as `Name: value`. They replace lines of the same name from earlier rules and from the top
    /// level.
    pub header: Vec<FieldLine>,
    /// Whether the lines are for responses of every kind: errors, redirects and those of upstreams, too.
    #[serde(default)]
    pub always: bool,
}
