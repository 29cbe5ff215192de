//! Files that change, vanish, shrink, or are no files at all; and that nothing outside the root is
//! reachable, by any spelling or link.

use crate::serve::files::noise;
use crate::serve::on_every_strategy;
use crate::serve::process::{Launch, PATIENCE, Server, Strategy, eventually, within};
use crate::serve::tree::Tree;
use crate::serve::wire::{Connection, head};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// `O_NONBLOCK` of every architecture this is tested on.
const O_NONBLOCK: i32 = 0o4000;

/// The promise: a change on disk is visible within one second. The rest is for what else a busy machine does.
pub(crate) const VISIBLE: Duration = Duration::from_secs(10);

fn a_change_is_visible_within_a_second(strategy: Strategy) {
    let tree = Tree::with(&[
        ("a.txt", "one"),
        ("b.txt", "one"),
        ("docs/c.txt", "one"),
        ("gone.txt", "one"),
    ]);
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    for path in ["/a.txt", "/b.txt", "/docs/c.txt", "/gone.txt"] {
        assert_eq!(connection.get(path).text(), "one");
    }
    assert_eq!(connection.get("/new.txt").status, 404);
    assert_eq!(connection.get("/docs/").status, 403);
    let etag = connection.get("/a.txt").must("ETag").to_owned();

    tree.replace("a.txt", "two");
    within(VISIBLE, "a file replaced by rename", || {
        (connection.get("/a.txt").text() == "two").then_some(())
    });
    assert_ne!(connection.get("/a.txt").must("ETag"), etag);
    tree.write("b.txt", "longer than before");
    within(VISIBLE, "a file written in place", || {
        (connection.get("/b.txt").text() == "longer than before").then_some(())
    });
    tree.write("new.txt", "here");
    within(VISIBLE, "a file that was missing", || {
        (connection.get("/new.txt").text() == "here").then_some(())
    });
    std::fs::remove_file(tree.join("gone.txt")).expect("a file of the tree");
    within(VISIBLE, "a file removed", || {
        (connection.get("/gone.txt").status == 404).then_some(())
    });
    tree.write("docs/index.html", "<p>docs");
    within(VISIBLE, "an index that was missing", || {
        (connection.get("/docs/").text() == "<p>docs").then_some(())
    });
    std::fs::rename(tree.join("docs"), tree.join("papers")).expect("a rename within the tree");
    within(VISIBLE, "a folder renamed", || {
        (connection.get("/docs/c.txt").status == 404).then_some(())
    });
    within(VISIBLE, "its new name", || {
        (connection.get("/papers/c.txt").text() == "one").then_some(())
    });
    tree.write("papers/c.txt", "two");
    within(VISIBLE, "a file in a renamed folder", || {
        (connection.get("/papers/c.txt").text() == "two").then_some(())
    });
}

fn a_change_behind_a_link_is_visible_too(strategy: Strategy) {
    let tree = Tree::with(&[("v1/a.txt", "one"), ("v2/a.txt", "two")]);
    tree.link("current", "v1");
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    assert_eq!(connection.get("/current/a.txt").text(), "one");
    // How releases are switched: a new link takes the place of the old one.
    tree.link("next", "v2");
    std::fs::rename(tree.join("next"), tree.join("current")).expect("a rename within the tree");
    within(VISIBLE, "a link switched", || {
        (connection.get("/current/a.txt").text() == "two").then_some(())
    });
    tree.write("v2/a.txt", "three");
    within(VISIBLE, "a file behind a link", || {
        (connection.get("/current/a.txt").text() == "three").then_some(())
    });
}

fn a_change_through_another_name_is_visible_too(strategy: Strategy) {
    let tree = Tree::with(&[("site/a.txt", "one")]);
    std::fs::hard_link(tree.join("site/a.txt"), tree.join("outside")).expect("a second name");
    let server = Server::of(strategy, &tree.join("site"));
    let mut connection = server.connect();
    assert_eq!(connection.get("/a.txt").text(), "one");
    std::fs::write(tree.join("outside"), "two").expect("the same file");
    within(VISIBLE, "a file of two names", || {
        (connection.get("/a.txt").text() == "two").then_some(())
    });
}

