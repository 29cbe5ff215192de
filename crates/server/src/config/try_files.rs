//! Files that are tried in order for a path, and what becomes of a slash at its end.
//!
//! Decides which paths are tried; does not know which files exist.

use super::condition::{Conditions, Facts};
use super::fastcgi::FastCgi;
use super::pattern::PathPattern;
use super::values::site_path;
use crate::path::spelling;
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Deserializer, de};

/// Maximum number of files that a rule tries: each may cost a lookup on disk.
const FILES_MAX: usize = 8;

/// A table `[[try-files]]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TryFiles {
    /// Matches the path of the request.
    pub path: PathPattern,
    /// What requests must have for the rule to apply.
    #[serde(default, rename = "if")]
    pub conditions: Conditions,
    /// Files in the order in which they are tried.
    pub files: Vec<Tried>,
    /// What becomes of a slash at the end of a path.
    #[serde(default)]
    pub trailing_slash: TrailingSlash,
}

units::words! {
    /// What becomes of a slash at the end of a path.
    #[derive(Default)]
    pub enum TrailingSlash {
        /// A directory has one and a file has none; only directories are looked up for a path with one.
        #[default]
        Keep = "keep",
        /// A path with a slash redirects to the path without.
        Remove = "remove",
        /// A path without a slash redirects to the path with one, if a file was found that is not the path itself.
        Add = "add",
    }
}

/// A file that is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    /// The path of the request and this text: `$path` or `$path.html`.
    Path(String),
    /// This path of the site.
    File(String),
    /// The path of the site with what the star of the rule's path stands for between these texts.
    Star(String, String),
}

impl FromStr for Tried {
    type Err = String;

    fn from_str(text: &str) -> Result<Tried, String> {
        // Access rules compare normalized spellings.
        let spelled = |path: &str| site_path(path).ok().and_then(|()| spelling(path.as_bytes()));
        if let Some(suffix) = text.strip_prefix("$path") {
            // The path may be anything; a name in its place must make a path.
            let example = format!("/x{suffix}");
            let is_suffix = suffix.is_empty() || suffix.starts_with(['.', '/', '-', '_']);
            if is_suffix && !suffix.ends_with('/') && spelled(&example) == Some(example.into_bytes()) {
                return Ok(Tried::Path(suffix.to_owned()));
            }
        } else if let Some((before, after)) = text.split_once('*') {
            // What the star stands for may be anything; a name in its place must make a path.
            let example = format!("{before}x{after}");
            if !text.contains('$') && spelled(&example) == Some(example.into_bytes()) && !after.contains('*')
            {
                return Ok(Tried::Star(before.to_owned(), after.to_owned()));
            }
        } else if !text.contains('$')
            && let Some(path) = spelled(text).and_then(|path| String::from_utf8(path).ok())
        {
            return Ok(Tried::File(path));
        }
        Err(format!(
            "`{}` is not a file to try; write $path, $path with an ending, or a path of the site, as in $path.html, \
             $path/index.html, /index.html or /new/*",
            text.escape_debug()
        ))
    }
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tried::Path(suffix) => write!(f, "$path{suffix}"),
            Tried::File(path) => f.write_str(path),
            Tried::Star(before, after) => write!(f, "{before}*{after}"),
        }
    }
}

impl<'de> Deserialize<'de> for Tried {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Tried, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

impl TryFiles {
    /// Whether the rule applies to a request for `spelled`, a path in normalized spelling.
    pub(crate) fn applies(&self, spelled: &[u8], facts: Facts<'_, '_, '_>) -> bool {
        self.path.matches(spelled) && self.conditions.hold(facts)
    }

    /// Whether the file at this index is the path of the request itself.
    pub(crate) fn is_path(&self, at: usize) -> bool {
        matches!(self.files.get(at), Some(Tried::Path(suffix)) if suffix.is_empty())
    }

