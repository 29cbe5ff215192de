//! A plan: which document, which arms with which parameters, how often, what is read from what they print, which
//! claims are judged by which rules, which tables and pictures are shown. Read from TOML; a key that means nothing
//! is an error that names the one that was probably meant. Runs nothing.

use crate::observation::{Labels, World, with_each};
use crate::reading::Expression;
use crate::rule::Rule;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// The plans of this program by the name of their study, in the order of the report.
pub const EMBEDDED: [(&str, &str); 5] = [
    ("w3c", include_str!("../../../experiments/w3c.toml")),
    ("heidemann", include_str!("../../../experiments/heidemann.toml")),
    ("barford", include_str!("../../../experiments/barford.toml")),
    ("jaws", include_str!("../../../experiments/jaws.toml")),
    ("qos", include_str!("../../../experiments/qos.toml")),
];

/// Arms of one plan, with every parameter filled in, at the most.
pub const ARMS_MAX: usize = 2000;

/// How much of a study is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Everything in a quarter of an hour.
    Quick,
    /// Every arm, durations scaled.
    Full,
    /// The documents' own durations.
    Paper,
}

impl Size {
    /// All, the smallest first.
    pub const ALL: [Size; 3] = [Size::Quick, Size::Full, Size::Paper];

    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            Size::Quick => "quick",
            Size::Full => "full",
            Size::Paper => "paper",
        }
    }
}

/// A value that depends on how much is run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BySize<T> {
    quick: T,
    full: T,
    paper: T,
}

impl<T> BySize<T> {
    /// The value for a size.
    pub fn at(&self, size: Size) -> &T {
        match size {
            Size::Quick => &self.quick,
            Size::Full => &self.full,
            Size::Paper => &self.paper,
        }
    }
}

/// A plan.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Plan {
    /// Number of the document.
    pub document: String,
    /// Who wrote it, when, and what it is called.
    pub title: String,
    /// What is asked.
    pub question: String,
    /// What was expected before anything was run.
    pub prediction: String,
    /// All chance; a repetition adds its number.
    #[serde(default = "one")]
    pub seed: u64,
    /// Words of the document, and the words used here.
    #[serde(default)]
    pub words: BTreeMap<String, String>,
    /// Units of measures.
    #[serde(default)]
    pub units: BTreeMap<String, String>,
    /// What stands beside the axis of a measure that is drawn; without it, the measure and its unit.
    #[serde(default)]
    pub axes: BTreeMap<String, String>,
    /// What pictures call the value of a label.
    #[serde(default)]
    pub names: BTreeMap<String, String>,
    /// What is run.
    #[serde(default, rename = "arm")]
    pub arms: Vec<Arm>,
    /// What is judged.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
    /// What the document printed.
    #[serde(default, rename = "table")]
    pub tables: Vec<Table>,
    /// Tables of the document that hold no results: what it was done with.
    #[serde(default, rename = "setup")]
    pub setups: Vec<Setup>,
    /// What is drawn.
    #[serde(default, rename = "picture")]
    pub pictures: Vec<Picture>,
    /// What was asked for and cannot be shown, and why.
    #[serde(default)]
    pub gaps: Vec<String>,
}

fn one() -> u64 {
    1
}

/// A program run under some conditions.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Arm {
    /// Its name; with its parameters, the name of its result.
    pub name: String,
    /// What its numbers are.
    pub world: World,
    /// Parameters and the values they run over; `{name}` stands for the value.
    #[serde(default)]
    pub over: BTreeMap<String, Vec<String>>,
    /// The same, if it depends on how much is run.
    #[serde(default)]
    pub over_by_size: BTreeMap<String, BySize<Vec<String>>>,
    /// Labels of all it gives, besides its parameters.
    #[serde(default)]
    pub labels: Labels,
    /// How often.
    pub repetitions: BySize<u32>,
    /// Seconds that `{seconds}` stands for; they are also what it is taken to need.
    pub seconds: BySize<f64>,
    /// What it is taken to need besides, seconds: a load that goes ahead, files that are read.
    #[serde(default)]
    pub lead: f64,
    /// What `weir site` is asked for; `{site}` is where that lies.
    #[serde(default)]
    pub site: Vec<String>,
    /// Files with these lengths, a page that embeds the others first; `{files}` is where they lie.
    #[serde(default)]
    pub files: Vec<u64>,
    /// A server, started before and stopped after: words for `weir`, or the name of a program of this machine
    /// (`apache-prefork`, `apache-event`, `nginx`, `lighttpd`; after the first, how many processes it begins with).
    /// `{url}` is where it is.
    #[serde(default)]
    pub serve: Vec<String>,
    /// What the server may use. Its site is forgotten by the page cache before, and read again from within the bounds.
    #[serde(default)]
    pub confine: Option<Confine>,
    /// Whether the server has the first processor for itself, `{processor}`, and the commands the others.
    #[serde(default)]
    pub apart: bool,
    /// Whether the server's processes are looked at meanwhile; gives a line with the event `resources`.
    #[serde(default)]
    pub watch: bool,
    /// Words for `weir`: a command that is started before those of `run`, and ended after them. If it fails, so does the run.
    #[serde(default)]
    pub meanwhile: Vec<String>,
    /// The commands, words for `weir`, one after another; their lines of JSON are the result. `{pid}` is the server.
    pub run: Vec<Vec<String>>,
    /// What must be there: `program:NAME`, `namespaces`, `root`, `groups`, `processors:N`, `flag:COMMAND:--FLAG`.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Exit codes that are no failure besides 0.
    #[serde(default)]
    pub accepts: Vec<i32>,
    /// What is read from the result.
    pub read: Vec<Read>,
}

