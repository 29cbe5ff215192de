//! Finds the response to a request: the target itself, the site's fallback page, or an error page. Each takes a lookup
//! in the view or a job. `search` decides what follows from an entry; this file looks entries up.
//!
//! ```text
//!  moved ────▶ 301 and its like
//!  fixed ────▶ a text of the configuration
//!  Target ─┬─ resource ──▶ 200, 206, 304, 412, 416      Coded: the same, once the coding is made
//!          ├─ directory ─▶ 301                          Fallback: a resource, always 200
//!          └─ missing ───▶ Try ─┬▶ Fallback ─▶ Page ─▶ 4xx, 5xx
//!                               └▶ an upstream
//! ```
//!
//! Every arrow leads downwards, so a request ends after at most four lookups, and one for each file that a rule tries.
//! RFC 9110 leaves two decisions open. A client that rejects every available coding, including identity, gets 406.
//! Several ranges of a compressed representation are ignored, because the parts could not state the coding.

use super::answer::{Answer, Composer};
use super::failure::Failure;
use super::search::{Decision, Next, Search, Stepped, ToMake, What};
use super::{Asked, Exchange, Scope, Step, Waits};
use crate::access::{Check, Sender, Verdict};
use crate::admission::Admission;
use crate::ask::Ask;
use crate::clock::Clock;
use crate::conditional::Dependence;
use crate::config::{CacheLock, Facts, spelling};
use crate::context::{Task, Work};
use crate::counters::Counters;
use crate::entry::{Answer as Kind, Entry, Missing, Resource};
use crate::filter::Added;
use crate::head_cache::Settled;
use crate::limits::Limits;
use crate::listing::Query;
use crate::recorded::Recorded;
use crate::service::admin::Command;
use crate::service::handler::Made;
use crate::service::{Hub, Server, State};
use crate::site::{Located, Spot, View};
use http_semantics::field::Name;
use http_semantics::method::Method;
use http_semantics::request::{Protocol, RequestHead};
use http_semantics::status::Status;
use runtime::complaints;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::{Duration, Rng};

/// The step of the search.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    /// Before the search: whether the client's password is right, or a recorded response is due.
    Access,
    /// The target of the request.
    Target,
    /// The target, after one compression; no further one is made for this request.
    Coded,
    /// A file that is tried for the path of the request: its index in the rule. `is_coded`: after one compression.
    Try { at: u8, is_coded: bool },
    /// The page for unknown paths.
    Fallback,
    /// The page for this error.
    Page(Failure),
}

impl Stage {
    /// The step at which nothing more is compressed.
    pub(super) fn settled(self) -> Stage {
        match self {
            Stage::Access => Stage::Access,
            Stage::Try { at, .. } => Stage::Try { at, is_coded: true },
            Stage::Target | Stage::Coded | Stage::Fallback => Stage::Coded,
            Stage::Page(failure) => Stage::Page(failure),
        }
    }

