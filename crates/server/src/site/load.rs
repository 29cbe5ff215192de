//! Loads the response to a path that is not cached.
//!
//! ```text
//!  path/ ──▶ index file? ──▶ resource        path ──▶ file?      ──▶ resource (+ .br .zst .gz siblings)
//!              │ none                                 │ directory ──▶ redirect to path/
//!              ▼                                      ▼ else
//!            listing, or 403, or 404                404, 403, 503
//! ```
//!
//! The event loop tries a load first, with calls that use only data in memory. At the first call that would block, it
//! drops the attempt, and a helper repeats the whole load. Resources, redirects and listings are cached if there is
//! room. Missing files are not: another lookup costs a few microseconds and is always current, and a flood of wrong
//! paths evicts no entries.

use super::Shared;
use super::path;
use super::readme;
use super::represent::{self, Body, Lines};
use super::tree::Opened;
use crate::cache::Charge;
use crate::checked::Checked;
use crate::config::{ColdReads, LookupTime};
use crate::entity_tag;
use crate::entry::{Answer, Content, Entry, Listing, Missing, Part, Resource};
use crate::entry::{Draft, Polls, Recipe};
use crate::field_list::{FieldList, write_line};
use crate::filter::Entity;
use crate::listing::{self, Query};
use crate::media_type::MediaType;
use crate::store::{ENTRY_OVERHEAD, Snapshot};
use bytes::Bytes;
use core::fmt;
use http_semantics::coding::Coding;
use runtime::complaints;
use runtime::fs::{self, Kind, OpenError, ReadError, Wait};
use runtime::session::Job;
use std::sync::Arc;
use units::UnixTime;

/// Suffixes and codings of precompressed siblings.
pub(super) const SIBLINGS: [(&str, Coding); 3] = [
    (".br", Coding::Brotli),
    (".zst", Coding::Zstd),
    (".gz", Coding::Gzip),
];

/// How often a file that changes while it is read is read again, before it is sent without caching.
const READS_MAX: usize = 3;

/// Field of a listing that keeps scripts out, unless the configuration has one.
const POLICY: &str = "Content-Security-Policy";

/// For longer files, a helper thread asks whether they are written back to disk.
const ASKED_AT_ONCE: u64 = 64 << 20;

/// Looks up a path: opens and reads files, builds the header blocks, and caches the entry.
#[derive(Debug)]
pub struct Load {
    pub(crate) shared: Arc<Shared>,
    /// The resolved path.
    pub(crate) path: Box<[u8]>,
    pub(crate) wall: UnixTime,
    /// Whether this load precedes its request. The files it embeds are then not loaded in turn.
    pub(crate) is_ahead: bool,
    /// The part of a directory to show, if the path is listed; `None`: the first page. Only that page is cached: clients choose
    /// the queries.
    pub(crate) query: Option<Box<Query>>,
}

/// A finished load or compression, for [`View::finish`](super::View::finish).
#[derive(Debug)]
pub struct Loaded {
    pub(crate) entry: Arc<Entry>,
    /// Whether the job was rejected because too many were waiting.
    pub(crate) is_refused: bool,
    /// Nothing was loaded: a check was made, and this is its result.
    pub(crate) checked: Option<Checked>,
}

impl Loaded {
    pub(super) fn of(entry: Arc<Entry>) -> Loaded {
        Loaded {
            entry,
            is_refused: false,
            checked: None,
        }
    }

    /// The result of a check.
    pub(crate) fn checked(checked: Checked) -> Loaded {
        Loaded {
            checked: Some(checked),
            ..Loaded::nothing()
        }
    }

    /// The result of work that loads nothing.
    pub(crate) fn nothing() -> Loaded {
        Loaded::of(Arc::new(Entry::new(Answer::Missing(Missing::Unavailable))))
    }

    /// The resulting entry.
    pub fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }
}

impl Job for Load {
    type Output = Loaded;

