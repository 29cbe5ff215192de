//! Which line goes to which log, if sites have logs or formats of their own; and the counts of each host.

use crate::config::{Config, LogFormat, LogTemplate};
use crate::host_counts::HostCounts;
use crate::hosts::Hosts;
use std::sync::Arc;
use units::Duration;

/// How the lines of a site are written, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Style {
    /// Index among the logs of the configuration.
    pub(super) log: u16,
    pub(super) format: LogFormat,
    /// The format of the operator, in place of `format`.
    pub(super) template: Option<LogTemplate>,
}

/// Where a line and its counts belong.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Index of the log.
    pub(super) log: u16,
    /// Index of the site.
    site: u16,
    /// Class of the status, from 1 to 5; 0: the response is not counted.
    class: u8,
}

impl Place {
    /// The first log, and no counts.
    pub(super) const FIRST: Place = Place {
        log: 0,
        site: 0,
        class: 0,
    };

    /// The same in another log.
    pub(super) fn in_log(self, log: u16) -> Place {
        Place { log, ..self }
    }
}

/// The logs of sites that differ in them, or whose responses are counted.
#[derive(Debug)]
pub(super) struct ByHost {
    /// Finds the site of a request.
    hosts: Arc<Hosts>,
    /// Responses of each site; empty if they are not counted.
    counts: Vec<Arc<HostCounts>>,
    /// By site; `None`: it has no log.
    styles: Vec<Option<Style>>,
    /// Finished lines, by log; those of the first are not here.
    pub(super) buffers: Vec<Vec<u8>>,
}

impl ByHost {
    /// The logs of a configuration, if it `has_logs`; `None` if all sites have the same log in the same format, or none, and
    /// no response is counted by host.
    pub(super) fn of(
        config: &Config,
        hosts: &Arc<Hosts>,
        counts: &[Arc<HostCounts>],
        has_logs: bool,
    ) -> Option<Box<ByHost>> {
        let logs = config.access_logs();
        let style = |config: &Config| {
            let target = config.access_log.as_ref().filter(|_| has_logs)?;
            let log = logs.iter().position(|log| log.target == *target)?;
            Some(Style {
                log: u16::try_from(log).ok()?,
                format: config.log_format,
                template: config.log_template.clone(),
            })
        };
        let places = hosts.places().iter();
        let styles: Vec<Option<Style>> = places.map(|place| style(&place.config)).collect();
        if styles.windows(2).all(|two| two[0] == two[1]) && counts.is_empty() {
            return None;
        }
        Some(Box::new(ByHost {
            hosts: Arc::clone(hosts),
            counts: counts.to_vec(),
            styles,
            buffers: vec![Vec::new(); logs.len().saturating_sub(1)],
        }))
    }

    /// Where the counts of a response with this status to this host belong, and how its line is written; `None`: it gets
    /// none.
    pub(super) fn of_request(&self, host: Option<&[u8]>, status: u16) -> (Place, Option<&Style>) {
        let site = self.hosts.index_of(host);
        let style = self.styles.get(site).and_then(Option::as_ref);
        let is_counted = site < self.counts.len();
        let class = u8::try_from((status / 100).clamp(1, 5)).unwrap_or(5);
        let place = Place {
            log: style.map_or(0, |style| style.log),
            site: u16::try_from(site).unwrap_or(0),
            class: if is_counted { class } else { 0 },
        };
        (place, style)
    }

    /// Counts a response that has been sent or lost.
    pub(super) fn count(&self, place: Place, bytes: u64, duration: Duration) {
        if place.class > 0
            && let Some(counts) = self.counts.get(usize::from(place.site))
        {
            counts.add(place.class, bytes, duration);
        }
    }

    /// The place that a response of `before` has among these hosts. It is not counted if its host is gone.
    pub(super) fn moved(&self, place: Place, before: &ByHost) -> Place {
        let counts = before.counts.get(usize::from(place.site));
        let now = self.counts.iter();
        let site = counts.and_then(|counts| now.clone().position(|one| Arc::ptr_eq(one, counts)));
        match site.and_then(|site| u16::try_from(site).ok()) {
            Some(site) => Place { site, ..place },
            None => Place { class: 0, ..place },
        }
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
