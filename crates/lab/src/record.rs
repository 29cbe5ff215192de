//! A result file: a line with the run, the machine and the outcome, then the lines that the commands printed. Decides
//! the format and which results may be reused; touches no file itself.

use crate::observation::{Labels, Observation, World};
use crate::plan::{Plan, Read};
use crate::reading::Expression;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Version of the format.
pub const VERSION: u32 = 1;

/// Outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Its numbers can be used.
    Done,
    /// This machine lacks something that the run needs.
    NotRun,
    /// A program failed.
    Failed,
    /// The run reports that it cannot be trusted, or the machine was disturbed.
    Invalid,
}

impl Status {
    /// Name in reports, as in `not run`.
    pub fn name(self) -> &'static str {
        match self {
            Status::Done => "done",
            Status::NotRun => "not run",
            Status::Failed => "failed",
            Status::Invalid => "invalid",
        }
    }
}

/// Other activity of the machine during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// Share of all processor time that the host took away (steal), in percent.
    pub steal_pct: f64,
    /// Share of time in which some task waited for a processor (PSI), in percent; `None` if the kernel does not
    /// report it.
    pub cpu_pressure_pct: Option<f64>,
    /// Share of the processors that other programs used just before the run, in percent; `None` if it was not
    /// measured.
    #[serde(default)]
    pub others_pct: Option<f64>,
}

/// A run is disturbed if other programs used more than this share of the processors at its start, in percent.
pub const OTHERS_MAX_PCT: f64 = 25.0;

/// More steal than this makes a run on the live machine invalid, in percent.
pub const STEAL_MAX_PCT: f64 = 5.0;

/// TCP settings of the two hosts of a link, by name: files below /proc/sys/net/ipv4, and `initcwnd` of routes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ends {
    /// The host of the command.
    pub near: BTreeMap<String, String>,
    /// The other host.
    pub far: BTreeMap<String, String>,
}

/// The first line of a result file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// `weir-study`.
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// Name of the study.
    pub study: String,
    /// Name of the arm.
    pub name: String,
    /// Name of the arm with its parameters.
    pub run: String,
    /// The values of the parameters.
    pub parameters: Labels,
    /// Number of the repetition, from 0.
    pub repetition: u32,
    /// `quick`, `full` or `paper`.
    pub size: String,
    /// The world that its numbers belong to.
    pub world: World,
    /// Value of `{seed}`.
    pub seed: u64,
    /// Digest of the plan.
    pub plan: String,
    /// Digest of everything that decides the result: commands, build of the program. A result with another digest is
    /// not reused.
    pub arm: String,
    /// The commands as run.
    pub commands: Vec<Vec<String>>,
    /// Outcome of the run.
    pub status: Status,
    /// The reason, unless the status is `done`.
    pub reason: String,
    /// Earlier attempts that were invalid or disturbed.
    pub excluded: u32,
    /// Start in seconds since 1970.
    pub began: u64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Program, version and build: a report never mixes results of two builds.
    pub program: String,
    /// Kernel version.
    pub kernel: String,
    /// Processor model and count.
    pub processor: String,
    /// TCP settings of this machine, by names below /proc/sys/net/ipv4; emulated links start with these.
    #[serde(default)]
    pub tcp: BTreeMap<String, String>,
    /// TCP settings of the hosts of its links, one entry for each link, read from inside their namespaces when the run
    /// had ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Ends>,
    /// Source of the times.
    pub clock: String,
    /// Other activity of the machine.
    pub disturbance: Disturbance,
}

/// A result file.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The first line.
    pub head: Head,
    /// The lines that the commands printed.
    pub lines: Vec<Value>,
}

impl Record {
    /// The file's text.
    pub fn text(&self) -> String {
        // A head of strings and numbers always has a JSON form.
        let mut text = serde_json::to_string(&self.head).expect("a head is JSON");
        text.push('\n');
        for line in &self.lines {
            text.push_str(&line.to_string());
            text.push('\n');
        }
        text
    }

    /// Parses a result file.
    ///
    /// # Errors
    /// The file has another version or is truncated.
    pub fn parse(text: &str) -> Result<Record, String> {
        let (first, rest) = text.split_once('\n').ok_or("the file is truncated")?;
        let head: Head = serde_json::from_str(first).map_err(|error| format!("line 1: {error}"))?;
        if head.format != "weir-study" || head.version != VERSION {
            return Err(format!(
                "the file is {} {}, not weir-study {VERSION}",
                head.format, head.version
            ));
        }
        let mut lines = Vec::new();
        for (number, line) in rest.lines().enumerate() {
            lines.push(serde_json::from_str(line).map_err(|error| format!("line {}: {error}", number + 2))?);
        }
        Ok(Record { head, lines })
    }

