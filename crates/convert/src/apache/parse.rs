//! The syntax of Apache httpd: lines, quotes, sections, includes. Knows no directives but `Include`, `Define` and those that
//! limit access.
//!
//! `Define NAME VALUE` replaces `${NAME}` in the lines behind it. Names without a definition stay, as in Apache.
//! The contents of `<IfModule>` and `<IfDefine>` are read as if the condition were true, unless it begins with `!`.
//! `<IfVersion>` compares with the latest Apache.

use super::access::is_limit;
use crate::directive::Directive;
use crate::fate::Fate;
use crate::files::{self, DEPTH_MAX, Files, INCLUDES_MAX, Text};
use crate::report::{At, Report, Unreadable};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most bytes of a line with its values.
const LINE_MAX: usize = 64 * 1024;

/// Parses a file and all that it includes.
///
/// # Errors
/// The first mistake of syntax.
pub(super) fn parse(
    main: &Text,
    files: &dyn Files,
    report: &mut Report,
) -> Result<Vec<Directive>, Unreadable> {
    let mut reading = Reading {
        files,
        report,
        included: 0,
        defined: BTreeMap::new(),
    };
    reading.file(main, 0)
}

struct Reading<'a> {
    files: &'a dyn Files,
    report: &'a mut Report,
    included: usize,
    /// Values by name.
    defined: BTreeMap<String, String>,
}

/// An open section, and the directives in it so far.
struct Open {
    section: Directive,
    inner: Vec<Directive>,
}

impl Reading<'_> {
    fn file(&mut self, file: &Text, depth: usize) -> Result<Vec<Directive>, Unreadable> {
        let name: Arc<str> = file.name.as_str().into();
        let mut open: Vec<Open> = Vec::new();
        let mut all: Vec<Directive> = Vec::new();
        let mut lines = file.text.trim_start_matches('\u{feff}').lines().enumerate();
        while let Some((index, line)) = lines.next() {
            let at = At {
                file: Arc::clone(&name),
                line: index + 1,
            };
            let mut line = line.trim().to_owned();
            while line.ends_with('\\') {
                line.pop();
                let Some((_, next)) = lines.next() else { break };
                line.push_str(next.trim_end());
            }
            // A comment goes on behind a backslash, too.
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let line = self.filled(line);
            if let Some(end) = line.strip_prefix("</") {
                let end = end.trim_end_matches('>').trim();
                match open.pop() {
                    Some(Open { mut section, inner }) if section.name[1..].eq_ignore_ascii_case(end) => {
                        let target = open.last_mut().map_or(&mut all, |above| &mut above.inner);
                        match is_condition(&section.name) {
                            Some(()) => self.condition(&section, inner, target),
                            None => {
                                section.block = Some(inner);
                                target.push(section);
                            }
                        }
                    }
                    _ => return Err(wrong(&at, &format!("`</{end}>` closes no section"))),
                }
                continue;
            }
            let is_section = line.starts_with('<');
            let text = if is_section {
                line.trim_end_matches('>')
            } else {
                &line
            };
            let mut words = words(text);
            if words.is_empty() {
                continue;
            }
            let directive = Directive {
                at: at.clone(),
                name: words.remove(0),
                args: words,
                block: None,
            };
            if is_section {
                if open.len() + depth >= DEPTH_MAX {
                    return Err(wrong(
                        &at,
                        &format!("more than {DEPTH_MAX} levels of sections and includes"),
                    ));
                }
                open.push(Open {
                    section: directive,
                    inner: Vec::new(),
                });
                continue;
            }
            let found = match directive.name.to_ascii_lowercase().as_str() {
                "include" | "includeoptional" => self.include(&directive, depth)?,
                "define" => {
                    let is_default = open.iter().any(|one| one.section.arg(0).starts_with('!'));
                    self.define(&directive, is_default);
                    Vec::new()
                }
                _ => vec![directive],
            };
            open.last_mut()
                .map_or(&mut all, |above| &mut above.inner)
                .extend(found);
        }
        match open.pop() {
            Some(Open { section, .. }) => Err(wrong(&section.at, &format!("`{}>` has no end", section.name))),
            None => Ok(all),
        }
    }

    /// The line with the values of defined names.
    fn filled(&self, line: String) -> String {
        let mut out = String::new();
        let mut rest = line.as_str();
        while let Some(start) = rest.find("${") {
            let name = rest[start + 2..].split('}').next().unwrap_or_default();
            let end = start + 2 + name.len() + 1;
            out.push_str(&rest[..start]);
            match self.defined.get(name) {
                // Text behind it is not replaced again, and a line has a bound.
                Some(value) if end <= rest.len() && out.len() + value.len() <= LINE_MAX => {
                    out.push_str(value)
                }
                _ => out.push_str(rest.get(start..end).unwrap_or(&rest[start..])),
            }
            rest = rest.get(end..).unwrap_or_default();
        }
        out.push_str(rest);
        out
    }

    /// Keeps a value. `is_default`: it holds if the name has none yet, as in `<IfDefine !NAME>`.
    fn define(&mut self, directive: &Directive, is_default: bool) {
        let fate = match directive.args.as_slice() {
            [name, value] => {
                let known = self.defined.entry(name.clone()).or_insert_with(|| value.clone());
                if !is_default {
                    known.clone_from(value);
                }
                Fate::unneeded("the result has the value in place of the name")
            }
            _ => Fate::unneeded(PRESENT),
        };
        self.report.add(&directive.at, &directive.shown(), fate);
    }

    fn condition(&mut self, section: &Directive, inner: Vec<Directive>, target: &mut Vec<Directive>) {
        let is_of_version = section.name.eq_ignore_ascii_case("<ifversion");
        let (is_left_out, why) = match is_of_version {
            true => (!is_latest(&section.args), LATEST),
            false => (section.arg(0).starts_with('!'), PRESENT),
        };
        if !is_left_out {
            self.report.add(&section.at, &section.shown(), Fate::Carried);
            target.extend(inner);
            return;
        }
        self.report
            .add(&section.at, &section.shown(), Fate::unneeded(why));
        let has_other = is_of_version || section.name.eq_ignore_ascii_case("<ifmodule");
        for one in &inner {
            leave_out(one, has_other, why, self.report);
        }
    }

    fn include(&mut self, directive: &Directive, depth: usize) -> Result<Vec<Directive>, Unreadable> {
        let found = match self.files.read(directive.arg(0)) {
            Ok(found) => found,
            Err(why) => {
                let fate = match directive.name.eq_ignore_ascii_case("include") {
                    true => files::unread(&why),
                    false => Fate::missing(why),
                };
                self.report.add(&directive.at, &directive.shown(), fate);
                return Ok(Vec::new());
            }
        };
        self.included += found.len();
        if self.included > INCLUDES_MAX || depth >= DEPTH_MAX {
            return Err(wrong(
                &directive.at,
                &format!("more than {INCLUDES_MAX} included files or {DEPTH_MAX} levels"),
            ));
        }
        self.report.add(&directive.at, &directive.shown(), Fate::Carried);
        let mut all = Vec::new();
        for file in &found {
            all.extend(self.file(file, depth + 1)?);
        }
        Ok(all)
    }
}

