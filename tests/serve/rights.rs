//! What the process may still do once it listens: users, programs it could start, files, ports.

use crate::serve::on_every_strategy;
use crate::serve::process::{Launch, Server, Strategy, eventually, signal};
use crate::serve::tls::{Pairs, Secure};
use crate::serve::tree::Tree;
use crate::serve::upgrade::{Line, more, under_load};
use crate::serve::wire::find;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, chown};
use std::path::Path;

/// A user and group that no system gives rights to; numbers need no entry.
pub(crate) const NOBODY: u32 = 65_534;
pub(crate) const USER: &str = "65534:65534";

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
pub(crate) fn skipped(tree: &Tree) -> bool {
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

fn root_is_given_up_for_good_and_everything_still_works(strategy: Strategy) {
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
            "root = 'site'\nlisten = '{address}'\nuser = '{USER}'\naccess-log = 'logs/access.log'\n\
             workers = {}\nconcurrency = '{}'\nio = '{}'\n",
            strategy.workers, strategy.concurrency, strategy.io
        ),
    );
    let launch = Launch::file(Path::new(env!("CARGO_BIN_EXE_weir")));
    let server = launch.args(["--config".as_ref(), config.as_os_str()]).start();
    let mut line = Line::of(server);
    let check_one = |pid: u32| {
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
            // A thread of a connection may have ended since; the first one has not.
            let Ok(text) = std::fs::read_to_string(file) else {
                continue;
            };
            assert!(
                text.contains("NoNewPrivs:\t1") && text.contains("Uid:\t65534\t65534"),
                "{text}"
            );
        }
    };
    let check = |line: &Line| {
        let is_first = line.newest == line.first.pid();
        let all = if is_first {
            line.first.pids()
        } else {
            vec![line.newest]
        };
        assert_eq!(all.len() > 1, strategy.is_of_processes());
        all.into_iter().for_each(check_one);
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
    if strategy.is_of_processes() {
        assert_eq!(line.first.stop(), 0);
        return;
    }
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

/// Two sites far apart, in a file beside neither.
fn two_sites(second: &str) -> String {
    format!(
        r#"
root = "../one/site"
health = true
access-log = "../logs/access.log"
error-pages = {{ 404 = "/lost.html" }}
[[host]]
names = ["two.test"]
root = "../{second}"
access-log = "../more/two.log"
error-pages = {{ 404 = "/missing.html" }}
"#
    )
}

fn everything_works_with_little_in_reach(strategy: Strategy) {
    let tree = Tree::with(&[
        ("one/site/a.txt", "one"),
        ("one/site/lost.html", "not in one"),
        ("two/site/a.txt", "two"),
        ("two/site/missing.html", "not in two"),
        ("two/next/a.txt", "next"),
        ("three/site/a.txt", "three"),
        ("logs/keep", ""),
        ("more/keep", ""),
        ("etc/weir.toml", &two_sites("two/site")),
    ]);
    let config = tree.join("etc/weir.toml");
    let mut server = Launch::new(strategy)
        .args(["--config".as_ref(), config.as_os_str()])
        .start();
    let said = server.started["rights"]["landlock"].to_string();
    for folder in ["one", "two", "logs", "more", "etc"] {
        if !said.contains("no Landlock") {
            assert!(said.contains(folder), "{folder} is not in {said}");
        }
    }
    let get = |server: &Server, host: &str, path: &str| {
        let mut connection = server.connect();
        connection.send(format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        ));
        let answer = connection.receive("GET");
        (answer.status, answer.text())
    };
    let found = |text: &str| (200, text.to_owned());
    assert_eq!(get(&server, "one.test", "/a.txt"), found("one"));
    assert_eq!(get(&server, "two.test", "/a.txt"), found("two"));
    assert_eq!(get(&server, "one.test", "/b"), (404, "not in one".to_owned()));
    assert_eq!(get(&server, "two.test", "/b"), (404, "not in two".to_owned()));
    assert_eq!(get(&server, "two.test", "/readyz").0, 200);
    // What changes on disk is seen, with the log away in between.
    let log = tree.join("logs/access.log");
    let other = tree.join("more/two.log");
    for (log, lines) in [(&log, 2), (&other, 3)] {
        eventually("lines are written", || {
            std::fs::read_to_string(log)
                .is_ok_and(|text| text.lines().count() >= lines)
                .then_some(())
        });
    }
    std::fs::rename(&log, tree.join("logs/access.log.1")).expect("the log");
    std::fs::rename(&other, tree.join("more/two.log.1")).expect("the log");
    server.signal("USR1");
    eventually("the logs are made anew", || {
        (log.exists() && other.exists()).then_some(())
    });
    tree.replace("two/site/a.txt", "changed");
    eventually("the change", || {
        (get(&server, "two.test", "/a.txt") == found("changed")).then_some(())
    });
    // Each process opens its logs when its turn comes: the answers before may have been of one that still had the old ones.
    eventually("the new log is written", || {
        get(&server, "two.test", "/a.txt");
        std::fs::read_to_string(&other)
            .is_ok_and(|text| !text.is_empty())
            .then_some(())
    });
    // A host's root may move, as far as the kernel lets it. It is said once all processes have reloaded; before, one of them
    // could read what is written next.
    tree.replace("etc/weir.toml", two_sites("two/next"));
    server.signal("HUP");
    eventually("a reload of all", || {
        let said = server.stderr();
        let is_reload = |line: &str| line.contains("reloaded") && !line.contains("not reloaded");
        said.lines().any(is_reload).then_some(())
    });
    assert_eq!(get(&server, "two.test", "/a.txt"), found("next"));
    if said.contains("no Landlock") {
        println!("skipped: {said}");
        return;
    }
    tree.replace("etc/weir.toml", two_sites("three/site"));
    server.signal("HUP");
    eventually("a refusal that says what to do", || {
        let said = server.stderr();
        (said.contains("not reloaded") && said.contains("three/site") && said.contains("--landlock=off"))
            .then_some(())
    });
    assert_eq!(get(&server, "two.test", "/a.txt"), found("next"));
    assert_eq!(server.stop(), 0);
}

