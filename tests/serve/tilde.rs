//! Pages of logins: what is at `/~login/`, that nothing else of a home is reachable, and that no answer tells
//! which logins there are.

use crate::serve::disk::VISIBLE;
use crate::serve::on_each_back_end;
use crate::serve::process::{Launch, Server, Strategy, eventually, within};
use crate::serve::tree::Tree;
use std::os::unix::fs::PermissionsExt;

const CONFIG: &str = r#"
root = "www"
listing = true

[tilde]
disabled = ["gone"]

[tilde.users]
alice = "home/alice"
bare = "home/bare"
link = "home/link"
file = "home/file"
shut = "home/shut"
lost = "home/lost"
gone = "home/gone"

[[host]]
names = ["few.test"]
[host.tilde]
directory = "web/few"
users = { gone = "home/gone" }

[[host]]
names = ["nobody.test"]
[host.tilde]
enabled = []
"#;

fn tree() -> Tree {
    let tree = Tree::with(&[
        ("www/~alice/shadow.txt", "of the root"),
        ("www/~nobody/x.txt", "of the root"),
        ("www/plain/a.txt", "plain"),
        ("home/alice/public_html/index.html", "alice"),
        ("home/alice/public_html/docs/a.txt", "a"),
        ("home/alice/mail.txt", "secret"),
        ("home/bare/mail.txt", "secret"),
        ("home/link/web/index.html", "behind a link"),
        ("home/file/public_html", "no directory"),
        ("home/shut/public_html/index.html", "shut"),
        ("home/gone/public_html/index.html", "gone"),
        ("home/gone/web/few/index.html", "few"),
        ("weir.toml", CONFIG),
    ]);
    tree.link("home/link/public_html", "web");
    tree.link("home/alice/public_html/out", "../mail.txt");
    tree.link("home/alice/public_html/within", "docs/a.txt");
    // Root reads it all the same.
    let mode = std::fs::Permissions::from_mode(0o311);
    std::fs::set_permissions(tree.join("home/shut/public_html"), mode).expect("our own folder");
    tree
}

fn launch(strategy: Strategy, tree: &Tree) -> Server {
    Launch::new(strategy)
        .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
        .start()
}

fn text(server: &Server, path: &str) -> (u16, String) {
    let answer = server.connect().get(path);
    (answer.status, answer.text())
}

fn a_login_has_a_page(strategy: Strategy) {
    let tree = tree();
    let server = launch(strategy, &tree);
    let mut connection = server.connect();
    // Twice, as what was met before is answered in another way.
    for _ in 0..2 {
        assert_eq!(connection.get("/~alice/").text(), "alice");
        assert_eq!(connection.get("/%7Ealice/docs/../").text(), "alice");
        assert_eq!(connection.get("/~alice").must("Location"), "/~alice/");
        assert_eq!(connection.get("/~alice/docs/a.txt").text(), "a");
        assert_eq!(connection.get("/~alice/within").text(), "a");
        assert!(
            connection.get("/~alice/docs/").text().contains("a.txt"),
            "a listing"
        );
        for path in [
            "/~alice/out",
            "/~alice/../mail.txt",
            "/~alice/%2e%2e/mail.txt",
            "/~alice/..%2fmail.txt",
        ] {
            assert_eq!(connection.get(path).status, 404, "{path}");
        }
    }
    assert_eq!(connection.get("/~alice/shadow.txt").status, 404);
    assert_eq!(connection.get("/plain/a.txt").text(), "plain");
}

