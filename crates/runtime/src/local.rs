//! A service of this process for sessions of this process: what must block gets threads of its own, behind a socket that
//! sessions dial as they dial any peer ([`Upstream::Local`]).
//!
//! ```text
//!   session ── Ask::Dial(Local) ──▶ abstract UNIX socket ──▶ accept ──▶ a thread for the connection
//!                                                              └─ from another process: closed
//! ```
//! So bodies are streamed with back-pressure by what streams them to every other peer, and no event loop waits for a
//! disk. The socket has no file, whoever asks for it needs no rights, and its name is of no use to others: the kernel
//! tells which process connects (`SO_PEERCRED`, unix(7)). What is said over a connection is not known here.

use crate::peer::Upstream;
use rustix::net::sockopt;
use std::fmt;
use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use units::Duration;

/// Time without a byte in or out after which a connection is given up. Sessions have timeouts of their own, which are
/// shorter.
const PATIENCE: Duration = Duration::from_secs(600);

/// Connections that wait to be accepted (listen(2)).
const QUEUE_MAX: i32 = 128;

/// Time for the other end to close after the last byte.
const LINGER: Duration = Duration::from_secs(5);

/// A connection of a session to the service.
#[derive(Debug)]
pub struct LocalStream(UnixStream);

impl Read for LocalStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for LocalStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LocalStream {
    /// Says that nothing follows, and waits until the other end has closed: closing with unread input would take the last
    /// bytes back.
    fn end(&mut self) -> io::Result<()> {
        self.0.shutdown(std::net::Shutdown::Write)?;
        self.0.set_read_timeout(Some(LINGER))?;
        let mut rest = [0; 16 << 10];
        while self.0.read(&mut rest)? > 0 {}
        Ok(())
    }
}

/// Serves a connection. Returning ends it.
type Serve = dyn Fn(&mut LocalStream) + Send + Sync;

/// A service. Once it is dropped, it accepts no connections any more; those that are open go on.
pub struct Local {
    shared: Arc<Shared>,
    upstream: Arc<Upstream>,
    /// `Err`: the system had no thread.
    accepting: OnceLock<Result<(), ()>>,
}

/// What the thread that accepts needs. The socket is closed with it, and connections in its queue are reset.
struct Shared {
    what: &'static str,
    listener: UnixListener,
    gate: Arc<Gate>,
}

/// What each connection needs.
struct Gate {
    threads_max: usize,
    serve: Box<Serve>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    threads: usize,
    /// Most threads at a time.
    peak: usize,
    is_closed: bool,
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local")
            .field("upstream", &self.upstream)
            .finish_non_exhaustive()
    }
}

impl Local {
    /// A service for `what`, a word, with this many connections at a time. Others wait in the socket's queue,
    /// 128 of them (listen(2)). None is accepted before [`Local::awaken`].
    ///
    /// # Errors
    /// Of the system.
    pub fn bind(
        what: &'static str,
        threads_max: usize,
        serve: impl Fn(&mut LocalStream) + Send + Sync + 'static,
    ) -> io::Result<Local> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-{what}-{}-{number}", std::process::id());
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        rustix::net::listen(&listener, QUEUE_MAX)?;
        Ok(Local {
            shared: Arc::new(Shared {
                what,
                listener,
                gate: Arc::new(Gate {
                    threads_max: threads_max.max(1),
                    serve: Box::new(serve),
                    state: Mutex::default(),
                    changed: Condvar::new(),
                }),
            }),
            upstream: Arc::new(Upstream::Local(name.into())),
            accepting: OnceLock::new(),
        })
    }

    /// Where sessions dial it.
    pub fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
    }

    /// Accepts connections from now on, if that has not begun. A process calls this once it does not fork any more.
    pub fn awaken(&self) {
        let _ = self.accepting.get_or_init(|| {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name(format!("weir-{}", shared.what));
            let started = thread.spawn(move || accept(&shared));
            started.map(drop).map_err(|error| {
                tracing::error!(
                    "{}: no thread: {error}; raise the limit on threads",
                    self.shared.what
                );
            })
        });
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.shared.gate.lock().is_closed = true;
        self.shared.gate.changed.notify_all();
        // Wakes the thread that accepts, and refuses further connections. It fails only for what is no socket.
        let _ = rustix::net::shutdown(&self.shared.listener, rustix::net::Shutdown::Both);
    }
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until another connection may be served. `false`: the service is closed.
    fn take_place(&self) -> bool {
        let mut state = self.lock();
        while state.threads == self.threads_max && !state.is_closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_closed {
            return false;
        }
        state.threads += 1;
        state.peak = state.peak.max(state.threads);
        true
    }
}