    /// Whether this is the first lookup of a request.
    #[inline]
    fn is_first(self) -> bool {
        matches!(
            self,
            Stage::Target
                | Stage::Try {
                    at: 0,
                    is_coded: false
                }
        )
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

/// Where an entry is. One in a view is borrowed anew after the last lookup, because lookups change the view.
#[derive(Clone, Copy)]
enum Found<'c> {
    Given(&'c Arc<Entry>),
    At(Spot),
}

impl Exchange {
    /// Finds the answer.
    #[inline]
    pub(super) fn choose<'c>(
        &mut self,
        scope: Scope<'c>,
        asked: Asked<'_, '_, '_>,
        start: Start<'c>,
    ) -> Step<'c> {
        let Scope {
            hub,
            state,
            generation,
            views,
            clock,
            counters,
            admission,
            spares_codings,
            rng,
            lines,
        } = scope;
        let head = asked.head();
        let site = state.hosts.index_of(head.and_then(RequestHead::authority));
        let added = match (state.each_answer.is_empty(), head) {
            (false, Some(head)) => added(state, clock, head, self.peer),
            _ => Added::default(),
        };
        let composer = Composer::new(lines, head, added);
        let composer = composer.guarded_by(&state.hosts.place(site).config.access);
        let path = head.and_then(|head| head.target.path());
        let mut composer = composer.ruled_by(&state.field_rules, site, path);
        if let (true, Some(id)) = (state.config.request_id_answer, &self.id) {
            composer = composer.identified(id);
        }
        let mut start = start;
        if let (Start::Request, true, Some(head)) = (start, self.way.is_admin, head) {
            return Step::Answer(self.admin(composer, state, (clock, hub), counters, head));
        }
        let is_redirected = state.https_port.is_some() && !self.way.is_secured;
        let facts = head.map(|head| Facts {
            head,
            is_secured: self.way.is_secured,
        });
        if let (false, Some(facts)) = (state.conditional.is_empty(), facts)
            && state.handlers.of(facts.head).is_none()
            && let Some(dependence) = of_request(state, site, facts)
        {
            composer = composer.depending(dependence);
            self.is_conditional = true;
        }
        if !state.field_rules.is_empty()
            && !is_redirected
            && let Some(facts) = facts
            && state.handlers.of(facts.head).is_none()
            && let Some(cross) = state.field_rules.cross_origin(site, facts)
        {
            composer = composer.cross_origin(&cross);
            self.is_cross_origin = true;
            // It has no password, and asks on behalf of a request that may have one.
            if let (Start::Request, true) = (start, cross.is_preflight()) {
                return Step::Answer(composer.preflight());
            }
        }
        if let (Start::Request, Some(head), false) = (start, head, state.gates.is_empty()) {
            if let Some(made) = unguarded(state, clock, hub, head, self.peer) {
                return Step::Answer(composer.made(made));
            }
            let verdict = state.gates.verdict(site, head, self.sender(), &self.known);
            let is_ruled = !matches!(&verdict, Verdict::Open(admitted) if !admitted.is_ruled);
            // Nobody is asked for a password in cleartext, or answered, if there is a safe address.
            if let (true, Some(port), false) = (is_ruled, state.https_port, self.way.is_secured) {
                return Step::Answer(composer.secure_address(head, port));
            }
            self.is_ruled = is_ruled;
            match verdict {
                Verdict::Open(admitted) => {
                    self.user = admitted.user;
                    self.vouched = admitted.vouched;
                }
                Verdict::Answered(answered) => return Step::Answer(composer.relayed(&answered)),
                Verdict::Unanswered(why) => start = Start::Failure(Failure::unanswered(why)),
                Verdict::Check(check) => {
                    let work = self.check((generation, site), check, (hub, state));
                    return Step::Wait(work, None);
                }
                Verdict::Refused(status) => start = Start::Failure(Failure::of(status)),
                Verdict::Uncertified => start = Start::Failure(Failure::of(Status::FORBIDDEN)),
                Verdict::Challenge(rule) => start = Start::Failure(Failure::unauthorized(rule)),
                Verdict::Busy => start = Start::Failure(Failure::BEHIND),
                Verdict::Malformed => start = Start::Failure(Failure::TARGET),
            }
        }
        // HTTP/0.9 names no host, which handlers may need to authorize the client, and its response has no status.
        if let (Start::Request, Some(head)) = (start, head)
            && head.protocol != Protocol::Http09
            && let Some((handler, below)) = state.handlers.of(head)
        {
            let ask = Ask {
                path: below,
                ..ask(clock, head, self.peer)
            };
            if let Some(made) = handler.answer(&ask, &Server::of(hub)) {
                return Step::Answer(composer.made(made));
            }
        }
        if let (Start::Request, Some(head), Some(port), false) =
            (start, head, state.https_port, self.way.is_secured)
        {
            return Step::Answer(composer.secure_address(head, port));
        }
        if let (Start::Request, Some(head), Some(recorded)) = (start, head, &state.recorded) {
            if !self.is_due
                && let Some((delay, span)) = recorded.delay(head, self.way.is_secured, self.started)
            {
                self.is_due = true;
                self.patience = Some(span);
                self.waits = Some(Waits {
                    stage: Stage::Access,
                    generation,
                    site,
                });
                return Step::Wait(Work::new(Task::Delay(delay), hub, state), None);
            }
            return Step::Answer(self.replay(composer, recorded, head, (admission, counters)));
        }
        let Some(view) = views.get_mut(site) else {
            // No turn has run yet, so there are no views; drivers that keep their contract never get here.
            return Step::Answer(composer.page(Failure::of_missing(Missing::Unavailable)));
        };
        let mut search = Search {
            head,
            is_secured: self.way.is_secured,
            config: &state.hosts.place(site).config,
            proxies: (&state.proxies, site),
            ranges_max: state.ranges_max,
            wall: clock.now(),
            is_new: false,
            varies: &[],
        };
        let cache_lock = search.config.behavior.cache_lock;
        runtime::lock_calls::enter_for(search.config.behavior.lock_calls);
        let shared = (cache_lock == CacheLock::Whole).then(|| view.shared());
        let whole_held = shared.as_ref().map(|shared| hold(&shared.in_use));
        let mut given: Option<&'c Arc<Entry>> = None;
        let mut next = match start {
            Start::Request => search.first(),
            Start::Failure(failure) => search.page(failure),
            Start::Found(entry, stage) => {
                given = Some(entry);
                Next::Look(search.path_of(stage), stage)
            }
        };
        let mut found = None;
        let mut looked_at = None;
        let decision = loop {
            let (path, stage) = match next {
                Next::Answer(decision) => break decision,
                Next::Look(path, stage) => (path, stage),
            };
            search.is_new = given.is_some();
            let at = match given.take() {
                Some(entry) => Found::Given(entry),
                None => match locate(view, &path, search.part_of_listing(stage)) {
                    Located::Hit(spot) => {
                        if stage.is_first()
                            && !asked.is_head_method()
                            && costs_much(view.entry(spot))
                            && !admission.admits()
                        {
                            counters.overloaded().add(1);
                            break Decision::Page(Failure::BEHIND);
                        }
                        counters.hits().add(1);
                        Found::At(spot)
                    }
                    Located::Load(job) => {
                        if stage.is_first() && !admission.admits() {
                            counters.overloaded().add(1);
                            break Decision::Page(Failure::BEHIND);
                        }
                        self.waits = Some(Waits {
                            stage,
                            generation,
                            site,
                        });
                        let hint = wants_hint(start, head).then(|| view.hint(&job.path)).flatten();
                        return Step::Wait(Work::new(Task::Load(job), hub, state), hint);
                    }
                    Located::Refused => {
                        next = match stage {
                            Stage::Page(failure) => Next::Answer(Decision::Page(failure)),
                            _ => search.page(Failure::TARGET),
                        };
                        continue;
                    }
                },
            };
            found = Some(at);
            looked_at = Some(stage);
            let entry = match at {
                Found::Given(entry) => entry,
                Found::At(spot) => view.entry(spot),
            };
            let entry_held = (cache_lock == CacheLock::Entry).then(|| hold(&entry.in_use));
            let mut stepped = search.step(entry, stage);
            drop(entry_held);
            if let Stepped::Make(ToMake {
                part,
                coding,
                is_needed,
            }) = stepped
            {
                if (is_needed || !spares_codings)
                    && let Some(job) = view.encode_part(entry, part, coding)
                {
                    self.waits = Some(Waits {
                        stage: stage.settled(),
                        generation,
                        site,
                    });
                    let hint = wants_hint(start, head).then(|| view.hint(&entry.path)).flatten();
                    return Step::Wait(Work::new(Task::Encode(job), hub, state), hint);
                }
                // Another request is compressing it, or it should not be compressed; this request does not wait.
                stepped = search.step(entry, stage.settled());
            }
            next = match stepped {
                Stepped::Next(next) => next,
                Stepped::Stale => {
                    view.forget(entry);
                    Next::Look(path, stage)
                }
                Stepped::Make(_) => {
                    debug_assert!(false, "nothing is compressed at this stage");
                    break Decision::Page(Failure::of_missing(Missing::Unavailable));
                }
            };
        };
        if let Decision::Pass = decision
            && let Some(found) = search.route()
        {
            return Step::Pass(Box::new(found.vouched(self.vouched.take())));
        }
        let view = &*view;
        let entry = found.map(|found| match found {
            Found::Given(entry) => entry,
            Found::At(spot) => view.entry(spot),
        });
        let mut composer = composer.varying(search.varies);
        if state.conditional.has_header_rules(site)
            && let (Some(facts), Some(stage), Decision::Send(pick, _)) = (facts, looked_at, &decision)
            && let Some(resource) = entry.and_then(|entry| entry.answer.part(pick.part))
            && let Some(dependence) = of_file(state, (site, facts), &search.path_of(stage), resource)
        {
            composer = composer.depending_on_file(dependence);
            self.is_conditional = true;
        }
        if let (Decision::Fixed(rule, ..), Some(facts)) = (&decision, facts)
            && rule.status() == Status::OK
            && state.conditional.has_header_rules(site)
            && let Some(dependence) = of_text(state, (site, facts))
        {
            composer = composer.depending_on_file(dependence);
            self.is_conditional = true;
        }
        // Released for a moment, because the view could change until here.
        drop(whole_held);
        let held = match (cache_lock, entry) {
            (CacheLock::None, _) | (CacheLock::Entry, None) => None,
            (CacheLock::Entry, Some(entry)) => Some(hold(&entry.in_use)),
            (CacheLock::Whole, _) => Some(hold(view.in_use())),
        };
        if held.is_some() {
            runtime::lock_calls::hold_for(Duration::from_micros(search.config.behavior.lock_micros.into()));
        }
        Step::Answer(Answer {
            _held: held,
            ..self.unsettled(compose(composer, decision, entry, site, rng))
        })
    }

