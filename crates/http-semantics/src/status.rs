//! Status codes and their reason phrases (RFC 9110 section 15).
//!
//! The `http` crate holds the list; this module only corrects phrases.

/// A status code, 100 to 999.
pub use http::StatusCode as Status;

/// The registered reason phrase, or an empty one for an unregistered code, which RFC 9112 section 4 allows.
pub fn reason(status: Status) -> &'static str {
    match status {
        // The `http` crate still has the phrase of RFC 7231.
        Status::PAYLOAD_TOO_LARGE => "Content Too Large",
        status => status.canonical_reason().unwrap_or(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with RFC 9110 section 15, for every status the server sends.
    #[test]
    fn phrases_are_those_of_rfc_9110() {
        for (code, phrase) in [
            (200, "OK"),
            (206, "Partial Content"),
            (304, "Not Modified"),
            (408, "Request Timeout"),
            (412, "Precondition Failed"),
            (413, "Content Too Large"),
            (414, "URI Too Long"),
            (416, "Range Not Satisfiable"),
            (417, "Expectation Failed"),
            (501, "Not Implemented"),
            (505, "HTTP Version Not Supported"),
            (599, ""),
        ] {
            assert_eq!(reason(Status::from_u16(code).expect("a code")), phrase);
        }
    }
}
