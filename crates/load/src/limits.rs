//! Limits of a workload. Every limit keeps memory below about 2 GiB, and exceeding one gives an error message.

/// Limit on the files of a site.
pub const FILES_MAX: u32 = 10_000_000;
/// Limit on references to files in one pass of the sequence.
pub const REFERENCES_MAX: u64 = 1_000_000_000;
/// Limit on the bytes of a file: well within the range of a GIF's dimensions and a 32-bit offset.
pub const FILE_BYTES_MAX: u64 = 1 << 31;
/// Limit on the users of a plan, over all ranks.
pub const USERS_MAX: u32 = 10_000_000;
/// Limit on the parts of a model.
pub const PARTS_MAX: usize = 8;
/// Limit on the depth of the window that the sequence searches.
pub const WINDOW_MAX: u32 = 10_000;
/// Limit on the machines of a run; each of them records the share of all.
pub const RANKS_MAX: u32 = 4096;
