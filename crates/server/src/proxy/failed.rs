//! Why a request that was passed on got no whole response, and whose fault that is.

use http1::Fault;
use runtime::session::PeerLoss;
use std::fmt;

/// Why an exchange failed, and whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// The upstream could not be reached.
    Unreachable(PeerLoss),
    /// The TLS handshake failed, or a later record is not of the upstream.
    Insecure,
    /// The upstream's host name has no known address.
    Unresolved,
    /// The upstream did not accept the connection in time.
    ConnectTimeout,
    /// This machine or the session has no room for another connection.
    NoRoom(PeerLoss),
    /// The client's connection had its bound of upstream connections for too long.
    NoTurn,
    /// The upstream closed or lost the connection before its response.
    Unanswered,
    /// The upstream did not process the request (RFC 9113 section 8.7).
    Refused,
    /// The upstream closed or lost the connection within its response.
    Truncated,
    /// The upstream's response is invalid.
    Invalid(Fault),
    /// The upstream's response cannot be written.
    Unwritable,
    /// The upstream did not respond in time.
    Timeout,
    /// Upstream and client did not complete the exchange in time.
    TotalTimeout,
    /// What the upstream sent is no FastCGI, or no response of CGI.
    Malformed(fastcgi::Fault),
    /// There is no script for the request.
    NoScript,
    /// The disk did not say in time whether there is a script.
    Disk,
    /// The application has to know the length of the client's body first, and it is too much to be collected.
    NoLength,
    /// The client's body is invalid.
    Request(Fault),
    /// The client's body is too large.
    TooLarge,
    /// The client's body did not arrive in time.
    RequestTimeout,
    /// The client closed before its request was complete.
    ClientGone,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Unreachable(loss) if loss.is_forbidden() => write!(
                f,
                "{loss}; restart Weir if a reload added this port (Landlock), otherwise check the permissions of the \
                 Unix socket, or the firewall"
            ),
            Failed::Unreachable(loss) => write!(f, "{loss}; start the upstream or correct its address"),
            Failed::Insecure => f.write_str("the TLS of the connection failed; check the upstream"),
            Failed::Unresolved => f.write_str(
                "its host name has no known address; correct the name, or check the resolver of this machine",
            ),
            Failed::ConnectTimeout => {
                f.write_str("no connection within `connect-timeout`; check the upstream")
            }
            Failed::NoRoom(loss) => write!(f, "{loss}; raise the limit on open files"),
            Failed::NoTurn => f.write_str(
                "no upstream connection of this client became free within `first-byte-timeout`; check the upstream",
            ),
            Failed::Unanswered => f.write_str("closed the connection without a response; see its log"),
            Failed::Refused => f.write_str(
                "refused the request (REFUSED_STREAM, GOAWAY, FCGI_OVERLOADED, or the end of the connection before the request was sent), which could not be repeated; raise its limit on streams or processes, or `retries`",
            ),
            Failed::Truncated => f.write_str("closed the connection within its response; see its log"),
            Failed::Invalid(fault) => write!(
                f,
                "sent an invalid response: {}; correct the upstream",
                fault.text()
            ),
            Failed::Unwritable => f.write_str("sent a field that cannot be passed on; correct the upstream"),
            Failed::Timeout => {
                f.write_str("did not respond in time; check the upstream, or raise its timeouts")
            }
            Failed::TotalTimeout => f.write_str(
                "the response was not complete within `total-timeout`; check upstream and client, or raise it",
            ),
            Failed::Malformed(fault) => write!(f, "sent an invalid response: {fault}; correct the upstream"),
            Failed::NoScript => f.write_str("there is no script for the request"),
            Failed::Disk => f.write_str(
                "the disk did not say in time whether there is a script; check the file system of the root",
            ),
            Failed::NoLength => f.write_str(
                "the client's body has no length and exceeds 1 MiB; FastCGI needs the length of longer bodies first",
            ),
            Failed::Request(fault) => write!(f, "the client's request is invalid: {}", fault.text()),
            Failed::TooLarge => f.write_str("the client's body exceeds `max-body-size`"),
            Failed::RequestTimeout => f.write_str("the client's body did not arrive in time"),
            Failed::ClientGone => f.write_str("the client closed before its request was complete"),
        }
    }
}

impl Failed {
    /// Its name in spans (`error.type`).
    pub(crate) fn word(self) -> &'static str {
        match self {
            Failed::Unreachable(_) => "unreachable",
            Failed::Insecure => "tls",
            Failed::Unresolved => "unresolved",
            Failed::ConnectTimeout => "connect_timeout",
            Failed::NoRoom(_) => "no_room",
            Failed::NoTurn => "no_turn",
            Failed::Unanswered => "unanswered",
            Failed::Refused => "refused",
            Failed::Truncated => "truncated",
            Failed::Invalid(_) => "invalid_response",
            Failed::Unwritable => "unwritable_response",
            Failed::Timeout => "timeout",
            Failed::TotalTimeout => "total_timeout",
            Failed::Malformed(_) => "invalid_response",
            Failed::NoScript => "no_script",
            Failed::Disk => "disk",
            Failed::NoLength => "no_length",
            Failed::Request(_) => "invalid_request",
            Failed::TooLarge => "request_too_large",
            Failed::RequestTimeout => "request_timeout",
            Failed::ClientGone => "client_gone",
        }
    }

    /// Whether the upstream is to blame.
    pub(crate) fn is_of_upstream(self) -> bool {
        match self {
            Failed::Unreachable(_)
            | Failed::Unresolved
            | Failed::Insecure
            | Failed::ConnectTimeout
            | Failed::Unanswered
            | Failed::Refused
            | Failed::Truncated
            | Failed::Invalid(_)
            | Failed::Malformed(_)
            | Failed::Unwritable
            | Failed::Timeout => true,
            Failed::NoRoom(_)
            | Failed::NoTurn
            // A slow client may be the cause.
            | Failed::TotalTimeout
            | Failed::NoScript
            | Failed::Disk
            | Failed::NoLength
            | Failed::Request(_)
            | Failed::TooLarge
            | Failed::RequestTimeout
            | Failed::ClientGone => false,
        }
    }
}
