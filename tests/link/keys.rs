//! Each key of a link measured by what it does to a real TCP: in the link's own capture, in its counters, in the kernel.
//!
//! One download from a server at the far end, or a few bytes, behind a link that differs in the one key.

use crate::link::capture::{Segment, segments};
use crate::link::{WEIR, no_links, text, weir};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

/// What every full segment carries here: 1,500 bytes less IP's 20, TCP's 20 and its timestamps' 12.
const FULL: usize = 1_448;

/// A file that a server at the far end gives away, and what the bench needs besides.
struct Bench {
    folder: tempfile::TempDir,
    size: usize,
}

impl Bench {
    fn with(size: usize) -> Bench {
        let folder = tempfile::tempdir().expect("a folder");
        let site = folder.path().join("site");
        std::fs::create_dir(&site).expect("a folder");
        std::fs::write(site.join("file.bin"), vec![b'w'; size]).expect("a file");
        Bench { folder, size }
    }

    /// A shell that fetches the file over one connection with `get`, as often as the script says. Both hosts use Reno,
    /// whatever this machine's default is: BBR paces what it sends and knows no restart after idling.
    fn run(&self, link: &[&str], script: &str) -> (String, Vec<Segment>, Vec<Value>) {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        let (pcap, log) = (path("link.pcapng"), path("link.jsonl"));
        let far = format!("exec {WEIR} serve {} -q --listen 0.0.0.0:80", path("site"));
        let script = format!(
            "exec 3<>/dev/tcp/198.18.0.1/80
             get() {{
                 printf 'GET /file.bin HTTP/1.1\\r\\nHost: far\\r\\n\\r\\n' >&3
                 head -c {} <&3 >/dev/null
             }}
             {script}",
            self.size
        );
        let record = [
            "--pcap", &pcap, "--log", &log, "--far", &far, "--", "bash", "-c", &script,
        ];
        let output = weir(&[&["link", "--congestion", "reno"], link, &record].concat());
        assert!(output.status.success(), "{link:?}: {}", text(&output.stderr));
        let lines = std::fs::read_to_string(&log).expect("a log");
        let counters = lines
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        (
            text(&output.stdout),
            segments(Path::new(&pcap)),
            counters.collect(),
        )
    }
}

/// Payload segments to the command that came within `span` seconds from the first after `start`.
fn flight(all: &[Segment], start: f64, span: f64) -> Vec<usize> {
    let down = || {
        all.iter()
            .filter(|it| it.is_down && it.payload > 0 && it.at > start)
    };
    let first = down().next().expect("a segment with payload").at;
    down()
        .take_while(|it| it.at < first + span)
        .map(|it| it.payload)
        .collect()
}

#[test]
fn mss_is_announced_by_both_and_kept() {
    if no_links() {
        return;
    }
    let bench = Bench::with(50_000);
    for (keys, announced, full) in [
        (&["rtt=4ms mtu=1500"][..], 1_460, FULL),
        (&["rtt=4ms mtu=1500", "--mss", "536"], 536, 524),
    ] {
        let (_, all, _) = bench.run(keys, "get");
        let said: Vec<_> = all.iter().filter(|it| it.is_syn).map(|it| it.mss).collect();
        assert!(said.len() >= 2, "{said:?}");
        assert!(
            said.iter().all(|mss| *mss == Some(announced)),
            "{keys:?}: {said:?}"
        );
        let largest = all.iter().map(|it| it.payload).max();
        assert_eq!(largest, Some(full), "{keys:?}");
    }
}

#[test]
fn initcwnd_is_the_first_flight() {
    if no_links() {
        return;
    }
    let bench = Bench::with(100_000);
    for segments in [2, 10, 24] {
        let key = segments.to_string();
        let (_, all, _) = bench.run(&["rtt=300ms mtu=1500", "--initcwnd", &key], "get");
        let sizes = flight(&all, 0.0, 0.15);
        let bytes: usize = sizes.iter().sum();
        assert_eq!(bytes.div_ceil(FULL), segments, "{sizes:?}");
    }
}

