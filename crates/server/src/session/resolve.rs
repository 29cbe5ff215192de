//! Finds the response to a request: the target itself, the site's fallback page, or an error page. Each takes a lookup
//! in the view or a job.
//!
//! ```text
//!  moved ────▶ 301 and its like
//!  Target ─┬─ resource ──▶ 200, 206, 304, 412, 416      Coded: the same, once the coding is made
//!          ├─ directory ─▶ 301                          Fallback: a resource, always 200
//!          └─ missing ───▶ Fallback ─▶ Page ─▶ 4xx, 5xx
//! ```
//!
//! Every arrow leads downwards, so a request ends after at most four lookups. RFC 9110 leaves two decisions open. A
//! client that rejects every available coding, including identity, gets 406. Several ranges of a compressed
//! representation are ignored, because the parts could not state the coding.

use super::Session;
use super::accept;
use super::multipart::Multipart;
use super::reply::{Extra, Reply};
use crate::clock::Clock;
use crate::config::{CacheLock, Config, spelling};
use crate::context::{Cx, Task, Work};
use crate::entry::{Answer, Entry, Missing, Part, Representation, Resource};
use crate::filter::Added;
use crate::handler::{Ask, Handler, Mounts};
use crate::limits::Limits;
use crate::service::{Server, State};
use crate::site::Lookup;
use http_semantics::coding::Coding;
use http_semantics::conditional::{self, Validators, Verdict};
use http_semantics::field::{Name, Values};
use http_semantics::method::Method;
use http_semantics::negotiate::Preferences;
use http_semantics::range::{self, Selection};
use http_semantics::status::Status;
use http1::Fault;
use http1::head::Request;
use measure::Instant;
use runtime::Tx;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The input that a response answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// A complete request.
    Request,
    /// Bytes that are not a valid request.
    Faulty(Fault),
    /// A request that did not arrive in time or completely.
    Unclear,
}

/// A request, or the input in its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a, 'b, 's> {
    head: Option<&'a Request<'b, 's>>,
    subject: Subject,
    bytes: &'b [u8],
    started: Instant,
}

impl<'a, 'b, 's> Asked<'a, 'b, 's> {
    #[inline]
    pub(super) fn request(head: &'a Request<'b, 's>, bytes: &'b [u8], started: Instant) -> Self {
        Asked {
            head: Some(head),
            subject: Subject::Request,
            bytes,
            started,
        }
    }

    pub(super) fn faulty(fault: Fault, bytes: &'b [u8], started: Instant) -> Self {
        Asked {
            head: None,
            subject: Subject::Faulty(fault),
            bytes,
            started,
        }
    }

    pub(super) fn unclear(bytes: &'b [u8], started: Instant) -> Self {
        Asked {
            head: None,
            subject: Subject::Unclear,
            bytes,
            started,
        }
    }

    #[inline]
    pub(super) fn head(&self) -> Option<&'a Request<'b, 's>> {
        self.head
    }

    /// The authority of the request, if known.
    pub(super) fn authority(&self) -> Option<&'b [u8]> {
        self.head.and_then(Request::authority)
    }

    pub(super) fn subject(&self) -> Subject {
        self.subject
    }

    /// The request head, or the part of it that arrived.
    pub(super) fn bytes(&self) -> &'b [u8] {
        self.bytes
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    #[inline]
    pub(super) fn is_head_method(&self) -> bool {
        self.head.is_some_and(|h| h.method == Method::Head)
    }

    /// The handler for the request, and the path below its mount.
    #[inline]
    pub(super) fn handler<'m>(&self, mounts: &'m Mounts) -> Option<(&'m dyn Handler, &'b [u8])> {
        let head = self.head?;
        let found = mounts.find(head.target.path()?)?;
        matches!(head.method, Method::Get | Method::Head).then_some(found)
    }

    /// Whether the request counts toward the rate limit of its address.
    pub(super) fn is_rate_limited(&self, mounts: &Mounts) -> bool {
        self.handler(mounts)
            .is_none_or(|(handler, _)| handler.is_rate_limited())
    }

    /// Whether the client wants the connection to end.
    pub(super) fn wants_close(&self) -> bool {
        self.head.is_some_and(|h| !h.persistent)
    }
}

