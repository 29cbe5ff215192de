//! A plan: document, arms with parameters and repetitions, values to read from their output, claims with rules,
//! tables and pictures to show. Read from TOML; an unknown key is an error that names the nearest known key. Runs
//! nothing.

mod conclusion;
mod grid;
mod picture;
mod unit;

use crate::observation::{Labels, World, with_each};
use crate::reading::Expression;
use crate::rule::{Planned, Rule};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

pub use conclusion::Conclusion;
pub use grid::Grid;
pub use picture::{Arrow, Block, Ladder, Picture};
pub use unit::Unit;

/// This program's plans by study name, in the order of the report.
pub const EMBEDDED: [(&str, &str); 6] = [
    ("w3c", include_str!("../../../experiments/w3c.toml")),
    ("heidemann", include_str!("../../../experiments/heidemann.toml")),
    ("barford", include_str!("../../../experiments/barford.toml")),
    ("jaws", include_str!("../../../experiments/jaws.toml")),
    ("qos", include_str!("../../../experiments/qos.toml")),
    ("since", include_str!("../../../experiments/since.toml")),
];

/// Limit on the arms of one plan, counted with every combination of parameters.
pub const ARMS_MAX: usize = 2000;

/// The size of a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Everything in a quarter of an hour.
    Quick,
    /// Every arm, scaled durations.
    Full,
    /// The documents' own durations.
    Paper,
}

impl Size {
    /// All sizes, the smallest first.
    pub const ALL: [Size; 3] = [Size::Quick, Size::Full, Size::Paper];

    /// Name as in the flag: `quick`, `full` or `paper`.
    pub fn name(self) -> &'static str {
        match self {
            Size::Quick => "quick",
            Size::Full => "full",
            Size::Paper => "paper",
        }
    }
}

/// A value that depends on the size of the study.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BySize<T> {
    quick: T,
    full: T,
    paper: T,
}

impl<T> BySize<T> {
    /// The value for this size.
    pub fn at(&self, size: Size) -> &T {
        match size {
            Size::Quick => &self.quick,
            Size::Full => &self.full,
            Size::Paper => &self.paper,
        }
    }
}

/// The plan of one document's study.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Plan {
    /// Number of the document, `000` to `004`, or [`SINCE`](crate::document::SINCE).
    pub document: String,
    /// Authors, year and title of the document.
    pub title: String,
    /// The question that the study answers.
    pub question: String,
    /// The expectation written down before any run.
    pub prediction: String,
    /// Random seed; a repetition adds its number.
    #[serde(default = "one")]
    pub seed: u64,
    /// Words of the document and the words used in this plan for them.
    #[serde(default)]
    pub words: BTreeMap<String, String>,
    /// Units of measures.
    #[serde(default)]
    pub units: BTreeMap<String, String>,
    /// Axis labels of drawn measures; by default, the measure and its unit.
    #[serde(default)]
    pub axes: BTreeMap<String, String>,
    /// Names of label values in pictures.
    #[serde(default)]
    pub names: BTreeMap<String, String>,
    /// Parts of commands that several arms share, by name: `{name}` in a command of `run` stands for the text, whose
    /// own `{...}` are those of the arm.
    #[serde(default)]
    pub texts: Labels,
    /// The arms to run.
    #[serde(default, rename = "arm")]
    pub arms: Vec<Arm>,
    /// The claims to judge.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
    /// The document's tables of results.
    #[serde(default, rename = "table")]
    pub tables: Vec<Table>,
    /// The document's tables of equipment and settings, which hold no results.
    #[serde(default, rename = "setup")]
    pub setups: Vec<Setup>,
    /// Tables of our own numbers, without a document's beside them.
    #[serde(default, rename = "grid")]
    pub grids: Vec<Grid>,
    /// The pictures to draw.
    #[serde(default, rename = "picture")]
    pub pictures: Vec<Picture>,
    /// Results that were requested and cannot be shown, with the reasons.
    #[serde(default)]
    pub gaps: Vec<String>,
    /// The sentences of the conclusion.
    #[serde(default, rename = "conclusion")]
    pub conclusions: Vec<Conclusion>,
}

