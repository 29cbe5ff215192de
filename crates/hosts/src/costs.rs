//! What the steps of a request cost, from the parameters. Document 002's pies give tasks relative to sending a file of
//! its mean request; the reference here is that file's sending time on this host.

use crate::disk::Geometry;
use crate::memory::Sizes;
use crate::parameters::{Concurrency, Values};
use crate::processors::Task;
use bytes::Bytes;
use netsim::Effort;
use units::Duration;

/// Mean bytes of a request in document 002's Table 1, with which its pies were measured.
const PIE_BYTES: usize = 62_332;

/// Costs of one server.
#[derive(Debug)]
pub(crate) struct Costs {
    pub(crate) processors: usize,
    pub(crate) workers: usize,
    pub(crate) workers_at_start: usize,
    pub(crate) workers_spare: usize,
    pub(crate) switch: Duration,
    pub(crate) make: Duration,
    pub(crate) call: Duration,
    /// Accepting a connection and, later, ending it.
    pub(crate) connection: Duration,
    /// Waiting for and reading a request.
    pub(crate) reading: Duration,
    pub(crate) sizes: Sizes,
    pub(crate) geometry: Geometry,
    /// Whether one lock protects the whole cache.
    pub(crate) whole_lock: bool,
    /// Whether that lock is held until the response is written, not only for the lookup.
    pub(crate) lock_response: bool,
    packet: Duration,
    ns_per_byte: f64,
    mss: f64,
    piece: usize,
    tasks: Vec<(Task, Duration)>,
    files: Duration,
    locks: u32,
    /// Time that taking a lock needs besides its call, such as sleeping and waking if another thread has it.
    locking: Duration,
    /// Whether heads and dates are made for each response, and heads written apart.
    costly: bool,
}

impl Costs {
    pub(crate) fn new(values: &Values, concurrency: Concurrency) -> Costs {
        let call = values.micros("system_call_us") + values.micros("traced_us");
        let packet = values.micros("packet_us");
        let switches = match concurrency {
            Concurrency::Processes | Concurrency::Events => "switch_process_us",
            Concurrency::Threads | Concurrency::ThreadPerRequest => "switch_thread_us",
        };
        let make = match concurrency {
            Concurrency::Processes => "make_process_us",
            _ => "make_thread_us",
        };
        let mut costs = Costs {
            processors: values.get("processors") as usize,
            workers: (values.get("workers") as usize).max(1),
            workers_at_start: values.get("workers_at_start") as usize,
            workers_spare: values.get("workers_spare") as usize,
            switch: values.micros(switches),
            make: values.micros(make),
            call,
            connection: values.micros("connection_us") + 2 * call,
            reading: Duration::ZERO,
            sizes: Sizes {
                all: values.kib("memory_mb") * 1024,
                base: values.kib("base_mb") * 1024,
                serving: values.kib("serving_kb"),
                idle: values.kib("idle_kb"),
                cache_min: values.kib("cache_min_kb"),
                read_ahead: values.kib("read_ahead_kb").max(1),
            },
            geometry: Geometry {
                position: values.micros("disk_position_ms") * 1000,
                bytes_per_s: values.get("disk_mb_per_s") * 1e6,
            },
            whole_lock: values.get("whole_lock") > 0.0,
            lock_response: values.get("lock_response") > 0.0,
            packet,
            ns_per_byte: values.get("send_ns_per_byte")
                + values.get("copies") * values.get("read_ns_per_byte"),
            mss: values.get("mss").max(1.0),
            piece: (values.kib("write_kb") as usize).max(1),
            tasks: Vec::new(),
            files: Duration::ZERO,
            locks: values.get("locks") as u32,
            locking: values.micros("lock_us"),
            costly: values.get("costly") > 0.0,
        };
        let pieces = PIE_BYTES.div_ceil(costs.piece).max(1);
        let sending = costs.writing(PIE_BYTES / pieces) * pieces as u32;
        let share = |name: &str| sending.mul_f64(values.get(name));
        let calls = (values.get("calls") * 0.5).round() as u32;
        costs.files = share("files_share") + call * calls;
        costs.reading = match values.get("reading_share") {
            0.0 => call * 2 + packet,
            _ => share("reading_share"),
        };
        let mut http = share("http_share") + values.micros("http_us");
        if costs.costly {
            http += values.micros("head_us") + values.micros("date_us");
        }
        costs.tasks = vec![
            (Task::HttpProcessing, http),
            (Task::SignalHandling, share("signals_share")),
            (Task::ProcessControl, share("process_share")),
            (Task::Miscellaneous, share("misc_share") + call * calls),
            (Task::ContextSwitching, share("switching_share")),
            (Task::Synchronization, share("locking_share")),
        ];
        costs
    }

