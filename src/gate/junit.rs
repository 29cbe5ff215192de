//! The checks of a gate as JUnit XML, in the subset that Jenkins, GitLab and GitHub's reporters read: `testsuites`,
//! `testsuite`, `testcase`, and `failure`, `error` or `skipped` in it.

use super::{Gate, Outcome};
use std::fmt::Write as _;

/// The document. An undecided check is an `error`, as JUnit calls a test that could not be evaluated.
pub(super) fn document(gate: &Gate) -> String {
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3}\"",
        gate.checks.len(),
        gate.count(Outcome::Failed),
        gate.count(Outcome::Undecided),
        gate.count(Outcome::Skipped),
        gate.took_s
    );
    let suite = attribute(&format!("{} {}", gate.command, gate.subject));
    let class = attribute(&gate.command.replace(' ', "."));
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"{}\" {counts}>\n  <testsuite name=\"{suite}\" {counts}>\n",
        attribute(gate.command)
    );
    // Writing to a String cannot fail.
    for check in &gate.checks {
        let (name, told) = (attribute(&check.name), attribute(&check.told));
        let _ = write!(text, "    <testcase classname=\"{class}\" name=\"{name}\"");
        let _ = match check.outcome {
            Outcome::Passed if told.is_empty() => writeln!(text, "/>"),
            Outcome::Passed => writeln!(text, ">\n      <system-out>{told}</system-out>\n    </testcase>"),
            outcome => {
                let element = match outcome {
                    Outcome::Failed => "failure",
                    Outcome::Undecided => "error",
                    _ => "skipped",
                };
                writeln!(text, ">\n      <{element} message=\"{told}\"/>\n    </testcase>")
            }
        };
    }
    text += "  </testsuite>\n</testsuites>\n";
    text
}

/// Text of an attribute or an element. XML 1.0 cannot carry most control characters, not even escaped.
fn attribute(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\n' => escaped += "&#10;",
            '\t' => escaped += "&#9;",
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            character if character.is_control() => escaped.push('\u{fffd}'),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_is_a_test_case() {
        let counts = "tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\" time=\"10.000\"";
        assert_eq!(
            document(&super::super::example()),
            format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
                 <testsuites name=\"weir load\" {counts}>\n\
                 \x20 <testsuite name=\"weir load http://h/?a=1&amp;b=&quot;2&quot;\" {counts}>\n\
                 \x20   <testcase classname=\"weir.load\" name=\"p99 &lt; 200 ms\">\n      <failure message=\"312.5 ms\"/>\n    </testcase>\n\
                 \x20   <testcase classname=\"weir.load\" name=\"failures &lt;= 0 %\">\n      <system-out>0 %</system-out>\n    </testcase>\n\
                 \x20   <testcase classname=\"weir.load\" name=\"a|b\">\n      <error message=\"too&#10;few\u{fffd}\"/>\n    </testcase>\n\
                 \x20   <testcase classname=\"weir.load\" name=\"rate\">\n      <skipped message=\"\"/>\n    </testcase>\n\
                 \x20 </testsuite>\n</testsuites>\n"
            )
        );
    }
}
