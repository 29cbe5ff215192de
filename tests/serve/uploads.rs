//! Files that clients store, move and remove (`[[uploads]]`): what readers see meanwhile, what a failure leaves, and programs
//! that synchronize a folder.

use crate::serve::access::USERS;
use crate::serve::clients::{ended, run};
use crate::serve::http3::client::Client;
use crate::serve::process::{Launch, Server, Strategy, eventually, signal, within};
use crate::serve::rights::skipped;
use crate::serve::tls::Pairs;
use crate::serve::tree::Tree;
use crate::serve::upgrade::{ENDING, Line, pid_of};
use crate::serve::wire::{Connection, Response, head};
use crate::serve::{on_strategy, where_workers_are_threads};
use std::os::unix::fs::{MetadataExt, chown};
use std::process::Command;

const ANN: (&str, &str) = ("Authorization", "Basic YW5uOnNlY3JldA==");
const BOB: (&str, &str) = ("Authorization", "Basic Ym9iOnNlY3JldA==");
const INFO: &str =
    "<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>";

const CONFIG: &str = r#"
root = "site"
live = "all"
access-log = "access.log"

[[access]]
path = "/dav/*"
htpasswd = "users"

[[uploads]]
path = "/dav/"
quota = "100KiB"
largest = "64KiB"
"#;

fn tree_with(config: &str) -> Tree {
    Tree::with(&[("weir.toml", config), ("users", USERS), ("site/a.txt", "old")])
}

fn launch(strategy: Strategy, tree: &Tree) -> Server {
    Launch::new(strategy)
        .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
        .args(["--http2=all"])
        .start()
}

/// Sends a request of ann's with a body.
fn ask(
    connection: &mut Connection,
    method: &str,
    path: &str,
    fields: &[(&str, &str)],
    body: &str,
) -> Response {
    let length = body.len().to_string();
    let fields = [&[ANN, ("Content-Length", length.as_str())], fields].concat();
    connection.send(head(method, path, &fields) + body);
    connection.receive(method)
}

fn status(server: &Server, method: &str, path: &str, fields: &[(&str, &str)], body: &str) -> u16 {
    ask(&mut server.connect(), method, path, fields, body).status
}

