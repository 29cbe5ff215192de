//! Fields that are not for others to write: those of one connection, framing, and those in which this server describes a
//! client. Decides which names these are; `proxy` drops and writes them, `config` decides which of them rules may change.

/// Fields for one connection only, and framing.
pub(crate) const HOP_BY_HOP: [&str; 10] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-length",
    "http2-settings",
];

/// Fields of a request in which this server describes it and its client.
const DESCRIBING: [&str; 7] = [
    "host",
    "expect",
    "via",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
];

/// Whether the field is of a connection, or one that this server writes.
pub(crate) fn is_reserved(name: &str) -> bool {
    is_among(name, &HOP_BY_HOP) || is_among(name, &DESCRIBING)
}

/// Whether a field of a response ends at this server, which writes its own or none.
pub(crate) fn is_ending_here(name: &str) -> bool {
    is_among(name, &HOP_BY_HOP) || is_among(name, &["via"])
}

/// Whether the name is one of these.
pub(crate) fn is_among(name: &str, names: &[&str]) -> bool {
    // Some servers read `_` as `-`, so `X_Forwarded_For` would pass for the field of this server.
    let same = |known: &str| {
        known.len() == name.len()
            && known
                .bytes()
                .zip(name.bytes())
                .all(|(known, b)| known == if b == b'_' { b'-' } else { b.to_ascii_lowercase() })
    };
    names.iter().any(|known| same(known))
}
