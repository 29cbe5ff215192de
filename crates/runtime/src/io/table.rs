//! Slots for connections: stable numbers, generations, memory that grows in pages.
//!
//! A page never moves, so growing copies nothing and never doubles the memory. Freed slots are reused last in, first
//! out, while they are still in the processor's cache.

use super::Id;

/// Slots per page.
const PAGE: usize = 128;

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// A table of `T` by [`Id`].
#[derive(Debug)]
pub(crate) struct Table<T> {
    /// Arrays, so that a lookup neither loads nor checks the length of a page.
    pages: Vec<Box<[Slot<T>; PAGE]>>,
    free: Vec<u32>,
    used: usize,
}

impl<T> Table<T> {
    pub(crate) fn new() -> Table<T> {
        Table {
            pages: Vec::new(),
            free: Vec::new(),
            used: 0,
        }
    }

    /// Number of slots that hold a value.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// Number of slots, used or not: every index is below.
    pub(crate) fn slots(&self) -> u32 {
        (self.pages.len() * PAGE) as u32
    }

    /// Bytes of memory per slot.
    #[cfg(test)]
    pub(crate) const fn slot_size() -> usize {
        size_of::<Slot<T>>() + size_of::<u32>()
    }

    fn add_page(&mut self) {
        let page: Box<[Slot<T>]> = (0..PAGE)
            .map(|_| Slot {
                generation: 0,
                value: None,
            })
            .collect();
        let page: Result<Box<[Slot<T>; PAGE]>, _> = page.try_into();
        self.pages
            .push(page.unwrap_or_else(|_| unreachable!("it has as many slots")));
    }

    /// Stores a value in a free slot.
    pub(crate) fn insert(&mut self, value: T) -> Id {
        if self.free.is_empty() {
            let first = self.slots();
            self.add_page();
            self.free.extend((first..first + PAGE as u32).rev());
        }
        let index = self.free.pop().expect("a page was added");
        let slot = &mut self.pages[index as usize / PAGE][index as usize % PAGE];
        slot.value = Some(value);
        self.used += 1;
        Id {
            index,
            generation: slot.generation,
        }
    }

    /// Stores a value in the slot chosen by another table.
    pub(crate) fn insert_at(&mut self, id: Id, value: T) {
        while id.index >= self.slots() {
            self.add_page();
        }
        let slot = &mut self.pages[id.index as usize / PAGE][id.index as usize % PAGE];
        debug_assert!(slot.value.is_none(), "the slot is free");
        *slot = Slot {
            generation: id.generation,
            value: Some(value),
        };
        self.used += 1;
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        let slot = &mut self.pages.get_mut(id.index as usize / PAGE)?[id.index as usize % PAGE];
        if slot.generation != id.generation {
            return None;
        }
        slot.value.as_mut()
    }

    /// The id of a slot's current value.
    pub(crate) fn id_at(&self, index: u32) -> Option<Id> {
        let slot = &self.pages.get(index as usize / PAGE)?[index as usize % PAGE];
        slot.value.as_ref()?;
        Some(Id {
            index,
            generation: slot.generation,
        })
    }

    /// Removes a value; the slot's next value has another generation.
    pub(crate) fn remove(&mut self, id: Id) -> Option<T> {
        let value = self.take(id)?;
        self.free.push(id.index);
        Some(value)
    }

    /// As [`Table::remove`], for a table whose slots another table chooses.
    pub(crate) fn remove_at(&mut self, id: Id) -> Option<T> {
        self.take(id)
    }

    fn take(&mut self, id: Id) -> Option<T> {
        self.get_mut(id)?;
        let slot = &mut self.pages[id.index as usize / PAGE][id.index as usize % PAGE];
        // The highest generation is never used: back ends mark events that belong to no connection with it.
        slot.generation = (slot.generation + 1) % u32::MAX;
        self.used -= 1;
        slot.value.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_used_again_does_not_answer_to_its_old_id() {
        let mut table = Table::new();
        let first = table.insert("first");
        assert_eq!(table.remove(first), Some("first"));
        assert_eq!(table.remove(first), None);
        let second = table.insert("second");
        assert_eq!(second.index, first.index);
        assert_eq!(table.get_mut(first), None);
        assert_eq!(table.get_mut(second), Some(&mut "second"));
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn growing_moves_nothing_and_ids_of_one_table_serve_another() {
        let (mut owner, mut follower) = (Table::new(), Table::new());
        let ids: Vec<Id> = (0..1000).map(|i| owner.insert(i)).collect();
        for (i, &id) in ids.iter().enumerate() {
            follower.insert_at(id, i);
        }
        assert_eq!((owner.slots(), follower.slots()), (1024, 1024));
        for (i, &id) in ids.iter().enumerate() {
            assert_eq!(owner.get_mut(id), Some(&mut (i as i32)));
            assert_eq!(follower.remove_at(id), Some(i));
            assert_eq!(follower.id_at(id.index), None);
        }
        assert_eq!(follower.len(), 0);
    }
}
