//! UDP through a link: what reaches a server of this machine, from which port, when, and what comes back.

use crate::link::{WEIR, bash, no_links, text, weir};
use runtime::sys;
use serde_json::Value;
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::process::{ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// No message takes this long unless something is broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server on a loopback address that sends what `answer` makes of each datagram, and tells the test who sent it.
fn server(address: &str, answer: fn(&[u8]) -> Vec<Vec<u8>>) -> (u16, Receiver<(Vec<u8>, SocketAddr)>) {
    let socket = UdpSocket::bind((address, 0)).expect("a port");
    let port = socket.local_addr().expect("an address").port();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok((n, from)) = socket.recv_from(&mut buffer) {
            for one in answer(&buffer[..n]) {
                let _ = socket.send_to(&one, from);
            }
            if tell.send((buffer[..n].to_vec(), from)).is_err() {
                return;
            }
        }
    });
    (port, told)
}

fn echo(address: &str) -> (u16, Receiver<(Vec<u8>, SocketAddr)>) {
    server(address, |bytes| vec![bytes.to_vec()])
}

/// The datagrams that a server has received, as text, and the port each came from.
fn received(told: &Receiver<(Vec<u8>, SocketAddr)>, n: usize) -> Vec<(String, u16)> {
    let one = || told.recv_timeout(PATIENCE).expect("a datagram");
    (0..n)
        .map(|_| one())
        .map(|(bytes, from)| (text(&bytes).trim().to_owned(), from.port()))
        .collect()
}

/// Bash that opens a socket to a port of the gateway as descriptor 3. `ask WORD` prints what comes back. (The `read` of
/// bash takes one byte at a time, and so one byte of each datagram.)
fn client(port: u16, script: &str) -> String {
    format!(
        "open() {{ exec 3<>/dev/udp/198.18.0.1/{port}; }}
         take() {{ timeout 60 dd bs=65536 count=1 status=none <&3; }}
         ask() {{ echo $1 >&3; take; }}
         open
         {script}"
    )
}

