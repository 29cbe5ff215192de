//! A page with embedded objects over one link, in the protocol modes of document 003.
//!
//! The base object is fetched first and completely, then its embedded objects: over parallel connections, one after
//! another on one connection, or all requested at once. If connections share the link, the exact time depends on how
//! packets interleave, so the answer gives both extremes: everything overlaps, nothing overlaps.
//!
//! Loss adds to every transfer the latency that `tcp::loss` computes (Cardwell 2000) from its initial window. A
//! persistent connection continues with its expected window: the window without loss if nothing was lost, otherwise
//! at most the long-run window at a loss (PFTK).

use crate::Seconds;
use crate::domain::{DomainError, non_negative, positive};
use crate::explain::{Bound, Explained, significant};
use crate::tcp::ramp::Path;
use crate::tcp::setup::Setup;
use crate::tcp::steady::window_at_loss;
use crate::tcp::{Sender, loss};
use serde::Serialize;
use units::{Bytes, Rate};

/// A page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Page {
    /// Bytes of the document that refers to the others.
    pub base: Bytes,
    /// Bytes of its embedded objects.
    pub embedded: Vec<Bytes>,
    /// Bytes of a request.
    pub request: Bytes,
    /// Bytes of a response's header section.
    pub response_header: Bytes,
}

impl Page {
    /// Document 003's Microscape page in round numbers: 42 KB of HTML and 42 images of 128,287 B in total, with
    /// requests of 190 B. Header sections of 226 B are from document 001.
    pub fn microscape() -> Page {
        let mut embedded = vec![Bytes(128_287 / 42); 42];
        embedded[0].0 += 128_287 % 42;
        Page {
            base: Bytes(42_000),
            embedded,
            request: Bytes(190),
            response_header: Bytes(226),
        }
    }
}

/// A protocol mode for fetching the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Fetch {
    /// HTTP/1.0: a connection per object, several in parallel.
    PerObject {
        /// Number of parallel connections.
        connections: u32,
    },
    /// HTTP/1.1 persistent connections, one outstanding request on each.
    Persistent {
        /// Number of parallel connections; 1 is document 003's serial mode.
        connections: u32,
    },
    /// HTTP/1.1 pipelining: the base object, then all other requests at once on the same connection.
    Pipelined,
}

impl Fetch {
    /// The modes of document 003, with its four parallel connections.
    pub const DOCUMENT: [Fetch; 3] = [
        Fetch::PerObject { connections: 4 },
        Fetch::Persistent { connections: 1 },
        Fetch::Pipelined,
    ];

    /// The name used in tables.
    pub fn name(self) -> String {
        match self {
            Fetch::PerObject { connections: 1 } => "HTTP/1.0 serial".to_owned(),
            Fetch::PerObject { connections } => format!("HTTP/1.0, {connections} connections"),
            Fetch::Persistent { connections: 1 } => "HTTP/1.1 serial".to_owned(),
            Fetch::Persistent { connections } => format!("HTTP/1.1, {connections} connections"),
            Fetch::Pipelined => "HTTP/1.1 pipelined".to_owned(),
        }
    }
}

/// The path to the server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Access {
    /// Rate towards the client.
    pub down: Rate,
    /// Rate towards the server.
    pub up: Rate,
    /// Round-trip time.
    pub rtt: Seconds,
    /// The server's sender.
    pub sender: Sender,
    /// How connections are set up.
    pub setup: Setup,
    /// Server time per request.
    pub think: Seconds,
    /// Packet loss in each direction; below 0.5.
    pub loss: f64,
}

/// Time to fetch a page.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PageTime {
    /// The protocol mode.
    pub fetch: Fetch,
    /// The estimate: everything that can overlap does, and the link carries every byte once.
    pub total: Seconds,
    /// The upper extreme: nothing overlaps on the link.
    pub total_max: Seconds,
    /// The part of `total` that is due to losses.
    pub losses: Seconds,
    /// Setup and transfer of the base object.
    pub base: Seconds,
    /// Connections opened.
    pub connections: u64,
    /// Packets in both directions without retransmissions: data, one ACK per `b` segments, requests, seven per
    /// connection to open and close it.
    pub packets: u64,
    /// Bytes towards the client, all headers included.
    pub bytes_down: u64,
}

/// Limit on the objects of a page.
pub const OBJECTS_MAX: usize = 1_000_000;

struct Fetcher<'a> {
    page: &'a Page,
    access: &'a Access,
    path: Path,
}

