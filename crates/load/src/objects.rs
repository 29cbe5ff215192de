//! Objects: a base file with its embedded files, or a single file.
//!
//! Step 4 of Surge, recovered from its source. One count of files is drawn per base file; the more popular the base
//! file, the lower its count. Each object takes the embedded files with the most references left and spends the base
//! file's references on them. Popular pages therefore embed few files, embedded files may be shared, and some are
//! unused or over-used.
//!
//! One rule is Weir's own: a page must have room for its references. If a count does not fit into a page of its size,
//! it is exchanged with the page closest in popularity where both fit.

use crate::chance::{Purpose, stream};
use crate::files::{Class, File};
use crate::model::Model;
use core::cmp::Reverse;
use core::fmt;
use serde::{Deserialize, Serialize};
use std::collections::BinaryHeap;
use units::{Bytes, Rng, Seed};

/// Meaning of a draw from the model of files per object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Counted {
    /// All files of the object, including the base file.
    Files,
    /// The embedded files only.
    Embedded,
}

/// Files that are fetched together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// File numbers, the base file first.
    pub files: Vec<u32>,
    /// Requests for the object in one pass of the sequence.
    pub references: u64,
}

/// Endless stream of file counts per base object: whole numbers, drawn again above `max`.
#[derive(Debug)]
pub struct FileCounts<'a> {
    model: &'a Model,
    max: u32,
    rng: Rng,
}

/// File counts of `seed`. The model must have enough mass between 1 and `max`; see [`counted_cdf`].
pub fn file_counts(model: &Model, max: u32, seed: Seed) -> FileCounts<'_> {
    FileCounts {
        model,
        max,
        rng: stream(seed, Purpose::FilesPerObject, 0),
    }
}

impl Iterator for FileCounts<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        loop {
            let count = self.model.draw(&mut self.rng);
            if count >= 1.0 && count < f64::from(self.max) + 1.0 {
                return Some(count as u32);
            }
        }
    }
}

/// Share of counts at most `count`, after rounding down and truncation at `max`.
pub fn counted_cdf(model: &Model, max: u32, count: u64) -> f64 {
    // Just below the next whole number, so that a model with a point mass there is counted correctly.
    let below = |n: u64| model.cdf((n as f64).next_down());
    let (from, to) = (below(1), below(u64::from(max) + 1));
    ((below(count + 1) - from) / (to - from)).clamp(0.0, 1.0)
}

/// A page too small for its references, with no page to exchange with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageTooSmall {
    /// File number of the page.
    pub file: u32,
    /// Its length.
    pub size: Bytes,
    /// Number of files it should embed.
    pub embedded: u32,
    /// Number of references it has room for.
    pub room: u32,
}

impl fmt::Display for PageTooSmall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PageTooSmall {
            file,
            size,
            embedded,
            room,
        } = self;
        write!(
            f,
            "page {file} of {} bytes should embed {embedded} files and can name {room}; raise the sizes of \
             base files or lower the files per object",
            size.0
        )
    }
}

impl std::error::Error for PageTooSmall {}

/// Result of [`assemble`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembled {
    /// Single files first, then pages by descending popularity, as in the original.
    pub objects: Vec<Object>,
    /// Number of counts exchanged because they did not fit into their page.
    pub exchanged: u32,
}

/// Groups files into objects. `references` has one count per file; `room` says how many references fit into a page of a
/// given length.
///
/// # Errors
/// If a page has no room for its references.
pub fn assemble(
    files: &[File],
    references: &[u64],
    counts: FileCounts<'_>,
    counted: Counted,
    room: impl Fn(Bytes) -> u32,
) -> Result<Assembled, PageTooSmall> {
    let of = |class| (0..files.len() as u32).filter(move |&file| files[file as usize].class == class);
    let mut pages: Vec<u32> = of(Class::Base).collect();
    let available = of(Class::Embedded).count() as u32;
    let mut embedded: Vec<u32> = counts
        .take(pages.len())
        .map(|count| match counted {
            Counted::Files => count - 1,
            Counted::Embedded => count,
        })
        .map(|count| count.min(available))
        .collect();
    embedded.sort_unstable();
    pages.sort_by_key(|&page| (Reverse(references[page as usize]), page));
    let rooms: Vec<u32> = pages
        .iter()
        .map(|&page| room(files[page as usize].size))
        .collect();
    let exchanged = exchange(&mut embedded, &rooms, &pages, files)?;

    // Most references left first; ties go to the lower number.
    let mut givers: BinaryHeap<(i64, Reverse<u32>)> = of(Class::Embedded)
        .map(|file| (references[file as usize] as i64, Reverse(file)))
        .collect();
    let mut objects: Vec<Object> = of(Class::Single)
        .map(|file| Object {
            files: vec![file],
            references: references[file as usize],
        })
        .collect();
    let mut taken = Vec::new();
    for (&page, &count) in pages.iter().zip(&embedded) {
        let spent = references[page as usize];
        let mut members = vec![page];
        for _ in 0..count {
            if let Some((left, Reverse(file))) = givers.pop() {
                members.push(file);
                taken.push((left - spent as i64, Reverse(file)));
            }
        }
        givers.extend(taken.drain(..));
        objects.push(Object {
            files: members,
            references: spent,
        });
    }
    Ok(Assembled { objects, exchanged })
}

