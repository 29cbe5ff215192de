//! The cache of the proxy on a disk: across restarts and crashes, with few rights, and on a disk that is full.

use crate::serve::process::{Launch, Server, Strategy, eventually, signal};
use crate::serve::proxy::{Upstream, request};
use crate::serve::proxy_h2_upstream;
use crate::serve::tree::Tree;
use crate::serve::wire::head;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// Content of each response: large enough that a crash finds files half-written.
const LENGTH: usize = 200_000;

/// An upstream that numbers its responses.
fn numbered() -> Upstream {
    let count = AtomicU64::new(0);
    Upstream::new(move |stream| {
        let got = request(stream);
        let number = count.fetch_add(1, Ordering::Relaxed) + 1;
        let digits = number.to_string();
        let content = "0".repeat(LENGTH - digits.len()) + &digits;
        let head = format!(
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {LENGTH}\r\nCache-Control: max-age=6000\r\n\r\n"
        );
        let _ = stream.write_all((head + &content).as_bytes());
        got
    })
}

/// A configuration with a cache in this folder.
fn configured(tree: &Tree, upstream: &Upstream, folder: &Path) -> PathBuf {
    tree.write("site/a.txt", "a file");
    let (site, folder, url) = (tree.join("site"), folder.display(), &upstream.url);
    let text = format!(
        "root = \"{}\"\nlive = \"local\"\n[[proxy]]\npath = \"/api/*\"\nupstreams = [\"{url}\"]\n[proxy.cache]\n\
         disk = \"{folder}\"\ndisk-size = \"64MiB\"\n",
        site.display()
    );
    tree.write("weir.toml", text)
}

fn launch(config: &Path) -> Launch {
    Launch::new(Strategy::LOOPS).args(["--config".as_ref(), config.as_os_str()])
}

/// The server when it has read the folder: responses that come before are not written.
fn ready(launch: Launch) -> Server {
    let server = launch.start();
    eventually("the folder has been read", || {
        server.stderr().contains("stored responses, ").then_some(())
    });
    server
}

fn number(server: &Server, path: &str) -> (u64, String) {
    let got = server.connect().get(path);
    assert_eq!((got.status, got.text().len()), (200, LENGTH), "{path}");
    let number = got.text().trim_start_matches('0').parse().expect("a number");
    (number, got.must("cache-status").to_owned())
}

/// The value of a metric of the cache.
fn metric(server: &Server, name: &str) -> u64 {
    let text = server.connect().get("/.weir/metrics").text();
    let begin = format!("weir_proxy_cache_{name}{{");
    let line = text
        .lines()
        .find(|line| line.starts_with(&begin))
        .expect("a metric");
    let value = line.rsplit(' ').next().unwrap_or_default();
    value.parse().expect("a number")
}

fn wait_for(server: &Server, name: &str, least: u64) {
    eventually(name, || (metric(server, name) >= least).then_some(()));
}

fn found(server: &Server, least: u64) {
    wait_for(server, "disk_entries", least);
}

#[test]
fn stored_responses_survive_a_restart() {
    let tree = Tree::new();
    let upstream = numbered();
    let folder = tree.join("cache");
    let config = configured(&tree, &upstream, &folder);
    let mut server = ready(launch(&config));
    assert_eq!(number(&server, "/api/a").0, 1);
    assert_eq!(number(&server, "/api/b").0, 2);
    wait_for(&server, "disk_writes_total", 2);
    assert_eq!(server.stop(), 0);
    let server = ready(launch(&config));
    found(&server, 2);
    let (first, status) = number(&server, "/api/a");
    assert!(
        first == 1 && status.starts_with("weir; hit; ttl="),
        "{first} {status}"
    );
    assert!(status.ends_with("; detail=disk"), "{status}");
    let (again, status) = number(&server, "/api/a");
    assert!(again == 1 && !status.contains("detail"), "{status}");
    assert_eq!(metric(&server, "disk_hits_total"), 1);
    // Another server on the same folder works without it.
    let other = launch(&config).start();
    assert_eq!(number(&other, "/api/a").0, 3);
    eventually("a complaint", || {
        let text = other.stderr();
        text.contains("another cache or process uses it").then_some(())
    });
}