impl Fetcher<'_> {
    /// One exchange on a connection with window `window`: time, time on the wire, window afterwards.
    fn exchange(&self, size: Bytes, requests: u64, window: f64) -> Result<(f64, f64, f64), DomainError> {
        let Access { sender, loss: p, .. } = self.access;
        let request = self.page.request.0 * requests + sender.header.0;
        let up = Rate::seconds_for(self.access.up, Bytes(request));
        let whole = Bytes(size.0 + self.page.response_header.0 * requests);
        let sent = self.path.send(sender, whole, window);
        // A kept window counts only as far as the exchange fills it: a loss among few segments ends in a timeout,
        // whatever the window's size.
        let begun = Sender {
            initial_window: window.min(sent.segments.max(sender.initial_window)),
            ..*sender
        };
        let lost = loss::added(&self.path, &begun, Setup::Open, whole, *p)?;
        let time = up + self.access.rtt.0 + self.access.think.0 * requests as f64 + sent.sending().0 + lost.0;
        let window = if *p == 0.0 {
            sent.window
        } else {
            let survives = f64::exp(sent.segments * f64::ln_1p(-p));
            let hit = sent.window.min(window_at_loss(*p, sender.rounds_per_increase));
            (survives * sent.window + (1.0 - survives) * hit).max(1.0)
        };
        Ok((time, sent.wire.0, window))
    }

    fn setup(&self) -> f64 {
        let Access {
            setup,
            sender,
            loss: p,
            ..
        } = self.access;
        loss::setup_time(&self.path, sender, *setup, *p).0
    }
}

/// Time of `page` over `access`, fetched as `fetch`.
pub fn page_time(page: &Page, access: &Access, fetch: Fetch) -> Result<Explained<PageTime>, DomainError> {
    let (mut answer, rest) = timed(page, access, fetch)?;
    if access.loss > 0.0 {
        let clean = Access { loss: 0.0, ..*access };
        answer.losses = answer.total - timed(page, &clean, fetch)?.0.total;
    }
    Ok(explain(page, access, answer, rest))
}

/// Its time, and the time of the embedded objects.
fn timed(page: &Page, access: &Access, fetch: Fetch) -> Result<(PageTime, f64), DomainError> {
    access.sender.check()?;
    loss::check(access.loss)?;
    positive("rate down", access.down.bits_per_second(), "1 bit/s or more")?;
    positive("rate up", access.up.bits_per_second(), "1 bit/s or more")?;
    positive("RTT", access.rtt.0, "above 0 s")?;
    non_negative("server time", access.think.0, "0 s or more")?;
    positive("base object", page.base.0 as f64, "1 B or more")?;
    let objects = page.embedded.len();
    crate::domain::within(
        "embedded objects",
        objects as f64,
        objects <= OBJECTS_MAX,
        "up to 1,000,000",
    )?;
    if let Fetch::PerObject { connections } | Fetch::Persistent { connections } = fetch {
        positive("connections", f64::from(connections), "1 or more")?;
    }
    let f = Fetcher {
        page,
        access,
        path: Path::new(access.down, access.rtt)?,
    };
    let (first, _, window) = f.exchange(page.base, 1, access.sender.initial_window)?;
    let base = f.setup() + first;
    let (rest, rest_max, opened) = match fetch {
        Fetch::PerObject { connections } => side_by_side(&f, connections, None)?,
        Fetch::Persistent { connections } => side_by_side(&f, connections, Some(window))?,
        Fetch::Pipelined if objects == 0 => (0.0, 0.0, 0),
        Fetch::Pipelined => {
            let bytes = page.embedded.iter().map(|size| size.0).sum();
            let (time, ..) = f.exchange(Bytes(bytes), objects as u64, window)?;
            (time, time, 0)
        }
    };
    let connections = 1 + opened;
    let (packets, bytes_down) = count(page, access, fetch, connections);
    let answer = PageTime {
        fetch,
        total: Seconds(base + rest),
        total_max: Seconds(base + rest_max),
        losses: Seconds::ZERO,
        base: Seconds(base),
        connections,
        packets,
        bytes_down,
    };
    Ok((answer, rest))
}

