//! Requests with a route to an upstream that an access rule stops before their body is read.

use super::Http1;
use super::serve::{Outcome, Received};
use crate::context::Cx;
use crate::exchange::{Asked, Exchange};
use crate::session::guard::{self, Stop};
use http1::head::Request;
use runtime::Tx;
use units::Instant;

impl Http1 {
    /// Answers a request with an error, or begins to check its password. Returns the input behind it if the turn continues.
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of the request, and the arguments of every step"
    )]
    #[cold]
    pub(super) fn stop<'b>(
        &mut self,
        cx: &mut Cx,
        stop: Stop,
        request: &Request<'b, '_>,
        received: &Received<'_, 'b, '_>,
        behind: &'b [u8],
        tx: &mut Tx,
        now: Instant,
    ) -> Option<&'b [u8]> {
        self.count(cx);
        let admitted = self.limit(cx, received, now);
        let failure = match (admitted, stop) {
            (Err(failure), _) | (Ok(_), Stop::Refused(failure)) => failure,
            (Ok(seats), Stop::Check(check, _)) => {
                let Asked::Request(head) = received.asked() else {
                    return None;
                };
                let sender = self.client.sender(cx, received.asked());
                let way = self.client.way(cx, received.asked());
                let id = self
                    .client
                    .request_id(cx, received.asked(), self.client.current());
                let trace = self.client.trace(cx, received.asked(), self.client.current());
                let exchange = Exchange::new(sender, way, received.started())
                    .identified(id)
                    .certified(self.client.certificate(cx))
                    .traced(trace);
                let mut exchange = exchange.holding(seats);
                let work = guard::begin(cx, &mut exchange, head, check);
                return self.conclude(cx, received, Outcome::Check(exchange, work), behind, tx, now);
            }
        };
        self.decline(cx, request, received, behind, failure, tx, now)
    }
}
