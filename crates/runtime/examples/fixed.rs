//! Answers every request with the same kibibyte and parses nothing: what a driver costs by itself.
//!
//! `cargo run --release -p runtime --example fixed -- 127.0.0.1:8090`

use measure::{Duration, Instant, UnixTime};
use runtime::concurrency::{Limits, loops};
use runtime::{Action, Context, Event, Job, Service, Session, Tx};
use std::net::SocketAddr;
use std::sync::Arc;

struct Fixed;
struct Cx;
enum Nothing {}
struct Conn {
    writing: bool,
    closing: bool,
}

impl Job for Nothing {
    type Output = ();
    fn try_now(self) -> Result<(), Self> {
        match self {}
    }
    fn run(self) {
        match self {}
    }
}

impl Context for Cx {
    type Job = Nothing;
    fn turn(&mut self, _: Instant, _: UnixTime) {}
    fn wake(&self) -> Option<Instant> {
        None
    }
}

impl Session for Conn {
    type Cx = Cx;
    fn handle(&mut self, _: &mut Cx, event: Event<'_, Nothing>, tx: &mut Tx, _: Instant) {
        match event {
            Event::Bytes(bytes) => {
                for _ in bytes.windows(4).filter(|w| w == b"\r\n\r\n") {
                    tx.head
                        .extend_from_slice(b"HTTP/1.1 200 OK\r\nContent-Length: 1024\r\n\r\n");
                    tx.head.resize(tx.head.len() + 1024, b'x');
                }
                self.writing = true;
            }
            Event::Sent => self.writing = false,
            Event::Eof | Event::Drain => self.closing = true,
            _ => {}
        }
    }
    fn poll(&mut self, _: &mut Cx, _: &mut Tx, _: Instant) -> Action<Nothing> {
        match (self.writing, self.closing) {
            (true, _) => Action::Write,
            (false, true) => Action::Close,
            (false, false) => Action::Read,
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
        Cx
    }
    fn accept(&self, _: &mut Cx, _: SocketAddr, _: Instant) -> Option<Conn> {
        Some(Conn {
            writing: false,
            closing: false,
        })
    }
    fn grace(&self) -> Duration {
        Duration::from_secs(1)
    }
}

fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8090".into());
    let listener = std::net::TcpListener::bind(&address)?;
    listener.set_nonblocking(true)?;
    rustix::net::sockopt::set_tcp_nodelay(&listener, true)?;
    rustix::net::listen(&listener, 4096)?;
    println!("http://{address}");
    let listener: Arc<std::os::fd::OwnedFd> = Arc::new(listener.into());
    loops::start(&Arc::new(Fixed), vec![vec![listener]], Limits::default())?.join()
}
