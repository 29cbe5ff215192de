//! Stored responses that survive their cache: what a restart finds, what it must not find, and the bounds.

#![expect(
    clippy::disallowed_methods,
    reason = "tests damage files, and give up after a while"
)]

use super::super::tests::{Rig, look_up};
use super::super::{Purge, Step};
use super::index::{Entry, Index};
use super::*;
use http_cache::stored::Terms;
use http_semantics::method::Method;
use http_semantics::request::Protocol;
use std::path::Path;
use units::{Bytes, Instant};

const FRESH: &str = "Cache-Control: max-age=600";

fn config(folder: &Path) -> ProxyCache {
    ProxyCache {
        disk: Some(folder.to_owned()),
        ..ProxyCache::default()
    }
}

fn disk(rig: &Rig) -> &Disk {
    rig.cache.disk.as_ref().unwrap()
}

fn settle(rig: &Rig) {
    while !disk(rig).is_idle() {
        std::thread::yield_now();
    }
}

fn start(config: &ProxyCache) -> Rig {
    let rig = Rig::new(config.clone());
    rig.cache.awaken();
    settle(&rig);
    rig
}

/// Ends a cache as the end of its process does.
fn end(rig: Rig) {
    let shared = Arc::downgrade(&disk(&rig).shared);
    drop(rig);
    let began = std::time::Instant::now();
    while shared.strong_count() > 0 {
        assert!(began.elapsed().as_secs() < 60, "something holds the cache");
        std::thread::yield_now();
    }
}

/// Whether the upstream is asked for this target.
fn asks(rig: &Rig, target: &str, request: &str, body: &[u8]) -> bool {
    let (_, content, asked) = rig.get(target, request, 200, FRESH, body);
    assert_eq!(content, body, "{target}");
    settle(rig);
    asked
}

fn records(folder: &Path) -> Vec<(std::path::PathBuf, u64)> {
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let records = files.filter(|path| path.extension().is_some_and(|suffix| suffix == "record"));
    let mut all: Vec<_> = records
        .map(|path| {
            let len = path.metadata().unwrap().len();
            (path, len)
        })
        .collect();
    all.sort();
    all
}

fn count(rig: &Rig, what: Count) -> u64 {
    rig.cache.report().counts[what as usize]
}

#[test]
fn a_restart_finds_what_was_stored_and_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    let rig = start(&config);
    let large = vec![7; 300_000];
    assert!(asks(&rig, "/a", "", b"first"));
    assert!(asks(&rig, "/large", "", &large));
    for language in ["de", "fr"] {
        let response = format!("{FRESH}\nVary: Foo");
        rig.get(
            "/vary",
            &format!("Foo: {language}"),
            200,
            &response,
            language.as_bytes(),
        );
    }
    settle(&rig);
    assert_eq!(
        (disk(&rig).report().entries, count(&rig, Count::DiskWrites)),
        (4, 4)
    );
    end(rig);

    let rig = start(&config);
    assert_eq!(disk(&rig).report().entries, 4);
    let mut cached = rig.cached(Method::Get, "/a", "");
    assert_eq!(look_up(&mut cached), Step::Serve);
    let text = String::from_utf8(cached.take_reply().unwrap().text).unwrap();
    assert!(
        text.contains("Cache-Status: weir; hit; ttl=600; detail=disk\r\n"),
        "{text}"
    );
    let mut again = rig.cached(Method::Get, "/a", "");
    assert_eq!(again.look_up(Instant::ZERO), Step::Serve, "it is in memory now");
    let text = String::from_utf8(again.take_reply().unwrap().text).unwrap();
    assert!(!text.contains("detail"), "{text}");
    assert!(!asks(&rig, "/large", "", &large));
    assert!(!asks(&rig, "/vary", "Foo: fr", b"fr"));
    assert!(!asks(&rig, "/vary", "Foo: de", b"de"));
    assert!(asks(&rig, "/vary", "Foo: it", b"it"));
    assert_eq!(count(&rig, Count::DiskHits), 4);
}

#[test]
fn damaged_files_are_not_served_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    let rig = start(&config);
    for target in ["/cut", "/changed", "/good"] {
        asks(&rig, target, "", target.as_bytes());
    }
    end(rig);
    let files = records(folder.path());
    let content = std::fs::read(&files[0].0).unwrap();
    std::fs::write(&files[0].0, &content[..content.len() - 1]).unwrap();
    // The end of the content: only its checksum shows it.
    let mut content = std::fs::read(&files[1].0).unwrap();
    *content.last_mut().unwrap() ^= 1;
    std::fs::write(&files[1].0, content).unwrap();
    let rig = start(&config);
    assert_eq!(disk(&rig).report().entries, 2, "the file that was cut is gone");
    assert!(asks(&rig, "/cut", "", b"/cut"));
    assert!(asks(&rig, "/changed", "", b"/changed"));
    assert!(!asks(&rig, "/good", "", b"/good"));
    assert_eq!(count(&rig, Count::DiskErrors), 2);
    assert!(!files[0].0.exists() && !files[1].0.exists() && files[2].0.exists());
    assert_eq!(records(folder.path()).len(), 3);
}

