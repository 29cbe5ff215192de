//! The tables that the five documents printed, and the claims derived from them, embedded: 41, further ones, and a set of
//! claims on the protocols since, which is of none of the five. Decides how they are read; recalled, unverified numbers keep
//! that mark.

use crate::observation::{Labels, Observation, World};
use crate::plan::{Table, fill};
use serde::Deserialize;
use std::collections::BTreeMap;

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../documents/", $name)))),*]
    };
}

const FILES: &[(&str, &str)] = files![
    "barford_memory.csv",
    "barford_table2.csv",
    "barford_table3.csv",
    "barford_table4.csv",
    "barford_table5.csv",
    "barford_table6.csv",
    "barford_table7.csv",
    "heidemann_table1.csv",
    "jaws_whitebox.csv",
    "model_table1.csv",
    "model_table2.csv",
    "model_table3.csv",
    "model_table4.csv",
    "model_table5.csv",
    "w3c_compression_modem.csv",
    "w3c_table10.csv",
    "w3c_table11.csv",
    "w3c_table3.csv",
    "w3c_table4.csv",
    "w3c_table5.csv",
    "w3c_table6.csv",
    "w3c_table7.csv",
    "w3c_table8.csv",
    "w3c_table9.csv",
];

/// Suffix of the source of a recalled, unverified number, so that every place that shows the number shows the mark.
pub const RECALLED: &str = ", recalled";

/// A checkable statement of a document.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stated {
    /// Number of the claim: `bc-01`.
    pub id: String,
    /// Number of the document, `000` to `004`, or [`SINCE`].
    pub doc: String,
    /// The claim.
    pub claim: String,
    /// Evidence in the document, and how to check it.
    pub check: String,
    /// Provenance of the wording. For a claim of [`since`]: its publication, and the place in it.
    pub provenance: String,
    /// Whether it is one of the [`further`] claims.
    #[serde(skip)]
    pub is_further: bool,
}

/// What stands for a document's number in the study of the protocols since: its claims are from several publications.
pub const SINCE: &str = "since";

#[derive(Deserialize)]
struct List {
    claim: Vec<Stated>,
}

/// The 41 claims of the five documents, in the order of the documents.
pub fn claims() -> Vec<Stated> {
    parse(include_str!("../documents/claims.toml"))
}

/// Further claims of the five documents, in the order of the documents. The 41 do not have them, and reports count them
/// apart.
pub fn further() -> Vec<Stated> {
    let mut all = parse(include_str!("../documents/further.toml"));
    for stated in &mut all {
        stated.is_further = true;
    }
    all
}

/// The claims on the protocols since.
pub fn since() -> Vec<Stated> {
    parse(include_str!("../documents/since.toml"))
}

fn parse(text: &str) -> Vec<Stated> {
    let list: Result<List, _> = toml::from_str(text);
    // It is embedded, and a test parses it.
    list.expect("the list of claims").claim
}

/// A file of numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers {
    /// Header comments: `source`, `units`, `provenance`, `note`.
    pub about: BTreeMap<String, String>,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows, by column.
    pub rows: Vec<Labels>,
}

/// Parses an embedded table.
///
/// # Errors
/// There is no file of that name.
pub fn table(file: &str) -> Result<Numbers, String> {
    let (_, text) = FILES
        .iter()
        .find(|(name, _)| *name == file)
        .ok_or_else(|| format!("there is no document table `{file}`"))?;
    Ok(read(text))
}

fn read(text: &str) -> Numbers {
    let mut about = BTreeMap::new();
    let mut lines = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("# ") {
            Some(comment) => {
                let (key, value) = comment.split_once(": ").unwrap_or(("note", comment));
                about.insert(key.to_owned(), value.to_owned());
            }
            None => lines.push(fields(line)),
        }
    }
    let mut lines = lines.into_iter();
    let columns = lines.next().unwrap_or_default();
    let rows = lines
        .map(|fields| columns.iter().cloned().zip(fields).collect())
        .collect();
    Numbers { about, columns, rows }
}

/// The fields of a line; quoted fields may contain commas.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            // There is always a last field.
            c => {
                if let Some(last) = fields.last_mut() {
                    last.push(c);
                }
            }
        }
    }
    fields
}

/// A number of a table with its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Row headings.
    pub row: Vec<String>,
    /// Column heading.
    pub column: String,
    /// The number as printed.
    pub printed: String,
    /// Name of the measure.
    pub measure: String,
    /// The labels that identify the measurement.
    pub labels: Labels,
    /// Provenance of the number.
    pub provenance: String,
}

