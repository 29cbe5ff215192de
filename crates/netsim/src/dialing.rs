//! Runs a real crew in a world: its lines, unchanged, over a simulated TCP. Counterpart of [`super::Hosted`].
//!
//! Carries out the wishes of [`runtime::dial`] one turn at a time. Data sent before a connection is open waits for it, as
//! in [`runtime::dial`]. There is no kernel with counters here, so [`Wish::Inspect`] has no answer.

use crate::host::{Application, Conn, Happened, Work};
use runtime::dial::{Crew, Failing, Happened as Told, Port, Wish};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tcp::Closed;
use units::{Duration, Instant};

/// An activity of the host's processor for a crew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort<'a> {
    /// A connection is about to be opened.
    Connecting,
    /// This many bytes were handed to the crew, which has processed them; its wishes come after this effort.
    Heard(usize),
    /// These bytes are about to be sent.
    Sending(&'a [u8]),
}

/// How long an effort occupies the processor; it may inspect the crew.
pub type Price<C> = Box<dyn FnMut(&C, Effort<'_>) -> Duration>;

/// Runs a [`Crew`] as the application of a simulated host. The other handle on the crew gives access to its results.
pub struct Dialing<C: Crew> {
    crew: Rc<RefCell<C>>,
    port: Port,
    price: Price<C>,
    lines: BTreeMap<u32, Line>,
    owners: BTreeMap<Conn, u32>,
    /// The instant and number of each line's alarm.
    alarms: BTreeMap<u32, (Instant, u64)>,
    timers: BTreeMap<u64, u32>,
    count: u64,
}

struct Line {
    conn: Conn,
    link: Link,
}

/// ```text
///   Opening(what waits) ──opened──▶ Open
/// ```
enum Link {
    Opening(Vec<Vec<u8>>),
    Open,
}

impl<C: Crew> Dialing<C> {
    /// The crew on a processor that spends `turn_time` on each piece it sends.
    pub fn new(crew: Rc<RefCell<C>>, turn_time: Duration) -> Dialing<C> {
        let price = move |_: &C, effort: Effort<'_>| match effort {
            Effort::Sending(_) => turn_time,
            _ => Duration::ZERO,
        };
        Dialing::priced(crew, Box::new(price))
    }

    /// The crew on a processor whose efforts cost what `price` returns.
    pub fn priced(crew: Rc<RefCell<C>>, price: Price<C>) -> Dialing<C> {
        Dialing {
            crew,
            port: Port::default(),
            price,
            lines: BTreeMap::new(),
            owners: BTreeMap::new(),
            alarms: BTreeMap::new(),
            timers: BTreeMap::new(),
            count: 0,
        }
    }

    fn tell(&mut self, line: u32, told: Told<'_>, work: &mut Work, now: Instant) {
        let heard = match told {
            Told::Bytes(bytes) => Some(bytes.len()),
            _ => None,
        };
        self.crew.borrow_mut().handle(line, told, &mut self.port, now);
        if let Some(bytes) = heard {
            self.charge(Effort::Heard(bytes), work);
        }
        self.obey(work, now);
    }

    fn charge(&mut self, effort: Effort<'_>, work: &mut Work) {
        work.run((self.price)(&self.crew.borrow(), effort));
    }

    fn obey(&mut self, work: &mut Work, now: Instant) {
        let (wishes, bytes) = self.port.take();
        let mut rest = &bytes[..];
        for wish in wishes {
            match wish {
                Wish::Connect(line) => {
                    self.close(line, work);
                    self.charge(Effort::Connecting, work);
                    let conn = work.connect();
                    self.owners.insert(conn, line);
                    let link = Link::Opening(Vec::new());
                    self.lines.insert(line, Line { conn, link });
                }
                Wish::Send(line, len) => {
                    let (piece, left) = rest.split_at(len);
                    rest = left;
                    match self.lines.get_mut(&line) {
                        None => {}
                        Some(Line {
                            link: Link::Opening(waiting),
                            ..
                        }) => waiting.push(piece.to_vec()),
                        Some(open) => {
                            let conn = open.conn;
                            self.charge(Effort::Sending(piece), work);
                            work.write(conn, piece.to_vec());
                        }
                    }
                }
                // The world's log already has every segment.
                Wish::Close(line) | Wish::Leave(line) => self.close(line, work),
                Wish::Wake(line, at) => {
                    self.count += 1;
                    if let Some((_, old)) = self.alarms.insert(line, (at, self.count)) {
                        self.timers.remove(&old);
                    }
                    self.timers.insert(self.count, line);
                    work.timer(at.since(now), self.count);
                }
                Wish::Write(..) | Wish::Abandon(..) | Wish::Blame(..) => {
                    debug_assert!(false, "TCP carries no streams");
                }
                // The simulation copies every byte: nothing can be skipped or inspected.
                Wish::Inspect(_) | Wish::Skip(..) => {}
            }
        }
        if self.port.is_ended() {
            let lines: Vec<u32> = self.lines.keys().copied().collect();
            lines.into_iter().for_each(|line| self.close(line, work));
        }
    }

    fn close(&mut self, line: u32, work: &mut Work) {
        if let Some(line) = self.lines.remove(&line) {
            self.owners.remove(&line.conn);
            work.close(line.conn);
        }
    }
}

