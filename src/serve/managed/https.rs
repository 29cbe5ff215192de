//! One request to a CA over HTTPS: a connection of its own, and the whole answer. Blocks the thread that asks.

use crate::secure::{self, Secure};
use acme::world::{Request, Response};
use http_semantics::method::Method;
use http1::Limits;
use http1::client::{Connection, Step};
use http1::slots::Slots;
use runtime::dial::{self, Crew, Failing, Happened, Port};
use std::io::Write as _;
use std::sync::Arc;
use tls::rustls::RootCertStore;
use units::{Duration, Instant};
use url::Url;

/// How long a CA may take for one answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Longest answer that is read.
const ANSWER_MAX: usize = 1 << 20;

/// Sends a request and waits for the answer.
///
/// # Errors
/// In words, why there is none.
pub(super) fn ask(request: &Request, roots: &Arc<RootCertStore>) -> Result<Response, String> {
    let url = Url::parse(&request.url).map_err(|error| format!("`{}` is no URL: {error}", request.url))?;
    if url.scheme() != "https" {
        return Err(format!("`{url}` is not https"));
    }
    let host = url.host_str().unwrap_or_default();
    let secure = Secure::trusting(Arc::clone(roots), secure::host(host))?;
    let addresses = url
        .socket_addrs(|| Some(443))
        .map_err(|error| format!("no address for `{host}`: {error}"))?;
    let peer = dial::answering(&addresses).ok_or_else(|| format!("no address for `{host}`"))?;
    let crew = Asking::new(request, &url)?;
    let running = secure::start(vec![crew], peer, Some(&secure)).map_err(|error| error.to_string())?;
    let mut ended = running.join().map_err(|error| error.to_string())?;
    match ended.pop() {
        Some((crew, _)) => crew
            .outcome
            .unwrap_or_else(|| Err("the connection ended early".to_owned())),
        None => Err("nobody asked".to_owned()),
    }
}

/// A crew of one line and one request.
struct Asking {
    bytes: Vec<u8>,
    http: Connection,
    limits: Limits,
    input: Vec<u8>,
    answer: Response,
    outcome: Option<Result<Response, String>>,
}

impl Asking {
    fn new(request: &Request, url: &Url) -> Result<Asking, String> {
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
        let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
        let authority = &url[url::Position::BeforeHost..url::Position::AfterPort];
        let mut bytes = Vec::new();
        let mut line = |text: std::fmt::Arguments<'_>| {
            // Writing to a `Vec` cannot fail.
            let _ = bytes.write_fmt(format_args!("{text}\r\n"));
        };
        line(format_args!("{} {target} HTTP/1.1", request.method));
        line(format_args!("Host: {authority}"));
        // RFC 8555 section 6.1 requires it.
        line(format_args!("User-Agent: weir/{}", env!("CARGO_PKG_VERSION")));
        line(format_args!("Accept-Language: en"));
        line(format_args!("Connection: close"));
        if request.method == "POST" {
            line(format_args!("Content-Type: application/jose+json"));
            line(format_args!("Content-Length: {}", request.body.len()));
        }
        line(format_args!(""));
        bytes.extend_from_slice(&request.body);
        Ok(Asking {
            bytes,
            http,
            limits,
            input: Vec::new(),
            answer: Response::default(),
            outcome: None,
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
                    if self.answer.body.len() + data.len() > ANSWER_MAX {
                        break Some(Err(format!("its answer has more than {ANSWER_MAX} bytes")));
                    }
                    self.answer.body.extend_from_slice(data);
                    at += used;
                }
                Ok(Step::End { .. } | Step::Closed) => break Some(Ok(std::mem::take(&mut self.answer))),
                Err(fault) => break Some(Err(format!("its answer is no HTTP: {}", fault.text()))),
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
        port.wake(0, now + PATIENCE);
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
                    _ => Err("it closed the connection before its answer was whole".to_owned()),
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
            Happened::Refused(why) => self.end(Err(why.to_owned()), port),
            Happened::Woken(_) => self.end(Err(format!("no answer within {} s", PATIENCE.as_secs())), port),
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
