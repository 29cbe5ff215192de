//! A DNS lookup, and lookups in numbers: plain data, made by [`crate::dns`].

use crate::direction::Spread;
use crate::packet::Endpoint;
use crate::quantity;
use core::time::Duration;
use serde::Serialize;

/// A question with its response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lookup {
    /// End that asked.
    pub client: Endpoint,
    /// End that was asked.
    pub server: Endpoint,
    /// Name in the question, in lower case without the last dot; `.` for the root. Bytes outside ASCII are escaped
    /// (`\195`).
    pub name: String,
    /// Record type in the question: 1 is A, 28 is AAAA, 65 is HTTPS.
    pub record: u16,
    /// Time of the first query since the first frame of the capture.
    #[serde(rename = "start_s", serialize_with = "quantity::seconds")]
    pub start: Duration,
    /// Time from the first query to the response; `None` without a response.
    #[serde(rename = "wait_ms", serialize_with = "quantity::ms_option")]
    pub wait: Option<Duration>,
    /// Response code: 0 is success, 2 a server failure, 3 a name that does not exist. `None` without a response.
    pub code: Option<u8>,
    /// Records in the answer section, according to the header.
    pub answers: u16,
    /// Whether the response is truncated: the client has to ask over TCP.
    pub truncated: bool,
    /// Transmissions of the query, at least 1.
    pub transmissions: u32,
    /// Frame number of the first query.
    pub first_packet: u64,
    /// Frame number of the response; without one, of the last query.
    pub last_packet: u64,
}

/// Lookups in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct DnsTotals {
    /// Questions, each counted once.
    pub questions: u64,
    /// Questions with a response.
    pub answered: u64,
    /// Questions without a response when their record ended.
    pub unanswered: u64,
    /// Responses with code 3: the name does not exist.
    pub nonexistent: u64,
    /// Responses with another code that is not 0.
    pub failed: u64,
    /// Queries that were sent again.
    pub repeated: u64,
    /// Responses without a question in the capture.
    pub unmatched_responses: u64,
    /// Messages on port 53 that could not be read.
    pub malformed: u64,
    /// Time from query to response, of questions that were sent once.
    pub round_trip: Spread,
}