    /// The path to look up for the file at this index; `None`: there is none for this path. `spelled` is the path of the
    /// request, in normalized spelling.
    pub(crate) fn file(&self, at: usize, spelled: &[u8]) -> Option<Vec<u8>> {
        match self.files.get(at)? {
            Tried::File(path) => Some(path.as_bytes().to_vec()),
            Tried::Star(before, after) => {
                let star = self.path.captures(spelled)?;
                // The parts can make a dot segment together; access rules compare normalized spellings.
                spelling(&[before.as_bytes(), star, after.as_bytes()].concat())
            }
            Tried::Path(suffix) => {
                let path = without_slash(spelled);
                // The directory itself has an index, and `/.html` is a hidden file.
                let is_root = path.is_empty() && !suffix.starts_with('/');
                (!is_root || suffix.is_empty()).then(|| {
                    let path = if suffix.is_empty() { spelled } else { path };
                    [path, suffix.as_bytes()].concat()
                })
            }
        }
    }

    /// The paths that may answer a request for this path, besides itself.
    pub(crate) fn all<'t>(&'t self, spelled: &'t [u8]) -> impl Iterator<Item = Vec<u8>> + 't {
        (0..self.files.len()).filter_map(move |at| self.file(at, spelled))
    }

    /// Whether the path redirects to itself with a slash, because the file at this index was found.
    pub(crate) fn adds_slash(&self, at: usize, spelled: &[u8]) -> bool {
        let is_made = match self.files.get(at) {
            Some(Tried::Path(suffix)) => !suffix.is_empty(),
            _ => false,
        };
        self.trailing_slash == TrailingSlash::Add && is_made && !spelled.ends_with(b"/")
    }

    /// The location that this path redirects to before any file is looked up.
    pub(crate) fn redirect<'s>(&self, spelled: &'s [u8]) -> Option<&'s [u8]> {
        let bare = without_slash(spelled);
        (self.trailing_slash == TrailingSlash::Remove && bare.len() < spelled.len() && !bare.is_empty())
            .then_some(bare)
    }

    /// Whether files other than the path itself are tried for it.
    pub(crate) fn tries(&self, spelled: &[u8]) -> bool {
        self.trailing_slash != TrailingSlash::Keep || !spelled.ends_with(b"/")
    }

    fn validate(&self) -> Result<(), String> {
        let TryFiles { path, files, .. } = self;
        if files.is_empty() || files.len() > FILES_MAX {
            return Err(format!(
                "the rule for `{path}` tries {} files; name 1 to {FILES_MAX}, as in [\"$path\", \"$path.html\"]",
                files.len()
            ));
        }
        let is_star = |file: &Tried| matches!(file, Tried::Star(..));
        if !path.has_star() && files.iter().any(is_star) {
            return Err(format!(
                "the rule for `{path}` tries a file with a star, which stands for that of the path; write a star in the path, too"
            ));
        }
        let twice = |(at, file): (usize, &Tried)| files[..at].contains(file).then(|| file.clone());
        match files.iter().enumerate().find_map(twice) {
            Some(file) => Err(format!(
                "the rule for `{path}` tries `{file}` twice; name it once"
            )),
            None => Ok(()),
        }
    }
}

/// A path without the slash at its end.
fn without_slash(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").unwrap_or(path)
}

/// Validates the rules of a site.
pub(super) fn validate(rules: &[TryFiles]) -> Result<(), String> {
    rules.iter().try_for_each(TryFiles::validate)
}