    /// The answer of a recording.
    #[cold]
    fn replay<'c>(
        &self,
        composer: Composer<'c, '_>,
        recorded: &Recorded,
        head: &RequestHead<'_, '_>,
        (admission, counters): (&mut Admission, &Counters),
    ) -> Answer<'c> {
        let reply = match recorded.answer(head, self.way.is_secured) {
            Ok(reply) => reply,
            Err(why) => {
                return composer.made(Made {
                    status: Status::NOT_FOUND,
                    media_type: "text/plain; charset=utf-8",
                    content: why.into(),
                });
            }
        };
        // As for files: a rejection costs as much as a short copy.
        let costs_much = head.method != Method::Head && reply.content.len() as u64 > Limits::COPIED_BODY;
        if costs_much && !admission.admits() {
            counters.overloaded().add(1);
            return composer.page(Failure::BEHIND);
        }
        composer.recorded(reply)
    }

    /// Who sent the request, for access rules.
    pub(crate) fn sender(&self) -> Sender<'_> {
        Sender {
            peer: self.peer,
            is_secured: self.way.is_secured,
            certificate: self.certificate.as_deref(),
            id: self.id.as_ref(),
            trace: self.trace.as_deref(),
        }
    }

    /// The answer at an admin address: no file and no upstream.
    #[cold]
    fn admin<'c>(
        &self,
        composer: Composer<'c, '_>,
        state: &State,
        (clock, hub): (&Clock, &Arc<Hub>),
        counters: &Counters,
        head: &RequestHead<'_, '_>,
    ) -> Answer<'c> {
        let path = head.target.path().unwrap_or_default();
        let denied = |why: &str| {
            counters.admin_denied().add(1);
            complaints::warn(path, || {
                format!("denied to {} at an admin address: {why}", self.peer)
            });
        };
        let right = match state.admin.admit(head) {
            Ok(right) => right,
            Err(why) => {
                denied(why.text());
                return composer.page(Failure::ADMIN);
            }
        };
        let command = state.admin.command(head, right);
        if let Some(failure) = Failure::of_command(command) {
            match command {
                Command::CrossSite => denied("a page of another site has sent the request"),
                Command::ReadOnly => denied("it may only read, and sends a command"),
                _ => {}
            }
            return composer.page(failure);
        }
        if !matches!(head.method, Method::Get | Method::Head) {
            return composer.page(Failure::of_method(head.method));
        }
        let made = state.admin.handlers.of(head).and_then(|(handler, below)| {
            let ask = Ask {
                path: below,
                ..ask(clock, head, self.peer)
            };
            handler.answer(&ask, &Server::of(hub))
        });
        match made {
            Some(made) => composer.made(made),
            None => composer.page(Failure::of_missing(Missing::NotFound)),
        }
    }

    /// The answer; the same head gets another one from another client if an access rule covers its path, and in another scheme if
    /// a condition says so.
    #[inline]
    fn unsettled<'c>(&self, answer: Answer<'c>) -> Answer<'c> {
        match self.is_ruled
            || self.is_conditional
            || self.is_cross_origin
            || self.seats.is_ruled()
            || self.id.is_some()
        {
            true => Answer {
                settled: None,
                ..answer
            },
            false => answer,
        }
    }

    /// The job that checks a password, for the site at this index.
    #[cold]
    pub(crate) fn check(
        &mut self,
        (generation, site): (u64, usize),
        check: Check,
        (hub, state): (&Hub, &State),
    ) -> Work {
        self.patience = check.patience();
        self.waits = Some(Waits {
            stage: Stage::Access,
            generation,
            site,
        });
        let work = Work::new(Task::Check(Box::new(check)), hub, state);
        match &self.id {
            Some(id) => work.of(id.clone()),
            None => work,
        }
    }
}