/// Bash behind a link whose script reads lines from the test: runs it until `drive` has returned, which gets the way to
/// write them. At its end the script reads no more.
fn driven(link: &[&str], script: &str, drive: impl FnOnce(&mut ChildStdin)) -> Output {
    let mut child = Command::new(WEIR)
        .arg("link")
        .args(link)
        .args(["--", "bash", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary cargo just built");
    let mut lines = child.stdin.take().expect("a pipe");
    drive(&mut lines);
    drop(lines);
    let output = child.wait_with_output().expect("an end");
    assert!(output.status.success(), "{link:?}: {}", text(&output.stderr));
    output
}

/// A folder, and a name in it for the link's log.
fn log() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("link.jsonl").display().to_string();
    (folder, path)
}

/// The counters at the end of a log.
fn last(log: &str) -> Value {
    let lines = std::fs::read_to_string(log).expect("a log");
    serde_json::from_str(lines.lines().last().expect("a line")).expect("JSON")
}

/// Runs a [client] behind a link: what it says, and the last counters of the link.
fn counted(link: &[&str], port: u16, script: &str) -> (Output, Value) {
    let (_folder, path) = log();
    let output = bash(&[link, &["--log", &path]].concat(), &client(port, script));
    (output, last(&path))
}

#[test]
fn datagrams_reach_servers_of_the_machine_and_take_the_time_of_the_link() {
    if no_links() {
        return;
    }
    for address in ["127.0.0.1", "0.0.0.0", "::1"] {
        let (port, told) = match UdpSocket::bind((address, 0)) {
            Ok(_) => echo(address),
            Err(error) => {
                println!("skipped: {address}: {error}");
                continue;
            }
        };
        for (link, rtt) in [
            (&["rtt=80ms"][..], 80),
            (
                &["--up", "delay=30ms", "--down", "delay=50ms", "--rate", "1M"],
                80,
            ),
            // Segments of 64 KiB may pass.
            (&["rate=none"], 0),
        ] {
            let start = Instant::now();
            let output = bash(link, &client(port, "ask over; ask again"));
            let took = start.elapsed();
            let said = text(&output.stdout);
            assert_eq!(
                said,
                "over\nagain\n",
                "{address} {link:?}: {}",
                text(&output.stderr)
            );
            assert!(took >= Duration::from_millis(2 * rtt), "{link:?}: {took:?}");
            let got = received(&told, 2);
            assert_eq!(got[0].1, got[1].1, "one flow has one port");
        }
    }
}

#[test]
fn datagrams_pass_nested_links() {
    if no_links() {
        return;
    }
    let (port, _told) = echo("127.0.0.1");
    let start = Instant::now();
    let output = weir(&[
        "link",
        "rtt=40ms",
        "--",
        WEIR,
        "link",
        "rtt=60ms",
        "--",
        "bash",
        "-c",
        &client(port, "ask twice"),
    ]);
    assert_eq!(text(&output.stdout), "twice\n", "{}", text(&output.stderr));
    assert!(start.elapsed() >= Duration::from_millis(100));
}

#[test]
fn loss_and_capture_see_datagrams() {
    if no_links() {
        return;
    }
    let (port, told) = echo("127.0.0.1");
    let (_folder, path) = log();
    let script = client(port, "for n in 1 2 3 4 5; do echo $n >&3; done; read || true");
    let lost = |way: &str| {
        let limit = Instant::now() + PATIENCE;
        // The log's last line may not be complete yet.
        let read = || {
            let lines = std::fs::read_to_string(&path).unwrap_or_default();
            let counters: Option<Value> = serde_json::from_str(lines.lines().last()?).ok();
            counters?[way]["dropped"]["loss"].as_u64()
        };
        while read() != Some(5) {
            assert!(Instant::now() < limit, "{way}: {:?}", read());
            std::thread::yield_now();
        }
    };
    driven(&["--up", "loss=100%", "--log", &path], &script, |_| lost("up"));
    let counters = last(&path);
    assert_eq!(counters["udp"]["flows"], 0, "{counters}");
    assert!(told.try_recv().is_err());
    // Answers enter the link, and are lost in it.
    std::fs::remove_file(&path).expect("the log before");
    driven(&["--down", "loss=100%", "--log", &path], &script, |_| {
        lost("down")
    });
    assert_eq!(received(&told, 5).len(), 5);
    let counters = last(&path);
    assert_eq!(counters["udp"]["flows"], 1, "{counters}");
    assert_eq!(counters["up"]["dropped"]["loss"], 0, "{counters}");
}

#[test]
fn a_port_without_a_server_is_refused() {
    if no_links() {
        return;
    }
    // Receives from its peer only, and keeps others from the port.
    let closed = UdpSocket::bind("127.0.0.1:0").expect("a port");
    closed.connect("127.0.0.1:9").expect("a route");
    let port = closed.local_addr().expect("an address").port();
    for link in ["rtt=20ms", "rate=none"] {
        let (output, counters) = counted(&[link], port, "ask anybody");
        assert!(
            text(&output.stderr).contains("refused"),
            "{link}: {}",
            text(&output.stderr)
        );
        assert_eq!(counters["udp"]["unreachable"], 1, "{link}");
    }
}

#[test]
fn a_full_table_replaces_the_flow_that_was_idle_the_longest() {
    if no_links() {
        return;
    }
    let (port, told) = echo("127.0.0.1");
    // The first flow, four others, and the first again.
    let script = "ask first
         exec 4<&3
         for n in 1 2 3 4; do exec 3>&-; open; ask $n; done
         exec 3<&4
         echo last >&4; timeout 60 dd bs=65536 count=1 status=none <&4";
    let (output, counters) = counted(&["rtt=2ms udp-flows=4"], port, script);
    let said = text(&output.stderr);
    assert_eq!(text(&output.stdout), "first\n1\n2\n3\n4\nlast\n", "{said}");
    let got = received(&told, 6);
    assert_ne!(
        got[0].1, got[5].1,
        "the flow was replaced, and is another one now"
    );
    assert_eq!(counters["udp"]["flows"], 6, "{counters}");
    assert_eq!(counters["udp"]["evicted"], 2, "{counters}");
    assert!(said.contains("2 UDP flows were replaced"), "{said}");

    // One more may stay: nothing is replaced.
    let (output, counters) = counted(&["rtt=2ms", "--udp-flows", "5"], port, script);
    let said = text(&output.stderr);
    assert_eq!(text(&output.stdout), "first\n1\n2\n3\n4\nlast\n", "{said}");
    let got = received(&told, 6);
    assert_eq!(got[0].1, got[5].1);
    assert_eq!(counters["udp"]["evicted"], 0);
    assert!(!said.contains("replaced"), "{said}");
}

#[test]
fn flows_replaced_for_want_of_descriptors_are_told_as_such() {
    if no_links() {
        return;
    }
    let (port, _told) = echo("127.0.0.1");
    // The link itself needs fewer than 100 descriptors. The sockets of the client end one after the other; its flows stay.
    let script = client(
        port,
        "for n in {1..120}; do exec 3>&-; open; ask $n; done >/dev/null",
    );
    let output = Command::new("bash")
        .args(["-c", "ulimit -n 100; exec \"$@\"", "bash", WEIR])
        .args(["link", "rtt=1ms", "--", "bash", "-c", &script])
        .output()
        .expect("bash");
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("ulimit -n"), "{said}");
    assert!(!said.contains("udp-flows"), "{said}");
}

