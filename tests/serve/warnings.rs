//! What the log says of requests that failed: the path and the reason, a few lines at a time, and none that a client
//! could have written.

use crate::serve::on_every_strategy;
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::tree::Tree;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;

/// The warnings so far. Each line is one JSON object, or the log was forged.
fn warnings(server: &Server) -> Vec<String> {
    let said = server.stderr();
    let whole = said.rfind('\n').map_or("", |end| &said[..end]);
    let lines = whole.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
        let level = line["level"].as_str().unwrap_or_default().to_owned();
        (level, line["message"].as_str().unwrap_or_default().to_owned())
    });
    lines
        .filter(|(level, _)| level == "WARN")
        .map(|(_, message)| message)
        .collect()
}

fn warns(server: &Server, path: &str, why: &str) {
    eventually("a warning with path and reason", || {
        let told = warnings(server);
        let about = told
            .iter()
            .find(|line| line.starts_with(&format!("\"{path}\": ")))?;
        assert!(about.contains(why), "{about}");
        Some(())
    });
}

fn a_request_that_fails_is_told_with_path_and_reason(strategy: Strategy) {
    let tree = Tree::with(&[
        ("secret.txt", "secret"),
        ("site/a.txt", "a"),
        ("site/locked.txt", "x"),
    ]);
    tree.link("site/out.txt", "../secret.txt");
    tree.link("site/circle", "circle");
    tree.link("site/inside", "a.txt");
    // A name that would end the line, and begin another with a color.
    tree.link("site/x\n\u{1b}[31mforged \"", "../secret.txt");
    let _socket = std::os::unix::net::UnixListener::bind(tree.join("site/socket"));
    let locked = std::fs::Permissions::from_mode(0o000);
    std::fs::set_permissions(tree.join("site/locked.txt"), locked).expect("our own file");
    // Root may read everything, so it is given up.
    let is_root = std::fs::File::open(tree.join("site/locked.txt")).is_ok();
    // Without the report, which is no JSON.
    let launch = Launch::new(strategy).root(&tree.join("site")).args(["-q"]);
    let server = match is_root {
        true => launch.args(["--user", "65534:65534"]).start(),
        false => launch.start(),
    };
    let mut connection = server.connect();
    for path in [
        "/none",
        "/none/at/all",
        "/a.txt/b",
        "/a.txt",
        "/inside",
        "/",
        "/%00",
    ] {
        connection.get(path);
    }
    for (path, status, name, why) in [
        ("/locked.txt", 403, "/locked.txt", "permission denied"),
        ("/out.txt", 404, "/out.txt", "leads out of the root"),
        ("/circle", 404, "/circle", "ELOOP"),
        ("/socket", 404, "/socket", "socket or device"),
        (
            "/x%0A%1B%5B31mforged%20%22",
            404,
            "/x\\n\\x1b[31mforged \\\"",
            "leads out of the root",
        ),
    ] {
        assert_eq!(connection.get(path).status, status, "{path}");
        warns(&server, name, why);
    }
    let told = warnings(&server);
    assert!(
        !told
            .iter()
            .any(|line| line.contains("none") || line.contains("a.txt")),
        "a plain 404 is no failure: {told:?}"
    );
    assert!(
        told.iter().all(|line| line.is_ascii() && !line.contains('\n')),
        "{told:?}"
    );

    let server = Launch::new(strategy)
        .root(&tree.join("site"))
        .args(["-q", "--symlinks=false"])
        .start();
    assert_eq!(server.connect().get("/inside").status, 404);
    warns(&server, "/inside", "--symlinks=false");
}

fn failures_are_counted_beyond_some_lines_a_second(strategy: Strategy) {
    let tree = Tree::with(&[("secret.txt", "secret"), ("site/a.txt", "a")]);
    tree.link("site/out.txt", "../secret.txt");
    let server = Launch::new(strategy)
        .root(&tree.join("site"))
        .args(["-q"])
        .start();
    let began = std::time::Instant::now();
    let mut connections: Vec<_> = (0..3).map(|_| server.connect()).collect();
    let mut asked = 0;
    for round in 0..60 {
        let connection = &mut connections[round % 3];
        assert_eq!(connection.get("/out.txt").status, 404);
        asked += 1;
    }
    let shown = |told: &[String]| {
        told.iter()
            .filter(|line| line.starts_with("\"/out.txt\""))
            .count()
    };
    // None is lost without a trace: the connections stay, so the rest is told without another failure.
    let told = eventually("the count of the others", || {
        let told = warnings(&server);
        let counted: usize = told
            .iter()
            .filter_map(|line| line.strip_suffix(" more requests failed and were not logged"))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok())
            .sum();
        (counted + shown(&told) == asked).then_some(told)
    });
    // Ten at once, and one for each second that went by: also where several processes serve.
    let most = 12 + usize::try_from(began.elapsed().as_secs()).expect("a few");
    assert!(
        (1..=most).contains(&shown(&told)),
        "{} of {asked}: {told:?}",
        shown(&told)
    );
}

on_every_strategy!(
    a_request_that_fails_is_told_with_path_and_reason,
    failures_are_counted_beyond_some_lines_a_second,
);
