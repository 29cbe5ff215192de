//! Connections to a server for exchanges that block their thread, kept for the next exchange: those of forward
//! authentication.
//!
//! ```text
//!   open ─▶ exchange ─▶ Pool::put ─┬─ Pool::take ─▶ exchange
//!             (Direct)             ├─ its time is over, or the server closes it: Pool::sweep
//!                                  └─ descriptors or memory run short: Pool::try_close_all
//! ```
//! Decides which connections may carry another exchange, and closes them in time. How many are kept, and for how long, the
//! caller says for each place; what a response means, and whether something follows it, only the caller knows. The
//! connections of `[[proxy]]` belong to event loops instead.

use super::channel::Channel;
use super::places::Place;
use runtime::clock;
use runtime::machine::is_out_of_descriptors;
use runtime::rounds::{Connection, Rounds, Turn};
use runtime::session::Upstream;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use units::{Duration, Instant};

/// Which idle connections to a place are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keeping {
    /// Most of them at a time.
    pub(crate) most: usize,
    /// Time for which each is kept.
    pub(crate) time: Duration,
}

/// Time between two looks at all idle connections.
const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// Time for sending what a layer has to say between two exchanges. Its few bytes fit into an empty send buffer.
const FLUSH: Duration = Duration::from_millis(50);

/// Open connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gauge(Arc<AtomicU64>);

impl Gauge {
    /// Their number.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn enter(&self) -> Counted {
        self.0.fetch_add(1, Ordering::Relaxed);
        Counted(self.clone())
    }
}

/// One of them.
#[derive(Debug)]
struct Counted(Gauge);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An open connection to an address of a place.
#[derive(Debug)]
pub(crate) struct Direct {
    /// Dropped first: whoever sees the end of the connection finds it no longer counted.
    _counted: Counted,
    connection: Connection,
    channel: Option<Channel>,
    place: Arc<Place>,
    to: Arc<Upstream>,
    keeping: Keeping,
    /// The response so far, in HTTP/1.1.
    text: Vec<u8>,
    /// When it became idle.
    since: Instant,
}

impl Direct {
    /// Connects, and blocks this thread until then at most. Between exchanges, the connection is kept as `keeping` says.
    ///
    /// # Errors
    /// The connection is refused, the time is over, or why its TLS cannot begin.
    fn open(
        place: &Arc<Place>,
        to: &Arc<Upstream>,
        keeping: Keeping,
        gauge: &Gauge,
        until: Instant,
    ) -> io::Result<Direct> {
        let connection = Connection::open(to, until)?;
        let now = clock::now();
        let opened = place.layers().map(|layers| layers.open(&[], false, now));
        Ok(Direct {
            _counted: gauge.enter(),
            connection,
            channel: opened.transpose().map_err(io::Error::other)?,
            place: Arc::clone(place),
            to: Arc::clone(to),
            keeping,
            text: Vec::new(),
            since: now,
        })
    }

    /// Sends a request and blocks this thread until `is_enough` says that the response is, at most until then. `is_enough`
    /// gets the whole response so far, in HTTP/1.1, and whether nothing follows. Without a request, what follows the last
    /// response is received.
    ///
    /// # Errors
    /// The connection fails or ends before that, the time is over, or the error of `is_enough`.
    pub(crate) fn exchange(
        &mut self,
        request: &[u8],
        until: Instant,
        mut is_enough: impl FnMut(&[u8], bool) -> io::Result<bool>,
    ) -> io::Result<()> {
        let mut unsent = request;
        let (place, channel, text) = (&self.place, &mut self.channel, &mut self.text);
        self.connection.talk(until, |got, has_ended| {
            let (Some(layers), Some(channel)) = (place.layers(), channel.as_mut()) else {
                text.extend_from_slice(got);
                return Ok(Turn {
                    send: std::mem::take(&mut unsent).to_vec(),
                    is_over: is_enough(text, has_ended)?,
                });
            };
            let has_ended = layers.turn(channel, (got, has_ended), &mut unsent, text)?;
            let is_over = is_enough(text, has_ended)?;
            Ok(Turn {
                // What is not sent now must stay in the channel: no record of TLS may be missing.
                send: if is_over { Vec::new() } else { channel.take() },
                is_over,
            })
        })
    }

    /// Whether nothing of a response has arrived.
    pub(crate) fn is_silent(&self) -> bool {
        self.text.is_empty()
    }

    /// Begins a rest after a complete response. Returns whether another request may follow.
    fn rest(&mut self, now: Instant) -> bool {
        self.text = Vec::new();
        self.since = now;
        let Some(channel) = &mut self.channel else {
            return true;
        };
        if !channel.is_at_rest() {
            return false;
        }
        let unsent = channel.take();
        channel.rest();
        self.connection.send(&unsent, clock::now() + FLUSH).is_ok()
    }

    /// Whether it has been idle for too long.
    fn is_old(&self, now: Instant) -> bool {
        now.since(self.since) >= self.keeping.time
    }