fn one() -> u64 {
    1
}

/// A program to run under certain conditions.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Arm {
    /// Name of the arm; with its parameters, the name of its results.
    pub name: String,
    /// The world that its numbers belong to.
    pub world: World,
    /// Parameters and their values; `{name}` in a command stands for the value.
    #[serde(default)]
    pub over: BTreeMap<String, Vec<String>>,
    /// Parameters whose values depend on the size of the study.
    #[serde(default)]
    pub over_by_size: BTreeMap<String, BySize<Vec<String>>>,
    /// Labels of all its numbers, besides the parameters.
    #[serde(default)]
    pub labels: Labels,
    /// Number of runs.
    pub repetitions: BySize<u32>,
    /// Value of `{seconds}`, and the expected duration of a run in seconds.
    pub seconds: BySize<f64>,
    /// Expected duration of preparations in seconds, on top of `seconds`: a warm-up load, reading files.
    #[serde(default)]
    pub lead: f64,
    /// Arguments for `weir site`; `{site}` is the directory it writes.
    #[serde(default)]
    pub site: Vec<String>,
    /// Lengths of files to create, first a page that embeds the others; `{files}` is their directory.
    #[serde(default)]
    pub files: Vec<u64>,
    /// A server that runs during the commands: arguments for `weir`, or the name of another server on this machine
    /// (`apache-prefork`, `apache-event`, `nginx`, `lighttpd`; `apache-prefork` takes its initial number of processes
    /// as second word, and Apache takes each further word as a directive of its configuration). `{url}` is its address.
    #[serde(default)]
    pub serve: Vec<String>,
    /// Limits of the server. Its site is dropped from the page cache before the run and read again within the limits.
    #[serde(default)]
    pub confine: Option<Confine>,
    /// Whether the server gets the first processor, `{processor}`, for itself, and the commands the others.
    #[serde(default)]
    pub apart: bool,
    /// Whether the server's processes are sampled during the run, which adds a line with the event `resources`.
    #[serde(default)]
    pub watch: bool,
    /// Arguments for `weir`: a command that runs from before the commands of `run` to after them. If it fails, the
    /// run fails.
    #[serde(default)]
    pub meanwhile: Vec<String>,
    /// The commands: arguments for `weir`, run in sequence. Their JSON lines are the result. `{pid}` is the server's
    /// process.
    pub run: Vec<Vec<String>>,
    /// Requirements: `program:NAME`, `namespaces`, `root`, `groups`, `processors:N`, `congestion:NAME`,
    /// `flag:COMMAND:--FLAG`.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Exit codes besides 0 that mean success.
    #[serde(default)]
    pub accepts: Vec<i32>,
    /// The values to read from the result.
    pub read: Vec<Read>,
}

impl Arm {
    /// Whether it has runs in a study of this size.
    pub fn runs_at(&self, size: Size) -> bool {
        let is_empty = |values: &BySize<Vec<String>>| values.at(size).is_empty();
        *self.repetitions.at(size) > 0 && !self.over_by_size.values().any(is_empty)
    }

    /// Whether its runs neither measure this machine nor prepare anything that runs share: they may run at once.
    pub(crate) fn only_computes(&self) -> bool {
        !self.world.is_live()
            && self.site.is_empty()
            && self.serve.is_empty()
            && self.meanwhile.is_empty()
            && self.confine.is_none()
    }
}

/// Limits of a server, set by a control group.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Confine {
    /// Memory limit for the server's processes, the kernel memory they use and cached files, as `136MiB`.
    pub memory: String,
    /// Limit on reads per second from the site's disk.
    pub reads: String,
}

