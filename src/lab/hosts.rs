//! `weir lab hosts`: one server of documents 000 or 002 on its simulated host, under users or clients, as text or JSON
//! lines. `hosts` simulates; the server's sessions are those of `weir serve`.

use crate::cli::lab::HostsFlags;
use crate::failure::Failure;
use crate::output::print;
use crate::voice::Voice;
use client::plan::Mode;
use hosts::Task;
use hosts::parameters::{self, Parameter, ServerKind, Values};
use hosts::world::{Outcome, Scenario, Who, Workload, run as simulate};
use load::parameters::{Parameters, Set};
use load::surge::Surge;
use load::webstone::Metrics;
use serde_json::{Value, json};
use server::Server;
use server::config::{Config, Http2};
use server::site::Source;
use std::fmt::Write;
use std::sync::Arc;
use units::{Duration, Seed, UnixTime};

/// Seed of the Surge site: one site for all simulations.
const SITE: Seed = Seed(1);
/// KeepAliveTimeout and IIS's connection timeout (document 000, Tables 9 and 10).
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Runs the command.
///
/// # Errors
/// `Usage` for an unknown server or parameter, `System` if the report cannot be written.
pub(super) fn run(flags: &HostsFlags, voice: &Voice) -> Result<(), Failure> {
    print(&report(flags, voice.json)?)
}

fn report(flags: &HostsFlags, is_json: bool) -> Result<String, Failure> {
    let Some(name) = &flags.server else {
        return Ok(match is_json {
            true => parameters_json(),
            false => parameters_text(),
        });
    };
    let kind = parameters::servers().iter().find(|kind| kind.name == *name);
    let kind = kind.ok_or_else(|| {
        let names: Vec<&str> = parameters::servers()
            .iter()
            .map(|kind| kind.name.as_str())
            .collect();
        Failure::Usage(format!("--server: {}", units::words::unknown(name, &names)))
    })?;
    let scenario = scenario(flags, kind)?;
    let service = service(&scenario.workload)?;
    let outcome = simulate(&scenario, service).map_err(Failure::Usage)?;
    if outcome.record.errors() > 0 {
        return Err(Failure::System(format!(
            "the simulation has errors: {:?}",
            outcome.record.troubles
        )));
    }
    Ok(match is_json {
        true => format!("{}\n", line(&scenario, &outcome)),
        false => text(&scenario, &outcome),
    })
}

fn scenario(flags: &HostsFlags, kind: &'static ServerKind) -> Result<Scenario, Failure> {
    if flags.mode == Mode::Http2 && flags.connections_per_user > 1 {
        return Err(Failure::Usage(format!(
            "--connections-per-user {}: with --mode h2, a user has one connection; leave it out",
            flags.connections_per_user
        )));
    }
    let values = Values::of(kind, &flags.set).map_err(|why| Failure::Usage(format!("--set: {why}")))?;
    let surge = || {
        let surge = Surge::new(Parameters::published(Set::Table8), SITE);
        surge
            .map(|surge| Workload::Surge(Arc::new(surge)))
            .map_err(|error| Failure::System(error.to_string()))
    };
    let (workload, who) = match (flags.users, flags.clients, flags.list) {
        (Some(users), _, _) => (surge()?, Who::Users(users)),
        (None, clients, Some(list)) => (Workload::Webstone(list), Who::Clients(clients.unwrap_or(1))),
        (None, clients, None) => (surge()?, Who::Clients(clients.unwrap_or(1))),
    };
    Ok(Scenario {
        server: kind,
        values,
        workload,
        who,
        mode: flags.mode,
        lanes: flags.connections_per_user,
        warmup: flags.warmup,
        duration: flags.duration,
        seed: Seed(flags.seed),
    })
}