#[test]
fn the_budget_of_the_disk_holds() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = ProxyCache {
        disk_size: Bytes::kib(64),
        size: Bytes::kib(64),
        max_object_size: Bytes::kib(32),
        ..config(folder.path())
    };
    let rig = start(&config);
    for at in 0..50 {
        assert!(asks(&rig, &format!("/{at}"), "", &vec![7; 5_000 + at]));
        let report = disk(&rig).report();
        let found: u64 = records(folder.path()).iter().map(|(_, len)| len).sum();
        assert!(
            report.bytes_peak <= report.bytes_max && found <= report.bytes,
            "{report:?}, {found} bytes"
        );
    }
    assert!(disk(&rig).report().entries >= 6 && count(&rig, Count::DiskEvicted) > 30);
    end(rig);
    config.disk_size = Bytes::kib(24);
    let rig = start(&config);
    let report = disk(&rig).report();
    assert!(report.bytes <= 24 << 10 && report.entries > 0, "{report:?}");
    assert_eq!(records(folder.path()).len() as u64, report.entries);
    // Larger than the disk.
    assert!(asks(&rig, "/large", "", &vec![7; 30_000]));
    assert_eq!(count(&rig, Count::DiskWrites), 0);
}

#[test]
fn what_was_dropped_is_not_found_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    let rig = start(&config);
    for target in ["/purged", "/changed", "/kept"] {
        asks(&rig, target, "", target.as_bytes());
    }
    rig.get("/tagged", "", 200, &format!("{FRESH}\nCache-Tag: x"), b"t");
    settle(&rig);
    // Memory has them no more, as after evictions; the disk has.
    rig.cache.store.remove_all(|_| true);
    for what in ["path /purged", "tag x"] {
        let mut held = rig.cache.hold_purges();
        rig.cache.purges.note(&what.parse().unwrap());
        assert_eq!(rig.cache.apply(&mut held), 1, "{what}");
    }
    rig.cache.sweep(UnixTime::from_secs(rig.wall));
    assert_eq!(records(folder.path()).len(), 2);
    let mut post = rig.cached(Method::Post, "/changed", "");
    assert_eq!(post.look_up(Instant::ZERO), Step::Go);
    post.answered(200, Protocol::Http11, &Fields::EMPTY, Some(0), Instant::ZERO);
    drop(post);
    settle(&rig);
    assert_eq!(records(folder.path()).len(), 1);
    end(rig);
    // What is dropped before the files were found is not found either.
    let rig = Rig::new(config);
    rig.cache.purges.note(&Purge::Path("/kept".to_owned()));
    rig.cache.awaken();
    settle(&rig);
    assert_eq!(
        (disk(&rig).report().entries, records(folder.path()).len()),
        (0, 0)
    );
}

#[test]
fn one_cache_has_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    let first = start(&config);
    let second = start(&config);
    assert!(asks(&second, "/a", "", b"a"));
    assert!(!asks(&second, "/a", "", b"a"), "memory works");
    assert_eq!(records(folder.path()).len(), 0);
    end(first);
    // It tries again when time has passed.
    disk(&second).try_again(UnixTime::from_secs(i64::MAX));
    settle(&second);
    assert!(asks(&second, "/b", "", b"b"));
    assert_eq!(records(folder.path()).len(), 1);
}

#[test]
fn a_disk_that_fails_costs_no_response() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    let rig = start(&config);
    assert!(asks(&rig, "/a", "", b"a"));
    rig.cache.store.remove_all(|_| true);
    std::fs::remove_dir_all(folder.path()).unwrap();
    assert!(asks(&rig, "/a", "", b"a"), "its file is gone");
    assert!(asks(&rig, "/b", "", b"b"));
    assert!(!asks(&rig, "/b", "", b"b"));
    assert!(count(&rig, Count::DiskErrors) >= 2);
    assert_eq!(disk(&rig).report().entries, 0);
}