/// An error response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failure {
    pub(super) status: Status,
    pub(super) extra: Extra,
    /// The fault of the request, named on the page.
    pub(super) fault: Option<Fault>,
}

impl Failure {
    pub(super) const TIMEOUT: Failure = Failure::of(Status::REQUEST_TIMEOUT);
    pub(super) const TOO_LARGE: Failure = Failure::of(Status::PAYLOAD_TOO_LARGE);
    pub(super) const TOO_MANY: Failure = Failure {
        extra: Extra::RetryAfter,
        ..Failure::of(Status::TOO_MANY_REQUESTS)
    };

    pub(super) const fn of(status: Status) -> Failure {
        Failure {
            status,
            extra: Extra::None,
            fault: None,
        }
    }

    pub(super) fn of_fault(fault: Fault) -> Failure {
        Failure {
            fault: Some(fault),
            ..Failure::of(fault.status())
        }
    }

    /// The error for a method that is not served: 405 for a known one, otherwise 501.
    pub(super) fn of_method(method: Method) -> Failure {
        match method {
            Method::Other => Failure::of(Status::NOT_IMPLEMENTED),
            _ => Failure {
                extra: Extra::Allow,
                ..Failure::of(Status::METHOD_NOT_ALLOWED)
            },
        }
    }

    /// 503: the server is overloaded.
    pub(super) const BEHIND: Failure = Failure {
        extra: Extra::RetryAfter,
        ..Failure::of(Status::SERVICE_UNAVAILABLE)
    };

    pub(super) fn of_missing(missing: Missing) -> Failure {
        match missing {
            Missing::NotFound | Missing::Forbidden => Failure::of(missing.status()),
            Missing::Unavailable => Failure {
                extra: Extra::RetryAfter,
                ..Failure::of(missing.status())
            },
        }
    }
}

/// The step of the search.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    /// The target of the request.
    Target,
    /// The target, after one compression; no further one is made for this request.
    Coded,
    /// The page for unknown paths.
    Fallback,
    /// The page for this error.
    Page(Failure),
}

impl Stage {
    /// The step at which nothing more is compressed.
    pub(super) fn settled(self) -> Stage {
        match self {
            Stage::Target | Stage::Coded | Stage::Fallback => Stage::Coded,
            Stage::Page(failure) => Stage::Page(failure),
        }
    }
}

/// Where the search begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum Start<'e> {
    /// At the request.
    Request,
    /// At an error.
    Failure(Failure),
    /// At the result of a job for a stage.
    Found(&'e Arc<Entry>, Stage),
}

/// Where the search ended.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The response is written.
    Answered,
    /// The first part of the response is written.
    Parts(Multipart),
    /// A job must run for this stage.
    Wait(Work, Stage),
}

/// The step that follows from an entry at a stage.
enum Step<'p> {
    /// The response is written.
    Done(Outcome),
    /// Look up this path at this stage.
    Look(&'p [u8], Stage),
    /// Compress the content.
    Make(ToMake),
    /// The file has been written to since the entry was made: look up the same path again.
    Stale,
}

/// A coding that does not exist yet.
#[derive(Clone, Copy, Debug)]
struct ToMake {
    part: Part,
    coding: Coding,
    /// Whether the client accepts no existing representation.
    is_needed: bool,
}

