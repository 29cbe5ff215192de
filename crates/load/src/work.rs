//! The files that can be requested, with their known properties, and the objects they form.
//!
//! Built from a manifest or a plain list of paths. Does not know when requests are sent, or by which user.

use crate::files::Class;
use crate::manifest::Manifest;
use crate::record::DECILES;
use crate::site::surge::path;
use crate::surge::Surge;

/// A file on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Path as sent in the request.
    pub path: Box<str>,
    /// Length in bytes, if known.
    pub bytes: Option<u64>,
    /// Role of the file in its object, if known.
    pub class: Option<Class>,
    /// XXH3-128 of the content in hexadecimal, if known.
    pub xxh3: Option<Box<str>>,
}

/// All files and objects of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Files; the index is the file's number.
    pub files: Vec<Target>,
    /// File numbers of each object, the page first.
    pub objects: Vec<Box<[u32]>>,
    /// Upper bounds of size deciles in bytes, weighted by requests; empty if sizes are unknown.
    pub deciles: Vec<u64>,
}

impl Work {
    /// Files and objects of a site below `root`, which ends with a slash.
    pub fn of_manifest(manifest: &Manifest, root: &str) -> Work {
        let bytes = |file: &u32| manifest.files.get(*file as usize).map_or(0, |file| file.bytes);
        let sizes = manifest
            .objects
            .iter()
            .map(|object| (object.files.iter().map(bytes).sum(), object.references));
        Work {
            deciles: deciles(sizes.collect()),
            files: manifest
                .files
                .iter()
                .map(|file| Target {
                    path: format!("{root}{}", file.path).into(),
                    bytes: Some(file.bytes),
                    class: Class::ALL.into_iter().find(|class| class.word() == file.class),
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

    /// Files and objects of a Surge site that exists only as a plan, below `root`.
    pub fn of_surge(surge: &Surge, root: &str) -> Work {
        let file = |(number, file): (usize, &crate::files::File)| Target {
            path: format!("{root}{}", path(number as u32, file.class)).into(),
            bytes: Some(file.size.0),
            class: Some(file.class),
            xxh3: None,
        };
        Work {
            files: surge.files.iter().enumerate().map(file).collect(),
            objects: surge
                .objects
                .iter()
                .map(|object| object.files.clone().into())
                .collect(),
            deciles: Vec::new(),
        }
    }

    /// Paths without known properties, each an object of its own.
    pub fn of_paths(paths: impl IntoIterator<Item = String>) -> Work {
        let files: Vec<Target> = paths
            .into_iter()
            .map(|path| Target {
                path: path.into(),
                bytes: None,
                class: None,
                xxh3: None,
            })
            .collect();
        Work {
            objects: (0..files.len() as u32).map(|file| [file].into()).collect(),
            files,
            deciles: Vec::new(),
        }
    }

    /// Size decile (from 0) of an object of these files; `None` if sizes are unknown.
    pub fn decile(&self, files: impl Iterator<Item = u32>) -> Option<usize> {
        if self.deciles.is_empty() {
            return None;
        }
        let bytes = files
            .map(|file| self.files.get(file as usize)?.bytes)
            .sum::<Option<u64>>()?;
        let decile = self.deciles.partition_point(|&largest| largest < bytes);
        Some(decile.min(DECILES - 1))
    }
}

/// Upper bound of each decile of `sizes`, pairs of size and weight.
fn deciles(mut sizes: Vec<(u64, u64)>) -> Vec<u64> {
    sizes.retain(|&(_, weight)| weight > 0);
    sizes.sort_unstable();
    let all: u128 = sizes.iter().map(|&(_, weight)| u128::from(weight)).sum();
    let (mut seen, mut bounds) = (0, Vec::new());
    for (bytes, weight) in sizes {
        seen += u128::from(weight);
        while bounds.len() < DECILES && seen * DECILES as u128 >= all * (bounds.len() as u128 + 1) {
            bounds.push(bytes);
        }
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deciles_are_asked_for_equally_often() {
        let sizes: Vec<(u64, u64)> = (1..=100).rev().map(|n| (n * 10, 3)).collect();
        let bounds: Vec<u64> = (1..=10).map(|n| n * 100).collect();
        assert_eq!(deciles(sizes), bounds);
        // A size requested more often than all others fills several deciles.
        assert_eq!(
            deciles(vec![(7, 95), (9, 5), (8, 0)]),
            [7, 7, 7, 7, 7, 7, 7, 7, 7, 9]
        );
        assert!(deciles(Vec::new()).is_empty());
        let file = |bytes| Target {
            path: "/".into(),
            bytes,
            class: None,
            xxh3: None,
        };
        let work = Work {
            files: vec![file(Some(60)), file(Some(50)), file(Some(5000)), file(None)],
            objects: Vec::new(),
            deciles: (1..=10).map(|n| n * 100).collect(),
        };
        for (files, decile) in [
            (&[0][..], Some(0)),
            (&[0, 1], Some(1)),
            (&[2], Some(9)),
            (&[0, 3], None),
        ] {
            assert_eq!(work.decile(files.iter().copied()), decile, "{files:?}");
        }
    }
}
