//! `weir convert`: every configuration of the corpus becomes one that `weir serve --check` accepts, and every directive has
//! a fate. The folders and files that a result names are made in a tree of the test.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a black-box test is the outside world: it starts programs, reads files and opens connections"
)]

mod closed;
mod public;
mod real;

use crate::cli::{WEIR, text, weir};
use crate::serve::tree::Tree;
use std::path::{Path, PathBuf};
use std::process::Command;
use toml::{Table, Value};

/// A user whose password is `secret`.
const USERS: &str = "ann:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n";

fn corpus() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/convert");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the corpus")
        .flat_map(|entry| {
            std::fs::read_dir(entry.expect("an entry").path())
                .into_iter()
                .flatten()
        })
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files
}

fn convert(file: &Path) -> serde_json::Value {
    let output = weir(&["convert", &file.to_string_lossy(), "--root", "/srv/www", "--json"]);
    assert!(
        output.status.success(),
        "{}: {}",
        file.display(),
        text(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Moves absolute paths of a table into a tree, and makes what they name there.
fn plant(table: &mut Table, tree: &Tree, root: &str) {
    let root = table
        .get("root")
        .and_then(Value::as_str)
        .unwrap_or(root)
        .to_owned();
    if table.contains_key("root") {
        tree.write(&format!("./{root}/index.html"), "home");
    }
    for (key, value) in table.iter_mut() {
        match (key.as_str(), value) {
            ("root", Value::String(path)) => *path = inside(tree, path),
            ("access-log" | "server-log", Value::String(path)) if path != "-" => {
                tree.write(&format!("./{path}"), "");
                *path = inside(tree, path);
            }
            ("tls-cert" | "cert" | "client-ca", value) => each(value, &mut |path| {
                tree.write(&format!("./{path}"), include_str!("../testdata/convert/cert.pem"));
                *path = inside(tree, path);
            }),
            ("tls-key" | "key", value) => each(value, &mut |path| {
                tree.write(&format!("./{path}"), include_str!("../testdata/convert/key.pem"));
                *path = inside(tree, path);
            }),
            ("htpasswd", Value::String(path)) => {
                tree.write(&format!("./{path}"), USERS);
                *path = inside(tree, path);
            }
            ("spa-fallback", Value::String(page)) => {
                tree.write(&format!(".{root}{page}"), "page");
            }
            ("error-pages", Value::Table(pages)) => {
                for page in pages.values().filter_map(Value::as_str) {
                    tree.write(&format!(".{root}{page}"), "page");
                }
            }
            (_, Value::Table(inner)) => plant(inner, tree, &root),
            (_, Value::Array(all)) => {
                for inner in all.iter_mut().filter_map(Value::as_table_mut) {
                    plant(inner, tree, &root);
                }
            }
            _ => {}
        }
    }
}

fn inside(tree: &Tree, path: &str) -> String {
    tree.join(&format!("./{path}")).display().to_string()
}

fn each(value: &mut Value, with: &mut dyn FnMut(&mut String)) {
    match value {
        Value::String(path) => with(path),
        Value::Array(all) => all.iter_mut().for_each(|one| each(one, with)),
        _ => {}
    }
}

#[test]
fn every_result_is_accepted() {
    let files = corpus();
    assert!(!files.is_empty());
    for file in files {
        let converted = convert(&file);
        let result = converted["toml"].as_str().expect("text");
        let mut table: Table = result
            .parse()
            .unwrap_or_else(|error| panic!("{}: {error}\n{result}", file.display()));
        let tree = Tree::new();
        plant(&mut table, &tree, "/srv/www");
        let config = tree.write("weir.toml", table.to_string());
        let output = Command::new(WEIR)
            .args(["serve", "--check", "--config"])
            .arg(&config)
            .output()
            .expect("the program runs");
        assert!(
            output.status.success(),
            "{}: {}\n{result}",
            file.display(),
            text(&output.stderr)
        );
    }
}

/// Lines that begin a directive: a plain reading of the dialects, independent of the converter's own.
fn directive_lines(file: &Path) -> Vec<usize> {
    let text = std::fs::read_to_string(file).expect("a file of the corpus");
    let mut lines = Vec::new();
    let mut is_continued = false;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        // Lines of a text, of code and the rest of a long line belong to the directive before them.
        let is_text = matches!(line, "several" | "lines" | "TEXT 200")
            || line.starts_with("local ")
            || line.starts_with("ngx.");
        if line.starts_with(|c: char| c.is_ascii_alphabetic()) && !is_continued && !is_text {
            lines.push(at + 1);
        }
        is_continued = line.ends_with('\\');
    }
    lines
}

#[test]
fn every_directive_has_a_fate() {
    for file in &corpus() {
        let converted = convert(file);
        let notes = converted["directives"].as_array().expect("a list");
        let named: Vec<u64> = notes.iter().filter_map(|note| note["line"].as_u64()).collect();
        for line in directive_lines(file) {
            assert!(
                named.contains(&(line as u64)),
                "{}:{line} has no fate",
                file.display()
            );
        }
        for note in notes.iter().filter(|note| note["fate"] != "carried") {
            assert!(note["why"].as_str().is_some_and(|why| !why.is_empty()), "{note}");
        }
    }
}

/// The result of a file of the corpus, and the directives that are not carried over, as `FATE LINE`.
fn result(name: &str) -> (Table, Vec<String>) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata/convert")
        .join(name);
    let converted = convert(&file);
    let notes = converted["directives"].as_array().expect("a list");
    let fates = notes
        .iter()
        .map(|note| (note["fate"].as_str().expect("a word"), &note["line"]))
        // Those without a line depend on whether this machine has the root.
        .filter(|(fate, line)| matches!(*fate, "open" | "missing") && line.as_u64() != Some(0))
        .map(|(fate, line)| format!("{fate} {line}"))
        .collect();
    let table = converted["toml"].as_str().expect("text").parse().expect("TOML");
    (table, fates)
}

/// `FROM TO` of the redirects of a site.
fn redirects(site: &Table) -> Vec<String> {
    let rules = site
        .get("redirect")
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    let text = |rule: &Value, key: &str| rule[key].as_str().expect("text").to_owned();
    rules
        .iter()
        .map(|rule| format!("{} {}", text(rule, "from"), text(rule, "to")))
        .collect()
}

/// The table of a list whose `path` is this one.
fn rule<'t>(site: &'t Table, list: &str, path: &str) -> &'t Table {
    site[list]
        .as_array()
        .and_then(|rules| rules.iter().find(|rule| rule["path"].as_str() == Some(path)))
        .and_then(Value::as_table)
        .unwrap_or_else(|| panic!("no {list} for {path}: {site}"))
}

