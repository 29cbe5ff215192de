//! Folders on the disk: what is in them after each change, and after changes that were interrupted.

use super::removed::exchange;
use super::*;
use rustix::fs::{FlockOperation, RenameFlags};
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::Ordering;

fn folder() -> (tempfile::TempDir, WriteFolder) {
    let dir = tempfile::tempdir().unwrap();
    let folder = WriteFolder::open(dir.path()).unwrap();
    (dir, folder)
}

fn stored(folder: &WriteFolder, names: &[&[u8]], content: &[u8]) {
    let mut file = folder.begin(names).unwrap();
    file.write(content).unwrap();
    file.place(true).unwrap();
}

#[test]
fn notes_go_where_their_files_go() {
    let (_dir, folder) = folder();
    stored(&folder, &[b"a"], b"1");
    folder.make_directory(&[b"sub"], false).unwrap();
    stored(&folder, &[b"sub", b"b"], b"2");
    match folder.set_note(&[b"a"], b"of a", true) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            eprintln!("skipped: the file system of temporary files stores no extended attributes");
            return;
        }
        outcome => outcome.unwrap(),
    }
    folder.set_note(&[b"sub"], b"of sub", false).unwrap();
    folder.set_note(&[b"sub", b"b"], b"of b", false).unwrap();
    folder.set_note(&[], b"of all", false).unwrap();
    let note = |names: &[&[u8]]| String::from_utf8(folder.note(names).unwrap()).unwrap();
    assert_eq!(
        (note(&[]), note(&[b"a"])),
        ("of all".to_owned(), "of a".to_owned())
    );
    // It stays if the content is replaced, and if the file is moved.
    stored(&folder, &[b"a"], b"3");
    assert_eq!(note(&[b"a"]), "of a");
    folder.rename(&[b"a"], &[b"c"], false).unwrap();
    assert_eq!(note(&[b"c"]), "of a");
    // A copy has that of its source, not of what it replaces.
    let copied = |from: &[&[u8]], to: &[&[u8]]| {
        let copy = folder.copy(from, to, true, &mut |_| Ok(())).unwrap();
        copy.place(true).unwrap().finish().unwrap();
    };
    copied(&[b"sub"], &[b"tree"]);
    assert_eq!(
        (note(&[b"tree"]), note(&[b"tree", b"b"])),
        ("of sub".to_owned(), "of b".to_owned())
    );
    copied(&[b"c"], &[b"sub", b"b"]);
    assert_eq!(note(&[b"sub", b"b"]), "of a");
    folder.set_note(&[b"tree", b"b"], b"", true).unwrap();
    folder.set_note(&[b"tree", b"b"], b"", false).unwrap();
    copied(&[b"tree", b"b"], &[b"c"]);
    assert_eq!(note(&[b"c"]), "");
    // A new file at the path of a removed one has none.
    folder.remove(&[b"sub", b"b"], false).unwrap().finish().unwrap();
    stored(&folder, &[b"sub", b"b"], b"4");
    assert_eq!(note(&[b"sub", b"b"]), "");
    let notes = folder.notes(&[]).unwrap();
    assert_eq!(
        (notes.of(b"sub").unwrap(), notes.of(b"c").unwrap()),
        (b"of sub".to_vec(), Vec::new())
    );
    assert!(notes.of(b"missing").is_err() && notes.of(b"../x").is_err());
}

#[test]
fn a_note_is_as_long_as_the_file_system_allows() {
    let (_dir, folder) = folder();
    stored(&folder, &[b"a"], b"1");
    let mut longest = 0;
    for length in [3_072, 4_097, 65_536, 65_537] {
        let note = vec![b'x'; length];
        match folder.set_note(&[b"a"], &note, false) {
            Ok(()) => longest = length,
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                eprintln!("skipped: the file system of temporary files stores no extended attributes");
                return;
            }
            Err(error) => assert!(
                matches!(
                    error.kind(),
                    io::ErrorKind::StorageFull | io::ErrorKind::ArgumentListTooLong
                ),
                "{length}: {error}"
            ),
        }
        assert_eq!(
            folder.note(&[b"a"]).unwrap().len(),
            longest,
            "the last one that fit"
        );
    }
    assert!((3_072..=65_536).contains(&longest));
}

#[test]
fn notes_are_not_reached_through_links() {
    let (dir, folder) = folder();
    fs::write(dir.path().join("outside"), "").unwrap();
    let inner = dir.path().join("inner");
    fs::create_dir(&inner).unwrap();
    symlink(dir.path().join("outside"), inner.join("link")).unwrap();
    let inner = WriteFolder::open(&inner).unwrap();
    for names in [&[&b"link"[..]][..], &[&b".."[..], b"outside"]] {
        assert!(inner.set_note(names, b"x", false).is_err() && inner.note(names).is_err());
    }
    assert_eq!(folder.note(&[b"outside"]).unwrap(), b"");
}