/// Exchanges counts that do not fit with the page closest in popularity where both fit.
fn exchange(counts: &mut [u32], rooms: &[u32], pages: &[u32], files: &[File]) -> Result<u32, PageTooSmall> {
    let mut exchanged = 0;
    // Largest counts first: they fit into the fewest pages.
    for at in (0..counts.len()).rev() {
        if counts[at] <= rooms[at] {
            continue;
        }
        let fits = |other: usize| counts[at] <= rooms[other] && counts[other] <= rooms[at];
        let partner = (1..counts.len())
            .flat_map(|step| {
                [
                    at.checked_sub(step),
                    at.checked_add(step).filter(|&other| other < counts.len()),
                ]
            })
            .flatten()
            .find(|&other| fits(other));
        let Some(other) = partner else {
            let file = pages[at];
            return Err(PageTooSmall {
                file,
                size: files[file as usize].size,
                embedded: counts[at],
                room: rooms[at],
            });
        };
        counts.swap(at, other);
        exchanged += 1;
    }
    Ok(exchanged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit;

    fn site(sizes: &[(Class, u64)]) -> Vec<File> {
        sizes
            .iter()
            .map(|&(class, size)| File {
                class,
                size: Bytes(size),
            })
            .collect()
    }

    #[test]
    fn popular_pages_embed_little_and_references_are_spent() {
        use Class::{Base, Embedded, Single};
        let files = site(&[
            (Base, 900),
            (Base, 900),
            (Embedded, 50),
            (Embedded, 50),
            (Embedded, 50),
            (Single, 9),
        ]);
        let references = [10, 30, 31, 25, 2, 7];
        let model: Model = "pareto(2,1.245)@..151".parse().unwrap();
        // With this seed, one page draws 2 files and the other more.
        let seed = (0..)
            .map(Seed)
            .find(|&seed| {
                let mut two: Vec<u32> = file_counts(&model, 150, seed).take(2).collect();
                two.sort_unstable();
                two == [2, 3]
            })
            .unwrap();
        let made = assemble(
            &files,
            &references,
            file_counts(&model, 150, seed),
            Counted::Files,
            |size| (size.0 / 18) as u32,
        )
        .unwrap();
        let shown: Vec<(Vec<u32>, u64)> = made
            .objects
            .into_iter()
            .map(|o| (o.files, o.references))
            .collect();
        assert_eq!(
            shown,
            [
                (vec![5], 7),
                // The page requested 30 times takes the embedded file with 31 references, which then has 1 left.
                (vec![1, 2], 30),
                (vec![0, 3, 4], 10),
            ]
        );
        assert_eq!(made.exchanged, 0);
    }

    #[test]
    fn a_count_that_does_not_fit_is_exchanged_or_named() {
        use Class::Base;
        let files = site(&[(Base, 18), (Base, 180), (Base, 18)]);
        let room = |size: Bytes| (size.0 / 18) as u32;
        let rooms: Vec<u32> = files.iter().map(|file| room(file.size)).collect();
        let mut counts = [1, 1, 5];
        assert_eq!(exchange(&mut counts, &rooms, &[0, 1, 2], &files), Ok(1));
        assert_eq!(counts, [1, 5, 1]);
        let fault = exchange(&mut [1, 1, 50], &rooms, &[0, 1, 2], &files).unwrap_err();
        assert!(
            fault
                .to_string()
                .contains("page 2 of 18 bytes should embed 50 files"),
            "{fault}"
        );
    }

    #[test]
    fn counts_fit_their_model() {
        let model: Model = "pareto(2,1.245)".parse().unwrap();
        let sample: Vec<u64> = file_counts(&model, 150, Seed(1))
            .take(100_000)
            .map(u64::from)
            .collect();
        assert!(sample.iter().all(|&count| (2..=150).contains(&count)));
        let fit = fit::chi_square(&sample, |count| counted_cdf(&model, 150, count));
        assert!(fit.p_value > 0.01, "{fit:?}");
        let mean = sample.iter().sum::<u64>() as f64 / sample.len() as f64;
        assert!((5.9..6.5).contains(&mean), "{mean}");
        assert!((counted_cdf(&model, 150, 2) - 0.3989).abs() < 0.01);
    }
}
