//! What the process may still do once it listens: users, programs it could start, files, ports.

use crate::process::{Launch, Strategy, eventually, signal};
use crate::tree::Tree;
use crate::upgrade::{Line, more, under_load};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

/// A user and group that no system gives rights to; numbers need no entry.
const NOBODY: u32 = 65_534;
const USER: &str = "65534:65534";

/// Fields of `/proc/PID/status`.
fn status(pid: u32, field: &str) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a running process");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_default()
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}

fn is_root() -> bool {
    status(std::process::id(), "Uid")
        .first()
        .is_some_and(|uid| uid == "0")
}

/// Whether everybody may look into the folders above the tests' own.
fn is_open_to_all(path: &Path) -> bool {
    path.ancestors().skip(1).all(|folder| {
        let mode = folder.metadata().map(|meta| meta.permissions().mode());
        mode.is_ok_and(|mode| mode & 0o001 != 0)
    })
}

/// Says why a test cannot run here.
fn skipped(tree: &Tree) -> bool {
    if !is_root() {
        println!("skipped: only root can become somebody else");
        return true;
    }
    if !is_open_to_all(tree.path()) {
        println!("skipped: {} is not open to every user", tree.path().display());
        return true;
    }
    false
}

/// A port that only root may bind, and that is free.
fn low_port() -> Option<String> {
    (600..1024)
        .rev()
        .map(|port| format!("127.0.0.1:{port}"))
        .find(|address| TcpListener::bind(address).is_ok())
}

#[test]
fn root_is_given_up_for_good_and_everything_still_works() {
    let tree = Tree::with(&[("site/a.txt", "content"), ("logs/keep", "")]);
    if skipped(&tree) {
        return;
    }
    let Some(address) = low_port() else {
        println!("skipped: no port below 1024 is free");
        return;
    };
    chown(tree.join("logs"), Some(NOBODY), Some(NOBODY)).expect("root");
    let log = tree.join("logs/access.log");
    let config = tree.write(
        "weir.toml",
        format!(
            "root = 'site'\nlisten = '{address}'\nworkers = 2\nuser = '{USER}'\naccess-log = 'logs/access.log'\n"
        ),
    );
    let launch = Launch::file(Path::new(env!("CARGO_BIN_EXE_weir")));
    let server = launch.args(["--config".as_ref(), config.as_os_str()]).start();
    let mut line = Line::of(server);
    let check = |line: &Line| {
        let pid = line.newest;
        for field in ["Uid", "Gid"] {
            assert_eq!(status(pid, field), vec![NOBODY.to_string(); 4], "{field}");
        }
        assert_eq!(status(pid, "Groups"), [NOBODY.to_string()]);
        for field in ["CapPrm", "CapEff", "CapInh", "CapAmb"] {
            assert_eq!(status(pid, field), ["0000000000000000"], "{field}");
        }
        assert_eq!(status(pid, "NoNewPrivs"), ["1"]);
        // Of every thread, and whoever is started by it.
        for thread in std::fs::read_dir(format!("/proc/{pid}/task")).expect("threads") {
            let file = thread.expect("a thread").path().join("status");
            let text = std::fs::read_to_string(file).expect("its state");
            assert!(
                text.contains("NoNewPrivs:\t1") && text.contains("Uid:\t65534\t65534"),
                "{text}"
            );
        }
        assert_eq!(line.first.connect().get("/a.txt").text(), "content");
    };
    check(&line);
    assert_eq!(line.first.started["rights"]["user"], NOBODY);
    // A rotation and a reload work with the rights that stayed.
    std::fs::rename(&log, tree.join("logs/access.log.1")).expect("the log");
    line.first.signal("USR1");
    eventually("the log is made anew", || log.exists().then_some(()));
    line.first.signal("HUP");
    eventually("the reload", || {
        line.first.stderr().contains("reloaded").then_some(())
    });
    // So does an upgrade: the port that cannot be bound any more is handed over.
    let address = line.first.address;
    under_load(address, "content", |answered| {
        for _ in 0..2 {
            line.upgrade();
            more(answered, 100);
        }
    });
    check(&line);
    line.stop();
}

#[test]
fn what_cannot_be_is_said() {
    let tree = Tree::with(&[("site/a.txt", "content")]);
    let launch = |user: &str| {
        Launch::new(Strategy::LOOPS)
            .root(&tree.join("site"))
            .args(["--user", user])
    };
    let (code, err) = launch("nobody-of-that-name").fail();
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("there is no user `nobody-of-that-name`"), "{err}");
    if !is_root() {
        let (code, err) = launch("0").fail();
        assert_eq!(code, 2, "{err}");
        assert!(err.contains("only root"), "{err}");
        println!("skipped: the rest, which needs root");
        return;
    }
    // The log is opened by who will have to open it again.
    let log = tree.join("access.log").display().to_string();
    let (code, err) = launch(USER).args(["--access-log", &log]).fail();
    assert_eq!(code, 4, "{err}");
    for word in ["access.log", "Permission denied", "65534:65534"] {
        assert!(err.contains(word), "{word} is not in {err}");
    }
}

