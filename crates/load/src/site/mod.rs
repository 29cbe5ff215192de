//! Content of a site: pages with references to their embedded files, images and text, all of exact lengths.
//!
//! A [`Site`] knows its files by number and writes each to the caller's writer. It stores no content, so memory does
//! not grow with the site. Knows no folders or disks.

pub mod microscape;
pub mod surge;

use crate::files::Class;
use crate::manifest::{FORMAT, FileEntry, Kind, Manifest, ObjectEntry, Totals, VERSION};
use crate::page;
use crate::parameters::{Choice, Provenance};
use crate::surge::Surge;
use crate::webstone::List;
use microscape::TagCase;
use std::io::{self, Write};
use twox_hash::xxhash3_128::Hasher;
use units::{Bytes, Seed};

/// File name of a manifest.
pub const MANIFEST: &str = "manifest.json";

/// Limit on the folders around the files of a WebStone site.
pub const DEPTH_MAX: u8 = 32;

/// Each of these folders, with its slash.
const FOLDER: &str = "folder/";

/// A site to be written.
#[derive(Clone, Debug)]
pub enum Site {
    /// Surge, document 000.
    Surge(Box<Surge>),
    /// WebStone, document 002.
    Webstone {
        /// File list.
        list: List,
        /// Seed of the content.
        seed: Seed,
        /// Number of folders, one inside the other, around the files; at most [`DEPTH_MAX`].
        depth: u8,
    },
    /// Microscape, document 003.
    Microscape {
        /// Letter case of tags.
        tags: TagCase,
        /// Seed of the content.
        seed: Seed,
    },
}

/// Properties of a file, known before it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Path below the site's root.
    pub path: String,
    /// Media type.
    pub media_type: &'static str,
    /// Role in the site's pages.
    pub class: Class,
    /// Length in bytes.
    pub size: Bytes,
    /// Source of the length, if it differs between files.
    pub provenance: Option<&'static str>,
}

impl Site {
    /// Number of files.
    pub fn files(&self) -> u32 {
        match self {
            Site::Surge(surge) => surge.files.len() as u32,
            Site::Webstone { list, .. } => list.files().len() as u32,
            Site::Microscape { .. } => 1 + microscape::IMAGES.len() as u32,
        }
    }

    /// Properties of file `number`.
    pub fn describe(&self, number: u32) -> Described {
        match self {
            Site::Surge(surge) => surge::describe(surge, number),
            Site::Webstone { list, depth, .. } => {
                let listed = list.files()[number as usize];
                Described {
                    path: FOLDER.repeat(usize::from(*depth)) + listed.path,
                    media_type: "text/html",
                    class: Class::Single,
                    size: listed.size,
                    provenance: None,
                }
            }
            Site::Microscape { .. } => microscape::describe(number),
        }
    }

    /// Total bytes of all files.
    pub fn bytes(&self) -> u64 {
        (0..self.files()).map(|number| self.describe(number).size.0).sum()
    }

