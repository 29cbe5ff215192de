//! What went wrong, whose fault it was and what to do.

use serde::Deserialize;
use std::fmt;
use units::Duration;

/// Longest text of a CA that is repeated to the operator, in characters.
const QUOTED_MAX: usize = 500;

/// Why there is no certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The CA did not answer: why, in words.
    Unreachable(String),
    /// The CA refused.
    Refused(Box<Problem>),
    /// The CA's answer is not what RFC 8555 says.
    Unexpected(String),
    /// Something is wrong on this machine.
    Here(String),
}

/// A problem document (RFC 7807, RFC 8555 section 6.7).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Problem {
    /// A URN such as `urn:ietf:params:acme:error:rateLimited`.
    #[serde(default, rename = "type")]
    pub kind: String,
    /// In the CA's words.
    #[serde(default)]
    pub detail: String,
    /// The problem of each name.
    #[serde(default)]
    pub subproblems: Vec<Subproblem>,
    /// The name that this is about, as far as known.
    #[serde(skip)]
    pub name: Option<String>,
    /// How long the CA wants to be left alone.
    #[serde(skip)]
    pub retry_after: Option<Duration>,
}

/// The problem of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Subproblem {
    /// In the CA's words.
    #[serde(default)]
    pub detail: String,
}

impl Problem {
    /// The last part of the type: `rateLimited`.
    pub fn short(&self) -> &str {
        self.kind.rsplit(':').next().unwrap_or_default()
    }

    /// Whose fault it is and what to do.
    fn advice(&self) -> &'static str {
        match self.short() {
            "rateLimited" => "the limit of the CA is reached; Weir waits as long as it says",
            "unauthorized" | "connection" | "dns" | "tls" | "incorrectResponse" => {
                "the CA could not see that the name belongs to this server: its DNS records must lead here, and port 80 \
                 (or 443 for tls-alpn-01) must be open to the internet; for dns-01, the record must be at all name \
                 servers when the CA looks (--acme-hook, --acme-hook-wait)"
            }
            "caa" => {
                "a CAA record of the name forbids this CA; change the record or choose another CA (--acme-ca)"
            }
            "rejectedIdentifier" | "unsupportedIdentifier" => {
                "this CA gives no certificate for the name; remove it from --domain or choose another CA (--acme-ca)"
            }
            "userActionRequired" => "the CA wants its terms accepted anew: follow the address in its message",
            "externalAccountRequired" => {
                "this CA wants the account that you have with it: get a key ID and a key there, and name their file with \
                 --acme-eab"
            }
            "invalidContact" | "unsupportedContact" => "the CA refuses the address given with --acme-email",
            "invalidProfile" => "the CA has no such profile; choose one that it offers (--acme-profile)",
            "serverInternal" => "this is a fault of the CA; Weir tries again",
            _ => "the CA gives no further reason; Weir tries again",
        }
    }
}

impl Error {
    /// How long the CA wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Error::Refused(problem) => problem.retry_after,
            _ => None,
        }
    }

    /// Whether the CA refused with an error of this type.
    pub(crate) fn is(&self, short: &str) -> bool {
        matches!(self, Error::Refused(problem) if problem.short() == short)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unreachable(why) => write!(
                f,
                "the CA does not answer: {why}; check this machine's network and the address given with --acme-ca"
            ),
            Error::Unexpected(what) => write!(
                f,
                "{what}; this is a fault of the CA, or --acme-ca names no ACME server"
            ),
            Error::Here(why) => f.write_str(why),
            Error::Refused(problem) => {
                let of = problem
                    .name
                    .as_ref()
                    .map(|name| format!(" for {name}"))
                    .unwrap_or_default();
                let mut said = problem.detail.clone();
                for sub in &problem.subproblems {
                    said.push_str("; ");
                    said.push_str(&sub.detail);
                }
                let said: String = said
                    .chars()
                    .filter(|c| !c.is_control())
                    .take(QUOTED_MAX)
                    .collect();
                write!(f, "the CA refused{of}: {said}")?;
                if !problem.short().is_empty() {
                    write!(f, " ({})", problem.short().escape_debug())?;
                }
                write!(f, "; {}", problem.advice())
            }
        }
    }
}

impl std::error::Error for Error {}
