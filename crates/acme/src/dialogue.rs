//! Requests and answers: the directory, nonces, signatures, problem documents.

use crate::account::Account;
use crate::date::http_date;
use crate::error::{Error, Problem};
use crate::world::{Request, Response, World};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use units::{Duration, UnixTime};

/// How often a request is repeated because the CA wants a fresh nonce (RFC 8555 section 6.5).
const NONCES_MAX: usize = 8;

/// Longest time that a CA can make Weir wait.
const RETRY_MAX: Duration = Duration::from_secs(7 * 86_400);

/// Where a CA does what (RFC 8555 section 7.1.1).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Directory {
    pub(crate) new_nonce: String,
    pub(crate) new_account: String,
    pub(crate) new_order: String,
    pub(crate) revoke_cert: Option<String>,
    /// RFC 9773.
    pub(crate) renewal_info: Option<String>,
    pub(crate) meta: Meta,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Meta {
    /// Name and description of each profile (draft-aaron-acme-profiles).
    pub(crate) profiles: HashMap<String, String>,
}

/// A conversation with one CA.
pub(crate) struct Dialogue<'a> {
    pub(crate) world: &'a mut dyn World,
    pub(crate) directory: Directory,
    nonce: Option<String>,
}

impl<'a> Dialogue<'a> {
    /// Reads the directory at this URL.
    pub(crate) fn begin(world: &'a mut dyn World, directory: &str) -> Result<Dialogue<'a>, Error> {
        let mut dialogue = Dialogue {
            world,
            directory: Directory::default(),
            nonce: None,
        };
        let answer = dialogue.get(directory)?;
        let found: Directory = parsed(&answer, "the directory")?;
        let needed = [&found.new_nonce, &found.new_account, &found.new_order];
        if needed.iter().any(|url| url.is_empty()) {
            return Err(Error::Unexpected(format!(
                "`{directory}` is no directory of an ACME server"
            )));
        }
        dialogue.directory = found;
        Ok(dialogue)
    }

    /// An unsigned GET.
    pub(crate) fn get(&mut self, url: &str) -> Result<Response, Error> {
        let answer = self.send("GET", url, Vec::new())?;
        self.checked(answer)
    }

    /// A signed POST; an empty payload asks for the resource (RFC 8555 section 6.3).
    pub(crate) fn post(&mut self, account: &Account, url: &str, payload: &str) -> Result<Response, Error> {
        for _ in 0..NONCES_MAX {
            let nonce = self.fresh_nonce()?;
            let body = account.sign(url, &nonce, payload)?;
            let answer = self.send("POST", url, body)?;
            match self.checked(answer) {
                Err(error) if error.is("badNonce") => {}
                other => return other,
            }
        }
        Err(Error::Unexpected(format!(
            "the CA refused {NONCES_MAX} nonces of its own"
        )))
    }

    fn fresh_nonce(&mut self) -> Result<String, Error> {
        if let Some(nonce) = self.nonce.take() {
            return Ok(nonce);
        }
        let url = self.directory.new_nonce.clone();
        self.send("HEAD", &url, Vec::new())?;
        let missing = || Error::Unexpected(format!("the CA sent no nonce from `{url}`"));
        self.nonce.take().ok_or_else(missing)
    }

    fn send(&mut self, method: &'static str, url: &str, body: Vec<u8>) -> Result<Response, Error> {
        let request = Request {
            method,
            url: url.to_owned(),
            body,
        };
        let answer = self.world.send(&request).map_err(Error::Unreachable)?;
        if let Some(nonce) = answer.field("Replay-Nonce") {
            self.nonce = Some(nonce.to_owned());
        }
        Ok(answer)
    }

    /// An error for statuses other than 2xx.
    fn checked(&self, answer: Response) -> Result<Response, Error> {
        if (200..300).contains(&answer.status) {
            return Ok(answer);
        }
        let mut problem: Problem = serde_json::from_slice(&answer.body).unwrap_or_default();
        if problem.detail.is_empty() {
            problem.detail = format!("status {}", answer.status);
        }
        problem.retry_after = retry_after(&answer, self.world.now());
        Err(Error::Refused(Box::new(problem)))
    }

    /// Waits as long as an answer asks for, or `otherwise`, from a second up to `at_most`. Returns how long: the sum of
    /// that is independent of a clock that is set.
    pub(crate) fn pause(&mut self, answer: &Response, otherwise: Duration, at_most: Duration) -> Duration {
        let asked = retry_after(answer, self.world.now());
        let span = asked.unwrap_or(otherwise).clamp(Duration::from_secs(1), at_most);
        self.world.wait(span);
        span
    }
}

/// A resource in JSON.
pub(crate) fn parsed<T: DeserializeOwned>(answer: &Response, what: &str) -> Result<T, Error> {
    serde_json::from_slice(&answer.body)
        .map_err(|error| Error::Unexpected(format!("{what} of the CA cannot be read: {error}")))
}

/// The value of `Retry-After` (RFC 9110 section 10.2.3) as a time from now.
pub(crate) fn retry_after(answer: &Response, now: UnixTime) -> Option<Duration> {
    let value = answer.field("Retry-After")?;
    let secs = match value.parse::<u64>() {
        Ok(secs) => secs,
        Err(_) => {
            let at = http_date(value)?;
            u64::try_from(at.saturating_sub(now.secs)).unwrap_or(0)
        }
    };
    Some(Duration::from_secs(secs).min(RETRY_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_come_back_is_a_number_or_a_date() {
        let now = UnixTime::from_secs(784_111_000);
        let after = |value: &str| {
            let answer = Response {
                fields: vec![("retry-after".to_owned(), value.to_owned())],
                ..Response::default()
            };
            retry_after(&answer, now).map(|span| span.as_secs())
        };
        assert_eq!(after("120"), Some(120));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:37 GMT"), Some(777));
        assert_eq!(after("Sun, 06 Nov 1984 08:49:37 GMT"), Some(0));
        assert_eq!(after("99999999999"), Some(RETRY_MAX.as_secs()));
        assert_eq!(after("soon"), None);
        assert_eq!(after("Sun, 99 Nov 1994 08:49"), None);
    }
}
