//! Jobs and files under way, and streams that are cancelled meanwhile.

use super::peer::Peer;
use crate::config::Config;
use crate::session::rig::{Lines, Rig};
use crate::site::Source;
use crate::{LogSink, Server};
use ::http2::Limits;
use std::path::Path;
use std::sync::Arc;
use units::{Bytes, Duration, Seed};

#[test]
fn answers_come_in_the_order_of_their_jobs() {
    let mut peer = Peer::new();
    peer.rig.holds_jobs = true;
    let (one, up) = peer.ask("GET", "/digits.bin", &[], true);
    peer.send(&up);
    let (two, up) = peer.ask("GET", "/small.png", &[], true);
    peer.send(&up);
    assert_eq!(peer.rig.jobs.len(), 2);
    peer.rig.jobs.reverse();
    peer.rig.run_jobs();
    peer.take();
    assert_eq!(peer.ended, [two, one]);
}

#[test]
fn a_cancelled_request_counts_until_its_job_has_ended() {
    let mut peer = Peer::with(|config| config.max_streams = 2);
    peer.rig.holds_jobs = true;
    for path in ["/digits.bin", "/small.png"] {
        let (stream, up) = peer.ask("GET", path, &[], true);
        peer.send(&up);
        peer.cancel(stream);
    }
    let refused = peer.get("GET", "/page.png", &[]);
    assert_eq!(refused.reset, Some(::http2::Code::REFUSED_STREAM));
    peer.rig.run_jobs();
    peer.rig.holds_jobs = false;
    let loads = peer.rig.server.totals().loads;
    // What the cancelled jobs found is in the cache.
    assert_eq!(peer.get("GET", "/digits.bin", &[]).body, b"0123456789");
    assert_eq!(peer.rig.server.totals().loads, loads);
    assert_eq!(peer.rig.server.totals().http2_resets, 2);
}

#[test]
fn a_job_that_takes_too_long_gets_503_and_its_result_is_ignored() {
    let mut peer = Peer::new();
    peer.rig.holds_jobs = true;
    let (stream, up) = peer.ask("GET", "/digits.bin", &[], true);
    peer.send(&up);
    peer.rig.wait(Duration::from_secs(21));
    peer.take();
    assert_eq!(peer.got[&stream].status(), 503);
    peer.rig.run_jobs();
    peer.take();
    assert!(peer.got[&stream].has_ended);
}

/// A server of a folder.
pub(super) fn folder(root: &Path, configure: impl FnOnce(&mut Config)) -> Peer {
    let mut config = Config {
        root: Some(root.to_owned()),
        log_format: crate::config::LogFormat::Json,
        cache_file_size: Bytes(1_000),
        ..Config::default()
    };
    configure(&mut config);
    let lines = Arc::new(Lines::default());
    let log: Arc<dyn LogSink> = lines.clone();
    let none = Source::Embedded {
        files: &[],
        modified: crate::session::rig::MODIFIED,
    };
    let mut rig = Rig::of(Server::open(config, none, Some(log), Seed(1)).unwrap(), lines);
    rig.agree_on_http2();
    Peer::of(rig, Limits::DEFAULT)
}

