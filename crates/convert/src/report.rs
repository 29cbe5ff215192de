//! The fates of all directives of a configuration.

use crate::fate::Fate;
use core::fmt;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// Longest directive that a note quotes, in bytes.
const QUOTED_MAX: usize = 80;

/// Most texts of a list that a note names.
const NAMED_MAX: usize = 3;

/// Most directives with the same fate that a report for people names.
pub const LISTED_MAX: usize = 5;

/// Where a directive is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct At {
    pub(crate) file: Arc<str>,
    pub(crate) line: usize,
}

/// A directive and its fate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Name of the file.
    pub file: String,
    /// Line of the directive, from 1.
    pub line: usize,
    /// The directive as written, shortened.
    pub directive: String,
    /// What became of it.
    pub fate: Fate,
}

/// Directives with the same fate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group<'r> {
    /// What became of them.
    pub fate: &'r Fate,
    /// The directives, in the order of files and lines; there is at least one.
    pub notes: Vec<&'r Note>,
}

/// The fates of all directives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    notes: Vec<Note>,
}

impl Report {
    /// Every directive, the most urgent fates first, then in the order of files and lines.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// The directives with the same fate, the most urgent fates first.
    pub fn groups(&self) -> Vec<Group<'_>> {
        let mut known: BTreeMap<&Fate, usize> = BTreeMap::new();
        let mut groups: Vec<Group<'_>> = Vec::new();
        for note in &self.notes {
            match known.entry(&note.fate) {
                Entry::Vacant(entry) => {
                    entry.insert(groups.len());
                    groups.push(Group {
                        fate: &note.fate,
                        notes: vec![note],
                    });
                }
                Entry::Occupied(entry) => {
                    let notes = &mut groups[*entry.get()].notes;
                    if notes.last() != Some(&note) {
                        notes.push(note);
                    }
                }
            }
        }
        groups
    }

    /// How many directives have a fate of this word.
    pub fn count(&self, word: &str) -> usize {
        self.notes.iter().filter(|note| note.fate.word() == word).count()
    }

    /// Adds the notes of several readings of the same directives: each directive once, with its worst fate. A fate with the
    /// reason `unless` counts only if no reading has another.
    pub(crate) fn add_readings(&mut self, readings: Vec<Report>, unless: &str) {
        let mut worst: BTreeMap<(String, usize, String), Fate> = BTreeMap::new();
        for note in readings.into_iter().flat_map(|reading| reading.notes) {
            let key = (note.file, note.line, note.directive);
            let order = |fate: &Fate| (fate.why() == unless, fate.clone());
            match worst.entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert(note.fate);
                }
                Entry::Occupied(mut entry) => {
                    if order(&note.fate) < order(entry.get()) {
                        entry.insert(note.fate);
                    }
                }
            }
        }
        let notes = worst.into_iter().map(|((file, line, directive), fate)| Note {
            file,
            line,
            directive,
            fate,
        });
        self.notes.extend(notes);
    }

    /// Replaces the fate of a directive that has one.
    pub(crate) fn replace(&mut self, at: &At, directive: &str, fate: Fate) {
        let directive = shortened(directive);
        let notes = self.notes.iter_mut();
        for note in
            notes.filter(|note| *note.file == *at.file && note.line == at.line && note.directive == directive)
        {
            note.fate = fate.clone();
        }
    }

    pub(crate) fn add(&mut self, at: &At, directive: &str, fate: Fate) {
        self.notes.push(Note {
            file: at.file.to_string(),
            line: at.line,
            directive: shortened(directive),
            fate,
        });
    }

    pub(crate) fn sort(&mut self) {
        let rank = |fate: &Fate| match fate {
            Fate::Open(_) => 0,
            Fate::Missing(_) => 1,
            Fate::Changed(_) => 2,
            Fate::Unneeded(_) => 3,
            Fate::Carried => 4,
        };
        self.notes.sort_by(|a, b| {
            (rank(&a.fate), &a.file, a.line, &a.directive).cmp(&(
                rank(&b.fate),
                &b.file,
                b.line,
                &b.directive,
            ))
        });
    }
}

/// The first texts of a list, and how many more there are.
pub(crate) fn named(texts: &[String]) -> String {
    let first = texts.get(..NAMED_MAX).unwrap_or(texts).join("`, `");
    match texts.len().saturating_sub(NAMED_MAX) {
        0 => format!("`{first}`"),
        count => format!("`{first}` and {count} more"),
    }
}

/// A directive as notes quote it.
fn shortened(directive: &str) -> String {
    let mut directive = directive.split_whitespace().collect::<Vec<_>>().join(" ");
    if directive.len() > QUOTED_MAX {
        let end = (0..=QUOTED_MAX - 3)
            .rev()
            .find(|end| directive.is_char_boundary(*end));
        directive.truncate(end.unwrap_or(0));
        directive.push_str("...");
    }
    directive
}

/// A configuration that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Name of the file.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_with_one_fate_are_a_group() {
        let mut report = Report::default();
        let at = |line: usize| At {
            file: "site".into(),
            line,
        };
        for (line, directive, fate) in [
            (3, "magic on", Fate::missing("no key")),
            (1, "magic off", Fate::missing("no key")),
            (1, "magic off", Fate::missing("no key")),
            (2, "deny all", Fate::open("no key")),
            (4, "other", Fate::missing("another")),
        ] {
            report.add(&at(line), directive, fate);
        }
        report.sort();
        let groups: Vec<(&str, &str, Vec<usize>)> = report
            .groups()
            .into_iter()
            .map(|group| {
                let lines = group.notes.iter().map(|note| note.line);
                (group.fate.word(), group.fate.why(), lines.collect())
            })
            .collect();
        assert_eq!(
            groups,
            [
                ("open", "no key", vec![2]),
                ("missing", "no key", vec![1, 3]),
                ("missing", "another", vec![4]),
            ]
        );
    }
}
