//! Limits of a workload. Every limit keeps memory below about 2 GiB, and exceeding one gives an error message.

/// Files of a site.
pub const FILES_MAX: u32 = 10_000_000;
/// References to files in one pass of the sequence.
pub const REFERENCES_MAX: u64 = 1_000_000_000;
/// Bytes of one file: what a GIF's dimensions and a 32-bit offset allow with room to spare.
pub const FILE_BYTES_MAX: u64 = 1 << 31;
/// Users of one plan, over all ranks.
pub const USERS_MAX: u32 = 10_000_000;
/// Parts of one model.
pub const PARTS_MAX: usize = 8;
/// Depth of the window that the sequence searches.
pub const WINDOW_MAX: u32 = 10_000;
/// Machines of one run at the most; each writes down the share of all.
pub const RANKS_MAX: u32 = 4096;
