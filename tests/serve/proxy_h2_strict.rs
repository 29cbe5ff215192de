//! HTTP/2 on both sides of the proxy: which messages of clients and of upstreams are malformed, what the other side gets of them,
//! and what of a valid message arrives. `proxy_pairings` and `proxy_malformed` have clients and upstreams of other versions.
//!
//! The upstream records each field and byte, and accepts everything.

use crate::serve::frames::{self, Client};
use crate::serve::on_strategy;
use crate::serve::process::{Launch, PATIENCE, Server, Strategy, eventually};
use crate::serve::tree::Tree;
use http2::hpack::{Bounds, Decoder, Fields, block};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

const PREFACE: usize = 24;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

/// END_STREAM on DATA and HEADERS, ACK on SETTINGS and PING.
const END: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;

/// The largest frame that every peer takes (RFC 9113 section 4.2).
const FRAME_MAX: usize = 16_384;

/// A frame of a stream: type, flags and payload.
pub(crate) type Frame = (u8, u8, Vec<u8>);

type Pairs<'t> = &'t [(&'t str, &'t str)];

/// What came over one stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard {
    fields: Vec<(String, String)>,
    pub(crate) trailers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) has_ended: bool,
    pub(crate) was_reset: bool,
}

impl Heard {
    fn field(&self, name: &str) -> Option<&str> {
        let field = self.fields.iter().find(|(known, _)| known == name);
        field.map(|(_, value)| &**value)
    }

    pub(crate) fn path(&self) -> &str {
        self.field(":path").unwrap_or_default()
    }
}

/// By number of the connection, and stream.
type Log = Arc<Mutex<BTreeMap<(usize, u32), Heard>>>;

pub(crate) struct Recorder {
    pub(crate) url: String,
    log: Log,
}

impl Recorder {
    /// An upstream that answers each complete request with these frames.
    fn new(answer: impl Fn(&Heard) -> Vec<Frame> + Send + Sync + 'static) -> Recorder {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("h2c://{}", listener.local_addr().expect("its address"));
        let log = Log::default();
        let (noted, answer) = (Arc::clone(&log), Arc::new(answer));
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let (log, answer) = (Arc::clone(&noted), Arc::clone(&answer));
                std::thread::spawn(move || {
                    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                    stream.set_nodelay(true).expect("a socket");
                    let mut connection = Connection {
                        stream,
                        number,
                        log,
                        decoder: Decoder::new(4_096),
                        block: Vec::new(),
                    };
                    // The peer may be gone.
                    let _ = connection.run(&*answer);
                    let _ = connection.stream.shutdown(Shutdown::Both);
                });
            }
        });
        Recorder { url, log }
    }

    /// One that answers 200 to each request.
    pub(crate) fn fine() -> Recorder {
        Recorder::new(|_| fine("ok"))
    }

    /// One that begins a response to each request, and says no more.
    pub(crate) fn silent() -> Recorder {
        Recorder::new(|_| vec![headers(0, &[(":status", "200")]), data(0, "hello")])
    }

    pub(crate) fn all(&self) -> Vec<Heard> {
        self.log
            .lock()
            .expect("no upstream panics")
            .values()
            .cloned()
            .collect()
    }

    pub(crate) fn of_path(&self, path: &str) -> Vec<Heard> {
        let all = self.all().into_iter();
        all.filter(|heard| heard.path() == path).collect()
    }
}

struct Connection {
    stream: TcpStream,
    number: usize,
    log: Log,
    decoder: Decoder,
    /// The field block that is not complete.
    block: Vec<u8>,
}

