//! Parses one head repeatedly, to measure the instructions of one parse.
//!
//! `parse small|browser|response [COUNT]`: run it with two counts under `valgrind --tool=callgrind` and
//! divide the difference of the instruction totals by the difference of the counts.

use http_semantics::method::Method;
use http1::slots::Slots;
use http1::{Limits, client, server};
use std::hint::black_box;

const SMALL: &[u8] = b"GET /1k.html HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

const BROWSER: &[u8] = b"GET /assets/styles/main.css?v=1729 HTTP/1.1\r\nHost: www.example.org\r\n\
Connection: keep-alive\r\nsec-ch-ua: \"Chromium\";v=\"130\", \"Not?A_Brand\";v=\"99\"\r\n\
sec-ch-ua-mobile: ?0\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 \
(KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36\r\nsec-ch-ua-platform: \"Linux\"\r\n\
Accept: text/css,*/*;q=0.1\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: no-cors\r\n\
Sec-Fetch-Dest: style\r\nReferer: http://www.example.org/index.html\r\n\
Accept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en-US,en;q=0.9\r\n\r\n";

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nServer: weir\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
Content-Type: text/html\r\nContent-Length: 0\r\nETag: \"5f3c-1a2b\"\r\n\
Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nAccept-Ranges: bytes\r\n\r\n";

fn main() {
    let mut arguments = std::env::args().skip(1);
    let which = arguments.next().unwrap_or_default();
    let count: u64 = arguments
        .next()
        .map_or(1_000, |n| n.parse().expect("COUNT is a number"));
    let bytes: usize = match which.as_str() {
        "small" => (0..count).map(|_| serve(SMALL)).sum(),
        "browser" => (0..count).map(|_| serve(BROWSER)).sum(),
        "response" => (0..count).map(|_| fetch(RESPONSE)).sum(),
        _ => {
            println!("usage: parse small|browser|response [COUNT]");
            return;
        }
    };
    println!("{which}: {count} heads, {bytes} bytes");
}

#[inline(never)]
fn serve(input: &[u8]) -> usize {
    let mut connection = server::Connection::new();
    let mut slots = Slots::new();
    match connection.receive(black_box(input), &mut slots, &Limits::DEFAULT) {
        Ok(server::Step::Request { head, used }) => {
            black_box(head.target.path());
            let persistence = connection.begin_response(head.persistent);
            black_box(persistence.is_ok_and(server::Persistence::persists));
            black_box(connection.end_response().is_ok());
            used
        }
        other => panic!("the head is sound: {other:?}"),
    }
}

#[inline(never)]
fn fetch(input: &[u8]) -> usize {
    let mut connection = client::Connection::new();
    let mut slots = Slots::new();
    connection
        .begin_request(Method::Get, true, &Limits::DEFAULT)
        .and_then(|()| connection.end_request())
        .expect("a new connection takes a request");
    match connection.receive(black_box(input), &mut slots, &Limits::DEFAULT) {
        Ok(client::Step::Response { head, used }) => {
            black_box(head.framing);
            used
        }
        other => panic!("the head is sound: {other:?}"),
    }
}
