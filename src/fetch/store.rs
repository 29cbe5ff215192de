//! The client's cache on disk: one file per entry with head and body together, so that a crash never separates them.
//!
//! ```text
//!   weir-cache 2 HEAD-BYTES BODY-BYTES DIGEST\n  head as JSON  body
//! ```
//! A new file is written under a temporary name and then renamed, so readers see the old entry or the new one. The
//! digest (XXH3, 128 bits) covers head and body: files that a machine crash left incomplete are detected and ignored.
//! Does not decide whether an entry is fresh.

use client::cache::{Entries, Entry, Kept};
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_128;

/// First word of every file, with the format version.
const MAGIC: &str = "weir-cache 2";
/// First word of files without request times; they are ignored, and replaced in time.
const OUTDATED: &[u8] = b"weir-cache 1 ";
/// Suffix of entry files; other files in the directory are left alone.
const SUFFIX: &str = ".entry";
/// Suffix of a file that is being written.
const UNFINISHED: &str = ".part";
/// Larger files are not cache entries.
const FILE_BYTES_MAX: u64 = 128 << 20;

/// A directory of entries.
#[derive(Debug)]
pub(super) struct Store {
    dir: PathBuf,
}

impl Store {
    /// Opens the directory and creates it if necessary.
    ///
    /// # Errors
    /// The directory cannot be created or opened.
    pub(super) fn open(dir: &Path) -> io::Result<Store> {
        fs::create_dir_all(dir)?;
        Ok(Store { dir: dir.to_owned() })
    }

    /// All complete entries, and the number of incomplete files.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub(super) fn load(&self) -> io::Result<(Entries, usize)> {
        let (mut entries, mut damaged) = (Entries::new(), 0);
        for file in fs::read_dir(&self.dir)? {
            let file = file?;
            let name = file.file_name();
            let name = name.to_string_lossy();
            if name.ends_with(UNFINISHED) {
                // Its writer is gone; a concurrent writer will write it again next time.
                let _ = fs::remove_file(file.path());
            }
            if !name.ends_with(SUFFIX) {
                continue;
            }
            match read(&file.path()) {
                Ok(bytes) if bytes.starts_with(OUTDATED) => {}
                bytes => match bytes.ok().as_deref().and_then(parse) {
                    Some(entry) => {
                        entries.insert(entry.kept.url.clone(), entry);
                    }
                    None => damaged += 1,
                },
            }
        }
        Ok((entries, damaged))
    }

    /// Writes changed entries. Returns the number of entries that could not be written, and the first error. Every
    /// entry on disk is the old one or the new one, and a failed write does not stop the others.
    pub(super) fn save(&self, entries: &Entries, changed: &BTreeSet<String>) -> (usize, Option<io::Error>) {
        let (mut failed, mut first) = (0, None);
        for url in changed {
            if let Err(error) = self.update(url, entries.get(url)) {
                failed += 1;
                first.get_or_insert(error);
            }
        }
        (failed, first)
    }

    fn update(&self, url: &str, entry: Option<&Entry>) -> io::Result<()> {
        let place = self.dir.join(name_of(url));
        match entry {
            Some(entry) => self.write(&place, &serialize(entry)?),
            None => match fs::remove_file(&place) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }
    }

    fn write(&self, place: &Path, bytes: &[u8]) -> io::Result<()> {
        // Another process may write the same entry: each uses its own temporary file.
        let mut part = place.as_os_str().to_owned();
        part.push(format!(".{}{UNFINISHED}", std::process::id()));
        let part = PathBuf::from(part);
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&part)
            .and_then(|mut file| file.write_all(bytes))
            .and_then(|()| fs::rename(&part, place));
        if written.is_err() {
            let _ = fs::remove_file(&part);
        }
        written
    }
}

#[allow(clippy::disallowed_methods, reason = "a command reads the folder it is given")]
fn read(path: &Path) -> io::Result<Vec<u8>> {
    if fs::metadata(path)?.len() > FILE_BYTES_MAX {
        return Err(io::Error::other("too large"));
    }
    fs::read(path)
}

fn name_of(url: &str) -> String {
    format!("{:032x}{SUFFIX}", XxHash3_128::oneshot(url.as_bytes()))
}

