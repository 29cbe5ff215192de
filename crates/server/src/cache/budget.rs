//! A limit on bytes and descriptors that holds at every moment, not just on average.
//!
//! Reserve first, then allocate: a reservation returns a [`Charge`], and ends when that is dropped together with the
//! memory itself. So an evicted body that is still being sent to a slow client stays counted. If a reservation fails,
//! the content is not cached.

use bytes::Bytes;
use runtime::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The limits, and the amounts reserved.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: Gauge,
    descriptors: Gauge,
    /// Files still being sent after the entry that reserved their descriptors was freed.
    lingering: Mutex<Vec<Weak<File>>>,
}

#[derive(Debug)]
struct Gauge {
    limit: u64,
    used: AtomicU64,
    peak: AtomicU64,
}

impl Gauge {
    fn new(limit: u64) -> Gauge {
        Gauge {
            limit,
            used: AtomicU64::new(0),
            peak: AtomicU64::new(0),
        }
    }

    fn reserve(&self, n: u64) -> bool {
        let fits = |used: u64| used.checked_add(n).filter(|&sum| sum <= self.limit);
        match self.used.fetch_update(Ordering::AcqRel, Ordering::Relaxed, fits) {
            Ok(before) => {
                self.peak.fetch_max(before + n, Ordering::Relaxed);
                true
            }
            Err(_) => false,
        }
    }

    fn release(&self, n: u64) {
        let before = self.used.fetch_sub(n, Ordering::AcqRel);
        debug_assert!(before >= n, "released more than was reserved");
    }

    fn used(&self) -> u64 {
        self.used.load(Ordering::Acquire)
    }
}

impl Budget {
    pub(crate) fn new(bytes: u64, descriptors: u64) -> Arc<Budget> {
        Arc::new(Budget {
            bytes: Gauge::new(bytes),
            descriptors: Gauge::new(descriptors),
            lingering: Mutex::default(),
        })
    }

    /// Reserves bytes and descriptors, both or neither.
    pub(crate) fn reserve(self: &Arc<Budget>, bytes: u64, descriptors: u64) -> Option<Charge> {
        if !self.bytes.reserve(bytes) {
            return None;
        }
        if descriptors > 0 {
            self.count_closed();
        }
        if !self.descriptors.reserve(descriptors) {
            self.bytes.release(bytes);
            return None;
        }
        Some(Charge {
            budget: Arc::clone(self),
            bytes,
            descriptors,
            files: Vec::new(),
        })
    }

    /// Releases the reservations of files that have been closed meanwhile.
    fn count_closed(&self) {
        let mut lingering = self.lingering.lock().unwrap_or_else(PoisonError::into_inner);
        let before = lingering.len();
        lingering.retain(|file| file.strong_count() > 0);
        self.descriptors.release((before - lingering.len()) as u64);
    }

    pub(crate) fn bytes_limit(&self) -> u64 {
        self.bytes.limit
    }

    pub(crate) fn bytes_used(&self) -> u64 {
        self.bytes.used()
    }

    pub(crate) fn bytes_peak(&self) -> u64 {
        self.bytes.peak.load(Ordering::Relaxed)
    }

    pub(crate) fn descriptors_limit(&self) -> u64 {
        self.descriptors.limit
    }

    pub(crate) fn descriptors_used(&self) -> u64 {
        self.count_closed();
        self.descriptors.used()
    }
}

/// A reservation; ends when dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<Budget>,
    bytes: u64,
    descriptors: u64,
    /// The files for which descriptors are reserved.
    files: Vec<Arc<File>>,
}

impl Charge {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn descriptors(&self) -> u64 {
        self.descriptors
    }

