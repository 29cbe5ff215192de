//! Whether a stored response answers a request (RFC 9111 section 4), and what happens while and after it is validated (RFC
//! 5861).

use crate::directives::RequestDirectives;
use crate::stored::Stored;
use units::UnixTime;

/// Allowances of the operator for responses that say nothing themselves, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowances {
    /// Time after its lifetime in which a response is served while it is validated.
    pub stale_while_revalidate: u64,
    /// Time after its lifetime in which a response is served in place of an error.
    pub stale_if_error: u64,
}

/// What to do with a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Serve it.
    Fresh,
    /// Serve it although it is stale.
    Stale {
        /// Validate it meanwhile. Otherwise, the request accepts it stale.
        revalidates: bool,
    },
    /// Validate it first.
    Validate(Cause),
}

/// Why a stored response is validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It is stale, or must always be validated.
    Stale,
    /// The request asks for it.
    Request,
}

/// What to do with a stored response for a request with these directives.
pub fn decide(stored: &Stored, asked: &RequestDirectives, allowed: &Allowances, now: UnixTime) -> Reuse {
    if stored.directives.no_cache {
        return Reuse::Validate(Cause::Stale);
    }
    if asked.no_cache {
        return Reuse::Validate(Cause::Request);
    }
    let age = stored.age.now(now);
    if asked.max_age.is_some_and(|most| age > most) {
        return Reuse::Validate(Cause::Request);
    }
    let ttl = stored.ttl(now);
    if ttl > 0 {
        let is_fresh_enough = asked
            .min_fresh
            .is_none_or(|least| ttl >= i64::try_from(least).unwrap_or(i64::MAX));
        return match is_fresh_enough {
            true => Reuse::Fresh,
            false => Reuse::Validate(Cause::Request),
        };
    }
    if stored.directives.forbids_stale() || asked.min_fresh.is_some() {
        return Reuse::Validate(Cause::Stale);
    }
    let staleness = ttl.unsigned_abs();
    let window = stored
        .directives
        .stale_while_revalidate
        .unwrap_or(allowed.stale_while_revalidate);
    if window > 0 && staleness < window {
        return Reuse::Stale { revalidates: true };
    }
    if asked.max_stale.is_some_and(|most| staleness <= most) {
        return Reuse::Stale { revalidates: false };
    }
    Reuse::Validate(Cause::Stale)
}

/// Whether a stored response stands in for an error of the upstream.
pub fn stands_in(stored: &Stored, allowed: &Allowances, now: UnixTime) -> bool {
    if stored.directives.forbids_stale() {
        return false;
    }
    let ttl = stored.ttl(now);
    let window = stored.directives.stale_if_error.unwrap_or(allowed.stale_if_error);
    ttl > 0 || window > 0 && ttl.unsigned_abs() < window
}
