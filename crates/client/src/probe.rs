//! A crew that only connects: it measures how long a server takes to complete the handshake, and reports that once.

use runtime::dial::{Crew, Failing, Happened, Port};
use std::sync::mpsc::Sender;
use units::{Duration, Instant};

/// The line of the only connection.
const LINE: u32 = 1;

/// What a probe found. `W` tells probes apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<W> {
    /// Which probe it was.
    pub which: W,
    /// When it began.
    pub began: Instant,
    /// When this was known.
    pub at: Instant,
    /// Whether requests could leave, or why not.
    pub outcome: Result<(), String>,
}

/// One connection, closed when its handshake is complete or has failed.
#[derive(Debug)]
pub struct Probe<W> {
    which: W,
    began: Instant,
    limit: Duration,
    report: Sender<Found<W>>,
}

impl<W> Probe<W> {
    /// A probe that reports at the latest after `limit`. It reports exactly once, unless it is stopped before.
    pub fn new(which: W, limit: Duration, report: Sender<Found<W>>) -> Probe<W> {
        Probe {
            which,
            began: Instant::ZERO,
            limit,
            report,
        }
    }
}

impl<W: Copy + Send + 'static> Crew for Probe<W> {
    fn start(&mut self, port: &mut Port, now: Instant) {
        self.began = now;
        port.connect(LINE);
        port.wake(LINE, now + self.limit);
    }

    fn handle(&mut self, _: u32, happened: Happened<'_>, port: &mut Port, now: Instant) {
        let system = |errno| std::io::Error::from_raw_os_error(errno).to_string();
        let outcome = match happened {
            Happened::Secured(_) => Ok(()),
            Happened::Refused(why) | Happened::Closed(why) => Err(why.to_owned()),
            Happened::Lost(Failing::Here(errno) | Failing::Opening(errno) | Failing::Open(errno)) => {
                Err(system(errno))
            }
            Happened::Lost(Failing::Cut) | Happened::Eof => {
                Err("the server ended the connection during the handshake".to_owned())
            }
            Happened::Woken(_) => Err(format!("no handshake within {:?}", self.limit)),
            Happened::Connected
            | Happened::Bytes(_)
            | Happened::Skipped(_)
            | Happened::Inspected(_)
            | Happened::Measured(_)
            | Happened::Stream(..)
            | Happened::Stopped(..) => return,
        };
        if port.is_ended() {
            return;
        }
        // Nobody listens any more if the race is decided.
        let _ = self.report.send(Found {
            which: self.which,
            began: self.began,
            at: now,
            outcome,
        });
        self.stop(port, now);
    }

    fn stop(&mut self, port: &mut Port, _: Instant) {
        port.close(LINE);
        port.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::dial::{Security, Wish};
    use std::sync::mpsc::channel;

    /// ECONNREFUSED (errno(3)).
    const REFUSED: i32 = 111;

    const SECURITY: Security = Security {
        version: "TLS 1.3",
        suite: "",
        resumed: false,
        protocol: "h3",
    };

    #[test]
    fn a_probe_reports_once_and_ends() {
        let cases: [(Happened<'_>, Result<(), &str>); 5] = [
            (Happened::Secured(SECURITY), Ok(())),
            (Happened::Refused("unknown issuer"), Err("unknown issuer")),
            (Happened::Lost(Failing::Opening(REFUSED)), Err("refused")),
            (Happened::Eof, Err("ended the connection")),
            (Happened::Woken(Instant::ZERO), Err("no handshake within")),
        ];
        for (happened, wanted) in cases {
            let (report, found) = channel();
            let mut probe = Probe::new('q', Duration::from_secs(1), report);
            let mut port = Port::default();
            probe.start(&mut port, Instant::from_nanos(5));
            probe.handle(LINE, Happened::Connected, &mut port, Instant::from_nanos(6));
            assert!(found.try_recv().is_err() && !port.is_ended());
            probe.handle(LINE, happened, &mut port, Instant::from_nanos(7));
            probe.handle(LINE, Happened::Eof, &mut port, Instant::from_nanos(8));
            let one = found.try_recv().expect("a report");
            assert_eq!((one.which, one.began.as_nanos(), one.at.as_nanos()), ('q', 5, 7));
            match (one.outcome, wanted) {
                (Ok(()), Ok(())) => {}
                (Err(why), Err(fragment)) => assert!(why.contains(fragment), "{why}"),
                other => panic!("{other:?}"),
            }
            assert!(found.try_recv().is_err() && port.is_ended());
            assert!(port.take().0.contains(&Wish::Close(LINE)));
        }
    }
}
