//! The order in which Caddy applies the directives of a block, whatever their order in the file: by directive, and among equal
//! directives by their paths, the longest first. Decides only about directives of which the first one that matches answers.

use crate::directive::Directive;
use core::cmp::Reverse;
use std::collections::BTreeSet;

/// What the matcher of a directive is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Matched {
    /// One path, perhaps beside other conditions.
    Path(String),
    /// Several paths, or none.
    Others,
    /// All requests.
    Everything,
}

impl Matched {
    fn path(&self) -> Option<&str> {
        match self {
            Matched::Path(path) => Some(path),
            Matched::Others | Matched::Everything => None,
        }
    }
}

/// The place of a directive among others. Those at place 0 keep their order: the result sorts what they say by itself.
fn position(name: &str) -> u8 {
    match name {
        "redir" => 1,
        "rewrite" => 2,
        // Caddy sorts both as one directive.
        "handle" | "handle_path" => 3,
        "route" => 4,
        "abort" => 5,
        "error" => 6,
        "respond" => 7,
        "reverse_proxy" => 8,
        "php_fastcgi" => 9,
        _ => 0,
    }
}

/// The directives in Caddy's order.
pub(super) fn sorted<'d>(
    block: impl Iterator<Item = &'d Directive>,
    matched: impl Fn(&Directive) -> Matched,
) -> Vec<&'d Directive> {
    let mut all: Vec<(&Directive, Matched)> = block.map(|one| (one, matched(one))).collect();
    all.sort_by_key(|(one, _)| position(&one.name));
    for group in all.chunk_by_mut(|(one, _), (next, _)| position(&one.name) == position(&next.name)) {
        if group.first().is_some_and(|(one, _)| position(&one.name) > 0) {
            by_path(group);
        }
    }
    all.into_iter().map(|(one, _)| one).collect()
}

/// Sorts equal directives. Caddy compares the paths of two directives that have one each, and keeps the order of all others,
/// except that those for all requests are the last.
fn by_path(group: &mut [(&Directive, Matched)]) {
    group.sort_by_key(|(_, matched)| *matched == Matched::Everything);
    for run in group.chunk_by_mut(|(_, one), (_, next)| one.path().is_some() && next.path().is_some()) {
        let starred: BTreeSet<String> = run
            .iter()
            .filter_map(|(_, matched)| matched.path()?.strip_suffix('*').map(str::to_owned))
            .collect();
        // A path comes before the same path with a star.
        run.sort_by_key(|(_, matched)| {
            let path = matched.path().unwrap_or_default();
            let has_twin = starred.contains(path);
            (Reverse(path.len() + usize::from(has_twin)), !has_twin)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::At;

    /// The lines of a block in order. A line begins with the directive; `@` is a matcher without a path of its own.
    fn order(lines: &[&str]) -> Vec<String> {
        let block: Vec<Directive> = lines
            .iter()
            .map(|line| {
                let mut words = line.split_whitespace().map(str::to_owned);
                Directive {
                    at: At {
                        file: "c".into(),
                        line: 1,
                    },
                    name: words.next().expect("a name"),
                    args: words.collect(),
                    block: None,
                }
            })
            .collect();
        let matched = |one: &Directive| match one.arg(0) {
            path if path.starts_with('/') => Matched::Path(path.to_owned()),
            "@" => Matched::Others,
            _ => Matched::Everything,
        };
        sorted(block.iter(), matched)
            .into_iter()
            .map(Directive::shown)
            .collect()
    }

    #[test]
    fn the_longest_path_comes_first() {
        assert_eq!(
            order(&["redir /foo*", "redir /foo/bar", "redir /foo"]),
            ["redir /foo/bar", "redir /foo", "redir /foo*"]
        );
        assert_eq!(
            order(&["reverse_proxy a", "reverse_proxy /api/* b", "reverse_proxy @ c"]),
            ["reverse_proxy /api/* b", "reverse_proxy @ c", "reverse_proxy a"]
        );
        assert_eq!(
            order(&["handle", "handle /api/*", "handle_path /api/v2/*"]),
            ["handle_path /api/v2/*", "handle /api/*", "handle"]
        );
    }

    #[test]
    fn blocks_come_before_upstreams_and_redirects_before_both() {
        assert_eq!(
            order(&[
                "reverse_proxy a",
                "route /g/*",
                "handle /h/*",
                "redir /x",
                "header A b",
                "root * /srv"
            ]),
            [
                "header A b",
                "root * /srv",
                "redir /x",
                "handle /h/*",
                "route /g/*",
                "reverse_proxy a"
            ]
        );
    }

    #[test]
    fn paths_are_not_compared_across_other_matchers() {
        assert_eq!(
            order(&["redir /a", "redir @", "redir /abc", "redir /abcd", "redir to"]),
            ["redir /a", "redir @", "redir /abcd", "redir /abc", "redir to"]
        );
        // Equal lengths keep their order.
        assert_eq!(order(&["redir /ab", "redir /cd"]), ["redir /ab", "redir /cd"]);
    }
}
