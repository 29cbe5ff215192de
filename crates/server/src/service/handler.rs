//! Handlers answer requests in place of files. The live page and the health checks are handlers; programs that use this
//! library can add their own ([`crate::Additions`]).
//!
//! Another protocol is not a handler but a [`runtime::Service`] with its own sessions; HTTP/1.x ([`crate::Server`]) is
//! one.
//!
//! A handler has a path and answers every request at or below it. It answers from memory, without blocking;
//! code that must wait does so elsewhere. Files pay nothing for handlers: known request heads are answered before
//! handlers are searched.

pub use crate::ask::Ask;

use super::Server;
use bytes::Bytes;
use core::fmt;
use http_semantics::method::Method;
use http_semantics::request::RequestHead;
use http_semantics::status::Status;
use std::sync::Arc;

/// A complete response. It is sent with `no-store`, so no cache keeps it.
#[derive(Clone, Debug)]
pub struct Made {
    /// Status.
    pub status: Status,
    /// `Content-Type`.
    pub media_type: &'static str,
    /// Content.
    pub content: Bytes,
}

/// Answers the requests at or below a path.
pub trait Handler: Send + Sync + fmt::Debug {
    /// The response to a GET; a HEAD gets its header block. `None` means 404. Must not block.
    fn answer(&self, ask: &Ask<'_>, server: &Server) -> Option<Made>;

    /// Whether requests count toward the address's rate limit (`--max-request-rate`). Health checks are exempt: other
    /// clients behind the same address could otherwise make a probe fail.
    fn is_rate_limited(&self) -> bool {
        true
    }

    /// Whether access rules apply. Answers to a CA are exempt: the CA has no password, and its addresses are not known.
    fn is_guarded(&self) -> bool {
        true
    }
}

/// Handlers by path, in the order of search.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handlers(Vec<(Box<str>, Arc<dyn Handler>)>);

impl Handlers {
    /// The handler of a request, and the part of the path below its own.
    #[inline]
    pub(crate) fn of<'p>(&self, head: &RequestHead<'p, '_>) -> Option<(&dyn Handler, &'p [u8])> {
        let found = self.find(head.target.path()?)?;
        matches!(head.method, Method::Get | Method::Head).then_some(found)
    }

    /// Whether a request counts toward the rate limit of its address.
    pub(crate) fn is_rate_limited(&self, head: &RequestHead<'_, '_>) -> bool {
        self.of(head).is_none_or(|(handler, _)| handler.is_rate_limited())
    }

    pub(crate) fn add(&mut self, at: impl Into<Box<str>>, handler: Arc<dyn Handler>) {
        self.0.push((at.into(), handler));
    }

    /// The handler for a path, with the part of the path below its own. A handler whose path ends in a slash covers the
    /// paths below it; any other covers one path.
    #[inline]
    fn find<'p>(&self, path: &'p [u8]) -> Option<(&dyn Handler, &'p [u8])> {
        self.0.iter().find_map(|(at, handler)| {
            let below = path.strip_prefix(at.as_bytes())?;
            (at.ends_with('/') || below.is_empty()).then_some((&**handler, below))
        })
    }
}
