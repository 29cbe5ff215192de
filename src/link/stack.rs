//! `--stack`: the modeled TCP of both hosts, and what it excludes.

use crate::cli::link::{Flags, Hosts};
use crate::failure::Failure;
use netem::{HostSettings, Settings, UdpSettings};
use netsim::BridgeHost;
use tcp::{PRESETS, Stack};

/// The stacks of the near and the far host; `None` without `--stack`.
///
/// # Errors
/// An unknown stack, or settings of the kernel's TCP, which would not be on the link.
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
    let (near, far) = names.split_once(',').unwrap_or((names, names));
    let no_delay = |host| matches!(flags.stack_nodelay, Some(hosts) if hosts == host || hosts == Hosts::Both);
    Ok(Some([
        host(near, no_delay(Hosts::Near))?,
        host(far, no_delay(Hosts::Far))?,
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

fn host(name: &str, no_delay: bool) -> Result<BridgeHost, Failure> {
    let name = name.trim();
    let stack = Stack::preset(name)
        .ok_or_else(|| Failure::Usage(format!("--stack: {}", units::words::unknown(name, PRESETS))))?;
    Ok(BridgeHost { stack, no_delay })
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
