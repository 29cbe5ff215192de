//! That a run sends what its plan says: a server writes down every target it is asked for, connection by connection,
//! and the plan of the same arguments is held against that.

use crate::workload::{lines, printed, weir};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use tempfile::TempDir;

/// Targets in the order they were asked for, by connection.
type Asked = Arc<Mutex<Vec<Vec<String>>>>;

/// A server that answers everything with nothing, and writes down what it was asked.
fn recorder() -> (String, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let authority = listener.local_addr().expect("bound").to_string();
    let asked = Asked::default();
    let written = Arc::clone(&asked);
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let (stream, asked) = (stream.expect("a connection"), Arc::clone(&written));
            asked
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(Vec::new());
            std::thread::spawn(move || answer(stream, number, &asked));
        }
    });
    (authority, asked)
}

fn answer(stream: TcpStream, number: usize, asked: &Asked) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).is_ok_and(|read| read > 0) {
        if let Some(rest) = line.strip_prefix("GET ") {
            let target = rest.split(' ').next().unwrap_or_default().to_owned();
            asked.lock().unwrap_or_else(PoisonError::into_inner)[number].push(target);
        } else if line == "\r\n"
            && stream
                .get_mut()
                .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
                .is_err()
        {
            return;
        }
        line.clear();
    }
}

/// What the plan of these arguments asks for, and what a run of them did, by connection.
fn both(what: &[&str], run: &[&str]) -> (Vec<Value>, Vec<Vec<String>>) {
    let (authority, asked) = recorder();
    // A site may lie anywhere; paths and logs are of the root.
    let folder = if what.contains(&"--site") { "below/" } else { "" };
    let url = format!("http://{authority}/{folder}");
    let planned = lines(&printed(&[&["load", "plan", &url], what].concat()));
    // The answers are shorter than a manifest says and the run is not valid for that; what it asked for counts.
    let output = weir(&[&["load", &url, "--json", "--threads", "2"], what, run].concat());
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    let asked = asked.lock().unwrap_or_else(PoisonError::into_inner).clone();
    (planned, asked)
}

fn path(request: &Value) -> String {
    request["path"].as_str().expect("a path").to_owned()
}

/// The requests of each user's sessions, in order; each session is a connection of a serial run.
fn by_session(planned: &[Value]) -> Vec<Vec<String>> {
    let mut sessions: BTreeMap<(u64, u64), Vec<String>> = BTreeMap::new();
    for request in planned {
        let number = |name: &str| request[name].as_u64().expect("a number");
        let session = sessions.entry((number("user"), number("session"))).or_default();
        session.push(path(request));
    }
    sessions.into_values().collect()
}

/// Users who sleep ask for what they were to ask for, session by session; what the run had no time for is the end.
#[test]
fn users_and_sessions_ask_for_what_was_planned() {
    let dir = TempDir::new().expect("a folder");
    let site = dir.path().to_str().expect("text");
    let short = ["--off-time", "constant(0.05)", "--session-length", "constant(4)"];
    printed(
        &[
            &["site", "surge", site, "--files", "60", "--size-max", "50000"],
            &short[..],
        ]
        .concat(),
    );
    for who in [
        &["--users", "7", "--stagger", "0s"][..],
        &["--users", "7", "--stagger", "30ms", "--seed", "5"],
        &["--sessions", "20", "--seed", "3"],
    ] {
        let what = [&["--site", site, "--duration", "1s"], who].concat();
        let (planned, mut asked) = both(&what, &["--mode", "serial"]);
        let mut planned = by_session(&planned);
        assert!(planned.len() > 7, "{who:?}");
        asked.retain(|session| !session.is_empty());
        // A session that the end cut off may be the beginning of several: the longest choose first.
        asked.sort_by_key(|session| core::cmp::Reverse(session.len()));
        let sum = asked.iter().map(Vec::len).sum::<usize>();
        assert!(sum > 40, "{who:?}: {sum}");
        for session in &asked {
            // Each planned session is asked for once.
            let found = planned.iter().position(|planned| planned.starts_with(session));
            let found = found.unwrap_or_else(|| panic!("{who:?}: {session:?} was never planned"));
            planned.swap_remove(found);
        }
    }
}

