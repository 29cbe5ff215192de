//! Several roots in one site (`[[mount]]`): which folder answers, that every rule of the site applies to its files, and
//! what a reload, a switch of versions, an upload and a lost folder do.

use crate::serve::access::USERS;
use crate::serve::control::ctl;
use crate::serve::disk::VISIBLE;
use crate::serve::frames;
use crate::serve::http3::client::Client;
use crate::serve::on_every_strategy;
use crate::serve::on_strategy;
use crate::serve::process::{Launch, Server, Strategy, eventually, within};
use crate::serve::proxy::{Upstream, head};
use crate::serve::rights::{USER, skipped};
use crate::serve::tls::Pairs;
use crate::serve::tree::Tree;
use std::io::Write as _;
use std::process::Command;

const CONFIG: &str = r#"
root = "site"
spa-fallback = "/assets/app.html"
health = true

[error-pages]
403 = "/assets/403.html"

[[mount]]
path = "/assets/"
root = "store/assets"

[[mount]]
path = "/assets/archive/"
root = "old"
listing = true

[[mount]]
path = "/keep/"
root = "store"
strip = false
index = ["home.html"]

[[access]]
path = "/assets/secret/*"
deny = "all"

[[header-rule]]
path = "/assets/*"
header = ["Cache-Control: max-age=60"]

[[redirect]]
from = "/assets/moved"
to = "/assets/a.txt"

[[try-files]]
path = "/assets/*"
files = ["$path", "$path.html"]

[[host]]
names = ["other.test"]
root = "other"
spa-fallback = false

[[host]]
names = ["own.test"]
root = "other"
spa-fallback = false
try-files = []
[[host.mount]]
path = "/mine/"
root = "old"

[[host]]
names = ["none.test"]
root = "other"
spa-fallback = false
mount = []
"#;

fn tree() -> Tree {
    Tree::with(&[
        ("weir.toml", CONFIG),
        ("site/index.html", "home"),
        ("site/assets/a.txt", "shadowed"),
        ("site/a.txt", "of the site"),
        ("store/assets/a.txt", "an asset"),
        ("store/assets/page.html", "<p>page"),
        ("store/assets/app.html", "<p>application"),
        ("store/assets/403.html", "<p>forbidden"),
        ("store/assets/secret/a.txt", "secret"),
        ("store/assets/.git/config", "hidden"),
        ("store/assets/docs/index.html", "<p>docs"),
        ("store/assets/coded.js", "let plain = 1;"),
        ("store/assets/coded.js.gz", "sibling"),
        ("store/assets/archive/a.txt", "shadowed"),
        ("store/keep/home.html", "<p>kept"),
        ("store/a.txt", "beside what is kept"),
        ("old/1999/a.txt", "archived"),
        ("other/a.txt", "other"),
    ])
}

fn launch(strategy: Strategy, tree: &Tree) -> Launch {
    Launch::new(strategy).args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
}

/// Status, and content or location.
fn ask(server: &Server, host: &str, path: &str) -> (u16, String) {
    let mut connection = server.connect();
    connection.send(format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: text/html\r\n\r\n"
    ));
    let answer = connection.receive("GET");
    let shown = match answer.field("Location") {
        Some(location) => location.to_owned(),
        None => answer.text(),
    };
    (answer.status, shown)
}

/// Host, path, status, and content or location.
const ANSWERS: &[(&str, &str, u16, &str)] = &[
    ("a.test", "/", 200, "home"),
    ("a.test", "/a.txt", 200, "of the site"),
    ("a.test", "/assets/a.txt", 200, "an asset"),
    ("a.test", "/assets/x/../%61.txt", 200, "an asset"),
    ("a.test", "/assets", 301, "/assets/"),
    ("a.test", "/assets/docs", 301, "/assets/docs/"),
    ("a.test", "/assets/docs/", 200, "<p>docs"),
    ("a.test", "/assets/page", 200, "<p>page"),
    ("a.test", "/assets/moved", 301, "/assets/a.txt"),
    ("a.test", "/assets/../a.txt", 200, "of the site"),
    ("a.test", "/assets/secret/a.txt", 403, "<p>forbidden"),
    ("a.test", "/assets/archive/1999/a.txt", 200, "archived"),
    ("a.test", "/keep/", 200, "<p>kept"),
    ("a.test", "/some/view", 200, "<p>application"),
    ("a.test", "/assets/.git/config", 200, "<p>application"),
    ("other.test", "/assets/a.txt", 200, "an asset"),
    ("other.test", "/a.txt", 200, "other"),
    ("own.test", "/mine/1999/a.txt", 200, "archived"),
];

