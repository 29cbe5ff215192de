//! What follows a failure: another address, another upstream, another connection, or the error.
//!
//! ```text
//!   nothing of the request was sent ──▶ the next address, then the next upstream
//!   sent, not a byte of a response ───▶ a new connection if this one was reused; another upstream within the budget
//!   a part of the response ───────────▶ the error
//! ```
//! `retry` decides which requests may be repeated at all.

use super::{Failed, Forward, Left, Link, Parting};
use runtime::session::PeerLoss;
use tls::refusal;
use units::{Instant, Rng};

impl Forward {
    /// Whether the request can be sent again although the upstream may have processed it.
    pub(super) fn may_repeat(&self) -> bool {
        self.is_repeatable && self.again.is_some()
    }

    /// The upstream did not process the request, so it can be sent again whatever its method (RFC 9113 section 8.7), if all of
    /// it is still here. Returns the failure of an upstream in whose place another one is tried.
    pub(super) fn refused(&mut self, now: Instant) -> Option<Failed> {
        let before = self.ticket();
        // A connection that was reused may have been about to end, which says nothing about the upstream.
        if self.is_reused && !self.has_repeated && self.repeat_unprocessed(now) {
            return None;
        }
        if self.has_another() && self.may_send_again() && self.is_paid() {
            self.others = Vec::new();
            self.leaving = Some(before);
            self.link = Link::Gone;
            return Some(Failed::Refused);
        }
        if !self.repeat_unprocessed(now) {
            self.fail(Failed::Refused);
        }
        None
    }

    /// Sends a request that was not processed again, on a new connection to the same upstream. Returns whether it may.
    pub(super) fn repeat_unprocessed(&mut self, now: Instant) -> bool {
        // The first one is free if the connection was about to end, as for one that is stale.
        let is_free = self.is_reused && !self.has_repeated;
        let may_try = self.may_send_again() && (is_free || self.is_paid());
        if may_try {
            self.has_repeated |= is_free;
            self.leaving = Some(self.ticket());
            // A connection that refuses requests takes no new ones for a while.
            self.is_fresh |= !self.is_shared;
            self.begin_anew(now);
        }
        may_try
    }

    /// Whether all of the request is still here, and nothing of a response came.
    fn may_send_again(&self) -> bool {
        self.link == Link::Open && self.again.is_some()
    }

    /// Takes a retry, if the request and the route have one left.
    fn is_paid(&mut self) -> bool {
        let is_paid = self.retries > 0 && self.route.budget.spend();
        self.retries -= u32::from(is_paid);
        is_paid
    }

    /// The upstream failed and sent no byte of a response: whether the request goes to another upstream because of that.
    /// The session then calls [`Forward::try_another`].
    pub(super) fn is_retried(&mut self) -> bool {
        let may_try = self.has_another() || !self.others.is_empty();
        let is_retried = self.may_repeat() && may_try && self.is_paid();
        // Another upstream is less likely to fail in the same way than another address of this one.
        if is_retried && self.has_another() {
            self.others = Vec::new();
        }
        is_retried
    }

    /// Repeats the request, if it was sent, on another connection.
    pub(super) fn begin_anew(&mut self, now: Instant) {
        if let Some(again) = &self.again {
            self.up.clone_from(again);
        }
        self.is_sending_up = false;
        self.asked = None;
        self.is_reading = false;
        (self.is_reused, self.is_shared, self.is_awaited) = (false, false, false);
        self.log_errors(true);
        self.channel = None;
        self.attempts += 1;
        self.link = Link::Wanted;
        self.began = now;
    }

    /// Repeats the request on a new connection to the same upstream if this one was reused: the upstream closed it while it
    /// was idle, which is no failure.
    pub(super) fn repeat_if_stale(&mut self, now: Instant) -> bool {
        let is_stale = self.is_reused && self.may_repeat() && !self.has_repeated;
        if is_stale {
            self.has_repeated = true;
            self.is_fresh |= !self.is_shared;
            self.begin_anew(now);
        }
        is_stale
    }

