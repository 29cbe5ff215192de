//! Every parameter of Surge with the source of its value.
//!
//! Two published sets: Table 8 of Barford and Crovella 1999 (Surge 1.2) and the models of 1998. Values that the
//! documents do not print (class shares, truncation, upper bounds, the window of the sequence) are parameters like all
//! others; their [`Choice`] gives the reason for the value. A recalled value keeps that label wherever it is shown.
//! recalled and not read keeps that label wherever it is shown.

use crate::files::Shares;
use crate::limits::{FILE_BYTES_MAX, FILES_MAX, REFERENCES_MAX, WINDOW_MAX};
use crate::model::{Model, Part, Shape};
use crate::objects::{Counted, counted_cdf};
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};

/// A published set of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Set {
    /// Table 8 of Barford and Crovella 1999.
    #[serde(rename = "surge-table-8")]
    Table8,
    /// Surge as first published in 1998.
    #[serde(rename = "surge-1998")]
    First,
}

impl Set {
    /// All sets.
    pub const ALL: [Set; 2] = [Set::Table8, Set::First];

    /// Name in flags and manifests.
    pub fn name(self) -> &'static str {
        match self {
            Set::Table8 => "surge-table-8",
            Set::First => "surge-1998",
        }
    }
}

impl FromStr for Set {
    type Err = String;

    fn from_str(text: &str) -> Result<Set, String> {
        Set::ALL
            .into_iter()
            .find(|set| set.name() == text)
            .ok_or_else(|| format!("`{text}` is not a parameter set: choose surge-table-8 or surge-1998"))
    }
}

/// Source of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provenance {
    /// Printed in a document.
    Printed,
    /// Read in the source of the original program.
    Recovered,
    /// Computed from printed values, or chosen by Weir because nothing is printed.
    ChosenHere,
    /// Recalled; no copy was seen.
    RecalledUnverified,
    /// Set by the user.
    Given,
}

/// A parameter as used, with its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Name of the parameter and of its flag.
    pub name: String,
    /// Value in the flag's syntax.
    pub value: String,
    /// Source of the value.
    pub provenance: Provenance,
    /// Reason for the value.
    pub reason: String,
}

/// An unknown parameter name or an invalid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterError {
    /// Name of the parameter.
    pub name: String,
    /// The fault and the allowed values.
    pub why: String,
}

impl fmt::Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.name, self.why)
    }
}

impl std::error::Error for ParameterError {}

/// All parameters of a Surge workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// The published set used as defaults.
    pub set: Set,
    /// Number of files.
    pub files: u32,
    /// References to files that the popularity law distributes in one pass.
    pub references: u64,
    /// Shares of base, embedded and single files.
    pub shares: Shares,
    /// Sizes of base files, in bytes.
    pub base_size: Model,
    /// Sizes of embedded files, in bytes.
    pub embedded_size: Model,
    /// Sizes of single files, in bytes.
    pub single_size: Model,
    /// Sizes of responses by request, in bytes.
    pub request_size: Model,
    /// Start of the tail of request sizes, which is matched first; in bytes.
    pub request_cut: u64,
    /// Exponent `s` of Zipf's law: references are proportional to `1 / rank^s`.
    pub zipf_exponent: f64,
    /// Files per base object, before rounding down.
    pub files_per_object: Model,
    /// Whether those counts include the base file.
    pub counted: Counted,
    /// Larger counts are drawn again.
    pub files_per_object_max: u32,
    /// Stack distance of a request for an object.
    pub stack_distance: Model,
    /// Number of depths searched around the one drawn.
    pub stack_window: u32,
    /// OFF time after an object, in seconds.
    pub off_time: Model,
    /// OFF time after each file of an object except the last, in seconds; none in Table 8.
    pub active_off_time: Option<Model>,
    /// Objects per session, before rounding to the nearest whole number.
    pub session_length: Model,
    /// Every parameter with its reason, in the order of [`NAMES`].
    pub choices: Vec<Choice>,
}

/// Names of all parameters: flags, and keys of [`Parameters::with`].
pub const NAMES: [&str; 20] = [
    "files",
    "references",
    "shares",
    "size-max",
    "base-cut",
    "request-cut",
    "large-share",
    "off-time-max",
    "base-size",
    "embedded-size",
    "single-size",
    "request-size",
    "zipf-exponent",
    "files-per-object",
    "files-per-object-max",
    "stack-distance",
    "stack-window",
    "off-time",
    "active-off-time",
    "session-length",
];

