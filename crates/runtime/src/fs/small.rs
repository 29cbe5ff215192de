//! Files that are read whole, such as lists of users. Decides only that their length is bounded.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The content of a file of at most `bytes_max` bytes. Blocks.
///
/// # Errors
/// The system's; `FileTooLarge` for a longer file; `InvalidInput` for a pipe or device, which might never end.
pub fn read_small(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    // A pipe without a writer would block before its kind is known.
    if !path.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        ));
    }
    let mut content = Vec::new();
    let read = File::open(path)?
        .take(bytes_max.saturating_add(1))
        .read_to_end(&mut content)?;
    if read as u64 > bytes_max {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is longer than {bytes_max} bytes"),
        ));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        std::fs::write(&path, b"12345").unwrap();
        assert_eq!(read_small(&path, 5).unwrap(), b"12345");
        assert_eq!(
            read_small(&path, 4).unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
        assert_eq!(
            read_small(folder.path(), 4).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
        assert_eq!(
            read_small(&folder.path().join("none"), 4).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
