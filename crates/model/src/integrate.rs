//! Adaptive Gauss-Kronrod quadrature (7 and 15 points) with a stated tolerance.
//!
//! Halves the interval with the largest error until the sum of errors is below the tolerance (QUADPACK's
//! QAG, Piessens et al. 1983) or the interval budget is spent, and reports the error it reached.

/// An integral and its estimated absolute error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Integral {
    pub(crate) value: f64,
    pub(crate) error: f64,
}

/// Nodes and weights of the 15-point Kronrod rule on [-1, 1]; the last is the center.
const NODES: [f64; 8] = [
    0.991_455_371_120_812_6,
    0.949_107_912_342_758_5,
    0.864_864_423_359_769_1,
    0.741_531_185_599_394_4,
    0.586_087_235_467_691_1,
    0.405_845_151_377_397_2,
    0.207_784_955_007_898_47,
    0.0,
];
const KRONROD: [f64; 8] = [
    0.022_935_322_010_529_224,
    0.063_092_092_629_978_55,
    0.104_790_010_322_250_18,
    0.140_653_259_715_525_92,
    0.169_004_726_639_267_9,
    0.190_350_578_064_785_4,
    0.204_432_940_075_298_89,
    0.209_482_141_084_727_82,
];
/// Weights of the 7-point Gauss rule, whose nodes are every second Kronrod node.
const GAUSS: [f64; 4] = [
    0.129_484_966_168_869_7,
    0.279_705_391_489_276_64,
    0.381_830_050_505_118_9,
    0.417_959_183_673_469_4,
];

/// Intervals after which the best value so far is returned with its error.
const INTERVALS_MAX: usize = 4096;

/// The integral of `f` over `[a, b]` to a relative `tolerance`.
pub(crate) fn integrate(f: impl Fn(f64) -> f64, a: f64, b: f64, tolerance: f64) -> Integral {
    let mut parts = vec![rule(&f, a, b)];
    loop {
        let value: f64 = parts.iter().map(|part| part.2.value).sum();
        let error: f64 = parts.iter().map(|part| part.2.error).sum();
        let worst = (0..parts.len()).max_by(|&i, &j| parts[i].2.error.total_cmp(&parts[j].2.error));
        let Some(worst) = worst.filter(|_| error > tolerance * value.abs() && parts.len() < INTERVALS_MAX)
        else {
            return Integral { value, error };
        };
        let (a, b, _) = parts.swap_remove(worst);
        let middle = a + (b - a) / 2.0;
        parts.push(rule(&f, a, middle));
        parts.push(rule(&f, middle, b));
    }
}

fn rule(f: &impl Fn(f64) -> f64, a: f64, b: f64) -> (f64, f64, Integral) {
    let (center, half) = ((a + b) / 2.0, (b - a) / 2.0);
    let middle = f(center);
    let mut kronrod = KRONROD[7] * middle;
    let mut gauss = GAUSS[3] * middle;
    for i in 0..7 {
        let pair = f(center - half * NODES[i]) + f(center + half * NODES[i]);
        kronrod += KRONROD[i] * pair;
        if i % 2 == 1 {
            gauss += GAUSS[i / 2] * pair;
        }
    }
    (
        a,
        b,
        Integral {
            value: kronrod * half,
            error: (kronrod - gauss).abs() * half.abs(),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_integrals() {
        for (got, want) in [
            (integrate(|x| x * x, 0.0, 3.0, 1e-12), 9.0),
            (integrate(f64::sin, 0.0, core::f64::consts::PI, 1e-12), 2.0),
            (integrate(|x| (-x).exp(), 0.0, 50.0, 1e-12), 1.0),
            (integrate(f64::sqrt, 0.0, 1.0, 1e-10), 2.0 / 3.0),
            (
                integrate(|x| 1.0 / (1e-4 + x * x), -1.0, 1.0, 1e-10),
                200.0 * 100f64.atan(),
            ),
        ] {
            assert!((got.value - want).abs() <= 1e-8 * want, "{got:?} {want}");
            assert!(got.error <= 1e-8 * want);
        }
    }
}