/// References per file, unless their number is given.
const REFERENCES_PER_FILE: u64 = 75;
/// Solves `mean_size() = 26 KB` with the shares and truncation of this file.
const LARGE_SHARE: f64 = 0.46;
/// docs/site.md shows the effect of other widths.
const STACK_WINDOW: u64 = 3;
/// Smallest page: room for a reference to one embedded file, whatever its number.
const BASE_LOW: f64 = 32.0;
/// Smallest GIF that decoders accept: one pixel, two colors.
const GIF_LOW: f64 = crate::gif::LEAST as f64;

impl Parameters {
    /// A set as published. Values it does not print are chosen here.
    pub fn published(set: Set) -> Parameters {
        Parameters::with(set, &[]).expect("the values in this file are valid, which a test shows")
    }

    /// A set with some parameters replaced. Truncation parameters affect only models that are not replaced themselves.
    ///
    /// # Errors
    /// The parameter that is unknown or invalid.
    pub fn with(set: Set, given: &[(&str, &str)]) -> Result<Parameters, ParameterError> {
        if let Some((name, _)) = given.iter().find(|(name, _)| !NAMES.contains(name)) {
            return Err(fault(name, "there is no such parameter".to_owned()));
        }
        Making {
            set,
            given,
            choices: Vec::new(),
        }
        .all()
    }

    /// Source of a parameter's value.
    pub fn choice(&self, name: &str) -> Option<&Choice> {
        self.choices.iter().find(|choice| choice.name == name)
    }

    /// Mean size over all classes, as the models imply.
    pub fn mean_size(&self) -> f64 {
        let counts = self.shares.counts(1_000_000).map(f64::from);
        let means = [&self.base_size, &self.embedded_size, &self.single_size].map(Model::mean);
        counts
            .iter()
            .zip(means)
            .map(|(count, mean)| count * mean)
            .sum::<f64>()
            / 1e6
    }
}

fn fault(name: &str, why: String) -> ParameterError {
    ParameterError {
        name: name.to_owned(),
        why,
    }
}

/// A set under construction: takes each value from the user or the set and records the reason.
struct Making<'a> {
    set: Set,
    given: &'a [(&'a str, &'a str)],
    choices: Vec<Choice>,
}

