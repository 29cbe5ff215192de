//! The cache's part in one exchange: what is stored for the request, whether the request goes to the upstream, and what
//! becomes of the upstream's response.

mod explain;

use super::body::Growing;
use super::flight::{Lead, Part as Flown, WaitGuard, Waiter};
use super::object::{Object, Reply, Standing};
use super::repeat::Settled;
use super::store::Lookup;
use super::{Cache, Count, TARGETS};
use crate::field_list::write_line;
use crate::proxy::head::{ends_here, is_own};
use http_cache::cache_status::{CacheStatus, Forwarded};
use http_cache::directives::{RequestDirectives, ResponseDirectives};
use http_cache::invalidation;
use http_cache::partial::{self, Part};
use http_cache::reuse::{self, Cause, Reuse};
use http_cache::stored::{Stored, Terms, lines};
use http_cache::storing::{self, Candidate, Refusal};
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
    /// What is stored, as far as it is known.
    found: Option<Lookup>,
    /// The stored response that did not answer the request as it is.
    candidate: Option<Arc<Object>>,
    /// The request for the upstream has the validators of `candidate`.
    validates: bool,
    waiter: Option<Waiter>,
    /// Requests of other clients that it has waited for.
    waits: u8,
    /// The request of another client that it waits for, and since when.
    awaited: Option<(WaitGuard, Instant)>,
    /// It waited for a response from the disk.
    has_loaded: bool,
    /// The wait for the disk that is under way.
    loading: Option<WaitGuard>,
    /// The disk did not answer in time. The request goes to the upstream alone: others for its target wait for the disk.
    is_disk_late: bool,
    lead: Option<Lead>,
    /// A stale response is served, and a request of the server's own validates it.
    refresh: Option<Lead>,
    status: CacheStatus,
    capture: Option<Capture>,
    /// When the head of the upstream's response arrived.
    captured: UnixTime,
    reply: Option<Reply>,
}

