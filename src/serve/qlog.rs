//! `--qlog`: the packets of HTTP/3 connections, a file for each. Datagrams and secrets are read as `weir trace` reads a capture,
//! and written as it writes qlog, with the server as the vantage point.
//!
//! ```text
//!   worker: datagrams ── pieces ──▶ queue (bytes) ──▶ thread: Analyzer ──▶ DIR/ID.qlog
//!              ▲                      │ full: dropped       │ limit, error: the log of the connection is over
//!              └── is it over? ◀──────┴─────────────────────┘
//! ```
//! No request waits for a file: a worker copies datagrams and takes a lock for as long as it takes to append a piece to the queue.
//! The name of a file is the ID that the client chose for its first packet (Original Destination Connection ID), which logs of
//! clients name, too. A file is valid JSON after every write that succeeds.

use super::managed::becomes_another;
use crate::cli::serve::Flags;
use crate::failure::Failure;
use crate::trace::qlog::{HEAD, TAIL, Vantage, head, http, line, milliseconds, parameters};
use crate::trace::secrets;
use crate::trace::taped::{framed, lost, metrics};
use ::trace::{Analyzer, Event, Frame, Limits, LinkType, Options, QuicPacket};
use quic::tape::{Begun, Log, Recorded, Recorder};
use runtime::background::Background;
use runtime::clock;
use runtime::fs::{GrowingFile, LogFolder, create_record_folder};
use runtime::process::privilege::{self, Account};
use serde_json::{Value, json};
use server::config::Config;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use units::{Duration, Instant};

/// Memory of the pieces that wait or are being written, in bytes. A piece has about 32 KiB.
const WAITING_BYTES: usize = 8 << 20;

/// Bytes that an analyzer may hold to match requests; packets do not need them.
const REASSEMBLY: usize = 256 << 10;

/// The ends of a connection in the frames of its analyzer. The real ones may change (migration), and a capture is not followed
/// then.
const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 49_152);
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 443);

/// Room that is kept in a file for the event that says what is missing.
const LAST_EVENT: u64 = 256;

/// The logs of a process.
#[derive(Clone)]
pub(super) struct Qlog {
    folder: Arc<Folder>,
    room: Arc<Room>,
    queue: Arc<Background<Piece>>,
}

/// Memory for pieces.
#[derive(Debug)]
struct Room {
    /// Bytes.
    taken: AtomicUsize,
    /// Limit on these.
    most: usize,
}

/// A part of the room, given back when dropped.
struct Share {
    room: Arc<Room>,
    bytes: usize,
}

/// The folder, and what was said about it.
#[derive(Debug)]
struct Folder {
    files: LogFolder,
    files_max: u32,
    /// Limit on the size of a file.
    bytes_max: u64,
    /// No further connection gets a log.
    is_full: AtomicBool,
    /// Logs whose connections go on. Each holds memory before it has a file, so there are at most `files_max`.
    open: AtomicU32,
    /// A file could not be written.
    has_failed: AtomicBool,
    /// Pieces were dropped.
    has_lost: AtomicBool,
}

/// Begins the logs of one address.
#[derive(Debug)]
struct At {
    qlog: Qlog,
    address: SocketAddr,
}

/// The worker's end of a log.
struct OfConnection {
    qlog: Qlog,
    writer: Arc<Mutex<Writer>>,
    is_over: Arc<AtomicBool>,
    /// Whether the thread has the first piece. Without it, no packet can be read.
    has_begun: bool,
    /// Datagrams of pieces that were dropped.
    missing: u64,
}

/// A part of a connection for the thread that writes.
struct Piece {
    writer: Arc<Mutex<Writer>>,
    /// `None`: the connection has ended.
    recorded: Option<Recorded>,
    _share: Share,
}

/// The log of one connection.
struct Writer {
    folder: Arc<Folder>,
    begun: Begun,
    /// Address that it was accepted at.
    address: SocketAddr,
    /// When it began, as the time since the epoch.
    wall: Duration,
    /// `None` before the first piece, and once the log is over.
    analyzer: Option<Analyzer>,
    /// Frames so far.
    frames: u64,
    file: Option<GrowingFile>,
    /// Whether the file has events, so that a comma precedes the next one.
    has_events: bool,
    is_over: Arc<AtomicBool>,
}

