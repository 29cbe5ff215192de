//! One request and its answer, whatever version of HTTP carries them.
//!
//! ```text
//!   RequestHead ─▶ begin ─┬─▶ Answer ─▶ the session frames and sends it ─▶ the log line is finished
//!                         └─▶ Wait ─▶ a job runs ─▶ found ─▶ resume ─▶ Answer or Wait
//! ```
//!
//! An exchange chooses status, field lines, representation and the source of the content. It knows no connection, so a
//! session may have any number of exchanges at once, and finish them in any order. Framing, order, persistence and
//! limits of a connection belong to the session. `choose` finds the answer, and `answer` composes it.

mod accept;
mod answer;
mod choose;
mod failure;
mod multipart;
mod search;
#[cfg(test)]
mod tests;

pub(crate) use answer::{Answer, Head, Source};
pub(crate) use failure::Failure;
pub(crate) use multipart::Multipart;

use crate::access_log::{self, Journal, RequestLine, Slot};
use crate::checked::{Known, Vouched};
use crate::clock::Clock;
use crate::context::{Cx, Scope, Work};
use crate::entry::{Answer as Kind, Entry, Missing};
use crate::proxy::{Found, Tried};
use crate::request_id::RequestId;
use crate::request_limit::Seats;
use crate::site::Loaded;
use crate::traced::Trace;
use choose::{Stage, Start};
use http_semantics::method::Method;
use http_semantics::request::RequestHead;
use runtime::session::TlsVersion;
use std::net::IpAddr;
use std::sync::Arc;
use units::{Duration, Instant};

/// Time between the end of the wait for another server and that of the request: the former says what is wrong.
const MOMENT: Duration = Duration::from_secs(1);

/// The input that an exchange answers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked<'a, 'b, 's> {
    /// A request.
    Request(&'a RequestHead<'b, 's>),
    /// Bytes that are no complete and valid request.
    Input(&'b [u8]),
}

impl<'a, 'b, 's> Asked<'a, 'b, 's> {
    #[inline]
    fn head(self) -> Option<&'a RequestHead<'b, 's>> {
        match self {
            Asked::Request(head) => Some(head),
            Asked::Input(_) => None,
        }
    }

    #[inline]
    fn is_head_method(self) -> bool {
        self.head().is_some_and(|head| head.method == Method::Head)
    }
}

/// What follows from a request or from the result of its job.
#[derive(Debug)]
pub(crate) enum Step<'e> {
    /// Send this.
    Answer(Answer<'e>),
    /// Run this job, then call [`Exchange::found`] and [`Exchange::resume`]. The value of a `Link` field may be told
    /// before that (103, RFC 8297).
    Wait(Work, Option<Arc<str>>),
    /// Pass the request to an upstream: there is no file for it.
    Pass(Box<Found>),
}

/// How a request came to this server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    /// Encrypted.
    pub(crate) is_secured: bool,
    /// Version of TLS, if the connection to this server is encrypted.
    pub(crate) tls: Option<TlsVersion>,
    /// At an admin address.
    pub(crate) is_admin: bool,
}

/// A request on its way to its answer.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// Address of the client.
    peer: IpAddr,
    /// Whom the client's certificate names, if access rules may ask.
    certificate: Option<Arc<str>>,
    way: Way,
    /// Arrival of the first byte of the request.
    started: Instant,
    /// The log line, from the time the answer is composed.
    slot: Slot,
    waits: Option<Waits>,
    /// The upstream whose failure the answer tells.
    tried: Option<Box<Tried>>,
    /// What checks of the request have shown.
    known: Known,
    /// Time for which the result of the check is awaited that another server makes, or the time of a recorded response.
    patience: Option<Duration>,
    /// Whether the time of a recorded response has been awaited.
    is_due: bool,
    /// Whether an access rule covers the path. The answer then depends on the client.
    is_ruled: bool,
    /// Whether the answer depends on conditions of rules, which no path shows.
    is_conditional: bool,
    /// Whether a rule says what pages of other origins may do with the answer, which has lines of its own then.
    is_cross_origin: bool,
    /// The user whose password is right, or whom another server names.
    user: Option<Box<[u8]>>,
    /// What other servers say of the request, for the upstream.
    vouched: Option<Arc<Vouched>>,
    /// What the request holds until it is answered.
    seats: Seats,
    /// Id of the request, if requests have ids.
    id: Option<RequestId>,
    /// Its part in its trace, if requests are traced.
    trace: Option<Arc<Trace>>,
}