/// Why a section is left out that holds without a module or a definition.
const PRESENT: &str = "the converter takes modules and definitions for present";

/// Why a section is left out that holds for other versions of Apache.
const LATEST: &str = "the converter reads the configuration as Apache 2.4 does";

/// The version that `<IfVersion>` compares with: later than every one that a configuration names.
const VERSION: [u32; 3] = [2, 4, 999];

/// Whether `<IfVersion>` with these words holds for [`VERSION`]. One that the converter cannot read holds.
fn is_latest(words: &[String]) -> bool {
    let (operator, version) = match words {
        [version] => ("=", version.as_str()),
        [operator, version, ..] => (operator.as_str(), version.as_str()),
        [] => return true,
    };
    let (is_negated, operator) = match operator.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, operator),
    };
    let parts: Option<Vec<u32>> = version.split('.').map(|part| part.parse().ok()).collect();
    let Some(parts) = parts else { return true };
    // Parts that are not named are zero.
    let named: Vec<u32> = parts.into_iter().chain([0, 0]).take(VERSION.len()).collect();
    let holds = match operator {
        "<" => VERSION.as_slice() < named.as_slice(),
        "<=" => VERSION.as_slice() <= named.as_slice(),
        ">" => VERSION.as_slice() > named.as_slice(),
        ">=" => VERSION.as_slice() >= named.as_slice(),
        "" | "=" | "==" => VERSION.as_slice() == named.as_slice(),
        _ => return true,
    };
    holds != is_negated
}

/// Reports a directive of a section that is left out. What limits access is open, unless another module or version has it in place
/// of the absent one.
fn leave_out(directive: &Directive, has_other: bool, why: &str, report: &mut Report) {
    let fate = match !has_other && is_limit(directive) {
        true => Fate::open(why),
        false => Fate::unneeded(why),
    };
    report.add(&directive.at, &directive.shown(), fate);
    for inner in directive.inner() {
        leave_out(inner, has_other, why, report);
    }
}