on_every_strategy!(
    root_is_given_up_for_good_and_everything_still_works,
    everything_works_with_little_in_reach,
    no_thread_makes_system_calls_that_no_server_makes,
    variables_of_other_programs_are_forgotten,
);

/// As systemd leaves them (`LoadCredential=`): in a folder of the service's user, which nobody else may enter.
#[test]
fn keys_in_a_folder_of_credentials_are_read_again_without_root() {
    let mut pairs = Pairs::new();
    if skipped(&pairs.tree) {
        return;
    }
    let first = pairs.add("a", &["a.test"]);
    let credentials = pairs.tree.join("credentials");
    std::fs::create_dir(&credentials).expect("our own folder");
    let put = |pairs: &Pairs, name: &str| {
        for kind in ["pem", "key"] {
            let file = credentials.join(format!("site.{kind}"));
            let made = credentials.join("made");
            std::fs::copy(pairs.tree.join(&format!("{name}.{kind}")), &made).expect("our own file");
            std::fs::set_permissions(&made, PermissionsExt::from_mode(0o400)).expect("our own file");
            chown(&made, Some(NOBODY), Some(NOBODY)).expect("root");
            std::fs::rename(made, file).expect("our own file");
        }
    };
    put(&pairs, "a");
    chown(&credentials, Some(NOBODY), Some(NOBODY)).expect("root");
    std::fs::set_permissions(&credentials, PermissionsExt::from_mode(0o500)).expect("our own folder");
    let path = |name: &str| credentials.join(name).to_string_lossy().into_owned();
    let server = Launch::new(Strategy::LOOPS)
        .root(&pairs.tree.join("site"))
        .args([
            "--user",
            USER,
            "--tls-cert",
            &path("site.pem"),
            "--tls-key",
            &path("site.key"),
        ])
        .env("CREDENTIALS_DIRECTORY", &credentials.to_string_lossy())
        .start();
    let shown = |pairs: &Pairs| Secure::open(server.address, &pairs.client(), "a.test").certificate();
    assert_eq!(shown(&pairs), first);
    let second = pairs.add("b", &["a.test"]);
    put(&pairs, "b");
    server.signal("HUP");
    eventually("the new certificate", || (shown(&pairs) == second).then_some(()));
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
    // It may open the directory, but not enter it.
    let closed = tree.join("site");
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o700)).expect("our own folder");
    for check in [&[][..], &["--check"]] {
        let (code, err) = launch(USER).args(check).fail();
        assert_ne!(code, 0, "{err}");
        for word in ["site", "permission denied"] {
            assert!(err.contains(word), "{word} is not in {err}");
        }
    }
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o755)).expect("our own folder");
    // The log is opened by who will have to open it again.
    let log = tree.join("access.log").display().to_string();
    for flag in ["--access-log", "--server-log"] {
        let (code, err) = launch(USER).args([flag, &log]).fail();
        assert_eq!(code, 4, "{err}");
        for word in ["access.log", "Permission denied", "65534:65534"] {
            assert!(err.contains(word), "{word} is not in {err}");
        }
    }
}