/// The cells of a table, as the plan maps them.
///
/// # Errors
/// The file or a column does not exist.
pub fn cells(table: &Table, words: &BTreeMap<String, String>) -> Result<Vec<Cell>, String> {
    let numbers = self::table(&table.file)?;
    let named = table.rows.iter().chain(&table.columns).chain(&table.values);
    if let Some(missing) = named
        .chain(&table.value)
        .find(|name| !numbers.columns.contains(name))
    {
        return Err(format!("{} has no column `{missing}`", table.file));
    }
    let mut cells = Vec::new();
    for row in &numbers.rows {
        let ours: Labels = row
            .iter()
            .map(|(name, value)| (name.clone(), words.get(value).unwrap_or(value).clone()))
            .collect();
        let labels: Labels = table
            .labels
            .iter()
            .map(|(name, template)| (name.clone(), fill(template, &ours)))
            .collect();
        let above: Vec<&str> = table.columns.iter().map(|name| row[name].as_str()).collect();
        let mut push = |value: &str, name: Option<&str>, measure: String| {
            let mut column = above.clone();
            column.extend(name);
            cells.push(Cell {
                row: table.rows.iter().map(|name| row[name].clone()).collect(),
                column: column.join(" "),
                printed: value.to_owned(),
                measure,
                labels: labels.clone(),
                provenance: row.get("provenance").cloned().unwrap_or_default(),
            });
        };
        for name in &table.values {
            push(&row[name], Some(name), name.clone());
        }
        if let Some(column) = &table.value {
            let measure = fill(table.measure.as_deref().unwrap_or("value"), &ours);
            push(&row[column], None, measure);
        }
    }
    Ok(cells)
}

impl Cell {
    /// Whether the number is recalled, not verified in a copy of the document.
    pub fn is_unverified(&self) -> bool {
        self.provenance.contains("unverified")
    }

    /// The number as an observation.
    pub fn observation(&self, table: &Table) -> Option<Observation> {
        Some(Observation {
            world: World::Published,
            measure: self.measure.clone(),
            labels: self.labels.clone(),
            value: self.printed.parse().ok()?,
            source: format!(
                "table {}{}",
                table.number,
                if self.is_unverified() { RECALLED } else { "" }
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_has_rows_as_long_as_its_head_and_says_where_it_is_from() {
        for (name, text) in FILES {
            let numbers = read(text);
            assert!(
                numbers.about.contains_key("source") && !numbers.rows.is_empty(),
                "{name}"
            );
            for row in &numbers.rows {
                assert_eq!(row.len(), numbers.columns.len(), "{name}: {row:?}");
            }
        }
        assert_eq!(claims().len(), 41);
    }

    #[test]
    fn every_claim_since_names_its_publication_and_is_of_no_document() {
        let all = since();
        assert_eq!(all.len(), 17);
        for (number, one) in all.iter().enumerate() {
            assert_eq!(one.id, format!("si-{:02}", number + 1));
            assert_eq!(one.doc, SINCE, "{}", one.id);
            let has_year = one.provenance.contains("RFC ")
                || (1997..=2022).any(|year| one.provenance.contains(&year.to_string()));
            assert!(has_year, "{}: {}", one.id, one.provenance);
        }
        assert!(claims().iter().all(|one| one.doc != SINCE));
    }

    #[test]
    fn every_further_claim_quotes_its_document_and_continues_its_numbers() {
        let known = claims();
        let all = further();
        let ids: Vec<&str> = all.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(ids, ["ja-10", "w3-10", "w3-11", "mo-06"]);
        for one in &all {
            let of_document: Vec<&Stated> = known.iter().filter(|other| other.doc == one.doc).collect();
            let is_next = |other: &&Stated| other.id[..3] == one.id[..3] && other.id < one.id;
            assert!(
                !of_document.is_empty() && of_document.iter().all(is_next),
                "{}",
                one.id
            );
            assert!(one.is_further && one.check.contains('"'), "{}", one.id);
        }
        assert!(!known.iter().chain(&since()).any(|one| one.is_further));
    }

    #[test]
    fn fields_in_quotes_hold_commas() {
        assert_eq!(fields("a,\"b,c\",d"), ["a", "b,c", "d"]);
    }

    #[test]
    fn long_and_wide_tables_give_the_same_kind_of_cell() {
        let words = [("HTTP/1.0".to_owned(), "http10".to_owned())].into();
        let table = |file: &str, text: &str| -> Table {
            toml::from_str(&format!("file='{file}'\nnumber='1'\ntitle='t'\n{text}")).expect("a table")
        };
        let long = table(
            "barford_table2.csv",
            "rows=['ue']\ncolumns=['protocol']\nvalue='value'\nmeasure='{quantity}'\nlabels={mode='{protocol}',users='{ue}'}",
        );
        let cells_of = cells(&long, &words).expect("cells");
        let one = &cells_of[0];
        assert_eq!(
            (one.measure.as_str(), one.printed.as_str()),
            ("data_packets", "0.107")
        );
        assert_eq!(one.labels["mode"], "http10");
        assert_eq!(one.observation(&long).expect("a number").labels["users"], "40");
        let wide = table(
            "w3c_table4.csv",
            "rows=['client_mode','test']\nvalues=['packets','bytes']\nlabels={mode='{client_mode}'}",
        );
        let cells_of = cells(&wide, &words).expect("cells");
        assert_eq!(
            (cells_of[1].column.as_str(), cells_of[1].printed.as_str()),
            ("bytes", "216289")
        );
        assert!(cells_of[1].is_unverified());
        let error = cells(&table("w3c_table4.csv", "rows=['nothing']"), &words).expect_err("no such column");
        assert!(error.contains("`nothing`"), "{error}");
    }
}
