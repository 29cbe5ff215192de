//! Regular expressions that say no more than a few path patterns do, such as `\.(css|js)$`, as those patterns.
//!
//! An expression is read as literal text, alternatives of literal text, classes of at most 16 characters, and at most one
//! `.*`. Anything else is no pattern. For redirects, [`read_redirect`] also reads expressions whose patterns match a little
//! more or less.

use crate::pattern::{covers, covers_all, pattern, shortest};
use std::collections::BTreeMap;

/// Most patterns that one expression may become.
const PATTERNS_MAX: usize = 64;

/// Most patterns of the alternatives that have some, where others have none.
const PARTLY_MAX: usize = 256;

/// Most patterns that the expression of a redirect may become. Weir compares the rules one by one.
const REDIRECTS_MAX: usize = 1024;

/// Most characters that a class such as `[0-8]` may stand for.
const CLASS_MAX: usize = 16;

/// Longest expression, in bytes.
const EXPRESSION_MAX: usize = 4096;

/// Most groups within each other.
const DEPTH_MAX: usize = 8;

/// Most bytes of an expression that an error quotes.
const QUOTED_MAX: usize = 60;

/// What patterns may differ in from their expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Differing {
    Nothing,
    /// A `.` without a backslash is a dot, so they match fewer paths.
    Dots,
    /// A class is a star, too, and a slash at the beginning is that of the path.
    Much,
}

/// A part of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// Any text. `is_wide`: the expression allows less, as `[a-z]+` does. `is_filled`: the text is not empty, as that of `.+`.
    Any {
        is_wide: bool,
        is_filled: bool,
    },
    /// Beginning and end of what a group captures.
    Open(usize),
    Close(usize),
    /// The beginning of the path.
    Start,
    /// The end of the path.
    End,
}

impl Part {
    /// Whether the part stands for no text.
    fn is_marker(&self) -> bool {
        matches!(self, Part::Open(_) | Part::Close(_))
    }
}

/// A pattern, with the text that each group captures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Match {
    pub(crate) pattern: String,
    /// Texts of the groups from `$1` on, with a star where the pattern has it. `None`: no text with one star.
    groups: Vec<Option<String>>,
    /// How many characters the expression asks for where the pattern, with its star, asks for none.
    asked: usize,
}

impl Match {
    /// A pattern that no expression is behind.
    pub(crate) fn plain(pattern: &str) -> Match {
        Match {
            pattern: pattern.to_owned(),
            groups: Vec::new(),
            asked: 0,
        }
    }

    /// A text with `$1` to `$9` replaced by what the groups capture.
    ///
    /// # Errors
    /// The group that has no text of its own.
    pub(crate) fn fill(&self, text: &str) -> Result<String, String> {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            out.push_str(before);
            match after.bytes().next() {
                Some(digit @ b'1'..=b'9') if !self.groups.is_empty() => {
                    // A group that does not exist captures nothing.
                    if let Some(captured) = self.groups.get(usize::from(digit - b'1')) {
                        let captured = captured.as_deref().ok_or_else(|| {
                            format!(
                                "`${}` in `{text}` is a part of the star of `{}`, and Weir has the whole star only",
                                char::from(digit),
                                self.pattern
                            )
                        })?;
                        out.push_str(captured);
                    }
                    rest = &after[1..];
                }
                _ => {
                    out.push('$');
                    rest = after;
                }
            }
        }
        out.push_str(rest);
        Ok(out)
    }
}

/// The patterns of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) matches: Vec<Match>,
    /// How the patterns differ from the expression: every difference; `None` if there is none.
    pub(crate) differs: Option<String>,
}

impl Read {
    pub(crate) fn patterns(self) -> Vec<String> {
        self.matches.into_iter().map(|one| one.pattern).collect()
    }

    /// The patterns whose shortest path the expression does not match, because of a `.+`.
    pub(crate) fn filled(&self) -> Vec<String> {
        let filled = self.matches.iter().filter(|one| one.asked > 0);
        filled.map(|one| one.pattern.clone()).collect()
    }
}

/// The patterns that match the paths that the expression matches, and perhaps the shortest paths of [`Read::filled`].
///
/// # Errors
/// The expression, and the part of it that no few patterns can say.
pub(crate) fn read(expression: &str) -> Result<Read, String> {
    read_up_to(expression, PATTERNS_MAX, Differing::Nothing).map_err(|why| no_pattern(expression, &why))
}

/// As [`read`], for what limits nobody: a `.` without a backslash is a dot.
///
/// # Errors
/// As those of [`read`].
pub(crate) fn read_dots(expression: &str) -> Result<Read, String> {
    read(expression).or_else(|why| read_up_to(expression, PATTERNS_MAX, Differing::Dots).map_err(|_| why))
}

/// As [`read`], for redirects: more patterns, and patterns that differ a little from the expression. A `.` alone is a dot,
/// a class such as `[a-z]+` between other texts is a star, and an alternative without `^` begins at the root if it begins
/// with a slash.
///
/// # Errors
/// As those of [`read`].
pub(crate) fn read_redirect(expression: &str) -> Result<Read, String> {
    read_up_to(expression, REDIRECTS_MAX, Differing::Nothing)
        .or_else(|_| read_up_to(expression, REDIRECTS_MAX, Differing::Much))
        .map_err(|why| no_pattern(expression, &why))
}

