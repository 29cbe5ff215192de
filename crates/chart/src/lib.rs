//! Charts as SVG: linear or logarithmic axes; lines, steps, dots, grouped bars, pies; a legend; time lines of messages; boxes
//! with arrows. Knows points and axes, not their meaning; follows the reader's light or dark preference without network or
//! scripts.

mod axis;
mod bars;
mod diagram;
mod ladder;
mod paper;
mod pie;

pub use axis::{Axis, Scale};
use axis::{Ruler, number};
pub use bars::Bars;
pub use diagram::{Arrow, Block, Diagram};
pub use ladder::{Ladder, Message};
use paper::{COLORS, COMPACT, Sheet, TOP, WIDE, compact, escape, legend};
pub use paper::{escaped, page};
pub use pie::Pie;
use std::fmt::Write;

/// The style of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stroke {
    /// A line.
    Solid,
    /// A dashed line, for bounds and comparisons.
    Dashed,
    /// Points, for measured or simulated values.
    Dots,
    /// Steps: each value holds until the next one.
    Steps,
    /// Vertical strokes; each pair of points is the two ends of one.
    Spans,
}

/// A series of points.
#[derive(Clone, Debug)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Style of the series.
    pub stroke: Stroke,
    /// Points in order of x.
    pub points: Vec<(f64, f64)>,
}

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Title in one line.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// The series, drawn in this order.
    pub series: Vec<Series>,
}

/// One SVG document with the charts stacked vertically.
pub fn document(charts: &[Chart]) -> String {
    let bodies: Vec<String> = charts.iter().map(Chart::body).collect();
    page(&bodies)
}

impl Chart {
    /// The chart as SVG elements, for [`page`].
    pub fn body(&self) -> String {
        let colors: Vec<usize> = (0..self.series.len()).collect();
        let title = format!(
            "<text class=\"title\" x=\"16\" y=\"24\">{}</text>",
            escape(&self.title)
        );
        title + &self.on(&WIDE, &colors).0
    }

    /// A complete SVG document with the legend below, readable in a narrow column; `colors` are the series' color
    /// indices.
    pub fn compact(&self, colors: &[usize]) -> String {
        let (body, bottom) = self.on(&COMPACT, colors);
        compact(&self.title, &body, bottom)
    }

    /// The chart without its title, and the y coordinate of its lower end.
    fn on(&self, sheet: &Sheet, colors: &[usize]) -> (String, f64) {
        let all = || {
            self.series
                .iter()
                .flat_map(|series| series.points.iter().copied())
        };
        let zero = |axis: &Axis| axis.has_zero.then_some(0.0).into_iter().chain(axis.reach);
        let (right, bottom) = sheet.corner();
        let xs = all().map(|point| point.0).chain(zero(&self.x));
        let ys = all().map(|point| point.1).chain(zero(&self.y));
        let x = Ruler::over(xs, self.x.scale, sheet.left, right);
        let y = Ruler::over(ys, self.y.scale, bottom, TOP);
        let mut svg = String::new();
        self.frame(&mut svg, sheet, &x, &y);
        for ((series, below), color) in self.below(&x, &y).into_iter().zip(colors) {
            curve(&mut svg, series, (color % COLORS.len(), below), &x, &y);
        }
        let curves: Vec<(&str, Stroke)> = self
            .series
            .iter()
            .map(|one| (one.name.as_str(), one.stroke))
            .collect();
        let end = legend(&mut svg, sheet, &curves, colors);
        (svg, end)
    }

    /// Each series with the number of earlier series that it would cover, within half a pixel.
    fn below(&self, x: &Ruler, y: &Ruler) -> Vec<(&Series, usize)> {
        let place = |&(a, b): &(f64, f64)| Some((x.place(a)?, y.place(b)?));
        let near = |one: &Series, other: &Series| {
            one.stroke == other.stroke
                && one.points.len() == other.points.len()
                && one
                    .points
                    .iter()
                    .zip(&other.points)
                    .all(|pair| match (place(pair.0), place(pair.1)) {
                        (Some(a), Some(b)) => (a.0 - b.0).abs() < 0.5 && (a.1 - b.1).abs() < 0.5,
                        (a, b) => a == b,
                    })
        };
        let before = |place: usize, series: &Series| {
            let others = self.series[..place].iter();
            others.filter(|other| near(other, series)).count()
        };
        let all = self.series.iter().enumerate();
        all.map(|(place, series)| (series, before(place, series)))
            .collect()
    }

