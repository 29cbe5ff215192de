//! Carries out the requests of a rule: decides which methods there are, and has what they all need.

use super::asked::Place;
use super::locks::{Claim, Extent, Locks};
use super::reply::{Content, Reply};
use super::room::Room;
use super::{Settings, changes, condition, locking, properties};
use crate::credentials::Credentials;
use crate::local::Body;
use crate::media_type::MediaType;
use crate::site::Site;
use http_semantics::conditional::{self, Validators, Verdict};
use http_semantics::date;
use http_semantics::field::Name;
use http_semantics::method::Method;
use http_semantics::range::{self, Selection};
use http1::head::Request;
use runtime::clock;
use runtime::fs::{Kind, Meta, WriteFolder, real_path};
use std::ffi::OsStr;
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use units::Instant;

/// The methods of a rule.
const ALLOW: &str = "OPTIONS, GET, HEAD, PUT, DELETE, MKCOL, COPY, MOVE, PROPFIND, PROPPATCH, LOCK, UNLOCK";

/// What carries out the requests of a rule, several at a time.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) settings: Settings,
    pub(super) folder: WriteFolder,
    pub(super) room: Room,
    pub(super) locks: Arc<Locks>,
    pub(super) tally: Tally,
    /// Roots of sites, which show the files, with their numbers in the site.
    sites: Mutex<Vec<(PathBuf, usize, Weak<Site>)>>,
}

/// What has been done.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) stored: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) removed: AtomicU64,
    pub(super) full: AtomicU64,
    pub(super) failed: AtomicU64,
}

/// What a rule has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Files that were stored by PUT.
    pub(crate) stored: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Files and folders that were removed by DELETE.
    pub(crate) removed: u64,
    /// Requests that got 507: for lack of room, or for a folder with too many entries.
    pub(crate) full: u64,
    /// Requests that the system refused for another reason.
    pub(crate) failed: u64,
}

impl Desk {
    /// `before`: the desk of the same folder before a reload, whose uploads go on, and whose locks stay.
    pub(super) fn new(settings: Settings, folder: WriteFolder, before: Option<&Desk>) -> Desk {
        let quota = settings.rule.quota;
        Desk {
            room: before.map_or_else(|| Room::new(quota), |before| before.room.with_quota(quota)),
            locks: before.map_or_else(Arc::default, |before| Arc::clone(&before.locks)),
            settings,
            folder,
            tally: Tally::default(),
            sites: Mutex::default(),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            stored: count(&self.tally.stored),
            bytes: count(&self.tally.bytes),
            removed: count(&self.tally.removed),
            full: count(&self.tally.full),
            failed: count(&self.tally.failed),
        }
    }