impl Session {
    /// Finds and writes the response.
    #[inline]
    pub(super) fn pursue(
        &mut self,
        cx: &mut Cx,
        asked: &Asked<'_, '_, '_>,
        start: Start<'_>,
        tx: &mut Tx,
    ) -> Outcome {
        if let (Start::Request, Some(head)) = (start, asked.head())
            && head.method == Method::Connect
        {
            // Bytes after CONNECT may be meant for the tunnel, not for this server.
            self.http.drain();
        }
        let Cx {
            hub,
            state,
            views,
            clock,
            journal,
            counters,
            rng,
            recall,
            gate,
            spares_codings,
            copied_max,
            ..
        } = cx;
        let state: &State = state;
        let site = state.hosts.index_of(asked.authority());
        let here = Here {
            config: &state.hosts.place(site).config,
            ranges_max: state.ranges_max,
            is_new: false,
        };
        let mut reply = Reply {
            tx,
            http: &mut self.http,
            clock,
            journal,
            counters,
            slot: &mut self.slot,
            peer: self.peer,
            rng,
            asked,
            settled: None,
            varies: &[],
            added: match state.each_answer.is_empty() {
                true => Added::default(),
                false => added(state, clock, asked, self.peer),
            },
            copied_max: *copied_max,
        };
        // HTTP/0.9 names no host, which handlers may need to authorize the client, and its response has no status.
        if let (Start::Request, Some(head)) = (start, asked.head())
            && head.version != http1::version::Version::Http09
            && let Some((handler, below)) = asked.handler(&state.mounts)
        {
            let ask = Ask {
                path: below,
                query: head.target.query(),
                authority: asked.authority(),
                peer: reply.peer,
                wall: reply.clock.now(),
            };
            if let Some(made) = handler.answer(&ask, &Server::of(hub)) {
                reply.made(&made);
                return Outcome::Answered;
            }
        }
        let Some(view) = views.get_mut(site) else {
            // No turn has run yet, so there are no views; drivers that keep their contract never get here.
            reply.page(Failure::of_missing(Missing::Unavailable));
            return Outcome::Answered;
        };
        let cache_lock = here.config.behavior.cache_lock;
        let shared = (cache_lock == CacheLock::Whole).then(|| view.shared());
        let _held = shared.as_ref().map(|shared| hold(&shared.in_use));
        let mut given: Option<&Arc<Entry>> = None;
        let (mut path, mut stage): (&[u8], Stage) = match start {
            Start::Request => match first(asked, &mut reply, here) {
                First::Done => return Outcome::Answered,
                First::Look(path, stage) => (path, stage),
            },
            Start::Failure(failure) => match page(failure, &mut reply, here) {
                Step::Look(path, stage) => (path, stage),
                Step::Done(_) | Step::Make(_) | Step::Stale => return Outcome::Answered,
            },
            Start::Found(entry, stage) => {
                given = Some(entry);
                (path_of(stage, asked, here), stage)
            }
        };
        loop {
            let here = Here {
                is_new: given.is_some(),
                ..here
            };
            let entry = match given.take() {
                Some(entry) => entry,
                None => match view.lookup(path) {
                    Lookup::Hit(entry) => {
                        if matches!(stage, Stage::Target)
                            && !asked.is_head_method()
                            && costs_much(entry)
                            && !gate.admits()
                        {
                            reply.counters.overloaded().add(1);
                            reply.page(Failure::BEHIND);
                            return Outcome::Answered;
                        }
                        reply.counters.hits().add(1);
                        entry
                    }
                    Lookup::Load(job) => {
                        if matches!(stage, Stage::Target) && !gate.admits() {
                            reply.counters.overloaded().add(1);
                            reply.page(Failure::BEHIND);
                            return Outcome::Answered;
                        }
                        return Outcome::Wait(Work::new(Task::Load(job), hub, state), stage);
                    }
                    Lookup::Refused => {
                        let failure = match stage {
                            Stage::Page(failure) => {
                                reply.page(failure);
                                return Outcome::Answered;
                            }
                            _ => Failure::of_fault(Fault::Target),
                        };
                        match page(failure, &mut reply, here) {
                            Step::Look(next, at) => {
                                (path, stage) = (next, at);
                                continue;
                            }
                            Step::Done(_) | Step::Make(_) | Step::Stale => return Outcome::Answered,
                        }
                    }
                },
            };
            let entry_held = (cache_lock == CacheLock::Entry).then(|| hold(&entry.in_use));
            let stepped = step(entry, stage, &mut reply, here);
            drop(entry_held);
            match stepped {
                Step::Done(outcome) => {
                    if let (Some(representation), Some(head)) = (reply.settled, asked.head()) {
                        recall.saw(head, asked.bytes(), entry, representation, site);
                    }
                    return outcome;
                }
                Step::Look(next, at) => (path, stage) = (next, at),
                Step::Stale => {
                    let entry = Arc::clone(entry);
                    view.forget(&entry);
                }
                Step::Make(ToMake {
                    part,
                    coding,
                    is_needed,
                }) => {
                    let entry = Arc::clone(entry);
                    if (is_needed || !*spares_codings)
                        && let Some(job) = view.encode_part(&entry, part, coding)
                    {
                        return Outcome::Wait(Work::new(Task::Encode(job), hub, state), Stage::Coded);
                    }
                    // Another request is compressing it, or it should not be compressed; this request does not wait.
                    match step(&entry, Stage::Coded, &mut reply, here) {
                        Step::Done(outcome) => return outcome,
                        Step::Look(next, at) => (path, stage) = (next, at),
                        Step::Stale => view.forget(&entry),
                        Step::Make(_) => {
                            debug_assert!(false, "nothing is compressed at this stage");
                            return Outcome::Answered;
                        }
                    }
                }
            }
        }
    }
}