#[test]
fn redirects_keep_what_the_groups_of_an_expression_capture() {
    let (table, fates) = result("nginx/manuals.conf");
    let found = redirects(&table);
    let host = "https://manuals.example.org";
    for rule in [
        format!("/pt-br/ {host}/pt-br/5/"),
        "/guide/* https://guide.example.org/*".to_owned(),
        format!("/library/* {host}/5/library/*"),
        format!("/library {host}/5/library"),
        format!("/5.1/library/lists.html {host}/5.1/library/types.html#lists"),
        format!("/*/5/library/lists.html {host}/*/5/library/types.html#lists"),
        format!("/newest* {host}/5*"),
        format!("/old/module-*.html {host}/library/*.html"),
        "/files/* https://files.example.org/files/*".to_owned(),
    ] {
        assert!(found.contains(&rule), "{rule} is not in {found:#?}");
    }
    assert_eq!(table["types"][""].as_str(), Some("text/plain"));
    let slashes = rule(&table, "try-files", "*");
    assert_eq!(slashes["trailing-slash"].as_str(), Some("remove"));
    // The block in cleartext leads to that with TLS, but for its folder.
    assert_eq!(table["https-redirect"].as_bool(), Some(false));
    let lead = &table["redirect"][0];
    assert_eq!(
        (lead["if"][0].as_str(), lead["except"][0].as_str()),
        (Some("scheme http"), Some("/.well-known/acme-challenge/*"))
    );
    let challenges = rule(&table, "mount", "/.well-known/acme-challenge/");
    assert_eq!(challenges["root"].as_str(), Some("/srv/acme"));
    assert!(table.get("host").is_none(), "{table}");
    let (table, _) = result("apache/redirects.htaccess");
    assert!(redirects(&table).contains(&"/manual.html /manual/".to_owned()));
    // A class at the end of an expression would take whole folders.
    assert_eq!(fates, ["missing 29", "missing 29"]);
}