    /// Tells which sites there are, by their roots.
    pub(super) fn tell<'s>(&self, roots: impl Iterator<Item = (&'s Path, usize, &'s Arc<Site>)>) {
        let sites = roots.map(|(root, number, site)| (root.to_owned(), number, Arc::downgrade(site)));
        *self.sites.lock().unwrap_or_else(PoisonError::into_inner) = sites.collect();
    }

    /// Removes what interrupted uploads left.
    pub(super) fn clean(&self) {
        let shown = self.folder.path().display();
        match self.folder.clean() {
            Ok(0) => {}
            Ok(count) => tracing::info!("uploads: removed {count} parts of interrupted uploads in `{shown}`"),
            Err(error) => tracing::warn!(
                "uploads: parts of interrupted uploads stay in `{shown}`: {error}; remove files named `.weir-upload-*`"
            ),
        }
    }

    /// Carries a request out.
    pub(super) fn answer(&self, head: &Request<'_, '_>, body: &mut Body<'_>) -> Reply {
        let reply = self.act(head, body).unwrap_or_else(|reply| reply);
        if reply.status == 507 {
            self.tally.full.fetch_add(1, Ordering::Relaxed);
        }
        reply
    }

    fn act(&self, head: &Request<'_, '_>, body: &mut Body<'_>) -> Result<Reply, Reply> {
        let raw = head.target.path().unwrap_or_default();
        let place = Place::of(&self.settings, raw)?;
        self.agreed(head)?;
        match head.method_name {
            // Clients of Microsoft look for the second field.
            "OPTIONS" => Ok(Reply::of(200)
                .with("DAV", "1, 2")
                .with("MS-Author-Via", "DAV")
                .with("Allow", ALLOW)),
            "GET" | "HEAD" => self.show(head, &place),
            "PUT" => changes::put(self, head, body, &place),
            "DELETE" => changes::delete(self, head, &place),
            "MKCOL" => changes::make_folder(self, head, body, &place),
            "COPY" => changes::copy(self, head, &place),
            "MOVE" => changes::rename(self, head, &place),
            "PROPFIND" => properties::find(self, head, body, &place),
            "PROPPATCH" => properties::patch(self, head, body, &place),
            "LOCK" => locking::lock(self, head, body, &place),
            "UNLOCK" => locking::unlock(self, head, &place),
            _ => Err(Reply::error(405, "There is no such method here.").with("Allow", ALLOW)),
        }
    }

    /// Answers with a file.
    fn show(&self, head: &Request<'_, '_>, place: &Place) -> Result<Reply, Reply> {
        let names = place.names();
        let meta = self.meta(place)?;
        if meta.kind == Kind::Directory {
            return Err(Reply::error(405, "This is a folder; PROPFIND lists it.").with("Allow", ALLOW));
        }
        let (mut file, meta) = self.folder.read(&names).map_err(|error| self.refused(&error))?;
        let tag = etag(&meta);
        let described = |reply: Reply| {
            reply
                .with("ETag", tag.clone())
                .with("Last-Modified", http_date(&meta))
        };
        let ranges = match self.evaluate(head, Some(&meta)) {
            Verdict::NotModified => return Ok(described(Reply::of(304))),
            Verdict::Failed => return Err(failed_precondition()),
            Verdict::Proceed { range } => range && head.method == Method::Get,
        };
        let kind = self.media_type(names.last().copied().unwrap_or_default());
        let selection = match head.fields.single(Name::Range) {
            Some(value) if ranges => range::select(value, meta.len, 1),
            _ => Selection::Whole,
        };
        let mut reply = described(Reply::of(200)).with("Accept-Ranges", "bytes");
        let mut length = meta.len;
        match selection {
            Selection::Whole | Selection::Many(_) => {}
            Selection::One(part) => {
                let mut value = Vec::new();
                range::content_range(part, meta.len, &mut value);
                file.seek(SeekFrom::Start(part.first))
                    .map_err(|error| self.refused(&error))?;
                length = part.len();
                reply.status = 206;
                reply = reply.with("Content-Range", String::from_utf8_lossy(&value));
            }
            Selection::Unsatisfiable => {
                let mut value = Vec::new();
                range::unsatisfied_content_range(meta.len, &mut value);
                let value = String::from_utf8_lossy(&value);
                return Err(Reply::error(416, "The file has no such range.").with("Content-Range", value));
            }
        }
        reply.content = Content::File(file, length, kind);
        Ok(reply)
    }

    /// The metadata of what is at a place.
    ///
    /// # Errors
    /// 404 if there is nothing that can be shown, 409 if a part of the path is no folder, or another error of the system.
    pub(super) fn meta(&self, place: &Place) -> Result<Meta, Reply> {
        let missing = || Reply::error(404, "There is no such file.");
        match self.folder.meta(&place.names()) {
            Ok(meta) if meta.kind == Kind::Other => Err(missing()),
            Ok(meta) if place.is_folder && meta.kind != Kind::Directory => Err(missing()),
            Ok(meta) => Ok(meta),
            Err(error) if is_missing(&error) => Err(missing()),
            Err(error) => Err(self.refused(&error)),
        }
    }

    /// What is at a place that is to be changed; `None`: nothing is.
    ///
    /// # Errors
    /// 403 for a symbolic link and all else that is neither file nor folder, or an error of the system.
    pub(super) fn there(&self, place: &Place) -> Result<Option<Meta>, Reply> {
        match self.folder.meta(&place.names()) {
            Ok(meta) if meta.kind == Kind::Other => Err(Reply::error(
                403,
                "There is a symbolic link or a special file, which is not changed here.",
            )),
            Ok(meta) => Ok(Some(meta)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.refused(&error)),
        }
    }

    /// Whether the preconditions of a request hold for what is there.
    ///
    /// # Errors
    /// 412 if they do not.
    pub(super) fn require(&self, head: &Request<'_, '_>, there: Option<&Meta>) -> Result<(), Reply> {
        match self.evaluate(head, there) {
            Verdict::Proceed { .. } => Ok(()),
            Verdict::NotModified | Verdict::Failed => Err(failed_precondition()),
        }
    }

    /// Whether the condition in the field `If` holds now, if there is one (RFC 4918 section 10.4).
    ///
    /// # Errors
    /// 412 if it does not, 400 for a field that cannot be read.
    pub(super) fn agreed(&self, head: &Request<'_, '_>) -> Result<(), Reply> {
        let place = Place::of(&self.settings, head.target.path().unwrap_or_default())?;
        match condition::holds(self, head, &place)? {
            true => Ok(()),
            false => Err(Reply::error(
                412,
                "The condition in the field `If` does not hold: a lock has ended, or the file was changed.",
            )),
        }
    }

    /// Whether a request may change this much of a place: the condition in its field `If` holds, it submits the tokens of the
    /// locks there, and it is of their user. Bodies take time, so a change asks again right before it is made.
    ///
    /// # Errors
    /// 423 if a lock forbids it (RFC 4918 section 7), and as [`Desk::agreed`].
    pub(super) fn unlocked(
        &self,
        head: &Request<'_, '_>,
        place: &Place,
        extent: Extent,
    ) -> Result<(), Reply> {
        self.agreed(head)?;
        let user = Credentials::user(&head.fields);
        let tokens = condition::tokens(head)?;
        let claim = Claim {
            tokens: &tokens,
            user: user.as_deref(),
        };
        match self.locks.forbidding(place, extent, claim, self.now()) {
            None => Ok(()),
            Some(lock) => Err(locking::locked(self, &lock)),
        }
    }

    /// The time by which locks end.
    pub(super) fn now(&self) -> Instant {
        clock::now()
    }

    fn evaluate(&self, head: &Request<'_, '_>, there: Option<&Meta>) -> Verdict {
        let Some(meta) = there else {
            // RFC 9110 section 13.1.1: nothing matches where there is nothing.
            return match head.fields.has(Name::IfMatch) {
                true => Verdict::Failed,
                false => Verdict::Proceed { range: false },
            };
        };
        let tag = etag(meta);
        let validators = Validators {
            etag: Some(tag.as_bytes()),
            last_modified: Some(meta.modified),
        };
        conditional::evaluate(head.method, &head.fields, &validators, clock::wall())
    }

    /// The media type of a file.
    pub(super) fn media_type(&self, name: &[u8]) -> String {
        let found = MediaType::of_file(name, &self.settings.types, Some("utf-8"), &[]);
        String::from_utf8_lossy(&found.value).into_owned()
    }

    /// The reply to what the system refuses. What only the operator can correct is logged.
    pub(super) fn refused(&self, error: &io::Error) -> Reply {
        let reply = Reply::refused(error);
        let is_odd = matches!(
            error.kind(),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::StorageFull
        );
        if reply.status == 500 || is_odd {
            if reply.status != 507 {
                self.tally.failed.fetch_add(1, Ordering::Relaxed);
            }
            tracing::warn!(
                "uploads: cannot change files in `{}`: {error}; check its permissions and its disk",
                self.folder.path().display()
            );
        }
        reply
    }

    /// Makes sites look again at what has changed, before the client is told. Events of the file system come later.
    pub(super) fn changed(&self, place: &Place, is_tree: bool) {
        let mut path = real_path(self.folder.path());
        path.extend(place.names().into_iter().map(OsStr::from_bytes));
        let sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (root, number, site) in sites {
            let Some(site) = site.upgrade() else { continue };
            let root = real_path(&root);
            if let Ok(below) = path.strip_prefix(&root) {
                site.changed(number, below.as_os_str().as_bytes(), is_tree);
            } else if root.starts_with(&path) {
                site.changed(number, b"", true);
            }
        }
    }
}

/// Whether there is nothing at a path.
pub(super) fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// The strong entity tag of a file. The kernel changes the time in it with every change, and clients cannot set it.
pub(super) fn etag(meta: &Meta) -> String {
    let changed = i128::from(meta.changed.secs) * 1_000_000_000 + i128::from(meta.changed.nanos);
    format!("\"{:x}-{:x}-{changed:x}\"", meta.inode, meta.len)
}

/// When a file was last modified, as HTTP has it.
pub(super) fn http_date(meta: &Meta) -> String {
    String::from_utf8_lossy(&date::format(meta.modified)).into_owned()
}

fn failed_precondition() -> Reply {
    Reply::error(
        412,
        "A precondition of the request, such as `If-Match`, does not hold for the file.",
    )
}
