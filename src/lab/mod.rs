//! `weir lab`: features of this machine, simulations of documents 000 to 003, the kernel's congestion windows, a
//! slowed processor. Probes features and lets [`doctor`] judge them; `repro` simulates and decides which results are
//! explained.

mod content;
mod doctor;
mod heidemann;
mod hosts;
mod leave_one_out;
mod occupy;
mod since;
mod w3c;
mod windows;

use crate::cli::lab::Command;
use crate::failure::Failure;
use crate::output::print;
use crate::voice::Voice;
use doctor::{Facts, Finding};
use std::io;
use std::process::{Command as Process, Stdio};

/// Runs the command.
///
/// # Errors
/// `System` if the report cannot be written.
pub(crate) fn run(what: &Command, voice: &Voice) -> Result<(), Failure> {
    voice.listen();
    match what {
        Command::Doctor => {
            let findings = doctor::judge(&gather());
            print(&if voice.json {
                json(&findings)
            } else {
                table(&findings)
            })
        }
        Command::W3c(flags) => w3c::run(flags, voice),
        Command::Heidemann(flags) => heidemann::run(flags, voice),
        Command::LeaveOneOut(flags) => leave_one_out::run(flags, voice),
        Command::Hosts(flags) => hosts::run(flags, voice),
        Command::Since(flags) => since::run(flags, voice),
        Command::Content => content::run(voice),
        Command::Windows(flags) => windows::run(flags, voice),
        Command::Occupy(flags) => occupy::run(flags, voice),
    }
}

fn gather() -> Facts {
    use runtime::ability;
    let read = |path: &str| {
        std::fs::read_to_string(path)
            .ok()
            .map(|text| text.trim().to_owned())
    };
    let said = |tried: io::Result<()>| tried.map_err(|error| error.to_string());
    Facts {
        // First, because it forks this process, which must be single-threaded then.
        user_namespace: said(ability::user_and_network_namespace()),
        veth: link("veth"),
        tun: ability::tun_device()
            .map_err(|error| error.to_string())
            .and_then(|()| link("tun")),
        io_uring: runtime::strategy::try_uring().map_err(|refusal| refusal.to_string()),
        capture: said(ability::capture()),
        landlock: ability::landlock().map_err(|error| error.to_string()),
        descriptors: ability::descriptors(),
        max_user_namespaces: read("/proc/sys/user/max_user_namespaces"),
        unprivileged_clone: read("/proc/sys/kernel/unprivileged_userns_clone"),
        apparmor: read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
        controllers_v1: read("/proc/cgroups"),
        controllers_v2: read("/sys/fs/cgroup/cgroup.controllers")
            .or_else(|| read("/sys/fs/cgroup/unified/cgroup.controllers")),
        own_groups: read("/proc/self/cgroup"),
        perf_paranoid: read("/proc/sys/kernel/perf_event_paranoid"),
        tracepoints: profiler::finds_tracepoints(),
        ptrace_scope: read("/proc/sys/kernel/yama/ptrace_scope"),
        congestion_available: read("/proc/sys/net/ipv4/tcp_available_congestion_control"),
        congestion_allowed: read("/proc/sys/net/ipv4/tcp_allowed_congestion_control"),
        congestion_default: read("/proc/sys/net/ipv4/tcp_congestion_control"),
        protocols_above: read("/proc/sys/net/ipv4/tcp_available_ulp"),
        is_root: runtime::process::privilege::current().0 == 0,
    }
}

/// Sets up a link with this back end and runs this program behind it.
fn link(backend: &str) -> Result<(), String> {
    let me = "/proc/self/exe";
    let output = Process::new(me)
        .args([
            "link",
            "rate=none",
            "--backend",
            backend,
            "-q",
            "--",
            me,
            "--version",
        ])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let why = text.lines().last().unwrap_or("it ended without a message");
    Err(why.trim_start_matches("error: ").to_owned())
}

fn table(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        text += &format!(
            "{:<5} {:<22} {}\n",
            finding.state.word(),
            finding.what,
            finding.found
        );
        if let Some(remedy) = &finding.remedy {
            text += &format!("{:<29}-> {remedy}\n", "");
        }
    }
    text
}

fn json(findings: &[Finding]) -> String {
    let line = serde_json::json!({
        "version": 1,
        "findings": findings.iter().map(|finding| serde_json::json!({
            "what": finding.what,
            "state": finding.state.word(),
            "found": finding.found,
            "remedy": finding.remedy,
        })).collect::<Vec<_>>(),
    });
    format!("{line}\n")
}
