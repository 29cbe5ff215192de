//! Field lines for some paths only.

use super::pattern::PathPattern;
use super::values::FieldLine;
use serde::Deserialize;

/// Answers for these paths get these field lines, beside those that all get.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct HeaderRule {
    /// Which paths: of the request, or of the file that answers it (an index).
    pub path: PathPattern,
    /// Field lines, each as `Name: value`. One of a name that an earlier rule or the top level also has
    /// takes its place.
    pub header: Vec<FieldLine>,
}
