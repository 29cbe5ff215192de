//! A control group around a server that limits its memory, including cached files, and its disk reads (document 000
//! had machines of 32 to 256 MB with one disk). Decides when a site is dropped from the page cache and read again;
//! removes its groups and kills processes left in them.
//!
//! Pages stay charged to the group that read them first, so files are dropped from the page cache before and read
//! again inside. The disk limit counts reads, not bytes, because seeks were the bottleneck.

use rustix::fs::{Advice, fadvise};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use units::Bytes;

const MEMORY: &str = "/sys/fs/cgroup/memory";
const BLKIO: &str = "/sys/fs/cgroup/blkio";
const PROCESSOR: &str = "/sys/fs/cgroup/cpuacct";
/// Number of checks whether a group has become empty.
const LOOKS: u32 = 100;

/// A group, empty or with a server in it.
pub(super) struct Group {
    gauges: Gauges,
    /// Processes killed for lack of memory before this run.
    kills: u64,
}

/// The group's files with its usage.
#[derive(Clone)]
pub(super) struct Gauges {
    memory: PathBuf,
    blkio: PathBuf,
    processor: PathBuf,
}

impl Gauges {
    fn named(name: &str) -> Gauges {
        Gauges {
            memory: Path::new(MEMORY).join(name),
            blkio: Path::new(BLKIO).join(name),
            processor: Path::new(PROCESSOR).join(name),
        }
    }

    fn folders(&self) -> [&PathBuf; 3] {
        [&self.memory, &self.blkio, &self.processor]
    }
}

/// Removes groups left by killed studies, and ends their processes.
pub(super) fn sweep() {
    for entry in fs::read_dir(MEMORY).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name
            .strip_prefix("weir-study-")
            .and_then(|rest| rest.split('-').next());
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            drop(Group {
                gauges: Gauges::named(&name),
                kills: 0,
            });
        }
    }
}

/// The reason why no group can be created; `None` if one can.
pub(super) fn refusal() -> Option<String> {
    Group::make().err().map(|error| {
        format!("it needs root and control groups of version 1 with memory, blkio and cpuacct: {error}")
    })
}

impl Group {
    /// A group without limits.
    pub(super) fn make() -> Result<Group, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-study-{}-{number}", std::process::id());
        let gauges = Gauges::named(&name);
        for path in gauges.folders() {
            fs::create_dir(path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        // From here on, the drop removes it.
        let mut group = Group { gauges, kills: 0 };
        group.kills = group.gauges.killed()?;
        Ok(group)
    }

    /// The command that puts a program into the group and execs it.
    pub(super) fn before(&self) -> Vec<String> {
        let enter = "for group in \"$0\" \"$1\" \"$2\"; do echo $$ > \"$group/cgroup.procs\" || exit 1; done; \
                     shift 2; exec \"$@\"";
        let mut words = vec!["sh".to_owned(), "-c".to_owned(), enter.to_owned()];
        words.extend(self.gauges.folders().map(|path| path.display().to_string()));
        words
    }

    /// Limits its memory and reads a site's files inside the group: the part that fits stays cached.
    pub(super) fn fill(&self, site: &Path, memory: &str) -> Result<(), String> {
        let memory: Bytes = memory
            .parse()
            .map_err(|_| format!("`{memory}` is no amount of memory"))?;
        write(
            &self.gauges.memory.join("memory.limit_in_bytes"),
            &memory.0.to_string(),
        )?;
        forget(site)?;
        let before = self.before();
        let read = Command::new(&before[0])
            .args(&before[1..])
            .args(["sh", "-c", "find . -type f -print0 | xargs -0 cat > /dev/null"])
            .current_dir(site)
            .status();
        match read {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!(
                "the site cannot be read in a control group of {memory}: {status}"
            )),
            Err(error) => Err(format!("the site cannot be read: {error}")),
        }
    }

