//! A server of 1997, Apache 1.2b10 or Jigsaw 1.06, with the output behavior described in document 003: one
//! processor, responses in order, and a buffer per connection, written when full or when no request waits.
//!
//! `http1` parses requests, and responses have real heads and bodies; only head lengths and service times are
//! fitted ([`crate::ASSUMPTIONS`]). Supports what the robot uses: GET, HEAD, If-None-Match and Accept-Encoding.
//! (F) marks values fitted to published figures, (A) values assumed without evidence.

use crate::costs::Costs;
use crate::page::{Entity, Page};
use http_semantics::field::Name;
use http_semantics::method::Method;
use http1::limits::Limits;
use http1::server::{Connection, Step};
use http1::slots::Slots;
use http1::version::Version;
use netsim::{Application, Conn, Happened, Work};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use units::{Duration, Instant};

/// Bytes of the server's output buffer (A).
const BUFFER: usize = 4_096;
/// Padding of a head up to the fitted length.
const FILLING: &str = ".";

/// The server product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Jigsaw 1.06, interpreted Java.
    Jigsaw,
    /// Apache 1.2b10.
    Apache,
}

impl Kind {
    /// Both servers, in the order of the tables.
    pub const ALL: [Kind; 2] = [Kind::Jigsaw, Kind::Apache];

    /// The name in tables and results.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Jigsaw => "Jigsaw",
            Kind::Apache => "Apache",
        }
    }

    fn product(self) -> &'static str {
        match self {
            Kind::Jigsaw => "Jigsaw/1.06",
            Kind::Apache => "Apache/1.2b10",
        }
    }

    /// Service time of a request (F).
    pub(crate) fn service(self) -> Duration {
        match self {
            Kind::Jigsaw => Duration::from_millis(13),
            Kind::Apache => Duration::from_millis(3),
        }
    }

    /// Bytes of a response head (F).
    pub(crate) fn head(self, status: u16, version: Version) -> usize {
        match (version, status, self) {
            (Version::Http10, _, Kind::Jigsaw) => 231,
            (Version::Http10, _, Kind::Apache) => 219,
            (_, 304, Kind::Jigsaw) => 161,
            (_, 304, Kind::Apache) => 120,
            (_, _, Kind::Jigsaw) => 288,
            (_, _, Kind::Apache) => 222,
        }
    }
}

/// How a server with a limit on requests ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It closes its sending half and reads on.
    Half,
    /// It closes both halves at once.
    Full,
}

/// Parameters of a server.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The product.
    pub kind: Kind,
    /// Bytes by which heads are shorter (F).
    pub head_less: usize,
    /// Whether the server sets TCP_NODELAY.
    pub no_delay: bool,
    /// Most requests per connection, and how it ends after them; `None` for no limit.
    pub requests_max: Option<(u32, Ending)>,
    /// Processor times.
    pub costs: Costs,
}

/// The server: one processor and the state of its connections.
pub struct Server {
    setup: Setup,
    page: Rc<Page>,
    open: BTreeMap<Conn, Open>,
    /// Requests read and not answered, from all connections.
    waiting: VecDeque<(Conn, Asked)>,
    is_serving: bool,
    /// Responses written completely.
    answered: Rc<Cell<u32>>,
}

#[derive(Default)]
struct Open {
    input: Vec<u8>,
    output: Vec<u8>,
    answered: u32,
    is_ended: bool,
}

/// The properties of a request that matter.
struct Asked {
    path: String,
    is_head: bool,
    version: Version,
    tag: Option<String>,
    deflate: bool,
}

impl Server {
    /// A server of `page`; `answered` counts its responses.
    pub fn new(setup: Setup, page: Rc<Page>, answered: Rc<Cell<u32>>) -> Server {
        Server {
            setup,
            page,
            open: BTreeMap::new(),
            waiting: VecDeque::new(),
            is_serving: false,
            answered,
        }
    }

    /// Starts serving the next request, if there is one.
    fn serve(&mut self, work: &mut Work) {
        let Some((_, asked)) = self.waiting.front() else {
            self.is_serving = false;
            return;
        };
        self.is_serving = true;
        let is_alone = asked.version == Version::Http10;
        work.run(self.setup.costs.served(self.setup.kind.service(), is_alone));
        work.mark(0);
    }

