//! The server's own messages in a file: of every process, opened again after a rotation, and by another user.

use crate::serve::process::{Launch, Strategy, eventually};
use crate::serve::rights::{NOBODY, USER, skipped};
use crate::serve::tree::Tree;
use crate::serve::where_connections_share_a_process;
use std::os::unix::fs::chown;

/// A site with a link that no request may follow, which is worth a warning.
fn tree() -> Tree {
    let tree = Tree::with(&[
        ("site/a.txt", "a file"),
        ("secret.txt", "secret"),
        ("logs/keep", ""),
    ]);
    tree.link("site/out.txt", "../secret.txt");
    tree
}

fn read(tree: &Tree, name: &str) -> String {
    std::fs::read_to_string(tree.join(name)).unwrap_or_default()
}

fn messages_go_to_a_file(strategy: Strategy) {
    let tree = tree();
    // Relative to the file that names it.
    let config = tree.write("weir.toml", "root = 'site'\nserver-log = 'logs/server.log'\n");
    tree.write("logs/server.log", "before\n");
    let server = Launch::new(strategy)
        .args(["--config".as_ref(), config.as_os_str()])
        .start();
    let warned = |name: &str| {
        eventually("a warning of a request", || {
            assert_eq!(server.connect().get("/out.txt").status, 404);
            read(&tree, name).contains("leads out of the root").then_some(())
        });
    };
    let reloaded = |name: &str| {
        server.signal("HUP");
        eventually("a reload", || {
            read(&tree, name).contains("reloaded").then_some(())
        });
    };
    warned("logs/server.log");
    reloaded("logs/server.log");
    assert!(read(&tree, "logs/server.log").starts_with("before\n"));
    std::fs::rename(tree.join("logs/server.log"), tree.join("logs/server.log.1")).expect("the log");
    server.signal("USR1");
    eventually("a new file", || {
        tree.join("logs/server.log").exists().then_some(())
    });
    reloaded("logs/server.log");
    warned("logs/server.log");
    let said = server.stderr();
    assert!(
        !said.contains("reloaded") && !said.contains("leads out"),
        "{said}"
    );
}

/// Another user, confined as it is by default, creates the file again.
#[test]
fn another_user_writes_messages_to_a_file() {
    let tree = tree();
    if skipped(&tree) {
        return;
    }
    chown(tree.join("logs"), Some(NOBODY), Some(NOBODY)).expect("root");
    let log = tree.join("logs/server.log");
    let server = Launch::new(Strategy::LOOPS)
        .root(&tree.join("site"))
        .args(["--server-log".as_ref(), log.as_os_str()])
        .args(["--user", USER])
        .start();
    std::fs::rename(&log, tree.join("logs/server.log.1")).expect("the log");
    server.signal("USR1");
    eventually("a new file", || log.exists().then_some(()));
    server.signal("HUP");
    eventually("a reload", || {
        read(&tree, "logs/server.log").contains("reloaded").then_some(())
    });
}

/// As after a rotation that left the folder to root.
#[test]
fn a_file_that_another_user_cannot_open_again_is_explained() {
    let tree = tree();
    if skipped(&tree) {
        return;
    }
    chown(tree.join("logs"), Some(NOBODY), Some(NOBODY)).expect("root");
    let log = tree.join("logs/server.log");
    let server = Launch::new(Strategy::LOOPS)
        .root(&tree.join("site"))
        .args(["--server-log".as_ref(), log.as_os_str()])
        .args(["--user", USER])
        .start();
    std::fs::rename(&log, tree.join("logs/server.log.1")).expect("the log");
    chown(tree.join("logs"), Some(0), Some(0)).expect("root");
    server.signal("USR1");
    let told = eventually("a failure", || {
        let told = server.stderr();
        told.contains("cannot reopen the server log").then_some(told)
    });
    for word in ["Permission denied", "writable", "running as user 65534:65534"] {
        assert!(told.contains(word), "{word} is not in {told}");
    }
}

#[test]
fn a_file_that_cannot_be_written_ends_the_start() {
    let tree = tree();
    let place = |name: &str| tree.join(name).display().to_string();
    for (flags, check, wanted, advice) in [
        (
            vec![format!("--server-log={}", place("none/server.log"))],
            &[][..],
            4,
            "must exist",
        ),
        (
            vec![format!("--server-log={}", place("none/server.log"))],
            &["--check"],
            2,
            "create the folder",
        ),
        (
            vec![format!("--server-log={}", place("logs"))],
            &["--check"],
            2,
            "is a directory",
        ),
        (vec!["--server-log=-".to_owned()], &[], 2, "standard error"),
        (
            vec![
                format!("--server-log={}", place("logs/one.log")),
                format!("--access-log={}", place("logs/one.log")),
            ],
            &[],
            2,
            "are one file",
        ),
    ] {
        let (code, said) = Launch::bare()
            .root(&tree.join("site"))
            .args(&flags)
            .args(check)
            .fail();
        assert_eq!(code, wanted, "{flags:?}: {said}");
        assert!(said.contains(advice), "{flags:?}: {said}");
    }
    // A check creates nothing.
    let good = format!("--server-log={}", place("logs/server.log"));
    let (code, said) = Launch::bare()
        .root(&tree.join("site"))
        .args([good.as_str(), "--check"])
        .fail();
    assert_eq!(code, 0, "{said}");
    assert!(!tree.join("logs/server.log").exists());
}

/// By a link, which no comparison of names finds.
#[test]
fn messages_and_requests_do_not_share_a_file() {
    let tree = tree();
    tree.write("logs/server.log", "");
    tree.link("logs/soft.log", "server.log");
    std::fs::hard_link(tree.join("logs/server.log"), tree.join("logs/hard.log")).expect("a link");
    let place = |name: &str| tree.join(name).display().to_string();
    for log in ["logs/soft.log", "logs/hard.log"] {
        for check in [&[][..], &["--check"]] {
            let (code, said) = Launch::bare()
                .root(&tree.join("site"))
                .args(["--server-log", &place("logs/server.log")])
                .args(["--access-log", &place(log)])
                .args(check)
                .fail();
            assert_eq!(code, 2, "{log} {check:?}: {said}");
            for name in ["logs/server.log`", log, "are one file"] {
                assert!(said.contains(name), "{log} {check:?}: {said}");
            }
        }
    }
}

where_connections_share_a_process!(messages_go_to_a_file);