/// Targets and their content: empty, of a byte, around the ends of blocks of the disk, of many blocks, and behind a head that
/// the first read does not reach the end of.
fn assorted() -> Vec<(String, String, Vec<u8>)> {
    let mut all = Vec::new();
    for len in [0, 1, 3_700, 4_096, 8_192, 300_000] {
        // No two bytes 251 apart are equal in two targets: bytes of one never pass for those of another.
        let content = (0..len).map(|at| ((at + len) % 251) as u8).collect();
        all.push((format!("/{len}"), FRESH.to_owned(), content));
    }
    let long = format!("{FRESH}\nX-Long: {}", "x".repeat(6_000));
    all.push(("/long".to_owned(), long, b"behind a long head".to_vec()));
    all
}

/// The bytes of all files, by path.
fn contents(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let all = records(folder).into_iter();
    all.map(|(path, _)| (path.clone(), std::fs::read(path).unwrap()))
        .collect()
}

/// Puts these files in place of all others.
fn restore(folder: &Path, files: &[(std::path::PathBuf, Vec<u8>)]) {
    for entry in std::fs::read_dir(folder).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    for (path, content) in files {
        std::fs::write(path, content).unwrap();
    }
}

/// Nothing is left of what was damaged, and the budget holds.
fn assert_tidy(rig: &Rig, folder: &Path, why: &str) {
    settle(rig);
    let report = disk(rig).report();
    let found = records(folder);
    let bytes: u64 = found.iter().map(|(_, len)| super::index::rounded(*len)).sum();
    assert_eq!(
        (bytes, found.len() as u64),
        (report.bytes, report.entries),
        "{why}"
    );
    assert!(report.bytes <= report.bytes_max, "{why}: {report:?}");
    let is_part = |path: &Path| path.extension().is_some_and(|suffix| suffix == "part");
    let entries = std::fs::read_dir(folder).unwrap();
    let parts = entries.filter(|entry| is_part(&entry.as_ref().unwrap().path()));
    assert_eq!(parts.count(), 0, "{why}");
}

/// What a power failure leaves of a file whose blocks were on their way to the disk.
type Damage = fn(&mut Vec<u8>, usize);

const DAMAGES: [(&str, Damage); 5] = [
    ("cut", |file, at| file.truncate(at)),
    // The length is written, the blocks are not.
    ("zeros from", |file, at| file[at..].fill(0)),
    ("zeros before", |file, at| file[..at].fill(0)),
    // The blocks were written in another order, or hold what was there before.
    ("turned at", |file, at| file.rotate_left(at)),
    ("old bytes from", |file, at| {
        for byte in &mut file[at..] {
            *byte = byte.wrapping_add(1);
        }
    }),
];

#[test]
fn after_a_power_failure_responses_are_right_or_requested_again() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    let all = assorted();
    let rig = start(&config);
    for (target, head, content) in &all {
        assert!(rig.get(target, "", 200, head, content).2);
    }
    settle(&rig);
    end(rig);
    let files = contents(folder.path());
    assert_eq!(files.len(), all.len());
    let mut served = 0;
    for (damage, apply) in DAMAGES {
        // Cuts in each part of the magic, lengths, checksums, head and content, and at the ends of blocks.
        for at in [
            0, 1, 7, 8, 10, 12, 16, 20, 22, 24, 26, 28, 29, 60, 200, 4_095, 4_096, 4_097, 6_200, 8_192,
            299_000,
        ] {
            let why = format!("{damage} {at}");
            let mut left = files.clone();
            for (_, content) in &mut left {
                let at = at.min(content.len());
                apply(content, at);
            }
            let is_whole = |target: usize| left[target].1 == files[target].1;
            restore(folder.path(), &left);
            let rig = start(&config);
            assert_tidy(&rig, folder.path(), &why);
            for (number, (target, head, content)) in all.iter().enumerate() {
                // The upstream has changed its mind: what it says now is told apart from what was stored.
                let (status, got, asked) = rig.get(target, "", 200, head, b"another");
                let expected = match asked {
                    true => b"another",
                    false => &content[..],
                };
                assert!(status == 200 && got == expected, "{why}: {target}");
                assert_eq!(asked, !is_whole(number), "{why}: {target}");
                served += usize::from(!asked);
            }
            assert_tidy(&rig, folder.path(), &why);
            end(rig);
        }
    }
    assert!(served > 100, "{served}: most files were damaged in all rounds");
}

