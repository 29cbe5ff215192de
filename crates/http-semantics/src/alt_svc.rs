//! Alternative services (RFC 7838): what the value of an `Alt-Svc` field offers. Which alternative to use, and when, is the
//! client's decision.

use crate::field::{decimal, is_token_byte, trim};
use units::Duration;

/// Alternatives read from one value; further ones are ignored.
pub const SERVICES_MAX: usize = 16;

/// How long an alternative is fresh without `ma` (RFC 7838 section 3.1).
const FRESH: Duration = Duration::from_secs(86_400);

/// What a value says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AltSvc {
    /// Forget all alternatives of this origin.
    Clear,
    /// The alternatives, the preferred one first. They replace earlier ones.
    Services(Vec<Service>),
}

/// An alternative service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its protocol by its ALPN name, such as `h3`.
    pub protocol: Vec<u8>,
    /// Its host; empty for that of the origin.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How long the alternative is fresh, counted from when the response was generated.
    pub max_age: Duration,
    /// Whether it outlives a change of the client's network.
    pub persist: bool,
}

impl AltSvc {
    /// Reads a value. Members before a malformed one count; `None` if nothing does.
    pub fn parse(value: &[u8]) -> Option<AltSvc> {
        if trim(value) == b"clear" {
            return Some(AltSvc::Clear);
        }
        let mut services = Vec::new();
        let mut rest = value;
        while services.len() < SERVICES_MAX {
            rest = trim(rest);
            while let [b',', after @ ..] = rest {
                rest = trim(after);
            }
            let Some((service, after)) = service(rest) else {
                break;
            };
            services.push(service);
            match trim(after) {
                [b',', ..] => rest = after,
                _ => break,
            }
        }
        match services.is_empty() {
            true => None,
            false => Some(AltSvc::Services(services)),
        }
    }
}

/// The first member of a list, and what follows it.
fn service(text: &[u8]) -> Option<(Service, &[u8])> {
    let (protocol, rest) = token(text)?;
    let (authority, mut rest) = quoted(rest.strip_prefix(b"=")?)?;
    let authority = String::from_utf8(authority).ok()?;
    let (host, port) = authority.rsplit_once(':')?;
    let mut service = Service {
        protocol: percent_decoded(protocol)?,
        host: host.to_owned(),
        port: port.parse().ok()?,
        max_age: FRESH,
        persist: false,
    };
    loop {
        let [b';', after @ ..] = trim(rest) else {
            return Some((service, rest));
        };
        let (name, after) = token(trim(after))?;
        let after = after.strip_prefix(b"=")?;
        let (value, after) = match after {
            [b'"', ..] => quoted(after)?,
            _ => token(after).map(|(value, after)| (value.to_vec(), after))?,
        };
        rest = after;
        match name {
            b"ma" => {
                let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
                // As RFC 9111 section 1.2.2 has it for numbers too large to be kept.
                let secs = decimal(&value).unwrap_or(u64::MAX).min(1 << 31);
                service.max_age = is_number.then(|| Duration::from_secs(secs))?;
            }
            b"persist" => service.persist = value == b"1",
            _ => {}
        }
    }
}

fn token(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|&b| !is_token_byte(b)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// The content of a quoted string (RFC 9110 section 5.6.4), and what follows it.
fn quoted(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut content = Vec::new();
    loop {
        match rest {
            [b'"', after @ ..] => return Some((content, after)),
            [b'\\', byte, after @ ..] | [byte, after @ ..] => {
                content.push(*byte);
                rest = after;
            }
            [] => return None,
        }
    }
}

/// An ALPN name as it is, from the token that stands for it (RFC 7838 section 3).
fn percent_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut name = Vec::new();
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        rest = after;
        name.push(match (byte, after) {
            (b'%', [high, low, after @ ..]) => {
                rest = after;
                let digit = |b: u8| char::from(b).to_digit(16);
                (digit(*high)? * 16 + digit(*low)?) as u8
            }
            (b'%', _) => return None,
            (byte, _) => *byte,
        });
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn services(value: &str) -> Vec<(String, String, u16, u64, bool)> {
        match AltSvc::parse(value.as_bytes()) {
            Some(AltSvc::Services(all)) => all
                .into_iter()
                .map(|one| {
                    let protocol = String::from_utf8(one.protocol).expect("text");
                    (protocol, one.host, one.port, one.max_age.as_secs(), one.persist)
                })
                .collect(),
            other => panic!("{value}: {other:?}"),
        }
    }

    #[test]
    fn values_of_rfc_7838() {
        let row = |protocol: &str, host: &str, port, secs, persist| {
            (protocol.to_owned(), host.to_owned(), port, secs, persist)
        };
        let check = |value: &str, wanted: &[_]| assert_eq!(services(value), wanted, "{value}");
        check(r#"h2=":8000""#, &[row("h2", "", 8000, 86_400, false)]);
        check(
            r#"h3="alt.example.com:443", h2=":443"; ma=60; persist=1"#,
            &[
                row("h3", "alt.example.com", 443, 86_400, false),
                row("h2", "", 443, 60, true),
            ],
        );
        check(
            r#" , h3=":1" ;ma="5";x=y, w%3Dx%3Ay%23z="[::1]:2""#,
            &[
                row("h3", "", 1, 5, false),
                row("w=x:y#z", "[::1]", 2, 86_400, false),
            ],
        );
        check(
            r#"h3=":1"; ma=99999999999999999999"#,
            &[row("h3", "", 1, 1 << 31, false)],
        );
        // Members before a malformed one count.
        check(r#"h3=":1", h3=oops"#, &[row("h3", "", 1, 86_400, false)]);
        assert_eq!(AltSvc::parse(b" clear "), Some(AltSvc::Clear));
        for value in [
            "",
            "Clear",
            "h3",
            "h3=:443",
            r#"h3="443""#,
            r#"h3=":99999""#,
            r#"h3=":1"#,
            r#"h3=":1"; ma=-1"#,
            r#"h%3="::""#,
        ] {
            assert_eq!(AltSvc::parse(value.as_bytes()), None, "{value}");
        }
    }

    #[test]
    fn the_number_of_alternatives_is_bounded() {
        let value = (1..100)
            .map(|port| format!("h3=\":{port}\""))
            .collect::<Vec<_>>()
            .join(",");
        assert_eq!(services(&value).len(), SERVICES_MAX);
    }
}