#[test]
fn an_empty_answer_is_a_packet_of_the_link() {
    if no_links() {
        return;
    }
    // An empty datagram before each answer.
    let (port, _told) = server("127.0.0.1", |bytes| vec![Vec::new(), bytes.to_vec()]);
    // `dd` ends at an empty read.
    let output = bash(&["rtt=2ms"], &client(port, "ask word; echo -; take"));
    assert_eq!(text(&output.stdout), "-\nword\n", "{}", text(&output.stderr));
}

#[test]
fn without_flows_no_datagram_leaves_the_far_end() {
    if no_links() {
        return;
    }
    let (port, told) = echo("127.0.0.1");
    let output = bash(&["rtt=2ms udp-flows=0"], &client(port, "ask anybody"));
    assert!(
        text(&output.stderr).contains("refused"),
        "{}",
        text(&output.stderr)
    );
    assert!(told.try_recv().is_err());
}

#[test]
fn an_idle_flow_ends() {
    if no_links() {
        return;
    }
    let (port, told) = echo("127.0.0.1");
    for (idle, is_new) in [("1ms", true), ("1h", false)] {
        // The second datagram is on its way for longer than a millisecond after the first has arrived.
        let script = client(port, "echo one >&3; read; echo two >&3; read || true");
        driven(&["rtt=100ms", "--udp-idle", idle], &script, |lines| {
            let first = received(&told, 1);
            lines.write_all(b"\n").expect("the script reads");
            let second = received(&told, 1);
            assert_eq!(first[0].1 != second[0].1, is_new, "{idle}");
        });
    }
}

#[test]
fn rebinding_changes_the_port_that_servers_see_and_nothing_for_the_client() {
    if no_links() {
        return;
    }
    let (port, told) = echo("127.0.0.1");
    for (rebind, changes) in [("no", 0), ("3p", 2), ("1p", 6), ("1ms", 6), ("1h", 0)] {
        let script = "for n in 1 2 3 4 5 6 7; do ask $n; done";
        let (output, counters) = counted(&["rtt=20ms", "--rebind", rebind], port, script);
        let said = text(&output.stdout);
        assert_eq!(
            said,
            "1\n2\n3\n4\n5\n6\n7\n",
            "{rebind}: {}",
            text(&output.stderr)
        );
        let got = received(&told, 7);
        let ports: Vec<u16> = got.iter().map(|(_, port)| *port).collect();
        let changed = ports.windows(2).filter(|two| two[0] != two[1]).count();
        assert_eq!(changed, changes, "{rebind}: {ports:?}");
        assert_eq!(counters["udp"]["rebound"], changes, "{rebind}");
    }
}

