//! Figures about the server and its machine, cheap enough to read once a second.
//!
//! ```text
//!   /proc/PID/stat, task/*/schedstat   processor time, waiting for a processor, major faults, memory   (process)
//!   /proc/pressure or cgroup *.pressure  time lost to want of processor, memory, disk                  (pressure)
//!   cgroup v2 memory.*, v1 memory.*      what may be used, is used, was evicted and came back          (cgroup)
//! ```
//! Every figure is a running total or a current level; a rate takes two readings. A figure the machine does not provide
//! is `None`, never zero. What is done about the figures is not known here.

pub(crate) mod cgroup;
mod pressure;
mod process;

use crate::clock;
use cgroup::Cgroup;
use std::path::{Path, PathBuf};
use units::{Bytes, Duration, Instant};

/// Maximum processes read; if there are more, the first ones.
const PROCESSES_MAX: usize = 256;

/// The sources of the figures.
#[derive(Debug)]
pub struct Sensors {
    proc: PathBuf,
    cgroup: Option<Cgroup>,
}

/// The figures at one instant.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Time of the reading.
    pub at: Instant,
    /// The sum over the processes.
    pub process: Process,
    /// Stall times of the control group, or else of the whole machine.
    pub stalled: Stalled,
    /// The control group with the nearest memory limit; `None` without one.
    pub memory: Option<Memory>,
}

/// Resource use of a server's processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Processor time, all threads, in user and in kernel mode. A running total.
    pub cpu: Duration,
    /// Time that runnable threads waited for a processor. A running total over the current threads; `None` if the
    /// kernel does not record it, or if there are too many threads to read.
    pub run_delay: Option<Duration>,
    /// Page faults that had to wait for a disk. A running total.
    pub major_faults: u64,
    /// Resident memory; shared pages count for each process.
    pub resident: Bytes,
}

/// Running totals of pressure stall information: time in which at least one task waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalled {
    /// Waiting for a processor.
    pub cpu: Option<Duration>,
    /// Waiting for memory: reclaim, swapping, evicted pages read again.
    pub memory: Option<Duration>,
    /// Waiting for a disk.
    pub io: Option<Duration>,
}

/// Memory of a control group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The lowest limit of the group and those above it.
    pub limit: Bytes,
    /// Memory in use, including cached files and the kernel's part.
    pub used: Bytes,
    /// Cached files.
    pub files: Bytes,
    /// Anonymous memory of processes.
    pub anonymous: Bytes,
    /// Pages of files that were evicted and soon needed again. A running total; `None` if not counted.
    pub refaults: Option<u64>,
}

impl Sensors {
    /// The sensors of this process and its control group.
    pub fn open() -> Sensors {
        Sensors::below(Path::new("/"))
    }

    /// The sensors of a recorded machine, whose `proc` and control groups are below this directory.
    fn below(root: &Path) -> Sensors {
        Sensors {
            proc: root.join("proc"),
            cgroup: Cgroup::find(root),
        }
    }

    /// Takes a reading. `others` are processes that count as this one's: its workers.
    pub fn read(&self, others: &[u32]) -> Reading {
        let mut process = Process {
            run_delay: Some(Duration::ZERO),
            ..Process::default()
        };
        let own = std::iter::once("self".to_owned());
        let others = others.iter().take(PROCESSES_MAX - 1).map(u32::to_string);
        for name in own.chain(others) {
            // A process that has ended meanwhile is missing.
            if let Some(one) = process::read(&self.proc.join(name)) {
                process.cpu += one.cpu;
                process.run_delay = process.run_delay.zip(one.run_delay).map(|(a, b)| a + b);
                process.major_faults += one.major_faults;
                process.resident = Bytes(process.resident.0 + one.resident.0);
            }
        }
        Reading {
            at: clock::now(),
            process,
            stalled: self.stalled(),
            memory: self.cgroup.as_ref().and_then(Cgroup::memory),
        }
    }

    /// From the control group if it records pressure, otherwise from the machine.
    fn stalled(&self) -> Stalled {
        let of = |what: &str| {
            let own = self.cgroup.as_ref().and_then(|group| group.pressure(what));
            own.or_else(|| pressure::total(&self.proc.join("pressure").join(what)))
        };
        Stalled {
            cpu: of("cpu"),
            memory: of("memory"),
            io: of("io"),
        }
    }
}

#[cfg(test)]
mod tests;