    /// Adds another reservation of bytes to this one.
    pub(crate) fn join(&mut self, mut other: Charge) {
        debug_assert!(Arc::ptr_eq(&self.budget, &other.budget) && other.descriptors == 0);
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Gives back what is above this number of bytes.
    pub(crate) fn shrink_to(&mut self, bytes: u64) {
        let unused = self.bytes.saturating_sub(bytes);
        self.bytes -= unused;
        self.budget.bytes.release(unused);
    }

    /// Binds the reserved descriptors to files. Each stays reserved until its file is closed, possibly after this
    /// reservation has ended.
    pub(crate) fn attach(&mut self, files: &[Arc<File>]) {
        debug_assert_eq!(files.len() as u64, self.descriptors);
        self.files = files.to_vec();
    }

    /// Returns the data as `Bytes` that hold this reservation until their last reference is dropped.
    pub(crate) fn hold(self, data: Vec<u8>) -> Bytes {
        debug_assert!(self.bytes >= data.len() as u64);
        Bytes::from_owner(Held {
            data: data.into_boxed_slice(),
            _charge: self,
        })
    }

    /// As [`Charge::hold`], for content that is in memory already.
    pub(crate) fn hold_bytes(self, data: Bytes) -> Bytes {
        debug_assert!(self.bytes >= data.len() as u64);
        Bytes::from_owner(Held { data, _charge: self })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.bytes.release(self.bytes);
        let mut closed = self.descriptors;
        for file in self.files.drain(..) {
            let weak = Arc::downgrade(&file);
            // Drop this reference first and check afterwards: whichever thread drops the last one, the file is counted
            // once.
            drop(file);
            if weak.strong_count() > 0 {
                closed -= 1;
                self.budget
                    .lingering
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(weak);
            }
        }
        self.budget.descriptors.release(closed);
    }
}

struct Held<D> {
    data: D,
    _charge: Charge,
}

impl<D: AsRef<[u8]>> AsRef<[u8]> for Held<D> {
    fn as_ref(&self) -> &[u8] {
        self.data.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_reserved_twice_or_half() {
        let budget = Budget::new(100, 1);
        let a = budget.reserve(60, 1).unwrap();
        assert!(budget.reserve(41, 0).is_none());
        assert!(budget.reserve(10, 1).is_none(), "no descriptor left");
        assert_eq!(budget.bytes_used(), 60, "a refusal leaves nothing reserved");
        let b = budget.reserve(40, 0).unwrap();
        assert_eq!((a.bytes(), a.descriptors()), (60, 1));
        drop((a, b));
        let mut joined = budget.reserve(30, 0).unwrap();
        joined.join(budget.reserve(20, 0).unwrap());
        joined.shrink_to(40);
        assert_eq!((joined.bytes(), budget.bytes_used()), (40, 40));
        joined.shrink_to(60);
        drop(joined);
        assert_eq!(
            (
                budget.bytes_used(),
                budget.descriptors_used(),
                budget.bytes_peak()
            ),
            (0, 0, 100)
        );
        assert!(budget.reserve(u64::MAX, 0).is_none());
    }

    #[test]
    fn a_descriptor_stays_counted_until_its_file_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let root = runtime::fs::Root::open(dir.path()).unwrap();
        let how = runtime::fs::How {
            symlinks: runtime::fs::Symlinks::Refuse,
            wait: runtime::fs::Wait::Block,
        };
        let file = Arc::new(root.open_file(b"", how).unwrap());
        let budget = Budget::new(100, 1);
        let mut charge = budget.reserve(0, 1).unwrap();
        charge.attach(&[Arc::clone(&file)]);
        drop(charge);
        assert_eq!(budget.descriptors_used(), 1, "it is still being sent");
        assert!(budget.reserve(0, 1).is_none());
        drop(file);
        assert_eq!(budget.descriptors_used(), 0);
        assert!(budget.reserve(0, 1).is_some());
    }

    #[test]
    fn bytes_stay_counted_while_anyone_holds_a_slice() {
        let budget = Budget::new(100, 0);
        let body = budget.reserve(50, 0).unwrap().hold(vec![7; 50]);
        let slice = body.slice(10..12);
        drop(body);
        assert_eq!(budget.bytes_used(), 50);
        drop(slice);
        assert_eq!(budget.bytes_used(), 0);
    }
}
