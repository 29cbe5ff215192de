//! Requests and responses of one connection, as a crew of one line: sends one request after another, and ends when the
//! connection cannot or need not be used any more.
//!
//! ```text
//!            first request                    response, persists
//!   Fresh ────────────────▶ Busy ──────────────────────────────▶ Idle ── closed, IDLE_MAX ──▶ end
//!                           │  ▲                                   │
//!                           │  └────────────── request ────────────┘
//!                           └── failure, response that is the last ──▶ end
//! ```

use super::{Request, Response, Unanswered};
use http_semantics::method::Method;
use http1::Limits;
use http1::client::{Connection, Step};
use http1::slots::Slots;
use runtime::dial::{Crew, Failing, Happened, Port};
use std::io::Write as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use tls::refusal;
use units::{Duration, Instant};

/// Longest content of a response that is read.
const CONTENT_MAX: usize = 1 << 20;

/// Time after which a connection without a request is closed. Collectors and proxies in front of them keep theirs for a minute
/// or more, so this end is usually the first to close.
pub(super) const IDLE_MAX: Duration = Duration::from_secs(30);

/// A request in the form of HTTP/1.1.
#[derive(Clone, Debug)]
pub(super) struct Job {
    bytes: Arc<[u8]>,
    method: Method,
    /// Whether further requests may follow on the connection.
    persists: bool,
    patience: Duration,
}

impl Job {
    pub(super) fn new(request: &Request<'_>, persists: bool, patience: Duration) -> Job {
        let method = match request.method {
            "HEAD" => Method::Head,
            "POST" => Method::Post,
            _ => Method::Get,
        };
        let target = &request.url[url::Position::BeforePath..url::Position::AfterQuery];
        let authority = &request.url[url::Position::BeforeHost..url::Position::AfterPort];
        let mut bytes = Vec::new();
        let mut line = |text: std::fmt::Arguments<'_>| {
            // Writing to a `Vec` cannot fail.
            let _ = bytes.write_fmt(format_args!("{text}\r\n"));
        };
        line(format_args!("{} {target} HTTP/1.1", request.method));
        line(format_args!("Host: {authority}"));
        // RFC 8555 section 6.1 requires it, and so does OTLP.
        line(format_args!("User-Agent: weir/{}", env!("CARGO_PKG_VERSION")));
        if !persists {
            line(format_args!("Connection: close"));
        }
        for (name, value) in request.fields {
            line(format_args!("{name}: {value}"));
        }
        if method == Method::Post {
            line(format_args!("Content-Length: {}", request.content.len()));
        }
        line(format_args!(""));
        bytes.extend_from_slice(request.content);
        Job {
            bytes: bytes.into(),
            method,
            persists,
            patience,
        }
    }
}

/// What became of a request.
#[derive(Debug)]
pub(super) enum Outcome {
    Answered(Response),
    /// The server closed a connection that had been used before, and sent nothing: it may have closed it before the request
    /// came (RFC 9112 section 9.3.1).
    Stale,
    Failed(Unanswered),
}

/// What a failure means if the connection ended without a response.
pub(super) fn closed_early() -> String {
    "it closed the connection before its response was whole".to_owned()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There is no connection.
    Fresh,
    /// A request is under way. `is_reused`: not the first of its connection. `is_heard`: a part of its response has come.
    Busy {
        is_reused: bool,
        is_heard: bool,
    },
    Idle,
}

/// The crew.
pub(super) struct Exchange {
    /// Where requests come from, and where their outcomes go. `None`: it has ended, which the other side learns from this.
    asker: Option<(Receiver<Job>, Sender<Outcome>)>,
    state: State,
    http: Connection,
    limits: Limits,
    patience: Duration,
    input: Vec<u8>,
    response: Response,
}

impl Exchange {
    pub(super) fn new(jobs: Receiver<Job>, outcomes: Sender<Outcome>) -> Exchange {
        Exchange {
            asker: Some((jobs, outcomes)),
            state: State::Fresh,
            http: Connection::new(),
            limits: Limits::DEFAULT,
            patience: Duration::ZERO,
            input: Vec::new(),
            response: Response::default(),
        }
    }

    /// Sends the request that waits, if one does.
    fn next(&mut self, port: &mut Port, now: Instant) {
        if matches!(self.state, State::Busy { .. }) {
            return;
        }
        let Some(Ok(job)) = self.asker.as_ref().map(|(jobs, _)| jobs.try_recv()) else {
            return;
        };
        let begun = self.http.begin_request(job.method, job.persists, &self.limits);
        if let Err(error) = begun.and_then(|()| self.http.end_request()) {
            return self.end(Some(Outcome::Failed(format!("{error:?}").into())), port);
        }
        let is_reused = self.state == State::Idle;
        if !is_reused {
            port.connect(0);
        }
        port.send(0, |out| out.extend_from_slice(&job.bytes));
        port.wake(0, now + job.patience);
        self.patience = job.patience;
        self.state = State::Busy {
            is_reused,
            is_heard: false,
        };
    }

