//! Requests to one server, one after another, over a connection that persists (RFC 9112 section 9.3).

use super::exchange::{self, Job, Outcome};
use super::open::Open;
use super::{Request, Response, Unanswered};
use crate::secure::Secure;
use std::sync::{Mutex, PoisonError};
use units::Duration;

/// A server, and the connection to it, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Persistent {
    open: Mutex<Option<Open>>,
}

impl Persistent {
    /// Sends a request, with TLS if its URL is https, and waits for the response for `patience`. All requests are to one server.
    ///
    /// If the server closes the connection of an earlier request and sends nothing, the request is sent once more, over a new
    /// connection. The server may then get it twice, so it must be one that may be repeated.
    ///
    /// # Errors
    /// Why there is no response.
    pub(crate) fn ask(
        &self,
        request: &Request<'_>,
        secure: Option<&Secure>,
        patience: Duration,
    ) -> Result<Response, Unanswered> {
        let mut slot = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let job = Job::new(request, true, patience);
        if let Some(open) = slot.take() {
            match open.again(job.clone()) {
                Some(Outcome::Answered(response)) => {
                    *slot = Some(open);
                    return Ok(response);
                }
                Some(Outcome::Failed(unanswered)) => return Err(unanswered),
                Some(Outcome::Stale) | None => {}
            }
        }
        match Open::begin(request.url, secure, job)? {
            (Outcome::Answered(response), open) => {
                *slot = Some(open);
                Ok(response)
            }
            (Outcome::Failed(unanswered), _) => Err(unanswered),
            (Outcome::Stale, _) => Err(exchange::closed_early().into()),
        }
    }
}
