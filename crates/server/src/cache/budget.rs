//! A bound on bytes and descriptors that holds at every moment, not on average.
//!
//! Whoever wants to keep something reserves first and gets a [`Charge`]; the reservation ends when
//! the charge is dropped, which is when the thing itself is freed: an evicted body that a slow
//! client is still being sent stays counted. What cannot be reserved is not kept.

use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bound and what is reserved of it.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: Gauge,
    descriptors: Gauge,
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
        })
    }

    /// Reserves both or neither.
    pub(crate) fn reserve(self: &Arc<Budget>, bytes: u64, descriptors: u64) -> Option<Charge> {
        if !self.bytes.reserve(bytes) {
            return None;
        }
        if !self.descriptors.reserve(descriptors) {
            self.bytes.release(bytes);
            return None;
        }
        Some(Charge {
            budget: Arc::clone(self),
            bytes,
            descriptors,
        })
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
        self.descriptors.used()
    }
}

/// A reservation; ends when dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<Budget>,
    bytes: u64,
    descriptors: u64,
}

impl Charge {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn descriptors(&self) -> u64 {
        self.descriptors
    }

    /// Puts two reservations together.
    pub(crate) fn merge(&mut self, mut other: Charge) {
        debug_assert!(Arc::ptr_eq(&self.budget, &other.budget));
        self.bytes += std::mem::take(&mut other.bytes);
        self.descriptors += std::mem::take(&mut other.descriptors);
    }

    /// Bytes that carry this reservation: it ends with their last reference.
    pub(crate) fn hold(self, data: Vec<u8>) -> Bytes {
        debug_assert!(self.bytes >= data.len() as u64);
        Bytes::from_owner(Held {
            data: data.into_boxed_slice(),
            _charge: self,
        })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.bytes.release(self.bytes);
        self.budget.descriptors.release(self.descriptors);
    }
}

struct Held {
    data: Box<[u8]>,
    _charge: Charge,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.data
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
        let mut b = budget.reserve(40, 0).unwrap();
        b.merge(a);
        assert_eq!((b.bytes(), b.descriptors()), (100, 1));
        drop(b);
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
