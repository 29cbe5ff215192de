//! The control socket: who may ask, what can be asked, and a strategy that changes under load without a request
//! lost.

use crate::serve::load::{Load, tree};
use crate::serve::process::{Launch, Server, Strategy, eventually, within};
use crate::serve::tree::Tree;
use crate::serve::upgrade::{ENDING, Line};
use crate::serve::where_workers_are_processes;
use crate::serve::wire::Connection;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const USAGE: i32 = 2;
const SYSTEM: i32 = 4;

/// `weir ctl` with these arguments: its exit code, and the answer or the complaint.
pub(crate) fn ctl(socket: &Path, arguments: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["--json", "ctl", "--socket"])
        .arg(socket)
        .args(arguments)
        .output()
        .expect("the binary");
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.code().expect("an exit code"),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

fn status(socket: &Path) -> Value {
    let (code, text) = ctl(socket, &["status"]);
    assert_eq!(code, 0, "{text}");
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn with_socket(strategy: Strategy, tree: &Tree, more: &[&str]) -> (Server, PathBuf) {
    let socket = tree.join("control");
    let server = Launch::new(strategy)
        .root(&tree.join("site"))
        .args(["--control".as_ref(), socket.as_os_str()])
        .args(more)
        .start();
    (server, socket)
}

#[test]
fn a_strategy_changes_under_load_without_a_request_lost() {
    let tree = tree();
    let (mut server, socket) = with_socket(Strategy::LOOPS, &tree, &[]);
    let load = Load::on(server.address);
    load.go_on(20);
    let uring = Strategy::LOOPS_URING.is_possible();
    let strategies: [(&str, &str, &str); 7] = [
        ("pool", "blocking", "24"),
        ("loop", "epoll", "1"),
        ("thread-per-connection", "blocking", "24"),
        ("loops", if uring { "uring" } else { "epoll" }, "2"),
        ("thread-per-request", "blocking", "24"),
        ("loop", if uring { "uring" } else { "epoll" }, "1"),
        ("loops", "epoll", "2"),
    ];
    for (concurrency, io, workers) in strategies {
        let (code, text) = ctl(
            &socket,
            &["strategy", concurrency, "--io", io, "--workers", workers],
        );
        assert_eq!(code, 0, "{text}");
        load.go_on(40);
        let now = status(&socket);
        assert_eq!(now["listeners"][0]["concurrency"], concurrency, "{now}");
        assert_eq!(now["listeners"][0]["io"], io, "{now}");
    }
    let answered = load.end();
    assert!(answered > 300, "{answered}");
    // Those who asked are gone, and with them the earlier strategies.
    eventually("nothing is left of earlier strategies", || {
        (status(&socket)["retiring"] == 0).then_some(())
    });
    assert_eq!(server.stop(), 0, "{}", server.stderr());
}

#[test]
fn changing_back_and_forth_leaves_no_socket_behind() {
    let tree = tree();
    let (server, socket) = with_socket(Strategy::LOOPS, &tree, &[]);
    let listening = || {
        let port = format!(":{:04X}", server.address.port());
        let table = std::fs::read_to_string("/proc/net/tcp").expect("/proc");
        let fields = table
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        fields
            .filter(|fields| fields.len() > 3 && fields[1].ends_with(&port) && fields[3] == "0A")
            .count()
    };
    for _ in 0..4 {
        for (concurrency, workers) in [("loop", "1"), ("loops", "2"), ("pool", "4"), ("loops", "2")] {
            let (code, text) = ctl(&socket, &["strategy", concurrency, "--workers", workers]);
            assert_eq!(code, 0, "{text}");
            assert_eq!(server.connect().get("/a.txt").status, 200);
        }
    }
    eventually("a socket for each worker, and no more", || {
        (status(&socket)["retiring"] == 0 && listening() == 2).then_some(())
    });
}

#[test]
fn an_idle_connection_is_left_to_ask_once_more() {
    let tree = tree();
    let (mut server, socket) = with_socket(Strategy::LOOPS, &tree, &[]);
    for (concurrency, io) in [
        ("pool", "blocking"),
        ("thread-per-request", "blocking"),
        ("loops", "epoll"),
    ] {
        let mut idle = server.connect();
        assert!(!idle.get("/a.txt").closes());
        let (code, text) = ctl(&socket, &["strategy", concurrency, "--io", io]);
        assert_eq!(code, 0, "{text}");
        assert_eq!(status(&socket)["retiring"], 1);
        // Its worker is told a moment after whoever asked for the change: until then an answer promises nothing.
        eventually("the last answer says that it is", || {
            let answer = idle.get("/a.txt");
            assert_eq!(answer.text(), "a");
            answer.closes().then_some(())
        });
        idle.expect_close();
    }
    // A stop does not wait for who is idle at a strategy that retires.
    let mut idle = server.connect();
    assert_eq!(idle.get("/a.txt").status, 200);
    assert_eq!(ctl(&socket, &["strategy", "loop"]).0, 0);
    assert_eq!(server.stop(), 0);
    idle.expect_close();
}

#[test]
fn each_address_has_a_strategy_of_its_own() {
    let tree = tree();
    let (server, socket) = with_socket(Strategy::LOOPS, &tree, &["--listen", "127.0.0.1:0", "--live"]);
    let before = status(&socket);
    let address = |number: usize| {
        before["listeners"][number]["address"]
            .as_str()
            .expect("an address")
    };
    let (code, text) = ctl(
        &socket,
        &["strategy", "pool", "--workers", "8", "--listener", address(1)],
    );
    assert_eq!(code, 0, "{text}");
    let after = status(&socket);
    let of = |address: &str| {
        let all = after["listeners"].as_array().expect("a list");
        let one = all.iter().find(|one| one["address"] == address);
        one.unwrap_or_else(|| panic!("{address} in {after}"))["concurrency"].clone()
    };
    assert_eq!(of(address(0)), "loops");
    assert_eq!(of(address(1)), "pool");
    let shown = Connection::open(address(0).parse().expect("an address")).get("/.weir/live.json");
    for number in 0..2 {
        assert!(shown.text().contains(address(number)), "{}", shown.text());
        let mut connection = Connection::open(address(number).parse().expect("an address"));
        assert_eq!(connection.get("/a.txt").text(), "a");
    }
    let (code, text) = ctl(&socket, &["strategy", "pool", "--listener", "127.0.0.1:1"]);
    assert_eq!(code, USAGE, "{text}");
    assert!(
        text.contains("is not listened on") && text.contains(address(0)),
        "{text}"
    );
    drop(server);
}

#[test]
fn each_address_tells_its_own_connections() {
    let tree = tree();
    for strategy in [
        Strategy::LOOPS,
        Strategy::ONE_LOOP,
        Strategy::LOOPS_URING,
        Strategy::POOL,
        Strategy::PER_CONNECTION,
        Strategy::PER_REQUEST,
    ] {
        if !strategy.is_possible() {
            continue;
        }
        let (server, socket) = with_socket(strategy, &tree, &["--listen", "127.0.0.1:0"]);
        let address = |number: usize| {
            let status = status(&socket);
            let text = status["listeners"][number]["address"]
                .as_str()
                .expect("an address")
                .to_owned();
            text.parse().expect("an address")
        };
        let open = || {
            let status = status(&socket);
            [0, 1].map(|number| status["listeners"][number]["open"].as_u64().expect("a count"))
        };
        let connect = |number: usize| {
            let mut connection = Connection::open(address(number));
            assert_eq!(connection.get("/a.txt").text(), "a");
            connection
        };
        let many: Vec<Connection> = (0..3).map(|_| connect(0)).collect();
        let one = connect(1);
        assert_eq!(open(), [3, 1], "{strategy:?}");
        drop(many);
        eventually("three are gone", || (open() == [0, 1]).then_some(()));
        drop(one);
        eventually("all are gone", || (open() == [0, 0]).then_some(()));
        drop(server);
    }
}

#[test]
fn what_cannot_be_is_refused_and_all_stays() {
    let tree = tree();
    let (server, socket) = with_socket(Strategy::LOOPS, &tree, &[]);
    let before = status(&socket)["listeners"].clone();
    for (arguments, fragment) in [
        (&["strategy", "pool", "--io", "epoll"][..], "use `--io blocking`"),
        (&["strategy", "processes"], "only a new start can create"),
        (&["strategy", "loop", "--workers", "3"], "a single event loop"),
    ] {
        let (code, text) = ctl(&socket, arguments);
        assert_eq!(code, USAGE, "{arguments:?}: {text}");
        assert!(text.contains(fragment), "{arguments:?}: {text}");
    }
    for nonsense in ["", "nonsense", "{\"do\":\"sing\"}", "{\"do\":\"strategy\"}"] {
        let answer = ask(&socket, nonsense);
        assert!(answer.contains("\"ok\":false"), "{nonsense}: {answer}");
    }
    let after = status(&socket);
    assert_eq!(after["listeners"][0]["concurrency"], before[0]["concurrency"]);
    assert_eq!(server.connect().get("/a.txt").text(), "a");
}

/// A line to the socket, and the line that comes back.
fn ask(socket: &Path, line: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::os::unix::net::UnixStream::connect(socket).expect("the control socket");
    stream.write_all(format!("{line}\n").as_bytes()).expect("a line");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn signals_have_their_words_too() {
    let tree = tree();
    let log = tree.join("access.log");
    let (mut server, socket) = with_socket(
        Strategy::ONE_LOOP,
        &tree,
        &["--access-log", log.to_str().expect("a plain path")],
    );
    assert_eq!(server.connect().get("/a.txt").status, 200);
    std::fs::rename(&log, tree.join("old.log")).expect("a log to move");
    assert_eq!(ctl(&socket, &["reopen-logs"]).0, 0);
    eventually("the log is there again", || log.exists().then_some(()));
    assert_eq!(ctl(&socket, &["reload"]).0, 0);
    eventually("it has reloaded", || {
        server.stderr().contains("reloaded").then_some(())
    });
    assert_eq!(ctl(&socket, &["stop"]).0, 0);
    assert_eq!(server.wait(), 0);
    assert!(!socket.exists(), "it takes its file along");
    let (code, text) = ctl(&socket, &["status"]);
    assert_eq!(code, SYSTEM);
    assert!(text.contains("control"), "{text}");
}

#[test]
fn what_fails_is_said_to_who_asked() {
    let tree = tree();
    tree.write("logs/access.log", "");
    tree.write("weir.toml", "root = 'site'\naccess-log = 'logs/access.log'\n");
    tree.write("site/a.txt", "a");
    let config = tree.join("weir.toml");
    let (mut server, socket) = with_socket(
        Strategy::ONE_LOOP,
        &tree,
        &["--config", config.to_str().expect("a plain path")],
    );
    tree.replace("weir.toml", "root = 'site'\nworkerz = 3\n");
    let (code, text) = ctl(&socket, &["reload"]);
    assert!(code != 0 && text.contains("workerz"), "{code}: {text}");
    std::fs::remove_dir_all(tree.join("logs")).expect("our own folder");
    let (code, text) = ctl(&socket, &["reopen-logs"]);
    assert!(code == SYSTEM && text.contains("access log"), "{code}: {text}");
    let (code, text) = ctl(&socket, &["strategy", "loop"]);
    assert!(
        code == 0 && text.contains("epoll"),
        "what is in force is said: {text}"
    );
    assert_eq!(server.stop(), 0);
}

/// The permission bits of a file.
fn mode(path: &Path) -> u32 {
    let found = std::fs::metadata(path).expect("a socket");
    found.permissions().mode() & 0o777
}

/// `chmod` would have to be repeated each time.
#[test]
fn its_group_may_ask_after_a_restart_and_an_upgrade_in_place() {
    for strategy in [Strategy::LOOPS, Strategy::PROCESS_LOOPS] {
        let tree = tree();
        for _ in 0..2 {
            let (server, socket) = with_socket(strategy, &tree, &["--control-mode", "660"]);
            assert_eq!(mode(&socket), 0o660);
            let mut line = Line::of(server);
            line.upgrade();
            assert_eq!(mode(&socket), 0o660);
            assert_eq!(status(&socket)["ok"], true);
            line.stop();
        }
    }
}

#[test]
fn only_its_owner_may_ask_and_nobody_takes_it_away() {
    let tree = tree();
    let (mut server, socket) = with_socket(Strategy::LOOPS, &tree, &[]);
    assert_eq!(mode(&socket), 0o600);
    let (code, err) = Launch::bare()
        .args(["--control".as_ref(), socket.as_os_str()])
        .fail();
    assert_eq!(code, SYSTEM, "{err}");
    assert!(
        err.contains("another process answers") && err.contains("--control"),
        "{err}"
    );
    server.signal("KILL");
    server.wait();
    assert!(socket.exists());
    // What a server left behind is in nobody's way.
    let (server, socket) = with_socket(Strategy::LOOPS, &tree, &[]);
    assert_eq!(status(&socket)["pid"], server.pid());
    // Those who connect and say nothing hold up nobody, however many they are.
    let silent: Vec<_> = (0..20)
        .map(|_| std::os::unix::net::UnixStream::connect(&socket).expect("the control socket"))
        .collect();
    let began = std::time::Instant::now();
    assert_eq!(status(&socket)["ok"], true);
    // One after the other, each has half a second.
    let took = began.elapsed();
    assert!(took < std::time::Duration::from_secs(9), "{took:?}");
    drop(silent);
}

/// Where workers are processes their founder is asked, and an answer is given when all of them have done it.
fn a_server_of_processes_can_be_asked_too(strategy: Strategy) {
    let tree = tree();
    tree.write("site/a.txt", "a");
    tree.write("logs/access.log", "");
    let file = |header: &str| {
        let text =
            format!("root = 'site'\naccess-log = 'logs/access.log'\nheader = ['X-Version: {header}']\n");
        tree.replace("weir.toml", text);
    };
    file("1");
    let config = tree.join("weir.toml");
    let config = config.to_str().expect("a plain path");
    let (mut server, socket) = with_socket(strategy, &tree, &["--config", config]);
    let mut connection = server.connect();
    assert_eq!(connection.get("/a.txt").must("X-Version"), "1");
    let now = eventually("its connections are counted", || {
        let now = status(&socket);
        (now["open"] == 1).then_some(now)
    });
    assert_eq!(now["pid"], server.pid());
    let listener = &now["listeners"][0];
    assert_eq!(listener["concurrency"], strategy.concurrency, "{now}");
    assert_eq!(listener["open"], 1, "{now}");
    assert!(now["processes"].as_u64() >= Some(2), "{now}");
    // When it has reloaded, no process answers by the old configuration.
    for version in 2..5 {
        let version = version.to_string();
        file(&version);
        let (code, text) = ctl(&socket, &["reload"]);
        assert_eq!(code, 0, "{text}");
        for _ in 0..4 {
            assert_eq!(server.connect().get("/a.txt").must("X-Version"), version);
        }
    }
    tree.replace("weir.toml", "root = 'site'\nworkerz = 3\n");
    let (code, text) = ctl(&socket, &["reload"]);
    assert!(code != 0 && text.contains("workerz"), "{code}: {text}");
    std::fs::rename(tree.join("logs/access.log"), tree.join("logs/old.log")).expect("a log to move");
    let (code, text) = ctl(&socket, &["reopen-logs"]);
    assert_eq!(code, 0, "{text}");
    eventually("the log is there again", || {
        tree.join("logs/access.log").exists().then_some(())
    });
    std::fs::remove_dir_all(tree.join("logs")).expect("our own folder");
    let (code, text) = ctl(&socket, &["reopen-logs"]);
    assert!(code == SYSTEM && text.contains("access log"), "{code}: {text}");
    let (code, text) = ctl(&socket, &["strategy", "loops"]);
    assert_eq!(code, USAGE, "{text}");
    // The tests give the strategy as flags, so the file cannot change it.
    for part in [
        strategy.concurrency,
        "start it with `--concurrency loops`",
        "overrides the file",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(ask(&socket, "nonsense").contains("\"ok\":false"));
    assert_eq!(connection.get("/a.txt").text(), "a");
    drop(connection);
    assert_eq!(ctl(&socket, &["stop"]).0, 0);
    assert_eq!(server.wait(), 0, "{}", server.stderr());
    assert!(!socket.exists(), "it takes its file along");
}

fn a_process_that_dies_leaves_the_socket_of_its_founder(strategy: Strategy) {
    let tree = tree();
    let (server, socket) = with_socket(strategy, &tree, &["--live"]);
    let worker = || {
        let shown = server.connect().get("/.weir/live.json").text();
        let live: Value = serde_json::from_str(&shown).expect("JSON");
        live["process"].as_u64().expect("a process")
    };
    for kill in ["-KILL", "-ABRT"] {
        let victim = worker();
        let killed = Command::new("kill").args([kill, &victim.to_string()]).status();
        assert!(killed.expect("kill(1)").success());
        eventually("it is gone", || {
            (!Path::new(&format!("/proc/{victim}")).exists()).then_some(())
        });
        assert_eq!(status(&socket)["pid"], server.pid());
    }
}

/// What is advised where a strategy cannot be changed to is tried: both ways, each without an end of the server.
#[test]
fn the_advice_on_strategies_of_processes_can_be_followed() {
    let tree = tree();
    let socket = tree.join("control");
    let file = |lines: &str| {
        tree.replace(
            "weir.toml",
            format!("root = 'site'\nlisten = '127.0.0.1:0'\ncontrol = 'control'\n{lines}"),
        );
    };
    file("");
    let config = tree.join("weir.toml");
    let launch = Launch::file(Path::new(env!("CARGO_BIN_EXE_weir")));
    let mut line = Line::of(launch.args(["--config".as_ref(), config.as_os_str()]).start());
    for (concurrency, workers, lines) in [
        (
            "process-loops",
            "2",
            &["concurrency = \"process-loops\"", "workers = \"2\""][..],
        ),
        (
            "processes",
            "8",
            &["concurrency = \"processes\"", "workers = \"8\""],
        ),
        ("pool", "auto", &["concurrency = \"pool\""]),
        ("process-loops", "auto", &["concurrency = \"process-loops\""]),
        ("loops", "auto", &["concurrency = \"loops\""]),
    ] {
        let (code, text) = ctl(&socket, &["strategy", concurrency, "--workers", workers]);
        assert_eq!(code, USAGE, "{text}");
        let text = text.replace("\\\"", "\"");
        for part in lines {
            assert!(text.contains(&format!("`{part}`")), "{part}: {text}");
        }
        let whom = format!("SIGUSR2 to process {}", line.newest);
        assert!(text.contains(&whom) && text.contains("weir.toml"), "{text}");
        file(&lines.join("\n"));
        line.upgrade();
        let now = status(&socket);
        assert_eq!(now["pid"], line.newest, "{now}");
        assert_eq!(now["listeners"][0]["concurrency"], concurrency, "{now}");
        assert_eq!(line.first.connect().get("/a.txt").text(), "a");
    }
    line.stop();
    assert!(!socket.exists());
}

#[test]
fn an_upgrade_takes_the_socket_along() {
    let tree = tree();
    let (server, socket) = with_socket(Strategy::LOOPS, &tree, &[]);
    assert_eq!(ctl(&socket, &["strategy", "pool", "--workers", "12"]).0, 0);
    server.signal("USR2");
    let follower = eventually("another process answers", || {
        let pid = status(&socket)["pid"].as_u64()?;
        (pid != u64::from(server.pid())).then_some(pid)
    });
    assert_eq!(server.connect().get("/a.txt").text(), "a");
    assert_eq!(status(&socket)["listeners"][0]["concurrency"], "loops");
    let mut server = server;
    let ended = within(ENDING, "the old one ends", || server.has_ended());
    assert_eq!(ended.code(), Some(0), "{}", server.stderr());
    assert_eq!(
        status(&socket)["pid"],
        follower,
        "the one that went left it alone"
    );
    let killed = Command::new("kill")
        .args(["-TERM", &follower.to_string()])
        .status();
    assert!(killed.expect("kill(1)").success());
    eventually("it takes its file along", || (!socket.exists()).then_some(()));
}

#[test]
fn an_upgrade_that_fails_leaves_the_socket_where_it_was() {
    let tree = tree();
    let socket = tree.join("control");
    let file = |log: &str| {
        tree.replace(
            "weir.toml",
            format!("root = 'site'\nlisten = '127.0.0.1:0'\ncontrol = 'control'\n{log}"),
        );
    };
    file("");
    let config = tree.join("weir.toml");
    let launch = Launch::file(Path::new(env!("CARGO_BIN_EXE_weir")));
    let mut server = launch.args(["--config".as_ref(), config.as_os_str()]).start();
    assert_eq!(status(&socket)["pid"], server.pid());
    file("access-log = 'no/such/folder/log'\n");
    server.signal("USR2");
    eventually("it says so", || {
        server.stderr().contains("not upgraded").then_some(())
    });
    assert_eq!(status(&socket)["pid"], server.pid());
    assert_eq!(server.stop(), 0);
    assert!(!socket.exists());
    assert!(
        !tree.join("control.new").exists(),
        "nor does the other leave anything"
    );
}

where_workers_are_processes!(
    a_server_of_processes_can_be_asked_too,
    a_process_that_dies_leaves_the_socket_of_its_founder,
);