/// An expression that leaves out paths by a look-ahead at its beginning, as `^/(?!a/)(.*)$`: the expression without it, and
/// patterns of the paths. `None`: it has none, or the paths have no patterns.
pub(crate) fn without_ahead(expression: &str) -> Option<(String, Vec<String>)> {
    let start = ["^/(?!", "^/?(?!", "^(?!"]
        .into_iter()
        .find(|start| expression.starts_with(start))?;
    let after = &expression[start.len()..];
    let mut depth = 1_usize;
    let mut is_escaped = false;
    let end = after.bytes().position(|b| {
        if is_escaped {
            is_escaped = false;
            return false;
        }
        match b {
            b'\\' => is_escaped = true,
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    let (inner, rest) = (&after[..end], &after[end + 1..]);
    let begins = if start == "^(?!" { "^" } else { "^/" };
    let left = read_redirect(&format!("{begins}({inner})")).ok()?;
    Some((format!("{begins}{rest}"), left.patterns()))
}

/// Patterns that match all paths that the expression matches, and others. Empty: only one for all paths does.
pub(crate) fn around(expression: &str) -> Vec<String> {
    let mut patterns: Vec<String> = Vec::new();
    for alternative in alternatives(expression) {
        let Some(pattern) = around_one(alternative) else {
            return Vec::new();
        };
        if !patterns.contains(&pattern) {
            patterns.push(pattern);
        }
    }
    match patterns.len() <= PATTERNS_MAX && expression.len() <= EXPRESSION_MAX {
        true => patterns,
        false => Vec::new(),
    }
}

/// The alternatives of an expression that no group holds.
pub(crate) fn alternatives(expression: &str) -> impl Iterator<Item = &str> {
    let (mut depth, mut is_escaped, mut is_class) = (0_usize, false, false);
    expression.split(move |c| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match c {
            _ if was_escaped => {}
            '\\' => is_escaped = true,
            ']' => is_class = false,
            _ if is_class => {}
            '[' => is_class = true,
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '|' => return depth == 0,
            _ => {}
        }
        false
    })
}

/// Where the first alternative of a text ends: at a `|`, or at the `)` of the group around it. `None`: only a whole reader of expressions
/// could tell.
fn end_of_alternative(text: &str) -> Option<usize> {
    if ["[]", "[^]", "\\Q", "(?#"].iter().any(|part| text.contains(part)) {
        return None;
    }
    let (mut depth, mut is_escaped, mut is_class) = (0_usize, false, false);
    for (at, c) in text.char_indices() {
        let was_escaped = std::mem::take(&mut is_escaped);
        match c {
            _ if was_escaped => {}
            '\\' => is_escaped = true,
            ']' => is_class = false,
            _ if is_class => {}
            '[' => is_class = true,
            '(' => depth += 1,
            ')' | '|' if depth == 0 => return Some(at),
            ')' => depth -= 1,
            _ => {}
        }
    }
    Some(text.len())
}

/// The pattern around one alternative: the text at its beginning and the text at its end. `None`: it has neither.
fn around_one(alternative: &str) -> Option<String> {
    let (starts, text) = match alternative.strip_prefix('^') {
        Some(text) => (true, text),
        None => (false, alternative),
    };
    // Characters that the path has once, and what else it may have.
    let mut atoms: Vec<Option<char>> = Vec::new();
    let (mut ends, mut depth, mut is_class) = (false, 0_usize, false);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        ends = false;
        match c {
            '\\' => {
                let escaped = chars.next()?;
                // Others, such as `\x41`, have more characters.
                if !escaped.is_ascii_punctuation() && !"dDwWsSbB".contains(escaped) {
                    return None;
                }
                let is_literal = depth == 0 && !is_class && escaped.is_ascii_punctuation();
                atoms.push(is_literal.then_some(escaped));
            }
            ']' if is_class => is_class = false,
            // A class of a name, as `[:alpha:]`.
            '[' if is_class => return None,
            _ if is_class => {}
            '[' => {
                let inside = chars.as_str();
                if inside.starts_with(']') || inside.starts_with("^]") {
                    return None;
                }
                is_class = true;
                atoms.push(None);
            }
            '(' => {
                let kind = chars.as_str().strip_prefix('?');
                if kind.is_some_and(|kind| !kind.starts_with([':', '!', '=', '<', 'i', 'P'])) {
                    return None;
                }
                depth += 1;
                atoms.push(None);
            }
            ')' => depth = depth.checked_sub(1)?,
            _ if depth > 0 => {}
            '$' => ends = true,
            '^' | '.' | '|' => atoms.push(None),
            // It is about the atom before it, and its numbers are text.
            '*' | '+' | '?' => atoms.last_mut().map(|last| *last = None)?,
            '{' => {
                atoms.last_mut().map(|last| *last = None)?;
                while chars.next()? != '}' {}
            }
            c => atoms.push(Some(c)),
        }
    }
    if depth > 0 || is_class {
        return None;
    }
    let literal = |atom: &Option<char>| *atom;
    let front: String = match starts {
        true => atoms.iter().map_while(literal).collect(),
        false => String::new(),
    };
    let rest = &atoms[front.chars().count()..];
    let mut back: Vec<char> = match ends {
        true => rest.iter().rev().map_while(literal).collect(),
        false => Vec::new(),
    };
    back.reverse();
    let back: String = back.into_iter().collect();
    let is_narrow = |pattern: &String| !covers_all(pattern);
    pattern(&format!("{front}*{back}"))
        .or_else(|| pattern(&format!("{front}*")))
        .filter(is_narrow)
}

/// Patterns with any number of stars that together match the values which the expression matches.
///
/// # Errors
/// The expression, and the part of it that no few patterns can say.
pub(crate) fn read_value(expression: &str) -> Result<Vec<String>, String> {
    let fail = |why: &str| format!("`{}` is no pattern of a value: {why}", short(expression));
    if expression.len() > EXPRESSION_MAX || expression.contains(".+") {
        return Err(fail(
            "it is too long, or has `.+`, and a star also stands for nothing",
        ));
    }
    let mut reader = Reader {
        rest: expression,
        groups: 0,
        most: PATTERNS_MAX,
        skips: false,
        differing: Differing::Nothing,
        differs: Vec::new(),
    };
    let mut sequences = reader.alternatives(0).map_err(|why| fail(&why))?;
    if !reader.rest.is_empty() {
        return Err(fail("a `)` closes no group"));
    }
    let mut patterns: Vec<String> = Vec::new();
    for parts in &mut sequences {
        let starts = take_start(parts).map_err(|why| fail(&why))?;
        parts.retain(|part| !part.is_marker());
        let end = parts.iter().position(|part| *part == Part::End);
        if end.is_some_and(|end| parts[end..].iter().any(|part| *part != Part::End)) {
            return Err(fail("text after `$`"));
        }
        let mut pattern = String::new();
        let star = |pattern: &mut String| {
            if !pattern.ends_with('*') {
                pattern.push('*');
            }
        };
        if !starts {
            star(&mut pattern);
        }
        for part in parts.iter() {
            match part {
                Part::Text(text) if text.contains('*') || text.chars().any(char::is_control) => {
                    return Err(fail("a star or a control character in its text"));
                }
                Part::Text(text) => pattern.push_str(text),
                Part::Any { .. } => star(&mut pattern),
                Part::Open(_) | Part::Close(_) | Part::Start | Part::End => {}
            }
        }
        if end.is_none() {
            star(&mut pattern);
        }
        if pattern.trim() != pattern {
            return Err(fail("white space at its end"));
        }
        if !patterns.contains(&pattern) {
            patterns.push(pattern);
        }
    }
    Ok(patterns)
}

fn no_pattern(expression: &str, why: &str) -> String {
    format!("`{}` is no path pattern with one star: {why}", short(expression))
}

/// The beginning of a text, for errors.
fn short(text: &str) -> String {
    if text.len() <= QUOTED_MAX {
        return text.to_owned();
    }
    let end = (0..=QUOTED_MAX).rev().find(|end| text.is_char_boundary(*end));
    format!("{}...", &text[..end.unwrap_or(0)])
}

/// Whether a redirect takes the slash at the end off any path.
pub(crate) fn is_slash_removal(expression: &str, text: &str) -> bool {
    let any = ["^/(.+?)/$", "^/(.*)/$", "^/(.+)/$", "^/(.*)/+$", "^/(.+)/+$"];
    (any.contains(&expression) && text == "/$1")
        || (matches!(expression, "^(.*)/$" | "^(.+)/$") && matches!(text, "$1" | "/$1"))
}

fn read_up_to(expression: &str, most: usize, differing: Differing) -> Result<Read, String> {
    if expression.len() > EXPRESSION_MAX {
        return Err(format!(
            "it has {} bytes, and the converter reads at most {EXPRESSION_MAX}",
            expression.len()
        ));
    }
    let mut reader = Reader {
        rest: expression,
        groups: 0,
        most,
        skips: false,
        differing,
        differs: Vec::new(),
    };
    let mut sequences = reader.alternatives(0)?;
    if !reader.rest.is_empty() {
        return Err("a `)` closes no group".to_owned());
    }
    let mut matches: Vec<Match> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for parts in &mut sequences {
        let starts = take_start(parts)?;
        let begins_at_root = matches!(
            parts.iter().find(|part| !part.is_marker()),
            Some(Part::Text(text)) if text.starts_with('/')
        );
        if !starts && differing == Differing::Much && begins_at_root {
            reader.note("the expression matches anywhere in a path, Weir's rule at its beginning");
        }
        let is_start = starts || (differing == Differing::Much && begins_at_root);
        let one = finish(is_start, parts, reader.groups)?;
        match known.get(&one.pattern) {
            Some(at) => matches[*at].asked = matches[*at].asked.min(one.asked),
            None => {
                known.insert(one.pattern.clone(), matches.len());
                matches.push(one);
            }
        }
    }
    reader.bound(matches.len())?;
    if differing != Differing::Much {
        keep_filled(&mut matches)?;
    }
    Ok(Read {
        matches,
        differs: (!reader.differs.is_empty()).then(|| reader.differs.join("; ")),
    })
}

/// Finds the matches whose shortest path no other alternative matches.
///
/// # Errors
/// One leaves out more than that path.
fn keep_filled(matches: &mut [Match]) -> Result<(), String> {
    if matches.iter().any(|one| one.asked > 1) {
        return Err("two `.+` next to each other".to_owned());
    }
    let is_matched = |path: &str| {
        let matches_it = |one: &Match| {
            let is_left_out = one.asked > 0 && shortest(&one.pattern) == path;
            !is_left_out && covers(&one.pattern, path)
        };
        matches.iter().any(matches_it)
    };
    let asks = |one: &Match| one.asked > 0 && !is_matched(&shortest(&one.pattern));
    let asked: Vec<bool> = matches.iter().map(asks).collect();
    for (one, asks) in matches.iter_mut().zip(asked) {
        one.asked = usize::from(asks);
    }
    Ok(())
}

/// Patterns of those alternatives of an expression that have one, wherever they are, in groups too: they match a part of its paths.
/// None is for all paths.
pub(crate) fn partly(expression: &str) -> Vec<String> {
    if expression.len() > EXPRESSION_MAX {
        return Vec::new();
    }
    let mut reader = Reader {
        rest: expression,
        groups: 0,
        most: PARTLY_MAX,
        skips: true,
        differing: Differing::Nothing,
        differs: Vec::new(),
    };
    let sequences = reader.alternatives(0).unwrap_or_default();
    let mut patterns: Vec<String> = Vec::new();
    for mut parts in sequences.into_iter().filter(|_| reader.rest.is_empty()) {
        let starts = take_start(&mut parts);
        let found = starts.and_then(|starts| finish(starts, &mut parts, reader.groups));
        patterns.extend(found.map(|one| one.pattern));
    }
    patterns.retain(|one| !covers_all(one));
    patterns.sort();
    patterns.dedup();
    patterns
}

/// Whether a sequence has `^`, which is taken out of it.
///
/// # Errors
/// Text before it: such a sequence matches nothing.
fn take_start(parts: &mut Vec<Part>) -> Result<bool, String> {
    let Some(last) = parts.iter().rposition(|part| *part == Part::Start) else {
        return Ok(false);
    };
    if parts[..last]
        .iter()
        .any(|part| *part != Part::Start && !part.is_marker())
    {
        return Err("text before `^`".to_owned());
    }
    parts.retain(|part| *part != Part::Start);
    Ok(true)
}

/// The pattern of a sequence of parts, and what its groups capture.
fn finish(starts: bool, parts: &mut Vec<Part>, groups: usize) -> Result<Match, String> {
    let any = Part::Any {
        is_wide: false,
        is_filled: false,
    };
    match parts.iter().position(|part| *part == Part::End) {
        // Nothing may follow the end of the path.
        Some(at)
            if parts[at..]
                .iter()
                .any(|part| *part != Part::End && !part.is_marker()) =>
        {
            return Err("text after `$`".to_owned());
        }
        Some(_) => parts.retain(|part| *part != Part::End),
        None if matches!(
            parts.iter().rfind(|part| !part.is_marker()),
            Some(Part::Any { .. })
        ) => {}
        None => parts.push(any.clone()),
    }
    if !starts
        && !matches!(
            parts.iter().find(|part| !part.is_marker()),
            Some(Part::Any { .. })
        )
    {
        parts.insert(0, any);
    }
    let missing = || "a group that the converter does not know".to_owned();
    let mut text = String::new();
    let (mut stars, mut asked, mut is_joined, mut is_wide_last) = (0, 0_usize, false, false);
    // Where the groups begin, and their texts. One that takes no part captures nothing.
    let mut open = vec![0; groups];
    let mut captured: Vec<Option<String>> = vec![Some(String::new()); groups];
    // Groups that are open, and those with a star that joins another one.
    let (mut inside, mut sharing): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    for part in parts.iter() {
        match part {
            Part::Text(literal) if literal.contains('*') => {
                return Err(format!("a star in the text `{}`", short(literal)));
            }
            Part::Text(literal) => {
                text.push_str(literal);
                is_wide_last = false;
            }
            Part::Any { is_wide, is_filled } if text.ends_with('*') => {
                // Two stars next to each other are one, which no group has for itself.
                is_joined = true;
                sharing.extend(&inside);
                is_wide_last |= is_wide;
                asked += usize::from(*is_filled);
            }
            Part::Any { is_wide, is_filled } => {
                text.push('*');
                stars += 1;
                is_wide_last = *is_wide;
                asked += usize::from(*is_filled);
            }
            Part::Open(group) => {
                *open.get_mut(group - 1).ok_or_else(missing)? = text.len();
                inside.push(*group);
            }
            Part::Close(group) => {
                inside.retain(|known| known != group);
                let start = *open.get(group - 1).ok_or_else(missing)?;
                *captured.get_mut(group - 1).ok_or_else(missing)? = text.get(start..).map(str::to_owned);
            }
            Part::Start | Part::End => {}
        }
    }
    if stars > 1 {
        return Err(format!("`{}` has {stars} stars", short(&text)));
    }
    if is_wide_last {
        return Err("a class at its end, whose star would match all paths below".to_owned());
    }
    if is_joined {
        for (index, group) in captured.iter_mut().enumerate() {
            let has_star = group.as_ref().is_some_and(|text| text.contains('*'));
            if has_star || sharing.contains(&(index + 1)) {
                *group = None;
            }
        }
    }
    // A leading star stands for the leading slash at least, unless that follows.
    if text.starts_with('*') && !text.starts_with("*/") {
        asked = asked.saturating_sub(1);
    }
    let text = if text == "/*" && !starts {
        "*".to_owned()
    } else {
        text
    };
    let pattern = pattern(&text).ok_or_else(|| format!("`{}` is no pattern of Weir", short(&text)))?;
    Ok(Match {
        pattern,
        groups: captured,
        asked,
    })
}

struct Reader<'t> {
    rest: &'t str,
    groups: usize,
    /// Most sequences.
    most: usize,
    /// Whether alternatives that cannot be read are left out. What is left matches a part of what the expression matches.
    skips: bool,
    differing: Differing,
    differs: Vec<&'static str>,
}

