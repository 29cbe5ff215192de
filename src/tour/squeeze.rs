//! A control group around one process, whose memory can be made tight. Decides by how much; removes what it made.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;

/// A control group of the memory controller.
pub(super) struct Group {
    path: PathBuf,
    usage: &'static str,
    limit: &'static str,
}

impl Group {
    /// A group with this process in it.
    ///
    /// Errors: why this machine does not allow one.
    pub(super) fn with(process: u32) -> Result<Group, String> {
        let is_second = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        let (parent, usage, limit) = if is_second {
            ("/sys/fs/cgroup", "memory.current", "memory.high")
        } else {
            (
                "/sys/fs/cgroup/memory",
                "memory.usage_in_bytes",
                "memory.limit_in_bytes",
            )
        };
        let path = Path::new(parent).join(format!("weir-demo-{process}"));
        std::fs::create_dir(&path)
            .map_err(|error| format!("no control group can be made below {parent}: {error}"))?;
        let group = Group { path, usage, limit };
        if !group.path.join(limit).exists() {
            return Err(format!("groups below {parent} have no memory controller"));
        }
        group
            .write("cgroup.procs", process.into())
            .map_err(|error| format!("the server cannot be put into a control group: {error}"))?;
        Ok(group)
    }

    /// Allows less than is in use; how much was in use and how much is allowed, MiB.
    pub(super) fn squeeze(&self) -> Result<(u64, u64), String> {
        let text = std::fs::read_to_string(self.path.join(self.usage)).map_err(|error| error.to_string())?;
        let used: u64 = text
            .trim()
            .parse()
            .map_err(|_| format!("{} is no number", self.usage))?;
        // A kernel refuses a limit that it cannot reach by dropping what can be read again.
        let mut why = String::new();
        for percent in [50, 60, 70, 80, 90] {
            let allowed = used / 100 * percent;
            match self.write(self.limit, allowed) {
                Ok(()) => return Ok((used / MIB, allowed / MIB)),
                Err(error) => why = error.to_string(),
            }
        }
        Err(why)
    }

    fn write(&self, file: &str, value: u64) -> std::io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(self.path.join(file))?;
        file.write_all(value.to_string().as_bytes())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group that still has a process in it stays: the server is ended after this, and is asked to leave first.
        if let Some(parent) = self.path.parent() {
            let text = std::fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
            for process in text.lines() {
                let leave = OpenOptions::new().write(true).open(parent.join("cgroup.procs"));
                let _ = leave.and_then(|mut file| file.write_all(process.as_bytes()));
            }
        }
        let _ = std::fs::remove_dir(&self.path);
    }
}
