//! Sources of packets: file, pipe or interface, and how they ended. Reads in chunks, so memory does not depend on the
//! capture's length. Hands each frame to the analyzer, saves it if requested, and passes results on after each chunk.

use super::report::Report;
use super::secrets::KeyLog;
use super::unpack::Unpacked;
use super::{analyzer, is_no_capture};
use crate::cli::trace::Flags;
use crate::failure::Failure;
use crate::voice::Voice;
use ::trace::{Analyzer, Found, Frame, LinkType, PcapngWriter, ReadError, Reader, Series};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use netem::packets::{Captured, Limits, Link, OpenError, Tap};
use runtime::clock;
use runtime::signal::{Signal, Signals};
use serde::Serialize;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use units::{Bytes, Duration, Instant};

/// Bytes per read.
const CHUNK: usize = 1 << 20;
/// Default snapshot length of a live capture, in bytes.
const SNAPLEN: Bytes = Bytes(256 << 10);
/// Delay before the first progress display.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
const SHOWN_EVERY: Duration = Duration::from_millis(200);
/// Time limit for draining packets captured before the end.
const DRAIN_MAX_NS: u64 = 2_000_000_000;

/// The reason why a capture ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reason {
    /// End of the input.
    End,
    /// The file is damaged, or the interface went away.
    Fault,
    /// A signal.
    Signal,
    /// The requested duration is over.
    Duration,
    /// The requested number of packets has arrived.
    Packets,
    /// The reader closed the output.
    Unwanted,
}

/// The end of a capture.
#[derive(Debug)]
pub(super) struct Ending {
    name: String,
    reason: Reason,
    error: Option<ReadError>,
    /// Error message of the system.
    refused: Option<String>,
    /// Error of the decompression, and the number of frames before it.
    damaged_packing: Option<(String, u64)>,
    /// Packets that a live capture lost.
    dropped: Option<u64>,
}

impl Ending {
    /// Name of the file or interface.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The fault of the file.
    pub(super) fn error(&self) -> Option<ReadError> {
        self.error
    }

    pub(super) fn reason(&self) -> Reason {
        self.reason
    }

    /// Packets lost by a live capture; `None` for a file.
    pub(super) fn dropped(&self) -> Option<u64> {
        self.dropped
    }

    /// Whether everything was read and reported.
    pub(super) fn is_complete(&self) -> bool {
        self.error.is_none()
            && self.refused.is_none()
            && self.damaged_packing.is_none()
            && self.dropped.unwrap_or(0) == 0
    }

    /// Whether the input is not a capture at all.
    pub(super) fn is_no_capture(&self) -> bool {
        self.error.as_ref().is_some_and(is_no_capture) || matches!(self.damaged_packing, Some((_, 0)))
    }

    /// The failure to report for an incomplete capture.
    pub(super) fn failure(&self) -> Failure {
        if let Some((why, frames)) = &self.damaged_packing {
            let text = format!(
                "{}: the gzip data is damaged or cut short after {frames} frames ({why}); everything before it was read",
                self.name
            );
            return if *frames == 0 {
                Failure::Usage(text)
            } else {
                Failure::Invalid(text)
            };
        }
        match (&self.refused, &self.error) {
            (Some(refused), _) => Failure::System(format!("{}: {refused}", self.name)),
            (None, Some(error)) if is_no_capture(error) => Failure::Usage(match error.fault {
                ::trace::Fault::Truncated { present: 0 } => {
                    format!("{}: the file is empty; a capture begins with a header", self.name)
                }
                _ => format!("{}: {error}", self.name),
            }),
            (None, Some(error)) => Failure::Invalid(format!("{}: {error}", self.name)),
            (None, None) => Failure::Invalid(format!(
                "{}: the kernel dropped {} packets because the buffer was full; use a narrower filter, or capture with tcpdump and read the \
                 file",
                self.name,
                self.dropped.unwrap_or(0)
            )),
        }
    }

