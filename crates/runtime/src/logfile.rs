//! Writes whole buffers of log lines to a file from a thread of its own, so that a slow disk never
//! holds up a worker.
//!
//! ```text
//!   worker ── full buffer ──▶ queue (bounded in bytes) ──▶ thread ── write ──▶ file
//!     ▲                                                        │
//!     └───────────────── empty buffer ◀────────────────────────┘
//! ```
//! When the disk is so slow that the queue is full, lines are dropped and counted; nothing else
//! waits. Dropping the [`LogFile`] writes what is queued.

use measure::Bytes;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{Stderr, Stdout, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Where lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Appended to this file, which is made if it does not exist.
    File(PathBuf),
    /// Standard output.
    Stdout,
}

/// Bytes queued at the most: a second of a fast server's log.
const QUEUED_MAX: Bytes = Bytes::mib(16);
/// Empty buffers kept for the workers.
const SPARE_MAX: usize = 8;

/// A log file and the thread that writes it.
#[derive(Debug)]
pub struct LogFile {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    target: Target,
    queued_max: usize,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    buffers: VecDeque<Vec<u8>>,
    bytes: usize,
    spare: Vec<Vec<u8>>,
    reopen: bool,
    closed: bool,
}

#[derive(Debug)]
enum Sink {
    File(File),
    Stdout(Stdout),
    /// The file could not be opened again; lines go to standard error rather than nowhere.
    Stderr(Stderr),
}

impl LogFile {
    /// Opens the target and starts the thread.
    ///
    /// # Errors
    /// Why the file cannot be opened for appending.
    pub fn open(target: Target) -> std::io::Result<LogFile> {
        LogFile::bounded(target, QUEUED_MAX)
    }

    fn bounded(target: Target, queued_max: Bytes) -> std::io::Result<LogFile> {
        let mut sink = open(&target)?;
        let shared = Arc::new(Shared {
            target,
            queued_max: queued_max.0 as usize,
            queue: Mutex::default(),
            changed: Condvar::new(),
        });
        let thread = std::thread::Builder::new().name("weir-log".into()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.run(&mut sink)
        })?;
        Ok(LogFile {
            shared,
            thread: Some(thread),
        })
    }

    /// Queues whole lines. Gives back an empty buffer to fill next, and how many lines were dropped
    /// because the queue is full: none, or all of these.
    pub fn write(&self, mut lines: Vec<u8>) -> (Vec<u8>, u64) {
        let mut queue = self.shared.queue();
        if queue.bytes + lines.len() > self.shared.queued_max {
            drop(queue);
            let dropped = lines.iter().filter(|b| **b == b'\n').count() as u64;
            lines.clear();
            return (lines, dropped);
        }
        queue.bytes += lines.len();
        queue.buffers.push_back(lines);
        let spare = queue.spare.pop().unwrap_or_default();
        drop(queue);
        self.shared.changed.notify_one();
        (spare, 0)
    }

    /// Opens the file by its name again, after what is queued now was written to the old one: for
    /// whoever has moved it away.
    pub fn reopen(&self) {
        self.shared.queue().reopen = true;
        self.shared.changed.notify_one();
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        self.shared.queue().closed = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // It cannot panic but for want of memory, which has been reported then.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, sink: &mut Sink) {
        let mut queue = self.queue();
        let mut complained = false;
        loop {
            if let Some(mut buffer) = queue.buffers.pop_front() {
                drop(queue);
                if let Err(error) = sink.write(&buffer)
                    && !std::mem::replace(&mut complained, true)
                {
                    tracing::error!(
                        "writing the log to {} failed: {error}; lines are lost",
                        self.name()
                    );
                }
                queue = self.queue();
                queue.bytes -= buffer.len();
                if queue.spare.len() < SPARE_MAX {
                    buffer.clear();
                    queue.spare.push(buffer);
                }
            } else if std::mem::take(&mut queue.reopen) {
                drop(queue);
                complained = false;
                *sink = open(&self.target).unwrap_or_else(|error| {
                    tracing::error!(
                        "opening {} again failed: {error}; log lines go to standard error",
                        self.name()
                    );
                    Sink::Stderr(std::io::stderr())
                });
                queue = self.queue();
            } else if queue.closed {
                return;
            } else {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn name(&self) -> std::path::Display<'_> {
        match &self.target {
            Target::File(path) => path.display(),
            Target::Stdout => Path::new("standard output").display(),
        }
    }
}

fn open(target: &Target) -> std::io::Result<Sink> {
    Ok(match target {
        Target::Stdout => Sink::Stdout(std::io::stdout()),
        Target::File(path) => Sink::File(OpenOptions::new().create(true).append(true).open(path)?),
    })
}

impl Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Sink::File(file) => file.write_all(bytes),
            Sink::Stdout(out) => {
                out.write_all(bytes)?;
                out.flush()
            }
            Sink::Stderr(err) => err.write_all(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_was_queued_is_written_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let log = LogFile::open(Target::File(path.clone())).unwrap();
        let mut buffer = Vec::new();
        for line in 0..1000 {
            buffer.extend_from_slice(format!("{line}\n").as_bytes());
            let dropped;
            (buffer, dropped) = log.write(buffer);
            assert_eq!((buffer.len(), dropped), (0, 0));
        }
        drop(log);
        let wanted: String = (0..1000).map(|line| format!("{line}\n")).collect();
        assert_eq!(std::fs::read_to_string(path).unwrap(), wanted);
    }

    #[test]
    fn a_moved_file_is_made_anew_on_request() {
        let dir = tempfile::tempdir().unwrap();
        let (path, moved) = (dir.path().join("log"), dir.path().join("log.1"));
        let log = LogFile::open(Target::File(path.clone())).unwrap();
        log.write(b"old\n".to_vec());
        std::fs::rename(&path, &moved).unwrap();
        log.reopen();
        // The order is kept: what was queued before goes to the old file, what comes later to the new.
        while !path.exists() {
            std::thread::yield_now();
        }
        log.write(b"new\n".to_vec());
        drop(log);
        assert_eq!(std::fs::read(moved).unwrap(), b"old\n");
        assert_eq!(std::fs::read(path).unwrap(), b"new\n");
    }

    #[test]
    fn past_the_bound_lines_are_dropped_and_counted() {
        let dir = tempfile::tempdir().unwrap();
        let log = LogFile::bounded(Target::File(dir.path().join("log")), Bytes(4)).unwrap();
        assert_eq!(log.write(b"a\nb\nc\n".to_vec()), (Vec::new(), 3));
        assert_eq!(log.write(b"ok\n".to_vec()).1, 0);
    }

    #[test]
    fn a_path_that_cannot_be_written_is_an_error_at_once() {
        assert!(LogFile::open(Target::File("/nonexistent/dir/log".into())).is_err());
    }
}