/// The place of a connection that is served.
struct Place(Arc<Gate>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.lock().threads -= 1;
        self.0.changed.notify_all();
    }
}

/// Accepts connections until the service is closed.
fn accept(shared: &Arc<Shared>) {
    while shared.gate.take_place() {
        let place = Place(Arc::clone(&shared.gate));
        let accepted = shared.listener.accept();
        if shared.gate.lock().is_closed {
            return;
        }
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Without descriptors, the connection stays in the queue, and asking again at once would only burn time.
                tracing::warn!("{}: no connection accepted: {error}", shared.what);
                drop(place);
                crate::clock::pause(Duration::from_millis(100));
                continue;
            }
        };
        if !is_of_this_process(&stream) {
            tracing::warn!("{}: closed a connection of another process", shared.what);
            continue;
        }
        let thread = std::thread::Builder::new().name(format!("weir-{}", shared.what));
        let started = thread.spawn(move || {
            let mut stream = LocalStream(stream);
            let timeouts = stream
                .0
                .set_read_timeout(Some(PATIENCE))
                .and_then(|()| stream.0.set_write_timeout(Some(PATIENCE)));
            if timeouts.is_ok() {
                (place.0.serve)(&mut stream);
                // Whoever is gone reads no more.
                let _ = stream.end();
            }
        });
        if let Err(error) = started {
            // The connection is closed, which the session answers with an error.
            tracing::warn!("{}: no thread: {error}; raise the limit on threads", shared.what);
        }
    }
}

fn is_of_this_process(stream: &UnixStream) -> bool {
    sockopt::socket_peercred(stream)
        .is_ok_and(|who| who.pid.as_raw_nonzero().get().cast_unsigned() == std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::PeerLoss;
    use std::process::Command;
    use std::sync::mpsc;

    fn connect(local: &Local) -> UnixStream {
        UnixStream::connect_addr(&local.shared.listener.local_addr().unwrap()).unwrap()
    }

    #[test]
    fn connections_are_served_up_to_the_bound_and_the_others_wait() {
        let (told, heard) = mpsc::channel();
        let local = Local::bind("test", 2, move |stream| {
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            told.send(all.clone()).unwrap();
            stream.write_all(&all).unwrap();
        })
        .unwrap();
        let mut streams: Vec<UnixStream> = (0..3).map(|_| connect(&local)).collect();
        local.awaken();
        local.awaken();
        for (number, stream) in streams.iter_mut().enumerate() {
            stream.write_all(format!("{number}").as_bytes()).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
        }
        for (number, stream) in streams.iter_mut().enumerate() {
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert_eq!(answer, number.to_string());
        }
        let mut all: Vec<Vec<u8>> = heard.iter().take(3).collect();
        all.sort();
        assert_eq!(all, [b"0", b"1", b"2"]);
        assert!(local.shared.gate.lock().peak <= 2);
        let address = local.shared.listener.local_addr().unwrap();
        let shared = Arc::downgrade(&local.shared);
        drop(local);
        // Its thread lets the socket go.
        while shared.strong_count() > 0 {
            std::thread::yield_now();
        }
        assert!(UnixStream::connect_addr(&address).is_err());
    }

    #[test]
    fn the_queue_has_a_bound() {
        let local = Local::bind("test", 1, |_| {}).unwrap();
        let mut waiting = Vec::new();
        let refused = loop {
            match crate::io::open(local.upstream()) {
                Ok(fd) => waiting.push(fd),
                Err(loss) => break loss,
            }
        };
        // Linux admits one more than listen(2) says.
        assert_eq!(
            (waiting.len(), refused),
            (QUEUE_MAX as usize + 1, PeerLoss::Opening(libc::EAGAIN))
        );
    }

    #[test]
    fn other_processes_are_not_served() {
        let local = Local::bind("test", 2, |stream| {
            let _ = stream.write_all(b"secret");
        })
        .unwrap();
        local.awaken();
        let Upstream::Local(name) = &**local.upstream() else {
            panic!("not local");
        };
        let program = format!(
            "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('\\0{name}')\nprint(s.recv(9))"
        );
        match Command::new("python3").args(["-c", &program]).output() {
            Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "b''"),
            Err(error) => println!("skipped: python3: {error}"),
        }
        let mut answer = String::new();
        connect(&local).read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "secret");
    }
}