    /// Whether other programs used more than `most` percent of the processors at its start: such numbers are used
    /// only where there are no better ones.
    pub fn is_disturbed(&self, most: f64) -> bool {
        let share = self.head.disturbance.others_pct;
        share.is_some_and(|share| share > most)
    }

    /// The observations that the plan reads from the result; `name` is its file.
    pub fn observations(&self, plan: &Plan, name: &str) -> Vec<Observation> {
        if self.head.status != Status::Done {
            return Vec::new();
        }
        let arm = plan.arms.iter().find(|arm| arm.name == self.head.name);
        let Some(arm) = arm else { return Vec::new() };
        let mut found = Vec::new();
        let is_of = |(name, values): (&String, &Vec<String>)| {
            let value = self.head.parameters.get(name);
            value.is_some_and(|value| values.contains(value))
        };
        for read in arm.read.iter().filter(|read| read.only.iter().all(is_of)) {
            for line in &self.lines {
                if read
                    .event
                    .as_ref()
                    .is_some_and(|event| line["event"].as_str() != Some(event))
                {
                    continue;
                }
                let number = |pointer: &str| line.pointer(pointer).and_then(Value::as_f64);
                let is_enough = |(pointer, least): (&String, &f64)| {
                    number(pointer).is_some_and(|number| number >= *least)
                };
                if !read.least.iter().all(is_enough) {
                    continue;
                }
                let one = core::slice::from_ref(line);
                let rows = match &read.rows {
                    Some(pointer) => line
                        .pointer(pointer)
                        .and_then(Value::as_array)
                        .map_or(&[][..], Vec::as_slice),
                    None => one,
                };
                for row in rows {
                    let mut labels = arm.labels.clone();
                    labels.extend(self.head.parameters.clone());
                    read_row(read, row, labels, self.head.world, name, plan, &mut found);
                }
            }
        }
        found
    }
}

fn read_row(
    read: &Read,
    row: &Value,
    mut labels: Labels,
    world: World,
    name: &str,
    plan: &Plan,
    found: &mut Vec<Observation>,
) {
    labels.extend(read.set.clone());
    for (label, pointer) in &read.labels {
        let text = match row.pointer(pointer) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            Some(Value::Bool(yes)) => yes.to_string(),
            _ => return,
        };
        labels.insert(label.clone(), plan.words.get(&text).cloned().unwrap_or(text));
    }
    for (measure, text) in &read.values {
        // `Plan::parse` has already refused expressions that cannot be parsed.
        let value = Expression::parse(text).ok().and_then(|read| read.value(row));
        if let Some(value) = value {
            found.push(Observation {
                world: read.world.unwrap_or(world),
                measure: measure.clone(),
                labels: labels.clone(),
                value,
                source: name.to_owned(),
            });
        }
    }
}

