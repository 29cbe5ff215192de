//! What a server can notice of itself and its machine, cheaply enough to look once a second.
//!
//! ```text
//!   /proc/PID/stat, task/*/schedstat   processor time, waiting for a processor, major faults, memory   (process)
//!   /proc/pressure or cgroup *.pressure  time lost to want of processor, memory, disk                  (pressure)
//!   cgroup v2 memory.*, v1 memory.*      what may be used, is used, was evicted and came back          (cgroup)
//! ```
//! Everything is a running total or a level of this instant: whoever wants a rate takes two. What a machine does not
//! have is `None`, never zero. Refuses to know what is done about it.

pub(crate) mod cgroup;
mod pressure;
mod process;

use crate::clock;
use cgroup::Cgroup;
use measure::{Bytes, Duration, Instant};
use std::path::{Path, PathBuf};

/// Processes looked at; of a herd with more, the first so many.
const PROCESSES_MAX: usize = 256;

/// Where the numbers come from.
#[derive(Debug)]
pub struct Sensors {
    proc: PathBuf,
    cgroup: Option<Cgroup>,
}

/// What was to be seen at one instant.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// When.
    pub at: Instant,
    /// Of the processes together.
    pub process: Process,
    /// Time in which somebody waited for something, of the control group or else of the whole machine.
    pub stalled: Stalled,
    /// Of the control group that bounds memory first; none without one.
    pub memory: Option<Memory>,
}

/// What the processes of a server have used and use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Processor time, all threads, in user and in kernel mode. A running total.
    pub cpu: Duration,
    /// Time threads could have run and had no processor. A running total over the threads there are now; none where
    /// the kernel keeps no such account, or there are too many threads to look at.
    pub run_delay: Option<Duration>,
    /// Faults that had to wait for a disk. A running total.
    pub major_faults: u64,
    /// Memory that is resident, shared pages counted for each process.
    pub resident: Bytes,
}

/// Running totals of pressure stall information: time in which at least one task waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalled {
    /// For a processor.
    pub cpu: Option<Duration>,
    /// For memory: reclaim, swapping, pages that were evicted and are wanted again.
    pub memory: Option<Duration>,
    /// For a disk.
    pub io: Option<Duration>,
}

/// Memory of a control group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What may be used: the least of its own bound and those above it.
    pub limit: Bytes,
    /// What is used, cached files and the kernel's part included.
    pub used: Bytes,
    /// Cached files.
    pub files: Bytes,
    /// Memory of processes that has no file.
    pub anonymous: Bytes,
    /// Pages of files that were evicted and soon wanted again. A running total; none where it is not counted.
    pub refaults: Option<u64>,
}

impl Sensors {
    /// Those of this process and its control group.
    pub fn open() -> Sensors {
        Sensors::below(Path::new("/"))
    }

    /// Those of a machine whose `proc` and control groups are below this directory: a recorded one.
    fn below(root: &Path) -> Sensors {
        Sensors {
            proc: root.join("proc"),
            cgroup: Cgroup::find(root),
        }
    }

    /// Looks. `others` are processes that count as this one's: its workers.
    pub fn read(&self, others: &[u32]) -> Reading {
        let mut process = Process {
            run_delay: Some(Duration::ZERO),
            ..Process::default()
        };
        let own = std::iter::once("self".to_owned());
        let others = others.iter().take(PROCESSES_MAX - 1).map(u32::to_string);
        for name in own.chain(others) {
            // One that has ended meanwhile is not there.
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

    /// Of the control group where it has its own account, else of the machine.
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
