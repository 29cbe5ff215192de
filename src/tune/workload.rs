//! What is asked for while settings are compared: as a site's manifest says, as a log's clients did, or every file of the
//! directory in turn. Bounded: some thousand paths tell as much as all.

use crate::cli::Failure;
use crate::cli::tune::Flags;
use crate::trial;
use accesslog::{Limits, Reader};
use std::fs::OpenOptions;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};

/// Paths asked for at the most.
const PATHS_MAX: usize = 5000;
/// Directories below each other.
const DEPTH_MAX: usize = 16;

/// What is asked for.
#[derive(Debug)]
pub(super) enum Workload {
    /// What `weir site` wrote down.
    Site(PathBuf),
    /// These paths in turn; the file is ours.
    Paths {
        file: PathBuf,
        count: usize,
        source: String,
    },
}

impl Workload {
    /// # Errors
    /// `Usage` for a root without files, or a log without requests.
    pub(super) fn of(flags: &Flags) -> Result<Workload, Failure> {
        let root = &flags.root;
        if !root.is_dir() {
            return Err(Failure::Usage(format!("`{}` is no directory", root.display())));
        }
        let (paths, source) = match &flags.log {
            Some(log) => (asked(log)?, format!("paths of {}", log.display())),
            None if trial::is_site(root) => return Ok(Workload::Site(root.clone())),
            None => {
                let mut paths = Vec::new();
                list(root, "/", DEPTH_MAX, &mut paths);
                (paths, format!("files of {}", root.display()))
            }
        };
        if paths.is_empty() {
            return Err(Failure::Usage(format!(
                "there is nothing to ask for in `{}`",
                flags.log.as_ref().unwrap_or(root).display()
            )));
        }
        let file = std::env::temp_dir().join(format!("weir-tune-{}", std::process::id()));
        save(&file, &paths).map_err(|error| Failure::System(format!("`{}`: {error}", file.display())))?;
        Ok(Workload::Paths {
            file,
            count: paths.len(),
            source,
        })
    }

    /// Flags of `weir load`.
    pub(super) fn options(&self) -> [String; 2] {
        let (flag, path) = match self {
            Workload::Site(folder) => ("--site", folder),
            Workload::Paths { file, .. } => ("--urls", file),
        };
        [flag.to_owned(), path.display().to_string()]
    }

    pub(super) fn words(&self) -> String {
        match self {
            Workload::Site(folder) => format!("the site {}", folder.display()),
            Workload::Paths { count, source, .. } => format!("{count} {source}"),
        }
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        if let Workload::Paths { file, .. } = self {
            // It is in the folder for what may be lost.
            let _ = std::fs::remove_file(file);
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "a command hands its own load a file")]
fn save(path: &Path, paths: &[String]) -> std::io::Result<()> {
    let mut file = std::fs::File::create(path)?;
    file.write_all((paths.join("\n") + "\n").as_bytes())
}

/// The GET targets of a log, as they came.
fn asked(log: &Path) -> Result<Vec<String>, Failure> {
    let name = log.display();
    let file = OpenOptions::new()
        .read(true)
        .open(log)
        .map_err(|error| Failure::Usage(format!("cannot read the log `{name}`: {error}")))?;
    let mut reader = Reader::new(BufReader::new(file), Limits::DEFAULT);
    let mut paths = Vec::new();
    while paths.len() < PATHS_MAX
        && let Some(read) = reader.read()
    {
        let read = read.map_err(|error| Failure::System(format!("cannot read `{name}`: {error}")))?;
        let Ok(record) = read else { continue };
        let Some(request) = record.request.filter(|request| *request.method == *b"GET") else {
            continue;
        };
        // What was not there then would be measured as an error now.
        if matches!(record.status, 200 | 206 | 304)
            && request.target.starts_with(b"/")
            && request.target.iter().all(u8::is_ascii_graphic)
        {
            paths.push(String::from_utf8_lossy(&request.target).into_owned());
        }
    }
    Ok(paths)
}

/// Every file whose name needs no escape, by folder.
fn list(folder: &Path, above: &str, depth: usize, paths: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let mut names: Vec<(String, bool)> = entries
        .flatten()
        .filter_map(|entry| {
            Some((
                entry.file_name().into_string().ok()?,
                entry.file_type().ok()?.is_dir(),
            ))
        })
        .filter(|(name, _)| !name.starts_with('.') && name.bytes().all(is_plain))
        .collect();
    names.sort();
    for (name, is_folder) in names {
        if paths.len() >= PATHS_MAX {
            return;
        }
        if is_folder {
            if depth > 0 {
                list(&folder.join(&name), &format!("{above}{name}/"), depth - 1, paths);
            }
        } else {
            paths.push(format!("{above}{name}"));
        }
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}
