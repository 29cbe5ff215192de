//! Signals as values: a thread-safe queue that the main thread waits on.
//!
//! Decides which signals mean what, and does not act on them. The handlers (signal-hook's) only write a byte into a
//! pipe, which is all a handler may do.

use crate::sys;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::low_level::pipe;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use units::Duration;

/// A request by the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM or SIGINT.
    Stop,
    /// SIGHUP.
    Reload,
    /// SIGUSR1.
    ReopenLogs,
    /// SIGUSR2.
    Upgrade,
}

/// Signals sent to this process since this value was created.
pub struct Signals {
    pipes: Vec<(UnixStream, Signal)>,
    heeds: Box<dyn FnMut(Signal) -> bool + Send>,
    /// A further descriptor that ends a wait.
    also: Option<std::os::fd::OwnedFd>,
}

impl std::fmt::Debug for Signals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signals")
            .field("pipes", &self.pipes)
            .finish_non_exhaustive()
    }
}

impl Signals {
    /// Replaces the signals' default actions, which end the process.
    ///
    /// # Errors
    /// The system's, for pipes and handlers.
    pub fn take_over() -> io::Result<Signals> {
        let all = [
            (SIGTERM, Signal::Stop),
            (SIGINT, Signal::Stop),
            (SIGHUP, Signal::Reload),
            (SIGUSR1, Signal::ReopenLogs),
            (SIGUSR2, Signal::Upgrade),
        ];
        Signals::of(&all, Box::new(|_| true))
    }

    /// As [`Signals::take_over`], for a worker process, which leaves SIGINT to its founder: a terminal sends it to
    /// both. `heeds` tells whether another signal came from the founder; all others are ignored.
    pub(crate) fn take_over_from_founder(
        heeds: impl FnMut(Signal) -> bool + Send + 'static,
    ) -> io::Result<Signals> {
        let some = [
            (SIGTERM, Signal::Stop),
            (SIGHUP, Signal::Reload),
            (SIGUSR1, Signal::ReopenLogs),
            (SIGUSR2, Signal::Upgrade),
        ];
        Signals::of(&some, Box::new(heeds))
    }

    fn of(meanings: &[(i32, Signal)], heeds: Box<dyn FnMut(Signal) -> bool + Send>) -> io::Result<Signals> {
        let take = |&(number, meaning): &(i32, Signal)| {
            let (read, write) = UnixStream::pair()?;
            read.set_nonblocking(true)?;
            write.set_nonblocking(true)?;
            pipe::register(number, write)?;
            io::Result::Ok((read, meaning))
        };
        let pipes = meanings.iter().map(take).collect::<io::Result<_>>()?;
        // A founder's members have them blocked, and so has a process that an upgrade started. Signals sent meanwhile
        // arrive now.
        let numbers: Vec<i32> = meanings.iter().map(|(number, _)| *number).collect();
        sys::unblock(&numbers)?;
        Ok(Signals {
            pipes,
            heeds,
            also: None,
        })
    }

    /// Ends waits early when this is readable.
    pub fn watch(&mut self, also: std::os::fd::OwnedFd) {
        self.also = Some(also);
    }

    /// Drops what [`Signals::watch`] was given.
    pub fn watch_nothing_else(&mut self) {
        self.also = None;
    }

    /// The next signal, or `None` within this time. `None` may also come earlier.
    ///
    /// # Errors
    /// The error of `poll`, except interruptions.
    pub fn wait(&mut self, at_most: Option<Duration>) -> io::Result<Option<Signal>> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let timeout = at_most.map(|span| Timespec {
            tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(span.subsec_nanos()),
        });
        let ready: Vec<bool> = {
            let mut waiting: Vec<PollFd<'_>> = self
                .pipes
                .iter()
                .map(|(read, _)| PollFd::new(read, PollFlags::IN))
                .chain(self.also.iter().map(|also| PollFd::new(also, PollFlags::IN)))
                .collect();
            match poll(&mut waiting, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let ready = waiting
                .iter()
                .map(|entry| entry.revents().contains(PollFlags::IN));
            ready.collect()
        };
        for ((read, meaning), is_ready) in self.pipes.iter_mut().zip(ready) {
            // One byte is one signal, so a second SIGTERM is told from the first.
            if is_ready && matches!(read.read(&mut [0]), Ok(1)) {
                return Ok(Some(*meaning).filter(|meaning| (self.heeds)(*meaning)));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::low_level::raise;

    #[test]
    fn each_signal_is_seen_once() {
        let mut signals = Signals::take_over().expect("handlers");
        let soon = Some(Duration::from_secs(5));
        let none = Some(Duration::ZERO);
        assert_eq!(signals.wait(none).expect("poll"), None);
        for (number, meaning) in [
            (SIGTERM, Signal::Stop),
            (SIGHUP, Signal::Reload),
            (SIGUSR1, Signal::ReopenLogs),
            (SIGUSR2, Signal::Upgrade),
            (SIGINT, Signal::Stop),
        ] {
            raise(number).expect("a signal to ourselves");
            assert_eq!(signals.wait(soon).expect("poll"), Some(meaning));
            assert_eq!(signals.wait(none).expect("poll"), None);
        }
        raise(SIGTERM).expect("a signal to ourselves");
        raise(SIGTERM).expect("a signal to ourselves");
        assert_eq!(signals.wait(soon).expect("poll"), Some(Signal::Stop));
        assert_eq!(signals.wait(soon).expect("poll"), Some(Signal::Stop));
    }
}