impl fmt::Debug for Qlog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Qlog").field("folder", &self.folder).finish()
    }
}

/// The absolute path of the folder, if there is one.
pub(super) fn folder(config: &Config) -> Option<PathBuf> {
    let path = config.qlog.as_deref()?;
    Some(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

/// Why files cannot be created in the folder of a configuration; `None` if they can, or if a start will create the folder.
pub(super) fn refusal(config: &Config) -> Option<String> {
    let folder = folder(config)?;
    let is_possible = match folder.exists() {
        true => privilege::can_make(&folder.join("file")),
        false => privilege::can_make(&folder),
    };
    let (uid, gid) = privilege::current();
    (!is_possible).then(|| {
        format!(
            "cannot create files in `{}` as user {uid}:{gid}; name a folder that this user can write to",
            folder.display()
        )
    })
}

impl Qlog {
    /// The logs of a configuration; `None` without `qlog`. Creates the folder if it is missing, for the user of the server, before
    /// rights are dropped.
    ///
    /// # Errors
    /// `Usage`, naming the folder, if it cannot be created.
    pub(super) fn open(config: &Config, flags: &Flags) -> Result<Option<Qlog>, Failure> {
        let Some(path) = folder(config) else {
            return Ok(None);
        };
        let cannot = |error: io::Error| {
            let why = format!(
                "cannot create the folder `{}`: {error}; create its parent, or name another folder",
                path.display()
            );
            flags.blame("qlog", why)
        };
        let is_new = create_record_folder(&path).map_err(cannot)?;
        if let Some(user) = config.user.as_ref().filter(|_| is_new && becomes_another(config))
            // A user that does not exist is reported where rights are dropped.
            && let Ok(account) = Account::find(&user.name, user.group.as_deref())
        {
            privilege::give(&path, &account).map_err(cannot)?;
        }
        Ok(Some(Qlog::of(
            path,
            config.qlog_files,
            config.qlog_size.0,
            WAITING_BYTES,
        )))
    }

    fn of(path: PathBuf, files_max: u32, bytes_max: u64, waiting_bytes: usize) -> Qlog {
        let count = usize::try_from(files_max).unwrap_or(usize::MAX);
        let folder = Arc::new(Folder {
            files: LogFolder::new(path, "qlog", count),
            files_max,
            bytes_max,
            is_full: AtomicBool::new(false),
            open: AtomicU32::new(0),
            has_failed: AtomicBool::new(false),
            has_lost: AtomicBool::new(false),
        });
        // Its thread starts with the first piece, so worker processes can be forked before. The room bounds it.
        let queue = Background::new("qlog", usize::MAX, |piece: Piece, _| piece.write());
        Qlog {
            folder,
            room: Arc::new(Room {
                taken: AtomicUsize::new(0),
                most: waiting_bytes,
            }),
            queue: Arc::new(queue),
        }
    }

    /// Says where packets go, or that there will be none. `is_served` tells whether HTTP/3 is.
    ///
    /// # Errors
    /// `Usage`, naming the folder, if the user of this process cannot create files in it.
    pub(super) fn announce(&self, config: &Config, flags: &Flags, is_served: bool) -> Result<(), Failure> {
        if let Some(why) = refusal(config) {
            return Err(flags.blame("qlog", why));
        }
        let folder = self.folder.files.path().display();
        match is_served {
            true => tracing::info!(
                "qlog: packets of HTTP/3 connections go to `{folder}`, up to {} files of {}; remove --qlog when you are done",
                self.folder.files_max,
                units::Bytes(self.folder.bytes_max)
            ),
            false => tracing::warn!(
                "qlog: nothing goes to `{folder}`, because HTTP/3 is not served; configure TLS, or remove --qlog"
            ),
        }
        Ok(())
    }

    /// Begins the logs of connections that are accepted at this address.
    pub(super) fn at(&self, address: SocketAddr) -> Arc<dyn Recorder> {
        Arc::new(At {
            qlog: self.clone(),
            address,
        })
    }

    /// Looks at the folder again, in which there may be room now.
    pub(super) fn look_again(&self) {
        let folder = &self.folder;
        for said in [&folder.is_full, &folder.has_failed, &folder.has_lost] {
            said.store(false, Ordering::Relaxed);
        }
    }

    /// Whether all is written.
    pub(super) fn is_finished(&self) -> bool {
        self.queue.is_idle()
    }
}

impl Room {
    /// `None` if so many bytes are not left.
    fn take(self: &Arc<Room>, bytes: usize) -> Option<Share> {
        let more = |taken: usize| Some(taken.checked_add(bytes)?).filter(|taken| *taken <= self.most);
        self.taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()?;
        Some(Share {
            room: Arc::clone(self),
            bytes,
        })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.room.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Folder {
    /// The folder has as many files as it may have.
    fn fill(&self) {
        if !self.is_full.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "qlog: `{}` has {} files, the limit (`qlog-files`): new connections are not logged; move files elsewhere and reload",
                self.files.path().display(),
                self.files_max
            );
        }
    }

    fn fail(&self, path: &Path, error: &io::Error) {
        if !self.has_failed.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "qlog: cannot write `{}`: {error}; logs of connections are missing or incomplete; make room or repair the folder, \
                 and reload to see this message again",
                path.display()
            );
        }
    }

    fn lose(&self) {
        if !self.has_lost.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "qlog: packets come faster than they are written; files say how many are missing; lower `qlog-files` and restart, or remove `qlog`"
            );
        }
    }
}

