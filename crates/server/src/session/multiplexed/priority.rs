//! The priority of an answer whose request names none (RFC 9218 section 5: a server may know better than the default). It
//! holds on connections whose client names none at all: a browser leaves the default out, and means it.

use http_semantics::priority::Priority;

/// By what it is: what a page cannot be shown without goes first, what can be shown in part shares, downloads wait.
pub(in crate::session) fn of(media_type: &[u8]) -> Priority {
    let essence = media_type.split(|&b| b == b';').next().unwrap_or_default();
    let (urgency, incremental) = match essence.trim_ascii() {
        b"text/html" | b"application/xhtml+xml" => (2, true),
        b"text/css" | b"text/javascript" | b"application/javascript" | b"application/wasm" => (2, false),
        kind if kind.starts_with(b"font/") => (2, false),
        kind if kind.starts_with(b"image/") => (4, true),
        kind if kind.starts_with(b"video/") || kind.starts_with(b"audio/") => (5, true),
        b"application/octet-stream" | b"application/zip" | b"application/gzip" | b"application/pdf" => {
            (6, true)
        }
        _ => return Priority::DEFAULT,
    };
    Priority { urgency, incremental }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_page_needs_goes_before_what_it_shows() {
        let urgency = |kind: &str| of(kind.as_bytes()).urgency;
        assert!(urgency("text/css; charset=utf-8") < urgency("application/json"));
        assert!(urgency("application/json") < urgency("image/png"));
        assert!(urgency("image/png") < urgency("application/zip"));
        assert_eq!(of(b"x/y"), Priority::DEFAULT);
    }
}
