//! How a name is shown to be ours: a file at port 80 (http-01, RFC 8555 section 8.3), a certificate at port 443
//! (tls-alpn-01, RFC 8737), or a DNS record (dns-01, RFC 8555 section 8.4).

use crate::account::{Account, encoded};
use crate::error::Error;
use aws_lc_rs::digest;
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};

/// The protocol of tls-alpn-01 (ALPN, RFC 8737 section 6.2).
pub const ALPN: &[u8] = b"acme-tls/1";

/// Longest token that is taken from a CA; those in use have 43 characters.
const TOKEN_MAX: usize = 128;

/// A way to show that a name is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file at port 80.
    Http,
    /// A certificate at port 443.
    TlsAlpn,
    /// A DNS record.
    Dns,
}

impl Kind {
    /// Every kind, and its registered name.
    pub const ALL: [(Kind, &'static str); 3] = [
        (Kind::Http, "http-01"),
        (Kind::TlsAlpn, "tls-alpn-01"),
        (Kind::Dns, "dns-01"),
    ];
}

/// What has to be answered when a CA asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// At `/.well-known/acme-challenge/TOKEN`.
    Http {
        /// Letters, digits, `-` and `_`.
        token: String,
        /// The content.
        answer: String,
    },
    /// The certificate for this name when a client offers [`ALPN`] alone.
    TlsAlpn {
        /// A DNS name; for an IP address, its reverse name (RFC 8738 section 6).
        name: String,
        /// Chain and key, PEM.
        pem: String,
    },
    /// A TXT record.
    Dns {
        /// `_acme-challenge.` and the name.
        record: String,
        /// The content of the record.
        answer: String,
    },
}

/// Whether this may be a token: nothing that means something in a path (RFC 8555 section 8.3).
pub fn is_token(token: &str) -> bool {
    let is_base64url = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    !token.is_empty() && token.len() <= TOKEN_MAX && token.bytes().all(is_base64url)
}

impl Challenge {
    /// What to present for a challenge with this token.
    ///
    /// # Errors
    /// `Unexpected` for a token that is none; `Here`, if no certificate can be made.
    pub(crate) fn new(kind: Kind, token: &str, name: &str, account: &Account) -> Result<Challenge, Error> {
        if !is_token(token) {
            return Err(Error::Unexpected(format!(
                "the CA sent a challenge with an impossible token, `{}`",
                token.chars().take(TOKEN_MAX).collect::<String>().escape_debug()
            )));
        }
        let answer = format!("{token}.{}", account.thumbprint());
        let hash = digest::digest(&digest::SHA256, answer.as_bytes());
        Ok(match kind {
            Kind::Http => Challenge::Http {
                token: token.to_owned(),
                answer,
            },
            Kind::Dns => Challenge::Dns {
                record: format!("_acme-challenge.{}", name.trim_start_matches("*.")),
                answer: encoded(hash),
            },
            Kind::TlsAlpn => {
                let no_certificate =
                    |error: rcgen::Error| Error::Here(format!("no certificate for tls-alpn-01: {error}"));
                let key = KeyPair::generate().map_err(no_certificate)?;
                let mut parameters = CertificateParams::new(vec![name.to_owned()]).map_err(no_certificate)?;
                parameters.distinguished_name = DistinguishedName::new();
                parameters.custom_extensions = vec![CustomExtension::new_acme_identifier(hash.as_ref())];
                let made = parameters.self_signed(&key).map_err(no_certificate)?;
                Challenge::TlsAlpn {
                    name: asked_as(name),
                    pem: made.pem() + &key.serialize_pem(),
                }
            }
        })
    }
}

/// The name that a CA asks for in tls-alpn-01: SNI knows no IP addresses, so it is the reverse name of one (RFC 8738
/// section 6).
fn asked_as(name: &str) -> String {
    use std::net::IpAddr;
    match name.parse() {
        Err(_) => name.to_owned(),
        Ok(IpAddr::V4(v4)) => {
            let [a, b, c, d] = v4.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        Ok(IpAddr::V6(v6)) => {
            let nibbles = v6.octets().into_iter().rev().flat_map(|b| [b & 15, b >> 4]);
            let labels: String = nibbles.map(|nibble| format!("{nibble:x}.")).collect();
            format!("{labels}ip6.arpa")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_no_paths() {
        assert!(is_token("evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA"));
        for text in ["", "..", "a/b", "a.b", "a b", "ä", &"a".repeat(TOKEN_MAX + 1)] {
            assert!(!is_token(text), "{text}");
        }
    }

    #[test]
    fn each_kind_has_its_answer() {
        let account = Account::new().expect("a key");
        let new = |kind, name| Challenge::new(kind, "abc", name, &account).expect("a challenge");
        let wanted = format!("abc.{}", account.thumbprint());
        let Challenge::Http { token, answer } = new(Kind::Http, "a.test") else {
            panic!("another kind");
        };
        assert_eq!((token.as_str(), answer), ("abc", wanted.clone()));
        let Challenge::Dns { record, answer } = new(Kind::Dns, "*.a.test") else {
            panic!("another kind");
        };
        let hash = digest::digest(&digest::SHA256, wanted.as_bytes());
        assert_eq!(
            (record.as_str(), answer),
            ("_acme-challenge.a.test", encoded(hash))
        );
        let Challenge::TlsAlpn { name, pem } = new(Kind::TlsAlpn, "a.test") else {
            panic!("another kind");
        };
        assert!(name == "a.test" && pem.contains("CERTIFICATE") && pem.contains("PRIVATE KEY"));
        assert!(Challenge::new(Kind::Http, "../x", "a.test", &account).is_err());
    }

    #[test]
    fn addresses_are_asked_for_by_their_reverse_names() {
        assert_eq!(asked_as("192.0.2.7"), "7.2.0.192.in-addr.arpa");
        let wanted = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa";
        assert_eq!(asked_as("2001:db8::1"), wanted);
        assert_eq!(asked_as("a.test"), "a.test");
    }
}
