//! `weir link`: a command behind an emulated link. Reads the link from words and flags, has `runtime` set it up,
//! records packets and counters, and exits with the command's exit code.

mod calibrate;
mod list;
mod proxy;
mod record;
mod stack;
mod words;

use crate::cli::link::{Backend, FarReady, Flags};
use crate::failure::Failure;
use crate::voice::Voice;
use netem::{Commands, Fault, LATE, Link, Observer, Plan, Tally, UdpTally};
use std::ffi::OsString;
use std::process::ExitCode;
use units::{Duration, Seed};

/// Runs the command.
///
/// # Errors
/// `Usage` for an invalid link or command, `System` if the kernel refuses something, `Invalid` for an inexact
/// calibration.
pub(crate) fn run(flags: &Flags, voice: &Voice) -> Result<ExitCode, Failure> {
    voice.listen();
    let is_list = flags.link.as_deref() == Some("list") && flags.command.is_empty();
    if flags.list || is_list {
        return list::print(voice).map(|()| ExitCode::SUCCESS);
    }
    let plan = plan(flags)?;
    if flags.calibrate {
        return calibrate::run(&plan, flags, voice).map(|()| ExitCode::SUCCESS);
    }
    if flags.link.is_none() && flags.words.given().is_empty() && flags.up.is_empty() && flags.down.is_empty()
    {
        return Err(Failure::Usage(
            "no link given: name a preset (weir link --list) or keys such as 'rate=1.5M rtt=90ms'".to_owned(),
        ));
    }
    if let Some(pair) = &flags.proxy {
        return proxy::run(pair, &plan, flags);
    }
    if flags.command.is_empty() {
        return Err(Failure::Usage(
            "no command given: write it after two dashes, as in weir link ppp -- curl http://198.18.0.1:8080/"
                .to_owned(),
        ));
    }
    let advice = "--proxy LISTEN=TARGET delays and paces bytes, but emulates no packets";
    behind(flags, &plan, advice)?.ended()
}

/// A command that ran behind a link.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Its exit code.
    pub(crate) code: u8,
    /// Why the recording is incomplete, if it is.
    pub(crate) incomplete: Option<String>,
}

impl Ran {
    fn new(code: u8, trouble: &record::Trouble) -> Ran {
        let incomplete = trouble.take();
        Ran { code, incomplete }
    }

    /// Whether all that was to be recorded is there.
    ///
    /// # Errors
    /// `System` if the recording is incomplete, unless the command has failed, too.
    pub(crate) fn recorded(&self) -> Result<(), Failure> {
        match &self.incomplete {
            Some(why) if self.code == 0 => Err(Failure::System(why.clone())),
            _ => Ok(()),
        }
    }

    fn ended(&self) -> Result<ExitCode, Failure> {
        self.recorded()?;
        Ok(ExitCode::from(self.code))
    }
}

/// Runs the command of the flags behind the link. `advice` says what to do where links are impossible.
///
/// # Errors
/// As [`run`]. An incomplete recording is no error.
pub(crate) fn behind(flags: &Flags, plan: &Plan, advice: &str) -> Result<Ran, Failure> {
    let (observer, trouble) = observer(flags)?;
    let link = Link::make(plan).map_err(|fault| match refused(fault) {
        Failure::System(why) => Failure::System(format!("{why}; where links are impossible, {advice}")),
        other => other,
    })?;
    for reason in link.reasons() {
        tracing::debug!("{reason}");
    }
    tracing::debug!("{} over {}", plan.profile.name, link.backend());
    let gateway = netem::GATEWAY.to_string();
    let commands = Commands {
        near: flags.command.clone(),
        far: flags
            .far
            .as_ref()
            .map(|line| [OsString::from("sh"), OsString::from("-c"), OsString::from(line)].into()),
        far_ready: match flags.far_ready {
            FarReady::Any => netem::FarReady::Anybody,
            FarReady::Port(port) => netem::FarReady::Port(port),
            FarReady::No => netem::FarReady::AtOnce,
        },
        environment: vec![
            ("WEIR_LINK_GATEWAY".to_owned(), gateway),
            ("WEIR_LINK".to_owned(), plan.profile.name.clone()),
        ],
    };
    let outcome = link.run(plan, &commands, observer).map_err(refused)?;
    report(&outcome.tally, outcome.took);
    if let Some(path) = &flags.settings {
        let settings = plan.tcp.as_ref().map_or(outcome.settings, stack::settings);
        keep(path, &settings)?;
    }
    Ok(Ran::new(outcome.code, &trouble))
}

/// Writes the TCP settings of the near and the far end as one JSON object.
#[allow(clippy::disallowed_methods, reason = "a command writes the file it is given")]
fn keep(path: &std::path::Path, [near, far]: &[netem::Settings; 2]) -> Result<(), Failure> {
    let text = serde_json::json!({ "near": near, "far": far }).to_string() + "\n";
    std::fs::write(path, text)
        .map_err(|error| Failure::System(format!("cannot write {}: {error}", path.display())))
}

/// The link from words and flags; flags override words.
///
/// # Errors
/// `Usage` for an invalid link.
pub(crate) fn plan(flags: &Flags) -> Result<Plan, Failure> {
    let limits = link::Limits::default();
    let (profile, beside) = words::read(flags, &limits)?;
    let words::Beside { hosts, udp } = beside;
    let tcp = stack::read(flags, &hosts, &udp)?;
    Ok(Plan {
        profile,
        seed: Seed(flags.seed),
        limits,
        hosts,
        udp,
        tcp,
        backend: flags.backend.map(|backend| match backend {
            Backend::Veth => netem::Backend::Veth,
            Backend::Tun => netem::Backend::Tun,
        }),
    })
}

