//! The record of a rule's choices: one JSON object per line, as the server writes it and `weir model balance --record` reads
//! it (`schemas/balance-record.schema.json`). Opens no files.
//!
//! ```text
//!   {"balance-record":1, ...}   the server started or was reloaded: the rule and its upstreams; times begin at zero
//!   {"at-us":1200, ...}         a choice, written once its request is no longer at the upstream
//! ```
//! A request that is sent to a second upstream is a second choice with the number of the first.

use crate::balancer::State;
use crate::policy::Policy;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use units::Duration;

/// Version of the format.
pub const VERSION: u32 = 1;

units::words! {
    /// What became of a request at an upstream.
    pub enum End {
        /// The head of a response arrived.
        Answered = "answered",
        /// The upstream did not process the request: no connection, no TLS, or a refusal (RFC 9113 section 8.7).
        Unprocessed = "unprocessed",
        /// The upstream failed, and may have processed the request.
        Failed = "failed",
        /// The client left, or the server gave the request up, before there was a response.
        GivenUp = "given-up",
    }
}

/// A line of a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// The server started or was reloaded.
    Start(Start),
    /// A choice.
    Choice(Choice),
}

/// The rule whose choices follow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Start {
    /// Version of the format.
    pub balance_record: u32,
    /// Version of Weir.
    pub weir: String,
    /// Time of day of the first choice, from which all times count, in milliseconds since 1970.
    pub began_ms: u64,
    /// The pattern of its paths.
    pub rule: String,
    /// The policy that chose.
    pub policy: Policy,
    /// Its upstreams, in their order.
    pub upstreams: Vec<Named>,
    /// Failures in a row that eject an upstream; 0: never.
    pub max_failures: u32,
    /// Time without requests for an ejected upstream.
    pub ejection_us: u64,
    /// Time in which an upstream that comes back gets more and more requests.
    pub slow_start_us: u64,
    /// Times that a request may be repeated although an upstream may have processed it.
    pub retries: u32,
}

/// An upstream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Named {
    /// As in the configuration.
    pub address: String,
    /// Its share, at least 1.
    pub weight: u32,
}

/// A choice, and what became of the request there. Times are microseconds; those without a start count from the choice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Choice {
    /// Time of the choice since the first one.
    pub at_us: u64,
    /// The pattern of the rule's paths.
    pub rule: String,
    /// Number of the request.
    pub request: u64,
    /// Hash of the request's key, in 16 hexadecimal digits.
    pub key: String,
    /// Upstreams that the request had tried before.
    pub tried: Vec<usize>,
    /// Upstreams that took part, as the policy saw them.
    pub candidates: Vec<Candidate>,
    /// The upstream that was chosen.
    pub chosen: usize,
    /// Time for the connection to open, with its TLS; absent if one was reused, or none opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_us: Option<u64>,
    /// Time to the head of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_us: Option<u64>,
    /// Time that the response would have taken at the upstream alone: without the network, and without the other requests there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_us: Option<u64>,
    /// Time to the failure of the upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_us: Option<u64>,
    /// Bytes of content that were passed to the client, with their framing.
    pub bytes: u64,
    /// Status of the response, if one was passed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What became of it.
    pub outcome: End,
    /// Whether the request may be repeated although an upstream may have processed it (RFC 9110 section 9.2.2).
    pub repeatable: bool,
}

/// An upstream that took part in a choice, as the policy saw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Candidate {
    /// Its number in the order of the rule.
    pub upstream: usize,
    /// `up`, `slow start`, `ejected` or `down`.
    pub health: String,
    /// Requests there.
    pub under_way: u32,
    /// Peak-sensitive average of response times; absent before the first response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_us: Option<f64>,
    /// Estimated service time; absent before the first response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_us: Option<f64>,
    /// Estimated time in the network; absent before the first connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_us: Option<f64>,
    /// How much the total turnaround would grow with the request there; absent without a service time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth_us: Option<f64>,
}

/// Microseconds, at most those of 500,000 years.
pub fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

impl Candidate {
    /// The upstream with this number in this state.
    pub fn of(upstream: usize, state: &State) -> Candidate {
        // A tenth of a microsecond is less than any clock's error.
        let tenths = |seconds: f64| libm::round(seconds * 1e7) / 10.0;
        Candidate {
            upstream,
            health: state.health.to_owned(),
            under_way: state.under_way,
            response_us: state.response.map(tenths),
            service_us: state.service.map(tenths),
            network_us: state.network.map(tenths),
            growth_us: state.service.map(|_| tenths(state.growth)),
        }
    }
}

impl Line {
    /// Parses a line.
    ///
    /// # Errors
    /// A sentence that names the mistake.
    pub fn parse(text: &str) -> Result<Line, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let Some(version) = value.get("balance-record") else {
            let choice: Choice = serde_json::from_value(value)
                .map_err(|error| format!("no choice of `balance-record`: {error}"))?;
            return Ok(Line::Choice(choice));
        };
        if version.as_u64() != Some(VERSION.into()) {
            return Err(format!(
                "format {version} is of another version of weir, and this one reads format {VERSION}; record again"
            ));
        }
        let start: Start = serde_json::from_value(value).map_err(|error| error.to_string())?;
        match start.upstreams.len() {
            1..=64 if start.upstreams.iter().all(|one| one.weight > 0) => Ok(Line::Start(start)),
            _ => Err("a rule has 1 to 64 upstreams, with weights of at least 1".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written() {
        let start = Start {
            balance_record: VERSION,
            weir: "1.0.0".to_owned(),
            began_ms: 1_000,
            rule: "/api/*".to_owned(),
            policy: Policy::Turnaround,
            upstreams: vec![Named {
                address: "http://10.0.0.1:80".to_owned(),
                weight: 1,
            }],
            max_failures: 3,
            ejection_us: 10_000_000,
            slow_start_us: 0,
            retries: 1,
        };
        let state = State {
            health: "up",
            under_way: 2,
            requests: 7,
            response: Some(0.0123),
            service: None,
            network: Some(0.000_100_04),
            growth: 1.0,
        };
        let choice = Choice {
            at_us: 5,
            rule: start.rule.clone(),
            request: 3,
            key: "00000000000000ff".to_owned(),
            tried: vec![1],
            candidates: vec![Candidate::of(0, &state)],
            chosen: 0,
            connect_us: None,
            response_us: Some(900),
            service_us: Some(450),
            failed_us: None,
            bytes: 12,
            status: Some(200),
            outcome: End::Answered,
            repeatable: true,
        };
        let text = serde_json::to_string(&choice).expect("JSON");
        assert!(
            text.contains("{\"upstream\":0,\"health\":\"up\",\"under-way\":2,\"response-us\":12300.0,\"network-us\":100.0}"),
            "{text}"
        );
        assert_eq!(Line::parse(&text), Ok(Line::Choice(choice)));
        let text = serde_json::to_string(&start).expect("JSON");
        assert_eq!(Line::parse(&text), Ok(Line::Start(start)));
        for (line, why) in [
            ("{\"balance-record\":2}", "another version"),
            ("{\"at-us\":1}", "no choice"),
            ("what", "expected value"),
            (&text.replace("\"weight\":1", "\"weight\":0"), "at least 1"),
        ] {
            let error = Line::parse(line).expect_err(line);
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
