//! A sentence of a document's conclusion. The plan has one text for each outcome, so that the results choose the
//! sentence.

use serde::Deserialize;

/// A sentence about some claims, in the words for each outcome. An outcome without words gets a general sentence.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Conclusion {
    /// The claims that must all hold, such as `bc-01`.
    pub claims: Vec<String>,
    /// They hold then (simulated, or by the formulas) and now (measured).
    #[serde(default)]
    pub both: String,
    /// They hold then and not now.
    #[serde(default)]
    pub then: String,
    /// They hold now and not then.
    #[serde(default)]
    pub now: String,
    /// They hold neither then nor now.
    #[serde(default)]
    pub neither: String,
    /// They hold then; no measurement decides.
    #[serde(default)]
    pub then_alone: String,
    /// They do not hold then; no measurement decides.
    #[serde(default)]
    pub not_then_alone: String,
    /// They hold now; neither a simulation nor a formula decides.
    #[serde(default)]
    pub now_alone: String,
    /// They do not hold now; neither a simulation nor a formula decides.
    #[serde(default)]
    pub not_now_alone: String,
}

impl Conclusion {
    /// The words for an outcome: whether the claims hold then and now. `None` without words.
    pub fn says(&self, then: Option<bool>, now: Option<bool>) -> Option<&str> {
        let text = match (then, now) {
            (Some(true), Some(true)) => &self.both,
            (Some(true), Some(false)) => &self.then,
            (Some(false), Some(true)) => &self.now,
            (Some(false), Some(false)) => &self.neither,
            (Some(true), None) => &self.then_alone,
            (Some(false), None) => &self.not_then_alone,
            (None, Some(true)) => &self.now_alone,
            (None, Some(false)) => &self.not_now_alone,
            (None, None) => return None,
        };
        (!text.is_empty()).then_some(text)
    }
}
