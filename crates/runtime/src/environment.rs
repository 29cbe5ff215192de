//! The variables a process was started with, and forgetting those it has no use for: they are often secrets of other
//! programs, and whoever can read the memory of this one, or `/proc/PID/environ`, could read them.
//!
//! Decides nothing about which these are: that is the program's.

use crate::sys;
use std::io;

/// Forgets every variable whose name is not kept: it is gone from the environment, from that of programs started later,
/// and from memory. Copies that were made before are not found, so this comes first of all. Returns how many these were.
///
/// # Errors
/// `Unsupported` once there is another thread; else that `/proc` cannot be read. Nothing was forgotten then.
pub fn keep_only(is_kept: impl Fn(&[u8]) -> bool) -> io::Result<usize> {
    sys::forget_variables(&is_kept)
}
