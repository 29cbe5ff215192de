//! The control group of this process, version 1 or 2, and its memory figures.
//!
//! `/proc/self/cgroup` names the group, `/proc/self/mountinfo` the mount point of its hierarchy. In version 2, the
//! limits of all groups above apply as well; in version 1, the kernel combines them itself
//! (`hierarchical_memory_limit`).

use super::{Memory, pressure};
use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use units::{Bytes, Duration};

/// A limit and the use of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) bytes: u64,
    pub(crate) limit: u64,
}

impl Used {
    /// The share that is used.
    pub(crate) fn thousandths(self) -> u64 {
        let share = u128::from(self.bytes) * 1_000 / u128::from(self.limit.max(1));
        u64::try_from(share).unwrap_or(u64::MAX)
    }
}

/// Maximum groups read above one.
const DEPTH_MAX: usize = 32;

#[derive(Debug)]
pub(crate) enum Cgroup {
    /// The group in the single hierarchy, and the directory at which its ancestors end.
    V2 { folder: PathBuf, top: PathBuf },
    /// The group in the memory hierarchy.
    V1 { folder: PathBuf },
}

impl Cgroup {
    /// The group on the machine whose files are below `root`; `None` if no controller handles memory.
    pub(crate) fn find(root: &Path) -> Option<Cgroup> {
        let groups = read_to_string(root.join("proc/self/cgroup")).ok()?;
        let mounts = read_to_string(root.join("proc/self/mountinfo")).ok()?;
        let mount = |is: &dyn Fn(&Mount<'_>) -> bool| {
            mounts
                .lines()
                .filter_map(Mount::parse)
                .find(|mount| is(mount))
                .map(|mount| {
                    (
                        PathBuf::from(mount.root),
                        root.join(mount.point.trim_start_matches('/')),
                    )
                })
        };
        for line in groups.lines() {
            let mut fields = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            if controllers.split(',').any(|name| name == "memory") {
                let is = |mount: &Mount<'_>| {
                    mount.kind == "cgroup" && mount.options.split(',').any(|option| option == "memory")
                };
                let (above, point) = mount(&is)?;
                return Some(Cgroup::V1 {
                    folder: place(&point, &above, path),
                });
            }
        }
        // A group in the version 2 hierarchy counts only if it has a memory controller.
        let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
        let (above, top) = mount(&|mount| mount.kind == "cgroup2")?;
        let folder = place(&top, &above, path);
        folder
            .join("memory.current")
            .exists()
            .then_some(Cgroup::V2 { folder, top })
    }

    /// Its memory figures; `None` without a memory limit in force.
    pub(super) fn memory(&self) -> Option<Memory> {
        match self {
            Cgroup::V2 { folder, top } => {
                let limit = folder
                    .ancestors()
                    .take(DEPTH_MAX)
                    .take_while(|above| above.starts_with(top))
                    .filter_map(|above| number(&above.join("memory.max")))
                    .min()?;
                let stat = read_to_string(folder.join("memory.stat")).ok()?;
                Some(Memory {
                    limit: Bytes(limit),
                    used: Bytes(number(&folder.join("memory.current"))?),
                    files: Bytes(value(&stat, "file")?),
                    anonymous: Bytes(value(&stat, "anon")?),
                    refaults: value(&stat, "workingset_refault_file"),
                })
            }
            Cgroup::V1 { folder } => {
                let stat = read_to_string(folder.join("memory.stat")).ok()?;
                let limit = value(&stat, "hierarchical_memory_limit")?;
                is_bound(limit).then_some(())?;
                Some(Memory {
                    limit: Bytes(limit),
                    used: Bytes(number(&folder.join("memory.usage_in_bytes"))?),
                    files: Bytes(value(&stat, "total_cache")?),
                    anonymous: Bytes(value(&stat, "total_rss")?),
                    refaults: value(&stat, "total_workingset_refault_file"),
                })
            }
        }
    }

    /// The use of the nearest limit, without cached files, which the kernel drops before it kills. The limit may be the
    /// group's own or one above it; each is compared with the use of all groups below it. `None` without a memory limit
    /// in force.
    pub(crate) fn demand(&self) -> Option<Used> {
        let of = |limit: u64, usage: &Path, stat: &str, prefix: &str| {
            let file = |name: &str| value(stat, &format!("{prefix}{name}")).unwrap_or(0);
            let droppable = file("active_file") + file("inactive_file");
            Some(Used {
                bytes: number(usage)?.saturating_sub(droppable),
                limit,
            })
        };
        match self {
            Cgroup::V2 { folder, top } => folder
                .ancestors()
                .take(DEPTH_MAX)
                .take_while(|above| above.starts_with(top))
                .filter_map(|above| {
                    let limit = number(&above.join("memory.max"))?;
                    let stat = read_to_string(above.join("memory.stat")).unwrap_or_default();
                    of(limit, &above.join("memory.current"), &stat, "")
                })
                .max_by_key(|used| used.thousandths()),
            Cgroup::V1 { folder } => {
                let stat = read_to_string(folder.join("memory.stat")).ok()?;
                let limit = value(&stat, "hierarchical_memory_limit").filter(|limit| is_bound(*limit))?;
                of(limit, &folder.join("memory.usage_in_bytes"), &stat, "total_")
            }
        }
    }

    /// The group's own pressure record, which version 1 does not have.
    pub(super) fn pressure(&self, what: &str) -> Option<Duration> {
        match self {
            Cgroup::V2 { folder, .. } => pressure::total(&folder.join(format!("{what}.pressure"))),
            Cgroup::V1 { .. } => None,
        }
    }
}

/// A line of `mountinfo` (proc(5)).
struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Mount<'a>> {
        let (front, back) = line.split_once(" - ")?;
        let mut front = front.split(' ').skip(3);
        let mut back = back.split(' ');
        Some(Mount {
            root: front.next()?,
            point: front.next()?,
            kind: back.next()?,
            options: back.nth(1)?,
        })
    }
}

/// The directory of a group whose hierarchy is mounted at `point`, starting at its group `above`. A container sees `/`
/// as its own.
fn place(point: &Path, above: &Path, group: &str) -> PathBuf {
    let relative = Path::new(group).strip_prefix(above).unwrap_or(Path::new(""));
    let full = point.join(relative);
    if full.exists() { full } else { point.to_owned() }
}

/// Version 1 writes "no limit" as the largest possible number of pages.
fn is_bound(limit: u64) -> bool {
    limit < i64::MAX as u64 / 2
}

fn number(file: &Path) -> Option<u64> {
    read_to_string(file).ok()?.trim().parse().ok()
}

fn value(stat: &str, name: &str) -> Option<u64> {
    stat.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?
        .parse()
        .ok()
}