    fn frame(&self, svg: &mut String, sheet: &Sheet, x: &Ruler, y: &Ruler) {
        let (_, bottom) = sheet.corner();
        for mark in x.marks() {
            let Some(at) = x.place(mark) else { continue };
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{at:.1} {TOP}V{bottom}\"/><text class=\"small\" x=\"{at:.1}\" y=\"{}\" \
                 text-anchor=\"middle\">{}</text>",
                bottom + 17.0,
                number(mark)
            );
        }
        self.upright(svg, sheet, &self.x.told(x), y);
    }

    /// Marks of the vertical axis, lines and labels of both axes.
    fn upright(&self, svg: &mut String, sheet: &Sheet, across: &str, y: &Ruler) {
        let left = sheet.left;
        let (right, bottom) = sheet.corner();
        for mark in y.marks() {
            let Some(at) = y.place(mark) else { continue };
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{left} {at:.1}H{right}\"/><text class=\"small\" x=\"{}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{}</text>",
                left - 7.0,
                at + 4.0,
                number(mark)
            );
        }
        let middle = (TOP + bottom) / 2.0;
        let _ = write!(
            svg,
            "<path class=\"axis\" d=\"M{left} {TOP}V{bottom}H{right}\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             <text transform=\"translate(18 {middle}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            (left + right) / 2.0,
            sheet.height - 12.0,
            escape(across),
            escape(&self.y.told(y))
        );
    }
}

/// Dashes of a line; a line that covers others gets gaps that show them.
fn dashes(stroke: Stroke, below: usize) -> String {
    match (stroke, below) {
        (_, 1..) => format!(" stroke-dasharray=\"7 {}\"", 7 * below),
        (Stroke::Dashed, 0) => " stroke-dasharray=\"6 4\"".to_owned(),
        _ => String::new(),
    }
}

