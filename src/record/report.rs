//! What `weir record` reports: exchanges by origin, missing responses, and what the bounds left out.

use crate::failure::Failure;
use serde_json::{Value, json};
use std::path::Path;

/// Most missing responses that the text names.
const MISSING_SHOWN: usize = 10;

/// What a recording has done.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Number of exchanges by origin, in the order of the first visits.
    pub(super) origins: Vec<(String, u32)>,
    /// Exchanges that were not in the folder before.
    pub(super) added: u32,
    /// Exchanges that replaced earlier ones.
    pub(super) replaced: u32,
    /// Bytes of all bodies.
    pub(super) body_bytes: u64,
    /// URLs without a recorded response, with the reasons.
    pub(super) missing: Vec<(String, String)>,
    /// References that a bound left out.
    pub(super) left_out: u64,
    /// The flag whose bound was reached.
    pub(super) bound: Option<&'static str>,
}

impl Tally {
    /// Number of exchanges recorded.
    pub(super) fn exchanges(&self) -> u32 {
        self.added + self.replaced
    }

    /// Counts an exchange of this origin.
    pub(super) fn count(&mut self, origin: &str, is_replaced: bool, body_bytes: u64) {
        match self.origins.iter_mut().find(|(known, _)| known == origin) {
            Some((_, count)) => *count += 1,
            None => self.origins.push((origin.to_owned(), 1)),
        }
        match is_replaced {
            true => self.replaced += 1,
            false => self.added += 1,
        }
        self.body_bytes += body_bytes;
    }

    /// The report as one JSON object.
    pub(super) fn json(&self, folder: &Path) -> Value {
        let origins = self
            .origins
            .iter()
            .map(|(origin, count)| json!({ "origin": origin, "exchanges": count }));
        let missing = self
            .missing
            .iter()
            .map(|(url, why)| json!({ "url": url, "why": why }));
        json!({
            "event": "recorded",
            "folder": folder,
            "exchanges": self.exchanges(),
            "added": self.added,
            "replaced": self.replaced,
            "body_bytes": self.body_bytes,
            "origins": origins.collect::<Vec<_>>(),
            "missing": missing.collect::<Vec<_>>(),
            "left_out": self.left_out,
            "bound": self.bound,
        })
    }

    /// The report as a few lines of text.
    pub(super) fn text(&self, folder: &Path) -> String {
        let mut text = format!(
            "recorded {} in {}: {} added, {} replaced, {} bytes of bodies\n",
            counted(self.exchanges().into(), "exchange"),
            folder.display(),
            self.added,
            self.replaced,
            self.body_bytes
        );
        for (origin, count) in &self.origins {
            text += &format!("  {count:>5}  {origin}\n");
        }
        for (url, why) in self.missing.iter().take(MISSING_SHOWN) {
            text += &format!("missing  {url}: {why}\n");
        }
        if let Some(more) = self
            .missing
            .len()
            .checked_sub(MISSING_SHOWN)
            .filter(|more| *more > 0)
        {
            text += &format!("missing  {more} more\n");
        }
        text
    }

    /// Succeeds if everything was recorded.
    ///
    /// # Errors
    /// `Failed` with the first missing response or the bound that was reached.
    pub(super) fn judged(&self) -> Result<(), Failure> {
        let mut faults = Vec::new();
        if let Some((url, why)) = self.missing.first() {
            faults.push(match self.missing.len() {
                1 => format!("`{url}` was not recorded: {why}"),
                more => format!("{more} responses were not recorded, the first of `{url}`: {why}"),
            });
        }
        if self.left_out > 0 {
            let flag = self.bound.unwrap_or("--exchanges-max");
            faults.push(format!(
                "{} left out because of {flag}; raise it",
                counted(self.left_out, "reference")
            ));
        } else if let Some(flag) = self.bound {
            faults.push(format!("the recording reached {flag}; raise it"));
        }
        match faults.is_empty() {
            true => Ok(()),
            false => Err(Failure::Failed(faults.join("; "))),
        }
    }
}

/// A number with its noun.
fn counted(number: u64, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        number => format!("{number} {noun}s"),
    }
}