/// What an exchange waits for.
#[derive(Clone, Copy, Debug)]
struct Waits {
    stage: Stage,
    /// Generation of the state at the start of the job. After a reload, its result is used for this request only.
    generation: u64,
    /// Index of the site.
    site: usize,
}

impl Exchange {
    /// An exchange with `peer`, the first byte of which arrived at `started`.
    #[inline]
    pub(crate) fn new(peer: IpAddr, way: Way, started: Instant) -> Exchange {
        Exchange {
            peer,
            certificate: None,
            way,
            started,
            slot: Slot::NONE,
            waits: None,
            tried: None,
            known: Known::default(),
            patience: None,
            is_due: false,
            is_ruled: false,
            is_conditional: false,
            is_cross_origin: false,
            user: None,
            vouched: None,
            seats: Seats::default(),
            id: None,
            trace: None,
        }
    }

    /// With the id of the request.
    #[inline]
    pub(crate) fn identified(self, id: Option<RequestId>) -> Exchange {
        Exchange { id, ..self }
    }

    /// With the name in the client's certificate.
    #[inline]
    pub(crate) fn certified(self, certificate: Option<Arc<str>>) -> Exchange {
        Exchange { certificate, ..self }
    }

    /// With this in place of what checks of the request will show.
    pub(crate) fn knowing(self, known: Known) -> Exchange {
        Exchange { known, ..self }
    }

    /// With the part of the request in its trace.
    #[inline]
    pub(crate) fn traced(self, trace: Option<Arc<Trace>>) -> Exchange {
        Exchange { trace, ..self }
    }

