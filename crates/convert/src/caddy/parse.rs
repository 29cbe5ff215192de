//! The syntax of a Caddyfile: words, quotes, blocks, snippets, imports. Knows no directive but `import`.

use crate::directive::Directive;
use crate::fate::Fate;
use crate::files::{self, DEPTH_MAX, Files, INCLUDES_MAX, Text};
use crate::report::{At, Report, Unreadable};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most directives of a whole configuration, imports expanded: snippets could multiply without bound.
const DIRECTIVES_MAX: usize = 100_000;

/// A site: its addresses and directives.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) at: At,
    pub(super) addresses: Vec<String>,
    pub(super) inner: Vec<Directive>,
}

/// A whole Caddyfile.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) options: Vec<Directive>,
    pub(super) sites: Vec<Block>,
}

/// Parses a file and all that it imports.
///
/// # Errors
/// The first mistake of syntax.
pub(super) fn parse(main: &Text, files: &dyn Files, report: &mut Report) -> Result<Tree, Unreadable> {
    let mut reading = Reading {
        files,
        report,
        snippets: BTreeMap::new(),
        tree: Tree::default(),
        included: 0,
        expanded: 0,
    };
    reading.file(main, 0)?;
    Ok(reading.tree)
}

struct Reading<'a> {
    files: &'a dyn Files,
    report: &'a mut Report,
    snippets: BTreeMap<String, Vec<Directive>>,
    tree: Tree,
    included: usize,
    expanded: usize,
}

impl Reading<'_> {
    fn file(&mut self, file: &Text, depth: usize) -> Result<(), Unreadable> {
        let mut lines = self.lines(file)?;
        while let Some(line) = lines.next() {
            self.top(line, &mut lines, depth)?;
        }
        Ok(())
    }

    /// The lines of a file, with the defaults of variables of the environment in place of these.
    fn lines(&mut self, file: &Text) -> Result<Lines, Unreadable> {
        let mut text = String::new();
        for (index, line) in file.text.split_inclusive('\n').enumerate() {
            let is_comment = line.trim_start().starts_with('#');
            let mut rest = line;
            while let Some((start, variable, default, end)) = defaulted(rest).filter(|_| !is_comment) {
                let at = At {
                    file: file.name.as_str().into(),
                    line: index + 1,
                };
                let why =
                    "the result has the default: Weir's configuration has no variables of the environment";
                self.report.add(&at, variable, Fate::changed(why));
                text.push_str(start);
                text.push_str(default);
                rest = end;
            }
            text.push_str(rest);
        }
        Lines::of(&Text {
            name: file.name.clone(),
            text,
        })
    }

    fn top(&mut self, line: Line, lines: &mut Lines, depth: usize) -> Result<(), Unreadable> {
        let at = lines.at(line.number);
        let mut opens = line.opens();
        let mut words = line.words;
        if words.first().is_some_and(|word| word == "import") {
            for file in self.import(&at, &words[1..], depth)? {
                self.file(&file, depth + 1)?;
            }
            return Ok(());
        }
        // Addresses go on in the next line after a comma.
        while words.last().is_some_and(|word| word.ends_with(',')) {
            let Some(next) = lines.next() else { break };
            opens = next.opens();
            words.extend(next.words);
        }
        if opens {
            words.pop();
        }
        match words.as_slice() {
            [] if opens => self.tree.options = lines.block(0)?,
            [] => return Err(lines.wrong(at.line, "a `}` without its `{`")),
            [name] if opens && name.starts_with('(') && name.ends_with(')') => {
                let inner = lines.block(0)?;
                self.report.add(&at, name, Fate::Carried);
                self.snippets
                    .insert(name.trim_matches(['(', ')']).to_owned(), inner);
            }
            _ => {
                let inner = match opens {
                    true => lines.block(0)?,
                    false => lines.rest()?,
                };
                let inner = self.expand(inner, depth)?;
                let addresses = words
                    .iter()
                    .flat_map(|word| word.split(','))
                    .filter(|word| !word.is_empty());
                self.tree.sites.push(Block {
                    at,
                    addresses: addresses.map(str::to_owned).collect(),
                    inner,
                });
            }
        }
        Ok(())
    }

    /// The files of a name; reports its fate.
    fn import(&mut self, at: &At, words: &[String], depth: usize) -> Result<Vec<Text>, Unreadable> {
        let name = words.first().map_or("", |name| name);
        let shown = format!("import {}", words.join(" "));
        if depth > DEPTH_MAX {
            return Err(wrong(at, &format!("more than {DEPTH_MAX} levels of imports")));
        }
        match self.files.read(name) {
            Ok(found) => {
                self.included += found.len();
                if self.included > INCLUDES_MAX {
                    return Err(wrong(at, &format!("more than {INCLUDES_MAX} imported files")));
                }
                self.report.add(at, &shown, Fate::Carried);
                Ok(found)
            }
            Err(why) => {
                self.report.add(at, &shown, files::unread(&why));
                Ok(Vec::new())
            }
        }
    }

    /// Directives with their imports in place.
    fn expand(&mut self, directives: Vec<Directive>, depth: usize) -> Result<Vec<Directive>, Unreadable> {
        let mut all = Vec::new();
        for mut directive in directives {
            self.expanded += 1;
            if depth > DEPTH_MAX || self.expanded > DIRECTIVES_MAX {
                return Err(wrong(&directive.at, "imports that go too deep"));
            }
            if directive.name == "import" {
                let given = directive.block.take().unwrap_or_default();
                let inner = match self.snippets.get(directive.arg(0)) {
                    Some(snippet) => {
                        let snippet: Vec<Directive> = snippet
                            .iter()
                            .map(|one| with_arguments(one, &directive.args))
                            .collect();
                        self.report.add(&directive.at, &directive.shown(), Fate::Carried);
                        snippet
                    }
                    None => {
                        let found = self.import(&directive.at, &directive.args, depth)?;
                        let mut inner = Vec::new();
                        for file in &found {
                            inner.extend(self.lines(file)?.rest()?);
                        }
                        inner
                    }
                };
                let places = count(&inner, &|one| is_place(&one.name));
                if places.saturating_mul(count(&given, &|_| true)) > DIRECTIVES_MAX {
                    let why = format!("imports that make more than {DIRECTIVES_MAX} directives");
                    return Err(wrong(&directive.at, &why));
                }
                if places == 0 {
                    let fate = Fate::unneeded("what is imported has no `{block}` for it");
                    given.iter().for_each(|one| one.note_all(&fate, self.report));
                }
                all.extend(self.expand(with_block(inner, &given), depth + 1)?);
                continue;
            }
            if let Some(inner) = directive.block.take() {
                directive.block = Some(self.expand(inner, depth + 1)?);
            }
            all.push(directive);
        }
        Ok(all)
    }
}

