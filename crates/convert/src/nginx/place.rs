//! Which paths a `location` stands for, and in which order locations are tried.

use crate::access::Access;
use crate::directive::Directive;
use crate::hidden;
use crate::pattern::{covers, meet, pattern, shortest};
use crate::regex::{self, Match};
use core::cmp::Reverse;

/// Expressions for the paths of scripts of PHP, as the manuals of nginx and of applications spell them. Weir splits paths
/// behind the name of a script by itself.
const SCRIPTS: [&str; 17] = [
    r"\.php$",
    r"\.php",
    r"\.php(/|$)",
    r"\.php($|/)",
    r"\.php(?:/|$)",
    r"\.php(?:$|/)",
    r"[^/]\.php$",
    r"[^/]\.php(/|$)",
    r"^.+\.php$",
    r"^.+\.php(/|$)",
    r"^.+\.php(/.+)?$",
    r"^(.+\.php)(.*)$",
    r"^(.+\.php)(/.*)?$",
    r".*\.php$",
    r"\.php$|^/update.php",
    r"\.php$|^/update\.php",
    r"^/.+\.php(/|$)",
];

/// What access rules of weaker locations do to the paths of a location that has no rule of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Behind {
    /// No such rule meets the paths, or all are of locations beside this one and admit no more clients than the level around them.
    Nothing,
    /// Rules of locations in a weaker one refuse clients whom nginx admits.
    Limits,
    /// A rule admits clients whom nginx refuses.
    Admits,
}

/// The paths of a location.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Patterns; empty if Weir has none for the location.
    pub(super) patterns: Vec<String>,
    /// Those of an expression that does not match the shortest path of the pattern, as `/a/*` for `^/a/.+`.
    pub(super) filled: Vec<String>,
    /// The patterns of an expression with what its groups capture, in the same order.
    matches: Vec<Match>,
    /// How the patterns differ from the expression.
    pub(super) differs: Option<String>,
    /// Why Weir has no patterns for the location.
    pub(super) why: Option<String>,
    /// The text of a location that is a prefix.
    pub(super) prefix: Option<String>,
    /// Whether nginx compares without regard to case.
    pub(super) any_case: bool,
    /// Whether only names that begin with a dot match: Weir hides those.
    pub(super) is_hidden: bool,
    /// Whether all scripts of PHP are meant, and an application of FastCGI answers them.
    pub(super) is_php: bool,
    /// Name of a location that only others refer to, as in `@app`.
    pub(super) name: Option<String>,
    /// Whether only paths without a file are meant.
    pub(super) is_for_missing: bool,
    /// Paths of expressions, which are stronger although their rules come later, and whether they decide about clients.
    pub(super) overlapped: Vec<(String, bool)>,
    /// Paths of an expression whose files nginx looks for in the root around, and Weir in the folder of a weaker location, which admits
    /// fewer clients.
    pub(super) elsewhere: Vec<String>,
    /// Whether a shorter prefix with `^~` comes first in the result, because not all expressions have patterns.
    pub(super) is_behind_shorter: bool,
    /// Whether it is such a shorter one: it admits nobody whom another location refuses.
    pub(super) is_before_longer: bool,
    /// What the access rules of weaker locations, which come later in the result, do to paths of this one.
    pub(super) behind: Behind,
    rank: (u8, Reverse<usize>),
}

