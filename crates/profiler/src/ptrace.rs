//! Tracing by ptrace: each thread stops at every entry and exit, is inspected, and continues.
//!
//! ```text
//!   seized ──interrupt──▶ stopped ──go on──▶ entry ──go on──▶ exit ──go on──▶ entry …
//!                            ▲                  a signal on its way is handed on, a stop by SIGSTOP is kept
//! ```
//! A thread's processor time is read from its `schedstat` while it is stopped, to tell waiting from running. A call
//! that the tracer interrupts returns EINTR, as under any debugger. What calls mean is not known here.

use super::{ENDS, Event, Refusals, SIGCHLD, Tracer, What, tasks};
use runtime::clock;
use runtime::sys::{
    self,
    ptrace::{At, Stop},
};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use units::Duration;

/// Stops processed before the time is checked.
const BATCH: usize = 256;
/// How long threads may take to stop before they are released.
const LEAVE_MAX: Duration = Duration::from_secs(2);

struct Thread {
    process: u32,
    /// The file with its processor time.
    schedstat: Option<File>,
}

pub(super) struct Ptrace {
    threads: BTreeMap<u32, Thread>,
    /// Processes that ended, with their exit codes.
    ended: BTreeMap<u32, i32>,
}

impl Ptrace {
    /// Watches these threads and returns those it may not watch. A thread that ended meanwhile is in neither group.
    pub(super) fn attach(threads: &[u32]) -> io::Result<(Ptrace, Refusals)> {
        let mut seized = Ptrace {
            threads: BTreeMap::new(),
            ended: BTreeMap::new(),
        };
        let mut refusals = Refusals::default();
        let mut gone = None;
        for &thread in threads {
            match sys::ptrace::seize(thread).and_then(|()| sys::ptrace::interrupt(thread)) {
                Ok(()) => {
                    seized.thread(thread);
                }
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => gone = Some(error),
                Err(error) => {
                    refusals.threads.push(thread);
                    refusals.error.get_or_insert(error);
                }
            }
        }
        if seized.threads.is_empty()
            && let Some(error) = refusals.error.take().or(gone)
        {
            return Err(error);
        }
        Ok((seized, refusals))
    }

    fn thread(&mut self, thread: u32) -> &Thread {
        self.threads.entry(thread).or_insert_with(|| Thread {
            process: tasks::process_of(thread).unwrap_or(thread),
            schedstat: File::open(format!("/proc/{thread}/schedstat")).ok(),
        })
    }

    fn ran(thread: &Thread) -> Option<Duration> {
        let mut text = [0; 64];
        let len = thread.schedstat.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..len]).ok()?;
        tasks::parse_schedstat(text).map(|(ran, _)| ran)
    }

    /// Delivers the event of a stop; the thread stays stopped.
    fn tell(&mut self, number: u32, what: What, take: &mut dyn FnMut(Event)) {
        let thread = self.thread(number);
        let (process, ran) = (thread.process, Self::ran(thread));
        take(Event {
            process,
            thread: number,
            at: clock::now(),
            ran,
            what,
        });
    }

    fn stopped(&mut self, number: u32, stop: Stop, take: &mut dyn FnMut(Event)) {
        let signal = match stop {
            Stop::Call => {
                match sys::ptrace::at(number) {
                    Ok(At::Entry { call, arguments }) => {
                        self.tell(number, What::Enter { call, arguments }, take);
                    }
                    Ok(At::Exit { result }) => self.tell(number, What::Exit { result }, take),
                    Ok(At::Elsewhere) | Err(_) => {}
                }
                0
            }
            Stop::Made | Stop::Event => {
                self.thread(number);
                0
            }
            Stop::Group => {
                // If it was killed meanwhile, its end is reported next.
                let _ = sys::ptrace::stay(number);
                return;
            }
            Stop::Signal(signal) => signal,
            Stop::Ended(code) => return self.end(number, code, take),
        };
        // If it was killed meanwhile, its end is reported next.
        let _ = sys::ptrace::go_on(number, signal);
    }

    fn end(&mut self, number: u32, code: i32, take: &mut dyn FnMut(Event)) {
        if let Some(thread) = self.threads.remove(&number) {
            if thread.process == number {
                self.ended.insert(number, code);
            }
            take(Event {
                process: thread.process,
                thread: number,
                at: clock::now(),
                ran: None,
                what: What::Gone,
            });
        }
    }

    /// The next stop; `None` if there are no more threads to wait for.
    fn next(&self) -> io::Result<Option<(u32, Stop)>> {
        match sys::ptrace::next_stop() {
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
            other => other,
        }
    }
}

impl Tracer for Ptrace {
    fn turn(&mut self, patience: Duration, take: &mut dyn FnMut(Event)) -> io::Result<bool> {
        for _ in 0..BATCH {
            match self.next()? {
                Some((thread, stop)) => self.stopped(thread, stop, take),
                None => {
                    let signals = [ENDS[0], ENDS[1], SIGCHLD];
                    let came = sys::next_signal(&signals, Some(patience))?;
                    return Ok(came.is_some_and(|signal| signal != SIGCHLD));
                }
            }
        }
        Ok(sys::next_signal(&ENDS, Some(Duration::ZERO))?.is_some())
    }

    /// Threads have to be stopped to be released.
    fn finish(mut self: Box<Self>, take: &mut dyn FnMut(Event)) -> io::Result<u64> {
        for &thread in self.threads.keys() {
            // If it has ended, its end is reported.
            let _ = sys::ptrace::interrupt(thread);
        }
        let until = clock::now() + LEAVE_MAX;
        while !self.threads.is_empty() && clock::now() < until {
            match self.next()? {
                Some((thread, Stop::Ended(code))) => self.end(thread, code, take),
                Some((thread, stop)) => {
                    let signal = match stop {
                        Stop::Signal(signal) => signal,
                        _ => 0,
                    };
                    let _ = sys::ptrace::detach(thread, signal);
                    self.threads.remove(&thread);
                }
                None => {
                    sys::next_signal(&[SIGCHLD], Some(Duration::from_millis(20)))?;
                }
            }
        }
        Ok(0)
    }

    fn ended(&self, process: u32) -> Option<i32> {
        self.ended.get(&process).copied()
    }

    fn waits(&self) -> bool {
        true
    }
}
