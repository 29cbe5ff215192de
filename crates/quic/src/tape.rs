//! The datagrams that pass an end of a connection, for a log of its packets, and the state of loss recovery and congestion
//! control meanwhile. Bounded; datagrams beyond the bound are counted.
//!
//! ```text
//!   client: all connections ──▶ Tape ── take ──▶ log
//!   server: each connection ──▶ Reel ── pieces ──▶ Log     Recorder decides which connections get a log
//! ```

use crate::recovery_log::{Figures, RecoveryLog};
use quinn_proto::ConnectionStats;
use rustls::KeyLog;
use std::fmt::{self, Write as _};
use std::mem::take;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use units::{Duration, Instant};

pub use crate::recovery_log::PacketType;

/// Memory of a tape ([`Recorded::size`]) in bytes. A datagram, a change of counters or a loss beyond it is not kept.
const BYTES_MAX: usize = 64 << 20;

/// Memory of a piece, in bytes, from which on a server's connection passes it on to its log. The payload that reaches it may
/// add 64 KiB.
const PIECE_BYTES: usize = 32 << 10;

/// A piece is passed on with the first datagram after this time, even if it is shorter.
const PIECE_TIME: Duration = Duration::from_secs(1);

/// A tape, of which every clone is the same one.
#[derive(Clone, Debug, Default)]
pub struct Tape(Arc<Mutex<Recorded>>);

/// What is on it.
#[derive(Debug, Default)]
pub struct Recorded {
    /// In the order in which they passed.
    pub datagrams: Vec<Passed>,
    /// In the order of the changes.
    pub counters: Vec<Counters>,
    /// Packets that this end declared lost, in that order.
    pub losses: Vec<Loss>,
    /// Datagrams that are missing, because there were too many.
    pub missing: u64,
    /// Bytes of the payloads of `datagrams`.
    bytes: usize,
}

/// A datagram that was sent or received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Its connection: they are numbered from 0 in the order in which they began.
    pub connection: u32,
    /// When it was given to the system, or taken from it.
    pub at: Instant,
    /// Whether this end sent it.
    pub is_sent: bool,
    /// Its payload.
    pub bytes: Vec<u8>,
}

/// What a connection's loss recovery and congestion control know (RFC 9002).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Its connection.
    pub connection: u32,
    /// Since when.
    pub at: Instant,
    /// Smoothed round trip time; `None` before the handshake is complete, when the library has an estimate only.
    pub rtt: Option<Duration>,
    /// The smallest round trip time, likewise.
    pub rtt_min: Option<Duration>,
    /// The latest sample of the round trip time, likewise.
    pub rtt_latest: Option<Duration>,
    /// Congestion window in bytes.
    pub window: u64,
    /// Bytes that were sent, and neither acknowledged nor declared lost. `None` before the first packet.
    pub in_flight: Option<u64>,
    /// Packets declared lost so far.
    pub lost: u64,
}

/// A packet that an end declared lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Its connection.
    pub connection: u32,
    /// When it was declared lost.
    pub at: Instant,
    /// Its type.
    pub packet_type: PacketType,
    /// Its number.
    pub number: u64,
    /// Its length in bytes; `None` if congestion control does not count them, as of acknowledgments.
    pub length: Option<u64>,
}

impl Counters {
    fn of(
        connection: u32,
        (stats, figures): (&ConnectionStats, Figures),
        is_connected: bool,
        at: Instant,
    ) -> Counters {
        Counters {
            connection,
            at,
            rtt: is_connected.then_some(stats.path.rtt),
            rtt_min: is_connected.then_some(stats.path.min_rtt),
            rtt_latest: figures.rtt_latest.filter(|_| is_connected),
            window: stats.path.cwnd,
            in_flight: figures.in_flight,
            lost: stats.path.lost_packets,
        }
    }

    /// Whether it says the same as an earlier one.
    fn repeats(&self, earlier: &Counters) -> bool {
        *self
            == Counters {
                at: self.at,
                ..*earlier
            }
    }
}

