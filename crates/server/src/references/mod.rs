//! The files that a page embeds, as paths of its own site.
//!
//! The [scan](scan()) reads a page as a stream and finds the files that a browser fetches to show it. [`Base`] turns
//! references into paths, resolved as in requests. References to other sites and directories, and those beyond
//! [`Limits`], are left out. This module does not know caches, or the use of a file.

mod resolve;
mod scan;

pub use resolve::Base;
pub use scan::scan;

use runtime::fs::{File, Wait};
use std::io::{self, Read};

/// Limits of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Number of references per page.
    pub references_max: usize,
    /// Bytes of one reference, as written in the page and as a path.
    pub reference_bytes_max: usize,
    /// Bytes of a page that are read.
    pub page_bytes_max: u64,
}

impl Limits {
    /// Enough for real pages: a page in the HTTP Archive requests some 70 objects from all sites.
    pub const DEFAULT: Limits = Limits {
        references_max: 64,
        reference_bytes_max: 512,
        page_bytes_max: 1 << 20,
    };
}

/// A file that a page embeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Embedded {
    /// Its path on the site, resolved and decoded.
    pub path: Box<[u8]>,
    /// As what a preload fetches the same (`as`, W3C Preload section 2.2): `style` or `script`. `None` for images and
    /// others, and where the page asks for it in a way that a preload without further attributes does not.
    pub purpose: Option<&'static str>,
}

/// Scans any bytes, in pieces of any size, and checks the invariants. For a fuzz target and a property test.
///
/// # Panics
/// If an invariant does not hold.
pub fn fuzz(data: &[u8]) {
    /// Splits the data into pieces whose sizes the data decide.
    struct Cut<'d>(&'d [u8], usize);
    impl Read for Cut<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let most = buf.len().min(self.1);
            self.0.read(&mut buf[..most])
        }
    }
    let (&[options, size], page) = data.split_first_chunk().unwrap_or((&[0, 0], b""));
    let limits = Limits {
        references_max: 1 + usize::from(options >> 4),
        reference_bytes_max: 8 + usize::from(options & 15) * 8,
        page_bytes_max: 4096,
    };
    let base = || Base::of_page(b"/dir/page.html", false);
    let found = scan(page, base(), &limits);
    assert_eq!(scan(Cut(page, 1 + usize::from(size)), base(), &limits), found);
    assert!(found.len() <= limits.references_max);
    let mut again = Vec::new();
    for Embedded { path, .. } in &found {
        assert!(path.len() <= limits.reference_bytes_max && path.starts_with(b"/") && !path.ends_with(b"/"));
        let mut encoded = Vec::new();
        crate::path::encode(path, &mut encoded);
        // It is resolved, normalized, and names no hidden file.
        assert_eq!(crate::path::resolve(&encoded, false, &mut again), Ok(()));
        assert_eq!(**path, *again);
        assert_eq!(found.iter().filter(|other| other.path == *path).count(), 1);
    }
}

/// The references of one page, with the hashes of their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct References {
    ids: Box<[u64]>,
    paths: Box<[Box<[u8]>]>,
}

/// Bytes per reference beyond its path: hash, pointer, allocation, and its records in a policy.
const OVERHEAD: u64 = 96;

impl References {
    pub(crate) fn new(found: Vec<Embedded>, hash: impl Fn(&[u8]) -> u64) -> References {
        References {
            ids: found.iter().map(|one| hash(&one.path)).collect(),
            paths: found.into_iter().map(|one| one.path).collect(),
        }
    }

    /// Hashes of the paths, in the order of the page.
    pub(crate) fn ids(&self) -> &[u64] {
        &self.ids
    }

    /// Hash and path of each reference.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.ids
            .iter()
            .copied()
            .zip(self.paths.iter().map(|path| &**path))
    }

    /// Memory used, in bytes.
    pub(crate) fn footprint(&self) -> u64 {
        self.paths.iter().map(|path| OVERHEAD + path.len() as u64).sum()
    }
}

/// An open file as a stream; reading may block on the disk.
#[derive(Debug)]
pub(crate) struct Stream<'f> {
    file: &'f File,
    at: u64,
}

impl Stream<'_> {
    /// A stream from the start of the file.
    pub(crate) fn of(file: &File) -> Stream<'_> {
        Stream { file, at: 0 }
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let got = self.file.read_at(buf, self.at, Wait::Block);
        let got = got.map_err(io::Error::other)?;
        self.at += got as u64;
        Ok(got)
    }
}
