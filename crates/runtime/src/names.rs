//! Addresses of host names: looked up by the system's resolver, again and again, on a thread of its own.
//!
//! ```text
//!   start ─▶ unknown ── found ──▶ known ─┬─ found: the new addresses
//!               └── failed ──▶ failed    └─ failed: the old addresses
//! ```
//! The resolver may take many seconds, so event loops do not wait for it: readers get what is known. Decides when a name is looked up
//! and what a failure changes. Which of the addresses is used, and for what, only the caller knows.

use crate::clock;
use std::fmt;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use units::{Duration, Instant};

/// Addresses kept of a name. Further ones are ignored.
pub const ADDRESSES_MAX: usize = 16;

/// Time to the next lookup while nothing is known of a name, if the interval is longer.
const RETRY: Duration = Duration::from_secs(1);

/// Finds the addresses of a name. May block for long.
pub type Resolver = fn(&str) -> io::Result<Vec<IpAddr>>;

/// The resolver of the C library (`getaddrinfo(3)`): `/etc/hosts`, DNS, whatever `nsswitch.conf(5)` names. The addresses
/// come in the order of RFC 6724.
///
/// # Errors
/// The name has no address, or no name server answers.
pub fn system(host: &str) -> io::Result<Vec<IpAddr>> {
    let found = (host, 0).to_socket_addrs()?;
    Ok(found.map(|address| address.ip()).collect())
}

/// What is known of a name.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Its addresses, at most [`ADDRESSES_MAX`]. Empty: it was not looked up yet, or no lookup has succeeded.
    pub addresses: Arc<[IpAddr]>,
    /// Why the last lookup failed; `None` if it succeeded, or if there was none.
    pub failure: Option<Arc<str>>,
    /// Lookups that failed so far.
    pub failures: u64,
}

/// A name that is looked up until this is dropped. Nothing waits for a lookup under way.
pub struct Watch {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    closed: Condvar,
    /// A lookup has ended.
    known: Condvar,
}

#[derive(Default)]
struct State {
    known: Known,
    is_closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch {
    /// Starts the thread, which looks the name up at once, and again one `interval` after each lookup. Changes and failures
    /// are logged.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(host: &str, interval: Duration, resolve: Resolver) -> io::Result<Watch> {
        let shared = Arc::new(Shared::default());
        let watch = Watch {
            shared: Arc::clone(&shared),
        };
        let host = host.to_owned();
        std::thread::Builder::new()
            .name("weir-names".into())
            .spawn(move || {
                loop {
                    // The panic hook has reported the panic.
                    let found = catch_unwind(AssertUnwindSafe(|| resolve(&host)))
                        .unwrap_or_else(|_| Err(io::Error::other("the resolver panicked")));
                    let (known, news) = note(&shared.lock().known, found);
                    shared.lock().known = known.clone();
                    shared.known.notify_all();
                    // After that, so that the line is true; and a log that is slow to take it holds no reader up.
                    news.log(&host, &known);
                    let state = shared.lock();
                    let pause = match state.known.addresses.is_empty() {
                        true => interval.min(RETRY),
                        false => interval,
                    };
                    let waited = shared
                        .closed
                        .wait_timeout_while(state, pause, |state| !state.is_closed);
                    if waited.unwrap_or_else(PoisonError::into_inner).0.is_closed {
                        return;
                    }
                }
            })?;
        Ok(watch)
    }

    /// Waits until the first lookup has ended, and until this time at most.
    pub fn await_first(&self, until: Instant) {
        let is_new = |state: &mut State| {
            let known = &state.known;
            known.addresses.is_empty() && known.failure.is_none() && !state.is_closed
        };
        let state = self.shared.lock();
        let left = until.since(clock::now());
        drop(self.shared.known.wait_timeout_while(state, left, is_new));
    }