/// Keeps only the results of one build of the program, the build with the newest run; returns the number of results
/// that it removed of each other build.
pub fn keep_newest_build(studies: &mut [BTreeMap<String, Record>]) -> BTreeMap<String, usize> {
    let all = || studies.iter().flat_map(BTreeMap::values);
    let newest = all().max_by_key(|record| record.head.began);
    let mut others = BTreeMap::new();
    let Some(program) = newest.map(|record| record.head.program.clone()) else {
        return others;
    };
    for records in studies.iter_mut() {
        records.retain(|_, record| {
            let is_kept = record.head.program == program;
            if !is_kept {
                *others.entry(record.head.program.clone()).or_default() += 1;
            }
            is_kept
        });
    }
    others
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn head(run: &str, status: Status) -> Head {
        Head {
            format: "weir-study".to_owned(),
            version: VERSION,
            study: "s".to_owned(),
            name: run.split_once("-users=").map_or(run, |(name, _)| name).to_owned(),
            run: run.to_owned(),
            parameters: [("users".to_owned(), "40".to_owned())].into(),
            repetition: 0,
            size: "quick".to_owned(),
            world: World::Measured,
            seed: 1,
            plan: String::new(),
            arm: String::new(),
            commands: Vec::new(),
            status,
            reason: String::new(),
            excluded: 0,
            began: 0,
            seconds: 1.0,
            program: String::new(),
            kernel: String::new(),
            processor: String::new(),
            tcp: BTreeMap::new(),
            links: Vec::new(),
            clock: String::new(),
            disturbance: Disturbance::default(),
        }
    }

    const PLAN: &str = r#"
document = "000"
title = "t"
question = "q"
prediction = "p"
words = { "Pipelined" = "pipelined" }
[[arm]]
name = "load"
world = "measured"
over = { users = ["40"] }
labels = { server = "weir" }
repetitions = { quick = 1, full = 1, paper = 1 }
seconds = { quick = 1, full = 1, paper = 1 }
run = [["load", "{users}"]]
read = [
  { event = "result", labels = { mode = "/mode" }, values = { latency_ms = "/latency * 1000", sum = "/latency * 4 / /more + /more" } },
  { rows = "/tables/0/rows", world = "model", set = { kind = "row" }, labels = { entry = "/0" }, values = { entry = "/1" } },
]
"#;

    #[test]
    fn results_of_an_older_build_are_left_out_of_every_study() {
        let of = |run: &str, program: &str, began: u64| {
            let mut head = head(run, Status::Done);
            (head.program, head.began) = (program.to_owned(), began);
            let lines = Vec::new();
            (run.to_owned(), Record { head, lines })
        };
        let mut studies = [
            BTreeMap::from([of("a", "old", 10), of("b", "new", 20)]),
            BTreeMap::from([of("c", "old", 15)]),
        ];
        assert_eq!(keep_newest_build(&mut studies), [("old".to_owned(), 2)].into());
        let left: Vec<&String> = studies.iter().flat_map(BTreeMap::keys).collect();
        assert_eq!(left, ["b"]);
        assert!(keep_newest_build(&mut studies).is_empty());
        assert!(keep_newest_build(&mut []).is_empty());
    }

    #[test]
    fn what_is_written_is_read_and_what_was_cut_is_refused() {
        let record = Record {
            head: head("load-users=40", Status::Done),
            lines: vec![serde_json::json!({"a": 1})],
        };
        let text = record.text();
        assert_eq!(Record::parse(&text), Ok(record));
        for cut in [10, text.len() - 4] {
            assert!(Record::parse(&text[..cut]).is_err(), "{cut}");
        }
        assert!(Record::parse(&text.replace("weir-study", "other")).is_err());
    }

    #[test]
    fn a_reading_may_be_of_some_runs_and_of_what_is_large_enough() {
        let fitted = r#"{ least = { "/fit" = 0.5 }, values = { slope = "/slope" } }"#;
        let of =
            |users: &str| format!(r#"{{ only = {{ users = ["{users}"] }}, values = {{ all = "/slope" }} }}"#);
        for (users, fit, expected) in [
            ("40", 0.9, &["slope", "all"][..]),
            ("40", 0.1, &["all"]),
            ("80", 0.5, &["slope"]),
        ] {
            let text = PLAN.replace("read = [\n", &format!("read = [\n{fitted},\n{},\n", of(users)));
            let plan = Plan::parse("p", &text).expect("a plan");
            let record = Record {
                head: head("load-users=40", Status::Done),
                lines: vec![serde_json::json!({"slope": 3, "fit": fit})],
            };
            let found = record.observations(&plan, "file");
            let measures: Vec<&str> = found.iter().map(|one| one.measure.as_str()).collect();
            assert_eq!(measures, expected, "{users} {fit}");
        }
        // With rows, the pointer is into the line that has them.
        let rows = r#"{ rows = "/t/0", least = { "/t/1/0/0" = 1 }, values = { first = "/0" } }"#;
        let plan =
            Plan::parse("p", &PLAN.replace("read = [\n", &format!("read = [\n{rows},\n"))).expect("a plan");
        let count = |line| {
            let head = head("load-users=40", Status::Done);
            Record {
                head,
                lines: vec![line],
            }
            .observations(&plan, "file")
            .len()
        };
        assert_eq!(count(serde_json::json!({"t": [[[5], [6]], [[1]]]})), 2);
        assert_eq!(count(serde_json::json!({"t": [[[5], [6]]]})), 0);
    }

    #[test]
    fn values_are_found_by_pointer_with_labels_of_arm_parameters_and_line() {
        let plan = Plan::parse("p", PLAN).expect("a plan");
        let lines = vec![
            serde_json::json!({"event": "result", "mode": "Pipelined", "latency": 0.25, "more": 2}),
            serde_json::json!({"event": "other", "mode": "x", "latency": 9}),
            serde_json::json!({"tables": [{"rows": [["K", 2.05], ["L", null]]}]}),
        ];
        let mut record = Record {
            head: head("load-users=40", Status::Done),
            lines,
        };
        let found = record.observations(&plan, "file");
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!((found[1].measure.as_str(), found[1].value), ("sum", 2.5));
        assert_eq!((found[0].measure.as_str(), found[0].value), ("latency_ms", 250.0));
        let labels: Vec<(&str, &str)> = found[0]
            .labels
            .iter()
            .map(|(a, b)| (a.as_str(), b.as_str()))
            .collect();
        assert_eq!(
            labels,
            [("mode", "pipelined"), ("server", "weir"), ("users", "40")]
        );
        assert_eq!((found[2].world, found[2].value), (World::Model, 2.05));
        record.head.status = Status::Invalid;
        assert!(record.observations(&plan, "file").is_empty());
    }
}