    /// Sending so many bytes with one call: copies, the packet that the call begins, acknowledgments that come back.
    pub(crate) fn writing(&self, bytes: usize) -> Duration {
        let copied = Duration::from_secs_f64(bytes as f64 * self.ns_per_byte / 1e9);
        let acknowledged = self.packet.mul_f64(bytes as f64 / (2.0 * self.mss));
        self.call + self.packet + copied + acknowledged
    }

    /// The steps of a request before its file is looked up: the task, its time, and whether it holds the lock that all
    /// threads share. Locks come between equal parts of the work; each is a call to take it and one to return it.
    pub(crate) fn request(&self) -> Vec<(Task, Duration, bool)> {
        let mut steps = Vec::new();
        let parts = self.locks + 1;
        for part in 0..parts {
            steps.extend(
                self.tasks
                    .iter()
                    .map(|(task, time)| (*task, *time / parts, false)),
            );
            if part < self.locks {
                steps.push((Task::Synchronization, self.call + self.locking, false));
                steps.push((Task::Synchronization, self.call, true));
            }
        }
        steps
    }

    /// Looking up the file: time of the calls for the cache's lock, and of the lookup.
    pub(crate) fn lookup(&self) -> (Duration, Duration) {
        let calls = if self.locks > 0 {
            2 * self.call + self.locking
        } else {
            Duration::ZERO
        };
        (calls, self.files)
    }

    /// A response in the pieces that calls write.
    pub(crate) fn pieces(&self, answer: &Answer) -> Vec<Piece> {
        let head = match self.costly && answer.head.starts_with(b"HTTP/") {
            true => answer
                .head
                .windows(4)
                .position(|four| four == b"\r\n\r\n")
                .map_or(0, |at| at + 4),
            false => 0,
        };
        let starts = (head..answer.len()).step_by(self.piece);
        let rest = starts.map(|from| answer.piece(from, (from + self.piece).min(answer.len())));
        (head > 0)
            .then(|| answer.piece(0, head))
            .into_iter()
            .chain(rest)
            .collect()
    }
}

/// What the users' hosts spend: for each connection, packet and byte as much as the server's, shared by their processors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientCosts {
    call: Duration,
    connection: Duration,
    packet: Duration,
    ns_per_byte: f64,
    mss: f64,
    /// Processors that work at once: as many as there are, and no more than users.
    share: f64,
}

impl ClientCosts {
    /// The costs for so many users; `None` without `client_processors`: their hosts spend nothing.
    pub(crate) fn new(values: &Values, users: u32) -> Option<ClientCosts> {
        let processors = values.get("client_processors");
        (processors > 0.0).then(|| {
            let call = values.micros("system_call_us");
            ClientCosts {
                call,
                connection: values.micros("connection_us") + 2 * call,
                packet: values.micros("packet_us"),
                ns_per_byte: values.get("send_ns_per_byte"),
                mss: values.get("mss").max(1.0),
                share: processors.min(f64::from(users.max(1))),
            }
        })
    }

    /// Time that an effort takes from the users' hosts. A read takes a call, its packets, and an acknowledgment for every two
    /// of them.
    pub(crate) fn price(&self, effort: Effort<'_>) -> Duration {
        let copied = |bytes: usize| Duration::from_secs_f64(bytes as f64 * self.ns_per_byte / 1e9);
        let time = match effort {
            Effort::Connecting => self.connection,
            Effort::Sending(piece) => self.call + self.packet + copied(piece.len()),
            Effort::Heard(bytes) => {
                let packets = (bytes as f64 / self.mss).ceil() * 1.5;
                self.call + self.packet.mul_f64(packets) + copied(bytes)
            }
        };
        time.mul_f64(1.0 / self.share)
    }
}

/// A session's output: its head section, with whatever else it wrote itself, and the file behind it, which is shared.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: Vec<u8>,
    pub(crate) body: Bytes,
}

