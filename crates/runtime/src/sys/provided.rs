//! Buffers lent to the kernel: a provided-buffer ring, from which a receive takes a buffer only when data arrives.
//!
//! ```text
//!   ours (Box) ── lend ──▶ in the ring ── the kernel fills one, says its number ── take ──▶ ours (Box)
//! ```
//! Each buffer is a box of its own, so a filled one can travel like any other. While it is lent, only its address is
//! kept. Decides nothing about received data. See `io_uring_register_buf_ring(3)`.

use crate::buffer::Buf;
use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

/// The buffers of one ring.
pub(super) struct Provided {
    /// The ring shared with the kernel: page-aligned, `lent.len()` entries.
    entries: NonNull<BufRingEntry>,
    /// By number: the buffer, while it is lent.
    lent: Vec<Option<NonNull<u8>>>,
    /// Numbers of buffers that are not lent.
    free: Vec<u16>,
    /// Bytes of each.
    size: usize,
    tail: u16,
}

impl Provided {
    /// `count` (a power of two) buffers of `size` bytes, all lent once they are registered.
    ///
    /// # Errors
    /// If there is no memory.
    pub(super) fn new(count: u16, size: usize) -> std::io::Result<Provided> {
        assert!(count.is_power_of_two(), "the kernel wants a power of two");
        // SAFETY: a new anonymous mapping at an address the kernel chooses overlaps nothing.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                usize::from(count) * size_of::<BufRingEntry>(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        let mut provided = Provided {
            entries: NonNull::new(base.cast()).expect("a mapping is never at address zero"),
            lent: vec![None; usize::from(count)],
            free: (0..count).rev().collect(),
            size,
            tail: 0,
        };
        for _ in 0..count {
            provided.lend(vec![0; size].into_boxed_slice());
        }
        Ok(provided)
    }

    /// The ring's address and number of entries, for registration.
    pub(super) fn address(&self) -> (u64, u16) {
        (self.entries.as_ptr() as u64, self.lent.len() as u16)
    }

    /// Lends a buffer; returns it if it has another size or is one too many.
    pub(super) fn give(&mut self, buf: Buf) -> Option<Buf> {
        if buf.bytes.len() != self.size || self.free.is_empty() {
            return Some(buf);
        }
        self.lend(buf.bytes);
        None
    }

    fn lend(&mut self, bytes: Box<[u8]>) {
        let number = self.free.pop().expect("the caller has looked");
        let start = NonNull::new(Box::into_raw(bytes).cast::<u8>()).expect("a box is never null");
        self.lent[usize::from(number)] = Some(start);
        let at = usize::from(self.tail) & (self.lent.len() - 1);
        // SAFETY: `at` is below the number of entries, all of which lie in the mapping and are zeroed or
        // were written here. The kernel reads entries before the tail only, and this one is at it.
        let entry = unsafe { self.entries.add(at).as_mut() };
        entry.set_addr(start.as_ptr() as u64);
        entry.set_len(self.size as u32);
        entry.set_bid(number);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail overlays a field of the first entry that `set_*` above does not touch; it is
        // aligned for u16 and lives as long as the mapping. The kernel reads it with acquire ordering.
        unsafe {
            let tail = BufRingEntry::tail(self.entries.as_ptr()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }

    /// Takes the buffer into which the kernel put `len` bytes.
    pub(super) fn take(&mut self, number: u16, len: usize) -> Buf {
        let start = self.lent[usize::from(number)]
            .take()
            .expect("the kernel names a buffer it had");
        self.free.push(number);
        // SAFETY: `start` came out of a box of `size` bytes in `lend`, was taken out of the list just now
        // so that this happens once, and the kernel is done with a buffer whose completion it has posted.
        let bytes = unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(start.as_ptr(), self.size)) };
        Buf {
            len: len.min(bytes.len()),
            bytes,
        }
    }

    /// Prevents freeing, because the kernel may still write to the memory.
    pub(super) fn leak(&mut self) {
        self.lent.clear();
    }
}

impl Drop for Provided {
    /// Only when no receive is under way any more; otherwise call [`Provided::leak`] first.
    fn drop(&mut self) {
        if self.lent.is_empty() {
            return;
        }
        let count = self.lent.len();
        for start in self.lent.drain(..).flatten() {
            // SAFETY: as in `take`; whoever drops this makes sure that the kernel is done.
            drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(start.as_ptr(), self.size)) });
        }
        // SAFETY: the mapping made in `new`, of this length, to which nothing points any more.
        let _ =
            unsafe { rustix::mm::munmap(self.entries.as_ptr().cast(), count * size_of::<BufRingEntry>()) };
    }
}