fn directory_of(path: &Path) -> OwnedFd {
    rustix::fs::open(path, DIRECTORY, Mode::empty()).unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let found = fs::read_dir(dir).unwrap();
    let mut found: Vec<String> = found
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    found
}

#[test]
fn a_file_appears_whole_or_not_at_all() {
    let (dir, folder) = folder();
    stored(&folder, &[b"a"], b"old");
    let mut file = folder.begin(&[b"a"]).unwrap();
    file.write(b"ne").unwrap();
    assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"old");
    assert_eq!(
        folder.list(&[], 10).unwrap().unwrap().len(),
        1,
        "parts are not listed"
    );
    file.write(b"w").unwrap();
    file.set_modified(UnixTime::from_secs(1_000_000_000)).unwrap();
    let (meta, _) = file.place(true).unwrap();
    assert_eq!((meta.len, meta.modified.secs), (3, 1_000_000_000));
    assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"new");
    drop(folder.begin(&[b"a"]).unwrap());
    assert_eq!(names(dir.path()), ["a"]);
}

#[test]
fn no_path_leaves_the_folder() {
    let (dir, folder) = folder();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "x").unwrap();
    symlink(outside.path(), dir.path().join("way")).unwrap();
    symlink(outside.path().join("secret"), dir.path().join("link")).unwrap();
    for names in [
        &[&b"way"[..], b"new"][..],
        &[b"..", b"new"],
        &[b".", b"new"],
        &[b"..\0", b"x"],
    ] {
        assert!(folder.begin(names).is_err(), "{names:?}");
        assert!(folder.make_directory(names, false).is_err(), "{names:?}");
    }
    for names in [&[&b".."[..]][..], &[b"a/b"], &[b""], &[]] {
        assert!(folder.begin(names).is_err(), "{names:?}");
        assert!(folder.remove(names, false).is_err(), "{names:?}");
    }
    assert!(folder.read(&[b"way", b"secret"]).is_err());
    assert!(folder.read(&[b"link"]).is_err());
    assert_eq!(folder.meta(&[b"link"]).unwrap().kind, Kind::Other);
    assert!(folder.list(&[b"way"], 10).is_err());
    assert_eq!(folder.list(&[], 10).unwrap().unwrap(), []);
    // Links themselves are removed, and never followed.
    folder.remove(&[b"way"], true).unwrap().finish().unwrap();
    folder.remove(&[b"link"], true).unwrap().finish().unwrap();
    assert_eq!(names(outside.path()), ["secret"]);
    assert!(names(dir.path()).is_empty());
}

#[test]
fn a_copy_leaves_links_out_and_a_move_replaces() {
    let (dir, folder) = folder();
    folder.make_directory(&[b"a"], true).unwrap();
    folder.make_directory(&[b"a", b"b"], true).unwrap();
    stored(&folder, &[b"a", b"b", b"x"], b"12345");
    stored(&folder, &[b"a", b"y"], b"123");
    symlink("/etc/passwd", dir.path().join("a/link")).unwrap();
    assert_eq!(folder.measure().unwrap().bytes, 8);
    let mut spent = 0;
    let mut spend = |bytes| {
        spent += bytes;
        Ok(())
    };
    folder
        .copy(&[b"a"], &[b"c"], true, &mut spend)
        .unwrap()
        .place(true)
        .unwrap();
    assert_eq!(spent, 8);
    assert_eq!(names(&dir.path().join("c")), ["b", "y"]);
    folder
        .copy(&[b"a"], &[b"d"], false, &mut |_| Ok(()))
        .unwrap()
        .place(true)
        .unwrap();
    assert!(names(&dir.path().join("d")).is_empty());
    // A file in place of a directory, and the other way round.
    folder
        .rename(&[b"c", b"y"], &[b"d"], true)
        .unwrap()
        .finish()
        .unwrap();
    assert_eq!(fs::read(dir.path().join("d")).unwrap(), b"123");
    folder.rename(&[b"c"], &[b"d"], true).unwrap().finish().unwrap();
    assert_eq!(names(&dir.path().join("d")), ["b"]);
    let full = folder.copy(&[b"a"], &[b"e"], true, &mut |_| Err(io::Error::other("full")));
    assert_eq!(full.unwrap_err().to_string(), "full");
    assert_eq!(names(dir.path()), ["a", "d"]);
    folder.remove(&[b"a"], true).unwrap().finish().unwrap();
    assert_eq!(names(dir.path()), ["d"]);
}