    /// Answers the first request after its service time.
    fn answer(&mut self, work: &mut Work) {
        let Some((conn, asked)) = self.waiting.pop_front() else {
            return;
        };
        let more = self.waiting.iter().any(|(other, _)| *other == conn);
        let reply = self.reply(&asked);
        let Some(open) = self.open.get_mut(&conn).filter(|open| !open.is_ended) else {
            return;
        };
        open.output.extend(reply);
        open.answered += 1;
        self.answered.set(self.answered.get() + 1);
        while open.output.len() >= BUFFER {
            work.write(conn, open.output.drain(..BUFFER).collect());
        }
        let last = self
            .setup
            .requests_max
            .is_some_and(|(max, _)| open.answered >= max);
        if asked.version == Version::Http10 {
            // The FIN is sent with the last data (F).
            work.finish(conn, std::mem::take(&mut open.output));
            open.is_ended = true;
        } else if last {
            work.write(conn, std::mem::take(&mut open.output));
            open.is_ended = true;
            match self.setup.requests_max {
                Some((_, Ending::Full)) => work.close(conn),
                _ => work.shutdown(conn),
            }
        } else if !more && !open.output.is_empty() {
            work.write(conn, std::mem::take(&mut open.output));
        }
    }

    fn reply(&self, asked: &Asked) -> Vec<u8> {
        let Some(entity) = self.page.get(&asked.path) else {
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec();
        };
        let coded = entity.deflated.as_ref().filter(|_| asked.deflate);
        let body = coded.unwrap_or(&entity.body);
        if asked.tag.as_deref() == Some(&entity.tag) {
            return self.head(304, asked.version, entity, None);
        }
        let mut reply = self.head(200, asked.version, entity, Some((body.len(), coded.is_some())));
        if !asked.is_head {
            reply.extend_from_slice(body);
        }
        reply
    }

    /// A head, padded to the fitted length.
    fn head(&self, status: u16, version: Version, entity: &Entity, body: Option<(usize, bool)>) -> Vec<u8> {
        let reason = if status == 304 { "Not Modified" } else { "OK" };
        let mut rest = format!("\r\nETag: {}\r\n", entity.tag);
        if let Some((length, is_deflated)) = body {
            rest += "Last-Modified: Thu, 12 Jun 1997 09:00:00 GMT\r\n";
            rest += &format!("Content-Length: {length}\r\nContent-Type: {}\r\n", entity.media);
            if is_deflated {
                rest += "Content-Encoding: deflate\r\n";
            }
        }
        rest += "\r\n";
        let first = format!(
            "HTTP/1.1 {status} {reason}\r\nDate: Tue, 24 Jun 1997 12:00:00 GMT\r\nServer: {}",
            self.setup.kind.product()
        );
        let less = if status == 304 || version == Version::Http10 {
            0
        } else {
            self.setup.head_less
        };
        let length = self.setup.kind.head(status, version) - less;
        let filling = length.saturating_sub(first.len() + rest.len());
        [first, FILLING.repeat(filling), rest].concat().into_bytes()
    }

    /// Takes complete requests from the bytes a connection has sent.
    fn read(&mut self, conn: Conn, data: &[u8]) {
        let Some(open) = self.open.get_mut(&conn).filter(|open| !open.is_ended) else {
            return;
        };
        open.input.extend_from_slice(data);
        let mut used = 0;
        while let Some((asked, length)) = parsed(&open.input[used..]) {
            used += length;
            self.waiting.push_back((conn, asked));
        }
        open.input.drain(..used);
    }
}

/// The request at the front of `input` and its length, if it is complete. Invalid input never is.
fn parsed(input: &[u8]) -> Option<(Asked, usize)> {
    let mut slots = Slots::new();
    let step = Connection::new().receive(input, &mut slots, &Limits::DEFAULT);
    let Ok(Step::Request { head, used }) = step else {
        return None;
    };
    let text = |name| {
        let value: Option<&[u8]> = head.fields.get(name);
        value.map(|value| String::from_utf8_lossy(value).into_owned())
    };
    let asked = Asked {
        path: String::from_utf8_lossy(head.target_raw).into_owned(),
        is_head: head.method == Method::Head,
        version: head.version,
        tag: text(Name::IfNoneMatch),
        deflate: text(Name::AcceptEncoding).is_some_and(|codings| codings.contains("deflate")),
    };
    Some((asked, used))
}

impl Application for Server {
    fn handle(&mut self, happened: Happened, work: &mut Work, _: Instant) {
        match happened {
            Happened::Opened(conn) => {
                work.no_delay(conn, self.setup.no_delay);
                self.open.insert(conn, Open::default());
            }
            Happened::Data(conn, data) => {
                self.read(conn, &data);
                if !self.is_serving {
                    self.serve(work);
                }
            }
            Happened::Reached(_) => {
                self.answer(work);
                self.serve(work);
            }
            Happened::Finished(conn) => work.close(conn),
            Happened::Closed(conn, _) => {
                self.open.remove(&conn);
            }
            _ => {}
        }
    }
}
