//! The packets of connections as qlog, which the server writes (`--qlog`).

use super::client::Client;
use super::{launch, open, site};
use crate::drawn;
use crate::serve::clients::run;
use crate::serve::files::noise;
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::tls::Pairs;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The logs in a folder by the names of their files. One that is written meanwhile is null.
fn logs(folder: &Path) -> BTreeMap<String, Value> {
    let entries = fs::read_dir(folder).expect("the folder");
    let logs = entries.map(|entry| {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("a log");
        let name = path.file_name().and_then(|name| name.to_str()).expect("text");
        (name.to_owned(), serde_json::from_str(&text).unwrap_or_default())
    });
    logs.collect()
}

fn events(log: &Value) -> &[Value] {
    log["traces"][0]["events"].as_array().map_or(&[], Vec::as_slice)
}

/// Packets by type and number.
fn packets<'l>(log: &'l Value, name: &str) -> BTreeMap<(String, u64), &'l Value> {
    let of_name = events(log).iter().filter(|event| event["name"] == name);
    let packets = of_name.map(|event| {
        let header = &event["data"]["header"];
        let number = header["packet_number"].as_u64();
        let kind = header["packet_type"].as_str().expect("a type").to_owned();
        let number = number.unwrap_or_else(|| panic!("the server has all keys: {event}"));
        ((kind, number), &event["data"])
    });
    packets.collect()
}

fn answered(server: &Server, pairs: &Pairs, path: &str, length: usize) -> Client {
    let mut client = open(server, pairs);
    let stream = client.ask(path);
    assert!(client.run(Client::is_done), "{:?}", client.closed);
    assert_eq!(client.got[&stream].body.len(), length);
    client
}

/// With few rights, in the process that has the connection.
fn both_ends_tell_of_the_same_packets(strategy: Strategy) {
    let pairs = site(&[("large.bin", &noise(300_000))]);
    let folder = pairs.tree.join("qlog");
    let path = folder.display().to_string();
    let mut server = launch(strategy, &pairs, &["--qlog", &path, "--user", "nobody"]);
    let landlock = server.started["rights"]["landlock"].to_string();
    assert!(
        landlock.contains("no Landlock") || landlock.contains(&path),
        "{landlock}"
    );
    let url = format!("https://{}/large.bin", server.address);
    let other = pairs.tree.join("client.qlog").display().to_string();
    let weir = env!("CARGO_BIN_EXE_weir");
    let fetch = ["fetch", &url, "--insecure", "--h3-only", "--qlog", &other];
    run(weir, &fetch).expect("the binary cargo just built");
    let wanted: Value = serde_json::from_str(&fs::read_to_string(&other).expect("a log")).expect("JSON");
    assert_eq!(server.stop(), 0);
    let logs = logs(&folder);
    let id = wanted["traces"][0]["common_fields"]["ODCID"]
        .as_str()
        .expect("an ID");
    assert_eq!(logs.keys().collect::<Vec<_>>(), [&format!("{id}.qlog")]);
    let log = &logs[&format!("{id}.qlog")];
    for (key, value) in [("qlog_version", "0.3"), ("qlog_format", "JSON")] {
        assert_eq!((&log[key], &wanted[key]), (&value.into(), &value.into()));
    }
    assert_eq!(log["traces"][0]["vantage_point"]["type"], "server");
    assert_eq!(log["traces"][0]["common_fields"]["ODCID"], id);
    let started = &events(log)[0];
    assert_eq!(started["name"], "connectivity:connection_started");
    let seen_there = &events(&wanted)[0]["data"];
    for key in ["dst_ip", "dst_port", "src_cid", "dst_cid"] {
        assert_eq!(started["data"][key], seen_there[key], "{key}");
    }
    assert_eq!(started["data"]["src_ip"], "127.0.0.1");
    for (here, there) in [
        ("transport:packet_sent", "transport:packet_received"),
        ("transport:packet_received", "transport:packet_sent"),
    ] {
        let (here, there) = (packets(log, here), packets(&wanted, there));
        let both = here
            .iter()
            .filter_map(|(name, data)| Some((name, data, there.get(name)?)));
        let mut count = 0;
        for (name, data, same) in both {
            assert_eq!(data, same, "{name:?}");
            count += 1;
        }
        // Packets may be lost or come too late, but few on loopback.
        assert!(
            count * 10 > here.len() * 9 && count > 10,
            "{count} of {}",
            here.len()
        );
        assert!(count * 10 > there.len() * 9, "{count} of {}", there.len());
    }
    let times: Vec<f64> = events(log)
        .iter()
        .map(|event| event["time"].as_f64().expect("a time"))
        .collect();
    assert!(times.is_sorted(), "{times:?}");
    drawn::whole(events(log), 1);
    drawn::whole(events(&wanted), 1);
    // What one end declares, the other reads.
    for (here, there) in [("local", "remote"), ("remote", "local")] {
        let mut ours = drawn::parameters(events(log), here).clone();
        ours["owner"] = there.into();
        assert_eq!(&ours, drawn::parameters(events(&wanted), there));
    }
    let frames = |log, name| {
        let of_name = events(log).iter().filter(move |event| event["name"] == name);
        of_name.map(|event| &event["data"]).collect::<Vec<_>>()
    };
    let answer = frames(log, "http:frame_created");
    assert_eq!(answer, frames(&wanted, "http:frame_parsed"));
    assert_eq!(
        frames(log, "http:frame_parsed"),
        frames(&wanted, "http:frame_created")
    );
    let content = answer.iter().filter(|data| data["frame"]["frame_type"] == "data");
    let length: u64 = content.filter_map(|data| data["length"].as_u64()).sum();
    assert_eq!(length, 300_000);
    let mut metrics = events(log)
        .iter()
        .filter(|event| event["name"] == "recovery:metrics_updated");
    let last = metrics.next_back().expect("counters of the server");
    assert!(
        last["data"]["smoothed_rtt"].as_f64().is_some_and(|rtt| rtt > 0.0),
        "{last}"
    );
    drawn::recovery(events(log), 1_200);
}

