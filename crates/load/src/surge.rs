//! A Surge workload: files, references, objects and their sequence, from parameters and a seed.
//!
//! The offline stage of Surge, steps 1 to 5. Holds a few dozen bytes per file and reference count; [`crate::site`] and
//! [`crate::plan`] generate content and requests on output.

use crate::files::{Class, File, sizes};
use crate::objects::{Object, PageTooSmall, assemble, file_counts};
use crate::parameters::Parameters;
use crate::sequence::{Sequence, sequence};
use crate::{matching, page, popularity};
use units::Seed;

/// A workload without file contents.
#[derive(Clone, Debug, PartialEq)]
pub struct Surge {
    /// Parameters it was generated from.
    pub parameters: Parameters,
    /// Seed it was generated from.
    pub seed: Seed,
    /// Base files, then embedded, then single files.
    pub files: Vec<File>,
    /// Reference count of each file, from matching.
    pub references: Vec<u64>,
    /// Files that are fetched together.
    pub objects: Vec<Object>,
    /// Number of file counts exchanged between pages to fit.
    pub exchanged: u32,
    /// Reference count of each object, for the sequence.
    object_references: Vec<u64>,
}

impl Surge {
    /// Generates the workload of a seed.
    ///
    /// # Errors
    /// If a page has no room for its references.
    pub fn new(parameters: Parameters, seed: Seed) -> Result<Surge, PageTooSmall> {
        let counts = parameters.shares.counts(parameters.files);
        let models = [
            &parameters.base_size,
            &parameters.embedded_size,
            &parameters.single_size,
        ];
        let files: Vec<File> = Class::ALL
            .into_iter()
            .zip(counts)
            .zip(models)
            .flat_map(|((class, count), model)| {
                sizes(model, class, seed)
                    .take(count as usize)
                    .map(move |size| File { class, size })
            })
            .collect();
        let ranked = popularity::zipf(parameters.files, parameters.references, parameters.zipf_exponent);
        let references = matching::greedy(&files, &ranked, &parameters.request_size);
        let per_object = file_counts(
            &parameters.files_per_object,
            parameters.files_per_object_max,
            seed,
        );
        let made = assemble(&files, &references, per_object, parameters.counted, |size| {
            page::room(size, parameters.files)
        })?;
        let object_references = made.objects.iter().map(|object| object.references).collect();
        Ok(Surge {
            parameters,
            seed,
            files,
            references,
            objects: made.objects,
            exchanged: made.exchanged,
            object_references,
        })
    }

    /// One pass of the sequence of objects.
    pub fn sequence(&self) -> Sequence<'_> {
        sequence(
            &self.object_references,
            &self.parameters.stack_distance,
            self.parameters.stack_window,
            self.seed,
        )
    }

    /// Number of requests for objects in one pass.
    pub fn sequence_length(&self) -> u64 {
        self.object_references.iter().sum()
    }

    /// Number of requests for each file in one pass, over all objects: the server's view.
    pub fn requests(&self) -> Vec<u64> {
        let mut requests = vec![0; self.files.len()];
        for object in &self.objects {
            for &file in &object.files {
                requests[file as usize] += object.references;
            }
        }
        requests
    }

    /// Total bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size.0).sum()
    }
}

#[cfg(test)]
mod tests;