impl Place {
    /// The paths of the arguments of `location`.
    pub(super) fn of(location: &Directive) -> Place {
        let (kind, text) = match location.args.as_slice() {
            [text] => split(text),
            [kind, text, ..] => (kind.as_str(), text.as_str()),
            [] => ("", ""),
        };
        let mut place = Place {
            patterns: Vec::new(),
            filled: Vec::new(),
            matches: Vec::new(),
            differs: None,
            why: None,
            prefix: None,
            any_case: kind == "~*",
            is_hidden: false,
            is_for_missing: false,
            overlapped: Vec::new(),
            elsewhere: Vec::new(),
            is_behind_shorter: false,
            is_before_longer: false,
            behind: Behind::Nothing,
            is_php: false,
            name: text.strip_prefix('@').map(|_| text.to_owned()),
            rank: (3, Reverse(text.len())),
        };
        match kind {
            _ if place.name.is_some() => {}
            "=" => {
                place.patterns.extend(pattern(text));
                place.prefix = Some(text.to_owned());
                place.rank = (0, Reverse(0));
            }
            "~" | "~*" if SCRIPTS.contains(&text) && passes_to_fastcgi(location) => {
                place.rank = (2, Reverse(0));
                place.is_php = true;
                place.any_case = false;
                place.patterns.push("*.php".to_owned());
            }
            "~" | "~*" => {
                place.rank = (2, Reverse(0));
                place.is_hidden = hidden::is_hidden(text);
                let read = match is_redirect(location) {
                    true => regex::read_redirect(text),
                    false => regex::read(text),
                };
                match read {
                    Ok(read) => {
                        place.differs.clone_from(&read.differs);
                        place.matches.clone_from(&read.matches);
                        place.filled = read.filled();
                        place.patterns = read.patterns();
                    }
                    Err(why) => place.why = Some(why),
                }
            }
            _ => {
                place.patterns.extend(pattern(&format!("{text}*")));
                place.prefix = Some(text.to_owned());
                if kind == "^~" {
                    place.rank = (1, Reverse(text.len()));
                }
            }
        }
        place
    }

    /// Takes a `.` without a backslash for a dot, in an expression that has no patterns otherwise.
    pub(super) fn take_dots(&mut self, location: &Directive) {
        let text = location.args.last().map_or("", |text| text);
        if let (true, Ok(read)) = (
            self.is_expression() && self.patterns.is_empty(),
            regex::read_dots(text),
        ) {
            self.differs.clone_from(&read.differs);
            self.matches.clone_from(&read.matches);
            self.filled = read.filled();
            self.patterns = read.patterns();
        }
    }

    /// Makes a named location that of paths without a file.
    pub(super) fn answer_missing(&mut self, patterns: Vec<String>, filled: Vec<String>) {
        self.name = None;
        self.is_for_missing = true;
        self.patterns = patterns;
        self.filled = filled;
        self.matches.clear();
        self.rank = (4, Reverse(0));
    }

    /// Leaves the paths of the location around it: nginx looks at a location in another one for these paths alone. `filled`: those
    /// of its patterns whose shortest path it leaves out.
    pub(super) fn stay_within(&mut self, outer: &[String], filled: &[String]) {
        let is_inside = |path: &String| {
            let is_left_out = filled.iter().any(|one| shortest(one) == *path);
            !is_left_out && outer.iter().any(|around| covers(around, path))
        };
        if self.patterns.iter().all(is_inside) {
            let of_outer = self.patterns.iter().filter(|path| filled.contains(path));
            self.filled.extend(of_outer.cloned());
            return;
        }
        self.filled.extend(filled.iter().cloned());
        let mut within: Vec<String> = Vec::new();
        for path in &self.patterns {
            for both in outer.iter().flat_map(|around| meet(around, path)) {
                let is_left_out = self.filled.iter().any(|one| shortest(one) == both);
                if !is_left_out && !within.contains(&both) {
                    within.push(both);
                }
            }
        }
        self.filled.retain(|path| within.contains(path));
        if within.is_empty() {
            self.why = Some(format!(
                "no path of the location around it matches: `{}`",
                outer.join("`, `")
            ));
        }
        self.patterns = within;
        self.matches.clear();
        // Weir passes all scripts of a site on, or none.
        self.is_php = false;
    }

    /// The patterns, with what the groups of the expression capture.
    pub(super) fn matches(&self) -> Vec<Match> {
        match self.matches.is_empty() {
            true => self.patterns.iter().map(|path| Match::plain(path)).collect(),
            false => self.matches.clone(),
        }
    }

    /// An access rule of the location, which knows whether the expression leaves out the shortest path of its pattern.
    pub(super) fn marked(&self, rule: Access) -> Access {
        Access {
            is_filled: self.filled.contains(&rule.path),
            ..rule
        }
    }

    /// Locations with a lower rank are tried first; equal ones in the order of the file.
    pub(super) fn rank(&self) -> (u8, Reverse<usize>) {
        self.rank
    }

