//! One worker's window on the site: what makes a hit cost a hash, a comparison and a flag.
//!
//! The table holds nothing but living entries of the store under their resolved paths. A path with
//! escapes or dot segments is resolved in a scratch buffer and then found like any other, so no
//! spelling a client invents takes up room.
//!
//! Entries that died stay in memory until each view lets go of them. A view does so in its turns, a
//! part of the table at a time while it is busy, all of it when a tenth of a second has passed; and a
//! view that is not used lets go of everything after [`IDLE`], then needs no more waking.

use super::load::{Load, Loaded};
use super::path::{self, Unnamed};
use super::{Encode, Shared, hash_with};
use crate::cache::Touch;
use crate::entry::{Answer, Entry, Missing, Part, Token};
use foldhash::fast::SeedableRandomState;
use hashbrown::HashTable;
use http_semantics::coding::Coding;
use measure::{Duration, Instant, UnixTime};
use std::sync::Arc;

/// Touches remembered until they are handed to the policy.
const TOUCHES_MAX: usize = 128;

/// Buckets looked at in one busy turn.
const SWEEP_STEP: usize = 256;

/// After this long without a full look at the table the whole of it is looked at in one turn.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// A view that was not used for this long holds nothing.
const IDLE: Duration = Duration::from_secs(1);

/// How long after a turn the next is wanted while anything is held.
const WAKE: Duration = Duration::from_millis(500);

/// One worker's window on the site. A hit takes no lock, makes no system call and allocates nothing.
#[derive(Debug)]
pub struct View {
    hasher: SeedableRandomState,
    table: HashTable<(u64, Arc<Entry>)>,
    touches: Vec<Touch>,
    counters: ViewCounters,
    used: bool,
    shared: Arc<Shared>,
    scratch: Vec<u8>,
    not_found: Arc<Entry>,
    sweep: Sweep,
    now: Instant,
    wall: UnixTime,
    used_at: Instant,
    /// Loads and encodings that were given to it.
    finished: u64,
}

/// Where letting go of the dead stands.
#[derive(Clone, Copy, Debug)]
struct Sweep {
    /// The store's count of deaths that is being acted on.
    deaths: u64,
    /// Buckets still to look at, and the next of them.
    left: usize,
    next: usize,
    /// When the table was last known to hold nothing dead.
    clean_at: Instant,
}

/// What a view knows of a path.
#[derive(Debug)]
pub enum Lookup<'v> {
    /// Known: answer now. (A path that can name no file is a hit on a 404.)
    Hit(&'v Arc<Entry>),
    /// Not known: run this job, then `View::finish`.
    Load(Load),
    /// The path is malformed (an escape that is none, NUL, no leading slash): 400.
    Refused,
}

/// What one view counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewCounters {
    /// Lookups answered from memory.
    pub hits: u64,
    /// Lookups that needed a load.
    pub misses: u64,
    /// Content bytes of the resources hit (length without coding, whatever was then sent).
    pub byte_hits: u64,
    /// Uses that the policy was not told of, because the store was busy.
    pub touches_lost: u64,
}

impl View {
    pub(super) fn new(shared: Arc<Shared>, now: Instant, wall: UnixTime) -> View {
        View {
            hasher: shared.hasher.clone(),
            table: HashTable::new(),
            touches: Vec::with_capacity(TOUCHES_MAX),
            counters: ViewCounters::default(),
            used: false,
            scratch: Vec::new(),
            not_found: Arc::new(Entry::new(Answer::Missing(Missing::NotFound))),
            sweep: Sweep {
                deaths: shared.store.deaths(),
                left: 0,
                next: 0,
                clean_at: now,
            },
            now,
            wall,
            used_at: now,
            finished: 0,
            shared,
        }
    }