/// The first `{$NAME:DEFAULT}` of a line: what is before it, itself, its default, and what is behind it.
fn defaulted(line: &str) -> Option<(&str, &str, &str, &str)> {
    let mut from = 0;
    loop {
        let start = from + line.get(from..)?.find("{$")?;
        let end = start + line[start..].find('}')?;
        let inside = &line[start + "{$".len()..end];
        if let Some((_, default)) = inside.split_once(':') {
            return Some((&line[..start], &line[start..=end], default, &line[end + 1..]));
        }
        from = end;
    }
}

/// How many directives of a block, and of those in it, are meant.
fn count(block: &[Directive], is_meant: &dyn Fn(&Directive) -> bool) -> usize {
    let each = block.iter();
    each.map(|one| usize::from(is_meant(one)) + count(one.inner(), is_meant))
        .sum()
}

/// Whether a name stands for the block that an `import` has, or for a part of it.
fn is_place(name: &str) -> bool {
    name == "{block}" || name.starts_with("{blocks.")
}

/// Directives with the block of an `import` in its places.
fn with_block(directives: Vec<Directive>, given: &[Directive]) -> Vec<Directive> {
    let mut all = Vec::new();
    for mut one in directives {
        if !is_place(&one.name) {
            one.block = one.block.map(|inner| with_block(inner, given));
            all.push(one);
            continue;
        }
        let part = one
            .name
            .strip_prefix("{blocks.")
            .and_then(|name| name.strip_suffix('}'));
        match part {
            None => all.extend(given.iter().cloned()),
            Some(part) => {
                let found = given.iter().filter(|other| other.name == part);
                all.extend(found.flat_map(|other| other.inner().iter().cloned()));
            }
        }
    }
    all
}