fn each_path_has_its_folder(strategy: Strategy) {
    let tree = tree();
    let server = launch(strategy, &tree).start();
    // Twice: the second answer comes from the cache.
    for _ in 0..2 {
        for &(host, path, status, shown) in ANSWERS {
            assert_eq!(
                ask(&server, host, path),
                (status, shown.to_owned()),
                "{host}{path}"
            );
        }
        for (host, path) in [
            ("own.test", "/assets/a.txt"),
            ("none.test", "/assets/a.txt"),
            ("other.test", "/keep/a.txt"),
        ] {
            assert_eq!(ask(&server, host, path).0, 404, "{host}{path}");
        }
        let listing = ask(&server, "a.test", "/assets/archive/");
        assert!(listing.0 == 200 && listing.1.contains("1999"), "{listing:?}");
        let part = ask(&server, "a.test", "/assets/archive/?q=2001");
        assert!(part.0 == 200 && !part.1.contains("1999"), "{part:?}");
    }
    let mut connection = server.connect();
    let whole = connection.get("/assets/a.txt");
    assert_eq!(whole.must("Cache-Control"), "max-age=60");
    let part = connection.request("GET", "/assets/a.txt", &[("Range", "bytes=3-")]);
    assert_eq!((part.status, part.text().as_str()), (206, "asset"));
    let same = connection.request("GET", "/assets/a.txt", &[("If-None-Match", whole.must("ETag"))]);
    assert_eq!(same.status, 304);
    let coded = connection.request("GET", "/assets/coded.js", &[("Accept-Encoding", "gzip")]);
    assert_eq!(
        (coded.must("Content-Encoding"), coded.text().as_str()),
        ("gzip", "sibling")
    );
    for (file, path) in [
        ("store/assets/a.txt", "/assets/a.txt"),
        ("old/1999/a.txt", "/assets/archive/1999/a.txt"),
        ("store/keep/home.html", "/keep/"),
    ] {
        tree.write(file, "changed on disk");
        within(VISIBLE, "a change in a folder", || {
            (connection.get(path).text() == "changed on disk").then_some(())
        });
    }
}

/// As docs/serve.md tells users: a mount with the root of the site changes only what its folder shows.
fn one_folder_of_a_site_is_listed_or_left_out(strategy: Strategy) {
    for (site, folder) in [(false, true), (true, false)] {
        let config = format!(
            "root = \"site\"\nlisting = {site}\n\
             [[mount]]\npath = \"/pub/\"\nroot = \"site\"\nstrip = false\nlisting = {folder}\n"
        );
        let tree = Tree::with(&[
            ("weir.toml", &*config),
            ("site/pub/a.txt", "in the folder"),
            ("site/pub/deep/b.txt", "below it"),
            ("site/quux/c.txt", "beside it"),
        ]);
        let server = launch(strategy, &tree).start();
        // Twice: the second answer comes from the cache.
        for _ in 0..2 {
            for (path, is_listed, name) in [
                ("/pub/", folder, "a.txt"),
                ("/pub/deep/", folder, "b.txt"),
                ("/quux/", site, "c.txt"),
                ("/", site, "quux"),
            ] {
                let (status, text) = ask(&server, "a.test", path);
                let wanted = if is_listed { 200 } else { 403 };
                assert_eq!(
                    (status, text.contains(name)),
                    (wanted, is_listed),
                    "{path}: {text}"
                );
            }
            for (path, shown) in [
                ("/pub/a.txt", "in the folder"),
                ("/pub/deep/b.txt", "below it"),
                ("/quux/c.txt", "beside it"),
            ] {
                assert_eq!(ask(&server, "a.test", path), (200, shown.to_owned()), "{path}");
            }
            assert_eq!(ask(&server, "a.test", "/pub"), (301, "/pub/".to_owned()));
        }
    }
}

