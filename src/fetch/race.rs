//! HTTP/3 or TCP: what `weir fetch` uses, in the manner of Happy Eyeballs (RFC 8305).
//!
//! ```text
//!   HTTP/3 named (--mode h3, or Alt-Svc) ──▶ QUIC handshake ──▶ first to finish wins ──▶ the fetch, over the winner
//!                                  250 ms, or failed ──▶ TCP and TLS handshake ──▲
//! ```
//! The race is decided by handshakes of their own, before the fetch: the times of a fetch contain none of it. The slower
//! one goes on until the fetch is over, so that the report can tell a slow handshake of QUIC from one that never came.

use super::qlog::Taping;
use super::{http3, taped};
use crate::cli::fetch::Flags;
use crate::failure::Failure;
use crate::secure::{self, Crews, Secure};
use client::alternatives::Alternatives;
use client::fetch::{Fetch, Outcome};
use client::plan::{Limits, Manner, Mode};
use client::probe::{Found, Probe};
use runtime::clock;
use serde_json::{Value, json};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, Sender, channel};
use units::{Duration, Instant};
use url::Url;

/// How long QUIC is alone: the Connection Attempt Delay of RFC 8305 section 5.
const HEAD_START: Duration = Duration::from_millis(250);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Quic,
    Tcp,
}

/// A race that is decided.
pub(super) struct Race {
    winner: Way,
    quic: Side,
    tcp: Option<Side>,
    /// Host and port of the alternative service, and how long it is fresh; `None`: the user named HTTP/3.
    service: Option<(String, Duration)>,
    found: Receiver<Found<Way>>,
    running: Vec<Crews<Probe<Way>>>,
}

/// One side of it.
#[derive(Clone, Debug)]
struct Side {
    began: Instant,
    /// When it was last looked at, or knew its outcome.
    at: Instant,
    /// `None` if the handshake was not over then.
    outcome: Option<Result<(), String>>,
}

impl Side {
    fn begun(now: Instant) -> Side {
        Side {
            began: now,
            at: now,
            outcome: None,
        }
    }

    fn take(&mut self, found: Found<Way>) {
        *self = Side {
            began: found.began,
            at: found.at,
            outcome: Some(found.outcome),
        };
    }

    fn took(&self) -> Duration {
        self.at.since(self.began)
    }

    fn json(&self, since: Instant) -> Value {
        let failed = self.outcome.as_ref().and_then(|outcome| outcome.as_ref().err());
        json!({
            "began": self.began.since(since).as_secs_f64(), "seconds": self.took().as_secs_f64(),
            "complete": self.outcome == Some(Ok(())), "failed": failed,
        })
    }
}

/// What fetches one after the other know of a page's HTTP/3.
pub(super) struct Racing<'f> {
    pub(super) flags: &'f Flags,
    pub(super) page: &'f Url,
    pub(super) secure: &'f Secure,
    pub(super) peer: SocketAddr,
    pub(super) known: Alternatives,
}

/// Where QUIC connects to.
struct Goal {
    address: SocketAddr,
    service: Option<(String, Duration)>,
}