/// The embedded objects over `connections` connections, each on the first free one. `kept` is the window of the base
/// object's connection if connections persist. Returns least time, most time and connections opened.
fn side_by_side(
    f: &Fetcher<'_>,
    connections: u32,
    kept: Option<f64>,
) -> Result<(f64, f64, u64), DomainError> {
    let slots = (connections as usize).min(f.page.embedded.len());
    let initial = f.access.sender.initial_window;
    let (mut opened, mut wire) = (0, 0.0);
    // Per connection: end of its last exchange, that end without time on the wire, and the window once open.
    let mut lanes: Vec<(f64, f64, Option<f64>)> =
        (0..slots).map(|i| (0.0, 0.0, kept.filter(|_| i == 0))).collect();
    for &size in &f.page.embedded {
        let Some(lane) = lanes.iter_mut().min_by(|a, b| a.0.total_cmp(&b.0)) else {
            break;
        };
        let setup = if lane.2.is_none() { f.setup() } else { 0.0 };
        opened += u64::from(lane.2.is_none());
        let (time, own, window) = f.exchange(size, 1, lane.2.unwrap_or(initial))?;
        lane.0 += setup + time;
        lane.1 += setup + time - own;
        lane.2 = kept.map(|_| window);
        wire += own;
    }
    let longest = lanes.iter().map(|lane| lane.0).fold(0.0, f64::max);
    let waiting = lanes.iter().map(|lane| lane.1).fold(0.0, f64::max);
    // The link cannot start before the first request is answered, and carries every byte once.
    let request = f.access.rtt.0 + Rate::seconds_for(f.access.up, f.page.request);
    let link = if slots == 0 { 0.0 } else { wire + request };
    let least = longest.max(link);
    Ok((least, (waiting + wire).max(least), opened))
}

fn count(page: &Page, access: &Access, fetch: Fetch, connections: u64) -> (u64, u64) {
    let sender = &access.sender;
    let header = page.response_header.0;
    let mut segments = sender.segments(Bytes(page.base.0 + header));
    let mut bytes = page.base.0 + header;
    let mut requests = 1;
    if fetch == Fetch::Pipelined {
        let all: u64 = page.embedded.iter().map(|size| size.0 + header).sum();
        segments += sender.segments(Bytes(all));
        bytes += all;
        let batch = Bytes(page.request.0 * page.embedded.len() as u64);
        requests += sender.segments(batch) as u64;
    } else {
        for size in &page.embedded {
            segments += sender.segments(Bytes(size.0 + header));
            bytes += size.0 + header;
        }
        requests += page.embedded.len() as u64;
    }
    let acks = (segments / sender.segments_per_ack).ceil();
    let packets = segments as u64 + acks as u64 + requests + 7 * connections;
    (packets, bytes + segments as u64 * sender.header.0)
}

/// A lower bound for all modes: the set-up, a round trip for the document and one for its objects, and every byte
/// once.
fn floor(page: &Page, access: &Access) -> f64 {
    let objects = page.embedded.iter().map(|size| size.0).sum::<u64>() + page.base.0;
    let bytes = objects + page.response_header.0 * (1 + page.embedded.len() as u64);
    let trips = access.setup.round_trips() + 1 + u32::from(!page.embedded.is_empty());
    access.rtt.0 * f64::from(trips) + access.down.seconds_for(Bytes(bytes))
}

/// An upper bound for all modes: a connection per object in sequence, and a round trip per segment.
fn alone(page: &Page, access: &Access) -> f64 {
    let object = |size: u64| {
        let whole = Bytes(size + page.response_header.0);
        let segments = access.sender.segments(whole);
        let trips = f64::from(access.setup.round_trips() + 1) + segments;
        let full = Bytes(access.sender.mss.0 + access.sender.header.0);
        let request = Bytes(page.request.0 + access.sender.header.0);
        access.rtt.0 * trips
            + access.down.seconds_for(full) * 2.0 * segments
            + access.up.seconds_for(request)
            + access.think.0
            + access.sender.first_ack_delay.0
    };
    let embedded: f64 = page.embedded.iter().map(|size| object(size.0)).sum();
    object(page.base.0) + embedded
}