#[test]
fn the_site_with_tls_is_in_the_result_and_blocks_have_matchers() {
    let (table, fates) = result("caddy/mirror.Caddyfile");
    let site = table["host"][0].as_table().expect("a host");
    assert_eq!(table["header-timeout"].as_str(), Some("5s"));
    assert!(redirects(site).contains(&"/images/* https://images.example.net/*".to_owned()));
    assert_eq!(
        rule(site, "access", "/api/admin/*")["deny"][0].as_str(),
        Some("all")
    );
    let line = "Access-Control-Allow-Origin: *";
    assert_eq!(
        rule(site, "header-rule", "/api/*")["header"][0].as_str(),
        Some(line)
    );
    let registry = rule(site, "proxy", "/registry/*");
    assert_eq!(
        registry["request-header"]["set"][0].as_str(),
        Some("Host: registry:80")
    );
    // No file server is for all paths, so no root is.
    assert!(!site.contains_key("root"));
    for (path, root) in [
        ("/icons/", "/var/www"),
        ("/kernel/", "/mnt/mirror"),
        ("/archive/", "/mnt/mirror"),
    ] {
        let mount = rule(site, "mount", path);
        assert_eq!(
            (mount["root"].as_str(), mount["strip"].as_bool()),
            (Some(root), Some(false))
        );
    }
    // The limit of a whole response.
    assert_eq!(fates, ["missing 7"]);
    let removed = &rule(site, "header-rule", "/api/*")["remove"];
    assert_eq!(removed[0].as_str(), Some("Server"));
}

