//! The black box of `weir cache replay`: small logs whose ratios were computed by hand, every format, and
//! what is said of a log that cannot be replayed.

#![allow(
    clippy::disallowed_methods,
    reason = "a black-box test is the outside world: it writes the files it replays"
)]

mod shared;

use serde_json::Value;
use server::cache::Policy;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use units::Word as _;

/// A folder that is gone after the test.
struct Folder(PathBuf);

impl Folder {
    fn with(files: &[(&str, &str)]) -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("cache-{}-{number}", std::process::id()));
        let folder = Folder(path);
        for (name, content) in files {
            let file = folder.0.join(name);
            std::fs::create_dir_all(file.parent().expect("below the folder")).expect("a folder");
            std::fs::write(file, content).expect("a file");
        }
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn replay(folder: &Folder, args: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["cache", "replay"])
        .args(args)
        .current_dir(&folder.0)
        .env("NO_COLOR", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary cargo just built");
    // A command that does not read its input closes the pipe early.
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    child.wait_with_output().expect("its output")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The head, and the rows by capacity and name.
fn rows(output: &Output) -> (Value, Vec<Value>) {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut lines = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect::<Vec<Value>>();
    let head = lines.remove(0);
    (head, lines)
}

#[track_caller]
fn row<'v>(rows: &'v [Value], name: &str) -> &'v Value {
    rows.iter()
        .find(|row| row["name"] == name)
        .unwrap_or_else(|| panic!("no row of {name} in {rows:?}"))
}

fn common(target: &str, bytes: u64) -> String {
    format!("192.0.2.1 - - [06/Nov/1994:08:49:37 +0000] \"GET {target} HTTP/1.1\" 200 {bytes}\n")
}

/// 0 1 0 2 1 0 0 with room for two.
fn seven() -> String {
    ["/a", "/b", "/a", "/c", "/b", "/a", "/a?again"]
        .map(|target| common(target, 1_000))
        .concat()
}

#[test]
fn ratios_are_those_computed_by_hand() {
    let folder = Folder::with(&[("access.log", &seven())]);
    let output = replay(&folder, &["access.log", "--size", "2000", "--json"], "");
    let (head, rows) = rows(&output);
    assert_eq!((&head["requests"], &head["files"]), (&7.into(), &3.into()));
    assert_eq!(
        (&head["requested-bytes"], &head["file-bytes"]),
        (&7_000.into(), &3_000.into())
    );
    // a m, b m, a hit, c m (out: b), b m (out: a), a m (out: c), a hit.
    let lru = row(&rows, "lru");
    assert_eq!(
        (&lru["hits"], &lru["loads"], &lru["evictions"]),
        (&2.into(), &5.into(), &3.into())
    );
    assert_eq!(lru["hit-ratio"], 2.0 / 7.0);
    assert_eq!(lru["byte-hit-ratio"], 2.0 / 7.0);
    // Without references the two that anticipate are lru.
    for name in ["hinted", "structured"] {
        assert_eq!(row(&rows, name)["hits"], 2);
    }
    // Waits of a: 2, 3 and 1 steps, of b: 3; in 2,000 bytes and six steps all four fit, at 9,000 of 12,000.
    assert_eq!(row(&rows, "space-time")["hits"], 4.0);
    assert_eq!(row(&rows, "infinite")["hits"], 4.0);
    // Every policy, and the two bounds above.
    assert_eq!(rows.len(), Policy::ALL.len() + 2);

    let output = replay(
        &folder,
        &["access.log", "--size", "1", "--unit", "--policy", "lru", "--json"],
        "",
    );
    let (_, rows) = self::rows(&output);
    // Room for one: only the last two are the same. Knowing what comes, too: a (kept), b, a hit, c, b, a hit, a hit.
    assert_eq!(row(&rows, "lru")["hits"], 1);
    assert_eq!(row(&rows, "min")["hits"], 3.0);
    assert_eq!(row(&rows, "min")["loads"], 4);
}