/// The values to read from a line of a result.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Read {
    /// Reads only lines with this `event`.
    #[serde(default)]
    pub event: Option<String>,
    /// JSON pointer to an array; each element is read as a line.
    #[serde(default)]
    pub rows: Option<String>,
    /// Labels and JSON pointers to their values.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Labels with fixed values.
    #[serde(default)]
    pub set: Labels,
    /// Reads only runs with one of these values of a parameter.
    #[serde(default)]
    pub only: BTreeMap<String, Vec<String>>,
    /// Reads only lines where the numbers at these JSON pointers are at least this large: a poor fit is not evidence.
    #[serde(default)]
    pub least: BTreeMap<String, f64>,
    /// The world, if it differs from the arm's.
    #[serde(default)]
    pub world: Option<World>,
    /// Measures and JSON pointers to their values, with arithmetic: `100 * /a / ( /b + /c )`.
    pub values: BTreeMap<String, String>,
}

/// A claim and its rules.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Claim {
    /// Number in the list of claims, as `bc-01`.
    pub id: String,
    /// The rules, all of which must hold.
    #[serde(default)]
    pub rules: Vec<String>,
    /// Rules that must hold before the claim can be tested: what the measurement must exercise. A world in which one
    /// fails does not decide the claim.
    #[serde(default)]
    pub premise: Vec<String>,
    /// Label values for which the rules are repeated; `*` means all values.
    #[serde(default)]
    pub each: BTreeMap<String, Vec<String>>,
    /// The worlds that decide the verdict; the others are only shown.
    #[serde(default = "lived")]
    pub by: Vec<World>,
    /// Meaning of the numbers in the ledger: the left side of the first rule, in words.
    #[serde(default)]
    pub shows: String,
    /// Unit of these numbers.
    #[serde(default)]
    pub unit: Unit,
    /// Counterfactuals: a feature switched off, and the rules evaluated without it. At most [`CAUSES_MAX`].
    #[serde(default)]
    pub cause: Vec<Cause>,
    /// The reason why the rules hold by construction, if they do; the verdict is then "identity".
    #[serde(default)]
    pub identity: String,
    /// The simulation parameter that presumes the claim, if one does; the verdict is then "assumed".
    #[serde(default)]
    pub assumed: String,
    /// Caveats of the verdict: conditions found by searching until the effect showed, departures from the document's
    /// workload.
    #[serde(default)]
    pub conditions: String,
    /// Further remarks on the verdict, such as contradictions in the document.
    #[serde(default)]
    pub note: String,
    /// For a claim without rules, the results that would be needed.
    #[serde(default)]
    pub wanted: String,
}

/// A counterfactual of a claim: arms in which features of a system, or conditions of the runs, are switched off.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Cause {
    /// The features or conditions, each with how it was switched off: `tail-loss probes (tcp_early_retrans=0)`. The smallest
    /// set without which the claim holds is its cause.
    pub off: Vec<String>,
    /// Whether one of them is a condition that the document had, too, such as its line of 10 Mbit/s. Without it, the claim may
    /// hold, but it cannot be what is different today.
    #[serde(default)]
    pub of_document: bool,
    /// The world in which they were switched off.
    #[serde(default = "measured")]
    pub world: World,
    /// The claim's rules with the measures of these arms. Without `rules`, `measures` and `labels` rewrite the claim's.
    #[serde(default)]
    pub rules: Vec<String>,
    /// Measures of the claim's rules, and the measures of these arms that replace them.
    #[serde(default)]
    pub measures: BTreeMap<String, String>,
    /// Labels added to every measure.
    #[serde(default)]
    pub labels: Labels,
}

fn measured() -> World {
    World::Measured
}

/// A counterfactual with its rules parsed.
#[derive(Clone, Debug)]
pub struct Suspects<'p> {
    /// The features that are switched off.
    pub off: &'p [String],
    /// Whether one of them is a condition of the document.
    pub of_document: bool,
    /// The world of these arms.
    pub world: World,
    /// The claim's premises for these arms.
    pub premise: Vec<Rule>,
    /// The claim's rules for these arms.
    pub rules: Vec<Rule>,
}

/// Limit on the counterfactuals of one claim.
const CAUSES_MAX: usize = 16;