#[test]
fn what_is_longer_than_the_mtu_is_not_fragmented() {
    if no_links() {
        return;
    }
    // Answers of 1,501 and of 1,500 bytes with headers, or of 577 and 576.
    fn answer(bytes: &[u8]) -> Vec<Vec<u8>> {
        let mtu: usize = text(bytes).trim().parse().expect("a number");
        vec![vec![b'l'; mtu - 27], vec![b'f'; mtu - 28]]
    }
    let (port, _told) = server("127.0.0.1", answer);
    for (link, mtu) in [("rtt=2ms", 1_500), ("rate=none", 1_500), ("rtt=2ms mtu=576", 576)] {
        let (output, counters) = counted(&[link], port, &format!("ask {mtu}"));
        let said = text(&output.stdout);
        assert_eq!(said.len(), mtu - 28, "{link}: {}", text(&output.stderr));
        assert!(said.bytes().all(|byte| byte == b'f'), "{link}");
        assert_eq!(counters["udp"]["too_large"], 1, "{link}");
    }
}

#[test]
fn a_narrower_path_outside_is_told_as_a_router_would() {
    if no_links() {
        return;
    }
    let (port, told) = echo("127.0.0.1");
    let (_folder, path) = log();
    // The inner link takes 1,228 bytes, the outer one does not. Then the kernel knows the path, and sends fragments.
    let script = client(
        port,
        "printf '%1200s' one >&3; take
         printf '%1200s' two >&3
         ask three",
    );
    let output = weir(&[
        "link", "mtu=1000", "--", WEIR, "link", "rtt=2ms", "--log", &path, "--", "bash", "-c", &script,
    ]);
    let said = text(&output.stderr);
    assert_eq!(text(&output.stdout), "three\n", "{said}");
    assert!(said.contains("too long"), "{said}");
    assert_eq!(received(&told, 1)[0].0, "three");
    let counters = last(&path);
    assert_eq!(counters["udp"]["unreachable"], 1, "{counters}");
    assert_eq!(counters["udp"]["fragments"], 2, "{counters}");
    assert!(said.contains("2 fragments"), "{said}");
}

/// RFC 3168: ECT(0) from the client, ECT(1) from the server.
#[test]
fn ecn_marks_pass_both_ways() {
    if no_links() {
        return;
    }
    if !Command::new("python3")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
    {
        println!("skipped: no python3, whose sockets can mark datagrams");
        return;
    }
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let port = socket.local_addr().expect("an address").port();
    sys::prepare_datagrams(socket.as_fd(), false);
    let server = std::thread::spawn(move || {
        // Waits, and leaves it there.
        socket.peek(&mut [0; 16]).expect("a datagram");
        let mut arrivals = sys::Arrivals::new();
        arrivals.receive(socket.as_fd()).expect("it is there");
        let got: Vec<_> = arrivals
            .datagrams()
            .map(|arrived| (arrived.bytes.to_vec(), arrived.from, arrived.ecn))
            .collect();
        let answer = sys::Address {
            to: got[0].1,
            local: None,
            ecn: 1,
            segment: None,
        };
        sys::send_datagrams(socket.as_fd(), answer, b"answer").expect("an answer");
        (got[0].0.clone(), got[0].2)
    });
    // IP_TOS is 1, IP_RECVTOS 13.
    let script = format!(
        "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(0, 1, 2)
s.setsockopt(0, 13, 1)
s.settimeout(60)
s.connect(('198.18.0.1', {port}))
s.send(b'marked')
data, control, _, _ = s.recvmsg(99, 99)
print(data.decode(), control[0][2][0] & 3)"
    );
    let output = weir(&["link", "rtt=2ms", "--", "python3", "-c", &script]);
    assert_eq!(text(&output.stdout), "answer 1\n", "{}", text(&output.stderr));
    assert_eq!(server.join().expect("no panic"), (b"marked".to_vec(), 2));
}

