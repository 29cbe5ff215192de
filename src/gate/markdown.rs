//! The checks of a gate in GitHub's Markdown: a heading with the outcome, a table of the checks, and the command's own
//! sections. Text from outside is escaped.

use super::{Gate, Outcome};
use std::fmt::Write as _;

/// The summary.
pub(super) fn summary(gate: &Gate) -> String {
    let (failed, undecided) = (gate.count(Outcome::Failed), gate.count(Outcome::Undecided));
    let outcome = match (failed, undecided) {
        (0, 0) => "passed".to_owned(),
        (0, undecided) => format!("{undecided} undecided"),
        (failed, 0) => format!("{failed} failed"),
        (failed, undecided) => format!("{failed} failed, {undecided} undecided"),
    };
    let mut text = format!("## {}: {outcome}\n\n{}\n\n", gate.command, escaped(&gate.subject));
    text += &row(["check", "outcome", "value or reason"]);
    text += &row(["---", "---", "---"]);
    for check in &gate.checks {
        let word = match check.outcome {
            Outcome::Failed | Outcome::Undecided => format!("**{}**", check.outcome.word()),
            outcome => outcome.word().to_owned(),
        };
        text += &row([escaped(&check.name), word, escaped(&check.told)]);
    }
    if !gate.details.is_empty() {
        text.push('\n');
        text += &gate.details;
    }
    text
}

/// A row of a table. The cells are Markdown.
pub(crate) fn row<Cell: AsRef<str>>(cells: impl IntoIterator<Item = Cell>) -> String {
    let mut text = String::from("|");
    for cell in cells {
        // Writing to a String cannot fail.
        let _ = write!(text, " {} |", cell.as_ref());
    }
    text.push('\n');
    text
}

/// Text that Markdown shows as it is, on one line.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' => {
                escaped.push('\\');
                escaped.push(character);
            }
            character if character.is_control() => escaped.push(' '),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_names_every_check() {
        assert_eq!(
            summary(&super::super::example()),
            "## weir load: 1 failed, 1 undecided\n\nhttp://h/?a=1&amp;b=\"2\"\n\n\
             | check | outcome | value or reason |\n| --- | --- | --- |\n\
             | p99 &lt; 200 ms | **failed** | 312.5 ms |\n\
             | failures &lt;= 0 % | passed | 0 % |\n\
             | a\\|b | **undecided** | too few  |\n\
             | rate | skipped |  |\n\ndetails\n"
        );
    }
}
