//! Versions of a site: a switch that every request after it sees and that no request before it notices, the way back,
//! and versions that cannot be switched to.

use crate::cli::weir;
use crate::serve::control::ctl;
use crate::serve::on_every_strategy;
use crate::serve::on_strategy;
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::rights::{NOBODY, USER, skipped};
use crate::serve::tree::Tree;
use crate::serve::upgrade::Line;
use crate::serve::wire::{Connection, find, head};
use serde_json::Value;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const USAGE: i32 = 2;

/// More than sockets and pipes between server and client hold.
const LARGE: usize = 16 << 20;

/// When all files were last changed, and the link was made: seconds since 1970.
const THEN: u64 = 1_000_000_000;

/// Writes version `name`, whose files consist of the last letter of it. All files of all versions have the same time.
fn write_version(tree: &Tree, folder: &str, name: &str) {
    for (file, length) in [("a.txt", 1), ("page.html", 10_000), ("disk.bin", 100_000)] {
        write_file(tree, &format!("{folder}/{name}/{file}"), name, length);
    }
}

fn write_file(tree: &Tree, path: &str, version: &str, length: usize) {
    let path = tree.write(path, version[version.len() - 1..].repeat(length));
    let file = File::options().write(true).open(path).expect("it was written");
    file.set_modified(UNIX_EPOCH + Duration::from_secs(THEN))
        .expect("a time");
}

/// A tree with the versions `v1` and `v2` of the site in `www`, of which the first is in force.
fn tree() -> Tree {
    let tree = Tree::new();
    write_version(&tree, "www", "v1");
    write_version(&tree, "www", "v2");
    tree.link("www/current", "v1");
    let touched = Command::new("touch")
        .args(["-h", "-d", &format!("@{THEN}")])
        .arg(tree.join("www/current"))
        .status();
    assert!(touched.expect("touch(1)").success());
    tree.write("weir.toml", "versions = 'www'\ncontrol = 'control'\n");
    tree
}

fn launch(strategy: Strategy, tree: &Tree) -> Launch {
    Launch::new(strategy).args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
}

fn start(strategy: Strategy, tree: &Tree) -> (Server, PathBuf) {
    (launch(strategy, tree).start(), tree.join("control"))
}

