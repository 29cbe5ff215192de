//! Stored responses on a disk, which survive a restart and a crash. They are written as they are stored in memory, and read
//! back into memory when a request needs one that memory no longer has.
//!
//! ```text
//!   replace ─▶ Index (entry without a file) ─▶ writer thread: make room, write, rename ─▶ entry with a file
//!   find ────▶ Index ─▶ Waiter                 reader thread: read, check, into the store ─▶ wakes who waits
//!   drop ────▶ Index (entry gone at once)      writer thread: remove the file
//! ```
//! The index is in memory; the writer builds it from the files at the start. So what is dropped is never found again, whatever the
//! state of its file. No event loop waits for the disk.

mod index;
#[cfg(test)]
mod tests;

use super::flight::{Lead, WaitGuard};
use super::object::{Object, Standing};
use super::record::{Record, start_len, start_of};
use super::store::Store;
use super::{Count, Counts, Purges};
use crate::config::ProxyCache;
use http_cache::stored::Stored;
use http_semantics::field::Fields;
use index::{Entry, Index, Place, rounded};
use runtime::background::Background;
use runtime::fs::RecordFolder;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use units::UnixTime;

/// Responses that wait to be written. Others stay in memory only.
const WRITES_MAX: usize = 256;

/// Reads that wait. Other requests go to the upstream.
const READS_MAX: usize = 1_024;

/// Bytes of a file that are read to know what it is. Longer heads need another read.
const FIRST_READ: u64 = 4 << 10;

/// Seconds after which a read hangs. Until it ends, requests go to the upstream instead of waiting behind it.
const HANGS: i64 = 2;

/// No read is under way.
const IDLE: i64 = i64::MAX;

/// Seconds between two complaints, and between two attempts to take the folder.
const PAUSE: i64 = 10;

/// The disk of a cache.
#[derive(Debug)]
pub(super) struct Disk {
    shared: Arc<Shared>,
    writer: Background<Job>,
    reader: Background<Load>,
}

/// Work of the writer.
enum Job {
    /// Takes the folder and finds what is in it.
    Open,
    Write(Place, Arc<Object>),
    /// Removes the files of what was dropped.
    Sweep,
}

/// Work of the reader. Those who wait are woken when it is dropped.
struct Load {
    place: Place,
    _lead: Lead,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    store: Arc<Store>,
    counts: Arc<Counts>,
    purges: Purges,
    /// Purges before the cache was made.
    purges_before: u64,
    index: Mutex<Index>,
    folder: OnceLock<RecordFolder>,
    /// Held while files are removed, so that who has waited for it finds them removed.
    sweeping: Mutex<()>,
    /// Seconds of civil time of the last attempt to take the folder.
    tried: AtomicI64,
    complained: AtomicI64,
    /// Seconds of civil time at which the read under way began, or [`IDLE`].
    reading_since: AtomicI64,
}

/// A read under way, until dropped.
struct Reading<'s>(&'s AtomicI64);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.store(IDLE, Ordering::Relaxed);
    }
}

/// What a disk holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskReport {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    pub(crate) bytes_peak: u64,
    pub(crate) bytes_max: u64,
}

impl Disk {
    pub(super) fn new(
        config: &ProxyCache,
        store: &Arc<Store>,
        counts: &Arc<Counts>,
        purges: &Purges,
    ) -> Option<Disk> {
        let shared = Arc::new(Shared {
            path: config.disk.clone()?,
            store: Arc::clone(store),
            counts: Arc::clone(counts),
            purges: purges.clone(),
            purges_before: purges.count(),
            index: Mutex::new(Index::new(config.disk_size.0, config.policy)),
            folder: OnceLock::new(),
            sweeping: Mutex::new(()),
            tried: AtomicI64::new(i64::MIN),
            complained: AtomicI64::new(i64::MIN),
            reading_since: AtomicI64::new(IDLE),
        });
        let (writes, reads) = (Arc::clone(&shared), Arc::clone(&shared));
        Some(Disk {
            shared,
            writer: Background::new("weir-cache-disk", WRITES_MAX, move |job, now| {
                writes.work(job, now)
            }),
            reader: Background::new("weir-cache-read", READS_MAX, move |load: Load, now| {
                reads.reading_since.store(now.secs, Ordering::Relaxed);
                let _reading = Reading(&reads.reading_since);
                reads.load(load.place, now);
            }),
        })
    }

    /// Takes the folder, unless that was tried. A process calls this once it does not fork any more.
    pub(super) fn awaken(&self) {
        self.take_folder(i64::MIN, 0);
    }

    /// Tries again to take the folder, now and then: another process may have ended.
    fn try_again(&self, now: UnixTime) {
        if self.shared.folder.get().is_none() {
            let tried = self.shared.tried.load(Ordering::Relaxed);
            if tried != i64::MIN && !(tried..tried.saturating_add(PAUSE)).contains(&now.secs) {
                self.take_folder(tried, now.secs);
            }
        }
    }

