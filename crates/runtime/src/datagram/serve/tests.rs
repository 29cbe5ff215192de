//! Sockets of the loopback: who gets which datagram, among workers and among processes; relays, addresses, drains.

use super::*;
use crate::datagram::{bind, knows_segments};
use crate::sys::leave_out_checksums;
use std::collections::HashSet;

/// Answers each datagram with its own number before it. A datagram that begins with a digit belongs to the worker of that
/// number. One that begins with `p` and two digits belongs to the program and the process of these numbers. `late` answers
/// only a while later. Once it drains, it refuses those that begin with `new`. One that begins with `panic` does so.
struct Named {
    number: usize,
    process: u16,
    /// Whether it is never idle.
    is_busy: Arc<AtomicBool>,
    late: Option<Duration>,
    due: Vec<(Instant, Address, Vec<u8>)>,
    drains: bool,
    /// What the driver has told it, of all workers of one process.
    counted: Arc<Mutex<Counts>>,
    /// Bytes of each datagram of an answer; otherwise, an answer is one.
    segment: Option<u16>,
}

impl Endpoint for Named {
    type Job = crate::NoJob;

    fn handle(&mut self, batch: &mut [Datagram<'_>], _: &mut Outbox, now: Instant) {
        for datagram in batch {
            assert!(!datagram.bytes.starts_with(b"panic"), "as it was asked to");
            let mut answer = match self.drains && datagram.bytes.starts_with(b"new") {
                true => b"refused by ".to_vec(),
                false => Vec::new(),
            };
            answer.extend(self.number.to_string().into_bytes());
            answer.extend_from_slice(datagram.bytes);
            let at = now + self.late.unwrap_or(Duration::ZERO);
            let address = Address {
                local: datagram.local,
                segment: self.segment,
                ..Address::to(datagram.from)
            };
            self.due.push((at, address, answer));
        }
    }

    fn poll(&mut self, out: &mut Outbox, now: Instant) -> bool {
        while let Some(at) = self.due.iter().position(|(at, ..)| *at <= now) {
            if !out.has_room() {
                return true;
            }
            let (_, address, answer) = self.due.swap_remove(at);
            out.push(|buffer| {
                buffer.extend_from_slice(&answer);
                Some(address)
            });
        }
        false
    }

    fn deadline(&self) -> Option<Instant> {
        self.due.iter().map(|(at, ..)| *at).min()
    }

    fn owner(&self, datagram: &[u8]) -> Owner {
        match datagram.first() {
            Some(digit @ b'0'..=b'9') => Owner::Worker(usize::from(digit - b'0')),
            Some(b'p') => match u16::from_be_bytes([datagram[1] - b'0', datagram[2] - b'0']) {
                process if process == self.process => Owner::Anyone,
                process => Owner::Process(process),
            },
            _ => Owner::Anyone,
        }
    }

    fn counted(&mut self, counts: &Counts) {
        assert_ne!(*counts, Counts::default(), "there is something to tell");
        let mut sum = self.counted.lock().expect("no panic");
        *sum = sum.with(counts, u64::wrapping_add);
    }

    fn drain(&mut self, _: &mut Outbox, _: Instant) {
        self.drains = true;
    }

    fn is_idle(&self) -> bool {
        self.due.is_empty() && !self.is_busy.load(Ordering::Relaxed)
    }
}

fn start(workers: usize, late: Option<Duration>) -> (SocketAddr, Handle) {
    let sockets = bind(SocketAddr::from(([127, 0, 0, 1], 0)), workers, false).expect("sockets");
    let address = sockets[0].local_addr().expect("an address");
    let make = move |number| Named {
        number,
        process: 0,
        is_busy: Arc::default(),
        late,
        due: Vec::new(),
        drains: false,
        counted: Arc::default(),
        segment: None,
    };
    (
        address,
        serve(sockets, Others::default(), make, Limits::default()).expect("threads"),
    )
}

fn client() -> UdpSocket {
    let client = UdpSocket::bind("127.0.0.1:0").expect("a port");
    client
        .set_read_timeout(Some(std::time::Duration::from_secs(60)))
        .expect("a timeout");
    client
}

fn ask(client: &UdpSocket, server: SocketAddr, text: &str) -> String {
    client.send_to(text.as_bytes(), server).expect("a send");
    let mut buffer = [0; 64];
    let (length, from) = client.recv_from(&mut buffer).expect("an answer");
    assert_eq!(from, server);
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

#[test]
fn a_worker_that_dies_is_replaced() {
    let (address, handle) = start(1, None);
    let client = client();
    for _ in 0..2 {
        assert_eq!(ask(&client, address, "before"), "0before");
        client.send_to(b"panic", address).expect("a send");
        client
            .set_read_timeout(Some(std::time::Duration::from_millis(50)))
            .expect("a timeout");
        // What arrives together with the datagram is lost with the worker.
        let is_answered = (0..1_000).any(|_| {
            client.send_to(b"after", address).expect("a send");
            client.recv(&mut [0; 64]).is_ok()
        });
        assert!(is_answered);
        // Answers to those that were sent in between.
        while client.recv(&mut [0; 64]).is_ok() {}
        client
            .set_read_timeout(Some(std::time::Duration::from_secs(60)))
            .expect("a timeout");
    }
    handle.stop();
    assert!(handle.join().is_ok());
}

#[test]
fn each_datagram_reaches_its_owner_whoever_received_it() {
    let (address, handle) = start(3, None);
    for round in 0..20 {
        let client = client();
        for owner in 0..3 {
            let text = format!("{owner} round {round}");
            assert_eq!(ask(&client, address, &text), format!("{owner}{text}"));
        }
        // One that no worker owns is answered by whoever got it.
        assert!(ask(&client, address, "9 nobody").ends_with("9 nobody"));
    }
    // The client may have the last answer before its worker has counted it.
    while handle.counts().sent < 80 {
        std::thread::yield_now();
    }
    let counts = handle.counts();
    assert_eq!((counts.received, counts.sent, counts.dropped), (80, 80, 0));
    assert!(counts.forwarded > 0, "{counts:?}");
    handle.stop();
    handle.join().expect("workers that end well");
}

/// Of a worker that is busy, further datagrams are lost, as in a network.
#[test]
fn a_mailbox_is_bounded() {
    let mailbox = Mailbox {
        waiting: Mutex::default(),
        bell: Arc::new(Bell::new().expect("a descriptor")),
    };
    let put = |byte: u8| {
        let forwarded = Forwarded {
            bytes: vec![byte],
            from: SocketAddr::from(([127, 0, 0, 1], 9)),
            local: None,
            ecn: 0,
        };
        mailbox.put(forwarded, 3)
    };
    assert_eq!([1, 2, 3, 4, 5].map(put), [true, true, true, false, false]);
    let kept: Vec<Vec<u8>> = mailbox.waiting().drain(..).map(|one| one.bytes).collect();
    assert_eq!(kept, [[1], [2], [3]]);
    assert!(put(6), "there is room again");
}

#[test]
fn a_refusal_to_cut_is_told_with_its_cause_and_a_remedy() {
    let said = of_refused_segments(&io::Error::from_raw_os_error(libc::EIO));
    assert!(
        said.contains("Input/output error") && said.contains("`ethtool -K DEVICE tx on`"),
        "{said}"
    );
}

/// What the kernel refuses to cut arrives all the same, and the kernel is not asked again.
#[test]
fn datagrams_are_sent_one_by_one_where_the_kernel_does_not_cut_them() {
    for is_refused in [false, true] {
        let sockets = bind(SocketAddr::from(([127, 0, 0, 1], 0)), 1, false).expect("a socket");
        let address = sockets[0].local_addr().expect("an address");
        assert!(knows_segments(&sockets[0]), "Linux does since 4.18");
        if is_refused {
            leave_out_checksums(sockets[0].as_fd()).expect("an option");
        }
        let counted: Arc<Mutex<Counts>> = Arc::default();
        let told = Arc::clone(&counted);
        let make = move |number| Named {
            number,
            process: 0,
            is_busy: Arc::default(),
            late: None,
            due: Vec::new(),
            drains: false,
            counted: Arc::clone(&told),
            segment: Some(4),
        };
        let handle = serve(sockets, Others::default(), make, Limits::default()).expect("a thread");
        let client = client();
        for round in 0..2 {
            let mut got = vec![ask(&client, address, "one-two-three")];
            let mut buffer = [0; 64];
            for _ in 0..3 {
                let length = client.recv(&mut buffer).expect("the rest of the answer");
                got.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
            }
            assert_eq!(got, ["0one", "-two", "-thr", "ee"], "{is_refused} {round}");
        }
        assert_eq!(handle.shared.segments.load(Ordering::Relaxed), !is_refused);
        handle.stop();
        let counters = Arc::clone(&handle.shared);
        handle.join().expect("a worker that ends well");
        let counts = counters.counters[0].read();
        assert_eq!((counts.received, counts.sent, counts.refused), (2, 2, 0));
        assert_eq!(*counted.lock().expect("no panic"), counts);
    }
}

/// A process whose answers begin with the numbers of its program and its own. It is busy until the flag says otherwise.
fn process(number: u16, sockets: Vec<UdpSocket>, others: Others) -> (Handle, Arc<AtomicBool>) {
    let is_busy = Arc::new(AtomicBool::new(true));
    let [program, own] = number.to_be_bytes().map(usize::from);
    let flag = Arc::clone(&is_busy);
    let make = move |worker: usize| Named {
        number: program * 100 + own * 10 + worker,
        process: number,
        is_busy: Arc::clone(&flag),
        late: None,
        due: Vec::new(),
        drains: false,
        counted: Arc::default(),
        segment: None,
    };
    let handle = serve(sockets, others, make, Limits::default()).expect("threads");
    (handle, is_busy)
}

fn to_program(relay: Relay) -> Others {
    Others {
        programs: vec![relay],
        siblings: None,
    }
}

/// The same sockets for another process.
fn shared(sockets: &[UdpSocket]) -> Vec<UdpSocket> {
    let again = sockets.iter().map(UdpSocket::try_clone);
    again.map(|socket| socket.expect("a descriptor")).collect()
}

const AN_HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn datagrams_reach_the_process_that_they_name() {
    let sockets = bind(SocketAddr::from(([127, 0, 0, 1], 0)), 2, false).expect("sockets");
    let address = sockets[0].local_addr().expect("an address");
    let again = shared(&sockets);
    let (to_2, to_1) = Relay::pair(0x02ff).expect("a channel");
    let (old, old_is_busy) = process(0x0100, sockets, to_program(to_2));
    let (new, _) = process(0x0200, again, to_program(Relay::adopt(0x0100, to_1)));
    let answered_by = |text: &str| ask(&client(), address, text).as_bytes()[0];
    // Either may receive it.
    for _ in 0..20 {
        assert_eq!((answered_by("p10"), answered_by("p20")), (b'1', b'2'));
    }
    // From here on only the new one does.
    old.leave(0x0200, AN_HOUR);
    for _ in 0..20 {
        assert_eq!((answered_by("p10"), answered_by("p20")), (b'1', b'2'));
    }
    let (left, taken) = (old.counts(), new.counts());
    assert!(left.taken >= 18, "{left:?}");
    assert!(taken.relayed >= 18, "{taken:?}");
    assert_eq!((left.dropped, taken.dropped), (0, 0));
    let numbers = |handle: &Handle| {
        let relays = handle.relays().expect("descriptors").into_iter();
        relays.map(|(process, _)| process).collect::<Vec<_>>()
    };
    assert_eq!((numbers(&old), numbers(&new)), (vec![0x02ff], vec![0x0100]));
    // Without the old one, its datagrams are those of nobody.
    old_is_busy.store(false, Ordering::Relaxed);
    old.drain(AN_HOUR);
    old.join().expect("workers that end well");
    assert_eq!(answered_by("p10"), b'2');
    assert_eq!(numbers(&new), [0; 0]);
    // Nor does it wait for one that did not come, although it is busy.
    new.leave(0x0300, AN_HOUR);
    new.join().expect("workers that end well");
}

#[test]
fn a_successor_that_dies_gives_the_sockets_back() {
    let sockets = bind(SocketAddr::from(([127, 0, 0, 1], 0)), 2, false).expect("sockets");
    let address = sockets[0].local_addr().expect("an address");
    let (to_2, to_1) = Relay::pair(0x02ff).expect("a channel");
    let (old, is_busy) = process(0x0100, sockets, to_program(to_2));
    old.leave(0x0200, AN_HOUR);
    // It had the sockets, and received nothing before it died.
    drop(to_1);
    for _ in 0..20 {
        assert!(ask(&client(), address, "p10").starts_with('1'));
    }
    is_busy.store(false, Ordering::Relaxed);
    old.drain(AN_HOUR);
    old.join().expect("workers that end well");
}

/// The end of the channel that a successor has is held by a third process, too, as that of worker processes is by their parent.
#[test]
fn another_program_takes_the_place_of_one_that_died() {
    let sockets = bind(SocketAddr::from(([127, 0, 0, 1], 0)), 2, false).expect("sockets");
    let address = sockets[0].local_addr().expect("an address");
    let again = shared(&sockets);
    let (to_2, to_1) = Relay::pair(0x02ff).expect("a channel");
    let (old, is_busy) = process(0x0100, sockets, to_program(to_2));
    let said = |text: &str| ask(&client(), address, text);
    old.leave(0x0200, AN_HOUR);
    for _ in 0..2 {
        // It was there, and has died.
        old.take_back();
        assert!(
            said("new").starts_with("refused by 1"),
            "nobody else has the sockets"
        );
        assert!(said("p10").starts_with('1'));
        assert!(
            said("p20").starts_with('1'),
            "what names the dead one is answered at once"
        );
        // The first attempt fails.
        old.expect();
        let before = old.counts();
        let peer = client();
        peer.send_to(b"new", address).expect("a send");
        peer.send_to(b"p20", address).expect("a send");
        assert!(said("0 own").starts_with('1'), "its own connections go on");
        let until = |reached: &dyn Fn(Counts) -> bool| {
            while !reached(old.counts()) {
                std::thread::yield_now();
            }
        };
        until(&|now| now.dropped == before.dropped + 1 && now.relayed == before.relayed + 1);
    }
    let (new, _) = process(0x0200, again, to_program(Relay::adopt(0x0100, to_1)));
    old.follow(0x0200);
    for _ in 0..20 {
        assert!(said("new").starts_with('2'), "the new one has them");
        assert_eq!(
            (said("p10").as_bytes()[0], said("p20").as_bytes()[0]),
            (b'1', b'2')
        );
    }
    is_busy.store(false, Ordering::Relaxed);
    old.drain(AN_HOUR);
    old.join().expect("workers that end well");
    new.stop();
    new.join().expect("workers that end well");
}

#[test]
fn a_channel_that_was_replaced_gives_no_sockets_back() {
    let shared = Shared::new(1, Others::default(), Limits::default()).expect("descriptors");
    let add = || {
        let (relay, other) = Relay::pair(0x02ff).expect("a channel");
        shared.add(relay);
        (Arc::clone(&shared.relays()[0]), other)
    };
    let (first, _) = add();
    // The second program of that number serves when a worker notices that the first is dead.
    let (second, _) = add();
    shared.left_to.store(0x0200, Ordering::Release);
    shared.forget(&first);
    assert!(shared.has_left());
    shared.forget(&second);
    assert!(!shared.has_left());
}

/// New peers arrive all the time, so that some arrive while the old one is told.
#[test]
fn no_new_peer_is_refused_when_sockets_are_left() {
    for _ in 0..20 {
        let sockets = bind(SocketAddr::from(([127, 0, 0, 1], 0)), 1, false).expect("sockets");
        let address = sockets[0].local_addr().expect("an address");
        let again = shared(&sockets);
        let (to_2, to_1) = Relay::pair(0x02ff).expect("a channel");
        let (old, _) = process(0x0100, sockets, to_program(to_2));
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_over);
        let peers = std::thread::spawn(move || {
            let (client, mut answers) = (client(), Vec::new());
            while !flag.load(Ordering::Relaxed) {
                // Several wait in the socket at a time.
                for _ in 0..8 {
                    client.send_to(b"new", address).expect("a send");
                }
                let mut buffer = [0; 64];
                for _ in 0..8 {
                    let (length, _) = client.recv_from(&mut buffer).expect("an answer");
                    answers.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
                }
            }
            answers
        });
        while old.counts().received == 0 {
            std::thread::yield_now();
        }
        let (new, _) = process(0x0200, again, to_program(Relay::adopt(0x0100, to_1)));
        old.leave(0x0200, AN_HOUR);
        let before = new.counts().received;
        while new.counts().received < before + 64 {
            std::thread::yield_now();
        }
        is_over.store(true, Ordering::Relaxed);
        let answers = peers.join().expect("answers");
        let refused: Vec<&String> = answers.iter().filter(|one| one.contains("refused")).collect();
        assert!(refused.is_empty(), "{refused:?} of {}", answers.len());
        old.stop();
        new.stop();
        old.join().expect("workers that end well");
        new.join().expect("workers that end well");
    }
}

/// Two processes of one program have a socket each, and then another program has both.
#[test]
fn siblings_have_what_names_them_whoever_received_it() {
    let sockets = bind(SocketAddr::from(([127, 0, 0, 1], 0)), 2, false).expect("sockets");
    let address = sockets[0].local_addr().expect("an address");
    let again = shared(&sockets);
    let (to_2, to_1) = Relay::pair(0x02ff).expect("a channel");
    let inboxes = [0x0100, 0x0101].map(|number| Relay::inbox(number).expect("a channel"));
    // Forks share descriptors; threads need their own.
    let held = |relay: &Relay| Relay::adopt(relay.process(), relay.channel().expect("a descriptor"));
    let old: Vec<_> = sockets
        .into_iter()
        .zip(&inboxes)
        .map(|(socket, (way, inbox))| {
            let siblings = Siblings {
                inbox: held(inbox),
                ways: inboxes.iter().map(|(way, _)| held(way)).collect(),
            };
            let others = Others {
                programs: vec![held(&to_2)],
                siblings: Some(siblings),
            };
            process(way.process(), vec![socket], others)
        })
        .collect();
    drop((to_2, inboxes));
    let answered_by = |text: &str| ask(&client(), address, text)[..2].to_owned();
    for _ in 0..20 {
        assert_eq!([answered_by("p10"), answered_by("p11")], ["10", "11"]);
    }
    let counts: Vec<Counts> = old.iter().map(|(handle, _)| handle.counts()).collect();
    assert!(counts.iter().all(|of_one| of_one.dropped == 0), "{counts:?}");
    assert!(counts.iter().any(|of_one| of_one.taken > 0), "{counts:?}");
    // From here on only the other program receives, and any of the two reads what it passes on.
    let (new, _) = process(0x0200, again, to_program(Relay::adopt(0x0101, to_1)));
    old.iter().for_each(|(handle, _)| handle.leave(0x0200, AN_HOUR));
    for _ in 0..20 {
        assert_eq!([answered_by("p10"), answered_by("p11")], ["10", "11"]);
        assert_eq!(answered_by("p20"), "20");
    }
    // There is no third, so the number came about by chance.
    assert_eq!(answered_by("p12"), "20");
    // Each of the two may have read once more, and the last may not be counted yet.
    assert!(new.counts().relayed >= 36, "{:?}", new.counts());
    // One ends: the other answers what names it, and has lost nothing.
    let mut old = old.into_iter();
    let (first, is_busy) = old.next().expect("two processes");
    let (second, _) = old.next().expect("two processes");
    is_busy.store(false, Ordering::Relaxed);
    first.drain(AN_HOUR);
    first.join().expect("workers that end well");
    for _ in 0..20 {
        assert_eq!([answered_by("p10"), answered_by("p11")], ["11", "11"]);
    }
    assert_eq!(second.counts().dropped, 0);
    second.stop();
    new.stop();
    second.join().expect("workers that end well");
    new.join().expect("workers that end well");
}

#[test]
fn relays_are_bounded_and_the_first_goes() {
    let (_, handle) = start(1, None);
    let most = u16::try_from(RELAYS_MAX).expect("few");
    let numbers = |programs: std::ops::RangeInclusive<u16>| programs.map(|program| program << 8);
    let ends: Vec<Relay> = numbers(0..=most)
        .map(|process| {
            let (ours, theirs) = Relay::pair(process).expect("a channel");
            handle.relay(ours);
            Relay::adopt(0x6400, theirs)
        })
        .collect();
    let held = handle.relays().expect("descriptors");
    let held: Vec<u16> = held.into_iter().map(|(process, _)| process).collect();
    assert_eq!(held, numbers(1..=most).collect::<Vec<_>>());
    // The worker looks at its relays before it waits again.
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while ends[0].is_held() {
        assert!(
            std::time::Instant::now() < patience,
            "the first relay is still held"
        );
        std::thread::yield_now();
    }
    assert!(ends[1..].iter().all(Relay::is_held));
    handle.stop();
    handle.join().expect("workers that end well");
}

#[test]
fn all_addresses_are_those_of_both_families_if_asked() {
    let all = SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, 0));
    let Ok(sockets) = bind(all, 2, true) else {
        return println!("skipped: no IPv6");
    };
    let port = sockets[0].local_addr().expect("an address").port();
    let make = move |number| Named {
        number,
        process: 0,
        is_busy: Arc::default(),
        late: None,
        due: Vec::new(),
        drains: false,
        counted: Arc::default(),
        segment: None,
    };
    let handle = serve(sockets, Others::default(), make, Limits::default()).expect("workers");
    // It takes answers from where it asked only, which is not where the system would send from.
    let client = client();
    client.connect(("127.0.0.9", port)).expect("a route");
    client.send(b"x").expect("a send");
    let mut buffer = [0; 64];
    let length = client.recv(&mut buffer).expect("an answer");
    assert!(buffer[..length].ends_with(b"x"));
    handle.stop();
    handle.join().expect("workers that end well");
}