/// A check by root is of what the user can do whom it would become.
#[test]
fn a_check_has_no_more_rights_than_the_server_would() {
    let tree = Tree::with(&[("site/a.txt", "content")]);
    if skipped(&tree) {
        return;
    }
    let check = |log: &Path, user: &str| {
        let launch = Launch::bare().root(&tree.join("site"));
        let launch = launch.args(["--check".as_ref(), "--access-log".as_ref(), log.as_os_str()]);
        launch.args(["--user", user]).fail()
    };
    let log = tree.join("access.log");
    std::fs::set_permissions(tree.path(), std::fs::Permissions::from_mode(0o755)).expect("our own folder");
    let (code, err) = check(&log, "0:0");
    assert_eq!(code, 0, "{err}");
    let (code, err) = check(&log, USER);
    assert_eq!(code, 2, "{err}");
    assert!(
        err.contains("its folder is not writable by user 65534:65534"),
        "{err}"
    );
    std::fs::write(&log, "").expect("our own file");
    let (code, err) = check(&log, USER);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("cannot be written by user 65534:65534"), "{err}");
    chown(&log, Some(NOBODY), Some(NOBODY)).expect("root may");
    let (code, err) = check(&log, USER);
    assert_eq!(code, 0, "{err}");
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
        let all = ["SIGHUP will fail", "SIGUSR1 will find"];
        all.iter().all(|one| said.contains(one)).then_some(())
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

/// What the program that follows in place opens again is opened with the rights it will have: a start that would make
/// every upgrade fail fails itself, and a check does.
#[test]
fn what_every_upgrade_would_fail_at_a_start_fails_at() {
    let tree = Tree::with(&[
        ("site/a.txt", "content"),
        ("of-root/keep", ""),
        ("of-nobody/keep", ""),
    ]);
    if skipped(&tree) {
        return;
    }
    chown(tree.join("of-nobody"), Some(NOBODY), Some(NOBODY)).expect("root");
    std::fs::create_dir(tree.join("shared")).expect("our own folder");
    std::fs::set_permissions(tree.join("shared"), PermissionsExt::from_mode(0o1777)).expect("our own folder");
    // Left by a server that made it as root.
    drop(std::os::unix::net::UnixListener::bind(tree.join("shared/control")).expect("a socket"));
    let launch = |strategy: Strategy, flag: &str, file: &str| {
        Launch::new(strategy)
            .root(&tree.join("site"))
            .args([flag.as_ref(), tree.join(file).as_os_str()])
            .args(["--user", USER])
    };
    for strategy in [Strategy::LOOPS, Strategy::PROCESS_LOOPS] {
        for (flag, file) in [
            ("--control", "of-root/control"),
            ("--control", "shared/control"),
            ("--record", "of-root/sensors.jsonl"),
        ] {
            let (code, err) = launch(strategy, flag, file).fail();
            assert_eq!(code, 4, "{err}");
            for part in [file, "65534", "ermi"] {
                assert!(err.contains(part), "{part}: {err}");
            }
            assert!(!tree.join("of-root/control").exists() && !tree.join("of-root/sensors.jsonl").exists());
            let (code, err) = launch(strategy, flag, file).args(["--check"]).fail();
            assert_eq!(code, 2, "{err}");
            assert!(err.contains(file) && err.contains("65534"), "{err}");
        }
        for (flag, file) in [
            ("--control", "of-nobody/control"),
            ("--control", "shared/another"),
            ("--record", "of-nobody/sensors.jsonl"),
        ] {
            let (code, err) = launch(strategy, flag, file).args(["--check"]).fail();
            assert_eq!(code, 0, "{err}");
            let mut line = Line::of(launch(strategy, flag, file).start());
            for _ in 0..2 {
                line.upgrade();
            }
            assert_eq!(line.first.connect().get("/a.txt").text(), "content");
            line.stop();
            assert_eq!(tree.join(file).exists(), flag == "--record", "{file}");
        }
        std::fs::remove_file(tree.join("of-nobody/sensors.jsonl")).expect("our own file");
    }
}