#[test]
fn names_have_values_and_paths_have_other_files() {
    let (table, fates) = result("apache/library.conf");
    let redirects = redirects(&table);
    for rule in [
        "/books/a-b-writer /books/ann-writer",
        "/books/a-b-writer/* /books/ann-writer/*",
    ] {
        assert!(redirects.contains(&rule.to_owned()), "{rule}: {redirects:#?}");
    }
    assert_eq!(table["root"].as_str(), Some("/srv/library/www"));
    let www = table["host"][0].as_table().expect("a host");
    assert_eq!(www["names"][0].as_str(), Some("www.library.example.org"));
    assert_eq!(self::redirects(www), ["* https://library.example.org*"]);
    let line = "Strict-Transport-Security: max-age=15768000";
    assert_eq!(rule(www, "header-rule", "/*")["header"][0].as_str(), Some(line));
    let tried = table["try-files"].as_array().expect("rules");
    let paths: Vec<&str> = tried.iter().filter_map(|rule| rule["path"].as_str()).collect();
    assert_eq!(paths, ["/books/*/text", "/icon.png", "/manifest.png", "*"]);
    assert_eq!(tried[0]["files"][0].as_str(), Some("/books/*/contents.xhtml"));
    let line = "Access-Control-Allow-Origin: *";
    assert_eq!(
        rule(&table, "header-rule", "/books*")["header"][0].as_str(),
        Some(line)
    );
    // Lines outside of virtual hosts hold in them.
    assert_eq!(rule(&table, "access", "*.bak")["deny"][0].as_str(), Some("all"));
    assert_eq!(table["types"]["book"].as_str(), Some("text/x-book"));
    let line = "Cache-Control: max-age=2592000";
    assert_eq!(
        rule(&table, "header-rule", "*.css")["header"][0].as_str(),
        Some(line)
    );
    let files: Vec<&str> = tried[3]["files"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(files, ["$path", "$path/index.html", "$path/index.xml"]);
    // The virtual host in cleartext with the same names, programs and their text, and a class between two stars.
    assert_eq!(
        fates,
        [
            "missing 10",
            "missing 39",
            "missing 40",
            "missing 40",
            "missing 44"
        ]
    );
}

/// What becomes of this configuration.
fn converted(from: &str, text: &str) -> serde_json::Value {
    let tree = Tree::with(&[("site.conf", text)]);
    let file = tree.join("site.conf");
    let output = weir(&[
        "convert",
        &*file.to_string_lossy(),
        "--from",
        from,
        "--root",
        "/srv/www",
        "--json",
    ]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn what_is_gone_stays_gone() {
    // Path, status in the result, and the fate of the line, in the order of the lines.
    type Rows<'r> = &'r [(&'r str, Option<i64>, &'r str)];
    let check = |from: &str, start: &str, lines: &str, end: &str, rows: Rows<'_>| {
        let found = converted(from, &format!("{start}\n{lines}{end}"));
        let result: Table = found["toml"].as_str().expect("text").parse().expect("TOML");
        let site = result
            .get("host")
            .map_or(&result, |hosts| hosts[0].as_table().expect("a host"));
        let notes = found["directives"].as_array().expect("a list");
        assert_eq!(lines.lines().count(), rows.len());
        for (at, (path, status, fate)) in (2..).zip(rows) {
            let rule = rule(site, "access", path);
            assert_eq!(rule["deny"][0].as_str(), Some("all"), "{from} {path}");
            let found = rule.get("status").and_then(Value::as_integer);
            assert_eq!(found, *status, "{from} {path}");
            let is_block = |note: &serde_json::Value| {
                let directive = note["directive"].as_str();
                directive.is_some_and(|directive| directive.starts_with("location"))
            };
            let of_line = notes
                .iter()
                .find(|note| note["line"].as_u64() == Some(at) && !is_block(note));
            let of_line = of_line.unwrap_or_else(|| panic!("{from} {path}: {notes:?}"));
            assert_eq!(of_line["fate"].as_str(), Some(*fate), "{from} {path}: {of_line}");
        }
    };
    check(
        "nginx",
        "server { listen 80; root /srv/www;",
        "location /gone/ { return 410; }\n\
         location = /banned { return 451; }\n\
         location /none/ { return 404; }\n\
         location /no/ { return 403; }\n\
         location /text/ { return 410 \"It is gone.\"; }\n\
         location /teapot/ { return 418; }\n\
         location /inside/ { internal; }\n",
        "}\n",
        &[
            ("/gone/*", Some(410), "carried"),
            ("/banned", Some(451), "carried"),
            ("/none/*", Some(404), "carried"),
            ("/no/*", None, "carried"),
            ("/text/*", Some(410), "changed"),
            ("/teapot/*", None, "changed"),
            ("/inside/*", Some(404), "carried"),
        ],
    );
    check(
        "apache",
        "DocumentRoot /srv/www",
        "Redirect gone /gone\n\
         Redirect 451 /banned/\n\
         Redirect 404 /none\n\
         RedirectMatch 410 ^/old/\n\
         RewriteRule ^/past/ - [G]\n\
         RewriteRule ^/no/ - [F]\n\
         RewriteRule ^/law/ - [R=451]\n",
        "",
        &[
            ("/gone", Some(410), "carried"),
            ("/banned/", Some(451), "carried"),
            ("/none", Some(404), "carried"),
            ("/old/*", Some(410), "carried"),
            ("/past/*", Some(410), "carried"),
            ("/no/*", None, "carried"),
            ("/law/*", Some(451), "carried"),
        ],
    );
    check(
        "caddy",
        "a.test {",
        "respond /gone/* 410\n\
         respond /banned 451\n\
         respond /none/* 404\n\
         respond /text/* \"It is gone.\" 410\n\
         error /old/* \"It is gone.\" 410\n\
         respond /who/* 401\n",
        "root * /srv/www\nfile_server\n}\n",
        &[
            ("/gone/*", Some(410), "carried"),
            ("/banned", Some(451), "carried"),
            ("/none/*", Some(404), "carried"),
            ("/text/*", Some(410), "changed"),
            ("/old/*", Some(410), "carried"),
            ("/who/*", None, "changed"),
        ],
    );
}

#[test]
fn a_redirect_of_a_refused_path_is_reported() {
    for (path, is_reported) in [
        ("/gone/kept", true),
        ("/gone", true),
        ("/gonement", false),
        ("/kept", false),
    ] {
        let found = converted(
            "apache",
            &format!("DocumentRoot /srv/www\nRedirect {path} /new\nRedirect gone /gone\n"),
        );
        let notes = found["directives"].as_array().expect("a list");
        let name = format!("redirect of `{path}`");
        let note = notes
            .iter()
            .find(|note| note["directive"].as_str() == Some(&name));
        let fate = note.map(|note| note["fate"].as_str().expect("a word"));
        assert_eq!(fate, is_reported.then_some("changed"), "{path}: {found}");
    }
}

#[test]
fn access_is_not_widened_in_silence() {
    let fates = |converted: &serde_json::Value, at: u64| -> Vec<String> {
        let notes = converted["directives"].as_array().expect("a list");
        let of_line = notes.iter().filter(|note| note["line"].as_u64() == Some(at));
        of_line
            .map(|note| note["fate"].as_str().expect("a word").to_owned())
            .collect()
    };
    // Paths in `handle_path` lack its prefix.
    let site = "a.test {\n handle_path /api/* {\n  @a path /admin/*\n  respond @a 403\n  respond /b/* 403\n  \
                reverse_proxy app:80\n }\n}\n";
    let found = converted("caddy", site);
    assert_eq!(
        [fates(&found, 4), fates(&found, 5)],
        [["missing"], ["missing"]],
        "{found}"
    );
    let result: Table = found["toml"].as_str().expect("text").parse().expect("TOML");
    for path in ["/api/admin/*", "/api/b/*"] {
        assert_eq!(
            rule(&result, "access", path)["deny"][0].as_str(),
            Some("all"),
            "{result}"
        );
    }
    // The networks of the block around hold within it, too.
    let site = "a.test {\n @in remote_ip 10.0.0.0/8\n handle @in {\n  @x path /a/*\n  reverse_proxy @x app:80\n }\n}\n";
    let found = converted("caddy", site);
    assert_eq!(fates(&found, 5), ["missing"], "{found}");
    // A location beside a redirect is more than a redirect.
    let site = "server { listen 80; server_name a.test;\nlocation / { return 301 https://a.test$request_uri; }\n\
                location /hook/ { proxy_pass http://app:80; } }\nserver { listen 443 ssl; server_name a.test; root /srv; }\n";
    let found = converted("nginx", site);
    let result: Table = found["toml"].as_str().expect("text").parse().expect("TOML");
    assert_ne!(
        result.get("https-redirect").and_then(Value::as_bool),
        Some(true),
        "{result}"
    );
    // Of rules for one path, that of the virtual host applies.
    let site = "DocumentRoot /srv/www\n<Location /x>\nRequire all granted\n</Location>\n<VirtualHost *:80>\n\
                ServerName a.test\nDocumentRoot /srv/www\n<Location /x>\nRequire ip 10.0.0.0/8\n</Location>\n</VirtualHost>\n";
    let found = converted("apache", site);
    let result: Table = found["toml"].as_str().expect("text").parse().expect("TOML");
    let site = result
        .get("host")
        .map_or(&result, |hosts| hosts[0].as_table().expect("a host"));
    let rules = site["access"].as_array().expect("rules");
    let first = rules
        .iter()
        .find(|rule| rule["path"].as_str().is_some_and(|path| path.starts_with("/x")))
        .unwrap_or_else(|| panic!("no rule: {result}"));
    assert_eq!(first["allow"][0].as_str(), Some("10.0.0.0/8"), "{result}");
}

#[test]
fn a_result_is_written_once_and_the_rest_is_listed() {
    let tree = Tree::with(&[
        ("nginx.conf", "include sites/*.conf;\n"),
        (
            "sites/a.conf",
            "server {\n  root /srv/a;\n  location ~ ^/(\\d+)$ { deny all; }\n  resolver 1.1.1.1;\n  magic on;\n}\n",
        ),
    ]);
    let (file, out) = (tree.join("nginx.conf"), tree.join("weir.toml"));
    let words = [
        "convert",
        &*file.to_string_lossy(),
        "--from",
        "nginx",
        "--out",
        &*out.to_string_lossy(),
    ];
    let output = weir(&words);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("open     ") && said.contains("a.conf:3: deny all"),
        "{said}"
    );
    assert!(
        said.contains("missing  ") && said.contains("a.conf:5: magic on"),
        "{said}"
    );
    assert!(!said.contains("resolver"), "{said}");
    let written = std::fs::read_to_string(&out).expect("the result");
    assert!(
        written.contains("# OPEN: ") && written.contains("root = \"/srv/a\""),
        "{written}"
    );
    let again = weir(&words);
    assert_eq!(again.status.code(), Some(2));
    assert!(
        text(&again.stderr).contains("exists; remove it"),
        "{}",
        text(&again.stderr)
    );
}

#[test]
fn a_reason_is_printed_once_with_the_lines_that_it_is_about() {
    let lines = "  magic on;\n".repeat(7);
    let tree = Tree::with(&[("nginx.conf", &*format!("server {{\n  root /srv;\n{lines}}}\n"))]);
    let file = tree.join("nginx.conf");
    let convert = |more: &[&str]| {
        let words = ["convert", &*file.to_string_lossy(), "--from", "nginx"];
        let output = weir(&[&words[..], more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        output
    };
    let output = convert(&[]);
    let said = text(&output.stderr);
    let of_magic: Vec<&str> = said.lines().skip_while(|line| !line.contains("magic")).collect();
    assert!(
        of_magic[0].starts_with("missing  ") && of_magic[0].ends_with("nginx.conf:3: magic on"),
        "{said}"
    );
    assert!(of_magic[4].starts_with("         ") && of_magic[4].ends_with("nginx.conf:7: magic on"));
    assert_eq!(of_magic[5], "         and 2 more");
    assert_eq!(said.matches(of_magic[6].trim()).count(), 1, "{said}");
    // So does the result, and with `-v`, all are listed.
    let result = text(&output.stdout);
    let comment = result
        .lines()
        .find(|line| line.starts_with("# missing: "))
        .expect("a comment");
    assert!(
        comment.contains("nginx.conf:7: magic on; and 2 more: "),
        "{comment}"
    );
    let said = text(&convert(&["-v"]).stderr);
    assert!(
        said.contains("nginx.conf:9: magic on") && !said.contains("more\n"),
        "{said}"
    );
}

#[test]
fn files_in_folders_of_a_site_are_read_or_open() {
    let tree = Tree::with(&[
        ("site/.htaccess", "Options -Indexes\n"),
        ("site/data/.htaccess", "Require all denied\n"),
        ("site/data/secret.txt", "a secret"),
        ("site/area/.htaccess", "Require ip 10.0.0.0/8\n"),
        ("site/\u{1b}[2J/.htaccess", "Require local\n"),
    ]);
    let (site, out) = (tree.join("site"), tree.join("weir.toml"));
    let output = weir(&[
        "convert",
        &*site.join(".htaccess").to_string_lossy(),
        "--root",
        &*site.to_string_lossy(),
        "--out",
        &*out.to_string_lossy(),
    ]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("open     ").count(), 2, "{said}");
    assert!(said.contains("area/.htaccess:1: "), "{said}");
    // A terminal would act on the name.
    assert!(!said.contains('\u{1b}'), "{said:?}");
    let result: Table = std::fs::read_to_string(&out)
        .expect("the result")
        .parse()
        .expect("TOML");
    let denied = rule(&result, "access", "/data/*");
    assert_eq!(denied["deny"][0].as_str(), Some("all"), "{result}");
    // Without a root, there is nothing to search.
    let output = weir(&["convert", &*site.join(".htaccess").to_string_lossy()]);
    let said = text(&output.stderr);
    assert!(said.contains("open     ") && said.contains("`--root`"), "{said}");
}

#[test]
fn mistakes_name_file_and_line() {
    let tree = Tree::with(&[
        ("nginx.conf", "server {\n  root /srv\n}\n"),
        ("open.conf", "server {\n"),
    ]);
    for (name, why) in [
        ("nginx.conf", "nginx.conf:3: `root` of line 2 has no `;`"),
        ("open.conf", "the block of line 1 has no `}`"),
        ("no.conf", "cannot read"),
    ] {
        let output = weir(&["convert", &tree.join(name).to_string_lossy(), "--from", "nginx"]);
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
    }
}
