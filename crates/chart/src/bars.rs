//! Grouped bars with their values above them. Knows names and numbers only.

use super::axis::{Axis, Ruler, Scale, number};
use super::paper::{COMPACT, Sheet, TOP, WIDE, compact, escape, legend, paint, wrapped};
use super::{Chart, Stroke};
use std::fmt::Write;

/// Bars narrower than this get numbers of three digits, so that the numbers do not overlap.
const NARROW: f64 = 36.0;

/// Bars narrower than this have no numbers in a compact chart: even upright ones would overlap.
const NARROWEST: f64 = 12.0;

/// Number of characters that fit into this width.
fn letters(room: f64) -> usize {
    (room / 8.4) as usize
}

/// Rounds to three digits.
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
    /// Title in one line.
    pub title: String,
    /// Label of the value axis.
    pub label: String,
    /// The groups' names, from left to right.
    pub groups: Vec<String>,
    /// Each series' name and its value in every group.
    pub series: Vec<(String, Vec<f64>)>,
    /// A value that the value axis includes, though no bar is so high.
    pub reach: Option<f64>,
}

impl Bars {
    /// The chart as SVG elements, for [`crate::page`].
    pub fn body(&self) -> String {
        let colors: Vec<usize> = (0..self.series.len()).collect();
        self.body_in(&colors)
    }

    /// As [`Bars::body`], with given color indices, one per series.
    pub fn body_in(&self, colors: &[usize]) -> String {
        let title = format!(
            "<text class=\"title\" x=\"16\" y=\"24\">{}</text>",
            escape(&self.title)
        );
        title + &self.on(&WIDE, colors).0
    }

    /// A complete SVG document with the legend below, readable in a narrow column.
    pub fn compact(&self, colors: &[usize]) -> String {
        // Below the group names there is no axis label.
        let pitch = (COMPACT.width - COMPACT.left - COMPACT.right) / self.groups.len().max(1) as f64;
        let lines = self
            .groups
            .iter()
            .map(|name| wrapped(name, letters(pitch)).len())
            .max();
        let bottom = 12.0 + 16.0 * lines.unwrap_or(0).max(1) as f64;
        let sheet = Sheet {
            height: COMPACT.height - COMPACT.bottom + bottom,
            bottom,
            ..COMPACT
        };
        let (body, bottom) = self.on(&sheet, colors);
        compact(&self.title, &body, bottom)
    }

    /// The chart without its title, and the y coordinate of its lower end.
    fn on(&self, sheet: &Sheet, colors: &[usize]) -> (String, f64) {
        let (right, bottom) = sheet.corner();
        let pitch = (right - sheet.left) / self.groups.len().max(1) as f64;
        let width = pitch * 0.8 / self.series.len().max(1) as f64;
        let values = self.series.iter().flat_map(|(_, values)| values.iter().copied());
        let is_rounded = width < NARROW || sheet.is_legend_below;
        let shown = |value: f64| number(if is_rounded { rounded(value) } else { value });
        let has_numbers = width >= NARROWEST || !sheet.is_legend_below;
        // Numbers wider than their bars (plus a space between neighbors) are rotated and need room above the highest
        // bar.
        let numbers = values.clone().filter(|value| value.is_finite());
        let longest = numbers.map(|value| shown(value).chars().count()).max();
        let is_upright = sheet.is_legend_below && letters(width) <= longest.unwrap_or(0);
        let most = values.clone().chain(self.reach).fold(0.0, f64::max);
        let head = if is_upright && has_numbers {
            1.13 * most
        } else {
            most
        };
        let y = Ruler::over(values.chain([0.0, head]), Scale::Linear, bottom, TOP);
        let ground = y.place(0.0).unwrap_or(bottom);
        // An empty ruler: the group names take the place of its marks.
        let frame = Chart {
            title: String::new(),
            x: Axis::linear(""),
            y: Axis::linear(&self.label),
            series: Vec::new(),
        };
        let mut svg = String::new();
        frame.upright(&mut svg, sheet, "", &y);
        for (place, name) in self.groups.iter().enumerate() {
            let from = sheet.left + pitch * (place as f64 + 0.1);
            let lines = wrapped(name, letters(pitch));
            for (line, text) in lines.iter().enumerate() {
                // Writing to a String cannot fail, here and below.
                let _ = write!(
                    svg,
                    "<text class=\"small\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                    from + pitch * 0.4,
                    bottom + 18.0 + 16.0 * line as f64,
                    escape(text)
                );
            }
            for (beside, ((_, values), color)) in self.series.iter().zip(colors).enumerate() {
                let (class, paint) = paint(*color);
                let value = values.get(place).copied().unwrap_or(0.0);
                let Some(top) = y.place(value) else { continue };
                let left = from + width * beside as f64;
                let (x, above) = (left + width * 0.46, top.min(ground) - 4.0);
                let place = if is_upright {
                    format!("transform=\"translate({:.1} {above:.1}) rotate(-90)\"", x + 4.5)
                } else {
                    format!("x=\"{x:.1}\" y=\"{above:.1}\" text-anchor=\"middle\"")
                };
                let _ = write!(
                    svg,
                    "<rect class=\"s{class}\" stroke=\"none\" fill=\"currentColor\"{paint} x=\"{left:.1}\" y=\"{:.1}\" \
                     width=\"{:.1}\" height=\"{:.1}\"/>",
                    top.min(ground),
                    width * 0.92,
                    (ground - top).abs()
                );
                if has_numbers {
                    let _ = write!(svg, "<text class=\"small\" {place}>{}</text>", shown(value));
                }
            }
        }
        let curves: Vec<(&str, Stroke)> = self
            .series
            .iter()
            .map(|(name, _)| (name.as_str(), Stroke::Dots))
            .collect();
        let end = legend(&mut svg, sheet, &curves, colors);
        (svg, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page;
    use crate::paper::HEIGHT;

    #[test]
    fn numbers_over_bars_have_three_digits() {
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
            reach: None,
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
            assert!((0.0..=HEIGHT - WIDE.bottom - TOP).contains(&height), "{height}");
        }
        let high = Bars {
            reach: Some(80.0),
            ..bars.clone()
        };
        assert!(
            high.compact(&[0, 1]).contains(">80<"),
            "the axis includes its reach"
        );
        let many = Bars {
            groups: vec!["a".to_owned(); 30],
            series: vec![("out".to_owned(), vec![7.0; 30])],
            ..bars.clone()
        };
        assert!(page(&[many.body()]).contains(">7<") && !many.compact(&[0]).contains(">7<"));
        let below = Bars {
            series: vec![("saved".to_owned(), vec![-2.0, 4.0])],
            ..bars.clone()
        };
        assert!(!below.compact(&[0]).contains("height=\"-"));
        let empty = Bars {
            groups: Vec::new(),
            series: Vec::new(),
            ..bars
        };
        assert!(!page(&[empty.body()]).contains("NaN"));
    }
}