impl<C: Crew> Application for Dialing<C> {
    fn handle(&mut self, happened: Happened, work: &mut Work, now: Instant) {
        if self.port.is_ended() {
            return;
        }
        match happened {
            Happened::Started => {
                self.crew.borrow_mut().start(&mut self.port, now);
                self.obey(work, now);
            }
            Happened::Opened(conn) => {
                work.no_delay(conn, true);
                let Some(&line) = self.owners.get(&conn) else {
                    return;
                };
                let Some(open) = self.lines.get_mut(&line) else {
                    return;
                };
                if let Link::Opening(waiting) = std::mem::replace(&mut open.link, Link::Open) {
                    for piece in waiting {
                        self.charge(Effort::Sending(&piece), work);
                        work.write(conn, piece);
                    }
                }
                self.tell(line, Told::Connected, work, now);
            }
            Happened::Data(conn, bytes) => {
                if let Some(&line) = self.owners.get(&conn) {
                    self.tell(line, Told::Bytes(&bytes), work, now);
                }
            }
            Happened::Finished(conn) => {
                if let Some(&line) = self.owners.get(&conn) {
                    self.tell(line, Told::Eof, work, now);
                }
            }
            Happened::Closed(conn, why) => {
                let Some(line) = self.owners.remove(&conn) else {
                    return;
                };
                let was_open = self
                    .lines
                    .remove(&line)
                    .is_some_and(|line| matches!(line.link, Link::Open));
                let failing = match (was_open, why) {
                    (true, Closed::Orderly) => return,
                    (true, _) => Failing::Open(libc::ECONNRESET),
                    (false, _) => Failing::Opening(libc::ECONNREFUSED),
                };
                self.tell(line, Told::Lost(failing), work, now);
            }
            Happened::Timer(token) => {
                let Some(line) = self.timers.remove(&token) else {
                    return;
                };
                if let Some((at, _)) = self.alarms.remove(&line) {
                    self.tell(line, Told::Woken(at), work, now);
                }
            }
            Happened::Progress(..) | Happened::Drained(_) | Happened::Reached(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toy::Toy;
    use crate::{HostSetup, Hosted, Limits, World};
    use tcp::{Setup, Stack};
    use units::{Seed, UnixTime};

    /// Two lines that each send a text line, wake once, and listen to the end.
    #[derive(Default)]
    struct Pair {
        heard: BTreeMap<u32, Vec<u8>>,
        events: Vec<(u32, &'static str, Instant)>,
    }

    impl Crew for Pair {
        fn start(&mut self, port: &mut Port, now: Instant) {
            for line in [3, 7] {
                port.connect(line);
                port.send(line, |out| {
                    out.extend_from_slice(format!("echo {line}\n").as_bytes())
                });
                port.wake(line, now + Duration::from_secs(1));
                port.wake(line, now + Duration::from_secs(2));
            }
        }

        fn handle(&mut self, line: u32, told: Told<'_>, port: &mut Port, now: Instant) {
            let what = match told {
                Told::Connected => "connected",
                Told::Bytes(bytes) => {
                    self.heard.entry(line).or_default().extend_from_slice(bytes);
                    "bytes"
                }
                Told::Woken(at) => {
                    assert_eq!(at, now);
                    port.send(line, |out| out.extend_from_slice(b"bye\n"));
                    "woken"
                }
                Told::Eof => {
                    port.close(line);
                    if self.events.iter().any(|(_, what, _)| *what == "eof") {
                        port.end();
                    }
                    "eof"
                }
                Told::Lost(_) => "lost",
                Told::Inspected(_)
                | Told::Measured(_)
                | Told::Skipped(_)
                | Told::Secured(_)
                | Told::Refused(_)
                | Told::Closed(_)
                | Told::Stream(..)
                | Told::Stopped(..) => {
                    panic!("nobody asked for that")
                }
            };
            self.events.push((line, what, now));
        }

        fn stop(&mut self, port: &mut Port, _: Instant) {
            port.end();
        }
    }

    #[test]
    fn a_crew_meets_a_service_in_virtual_time() {
        let profile = link::Profile::parse("ppp", &link::Limits::default(), &mut |_| Err(String::new()));
        let host = || HostSetup {
            tcp: Setup::new(Stack::preset("linux-6").expect("a preset"), 0),
            read_time: Duration::ZERO,
            read_max: 65_536,
            line_gain: 1.0,
        };
        let crew = Rc::new(RefCell::new(Pair::default()));
        let dialing = Dialing::new(Rc::clone(&crew), Duration::ZERO);
        let hosted = Hosted::new(Toy::default(), Duration::ZERO, UnixTime::from_secs(0));
        let mut world = World::new(
            &profile.expect("a preset"),
            (host(), Box::new(dialing)),
            (host(), Box::new(hosted)),
            Seed(1),
            Limits::default(),
        );
        world.run(Instant::ZERO + Duration::from_secs(60));
        let crew = crew.borrow();
        for line in [3, 7] {
            assert_eq!(crew.heard[&line], format!("{line}\nbye\n").into_bytes());
            let of_line: Vec<&str> = crew
                .events
                .iter()
                .filter(|(of, ..)| *of == line)
                .map(|(_, what, _)| *what)
                .collect();
            assert_eq!(of_line, ["connected", "bytes", "woken", "bytes", "eof"]);
        }
        let connected = crew.events[0].2;
        // One round trip over a modem.
        assert!(
            connected >= Instant::ZERO + Duration::from_millis(100),
            "{connected:?}"
        );
    }
}
