//! A Surge workload: files, references, objects and their sequence, from parameters and a seed.
//!
//! The offline stage of Surge, steps 1 to 5. Holds a few dozen bytes for each file and reference count;
//! content and requests are made on the way out, by [`crate::site`] and [`crate::plan`].

use crate::files::{Class, File, sizes};
use crate::objects::{Object, PageTooSmall, assemble, file_counts};
use crate::parameters::Parameters;
use crate::sequence::{Sequence, sequence};
use crate::site::page;
use crate::{matching, popularity};
use measure::Seed;

/// A workload, complete but for its content.
#[derive(Clone, Debug, PartialEq)]
pub struct Surge {
    /// What it was made from.
    pub parameters: Parameters,
    /// What else it was made from.
    pub seed: Seed,
    /// Base files, then embedded, then single.
    pub files: Vec<File>,
    /// References that matching gave to each file.
    pub references: Vec<u64>,
    /// What is fetched together.
    pub objects: Vec<Object>,
    /// Counts of files per object that were exchanged between pages to fit.
    pub exchanged: u32,
    /// The objects' references, as the sequence takes them.
    object_references: Vec<u64>,
}

impl Surge {
    /// Makes the workload of a seed.
    ///
    /// # Errors
    /// A page too small for what it should embed.
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

    /// Objects asked for in one pass.
    pub fn sequence_length(&self) -> u64 {
        self.object_references.iter().sum()
    }

    /// Requests to each file in one pass, counted through the objects: what the server sees.
    pub fn requests(&self) -> Vec<u64> {
        let mut requests = vec![0; self.files.len()];
        for object in &self.objects {
            for &file in &object.files {
                requests[file as usize] += object.references;
            }
        }
        requests
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size.0).sum()
    }
}

#[cfg(test)]
mod tests;