fn a_file_replaced_while_being_sent_arrives_whole(strategy: Strategy) {
    let tree = Tree::new();
    let old = noise(24 << 20);
    tree.write("large.bin", &old);
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    connection.send(head("GET", "/large.bin", &[]));
    assert_eq!(connection.exactly(8), b"HTTP/1.1", "the answer has begun");
    tree.replace("large.bin", "new");
    let mut rest = connection.exactly(old.len());
    rest.extend(connection.exactly(crate::serve::wire::find(&rest, b"\r\n\r\n").expect("a head") + 4));
    assert!(rest.ends_with(&old), "the file it had opened");
    within(VISIBLE, "the new file", || {
        (connection.get("/large.bin").text() == "new").then_some(())
    });
    connection.send(head("GET", "/large.bin", &[]));
    assert_eq!(connection.receive("GET").text(), "new");
}

fn a_file_removed_while_being_sent_arrives_whole(strategy: Strategy) {
    let tree = Tree::new();
    let old = noise(24 << 20);
    let path = tree.write("large.bin", &old);
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    connection.send(head("GET", "/large.bin", &[]));
    assert_eq!(connection.exactly(8), b"HTTP/1.1", "the answer has begun");
    std::fs::remove_file(path).expect("a file of the tree");
    let mut rest = connection.exactly(old.len());
    rest.extend(connection.exactly(crate::serve::wire::find(&rest, b"\r\n\r\n").expect("a head") + 4));
    assert!(rest.ends_with(&old));
}

fn a_file_truncated_while_being_sent_ends_the_connection(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a")]);
    let path = tree.write("large.bin", noise(64 << 20));
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    connection.send(head("GET", "/large.bin", &[]));
    assert_eq!(connection.exactly(8), b"HTTP/1.1", "the answer has begun");
    std::fs::OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|file| file.set_len(1000))
        .expect("a file of the tree");
    // The promised length cannot be kept, and the client must be able to tell.
    let (rest, _) = connection.rest();
    assert!(rest.len() < 64 << 20, "{} bytes", rest.len());
    let mut connection = server.connect();
    assert_eq!(connection.get("/a.txt").text(), "a", "nobody else notices");
    within(VISIBLE, "the shorter file", || {
        (connection.get("/large.bin").body.len() == 1000).then_some(())
    });
}

fn special_files_hang_nobody(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a")]);
    let status = Command::new("mkfifo")
        .arg(tree.join("fifo"))
        .status()
        .expect("mkfifo(1)");
    assert!(status.success());
    let _listener = std::os::unix::net::UnixListener::bind(tree.join("socket")).ok();
    tree.link("null", "/dev/null");
    tree.link("circle", "circle");
    tree.link("dangling", "nowhere");
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    for path in [
        "/fifo",
        "/socket",
        "/null",
        "/circle",
        "/circle/a.txt",
        "/dangling",
    ] {
        for _ in 0..2 {
            let status = connection.get(path).status;
            // A link that never ends is as good as one that leads out.
            assert!(
                status == 404 || (path.starts_with("/circle") && status == 403),
                "{path}: {status}"
            );
        }
    }
    assert_eq!(connection.get("/a.txt").text(), "a");
}

/// Who writes to a FIFO waits for a reader, which a server is not.
fn a_writer_of_a_fifo_is_not_let_go_by_a_request(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a")]);
    let fifo = tree.join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status().expect("mkfifo(1)");
    assert!(made.success());
    let server = Server::of(strategy, tree.path());
    let mut writer = Command::new("sh")
        .args(["-c", "echo written > \"$0\""])
        .arg(&fifo)
        .stderr(Stdio::null())
        .spawn()
        .expect("sh(1)");
    let state = format!("/proc/{}/wchan", writer.id());
    eventually("the writer waits for a reader", || {
        // What the kernel calls the place; where it does not tell, the rest shows as much.
        let place = std::fs::read_to_string(&state).unwrap_or_default();
        (matches!(place.as_str(), "" | "0" | "wait_for_partner")).then_some(())
    });
    for _ in 0..3 {
        assert_eq!(server.connect().get("/fifo").status, 404);
    }
    // Had it been let go, it would have found nobody to read, and be gone.
    let mut reader = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(O_NONBLOCK)
        .open(&fifo)
        .expect("our own FIFO");
    let mut read = String::new();
    eventually("what it wrote", || {
        // Until the writer has written this is empty, or would have to wait.
        let _ = reader.read_to_string(&mut read);
        (read == "written\n").then_some(())
    });
    assert!(writer.wait().expect("our own child").success());
}

/// Holds a write lease on the file that is its argument until a line comes, and says when it is asked to give it up.
const LEASE: &str = r"
import fcntl, os, signal, sys
def asked(*_):
    print('asked', flush=True)
signal.signal(signal.SIGIO, asked)
file = os.open(sys.argv[1], os.O_WRONLY)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('leased', flush=True)
sys.stdin.readline()
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
";

