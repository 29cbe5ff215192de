//! A request as handlers and filters see it: the parts that may decide an answer, whatever the version of HTTP.

use std::net::IpAddr;
use units::UnixTime;

/// A request, as handlers and filters see it.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The raw path. For a handler: the part below its own path, empty for that path itself.
    pub path: &'a [u8],
    /// The raw query.
    pub query: Option<&'a [u8]>,
    /// The raw authority (RFC 9110 section 7.2): the name by which the client knows this server.
    pub authority: Option<&'a [u8]>,
    /// Address of the client.
    pub peer: IpAddr,
    /// Wall-clock time.
    pub wall: UnixTime,
}
