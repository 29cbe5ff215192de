//! Mounts of a site over real files: which folder answers a path, that no path leaves its folder, and that changes in
//! each folder are visible.

use super::*;
use crate::config::{Mount, MountFlag};

/// Adds a mount of the folder `name` beside the root; it is created.
fn add(config: &mut SiteConfig, path: &str, name: &str) -> usize {
    let Source::Directory(root) = &config.source else {
        panic!("a fixture is on disk");
    };
    let folder = root.parent().unwrap().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let MountFlag(mount) = format!("{path}={}", folder.display()).parse().unwrap();
    config.mounts.push(mount);
    config.mounts.len() - 1
}

impl Fixture {
    /// Writes a file beside the root.
    fn write_beside(&self, rel: &str, bytes: &str) {
        self.write(&format!("../{rel}"), bytes);
    }
}

#[test]
fn the_longest_path_has_the_folder() {
    let mut f = Fixture::new(|c| {
        add(c, "/a/", "one");
        add(c, "/a/b/", "two");
        let kept = add(c, "/keep/", "three");
        c.mounts[kept].strip = false;
    });
    f.write("x", "root");
    f.write("a/x", "shadowed");
    f.write("ab", "root ab");
    f.write_beside("one/x", "one");
    f.write_beside("one/index.html", "index of one");
    f.write_beside("one/b/x", "shadowed");
    f.write_beside("one/d/x.txt", "one d");
    f.write_beside("two/x", "two");
    f.write_beside("three/x", "outside what is kept");
    f.write_beside("three/keep/x", "three");
    for _ in 0..2 {
        for (path, want) in [
            ("/x", "root"),
            ("/ab", "root ab"),
            ("/a/x", "one"),
            ("/%61/x", "one"),
            ("/a/", "index of one"),
            ("/a", "-> /a/"),
            ("/a/d", "-> /a/d/"),
            ("/a/b/x", "two"),
            ("/a/b", "-> /a/b/"),
            ("/a/b/../x", "one"),
            ("/a/b/../../x", "root"),
            ("/keep/x", "three"),
            ("/keep", "-> /keep/"),
            ("/keep/keep/x", "NotFound"),
            ("/a/none", "NotFound"),
        ] {
            assert_eq!(f.see(path), want, "{path}");
        }
    }
}

#[test]
fn each_folder_is_a_jail() {
    let mut f = Fixture::new(|c| {
        add(c, "/a/", "one");
    });
    f.write("secret", "of the root");
    f.write_beside("outside", "outside");
    f.write_beside("one/inside", "inside");
    let beside = PathBuf::from("..").join("root").join("secret");
    symlink(beside, f.at("../one/to-root")).unwrap();
    assert!(f.at("../one/to-root").is_file(), "the link leads to the file");
    symlink("../outside", f.at("../one/out")).unwrap();
    symlink("inside", f.at("../one/in")).unwrap();
    let absolute = f.at("../one/inside").canonicalize().unwrap();
    symlink(absolute, f.at("../one/absolute")).unwrap();
    symlink("../one", f.at("link")).unwrap();
    for (path, want) in [
        ("/a/in", "inside"),
        ("/a/absolute", "inside"),
        ("/a/to-root", "NotFound"),
        ("/a/out", "NotFound"),
        ("/a/..%2foutside", "NotFound"),
        ("/a/%2e%2e/%2e%2e/outside", "NotFound"),
        ("/link/inside", "NotFound"),
    ] {
        assert_eq!(f.see(path), want, "{path}");
    }
}

#[test]
fn changes_in_every_folder_are_seen() {
    let mut f = Fixture::new(|c| {
        add(c, "/a/", "one");
        let kept = add(c, "/keep/", "two");
        c.mounts[kept].strip = false;
    });
    f.write_beside("two/keep/x", "first");
    for (path, file) in [
        ("/a/x", "one/x"),
        ("/a/d/x", "one/d/x"),
        ("/keep/x", "two/keep/x"),
    ] {
        f.write_beside(file, "first");
        f.becomes(path, "first");
        assert!(f.is_kept(path), "{path}");
        f.write_beside(file, "second");
        f.becomes(path, "second");
        std::fs::remove_file(f.at(&format!("../{file}"))).unwrap();
        f.becomes(path, "NotFound");
        f.write_beside(file, "third");
        f.becomes(path, "third");
    }
    // A folder that goes, with all that was made of it.
    f.becomes("/keep", "-> /keep/");
    assert!(f.is_kept("/keep"));
    std::fs::rename(f.at("../two/keep"), f.at("../two/gone")).unwrap();
    f.becomes("/keep/x", "NotFound");
    f.becomes("/keep", "NotFound");
    std::fs::rename(f.at("../one/d"), f.at("../one/e")).unwrap();
    f.becomes("/a/d/x", "NotFound");
    f.becomes("/a/e/x", "third");
}

#[test]
fn a_folder_without_events_is_polled() {
    let mut f = Fixture::new(|c| {
        c.change_events = false;
        add(c, "/a/", "one");
    });
    f.write("x", "root");
    f.write_beside("one/x", "first");
    f.becomes("/a/x", "first");
    f.becomes("/x", "root");
    assert!(f.is_kept("/a/x") && f.is_kept("/x"));
    f.write_beside("one/x", "second");
    f.becomes("/a/x", "second");
    assert_eq!(f.see("/x"), "root");
    f.write("x", "changed");
    f.becomes("/x", "changed");
}