    /// Puts a prefix before the shorter ones that are stronger than expressions (`^~`): nginx takes the longest prefix, and asks
    /// only then whether expressions are stronger.
    pub(super) fn precede_shorter(&mut self) {
        self.rank.0 = 1;
    }

    /// Whether the location is a prefix that is weaker than expressions.
    pub(super) fn is_plain(&self) -> bool {
        self.rank.0 == 3 && self.prefix.is_some()
    }

    /// Whether the location is an expression.
    pub(super) fn is_expression(&self) -> bool {
        self.rank.0 == 2
    }

    /// Whether the location is stronger than expressions (`^~`, `=`).
    pub(super) fn is_preferred(&self) -> bool {
        self.rank.0 < 2
    }

    /// Whether the location is one path (`=`).
    pub(super) fn is_exact(&self) -> bool {
        self.rank.0 == 0
    }

    /// Whether all paths match.
    pub(super) fn is_everything(&self) -> bool {
        matches!(self.patterns.as_slice(), [one] if one == "/*" || one == "*")
    }
}

/// The modifier of a location that is written without a space behind it.
fn split(text: &str) -> (&str, &str) {
    ["=", "~*", "~", "^~"]
        .iter()
        .find_map(|kind| {
            text.split_at_checked(kind.len())
                .filter(|(start, _)| start == kind)
        })
        .unwrap_or(("", text))
}

/// Whether an application of FastCGI answers the requests of a location.
pub(super) fn passes_to_fastcgi(location: &Directive) -> bool {
    location.inner().iter().any(|one| one.name == "fastcgi_pass")
}

/// Whether a location does nothing but redirect.
fn is_redirect(location: &Directive) -> bool {
    let redirects =
        |one: &Directive| one.name == "return" && matches!(one.arg(0), "301" | "302" | "303" | "307" | "308");
    !location.inner().is_empty() && location.inner().iter().all(redirects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::At;

    fn place(args: &[&str]) -> Place {
        Place::of(&Directive {
            at: At {
                file: "x".into(),
                line: 1,
            },
            name: "location".to_owned(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            block: None,
        })
    }

    #[test]
    fn locations_are_patterns() {
        for (args, patterns) in [
            (&["/"][..], &["/*"][..]),
            (&["/a"], &["/a*"]),
            (&["=", "/a"], &["/a"]),
            (&["=/a"], &["/a"]),
            (&["^~", "/a/"], &["/a/*"]),
            (&["~*", r"\.(gif|png)$"], &["*.gif", "*.png"]),
            (&["~", r"/\d"], &[]),
            (&["@app"], &[]),
        ] {
            assert_eq!(place(args).patterns, patterns, "{args:?}");
        }
        assert!(place(&["~", r"/\."]).is_hidden && place(&["~", r"/\.(?!well-known)"]).is_hidden);
        assert!(place(&["/"]).is_everything());
    }

    #[test]
    fn a_location_in_an_expression_has_not_the_path_that_this_leaves_out() {
        let outer = place(&["~", "^/a/.+"]);
        for (args, patterns, filled) in [
            (&["~", "^/a/"][..], &["/a/*"][..], &["/a/*"][..]),
            (&["~", "^/a"], &["/a/*"], &["/a/*"]),
            (&["=", "/a/"], &[], &[]),
            (&["~", r"\.css$"], &["/a/*.css"], &[]),
        ] {
            let mut inner = place(args);
            inner.stay_within(&outer.patterns, &outer.filled);
            assert_eq!(inner.patterns, patterns, "{args:?}");
            assert_eq!(inner.filled, filled, "{args:?}");
        }
    }

    #[test]
    fn locations_are_tried_as_by_nginx() {
        let order = [
            &["=", "/"][..],
            &["^~", "/ab"],
            &["^~", "/a"],
            &["~", "x"],
            &["/abc"],
            &["/a"],
        ];
        let ranks: Vec<_> = order.iter().map(|args| place(args).rank()).collect();
        assert!(ranks.is_sorted(), "{ranks:?}");
    }
}
