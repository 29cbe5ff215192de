//! The black box of `weir tune`: a profile that a server starts from, what it says on another machine, what is refused.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a black-box test is the outside world: it starts programs and reads files"
)]

use crate::cli::{WEIR, text, weir};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder that is gone after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tune-{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("root/below")).expect("a folder");
        std::fs::write(path.join("root/index.html"), "<p>Home").expect("a file");
        std::fs::write(path.join("root/below/large.bin"), vec![7; 100_000]).expect("a file");
        Folder(path)
    }

    fn name(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a name").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a server with these options says when it starts, and its complaints.
fn start(args: &[&str]) -> (Value, String) {
    let mut child = Command::new(WEIR)
        .args(["--json", "serve", "--listen", "127.0.0.1:0"])
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary cargo just built");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped"))
        .read_line(&mut line)
        .expect("a line");
    let ended = Command::new("kill").arg(child.id().to_string()).status();
    assert!(ended.expect("kill").success());
    let mut said = String::new();
    child
        .stderr
        .take()
        .expect("piped")
        .read_to_string(&mut said)
        .expect("text");
    child.wait().expect("an end");
    (serde_json::from_str(&line).expect("JSON"), said)
}

/// A part of the stages, as short as can be: what wins is chance, what is written is not.
#[test]
fn the_stages_there_was_time_for_are_written_with_their_numbers_and_served_from() {
    let folder = Folder::new("whole");
    let (root, profile) = (folder.name("root"), folder.name("weir-profile.toml"));
    let output = weir(&[
        "--json",
        "tune",
        &root,
        "--clients",
        "4",
        "--budget",
        "40s",
        "--out",
        &profile,
    ]);
    let said = text(&output.stderr);
    let code = output.status.code();
    if code == Some(3) && said.contains("no stage completed") {
        // Others keep this machine busy: then nothing is left behind either.
        assert!(!Path::new(&profile).exists(), "{said}");
        eprintln!("skipped: {}", said.trim());
        return;
    }
    let lines: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let end = lines.iter().find(|line| line["event"] == "tuned");
    let end = end.unwrap_or_else(|| panic!("{said}"));
    let undecided = end["undecided"].as_array().expect("settings");
    assert_eq!(code == Some(3), said.contains("too noisy"), "{said}");
    assert!(
        code == Some(0) || code == Some(3) && !undecided.is_empty(),
        "{said}"
    );
    for one in undecided {
        assert!(one["low_pct"].as_f64() <= one["high_pct"].as_f64(), "{one}");
        assert!(one["rounds"].as_u64() >= Some(9), "{one}");
    }
    let probes: Vec<&Value> = lines.iter().filter(|line| line["event"] == "probe").collect();
    let untried: Vec<&str> = end["untried"]
        .as_array()
        .expect("stages")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    for stage in ["strategy", "workers", "sendfile threshold", "socket buffers"] {
        let of_it: Vec<&&Value> = probes
            .iter()
            .filter(|line| line["probe"]["stage"] == stage)
            .collect();
        if untried.contains(&stage) || of_it.is_empty() {
            assert!(of_it.is_empty() && stage != "strategy", "{stage}");
            continue;
        }
        let chosen: Vec<&str> = of_it
            .iter()
            .filter(|line| line["probe"]["chosen"] == true)
            .filter_map(|line| line["probe"]["setting"].as_str())
            .collect();
        assert_eq!(chosen.len(), 1, "{stage}");
        assert_eq!(of_it[0]["probe"]["setting"], "as before", "{stage}");
        let is_open = |line: &Value| {
            undecided
                .iter()
                .any(|one| one["setting"] == line["probe"]["setting"])
        };
        let wins: Vec<_> = of_it
            .iter()
            .filter(|line| is_open(line) && line["probe"]["chosen"] == true)
            .collect();
        assert!(
            wins.is_empty(),
            "{stage}: what is undecided does not win: {wins:?}"
        );
        for line in of_it {
            let rates = line["probe"]["files-per-s"].as_array().expect("rounds");
            assert!((9..=28).contains(&rates.len()), "{line}");
            assert!(
                rates.iter().all(|rate| rate.as_f64().expect("a number") > 0.0),
                "{line}"
            );
        }
    }
    let written: toml::Table = std::fs::read_to_string(&profile)
        .expect("a profile")
        .parse()
        .expect("TOML");
    assert_eq!(
        written["workload"].as_str(),
        Some(&*format!("4 clients, serial, 2 files of {root}"))
    );
    assert_eq!(written["probe"].as_array().map(Vec::len), Some(probes.len()));
    let (started, said) = start(&[&root, "--profile", &profile]);
    assert_eq!(started["profile-differs"], serde_json::json!([]), "{said}");
}

