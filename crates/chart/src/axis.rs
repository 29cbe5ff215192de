//! Axes: scale, marks and their numbers. Maps values to positions and draws nothing.

use units::significant;

/// How an axis is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Linear.
    Linear,
    /// Logarithmic, base 10; values of zero and below are not shown.
    Logarithmic,
}

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Quantity with its unit.
    pub label: String,
    /// Linear or logarithmic.
    pub scale: Scale,
    /// Whether the axis always includes zero.
    pub has_zero: bool,
    /// A value that the axis includes, though nothing is drawn there.
    pub reach: Option<f64>,
}

impl Axis {
    /// A linear axis with zero on it.
    pub fn from_zero(label: &str) -> Axis {
        Axis {
            has_zero: true,
            ..Axis::linear(label)
        }
    }

    /// A linear axis.
    pub fn linear(label: &str) -> Axis {
        Axis {
            label: label.to_owned(),
            scale: Scale::Linear,
            has_zero: false,
            reach: None,
        }
    }

    /// A logarithmic axis.
    pub fn logarithmic(label: &str) -> Axis {
        Axis {
            label: label.to_owned(),
            scale: Scale::Logarithmic,
            has_zero: false,
            reach: None,
        }
    }

    /// The axis with a value that it includes, though nothing is drawn there.
    pub fn up_to(self, reach: Option<f64>) -> Axis {
        Axis { reach, ..self }
    }

    /// The label; if the axis does not begin at zero as readers expect, it says where it begins.
    pub(super) fn told(&self, ruler: &Ruler) -> String {
        if ruler.scale == Scale::Linear && ruler.low > 0.0 && !self.label.is_empty() {
            format!("{} (from {})", self.label, number(ruler.low))
        } else {
            self.label.clone()
        }
    }
}

/// An axis with ends and marks, mapping values to positions.
pub(super) struct Ruler {
    pub(super) scale: Scale,
    pub(super) low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Ruler {
    pub(super) fn over(values: impl Iterator<Item = f64> + Clone, scale: Scale, from: f64, to: f64) -> Ruler {
        let usable = values.filter(|value| value.is_finite() && (scale == Scale::Linear || *value > 0.0));
        let least = usable.clone().fold(f64::INFINITY, f64::min);
        let most = usable.fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = match scale {
            _ if least > most => (1.0, 10.0),
            // From zero, unless that leaves most of the axis empty.
            Scale::Linear => {
                let low = if least > 0.6 * most {
                    least - (most - least).max(0.02 * most) * 0.15
                } else {
                    least.min(0.0)
                };
                let step = nice((most - low).max(1e-12) / 5.0);
                let low = (low / step).floor() * step;
                (low, (most / step).ceil().max(low / step + 1.0) * step)
            }
            Scale::Logarithmic => (round_down(least), round_up(most).max(round_down(least) * 2.0)),
        };
        Ruler {
            scale,
            low,
            high,
            from,
            to,
        }
    }

    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => (value / self.low).log10() / (self.high / self.low).log10(),
        };
        let inside = share.is_finite() && (-1e-9..=1.0 + 1e-9).contains(&share);
        inside.then_some(self.from + share * (self.to - self.from))
    }

    pub(super) fn marks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = nice((self.high - self.low) / 5.0);
                let first = (self.low / step).ceil() as i64;
                let last = (self.high / step + 1e-9).floor() as i64;
                (first..=last).map(|count| count as f64 * step).collect()
            }
            Scale::Logarithmic => {
                let decades = (self.high / self.low).log10();
                let steps: &[f64] = if decades <= 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let stride = (decades / 8.0).ceil().max(1.0) as usize;
                let first = self.low.log10().floor() as i32;
                (first..=self.high.log10().ceil() as i32)
                    .step_by(stride)
                    .flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)))
                    .filter(|mark| self.place(*mark).is_some())
                    .collect()
            }
        }
    }
}

/// The smallest of 1, 2, 5 times a power of ten that is not below `step`.
fn nice(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let lead = step / power;
    let up = [1.0, 2.0, 5.0].into_iter().find(|nice| lead <= nice + 1e-9);
    up.unwrap_or(10.0) * power
}

/// As [`nice`], but rounds down, for the lower end of a logarithmic axis.
fn round_down(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let lead = value / power;
    let down = [5.0, 2.0].into_iter().find(|nice| lead >= nice - 1e-9);
    down.unwrap_or(1.0) * power
}

fn round_up(value: f64) -> f64 {
    nice(value)
}

/// The number at a mark, shortened with k, M or G.
pub(super) fn number(value: f64) -> String {
    let scaled = [(1e9, "G"), (1e6, "M"), (1e4, "k")]
        .into_iter()
        .find(|(scale, _)| value.abs() >= *scale);
    match scaled {
        Some((1e4, unit)) => format!("{}{unit}", significant(value / 1e3)),
        Some((scale, unit)) => format!("{}{unit}", significant(value / scale)),
        None => significant((value * 1e12).round() / 1e12),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_numbers() {
        for (step, want) in [(0.3, 0.5), (1.0, 1.0), (1.1, 2.0), (6.0, 10.0), (0.011, 0.02)] {
            assert!((nice(step) - want).abs() < 1e-12 * want, "{step}: {}", nice(step));
        }
    }

    #[test]
    fn every_point_lies_in_the_frame() {
        for scale in [Scale::Linear, Scale::Logarithmic] {
            let points: Vec<_> = (1..=1000)
                .map(|i| (f64::from(i), 0.37 * f64::from(i * i)))
                .collect();
            let x = Ruler::over(points.iter().map(|p| p.0), scale, 0.0, 100.0);
            assert!(points.iter().all(|p| x.place(p.0).is_some()), "{scale:?}");
            assert!((3..=12).contains(&x.marks().len()), "{:?}", x.marks());
        }
    }
}