/// Bounds of a server, by a control group.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Confine {
    /// Memory of its processes, of what the kernel keeps for them and of the files that are cached for them: `136MiB`.
    pub memory: String,
    /// Reads from the site's disk, each second.
    pub reads: String,
}

/// What is read from a line of a result.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Read {
    /// Only lines whose `event` is this.
    #[serde(default)]
    pub event: Option<String>,
    /// A JSON pointer to an array, each of whose elements is read.
    #[serde(default)]
    pub rows: Option<String>,
    /// Labels and JSON pointers to their values.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Labels of all of it.
    #[serde(default)]
    pub set: Labels,
    /// Only of runs with one of these values of a parameter.
    #[serde(default)]
    pub only: BTreeMap<String, Vec<String>>,
    /// Only lines in which the numbers at these JSON pointers are as large at least: what else was fitted is no finding.
    #[serde(default)]
    pub least: BTreeMap<String, f64>,
    /// The world, if not the arm's.
    #[serde(default)]
    pub world: Option<World>,
    /// Measures and JSON pointers to their values, with arithmetic: `100 * /a / ( /b + /c )`.
    pub values: BTreeMap<String, String>,
}

/// A claim and how it is judged.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Claim {
    /// Its number in the list of claims.
    pub id: String,
    /// The rules; all must hold.
    #[serde(default)]
    pub rules: Vec<String>,
    /// Rules are repeated for these values; `*` is all there are.
    #[serde(default)]
    pub each: BTreeMap<String, Vec<String>>,
    /// The worlds that decide; the others are shown beside.
    #[serde(default = "lived")]
    pub by: Vec<World>,
    /// What a number of the ledger is: the left side of the first rule, in words.
    #[serde(default)]
    pub shows: String,
    /// Why measurements of today differ from the document, as far as that is only supposed: no arm switches it off. Shown as
    /// supposed. A tested cause stands in `cause`.
    #[serde(default)]
    pub supposed: String,
    /// Counterfactuals: what was switched off, and the rules evaluated there. At most [`CAUSES_MAX`].
    #[serde(default)]
    pub cause: Vec<Cause>,
    /// Why the rules hold by construction, if they do: the verdict is then "identity".
    #[serde(default)]
    pub identity: String,
    /// Which parameter of the simulation presumes the claim, if one does: the verdict is then "assumed".
    #[serde(default)]
    pub assumed: String,
    /// What a reader of the verdict must know: conditions that were searched for until the effect showed, departures from the
    /// document's workload.
    #[serde(default)]
    pub conditions: String,
    /// What else belongs to the verdict: where the document contradicts itself, say.
    #[serde(default)]
    pub note: String,
    /// What would have to be there for it to be judged, if there are no rules.
    #[serde(default)]
    pub wanted: String,
}

/// A possible cause of what is measured today, tested: arms in which it is switched off.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Cause {
    /// What was switched off, and how: `tail-loss probes (tcp_early_retrans=0)`.
    pub off: String,
    /// The rules of the claim for the measures of these arms; the first that holds where the claim's own do not is the cause.
    pub rules: Vec<String>,
}

/// Counterfactuals of one claim at most.
const CAUSES_MAX: usize = 16;

fn lived() -> Vec<World> {
    vec![World::Measured, World::Simulated]
}

impl Claim {
    /// The rules, read.
    ///
    /// # Errors
    /// The first rule that cannot be read, and where.
    pub fn read(&self) -> Result<Vec<Rule>, String> {
        self.parse(&self.rules)
    }

    /// The rules of each counterfactual, read, in the order of the plan.
    ///
    /// # Errors
    /// The first rule that cannot be read, and where.
    pub fn read_causes(&self) -> Result<Vec<(&str, Vec<Rule>)>, String> {
        self.cause
            .iter()
            .map(|cause| Ok((cause.off.as_str(), self.parse(&cause.rules)?)))
            .collect()
    }

