//! What a refit finds: the published figures beside their simulations, with the adopted parameters, with refitted ones, and
//! with those that have not seen the figure. Knows neither the parameters nor how a figure is simulated.

use super::target::Target;
use crate::leave_one_out::nearest;
use crate::tables::{Published, TOLERANCE};
use crate::visit::Figures;

/// What a published figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Packets in both directions.
    Packets,
    /// Payload bytes in both directions.
    Bytes,
    /// Seconds of a visit.
    Seconds,
    /// Milliseconds of a page.
    Milliseconds,
}

impl Quantity {
    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Packets => "packets",
            Quantity::Bytes => "bytes",
            Quantity::Seconds => "seconds",
            Quantity::Milliseconds => "ms",
        }
    }

    /// Digits behind the point in tables.
    pub fn digits(self) -> usize {
        match self {
            Quantity::Packets | Quantity::Milliseconds => 1,
            Quantity::Bytes => 0,
            Quantity::Seconds => 2,
        }
    }

    /// Largest relative error of a matching figure, as in all tables here.
    pub fn tolerance(self) -> f64 {
        match self {
            Quantity::Packets => TOLERANCE[0],
            Quantity::Bytes => TOLERANCE[1],
            Quantity::Seconds | Quantity::Milliseconds => TOLERANCE[2],
        }
    }

    pub(super) fn simulated(self, figures: &Figures) -> f64 {
        match self {
            Quantity::Packets => figures.packets(),
            Quantity::Bytes => figures.bytes(),
            Quantity::Seconds => figures.seconds,
            Quantity::Milliseconds => figures.seconds * 1e3,
        }
    }

    pub(super) fn published(self, row: &Published) -> f64 {
        match self {
            Quantity::Packets => row.packets,
            Quantity::Bytes => row.bytes,
            Quantity::Seconds => row.seconds,
            Quantity::Milliseconds => row.seconds * 1e3,
        }
    }
}

/// Constant facts about a refit.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// The document's number.
    pub document: &'static str,
    /// The parameters, as a heading.
    pub what: &'static str,
    /// The search, and what stays at its value during it.
    pub method: &'static str,
    /// Provenance of the published figures.
    pub provenance: &'static str,
}

/// A refitted parameter.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its name, with the unit.
    pub name: String,
    /// The value that the simulations use.
    pub adopted: f64,
    /// The value that fits all figures best.
    pub refitted: f64,
}

/// A published figure and its simulations.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Where it is published.
    pub name: String,
    /// What it counts.
    pub quantity: Quantity,
    /// The published value.
    pub published: f64,
    /// The value with the adopted parameters.
    pub adopted: f64,
    /// The value with parameters that were fitted to all figures.
    pub refitted: f64,
    /// The value with parameters that were fitted to all other figures; `None` if too few are left for a fit.
    pub left_out: Option<f64>,
    /// The parameters of that fit; empty without one.
    pub parameters: Vec<f64>,
}

impl Figure {
    /// Relative error of a simulated value.
    pub fn error(&self, value: f64) -> f64 {
        value / self.published - 1.0
    }

    /// Whether a simulated value is within the tolerance.
    pub fn is_within(&self, value: f64) -> bool {
        self.error(value).abs() <= self.quantity.tolerance()
    }
}

/// How well simulated figures agree with the published ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agreement {
    /// Number of figures within their tolerance.
    pub within: usize,
    /// Root mean square of the relative errors.
    pub error: f64,
}

/// Parameters, refitted to all figures and without each.
#[derive(Clone, Debug)]
pub struct Refit {
    /// Constant facts.
    pub subject: Subject,
    /// The parameters.
    pub parameters: Vec<Parameter>,
    /// The figures to which they were fitted.
    pub figures: Vec<Figure>,
}

impl Refit {
    /// Refits to all figures and without each. `refit` gives the parameters without the figure with an index, `simulate`
    /// the figure with an index for given parameters.
    pub(super) fn new(
        subject: Subject,
        adopted: Vec<(String, f64)>,
        targets: Vec<Target>,
        refit: impl Fn(Option<usize>) -> Vec<f64>,
        simulate: impl Fn(usize, &[f64]) -> f64,
    ) -> Refit {
        let values: Vec<f64> = adopted.iter().map(|(_, value)| *value).collect();
        let refitted = refit(None);
        // As many figures as parameters have to be left, or every value of the figure agrees with some fit.
        let is_checked = targets.len() > adopted.len();
        let figures = targets
            .into_iter()
            .enumerate()
            .map(|(index, target)| {
                let parameters = if is_checked {
                    refit(Some(index))
                } else {
                    Vec::new()
                };
                Figure {
                    name: target.name,
                    quantity: target.quantity,
                    published: target.published,
                    adopted: simulate(index, &values),
                    refitted: simulate(index, &refitted),
                    left_out: is_checked.then(|| simulate(index, &parameters)),
                    parameters,
                }
            })
            .collect();
        let parameters = adopted
            .into_iter()
            .zip(refitted)
            .map(|((name, adopted), refitted)| Parameter {
                name,
                adopted,
                refitted,
            })
            .collect();
        Refit {
            subject,
            parameters,
            figures,
        }
    }

    /// Refits by trying values. Each item of `tried` has values of all parameters and all figures simulated with them; one
    /// item has the adopted values.
    pub(super) fn by_search(
        subject: Subject,
        adopted: Vec<(String, f64)>,
        targets: Vec<Target>,
        tried: Vec<(Vec<f64>, Vec<f64>)>,
    ) -> Refit {
        let published: Vec<f64> = targets.iter().map(|target| target.published).collect();
        let (values, figures): (Vec<Vec<f64>>, Vec<Vec<f64>>) = tried.into_iter().unzip();
        Refit::new(
            subject,
            adopted,
            targets,
            |without| values[nearest(&figures, &published, without)].clone(),
            |index, wanted| {
                let found = values.iter().position(|one| one == wanted);
                found.map_or(f64::NAN, |found| figures[found][index])
            },
        )
    }

    /// The agreement of the values that `of` selects; `None` if a figure has none.
    pub fn agreement(&self, of: impl Fn(&Figure) -> Option<f64>) -> Option<Agreement> {
        let (mut within, mut squares) = (0, 0.0);
        for figure in &self.figures {
            let value = of(figure)?;
            within += usize::from(figure.is_within(value));
            squares += figure.error(value) * figure.error(value);
        }
        Some(Agreement {
            within,
            error: (squares / self.figures.len().max(1) as f64).sqrt(),
        })
    }
}