/// The names of files in a folder of the tree, parts included.
fn names(tree: &Tree, below: &str) -> Vec<String> {
    let found = std::fs::read_dir(tree.join(below)).expect("a folder");
    let mut names: Vec<String> = found
        .map(|entry| entry.expect("a name").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    names
}

fn has_part(tree: &Tree) -> bool {
    names(tree, "site")
        .iter()
        .any(|name| name.starts_with(".weir-upload-"))
}

fn what_is_stored_is_served_at_once(strategy: Strategy) {
    let tree = tree_with(CONFIG);
    let server = launch(strategy, &tree);
    let mut reader = server.connect();
    let mut writer = server.connect();
    assert_eq!(reader.get("/a.txt").text(), "old");
    assert_eq!(reader.get("/new.txt").status, 404);
    for round in 0..20 {
        let content = format!("content {round}");
        let stored = ask(&mut writer, "PUT", "/dav/a.txt", &[], &content);
        assert_eq!(
            (stored.status, reader.get("/a.txt").text()),
            (204, content.clone())
        );
        let made = ask(&mut writer, "PUT", "/dav/new.txt", &[], &content);
        assert_eq!(
            (made.status, reader.get("/new.txt").text()),
            (201, content.clone())
        );
        let shown = ask(&mut writer, "GET", "/dav/new.txt", &[], "");
        assert_eq!((shown.must("ETag"), shown.text()), (made.must("ETag"), content));
        assert_eq!(ask(&mut writer, "DELETE", "/dav/new.txt", &[], "").status, 204);
        assert_eq!(reader.get("/new.txt").status, 404);
    }
    assert_eq!(ask(&mut writer, "MKCOL", "/dav/dir/", &[], "").status, 201);
    assert_eq!(ask(&mut writer, "PUT", "/dav/dir/b.txt", &[], "b").status, 201);
    assert_eq!(reader.get("/dir/b.txt").text(), "b");
    let moved = [("Destination", "http://weir.localhost/dav/other")];
    assert_eq!(ask(&mut writer, "MOVE", "/dav/dir", &moved, "").status, 201);
    assert_eq!(
        (reader.get("/dir/b.txt").status, reader.get("/other/b.txt").text()),
        (404, "b".to_owned())
    );
    // From one folder into another, which Landlock has a right of its own for.
    let up = [("Destination", "/dav/b.txt")];
    assert_eq!(ask(&mut writer, "MOVE", "/dav/other/b.txt", &up, "").status, 201);
    assert_eq!(reader.get("/b.txt").text(), "b");
    let metrics = reader.get("/.weir/metrics").text();
    for line in [
        "weir_upload_files_total{folder=\"",
        "weir_upload_removed_total{folder=\"",
    ] {
        let found = metrics.lines().find(|found| found.starts_with(line));
        let expected = if line.contains("files") { " 41" } else { " 20" };
        assert!(
            found.is_some_and(|found| found.ends_with(expected)),
            "{line}: {found:?}"
        );
    }
    eventually("a line with the user", || {
        let log = std::fs::read_to_string(tree.join("access.log")).expect("a log");
        let mut lines = log.lines();
        lines
            .any(|line| line.contains(" ann ") && line.contains("\"PUT /dav/new.txt HTTP/1.1\" 201"))
            .then_some(())
    });
}

fn readers_see_one_file_or_the_other(strategy: Strategy) {
    let tree = tree_with(CONFIG);
    let server = launch(strategy, &tree);
    let mut writer = server.connect();
    writer.send(head("PUT", "/dav/a.txt", &[ANN, ("Content-Length", "6")]));
    writer.send("new");
    eventually("a part is there", || has_part(&tree).then_some(()));
    let mut reader = server.connect();
    assert_eq!(reader.get("/a.txt").text(), "old");
    assert_eq!(
        std::fs::read_to_string(tree.join("site/a.txt")).expect("a file"),
        "old"
    );
    let listed = ask(&mut server.connect(), "PROPFIND", "/dav/", &[("Depth", "1")], "");
    assert!(
        listed.status == 207 && !listed.text().contains("weir-upload"),
        "{}",
        listed.text()
    );
    for name in names(&tree, "site").iter().filter(|name| name.starts_with('.')) {
        assert_eq!(reader.get(&format!("/{name}")).status, 404);
    }
    writer.send("er!");
    assert_eq!(writer.receive("PUT").status, 204);
    assert_eq!(reader.get("/a.txt").text(), "newer!");
    assert_eq!(names(&tree, "site"), ["a.txt"]);
}

fn a_body_that_is_cut_off_leaves_nothing(strategy: Strategy) {
    let tree = tree_with(CONFIG);
    let server = launch(strategy, &tree);
    for framing in [("Content-Length", "6"), ("Transfer-Encoding", "chunked")] {
        let mut writer = server.connect();
        writer.send(head("PUT", "/dav/a.txt", &[ANN, framing]));
        writer.send(if framing.1 == "6" { "new" } else { "3\r\nnew\r\n" });
        eventually("a part is there", || has_part(&tree).then_some(()));
        drop(writer);
        eventually("the part is gone", || (!has_part(&tree)).then_some(()));
        assert_eq!(server.connect().get("/a.txt").text(), "old");
    }
    assert_eq!(names(&tree, "site"), ["a.txt"]);
}

fn a_stop_waits_for_the_upload_under_way(strategy: Strategy) {
    let tree = tree_with(CONFIG);
    let mut server = launch(strategy, &tree);
    let mut writer = server.connect();
    writer.send(head("PUT", "/dav/new.txt", &[ANN, ("Content-Length", "6")]));
    writer.send("new");
    eventually("a part is there", || has_part(&tree).then_some(()));
    server.signal("TERM");
    eventually("nobody is let in any more", || {
        std::net::TcpStream::connect(server.address)
            .is_err()
            .then_some(())
    });
    writer.send("er!");
    assert_eq!(writer.receive("PUT").status, 201);
    eventually("the end", || server.has_ended());
    assert_eq!(names(&tree, "site"), ["a.txt", "new.txt"]);
}

fn quota_and_size_are_bounds(strategy: Strategy) {
    let tree = tree_with(CONFIG);
    let server = launch(strategy, &tree);
    let full = 100 * 1024 - 3;
    let half = "x".repeat(50_000);
    assert_eq!(status(&server, "PUT", "/dav/1", &[], &half), 201);
    let rest = "x".repeat(full - half.len());
    assert_eq!(status(&server, "PUT", "/dav/2", &[], &rest), 201);
    assert_eq!(status(&server, "PUT", "/dav/3", &[], "x"), 507);
    // The answer comes before any of the body.
    let mut early = server.connect();
    early.send(head("PUT", "/dav/3", &[ANN, ("Content-Length", "1000")]));
    assert_eq!(early.receive("PUT").status, 507);
    let mut early = server.connect();
    early.send(head("PUT", "/dav/3", &[ANN, ("Content-Length", "65537")]));
    let refused = early.receive("PUT");
    assert_eq!(refused.status, 413);
    assert!(refused.text().contains("`largest`"), "{}", refused.text());
    let mut chunked = server.connect();
    chunked.send(head("PUT", "/dav/3", &[ANN, ("Transfer-Encoding", "chunked")]));
    chunked.send("10001\r\n");
    let refused = chunked.receive("PUT");
    assert!(refused.status == 413 && refused.text().contains("`largest`"));
    eventually("a line that names the rule", || {
        let log = server.stderr();
        assert!(!log.contains("unix:@"), "{log}");
        log.contains("uploads to `/dav/*`: the file exceeds `largest` (64 KiB)")
            .then_some(())
    });
    let mut chunked = server.connect();
    chunked.send(head("PUT", "/dav/3", &[ANN, ("Transfer-Encoding", "chunked")]));
    chunked.send("5\r\nabcde\r\n");
    assert_eq!(chunked.receive("PUT").status, 507);
    assert_eq!(names(&tree, "site"), ["1", "2", "a.txt"]);
    let body = "<propfind xmlns='DAV:'><prop><quota-available-bytes/><quota-used-bytes/></prop></propfind>";
    let told = |server: &Server| {
        let answer = ask(
            &mut server.connect(),
            "PROPFIND",
            "/dav/",
            &[("Depth", "0")],
            body,
        )
        .text();
        let document = roxmltree::Document::parse(&answer).expect("XML");
        let text = |name| {
            let found = document
                .descendants()
                .find(|node| node.has_tag_name(("DAV:", name)));
            found.and_then(|node| node.text()).unwrap_or_default().to_owned()
        };
        (text("quota-available-bytes"), text("quota-used-bytes"))
    };
    assert_eq!(told(&server), ("0".to_owned(), "102400".to_owned()));
    assert_eq!(status(&server, "DELETE", "/dav/1", &[], ""), 204);
    assert_eq!(told(&server), ("50000".to_owned(), "52400".to_owned()));
    assert_eq!(status(&server, "PUT", "/dav/3", &[], "x"), 201);
    // What others write counts, too.
    tree.write("site/4", "x".repeat(49_999));
    assert_eq!(status(&server, "PUT", "/dav/2", &[], &rest), 204);
    assert_eq!(status(&server, "DELETE", "/dav/3", &[], ""), 204);
    assert_eq!(status(&server, "PUT", "/dav/3", &[], "x"), 201);
}

fn no_path_leads_out_of_the_folder(strategy: Strategy) {
    let tree = tree_with(CONFIG);
    tree.write("secret/s.txt", "secret");
    tree.link("site/way", tree.join("secret"));
    tree.link("site/link", tree.join("secret/s.txt"));
    let server = launch(strategy, &tree);
    for path in [
        "/dav/../../secret/new",
        "/dav/%2e%2e/%2e%2e/secret/new",
        "/dav/..%2f..%2fsecret%2fnew",
        "/dav/way/new",
        "/dav/way/s.txt",
        "/dav/link",
        "/dav/.hidden",
    ] {
        let got = status(&server, "PUT", path, &[], "stolen");
        assert!((400..500).contains(&got), "{path}: {got}");
    }
    for path in ["/dav/link", "/dav/way/s.txt", "/dav/way/"] {
        assert_eq!(status(&server, "GET", path, &[], ""), 404, "{path}");
        assert_eq!(
            status(&server, "PROPFIND", path, &[("Depth", "1")], ""),
            404,
            "{path}"
        );
        let copy = [("Destination", "/dav/copy")];
        assert_eq!(status(&server, "COPY", path, &copy, ""), 404, "{path}");
    }
    for (to, expected) in [
        ("/dav/../x", 403),
        ("/secret/x", 403),
        ("http://other.test/dav/x", 502),
        ("/dav/way/x", 409),
    ] {
        let got = status(&server, "COPY", "/dav/a.txt", &[("Destination", to)], "");
        assert_eq!(got, expected, "{to}");
    }
    // Links are removed themselves.
    assert_eq!(status(&server, "DELETE", "/dav/way", &[], ""), 204);
    assert_eq!(names(&tree, "secret"), ["s.txt"]);
    assert_eq!(names(&tree, "site"), ["a.txt", "link"]);
}

fn whoever_has_no_password_changes_nothing(strategy: Strategy) {
    let tree = tree_with(CONFIG);
    let server = launch(strategy, &tree);
    for method in ["PUT", "DELETE", "MKCOL", "PROPFIND", "GET", "OPTIONS"] {
        let mut connection = server.connect();
        connection.send(head(method, "/dav/a.txt", &[("Content-Length", "0")]));
        assert_eq!(connection.receive(method).status, 401, "{method}");
        // Paths outside the rule are files as before.
        let outside = status(&server, method, "/a.txt", &[], "");
        let expected = match method {
            "GET" => 200,
            "OPTIONS" => 204,
            "PUT" | "DELETE" => 405,
            _ => 501,
        };
        assert_eq!(outside, expected, "{method}");
    }
    let mut connection = server.connect();
    connection.send(head(
        "COPY",
        "/a.txt",
        &[("Destination", "/dav/b"), ("Content-Length", "0")],
    ));
    assert_eq!(connection.receive("COPY").status, 501);
    assert_eq!(names(&tree, "site"), ["a.txt"]);
}

/// Over HTTP, with passwords: locks belong to users, and stay over a reload.
fn a_lock_keeps_other_users_out(strategy: Strategy) {
    let tree = tree_with(CONFIG);
    let server = launch(strategy, &tree);
    let as_bob = |fields: &[(&str, &str)], body: &str| {
        let length = body.len().to_string();
        let fields = [&[BOB, ("Content-Length", length.as_str())], fields].concat();
        let mut connection = server.connect();
        connection.send(head("PUT", "/dav/a.txt", &fields) + body);
        connection.receive("PUT").status
    };
    let mut ann = server.connect();
    let locked = ask(&mut ann, "LOCK", "/dav/a.txt", &[("Timeout", "Second-600")], INFO);
    assert_eq!(locked.status, 200, "{}", locked.text());
    let token = locked.must("Lock-Token").to_owned();
    let condition = format!("({token})");
    let own = ("If", condition.as_str());
    assert_eq!((as_bob(&[], "bob"), as_bob(&[own], "bob")), (423, 423));
    assert_eq!(ask(&mut ann, "PUT", "/dav/a.txt", &[], "ann").status, 423);
    assert_eq!(server.connect().get("/a.txt").text(), "old");
    assert_eq!(ask(&mut ann, "PUT", "/dav/a.txt", &[own], "ann").status, 204);
    assert_eq!(server.connect().get("/a.txt").text(), "ann");
    tree.write("weir.toml", CONFIG.replace("64KiB", "2B"));
    server.signal("HUP");
    eventually("a new limit", || (as_bob(&[], "long") == 413).then_some(()));
    assert_eq!(as_bob(&[], "b"), 423);
    assert_eq!(
        status(&server, "UNLOCK", "/dav/a.txt", &[("Lock-Token", &token)], ""),
        204
    );
    assert_eq!(as_bob(&[], "b"), 204);
    assert_eq!(server.connect().get("/a.txt").text(), "b");
}

where_workers_are_threads!(
    a_lock_keeps_other_users_out,
    what_is_stored_is_served_at_once,
    readers_see_one_file_or_the_other,
    a_body_that_is_cut_off_leaves_nothing,
    a_stop_waits_for_the_upload_under_way,
    quota_and_size_are_bounds,
    curl_stores_files_in_every_version,
);
on_strategy!(loops, LOOPS: no_path_leads_out_of_the_folder, whoever_has_no_password_changes_nothing);

#[test]
fn a_user_leaves_locks_to_others_and_a_reload_changes_how_many() {
    let bounded = |most: u8| CONFIG.to_owned() + &format!("locks-per-user = {most}\n");
    let tree = tree_with(&bounded(2));
    let server = launch(Strategy::LOOPS, &tree);
    let lock = |user: (&str, &str), path: &str| {
        let length = INFO.len().to_string();
        let fields = [user, ("Content-Length", length.as_str())];
        let mut connection = server.connect();
        connection.send(head("LOCK", path, &fields) + INFO);
        connection.receive("LOCK")
    };
    assert_eq!(
        (lock(ANN, "/dav/1").status, lock(ANN, "/dav/2").status),
        (201, 201)
    );
    let refused = lock(ANN, "/dav/3");
    assert_eq!(refused.status, 507);
    assert!(refused.text().contains("`locks-per-user`"), "{}", refused.text());
    assert_eq!(lock(BOB, "/dav/3").status, 201);
    tree.write("weir.toml", bounded(3));
    server.signal("HUP");
    eventually("a new limit", || {
        (lock(ANN, "/dav/4").status == 201).then_some(())
    });
    assert_eq!(lock(ANN, "/dav/5").status, 507);
}

#[test]
fn a_rule_that_everyone_could_use_is_refused() {
    let open = CONFIG.replace("path = \"/dav/*\"", "path = \"/other/*\"");
    let tree = tree_with(&open);
    let config = tree.join("weir.toml");
    let start = |strategy| {
        Launch::new(strategy)
            .args(["--config".as_ref(), config.as_os_str()])
            .fail()
    };
    let (code, why) = start(Strategy::LOOPS);
    assert!(
        code == 2 && why.contains("everyone could change the files of `/dav/`"),
        "{code} {why}"
    );
    tree.write("weir.toml", open + "open = true\n");
    let server = launch(Strategy::LOOPS, &tree);
    let mut connection = server.connect();
    connection.send(head("PUT", "/dav/b", &[("Content-Length", "1")]) + "b");
    assert_eq!(connection.receive("PUT").status, 201);
    for strategy in [Strategy::PROCESS_LOOPS, Strategy::PROCESSES] {
        let (code, why) = start(strategy);
        let others = "use loops, loop, pool, thread-per-connection or thread-per-request";
        assert!(code == 2 && why.contains(others), "{code} {why}");
    }
    tree.write(
        "weir.toml",
        format!("{CONFIG}[[uploads]]\npath = \"/up/\"\nopen = true\n"),
    );
    let (code, why) = start(Strategy::LOOPS);
    assert!(
        code == 2 && why.contains("`/dav/` and `/up/` share the folder"),
        "{code} {why}"
    );
    tree.write(
        "weir.toml",
        CONFIG.replace("[[uploads]]", "[[uploads]]\nfolder = \"none\""),
    );
    let (code, why) = start(Strategy::LOOPS);
    assert!(
        code == 2 && why.contains("none") && why.contains("uploads"),
        "{code} {why}"
    );
}

#[test]
fn a_start_removes_what_a_crash_left() {
    let tree = tree_with(CONFIG);
    let server = launch(Strategy::LOOPS, &tree);
    tree.write("site/deep/b.txt", "b");
    let mut writer = server.connect();
    writer.send(head("PUT", "/dav/a.txt", &[ANN, ("Content-Length", "6")]));
    writer.send("new");
    eventually("a part is there", || has_part(&tree).then_some(()));
    // Another server of the same folder leaves what is under way alone.
    let other = launch(Strategy::LOOPS, &tree);
    tree.write("site/deep/.weir-upload-1-1", "left");
    drop(other);
    let third = launch(Strategy::LOOPS, &tree);
    eventually("what was left is gone", || {
        (names(&tree, "site/deep") == ["b.txt"]).then_some(())
    });
    assert!(has_part(&tree));
    // Killed with the upload under way.
    drop(server);
    assert!(has_part(&tree));
    drop(third);
    let server = launch(Strategy::LOOPS, &tree);
    eventually("the part is gone", || (!has_part(&tree)).then_some(()));
    assert_eq!(server.connect().get("/a.txt").text(), "old");
    eventually("a line in the log", || {
        let log = server.stderr();
        log.contains("removed 1 parts of interrupted uploads")
            .then_some(())
    });
}

#[test]
fn a_reload_changes_rules_and_keeps_uploads_under_way() {
    let tree = tree_with(CONFIG);
    let server = launch(Strategy::LOOPS, &tree);
    let mut writer = server.connect();
    writer.send(head("PUT", "/dav/a.txt", &[ANN, ("Content-Length", "6")]));
    writer.send("new");
    eventually("a part is there", || has_part(&tree).then_some(()));
    tree.write("weir.toml", CONFIG.replace("64KiB", "4"));
    server.signal("HUP");
    eventually("a new limit", || {
        (status(&server, "PUT", "/dav/probe", &[], "12345") == 413).then_some(())
    });
    writer.send("er!");
    assert_eq!(writer.receive("PUT").status, 204);
    assert_eq!(server.connect().get("/a.txt").text(), "newer!");
    assert_eq!(status(&server, "PUT", "/dav/b", &[], "1234"), 201);
    tree.write(
        "weir.toml",
        CONFIG.replace(
            "[[uploads]]",
            "[[limit]]\nrate = \"1000/s\"\n[[uploads]]\nfolder = \"none\"",
        ),
    );
    server.signal("HUP");
    eventually("a reload is refused", || {
        server.stderr().contains("not reloaded").then_some(())
    });
    assert!(server.stderr().contains("none"), "{}", server.stderr());
    assert_eq!(status(&server, "PUT", "/dav/c", &[], "1234"), 201);
}

#[test]
fn a_check_warns_of_a_limit_above_the_quota() {
    for (config, is_warned) in [
        (CONFIG.to_owned(), false),
        (CONFIG.replace("64KiB", "200KiB"), true),
    ] {
        let tree = tree_with(&config);
        let file = tree.join("weir.toml");
        let output = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["serve", "--check", "--config"])
            .arg(&file)
            .output()
            .expect("the program");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let warning = "has a `largest` of 200 KiB above its `quota` of 100 KiB; ";
        assert_eq!(errors.contains(warning), is_warned, "{errors}");
    }
}