/// A response that is being stored.
#[derive(Debug)]
struct Capture {
    head: Stored,
    names: Vec<String>,
    variant: Vec<u8>,
    body: Growing,
    part: Option<Part>,
    received: Protocol,
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
            found: None,
            candidate: None,
            validates: false,
            waiter: None,
            waits: 0,
            awaited: None,
            has_loaded: false,
            loading: None,
            is_disk_late: false,
            lead: None,
            refresh: None,
            status: CacheStatus::default(),
            capture: None,
            captured: UnixTime::from_secs(0),
            reply: None,
        };
        if may_reuse {
            let found = cache.store.find(&cached.key, &fields);
            if let Lookup::Found(object) = &found
                && head.method == Method::Get
                && object.part.is_none()
                && reuse::decide(&object.head, &cached.asked, &cache.allowances(), wall) != Reuse::Fresh
                && !validation::conditions(&object.head).is_empty()
            {
                cached.candidate = Some(Arc::clone(object));
                cached.validates = true;
            }
            cached.found = Some(found);
        }
        Some(cached)
    }

    /// Bytes of memory held, besides those of the cache.
    pub(crate) fn held(&self) -> usize {
        let reply = self.reply.as_ref().map_or(0, |reply| reply.text.capacity());
        size_of::<Cached>() + self.request.capacity() + reply
    }

    /// Changes the fields of a request for the upstream if that is to validate a stored response: the client's own conditions
    /// give way to those of the cache.
    pub(crate) fn with_conditions<T>(
        cached: Option<&Cached>,
        head: &RequestHead<'_, '_>,
        then: impl FnOnce(&RequestHead<'_, '_>) -> T,
    ) -> T {
        let candidate = cached
            .filter(|cached| cached.validates)
            .and_then(|cached| cached.candidate.as_ref());
        let Some(candidate) = candidate else {
            return then(head);
        };
        let conditions = validation::conditions(&candidate.head);
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

    /// Looks for a stored response.
    pub(crate) fn look_up(&mut self, now: Instant) -> Step {
        let wall = self.wall(now);
        // The client of the other request may hold it up: then another goes in its place.
        let slow = self.awaited.take().map(|(wait, _)| wait);
        let slow = slow.filter(|wait| wait.is_held_up());
        if !self.may_reuse {
            self.cache.count(Count::Bypassed, 1);
            self.status.forwarded = Some(Forwarded::Method);
            return Step::Go;
        }
        if self.loading.take().is_some_and(|wait| !wait.is_over()) {
            self.is_disk_late = true;
            // Otherwise, it is another request that takes long.
            if let Some(disk) = &self.cache.disk
                && disk.hangs(wall)
            {
                disk.was_late(wall);
            }
        }
        let found = match self.found.take() {
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
                        self.hit(&object, wall);
                        self.settle(object, wall);
                        return Step::Serve;
                    }
                    Reuse::Stale { revalidates } => {
                        self.cache.count(Count::Stale, 1);
                        // The refresh asks for the whole, so a request for a part or with conditions of its own cannot be it.
                        let asks_for_all = self.validates || !self.has_preconditions();
                        if revalidates
                            && asks_for_all
                            && self.method == Method::Get
                            && let Flown::Lead(lead) = self.fly()
                        {
                            self.refresh = Some(lead);
                        }
                        self.hit(&object, wall);
                        self.candidate = Some(object);
                        return Step::Serve;
                    }
                    Reuse::Validate(cause) => {
                        if self
                            .candidate
                            .as_ref()
                            .is_none_or(|known| !Arc::ptr_eq(known, &object))
                        {
                            // The request was written without its validators.
                            self.validates &= self.candidate.is_some();
                            if !self.validates {
                                self.candidate = Some(object);
                            }
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
            self.reply = Some(Reply::of(504, &self.status));
            return Step::Serve;
        }
        let may_fly = self.waits == 0 || slow.is_some();
        if may_fly && !self.is_disk_late && self.may_collapse(wall) {
            let flown = self.cache.flights.succeed(self.flight(), slow.as_deref(), now);
            match flown {
                Flown::Lead(lead) => self.lead = Some(lead),
                Flown::Wait(wait) if self.waits < WAITS_MAX => {
                    self.waiter = Some(Waiter::clone(&wait));
                    self.awaited = Some((wait, now));
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
        Step::Go
    }

    /// Has the response read from the disk, if it is there, or waits for that of another request.
    fn loads(&mut self, wall: UnixTime) -> bool {
        let Some(disk) = self.cache.disk.as_ref().filter(|_| !self.has_loaded) else {
            return false;
        };
        let Some(place) = self.with_request(|request| disk.find(&self.key, request)) else {
            return false;
        };
        if disk.hangs(wall) {
            self.has_loaded = true;
            self.is_disk_late = true;
            return false;
        }
        let wait = match self.fly() {
            Flown::Lead(lead) => disk.load(place, lead),
            Flown::Wait(wait) => Some(wait),
            Flown::Alone => None,
        };
        self.has_loaded = true;
        self.waiter = wait.as_deref().cloned();
        self.loading = wait;
        self.waiter.is_some()
    }

    /// Whether it waits for the disk.
    pub(crate) fn is_loading(&self) -> bool {
        self.loading.is_some()
    }

    /// Whether the wait that is under way is over. The driver may report the end of an earlier one late.
    pub(crate) fn is_woken(&self) -> bool {
        let awaited = self.awaited.as_ref().map(|(wait, _)| wait);
        let wait = self.loading.as_ref().or(awaited);
        wait.is_some_and(|wait| wait.is_over())
    }

    /// How long another client's request is still worth waiting for; `most`: for the head of its response.
    pub(crate) fn patience(&self, most: Duration, now: Instant) -> Duration {
        match &self.awaited {
            Some((wait, since)) => wait.patience(*since, most, now),
            None => most,
        }
    }

    /// Whether it waits for another client's request, and that is still worth it.
    pub(crate) fn keeps_waiting(&self, most: Duration, now: Instant) -> bool {
        self.awaited.is_some() && !self.patience(most, now).is_zero()
    }

    /// The request goes to the upstream: from now on, others wait for the upstream, not for the client of this request.
    pub(crate) fn depart(&self) {
        if let Some(lead) = &self.lead {
            lead.depart();
        }
    }

    fn hit(&mut self, object: &Object, wall: UnixTime) {
        if self.has_loaded && object.is_from_disk {
            self.cache.count(Count::DiskHits, 1);
            self.status.detail = Some("disk");
        }
        self.cache.count(Count::Hits, 1);
        // A response that came by another client's request is no hit (RFC 9211 section 2.6).
        self.status.is_hit = !self.status.is_collapsed;
        self.status.ttl = Some(object.head.ttl(wall));
        self.serve(object, wall);
    }

    /// Equal requests get this response again, if this one depends on nothing else.
    fn settle(&mut self, object: Arc<Object>, wall: UnixTime) {
        let is_plain = self.method == Method::Get
            && self.asked == RequestDirectives::default()
            && self.status.is_hit
            && self.status.detail.is_none()
            && object.part.is_none();
        if let Some(reply) = &mut self.reply
            && is_plain
            && reply.status == object.head.status
        {
            reply.settled = Some(Settled {
                cache: Arc::clone(&self.cache),
                object,
                wall,
            });
        }
    }

    fn serve(&mut self, object: &Object, wall: UnixTime) {
        let seed = self.cache.boundary(&self.key, wall);
        let reply = self.with_request(|request| object.reply(self.method, request, wall, &self.status, seed));
        self.reply = Some(reply);
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
        self.waiter.take()
    }

    /// The response for the client, if the cache has one.
    pub(crate) fn take_reply(&mut self) -> Option<Reply> {
        self.reply.take()
    }

    /// Whether the cache has the response for the client.
    pub(crate) fn has_reply(&self) -> bool {
        self.reply.is_some()
    }

    /// The part in an exchange of the server's own that validates what was served stale, if there is to be one.
    pub(crate) fn take_refresh(&mut self) -> Option<Cached> {
        let lead = self.refresh.take()?;
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
            found: None,
            candidate: self.candidate.clone(),
            validates: self.validates,
            waiter: None,
            waits: WAITS_MAX,
            awaited: None,
            has_loaded: true,
            loading: None,
            is_disk_late: false,
            lead: Some(lead),
            refresh: None,
            status: CacheStatus::default(),
            capture: None,
            captured: UnixTime::from_secs(0),
            reply: None,
        })
    }

    /// The value of `Cache-Status` for the upstream's response.
    pub(crate) fn status(&self) -> Vec<u8> {
        self.status.value()
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
        if let Some(candidate) = self.candidate.clone() {
            if status == 304 && self.validates && validation::selects(&candidate.head, fields) {
                self.status.forwarded_status = Some(304);
                self.cache.count(Count::Validated, 1);
                let object = self.freshen(&candidate, received, fields, &terms);
                self.lead = None;
                self.status.ttl = Some(object.head.ttl(wall));
                self.serve(&object, wall);
                self.pass_cookies(&object, fields);
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
        self.captured = wall;
        self.begin_capture((status, received), fields, length, &terms);
        if let Some(lead) = &self.lead {
            lead.answered(now);
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
        storing::decide(&Candidate {
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

    /// Begins to store the response, if it is stored.
    fn begin_capture(
        &mut self,
        (status, received): (u16, Protocol),
        fields: &Fields<'_, '_>,
        length: Option<u64>,
        terms: &Terms<'_>,
    ) {
        if self.method == Method::Get && !self.may_reuse {
            // The content of the request is not in the key.
            return self.refuse(status, "content", terms.received);
        }
        let decision = self.decide(status, fields, terms);
        if let Err(refusal) = decision {
            return self.refuse(status, refusal.detail(), terms.received);
        }
        let Some(names) = variant::names(fields) else {
            return;
        };
        if names.iter().any(|name| is_own(name)) {
            return self.refuse(status, Refusal::Vary.detail(), terms.received);
        }
        let Some(body) = Growing::new(&self.cache.store, length, self.cache.config.max_object_size.0) else {
            return self.refuse(status, "too-large", terms.received);
        };
        let mut head = Stored::of(status, fields, terms);
        if self.method == Method::Post {
            // From now on, it is the response to GET.
            head.status = 200;
        }
        self.capture = Some(Capture {
            variant: self.with_request(|request| variant::key(&names, request)),
            names,
            part: (status == 206).then(|| partial::range_of(fields)).flatten(),
            head,
            body,
            received,
        });
        self.status.is_stored = true;
    }

    /// Sends the client for whom the response was validated the cookies that came with the answer: they are stored for nobody else.
    fn pass_cookies(&mut self, object: &Object, fields: &Fields<'_, '_>) {
        let Some(reply) = self.reply.as_mut().filter(|_| !object.head.has_cookie()) else {
            return;
        };
        let cookies = fields
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
        for (name, value) in cookies {
            write_line(&mut reply.text, name, value);
            // Equal requests of others must not get it.
            reply.settled = None;
        }
    }

    /// The response is not stored. What was stored is outdated if the response is another.
    fn refuse(&mut self, status: u16, detail: &'static str, now: UnixTime) {
        self.status.detail = Some(detail);
        if self.lead.is_some() {
            self.cache.refuse(&self.key, now);
        }
        self.lead = None;
        if self.method == Method::Get
            && !matches!(status, 206 | 304 | 412 | 416 | 500..)
            && let Some(candidate) = &self.candidate
        {
            self.cache.drop_object(candidate);
        }
    }

    /// Content of the upstream's response.
    pub(crate) fn take(&mut self, data: &[u8]) {
        if let Some(capture) = &mut self.capture
            && !capture.body.add(&self.cache.store, data)
        {
            self.capture = None;
            self.lead = None;
        }
    }

    /// The upstream's response is complete.
    pub(crate) fn complete(&mut self) {
        let now = self.captured;
        if let Some(capture) = self.capture.take() {
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
                self.cache.keep(object, now);
                self.cache.count(Count::Stored, 1);
            }
        }
        self.lead = None;
    }

    /// The upstream failed before its response began. Returns whether a stored response stands in.
    pub(crate) fn failed(&mut self, now: Instant) -> bool {
        self.lead = None;
        let wall = self.wall(now);
        let Some(candidate) = self.candidate.clone() else {
            return false;
        };
        let stands_in = reuse::stands_in(&candidate.head, &self.cache.allowances(), wall);
        if stands_in {
            self.stand_in(&candidate, wall);
        }
        stands_in
    }

    fn stand_in(&mut self, object: &Object, wall: UnixTime) {
        self.cache.count(Count::StoodIn, 1);
        self.lead = None;
        self.status.ttl = Some(object.head.ttl(wall));
        self.status.detail = Some("stale-if-error");
        self.serve(object, wall);
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
