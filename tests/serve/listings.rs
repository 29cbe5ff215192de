//! Listings of directories without an index: order, pages, search, README, theme, and what hostile names and texts can do.

use crate::serve::on_each_back_end;
use crate::serve::on_every_strategy;
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::rights::{USER, skipped};
use crate::serve::tree::Tree;
use crate::serve::wire::{Connection, Response};
use serde_json::Value;
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, SystemTime};

fn launch(strategy: Strategy, tree: &Tree) -> Server {
    Launch::new(strategy)
        .root(tree.path())
        .args(["--listing"])
        .start()
}

fn json(connection: &mut Connection, path: &str) -> Value {
    let answer = connection.request("GET", path, &[("Accept", "application/json")]);
    assert_eq!(answer.status, 200, "{path}");
    serde_json::from_slice(&answer.body).expect("JSON")
}

/// Names of the entries, in their order.
fn names(listing: &Value) -> String {
    let entries = listing["entries"].as_array().expect("entries");
    let names: Vec<&str> = entries
        .iter()
        .map(|entry| entry["name"].as_str().expect("a name"))
        .collect();
    names.join(" ")
}

/// The same from HTML: texts of the links in the first column.
fn rows(page: &Response) -> String {
    let text = page.text();
    let rows = text.split("<tr><td><a href=\"").skip(1);
    let name = |row: &str| row.split('>').nth(1)?.split("</a").next().map(str::to_owned);
    let names: Vec<String> = rows.filter_map(name).collect();
    names.join(" ")
}

fn dated(tree: &Tree, name: &str, size: usize, secs: u64) {
    let path = tree.write(name, "x".repeat(size));
    let file = File::options().write(true).open(path).expect("our own file");
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(secs))
        .expect("our own file");
}