impl Connection {
    fn frame(&mut self, stream: u32, (kind, flags, payload): &Frame) -> std::io::Result<()> {
        let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend([*kind, *flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.stream.write_all(&frame)
    }

    fn run(&mut self, answer: &dyn Fn(&Heard) -> Vec<Frame>) -> std::io::Result<()> {
        self.stream.read_exact(&mut [0; PREFACE])?;
        self.frame(0, &(SETTINGS, 0, Vec::new()))?;
        let mut ends = false;
        loop {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head)?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let (kind, flags) = (head[3], head[4]);
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let mut payload = vec![0; length];
            self.stream.read_exact(&mut payload)?;
            let mut content = &payload[..];
            if matches!(kind, HEADERS | DATA) && flags & PADDED != 0 {
                content = &content[1..length - usize::from(content[0])];
            }
            if kind == HEADERS && flags & PRIORITY != 0 {
                content = &content[5..];
            }
            if matches!(kind, HEADERS | DATA) {
                ends = flags & END != 0;
            }
            match kind {
                SETTINGS if flags & END == 0 => self.frame(0, &(SETTINGS, END, Vec::new()))?,
                PING if flags & END == 0 => self.frame(0, &(PING, END, payload))?,
                HEADERS | CONTINUATION => {
                    self.block.extend_from_slice(content);
                    if flags & END_HEADERS != 0 {
                        self.take_block(stream);
                        self.end(stream, ends, answer)?;
                    }
                }
                DATA => {
                    let more = (length as u32).to_be_bytes().to_vec();
                    if length > 0 {
                        self.frame(0, &(WINDOW_UPDATE, 0, more.clone()))?;
                        self.frame(stream, &(WINDOW_UPDATE, 0, more))?;
                    }
                    self.note(stream, |heard| heard.body.extend_from_slice(content));
                    self.end(stream, ends, answer)?;
                }
                RST_STREAM => self.note(stream, |heard| heard.was_reset = true),
                _ => {}
            }
        }
    }

    fn note<T>(&self, stream: u32, note: impl FnOnce(&mut Heard) -> T) -> T {
        let mut log = self.log.lock().expect("no upstream panics");
        note(log.entry((self.number, stream)).or_default())
    }

    fn take_block(&mut self, stream: u32) {
        let mut fields = Fields::default();
        let bounds = Bounds {
            fields: 10_000,
            bytes: 1 << 20,
        };
        let block = std::mem::take(&mut self.block);
        self.decoder
            .decode(&block, bounds, &mut fields)
            .expect("a valid block");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (text(name), text(value)))
            .collect();
        self.note(stream, |heard| match heard.fields.is_empty() {
            true => heard.fields = fields,
            false => heard.trailers = fields,
        });
    }

    /// Answers a request that ends here.
    fn end(&mut self, stream: u32, ends: bool, answer: &dyn Fn(&Heard) -> Vec<Frame>) -> std::io::Result<()> {
        if !ends {
            return Ok(());
        }
        let heard = self.note(stream, |heard| {
            heard.has_ended = true;
            heard.clone()
        });
        for frame in answer(&heard) {
            self.frame(stream, &frame)?;
        }
        Ok(())
    }
}

/// A field block.
fn section(fields: Pairs<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        block::field(name.as_bytes(), value.as_bytes(), &mut out);
    }
    out
}

fn headers(end: u8, fields: Pairs<'_>) -> Frame {
    (HEADERS, END_HEADERS | end, section(fields))
}

fn data(end: u8, content: &str) -> Frame {
    (DATA, end, content.as_bytes().to_vec())
}

/// 200 with this content.
fn fine(content: &str) -> Vec<Frame> {
    vec![headers(0, &[(":status", "200")]), data(END, content)]
}

/// One event loop, so that all requests share a connection to the upstream.
pub(crate) fn launch(strategy: Strategy, tree: &Tree, url: &str) -> Server {
    let text = format!(
        "root = \"{}\"\nhttp2 = \"all\"\n[[proxy]]\npath = \"/api/*\"\nupstreams = [\"{url}\"]\nretries = 0\n\
         max-failures = 0\n",
        tree.path().display(),
    );
    let config = tree.write("weir.toml", text);
    Launch::new(Strategy {
        workers: 1,
        ..strategy
    })
    .args(["--config".as_ref(), config.as_os_str()])
    .start()
}

