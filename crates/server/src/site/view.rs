//! One worker's view of the site: a hit costs a hash, a comparison and a check of a flag.
//!
//! The table holds only live entries of the store under their resolved paths. A path with escapes or dot segments is
//! resolved in a scratch buffer and then found like any other, so clients cannot fill the table with spellings.
//!
//! Dead entries stay in memory until each view drops them. A view does so in its turns: a part of the table at a time
//! while it is busy, and all of it once a tenth of a second has passed. A view that is not used drops all entries after
//! [`IDLE`] and then needs no more turns.

use super::load::{Load, Loaded};
use super::path::{self, Unnamed};
use super::{Encode, Shared, hash_with};
use crate::entry::{Answer, Entry, Missing, Part, Token};
use crate::listing::Query;
use crate::store::Touch;
use foldhash::fast::SeedableRandomState;
use hashbrown::HashTable;
use http_semantics::coding::Coding;
use std::sync::{Arc, Mutex};
use units::{Duration, Instant, UnixTime};

/// Number of touches collected before they are handed to the policy.
const TOUCHES_MAX: usize = 128;

/// Number of buckets checked in one busy turn.
const SWEEP_STEP: usize = 256;

/// After this time without a complete check, the whole table is checked in one turn.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// A view unused for this long drops all entries.
const IDLE: Duration = Duration::from_secs(1);

/// Time until the next turn is needed while the view holds entries.
const WAKE: Duration = Duration::from_millis(500);

/// One worker's view of the site. A hit takes no lock, makes no system call and allocates nothing.
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
    /// Loads and compressions given to this view.
    finished: u64,
}

/// Progress in dropping dead entries.
#[derive(Clone, Copy, Debug)]
struct Sweep {
    /// The store's count of deaths that is being handled.
    deaths: u64,
    /// Number of buckets left to check, and the next of them.
    left: usize,
    next: usize,
    /// Last time at which the table was known to hold no dead entries.
    clean_at: Instant,
}

/// The result of a lookup.
#[derive(Debug)]
pub enum Lookup<'v> {
    /// Answer now. (A path that can name no file is a hit on a 404.)
    Hit(&'v Arc<Entry>),
    /// Run this job, then call `View::finish`.
    Load(Load),
    /// The path is malformed (an invalid escape, NUL, no leading slash): 400.
    Refused,
}

/// The result of [`View::locate`].
#[derive(Debug)]
pub(crate) enum Located {
    /// An entry, for [`View::entry`].
    Hit(Spot),
    /// As [`Lookup::Load`].
    Load(Load),
    /// As [`Lookup::Refused`].
    Refused,
}

/// Where an entry is in the table of its view; valid until the next call that changes the view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot(usize);

impl Spot {
    /// The entry for paths that can name no file, which is in no table.
    const NOT_FOUND: Spot = Spot(usize::MAX);
}

/// Counters of one view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewCounters {
    /// Lookups answered from memory.
    pub hits: u64,
    /// Lookups that needed a load.
    pub misses: u64,
    /// Content bytes of the resources hit (uncompressed length, whatever was sent).
    pub byte_hits: u64,
    /// Uses not reported to the policy because the store was busy.
    pub touches_lost: u64,
}

