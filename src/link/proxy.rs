//! `weir link --proxy`: where no link can be made, bytes of TCP delayed and paced, and said to be no more than that.

use super::{ended, observer, refused, report};
use crate::cli::Failure;
use crate::cli::link::Flags;
use runtime::ferry::proxy::{Proxy, impossible};
use runtime::ferry::{Commands, FarReady, Plan};
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;

/// Runs until the command has ended, or without one until it is told to end.
pub(super) fn run(pair: &str, plan: &Plan, flags: &Flags) -> Result<ExitCode, Failure> {
    let (listen, target) = pair.split_once('=').ok_or_else(|| {
        Failure::Usage(format!(
            "--proxy {pair}: write LISTEN=TARGET, as in 127.0.0.1:8081=127.0.0.1:8080"
        ))
    })?;
    let keys = impossible(&plan.profile, &plan.hosts);
    if !keys.is_empty() {
        return Err(Failure::Usage(format!(
            "a proxy sees bytes, not packets, and cannot imitate {}: leave that out, or run a link without --proxy \
             (weir lab doctor says what it needs)",
            keys.join(", ")
        )));
    }
    // The first is where to listen, all of the second are tried.
    let listen = addresses(listen)?;
    let proxy = Proxy::open(listen[0], addresses(target)?).map_err(refused)?;
    let address = proxy
        .address()
        .map_err(|error| Failure::System(format!("asking for the address: {error}")))?;
    tracing::warn!(
        "{} as a proxy on {address}, not packet level: bytes are delayed and paced; no loss, no slow start, no TCP of \
         the link",
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
    ended(outcome.code, &trouble)
}

/// At least one address.
fn addresses(text: &str) -> Result<Vec<SocketAddr>, Failure> {
    let found = text.to_socket_addrs().map(Iterator::collect::<Vec<_>>);
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(Failure::Usage(format!("--proxy: {text} has no address"))),
        Err(error) => Err(Failure::Usage(format!(
            "--proxy: {text} is no address with a port: {error}"
        ))),
    }
}
