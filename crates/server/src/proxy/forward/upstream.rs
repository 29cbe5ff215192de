//! The connection to the upstream: chosen, dialed or reused, secured, used, and parted with.
//!
//! ```text
//!   start ─▶ aim ─▶ Wanted ─ ask ─▶ Dialing ─ opened ─▶ Securing, Open ─▶ Leaving ─ ask, part ─▶ Gone
//! ```
//! Decides what the driver is asked for, in which order. `again` decides what follows a failure.

use super::{Failed, Forward, Link, Parting, Response};
use crate::proxy::channel::Channel;
use crate::proxy::http2::Over;
use crate::proxy::places::{self, Place};
use crate::proxy::scripts::Search;
use http_semantics::field::MAX_LINES;
use http1::Fault;
use runtime::carrier::Carrier;
use runtime::session::{Ask, Parcel, Parking, Ticket};
use std::sync::Arc;
use units::{Instant, Rng};

/// Most bytes of one output for an upstream. Drivers take 256 KiB by default.
pub(super) const PORTION: usize = 64 * 1024;

impl Forward {
    /// Chooses the upstream and dials it.
    pub(crate) fn start(&mut self, rng: &mut Rng, now: Instant) {
        if self.link != Link::Queued || self.is_collecting() {
            return;
        }
        match self.scripted.as_mut().map(|scripted| scripted.find()) {
            None | Some(Search::Found) => {}
            Some(Search::Wait) => return self.link = Link::Searching,
            Some(Search::Nothing) => return self.fail(Failed::NoScript),
            Some(Search::Late) => return self.fail(Failed::Disk),
        }
        if self.has_too_many_lines() {
            return self.fail(Failed::Request(Fault::TooManyFields));
        }
        // No upstream was tried, so there is one.
        let Some(stay) = self.route.balancer.enter((0, self.key), None, rng, now) else {
            return self.fail(Failed::NoTurn);
        };
        self.at = stay.at();
        self.stay = Some(stay);
        self.tried = 1 << self.at;
        self.began = now;
        if let Some(cached) = &self.cached {
            cached.depart();
        }
        let total = self.route.rule.total_timeout;
        self.until = (!total.is_zero()).then(|| now + total);
        self.route.budget.earn();
        self.aim(rng, now);
    }

    /// Whether the head of the request, with the lines of rules and authorization servers, has more of them than the layers of
    /// a connection read. That would look like a failure of the upstream.
    fn has_too_many_lines(&self) -> bool {
        let has_layers = self.scripted.is_some() || self.route.places.iter().any(Place::may_speak_http2);
        // The request line and the empty line are no fields.
        has_layers && memchr::memchr_iter(b'\n', &self.up[..self.head_len]).count() > MAX_LINES + 2
    }

    /// Where the chosen upstream listens.
    pub(super) fn place(&self) -> &Place {
        &self.route.places[self.at]
    }

    /// Finds the addresses of the chosen upstream. One that has none is passed over.
    pub(super) fn aim(&mut self, rng: &mut Rng, now: Instant) {
        loop {
            match self.place().find(now) {
                places::Found::At(to, others) => {
                    (self.to, self.others) = (Some(to), others);
                    self.link = Link::Wanted;
                    // The time for a connection begins once it can be dialed.
                    self.began = now;
                    return;
                }
                places::Found::Unknown if now.since(self.began) < self.route.rule.connect_timeout => {
                    self.to = None;
                    self.link = Link::Resolving;
                    return;
                }
                places::Found::Unknown | places::Found::Nowhere => self.to = None,
            }
            self.blame(Failed::Unresolved, now);
            self.link = Link::Gone;
            if !self.enter_another(rng, now) {
                return self.fail(Failed::Unresolved);
            }
            self.began = now;
        }
    }

    /// Looks again for the addresses of the upstream, if they are awaited, or how far the request of another client is. Returns
    /// whether that was all there is to do at this time.
    pub(crate) fn find_again(&mut self, rng: &mut Rng, now: Instant) -> bool {
        let is_resolving = self.link == Link::Resolving;
        if is_resolving {
            self.aim(rng, now);
        }
        is_resolving || self.keeps_waiting(now)
    }

