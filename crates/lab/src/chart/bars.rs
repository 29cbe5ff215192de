//! Bars in groups, each with its value above it: how often what happened. Knows names and numbers only.

use super::{Axis, BOTTOM, Chart, HEIGHT, LEFT, RIGHT, Ruler, Scale, Series, Stroke, TOP, WIDTH};
use super::{escape, legend_in, number, paint};
use std::fmt::Write;

/// Over narrower bars numbers have three digits, or they would run into each other.
const NARROW: f64 = 36.0;

/// To three digits.
fn rounded(value: f64) -> f64 {
    if value == 0.0 {
        return value;
    }
    let unit = 10_f64.powf(value.abs().log10().floor() - 2.0);
    (value / unit).round() * unit
}

/// Bars of several series, side by side in each group.
#[derive(Clone, Debug)]
pub struct Bars {
    /// What is shown, in one line.
    pub title: String,
    /// What is counted.
    pub label: String,
    /// The groups' names, from left to right.
    pub groups: Vec<String>,
    /// Each series' name and its value in every group.
    pub series: Vec<(String, Vec<f64>)>,
}

impl Bars {
    /// The chart alone, for [`super::page`].
    pub fn body(&self) -> String {
        let colors: Vec<usize> = (0..self.series.len()).collect();
        self.body_in(&colors)
    }

    /// The same where each series has the color of this number, whatever its place.
    pub fn body_in(&self, colors: &[usize]) -> String {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let values = self.series.iter().flat_map(|(_, values)| values.iter().copied());
        let y = Ruler::over(values.chain([0.0]), Scale::Linear, bottom, TOP);
        // An empty ruler across: the groups' names stand where its marks would.
        let frame = Chart {
            title: String::new(),
            x: Axis::linear(""),
            y: Axis::linear(&self.label),
            series: Vec::new(),
        };
        let mut svg = format!(
            "<text class=\"title\" x=\"16\" y=\"24\">{}</text>",
            escape(&self.title)
        );
        frame.upright(&mut svg, &y);
        let pitch = (right - LEFT) / self.groups.len().max(1) as f64;
        let width = pitch * 0.8 / self.series.len().max(1) as f64;
        for (place, name) in self.groups.iter().enumerate() {
            let from = LEFT + pitch * (place as f64 + 0.1);
            // Writing to a String cannot fail, here and below.
            let _ = write!(
                svg,
                "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                from + pitch * 0.4,
                bottom + 18.0,
                escape(name)
            );
            for (beside, ((_, values), color)) in self.series.iter().zip(colors).enumerate() {
                let (class, paint) = paint(*color);
                let value = values.get(place).copied().unwrap_or(0.0);
                let Some(top) = y.place(value) else { continue };
                let left = from + width * beside as f64;
                let _ = write!(
                    svg,
                    "<rect class=\"s{class}\" stroke=\"none\" fill=\"currentColor\"{paint} x=\"{left:.1}\" y=\"{top:.1}\" \
                     width=\"{:.1}\" height=\"{:.1}\"/><text class=\"small\" x=\"{:.1}\" y=\"{:.1}\" \
                     text-anchor=\"middle\">{}</text>",
                    width * 0.92,
                    bottom - top,
                    left + width * 0.46,
                    top - 4.0,
                    number(if width < NARROW { rounded(value) } else { value })
                );
            }
        }
        let names: Vec<Series> = self
            .series
            .iter()
            .map(|(name, _)| Series {
                name: name.clone(),
                stroke: Stroke::Dots,
                points: Vec::new(),
            })
            .collect();
        let curves: Vec<(&Series, Vec<&str>)> =
            names.iter().map(|one| (one, vec![one.name.as_str()])).collect();
        legend_in(&mut svg, &curves, colors);
        svg
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::page;

    #[test]
    fn numbers_over_narrow_bars_have_three_digits() {
        for (value, wanted) in [
            (559.6, "560"),
            (2.379, "2.38"),
            (0.05, "0.05"),
            (0.0, "0"),
            (42.0, "42"),
        ] {
            assert_eq!(number(rounded(value)), wanted);
        }
    }

    #[test]
    fn each_value_has_a_bar_inside_the_frame() {
        let bars = Bars {
            title: "types".to_owned(),
            label: "packets".to_owned(),
            groups: vec!["SYN".to_owned(), "<ACK>".to_owned()],
            series: vec![
                ("out".to_owned(), vec![1.0, 20.0]),
                ("in".to_owned(), vec![1.0, 0.0]),
            ],
        };
        let svg = page(&[bars.body()]);
        // One more is the ground.
        assert_eq!(svg.matches("<rect").count(), 5, "{svg}");
        assert!(svg.contains("&lt;ACK&gt;") && svg.contains(">20<"), "{svg}");
        for height in svg.split(" height=\"").skip(3) {
            let height: f64 = height
                .split('"')
                .next()
                .expect("a number")
                .parse()
                .expect("a number");
            assert!((0.0..=HEIGHT - BOTTOM - TOP).contains(&height), "{height}");
        }
        let empty = Bars {
            groups: Vec::new(),
            series: Vec::new(),
            ..bars
        };
        assert!(!page(&[empty.body()]).contains("NaN"));
    }
}