/// The server's user can give the socket to a group of its own only, and the superuser to any.
#[test]
fn the_control_socket_goes_to_a_group_if_its_user_may_give_it() {
    let tree = Tree::with(&[("site/a.txt", "content"), ("of-nobody/keep", "")]);
    if skipped(&tree) {
        return;
    }
    // The socket must not keep the group that this folder gives to new files.
    let folder = tree.join("of-nobody");
    chown(&folder, Some(NOBODY), Some(4712)).expect("root");
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o2755)).expect("our own folder");
    let socket = folder.join("control");
    let launch = |more: &[&str]| {
        Launch::new(Strategy::LOOPS)
            .root(&tree.join("site"))
            .args(["--control".as_ref(), socket.as_os_str()])
            .args(["--control-group", "4711"])
            .args(more)
    };
    for (more, owner) in [(&["--user", "65534:4711"][..], NOBODY), (&[], 0)] {
        let mut server = launch(more).start();
        let found = socket.metadata().expect("a socket");
        let mode = found.permissions().mode() & 0o777;
        assert_eq!((found.uid(), found.gid(), mode), (owner, 4711, 0o660));
        assert_eq!(server.stop(), 0, "{}", server.stderr());
    }
    let (code, err) = launch(&["--user", USER]).fail();
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("belong to group `4711`"), "{err}");
    assert!(!socket.exists());
}

/// How many seccomp filters each thread of a process has.
fn filters(pid: u32) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("threads");
    let files = threads.map(|thread| thread.expect("a thread").path().join("status"));
    let texts = files.filter_map(|file| std::fs::read_to_string(file).ok());
    let field = |text: &str, name: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(name).map(|value| value.trim().to_owned()))
    };
    texts
        .map(|text| {
            let mode = field(&text, "Seccomp:").unwrap_or_default();
            let count = field(&text, "Seccomp_filters:").unwrap_or_else(|| "1".to_owned());
            format!("mode {mode}, {count} of them")
        })
        .collect()
}

/// What those have that the tests run in, if any, and one more.
fn one_filter_more() -> String {
    let count: u32 = status(std::process::id(), "Seccomp_filters")
        .first()
        .and_then(|count| count.parse().ok())
        .unwrap_or_default();
    format!("mode 2, {} of them", count + 1)
}

fn is_filtered(server: &Server) -> bool {
    let said = server.started["rights"]["seccomp"].to_string();
    let is_filtered = said.contains("UNIX sockets only");
    if !is_filtered {
        println!("skipped: {said}");
    }
    is_filtered
}

fn no_thread_makes_system_calls_that_no_server_makes(strategy: Strategy) {
    let tree = Tree::with(&[("site/a.txt", "content"), ("logs/keep", "")]);
    let log = tree.join("logs/access.log");
    let launch = Launch::new(strategy).root(&tree.join("site"));
    let launch = launch.args(["--access-log".as_ref(), log.as_os_str()]);
    let mut line = Line::of(launch.start());
    if !is_filtered(&line.first) {
        return;
    }
    let check = |line: &Line, pids: Vec<u32>| {
        assert_eq!(line.first.connect().get("/a.txt").text(), "content");
        for pid in pids {
            let all = filters(pid);
            assert!(
                !all.is_empty() && all.iter().all(|one| *one == one_filter_more()),
                "{all:?}"
            );
        }
    };
    check(&line, line.first.pids());
    std::fs::rename(&log, tree.join("logs/access.log.1")).expect("the log");
    line.first.signal("USR1");
    eventually("the log is made anew", || log.exists().then_some(()));
    line.first.signal("HUP");
    eventually("the reload", || {
        line.first.stderr().contains("reloaded").then_some(())
    });
    // A filter is inherited, and those that follow add none.
    for _ in 0..3 {
        line.upgrade();
        check(&line, vec![line.newest]);
    }
    line.stop();
}

