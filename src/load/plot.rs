//! Lines over time or over shares as SVG, small enough for a phone. Colors are classes, so the page decides about
//! light and dark. Knows points and axes, not their meaning.

use std::fmt::Write;

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 38.0;
/// Largest width of a label's character, in pixels.
const LETTER: f64 = 7.0;
/// Largest number of points per line: more than there are pixels would be invisible.
const POINTS_MAX: usize = 800;

/// Scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    /// Evenly, from zero.
    Linear,
    /// By powers of ten.
    Logarithmic,
    /// By nines, given as 1/(1-share): 0, 0.9, 0.99, ...
    Nines,
}

/// A plot of several lines.
#[derive(Debug)]
pub(super) struct Plot<'a> {
    pub(super) title: &'a str,
    pub(super) x: (&'a str, Scale),
    pub(super) y: Scale,
    /// Class and points, in order of x.
    pub(super) lines: Vec<(&'a str, Vec<(f64, f64)>)>,
}

/// Maps values to positions.
struct Ruler {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Ruler {
    fn over(values: impl Iterator<Item = f64>, scale: Scale) -> Ruler {
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite() && (scale == Scale::Linear || *value > 0.0)) {
            (least, most) = (least.min(value), most.max(value));
        }
        let (low, high) = match scale {
            _ if least > most => (0.0, 1.0),
            Scale::Linear if most <= 0.0 => (0.0, 1.0),
            Scale::Linear => {
                let step = step((most / 5.0).max(1e-9));
                (0.0, (most / step).ceil().max(1.0) * step)
            }
            Scale::Logarithmic | Scale::Nines => {
                let low = least.log10().floor();
                (low, most.log10().ceil().max(low + 1.0))
            }
        };
        Ruler { scale, low, high }
    }

    /// Position of a value on the axis, 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let value = match self.scale {
            Scale::Linear => value,
            Scale::Logarithmic | Scale::Nines => value.max(1e-300).log10(),
        };
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    fn marks(&self) -> Vec<(f64, String)> {
        match self.scale {
            Scale::Linear => {
                let step = step((self.high / 5.0).max(1e-9));
                let count = (self.high / step).round() as u32;
                (0..=count)
                    .map(|n| (f64::from(n) * step, number(f64::from(n) * step)))
                    .collect()
            }
            Scale::Logarithmic => (self.low as i32..=self.high as i32)
                .map(|power| (10f64.powi(power), number(10f64.powi(power))))
                .collect(),
            Scale::Nines => (self.low as i32..=self.high as i32)
                .map(|power| {
                    let percent = match power {
                        0 => "0".to_owned(),
                        1 => "90".to_owned(),
                        n => format!("{:.*}", (n - 2).max(0) as usize, 100.0 - 10f64.powi(2 - n)),
                    };
                    (10f64.powi(power), percent)
                })
                .collect(),
        }
    }
}

/// The smallest of 1, 2 or 5 times a power of ten that is at least `least`.
fn step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let lead = least / power;
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|&nice| lead <= nice + 1e-9)
        .unwrap_or(10.0)
        * power
}

/// A number in its shortest form.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 => format!("{}M", value / 1e6),
        size if size >= 1e3 => format!("{}k", value / 1e3),
        _ => format!("{}", (value * 1e9).round() / 1e9),
    }
}