    fn try_now(self) -> Result<Loaded, Load> {
        match self.shared.config.behavior.cold_reads {
            ColdReads::Auto => {}
            ColdReads::Inline => return Ok(self.run()),
            ColdReads::Helper => return Err(self),
        }
        match self.attempt(Wait::Cached) {
            Ok(entry) => Ok(Loaded::of(entry)),
            Err(Blocked) => Err(self),
        }
    }

    fn run(self) -> Loaded {
        // An earlier job in the queue may have loaded it.
        if self.shared.keeps()
            && let Some(entry) = self.shared.store.get(self.hash(), &self.path)
            && !(self.query.is_some() && matches!(entry.answer, Answer::Listing(_)))
        {
            return Loaded::of(entry);
        }
        let entry = match self.attempt(Wait::Block) {
            Ok(entry) => entry,
            Err(Blocked) => self.missing(Missing::Unavailable, Some(Cause::Renamed)),
        };
        Loaded::of(entry)
    }
}

/// Whether a sibling is older than its file, so that its content is outdated. Compared in whole seconds: compressors
/// give their output the file's time, often without the fraction.
fn is_stale(sibling: &Opened, modified: UnixTime) -> bool {
    match sibling {
        Opened::Disk { file, .. } => file.meta().modified.secs < modified.secs,
        Opened::Embedded { .. } | Opened::Directory { .. } => false,
    }
}

/// The call would have had to block.
#[derive(Debug)]
struct Blocked;

/// Why a load has no result.
#[derive(Debug)]
enum Stop {
    Blocked,
    /// There is no content. The cause is logged; without a cause, the path simply does not exist.
    Missing(Missing, Option<Cause>),
}

impl Stop {
    const NOT_FOUND: Stop = Stop::Missing(Missing::NotFound, None);
}

/// Why an existing file cannot be served.
#[derive(Clone, Copy, Debug)]
enum Cause {
    Open(OpenError),
    Read(ReadError),
    /// The file is being written.
    Written,
    /// Names on the path change faster than they can be resolved.
    Renamed,
    /// The disk took longer than `disk-timeout`, or `max-disk-queue` requests were already waiting for it.
    Waited,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Open(cause @ OpenError::Forbidden) => write!(
                f,
                "{cause}; the server's user must be able to read the file and search its directories"
            ),
            Cause::Open(OpenError::Link) => f.write_str("symbolic links are rejected (--symlinks=false)"),
            Cause::Open(OpenError::OutsideRoot) => {
                f.write_str("a symbolic link leads out of the root; only links that stay inside are followed")
            }
            Cause::Open(cause) => cause.fmt(f),
            Cause::Read(cause) => cause.fmt(f),
            Cause::Written => f.write_str("the file is being written; replace files by renaming"),
            Cause::Waited => f.write_str(
                "the disk did not respond in time (disk-timeout), or too many requests were waiting for it (max-disk-queue)",
            ),
            Cause::Renamed => f.write_str("names on the path change faster than they can be resolved"),
        }
    }
}

impl From<OpenError> for Stop {
    fn from(error: OpenError) -> Stop {
        match error {
            OpenError::WouldBlock => Stop::Blocked,
            OpenError::NotFound => Stop::NOT_FOUND,
            // Treated as missing, so that nothing outside the root is revealed.
            OpenError::OutsideRoot | OpenError::Link | OpenError::Loop | OpenError::Special => {
                Stop::Missing(Missing::NotFound, Some(Cause::Open(error)))
            }
            OpenError::Forbidden => Stop::Missing(Missing::Forbidden, Some(Cause::Open(error))),
            OpenError::TooManyOpen | OpenError::Io(_) => {
                Stop::Missing(Missing::Unavailable, Some(Cause::Open(error)))
            }
        }
    }
}

