//! Fits to all published figures but one, so that this one is predicted and not fitted. Decides by the sum of squared
//! relative errors: among values that were tried or, if figures are linear in their parameters, by least squares.
//! Simulates nothing; [`crate::refit`] has the parameters and the figures.

/// Most passes over all parameters of a least-squares fit.
const PASSES_MAX: usize = 100_000;
/// A fit ends when no parameter moves the relative errors by more than this.
const STEP_MIN: f64 = 1e-12;

/// The sum of squared relative errors of all figures, or of all but one.
fn error(figures: &[f64], published: &[f64], without: Option<usize>) -> f64 {
    figures
        .iter()
        .zip(published)
        .enumerate()
        .filter(|(index, _)| Some(*index) != without)
        .map(|(_, (ours, theirs))| {
            let error = ours / theirs - 1.0;
            error * error
        })
        .sum()
}

/// The index of the figures that are nearest to the published ones, where the figure `without` does not count. Among
/// equally near ones it is the first; 0 if nothing was tried.
pub fn nearest(tried: &[Vec<f64>], published: &[f64], without: Option<usize>) -> usize {
    tried
        .iter()
        .map(|figures| error(figures, published, without))
        .enumerate()
        .min_by(|(_, one), (_, other)| one.total_cmp(other))
        .map_or(0, |(index, _)| index)
}

/// Figures that are linear in their parameters.
#[derive(Clone, Debug)]
pub struct Linear {
    /// Values of the parameters at which the figures are known.
    pub at: Vec<f64>,
    /// The figures there.
    pub figures: Vec<f64>,
    /// Change of a figure per unit of a parameter: by figure, then by parameter.
    pub slopes: Vec<Vec<f64>>,
}

impl Linear {
    /// The figure with this index if the parameters have other values.
    pub fn figure(&self, index: usize, parameters: &[f64]) -> f64 {
        let changes = self.slopes[index]
            .iter()
            .zip(parameters)
            .zip(&self.at)
            .map(|((slope, to), from)| slope * (to - from));
        self.figures[index] + changes.sum::<f64>()
    }

    /// The parameters, none below 0, with the least sum of squared relative errors, where the figure `without` does not
    /// count.
    ///
    /// The fit starts with all parameters at 0, not at known values: these have seen the figure that is left out. One
    /// parameter after the other moves to its optimum until none moves.
    pub fn refit(&self, published: &[f64], without: Option<usize>) -> Vec<f64> {
        let mut parameters = vec![0.0; self.at.len()];
        // Half of the second and of the first derivatives of the sum.
        let mut curvatures = vec![vec![0.0; self.at.len()]; self.at.len()];
        let mut gradient = vec![0.0; self.at.len()];
        for (index, (slopes, theirs)) in self.slopes.iter().zip(published).enumerate() {
            if Some(index) == without {
                continue;
            }
            let error = self.figure(index, &parameters) / theirs - 1.0;
            let slopes: Vec<f64> = slopes.iter().map(|slope| slope / theirs).collect();
            for ((row, derivative), one) in curvatures.iter_mut().zip(&mut gradient).zip(&slopes) {
                *derivative += one * error;
                for (product, other) in row.iter_mut().zip(&slopes) {
                    *product += one * other;
                }
            }
        }
        for _ in 0..PASSES_MAX {
            let mut largest: f64 = 0.0;
            for (index, row) in curvatures.iter().enumerate() {
                let curvature = row[index];
                if curvature <= 0.0 {
                    // No figure depends on this parameter.
                    continue;
                }
                let to = (parameters[index] - gradient[index] / curvature).max(0.0);
                let step = to - parameters[index];
                parameters[index] = to;
                for (derivative, product) in gradient.iter_mut().zip(row) {
                    *derivative += product * step;
                }
                largest = largest.max(step.abs() * curvature.sqrt());
            }
            if largest < STEP_MIN {
                break;
            }
        }
        parameters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ours: &[f64], expected: &[f64]) {
        assert_eq!(ours.len(), expected.len());
        for (ours, expected) in ours.iter().zip(expected) {
            assert!((ours - expected).abs() < 1e-6, "{ours} {expected}");
        }
    }

