//! What names a connection and its ends, and how its record ended. Knows no packet.

use serde::Serialize;

/// Number of a connection, over TCP or QUIC: its position in the order of first packets, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct ConnectionId(pub u64);

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The end that opened the connection. If that was not captured: the end that sends HTTP requests or has the higher
    /// port.
    Client = 0,
    /// The other end.
    Server = 1,
}

impl Side {
    /// The other end.
    pub fn peer(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

/// How the record of a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Both ends closed it and the capture has both FINs.
    Closed,
    /// Reset by this end.
    Reset(Side),
    /// The capture ended first.
    CaptureEnded,
    /// Silent for longer than [`crate::Limits::idle`].
    Idle,
    /// Evicted as the oldest of too many connections; it may have continued as a new one.
    Evicted,
    /// The same endpoints opened a new connection.
    Reused,
}

/// Position of the capture on the path, judged by the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Vantage {
    /// At the client: the client's part of the handshake comes at once.
    Client,
    /// At the server: the server's part of the handshake comes at once.
    Server,
    /// Between them, or on a path too short to tell.
    Middle,
    /// No handshake was captured.
    Unknown,
}