/// Composes the answer of a decision about this entry.
#[inline]
fn compose<'c>(
    composer: Composer<'c, '_>,
    decision: Decision<'_>,
    entry: Option<&'c Arc<Entry>>,
    site: usize,
    rng: &mut Rng,
) -> Answer<'c> {
    let missing = || Failure::of_missing(Missing::Unavailable);
    let (pick, what) = match decision {
        Decision::Page(failure) => return composer.page(failure),
        Decision::Options => return composer.options(),
        Decision::Moved(redirect, status, path) => return composer.moved(redirect, status, &path),
        Decision::Fixed(rule, config, path) => return composer.fixed(rule, config, path),
        Decision::SitePage(failure) => {
            return match entry.map(|entry| &entry.answer) {
                Some(Kind::Resource(page)) => composer.site_page(failure, page.identity()),
                _ => composer.page(failure),
            };
        }
        Decision::Slash(location) => return composer.redirect(&location),
        Decision::Redirect => {
            return match entry.map(|entry| &entry.answer) {
                Some(Kind::Redirect(location)) => composer.redirect(location),
                _ => composer.page(missing()),
            };
        }
        Decision::Send(pick, what) => (pick, what),
        Decision::Pass => {
            debug_assert!(false, "it has a route, and was passed on");
            return composer.page(missing());
        }
    };
    let Some((entry, resource)) = entry.and_then(|entry| Some((entry, entry.answer.part(pick.part)?))) else {
        debug_assert!(false, "a representation of nothing");
        return composer.page(missing());
    };
    let representation = &resource.representations[pick.at];
    match what {
        What::Whole { is_settled } => {
            let settled = is_settled.then_some(Settled {
                entry,
                representation: pick.at,
                site,
            });
            Answer {
                settled,
                ..composer.whole(resource, representation)
            }
        }
        What::NotModified => composer.not_modified(representation),
        What::Range(range) => composer.one_range(representation, range),
        What::Ranges(ranges) => composer.many_ranges(representation, ranges, rng),
    }
}

