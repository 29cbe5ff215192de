//! A site as data: every file with its digest, every object, the parameters and the reasons for their values.
//!
//! A seed always gives the same manifest. The format is versioned and described in `schemas/site-manifest.schema.json`.
//! Does not contain the site's location.

use crate::parameters::Choice;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use twox_hash::xxhash3_128::Hasher;
use units::Seed;

/// Name of the format.
pub const FORMAT: &str = "weir-site";
/// Version of the format; raised when an older reader could misunderstand it.
pub const VERSION: u32 = 1;

/// Kind of site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Surge, document 000.
    Surge,
    /// WebStone, document 002.
    Webstone,
    /// Microscape, document 003.
    Microscape,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Path below the site's root.
    pub path: String,
    /// Media type.
    #[serde(rename = "type")]
    pub media_type: String,
    /// `base`, `embedded` or `single`.
    pub class: String,
    /// Length in bytes.
    pub bytes: u64,
    /// Requests in one pass of the sequence, or weight in a list.
    pub references: u64,
    /// XXH3-128 of the content, in hexadecimal.
    pub xxh3: String,
    /// Source of the length, if it differs between files of the site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<String>,
}

/// Files fetched together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectEntry {
    /// File numbers, the page first.
    pub files: Vec<u32>,
    /// Requests in one pass of the sequence, or weight in a list.
    pub references: u64,
}

/// Totals of the site.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Totals {
    /// Number of files.
    pub files: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Mean length of a file.
    pub mean_bytes: u64,
    /// Median length of a file.
    pub median_bytes: u64,
    /// Number of objects.
    pub objects: u64,
    /// Mean files per object, in hundredths.
    pub files_per_object_hundredths: u64,
    /// Requests for objects in one pass of the sequence.
    pub sequence: u64,
    /// Requests for files in one pass of the sequence.
    pub requests: u64,
    /// Number of file counts exchanged between pages so that each page has room for its references.
    pub exchanged: u64,
}

/// Manifest of a site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Always [`FORMAT`].
    pub format: String,
    /// Always [`VERSION`].
    pub version: u32,
    /// Program and version that generated the site.
    pub generator: String,
    /// What kind of site.
    pub kind: Kind,
    /// Published set or list that the site follows.
    pub set: String,
    /// Seed of everything random in the site.
    pub seed: Seed,
    /// Every parameter with the reason for its value.
    pub choices: Vec<Choice>,
    /// Sums.
    pub totals: Totals,
    /// Digest over the object numbers of the sequence, 4 bytes each, little-endian; `None` without a sequence.
    pub sequence_xxh3: Option<String>,
    /// Files by number.
    pub files: Vec<FileEntry>,
    /// Objects by number.
    pub objects: Vec<ObjectEntry>,
}

impl Manifest {
    /// Mean response size in bytes over one pass of requests; 0 without requests.
    pub fn requested_mean_bytes(&self) -> f64 {
        let bytes: f64 = self
            .files
            .iter()
            .map(|file| file.bytes as f64 * file.references as f64)
            .sum();
        let requests: u64 = self.files.iter().map(|file| file.references).sum();
        bytes / requests.max(1) as f64
    }

    /// Mean files per object over one pass of requests; 0 without requests.
    pub fn requested_files_per_object(&self) -> f64 {
        self.totals.requests as f64 / self.totals.sequence.max(1) as f64
    }
}

/// A writer that counts and digests the bytes written to `inner`.
pub struct Digesting<W> {
    inner: W,
    bytes: u64,
    hasher: Hasher,
}

impl<W: Write> Digesting<W> {
    /// Wraps `inner`.
    pub fn new(inner: W) -> Digesting<W> {
        Digesting {
            inner,
            bytes: 0,
            hasher: Hasher::new(),
        }
    }

    /// Number of bytes written, their digest in hexadecimal, and the inner writer.
    pub fn finish(self) -> (u64, String, W) {
        (
            self.bytes,
            format!("{:032x}", self.hasher.finish_128()),
            self.inner,
        )
    }
}

impl<W: Write> Write for Digesting<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(buf)?;
        self.hasher.write(&buf[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<W> core::fmt::Debug for Digesting<W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Digesting({} bytes)", self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_do_not_depend_on_how_bytes_arrive() {
        let digest = |pieces: &[&[u8]]| {
            let mut out = Digesting::new(Vec::new());
            for piece in pieces {
                out.write_all(piece).unwrap();
            }
            out.finish()
        };
        let (bytes, whole, content) = digest(&[b"weir site"]);
        assert_eq!((bytes, content.as_slice()), (9, &b"weir site"[..]));
        assert_eq!(whole.len(), 32);
        assert_eq!(whole, digest(&[b"we", b"", b"ir site"]).1);
        assert_ne!(whole, digest(&[b"weir sitf"]).1);
    }
}
