//! Counters of the workers. Other threads, and other processes if workers are processes, read them without stopping the
//! worker.
//!
//! Each worker alone writes its own counters, so an increment is a load and a store without a locked instruction. Only
//! worker processes with threads for HTTP/3 have several writers of one part, which increment with a locked instruction.
//! Readers see every value whole, but not all values of the same instant.
//!
//! ```text
//!   a part of the ledger:  counters │ latencies │ of the cache: counts ║ process │ of the cache: what is held
//!                          └────────── outlast the process ──────────┘
//! ```

use crate::latency::{Durations, Latencies};
use crate::store::StoreCounters;
use crate::writers::Writers;
use runtime::ledger::{Ledger, Shape};
use runtime::shared::Words;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A counter.
#[derive(Clone, Copy, Debug)]
pub struct Count<'c> {
    word: &'c AtomicU64,
    writers: Writers,
}

impl Count<'_> {
    /// Adds `n`. Only workers that own the counters call this.
    #[inline]
    pub fn add(&self, n: u64) {
        self.writers.add(self.word, n);
    }

    /// The current value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.word.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident),* $(,)?) => {
        #[allow(non_camel_case_types, reason = "the macro names them after their counters")]
        enum Place { $($name),* }

        /// Number of counters.
        const COUNTERS: usize = [$(stringify!($name)),*].len();

        impl Counters {
            $($(#[doc = $doc])+
            #[inline]
            pub fn $name(&self) -> Count<'_> {
                Count {
                    word: &self.words.get()[Place::$name as usize],
                    writers: self.writers,
                }
            })*
        }

        /// Sums over all workers, of nearly the same moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Totals { $($(#[doc = $doc])+ pub $name: u64),* }

        impl Totals {
            /// Name and help text of each counter, in order of declaration.
            pub const HELP: &[(&'static str, &'static str)] =
                &[$((stringify!($name), concat!($($doc),+))),*];

            fn add(&mut self, one: &Counters) {
                $(self.$name = self.$name.wrapping_add(one.$name().get());)*
            }

            /// Adds the counters of a part of a ledger.
            fn add_words(&mut self, words: &[u64]) {
                $(self.$name = self.$name.wrapping_add(words[Place::$name as usize]);)*
            }

            fn words(&self) -> [u64; COUNTERS] {
                [$(self.$name),*]
            }

            /// Name and value of each counter, in order of declaration.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }
    };
}