/// Each does something of its own by system calls, and is followed by itself.
#[test]
fn every_preset_serves_without_the_system_calls_denied() {
    let tree = Tree::with(&[("a.txt", "content"), ("large.bin", &"x".repeat(300_000))]);
    for preset in [
        "apache-1.3",
        "phttpd",
        "java-server",
        "zeus",
        "enterprise",
        "jaws-baseline",
        "jaws",
    ] {
        let launch = Launch::bare().root(tree.path()).args(["--preset", preset]);
        let mut line = Line::of(launch.start());
        if !is_filtered(&line.first) {
            return;
        }
        assert!(filters(line.first.pid()).contains(&one_filter_more()), "{preset}");
        for _ in 0..2 {
            assert_eq!(line.first.connect().get("/a.txt").text(), "content", "{preset}");
            assert_eq!(
                line.first.connect().get("/large.bin").body.len(),
                300_000,
                "{preset}"
            );
            line.upgrade();
        }
        line.stop();
    }
}

#[test]
fn a_filter_can_be_left_out_and_io_uring_let_through() {
    let tree = Tree::with(&[("a.txt", "content")]);
    let launch = || Launch::new(Strategy::LOOPS).root(tree.path());
    let server = launch().args(["--seccomp", "off"]).start();
    let own = filters(std::process::id()).swap_remove(0);
    assert!(filters(server.pid()).contains(&own), "as the tests are");
    assert_eq!(
        server.started["rights"]["seccomp"],
        "no seccomp filter: switched off"
    );
    let server = launch().start();
    if !is_filtered(&server) {
        return;
    }
    let said = |server: &Server| server.started["rights"]["seccomp"].to_string();
    assert!(said(&server).contains("io_uring"));
    // Who may ask for another strategy may ask for that.
    let control = tree.join("control");
    let server = launch().args(["--control".as_ref(), control.as_os_str()]).start();
    assert!(!said(&server).contains("io_uring"));
    let uring = Strategy::LOOPS_URING;
    if uring.is_possible() {
        let server = Launch::new(uring).root(tree.path()).start();
        assert!(!said(&server).contains("io_uring"));
        assert_eq!(server.started["listeners"][0]["io"], "uring");
    }
}

/// What was not let through at the start is not there after an upgrade either; it serves all the same, and says so.
#[test]
fn an_upgrade_cannot_have_io_uring_back() {
    let tree = Tree::with(&[("site/a.txt", "content")]);
    let configured = |io: &str| {
        let text = format!("root = 'site'\nlisten = '127.0.0.1:0'\nconcurrency = 'loops'\nio = '{io}'\n");
        tree.replace("weir.toml", text);
    };
    configured("epoll");
    let launch = Launch::file(Path::new(env!("CARGO_BIN_EXE_weir")));
    let config = tree.join("weir.toml");
    let mut line = Line::of(launch.args(["--config".as_ref(), config.as_os_str()]).start());
    if !is_filtered(&line.first) {
        return;
    }
    configured("uring");
    let started = line.upgrade();
    assert_eq!(started["listeners"][0]["io"], "epoll", "{started}");
    let why = started["listeners"][0]["why"].to_string();
    assert!(why.contains("uring is unavailable"), "{why}");
    assert_eq!(line.first.connect().get("/a.txt").text(), "content");
    line.stop();
}

/// The memory of a process that it can write, as far as the system lets it be read.
fn memory(pid: u32) -> Option<Vec<u8>> {
    use std::os::unix::fs::FileExt;
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let file = std::fs::File::open(format!("/proc/{pid}/mem")).ok()?;
    let mut all = Vec::new();
    for line in maps.lines().filter(|line| line.contains(" rw-p ")) {
        let (from, to) = line.split(' ').next()?.split_once('-')?;
        let from = u64::from_str_radix(from, 16).ok()?;
        let to = u64::from_str_radix(to, 16).ok()?;
        let mut part = vec![0; usize::try_from(to - from).ok()?];
        if file.read_exact_at(&mut part, from).is_ok() {
            all.extend(part);
        }
    }
    Some(all)
}

