//! Roots that are lost while the server runs: it is not ready, says so once, refuses a reload, and recovers.

use crate::serve::on_every_strategy;
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::tree::Tree;
use std::path::Path;

/// What `/readyz` says, over a connection of its own.
fn readiness(server: &Server) -> (u16, String) {
    let answer = server.connect().get("/readyz");
    (answer.status, answer.text())
}

fn becomes_ready(server: &Server) {
    eventually("it is ready", || {
        (readiness(server) == (200, "ready\n".to_owned())).then_some(())
    });
}

fn becomes_unready(server: &Server) {
    eventually("it is not ready", || {
        (readiness(server) == (503, "a root cannot be reached\n".to_owned())).then_some(())
    });
}

fn with_config(strategy: Strategy, config: &Path) -> Server {
    Launch::new(strategy)
        .args(["--config".as_ref(), config.as_os_str()])
        .start()
}

/// Lines of the log that say that a root is gone.
fn complaints(server: &Server) -> Vec<String> {
    let said = server.stderr();
    let lines = said.lines().filter(|line| line.contains("cannot be reached:"));
    lines.map(str::to_owned).collect()
}

fn reload_is_refused(server: &Server, why: &str) {
    server.signal("HUP");
    eventually("the reload is refused", || {
        let said = server.stderr();
        assert!(!said.contains("\"reloaded\""), "{said}");
        let line = said.lines().rfind(|line| line.contains("not reloaded"))?;
        assert!(line.contains(why), "{line}");
        Some(())
    });
}

fn reload_is_done(server: &Server) {
    server.signal("HUP");
    eventually("the reload is done", || {
        server.stderr().contains("\"reloaded\"").then_some(())
    });
}

fn a_lost_root_is_told_once_and_found_again(strategy: Strategy) {
    let tree = Tree::with(&[("site/a.txt", "a"), ("other/b.txt", "b")]);
    let config = tree.write(
        "weir.toml",
        "root = 'site'\nhealth = true\n[[host]]\nnames = ['o.test']\nroot = 'other'\n",
    );
    let server = with_config(strategy, &config);
    assert_eq!(readiness(&server), (200, "ready\n".to_owned()));
    let other = || {
        let mut connection = server.connect();
        connection.send("GET /b.txt HTTP/1.1\r\nHost: o.test\r\n\r\n");
        let answer = connection.receive("GET");
        (answer.status, answer.text())
    };
    assert_eq!(other(), (200, "b".to_owned()));

    // A host's root is as good as that of the top level.
    std::fs::remove_dir_all(tree.join("other")).expect("a folder of the tree");
    becomes_unready(&server);
    assert_eq!(server.connect().get("/healthz").status, 200, "it is alive");
    assert_eq!(
        server.connect().get("/a.txt").text(),
        "a",
        "the others are served"
    );
    let told = eventually("a complaint", || complaints(&server).pop());
    let named = format!("`{}`", tree.join("other").display());
    assert!(told.contains(&named) && told.contains("(os error 2)"), "{told}");
    reload_is_refused(&server, &named);
    // Whatever asks, it was said.
    for _ in 0..20 {
        assert_ne!(other().0, 200);
        becomes_unready(&server);
    }
    assert_eq!(complaints(&server).len(), 1, "{}", server.stderr());

    tree.write("other/b.txt", "again");
    becomes_ready(&server);
    eventually("what is in it is served", || {
        (other() == (200, "again".to_owned())).then_some(())
    });
    reload_is_done(&server);

    // A second loss is another event.
    std::fs::remove_dir_all(tree.join("other")).expect("a folder of the tree");
    becomes_unready(&server);
    eventually("a second complaint", || {
        (complaints(&server).len() > 1).then_some(())
    });
}

fn a_root_that_is_a_dangling_link_is_told(strategy: Strategy) {
    let tree = Tree::with(&[("one/a.txt", "one"), ("two/a.txt", "two")]);
    tree.link("current", "one");
    let config = tree.write("weir.toml", "root = 'current'\nhealth = true\n");
    let server = with_config(strategy, &config);
    becomes_ready(&server);
    assert_eq!(server.connect().get("/a.txt").text(), "one");
    std::fs::remove_file(tree.join("current")).expect("a link of the tree");
    tree.link("current", "nowhere");
    becomes_unready(&server);
    assert_eq!(
        server.connect().get("/a.txt").text(),
        "one",
        "what it had open is served on"
    );
    reload_is_refused(&server, "current");
    tree.link("next", "two");
    std::fs::rename(tree.join("next"), tree.join("current")).expect("a rename within the tree");
    becomes_ready(&server);
    eventually("the release it leads to now", || {
        (server.connect().get("/a.txt").text() == "two").then_some(())
    });
    reload_is_done(&server);
}

fn a_root_out_of_reach_is_not_gone_over_to(strategy: Strategy) {
    let tree = Tree::with(&[("here/site/a.txt", "here"), ("elsewhere/site/a.txt", "elsewhere")]);
    let config = tree.write("here/weir.toml", "root = 'site'\nhealth = true\n");
    let server = with_config(strategy, &config);
    let said = server.started["rights"]["landlock"].to_string();
    if !said.contains("Landlock ") || said.contains("no Landlock") {
        println!("skipped: {said}");
        return;
    }
    becomes_ready(&server);
    assert_eq!(server.connect().get("/a.txt").text(), "here");
    std::fs::rename(tree.join("here/site"), tree.join("here/old")).expect("a rename within the tree");
    tree.link("here/site", "../elsewhere/site");
    becomes_unready(&server);
    let told = eventually("a complaint", || complaints(&server).pop());
    assert!(told.contains("(os error 13)"), "{told}");
    assert_eq!(
        server.connect().get("/a.txt").text(),
        "here",
        "the directory that can be read is served on"
    );
    reload_is_refused(&server, "--landlock=off");
    std::fs::remove_file(tree.join("here/site")).expect("a link of the tree");
    std::fs::rename(tree.join("here/old"), tree.join("here/site")).expect("a rename within the tree");
    becomes_ready(&server);
    reload_is_done(&server);
}

on_every_strategy!(
    a_lost_root_is_told_once_and_found_again,
    a_root_that_is_a_dangling_link_is_told,
    a_root_out_of_reach_is_not_gone_over_to,
);