counters! {
    /// Connections accepted.
    accepted,
    /// Connections rejected because of the connection limit.
    refused_total,
    /// Connections rejected because of the per-address limit.
    refused_address,
    /// Connections rejected because their address has too many handshakes under way.
    refused_handshakes,
    /// TLS handshakes completed.
    tls_handshakes,
    /// TLS handshakes that resumed an earlier session.
    tls_resumed,
    /// Connections ended by a fault of TLS: nothing in common, a certificate refused, or bytes that are no TLS.
    tls_failed,
    /// Connections of clients that spoke plain HTTP to an address with TLS.
    tls_plain_http,
    /// Connections that speak HTTP/2.
    http2_connections,
    /// Requests over HTTP/2.
    http2_requests,
    /// Requests over HTTP/2 that the client has cancelled (RST_STREAM).
    http2_resets,
    /// Connections ended because the client broke the rules or limits of HTTP/2.
    http2_failed,
    /// Connections that speak HTTP/3.
    http3_connections,
    /// Requests over HTTP/3.
    http3_requests,
    /// Requests over HTTP/3 that the client has cancelled (RESET_STREAM or STOP_SENDING).
    http3_resets,
    /// Connections ended because the client broke the rules or limits of HTTP/3.
    http3_failed,
    /// New clients of HTTP/3 that had to prove their address first (Retry).
    http3_retries,
    /// UDP datagrams received.
    udp_received,
    /// UDP datagrams received by another thread than that of their connection, and handed to it.
    udp_forwarded,
    /// UDP datagrams of connections of another process, handed to it.
    udp_relayed,
    /// UDP datagrams that other processes handed over.
    udp_taken,
    /// UDP datagrams received and dropped: too many waited for their thread or process, or it is gone.
    udp_dropped,
    /// UDP payloads sent; the kernel makes several datagrams of one where it can.
    udp_sent,
    /// UDP payloads that the kernel refused to send: no route, or too long for the interface.
    udp_refused,
    /// Idle connections closed for new ones at the connection limit.
    idle_closed,
    /// Idle connections closed because the memory limit was nearly reached.
    idle_closed_for_memory,
    /// Connections closed.
    closed,
    /// Requests answered, with any status.
    requests,
    /// Responses with status 1xx.
    informational,
    /// Responses with status 2xx.
    successful,
    /// Responses with status 3xx.
    redirected,
    /// Responses with status 4xx.
    client_errors,
    /// Responses with status 5xx.
    server_errors,
    /// Requests rejected because their address exceeded the request rate.
    too_many,
    /// Requests denied at the admin addresses: without the right token, commands of clients that may only read, and commands
    /// that a page of another site has sent.
    admin_denied,
    /// Requests rejected because the server was overloaded.
    overloaded,
    /// Requests rejected because the memory limit was reached.
    out_of_memory,
    /// Times the memory step `reading` began, in which connections read little at a time.
    memory_reading,
    /// Times the memory step `output` began, in which connections get one response per turn.
    memory_output,
    /// Times the memory step `idle` began, in which idle connections are closed.
    memory_idle,
    /// Times the memory step `refusing` began, in which requests are rejected.
    memory_refusing,
    /// Bytes of responses handed to the kernel, header blocks included.
    bytes_sent,
    /// Requests answered from the cache without waiting.
    hits,
    /// Requests that waited for a file to be opened, read or compressed.
    loads,
    /// Requests rejected with 503 because the disk took longer than `disk-timeout`.
    disk_timeouts,
    /// Requests rejected with 503, or answered uncompressed, because `max-disk-queue` requests waited for the disk.
    disk_refused,
    /// Connections closed by a timeout.
    timeouts,
    /// Responses not sent completely because the connection was lost.
    aborted,
    /// Responses cut short because their file became shorter or could not be read.
    truncated,
    /// Access log lines dropped.
    log_dropped,
    /// Spans that the collector of traces took.
    spans_sent,
    /// Spans dropped: too many waited, or the collector did not take them.
    spans_dropped,
}

/// One worker's counters.
#[derive(Debug)]
pub struct Counters {
    words: Words,
    writers: Writers,
}

/// Position of the cache's counts, which outlast the process.
const CACHE_COUNTS: usize = COUNTERS + Latencies::WORDS;
/// Number of words of a part that outlast the process.
const LASTING: usize = CACHE_COUNTS + 3;
/// Position of the process ID.
const PROCESS: usize = LASTING;
/// Position of the cache's contents and limit.
const CACHE_HOLDS: usize = PROCESS + 1;
const LEN: usize = CACHE_HOLDS + 5;

/// The counters of all workers.
#[derive(Debug, Default)]
pub struct Board {
    workers: Mutex<Vec<Seat>>,
    /// Sums of the workers that have ended.
    before: Mutex<(Totals, Durations)>,
    /// The shared ledger, if workers are processes; the other fields are then unused.
    among: Option<Among>,
}

#[derive(Debug)]
struct Among {
    ledger: Ledger,
    own: usize,
    writers: Writers,
}

/// The counters that one worker writes and all may read.
#[derive(Clone, Debug)]
pub struct Seat {
    /// Its counters.
    pub counters: Arc<Counters>,
    /// Its response times.
    pub latencies: Arc<Latencies>,
}

impl Seat {
    /// A seat on the first words of a part.
    fn on(words: &Words, writers: Writers) -> Seat {
        let latencies = words.part(0, CACHE_COUNTS).tail(COUNTERS);
        Seat {
            counters: Arc::new(Counters {
                words: words.part(0, COUNTERS),
                writers,
            }),
            latencies: Arc::new(Latencies::on(latencies, writers)),
        }
    }
}

