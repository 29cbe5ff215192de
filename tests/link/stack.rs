//! `weir link --stack`: real programs whose connections cross the link by the TCP of another stack. What that stack does is
//! read in the link's own capture; what the programs notice of it is what they would notice of a network.

use crate::fixture::Refusing;
use crate::link::capture::{Segment, segments};
use crate::link::{WEIR, bash, echo, no_links, text, weir};
use serde_json::Value;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

/// What a full segment carries without timestamps.
const FULL: usize = 1_460;

/// A server of `weir` at the far end with one file, and a shell that asks for it once. Returns what the shell wrote, and
/// the capture.
fn get(link: &[&str], size: usize, after: &str) -> (String, Vec<Segment>) {
    let folder = tempfile::tempdir().expect("a folder");
    let site = folder.path().join("site");
    std::fs::create_dir(&site).expect("a folder");
    std::fs::write(site.join("file.bin"), vec![b'w'; size]).expect("a file");
    let pcap = folder.path().join("link.pcapng").display().to_string();
    let far = format!("exec {WEIR} serve {} -q --listen 0.0.0.0:80", site.display());
    let script = format!(
        "exec 3<>/dev/tcp/198.18.0.1/80
         printf 'GET /file.bin HTTP/1.1\\r\\nHost: far\\r\\n\\r\\n' >&3
         head -c {size} <&3 | wc -c
         {after}"
    );
    let record = ["--pcap", &pcap, "--far", &far, "--", "bash", "-c", &script];
    let output = weir(&[&["link"], link, &record].concat());
    assert!(output.status.success(), "{link:?}: {}", text(&output.stderr));
    // The capture is one that `weir trace` understands.
    let trace = weir(&["trace", &pcap]);
    assert!(trace.status.success(), "{}", text(&trace.stderr));
    (text(&output.stdout), segments(Path::new(&pcap)))
}

#[test]
fn the_first_flight_of_a_real_server_is_the_stacks() {
    if no_links() {
        return;
    }
    // Stack of the server's host, a setting of it, segments of its first flight.
    for (far, set, least, most) in [
        ("solaris-2.5", "near.delayed_ack_ms=100", 1, 1),
        ("solaris-2.5", "far.initial_cwnd_segments=4", 4, 4),
        ("sunos-4.1.3", "near.initial_cwnd_segments=4", 2, 2),
        ("linux-6", "near.delayed_ack_ms=100", 8, 10),
    ] {
        let stacks = format!("linux-2.0,{far}");
        let link = ["rtt=300ms", "--stack", &stacks, "--stack-set", set];
        let (said, all) = get(&link, 30_000, "");
        assert_eq!(said.trim(), "30000", "{far}");
        let mss: Vec<_> = all.iter().filter_map(|it| it.mss).collect();
        assert_eq!(mss, [FULL as u16; 2], "{far}: one SYN in each direction");
        let down = || all.iter().filter(|it| it.is_down && it.payload > 0);
        let first = down().next().expect("data").at;
        let flight: Vec<_> = down()
            .take_while(|it| it.at < first + 0.15)
            .map(|it| it.payload)
            .collect();
        let segments = flight.iter().sum::<usize>().div_ceil(FULL);
        assert!((least..=most).contains(&segments), "{far}: {flight:?}");
        assert!(down().all(|it| it.payload <= FULL), "{far}");
        let whole: usize = down().map(|it| it.payload).sum();
        assert!(whole >= 30_000, "{far}: {whole}");
    }
}