/// Whether the response is more than a copy from memory. A rejection would cost as much as such a copy.
#[inline]
fn costs_much(entry: &Entry) -> bool {
    match &entry.answer {
        Answer::Resource(resource) => resource.identity().len > Limits::COPIED_BODY,
        Answer::Listing(_) | Answer::Redirect(_) | Answer::Missing(_) => false,
    }
}

/// Field lines that filters add to the response.
#[cold]
fn added(state: &State, clock: &Clock, asked: &Asked<'_, '_, '_>, peer: IpAddr) -> Added {
    let mut added = Added::default();
    let Some(head) = asked.head() else {
        return added;
    };
    let ask = Ask {
        path: head.target.path().unwrap_or(b"*"),
        query: head.target.query(),
        authority: asked.authority(),
        peer,
        wall: clock.now(),
    };
    for filter in &state.each_answer {
        filter.answer(&ask, &mut added);
    }
    added
}

/// Takes a lock. A poisoned one is as good: it guards no data that could be half changed.
fn hold(lock: &Mutex<()>) -> MutexGuard<'_, ()> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The context of the request's site.
#[derive(Clone, Copy)]
struct Here<'p> {
    config: &'p Config,
    /// Maximum number of ranges in one `Range` field.
    ranges_max: u16,
    /// Whether the entry was made for this request.
    is_new: bool,
}

/// The first step of a request.
enum First<'p> {
    Done,
    Look(&'p [u8], Stage),
}

/// The target's path, or a response that needs no lookup.
#[inline]
fn first<'p>(asked: &Asked<'_, 'p, '_>, reply: &mut Reply<'_, '_, '_, '_>, here: Here<'p>) -> First<'p> {
    let Some(head) = asked.head() else {
        return failed(Failure::of(Status::BAD_REQUEST), reply, here);
    };
    if !here.config.redirect.is_empty()
        && let Some(path) = head.target.path().and_then(spelling)
    {
        let redirects = here.config.redirect.iter();
        if let Some((redirect, status)) = redirects
            .filter_map(|one| Some((one, one.applies(&path)?)))
            .next()
        {
            reply.moved(redirect, status, &path);
            return First::Done;
        }
    }
    match (head.method, head.target.path()) {
        (Method::Get | Method::Head, Some(path)) => First::Look(path, Stage::Target),
        (Method::Options, _) => {
            reply.options();
            First::Done
        }
        (method, _) => failed(Failure::of_method(method), reply, here),
    }
}

fn failed<'p>(failure: Failure, reply: &mut Reply<'_, '_, '_, '_>, here: Here<'p>) -> First<'p> {
    match page(failure, reply, here) {
        Step::Look(path, stage) => First::Look(path, stage),
        Step::Done(_) | Step::Make(_) | Step::Stale => First::Done,
    }
}

/// The path to look up at a stage.
fn path_of<'p>(stage: Stage, asked: &Asked<'_, 'p, '_>, here: Here<'p>) -> &'p [u8] {
    let configured = match stage {
        Stage::Target | Stage::Coded => None,
        Stage::Fallback => here.config.spa_fallback.as_deref(),
        Stage::Page(failure) => here.config.error_pages.page(failure.status.as_u16()),
    };
    match configured {
        Some(path) => path.as_bytes(),
        None => asked.head().and_then(|h| h.target.path()).unwrap_or(b"/"),
    }
}

