//! Files and roots on a real file system, with both resolvers.
use super::*;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory of its own for one test, removed afterwards.
pub(crate) struct Temp(PathBuf);

impl Temp {
    pub(crate) fn new() -> Temp {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "runtime-fs-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Temp(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn write(&self, rel: &str, bytes: &[u8]) {
        let path = self.0.join(rel);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const FOLLOW: How = How {
    symlinks: Symlinks::FollowWithinRoot,
    wait: Wait::Block,
};
const REFUSE: How = How {
    symlinks: Symlinks::Refuse,
    wait: Wait::Block,
};

fn tree() -> Temp {
    let dir = Temp::new();
    dir.write("root/a/b.txt", b"hello");
    dir.write("root/top.txt", b"top");
    dir.write("secret.txt", b"secret");
    let at = |rel: &str| dir.path().join("root").join(rel);
    symlink("a/b.txt", at("inside")).unwrap();
    symlink("../top.txt", at("a/up")).unwrap();
    symlink("../secret.txt", at("outside")).unwrap();
    symlink("/etc/passwd", at("absolute")).unwrap();
    symlink("loop", at("loop")).unwrap();
    symlink("a", at("dirlink")).unwrap();
    symlink("/proc/self/fd/0", at("magic")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        at("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    dir
}

/// Runs every resolving test with the kernel's resolver and with the walk.
fn both(dir: &Temp) -> [Root; 2] {
    let path = dir.path().join("root");
    [Root::open(&path).unwrap(), Root::open_walking(&path)]
}

#[test]
fn paths_resolve_within_the_root_and_never_out_of_it() {
    use OpenError::*;
    let dir = tree();
    let cases: &[(&[u8], How, Result<Kind, OpenError>)] = &[
        (b"", FOLLOW, Ok(Kind::Directory)),
        (b"a", FOLLOW, Ok(Kind::Directory)),
        (b"a/", FOLLOW, Ok(Kind::Directory)),
        (b"a/b.txt", FOLLOW, Ok(Kind::File)),
        (b"a/b.txt", REFUSE, Ok(Kind::File)),
        (b"a/../top.txt", FOLLOW, Ok(Kind::File)),
        (b"a//b.txt", FOLLOW, Ok(Kind::File)),
        (b"a/./b.txt", FOLLOW, Ok(Kind::File)),
        (b"a/b.txt/", FOLLOW, Err(NotFound)),
        (b"a/b.txt/c", FOLLOW, Err(NotFound)),
        (b"none", FOLLOW, Err(NotFound)),
        (b"../secret.txt", FOLLOW, Err(OutsideRoot)),
        (b"a/../../secret.txt", FOLLOW, Err(OutsideRoot)),
        (b"/etc/passwd", FOLLOW, Err(OutsideRoot)),
        (b"inside", FOLLOW, Ok(Kind::File)),
        (b"inside", REFUSE, Err(Link)),
        (b"a/up", FOLLOW, Ok(Kind::File)),
        (b"dirlink/b.txt", FOLLOW, Ok(Kind::File)),
        (b"dirlink/b.txt", REFUSE, Err(Link)),
        (b"outside", FOLLOW, Err(OutsideRoot)),
        (b"absolute", FOLLOW, Err(OutsideRoot)),
        (b"magic", FOLLOW, Err(OutsideRoot)),
        (b"loop", FOLLOW, Err(Loop)),
        (b"loop", REFUSE, Err(Link)),
        (b"fifo", FOLLOW, Ok(Kind::Other)),
        (b"nul\0byte", FOLLOW, Err(NotFound)),
        (&[b'x'; 300], FOLLOW, Err(NotFound)),
    ];
    for root in both(&dir) {
        for (rel, how, want) in cases {
            let got = root.open_file(rel, *how).map(|f| f.meta().kind);
            assert_eq!(got, *want, "{:?} {how:?} {root:?}", String::from_utf8_lossy(rel));
            if *want != Err(Link) {
                let stat = root.stat(rel, *how).map(|m| m.kind);
                assert_eq!(stat, *want, "stat {:?}", String::from_utf8_lossy(rel));
            }
        }
    }
}

/// A non-blocking writer to a FIFO can tell whether any process has it open for reading.
#[test]
fn a_fifo_is_looked_at_and_never_opened() {
    let dir = tree();
    let fifo = dir.path().join("root/fifo");
    for root in both(&dir) {
        let file = root.open_file(b"fifo", FOLLOW).unwrap();
        assert_eq!(file.meta().kind, Kind::Other);
        let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
        let written = rustix::fs::open(&fifo, flags, rustix::fs::Mode::empty());
        assert_eq!(written.map(drop), Err(rustix::io::Errno::NXIO), "nobody reads it");
    }
}

#[test]
fn an_unreadable_file_is_forbidden_unless_one_is_root() {
    let dir = tree();
    let path = dir.path().join("root/top.txt");
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    for root in both(&dir) {
        match root.open_file(b"top.txt", FOLLOW) {
            Err(e) => assert_eq!(e, OpenError::Forbidden),
            Ok(_) => assert!(rustix::process::geteuid().is_root()),
        }
    }
}

#[test]
fn a_cached_path_opens_without_waiting() {
    let dir = tree();
    let root = Root::open(dir.path().join("root")).unwrap();
    let cached = How {
        wait: Wait::Cached,
        ..FOLLOW
    };
    // The first lookup puts the names in memory. Whether the second finds them depends on a kernel with RESOLVE_CACHED;
    // otherwise the result is WouldBlock.
    root.open_file(b"a/b.txt", FOLLOW).unwrap();
    match root.open_file(b"a/b.txt", cached) {
        Ok(file) => assert_eq!(file.meta().len, 5),
        Err(e) => assert_eq!(e, OpenError::WouldBlock),
    }
    let walking = Root::open_walking(&dir.path().join("root"));
    assert_eq!(
        walking.open_file(b"a/b.txt", cached).unwrap_err(),
        OpenError::WouldBlock
    );
}

#[test]
fn reading_stops_at_the_end_and_needs_no_disk_once_warm() {
    let dir = Temp::new();
    let bytes: Vec<u8> = (0..300_000u32).map(|i| i as u8).collect();
    dir.write("f", &bytes);
    let root = Root::open(dir.path()).unwrap();
    let file = root.open_file(b"f", FOLLOW).unwrap();
    assert_eq!(file.read_all(0, 400_000, Wait::Block).unwrap(), bytes);
    assert_eq!(
        file.read_all(299_990, 10, Wait::Block).unwrap(),
        &bytes[299_990..]
    );
    file.warm(0, u64::MAX >> 1).unwrap();
    assert!(file.is_resident(0, 300_000));
    assert!(file.is_resident(4095, 2));
    assert!(
        file.is_resident(300_000, 10),
        "nothing there is nothing to wait for"
    );
    match file.read_all(0, 300_000, Wait::Cached) {
        Ok(got) => assert_eq!(got, bytes),
        Err(e) => assert_eq!(e, ReadError::WouldBlock, "a file system without RWF_NOWAIT"),
    }
}

#[test]
fn a_forgotten_file_is_not_resident_until_warmed() {
    let dir = Temp::new();
    dir.write("f", &vec![7; 1 << 20]);
    let root = Root::open(dir.path()).unwrap();
    let file = root.open_file(b"f", FOLLOW).unwrap();
    rustix::fs::fsync(&file).unwrap();
    // Eviction skips a page that the kernel is about to map; only the first page matters here.
    let is_forgotten = (0..100).any(|_| {
        file.cool();
        !file.is_resident(0, 1)
    });
    if !is_forgotten {
        return; // A file system in memory evicts nothing.
    }
    // The kernel begins to read what a look has missed, and may be done before the next one.
    let would_block = (0..100).any(|_| {
        file.cool();
        match file.read_all(0, 1 << 20, Wait::Cached) {
            Ok(bytes) => {
                assert_eq!(bytes, vec![7; 1 << 20]);
                false
            }
            Err(error) => {
                assert_eq!(error, ReadError::WouldBlock);
                true
            }
        }
    });
    assert!(would_block);
    // A machine that is short of memory may take it back at once.
    let is_warm = (0..100).any(|_| {
        file.warm(0, 1 << 20).unwrap();
        file.is_resident(0, 1 << 20)
    });
    assert!(is_warm);
}

#[test]
fn listing_is_sorted_bounded_and_follows_only_what_it_may() {
    let dir = tree();
    for root in both(&dir) {
        let names = |symlinks, limit| {
            let listing = root.list(b"", symlinks, limit).unwrap();
            let names: Vec<String> = listing
                .entries
                .iter()
                .map(|e| String::from_utf8(e.name.clone()).unwrap())
                .collect();
            (names.join(" "), listing.truncated)
        };
        assert_eq!(names(Symlinks::Refuse, 100), ("a fifo top.txt".into(), false));
        assert_eq!(
            names(Symlinks::FollowWithinRoot, 100),
            ("a dirlink fifo inside top.txt".into(), false)
        );
        assert!(names(Symlinks::Refuse, 2).1);
        assert_eq!(
            root.list(b"top.txt", Symlinks::Refuse, 9),
            Err(OpenError::NotFound)
        );
        let listing = root.list(b"a", Symlinks::Refuse, 9).unwrap();
        assert_eq!((listing.entries[0].kind, listing.entries[0].len), (Kind::File, 5));
    }
}

#[test]
fn a_replaced_root_is_noticed_on_refresh() {
    let dir = Temp::new();
    dir.write("one/f", b"1");
    dir.write("two/f", b"22");
    symlink("one", dir.path().join("current")).unwrap();
    let root = Root::open(dir.path().join("current")).unwrap();
    assert_eq!(root.refresh(), Refreshed::Same);
    symlink("two", dir.path().join("next")).unwrap();
    std::fs::rename(dir.path().join("next"), dir.path().join("current")).unwrap();
    assert_eq!(
        root.open_file(b"f", FOLLOW).unwrap().meta().len,
        1,
        "the old tree until told to look"
    );
    assert_eq!(root.refresh(), Refreshed::Moved);
    assert_eq!(root.open_file(b"f", FOLLOW).unwrap().meta().len, 2);
    std::fs::remove_file(dir.path().join("current")).unwrap();
    let missing = Refreshed::Unreachable(libc::ENOENT);
    assert_eq!(root.refresh(), missing, "a missing path keeps the last tree");
    assert_eq!(root.confirm(), Err(OpenError::NotFound));
    assert_eq!(root.open_file(b"f", FOLLOW).unwrap().meta().len, 2);
}

/// A root with `~a` (a directory), `~b` (a link to it), `~c` (nothing) and no other graft.
fn grafted(dir: &Temp) -> [Root; 2] {
    for home in ["a", "b", "c"] {
        std::fs::create_dir_all(dir.path().join("home").join(home)).unwrap();
    }
    dir.write("home/a/web/f.txt", b"a's");
    dir.write("home/a/mail.txt", b"secret");
    dir.write("root/~a/f.txt", b"shadowed");
    dir.write("root/web/f.txt", b"the root's own");
    symlink("../a/web", dir.path().join("home/b/web")).unwrap();
    symlink("../mail.txt", dir.path().join("home/a/web/out")).unwrap();
    symlink("f.txt", dir.path().join("home/a/web/in")).unwrap();
    let home = dir.path().join("home");
    let root = dir.path().join("root");
    [Root::open(&root).unwrap(), Root::open_walking(&root)].map(|root| {
        let home = home.clone();
        root.with_grafts(Grafts::new(b'~', move |name| Graft {
            base: home.join(str::from_utf8(&name[1..]).unwrap()),
            below: b"web".to_vec(),
            exists: name != b"~x",
        }))
    })
}

#[test]
fn a_grafted_name_leads_to_its_directory_and_no_further() {
    let dir = Temp::new();
    for root in grafted(&dir) {
        let read = |rel: &str, how| {
            let file = root.open_file(rel.as_bytes(), how)?;
            Ok::<_, OpenError>(file.read_all(0, 64, Wait::Block).unwrap())
        };
        assert_eq!(read("~a/f.txt", REFUSE).unwrap(), b"a's");
        assert_eq!(read("~a/in", FOLLOW).unwrap(), b"a's");
        assert_eq!(read("web/f.txt", FOLLOW).unwrap(), b"the root's own");
        for (rel, error) in [
            ("~a/out", OpenError::OutsideRoot),
            ("~a/../mail.txt", OpenError::OutsideRoot),
            ("~a/none", OpenError::NotFound),
            // Links to it, nothing there, no such home.
            ("~b/f.txt", OpenError::NotFound),
            ("~c/f.txt", OpenError::NotFound),
            ("~none/f.txt", OpenError::NotFound),
            ("~", OpenError::NotFound),
        ] {
            assert_eq!(read(rel, FOLLOW).unwrap_err(), error, "{rel}");
        }
        let names = root.list(b"", Symlinks::Refuse, 10).unwrap().entries;
        assert_eq!(names.len(), 1, "what cannot be reached is not listed: {names:?}");
        let listed = root.list(b"~a", Symlinks::FollowWithinRoot, 10).unwrap().entries;
        assert_eq!(listed.len(), 2, "{listed:?}");
        let cached = How {
            wait: Wait::Cached,
            ..REFUSE
        };
        for rel in ["~a/f.txt", "~none/f.txt"] {
            assert_eq!(
                root.stat(rel.as_bytes(), cached),
                Err(OpenError::WouldBlock),
                "{rel}"
            );
        }
    }
}

#[test]
fn a_grafted_directory_is_known_by_what_it_is() {
    let dir = Temp::new();
    let [root, _] = grafted(&dir);
    let before = root.stat(b"~a", REFUSE).unwrap();
    dir.write("home/a/web/g.txt", b"more");
    assert_eq!(root.stat(b"~a", REFUSE).unwrap(), before);
    std::fs::rename(dir.path().join("home/a"), dir.path().join("home/old")).unwrap();
    assert_eq!(root.stat(b"~a", REFUSE), Err(OpenError::NotFound));
    dir.write("home/a/web/f.txt", b"another");
    assert_ne!(root.stat(b"~a", REFUSE).unwrap(), before);
    assert_eq!(
        (root.graft_of(b"~a/b/c"), root.graft_of(b"a/~b")),
        (Some(&b"~a"[..]), None)
    );
}

mod links;
