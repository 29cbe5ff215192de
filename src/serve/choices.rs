//! Files to which choices of upstreams are recorded (`balance-record` in `[[proxy]]`): which there are, and who may write them.
//! What is in them, only the server knows.

use crate::failure::Failure;
use server::config::Config;
use std::path::Path;

/// The files of a configuration.
pub(super) fn all(config: &Config) -> impl Iterator<Item = &Path> {
    config.proxies().filter_map(|rule| rule.balance_record.as_deref())
}

/// The same configuration without records, which a server creates when it opens them.
pub(super) fn without(mut config: Config) -> Config {
    let own = config.host.iter_mut().filter_map(|host| host.proxy.as_mut());
    for rule in config.proxy.iter_mut().chain(own.flatten()) {
        rule.balance_record = None;
    }
    config
}

/// Refuses a record of worker processes, each of which would record choices of its own.
///
/// # Errors
/// `Usage`, naming the file.
pub(super) fn refuse_processes(config: &Config) -> Result<(), Failure> {
    match all(config).next() {
        None => Ok(()),
        Some(file) => Err(Failure::Usage(format!(
            "worker processes cannot share the record `{}`, because each chooses upstreams by itself; use --concurrency \
             loops, or remove `balance-record` from [[proxy]]",
            file.display()
        ))),
    }
}
