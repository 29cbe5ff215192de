//! `weir convert`: every configuration of the corpus becomes one that `weir serve --check` accepts, and every directive has
//! a fate. The folders and files that a result names are made in a tree of the test.

#![allow(
    clippy::disallowed_methods,
    reason = "a black-box test is the outside world: it starts programs and reads files"
)]

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
        tree.write(&format!(".{root}/index.html"), "home");
    }
    for (key, value) in table.iter_mut() {
        match (key.as_str(), value) {
            ("root", Value::String(path)) => *path = inside(tree, path),
            ("access-log", Value::String(path)) if path != "-" => {
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
