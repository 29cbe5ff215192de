//! `.htaccess` files in the folders of a site that is converted from the `.htaccess` of its root. Apache applies each to its folder, and
//! Weir reads none. Decides which of them become access rules of the result. All others are open, because they may limit access.

use super::rewrite::Wishes;
use super::site::{self, Context, Folder};
use super::{access, parse};
use crate::access::Access;
use crate::directive::Directive;
use crate::fate::Fate;
use crate::files::{Files, Nested, Text};
use crate::model::Site;
use crate::pattern::{overlaps, pattern};
use crate::report::{At, Report};

/// What reports call the files about which only the search itself says something.
const OTHERS: &str = "`.htaccess` of folders";

/// What the names of directives begin with that no `.htaccess` may have.
const OF_SERVER: [&str; 10] = [
    "<directory",
    "<location",
    "<proxy",
    "accessfilename",
    "alias",
    "allowoverride",
    "customlog",
    "errorlog",
    "loadmodule",
    "proxypass",
];

/// What files of folders include: nothing. Apache allows no `Include` there, and who writes one may name no other file of this machine.
struct NoIncludes;

impl Files for NoIncludes {
    fn read(&self, _: &str) -> Result<Vec<Text>, String> {
        Err("Apache allows no `Include` in a `.htaccess`".to_owned())
    }

    fn nested(&self, _: &str) -> Nested {
        Nested::default()
    }
}

/// Whether a directive makes a file without virtual hosts a part of the server's configuration. There, `AllowOverride` says whether Apache
/// reads files in folders.
pub(super) fn is_of_server(directive: &Directive) -> bool {
    let name = directive.name.to_ascii_lowercase();
    OF_SERVER.iter().any(|start| name.starts_with(start))
}

/// Reads the files below the root into the site, without the one that is converted.
pub(super) fn read(
    main: &Text,
    files: &dyn Files,
    root: Option<&str>,
    site: &mut Site,
    wishes: &mut Wishes,
    cx: &mut Context<'_>,
) {
    let at = At {
        file: main.name.as_str().into(),
        line: 0,
    };
    let Some(root) = root else {
        let why = "each folder may have one that limits access, and the converter looked for none; name the document root with `--root`";
        return cx.report.add(&at, OTHERS, Fate::open(why));
    };
    let found = files.nested(root);
    for why in &found.lost {
        let why = format!("{why}; a `.htaccess` there may limit access");
        cx.report.add(&at, OTHERS, Fate::open(why));
    }
    for (folder, file) in &found.files {
        match folder.as_str() {
            // It is the one that is converted, perhaps under another name.
            "" if file.text == main.text => {}
            "" => {
                let why = "it may limit access, and it is not the file that is converted";
                note_open(folder, file, 0, why, cx.report);
            }
            folder => read_one(folder, file, site, wishes, cx),
        }
    }
}

/// Reports a file of which the result has nothing.
fn note_open(folder: &str, file: &Text, line: usize, why: &str, report: &mut Report) {
    let at = At {
        file: file.name.as_str().into(),
        line,
    };
    let why = format!("{why}; write access rules for `{folder}/`");
    report.add(&at, &format!("`.htaccess` of `{folder}/`"), Fate::open(why));
}

/// Reads the file of a folder: lines that admit or refuse all clients become rules for its paths.
fn read_one(folder: &str, file: &Text, site: &mut Site, wishes: &mut Wishes, cx: &mut Context<'_>) {
    let mut reading = Report::default();
    let tree = match parse::parse(file, &NoIncludes, &mut reading) {
        Ok(tree) => tree,
        Err(wrong) => return note_open(folder, file, wrong.line, &wrong.why, cx.report),
    };
    let first = tree.first().map_or(0, |one| one.at.line);
    let Some(path) = pattern(&format!("{folder}/*")) else {
        let why = "it may limit access, and Weir has no pattern for the paths of its folder";
        return note_open(folder, file, first, why, cx.report);
    };
    let is_closed = refuses(&tree);
    let is_listed = site.listing == Some(true);
    let (plain, others): (Vec<Directive>, Vec<Directive>) =
        tree.into_iter().partition(|one| is_plain(one, is_listed));
    if !others.is_empty() && !is_closed {
        let why =
            "it may limit access, and the converter carries only files that admit or refuse all clients";
        return note_open(folder, file, first, why, cx.report);
    }
    cx.report.add_readings(vec![reading], site::OUTSIDE);
    for one in &others {
        let why = format!("the result denies `{path}`, and carries nothing else of this file");
        one.note_all(&Fate::missing(why), cx.report);
    }
    // As a `<Directory>`: what a deeper folder says replaces it.
    let inside = Folder {
        patterns: vec![path],
        filled: Vec::new(),
        mounted: Vec::new(),
        rank: (Access::DIRECTORY, folder.matches('/').count()),
        users: None,
        realm: None,
    };
    let before = site.access.len();
    site::read(&plain, &inside, site, wishes, cx);
    let (known, added) = site.access.split_at(before);
    let refusals = added.iter().filter(|rule| rule.is_for_nobody());
    let lifting = refusals.filter_map(|refusal| known.iter().find(|rule| lifts(rule, refusal)));
    for rule in lifting {
        let why = format!(
            "`<Files>` of the root admits clients to `{}` here, too: Apache refuses them, because `Require` and `Allow` do not replace each other",
            rule.path
        );
        note_open(folder, file, first, &why, cx.report);
    }
}

