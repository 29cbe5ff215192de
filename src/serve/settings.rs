//! The configuration that a process serves with, at the start and for a reload: that of the flags, with what the embedded
//! site adds; and how the machine differs from that of the profile.

use super::embedded_site::{DEMO_NOT_FOUND, is_demo};
use super::managed;
use crate::cli::serve::Flags;
use crate::failure::Failure;
use server::config::{Config, LiveFor};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// How this machine differs from the profile's machine; `None` without a profile. Warns of differences.
pub(super) fn profile(flags: &Flags) -> Result<Option<Vec<String>>, Failure> {
    let Some(tuned) = flags.tuned()? else {
        return Ok(None);
    };
    let differs = tuned.machine.differs(&crate::tune::machine());
    if !differs.is_empty() {
        tracing::warn!(
            "the profile was measured on another machine ({}); run `weir tune` again",
            differs.join(", ")
        );
    }
    Ok(Some(differs))
}

/// The configuration of the flags, plus the embedded site's own error page and live page.
pub(super) fn configuration(flags: &Flags) -> Result<Config, Failure> {
    let mut config = flags.configuration()?;
    if is_demo(&config) && config.live == LiveFor::Nobody {
        // The embedded site demonstrates every feature, but to clients on this machine only.
        config.live = LiveFor::Local;
    }
    if is_demo(&config) && config.error_pages.is_empty() {
        let (status, page) = DEMO_NOT_FOUND;
        config.error_pages.insert(status, page).map_err(Failure::Usage)?;
    }
    managed::choose_folder(&mut config);
    Ok(config)
}

/// Whether a configuration can be read only once.
pub(super) fn is_pipe(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.file_type().is_fifo())
}

/// The configuration for a reload.
pub(super) fn configuration_again(flags: &Flags) -> Result<Config, Failure> {
    match flags.file().filter(|file| is_pipe(file)) {
        // Opening a pipe without a writer would block, and signals with it.
        Some(pipe) => Err(Failure::Usage(format!(
            "the configuration `{}` is a pipe, which can be read only at the start; name a file with --config",
            pipe.display()
        ))),
        None => configuration(flags),
    }
}