impl Making<'_> {
    fn all(mut self) -> Result<Parameters, ParameterError> {
        use Provenance::{ChosenHere, Printed, RecalledUnverified, Recovered};
        let first = self.set == Set::First;
        // Values printed in one set are recalled in the other.
        let published = if first { RecalledUnverified } else { Printed };
        let table = if first {
            "the 1998 paper, recalled"
        } else {
            "Table 8"
        };

        let files = self.number(
            "files",
            2000,
            Printed,
            "the document's file set",
            3,
            u64::from(FILES_MAX),
        )? as u32;
        let references = self.number(
            "references",
            (u64::from(files) * REFERENCES_PER_FILE).min(REFERENCES_MAX),
            ChosenHere,
            "75 for each file: with 2,000 files one pass has about as many objects as the original's sequence allows (110,000)",
            u64::from(files),
            REFERENCES_MAX,
        )?;
        let shares: Shares = self.value(
            "shares",
            "30/38/32",
            RecalledUnverified,
            "base/embedded/single files; not printed; consistent with 3.3 files per object and a median of 1",
        )?;
        let size_max = self.number(
            "size-max",
            10_000_000,
            ChosenHere,
            "no bound is printed; a Pareto tail with alpha 1 has no mean without one",
            1000,
            FILE_BYTES_MAX,
        )? as f64;
        let base_cut = self.real(
            "base-cut",
            if first { 133_000.0 } else { 10_000.0 },
            ChosenHere,
            if first {
                "not printed; the tail's k, where the hybrid's distribution function stays continuous"
            } else {
                "not printed; the tail's k, where the hybrid's distribution function stays continuous (Table 8: 10K read as 10,000)"
            },
            (100.0, 1e9),
        )?;
        let request_cut = self.real(
            "request-cut",
            if first { 1000.0 } else { 34_102.0 },
            ChosenHere,
            if first {
                "the model's k: all request sizes belong to its tail"
            } else {
                "not printed; the tail's k, where the hybrid's distribution function stays continuous"
            },
            (10.0, 1e9),
        )?;
        let large_share = self.real(
            "large-share",
            LARGE_SHARE,
            ChosenHere,
            if first {
                "no effect: single files of this set follow the same hybrid as all others"
            } else {
                "not printed; the share of single files from the large lognormal that makes the mean of all files 26 KB, as printed"
            },
            (0.0, 1.0),
        )?;
        let off_max = self.real(
            "off-time-max",
            3600.0,
            ChosenHere,
            if first {
                "seconds; no bound is printed; one in 200,000 OFF times would be longer"
            } else {
                "seconds; no bound is printed; one in 100,000 OFF times would be longer"
            },
            (1.0, 1e7),
        )?;

        let hybrid = |mu, sigma, k, alpha, low, cut| {
            Model::hybrid(
                Shape::Lognormal { mu, sigma },
                Shape::Pareto { k, alpha },
                low,
                cut,
                size_max,
            )
        };
        let lognormal = |mu, sigma, low: f64| Model::single(Shape::Lognormal { mu, sigma }, low, size_max);
        let bounded =
            "; sizes from the smallest writable file (page with a reference: 32 B, GIF: 35 B) to size-max";
        let (base, embedded, single) = if first {
            let all = |low| hybrid(9.357, 1.318, 133_000.0, 1.10, low, base_cut);
            (all(BASE_LOW), all(GIF_LOW), all(1.0))
        } else {
            let (small, large) = (
                Shape::Lognormal {
                    mu: 7.101,
                    sigma: 1.2,
                },
                Shape::Lognormal {
                    mu: 11.151,
                    sigma: 1.143,
                },
            );
            (
                hybrid(7.63, 1.001, 10_000.0, 1.0, BASE_LOW, base_cut),
                lognormal(8.215, 1.46, GIF_LOW),
                two(large_share, small, large, size_max),
            )
        };
        let base_size = self.model("base-size", base, published, &format!("{table}{bounded}"))?;
        let embedded_size = self.model("embedded-size", embedded, published, &format!("{table}{bounded}"))?;
        let single_size = self.model("single-size", single, published, &format!("{table}{bounded}"))?;
        let request = if first {
            let shape = Shape::Pareto {
                k: 1000.0,
                alpha: 1.0,
            };
            Model::single(shape, 0.0, size_max)
        } else {
            hybrid(7.881, 1.339, 34_102.0, 1.177, 0.0, request_cut)
        };
        let request_size = self.model("request-size", request, published, table)?;
        for (name, model, low) in [
            ("base-size", &base_size, BASE_LOW),
            ("embedded-size", &embedded_size, GIF_LOW),
            ("single-size", &single_size, 0.0),
        ] {
            if model.low() < low || model.high() > FILE_BYTES_MAX as f64 {
                return Err(fault(
                    name,
                    format!(
                        "sizes reach from {} to {}; they must lie between {low} and {FILE_BYTES_MAX}, as in @{low}..1e7",
                        model.low(),
                        model.high()
                    ),
                ));
            }
        }
        let zipf_exponent = self.real(
            "zipf-exponent",
            1.0,
            if first { RecalledUnverified } else { ChosenHere },
            "not printed; Zipf's law proper: references proportional to 1/rank",
            (0.0, 10.0),
        )?;

        let counted = if first { Counted::Embedded } else { Counted::Files };
        let counts = if first {
            Model::single(Shape::Pareto { k: 1.0, alpha: 2.43 }, 0.0, f64::INFINITY)
        } else {
            Model::single(Shape::Pareto { k: 2.0, alpha: 1.245 }, 0.0, f64::INFINITY)
        };
        let files_per_object = self.model(
            "files-per-object",
            counts,
            published,
            if first {
                "embedded references, recalled; rounded down"
            } else {
                "Table 8; rounded down, the base file among them, as the original's source does"
            },
        )?;
        let files_per_object_max = self.number(
            "files-per-object-max",
            150,
            Recovered,
            "the original draws larger counts again",
            1,
            100_000,
        )? as u32;
        let mass =
            files_per_object.cdf(f64::from(files_per_object_max) + 1.0) - files_per_object.cdf(0.999_999);
        if mass < 0.001 {
            return Err(fault(
                "files-per-object",
                format!(
                    "`{files_per_object}` has nothing between 1 and files-per-object-max ({files_per_object_max})"
                ),
            ));
        }
        debug_assert!(
            counted_cdf(
                &files_per_object,
                files_per_object_max,
                u64::from(files_per_object_max)
            ) > 0.999
        );
        let distance = Model::single(Shape::Lognormal { mu: 1.5, sigma: 0.8 }, 0.0, f64::INFINITY);
        let stack_distance = self.model("stack-distance", distance, published, table)?;
        let stack_window = self.number(
            "stack-window",
            STACK_WINDOW,
            ChosenHere,
            "\"a small window\"; its width is not printed; with 3 stack distances come out closest to their model",
            1,
            u64::from(WINDOW_MAX),
        )? as u32;
        let alpha = if first { 1.5 } else { 1.4 };
        let off = Model::single(Shape::Pareto { k: 1.0, alpha }, 0.0, off_max);
        let off_time = self.model(
            "off-time",
            off,
            published,
            &format!("{table}; seconds, cut at off-time-max"),
        )?;
        let active_off_time = self.active_off_time(first)?;
        let length = Model::single(
            if first {
                Shape::Constant(1.0)
            } else {
                Shape::InverseGaussian {
                    mean: 3.86,
                    lambda: 6.08,
                }
            },
            0.0,
            f64::INFINITY,
        );
        let session_length = self.model(
            "session-length",
            length,
            if first { ChosenHere } else { Printed },
            if first {
                "the 1998 paper has no sessions: every object is one"
            } else {
                "Table 8; rounded to the nearest whole number of at least 1 (the rule is not printed)"
            },
        )?;
        Ok(Parameters {
            set: self.set,
            files,
            references,
            shares,
            base_size,
            embedded_size,
            single_size,
            request_size,
            request_cut: request_cut as u64,
            zipf_exponent,
            files_per_object,
            counted,
            files_per_object_max,
            stack_distance,
            stack_window,
            off_time,
            active_off_time,
            session_length,
            choices: self.choices,
        })
    }

    /// Seconds between the files of an object: `none` or a model.
    fn active_off_time(&mut self, first: bool) -> Result<Option<Model>, ParameterError> {
        let (text, provenance, reason) = if first {
            (
                "weibull(1.46,0.382)@..3600",
                Provenance::RecalledUnverified,
                "seconds after each file of an object but the last",
            )
        } else {
            ("none", Provenance::Recovered, "dropped in Surge 1.1")
        };
        let value: String = self.value("active-off-time", text, provenance, reason)?;
        if value == "none" {
            return Ok(None);
        }
        value
            .parse()
            .map(Some)
            .map_err(|why| fault("active-off-time", why))
    }

    fn given(&self, name: &str) -> Option<&str> {
        self.given
            .iter()
            .rev()
            .find(|(given, _)| *given == name)
            .map(|(_, value)| *value)
    }

    /// The user's value or the set's, parsed as `T`; records the choice.
    fn value<T: FromStr>(
        &mut self,
        name: &str,
        default: &str,
        provenance: Provenance,
        reason: &str,
    ) -> Result<T, ParameterError>
    where
        T::Err: fmt::Display,
    {
        let given = self.given(name);
        let text = given.unwrap_or(default).trim().to_owned();
        let value = text.parse().map_err(|why: T::Err| fault(name, why.to_string()))?;
        let given = given.is_some();
        self.choices.push(Choice {
            name: name.to_owned(),
            value: text,
            provenance: if given { Provenance::Given } else { provenance },
            reason: if given {
                "given on the command line".to_owned()
            } else {
                reason.to_owned()
            },
        });
        Ok(value)
    }

    fn number(
        &mut self,
        name: &str,
        default: u64,
        provenance: Provenance,
        reason: &str,
        low: u64,
        high: u64,
    ) -> Result<u64, ParameterError> {
        let text: String = self.value(name, &default.to_string(), provenance, reason)?;
        text.parse()
            .ok()
            .filter(|value| (low..=high).contains(value))
            .ok_or_else(|| {
                fault(
                    name,
                    format!("`{text}` is not a whole number from {low} to {high}"),
                )
            })
    }

    fn real(
        &mut self,
        name: &str,
        default: f64,
        provenance: Provenance,
        reason: &str,
        (low, high): (f64, f64),
    ) -> Result<f64, ParameterError> {
        let text: String = self.value(name, &default.to_string(), provenance, reason)?;
        text.parse()
            .ok()
            .filter(|value| (low..=high).contains(value))
            .ok_or_else(|| fault(name, format!("`{text}` is not a number from {low} to {high}")))
    }

    fn model(
        &mut self,
        name: &str,
        default: Result<Model, String>,
        provenance: Provenance,
        reason: &str,
    ) -> Result<Model, ParameterError> {
        // A truncation given by the user may leave nothing of the set's own model: the error names the model.
        let default = match (self.given(name), default) {
            (Some(_), _) => String::new(),
            (None, Ok(model)) => model.to_string(),
            (None, Err(why)) => return Err(fault(name, format!("with the cuts given, {why}"))),
        };
        let model: Model = self.value(name, &default, provenance, reason)?;
        if let Some(choice) = self.choices.last_mut() {
            choice.value = model.to_string();
        }
        Ok(model)
    }
}

