//! Simulation of the shared cache of `[[proxy]]`: judges logged requests one by one, for several budgets and policies at once.
//!
//! ```text
//!   request of a log ─▶ Replay::take ─┬─▶ passed: always goes to the upstream, or cannot be judged
//!                                     └─▶ judged ─▶ each Cache: hit, stale or miss ─▶ store, evict
//! ```
//! Keys, costs, eviction, and the rules of storing and reuse are the server's own. A log has no `Cache-Control` and no `Vary`, so
//! these are assumptions: each response without error gets `Cache-Control: max-age` of one time, and each response the same
//! `Vary`. No request has `Authorization`. A refresh takes no time. Memory is limited by the number and length of keys; no
//! request is kept. This module reads no file.

use crate::cache::{Eviction, Policy, Slot};
use crate::config::{PathPattern, spelling};
use crate::proxy::cache::{TARGETS, cost, key};
use http_cache::directives::{RequestDirectives, ResponseDirectives};
use http_cache::freshness::is_heuristic;
use http_cache::invalidation;
use http_cache::reuse::{self, Allowances, Reuse};
use http_cache::stored::{Stored, Terms};
use http_cache::storing::{self, Candidate};
use http_cache::variant;
use http_semantics::field::{Fields, Line};
use http_semantics::method::Method;
use http_semantics::request::{Protocol, RequestHead};
use http_semantics::target::Target;
use std::collections::{BTreeMap, HashMap};
use units::UnixTime;

/// What a log does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assumed {
    /// Seconds for which a response without error is fresh.
    pub lifetime: u64,
    /// Seconds for which a 404, 405, 410, 414 or 501 is fresh; 0: none is stored.
    pub negative: u64,
    /// Seconds after its lifetime in which a response is served while it is validated; 0: none is.
    pub stale_while_revalidate: u64,
    /// Seconds after its lifetime in which a response is served in place of a 500, 502, 503 or 504; 0: none is, and these are not
    /// judged.
    pub stale_if_error: u64,
    /// Names in the `Vary` of each response, in lower case, sorted, without repetition.
    pub vary: Vec<String>,
    /// Content above this length in bytes is not stored. At most half of a budget applies.
    pub object_max: u64,
    /// Only these paths belong to the rule; `None`: all.
    pub path: Option<PathPattern>,
}

/// Limits of the memory of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most different keys.
    pub keys_max: usize,
    /// Most bytes of all keys together.
    pub key_bytes_max: u64,
}

impl Limits {
    /// At most about a gigabyte, besides the index of each cache.
    pub const DEFAULT: Limits = Limits {
        keys_max: 4_000_000,
        key_bytes_max: 512 << 20,
    };
}

/// A request of a log.
#[derive(Clone, Copy, Debug)]
pub struct Logged<'l> {
    /// When it arrived, in civil time. A time before that of an earlier request counts as that time.
    pub at: UnixTime,
    /// Method.
    pub method: &'l [u8],
    /// Host, if the log has it.
    pub host: Option<&'l [u8]>,
    /// Other fields of the request, by name, as far as the log has them.
    pub fields: &'l [(&'l str, &'l [u8])],
    /// Target as it was sent.
    pub target: &'l [u8],
    /// Status of the response.
    pub status: u16,
    /// Bytes of content that were sent; `None`: not logged, or not all of the content was sent.
    pub content: Option<u64>,
}

/// What a replay did with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Each cache had it or did not.
    Judged,
    /// Another method than GET or HEAD.
    Method,
    /// The cache stores no response with this status.
    Status,
    /// The length of the content is not known.
    Length,
    /// The target is no path.
    Target,
    /// The path does not belong to the rule.
    Path,
    /// A limit of the replay is reached; the request was ignored.
    Full,
}

/// Requests that were judged. The same for all caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Requests.
    pub requests: u64,
    /// Bytes of content of their responses.
    pub bytes: u64,
    /// Different targets that they asked for.
    pub keys: u64,
    /// Different targets and values of the fields in `Vary`.
    pub variants: u64,
    /// Requests logged with an earlier time than one before them.
    pub out_of_order: u64,
}

