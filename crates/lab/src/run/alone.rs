//! One study at a time writes into a folder of results. Two would disturb each other's measurements, and each would
//! remove the sites that the other is writing.

use std::fs::{self, File, TryLockError};
use std::path::Path;

/// The folder, held until this is dropped; the kernel gives it back when the process ends, however it ends.
#[derive(Debug)]
pub struct Alone {
    _lock: File,
}

/// Takes the folder `out` and creates it if it is missing.
///
/// # Errors
/// Another process has it, or the file `lock` in it cannot be written.
pub fn alone(out: &Path) -> Result<Alone, String> {
    let path = out.join("lock");
    let failed = |error| format!("cannot write {}: {error}", path.display());
    fs::create_dir_all(out).map_err(|error| format!("cannot create {}: {error}", out.display()))?;
    let lock = File::create(&path).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(Alone { _lock: lock }),
        Err(TryLockError::WouldBlock) => Err(format!(
            "another `weir study` writes into {}: wait for it or end it, or choose another folder with --out",
            out.display()
        )),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::alone;

    #[test]
    fn a_folder_has_one_writer() {
        let out = std::env::temp_dir().join(format!("weir-alone-{}", std::process::id()));
        let first = alone(&out).expect("nobody has it");
        let refused = alone(&out).expect_err("it is taken");
        assert!(
            refused.contains("another `weir study`") && refused.contains("--out"),
            "{refused}"
        );
        drop(first);
        alone(&out).expect("it was given back");
        std::fs::remove_dir_all(&out).expect("ours");
    }
}
