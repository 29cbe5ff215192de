//! What the person who runs the server sees: start-up, configuration, signals, logs, exit codes.

use crate::serve::files::noise;
use crate::serve::on_every_strategy;
use crate::serve::process::{Launch, Server, Strategy, eventually, within};
use crate::serve::tree::Tree;
use crate::serve::upgrade::ENDING;
use crate::serve::wire::{Connection, head};
use serde_json::Value;
use std::net::{TcpListener, TcpStream};
use std::process::Command;

const NO_ERROR: i32 = 0;
const USAGE: i32 = 2;
const SYSTEM: i32 = 4;

fn weir(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(arguments)
        .output()
        .expect("the binary");
    (
        output.status.code().expect("an exit code"),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn help_has_examples_and_version_a_number() {
    let (code, out, _) = weir(&["serve", "--help"]);
    assert_eq!(code, NO_ERROR);
    for word in [
        "Examples:",
        "--cache-policy",
        "WEIR_CACHE_SIZE",
        "SIGTERM",
        "Limits:",
    ] {
        let known = out.contains(word) || (word == "SIGTERM" && out.contains("TERM"));
        assert!(known, "{word} is not in the help");
    }
    let (code, out, _) = weir(&["--version"]);
    assert_eq!(
        (code, out.trim()),
        (NO_ERROR, concat!("weir ", env!("CARGO_PKG_VERSION")))
    );
    assert_eq!(weir(&[]).0, USAGE);
    assert_eq!(weir(&["swerve"]).0, USAGE);
}

#[test]
fn a_configuration_is_checked_without_serving() {
    let tree = Tree::with(&[
        ("site/index.html", "<p>hi"),
        (
            "good.toml",
            "root = 'site'\nlisten = '127.0.0.1:0'\ncache-size = '1MiB'\n",
        ),
        ("bad.toml", "listen = '127.0.0.1:0'\ncache-sise = '1MiB'\n"),
    ]);
    let good = tree.join("good.toml").display().to_string();
    let bad = tree.join("bad.toml").display().to_string();
    let (code, _, err) = weir(&["serve", "--check", "--config", &good]);
    assert_eq!(code, NO_ERROR, "{err}");
    let (code, _, err) = weir(&["serve", "--check", "--config", &bad]);
    assert_eq!(code, USAGE);
    assert!(err.contains(&format!("{bad}:2:")), "file and line: {err}");
    assert!(
        err.contains("`cache-sise`") && err.contains("did you mean `cache-size`"),
        "{err}"
    );
    let (_, out, _) = weir(&["--json", "serve", "--check", "--config", &good]);
    let line: Value = serde_json::from_str(&out).expect("a line of JSON");
    assert_eq!(
        (&line["event"], &line["valid"]),
        (&Value::from("checked"), &Value::from(true))
    );
    tree.write("lost.toml", "listen = '127.0.0.1:0'\nroot = 'lost'\n");
    let lost = tree.join("lost.toml").display().to_string();
    let (code, _, err) = weir(&["serve", "--check", "--config", &lost]);
    assert_eq!(code, USAGE);
    assert!(err.contains(&format!("{lost}:2: `root`: ")), "{err}");
    let (code, out, _) = weir(&["--json", "serve", "--check", "--config", &bad]);
    let line: Value = serde_json::from_str(&out).expect("a line of JSON");
    assert_eq!(
        (code, line["event"].as_str(), line["kind"].as_str()),
        (USAGE, Some("failed"), Some("usage"))
    );
}

/// A start does without such a page: it may come, and until then the server's own is sent.
#[test]
fn a_check_names_pages_that_are_not_there() {
    let tree = Tree::with(&[
        ("site/index.html", "<p>hi"),
        ("site/404.html", "<p>no"),
        ("other/index.html", "<p>other"),
    ]);
    let check = |text: &str| {
        tree.write("weir.toml", text);
        let file = tree.join("weir.toml").display().to_string();
        let (code, _, err) = weir(&["serve", "--check", "--config", &file]);
        (code, err.replace(&file, "weir.toml"))
    };
    let (code, err) =
        check("root = 'site'\nspa-fallback = '/index.html'\n[error-pages]\n404 = '/404.html'\n");
    assert_eq!(code, NO_ERROR, "{err}");
    for (text, blames) in [
        (
            "root = 'site'\n[error-pages]\n404 = '/404.html'\n5xx = '/sorry.html'\n",
            "weir.toml:4: `error-pages`: `/sorry.html` is not among",
        ),
        (
            "root = 'site'\nspa-fallback = '/app.html'\n",
            "weir.toml:2: `spa-fallback`: `/app.html` is not among",
        ),
        (
            "root = 'site'\n[error-pages]\n404 = '/404.html'\n[[host]]\nnames = ['a.test']\n\
             [[host]] # another\nnames = ['o.test']\nroot = 'other'\n[host.error-pages]\n404 = '/404.html'\n",
            "weir.toml:10: `error-pages`: `/404.html` is not among the files of host `o.test`",
        ),
        (
            "root = 'site'\nspa-fallback = '/index.html'\n[[host]]\nnames = ['o.test']\nroot = 'other'\n\
             spa-fallback = '/app.html'\n",
            "weir.toml:6: `spa-fallback`: `/app.html` is not among the files of host `o.test`",
        ),
    ] {
        let (code, err) = check(text);
        assert_eq!(code, USAGE, "{text}: {err}");
        assert!(err.contains(blames), "{text}: {err}");
    }
    let site = tree.join("site").display().to_string();
    let (code, _, err) = weir(&["serve", &site, "--check", "--error-page", "404=/none.html"]);
    assert_eq!(code, USAGE, "{err}");
    assert!(err.contains("`--error-page`: `/none.html` is not among"), "{err}");
}

/// A host that takes over the pages of the top level need not have them: a check and a start say the same, and serve it.
#[test]
fn a_page_that_a_host_takes_over_and_has_not_is_warned_of_by_check_and_start_alike() {
    let tree = Tree::with(&[
        ("site/404.html", "none"),
        ("site/index.html", "home"),
        ("other/a.txt", "a"),
    ]);
    let text = "root = 'site'\nlisten = '127.0.0.1:0'\nspa-fallback = '/index.html'\n[error-pages]\n404 = '/404.html'\n\
                [[host]]\nnames = ['same.test']\n[[host]]\nnames = ['o.test']\nroot = 'other'\n";
    tree.write("weir.toml", text);
    let config = tree.join("weir.toml");
    let file = config.display().to_string();
    let warnings = [
        format!(
            "{file}:8: `/404.html`, configured at the top level, is not among the files of host `o.test`: errors get the \
             built-in page"
        ),
        format!(
            "{file}:8: `/index.html`, configured at the top level, is not among the files of host `o.test`: unknown paths \
             get 404"
        ),
    ];
    let (code, _, err) = weir(&["serve", "--check", "--config", &file]);
    assert_eq!(code, NO_ERROR, "{err}");
    for warning in &warnings {
        assert!(err.contains(warning), "{err}");
    }
    assert!(!err.contains("same.test"), "{err}");
    let (code, out, err) = weir(&["--json", "serve", "--check", "--config", &file]);
    let checked: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(code, NO_ERROR, "{err}");
    assert_eq!(checked["warnings"].as_array().map(Vec::len), Some(2), "{checked}");
    for strategy in [Strategy::LOOPS, Strategy::PROCESS_LOOPS] {
        tree.write("weir.toml", text);
        let launch = Launch::new(strategy).args(["--config".as_ref(), config.as_os_str()]);
        let server = launch.start();
        eventually("the same at start", || {
            let said = server.stderr();
            warnings
                .iter()
                .all(|warning| said.contains(warning))
                .then_some(())
        });
        let mut connection = server.connect();
        connection.send("GET /none.txt HTTP/1.1\r\nHost: o.test\r\n\r\n");
        let answer = connection.receive("GET");
        assert!(answer.status == 404 && answer.text().contains("Not Found"));
        // One that the site itself is told to have is warned of, too, and at a reload as well.
        tree.replace(
            "weir.toml",
            text.replace("404 = '/404.html'", "404 = '/lost.html'"),
        );
        server.signal("HUP");
        eventually("what a reload finds", || {
            let said = server.stderr();
            said.contains(":5: `error-pages`: `/lost.html` is not among the files served")
                .then_some(())
        });
    }
}

/// What a start would fail at is what a check fails at, and nothing is made by it.
#[test]
fn a_check_looks_at_files_that_are_not_opened_yet_and_at_the_user() {
    let tree = Tree::with(&[("site/a.txt", "a"), ("site/b.txt", "b")]);
    let check = |line: &str| {
        tree.write(
            "weir.toml",
            format!("root = 'site'\nlisten = '127.0.0.1:0'\n{line}\n"),
        );
        let config = tree.join("weir.toml").display().to_string();
        let (code, _, err) = weir(&["serve", "--check", "--config", &config]);
        (code, err, config)
    };
    for (line, key, fragment) in [
        (
            "access-log = 'lost/access.log'",
            "access-log",
            "there is no folder `",
        ),
        ("access-log = 'site'", "access-log", "is a directory"),
        ("access-log = 'site/a.txt/log'", "access-log", "Not a directory"),
        ("record = 'lost/sensors.jsonl'", "record", "there is no folder `"),
        ("control = 'lost/control'", "control", "there is no folder `"),
        ("control = 'site/a.txt'", "control", "is not a socket"),
        (
            "control-group = 'no-such-group'\ncontrol = 'control'",
            "control-group",
            "there is no group `no-such-group`",
        ),
        (
            "control-mode = '666'\ncontrol = 'control'",
            "control-mode",
            "set `control-group`",
        ),
        (
            "user = 'nobody-of-that-name'",
            "user",
            "there is no user `nobody-of-that-name`",
        ),
        (
            "user = 'root:no-such-group'",
            "user",
            "there is no group `no-such-group`",
        ),
    ] {
        let (code, err, config) = check(line);
        assert_eq!(code, USAGE, "{line}: {err}");
        let place = format!("{config}:3: `{key}`: ");
        assert!(err.contains(&place) && err.contains(fragment), "{line}: {err}");
    }
    for line in [
        "access-log = 'access.log'",
        "access-log = 'site/b.txt'",
        "access-log = '-'",
        "record = 'sensors.jsonl'",
        "control = 'control'",
        "user = 'root'",
    ] {
        let (code, err, _) = check(line);
        assert_eq!(code, NO_ERROR, "{line}: {err}");
    }
    for name in ["access.log", "sensors.jsonl", "control"] {
        assert!(!tree.join(name).exists(), "{name} was made");
    }
    let (code, _, err) = weir(&["serve", "--check", "--access-log", "/nowhere/access.log"]);
    assert_eq!(code, USAGE, "{err}");
    assert!(err.contains("`--access-log`: "), "{err}");
}

#[test]
fn errors_name_the_offender_and_what_to_do() {
    let tree = Tree::with(&[("file.txt", "x")]);
    let (code, err) = Launch::new(Strategy::LOOPS).root(&tree.join("nowhere")).fail();
    assert_eq!(code, USAGE, "{err}");
    assert!(err.contains("nowhere"), "{err}");
    let (code, err) = Launch::new(Strategy::LOOPS).root(&tree.join("file.txt")).fail();
    assert_eq!(code, USAGE, "{err}");
    assert!(err.contains("file.txt") && err.contains("directory"), "{err}");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    let (code, err) = Launch::new(Strategy::LOOPS).args(["--listen", &address]).fail();
    assert_eq!(code, SYSTEM, "{err}");
    assert!(err.contains(&address) && err.contains("--listen"), "{err}");
    let log = tree.join("no/such/folder/access.log");
    let (code, err) = Launch::new(Strategy::LOOPS)
        .args(["--access-log".as_ref(), log.as_os_str()])
        .fail();
    assert!(matches!(code, USAGE | SYSTEM), "{code}: {err}");
    assert!(err.contains("access.log"), "{err}");
    let (code, err) = Launch::new(Strategy::LOOPS).args(["--io", "eurypol"]).fail();
    assert_eq!(code, USAGE, "{err}");
}

/// A flag that can stand bare takes its value behind `=`; the word after it is a directory to serve.
#[test]
fn a_value_without_its_equals_sign_is_told_how_to_be_written() {
    let tree = Tree::with(&[("site/a.txt", "a"), ("w.toml", "root = 'site'\n")]);
    let (site, file) = (tree.join("site"), tree.join("w.toml"));
    let (site, file) = (site.display().to_string(), file.display().to_string());
    for (arguments, advice) in [
        (&["--live", "local"][..], "write `--live=local`"),
        (&[&site, "--live", "all"], "write `--live=all`"),
        (
            &["--config", &file, "--compress", "false"],
            "write `--compress=false`",
        ),
        (&["--pacing", "true", &site], "write `--pacing=true`"),
        (&["--spa", "/app.html", "--check"], "write `--spa=/app.html`"),
    ] {
        // Whoever listens at the default port is in nobody's way.
        let (code, _, err) = weir(&[&["serve", "--listen", "127.0.0.1:0"], arguments].concat());
        assert_eq!(code, USAGE, "{arguments:?}: {err}");
        assert!(err.contains(advice), "{arguments:?}: {err}");
    }
    let (code, _, err) = weir(&["serve", "./no-such-folder", "--live", "--check"]);
    assert!(code == USAGE && !err.contains("--live="), "{err}");
}

/// Clocks are read through the kernel's vDSO where there is one, and valgrind hides it.
#[test]
fn it_runs_under_valgrind() {
    let run = Command::new("valgrind")
        .args(["--tool=none", env!("CARGO_BIN_EXE_weir"), "serve", "--check"])
        .output();
    let Ok(output) = run else {
        println!("skipped: valgrind is not installed");
        return;
    };
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {err}", output.status);
}

#[test]
fn paths_of_a_file_are_relative_to_it() {
    let tree = Tree::with(&[
        ("site/a.txt", "a"),
        (
            "weir.toml",
            "root = 'site'\naccess-log = 'access.log'\ncontrol = 'control'\nrecord = 'sensors.jsonl'\n\
             [[uploads]]\npath = '/up/'\nfolder = 'sent'\nopen = true\n",
        ),
        ("sent/b.txt", "b"),
    ]);
    let config = tree.join("weir.toml");
    let launch = Launch::new(Strategy::LOOPS).args(["--config".as_ref(), config.as_os_str()]);
    let server = launch.start();
    assert_eq!(server.connect().get("/a.txt").text(), "a");
    let put = "PUT /up/c.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nc";
    let mut connection = server.connect();
    connection.send(put);
    assert_eq!(connection.receive("PUT").status, 201);
    for name in ["access.log", "control", "sensors.jsonl", "sent/c.txt"] {
        assert!(tree.join(name).exists(), "{name} is elsewhere");
    }
}

/// A pipe that nobody writes would be waited for, and no signal heard.
#[test]
fn a_configuration_that_has_become_a_pipe_holds_up_nobody() {
    let tree = Tree::with(&[
        ("site/a.txt", "a"),
        ("weir.toml", "root = 'site'\nlisten = '127.0.0.1:0'\n"),
    ]);
    for strategy in [Strategy::LOOPS, Strategy::PROCESS_LOOPS] {
        tree.replace("weir.toml", "root = 'site'\nlisten = '127.0.0.1:0'\n");
        let config = tree.join("weir.toml");
        let launch = Launch::new(strategy).args(["--config".as_ref(), config.as_os_str()]);
        let mut server = launch.start();
        std::fs::remove_file(&config).expect("our own file");
        let made = Command::new("mkfifo").arg(&config).status().expect("mkfifo(1)");
        assert!(made.success());
        server.signal("HUP");
        eventually("it says so", || {
            let said = server.stderr();
            (said.contains("not reloaded") && said.contains("is a pipe")).then_some(())
        });
        assert_eq!(server.connect().get("/a.txt").text(), "a");
        assert_eq!(server.stop(), 0);
    }
}

#[test]
fn a_misspelt_variable_is_pointed_out() {
    let tree = Tree::with(&[("a.txt", "a")]);
    let server = Launch::new(Strategy::LOOPS)
        .root(tree.path())
        .env("WEIR_CACHE_SISE", "1MiB")
        .env("WEIR_SERVICE_HOST", "10.0.0.1")
        .start();
    eventually("the warning", || {
        let stderr = server.stderr();
        (stderr.contains("WEIR_CACHE_SISE") && stderr.contains("WEIR_CACHE_SIZE")).then_some(())
    });
    assert!(
        !server.stderr().contains("WEIR_SERVICE_HOST"),
        "others may have variables of that prefix"
    );
}

#[test]
fn a_combination_that_cannot_be_is_refused() {
    let (code, _, err) = weir(&["serve", "--check", "--concurrency", "pool", "--io", "epoll"]);
    assert_eq!(code, USAGE, "{err}");
    assert!(err.contains("pool") && err.contains("blocking"), "{err}");
}

#[test]
fn a_flag_beats_the_environment_beats_the_file() {
    let tree = Tree::with(&[
        ("site/index.html", "<p>hi"),
        (
            "weir.toml",
            "root = 'site'\ncache-policy = 'lru'\ncache-size = '1MiB'\nindex = ['index.html']\n",
        ),
    ]);
    let config = tree.join("weir.toml").display().to_string();
    let launch = || Launch::new(Strategy::LOOPS).args(["--config", &config]);
    let policy = |server: &Server| server.started["cache"]["policy"].as_str().map(str::to_owned);
    let server = launch().start();
    assert_eq!(policy(&server).as_deref(), Some("lru"), "{}", server.started);
    assert_eq!(
        server.connect().get("/").text(),
        "<p>hi",
        "root is relative to the file"
    );
    let server = launch().env("WEIR_CACHE_POLICY", "lfu").start();
    assert_eq!(policy(&server).as_deref(), Some("lfu"));
    let server = launch()
        .env("WEIR_CACHE_POLICY", "lfu")
        .args(["--cache-policy", "s3-fifo"])
        .start();
    assert_eq!(policy(&server).as_deref(), Some("s3-fifo"));
    assert_eq!(server.started["cache"]["bytes"], 1 << 20);
}

#[test]
fn every_address_is_listened_on() {
    let server = Launch::new(Strategy::LOOPS)
        .args(["--listen", "127.0.0.2:0", "--listen", "[::1]:0"])
        .start();
    let listeners = server.started["listeners"].as_array().expect("listeners");
    assert_eq!(listeners.len(), 3);
    for listener in listeners {
        let address = listener["address"]
            .as_str()
            .and_then(|text| text.parse().ok())
            .expect("an address");
        assert_eq!(
            Connection::open(address).get("/robots.txt").status,
            200,
            "{listener}"
        );
    }
}

fn the_start_says_what_was_chosen_and_why(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a")]);
    let mut server = Server::of(strategy, tree.path());
    let started = &server.started;
    assert_eq!(started["event"], "started");
    assert_eq!(started["version"], env!("CARGO_PKG_VERSION"));
    let listener = &started["listeners"][0];
    assert_eq!(listener["url"], format!("http://{}/", server.address));
    assert_eq!(listener["concurrency"], strategy.concurrency);
    assert_eq!(listener["io"], strategy.io);
    assert_eq!(listener["workers"], strategy.workers);
    assert!(
        listener["why"].as_str().is_some_and(|why| !why.is_empty()),
        "{started}"
    );
    assert!(started["limits"]["max-connections"].is_u64(), "{started}");
    // A person reads the same on standard error.
    eventually("the report", || server.stderr().contains("http://").then_some(()));
    let report = server.stderr();
    for word in [
        "weir",
        strategy.concurrency,
        strategy.io,
        "cache",
        "s3-fifo",
        "64 MiB",
    ] {
        assert!(report.contains(word), "{word} is not in {report}");
    }
    assert!(!report.contains('\u{1b}'), "no color where nobody sees it");
    assert_eq!(server.stop(), NO_ERROR);
}

fn a_drain_finishes_what_is_owed(strategy: Strategy) {
    for signal in ["TERM", "INT"] {
        let tree = Tree::new();
        let content = noise(24 << 20);
        tree.write("large.bin", &content);
        let mut server = Server::of(strategy, tree.path());
        let mut idle = server.connect();
        assert_eq!(idle.request("HEAD", "/large.bin", &[]).status, 200);
        let mut busy = server.connect();
        busy.send(head("GET", "/large.bin", &[]));
        assert_eq!(busy.exactly(8), b"HTTP/1.1", "the answer has begun");
        server.signal(signal);
        idle.expect_close();
        eventually("new connections are refused", || {
            TcpStream::connect(server.address).is_err().then_some(())
        });
        assert!(server.has_ended().is_none(), "it waits for the one in flight");
        let (rest, _) = busy.rest();
        assert!(rest.ends_with(&content), "{} bytes", rest.len());
        assert_eq!(server.wait(), NO_ERROR);
    }
}

fn a_drain_is_bounded(strategy: Strategy) {
    let tree = Tree::new();
    tree.write("large.bin", noise(24 << 20));
    let mut server = Launch::new(strategy)
        .root(tree.path())
        .args(["--grace", "300ms", "--write-timeout", "1h"])
        .start();
    let mut busy = server.connect();
    busy.send(head("GET", "/large.bin", &[]));
    assert_eq!(busy.exactly(8), b"HTTP/1.1", "the answer has begun");
    server.signal("TERM");
    within(ENDING, "grace ends", || server.has_ended());
}

fn a_second_signal_stops_at_once(strategy: Strategy) {
    let tree = Tree::new();
    tree.write("large.bin", noise(24 << 20));
    let mut server = Launch::new(strategy)
        .root(tree.path())
        .args(["--grace", "1h", "--write-timeout", "1h"])
        .start();
    let mut busy = server.connect();
    busy.send(head("GET", "/large.bin", &[]));
    assert_eq!(busy.exactly(8), b"HTTP/1.1", "the answer has begun");
    server.signal("TERM");
    eventually("it drains", || {
        TcpStream::connect(server.address).is_err().then_some(())
    });
    server.signal("TERM");
    within(ENDING, "a second signal", || server.has_ended());
}

fn a_reload_takes_what_is_valid_and_keeps_the_rest(strategy: Strategy) {
    let tree = Tree::with(&[
        ("site/a.txt", "a"),
        ("site/docs/x", "x"),
        ("other/a.txt", "other"),
    ]);
    let config = tree.write("weir.toml", "root = 'site'\nheader = ['X-Version: 1']\n");
    let server = Launch::new(strategy)
        .args(["--config".as_ref(), config.as_os_str()])
        .start();
    let mut old = server.connect();
    assert_eq!(old.get("/a.txt").must("X-Version"), "1");
    assert_eq!(server.connect().get("/docs/").status, 403);
    tree.write(
        "weir.toml",
        "root = 'site'\nheader = ['X-Version: 2']\nlisting = true\n",
    );
    server.signal("HUP");
    eventually("the new configuration", || {
        (server.connect().get("/a.txt").must("X-Version") == "2").then_some(())
    });
    // Where there are several processes, it is said when all have it.
    eventually("all have it", || {
        server.stderr().contains("reloaded").then_some(())
    });
    assert_eq!(server.connect().get("/docs/").status, 200);
    // The old connection is served, under the old or the new.
    if let Some(answer) = old
        .try_send(head("GET", "/a.txt", &[]))
        .then(|| old.try_receive("GET"))
        .flatten()
    {
        assert_eq!(answer.text(), "a");
    }
    tree.write(
        "weir.toml",
        "root = 'site'\nheader = ['X-Version: 3']\nlistin = false\n",
    );
    server.signal("HUP");
    eventually("the complaint", || {
        server.stderr().contains("did you mean `listing`").then_some(())
    });
    assert!(server.stderr().contains("weir.toml:3"), "{}", server.stderr());
    assert_eq!(
        server.connect().get("/a.txt").must("X-Version"),
        "2",
        "the old one is kept"
    );
    // Worker processes reload one after the other; the log says when all have.
    let is_reload = |line: &&str| line.contains("reloaded") && !line.contains("not reloaded");
    let reloads = || server.stderr().lines().filter(is_reload).count();
    let before = reloads();
    tree.write("weir.toml", "root = 'other'\n");
    server.signal("HUP");
    eventually("a reload of all", || (reloads() > before).then_some(()));
    assert_eq!(server.connect().get("/a.txt").text(), "other");
    tree.write("weir.toml", "root = 'vanished'\n");
    server.signal("HUP");
    eventually("the complaint", || {
        server.stderr().contains("vanished").then_some(())
    });
    assert_eq!(server.connect().get("/a.txt").text(), "other");
}

fn a_line_can_say_how_the_path_was(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "12345")]);
    tree.write("large.bin", noise(300_000));
    let log = tree.join("access.log");
    let mut server = Launch::new(strategy)
        .root(tree.path())
        .args(["--log-format", "json", "--log-tcp", "--access-log"])
        .args([&log])
        .start();
    let mut connection = server.connect();
    for path in ["/a.txt", "/a.txt", "/large.bin"] {
        assert_eq!(connection.get(path).status, 200);
    }
    assert_eq!(server.stop(), NO_ERROR);
    let text = std::fs::read_to_string(&log).expect("the log");
    assert_eq!(text.lines().count(), 3);
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let number = |key: &str| line[key].as_u64().unwrap_or_else(|| panic!("no {key} in {line}"));
        assert!((1..1_000_000).contains(&number("rtt_us")), "{line}");
        assert!(number("cwnd") >= 2, "{line}");
        // A busy loopback may send something twice, but not often.
        assert!(number("retransmitted") < 100, "{line}");
    }
}