    /// What `path` (raw: still percent-encoded, without query) resolves to.
    #[inline]
    pub fn lookup(&mut self, path: &[u8]) -> Lookup<'_> {
        // A path with an escape must not be taken for a name with a percent sign: names with one are
        // found only after resolving. The entry knows, so no path needs to be searched for escapes.
        let hash = hash_with(&self.hasher, path);
        let bucket = self.table.find_bucket_index(hash, |(h, entry)| {
            *h == hash && *entry.path == *path && entry.plain && !entry.is_dead()
        });
        if let Some(bucket) = bucket {
            return self.hit(bucket);
        }
        self.lookup_slowly(path)
    }

    fn find(&self, hash: u64, path: &[u8]) -> Option<usize> {
        self.table.find_bucket_index(hash, |(h, entry)| {
            *h == hash && *entry.path == *path && !entry.is_dead()
        })
    }

    #[inline]
    fn hit(&mut self, bucket: usize) -> Lookup<'_> {
        let Some((_, entry)) = self.table.get_bucket(bucket) else {
            return Lookup::Hit(&self.not_found);
        };
        note_use(entry, &self.shared, &mut self.touches, &mut self.counters);
        self.used = true;
        Lookup::Hit(entry)
    }

    /// An entry that a lookup gave earlier is used again without one: counts like a hit.
    #[inline]
    pub(crate) fn used_again(&mut self, entry: &Entry) {
        note_use(entry, &self.shared, &mut self.touches, &mut self.counters);
        self.used = true;
    }

    /// Changes whenever an entry that somebody may hold has died.
    #[inline]
    pub(crate) fn deaths(&self) -> u64 {
        self.shared.store.deaths()
    }

    /// Changes whenever what the cache holds may be other than before, as far as this view knows.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.deaths().wrapping_add(self.finished)
    }

    /// Whether it holds nothing, as after a while without use: then nobody should for its sake.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// By the resolved path; then in the store; then nobody knows it.
    #[cold]
    fn lookup_slowly(&mut self, raw: &[u8]) -> Lookup<'_> {
        match path::resolve(raw, self.shared.config.hidden, &mut self.scratch) {
            Ok(()) => {}
            Err(Unnamed::Malformed) => return Lookup::Refused,
            Err(Unnamed::Nothing) => return Lookup::Hit(&self.not_found),
        }
        let hash = hash_with(&self.hasher, &self.scratch);
        if let Some(bucket) = self.find(hash, &self.scratch) {
            return self.hit(bucket);
        }
        if self.shared.keeps()
            && let Some(entry) = self.shared.store.get(hash, &self.scratch)
        {
            let bucket = self.remember(entry);
            return self.hit(bucket);
        }
        self.counters.misses += 1;
        Lookup::Load(Load {
            shared: Arc::clone(&self.shared),
            path: self.scratch.as_slice().into(),
            hash,
            wall: self.wall,
            is_ahead: false,
        })
    }

    fn remember(&mut self, entry: Arc<Entry>) -> usize {
        self.used = true;
        if self.table.is_empty() {
            self.used_at = self.now;
        }
        self.table
            .insert_unique(entry.hash, (entry.hash, entry), |(hash, _)| *hash)
            .bucket_index()
    }

    /// Takes a finished job in and returns its answer.
    pub fn finish(&mut self, loaded: Loaded) -> Arc<Entry> {
        self.finished += 1;
        let entry = loaded.entry;
        let kept = entry.token != Token::NONE && !entry.is_dead();
        if kept && self.find(entry.hash, &entry.path).is_none() {
            self.remember(Arc::clone(&entry));
        }
        entry
    }

    /// An entry turned out not to be true any more: the next lookup of its path is a miss.
    #[cold]
    pub(crate) fn forget(&self, entry: &Entry) {
        self.shared.store.kill_entry(entry);
    }

    /// A job that makes `coding` of the entry's resource; `None` if it cannot be made, was tried, is
    /// being made by another request, or too many are being made: send another representation.
    pub fn encode(&mut self, entry: &Arc<Entry>, coding: Coding) -> Option<Encode> {
        self.encode_part(entry, Part::File, coding)
    }

    /// The same for this part of the entry's answer.
    pub fn encode_part(&mut self, entry: &Arc<Entry>, part: Part, coding: Coding) -> Option<Encode> {
        // A file that is not kept would be compressed for each request. So is a listing that is not, which is generated
        // for each as well.
        if entry.token == Token::NONE && part == Part::File {
            return None;
        }
        Encode::claim(&self.shared, entry, part, coding)
    }

    /// To be called from `Context::turn`: drops dead entries, passes on what was used.
    pub fn turn(&mut self, now: Instant, wall: UnixTime) {
        (self.now, self.wall) = (now, wall);
        if std::mem::take(&mut self.used) {
            self.used_at = now;
        }
        if self.table.is_empty() {
            self.sweep = Sweep {
                deaths: self.shared.store.deaths(),
                left: 0,
                next: 0,
                clean_at: now,
            };
            return;
        }
        if now.since(self.used_at) >= IDLE {
            hand_over(&self.shared, &mut self.touches, &mut self.counters, false);
            // A new table, so that the memory of the old one is given back too.
            self.table = HashTable::new();
            return;
        }
        self.sweep(now);
    }

    fn sweep(&mut self, now: Instant) {
        let deaths = self.shared.store.deaths();
        let buckets = self.table.num_buckets();
        if deaths != self.sweep.deaths {
            self.sweep.deaths = deaths;
            self.sweep.left = buckets;
        }
        if self.sweep.left == 0 {
            self.sweep.clean_at = now;
            return;
        }
        hand_over(&self.shared, &mut self.touches, &mut self.counters, false);
        let overdue = now.since(self.sweep.clean_at) >= SWEEP_EVERY;
        let step = if overdue {
            buckets
        } else {
            SWEEP_STEP.min(self.sweep.left)
        };
        for _ in 0..step {
            // The table may have grown since; then what was left is looked at in its new place.
            let bucket = self.sweep.next % buckets;
            self.sweep.next = bucket + 1;
            if self
                .table
                .get_bucket(bucket)
                .is_some_and(|(_, entry)| entry.is_dead())
                && let Ok(dead) = self.table.get_bucket_entry(bucket)
            {
                dead.remove();
            }
        }
        self.sweep.left = if overdue {
            0
        } else {
            self.sweep.left.min(buckets) - step
        };
        if self.sweep.left == 0 {
            self.sweep.clean_at = now;
        }
    }

    /// To be merged into `Context::wake`: while the view holds entries it must have its turn within
    /// a second, or evicted bytes would stay in memory. An idle view lets go of everything and sleeps.
    pub fn wake(&self) -> Option<Instant> {
        (!self.table.is_empty()).then(|| self.now + WAKE)
    }

    /// What was counted so far.
    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// What it counted.
    pub fn counters(&self) -> ViewCounters {
        self.counters
    }
}

/// Counts a hit and takes note of it for the policy.
#[inline]
fn note_use(entry: &Entry, shared: &Shared, touches: &mut Vec<Touch>, counters: &mut ViewCounters) {
    counters.hits += 1;
    counters.byte_hits += entry.size;
    match touches.last_mut() {
        Some(last) if last.token == entry.token => last.times = last.times.saturating_add(1),
        _ => {
            if touches.len() == TOUCHES_MAX {
                hand_over(shared, touches, counters, true);
            }
            touches.push(Touch {
                token: entry.token,
                times: 1,
            });
        }
    }
}

/// Tells the policy what was used. When the store is busy the touches are kept for the next time, or
/// dropped if there is no more room (`full`): a use more or less changes little.
#[cold]
fn hand_over(shared: &Shared, touches: &mut Vec<Touch>, counters: &mut ViewCounters, full: bool) {
    if shared.store.apply(touches) {
        touches.clear();
    } else if full {
        counters.touches_lost += touches.len() as u64;
        touches.clear();
    }
}
