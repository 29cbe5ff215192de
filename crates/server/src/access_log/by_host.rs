//! Which line goes to which log, if sites have logs or formats of their own.

use crate::config::{Config, LogFormat, LogTemplate};
use crate::service::State;
use std::sync::Arc;

/// How the lines of a site are written, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Style {
    /// Index among the logs of the configuration.
    pub(super) log: u16,
    pub(super) format: LogFormat,
    /// The format of the operator, in place of `format`.
    pub(super) template: Option<LogTemplate>,
}

/// The logs of sites that differ in them.
#[derive(Debug)]
pub(super) struct ByHost {
    /// Finds the site of a request.
    state: Arc<State>,
    /// By site; `None`: it has no log.
    styles: Vec<Option<Style>>,
    /// Finished lines, by log; those of the first are not here.
    pub(super) buffers: Vec<Vec<u8>>,
}

impl ByHost {
    /// The logs of a configuration; `None` if all sites have the same log in the same format, or none.
    pub(super) fn of(state: &Arc<State>) -> Option<Box<ByHost>> {
        let logs = state.config.access_logs();
        let style = |config: &Config| {
            let target = config.access_log.as_ref()?;
            let log = logs.iter().position(|log| log.target == *target)?;
            Some(Style {
                log: u16::try_from(log).ok()?,
                format: config.log_format,
                template: config.log_template.clone(),
            })
        };
        let styles: Vec<Option<Style>> = state
            .hosts
            .places()
            .iter()
            .map(|place| style(&place.config))
            .collect();
        if styles.windows(2).all(|two| two[0] == two[1]) {
            return None;
        }
        Some(Box::new(ByHost {
            state: Arc::clone(state),
            styles,
            buffers: vec![Vec::new(); logs.len().saturating_sub(1)],
        }))
    }

    /// How the line of a request to this host is written; `None`: it gets none.
    pub(super) fn style(&self, host: Option<&[u8]>) -> Option<&Style> {
        self.styles.get(self.state.hosts.index_of(host))?.as_ref()
    }

    /// Finished lines of a log; `None` for the first.
    pub(super) fn buffer(&mut self, log: u16) -> Option<&mut Vec<u8>> {
        self.buffers.get_mut(usize::from(log).checked_sub(1)?)
    }

    /// Whether one of the buffers has this many bytes.
    pub(super) fn has_buffered(&self, bytes: usize) -> bool {
        self.buffers.iter().any(|buffer| buffer.len() >= bytes)
    }
}