fn variables_of_other_programs_are_forgotten(strategy: Strategy) {
    const SECRET: &str = "correct horse battery staple";
    let tree = Tree::with(&[("a.txt", "content")]);
    let launch = Launch::new(strategy)
        .root(tree.path())
        .env("DATABASE_PASSWORD", SECRET)
        .env("WEIR_CACHE_SIZE", "7MiB");
    let mut line = Line::of(launch.start());
    assert_eq!(line.first.started["cache"]["bytes"], 7 << 20);
    let has = |hay: &[u8], needle: &str| find(hay, needle.as_bytes()).is_some();
    let check = |pid: u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).expect("our own child");
        assert!(!has(&environment, SECRET) && !has(&environment, "DATABASE_PASSWORD"));
        assert!(has(&environment, "WEIR_CACHE_SIZE=7MiB") && has(&environment, "PATH="));
        match memory(pid) {
            Some(memory) => {
                assert!(has(&memory, "WEIR_CACHE_SIZE=7MiB"), "it was read");
                assert!(!has(&memory, SECRET));
            }
            None => println!("skipped: the memory of {pid} cannot be read"),
        }
    };
    line.first.pids().into_iter().for_each(check);
    line.upgrade();
    check(line.newest);
    assert_eq!(line.first.connect().get("/a.txt").text(), "content");
    line.stop();
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

/// What lies beside the program can be read, as it could not be executed otherwise: then it must be said.
#[test]
fn the_folder_of_the_program_is_within_reach_for_an_upgrade_and_that_is_said() {
    let tree = Tree::with(&[("site/a.txt", "content")]);
    let folder = Path::new(env!("CARGO_BIN_EXE_weir")).parent().expect("a folder");
    for strategy in [Strategy::LOOPS, Strategy::PROCESS_LOOPS] {
        for how in ["root", "auto"] {
            let launch = Launch::new(strategy).root(&tree.join("site"));
            let server = launch.args(["--landlock", how]).start();
            let said = server.started["rights"]["landlock"].to_string();
            if said.contains("no Landlock") {
                println!("skipped: {said}");
                return;
            }
            let names = format!("can read) files in {} for upgrades in place", folder.display());
            assert!(said.contains(&names), "{strategy:?}: {said}");
        }
    }
}

#[test]
fn what_follows_a_confined_process_cannot_reach_more() {
    for concurrency in ["loops", "process-loops"] {
        what_follows_a_confined(concurrency);
    }
}

fn what_follows_a_confined(concurrency: &str) {
    let tree = Tree::with(&[("here/site/a.txt", "content"), ("elsewhere/site/a.txt", "other")]);
    let config = |root: &str, listen: &str, host: &str| {
        let text = format!("root = '{root}'\nlisten = [{listen}]\nconcurrency = '{concurrency}'\n{host}");
        tree.replace("here/weir.toml", text);
    };
    config("site", "'127.0.0.1:0'", "");
    let file = tree.join("here/weir.toml");
    let launch = Launch::file(Path::new(env!("CARGO_BIN_EXE_weir")));
    let mut line = Line::of(launch.args(["--config".as_ref(), file.as_os_str()]).start());
    let said = line.first.started["rights"]["landlock"].to_string();
    let version = said.strip_prefix("\"Landlock ").and_then(|rest| {
        rest.split(|c: char| !c.is_ascii_digit())
            .next()?
            .parse::<u32>()
            .ok()
    });
    let Some(version) = version else {
        println!("skipped: {said}");
        return;
    };
    let mut complained = 0;
    let mut fails_with = |line: &Line, words: &[&str]| {
        signal(line.newest, "USR2");
        complained += 1;
        let said = eventually("the complaint", || {
            let said = line.first.stderr();
            (said.matches("not upgraded").count() == complained).then_some(said)
        });
        let last = said.lines().rfind(|line| line.contains("not upgraded"));
        for word in words {
            assert!(
                last.is_some_and(|last| last.contains(word)),
                "{word} is not in {last:?}"
            );
        }
        assert_eq!(line.first.connect().get("/a.txt").text(), "content");
    };
    config("../elsewhere/site", "'127.0.0.1:0'", "");
    fails_with(&line, &["elsewhere/site", "Permission denied", "--landlock=off"]);
    let host = "[[host]]\nnames = ['x.test']\nroot = '../elsewhere/site'\n";
    config("site", "'127.0.0.1:0'", host);
    fails_with(&line, &["elsewhere/site", "Permission denied", "--landlock=off"]);
    if version >= 4 {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let another = free.expect("a free port");
        config("site", &format!("'127.0.0.1:0', '{another}'"), "");
        fails_with(&line, &[&another.to_string(), "confined", "restart"]);
    }
    config("site", "'127.0.0.1:0'", "");
    line.upgrade();
    assert_eq!(line.first.connect().get("/a.txt").text(), "content");
    line.stop();
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
