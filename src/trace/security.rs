//! What the ends of a TLS connection chose, in words.

use ::trace::{Decryption, Resumption, Tls};
use tls::names;

pub(super) fn resumption(resumption: Resumption) -> &'static str {
    match resumption {
        Resumption::Psk => "pre-shared key",
        Resumption::Ticket => "ticket",
        Resumption::SessionId => "session ID",
    }
}

pub(super) fn decryption(decryption: Decryption) -> &'static str {
    match decryption {
        Decryption::NotTried => "not decrypted",
        Decryption::Done => "decrypted",
        Decryption::NoSecrets => "not decrypted: the key log lacks its secrets",
        Decryption::UnknownSuite => "not decrypted: its cipher suite is not supported",
        Decryption::Stopped => "decrypted in part",
    }
}

/// Server name, version and protocol of a connection's TLS, for a column.
pub(super) fn tls(tls: &Tls) -> String {
    let version = tls
        .server
        .as_ref()
        .map_or("TLS".to_owned(), |hello| names::version(hello.version));
    let name = tls.client.as_ref().and_then(|hello| hello.server_name.as_deref());
    let words = [name, tls.alpn.as_deref()];
    words
        .into_iter()
        .flatten()
        .fold(version, |all, word| format!("{all} {}", printable(word)))
}

/// Control characters from the network must not reach the terminal.
pub(super) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}