    /// Success if the report is complete.
    ///
    /// # Errors
    /// As [`Ending::failure`].
    pub(super) fn judged(&self) -> Result<(), Failure> {
        if self.is_complete() {
            Ok(())
        } else {
            Err(self.failure())
        }
    }
}

/// Frames to be saved to another file.
struct Saved<'a> {
    path: &'a Path,
    file: File,
    writer: PcapngWriter,
    /// Link types in the order of their interfaces in the file.
    links: Vec<LinkType>,
    pending: Vec<u8>,
    name: &'a str,
}

impl<'a> Saved<'a> {
    fn create(path: &'a Path, name: &'a str) -> Result<Saved<'a>, Failure> {
        let mut pending = Vec::new();
        let writer = PcapngWriter::begin(&mut pending, concat!("weir ", env!("CARGO_PKG_VERSION")));
        Ok(Saved {
            path,
            file: create(path)?,
            writer,
            links: Vec::new(),
            pending,
            name,
        })
    }

    fn take(&mut self, frame: &Frame<'_>) {
        let known = self.links.iter().position(|link| *link == frame.link);
        let interface = known.unwrap_or_else(|| {
            self.writer.interface(&mut self.pending, frame.link, 0, self.name);
            self.links.push(frame.link);
            self.links.len() - 1
        });
        self.writer.frame(&mut self.pending, interface as u32, frame);
    }

    fn secrets(&mut self, key_log: &[u8]) {
        self.writer.secrets(&mut self.pending, key_log);
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let written = self.file.write_all(&self.pending);
        self.pending.clear();
        written.map_err(|error| {
            Failure::System(format!(
                "cannot write `{}`: {error}; free some space or write elsewhere",
                self.path.display()
            ))
        })
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "a command writes the file it is told to"
)]
pub(super) fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| {
        Failure::Usage(format!(
            "cannot write `{}`: {error}; name a file in a writable directory",
            path.display()
        ))
    })
}

#[allow(clippy::disallowed_methods, reason = "a command reads the file it is given")]
fn open(path: &Path) -> Result<File, Failure> {
    let fails = |error: io::Error| {
        let text = format!("cannot read `{}`: {error}", path.display());
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::IsADirectory => Failure::Usage(text),
            _ => Failure::System(text),
        }
    };
    let file = File::open(path).map_err(fails)?;
    if file.metadata().map_err(fails)?.is_dir() {
        return Err(fails(io::ErrorKind::IsADirectory.into()));
    }
    Ok(file)
}

/// The consumers of frames, and where secrets come from.
struct Work<'a> {
    analyzer: &'a mut Analyzer,
    report: &'a mut Report,
    saved: Option<Saved<'a>>,
    keys: Option<KeyLog>,
}

impl Work<'_> {
    /// Returns whether the frame passed the filter.
    fn frame(&mut self, frame: &Frame<'_>) -> bool {
        let passes = self.analyzer.frame(frame);
        if passes && let Some(saved) = &mut self.saved {
            saved.take(frame);
        }
        passes
    }

    /// Passes on secrets found in the capture.
    fn secrets(&mut self, key_log: &[u8]) {
        self.analyzer.add_secret_block(key_log);
        if let Some(saved) = &mut self.saved {
            saved.secrets(key_log);
        }
    }

    /// Reads what was logged since the last call.
    fn read_keys(&mut self) -> Result<(), Failure> {
        match &mut self.keys {
            Some(keys) => keys.read_on(self.analyzer),
            None => Ok(()),
        }
    }

    /// Reads the secrets there are; more may come if the packets come now, too.
    fn begin(&mut self, is_live: bool) -> Result<(), Failure> {
        self.read_keys()?;
        if self.keys.is_some() && is_live {
            self.analyzer.await_secrets();
        }
        Ok(())
    }

    /// Passes on completed results.
    fn drain(&mut self) -> Result<(), Failure> {
        while let Some(event) = self.analyzer.next_event() {
            self.report.event(event);
        }
        self.saved.as_mut().map_or(Ok(()), Saved::flush)
    }

    fn finish(&mut self) -> Result<(), Failure> {
        self.read_keys()?;
        self.analyzer.end_secrets();
        self.analyzer.finish_frames();
        self.drain()
    }
}