    /// Takes what has arrived; the outcome once it is whole.
    fn read(&mut self) -> Option<Result<Response, String>> {
        let mut at = 0;
        let outcome = loop {
            let mut slots = Slots::new();
            match self.http.receive(&self.input[at..], &mut slots, &self.limits) {
                Ok(Step::Partial { used }) => {
                    at += used;
                    break None;
                }
                Ok(Step::Interim { used, .. }) => at += used,
                Ok(Step::Response { head, used }) => {
                    self.response.status = head.status;
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    let fields = head.fields.iter();
                    self.response.fields = fields.map(|field| (field.0.to_owned(), text(field.1))).collect();
                    at += used;
                    if head.framing == http1::framing::Framing::Empty {
                        break Some(Ok(std::mem::take(&mut self.response)));
                    }
                }
                Ok(Step::Body { data, used }) => {
                    if self.response.content.len() + data.len() > CONTENT_MAX {
                        break Some(Err(format!("its response has more than {CONTENT_MAX} bytes")));
                    }
                    self.response.content.extend_from_slice(data);
                    at += used;
                }
                Ok(Step::End { used, .. }) => {
                    at += used;
                    break Some(Ok(std::mem::take(&mut self.response)));
                }
                Ok(Step::Closed) => break Some(Ok(std::mem::take(&mut self.response))),
                Err(fault) => break Some(Err(format!("its response is no HTTP: {}", fault.text()))),
            }
        };
        self.input.drain(..at);
        outcome
    }

    /// After a whole response: waits for the next request if the connection persists and nothing else has come on it.
    fn answered(&mut self, response: Response, port: &mut Port, now: Instant) {
        let outcome = Outcome::Answered(response);
        if !self.http.is_reusable() || !self.input.is_empty() {
            return self.end(Some(outcome), port);
        }
        self.state = State::Idle;
        port.wake(0, now + IDLE_MAX);
        let is_told = self
            .asker
            .as_ref()
            .map(|(_, outcomes)| outcomes.send(outcome).is_ok());
        if is_told != Some(true) {
            // Whoever asked has gone.
            self.end(None, port);
        }
    }

    /// The connection is of no use any more.
    fn failed(&mut self, why: Unanswered, port: &mut Port) {
        let outcome = match self.state {
            State::Fresh | State::Idle => None,
            State::Busy {
                is_reused: true,
                is_heard: false,
            } => Some(Outcome::Stale),
            State::Busy { .. } => Some(Outcome::Failed(why)),
        };
        self.end(outcome, port);
    }

    fn end(&mut self, outcome: Option<Outcome>, port: &mut Port) {
        if let (Some((_, outcomes)), Some(outcome)) = (self.asker.take(), outcome) {
            // Whoever asked may have gone.
            let _ = outcomes.send(outcome);
        }
        port.end();
    }
}

impl Crew for Exchange {
    fn start(&mut self, port: &mut Port, now: Instant) {
        self.next(port, now);
    }

    fn called(&mut self, port: &mut Port, now: Instant) {
        self.next(port, now);
    }

    fn handle(&mut self, _: u32, happened: Happened<'_>, port: &mut Port, now: Instant) {
        match happened {
            Happened::Bytes(bytes) => {
                let State::Busy { is_heard, .. } = &mut self.state else {
                    // A server about to close the connection may say so (RFC 9110 section 15.5.9, 408).
                    return self.end(None, port);
                };
                *is_heard = true;
                self.input.extend_from_slice(bytes);
                match self.read() {
                    Some(Ok(response)) => self.answered(response, port, now),
                    Some(Err(why)) => self.end(Some(Outcome::Failed(why.into())), port),
                    None => {}
                }
            }
            Happened::Eof => match self.http.eof() {
                Ok(http1::client::Ended::Body(_)) => {
                    let response = std::mem::take(&mut self.response);
                    self.end(Some(Outcome::Answered(response)), port);
                }
                _ => self.failed(closed_early().into(), port),
            },
            Happened::Lost(failing) => {
                let why = match failing {
                    Failing::Here(errno) | Failing::Opening(errno) | Failing::Open(errno) => {
                        std::io::Error::from_raw_os_error(errno).to_string()
                    }
                    Failing::Cut => "the connection was cut off".to_owned(),
                };
                self.failed(why.into(), port);
            }
            Happened::Refused(why) => {
                // A server that only closed the connection may be about to restart.
                let is_final = why != refusal::closed();
                let why = why.to_owned();
                self.failed(Unanswered { why, is_final }, port);
            }
            Happened::Woken(_) => {
                let outcome = matches!(self.state, State::Busy { .. })
                    .then(|| Outcome::Failed(format!("no response within {:?}", self.patience).into()));
                self.end(outcome, port);
            }
            Happened::Connected
            | Happened::Skipped(_)
            | Happened::Inspected(_)
            | Happened::Measured(_)
            | Happened::Secured(_) => {}
            Happened::Stream(..) | Happened::Stopped(..) | Happened::Closed(_) => {
                debug_assert!(false, "TLS over TCP carries no streams");
            }
        }
    }

    fn stop(&mut self, port: &mut Port, _: Instant) {
        self.end(None, port);
    }
}

#[cfg(test)]
mod tests;