impl Recorded {
    /// The memory of its datagrams, counters and losses, in bytes: payloads, and a record for each of them.
    pub fn size(&self) -> usize {
        let records = size_of_val(&*self.datagrams) + size_of_val(&*self.counters);
        self.bytes + records + size_of_val(&*self.losses)
    }

    /// Records what a connection's loss recovery has done. `count` adds counters that changed.
    fn observe(
        &mut self,
        connection: u32,
        log: &mut RecoveryLog,
        (stats, is_connected): (&ConnectionStats, bool),
        at: Instant,
    ) -> Counters {
        let figures = log.read(|lost| {
            if self.size() + size_of::<Loss>() <= BYTES_MAX {
                self.losses.push(Loss {
                    connection,
                    at,
                    packet_type: lost.packet_type,
                    number: lost.number,
                    length: lost.length,
                });
            }
        });
        Counters::of(connection, (stats, figures), is_connected, at)
    }

    /// Records counters, unless they are those of the connection before.
    fn count(&mut self, counters: Counters) {
        let mut earlier = self.counters.iter().rev();
        let last = earlier.find(|one| one.connection == counters.connection);
        let is_known = last.is_some_and(|last| counters.repeats(last));
        if !is_known && self.size() + size_of::<Counters>() <= BYTES_MAX {
            self.counters.push(counters);
        }
    }
    fn pass(&mut self, connection: u32, is_sent: bool, payload: &[u8], segment: Option<usize>, at: Instant) {
        for bytes in payload.chunks(segment.unwrap_or(payload.len()).max(1)) {
            if self.size() + bytes.len() + size_of::<Passed>() > BYTES_MAX {
                self.missing += 1;
                continue;
            }
            self.bytes += bytes.len();
            self.datagrams.push(Passed {
                connection,
                at,
                is_sent,
                bytes: bytes.to_vec(),
            });
        }
    }
}

impl Tape {
    /// Records a payload of datagrams of `segment` bytes each, the last of which may be shorter; one datagram if `None`.
    pub(crate) fn pass(
        &self,
        connection: u32,
        is_sent: bool,
        payload: &[u8],
        segment: Option<usize>,
        at: Instant,
    ) {
        let mut recorded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.pass(connection, is_sent, payload, segment, at);
    }

    /// Records what a connection's loss recovery has done.
    pub(crate) fn observe(
        &self,
        connection: u32,
        log: &mut RecoveryLog,
        known: (&ConnectionStats, bool),
        at: Instant,
    ) {
        let mut recorded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counters = recorded.observe(connection, log, known, at);
        recorded.count(counters);
    }

