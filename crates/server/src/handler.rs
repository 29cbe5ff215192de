//! What answers a request in place of a file. The live page and the answers about health are handlers, and a
//! program that uses this library adds its own ([`crate::Additions`]).
//!
//! A protocol on a connection is another matter: that is a [`runtime::Service`] with its sessions, of which
//! HTTP/1.x ([`crate::Server`]) is the one here.
//!
//! A handler is mounted at a path and asked for everything at or below it. It makes its answer from
//! memory, at once: whoever must wait for something else does so elsewhere and shows what it has. Files
//! never pay for handlers: a head met before is answered before mounts are looked at.

use crate::service::Server;
use bytes::Bytes;
use core::fmt;
use http_semantics::status::Status;
use measure::UnixTime;
use std::net::IpAddr;
use std::sync::Arc;

/// A request, for a handler or a filter.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The path, raw. For a handler what is below its mount; empty for the mount itself.
    pub path: &'a [u8],
    /// The query, raw.
    pub query: Option<&'a [u8]>,
    /// The authority it is for (RFC 9110 section 7.2), raw: what the client takes this server to be called.
    pub authority: Option<&'a [u8]>,
    /// Who asks.
    pub peer: IpAddr,
    /// Now.
    pub wall: UnixTime,
}

/// An answer, complete. It is never stored by caches.
#[derive(Clone, Debug)]
pub struct Made {
    /// Status.
    pub status: Status,
    /// `Content-Type`.
    pub media_type: &'static str,
    /// Content.
    pub content: Bytes,
}

/// Answers for a part of the paths.
pub trait Handler: Send + Sync + fmt::Debug {
    /// The answer to a GET; a HEAD gets its head. `None` is 404. Must not block.
    fn answer(&self, ask: &Ask<'_>, server: &Server) -> Option<Made>;

    /// Whether being asked counts as a request of the address (`--max-request-rate`). A probe that others behind
    /// the same address could have refused would tell of them and not of the server.
    fn is_rate_limited(&self) -> bool {
        true
    }
}

/// Handlers by path, in the order they are looked at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mounts(Vec<(Box<str>, Arc<dyn Handler>)>);

impl Mounts {
    pub(crate) fn add(&mut self, at: impl Into<Box<str>>, handler: Arc<dyn Handler>) {
        self.0.push((at.into(), handler));
    }

    /// The handler for a path, and the path below its mount. A mount that ends in a slash has paths
    /// below it, any other is one path.
    #[inline]
    pub(crate) fn find<'p>(&self, path: &'p [u8]) -> Option<(&dyn Handler, &'p [u8])> {
        self.0.iter().find_map(|(at, handler)| {
            let below = path.strip_prefix(at.as_bytes())?;
            (at.ends_with('/') || below.is_empty()).then_some((&**handler, below))
        })
    }
}
