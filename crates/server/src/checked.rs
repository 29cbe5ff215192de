//! Results of checks that a request has to pass before it is answered: of its password, and by other servers.
//!
//! `access` makes the checks, sessions carry their results, and `proxy` passes on what other servers vouch for.

use crate::own_fields::is_among;
use bytes::Bytes;
use http_semantics::status::Status;
use std::sync::Arc;

/// The result of one check.
#[derive(Clone, Debug)]
pub(crate) enum Checked {
    /// Whether the password is right.
    Password(bool),
    /// What the authorization server with this number answered.
    Asked(u64, Result<Arc<Answered>, Unanswered>),
}

/// The answer of an authorization server.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: Status,
    /// Field lines for the client, without those of the connection and framing.
    pub(crate) lines: Vec<u8>,
    pub(crate) content: Bytes,
    /// What it says of an admitted request.
    pub(crate) vouched: Vouched,
}

impl Answered {
    /// Whether the request is admitted.
    pub(crate) fn admits(&self) -> bool {
        (200..300).contains(&self.status.as_u16())
    }
}

/// What access rules mean for a request on its way to an upstream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guarded {
    /// Whether another server decides about the request: the response is for one client, and in no cache.
    pub(crate) is_personal: bool,
    /// Names of fields, in lower case, that upstreams do not get from clients: only another server may set them.
    pub(crate) kept_back: Option<Arc<[String]>>,
}

impl Guarded {
    /// Whether a field of a client is kept from the upstream.
    pub(crate) fn keeps_back(&self, name: &str) -> bool {
        let is_it = |known: &String| is_among(name, &[known]);
        self.kept_back
            .as_ref()
            .is_some_and(|names| names.iter().any(is_it))
    }
}

/// What authorization servers say of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Vouched {
    /// Field lines for the upstream.
    pub(crate) lines: Vec<u8>,
    /// Name of the user.
    pub(crate) user: Option<Box<[u8]>>,
}

/// Why an authorization server did not answer. The request is never admitted then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// It cannot be reached, or its answer is invalid.
    Failed,
    /// It did not answer in time.
    TimedOut,
    /// Too many requests wait for an answer.
    TooMany,
}

/// Results of the checks of one request so far.
#[derive(Debug, Default)]
pub(crate) struct Known(Option<Box<Results>>);

#[derive(Debug, Default)]
struct Results {
    is_wrong: bool,
    asked: Vec<(u64, Result<Arc<Answered>, Unanswered>)>,
    assumed: Option<Assumed>,
}

/// A client that an explanation takes for admitted, without checks: its password is right, and other servers agree. Networks
/// still count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Assumed {
    /// Whether it also has the certificate that a rule needs.
    pub(crate) has_certificate: bool,
}

impl Known {
    /// No results, but assumptions in their place. Only explanations may begin with this.
    pub(crate) fn assuming(assumed: Assumed) -> Known {
        Known(Some(Box::new(Results {
            assumed: Some(assumed),
            ..Results::default()
        })))
    }

    /// What stands in place of results, if anything does.
    pub(crate) fn assumed(&self) -> Option<Assumed> {
        self.0.as_ref()?.assumed
    }

    /// Adds a result.
    pub(crate) fn add(&mut self, checked: Checked) {
        let results = self.0.get_or_insert_default();
        match checked {
            Checked::Password(is_right) => results.is_wrong = !is_right,
            Checked::Asked(server, result) => results.asked.push((server, result)),
        }
    }

    /// Whether the password is wrong.
    pub(crate) fn is_wrong(&self) -> bool {
        self.0.as_ref().is_some_and(|results| results.is_wrong)
    }

    /// What this server answered, if it was asked.
    pub(crate) fn answer_of(&self, server: u64) -> Option<Result<&Arc<Answered>, Unanswered>> {
        let asked = &self.0.as_ref()?.asked;
        let (_, result) = asked.iter().find(|(its, _)| *its == server)?;
        Some(result.as_ref().map_err(|why| *why))
    }

    /// Whether a check has shown that the request is not to be passed on.
    pub(crate) fn is_refused(&self) -> bool {
        let is_refused = |result: &Result<Arc<Answered>, Unanswered>| match result {
            Ok(answered) => !answered.admits(),
            Err(_) => true,
        };
        self.0.as_ref().is_some_and(|results| {
            results.is_wrong || results.asked.iter().any(|(_, result)| is_refused(result))
        })
    }
}