/// This program's server with files of the workload's lengths; their content does not matter.
fn service(workload: &Workload) -> Result<Server, Failure> {
    let work = workload.work();
    let lengths = || work.files.iter().map(|file| file.bytes.unwrap_or(0) as usize);
    let letters: &'static [u8] = vec![b'x'; lengths().max().unwrap_or(0)].leak();
    let files: Vec<(&'static str, &'static [u8])> = work
        .files
        .iter()
        .zip(lengths())
        .map(|(file, length)| (&*String::from(file.path.clone()).leak(), &letters[..length]))
        .collect();
    let source = Source::Embedded {
        files: files.leak(),
        modified: UnixTime::from_secs(784_111_777),
    };
    let config = Config {
        idle_timeout: KEEP_ALIVE,
        // Without TLS, too.
        http2: Http2::All,
        ..Config::default()
    };
    Server::open(config, source, None, SITE)
        .map_err(|error| Failure::System(format!("the simulated server: {error}")))
}

/// The result as JSON.
fn line(scenario: &Scenario, outcome: &Outcome) -> Value {
    let record = &outcome.record;
    let seconds = outcome.duration.as_secs_f64();
    let (up, down) = (&outcome.sent[0], &outcome.sent[1]);
    let both = up.and(down);
    let busy = 100.0 * (1.0 - outcome.idle());
    let user = outcome.share(Task::HttpProcessing);
    let standing = record.standing.as_secs_f64();
    let webstone = (scenario.mode == Mode::Http10).then(|| Metrics::new(&record.in_time, outcome.duration));
    json!({
        "event": "host", "server": scenario.server.name, "mode": scenario.mode.name(), "duration_s": seconds,
        "files_per_s": outcome.files_per_s(), "response_ms": record.response.summary().mean,
        "files": record.files, "objects": record.objects, "connections": record.connections,
        "table6": {
            "total_connects": record.established, "average_established": standing / seconds,
            "average_duration_s": standing / record.established.max(1) as f64, "connect_seconds": standing,
        },
        "webstone": webstone,
        "kinds": { "data": both.data, "ack": both.acks, "syn": both.syns, "fin": both.fins },
        "packets": both.packets, "payload_bytes": both.payload, "bytes_with_headers": both.bytes,
        "packets_up_per_s": up.packets as f64 / seconds, "packets_down_per_s": down.packets as f64 / seconds,
        "bytes_up_per_s": up.bytes as f64 / seconds, "bytes_down_per_s": down.bytes as f64 / seconds,
        "cwnd_mean": outcome.window_mean(), "cwnd_max": outcome.window_max, "cwnd_up_to": outcome.windows_up_to(),
        "user_pct": busy * user, "kernel_pct": busy * (1.0 - user), "idle_pct": 100.0 * outcome.idle(),
        "tasks": Task::ALL.map(|task| json!([task.name(), 100.0 * outcome.share(task)])),
        "tasks_of_wall_clock": Task::ALL.map(|task| {
            let unused = if task == Task::ContextSwitching { outcome.idle() } else { 0.0 };
            json!([task.name(), busy * outcome.share(task) + 100.0 * unused])
        }),
        "switches": outcome.switches, "disk_reads_per_s": outcome.disk.0 as f64 / seconds,
        "disk_busy_pct": 100.0 * outcome.disk.1.as_secs_f64() / seconds,
        "memory_connections_mib": outcome.memory.0 as f64 / 1_048_576.0,
        "memory_files_mib": outcome.memory.1 as f64 / 1_048_576.0,
        "requests": outcome.counts.requests, "misses": outcome.counts.misses,
        "made": outcome.counts.made, "backlog_max": outcome.counts.backlog_max,
    })
}

