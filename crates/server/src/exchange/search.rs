//! What follows from a request and from an entry found for it: an answer, another lookup, or a compression. Evaluates
//! preconditions, ranges and codings; looks nothing up, and composes nothing.

use super::accept;
use super::choose::Stage;
use super::failure::{Extra, Failure};
use crate::config::{Config, Facts, Redirect, Respond, TrailingSlash, TryFiles, spelling};
use crate::entry::{Answer, Entry, Missing, Part, Representation, Resource};
use crate::listing::Query;
use crate::proxy::{Found, Proxies};
use http_semantics::coding::Coding;
use http_semantics::conditional::{self, Validators, Verdict};
use http_semantics::field::{Name, Values};
use http_semantics::method::Method;
use http_semantics::negotiate::Preferences;
use http_semantics::range::{self, ByteRange, Selection};
use http_semantics::request::RequestHead;
use http_semantics::status::Status;
use std::borrow::Cow;
use units::UnixTime;

/// What to answer, before it is composed.
pub(super) enum Decision<'p> {
    /// An error with the built-in page.
    Page(Failure),
    /// An error with the page of the site that was found.
    SitePage(Failure),
    /// The methods.
    Options,
    /// A configured redirect of this path.
    Moved(&'p Redirect, Status, Box<[u8]>),
    /// A text of the configuration of this site, for a request with this path.
    Fixed(&'p Respond, &'p Config, &'p [u8]),
    /// A redirect to the path with or without a slash at its end.
    Slash(Box<[u8]>),
    /// A redirect to the location that was found.
    Redirect,
    /// A representation that was found.
    Send(Pick, What),
    /// An upstream answers, because there is no file.
    Pass,
}

/// A representation of the entry that was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pick {
    pub(super) part: Part,
    /// Index within the part.
    pub(super) at: usize,
}

/// What to send of a representation.
pub(super) enum What {
    /// All of it. `is_settled`: the same head gets it again as long as the entry lives.
    Whole { is_settled: bool },
    /// 304.
    NotModified,
    /// One range.
    Range(ByteRange),
    /// Several ranges.
    Ranges(Vec<ByteRange>),
}

/// The next step of a search.
pub(super) enum Next<'p> {
    Answer(Decision<'p>),
    /// Look up this path at this stage.
    Look(Cow<'p, [u8]>, Stage),
}

/// The step that follows from an entry at a stage.
pub(super) enum Stepped<'p> {
    Next(Next<'p>),
    /// Compress the content.
    Make(ToMake),
    /// The file has been written to since the entry was made: look up the same path again.
    Stale,
}

/// A coding that does not exist yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct ToMake {
    pub(super) part: Part,
    pub(super) coding: Coding,
    /// Whether the client accepts no existing representation.
    pub(super) is_needed: bool,
}

/// The search for the answer to a request.
pub(super) struct Search<'p> {
    pub(super) head: Option<&'p RequestHead<'p, 'p>>,
    /// Whether the client used https.
    pub(super) is_secured: bool,
    /// Configuration of the request's site.
    pub(super) config: &'p Config,
    /// Routes to upstreams, and the index of the request's site.
    pub(super) proxies: (&'p Proxies, usize),
    /// Maximum number of ranges in one `Range` field.
    pub(super) ranges_max: u16,
    pub(super) wall: UnixTime,
    /// Whether the entry was made for this request.
    pub(super) is_new: bool,
    /// Fields of the request that the answer depends on, in addition to those its representation names.
    pub(super) varies: &'static [&'static str],
}

/// `Vary` for the two forms of a listing. Also sent with a rejection, which may concern either form.
const LISTING_VARIES: &[&str] = &["Accept"];

/// `Vary` for fallback page and 404. Also sent with a response that had to be compressed first, which may be either.
const FALLBACK_VARIES: &[&str] = &["Accept", "Sec-Fetch-Mode"];