#[test]
fn udp_settings_have_no_meaning_without_packets_of_the_kernel() {
    for (args, part) in [
        (
            &[
                "link",
                "lan",
                "--stack",
                "sunos-4.1.3",
                "--rebind",
                "1s",
                "--",
                "true",
            ][..],
            "--stack",
        ),
        (
            &[
                "link",
                "udp-flows=7",
                "--proxy",
                "127.0.0.1:0=127.0.0.1:9",
                "--",
                "true",
            ],
            "--proxy",
        ),
        (&["link", "rebind=soon", "--", "true"], "`rebind`"),
        (&["link", "udp-idle=0s", "--", "true"], "above zero"),
    ] {
        let output = weir(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(part), "{}", text(&output.stderr));
    }
}

/// A name server that knows one name: the IPv4 address of everything is 192.0.2.77. RFC 1035, section 4.
fn answer_of_dns(query: &[u8]) -> Vec<Vec<u8>> {
    let Some(length) = query
        .get(12..)
        .and_then(|rest| rest.iter().position(|&byte| byte == 0))
    else {
        return Vec::new();
    };
    let question = &query[12..12 + length + 5];
    let is_a = question[length + 1..length + 3] == [0, 1];
    let mut answer = query[..2].to_vec();
    // A response, recursion available; one question, and an answer if the type is A.
    answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
    answer.extend(question);
    if is_a {
        // The name of the question; A, IN, for 60 seconds, four bytes.
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 77]);
    }
    vec![answer]
}

#[test]
fn names_are_looked_up_over_the_link_even_at_a_name_server_on_the_loopback() {
    if no_links() {
        return;
    }
    // Servers there would be asked first.
    for taken in ["127.0.0.1:53", "[::1]:53"] {
        if let Err(error) = UdpSocket::bind(taken)
            && error.kind() == std::io::ErrorKind::AddrInUse
        {
            println!("skipped: this machine has a name server at {taken}");
            return;
        }
    }
    // An address that no other server has.
    let Ok(socket) = UdpSocket::bind("127.0.0.77:53") else {
        println!("skipped: port 53 is for privileged users");
        return;
    };
    std::thread::spawn(move || {
        let mut buffer = [0; 2_048];
        while let Ok((n, from)) = socket.recv_from(&mut buffer) {
            for answer in answer_of_dns(&buffer[..n]) {
                let _ = socket.send_to(&answer, from);
            }
        }
    });
    let folder = tempfile::tempdir().expect("a folder");
    let conf = folder.path().join("resolv.conf");
    std::fs::write(&conf, "nameserver 127.0.0.77\noptions timeout:10 attempts:1\n").expect("a file");
    // A namespace of mounts of its own, so that the machine keeps its name server.
    let look_up = |link: &str, command: &str| {
        let script =
            format!("mount --bind \"$1\" /etc/resolv.conf && exec {WEIR} link {link} -- sh -c '{command}'");
        Command::new("unshare")
            .args(["--mount", "sh", "-c", &script, "sh"])
            .arg(&conf)
            .stdin(Stdio::null())
            .output()
    };
    match look_up("rate=none", "getent ahostsv4 localhost") {
        Ok(output) if output.status.success() => {}
        Ok(output) => return println!("skipped: {}", text(&output.stderr).trim()),
        Err(error) => return println!("skipped: unshare: {error}"),
    }
    let start = Instant::now();
    let output = look_up("rtt=150ms", "getent ahostsv4 name.example; cat /etc/resolv.conf").expect("unshare");
    let took = start.elapsed();
    let said = text(&output.stdout);
    assert!(said.starts_with("192.0.2.77"), "{said} {}", text(&output.stderr));
    assert!(took >= Duration::from_millis(150), "{took:?}");
    assert!(
        said.ends_with("nameserver 198.18.0.1\noptions timeout:10 attempts:1\n"),
        "{said}"
    );
    // Two links, two round trips for a query.
    let start = Instant::now();
    let inner = format!("{WEIR} link rtt=100ms -- getent ahostsv4 other.example");
    let output = look_up("rtt=50ms", &inner).expect("unshare");
    assert!(
        text(&output.stdout).starts_with("192.0.2.77"),
        "{}",
        text(&output.stderr)
    );
    assert!(start.elapsed() >= Duration::from_millis(150));
}