    fn take_folder(&self, before: i64, now: i64) {
        let tried = &self.shared.tried;
        let swapped = tried.compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed);
        if swapped.is_ok() {
            self.writer.offer(Job::Open);
        }
    }

    /// The stored response for a request, if there is one.
    pub(super) fn find(&self, key: &[u8], request: &Fields<'_, '_>) -> Option<Place> {
        self.shared.lock().find(key, request)
    }

    /// Reads a response into memory. The request waits for that.
    pub(super) fn load(&self, place: Place, lead: Lead) -> Option<WaitGuard> {
        let wait = lead.wait();
        let is_taken = self.reader.offer(Load { place, _lead: lead });
        is_taken.then_some(wait)
    }

    /// Whether the read under way takes so long that nobody should wait for the next.
    pub(super) fn hangs(&self, now: UnixTime) -> bool {
        let since = self.shared.reading_since.load(Ordering::Relaxed);
        now.secs.saturating_sub(since) >= HANGS
    }

    /// A request waited in vain for a read.
    pub(super) fn was_late(&self, now: UnixTime) {
        let late = io::Error::new(io::ErrorKind::TimedOut, "the disk does not answer");
        self.shared
            .complain("a response was not read in time", &late, now);
    }

    /// Writes a response in place of the one for the same request fields. A part of one is not written.
    pub(super) fn replace(&self, object: &Arc<Object>, now: UnixTime) {
        self.try_again(now);
        if object.part.is_some() {
            return;
        }
        let place = self.shared.lock().begin(object);
        if let Some(place) = place
            && !self.writer.offer(Job::Write(place, Arc::clone(object)))
        {
            self.shared.lock().forget(place);
        }
    }

    /// Drops the responses of a target that the predicate picks.
    pub(super) fn drop_where(&self, key: &[u8], is_picked: impl Fn(&Entry) -> bool) -> usize {
        let count = self.shared.lock().drop_where(key, is_picked);
        if count > 0 {
            self.writer.offer(Job::Sweep);
        }
        count
    }

    /// Drops the responses that the predicate picks. It gets their keys, and the lines with tags.
    pub(super) fn drop_all(&self, is_picked: impl Fn(&[u8], &[u8]) -> bool) -> usize {
        self.shared.lock().drop_all(is_picked)
    }

    /// Removes the files of what was dropped, for good: not even a power failure brings them back. Blocks.
    pub(super) fn sweep(&self, now: UnixTime) {
        self.shared.sweep(now);
        if let Some(folder) = self.shared.folder.get()
            && let Err(error) = folder.flush_removals()
        {
            self.shared
                .complain("removed files may be back after a power failure", &error, now);
        }
    }

    pub(super) fn report(&self) -> DiskReport {
        self.shared.lock().report()
    }

    /// Whether all that was asked for so far is done.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.writer.is_idle() && self.reader.is_idle()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, what: Count) {
        self.counts[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Says what the disk did not do, now and then.
    fn complain(&self, what: &str, error: &io::Error, now: UnixTime) {
        self.count(Count::DiskErrors);
        let last = self.complained.load(Ordering::Relaxed);
        if last == i64::MIN || !(last..last.saturating_add(PAUSE)).contains(&now.secs) {
            self.complained.store(now.secs, Ordering::Relaxed);
            let advice = match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "free space there, or lower `disk-size`"
                }
                io::ErrorKind::ResourceBusy => "name another folder for each cache",
                io::ErrorKind::TimedOut => "check the disk; until it answers, requests go to the upstream",
                _ => "the user of the server needs to create, read and remove files there",
            };
            tracing::warn!(
                "cache on disk `{}`: {what}: {error}; {advice}",
                self.path.display()
            );
        }
    }

    fn work(&self, job: Job, now: UnixTime) {
        match job {
            Job::Open => self.open(now),
            Job::Sweep => self.sweep(now),
            Job::Write(place, object) => {
                self.sweep(now);
                self.write(place, &object, now);
            }
        }
    }

    fn open(&self, now: UnixTime) {
        self.tried.store(now.secs, Ordering::Relaxed);
        if self.folder.get().is_some() {
            return;
        }
        let opened = RecordFolder::open(&self.path).and_then(|folder| {
            let taken = || io::Error::new(io::ErrorKind::ResourceBusy, "another cache or process uses it");
            let folder = folder.ok_or_else(taken)?;
            let found = folder.list()?;
            Ok((folder, found))
        });
        let (folder, found) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.complain("not used", &error, now),
        };
        let folder = self.folder.get_or_init(|| folder);
        self.lock()
            .number_from(found.last().map_or(0, |(number, _)| number + 1));
        for (number, len) in found {
            self.admit(folder, number, len, now);
        }
        self.lock().is_complete();
        self.sweep(now);
        let report = self.lock().report();
        tracing::info!(
            "cache on disk `{}`: {} stored responses, {} bytes",
            self.path.display(),
            report.entries,
            report.bytes
        );
    }

    /// Takes a file that was found into the index. One that is no record is removed.
    fn admit(&self, folder: &RecordFolder, number: u64, len: u64, now: UnixTime) {
        let record = folder.read(number, FIRST_READ).and_then(|start| {
            let record = Record::parse(&start, len);
            match start_len(&start).filter(|needed| record.is_none() && *needed > start.len()) {
                Some(needed) => Ok(Record::parse(&folder.read(number, needed as u64)?, len)),
                None => Ok(record),
            }
        });
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                self.complain("a file was not read", &error, now);
                None
            }
        };
        let mut index = self.lock();
        let purges = self.purges.since(self.purges_before);
        match record {
            Some(record)
                if !purges
                    .iter()
                    .any(|purge| purge.picks(&record.key, &record.head.lines())) =>
            {
                index.admit(Entry::of(number, len, record));
            }
            Some(_) => index.leave(number, len),
            None => {
                index.leave(number, len);
                self.count(Count::DiskErrors);
            }
        }
        // Above the budget, which may have been larger before.
        let has_too_much = index.evict_to_fit(0);
        drop(index);
        if has_too_much > 0 {
            self.evicted(has_too_much);
            self.sweep(now);
        }
    }

    fn evicted(&self, count: u64) {
        self.counts[Count::DiskEvicted as usize].fetch_add(count, Ordering::Relaxed);
    }

    fn sweep(&self, now: UnixTime) {
        let Some(folder) = self.folder.get() else { return };
        let _sweeping = self.sweeping.lock().unwrap_or_else(PoisonError::into_inner);
        let unlinks = self.lock().take_unlinks();
        for (number, size) in unlinks {
            match folder.remove(number) {
                Ok(()) => self.lock().released(size),
                Err(error) => self.complain("a file was not removed", &error, now),
            }
        }
    }

    fn write(&self, place: Place, object: &Object, now: UnixTime) {
        let (Some(folder), Some(start)) = (self.folder.get(), start_of(object)) else {
            return self.lock().forget(place);
        };
        let len = (start.len() + object.body.len()) as u64;
        let (evicted, has_room) = {
            let mut index = self.lock();
            if !index.is_current(place) {
                return;
            }
            let evicted = index.evict_to_fit(rounded(len));
            (evicted, index.has_room(rounded(len)))
        };
        self.evicted(evicted);
        if !has_room {
            return self.lock().forget(place);
        }
        self.sweep(now);
        // A file that was not removed still takes its room.
        if !self.lock().reserve(rounded(len)) {
            return self.lock().forget(place);
        }
        match folder.write(place.number, &[&start, &object.body]) {
            Ok(()) => {
                self.lock().written(place, len);
                self.count(Count::DiskWrites);
            }
            Err(error) => {
                let mut index = self.lock();
                index.released(rounded(len));
                index.forget(place);
                drop(index);
                self.complain("a response was not written", &error, now);
            }
        }
        // It may have been dropped meanwhile.
        self.sweep(now);
    }

    /// Reads a response into memory. One that is torn is dropped.
    fn load(&self, place: Place, now: UnixTime) {
        let Some(folder) = self.folder.get() else { return };
        let Some((len, is_its)) = self.lock().expected(place) else {
            return;
        };
        let Some(charge) = self.store.reserve(len) else {
            return;
        };
        // One byte more would show that the file is longer.
        let read = folder.read(place.number, len);
        let file = match read {
            Ok(file) => file,
            Err(error) => {
                self.complain("a file was not read", &error, now);
                return self.lock().drop_at(place);
            }
        };
        let record = Record::parse(&file, len);
        let record = record.filter(|record| is_its(record) && record.has_intact_body(&file));
        let Some(record) = record else {
            let torn = io::Error::new(io::ErrorKind::InvalidData, "it is not as it was written");
            self.complain("a file was removed", &torn, now);
            self.lock().drop_at(place);
            return self.sweep(now);
        };
        let cost = Object::cost(&record.key, &record.head, &record.variant);
        let Some(for_head) = self.store.reserve(cost) else {
            return;
        };
        let Record {
            key,
            head,
            names,
            variant,
            received,
            body,
            ..
        } = record;
        let object = Object {
            key: key.into(),
            head,
            names,
            variant,
            body: charge.hold(file).slice(body),
            file: None,
            part: None,
            received,
            is_from_disk: true,
            standing: Standing::default(),
            _charge: for_head,
        };
        // Whoever drops a response drops it here first, and then in memory.
        let index = self.lock();
        if index.is_current(place) {
            self.store.restore(object);
        }
    }
}

/// The lines of a head with tags, by which it may be purged.
fn tags_of(head: &Stored) -> Box<[u8]> {
    let mut text = Vec::new();
    for line in head.lines() {
        if super::purge::is_tagged(line.name) {
            crate::field_list::write_line(&mut text, line.name, line.value);
        }
    }
    text.into()
}