/// `weir ctl site` with these arguments, which must succeed: what the server says.
fn site(socket: &Path, arguments: &[&str]) -> Value {
    let (code, text) = ctl(socket, &[&["site"], arguments].concat());
    assert_eq!(code, 0, "{arguments:?}: {text}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The same, which must fail as a mistake of the operator's: the message.
fn refused(socket: &Path, arguments: &[&str]) -> String {
    let (code, text) = ctl(socket, &[&["site"], arguments].concat());
    assert_eq!(code, USAGE, "{arguments:?}: {text}");
    text
}

fn content(server: &Server, path: &str) -> String {
    let answer = server.connect().get(path);
    assert_eq!(answer.status, 200, "{path}");
    answer.text()
}

fn link(tree: &Tree, name: &str) -> Option<PathBuf> {
    std::fs::read_link(tree.join(name)).ok()
}

fn a_switch_is_seen_by_every_request_after_it_and_none_before(strategy: Strategy) {
    let tree = tree();
    write_file(&tree, "www/v1/large.bin", "v1", LARGE);
    let (mut server, socket) = start(strategy, &tree);
    let mut kept = server.connect();
    let old = kept.get("/a.txt");
    assert_eq!(old.text(), "1");
    let old_disk = kept.get("/disk.bin");
    assert_eq!(old_disk.body, vec![b'1'; 100_000]);
    // A download that is under way when the site is switched.
    let mut download = server.connect();
    download.send(head("GET", "/large.bin", &[]));
    let part = download.exactly(5_000);
    let began = part.len() - find(&part, b"\r\n\r\n").expect("a head") - 4;
    assert!(began > 0 && part.ends_with(b"1"));

    let said = site(&socket, &["switch", "v2"]);
    let now = said["now"].as_str().expect("what is in force").to_owned();
    assert!(now.contains("`v2`") && now.contains("in place of `v1`"), "{now}");
    for connection in [&mut kept, &mut server.connect()] {
        assert_eq!(connection.get("/a.txt").text(), "2");
        assert_eq!(connection.get("/disk.bin").body, vec![b'2'; 100_000]);
        // Nothing that a client has of the old version is taken for the new one, though length and time are the same.
        for (path, old) in [("/a.txt", &old), ("/disk.bin", &old_disk)] {
            for (name, value) in [
                ("If-None-Match", old.must("ETag")),
                ("If-Modified-Since", old.must("Last-Modified")),
            ] {
                let answer = connection.request("GET", path, &[(name, value)]);
                assert_eq!(answer.status, 200, "{path}, {name}");
                assert_eq!(answer.body[0], b'2', "{path}, {name}");
            }
            for value in [old.must("ETag"), old.must("Last-Modified")] {
                let part = connection.request("GET", path, &[("Range", "bytes=0-0"), ("If-Range", value)]);
                assert_eq!((part.status, part.body[0]), (200, b'2'), "{path}, {value}");
            }
        }
    }
    // It finishes with the version that it began with.
    let whole = download.exactly(LARGE - began);
    let others = whole.iter().filter(|&&byte| byte != b'1').count();
    assert_eq!(others, 0, "bytes of another version");
    drop(download);

    // The way back, and back again. Dates have whole seconds: the next version is of another one.
    let second = || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.expect("after 1970").as_secs()
    };
    let new = kept.get("/a.txt");
    let began = second();
    eventually("another second", || (second() > began).then_some(()));
    site(&socket, &["rollback"]);
    assert_eq!(kept.get("/a.txt").text(), "1");
    assert_eq!(kept.get("/a.txt").must("ETag"), old.must("ETag"));
    let since = [("If-Modified-Since", new.must("Last-Modified"))];
    assert_eq!(kept.request("GET", "/a.txt", &since).text(), "1");
    site(&socket, &["rollback"]);
    assert_eq!(kept.get("/a.txt").text(), "2");
    let listed = site(&socket, &["list"]);
    let site = &listed["sites"][0];
    assert_eq!(
        (&site["current"], &site["previous"]),
        (&"v2".into(), &"v1".into()),
        "{listed}"
    );
    assert_eq!(site["versions"], serde_json::json!(["v1", "v2"]), "{listed}");
    drop(kept);
    assert_eq!(server.stop(), 0, "{}", server.stderr());
}

/// Every answer is of one version as a whole, and of the new one if it was asked for after the switch.
fn no_request_under_load_gets_a_mixture_or_an_error(strategy: Strategy) {
    const SWITCHES: u32 = 12;
    let tree = tree();
    let (mut server, socket) = start(strategy, &tree);
    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let clients: Vec<_> = ["/a.txt", "/page.html", "/disk.bin", "/page.html"]
        .into_iter()
        .map(|path| {
            let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
            let address = server.address;
            std::thread::spawn(move || {
                let mut tags: HashMap<String, u8> = HashMap::new();
                let mut connection = Connection::open(address);
                while !stop.load(Ordering::Relaxed) {
                    let answer = connection.get(path);
                    assert_eq!(answer.status, 200, "{path}");
                    let letter = answer.body[0];
                    assert!(
                        answer.body.iter().all(|&byte| byte == letter),
                        "{path} is a mixture"
                    );
                    let known = *tags.entry(answer.must("ETag").to_owned()).or_insert(letter);
                    assert_eq!(known, letter, "{path}: one tag for both versions");
                    answered.fetch_add(1, Ordering::Relaxed);
                    if answer.closes() {
                        connection = Connection::open(address);
                    }
                }
            })
        })
        .collect();
    for number in 0..SWITCHES {
        let (version, wanted) = [("v2", "2"), ("v1", "1")][number as usize % 2];
        site(&socket, &["switch", version]);
        for path in ["/a.txt", "/page.html"] {
            assert_eq!(
                &content(&server, path)[..1],
                wanted,
                "{path} after switch {number}"
            );
        }
        let before = answered.load(Ordering::Relaxed);
        eventually("the load goes on", || {
            let failed = clients.iter().any(std::thread::JoinHandle::is_finished);
            (failed || answered.load(Ordering::Relaxed) >= before + 8).then_some(())
        });
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().expect("no request fails");
    }
    assert_eq!(server.stop(), 0, "{}", server.stderr());
}

on_every_strategy!(a_switch_is_seen_by_every_request_after_it_and_none_before);

mod under_load {
    use super::*;
    on_strategy!(loops, LOOPS: no_request_under_load_gets_a_mixture_or_an_error);
    on_strategy!(process_loops, PROCESS_LOOPS: no_request_under_load_gets_a_mixture_or_an_error);
    on_strategy!(pool, POOL: no_request_under_load_gets_a_mixture_or_an_error);
}

fn what_cannot_be_put_in_force_is_refused_and_named(strategy: Strategy) {
    let tree = tree();
    tree.write("www/hidden/.partial", "");
    tree.write("www/file", "");
    std::fs::create_dir(tree.join("www/empty")).expect("a folder of the tree");
    tree.link("www/link", "v2");
    let (server, socket) = start(strategy, &tree);
    for (name, why) in [
        ("v3", "there is no version"),
        ("empty", "is empty"),
        ("hidden", "is empty"),
        ("file", "is not a folder"),
        ("link", "is not a folder"),
        ("../www/v2", "cannot be a version"),
        ("current", "cannot be a version"),
        (".", "cannot be a version"),
    ] {
        let said = refused(&socket, &["switch", name]);
        assert!(said.contains(why) && said.contains(name), "{name}: {said}");
        assert_eq!(content(&server, "/a.txt"), "1", "{name}");
    }
    let said = refused(&socket, &["rollback"]);
    assert!(
        said.contains("no version to go back to") && said.contains("v1"),
        "{said}"
    );
    let said = refused(&socket, &["switch", "v2", "--host", "a.test"]);
    assert!(said.contains("leave out --host"), "{said}");
    assert_eq!(link(&tree, "www/current"), Some("v1".into()));
    assert_eq!(link(&tree, "www/previous"), None);
    // One that was removed cannot be gone back to.
    site(&socket, &["switch", "v2"]);
    std::fs::remove_dir_all(tree.join("www/v1")).expect("a folder of the tree");
    let said = refused(&socket, &["rollback"]);
    assert!(
        said.contains("there is no version") && said.contains("v1"),
        "{said}"
    );
    assert_eq!(content(&server, "/a.txt"), "2");
    // The version in force may be named again.
    let said = site(&socket, &["switch", "v2"]);
    assert!(
        said["now"].as_str().is_some_and(|now| now.contains("as before")),
        "{said}"
    );
    assert_eq!(link(&tree, "www/previous"), Some("v1".into()));
}

mod refusals {
    use super::*;
    on_strategy!(loops, LOOPS: what_cannot_be_put_in_force_is_refused_and_named, what_does_not_open_leaves_the_links);
    on_strategy!(process_loops, PROCESS_LOOPS: what_cannot_be_put_in_force_is_refused_and_named, what_does_not_open_leaves_the_links);
}

/// A version that is there but cannot be served: here because of a file that the whole configuration needs.
fn what_does_not_open_leaves_the_links(strategy: Strategy) {
    const USERS: &str = "ann:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n";
    let tree = tree();
    tree.write("users", USERS);
    tree.replace(
        "weir.toml",
        "versions = 'www'\ncontrol = 'control'\n[[access]]\npath = '/private/*'\nhtpasswd = 'users'\n",
    );
    let (server, socket) = start(strategy, &tree);
    std::fs::remove_file(tree.join("users")).expect("a file of the tree");
    let (code, said) = ctl(&socket, &["site", "switch", "v2"]);
    assert!(code != 0 && said.contains("users"), "{code}: {said}");
    assert_eq!(link(&tree, "www/current"), Some("v1".into()));
    assert_eq!(link(&tree, "www/previous"), None);
    assert_eq!(content(&server, "/a.txt"), "1");
    tree.write("users", USERS);
    site(&socket, &["switch", "v2"]);
    assert_eq!(content(&server, "/a.txt"), "2");
}

#[test]
fn each_host_has_versions_of_its_own() {
    let tree = tree();
    for name in ["x1", "x2"] {
        write_version(&tree, "other", name);
    }
    tree.link("other/current", tree.join("other/x1"));
    tree.replace(
        "weir.toml",
        "versions = 'www'\ncontrol = 'control'\n[[host]]\nnames = ['b.test', 'www.b.test']\nversions = 'other'\n\
         [[host]]\nnames = ['c.test']\nlisting = true\n[[host]]\nnames = ['d.test']\nroot = 'www/v1'\n",
    );
    let (server, socket) = start(Strategy::LOOPS, &tree);
    let of = |host: &str| {
        let mut connection = server.connect();
        connection.send(format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        connection.receive("GET").text()
    };
    let all = || ["a.test", "b.test", "c.test", "d.test"].map(of);
    assert_eq!(all(), ["1", "1", "1", "1"]);
    site(&socket, &["switch", "x2", "--host", "www.b.test"]);
    assert_eq!(all(), ["1", "2", "1", "1"]);
    // Without a host of its own, the top level; hosts without files of their own follow it.
    site(&socket, &["switch", "v2"]);
    assert_eq!(all(), ["2", "2", "2", "1"]);
    site(&socket, &["rollback", "--host", "b.test"]);
    assert_eq!(all(), ["2", "1", "2", "1"]);
    for (host, why) in [
        ("c.test", "has no versions of its own"),
        ("e.test", "--host b.test"),
    ] {
        let said = refused(&socket, &["switch", "v1", "--host", host]);
        assert!(said.contains(why) && said.contains(host), "{said}");
    }
    let listed = site(&socket, &["list"]);
    assert_eq!(listed["sites"].as_array().map(Vec::len), Some(2), "{listed}");
    assert_eq!(listed["sites"][1]["current"], "x1", "{listed}");
    let words = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["ctl", "--socket"])
        .arg(&socket)
        .args(["site", "list"])
        .output()
        .expect("the binary");
    let words = String::from_utf8_lossy(&words.stdout).into_owned();
    for line in [
        "the top level  ",
        "* v2  current\n",
        "  v1  previous\n",
        "b.test, www.b.test  ",
        "* x1  current\n",
        "  x2  previous",
    ] {
        assert!(words.contains(line), "{line:?}: {words}");
    }
    // A server without versions says how to have some.
    tree.replace("weir.toml", "root = 'www/v1'\ncontrol = 'control'\n");
    assert_eq!(ctl(&socket, &["reload"]).0, 0);
    let said = refused(&socket, &["switch", "v2"]);
    assert!(said.contains("set `versions`"), "{said}");
    assert_eq!(site(&socket, &["list"])["sites"], serde_json::json!([]));
}

fn the_choice_survives_reloads_upgrades_and_restarts(strategy: Strategy) {
    let tree = tree();
    let (server, socket) = start(strategy, &tree);
    let mut line = Line::of(server);
    site(&socket, &["switch", "v2"]);
    assert_eq!(ctl(&socket, &["reload"]).0, 0);
    assert_eq!(content(&line.first, "/a.txt"), "2");
    line.upgrade();
    assert_eq!(content(&line.first, "/a.txt"), "2");
    // The new process switches, too.
    site(&socket, &["rollback"]);
    assert_eq!(content(&line.first, "/a.txt"), "1");
    site(&socket, &["rollback"]);
    line.stop();
    drop(line);
    let (mut server, socket) = start(strategy, &tree);
    assert_eq!(content(&server, "/a.txt"), "2");
    site(&socket, &["rollback"]);
    assert_eq!(content(&server, "/a.txt"), "1");
    // A link that was changed by hand takes effect with a reload.
    std::fs::remove_file(tree.join("www/current")).expect("a link of the tree");
    tree.link("www/current", "v2");
    assert_eq!(content(&server, "/a.txt"), "1");
    assert_eq!(ctl(&socket, &["reload"]).0, 0);
    assert_eq!(content(&server, "/a.txt"), "2");
    assert_eq!(server.stop(), 0, "{}", server.stderr());
}

mod choices {
    use super::*;
    on_strategy!(loops, LOOPS: the_choice_survives_reloads_upgrades_and_restarts);
    on_strategy!(process_loops, PROCESS_LOOPS: the_choice_survives_reloads_upgrades_and_restarts);
}

/// The new program may have read the links already, so a switch could be lost.
fn an_upgrade_under_way_refuses_a_switch(strategy: Strategy) {
    let tree = tree();
    let script = tree.write("slow", "#!/bin/sh\necho $$ > \"$0.pid\"\nexec sleep 600 <&0\n");
    Launch::executable(&script);
    tree.link("weir", env!("CARGO_BIN_EXE_weir"));
    // What is started instead lies where a confined process may not execute.
    let mut server = Launch::file(&tree.join("weir"))
        .args(["--listen", "127.0.0.1:0", "--landlock", "off"])
        .args([
            "--concurrency",
            strategy.concurrency,
            "--workers",
            "2",
            "--config",
        ])
        .args([tree.join("weir.toml")])
        .start();
    let socket = tree.join("control");
    std::fs::remove_file(tree.join("weir")).expect("the link");
    tree.link("weir", &script);
    server.signal("USR2");
    eventually("the new one runs", || {
        tree.join("weir.pid").exists().then_some(())
    });
    let (code, said) = ctl(&socket, &["site", "switch", "v2"]);
    assert!(
        code != 0 && said.contains("upgrade in place is under way"),
        "{code}: {said}"
    );
    assert_eq!(link(&tree, "www/current"), Some("v1".into()));
    assert_eq!(content(&server, "/a.txt"), "1");
    assert_eq!(server.stop(), 0, "{}", server.stderr());
}

mod upgrades {
    use super::*;
    on_strategy!(loops, LOOPS: an_upgrade_under_way_refuses_a_switch);
    on_strategy!(process_loops, PROCESS_LOOPS: an_upgrade_under_way_refuses_a_switch);
}

#[test]
fn the_folder_alone_can_be_within_reach() {
    let tree = tree();
    let server = launch(Strategy::LOOPS, &tree)
        .args(["--landlock", "root"])
        .start();
    let rights = server.started["rights"]["landlock"].to_string();
    let folder = tree.join("www").display().to_string();
    assert!(
        rights.contains("no Landlock") || rights.contains(&format!("replaces links in {folder}")),
        "{rights}"
    );
    site(&tree.join("control"), &["switch", "v2"]);
    assert_eq!(content(&server, "/a.txt"), "2");
    site(&tree.join("control"), &["rollback"]);
    assert_eq!(content(&server, "/a.txt"), "1");
}

/// A server whose user may read the versions, but not change the links beside them.
fn links_that_its_user_may_not_change_stay(strategy: Strategy) {
    let tree = tree();
    if skipped(&tree) {
        return;
    }
    // The user may make the socket, and nothing in the folder of the versions.
    std::fs::create_dir(tree.join("run")).expect("a folder of the tree");
    chown(tree.join("run"), Some(NOBODY), Some(NOBODY)).expect("root");
    tree.replace(
        "weir.toml",
        format!("versions = 'www'\ncontrol = 'run/control'\nuser = '{USER}'\n"),
    );
    let (server, socket) = (launch(strategy, &tree).start(), tree.join("run/control"));
    let folder = tree.join("www").display().to_string();
    let (code, said) = ctl(&socket, &["site", "switch", "v2"]);
    assert_eq!(code, 4, "{said}");
    for part in [
        "ermission denied",
        &format!("user {NOBODY}"),
        &format!("write permission for `{folder}`"),
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(
        (link(&tree, "www/current"), link(&tree, "www/previous")),
        (Some("v1".into()), None)
    );
    assert_eq!(content(&server, "/a.txt"), "1");
    assert!(
        !server.stderr().contains("cannot be set back"),
        "{}",
        server.stderr()
    );
    // The permission is enough: the server needs no restart.
    chown(tree.join("www"), Some(NOBODY), Some(NOBODY)).expect("root");
    site(&socket, &["switch", "v2"]);
    assert_eq!(content(&server, "/a.txt"), "2");
    assert_eq!(link(&tree, "www/previous"), Some("v1".into()));
}

mod other_users {
    use super::*;
    on_strategy!(loops, LOOPS: links_that_its_user_may_not_change_stay);
    on_strategy!(process_loops, PROCESS_LOOPS: links_that_its_user_may_not_change_stay);
}

#[test]
fn a_start_says_what_is_missing() {
    let tree = tree();
    let config = tree.join("weir.toml");
    let config = config.to_str().expect("a plain path");
    tree.write("www/a", "");
    let check = || {
        let output = weir(&["serve", "--config", config, "--check"]);
        let text = [output.stdout, output.stderr].concat();
        (
            output.status.code().expect("an exit code"),
            String::from_utf8_lossy(&text).into_owned(),
        )
    };
    let (code, said) = check();
    assert!(code == 0 && said.contains("www/current"), "{code}: {said}");
    let explained = weir(&["serve", "--config", config, "--explain", "GET /a.txt"]);
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.contains("www/v1"), "{explained}");
    for (target, why) in [
        (None, "ln -s VERSION "),
        (Some("../weir.toml"), "not a version beside it"),
        (Some("v3"), "there is no version"),
        (Some("a"), "is not a folder"),
    ] {
        std::fs::remove_file(tree.join("www/current")).expect("a link of the tree");
        if let Some(target) = target {
            tree.link("www/current", target);
        }
        let (code, said) = check();
        assert!(code == USAGE && said.contains(why), "{target:?}: {code}: {said}");
        assert!(said.contains("www"), "{said}");
        if target.is_none() {
            assert!(said.contains("weir.toml:1: "), "{said}");
            tree.link("www/current", "v1");
        }
    }
    tree.replace("weir.toml", "versions = 'www'\nroot = 'www/v1'\n");
    let (code, said) = check();
    assert!(
        code == USAGE && said.contains("cannot be combined with `root`"),
        "{said}"
    );
    // A flag replaces what the file has.
    tree.replace("weir.toml", "versions = 'nowhere'\n");
    let output = weir(&[
        "serve",
        tree.join("www/v1").to_str().expect("text"),
        "--config",
        config,
        "--check",
    ]);
    assert_eq!(output.status.code(), Some(0));
}