impl Plot<'_> {
    /// The plot; none without points.
    pub(super) fn draw(&self) -> String {
        let points = || self.lines.iter().flat_map(|(_, points)| points);
        if points().next().is_none() {
            return String::new();
        }
        let across = Ruler::over(points().map(|point| point.0), self.x.1);
        let up = Ruler::over(points().map(|point| point.1), self.y);
        let x = |value| LEFT + across.share(value) * (WIDTH - LEFT - RIGHT);
        let y = |value| HEIGHT - BOTTOM - up.share(value) * (HEIGHT - TOP - BOTTOM);
        let title = self.title;
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">\
             <text class=\"title\" x=\"4\" y=\"15\">{title}</text>"
        );
        // Writing to a String cannot fail, here and below.
        for (value, label) in across.marks() {
            let at = x(value);
            // The last label is aligned to the edge, because half of a long one would be cut off.
            let room = WIDTH - at;
            let (label_at, anchor) = if label.len() as f64 * LETTER / 2.0 > room {
                (WIDTH - 1.0, "end")
            } else {
                (at, "middle")
            };
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{0}\"/>\
                 <text class=\"mark\" x=\"{label_at:.1}\" y=\"{1}\" text-anchor=\"{anchor}\">{label}</text>",
                HEIGHT - BOTTOM,
                HEIGHT - BOTTOM + 15.0
            );
        }
        for (value, label) in up.marks() {
            let at = y(value);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{0}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"mark\" x=\"{1}\" y=\"{2:.1}\" text-anchor=\"end\">{label}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                at + 4.0
            );
        }
        for (class, points) in &self.lines {
            let every = points.len().div_ceil(POINTS_MAX).max(1);
            let mut path = String::new();
            for (px, py) in points.iter().step_by(every).chain(points.last()) {
                let _ = write!(
                    path,
                    "{}{:.1} {:.1}",
                    if path.is_empty() { "M" } else { "L" },
                    x(*px),
                    y(*py)
                );
            }
            let _ = write!(svg, "<path class=\"line {class}\" d=\"{path}\"/>");
        }
        let _ = write!(
            svg,
            "<text class=\"mark\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text></svg>",
            WIDTH - RIGHT,
            HEIGHT - 5.0,
            self.x.0
        );
        svg
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plots_stay_inside_their_frame() {
        for (scale, points) in [
            (Scale::Linear, vec![(0.0, 3.0), (1.0, 700.0), (2000.0, 0.0)]),
            (Scale::Logarithmic, vec![(0.001, 0.02), (5.0, 1e7)]),
            (Scale::Nines, vec![(1.0, 0.5), (100_000.0, 20.0)]),
            (Scale::Linear, vec![(0.0, 0.0)]),
        ] {
            let plot = Plot {
                title: "t",
                x: ("s", scale),
                y: Scale::Linear,
                lines: vec![("a", points)],
            };
            let svg = plot.draw();
            assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"));
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            let path = svg.split(" d=\"").nth(1).and_then(|rest| rest.split('"').next());
            for piece in path
                .expect("a line")
                .split(['M', 'L'])
                .filter(|piece| !piece.is_empty())
            {
                let (x, y) = piece.split_once(' ').expect("two numbers");
                let (x, y): (f64, f64) = (x.parse().expect("x"), y.parse().expect("y"));
                assert!((LEFT - 0.1..=WIDTH - RIGHT + 0.1).contains(&x), "{x}");
                assert!((TOP - 0.1..=HEIGHT - BOTTOM + 0.1).contains(&y), "{y}");
            }
        }
        // No label is cut off, however long.
        for most in [9_000.0, 90_000.0, 900_000.0, 9e6, 9e8] {
            let wide = Plot {
                title: "t",
                x: ("percent", Scale::Nines),
                y: Scale::Linear,
                lines: vec![("a", vec![(1.0, 1.0), (most, 2.0)])],
            };
            let svg = wide.draw();
            let ends = svg.split("<text class=\"mark\" x=\"").skip(1).filter_map(|text| {
                let (x, rest) = text.split_once('"')?;
                let (x, width) = (
                    x.parse::<f64>().ok()?,
                    rest.split(['>', '<']).nth(1)?.len() as f64 * LETTER,
                );
                Some(if rest.contains("text-anchor=\"middle\"") {
                    x + width / 2.0
                } else {
                    x
                })
            });
            let ends: Vec<f64> = ends.collect();
            assert!(
                ends.len() > 5 && ends.iter().all(|&end| end <= WIDTH),
                "{most}: {ends:?}"
            );
        }
        assert!(svg_marks(Scale::Nines).contains(&"99.9".to_owned()));
        let empty = Plot {
            title: "",
            x: ("", Scale::Linear),
            y: Scale::Linear,
            lines: vec![("a", Vec::new())],
        };
        assert_eq!(empty.draw(), "");
    }

    fn svg_marks(scale: Scale) -> Vec<String> {
        let ruler = Ruler::over([1.0, 9e4].into_iter(), scale);
        ruler.marks().into_iter().map(|(_, label)| label).collect()
    }
}
