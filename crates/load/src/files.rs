//! The files of a site: number and sizes by class.
//!
//! A size is drawn from the model of its class and rounded to a whole byte. Base files have the lowest numbers, then
//! embedded, then single files. Knows nothing of content.

use crate::chance::{Purpose, stream};
use crate::model::Model;
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};
use units::{Bytes, Rng, Seed};

/// Role of a file in the pages of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// A page that references embedded files.
    Base,
    /// Embedded in pages.
    Embedded,
    /// An object of its own.
    Single,
}

impl Class {
    /// All classes in the order of file numbers.
    pub const ALL: [Class; 3] = [Class::Base, Class::Embedded, Class::Single];

    /// Name used in manifests.
    pub fn word(self) -> &'static str {
        match self {
            Class::Base => "base",
            Class::Embedded => "embedded",
            Class::Single => "single",
        }
    }
}

/// Shares of base, embedded and single files, in any unit: only their ratio counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Shares {
    /// Base, embedded, single.
    shares: [f64; 3],
}

impl Shares {
    /// Shares of base, embedded and single files.
    ///
    /// # Errors
    /// If a share is negative, base and single are both 0, or exactly one of base and embedded is 0.
    pub fn new(base: f64, embedded: f64, single: f64) -> Result<Shares, String> {
        let shares = [base, embedded, single];
        if shares.iter().any(|share| !(0.0..=1e12).contains(share)) || base + single <= 0.0 {
            return Err(format!(
                "{base}/{embedded}/{single}: shares of base/embedded/single files are numbers of 0 or more, \
                 and some file must be base or single"
            ));
        }
        if (base > 0.0) != (embedded > 0.0) {
            return Err(format!(
                "{base}/{embedded}/{single}: base and embedded files need each other: both shares are 0 or neither is"
            ));
        }
        Ok(Shares { shares })
    }

    /// Splits `files` by largest remainder: the counts sum to `files`. With at least 3 files, every class with a share
    /// gets at least one.
    pub fn counts(&self, files: u32) -> [u32; 3] {
        let sum: f64 = self.shares.iter().sum();
        let exact = self.shares.map(|share| share / sum * f64::from(files));
        let mut counts = exact.map(|count| count as u32);
        let mut order = [0, 1, 2];
        order.sort_by(|&a, &b| exact[b].fract().total_cmp(&exact[a].fract()).then(a.cmp(&b)));
        let mut left = files - counts.iter().sum::<u32>();
        for class in order.into_iter().cycle() {
            if left == 0 {
                break;
            }
            if self.shares[class] > 0.0 {
                counts[class] += 1;
                left -= 1;
            }
        }
        for class in 0..3 {
            if counts[class] == 0 && self.shares[class] > 0.0 && files >= 3 {
                let largest = (0..3).max_by_key(|&other| counts[other]).unwrap_or(class);
                counts[largest] -= 1;
                counts[class] += 1;
            }
        }
        counts
    }
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [base, embedded, single] = self.shares;
        write!(f, "{base}/{embedded}/{single}")
    }
}

impl FromStr for Shares {
    type Err = String;

    fn from_str(text: &str) -> Result<Shares, String> {
        let numbers: Option<Vec<f64>> = text.split('/').map(|piece| piece.trim().parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[base, embedded, single]) => Shares::new(base, embedded, single),
            _ => Err(format!(
                "`{text}` is not a list of shares: write base/embedded/single, as in 30/38/32"
            )),
        }
    }
}

impl From<Shares> for String {
    fn from(shares: Shares) -> String {
        shares.to_string()
    }
}

impl TryFrom<String> for Shares {
    type Error = String;

    fn try_from(text: String) -> Result<Shares, String> {
        text.parse()
    }
}

/// A file's plan, without content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// Role in the site's pages.
    pub class: Class,
    /// Length in bytes.
    pub size: Bytes,
}

/// Endless stream of sizes of one class.
#[derive(Debug)]
pub struct Sizes<'a> {
    model: &'a Model,
    rng: Rng,
}

impl Iterator for Sizes<'_> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        Some(Bytes(libm::round(self.model.draw(&mut self.rng)).max(1.0) as u64))
    }
}

/// Sizes of `class`. A larger site starts with the sizes of a smaller one.
pub fn sizes(model: &Model, class: Class, seed: Seed) -> Sizes<'_> {
    let purpose = match class {
        Class::Base => Purpose::BaseSizes,
        Class::Embedded => Purpose::EmbeddedSizes,
        Class::Single => Purpose::SingleSizes,
    };
    Sizes {
        model,
        rng: stream(seed, purpose, 0),
    }
}

/// Share of sizes at most `size` when the model's values are rounded to whole bytes.
pub fn rounded_cdf(model: &Model, size: u64) -> f64 {
    model.cdf(size as f64 + 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_sum_and_follow_the_shares() {
        let shares: Shares = "30/38/32".parse().unwrap();
        assert_eq!(shares.counts(2000), [600, 760, 640]);
        assert_eq!(shares.counts(3), [1, 1, 1]);
        for files in 3..500 {
            let counts = shares.counts(files);
            assert_eq!(counts.iter().sum::<u32>(), files);
            assert!(counts.iter().all(|&count| count > 0));
        }
        assert_eq!(Shares::new(0.0, 0.0, 1.0).unwrap().counts(10), [0, 0, 10]);
        assert_eq!(Shares::new(1.0, 1000.0, 1.0).unwrap().counts(4), [1, 2, 1]);
    }

    #[test]
    fn impossible_shares_are_refused() {
        for text in [
            "", "30/70", "1/2/x", "-1/1/1", "0/1/0", "1/0/1", "0/1/1", "nan/1/1",
        ] {
            assert!(text.parse::<Shares>().is_err(), "{text}");
        }
    }

    #[test]
    fn more_files_do_not_change_the_first_ones() {
        let model: Model = "lognormal(8.215,1.46)@35..1e7".parse().unwrap();
        let few: Vec<Bytes> = sizes(&model, Class::Embedded, Seed(5)).take(10).collect();
        let many: Vec<Bytes> = sizes(&model, Class::Embedded, Seed(5)).take(1000).collect();
        assert_eq!(few, many[..10]);
        assert_ne!(
            few,
            sizes(&model, Class::Base, Seed(5)).take(10).collect::<Vec<_>>()
        );
    }
}