/// Any of the creations and removals of the last seconds may have reached the disk, and the others not.
#[test]
fn after_a_power_failure_the_newest_file_of_a_response_counts() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    let rig = start(&config);
    let mut ever = std::collections::BTreeMap::new();
    let mut versions = Vec::new();
    for version in 1..=4_u8 {
        assert!(asks(&rig, "/a", "Cache-Control: no-cache", &[version]));
        for (path, content) in contents(folder.path()) {
            if ever.insert(path.clone(), content).is_none() {
                versions.push((path, version));
            }
        }
    }
    end(rig);
    assert_eq!(versions.len(), 4, "each version has a file of its own");
    for subset in 0..16_u32 {
        let is_there = |at: usize| subset & (1 << at) != 0;
        let kept: Vec<_> = (0..4).filter(|at| is_there(*at)).collect();
        let left: Vec<_> = kept
            .iter()
            .map(|&at| (versions[at].0.clone(), ever[&versions[at].0].clone()))
            .collect();
        restore(folder.path(), &left);
        // A file that was being written.
        std::fs::write(folder.path().join("00000000000000ff.part"), b"weircch2").unwrap();
        let rig = start(&config);
        assert_tidy(&rig, folder.path(), &format!("{kept:?}"));
        let (_, got, asked) = rig.get("/a", "", 200, FRESH, b"new");
        let newest = kept.last().map(|&at| versions[at].1);
        assert_eq!(
            (got, asked),
            newest.map_or((b"new".to_vec(), true), |version| (vec![version], false))
        );
        settle(&rig);
        assert_eq!(
            records(folder.path()).len(),
            1,
            "{kept:?}: older ones are removed"
        );
        end(rig);
    }
}

/// The files change while the index is in memory.
#[test]
fn files_that_are_not_those_of_the_index_are_not_served() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    let rig = start(&config);
    let targets = ["/one", "/two", "/cut", "/gone", "/grown", "/kept"];
    for target in targets {
        assert!(asks(&rig, target, "", target.as_bytes()));
    }
    let files = contents(folder.path());
    rig.cache.store.remove_all(|_| true);
    // The first two are of one length, and change places.
    std::fs::write(&files[0].0, &files[1].1).unwrap();
    std::fs::write(&files[1].0, &files[0].1).unwrap();
    std::fs::write(&files[2].0, &files[2].1[..40]).unwrap();
    std::fs::remove_file(&files[3].0).unwrap();
    let grown = [&files[4].1[..], b"more"].concat();
    std::fs::write(&files[4].0, grown).unwrap();
    for (at, target) in targets.iter().enumerate() {
        let (_, content, asked) = rig.get(target, "", 200, FRESH, b"another");
        let is_served = at >= 4;
        assert_eq!(asked, !is_served, "{target}");
        let expected = if is_served { target.as_bytes() } else { b"another" };
        assert_eq!(content, expected, "{target}");
        settle(&rig);
    }
    assert_eq!(count(&rig, Count::DiskErrors), 4);
    // Nothing of them comes to light later: what is stored now is served.
    rig.cache.store.remove_all(|_| true);
    for target in &targets[..4] {
        assert!(!asks(&rig, target, "", b"another"), "{target}");
    }
}

fn entry(number: u64) -> Entry {
    let terms = Terms {
        asked: UnixTime::from_secs(0),
        received: UnixTime::from_secs(0),
        targets: &[],
        negative: 0,
    };
    let object = Object {
        key: number.to_le_bytes()[..].into(),
        head: Stored::of(200, &Fields::EMPTY, &terms),
        names: Vec::new(),
        variant: Vec::new(),
        body: bytes::Bytes::new(),
        part: None,
        received: Protocol::Http11,
        file: None,
        standing: Standing::default(),
        is_from_disk: false,
        _charge: crate::cache::Budget::new(0, 0).reserve(0, 0).unwrap(),
    };
    let start = start_of(&object).unwrap();
    Entry::of(number, 1, Record::parse(&start, start.len() as u64).unwrap())
}

#[test]
fn files_and_dropped_targets_are_bounded() {
    let mut index = Index::new(u64::MAX, crate::cache::Policy::Lru);
    index.number_from(1 << 40);
    for number in 0..70_000 {
        index.admit(entry(number));
        index.evict_to_fit(0);
        for (_, size) in index.take_unlinks() {
            index.released(size);
        }
    }
    assert_eq!(index.report().entries, 65_536);
    assert!(!index.reserve(1), "there is no room for another file");
    assert_eq!(index.evict_to_fit(1), 1);
    // Too many targets to remember: what was not found yet is not used.
    let mut index = Index::new(u64::MAX, crate::cache::Policy::Lru);
    for target in 0_u64..4_097 {
        index.drop_where(&(target + 100_000).to_le_bytes(), |_| true);
    }
    index.admit(entry(1));
    assert_eq!(index.report().entries, 0);
}
