//! Connections to a server for exchanges that block their thread, kept for the next exchange: those of forward
//! authentication.
//!
//! ```text
//!   open ─▶ exchange ─▶ Pool::put ─┬─ Pool::take ─▶ exchange
//!             (Direct)             └─ 30 seconds, or the server closes it: Pool::sweep
//! ```
//! Decides which connections may carry another exchange, how many are kept, and for how long. What a response means, and
//! whether something follows it, only the caller knows. The connections of `[[proxy]]` belong to event loops instead.

use super::channel::Channel;
use super::places::Place;
use runtime::clock;
use runtime::rounds::{Connection, Rounds, Turn};
use runtime::session::Upstream;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use units::{Duration, Instant};

/// Most idle connections.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// To one place.
    of_place: usize,
    /// To all places of a pool.
    of_pool: usize,
}

impl Default for Bounds {
    /// To one place as many as `keepalive` in `[[proxy]]` keeps by default; in all, as many as may be in use at a time.
    fn default() -> Bounds {
        Bounds {
            of_place: 32,
            of_pool: 64,
        }
    }
}

/// Time for which an idle connection is kept, as `keepalive-time` in `[[proxy]]`.
const KEPT_FOR: Duration = Duration::from_secs(30);

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
    /// The response so far, in HTTP/1.1.
    text: Vec<u8>,
    /// When it became idle.
    since: Instant,
}

impl Direct {
    /// Connects, and blocks this thread until then at most.
    ///
    /// # Errors
    /// The connection is refused, the time is over, or why its TLS cannot begin.
    pub(crate) fn open(
        place: &Arc<Place>,
        to: &Arc<Upstream>,
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
    bounds: Bounds,
    idle: Mutex<Vec<Direct>>,
    /// From the first idle connection on. `None`: the system had no thread.
    sweeper: OnceLock<Option<Rounds>>,
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, Vec<Direct>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
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
            if now.since(direct.since) < KEPT_FOR && direct.look(now) {
                return Some(direct);
            }
        }
    }

    /// Keeps a connection after a complete response, if it can carry another request. At a limit, the one that has been
    /// idle longest is closed.
    pub(crate) fn put(self: &Arc<Pool>, mut direct: Direct, now: Instant) {
        if !direct.rest(now) {
            return;
        }
        let place = Arc::clone(&direct.place);
        let mut idle = self.lock();
        idle.push(direct);
        let is_same = |one: &Direct| Arc::ptr_eq(&one.place, &place);
        let excess = match idle.iter().filter(|one| is_same(one)).count() > self.bounds.of_place {
            true => idle.iter().position(is_same),
            false => (idle.len() > self.bounds.of_pool).then_some(0),
        };
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

    /// Closes connections that have been idle for too long or that the server has closed.
    fn sweep(&self, now: Instant) {
        self.lock()
            .retain_mut(|one| now.since(one.since) < KEPT_FOR && one.look(now));
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
                pool: World::pool(Bounds::default()),
                listener,
            }
        }

        /// A pool that is swept by tests alone.
        fn pool(bounds: Bounds) -> Arc<Pool> {
            let pool = Arc::new(Pool {
                bounds,
                ..Pool::default()
            });
            pool.sweeper.set(None).unwrap();
            pool
        }

        fn open(&self) -> (Direct, TcpStream) {
            let until = clock::now() + Duration::from_secs(20);
            let direct = Direct::open(&self.place, &self.to, &self.gauge, until).unwrap();
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
        let most = Bounds::default().of_place as u64;
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
        let end = start + Duration::from_secs(1) + KEPT_FOR;
        world.pool.sweep(Instant::from_nanos(end.as_nanos() - 1));
        assert_eq!(world.gauge.get(), most);
        world.pool.sweep(end);
        assert_eq!(world.gauge.get(), most - 1);
        let last = start + Duration::from_secs(most);
        assert!(world.take(last + KEPT_FOR).is_none(), "all are too old");
        assert_eq!(world.gauge.get(), 0);
        // All connections to a place can be closed.
        let (direct, end) = world.open();
        world.pool.put(direct, last);
        world.pool.close(&world.place);
        assert_eq!(world.gauge.get(), 0);
        drop(end);
    }

    #[test]
    fn a_pool_has_a_bound_over_all_places() {
        let pool = World::pool(Bounds {
            of_place: 2,
            of_pool: 5,
        });
        let worlds: Vec<World> = (0..3).map(|_| World::new()).collect();
        let now = Instant::from_nanos(1);
        let mut far = Vec::new();
        for world in &worlds {
            for _ in 0..3 {
                let (direct, end) = world.open();
                far.push(end);
                pool.put(direct, now);
            }
        }
        // Two of each place, and of those the five that became idle last.
        let open: Vec<u64> = worlds.iter().map(|world| world.gauge.get()).collect();
        assert_eq!(open, [1, 2, 2]);
    }
}