impl View {
    pub(super) fn new(shared: Arc<Shared>, now: Instant, wall: UnixTime) -> View {
        View {
            hasher: shared.hasher.clone(),
            table: HashTable::new(),
            touches: Vec::new(),
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

    /// Looks up `path` (raw: percent-encoded, without query).
    #[inline]
    pub fn lookup(&mut self, path: &[u8]) -> Lookup<'_> {
        match self.locate(path) {
            Located::Hit(spot) => Lookup::Hit(self.entry(spot)),
            Located::Load(job) => Lookup::Load(job),
            Located::Refused => Lookup::Refused,
        }
    }

    /// The entry found there.
    #[inline]
    pub(crate) fn entry(&self, spot: Spot) -> &Arc<Entry> {
        self.table
            .get_bucket(spot.0)
            .map_or(&self.not_found, |(_, entry)| entry)
    }

    /// As [`View::lookup`], for callers that look up further paths before they use the entry.
    #[inline]
    pub(crate) fn locate(&mut self, path: &[u8]) -> Located {
        // A path with an escape must not match a name with a percent sign; such names are found only after resolving.
        // The entry has a flag for this, so paths need not be searched for escapes.
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
    fn hit(&mut self, bucket: usize) -> Located {
        let Some((_, entry)) = self.table.get_bucket(bucket) else {
            return Located::Hit(Spot::NOT_FOUND);
        };
        note_use(entry, &self.shared, &mut self.touches, &mut self.counters);
        self.used = true;
        Located::Hit(Spot(bucket))
    }

    /// What a page embedded when it was last loaded, as the value of `Link`; `None` if that is unknown or not told.
    pub(crate) fn hint(&self, page: &[u8]) -> Option<Arc<str>> {
        self.shared.hints.as_ref()?.of(page)
    }

    /// Counts a hit on an entry from an earlier lookup that is used again without one.
    #[inline]
    pub(crate) fn used_again(&mut self, entry: &Entry) {
        note_use(entry, &self.shared, &mut self.touches, &mut self.counters);
        self.used = true;
    }

    /// Changes whenever an entry that could be held has died.
    #[inline]
    pub(crate) fn deaths(&self) -> u64 {
        self.shared.store.deaths()
    }

    /// Changes whenever the content of the cache may have changed, as far as this view knows.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.deaths().wrapping_add(self.finished)
    }

    /// Whether it holds no entries, as after a while without use. Others should then drop theirs, too.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Looks up the resolved path in the table, then in the store, and returns a load otherwise.
    #[cold]
    fn lookup_slowly(&mut self, raw: &[u8]) -> Located {
        match path::resolve(raw, self.shared.config.hidden, &mut self.scratch) {
            Ok(()) => {}
            Err(Unnamed::Malformed) => return Located::Refused,
            Err(Unnamed::Nothing) => return Located::Hit(Spot::NOT_FOUND),
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
        Located::Load(Load {
            shared: Arc::clone(&self.shared),
            path: self.scratch.as_slice().into(),
            wall: self.wall,
            is_ahead: false,
            query: None,
        })
    }

    /// As [`View::locate`], for a request with a query for listings. A cached listing shows another part of its directory,
    /// which is read anew then.
    #[cold]
    pub(crate) fn locate_part(&mut self, path: &[u8], query: &Query) -> Located {
        let found = self.locate(path);
        let query = || Some(Box::new(query.clone()));
        match found {
            Located::Load(load) => Located::Load(Load {
                query: query(),
                ..load
            }),
            Located::Hit(spot) => {
                let entry = self.entry(spot);
                let Answer::Listing(_) = entry.answer else {
                    return Located::Hit(spot);
                };
                Located::Load(Load {
                    shared: Arc::clone(&self.shared),
                    path: entry.path.clone(),
                    wall: self.wall,
                    is_ahead: false,
                    query: query(),
                })
            }
            Located::Refused => Located::Refused,
        }
    }

    fn remember(&mut self, entry: Arc<Entry>) -> usize {
        self.used = true;
        if self.table.is_empty() {
            self.used_at = self.now;
            // Not in `new`: there is a view of each site, and most may be unused.
            self.touches.reserve_exact(TOUCHES_MAX - self.touches.len());
        }
        self.table
            .insert_unique(entry.hash, (entry.hash, entry), |(hash, _)| *hash)
            .bucket_index()
    }

    /// Takes a finished job and returns its entry.
    pub fn finish(&mut self, loaded: Loaded) -> Arc<Entry> {
        self.finished += 1;
        let entry = loaded.entry;
        let kept = entry.token != Token::NONE && !entry.is_dead();
        if kept && self.find(entry.hash, &entry.path).is_none() {
            self.remember(Arc::clone(&entry));
        }
        entry
    }

    /// An entry proved outdated: the next lookup of its path is a miss.
    #[cold]
    pub(crate) fn forget(&self, entry: &Entry) {
        self.shared.store.kill_entry(entry);
    }

    /// A job that compresses the entry's resource with `coding`. `None` if that is impossible or was tried, another
    /// request is doing it, or too many compressions are running; send another representation then.
    pub fn encode(&self, entry: &Arc<Entry>, coding: Coding) -> Option<Encode> {
        self.encode_part(entry, Part::File, coding)
    }

    /// As [`View::encode`], for this part of the entry's answer.
    pub fn encode_part(&self, entry: &Arc<Entry>, part: Part, coding: Coding) -> Option<Encode> {
        // A file that is not cached would be compressed for each request. A listing that is not cached is generated for
        // each request anyway.
        if entry.token == Token::NONE && part == Part::File {
            return None;
        }
        Encode::claim(&self.shared, entry, part, coding)
    }

    /// To be called from `Context::turn`: drops dead entries and reports uses to the policy.
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
            // A new table, so that the old one's memory is freed, too.
            self.table = HashTable::new();
            self.touches.shrink_to_fit();
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
            // The table may have grown since; the rest is then checked at its new place.
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

    /// To be merged into `Context::wake`: while the view holds entries, it needs a turn within a second, or evicted
    /// bytes would stay in memory. An idle view drops all entries and needs none.
    pub fn wake(&self) -> Option<Instant> {
        (!self.table.is_empty()).then(|| self.now + WAKE)
    }

    /// The lock of the whole site, for whoever holds it by configuration.
    pub(crate) fn in_use(&self) -> &Mutex<()> {
        &self.shared.in_use
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// The counters so far.
    pub fn counters(&self) -> ViewCounters {
        self.counters
    }
}

/// Counts a hit and records it for the policy.
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

/// Reports uses to the policy. If the store is busy, they are kept for the next time, or dropped if there is no room
/// (`full`): single uses matter little.
#[cold]
fn hand_over(shared: &Shared, touches: &mut Vec<Touch>, counters: &mut ViewCounters, full: bool) {
    if shared.store.apply(touches) {
        touches.clear();
    } else if full {
        counters.touches_lost += touches.len() as u64;
        touches.clear();
    }
}
