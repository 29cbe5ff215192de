//! The cache's part in one exchange: what is stored for the request, whether the request goes to the upstream, and what
//! becomes of the upstream's response.

mod explain;
mod state;

use self::state::{Capture, State, Wait};
use super::body::Growing;
use super::flight::{Lead, Part as Flown, Waiter};
use super::object::{Object, Reply, Standing};
use super::repeat::Settled;
use super::store::Lookup;
use super::{Cache, Count, TARGETS};
use crate::field_list::write_line;
use crate::proxy::head::{ends_here, is_own};
use http_cache::cache_status::{CacheStatus, Forwarded};
use http_cache::directives::{RequestDirectives, ResponseDirectives};
use http_cache::invalidation;
use http_cache::partial;
use http_cache::reuse::{self, Cause, Reuse};
use http_cache::stored::{Stored, Terms, lines};
use http_cache::storing::{self, Refusal};
use http_cache::{validation, variant};
use http_semantics::field::{Fields, Line, Name};
use http_semantics::method::Method;
use http_semantics::request::{Protocol, RequestHead};
use std::sync::Arc;
use units::{Duration, Instant, UnixTime};

/// Most requests of others that a request waits for, one after another.
const WAITS_MAX: u8 = 2;

/// What the exchange does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The client gets [`Cached::take_reply`].
    Serve,
    /// It waits for the response to another client's request ([`Cached::waiter`]).
    Wait,
    /// The request goes to the upstream.
    Go,
}

/// The cache's part in an exchange.
#[derive(Debug)]
pub(crate) struct Cached {
    cache: Arc<Cache>,
    key: Arc<[u8]>,
    method: Method,
    /// Stored responses may answer the request.
    may_reuse: bool,
    /// The field lines of the request.
    request: Vec<u8>,
    asked: RequestDirectives,
    /// Civil time at `began`.
    wall: UnixTime,
    began: Instant,
    /// Purges before the request. What comes for it may be older than later ones.
    purges: u64,
    state: State,
    /// The stored response that did not answer the request as it is.
    candidate: Option<Candidate>,
    /// Requests of other clients that it has waited for.
    waits: u8,
    disk: OnDisk,
    status: CacheStatus,
}

/// A stored response that may become the answer after a validation or in place of an error.
#[derive(Clone, Debug)]
struct Candidate {
    object: Arc<Object>,
    /// The request for the upstream has its validators.
    validates: bool,
}

/// What the request has from the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnDisk {
    /// It has not waited for the disk.
    Unasked,
    /// It waited for a response from the disk.
    Asked,
    /// The disk did not answer in time. The request goes to the upstream alone: others for its target wait for the disk.
    Late,
}

impl Cached {
    /// The cache's part in an exchange for this request. `has_content`: content follows the head.
    pub(crate) fn new(
        cache: &Arc<Cache>,
        head: &RequestHead<'_, '_>,
        has_content: bool,
        is_secured: bool,
        wall: UnixTime,
        began: Instant,
    ) -> Option<Cached> {
        let key = key(head, is_secured)?;
        // The upstream gets no others, so they choose no response.
        let passed = head
            .fields
            .iter()
            .filter(|(name, _)| !ends_here(name, &head.fields));
        let passed: Vec<Line<'_>> = passed.map(|(name, value)| Line { name, value }).collect();
        let fields = Fields::new(&passed);
        let mut request = Vec::new();
        for (name, value) in fields.iter() {
            write_line(&mut request, name, value);
        }
        let purges = cache.catch_up();
        let may_reuse = matches!(head.method, Method::Get | Method::Head) && !has_content;
        let mut cached = Cached {
            cache: Arc::clone(cache),
            key: key.into(),
            method: head.method,
            may_reuse,
            request,
            asked: RequestDirectives::of(&head.fields),
            wall,
            began,
            purges,
            state: State::New(None),
            candidate: None,
            waits: 0,
            disk: OnDisk::Unasked,
            status: CacheStatus::default(),
        };
        if may_reuse {
            let found = cache.store.find(&cached.key, &fields);
            if let Lookup::Found(object) = &found
                && head.method == Method::Get
                && object.part.is_none()
                && reuse::decide(&object.head, &cached.asked, &cache.allowances(), wall) != Reuse::Fresh
                && !validation::conditions(&object.head).is_empty()
            {
                cached.candidate = Some(Candidate {
                    object: Arc::clone(object),
                    validates: true,
                });
            }
            cached.state = State::New(Some(found));
        }
        Some(cached)
    }