fn explain(page: &Page, access: &Access, answer: PageTime, rest: f64) -> Explained<PageTime> {
    // Neither extreme is an estimate of the values between them.
    let time = if answer.total_max > answer.total {
        format!("{} to {}", answer.total, answer.total_max)
    } else {
        answer.total.to_string()
    };
    let line = format!(
        "{}: {time} for {} over {}",
        answer.fetch.name(),
        match page.embedded.len() {
            0 => "1 object".to_owned(),
            embedded => format!("{} objects", 1 + embedded),
        },
        access.down
    );
    let mut e = Explained::new(answer, line);
    let trips = access.setup.round_trips();
    let numbers = format!(
        "{trips} x {} + {} B at {}",
        significant(access.rtt.0),
        page.base.0,
        access.down
    );
    e.step(
        "base",
        "setup and base object",
        "setup R + request + R + o/C + stalls",
        numbers,
        answer.base.0,
        "s",
        "tcp::ramp",
    );
    let (formula, source) = match answer.fetch {
        Fetch::PerObject { .. } => (
            "max(longest connection, all bytes on the link), a setup per object",
            "document 003, HTTP/1.0",
        ),
        Fetch::Persistent { .. } => (
            "max(longest connection, all bytes on the link), windows kept",
            "document 003, persistent",
        ),
        Fetch::Pipelined => (
            "request batch + R + all bytes/C + stalls of the kept window",
            "document 003, pipelined",
        ),
    };
    let bytes: u64 = page.embedded.iter().map(|size| size.0).sum();
    let numbers = format!("{} objects, {bytes} B", page.embedded.len());
    e.step("rest", "embedded objects", formula, numbers, rest, "s", source);
    if access.loss > 0.0 {
        e.step(
            "losses",
            "what losses add, in base and rest",
            "page - page at p = 0",
            format!("p = {}", significant(access.loss)),
            answer.losses.0,
            "s",
            "Cardwell et al. 2000, see tcp::loss",
        );
    }
    e.step(
        "page",
        "whole page",
        "base + rest",
        "",
        answer.total.0,
        "s",
        source,
    );
    e.bounds.push(Bound {
        quantity: "page time",
        low: floor(page, access),
        // With losses, the time has no upper bound.
        high: (access.loss == 0.0).then(|| alone(page, access)),
        unit: "s",
        source: if access.loss == 0.0 {
            "round trips of setup, document and objects and the bytes; every object on a connection of its own after \
             the other, a stall after every segment"
        } else {
            "round trips of setup, document and objects and the bytes"
        },
    });
    if answer.total_max > answer.total {
        e.bounds.push(Bound {
            quantity: "page time of this mode",
            low: answer.total.0,
            high: Some(answer.total_max.0),
            unit: "s",
            source: "connections overlap fully, or their bytes never overlap another's waiting",
        });
    }
    e.assumptions.extend([
        "the client asks for embedded objects once the base object is complete",
        "no Nagle or delayed-ACK stalls inside an exchange",
    ]);
    loss::grant(
        &mut e,
        access.loss,
        "losses stall one connection or all: say --loss, or simulate",
    );
    if access.loss > 0.0 {
        e.assumptions
            .push("of requests none is lost, and what is sent again takes no time of other connections");
        if matches!(
            answer.fetch,
            Fetch::PerObject { connections: 2.. } | Fetch::Persistent { connections: 2.. }
        ) {
            e.warnings.push(
                "side by side the slowest connection counts, which losses make slower on average than the average one: a \
                 lower estimate"
                    .to_owned(),
            );
        }
    }
    e.warnings.extend(access.setup.caveat().map(str::to_owned));
    e
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::Quantity;

    fn access(rate: Rate, rtt: f64) -> Access {
        let sender = Sender {
            initial_window: 2.0,
            ..Sender::bsd(Bytes(1460))
        };
        Access {
            down: rate,
            up: rate,
            rtt: Seconds(rtt),
            sender,
            setup: Setup::Tcp,
            think: Seconds::ZERO,
            loss: 0.0,
        }
    }

    fn time(access: &Access, fetch: Fetch) -> PageTime {
        page_time(&Page::microscape(), access, fetch).unwrap().answer
    }

    #[test]
    fn pipelining_wins_over_serial_everywhere_and_most_where_round_trips_are_long() {
        let mut gains = Vec::new();
        for (rate, rtt) in [(Rate::mbit(10), 0.0007), (Rate::mbit(2), 0.09)] {
            let a = access(rate, rtt);
            let serial = time(&a, Fetch::Persistent { connections: 1 });
            let pipelined = time(&a, Fetch::Pipelined);
            assert!(pipelined.total < serial.total);
            assert!(pipelined.packets < serial.packets);
            gains.push(serial.total.0 / pipelined.total.0);
        }
        assert!(gains[1] > 2.0 * gains[0], "{gains:?}");
    }

    #[test]
    fn a_slow_line_is_bound_by_bytes_in_every_mode() {
        let a = access(Rate(28_800), 0.15);
        let wire = 170_287.0 * 8.0 / 28_800.0;
        for fetch in Fetch::DOCUMENT {
            let t = time(&a, fetch);
            assert!(t.total.0 > wire && t.total_max.0 < 2.0 * wire, "{t:?}");
            assert!(t.total <= t.total_max);
        }
    }

    #[test]
    fn bounds_have_room_and_hold_in_every_mode() {
        for (rate, rtt) in [
            (Rate(28_800), 0.15),
            (Rate::mbit(2), 0.09),
            (Rate::mbit(1000), 0.001),
        ] {
            let a = access(rate, rtt);
            for fetch in Fetch::DOCUMENT
                .into_iter()
                .chain([Fetch::Persistent { connections: 6 }])
            {
                let e = page_time(&Page::microscape(), &a, fetch).unwrap();
                let t = e.answer;
                assert!(e.bounds.iter().all(|bound| bound.contains(t.total.0)), "{e}");
                assert!(e.bounds.iter().all(|bound| bound.contains(t.total_max.0)), "{e}");
                assert!(
                    e.bounds[0].low < t.total.0 && e.bounds[0].high.unwrap() > t.total_max.0,
                    "{e}"
                );
                // If the model knows only two extremes, the line states both.
                assert_eq!(e.line.contains(" to "), t.total_max > t.total, "{}", e.line);
            }
        }
    }

    #[test]
    fn connections_and_packets_are_counted() {
        let a = access(Rate::mbit(10), 0.0007);
        assert_eq!(time(&a, Fetch::PerObject { connections: 4 }).connections, 43);
        assert_eq!(time(&a, Fetch::Persistent { connections: 4 }).connections, 4);
        assert_eq!(time(&a, Fetch::Pipelined).connections, 1);
        assert!(
            time(&a, Fetch::PerObject { connections: 4 }).packets > 2 * time(&a, Fetch::Pipelined).packets
        );
    }

    #[test]
    fn a_page_without_objects_is_one_exchange_in_every_mode() {
        let page = Page {
            embedded: vec![],
            ..Page::microscape()
        };
        let a = access(Rate::mbit(1), 0.05);
        let times = Fetch::DOCUMENT.map(|fetch| page_time(&page, &a, fetch).unwrap().answer);
        assert!(
            times
                .iter()
                .all(|t| t.total == times[0].base && t.total_max == t.total && t.connections == 1)
        );
    }

    #[test]
    fn nonsense_is_refused() {
        let page = Page::microscape();
        let a = access(Rate::mbit(1), 0.05);
        assert!(page_time(&page, &a, Fetch::PerObject { connections: 0 }).is_err());
        assert!(
            page_time(
                &Page {
                    base: Bytes(0),
                    ..page.clone()
                },
                &a,
                Fetch::Pipelined
            )
            .is_err()
        );
        assert!(page_time(&page, &Access { down: Rate(0), ..a }, Fetch::Pipelined).is_err());
        assert!(
            page_time(
                &page,
                &Access {
                    rtt: Seconds(-1.0),
                    ..a
                },
                Fetch::Pipelined
            )
            .is_err()
        );
    }

    #[test]
    fn one_object_with_loss_is_the_transfer_with_loss() {
        for (rate, rtt) in [
            (Rate::mbit(10), 0.0007),
            (Rate::mbit(2), 0.09),
            (Rate(28_800), 0.15),
        ] {
            for (size, p) in [(1_000, 0.01), (40_000, 0.001), (40_000, 0.05), (2_000_000, 0.02)] {
                for setup in [Setup::Open, Setup::Tcp, Setup::Tls13] {
                    let page = Page {
                        base: Bytes(size),
                        embedded: vec![],
                        request: Bytes(0),
                        response_header: Bytes(0),
                    };
                    let a = Access {
                        setup,
                        loss: p,
                        ..access(rate, rtt)
                    };
                    let path = Path::new(rate, a.rtt).unwrap();
                    let of = |p| {
                        loss::latency(&path, &a.sender, setup, Bytes(size), p)
                            .unwrap()
                            .answer
                            .total
                    };
                    // The page counts the headers of the request's segment as well.
                    let want = of(p).0 + rate.seconds_for(a.sender.header);
                    for fetch in Fetch::DOCUMENT {
                        let t = page_time(&page, &a, fetch).unwrap().answer;
                        assert!(
                            (t.total.0 / want - 1.0).abs() < 1e-9,
                            "{rate} {size} {p} {setup:?}: {t:?} {want}"
                        );
                        assert!((t.losses.0 - (of(p) - of(0.0)).0).abs() < 1e-9 * want, "{t:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn pipelined_is_one_transfer_from_the_window_the_page_left() {
        let (page, a) = (
            Page::microscape(),
            Access {
                loss: 0.02,
                ..access(Rate::mbit(2), 0.09)
            },
        );
        let f = Fetcher {
            page: &page,
            access: &a,
            path: Path::new(a.down, a.rtt).unwrap(),
        };
        let (first, _, window) = f.exchange(page.base, 1, a.sender.initial_window).unwrap();
        let sent = f
            .path
            .send(&a.sender, Bytes(page.base.0 + 226), a.sender.initial_window);
        assert!(window < sent.window && window >= 1.0, "{window} {sent:?}");
        let bytes = Bytes(128_287 + 42 * 226);
        let begun = Sender {
            initial_window: window,
            ..a.sender
        };
        let lost = loss::added(&f.path, &begun, Setup::Open, bytes, 0.02).unwrap();
        let batch = a.up.seconds_for(Bytes(190 * 42 + a.sender.header.0));
        let want = a.rtt.0
            + first
            + batch
            + a.rtt.0
            + f.path.send(&a.sender, bytes, window).sending().0
            + lost.0
            + loss::added(&f.path, &a.sender, Setup::Tcp, Bytes(0), 0.02)
                .unwrap()
                .0;
        let setup = f.setup() - a.rtt.0;
        let t = page_time(&page, &a, Fetch::Pipelined).unwrap().answer;
        assert!((t.total.0 - want - setup).abs() < 1e-9, "{t:?} {want} {setup}");
        assert!(setup > 0.0, "a SYN may be lost, too");
    }

    #[test]
    fn loss_makes_no_mode_faster_and_says_where_it_holds() {
        let modes = Fetch::DOCUMENT.into_iter().chain([
            Fetch::Persistent { connections: 6 },
            Fetch::PerObject { connections: 1 },
        ]);
        for fetch in modes {
            for (rate, rtt) in [
                (Rate(28_800), 0.15),
                (Rate::mbit(2), 0.09),
                (Rate::mbit(1000), 0.001),
            ] {
                let of = |loss| {
                    page_time(
                        &Page::microscape(),
                        &Access {
                            loss,
                            ..access(rate, rtt)
                        },
                        fetch,
                    )
                    .unwrap()
                };
                let clean = of(0.0);
                assert_eq!(clean.answer.losses, Seconds::ZERO);
                assert!(
                    clean.bounds[0].high.is_some() && clean.warnings.is_empty(),
                    "{clean}"
                );
                // Vanishing loss adds nothing that can be seen.
                let total = clean.answer.total.0;
                assert!(
                    (of(1e-9).answer.total.0 / total - 1.0).abs() < 1e-4,
                    "{fetch:?} {rate}"
                );
                for p in [1e-4, 0.01, 0.1, 0.3] {
                    let e = of(p);
                    assert!(e.answer.losses.0 > 0.0 && e.answer.total.0 > total, "{e}");
                    assert!(e.answer.total <= e.answer.total_max, "{e}");
                    assert!(
                        e.bounds.iter().all(|bound| bound.contains(e.answer.total.0)),
                        "{e}"
                    );
                    assert_eq!(e.warnings.iter().any(|w| w.contains("PFTK")), p > 0.1, "{e}");
                    let loss = e.region.iter().find(|region| region.quantity == Quantity::Loss);
                    let loss = loss.expect("a region");
                    assert!(loss.low < p && p < loss.high, "{e}");
                }
            }
        }
        let refused = page_time(
            &Page::microscape(),
            &Access {
                loss: 0.5,
                ..access(Rate::mbit(2), 0.09)
            },
            Fetch::Pipelined,
        );
        assert!(refused.unwrap_err().to_string().starts_with("loss is 0.5"));
    }

    #[test]
    fn a_kept_window_does_not_hide_the_losses_of_small_objects() {
        let page = Page {
            base: Bytes(100_000),
            embedded: vec![Bytes(3_000); 40],
            ..Page::microscape()
        };
        let of = |initial_window| {
            let a = access(Rate::mbit(100), 0.09);
            let sender = Sender {
                initial_window,
                ..a.sender
            };
            let a = Access {
                sender,
                loss: 0.001,
                ..a
            };
            page_time(&page, &a, Fetch::Persistent { connections: 1 })
                .unwrap()
                .answer
                .losses
                .0
        };
        // 2.2 segments each, one loss in a thousand: a timeout of at least a second for each.
        assert!(of(2.0) > 0.08, "{}", of(2.0));
    }
}