const POST: [(&str, &str); 4] = [
    (":method", "POST"),
    (":scheme", "https"),
    (":authority", "a.test"),
    (":path", "/api/bad"),
];

/// Regular fields that make every section malformed (RFC 9113 sections 8.2.1 and 8.2.2).
pub(crate) const MALFORMED: [(&str, &str); 24] = [
    ("", "x"),
    ("Accept", "x"),
    ("a b", "x"),
    ("a:b", "x"),
    ("a\r\nb", "x"),
    ("a\0", "x"),
    ("caf\u{e9}", "x"),
    (":unknown", "x"),
    ("a", "x\r\ny: z"),
    ("a", "x\ny"),
    ("a", "x\ry"),
    ("a", "x\0"),
    ("a", " x"),
    ("a", "x\t"),
    ("a", "\u{7f}"),
    ("connection", "close"),
    ("connection", "transfer-encoding"),
    ("keep-alive", "1"),
    ("proxy-connection", "close"),
    ("transfer-encoding", "chunked"),
    ("transfer-encoding", "identity"),
    ("upgrade", "h2c"),
    ("content-length", "-1"),
    ("content-length", "1, 1"),
];

/// Heads of requests that are malformed as a whole (RFC 9113 section 8.3).
pub(crate) fn malformed_requests() -> Vec<Vec<(&'static str, &'static str)>> {
    let [method, scheme, authority, path] = POST;
    let mut all = vec![
        vec![scheme, authority, path],
        vec![method, authority, path],
        vec![method, scheme, authority],
        vec![method, method, scheme, authority, path],
        vec![method, scheme, scheme, authority, path],
        vec![method, scheme, authority, authority, path],
        vec![method, scheme, authority, path, path],
        vec![method, scheme, authority, ("a", "b"), path],
        vec![method, scheme, authority, (":path", "")],
        vec![method, scheme, authority, (":path", "api/bad")],
        vec![method, scheme, authority, (":path", "*")],
        vec![method, scheme, authority, (":path", "/api/bad HTTP/1.1\r\nX: y")],
        vec![method, scheme, authority, (":path", "/api/bad x")],
        vec![method, scheme, authority, (":path", "/api/bad\0")],
        vec![method, scheme, (":authority", ""), path],
        vec![method, scheme, (":authority", "user@a.test"), path],
        vec![method, scheme, (":authority", "a.test/b"), path],
        vec![method, scheme, (":authority", "a.test\r\nX: y"), path],
        vec![method, scheme, path],
        vec![(":method", "PO ST"), scheme, authority, path],
        vec![(":method", "POST\r\n"), scheme, authority, path],
        vec![(":method", ""), scheme, authority, path],
        vec![method, (":scheme", ""), authority, path],
        vec![method, (":scheme", "https://b.test/x?"), authority, path],
        vec![method, (":scheme", "https\r\nX: y"), authority, path],
        vec![method, scheme, authority, path, (":status", "200")],
        vec![method, scheme, authority, path, (":protocol", "websocket")],
        vec![method, scheme, authority, path, ("host", "b.test")],
        vec![method, scheme, path, ("host", "a.test"), ("host", "a.test")],
        vec![(":method", "CONNECT"), scheme, authority, path],
        vec![(":method", "CONNECT"), authority],
    ];
    for field in MALFORMED {
        all.push([&POST[..], &[field]].concat());
    }
    for more in [
        &[("te", "gzip")][..],
        &[("te", "trailers, gzip")],
        &[("content-length", "1"), ("content-length", "2")],
        &[("content-length", "")],
        &[("content-length", "18446744073709551616")],
    ] {
        all.push([&POST[..], more].concat());
    }
    all
}