fn lived() -> Vec<World> {
    vec![World::Measured, World::Aged, World::Simulated]
}

impl Claim {
    /// The parsed rules.
    ///
    /// # Errors
    /// The first rule that cannot be parsed, with the position.
    pub fn read(&self) -> Result<Vec<Rule>, String> {
        self.parse(&self.rules)
    }

    /// The parsed premises.
    ///
    /// # Errors
    /// The first premise that cannot be parsed, with the position.
    pub fn read_premise(&self) -> Result<Vec<Rule>, String> {
        self.parse(&self.premise)
    }

    /// The counterfactuals, in the order of the plan.
    ///
    /// # Errors
    /// The first rule that cannot be parsed, with the position.
    pub fn read_causes(&self) -> Result<Vec<Suspects<'_>>, String> {
        let rules = self.read()?;
        let premise = self.read_premise()?;
        self.cause
            .iter()
            .map(|cause| {
                let rewritten = |rules: &[Rule]| -> Vec<Rule> {
                    let one = |rule: &Rule| rule.rewritten(&cause.measures, &cause.labels);
                    rules.iter().map(one).collect()
                };
                Ok(Suspects {
                    off: &cause.off,
                    of_document: cause.of_document,
                    world: cause.world,
                    premise: rewritten(&premise),
                    rules: if cause.rules.is_empty() {
                        rewritten(&rules)
                    } else {
                        self.parse(&cause.rules)?
                    },
                })
            })
            .collect()
    }

    /// Whether every counterfactual says what is off and gives arms of its own.
    fn check_causes(&self) -> Result<(), String> {
        let is_wrong = |cause: &Cause| {
            let is_same = cause.rules.is_empty() && cause.measures.is_empty() && cause.labels.is_empty();
            let is_other = !cause.rules.is_empty() && cause.rules.len() != self.rules.len();
            cause.off.is_empty() || is_same || is_other
        };
        if self.cause.len() > CAUSES_MAX || self.cause.iter().any(is_wrong) {
            return Err(format!(
                "claim {}: at most {CAUSES_MAX} causes, each with `off`, and with `measures`, `labels` or as many `rules` as \
                 the claim",
                self.id
            ));
        }
        Ok(())
    }

    fn parse(&self, rules: &[String]) -> Result<Vec<Rule>, String> {
        rules
            .iter()
            .map(|text| Rule::parse(text, &self.each).map_err(|error| format!("claim {}: {error}", self.id)))
            .collect()
    }
}

/// A table of results as the document printed it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Table {
    /// File name for [`crate::document`].
    pub file: String,
    /// Number of the table in the document.
    pub number: String,
    /// Title of the table.
    pub title: String,
    /// Columns of the file that identify the table's rows.
    pub rows: Vec<String>,
    /// Columns of the file that identify the table's columns, in addition to those in `values`.
    #[serde(default)]
    pub columns: Vec<String>,
    /// Columns of the file that hold numbers, each a measure.
    #[serde(default)]
    pub values: Vec<String>,
    /// Instead of `values`, the one column that holds numbers.
    #[serde(default)]
    pub value: Option<String>,
    /// With `value`, the name of the measure; `{column}` stands for a column's content.
    #[serde(default)]
    pub measure: Option<String>,
    /// Labels of the numbers; `{column}` stands for a column's content in this plan's words.
    #[serde(default)]
    pub labels: Labels,
    /// By world, labels that replace or extend these, to find our number for a cell.
    #[serde(default)]
    pub beside: BTreeMap<World, Labels>,
    /// Remark shown with the table.
    #[serde(default)]
    pub note: String,
}

impl Table {
    /// `Table 3`, or the `number` itself if it is a name.
    pub fn name(&self) -> String {
        if self.number.starts_with(|c: char| c.is_ascii_digit()) {
            format!("Table {}", self.number)
        } else {
            let mut letters = self.number.chars();
            letters
                .next()
                .map(|first| first.to_uppercase().chain(letters).collect())
                .unwrap_or_default()
        }
    }
}

