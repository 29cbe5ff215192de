//! Which requests may be sent twice, and how many are.
//!
//! A repeated request costs an upstream as much as another client. If every request is repeated, an upstream that is slow
//! because of its load gets twice the load. So retries are paid for by requests: each earns a part of a retry.

use http_semantics::method::Method;
use http1::framing::Framing;
use std::sync::atomic::{AtomicU32, Ordering};

/// What a retry costs; a request earns one. So at most a tenth of the requests is repeated.
const COST: u32 = 10;

/// Most that is saved: ten retries in a row.
const SAVED_MAX: u32 = 10 * COST;

/// Whether a request may be sent again although the upstream may have processed it: its method is idempotent (RFC 9110
/// section 9.2.2), and there is no content that would have to be kept.
pub(crate) fn may_be_repeated(method: Method, framing: Framing) -> bool {
    let is_idempotent = matches!(
        method,
        Method::Get | Method::Head | Method::Options | Method::Put | Method::Delete
    );
    is_idempotent && framing == Framing::Empty
}

/// The retries that a route has left.
#[derive(Debug)]
pub(crate) struct Budget {
    saved: AtomicU32,
}

impl Budget {
    pub(crate) fn new() -> Budget {
        Budget {
            saved: AtomicU32::new(SAVED_MAX),
        }
    }

    /// A request arrived.
    pub(crate) fn earn(&self) {
        let more = |saved: u32| (saved < SAVED_MAX).then_some(saved + 1);
        let _ = self
            .saved
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    /// Whether a request may be repeated now; that is then paid for.
    pub(crate) fn spend(&self) -> bool {
        let less = |saved: u32| saved.checked_sub(COST);
        self.saved
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_idempotent_requests_without_content_are_repeated() {
        for (method, framing, expected) in [
            (Method::Get, Framing::Empty, true),
            (Method::Head, Framing::Empty, true),
            (Method::Delete, Framing::Empty, true),
            (Method::Post, Framing::Empty, false),
            (Method::Patch, Framing::Empty, false),
            (Method::Put, Framing::Length(1), false),
            (Method::Get, Framing::Chunked, false),
        ] {
            assert_eq!(
                may_be_repeated(method, framing),
                expected,
                "{method:?} {framing:?}"
            );
        }
    }

    #[test]
    fn a_tenth_of_the_requests_is_repeated() {
        let budget = Budget::new();
        let repeated = |requests: u32| {
            let repeated = (0..requests).filter(|_| {
                budget.earn();
                budget.spend()
            });
            repeated.count()
        };
        // Ten that were saved, and a tenth of those after the first, which found nothing missing.
        assert_eq!(repeated(1_000), 10 + 99);
        assert_eq!(repeated(1_000), 100);
        // What is saved has a bound.
        (0..10_000).for_each(|_| budget.earn());
        assert_eq!((0..100).filter(|_| budget.spend()).count(), 10);
    }
}