/// Checks that the rules of a site try none of its scripts: these are no files, so a rule would never find one.
pub(super) fn validate_scripts(rules: &[TryFiles], scripts: &[FastCgi]) -> Result<(), String> {
    for TryFiles { path, files, .. } in rules {
        for file in files {
            let end = match file {
                Tried::Path(end) | Tried::File(end) | Tried::Star(_, end) => end,
            };
            if !scripts.iter().any(|one| end.ends_with(&*one.extension)) {
                continue;
            }
            let remedy = match file {
                Tried::File(script) => format!(
                    "remove it, and set `front = \"{script}\"` in `[proxy.fastcgi]` of a `[[proxy]]` rule for `{path}`, before \
                     rules for wider paths"
                ),
                Tried::Path(_) | Tried::Star(..) => {
                    "remove it: a script answers under its own path, and `front` of `[proxy.fastcgi]` for paths without a file"
                        .to_owned()
                }
            };
            return Err(format!(
                "the rule for `{path}` tries `{file}`, which is a script and no file; {remedy}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> TryFiles {
        toml::from_str(&format!("path = '*'\n{text}")).unwrap()
    }

    #[test]
    fn files_are_made_of_the_path() {
        let rule = rule("files = ['$path', '$path.html', '$path/index.html', '/last.html']");
        for (path, files) in [
            ("/a", &["/a", "/a.html", "/a/index.html", "/last.html"][..]),
            ("/a/", &["/a/", "/a.html", "/a/index.html", "/last.html"]),
            ("/", &["/", "/index.html", "/last.html"]),
            (
                "/a%20b",
                &["/a%20b", "/a%20b.html", "/a%20b/index.html", "/last.html"],
            ),
        ] {
            let made: Vec<String> = rule
                .all(path.as_bytes())
                .map(|file| String::from_utf8(file).unwrap())
                .collect();
            assert_eq!(made, files, "{path}");
        }
        assert!(rule.is_path(0) && !rule.is_path(1) && !rule.is_path(9));
    }

    #[test]
    fn a_star_is_that_of_the_path() {
        for (path, file, asked, tried) in [
            ("/old/*", "/new/*", "/old/a/b", Some("/new/a/b")),
            ("/old/*", "/new/*/index.html", "/old/a", Some("/new/a/index.html")),
            ("*.php", "*.html", "/a/b.php", None),
            ("*.php", "/static*.html", "/a/b.php", Some("/static/a/b.html")),
            ("/v/*/app.js", "/app.*.js", "/v/3/app.js", Some("/app.3.js")),
            // Together with a dot of the path, the parts leave their folder; rules must see where they lead.
            ("/old*", "/new/*", "/old../secret", Some("/secret")),
            ("/old*", "/new/*", "/old./a", Some("/new/a")),
            ("/old*", "/new*", "/old//../../x", None),
        ] {
            let rule: Result<TryFiles, _> = toml::from_str(&format!("path = '{path}'\nfiles = ['{file}']"));
            let Ok(rule) = rule else {
                assert_eq!(tried, None, "{file}");
                continue;
            };
            assert_eq!(validate(std::slice::from_ref(&rule)), Ok(()));
            let got = spelling(asked.as_bytes()).and_then(|asked| rule.file(0, &asked));
            let got = got.map(|got| String::from_utf8(got).unwrap());
            assert_eq!(got.as_deref(), tried, "{path} {file} {asked}");
        }
        let rule: TryFiles = toml::from_str("path = '/a'\nfiles = ['/new/*']").unwrap();
        assert!(validate(&[rule]).unwrap_err().contains("a star in the path"));
    }

    #[test]
    fn a_slash_is_kept_removed_or_added() {
        for (policy, path, redirect, tries) in [
            ("keep", "/a/", None, false),
            ("keep", "/a", None, true),
            ("remove", "/a/", Some("/a"), true),
            ("remove", "/a", None, true),
            ("remove", "/", None, true),
            ("add", "/a/", None, true),
            ("add", "/a", None, true),
        ] {
            let rule = rule(&format!("files = ['$path.html']\ntrailing-slash = '{policy}'"));
            assert_eq!(rule.redirect(path.as_bytes()), redirect.map(str::as_bytes));
            assert_eq!(rule.tries(path.as_bytes()), tries, "{policy} {path}");
        }
    }

    #[test]
    fn mistakes_are_explained() {
        for text in [
            "",
            "$uri",
            "$path/",
            "$pathx",
            "$path?x",
            "a.html",
            "/a$path",
            "//a",
            "$path/../x",
            "$path%2ehtml",
            "$path.%zz",
            "/a*b*",
            "*.html",
            "/$path*",
        ] {
            let why = text.parse::<Tried>().unwrap_err();
            assert!(why.contains("$path/index.html"), "{why}");
        }
        let file: Tried = "/x/../%61.html".parse().unwrap();
        assert_eq!(file, Tried::File("/a.html".to_owned()));
        let many = format!("files = [{}]", "'/a', ".repeat(FILES_MAX + 1));
        for (text, advice) in [
            ("files = []", "name 1 to 8"),
            (&*many, "tries 9 files"),
            ("files = ['$path', '/a', '$path']", "tries `$path` twice"),
        ] {
            let why = validate(&[rule(text)]).unwrap_err();
            assert!(why.contains(advice), "{why}");
        }
        let most: Vec<String> = (0..FILES_MAX).map(|n| format!("'/{n}'")).collect();
        assert_eq!(
            validate(&[rule(&format!("files = [{}]", most.join(",")))]),
            Ok(())
        );
    }
}