/// A table of the document's equipment and settings beside ours. It holds no results and decides no claim.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Setup {
    /// Number of the table in the document.
    pub number: String,
    /// Title of the table.
    pub title: String,
    /// Rows: item, the document's value, our value.
    pub rows: Vec<[String; 3]>,
    /// Provenance of the document's values.
    pub provenance: String,
}

/// An arm with values for its parameters.
#[derive(Clone, Debug)]
pub struct Run {
    /// Name and parameters: `load-mode=serial-users=40`.
    pub id: String,
    /// Index of the arm in the plan.
    pub arm: usize,
    /// The values of the parameters.
    pub parameters: Labels,
}

/// A fault in a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    /// File name of the plan.
    pub file: String,
    /// The fault and its position.
    pub message: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.message)
    }
}

impl std::error::Error for PlanError {}

impl Plan {
    /// Parses a plan and all its rules.
    ///
    /// # Errors
    /// Line and key with the nearest known key; a rule that cannot be parsed; two arms with one name.
    pub fn parse(file: &str, text: &str) -> Result<Plan, PlanError> {
        let fault = |message: String| PlanError {
            file: file.to_owned(),
            message,
        };
        let mut plan: Plan = toml::from_str(text).map_err(|error| {
            let line = error
                .span()
                .map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            let place = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            fault(format!("{place}{}", meant(error.message())))
        })?;
        if let Some(unused) = plan.unused_text() {
            return Err(fault(format!("texts: no command has `{{{unused}}}`")));
        }
        let texts = std::mem::take(&mut plan.texts);
        for word in plan.arms.iter_mut().flat_map(|arm| arm.run.iter_mut().flatten()) {
            *word = fill(word, &texts);
        }
        for claim in &plan.claims {
            claim.read_premise().map_err(fault)?;
            claim.read_causes().map_err(fault)?;
            claim.check_causes().map_err(fault)?;
            if !claim.identity.is_empty() && !claim.assumed.is_empty() {
                return Err(fault(format!(
                    "claim {}: `identity` and `assumed` exclude each other",
                    claim.id
                )));
            }
            if claim.rules.is_empty() && claim.wanted.is_empty() {
                return Err(fault(format!(
                    "claim {}: give `rules`, or `wanted` if there are none",
                    claim.id
                )));
            }
        }
        for conclusion in &plan.conclusions {
            let is_known = |id: &&String| plan.claims.iter().any(|claim| claim.id == **id);
            if let Some(unknown) = conclusion.claims.iter().find(|id| !is_known(id)) {
                return Err(fault(format!("conclusion: the plan has no claim `{unknown}`")));
            }
        }
        for picture in &plan.pictures {
            picture.check().map_err(fault)?;
        }
        let is_drawn = |measure: &str| plan.pictures.iter().any(|picture| picture.measure == measure);
        if let Some(measure) = plan.axes.keys().find(|measure| !is_drawn(measure)) {
            return Err(fault(format!("axes: no picture draws the measure `{measure}`")));
        }
        let mut names: Vec<&str> = plan.arms.iter().map(|arm| arm.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(fault(format!("two arms are called `{}`", twice[0])));
        }
        for arm in &plan.arms {
            for text in arm.read.iter().flat_map(|read| read.values.values()) {
                Expression::parse(text).map_err(|error| fault(format!("arm {}: {error}", arm.name)))?;
            }
            if arm.serve.is_empty() && (arm.confine.is_some() || arm.apart || arm.watch) {
                return Err(fault(format!(
                    "arm {}: `confine`, `apart` and `watch` need a server; add `serve`",
                    arm.name
                )));
            }
            let bounds = arm
                .confine
                .iter()
                .flat_map(|confine| [&confine.memory, &confine.reads]);
            let commands = arm.run.iter().flatten().chain(&arm.meanwhile);
            let parts: Vec<&String> = commands
                .chain(&arm.serve)
                .chain(&arm.site)
                .chain(bounds)
                .collect();
            for name in arm.over.keys().chain(arm.over_by_size.keys()) {
                let used = parts.iter().any(|word| word.contains(&format!("{{{name}}}")));
                if !used {
                    return Err(fault(format!(
                        "arm {}: the parameter `{name}` is in no command",
                        arm.name
                    )));
                }
            }
        }
        for size in Size::ALL {
            let count = plan.runs(size).len();
            if count > ARMS_MAX {
                return Err(fault(format!("{count} arms, more than the limit of {ARMS_MAX}")));
            }
        }
        Ok(plan)
    }