impl Racing<'_> {
    /// Fetches over the winner of a race if HTTP/3 is named, and over TCP otherwise. `make` makes a fetch of a mode. `taping`
    /// records its connections over QUIC, not that of the race.
    pub(super) fn fetch(
        &mut self,
        manner: Manner,
        make: impl Fn(Manner) -> Fetch,
        taping: Option<&Taping>,
    ) -> Result<(Outcome, Option<Race>, SocketAddr), Failure> {
        let over_tcp = self.secure.for_either();
        let auto = Manner {
            mode: Mode::Auto,
            ..manner
        };
        let Some(goal) = self.goal(manner.mode) else {
            let outcome = super::driven(make(auto), self.peer, Some(&over_tcp))?;
            self.known.learn(&outcome.timeline);
            return Ok((outcome, None, self.peer));
        };
        let over_quic = http3(self.flags, Some(self.secure))?;
        let mut race = self.raced(&goal, &over_quic, &over_tcp)?;
        let (outcome, peer) = match race.winner {
            Way::Quic => {
                let http3 = Manner {
                    mode: Mode::Http3,
                    ..manner
                };
                let fetch = match &goal.service {
                    Some((authority, _)) => make(http3).at_alternative(authority.clone()),
                    None => make(http3),
                };
                let over_quic = taped(over_quic, taping);
                (
                    super::driven(fetch, goal.address, Some(&over_quic))?,
                    goal.address,
                )
            }
            Way::Tcp => (super::driven(make(auto), self.peer, Some(&over_tcp))?, self.peer),
        };
        race.settle();
        self.known.learn(&outcome.timeline);
        if race.quic.outcome != Some(Ok(())) && race.winner == Way::Tcp {
            self.known.failed(clock::now());
        }
        Ok((outcome, Some(race), peer))
    }

    /// The HTTP/3 service to try, if there is one.
    fn goal(&self, mode: Mode) -> Option<Goal> {
        let now = clock::now();
        if let Some((service, fresh)) = self.known.http3(now) {
            let own = self.page.host_str().unwrap_or_default();
            let (host, port) = (service.host.as_str(), service.port);
            let address = match host {
                "" => Some(SocketAddr::new(self.peer.ip(), port)),
                host => (secure::host(host), port)
                    .to_socket_addrs()
                    .ok()
                    .and_then(|mut all| all.next()),
            };
            let host = if host.is_empty() { own } else { host };
            match address {
                Some(address) => {
                    return Some(Goal {
                        address,
                        service: Some((format!("{host}:{port}"), fresh)),
                    });
                }
                None => tracing::warn!(
                    "Alt-Svc of `{own}` names `{}`, which has no address; HTTP/3 is not tried there",
                    host.escape_debug()
                ),
            }
        }
        (mode == Mode::Http3 && !self.known.is_broken(now)).then_some(Goal {
            address: self.peer,
            service: None,
        })
    }

    /// Lets QUIC and TCP race.
    fn raced(&self, goal: &Goal, over_quic: &Secure, over_tcp: &Secure) -> Result<Race, Failure> {
        let limit = self
            .flags
            .connect_timeout
            .unwrap_or(Limits::DEFAULT.connect_timeout);
        let begin = |way, peer, secure: &Secure, tell: &Sender<Found<Way>>| {
            let probe = Probe::new(way, limit, tell.clone());
            secure::start(vec![probe], peer, Some(secure))
                .map_err(|error| Failure::System(format!("cannot start a thread: {error}")))
        };
        let (tell, found) = channel();
        let mut race = Race {
            winner: Way::Quic,
            quic: Side::begun(clock::now()),
            tcp: None,
            service: goal.service.clone(),
            found,
            running: vec![begin(Way::Quic, goal.address, over_quic, &tell)?],
        };
        if let Ok(first) = race.found.recv_timeout(HEAD_START) {
            race.quic.take(first);
        }
        if race.quic.outcome == Some(Ok(())) {
            return Ok(race);
        }
        race.tcp = Some(Side::begun(clock::now()));
        race.running.push(begin(Way::Tcp, self.peer, over_tcp, &tell)?);
        drop(tell);
        // Each reports once, at its time limit at the latest.
        while race.is_open()
            && let Ok(one) = race.found.recv()
        {
            let (way, is_won) = (one.which, one.outcome.is_ok());
            race.side(way).take(one);
            if is_won {
                race.winner = way;
                return Ok(race);
            }
        }
        let why = |side: Option<&Side>| match side.and_then(|side| side.outcome.clone()) {
            Some(Err(why)) => why,
            _ => "its thread ended early".to_owned(),
        };
        Err(Failure::Failed(format!(
            "`{}`: neither QUIC nor TCP connects; QUIC: {}; TCP: {}",
            self.page,
            why(Some(&race.quic)),
            why(race.tcp.as_ref())
        )))
    }
}