fn orders_pages_and_searches(strategy: Strategy) {
    let tree = Tree::new();
    dated(&tree, "d/beta.txt", 10, 3_000);
    dated(&tree, "d/alpha.TXT", 30, 1_000);
    dated(&tree, "d/gamma.png", 20, 2_000);
    dated(&tree, "d/folder/x", 1, 500);
    let server = launch(strategy, &tree);
    let mut connection = server.connect();
    for (query, want) in [
        ("", "folder alpha.TXT beta.txt gamma.png"),
        ("?order=desc", "folder gamma.png beta.txt alpha.TXT"),
        ("?sort=size", "folder beta.txt gamma.png alpha.TXT"),
        ("?sort=size&order=desc", "folder alpha.TXT gamma.png beta.txt"),
        ("?sort=time", "folder alpha.TXT gamma.png beta.txt"),
        ("?order=desc&sort=time", "folder beta.txt gamma.png alpha.TXT"),
        ("?limit=2", "folder alpha.TXT"),
        ("?limit=2&page=2", "beta.txt gamma.png"),
        ("?limit=2&page=3", ""),
        ("?q=txt", "alpha.TXT beta.txt"),
        ("?q=txt&order=desc&limit=1&page=2", "alpha.TXT"),
        ("?q=nothing", ""),
        // Neither known nor valid: no part of the answer.
        (
            "?utm_source=x&sort=colour&page=0&limit=-1&q=%zz",
            "folder alpha.TXT beta.txt gamma.png",
        ),
    ] {
        // More than once, as cached and new listings are looked up in different ways.
        for _ in 0..2 {
            let listing = json(&mut connection, &format!("/d/{query}"));
            assert_eq!(names(&listing), want, "{query}");
            let page = connection.get(&format!("/d/{query}"));
            let plain = rows(&page).replace('/', "");
            assert_eq!(
                plain.strip_prefix("..").expect("the folder above").trim(),
                want,
                "{query}"
            );
        }
    }
    let listing = json(&mut connection, "/d/?limit=2&page=2&q=A");
    for (key, want) in [
        ("path", Value::from("/d/")),
        ("total", 4.into()),
        ("matching", 3.into()),
        ("page", 2.into()),
        ("pages", 2.into()),
        ("limit", 2.into()),
        ("sort", "name".into()),
        ("order", "asc".into()),
        ("q", "A".into()),
        ("truncated", false.into()),
    ] {
        assert_eq!(listing[key], want, "{key}: {listing}");
    }
    let page = connection.get("/d/?sort=size&q=a&limit=1&page=2").text();
    for part in [
        "aria-sort=\"ascending\"><a href=\"?sort=size&amp;order=desc&amp;q=a&amp;limit=1\">Size</a>",
        "<a href=\"?sort=size&amp;q=a&amp;limit=1\" rel=\"prev\">",
        "<a href=\"?sort=size&amp;q=a&amp;limit=1&amp;page=3\" rel=\"next\">",
        "3 of 4 entries have “a” in their names.",
        "<a href=\"../\">/</a>",
        "value=\"a\"",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    // The slash is added, and the query stays.
    let moved = connection.get("/d?sort=size");
    assert_eq!((moved.status, moved.must("Location")), (301, "/d/?sort=size"));
    // A file ignores the query, as before.
    assert_eq!(connection.get("/d/beta.txt?sort=size").text(), "x".repeat(10));
}

fn each_view_has_its_own_validator(strategy: Strategy) {
    let tree = Tree::new();
    for number in 0..40 {
        tree.write(
            &format!("d/a-file-with-a-name-{number:02}.txt"),
            "x".repeat(number),
        );
    }
    let server = Launch::new(strategy)
        .root(tree.path())
        .args(["--listing", "--adapt", "off"])
        .start();
    let mut connection = server.connect();
    let mut tags = Vec::new();
    for query in ["", "?sort=size", "?order=desc", "?page=2", "?q=9"] {
        let path = format!("/d/{query}");
        let plain = connection.get(&path);
        let tag = plain.must("ETag").to_owned();
        assert!(tag.starts_with('"') && !tags.contains(&tag), "{query}: {tag}");
        let again = connection.request("GET", &path, &[("If-None-Match", &tag)]);
        assert_eq!((again.status, again.must("ETag")), (304, &*tag), "{query}");
        let coded = connection.request("GET", &path, &[("Accept-Encoding", "gzip")]);
        assert_eq!(coded.field("Content-Encoding"), Some("gzip"), "{query}");
        assert_eq!(coded.must("Vary"), "Accept, Accept-Encoding");
        assert!(coded.body.len() < plain.body.len() && coded.must("ETag") != tag);
        let tag_of_coded = coded.must("ETag").to_owned();
        let fields = [("Accept-Encoding", "gzip"), ("If-None-Match", &*tag_of_coded)];
        assert_eq!(connection.request("GET", &path, &fields).status, 304, "{query}");
        let head = connection.request("HEAD", &path, &[]);
        assert_eq!(head.must("Content-Length"), plain.body.len().to_string());
        let part = connection.request("GET", &path, &[("Range", "bytes=0-14")]);
        assert_eq!((part.status, part.text().as_str()), (206, "<!doctype html>"));
        tags.push(tag);
    }
    // A change makes new tags.
    tree.write("d/new-9.txt", "x");
    for (query, tag) in ["", "?sort=size", "?order=desc", "?page=2", "?q=9"]
        .iter()
        .zip(&tags)
    {
        if *query == "?page=2" {
            continue;
        }
        eventually("the view has changed", || {
            let answer = connection.request("GET", &format!("/d/{query}"), &[("If-None-Match", tag)]);
            (answer.status == 200 && answer.text().contains("new-9.txt")).then_some(())
        });
    }
}

fn hostile_names_are_only_text(strategy: Strategy) {
    let tree = Tree::new();
    let hostile = [
        "<script>alert(1)<",
        "\"onmouseover=\"alert(1)",
        "'><img src=x onerror=alert(1)>",
        "javascript:alert(1)",
        "a&lt;b&copy.txt",
        "?sort=size",
        "#part",
        "%2e%2e",
        " ",
        "a\nb",
        "a\u{202e}gpj.exe",
        "~",
        "{{x}}",
    ];
    for name in hostile {
        tree.write(&format!("d/{name}/{name}"), name);
    }
    let server = launch(strategy, &tree);
    let mut connection = server.connect();
    let check = |page: &Response| {
        let text = page.text();
        for bad in [
            "<script",
            "<img",
            "href=\"javascript",
            "\u{202e}",
            " onmouseover=\"",
        ] {
            assert!(!text.contains(bad), "{bad}: {text}");
        }
        let policy = page.must("Content-Security-Policy");
        assert!(
            policy.starts_with("default-src 'none'; style-src 'sha256-"),
            "{policy}"
        );
        assert!(
            !policy.contains("unsafe") && !policy.contains("script-src"),
            "{policy}"
        );
    };
    check(&connection.get("/d/"));
    check(&connection.get("/d/?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E"));
    check(&connection.get("/d/?sort=time&q='%20onmouseover='alert(1)"));
    check(&connection.get("/d/?q=%E2%80%AE"));
    // Each reference leads where its name says, two levels deep.
    let listing = json(&mut connection, "/d/");
    let entries = listing["entries"].as_array().expect("entries");
    assert_eq!(entries.len(), hostile.len());
    for entry in entries {
        let (name, href) = (
            entry["name"].as_str().expect("a name"),
            entry["href"].as_str().expect("a link"),
        );
        let below = format!("/d/{}", href.strip_prefix("./").expect("relative"));
        check(&connection.get(&below));
        let inner = json(&mut connection, &below);
        let href = inner["entries"][0]["href"].as_str().expect("a link");
        let answer = connection.get(&format!("{below}{}", href.strip_prefix("./").expect("relative")));
        assert_eq!((answer.status, answer.text().as_str()), (200, name));
    }
}

fn a_readme_is_shown_and_cannot_act(strategy: Strategy) {
    let tree = Tree::with(&[
        (
            "md/README.md",
            "# About\n\n*Good* [file](a.txt) <script>alert(1)</script> [bad](javascript:alert(1))\n\n![ours](a.png) ![theirs](https://b.test/a.png)\n",
        ),
        ("md/a.txt", "a"),
        ("text/readme.TXT", "<b>line 1\nline 2"),
        ("large/README.md", &"a".repeat(300_000)),
        ("indexed/index.html", "index"),
        ("indexed/README.md", "not shown"),
    ]);
    tree.write("fifo/x", "x");
    let server = launch(strategy, &tree);
    let mut connection = server.connect();
    let page = connection.get("/md/").text();
    for part in [
        "<h2>About</h2>",
        "<em>Good</em>",
        "<a href=\"a.txt\">file</a>",
        "&lt;script&gt;",
        "<img src=\"a.png\" alt=\"ours\" />",
        "<a href=\"https://b.test/a.png\">theirs</a>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(
        !page.contains("<script") && !page.contains("href=\"javascript"),
        "{page}"
    );
    assert!(
        connection
            .get("/text/")
            .text()
            .contains("<pre class=\"text\">&lt;b&gt;line 1\nline 2</pre>")
    );
    let large = connection.get("/large/");
    assert!(large.text().contains("too large") && large.body.len() < 10_000);
    assert_eq!(connection.get("/indexed/").text(), "index");
    // With the folder's beginning, in any order, and with no other part of it.
    for (query, is_shown) in [("?sort=time", true), ("?q=a", false), ("?limit=1&page=2", false)] {
        let page = connection.get(&format!("/md/{query}")).text();
        assert_eq!(page.contains("<h2>About"), is_shown, "{query}");
    }
    assert!(!json(&mut connection, "/md/").to_string().contains("About"));
    tree.replace("md/README.md", "# Changed");
    eventually("the README has changed", || {
        let page = connection.get("/md/").text();
        (page.contains("<h2>Changed</h2>") && !page.contains("About")).then_some(())
    });
    let server = Launch::new(strategy)
        .root(tree.path())
        .args(["--listing", "--listing-readme=false"])
        .start();
    assert!(!server.connect().get("/md/").text().contains("Changed"));
}

/// What a request for the file would not get, its directory does not show.
fn a_readme_obeys_the_rules_of_its_file(strategy: Strategy) {
    // Threads that wait for one connection at a time have no upstreams.
    let has_proxy = strategy.concurrency != "pool";
    let proxy = match has_proxy {
        true => "[[proxy]]\npath = '/passed/README.txt'\nupstreams = ['http://127.0.0.1:1']\n",
        false => "",
    };
    let config = format!(
        "root = 'site'\nlisting = true\n\
         [[access]]\npath = '/inner/*'\nallow = '127.0.0.0/8'\n\
         [[access]]\npath = '*.md'\ndeny = 'all'\n\
         [[redirect]]\nfrom = '/moved/README.txt'\nto = '/a'\n\
         {proxy}\
         [[host]]\nnames = ['strict.test']\nsymlinks = false\n"
    );
    let tree = Tree::with(&[
        ("weir.toml", &config),
        ("site/denied/README.md", "the README"),
        ("site/inner/README.md", "the README"),
        ("site/moved/README.txt", "the README"),
        ("site/passed/README.txt", "the README"),
        ("site/plain/README.txt", "the README"),
        ("outside.txt", "the README"),
    ]);
    std::fs::create_dir_all(tree.join("site/linked")).expect("our own folder");
    std::fs::create_dir_all(tree.join("site/out")).expect("our own folder");
    tree.link("site/linked/README.txt", "../plain/README.txt");
    tree.link("site/out/README.txt", "../../outside.txt");
    let config = tree.join("weir.toml");
    let server = Launch::new(strategy)
        .args(["--config".as_ref(), config.as_os_str()])
        .start();
    let mut connection = server.connect();
    for (path, is_shown) in [
        ("/denied/", false),
        // The same rule covers both, and comes first.
        ("/inner/", true),
        ("/moved/", false),
        ("/passed/", !has_proxy),
        ("/plain/", true),
        ("/linked/", true),
        ("/out/", false),
    ] {
        let page = connection.get(path);
        assert_eq!(
            (page.status, page.text().contains("the README")),
            (200, is_shown),
            "{path}"
        );
    }
    connection.send("GET /linked/ HTTP/1.1\r\nHost: strict.test\r\n\r\n");
    assert!(!connection.receive("GET").text().contains("the README"));
}

/// A README that the server's user may not read.
fn an_unreadable_readme_is_named(strategy: Strategy) {
    let tree = Tree::new();
    if skipped(&tree) {
        return;
    }
    let file = tree.write("site/closed/README.txt", "the README");
    let set_mode =
        |mode| std::fs::set_permissions(&file, Permissions::from_mode(mode)).expect("our own file");
    set_mode(0o600);
    let server = Launch::new(strategy)
        .root(&tree.join("site"))
        .args(["--listing", "--user", USER])
        .start();
    let mut connection = server.connect();
    let page = connection.get("/closed/").text();
    assert!(
        page.contains("cannot be read") && !page.contains("the README"),
        "{page}"
    );
    let warned = |server: &Server| {
        let said = server.stderr();
        (said.contains("/closed/README.txt") && said.contains("not shown in the listing")).then_some(())
    };
    eventually("the log names the file", || warned(&server));
    set_mode(0o644);
    assert!(connection.get("/closed/").text().contains("the README"));
}

fn a_theme_is_part_of_the_page_and_its_policy(strategy: Strategy) {
    let tree = Tree::with(&[
        (
            "weir.toml",
            "root = 'site'\nlisting = true\nlisting-stylesheet = '/theme.css'\nlisting-header = '<p>Ours &amp; yours'\n\
             listing-footer = '<p>The end'\n\
             [[host]]\nnames = ['plain.test']\nlisting-stylesheet = ''\nlisting-header = ''\n\
             [[host]]\nnames = ['own.test']\nheader = [\"Content-Security-Policy: default-src 'self'\"]\n\
             [[host]]\nnames = ['strict.test']\nsecurity-headers = 'strict'\n",
        ),
        ("site/d/a.txt", "a"),
        ("site/theme.css", "body{color:red}"),
    ]);
    let config = tree.join("weir.toml");
    let server = Launch::new(strategy)
        .args(["--config".as_ref(), config.as_os_str()])
        .start();
    let mut connection = server.connect();
    let mut of = |host: &str| {
        connection.send(format!("GET /d/ HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let page = connection.receive("GET");
        (page.text(), page.must("Content-Security-Policy").to_owned())
    };
    let (page, policy) = of("a.test");
    assert!(
        page.contains("<link rel=\"stylesheet\" href=\"/theme.css\">"),
        "{page}"
    );
    assert!(
        page.contains("<body>\n<p>Ours &amp; yours") && page.contains("<p>The end</body>"),
        "{page}"
    );
    assert!(
        policy.contains("style-src 'sha256-") && policy.contains("' 'self'; img-src 'self'"),
        "{policy}"
    );
    let (page, policy) = of("plain.test");
    assert!(
        !page.contains("theme.css") && !page.contains("Ours") && page.contains("The end"),
        "{page}"
    );
    assert!(
        policy.contains("'; img-src") && !policy.contains("'self'; img-src"),
        "{policy}"
    );
    assert_eq!(of("own.test").1, "default-src 'self'");
    let (_, policy) = of("strict.test");
    assert!(
        policy.contains("style-src 'self' 'sha256-") && policy.contains("form-action 'self'"),
        "{policy}"
    );
    let json = connection.request("GET", "/d/", &[("Accept", "application/json")]);
    assert_eq!(json.field("Content-Security-Policy"), None);
    tree.write(
        "bad.toml",
        "listing = true\n[[host]]\nnames = ['a.test']\nlisting-stylesheet = 'theme.css'\n",
    );
    let (code, said) = Launch::new(strategy)
        .args(["--config".as_ref(), tree.join("bad.toml").as_os_str()])
        .fail();
    assert_eq!(code, 2, "{said}");
    assert!(
        said.contains("bad.toml:4: `listing-stylesheet`: `theme.css` is not a path of the site"),
        "{said}"
    );
}

/// A large folder costs a page, not all its names.
fn a_large_folder_is_shown_in_parts(strategy: Strategy) {
    let tree = Tree::new();
    for number in 0..6_000 {
        tree.write(&format!("d/{number:05}.txt"), "");
    }
    let server = launch(strategy, &tree);
    let mut connection = server.connect();
    for (query, shown, first, pages) in [
        ("", 1_000, "00000.txt", 6),
        ("?page=6", 1_000, "05000.txt", 6),
        ("?limit=99999999", 5_000, "00000.txt", 2),
        ("?limit=5000&page=2", 1_000, "05000.txt", 2),
        ("?q=99&limit=3&page=2&order=desc", 3, "", 40),
    ] {
        let listing = json(&mut connection, &format!("/d/{query}"));
        let entries = listing["entries"].as_array().expect("entries");
        assert_eq!(entries.len(), shown, "{query}");
        assert!(names(&listing).starts_with(first), "{query}");
        assert_eq!(listing["total"], 6_000, "{query}");
        if !first.is_empty() {
            assert_eq!(listing["pages"], pages, "{query}");
        }
        assert_eq!(listing["truncated"], false);
    }
    let page = connection.get("/d/");
    assert!(page.body.len() < 300_000, "{}", page.body.len());
    assert!(page.text().contains("6000 entries. This page shows 1 to 1000."));
}

on_each_back_end!(
    orders_pages_and_searches,
    hostile_names_are_only_text,
    a_readme_is_shown_and_cannot_act,
    a_readme_obeys_the_rules_of_its_file,
    an_unreadable_readme_is_named,
    a_theme_is_part_of_the_page_and_its_policy,
    a_large_folder_is_shown_in_parts,
);

/// A view is made on another thread or by the worker itself, which is for the strategy to choose.
mod on_every_strategy {
    use super::*;
    on_every_strategy!(each_view_has_its_own_validator);
}