const PROFILE: &str = "version = 1\nworkload = 'none'\n[machine]\ncpu = 'Difference Engine'\ncores = 1\nkernel = '0.1'\n\
                       [serve]\nconcurrency = 'pool'\nworkers = 3\ncache-file-size = '64KiB'\nsend-buffer = '64KiB'\n";

#[test]
fn a_profile_of_another_machine_is_used_and_said_to_be() {
    let folder = Folder::new("other");
    let profile = folder.name("p.toml");
    std::fs::write(&profile, PROFILE).expect("a file");
    let root = folder.name("root");
    let (started, said) = start(&[&root, "--profile", &profile]);
    let listener = &started["listeners"][0];
    assert_eq!(
        (listener["concurrency"].as_str(), listener["workers"].as_u64()),
        (Some("pool"), Some(3))
    );
    assert_eq!(started["cache"]["file-bytes"], 65_536);
    let differs = started["profile-differs"].as_array().expect("a list");
    assert!(
        differs[0].as_str().expect("words").contains("Difference Engine"),
        "{differs:?}"
    );
    assert!(
        said.contains("another machine") && said.contains("weir tune"),
        "{said}"
    );
    // A flag beats it.
    let (started, _) = start(&[
        &root,
        "--profile",
        &profile,
        "--workers",
        "2",
        "--concurrency",
        "loops",
    ]);
    let listener = &started["listeners"][0];
    assert_eq!(
        (listener["concurrency"].as_str(), listener["workers"].as_u64()),
        (Some("loops"), Some(2))
    );
}

#[test]
fn what_cannot_be_tuned_or_read_is_named() {
    let folder = Folder::new("wrong");
    let root = folder.name("root");
    let broken = folder.name("broken.toml");
    std::fs::write(&broken, PROFILE.replace("workers = 3", "root = '/'")).expect("a file");
    std::fs::create_dir(folder.name("empty")).expect("a folder");
    let (empty, nothing) = (folder.name("empty"), folder.name("nothing"));
    for (args, part) in [
        (&["tune", "/no/such/root"][..], "/no/such/root"),
        (&["tune", &empty], "no files to request"),
        (&["tune", &root, "--log", &nothing], "cannot read the log"),
        (
            &["tune", &root, "--out", "/no/such/folder/p.toml"],
            "/no/such/folder/p.toml",
        ),
        (
            &["tune", &root, "--budget", "5s", "--out", &nothing],
            "the first stage alone",
        ),
        (&["serve", &root, "--profile", &nothing], "weir tune"),
        (&["serve", &root, "--profile", &broken], "`root`"),
    ] {
        let output = weir(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(part), "{args:?}: {said}");
        assert!(!Path::new(&nothing).exists(), "{args:?} leaves an empty file");
    }
}

#[test]
fn who_ends_it_early_finds_what_was_there_before() {
    let folder = Folder::new("ended");
    let (root, profile) = (folder.name("root"), folder.name("p.toml"));
    for (signal, before) in [("-INT", None), ("-TERM", Some(PROFILE))] {
        if let Some(text) = before {
            std::fs::write(&profile, text).expect("a file");
        }
        let mut child = Command::new(WEIR)
            .args(["tune", &root, "--clients", "2", "--out", &profile])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary cargo just built");
        // It says which stage it begins once it has tried the file.
        let mut line = String::new();
        BufReader::new(child.stderr.take().expect("piped"))
            .read_line(&mut line)
            .expect("a line");
        assert!(line.starts_with("strategy"), "{line}");
        let ended = Command::new("kill")
            .args([signal, &child.id().to_string()])
            .status();
        assert!(ended.expect("kill").success());
        child.wait().expect("an end");
        assert_eq!(
            std::fs::read_to_string(&profile).ok().as_deref(),
            before,
            "{signal}"
        );
    }
}

#[test]
fn a_file_that_is_gone_is_named_with_its_status() {
    let folder = Folder::new("gone");
    let (root, log, profile) = (
        folder.name("root"),
        folder.name("access.log"),
        folder.name("p.toml"),
    );
    let line = "192.0.2.1 - - [01/Jan/2026:00:00:00 +0000] \"GET /gone.html HTTP/1.1\" 200 5\n";
    std::fs::write(&log, line.repeat(3)).expect("a file");
    let output = weir(&["tune", &root, "--log", &log, "--clients", "2", "--out", &profile]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    for part in ["404", "root/gone.html`", "No such file"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!Path::new(&profile).exists());
}
