//! Values by slot number, in pages: growing moves nothing and never doubles what is resident.

/// Slots of a page; a page of 100-byte values stays under two memory pages' worth of slack.
const PAGE: usize = 64;

/// A table of optional values whose slots others hand out.
#[derive(Debug)]
pub(crate) struct Table<T> {
    pages: Vec<Option<Box<[Option<T>; PAGE]>>>,
    len: usize,
}

impl<T> Table<T> {
    pub(crate) const fn new() -> Table<T> {
        Table {
            pages: Vec::new(),
            len: 0,
        }
    }

    /// How many slots are taken.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// One past the highest slot that was ever taken.
    pub(crate) fn end(&self) -> u32 {
        (self.pages.len() * PAGE) as u32
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        let page = self.pages.get_mut(slot as usize / PAGE)?.as_mut()?;
        page[slot as usize % PAGE].as_mut()
    }

    /// Puts `value` into `slot`, dropping what was there.
    pub(crate) fn put(&mut self, slot: u32, value: T) {
        let at = slot as usize / PAGE;
        if at >= self.pages.len() {
            self.pages.resize_with(at + 1, || None);
        }
        let page = self.pages[at].get_or_insert_with(|| Box::new([const { None }; PAGE]));
        if page[slot as usize % PAGE].replace(value).is_none() {
            self.len += 1;
        }
    }

    pub(crate) fn take(&mut self, slot: u32) -> Option<T> {
        let page = self.pages.get_mut(slot as usize / PAGE)?.as_mut()?;
        let value = page[slot as usize % PAGE].take()?;
        self.len -= 1;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_hold_what_was_put() {
        let mut table = Table::new();
        for slot in [0, 63, 64, 1000] {
            assert!(table.get_mut(slot).is_none());
            table.put(slot, slot);
        }
        assert_eq!((table.len(), table.end()), (4, 1024));
        assert_eq!(table.get_mut(1000), Some(&mut 1000));
        table.put(63, 7);
        assert_eq!(table.take(63), Some(7));
        assert_eq!(table.take(63), None);
        assert_eq!(table.take(5000), None);
        assert_eq!(table.len(), 3);
    }
}