#[test]
fn a_link_to_a_folder_that_is_switched_switches_it() {
    let mut f = Fixture::new(|c| {
        let at = add(c, "/a/", "one");
        let folder = &mut c.mounts[at].root;
        let link = folder.with_file_name("current");
        symlink("one", &link).unwrap();
        *folder = link;
    });
    f.write("x", "root");
    f.write_beside("one/x", "one");
    f.write_beside("two/x", "two");
    f.becomes("/a/x", "one");
    f.becomes("/x", "root");
    symlink("two", f.at("../next")).unwrap();
    std::fs::rename(f.at("../next"), f.at("../current")).unwrap();
    f.becomes("/a/x", "two");
    assert!(f.is_kept("/x"), "the files of the root stay in the cache");
}

#[test]
fn a_mount_has_index_and_listing_of_its_own() {
    let mut f = Fixture::new(|c| {
        let listed = add(c, "/listed/", "one");
        c.mounts[listed].listing = Some(true);
        let other = add(c, "/other/", "two");
        c.mounts[other].index = Some(vec!["home.html".to_owned()]);
    });
    f.write("plain/a.txt", "a");
    f.write("home.html", "no index here");
    f.write_beside("one/d/a.txt", "a");
    f.write_beside("one/README.md", "about one");
    f.write_beside("two/index.html", "no index here");
    f.write_beside("two/home.html", "home");
    assert_eq!(f.see("/plain/"), "Forbidden");
    assert_eq!(f.see("/"), "Forbidden");
    assert!(f.see("/listed/").contains("\"name\":\"d\""));
    assert!(f.see("/listed/d/").contains("\"path\":\"/listed/d/\"") || f.see("/listed/d/").contains("a.txt"));
    let entry = f.get("/listed/");
    let Answer::Listing(listing) = &entry.answer else {
        panic!("{entry:?}")
    };
    assert!(text(&listing.html, Coding::Identity).contains("about one"));
    assert!(f.is_kept("/listed/d/"));
    f.write_beside("one/d/b.txt", "b");
    f.see_until("/listed/d/", "b.txt");
    f.becomes("/other/", "home");
    f.write_beside("two/home.html", "changed");
    f.becomes("/other/", "changed");
    std::fs::remove_file(f.at("../two/home.html")).unwrap();
    f.becomes("/other/", "Forbidden");
    f.write_beside("two/home.html", "back");
    f.becomes("/other/", "back");
}

#[test]
fn siblings_come_from_the_folder_of_their_file() {
    let mut f = Fixture::new(|c| {
        add(c, "/a/", "one");
    });
    f.write("x.txt.gz", "of the root");
    f.write_beside("one/x.txt", "plain");
    f.write_beside("one/x.txt.gz", "sibling");
    let entry = f.get("/a/x.txt");
    assert_eq!(text(resource(&entry), Coding::Gzip), "sibling");
}

#[test]
fn the_executable_can_have_mounts() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("x"), "first").unwrap();
    let mut config = SiteConfig::new(Source::Embedded {
        files: &[("/index.html", b"embedded"), ("/a/x", b"shadowed")],
        modified: UnixTime::from_secs(0),
    });
    let MountFlag(mount) = format!("/a={}", dir.path().canonicalize().unwrap().display())
        .parse()
        .unwrap();
    config.mounts = vec![mount];
    let site = Site::open(config).unwrap();
    let mut view = site.view(Instant::ZERO, UnixTime::from_secs(i64::from(u32::MAX)));
    assert_eq!(show(&get(&mut view, "/")), "embedded");
    assert_eq!(show(&get(&mut view, "/a/x")), "first");
    std::fs::write(dir.path().join("x"), "second").unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while show(&get(&mut view, "/a/x")) != "second" {
        assert!(std::time::Instant::now() < deadline);
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

#[test]
fn a_version_dates_its_own_files_only() {
    let mut f = Fixture::new(|c| {
        c.modified_min = Some(UnixTime::from_secs(i64::from(u32::MAX) - 1));
        add(c, "/a/", "one");
    });
    f.wall = UnixTime::from_secs(i64::from(u32::MAX));
    f.turn(Duration::ZERO);
    f.write("x", "root");
    f.write_beside("one/x", "one");
    let modified = |entry: &Entry| resource(entry).last_modified;
    let (own, mounted) = (f.get("/x"), f.get("/a/x"));
    assert_eq!(modified(&own), Some(UnixTime::from_secs(i64::from(u32::MAX) - 1)));
    assert!(modified(&mounted) < modified(&own), "{mounted:?}");
}

#[test]
fn the_folder_that_cannot_be_served_is_named() {
    let mount = |root: &str| -> Mount {
        let MountFlag(mount) = format!("/a/={root}").parse().unwrap();
        mount
    };
    let dir = tempfile::tempdir().unwrap();
    let mut config = SiteConfig::new(Source::Directory(dir.path().into()));
    config.mounts = vec![mount("/no/such/folder")];
    let why = Site::open(config.clone()).unwrap_err().to_string();
    assert!(
        why.contains("`/a/`") && why.contains("`/no/such/folder`") && why.contains("no such directory"),
        "{why}"
    );
    let folder = dir.path().join("one");
    std::fs::create_dir(&folder).unwrap();
    config.mounts = vec![mount(&folder.display().to_string())];
    let site = Site::open(config).unwrap();
    assert!(site.confirm().is_ok() && site.is_reachable());
    std::fs::remove_dir(&folder).unwrap();
    assert!(site.confirm().unwrap_err().to_string().contains("`/a/`"));
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while site.is_reachable() {
        assert!(std::time::Instant::now() < deadline, "nobody noticed");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}