#[test]
fn idle_restart_is_a_small_flight_after_a_pause_or_is_not() {
    if no_links() {
        return;
    }
    let bench = Bench::with(200_000);
    let after_pause = |word: &str| {
        let keys = ["rtt=60ms mtu=1500", "--idle-restart", word];
        let (_, all, _) = bench.run(&keys, "get; sleep 2; get");
        let ends: Vec<_> = all.iter().filter(|it| it.is_down && it.payload > 0).collect();
        let pause = ends.windows(2).find(|pair| pair[1].at - pair[0].at > 1.5);
        flight(&all, pause.expect("a pause")[0].at, 0.03).len()
    };
    let (with, without) = (after_pause("yes"), after_pause("no"));
    assert!(with <= 12, "restarted with {with} segments");
    assert!(without >= 20, "went on with {without} segments");
}

#[test]
fn congestion_is_what_both_hosts_use() {
    if no_links() {
        return;
    }
    let bench = Bench::with(1_000);
    let own = "cat /proc/sys/net/ipv4/tcp_congestion_control; get; ss -tin 2>/dev/null || echo no ss";
    let (said, ..) = bench.run(&["rtt=4ms"], own);
    assert_eq!(said.lines().next(), Some("reno"));
    assert!(
        said.contains("no ss") || said.split_whitespace().filter(|word| *word == "reno").count() == 2,
        "{said}"
    );
    let far = "cat /proc/sys/net/ipv4/tcp_congestion_control >&2";
    let args = [
        "link",
        "lan",
        "--congestion",
        "reno",
        "--far-ready",
        "no",
        "--far",
        far,
    ];
    let output = weir(&[&args[..], &["--", "sleep", "0.5"]].concat());
    assert!(
        text(&output.stderr).contains("reno\n"),
        "{}",
        text(&output.stderr)
    );
    let output = weir(&["link", "lan", "--congestion", "pigeon", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no `pigeon` loaded"));
}

/// What the machine allows only to the privileged it allows on a route; as `ip route ... congctl` does.
#[test]
fn congestion_may_be_what_the_sysctl_refuses() {
    if no_links() {
        return;
    }
    let read = |name: &str| std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
    let allowed = read("tcp_allowed_congestion_control");
    let available = read("tcp_available_congestion_control");
    let is_refused = |name: &&str| !allowed.split_whitespace().any(|other| other == *name);
    let Some(name) = available.split_whitespace().find(is_refused) else {
        eprintln!("skipped: this machine allows everybody all it has: {allowed}");
        return;
    };
    let far = format!("exec {WEIR} serve -q --listen 0.0.0.0:80");
    let script = "exec 3<>/dev/tcp/198.18.0.1/80; printf 'GET / HTTP/1.1\\r\\nHost: far\\r\\n\\r\\n' >&3; \
                  head -n 1 <&3; ss -tin 2>/dev/null || echo no ss";
    let output = weir(&[
        "link",
        "rtt=4ms",
        "--congestion",
        name,
        "--far",
        &far,
        "--",
        "bash",
        "-c",
        script,
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    assert!(
        said.contains("no ss") || said.split_whitespace().any(|word| word == name),
        "{name}: {said}"
    );
}

#[test]
fn held_acks_hold_up_a_sender_that_waits_for_them() {
    if no_links() {
        return;
    }
    let bench = Bench::with(10);
    // The shell's sockets obey Nagle: the second part of a request waits until the first is acknowledged.
    let script = "printf 'GET /file.bin HT' >&3; printf 'TP/1.0\\r\\n\\r\\n' >&3; cat <&3 >/dev/null";
    let between = |keys: &[&str]| {
        let (_, all, _) = bench.run(keys, script);
        let up: Vec<_> = all.iter().filter(|it| !it.is_down && it.payload > 0).collect();
        assert!(up.len() >= 2, "{up:?}");
        up[1].at - up[0].at
    };
    // Less than the 200 ms after which a sender repeats what is not acknowledged.
    let held = between(&["rtt=4ms", "--hold-acks", "180ms"]);
    assert!((0.18..0.6).contains(&held), "{held}");
    let free = between(&["rtt=4ms"]);
    assert!(free < 0.15, "{free}");
    // Between nothing and all of it: when the last beat was is chance.
    let beat = between(&["rtt=4ms", "--hold-acks", "beat:180ms"]);
    assert!(beat < 0.6, "{beat}");
}

#[test]
fn a_trace_paces_and_begins_with_the_link() {
    if no_links() {
        return;
    }
    let bench = Bench::with(100_000);
    let trace = bench.folder.path().join("steady");
    let lines = |from: u64| {
        (from..=10_000)
            .step_by(10)
            .map(|ms| format!("{ms}\n"))
            .collect::<String>()
    };
    std::fs::write(&trace, lines(10)).expect("a trace");
    let word = format!("trace={} rtt=2ms mtu=1500", trace.display());
    // A busy machine may be late with a packet of the sender's or of the link's, but not each time.
    let is_paced = |_| {
        let (_, all, _) = bench.run(&[&word], "get");
        let down: Vec<_> = all.iter().filter(|it| it.is_down && it.payload > 0).collect();
        let (first, last) = (down[0], down[down.len() - 1]);
        // One packet of 1,500 bytes each 10 ms, give or take one at the end.
        let took = last.at - first.at;
        let due = (down.len() - 1) as f64 * 0.01;
        println!("{} packets took {took} s", down.len());
        (took - due).abs() < 0.015
    };
    assert!((0..5).any(is_paced));

    let late = bench.folder.path().join("late");
    std::fs::write(&late, lines(1_500)).expect("a trace");
    let word = format!("trace={} rtt=2ms", late.display());
    let start = Instant::now();
    bench.run(&[&word], "true");
    assert!(
        start.elapsed() >= Duration::from_millis(1_500),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn codel_keeps_the_queue_short_that_drop_tail_fills() {
    if no_links() {
        return;
    }
    let bench = Bench::with(800_000);
    let run = |queue: &str| {
        let word = format!("rate=2M rtt=20ms queue={queue}");
        let (_, _, counters) = bench.run(&[&word, "--log-every", "20"], "get");
        let inside = |line: &Value| line["down"]["packets_inside"].as_f64().expect("a count");
        // Slow start is over in the second half.
        let later = &counters[counters.len() / 2..];
        let mean = later.iter().map(inside).sum::<f64>() / later.len() as f64;
        let last = &counters[counters.len() - 1]["down"]["dropped"];
        (mean, last["aged"].as_u64(), last["full"].as_u64())
    };
    let (long, aged, full) = run("1000p");
    assert_eq!((aged, full), (Some(0), Some(0)));
    let (short, aged, full) = run("codel");
    assert!(aged >= Some(1), "{aged:?}");
    assert_eq!(full, Some(0));
    assert!(
        short * 2.0 < long,
        "{short} packets in CoDel's queue, {long} in the other"
    );
    let (_, aged, full) = run("10p");
    assert!(full >= Some(1) && aged == Some(0), "{full:?} {aged:?}");
}

/// An aged TCP has no timestamps, so that segments are full with 1,460 bytes, and begins with two of them. What the
/// hosts had is on record, with what a command changed.
#[test]
fn aged_hosts_send_as_in_1997_and_say_so() {
    if no_links() {
        return;
    }
    let bench = Bench::with(100_000);
    let record = bench.folder.path().join("settings.json");
    let file = record.display().to_string();
    let settings = || -> Value {
        let text = std::fs::read_to_string(&record).expect("settings");
        serde_json::from_str(&text).expect("JSON")
    };
    let keys = ["rtt=300ms mtu=1500 aged=yes", "--settings", &file];
    let (_, all, _) = bench.run(&keys, "get");
    assert_eq!(all.iter().map(|it| it.payload).max(), Some(1_460));
    assert_eq!(flight(&all, 0.0, 0.15).len(), 2);
    let aged = settings();
    for (name, value) in [
        ("tcp_timestamps", "0"),
        ("tcp_sack", "0"),
        ("tcp_window_scaling", "0"),
        ("tcp_early_retrans", "0"),
        ("tcp_congestion_control", "reno"),
        ("initcwnd", "2"),
    ] {
        assert_eq!(
            (&aged["near"][name], &aged["far"][name]),
            (&value.into(), &value.into()),
            "{name}"
        );
    }
    // Three is the kernel's default, so the change is another.
    let change = "echo 4 > /proc/sys/net/ipv4/tcp_early_retrans; get";
    bench.run(&["rtt=4ms", "--aged", "no", "--settings", &file], change);
    let today = settings();
    assert_eq!(today["far"]["tcp_timestamps"], "1");
    assert_eq!(today["near"]["tcp_early_retrans"], "4");
    assert!(today["far"]["initcwnd"].is_null(), "{today}");
    let output = weir(&["link", "lan", "--settings", "/dev/full", "--", "true"]);
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
}