/// What an answer to a request owes to conditions of rules.
#[cold]
fn of_request(state: &State, site: usize, facts: Facts<'_, '_, '_>) -> Option<Dependence> {
    let access = || state.gates.conditional(site, facts.head);
    state.conditional.of_request(site, facts, access)
}

/// What an answer with a resource that was found at `path` owes to header rules with conditions.
#[cold]
fn of_file(
    state: &State,
    (site, facts): (usize, Facts<'_, '_, '_>),
    path: &[u8],
    resource: &Resource,
) -> Option<Dependence> {
    let asked = facts.head.target.path().and_then(spelling).unwrap_or_default();
    let mut file = spelling(path).unwrap_or_default();
    let index = &state.hosts.place(site).config.index;
    if let Some(name) = resource.index.and_then(|at| index.get(usize::from(at))) {
        crate::path::encode(name.as_bytes(), &mut file);
    }
    state.conditional.of_file(site, facts, (&asked, &file))
}

/// What a fixed answer with the lines of a file owes to header rules with conditions.
#[cold]
fn of_text(state: &State, (site, facts): (usize, Facts<'_, '_, '_>)) -> Option<Dependence> {
    let asked = facts.head.target.path().and_then(spelling)?;
    state.conditional.of_file(site, facts, (&asked, &asked))
}

/// Looks a path up, and the part of a listing that the request names.
#[inline]
fn locate(view: &mut View, path: &[u8], part: Option<Query>) -> Located {
    match part {
        None => view.locate(path),
        Some(query) => view.locate_part(path, &query),
    }
}

/// Whether a client that waits for a job should be told what the page embeds: a browser that navigates there, over
/// HTTP/2 or 3. Over HTTP/1.1 browsers ignore 103, and some clients take it for the answer (RFC 8297 section 3). A client
/// that revalidates a page has what the page embeds.
#[cold]
fn wants_hint(start: Start<'_>, head: Option<&RequestHead<'_, '_>>) -> bool {
    let Some(head) = head.filter(|_| matches!(start, Start::Request)) else {
        return false;
    };
    let mut fields = head.fields.iter();
    let mode = fields.find(|(name, _)| name.eq_ignore_ascii_case("sec-fetch-mode"));
    matches!(head.protocol, Protocol::Http2 | Protocol::Http3)
        && head.method == Method::Get
        && mode.is_none_or(|(_, mode)| mode == b"navigate")
        && ![Name::Range, Name::IfNoneMatch, Name::IfModifiedSince]
            .iter()
            .any(|&name| head.fields.has(name))
}

/// Whether the response is more than a copy from memory. A rejection would cost as much as such a copy.
#[inline]
fn costs_much(entry: &Entry) -> bool {
    match &entry.answer {
        Kind::Resource(resource) => resource.identity().len > Limits::COPIED_BODY,
        Kind::Listing(_) | Kind::Redirect(_) | Kind::Missing(_) => false,
    }
}

/// The response of a handler to which access rules do not apply.
#[cold]
fn unguarded(
    state: &State,
    clock: &Clock,
    hub: &Arc<Hub>,
    head: &RequestHead<'_, '_>,
    peer: IpAddr,
) -> Option<Made> {
    let (handler, below) = state.handlers.of(head)?;
    if handler.is_guarded() || head.protocol == Protocol::Http09 {
        return None;
    }
    let ask = Ask {
        path: below,
        ..ask(clock, head, peer)
    };
    handler.answer(&ask, &Server::of(hub))
}

/// Field lines that filters add to the response.
#[cold]
fn added(state: &State, clock: &Clock, head: &RequestHead<'_, '_>, peer: IpAddr) -> Added {
    let mut added = Added::default();
    let ask = ask(clock, head, peer);
    for filter in &state.each_answer {
        filter.answer(&ask, &mut added);
    }
    added
}

/// A request as handlers and filters see it.
fn ask<'a>(clock: &Clock, head: &RequestHead<'a, '_>, peer: IpAddr) -> Ask<'a> {
    Ask {
        path: head.target.path().unwrap_or(b"*"),
        query: head.target.query(),
        authority: head.authority(),
        peer,
        wall: clock.now(),
    }
}

/// Takes a lock. A poisoned one is as good: it guards no data that could be half changed.
fn hold(lock: &Mutex<()>) -> MutexGuard<'_, ()> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
