//! A pie with its legend: shares of a whole, as in document 002's Figures 6 to 10 of a server's time. Knows names and
//! numbers only.

use super::paper::{COMPACT, HEIGHT, TOP, compact, escape, paint};
use std::f64::consts::TAU;
use std::fmt::Write;

const RADIUS: f64 = 145.0;
const CENTER: (f64, f64) = (200.0, 205.0);
/// Left edge of the legend and right edge of its numbers.
const LEGEND: (f64, f64) = (390.0, 720.0);

/// A pie chart.
#[derive(Clone, Debug)]
pub struct Pie {
    /// Title in one line.
    pub title: String,
    /// Name and size of each slice, in any unit; clockwise from the top.
    pub slices: Vec<(String, f64)>,
}

impl Pie {
    /// The pie as SVG elements, for [`crate::page`].
    pub fn body(&self) -> String {
        let colors: Vec<usize> = (0..self.slices.len()).collect();
        self.body_in(&colors)
    }

    /// As [`Pie::body`], with given color indices, one per slice, so that pies can be compared.
    pub fn body_in(&self, colors: &[usize]) -> String {
        let title = format!(
            "<text class=\"title\" x=\"16\" y=\"24\">{}</text>",
            escape(&self.title)
        );
        title + &self.on(CENTER, LEGEND, TOP, colors)
    }

    /// A complete SVG document with the legend below, readable in a narrow column.
    pub fn compact(&self, colors: &[usize]) -> String {
        let (middle, width) = (COMPACT.width / 2.0, COMPACT.width);
        let top = CENTER.1 + RADIUS + 12.0;
        let body = self.on((middle, CENTER.1), (60.0, width - 60.0), top, colors);
        compact(&self.title, &body, top + 12.0 + 24.0 * self.slices.len() as f64)
    }

    /// The pie around `center`, and its legend between two edges, from `top` down.
    fn on(&self, center: (f64, f64), (left, right): (f64, f64), top: f64, colors: &[usize]) -> String {
        let whole: f64 = self.slices.iter().map(|slice| slice.1.max(0.0)).sum();
        let mut svg = String::new();
        let mut from = 0.0;
        for (place, ((name, size), color)) in self.slices.iter().zip(colors).enumerate() {
            let share = if whole > 0.0 { size.max(0.0) / whole } else { 0.0 };
            let (class, paint) = paint(*color);
            slice(&mut svg, center, (class, paint), (from, share));
            from += share;
            let y = top + 14.0 + 24.0 * place as f64;
            // Writing to a String cannot fail.
            let _ = write!(
                svg,
                "<rect class=\"s{class}\" fill=\"currentColor\"{paint} stroke-width=\"1\" x=\"{left}\" y=\"{:.1}\" width=\"13\" \
                 height=\"13\"/><text x=\"{}\" y=\"{y:.1}\">{}</text>\
                 <text x=\"{right}\" y=\"{y:.1}\" text-anchor=\"end\">{:.1} %</text>",
                y - 11.0,
                left + 22.0,
                escape(name),
                share * 100.0
            );
        }
        svg
    }
}

fn slice(svg: &mut String, (x, y): (f64, f64), (class, paint): (usize, &str), (from, share): (f64, f64)) {
    if share <= 0.0 {
        return;
    }
    let _ = if share >= 1.0 - 1e-9 {
        // SVG draws nothing for an arc that ends where it begins.
        write!(
            svg,
            "<circle class=\"s{class}\" fill=\"currentColor\"{paint} cx=\"{x}\" cy=\"{y}\" r=\"{RADIUS}\"/>"
        )
    } else {
        let edge = |turn: f64| {
            let angle = turn * TAU - TAU / 4.0;
            (x + RADIUS * angle.cos(), y + RADIUS * angle.sin())
        };
        let (start, end) = (edge(from), edge(from + share));
        let large = i32::from(share > 0.5);
        write!(
            svg,
            "<path class=\"s{class}\" fill=\"currentColor\"{paint} style=\"stroke:var(--ground)\" \
             d=\"M{x} {y}L{:.2} {:.2}A{RADIUS} {RADIUS} 0 {large} 1 {:.2} {:.2}Z\"/>",
            start.0, start.1, end.0, end.1
        )
    };
}

const _: () = assert!(CENTER.1 + RADIUS < HEIGHT);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page;

    fn pie(sizes: &[f64]) -> String {
        let slices = sizes.iter().enumerate();
        let pie = Pie {
            title: "<time>".to_owned(),
            slices: slices
                .map(|(place, size)| (format!("task {place}"), *size))
                .collect(),
        };
        page(&[pie.body()])
    }

    #[test]
    fn shares_are_of_the_whole_and_nothing_has_no_slice() {
        let svg = pie(&[2.0, 1.0, 0.0, 1.0]);
        assert_eq!(svg.matches("<path").count(), 3, "{svg}");
        for part in ["50.0 %", "25.0 %", "0.0 %", "&lt;time&gt;", "task 3"] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert!(pie(&[5.0]).contains("<circle"));
        for sizes in [&[][..], &[0.0, 0.0], &[1.0; 12]] {
            assert!(!pie(sizes).contains("NaN"));
        }
    }
}
