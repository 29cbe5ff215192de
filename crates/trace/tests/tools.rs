//! Agreement with tcptrace and tshark on real captures, counter by counter.
//!
//! The tools' output is stored in `testdata`, so the comparison runs without them. If they are installed, they run
//! first, so that stored output cannot become outdated.

mod talk;

use std::collections::HashMap;
use std::process::Command;
use trace::{Connection, Direction, Kind, Options};

/// The captures by file name; `testdata/README.md` describes them.
const CAPTURES: [&str; 5] = [
    "loopback.pcap",
    "lossy.pcap",
    "linked.pcapng",
    "six.pcap",
    "receiver.pcap",
];

/// A file's name without its extension, under which the tools' output is stored.
fn stem(capture: &str) -> &str {
    capture.split('.').next().unwrap_or(capture)
}

fn testdata(name: &str) -> String {
    format!("{}/testdata/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[allow(clippy::disallowed_methods, reason = "tests read their data")]
fn read(name: &str) -> Vec<u8> {
    std::fs::read(testdata(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Output of a command, or `None` if it cannot run.
fn ask(command: &str, args: &[&str]) -> Option<String> {
    match Command::new(command).args(args).output() {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(error) => {
            println!("skipped: {command}: {error}; the kept answers are used");
            None
        }
    }
}

/// tcptrace's rows by column name.
fn tcptrace(capture: &str) -> Vec<HashMap<String, String>> {
    let clean = |text: &str| -> Vec<String> {
        let lines = text.lines().map(|l| l.replace(' ', ""));
        lines.filter(|l| !l.is_empty() && !l.starts_with('#')).collect()
    };
    let name = stem(capture);
    let kept = clean(&String::from_utf8(read(&format!("{name}.tcptrace.csv"))).unwrap());
    let path = testdata(capture);
    if let Some(now) = ask("tcptrace", &["--csv", "-l", "-r", "-n", &path]) {
        assert_eq!(
            clean(&now),
            kept,
            "testdata/{name}.tcptrace.csv is stale: run testdata/expected"
        );
    }
    let columns: Vec<&str> = kept[0].split(',').collect();
    let row = |line: &String| {
        columns
            .iter()
            .map(|c| c.to_string())
            .zip(line.split(',').map(str::to_owned))
            .collect()
    };
    kept[1..].iter().map(row).collect()
}

/// The counterparts of tcptrace's columns for one direction.
fn counters(d: &Direction) -> Vec<(&'static str, u64)> {
    vec![
        ("total_packets", d.volume.packets),
        ("resets_sent", d.kinds.rst),
        ("ack_pkts_sent", d.with_ack),
        ("pure_acks_sent", d.kinds.ack),
        ("sack_pkts_sent", d.sacks),
        ("dsack_pkts_sent", d.duplicate_sacks),
        ("unique_bytes_sent", d.unique_bytes),
        ("actual_data_pkts", d.kinds.data),
        ("actual_data_bytes", d.volume.payload),
        ("rexmt_data_pkts", d.retransmissions.packets),
        ("rexmt_data_bytes", d.retransmissions.bytes),
        ("outoforder_pkts", d.out_of_order),
        ("pushed_data_pkts", d.pushed),
        ("adv_wind_scale", u64::from(d.window_scale.unwrap_or(0))),
        ("mss_requested", u64::from(d.mss.unwrap_or(0))),
        ("max_segm_size", u64::from(d.segment_max)),
        ("min_segm_size", u64::from(d.segment_min)),
        ("max_win_adv", d.window.max),
        ("min_win_adv", d.window_min.unwrap_or(0)),
        ("avg_win_adv", d.window.mean as u64),
        ("zero_win_adv", d.zero_windows),
        ("initial_window_bytes", d.initial_window),
        ("initial_window_pkts", d.initial_packets),
        ("ttl_stream_length", d.stream_bytes),
        ("missed_data", d.stream_bytes - d.unique_bytes),
        ("RTT_samples", d.rtt.count),
        ("triple_dupacks", d.triple_duplicate_acks),
        ("duplicate_acks", d.duplicate_acks),
    ]
}

fn compare(capture: &str, connections: &[Connection]) -> Vec<String> {
    let mut differences = Vec::new();
    let rows = tcptrace(capture);
    assert_eq!(rows.len(), connections.len());
    for (row, c) in rows.iter().zip(connections) {
        for (suffix, d, peer) in [
            ("a2b", &c.from_client, &c.from_server),
            ("b2a", &c.from_server, &c.from_client),
        ] {
            for (name, ours) in counters(d) {
                // tcptrace counts duplicate acknowledgments with the data they acknowledge.
                let ours = match name {
                    "triple_dupacks" => peer.triple_duplicate_acks,
                    _ => ours,
                };
                // For a connection that did not end in order, tcptrace gives no stream length, or counts the reset.
                if ["ttl_stream_length", "missed_data"].contains(&name) && c.end != trace::End::Closed {
                    continue;
                }
                // tcptrace's duplicates need no data in flight, unlike RFC 5681's (compared with tshark below); and its
                // mean window counts a reset's meaningless field.
                if name == "duplicate_acks" || (name == "avg_win_adv" && d.kinds.rst > 0) {
                    continue;
                }
                let theirs = row[&format!("{name}_{suffix}")].parse::<f64>().unwrap_or(-1.0) as i64;
                if theirs != ours as i64 {
                    differences.push(format!(
                        "{capture} {:?} {name}_{suffix}: tcptrace {theirs}, here {ours}",
                        c.id
                    ));
                }
            }
            let letter = |is: bool| if is { "Y" } else { "N" };
            for (name, ours) in [
                ("SYN/FIN_pkts_sent", format!("{}/{}", d.kinds.syn, d.kinds.fin)),
                (
                    "req_1323_ws/ts",
                    format!("{}/{}", letter(d.window_scale.is_some()), letter(d.timestamps)),
                ),
                ("req_sack", letter(d.sack_permitted).to_owned()),
            ] {
                let theirs = &row[&format!("{name}_{suffix}")];
                if *theirs != ours {
                    differences.push(format!(
                        "{capture} {:?} {name}_{suffix}: tcptrace {theirs}, here {ours}",
                        c.id
                    ));
                }
            }
            // In seconds, with three decimals.
            let theirs: f64 = row[&format!("data_xmit_time_{suffix}")].parse().unwrap_or(-1.0);
            if (theirs - d.data_span.as_secs_f64()).abs() > 0.000_51 {
                differences.push(format!(
                    "{capture} {:?} data_xmit_time_{suffix}: tcptrace {theirs}, here {:?}",
                    c.id, d.data_span
                ));
            }
            for (name, ours) in [
                ("RTT_min", d.rtt.min),
                ("RTT_max", d.rtt.max),
                ("RTT_avg", d.rtt.mean()),
                ("RTT_stdev", d.rtt.deviation()),
                ("idletime_max", d.idle_max),
            ] {
                // tcptrace gives no deviation for two samples.
                if name == "RTT_stdev" && d.rtt.count < 3 {
                    continue;
                }
                let theirs: f64 = row[&format!("{name}_{suffix}")].parse().unwrap_or(-1.0);
                let ours = ours.as_secs_f64() * 1e3;
                if (theirs - ours).abs() > 0.051 {
                    differences.push(format!(
                        "{capture} {:?} {name}_{suffix}: tcptrace {theirs}, here {ours:.3}",
                        c.id
                    ));
                }
            }
        }
    }
    differences
}

fn connections(capture: &str) -> Vec<Connection> {
    let outcome = talk::analyze(&read(capture), Options::default());
    assert_eq!(outcome.error, None);
    let mut connections = outcome.connections;
    connections.sort_by_key(|c| c.id);
    connections
}

#[test]
fn tcptrace_counts_the_same() {
    let mut differences = Vec::new();
    for capture in CAPTURES {
        differences.extend(compare(capture, &connections(capture)));
    }
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
}

/// The capture over IPv6 with an IEEE 802.1Q tag in every frame: no change, here or in tcptrace.
#[test]
fn a_vlan_tag_changes_nothing() {
    let plain = read("six.pcap");
    let word = |at: usize| u32::from_le_bytes(plain[at..at + 4].try_into().expect("four bytes"));
    let (mut tagged, mut at) = (plain[..24].to_vec(), 24);
    while at < plain.len() {
        let (captured, length) = (word(at + 8), word(at + 12));
        tagged.extend(&plain[at..at + 8]);
        tagged.extend((captured + 4).to_le_bytes());
        tagged.extend((length + 4).to_le_bytes());
        let frame = at + 16;
        tagged.extend(&plain[frame..frame + 12]);
        tagged.extend([0x81, 0x00, 0x00, 0x05]);
        at = frame + captured as usize;
        tagged.extend(&plain[frame + 12..at]);
    }
    let analyzed = |bytes: &[u8]| {
        let outcome = talk::analyze(bytes, Options::default());
        assert_eq!(outcome.error, None);
        (outcome.connections, outcome.findings, outcome.transactions)
    };
    assert_eq!(analyzed(&tagged), analyzed(&plain));
    let path = format!(
        "{}/six-tagged-{}.pcap",
        env!("CARGO_TARGET_TMPDIR"),
        std::process::id()
    );
    #[allow(clippy::disallowed_methods, reason = "another program is to read it")]
    std::fs::write(&path, &tagged).expect("a folder of our own");
    let said = ask("tcptrace", &["--csv", "-l", "-r", "-n", &path]);
    #[allow(clippy::disallowed_methods, reason = "it was written above")]
    std::fs::remove_file(&path).expect("is there");
    if let Some(said) = said {
        let kept = String::from_utf8(read("six.tcptrace.csv")).unwrap();
        let row = |text: &str| -> Vec<(String, String)> {
            let lines = text.lines().map(|line| line.replace(' ', ""));
            let lines: Vec<_> = lines
                .filter(|line| !line.is_empty() && !line.starts_with('#'))
                .collect();
            let cells = lines[0].split(',').zip(lines[lines.len() - 1].split(','));
            // Bytes cut off by the snapshot length count by the frame's length.
            cells
                .filter(|(name, _)| !name.starts_with("truncated"))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect()
        };
        assert_eq!(row(&said), row(&kept));
    }
}

/// tshark's per-packet analysis, summed by connection and direction.
fn tshark(capture: &str) -> HashMap<(usize, u16), Vec<u64>> {
    let name = stem(capture);
    let kept = String::from_utf8(read(&format!("{name}.tshark.tsv"))).unwrap();
    let path = testdata(capture);
    let fields = ["stream", "srcport", "len", "seq", "flags"].map(|f| format!("tcp.{f}"));
    let verdicts = VERDICTS.map(|f| format!("tcp.analysis.{f}"));
    let mut args = vec![
        "-r",
        &path,
        "-o",
        "tcp.desegment_tcp_streams:false",
        "-T",
        "fields",
    ];
    for (i, field) in fields.iter().chain(&verdicts).enumerate() {
        args.extend(["-e", field]);
        if i == 1 {
            args.extend(["-e", "ip.len", "-e", "ipv6.plen"]);
        }
    }
    if let Some(now) = ask("tshark", &args) {
        assert_eq!(
            now, kept,
            "testdata/{name}.tshark.tsv is stale: run testdata/expected"
        );
    }
    let mut sums: HashMap<(usize, u16), Vec<u64>> = HashMap::new();
    let mut seen: HashMap<(usize, u16), u64> = HashMap::new();
    for line in kept.lines() {
        let f: Vec<&str> = line.split('\t').collect();
        let sender = (f[0].parse().unwrap(), f[1].parse().unwrap());
        let sum = sums.entry(sender).or_insert_with(|| vec![0; 13]);
        sum[0] += 1;
        // IPv6 gives the length after its own 40 bytes.
        sum[1] += f[2].parse().unwrap_or_else(|_| 40 + f[3].parse::<u64>().unwrap());
        sum[2] += f[4].parse::<u64>().unwrap();
        let said = |i: usize| u64::from(!f[7 + i].is_empty());
        let flags = u64::from_str_radix(f[6].trim_start_matches("0x"), 16).unwrap();
        let start: u64 = f[5].parse().unwrap();
        let highest = seen.entry(sender).or_default();
        // tshark also reports a retransmission for bytes that arrive once, after a pure ACK that was sent behind them
        // and overtook them. Only a segment that begins below the highest byte received is late by the capture's
        // evidence.
        if start < *highest {
            sum[3] += said(0) + said(1);
        }
        let length = f[4].parse::<u64>().unwrap() + u64::from(flags & 3 != 0);
        if length > 0 {
            *highest = (*highest).max(start + length);
        }
        for i in 2..6 {
            sum[2 + i] += said(i);
        }
        for (place, bit) in [2, 1, 4, 8, 16].into_iter().enumerate() {
            sum[8 + place] += u64::from(flags & bit != 0);
        }
    }
    sums
}

const VERDICTS: [&str; 8] = [
    "retransmission",
    "out_of_order",
    "duplicate_ack",
    "zero_window",
    "keep_alive",
    "window_update",
    "fast_retransmission",
    "spurious_retransmission",
];

#[test]
fn tshark_says_the_same() {
    let mut differences = Vec::new();
    for capture in CAPTURES {
        let theirs = tshark(capture);
        for (stream, c) in connections(capture).iter().enumerate() {
            for (d, end) in [(&c.from_client, c.client), (&c.from_server, c.server)] {
                let theirs = &theirs[&(stream, end.port)];
                let ours = [
                    ("packets", d.volume.packets),
                    ("IP bytes", d.volume.headers + d.volume.payload),
                    ("payload", d.volume.payload),
                    // tshark calls a retransmission within 3 ms out of order, even of bytes it has seen; only the sum
                    // is comparable.
                    (
                        "again or late",
                        d.retransmissions.packets + d.retransmissions.control + d.out_of_order,
                    ),
                    ("duplicate_ack", d.duplicate_acks),
                    ("zero_window", d.zero_windows),
                    ("keep_alive", d.keep_alives),
                    ("window_update", d.window_updates),
                    ("SYN", d.kinds.syn),
                    ("FIN", d.kinds.fin),
                    ("RST", d.kinds.rst),
                    ("PSH", d.pushed),
                    ("ACK", d.with_ack),
                ];
                for ((name, ours), theirs) in ours.iter().zip(theirs) {
                    if ours != theirs {
                        differences.push(format!(
                            "{capture} {stream} {end} {name}: tshark {theirs}, here {ours}"
                        ));
                    }
                }
            }
        }
    }
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
}

#[test]
fn findings_on_real_captures() {
    let outcome = talk::analyze(&read("loopback.pcap"), Options::default());
    for finding in &outcome.findings {
        println!("loopback {finding:?}");
    }
    // Header and body in two writes: the second waits 40 ms for the delayed acknowledgment.
    let nagle: Vec<_> = outcome
        .findings
        .iter()
        .filter(|f| matches!(f.kind, Kind::NagleBuffering { .. }))
        .collect();
    assert!(!nagle.is_empty());
    assert!(
        nagle
            .iter()
            .all(|f| f.cost.as_millis() >= 38 && f.cost.as_millis() < 60 && f.connection.0 == 1)
    );
    let resets: Vec<_> = outcome
        .findings
        .iter()
        .filter(|f| matches!(f.kind, Kind::ResetDestroyedData { .. }))
        .collect();
    assert_eq!(
        resets
            .iter()
            .map(|f| (f.connection.0, f.packets.clone()))
            .collect::<Vec<_>>(),
        [(4, vec![92, 93])]
    );
    assert_eq!(
        outcome.transactions.iter().filter(|t| t.complete).count(),
        5 + 6 + 1 + 1
    );
    let outcome = talk::analyze(&read("lossy.pcap"), Options::default());
    for finding in &outcome.findings {
        println!("lossy {finding:?}");
    }
    let timeouts: Vec<_> = outcome
        .findings
        .iter()
        .filter(|f| matches!(f.kind, Kind::RetransmissionTimeout { .. }))
        .collect();
    assert_eq!(timeouts.len(), 1);
    // The snapshot length cut the bodies, not the counters.
    assert!(outcome.transactions.iter().all(|t| t.complete));
    assert_eq!(
        outcome
            .transactions
            .iter()
            .map(|t| t.response_body_bytes)
            .sum::<u64>(),
        3 * 90_500
    );
}

/// Real captures with bytes changed at random: no panic, consistent counters, and no effect of chunk sizes.
#[test]
fn damaged_real_captures_never_panic() {
    use units::Seed;
    let mut state = Seed(20_251_121).0;
    let mut random = |n: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    for capture in CAPTURES {
        let good = read(capture);
        for round in 0..200 {
            let mut bad = good.clone();
            for _ in 0..=round % 40 {
                // The file header stays intact, so that most damage reaches the packets.
                let at = 24 + random(bad.len() - 24);
                bad[at] = random(256) as u8;
            }
            let outcome = talk::analyze(&bad, Options::default());
            let frames = outcome.summary.frames;
            let other =
                frames.other_ip + frames.fragments + frames.not_ip + frames.malformed + frames.unknown_link;
            assert_eq!(
                frames.total,
                frames.tcp + frames.udp + other,
                "{capture} round {round}"
            );
            assert_eq!(
                outcome.summary.volume.packets, frames.tcp,
                "{capture} round {round}"
            );
            let chunked = talk::analyze_chunks(&bad, 1 + random(3000), Options::default());
            assert_eq!(chunked.summary, outcome.summary, "{capture} round {round}");
            assert_eq!(chunked.error, outcome.error);
        }
    }
}
