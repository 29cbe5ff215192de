//! Test support: drives a connection as a session would, and records every event.
//!
//! The conformance vectors and the fuzz functions compare these lines. Content is joined into one line
//! however it was split.

use crate::client;
use crate::cut::show;
use crate::error::Fault;
use crate::framing::Framing;
use crate::head::Expect;
use crate::limits::Limits;
use crate::server::{self, After, Persistence};
use crate::slots::Slots;
use http_semantics::field::Fields;
use http_semantics::method::Method;

/// Behavior of the simulated session on a server connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manner {
    /// Responds as soon as the head is complete, before reading the body.
    pub(crate) answers_early: bool,
    /// Closes the connection with its first response.
    pub(crate) closes: bool,
    /// Never sends a 100.
    pub(crate) refuses_bodies: bool,
    /// Records every field line.
    pub(crate) shows_fields: bool,
}

/// The events of a server connection.
#[derive(Debug)]
pub(crate) struct Server {
    connection: server::Connection,
    manner: Manner,
    limits: Limits,
    pending: Vec<u8>,
    /// What was seen so far.
    pub(crate) events: Vec<String>,
}

impl Server {
    /// A new connection and the session on top of it.
    pub(crate) fn new(manner: Manner, limits: Limits) -> Server {
        Server {
            connection: server::Connection::new(),
            manner,
            limits,
            pending: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Processes the next piece of the stream.
    pub(crate) fn bytes(&mut self, piece: &[u8]) {
        self.pending.extend_from_slice(piece);
        let input = core::mem::take(&mut self.pending);
        let mut rest = &input[..];
        loop {
            let mut slots = Slots::new();
            match self.connection.receive(rest, &mut slots, &self.limits) {
                Ok(server::Step::Partial { used }) => {
                    rest = &rest[used..];
                    break;
                }
                Ok(server::Step::Request { head, used }) => {
                    rest = &rest[used..];
                    self.events.push(request_line(&head));
                    self.fields("field", &head.fields);
                    if self.manner.answers_early {
                        self.respond();
                    } else if head.expect == Expect::Continue && !self.manner.refuses_bodies {
                        self.connection.continued();
                    } else if self.connection.awaits_continue() {
                        self.respond();
                    }
                }
                Ok(server::Step::Body { data, used }) => {
                    rest = &rest[used..];
                    body(&mut self.events, data);
                }
                Ok(server::Step::End { used, trailers }) => {
                    rest = &rest[used..];
                    self.events.push("end".to_owned());
                    self.trailers(&trailers);
                }
                Ok(server::Step::Paused) => self.respond(),
                Ok(server::Step::Closed) => {
                    rest = &[];
                    break;
                }
                Err(fault) => self.events.push(fault_line(fault)),
            }
        }
        self.pending = rest.to_vec();
    }

    fn respond(&mut self) {
        let persistence = self
            .connection
            .begin_response(!self.manner.closes)
            .expect("a response is owed");
        self.events.push(match persistence {
            Persistence::Implied => "response".to_owned(),
            Persistence::Announced => "response keep-alive".to_owned(),
            Persistence::Ends => "response close".to_owned(),
            Persistence::Headless => "response without head".to_owned(),
        });
        match self.connection.end_response().expect("a response was begun") {
            After::Request => {}
            After::Discard => self.events.push("discard".to_owned()),
            After::Close => self.events.push("closed".to_owned()),
        }
    }

    fn fields(&mut self, what: &str, fields: &Fields<'_, '_>) {
        if self.manner.shows_fields {
            self.events.extend(lines(what, fields));
        }
    }

    fn trailers(&mut self, trailers: &Fields<'_, '_>) {
        self.events.extend(lines("trailer", trailers));
    }

    /// The stream ended.
    pub(crate) fn eof(&mut self) {
        self.events.push(match self.connection.eof() {
            Ok(()) => "eof".to_owned(),
            Err(fault) => format!("eof {}", fault_line(fault)),
        });
    }
}

/// The events of a client connection with requests of these methods outstanding.
#[derive(Debug)]
pub(crate) struct Client {
    connection: client::Connection,
    shows_fields: bool,
    limits: Limits,
    pending: Vec<u8>,
    /// What was seen so far.
    pub(crate) events: Vec<String>,
}

impl Client {
    /// A connection with one outstanding request per method. With `last`, the last of them carried
    /// `Connection: close`.
    pub(crate) fn new(methods: &[Method], last: bool, shows_fields: bool, limits: Limits) -> Client {
        let mut connection = client::Connection::new();
        for (position, &method) in methods.iter().enumerate() {
            let persist = !(last && position + 1 == methods.len());
            connection
                .begin_request(method, persist, &limits)
                .and_then(|()| connection.end_request())
                .expect("a vector sends no more than the bound");
        }
        Client {
            connection,
            shows_fields,
            limits,
            pending: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Processes the next piece of the stream.
    pub(crate) fn bytes(&mut self, piece: &[u8]) {
        self.pending.extend_from_slice(piece);
        let input = core::mem::take(&mut self.pending);
        let mut rest = &input[..];
        loop {
            let mut slots = Slots::new();
            let (what, head, used) = match self.connection.receive(rest, &mut slots, &self.limits) {
                Ok(client::Step::Partial { used }) => {
                    rest = &rest[used..];
                    break;
                }
                Ok(client::Step::Interim { head, used }) => ("interim", head, used),
                Ok(client::Step::Response { head, used }) => ("response", head, used),
                Ok(client::Step::Body { data, used }) => {
                    rest = &rest[used..];
                    body(&mut self.events, data);
                    continue;
                }
                Ok(client::Step::End { used, trailers }) => {
                    rest = &rest[used..];
                    self.events.push("end".to_owned());
                    self.events.extend(lines("trailer", &trailers));
                    continue;
                }
                Ok(client::Step::Closed) => {
                    rest = &[];
                    break;
                }
                Err(fault) => {
                    self.events.push(fault_line(fault));
                    continue;
                }
            };
            rest = &rest[used..];
            let last = if head.persistent { "" } else { " last" };
            self.events.push(format!(
                "{what} {} {} {} {}{last}",
                head.version.name(),
                head.status,
                show(head.reason.as_bytes()),
                framing(head.framing),
            ));
            if self.shows_fields {
                self.events.extend(lines("field", &head.fields));
            }
        }
        self.pending = rest.to_vec();
    }

    /// The stream ended.
    pub(crate) fn eof(&mut self) {
        self.events.push(match self.connection.eof() {
            Ok(ended) => format!("eof {ended:?}"),
            Err(fault) => format!("eof {}", fault_line(fault)),
        });
    }
}

fn request_line(head: &crate::head::Request<'_, '_>) -> String {
    let authority = head.authority().map_or(String::new(), |authority| {
        format!(" for {}", authority.escape_ascii())
    });
    let expect = match head.expect {
        Expect::Nothing => "",
        Expect::Continue => " expects 100",
        Expect::Unknown => " expects the unknown",
    };
    let last = if head.persistent { "" } else { " last" };
    format!(
        "request {} {} {}{authority} {}{expect}{last}",
        head.method_name,
        head.target_raw.escape_ascii(),
        head.version.name(),
        framing(head.framing),
    )
}

fn framing(framing: Framing) -> String {
    match framing {
        Framing::Empty => "empty".to_owned(),
        Framing::Length(len) => format!("length {len}"),
        Framing::Chunked => "chunked".to_owned(),
        Framing::UntilClose => "until close".to_owned(),
    }
}

fn body(events: &mut Vec<String>, data: &[u8]) {
    assert!(!data.is_empty(), "a piece of content is never empty");
    match events.last_mut() {
        Some(line) if line.starts_with("body ") => {
            line.pop();
            *line += &data.escape_ascii().to_string();
            line.push('"');
        }
        _ => events.push(format!("body {}", show(data))),
    }
}

fn lines(what: &str, fields: &Fields<'_, '_>) -> Vec<String> {
    fields
        .iter()
        .map(|(name, value)| format!("{what} {name}: {}", show(value)))
        .collect()
}

fn fault_line(fault: Fault) -> String {
    format!("fault {fault:?} {}", fault.status().as_u16())
}
