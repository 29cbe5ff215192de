//! Erases the environment variables this process does not need. They often hold secrets of other programs, readable by
//! anyone who can read this process's memory or `/proc/PID/environ`.
//!
//! The program decides which variables to keep.

use crate::sys;
use std::io;

/// Erases every variable whose name `is_kept` rejects: from the environment, from that of programs started later, and
/// from memory. Earlier copies are not found, so call this first of all. Returns the number of erased variables.
///
/// # Errors
/// `Unsupported` if there is another thread, or an error of reading `/proc`. Nothing is erased then.
pub fn keep_only(is_kept: impl Fn(&[u8]) -> bool) -> io::Result<usize> {
    sys::forget_variables(&is_kept)
}
