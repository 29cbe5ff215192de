//! A control group around what is started in it, whose memory can be made tight. Decides by how much; removes what it made.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const MIB: u64 = 1 << 20;

/// A control group of the memory controller.
pub(super) struct Group {
    path: PathBuf,
    usage: &'static str,
    limit: &'static str,
}

impl Group {
    /// A group with nothing in it yet.
    ///
    /// Errors: why this machine does not allow one.
    pub(super) fn make() -> Result<Group, String> {
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
        let path = Path::new(parent).join(format!("weir-demo-{}", std::process::id()));
        std::fs::create_dir(&path)
            .map_err(|error| format!("no control group can be made below {parent}: {error}"))?;
        let group = Group { path, usage, limit };
        if !group.path.join(limit).exists() {
            return Err(format!("groups below {parent} have no memory controller"));
        }
        Ok(group)
    }

    /// A command for a program that starts in the group: what it reads from files is charged to the group only if it
    /// was in it then.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", "echo $$ 2>/dev/null > \"$0\"; exec \"$@\""])
            .arg(self.path.join("cgroup.procs"))
            .arg(program);
        command
    }

    /// Allows less than is in use; how much was in use and how much is allowed, MiB.
    pub(super) fn squeeze(&self) -> Result<(u64, u64), String> {
        let text = std::fs::read_to_string(self.path.join(self.usage)).map_err(|error| error.to_string())?;
        let used: u64 = text
            .trim()
            .parse()
            .map_err(|_| format!("{} is no number", self.usage))?;
        if used < MIB {
            return Err("the server could not be put into the control group".to_owned());
        }
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
        // What was in it has ended; a group that is not empty stays, under a name that says whose it was.
        let _ = std::fs::remove_dir(&self.path);
    }
}