impl From<ReadError> for Stop {
    fn from(error: ReadError) -> Stop {
        match error {
            ReadError::WouldBlock => Stop::Blocked,
            ReadError::Io(_) => Stop::Missing(Missing::Unavailable, Some(Cause::Read(error))),
        }
    }
}

/// A response before it is cached.
struct Found {
    answer: Answer,
    /// Bytes reserved by its content.
    content: u64,
    /// The files it keeps open.
    files: Vec<Arc<fs::File>>,
    /// Whether it may be cached.
    keep: bool,
    /// Whether its path has symbolic links, so that events do not report every change.
    linked: bool,
}

impl Load {
    /// The hash of the path, by which the store finds its entry.
    fn hash(&self) -> u64 {
        self.shared.hash(&self.path)
    }

    /// The result if the load does not run: 503.
    pub(crate) fn refuse(self) -> Loaded {
        Loaded {
            entry: self.missing(Missing::Unavailable, Some(Cause::Waited)),
            is_refused: true,
            checked: None,
        }
    }

    fn attempt(&self, wait: Wait) -> Result<Arc<Entry>, Blocked> {
        let entry = self.look_up(wait)?;
        self.shared.correct_hint(&self.path, &entry);
        Ok(entry)
    }

    fn look_up(&self, wait: Wait) -> Result<Arc<Entry>, Blocked> {
        if !self.shared.keeps() {
            return match self.try_ancestors(wait).and_then(|()| self.locate(wait)) {
                Ok(found) => Ok(Arc::new(Entry::new(found.answer))),
                Err(Stop::Blocked) => Err(Blocked),
                Err(Stop::Missing(missing, cause)) => Ok(self.missing(missing, cause)),
            };
        }
        if wait == Wait::Cached && self.shared.graft_of(&self.path).is_some() {
            return Err(Blocked);
        }
        let directory = path::directory(&self.path);
        // This order misses no change: watch, take a snapshot, look up, compare when inserting.
        let lead = self.shared.lead(&self.path);
        let Some(watched) = self.shared.watch(&self.path, wait) else {
            return Err(Blocked);
        };
        let snapshot = self.shared.store.snapshot(self.shared.hash(directory));
        let entry = self.locate(wait).and_then(|found| {
            let polled = self.shared.tree_changes(&self.path) && found.keep && (!watched || found.linked);
            if !polled {
                let Some(lead) = lead else {
                    return Ok(self.settle(found, None, snapshot));
                };
                // Events report changes within the directory, but not that its name now leads elsewhere.
                return match self.shared.poll(lead) {
                    Some(polls) => Ok(self.settle(found, Some(polls), snapshot)),
                    None => Ok(Arc::new(Entry::new(found.answer))),
                };
            }
            if let Answer::Listing(_) = found.answer {
                // A listing shows the length and date of every file: too much to poll.
                return Ok(Arc::new(Entry::new(found.answer)));
            }
            if wait == Wait::Cached {
                return Err(Stop::Blocked);
            }
            // No events: record the state to compare with, then look up again.
            let proof = self.shared.proof(&self.path, self.wall);
            let found = self.locate(wait)?;
            match proof.and_then(|proof| self.shared.poll(proof)) {
                Some(polls) => Ok(self.settle(found, Some(polls), snapshot)),
                None => Ok(Arc::new(Entry::new(found.answer))),
            }
        });
        match entry {
            Ok(entry) => Ok(entry),
            Err(Stop::Blocked) => Err(Blocked),
            Err(Stop::Missing(missing, cause)) => Ok(self.missing(missing, cause)),
        }
    }

    /// Tries to open the configured file in each directory down to the requested one. The result does not matter.
    fn try_ancestors(&self, wait: Wait) -> Result<(), Stop> {
        let Some(name) = &self.shared.config.behavior.ancestor_file else {
            return Ok(());
        };
        let slashes = self.path.iter().enumerate().filter(|(_, b)| **b == b'/');
        for (at, _) in slashes {
            let file = join(self.path.get(1..at).unwrap_or_default(), name.as_bytes());
            if let Err(OpenError::WouldBlock) = self.shared.open(&file, wait) {
                return Err(Stop::Blocked);
            }
        }
        Ok(())
    }