/// A response from memory, from the disk, and one that was validated without a client have the version in which the upstream
/// sent it.
#[test]
fn a_stored_response_keeps_the_version_of_its_upstream() {
    let tree = Tree::with(&[("site/a.txt", "a file")]);
    let (url, heard) = proxy_h2_upstream::upstream();
    let text = format!(
        "root = \"{}\"\nlive = \"local\"\n[[proxy]]\npath = \"/api/*\"\nupstreams = [\"{url}\"]\n[proxy.cache]\ndisk = \"{}\"\n",
        tree.join("site").display(),
        tree.join("cache").display()
    );
    let config = tree.write("weir.toml", text);
    let ask = |server: &Server, path: &str| {
        let got = server.connect().get(path);
        assert_eq!(
            (got.status, got.text().as_str(), got.must("Via")),
            (200, path, "2.0 weir")
        );
        got.must("Cache-Status").to_owned()
    };
    let mut server = ready(launch(&config));
    for path in ["/api/fresh", "/api/stale"] {
        let status = ask(&server, path);
        assert!(
            status.contains("fwd=uri-miss") && status.contains("stored"),
            "{status}"
        );
        let status = ask(&server, path);
        assert!(status.starts_with("weir; hit"), "{status}");
    }
    // The stale one was asked for again, and stored anew.
    wait_for(&server, "stored_total", 3);
    assert_eq!(heard.all().len(), 3);
    let status = ask(&server, "/api/stale");
    assert!(status.starts_with("weir; hit"), "{status}");
    wait_for(&server, "disk_writes_total", 2);
    assert_eq!(server.stop(), 0);
    let server = ready(launch(&config));
    found(&server, 2);
    let status = ask(&server, "/api/fresh");
    assert!(
        status.starts_with("weir; hit") && status.ends_with("; detail=disk"),
        "{status}"
    );
}

#[test]
fn a_crash_leaves_nothing_that_is_not_whole() {
    let tree = Tree::new();
    let upstream = numbered();
    let folder = tree.join("cache");
    let config = configured(&tree, &upstream, &folder);
    let mut next = 0;
    for _ in 0..4 {
        let mut server = ready(launch(&config));
        for _ in 0..30 {
            number(&server, &format!("/api/{next}"));
            next += 1;
        }
        // Writes are under way.
        signal(server.pid(), "KILL");
        server.wait();
    }
    let server = ready(launch(&config));
    found(&server, 1);
    for at in 0..next {
        // What is found has the number that the upstream gave it first.
        let (number, status) = number(&server, &format!("/api/{at}"));
        assert!(
            !status.contains("hit") || number == at + 1,
            "/api/{at}: {number} {status}"
        );
    }
    let parts = std::fs::read_dir(&folder).expect("the folder").filter(|entry| {
        let path = entry.as_ref().expect("an entry").path();
        path.extension().is_some_and(|suffix| suffix == "part")
    });
    assert!(parts.count() <= 1, "at most the one that is being written");
}

#[test]
fn a_purge_reaches_the_disk() {
    let tree = Tree::new();
    let upstream = numbered();
    let config = configured(&tree, &upstream, &tree.join("cache"));
    let socket = tree.join("control");
    let mut server = ready(launch(&config).args([format!("--control={}", socket.display())]));
    number(&server, "/api/a");
    number(&server, "/api/b");
    wait_for(&server, "disk_writes_total", 2);
    let run = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["ctl", "--socket"])
        .arg(&socket)
        .args(["purge", "path", "/api/a"])
        .output()
        .expect("weir ctl");
    assert_eq!(
        String::from_utf8_lossy(&run.stdout),
        "done: 1 stored response is dropped\n"
    );
    // Not even a crash brings it back.
    signal(server.pid(), "KILL");
    server.wait();
    let server = ready(launch(&config));
    found(&server, 1);
    assert_eq!(number(&server, "/api/b").0, 2);
    assert_eq!(number(&server, "/api/a").0, 3);
}