fn observer(flags: &Flags) -> Result<(Option<Observer>, record::Trouble), Failure> {
    let trouble = record::Trouble::default();
    if flags.pcap.is_none() && flags.log.is_none() {
        return Ok((None, trouble));
    }
    let is_packets = flags.proxy.is_none();
    let mut record = record::Record::open(
        flags.pcap.as_deref(),
        flags.log.as_deref(),
        is_packets,
        trouble.clone(),
    )?;
    let observer = Observer {
        frames: flags.pcap.is_some(),
        every: Duration::from_millis(flags.log_every),
        tell: Box::new(move |notice| record.take(notice)),
    };
    Ok((Some(observer), trouble))
}

fn refused(fault: Fault) -> Failure {
    match fault {
        Fault::Command { .. } | Fault::Host { .. } => Failure::Usage(fault.to_string()),
        Fault::Refused { .. } => Failure::System(fault.to_string()),
        Fault::Far { .. } => Failure::Invalid(fault.to_string()),
    }
}

/// Logs the counters at debug level, and warns of everything that falsifies the run.
fn report(tally: &Tally, took: Duration) {
    for (way, name) in ["up", "down"].iter().enumerate() {
        let counters = &tally.ways[way];
        tracing::debug!(
            "{name}: {} packets, {} bytes in; {} packets, {} bytes out; dropped: {} random losses, {} queue full, {} aged, {} \
             too large, {} superseded, {} over a limit; {} still in the link",
            counters.entered,
            tally.bytes_in[way],
            counters.left,
            tally.bytes_out[way],
            counters.dropped.loss,
            counters.dropped.full,
            counters.dropped.aged,
            counters.dropped.too_large,
            counters.dropped.superseded,
            counters.dropped.limit,
            counters.waiting,
        );
    }
    let left = tally.ways[0].left + tally.ways[1].left;
    tracing::debug!(
        "after {:.3} s; {} of {left} packets left more than {} ms after they were due, the latest {:.3} ms",
        took.as_secs_f64(),
        tally.late,
        LATE.as_millis(),
        tally.late_max.as_secs_f64() * 1e3
    );
    if is_too_late(tally) {
        tracing::warn!(
            "{} of {left} packets left more than {} ms after they were due, the latest {:.0} ms, because the machine was too \
             busy: this run did not see the link as described",
            tally.late,
            LATE.as_millis(),
            tally.late_max.as_secs_f64() * 1e3
        );
    }
    if tally.overflowed + tally.refused > 0 {
        tracing::warn!(
            "{} packets were lost before the link and {} after it, because the machine was too busy: this run did not \
             see the link as described",
            tally.overflowed,
            tally.refused
        );
    }
    report_udp(&tally.udp);
    if tally.untold > 0 {
        tracing::warn!(
            "{} packets or counters are missing in the recording: the disk was too slow",
            tally.untold
        );
    }
}

/// Logs the counters of the UDP relay at debug level, if there was UDP, and warns of everything that no NAT would do.
fn report_udp(udp: &UdpTally) {
    if *udp == UdpTally::default() {
        return;
    }
    tracing::debug!(
        "UDP: {} flows, {} replaced; {} source ports changed; {} ICMP errors to the command; {} answers longer than the MTU \
         dropped; {} datagrams that the system did not send",
        udp.opened,
        udp.evicted,
        udp.rebound,
        udp.unreachable,
        udp.too_large,
        udp.unsent,
    );
    let for_flows = udp.evicted.saturating_sub(udp.evicted_for_descriptors);
    if for_flows > 0 {
        tracing::warn!(
            "{for_flows} UDP flows were replaced by newer ones, so later answers to them were lost: as many were open as \
             udp-flows allows; raise it"
        );
    }
    if udp.evicted_for_descriptors > 0 {
        tracing::warn!(
            "{} UDP flows were replaced by newer ones, so later answers to them were lost: this process may not open more \
             files; raise the limit (ulimit -n)",
            udp.evicted_for_descriptors
        );
    }
    if udp.fragments > 0 {
        tracing::warn!(
            "{} fragments of UDP datagrams were dropped: a link relays only datagrams that fit into its MTU; raise mtu, or \
             send shorter ones",
            udp.fragments
        );
    }
    if udp.overflowed > 0 {
        tracing::warn!(
            "{} UDP datagrams were lost at the far end, because they came faster than they could be relayed: this run did \
             not see the link as described",
            udp.overflowed
        );
    }
}

/// Largest lateness of a single packet without a warning: a tenth of what people notice.
const LATEST: Duration = Duration::from_millis(20);

/// Whether late packets falsify the measurement: more than one in a hundred, or a single one late enough to show.
fn is_too_late(tally: &Tally) -> bool {
    let left = tally.ways[0].left + tally.ways[1].left;
    tally.late * 100 > left || tally.late_max >= LATEST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_hundred_or_one_by_much_is_too_late() {
        let tally = |late, late_max| {
            let mut tally = Tally {
                late,
                late_max: Duration::from_millis(late_max),
                ..Tally::default()
            };
            tally.ways[1].left = 1_000;
            tally
        };
        for (late, late_max, want) in [(0, 0, false), (10, 3, false), (11, 3, true), (1, 20, true)] {
            assert_eq!(
                is_too_late(&tally(late, late_max)),
                want,
                "{late} by {late_max} ms"
            );
        }
    }
}
