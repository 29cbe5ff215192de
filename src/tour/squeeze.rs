//! Control groups around what is started in them, whose memory can be made tight and whose disk slow. Decides by how much;
//! ends what is left in them and removes them.
//!
//! Memory for the files or for the connections, not for both, and a disk of a hundred reads a second, as document 000's were: a
//! fast disk brings pages back before anybody has waited for them.

use std::fs::OpenOptions;
use std::io::{Error, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MIB: u64 = 1 << 20;
/// Reads of the disk a second.
const READS: u32 = 100;
/// Users who find a quarter of the files too little.
const USERS: u64 = 320;
/// What of the files stays at the least: the program is one of them.
const LEFT_MIN: u64 = 10 * MIB;
/// Attempts to remove what processes are leaving, a tenth of a second apart.
const PATIENCE: usize = 50;

/// Groups of the controllers of memory and of disks, which in version 2 are one.
pub(super) struct Group {
    kind: Version,
    memory: PathBuf,
    disk: PathBuf,
    /// Of the files, as the kernel numbers it.
    device: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// What was and what is allowed, in MiB.
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
    /// Groups with nothing in them yet, for files in this folder.
    ///
    /// Errors: why this machine does not allow them.
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
                format!("it needs root, as no control group can be made below {parent}: {error}")
            })?;
        }
        if !group.memory.join(group.limits()[0]).exists() {
            return Err("control groups have no memory controller here".to_owned());
        }
        // Whether it can be done, said before it is to be.
        group
            .slow(false)
            .map_err(|error| format!("the disk of {} cannot be made slow: {error}", folder.display()))?;
        Ok(group)
    }

    /// A command for a program that starts in the groups: what it reads from files is charged to them only if it was in
    /// them then.
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

    /// Allows what is no file, a quarter of the files, and few reads; of the files less for fewer users, who ask for less.
    pub(super) fn squeeze(&self, users: u32) -> Result<Squeezed, String> {
        let (usage, files) = match self.kind {
            Version::One => ("memory.usage_in_bytes", "total_cache "),
            Version::Two => ("memory.current", "file "),
        };
        let used: u64 = self
            .read(usage)?
            .trim()
            .parse()
            .map_err(|_| format!("{usage} is no number"))?;
        let stat = self.read("memory.stat")?;
        let files: u64 = stat
            .lines()
            .find_map(|line| line.strip_prefix(files)?.trim().parse().ok())
            .ok_or_else(|| format!("memory.stat has no {files}"))?;
        if used < MIB {
            return Err("the server could not be put into the control group".to_owned());
        }
        let mut why = String::new();
        // A kernel refuses a bound that it cannot reach by dropping what can be read again.
        for more in [4, 6, 8] {
            let left = (files / 16 * more / USERS * u64::from(users).min(USERS)).max(LEFT_MIN);
            let allowed = used.saturating_sub(files) + left;
            match self.bound(allowed) {
                Ok(()) => {
                    self.slow(true)
                        .map_err(|error| format!("the disk cannot be made slow: {error}"))?;
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

    /// The files of bounds, in the order in which they are written: where there is a gentle one it takes back what can be
    /// taken back, before the hard one ends processes for what cannot.
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

    /// Ends whoever is left: only what was started here can be in it.
    fn end(&self) {
        let Ok(left) = std::fs::read_to_string(self.memory.join("cgroup.procs")) else {
            return;
        };
        let pids: Vec<&str> = left.split_whitespace().collect();
        if !pids.is_empty() {
            let mut kill = Command::new("kill");
            kill.arg("-KILL").args(pids).stderr(Stdio::null());
            // Some have ended meanwhile.
            let _ = kill.status();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Who waits for the disk does not end.
        let _ = self.slow(false);
        for _ in 0..PATIENCE {
            self.end();
            // One that processes are still leaving cannot be removed; in version 2 the second is the first.
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

/// The disk that a folder is on.
///
/// Errors: that it is on none.
#[allow(clippy::disallowed_methods, reason = "the folder is this command's own")]
fn device(folder: &Path) -> Result<String, String> {
    let shown = folder.display();
    let number = std::fs::metadata(folder)
        .map_err(|error| format!("{shown}: {error}"))?
        .dev();
    // As the kernel packs it for programs: twelve bits of major number, twenty of minor, in pieces.
    let major = (number >> 8) & 0xfff | (number >> 32) & 0xffff_f000;
    let minor = number & 0xff | (number >> 12) & 0xffff_ff00;
    let known = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let known = known
        .canonicalize()
        .map_err(|_| format!("{shown} is on no disk of its own, so what is read there cannot be slow"))?;
    // A part of a disk is as slow as the whole.
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
