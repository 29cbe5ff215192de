//! Access logs of hosts: which lines go where, in which format, and that reload, rotation and bounds apply to each.

use crate::serve::on_every_strategy;
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::tree::Tree;
use std::process::Command;

const CONFIG: &str = r#"
root = "site"
access-log = "logs/all.log"
log-format = "common"

[[host]]
names = ["one.test", "*.one.test"]
access-log = "logs/one.log"

[[host]]
names = ["two.test"]
access-log = "logs/two.log"
log-format = "json"

[[host]]
names = ["three.test"]
access-log = "logs/one.log"
log-template = "$host $path $status $body_bytes"

[[host]]
names = ["quiet.test"]
access-log = false

[[host]]
names = ["four.test"]
"#;

fn tree(config: &str) -> Tree {
    Tree::with(&[
        ("site/a.txt", "12345"),
        ("site/b.txt", "1234567890"),
        ("logs/keep", ""),
        ("weir.toml", config),
    ])
}

fn launch(strategy: Strategy, tree: &Tree) -> Server {
    Launch::new(strategy)
        .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
        .start()
}

fn request(host: &str, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")
}

fn ask(server: &Server, host: &str, path: &str) {
    let mut connection = server.connect();
    connection.send(request(host, path));
    assert_eq!(connection.receive("GET").status, 200, "{host} {path}");
}

fn read(tree: &Tree, name: &str) -> String {
    std::fs::read_to_string(tree.join(name)).unwrap_or_default()
}

fn a_host_has_a_log_of_its_own(strategy: Strategy) {
    let tree = tree(CONFIG);
    let mut server = launch(strategy, &tree);
    let asked = [
        ("localhost", "/a.txt"),
        ("one.test", "/b.txt"),
        ("quiet.test", "/b.txt"),
        ("sub.ONE.test:8080", "/a.txt"),
        ("two.test", "/b.txt"),
        ("three.test", "/a.txt"),
        ("four.test", "/b.txt"),
        ("unknown.test", "/a.txt"),
    ];
    // One after the other, twice, because heads that were met before are answered in another way; then all at once, in
    // which case several responses share a send.
    let mut connection = server.connect();
    for (host, path) in asked.iter().chain(&asked) {
        connection.send(request(host, path));
        assert_eq!(connection.receive("GET").status, 200);
    }
    let all: Vec<String> = asked.iter().map(|(host, path)| request(host, path)).collect();
    connection.send(all.concat());
    for _ in asked {
        assert_eq!(connection.receive("GET").status, 200);
    }
    assert_eq!(server.stop(), 0);
    let numbers = |name: &str, of: &dyn Fn(&str) -> String| {
        let mut found: Vec<String> = read(&tree, name).lines().map(of).collect();
        found.sort();
        found
    };
    let times = |what: &[&str]| {
        let mut all: Vec<String> = what.iter().flat_map(|one| vec![(*one).to_owned(); 3]).collect();
        all.sort();
        all
    };
    let clf = |line: &str| {
        assert!(line.starts_with("127.0.0.1 - - ["), "{line}");
        line.split_once("] ").expect("a time").1.to_owned()
    };
    let small = "\"GET /a.txt HTTP/1.1\" 200 5";
    let large = "\"GET /b.txt HTTP/1.1\" 200 10";
    assert_eq!(numbers("logs/all.log", &clf), times(&[small, small, large]));
    let mixed = |line: &str| match line.starts_with("three.test ") {
        true => line.to_owned(),
        false => clf(line),
    };
    assert_eq!(
        numbers("logs/one.log", &mixed),
        times(&[small, large, "three.test /a.txt 200 5"])
    );
    let json = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        format!("{} {} {}", line["host"], line["target"], line["body_bytes"])
    };
    assert_eq!(
        numbers("logs/two.log", &json),
        times(&["\"two.test\" \"/b.txt\" 10"])
    );
}

fn a_reload_changes_the_logs_of_hosts(strategy: Strategy) {
    let tree = tree(CONFIG);
    let mut server = launch(strategy, &tree);
    ask(&server, "two.test", "/a.txt?before");
    eventually("the first line", || {
        read(&tree, "logs/two.log").contains("?before").then_some(())
    });
    // The second host takes the first one's place, and its log.
    let one = "access-log = \"logs/one.log\"\n\n[[host]]\nnames = [\"two.test\"]\n";
    let next = CONFIG.replace("logs/two.log", "logs/other.log").replace(
        one,
        "access-log = \"logs/two.log\"\n\n[[host]]\nnames = [\"two.test\"]\n",
    );
    assert_ne!(next, CONFIG);
    tree.replace("weir.toml", next);
    server.signal("HUP");
    eventually("the log that two.test has now", || {
        ask(&server, "two.test", "/a.txt?after");
        read(&tree, "logs/other.log").contains("?after").then_some(())
    });
    eventually("the log that one.test has now", || {
        ask(&server, "one.test", "/a.txt?moved");
        read(&tree, "logs/two.log").contains("?moved").then_some(())
    });
    assert_eq!(server.stop(), 0);
    // Another process may reload later.
    if !strategy.is_of_processes() {
        assert!(!read(&tree, "logs/one.log").contains("?moved"));
    }
}