/// No power failure may bring back what was purged: the removal is on the disk before the operator is told.
#[test]
fn a_purge_is_flushed_to_the_disk() {
    let tree = Tree::new();
    let upstream = numbered();
    let folder = tree.join("cache");
    let config = configured(&tree, &upstream, &folder);
    let (socket, calls) = (tree.join("control"), tree.join("calls"));
    // The traced process keeps its number, and takes strace with it when it ends.
    let strace = format!("strace -D -f -qq -y -e trace=fsync -o {}", calls.display());
    let tried = Command::new("sh")
        .args(["-c", &format!("{strace} true")])
        .output();
    if !tried.as_ref().is_ok_and(|output| output.status.success()) {
        println!("skipped: strace(1) is not there or may not trace: {tried:?}");
        return;
    }
    let before = format!("exec {strace} \"$0\" \"$@\"; false");
    let server = ready(
        Launch::wrapped(Strategy::LOOPS, &before)
            .args(["--config".as_ref(), config.as_os_str()])
            .args([format!("--control={}", socket.display())]),
    );
    number(&server, "/api/a");
    wait_for(&server, "disk_writes_total", 1);
    let flushes = || {
        let text = std::fs::read_to_string(&calls).expect("the calls");
        let of_folder = format!("<{}>) = 0", folder.display());
        text.lines().filter(|line| line.contains(&of_folder)).count()
    };
    assert_eq!(flushes(), 0, "a response that is stored is not flushed");
    let run = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["ctl", "--socket"])
        .arg(&socket)
        .args(["purge", "all"])
        .output()
        .expect("weir ctl");
    assert_eq!(
        String::from_utf8_lossy(&run.stdout),
        "done: 1 stored response is dropped\n"
    );
    eventually("the call in the list", || (flushes() == 1).then_some(()));
}

#[test]
fn a_full_disk_costs_no_response() {
    let tree = Tree::new();
    let upstream = numbered();
    let folder = tree.join("cache");
    std::fs::create_dir(&folder).expect("a folder");
    let config = configured(&tree, &upstream, &folder);
    let mount = format!("mount -t tmpfs -o size=1m tmpfs {}", folder.display());
    let tried = Command::new("unshare")
        .args(["--mount", "sh", "-c", &mount])
        .stderr(Stdio::null())
        .status();
    if !tried.as_ref().is_ok_and(std::process::ExitStatus::success) {
        println!("skipped: no file system can be mounted here: {tried:?}");
        return;
    }
    let before = format!("exec unshare --mount sh -c '{mount} && exec \"$0\" \"$@\"' \"$0\" \"$@\"; false");
    let server =
        ready(Launch::wrapped(Strategy::LOOPS, &before).args(["--config".as_ref(), config.as_os_str()]));
    for at in 0..10 {
        number(&server, &format!("/api/{at}"));
    }
    wait_for(&server, "disk_errors_total", 1);
    // 1 MiB holds some of the responses; memory holds all.
    assert!(metric(&server, "disk_entries") < 10);
    for at in 0..10 {
        assert_eq!(number(&server, &format!("/api/{at}")).0, at + 1);
    }
    assert!(
        server.stderr().contains("free space there"),
        "{}",
        server.stderr()
    );
}

