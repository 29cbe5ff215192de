//! Distribution functions as SVG: cumulative on a logarithmic x axis, and complementary on two logarithmic axes.
//!
//! Knows points and axes, not their meaning. Colors are classes, so the page decides about light and dark.

use ::load::streams::Point;
use std::fmt::Write;

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 270.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 38.0;

/// Which function is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Curve {
    /// Share of values not above x (CDF).
    Cumulative,
    /// Share above x, logarithmic (LLCD): a Pareto tail is a straight line.
    Complementary,
}

/// One plot of sample (dots) and model (line).
pub(super) fn draw(points: &[Point], curve: Curve, unit: &str) -> String {
    let points: Vec<Point> = points.iter().copied().filter(|point| point.x > 0.0).collect();
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return String::new();
    };
    let low = first.x.log10().floor();
    let high = last.x.log10().ceil().max(low + 1.0);
    let smallest = points
        .iter()
        .map(|point| 1.0 - point.sample)
        .filter(|&share| share > 1e-9)
        .fold(1.0, f64::min);
    let floor = smallest.log10().floor().min(-1.0);
    let x = |value: f64| LEFT + (value.log10() - low) / (high - low) * (WIDTH - LEFT - RIGHT);
    // Height of a share above the bottom of the frame; none below it.
    let share = |cumulative: f64| match curve {
        Curve::Cumulative => Some(cumulative),
        Curve::Complementary => {
            let height = 1.0 - (1.0 - cumulative).max(1e-300).log10() / floor;
            (height >= 0.0).then_some(height)
        }
    };
    let y = |share: f64| HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);
    let (title, what) = match curve {
        Curve::Cumulative => ("CDF", "share not above x"),
        Curve::Complementary => ("LLCD", "share above x"),
    };
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\"><text class=\"title\" x=\"{LEFT}\" y=\"14\">{title}: {what}</text>"
    );
    grid(&mut svg, low, high, x);
    let marks: Vec<(f64, String)> = match curve {
        Curve::Cumulative => [0.0, 0.25, 0.5, 0.75, 1.0]
            .map(|mark| (mark, format!("{mark}")))
            .to_vec(),
        Curve::Complementary => (floor as i32..=0)
            .map(|power| (1.0 - f64::from(power) / floor, power_of_ten(power)))
            .collect(),
    };
    for (at, label) in marks {
        let height = y(at);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{height:.1}\" y2=\"{height:.1}\"/>\
             <text class=\"mark\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            height + 4.0
        );
    }
    let mut line = String::new();
    for point in &points {
        if let Some(at) = share(point.model) {
            let _ = write!(
                line,
                "{}{:.1} {:.1}",
                if line.is_empty() { "M" } else { "L" },
                x(point.x),
                y(at)
            );
        }
    }
    for point in &points {
        if let Some(at) =
            share(point.sample).filter(|_| curve == Curve::Cumulative || point.sample < 1.0 - 1e-9)
        {
            let _ = write!(
                svg,
                "<circle class=\"sample\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2\"/>",
                x(point.x),
                y(at)
            );
        }
    }
    let _ = write!(
        svg,
        "<path class=\"model\" d=\"{line}\"/><text class=\"mark\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{unit}</text></svg>",
        WIDTH - RIGHT,
        HEIGHT - 4.0
    );
    svg
}

/// The decades of the x axis, with as many labels as fit.
fn grid(svg: &mut String, low: f64, high: f64, x: impl Fn(f64) -> f64) {
    let every = (((high - low) / 8.0).ceil() as i32).max(1);
    for power in low as i32..=high as i32 {
        let at = x(10f64.powi(power));
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>",
            HEIGHT - BOTTOM
        );
        if (power - low as i32) % every == 0 {
            let _ = write!(
                svg,
                "<text class=\"mark\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                HEIGHT - BOTTOM + 15.0,
                power_of_ten(power)
            );
        }
    }
}

/// A power of ten as people read it.
fn power_of_ten(power: i32) -> String {
    match power {
        0 => "1".to_owned(),
        1..=2 => 10i64.pow(power as u32).to_string(),
        -2..=-1 => format!("{}", 10f64.powi(power)),
        _ => format!("10<tspan dy=\"-4\" font-size=\"75%\">{power}</tspan>"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plots_stay_inside_their_frame() {
        let points: Vec<Point> = (1..100)
            .map(|i| Point {
                x: f64::from(i) * 37.0,
                sample: f64::from(i) / 99.0,
                model: f64::from(i) / 100.0,
            })
            .collect();
        for curve in [Curve::Cumulative, Curve::Complementary] {
            let svg = draw(&points, curve, "bytes");
            assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"));
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            for piece in svg.split("cy=\"").skip(1) {
                let y: f64 = piece.split('"').next().unwrap().parse().unwrap();
                assert!((TOP - 0.1..=HEIGHT - BOTTOM + 0.1).contains(&y), "{y}");
            }
        }
        assert_eq!(draw(&[], Curve::Cumulative, ""), "");
        let one = [Point {
            x: 1.0,
            sample: 1.0,
            model: 1.0,
        }];
        assert!(!draw(&one, Curve::Complementary, "").contains("NaN"));
    }
}