    /// The response for missing content. Logs the cause.
    fn missing(&self, missing: Missing, cause: Option<Cause>) -> Arc<Entry> {
        // Perhaps its root is gone.
        self.shared.look_at_roots();
        // A load ahead has no request to report on.
        if let Some(cause) = cause.filter(|_| !self.is_ahead) {
            let status = missing.status().as_u16();
            complaints::warn(&self.path, || match self.shared.root_of(&self.path) {
                Some(root) => format!("cannot be served from `{}` ({status}): {cause}", root.display()),
                None => format!("cannot be served ({status}): {cause}"),
            });
        }
        Arc::new(Entry::new(Answer::Missing(missing)))
    }

    fn locate(&self, wait: Wait) -> Result<Found, Stop> {
        match self
            .path
            .strip_prefix(b"/")
            .and_then(|rel| rel.strip_suffix(b"/").or(rel.is_empty().then_some(rel)))
        {
            Some(rel) => self.directory(rel, wait),
            None => self.file_or_redirect(wait),
        }
    }

    fn file_or_redirect(&self, wait: Wait) -> Result<Found, Stop> {
        let rel = &self.path[1..];
        match self.shared.open(rel, wait)? {
            Opened::Directory { linked } => {
                let mut location = Vec::with_capacity(self.path.len() + 1);
                path::encode(&self.path, &mut location);
                location.push(b'/');
                Ok(Found {
                    answer: Answer::Redirect(location.into()),
                    content: 0,
                    files: Vec::new(),
                    keep: true,
                    linked,
                })
            }
            opened => self.resource(rel, opened, wait),
        }
    }

    fn directory(&self, rel: &[u8], wait: Wait) -> Result<Found, Stop> {
        let config = &self.shared.config;
        let mut passed_over = None;
        for index in self.shared.index_of(rel) {
            let file = join(rel, index.as_bytes());
            match self.shared.open(&file, wait) {
                Ok(Opened::Directory { .. }) | Err(OpenError::NotFound) => {}
                Err(error @ (OpenError::Link | OpenError::Loop | OpenError::Special)) => {
                    passed_over = Some(Cause::Open(error));
                }
                // It is no index for the file server.
                Ok(_)
                    if config
                        .scripts
                        .iter()
                        .any(|scripts| scripts.hides(path::name(&file))) => {}
                Ok(opened) => return self.resource(&file, opened, wait),
                Err(error) => return Err(error.into()),
            }
        }
        // A directory with a script is not listed: its route comes first.
        for scripts in &config.scripts {
            let script = join(rel, scripts.index.as_bytes());
            match self.shared.open(&script, wait) {
                Ok(Opened::Disk { .. }) | Err(OpenError::Forbidden) => {
                    return Err(Stop::Missing(Missing::Forbidden, None));
                }
                Err(OpenError::WouldBlock) => return Err(Stop::Blocked),
                Ok(_) | Err(_) => {}
            }
        }
        match self.shared.open(rel, wait)? {
            Opened::Directory { linked } if self.shared.lists(rel) => {
                // Reading a directory may always block.
                if wait == Wait::Cached {
                    return Err(Stop::Blocked);
                }
                self.listing(rel, linked, wait)
            }
            Opened::Directory { .. } => Err(Stop::Missing(Missing::Forbidden, passed_over)),
            // A file with a final slash is not a directory.
            Opened::Disk { .. } | Opened::Embedded { .. } => Err(Stop::NOT_FOUND),
        }
    }