    /// The first shared text that stands in no command.
    fn unused_text(&self) -> Option<&str> {
        let words = || self.arms.iter().flat_map(|arm| arm.run.iter().flatten());
        let is_unused = |name: &&String| !words().any(|word| word.contains(&format!("{{{name}}}")));
        self.texts.keys().find(is_unused).map(String::as_str)
    }

    /// Every arm with every combination of its parameters.
    pub fn runs(&self, size: Size) -> Vec<Run> {
        let mut runs = Vec::new();
        for (place, arm) in self.arms.iter().enumerate() {
            let by_size = arm
                .over_by_size
                .iter()
                .map(|(name, values)| (name, values.at(size)));
            let mut choices = vec![Labels::new()];
            for (name, values) in arm.over.iter().chain(by_size) {
                choices = with_each(&choices, name, values);
            }
            for parameters in choices {
                let mut id = arm.name.clone();
                for (name, value) in &parameters {
                    id.push_str(&format!("-{name}={}", plain(value)));
                }
                runs.push(Run {
                    id,
                    arm: place,
                    parameters,
                });
            }
        }
        runs
    }

    /// The measurements that the runs of this size give.
    pub fn planned(&self, size: Size) -> Vec<Planned> {
        self.runs(size)
            .iter()
            .filter(|run| *self.arms[run.arm].repetitions.at(size) > 0)
            .flat_map(|run| self.planned_of(run))
            .collect()
    }

    /// The measurements that a run gives.
    pub(crate) fn planned_of(&self, run: &Run) -> Vec<Planned> {
        let arm = &self.arms[run.arm];
        let is_of = |(name, values): (&String, &Vec<String>)| {
            run.parameters
                .get(name)
                .is_some_and(|value| values.contains(value))
        };
        let mut all: Vec<Planned> = Vec::new();
        for read in arm.read.iter().filter(|read| read.only.iter().all(is_of)) {
            let mut labels = arm.labels.clone();
            labels.extend(run.parameters.clone());
            labels.extend(read.set.clone());
            all.extend(read.values.keys().map(|measure| Planned {
                world: read.world.unwrap_or(arm.world),
                measure: measure.clone(),
                labels: labels.clone(),
                open: read.labels.keys().cloned().collect(),
            }));
        }
        all
    }
}

/// The value reduced to characters that file names allow.
fn plain(value: &str) -> String {
    value
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || ".+-".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect()
}

/// The parser's message, with the nearest known key.
fn meant(message: &str) -> String {
    let words: Vec<&str> = message.split('`').collect();
    match words.as_slice() {
        [before, unknown, _, known @ ..] if before.starts_with("unknown") => {
            let nearest = known
                .iter()
                .step_by(2)
                .map(|key| (strsim::jaro_winkler(unknown, key), key))
                .max_by(|a, b| a.0.total_cmp(&b.0));
            match nearest {
                Some((score, key)) if score > 0.7 => {
                    format!("unknown key `{unknown}`; did you mean `{key}`?")
                }
                _ => message.to_owned(),
            }
        }
        _ => message.to_owned(),
    }
}

/// The text with `{name}` replaced by known values; unknown names stay.
pub fn fill(text: &str, known: &Labels) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        match after
            .split_once('}')
            .filter(|(name, _)| known.contains_key(*name))
        {
            Some((name, after)) => {
                filled.push_str(&known[name]);
                rest = after;
            }
            None => {
                filled.push('{');
                rest = after;
            }
        }
    }
    filled + rest
}

#[cfg(test)]
mod tests;