/// Reads a capture file or standard input.
///
/// # Errors
/// `Usage` if there is no such file, `System` if it cannot be read at all or the saved file cannot be written. A
/// damaged file is a normal ending, not an error.
pub(super) fn file(
    path: &Path,
    flags: &Flags,
    voice: &Voice,
    analyzer: &mut Analyzer,
    report: &mut Report,
) -> Result<Ending, Failure> {
    let is_pipe = path.as_os_str() == "-";
    let name = if is_pipe {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    };
    let (input, length): (Box<dyn Read>, Option<u64>) = if is_pipe {
        (Box::new(io::stdin().lock()), None)
    } else {
        let file = open(path)?;
        if let Some(target) = &flags.write
            && is_same(&file, target)
        {
            return Err(Failure::Usage(
                "--write names the input file, which would be emptied; name another file".to_owned(),
            ));
        }
        let length = file.metadata().ok().filter(|meta| meta.is_file());
        (Box::new(file), length.map(|meta| meta.len()))
    };
    let saved = flags.write.as_deref();
    let mut work = Work {
        analyzer,
        report,
        saved: saved.map(|path| Saved::create(path, &name)).transpose()?,
        keys: flags.keys.as_deref().map(KeyLog::open).transpose()?,
    };
    work.begin(is_pipe)?;
    if !is_pipe {
        work.analyzer.end_secrets();
    }
    // Ctrl-C reaches the pipe's writer and this program together; packets received so far are still reported.
    let mut signals = if is_pipe { Some(listen()?) } else { None };
    let mut input = Unpacked::new(input);
    let mut reader = Reader::new();
    let mut chunk = vec![0; CHUNK];
    let mut progress = Progress::new(length, voice);
    let mut read = 0;
    let mut ending = Ending {
        name: name.clone(),
        reason: Reason::End,
        error: None,
        refused: None,
        damaged_packing: None,
        dropped: None,
    };
    loop {
        if let Some(signals) = &mut signals
            && stopped(signals, None)?
        {
            ending.reason = Reason::Signal;
            break;
        }
        let n = match input.read(&mut chunk) {
            Ok(0) => break,
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if input.is_packed() && is_of_packing(&error) => {
                ending.reason = Reason::Fault;
                ending.damaged_packing = Some((error.to_string(), reader.frames()));
                break;
            }
            Err(error) => {
                ending.reason = Reason::Fault;
                ending.refused = Some(format!("reading stopped after {read} bytes: {error}"));
                break;
            }
        };
        read += n as u64;
        if is_pipe {
            work.read_keys()?;
        }
        let fed = reader.feed(&chunk[..n], |found| match found {
            Found::Frame(frame) => {
                work.frame(&frame);
            }
            Found::Secrets(key_log) => work.secrets(key_log),
        });
        work.drain()?;
        if let Err(error) = fed {
            ending.reason = Reason::Fault;
            ending.error = Some(error);
            break;
        }
        if work.report.is_unwanted() {
            ending.reason = Reason::Unwanted;
            break;
        }
        progress.show(read, reader.frames());
    }
    progress.clear();
    // After a signal, an incomplete last record is no fault.
    if ending.reason == Reason::End
        && let Err(error) = reader.finish()
    {
        ending.reason = Reason::Fault;
        ending.error = Some(error);
    }
    work.finish()?;
    Ok(ending)
}

/// Whether the error is about the data, not about reading it.
fn is_of_packing(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof)
}

/// Whether the path names the open file.
fn is_same(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
    match (file.metadata(), path.metadata()) {
        (Ok(open), Ok(named)) => identity(open) == identity(named),
        _ => false,
    }
}

fn listen() -> Result<Signals, Failure> {
    let mut signals = Signals::take_over()
        .map_err(|error| Failure::System(format!("cannot install signal handlers: {error}")))?;
    watch(&mut signals, io::stdin().as_fd().try_clone_to_owned())?;
    Ok(signals)
}

