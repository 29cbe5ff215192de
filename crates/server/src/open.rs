//! Opens a server, with the live page and the health checks among its handlers.

use crate::config::Config;
use crate::live;
use crate::service::{Additions, Interprocess, LogSink, Server};
use crate::site::{OpenError, Source};
use std::sync::Arc;
use units::Seed;

impl Server {
    /// Opens a server of `config` that writes log lines to `log`. Without a root in `config`, it serves the `embedded`
    /// site. `seed` is for multipart boundaries.
    ///
    /// # Errors
    /// The root that cannot be opened, and the reason.
    pub fn open(
        config: Config,
        embedded: Source,
        log: Option<Arc<dyn LogSink>>,
        seed: Seed,
    ) -> Result<Server, OpenError> {
        Server::open_with(
            Additions::default(),
            Interprocess::default(),
            config,
            embedded,
            log,
            seed,
        )
    }

    /// As [`Server::open`], with additions and state shared with other processes.
    ///
    /// # Errors
    /// As [`Server::open`].
    pub fn open_with(
        additions: Additions,
        interprocess: Interprocess,
        config: Config,
        embedded: Source,
        log: Option<Arc<dyn LogSink>>,
        seed: Seed,
    ) -> Result<Server, OpenError> {
        Server::with_handlers(
            live::handlers,
            additions,
            interprocess,
            config,
            embedded,
            log,
            seed,
        )
    }
}