#[test]
fn how_the_path_was_is_said_in_json_only() {
    let (code, err) = Launch::new(Strategy::LOOPS).args(["--log-tcp"]).fail();
    assert_eq!(code, USAGE);
    assert!(err.contains("--log-format json"), "{err}");
}

fn the_log_has_a_line_for_every_request(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "12345")]);
    for format in ["common", "combined", "json"] {
        let log = tree.join(&format!("{format}.log"));
        let mut server = Launch::new(strategy)
            .root(tree.path())
            .args(["--log-format", format, "--access-log"])
            .args([&log])
            .start();
        let fields = [
            ("Referer", "http://weir.test/from"),
            ("User-Agent", "agent \"007\" \\ x"),
        ];
        let mut connection = server.connect();
        assert_eq!(connection.request("GET", "/a.txt?q=1", &fields).status, 200);
        assert_eq!(connection.request("HEAD", "/a.txt", &fields).status, 200);
        assert_eq!(
            connection.request("GET", "/missing\"%0aline", &fields).status,
            404
        );
        connection.send("BAD REQUEST\r\n\r\n");
        assert_eq!(connection.receive("GET").status, 400);
        assert_eq!(server.stop(), NO_ERROR);
        let text = std::fs::read_to_string(&log).expect("the log");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{format}: {text}");
        if format == "json" {
            let values: Vec<Value> = lines
                .iter()
                .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
                .collect();
            let text = values[0].to_string();
            assert!(text.contains("/a.txt?q=1") && text.contains("200"), "{text}");
            continue;
        }
        assert!(lines[0].starts_with("127.0.0.1 - - ["), "{}", lines[0]);
        assert!(
            lines[0].contains("] \"GET /a.txt?q=1 HTTP/1.1\" 200 5"),
            "{}",
            lines[0]
        );
        assert!(lines[1].contains("\"HEAD /a.txt HTTP/1.1\" 200 "), "{}", lines[1]);
        assert!(lines[2].contains(" 404 "), "{}", lines[2]);
        assert!(
            !lines[2].contains("missing\"%"),
            "a quote of the client's is escaped: {}",
            lines[2]
        );
        assert!(lines[3].contains(" 400 "), "{}", lines[3]);
        let quotes = lines[0]
            .replace("\\\\", "")
            .replace("\\\"", "")
            .matches('"')
            .count();
        assert_eq!(quotes, if format == "common" { 2 } else { 6 }, "{}", lines[0]);
        assert_eq!(
            lines[0].contains("http://weir.test/from"),
            format == "combined",
            "{}",
            lines[0]
        );
    }
}