    /// The resource of an opened file, with its siblings.
    fn resource(&self, rel: &[u8], opened: Opened, wait: Wait) -> Result<Found, Stop> {
        let config = &self.shared.config;
        let name = path::name(rel);
        if config.scripts.iter().any(|scripts| scripts.hides(name)) {
            return Err(Stop::NOT_FOUND);
        }
        let also = config.compress.as_ref().map_or(&[][..], |c| &c.also);
        let media_type = MediaType::of_file(name, &config.types, config.charset.as_deref(), also);
        let (modified, mut linked) = match &opened {
            Opened::Disk { file, linked } => (file.meta().modified, *linked),
            Opened::Embedded { modified, .. } => (*modified, false),
            Opened::Directory { .. } => return Err(Stop::NOT_FOUND),
        };
        let identity = self.body(rel, opened, Coding::Identity, wait)?;
        let file = [b"/", rel].concat();
        let (identity, configured, is_replaced) = self.filtered(&file, &media_type, identity, wait)?;
        let is_excepted = self.is_excepted(&file);
        let mut bodies = vec![(Coding::Identity, identity)];
        if config.precompressed
            && !is_excepted
            // Siblings of replaced content are outdated.
            && !is_replaced
            && !SIBLINGS
                .iter()
                .any(|(suffix, _)| name.ends_with(suffix.as_bytes()))
        {
            for (suffix, coding) in SIBLINGS {
                let sibling = [rel, suffix.as_bytes()].concat();
                match self.shared.open(&sibling, wait) {
                    Ok(Opened::Directory { .. }) => {}
                    Ok(opened) => {
                        linked |= matches!(opened, Opened::Disk { linked: true, .. });
                        if is_stale(&opened, modified) {
                            continue;
                        }
                        bodies.push((coding, self.body(&sibling, opened, coding, wait)?));
                    }
                    Err(OpenError::WouldBlock) => return Err(Stop::Blocked),
                    // A sibling that cannot be opened is ignored, because the file itself can be served.
                    Err(_) => {}
                }
            }
        }
        // A file with siblings has the codings that its author chose. If it cannot be cached, compressing it would be
        // repeated for every request.
        let len = bodies[0].1.len;
        let makeable = match &config.compress {
            Some(compress)
                if bodies.len() == 1
                    && !is_excepted
                    && media_type.compressible
                    && len <= self.shared.store.largest()
                    && self.shared.keeps() =>
            {
                compress.codings(len)
            }
            _ => Vec::new(),
        };
        let coded = bodies.len() > 1 || !makeable.is_empty();
        // Its validators must differ from those of another version, whose file may be as old, or younger.
        let modified = match config.modified_min {
            Some(min) if self.shared.trees.mount_of(rel).is_none() => modified.max(min),
            _ => modified,
        };
        let last_modified = represent::last_modified(modified, self.wall);
        let lines = Lines {
            last_modified: Some(last_modified),
            vary: represent::vary(Part::File, coded),
            configured: &configured,
            media_type: &media_type,
        };
        let recipe = match config.behavior.fresh_head {
            true => Some(Arc::new(Recipe::of(&lines, &configured))),
            false => None,
        };
        let mut found = Found {
            answer: Answer::Missing(Missing::NotFound),
            content: 0,
            files: Vec::new(),
            keep: true,
            linked,
        };
        let mut representations = Vec::with_capacity(bodies.len());
        for (coding, body) in bodies {
            found.content += body.reserved;
            found.files.extend(body.file);
            found.keep &= body.keep;
            representations.push(represent::representation(
                &lines,
                coding,
                body.etag,
                body.content,
                body.len,
            ));
        }
        let resource = Resource::new(Some(last_modified), representations, &makeable, configured);
        let index = config.index.iter().position(|known| known.as_bytes() == name);
        let index = index.filter(|_| self.path.ends_with(b"/"));
        let index = index.and_then(|at| u8::try_from(at).ok());
        found.answer = Answer::Resource(resource.composed_of(recipe).numbered(index));
        Ok(found)
    }

