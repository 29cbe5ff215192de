//! The alternative services of one origin, as a client learns them while it runs (RFC 7838). Decides which one to use, and
//! when not to: it has expired, was withdrawn or has failed.
//!
//! The network of a run does not change, so `persist` makes no difference here.

use crate::timeline::Timeline;
use http_semantics::alt_svc::{AltSvc, Service};
use http_semantics::field::decimal;
use units::{Duration, Instant};

/// How long a service that failed is left alone.
pub const BROKEN: Duration = Duration::from_secs(300);

/// Status 421: the server is not responsible for this origin (RFC 9110 section 15.5.20).
const MISDIRECTED: u16 = 421;

/// What is known of the origin's HTTP/3.
#[derive(Debug, Default)]
pub struct Alternatives {
    known: Option<(Service, Instant)>,
    broken_until: Option<Instant>,
}

impl Alternatives {
    /// Reads the responses of a fetch from this origin, in the order of their arrival.
    pub fn learn(&mut self, timeline: &Timeline) {
        let all = timeline.objects.iter().flat_map(|object| &object.tries);
        let mut answered: Vec<_> = all.filter_map(|one| Some((one.first?, one))).collect();
        answered.sort_by_key(|(at, _)| *at);
        for (at, one) in answered {
            if one.status == MISDIRECTED {
                self.known = None;
            }
            let values = |wanted: &str| {
                let lines = one.fields.iter();
                let lines = lines.filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
                lines.map(|(_, value)| value.as_str()).collect::<Vec<_>>()
            };
            let age = values("age").first().and_then(|age| decimal(age.as_bytes()));
            self.take(
                &values("alt-svc").join(", "),
                Duration::from_secs(age.unwrap_or(0)),
                at,
            );
        }
    }

    /// Takes in the value of an `Alt-Svc` field of a response of this age.
    fn take(&mut self, value: &str, age: Duration, now: Instant) {
        match AltSvc::parse(value.as_bytes()) {
            Some(AltSvc::Clear) => self.known = None,
            Some(AltSvc::Services(all)) => {
                let http3 = all.into_iter().find(|service| service.protocol == b"h3");
                self.known = http3.map(|service| {
                    let fresh = service.max_age.saturating_sub(age);
                    (service, now + fresh)
                });
            }
            None => {}
        }
    }

    /// The service that speaks HTTP/3, if it may be used now, and for how long it is fresh.
    pub fn http3(&self, now: Instant) -> Option<(&Service, Duration)> {
        let (service, until) = self.known.as_ref()?;
        let is_fresh = now < *until && !self.is_broken(now);
        is_fresh.then(|| (service, until.since(now)))
    }

    /// Whether HTTP/3 has failed and is left alone for now.
    pub fn is_broken(&self, now: Instant) -> bool {
        self.broken_until.is_some_and(|until| now < until)
    }

    /// HTTP/3 has failed, so it is left alone for [`BROKEN`].
    pub fn failed(&mut self, now: Instant) {
        self.broken_until = Some(now + BROKEN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(secs: u64) -> Instant {
        Instant::from_nanos(secs * 1_000_000_000)
    }

    fn port(alternatives: &Alternatives, now: Instant) -> Option<u16> {
        alternatives.http3(now).map(|(service, _)| service.port)
    }

    #[test]
    fn services_expire_are_replaced_and_withdrawn() {
        let mut known = Alternatives::default();
        let young = Duration::ZERO;
        known.take("h2=\":1\", h3=\":2\"; ma=60, h3=\":3\"", young, at(10));
        assert_eq!(port(&known, at(69)), Some(2), "the first that is HTTP/3");
        assert_eq!(port(&known, at(70)), None, "expired");
        known.take("h3=\":4\"; ma=60", Duration::from_secs(40), at(10));
        assert_eq!(port(&known, at(29)), Some(4));
        assert_eq!(port(&known, at(30)), None, "the response had an age");
        known.take("h3=\":5\"", young, at(10));
        known.take("nonsense", young, at(11));
        known.take("", young, at(11));
        assert_eq!(port(&known, at(12)), Some(5));
        known.take("clear", young, at(12));
        assert_eq!(port(&known, at(12)), None);
        known.take("h3=\":6\"", young, at(13));
        known.take("h2=\":6\"", young, at(14));
        assert_eq!(port(&known, at(14)), None, "the list replaces the earlier one");
    }

    #[test]
    fn one_that_failed_is_left_alone_for_a_while() {
        let mut known = Alternatives::default();
        known.take("h3=\":1\"", Duration::ZERO, at(0));
        known.failed(at(10));
        assert_eq!(port(&known, at(309)), None);
        assert_eq!(port(&known, at(310)), Some(1));
    }
}