impl Recorder for At {
    fn begin(&self, begun: &Begun) -> Option<Box<dyn Log>> {
        let folder = &self.qlog.folder;
        if folder.is_full.load(Ordering::Relaxed) {
            return None;
        }
        if folder.open.fetch_add(1, Ordering::Relaxed) >= folder.files_max {
            folder.open.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Box::new(self.log_of(begun)))
    }
}

impl At {
    fn log_of(&self, begun: &Begun) -> OfConnection {
        let is_over = Arc::new(AtomicBool::new(false));
        let wall = clock::wall();
        let writer = Writer {
            folder: Arc::clone(&self.qlog.folder),
            begun: begun.clone(),
            address: self.address,
            wall: Duration::new(u64::try_from(wall.secs).unwrap_or(0), wall.nanos),
            analyzer: None,
            frames: 0,
            file: None,
            has_events: false,
            is_over: Arc::clone(&is_over),
        };
        OfConnection {
            qlog: self.qlog.clone(),
            writer: Arc::new(Mutex::new(writer)),
            is_over,
            has_begun: false,
            missing: 0,
        }
    }
}

impl Log for OfConnection {
    fn write(&mut self, mut recorded: Recorded) -> bool {
        recorded.missing += std::mem::take(&mut self.missing);
        let count = recorded.missing + recorded.datagrams.len() as u64;
        if self.offer(Some(recorded)) {
            self.has_begun = true;
        } else {
            self.missing = count;
            self.qlog.folder.lose();
        }
        self.has_begun && !self.is_over.load(Ordering::Relaxed)
    }
}

impl OfConnection {
    /// Passes a piece on. False if too many bytes wait.
    fn offer(&self, recorded: Option<Recorded>) -> bool {
        let bytes = size_of::<Piece>() + recorded.as_ref().map_or(0, Recorded::size);
        let Some(share) = self.qlog.room.take(bytes) else {
            return false;
        };
        self.qlog.queue.offer(Piece {
            writer: Arc::clone(&self.writer),
            recorded,
            _share: share,
        })
    }
}