/// A file server of another kind (Samba, knfsd) holds a lease on what its clients write: it is asked, and waited for.
fn a_file_under_a_write_lease_is_answered_when_it_is_given_up(strategy: Strategy) {
    let tree = Tree::with(&[("leased.txt", "leased"), ("a.txt", "a")]);
    let server = Server::of(strategy, tree.path());
    let holder = Command::new("python3")
        .args(["-c", LEASE])
        .arg(tree.join("leased.txt"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut holder) = holder else {
        println!("skipped: there is no python3");
        return;
    };
    let mut said = BufReader::new(holder.stdout.take().expect("piped"));
    let mut line = |wanted: &str| {
        let mut line = String::new();
        said.read_line(&mut line).expect("a line");
        line.trim_end() == wanted
    };
    if !line("leased") {
        let output = holder.wait_with_output().expect("our own child");
        println!(
            "skipped: no lease here: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        return;
    }
    let mut waiting = server.connect();
    waiting.send(head("GET", "/leased.txt", &[]));
    assert!(line("asked"), "the holder is asked to give it up");
    // Meanwhile others are answered, also by a single event loop.
    assert_eq!(server.connect().get("/a.txt").text(), "a");
    waiting.patience(Duration::from_millis(100));
    assert!(waiting.is_silent());
    waiting.patience(PATIENCE);
    drop(holder.stdin.take());
    let answer = waiting.receive("GET");
    assert_eq!((answer.status, answer.text().as_str()), (200, "leased"));
    assert!(holder.wait().expect("our own child").success());
}

fn unreadable_files_are_403(strategy: Strategy) {
    let tree = Tree::with(&[("locked.txt", "secret")]);
    let path = tree.join("locked.txt");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).expect("our own file");
    if std::fs::File::open(&path).is_ok() {
        println!("skipped: this user may read everything (root)");
        return;
    }
    let server = Server::of(strategy, tree.path());
    assert_eq!(server.connect().get("/locked.txt").status, 403);
}

fn no_spelling_leads_out_of_the_root(strategy: Strategy) {
    let outer = Tree::with(&[
        ("secret.txt", "TOP SECRET"),
        ("root/a.txt", "a"),
        ("root/sub/b.txt", "b"),
    ]);
    let server = Server::of(strategy, &outer.join("root"));
    for path in [
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/%2E%2E/secret.txt",
        "/.%2e/secret.txt",
        "/..%2fsecret.txt",
        "/..%2Fsecret.txt",
        "/%2e%2e%2fsecret.txt",
        "/sub/../../secret.txt",
        "/sub/%2e%2e/%2e%2e/secret.txt",
        "/sub/..%2f..%2fsecret.txt",
        "/./../secret.txt",
        "//../secret.txt",
        "/..//secret.txt",
        "/..\\secret.txt",
        "/..%5csecret.txt",
        "/%c0%ae%c0%ae/secret.txt",
        "/%252e%252e/secret.txt",
        "/..;/secret.txt",
        "/..%00/secret.txt",
        "/a.txt%00.html",
        "/%00",
        "/a.txt/../../secret.txt",
        "http://weir.test/../secret.txt",
        "http://weir.test/%2e%2e/secret.txt",
        "../secret.txt",
        "secret.txt",
    ] {
        let mut connection = server.connect();
        connection.send(head("GET", path, &[]));
        let answer = connection.receive("GET");
        assert!(!answer.text().contains("TOP SECRET"), "{path} leads out");
        assert!(matches!(answer.status, 400 | 404), "{path}: {}", answer.status);
    }
    // Dots that stay inside are resolved (RFC 3986 section 5.2.4).
    assert_eq!(server.connect().get("/sub/../a.txt").text(), "a");
}

fn links_lead_nowhere_outside(strategy: Strategy) {
    let outer = Tree::with(&[
        ("secret.txt", "TOP SECRET"),
        ("vault/secret.txt", "TOP SECRET"),
        ("root/a.txt", "a"),
        ("root/sub/b.txt", "b"),
    ]);
    outer.link("root/out.txt", "../secret.txt");
    outer.link("root/absolute.txt", outer.join("secret.txt"));
    outer.link("root/vault", "../vault");
    outer.link("root/up", "..");
    outer.link("root/sub/inside.txt", "../a.txt");
    outer.link("root/again", "sub");
    let root = outer.join("root");
    let server = Server::of(strategy, &root);
    let mut connection = server.connect();
    for path in [
        "/out.txt",
        "/absolute.txt",
        "/vault/secret.txt",
        "/up/secret.txt",
        "/up/vault/secret.txt",
        "/vault/",
        "/up/",
    ] {
        let answer = connection.get(path);
        assert_eq!(answer.status, 404, "{path}");
        assert!(!answer.text().contains("TOP SECRET"), "{path}");
    }
    assert_eq!(
        connection.get("/sub/inside.txt").text(),
        "a",
        "a link that stays inside"
    );
    assert_eq!(connection.get("/again/b.txt").text(), "b");
    let server = Launch::new(strategy)
        .root(&root)
        .args(["--symlinks=false"])
        .start();
    let mut connection = server.connect();
    for path in ["/sub/inside.txt", "/again/b.txt", "/out.txt"] {
        assert_eq!(connection.get(path).status, 404, "{path}");
    }
    assert_eq!(connection.get("/sub/b.txt").text(), "b");
}

fn absolute_links_that_stay_inside_are_followed(strategy: Strategy) {
    let outer = Tree::with(&[
        ("secret.txt", "TOP SECRET"),
        ("root-beside/secret.txt", "TOP SECRET"),
        ("root/a.txt", "a"),
        ("root/sub/b.txt", "b"),
    ]);
    let root = outer.join("root");
    let inside = |name: &str| root.join(name);
    outer.link("root/file.txt", inside("a.txt"));
    outer.link("root/folder", inside("sub"));
    outer.link("root/sub/up.txt", inside("sub/../a.txt"));
    outer.link("root/chain.txt", inside("folder/up.txt"));
    outer.link("root/out.txt", inside("../secret.txt"));
    outer.link("root/beside.txt", outer.join("root-beside/secret.txt"));
    outer.link("root/chained-out.txt", inside("out.txt"));
    let server = Server::of(strategy, &root);
    let mut connection = server.connect();
    for _ in 0..2 {
        for (path, text) in [
            ("/file.txt", "a"),
            ("/folder/b.txt", "b"),
            ("/sub/up.txt", "a"),
            ("/chain.txt", "a"),
        ] {
            assert_eq!(connection.get(path).text(), text, "{path}");
        }
        for path in ["/out.txt", "/beside.txt", "/chained-out.txt"] {
            let answer = connection.get(path);
            assert_eq!(answer.status, 404, "{path}");
            assert!(!answer.text().contains("TOP SECRET"), "{path}");
        }
    }
    outer.write("root/sub/b.txt", "changed");
    within(VISIBLE, "a file behind an absolute link", || {
        (connection.get("/folder/b.txt").text() == "changed").then_some(())
    });
    outer.link("root/next", outer.join("secret.txt"));
    std::fs::rename(inside("next"), inside("file.txt")).expect("a rename within the tree");
    within(VISIBLE, "an absolute link that leads out by now", || {
        (connection.get("/file.txt").status == 404).then_some(())
    });
    let server = Launch::new(strategy)
        .root(&root)
        .args(["--symlinks=false"])
        .start();
    assert_eq!(server.connect().get("/folder/b.txt").status, 404);
}

/// The strong tag of a file, which it has once it is on disk and was left alone for some seconds. Where the kernel does
/// not tell whether it is on disk, after a minute.
fn strong_tag(connection: &mut Connection, path: &str) -> String {
    within(Duration::from_secs(90), "a strong tag", || {
        let tag = connection.request("HEAD", path, &[]).must("ETag").to_owned();
        tag.starts_with('"').then_some(tag)
    })
}

/// Writes over the beginning of a file, which keeps its length.
fn overwrite(path: &Path, bytes: &[u8]) {
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .open(path)
        .expect("a file of the tree");
    file.write_all(bytes).expect("room on the disk");
    file.sync_all().expect("a disk");
}

/// Has the kernel write a file to disk.
fn sync(path: &Path) {
    let file = std::fs::File::open(path).expect("a file of the tree");
    file.sync_all().expect("a disk");
}

/// A tag is for one content: also of a file that changes without an event (through a name that it was given after
/// it was cached, here; a memory map is another way), and is sent from its descriptor.
fn a_strong_tag_is_never_sent_with_other_bytes(strategy: Strategy) {
    let tree = Tree::new();
    for (name, len) in [("middle.bin", 100_000), ("large.bin", 3 << 20)] {
        sync(&tree.write(&format!("site/{name}"), vec![b'1'; len]));
    }
    let server = Server::of(strategy, &tree.join("site"));
    let mut connection = server.connect();
    for (name, len) in [("middle.bin", 100_000), ("large.bin", 3 << 20)] {
        let path = format!("/{name}");
        let tag = strong_tag(&mut connection, &path);
        // Often enough that the head is met again and answered without being read.
        for _ in 0..4 {
            let answer = connection.get(&path);
            assert_eq!((answer.must("ETag"), answer.body[0]), (&*tag, b'1'));
        }
        assert_eq!(
            connection
                .request("GET", &path, &[("If-None-Match", &tag)])
                .status,
            304
        );
        let other = tree.join(&format!("other-{name}"));
        std::fs::hard_link(tree.join(&format!("site/{name}")), &other).expect("a second name");
        overwrite(&other, &vec![b'2'; len]);
        let answer = connection.get(&path);
        assert!(answer.body.iter().all(|b| *b == b'2'), "{path} is new");
        let new = answer.must("ETag").to_owned();
        assert_ne!(new.trim_start_matches("W/"), tag, "{path}");
        for condition in ["If-None-Match", "If-Range"] {
            let answer = connection.request("GET", &path, &[(condition, &tag), ("Range", "bytes=0-9")]);
            let want = if condition == "If-Range" { 200 } else { 206 };
            assert_eq!(answer.status, want, "{path} {condition}");
        }
        let tag = strong_tag(&mut connection, &path);
        assert_eq!(tag, new.trim_start_matches("W/"), "it names the same content");
    }
}

fn a_file_just_written_has_a_weak_tag_where_it_is_sent_from_disk(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a")]);
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    let tag = eventually("an answer in the second of the write", || {
        let began = std::time::Instant::now();
        tree.replace("a.txt", "small");
        tree.replace("middle.bin", noise(100_000));
        let tag = connection.get("/middle.bin").field("ETag").map(str::to_owned);
        let small = connection.get("/a.txt").must("ETag").to_owned();
        assert!(
            small.starts_with('"'),
            "what is in memory does not change: {small}"
        );
        tag.filter(|_| began.elapsed() < Duration::from_secs(1))
    });
    assert!(tag.starts_with("W/\""), "{tag}");
    let range = [("Range", "bytes=0-9"), ("If-Range", tag.as_str())];
    let answer = connection.request("GET", "/middle.bin", &range);
    assert_eq!(
        answer.status, 200,
        "a weak tag joins no parts (RFC 9110 section 13.1.5)"
    );
    let revalidated = [("If-None-Match", tag.as_str())];
    assert_eq!(connection.request("GET", "/middle.bin", &revalidated).status, 304);
    sync(&tree.join("middle.bin"));
    let strong = strong_tag(&mut connection, "/middle.bin");
    assert_eq!(format!("W/{strong}"), tag);
    let range = [("Range", "bytes=0-9"), ("If-Range", strong.as_str())];
    assert_eq!(connection.request("GET", "/middle.bin", &range).status, 206);
}

fn a_file_written_to_while_it_is_sent_is_cut_off(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a")]);
    let len = 48 << 20;
    let path = tree.write("large.bin", vec![b'1'; len]);
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    connection.send(head("GET", "/large.bin", &[]));
    assert_eq!(connection.exactly(8), b"HTTP/1.1", "the answer has begun");
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .open(path)
        .expect("a file of the tree");
    file.seek(SeekFrom::End(-1))
        .and_then(|_| file.write_all(b"2"))
        .expect("a file of the tree");
    // Old bytes before new ones: no version of the file, so the client must not take them for one.
    let (rest, _) = connection.rest();
    assert!(rest.len() < len, "{} bytes", rest.len());
    eventually("the reason", || {
        let said = server.stderr();
        let line = said.lines().find(|line| line.contains("/large.bin"))?;
        assert!(line.contains("was modified"), "{line}");
        Some(())
    });
    assert_eq!(server.connect().get("/a.txt").text(), "a", "nobody else notices");
}

on_every_strategy!(
    absolute_links_that_stay_inside_are_followed,
    a_strong_tag_is_never_sent_with_other_bytes,
    a_file_just_written_has_a_weak_tag_where_it_is_sent_from_disk,
    a_file_written_to_while_it_is_sent_is_cut_off,
    a_change_is_visible_within_a_second,
    a_change_behind_a_link_is_visible_too,
    a_change_through_another_name_is_visible_too,
    a_file_replaced_while_being_sent_arrives_whole,
    a_file_removed_while_being_sent_arrives_whole,
    a_file_truncated_while_being_sent_ends_the_connection,
    special_files_hang_nobody,
    a_writer_of_a_fifo_is_not_let_go_by_a_request,
    a_file_under_a_write_lease_is_answered_when_it_is_given_up,
    unreadable_files_are_403,
    no_spelling_leads_out_of_the_root,
    links_lead_nowhere_outside,
);
