//! `weir serve --check`: validates a configuration without listening and without creating files. Decides when a log,
//! recording or socket could be created. Does not test whether addresses are free: a running server may hold them.

use super::access_log::AccessLogs;
use super::tls::Tls;
use super::{choices, control_rights, open, qlog, rights, server_log};
use crate::cli::serve::Flags;
use crate::failure::Failure;
use crate::output;
use crate::voice::Voice;
use runtime::clock;
use runtime::fs::VersionFolder;
use runtime::machine;
use runtime::process::inherit::Secret;
use runtime::process::privilege;
use server::config::{Config, Mount, ServerLog};
use server::{Additions, Interprocess};
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Checks the configuration and reports that it is valid.
///
/// # Errors
/// The first error that would end a start; and a configured page that does not exist, of which a start only warns.
pub(super) fn run(config: Config, flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    // As a start does.
    machine::raise_descriptor_limit();
    let root = config.root.clone();
    let versions = config.versions.clone();
    let replay = config.replay.clone();
    if config.record.as_deref() == Some(Path::new("-")) {
        return Err(flags.blame(
            "record",
            "a recording cannot go to standard output; name a file".to_owned(),
        ));
    }
    // A server opens all of these after switching to `user`, so they are checked with that user's rights.
    rights::try_user(&config, flags)?;
    rights::check_uploads(&config, flags)?;
    if let Some(why) = config.control.as_deref().and_then(cannot_be_a_socket) {
        return Err(flags.blame("control", why));
    }
    control_rights(&config, flags)?;
    if let Some(why) = config.record.as_deref().and_then(cannot_be_written) {
        return Err(flags.blame("record", why));
    }
    if let Some(why) = qlog::refusal(&config) {
        return Err(flags.blame("qlog", why));
    }
    let logs = config.access_logs();
    let sockets = logs.iter().filter_map(|log| log.socket().ok().flatten());
    let sockets = sockets.map(|socket| ("access-log", socket));
    let daemon = config.server_log.as_ref().and_then(ServerLog::socket);
    let daemon = daemon.map(|socket| ("server-log", socket.clone()));
    for (key, socket) in sockets.chain(daemon) {
        if let Err(error) = socket.probe() {
            let why = format!("`{socket}` cannot be used: {error}; start the log daemon");
            return Err(flags.blame(key, why));
        }
    }
    for log in &logs {
        if let Some(why) = log.file().and_then(cannot_be_written) {
            return Err(match log.host {
                None => flags.blame("access-log", why),
                Some(_) => flags.blame_file("access-log", why),
            });
        }
    }
    let messages = config.server_log.as_ref().and_then(ServerLog::file);
    if let Some(why) = messages.and_then(cannot_be_written) {
        return Err(flags.blame("server-log", why));
    }
    if let Some(why) = server_log::conflict(&config) {
        return Err(flags.blame("server-log", why));
    }
    if let Some(why) = choices::all(&config).find_map(cannot_be_written) {
        return Err(flags.blame_file("balance-record", why));
    }
    Tls::open(&config, flags, None, &Secret::default())?;
    let mut doubts = config
        .upload_warnings()
        .map_err(|error| Failure::Usage(error.to_string()))?;
    doubts.extend(config.mounts().filter_map(has_no_folder));
    let server = open(
        choices::without(config),
        Interprocess::default(),
        Additions::default(),
        &AccessLogs::default(),
        flags,
    )?;
    // A start only warns of missing pages, because they may be created later. A check fails for a page that the site
    // itself configures, and warns of one that a host inherits.
    let missing = server.missing_pages(clock::now(), clock::wall());
    if let Some(mistake) = missing.iter().find(|page| page.is_mistake()) {
        return Err(flags.blame_page(mistake));
    }
    let warnings: Vec<String> = missing
        .iter()
        .map(|page| flags.blame_page(page).to_string())
        .chain(server.password_warnings())
        .chain(doubts)
        .collect();
    if voice.json {
        output::line(serde_json::json!({
            "event": "checked",
            "valid": true,
            "root": root,
            "versions": versions,
            "replay": replay,
            "warnings": warnings,
        }))?;
        return Ok(());
    }
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    let what = match (&replay, &versions, &root) {
        (Some(folder), ..) => format!("the recording in {}", folder.display()),
        (None, Some(folder), _) => VersionFolder::at(folder).current().display().to_string(),
        (None, None, Some(root)) => root.display().to_string(),
        (None, None, None) => "the embedded site".to_owned(),
    };
    output::line(format_args!("the configuration is valid; it serves {what}"))?;
    Ok(())
}

/// A warning of a mount whose path is not stripped, if its root has no such folder: all of its paths get 404.
fn has_no_folder(mount: &Mount) -> Option<String> {
    let folder = mount.folder();
    (!mount.strip && mount.root.is_dir() && !folder.is_dir()).then(|| {
        format!(
            "mount: `{}` has no files, because there is no folder `{}`; create it, or remove `strip = false`",
            mount.path,
            folder.display()
        )
    })
}

/// Why lines cannot be appended to a file, which may not exist yet. A pipe is not opened: only a start can tell whether
/// it has a reader.
fn cannot_be_written(path: &Path) -> Option<String> {
    if path.as_os_str().is_empty() {
        return Some("the path is empty; name a file".to_owned());
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

/// Why a socket cannot be created at a path. The socket of an ended server is replaced.
fn cannot_be_a_socket(path: &Path) -> Option<String> {
    if path.as_os_str().is_empty() {
        return Some("the path is empty; name a file".to_owned());
    }
    match path.symlink_metadata() {
        Ok(found) if !found.file_type().is_socket() => Some(format!(
            "`{}` exists and is not a socket; name another file",
            path.display()
        )),
        Ok(_) if privilege::can_make(path) && !privilege::can_remove(path) => Some(format!(
            "`{}` belongs to another user, and the sticky bit of its folder keeps {} from replacing it; remove it",
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
            "`{}` cannot be created: there is no folder `{}`; create the folder",
            path.display(),
            folder.display()
        ),
        true => format!(
            "`{}` cannot be created: its folder is not writable by {}",
            path.display(),
            who()
        ),
    })
}

fn who() -> String {
    let (user, group) = privilege::current();
    format!("user {user}:{group}")
}