    /// Whether `file` (for a listing, the path itself) is sent uncompressed because of its path.
    fn is_excepted(&self, file: &[u8]) -> bool {
        let except = &self.shared.config.compress_except;
        let matches = |decoded: &[u8]| {
            let mut spelled = Vec::new();
            path::encode(decoded, &mut spelled);
            except.iter().any(|pattern| pattern.matches(&spelled))
        };
        !except.is_empty() && (matches(&self.path) || matches(file))
    }

    /// Runs the filters on `body`, the content of `file` (for a listing, the path itself). Returns the body, its field
    /// lines, and whether the content was replaced.
    fn filtered(
        &self,
        file: &[u8],
        media_type: &MediaType,
        body: Body,
        wait: Wait,
    ) -> Result<(Body, Bytes, bool), Stop> {
        let config = &self.shared.config;
        if config.filters.is_empty() {
            return Ok((body, self.shared.configured.clone(), false));
        }
        let value = String::from_utf8_lossy(&media_type.value);
        let essence = value.split(';').next().unwrap_or_default().trim_end();
        let wanted = body.len <= Entity::CONTENT_MAX && config.filters.want_content(&self.path, essence);
        let content = match &body.content {
            _ if !wanted => None,
            Content::Memory(bytes) => Some(bytes.clone()),
            Content::File(file) => {
                let bytes = file.read_all(0, body.len as usize, wait)?;
                let is_whole = bytes.len() as u64 == body.len && file.meta_now()? == *file.meta();
                // The file is being written; the next request may find it complete.
                Some(Bytes::from(is_whole.then_some(bytes).ok_or(Stop::Missing(
                    Missing::Unavailable,
                    Some(Cause::Written),
                ))?))
            }
        };
        let entity = Entity::new((&self.path, file), essence, body.len, &config.fields, content);
        let filtered = config.filters.pass(entity);
        let configured = self.shared.lines(filtered.fields);
        let Some(content) = filtered.content else {
            return Ok((body, configured, false));
        };
        let (len, keep) = (content.len() as u64, body.keep);
        drop(body);
        let body = match self.shared.store.reserve(len, 0) {
            Some(charge) => Body::memory(charge.hold(content.into()), Coding::Identity, len, keep),
            None => Body::memory(content, Coding::Identity, 0, false),
        };
        Ok((body, configured, true))
    }

    /// The content of an opened file: in memory if it is small and there is room, otherwise the file itself.
    fn body(&self, rel: &[u8], opened: Opened, coding: Coding, wait: Wait) -> Result<Body, Stop> {
        let (mut file, _) = match opened {
            Opened::Disk { file, linked } => (file, linked),
            Opened::Embedded { bytes, .. } => {
                return Ok(Body::memory(Bytes::from_static(bytes), coding, 0, true));
            }
            Opened::Directory { .. } => return Err(Stop::NOT_FOUND),
        };
        let mut reads = 0;
        while self.shared.keeps() && file.meta().len <= represent::HASHED_MAX.max(self.shared.memory_max) {
            let len = file.meta().len;
            let room = match len <= self.shared.memory_max {
                true => self.shared.store.reserve(len, 0),
                false => None,
            };
            let bytes = file.read_all(0, len as usize, wait)?;
            reads += 1;
            let unchanged = bytes.len() as u64 == len && file.meta_now()? == *file.meta();
            match room {
                Some(charge) if unchanged || reads == READS_MAX => {
                    return Ok(Body::memory(charge.hold(bytes), coding, len, unchanged));
                }
                None if unchanged => {
                    let mut etag = represent::etag_of_bytes(&bytes, coding);
                    // The file is sent in the state of that moment, and a write right after this one leaves no trace in
                    // its times.
                    if !entity_tag::shows_writes(&file, self.wall) {
                        etag = represent::weak(&etag);
                    }
                    // A small file belongs in memory: load it again when there is room.
                    return Ok(Body::file(file, etag, len > self.shared.memory_max));
                }
                None if reads == READS_MAX => break,
                Some(_) | None => {}
            }
            // Open it again, because it may have been replaced and not rewritten.
            match self.shared.open(rel, wait)? {
                Opened::Disk { file: again, .. } => file = again,
                _ => return Err(Stop::NOT_FOUND),
            }
        }
        if wait == Wait::Cached && file.meta().len > ASKED_AT_ONCE {
            return Err(Stop::Blocked);
        }
        let is_strong = entity_tag::shows_writes(&file, self.wall);
        let etag = represent::etag_of_meta(file.meta(), coding, is_strong);
        // A weak tag should soon become strong: load it again, which is cheap because nothing is hashed.
        Ok(Body::file(file, etag, is_strong))
    }

