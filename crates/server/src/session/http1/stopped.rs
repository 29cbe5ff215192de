//! Requests with a route to an upstream that an access rule stops before their body is read.

use super::Http1;
use super::serve::{Outcome, Received};
use crate::context::Cx;
use crate::exchange::{Asked, Exchange};
use crate::session::guard::{self, Stop};
use http1::framing::Framing;
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
        let limited = self.limit(cx, received, now);
        let failure = match (limited, stop) {
            (Some(failure), _) | (None, Stop::Refused(failure)) => failure,
            (None, Stop::Check(check, _)) => {
                let Asked::Request(head) = received.asked() else {
                    return None;
                };
                let sender = self.client.sender(cx, received.asked());
                let mut exchange = Exchange::new(sender, self.client.is_secured(), received.started());
                let work = guard::begin(cx, &mut exchange, head, check);
                return self.conclude(cx, received, Outcome::Check(exchange, work), behind, tx, now);
            }
        };
        if request.framing != Framing::Empty {
            self.refuse(cx, received, failure, tx, now);
            return None;
        }
        let outcome = self.begin(cx, received, Some(failure), tx);
        self.conclude(cx, received, outcome, behind, tx, now)
    }
}