/// Whether a rule of `<Files>`, which comes first in the result, admits clients whom Apache refuses because of this rule: that of a folder
/// says what the other one does not replace.
fn lifts(rule: &Access, refusal: &Access) -> bool {
    let is_kept = (refusal.parts.0 && !rule.parts.0) || (refusal.parts.1 && !rule.parts.1);
    let is_admission = rule.rank.0 == Access::FILES && !rule.is_for_nobody();
    is_kept && is_admission && overlaps(&rule.path, &refusal.path)
}

/// Whether the directives of a file refuse all clients: sections in it may only admit some of them.
fn refuses(tree: &[Directive]) -> bool {
    let admits = |one: &Directive| match one.name.to_ascii_lowercase().as_str() {
        "require" => !is_of_all(one, "denied"),
        "satisfy" => !one.arg(0).eq_ignore_ascii_case("all"),
        "allow" => true,
        _ => access::is_group(one),
    };
    let is_refusal = |one: &Directive| match one.name.to_ascii_lowercase().as_str() {
        "require" => is_of_all(one, "denied"),
        "deny" => is_from_all(one),
        _ => false,
    };
    tree.iter().any(is_refusal) && !tree.iter().any(admits)
}

/// Whether a directive admits or refuses all clients, or has no effect beside one that does. `is_listed`: folders have listings, which
/// `Options` and `IndexIgnore` may limit.
fn is_plain(directive: &Directive, is_listed: bool) -> bool {
    let takes_away = |arg: &String| arg.starts_with('-') || arg.eq_ignore_ascii_case("none");
    match directive.name.to_ascii_lowercase().as_str() {
        "require" => is_of_all(directive, "denied") || is_of_all(directive, "granted"),
        "allow" | "deny" => is_from_all(directive),
        "satisfy" => directive.arg(0).eq_ignore_ascii_case("all"),
        "options" => !is_listed && directive.args.iter().all(takes_away),
        "indexignore" => !is_listed,
        "order" => true,
        _ => false,
    }
}

/// Whether `Require` is about all clients, with this word.
fn is_of_all(directive: &Directive, word: &str) -> bool {
    let [all, said] = directive.args.as_slice() else {
        return false;
    };
    all.eq_ignore_ascii_case("all") && said.eq_ignore_ascii_case(word)
}

/// Whether `Allow` or `Deny` is about all clients.
fn is_from_all(directive: &Directive) -> bool {
    let [from, all] = directive.args.as_slice() else {
        return false;
    };
    from.eq_ignore_ascii_case("from") && all.eq_ignore_ascii_case("all")
}

#[cfg(test)]
mod tests {
    use crate::fidelity::converted;
    use crate::{Conversion, Dialect, Fate, Files, Nested, Text, convert};

