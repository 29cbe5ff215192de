//! Work that is done again and again on a thread of its own, and a short exchange with an upstream that blocks it.
//!
//! A round begins one interval after the one before has ended, so slow rounds never pile up. What the work is, only the
//! caller knows.

mod connection;

pub use connection::Connection;

use crate::clock;
use crate::peer::Upstream;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use units::{Duration, Instant};

/// A thread that works in rounds until this is dropped. Nothing waits for its last round.
pub struct Rounds {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    is_closed: Mutex<bool>,
    closed: Condvar,
}

impl Rounds {
    /// Starts the thread; its first round begins at once. If `work` panics, only that round is lost.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(name: &str, interval: Duration, work: impl Fn() + Send + 'static) -> io::Result<Rounds> {
        let shared = Arc::new(Shared::default());
        let rounds = Rounds {
            shared: Arc::clone(&shared),
        };
        std::thread::Builder::new().name(name.into()).spawn(move || {
            loop {
                // The panic hook has reported the panic.
                let _ = catch_unwind(AssertUnwindSafe(&work));
                let closed = shared.is_closed.lock().unwrap_or_else(PoisonError::into_inner);
                let waited = shared
                    .closed
                    .wait_timeout_while(closed, interval, |closed| !*closed);
                if *waited.unwrap_or_else(PoisonError::into_inner).0 {
                    return;
                }
            }
        })?;
        Ok(rounds)
    }
}

impl Drop for Rounds {
    fn drop(&mut self) {
        *self
            .shared
            .is_closed
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.closed.notify_one();
    }
}

impl fmt::Debug for Rounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rounds").finish_non_exhaustive()
    }
}

/// What a conversation with an upstream does next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Bytes to send first.
    pub send: Vec<u8>,
    /// Nothing more is to be received.
    pub is_over: bool,
}

/// For [`exchange`]: an answer is enough if it has a line, which is cut at its end or at this length.
pub fn line(line_max: usize) -> impl FnMut(&mut Vec<u8>, bool) -> io::Result<bool> {
    move |line, is_over| {
        let end = line.iter().position(|&byte| byte == b'\n');
        if let Some(end) = end {
            line.truncate(end);
            if line.ends_with(b"\r") {
                line.pop();
            }
        }
        let is_enough = end.is_some() || line.len() >= line_max;
        line.truncate(line_max);
        match is_over && !is_enough {
            true => Err(io::ErrorKind::UnexpectedEof.into()),
            false => Ok(is_enough),
        }
    }
}

/// For [`exchange`]: an answer is all until the upstream closes, and an error if that is more than this.
pub fn whole(bytes_max: usize) -> impl FnMut(&mut Vec<u8>, bool) -> io::Result<bool> {
    move |all, is_over| match all.len() > bytes_max {
        true => Err(io::Error::other("the answer is larger than the limit")),
        false => Ok(is_over),
    }
}

/// Sends bytes to an upstream on a new connection and returns its answer, which ends when `is_enough` says so; and when that
/// was. `is_enough` may cut the answer, and is also told of the end of the connection. Blocks this thread for at most about
/// `patience`.
///
/// # Errors
/// The connection fails, ends before the answer does, `patience` is over, or the error of `is_enough`.
pub fn exchange(
    upstream: &Upstream,
    bytes: &[u8],
    patience: Duration,
    mut is_enough: impl FnMut(&mut Vec<u8>, bool) -> io::Result<bool>,
) -> (io::Result<Vec<u8>>, Instant) {
    let mut answer = Vec::new();
    let mut request = Some(bytes.to_vec());
    let (ended, now) = talk(upstream, patience, |got, is_over| {
        answer.extend_from_slice(got);
        Ok(Turn {
            send: request.take().unwrap_or_default(),
            is_over: is_enough(&mut answer, is_over)?,
        })
    });
    (ended.map(|()| answer), now)
}

/// Talks to an upstream on a new connection: `turn` gets what was received, nothing at first, and whether the connection has
/// ended. Returns when it was over, too. Blocks this thread for at most about `patience`.
///
/// # Errors
/// The connection fails, ends before the conversation does, `patience` is over, or the error of `turn`.
pub fn talk(
    upstream: &Upstream,
    patience: Duration,
    turn: impl FnMut(&[u8], bool) -> io::Result<Turn>,
) -> (io::Result<()>, Instant) {
    let until = clock::now() + patience;
    let talked = Connection::open(upstream, until).and_then(|mut connection| connection.talk(until, turn));
    (talked, clock::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::mpsc;

    #[test]
    fn rounds_go_on_until_their_owner_is_gone() {
        let (done, rounds_done) = mpsc::channel();
        let work = move || {
            // Nobody listens any more after the drop below.
            let _ = done.send(());
            assert!(!std::thread::panicking());
        };
        let rounds = Rounds::start("test", Duration::from_millis(1), work).unwrap();
        for _ in 0..3 {
            rounds_done.recv().unwrap();
        }
        drop(rounds);
        // The thread drops its end of the channel when it ends.
        while rounds_done.recv().is_ok() {}
    }

    #[test]
    fn an_answer_is_its_first_line() {
        for (answer, expected) in [
            (&b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n"[..], Ok("HTTP/1.1 200 OK")),
            (b"0123456789012345678901234", Ok("01234567890123456789")),
            (b"0123", Err(io::ErrorKind::UnexpectedEof)),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let upstream = Upstream::Tcp(listener.local_addr().unwrap());
            let server = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                stream.read_exact(&mut [0; 3]).unwrap();
                stream.write_all(answer).unwrap();
            });
            let (got, _) = exchange(&upstream, b"abc", Duration::from_secs(20), line(20));
            server.join().unwrap();
            let got = got.map(|line| String::from_utf8(line).unwrap());
            assert_eq!(got.map_err(|error| error.kind()), expected.map(str::to_owned));
        }
    }

    #[test]
    fn a_whole_answer_is_all_until_the_end() {
        for (bytes_max, expected) in [(100_000, Ok(100_000)), (99_999, Err(io::ErrorKind::Other))] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let upstream = Upstream::Tcp(listener.local_addr().unwrap());
            let server = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                stream.read_exact(&mut [0; 3]).unwrap();
                // The other end may have had enough.
                let _ = stream.write_all(&vec![b'\n'; 100_000]);
            });
            let (got, _) = exchange(&upstream, b"abc", Duration::from_secs(20), whole(bytes_max));
            server.join().unwrap();
            assert_eq!(got.map(|all| all.len()).map_err(|error| error.kind()), expected);
        }
    }

    #[test]
    fn silence_ends_with_the_patience() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let upstream = Upstream::Tcp(listener.local_addr().unwrap());
        let began = clock::now();
        let (got, ended) = exchange(&upstream, b"abc", Duration::from_millis(30), line(20));
        assert!(ended - began >= Duration::from_millis(30));
        assert_eq!(got.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
