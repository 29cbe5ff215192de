//! HTTP/3 where nobody asked for it: on by default with TLS, and left out where it cannot be had.

use super::{Client, open, site};
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::tls::{Pairs, Secure};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

fn start(pairs: &Pairs, more: &[&str]) -> Server {
    let launch: Launch = pairs.launch(Strategy::LOOPS, &["a"]);
    launch.args(more).start()
}

/// What a response over TCP says of HTTP/3, and whether the start-up line has it at the first address.
fn spoken(server: &Server, pairs: &Pairs) -> (Option<String>, bool) {
    let mut secure = Secure::open(server.address, &pairs.client(), "a.test");
    let answer = secure.try_ask("/a.txt").expect("an answer");
    let field = answer.lines().find_map(|line| line.strip_prefix("Alt-Svc: "));
    (
        field.map(str::to_owned),
        server.started["listeners"][0]["http3"] == true,
    )
}

fn answers(client: &mut Client) {
    let stream = client.ask("/a.txt");
    assert!(client.run(Client::is_done), "{:?}", client.closed);
    assert_eq!(client.got[&stream].body, b"a");
}

#[test]
fn it_is_on_with_tls_unless_it_is_off() {
    let pairs = site(&[("a.txt", b"a")]);
    let server = start(&pairs, &[]);
    let port = server.address.port();
    assert_eq!(
        spoken(&server, &pairs),
        (Some(format!("h3=\":{port}\"; ma=86400")), true)
    );
    answers(&mut open(&server, &pairs));
    assert!(
        UdpSocket::bind(server.address).is_err(),
        "the server receives there"
    );
    let server = start(&pairs, &["--http3=false"]);
    assert_eq!(spoken(&server, &pairs), (None, false));
    assert!(!server.stderr().contains("HTTP/3"), "{}", server.stderr());
    let clear = Launch::new(Strategy::LOOPS)
        .root(&pairs.tree.join("site"))
        .start();
    assert_eq!(clear.started["listeners"][0]["http3"], false);
    assert!(!clear.stderr().contains("HTTP/3"), "{}", clear.stderr());
}

/// The receive buffer of a UDP socket is no larger than the machine permits.
#[test]
fn a_machine_with_small_receive_buffers_is_told_at_start() {
    let text = std::fs::read_to_string("/proc/sys/net/core/rmem_max").expect("Linux has it");
    let most: usize = text.trim().parse().expect("a number");
    let pairs = site(&[("a.txt", b"a")]);
    for http3 in ["--http3=auto", "--http3"] {
        let server = start(&pairs, &[http3]);
        let said = "HTTP/3 can lose packets in bursts";
        match most < 4 << 20 {
            true => {
                let limit = format!("a UDP socket to {most} bytes; `sysctl -w net.core.rmem_max=4194304`");
                eventually("what to do", || {
                    let log = server.stderr();
                    (log.matches(said).count() == 1 && log.contains(&limit)).then_some(())
                });
            }
            // All that is said at start comes before a server answers.
            false => {
                answers(&mut open(&server, &pairs));
                assert!(!server.stderr().contains(said), "{}", server.stderr());
            }
        }
    }
    let without = start(&pairs, &["--http3=false"]);
    assert!(!without.stderr().contains("rmem_max"), "{}", without.stderr());
}

/// The port of an address, with UDP taken by a program that would share it.
fn port_without_udp() -> (UdpSocket, SocketAddr) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).expect("a socket");
    socket.set_reuse_port(true).expect("an option");
    let any = SocketAddr::from(([127, 0, 0, 3], 0));
    socket.bind(&any.into()).expect("a port");
    let socket = UdpSocket::from(socket);
    let address = socket.local_addr().expect("an address");
    (socket, address)
}

#[test]
fn a_taken_udp_port_leaves_tls_alone() {
    let pairs = site(&[("a.txt", b"a")]);
    let (taken, address) = port_without_udp();
    let place = address.to_string();
    let server = start(&pairs, &["--listen", &place]);
    let why = format!("serving without HTTP/3: cannot receive UDP at {place}");
    eventually("the reason", || server.stderr().contains(&why).then_some(()));
    assert!(server.stderr().contains("`http3 = false`"), "{}", server.stderr());
    assert_eq!(spoken(&server, &pairs), (None, false));
    assert_eq!(server.started["listeners"][1]["http3"], false);
    drop(server);
    let launch: Launch = pairs.launch(Strategy::LOOPS, &["a"]);
    let (code, said) = launch.args(["--listen", &place, "--http3"]).fail();
    assert!(
        code != 0 && said.contains("cannot receive UDP") && said.contains("stop that program"),
        "{said}"
    );
    drop(taken);
}

