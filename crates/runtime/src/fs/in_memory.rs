//! Files that exist in memory only: content that is sent with `sendfile` and read as bytes, without a second copy.
//!
//! The kernel seals the content once it is written, so neither the bytes nor their number change as long as anybody has
//! them.

use super::{File, Found, Meta};
use crate::sys;
use bytes::Bytes;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

impl File {
    /// A file in memory with this content, and the content as bytes that live as long as their last reference, with or
    /// without the file. Takes whole pages of memory, and a descriptor as long as the file is open.
    ///
    /// # Errors
    /// The errno of the system if it has no descriptor or no memory left, or forbids such files.
    pub fn in_memory(content: &[u8]) -> io::Result<(Arc<File>, Bytes)> {
        let fd = sys::memory_file(content)?;
        let mapped = sys::Mapped::of(fd.as_fd(), content.len())?;
        let file = File {
            meta: Meta::of(fd.as_fd())?,
            fd,
            name: Box::default(),
            found: Found::default(),
            is_in_memory: true,
        };
        Ok((Arc::new(file), Bytes::from_owner(mapped)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::Wait;

    #[test]
    fn a_file_in_memory_is_read_both_ways_and_never_changes() {
        let content: Vec<u8> = (0..10_000_u32).map(|n| n as u8).collect();
        let (file, bytes) = File::in_memory(&content).unwrap();
        assert_eq!(bytes, content);
        assert_eq!(file.read_all(0, 20_000, Wait::Block).unwrap(), content);
        assert_eq!(file.meta().len, 10_000);
        assert!(file.was_resident(0, 10_000) && file.has_same_content());
        // Nobody can write, extend or cut it, not even with its descriptor.
        assert!(rustix::io::pwrite(&file, b"x", 0).is_err());
        assert!(rustix::fs::ftruncate(&file, 1).is_err());
        assert!(rustix::fs::ftruncate(&file, 20_000).is_err());
        drop(file);
        assert_eq!(
            bytes.slice(9_000..),
            content[9_000..],
            "the bytes outlive the file"
        );
        let (_, empty) = File::in_memory(b"").unwrap();
        assert!(empty.is_empty());
    }
}
