//! Regular expressions that say no more than a few path patterns do, such as `\.(css|js)$`, as those patterns.
//!
//! An expression is read as literal text, alternatives of literal text, and at most one `.*`. Anything else is no pattern.

use crate::pattern::pattern;

/// Most patterns that one expression may become.
const PATTERNS_MAX: usize = 64;

/// A part of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// Any text. `group` is the number of the group that captures exactly this.
    Any {
        group: Option<usize>,
    },
}

/// Patterns with the number of the group that each star stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) patterns: Vec<String>,
    /// The group that captures the star, if one does.
    pub(crate) group: Option<usize>,
}

/// The patterns that match the paths that the expression matches; `None` if no few patterns do.
pub(crate) fn read(expression: &str) -> Option<Read> {
    let mut reader = Reader {
        rest: expression,
        groups: 0,
    };
    let starts = reader.take("^");
    let mut sequences = reader.alternatives(0)?;
    if !reader.rest.is_empty() {
        return None;
    }
    let mut patterns = Vec::new();
    let mut groups = Vec::new();
    for parts in &mut sequences {
        let (pattern, group) = finish(starts, parts)?;
        groups.push(group);
        if !patterns.contains(&pattern) {
            patterns.push(pattern);
        }
    }
    let group = groups
        .first()
        .copied()
        .flatten()
        .filter(|first| groups.iter().all(|group| *group == Some(*first)));
    (!patterns.is_empty() && patterns.len() <= PATTERNS_MAX).then_some(Read { patterns, group })
}

/// The text of `$` at the end of an expression.
const END: &str = "\u{0}";

/// The pattern of a sequence of parts, and the group of its star.
fn finish(starts: bool, parts: &mut Vec<Part>) -> Option<(String, Option<usize>)> {
    let any = Part::Any { group: None };
    let is_end = |part: &Part| matches!(part, Part::Text(text) if text == END);
    if parts.last().is_some_and(is_end) {
        parts.pop();
    } else if !matches!(parts.last(), Some(Part::Any { .. })) {
        parts.push(any.clone());
    }
    if !starts && !matches!(parts.first(), Some(Part::Any { .. })) {
        parts.insert(0, any);
    }
    let (mut text, mut star) = (String::new(), None);
    for part in parts.iter() {
        match part {
            Part::Text(literal) if literal.contains([END.chars().next()?, '*']) => return None,
            Part::Text(literal) => text.push_str(literal),
            // Two stars next to each other are one, captured by neither.
            Part::Any { .. } if text.ends_with('*') => star = Some(None),
            Part::Any { group } => {
                text.push('*');
                if star.is_some() {
                    return None;
                }
                star = Some(*group);
            }
        }
    }
    // A leading star also stands for the leading slash.
    let text = if text == "/*" && !starts {
        "*".to_owned()
    } else {
        text
    };
    Some((pattern(&text)?, star.flatten()))
}

struct Reader<'t> {
    rest: &'t str,
    groups: usize,
}