#[test]
fn clients_of_http2_and_http3_get_the_same() {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    pairs.tree.write("store/a.txt", "an asset");
    let mount = format!("--mount=/assets={}", pairs.tree.join("store").display());
    let server = pairs
        .launch(Strategy::LOOPS, &["a"])
        .args(["--http3", mount.as_str()])
        .start();
    let mut client = Client::open(server.address, &pairs.client(), "a.test");
    assert_eq!(client.get("/assets/a.txt", &[]).text(), "an asset");
    assert_eq!(client.get("/assets", &[]).field("location"), Some("/assets/"));
    let tree = tree();
    let server = launch(Strategy::LOOPS, &tree).args(["--http2=all"]).start();
    let mut client = frames::connect(&server);
    for &(host, path, status, shown) in ANSWERS {
        let got = client.get(path, &[(":authority", host), ("accept", "text/html")]);
        let text = match got.field("location") {
            Some(location) => location.to_owned(),
            None => got.text(),
        };
        assert_eq!((got.status, text), (status, shown.to_owned()), "{host}{path}");
    }
}

#[test]
fn an_application_gets_what_is_in_no_folder() {
    let upstream = Upstream::new(|stream| {
        let got = head(stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\napp");
        got
    });
    let tree = Tree::with(&[
        ("site/a.txt", "site"),
        ("store/a.txt", "asset"),
        (
            "weir.toml",
            &format!(
                "root = 'site'\n[[mount]]\npath = '/assets/'\nroot = 'store'\n\
                 [[proxy]]\npath = '/assets/*'\nwhen = 'missing'\nupstreams = ['{}']\n",
                upstream.url
            ),
        ),
    ]);
    let server = launch(Strategy::LOOPS, &tree).start();
    assert_eq!(ask(&server, "a.test", "/assets/a.txt"), (200, "asset".to_owned()));
    assert_eq!(ask(&server, "a.test", "/assets/none"), (200, "app".to_owned()));
    assert_eq!(ask(&server, "a.test", "/none").0, 404);
}

fn a_reload_changes_mounts(strategy: Strategy) {
    let tree = tree();
    let server = launch(strategy, &tree).start();
    assert_eq!(ask(&server, "a.test", "/assets/a.txt").1, "an asset");
    let reload = |config: &str, said: &str| {
        let before = server.stderr().len();
        tree.write("weir.toml", config);
        server.signal("HUP");
        eventually(said, || server.stderr()[before..].contains(said).then_some(()));
    };
    reload(
        "root = 'site'\n[[mount]]\npath = '/assets/'\nroot = 'no/such'\n",
        "not reloaded",
    );
    let said = server.stderr();
    assert!(said.contains("`/assets/`") && said.contains("no/such"), "{said}");
    assert_eq!(ask(&server, "a.test", "/assets/a.txt").1, "an asset");
    reload(
        "root = 'site'\n[[mount]]\npath = '/assets/'\nroot = 'old/1999'\n",
        "\"reloaded\"",
    );
    assert_eq!(ask(&server, "a.test", "/assets/a.txt").1, "archived");
    assert_eq!(ask(&server, "a.test", "/keep/").0, 404);
    reload("root = 'site'\n", "\"reloaded\"");
    assert_eq!(ask(&server, "a.test", "/assets/a.txt").1, "shadowed");
}

fn a_lost_folder_is_told(strategy: Strategy) {
    let tree = tree();
    let server = launch(strategy, &tree).start();
    let ready = || server.connect().get("/readyz").status;
    assert_eq!(ready(), 200);
    std::fs::rename(tree.join("old"), tree.join("aside")).expect("a rename within the tree");
    eventually("it is not ready", || (ready() == 503).then_some(()));
    let named = format!("`{}`", tree.join("old").display());
    eventually("a complaint", || server.stderr().contains(&named).then_some(()));
    assert_eq!(ask(&server, "a.test", "/a.txt").1, "of the site");
    std::fs::rename(tree.join("aside"), tree.join("old")).expect("a rename within the tree");
    eventually("it is ready", || (ready() == 200).then_some(()));
    eventually("its files are served", || {
        (ask(&server, "a.test", "/assets/archive/1999/a.txt").1 == "archived").then_some(())
    });
}

/// Mounts belong to the configuration, not to a version.
fn a_switch_of_versions_leaves_mounts_alone(strategy: Strategy) {
    let tree = Tree::with(&[
        ("www/v1/a.txt", "1"),
        ("www/v2/a.txt", "2"),
        ("store/a.txt", "an asset"),
        (
            "weir.toml",
            "versions = 'www'\ncontrol = 'control'\n[[mount]]\npath = '/assets/'\nroot = 'store'\n",
        ),
    ]);
    tree.link("www/current", "v1");
    let server = launch(strategy, &tree).start();
    let mut connection = server.connect();
    let before = connection.get("/assets/a.txt");
    assert_eq!(
        (connection.get("/a.txt").text(), before.text()),
        ("1".to_owned(), "an asset".to_owned())
    );
    let (code, said) = ctl(&tree.join("control"), &["site", "switch", "v2"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(connection.get("/a.txt").text(), "2");
    let tag = before.must("ETag");
    let same = connection.request("GET", "/assets/a.txt", &[("If-None-Match", tag)]);
    assert_eq!(same.status, 304, "its files did not change for clients");
    assert_eq!(same.field("Last-Modified"), before.field("Last-Modified"));
}

/// A rule for the index of a directory covers the directory, whatever the index is called in a mount.
#[test]
fn a_rule_for_an_index_covers_its_directory() {
    let tree = Tree::with(&[
        ("site/index.html", "site"),
        ("store/d/home.html", "home"),
        ("store/d/a.txt", "a"),
        (
            "weir.toml",
            "root = 'site'\n[[mount]]\npath = '/assets/'\nroot = 'store'\nindex = ['home.html']\n\
             [[access]]\npath = '*/home.html'\ndeny = 'all'\n",
        ),
    ]);
    let server = launch(Strategy::LOOPS, &tree).start();
    for (path, status) in [
        ("/assets/d/home.html", 403),
        ("/assets/d/", 403),
        ("/assets/d/a.txt", 200),
    ] {
        assert_eq!(ask(&server, "a.test", path).0, status, "{path}");
    }
}

#[test]
fn what_is_stored_in_a_folder_is_served_at_once() {
    let tree = Tree::with(&[("users", USERS), ("site/a.txt", "site"), ("store/a.txt", "old")]);
    tree.write(
        "weir.toml",
        format!(
            "root = 'site'\n[[mount]]\npath = '/assets/'\nroot = 'store'\n\
             [[access]]\npath = '/dav/*'\nhtpasswd = 'users'\n\
             [[uploads]]\npath = '/dav/'\nfolder = '{}'\n",
            tree.join("store").display()
        ),
    );
    let server = launch(Strategy::LOOPS, &tree).start();
    let (mut reader, mut writer) = (server.connect(), server.connect());
    assert_eq!(reader.get("/assets/a.txt").text(), "old");
    for round in 0..20 {
        let content = format!("content {round:02}");
        writer.send(format!(
            "PUT /dav/a.txt HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YW5uOnNlY3JldA==\r\nContent-Length: 10\r\n\r\n{content}"
        ));
        assert_eq!(writer.receive("PUT").status, 204);
        assert_eq!(reader.get("/assets/a.txt").text(), content);
    }
    assert_eq!(reader.get("/a.txt").text(), "site");
}

fn folders_are_in_reach_of_a_confined_server(strategy: Strategy) {
    let tree = tree();
    if skipped(&tree) {
        return;
    }
    let server = launch(strategy, &tree)
        .args(["--user", USER, "--landlock=root"])
        .start();
    let reach = server.started["rights"]["landlock"].to_string();
    for _ in 0..2 {
        assert_eq!(ask(&server, "a.test", "/assets/a.txt").1, "an asset", "{reach}");
        assert_eq!(
            ask(&server, "own.test", "/mine/1999/a.txt").1,
            "archived",
            "{reach}"
        );
    }
    assert_eq!(server.started["mounts"][0]["path"], "/assets/");
}

/// Exit code, output and errors of `weir serve` with these arguments.
fn serve(tree: &Tree, arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["serve", "--config"])
        .arg(tree.join("weir.toml"))
        .args(arguments)
        .output()
        .expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let code = output.status.code().expect("no signal");
    (code, text(output.stdout), text(output.stderr))
}

#[test]
fn an_explanation_names_the_mount() {
    let tree = tree();
    for (request, words) in [
        ("GET /assets/a.txt", "`/assets/`: files in"),
        ("GET /assets/archive/1999/a.txt", "`/assets/archive/`: files in"),
        ("GET /keep/", "the file `/keep/home.html`"),
        ("GET http://own.test/mine/1999/a.txt", "`/mine/`: files in"),
    ] {
        let (code, said, errors) = serve(&tree, &["--explain", request]);
        assert!(
            code == 0 && said.contains(words) && said.contains("mount"),
            "{said}{errors}"
        );
    }
    let folder = format!("`{}`", tree.join("store/keep").display());
    let (_, said, _) = serve(&tree, &["--explain", "GET /keep/"]);
    assert!(said.contains(&folder), "{said}");
    let (_, said, _) = serve(&tree, &["--explain", "GET /a.txt"]);
    assert!(!said.contains("mount"), "{said}");
}

#[test]
fn a_check_names_the_folder_that_is_missing() {
    let tree = tree();
    assert_eq!(serve(&tree, &["--check"]).0, 0);
    for (path, folder, other, said) in [
        ("/assets/", "store/assets", "no/such", "no such directory"),
        ("/mine/", "old", "no/such", "no such directory"),
        ("/assets/", "store/assets", "site/a.txt", "it is a file"),
    ] {
        let table = |folder: &str| format!("path = \"{path}\"\nroot = \"{folder}\"");
        let line = CONFIG
            .lines()
            .position(|line| line == format!("path = \"{path}\""));
        let named = format!("weir.toml:{}: ", line.expect("the mount") + 1);
        tree.write("weir.toml", CONFIG.replace(&table(folder), &table(other)));
        let (code, _, errors) = serve(&tree, &["--check"]);
        let other = tree.join(other).display().to_string();
        assert!(
            code == 2 && errors.contains(&other) && errors.contains(&named) && errors.contains(said),
            "{code} {errors}"
        );
    }
    tree.write(
        "weir.toml",
        CONFIG.replace("path = \"/keep/\"", "path = \"/kept/\""),
    );
    let (code, _, said) = serve(&tree, &["--check"]);
    let folder = tree.join("store/kept").display().to_string();
    assert!(
        code == 0 && said.contains(&folder) && said.contains("strip = false"),
        "{said}"
    );
}

on_every_strategy!(each_path_has_its_folder);
on_strategy!(in_threads, LOOPS: a_reload_changes_mounts, a_lost_folder_is_told, a_switch_of_versions_leaves_mounts_alone,
    folders_are_in_reach_of_a_confined_server, one_folder_of_a_site_is_listed_or_left_out);
on_strategy!(in_processes, PROCESSES: a_reload_changes_mounts, a_lost_folder_is_told,
    a_switch_of_versions_leaves_mounts_alone, folders_are_in_reach_of_a_confined_server,
    one_folder_of_a_site_is_listed_or_left_out);
