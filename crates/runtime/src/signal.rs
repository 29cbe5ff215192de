//! Signals as values, for the one thread that waits for them.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals as Iter;

/// What someone outside asks of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM or SIGINT: end.
    End,
    /// SIGHUP: read the configuration again.
    Reload,
    /// SIGUSR1: open the log files again.
    Reopen,
}

/// The signals this process takes, from when this is made.
#[derive(Debug)]
pub struct Signals(Iter);

impl Signals {
    /// Takes them over from the default action, which is to die.
    ///
    /// # Errors
    /// What the system says to a handler or pipe.
    pub fn take() -> std::io::Result<Signals> {
        Ok(Signals(Iter::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1])?))
    }

    /// Waits for the next one. `None` when [`Stopper::stop`] was called.
    pub fn wait(&mut self) -> Option<Signal> {
        self.0.forever().next().map(|number| match number {
            SIGHUP => Signal::Reload,
            SIGUSR1 => Signal::Reopen,
            _ => Signal::End,
        })
    }

    /// A handle that ends the waiting from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.0.handle())
    }
}

/// Ends [`Signals::wait`] from another thread.
#[derive(Clone, Debug)]
pub struct Stopper(signal_hook::iterator::Handle);

impl Stopper {
    /// Makes `wait` return `None`, now and from then on.
    pub fn stop(&self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_arrive_as_values_and_waiting_can_be_ended() {
        let mut signals = Signals::take().unwrap();
        for (number, signal) in [
            (SIGHUP, Signal::Reload),
            (SIGUSR1, Signal::Reopen),
            (SIGTERM, Signal::End),
        ] {
            signal_hook::low_level::raise(number).unwrap();
            assert_eq!(signals.wait(), Some(signal));
        }
        signals.stopper().stop();
        assert_eq!(signals.wait(), None);
    }
}
