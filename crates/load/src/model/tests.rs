//! Models against the distribution functions of `statrs`, against themselves, and against invalid text.

use super::*;
use crate::fit;
use proptest::prelude::*;
use statrs::distribution::{ContinuousCDF, LogNormal, Pareto, Weibull};
use units::Seed;

fn model(text: &str) -> Model {
    text.parse().unwrap_or_else(|why| panic!("{why}"))
}

#[test]
fn distribution_functions_agree_with_another_implementation() {
    let lognormal = LogNormal::new(7.63, 1.001).unwrap();
    let pareto = Pareto::new(2.0, 1.245).unwrap();
    let weibull = Weibull::new(0.382, 1.46).unwrap();
    for i in 1..2000 {
        let x = f64::from(i) * f64::from(i) * 0.01;
        for (text, want) in [
            ("lognormal(7.63,1.001)", lognormal.cdf(x)),
            ("pareto(2,1.245)", pareto.cdf(x)),
            ("weibull(1.46,0.382)", weibull.cdf(x)),
        ] {
            let got = model(text).cdf(x);
            assert!((got - want).abs() < 1e-10, "{text} at {x}: {got} and {want}");
        }
    }
}

/// The document's density, integrated, is the distribution function used here.
#[test]
fn the_inverse_gaussian_is_the_one_printed() {
    let (mu, lambda) = (3.86, 6.08);
    let density = |x: f64| {
        (lambda / (2.0 * core::f64::consts::PI * x * x * x)).sqrt()
            * (-lambda * (x - mu) * (x - mu) / (2.0 * mu * mu * x)).exp()
    };
    let model = model("inverse-gaussian(3.86,6.08)");
    let (mut sum, step) = (0.0, 0.0005);
    for i in 0..60_000 {
        let x = (f64::from(i) + 0.5) * step;
        sum += density(x) * step;
        assert!(
            (model.cdf(x + step / 2.0) - sum).abs() < 1e-5,
            "at {x}: {} and {sum}",
            model.cdf(x)
        );
    }
    assert!((model.mean() - mu).abs() < 1e-3);
    assert!((model.quantile(0.5) - 2.952).abs() < 0.001);
}

#[test]
fn draws_follow_the_distribution_function() {
    for text in [
        "lognormal(8.215,1.46)",
        "lognormal(8.215,1.46)@35..100000",
        "pareto(2,1.245)@..151",
        "pareto(10000,1)@20000..1e7",
        "inverse-gaussian(3.86,6.08)",
        "weibull(1.46,0.382)@0.1..",
        "exponential(3)",
        "0.943*lognormal(7.63,1.001)@32..10000 + 0.057*pareto(10000,1)@..1e7",
        "0.5*lognormal(7.101,1.2) + 0.5*lognormal(11.151,1.143)",
    ] {
        let model = model(text);
        let seed = Seed(11);
        let mut rng = seed.rng();
        let mut sample: Vec<f64> = (0..100_000).map(|_| model.draw(&mut rng)).collect();
        let fit = fit::kolmogorov_smirnov(&mut sample, |x| model.cdf(x));
        assert!(fit.p_value > 0.01, "{text}, {seed}: {fit:?}");
        assert!(
            sample[0] >= model.low() && sample[sample.len() - 1] <= model.high(),
            "{text}"
        );
    }
}

/// Every shape has the mean that its parameters imply, and truncation changes it correctly.
#[test]
fn means_and_medians_are_the_documents() {
    for (text, mean, median) in [
        ("lognormal(8.215,1.46)", 10_730.0, 3_696.0),
        ("lognormal(7.101,1.2)", 2_492.4, 1_213.2),
        ("lognormal(11.151,1.143)", 133_816.0, 69_633.0),
        ("pareto(1,1.4)", 3.5, 1.641),
        ("pareto(1,1)@..1000", 6.915, 1.998),
        ("lognormal(1.5,0.8)", 6.17, 4.48),
    ] {
        let model = model(text);
        assert!(
            (model.mean() / mean - 1.0).abs() < 2e-3,
            "{text}: {}",
            model.mean()
        );
        assert!(
            (model.quantile(0.5) / median - 1.0).abs() < 1e-3,
            "{text}: {}",
            model.quantile(0.5)
        );
    }
    assert_eq!(model("pareto(1,1)").mean(), f64::INFINITY);
    assert_eq!(model("constant(4)").mean(), 4.0);
}

#[test]
fn bad_text_is_named() {
    for (text, fragment) in [
        ("", "lacks its numbers"),
        ("gauss(1,2)", "there are lognormal"),
        ("pareto(1)", "with 1 numbers"),
        ("pareto(1,x)", "`x` is not a number"),
        ("pareto(0,1)", "must lie between"),
        ("lognormal(1e9,1)", "mu is"),
        ("pareto(1,1)@5", "lacks `..`"),
        ("pareto(1,1)@5..2", "is cut at 5..2"),
        ("lognormal(1,1)@1e6..1e7", "of its mass"),
        ("0.5*pareto(1,1) + 0.4*pareto(1,1)", "sum to 0.9"),
        ("0.5*pareto(1,1) + pareto(1,1)", "lacks its share"),
        ("0*pareto(1,1) + 1*pareto(1,1)", "a share is above 0"),
        ("pareto(nan,1)", "`nan` is not a number"),
        ("constant(5)@6..7", "of its mass"),
    ] {
        let why = text.parse::<Model>().expect_err(text);
        assert!(why.contains(fragment), "{text}: {why}");
    }
}

proptest! {
    #[test]
    fn text_is_read_back_as_it_was(mu in -3.0..12.0f64, sigma in 0.1..3.0f64, k in 0.5..1e5f64, alpha in 0.5..3.0f64) {
        let body = Shape::Lognormal { mu, sigma };
        let tail = Shape::Pareto { k, alpha };
        if let Ok(made) = Model::hybrid(body, tail, 0.0, k, k * 1000.0) {
            prop_assert_eq!(model(&made.to_string()), made);
        }
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,40}") {
        let _ = text.parse::<Model>();
    }
}