/// What one cache did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Requests answered without the upstream.
    pub hits: u64,
    /// Bytes of their content.
    pub hit_bytes: u64,
    /// Requests for which nothing was stored.
    pub misses: u64,
    /// Bytes fetched from the upstream for them.
    pub miss_bytes: u64,
    /// Hits whose response was stale, and validated meanwhile.
    pub stale_hits: u64,
    /// Requests that went to the upstream because the stored response was stale.
    pub stale: u64,
    /// Bytes fetched from the upstream for these and for stale hits, unless it confirms stored responses with 304.
    pub stale_bytes: u64,
    /// Requests at which the upstream failed and a stale response stood in. They count in `stale`.
    pub stood_in: u64,
    /// Requests at which the upstream failed and the client got the error. They count in `misses` or `stale`.
    pub errors: u64,
    /// Responses stored.
    pub stored: u64,
    /// Responses not stored because they are too large.
    pub too_large: u64,
    /// Responses dropped because a request changed their target.
    pub invalidated: u64,
    /// Responses evicted.
    pub evictions: u64,
}

impl Outcome {
    /// Bytes fetched from the upstream, if it confirms no stored response with 304.
    pub fn fetched_bytes(&self) -> u64 {
        self.miss_bytes + self.stale_bytes
    }
}

/// Simulated caches, and the requests that they have seen.
#[derive(Debug)]
pub struct Replay {
    assumed: Assumed,
    limits: Limits,
    /// Heads of responses by status; `None`: not stored.
    heads: BTreeMap<u16, Option<Stored>>,
    /// By target and variant.
    numbers: HashMap<Box<[u8]>, u32>,
    /// The numbers of each target, if responses vary.
    targets: HashMap<Box<[u8]>, Vec<u32>>,
    key_bytes: u64,
    caches: Vec<Cache>,
    judged: Judged,
    now: UnixTime,
}

impl Replay {
    /// Empty caches of these budgets in bytes, with these policies.
    pub fn new(assumed: Assumed, limits: Limits, caches: &[(u64, Policy)]) -> Replay {
        Replay {
            caches: caches
                .iter()
                .map(|&(budget, policy)| Cache::new(budget, policy, &assumed))
                .collect(),
            assumed,
            limits,
            heads: BTreeMap::new(),
            numbers: HashMap::new(),
            targets: HashMap::new(),
            key_bytes: 0,
            judged: Judged::default(),
            now: UnixTime::from_secs(i64::MIN),
        }
    }

    /// Judges the next request of the log.
    pub fn take(&mut self, logged: &Logged<'_>) -> Fate {
        let name = std::str::from_utf8(logged.method).unwrap_or_default();
        let method = Method::of(name);
        let Ok(target) = Target::parse(logged.target, method) else {
            return Fate::Target;
        };
        let host = logged.host.map(|value| Line { name: "Host", value });
        let others = logged.fields.iter().map(|&(name, value)| Line { name, value });
        let lines: Vec<Line<'_>> = host.into_iter().chain(others).collect();
        let head = RequestHead {
            method,
            method_name: name,
            target,
            target_raw: logged.target,
            protocol: Protocol::Http11,
            fields: Fields::new(&lines),
        };
        let (Some(raw), Some(key)) = (target.path(), key(&head, false)) else {
            return Fate::Target;
        };
        if let Some(pattern) = &self.assumed.path {
            match spelling(raw) {
                Some(path) if pattern.matches(&path) => {}
                Some(_) => return Fate::Path,
                None => return Fate::Target,
            }
        }
        if logged.at < self.now {
            self.judged.out_of_order += 1;
        }
        self.now = self.now.max(logged.at);
        if !matches!(method, Method::Get | Method::Head) {
            if invalidation::is_due(method, logged.status) {
                for number in self.numbers_of(&key) {
                    for cache in &mut self.caches {
                        cache.invalidate(number);
                    }
                }
            }
            return Fate::Method;
        }
        let is_failed = self.assumed.stale_if_error > 0 && matches!(logged.status, 500 | 502 | 503 | 504);
        let storable = match logged.status {
            206 | 304 => false,
            _ if is_failed => false,
            status if self.head(status).is_some() => method == Method::Get,
            _ => return Fate::Status,
        };
        let has_content = method == Method::Get && !is_failed && !matches!(logged.status, 204 | 304);
        // Redirects are often logged with `-` in place of 0.
        let may_be_empty = matches!(logged.status, 301 | 308);
        let content = match has_content {
            true => logged.content.or(may_be_empty.then_some(0)),
            false => Some(0),
        };
        let Some(content) = content else {
            return Fate::Length;
        };
        let variant = variant::key(&self.assumed.vary, &head.fields);
        let Some(number) = self.number(&key, &variant) else {
            return Fate::Full;
        };
        self.judged.requests += 1;
        self.judged.bytes += content;
        let use_of = match (method, logged.status) {
            _ if is_failed => Use::Failed,
            (Method::Head, _) => Use::Head,
            (_, 304) => Use::Confirmed,
            (_, 206) => Use::Part,
            _ => Use::Whole,
        };
        let room = storable.then(|| {
            let head = self.heads.get(&logged.status).and_then(Option::as_ref);
            head.map_or(0, |head| cost(&key, head, &variant))
        });
        for cache in &mut self.caches {
            let asked = Request {
                number,
                status: logged.status,
                content,
                use_of,
                overhead: room,
            };
            cache.take(&asked, &mut self.heads, self.now);
        }
        Fate::Judged
    }

