//! Files of a site on disk, streamed one after another. The manifest comes last, so a folder without one is known to
//! be incomplete. Decides which existing files may be overwritten.

use crate::cli::site::Target;
use crate::failure::Failure;
use crate::voice::Voice;
use ::load::manifest::{Digesting, Manifest};
use ::load::site::{MANIFEST, Site};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Size of the write buffer in bytes.
const BUFFER: usize = 256 * 1024;

/// Checks that the folder is missing, empty, or given with `--force`.
///
/// # Errors
/// `Usage`, naming it.
pub(super) fn usable(target: &Target) -> Result<(), Failure> {
    let dir = &target.dir;
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(Failure::Usage(format!(
                "`{}` is no folder; give a folder for the site",
                dir.display()
            )));
        }
        Err(error) => return Err(refused("read the folder", dir, &error)),
    };
    if !target.force && entries.count() > 0 {
        return Err(Failure::Usage(format!(
            "`{}` is not empty; give another folder, or replace files in it with --force",
            dir.display()
        )));
    }
    Ok(())
}

/// Writes every file, then the manifest.
///
/// # Errors
/// `System`, naming the file and how far it went.
pub(super) fn site(site: &Site, target: &Target, voice: &Voice) -> Result<Manifest, Failure> {
    let dir = &target.dir;
    fs::create_dir_all(dir).map_err(|error| refused("make the folder", dir, &error))?;
    // An old manifest would describe files that are about to change.
    let manifest_path = dir.join(MANIFEST);
    match fs::remove_file(&manifest_path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(refused("replace", &manifest_path, &error));
        }
        _ => {}
    }
    let total = site.bytes();
    let bar = progress(total, voice);
    let contents = site.contents();
    let mut digests = Vec::with_capacity(site.files() as usize);
    for number in 0..site.files() {
        let described = site.describe(number);
        let path = dir.join(&described.path);
        let folder = path.parent().unwrap_or(dir);
        let made = fs::create_dir_all(folder).and_then(|()| create(&path, target.force));
        let written = made.and_then(|file| {
            let mut out = Digesting::new(bar.wrap_write(file));
            let mut buffered = BufWriter::with_capacity(BUFFER, &mut out);
            contents.write(number, &mut buffered)?;
            buffered.flush()?;
            drop(buffered);
            Ok(out.finish())
        });
        match written {
            Ok((bytes, digest, _)) => {
                debug_assert_eq!(bytes, described.size.0);
                digests.push(digest);
            }
            Err(error) => {
                bar.abandon();
                return Err(Failure::System(format!(
                    "cannot write `{}`: {error}; {number} of {} files are written and there is no manifest; the site \
                     needs {} in all",
                    path.display(),
                    site.files(),
                    units::Bytes(total)
                )));
            }
        }
    }
    bar.finish_and_clear();
    let manifest = site.manifest(digests, concat!("weir ", env!("CARGO_PKG_VERSION")));
    save(&manifest_path, &manifest).map_err(|error| refused("write", &manifest_path, &error))?;
    Ok(manifest)
}

fn save(path: &Path, manifest: &Manifest) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER, create(path, false)?);
    serde_json::to_writer_pretty(&mut out, manifest)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Creates a file, which must not exist without `replace`.
pub(super) fn create(path: &Path, replace: bool) -> io::Result<fs::File> {
    let mut options = OpenOptions::new();
    options.write(true);
    if replace {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    options.open(path)
}

pub(super) fn refused(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::System(format!("cannot {what} `{}`: {error}", path.display()))
}

/// A progress bar on a terminal, hidden elsewhere.
fn progress(bytes: u64, voice: &Voice) -> ProgressBar {
    let shown = voice.reports() && !voice.json;
    let target = if shown {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(bytes), target);
    if let Ok(style) =
        ProgressStyle::with_template("{bar:40} {binary_bytes} of {binary_total_bytes}, {eta} left")
    {
        bar.set_style(style);
    }
    bar
}