/// The counters of all workers.
#[derive(Clone, Debug, Default)]
pub struct Readings {
    /// Counters of each running worker, by its number.
    pub workers: Vec<(usize, Totals)>,
    /// Sums of the workers that have ended.
    pub ended: Totals,
    /// Response times of all workers.
    pub durations: Durations,
    /// Counters and byte budget of the caches of all processes together. `None` if there is only one process.
    pub cache: Option<(StoreCounters, u64)>,
    /// Number of processes that serve requests.
    pub processes: usize,
}

impl Readings {
    /// Sums over all workers, including ended ones.
    pub fn totals(&self) -> Totals {
        let mut totals = self.ended;
        for (_, one) in &self.workers {
            totals += *one;
        }
        totals
    }
}

impl Board {
    /// Size of a process's part of the ledger.
    pub const SHAPE: Shape = Shape {
        // Rounded up, so that no two processes share a cache line.
        len: LEN.next_multiple_of(16),
        lasting: LASTING,
    };

    /// The board of one of several processes, each with one worker at a time. `own` is the number of its part of
    /// `ledger`, which has [`Board::SHAPE`]; `process` is its process ID.
    pub fn among(ledger: Ledger, own: usize, process: u32) -> Board {
        ledger.part(own).get()[PROCESS].store(process.into(), Ordering::Relaxed);
        Board {
            among: Some(Among {
                ledger,
                own,
                writers: Writers::One,
            }),
            ..Board::default()
        }
    }

    /// The same with several workers at a time in this process.
    #[must_use]
    pub fn with_threads(mut self) -> Board {
        if let Some(among) = &mut self.among {
            among.writers = Writers::Many;
        }
        self
    }

    /// Whether this process is one of several.
    pub(crate) fn is_among(&self) -> bool {
        self.among.is_some()
    }

    /// Counters for a further worker.
    pub fn join(&self) -> Seat {
        if let Some(Among { ledger, own, writers }) = &self.among {
            return Seat::on(&ledger.part(*own), *writers);
        }
        let seat = Seat::on(&Words::own(CACHE_COUNTS), Writers::One);
        self.workers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(seat.clone());
        seat
    }

    /// Keeps only the sums of a worker that ends: some live no longer than a connection.
    pub fn leave(&self, counters: &Arc<Counters>) {
        // Both locks, in the order in which `read` takes them, so that every count is read exactly once. Counts in a
        // ledger stay there.
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = workers
            .iter()
            .position(|one| Arc::ptr_eq(&one.counters, counters))
        {
            let one = workers.remove(at);
            before.0.add(counters);
            before.1.take_in(&one.latencies);
        }
    }

    /// Publishes counters and byte budget of this process's cache to the other processes.
    pub(crate) fn tell_cache(&self, cache: &StoreCounters, most: u64) {
        let Some(Among { ledger, own, .. }) = &self.among else {
            return;
        };
        let part = ledger.part(*own);
        let set = |from: usize, values: &[u64]| {
            for (word, value) in part.get()[from..].iter().zip(values) {
                word.store(*value, Ordering::Relaxed);
            }
        };
        set(CACHE_COUNTS, &[cache.evictions, cache.turned_away, cache.ahead]);
        let holds = [
            cache.entries,
            cache.bytes,
            cache.bytes_peak,
            cache.descriptors,
            most,
        ];
        set(CACHE_HOLDS, &holds);
    }

    /// Reads the counters of all workers in all processes.
    pub fn read(&self) -> Readings {
        if let Some(Among { ledger, .. }) = &self.among {
            return Readings::of(ledger);
        }
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let mut readings = Readings {
            ended: before.0,
            durations: before.1.clone(),
            processes: 1,
            ..Readings::default()
        };
        drop(before);
        for (number, one) in workers.iter().enumerate() {
            let mut totals = Totals::default();
            totals.add(&one.counters);
            readings.workers.push((number, totals));
            readings.durations.take_in(&one.latencies);
        }
        readings
    }
}