    /// The requests that were judged.
    pub fn judged(&self) -> Judged {
        let keys = match self.assumed.vary.is_empty() {
            true => self.numbers.len(),
            false => self.targets.len(),
        };
        Judged {
            keys: keys as u64,
            variants: self.numbers.len() as u64,
            ..self.judged
        }
    }

    /// What each cache did, in the order in which they were given.
    pub fn outcomes(&self) -> impl Iterator<Item = Outcome> + '_ {
        self.caches.iter().map(|cache| cache.outcome)
    }

    /// The head of a whole response with this status, as it is stored; `None`: it is not stored.
    fn head(&mut self, status: u16) -> Option<&Stored> {
        let assumed = &self.assumed;
        let head = self
            .heads
            .entry(status)
            .or_insert_with(|| assumed_head(status, assumed));
        head.as_ref()
    }

    /// The number of a variant of a target, assigned at first use; `None` at a limit.
    fn number(&mut self, target: &[u8], variant: &[u8]) -> Option<u32> {
        let varies = !self.assumed.vary.is_empty();
        // No target has a line feed.
        let whole = if varies {
            [target, b"\n", variant].concat()
        } else {
            target.to_vec()
        };
        if let Some(&number) = self.numbers.get(&whole[..]) {
            return Some(number);
        }
        let is_new = varies && !self.targets.contains_key(target);
        let target_bytes = if is_new { target.len() } else { 0 };
        let key_bytes = self.key_bytes + (whole.len() + target_bytes) as u64;
        if self.numbers.len() >= self.limits.keys_max || key_bytes > self.limits.key_bytes_max {
            return None;
        }
        let number = u32::try_from(self.numbers.len()).ok()?;
        self.key_bytes = key_bytes;
        self.numbers.insert(whole.into(), number);
        if varies {
            self.targets.entry(target.into()).or_default().push(number);
        }
        Some(number)
    }

    /// The numbers of all variants of a target.
    fn numbers_of(&self, target: &[u8]) -> Vec<u32> {
        match self.assumed.vary.is_empty() {
            true => self.numbers.get(target).copied().into_iter().collect(),
            false => self.targets.get(target).cloned().unwrap_or_default(),
        }
    }
}

/// The head of a response with this status, if the cache stores it.
fn assumed_head(status: u16, assumed: &Assumed) -> Option<Stored> {
    let value = format!("max-age={}", assumed.lifetime);
    let names = assumed.vary.join(", ");
    let mut lines = Vec::new();
    // Most applications state no lifetime for errors and for redirects of the moment.
    if status < 400 && is_heuristic(status) {
        lines.push(Line {
            name: "Cache-Control",
            value: value.as_bytes(),
        });
    }
    if !names.is_empty() {
        lines.push(Line {
            name: "Vary",
            value: names.as_bytes(),
        });
    }
    let fields = Fields::new(&lines);
    let received = UnixTime::from_secs(0);
    let is_stored = storing::decide(&Candidate {
        method: Method::Get,
        asked: &RequestDirectives::default(),
        is_authorized: false,
        status,
        fields: &fields,
        directives: &ResponseDirectives::of(&fields, TARGETS),
        is_located_here: false,
        received,
        negative: assumed.negative,
    });
    let terms = Terms {
        asked: received,
        received,
        targets: TARGETS,
        negative: assumed.negative,
    };
    is_stored.ok().map(|()| Stored::of(status, &fields, &terms))
}

