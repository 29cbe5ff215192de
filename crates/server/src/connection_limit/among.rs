//! Connections per address with several processes. Each process writes its own table in shared memory and adds up all
//! tables to read a count.
//!
//! ```text
//!   part of a process:  open │ key count │ key count │ ...      key + 1, so that 0 is a row never used
//! ```
//! Each table is written by one process, one thread at a time, so a process killed at any point leaves nothing locked. Its
//! table is zeroed when its successor starts. Sums are not of one instant: processes that accept at the same instant may
//! exceed a limit by one each. This file does not know what an address is.

use super::Refused;
use runtime::shared::Words;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of rows searched for an address before it counts as absent.
const PROBES: usize = 64;

/// The tables of all processes, and the number of this one's.
#[derive(Clone, Debug)]
pub struct Among {
    words: Words,
    len: usize,
    own: usize,
}

impl Among {
    /// Words per table, with room for this many addresses at once.
    pub fn len_for(addresses: usize) -> usize {
        1 + 2 * addresses.next_power_of_two()
    }

    /// `words` holds tables of `len` words (from [`Among::len_for`]); `own` is the index of this process's table.
    pub fn new(words: Words, len: usize, own: usize) -> Among {
        Among { words, len, own }
    }

    pub(super) fn enter(&self, key: u64, total_max: u32, address_max: u32) -> Result<(), Refused> {
        if self.total() >= total_max {
            return Err(Refused::Total);
        }
        if self.held(key) >= address_max {
            return Err(Refused::Address);
        }
        let table = self.table(self.own);
        let row = find(table, key)
            .or_else(|| claim(table, key))
            .ok_or(Refused::Total)?;
        row[1].fetch_add(1, Ordering::Relaxed);
        table[0].fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn leave(&self, key: u64) {
        let table = self.table(self.own);
        let Some(row) = find(table, key) else {
            debug_assert!(false, "leave without a matching enter");
            return;
        };
        row[1].fetch_sub(1, Ordering::Relaxed);
        table[0].fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn held(&self, key: u64) -> u32 {
        let rows = self.tables().filter_map(|table| find(table, key));
        let held: u64 = rows.map(|row| row[1].load(Ordering::Relaxed)).sum();
        u32::try_from(held).unwrap_or(u32::MAX)
    }

    pub(super) fn total(&self) -> u32 {
        let total: u64 = self.tables().map(|table| table[0].load(Ordering::Relaxed)).sum();
        u32::try_from(total).unwrap_or(u32::MAX)
    }

    /// Addresses in all tables, each counted once.
    pub(super) fn addresses(&self) -> usize {
        let rows = self.tables().flat_map(|table| table[1..].chunks_exact(2));
        let used = rows.filter(|row| row[1].load(Ordering::Relaxed) > 0);
        let keys: HashSet<u64> = used.map(|row| row[0].load(Ordering::Relaxed)).collect();
        keys.len()
    }

    fn table(&self, number: usize) -> &[AtomicU64] {
        &self.words.get()[number * self.len..][..self.len]
    }

    fn tables(&self) -> impl Iterator<Item = &[AtomicU64]> {
        self.words.get().chunks_exact(self.len)
    }
}

/// The rows in which an address may be, in order.
fn rows(table: &[AtomicU64], key: u64) -> impl Iterator<Item = &[AtomicU64]> {
    let rows = &table[1..];
    let count = rows.len() / 2;
    // Fibonacci hashing. An attacker with many addresses of one row can only use up his own share.
    let first = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
    (0..PROBES.min(count)).map(move |step| {
        let at = 2 * ((first + step) % count);
        &rows[at..at + 2]
    })
}

fn find(table: &[AtomicU64], key: u64) -> Option<&[AtomicU64]> {
    rows(table, key)
        // Rows after one that was never used are unused for this address.
        .take_while(|row| row[0].load(Ordering::Relaxed) != 0)
        .find(|row| row[0].load(Ordering::Relaxed) == key.wrapping_add(1))
}

/// Takes an unused row for this address.
fn claim(table: &[AtomicU64], key: u64) -> Option<&[AtomicU64]> {
    let row = rows(table, key).find(|row| row[1].load(Ordering::Relaxed) == 0)?;
    row[0].store(key.wrapping_add(1), Ordering::Relaxed);
    Some(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processes(count: usize, addresses: usize) -> Vec<Among> {
        let len = Among::len_for(addresses);
        let words = Words::new(count * len).unwrap();
        (0..count)
            .map(|own| Among::new(words.clone(), len, own))
            .collect()
    }

    #[test]
    fn bounds_are_common_and_the_dead_give_their_share_back() {
        let [a, b, c] = &processes(3, 4)[..] else {
            panic!("three")
        };
        a.enter(7, 10, 3).unwrap();
        b.enter(7, 10, 3).unwrap();
        c.enter(7, 10, 3).unwrap();
        assert_eq!(a.enter(7, 10, 3), Err(Refused::Address));
        assert_eq!(a.enter(8, 3, 3), Err(Refused::Total));
        b.leave(7);
        a.enter(7, 10, 3).unwrap();
        assert_eq!(b.enter(7, 10, 3), Err(Refused::Address));
        assert_eq!((a.addresses(), c.addresses()), (1, 1), "it is one and the same");
        // The process of `a` dies.
        a.words.part(0, a.len).clear();
        assert_eq!((b.total(), a.addresses()), (1, 1));
        b.enter(7, 10, 3).unwrap();
    }

    #[test]
    fn rows_are_used_again_and_a_full_table_refuses() {
        let one = &processes(1, 4)[0];
        for key in 0..1000 {
            one.enter(key, 10, 3).unwrap();
            one.leave(key);
        }
        for key in 0..4 {
            one.enter(key, 10, 3).unwrap();
        }
        assert_eq!(one.addresses(), 4);
        assert_eq!(one.enter(9, 10, 3), Err(Refused::Total));
        for key in 0..4 {
            one.leave(key);
        }
        assert_eq!((one.total(), one.addresses()), (0, 0));
    }

    #[test]
    fn all_keys_can_be_told_apart_from_none() {
        let one = &processes(1, 4)[0];
        for key in [0, u64::MAX - 1, u64::from(u32::MAX)] {
            one.enter(key, 10, 1).unwrap();
            assert_eq!(one.enter(key, 10, 1), Err(Refused::Address), "{key}");
        }
    }
}