    /// Bytes of memory held, besides those of the cache.
    pub(crate) fn held(&self) -> usize {
        let of_state = match &self.state {
            State::Replied { reply, .. } => reply.text.capacity(),
            State::Storing { .. } => size_of::<Capture>(),
            _ => 0,
        };
        size_of::<Cached>() + self.request.capacity() + of_state
    }

    /// Changes the fields of a request for the upstream if that is to validate a stored response: the client's own conditions
    /// give way to those of the cache.
    pub(crate) fn with_conditions<T>(
        cached: Option<&Cached>,
        head: &RequestHead<'_, '_>,
        then: impl FnOnce(&RequestHead<'_, '_>) -> T,
    ) -> T {
        let candidate = cached
            .and_then(|cached| cached.candidate.as_ref())
            .filter(|candidate| candidate.validates);
        let Some(candidate) = candidate else {
            return then(head);
        };
        let conditions = validation::conditions(&candidate.object.head);
        let is_own = |name: &str| {
            validation::PRECONDITIONS
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known))
        };
        let kept = head.fields.iter().filter(|(name, _)| !is_own(name));
        let lines: Vec<Line<'_>> = kept
            .chain(conditions.iter().map(|(name, value)| (*name, &value[..])))
            .map(|(name, value)| Line { name, value })
            .collect();
        then(&RequestHead {
            fields: Fields::new(&lines),
            ..*head
        })
    }

    /// Civil time.
    fn wall(&self, now: Instant) -> UnixTime {
        let passed = i64::try_from((now - self.began).as_secs()).unwrap_or(i64::MAX);
        UnixTime::from_secs(self.wall.secs.saturating_add(passed))
    }

    fn with_request<T>(&self, then: impl FnOnce(&Fields<'_, '_>) -> T) -> T {
        let lines = lines(&self.request);
        then(&Fields::new(&lines))
    }

    /// Whether the request asks for a part, or only under a condition.
    fn has_preconditions(&self) -> bool {
        self.with_request(|request| {
            let mut names = validation::PRECONDITIONS.iter();
            names.any(|name| request.find(name).is_some())
        })
    }

    /// Whether the request for the upstream is to validate a stored response.
    fn validates(&self) -> bool {
        self.candidate
            .as_ref()
            .is_some_and(|candidate| candidate.validates)
    }

    /// Looks for a stored response.
    pub(crate) fn look_up(&mut self, now: Instant) -> Step {
        let wall = self.wall(now);
        let (mut found, mut slow) = (None, None);
        match std::mem::replace(&mut self.state, State::New(None)) {
            State::New(first) => found = first,
            // The client of the other request may hold it up: then another goes in its place.
            State::Collapsed { wait, .. } => slow = Some(wait.guard).filter(|wait| wait.is_held_up()),
            State::Loading(wait) if !wait.guard.is_over() => {
                drop(wait);
                self.disk = OnDisk::Late;
                // Otherwise, it is another request that takes long.
                if let Some(disk) = &self.cache.disk
                    && disk.hangs(wall)
                {
                    disk.was_late(wall);
                }
            }
            _ => {}
        }
        if !self.may_reuse {
            self.cache.count(Count::Bypassed, 1);
            self.status.forwarded = Some(Forwarded::Method);
            self.state = State::Forwarded(None);
            return Step::Go;
        }
        let found = match found {
            Some(found) => found,
            None => {
                self.cache.catch_up();
                self.with_request(|request| self.cache.store.find(&self.key, request))
            }
        };
        if !matches!(found, Lookup::Found(_)) && self.loads(wall) {
            return Step::Wait;
        }
        let forwarded = match found {
            Lookup::Nothing => Forwarded::UriMiss,
            Lookup::OtherVariant => Forwarded::VaryMiss,
            Lookup::OtherPart => Forwarded::Partial,
            // A range of another method than GET is ignored (RFC 9110 section 14.2).
            Lookup::Found(object) if object.part.is_some() && self.method != Method::Get => {
                Forwarded::Partial
            }
            Lookup::Found(object) => {
                match reuse::decide(&object.head, &self.asked, &self.cache.allowances(), wall) {
                    Reuse::Fresh => {
                        let mut reply = self.hit(&object, wall);
                        self.settle(&mut reply, object, wall);
                        return self.serve(reply, None);
                    }
                    Reuse::Stale { revalidates } => {
                        self.cache.count(Count::Stale, 1);
                        // The refresh asks for the whole, so a request for a part or with conditions of its own cannot be it.
                        let validates = self.validates();
                        let asks_for_all = validates || !self.has_preconditions();
                        let refresh = match revalidates && asks_for_all && self.method == Method::Get {
                            true => self.fly().lead(),
                            false => None,
                        };
                        let reply = self.hit(&object, wall);
                        self.candidate = Some(Candidate { object, validates });
                        return self.serve(reply, refresh);
                    }
                    Reuse::Validate(cause) => {
                        // Otherwise, the request was written with the validators of another or of this one.
                        if !self.validates() {
                            let validates = false;
                            self.candidate = Some(Candidate { object, validates });
                        }
                        match cause {
                            Cause::Stale => Forwarded::Stale,
                            Cause::Request => Forwarded::Request,
                        }
                    }
                }
            }
        };
        self.status.forwarded = Some(forwarded);
        if self.asked.only_if_cached {
            // RFC 9111 section 5.2.1.7.
            return self.serve(Reply::of(504, &self.status), None);
        }
        let mut lead = None;
        let may_fly = self.waits == 0 || slow.is_some();
        if may_fly && self.disk != OnDisk::Late && self.may_collapse(wall) {
            let flown = self.cache.flights.succeed(self.flight(), slow.as_deref(), now);
            match flown {
                Flown::Lead(first) => lead = Some(first),
                Flown::Wait(wait) if self.waits < WAITS_MAX => {
                    let wait = Wait::new(wait);
                    self.state = State::Collapsed { wait, since: now };
                    // A request counts once.
                    if self.waits == 0 {
                        self.cache.count(Count::Collapsed, 1);
                    }
                    self.waits += 1;
                    self.status.is_collapsed = true;
                    return Step::Wait;
                }
                Flown::Wait(_) | Flown::Alone => {}
            }
        }
        self.cache.count(Count::Misses, 1);
        self.state = State::Forwarded(lead);
        Step::Go
    }

    /// Has the response read from the disk, if it is there, or waits for that of another request.
    fn loads(&mut self, wall: UnixTime) -> bool {
        let Some(disk) = self.cache.disk.as_ref().filter(|_| self.disk == OnDisk::Unasked) else {
            return false;
        };
        let Some(place) = self.with_request(|request| disk.find(&self.key, request)) else {
            return false;
        };
        if disk.hangs(wall) {
            self.disk = OnDisk::Late;
            return false;
        }
        let wait = match self.fly() {
            Flown::Lead(lead) => disk.load(place, lead),
            Flown::Wait(wait) => Some(wait),
            Flown::Alone => None,
        };
        self.disk = OnDisk::Asked;
        let Some(wait) = wait else { return false };
        self.state = State::Loading(Wait::new(wait));
        true
    }

    /// Whether it waits for the disk.
    pub(crate) fn is_loading(&self) -> bool {
        matches!(self.state, State::Loading(_))
    }

    /// Whether the wait that is under way is over. The driver may report the end of an earlier one late.
    pub(crate) fn is_woken(&self) -> bool {
        self.state.wait().is_some_and(|wait| wait.is_over())
    }

    /// How long another client's request is still worth waiting for; `most`: for the head of its response.
    pub(crate) fn patience(&self, most: Duration, now: Instant) -> Duration {
        match &self.state {
            State::Collapsed { wait, since } => wait.guard.patience(*since, most, now),
            _ => most,
        }
    }

    /// Whether it waits for another client's request, and that is still worth it.
    pub(crate) fn keeps_waiting(&self, most: Duration, now: Instant) -> bool {
        matches!(self.state, State::Collapsed { .. }) && !self.patience(most, now).is_zero()
    }

    /// The request goes to the upstream: from now on, others wait for the upstream, not for the client of this request.
    pub(crate) fn depart(&self) {
        if let Some(lead) = self.state.lead() {
            lead.depart();
        }
    }

    /// The stored response as the reply, which counts as a hit.
    fn hit(&mut self, object: &Object, wall: UnixTime) -> Reply {
        if self.disk != OnDisk::Unasked && object.is_from_disk {
            self.cache.count(Count::DiskHits, 1);
            self.status.detail = Some("disk");
        }
        self.cache.count(Count::Hits, 1);
        // A response that came by another client's request is no hit (RFC 9211 section 2.6).
        self.status.is_hit = !self.status.is_collapsed;
        self.status.ttl = Some(object.head.ttl(wall));
        self.reply(object, wall)
    }

    /// Equal requests get this response again, if this one depends on nothing else.
    fn settle(&self, reply: &mut Reply, object: Arc<Object>, wall: UnixTime) {
        let is_plain = self.method == Method::Get
            && self.asked == RequestDirectives::default()
            && self.status.is_hit
            && self.status.detail.is_none()
            && object.part.is_none();
        if is_plain && reply.status == object.head.status {
            reply.settled = Some(Settled {
                cache: Arc::clone(&self.cache),
                object,
                wall,
            });
        }
    }

    /// The stored response as the reply, with what `Cache-Status` says so far.
    fn reply(&self, object: &Object, wall: UnixTime) -> Reply {
        let seed = self.cache.boundary(&self.key, wall);
        self.with_request(|request| object.reply(self.method, request, wall, &self.status, seed))
    }

    /// The client gets this reply.
    fn serve(&mut self, reply: Reply, refresh: Option<Lead>) -> Step {
        self.state = State::Replied { reply, refresh };
        Step::Serve
    }

    /// Whether the response to this request may be for others, too.
    fn may_collapse(&self, wall: UnixTime) -> bool {
        let is_plain =
            self.with_request(|request| !request.has(Name::Range) && request.find("authorization").is_none());
        self.method == Method::Get
            && is_plain
            && !self.asked.no_store
            && self.status.forwarded != Some(Forwarded::Request)
            && !self.cache.is_refused(&self.key, wall)
    }

    /// Takes part in the flight for this target and these request fields, as far as is known which matter.
    fn fly(&self) -> Flown {
        self.cache.flights.enter(self.flight())
    }

    /// The name of the flight for this target and these request fields.
    fn flight(&self) -> Vec<u8> {
        let names = self.cache.store.names(&self.key);
        let mut key = self.key.to_vec();
        key.push(0);
        key.extend(self.with_request(|request| variant::key(&names, request)));
        key
    }

    /// The wait that the driver is to be told of, once.
    pub(crate) fn waiter(&mut self) -> Option<Waiter> {
        match &mut self.state {
            State::Loading(wait) | State::Collapsed { wait, .. } => wait.tell(),
            _ => None,
        }
    }

    /// The response for the client, if the cache has one.
    pub(crate) fn take_reply(&mut self) -> Option<Reply> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Replied { reply, .. } => Some(reply),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Whether the cache has the response for the client.
    pub(crate) fn has_reply(&self) -> bool {
        matches!(self.state, State::Replied { .. })
    }

    /// The part in an exchange of the server's own that validates what was served stale, if there is to be one.
    pub(crate) fn take_refresh(&mut self) -> Option<Cached> {
        let State::Replied { refresh, .. } = &mut self.state else {
            return None;
        };
        let lead = refresh.take()?;
        Some(Cached {
            cache: Arc::clone(&self.cache),
            key: Arc::clone(&self.key),
            method: self.method,
            may_reuse: true,
            request: self.request.clone(),
            asked: RequestDirectives::default(),
            wall: self.wall,
            began: self.began,
            purges: self.purges,
            state: State::Forwarded(Some(lead)),
            candidate: self.candidate.clone(),
            waits: WAITS_MAX,
            disk: OnDisk::Asked,
            status: CacheStatus::default(),
        })
    }

    /// The value of `Cache-Status` for the upstream's response.
    pub(crate) fn status(&self) -> Vec<u8> {
        self.status.value()
    }

    /// The same in a word, for the access log.
    pub(crate) fn word(&self) -> Option<&'static str> {
        self.status.word()
    }

    /// The head of the upstream's response arrived, in this version; `length` is that of its content, if it is known. Returns
    /// whether the client gets [`Cached::take_reply`] in its place.
    pub(crate) fn answered(
        &mut self,
        status: u16,
        received: Protocol,
        fields: &Fields<'_, '_>,
        length: Option<u64>,
        now: Instant,
    ) -> bool {
        let wall = self.wall(now);
        let terms = Terms {
            asked: self.wall,
            received: wall,
            targets: TARGETS,
            negative: self.cache.negative(),
        };
        if invalidation::is_due(self.method, status) {
            self.invalidate(fields);
        }
        if let Some(Candidate {
            object: candidate,
            validates,
        }) = self.candidate.clone()
        {
            if status == 304 && validates && validation::selects(&candidate.head, fields) {
                self.status.forwarded_status = Some(304);
                self.cache.count(Count::Validated, 1);
                let object = self.freshen(&candidate, received, fields, &terms);
                self.status.ttl = Some(object.head.ttl(wall));
                let mut reply = self.reply(&object, wall);
                pass_cookies(&mut reply, &object, fields);
                self.serve(reply, None);
                return true;
            }
            let is_error = matches!(status, 500 | 502 | 503 | 504);
            if is_error && reuse::stands_in(&candidate.head, &self.cache.allowances(), wall) {
                self.status.forwarded_status = Some(status);
                self.stand_in(&candidate, wall);
                return true;
            }
            if self.method == Method::Head && status == 200 {
                // RFC 9111 section 4.3.5.
                match candidate
                    .head
                    .is_same_as(Some(candidate.body.len() as u64), fields)
                {
                    true => drop(self.freshen(&candidate, received, fields, &terms)),
                    false => self.cache.drop_object(&candidate),
                }
            }
        }
        match self.capture((status, received), fields, length, &terms) {
            Ok(capture) => {
                self.status.is_stored = true;
                let lead = self.state.take_lead();
                if let Some(lead) = &lead {
                    lead.answered(now);
                }
                let capture = Box::new(capture);
                self.state = State::Storing { capture, lead };
            }
            Err(detail) => self.refuse(status, detail, wall),
        }
        false
    }

    /// Whether a response with this status and these fields is stored.
    fn decide(&self, status: u16, fields: &Fields<'_, '_>, terms: &Terms<'_>) -> Result<(), Refusal> {
        let (authority, target) = parts(&self.key);
        let location = fields.find("content-location");
        let is_located_here = location
            .and_then(|location| invalidation::resolve(location, authority, target))
            .as_deref()
            == Some(target);
        storing::decide(&storing::Candidate {
            method: self.method,
            asked: &self.asked,
            is_authorized: self.with_request(|request| request.find("authorization").is_some()),
            status,
            fields,
            directives: &ResponseDirectives::of(fields, terms.targets),
            is_located_here,
            received: terms.received,
            negative: terms.negative,
        })
    }

    /// Begins to store the response, or says why it is not stored.
    fn capture(
        &self,
        (status, received): (u16, Protocol),
        fields: &Fields<'_, '_>,
        length: Option<u64>,
        terms: &Terms<'_>,
    ) -> Result<Capture, &'static str> {
        if self.method == Method::Get && !self.may_reuse {
            // The content of the request is not in the key.
            return Err("content");
        }
        self.decide(status, fields, terms).map_err(Refusal::detail)?;
        let names = variant::names(fields).filter(|names| !names.iter().any(|name| is_own(name)));
        let names = names.ok_or(Refusal::Vary.detail())?;
        let max = self.cache.config.max_object_size.0;
        let body = Growing::new(&self.cache.store, length, max).ok_or("too-large")?;
        let mut head = Stored::of(status, fields, terms);
        if self.method == Method::Post {
            // From now on, it is the response to GET.
            head.status = 200;
        }
        Ok(Capture {
            variant: self.with_request(|request| variant::key(&names, request)),
            names,
            part: (status == 206).then(|| partial::range_of(fields)).flatten(),
            head,
            at: terms.received,
            body,
            received,
        })
    }

    /// The response is not stored. What was stored is outdated if the response is another.
    fn refuse(&mut self, status: u16, detail: &'static str, now: UnixTime) {
        self.status.detail = Some(detail);
        if self.state.lead().is_some() {
            self.cache.refuse(&self.key, now);
        }
        self.state = State::Over;
        if self.method == Method::Get
            && !matches!(status, 206 | 304 | 412 | 416 | 500..)
            && let Some(candidate) = &self.candidate
        {
            self.cache.drop_object(&candidate.object);
        }
    }

    /// Content of the upstream's response.
    pub(crate) fn take(&mut self, data: &[u8]) {
        if let State::Storing { capture, .. } = &mut self.state
            && !capture.body.add(&self.cache.store, data)
        {
            self.state = State::Over;
        }
    }

    /// The upstream's response is complete.
    pub(crate) fn complete(&mut self) {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Storing { capture, lead } => {
                self.store(*capture);
                // Those who wait are woken now, and find the response.
                drop(lead);
            }
            // The rest of a response that the client does not get.
            replied @ State::Replied { .. } => self.state = replied,
            _ => {}
        }
    }

    /// Stores a response whose content is complete, unless it is cut or was purged meanwhile.
    fn store(&self, capture: Capture) {
        let is_whole = capture.part.is_none_or(|part| part.len() == capture.body.len());
        let cost = Object::cost(&self.key, &capture.head, &capture.variant);
        let is_purged = self.cache.is_purged_since(self.purges, &self.key, &capture.head);
        if is_whole
            && !is_purged
            && let Some(charge) = self.cache.store.reserve(cost)
        {
            let object = Object {
                is_from_disk: false,
                standing: Standing::default(),
                key: Arc::clone(&self.key),
                head: capture.head,
                names: capture.names,
                variant: capture.variant,
                body: capture.body.finish(),
                file: None,
                part: capture.part,
                received: capture.received,
                _charge: charge,
            };
            self.cache.keep(object, capture.at);
            self.cache.count(Count::Stored, 1);
        }
    }

    /// The upstream failed before its response began. Returns whether a stored response stands in.
    pub(crate) fn failed(&mut self, now: Instant) -> bool {
        self.state = State::Over;
        let wall = self.wall(now);
        let Some(Candidate { object, .. }) = self.candidate.clone() else {
            return false;
        };
        let stands_in = reuse::stands_in(&object.head, &self.cache.allowances(), wall);
        if stands_in {
            self.stand_in(&object, wall);
        }
        stands_in
    }

    fn stand_in(&mut self, object: &Object, wall: UnixTime) {
        self.cache.count(Count::StoodIn, 1);
        self.status.ttl = Some(object.head.ttl(wall));
        self.status.detail = Some("stale-if-error");
        let reply = self.reply(object, wall);
        self.serve(reply, None);
    }

    /// Stores the response with the fields of a newer one.
    fn freshen(
        &mut self,
        object: &Arc<Object>,
        received: Protocol,
        fields: &Fields<'_, '_>,
        terms: &Terms<'_>,
    ) -> Arc<Object> {
        let head = object.head.freshened(fields, terms);
        let lines = head.lines();
        let names = variant::names(&Fields::new(&lines));
        drop(lines);
        // Fields that this server writes itself are none of the request's.
        let names = names.filter(|names| !names.iter().any(|name| is_own(name)));
        let may_store = !head.directives.no_store
            && !head.directives.private
            && !self.asked.no_store
            && !self.cache.is_purged_since(self.purges, &self.key, &head);
        let cost = Object::cost(&self.key, &head, &object.variant);
        let charge = match (&names, may_store) {
            (Some(_), true) => self.cache.store.reserve(cost),
            _ => None,
        };
        let names = names.unwrap_or_default();
        let variant = self.with_request(|request| variant::key(&names, request));
        let Some(charge) = charge else {
            self.cache.drop_object(object);
            // It is served once more, as the upstream says it is valid.
            return Arc::clone(object);
        };
        let is_other_variant = object.variant != variant || object.names != names;
        if is_other_variant {
            self.cache.drop_object(object);
        }
        self.status.is_stored = true;
        let object = Object {
            is_from_disk: false,
            standing: Standing::default(),
            key: Arc::clone(&self.key),
            head,
            names,
            variant,
            body: object.body.clone(),
            file: object.file.clone(),
            part: object.part,
            received,
            _charge: charge,
        };
        self.cache.keep(object, terms.received)
    }

    /// The request changed its target, and perhaps others that the response names.
    fn invalidate(&self, fields: &Fields<'_, '_>) {
        let (authority, target) = parts(&self.key);
        let others = invalidation::targets(fields, authority, target);
        let mut gone = self.cache.drop_target(&self.key);
        for other in others {
            let prefix = self.key.len() - target.len();
            gone += self.cache.drop_target(&[&self.key[..prefix], &other].concat());
        }
        self.cache.count(Count::Invalidated, gone as u64);
    }
}