/// A request that is refused leaves its connection to others, unless the whole connection is in doubt. Nothing of it reaches an
/// upstream.
fn malformed_heads_reach_no_upstream(strategy: Strategy) {
    let tree = Tree::new();
    let upstream = Recorder::fine();
    let server = launch(strategy, &tree, &upstream.url);
    let cases = malformed_requests();
    for case in &cases {
        for has_body in [false, true] {
            let mut client = frames::connect(&server);
            let stream = client.open_fields(case, !has_body);
            if has_body {
                let _ = client.send_body(stream, b"POST /api/smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n");
                client.end(stream, &[]);
            }
            let got = client.end_of(stream);
            let is_refused = got.reset.is_some() || [400, 405, 501].contains(&got.status);
            assert!(is_refused, "{case:?}: {got:?}");
            assert!(got.text() != "ok", "{case:?}: {got:?}");
            assert_eq!(client.get("/api/fine", &[]).text(), "ok", "{case:?}");
        }
    }
    let all = upstream.all();
    assert!(all.iter().all(|heard| heard.path() == "/api/fine"), "{all:?}");
    assert_eq!(all.len(), 2 * cases.len());
}

/// A request that turns out to be malformed after its head ends at the upstream with a reset, never as if it were whole.
fn malformed_ends_are_no_ends_at_the_upstream(strategy: Strategy) {
    type End = fn(&mut Client<TcpStream>, u32);
    let tree = Tree::new();
    let upstream = Recorder::fine();
    let server = launch(strategy, &tree, &upstream.url);
    let lengths: [(&str, &str, End); 3] = [
        ("too short", "9", |client, stream| client.end(stream, &[])),
        ("too short, with trailers", "9", |client, stream| {
            client.end(stream, &[("x", "y")]);
        }),
        ("too long", "5", |client, stream| {
            client.send_body(stream, b"defghi");
        }),
    ];
    let mut cases = 0;
    let mut check = |why: &str, fields: &[(&str, &str)], end: &dyn Fn(&mut Client<TcpStream>, u32)| {
        let path = format!("/api/{cases}");
        cases += 1;
        let mut client = frames::connect(&server);
        let fields = [&[(":method", "POST")], fields].concat();
        let stream = client.open(&path, &fields, false);
        assert!(client.send_body(stream, b"abc"));
        let heard = || upstream.of_path(&path).pop();
        eventually("the content at the upstream", || {
            heard().is_some_and(|heard| heard.body == b"abc").then_some(())
        });
        end(&mut client, stream);
        let got = client.end_of(stream);
        assert!(got.reset.is_some() || got.status == 400, "{why}: {got:?}");
        let heard = eventually("the reset at the upstream", || {
            heard().filter(|heard| heard.was_reset)
        });
        assert!(!heard.has_ended && heard.body == b"abc", "{why}: {heard:?}");
        assert!(heard.trailers.is_empty(), "{why}: {heard:?}");
        assert_eq!(client.get("/api/fine", &[]).text(), "ok", "{why}");
    };
    for (why, length, end) in lengths {
        check(why, &[("content-length", length)], &end);
    }
    for trailer in MALFORMED {
        check(&format!("trailer {trailer:?}"), &[], &|client, stream| {
            client.end(stream, &[trailer]);
        });
    }
    for trailer in [(":path", "/api/other"), (":status", "200")] {
        check(&format!("trailer {trailer:?}"), &[], &|client, stream| {
            client.end(stream, &[("x", "y"), trailer]);
        });
    }
}

