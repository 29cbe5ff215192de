//! Small worlds: results that are the same on every machine, and what each bottleneck does.

use super::*;
use crate::parameters::servers;
use load::parameters::{Parameters, Set};
use server::Server;
use server::config::{Config, Http2};
use server::site::Source;
use units::UnixTime;

/// All files are beginnings of this one: their content does not matter.
static LETTERS: [u8; 6 << 20] = [b'x'; 6 << 20];

fn service(work: &Work) -> Server {
    let files: Vec<(&'static str, &'static [u8])> = work
        .files
        .iter()
        .map(|file| {
            let path: &'static str = String::from(file.path.clone()).leak();
            (path, &LETTERS[..file.bytes.expect("a length") as usize])
        })
        .collect();
    let source = Source::Embedded {
        files: files.leak(),
        modified: UnixTime::from_secs(784_111_777),
    };
    let config = Config {
        idle_timeout: Duration::from_secs(15),
        http2: Http2::All,
        ..Config::default()
    };
    Server::open(config, source, None, Seed(1)).expect("a server")
}

fn surge() -> Workload {
    let parameters = Parameters::with(Set::Table8, &[("files", "200")]).expect("parameters");
    let mut seed = 1;
    loop {
        let surge = Surge::new(parameters.clone(), Seed(seed)).expect("a site");
        if surge.files.iter().all(|file| file.size.0 < LETTERS.len() as u64) {
            return Workload::Surge(Arc::new(surge));
        }
        seed += 1;
    }
}

fn scenario(server: &str, changes: &[(&str, f64)], workload: Workload, who: Who, mode: Mode) -> Scenario {
    let server = servers().iter().find(|one| one.name == server).expect("a server");
    let changes: Vec<(String, f64)> = changes
        .iter()
        .map(|(name, value)| ((*name).to_owned(), *value))
        .collect();
    Scenario {
        server,
        values: Values::of(server, &changes).expect("known names"),
        workload,
        who,
        mode,
        lanes: 1,
        warmup: Duration::from_secs(2),
        duration: Duration::from_secs(5),
        seed: Seed(1),
    }
}

fn outcome(scenario: &Scenario) -> Outcome {
    let outcome = run(scenario, service(&scenario.workload.work())).expect("an outcome");
    assert_eq!(
        outcome.record.errors(),
        0,
        "{:?} {:?}",
        outcome.record.troubles,
        outcome.record.breach
    );
    assert_eq!(
        outcome.record.unfinished, 0,
        "{} {:?}",
        scenario.server.name, scenario.mode
    );
    outcome
}

fn line(name: &str, outcome: &Outcome) -> String {
    format!(
        "{name}: {} files, {} B, {} + {} packets, {:.3} ms, {} switches, {} reads, {:.4} idle, window {:.3}\n",
        outcome.record.files_in_time - outcome.record.left_out.files_in_time,
        outcome.record.bytes_in_time - outcome.record.left_out.bytes_in_time,
        outcome.sent[0].packets,
        outcome.sent[1].packets,
        outcome.record.response.summary().mean,
        outcome.switches,
        outcome.disk.0,
        outcome.idle(),
        outcome.window_mean(),
    )
}

#[test]
fn worlds_are_the_same_on_every_machine() {
    let mut text = String::new();
    for mode in [
        Mode::Http10,
        Mode::Serial,
        Mode::Pipelined,
        Mode::EarlyClose,
        Mode::Http2,
    ] {
        let one = scenario("apache-1.3", &[], surge(), Who::Users(20), mode);
        text += &line(mode.name(), &outcome(&one));
    }
    for server in [
        "iis-4.0",
        "apache-1.1",
        "phttpd",
        "java-server",
        "zeus",
        "enterprise",
        "jaws",
    ] {
        let list = Workload::Webstone(List::Standard);
        let one = scenario(server, &[], list, Who::Clients(6), Mode::Http10);
        text += &line(server, &outcome(&one));
    }
    assert_eq!(
        text,
        include_str!("../../data/golden.txt"),
        "replace data/golden.txt if TCP, the server's responses or parameters changed on purpose:\n{text}"
    );
}

#[test]
fn each_bottleneck_binds() {
    let clients = |changes: &[(&str, f64)], number| {
        let list = Workload::Webstone(List::Standard);
        outcome(&scenario(
            "apache-1.1",
            changes,
            list,
            Who::Clients(number),
            Mode::Http10,
        ))
    };
    let usual = clients(&[], 12);
    let alone = clients(&[("processors", 1.0)], 12);
    assert!(alone.idle() < 0.05, "{}", alone.idle());
    assert!(alone.files_per_s() < 0.8 * usual.files_per_s());
    // Memory for processes and almost none for files: each request waits for the disk.
    let little = clients(&[("memory_mb", 33.0)], 12);
    assert!(little.disk.1 > Duration::from_millis(4_500), "{:?}", little.disk);
    assert!(little.files_per_s() < 0.5 * usual.files_per_s());
    let locked = clients(&[("locks", 400.0)], 12);
    assert!(locked.share(Task::Synchronization) > 0.05);
    assert!(locked.files_per_s() < usual.files_per_s());
    let slow = clients(&[("client_processors", 0.25)], 12);
    assert!(slow.files_per_s() < 0.8 * usual.files_per_s());
    let dear = clients(&[("switch_process_us", 3_000.0)], 12);
    assert!(dear.share(Task::ContextSwitching) > usual.share(Task::ContextSwitching));
}

/// A window falls to one segment after a pause that is longer than the timeout.
#[test]
fn a_longer_timeout_keeps_windows_over_more_pauses() {
    let window = |changes: &[(&str, f64)]| {
        let users = scenario("apache-1.3", changes, surge(), Who::Users(20), Mode::Serial);
        outcome(&users).window_mean()
    };
    let usual = window(&[]);
    assert!(window(&[("rto_min_ms", 3_000.0)]) > usual);
    assert_eq!(window(&[("rto_min_ms", 200.0)]), usual, "the stack's own");
}

#[test]
fn a_pool_bounds_connections_served_at_once() {
    let clients = |threads| {
        let list = Workload::Webstone(List::Standard);
        let changes = [("workers", threads)];
        outcome(&scenario("jaws", &changes, list, Who::Clients(12), Mode::Http10))
    };
    let (one, many) = (clients(1.0), clients(12.0));
    assert_eq!(many.counts.backlog_max, 0);
    assert!(one.counts.backlog_max >= 8, "{}", one.counts.backlog_max);
    assert!(
        one.idle() > 0.45,
        "one thread uses one of two processors: {}",
        one.idle()
    );
}
