//! Control groups around the demo's processes, to make memory tight and the disk slow. Decides by how much, ends the
//! processes left in them and removes the groups.
//!
//! Memory for the files or for the connections, not for both, and a disk of a hundred reads per second, as document
//! 000's were. A fast disk would bring pages back before any request waits for them.

use std::fs::OpenOptions;
use std::io::{Error, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MIB: u64 = 1 << 20;
/// Reads per second that the slow disk allows.
const READS: u32 = 100;
/// Number of users for whom a quarter of the files is too little memory.
const USERS: u64 = 320;
/// File pages that always stay: they include the program itself.
const LEFT_MIN: u64 = 10 * MIB;
/// Attempts to remove a group while its processes exit, a tenth of a second apart.
const PATIENCE: usize = 50;

/// A group of the memory controller and one of the disk controller; in version 2 they are one group.
pub(super) struct Group {
    kind: Version,
    memory: PathBuf,
    disk: PathBuf,
    /// Device number of the disk with the files, as `major:minor`.
    device: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Memory used and allowed, in MiB.
pub(super) struct Squeezed {
    pub(super) used: u64,
    pub(super) files: u64,
    pub(super) allowed: u64,
}

impl Squeezed {
    pub(super) fn words(&self) -> String {
        format!(
            "memory squeezed: {} MiB are in use, {} of them files; {} MiB are allowed, and {READS} reads of the disk a second",
            self.used, self.files, self.allowed
        )
    }
}

impl Group {
    /// Creates empty groups, for a demo with files in this folder.
    ///
    /// Errors: why this machine allows no such groups.
    pub(super) fn make(folder: &Path) -> Result<Group, String> {
        let root = Path::new("/sys/fs/cgroup");
        let name = format!("weir-demo-{}", std::process::id());
        let device = device(folder)?;
        let (kind, memory, disk) = match root.join("cgroup.controllers").exists() {
            true => (Version::Two, root.join(&name), root.join(&name)),
            false => (
                Version::One,
                root.join("memory").join(&name),
                root.join("blkio").join(&name),
            ),
        };
        let group = Group {
            kind,
            memory,
            disk,
            device,
        };
        let mut folders = vec![&group.memory];
        if kind == Version::One {
            folders.push(&group.disk);
        }
        for folder in folders {
            let parent = folder.parent().unwrap_or(root).display();
            std::fs::create_dir(folder).map_err(|error| {
                format!("cannot create a control group below {parent}: {error}; run as root")
            })?;
        }
        if !group.memory.join(group.limits()[0]).exists() {
            return Err("the control groups of this machine have no memory controller".to_owned());
        }
        // Try the slow disk now, to report early that it cannot be had.
        group
            .slow(false)
            .map_err(|error| format!("cannot slow the disk of {}: {error}", folder.display()))?;
        Ok(group)
    }

    /// A command that runs the program in the groups from its start: only file reads made inside a group are charged
    /// to it.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("sh");
        command
            .args([
                "-c",
                "for group in \"$1\" \"$2\"; do echo $$ 2>/dev/null > \"$group\"; done; shift 2; exec \"$@\"",
                "sh",
            ])
            .arg(self.memory.join("cgroup.procs"))
            .arg(self.disk.join("cgroup.procs"))
            .arg(program);
        command
    }

    /// Limits memory to what is no file plus a quarter of the files, and limits disk reads. Fewer users read less, so
    /// fewer of the files may stay.
    pub(super) fn squeeze(&self, users: u32) -> Result<Squeezed, String> {
        let (usage, files) = match self.kind {
            Version::One => ("memory.usage_in_bytes", "total_cache "),
            Version::Two => ("memory.current", "file "),
        };
        let used: u64 = self
            .read(usage)?
            .trim()
            .parse()
            .map_err(|_| format!("{usage} does not hold a number"))?;
        let stat = self.read("memory.stat")?;
        let files: u64 = stat
            .lines()
            .find_map(|line| line.strip_prefix(files)?.trim().parse().ok())
            .ok_or_else(|| format!("memory.stat has no {files}"))?;
        if used < MIB {
            return Err("the server did not enter the control group".to_owned());
        }
        let mut why = String::new();
        // The kernel refuses a limit that it cannot reach by dropping pages that can be read again.
        for more in [4, 6, 8] {
            let left = (files / 16 * more / USERS * u64::from(users).min(USERS)).max(LEFT_MIN);
            let allowed = used.saturating_sub(files) + left;
            match self.bound(allowed) {
                Ok(()) => {
                    self.slow(true)
                        .map_err(|error| format!("cannot slow the disk: {error}"))?;
                    return Ok(Squeezed {
                        used: used / MIB,
                        files: files / MIB,
                        allowed: allowed / MIB,
                    });
                }
                Err(error) => why = error.to_string(),
            }
        }
        Err(why)
    }

    /// The limit files in writing order. Where there is a soft limit it comes first and reclaims what it can, because
    /// the hard limit kills processes for the rest.
    fn limits(&self) -> &'static [&'static str] {
        match self.kind {
            Version::One => &["memory.limit_in_bytes"],
            Version::Two => &["memory.high", "memory.max"],
        }
    }

    fn bound(&self, allowed: u64) -> std::io::Result<()> {
        self.limits()
            .iter()
            .try_for_each(|file| write(&self.memory.join(file), &allowed.to_string()))
    }

    fn slow(&self, is_slow: bool) -> std::io::Result<()> {
        let device = &self.device;
        let (file, text) = match (self.kind, is_slow) {
            (Version::One, true) => ("blkio.throttle.read_iops_device", format!("{device} {READS}")),
            (Version::One, false) => ("blkio.throttle.read_iops_device", format!("{device} 0")),
            (Version::Two, true) => ("io.max", format!("{device} riops={READS}")),
            (Version::Two, false) => ("io.max", format!("{device} riops=max")),
        };
        write(&self.disk.join(file), &text)
    }

    fn read(&self, file: &str) -> Result<String, String> {
        std::fs::read_to_string(self.memory.join(file)).map_err(|error| format!("{file}: {error}"))
    }

    /// Kills all processes in the group: only the demo's own can be in it.
    fn end(&self) {
        let Ok(left) = std::fs::read_to_string(self.memory.join("cgroup.procs")) else {
            return;
        };
        let pids: Vec<&str> = left.split_whitespace().collect();
        if !pids.is_empty() {
            let mut kill = Command::new("kill");
            kill.arg("-KILL").args(pids).stderr(Stdio::null());
            // Some may have ended meanwhile.
            let _ = kill.status();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that waits for the disk does not end.
        let _ = self.slow(false);
        for _ in 0..PATIENCE {
            self.end();
            // A group cannot be removed while processes exit from it; in version 2 both paths are the same group.
            let left = [&self.memory, &self.disk]
                .into_iter()
                .filter(|folder| std::fs::remove_dir(folder).is_err() && folder.exists());
            if left.count() == 0 {
                return;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(100));
        }
    }
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.write_all(text.as_bytes())
        .map_err(|error| Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// Device number of the disk that holds a folder.
///
/// Errors: the folder is on no disk.
#[allow(clippy::disallowed_methods, reason = "the folder is this command's own")]
fn device(folder: &Path) -> Result<String, String> {
    let shown = folder.display();
    let number = std::fs::metadata(folder)
        .map_err(|error| format!("{shown}: {error}"))?
        .dev();
    // The kernel's packing of device numbers: twelve bits of major and twenty of minor number, in pieces.
    let major = (number >> 8) & 0xfff | (number >> 32) & 0xffff_f000;
    let minor = number & 0xff | (number >> 12) & 0xffff_ff00;
    let known = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let known = known
        .canonicalize()
        .map_err(|_| format!("{shown} is on no disk whose reads can be limited"))?;
    // A limit applies to the whole disk, not to a partition.
    let whole = match known.join("partition").exists() {
        true => known.parent().unwrap_or(&known),
        false => &known,
    };
    std::fs::read_to_string(whole.join("dev"))
        .map(|text| text.trim().to_owned())
        .map_err(|error| format!("{}: {error}", whole.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_no_disk_is_said_to_be() {
        let why = device(Path::new("/proc")).expect_err("/proc is on no disk");
        assert!(why.contains("/proc is on no disk"), "{why}");
        assert!(device(Path::new("/no/such/folder")).is_err());
    }
}