/// The result as text.
fn text(scenario: &Scenario, outcome: &Outcome) -> String {
    let record = &outcome.record;
    let both = outcome.sent[0].and(&outcome.sent[1]);
    let mut text = format!(
        "{} on {}, {}, {} s\n",
        scenario.server.title,
        scenario.server.host,
        scenario.mode.name(),
        outcome.duration.as_secs()
    );
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<24} {value}");
    };
    row("files a second", format!("{:.1}", outcome.files_per_s()));
    row(
        "mean response time",
        format!("{:.1} ms", record.response.summary().mean),
    );
    row("connections", record.established.to_string());
    row("packets", both.packets.to_string());
    row("processors idle", format!("{:.1} %", 100.0 * outcome.idle()));
    let reads = outcome.disk.0 as f64 / outcome.duration.as_secs_f64();
    row("disk reads a second", format!("{reads:.1}"));
    for task in Task::ALL {
        row(
            task.name(),
            format!("{:.1} % of the used processor time", 100.0 * outcome.share(task)),
        );
    }
    text
}

/// All kinds of hosts and servers: event, name, title and parameters.
fn kinds() -> impl Iterator<Item = (&'static str, &'static str, &'static str, &'static [Parameter])> {
    let hosts = parameters::hosts().iter();
    let hosts = hosts.map(|kind| ("host", &*kind.name, &*kind.title, &*kind.parameters));
    let servers = parameters::servers().iter();
    hosts.chain(servers.map(|kind| ("server", &*kind.name, &*kind.title, &*kind.parameters)))
}

fn parameters_json() -> String {
    let mut text = String::new();
    for (of, name, title, all) in kinds() {
        for one in all {
            let value = json!({
                "event": "parameter", "of": of, "name": name, "title": title, "parameter": one.name,
                "value": one.value, "basis": one.basis.name(), "source": one.source,
            });
            let _ = writeln!(text, "{value}");
        }
    }
    text
}

fn parameters_text() -> String {
    let mut text = "Parameters of the simulated hosts and servers\n".to_owned();
    for (of, name, title, all) in kinds() {
        let _ = writeln!(text, "\n{of} {name}: {title}");
        for one in all {
            let _ = writeln!(
                text,
                "  {:<18} {:>8}  {} ({})",
                one.name,
                one.value,
                one.basis.name(),
                one.source
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::lab::Command;
    use clap::Parser;

    /// The command alone.
    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: Command,
    }

    fn said(words: &str) -> Result<Value, Failure> {
        let line = Line::try_parse_from(["lab", "hosts"].into_iter().chain(words.split(' ')));
        match line.expect("flags").command {
            Command::Hosts(flags) => {
                let text = report(&flags, true)?;
                Ok(serde_json::from_str(&text).expect("a line of JSON"))
            }
            _ => panic!("another command"),
        }
    }

    /// Users of HTTP/2 keep one connection each, and get the files that users of HTTP/1.1 get.
    #[test]
    fn users_of_http_2_keep_one_connection_each() {
        let ten = |mode: &str| {
            let words = format!(
                "--server apache-1.3 --users 10 --warmup 2s --duration 5s --set memory_mb=64 --mode {mode}"
            );
            said(&words).expect("a simulation")
        };
        let [h1, h2] = ["pipelined", "h2"].map(ten);
        let number = |of: &Value, name: &str| of[name].as_f64().expect("a number");
        assert!(number(&h2, "files") > 20.0, "{h2}");
        // The end of the run cuts off different users.
        let ratio = number(&h2, "files") / number(&h1, "files");
        assert!((0.8..1.25).contains(&ratio), "{ratio}: {h1} {h2}");
        // Some begin during the warm-up, and each stays connected.
        let connections = h2["connections"].as_u64().expect("a number");
        let standing = h2["table6"]["average_established"].as_f64().expect("a number");
        assert!(connections <= 10 && (5.0..=10.0).contains(&standing), "{h2}");
        assert_eq!(h2["mode"], "h2");
        let refused =
            said("--server apache-1.3 --mode h2 --connections-per-user 2").expect_err("one connection");
        assert!(matches!(refused, Failure::Usage(why) if why.contains("one connection; leave it out")));
    }
}