impl Readings {
    /// Reads the counters of all processes from their ledger.
    pub fn of(ledger: &Ledger) -> Readings {
        let all = ledger.read();
        let mut readings = Readings::default();
        let mut cache = StoreCounters::default();
        let mut most = 0;
        let mut take = |words: &[u64]| {
            readings.durations.take_in_words(&words[COUNTERS..CACHE_COUNTS]);
            let (counts, holds) = (&words[CACHE_COUNTS..], &words[CACHE_HOLDS..]);
            cache += StoreCounters {
                evictions: counts[0],
                turned_away: counts[1],
                ahead: counts[2],
                entries: holds[0],
                bytes: holds[1],
                bytes_peak: holds[2],
                descriptors: holds[3],
            };
            most += holds[4];
            let mut totals = Totals::default();
            totals.add_words(words);
            totals
        };
        readings.ended = take(&all.gone);
        let living = all
            .parts
            .iter()
            .enumerate()
            .filter(|(_, part)| part[PROCESS] != 0);
        readings.workers = living.map(|(number, part)| (number, take(part))).collect();
        readings.processes = readings.workers.len();
        readings.cache = Some((cache, most));
        readings
    }
}

impl std::ops::AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        self.add_words(&other.words());
    }
}

impl Counters {
    /// Counts a response with this status.
    #[inline]
    pub fn answered(&self, status: u16) {
        self.requests().add(1);
        match status / 100 {
            1 => self.informational(),
            2 => self.successful(),
            3 => self.redirected(),
            4 => self.client_errors(),
            _ => self.server_errors(),
        }
        .add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_add_up() {
        let board = Board::default();
        let (a, b) = (board.join().counters, board.join().counters);
        a.answered(200);
        a.answered(304);
        b.answered(404);
        b.bytes_sent().add(7);
        let totals = board.read().totals();
        assert_eq!((totals.requests, totals.successful, totals.redirected), (3, 1, 1));
        assert_eq!((totals.client_errors, totals.bytes_sent), (1, 7));
        assert_eq!(board.read().workers[1].1.requests, 1);
        assert_eq!(
            totals.each().find(|(n, _)| *n == "requests"),
            Some(("requests", 3))
        );
        board.leave(&b);
        let after = board.read();
        assert_eq!((after.totals(), after.workers.len()), (totals, 1));
        assert!(after.cache.is_none());
    }

    #[test]
    fn threads_of_a_process_lose_no_count() {
        const EACH: u64 = 50_000;
        let ledger = Ledger::new(1, Board::SHAPE).unwrap();
        let board = Board::among(ledger.clone(), 0, 100).with_threads();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let seat = board.join();
                scope.spawn(move || {
                    for _ in 0..EACH {
                        seat.counters.answered(200);
                        seat.latencies.stood(units::Duration::from_micros(1));
                    }
                });
            }
        });
        let readings = board.read();
        let totals = readings.totals();
        assert_eq!((totals.requests, totals.successful), (2 * EACH, 2 * EACH));
        assert_eq!(readings.durations.stood(), units::Duration::from_micros(2 * EACH));
    }

    #[test]
    fn processes_add_up_and_what_they_counted_outlasts_them() {
        let ledger = Ledger::new(3, Board::SHAPE).unwrap();
        let boards = [0, 1].map(|own| Board::among(ledger.clone(), own, 100 + own as u32));
        let cache = StoreCounters {
            entries: 2,
            bytes: 10,
            evictions: 1,
            ..StoreCounters::default()
        };
        for board in &boards {
            let seat = board.join();
            seat.counters.answered(200);
            // A worker that replaces one that died continues its counts.
            board.leave(&seat.counters);
            board.join().counters.answered(404);
            board.tell_cache(&cache, 64);
        }
        let both = boards[1].read();
        let requests: Vec<_> = both.workers.iter().map(|(n, t)| (*n, t.requests)).collect();
        assert_eq!((requests, both.processes), (vec![(0, 2), (1, 2)], 2));
        let (held, most) = both.cache.unwrap();
        assert_eq!((held.entries, held.bytes, held.evictions, most), (4, 20, 2, 128));
        ledger.close(0);
        let one = boards[1].read();
        assert_eq!(
            (one.totals(), one.ended.requests, one.processes),
            (both.totals(), 2, 1)
        );
        let (held, most) = one.cache.unwrap();
        assert_eq!((held.entries, held.evictions, most), (2, 2, 64));
    }
}
