//! What a cache may do for a request, in words. Each statement is a decision of the functions that decide for an exchange, about
//! a response that could be stored or could arrive. It says nothing of what is stored: the cache that is asked is empty.

use super::{Cached, TARGETS, parts};
use crate::config::show_duration;
use http_cache::cache_status::Forwarded;
use http_cache::directives::SECONDS_MAX;
use http_cache::invalidation;
use http_cache::reuse::{self, Cause, Reuse};
use http_cache::stored::{Stored, Terms, lines};
use http_cache::storing::Refusal;
use http_semantics::field::{Fields, Name};
use http_semantics::method::Method;
use units::UnixTime;

/// Directives of a response of which one lets a shared cache store it despite `Authorization` (RFC 9111 section 3.5).
const PERMISSIONS: [&str; 3] = ["public", "must-revalidate", "s-maxage=60"];

impl Cached {
    /// What the cache may do for this request, as sentences.
    pub(crate) fn explain(mut self) -> Vec<String> {
        let answering = self.answering();
        vec![self.budgets(), self.key_in_words(), answering, self.storing()]
    }

    /// Limits and eviction.
    fn budgets(&self) -> String {
        let config = &self.cache.config;
        let disk = match &config.disk {
            Some(folder) => format!("on disk up to {} in `{}`", config.disk_size, folder.display()),
            None => "no disk".to_owned(),
        };
        format!(
            "up to {} in memory ({}), content up to {}; {disk}",
            config.size, config.policy, config.max_object_size
        )
    }

    fn key_in_words(&self) -> String {
        let scheme = match self.key.first() {
            Some(b's') => "https",
            _ => "http",
        };
        let (authority, target) = parts(&self.key);
        format!(
            "key: {scheme}, {}, `{}`, and the request fields that the response names in `Vary`",
            authority.escape_ascii(),
            target.escape_ascii()
        )
    }

    /// Whether stored responses answer the request.
    fn answering(&mut self) -> String {
        if !self.may_reuse {
            let dropped = match invalidation::is_due(self.method, 200) {
                true => "; if it succeeds, the stored responses with this key are dropped",
                false => "",
            };
            let what = self.method.name().unwrap_or("another method");
            return format!("answer: always from the upstream, as the request is {what}{dropped}");
        }
        let allowances = self.cache.allowances();
        let (fresh, stale) = (self.example(SECONDS_MAX), self.example(1));
        let decide = |stored: &Stored| reuse::decide(stored, &self.asked, &allowances, self.wall);
        let mut said = match decide(&fresh) {
            Reuse::Fresh | Reuse::Stale { .. } => {
                let conditions = [
                    self.asked
                        .max_age
                        .map(|most| format!("is at most {most}s old (max-age)")),
                    self.asked
                        .min_fresh
                        .map(|least| format!("stays fresh for {least}s (min-fresh)")),
                ];
                let conditions: Vec<String> = conditions.into_iter().flatten().collect();
                let mut said = "answer: from a fresh stored response".to_owned();
                if !conditions.is_empty() {
                    said += &format!(" that {}", conditions.join(" and "));
                }
                let config = &self.cache.config;
                said += &match decide(&stale) {
                    Reuse::Stale { revalidates: true } => format!(
                        "; from a stale one for {}, while Weir validates it",
                        show_duration(config.stale_while_revalidate)
                    ),
                    Reuse::Stale { revalidates: false } | Reuse::Fresh => {
                        "; from a stale one within max-stale of the request".to_owned()
                    }
                    Reuse::Validate(_) => "; a stale one is validated first".to_owned(),
                };
                said
            }
            Reuse::Validate(cause) => {
                if cause == Cause::Request {
                    self.status.forwarded = Some(Forwarded::Request);
                }
                "answer: from a stored response after the upstream has validated it, as the request says"
                    .to_owned()
            }
        };
        if reuse::stands_in(&stale, &allowances, self.wall) {
            said += &format!(
                "; for {}, a stale one stands in for an error",
                show_duration(self.cache.config.stale_if_error)
            );
        }
        if self.with_request(|request| request.has(Name::Range)) {
            said += "; a range from a complete one, or from a part that has its bytes";
        }
        if self.asked.only_if_cached {
            return said + "; otherwise 504 (only-if-cached)";
        }
        said += match self.may_collapse(self.wall) {
            true => "; waits while another client's request for it is under way",
            false => "; does not wait for another client's request",
        };
        said
    }

    /// Whether a response to the request is stored.
    fn storing(&self) -> String {
        let plain = match self.would_store(200, "Cache-Control: max-age=60\r\n") {
            Ok(()) => {
                let errors = match self.would_store(404, "") {
                    Ok(()) => format!(
                        "; a 404, 405, 410, 414 or 501 for {}",
                        show_duration(self.cache.config.negative_time)
                    ),
                    Err(_) => String::new(),
                };
                let targets = TARGETS.join(", ");
                return format!(
                    "store: yes, if the response has a lifetime or a validator and permits it; {targets} overrides \
                     Cache-Control and Expires{errors}"
                );
            }
            Err(refusal) => refusal,
        };
        let permits: Vec<&str> = PERMISSIONS
            .into_iter()
            .filter(|directive| {
                let line = format!("Cache-Control: max-age=60, {directive}\r\n");
                self.would_store(200, &line).is_ok()
            })
            .map(|directive| directive.split('=').next().unwrap_or(directive))
            .collect();
        if !permits.is_empty() {
            return format!(
                "store: only if the response has {}, as the request has Authorization",
                permits.join(" or ")
            );
        }
        let (_, target) = parts(&self.key);
        let located = format!(
            "Cache-Control: max-age=60\r\nContent-Location: {}\r\n",
            String::from_utf8_lossy(target)
        );
        if self.would_store(200, &located).is_ok() {
            return "store: only a 200 with a lifetime that names this path in Content-Location; GET requests get it"
                .to_owned();
        }
        match plain {
            Refusal::NoStore => "store: no, as the request has no-store".to_owned(),
            Refusal::Method if self.method == Method::Head => {
                "store: no, as a response to HEAD has no content".to_owned()
            }
            other => format!("store: no ({})", other.detail()),
        }
    }

    /// Whether a response that arrives now, with these lines, is stored.
    fn would_store(&self, status: u16, text: &str) -> Result<(), Refusal> {
        let lines = lines(text.as_bytes());
        self.decide(status, &Fields::new(&lines), &self.terms(self.wall))
    }

    /// A response that arrived a second ago with this lifetime in seconds.
    fn example(&self, lifetime: u64) -> Stored {
        let text = format!("Cache-Control: max-age={lifetime}\r\n");
        let lines = lines(text.as_bytes());
        let before = UnixTime::from_secs(self.wall.secs.saturating_sub(1));
        Stored::of(200, &Fields::new(&lines), &self.terms(before))
    }

    fn terms(&self, received: UnixTime) -> Terms<'static> {
        Terms {
            asked: received,
            received,
            targets: TARGETS,
            negative: self.cache.negative(),
        }
    }
}
