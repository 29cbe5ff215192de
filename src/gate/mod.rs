//! A gate of continuous integration: named checks with an outcome each, written as JUnit XML and Markdown. Commands
//! decide what is checked and their exit code.

mod junit;
pub(crate) mod markdown;

use crate::cli::summary::SummaryFlags;
use crate::failure::Failure;
use std::io;
use std::path::Path;

/// Checks of one run or one comparison.
#[derive(Debug)]
pub(crate) struct Gate {
    /// The command, such as `weir load`.
    pub(crate) command: &'static str,
    /// What was checked: a server, or two results.
    pub(crate) subject: String,
    /// Seconds that the measurement took; 0 if unknown.
    pub(crate) took_s: f64,
    pub(crate) checks: Vec<Check>,
    /// Sections of the Markdown after the checks.
    pub(crate) details: String,
}

/// One check.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Check {
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
    /// The measured value or the reason, as one sentence or less; may be empty.
    pub(crate) told: String,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The requirement is met.
    Passed,
    /// The requirement is not met.
    Failed,
    /// The measurement does not decide the check.
    Undecided,
    /// The check does not decide the exit code.
    Skipped,
}

impl Outcome {
    /// Word in reports.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Outcome::Passed => "passed",
            Outcome::Failed => "failed",
            Outcome::Undecided => "undecided",
            Outcome::Skipped => "skipped",
        }
    }
}

impl Gate {
    /// Number of checks with this outcome.
    fn count(&self, outcome: Outcome) -> usize {
        self.checks
            .iter()
            .filter(|check| check.outcome == outcome)
            .count()
    }

    /// Writes the requested files; `put` writes one of them.
    ///
    /// # Errors
    /// `System`, naming the files that could not be written.
    pub(crate) fn write(
        &self,
        to: &SummaryFlags,
        put: impl Fn(&Path, &[u8]) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let write = |path: &Path, text: String| {
            put(path, text.as_bytes())
                .map_err(|error| Failure::System(format!("cannot write `{}`: {error}", path.display())))
        };
        let markdown = to.markdown.as_deref();
        let markdown = markdown.map(|path| write(path, markdown::summary(self)));
        let junit = to.junit.as_deref().map(|path| write(path, junit::document(self)));
        Failure::of_all(markdown.into_iter().chain(junit))
    }
}

#[cfg(test)]
fn example() -> Gate {
    let check = |name: &str, outcome, told: &str| Check {
        name: name.to_owned(),
        outcome,
        told: told.to_owned(),
    };
    Gate {
        command: "weir load",
        subject: "http://h/?a=1&b=\"2\"".to_owned(),
        took_s: 10.0,
        checks: vec![
            check("p99 < 200 ms", Outcome::Failed, "312.5 ms"),
            check("failures <= 0 %", Outcome::Passed, "0 %"),
            check("a|b", Outcome::Undecided, "too\nfew\u{1b}"),
            check("rate", Outcome::Skipped, ""),
        ],
        details: "details\n".to_owned(),
    }
}