fn logs_go_to_files_of_limited_size_and_number(strategy: Strategy) {
    let pairs = site(&[("large.bin", &noise(2 << 20)), ("a.txt", b"a")]);
    let folder = pairs.tree.join("etc/packets");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("old.qlog"), "{}").expect("a file");
    let text = "qlog = 'packets'\nqlog-files = 2\nqlog-size = '64KiB'\n";
    let config = pairs.tree.write("etc/weir.toml", text).display().to_string();
    let mut server = launch(strategy, &pairs, &["--config", &config]);
    let mut client = answered(&server, &pairs, "/large.bin", 2 << 20);
    eventually("its log", || (logs(&folder).len() == 2).then_some(()));
    client.leave();
    let full = "`qlog-files`): new connections are not logged";
    // Connections come until each process has noticed.
    eventually("a word about the limit", || {
        answered(&server, &pairs, "/a.txt", 1).leave();
        server.stderr().contains(full).then_some(())
    });
    assert_eq!(logs(&folder).len(), 2);
    let own = || {
        let mut logs = logs(&folder).into_iter();
        logs.find(|(_, log)| {
            let last = events(log).last();
            last.is_some_and(|last| last["name"] == "generic:warning")
        })
    };
    let (name, log) = eventually("the end of the log of the download", own);
    let last = events(&log).last().expect("events");
    let message = last["data"]["message"].as_str().expect("text");
    assert!(message.contains("qlog-size"), "{message}");
    assert!(events(&log).len() > 100, "{} events", events(&log).len());
    let length = folder.join(&name).metadata().expect("a file").len();
    assert!((60 << 10..=64 << 10).contains(&length), "{length} bytes");
    // Room, and a reload that finds it.
    fs::remove_file(folder.join("old.qlog")).expect("our own file");
    server.signal("HUP");
    eventually("the reload", || {
        server.stderr().contains("reloaded").then_some(())
    });
    eventually("a further log", || {
        answered(&server, &pairs, "/a.txt", 1).leave();
        (logs(&folder).len() == 2).then_some(())
    });
    assert_eq!(own(), Some((name, log)), "it is over");
    assert_eq!(server.stop(), 0);
    let logs = logs(&folder);
    assert!(
        logs.len() == 2 && logs.values().all(|log| !events(log).is_empty()),
        "{logs:?}"
    );
}

