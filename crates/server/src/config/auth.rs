//! The address of a server that decides about requests: an upstream and the target that it is asked for.

use super::upstream::{UpstreamAddress, before_socket};
use core::fmt;
use core::str::FromStr;

/// Target if the address has none.
const ROOT: &str = "/";

/// `http://127.0.0.1:9091/api/verify`, or `unix:/run/auth.sock:/verify`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthUrl {
    upstream: UpstreamAddress,
    /// Path and query; begins with a slash.
    target: String,
}

impl AuthUrl {
    /// The server.
    pub fn upstream(&self) -> &UpstreamAddress {
        &self.upstream
    }

    /// Path and query.
    pub(crate) fn target(&self) -> &str {
        &self.target
    }
}

impl fmt::Display for AuthUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.upstream.to_string() {
            shown if before_socket(&shown).is_some() => write!(f, "{shown}:{}", self.target),
            shown if shown.contains("://") => write!(f, "{shown}{}", self.target),
            shown => write!(f, "http://{shown}{}", self.target),
        }
    }
}

impl FromStr for AuthUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<AuthUrl, String> {
        let split = match (before_socket(text), text.find("://")) {
            (Some(start), _) => text[start..].find(":/").map(|at| (start + at, 1)),
            (None, Some(scheme)) => {
                let start = scheme + "://".len();
                text[start..].find(['/', '?']).map(|at| (start + at, 0))
            }
            (None, None) => None,
        };
        let (server, target) = match split {
            Some((at, skipped)) => (&text[..at], &text[at + skipped..]),
            None => (text, ROOT),
        };
        if server.starts_with("fastcgi") {
            return Err(format!(
                "`{}` is of FastCGI, and servers of `auth` speak HTTP; write one as in http://127.0.0.1:9091/verify",
                text.escape_debug()
            ));
        }
        let is_plain = |b: u8| (0x21..0x7f).contains(&b) && !b"#\\\"<>^`{|}".contains(&b);
        if !target.starts_with('/') || !target.bytes().all(is_plain) {
            return Err(format!(
                "`{}` has no path that can be asked for; write one as in http://127.0.0.1:9091/verify",
                text.escape_debug()
            ));
        }
        Ok(AuthUrl {
            upstream: server.parse()?,
            target: target.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_target() {
        for (text, shown) in [
            (
                "http://127.0.0.1:9091/api/verify",
                "http://127.0.0.1:9091/api/verify",
            ),
            ("http://127.0.0.1:9091", "http://127.0.0.1:9091/"),
            (
                "https://auth.internal/v?rd=a/b",
                "https://auth.internal:443/v?rd=a/b",
            ),
            ("h2c://[::1]:9/v", "h2c://[::1]:9/v"),
            ("unix:/run/auth.sock", "unix:/run/auth.sock:/"),
            ("unix:/run/auth.sock:/verify", "unix:/run/auth.sock:/verify"),
            ("h2c+unix:/run/auth.sock", "h2c+unix:/run/auth.sock:/"),
            ("h2c+unix:/run/auth.sock:/v?a=b", "h2c+unix:/run/auth.sock:/v?a=b"),
        ] {
            let url: AuthUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), shown);
            assert_eq!(shown.parse::<AuthUrl>().unwrap(), url);
        }
        for text in [
            "",
            "127.0.0.1:9091/verify",
            "ftp://a/b",
            "http://",
            "http:///verify",
            "http://a?b",
            "http://a/b c",
            "http://a/b#c",
            "http://user@a/b",
            "unix:auth.sock",
            "h2c+unix:auth.sock",
        ] {
            let why = text.parse::<AuthUrl>().unwrap_err();
            assert!(why.contains("write"), "{text}: {why}");
        }
    }
}