fn is_condition(name: &str) -> Option<()> {
    let names = ["<ifmodule", "<ifdefine", "<ifversion", "<iffile", "<ifdirective"];
    names.contains(&name.to_ascii_lowercase().as_str()).then_some(())
}

fn wrong(at: &At, why: &str) -> Unreadable {
    Unreadable {
        file: at.file.to_string(),
        line: at.line,
        why: why.to_owned(),
    }
}

/// The words of a line. A string without an end goes on to the end of the line, as in Apache.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while let Some(c) = rest.chars().next() {
        if c == '"' || c == '\'' {
            let mut word = String::new();
            let mut chars = rest[1..].char_indices();
            let mut end = rest.len();
            while let Some((at, inner)) = chars.next() {
                match inner {
                    inner if inner == c => {
                        end = at + 2;
                        break;
                    }
                    '\\' => match chars.next() {
                        Some((_, escaped)) if escaped == c => word.push(c),
                        Some((_, other)) => word.extend(['\\', other]),
                        None => word.push('\\'),
                    },
                    inner => word.push(inner),
                }
            }
            words.push(word);
            rest = rest[end..].trim_start();
        } else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            words.push(rest[..end].to_owned());
            rest = rest[end..].trim_start();
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Nested;

    struct Nothing;

    impl Files for Nothing {
        fn read(&self, _pattern: &str) -> Result<Vec<Text>, String> {
            Err("no file".to_owned())
        }

        fn nested(&self, _root: &str) -> Nested {
            Nested::default()
        }
    }

    fn lines(text: &str) -> Vec<String> {
        let main = Text {
            name: "site.conf".to_owned(),
            text: text.to_owned(),
        };
        let mut report = Report::default();
        let tree = parse(&main, &Nothing, &mut report).unwrap();
        tree.iter().map(Directive::shown).collect()
    }

    #[test]
    fn defined_names_have_values() {
        let text = "Define domain example.org\nDefine root /srv/${domain}\nServerName www.${domain}\n\
                    DocumentRoot ${root}/www\n<IfDefine !root>\nDefine root /other\nDefine port 81\n</IfDefine>\n\
                    Listen ${port}\nDocumentRoot ${root}\nErrorLog ${APACHE_LOG_DIR}/x.log\nServerAlias ${domain\n";
        assert_eq!(
            lines(text),
            [
                "ServerName www.example.org",
                "DocumentRoot /srv/example.org/www",
                "Listen 81",
                "DocumentRoot /srv/example.org",
                "ErrorLog ${APACHE_LOG_DIR}/x.log",
                "ServerAlias ${domain",
            ]
        );
    }

    #[test]
    fn values_do_not_grow_without_bound() {
        let mut text = "Define a 0123456789\n".to_owned();
        for _ in 0..30 {
            text.push_str("Define a ${a}${a}\n");
        }
        text.push_str("ServerName ${a}\n");
        assert!(lines(&text)[0].len() <= 2 * LINE_MAX);
    }

    #[test]
    fn comments_and_lines_go_on_behind_a_backslash() {
        let text =
            "# Of old:\\\n Require all granted\\\n Satisfy any\nOptions \\\n  -Indexes\nServerAdmin a\\\nb\n";
        assert_eq!(lines(text), ["Options -Indexes", "ServerAdmin ab"]);
    }

    #[test]
    fn strings_without_an_end_go_on_to_the_end_of_the_line() {
        assert_eq!(
            words("Header set X \"a b"),
            ["Header", "set", "X", "a b"].map(str::to_owned)
        );
        assert_eq!(words("a 'b\\' c\\"), ["a", "b' c\\"].map(str::to_owned));
    }

    #[test]
    fn versions_are_those_of_the_latest_apache() {
        for (condition, is_read) in [
            (">= 2.4", true),
            ("> 2.4", true),
            (">= 2.3.1", true),
            ("< 2.4", false),
            ("<= 2.2", false),
            ("!< 2.4", true),
            ("!>= 2.4", false),
            ("2.2.3", false),
            ("= 2.4.1", false),
            ("~ /^2\\.4/", true),
        ] {
            let text = format!("<IfVersion {condition}>\nDeny from all\n</IfVersion>\n");
            assert_eq!(!lines(&text).is_empty(), is_read, "{condition}");
        }
    }
}