/// A directive of a snippet with `{args[0]}` replaced.
fn with_arguments(directive: &Directive, args: &[String]) -> Directive {
    let replace = |text: &String| {
        let mut text = text.clone();
        for (index, arg) in args.iter().skip(1).enumerate() {
            text = text
                .replace(&format!("{{args[{index}]}}"), arg)
                .replace(&format!("{{args.{index}}}"), arg);
        }
        text
    };
    Directive {
        at: directive.at.clone(),
        name: replace(&directive.name),
        args: directive.args.iter().map(replace).collect(),
        block: directive
            .block
            .as_ref()
            .map(|inner| inner.iter().map(|one| with_arguments(one, args)).collect()),
    }
}

fn wrong(at: &At, why: &str) -> Unreadable {
    Unreadable {
        file: at.file.to_string(),
        line: at.line,
        why: why.to_owned(),
    }
}

/// The words of a line.
#[derive(Clone, Debug)]
struct Line {
    number: usize,
    words: Vec<String>,
    /// Whether the last word has no quotes: only such a brace opens or closes a block.
    is_bare: bool,
}

impl Line {
    /// Whether the line ends with the brace of a block.
    fn opens(&self) -> bool {
        self.is_bare && self.words.last().is_some_and(|word| word == "{")
    }

    /// Whether the line is the brace that closes a block.
    fn closes(&self) -> bool {
        self.is_bare && self.words == ["}"]
    }
}

/// The lines of a file that have words.
struct Lines {
    file: Arc<str>,
    lines: std::vec::IntoIter<Line>,
}

impl Lines {
    fn of(file: &Text) -> Result<Lines, Unreadable> {
        let name: Arc<str> = file.name.as_str().into();
        let mut lines = Vec::new();
        let mut words: Vec<String> = Vec::new();
        let mut is_bare = true;
        let (mut number, mut began) = (1, 1);
        let mut rest = file.text.trim_start_matches('\u{feff}');
        let fail = |line, why: &str| Unreadable {
            file: name.to_string(),
            line,
            why: why.to_owned(),
        };
        while let Some(c) = rest.chars().next() {
            match c {
                '\n' => {
                    if !words.is_empty() {
                        lines.push(Line {
                            number: began,
                            words: std::mem::take(&mut words),
                            is_bare,
                        });
                    }
                    number += 1;
                    began = number;
                    rest = &rest[1..];
                }
                // The line goes on behind a backslash at its end.
                '\\' if rest[1..].starts_with(['\n', '\r']) => {
                    rest = rest[1..].trim_start_matches('\r');
                    rest = rest.strip_prefix('\n').unwrap_or(rest);
                    number += 1;
                }
                c if c.is_whitespace() => rest = &rest[c.len_utf8()..],
                '#' => rest = rest.find('\n').map_or("", |end| &rest[end..]),
                '"' | '`' => {
                    let (word, after) =
                        quoted(&rest[1..], c).ok_or_else(|| fail(number, "a string without an end"))?;
                    number += word.matches('\n').count();
                    words.push(word);
                    is_bare = false;
                    rest = after;
                }
                _ if rest.starts_with("<<") => {
                    let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
                    let mark = line[2..].trim().to_owned();
                    let mut text = Vec::new();
                    let mut after = after;
                    loop {
                        let Some((line, next)) = after
                            .split_once('\n')
                            .or((!after.is_empty()).then_some((after, "")))
                        else {
                            return Err(fail(number, &format!("a text without its end `{mark}`")));
                        };
                        number += 1;
                        after = next;
                        let trimmed = line.trim_start();
                        if let Some(more) = trimmed.strip_prefix(&*mark) {
                            words.push(text.join("\n"));
                            is_bare = !more.trim().is_empty();
                            words.extend(more.split_whitespace().map(str::to_owned));
                            break;
                        }
                        text.push(line);
                    }
                    lines.push(Line {
                        number: began,
                        words: std::mem::take(&mut words),
                        is_bare,
                    });
                    number += 1;
                    began = number;
                    rest = after;
                }
                _ => {
                    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                    words.push(rest[..end].to_owned());
                    is_bare = true;
                    rest = &rest[end..];
                }
            }
        }
        if !words.is_empty() {
            lines.push(Line {
                number: began,
                words,
                is_bare,
            });
        }
        Ok(Lines {
            file: name,
            lines: lines.into_iter(),
        })
    }