impl Drop for OfConnection {
    fn drop(&mut self) {
        if self.has_begun {
            let missing = std::mem::take(&mut self.missing);
            if missing > 0 {
                let mut last = Recorded::default();
                last.missing = missing;
                self.offer(Some(last));
            }
            // If it is refused, only packets are missing that wait for their keys.
            self.offer(None);
        }
        self.qlog.folder.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Piece {
    fn write(self) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.is_over.load(Ordering::Relaxed) {
            return;
        }
        match &self.recorded {
            Some(recorded) => {
                let events = writer.events(recorded);
                writer.append(events);
            }
            None => {
                let events = writer.finish();
                if !events.is_empty() {
                    writer.append(events);
                }
                writer.end();
            }
        }
    }
}

/// Reads the packets of one connection.
fn analyzer() -> Analyzer {
    let mut analyzer = Analyzer::new(Options {
        packets: true,
        limits: Limits {
            connections: 1,
            segments: 0,
            reassembly: REASSEMBLY,
            points: 0,
            // The server knows when a connection ends.
            udp_idle: Duration::MAX,
            ..Limits::default()
        },
        ..Options::default()
    });
    secrets::equip(&mut analyzer);
    analyzer.await_secrets();
    analyzer
}

impl Writer {
    /// What a piece holds: each event with its time since the connection began.
    fn events(&mut self, recorded: &Recorded) -> Vec<(Duration, Value)> {
        let secrets = self.begun.secrets.take();
        let mut read = self.analyzer.take().unwrap_or_else(analyzer);
        read.add_secrets(secrets.as_bytes());
        let mut events = Vec::new();
        let mut frame = Vec::new();
        for passed in &recorded.datagrams {
            frame.clear();
            framed(&passed.bytes, !passed.is_sent, CLIENT, SERVER, &mut frame);
            self.frames += 1;
            read.frame(&Frame {
                number: self.frames,
                at: Instant::ZERO + self.wall + passed.at.since(self.begun.at),
                link: LinkType::RAW,
                wire_len: u32::try_from(frame.len()).unwrap_or(u32::MAX),
                data: &frame,
            });
            self.take(&mut read, &mut events);
        }
        self.analyzer = Some(read);
        let counters = recorded.counters.iter();
        events.extend(counters.map(|one| (one.at.since(self.begun.at), metrics(one))));
        let losses = recorded.losses.iter();
        events.extend(losses.map(|one| (one.at.since(self.begun.at), lost(one))));
        // Packets, counters and losses were recorded apart.
        events.sort_by_key(|(at, _)| *at);
        if recorded.missing > 0 {
            let at = events.first().map_or(Duration::ZERO, |(at, _)| *at);
            let text = format!("{} datagrams before this event are missing", recorded.missing);
            events.insert(0, (at, warning(&text)));
        }
        events
    }

    /// What is left once the connection has ended.
    fn finish(&mut self) -> Vec<(Duration, Value)> {
        let mut events = Vec::new();
        if let Some(mut read) = self.analyzer.take() {
            read.finish_frames();
            self.take(&mut read, &mut events);
        }
        events
    }

    /// Takes the packets that were read, and what they brought.
    fn take(&self, read: &mut Analyzer, events: &mut Vec<(Duration, Value)>) {
        while let Some(event) = read.next_event() {
            match event {
                Event::Packet(packet) => {
                    if self.frames == 1 && events.is_empty() {
                        events.push((Duration::ZERO, self.started(&packet)));
                    }
                    events.push((packet.at, line(&packet, Vantage::Server)));
                }
                Event::Parameters(set) => events.push((set.at, parameters(&set, Vantage::Server))),
                Event::Http3(frame) => events.push((frame.at, http(&frame, Vantage::Server))),
                _ => {}
            }
        }
    }

    /// The event of the start, which the client's first packet makes.
    fn started(&self, packet: &QuicPacket) -> Value {
        let from = self.begun.peer.ip().to_canonical();
        let to = self.begun.local.unwrap_or(self.address.ip()).to_canonical();
        json!({
            "name": "connectivity:connection_started",
            "data": {
                "ip_version": if to.is_ipv4() { "v4" } else { "v6" },
                "src_ip": from.to_string(),
                "dst_ip": to.to_string(),
                "protocol": "QUIC",
                "src_port": self.begun.peer.port(),
                "dst_port": self.address.port(),
                "src_cid": packet.source,
                "dst_cid": self.original_id(),
            },
        })
    }

    fn original_id(&self) -> String {
        let digits = self.begun.original_id.iter().map(|byte| format!("{byte:02x}"));
        digits.collect()
    }