    /// Takes what arrived during a rest. Returns whether another request may follow.
    fn look(&mut self, now: Instant) -> bool {
        let Ok(arrived) = self.connection.arrived() else {
            return false;
        };
        let (Some(layers), Some(channel)) = (self.place.layers(), &mut self.channel) else {
            // Bytes that nobody asked for.
            return arrived.is_empty();
        };
        if arrived.is_empty() {
            return true;
        }
        match layers.receive(channel, &arrived, now) {
            Ok(received) if received.plain.is_empty() && received.over.is_none() => {}
            _ => return false,
        }
        let unsent = channel.take();
        channel.takes_requests() && self.connection.send(&unsent, clock::now() + FLUSH).is_ok()
    }
}

/// Idle connections of a process, the one that has been idle longest first.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    idle: Mutex<Vec<Direct>>,
    /// From the first idle connection on. `None`: the system had no thread.
    sweeper: OnceLock<Option<Rounds>>,
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, Vec<Direct>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects as [`Direct::open`]. If the process has no descriptor left, all idle connections are closed for this one.
    ///
    /// # Errors
    /// Those of [`Direct::open`].
    pub(crate) fn open(
        &self,
        place: &Arc<Place>,
        to: &Arc<Upstream>,
        keeping: Keeping,
        gauge: &Gauge,
        until: Instant,
    ) -> io::Result<Direct> {
        match Direct::open(place, to, keeping, gauge, until) {
            Err(error) if is_out_of_descriptors(&error) && self.close_all() => {
                Direct::open(place, to, keeping, gauge, until)
            }
            opened => opened,
        }
    }

    /// The connection to this address of a place that became idle last, if one can carry another request.
    pub(crate) fn take(&self, place: &Arc<Place>, to: &Upstream, now: Instant) -> Option<Direct> {
        loop {
            let mut direct = {
                let mut idle = self.lock();
                let is_it = |one: &Direct| Arc::ptr_eq(&one.place, place) && *one.to == *to;
                let at = idle.iter().rposition(is_it)?;
                idle.remove(at)
            };
            if !direct.is_old(now) && direct.look(now) {
                return Some(direct);
            }
        }
    }

    /// Keeps a connection after a complete response, if it can carry another request. At the limit of its place, the one that
    /// has been idle longest is closed.
    pub(crate) fn put(self: &Arc<Pool>, mut direct: Direct, now: Instant) {
        let most = direct.keeping.most;
        if most == 0 || !direct.rest(now) {
            return;
        }
        let place = Arc::clone(&direct.place);
        let mut idle = self.lock();
        idle.push(direct);
        let is_same = |one: &Direct| Arc::ptr_eq(&one.place, &place);
        let is_full = idle.iter().filter(|one| is_same(one)).count() > most;
        let excess = idle.iter().position(is_same).filter(|_| is_full);
        // Closed once the lock is free.
        let closed = excess.map(|at| idle.remove(at));
        drop(idle);
        drop(closed);
        self.sweeper.get_or_init(|| {
            let pool = Arc::downgrade(self);
            let started = Rounds::start("weir-auth-idle", SWEEP_EVERY, move || {
                if let Some(pool) = pool.upgrade() {
                    pool.sweep(clock::now());
                }
            });
            let failed = |error| {
                tracing::warn!(
                    "idle connections to servers of `auth` are not closed in time: no thread: {error}; raise the limit on \
                     threads"
                );
            };
            started.map_err(failed).ok()
        });
    }

    /// Closes all idle connections to a place.
    pub(crate) fn close(&self, place: &Arc<Place>) {
        self.lock().retain(|one| !Arc::ptr_eq(&one.place, place));
    }

    /// Closes all idle connections, so that others get their descriptors and memory. Returns whether there were any.
    fn close_all(&self) -> bool {
        let closed = std::mem::take(&mut *self.lock());
        !closed.is_empty()
    }

    /// As [`Pool::close_all`], for a thread that must not wait: while another one looks at them, none is closed.
    pub(crate) fn try_close_all(&self) -> bool {
        let closed = match self.idle.try_lock() {
            Ok(mut idle) => std::mem::take(&mut *idle),
            Err(TryLockError::Poisoned(poisoned)) => std::mem::take(&mut *poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => return false,
        };
        !closed.is_empty()
    }

    /// Closes connections that have been idle for too long or that the server has closed.
    fn sweep(&self, now: Instant) {
        self.lock().retain_mut(|one| !one.is_old(now) && one.look(now));
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_types, reason = "the other end of a connection")]
mod tests {
    use super::*;
    use crate::config::Proxy;
    use crate::proxy::places::{Found, Names};
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    const KEEPING: Keeping = Keeping {
        most: 3,
        time: Duration::from_secs(30),
    };

    /// A place at which each connection answers each byte with the next one.
    struct World {
        place: Arc<Place>,
        to: Arc<Upstream>,
        gauge: Gauge,
        pool: Arc<Pool>,
        listener: TcpListener,
    }

