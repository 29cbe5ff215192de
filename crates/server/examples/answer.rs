//! Answers one cached request over and over, without socket or clock: the cost of parsing, lookup, response and log.
//! Meant for an instruction counter:
//!
//! ```text
//! cargo build --profile dist -p server --example answer
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null target/dist/examples/answer plain 100000
//! ```
//!
//! The difference between two runs of different length is the cost of a turn; `benches/instructions` computes it.
//! `browser` has a request head of 560 bytes, `pipelined` has 16 requests per turn.

use runtime::session::{Job as _, Ticket};
use runtime::{Accepted, Action, Context as _, Event, Service as _, Session as _, Tx};
use server::config::Config;
use server::site::Source;
use server::{LogSink, Server};
use std::sync::Arc;
use units::{Instant, Seed, UnixTime};

static PAGE: [u8; 1024] = [b'x'; 1024];
static FILES: [(&str, &[u8]); 1] = [("/1k.bin", &PAGE)];

const PLAIN: &str = "GET /1k.bin HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";
const BROWSER: &str = "GET /1k.bin HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nConnection: keep-alive\r\n\
    Cache-Control: max-age=0\r\nsec-ch-ua: \"Chromium\";v=\"142\", \"Not_A Brand\";v=\"99\"\r\n\
    sec-ch-ua-mobile: ?0\r\nsec-ch-ua-platform: \"Linux\"\r\nUpgrade-Insecure-Requests: 1\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 \
    Safari/537.36\r\nAccept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8\r\nSec-Fetch-Site: none\r\n\
    Sec-Fetch-Mode: navigate\r\nAccept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en\r\n\r\n";
const MISSING: &str = "GET /nothing HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

/// A log that drops its lines.
#[derive(Debug)]
struct Nowhere;

impl LogSink for Nowhere {
    fn write(&self, mut lines: Vec<u8>, _now: Instant) -> (Vec<u8>, u64) {
        lines.clear();
        (lines, 0)
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().unwrap_or_default();
    let count: u64 = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let input = match kind.as_str() {
        "plain" | "log" => PLAIN.to_owned(),
        "browser" => BROWSER.to_owned(),
        "missing" => MISSING.to_owned(),
        "pipelined" => PLAIN.repeat(16),
        _ => return println!("usage: answer plain|log|browser|pipelined|missing [COUNT]"),
    };
    let sink: Option<Arc<dyn LogSink>> = (kind == "log").then(|| Arc::new(Nowhere) as _);
    let source = Source::Embedded {
        files: &FILES,
        modified: UnixTime::from_secs(784_111_777),
    };
    let server = match Server::open(Config::default(), source, sink, Seed(1)) {
        Ok(server) => server,
        Err(error) => return eprintln!("{error}"),
    };
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut cx = server.context(0);
    cx.turn(now, UnixTime::from_secs(1_000_000_000));
    let peer = Accepted::at_first("127.0.0.1:4711".parse().expect("an address"));
    let Some(mut session) = server.accept(&mut cx, &peer, now) else {
        return eprintln!("refused");
    };
    let mut tx = Tx::default();
    let mut bytes = 0;
    for turn in 0..count {
        now = now + units::Duration::from_micros(7);
        if turn % 64 == 0 {
            // As in an event loop with many ready connections.
            cx.turn(now, UnixTime::from_secs(1_000_000_000));
        }
        session.handle(&mut cx, Event::Bytes(input.as_bytes()), &mut tx, now);
        loop {
            match session.poll(&mut cx, &mut tx, now) {
                Action::Read => break,
                Action::Write => {
                    bytes += tx.head.len();
                    tx.clear();
                    session.handle(&mut cx, Event::Sent, &mut tx, now);
                }
                Action::Wait(job) => {
                    let output = job.run();
                    session.handle(&mut cx, Event::Done(Ticket::ONLY, output), &mut tx, now);
                }
                action => return eprintln!("the session wants {action:?}"),
            }
        }
    }
    println!("{count} turns, {bytes} bytes");
    session.closed(&mut cx, now);
}
