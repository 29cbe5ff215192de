//! `weir health`: requests a URL once. Decides whether the response means that the server is healthy. For the health checks of
//! containers that have no other program.

use crate::ask::{self, Request};
use crate::cli::health::Flags;
use crate::failure::Failure;
use crate::secure::{Secure, TlsFlags, host};

/// Requests the URL.
///
/// # Errors
/// `Failed` without a response or with one whose status is not 2xx; `Usage` or `System` if TLS cannot be set up.
pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    let url = &flags.url;
    let secure = match url.scheme() {
        "https" => Some(Secure::new(
            &TlsFlags::default(),
            host(url.host_str().unwrap_or_default()),
        )?),
        _ => None,
    };
    let request = Request {
        url,
        method: "GET",
        fields: &[],
        content: &[],
    };
    let response = ask::ask(&request, secure.as_ref(), flags.timeout).map_err(|unanswered| {
        Failure::Failed(format!(
            "`{url}` is not healthy: no response: {}; check that the server runs and that this is its address",
            unanswered.why
        ))
    })?;
    match response.status {
        200..=299 => Ok(()),
        status => Err(Failure::Failed(format!(
            "`{url}` is not healthy: its status is {status}; read the server's log"
        ))),
    }
}