fn all_logs_are_opened_again(strategy: Strategy) {
    let tree = tree(CONFIG);
    let server = launch(strategy, &tree);
    let logs = [("localhost", "all"), ("one.test", "one"), ("two.test", "two")];
    for (host, name) in logs {
        ask(&server, host, "/a.txt?before");
        let file = format!("logs/{name}.log");
        eventually("the first line", || {
            read(&tree, &file).contains("?before").then_some(())
        });
        std::fs::rename(tree.join(&file), tree.join(&format!("{file}.1"))).expect("a rename within the tree");
    }
    server.signal("USR1");
    for (host, name) in logs {
        let file = format!("logs/{name}.log");
        eventually("a new file", || tree.join(&file).exists().then_some(()));
        eventually("a line in the new file", || {
            ask(&server, host, "/a.txt?after");
            read(&tree, &file).contains("?after").then_some(())
        });
    }
}

#[test]
fn the_log_of_a_host_is_rotated_alone() {
    let config = format!("log-rotate-size = \"4KiB\"\nlog-compress = false\n{CONFIG}");
    let tree = tree(&config);
    let mut server = launch(Strategy::LOOPS, &tree);
    for part in 0..4 {
        let mut connection = server.connect();
        for at in 0..30 {
            let path = format!("/a.txt?{part}-{at}-{}", "x".repeat(100));
            connection.send(request("one.test", &path));
            assert_eq!(connection.receive("GET").status, 200);
        }
        // What is written at once is not divided.
        let last = format!("?{part}-29-");
        eventually("its lines", || {
            lines_of(&tree, "one.log")
                .iter()
                .any(|line| line.contains(&last))
                .then_some(())
        });
    }
    ask(&server, "localhost", "/a.txt");
    assert_eq!(server.stop(), 0);
    assert_eq!(lines_of(&tree, "one.log").len(), 120);
    assert!(files_of(&tree, "one.log").len() > 1, "nothing was rotated");
    assert_eq!(files_of(&tree, "all.log").len(), 1);
}

/// The files of a log, old ones included.
fn files_of(tree: &Tree, name: &str) -> Vec<String> {
    let all = std::fs::read_dir(tree.join("logs")).expect("the folder of the logs");
    all.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned())
        .filter(|file| file.starts_with(name))
        .collect()
}

fn lines_of(tree: &Tree, name: &str) -> Vec<String> {
    let texts = files_of(tree, name).into_iter();
    let texts = texts.map(|file| read(tree, &format!("logs/{file}")));
    texts
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// Exit code, output and errors of a check, or of an explanation.
fn weir(tree: &Tree, more: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["serve", "--config"])
        .arg(tree.join("weir.toml"))
        .args(more)
        .output()
        .expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let code = output.status.code().expect("no signal");
    (code, text(output.stdout), text(output.stderr))
}

/// This many hosts with a log each, and a log of the top level.
fn many(hosts: usize) -> String {
    let one = |at| format!("[[host]]\nnames = [\"h{at}.test\"]\naccess-log = \"logs/{at}.log\"\n");
    let hosts: Vec<String> = (0..hosts).map(one).collect();
    format!(
        "root = \"site\"\naccess-log = \"logs/all.log\"\n{}",
        hosts.concat()
    )
}

#[test]
fn the_number_of_logs_is_bounded() {
    let tree = tree(&many(63));
    let (code, _, err) = weir(&tree, &["--check"]);
    assert_eq!(code, 0, "{err}");
    tree.replace("weir.toml", many(64));
    let (code, _, err) = weir(&tree, &["--check"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("`access-log`: 65 access logs are too many"), "{err}");
    // Hosts that share a log count once.
    tree.replace("weir.toml", many(64).replace("logs/63.log", "logs/62.log"));
    let (code, _, err) = weir(&tree, &["--check"]);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn mistakes_name_their_line_and_host() {
    let tree = tree("");
    for (keys, line, fragment) in [
        (
            "log-format = 'json'",
            4,
            "`log-format`: host `one.test` has a format",
        ),
        (
            "log-template = '$host'",
            4,
            "`log-template`: host `one.test` has a format",
        ),
        ("access-log = true", 4, "or false for none"),
        ("access-log = 'lost/one.log'", 4, "there is no folder `"),
        ("access-log = 'logs'", 4, "is a directory"),
        ("access-log = 'syslog:tcp://a.test'", 4, "`access-log`: "),
    ] {
        tree.replace(
            "weir.toml",
            format!("root = 'site'\n[[host]]\nnames = ['one.test']\n{keys}\n"),
        );
        let (code, _, err) = weir(&tree, &["--check"]);
        assert_eq!(code, 2, "{keys}: {err}");
        assert!(err.contains(&format!("weir.toml:{line}: ")), "{keys}: {err}");
        assert!(err.contains(fragment), "{keys}: {err}");
    }
}

#[test]
fn an_explanation_names_the_log() {
    let tree = tree(CONFIG);
    for (host, words) in [
        ("localhost", "logs/all.log"),
        ("two.test", "logs/two.log"),
        ("four.test", "logs/all.log"),
        ("quiet.test", "no line"),
    ] {
        let url = format!("GET http://{host}/a.txt");
        let (code, out, err) = weir(&tree, &["--explain", &url]);
        assert_eq!(code, 0, "{err}");
        let line = out.lines().find(|line| line.contains("access-log"));
        let line = line.unwrap_or_else(|| panic!("no access-log in {out}"));
        assert!(line.contains(words), "{line}");
    }
}

on_every_strategy!(
    a_host_has_a_log_of_its_own,
    a_reload_changes_the_logs_of_hosts,
    all_logs_are_opened_again,
);
