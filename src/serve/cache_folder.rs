//! Folders of the proxy's caches on disk (`disk` in `[proxy.cache]`): which there are, and who has them. What is in them,
//! only the server knows.

use super::managed::becomes_another;
use crate::failure::Failure;
use runtime::fs::create_record_folder;
use runtime::process::privilege::{self, Account};
use server::config::Config;
use std::path::Path;

/// The folders of a configuration.
pub(super) fn all(config: &Config) -> impl Iterator<Item = &Path> {
    let caches = config.proxies().filter_map(|rule| rule.cache.as_ref());
    caches.filter_map(|cache| cache.disk.as_deref())
}

/// Creates missing folders before rights are dropped, for the user of the server. A folder that exists is left as it is: what
/// belongs to a user with fewer rights can be made to lead anywhere.
///
/// # Errors
/// `System`, naming the folder.
pub(super) fn prepare(config: &Config) -> Result<(), Failure> {
    for folder in all(config) {
        let created = create_record_folder(folder).and_then(|is_new| {
            if let Some(user) = config.user.as_ref().filter(|_| is_new && becomes_another(config))
                // A user that does not exist is reported where rights are dropped.
                && let Ok(account) = Account::find(&user.name, user.group.as_deref())
            {
                privilege::give(folder, &account)?;
            }
            Ok(())
        });
        created.map_err(|error| {
            Failure::System(format!(
                "cannot create the folder `{}` of a cache: {error}; create its parent, or name another folder with \
                 `disk` in [proxy.cache]",
                folder.display()
            ))
        })?;
    }
    Ok(())
}

/// Refuses a disk for worker processes, which cannot share it.
///
/// # Errors
/// `Usage`, naming the folder.
pub(super) fn refuse_processes(config: &Config) -> Result<(), Failure> {
    match all(config).next() {
        None => Ok(()),
        Some(folder) => Err(Failure::Usage(format!(
            "worker processes cannot share the folder `{}` of a cache; use --concurrency loops, or remove `disk` from \
             [proxy.cache]",
            folder.display()
        ))),
    }
}