    /// A writer for the files, one after another.
    pub fn contents(&self) -> Contents<'_> {
        Contents {
            site: self,
            pages: match self {
                Site::Surge(surge) => surge::pages(surge),
                _ => Vec::new(),
            },
        }
    }

    /// The manifest, from the digests of all files in order of their numbers.
    pub fn manifest(&self, digests: Vec<String>, generator: &str) -> Manifest {
        let references = self.references();
        let files: Vec<FileEntry> = digests
            .into_iter()
            .enumerate()
            .map(|(number, xxh3)| {
                let described = self.describe(number as u32);
                FileEntry {
                    path: described.path,
                    media_type: described.media_type.to_owned(),
                    class: described.class.word().to_owned(),
                    bytes: described.size.0,
                    references: references[number],
                    xxh3,
                    provenance: described.provenance.map(str::to_owned),
                }
            })
            .collect();
        let objects = self.objects();
        let (kind, set, seed, choices) = self.origin();
        Manifest {
            format: FORMAT.to_owned(),
            version: VERSION,
            generator: generator.to_owned(),
            kind,
            set: set.to_owned(),
            seed,
            choices,
            totals: self.totals(&files, &objects),
            sequence_xxh3: match self {
                Site::Surge(surge) => Some(sequence_digest(surge)),
                _ => None,
            },
            files,
            objects,
        }
    }

    fn origin(&self) -> (Kind, &'static str, Seed, Vec<Choice>) {
        match self {
            Site::Surge(surge) => {
                let parameters = &surge.parameters;
                (
                    Kind::Surge,
                    parameters.set.name(),
                    surge.seed,
                    parameters.choices.clone(),
                )
            }
            Site::Webstone { list, seed, depth } => {
                let mut choices = vec![Choice {
                    name: "list".to_owned(),
                    value: list.name().to_owned(),
                    provenance: match list {
                        List::Table1 => Provenance::Printed,
                        List::Standard => Provenance::Recovered,
                    },
                    reason: list.note().to_owned(),
                }];
                if *depth > 0 {
                    choices.push(Choice {
                        name: "depth".to_owned(),
                        value: depth.to_string(),
                        provenance: Provenance::Given,
                        reason:
                            "a server that looks for a file in each folder opens as many more for a request"
                                .to_owned(),
                    });
                }
                (Kind::Webstone, list.name(), *seed, choices)
            }
            Site::Microscape { tags, seed } => {
                (Kind::Microscape, "microscape", *seed, microscape::choices(*tags))
            }
        }
    }

    fn references(&self) -> Vec<u64> {
        match self {
            Site::Surge(surge) => surge.requests(),
            Site::Webstone { list, .. } => list.files().iter().map(|file| file.weight).collect(),
            Site::Microscape { .. } => vec![1; self.files() as usize],
        }
    }

    fn objects(&self) -> Vec<ObjectEntry> {
        let entry = |files: Vec<u32>, references| ObjectEntry { files, references };
        match self {
            Site::Surge(surge) => {
                let objects = surge.objects.iter();
                objects
                    .map(|object| entry(object.files.clone(), object.references))
                    .collect()
            }
            Site::Webstone { list, .. } => {
                let files = list.files().iter().enumerate();
                files
                    .map(|(number, file)| entry(vec![number as u32], file.weight))
                    .collect()
            }
            Site::Microscape { .. } => vec![entry((0..self.files()).collect(), 1)],
        }
    }

    fn totals(&self, files: &[FileEntry], objects: &[ObjectEntry]) -> Totals {
        let mut sizes: Vec<u64> = files.iter().map(|file| file.bytes).collect();
        sizes.sort_unstable();
        let bytes: u64 = sizes.iter().sum();
        let members: u64 = objects.iter().map(|object| object.files.len() as u64).sum();
        let exchanged = match self {
            Site::Surge(surge) => surge.exchanged,
            _ => 0,
        };
        Totals {
            files: files.len() as u64,
            bytes,
            mean_bytes: bytes / (files.len() as u64).max(1),
            median_bytes: sizes.get(sizes.len() / 2).copied().unwrap_or(0),
            objects: objects.len() as u64,
            files_per_object_hundredths: members * 100 / (objects.len() as u64).max(1),
            sequence: objects.iter().map(|object| object.references).sum(),
            requests: objects
                .iter()
                .map(|object| object.references * object.files.len() as u64)
                .sum(),
            exchanged: u64::from(exchanged),
        }
    }
}

/// Digest over the object numbers of one pass.
pub fn sequence_digest(surge: &Surge) -> String {
    let mut hasher = Hasher::new();
    for object in surge.sequence() {
        hasher.write(&object.to_le_bytes());
    }
    format!("{:032x}", hasher.finish_128())
}

/// Writes the files of a site.
#[derive(Debug)]
pub struct Contents<'a> {
    site: &'a Site,
    /// For each base file, the number of the object whose page it is.
    pages: Vec<u32>,
}

impl Contents<'_> {
    /// Writes file `number` with exactly its described length.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn write(&self, number: u32, out: &mut impl Write) -> io::Result<()> {
        match self.site {
            Site::Surge(surge) => surge::write(surge, &self.pages, number, out),
            Site::Webstone { list, seed, .. } => {
                let listed = list.files()[number as usize];
                page::write(listed.path, &[], listed.size, content(*seed, number), out)
            }
            Site::Microscape { tags, seed } => microscape::write(*tags, *seed, number, out),
        }
    }
}

/// Generator of a file's content.
fn content(seed: Seed, number: u32) -> units::Rng {
    crate::chance::stream(seed, crate::chance::Purpose::Content, u64::from(number))
}

#[cfg(test)]
mod tests;