    /// Limits the reads per second from the disk of a folder.
    pub(super) fn throttle(&self, site: &Path, reads: &str) -> Result<(), String> {
        let reads: u32 = reads
            .parse()
            .map_err(|_| format!("`{reads}` is no number of reads"))?;
        let device = disk(site)?;
        write(
            &self.gauges.blkio.join("blkio.throttle.read_iops_device"),
            &format!("{device} {reads}"),
        )
    }

    pub(super) fn gauges(&self) -> &Gauges {
        &self.gauges
    }

    /// Processes killed for lack of memory since the group was created.
    pub(super) fn killed(&self) -> Result<u64, String> {
        Ok(self.gauges.killed()? - self.kills)
    }

    /// Kills its processes: only our own can be in it.
    fn empty(&self) {
        for _ in 0..LOOKS {
            let left = read(&self.gauges.memory.join("cgroup.procs")).unwrap_or_default();
            if left.trim().is_empty() {
                return;
            }
            // They may have ended by themselves.
            let _ = Command::new("kill")
                .arg("-KILL")
                .args(left.split_whitespace())
                .output();
            std::thread::park_timeout(Duration::from_millis(100));
        }
    }
}

impl Gauges {
    /// Its usage as a line of a result.
    pub(super) fn line(&self) -> Result<Value, String> {
        let stat = read(&self.memory.join("memory.stat"))?;
        let mib = |bytes: f64| bytes / f64::from(1 << 20);
        let processes = read(&self.memory.join("cgroup.procs"))?.lines().count();
        Ok(json!({
            "event": "group", "files_mib": field(&stat, "total_cache").map(|bytes| mib(bytes as f64)),
            "anonymous_mib": field(&stat, "total_rss").map(|bytes| mib(bytes as f64)),
            "kernel_mib": self.kernel().map(mib), "processes": processes,
        }))
    }

    /// Memory of its processes, kernel memory included and cached files excluded, in bytes.
    pub(super) fn own_memory(&self) -> Option<f64> {
        let stat = read(&self.memory.join("memory.stat")).ok()?;
        Some(field(&stat, "total_rss")? as f64 + self.kernel()?)
    }

    fn kernel(&self) -> Option<f64> {
        let bytes = read(&self.memory.join("memory.kmem.usage_in_bytes")).ok()?;
        bytes.trim().parse().ok()
    }

    /// User and kernel processor time of all processes that were ever in the group, in seconds. The sum is exact; the
    /// split comes from clock ticks.
    pub(super) fn processor_s(&self) -> Option<(f64, f64)> {
        let seconds = |file: &str| -> Option<f64> {
            let nanoseconds: f64 = read(&self.processor.join(file)).ok()?.trim().parse().ok()?;
            Some(nanoseconds * 1e-9)
        };
        let whole = seconds("cpuacct.usage")?;
        let (user, kernel) = (seconds("cpuacct.usage_user")?, seconds("cpuacct.usage_sys")?);
        let ticked = user + kernel;
        let share = if ticked > 0.0 { user / ticked } else { 0.5 };
        Some((whole * share, whole * (1.0 - share)))
    }

    /// Number of disk reads so far.
    pub(super) fn reads(&self) -> u64 {
        self.of_all_disks("blkio.throttle.io_serviced")
    }

    /// Bytes read from disks so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.of_all_disks("blkio.throttle.io_service_bytes")
    }

    fn of_all_disks(&self, file: &str) -> u64 {
        let text = read(&self.blkio.join(file)).unwrap_or_default();
        text.lines()
            .filter_map(|line| line.split_once(" Read ")?.1.trim().parse::<u64>().ok())
            .sum()
    }

    fn killed(&self) -> Result<u64, String> {
        let control = read(&self.memory.join("memory.oom_control"))?;
        field(&control, "oom_kill").ok_or_else(|| "memory.oom_control has no oom_kill".to_owned())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.empty();
        // A group that is not empty stays; its name shows its owner.
        for path in self.gauges.folders() {
            let _ = fs::remove_dir(path);
        }
    }
}