impl<'p> Search<'p> {
    /// The first step of a request: the target's path, or an answer that needs no lookup.
    #[inline]
    pub(super) fn first(&self) -> Next<'p> {
        let Some(head) = self.head else {
            return self.page(Failure::of(Status::BAD_REQUEST));
        };
        let path = head.target.path();
        if !self.config.redirect.is_empty()
            && let (Some(path), Some(facts)) = (path.and_then(spelling), self.facts())
        {
            let redirects = self.config.redirect.iter();
            if let Some((redirect, status)) = redirects
                .filter_map(|one| Some((one, one.applies(&path, facts)?)))
                .next()
            {
                return Next::Answer(Decision::Moved(redirect, status, path[..].into()));
            }
        }
        if let (Some(path), Some(facts)) = (path, self.facts())
            && let Some((_, rule)) = self.config.fixed_answer(facts)
        {
            return Next::Answer(Decision::Fixed(rule, self.config, path));
        }
        match (head.method, path) {
            (Method::Get | Method::Head, Some(path)) if self.config.try_files.is_empty() => {
                Next::Look(Cow::Borrowed(path), Stage::Target)
            }
            (Method::Get | Method::Head, Some(path)) => self.first_file(path),
            (Method::Options, _) => Next::Answer(Decision::Options),
            (method, _) => self.page(Failure::of_method(method)),
        }
    }

    /// The rule by which other files answer the path of the request, and this path in normalized spelling.
    fn tries(&self) -> Option<(&'p TryFiles, Vec<u8>)> {
        let spelled = self.head?.target.path().and_then(spelling)?;
        let mut rules = self.config.try_files.iter();
        let facts = self.facts()?;
        Some((rules.find(|rule| rule.applies(&spelled, facts))?, spelled))
    }

    /// What conditions of rules read of the request.
    #[inline]
    fn facts(&self) -> Option<Facts<'p, 'p, 'p>> {
        self.head.map(|head| Facts {
            head,
            is_secured: self.is_secured,
        })
    }

    /// The first step of a request for a site where other files answer some paths.
    #[cold]
    fn first_file(&self, path: &'p [u8]) -> Next<'p> {
        let itself = Next::Look(Cow::Borrowed(path), Stage::Target);
        let Some((rule, spelled)) = self.tries() else {
            return itself;
        };
        if let Some(location) = rule.redirect(&spelled) {
            return Next::Answer(Decision::Slash(location.into()));
        }
        match rule.is_path(0) {
            true => itself,
            false => self.next_file(0).unwrap_or(itself),
        }
    }

    /// The lookup of the next file that is tried, from this index on.
    #[cold]
    fn next_file(&self, from: u8) -> Option<Next<'p>> {
        let (rule, spelled) = self.tries()?;
        if !rule.tries(&spelled) {
            return None;
        }
        (from..u8::try_from(rule.files.len()).ok()?).find_map(|at| {
            let file = rule.file(at.into(), &spelled)?;
            let stage = Stage::Try { at, is_coded: false };
            Some(Next::Look(Cow::Owned(file), stage))
        })
    }

    /// The part that the request names of a listing, if its path leads to one. `None`: the first page.
    #[inline]
    pub(super) fn part_of_listing(&self, stage: Stage) -> Option<Query> {
        if !matches!(stage, Stage::Target | Stage::Try { .. }) {
            return None;
        }
        let query = self.head?.target.query()?;
        self.config.lists().then(|| Query::parse(query)).flatten()
    }

    /// The path to look up at a stage.
    pub(super) fn path_of(&self, stage: Stage) -> Cow<'p, [u8]> {
        let configured = match stage {
            Stage::Target | Stage::Coded | Stage::Access => None,
            Stage::Try { at, .. } => {
                let file = self
                    .tries()
                    .and_then(|(rule, spelled)| rule.file(at.into(), &spelled));
                if let Some(file) = file {
                    return Cow::Owned(file);
                }
                None
            }
            Stage::Fallback => self.config.spa_fallback.as_deref(),
            Stage::Page(failure) => self.config.error_pages.page(failure.status.as_u16()),
        };
        match configured {
            Some(path) => Cow::Borrowed(path.as_bytes()),
            None => Cow::Borrowed(self.head.and_then(|head| head.target.path()).unwrap_or(b"/")),
        }
    }

    /// The site's own error page, or the built-in one.
    #[cold]
    pub(super) fn page(&self, failure: Failure) -> Next<'p> {
        match self.config.error_pages.page(failure.status.as_u16()) {
            Some(path) => Next::Look(Cow::Borrowed(path.as_bytes()), Stage::Page(failure)),
            None => Next::Answer(Decision::Page(failure)),
        }
    }

    fn failed(&self, failure: Failure) -> Stepped<'p> {
        Stepped::Next(self.page(failure))
    }

    /// The step that follows from an entry at a stage.
    #[inline]
    pub(super) fn step(&mut self, entry: &Entry, stage: Stage) -> Stepped<'p> {
        if !matches!(stage, Stage::Target | Stage::Try { .. }) && self.config.spa_fallback.is_some() {
            self.varies = FALLBACK_VARIES;
        }
        if let Stage::Try { at, .. } = stage
            && let Some(stepped) = self.tried(&entry.answer, at)
        {
            return stepped;
        }
        let answer = |decision| Stepped::Next(Next::Answer(decision));
        match (&entry.answer, stage) {
            (Answer::Redirect(_), Stage::Target) if !self.config.try_files.is_empty() => self.directory(),
            (
                Answer::Resource(resource),
                Stage::Target | Stage::Coded | Stage::Fallback | Stage::Try { .. },
            ) => self.found(Part::File, resource, stage),
            (
                Answer::Listing(listing),
                Stage::Target | Stage::Coded | Stage::Fallback | Stage::Try { .. },
            ) => {
                let likes_json = self.head.is_some_and(|head| accept::prefers_json(&head.fields));
                let (part, resource) = match likes_json {
                    true => (Part::Json, &listing.json),
                    false => (Part::Html, &listing.html),
                };
                if self.varies.is_empty() {
                    self.varies = LISTING_VARIES;
                }
                self.found(part, resource, stage)
            }
            (Answer::Redirect(_), Stage::Target | Stage::Coded | Stage::Try { .. }) => {
                answer(Decision::Redirect)
            }
            (Answer::Missing(Missing::NotFound), Stage::Target) if !self.config.try_files.is_empty() => {
                match self.next_file(1) {
                    Some(next) => Stepped::Next(next),
                    None => self.unknown(),
                }
            }
            (Answer::Missing(Missing::NotFound), Stage::Target) => self.unknown(),
            (Answer::Missing(Missing::Forbidden), Stage::Target | Stage::Try { .. })
                if !self.proxies.0.is_empty() && self.passes_directory() =>
            {
                answer(Decision::Pass)
            }
            (
                Answer::Missing(missing),
                Stage::Target | Stage::Coded | Stage::Fallback | Stage::Try { .. },
            ) => self.failed(Failure::of_missing(*missing)),
            (Answer::Redirect(_), Stage::Fallback) => self.failed(Failure::of_missing(Missing::NotFound)),
            (_, Stage::Access) => {
                debug_assert!(false, "the check of a password finds no entry");
                answer(Decision::Page(Failure::of_missing(Missing::Unavailable)))
            }
            (Answer::Resource(_), Stage::Page(failure)) => answer(Decision::SitePage(failure)),
            (Answer::Listing(_) | Answer::Redirect(_) | Answer::Missing(_), Stage::Page(failure)) => {
                answer(Decision::Page(failure))
            }
        }
    }

    /// The route of a request for which there is no file.
    #[cold]
    pub(super) fn route(&self) -> Option<Found> {
        let (proxies, site) = self.proxies;
        proxies.without_file(site, self.facts()?)
    }

    /// Whether the request names a directory and has a route, which comes before the refusal to list the directory.
    #[cold]
    fn passes_directory(&self) -> bool {
        let path = self.head.and_then(|head| head.target.path());
        path.is_some_and(|path| path.ends_with(b"/")) && self.route().is_some()
    }

    /// The step that follows from a path that names no file.
    fn unknown(&mut self) -> Stepped<'p> {
        if !self.proxies.0.is_empty() && self.route().is_some() {
            return Stepped::Next(Next::Answer(Decision::Pass));
        }
        let Some(path) = &self.config.spa_fallback else {
            return self.failed(Failure::of_missing(Missing::NotFound));
        };
        self.varies = FALLBACK_VARIES;
        match self.head.is_some_and(wants_fallback) {
            true => Stepped::Next(Next::Look(Cow::Borrowed(path.as_bytes()), Stage::Fallback)),
            false => self.failed(Failure::of_missing(Missing::NotFound)),
        }
    }

    /// The step that follows from a directory without its slash, where other files answer some paths.
    #[cold]
    fn directory(&mut self) -> Stepped<'p> {
        let removes = |(rule, _): &(&TryFiles, _)| rule.trailing_slash == TrailingSlash::Remove;
        match self.tries().filter(removes) {
            // Its slash would be removed again.
            Some(_) => match self.next_file(1) {
                Some(next) => Stepped::Next(next),
                None => self.unknown(),
            },
            None => Stepped::Next(Next::Answer(Decision::Redirect)),
        }
    }

    /// The step that follows from what the file at this index is; `None`: it is the answer.
    #[cold]
    fn tried(&mut self, found: &Answer, at: u8) -> Option<Stepped<'p>> {
        let (rule, spelled) = self.tries()?;
        let is_path = rule.is_path(at.into());
        match found {
            Answer::Resource(_) if rule.adds_slash(at.into(), &spelled) => {
                let location = [&spelled, &b"/"[..]].concat();
                Some(Stepped::Next(Next::Answer(Decision::Slash(location.into()))))
            }
            Answer::Redirect(_) if is_path && rule.trailing_slash != TrailingSlash::Remove => None,
            Answer::Redirect(_) | Answer::Missing(Missing::NotFound) => {
                Some(match self.next_file(at.saturating_add(1)) {
                    Some(next) => Stepped::Next(next),
                    None => self.unknown(),
                })
            }
            Answer::Resource(_) | Answer::Listing(_) | Answer::Missing(_) => None,
        }
    }

    /// The step that follows from a resource.
    #[inline]
    fn found(&self, part: Part, resource: &Resource, stage: Stage) -> Stepped<'p> {
        let Some(head) = self.head else {
            return self.failed(Failure::of(Status::BAD_REQUEST));
        };
        let may_make = !matches!(stage, Stage::Coded | Stage::Try { is_coded: true, .. });
        let representation = match choose(resource, head.accept_encoding(), may_make) {
            Choice::Send(representation) => representation,
            Choice::Make { coding, is_needed } => {
                return Stepped::Make(ToMake {
                    part,
                    coding,
                    is_needed,
                });
            }
            Choice::NotAcceptable => {
                return self.failed(Failure {
                    extra: Extra::VaryCoding,
                    ..Failure::of(Status::NOT_ACCEPTABLE)
                });
            }
        };
        // Before the entity tag is used: even a 304 must describe the current file.
        if !self.is_new && !representation.is_current(self.wall) {
            return Stepped::Stale;
        }
        let validators = Validators {
            etag: Some(&representation.etag),
            last_modified: resource.last_modified,
        };
        let what = match conditional::evaluate(head.method, &head.fields, &validators, self.wall) {
            Verdict::Proceed { range: true }
                if head.method == Method::Get && head.fields.has(Name::Range) =>
            {
                match self.range(representation, head.range()) {
                    Ok(what) => what,
                    Err(failure) => return self.failed(failure),
                }
            }
            Verdict::Proceed { .. } => What::Whole {
                is_settled: matches!(stage, Stage::Target),
            },
            Verdict::NotModified => What::NotModified,
            Verdict::Failed => return self.failed(Failure::of(Status::PRECONDITION_FAILED)),
        };
        let is_it = |one: &Representation| std::ptr::eq(one, representation);
        let at = resource
            .representations
            .iter()
            .position(is_it)
            .unwrap_or_default();
        Stepped::Next(Next::Answer(Decision::Send(Pick { part, at }, what)))
    }

    /// What to send in answer to a request with `Range`.
    #[cold]
    fn range(&self, representation: &Representation, range: Option<&[u8]>) -> Result<What, Failure> {
        let selection = match range {
            Some(value) => range::select(value, representation.len, self.ranges_max),
            None => Selection::Whole,
        };
        match selection {
            Selection::One(range) => Ok(What::Range(range)),
            Selection::Many(ranges) if representation.coding == Coding::Identity => Ok(What::Ranges(ranges)),
            Selection::Whole | Selection::Many(_) => Ok(What::Whole { is_settled: false }),
            Selection::Unsatisfiable => Err(Failure {
                extra: Extra::Whole(representation.len),
                ..Failure::of(Status::RANGE_NOT_SATISFIABLE)
            }),
        }
    }
}

/// Whether an unknown path is a view of a single-page application: a browser navigates there, and the name is not that
/// of a file. (A page in answer to a missing script or a `fetch()` would break the application in ways that are hard to
/// find.)
fn wants_fallback(head: &RequestHead<'_, '_>) -> bool {
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
    /// Make this coding. `is_needed`: the client accepts no existing representation.
    Make {
        coding: Coding,
        is_needed: bool,
    },
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
            Choice::Make {
                coding,
                is_needed: there.is_none(),
            }
        }
        (Some(coding), _) => Choice::Send(resource.get(coding).unwrap_or(resource.identity())),
        (None, _) => Choice::NotAcceptable,
    }
}