    /// Three figures that all equal the only parameter.
    fn constant(at: f64) -> Linear {
        Linear {
            at: vec![at],
            figures: vec![at; 3],
            slopes: vec![vec![1.0]; 3],
        }
    }

    /// The sum of (x/p - 1)² is least at x = Σ(1/p) / Σ(1/p²).
    #[test]
    fn one_parameter_has_the_value_that_paper_and_pencil_give() {
        let published = [1.0, 2.0, 4.0];
        for at in [0.0, 3.0] {
            let linear = constant(at);
            check(&linear.refit(&published, None), &[1.75 / 1.3125]);
            check(&linear.refit(&published, Some(0)), &[0.75 / 0.3125]);
            check(&linear.refit(&published, Some(2)), &[1.5 / 1.25]);
            assert!((linear.figure(1, &[5.0]) - 5.0).abs() < 1e-12);
        }
    }

    /// A figure is 1 + 2x + 3y with the multiples of its row. Each is predicted exactly from the others.
    #[test]
    fn two_parameters_predict_every_figure_of_an_exact_model() {
        let rows: [[f64; 2]; 4] = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 5.0]];
        let of = |x: f64, y: f64| -> Vec<f64> {
            rows.iter()
                .map(|[a, b]| 1.0 + 2.0 * a * x + 3.0 * b * y)
                .collect()
        };
        let linear = Linear {
            at: vec![7.0, 0.5],
            figures: of(7.0, 0.5),
            slopes: rows.iter().map(|[a, b]| vec![2.0 * a, 3.0 * b]).collect(),
        };
        let published = of(1.5, 4.0);
        for without in [None, Some(0), Some(1), Some(2), Some(3)] {
            let parameters = linear.refit(&published, without);
            check(&parameters, &[1.5, 4.0]);
            if let Some(index) = without {
                check(&[linear.figure(index, &parameters)], &[published[index]]);
            }
        }
    }

    #[test]
    fn parameters_stay_above_zero_and_at_zero_without_evidence() {
        let linear = Linear {
            at: vec![5.0, 2.0, 6.0],
            figures: vec![10.0, 8.0],
            slopes: vec![vec![1.0, 0.0, 0.0], vec![0.0, 1.0, 0.0]],
        };
        // The figure 3 needs -2. No figure depends on the third parameter, and only the second on the second.
        check(&linear.refit(&[3.0, 9.0], None), &[0.0, 3.0, 0.0]);
        check(&linear.refit(&[3.0, 9.0], Some(1)), &[0.0, 0.0, 0.0]);
    }

    #[test]
    fn the_nearest_of_the_tried_values_is_another_one_without_a_figure() {
        let tried: Vec<Vec<f64>> = (1..=6).map(|value| vec![f64::from(value); 3]).collect();
        let published = [2.0, 2.0, 6.0];
        assert_eq!(tried[nearest(&tried, &published, None)], [2.0; 3]);
        assert_eq!(tried[nearest(&tried, &published, Some(2))], [2.0; 3]);
        let published = [1.0, 5.0, 5.0];
        assert_eq!(tried[nearest(&tried, &published, None)], [1.0; 3]);
        assert_eq!(tried[nearest(&tried, &published, Some(0))], [5.0; 3]);
        // Leaving a figure out never brings its prediction nearer.
        for without in 0..3 {
            let all = error(&tried[nearest(&tried, &published, None)], &published, None);
            let others = &tried[nearest(&tried, &published, Some(without))];
            assert!(all <= error(others, &published, None));
            let fitted = &tried[nearest(&tried, &published, None)];
            let distance = |figures: &[f64]| (figures[without] / published[without] - 1.0).abs();
            assert!(distance(fitted) <= distance(others));
        }
        assert_eq!(nearest(&[], &published, None), 0);
        assert_eq!(nearest(&[vec![1.0; 3], vec![1.0; 3]], &published, Some(1)), 0);
    }
}