/// What the logged response had of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Whole,
    /// A range that the log does not name.
    Part,
    /// None: 304 confirmed what the client had.
    Confirmed,
    /// None: HEAD.
    Head,
    /// None: the upstream failed.
    Failed,
}

/// A request to a simulated cache.
#[derive(Clone, Copy, Debug)]
struct Request {
    number: u32,
    status: u16,
    /// Bytes of content of the response.
    content: u64,
    use_of: Use,
    /// Bytes that the response takes besides its content; `None`: it is not stored.
    overhead: Option<u64>,
}

/// A stored response.
#[derive(Clone, Copy, Debug)]
struct Entry {
    number: u32,
    status: u16,
    received: UnixTime,
    content: u64,
    cost: u64,
}

const NOWHERE: Slot = Slot::MAX;

/// A cache without content.
#[derive(Debug)]
struct Cache {
    budget: u64,
    content_max: u64,
    allowances: Allowances,
    policy: Box<dyn Eviction>,
    /// By number of the key.
    slot_of: Vec<Slot>,
    entries: Vec<Option<Entry>>,
    free: Vec<Slot>,
    used: u64,
    outcome: Outcome,
}

impl Cache {
    fn new(budget: u64, policy: Policy, assumed: &Assumed) -> Cache {
        Cache {
            budget,
            content_max: assumed.object_max.min(budget / 2),
            allowances: Allowances {
                stale_while_revalidate: assumed.stale_while_revalidate,
                stale_if_error: assumed.stale_if_error,
            },
            policy: policy.eviction(budget),
            slot_of: Vec::new(),
            entries: Vec::new(),
            free: Vec::new(),
            used: 0,
            outcome: Outcome::default(),
        }
    }

    fn find(&self, number: u32) -> Option<(Slot, Entry)> {
        let slot = *self.slot_of.get(number as usize)?;
        let entry = (*self.entries.get(slot as usize)?)?;
        Some((slot, entry))
    }

    fn take(&mut self, asked: &Request, heads: &mut BTreeMap<u16, Option<Stored>>, now: UnixTime) {
        let Some((slot, entry)) = self.find(asked.number) else {
            self.outcome.misses += 1;
            self.outcome.miss_bytes += asked.content;
            self.outcome.errors += u64::from(asked.use_of == Use::Failed);
            self.store(asked, now);
            return;
        };
        self.policy.touch(slot, 1);
        let head = heads.get_mut(&entry.status).and_then(Option::as_mut);
        let decided = head.map(|head| {
            head.age.received = entry.received;
            let reuse = reuse::decide(head, &RequestDirectives::default(), &self.allowances, now);
            (reuse, reuse::stands_in(head, &self.allowances, now))
        });
        let (reuse, stands_in) = decided.unzip();
        if let Some(Reuse::Fresh | Reuse::Stale { .. }) = reuse {
            self.outcome.hits += 1;
            self.outcome.hit_bytes += asked.content;
        }
        match reuse {
            Some(Reuse::Fresh) => return,
            Some(Reuse::Stale { .. }) => self.outcome.stale_hits += 1,
            Some(Reuse::Validate(_)) | None => self.outcome.stale += 1,
        }
        let is_hit = matches!(reuse, Some(Reuse::Stale { .. }));
        match asked.use_of {
            // No response to HEAD is validated without a client.
            Use::Head if is_hit => {}
            // The response stays stale.
            Use::Failed if is_hit => {}
            Use::Failed if stands_in == Some(true) => self.outcome.stood_in += 1,
            Use::Failed => self.outcome.errors += 1,
            Use::Whole => {
                self.outcome.stale_bytes += asked.content;
                self.store(asked, now);
            }
            // The server asks with the validators of what is stored. Whatever the upstream answers, it is fresh again.
            Use::Confirmed => {
                self.outcome.stale_bytes += entry.content;
                self.freshen(slot, now);
            }
            Use::Head => self.freshen(slot, now),
            // Whether the upstream has validators is not known.
            Use::Part => self.outcome.stale_bytes += asked.content,
        }
    }

    fn freshen(&mut self, slot: Slot, now: UnixTime) {
        if let Some(Some(entry)) = self.entries.get_mut(slot as usize) {
            entry.received = now;
        }
    }