fn no_answer_tells_which_logins_there_are(strategy: Strategy) {
    let tree = tree();
    let server = launch(strategy, &tree);
    let mut connection = server.connect();
    let mut ask = |method: &str, path: &str| {
        let answer = connection.request(method, path, &[("Accept", "text/html")]);
        let lines: Vec<(String, String)> = answer
            .fields
            .iter()
            .filter(|(name, _)| !name.eq_ignore_ascii_case("Date"))
            .cloned()
            .collect();
        (answer.status, lines, answer.text())
    };
    for (method, rest) in [
        ("GET", ""),
        ("GET", "/"),
        ("HEAD", "/"),
        ("GET", "/index.html"),
        ("GET", "/mail.txt"),
        ("GET", "/public_html/"),
        ("GET", "/x.txt"),
    ] {
        let unknown = ask(method, &format!("/~none{rest}"));
        assert_eq!(unknown.0, 404, "{unknown:?}");
        for login in [
            "bare", "link", "file", "lost", "gone", "root", "nobody", "", "~alice", "ALICE",
        ] {
            assert_eq!(
                ask(method, &format!("/~{login}{rest}")),
                unknown,
                "{method} /~{login}{rest}"
            );
        }
        // A test that runs as root cannot be shut out.
        if std::fs::read_dir(tree.join("home/shut/public_html")).is_err() {
            assert_eq!(
                ask(method, &format!("/~shut{rest}")),
                unknown,
                "{method} /~shut{rest}"
            );
        }
    }
    let listing = connection
        .request("GET", "/", &[("Accept", "application/json")])
        .text();
    assert!(listing.contains("plain") && !listing.contains('~'), "{listing}");
}

fn changes_in_a_home_are_visible_within_a_second(strategy: Strategy) {
    let tree = tree();
    let server = launch(strategy, &tree);
    let becomes = |what: &str, path: &str, want: (u16, &str)| {
        within(VISIBLE, what, || {
            let (status, content) = text(&server, path);
            (status == want.0 && content.contains(want.1)).then_some(())
        });
    };
    assert_eq!(text(&server, "/~alice/docs/a.txt").1, "a");
    tree.replace("home/alice/public_html/docs/a.txt", "b");
    becomes("a file replaced", "/~alice/docs/a.txt", (200, "b"));
    tree.write("home/alice/public_html/docs/a.txt", "longer");
    becomes("a file written in place", "/~alice/docs/a.txt", (200, "longer"));
    assert_eq!(text(&server, "/~bare/").0, 404);
    tree.write("home/bare/public_html/index.html", "bare");
    becomes("a directory that was missing", "/~bare/", (200, "bare"));
    // No event below the directory tells of this.
    std::fs::rename(tree.join("home/alice"), tree.join("home/old")).expect("our own folder");
    becomes("a home that is gone", "/~alice/docs/a.txt", (404, ""));
    tree.write("home/alice/public_html/docs/a.txt", "another");
    becomes("a home that is another", "/~alice/docs/a.txt", (200, "another"));
    tree.write("home/alice/public_html/docs/a.txt", "another again");
    becomes("a file in that", "/~alice/docs/a.txt", (200, "another again"));
    tree.write("home/old/public_html/docs/a.txt", "of no concern");
    // A process that was not asked since may for that second still have what it had.
    assert_ne!(text(&server, "/~alice/docs/a.txt").1, "of no concern");
}

fn a_reload_looks_logins_up_again(strategy: Strategy) {
    let tree = tree();
    let server = launch(strategy, &tree);
    assert_eq!(text(&server, "/~alice/").1, "alice");
    tree.write("home/new/public_html/index.html", "new");
    let config = CONFIG
        .replacen("alice = \"home/alice\"", "new = \"home/new\"", 1)
        .replace("disabled = [\"gone\"]", "");
    tree.write("weir.toml", config);
    server.signal("HUP");
    eventually("the new login", || {
        (text(&server, "/~new/").1 == "new").then_some(())
    });
    eventually("the old one gone", || {
        (text(&server, "/~alice/").0 == 404).then_some(())
    });
    assert_eq!(text(&server, "/~gone/").1, "gone");
}

fn hosts_have_logins_of_their_own(strategy: Strategy) {
    let tree = tree();
    let server = launch(strategy, &tree);
    for (host, path, status) in [
        ("localhost", "/~alice/", 200),
        ("localhost", "/~gone/", 404),
        ("few.test", "/~gone/", 200),
        ("few.test", "/~alice/", 404),
        ("nobody.test", "/~alice/", 404),
        ("nobody.test", "/plain/a.txt", 200),
    ] {
        let mut connection = server.connect();
        connection.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(connection.receive("GET").status, status, "{host} {path}");
    }
}

on_each_back_end!(
    a_login_has_a_page,
    no_answer_tells_which_logins_there_are,
    changes_in_a_home_are_visible_within_a_second,
    a_reload_looks_logins_up_again,
    hosts_have_logins_of_their_own,
);
