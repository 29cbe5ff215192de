//! A connection to an upstream that blocks the thread which uses it, for one conversation after another.
//!
//! ```text
//!   open ─▶ talk ─▶ idle ─┬─ talk
//!                         └─ arrived: what came meanwhile
//! ```
//! Decides how long a thread may wait. What is said, and whether a connection is kept for another conversation, only the
//! caller knows.

use super::Turn;
use crate::clock;
use crate::peer::Upstream;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use units::{Duration, Instant};

/// Most bytes that may arrive between two conversations: session tickets of TLS and frames of HTTP/2, for example.
const BETWEEN_MAX: usize = 64 << 10;

/// An open connection; closed when dropped.
#[derive(Debug)]
pub struct Connection(Stream);

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Connection {
    /// Connects, and blocks this thread until then at most. A Unix socket whose queue is full blocks it longer.
    ///
    /// # Errors
    /// The connection is refused, or the time is over.
    pub fn open(upstream: &Upstream, until: Instant) -> io::Result<Connection> {
        let stream = match upstream {
            Upstream::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, left(until)?)?;
                // A request must not wait for the acknowledgment of the bytes before it.
                stream.set_nodelay(true)?;
                Stream::Tcp(stream)
            }
            Upstream::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
            Upstream::Local(name) => {
                let address = SocketAddr::from_abstract_name(&**name)?;
                Stream::Unix(UnixStream::connect_addr(&address)?)
            }
        };
        Ok(Connection(stream))
    }

    /// Talks: `turn` gets what was received, nothing at first, and whether the connection has ended. Blocks this thread
    /// until then at most. The bytes of the last turn, the one that is over, are not sent.
    ///
    /// # Errors
    /// The connection fails, ends before the conversation does, the time is over, or the error of `turn`.
    pub fn talk(
        &mut self,
        until: Instant,
        mut turn: impl FnMut(&[u8], bool) -> io::Result<Turn>,
    ) -> io::Result<()> {
        let mut part = [0; 4 << 10];
        let (mut got, mut has_ended) = (0, false);
        loop {
            let Turn { send, is_over } = turn(&part[..got], has_ended)?;
            if is_over {
                return Ok(());
            }
            if has_ended {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.send(&send, until)?;
            got = loop {
                self.0.bound(left(until)?)?;
                match self.0.read(&mut part) {
                    Ok(got) => break got,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    Err(error) => return Err(error),
                }
            };
            has_ended = got == 0;
        }
    }

    /// Sends bytes, and blocks this thread until then at most.
    ///
    /// # Errors
    /// The connection fails, or the time is over.
    pub fn send(&mut self, bytes: &[u8], until: Instant) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.0.bound(left(until)?)?;
        self.0.write_all(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
            _ => error,
        })
    }

    /// Takes what arrived since the last conversation, without waiting for more.
    ///
    /// # Errors
    /// The connection has ended, or more than 64 KiB arrived. It is of no use then.
    pub fn arrived(&mut self) -> io::Result<Vec<u8>> {
        self.0.set_nonblocking(true)?;
        let mut all = Vec::new();
        let mut part = [0; 4 << 10];
        loop {
            match self.0.read(&mut part) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(got) => all.extend_from_slice(&part[..got]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
            if all.len() > BETWEEN_MAX {
                return Err(io::Error::other(
                    "more than 64 KiB arrived between two conversations",
                ));
            }
        }
        self.0.set_nonblocking(false)?;
        Ok(all)
    }
}

/// Time until then.
///
/// # Errors
/// There is none.
fn left(until: Instant) -> io::Result<Duration> {
    match until.since(clock::now()) {
        Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
        left => Ok(left),
    }
}

impl Stream {
    /// Bounds the next read and write.
    fn bound(&self, left: Duration) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => {
                stream.set_write_timeout(Some(left))?;
                stream.set_read_timeout(Some(left))
            }
            Stream::Unix(stream) => {
                stream.set_write_timeout(Some(left))?;
                stream.set_read_timeout(Some(left))
            }
        }
    }

    fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_nonblocking(is_nonblocking),
            Stream::Unix(stream) => stream.set_nonblocking(is_nonblocking),
        }
    }

    fn read(&mut self, part: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(part),
            Stream::Unix(stream) => stream.read(part),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.write_all(bytes),
            Stream::Unix(stream) => stream.write_all(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// Sends one byte and receives one.
    fn swap(connection: &mut Connection, byte: u8) -> io::Result<u8> {
        let mut received = None;
        connection.talk(clock::now() + PATIENCE, |got, _| {
            let is_first = received.is_none() && got.is_empty();
            received = received.or(got.first().copied());
            Ok(Turn {
                send: if is_first { vec![byte] } else { Vec::new() },
                is_over: received.is_some(),
            })
        })?;
        received.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    #[test]
    fn a_connection_has_several_conversations() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let upstream = Upstream::Tcp(listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut byte = [0];
            while stream.read(&mut byte).unwrap() == 1 {
                stream.write_all(&[byte[0] + 1]).unwrap();
            }
        });
        let mut connection = Connection::open(&upstream, clock::now() + PATIENCE).unwrap();
        for byte in 0..3 {
            assert_eq!(swap(&mut connection, byte).unwrap(), byte + 1);
            assert_eq!(connection.arrived().unwrap(), b"", "nothing comes unasked");
        }
        drop(connection);
        server.join().unwrap();
    }

    #[test]
    fn what_arrives_meanwhile_is_bounded_and_its_end_is_seen() {
        let pair = || {
            // What one end has written, the other one can read at once.
            let (near, far) = UnixStream::pair().unwrap();
            (Connection(Stream::Unix(near)), far)
        };
        let (mut connection, mut far) = pair();
        assert_eq!(connection.arrived().unwrap(), b"");
        far.write_all(&[7; BETWEEN_MAX]).unwrap();
        assert_eq!(connection.arrived().unwrap(), [7; BETWEEN_MAX]);
        drop(far);
        let error = connection.arrived().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        let (mut connection, mut far) = pair();
        far.write_all(&[7; BETWEEN_MAX + 1]).unwrap();
        let error = connection.arrived().unwrap_err();
        assert!(error.to_string().contains("more than 64 KiB"), "{error}");
    }

    #[test]
    fn an_end_of_time_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let upstream = Upstream::Tcp(listener.local_addr().unwrap());
        let now = clock::now();
        let error = Connection::open(&upstream, now).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let mut connection = Connection::open(&upstream, now + PATIENCE).unwrap();
        let error = connection.send(b"a", now).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