impl Reader<'_> {
    fn take(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Notes a difference, each once.
    fn note(&mut self, differs: &'static str) {
        if !self.differs.contains(&differs) {
            self.differs.push(differs);
        }
    }

    /// # Errors
    /// More sequences than a list of rules may have.
    fn bound(&self, sequences: usize) -> Result<(), String> {
        match sequences <= self.most {
            true => Ok(()),
            false => Err(format!("it stands for more than {} patterns", self.most)),
        }
    }

    /// Alternatives up to the end of a group or of the expression.
    fn alternatives(&mut self, depth: usize) -> Result<Vec<Vec<Part>>, String> {
        // Deeper ones are not written by people.
        if depth > DEPTH_MAX {
            return Err(format!("groups more than {DEPTH_MAX} deep"));
        }
        let mut all = Vec::new();
        loop {
            let start = self.rest;
            let found = self.sequence(depth);
            let found = found.and_then(|found| self.bound(all.len() + found.len()).map(|()| found));
            match found {
                Ok(found) => all.extend(found),
                Err(why) => match end_of_alternative(start).filter(|_| self.skips) {
                    Some(end) => self.rest = &start[end..],
                    None => return Err(why),
                },
            }
            if !self.take("|") {
                return Ok(all);
            }
        }
    }

    fn sequence(&mut self, depth: usize) -> Result<Vec<Vec<Part>>, String> {
        let mut all: Vec<Vec<Part>> = vec![Vec::new()];
        while let Some(c) = self.rest.chars().next() {
            if c == '|' || c == ')' {
                break;
            }
            let before = self.rest;
            let mut next = self.atom(depth)?;
            if self.take("?") {
                next.push(Vec::new());
            }
            if let Some(sign) = self.rest.chars().next().filter(|c| "*+{?".contains(*c)) {
                let atom = &before[..before.len() - self.rest.len()];
                return Err(format!("`{}{sign}` repeats", short(atom)));
            }
            self.bound(all.len().saturating_mul(next.len()))?;
            match next.as_slice() {
                // The usual case: no copy of what is read already.
                [one] => all.iter_mut().for_each(|parts| append(parts, one)),
                several => {
                    let pairs = all
                        .iter()
                        .flat_map(|parts| several.iter().map(move |after| (parts, after)));
                    all = pairs
                        .map(|(parts, after)| {
                            let mut parts = parts.clone();
                            append(&mut parts, after);
                            parts
                        })
                        .collect();
                }
            }
        }
        Ok(all)
    }

    /// One atom with the repetition that makes it any text.
    fn atom(&mut self, depth: usize) -> Result<Vec<Vec<Part>>, String> {
        for (any, is_filled) in [(".*?", false), (".*", false), (".+?", true), (".+", true)] {
            if self.take(any) {
                let is_wide = false;
                return Ok(vec![vec![Part::Any { is_wide, is_filled }]]);
            }
        }
        if self.take("^") {
            return Ok(vec![vec![Part::Start]]);
        }
        if self.take("$") {
            return match self.rest.is_empty() || self.rest.starts_with([')', '|', '$']) {
                true => Ok(vec![vec![Part::End]]),
                false => Err("text after `$`".to_owned()),
            };
        }
        if self.take("(?:") {
            let inner = self.alternatives(depth + 1)?;
            return self.close(inner);
        }
        if self.take("(") {
            if self.rest.starts_with('?') {
                return Err(format!("`({}` is no plain group", self.ahead(3)));
            }
            self.groups += 1;
            let number = self.groups;
            let mut inner = self.alternatives(depth + 1)?;
            for parts in &mut inner {
                parts.insert(0, Part::Open(number));
                parts.push(Part::Close(number));
            }
            return self.close(inner);
        }
        if self.rest.starts_with('[') || self.rest.starts_with("\\d") || self.rest.starts_with("\\w") {
            return self.class();
        }
        let refused = format!("`{}` is no literal text", self.ahead(2));
        let mut chars = self.rest.chars();
        let Some(c) = chars.next() else {
            return Err("it ends too early".to_owned());
        };
        let literal = match c {
            '\\' => match chars.next() {
                Some(escaped) if !escaped.is_ascii_alphanumeric() => escaped,
                _ => return Err(refused),
            },
            '.' if self.differing != Differing::Nothing => {
                self.note("a `.` without a backslash is a dot in Weir's rule");
                c
            }
            '.' => return Err("a `.` without a backslash".to_owned()),
            '[' | ']' | '{' | '}' | '*' | '+' | '?' | ')' => return Err(refused),
            c => c,
        };
        self.rest = chars.as_str();
        Ok(vec![vec![Part::Text(literal.to_string())]])
    }

    /// The next characters, for an error.
    fn ahead(&self, count: usize) -> String {
        self.rest.chars().take(count).collect()
    }

    /// What is in a group, if it ends here.
    fn close(&mut self, inner: Vec<Vec<Part>>) -> Result<Vec<Vec<Part>>, String> {
        match self.take(")") {
            true => Ok(inner),
            false => Err("a group has no `)`".to_owned()),
        }
    }

    /// A class with its repetition: each of its characters, or any text.
    fn class(&mut self) -> Result<Vec<Vec<Part>>, String> {
        let (set, rest) = match self.rest.strip_prefix('[') {
            // Backslashes escape a character or begin a class such as `\d`; the bracket that ends the class has none.
            Some(inner) => {
                let mut is_escaped = false;
                let end = inner.char_indices().skip(1).find(|(_, c)| {
                    let is_end = *c == ']' && !is_escaped;
                    is_escaped = *c == '\\' && !is_escaped;
                    is_end
                });
                let Some((end, _)) = end else {
                    return Err("a class has no `]`".to_owned());
                };
                (&inner[..end], &inner[end + 1..])
            }
            None => self.rest.split_at(2),
        };
        let quoted = short(&self.rest[..self.rest.len() - rest.len()]);
        let repeated = ["*?", "+?", "*", "+"]
            .iter()
            .find_map(|one| rest.strip_prefix(one));
        let counted = rest
            .strip_prefix('{')
            .and_then(|rest| rest.split_once('}'))
            .map(|(_, rest)| rest);
        if let Some(rest) = repeated.or(counted) {
            if self.differing != Differing::Much {
                return Err(format!("the class `{quoted}` repeats"));
            }
            self.note("a class of characters is a `*` in Weir's rule, which matches any text");
            self.rest = rest;
            let (is_wide, is_filled) = (true, false);
            return Ok(vec![vec![Part::Any { is_wide, is_filled }]]);
        }
        let characters = match set.starts_with('^') || set.contains(['\\', '[']) {
            true => None,
            false => members(set),
        };
        let Some(characters) = characters else {
            return Err(format!(
                "the class `{quoted}` is more than {CLASS_MAX} literal characters"
            ));
        };
        self.rest = rest;
        Ok(characters
            .into_iter()
            .map(|c| vec![Part::Text(c.to_string())])
            .collect())
    }
}