fn no_line_is_lost_when_it_stops(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a")]);
    let log = tree.join("access.log");
    let mut server = Launch::new(strategy)
        .root(tree.path())
        .args(["--access-log".as_ref(), log.as_os_str()])
        .start();
    let address = server.address;
    let clients: Vec<_> = (0..4)
        .map(|client| {
            std::thread::spawn(move || {
                let mut connection = Connection::open(address);
                for request in 0..250 {
                    assert_eq!(connection.get(&format!("/a.txt?{client}-{request}")).text(), "a");
                }
            })
        })
        .collect();
    for client in clients {
        client.join().expect("a client");
    }
    assert_eq!(server.stop(), NO_ERROR);
    let text = std::fs::read_to_string(&log).expect("the log");
    let mut seen: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split("/a.txt?").nth(1)?.split(' ').next())
        .collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(
        (text.lines().count(), seen.len()),
        (1000, 1000),
        "each request once"
    );
}

fn a_log_that_was_moved_is_opened_again(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a")]);
    let log = tree.join("access.log");
    let server = Launch::new(strategy)
        .root(tree.path())
        .args(["--access-log".as_ref(), log.as_os_str()])
        .start();
    assert_eq!(server.connect().get("/a.txt?before").status, 200);
    let read = |name: &str| std::fs::read_to_string(tree.join(name)).unwrap_or_default();
    eventually("the first line", || {
        read("access.log").contains("?before").then_some(())
    });
    std::fs::rename(&log, tree.join("access.log.1")).expect("a rename within the tree");
    server.signal("USR1");
    eventually("a new file", || log.exists().then_some(()));
    assert_eq!(server.connect().get("/a.txt?after").status, 200);
    eventually("a line in the new file", || {
        read("access.log").contains("?after").then_some(())
    });
    assert!(!read("access.log.1").contains("?after"));
}