/// Looks up the site's own error page, or writes the built-in one.
#[cold]
fn page<'p>(failure: Failure, reply: &mut Reply<'_, '_, '_, '_>, here: Here<'p>) -> Step<'p> {
    match here.config.error_pages.page(failure.status.as_u16()) {
        Some(path) => Step::Look(path.as_bytes(), Stage::Page(failure)),
        None => {
            reply.page(failure);
            Step::Done(Outcome::Answered)
        }
    }
}

/// The step that follows from an entry at a stage.
#[inline]
fn step<'p>(entry: &Entry, stage: Stage, reply: &mut Reply<'_, '_, '_, '_>, here: Here<'p>) -> Step<'p> {
    if !matches!(stage, Stage::Target) && here.config.spa_fallback.is_some() {
        reply.varies = FALLBACK_VARIES;
    }
    match (&entry.answer, stage) {
        (Answer::Resource(resource), Stage::Target | Stage::Coded | Stage::Fallback) => {
            found(resource, stage, reply, here)
        }
        (Answer::Listing(listing), Stage::Target | Stage::Coded | Stage::Fallback) => {
            let likes_json = reply
                .asked
                .head()
                .is_some_and(|h| accept::prefers_json(&h.fields));
            let (part, resource) = match likes_json {
                true => (Part::Json, &listing.json),
                false => (Part::Html, &listing.html),
            };
            if reply.varies.is_empty() {
                reply.varies = LISTING_VARIES;
            }
            match found(resource, stage, reply, here) {
                Step::Make(made) => Step::Make(ToMake { part, ..made }),
                step => step,
            }
        }
        (Answer::Redirect(location), Stage::Target | Stage::Coded) => {
            reply.redirect(location);
            Step::Done(Outcome::Answered)
        }
        (Answer::Missing(Missing::NotFound), Stage::Target) => match &here.config.spa_fallback {
            None => page(Failure::of_missing(Missing::NotFound), reply, here),
            Some(path) => {
                reply.varies = FALLBACK_VARIES;
                match wants_fallback(reply.asked) {
                    true => Step::Look(path.as_bytes(), Stage::Fallback),
                    false => page(Failure::of_missing(Missing::NotFound), reply, here),
                }
            }
        },
        (Answer::Missing(missing), Stage::Target | Stage::Coded | Stage::Fallback) => {
            page(Failure::of_missing(*missing), reply, here)
        }
        (Answer::Redirect(_), Stage::Fallback) => page(Failure::of_missing(Missing::NotFound), reply, here),
        (Answer::Resource(resource), Stage::Page(failure)) => {
            reply.site_page(failure, resource.identity());
            Step::Done(Outcome::Answered)
        }
        (Answer::Listing(_) | Answer::Redirect(_) | Answer::Missing(_), Stage::Page(failure)) => {
            reply.page(failure);
            Step::Done(Outcome::Answered)
        }
    }
}

/// `Vary` for the two forms of a listing. Also sent with a rejection, which may concern either form.
const LISTING_VARIES: &[&str] = &["Accept"];

/// `Vary` for fallback page and 404. Also sent with a response that had to be compressed first, which may be either.
const FALLBACK_VARIES: &[&str] = &["Accept", "Sec-Fetch-Mode"];

/// Whether an unknown path is a view of a single-page application: a browser navigates there, and the name is not that
/// of a file. (A page in answer to a missing script or a `fetch()` would break the application in ways that are hard to
/// find.)
fn wants_fallback(asked: &Asked<'_, '_, '_>) -> bool {
    let Some(head) = asked.head() else { return false };
    let path = head.target.path().unwrap_or_default();
    let name = path.rsplit(|&b| b == b'/').next().unwrap_or_default();
    let mode = head
        .fields
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("sec-fetch-mode"));
    !name.contains(&b'.')
        && mode.is_none_or(|(_, mode)| mode == b"navigate")
        && accept::weight(&head.fields, "text", "html") > 0
        && !accept::prefers_json(&head.fields)
}

/// The representation to send.
enum Choice<'r> {
    Send(&'r Representation),
    Make(ToMake),
    NotAcceptable,
}