#[test]
fn every_format_says_the_same() {
    let combined: String = seven()
        .lines()
        .map(|line| format!("{line} \"-\" \"curl/8\"\n"))
        .collect();
    let json: String = ["/a", "/b", "/a", "/c", "/b", "/a", "/a?again"]
        .iter()
        .map(|target| {
            format!(
                "{{\"time\":\"1994-11-06T08:49:37Z\",\"peer\":\"::1\",\"method\":\"GET\",\"target\":\"{target}\",\
                 \"version\":\"HTTP/1.1\",\"status\":200,\"bytes\":1100,\"body_bytes\":1000,\"duration_us\":9}}\n"
            )
        })
        .collect();
    let folder = Folder::with(&[]);
    std::fs::create_dir_all(&folder.0).expect("a folder");
    let csv = |log: &str| {
        let output = replay(&folder, &["-", "--size", "50%,2000", "--csv"], log);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let one = csv(&seven());
    assert_eq!(one, csv(&combined));
    assert_eq!(one, csv(&json));
    assert!(
        one.starts_with("capacity,kind,name,requests,hits,hit_ratio,"),
        "{one}"
    );
    assert!(
        one.contains("\n2000,policy,lru,7,2,0.285714,0.285714,5,0,5000,3\n"),
        "{one}"
    );
    assert!(one.contains("\n,bound,infinite,7,4,"), "{one}");
}

#[test]
fn pages_bring_their_parts_by_referrer_and_by_the_files() {
    let line = |target: &str, bytes: usize, referer: &str| {
        format!(
            "a - - [06/Nov/1994:08:49:37 +0000] \"GET {target} HTTP/1.1\" 200 {bytes} \"{referer}\" \"-\"\n"
        )
    };
    // Two pages with a picture each, one after the other, twice; room for one page and its picture.
    let visit =
        |page: &str| line(page, 40, "-") + &line(&format!("{page}.png"), 40, &format!("http://x{page}"));
    let log = [
        visit("/a.html"),
        visit("/b.html"),
        visit("/a.html"),
        visit("/b.html"),
    ]
    .concat();
    let page = |name: &str| format!("{:<40}", format!("<img src={name}.html.png>"));
    let picture = "x".repeat(40);
    let folder = Folder::with(&[
        ("access.log", &log),
        ("site/a.html", &page("a")),
        ("site/b.html", &page("b")),
        ("site/a.html.png", &picture),
        ("site/b.html.png", &picture),
    ]);
    for root in [&[][..], &["--root", "site"]] {
        let args = [&["access.log", "--size", "80", "--json"], root].concat();
        let (head, rows) = rows(&replay(&folder, &args, ""));
        assert_eq!(
            (&head["references"]["pages"], &head["references"]["parts"]),
            (&2.into(), &2.into())
        );
        let from = if root.is_empty() { "referer" } else { "root" };
        assert_eq!(head["references"]["from"], from);
        assert_eq!(row(&rows, "lru")["hits"], 0);
        let hinted = row(&rows, "hinted");
        assert_eq!(
            (&hinted["hits"], &hinted["loads"], &hinted["ahead"]),
            (&4.into(), &8.into(), &4.into())
        );
    }
}

#[test]
fn people_read_a_table() {
    let log = seven() + "nonsense\n" + &common("/a", 1).replace("GET", "POST");
    let folder = Folder::with(&[("access.log", &log)]);
    let output = replay(&folder, &["access.log"], "");
    let table = text(&output.stdout);
    for wanted in [
        "7 of 9 lines replayed: requests for 3 files of 2.9 KiB in total",
        "skipped: 1 not understood, 1 not GET",
        "first not understood: access.log, line 8, column 9: expected an RFC 1413 identity",
        "references: none known",
        "s3-fifo",
        "structured",
        "space-time",
        "infinite",
    ] {
        assert!(table.contains(wanted), "{wanted} is not in\n{table}");
    }
}

#[test]
fn what_cannot_be_replayed_is_named() {
    let folder = Folder::with(&[
        ("access.log", &seven()),
        ("empty.log", ""),
        ("other.log", "<xml/>\n"),
        (
            "hosts.log",
            "a:80 192.0.2.1 - - [06/Nov/1994:08:49:37 +0000] \"GET / HTTP/1.1\" 200 1\n\
             b:80 192.0.2.1 - - [06/Nov/1994:08:49:37 +0000] \"GET / HTTP/1.1\" 200 1\n",
        ),
    ]);
    for (args, code, wanted) in [
        (&["none.log"][..], 2, "cannot read the log `none.log`"),
        (&["empty.log"], 2, "`empty.log`: no lines"),
        (&["other.log"], 2, "other.log, line 1, column 7"),
        (
            &["hosts.log"],
            2,
            "line 2: lines belong to several virtual hosts, such as a:80 and b:80",
        ),
        (&["/dev/zero"], 2, "has no end"),
        (
            &["access.log", "--root", "none"],
            2,
            "cannot read the folder `none`",
        ),
        (&["access.log", "--unit", "--size", "64KiB"], 2, "--size 100"),
        (&["access.log", "--size", "x"], 2, "`x` is not a size"),
        (
            &["access.log", "--policy", "no-such-policy"],
            2,
            "valid are `lru`, `lfu`, `s3-fifo`, `hinted`, `structured`",
        ),
        (&["access.log", "--csv", "--json"], 2, "cannot be used with"),
        (&["."], 2, "cannot read the log `.`"),
    ] {
        let output = replay(&folder, args, "");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(wanted), "{args:?}: {wanted} is not in {said}");
    }
}