#[test]
fn a_folder_is_never_missing_while_it_is_replaced() {
    let (dir, folder) = folder();
    for name in [b"a", b"b"] {
        folder.make_directory(&[name], false).unwrap();
    }
    let dir_fd = directory_of(dir.path());
    let probed = rustix::fs::renameat_with(&dir_fd, "a", &dir_fd, "b", RenameFlags::EXCHANGE);
    if let Err(errno) = probed {
        println!("skipped: the file system of the folder cannot exchange names: {errno}");
        return;
    }
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let begins = std::sync::Barrier::new(2);
    let target = dir.path().join("b");
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut missed = 0_u64;
            begins.wait();
            while !is_over.load(Ordering::Relaxed) {
                missed += u64::from(!target.is_dir());
            }
            missed
        });
        begins.wait();
        for round in 0..500 {
            match round % 2 {
                0 => {
                    folder.make_directory(&[b"c"], false).unwrap();
                    folder.rename(&[b"c"], &[b"b"], false).unwrap().finish().unwrap();
                }
                _ => {
                    let copy = folder.copy(&[b"a"], &[b"b"], true, &mut |_| Ok(())).unwrap();
                    copy.place(false).unwrap().finish().unwrap();
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(reader.join().unwrap(), 0, "looks that found nothing");
    });
    assert_eq!(names(dir.path()), ["a", "b"]);
}

#[test]
fn names_that_cannot_be_exchanged_are_replaced_one_after_the_other() {
    let (dir, folder) = folder();
    folder.make_directory(&[b"a"], false).unwrap();
    folder.make_directory(&[b"a", b"b"], false).unwrap();
    stored(&folder, &[b"a", b"b", b"x"], b"1");
    let (root, above) = (directory_of(dir.path()), directory_of(&dir.path().join("a")));
    // The kernel refuses to exchange a folder with one in it.
    let (from, to) = ((above.as_fd(), &b"b"[..]), (root.as_fd(), &b"a"[..]));
    assert!(exchange(from, to).unwrap().is_none());
    replace((above.as_fd(), b"b", Kind::Directory), to)
        .unwrap()
        .finish()
        .unwrap();
    assert_eq!(names(dir.path()), ["a"]);
    assert_eq!(names(&dir.path().join("a")), ["x"]);
}

#[test]
fn only_parts_of_nobody_are_cleaned_away() {
    let (dir, folder) = folder();
    folder.make_directory(&[b"deep"], false).unwrap();
    fs::write(dir.path().join("deep/.weir-upload-1-1"), "left").unwrap();
    fs::create_dir_all(dir.path().join(".weir-upload-1-2/x")).unwrap();
    stored(&folder, &[b"kept"], b"x");
    let under_way = folder.begin(&[b"deep", b"new"]).unwrap();
    assert_eq!(folder.measure().unwrap().bytes, 1);
    assert_eq!(folder.clean().unwrap(), 2);
    assert_eq!(names(dir.path()), ["deep", "kept"]);
    assert_eq!(names(&dir.path().join("deep")).len(), 1);
    under_way.place(true).unwrap();
    assert_eq!(folder.clean().unwrap(), 0);
    assert_eq!(names(&dir.path().join("deep")), ["new"]);
}

#[test]
fn parts_of_other_processes_are_measured() {
    let (dir, folder) = folder();
    let other = fs::File::create(dir.path().join(".weir-upload-1-1")).unwrap();
    other.set_len(7).unwrap();
    let own = folder.begin(&[b"own"]).unwrap();
    own.announce(5).unwrap();
    assert_eq!(
        folder.measure().unwrap(),
        Measured::default(),
        "nobody works on it"
    );
    rustix::fs::flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    let found = folder.measure().unwrap();
    assert!(found.bytes == 7 && found.has_others, "{found:?}");
}

#[test]
fn lists_and_depths_have_bounds() {
    let (_dir, folder) = folder();
    for name in [b"a", b"b", b"c"] {
        stored(&folder, &[name], b"");
    }
    assert!(folder.list(&[], 2).unwrap().is_none());
    assert_eq!(folder.list(&[], 3).unwrap().unwrap().len(), 3);
    let path = vec![&b"d"[..]; DEPTH_MAX];
    for depth in 1..DEPTH_MAX {
        folder.make_directory(&path[..depth], false).unwrap();
    }
    assert!(folder.make_directory(&path, false).is_err());
    // Neither a copy nor a move nests more deeply.
    folder.make_directory(&[b"e"], false).unwrap();
    let copied = |from: &[&[u8]], to: &[&[u8]], deep| folder.copy(from, to, deep, &mut |_| Ok(())).map(drop);
    let moved = |from: &[&[u8]], to: &[&[u8]]| folder.rename(from, to, false).map(drop);
    let long = io::ErrorKind::InvalidFilename;
    assert_eq!(copied(&[b"e"], &path, false).unwrap_err().kind(), long);
    assert_eq!(copied(&[b"d"], &[b"e", b"d"], true).unwrap_err().kind(), long);
    assert_eq!(moved(&[b"d"], &[b"e", b"d"]).unwrap_err().kind(), long);
    assert_eq!(moved(&[b"e"], &path).unwrap_err().kind(), long);
    copied(&[b"d", b"d"], &[b"e", b"d"], true).unwrap();
    moved(&[b"d", b"d"], &[b"e", b"d"]).unwrap();
    moved(&[b"e", b"d"], &[b"d", b"d"]).unwrap();
    assert_eq!(folder.measure().unwrap().bytes, 0);
    folder.remove(&[b"d"], false).unwrap().finish().unwrap();
}
