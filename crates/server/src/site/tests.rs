//! The site over real files: which files are found, and how soon changes are visible.
#![allow(
    clippy::disallowed_methods,
    reason = "tests create the files they serve, and limit their wait for a change"
)]

mod mounts;

use super::*;
use crate::cache::{CacheConfig, Policy};
use crate::entry::{Answer, Content, Entry, Part, Resource};
use http_semantics::coding::Coding;
use runtime::fs::Wait;
use runtime::session::Job;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use units::Word as _;
use units::{Bytes, Duration};

/// A directory, a site over it, and one view.
pub(super) struct Fixture {
    dir: tempfile::TempDir,
    pub(super) site: Site,
    pub(super) view: View,
    now: Instant,
    /// Late enough that all files count as settled.
    wall: UnixTime,
}

impl Fixture {
    pub(super) fn new(configure: impl FnOnce(&mut SiteConfig)) -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir(&root).unwrap();
        let wall = Root::open(&root).unwrap().meta().modified.secs + 1_000;
        let mut config = SiteConfig::new(Source::Directory(root.canonicalize().unwrap()));
        config.compress = None;
        configure(&mut config);
        let (now, wall) = (Instant::from_nanos(1), UnixTime::from_secs(wall));
        let site = Site::open(config).unwrap();
        let view = site.view(now, wall);
        Fixture {
            dir,
            site,
            view,
            now,
            wall,
        }
    }

    pub(super) fn at(&self, rel: &str) -> PathBuf {
        self.dir.path().join("root").join(rel)
    }

    pub(super) fn write(&self, rel: &str, bytes: impl AsRef<[u8]>) {
        let path = self.at(rel);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &bytes).unwrap();
        if bytes.as_ref().len() > 1_000 {
            // Until a file is written back to disk, its tag is weak if it is sent from its descriptor.
            std::fs::File::open(path).unwrap().sync_all().unwrap();
        }
    }

    pub(super) fn get(&mut self, path: &str) -> Arc<Entry> {
        get(&mut self.view, path)
    }

    pub(super) fn turn(&mut self, after: Duration) {
        self.now = self.now + after;
        self.view.turn(self.now, self.wall);
    }

    /// What a client would see: the uncompressed content, or a word for other answers.
    pub(super) fn see(&mut self, path: &str) -> String {
        show(&self.get(path))
    }

    /// Waits until a client would see `want`. The promise is one second; the limit allows for a busy machine.
    #[track_caller]
    pub(super) fn becomes(&mut self, path: &str, want: &str) {
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        loop {
            let seen = self.see(path);
            if seen == want {
                return;
            }
            assert!(
                std::time::Instant::now() < deadline,
                "{path} is still {seen:?}, not {want:?}"
            );
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }

    /// Waits until the answer contains this part.
    fn see_until(&mut self, path: &str, part: &str) {
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while !self.see(path).contains(part) {
            assert!(std::time::Instant::now() < deadline, "{path} never shows {part}");
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }

    /// Whether the path is answered without a load.
    pub(super) fn is_kept(&mut self, path: &str) -> bool {
        matches!(self.view.lookup(path.as_bytes()), Lookup::Hit(_))
    }
}

fn get(view: &mut View, path: &str) -> Arc<Entry> {
    match view.lookup(path.as_bytes()) {
        Lookup::Hit(entry) => Arc::clone(entry),
        Lookup::Refused => panic!("{path} was refused"),
        Lookup::Load(load) => {
            let loaded = load.try_now().unwrap_or_else(Job::run);
            view.finish(loaded)
        }
    }
}

fn show(entry: &Entry) -> String {
    match &entry.answer {
        Answer::Resource(resource) => text(resource, Coding::Identity),
        Answer::Listing(listing) => format!("listing {}", text(&listing.json, Coding::Identity)),
        Answer::Redirect(location) => format!("-> {}", String::from_utf8_lossy(location)),
        Answer::Missing(missing) => format!("{missing:?}"),
    }
}

fn text(resource: &Resource, coding: Coding) -> String {
    let representation = resource.get(coding).expect("that coding");
    let bytes = match &representation.content {
        Content::Memory(bytes) => bytes.to_vec(),
        Content::File(file) => file
            .read_all(0, representation.len as usize, Wait::Block)
            .unwrap(),
    };
    assert_eq!(bytes.len() as u64, representation.len);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn resource(entry: &Entry) -> &Resource {
    match &entry.answer {
        Answer::Resource(resource) => resource,
        other => panic!("{other:?} is no resource"),
    }
}

#[test]
fn paths_find_files_indexes_and_redirects() {
    let mut f = Fixture::new(|c| c.index.push("default.htm".to_owned()));
    f.write("index.html", "home");
    f.write("a b/ü.txt", "umlaut");
    f.write("old/default.htm", "second index");
    f.write("bare/file", "x");
    f.write("index/index.html/not-a-file", "x");
    f.write(".hidden", "x");
    f.write(".well-known/security.txt", "contact");
    for (path, want) in [
        ("/", "home"),
        ("/index.html", "home"),
        ("/a%20b/%c3%bc.txt", "umlaut"),
        ("//a%20b/./x/..//%c3%bc.txt", "umlaut"),
        ("/a%20b", "-> /a%20b/"),
        ("/old", "-> /old/"),
        ("/old/", "second index"),
        ("/old/default.htm", "second index"),
        ("/bare/", "Forbidden"),
        ("/bare/file", "x"),
        ("/bare/file/", "NotFound"),
        ("/bare/file/x", "NotFound"),
        ("/index/", "Forbidden"),
        ("/none", "NotFound"),
        ("/none/", "NotFound"),
        ("/none/none/none", "NotFound"),
        ("/Index.html", "NotFound"),
        ("/.hidden", "NotFound"),
        ("/.well-known/security.txt", "contact"),
        ("/bare%2ffile", "NotFound"),
        ("//bare", "-> /bare/"),
    ] {
        assert_eq!(f.see(path), want, "{path}");
        assert_eq!(f.see(path), want, "{path} again");
    }
    for path in ["", "x", "/%", "/%00", "/%gg"] {
        assert!(
            matches!(f.view.lookup(path.as_bytes()), Lookup::Refused),
            "{path}"
        );
    }
    let long = format!("/{}", "x".repeat(4_000));
    assert_eq!(f.see(&long), "NotFound");
    assert_eq!(f.see(&"/d".repeat(2_000)), "NotFound");
}

#[test]
fn nothing_outside_the_root_is_reachable() {
    for follow in [Symlinks::FollowWithinRoot, Symlinks::Refuse] {
        let mut f = Fixture::new(|c| c.symlinks = follow);
        std::fs::write(f.dir.path().join("secret"), "secret").unwrap();
        f.write("in/file", "inside");
        symlink("../secret", f.at("out")).unwrap();
        symlink("../../secret", f.at("in/out")).unwrap();
        symlink("..", f.at("up")).unwrap();
        symlink(f.dir.path().join("secret"), f.at("absolute")).unwrap();
        symlink("/etc/passwd", f.at("passwd")).unwrap();
        symlink("/proc/self/root", f.at("magic")).unwrap();
        symlink("/proc/self/fd", f.at("fds")).unwrap();
        symlink("loop", f.at("loop")).unwrap();
        symlink("in/file", f.at("good")).unwrap();
        symlink("in", f.at("gooddir")).unwrap();
        for path in [
            "/../secret",
            "/%2e%2e/secret",
            "/in/../../secret",
            "/in/%2E%2e/%2e%2E/secret",
            "/..%2fsecret",
            "/%2e%2e%2fsecret",
            "/..\\secret",
            "/in/..%5c..%5csecret",
            "/out",
            "/in/out",
            "/up/secret",
            "/absolute",
            "/passwd",
            "/magic/etc/passwd",
            "/fds/0",
        ] {
            assert_eq!(f.see(path), "NotFound", "{path} {follow:?}");
        }
        let loops = f.see("/loop");
        assert!(loops == "NotFound" || loops == "Forbidden", "{loops}");
        let (good, below) = match follow {
            Symlinks::FollowWithinRoot => ("inside", "inside"),
            Symlinks::Refuse => ("NotFound", "NotFound"),
        };
        assert_eq!(
            (f.see("/good").as_str(), f.see("/gooddir/file").as_str()),
            (good, below)
        );
    }
}

#[test]
fn special_and_unreadable_files_hang_nobody() {
    let mut f = Fixture::new(|_| ());
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, f.at("fifo"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(f.at("socket")).unwrap();
    f.write("secret.html", "x");
    let closed = std::os::unix::fs::PermissionsExt::from_mode(0o000);
    std::fs::set_permissions(f.at("secret.html"), closed).unwrap();
    assert_eq!(f.see("/fifo"), "NotFound");
    assert_eq!(f.see("/socket"), "NotFound");
    let want = if rustix::process::geteuid().is_root() {
        "x"
    } else {
        "Forbidden"
    };
    assert_eq!(f.see("/secret.html"), want);
}

/// Every way a file can change, through a plain path and through a link that no watch covers.
#[test]
fn changes_on_disk_are_seen() {
    let mut f = Fixture::new(|c| c.listing = true);
    f.write("real/file.txt", "first");
    f.write("real/sub/deep.txt", "deep");
    symlink("real", f.at("linked")).unwrap();
    for dir in ["/real", "/linked"] {
        let file = format!("{dir}/file.txt");
        f.write("real/file.txt", "first");
        f.becomes(&file, "first");
        f.becomes(&format!("{dir}/sub/deep.txt"), "deep");

        f.write("real/file.txt", "rewritten in place");
        f.becomes(&file, "rewritten in place");

        f.write("real/new.tmp", "renamed over");
        std::fs::rename(f.at("real/new.tmp"), f.at("real/file.txt")).unwrap();
        f.becomes(&file, "renamed over");

        let handle = std::fs::OpenOptions::new()
            .write(true)
            .open(f.at("real/file.txt"))
            .unwrap();
        handle.set_len(7).unwrap();
        f.becomes(&file, "renamed");

        std::fs::remove_file(f.at("real/file.txt")).unwrap();
        f.becomes(&file, "NotFound");
        f.write("real/file.txt", "back");
        f.becomes(&file, "back");

        std::fs::rename(f.at("real/sub"), f.at("real/moved")).unwrap();
        f.becomes(&format!("{dir}/sub/deep.txt"), "NotFound");
        f.becomes(&format!("{dir}/moved/deep.txt"), "deep");
        std::fs::rename(f.at("real/moved"), f.at("real/sub")).unwrap();
        f.becomes(&format!("{dir}/sub/deep.txt"), "deep");
    }
}

#[test]
fn a_change_through_another_name_is_seen() {
    let mut f = Fixture::new(|_| ());
    f.write("page", "first");
    let other = f.dir.path().join("elsewhere");
    std::fs::hard_link(f.at("page"), &other).unwrap();
    f.becomes("/page", "first");
    std::fs::write(&other, "written outside the root").unwrap();
    f.becomes("/page", "written outside the root");
    assert!(f.is_kept("/page"), "it is polled, not read again each time");
}

#[test]
fn indexes_siblings_and_redirects_follow_changes() {
    let mut f = Fixture::new(|_| ());
    f.write("d/page.html", "page");
    f.becomes("/d/", "Forbidden");
    f.becomes("/d", "-> /d/");
    f.write("d/index.html", "index");
    f.becomes("/d/", "index");
    f.write("d/index.html", "changed");
    f.becomes("/d/", "changed");
    f.becomes("/d/page.html", "page");
    assert!(resource(&f.get("/d/page.html")).get(Coding::Gzip).is_none());
    f.write("d/page.html.gz", "not really gzip");
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while resource(&f.get("/d/page.html")).get(Coding::Gzip).is_none() {
        assert!(std::time::Instant::now() < deadline);
        std::thread::park_timeout(Duration::from_millis(2));
    }
    std::fs::remove_dir_all(f.at("d")).unwrap();
    f.becomes("/d", "NotFound");
    f.write("d", "now a file");
    f.becomes("/d", "now a file");
}

#[test]
fn a_link_that_is_switched_switches_the_site() {
    let dir = tempfile::tempdir().unwrap();
    for release in ["one", "two"] {
        std::fs::create_dir(dir.path().join(release)).unwrap();
        std::fs::write(dir.path().join(release).join("index.html"), release).unwrap();
    }
    symlink("one", dir.path().join("current")).unwrap();
    let site = Site::open(SiteConfig::new(Source::Directory(dir.path().join("current")))).unwrap();
    let mut view = site.view(Instant::ZERO, UnixTime::from_secs(i64::from(u32::MAX)));
    assert_eq!(show(&get(&mut view, "/")), "one");
    symlink("two", dir.path().join("next")).unwrap();
    std::fs::rename(dir.path().join("next"), dir.path().join("current")).unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while show(&get(&mut view, "/")) != "two" {
        assert!(std::time::Instant::now() < deadline);
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

#[test]
fn what_is_missing_is_not_kept_and_evicts_nothing() {
    let mut f = Fixture::new(|_| ());
    f.write("good", "good");
    f.see("/good");
    let before = f.site.counters();
    for n in 0..2_000 {
        assert_eq!(f.see(&format!("/missing-{n}")), "NotFound");
    }
    assert_eq!(f.site.counters(), before);
    assert!(f.is_kept("/good"));
}

#[test]
fn spellings_take_up_no_room() {
    let mut f = Fixture::new(|_| ());
    f.write("abc", "x");
    f.see("/abc");
    let before = f.site.counters();
    for spelling in ["/%61bc", "/a%62c", "//abc", "/./abc", "/x/../abc", "/%61%62%63"] {
        assert!(f.is_kept(spelling), "{spelling}");
    }
    assert_eq!(f.site.counters(), before);
    assert_eq!(f.view.counters().misses, 1);
    // A name that looks like a spelling of another is a separate name.
    f.write("%61bc", "percent");
    assert_eq!(f.see("/%2561bc"), "percent");
    assert_eq!(f.see("/%61bc"), "x");
}

#[test]
fn siblings_are_representations_of_their_own() {
    let mut f = Fixture::new(|c| c.compress = Some(crate::coding::CompressConfig::default()));
    f.write("app.js", "x".repeat(1_000));
    f.write("app.js.br", "brotli");
    f.write("app.js.gz", "gzip");
    std::fs::create_dir(f.at("app.js.zst")).unwrap();
    let entry = f.get("/app.js");
    let found = resource(&entry);
    assert_eq!(
        found.codings().collect::<Vec<_>>(),
        [Coding::Brotli, Coding::Gzip, Coding::Identity]
    );
    let tags: Vec<_> = found.representations.iter().map(|r| r.etag.clone()).collect();
    assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2]);
    for representation in &found.representations {
        let fields = String::from_utf8_lossy(&representation.fields).into_owned();
        assert!(fields.contains("Vary: Accept-Encoding\r\n"), "{fields}");
        assert!(
            fields.contains("Content-Type: text/javascript; charset=utf-8\r\n"),
            "{fields}"
        );
        assert_eq!(
            fields.contains("Content-Encoding"),
            representation.coding != Coding::Identity
        );
    }
    let gzip = f.get("/app.js.gz");
    let fields = String::from_utf8_lossy(&resource(&gzip).identity().fields).into_owned();
    assert!(
        !fields.contains("Content-Encoding") && !fields.contains("Vary"),
        "{fields}"
    );
}

#[test]
fn excepted_paths_have_no_codings() {
    let mut f = Fixture::new(|c| {
        c.listing = true;
        c.compress = Some(crate::coding::CompressConfig::default());
        c.compress_except = ["/raw%20files/*", "/dir/index.html", "*.txt"]
            .map(|pattern| pattern.parse::<crate::config::PathPattern>().unwrap())
            .to_vec();
    });
    for name in [
        "app.js",
        "raw files/app.js",
        "made.js",
        "raw files/made.js",
        "dir/index.html",
        "dir/other.html",
    ] {
        f.write(name, "x".repeat(1_000));
    }
    f.write("made.js.br", "brotli");
    f.write("raw files/made.js.br", "brotli");
    for number in 0..30 {
        f.write(&format!("list/{number}.txt"), "a");
    }
    for (path, is_coded) in [
        ("/app.js", true),
        ("/raw%20files/app.js", false),
        ("/made.js", true),
        ("/raw%20files/made.js", false),
        ("/dir/", false),
        ("/dir/index.html", false),
        ("/dir/other.html", true),
        ("/raw%20files/", false),
        ("/list/", true),
    ] {
        let entry = f.get(path);
        for resource in entry.answer.resources() {
            assert_eq!(resource.codings().count() > 1, is_coded, "{path}");
            let fields = String::from_utf8_lossy(&resource.identity().fields).into_owned();
            assert_eq!(fields.contains("Accept-Encoding"), is_coded, "{path}: {fields}");
        }
        assert!(entry.answer.resources().next().is_some(), "{path}");
    }
}

/// A file that was edited and not compressed again is served with its current content.
#[test]
fn a_sibling_older_than_its_file_is_not_served() {
    let mut f = Fixture::new(|_| ());
    f.write("app.js", "edited");
    f.write("app.js.gz", "old");
    f.write("app.js.br", "of the same second");
    let at = |name: &str, secs: u64, nanos: u32| {
        let file = std::fs::File::options().write(true).open(f.at(name)).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::new(secs, nanos))
            .unwrap();
    };
    at("app.js", 1_000_000, 500);
    at("app.js.gz", 999_999, 999_999_999);
    at("app.js.br", 1_000_000, 0);
    let entry = f.get("/app.js");
    let codings: Vec<_> = resource(&entry).codings().collect();
    assert_eq!(codings, [Coding::Brotli, Coding::Identity]);
    // A new sibling is noticed.
    f.write("app.js.gz", "new");
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while resource(&f.get("/app.js")).get(Coding::Gzip).is_none() {
        assert!(std::time::Instant::now() < deadline);
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

#[test]
fn tags_name_content_and_dates_are_never_in_the_future() {
    let mut f = Fixture::new(|_| ());
    f.write("a.txt", "same");
    f.write("b.txt", "same");
    f.write("c.txt", "diff");
    let tag = |entry: &Entry| resource(entry).identity().etag.clone();
    let (a, b, c) = (
        tag(&f.get("/a.txt")),
        tag(&f.get("/b.txt")),
        tag(&f.get("/c.txt")),
    );
    assert!(a == b && a != c);
    let file = std::fs::File::options().write(true).open(f.at("a.txt")).unwrap();
    let future = std::time::UNIX_EPOCH + Duration::from_secs(f.wall.secs as u64 + 86_400);
    file.set_modified(future).unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while resource(&f.get("/a.txt")).last_modified != Some(f.wall) {
        assert!(std::time::Instant::now() < deadline);
        std::thread::park_timeout(Duration::from_millis(2));
    }
    assert_eq!(tag(&f.get("/a.txt")), a, "the content is the same");
}

#[test]
fn large_files_are_kept_open_within_the_bound() {
    let mut f = Fixture::new(|c| {
        c.cache.memory_file_max = Bytes(1_000);
        c.cache.descriptors_max = 4;
    });
    for n in 0..10 {
        f.write(&format!("{n}.bin"), vec![b'0' + n; 5_000]);
    }
    let mut flying = Vec::new();
    for n in 0..10 {
        let entry = f.get(&format!("/{n}.bin"));
        assert!(matches!(resource(&entry).identity().content, Content::File(_)));
        assert!(resource(&entry).identity().etag.starts_with(b"\""));
        assert!(f.site.counters().descriptors <= 4);
        flying.push(resource(&entry).identity().content.clone());
    }
    assert!(f.site.counters().descriptors <= 4, "files being sent are counted");
    flying.clear();
    f.turn(Duration::from_millis(200));
    let kept = (0..10).filter(|n| f.is_kept(&format!("/{n}.bin"))).count() as u64;
    assert!((1..=4).contains(&kept));
    f.turn(Duration::from_secs(5));
    assert_eq!(f.site.counters().descriptors, f.site.counters().entries);
}

fn is_current(entry: &Entry, wall: UnixTime) -> bool {
    resource(entry).identity().is_current(wall)
}

#[test]
fn what_is_sent_from_a_file_is_current_until_that_changes() {
    let mut f = Fixture::new(|_| {});
    let text = "x".repeat(100_000);
    f.write("file", &text);
    f.write("small", "x");
    let (file, small) = (f.get("/file"), f.get("/small"));
    assert!(matches!(resource(&file).identity().content, Content::File(_)));
    assert!(is_current(&file, f.wall) && is_current(&small, f.wall));
    // No event reports the second name, or writes through it.
    let other = f.dir.path().join("other");
    std::fs::hard_link(f.at("file"), &other).unwrap();
    std::fs::write(&other, text.replace('x', "y")).unwrap();
    // What is written back while it is looked at has a weak tag at first, which ends with that.
    std::fs::File::open(&other).unwrap().sync_all().unwrap();
    assert!(!is_current(&file, f.wall));
    f.view.forget(&file);
    assert!(file.is_dead() && !f.is_kept("/file"));
    let again = f.get("/file");
    assert_ne!(resource(&again).identity().etag, resource(&file).identity().etag);
    // Removing an entry that is gone already removes no other.
    f.view.forget(&file);
    assert!(!again.is_dead());
    assert!(is_current(&again, f.wall));
    f.write("small", "y");
    assert!(
        is_current(&small, f.wall),
        "content in memory is the content that was hashed"
    );
}

#[test]
fn a_large_file_changed_just_now_has_a_weak_tag_and_is_not_kept() {
    let mut f = Fixture::new(|_| {});
    let large = "x".repeat(represent::HASHED_MAX as usize + 1);
    f.write("log", &large);
    f.write("page", &large[1..]);
    f.wall = UnixTime::from_secs(f.wall.secs - 1_000);
    f.turn(Duration::ZERO);
    assert!(resource(&f.get("/log")).identity().etag.starts_with(b"W/\""));
    assert!(!f.is_kept("/log"));
    let page = resource(&f.get("/page")).identity().etag.clone();
    let strong = represent::etag_of_bytes(&large.as_bytes()[1..], Coding::Identity);
    assert_eq!(
        page,
        represent::weak(&strong),
        "one byte less is tagged by its content at once, but sent from the file"
    );
    assert!(f.is_kept("/page"));
    assert!(is_current(&f.get("/page"), f.wall));
    let later = UnixTime::from_secs(f.wall.secs + 1_000);
    assert!(
        !is_current(&f.get("/page"), later),
        "a strong tag is possible now"
    );
    f.wall = UnixTime::from_secs(f.wall.secs + 1_000);
    f.turn(Duration::ZERO);
    assert!(resource(&f.get("/log")).identity().etag.starts_with(b"\""));
    assert!(f.is_kept("/log"));
}

#[test]
fn a_coding_that_could_not_be_kept_is_not_made() {
    let text = "A line of text that shrinks very well. ".repeat(1_000);
    for (budget, makeable) in [(Bytes::mib(1), true), (Bytes::kib(256), false)] {
        let mut f = Fixture::new(|c| {
            c.cache.budget = budget;
            c.compress = Some(crate::coding::CompressConfig::default());
        });
        f.write("long.txt", &text);
        let entry = f.get("/long.txt");
        assert_eq!(resource(&entry).can_make(Coding::Gzip), makeable, "{budget}");
    }
}

#[test]
fn the_budget_holds_over_many_views_and_idle_ones_let_go() {
    for &policy in Policy::ALL {
        let mut f = Fixture::new(|c| {
            c.cache = CacheConfig {
                policy,
                budget: Bytes::kib(256),
                ..CacheConfig::default()
            };
        });
        for n in 0..100 {
            f.write(&format!("{n}"), vec![b'x'; 4_000 + 50 * n]);
        }
        let mut idle = f.site.view(f.now, f.wall);
        let mut in_flight = std::collections::VecDeque::new();
        for round in 0..600_usize {
            let path = format!("/{}", (round * 37 + round / 100 * 13) % 100);
            in_flight.push_back(f.get(&path));
            if round < 20 {
                get(&mut idle, &path);
            }
            if in_flight.len() > 4 {
                in_flight.pop_front();
            }
            f.turn(Duration::from_millis(1));
            let counters = f.site.counters();
            assert!(counters.bytes_peak <= 256 << 10, "{policy} {counters:?}");
        }
        let counters = f.site.counters();
        assert!(
            counters.evictions > 0 && counters.entries > 10,
            "{policy} {counters:?}"
        );
        // The idle view holds its entry until its own turn.
        assert!(idle.wake().is_some());
        in_flight.clear();
        idle.turn(f.now + Duration::from_secs(2), f.wall);
        assert!(idle.wake().is_none());
        f.turn(Duration::from_secs(2));
        assert!(f.view.wake().is_none());
        let counters = f.site.counters();
        f.site.shared.store.kill_where(|_| true);
        assert!(
            counters.bytes > 0 && f.site.counters().bytes == 0,
            "{policy} everything is given back"
        );
    }
}

#[test]
fn a_busy_view_lets_go_of_the_dead_bit_by_bit() {
    let mut f = Fixture::new(|c| c.cache.budget = Bytes::mib(8));
    for n in 0..1_500 {
        f.write(&format!("{n}"), "x");
        f.see(&format!("/{n}"));
    }
    let all = f.site.counters().bytes;
    f.site.shared.store.kill_where(|_| true);
    assert_eq!(f.site.counters().bytes, all, "the view still holds them");
    f.turn(Duration::from_millis(1));
    let some = f.site.counters().bytes;
    assert!(some < all && some > 0);
    for _ in 0..20 {
        f.turn(Duration::from_millis(1));
    }
    assert_eq!(f.site.counters().bytes, 0);
}

#[test]
fn codings_are_made_once_by_one_request() {
    let mut f = Fixture::new(|c| c.compress = Some(crate::coding::CompressConfig::default()));
    f.write(
        "page.html",
        "<p>All work and no play makes a dull page.</p>\n".repeat(100),
    );
    f.write("noise.html", {
        use units::Draw as _;
        let mut noise = vec![0; 5_000];
        units::Seed(3).rng().fill_bytes(&mut noise);
        noise
    });
    f.write("tiny.html", "x");
    f.write("photo.png", "x".repeat(5_000));
    for none in ["/tiny.html", "/photo.png"] {
        let entry = f.get(none);
        assert_eq!(
            resource(&entry).codings().collect::<Vec<_>>(),
            [Coding::Identity],
            "{none}"
        );
        assert!(f.view.encode(&entry, Coding::Gzip).is_none());
    }

    let plain = f.get("/page.html");
    assert_eq!(resource(&plain).codings().count(), 5);
    let gzip = f.view.encode(&plain, Coding::Gzip).unwrap();
    assert!(
        f.view.encode(&plain, Coding::Gzip).is_none(),
        "another request is compressing it"
    );
    let brotli = f.view.encode(&plain, Coding::Brotli).unwrap();
    assert!(f.view.encode(&plain, Coding::Zstd).is_none(), "too many at once");
    let gzip = gzip.try_now().expect_err("never on the loop").run();
    let first = f.view.finish(gzip);
    // Made of the same entry, it is added to the one that has replaced it.
    let brotli = brotli.run();
    let both = f.view.finish(brotli);
    assert!(resource(&first).get(Coding::Brotli).is_none());
    let both = resource(&both);
    assert!(both.get(Coding::Gzip).is_some() && both.get(Coding::Brotli).is_some());
    assert!(!both.can_make(Coding::Gzip) && both.can_make(Coding::Zstd));
    let now = f.get("/page.html");
    assert!(
        resource(&now).get(Coding::Brotli).is_some(),
        "all requests get it from now on"
    );
    let fields = |coding| String::from_utf8_lossy(&both.get(coding).unwrap().fields).into_owned();
    assert!(fields(Coding::Gzip).contains("Content-Encoding: gzip\r\n"));
    assert!(fields(Coding::Gzip).contains("Content-Type: text/html; charset=utf-8\r\n"));
    assert!(fields(Coding::Gzip).contains("Vary: Accept-Encoding\r\n"));
    let mut decoded = String::new();
    let Content::Memory(coded) = &both.get(Coding::Gzip).unwrap().content else {
        panic!()
    };
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&coded[..]), &mut decoded).unwrap();
    assert_eq!(decoded, text(both, Coding::Identity));

    drop(f.view.encode(&now, Coding::Zstd).unwrap());
    assert!(
        f.view.encode(&now, Coding::Zstd).is_some(),
        "a job that was dropped can be done again"
    );

    let noise = f.get("/noise.html");
    let job = f.view.encode(&noise, Coding::Gzip).unwrap();
    let after = f.view.finish(job.run());
    assert!(Arc::ptr_eq(&noise, &after), "it saved too little");
    assert!(
        f.view.encode(&noise, Coding::Gzip).is_none(),
        "and it is not tried again"
    );
}

#[test]
fn a_coding_of_a_file_that_changed_meanwhile_is_not_used() {
    let mut f = Fixture::new(|c| c.compress = Some(crate::coding::CompressConfig::default()));
    f.write("page.txt", "before ".repeat(100));
    let entry = f.get("/page.txt");
    let job = f.view.encode(&entry, Coding::Gzip).unwrap();
    f.write("page.txt", "after ".repeat(100));
    f.becomes("/page.txt", &"after ".repeat(100));
    let late = f.view.finish(job.run());
    assert!(
        Arc::ptr_eq(&late, &entry),
        "it is answered with the requested content"
    );
    assert!(resource(&f.get("/page.txt")).get(Coding::Gzip).is_none());
    f.becomes("/page.txt", &"after ".repeat(100));
}

#[test]
fn listings_show_what_may_be_seen_and_follow_changes() {
    let mut f = Fixture::new(|c| {
        c.listing = true;
        c.listing_entries_max = 3;
    });
    f.write("d/b.txt", "b");
    f.write("d/.hidden", "h");
    f.write("d/a/x", "x");
    let entry = f.get("/d/");
    let Answer::Listing(listing) = &entry.answer else {
        panic!("{entry:?}")
    };
    let json = text(&listing.json, Coding::Identity);
    assert!(
        json.contains(r#""name":"a","href":"./a/","type":"directory""#),
        "{json}"
    );
    assert!(
        json.contains(r#""name":"b.txt""#) && !json.contains("hidden"),
        "{json}"
    );
    let fields = String::from_utf8_lossy(&listing.html.identity().fields).into_owned();
    assert!(
        fields.contains("Vary: Accept\r\n") && fields.contains("text/html; charset=utf-8"),
        "{fields}"
    );
    f.write("d/c.txt", "c");
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    loop {
        let seen = f.see("/d/");
        if seen.contains("\"truncated\":true") {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{seen}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

#[test]
fn parts_of_uploads_are_not_listed_and_not_served() {
    let mut f = Fixture::new(|c| {
        c.listing = true;
        c.hidden = true;
    });
    f.write("d/.seen", "x");
    f.write("d/.weir-upload-1-1", "x");
    let entry = f.get("/d/");
    let Answer::Listing(listing) = &entry.answer else {
        panic!("{entry:?}")
    };
    let json = text(&listing.json, Coding::Identity);
    assert!(json.contains(".seen") && !json.contains(".weir-upload"), "{json}");
    assert!(f.see("/d/.weir-upload-1-1").contains("NotFound"));
    assert!(!f.see("/d/.seen").contains("NotFound"));
}

#[test]
fn listings_are_compressed_and_the_result_is_kept_with_them() {
    let mut f = Fixture::new(|c| {
        c.listing = true;
        c.compress = Some(crate::coding::CompressConfig::default());
    });
    for number in 0..50 {
        f.write(&format!("d/file-{number}.txt"), "x");
    }
    std::fs::create_dir(f.at("empty")).unwrap();
    let before = f.site.counters().bytes;
    let plain = f.get("/d/");
    let json = f.view.encode_part(&plain, Part::Json, Coding::Gzip).unwrap();
    assert!(
        f.view.encode_part(&plain, Part::Json, Coding::Gzip).is_none(),
        "another request is compressing it"
    );
    assert!(f.view.encode(&plain, Coding::Gzip).is_none(), "it is not a file");
    let html = f.view.encode_part(&plain, Part::Html, Coding::Brotli).unwrap();
    let json = json.try_now().expect_err("never on the loop").run();
    f.view.finish(json);
    let both = f.view.finish(html.run());
    let Answer::Listing(listing) = &both.answer else {
        panic!("{both:?}")
    };
    let (coded, identity) = (listing.json.get(Coding::Gzip).unwrap(), listing.json.identity());
    assert!(coded.len < identity.len / 4 && coded.etag != identity.etag);
    assert!(listing.html.get(Coding::Brotli).unwrap().len < listing.html.identity().len / 4);
    assert!(listing.html.get(Coding::Gzip).is_none() && listing.html.can_make(Coding::Gzip));
    let Content::Memory(bytes) = &coded.content else {
        panic!("{coded:?}")
    };
    let mut decoded = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&bytes[..]), &mut decoded).unwrap();
    assert_eq!(decoded, text(&listing.json, Coding::Identity));
    for one in [coded, identity, listing.html.identity()] {
        let fields = String::from_utf8_lossy(&one.fields).into_owned();
        assert!(fields.contains("Vary: Accept, Accept-Encoding\r\n"), "{fields}");
    }
    assert!(f.is_kept("/d/") && plain.is_dead());
    // Cached bytes are counted, and released with the entry.
    let held: u64 = [&listing.html, &listing.json]
        .iter()
        .flat_map(|resource| &resource.representations)
        .map(|representation| representation.len)
        .sum();
    assert!(f.site.counters().bytes >= before + held);
    drop((plain, both));
    f.write("d/another.txt", "x");
    f.see_until("/d/", "another.txt");
    let fresh = f.get("/d/");
    let Answer::Listing(listing) = &fresh.answer else {
        panic!("{fresh:?}")
    };
    assert!(
        listing.json.get(Coding::Gzip).is_none(),
        "a change makes a new one"
    );
    drop(fresh);
    f.site.change_everything();
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while f.site.counters().bytes > before {
        assert!(std::time::Instant::now() < deadline, "{:?}", f.site.counters());
        f.turn(Duration::from_secs(1));
    }
}

/// Without reported changes, an outdated listing could not be detected, so listings are not cached.
#[test]
fn a_listing_that_is_not_kept_is_compressed_for_one_answer() {
    let mut f = Fixture::new(|c| {
        c.listing = true;
        c.change_events = false;
        c.compress = Some(crate::coding::CompressConfig::default());
    });
    for number in 0..50 {
        f.write(&format!("d/file-{number}.txt"), "x");
    }
    for _ in 0..2 {
        let plain = f.get("/d/");
        assert!(!f.is_kept("/d/"));
        let job = f.view.encode_part(&plain, Part::Html, Coding::Gzip).unwrap();
        let coded = f.view.finish(job.run());
        let Answer::Listing(listing) = &coded.answer else {
            panic!("{coded:?}")
        };
        assert!(listing.html.get(Coding::Gzip).is_some() && !f.is_kept("/d/"));
    }
}

#[test]
fn a_configured_type_is_that_of_every_coding() {
    let mut f = Fixture::new(|c| {
        c.compress = Some(crate::coding::CompressConfig::default());
        c.types.insert("html", "text/html; charset=iso-8859-1").unwrap();
    });
    f.write("page.html", "<p>caf\u{e9}</p>\n".repeat(100));
    let plain = f.get("/page.html");
    let job = f.view.encode(&plain, Coding::Gzip).unwrap();
    let coded = f.view.finish(job.run());
    for representation in &resource(&coded).representations {
        let fields = String::from_utf8_lossy(&representation.fields).into_owned();
        assert!(
            fields.contains("Content-Type: text/html; charset=iso-8859-1\r\n"),
            "{fields}"
        );
    }
}

#[test]
fn the_executable_serves_like_a_directory() {
    static FILES: &[(&str, &[u8])] = &[
        ("/index.html", b"home"),
        ("/notes/a.txt", b"a"),
        ("/notes/b/c.txt", b"c"),
        ("/style.css", b"body{}"),
        ("/style.css.gz", b"gz"),
    ];
    let modified = UnixTime::from_secs(1_000_000_000);
    let mut config = SiteConfig::new(Source::Embedded {
        files: FILES,
        modified,
    });
    config.listing = true;
    let site = Site::open(config).unwrap();
    let mut view = site.view(Instant::ZERO, UnixTime::from_secs(2_000_000_000));
    assert_eq!(show(&get(&mut view, "/")), "home");
    assert_eq!(show(&get(&mut view, "/notes")), "-> /notes/");
    assert_eq!(show(&get(&mut view, "/not")), "NotFound");
    assert_eq!(show(&get(&mut view, "/style.css/")), "NotFound");
    let listing = show(&get(&mut view, "/notes/"));
    assert!(
        listing.contains("\"a.txt\"") && listing.contains("\"./b/\""),
        "{listing}"
    );
    let style = get(&mut view, "/style.css");
    assert_eq!(resource(&style).last_modified, Some(modified));
    assert_eq!(text(resource(&style), Coding::Gzip), "gz");
    assert!(
        site.counters().bytes < 64 << 10,
        "embedded content takes no memory"
    );
}

#[test]
fn a_root_that_cannot_be_served_is_named() {
    let error = Site::open(SiteConfig::new(Source::Directory("/no/such/root".into()))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot serve `/no/such/root`: there is no such directory"
    );
}

#[test]
fn hits_are_counted_and_shared_between_views() {
    let mut f = Fixture::new(|_| ());
    f.write("a", "12345");
    f.see("/a");
    f.see("/a");
    let mut other = f.site.view(f.now, f.wall);
    assert!(
        matches!(other.lookup(b"/a"), Lookup::Hit(_)),
        "another worker has loaded it"
    );
    assert_eq!(
        (f.view.counters(), other.counters()),
        (
            ViewCounters {
                hits: 1,
                misses: 1,
                byte_hits: 5,
                touches_lost: 0
            },
            ViewCounters {
                hits: 1,
                misses: 0,
                byte_hits: 5,
                touches_lost: 0
            },
        )
    );
}

#[test]
fn many_workers_share_one_budget() {
    let f = Fixture::new(|c| c.cache.budget = Bytes::kib(128));
    for n in 0..60 {
        f.write(&format!("{n}"), format!("{n} ").repeat(1_000 + 20 * n));
    }
    let site = &f.site;
    std::thread::scope(|scope| {
        for worker in 0..4_usize {
            let (mut now, wall) = (f.now, f.wall);
            scope.spawn(move || {
                let mut view = site.view(now, wall);
                let mut last = None;
                for round in 0..1_500_usize {
                    let n = (round * (2 * worker + 7) + round / 60) % 60;
                    let entry = get(&mut view, &format!("/{n}"));
                    assert!(show(&entry).starts_with(&format!("{n} ")), "{n}");
                    last = Some(entry);
                    now = now + Duration::from_millis(1);
                    view.turn(now, wall);
                }
                drop(last);
            });
        }
        scope.spawn(|| {
            for round in 0..300 {
                let path = format!("/{}", round % 60);
                site.shared
                    .store
                    .kill(site.shared.hash(path.as_bytes()), path.as_bytes());
                assert!(site.counters().bytes_peak <= 128 << 10);
                std::thread::yield_now();
            }
        });
    });
    assert!(site.counters().evictions > 0);
    site.shared.store.kill_where(|_| true);
    let counters = site.counters();
    assert_eq!(
        (counters.entries, counters.bytes, counters.descriptors),
        (0, 0, 0)
    );
    assert!(counters.bytes_peak <= 128 << 10);
}