#[test]
fn a_reload_keeps_the_quota() {
    let tree = tree_with(CONFIG);
    let server = launch(Strategy::LOOPS, &tree);
    let large = "x".repeat(60_000);
    let mut writer = server.connect();
    writer.send(head("PUT", "/dav/1", &[ANN, ("Content-Length", "60000")]));
    writer.send(&large[..10]);
    eventually("a part is there", || has_part(&tree).then_some(()));
    tree.write("weir.toml", CONFIG.replace("64KiB", "60KiB"));
    server.signal("HUP");
    let announced = |length: &str| {
        let mut connection = server.connect();
        connection.send(head("PUT", "/dav/2", &[ANN, ("Content-Length", length)]));
        connection.receive("PUT").status
    };
    eventually("a new limit", || (announced("62000") == 413).then_some(()));
    // The upload that began under the old rule counts with its announced length, and then as a file.
    assert_eq!(announced("50000"), 507);
    writer.send(&large[10..]);
    assert_eq!(writer.receive("PUT").status, 201);
    assert_eq!(announced("50000"), 507);
    assert_eq!(status(&server, "PUT", "/dav/2", &[], &large[..40_000]), 201);
    assert_eq!(names(&tree, "site"), ["1", "2", "a.txt"]);
}

#[test]
fn an_upgrade_keeps_the_quota() {
    let tree = tree_with(CONFIG);
    let server = launch(Strategy::LOOPS, &tree);
    let large = "x".repeat(60_000);
    let mut writer = server.connect();
    writer.send(head("PUT", "/dav/1", &[ANN, ("Content-Length", "60000")]));
    writer.send(&large[..10]);
    eventually("a part is there", || has_part(&tree).then_some(()));
    let mut line = Line::of(server);
    signal(line.newest, "USR2");
    line.newest = pid_of(&line.next_start());
    // The old process answers nobody else any more, and its upload counts with its announced length.
    assert_eq!(status(&line.first, "PUT", "/dav/2", &[], &large), 507);
    writer.send(&large[10..]);
    assert_eq!(writer.receive("PUT").status, 201);
    drop(writer);
    within(ENDING, "the old one ends", || line.first.has_ended());
    assert_eq!(status(&line.first, "PUT", "/dav/2", &[], &large), 507);
    assert_eq!(status(&line.first, "PUT", "/dav/2", &[], &large[..40_000]), 201);
    assert_eq!(names(&tree, "site"), ["1", "2", "a.txt"]);
    line.stop();
}