fn noise(len: usize) -> Vec<u8> {
    use units::Draw as _;
    let mut rng = Seed(3).rng();
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test of files writes some")]
fn files_that_are_not_in_memory_arrive_whole() {
    let root = tempfile::tempdir().unwrap();
    let (a, b) = (noise(300_000), noise(65_536));
    std::fs::write(root.path().join("a.bin"), &a).unwrap();
    std::fs::write(root.path().join("b.bin"), &b).unwrap();
    let mut peer = folder(root.path(), |_| {});
    let (one, up) = peer.ask("GET", "/a.bin", &[], true);
    let (two, more) = peer.ask("GET", "/b.bin", &[("range", "bytes=100-65000")], true);
    let (three, most) = peer.ask("GET", "/a.bin", &[("range", "bytes=0-70000,200000-290000")], true);
    peer.send(&[up, more, most].concat());
    assert!(peer.got[&one].body == a && peer.got[&one].has_ended);
    assert!(peer.got[&two].body == b[100..=65_000] && peer.got[&two].has_ended);
    let parts = &peer.got[&three];
    assert!(parts.has_ended);
    assert_eq!(
        parts.field("content-length"),
        Some(&*parts.body.len().to_string())
    );
    assert!(parts.body.windows(70_001).any(|w| w == &a[..=70_000]));
    assert!(parts.body.windows(90_001).any(|w| w == &a[200_000..=290_000]));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test of files writes some")]
fn a_file_that_becomes_shorter_ends_its_stream_alone() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a.bin");
    std::fs::write(&path, noise(300_000)).unwrap();
    std::fs::write(root.path().join("b.txt"), "b").unwrap();
    let mut peer = folder(root.path(), |_| {});
    peer.rig.holds_jobs = true;
    let (stream, up) = peer.ask("GET", "/a.bin", &[], true);
    peer.send(&up);
    peer.rig.run_jobs();
    std::fs::write(&path, "short").unwrap();
    peer.rig.holds_jobs = false;
    peer.rig.run_jobs();
    peer.take();
    assert_eq!(peer.got[&stream].reset, Some(::http2::Code::INTERNAL_ERROR));
    assert_eq!(peer.get("GET", "/b.txt", &[]).body, b"b");
    assert_eq!(peer.rig.server.totals().truncated, 1);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test of files writes some")]
fn a_file_is_read_no_further_than_a_piece_ahead() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("a.bin"), noise(3_000_000)).unwrap();
    let mut peer = folder(root.path(), |_| {});
    peer.rig.stalled = true;
    let (stream, up) = peer.ask("GET", "/a.bin", &[], true);
    peer.send(&up);
    assert!(
        peer.rig.cx.hub.budget.held().0 < 300_000,
        "{}",
        peer.rig.cx.hub.budget.held().0
    );
    peer.cancel(stream);
    peer.rig.unstall();
    peer.take();
    assert_eq!(peer.get("GET", "/nothing", &[]).status(), 404);
    assert!(
        peer.rig.cx.hub.budget.held().0 < 20_000,
        "{}",
        peer.rig.cx.hub.budget.held().0
    );
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test of files writes some")]
fn what_comes_late_and_is_urgent_overtakes_on_a_slow_path() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("a.bin"), noise(3_000_000)).unwrap();
    std::fs::write(root.path().join("b.css"), noise(1_000)).unwrap();
    let mut peer = folder(root.path(), |_| {});
    peer.get("GET", "/b.css", &[]);
    peer.rig.stalled = true;
    let (_, up) = peer.ask("GET", "/a.bin", &[], true);
    peer.send(&up);
    let step = |peer: &mut Peer, span| {
        let bytes = peer.rig.take_within(span);
        peer.take();
        bytes
    };
    let slow = Duration::from_millis(50);
    let turns: Vec<usize> = (0..5).map(|_| step(&mut peer, slow)).collect();
    assert!(turns[0] > 30_000, "{turns:?}");
    assert!(
        turns[1..].iter().all(|bytes| (3_000..=4_096).contains(bytes)),
        "{turns:?}"
    );
    let (urgent, up) = peer.ask("GET", "/b.css", &[], true);
    peer.rig.send(&up);
    // What is under way goes first, then the urgent answer.
    let behind: usize = (0..2).map(|_| step(&mut peer, slow)).sum();
    assert!(peer.got[&urgent].has_ended, "after {behind} bytes");
    assert!(behind <= 8_192, "{behind}");
    // A path that turns out to be fast gets more at a time.
    let fast = Duration::from_millis(1);
    let turns: Vec<usize> = (0..9).map(|_| step(&mut peer, fast)).collect();
    assert!(turns.iter().max() > Some(&30_000), "{turns:?}");
}
