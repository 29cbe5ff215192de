//! One line per response, whatever its outcome.

use super::rig::Rig;
use crate::config::LogFormat;
use runtime::session::Loss;
use units::Duration;

fn lines(rig: &mut Rig) -> Vec<serde_json::Value> {
    rig.log()
        .lines()
        .map(|l| serde_json::from_str(l).expect(l))
        .collect()
}

#[test]
fn every_answer_has_its_line() {
    let mut rig = Rig::new();
    rig.send(b"GET /digits.bin?q HTTP/1.1\r\nHost: h\r\nUser-Agent: u\r\nReferer: r\r\n\r\nHEAD / HTTP/1.1\r\nHost: h\r\n\r\nGET /nothing HTTP/1.1\r\nHost: h\r\n\r\n");
    rig.send(b"\x01\x02");
    let all = lines(&mut rig);
    let statuses: Vec<u64> = all.iter().map(|l| l["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [200, 200, 404, 400]);
    assert_eq!(all[0]["target"], "/digits.bin?q");
    assert_eq!(
        (&all[0]["host"], &all[0]["user_agent"], &all[0]["referer"]),
        (&"h".into(), &"u".into(), &"r".into())
    );
    assert_eq!(all[0]["body_bytes"], 10);
    assert_eq!(
        (&all[1]["method"], &all[1]["body_bytes"]),
        (&"HEAD".into(), &0.into())
    );
    assert_eq!(all[3]["raw"], "\u{1}\u{2}");
    assert!(
        all.iter()
            .all(|l| l["peer"] == "192.0.2.7" && l.get("aborted").is_none())
    );
    let sent: u64 = all.iter().map(|l| l["bytes"].as_u64().unwrap()).sum();
    assert_eq!(sent, rig.out.len() as u64, "bytes add up to what was sent");
    assert_eq!(rig.server.totals().bytes_sent, sent);
}

#[test]
fn the_duration_runs_from_the_first_byte_to_the_last() {
    let mut rig = Rig::new();
    rig.send(b"GET /big.png HT");
    rig.wait(Duration::from_millis(300));
    rig.stalled = true;
    rig.send(b"TP/1.1\r\nHost: a\r\n\r\n");
    rig.wait(Duration::from_millis(200));
    rig.unstall();
    assert_eq!(lines(&mut rig)[0]["duration_us"], 500_000);
}

#[test]
fn a_multipart_answer_is_one_line() {
    let mut rig = Rig::new();
    rig.send(b"GET /big.png HTTP/1.1\r\nHost: a\r\nRange: bytes=0-9999,20000-29999,50000-59999\r\n\r\n");
    let all = lines(&mut rig);
    assert_eq!(all.len(), 1);
    assert_eq!(
        (&all[0]["status"], all[0]["bytes"].as_u64().unwrap()),
        (&206.into(), rig.out.len() as u64)
    );
}

#[test]
fn a_lost_connection_is_logged_with_what_was_sent() {
    let mut rig = Rig::new();
    for path in ["/digits.bin", "/big.png"] {
        rig.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    }
    rig.reconnect();
    rig.stalled = true;
    rig.send(b"GET /digits.bin HTTP/1.1\r\nHost: a\r\n\r\nGET /big.png HTTP/1.1\r\nHost: a\r\n\r\n");
    rig.progress(1_000);
    rig.lose(Loss::Socket(104));
    let all = lines(&mut rig);
    let all = &all[2..];
    assert_eq!(all.len(), 2);
    assert!(all[0].get("aborted").is_none());
    assert_eq!(
        (&all[1]["aborted"], &all[1]["status"]),
        (&"peer".into(), &200.into())
    );
    let sent: u64 = all.iter().map(|l| l["bytes"].as_u64().unwrap()).sum();
    assert_eq!(sent, 1_000);
}

#[test]
fn nothing_is_lost_when_a_worker_ends() {
    let mut rig = Rig::with(|c| c.log_format = LogFormat::Common);
    rig.send(b"GET /digits.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    let kept = rig.lines.clone();
    assert_eq!(kept.text(), "");
    drop(rig);
    assert_eq!(
        kept.text(),
        "192.0.2.7 - - [09/Sep/2001:01:46:40 +0000] \"GET /digits.bin HTTP/1.1\" 200 10\n"
    );
}

#[test]
fn a_408_shows_what_had_come() {
    let mut rig = Rig::new();
    rig.send(b"GET /slow HTTP/1.1\r\nHost");
    rig.wait(Duration::from_secs(30));
    let all = lines(&mut rig);
    assert_eq!(
        (&all[0]["status"], &all[0]["raw"]),
        (&408.into(), &"GET /slow HTTP/1.1".into())
    );
}
