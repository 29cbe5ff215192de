//! Every table and figure of the five documents, and its place in the report or the reason why it has none.

use serde::Deserialize;

/// A table or figure of a document.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// Number of the document, `000` to `004`.
    pub document: String,
    /// Its name there, as `Figure 2`.
    pub item: String,
    /// What it shows.
    pub about: String,
    /// Titles of pictures of the document's plan that stand for it.
    #[serde(default)]
    pub pictures: Vec<String>,
    /// Numbers of the plan's tables and setups that stand for it.
    #[serde(default)]
    pub tables: Vec<String>,
    /// A file of the repository, with an anchor, that has it.
    #[serde(default)]
    pub elsewhere: String,
    /// What is missing of it, and why.
    #[serde(default)]
    pub missing: String,
}

impl Item {
    /// Where the report has it, and what is missing.
    pub fn place(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.tables.iter().map(|number| format!("table {number}")));
        parts.extend(self.pictures.iter().map(|title| format!("picture \"{title}\"")));
        if !self.elsewhere.is_empty() {
            parts.push(format!("`{}`", self.elsewhere));
        }
        if !self.missing.is_empty() {
            parts.push(format!("missing: {}", self.missing));
        }
        parts.join("; ")
    }
}

#[derive(Deserialize)]
struct List {
    item: Vec<Item>,
}

/// All items, in the order of the documents.
pub fn items() -> Vec<Item> {
    let list: Result<List, _> = toml::from_str(include_str!("../documents/coverage.toml"));
    // It is embedded, and a test parses it.
    list.expect("the list of tables and figures").item
}

/// The items of a document.
pub fn of(document: &str) -> Vec<Item> {
    items()
        .into_iter()
        .filter(|item| item.document == document)
        .collect()
}

#[cfg(test)]
mod tests;