    /// Stores the response in place of an older one.
    fn store(&mut self, asked: &Request, now: UnixTime) {
        let Some(overhead) = asked.overhead else { return };
        let cost = asked.content.saturating_add(overhead);
        if asked.content > self.content_max || cost > self.budget {
            self.outcome.too_large += 1;
            self.remove(asked.number);
            return;
        }
        // As in the server, the older response takes its room until the newer one is complete.
        while self.used + cost > self.budget && self.evict() {}
        self.remove(asked.number);
        let entry = Entry {
            number: asked.number,
            status: asked.status,
            received: now,
            content: asked.content,
            cost,
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            (self.entries.len() - 1) as Slot
        });
        self.entries[slot as usize] = Some(entry);
        let at = asked.number as usize;
        if self.slot_of.len() <= at {
            self.slot_of.resize(at + 1, NOWHERE);
        }
        self.slot_of[at] = slot;
        self.used += cost;
        self.policy.insert(slot, u64::from(asked.number), cost);
        self.outcome.stored += 1;
        debug_assert!(self.used <= self.budget, "the budget holds");
    }

    /// Evicts what the policy picks next. `false`: nothing is stored.
    fn evict(&mut self) -> bool {
        let mut is_any = false;
        while let Some(slot) = self.policy.victim() {
            is_any = true;
            self.outcome.evictions += 1;
            self.leave(slot);
            if !self.policy.is_leaving() {
                break;
            }
        }
        is_any
    }

    fn invalidate(&mut self, number: u32) {
        self.outcome.invalidated += u64::from(self.remove(number));
    }

    /// Removes a response for another reason than eviction. Returns whether it was stored.
    fn remove(&mut self, number: u32) -> bool {
        let Some((slot, _)) = self.find(number) else {
            return false;
        };
        self.policy.remove(slot);
        self.leave(slot);
        true
    }

    fn leave(&mut self, slot: Slot) {
        if let Some(entry) = self.entries[slot as usize].take() {
            self.slot_of[entry.number as usize] = NOWHERE;
            self.used -= entry.cost;
            self.free.push(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use units::Word as _;

    fn assumed(lifetime: u64) -> Assumed {
        Assumed {
            lifetime,
            negative: 0,
            stale_while_revalidate: 0,
            stale_if_error: 0,
            vary: Vec::new(),
            object_max: 1 << 20,
            path: None,
        }
    }

    fn get(at: i64, target: &str, status: u16, content: u64) -> Logged<'_> {
        Logged {
            at: UnixTime::from_secs(at),
            method: b"GET",
            host: None,
            fields: &[],
            target: target.as_bytes(),
            status,
            content: Some(content),
        }
    }

    #[test]
    fn a_response_is_fresh_for_its_lifetime() {
        let mut replay = Replay::new(assumed(60), Limits::DEFAULT, &[(1 << 20, Policy::Lru)]);
        for logged in [
            get(0, "/a", 200, 1_000),
            get(59, "/a", 200, 1_000),
            // Stale; fetched again.
            get(60, "/a", 200, 1_000),
            get(61, "/a", 206, 10),
            get(62, "/a", 304, 0),
            // The time goes on, so this one is at 62.
            get(5, "/a?q", 200, 7),
        ] {
            assert_eq!(replay.take(&logged), Fate::Judged, "{logged:?}");
        }
        let outcome = replay.outcomes().next().unwrap();
        assert_eq!((outcome.hits, outcome.misses, outcome.stale), (3, 2, 1));
        assert_eq!(
            (outcome.hit_bytes, outcome.miss_bytes, outcome.stale_bytes),
            (1_010, 1_007, 1_000)
        );
        assert_eq!(outcome.fetched_bytes(), 2_007);
        let judged = replay.judged();
        assert_eq!((judged.requests, judged.bytes), (6, 3_017));
        assert_eq!((judged.keys, judged.out_of_order), (2, 1));
    }

    #[test]
    fn requests_that_no_cache_answers_are_passed() {
        let mut replay = Replay::new(
            Assumed {
                path: Some("/api/*".parse().unwrap()),
                ..assumed(60)
            },
            Limits::DEFAULT,
            &[(1 << 20, Policy::Lru)],
        );
        let a = "/api/a";
        assert_eq!(replay.take(&get(0, a, 200, 10)), Fate::Judged);
        for (method, target, status, content, fate) in [
            ("POST", a, 500, Some(1), Fate::Method),
            ("GET", a, 302, Some(1), Fate::Status),
            ("GET", a, 404, Some(1), Fate::Status),
            ("GET", a, 503, Some(1), Fate::Status),
            ("GET", a, 200, None, Fate::Length),
            ("GET", "/other", 200, Some(1), Fate::Path),
            ("OPTIONS", "*", 200, Some(1), Fate::Target),
            ("GET", "nonsense", 200, Some(1), Fate::Target),
            ("HEAD", a, 200, None, Fate::Judged),
            ("POST", a, 201, Some(1), Fate::Method),
            // The POST dropped what was stored.
            ("HEAD", a, 200, None, Fate::Judged),
        ] {
            let logged = Logged {
                method: method.as_bytes(),
                content,
                ..get(1, target, status, 0)
            };
            assert_eq!(replay.take(&logged), fate, "{method} {target} {status}");
        }
        let outcome = replay.outcomes().next().unwrap();
        assert_eq!((outcome.hits, outcome.misses, outcome.invalidated), (1, 2, 1));
        assert_eq!(outcome.stored, 1, "a response to HEAD is not stored");
    }

    #[test]
    fn errors_are_stored_for_their_own_time() {
        let negative = Assumed {
            negative: 5,
            ..assumed(60)
        };
        let mut replay = Replay::new(negative, Limits::DEFAULT, &[(1 << 20, Policy::Lru)]);
        for at in [0, 4, 5] {
            assert_eq!(replay.take(&get(at, "/none", 404, 9)), Fate::Judged);
        }
        assert_eq!(replay.take(&get(6, "/", 403, 9)), Fate::Status);
        let outcome = replay.outcomes().next().unwrap();
        assert_eq!((outcome.hits, outcome.misses, outcome.stale), (1, 1, 1));
    }

    #[test]
    fn content_above_the_limits_is_not_stored() {
        let caches = [(64 << 10, Policy::Lru), (4 << 20, Policy::Lru)];
        let mut replay = Replay::new(assumed(60), Limits::DEFAULT, &caches);
        for at in 0..2 {
            replay.take(&get(at, "/half", 200, 32 << 10));
            replay.take(&get(at, "/more", 200, (32 << 10) + 1));
            replay.take(&get(at, "/most", 200, 1 << 20));
            replay.take(&get(at, "/too-much", 200, (1 << 20) + 1));
        }
        let outcomes: Vec<Outcome> = replay.outcomes().collect();
        let counted: Vec<(u64, u64)> = outcomes.iter().map(|one| (one.hits, one.too_large)).collect();
        assert_eq!(counted, [(1, 6), (3, 2)]);
    }

    #[test]
    fn keys_are_limited_in_number_and_length() {
        let limits = |keys_max, key_bytes_max| Limits {
            keys_max,
            key_bytes_max,
        };
        let caches = [(1 << 20, Policy::Lru)];
        for limits in [limits(2, 1_000), limits(9, 12)] {
            let mut replay = Replay::new(assumed(60), limits, &caches);
            let fates = ["/a", "/b", "/c", "/a"].map(|target| replay.take(&get(0, target, 200, 1)));
            assert_eq!(
                fates,
                [Fate::Judged, Fate::Judged, Fate::Full, Fate::Judged],
                "{limits:?}"
            );
        }
    }

    #[test]
    fn hosts_have_keys_of_their_own() {
        let mut replay = Replay::new(assumed(60), Limits::DEFAULT, &[(1 << 20, Policy::Lru)]);
        for host in ["a.test", "A.TEST", "b.test"] {
            replay.take(&Logged {
                host: Some(host.as_bytes()),
                ..get(0, "/", 200, 1)
            });
        }
        assert_eq!(
            (replay.judged().keys, replay.outcomes().next().unwrap().hits),
            (2, 1)
        );
    }

    #[test]
    fn responses_vary_by_the_fields_that_the_log_has() {
        let by = |names: &[&str]| Assumed {
            vary: names.iter().map(|name| (*name).to_owned()).collect(),
            ..assumed(60)
        };
        let counted = |names: &[&str]| {
            let mut replay = Replay::new(by(names), Limits::DEFAULT, &[(1 << 20, Policy::Lru)]);
            let agent = |at, value: &'static [u8]| (at, vec![("User-Agent", value)]);
            for (at, fields) in [
                agent(0, b"a"),
                agent(1, b"b"),
                // Hits of their own variants.
                agent(2, b"a"),
                agent(3, b"b"),
                // Without the field.
                (4, Vec::new()),
                (5, vec![("Accept-Language", &b"de, en"[..])]),
                (6, vec![("Accept-Language", &b"DE,en"[..])]),
            ] {
                let logged = Logged {
                    fields: &fields,
                    ..get(at, "/a", 200, 10)
                };
                assert_eq!(replay.take(&logged), Fate::Judged);
            }
            // Drops all variants.
            let post = Logged {
                method: b"POST",
                ..get(7, "/a", 204, 0)
            };
            assert_eq!(replay.take(&post), Fate::Method);
            let again = Logged {
                fields: &[("User-Agent", b"a")],
                ..get(8, "/a", 200, 10)
            };
            assert_eq!(replay.take(&again), Fate::Judged);
            let outcome = replay.outcomes().next().unwrap();
            let judged = replay.judged();
            (
                (outcome.hits, outcome.misses, outcome.invalidated),
                (judged.keys, judged.variants),
            )
        };
        assert_eq!(counted(&[]), ((6, 2, 1), (1, 1)));
        // a, b and none.
        assert_eq!(counted(&["user-agent"]), ((4, 4, 3), (1, 3)));
        // None, and one language in two spellings.
        assert_eq!(counted(&["accept-language"]), ((5, 3, 2), (1, 2)));
        assert_eq!(counted(&["accept-language", "user-agent"]), ((3, 5, 4), (1, 4)));
    }

    #[test]
    fn variants_count_against_the_limits_and_the_budget() {
        let limits = |keys_max, key_bytes_max| Limits {
            keys_max,
            key_bytes_max,
        };
        let by_agent = Assumed {
            vary: vec!["user-agent".to_owned()],
            ..assumed(60)
        };
        // A target of 5 bytes (`p`, no host, `/a`, two separators), and twice that with a line feed and `user-agent:x` with
        // its own.
        for limits in [limits(2, 1_000), limits(9, 5 + 2 * (5 + 1 + 13))] {
            let mut replay = Replay::new(by_agent.clone(), limits, &[(1 << 20, Policy::Lru)]);
            let fates = [&b"a"[..], b"b", b"c", b"a"].map(|value| {
                replay.take(&Logged {
                    fields: &[("User-Agent", value)],
                    ..get(0, "/a", 200, 1)
                })
            });
            assert_eq!(
                fates,
                [Fate::Judged, Fate::Judged, Fate::Full, Fate::Judged],
                "{limits:?}"
            );
        }
    }

    #[test]
    fn stale_responses_are_served_while_they_are_validated() {
        let allowed = Assumed {
            stale_while_revalidate: 10,
            ..assumed(60)
        };
        let mut replay = Replay::new(allowed, Limits::DEFAULT, &[(1 << 20, Policy::Lru)]);
        for logged in [
            get(0, "/a", 200, 1_000),
            // Stale for 9 s: served, and fetched again; fresh until 129.
            get(69, "/a", 200, 1_200),
            get(70, "/a", 200, 1_200),
            get(128, "/a", 304, 0),
            // Stale for 5 s: served, and confirmed; fresh until 194.
            get(134, "/a", 304, 0),
            get(193, "/a", 200, 1_200),
            // HEAD has the stored response validated by nobody.
            Logged {
                method: b"HEAD",
                ..get(195, "/a", 200, 0)
            },
            // Stale for 10 s, which is too long.
            get(204, "/a", 200, 1_300),
        ] {
            assert_eq!(replay.take(&logged), Fate::Judged, "{logged:?}");
        }
        let outcome = replay.outcomes().next().unwrap();
        assert_eq!((outcome.hits, outcome.misses, outcome.stale), (6, 1, 1));
        assert_eq!((outcome.stale_hits, outcome.stored), (3, 3));
        // 1,200 and 1,200 of refreshes, and 1,300.
        assert_eq!(
            (outcome.hit_bytes, outcome.miss_bytes, outcome.stale_bytes),
            (3_600, 1_000, 3_700)
        );
    }

    #[test]
    fn stale_responses_stand_in_for_errors() {
        let log = [
            // Nothing stands in.
            get(0, "/a", 503, 99),
            get(1, "/a", 200, 1_000),
            // Fresh: the upstream is not asked.
            get(60, "/a", 500, 99),
            // Stale for 0 s to 9 s.
            get(61, "/a", 502, 99),
            get(70, "/a", 504, 99),
            // Too long.
            get(71, "/a", 503, 99),
            // The stored response is still there.
            get(72, "/a", 304, 0),
            get(73, "/a", 503, 99),
        ];
        let allowed = Assumed {
            stale_if_error: 10,
            ..assumed(60)
        };
        let mut replay = Replay::new(allowed, Limits::DEFAULT, &[(1 << 20, Policy::Lru)]);
        for logged in &log {
            assert_eq!(replay.take(logged), Fate::Judged, "{logged:?}");
        }
        let outcome = replay.outcomes().next().unwrap();
        assert_eq!((outcome.hits, outcome.misses, outcome.stale), (2, 2, 4));
        assert_eq!((outcome.stood_in, outcome.errors), (2, 2));
        // An error counts with no bytes.
        assert_eq!((outcome.fetched_bytes(), replay.judged().bytes), (2_000, 1_000));
        // While it is validated, an error is not seen, and the response stays stale.
        let both = Assumed {
            stale_while_revalidate: 5,
            stale_if_error: 10,
            ..assumed(60)
        };
        let mut replay = Replay::new(both, Limits::DEFAULT, &[(1 << 20, Policy::Lru)]);
        for logged in [
            get(0, "/a", 200, 1_000),
            get(64, "/a", 503, 99),
            get(65, "/a", 503, 99),
            get(70, "/a", 503, 99),
        ] {
            assert_eq!(replay.take(&logged), Fate::Judged, "{logged:?}");
        }
        let outcome = replay.outcomes().next().unwrap();
        assert_eq!((outcome.hits, outcome.stale_hits), (1, 1));
        assert_eq!((outcome.stood_in, outcome.errors), (1, 1));
        // Without the allowance, errors are not judged.
        let mut replay = Replay::new(assumed(60), Limits::DEFAULT, &[(1 << 20, Policy::Lru)]);
        assert_eq!(replay.take(&log[0]), Fate::Status);
    }

    proptest! {
        #[test]
        fn the_books_balance_and_the_budget_holds(
            requests in proptest::collection::vec((0_u8..12, 0_u64..40_000, 0_usize..7, 0_i64..40), 1..300),
        ) {
            let caches: Vec<(u64, Policy)> =
                Policy::ALL.iter().flat_map(|&policy| [(64 << 10, policy), (u64::MAX, policy)]).collect();
            let assumed = Assumed {
                stale_while_revalidate: 5,
                stale_if_error: 15,
                vary: vec!["user-agent".to_owned()],
                ..assumed(30)
            };
            let mut replay = Replay::new(assumed, Limits::DEFAULT, &caches);
            let mut at = 0;
            for (name, content, kind, step) in requests {
                at += step;
                let (method, status) =
                    [("GET", 200), ("GET", 206), ("GET", 304), ("HEAD", 200), ("POST", 200), ("GET", 301), ("GET", 503)][kind];
                let target = format!("/{}", name / 2);
                let agent = [b'a' + name % 2];
                let fields = [("User-Agent", &agent[..])];
                let logged = Logged { method: method.as_bytes(), fields: &fields, ..get(at, &target, status, content) };
                replay.take(&logged);
                for cache in &replay.caches {
                    prop_assert!(cache.used <= cache.budget);
                    let costs: u64 = cache.entries.iter().flatten().map(|entry| entry.cost).sum();
                    prop_assert_eq!(costs, cache.used);
                }
            }
            let judged = replay.judged();
            let all: Vec<Outcome> = replay.outcomes().collect();
            for outcome in &all {
                prop_assert_eq!(outcome.hits + outcome.misses + outcome.stale, judged.requests);
                prop_assert!(outcome.hit_bytes <= judged.bytes);
                prop_assert!(outcome.stale_hits <= outcome.hits && outcome.stood_in <= outcome.stale);
            }
            for pair in all.chunks(2) {
                prop_assert_eq!(pair[1].evictions, 0);
                prop_assert_eq!(pair[1].hits, all[1].hits, "with room for all, the policy does not matter");
            }
        }
    }
}