#[test]
fn the_command_acknowledges_when_its_stack_does() {
    if no_links() {
        return;
    }
    // Stack of the command's host, its delayed-ACK time in seconds.
    for (near, delay) in [("solaris-2.5", 0.05), ("windows-nt-4.0", 0.2)] {
        let stacks = format!("{near},4.4bsd");
        // It never comes too early; a busy machine may let it come late, but not each time.
        let is_in_time = |_| {
            // The connection stays open: a FIN would carry the acknowledgment.
            let (_, all) = get(
                &["rtt=60ms", "--stack", &stacks],
                100,
                "while read -t 1 -u 3; do :; done",
            );
            let data = all
                .iter()
                .position(|it| it.is_down && it.payload > 0)
                .expect("data");
            let ack = all[data..]
                .iter()
                .find(|it| !it.is_down)
                .expect("an acknowledgment");
            let waited = ack.at - all[data].at;
            assert_eq!(ack.payload, 0, "{near}");
            assert!(waited >= delay - 0.005, "{near}: {waited}");
            println!("{near}: {waited} s");
            waited < delay + 0.04
        };
        assert!((0..5).any(is_in_time), "{near}: {delay} s");
    }
}

#[test]
fn segments_of_a_stack_fit_the_links_packets() {
    if no_links() {
        return;
    }
    let (said, all) = get(&["rtt=4ms mtu=576", "--stack", "4.4bsd"], 20_000, "");
    assert_eq!(said.trim(), "20000");
    let mss: Vec<_> = all.iter().filter_map(|it| it.mss).collect();
    assert_eq!(mss, [536, 536]);
    assert_eq!(all.iter().map(|it| it.payload).max(), Some(536));
}

#[test]
fn servers_outside_are_reached_and_refusals_come_back() {
    if no_links() {
        return;
    }
    let port = echo();
    let start = Instant::now();
    let script = format!("exec 3<>/dev/tcp/198.18.0.1/{port}; echo over >&3; head -n 1 <&3");
    let output = bash(&["rtt=80ms", "--stack", "4.4bsd"], &script);
    assert_eq!(text(&output.stdout), "over\n", "{}", text(&output.stderr));
    // One round trip for the handshake, one for the words.
    assert!(start.elapsed() >= Duration::from_millis(160));

    let closed = Refusing::new();
    let port = closed.address().port();
    let start = Instant::now();
    let output = bash(
        &["rtt=80ms", "--stack", "4.4bsd"],
        &format!("exec 3<>/dev/tcp/198.18.0.1/{port}"),
    );
    assert!(
        text(&output.stderr).contains("refused"),
        "{}",
        text(&output.stderr)
    );
    assert!(start.elapsed() >= Duration::from_millis(80));
}

#[test]
fn a_servers_reset_reaches_the_program() {
    if no_links() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let server = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a connection");
        let mut first = [0; 1];
        std::io::Read::read_exact(&mut &stream, &mut first).expect("a byte");
        let socket = socket2::SockRef::from(&stream);
        socket.set_linger(Some(Duration::ZERO)).expect("an option");
    });
    let script = format!("exec 3<>/dev/tcp/198.18.0.1/{port}; printf x >&3; head -c 1 <&3");
    let output = bash(&["rtt=10ms", "--stack", "solaris-2.5"], &script);
    assert!(text(&output.stderr).contains("reset"), "{}", text(&output.stderr));
    server.join().expect("a server");
}

#[test]
fn a_server_that_has_finished_still_hears_the_program() {
    if no_links() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let folder = tempfile::tempdir().expect("a folder");
    let mark = folder.path().join("mark");
    let shown = mark.display().to_string();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        std::io::Write::write_all(&mut stream, b"last").expect("written");
        stream.shutdown(std::net::Shutdown::Write).expect("an end");
        let mut heard = [0; 5];
        std::io::Read::read_exact(&mut stream, &mut heard).expect("five bytes");
        std::fs::write(mark, heard).expect("a file");
    });
    // `cat` ends with the server's half; only then does the program write. What it wrote would be lost with the link, which
    // ends with the program.
    let script = format!(
        "exec 3<>/dev/tcp/198.18.0.1/{port}; cat <&3; printf heard >&3
         timeout 60 sh -c 'until test -s {shown}; do sleep 0.01; done' && cat {shown}"
    );
    let output = bash(&["rtt=10ms", "--stack", "sunos-4.1.3"], &script);
    assert_eq!(text(&output.stdout), "lastheard", "{}", text(&output.stderr));
    server.join().expect("a server");
}