fn a_log_may_go_to_standard_output(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a")]);
    let mut server = Launch::new(strategy)
        .root(tree.path())
        .args(["--access-log", "-", "--log-format", "json"])
        .start();
    assert_eq!(server.connect().get("/a.txt").status, 200);
    // A buffered line does not wait for the next, which never comes.
    eventually("the line", || server.stdout().contains("/a.txt").then_some(()));
    assert_eq!(server.stop(), NO_ERROR);
    assert_eq!(server.stdout().lines().count(), 1);
}

fn a_log_that_nobody_reads_does_not_hold_it_up(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a")]);
    let pipe = tree.join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo(1)");
    assert!(made.success());
    let launch = || {
        Launch::new(strategy)
            .root(tree.path())
            .args(["--grace", "1s", "--access-log"])
            .args([&pipe])
    };
    let (code, complaint) = launch().fail();
    assert_eq!(code, SYSTEM, "{complaint}");
    assert!(complaint.contains("nobody reads"), "{complaint}");
    // Opened for both, so that there is a reader, who does not read.
    let reader = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&pipe)
        .expect("the pipe just made");
    let mut server = launch().start();
    let mut connection = server.connect();
    let long = format!("/a.txt?{}", "x".repeat(4000));
    for _ in 0..64 {
        assert_eq!(connection.get(&long).text(), "a", "the log holds nobody up");
    }
    drop(connection);
    server.signal("TERM");
    let ended = within(ENDING, "it gives the log up", || server.has_ended());
    assert_eq!(ended.code(), Some(NO_ERROR));
    eventually("it says so", || {
        server.stderr().contains("log lines are lost").then_some(())
    });
    drop(reader);
}

