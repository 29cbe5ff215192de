//! Tracepoints through `perf_event_open(2)`: events of one thread on one processor, and the ring of one processor to
//! which the kernel writes their records. Opens and reads them; what a record means is not known here.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// `struct perf_event_attr` up to its version 5, the first with every field used here.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_watermark: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const TYPE_TRACEPOINT: u32 = 2;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_RAW: u64 = 1 << 10;
const DISABLED: u64 = 1;
const INHERIT: u64 = 1 << 1;
const TASK: u64 = 1 << 13;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const USE_CLOCKID: u64 = 1 << 25;
const CONTEXT_SWITCH: u64 = 1 << 26;
const CLOSE_ON_EXEC: libc::c_ulong = 8;
const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;
/// Offsets in the first page of a ring (`struct perf_event_mmap_page`).
const HEAD: usize = 1024;
const TAIL: usize = 1032;
const DATA_OFFSET: usize = 1040;
const DATA_SIZE: usize = 1048;

/// Opens a tracepoint, initially disabled, for a thread and all its future children, on one processor. Each record has
/// thread, time (`CLOCK_MONOTONIC`) and the tracepoint's own data. `switches` adds records of context switches and of
/// threads that end.
pub fn open_tracepoint(
    tracepoint: u64,
    thread: u32,
    processor: usize,
    switches: bool,
) -> io::Result<OwnedFd> {
    let attributes = Attributes {
        kind: TYPE_TRACEPOINT,
        size: size_of::<Attributes>() as u32,
        config: tracepoint,
        sample_period: 1,
        sample_type: SAMPLE_TID | SAMPLE_TIME | SAMPLE_RAW,
        flags: DISABLED
            | INHERIT
            | SAMPLE_ID_ALL
            | USE_CLOCKID
            | if switches { CONTEXT_SWITCH | TASK } else { 0 },
        clockid: libc::CLOCK_MONOTONIC,
        ..Attributes::default()
    };
    // SAFETY: the structure is a live value of the size it names; the other arguments are numbers.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            thread as libc::pid_t,
            processor as libc::c_int,
            -1 as libc::c_int,
            CLOSE_ON_EXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// Enables an event.
pub fn enable(event: BorrowedFd<'_>) -> io::Result<()> {
    control(event, IOC_ENABLE, 0)
}

/// Redirects an event's records into the ring of another event on the same processor.
pub fn record_into(event: BorrowedFd<'_>, ring: BorrowedFd<'_>) -> io::Result<()> {
    control(event, IOC_SET_OUTPUT, ring.as_raw_fd() as libc::c_ulong)
}

fn control(event: BorrowedFd<'_>, request: libc::c_ulong, argument: libc::c_ulong) -> io::Result<()> {
    // SAFETY: both requests take a number, not a pointer.
    match unsafe { libc::ioctl(event.as_raw_fd(), request as _, argument) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The memory to which the kernel writes records, and the event it belongs to.
#[derive(Debug)]
pub struct PerfRing {
    event: OwnedFd,
    start: NonNull<u8>,
    mapped: usize,
    data: usize,
    size: usize,
}

impl PerfRing {
    /// Maps the ring of this event, with 2^`order` pages for records.
    pub fn map(event: OwnedFd, order: u32) -> io::Result<PerfRing> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let page = rustix::param::page_size();
        let mapped = page + (page << order);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so that nothing that is mapped is replaced.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                mapped,
                protection,
                MapFlags::SHARED,
                &event,
                0,
            )
        }?;
        let start = NonNull::new(start.cast::<u8>()).ok_or(rustix::io::Errno::NOMEM)?;
        let mut ring = PerfRing {
            event,
            start,
            mapped,
            data: 0,
            size: 0,
        };
        let data = ring.word(DATA_OFFSET).load(Ordering::Relaxed) as usize;
        let size = ring.word(DATA_SIZE).load(Ordering::Relaxed) as usize;
        if data < page || data.checked_add(size).is_none_or(|end| end > mapped) || !size.is_power_of_two() {
            return Err(io::Error::other(
                "the kernel describes a ring outside its mapping",
            ));
        }
        (ring.data, ring.size) = (data, size);
        Ok(ring)
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the offset is one of the constants above, within the first page and aligned to words; the kernel
        // writes these words whole, and the mapping lives as long as `self`.
        unsafe { &*self.start.as_ptr().add(offset).cast::<AtomicU64>() }
    }

    /// Appends all available records to `to`.
    pub fn drain(&mut self, to: &mut Vec<u8>) {
        let head = self.word(HEAD).load(Ordering::Acquire);
        let tail = self.word(TAIL).load(Ordering::Relaxed);
        let count = (head.wrapping_sub(tail) as usize).min(self.size);
        let from = tail as usize & (self.size - 1);
        let first = count.min(self.size - from);
        for (offset, len) in [(from, first), (0, count - first)] {
            // SAFETY: offset and length lie within the data part of the mapping, and the kernel does not write
            // between tail and head, until the tail is moved below.
            let piece =
                unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(self.data + offset), len) };
            to.extend_from_slice(piece);
        }
        self.word(TAIL).store(head, Ordering::Release);
    }
}

impl AsFd for PerfRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl Drop for PerfRing {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nobody has a reference to it any more.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}