/// The number after a name in a kernel file.
fn field(text: &str, name: &str) -> Option<u64> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.find(|(key, _)| *key == name)?.1.trim().parse().ok()
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn write(path: &Path, value: &str) -> Result<(), String> {
    fs::write(path, value).map_err(|error| format!("cannot write {value} to {}: {error}", path.display()))
}

/// Drops the files of a folder from the page cache. Dirty pages cannot be dropped, so they are written first.
fn forget(folder: &Path) -> Result<(), String> {
    rustix::fs::sync();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let fault = |error: std::io::Error| format!("cannot read {}: {error}", folder.display());
        for entry in fs::read_dir(&folder).map_err(fault)? {
            let path = entry.map_err(fault)?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            fs::File::open(&path)
                .and_then(|file| Ok(fadvise(&file, 0, None, Advice::DontNeed)?))
                .map_err(|error| format!("cannot forget {}: {error}", path.display()))?;
        }
    }
    Ok(())
}

/// The whole disk that holds a folder: reads of a partition cannot be limited.
fn disk(folder: &Path) -> Result<String, String> {
    let status =
        fs::metadata(folder).map_err(|error| format!("cannot look at {}: {error}", folder.display()))?;
    let device = status.dev();
    let name = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let known = Path::new("/sys/dev/block").join(&name);
    if !known.exists() {
        return Err(format!("{} is on no disk of this machine", folder.display()));
    }
    if !known.join("partition").exists() {
        return Ok(name);
    }
    let whole = known
        .canonicalize()
        .ok()
        .and_then(|part| fs::read_to_string(part.parent()?.join("dev")).ok());
    whole
        .map(|text| text.trim().to_owned())
        .ok_or_else(|| format!("{name} is a part of no disk"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_kernel_are_found_by_their_whole_name() {
        let text = "under_oom 0\noom_kill_disable 0\noom_kill 7\n";
        assert_eq!(field(text, "oom_kill"), Some(7));
        assert_eq!(field(text, "oom"), None);
    }

    #[test]
    fn a_site_can_be_forgotten_by_anybody() {
        let folder = tempfile::TempDir::new().expect("a folder");
        fs::create_dir(folder.path().join("deep")).expect("a folder");
        fs::write(folder.path().join("deep/file"), "x").expect("a file");
        assert_eq!(forget(folder.path()), Ok(()));
        assert!(forget(&folder.path().join("none")).is_err());
    }

    /// Runs where root is available.
    #[test]
    fn a_program_in_a_group_is_bounded_by_it_and_ended_with_it() {
        let group = match Group::make() {
            Ok(group) => group,
            Err(why) => {
                eprintln!("skipped: {why}");
                return;
            }
        };
        let folder = tempfile::TempDir::new().expect("a folder");
        fs::write(folder.path().join("file"), vec![1_u8; 8 << 20]).expect("a file");
        group
            .fill(folder.path(), "4MiB")
            .expect("a smaller group than the file");
        let state = group.gauges().line().expect("its state");
        let files = state["files_mib"].as_f64().expect("MiB");
        assert!(files > 0.0 && files < 4.0, "{state}");
        assert!(group.fill(folder.path(), "many").is_err());
        let before = group.before();
        let mut child = Command::new(&before[0])
            .args(&before[1..])
            .args(["sleep", "1000"])
            .spawn()
            .expect("a program");
        let gauges = group.gauges().clone();
        // It is in the group once the shell has exec'ed it.
        while fs::read_to_string(format!("/proc/{}/comm", child.id())).is_ok_and(|name| name != "sleep\n") {
            std::thread::yield_now();
        }
        assert_eq!(group.gauges().line().expect("its state")["processes"], 1);
        // An exited process stays in the group until its parent waits for it.
        let waits = std::thread::spawn(move || child.wait());
        drop(group);
        assert!(!waits.join().expect("a thread").expect("an end").success());
        assert!(gauges.folders().iter().all(|path| !path.exists()));
    }
}