#[test]
fn the_user_of_the_server_must_be_able_to_write() {
    let tree = tree_with(&CONFIG.replace("access-log = \"access.log\"\n", ""));
    if skipped(&tree) {
        return;
    }
    let config = tree.join("weir.toml");
    let launch = || {
        Launch::new(Strategy::LOOPS)
            .args(["--config".as_ref(), config.as_os_str()])
            .args(["--user", "65534:65534"])
    };
    let (code, why) = launch().fail();
    for part in [
        "cannot store uploads in `",
        "site",
        "ermission denied",
        "belongs to 0:0 and has mode 0",
        "write to it",
    ] {
        assert!(code == 2 && why.contains(part), "{code} {part}: {why}");
    }
    assert!(!why.contains("Landlock"), "it is not the reason: {why}");
    let (code, checked) = launch().args(["--check"]).fail();
    assert!(
        code == 2 && checked.contains("belongs to 0:0 and has mode 0"),
        "a check finds what a start refuses: {code} {checked}"
    );
    let site = tree.join("site");
    chown(&site, Some(65534), Some(65534)).expect("root");
    let server = launch().start();
    assert_eq!(status(&server, "PUT", "/dav/new.txt", &[], "new"), 201);
    assert_eq!(status(&server, "MKCOL", "/dav/sub", &[], ""), 201);
    let moved = [("Destination", "/dav/sub/new.txt")];
    assert_eq!(status(&server, "MOVE", "/dav/new.txt", &moved, ""), 201);
    let stored = std::fs::metadata(site.join("sub/new.txt")).expect("a file");
    assert_eq!((stored.uid(), stored.len()), (65534, 3));
    // A file that root alone may write is replaced, because the folder is the user's; one in a folder of root's is not.
    std::fs::create_dir(site.join("of-root")).expect("our own folder");
    assert_eq!(status(&server, "PUT", "/dav/a.txt", &[], "new"), 204);
    assert_eq!(status(&server, "PUT", "/dav/of-root/a.txt", &[], "new"), 403);
    eventually("a line in the log", || {
        server
            .stderr()
            .contains("uploads: cannot change files in `")
            .then_some(())
    });
}