    fn next(&mut self) -> Option<Line> {
        self.lines.next()
    }

    fn at(&self, line: usize) -> At {
        At {
            file: Arc::clone(&self.file),
            line,
        }
    }

    fn wrong(&self, line: usize, why: &str) -> Unreadable {
        wrong(&self.at(line), why)
    }

    /// The directives up to the closing brace.
    fn block(&mut self, depth: usize) -> Result<Vec<Directive>, Unreadable> {
        let mut all = Vec::new();
        let mut last = 1;
        while let Some(line) = self.next() {
            last = line.number;
            if line.closes() {
                return Ok(all);
            }
            all.push(self.directive(line, depth)?);
        }
        Err(self.wrong(last, "a block without its `}`"))
    }

    /// The directives up to the end of the file.
    fn rest(&mut self) -> Result<Vec<Directive>, Unreadable> {
        let mut all = Vec::new();
        while let Some(line) = self.next() {
            if line.closes() {
                return Err(self.wrong(line.number, "a `}` without its `{`"));
            }
            all.push(self.directive(line, 0)?);
        }
        Ok(all)
    }

    fn directive(&mut self, line: Line, depth: usize) -> Result<Directive, Unreadable> {
        if depth > DEPTH_MAX {
            return Err(self.wrong(line.number, &format!("more than {DEPTH_MAX} levels of blocks")));
        }
        let at = self.at(line.number);
        let opens = line.opens();
        let mut words = line.words;
        let block = match opens {
            true => {
                words.pop();
                Some(self.block(depth + 1)?)
            }
            false => None,
        };
        if words.is_empty() {
            return Err(self.wrong(at.line, "a block without a name"));
        }
        Ok(Directive {
            at,
            name: words.remove(0),
            args: words,
            block,
        })
    }
}

/// The string up to its closing quote, and the text behind it.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            c if c == quote => return Some((out, &text[at + c.len_utf8()..])),
            '\\' if quote == '"' => match chars.next() {
                Some((_, '"')) => out.push('"'),
                Some((_, other)) => out.extend(['\\', other]),
                None => return None,
            },
            c => out.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dialect;
    use crate::fidelity::converted;

    #[test]
    fn variables_have_their_defaults() {
        for (line, found) in [
            ("{$A:a.test} {", Some(("", "{$A:a.test}", "a.test", " {"))),
            ("x {$A} y:{$B:1}", Some(("x {$A} y:", "{$B:1}", "1", ""))),
            ("{$A:}", Some(("", "{$A:}", "", ""))),
            ("{$A} {$B", None),
            ("{header.A:b}", None),
        ] {
            assert_eq!(defaulted(line), found, "{line}");
        }
        let text =
            "# {$NAME:b.example.org}\n{$NAME:a.example.org} {\n\troot * {$ROOT:/srv/a}\n\tfile_server\n}\n";
        let found = converted(Dialect::Caddy, text);
        assert!(
            found.toml.contains("\"a.example.org\"") && found.toml.contains("root = \"/srv/a\""),
            "{}",
            found.toml
        );
        let notes = found
            .report
            .notes()
            .iter()
            .filter(|note| note.fate.why().contains("the default"));
        assert_eq!(notes.map(|note| note.line).collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn braces_in_quotes_are_words() {
        let text =
            "a.test {\n\theader X-Open \"{\"\n\theader X-Close `}`\n\troot * /srv/a\n\tfile_server\n}\n";
        let found = converted(Dialect::Caddy, text);
        assert!(found.toml.contains("X-Close: }\""), "{}", found.toml);
        let lines = found.report.notes().iter().map(|note| note.line);
        assert_eq!(lines.max(), Some(5), "{:?}", found.report);
        assert!(found.toml.contains("root = \"/srv/a\""), "{}", found.toml);
    }
}
