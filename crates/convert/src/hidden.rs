//! Expressions about names that begin with a dot, which Weir hides among files.

use crate::fate::Fate;
use crate::regex::alternatives;

/// Why such names need no rule.
pub(crate) const WHY: &str = "names that begin with a dot get 404 unless `hidden` is set";

/// Why a rule about such names is open where an upstream answers.
pub(crate) const PASSED_ON: &str = "Weir hides names that begin with a dot among files only";

/// What an expression begins with if it matches only such names.
const STARTS: [&str; 9] = [
    r"/\.",
    r"\/\.",
    r"^\.",
    r"(^|/)\.",
    r"(/|^)\.",
    r"(?:^|/)\.",
    r"(?:/|^)\.",
    r".*/\.",
    r"^.*/\.",
];

/// Whether an expression matches only paths that Weir hides among files.
pub(crate) fn is_hidden(expression: &str) -> bool {
    alternatives(expression).all(|one| {
        // `/.well-known` is the only such name that Weir serves.
        behind_dot(one).is_some_and(|rest| !rest.contains("well-known") || rest.contains("(?!"))
    })
}

/// The fate of a rule that refuses the paths of such an expression. `is_known_elsewhere`: another rule admits
/// `/.well-known`.
pub(crate) fn fate(expression: &str, is_known_elsewhere: bool) -> Fate {
    let matches_known = alternatives(expression)
        .filter_map(behind_dot)
        .any(|rest| rest.is_empty() || rest.starts_with(['.', '+', '[', '\\']));
    // An expression such as `\.ht` means `.htaccess`, and also matches within names.
    let is_loose = alternatives(expression).any(|one| one.starts_with(r"\.ht"));
    match (matches_known && !is_known_elsewhere, is_loose) {
        (true, _) => Fate::changed(format!("{WHY}, except `/.well-known` at the root")),
        (false, true) => Fate::changed(format!(
            "{WHY}; Weir sends files with `.ht` within their names, such as `a.htpasswd`"
        )),
        (false, false) => Fate::unneeded(WHY),
    }
}

/// What follows the dot that begins the name. `None`: the expression matches other names, too.
fn behind_dot(expression: &str) -> Option<&str> {
    // As in nginx's and Apache's own examples, which mean `.htaccess` and `.htpasswd`.
    let of_apache = ["a", "p", "(a", "(p", "(?:a", "(?:p", "[ap"];
    if let Some(rest) = expression.strip_prefix(r"\.ht") {
        let is_meant = rest.is_empty() || of_apache.iter().any(|start| rest.starts_with(start));
        return is_meant.then_some("ht");
    }
    STARTS
        .iter()
        .find_map(|start| expression.strip_prefix(start))
        .or_else(|| {
            expression
                .strip_prefix('^')
                .and_then(|rest| rest.strip_prefix(r"/\."))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_begin_with_a_dot_are_hidden() {
        for (expression, expected) in [
            (r"/\.", true),
            (r"/\.(?!well-known)", true),
            (r"(^|/)\.git", true),
            (r"\.ht", true),
            (r"^\.ht(access|passwd)$", true),
            (r"/\.git|/\.svn", true),
            // Pages end with `.html`.
            (r"\.html$", false),
            (r"/\.well-known/private", false),
            (r"/\.(?:git|well-known)/", false),
            // The second alternative is about other names.
            (r"/\.git|\.php$", false),
            (r"\.bak$", false),
            (r"/[|]\.|x", false),
        ] {
            assert_eq!(is_hidden(expression), expected, "{expression}");
        }
    }

    #[test]
    fn well_known_is_served() {
        assert!(matches!(fate(r"/\.", false), Fate::Changed(_)));
        assert_eq!(fate(r"/\.", true), Fate::unneeded(WHY));
        assert_eq!(fate(r"/\.(?!well-known)", false), Fate::unneeded(WHY));
        assert_eq!(fate(r"/\.git", false), Fate::unneeded(WHY));
        assert_eq!(fate(r"^\.ht", true), Fate::unneeded(WHY));
        assert!(matches!(fate(r"\.ht", true), Fate::Changed(why) if why.contains("a.htpasswd")));
    }
}