/// The characters of a class such as `0-8` or `rn`; `None` if there are many.
fn members(set: &str) -> Option<Vec<char>> {
    let mut all = Vec::new();
    let mut chars = set.chars().peekable();
    while let Some(first) = chars.next() {
        let mut ahead = chars.clone();
        match (ahead.next(), ahead.next()) {
            (Some('-'), Some(last)) => {
                all.extend((first..=last).take(CLASS_MAX + 1));
                chars = ahead;
            }
            _ => all.push(first),
        }
        if all.len() > CLASS_MAX {
            return None;
        }
    }
    (!all.is_empty()).then_some(all)
}

/// Puts parts behind others, and joins the texts that meet there.
fn append(parts: &mut Vec<Part>, next: &[Part]) {
    for part in next {
        match (parts.last_mut(), part) {
            (Some(Part::Text(before)), Part::Text(after)) => before.push_str(after),
            (_, part) => parts.push(part.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_around_an_expression_matches_all_its_paths() {
        for (expression, expected) in [
            (r"^/(\d+)/secret$", &["/*/secret"][..]),
            (r"^/admin/\d+", &["/admin/*"]),
            (r"^/a?b/[0-9]+$", &[]),
            (r"^/ab*c/", &["/a*"]),
            (r"^/ab+/c", &["/a*"]),
            (r"^/ab{2}/c", &["/a*"]),
            (r"\.(\w+)\.bak$", &["*.bak"]),
            (r"^/x\.y/(a|b)\d/z$", &["/x.y/*/z"]),
            (r"^/x/\d|\.[a-z]+\.old$", &["/x/*", "*.old"]),
            // One alternative may be anywhere.
            (r"^/x/\d|secret", &[]),
            (r"^/[^/]+/[]a]b$", &[]),
            (r"^/[[:alpha:]]+/b$", &[]),
            (r"^/a/\x41$", &[]),
            (r"^/a/(?x) b$", &[]),
            (r"^/(?!a)b/\d$", &[]),
            (r"^/(\d+)$", &[]),
            (r"^/(\d+)/admin", &[]),
            (r"secret", &[]),
            (r"^/a(b", &[]),
            (r"^/my files/(\d+)/x$", &[]),
            (r"^/a/(\d+)/b c$", &["/a/*"]),
        ] {
            assert_eq!(around(expression), expected, "{expression}");
        }
    }

    #[test]
    fn dots_without_a_backslash_are_dots() {
        for (expression, patterns) in [
            (r"^/favicon.ico$", Some(&["/favicon.ico"][..])),
            (r"^/.well-known/", Some(&["/.well-known/*"])),
            // Classes and what is no beginning stay as they are.
            (r"^/a.b/[a-z]+/c", None),
            (r"/a.b", None),
        ] {
            let read = read_dots(expression);
            assert_eq!(read.is_ok(), patterns.is_some(), "{expression}");
            if let (Ok(read), Some(patterns)) = (read, patterns) {
                assert!(read.differs.is_some(), "{expression}");
                assert_eq!(read.patterns(), patterns, "{expression}");
            }
        }
    }

    #[test]
    fn alternatives_have_patterns_of_their_own() {
        for (expression, patterns) in [
            (
                r"(^#.*#|\.(bak|sw[op])|~)$",
                &["*.bak", "*.swo", "*.swp", "*~"][..],
            ),
            (r"\.(bak)|\.old$", &["*.old"]),
            // The look-ahead and the class are lost, and an empty alternative is for all paths.
            (
                r"/\.(?!well-known)|\.(bak|old)$|\d+$|~$|",
                &["*.bak", "*.old", "*~"],
            ),
            (r"[]|]\d|a$", &[]),
            (r"\.(bak", &[]),
            (r"^/a/.*/b", &[]),
            // In groups, too.
            (r"^/(?:\.(?!a)|occ|db_|[a-z]+\|x).*", &["/db_*", "/occ*"]),
            (r"^/((a|b+)|(?i)c|d)$", &["/a", "/d"]),
            (r"^/(b+)?x$", &["/x"]),
            (r"^/(b+)x$", &[]),
            // Where an alternative ends is not clear.
            (r"^/([]|]+|a)$", &[]),
            (r"\.a)|\.b$", &[]),
        ] {
            assert_eq!(partly(expression), patterns, "{expression}");
        }
        let many = |count: usize| {
            let names: Vec<String> = (0..count).map(|at| format!("n{at}")).collect();
            format!(r"\.({})$|\.z$", names.join("|"))
        };
        assert_eq!(partly(&many(PARTLY_MAX - 1)).len(), PARTLY_MAX);
        assert!(partly(&many(PARTLY_MAX + 1)).len() <= PARTLY_MAX);
    }

    #[test]
    fn expressions_become_patterns() {
        for (expression, patterns) in [
            (r"\.php$", Some(&["*.php"][..])),
            (r"\.(css|js)$", Some(&["*.css", "*.js"])),
            (r"\.(?:jpe?g|png)$", Some(&["*.jpeg", "*.jpg", "*.png"])),
            (r"^/old/(.*)$", Some(&["/old/*"])),
            (r"^/old/", Some(&["/old/*"])),
            (r"^/old$", Some(&["/old"])),
            (r"^/(a|b)/", Some(&["/a/*", "/b/*"])),
            (r"^.+\.html$", Some(&["*.html"])),
            (r"^/a/.*\.php$", Some(&["/a/*.php"])),
            (r"^(.*)$", Some(&["*"])),
            (r"^", Some(&["*"])),
            (r"^/a(/|$)", Some(&["/a/*", "/a"])),
            (r"^/[ab]$", Some(&["/a", "/b"])),
            (r"^/v[0-2]\.[5]/", Some(&["/v0.5/*", "/v1.5/*", "/v2.5/*"])),
            (r"/\.", None),
            (r"^/a/.*/b/.*$", None),
            (r"^/[0-9]+$", None),
            (r"^/[a-z]$", None),
            (r"^/[^a]$", None),
            (r"^/a$b$", None),
            (r"\d", None),
            (r"^/(?!a)", None),
            (r"a{2}", None),
            (r"(", None),
            (r"[", None),
            (r"[]", None),
            (r"a)", None),
            // Each alternative has a beginning of its own.
            (r"^/a$|/b\.txt$", Some(&["/a", "*/b.txt"])),
            (r"/b\.txt$|^/a$", Some(&["*/b.txt", "/a"])),
            (r"(^/a|/b)\.txt$", Some(&["/a.txt", "*/b.txt"])),
            (r"^/a|\.b$", Some(&["/a*", "*.b"])),
            (r"/a^/b", None),
        ] {
            let read = read(expression).ok().map(Read::patterns);
            let read: Option<Vec<&str>> = read.as_ref().map(|all| all.iter().map(|one| &**one).collect());
            assert_eq!(read.as_deref(), patterns, "{expression}");
        }
    }

    #[test]
    fn patterns_know_what_a_plus_leaves_out() {
        for (expression, filled) in [
            (r"^/a/.+", &["/a/*"][..]),
            (r"^/a/(.+?)$", &["/a/*"]),
            (r"^/a.+\.html$", &["/a*.html"]),
            (r"^/a(/.+)?$", &["/a/*"]),
            (r"^/(a/.+|b/.*)$", &["/a/*"]),
            (r"^/.+$", &["/*"]),
            (r".+/b$", &["*/b"]),
            (r"^/a/.+.*$", &["/a/*"]),
            (r"^/a/.*", &[]),
            // Another alternative matches the path.
            (r"^/a(/?$|/.+?$)", &[]),
            (r"^/a/.+|^/a/", &[]),
            (r"^/a/.+|^/.*/$", &[]),
            // A path has a slash at its front.
            (r"^.+\.html$", &[]),
            (r".+", &[]),
        ] {
            assert_eq!(read(expression).unwrap().filled(), filled, "{expression}");
        }
        let why = read(r"^/a/.+.+$").unwrap_err();
        assert!(why.contains("two `.+` next to each other"), "{why}");
        assert!(read_redirect(r"^/a/(.+)(.+)$").is_ok());
    }

    #[test]
    fn groups_capture_texts_and_the_star() {
        for (expression, text, rules) in [
            (r"^/old/(.*)$", "/new/$1", &[("/old/*", Some("/new/*"))][..]),
            (
                r"^/(a|b)/(.*)$",
                "/$2/$1",
                &[("/a/*", Some("/*/a")), ("/b/*", Some("/*/b"))],
            ),
            (
                r"^/((a|b)/(.*))$",
                "/x/$1",
                &[("/a/*", Some("/x/a/*")), ("/b/*", Some("/x/b/*"))],
            ),
            (r"^/old/.*$", "/new$1", &[("/old/*", Some("/new$1"))]),
            (r"^/((.*))$", "/$1/$2", &[("/*", Some("/*/*"))]),
            (r"^/a(.*)(.*)$", "/$1", &[("/a*", None)]),
            (
                r"^/a(/?$|/.+?$)",
                "/b$1",
                &[("/a/", Some("/b/")), ("/a", Some("/b")), ("/a/*", Some("/b/*"))],
            ),
            (
                r"^/(x/)?p(\.html)?$",
                "/$1q$2$3",
                &[
                    ("/x/p.html", Some("/x/q.html")),
                    ("/x/p", Some("/x/q")),
                    ("/p.html", Some("/q.html")),
                    ("/p", Some("/q")),
                ],
            ),
            (r"^/(a)$", "$host/$1$", &[("/a", Some("$host/a$"))]),
        ] {
            let read = read(expression).unwrap();
            let filled: Vec<_> = read
                .matches
                .iter()
                .map(|one| (one.pattern.clone(), one.fill(text).ok()))
                .collect();
            let filled: Vec<_> = filled
                .iter()
                .map(|(pattern, text)| (&**pattern, text.as_deref()))
                .collect();
            assert_eq!(filled, rules, "{expression}");
        }
        assert_eq!(Match::plain("/a").fill("/$1"), Ok("/$1".to_owned()));
        let joined = read(r"^/a(.*)(.*)$").unwrap();
        let why = joined.matches[0].fill("/x/$2").unwrap_err();
        assert!(why.contains("`$2`") && why.contains("`/a*`"), "{why}");
    }

    #[test]
    fn patterns_of_redirects_may_differ_a_little() {
        for (expression, pattern, differs) in [
            (r"^/a\.html$", Some("/a.html"), None),
            (r"^/a.html$", Some("/a.html"), Some("dot")),
            (
                r"^/lib/module-([a-zA-Z0-9.]+)\.html$",
                Some("/lib/module-*.html"),
                Some("class"),
            ),
            (r"^/v\d+/x$", Some("/v*/x"), Some("class")),
            (r"^/v[\d]{2}/x$", Some("/v*/x"), Some("class")),
            (r"/who\.html", Some("/who.html*"), Some("beginning")),
            (r"/py3k(.*)$", Some("/py3k*"), Some("beginning")),
            // A class at the end would take whole folders.
            (r"^/([a-z]+)$", None, None),
            (r"^/a/[^/]+", None, None),
            (r"^/[a-z]+[0-9]*$", None, None),
            // Two stars remain two.
            (r"^/([a-z-]+)/doc/(.*)$", None, None),
            (r"who\.html", None, None),
        ] {
            let read = read_redirect(expression).ok();
            let found = read.as_ref().map(|read| &*read.matches[0].pattern);
            assert_eq!(found, pattern, "{expression}");
            let why = read.and_then(|read| read.differs).unwrap_or_default();
            assert!(why.contains(differs.unwrap_or_default()), "{expression}: {why}");
            assert_eq!(why.is_empty(), differs.is_none(), "{expression}: {why}");
        }
        assert!(read(r"^/a.html$").is_err(), "other rules must not differ");
    }

    #[test]
    fn every_difference_is_named_once() {
        let differs = read_redirect(r"/a.b-[a-z]+.html$").unwrap().differs.unwrap();
        for part in ["a `.` without", "a class of", "anywhere in a path"] {
            assert_eq!(differs.matches(part).count(), 1, "{differs}");
        }
    }

    #[test]
    fn errors_name_the_expression_and_its_part() {
        for (expression, part) in [
            (r"^/[0-9]+$", "class at its end"),
            (r"^/a/.*/b/.*$", "`/a/*/b/*` has 2 stars"),
            (r"^/(?!a)", "`(?!a`"),
            (r"^/a+b$", "`a+` repeats"),
            (r"^/\sb$", r"`\s`"),
            (r"^/[a-z]$", "class `[a-z]`"),
            (r"^/(a$", "no `)`"),
        ] {
            let why = read_redirect(expression).unwrap_err();
            assert!(why.starts_with(&format!("`{expression}`")), "{why}");
            assert!(why.contains(part), "{expression}: {why}");
        }
    }

    #[test]
    fn the_number_of_patterns_is_bounded() {
        let two = "(a|b)";
        let count = |read: Result<Read, String>| read.ok().map(|read| read.matches.len());
        assert_eq!(count(read(&format!("^/{}$", two.repeat(6)))), Some(64));
        assert_eq!(count(read(&format!("^/{}$", two.repeat(7)))), None);
        assert_eq!(
            count(read_redirect(&format!("^/{}$", two.repeat(10)))),
            Some(1024)
        );
        assert_eq!(count(read_redirect(&format!("^/{}$", two.repeat(11)))), None);
        assert!(read(&"(".repeat(EXPRESSION_MAX)).is_err());
        // The bound of an expression, and one byte more.
        let text = |bytes: usize| format!("^/{}$", "a".repeat(bytes - 3));
        assert!(read(&text(EXPRESSION_MAX)).is_ok());
        let why = read(&text(EXPRESSION_MAX + 1)).unwrap_err();
        assert!(
            why.contains("it has 4097 bytes") && why.contains("at most 4096"),
            "{why}"
        );
        assert!(why.len() < 200, "{why}");
    }
}