#[test]
fn what_a_later_signal_would_fail_at_is_said_at_start() {
    let tree = Tree::with(&[("site/a.txt", "content"), ("logs/access.log", "")]);
    if skipped(&tree) {
        return;
    }
    let log = tree.join("logs/access.log");
    chown(&log, Some(NOBODY), Some(NOBODY)).expect("root");
    let config = tree.write(
        "weir.toml",
        format!("root = 'site'\nuser = '{USER}'\naccess-log = 'logs/access.log'\n"),
    );
    std::fs::set_permissions(&config, PermissionsExt::from_mode(0o600)).expect("our own file");
    let server = Launch::new(Strategy::LOOPS)
        .args(["--config".as_ref(), config.as_os_str()])
        .start();
    eventually("the warnings", || {
        let said = server.stderr();
        (said.contains("SIGHUP will fail") && said.contains("SIGUSR1 will find")).then_some(())
    });
    server.signal("HUP");
    eventually("the failure", || {
        let said = server.stderr();
        (said.contains("not reloaded") && said.contains("Permission denied")).then_some(())
    });
    std::fs::rename(&log, tree.join("logs/access.log.1")).expect("the log");
    server.signal("USR1");
    eventually("the other failure", || {
        let said = server.stderr();
        (said.contains("again failed: Permission denied") && said.contains("let user 65534")).then_some(())
    });
    assert_eq!(server.connect().get("/a.txt").text(), "content");
}

#[test]
fn no_program_it_starts_can_have_more_rights() {
    let tree = Tree::with(&[("a.txt", "content")]);
    let server = Launch::new(Strategy::LOOPS).root(tree.path()).start();
    assert_eq!(status(server.pid(), "NoNewPrivs"), ["1"], "whoever runs it");
    assert_eq!(server.started["rights"]["no-new-privileges"], true);
}

#[test]
fn files_elsewhere_are_out_of_reach() {
    let tree = Tree::with(&[("here/site/a.txt", "content"), ("elsewhere/site/a.txt", "other")]);
    let config = tree.write("here/weir.toml", "root = 'site'\n");
    let launch = |how: &str| {
        Launch::new(Strategy::LOOPS)
            .args(["--config".as_ref(), config.as_os_str()])
            .args(["--landlock", how])
            .start()
    };
    for how in ["auto", "root"] {
        tree.replace("here/weir.toml", "root = 'site'\n");
        let mut line = Line::of(launch(how));
        let said = line.first.started["rights"]["landlock"].to_string();
        if !said.contains("Landlock ") || said.contains("no Landlock") {
            println!("skipped: {said}");
            return;
        }
        assert_eq!(line.first.connect().get("/a.txt").text(), "content");
        tree.replace("here/weir.toml", "root = '../elsewhere/site'\n");
        line.first.signal("HUP");
        eventually("a refusal that says what to do", || {
            let said = line.first.stderr();
            assert!(!said.contains("\"reloaded\""), "{how}: {said}");
            (said.contains("not reloaded") && said.contains("--landlock=off")).then_some(())
        });
        assert_eq!(line.first.connect().get("/a.txt").text(), "content");
        tree.replace("here/weir.toml", "root = 'site'\n");
        // A confined process is followed by a confined one, any number of times.
        for _ in 0..3 {
            line.upgrade();
        }
        assert_eq!(line.first.connect().get("/a.txt").text(), "content");
        line.stop();
    }
    let server = launch("off");
    tree.replace("here/weir.toml", "root = '../elsewhere/site'\n");
    server.signal("HUP");
    eventually("the other root", || {
        (server.connect().get("/a.txt").text() == "other").then_some(())
    });
}

#[test]
fn a_root_that_is_replaced_stays_within_reach() {
    let tree = Tree::with(&[("releases/1/a.txt", "one"), ("releases/2/a.txt", "two")]);
    tree.link("current", "releases/1");
    let server = Launch::new(Strategy::LOOPS).root(&tree.join("current")).start();
    assert_eq!(server.connect().get("/a.txt").text(), "one");
    tree.link("next", "releases/2");
    std::fs::rename(tree.join("next"), tree.join("current")).expect("within the tree");
    eventually("the second release", || {
        (server.connect().get("/a.txt").text() == "two").then_some(())
    });
    signal(server.pid(), "HUP");
    eventually("a reload", || server.stderr().contains("reloaded").then_some(()));
    assert_eq!(server.connect().get("/a.txt").text(), "two");
}