fn watch(signals: &mut Signals, also: io::Result<OwnedFd>) -> Result<(), Failure> {
    let also = also.map_err(|error| Failure::System(format!("dup: {error}")))?;
    signals.watch(also);
    Ok(())
}

/// Waits for input or a signal; true for a signal that means stop.
fn stopped(signals: &mut Signals, at_most: Option<Duration>) -> Result<bool, Failure> {
    signals
        .wait(at_most)
        .map(|signal| signal == Some(Signal::Stop))
        .map_err(|error| Failure::System(format!("signals: {error}")))
}

/// The points of the connection to draw; reads the packets again if the first pass did not record it.
///
/// # Errors
/// The file cannot be read again.
pub(super) fn again(flags: &Flags, report: &Report, recorded: Series) -> Result<Series, Failure> {
    // Packets from a pipe or an interface can be read again only if they were saved.
    let path = match (&flags.file, &flags.write, flags.connection) {
        (.., Some(_)) => return Ok(recorded),
        (Some(path), ..) if path.as_os_str() != "-" => path,
        (_, Some(saved), _) => saved,
        _ => return Ok(recorded),
    };
    let Some(candidate) = report.candidate() else {
        return Ok(recorded);
    };
    let input = open(path)?;
    if !input.metadata().is_ok_and(|meta| meta.is_file()) {
        return Ok(recorded);
    }
    let mut input = Unpacked::new(input);
    let mut analyzer = analyzer(flags, Some(candidate));
    if let Some(path) = &flags.keys {
        KeyLog::open(path)?.read_on(&mut analyzer)?;
        analyzer.end_secrets();
    }
    let mut chunk = vec![0; CHUNK];
    loop {
        let n = match input.read(&mut chunk) {
            Err(error) if input.is_packed() && is_of_packing(&error) => break,
            read => read.map_err(|error| {
                Failure::System(format!("cannot read `{}` again: {error}", path.display()))
            })?,
        };
        // The first pass has already reported a damaged file.
        if n == 0 || analyzer.feed(&chunk[..n]).is_err() {
            break;
        }
        while analyzer.next_event().is_some() {}
    }
    let _ = analyzer.finish();
    Ok(analyzer.take_series())
}