fn valid_requests_arrive_as_they_are(strategy: Strategy) {
    let tree = Tree::new();
    let upstream = Recorder::fine();
    let server = launch(strategy, &tree, &upstream.url);
    let mut client = frames::connect(&server);
    let fields = [
        (":method", "POST"),
        (":scheme", "https"),
        (":path", "/api/x/../y?a=/b&c"),
        ("host", "A.test:8080"),
        ("cookie", "a=b"),
        ("te", "trailers"),
        ("accept", ""),
        ("cookie", "c=d"),
        ("x-a", "1"),
        ("x-forwarded-for", "10.1.1.1"),
        ("x-a", "2, 3"),
        ("content-length", "3"),
    ];
    let stream = client.open_fields(&fields, false);
    assert!(client.send_body(stream, b"abc"));
    client.end(stream, &[]);
    assert_eq!(client.end_of(stream).text(), "ok");
    // Content of unknown length, with a trailer section that also has fields which no trailer section may have.
    let stream = client.open("/api/z", &[(":method", "PUT")], false);
    assert!(client.send_body(stream, b"abc"));
    client.end(
        stream,
        &[("sum", "1"), ("content-length", "3"), ("host", "b.test")],
    );
    assert_eq!(client.end_of(stream).text(), "ok");
    let all = upstream.all();
    let [first, second] = &all[..] else {
        panic!("{all:?}");
    };
    let expected = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "A.test:8080"),
        (":path", "/api/x/../y?a=/b&c"),
        ("accept", ""),
        ("x-a", "1"),
        ("x-a", "2, 3"),
        ("content-length", "3"),
        ("cookie", "a=b; c=d"),
        ("via", "2.0 weir"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-proto", "http"),
        ("forwarded", "for=127.0.0.1;proto=http;host=\"A.test:8080\""),
        ("x-forwarded-host", "A.test:8080"),
        ("te", "trailers"),
    ];
    let mut fields = first.fields.clone();
    // Pseudo-fields come first; the order of the others has no meaning, but within a name.
    fields[4..].sort_by(|one, other| one.0.cmp(&other.0));
    let mut sorted = expected;
    sorted[4..].sort_by(|one, other| one.0.cmp(other.0));
    let fields: Vec<_> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(fields, sorted);
    assert!(
        first.body == b"abc" && first.trailers.is_empty() && first.has_ended,
        "{first:?}"
    );
    assert_eq!((&second.body[..], second.has_ended), (&b"abc"[..], true));
    assert_eq!(second.trailers, [("sum".to_owned(), "1".to_owned())]);
    assert_eq!(second.field("content-length"), None);
}