/// It complains of a reload and says that it stops, to a pipe that takes nothing; what it owes it does.
fn goes_on_without_a_reader(
    strategy: Strategy,
    stderr: std::io::PipeWriter,
    gone: Option<std::io::PipeReader>,
) {
    let tree = Tree::with(&[("site/a.txt", "content"), ("weir.toml", "root = 'site'\n")]);
    let log = tree.join("access.log");
    let launch = Launch::new(strategy).stderr(stderr);
    let mut server = launch
        .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
        .args(["--access-log".as_ref(), log.as_os_str()])
        .start();
    drop(gone);
    let mut stays = server.connect();
    assert_eq!(stays.get("/a.txt").text(), "content");
    tree.replace("weir.toml", "no configuration");
    for _ in 0..3 {
        server.signal("HUP");
        assert_eq!(stays.get("/a.txt").text(), "content");
        assert_eq!(server.connect().get("/a.txt").text(), "content");
    }
    assert_eq!(server.stop(), NO_ERROR);
    let lines = std::fs::read_to_string(log).expect("a log").lines().count();
    assert_eq!(lines, 7, "a line for each request");
}

fn who_reads_its_complaints_may_go_away(strategy: Strategy) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    goes_on_without_a_reader(strategy, writer, Some(reader));
}

fn who_reads_its_complaints_may_stop_reading(strategy: Strategy) {
    let (_reader, mut writer) = std::io::pipe().expect("a pipe");
    // As much as it holds (pipe(7)).
    std::io::Write::write_all(&mut writer, &vec![b'\n'; 64 << 10]).expect("room");
    goes_on_without_a_reader(strategy, writer, None);
}

on_every_strategy!(
    who_reads_its_complaints_may_go_away,
    who_reads_its_complaints_may_stop_reading,
    the_start_says_what_was_chosen_and_why,
    a_drain_finishes_what_is_owed,
    a_drain_is_bounded,
    a_second_signal_stops_at_once,
    a_reload_takes_what_is_valid_and_keeps_the_rest,
    the_log_has_a_line_for_every_request,
    a_line_can_say_how_the_path_was,
    no_line_is_lost_when_it_stops,
    a_log_that_was_moved_is_opened_again,
    a_log_may_go_to_standard_output,
    a_log_that_nobody_reads_does_not_hold_it_up,
);