/// A part of an answer. The file's bytes are copied only when they are written: answers of megabytes wait for it.
#[derive(Debug)]
pub(crate) struct Piece {
    head: Vec<u8>,
    body: Bytes,
}

impl Answer {
    fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }

    fn piece(&self, from: usize, to: usize) -> Piece {
        let seam = self.head.len();
        let head = self.head[from.min(seam)..to.min(seam)].to_vec();
        let body = self
            .body
            .slice(from.saturating_sub(seam)..to.saturating_sub(seam));
        Piece { head, body }
    }
}

impl Piece {
    /// Bytes of the piece.
    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// The piece as one buffer.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        let mut bytes = self.head;
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::servers;

    fn costs(name: &str, changes: &[(&str, f64)]) -> Costs {
        let server = servers()
            .iter()
            .find(|server| server.name == name)
            .expect("a server");
        let changes: Vec<(String, f64)> = changes
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect();
        Costs::new(
            &Values::of(server, &changes).expect("known names"),
            server.concurrency,
        )
    }

    #[test]
    fn a_pie_is_relative_to_sending() {
        let zeus = costs("zeus", &[]);
        let sending = zeus.writing(PIE_BYTES).as_secs_f64();
        let http: f64 = zeus
            .request()
            .iter()
            .filter(|one| one.0 == Task::HttpProcessing)
            .map(|one| one.1.as_secs_f64())
            .sum();
        assert!((http / sending - 0.293).abs() < 0.001, "{}", http / sending);
        assert!((zeus.lookup().1.as_secs_f64() / sending - 0.512).abs() < 0.001);
    }

    #[test]
    fn users_share_the_processors_of_their_hosts() {
        let values = |changes: &[(String, f64)]| Values::of(&servers()[2], changes).expect("known names");
        assert!(ClientCosts::new(&values(&[]), 42).is_none());
        let with = values(&[("client_processors".to_owned(), 6.0)]);
        let price = |users, effort| {
            ClientCosts::new(&with, users)
                .expect("costs")
                .price(effort)
                .as_nanos()
        };
        // 852 us and two calls of 5 us; a request of 100 bytes is a call, a packet of 28 us and 9.8 ns for each byte.
        assert_eq!(price(1, Effort::Connecting), 862_000);
        assert_eq!(price(1, Effort::Sending(&[0; 100])), 33_980);
        // Two packets and an acknowledgment.
        assert_eq!(price(1, Effort::Heard(10_000)), 5_000 + 84_000 + 98_000);
        assert_eq!(price(2, Effort::Connecting), 431_000);
        assert_eq!(price(42, Effort::Connecting), 143_667);
    }

    #[test]
    fn locks_are_counted_and_heads_are_apart_when_they_are_costly() {
        let phttpd = costs("phttpd", &[]);
        assert_eq!(phttpd.request().iter().filter(|one| one.2).count(), 40);
        let answer = Answer {
            head: b"HTTP/1.0 200 OK\r\n\r\n".to_vec(),
            body: vec![0; 70_000].into(),
        };
        let lengths = |costs: Costs| -> Vec<usize> { costs.pieces(&answer).iter().map(Piece::len).collect() };
        assert_eq!(lengths(costs("jaws", &[])), [65_536, 70_019 - 65_536]);
        assert_eq!(
            lengths(costs("jaws", &[("costly", 1.0)])),
            [19, 65_536, 70_000 - 65_536]
        );
        let whole: Vec<u8> = costs("jaws", &[("write_kb", 1.0)])
            .pieces(&answer)
            .into_iter()
            .flat_map(Piece::into_bytes)
            .collect();
        assert!(whole == [&answer.head[..], &answer.body[..]].concat());
        let waits = |lock_us| -> Duration {
            let steps = costs("phttpd", &[("lock_us", lock_us)]).request();
            let locks = steps.iter().filter(|one| one.0 == Task::Synchronization);
            locks.map(|one| one.1).sum()
        };
        assert_eq!((waits(40.0) - waits(0.0)).as_micros(), 40 * 40);
        let dear = costs("jaws", &[("costly", 1.0)]).request()[0].1;
        let cheap = costs("jaws", &[]).request()[0].1;
        assert_eq!((dear - cheap).as_micros(), 60);
        assert!(costs("jaws", &[("traced_us", 9.0)]).call > costs("jaws", &[]).call);
    }
}
