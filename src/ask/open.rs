//! A connection to a server, and the thread that has it. Decides who waits for whom.

use super::Unanswered;
use super::exchange::{Exchange, Job, Outcome};
use crate::secure::{self, Crews, Secure};
use runtime::dial;
use std::fmt;
use std::sync::mpsc::{self, Receiver, Sender};
use url::Url;

/// A connection that is open, or was. Dropped, it is closed.
pub(super) struct Open {
    running: Option<Crews<Exchange>>,
    jobs: Sender<Job>,
    outcomes: Receiver<Outcome>,
}

impl fmt::Debug for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Open").finish_non_exhaustive()
    }
}

impl Open {
    /// Opens a connection to the server of this URL, sends a request and waits for its outcome.
    ///
    /// # Errors
    /// Why there is no connection.
    pub(super) fn begin(url: &Url, secure: Option<&Secure>, job: Job) -> Result<(Outcome, Open), Unanswered> {
        let host = url.host_str().unwrap_or_default();
        let addresses = url
            .socket_addrs(|| None)
            .map_err(|error| format!("no address for `{host}`: {error}"))?;
        let peer = dial::answering(&addresses).ok_or_else(|| format!("no address for `{host}`"))?;
        let (jobs, taken) = mpsc::channel();
        let (told, outcomes) = mpsc::channel();
        // Its receiver is held here.
        let _ = jobs.send(job);
        let crew = Exchange::new(taken, told);
        let running = secure::start(vec![crew], peer, secure).map_err(|error| error.to_string())?;
        let open = Open {
            running: Some(running),
            jobs,
            outcomes,
        };
        match open.outcomes.recv() {
            Ok(outcome) => Ok((outcome, open)),
            // The crew always tells the outcome, unless its driver has failed.
            Err(_) => {
                open.close()?;
                Err("the connection ended early".to_owned().into())
            }
        }
    }

    /// Sends another request and waits for its outcome. `None`: the connection had been closed before.
    pub(super) fn again(&self, job: Job) -> Option<Outcome> {
        self.jobs.send(job).ok()?;
        self.running.as_ref()?.call();
        self.outcomes.recv().ok()
    }

    /// Closes the connection and waits until it is closed.
    ///
    /// # Errors
    /// The system's, if it made the driver of the connection fail.
    pub(super) fn close(mut self) -> Result<(), Unanswered> {
        let Some(running) = self.running.take() else {
            return Ok(());
        };
        running.stopper().stop();
        match running.join() {
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string().into()),
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(running) = &self.running {
            running.stopper().stop();
        }
    }
}