impl Reader<'_> {
    fn take(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Alternatives up to the end of a group or of the expression.
    fn alternatives(&mut self, depth: usize) -> Option<Vec<Vec<Part>>> {
        // Deeper ones are not written by people.
        if depth > 8 {
            return None;
        }
        let mut all = Vec::new();
        loop {
            all.extend(self.sequence(depth)?);
            if all.len() > PATTERNS_MAX {
                return None;
            }
            if !self.take("|") {
                return Some(all);
            }
        }
    }

    fn sequence(&mut self, depth: usize) -> Option<Vec<Vec<Part>>> {
        let mut all: Vec<Vec<Part>> = vec![Vec::new()];
        while let Some(c) = self.rest.chars().next() {
            if c == '|' || c == ')' {
                break;
            }
            let mut next = self.atom(depth)?;
            if self.take("?") {
                next.push(Vec::new());
            }
            if self.rest.starts_with(['*', '+', '{', '?']) {
                return None;
            }
            all = all
                .iter()
                .flat_map(|before| {
                    next.iter()
                        .map(move |after| [before.clone(), after.clone()].concat())
                })
                .collect();
            if all.len() > PATTERNS_MAX {
                return None;
            }
        }
        for parts in &mut all {
            join(parts);
        }
        Some(all)
    }

    /// One atom with the repetition that makes it any text.
    fn atom(&mut self, depth: usize) -> Option<Vec<Vec<Part>>> {
        let text = |text: &str| Some(vec![vec![Part::Text(text.to_owned())]]);
        for any in [".*?", ".*", ".+?", ".+", "[^/]*", "[^/]+"] {
            // Several segments where the expression takes one: only a star can say either.
            if !any.starts_with('[') && self.take(any) {
                return Some(vec![vec![Part::Any { group: None }]]);
            }
        }
        if self.take("$") {
            return (self.rest.is_empty() || self.rest.starts_with([')', '|']))
                .then_some(vec![vec![Part::Text(END.to_owned())]]);
        }
        if self.take("(?:") {
            let inner = self.alternatives(depth + 1)?;
            return self.take(")").then_some(inner);
        }
        if self.take("(") {
            if self.rest.starts_with('?') {
                return None;
            }
            self.groups += 1;
            let number = self.groups;
            let mut inner = self.alternatives(depth + 1)?;
            for parts in &mut inner {
                if let [Part::Any { group }] = parts.as_mut_slice() {
                    *group = Some(number);
                }
            }
            return self.take(")").then_some(inner);
        }
        let mut chars = self.rest.chars();
        let c = chars.next()?;
        let literal = match c {
            '\\' => {
                let escaped = chars.next()?;
                if escaped.is_ascii_alphanumeric() {
                    return None;
                }
                escaped
            }
            '.' | '[' | ']' | '{' | '}' | '*' | '+' | '?' | '^' | ')' => return None,
            c => c,
        };
        self.rest = chars.as_str();
        text(&literal.to_string())
    }
}

/// Joins neighboring texts.
fn join(parts: &mut Vec<Part>) {
    let mut joined: Vec<Part> = Vec::new();
    for part in parts.drain(..) {
        match (joined.last_mut(), part) {
            (Some(Part::Text(before)), Part::Text(after)) if before != END && after != END => {
                before.push_str(&after)
            }
            (_, part) => joined.push(part),
        }
    }
    *parts = joined;
}

#[cfg(test)]
mod tests {
    use super::*;

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
            (r"/\.", None),
            (r"^/a/.*/b/.*$", None),
            (r"^/[0-9]+$", None),
            (r"\d", None),
            (r"^/(?!a)", None),
            (r"a{2}", None),
            (r"(", None),
            (r"a)", None),
        ] {
            let read = read(expression).map(|read| read.patterns);
            let read: Option<Vec<&str>> = read.as_ref().map(|all| all.iter().map(|one| &**one).collect());
            assert_eq!(read.as_deref(), patterns, "{expression}");
        }
    }

    #[test]
    fn the_group_of_the_star_is_known() {
        for (expression, group) in [
            (r"^/old/(.*)$", Some(1)),
            (r"^/(a|b)/(.*)$", Some(2)),
            (r"^/old/.*$", None),
            (r"^/(a)/(.*)\.html$", Some(2)),
            (r"^/((.*))$", Some(2)),
        ] {
            let read = read(expression).unwrap();
            // The outer of two equal groups renames the inner one.
            let group = if expression == r"^/((.*))$" {
                Some(1)
            } else {
                group
            };
            assert_eq!(read.group, group, "{expression}");
        }
    }

    #[test]
    fn the_number_of_patterns_is_bounded() {
        let two = "(a|b)";
        assert_eq!(read(&format!("^/{}$", two.repeat(6))).unwrap().patterns.len(), 64);
        assert_eq!(read(&format!("^/{}$", two.repeat(7))), None);
        assert_eq!(read(&"(".repeat(100_000)), None);
    }
}