/// Negotiates the coding (RFC 9110 section 12.5.3).
#[inline]
fn choose<'r>(resource: &'r Resource, accepted: Option<Values<'_, '_>>, may_make: bool) -> Choice<'r> {
    let Some(accepted) = accepted else {
        return Choice::Send(resource.identity());
    };
    // Only weights can reject identity. Without weights and with identity alone, there is nothing to negotiate: the
    // common case of a file that is not compressed.
    if resource.representations.len() == 1
        && !(may_make && resource.codings().any(|c| c != Coding::Identity))
        && !accepted.clone().any(|value| value.contains(&b';'))
    {
        return Choice::Send(resource.identity());
    }
    let preferences = Preferences::parse(accepted);
    let there = preferences.choose(resource.codings().filter(|&c| resource.get(c).is_some()));
    let made = may_make
        .then(|| preferences.choose(resource.codings().filter(|&c| resource.can_make(c))))
        .flatten();
    // An existing coding takes precedence over one that must be made, unless the client gives the latter a higher
    // weight.
    match (there, made) {
        (there, Some(coding))
            if there.is_none_or(|there| preferences.weight(coding) > preferences.weight(there)) =>
        {
            Choice::Make(ToMake {
                part: Part::File,
                coding,
                is_needed: there.is_none(),
            })
        }
        (Some(coding), _) => Choice::Send(resource.get(coding).unwrap_or(resource.identity())),
        (None, _) => Choice::NotAcceptable,
    }
}

/// Answers with a resource.
#[inline]
fn found<'p>(
    resource: &Resource,
    stage: Stage,
    reply: &mut Reply<'_, '_, '_, '_>,
    here: Here<'p>,
) -> Step<'p> {
    let Some(head) = reply.asked.head() else {
        return page(Failure::of(Status::BAD_REQUEST), reply, here);
    };
    let may_make = !matches!(stage, Stage::Coded);
    let representation = match choose(resource, head.accept_encoding(), may_make) {
        Choice::Send(representation) => representation,
        Choice::Make(made) => return Step::Make(made),
        Choice::NotAcceptable => {
            let failure = Failure {
                extra: Extra::VaryCoding,
                ..Failure::of(Status::NOT_ACCEPTABLE)
            };
            return page(failure, reply, here);
        }
    };
    // Before the entity tag is used: even a 304 must describe the current file.
    if !here.is_new && !representation.is_current(reply.clock.now()) {
        return Step::Stale;
    }
    let validators = Validators {
        etag: Some(&representation.etag),
        last_modified: resource.last_modified,
    };
    match conditional::evaluate(head.method, &head.fields, &validators, reply.clock.now()) {
        Verdict::Proceed { range: true } if head.method == Method::Get && head.fields.has(Name::Range) => {
            part(resource, representation, head.range(), reply, here)
        }
        Verdict::Proceed { .. } => {
            reply.whole(resource, representation);
            if let Stage::Target = stage {
                let same = |r: &Representation| std::ptr::eq(r, representation);
                reply.settled = resource.representations.iter().position(same);
            }
            Step::Done(Outcome::Answered)
        }
        Verdict::NotModified => {
            reply.not_modified(representation);
            Step::Done(Outcome::Answered)
        }
        Verdict::Failed => page(Failure::of(Status::PRECONDITION_FAILED), reply, here),
    }
}

/// Answers a request with `Range`.
#[cold]
fn part<'p>(
    resource: &Resource,
    representation: &Representation,
    range: Option<&[u8]>,
    reply: &mut Reply<'_, '_, '_, '_>,
    here: Here<'p>,
) -> Step<'p> {
    let selection = match range {
        Some(value) => range::select(value, representation.len, here.ranges_max),
        None => Selection::Whole,
    };
    match selection {
        Selection::One(range) => reply.one_range(representation, range),
        Selection::Many(ranges) if representation.coding == Coding::Identity => {
            return Step::Done(match reply.many_ranges(representation, ranges) {
                None => Outcome::Answered,
                Some(multipart) => Outcome::Parts(multipart),
            });
        }
        Selection::Whole | Selection::Many(_) => reply.whole(resource, representation),
        Selection::Unsatisfiable => {
            let failure = Failure {
                extra: Extra::Whole(representation.len),
                ..Failure::of(Status::RANGE_NOT_SATISFIABLE)
            };
            return page(failure, reply, here);
        }
    }
    Step::Done(Outcome::Answered)
}