/// Responses that the client gets nothing of: it is told 502.
pub(crate) fn malformed_responses() -> Vec<(String, Vec<Frame>)> {
    const STATUS: (&str, &str) = (":status", "200");
    let mut heads: Vec<Vec<(&str, &str)>> = vec![
        vec![],
        vec![("a", "b")],
        vec![("a", "b"), STATUS],
        vec![STATUS, STATUS],
        vec![(":status", "")],
        vec![(":status", "20")],
        vec![(":status", "2000")],
        vec![(":status", "099")],
        vec![(":status", "2x0")],
        vec![(":status", "+20")],
        vec![(":status", "200 OK")],
        vec![(":status", "101")],
        vec![STATUS, (":path", "/")],
        vec![STATUS, ("content-length", "1"), ("content-length", "2")],
    ];
    heads.extend(MALFORMED.map(|field| vec![STATUS, field]));
    let mut all = Vec::new();
    for head in heads {
        all.push((format!("{head:?}"), vec![headers(END, &head)]));
        all.push((
            format!("{head:?} and content"),
            vec![headers(0, &head), data(END, "evil")],
        ));
    }
    let ok = || headers(0, &[STATUS]);
    let frames: [(&str, Vec<Frame>); 17] = [
        (
            "content before the head",
            vec![data(0, "evil"), ok(), data(END, "evil")],
        ),
        (
            "an interim response that ends",
            vec![headers(END, &[(":status", "103")])],
        ),
        (
            "content after an interim response",
            vec![headers(0, &[(":status", "103")]), data(END, "evil")],
        ),
        (
            "a length, and no content",
            vec![headers(END, &[STATUS, ("content-length", "4")])],
        ),
        ("an empty end", vec![data(END, "")]),
        (
            "an invalid index",
            vec![(HEADERS, END_HEADERS | END, vec![0xff, 0xff, 0x00])],
        ),
        ("index 0", vec![(HEADERS, END_HEADERS | END, vec![0x80])]),
        (
            "a block that breaks off",
            vec![(HEADERS, END_HEADERS | END, vec![0x88, 0x40, 0x0a, b'x'])],
        ),
        (
            "a table above its limit",
            vec![(HEADERS, END_HEADERS | END, vec![0x3f, 0xe1, 0xff, 0x03, 0x88])],
        ),
        (
            "padding beyond the frame",
            vec![(HEADERS, END_HEADERS | END | PADDED, vec![9, 0x88])],
        ),
        (
            "a frame that is too large",
            vec![(HEADERS, END_HEADERS | END, vec![0; FRAME_MAX + 1])],
        ),
        (
            "a head that does not end",
            vec![(HEADERS, 0, section(&[STATUS])), data(END, "evil")],
        ),
        (
            "CONTINUATION without a head",
            vec![(CONTINUATION, END_HEADERS, section(&[STATUS]))],
        ),
        (
            "a promise",
            vec![(
                PUSH_PROMISE,
                END_HEADERS,
                [&[0, 0, 0, 2][..], &section(&POST)].concat(),
            )],
        ),
        ("an empty window update", vec![(WINDOW_UPDATE, 0, vec![0; 4])]),
        (
            "a window beyond the maximum",
            vec![(WINDOW_UPDATE, 0, vec![0x7f, 0xff, 0xff, 0xff])],
        ),
        ("settings on a stream", vec![(SETTINGS, 0, Vec::new())]),
    ];
    all.extend(frames.map(|(why, frames)| (why.to_owned(), frames)));
    let list: Vec<(&str, &str)> = std::iter::once(STATUS)
        .chain([("x", "0123456789abcdef"); 4_000])
        .collect();
    let block = section(&list);
    let mut pieces = block.chunks(FRAME_MAX);
    let mut large = vec![(HEADERS, END, pieces.next().unwrap_or_default().to_vec())];
    large.extend(pieces.map(|piece| (CONTINUATION, 0, piece.to_vec())));
    if let Some(last) = large.last_mut() {
        last.1 |= END_HEADERS;
    }
    all.push(("a head that is too large".to_owned(), large));
    all
}

/// Responses that begin well: what has been sent of them cannot be taken back, so the client's stream is reset.
pub(crate) fn responses_that_end_badly() -> Vec<(String, Vec<Frame>)> {
    const STATUS: (&str, &str) = (":status", "200");
    let begun = |length: &[(&str, &str)]| headers(0, &[&[STATUS][..], length].concat());
    let mut all = vec![
        (
            "too short".to_owned(),
            vec![begun(&[("content-length", "9")]), data(END, "abc")],
        ),
        (
            "too short, with trailers".to_owned(),
            vec![
                begun(&[("content-length", "9")]),
                data(0, "abc"),
                headers(END, &[("x", "y")]),
            ],
        ),
        (
            "too long".to_owned(),
            vec![
                begun(&[("content-length", "3")]),
                data(0, "abc"),
                data(END, "evil"),
            ],
        ),
        (
            "trailers that do not end".to_owned(),
            vec![
                begun(&[]),
                data(0, "abc"),
                headers(0, &[("x", "y")]),
                data(END, "evil"),
            ],
        ),
        (
            "a second head".to_owned(),
            vec![begun(&[]), data(0, "abc"), headers(END, &[STATUS])],
        ),
        (
            "padding beyond the frame".to_owned(),
            vec![begun(&[]), data(0, "abc"), (DATA, END | PADDED, vec![5, b'e'])],
        ),
        (
            "a reset".to_owned(),
            vec![begun(&[]), data(0, "abc"), (RST_STREAM, 0, vec![0; 4])],
        ),
    ];
    for trailer in MALFORMED {
        let frames = vec![begun(&[]), data(0, "abc"), headers(END, &[("x", "y"), trailer])];
        all.push((format!("trailer {trailer:?}"), frames));
    }
    all
}

