//! Memory: what processes leave of it caches files, the least recently used file goes first. When processes need more
//! than there is, part of them is on the disk. Decides what has to be read; the disk decides how long it takes.

use std::collections::BTreeMap;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// Sizes of a host's memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// All memory.
    pub(crate) all: u64,
    /// The system, the idle pool and everything else that is always there.
    pub(crate) base: u64,
    /// Memory of a connection while its response is written.
    pub(crate) serving: u64,
    /// Memory of a connection that waits: for its next request, or with one for the disk.
    pub(crate) idle: u64,
    /// Least memory for cached files.
    pub(crate) cache_min: u64,
    /// Bytes that one request to the disk reads of a file, or of a process that is paged out.
    pub(crate) read_ahead: u64,
}

/// A host's memory.
#[derive(Debug)]
pub(crate) struct Memory {
    sizes: Sizes,
    /// Connections whose responses are being written, and the others.
    serving: u64,
    idle: u64,
    cached: u64,
    /// By file: the last use and the bytes in memory.
    files: BTreeMap<u32, (u64, u64)>,
    by_use: BTreeMap<u64, u32>,
    uses: u64,
}

/// Requests to the disk and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
}

impl Memory {
    pub(crate) fn new(sizes: Sizes) -> Memory {
        Memory {
            sizes,
            serving: 0,
            idle: 0,
            cached: 0,
            files: BTreeMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
        }
    }

    /// Memory of all connections.
    pub(crate) fn own(&self) -> u64 {
        self.serving * self.sizes.serving + self.idle * self.sizes.idle
    }

    /// Bytes of cached files.
    pub(crate) fn cached(&self) -> u64 {
        self.cached
    }

    fn for_files(&self) -> u64 {
        let left = self.sizes.all.saturating_sub(self.sizes.base + self.own());
        left.max(self.sizes.cache_min)
    }

    /// A connection is there; it waits.
    pub(crate) fn opened(&mut self) {
        self.idle += 1;
        self.shrink();
    }

    /// A waiting connection is gone.
    pub(crate) fn closed(&mut self) {
        self.idle = self.idle.saturating_sub(1);
    }

    /// A waiting connection has a request: returns what has to be paged in, of the memory that it had while it waited.
    pub(crate) fn wake(&self) -> Reads {
        let own = self.own();
        let room = self
            .sizes
            .all
            .saturating_sub(self.sizes.base + self.sizes.cache_min);
        let out = own.saturating_sub(room) as f64 / own.max(1) as f64;
        let bytes = (self.sizes.idle as f64 * out) as u64;
        Reads {
            requests: bytes.div_ceil(self.sizes.read_ahead),
            bytes,
        }
    }

    /// A waiting connection is served from now on, with more memory: nothing of that can be on the disk.
    pub(crate) fn serve(&mut self) {
        self.idle = self.idle.saturating_sub(1);
        self.serving += 1;
        self.shrink();
    }

    /// A connection that was served waits again.
    pub(crate) fn rest(&mut self) {
        self.serving = self.serving.saturating_sub(1);
        self.idle += 1;
    }

    /// Uses a file of `bytes`; returns what has to be read. A miss costs a request for its inode, too.
    pub(crate) fn file(&mut self, file: u32, bytes: u64) -> Reads {
        self.uses += 1;
        let pages = bytes.div_ceil(PAGE).max(1) * PAGE;
        if let Some((used, _)) = self.files.get_mut(&file) {
            self.by_use.remove(used);
            *used = self.uses;
            self.by_use.insert(self.uses, file);
            return Reads::default();
        }
        self.files.insert(file, (self.uses, pages));
        self.by_use.insert(self.uses, file);
        self.cached += pages;
        self.shrink();
        Reads {
            requests: 1 + bytes.div_ceil(self.sizes.read_ahead).max(1),
            bytes: pages,
        }
    }

    fn shrink(&mut self) {
        let most = self.for_files();
        while self.cached > most
            && let Some((_, file)) = self.by_use.pop_first()
            && let Some((_, bytes)) = self.files.remove(&file)
        {
            self.cached -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(all: u64) -> Memory {
        Memory::new(Sizes {
            all,
            base: 1000 * PAGE,
            serving: 90 * PAGE,
            idle: 20 * PAGE,
            cache_min: 10 * PAGE,
            read_ahead: 16 * PAGE,
        })
    }

    #[test]
    fn the_least_recently_used_file_goes_first() {
        let mut memory = memory(1100 * PAGE);
        assert_eq!(
            memory.file(1, 40 * PAGE),
            Reads {
                requests: 4,
                bytes: 40 * PAGE
            }
        );
        assert_eq!(memory.file(2, 40 * PAGE).requests, 4);
        assert_eq!(memory.file(1, 40 * PAGE), Reads::default());
        assert_eq!(memory.file(3, 40 * PAGE).requests, 4);
        assert_eq!(memory.file(1, 40 * PAGE), Reads::default());
        assert_eq!(memory.file(2, 40 * PAGE).requests, 4);
        assert_eq!(memory.cached(), 80 * PAGE);
    }

    #[test]
    fn connections_take_memory_from_files_and_then_from_each_other() {
        let mut memory = memory(1100 * PAGE);
        memory.file(1, 60 * PAGE);
        memory.opened();
        memory.opened();
        assert_eq!((memory.own(), memory.cached()), (40 * PAGE, 60 * PAGE));
        memory.opened();
        assert_eq!((memory.cached(), memory.wake()), (0, Reads::default()));
        // 90 pages and two waiting connections: 130 pages, where 90 fit beside the least cache.
        memory.serve();
        let reads = memory.wake();
        assert_eq!(reads.bytes, (20.0 * 40.0 / 130.0 * PAGE as f64) as u64);
        assert_eq!(reads.requests, 1);
        memory.rest();
        memory.closed();
        memory.closed();
        memory.serve();
        assert_eq!(memory.wake(), Reads::default());
    }
}
