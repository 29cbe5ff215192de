//! Scenarios as users write them: a TOML file, the CSV files of its feeds, and files of content. Errors name line and key.
//!
//! Decides spelling and bounds; the crate `load` runs them.

use super::content::{CONTENT_MAX, bytes};
use crate::failure::Failure;
use ::load::model::Model;
use ::load::replies::Accept;
use ::load::scenario::capture::Source;
use ::load::scenario::feed::{FILE_MAX, Feed};
use ::load::scenario::template::Template;
use ::load::scenario::{STEPS_MAX, Scenario, Script, Slot, Step, THINK_MAX, Think};
use ::load::work::{Target, Work};
use client::extra::{self, Extra};
use client::session::Verb;
use serde::Deserialize;
use server::config::parse_duration;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use toml::Spanned;
use units::Seed;

/// Most bytes of the file.
const SCRIPT_MAX: u64 = 1 << 20;
/// Largest weight of a scenario.
const WEIGHT_MAX: u32 = 1_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    #[serde(default)]
    keep_cookies: bool,
    keep_connections: Option<bool>,
    #[serde(default)]
    feed: Vec<FeedTable>,
    #[serde(default)]
    scenario: Vec<ScenarioTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FeedTable {
    name: Spanned<String>,
    file: Spanned<PathBuf>,
    order: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioTable {
    name: Spanned<String>,
    weight: Option<Spanned<u32>>,
    #[serde(default)]
    step: Vec<StepTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct StepTable {
    name: Spanned<String>,
    method: Option<Spanned<String>>,
    url: Spanned<String>,
    #[serde(default)]
    headers: Vec<Spanned<String>>,
    body: Option<Spanned<String>>,
    body_file: Option<Spanned<PathBuf>>,
    expect: Option<Spanned<Statuses>>,
    think: Option<Spanned<String>>,
    #[serde(default)]
    capture: Vec<CaptureTable>,
}

/// Statuses: a number, a text as of `--accept-status`, or a list of both.
#[derive(Deserialize)]
#[serde(untagged)]
enum Statuses {
    Number(u16),
    Text(String),
    List(Vec<Statuses>),
}

impl Statuses {
    fn text(&self) -> String {
        match self {
            Statuses::Number(status) => status.to_string(),
            Statuses::Text(text) => text.clone(),
            Statuses::List(list) => list.iter().map(Statuses::text).collect::<Vec<_>>().join(","),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaptureTable {
    name: Spanned<String>,
    header: Option<Spanned<String>>,
    json: Option<Spanned<String>>,
    start: Option<Spanned<String>>,
    end: Option<Spanned<String>>,
}

/// What a script takes from the command line.
pub(super) struct Around<'a> {
    pub(super) is_secure: bool,
    pub(super) authority: &'a str,
    pub(super) user_agent: &'a str,
    /// Fields of every request; a step's own replace them.
    pub(super) headers: &'a [Extra],
    pub(super) seed: Seed,
}

/// Reads a file of scenarios, with its feeds and contents.
///
/// # Errors
/// `Usage` with file, line and key.
pub(super) fn read(path: &Path, around: &Around<'_>) -> Result<Script, Failure> {
    let bytes = bytes(path, SCRIPT_MAX).map_err(|why| Failure::Usage(format!("--scenario: {why}")))?;
    let name = path.display().to_string();
    let text = String::from_utf8(bytes).map_err(|_| Failure::Usage(format!("`{name}` is not UTF-8")))?;
    let reader = Reader {
        text: &text,
        name: &name,
        folder: path.parent().unwrap_or(Path::new("")),
    };
    reader.script(around)
}

/// Files and objects of a script: its steps, and its scenarios.
pub(super) fn work(script: &Script) -> Work {
    let target = |step: &Step| Target {
        path: step.name.clone().into(),
        bytes: None,
        class: None,
        xxh3: None,
    };
    Work {
        files: script.steps.iter().map(target).collect(),
        objects: script
            .scenarios
            .iter()
            .map(|scenario| scenario.steps.clone().collect())
            .collect(),
        deciles: Vec::new(),
    }
}

/// The file being read.
struct Reader<'a> {
    text: &'a str,
    name: &'a str,
    folder: &'a Path,
}

/// Names that templates may use.
#[derive(Default)]
struct Names {
    slots: Vec<Slot>,
    of: BTreeMap<String, u16>,
    captured: u16,
}

impl Names {
    fn add(&mut self, name: String, slot: Slot) {
        self.of.insert(name, self.slots.len() as u16);
        self.slots.push(slot);
    }
}

impl Reader<'_> {
    fn wrong<T>(&self, key: &str, at: &Spanned<T>, why: impl core::fmt::Display) -> Failure {
        self.wrong_at(key, at.span().start, why)
    }

    fn wrong_at(&self, key: &str, at: usize, why: impl core::fmt::Display) -> Failure {
        let line = self
            .text
            .as_bytes()
            .iter()
            .take(at)
            .filter(|&&byte| byte == b'\n')
            .count()
            + 1;
        Failure::Usage(format!("{}:{line}: `{key}`: {why}", self.name))
    }

    fn script(&self, around: &Around<'_>) -> Result<Script, Failure> {
        let file: File = toml::from_str(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let rest = self.text.get(at..).unwrap_or_default();
            let word = rest
                .split(|letter: char| !(letter.is_alphanumeric() || letter == '-' || letter == '_'))
                .next();
            let key = word.filter(|word| !word.is_empty()).unwrap_or("scenario");
            self.wrong_at(key, at, error.message().trim())
        })?;
        if file.scenario.is_empty() {
            return Err(self.wrong_at("scenario", 0, "there is none; write [[scenario]]"));
        }
        let mut names = Names::default();
        let feeds = self.feeds(&file.feed, &mut names)?;
        let common = extra::lines(around.authority, around.user_agent, around.headers)
            .map_err(|why| Failure::Usage(format!("--header: {why}")))?;
        let mut script = Script {
            scenarios: Vec::new(),
            steps: Vec::new(),
            feeds,
            slots: Vec::new(),
            captured: 0,
            keeps_cookies: file.keep_cookies,
            keeps_connections: file.keep_connections.unwrap_or(true),
            is_secure: around.is_secure,
            authority: around.authority.to_ascii_lowercase(),
            common: common
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            seed: around.seed,
        };
        let (mut scenarios, mut steps) = (BTreeSet::new(), BTreeSet::new());
        for table in &file.scenario {
            self.name(&table.name, "name", &mut scenarios)?;
            let first = script.steps.len() as u32;
            // A scenario does not see what another has captured.
            let known = names.of.clone();
            for step in &table.step {
                self.name(&step.name, "name", &mut steps)?;
                script.steps.push(self.step(step, &mut names)?);
                if script.steps.len() > STEPS_MAX {
                    return Err(self.wrong(
                        "step",
                        &step.name,
                        format!("there are more than {STEPS_MAX} steps"),
                    ));
                }
            }
            names.of = known;
            let last = script.steps.len() as u32;
            if first == last {
                return Err(self.wrong(
                    "step",
                    &table.name,
                    "the scenario has none; write [[scenario.step]]",
                ));
            }
            let weight = table.weight.as_ref().map_or(1, |weight| *weight.get_ref());
            if let Some(at) = table
                .weight
                .as_ref()
                .filter(|_| weight == 0 || weight > WEIGHT_MAX)
            {
                return Err(self.wrong(
                    "weight",
                    at,
                    format!("it is {weight}; it must be 1 to {WEIGHT_MAX}"),
                ));
            }
            script.scenarios.push(Scenario {
                name: table.name.get_ref().clone(),
                weight,
                steps: first..last,
            });
        }
        (script.slots, script.captured) = (names.slots, names.captured);
        Ok(script)
    }

    /// Checks a name that results show and flags use.
    fn name(&self, name: &Spanned<String>, key: &str, seen: &mut BTreeSet<String>) -> Result<(), Failure> {
        let text = name.get_ref();
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        if text.is_empty() || text.len() > 40 || !text.chars().all(is_plain) {
            let why = format!(
                "`{}` is no name: write up to 40 letters, digits, - and _",
                text.escape_debug()
            );
            return Err(self.wrong(key, name, why));
        }
        match seen.insert(text.clone()) {
            true => Ok(()),
            false => Err(self.wrong(
                key,
                name,
                format!("`{text}` is there twice; names must differ within the file"),
            )),
        }
    }

    fn feeds(&self, tables: &[FeedTable], names: &mut Names) -> Result<Vec<Feed>, Failure> {
        let (mut feeds, mut seen) = (Vec::new(), BTreeSet::new());
        for table in tables {
            self.name(&table.name, "name", &mut seen)?;
            let order = match &table.order {
                None => Default::default(),
                Some(order) => order
                    .get_ref()
                    .parse()
                    .map_err(|why| self.wrong("order", order, why))?,
            };
            let path = self.folder.join(table.file.get_ref());
            let feed = bytes(&path, FILE_MAX as u64)
                .and_then(|text| {
                    Feed::read(&text, order).map_err(|why| format!("`{}`: {why}", path.display()))
                })
                .map_err(|why| self.wrong("file", &table.file, why))?;
            for (column, name) in feed.columns().iter().enumerate() {
                let slot = Slot::Column(feeds.len() as u16, column as u16);
                names.add(format!("{}.{name}", table.name.get_ref()), slot);
            }
            feeds.push(feed);
        }
        Ok(feeds)
    }

    fn template(
        &self,
        key: &str,
        at: &Spanned<String>,
        text: &[u8],
        names: &Names,
    ) -> Result<Template, Failure> {
        let slot = |name: &str| {
            names.of.get(name).copied().ok_or_else(|| {
                let known: Vec<&str> = names.of.keys().map(String::as_str).collect();
                match known.is_empty() {
                    true => format!("`{name}` is not known: no feed and no earlier step has it"),
                    false => format!("`{name}` is not known here; there are {}", known.join(", ")),
                }
            })
        };
        Template::read(text, slot).map_err(|why| self.wrong(key, at, why))
    }

    fn step(&self, table: &StepTable, names: &mut Names) -> Result<Step, Failure> {
        let url = table.url.get_ref();
        if !url.starts_with('/') && !url.contains("://") && !url.starts_with("{{") {
            return Err(self.wrong(
                "url",
                &table.url,
                "it must begin with / or be a URL of the loaded server",
            ));
        }
        let target = self.template("url", &table.url, url.as_bytes(), names)?;
        let mut fields = Vec::new();
        for line in &table.headers {
            let extra: Extra = line
                .get_ref()
                .parse()
                .map_err(|why| self.wrong("headers", line, why))?;
            if extra.name.eq_ignore_ascii_case("Host") {
                let why = "`Host` is that of the server; set it with --header for the whole run";
                return Err(self.wrong("headers", line, why));
            }
            fields.push((
                extra.name,
                self.template("headers", line, extra.value.as_bytes(), names)?,
            ));
        }
        let content = match (&table.body, &table.body_file) {
            (Some(body), None) => Some(self.template("body", body, body.get_ref().as_bytes(), names)?),
            (None, Some(file)) => {
                let path = self.folder.join(file.get_ref());
                let text = bytes(&path, CONTENT_MAX).map_err(|why| self.wrong("body-file", file, why))?;
                let at = Spanned::new(file.span(), String::new());
                Some(self.template("body-file", &at, &text, names)?)
            }
            (None, None) => None,
            (Some(_), Some(file)) => {
                return Err(self.wrong(
                    "body-file",
                    file,
                    "the step has a `body`, too; remove one of the two",
                ));
            }
        };
        let verb = match &table.method {
            Some(method) => method
                .get_ref()
                .parse()
                .map_err(|why: String| self.wrong("method", method, why))?,
            None if content.is_some() => Verb::POST,
            None => Verb::GET,
        };
        if content.is_some() && !verb.permits_content() {
            return Err(self.wrong(
                "method",
                &table.name,
                format!("a {verb} request must not have content"),
            ));
        }
        let expect = match &table.expect {
            None => Accept::successful(),
            Some(expect) => {
                let text = expect.get_ref().text();
                text.parse()
                    .map_err(|why: String| self.wrong("expect", expect, why))?
            }
        };
        Ok(Step {
            name: table.name.get_ref().clone(),
            verb,
            target,
            fields,
            content,
            expect,
            think: table.think.as_ref().map(|think| self.think(think)).transpose()?,
            captures: self.captures(&table.capture, names)?,
        })
    }

    fn think(&self, think: &Spanned<String>) -> Result<Think, Failure> {
        let text = think.get_ref();
        let fixed = match text.contains('(') {
            true => {
                let model: Model = text.parse().map_err(|why| self.wrong("think", think, why))?;
                return Ok(Think::Drawn(model));
            }
            false => parse_duration(text),
        };
        let time = fixed.map_err(|why| {
            self.wrong(
                "think",
                think,
                format!("{why}; or a distribution in seconds, as in exponential(1.5)"),
            )
        })?;
        match time > THINK_MAX {
            true => Err(self.wrong("think", think, "it is longer than a day")),
            false => Ok(Think::Fixed(time)),
        }
    }

    fn captures(&self, tables: &[CaptureTable], names: &mut Names) -> Result<Vec<(u16, Source)>, Failure> {
        let mut captures = Vec::new();
        for table in tables {
            let own: &mut BTreeSet<String> = &mut BTreeSet::new();
            self.name(&table.name, "name", own)?;
            let bytes = |text: &Option<Spanned<String>>| -> Box<[u8]> {
                text.as_ref()
                    .map_or("", |text| text.get_ref().as_str())
                    .as_bytes()
                    .into()
            };
            let source = match (&table.header, &table.json, &table.start, &table.end) {
                (Some(header), None, None, None) => Source::Field(header.get_ref().clone()),
                (None, Some(json), None, None) => {
                    let pointer = json.get_ref();
                    if !pointer.is_empty() && !pointer.starts_with('/') {
                        return Err(self.wrong(
                            "json",
                            json,
                            "a JSON pointer begins with /, as in /data/0/id",
                        ));
                    }
                    Source::Pointer(pointer.clone())
                }
                (None, None, start, end) if start.is_some() || end.is_some() => {
                    Source::Between(bytes(start), bytes(end))
                }
                _ => {
                    let why = "write one of `header`, `json`, or `start` and `end`";
                    return Err(self.wrong("capture", &table.name, why));
                }
            };
            let slot = match names.of.get(table.name.get_ref()) {
                // Captured again: the new value replaces the old one.
                Some(&known) => match names.slots[usize::from(known)] {
                    Slot::Captured(at) => at,
                    Slot::Column(..) => unreachable!("names of columns have a point"),
                },
                None => {
                    let at = names.captured;
                    names.captured += 1;
                    names.add(table.name.get_ref().clone(), Slot::Captured(at));
                    at
                }
            };
            captures.push((slot, source));
        }
        Ok(captures)
    }
}
