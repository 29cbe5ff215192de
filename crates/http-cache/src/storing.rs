//! Which responses a shared cache stores (RFC 9111 section 3).

use crate::directives::{RequestDirectives, ResponseDirectives};
use crate::freshness::{is_heuristic, lifetime};
use crate::partial;
use http_semantics::field::{Fields, Name};
use http_semantics::method::Method;
use units::UnixTime;

/// What decides whether a response is stored.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a, 'b, 's> {
    /// Method of the request.
    pub method: Method,
    /// Its directives.
    pub asked: &'a RequestDirectives,
    /// Whether it has `Authorization`.
    pub is_authorized: bool,
    /// Status of the response.
    pub status: u16,
    /// Its fields.
    pub fields: &'a Fields<'b, 's>,
    /// Its directives.
    pub directives: &'a ResponseDirectives,
    /// `Content-Location` names the target of the request.
    pub is_located_here: bool,
    /// When the response arrived.
    pub received: UnixTime,
    /// Seconds for which an error is fresh if the response does not say so; 0: as any other response.
    pub negative: u64,
}

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Responses to this method are not reused.
    Method,
    /// Not a final status, or one with a meaning that this cache does not know.
    Status,
    /// The request or the response forbids it.
    NoStore,
    /// The response is for one user.
    Private,
    /// The request has credentials, and the response does not allow a shared cache.
    Authorization,
    /// `Vary: *`: no later request matches.
    Vary,
    /// It would never be fresh, and nothing validates it.
    Useless,
}

impl Refusal {
    /// The `detail` of Cache-Status (RFC 9211 section 2.8).
    pub const fn detail(self) -> &'static str {
        match self {
            Refusal::Method => "method",
            Refusal::Status => "status",
            Refusal::NoStore => "no-store",
            Refusal::Private => "private",
            Refusal::Authorization => "authorization",
            Refusal::Vary => "vary",
            Refusal::Useless => "not-fresh",
        }
    }
}

/// Whether a response is stored.
///
/// # Errors
/// Why it is not.
pub fn decide(candidate: &Candidate<'_, '_, '_>) -> Result<(), Refusal> {
    let Candidate {
        directives,
        fields,
        status,
        ..
    } = *candidate;
    let life = lifetime(status, fields, directives, candidate.received);
    match candidate.method {
        Method::Get => {}
        // RFC 9110 section 9.3.3.
        Method::Post if status == 200 && life.is_explicit && candidate.is_located_here => {}
        _ => return Err(Refusal::Method),
    }
    let is_understood = is_known(status);
    let is_partial = status == 206;
    if !(200..=599).contains(&status)
        // They answer conditions and ranges, which are not in the key.
        || matches!(status, 304 | 412 | 416)
        || directives.must_understand && !is_understood
        || is_partial && (candidate.method != Method::Get || partial::range_of(fields).is_none())
    {
        return Err(Refusal::Status);
    }
    // Section 5.2.2.3: a cache that knows the status ignores `no-store` beside `must-understand`.
    if candidate.asked.no_store || directives.no_store && !directives.must_understand {
        return Err(Refusal::NoStore);
    }
    if directives.private {
        return Err(Refusal::Private);
    }
    if candidate.is_authorized
        && !(directives.public || directives.must_revalidate || directives.s_maxage.is_some())
    {
        return Err(Refusal::Authorization);
    }
    if crate::variant::names(fields).is_none() {
        return Err(Refusal::Vary);
    }
    // A cookie may be for one user, so a heuristic is not enough.
    let has_cookie = fields.find("set-cookie").is_some();
    let is_allowed = life.is_explicit || directives.public || is_heuristic(status) && !has_cookie;
    let is_negative = status >= 400 && is_heuristic(status) && candidate.negative > 0;
    let has_validator = fields.has(Name::ETag) || fields.has(Name::LastModified);
    let is_stale_useful = directives.stale_while_revalidate.is_some() || directives.stale_if_error.is_some();
    let is_useful =
        (life.seconds > 0 && !directives.no_cache) || has_validator || is_stale_useful || is_negative;
    if !is_allowed || !is_useful {
        return Err(Refusal::Useless);
    }
    Ok(())
}

/// Whether this status has a meaning here (RFC 9110 section 15, without those that switch or are reserved).
const fn is_known(status: u16) -> bool {
    matches!(
        status,
        200..=206 | 300..=303 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 428 | 429 | 431 | 451 | 500..=505 | 511
    )
}
