//! A site as data: every file with its digest, every object, the parameters and their reasons.
//!
//! A seed always gives the same manifest. The format is versioned and described in
//! `schemas/site-manifest.schema.json`. Does not contain the site's location.

use crate::parameters::Choice;
use measure::Seed;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use twox_hash::xxhash3_128::Hasher;

/// The name of the form.
pub const FORMAT: &str = "weir-site";
/// Its version: raised when a reader of the old form could misunderstand the new one.
pub const VERSION: u32 = 1;

/// What kind of site it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Document 000.
    Surge,
    /// Document 002.
    Webstone,
    /// Document 003.
    Microscape,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Below the site's root.
    pub path: String,
    /// Media type.
    #[serde(rename = "type")]
    pub media_type: String,
    /// `base`, `embedded` or `single`.
    pub class: String,
    /// Length.
    pub bytes: u64,
    /// Requests in one pass of the sequence, or weight in a list.
    pub references: u64,
    /// XXH3 of 128 bits over the content, in hexadecimal.
    pub xxh3: String,
    /// Where its length comes from, if files of the site differ in that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<String>,
}

/// Files fetched together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectEntry {
    /// Numbers of files, the page first.
    pub files: Vec<u32>,
    /// Requests in one pass of the sequence, or weight in a list.
    pub references: u64,
}

/// Sums over the site.
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
    /// Files of an object on average, in hundredths.
    pub files_per_object_hundredths: u64,
    /// Objects asked for in one pass of the sequence.
    pub sequence: u64,
    /// Files asked for in one pass of the sequence.
    pub requests: u64,
    /// Counts of files per object exchanged between pages so that each page can name its files.
    pub exchanged: u64,
}

/// A site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The program that made it.
    pub generator: String,
    /// What kind of site.
    pub kind: Kind,
    /// The published set or list it follows.
    pub set: String,
    /// All chance in it.
    pub seed: Seed,
    /// Every parameter with its reason.
    pub choices: Vec<Choice>,
    /// Sums.
    pub totals: Totals,
    /// Digest over the numbers of the sequence's objects, 4 bytes each, little end first; none if there is no sequence.
    pub sequence_xxh3: Option<String>,
    /// Files, in the order of their numbers.
    pub files: Vec<FileEntry>,
    /// Objects, in the order of their numbers.
    pub objects: Vec<ObjectEntry>,
}

impl Manifest {
    /// Mean bytes of a file in one pass, each file as often as it is asked for; 0 if nothing is.
    pub fn requested_mean_bytes(&self) -> f64 {
        let bytes: f64 = self
            .files
            .iter()
            .map(|file| file.bytes as f64 * file.references as f64)
            .sum();
        let requests: u64 = self.files.iter().map(|file| file.references).sum();
        bytes / requests.max(1) as f64
    }

    /// Mean files of an object in one pass, each object as often as it is asked for; 0 if none is.
    pub fn requested_files_per_object(&self) -> f64 {
        self.totals.requests as f64 / self.totals.sequence.max(1) as f64
    }
}

/// Counts and digests what goes through to `inner`.
pub struct Digesting<W> {
    inner: W,
    bytes: u64,
    hasher: Hasher,
}

impl<W: Write> Digesting<W> {
    /// Digests what is written to `inner`.
    pub fn new(inner: W) -> Digesting<W> {
        Digesting {
            inner,
            bytes: 0,
            hasher: Hasher::new(),
        }
    }

    /// Bytes written, their digest in hexadecimal, and where they went.
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
