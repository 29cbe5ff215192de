//! Answers every request with the same kibibyte and parses nothing: the cost of a driver alone.
//!
//! `cargo run --profile dist -p runtime --example fixed -- 127.0.0.1:8090 [close|keep] [loop|pool]`

use runtime::listen::{Listener, Listening};
use runtime::shaping::Withheld;
use runtime::strategy::{Concurrency, Io, Limits, Strategy, serve};
use runtime::{Accepted, Action, Context, Event, Line, NoJob, Service, Session, Tx};
use std::num::NonZeroUsize;
use std::sync::Arc;
use units::{Duration, Instant, UnixTime};

/// The response, and whether the connection ends with it.
struct Fixed {
    answer: Vec<u8>,
    close_each: bool,
}
struct Cx {
    blank_line: memchr::memmem::Finder<'static>,
    answer: Vec<u8>,
    close_each: bool,
}
enum Conn {
    Reading,
    Sending,
    Ending,
}

impl Context for Cx {
    type Job = NoJob;
    fn turn(&mut self, _: Instant, _: UnixTime) {}
    fn wake(&self) -> Option<Instant> {
        None
    }
    fn has_new_bounds(&mut self) -> bool {
        false
    }
    fn is_timed(&self) -> bool {
        false
    }
    fn wants_path(&self) -> bool {
        false
    }
    fn withheld(&mut self, _: Withheld) {}
    fn line_patience(&self) -> Duration {
        Duration::MAX
    }
    fn rest(&mut self, _: Instant, _: Line) {}
}

impl Session for Conn {
    type Cx = Cx;

    #[inline]
    fn handle(&mut self, cx: &mut Cx, event: Event<'_, NoJob>, tx: &mut Tx, _: Instant) {
        match event {
            Event::Bytes(bytes) => {
                let mut rest = bytes;
                // A blank line split in two is missed: load generators send whole requests.
                while let Some(end) = cx.blank_line.find(rest) {
                    tx.head.extend_from_slice(&cx.answer);
                    rest = &rest[end + 4..];
                }
                if !tx.head.is_empty() {
                    *self = Conn::Sending;
                }
            }
            Event::Sent if cx.close_each => *self = Conn::Ending,
            Event::Sent => *self = Conn::Reading,
            Event::Eof | Event::Drain => *self = Conn::Ending,
            _ => {}
        }
    }

    #[inline]
    fn poll(&mut self, _: &mut Cx, tx: &mut Tx, _: Instant) -> Action<NoJob> {
        match self {
            Conn::Reading => Action::Read,
            Conn::Sending if tx.is_empty() => Action::Stay,
            Conn::Sending => Action::Write,
            Conn::Ending => Action::Close,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn closed(&mut self, _: &mut Cx, _: Instant) {}
}

impl Service for Fixed {
    type Session = Conn;

    fn context(&self, _: usize) -> Cx {
        Cx {
            blank_line: memchr::memmem::Finder::new(b"\r\n\r\n"),
            answer: self.answer.clone(),
            close_each: self.close_each,
        }
    }

    fn accept(&self, _: &mut Cx, _: &Accepted, _: Instant) -> Option<Conn> {
        Some(Conn::Reading)
    }

    fn grace(&self) -> Duration {
        Duration::from_secs(1)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let address = words.next().unwrap_or_else(|| "127.0.0.1:8090".into());
    let close_each = words.next().as_deref() == Some("close");
    let strategy = match words.next().as_deref() {
        Some("pool") => Strategy::new(
            Concurrency::Pool,
            Io::Blocking,
            NonZeroUsize::MIN.saturating_add(63),
        )?,
        _ => Strategy::new(Concurrency::Loop, Io::Epoll, NonZeroUsize::MIN)?,
    };
    runtime::machine::raise_descriptor_limit();
    let listener = Listener::bind(address.parse()?, Listening::default())?;
    println!("http://{}", listener.address());
    let connection = if close_each { "close" } else { "keep-alive" };
    // The header fields, and about the length, of typical servers.
    let head = format!(
        "HTTP/1.1 200 OK\r\nServer: fixed\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
         Content-Type: text/html\r\nContent-Length: 1024\r\n\
         Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\nConnection: {connection}\r\n\
         ETag: \"00000000-400\"\r\nAccept-Ranges: bytes\r\n\r\n"
    );
    let answer = [head.as_bytes(), &[b'x'; 1024]].concat();
    let service = Arc::new(Fixed { answer, close_each });
    serve(strategy, &[listener], &service, Limits::default())?.join()?;
    Ok(())
}
