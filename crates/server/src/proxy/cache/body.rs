//! Content that is stored while it passes to the client. Memory is reserved before it is taken, so the budget holds at every
//! moment.

use super::store::Store;
use crate::cache::Charge;
use bytes::Bytes;

/// First reservation for content whose length is not known.
const FIRST: u64 = 4 << 10;

/// Content that has arrived so far.
#[derive(Debug)]
pub(super) struct Growing {
    data: Vec<u8>,
    charge: Charge,
    most: u64,
}

impl Growing {
    /// Begins with room for content of this length, if it is known. `None`: it is larger than `most`, or there is no room.
    pub(super) fn new(store: &Store, length: Option<u64>, most: u64) -> Option<Growing> {
        let room = length.unwrap_or(FIRST);
        if room > most {
            return None;
        }
        let charge = store.reserve(room)?;
        Some(Growing {
            data: Vec::with_capacity(usize::try_from(room).ok()?),
            charge,
            most,
        })
    }

    /// Appends content. `false`: it is too large, or there is no room for it; it is then useless.
    pub(super) fn add(&mut self, store: &Store, more: &[u8]) -> bool {
        let needed = (self.data.len() + more.len()) as u64;
        if needed > self.most {
            return false;
        }
        if needed > self.charge.bytes() {
            let room = (self.charge.bytes() * 2).clamp(needed, self.most.max(needed));
            let Some(charge) = store.reserve(room - self.charge.bytes()) else {
                return false;
            };
            self.charge.join(charge);
            self.data
                .reserve_exact((room as usize).saturating_sub(self.data.len()));
        }
        self.data.extend_from_slice(more);
        true
    }

    /// Bytes so far.
    pub(super) fn len(&self) -> u64 {
        self.data.len() as u64
    }

    /// The content, which holds its reservation until its last reference is dropped.
    pub(super) fn finish(mut self) -> Bytes {
        self.data.shrink_to_fit();
        self.charge.shrink_to(self.data.len() as u64);
        self.charge.hold(self.data)
    }
}
