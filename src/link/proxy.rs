//! `weir link --proxy`: delays and paces TCP bytes where no link can be set up, and says that it emulates no packets.

use super::{Ran, observer, refused, report};
use crate::cli::link::Flags;
use crate::failure::Failure;
use netem::proxy::{Proxy, impossible};
use netem::{Commands, FarReady, Plan, UdpSettings};
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;

/// Runs until the command ends; without a command, until a signal.
pub(super) fn run(pair: &str, plan: &Plan, flags: &Flags) -> Result<ExitCode, Failure> {
    let (listen, target) = pair.split_once('=').ok_or_else(|| {
        Failure::Usage(format!(
            "--proxy {pair}: write LISTEN=TARGET, as in 127.0.0.1:8081=127.0.0.1:8080"
        ))
    })?;
    let keys = impossible(&plan.profile, &plan.hosts);
    if !keys.is_empty() {
        return Err(Failure::Usage(format!(
            "a proxy sees bytes, not packets, and cannot emulate {}: leave that out, or run a link without --proxy \
             (weir lab doctor shows its requirements)",
            keys.join(", ")
        )));
    }
    if plan.udp != UdpSettings::default() {
        return Err(Failure::Usage(
            "a proxy carries TCP only: leave rebind, udp-flows and udp-idle out, or run a link without --proxy".to_owned(),
        ));
    }
    // Listens on the first address, and tries all addresses of the target.
    let listen = addresses(listen)?;
    let proxy = Proxy::open(listen[0], addresses(target)?).map_err(refused)?;
    let address = proxy
        .address()
        .map_err(|error| Failure::System(format!("cannot read the proxy's address: {error}")))?;
    tracing::warn!(
        "{} as a proxy on {address}: not at packet level; delays and paces bytes without loss, slow start or the link's \
         TCP",
        plan.profile.name
    );
    let commands = Commands {
        near: flags.command.clone(),
        far: None,
        far_ready: FarReady::AtOnce,
        environment: vec![
            ("WEIR_LINK_PROXY".to_owned(), address.to_string()),
            ("WEIR_LINK".to_owned(), format!("{} (proxy)", plan.profile.name)),
        ],
    };
    let (observer, trouble) = observer(flags)?;
    let outcome = proxy.run(plan, &commands, observer).map_err(refused)?;
    tracing::debug!("pieces of a proxy, not packets:");
    report(&outcome.tally, outcome.took);
    Ran::new(outcome.code, &trouble).ended()
}

/// The addresses that a name resolves to, at least one.
fn addresses(text: &str) -> Result<Vec<SocketAddr>, Failure> {
    let found = text.to_socket_addrs().map(Iterator::collect::<Vec<_>>);
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(Failure::Usage(format!("--proxy: {text} has no address"))),
        Err(error) => Err(Failure::Usage(format!(
            "--proxy: {text} is not an address with a port: {error}"
        ))),
    }
}
