//! Files that are read whole, such as lists of users, and folders of them. Decides only that their length is bounded.

use std::ffi::OsString;
use std::fs::{self, File};
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

/// The sorted names in a folder that end with `suffix`, at most `most`. Blocks.
///
/// # Errors
/// The system's; `QuotaExceeded` if there are more.
pub fn names_in(folder: &Path, suffix: &str, most: usize) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if !name.as_encoded_bytes().ends_with(suffix.as_bytes()) {
            continue;
        }
        if names.len() == most {
            return Err(io::Error::new(
                io::ErrorKind::QuotaExceeded,
                format!("more than {most} files end with {suffix}"),
            ));
        }
        names.push(name);
    }
    names.sort_unstable();
    Ok(names)
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

    #[test]
    fn the_names_in_a_folder_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.one", "a.one", "c.other"] {
            std::fs::write(folder.path().join(name), b"").unwrap();
        }
        assert_eq!(names_in(folder.path(), ".one", 2).unwrap(), ["a.one", "b.one"]);
        let error = names_in(folder.path(), ".one", 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::QuotaExceeded);
        let none = names_in(&folder.path().join("none"), ".one", 1).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::NotFound);
    }
}