    fn parse(&self, rules: &[String]) -> Result<Vec<Rule>, String> {
        rules
            .iter()
            .map(|text| Rule::parse(text, &self.each).map_err(|error| format!("claim {}: {error}", self.id)))
            .collect()
    }
}

/// A table as the document printed it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Table {
    /// The file of [`crate::document`].
    pub file: String,
    /// Its number in the document.
    pub number: String,
    /// What it is of.
    pub title: String,
    /// Columns of the file that tell its rows apart.
    pub rows: Vec<String>,
    /// Columns of the file that tell its columns apart; those in `values` do so by themselves.
    #[serde(default)]
    pub columns: Vec<String>,
    /// Columns of the file that hold numbers, each a measure.
    #[serde(default)]
    pub values: Vec<String>,
    /// Instead: the column that holds numbers.
    #[serde(default)]
    pub value: Option<String>,
    /// With it: the measure; `{column}` stands for what is in a column.
    #[serde(default)]
    pub measure: Option<String>,
    /// Labels of the numbers; `{column}` stands for what is in a column, in the words used here.
    #[serde(default)]
    pub labels: Labels,
    /// Labels that ours have instead, or besides, by world: which of ours stands beside the document's.
    #[serde(default)]
    pub beside: BTreeMap<World, Labels>,
    /// What is to be known of it.
    #[serde(default)]
    pub note: String,
}

impl Table {
    /// `Table 3`; what the document gave no number goes by its own name.
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

/// A table of what a document's measurements were made with, and what stands in its place here. Nothing of it is a
/// result, and no claim is judged by it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Setup {
    /// Its number in the document.
    pub number: String,
    /// What it is of.
    pub title: String,
    /// What, as the document has it, and as it is here.
    pub rows: Vec<[String; 3]>,
    /// How it came down to us.
    pub provenance: String,
}

/// A picture.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Picture {
    /// Its title.
    pub title: String,
    /// Its number in the document, if it has one.
    #[serde(default)]
    pub figure: String,
    /// Whose numbers, the first that has any.
    pub worlds: Vec<World>,
    /// What is drawn.
    pub measure: String,
    /// The label across.
    pub x: String,
    /// The words beside that axis.
    #[serde(default)]
    pub x_label: String,
    /// The label whose values are the curves; `world` makes each world a curve.
    pub series: String,
    /// Only what bears these labels.
    #[serde(default)]
    pub only: Labels,
    /// And, in a world, these.
    #[serde(default)]
    pub beside: BTreeMap<World, Labels>,
    /// Lines over numbers, or bars over words.
    #[serde(default)]
    pub bars: bool,
    /// Or one pie, whose slices are the values of `series`.
    #[serde(default)]
    pub pie: bool,
    /// Whether it stands on the front page.
    #[serde(default)]
    pub front: bool,
}

/// An arm with its parameters filled in.
#[derive(Clone, Debug)]
pub struct Run {
    /// Name and parameters: `load-mode=serial-users=40`.
    pub id: String,
    /// The place of its arm in the plan.
    pub arm: usize,
    /// Its parameters.
    pub parameters: Labels,
}

/// What is wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    /// Which plan.
    pub file: String,
    /// What is wrong, and where.
    pub message: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.message)
    }
}

impl std::error::Error for PlanError {}

impl Plan {
    /// Reads a plan and tries every rule in it.
    ///
    /// # Errors
    /// The line and the key, with the nearest key there is; a rule that cannot be read; two arms of one name.
    pub fn parse(file: &str, text: &str) -> Result<Plan, PlanError> {
        let fault = |message: String| PlanError {
            file: file.to_owned(),
            message,
        };
        let plan: Plan = toml::from_str(text).map_err(|error| {
            let line = error
                .span()
                .map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            let place = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            fault(format!("{place}{}", meant(error.message())))
        })?;
        for claim in &plan.claims {
            claim.read().map_err(fault)?;
            claim.read_causes().map_err(fault)?;
            if claim.cause.len() > CAUSES_MAX || claim.cause.iter().any(|cause| cause.rules.is_empty()) {
                return Err(fault(format!(
                    "claim {}: at most {CAUSES_MAX} causes, each with rules",
                    claim.id
                )));
            }
            if !claim.identity.is_empty() && !claim.assumed.is_empty() {
                return Err(fault(format!(
                    "claim {}: `identity` and `assumed` exclude each other",
                    claim.id
                )));
            }
            if claim.rules.is_empty() && claim.wanted.is_empty() {
                return Err(fault(format!(
                    "claim {}: neither `rules` nor what is `wanted` for them",
                    claim.id
                )));
            }
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
                    "arm {}: `confine`, `apart` and `watch` are about a server, and it has no `serve`",
                    arm.name
                )));
            }
            let bounds = arm
                .confine
                .iter()
                .flat_map(|confine| [&confine.memory, &confine.reads]);
            let commands = arm.run.iter().flatten().chain(&arm.meanwhile);
            let parts: Vec<&String> = commands.chain(&arm.serve).chain(bounds).collect();
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
                return Err(fault(format!("{count} arms; {ARMS_MAX} are the most")));
            }
        }
        Ok(plan)
    }

    /// Every arm with every choice of its parameters.
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
}