#[test]
fn peers_are_spread_over_workers() {
    let (address, handle) = start(2, None);
    let answered: HashSet<char> = (0..64)
        .filter_map(|_| ask(&client(), address, "x").chars().next())
        .collect();
    assert_eq!(answered.len(), 2);
    handle.stop();
    handle.join().expect("workers that end well");
}

#[test]
fn a_drain_waits_for_what_is_owed_and_no_longer_than_its_grace() {
    let (address, handle) = start(1, Some(Duration::from_millis(300)));
    let client = client();
    client.send_to(b"late", address).expect("a send");
    while handle.counts().received == 0 {
        std::thread::yield_now();
    }
    handle.drain(Duration::from_secs(10));
    handle.join().expect("workers that end well");
    let mut buffer = [0; 64];
    let (length, _) = client.recv_from(&mut buffer).expect("the answer that was owed");
    assert_eq!(&buffer[..length], b"0late");

    let (address, handle) = start(1, Some(Duration::from_secs(3_600)));
    client.send_to(b"never", address).expect("a send");
    while handle.counts().received == 0 {
        std::thread::yield_now();
    }
    handle.drain(Duration::from_millis(50));
    handle.join().expect("workers that end well");
}

/// A drain that begins right after a stop does not keep a busy worker, which may not have seen the stop.
#[test]
fn an_end_is_not_put_off() {
    let sockets = bind(SocketAddr::from(([127, 0, 0, 1], 0)), 1, false).expect("sockets");
    let (handle, _busy) = process(0x0100, sockets, Others::default());
    handle.stop();
    handle.drain(AN_HOUR);
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !handle.is_finished() {
        assert!(std::time::Instant::now() < patience, "it goes on");
        std::thread::yield_now();
    }
    handle.join().expect("workers that end well");
}

