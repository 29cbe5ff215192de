//! The environment this process was started with.

use std::ffi::{CStr, c_char};
use std::io;

unsafe extern "C" {
    /// The array that `getenv` and `exec` read (environ(7)).
    static mut environ: *mut *mut c_char;
}

/// Removes every variable from the environment whose name is not kept, and overwrites it in place with zeros, which
/// `/proc/PID/environ` then shows. Returns their number.
///
/// # Errors
/// `Unsupported` if this process has more than one thread, because another could be reading; or an error of `/proc`.
pub(crate) fn forget_variables(is_kept: &dyn Fn(&[u8]) -> bool) -> io::Result<usize> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        let why = "a process with several threads cannot change its environment";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    let mut forgotten = 0;
    // SAFETY: there is one thread, as was just seen, so nobody else reads or changes the array or its strings meanwhile,
    // and nobody holds a reference into them: std hands out copies. The array ends with a null pointer, `to` never gets
    // ahead of `from`, and each string is writable (it is on the initial stack, or setenv made it) and ends with a
    // zero, before which the overwriting stops.
    unsafe {
        let mut from = environ;
        let mut to = from;
        if from.is_null() {
            return Ok(0);
        }
        while !(*from).is_null() {
            let entry = *from;
            let text = CStr::from_ptr(entry).to_bytes();
            let name = text.split(|&b| b == b'=').next().unwrap_or_default();
            if is_kept(name) {
                *to = entry;
                to = to.add(1);
            } else {
                let len = text.len();
                entry.write_bytes(0, len);
                forgotten += 1;
            }
            from = from.add(1);
        }
        *to = std::ptr::null_mut();
    }
    Ok(forgotten)
}