    fn listing(&self, rel: &[u8], mut linked: bool, wait: Wait) -> Result<Found, Stop> {
        let config = &self.shared.config;
        let listed = self.shared.trees.list(rel, config.listing_entries_max)?;
        let items: Vec<_> = listed
            .entries
            .into_iter()
            .filter(|entry| match config.hidden {
                _ if entry.kind == Kind::Other => false,
                true => !fs::WriteFolder::is_part(&entry.name),
                false => !entry.name.starts_with(b"."),
            })
            .map(|entry| listing::Item {
                name: entry.name,
                size: (entry.kind == Kind::File).then_some(entry.len),
                modified: entry.modified,
            })
            .collect();
        let whole = Query::default();
        let query = self.query.as_deref().unwrap_or(&whole);
        let is_kept = self.query.is_none();
        let readme = match query.is_start() {
            true => readme::read(&self.shared, &self.path, &items),
            false => None,
        };
        // No event in this directory reports a change of a file elsewhere.
        linked |= readme.as_ref().is_some_and(|(_, linked)| *linked);
        let page = listing::Page::of(&self.path, query, items, listed.truncated);
        let is_excepted = self.is_excepted(&self.path);
        let html = listing::html(&page, &config.theme, readme.as_ref().map(|(readme, _)| readme));
        let json = listing::json(&page);
        drop(page);
        let mut found = Found {
            answer: Answer::Missing(Missing::NotFound),
            content: 0,
            files: Vec::new(),
            keep: is_kept,
            linked,
        };
        let mut resource = |part, essence, text: Vec<u8>| {
            let media_type = MediaType::of_essence(essence, Some("utf-8"), &[]);
            let len = text.len() as u64;
            let room = is_kept.then(|| self.shared.store.reserve(len, 0)).flatten();
            let body = match room {
                Some(charge) => Body::memory(charge.hold(text), Coding::Identity, len, true),
                None => Body::memory(Bytes::from(text), Coding::Identity, 0, false),
            };
            let (body, mut configured, _) = self.filtered(&self.path, &media_type, body, wait)?;
            if part == Part::Html && !FieldList::of(&configured).has(POLICY) {
                let mut lines = configured.to_vec();
                write_line(&mut lines, POLICY, listing::policy(&config.theme).as_bytes());
                configured = lines.into();
            }
            // The number of names is limited, and so is the cost of compressing them.
            let makeable = match &config.compress {
                Some(compress) if self.shared.keeps() && !is_excepted => {
                    compress.codings(body.len.min(compress.size_max.0))
                }
                _ => Vec::new(),
            };
            let lines = Lines {
                last_modified: None,
                vary: represent::vary(part, !makeable.is_empty()),
                configured: &configured,
                media_type: &media_type,
            };
            found.content += body.reserved;
            found.keep &= body.keep;
            let one = represent::representation(&lines, Coding::Identity, body.etag, body.content, body.len);
            Ok::<_, Stop>(Resource::new(None, vec![one], &makeable, configured))
        };
        let html = resource(Part::Html, "text/html", html)?;
        let json = resource(Part::Json, "application/json", json)?;
        found.answer = Answer::Listing(Box::new(Listing { html, json }));
        Ok(found)
    }

