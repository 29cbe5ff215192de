//! `--stack`: the modeled TCP of both hosts, and what it excludes.

use crate::cli::link::{Flags, Hosts};
use crate::failure::Failure;
use netem::{HostSettings, Settings, UdpSettings};
use netsim::BridgeHost;
use tcp::{PRESETS, Stack};

/// The stacks of the near and the far host; `None` without `--stack`.
///
/// # Errors
/// An unknown stack, a setting that it does not have, or settings of the kernel's TCP, which would not be on the link.
pub(super) fn read(
    flags: &Flags,
    kernel: &HostSettings,
    udp: &UdpSettings,
) -> Result<Option<[BridgeHost; 2]>, Failure> {
    let Some(names) = &flags.stack else {
        return Ok(None);
    };
    let keys = given(kernel);
    if !keys.is_empty() {
        return Err(Failure::Usage(format!(
            "--stack replaces the kernel's TCP on the link, which {} would configure: leave that out (the MSS follows \
             the stack and the link's mtu), or run without --stack",
            keys.join(", ")
        )));
    }
    if *udp != UdpSettings::default() {
        return Err(Failure::Usage(
            "UDP does not cross the modeled TCP of --stack: leave rebind, udp-flows and udp-idle out, or run without --stack"
                .to_owned(),
        ));
    }
    if names.split(',').count() > 2 {
        return Err(Failure::Usage(format!(
            "--stack {names}: write at most two stacks, the near host's and the far host's"
        )));
    }
    let (near, far) = names.split_once(',').unwrap_or((names, names));
    let no_delay = |host| matches!(flags.stack_nodelay, Some(hosts) if hosts == host || hosts == Hosts::Both);
    let [for_near, for_far] = changes(&flags.stack_set)?;
    Ok(Some([
        host(near, &for_near, no_delay(Hosts::Near))?,
        host(far, &for_far, no_delay(Hosts::Far))?,
    ]))
}

/// What stands in the place of the kernel's settings, which are not on the link: `stack`, the preset's name, and
/// `nodelay`, 1 if Nagle's algorithm was switched off by a flag.
pub(super) fn settings(hosts: &[BridgeHost; 2]) -> [Settings; 2] {
    hosts.each_ref().map(|host| {
        Settings::from([
            ("nodelay".to_owned(), u8::from(host.no_delay).to_string()),
            ("stack".to_owned(), host.stack.name.clone()),
        ])
    })
}

/// The stack of a host, with its changes.
fn host(name: &str, changes: &[(&str, &str)], no_delay: bool) -> Result<BridgeHost, Failure> {
    let name = name.trim();
    if !PRESETS.contains(&name) {
        return Err(Failure::Usage(format!(
            "--stack: {}",
            units::words::unknown(name, PRESETS)
        )));
    }
    let stack =
        Stack::altered(name, changes).map_err(|error| Failure::Usage(format!("--stack-set: {error}")))?;
    Ok(BridgeHost { stack, no_delay })
}

/// The key and the value of each change, for the near and the far host: `far.KEY=VALUE`, or `KEY=VALUE` for both.
fn changes(words: &[String]) -> Result<[Vec<(&str, &str)>; 2], Failure> {
    let mut both = [Vec::new(), Vec::new()];
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            return Err(Failure::Usage(format!(
                "--stack-set {word}: write KEY=VALUE, as far.rto_min_ms=1000"
            )));
        };
        let hosts: &[usize] = match key.split_once('.') {
            None => &[0, 1],
            Some(("near", _)) => &[0],
            Some(("far", _)) => &[1],
            Some((host, _)) => {
                return Err(Failure::Usage(format!(
                    "--stack-set {word}: `{host}` is not a host; write near or far"
                )));
            }
        };
        let key = key.split_once('.').map_or(key, |(_, key)| key);
        for host in hosts {
            both[*host].push((key, value));
        }
    }
    Ok(both)
}

/// The keys that were set.
fn given(hosts: &HostSettings) -> Vec<&'static str> {
    [
        ("mss", hosts.mss.is_some()),
        ("initcwnd", hosts.initcwnd.is_some()),
        ("congestion", hosts.congestion.is_some()),
        ("idle-restart", hosts.idle_restart.is_some()),
        ("aged", hosts.aged),
    ]
    .into_iter()
    .filter_map(|(key, is_given)| is_given.then_some(key))
    .collect()
}