/// An upstream whose answer to a request for `/api/N` is that of case N.
pub(crate) fn answering(cases: &[(String, Vec<Frame>)]) -> Recorder {
    let frames: Vec<Vec<Frame>> = cases.iter().map(|(_, frames)| frames.clone()).collect();
    Recorder::new(move |heard| {
        let number = heard
            .path()
            .strip_prefix("/api/")
            .and_then(|text| text.parse().ok());
        match number.and_then(|number: usize| frames.get(number)) {
            Some(frames) => frames.clone(),
            None => fine("ok"),
        }
    })
}

fn malformed_responses_are_502(strategy: Strategy) {
    let tree = Tree::new();
    let cases = malformed_responses();
    let upstream = answering(&cases);
    let server = launch(strategy, &tree, &upstream.url);
    for (number, (why, _)) in cases.iter().enumerate() {
        let mut client = frames::connect(&server);
        let got = client.get(&format!("/api/{number}"), &[(":method", "POST")]);
        assert_eq!((got.status, got.has_ended), (502, true), "{why}: {got:?}");
        assert!(!got.text().contains("evil"), "{why}: {got:?}");
        assert_eq!(client.get("/api/fine", &[]).text(), "ok", "{why}");
    }
}

fn responses_that_end_badly_do_not_end(strategy: Strategy) {
    let tree = Tree::new();
    let cases = responses_that_end_badly();
    let upstream = answering(&cases);
    let server = launch(strategy, &tree, &upstream.url);
    for (number, (why, _)) in cases.iter().enumerate() {
        let mut client = frames::connect(&server);
        let got = client.get(&format!("/api/{number}"), &[(":method", "POST")]);
        // Its beginning may have been sent, or nothing yet. What exceeds its length arrives when the response is whole.
        let is_told = match got.status {
            200 if why == "too long" => got.text() == "abc",
            200 => got.reset.is_some() && !got.has_ended && "abc".starts_with(&got.text()),
            status => status == 502,
        };
        assert!(is_told, "{why}: {got:?}");
        assert!(got.trailers.is_empty(), "{why}: {got:?}");
        assert_eq!(client.get("/api/fine", &[]).text(), "ok", "{why}");
    }
}

/// Content behind a head that permits none never reaches the client, nor passes for another response.
fn content_where_none_may_be_is_dropped(strategy: Strategy) {
    const EVIL: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    let tree = Tree::new();
    let heads = [("GET", "204"), ("GET", "304"), ("HEAD", "200")];
    let cases = heads.map(|(method, status)| {
        let frames = vec![headers(0, &[(":status", status)]), data(END, EVIL)];
        (format!("{method} {status}"), frames)
    });
    let upstream = answering(&cases);
    let server = launch(strategy, &tree, &upstream.url);
    let mut client = frames::connect(&server);
    for (number, (method, status)) in heads.into_iter().enumerate() {
        let got = client.get(&format!("/api/{number}"), &[(":method", method)]);
        let is_told = [status, "502"].contains(&&*got.status.to_string());
        assert!(
            is_told && !got.text().contains("evil"),
            "{method} {status}: {got:?}"
        );
        let old = server.connect().request(method, &format!("/api/{number}"), &[]);
        let is_told = [status, "502"].contains(&&*old.status.to_string());
        assert!(
            is_told && !old.text().contains("evil"),
            "{method} {status}: {}",
            old.text()
        );
        assert_eq!(client.get("/api/fine", &[]).text(), "ok", "{method} {status}");
    }
}