/// Mixture of two lognormals; the second one has the share `large`.
fn two(large: f64, small_shape: Shape, large_shape: Shape, high: f64) -> Result<Model, String> {
    if large <= 0.0 {
        return Model::single(small_shape, 1.0, high);
    }
    if large >= 1.0 {
        return Model::single(large_shape, 1.0, high);
    }
    let part = |weight, shape| Part {
        weight,
        shape,
        low: 1.0,
        high,
    };
    Model::new(vec![part(1.0 - large, small_shape), part(large, large_shape)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_choice_with_a_reason() {
        for set in Set::ALL {
            let parameters = Parameters::published(set);
            let names: Vec<&str> = parameters
                .choices
                .iter()
                .map(|choice| choice.name.as_str())
                .collect();
            let mut sorted = names.clone();
            sorted.sort_unstable();
            let mut wanted = NAMES.to_vec();
            wanted.sort_unstable();
            assert_eq!(sorted, wanted);
            assert!(parameters.choices.iter().all(|choice| choice.reason.len() > 5));
        }
    }

    /// Every value of a set can be given explicitly, and changes nothing then.
    #[test]
    fn values_are_read_back() {
        for set in Set::ALL {
            let published = Parameters::published(set);
            for choice in &published.choices {
                let given =
                    Parameters::with(set, &[(&choice.name, &choice.value)]).unwrap_or_else(|e| panic!("{e}"));
                assert_eq!(given.choice(&choice.name).unwrap().provenance, Provenance::Given);
                let again = Parameters {
                    choices: published.choices.clone(),
                    ..given
                };
                assert_eq!(again, published, "{}", choice.name);
            }
        }
    }

    #[test]
    fn the_models_promise_the_documents_mean() {
        let mean = Parameters::published(Set::Table8).mean_size();
        assert!((26_000.0..26_800.0).contains(&mean), "{mean}");
    }

    #[test]
    fn a_cut_shapes_the_models_around_it() {
        let cut = Parameters::with(Set::Table8, &[("base-cut", "20000"), ("size-max", "1e6")]);
        assert!(cut.is_err(), "size-max is a whole number");
        let cut = Parameters::with(Set::Table8, &[("base-cut", "20000"), ("size-max", "1000000")]).unwrap();
        assert!(
            cut.base_size.to_string().contains("@32..20000"),
            "{}",
            cut.base_size
        );
        assert_eq!(cut.base_size.high(), 1e6);
        assert_eq!(cut.choice("base-cut").unwrap().provenance, Provenance::Given);
    }

    #[test]
    fn recalled_values_stay_labelled() {
        let first = Parameters::published(Set::First);
        for name in [
            "base-size",
            "request-size",
            "off-time",
            "active-off-time",
            "files-per-object",
        ] {
            let choice = first.choice(name).unwrap();
            assert_eq!(choice.provenance, Provenance::RecalledUnverified, "{name}");
        }
        let shares = Parameters::published(Set::Table8);
        assert_eq!(
            shares.choice("shares").unwrap().provenance,
            Provenance::RecalledUnverified
        );
    }

    #[test]
    fn faults_name_the_parameter() {
        for (name, value, fragment) in [
            ("files", "1", "from 3 to"),
            ("files", "many", "`many` is not"),
            ("references", "5", "from 2000 to"),
            ("shares", "1/2", "base/embedded/single"),
            ("size-max", "20", "from 1000"),
            ("base-size", "pareto(10000,1)", "they must lie between"),
            (
                "embedded-size",
                "lognormal(8,1)@..1e7",
                "they must lie between 35",
            ),
            ("files-per-object", "constant(500)", "nothing between 1 and"),
            ("off-time", "weekly", "is not a model"),
            ("stack-window", "0", "from 1 to"),
            ("no-such", "1", "no such parameter"),
        ] {
            let error = Parameters::with(Set::Table8, &[(name, value)])
                .expect_err(name)
                .to_string();
            assert!(error.contains(fragment) && error.contains(name), "{error}");
        }
    }
}
