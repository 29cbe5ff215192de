//! Requests to a server and their whole responses, with TLS or without: one over a connection of its own ([`ask`]), or one
//! after another over a connection that persists ([`Persistent`]). Blocks the thread that asks. Decides how a request is
//! written; what it means, and which roots are trusted, only the caller knows.

mod exchange;
mod open;
mod persistent;

pub(crate) use persistent::Persistent;

use crate::secure::Secure;
use exchange::{Job, Outcome};
use open::Open;
use units::Duration;
use url::Url;

/// A request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) url: &'a Url,
    /// GET, HEAD or POST.
    pub(crate) method: &'a str,
    /// Field lines besides `Host`, `User-Agent`, `Connection` and `Content-Length`. Their names and values are valid.
    pub(crate) fields: &'a [(&'a str, &'a str)],
    /// Content of a POST.
    pub(crate) content: &'a [u8],
}

/// A response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) content: Vec<u8>,
}

/// Why there is no response.
#[derive(Clone, Debug)]
pub(crate) struct Unanswered {
    /// In words.
    pub(crate) why: String,
    /// TLS failed, because of the server's certificate for instance: another attempt would fail as well.
    pub(crate) is_final: bool,
}

impl From<String> for Unanswered {
    fn from(why: String) -> Unanswered {
        Unanswered { why, is_final: false }
    }
}

impl Response {
    /// The value of the first field of this name.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        let found = fields.find(|(its, _)| its.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// Sends a request, with TLS if its URL is https, and waits for the response for `patience`.
///
/// # Errors
/// Why there is none.
pub(crate) fn ask(
    request: &Request<'_>,
    secure: Option<&Secure>,
    patience: Duration,
) -> Result<Response, Unanswered> {
    let job = Job::new(request, false, patience);
    match Open::begin(request.url, secure, job)? {
        (Outcome::Answered(response), open) => {
            open.close()?;
            Ok(response)
        }
        (Outcome::Failed(unanswered), _) => Err(unanswered),
        (Outcome::Stale, _) => Err(exchange::closed_early().into()),
    }
}