impl Race {
    /// Whether a side has not reported yet.
    fn is_open(&self) -> bool {
        let has_reported = |side: &Side| side.outcome.is_some();
        !(has_reported(&self.quic) && self.tcp.as_ref().is_some_and(has_reported))
    }

    fn side(&mut self, way: Way) -> &mut Side {
        match way {
            Way::Quic => &mut self.quic,
            Way::Tcp => self.tcp.get_or_insert_with(|| Side::begun(clock::now())),
        }
    }

    /// Ends the race, with what the slower side has done meanwhile.
    fn settle(&mut self) {
        let now = clock::now();
        while let Ok(one) = self.found.try_recv() {
            let way = one.which;
            self.side(way).take(one);
        }
        for side in std::iter::once(&mut self.quic).chain(&mut self.tcp) {
            if side.outcome.is_none() {
                side.at = now;
            }
        }
        for running in self.running.drain(..) {
            running.stopper().stop();
            if let Err(error) = running.join() {
                tracing::debug!("a handshake of the race ended: {error}");
            }
        }
    }

    fn winner(&self) -> &'static str {
        match self.winner {
            Way::Quic => "QUIC",
            Way::Tcp => "TCP",
        }
    }

    /// Why the winner won.
    fn why(&self) -> String {
        let said = |took: Duration| format!("{} ms", super::report::milliseconds(took));
        let late = |tcp: &Side| said(tcp.began.since(self.quic.began));
        match (self.winner, &self.quic.outcome, &self.tcp) {
            (Way::Quic, _, None) => format!(
                "its handshake took {}, so TCP did not start (it would have after {})",
                said(self.quic.took()),
                said(HEAD_START)
            ),
            (Way::Quic, _, Some(tcp)) => {
                let other = match &tcp.outcome {
                    Some(Ok(())) => format!("took {}", said(tcp.took())),
                    Some(Err(why)) => format!("failed: {why}"),
                    None => "had not finished".to_owned(),
                };
                format!(
                    "its handshake took {}; TCP and TLS, started {} later, {other}",
                    said(self.quic.took()),
                    late(tcp)
                )
            }
            (Way::Tcp, quic, tcp) => {
                let tcp = tcp.as_ref().unwrap_or(&self.quic);
                let quic = match quic {
                    Some(Err(why)) => format!("QUIC failed after {}: {why}", said(self.quic.took())),
                    Some(Ok(())) => format!("the handshake of QUIC was slower: {}", said(self.quic.took())),
                    None => format!(
                        "QUIC had no handshake within {}: UDP may be blocked, or slower than that",
                        said(self.quic.took())
                    ),
                };
                format!(
                    "{quic}; TCP and TLS, started {} later, took {}",
                    late(tcp),
                    said(tcp.took())
                )
            }
        }
    }

    /// The line of the report.
    pub(super) fn said(&self) -> String {
        let by = match &self.service {
            Some((authority, fresh)) => {
                format!(
                    "Alt-Svc names HTTP/3 at {authority} for {} s more",
                    fresh.as_secs()
                )
            }
            None => "HTTP/3 is assumed at the port of the URL (--mode h3)".to_owned(),
        };
        format!("{by}\n{} won the race: {}\n", self.winner(), self.why())
    }

    pub(super) fn json(&self) -> Value {
        let since = self.quic.began;
        json!({
            "winner": self.winner().to_ascii_lowercase(), "why": self.why(),
            "alternative": self.service.as_ref().map(|(authority, _)| authority),
            "fresh_seconds": self.service.as_ref().map(|(_, fresh)| fresh.as_secs()),
            "quic": self.quic.json(since), "tcp": self.tcp.as_ref().map(|tcp| tcp.json(since)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A side that began after so many milliseconds. So many later, it was over, or was looked at.
    fn side(began: u64, took: u64, outcome: Option<Result<(), &str>>) -> Side {
        let began = Instant::ZERO + Duration::from_millis(began);
        Side {
            began,
            at: began + Duration::from_millis(took),
            outcome: outcome.map(|outcome| outcome.map_err(str::to_owned)),
        }
    }

    fn race(winner: Way, quic: Side, tcp: Option<Side>) -> Race {
        let (_, found) = channel();
        Race {
            winner,
            quic,
            tcp,
            service: None,
            found,
            running: Vec::new(),
        }
    }

    #[test]
    fn every_outcome_says_why_the_winner_won() {
        let complete = Some(Ok(()));
        let in_time = "its handshake took 300.0 ms; TCP and TLS, started 250.0 ms later";
        let (early, late) = (
            "; TCP and TLS, started 20.0 ms later, took 40.0 ms",
            "; TCP and TLS, started 250.0 ms later, took 40.0 ms",
        );
        let tcp = |began| Some(side(began, 40, complete));
        for (winner, quic, tcp, why) in [
            (
                Way::Quic,
                side(0, 30, complete),
                None,
                "its handshake took 30.0 ms, so TCP did not start (it would have after 250.0 ms)".to_owned(),
            ),
            (
                Way::Quic,
                side(0, 300, complete),
                tcp(250),
                format!("{in_time}, took 40.0 ms"),
            ),
            (
                Way::Quic,
                side(0, 300, complete),
                Some(side(250, 10, Some(Err("refused")))),
                format!("{in_time}, failed: refused"),
            ),
            (
                Way::Quic,
                side(0, 300, complete),
                Some(side(250, 90, None)),
                format!("{in_time}, had not finished"),
            ),
            (
                Way::Tcp,
                side(0, 20, Some(Err("no route"))),
                tcp(20),
                format!("QUIC failed after 20.0 ms: no route{early}"),
            ),
            (
                Way::Tcp,
                side(0, 400, complete),
                tcp(250),
                format!("the handshake of QUIC was slower: 400.0 ms{late}"),
            ),
            (
                Way::Tcp,
                side(0, 900, None),
                tcp(250),
                format!(
                    "QUIC had no handshake within 900.0 ms: UDP may be blocked, or slower than that{late}"
                ),
            ),
        ] {
            let race = race(winner, quic, tcp);
            assert_eq!(race.why(), why);
            let name = match winner {
                Way::Quic => "QUIC",
                Way::Tcp => "TCP",
            };
            let said = format!("{name} won the race: {why}\n");
            assert!(race.said().ends_with(&said), "{}", race.said());
            let json = race.json();
            assert_eq!(json["winner"], name.to_ascii_lowercase(), "{json}");
            assert_eq!(json["why"], why, "{json}");
        }
    }

    #[test]
    fn it_says_who_named_http3() {
        let mut race = race(Way::Quic, side(0, 30, Some(Ok(()))), None);
        let assumed = "HTTP/3 is assumed at the port of the URL (--mode h3)\n";
        assert!(race.said().starts_with(assumed), "{}", race.said());
        assert_eq!(race.json()["alternative"], Value::Null);
        race.service = Some(("b.test:8443".to_owned(), Duration::from_secs(60)));
        let named = "Alt-Svc names HTTP/3 at b.test:8443 for 60 s more\n";
        assert!(race.said().starts_with(named), "{}", race.said());
        assert_eq!(race.json()["alternative"], "b.test:8443");
        assert_eq!(race.json()["fresh_seconds"], 60);
    }

    #[test]
    fn each_side_tells_its_times_from_the_beginning_of_the_race() {
        let tcp = side(250, 500, Some(Err("refused")));
        let json = race(Way::Quic, side(0, 1_000, Some(Ok(()))), Some(tcp)).json();
        assert_eq!(
            json["quic"],
            json!({"began": 0.0, "seconds": 1.0, "complete": true, "failed": null})
        );
        assert_eq!(
            json["tcp"],
            json!({"began": 0.25, "seconds": 0.5, "complete": false, "failed": "refused"})
        );
        let unfinished = race(Way::Tcp, side(0, 1_000, None), None).json();
        assert_eq!(
            unfinished["quic"],
            json!({"began": 0.0, "seconds": 1.0, "complete": false, "failed": null})
        );
        assert_eq!(unfinished["tcp"], Value::Null);
    }
}
