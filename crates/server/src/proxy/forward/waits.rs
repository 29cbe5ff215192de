//! How long an exchange waits for what, and what it means if that does not come.

use super::{Failed, Forward, Link};
use units::{Duration, Instant};

/// Time after which an exchange looks again whether a host name was looked up.
const RECHECK: Duration = Duration::from_millis(50);

/// Time after which an exchange looks again how far the request is that it waits for.
const LOOK: Duration = Duration::from_secs(1);

/// Longest wait for a response from the disk of a cache. Then the request goes to the upstream.
const DISK_WAIT: Duration = Duration::from_secs(3);

impl Forward {
    /// When the exchange is given up whatever happens, if at all.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until.filter(|_| !self.is_switched())
    }

    /// Time is up: why the exchange fails follows from what it waits for. Returns the failure of an upstream in whose
    /// place another one can be tried.
    pub(crate) fn time_out(&mut self, now: Instant) -> Option<Failed> {
        if self.is_switched() {
            self.end_switched();
            return None;
        }
        if self.until.is_some_and(|until| until <= now) {
            self.fail(Failed::TotalTimeout);
            return None;
        }
        if self.link == Link::Open && !self.wants_input() && self.is_retried() {
            self.leaving = Some(self.ticket());
            self.link = Link::Gone;
            return Some(Failed::Timeout);
        }
        let why = match self.link {
            Link::Dialing | Link::Securing if self.has_another() || !self.others.is_empty() => {
                self.leaving = Some(self.ticket());
                self.link = Link::Gone;
                return Some(Failed::ConnectTimeout);
            }
            Link::Queued if self.is_collecting() => Failed::RequestTimeout,
            Link::Queued | Link::Collapsed => Failed::NoTurn,
            Link::Searching => Failed::Disk,
            Link::Resolving => Failed::Unresolved,
            Link::Wanted | Link::Dialing | Link::Securing => Failed::ConnectTimeout,
            _ if self.wants_input() => Failed::RequestTimeout,
            _ => Failed::Timeout,
        };
        self.fail(why);
        None
    }

    /// How long the exchange may wait for what it waits for; `None`: for the client, to take output or to send its body.
    pub(crate) fn patience(&mut self, now: Instant) -> Option<Duration> {
        self.note_progress(now);
        let rule = &self.route.rule;
        match self.link {
            Link::Queued if self.is_collecting() => None,
            Link::Collapsed if self.cached.as_ref().is_some_and(|cached| cached.is_loading()) => {
                Some(rule.first_byte_timeout.min(DISK_WAIT))
            }
            Link::Queued => Some(rule.first_byte_timeout),
            Link::Collapsed => {
                let most = rule.first_byte_timeout;
                let cached = self.cached.as_ref();
                Some(cached.map_or(most, |cached| cached.patience(most, now).min(LOOK)))
            }
            Link::Searching => Some(rule.connect_timeout),
            Link::Resolving => Some(RECHECK.min(rule.connect_timeout)),
            // Messages of a TLS handshake give it no more time.
            Link::Wanted | Link::Dialing | Link::Securing => {
                Some(rule.connect_timeout.saturating_sub(now.since(self.began)))
            }
            _ if self.is_switched() && !self.is_sending_down => Some(rule.idle_timeout),
            _ if self.is_sending_down => None,
            // Calls of gRPC may stay open for long, and either side sends when it has something to say.
            _ if self.wants_input() && !self.is_http2() => None,
            _ => Some(self.patience_with_upstream(now)),
        }
    }

    /// Notes whether the exchange went on, and since when the upstream has the whole request.
    fn note_progress(&mut self, now: Instant) {
        let unsent = self.unsent();
        if self.link == Link::Open && self.has_whole_request && !self.is_sending_up && unsent == 0 {
            self.asked.get_or_insert(now);
        }
        // Only the exchange itself counts: an upstream can send PING of HTTP/2 forever and take no content.
        if std::mem::take(&mut self.has_moved) || unsent < self.unsent_before {
            self.moved = now;
        }
        self.unsent_before = unsent;
    }

    /// How long the upstream may take for the response, or for the next part of it.
    fn patience_with_upstream(&self, now: Instant) -> Duration {
        let rule = &self.route.rule;
        let idle = match self.link {
            Link::Open => rule.idle_timeout.saturating_sub(now.since(self.moved)),
            _ => rule.idle_timeout,
        };
        // Error messages of FastCGI and PING of HTTP/2 are no part of the response, so they give it no more time.
        let is_awaited = self.link == Link::Open && !self.has_begun();
        let asked = self.asked.filter(|_| is_awaited);
        let left = asked.map(|asked| rule.first_byte_timeout.saturating_sub(now.since(asked)));
        match left {
            Some(left) if !self.has_heard => left,
            // An interim response, or a part of the head: it gives the rest more time, never less.
            Some(left) => left.max(idle),
            None => idle,
        }
    }
}