    /// Writes events to the file, which the first ones create.
    fn append(&mut self, events: Vec<(Duration, Value)>) {
        let mut text = String::new();
        if self.file.is_none() {
            let id = self.original_id();
            match self.folder.files.create(&id) {
                Ok(Some(file)) => self.file = Some(file),
                Ok(None) => {
                    self.folder.fill();
                    return self.end();
                }
                Err(error) => {
                    self.folder.fail(self.folder.files.path(), &error);
                    return self.end();
                }
            }
            let start_ns = u64::try_from(self.wall.as_nanos()).unwrap_or(u64::MAX);
            text.push_str(HEAD);
            text.push('\n');
            text.push_str(&head(
                &format!("connection {id}"),
                Vantage::Server,
                Some(&id),
                start_ns,
            ));
        }
        let Some(file) = &mut self.file else { return };
        let has_events = &mut self.has_events;
        let most = self.folder.bytes_max.saturating_sub(LAST_EVENT);
        let mut push = |(at, mut event): (Duration, Value), text: &mut String, most: u64| {
            event["time"] = milliseconds(at).into();
            let event = event.to_string();
            let length = file.len() + (text.len() + event.len() + 2 + TAIL.len()) as u64;
            if length > most {
                return false;
            }
            text.push_str(if *has_events { ",\n" } else { "\n" });
            *has_events = true;
            text.push_str(&event);
            true
        };
        let mut is_full = false;
        for event in events {
            let at = event.0;
            if !push(event, &mut text, most) {
                let last = warning("the file has reached its limit (qlog-size): later events are missing");
                push((at, last), &mut text, self.folder.bytes_max);
                is_full = true;
                break;
            }
        }
        let written = file.append(text.into_bytes(), TAIL.as_bytes());
        if let Err(error) = &written {
            self.folder.fail(file.path(), error);
        }
        if is_full || written.is_err() {
            self.end();
        }
    }

    /// The log is over: closes the file and gives memory back.
    fn end(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.file = None;
        self.analyzer = None;
    }
}

/// An event that tells readers of the file.
fn warning(message: &str) -> Value {
    json!({"name": "generic:warning", "data": {"message": message}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use quic::tape::Passed;

    /// A log of a queue in which so many bytes may wait.
    fn log(folder: &Path, waiting_bytes: usize) -> OfConnection {
        let at = At {
            qlog: Qlog::of(folder.to_owned(), 1, 1 << 20, waiting_bytes),
            address: SERVER,
        };
        at.log_of(&Begun {
            original_id: vec![0xab, 0xcd],
            peer: SERVER,
            local: None,
            at: Instant::ZERO,
            secrets: Arc::default(),
        })
    }

    fn piece() -> Recorded {
        let passed = Passed {
            connection: 0,
            at: Instant::ZERO,
            is_sent: true,
            bytes: b"nothing that can be read".to_vec(),
        };
        let mut recorded = Recorded::default();
        recorded.datagrams.push(passed);
        recorded
    }

    /// Bytes that these pieces take of the room.
    fn room_for(pieces: usize) -> usize {
        pieces * (size_of::<Piece>() + piece().size())
    }

    #[test]
    fn pieces_that_find_no_room_are_counted_in_the_file() {
        const PIECES: u64 = 10;
        let folder = tempfile::tempdir().expect("a folder");
        let mut log = log(folder.path(), room_for(2));
        let writer = Arc::clone(&log.writer);
        let busy = writer.lock().expect("nobody panicked");
        for _ in 0..PIECES {
            assert!(log.write(piece()), "the log goes on");
        }
        // One may be with the thread already; it takes its room until it is written.
        let missing = log.missing;
        assert_eq!(missing, PIECES - 2);
        assert!(log.qlog.folder.has_lost.load(Ordering::Relaxed));
        drop(busy);
        let until = clock::now() + Duration::from_secs(60);
        let wait = |log: &OfConnection| {
            while !log.qlog.is_finished() {
                assert!(clock::now() < until, "the thread writes");
                std::thread::yield_now();
            }
        };
        wait(&log);
        assert!(log.write(piece()));
        assert_eq!(log.missing, 0);
        wait(&log);
        let text = std::fs::read_to_string(folder.path().join("abcd.qlog")).expect("a log");
        let file: Value = serde_json::from_str(&text).expect("JSON");
        let events = file["traces"][0]["events"].as_array().expect("events");
        let said = format!("{missing} datagrams before this event are missing");
        assert_eq!(events.len(), 1, "{text}");
        assert_eq!(events[0]["data"]["message"], said);
        assert_eq!(
            log.qlog.room.taken.load(Ordering::Relaxed),
            0,
            "all room is given back"
        );
    }

    /// Nobody can read packets without the first ones.
    #[test]
    fn a_log_whose_first_piece_finds_no_room_is_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut log = log(folder.path(), 0);
        assert!(!log.write(piece()));
        drop(log);
        assert_eq!(folder.path().read_dir().expect("the folder").count(), 0);
    }
}