fn serialize(entry: &Entry) -> io::Result<Vec<u8>> {
    let head = serde_json::to_vec(&entry.kept)?;
    let digest = digest_of(&head, &entry.body);
    let mut bytes = format!("{MAGIC} {} {} {digest:032x}\n", head.len(), entry.body.len()).into_bytes();
    bytes.extend_from_slice(&head);
    bytes.extend_from_slice(&entry.body);
    Ok(bytes)
}

fn digest_of(head: &[u8], body: &[u8]) -> u128 {
    let mut hasher = XxHash3_128::new();
    hasher.write(head);
    hasher.write(body);
    hasher.finish_128()
}

/// The entry, if the file is complete.
fn parse(bytes: &[u8]) -> Option<Entry> {
    let end = bytes.iter().take(128).position(|&byte| byte == b'\n')?;
    let line = str::from_utf8(&bytes[..end]).ok()?.strip_prefix(MAGIC)?;
    let mut words = line.split_whitespace();
    let head_bytes: usize = words.next()?.parse().ok()?;
    let body_bytes: usize = words.next()?.parse().ok()?;
    let digest = u128::from_str_radix(words.next()?, 16).ok()?;
    let rest = &bytes[end + 1..];
    if head_bytes.checked_add(body_bytes)? != rest.len() {
        return None;
    }
    let (head, body) = rest.split_at(head_bytes);
    if digest_of(head, body) != digest {
        return None;
    }
    let kept: Kept = serde_json::from_slice(head).ok()?;
    Some(Entry {
        kept,
        body: body.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::UnixTime;

    fn entry(url: &str, body: &[u8]) -> Entry {
        let exchange = client::cache::Exchange {
            sent: &[],
            asked: UnixTime::from_secs(1_000_000),
            came: UnixTime::from_secs(1_000_000),
            status: 200,
            fields: vec![("etag".to_owned(), "\"a\"".to_owned())],
        };
        let kept = client::cache::keep(url, exchange).expect("may be kept");
        Entry {
            kept,
            body: body.to_vec(),
        }
    }

    fn stored(dir: &Path, all: &[(&str, &[u8])]) -> Store {
        let store = Store::open(dir).expect("a folder");
        let entries: Entries = all
            .iter()
            .map(|(url, body)| ((*url).to_owned(), entry(url, body)))
            .collect();
        let (failed, _) = store.save(&entries, &entries.keys().cloned().collect());
        assert_eq!(failed, 0, "there is room");
        store
    }

    #[test]
    fn what_is_saved_is_loaded_and_what_is_gone_is_gone() {
        let dir = tempfile::tempdir().expect("a folder");
        let store = stored(dir.path(), &[("http://h/a", b"one"), ("http://h/b", b"")]);
        let (mut entries, damaged) = store.load().expect("readable");
        assert_eq!((entries.len(), damaged), (2, 0));
        assert_eq!(entries["http://h/a"].body, b"one");
        entries.remove("http://h/a");
        assert_eq!(store.save(&entries, &["http://h/a".to_owned()].into()).0, 0);
        assert_eq!(store.load().expect("readable").0.len(), 1);
    }

    #[test]
    fn whatever_is_cut_off_or_turned_over_is_noticed() {
        let bytes = serialize(&entry("http://h/a", b"some bytes")).expect("JSON");
        assert!(parse(&bytes).is_some());
        for end in 0..bytes.len() {
            assert!(parse(&bytes[..end]).is_none(), "cut at {end}");
        }
        for place in 0..bytes.len() {
            let mut turned = bytes.clone();
            turned[place] ^= 0x01;
            // A different spelling of a number in the head line means the same entry.
            assert!(
                parse(&turned).is_none_or(|entry| entry.body == b"some bytes"),
                "turned at {place}"
            );
        }
    }

    #[test]
    fn what_a_crash_leaves_is_passed_over() {
        let dir = tempfile::tempdir().expect("a folder");
        let store = stored(dir.path(), &[("http://h/a", b"one")]);
        let whole = serialize(&entry("http://h/b", b"two")).expect("JSON");
        let torn = dir.path().join(name_of("http://h/b"));
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&torn)
            .expect("a file");
        file.write_all(&whole[..whole.len() - 1]).expect("room");
        let part = dir.path().join("x.entry.1.part");
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&part)
            .expect("a file");
        let outdated = dir.path().join(name_of("http://h/c"));
        let text = "weir-cache 1 2 0 0\n{}";
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&outdated)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .expect("a file");
        let (entries, damaged) = store.load().expect("readable");
        assert_eq!((entries.len(), damaged), (1, 1));
        assert!(!part.exists());
    }
}