/// QUIC has no header in which a load balancer could name its client.
#[test]
fn it_is_off_behind_the_proxy_protocol_unless_it_is_asked_for() {
    let pairs = site(&[("a.txt", b"a")]);
    let behind = ["--proxy-protocol", "--trusted", "192.0.2.1"];
    let server = start(&pairs, &behind);
    let why = "serving without HTTP/3: a load balancer announces the clients";
    eventually("the reason", || server.stderr().contains(why).then_some(()));
    assert_eq!(spoken(&server, &pairs), (None, false));
    let server = start(&pairs, &[&behind[..], &["--http3"]].concat());
    let (field, is_spoken) = spoken(&server, &pairs);
    assert!(field.is_some() && is_spoken);
    answers(&mut open(&server, &pairs));
}

/// A socket of all addresses answers from the one that was asked, over both families: clients drop what comes from another.
#[test]
fn each_address_of_the_host_answers() {
    let pairs = site(&[("a.txt", b"a")]);
    for all in ["0.0.0.0:0", "[::]:0"] {
        if TcpListener::bind(all).is_err() {
            println!("skipped: no {all}");
            continue;
        }
        let server = start(&pairs, &["--listen", all]);
        let listener = &server.started["listeners"][1];
        assert_eq!(listener["http3"], true, "{all}");
        let address: SocketAddr = listener["address"]
            .as_str()
            .and_then(|text| text.parse().ok())
            .expect("an address");
        for host in [[127, 0, 0, 1], [127, 0, 0, 9]] {
            let asked = SocketAddr::from((host, address.port()));
            answers(&mut Client::open(asked, &pairs.client(), "a.test"));
        }
    }
}

/// How often the threads of HTTP/3 have been woken, all together, and their number.
fn wakes(server: &Server) -> (u64, usize) {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).expect("it runs");
    let (mut wakes, mut count) = (0, 0);
    for task in tasks {
        let task = task.expect("a thread").path();
        let read = |file: &str| std::fs::read_to_string(task.join(file)).unwrap_or_default();
        if !read("comm").starts_with("weir-udp") {
            continue;
        }
        let status = read("status");
        let switches = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        wakes += switches
            .and_then(|text| text.trim().parse::<u64>().ok())
            .expect("a number");
        count += 1;
    }
    (wakes, count)
}

#[test]
fn its_threads_sleep_while_nobody_uses_it() {
    let pairs = site(&[("a.txt", b"a")]);
    let server = start(&pairs, &[]);
    // A new thread names itself.
    let (before, threads) = eventually("its threads have their names", || {
        Some(wakes(&server)).filter(|(_, threads)| *threads == Strategy::LOOPS.workers)
    });
    for _ in 0..100 {
        spoken(&server, &pairs);
    }
    let (after, _) = wakes(&server);
    // Each may have begun to sleep only after the first look, and have waited for memory or a lock of the start before.
    assert!(after - before <= 10 * threads as u64, "{before} → {after}");
}

/// What `ListenDatagram=` of a socket unit does: the shell puts the socket in its place.
fn activated(socket: &UdpSocket, pairs: &Pairs, listen: &str, http3: &str) -> Server {
    let start = "exec 3<&0 </dev/null && export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=quic";
    let socket = OwnedFd::from(socket.try_clone().expect("a descriptor"));
    let file = |name: &str| pairs.tree.join(name).display().to_string();
    Launch::wrapped(Strategy::LOOPS, start)
        .root(&pairs.tree.join("site"))
        .args(["--tls-cert", &file("a.pem"), "--tls-key", &file("a.key")])
        .args(["--listen", listen, http3])
        .stdin(socket)
        .start()
}

#[test]
fn a_service_manager_may_pass_the_udp_socket() {
    let pairs = site(&[("a.txt", b"a")]);
    let socket = UdpSocket::bind("127.0.0.4:0").expect("a port");
    let address = socket.local_addr().expect("an address");
    let place = address.to_string();
    // Two times, as a restart does: the socket belongs to the manager.
    for _ in 0..2 {
        let mut server = activated(&socket, &pairs, &place, "--http3");
        assert_eq!(server.started["listeners"][1]["http3"], true);
        answers(&mut Client::open(address, &pairs.client(), "a.test"));
        assert_eq!(server.stop(), 0);
    }
    let server = activated(&socket, &pairs, &place, "--http3=false");
    let why = format!("ignored the UDP socket {place} of the service manager");
    eventually("the reason", || server.stderr().contains(&why).then_some(()));
}