/// Sends the client for whom the response was validated the cookies that came with the answer: they are stored for nobody else.
fn pass_cookies(reply: &mut Reply, object: &Object, fields: &Fields<'_, '_>) {
    if object.head.has_cookie() {
        return;
    }
    let cookies = fields
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
    for (name, value) in cookies {
        write_line(&mut reply.text, name, value);
        // Equal requests of others must not get it.
        reply.settled = None;
    }
}

impl Cache {
    /// A number for a boundary that clients cannot foresee.
    fn boundary(&self, key: &[u8], now: UnixTime) -> u64 {
        use std::hash::BuildHasher as _;
        self.hasher.hash_one((key, now.secs))
    }
}

/// The target of a request: scheme, authority, and path with query as the client sent them.
pub(crate) fn key(head: &RequestHead<'_, '_>, is_secured: bool) -> Option<Vec<u8>> {
    let mut key = vec![if is_secured { b's' } else { b'p' }, 0];
    key.extend(
        head.authority()
            .unwrap_or_default()
            .iter()
            .map(u8::to_ascii_lowercase),
    );
    key.push(0);
    key.extend_from_slice(head.target.path()?);
    if let Some(query) = head.target.query() {
        key.push(b'?');
        key.extend_from_slice(query);
    }
    Some(key)
}

/// Authority and target of a key.
fn parts(key: &[u8]) -> (&[u8], &[u8]) {
    let mut parts = key.splitn(3, |&b| b == 0).skip(1);
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}
