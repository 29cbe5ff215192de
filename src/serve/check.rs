//! `--check`: everything about a configuration that can be known without listening and without changing anything.
//! Decides what a file that is not opened yet must be like; refuses to know whether addresses are free.

use super::{open, rights};
use crate::cli::serve::Flags;
use crate::cli::{Failure, Voice, output};
use runtime::{clock, privilege};
use server::Herd;
use server::config::Config;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Checks, and says that all is well.
///
/// # Errors
/// As a start would end, for the first thing that it would end by; and for a page that is configured and not there.
pub(super) fn run(config: Config, flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    let root = config.root.clone();
    if config.record.as_deref() == Some(Path::new("-")) {
        return Err(flags.blame(
            "record",
            "standard output says how the server does; name a file".to_owned(),
        ));
    }
    // All of these are opened by the user that is become, so they are looked at as that user.
    rights::try_user(&config, flags)?;
    if let Some(why) = config.control.as_deref().and_then(cannot_be_a_socket) {
        return Err(flags.blame("control", why));
    }
    if let Some(why) = config.record.as_deref().and_then(cannot_be_written) {
        return Err(flags.blame("record", why));
    }
    let log = config.access_log.as_deref().filter(|log| *log != Path::new("-"));
    if let Some(why) = log.and_then(cannot_be_written) {
        return Err(flags.blame("access-log", why));
    }
    let server = open(config, Herd::default(), None, flags)?;
    // A server warns of each and starts, as the page may come. A check fails for one that its site was told to have.
    let missing = server.missing_pages(clock::now(), clock::wall());
    if let Some(mistake) = missing.iter().find(|page| page.is_mistake()) {
        return Err(flags.blame_page(mistake));
    }
    let warnings: Vec<String> = missing
        .iter()
        .map(|page| flags.blame_page(page).to_string())
        .collect();
    if voice.json {
        output::line(serde_json::json!({
            "event": "checked",
            "valid": true,
            "root": root,
            "warnings": warnings,
        }))?;
        return Ok(());
    }
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    let what = root
        .as_deref()
        .map_or("the embedded site".into(), Path::to_string_lossy);
    output::line(format_args!("the configuration is valid; it serves {what}"))?;
    Ok(())
}

/// Why lines cannot be appended to a file, which may have to be made. A pipe is not opened: whether somebody reads
/// it is known at start only.
fn cannot_be_written(path: &Path) -> Option<String> {
    if path.as_os_str().is_empty() {
        return Some("it names no file".to_owned());
    }
    match path.metadata() {
        Ok(found) if found.is_dir() => {
            Some(format!("`{}` is a directory; name a file in it", path.display()))
        }
        Ok(_) if privilege::can_write(path) => None,
        Ok(_) => Some(format!("`{}` cannot be written by {}", path.display(), who())),
        Err(error) if error.kind() == ErrorKind::NotFound => cannot_be_made(path),
        Err(error) => Some(format!("`{}`: {error}", path.display())),
    }
}

/// Why a socket cannot be made there. One that is left of another server is replaced.
fn cannot_be_a_socket(path: &Path) -> Option<String> {
    if path.as_os_str().is_empty() {
        return Some("it names no file".to_owned());
    }
    match path.symlink_metadata() {
        Ok(found) if !found.file_type().is_socket() => Some(format!(
            "`{}` is there, and is no socket; name another file",
            path.display()
        )),
        Ok(_) if privilege::can_make(path) && !privilege::can_remove(path) => Some(format!(
            "`{}` is another user's, and the sticky bit of its folder keeps it from {}; remove it",
            path.display(),
            who()
        )),
        Ok(_) => cannot_be_made(path),
        Err(error) if error.kind() == ErrorKind::NotFound => cannot_be_made(path),
        Err(error) => Some(format!("`{}`: {error}", path.display())),
    }
}

fn cannot_be_made(path: &Path) -> Option<String> {
    let folder = privilege::folder(path);
    if privilege::can_make(path) {
        return None;
    }
    Some(match folder.is_dir() {
        false => format!(
            "`{}` cannot be made: there is no folder `{}`",
            path.display(),
            folder.display()
        ),
        true => format!(
            "`{}` cannot be made: its folder must be writable, and is not for {}",
            path.display(),
            who()
        ),
    })
}

fn who() -> String {
    let (user, group) = privilege::current();
    format!("user {user}:{group}")
}