/// A word that can be part of a file's name.
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

/// The parser's message, with the key that was probably meant.
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

/// The text with `{name}` replaced by what is known of that name; what is not known stays.
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
mod tests {
    use super::*;

    const SMALL: &str = r#"
document = "000"
title = "t"
question = "q"
prediction = "p"
[[arm]]
name = "a"
world = "model"
over = { x = ["1", "2"], y = ["a/b"] }
repetitions = { quick = 1, full = 2, paper = 3 }
seconds = { quick = 1, full = 1, paper = 1 }
run = [["model", "tables", "{x}", "{y}"]]
read = [{ values = { v = "/v" } }]
"#;

    fn error(text: &str) -> String {
        Plan::parse("p.toml", text).expect_err(text).to_string()
    }

    #[test]
    fn the_plans_of_this_program_can_be_read_and_name_every_claim_once() {
        let mut ids: Vec<String> = Vec::new();
        for (name, text) in EMBEDDED {
            let plan = Plan::parse(name, text).unwrap_or_else(|error| panic!("{error}"));
            ids.extend(plan.claims.iter().map(|claim| claim.id.clone()));
            for table in &plan.tables {
                assert!(
                    crate::document::table(&table.file).is_ok(),
                    "{name}: {}",
                    table.file
                );
            }
        }
        let mut known: Vec<String> = crate::document::claims()
            .iter()
            .map(|claim| claim.id.clone())
            .collect();
        ids.sort();
        known.sort();
        assert_eq!(ids, known);
    }

    #[test]
    fn parameters_run_over_all_their_values() {
        let plan = Plan::parse("p.toml", SMALL).expect("a plan");
        let ids: Vec<String> = plan.runs(Size::Quick).into_iter().map(|run| run.id).collect();
        assert_eq!(ids, ["a-x=1-y=a_b", "a-x=2-y=a_b"]);
    }

    #[test]
    fn a_key_that_means_nothing_names_the_one_that_was_meant() {
        for (from, to, wanted) in [
            (
                "question",
                "qestion",
                "line 4: unknown key `qestion`; did you mean `question`?",
            ),
            (
                "repetitions",
                "repetition",
                "line 10: unknown key `repetition`; did you mean `repetitions`?",
            ),
            (
                "quick = 1, full = 2",
                "quik = 1, full = 2",
                "did you mean `quick`?",
            ),
            ("\"model\"\nover", "\"modell\"\nover", "did you mean `model`?"),
            (
                "run = [[\"model\", \"tables\", \"{x}\", \"{y}\"]]",
                "run = [[\"model\", \"{y}\"]]",
                "`x` is in no command",
            ),
        ] {
            assert!(SMALL.contains(from), "{from}");
            let said = error(&SMALL.replacen(from, to, 1));
            assert!(said.starts_with("p.toml: ") && said.contains(wanted), "{said}");
        }
        let twice = SMALL.to_owned() + &SMALL[SMALL.find("[[arm]]").expect("an arm")..];
        assert!(error(&twice).contains("two arms are called `a`"));
        let claim = SMALL.to_owned() + "[[claim]]\nid = 'x'\nrules = ['a >']\n";
        assert!(error(&claim).contains("claim x: `a >`"));
        assert!(error(&(SMALL.to_owned() + "[[claim]]\nid = 'x'\n")).contains("neither `rules`"));
    }

    #[test]
    fn tables_go_by_their_number_or_by_their_name() {
        let plan = Plan::parse("barford", EMBEDDED[2].1).expect("a plan");
        let names: Vec<String> = plan.tables.iter().map(Table::name).collect();
        assert_eq!(names.first().map(String::as_str), Some("Table 2"));
        assert_eq!(names.last().map(String::as_str), Some("Memory"));
    }

    #[test]
    fn only_what_is_known_is_filled_in() {
        let known = [("a".to_owned(), "1".to_owned())].into();
        assert_eq!(fill("x{a}{b}{a", &known), "x1{b}{a");
    }
}