fn valid_responses_arrive_as_they_are(strategy: Strategy) {
    /// Its name, the method, the frames of the response, and the status and content that arrive.
    type Case = (&'static str, &'static str, Vec<Frame>, (u16, &'static str));
    const STATUS: (&str, &str) = (":status", "200");
    let block = section(&[STATUS, ("x-a", "1")]);
    let cases: [Case; 8] = [
        (
            "no content",
            "GET",
            vec![headers(END, &[(":status", "204"), ("x-a", "1")])],
            (204, ""),
        ),
        (
            "not modified",
            "GET",
            vec![headers(
                END,
                &[(":status", "304"), ("x-a", "1"), ("content-length", "5")],
            )],
            (304, ""),
        ),
        (
            "a head alone",
            "HEAD",
            vec![headers(END, &[STATUS, ("x-a", "1"), ("content-length", "5")])],
            (200, ""),
        ),
        (
            "an interim response",
            "GET",
            vec![
                headers(0, &[(":status", "103"), ("link", "</a>")]),
                headers(0, &[STATUS, ("x-a", "1")]),
                data(END, "abc"),
            ],
            (200, "abc"),
        ),
        (
            "padding and empty frames",
            "GET",
            vec![
                headers(0, &[STATUS, ("x-a", "1"), ("content-length", "3")]),
                data(0, ""),
                (DATA, PADDED, vec![2, b'a', b'b', 0, 0]),
                data(0, "c"),
                data(END, ""),
            ],
            (200, "abc"),
        ),
        (
            "a head in pieces",
            "GET",
            vec![
                (HEADERS, 0, block[..3].to_vec()),
                (CONTINUATION, 0, Vec::new()),
                (CONTINUATION, END_HEADERS, block[3..].to_vec()),
                data(END, "abc"),
            ],
            (200, "abc"),
        ),
        (
            "trailers",
            "GET",
            vec![
                headers(0, &[STATUS, ("x-a", "1")]),
                data(0, "abc"),
                headers(END, &[("sum", "1")]),
            ],
            (200, "abc"),
        ),
        (
            "frames of unknown types",
            "GET",
            vec![
                (0xfa, 0xff, vec![1, 2, 3]),
                headers(0, &[STATUS, ("x-a", "1")]),
                (0xfb, 0, Vec::new()),
                data(END, "abc"),
            ],
            (200, "abc"),
        ),
    ];
    let tree = Tree::new();
    let named: Vec<(String, Vec<Frame>)> = cases
        .iter()
        .map(|(why, _, frames, _)| ((*why).to_owned(), frames.clone()))
        .collect();
    let upstream = answering(&named);
    let server = launch(strategy, &tree, &upstream.url);
    let mut client = frames::connect(&server);
    for (number, (why, method, _, (status, content))) in cases.iter().enumerate() {
        let got = client.get(&format!("/api/{number}"), &[(":method", method)]);
        assert_eq!(
            (got.status, &*got.text(), got.has_ended),
            (*status, *content, true),
            "{why}"
        );
        assert_eq!(
            (got.field("x-a"), got.field("via")),
            (Some("1"), Some("2.0 weir")),
            "{why}"
        );
        let is_told = got
            .field("content-length")
            .is_none_or(|length| length == "5" || length == "3");
        assert!(is_told, "{why}: {got:?}");
        let trailers: &[(String, String)] = match *why {
            "trailers" => &[("sum".to_owned(), "1".to_owned())],
            _ => &[],
        };
        assert_eq!(got.trailers, trailers, "{why}");
        assert_eq!(
            got.hints.len(),
            usize::from(*why == "an interim response"),
            "{why}"
        );
    }
    // One connection carried all of them.
    let connections: Vec<usize> = upstream
        .log
        .lock()
        .expect("no upstream panics")
        .keys()
        .map(|(number, _)| *number)
        .collect();
    assert_eq!(connections, vec![0; cases.len()]);
}

on_strategy!(loops, LOOPS:
    malformed_heads_reach_no_upstream, malformed_ends_are_no_ends_at_the_upstream, valid_requests_arrive_as_they_are,
    malformed_responses_are_502, responses_that_end_badly_do_not_end, content_where_none_may_be_is_dropped,
    valid_responses_arrive_as_they_are);
on_strategy!(loops_uring, LOOPS_URING: malformed_heads_reach_no_upstream, malformed_responses_are_502);