/// Serves without a log, and says why once.
fn assert_serves(mut server: Server, pairs: &Pairs, length: usize, why: &str) {
    for _ in 0..5 {
        answered(&server, pairs, "/large.bin", length).leave();
    }
    eventually("the cause", || server.stderr().contains(why).then_some(()));
    assert_eq!(server.stop(), 0);
    let said = server.stderr();
    assert_eq!(said.matches("qlog: cannot write").count(), 1, "{said}");
}

#[test]
fn a_folder_that_is_gone_costs_no_request() {
    let pairs = site(&[("large.bin", &noise(300_000))]);
    let folder = pairs.tree.join("qlog");
    let server = launch(
        Strategy::LOOPS,
        &pairs,
        &["--qlog", &folder.display().to_string()],
    );
    fs::remove_dir(&folder).expect("it was created");
    assert_serves(server, &pairs, 300_000, "No such file");
    assert!(!folder.exists());
}

/// Files cannot grow beyond a limit of the system, as on a full disk.
#[test]
fn a_full_disk_costs_no_request() {
    let pairs = site(&[("large.bin", &noise(300_000))]);
    let folder = pairs.tree.join("qlog").display().to_string();
    let launch =
        Launch::wrapped(Strategy::LOOPS, "trap '' XFSZ && ulimit -f 8").root(&pairs.tree.join("site"));
    let (cert, key) = (pairs.tree.join("a.pem"), pairs.tree.join("a.key"));
    let server = launch
        .args(["--tls-cert".as_ref(), cert.as_os_str()])
        .args(["--tls-key".as_ref(), key.as_os_str()])
        .args(["--http3", "--qlog", &folder])
        .start();
    assert_serves(server, &pairs, 300_000, "File too large");
}

#[test]
fn what_cannot_be_logged_is_said_at_the_start() {
    let pairs = site(&[("a.txt", b"a")]);
    let file = pairs.tree.join("a.pem").display().to_string();
    let nowhere = pairs.tree.join("missing/qlog").display().to_string();
    let with = |flags: &[&str]| pairs.launch(Strategy::LOOPS, &["a"]).args(flags);
    for (flags, wanted) in [
        (&["--qlog", &file][..], "`--qlog`: cannot create"),
        (&["--qlog", &nowhere], "create its parent"),
        (&["--qlog", &nowhere, "--check"], "`--qlog`: cannot create files"),
        (&["--qlog", &file, "--check"], "`--qlog`: cannot create files"),
        (&["--qlog", ".", "--qlog-files", "0"], "qlog-files"),
        (&["--qlog", ".", "--qlog-size", "1KiB"], "at least 64 KiB"),
    ] {
        let (code, said) = with(flags).fail();
        assert!(code == 2 && said.contains(wanted), "{flags:?}: {code} {said}");
    }
    let folder = pairs.tree.join("qlog").display().to_string();
    let server = with(&["--qlog", &folder, "--http3=false"]).start();
    eventually("the reason", || {
        server.stderr().contains("HTTP/3 is not served").then_some(())
    });
}

crate::serve::on_strategy!(loops, LOOPS: both_ends_tell_of_the_same_packets, logs_go_to_files_of_limited_size_and_number);
crate::serve::on_strategy!(process_loops, PROCESS_LOOPS: both_ends_tell_of_the_same_packets, logs_go_to_files_of_limited_size_and_number);