    /// The connection to the upstream is gone. Returns the failure of an upstream in whose place the next one is tried.
    pub(crate) fn lost(&mut self, loss: PeerLoss, now: Instant) -> Option<Failed> {
        if loss == PeerLoss::Unprocessed && self.link == Link::Open {
            return self.refused(now);
        }
        let before = std::mem::replace(&mut self.link, Link::Gone);
        self.log_errors(true);
        self.channel = None;
        if self.is_switched() {
            self.end_switched();
        }
        if self.has_ended() || self.failed.is_some() || self.has_reply() {
            return None;
        }
        if before == Link::Securing && matches!(loss, PeerLoss::Open(_)) {
            self.tls_fault = Some(refusal::closed().into());
            let why = Failed::Insecure;
            if self.has_another() || !self.others.is_empty() {
                return Some(why);
            }
            self.fail_or_stand_in(why);
            return None;
        }
        if matches!(loss, PeerLoss::Open(_)) && self.repeat_if_stale(now) {
            return None;
        }
        let why = match loss {
            PeerLoss::Opening(_) => Failed::Unreachable(loss),
            PeerLoss::TimedOut => Failed::ConnectTimeout,
            PeerLoss::Unprocessed => Failed::Refused,
            PeerLoss::Open(_) if self.has_begun() || !self.raw.is_empty() => Failed::Truncated,
            PeerLoss::Open(_) => Failed::Unanswered,
            PeerLoss::Here(_) | PeerLoss::TooMany | PeerLoss::TooMuch => Failed::NoRoom(loss),
        };
        let may_try = matches!(why, Failed::Unreachable(_) | Failed::ConnectTimeout);
        if before == Link::Dialing && may_try && (self.has_another() || !self.others.is_empty()) {
            // Nothing was sent, so any request may go elsewhere.
            return Some(why);
        }
        if why == Failed::Unanswered && self.is_retried() {
            return Some(why);
        }
        self.fail_or_stand_in(why);
        None
    }

    /// Whether an upstream was not tried.
    pub(super) fn has_another(&self) -> bool {
        (self.tried.count_ones() as usize) < self.route.balancer.len()
    }

    /// Goes on to another address of the upstream, or to another upstream.
    pub(crate) fn try_another(&mut self, rng: &mut Rng, now: Instant) {
        if let Some(to) = self.to.take() {
            self.place().failed(&to, now);
        }
        if let Some(to) = self.others.pop() {
            self.to = Some(to);
            return self.begin_anew(now);
        }
        if !self.enter_another(rng, now) {
            return self.fail(Failed::ConnectTimeout);
        }
        self.begin_anew(now);
        self.aim(rng, now);
    }

    /// Chooses another upstream. `false` if all were tried.
    pub(super) fn enter_another(&mut self, rng: &mut Rng, now: Instant) -> bool {
        let balancer = &self.route.balancer;
        let Some(next) = balancer.enter((self.tried, self.key), self.stay.as_ref(), rng, now) else {
            return false;
        };
        self.at = next.at();
        self.tried |= 1 << self.at;
        if let Some(before) = self.stay.replace(next) {
            let left = Left {
                is_repeatable: self.is_repeatable,
                ..Left::default()
            };
            balancer.leave(&before, left);
        }
        true
    }

    /// Tells the balancer of this failure, if it is the upstream's and no other address of it is left to try. Returns whether
    /// the upstream gets no requests for a while because of it.
    pub(crate) fn blame(&self, why: Failed, now: Instant) -> bool {
        let is_at_address = matches!(
            why,
            Failed::Unreachable(_) | Failed::ConnectTimeout | Failed::Insecure
        );
        let goes_on = is_at_address && !self.others.is_empty();
        if !why.is_of_upstream() || goes_on {
            return false;
        }
        if let Some(stay) = &self.stay {
            let is_unprocessed = is_at_address || matches!(why, Failed::Unresolved | Failed::Refused);
            stay.failed(!is_unprocessed, now);
        }
        let forgiven = self.stay.as_ref().map_or(0, |stay| stay.forgiven());
        self.route.balancer.failed(self.at, forgiven, now)
    }

    /// The TLS of the connection failed. Before the end of its handshake, no byte of the request was sent, so any request may go
    /// elsewhere.
    pub(super) fn failed_securing(&mut self) -> Option<Failed> {
        if self.link == Link::Securing && (self.has_another() || !self.others.is_empty()) {
            self.leaving = Some(self.ticket());
            self.link = Link::Gone;
            return Some(Failed::Insecure);
        }
        self.fail(Failed::Insecure);
        // The alert says why.
        if self.link == Link::Leaving(Parting::Abort) && !self.is_sending_up {
            self.link = Link::Leaving(Parting::Close);
        }
        None
    }
}