    /// What is known now. Never waits for the resolver.
    pub fn known(&self) -> Known {
        self.shared.lock().known.clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.closed.notify_one();
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

/// What a lookup changed.
#[derive(Debug, PartialEq, Eq)]
enum News {
    /// Nothing, or one more failure in a row.
    None,
    /// The addresses, or the resolver answers again.
    Found,
    /// The resolver began to fail.
    Lost,
}

impl News {
    fn log(&self, host: &str, known: &Known) {
        let addresses = List(&known.addresses);
        let why = known.failure.as_deref().unwrap_or_default();
        match self {
            News::None => {}
            News::Found => tracing::info!("host name {host}: resolves to {addresses}"),
            News::Lost if known.addresses.is_empty() => tracing::warn!(
                "host name {host}: cannot be resolved: {why}; correct the name, or check the resolver of this machine"
            ),
            News::Lost => tracing::warn!(
                "host name {host}: cannot be resolved: {why}; keeps {addresses}; check the resolver of this machine"
            ),
        }
    }
}

/// What is known after a lookup.
fn note(before: &Known, found: io::Result<Vec<IpAddr>>) -> (Known, News) {
    let mut known = before.clone();
    let found = match found {
        Ok(found) if found.is_empty() => Err(io::Error::other("it has no address")),
        found => found,
    };
    let had_failed = known.failure.is_some();
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            known.failures += 1;
            known.failure = Some(error.to_string().into());
            return (known, if had_failed { News::None } else { News::Lost });
        }
    };
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in found {
        if addresses.len() < ADDRESSES_MAX && !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    known.failure = None;
    // Name servers rotate their answers; the same addresses in another order are no change.
    let is_same = addresses.len() == known.addresses.len()
        && addresses.iter().all(|address| known.addresses.contains(address));
    if !is_same {
        known.addresses = addresses.into();
    }
    let news = if !is_same || had_failed {
        News::Found
    } else {
        News::None
    };
    (known, news)
}

struct List<'a>(&'a [IpAddr]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, address) in self.0.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            write!(f, "{comma}{address}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn a_failure_keeps_the_addresses_and_another_order_is_no_change() {
        let fails = || Err(io::Error::other("no answer"));
        let (known, news) = note(&Known::default(), Ok(vec![address(1), address(2), address(1)]));
        assert_eq!(
            (&*known.addresses, news),
            (&[address(1), address(2)][..], News::Found)
        );
        let (known, news) = note(&known, fails());
        assert_eq!(
            (&*known.addresses, news),
            (&[address(1), address(2)][..], News::Lost)
        );
        assert_eq!((known.failure.as_deref(), known.failures), (Some("no answer"), 1));
        let (known, news) = note(&known, Ok(Vec::new()));
        assert_eq!((known.addresses.len(), known.failures, news), (2, 2, News::None));
        let (known, news) = note(&known, Ok(vec![address(2), address(1)]));
        assert_eq!(
            (&*known.addresses, news),
            (&[address(1), address(2)][..], News::Found)
        );
        assert_eq!((known.failure.as_deref(), known.failures), (None, 2));
        let (known, news) = note(&known, Ok(vec![address(2), address(1)]));
        assert_eq!((known.addresses.len(), news), (2, News::None));
    }

    #[test]
    fn addresses_have_a_bound() {
        let (known, _) = note(&Known::default(), Ok((0..200).map(address).collect()));
        assert_eq!(known.addresses.len(), ADDRESSES_MAX);
    }

    #[test]
    fn a_slow_lookup_holds_nobody_up_and_the_next_one_is_read() {
        static ANSWERS: Mutex<Option<Receiver<u8>>> = Mutex::new(None);
        fn resolve(_: &str) -> io::Result<Vec<IpAddr>> {
            let answers = ANSWERS.lock().unwrap();
            let last = answers.as_ref().unwrap().recv().map_err(io::Error::other)?;
            Ok(vec![address(last)])
        }
        let (answer, answers): (Sender<u8>, _) = channel();
        *ANSWERS.lock().unwrap() = Some(answers);
        let watch = Watch::start("a", Duration::from_millis(1), resolve).unwrap();
        // The resolver has not answered.
        watch.await_first(clock::now() + Duration::from_millis(10));
        assert!(watch.known().addresses.is_empty());
        for last in [1, 2] {
            answer.send(last).unwrap();
            while *watch.known().addresses != [address(last)] {
                std::thread::yield_now();
            }
        }
        // The resolver has nothing more to say, which is a failure of each lookup.
        drop(answer);
        while watch.known().failures < 2 {
            std::thread::yield_now();
        }
        assert_eq!(*watch.known().addresses, [address(2)]);
    }

    #[test]
    fn whoever_may_wait_gets_the_first_answer() {
        for (host, is_found) in [("a", true), ("b", false)] {
            let resolve = |host: &str| match host {
                "a" => Ok(vec![address(1)]),
                _ => Err(io::Error::other("no such name")),
            };
            let watch = Watch::start(host, Duration::from_secs(3600), resolve).unwrap();
            watch.await_first(clock::now() + Duration::from_secs(60));
            let known = watch.known();
            assert_eq!(
                (known.addresses.len() == 1, known.failure.is_none()),
                (is_found, is_found)
            );
        }
    }

    #[test]
    fn the_system_knows_this_machine() {
        assert!(system("localhost").unwrap().iter().all(IpAddr::is_loopback));
    }
}