#[test]
fn long_streams_arrive_whole_in_both_directions_at_once() {
    if no_links() {
        return;
    }
    let port = echo();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("bytes");
    let bytes: Vec<u8> = (0..2_000_000_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    std::fs::write(&file, &bytes).expect("a file");
    let file = file.display();
    let one = format!(
        "one() {{ exec 3<>/dev/tcp/198.18.0.1/{port}; cat {file} >&3 & head -c 2000000 <&3 | cmp - {file} && echo same; }}"
    );
    for (link, stack) in [
        ("rtt=2ms", "linux-6"),
        ("rtt=2ms loss=0.5%", "linux-6"),
        ("rtt=2ms", "digital-unix-4.0"),
    ] {
        let script = format!("{one}\n(one) & (one) & (one) & wait");
        let output = bash(&[link, "--stack", stack], &script);
        assert_eq!(
            text(&output.stdout),
            "same\n".repeat(3),
            "{stack}: {}",
            text(&output.stderr)
        );
    }
}

#[test]
fn a_program_cannot_send_what_nobody_reads() {
    if no_links() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("link.jsonl").display().to_string();
    // The kernel completes the handshake; nothing is ever read.
    let script = format!("exec 3<>/dev/tcp/198.18.0.1/{port}; timeout 1 cat /dev/zero >&3; echo $?");
    let output = bash(&["rtt=2ms", "--stack", "4.4bsd", "--log", &log], &script);
    assert_eq!(text(&output.stdout), "124\n", "{}", text(&output.stderr));
    let lines = std::fs::read_to_string(&log).expect("a log");
    let last: Value = serde_json::from_str(lines.lines().last().expect("a line")).expect("JSON");
    let sent = last["up"]["bytes_in"].as_u64().expect("a count");
    // The receive buffer of the listener's kernel, and little more.
    assert!((8_192..2_000_000).contains(&sent), "{last}");
}

#[test]
fn the_stacks_are_on_record() {
    if no_links() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("settings.json").display().to_string();
    let stacks = [
        "--stack",
        "4.4bsd,solaris-2.5",
        "--stack-nodelay",
        "far",
        "--stack-set",
        "near.rto_min_ms=300",
    ];
    let output = weir(
        &[
            &["link", "lan", "--settings", &file][..],
            &stacks,
            &["--", "true"],
        ]
        .concat(),
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let settings: Value =
        serde_json::from_str(&std::fs::read_to_string(&file).expect("settings")).expect("JSON");
    assert_eq!(
        settings,
        serde_json::json!({
            "near": { "nodelay": "0", "stack": "4.4bsd rto_min_ms=300" },
            "far": { "nodelay": "1", "stack": "solaris-2.5" },
        })
    );
}

#[test]
fn what_a_stack_excludes_is_named() {
    for (args, part) in [
        (&["--stack", "cp/m"][..], "valid are `sunos-4.1.3`"),
        (&["--stack", "4.4bsd,linux-5"], "did you mean `linux-6`?"),
        (&["--stack", "linux-6,linux-2.0,4.4bsd"], "at most two stacks"),
        (&["--stack", "4.4bsd", "--aged", "yes"], "aged"),
        (
            &["--stack", "4.4bsd", "--initcwnd", "2", "--congestion", "reno"],
            "initcwnd, congestion",
        ),
        (&["--stack-nodelay", "both"], "--stack"),
        (&["--stack-set", "rto_min_ms=300"], "--stack"),
        (
            &["--stack", "4.4bsd", "--stack-set", "far.rto_mim_ms=300"],
            "did you mean `rto_min_ms`?",
        ),
        (
            &["--stack", "4.4bsd", "--stack-set", "middle.rto_min_ms=300"],
            "near or far",
        ),
        (&["--stack", "4.4bsd", "--stack-set", "rto_min_ms"], "KEY=VALUE"),
        (
            &["--stack", "4.4bsd", "--stack-set", "rto_min_ms=soon"],
            "rto_min_ms=soon",
        ),
    ] {
        let output = weir(&[&["link", "lan"], args, &["--", "true"]].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            text(&output.stderr).contains(part),
            "{args:?}: {}",
            text(&output.stderr)
        );
    }
}
