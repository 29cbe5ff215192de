//! `weir link`: a command behind an emulated link. Reads which link from words and flags, has `runtime` make it, records
//! what passes, and ends as the command ended.

mod calibrate;
mod list;
mod proxy;
mod record;
mod words;

use crate::cli::link::{Backend, FarReady, Flags};
use crate::cli::{Failure, Voice};
use measure::{Duration, Seed};
use runtime::ferry::{self, Commands, Fault, Link, Observer, Plan, Tally};
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command to its end.
///
/// # Errors
/// `Usage` for what is no link or no command, `System` for what the kernel refused, `Invalid` for a calibration that
/// is off.
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
            "which link? Name a preset (weir link --list), or write keys such as 'rate=1.5M rtt=90ms'"
                .to_owned(),
        ));
    }
    if let Some(pair) = &flags.proxy {
        return proxy::run(pair, &plan, flags);
    }
    if flags.command.is_empty() {
        return Err(Failure::Usage(
            "which command? Write it after two dashes: weir link ppp -- curl http://198.18.0.1:8080/"
                .to_owned(),
        ));
    }
    let observer = observer(flags)?;
    let link = Link::make(&plan).map_err(|fault| match refused(fault) {
        Failure::System(why) => Failure::System(format!(
            "{why}. Where no link can be made, --proxy LISTEN=TARGET delays and paces bytes, which is not the same"
        )),
        other => other,
    })?;
    for reason in link.reasons() {
        tracing::debug!("{reason}");
    }
    tracing::debug!("{} over {}", plan.profile.name, link.backend());
    let gateway = ferry::GATEWAY.to_string();
    let commands = Commands {
        near: flags.command.clone(),
        far: flags
            .far
            .as_ref()
            .map(|line| [OsString::from("sh"), OsString::from("-c"), OsString::from(line)].into()),
        far_ready: match flags.far_ready {
            FarReady::Any => ferry::FarReady::Anybody,
            FarReady::Port(port) => ferry::FarReady::Port(port),
            FarReady::No => ferry::FarReady::AtOnce,
        },
        environment: vec![
            ("WEIR_LINK_GATEWAY".to_owned(), gateway),
            ("WEIR_LINK".to_owned(), plan.profile.name.clone()),
        ],
    };
    let outcome = link.run(&plan, &commands, observer).map_err(refused)?;
    report(&outcome.tally, outcome.took);
    Ok(ExitCode::from(outcome.code))
}

/// Everything the link is, from words and flags; flags are later and win.
fn plan(flags: &Flags) -> Result<Plan, Failure> {
    let limits = link::Limits::default();
    let (profile, hosts) = words::read(flags, &limits)?;
    Ok(Plan {
        profile,
        seed: Seed(flags.seed),
        limits,
        hosts,
        backend: flags.backend.map(|backend| match backend {
            Backend::Veth => ferry::Backend::Veth,
            Backend::Tun => ferry::Backend::Tun,
        }),
    })
}

fn observer(flags: &Flags) -> Result<Option<Observer>, Failure> {
    if flags.pcap.is_none() && flags.log.is_none() {
        return Ok(None);
    }
    let is_packets = flags.proxy.is_none();
    let mut record = record::Record::open(flags.pcap.as_deref(), flags.log.as_deref(), is_packets)?;
    Ok(Some(Observer {
        frames: flags.pcap.is_some(),
        every: Duration::from_millis(flags.log_every),
        tell: Box::new(move |notice| record.take(notice)),
    }))
}

fn refused(fault: Fault) -> Failure {
    match fault {
        Fault::Command { .. } => Failure::Usage(fault.to_string()),
        Fault::Refused { .. } => Failure::System(fault.to_string()),
        Fault::Far { .. } => Failure::Invalid(fault.to_string()),
    }
}

/// The summary, for those who want to know; what makes the run untrue, for everybody.
fn report(tally: &Tally, took: Duration) {
    for (way, name) in ["up", "down"].iter().enumerate() {
        let counters = &tally.ways[way];
        tracing::debug!(
            "{name}: {} packets, {} bytes in; {} packets, {} bytes out; dropped {} by chance, {} queue full, {} aged, {} \
             too large, {} superseded, {} over a bound; {} still inside",
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
    tracing::debug!("after {:.3} s", took.as_secs_f64());
    if tally.overflowed + tally.refused > 0 {
        tracing::warn!(
            "{} packets were lost before the link and {} after it, because the machine was too busy: this run did not \
             see the link as described",
            tally.overflowed,
            tally.refused
        );
    }
    if tally.untold > 0 {
        tracing::warn!(
            "{} packets or counters are missing in what was recorded: the disk was slower",
            tally.untold
        );
    }
}