/// Reads that never end: pipes that nobody writes to, in place of files. All other requests are answered, those that
/// wait go to the upstream, and the server stops.
#[test]
fn a_disk_that_hangs_stalls_no_other_request() {
    let tree = Tree::new();
    let upstream = numbered();
    let folder = tree.join("cache");
    let config = configured(&tree, &upstream, &folder);
    // Longer than this test may take: nobody may wait for the disk that long.
    let text = std::fs::read_to_string(&config).expect("the configuration");
    let patient = text.replace("[proxy.cache]", "first-byte-timeout = \"30m\"\n[proxy.cache]");
    std::fs::write(&config, patient).expect("the configuration");
    let mut server = ready(launch(&config));
    for (path, expected) in [("/api/a", 1), ("/api/b", 2)] {
        assert_eq!(number(&server, path).0, expected);
    }
    wait_for(&server, "disk_writes_total", 2);
    assert_eq!(server.stop(), 0);
    let mut server = ready(launch(&config));
    found(&server, 2);
    let entries = std::fs::read_dir(&folder).expect("the folder");
    let files = entries.map(|entry| entry.expect("an entry").path());
    let records: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|suffix| suffix == "record"))
        .collect();
    assert_eq!(records.len(), 2, "{records:?}");
    for record in records {
        std::fs::remove_file(&record).expect("the file");
        let made = Command::new("mkfifo").arg(&record).status();
        assert!(made.expect("mkfifo").success());
    }
    let mut waiting = server.connect();
    waiting.send(head("GET", "/api/a", &[]));
    // Files, and responses that are not on the disk.
    assert_eq!(server.connect().get("/a.txt").text(), "a file");
    let (of_c, _) = number(&server, "/api/c");
    // One of the two waits for the other's read for a while.
    let (of_b, _) = number(&server, "/api/b");
    let got = waiting.receive("GET");
    assert_eq!((got.status, got.text().len()), (200, LENGTH));
    let of_a: u64 = got.text().trim_start_matches('0').parse().expect("a number");
    let mut numbers = [of_a, of_b, of_c];
    numbers.sort_unstable();
    assert_eq!(numbers, [3, 4, 5], "all came from the upstream");
    // Memory has them now.
    assert_eq!(number(&server, "/api/a").0, of_a);
    assert!(metric(&server, "disk_errors_total") >= 1);
    eventually("a complaint", || {
        let said = server.stderr();
        said.contains("the disk does not answer; check the disk")
            .then_some(())
    });
    assert_eq!(server.stop(), 0, "it does not wait for the disk");
}

#[test]
fn a_server_with_few_rights_keeps_its_folder() {
    const USER: &str = "65534:65534";
    let tree = Tree::new();
    let upstream = numbered();
    let folder = tree.join("cache");
    let config = configured(&tree, &upstream, &folder);
    let is_root =
        std::fs::metadata(tree.path()).is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0);
    let start = || match is_root {
        true => ready(launch(&config).args(["--user", USER])),
        false => ready(launch(&config)),
    };
    if !is_root {
        println!("skipped: --user: only root changes the user");
    }
    for round in 0..2 {
        let mut server = start();
        found(&server, round);
        assert_eq!(number(&server, "/api/a").0, 1);
        wait_for(&server, "disk_entries", 1);
        assert_eq!(server.stop(), 0, "{}", server.stderr());
    }
}

#[test]
fn what_cannot_be_is_refused_at_the_start() {
    let tree = Tree::new();
    let upstream = numbered();
    let config = configured(&tree, &upstream, &tree.join("cache"));
    let path = ["--config".as_ref(), config.as_os_str()];
    let (code, said) = Launch::new(Strategy::PROCESS_LOOPS).args(path).fail();
    assert!(
        code != 0 && said.contains("worker processes cannot share the folder"),
        "{said}"
    );
    let config = configured(&tree, &upstream, &tree.join("none/cache"));
    let (code, said) = launch(&config).fail();
    assert!(code != 0 && said.contains("cannot create the folder"), "{said}");
    // Two rules that ask differently.
    let text =
        std::fs::read_to_string(configured(&tree, &upstream, &tree.join("cache"))).expect("our own file");
    let second = text[text.find("[[proxy]]").expect("a rule")..].replace("/api/*\"", "/b/*\"\nstrip = true");
    let config = tree.write("weir.toml", text + &second);
    let (code, said) = launch(&config).fail();
    assert!(
        code != 0 && said.contains("for two rules that share no cache"),
        "{said}"
    );
}
