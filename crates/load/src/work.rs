//! What can be asked for: files with what is known of them, and objects made of files.
//!
//! Comes from a manifest or from a plain list of paths. Refuses to know who asks, and when.

use crate::manifest::Manifest;

/// A file on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// As it stands in a request.
    pub path: Box<str>,
    /// Its length, if known.
    pub bytes: Option<u64>,
    /// XXH3-128 of its content in hexadecimal, if known.
    pub xxh3: Option<Box<str>>,
}

/// Everything that can be asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Files by number.
    pub files: Vec<Target>,
    /// The files of each object, the page first.
    pub objects: Vec<Box<[u32]>>,
}

impl Work {
    /// The files and objects of a site that lies below `root` (which ends with a slash).
    pub fn of_manifest(manifest: &Manifest, root: &str) -> Work {
        Work {
            files: manifest
                .files
                .iter()
                .map(|file| Target {
                    path: format!("{root}{}", file.path).into(),
                    bytes: Some(file.bytes),
                    xxh3: Some(file.xxh3.as_str().into()),
                })
                .collect(),
            objects: manifest
                .objects
                .iter()
                .map(|object| object.files.clone().into())
                .collect(),
        }
    }

    /// Paths of which nothing is known, each an object.
    pub fn of_paths(paths: impl IntoIterator<Item = String>) -> Work {
        let files: Vec<Target> = paths
            .into_iter()
            .map(|path| Target {
                path: path.into(),
                bytes: None,
                xxh3: None,
            })
            .collect();
        Work {
            objects: (0..files.len() as u32).map(|file| [file].into()).collect(),
            files,
        }
    }
}