    /// What the driver is to do for the connection to the upstream.
    pub(crate) fn ask(&mut self, now: Instant) -> Option<(Ticket, Ask)> {
        if let Some(before) = self.leaving.take() {
            return Some((before, Ask::Close));
        }
        let has_all = self.has_whole_request && self.unsent() == 0 && !self.is_sending_up;
        if self.is_switched() && has_all && self.link == Link::Open {
            self.end_switched();
        }
        let ticket = self.ticket();
        let ask = match self.link {
            Link::Wanted => {
                self.link = Link::Dialing;
                let to = Arc::clone(self.to.as_ref()?);
                let is_http2 = self.place().speaks_http2();
                let realm = self.place().realm(is_http2);
                match self.keeps && !self.is_fresh {
                    // The upstream says which requests it has processed.
                    true if is_http2 => {
                        self.is_awaited = true;
                        Ask::Join(to, realm)
                    }
                    // It may close a connection that has been idle just when a request arrives.
                    true if self.may_repeat() => Ask::Reuse(to, realm),
                    _ => Ask::Dial(to),
                }
            }
            Link::Open if self.is_to_share() => {
                // What the handshake sent has to be gone.
                if self.is_sending_up {
                    return None;
                }
                self.share()?
            }
            Link::Open if std::mem::take(&mut self.is_awaited) => Ask::Keep,
            Link::Open if !self.is_sending_up && !self.up.is_empty() && self.takes_portion() => {
                let later = self.up.split_off(self.up.len().min(PORTION));
                let portion = std::mem::replace(&mut self.up, later);
                let Some(channel) = &mut self.channel else {
                    self.is_sending_up = true;
                    return Some((ticket, Ask::Send(portion)));
                };
                match channel.send(&portion, now) {
                    Ok(()) => {}
                    Err(Over::Unprocessed) if self.repeat_unprocessed(now) => {}
                    Err(Over::Unprocessed) => self.fail(Failed::Refused),
                    Err(Over::NoLength) => self.fail(Failed::NoLength),
                    Err(Over::Malformed(fault)) => self.fail(Failed::Malformed(fault)),
                    Err(Over::Given) => self.fail(Failed::Unanswered),
                }
                // What the upstream permits is output of the channel.
                return self.ask(now);
            }
            // An alert, that no more is sent, or acknowledgments.
            Link::Leaving(Parting::Close | Parting::Park) if self.is_sending_up && self.channel.is_some() => {
                return None;
            }
            Link::Securing | Link::Open | Link::Leaving(Parting::Close | Parting::Park)
                if !self.is_sending_up
                    && self.channel.as_ref().is_some_and(|channel| channel.pending() > 0) =>
            {
                self.is_sending_up = true;
                Ask::Send(self.channel.as_mut()?.take())
            }
            Link::Leaving(parting) => {
                self.link = Link::Gone;
                self.asked_to(parting)
            }
            Link::Securing if !self.is_reading => {
                self.is_reading = true;
                Ask::Read
            }
            Link::Open if !self.is_reading && !self.has_output() && !self.is_sending_down => {
                self.is_reading = true;
                Ask::Read
            }
            Link::Queued
            | Link::Collapsed
            | Link::Searching
            | Link::Resolving
            | Link::Dialing
            | Link::Securing
            | Link::Open
            | Link::Gone => {
                return None;
            }
        };
        Some((ticket, ask))
    }

    /// Gives the exchange up. What is to be asked for the connection to the upstream, if there is one.
    pub(crate) fn part(&mut self) -> Option<(Ticket, Ask)> {
        let link = std::mem::replace(&mut self.link, Link::Gone);
        if let Some(before) = self.leaving.take() {
            return Some((before, Ask::Close));
        }
        let ask = match link {
            Link::Queued
            | Link::Collapsed
            | Link::Searching
            | Link::Resolving
            | Link::Wanted
            | Link::Gone => return None,
            Link::Leaving(Parting::Park) if self.is_sending_up || self.has_channel_output() => Ask::Close,
            Link::Leaving(parting) => self.asked_to(parting),
            Link::Dialing | Link::Securing | Link::Open => Ask::Abort,
        };
        Some((self.ticket(), ask))
    }

    pub(super) fn asked_to(&mut self, parting: Parting) -> Ask {
        self.log_errors(true);
        let is_http2 = self.is_http2();
        let channel = self.channel.take();
        let rule = &self.route.rule;
        match parting {
            Parting::Park => Ask::Park(Parking {
                most: rule.keepalive() as usize,
                time: rule.keepalive_time,
                realm: self.place().realm(is_http2),
                parcel: channel.map_or_else(Parcel::default, |mut channel| {
                    channel.rest();
                    Parcel::of(channel)
                }),
            }),
            Parting::Close => Ask::Close,
            Parting::Abort => Ask::Abort,
        }
    }