    /// Takes what was recorded; the tape is empty then.
    pub fn take(&self) -> Recorded {
        take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A key log in memory, in the format of SSLKEYLOGFILE.
#[derive(Default)]
pub struct Secrets {
    text: Mutex<String>,
    /// The key log that gets the same secrets.
    next: Option<Arc<dyn KeyLog>>,
}

impl Secrets {
    /// A key log that passes its secrets on to `next`, too.
    pub(crate) fn before(next: Arc<dyn KeyLog>) -> Secrets {
        Secrets {
            text: Mutex::default(),
            next: Some(next),
        }
    }

    /// Takes the lines since the last call. Each ends with a line feed.
    pub fn take(&self) -> String {
        take(&mut *self.text.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

impl KeyLog for Secrets {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        if let Some(next) = &self.next {
            next.log(label, client_random, secret);
        }
        let mut text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        text.push_str(label);
        for bytes in [client_random, secret] {
            text.push(' ');
            for byte in bytes {
                // Writing to a `String` cannot fail.
                let _ = write!(text, "{byte:02x}");
            }
        }
        text.push('\n');
    }
}

/// A connection that a server is about to accept.
#[derive(Clone, Debug)]
pub struct Begun {
    /// Destination Connection ID of the client's first packet (RFC 9000 section 7.3), as the client knows it.
    pub original_id: Vec<u8>,
    /// Address of the client.
    pub peer: SocketAddr,
    /// Address of the server, if the system tells it.
    pub local: Option<IpAddr>,
    /// When the packet that began it arrived.
    pub at: Instant,
    /// Gets its secrets.
    pub secrets: Arc<Secrets>,
}

/// Decides which connections of a server get a log. All workers share it.
pub trait Recorder: fmt::Debug + Send + Sync {
    /// A log for a new connection; `None`: it gets none. Must not block.
    fn begin(&self, begun: &Begun) -> Option<Box<dyn Log>>;
}

/// The log of one connection of a server. Dropped when the connection ends.
pub trait Log: Send {
    /// Takes the next piece, in order. False: the log is over, and takes no more. Must not block.
    fn write(&mut self, recorded: Recorded) -> bool;
}

/// What a connection of a server records. Passes its last piece on when dropped.
pub(crate) struct Reel {
    log: Box<dyn Log>,
    recovery: RecoveryLog,
    recorded: Recorded,
    /// When the piece that is not passed on yet began.
    since: Option<Instant>,
    counters: Option<Counters>,
    is_over: bool,
}

impl Reel {
    /// `recovery`: what the connection's transport writes to.
    pub(crate) fn new(log: Box<dyn Log>, recovery: RecoveryLog) -> Reel {
        Reel {
            log,
            recovery,
            recorded: Recorded::default(),
            since: None,
            counters: None,
            is_over: false,
        }
    }

    /// Whether the log takes no more.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// See [`Tape::pass`].
    pub(crate) fn pass(&mut self, is_sent: bool, payload: &[u8], segment: Option<usize>, at: Instant) {
        if self.is_over {
            return;
        }
        self.recorded.pass(0, is_sent, payload, segment, at);
        let since = *self.since.get_or_insert(at);
        if self.recorded.size() >= PIECE_BYTES || at.since(since) >= PIECE_TIME {
            self.flush();
        }
    }

    /// Records what loss recovery has done. `known`: the connection's statistics, and whether its handshake is complete.
    pub(crate) fn observe(&mut self, known: (&ConnectionStats, bool), at: Instant) {
        let counters = self.recorded.observe(0, &mut self.recovery, known, at);
        self.count(counters);
    }

    /// Records counters, unless they say what the last ones did.
    fn count(&mut self, counters: Counters) {
        let is_known = self.counters.is_some_and(|last| counters.repeats(&last));
        if !is_known && !self.is_over {
            self.counters = Some(counters);
            self.recorded.counters.push(counters);
            if self.recorded.size() >= PIECE_BYTES {
                self.flush();
            }
        }
    }

    fn flush(&mut self) {
        self.since = None;
        let recorded = take(&mut self.recorded);
        let is_empty =
            recorded.datagrams.is_empty() && recorded.counters.is_empty() && recorded.losses.is_empty();
        if !is_empty && !self.is_over {
            self.is_over = !self.log.write(recorded);
        }
    }
}

impl Drop for Reel {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Instant = Instant::ZERO;

    #[test]
    fn payloads_are_cut_into_datagrams_and_the_bound_holds() {
        let tape = Tape::default();
        tape.pass(0, true, b"aabbc", Some(2), AT);
        tape.pass(1, false, b"whole", None, AT);
        let large = vec![0; BYTES_MAX / 2];
        tape.pass(1, true, &large, None, AT);
        tape.pass(1, true, &large, None, AT);
        tape.pass(1, true, b"small", None, AT);
        let recorded = tape.take();
        let first = recorded.datagrams[..4].iter().map(|one| &one.bytes[..]);
        assert_eq!(first.collect::<Vec<_>>(), [&b"aa"[..], b"bb", b"c", b"whole"]);
        assert_eq!((recorded.datagrams.len(), recorded.missing), (6, 1));
        assert_eq!(recorded.datagrams[5].bytes, b"small", "there is room for it");
        assert!(tape.take().datagrams.is_empty());
    }

    #[test]
    fn counters_are_recorded_when_they_change() {
        let mut recorded = Recorded::default();
        let of = |connection, window, ms| counters(connection, window, AT + Duration::from_millis(ms));
        for (connection, window, ms) in [
            (0, 10, 0),
            (1, 10, 1),
            (0, 10, 2),
            (0, 20, 3),
            (1, 10, 4),
            (0, 10, 5),
        ] {
            recorded.count(of(connection, window, ms));
        }
        let wanted = [of(0, 10, 0), of(1, 10, 1), of(0, 20, 3), of(0, 10, 5)];
        assert_eq!(recorded.counters, wanted);
        let most = BYTES_MAX / size_of::<Counters>();
        for window in 0..=most as u64 {
            recorded.count(of(0, window, 0));
        }
        assert_eq!(recorded.counters.len(), most);
    }

    fn counters(connection: u32, window: u64, at: Instant) -> Counters {
        Counters {
            connection,
            at,
            rtt: None,
            rtt_min: None,
            rtt_latest: None,
            window,
            in_flight: None,
            lost: 0,
        }
    }

    /// A reel whose transport tells nothing.
    fn reel(pieces: &Arc<Mutex<Vec<Recorded>>>, most: usize) -> Reel {
        let (recovery, _) = RecoveryLog::begin(runtime::clock::to_standard(AT));
        Reel::new(Box::new(Pieces(Arc::clone(pieces), most)), recovery)
    }

    /// Takes pieces until there are enough.
    struct Pieces(Arc<Mutex<Vec<Recorded>>>, usize);

    impl Log for Pieces {
        fn write(&mut self, recorded: Recorded) -> bool {
            let mut pieces = self.0.lock().unwrap();
            pieces.push(recorded);
            pieces.len() < self.1
        }
    }

    #[test]
    fn a_reel_passes_pieces_on_by_size_by_time_and_at_its_end() {
        let pieces = Arc::default();
        let mut reel = reel(&pieces, 9);
        let lengths = || {
            let pieces = pieces.lock().unwrap();
            let of = |piece: &Recorded| piece.datagrams.iter().map(|one| one.bytes.len()).sum::<usize>();
            pieces.iter().map(of).collect::<Vec<_>>()
        };
        // Two records, and one byte less than a piece.
        let most = PIECE_BYTES - 2 * size_of::<Passed>() - 1;
        reel.pass(true, &vec![0; most - 1], None, AT);
        reel.pass(false, b"a", None, AT);
        assert!(lengths().is_empty());
        reel.pass(false, b"b", None, AT);
        assert_eq!(lengths(), [most + 1]);
        reel.pass(true, b"bb", None, AT);
        reel.pass(true, b"c", None, AT + PIECE_TIME);
        assert_eq!(lengths(), [most + 1, 3]);
        reel.pass(true, b"last", None, AT + PIECE_TIME);
        drop(reel);
        assert_eq!(lengths(), [most + 1, 3, 4]);
    }

    /// A connection that is blocked sends nothing, and its counters may change all the same.
    #[test]
    fn a_reel_passes_counters_on_without_a_datagram() {
        let pieces = Arc::default();
        let mut reel = reel(&pieces, 9);
        let most = PIECE_BYTES.div_ceil(size_of::<Counters>()) as u64;
        for window in 0..2 * most + 1 {
            reel.count(counters(0, window, AT));
        }
        let pieces = pieces.lock().unwrap();
        let lengths: Vec<u64> = pieces.iter().map(|one| one.counters.len() as u64).collect();
        assert_eq!(lengths, [most, most]);
        let windows = pieces.iter().flat_map(|one| &one.counters).map(|one| one.window);
        assert!(windows.eq(0..2 * most), "none is missing");
    }

    #[test]
    fn a_log_that_is_over_gets_nothing_more() {
        let pieces = Arc::default();
        let mut reel = reel(&pieces, 1);
        reel.pass(true, &vec![0; PIECE_BYTES], None, AT);
        assert!(reel.is_over());
        reel.pass(true, &vec![0; PIECE_BYTES], None, AT);
        drop(reel);
        assert_eq!(pieces.lock().unwrap().len(), 1);
    }

    #[test]
    fn secrets_are_lines_and_go_on_to_the_next_key_log() {
        let next = Arc::new(Secrets::default());
        let secrets = Secrets::before(Arc::<Secrets>::clone(&next));
        secrets.log("LABEL", &[1, 0xab], &[0]);
        assert_eq!(secrets.take(), "LABEL 01ab 00\n");
        assert_eq!(secrets.take(), "");
        assert_eq!(next.take(), "LABEL 01ab 00\n");
    }
}