/// A series in its color, drawn over `below` series that it would cover.
fn curve(svg: &mut String, series: &Series, (class, below): (usize, usize), x: &Ruler, y: &Ruler) {
    let places = series
        .points
        .iter()
        .map(|&(a, b)| Some((x.place(a)?, y.place(b)?)));
    if series.stroke == Stroke::Dots {
        let radius = (3.5 - below as f64).max(1.0);
        for (a, b) in places.flatten() {
            let _ = write!(
                svg,
                "<circle class=\"s{class}\" fill=\"currentColor\" cx=\"{a:.1}\" cy=\"{b:.1}\" r=\"{radius}\"/>"
            );
        }
        return;
    }
    let mut path = String::new();
    if series.stroke == Stroke::Spans {
        let places: Vec<_> = places.collect();
        for pair in places.chunks_exact(2) {
            if let [Some((at, from)), Some((_, to))] = pair {
                let _ = write!(path, "M{at:.2} {from:.1}V{to:.1}");
            }
        }
        let _ = write!(svg, "<path class=\"line s{class}\" d=\"{path}\"/>");
        return;
    }
    let is_staircase = series.stroke == Stroke::Steps;
    let mut pen = 'M';
    for place in places {
        // Points that cannot be shown leave a gap.
        let Some((a, b)) = place else {
            pen = 'M';
            continue;
        };
        let _ = match pen {
            'L' if is_staircase => write!(path, "H{a:.2}V{b:.1}"),
            _ => write!(path, "{pen}{a:.1} {b:.1}"),
        };
        pen = 'L';
    }
    let _ = write!(
        svg,
        "<path class=\"line s{class}\"{} d=\"{path}\"/>",
        dashes(series.stroke, below)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>, scale: Scale) -> Chart {
        Chart {
            title: "a < b".to_owned(),
            x: Axis {
                scale,
                ..Axis::linear("x")
            },
            y: Axis::linear("y"),
            series: vec![Series {
                name: "one & only".to_owned(),
                stroke: Stroke::Solid,
                points,
            }],
        }
    }

    #[test]
    fn text_is_escaped_and_gaps_stay_gaps() {
        let svg = document(&[chart(
            vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 4.0)],
            Scale::Linear,
        )]);
        assert!(
            svg.contains("a &lt; b") && svg.contains("one &amp; only"),
            "{svg}"
        );
        assert!(!svg.contains("NaN"), "{svg}");
        assert_eq!(svg.matches("</svg>").count(), 1);
    }

    #[test]
    fn curves_that_coincide_have_a_mark_each_and_let_each_other_be_seen() {
        let mut two = chart(vec![(0.0, 1.0), (1.0, 2.0)], Scale::Linear);
        let mut twin = two.series[0].clone();
        twin.name = "twin".to_owned();
        two.series.push(twin);
        for svg in [document(&[two.clone()]), two.compact(&[0, 1])] {
            // A curve and a mark in the legend.
            for class in ["s0", "s1"] {
                let path = format!("<path class=\"line {class}\"");
                assert_eq!(svg.matches(&path).count(), 2, "{svg}");
            }
            assert_eq!(svg.matches("stroke-dasharray").count(), 1, "{svg}");
            assert!(svg.contains(">twin<"), "{svg}");
        }
    }

    #[test]
    fn an_axis_begins_at_zero_or_says_where() {
        let mut far = chart(vec![(0.0, 90.0), (1.0, 100.0)], Scale::Linear);
        assert!(document(&[far.clone()]).contains(">y (from 85)<"));
        far.y = Axis::from_zero("y");
        let svg = far.compact(&[0]);
        assert!(
            svg.contains(">y<") && svg.contains(">0<") && !svg.contains("begins"),
            "{svg}"
        );
    }

    #[test]
    fn a_compact_picture_has_its_legend_and_a_long_title_inside() {
        let mut one = chart(vec![(0.0, 1.0), (1.0, 2.0)], Scale::Linear);
        one.title = "a word ".repeat(12);
        let svg = one.compact(&[2]);
        assert_eq!(svg.matches("class=\"title\"").count(), 2, "{svg}");
        let frame: Vec<f64> = svg
            .split("viewBox=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next())
            .expect("a frame")
            .split(' ')
            .map(|number| number.parse().expect("a number"))
            .collect();
        for y in svg.split(" y=\"").skip(1) {
            let y: f64 = y.split('"').next().expect("a place").parse().expect("a number");
            assert!((frame[1]..frame[1] + frame[3]).contains(&y), "{y} {frame:?}");
        }
        assert!(svg.contains("line s2") && !svg.contains("line s0"), "{svg}");
    }

    #[test]
    fn steps_go_along_before_they_go_up_and_spans_stand_upright() {
        let mut two = chart(vec![(0.0, 1.0), (1.0, 2.0), (2.0, 0.0)], Scale::Linear);
        two.series[0].stroke = Stroke::Steps;
        two.series.push(Series {
            name: "spans".to_owned(),
            stroke: Stroke::Spans,
            points: vec![(1.0, 0.0), (1.0, 2.0), (2.0, 1.0), (2.0, 2.0)],
        });
        let svg = document(&[two]);
        let path = |class: &str| {
            let start = svg
                .find(&format!("<path class=\"line {class}\" d=\""))
                .expect("a path");
            svg[start..].split('"').nth(3).expect("its data").to_owned()
        };
        assert_eq!(path("s0").matches(['H', 'V']).count(), 4, "{svg}");
        assert!(!path("s0").contains('L'), "{svg}");
        assert_eq!(path("s1").matches('M').count(), 2, "{svg}");
    }

    #[test]
    fn one_value_and_no_value_are_no_reason_to_fail() {
        for points in [vec![], vec![(1.0, 0.0)], vec![(1.0, 5.0)]] {
            for scale in [Scale::Linear, Scale::Logarithmic] {
                let svg = document(&[chart(points.clone(), scale)]);
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }
}