    /// The connection to the upstream is open; behind its TLS handshake, if it has one. Returns whether it was awaited.
    pub(crate) fn opened(&mut self, now: Instant) -> bool {
        if self.link == Link::Dialing
            && self.channel.is_none()
            && !self.is_shared
            && let Some(layers) = self.place().layers()
        {
            match layers.open(&self.announcement, self.switches, now) {
                Ok(channel) => {
                    self.channel = Some(Box::new(channel));
                    self.link = Link::Securing;
                }
                Err(why) => {
                    self.tls_fault = Some(why.into());
                    self.fail(Failed::Insecure);
                }
            }
        }
        let is_secured =
            self.link == Link::Securing && self.channel.as_ref().is_some_and(|channel| channel.is_open());
        let is_awaited = self.link == Link::Dialing || is_secured;
        if is_awaited {
            self.link = Link::Open;
            self.has_moved = true;
            if let (Some(channel), Some(call)) = (
                &mut self.channel,
                self.scripted.as_ref().and_then(|one| one.call()),
            ) {
                channel.begin(call);
            }
            if !is_secured && !self.announcement.is_empty() {
                self.up.splice(0..0, self.announcement.iter().copied());
            }
            // The time of a connection that was open says nothing about the path to the upstream.
            if let Some(stay) = self.stay.as_mut().filter(|_| !self.is_reused) {
                self.route.balancer.opened(stay, now);
            }
        }
        is_awaited
    }

    /// The head of the response arrived.
    pub(super) fn answered(&mut self, now: Instant) {
        if let Some(stay) = &mut self.stay {
            self.route.balancer.answered(stay, now);
        }
    }

    /// The connection to the upstream is open, and other requests used it before. `parcel`: what they left with it.
    pub(crate) fn reused(&mut self, parcel: &Parcel) {
        self.is_reused = true;
        self.channel = parcel.take::<Box<Channel>>().map(|channel| *channel);
    }

    /// The request has a place on a connection that others use at the same time.
    pub(crate) fn joined(&mut self) {
        self.is_reused = true;
        self.is_shared = true;
        self.is_awaited = false;
        if let Some(tally) = self.place().tally() {
            tally.reused();
        }
    }

    /// Whether the connection is about to be shared: it carries HTTP/2, and this is its first request.
    fn is_to_share(&self) -> bool {
        self.keeps && !self.is_shared && self.is_http2()
    }

    /// Shares the connection.
    fn share(&mut self) -> Option<Ask> {
        let rule = &self.route.rule;
        let shared = self.channel.take()?.into_shared(rule.streams as usize)?;
        let carrier: Box<dyn Carrier> = Box::new(shared);
        let parking = Parking {
            most: rule.keepalive() as usize,
            time: rule.keepalive_time,
            realm: self.place().realm(true),
            parcel: Parcel::of(carrier),
        };
        (self.is_shared, self.is_awaited) = (true, false);
        Some(Ask::Share(parking))
    }

    /// Whether the handshake was completed since the last call.
    pub(crate) fn take_opened(&mut self) -> bool {
        std::mem::take(&mut self.has_opened)
    }

    pub(super) fn leave_if_ended(&mut self) {
        if self.response == Response::Ended && self.link == Link::Open {
            let has_more = !std::mem::take(&mut self.raw).is_empty();
            // An upstream that has not got the whole request must not take it for complete. In HTTP/2, acknowledgments may
            // be under way behind a whole request.
            let is_sending = self.is_sending_up && !self.is_http2();
            let is_cut = !self.has_whole_request || is_sending || self.unsent() > 0;
            let is_at_rest = self.channel.as_ref().is_none_or(|channel| channel.is_at_rest());
            let is_kept = self.keeps && !has_more && is_at_rest && self.upstream.is_reusable();
            self.link = Link::Leaving(match is_kept {
                _ if is_cut => Parting::Abort,
                true => Parting::Park,
                false => Parting::Close,
            });
            if self.link == Link::Leaving(Parting::Close)
                && let Some(channel) = &mut self.channel
            {
                channel.close();
            }
        }
    }
}
