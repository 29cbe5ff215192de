//! Tracing by tracepoints: two tracepoints for each thread on each processor, a ring for each processor, their records
//! sorted by time. What calls mean is not known here.
//!
//! The IDs of the tracepoints are read from tracefs: where it is mounted, or else from a mount that is attached nowhere
//! (fsmount(2)), so that nothing on the machine changes.

use super::record::{self, Ids};
use super::{ENDS, Event, Tracer};
use runtime::{clock, sys};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use units::{Duration, Instant};

/// Pages of a ring: two to this power. If that is not permitted, half as many are tried.
const ORDER_MAX: u32 = 11;
const ORDER_MIN: u32 = 4;
/// A record may appear in its ring this much later than its time says.
const LATE: Duration = Duration::from_millis(1);

pub(super) struct Tracepoints {
    ids: Ids,
    rings: Vec<sys::perf::PerfRing>,
    /// Kept open: closing an event stops its recording.
    _events: Vec<OwnedFd>,
    /// Incomplete records at the end of each ring's data.
    rest: Vec<Vec<u8>>,
    /// Events later than the time that all rings have certainly reached.
    waiting: Vec<Event>,
    lost: u64,
}

impl Tracepoints {
    pub(super) fn attach(threads: &[u32]) -> io::Result<Tracepoints> {
        let ids = ids()?;
        let mut rings: Vec<sys::perf::PerfRing> = Vec::new();
        let mut events = Vec::new();
        for (place, processor) in processors()?.into_iter().enumerate() {
            for &thread in threads {
                let opened =
                    sys::perf::open_tracepoint(ids.enter, thread, processor, true).and_then(|enter| {
                        let exit = sys::perf::open_tracepoint(ids.exit, thread, processor, false)?;
                        Ok((enter, exit))
                    });
                let (enter, exit) = match opened {
                    Ok(both) => both,
                    // It has ended since it was listed.
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => continue,
                    Err(error) => return Err(error),
                };
                match rings.get(place) {
                    None => {
                        let ring = ring(enter)?;
                        sys::perf::record_into(exit.as_fd(), ring.as_fd())?;
                        rings.push(ring);
                    }
                    Some(ring) => {
                        sys::perf::record_into(enter.as_fd(), ring.as_fd())?;
                        sys::perf::record_into(exit.as_fd(), ring.as_fd())?;
                        events.push(enter);
                    }
                }
                events.push(exit);
            }
            if rings.len() == place {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
        }
        let all = rings
            .iter()
            .map(AsFd::as_fd)
            .chain(events.iter().map(AsFd::as_fd));
        for event in all {
            sys::perf::enable(event)?;
        }
        Ok(Tracepoints {
            ids,
            rest: vec![Vec::new(); rings.len()],
            rings,
            _events: events,
            waiting: Vec::new(),
            lost: 0,
        })
    }

    /// Reads the rings and delivers events up to `until`, in order.
    fn drain(&mut self, until: Instant, take: &mut dyn FnMut(Event)) {
        for (ring, rest) in self.rings.iter_mut().zip(&mut self.rest) {
            ring.drain(rest);
            let taken = record::read(rest, self.ids, &mut self.waiting, &mut self.lost);
            rest.drain(..taken);
        }
        // Stable: records of one ring keep their order if times are equal.
        self.waiting.sort_by_key(|event| event.at);
        let due = self.waiting.partition_point(|event| event.at <= until);
        self.waiting.drain(..due).for_each(take);
    }
}

impl Tracer for Tracepoints {
    fn turn(&mut self, patience: Duration, take: &mut dyn FnMut(Event)) -> io::Result<bool> {
        // Not by polling the rings: those of an ended thread are always ready.
        let interrupted = sys::next_signal(&ENDS, Some(patience))?.is_some();
        let now = clock::now().as_nanos();
        let until = Instant::from_nanos(now.saturating_sub(LATE.as_nanos() as u64));
        self.drain(until, take);
        Ok(interrupted)
    }

    fn finish(mut self: Box<Self>, take: &mut dyn FnMut(Event)) -> io::Result<u64> {
        self.drain(Instant::from_nanos(u64::MAX), take);
        Ok(self.lost)
    }

    fn ended(&self, _process: u32) -> Option<i32> {
        None
    }

    fn waits(&self) -> bool {
        false
    }
}

fn ring(event: OwnedFd) -> io::Result<sys::perf::PerfRing> {
    let mut order = ORDER_MAX;
    loop {
        match sys::perf::PerfRing::map(event.try_clone()?, order) {
            Err(error)
                if order > ORDER_MIN && matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOMEM)) =>
            {
                order -= 1;
            }
            other => return other,
        }
    }
}

/// Processors in use: `0-3,6`.
fn processors() -> io::Result<Vec<usize>> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    parse_list(&list).ok_or_else(|| io::Error::other("cannot parse the kernel's list of processors"))
}

fn parse_list(list: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        all.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(all)
}

/// # Errors
/// The system's, if tracefs is neither readable nor to be mounted.
pub(super) fn ids() -> io::Result<Ids> {
    let mut refusal = None;
    for folder in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"] {
        let id = |name: &str| {
            let path = format!("{folder}/events/raw_syscalls/{name}/id");
            parse_id(&std::fs::read_to_string(path)?)
        };
        match id("sys_enter").and_then(|enter| {
            Ok(Ids {
                enter,
                exit: id("sys_exit")?,
            })
        }) {
            Ok(ids) => return Ok(ids),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    // If tracefs is not mounted, the first error says only that nothing is there; the second, that mounting it is
    // refused.
    let is_of_rights = |refusal: &io::Error| refusal.kind() == io::ErrorKind::PermissionDenied;
    detached().map_err(|error| refusal.filter(is_of_rights).unwrap_or(error))
}

/// From tracefs, mounted but attached nowhere.
fn detached() -> io::Result<Ids> {
    use rustix::fs::{Mode, OFlags, openat};
    use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(context.as_fd())?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOEXEC | MountAttrFlags::MOUNT_ATTR_NOSUID;
    let top = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags)?;
    let id = |name: &str| {
        let path = format!("events/raw_syscalls/{name}/id");
        let mut text = String::new();
        File::from(openat(
            &top,
            path,
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?)
        .read_to_string(&mut text)?;
        parse_id(&text)
    };
    Ok(Ids {
        enter: id("sys_enter")?,
        exit: id("sys_exit")?,
    })
}

fn parse_id(text: &str) -> io::Result<u64> {
    text.trim().parse().map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        assert_eq!(parse_list("0-3,6\n"), Some(vec![0, 1, 2, 3, 6]));
        assert_eq!(parse_list("0"), Some(vec![0]));
        assert_eq!(parse_list("a-b"), None);
    }
}
