//! Kinds of errors of a run.

use serde::{Deserialize, Serialize};

/// Kinds of errors. All but the last six are counted once per affected connection, whether its pending requests are
/// repeated or given up, which may be many files. The last six are counted once per file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trouble {
    /// This machine had no descriptor, port or memory left for a connection.
    Here,
    /// A connection could not be established.
    Connect,
    /// A TLS handshake failed, or made no progress within the timeout.
    Handshake,
    /// A connection was reset, or closed by the server with an error (QUIC), while a response was pending.
    Lost,
    /// The server closed a connection with pending requests before any response, as it did on the earlier attempts; the
    /// requests are given up. The earlier closes are no errors: a server may close (RFC 9112 section 9.5).
    Unanswered,
    /// No progress within the timeout.
    Timeout,
    /// Received data is not HTTP, or was not requested.
    Protocol,
    /// A response was truncated.
    Truncated,
    /// A status that does not count as success.
    Status,
    /// Content whose length differs from the manifest's.
    Length,
    /// Content whose digest differs from the manifest's.
    Content,
    /// A response without a value that its step had to capture.
    Capture,
    /// A step whose values make no valid request; it was not sent.
    Request,
}

impl Trouble {
    /// Name in results.
    pub fn name(self) -> &'static str {
        match self {
            Trouble::Here => "here",
            Trouble::Connect => "connect",
            Trouble::Handshake => "handshake",
            Trouble::Lost => "lost",
            Trouble::Unanswered => "unanswered",
            Trouble::Truncated => "truncated",
            Trouble::Timeout => "timeout",
            Trouble::Protocol => "protocol",
            Trouble::Status => "status",
            Trouble::Length => "length",
            Trouble::Content => "content",
            Trouble::Capture => "capture",
            Trouble::Request => "request",
        }
    }
}