    impl World {
        fn new() -> World {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let rule = Proxy::new("/*".parse().unwrap(), vec![url.parse().unwrap()]);
            let place = Names::default().places(&rule, None).unwrap().pop().unwrap();
            let Found::At(to, _) = place.find(Instant::ZERO) else {
                panic!("it has an address");
            };
            World {
                place: Arc::new(place),
                to,
                gauge: Gauge::default(),
                pool: World::pool(),
                listener,
            }
        }

        /// A pool that is swept by tests alone.
        fn pool() -> Arc<Pool> {
            let pool = Arc::new(Pool::default());
            pool.sweeper.set(None).unwrap();
            pool
        }

        fn open(&self) -> (Direct, TcpStream) {
            self.open_to_keep(KEEPING)
        }

        fn open_to_keep(&self, keeping: Keeping) -> (Direct, TcpStream) {
            let until = clock::now() + Duration::from_secs(20);
            let opened = self.pool.open(&self.place, &self.to, keeping, &self.gauge, until);
            let direct = opened.unwrap();
            (direct, self.listener.accept().unwrap().0)
        }

        fn take(&self, now: Instant) -> Option<Direct> {
            self.pool.take(&self.place, &self.to, now)
        }
    }

    /// One exchange on a connection whose other end is this.
    fn exchange(direct: &mut Direct, far: &mut TcpStream) {
        far.write_all(b"answer").unwrap();
        let until = clock::now() + Duration::from_secs(20);
        direct
            .exchange(b"request", until, |all, _| Ok(all == b"answer"))
            .unwrap();
        assert!(!direct.is_silent());
        far.read_exact(&mut [0; 7]).unwrap();
    }

    #[test]
    fn a_kept_connection_carries_the_next_exchange() {
        let world = World::new();
        let now = Instant::from_nanos(1);
        assert!(world.take(now).is_none());
        let (mut direct, mut far) = world.open();
        for _ in 0..3 {
            exchange(&mut direct, &mut far);
            world.pool.put(direct, now);
            assert_eq!(world.gauge.get(), 1);
            direct = world.take(now).expect("it was kept");
            assert!(direct.is_silent());
            assert!(world.take(now).is_none(), "one exchange at a time");
        }
        drop(direct);
        assert_eq!(world.gauge.get(), 0);
    }

    #[test]
    fn no_connection_is_used_that_has_ended_or_received_anything() {
        let world = World::new();
        let now = Instant::from_nanos(1);
        for is_ended in [true, false] {
            let (mut direct, mut far) = world.open();
            exchange(&mut direct, &mut far);
            world.pool.put(direct, now);
            let mut kept = None;
            if is_ended {
                drop(far);
            } else {
                far.write_all(b"unasked").unwrap();
                kept = Some(far);
            }
            // It arrives some time.
            while let Some(direct) = world.take(now) {
                world.pool.put(direct, now);
                std::thread::yield_now();
            }
            assert_eq!(world.gauge.get(), 0);
            drop(kept);
        }
    }

    #[test]
    fn idle_connections_have_a_bound_and_a_time() {
        let world = World::new();
        let start = Instant::from_nanos(1);
        let most = KEEPING.most as u64;
        let mut far = Vec::new();
        for at in 0..=most {
            let (direct, end) = world.open();
            far.push(end);
            world.pool.put(direct, start + Duration::from_secs(at));
        }
        // The first one was closed.
        assert_eq!(world.gauge.get(), most);
        assert_eq!(far[0].read(&mut [0]).unwrap(), 0);
        // The others are kept for their time, to the moment.
        let end = start + Duration::from_secs(1) + KEEPING.time;
        world.pool.sweep(Instant::from_nanos(end.as_nanos() - 1));
        assert_eq!(world.gauge.get(), most);
        world.pool.sweep(end);
        assert_eq!(world.gauge.get(), most - 1);
        let last = start + Duration::from_secs(most);
        assert!(world.take(last + KEEPING.time).is_none(), "all are too old");
        assert_eq!(world.gauge.get(), 0);
        // All connections to a place can be closed.
        let (direct, end) = world.open();
        world.pool.put(direct, last);
        world.pool.close(&world.place);
        assert_eq!(world.gauge.get(), 0);
        drop(end);
    }

    #[test]
    fn each_place_has_its_own_bound() {
        let pool = World::pool();
        let worlds: Vec<World> = (0..3).map(|_| World::new()).collect();
        let now = Instant::from_nanos(1);
        let mut far = Vec::new();
        for (most, world) in worlds.iter().enumerate() {
            for _ in 0..4 {
                let (direct, end) = world.open_to_keep(Keeping { most, ..KEEPING });
                far.push(end);
                pool.put(direct, now);
            }
        }
        let open = || worlds.iter().map(|world| world.gauge.get()).collect::<Vec<_>>();
        assert_eq!(open(), [0, 1, 2]);
        // When descriptors or memory run short, none is kept, and the next one is.
        assert!(pool.try_close_all() && !pool.close_all());
        assert_eq!(open(), [0, 0, 0]);
        let (direct, end) = worlds[1].open_to_keep(Keeping { most: 1, ..KEEPING });
        pool.put(direct, now);
        assert_eq!(open(), [0, 1, 0]);
        drop(end);
    }
}