    /// The step, whose job knows the id of the request.
    #[inline]
    fn named<'c>(&self, step: Step<'c>) -> Step<'c> {
        match &self.id {
            None => step,
            Some(id) => name(step, id),
        }
    }

    /// With what the request holds until it is answered.
    #[inline]
    pub(crate) fn holding(self, seats: Seats) -> Exchange {
        Exchange { seats, ..self }
    }

    /// Takes what the request holds, which another exchange goes on with.
    pub(crate) fn take_seats(&mut self) -> Seats {
        std::mem::take(&mut self.seats)
    }

    /// The exchange of a request that was passed to an upstream, if there is one, and failed there.
    pub(crate) fn after(self, tried: Option<Tried>) -> Exchange {
        Exchange {
            tried: tried.map(Box::new),
            ..self
        }
    }

    /// Arrival of the first byte of the request.
    #[inline]
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// The first step of a request.
    #[inline]
    pub(crate) fn begin<'c>(&mut self, scope: Scope<'c>, head: &RequestHead<'_, '_>) -> Step<'c> {
        let step = self.choose(scope, Asked::Request(head), Start::Request);
        self.named(step)
    }

    /// The first step of input that gets an error.
    pub(crate) fn refuse<'c>(
        &mut self,
        scope: Scope<'c>,
        asked: Asked<'_, '_, '_>,
        failure: Failure,
    ) -> Step<'c> {
        let step = self.choose(scope, asked, Start::Failure(failure));
        self.named(step)
    }

    /// Takes the result of the job. The entry is for [`Exchange::resume`].
    pub(crate) fn found(&mut self, cx: &mut Cx, loaded: Loaded) -> Arc<Entry> {
        if loaded.is_refused {
            cx.counters.disk_refused().add(1);
        }
        let Some(waits) = &mut self.waits else {
            debug_assert!(false, "a job finished that was not given");
            return Arc::clone(loaded.entry());
        };
        if let Some(checked) = &loaded.checked {
            self.known.add(checked.clone());
            return Arc::clone(loaded.entry());
        }
        match cx.views.get_mut(waits.site) {
            Some(view) if waits.generation == cx.generation => view.finish(loaded),
            // Found in a site that is no longer served: valid for this response, but not for the view.
            _ => {
                waits.stage = waits.stage.settled();
                Arc::clone(loaded.entry())
            }
        }
    }

    /// What checks of the request have shown.
    pub(crate) fn known(&self) -> &Known {
        &self.known
    }

    /// Time for which the job is awaited: that of another server and a moment for its answer, or `otherwise`.
    pub(crate) fn patience(&self, otherwise: Duration) -> Duration {
        self.patience.map_or(otherwise, |patience| patience + MOMENT)
    }

    /// Gives up the job, which takes too long. The entry is for [`Exchange::resume`], and leads to an error.
    #[cold]
    pub(crate) fn late(&mut self, cx: &Cx) -> Arc<Entry> {
        cx.counters.disk_timeouts().add(1);
        if let Some(waits) = &mut self.waits {
            // The site's own page for this error might need the disk as well.
            waits.stage = match waits.stage {
                Stage::Page(failure) => Stage::Page(failure),
                _ => Stage::Page(Failure::of_missing(Missing::Unavailable)),
            };
        }
        Arc::new(Entry::new(Kind::Missing(Missing::Unavailable)))
    }

    /// The step after a job, with the entry that it found. `asked` is what the exchange began with.
    pub(crate) fn resume<'c>(
        &mut self,
        scope: Scope<'c>,
        asked: Asked<'_, '_, '_>,
        entry: &'c Arc<Entry>,
    ) -> Step<'c> {
        let start = match self.waits.take() {
            Some(Waits {
                stage: Stage::Access, ..
            }) => Start::Request,
            Some(waits) => Start::Found(entry, waits.stage),
            None => Start::Failure(Failure::of_missing(Missing::Unavailable)),
        };
        let step = self.choose(scope, asked, start);
        self.named(step)
    }

    /// Composes the log line of the answer: to what was asked, by whom, if a certificate says so, and over which stream,
    /// if the protocol has several. `head_bytes` and `body_bytes` are the lengths that the session sends.
    #[inline]
    pub(crate) fn answered(
        &mut self,
        (journal, clock): (&mut Journal, &Clock),
        (asked, user, stream): (Asked<'_, '_, '_>, Option<&[u8]>, Option<u64>),
        status: u16,
        head_bytes: u32,
        body_bytes: u64,
    ) {
        if !self.seats.is_empty() {
            journal.hold(&mut self.slot, std::mem::take(&mut self.seats));
        }
        if !journal.is_on() {
            return;
        }
        let (peer, started) = (self.peer, self.started);
        let upstream = self.tried.as_ref().map(|tried| access_log::Upstream {
            target: tried.target.place(),
            took: tried.took,
            call: tried.call.as_ref(),
        });
        let user = self.user.as_deref().or(user);
        let Way { is_secured, tls, .. } = self.way;
        let request = match asked {
            Asked::Request(head) => access_log::Request {
                user,
                stream,
                is_secured,
                tls,
                cache: self.tried.as_ref().and_then(|tried| tried.cache),
                upstream: upstream.as_ref(),
                id: self.id.as_ref().map(RequestId::value),
                trace: self.trace.as_deref(),
                ..access_log::Request::of(head, peer, started)
            },
            Asked::Input(bytes) => access_log::Request {
                peer,
                user,
                stream,
                started,
                line: RequestLine::Raw(first_line(bytes)),
                host: None,
                referer: None,
                user_agent: None,
                is_secured,
                tls,
                fields: None,
                cache: None,
                upstream: None,
                id: self.id.as_ref().map(RequestId::value),
                trace: self.trace.as_deref(),
            },
        };
        journal.compose(&mut self.slot, clock, &request, status, head_bytes, body_bytes);
    }

    /// Ends the exchange. Whoever sends its answer finishes the log line in this slot.
    #[inline]
    pub(crate) fn into_slot(self) -> Slot {
        self.slot
    }
}

#[cold]
fn name<'c>(step: Step<'c>, id: &RequestId) -> Step<'c> {
    match step {
        Step::Wait(work, hint) => Step::Wait(work.of(id.clone()), hint),
        step => step,
    }
}

/// The bytes up to the end of the first line, limited in length: they may be anything.
fn first_line(bytes: &[u8]) -> &[u8] {
    const MOST: usize = 1024;
    let bytes = &bytes[..bytes.len().min(MOST)];
    match bytes.iter().position(|&b| b == b'\n' || b == b'\r') {
        Some(0) | None => bytes,
        Some(end) => &bytes[..end],
    }
}