/// Captures on an interface until a limit or a signal.
///
/// # Errors
/// `Usage` if there is no such interface, `System` if capturing is refused.
pub(super) fn live(
    interface: &str,
    flags: &Flags,
    voice: &Voice,
    analyzer: &mut Analyzer,
    report: &mut Report,
) -> Result<Ending, Failure> {
    let limits = Limits {
        snaplen: usize::try_from(flags.snaplen.unwrap_or(SNAPLEN).0)
            .unwrap_or(usize::MAX)
            .clamp(64, 1 << 20),
        ..Limits::default()
    };
    let mut tap = Tap::open(interface, flags.promiscuous, limits).map_err(|error| {
        let text = format!("cannot capture on `{interface}`: {error}");
        match error {
            OpenError::NoInterface(_) => Failure::Usage(text),
            OpenError::Refused(..) => Failure::System(text),
        }
    })?;
    let link = match tap.link() {
        Link::Ethernet => LinkType::ETHERNET,
        Link::RawIp => LinkType::RAW,
        Link::Cooked => LinkType::LINUX_SLL2,
    };
    let mut signals = Signals::take_over()
        .map_err(|error| Failure::System(format!("cannot install signal handlers: {error}")))?;
    watch(&mut signals, tap.as_fd().try_clone_to_owned())?;
    let saved = flags.write.as_deref();
    let mut work = Work {
        analyzer,
        report,
        saved: saved.map(|path| Saved::create(path, interface)).transpose()?,
        keys: flags.keys.as_deref().map(KeyLog::open).transpose()?,
    };
    work.begin(true)?;
    let began = clock::now();
    let deadline = flags.duration.map(|duration| began + duration);
    let mut progress = Progress::new(None, voice);
    if voice.reports() {
        tracing::info!("capturing on {interface}; press Ctrl-C to end it and see the report");
    }
    let mut taken = Taken {
        link,
        packets_max: flags.packets.unwrap_or(u64::MAX),
        number: 0,
        passed: 0,
        bytes: 0,
    };
    let mut ending = Ending {
        name: interface.to_owned(),
        reason: Reason::Signal,
        error: None,
        refused: None,
        damaged_packing: None,
        dropped: None,
    };
    // `None` until there is a reason to stop; then packets captured before are still drained from the queue.
    let mut until = None;
    loop {
        let now = clock::now();
        if until.is_none() && deadline.is_some_and(|deadline| now >= deadline) {
            ending.reason = Reason::Duration;
            until = Some(civil_nanos());
        }
        let patience = deadline.map_or(SHOWN_EVERY, |deadline| SHOWN_EVERY.min(deadline.since(now)));
        if until.is_none() && stopped(&mut signals, Some(patience))? {
            until = Some(civil_nanos());
        }
        work.read_keys()?;
        let mut is_late = false;
        let came = tap.receive(|captured| {
            is_late = until.is_some_and(|until| captured.nanos > until);
            !is_late && taken.take(&captured, &mut work)
        });
        work.drain()?;
        match came {
            Ok(0) if until.is_some() => break,
            Ok(0) => work.report.flush(),
            Ok(_) => {}
            Err(error) => {
                ending.reason = Reason::Fault;
                ending.refused = Some(format!("the interface stopped: {error}"));
                break;
            }
        }
        if taken.is_enough() {
            ending.reason = Reason::Packets;
            break;
        }
        if work.report.is_unwanted() {
            ending.reason = Reason::Unwanted;
            break;
        }
        if is_late || until.is_some_and(|until| civil_nanos() > until + DRAIN_MAX_NS) {
            break;
        }
        progress.show(taken.bytes, taken.number);
    }
    progress.clear();
    ending.dropped = tap.counts().ok().map(|(_, dropped)| dropped);
    work.finish()?;
    Ok(ending)
}

/// Nanoseconds since 1970, the time base of packets. Never early: the clock may be one tick old.
fn civil_nanos() -> u64 {
    const TICK_NS: u64 = 10_000_000;
    let now = clock::wall();
    u64::try_from(now.secs).unwrap_or(0) * 1_000_000_000 + u64::from(now.nanos) + TICK_NS
}

/// The state of a live capture.
struct Taken {
    link: LinkType,
    packets_max: u64,
    number: u64,
    passed: u64,
    bytes: u64,
}

impl Taken {
    /// Takes a packet; returns whether more are wanted.
    fn take(&mut self, captured: &Captured<'_>, work: &mut Work<'_>) -> bool {
        self.number += 1;
        self.bytes += captured.data.len() as u64;
        let frame = Frame {
            number: self.number,
            at: Instant::from_nanos(captured.nanos),
            link: self.link,
            wire_len: u32::try_from(captured.wire_len).unwrap_or(u32::MAX),
            data: captured.data,
        };
        self.passed += u64::from(work.frame(&frame));
        !self.is_enough()
    }

    fn is_enough(&self) -> bool {
        self.passed >= self.packets_max
    }
}

/// A progress display for terminals.
struct Progress {
    bar: ProgressBar,
    began: Instant,
    shown: Instant,
}

impl Progress {
    fn new(length: Option<u64>, voice: &Voice) -> Progress {
        let target = if voice.reports() && !voice.json {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(length, target);
        let template = if length.is_some() {
            "{bar:24} {percent} % {msg}"
        } else {
            "{spinner} {msg}"
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        let now = clock::now();
        Progress {
            bar,
            began: now,
            shown: now,
        }
    }

    fn show(&mut self, bytes: u64, frames: u64) {
        if self.bar.is_hidden() {
            return;
        }
        let now = clock::now();
        if now.since(self.began) < SHOWN_AFTER || now.since(self.shown) < SHOWN_EVERY {
            return;
        }
        self.shown = now;
        self.bar.set_position(bytes);
        self.bar
            .set_message(format!("{frames} packets, {}", Bytes(bytes)));
    }

    fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