    /// Caches the result if that is allowed and there is room.
    fn settle(&self, found: Found, polls: Option<Polls>, snapshot: Snapshot) -> Arc<Entry> {
        let charge = match found.keep {
            true => self.shared.charge(&self.path, &found.answer, &found.files),
            false => None,
        };
        let Some(charge) = charge else {
            return Arc::new(Entry::new(found.answer));
        };
        let draft = Draft {
            path: self.path.clone(),
            hash: self.hash(),
            answer: found.answer,
            charge,
            content: found.content,
            polls,
        };
        let entry = self.shared.store.insert(draft, snapshot);
        if !self.is_ahead {
            self.shared.anticipate(&entry);
        }
        entry
    }
}

impl Shared {
    /// Whether results are cached at all.
    pub(super) fn keeps(&self) -> bool {
        self.config.behavior.lookup == LookupTime::Cached
    }

    /// Opens a path. If descriptors are short, closes some cached files and tries once more.
    fn open(&self, rel: &[u8], wait: Wait) -> Result<Opened, OpenError> {
        match self.trees.open_file(rel, wait) {
            Err(OpenError::TooManyOpen) if self.store.shed_descriptors() => self.trees.open_file(rel, wait),
            result => result,
        }
    }

    /// Reserves the memory and descriptors of an entry, without its content.
    pub(crate) fn charge(&self, path: &[u8], answer: &Answer, files: &[Arc<fs::File>]) -> Option<Charge> {
        let texts = match answer {
            Answer::Resource(_) | Answer::Listing(_) => answer
                .resources()
                .map(|resource| represent::footprint(&resource.representations))
                .sum(),
            Answer::Redirect(location) => location.len() as u64,
            Answer::Missing(_) => 0,
        };
        // Lines common to all responses are stored once; lines from filters are stored with each entry.
        let own: u64 = answer
            .resources()
            .filter(|resource| resource.configured.as_ptr() != self.configured.as_ptr())
            .map(|resource| resource.configured.len() as u64)
            .sum();
        let bytes = ENTRY_OVERHEAD + path.len() as u64 + texts + own;
        let mut charge = self.store.reserve(bytes, files.len() as u64)?;
        charge.attach(files);
        Some(charge)
    }
}

/// `directory/name`, or `name` directly below the root.
pub(crate) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() {
        return name.to_vec();
    }
    [directory, b"/", name].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_but_a_plain_404_has_a_cause() {
        for (error, missing, said) in [
            (OpenError::NotFound, Missing::NotFound, None),
            (OpenError::OutsideRoot, Missing::NotFound, Some("out of the root")),
            (OpenError::Link, Missing::NotFound, Some("--symlinks=false")),
            (OpenError::Loop, Missing::NotFound, Some("ELOOP")),
            (OpenError::Special, Missing::NotFound, Some("FIFO")),
            (
                OpenError::Forbidden,
                Missing::Forbidden,
                Some("permission denied"),
            ),
            (OpenError::TooManyOpen, Missing::Unavailable, Some("ulimit -n")),
            (OpenError::Io(5), Missing::Unavailable, Some("Input/output error")),
        ] {
            let Stop::Missing(found, cause) = Stop::from(error) else {
                panic!("{error:?} is not a reason to block");
            };
            assert_eq!(found, missing, "{error:?}");
            let cause = cause.map(|cause| cause.to_string());
            let is_right = match said {
                Some(said) => cause.as_ref().is_some_and(|cause| cause.contains(said)),
                None => cause.is_none(),
            };
            assert!(is_right, "{error:?}: {cause:?}");
        }
        assert!(matches!(Stop::from(OpenError::WouldBlock), Stop::Blocked));
        assert!(matches!(
            Stop::from(ReadError::Io(5)),
            Stop::Missing(Missing::Unavailable, Some(Cause::Read(_)))
        ));
    }
}