    /// A root with `.htaccess` files in these folders, and reasons why others may be lost.
    struct Root<'t> {
        files: &'t [(&'t str, &'t str)],
        lost: &'t [&'t str],
    }

    impl Files for Root<'_> {
        fn read(&self, _: &str) -> Result<Vec<Text>, String> {
            Ok(Vec::new())
        }

        fn nested(&self, root: &str) -> Nested {
            let text = |(folder, text): &(&str, &str)| {
                let text = Text {
                    name: format!("{root}{folder}/.htaccess"),
                    text: (*text).to_owned(),
                };
                ((*folder).to_owned(), text)
            };
            Nested {
                files: self.files.iter().map(text).collect(),
                lost: self.lost.iter().map(|why| (*why).to_owned()).collect(),
            }
        }
    }

    const MAIN: &str = "Options -Indexes\n";

    fn of_root(main: &str, root: &Root<'_>, folder: Option<&str>) -> Conversion {
        let main = Text {
            name: "site/.htaccess".to_owned(),
            text: main.to_owned(),
        };
        convert(Dialect::Apache, &main, root, folder).expect("a configuration")
    }

    /// The result of a site with these files in folders.
    fn with(files: &[(&str, &str)]) -> Conversion {
        of_root(MAIN, &Root { files, lost: &[] }, Some("/srv"))
    }

    /// The paths of access rules in their order, each with whether it refuses all clients.
    fn rules(found: &Conversion) -> Vec<(&str, bool)> {
        let tables = found.toml.split("[[access]]\npath = \"").skip(1);
        let read = tables.filter_map(|table| table.split_once("\"\n"));
        read.map(|(path, rest)| (path, rest.starts_with("deny = [\"all\"]\n")))
            .collect()
    }

    /// Files of the open directives.
    fn open(found: &Conversion) -> Vec<&str> {
        let notes = found.report.notes().iter();
        notes
            .filter(|note| matches!(note.fate, Fate::Open(_)))
            .map(|note| note.file.as_str())
            .collect()
    }

    #[test]
    fn a_folder_whose_file_refuses_all_clients_is_denied() {
        for text in [
            "Require all denied\n",
            "<IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>\n",
            "Order deny,allow\nDeny from all\n",
            "Order deny,allow\nDeny from all\nRequire all denied\n",
            "Order Allow,Deny\nDeny from All\nSatisfy All\nIndexIgnore *\nOptions -Indexes\n",
            "<IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>\n\
             <IfModule !mod_authz_core.c>\nDeny from all\n</IfModule>\n",
        ] {
            let found = with(&[("/data", text)]);
            assert_eq!(rules(&found), [("/data/*", true)], "{text}: {}", found.toml);
            assert!(open(&found).is_empty(), "{text}: {:?}", found.report);
            let is_lost = |note: &crate::Note| matches!(note.fate, Fate::Missing(_));
            assert!(
                !found.report.notes().iter().any(is_lost),
                "{text}: {:?}",
                found.report
            );
        }
        assert!(rules(&with(&[])).is_empty());
    }

    #[test]
    fn a_file_of_a_folder_includes_no_others() {
        let found = with(&[("/data", "Require all denied\nInclude /etc/passwd\n")]);
        assert_eq!(rules(&found), [("/data/*", true)], "{}", found.toml);
        assert_eq!(open(&found), ["/srv/data/.htaccess"], "{:?}", found.report);
    }

    #[test]
    fn a_deeper_folder_replaces_what_the_one_around_says() {
        let (refused, admitted) = ("Require all denied\n", "Require all granted\n");
        let found = with(&[("/a", refused), ("/a/pub", admitted), ("/a/pub/in", refused)]);
        let expected = [("/a/pub/in/*", true), ("/a/pub/*", false), ("/a/*", true)];
        assert_eq!(rules(&found), expected, "{}", found.toml);
    }

    #[test]
    fn allow_in_a_folder_lifts_no_group_of_require_around_it() {
        let main = "<RequireAll>\nRequire ip 10.0.0.0/8\nRequire valid-user\n</RequireAll>\n";
        for (text, is_refused) in [
            ("Order allow,deny\nAllow from all\n", true),
            ("Require all granted\n", false),
        ] {
            let root = Root {
                files: &[("/pub", text)],
                lost: &[],
            };
            let found = of_root(main, &root, Some("/srv"));
            let expected = [("/pub/*", is_refused), ("/*", true)];
            assert_eq!(rules(&found), expected, "{text}: {}", found.toml);
        }
    }

    #[test]
    fn a_section_of_files_that_admits_clients_of_a_closed_folder_is_named() {
        let main = "<Files \"*.css\">\nAllow from all\n</Files>\n";
        for (text, is_open) in [
            ("Require all denied\n", true),
            ("Require all granted\n", false),
            // In Apache, too, the section replaces it.
            ("Deny from all\n", false),
        ] {
            let root = Root {
                files: &[("/data", text)],
                lost: &[],
            };
            let found = of_root(main, &root, Some("/srv"));
            assert_eq!(!open(&found).is_empty(), is_open, "{text}: {:?}", found.report);
        }
    }

    #[test]
    fn other_files_are_open() {
        for text in [
            "Require ip 10.0.0.0/8\n",
            "AuthType Basic\nAuthUserFile /u\nRequire valid-user\n",
            "<Files \"*.log\">\nRequire all denied\n</Files>\n",
            "RewriteEngine on\nRewriteRule ^ - [F]\n",
            "php_flag engine off\n",
            "Options +Indexes\n",
            // These admit some clients.
            "Require all denied\nRequire ip 10.0.0.0/8\nHeader set X-A 1\n",
            "Deny from all\nAllow from 10.0.0.0/8\n",
            "Deny from all\nSatisfy any\nRequire valid-user\n",
            "Require all denied\n<RequireAny>\nRequire local\n</RequireAny>\n",
            // It has no end.
            "<Files x>\n",
        ] {
            let found = with(&[("/data", text)]);
            assert_eq!(
                open(&found),
                ["/srv/data/.htaccess"],
                "{text}: {:?}",
                found.report
            );
            assert!(rules(&found).is_empty(), "{text}: {}", found.toml);
        }
        // No pattern has the name.
        let found = with(&[("/my files", "Require all denied\n")]);
        assert_eq!(open(&found), ["/srv/my files/.htaccess"], "{:?}", found.report);
        // Listings are on.
        let root = Root {
            files: &[("/data", "IndexIgnore *\n"), ("/in", "Options -Indexes\n")],
            lost: &[],
        };
        let found = of_root("Options +Indexes\n", &root, Some("/srv"));
        assert_eq!(open(&found).len(), 2, "{:?}", found.report);
        // No directive, and no effect.
        let found = with(&[("/a", "# Of old.\n"), ("/b", "Options -Indexes\n")]);
        assert!(
            open(&found).is_empty() && rules(&found).is_empty(),
            "{}",
            found.toml
        );
    }

    #[test]
    fn what_else_a_refusing_file_says_is_missing() {
        let text = "Require all denied\nHeader set X-A 1\n<Files a.png>\nRequire all granted\n</Files>\n";
        let found = with(&[("/data", text)]);
        assert_eq!(rules(&found), [("/data/*", true)], "{}", found.toml);
        assert!(open(&found).is_empty(), "{:?}", found.report);
        let lost = found.report.notes().iter().filter(|note| {
            let is_nested = note.file == "/srv/data/.htaccess";
            is_nested && note.fate.why().contains("carries nothing else")
        });
        let lines: Vec<usize> = lost.map(|note| note.line).collect();
        assert_eq!(lines, [2, 3, 4], "{:?}", found.report);
    }

    #[test]
    fn the_converted_file_is_not_one_of_a_folder() {
        assert!(open(&with(&[("", MAIN)])).is_empty());
        // The root has another one than the file that is converted.
        for text in [
            "Require ip 10.0.0.0/8\n",
            "Require all granted\n",
            "Require all denied\n",
        ] {
            let found = with(&[("", text)]);
            assert_eq!(open(&found), ["/srv/.htaccess"], "{text}: {:?}", found.report);
            assert!(rules(&found).is_empty(), "{text}: {}", found.toml);
        }
    }

    #[test]
    fn a_search_that_misses_files_is_open() {
        let root = Root {
            files: &[],
            lost: &["cannot read `/srv/a`"],
        };
        for (folder, why) in [(Some("/srv"), "cannot read `/srv/a`;"), (None, "`--root`")] {
            let found = of_root(MAIN, &root, folder);
            let is_it = |note: &&crate::Note| {
                matches!(&note.fate, Fate::Open(said) if said.contains(why)) && note.file == "site/.htaccess"
            };
            let notes = found.report.notes().iter().filter(is_it);
            assert_eq!(notes.count(), 1, "{folder:?}: {:?}", found.report);
        }
    }

    #[test]
    fn a_configuration_of_the_server_has_no_files_in_folders_by_default() {
        let root = Root {
            files: &[],
            lost: &["cannot read `/srv/a`"],
        };
        for text in [
            "DocumentRoot /srv\n",
            "<Directory /srv>\nOptions None\n</Directory>\n",
            "ProxyPass /a http://app:80/a\n",
            "<VirtualHost *:80>\nServerName a.test\n</VirtualHost>\n",
        ] {
            for folder in [Some("/srv"), None] {
                let found = of_root(text, &root, folder);
                assert!(open(&found).is_empty(), "{text}: {:?}", found.report);
            }
        }
        let found = converted(Dialect::Apache, MAIN);
        assert!(open(&found).is_empty(), "a root without such files");
    }
}
