//! A file that lines are appended to by a thread of its own, so that no worker waits for a disk.
//!
//! ```text
//!   worker ── write(lines) ──▶ queue (bounded) ──▶ writer thread ──▶ file
//!     ▲                                               │
//!     └────────────── empty buffers ◀─────────────────┘
//! ```
//! Decides what happens when the disk is slower than the lines (the newest are dropped and counted) and
//! when it fails (said once a second, tried again). Refuses to know what a line says.

use crate::clock;
use measure::{Duration, Instant};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Bytes that may wait for the disk; beyond, lines are dropped.
const QUEUE_BYTES_MAX: usize = 8 << 20;
/// Empty buffers kept for workers.
const SPARE_MAX: usize = 16;
/// How often at most a failing disk is written about.
const COMPLAIN_EVERY: Duration = Duration::from_secs(1);

/// A log file and its writer. Dropping the last handle writes everything out.
#[derive(Debug)]
pub struct LogFile {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    /// Something is to be done by the writer.
    work: Condvar,
    /// The writer has done everything there was.
    idle: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Vec<u8>>,
    waiting_bytes: usize,
    spare: Vec<Vec<u8>>,
    reopen: bool,
    writing: bool,
    ended: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogFile {
    /// Opens a file for appending, made if it is missing; `-` is standard output.
    ///
    /// # Errors
    /// What the system says to opening it or to the thread.
    pub fn open(path: &Path) -> io::Result<LogFile> {
        let target = Target::open(path)?;
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            work: Condvar::new(),
            idle: Condvar::new(),
        });
        let writer = std::thread::Builder::new().name("weir-log".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || run(&shared, target)
        })?;
        Ok(LogFile {
            shared,
            writer: Some(writer),
        })
    }

    /// Takes whole lines. Gives back an empty buffer, or the lines themselves if there is no room for
    /// them: the disk is slower than they come.
    ///
    /// # Errors
    /// The lines, not taken.
    pub fn write(&self, lines: Vec<u8>) -> Result<Vec<u8>, Vec<u8>> {
        let mut queue = self.shared.lock();
        if queue.waiting_bytes + lines.len() > QUEUE_BYTES_MAX {
            return Err(lines);
        }
        queue.waiting_bytes += lines.len();
        queue.waiting.push_back(lines);
        let empty = queue.spare.pop().unwrap_or_default();
        drop(queue);
        self.shared.work.notify_one();
        Ok(empty)
    }

    /// Opens the file again under its name, for the one that had it was moved away. Lines taken before
    /// go into the old one.
    pub fn reopen(&self) {
        self.shared.lock().reopen = true;
        self.shared.work.notify_one();
    }

    /// Waits until everything taken so far is written.
    pub fn flush(&self) {
        let mut queue = self.shared.lock();
        while queue.writing || queue.reopen || !queue.waiting.is_empty() {
            queue = self
                .shared
                .idle
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.work.notify_one();
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has nothing left to write.
            let _ = writer.join();
        }
    }
}

/// Where lines go.
#[derive(Debug)]
enum Target {
    StandardOutput,
    File { path: PathBuf, file: File },
}

impl Target {
    fn open(path: &Path) -> io::Result<Target> {
        if path.as_os_str() == "-" {
            return Ok(Target::StandardOutput);
        }
        Ok(Target::File {
            path: path.to_owned(),
            file: append(path)?,
        })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Target::StandardOutput => {
                let mut out = io::stdout().lock();
                out.write_all(bytes)?;
                out.flush()
            }
            Target::File { file, .. } => file.write_all(bytes),
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        if let Target::File { path, file } = self {
            *file = append(path)?;
        }
        Ok(())
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

fn run(shared: &Shared, mut target: Target) {
    let mut complained: Option<Instant> = None;
    let mut complain = |what: &str, error: &io::Error| {
        let now = clock::now();
        if complained.is_none_or(|last| now >= last + COMPLAIN_EVERY) {
            complained = Some(now);
            tracing::error!("access log: {what}: {error}; lines are lost until this is mended");
        }
    };
    loop {
        let mut queue = shared.lock();
        queue.writing = false;
        while queue.waiting.is_empty() && !queue.reopen && !queue.ended {
            shared.idle.notify_all();
            queue = shared.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.writing = true;
        let lines = std::mem::take(&mut queue.waiting);
        queue.waiting_bytes = 0;
        let reopen = std::mem::take(&mut queue.reopen);
        let ended = queue.ended;
        drop(queue);
        for mut buffer in lines {
            if let Err(error) = target.write(&buffer) {
                complain("cannot write", &error);
            }
            buffer.clear();
            let mut queue = shared.lock();
            if queue.spare.len() < SPARE_MAX {
                queue.spare.push(buffer);
            }
        }
        if reopen && let Err(error) = target.reopen() {
            complain("cannot open it again", &error);
        }
        if ended {
            shared.lock().writing = false;
            shared.idle.notify_all();
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("weir-log-{}-{name}", std::process::id()))
    }

    fn read(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap_or_default()
    }

    #[test]
    fn nothing_is_lost_when_it_is_dropped() {
        let path = path("drop");
        let log = LogFile::open(&path).expect("a file");
        for number in 0..1000 {
            log.write(format!("line {number}\n").into_bytes()).expect("room");
        }
        drop(log);
        let text = read(&path);
        assert_eq!(text.lines().count(), 1000);
        assert!(text.ends_with("line 999\n"));
        std::fs::remove_file(path).expect("our own file");
    }

    #[test]
    fn a_moved_file_is_left_and_made_anew() {
        let (path, moved) = (path("moved"), path("moved.1"));
        let log = LogFile::open(&path).expect("a file");
        log.write(b"before\n".to_vec()).expect("room");
        log.flush();
        std::fs::rename(&path, &moved).expect("our own file");
        log.write(b"between\n".to_vec()).expect("room");
        log.reopen();
        log.flush();
        log.write(b"after\n".to_vec()).expect("room");
        log.flush();
        assert_eq!(
            (read(&moved).as_str(), read(&path).as_str()),
            ("before\nbetween\n", "after\n")
        );
        for file in [path, moved] {
            std::fs::remove_file(file).expect("our own file");
        }
    }

    #[test]
    fn lines_beyond_the_bound_are_given_back() {
        let path = path("bound");
        let log = LogFile::open(&path).expect("a file");
        let too_much = vec![b'x'; QUEUE_BYTES_MAX + 1];
        assert_eq!(log.write(too_much.clone()), Err(too_much));
        drop(log);
        std::fs::remove_file(path).expect("our own file");
    }
}
