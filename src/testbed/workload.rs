//! The requests of a trial: by a site's manifest, from an access log, or every file of the document root in turn.
//! Limited to some thousand paths, which are representative enough.

use crate::failure::Failure;
use accesslog::{Limits, OneHost, Reader};
use std::fs::{File, OpenOptions};
use std::io::{BufReader, Error, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Largest number of paths.
const PATHS_MAX: usize = 5000;
/// Largest depth of directories.
const DEPTH_MAX: usize = 16;

/// The requests of a trial.
#[derive(Debug)]
pub(crate) struct Workload {
    source: Source,
    root: PathBuf,
    /// Requested paths below the root, as far as known.
    paths: Vec<String>,
    /// Bytes of its files.
    sizes: Vec<u64>,
}

#[derive(Debug)]
enum Source {
    /// A site with its manifest.
    Site(PathBuf),
    /// Paths in turn. Their file is already unlinked, so nothing is left behind whatever happens.
    Paths {
        file: File,
        count: usize,
        source: String,
    },
}

impl Workload {
    /// # Errors
    /// `Usage` for a root without files, or a log without requests.
    pub(crate) fn of(root: &Path, log: Option<&Path>) -> Result<Workload, Failure> {
        if !root.is_dir() {
            return Err(Failure::Usage(format!("`{}` is not a directory", root.display())));
        }
        let listed = || {
            let mut paths = Vec::new();
            list(root, "/", DEPTH_MAX, &mut paths);
            paths
        };
        if log.is_none() && super::is_site(root) {
            let paths = listed();
            return Ok(Workload {
                source: Source::Site(root.to_owned()),
                sizes: sizes(root, &paths),
                root: root.to_owned(),
                paths,
            });
        }
        let (paths, source) = match log {
            Some(log) => (asked(log)?, format!("paths of {}", log.display())),
            None => (listed(), format!("files of {}", root.display())),
        };
        if paths.is_empty() {
            return Err(Failure::Usage(format!(
                "no files to request in `{}`",
                log.unwrap_or(root).display()
            )));
        }
        let count = paths.len();
        Ok(Workload {
            sizes: sizes(root, &paths),
            source: Source::Paths {
                file: saved(&paths).map_err(|error| {
                    Failure::System(format!("cannot write the file of paths to request: {error}"))
                })?,
                count,
                source,
            },
            root: root.to_owned(),
            paths,
        })
    }

    /// Whether any file has more than the first and at most the second number of bytes.
    pub(crate) fn has_between(&self, above: u64, to: u64) -> bool {
        self.sizes.iter().any(|size| *size > above && *size <= to)
    }

    pub(crate) fn largest(&self) -> u64 {
        self.sizes.iter().copied().max().unwrap_or(0)
    }

    /// The first file that cannot be read now, with the error. Percent-encoded paths of a log are not checked.
    pub(crate) fn unreadable(&self) -> Option<(PathBuf, Error)> {
        self.paths
            .iter()
            .filter(|path| !path.contains('%'))
            .find_map(|path| {
                let file = below(&self.root, path);
                let refusal = OpenOptions::new().read(true).open(&file).err()?;
                Some((file, refusal))
            })
    }

    /// Flags of `weir load`.
    pub(crate) fn options(&self) -> [String; 2] {
        match &self.source {
            Source::Site(folder) => ["--site".to_owned(), folder.display().to_string()],
            Source::Paths { file, .. } => [
                "--urls".to_owned(),
                format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()),
            ],
        }
    }

    pub(crate) fn words(&self) -> String {
        match &self.source {
            Source::Site(folder) => format!("the site {}", folder.display()),
            Source::Paths { count, source, .. } => format!("{count} {source}"),
        }
    }
}

/// The paths, one per line, in an unlinked file.
fn saved(paths: &[String]) -> std::io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all((paths.join("\n") + "\n").as_bytes())?;
    Ok(file)
}

/// The file of a path, if it exists.
fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/').split('?').next().unwrap_or_default())
}

/// Sizes of the paths that are files below the root; other sizes are unknown.
fn sizes(root: &Path, paths: &[String]) -> Vec<u64> {
    let files = paths.iter().filter_map(|path| below(root, path).metadata().ok());
    files
        .filter(|found| found.is_file())
        .map(|found| found.len())
        .collect()
}

/// The GET targets of a log, in their order.
fn asked(log: &Path) -> Result<Vec<String>, Failure> {
    let name = log.display();
    let file = OpenOptions::new()
        .read(true)
        .open(log)
        .map_err(|error| Failure::of_log(log, &error))?;
    let mut reader = Reader::new(BufReader::new(file), Limits::DEFAULT);
    let mut one = OneHost::default();
    let mut paths = Vec::new();
    while paths.len() < PATHS_MAX
        && let Some(read) = reader.read()
    {
        let read = read.map_err(|error| Failure::of_log(log, &error))?;
        let Ok(record) = read else { continue };
        one.admit(&record)
            .map_err(|several| Failure::Usage(format!("`{name}`: {several}")))?;
        let Some(request) = record.request.filter(|request| *request.method == *b"GET") else {
            continue;
        };
        // Requests that failed then would be measured as errors now.
        if matches!(record.status, 200 | 206 | 304)
            && request.target.starts_with(b"/")
            && request.target.iter().all(u8::is_ascii_graphic)
        {
            paths.push(String::from_utf8_lossy(&request.target).into_owned());
        }
    }
    Ok(paths)
}

/// Every file whose name needs no percent-encoding, by folder.
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
