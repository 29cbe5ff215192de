//! Rewrites that put all paths below a folder. Weir changes no paths inside, so without them it answers what is beside that
//! folder, too.

use crate::fate::Fate;

/// What stands for the path of a request: Caddy's placeholders, then variables and groups of nginx and Apache.
const PATHS: [&str; 7] = [
    "{uri}",
    "{path}",
    "{http.request.uri}",
    "{http.request.uri.path}",
    "$request_uri",
    "$uri",
    "$1",
];

/// Expressions that match all paths.
const ALL: [&str; 8] = [
    "^/(.*)$", "^(.*)$", "^/?(.*)$", "^/(.*)", "^(.*)", "/(.*)", "(.*)", "^",
];

/// Whether a rewrite with this expression matches all paths.
pub(crate) fn is_of_all(expression: &str) -> bool {
    ALL.contains(&expression)
}

/// The fate of a rewrite of all paths to this target, if it puts them below a folder.
pub(crate) fn lost(target: &str) -> Option<Fate> {
    let folder = PATHS.iter().find_map(|path| target.strip_suffix(path))?;
    let name = folder.trim_matches('/');
    let is_plain = !name.is_empty() && !name.contains(['$', '{', '?', ':']) && !name.contains(".php");
    is_plain.then(|| {
        Fate::open(format!(
            "all paths are below `{name}`, and the result answers what is beside it, too; make that folder the `root`, or \
             write `rewrite = \"/{name}/*\"` in the `[[proxy]]`"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_in_front_of_the_whole_path_confines() {
        for (target, is_confined) in [
            ("/public{uri}", true),
            ("/a/b{http.request.uri.path}", true),
            ("public/$1", true),
            ("/public/$1", true),
            ("/$1", false),
            ("$1", false),
            ("/index.php/$1", false),
            ("/index.html", false),
            ("/$host/$1", false),
            ("https://a.test/$1", false),
        ] {
            let fate = lost(target);
            assert_eq!(fate.is_some(), is_confined, "{target}: {fate:?}");
        }
        assert!(is_of_all("^(.*)$") && !is_of_all("^/a/(.*)$"));
    }
}
