//! The black box of `weir link` and `weir lab doctor`: commands behind links, what they reach, how they end, what is left
//! behind. Where the kernel refuses namespaces it says `skipped: why` and passes.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a black-box test is the outside world: it listens, times and reads files"
)]

mod browser;
mod capture;
mod keys;
mod proxy;
mod ready;
mod stack;
mod udp;
mod visits;

use crate::cli::{WEIR, text, weir};
use crate::fixture::Refusing;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Whether links can be made here; says so if not.
pub(crate) fn no_links() -> bool {
    let output = weir(&["link", "rate=none", "--", "true"]);
    if output.status.code() == Some(4) {
        eprintln!("skipped: {}", text(&output.stderr).trim());
        return true;
    }
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    false
}

/// A server on the loopback that answers each connection with what it was sent first, and ends with the test.
fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut stream = stream;
                let mut buffer = vec![0; 1 << 16];
                while let Ok(n @ 1..) = stream.read(&mut buffer) {
                    if stream.write_all(&buffer[..n]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

/// A shell script (bash, for /dev/tcp) behind a link.
fn bash(link: &[&str], script: &str) -> Output {
    let args = [&["link"], link, &["--", "bash", "-c", script]].concat();
    weir(&args)
}

#[test]
fn a_server_on_the_loopback_is_reached_over_the_link_and_no_sooner_than_it_allows() {
    if no_links() {
        return;
    }
    let port = echo();
    let script = format!("exec 3<>/dev/tcp/$WEIR_LINK_GATEWAY/{port}; echo over >&3; head -n 1 <&3");
    for link in [
        &["rtt=80ms"][..],
        &["--rtt", "80ms", "--rate", "1M"],
        &["--up", "delay=30ms", "--down", "delay=50ms"],
    ] {
        let start = Instant::now();
        let output = bash(link, &script);
        let took = start.elapsed();
        assert_eq!(
            text(&output.stdout),
            "over\n",
            "{link:?}: {}",
            text(&output.stderr)
        );
        // One round trip for the handshake, one for the words.
        assert!(took >= Duration::from_millis(160), "{link:?}: {took:?}");
    }
}

#[test]
fn links_nest_and_their_delays_add_up() {
    if no_links() {
        return;
    }
    let port = echo();
    let script = format!("exec 3<>/dev/tcp/198.18.0.1/{port}; echo twice >&3; head -n 1 <&3");
    let start = Instant::now();
    let output = weir(&[
        "link", "rtt=40ms", "--", WEIR, "link", "rtt=60ms", "--", "bash", "-c", &script,
    ]);
    assert_eq!(text(&output.stdout), "twice\n", "{}", text(&output.stderr));
    assert!(start.elapsed() >= Duration::from_millis(200));
}

#[test]
fn a_refusal_outside_is_a_refusal_inside() {
    if no_links() {
        return;
    }
    let closed = Refusing::new();
    let port = closed.address().port();
    let output = bash(&["rtt=2ms"], &format!("exec 3<>/dev/tcp/198.18.0.1/{port}"));
    assert!(
        text(&output.stderr).contains("refused"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn it_ends_as_the_command_ends() {
    if no_links() {
        return;
    }
    assert_eq!(bash(&["lan"], "exit 42").status.code(), Some(42));
    assert_eq!(bash(&["lan"], "kill -KILL $$").status.code(), Some(137));
    let output = weir(&["link", "lan", "--", "/no/such/program"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("/no/such/program"));
}

#[test]
fn signals_reach_the_command_and_nothing_outlives_a_kill() {
    if no_links() {
        return;
    }
    for (signal, ending) in [("TERM", Some(9)), ("KILL", None)] {
        let mark = format!("mark-{}-{signal}", std::process::id());
        let script = format!(
            "setsid sleep 1000.{} & trap 'exit 9' TERM; echo {mark}; while :; do sleep 0.05; done",
            std::process::id()
        );
        let mut child = Command::new(WEIR)
            .args(["link", "lan", "--", "bash", "-c", &script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary cargo just built");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped"))
            .read_line(&mut line)
            .expect("its mark");
        assert_eq!(line.trim(), mark);
        let sent = Command::new("kill")
            .arg(format!("-{signal}"))
            .arg(child.id().to_string())
            .status();
        assert!(sent.expect("kill").success());
        assert_eq!(child.wait().expect("an end").code(), ending, "{signal}");
        for left in [mark, format!("1000.{}", std::process::id())] {
            assert_gone(&left);
        }
    }
}

/// Waits until no process has this in its command line. A zombie has none.
fn assert_gone(mark: &str) {
    let lives = || {
        let processes = std::fs::read_dir("/proc").expect("processes").flatten();
        processes
            .filter_map(|process| std::fs::read(process.path().join("cmdline")).ok())
            .any(|line| text(&line).contains(mark))
    };
    let limit = Instant::now() + Duration::from_secs(60);
    while lives() {
        assert!(Instant::now() < limit, "{mark} outlived its link");
        std::thread::yield_now();
    }
}

#[test]
fn what_commands_leave_behind_ends_with_the_link() {
    if no_links() {
        return;
    }
    let seconds = |which: &str| format!("{which}.{}", std::process::id());
    let (near, far) = (seconds("2001"), seconds("2002"));
    // Children of a shell, in sessions of their own, and one whose parent is gone.
    let leave = |time: &str| format!("sleep {time} & setsid sleep {time} & (setsid sleep {time} &)");
    let far = (leave(&far) + "; wait", far);
    let output = bash(
        &["lan", "--far", &far.0, "--far-ready", "no"],
        &(leave(&near) + "; exit 5"),
    );
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
    for mark in [near, far.1] {
        assert_gone(&mark);
    }
}

/// Apache does so: whoever tells it to end tells everybody of its group.
#[test]
fn a_far_command_that_ends_its_group_ends_nobody_else() {
    if no_links() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mark = folder.path().join("listens").display().to_string();
    let far = format!("trap 'trap - TERM; kill -TERM 0' TERM; echo > {mark}; while :; do sleep 0.05; done");
    let near = format!("until test -s {mark}; do sleep 0.01; done");
    let output = Command::new("sh")
        .args([
            "-c",
            "$0 link rate=none --far-ready no --far \"$1\" -- sh -c \"$2\"; echo here $?",
        ])
        .args([WEIR, &far, &near])
        .process_group(0)
        .output()
        .expect("a shell");
    assert_eq!(text(&output.stdout), "here 0\n", "{}", text(&output.stderr));
}

#[test]
fn the_near_command_waits_until_somebody_listens() {
    if no_links() {
        return;
    }
    let serve = format!("{WEIR} serve -q --listen 0.0.0.0:80");
    let ask = "exec 3<>/dev/tcp/198.18.0.1/80; printf 'HEAD / HTTP/1.0\\r\\n\\r\\n' >&3; head -n 1 <&3";
    for (far, ready) in [
        (format!("sleep 0.4; exec {serve}"), "any"),
        (format!("sleep 0.4; {serve}"), "80"),
        // A shell that has left its server alone and ended.
        (format!("(sleep 0.4; {serve}) &"), "80"),
    ] {
        let output = bash(&["rtt=4ms", "--far", &far, "--far-ready", ready], ask);
        let said = text(&output.stdout);
        assert!(
            said.starts_with("HTTP/1.1 200"),
            "{far}: {said} {}",
            text(&output.stderr)
        );
    }
    let output = bash(&["lan", "--far", "exit 3", "--far-ready", "80"], "echo no");
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(text(&output.stdout), "");
    assert!(
        text(&output.stderr).contains("code 3"),
        "{}",
        text(&output.stderr)
    );
    // One that has failed is no far end; one that has nothing to listen on may be meant so.
    let output = bash(&["lan", "--far", "exit 7"], "echo no");
    assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(3), ""));
    assert!(
        text(&output.stderr).contains("code 7"),
        "{}",
        text(&output.stderr)
    );
    let output = bash(&["lan", "--far", "exit 0"], "echo yes");
    assert_eq!(text(&output.stdout), "yes\n", "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("nobody listens"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_full_disk_is_told_and_is_no_success() {
    for args in [&["--list"][..], &["--list", "--json"]] {
        let full = std::fs::File::create("/dev/full").expect("a device that is full");
        let output = Command::new(WEIR)
            .arg("link")
            .args(args)
            .stdout(full)
            .stderr(Stdio::piped())
            .output()
            .expect("the binary cargo just built");
        assert_eq!(
            output.status.code(),
            Some(4),
            "{args:?}: {}",
            text(&output.stderr)
        );
    }
    if no_links() {
        return;
    }
    for flag in ["--pcap", "--log"] {
        let output = bash(&["lan", flag, "/dev/full"], "echo ran; sleep 0.3");
        assert_eq!(text(&output.stdout), "ran\n");
        assert_eq!(output.status.code(), Some(4), "{flag}: {}", text(&output.stderr));
        assert!(
            text(&output.stderr).contains("ends early"),
            "{flag}: {}",
            text(&output.stderr)
        );
        // The command's own failure is worth more.
        let output = bash(&["lan", flag, "/dev/full"], "exit 5");
        assert_eq!(output.status.code(), Some(5), "{flag}");
    }
}

#[test]
fn capture_and_counters_agree() {
    if no_links() {
        return;
    }
    let port = echo();
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let name = |end: &str| {
        folder
            .join(format!("link-{}.{end}", std::process::id()))
            .display()
            .to_string()
    };
    let (pcap, log) = (name("pcapng"), name("jsonl"));
    let script =
        format!("exec 3<>/dev/tcp/198.18.0.1/{port}; echo seen >&3; head -n 1 <&3; exec 3>&-; sleep 0.2");
    let output = bash(&["rtt=10ms", "--pcap", &pcap, "--log", &log], &script);
    assert_eq!(text(&output.stdout), "seen\n", "{}", text(&output.stderr));
    let lines = std::fs::read_to_string(&log).expect("a log");
    let last: Value = serde_json::from_str(lines.lines().last().expect("a line")).expect("JSON");
    let capture = std::fs::read(&pcap).expect("a capture");
    // Enhanced packet blocks are of type 6; every block starts with type and length.
    let (mut at, mut packets) = (0, 0);
    while at < capture.len() {
        let word = |at: usize| u32::from_le_bytes(capture[at..at + 4].try_into().expect("four bytes"));
        packets += u64::from(word(at) == 6);
        at += word(at + 4) as usize;
    }
    assert_eq!(at, capture.len());
    let expected = last["up"]["packets_in"].as_u64().expect("a count")
        + last["down"]["packets_out"].as_u64().expect("a count");
    assert_eq!(packets, expected);
    // Whatever leaves leaves some nanoseconds after it was due.
    assert!(last["late_max_ms"].as_f64().expect("a time") > 0.0, "{last}");
    assert!(last["late"].as_u64().expect("a count") <= packets * 2, "{last}");
    assert!(packets >= 7, "{packets}");
    let _ = (std::fs::remove_file(&pcap), std::fs::remove_file(&log));
}

#[test]
fn a_command_at_the_far_end_is_reached_directly() {
    if no_links() {
        return;
    }
    let far = format!("{WEIR} serve -q --listen 0.0.0.0:80");
    let script = "exec 3<>/dev/tcp/198.18.0.1/80; \
                  printf 'HEAD / HTTP/1.0\\r\\n\\r\\n' >&3; head -n 1 <&3";
    let output = bash(&["rtt=4ms", "--far", &far], script);
    assert!(
        text(&output.stdout).starts_with("HTTP/1.1 200"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn what_is_no_link_is_named() {
    for (args, part) in [
        (&["link", "pigeon", "--", "true"][..], "no such preset"),
        (&["link", "rate=fast", "--", "true"], "`rate`"),
        (&["link", "lan", "--mss", "1", "--", "true"], "`mss`"),
        (&["link", "lan", "--up", "rate", "--", "true"], "key=value"),
        (&["link", "rate=0", "--", "true"], "none for an unlimited rate"),
        (&["link", "queue=0p", "--", "true"], "one packet"),
        (&["link", "mtu=100000", "--", "true"], "68 to 65535"),
        (&["link", "lan", "--mtu", "65536", "--", "true"], "68 to 65535"),
        (&["link", "mtu=65535", "--backend", "tun", "--", "true"], "65521"),
        (
            &["link", "speed=1M", "--", "true"],
            "half-duplex; for the hosts mss, initcwnd, congestion, idle-restart, aged; for UDP rebind, udp-flows, udp-idle",
        ),
        (&["link", "--", "true"], "no link given"),
        (&["link", "lan"], "no command given"),
        (&["link", "trace=/no/such/file", "--", "true"], "/no/such/file"),
    ] {
        let output = weir(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            text(&output.stderr).contains(part),
            "{args:?}: {}",
            text(&output.stderr)
        );
    }
}

#[test]
fn a_calibration_states_its_error_and_judges_by_it() {
    if no_links() {
        return;
    }
    let output = weir(&["link", "--calibrate", "rate=20M rtt=4ms", "--json"]);
    let code = output.status.code();
    // What a machine that is busy with other tests measures is its own affair; what it says of that is not.
    assert!(code == Some(0) || code == Some(3), "{}", text(&output.stderr));
    // Where it is not as exact as it should be, a second line says so.
    let line = text(&output.stdout).lines().next().unwrap_or_default().to_owned();
    let found: Value = serde_json::from_str(&line).expect("JSON");
    let faults = found["faults"].as_array().expect("faults");
    assert_eq!(found["met"] == true, code == Some(0));
    assert_eq!(faults.is_empty(), code == Some(0), "{found}");
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{found}"));
    let delay = &found["delay_error_ms"];
    let [half, most] = ["p50", "max"].map(|name| number(&delay[name]));
    assert!(
        half <= number(&delay["p99"]) && number(&delay["p99"]) <= most,
        "{found}"
    );
    assert!(number(&found["method_error_ms"]["p50"]) > 0.0, "{found}");
    let too_late = number(&delay["p99"]) > number(&found["bounds"]["delay_error_p99_ms"]);
    let said = |part: &str| {
        faults
            .iter()
            .any(|fault| fault.as_str().is_some_and(|fault| fault.contains(part)))
    };
    assert_eq!(too_late, said("p99"), "{found}");
    assert_eq!(
        number(&found["rate_up"]["error"]).abs() > 0.01,
        said("rate up"),
        "{found}"
    );
    assert_eq!(found["reordered"] != 0, said("overtook"), "{found}");
    assert_eq!(
        number(&found["unshaped_bits_per_second"]) < 1e9,
        said("unshaped"),
        "{found}"
    );
    assert!(number(&found["probes_per_second"]) >= 999.0, "{found}");
}

#[test]
fn the_list_and_the_doctor_speak_json() {
    let output = weir(&["link", "--list", "--json"]);
    let lines = text(&output.stdout);
    let ppp = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .find(|line| line["link"] == "ppp")
        .expect("a preset");
    assert_eq!(ppp["down_bits_per_second"], 28_800);
    let output = weir(&["lab", "doctor", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let findings = report["findings"].as_array().expect("findings");
    assert!(findings.len() >= 10);
    // What the doctor says of links is what a link does.
    let veth = findings
        .iter()
        .find(|finding| finding["what"] == "link: veth")
        .expect("a finding");
    let made = weir(&["link", "rate=none", "--backend", "veth", "--", "true"])
        .status
        .success();
    assert_eq!(veth["state"] == "yes", made);
}