#[test]
fn an_explanation_names_the_rule() {
    let tree = tree_with(CONFIG);
    let explained = |more: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["serve", "--config"])
            .arg(tree.join("weir.toml"))
            .args(["--explain", "PUT /dav/x"])
            .args(more)
            .output()
            .expect("the program runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let names = |text: &str| text.contains("uploads        rule 1 for `/dav/`: files in `");
    let text = explained(&[]);
    assert!(text.contains("a password is needed") && !names(&text), "{text}");
    let text = explained(&["--explain-field", "Authorization: Basic YW5uOnNlY3JldA=="]);
    assert!(
        text.contains("the password in Authorization decides") && names(&text),
        "{text}"
    );
    let text = explained(&["--explain-admitted"]);
    assert!(names(&text), "{text}");
    assert!(
        text.contains("answer         from uploads, rule 1 for `/dav/`"),
        "{text}"
    );
    tree.write(
        "weir.toml",
        CONFIG.replace("htpasswd = \"users\"", "allow = \"127.0.0.1\""),
    );
    let text = explained(&[]);
    assert!(text.contains("uploads, rule 1 for `/dav/`"), "{text}");
}

fn curl_stores_files_in_every_version(strategy: Strategy) {
    let tree = tree_with(CONFIG);
    let server = launch(strategy, &tree);
    let file = tree.write("file", "x".repeat(60_000));
    let url = format!("http://{}/dav/", server.address);
    let shown = file.display().to_string();
    for (number, version) in ["--http1.0", "--http1.1", "--http2-prior-knowledge"]
        .iter()
        .enumerate()
    {
        let target = format!("{url}new.txt");
        let quiet = [
            "--silent",
            "--show-error",
            "--max-time",
            "20",
            "--user",
            "ann:secret",
        ];
        let store = ["-T", &shown, "--write-out", "%{http_code}", *version, &target];
        let Some(printed) = run("curl", &[&quiet[..], &store].concat()) else {
            return;
        };
        assert_eq!(printed, if number == 0 { "201" } else { "204" }, "{version}");
        assert_eq!(server.connect().get("/new.txt").body.len(), 60_000);
        // From standard input, so that the length is not known: in chunks, or until the end of the stream.
        if number > 0 {
            let store = format!(
                "printf '%s' {number}streamed | curl {} -T - --write-out '%{{http_code}}' {version} {target}",
                quiet.join(" ")
            );
            assert_eq!(run("sh", &["-c", &store]).expect("sh"), "204");
            assert_eq!(
                server.connect().get("/new.txt").text(),
                format!("{number}streamed")
            );
        }
    }
}

#[test]
fn clients_of_http3_store_files() {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    pairs.tree.write("site/a.txt", "old");
    pairs.tree.write("users", USERS);
    let config = CONFIG.replace("root = \"site\"\n", "");
    let config = pairs.tree.write("weir.toml", config).display().to_string();
    let server = pairs
        .launch(Strategy::LOOPS, &["a"])
        .args(["--http3", "--config", &config])
        .start();
    let mut client = Client::open(server.address, &pairs.client(), "a.test");
    let content = "x".repeat(60_000);
    let fields = [
        (":method", "PUT"),
        ("authorization", ANN.1),
        ("content-length", "60000"),
    ];
    let stream = client.open_request("/dav/a.txt", &fields, false);
    assert!(client.send_body(stream, content.as_bytes()));
    client.end(stream, &[]);
    assert_eq!(client.end_of(stream).status, 204);
    assert_eq!(client.get("/a.txt", &[]).text(), content);
    let found = client.get(
        "/dav/",
        &[(":method", "PROPFIND"), ("depth", "1"), ("authorization", ANN.1)],
    );
    assert!(
        found.status == 207 && found.text().contains("/dav/a.txt"),
        "{}",
        found.text()
    );
}

#[test]
fn rclone_synchronizes_a_folder() {
    let config = CONFIG.replace("quota = \"100KiB\"", "quota = \"10MiB\"");
    for vendor in ["other", "owncloud"] {
        let tree = tree_with(&config);
        for (name, content) in [
            ("local/index.html", "<p>home"),
            ("local/a b&c/\u{e9}.txt", "umlaut"),
            ("local/deep/er/file.bin", "0123456789"),
            ("local/empty.txt", ""),
        ] {
            tree.write(name, content);
        }
        let server = launch(Strategy::LOOPS, &tree);
        let url = format!("--webdav-url=http://{}/dav/", server.address);
        let Some(password) = run("rclone", &["obscure", "secret"]) else {
            return;
        };
        let password = format!("--webdav-pass={}", password.trim());
        let vendor = format!("--webdav-vendor={vendor}");
        let local = tree.join("local").display().to_string();
        let rclone = |arguments: &[&str]| {
            let common = [
                &url,
                "--webdav-user=ann",
                &password,
                &vendor,
                "--config=",
                "--stats-one-line",
                "-v",
            ];
            let output = ended("rclone", &[arguments, &common].concat()).expect("it was there");
            let printed = [output.stdout, output.stderr].concat();
            let printed = String::from_utf8_lossy(&printed).into_owned();
            assert!(output.status.success(), "{arguments:?}: {printed}");
            printed
        };
        let first = rclone(&["sync", &local, ":webdav:"]);
        assert_eq!(first.matches(": Copied (new)").count(), 4, "{first}");
        assert!(first.contains("a.txt: Deleted"), "{first}");
        let second = rclone(&["sync", &local, ":webdav:"]);
        assert!(!second.contains("Copied"), "{second}");
        rclone(&["check", "--size-only", &local, ":webdav:"]);
        assert_eq!(server.connect().get("/a%20b&c/%C3%A9.txt").text(), "umlaut");
        tree.write("local/index.html", "<p>another home");
        std::fs::remove_dir_all(tree.join("local/deep")).expect("a folder");
        let third = rclone(&["sync", &local, ":webdav:"]);
        assert_eq!(
            (third.matches("Copied").count(), third.matches("Deleted").count()),
            (1, 1),
            "{third}"
        );
        assert_eq!(server.connect().get("/index.html").text(), "<p>another home");
        rclone(&["moveto", ":webdav:index.html", ":webdav:moved.html"]);
        rclone(&["copyto", ":webdav:moved.html", ":webdav:copied.html"]);
        assert_eq!(server.connect().get("/copied.html").text(), "<p>another home");
        let about = rclone(&["about", ":webdav:"]);
        assert!(about.contains("Used:") && about.contains("Free:"), "{about}");
        rclone(&["purge", ":webdav:a b&c"]);
        assert_eq!(names(&tree, "site"), ["copied.html", "empty.txt", "moved.html"]);
    }
}

#[test]
fn litmus_finds_a_server_of_class_two() {
    let tree = tree_with(&CONFIG.replace("quota = \"100KiB\"", "quota = \"10MiB\""));
    let server = launch(Strategy::LOOPS, &tree);
    let url = format!("http://{}/dav/", server.address);
    let folder = tree.path().display().to_string();
    if ended("litmus", &["--version"]).is_none() {
        return;
    }
    let run = |sets: &str| {
        let program = format!("cd {folder} && TESTS='{sets}' litmus -k {url} ann secret");
        let output = ended("sh", &["-c", &program]).expect("sh");
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    };
    let (is_passed, printed) = run("basic copymove http");
    assert!(is_passed && !printed.contains("FAIL"), "{printed}");
    // Both sets store properties.
    let body = "<propertyupdate xmlns='DAV:'><set><prop><a xmlns='urn:a'/></prop></set></propertyupdate>";
    let probe = ask(&mut server.connect(), "PROPPATCH", "/dav/", &[], body).text();
    if probe.contains("403 Forbidden") {
        eprintln!("skipped: the file system of temporary files stores no extended attributes");
        return;
    }
    let (is_passed, printed) = run("props locks");
    assert!(is_passed && !printed.contains("FAIL"), "{printed}");
    for (set, least) in [("props", 25), ("locks", 35)] {
        let start = format!("<- summary for `{set}': of ");
        let summary = printed
            .lines()
            .find_map(|line| line.strip_prefix(&start))
            .unwrap_or_else(|| panic!("no summary of {set}: {printed}"));
        let numbers: Vec<usize> = summary.split(' ').filter_map(|word| word.parse().ok()).collect();
        assert!(
            matches!(numbers[..], [all, passed, ..] if all > least && passed == all),
            "{set}: {summary}"
        );
    }
}