/// Arrivals come in the order of the plan, whoever asks, and all of them.
#[test]
fn arrivals_ask_for_what_was_planned() {
    let dir = TempDir::new().expect("a folder");
    let path_of = |name: &str| dir.path().join(name).to_str().expect("text").to_owned();
    let (webstone, urls, log) = (path_of("webstone"), path_of("urls"), path_of("log"));
    printed(&["site", "webstone", &webstone]);
    fs::write(&urls, "/a\n/b\n/c\n").expect("written");
    let weighted = path_of("weighted");
    fs::write(&weighted, "/a 4\n/b\n/c 0.5\n").expect("written");
    let entry = |n: u32| {
        format!(
            "h - - [10/Oct/2000:13:55:3{} -0700] \"GET /{} HTTP/1.1\" 200 9\n",
            n / 40,
            n * 7 % 13
        )
    };
    fs::write(&log, (0..120).map(entry).collect::<String>()).expect("written");
    for what in [
        &["--site", &webstone, "--rate", "150", "--seed", "4"][..],
        &["--urls", &urls, "--rate", "120", "--arrivals", "constant"],
        &["--urls", &weighted, "--rate", "120", "--seed", "5"],
        &["--rate", "100"],
        &["--replay", &log, "--speed", "3"],
    ] {
        let what = [what, &["--duration", "1s"]].concat();
        let (planned, asked) = both(&what, &["--mode", "serial"]);
        let mut planned: Vec<String> = planned.iter().map(path).collect();
        let mut asked: Vec<String> = asked.into_iter().flatten().collect();
        assert!(planned.len() > 60, "{what:?}");
        planned.sort();
        asked.sort();
        assert_eq!(asked, planned, "{what:?}");
    }
}

/// Clients that never sleep ask for the beginning of what was planned, each on its own connection.
#[test]
fn clients_ask_for_what_was_planned() {
    let dir = TempDir::new().expect("a folder");
    let path_of = |name: &str| dir.path().join(name).to_str().expect("text").to_owned();
    let (webstone, surge, urls) = (path_of("webstone"), path_of("surge"), path_of("urls"));
    let weighted = path_of("weighted");
    fs::write(&weighted, "/a 4\n/b\n/c 0.5\n/d 2\n").expect("written");
    printed(&["site", "webstone", &webstone]);
    printed(&["site", "surge", &surge, "--files", "60", "--size-max", "50000"]);
    fs::write(&urls, "/a\n/b\n/c\n/d\n/e\n").expect("written");
    for what in [
        &["--site", &webstone][..],
        &["--site", &surge],
        &["--urls", &urls],
        &["--urls", &weighted],
    ] {
        let (authority, asked) = recorder();
        let url = format!("http://{authority}/");
        let run = [
            "--clients",
            "4",
            "--duration",
            "300ms",
            "--mode",
            "serial",
            "--json",
        ];
        weir(&[&["load", &url], what, &run[..]].concat());
        let asked = asked.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let most = asked.iter().map(Vec::len).max().unwrap_or(0);
        assert!(asked.len() >= 4 && most > 3, "{what:?}: {asked:?}");
        // Enough of a plan for the client that was fastest.
        let planned = [
            "--clients",
            "4",
            "--nominal",
            "1ms",
            "--duration",
            &format!("{most}ms"),
        ];
        let planned = lines(&printed(&[&["load", "plan", &url], what, &planned[..]].concat()));
        let mut planned = by_session(&planned);
        for client in asked.iter().filter(|client| !client.is_empty()) {
            let found = planned.iter().position(|planned| planned.starts_with(client));
            let found = found.unwrap_or_else(|| panic!("{what:?}: {client:?} was never planned"));
            planned.remove(found);
        }
    }
}

/// Weights decide how often a path is asked for, and lists that differ in their weights alone make different plans.
#[test]
fn paths_are_drawn_by_weight() {
    let dir = TempDir::new().expect("a folder");
    let urls = dir.path().join("urls").to_str().expect("text").to_owned();
    let mut plans = BTreeSet::new();
    for (list, workload, often) in [
        ("/a 9\n/b\n", "weighted", 240..=299),
        ("/a\n/b 9\n", "weighted", 1..=60),
        ("/a 1\n/b\n", "weighted", 100..=200),
        ("/a\n/b\n", "each", 150..=150),
    ] {
        fs::write(&urls, list).expect("written");
        let (authority, asked) = recorder();
        let url = format!("http://{authority}/");
        let run = [
            "load",
            &url,
            "--urls",
            &urls,
            "--rate",
            "300",
            "--arrivals",
            "constant",
            "--duration",
            "1s",
            "--accept-status",
            "204",
            "--json",
            "--lag-max",
            "60s",
            "--stall-max",
            "1h",
        ];
        let (result, _) = crate::workload::result(&run, 0);
        assert_eq!(result["workload"], workload, "{list}");
        plans.insert(result["plan"].as_str().expect("a digest").to_owned());
        let asked = asked.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let count = asked.iter().flatten().filter(|path| *path == "/a").count();
        assert!(often.contains(&count), "{list}: {count}");
    }
    assert_eq!(plans.len(), 4);
}
