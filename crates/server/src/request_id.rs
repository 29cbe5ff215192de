//! Ids of requests, by which lines of several logs can be found together.
//!
//! A trusted peer may send one, of at most [`LENGTH_MAX`] characters that need no escaping anywhere. All other requests get one
//! of this server, made of the number of their connection and their number within it by a keyed hash. So the same request has
//! the same id wherever it is asked for, and an id tells nothing about the next one.

use crate::field_list::write_line;
use http_semantics::request::RequestHead;
use otlp::ids::{SpanId, TraceId};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::Seed;

/// Maximum length of a received id in bytes.
const LENGTH_MAX: usize = 128;

/// The id of a request, and the field that carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestId(Arc<Named>);

#[derive(Debug, PartialEq, Eq)]
struct Named {
    field: Arc<str>,
    value: Box<str>,
}

impl RequestId {
    fn new(field: &Arc<str>, value: String) -> RequestId {
        RequestId(Arc::new(Named {
            field: Arc::clone(field),
            value: value.into(),
        }))
    }

    /// The id that a request has; `None`: it has none, several, or one that is too long or has other characters.
    pub(crate) fn received(field: &Arc<str>, head: &RequestHead<'_, '_>) -> Option<RequestId> {
        let mut lines = head
            .fields
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case(field));
        let (_, value) = lines.next().filter(|_| lines.next().is_none())?;
        let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_.:=+/@".contains(b);
        let is_valid = (1..=LENGTH_MAX).contains(&value.len()) && value.iter().all(is_plain);
        let value = std::str::from_utf8(value).ok().filter(|_| is_valid)?;
        Some(RequestId::new(field, value.to_owned()))
    }

    /// The id.
    pub(crate) fn value(&self) -> &str {
        &self.0.value
    }

    /// Name of its field.
    pub(crate) fn field(&self) -> &str {
        &self.0.field
    }

    /// Appends the field line.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        write_line(out, self.field(), self.value().as_bytes());
    }
}

/// The place of a request within its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Nth {
    /// So many requests came before, or with it. HTTP/1.
    Request(u32),
    /// On this stream. HTTP/2 and HTTP/3.
    Stream(u64),
}

/// Ids for the trace of a request, if it begins one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceIds {
    pub(crate) trace: TraceId,
    /// Of the request.
    pub(crate) span: SpanId,
    /// Of the request to an upstream.
    pub(crate) call: SpanId,
}

/// Makes ids.
#[derive(Debug)]
pub(crate) struct Ids {
    /// Secrets of this process. A process that it forks has the same, and another seed.
    keys: [RandomState; 2],
    seed: Seed,
    connections: AtomicU64,
}

impl Ids {
    /// Makes ids that differ from those of all other processes, and of those with another seed.
    pub(crate) fn new(seed: Seed) -> Ids {
        Ids {
            keys: [RandomState::new(), RandomState::new()],
            seed,
            connections: AtomicU64::new(0),
        }
    }

    /// A number that no other connection has. Never 0.
    pub(crate) fn connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The id of a request: 32 hexadecimal digits.
    pub(crate) fn make(&self, field: &Arc<str>, connection: u64, nth: Nth) -> RequestId {
        let [first, second] = &self.keys;
        let place = (self.seed.0, connection, nth);
        RequestId::new(
            field,
            format!("{:016x}{:016x}", first.hash_one(place), second.hash_one(place)),
        )
    }

    /// The ids for the trace of a request, which tell nothing about its own id.
    pub(crate) fn trace(&self, connection: u64, nth: Nth) -> TraceIds {
        let [first, second] = &self.keys;
        let bits = |of: &str, key: &RandomState| key.hash_one((self.seed.0, connection, nth, of));
        TraceIds {
            trace: TraceId::of(bits("trace", first), bits("trace", second)),
            span: SpanId::of(bits("span", first)),
            call: SpanId::of(bits("call", first)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_semantics::field::{Fields, Line};
    use http_semantics::method::Method;
    use http_semantics::request::Protocol;
    use http_semantics::target::Target;
    use std::collections::HashSet;

    fn received(values: &[&str]) -> Option<String> {
        let lines: Vec<Line<'_>> = values
            .iter()
            .map(|value| Line {
                name: "x-request-ID",
                value: value.as_bytes(),
            })
            .collect();
        let head = RequestHead {
            method: Method::Get,
            method_name: "GET",
            target: Target::parse(b"/", Method::Get).unwrap(),
            target_raw: b"/",
            protocol: Protocol::Http11,
            fields: Fields::new(&lines),
        };
        RequestId::received(&"X-Request-Id".into(), &head).map(|id| id.value().to_owned())
    }

    #[test]
    fn a_received_id_is_short_and_plain() {
        let longest = "x".repeat(LENGTH_MAX);
        for value in ["a", "0f-1_2.3:4=5+6/7@8", &longest] {
            assert_eq!(received(&[value]).as_deref(), Some(value));
        }
        let too_long = "x".repeat(LENGTH_MAX + 1);
        for values in [
            &[][..],
            &[""],
            &["a b"],
            &["a\"b"],
            &["a,b"],
            &["\u{e9}"],
            &[&too_long],
            &["a", "a"],
        ] {
            assert_eq!(received(values), None, "{values:?}");
        }
    }

    #[test]
    fn made_ids_differ() {
        let field = "X-Request-Id".into();
        let (one, other) = (Ids::new(Seed(1)), Ids::new(Seed(1)));
        let mut seen = HashSet::new();
        for ids in [&one, &other] {
            for _ in 0..10 {
                let connection = ids.connection();
                for number in 0..10 {
                    for nth in [Nth::Request(number), Nth::Stream(number.into())] {
                        let id = ids.make(&field, connection, nth);
                        assert_eq!(id, ids.make(&field, connection, nth));
                        assert!(id.value().len() == 32 && id.value().bytes().all(|b| b.is_ascii_hexdigit()));
                        assert!(seen.insert(id.value().to_owned()), "{nth:?} twice");
                    }
                }
            }
        }
    }
}
