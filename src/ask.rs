//! One request to a server and its whole response, over a connection of its own, with TLS or without. Blocks the thread that
//! asks. Decides how the request is written; what it means, and which roots are trusted, only the caller knows.

use crate::secure::{self, Secure};
use http_semantics::method::Method;
use http1::Limits;
use http1::client::{Connection, Step};
use http1::slots::Slots;
use runtime::dial::{self, Crew, Failing, Happened, Port};
use std::io::Write as _;
use tls::refusal;
use units::{Duration, Instant};
use url::Url;

/// Longest content of a response that is read.
const CONTENT_MAX: usize = 1 << 20;

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
    let url = request.url;
    let host = url.host_str().unwrap_or_default();
    let addresses = url
        .socket_addrs(|| None)
        .map_err(|error| format!("no address for `{host}`: {error}"))?;
    let peer = dial::answering(&addresses).ok_or_else(|| format!("no address for `{host}`"))?;
    let crew = Asking::new(request, patience)?;
    let running = secure::start(vec![crew], peer, secure).map_err(|error| error.to_string())?;
    let mut ended = running.join().map_err(|error| error.to_string())?;
    match ended.pop() {
        Some((crew, _)) => {
            let is_final = crew.is_refused;
            let outcome = crew.outcome;
            let outcome = outcome.unwrap_or_else(|| Err("the connection ended early".to_owned()));
            outcome.map_err(|why| Unanswered { why, is_final })
        }
        None => Err("nobody asked".to_owned().into()),
    }
}

/// A crew of one line and one request.
struct Asking {
    bytes: Vec<u8>,
    http: Connection,
    limits: Limits,
    patience: Duration,
    input: Vec<u8>,
    answer: Response,
    outcome: Option<Result<Response, String>>,
    /// TLS failed for good.
    is_refused: bool,
}

impl Asking {
    fn new(request: &Request<'_>, patience: Duration) -> Result<Asking, String> {
        let mut http = Connection::new();
        let limits = Limits::DEFAULT;
        let method = match request.method {
            "HEAD" => Method::Head,
            "POST" => Method::Post,
            _ => Method::Get,
        };
        let begun = http
            .begin_request(method, false, &limits)
            .and_then(|()| http.end_request());
        begun.map_err(|error| format!("{error:?}"))?;
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
        line(format_args!("Connection: close"));
        for (name, value) in request.fields {
            line(format_args!("{name}: {value}"));
        }
        if method == Method::Post {
            line(format_args!("Content-Length: {}", request.content.len()));
        }
        line(format_args!(""));
        bytes.extend_from_slice(request.content);
        Ok(Asking {
            bytes,
            http,
            limits,
            patience,
            input: Vec::new(),
            answer: Response::default(),
            outcome: None,
            is_refused: false,
        })
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
                    self.answer.status = head.status;
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    let fields = head.fields.iter();
                    self.answer.fields = fields.map(|field| (field.0.to_owned(), text(field.1))).collect();
                    at += used;
                    if head.framing == http1::framing::Framing::Empty {
                        break Some(Ok(std::mem::take(&mut self.answer)));
                    }
                }
                Ok(Step::Body { data, used }) => {
                    if self.answer.content.len() + data.len() > CONTENT_MAX {
                        break Some(Err(format!("its response has more than {CONTENT_MAX} bytes")));
                    }
                    self.answer.content.extend_from_slice(data);
                    at += used;
                }
                Ok(Step::End { .. } | Step::Closed) => break Some(Ok(std::mem::take(&mut self.answer))),
                Err(fault) => break Some(Err(format!("its response is no HTTP: {}", fault.text()))),
            }
        };
        self.input.drain(..at);
        outcome
    }

    fn end(&mut self, outcome: Result<Response, String>, port: &mut Port) {
        self.outcome.get_or_insert(outcome);
        port.end();
    }
}

impl Crew for Asking {
    fn start(&mut self, port: &mut Port, now: Instant) {
        port.connect(0);
        port.send(0, |out| out.extend_from_slice(&self.bytes));
        port.wake(0, now + self.patience);
    }

    fn handle(&mut self, _: u32, happened: Happened<'_>, port: &mut Port, _: Instant) {
        match happened {
            Happened::Bytes(bytes) => {
                self.input.extend_from_slice(bytes);
                if let Some(outcome) = self.read() {
                    self.end(outcome, port);
                }
            }
            Happened::Eof => {
                let outcome = match self.http.eof() {
                    Ok(http1::client::Ended::Body(_)) => Ok(std::mem::take(&mut self.answer)),
                    _ => Err("it closed the connection before its response was whole".to_owned()),
                };
                self.end(outcome, port);
            }
            Happened::Lost(failing) => {
                let why = match failing {
                    Failing::Here(errno) | Failing::Opening(errno) | Failing::Open(errno) => {
                        std::io::Error::from_raw_os_error(errno).to_string()
                    }
                    Failing::Cut => "the connection was cut off".to_owned(),
                };
                self.end(Err(why), port);
            }
            Happened::Refused(why) => {
                // A server that only closed the connection may be about to restart.
                self.is_refused = why != refusal::closed();
                self.end(Err(why.to_owned()), port);
            }
            Happened::Woken(_) => {
                let why = format!("no response within {:?}", self.patience);
                self.end(Err(why), port);
            }
            Happened::Connected
            | Happened::Skipped(_)
            | Happened::Inspected(_)
            | Happened::Measured(_)
            | Happened::Secured(_) => {}
            Happened::Stream(..) | Happened::Stopped(..) => {
                debug_assert!(false, "TLS over TCP carries no streams");
            }
        }
    }

    fn stop(&mut self, port: &mut Port, _: Instant) {
        port.end();
    }
}