/// What becomes of the sockets of a process whose parent has died, by which other programs have them.
#[test]
fn an_orphan_goes_on_beside_a_later_program_and_ends_beside_an_earlier_one() {
    for (is_earlier, is_later) in [(false, false), (true, false), (false, true), (true, true)] {
        let sockets = bind(SocketAddr::from(([127, 0, 0, 1], 0)), 2, false).expect("sockets");
        let address = sockets[0].local_addr().expect("an address");
        let again = shared(&sockets);
        let (to_1, from_1) = Relay::pair(0x0100).expect("a channel");
        let (to_3, from_3) = Relay::pair(0x03ff).expect("a channel");
        let others = Others {
            programs: vec![to_1, to_3],
            siblings: None,
        };
        let (orphan, is_busy) = process(0x0200, sockets, others);
        let (earlier, later) = (is_earlier.then_some(from_1), is_later.then_some(from_3));
        let held: Vec<_> = earlier.iter().chain(&later).collect();
        assert_eq!(orphan.relays().expect("descriptors").len(), held.len());
        orphan.leave_to_others(0x0300);
        orphan.drain(AN_HOUR);
        if is_earlier && !is_later {
            orphan.join().expect("workers that end well");
            continue;
        }
        let later = later.map(|end| process(0x0300, again, to_program(Relay::adopt(0x0200, end))));
        for _ in 0..20 {
            assert!(ask(&client(), address, "p20").starts_with('2'));
            if is_later {
                assert!(ask(&client(), address, "new").starts_with('3'));
            }
        }
        is_busy.store(false, Ordering::Relaxed);
        orphan.drain(AN_HOUR);
        orphan.join().expect("workers that end well");
        if let Some((later, _)) = later {
            later.stop();
            later.join().expect("workers that end well");
        }
    }
}
