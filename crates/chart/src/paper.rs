//! The drawing area of a chart (wide or a narrow column), its colors, title and legend, and the SVG document around
//! it.

use super::Stroke;
use super::dashes;
use std::fmt::Write;

pub(super) const WIDTH: f64 = 760.0;
pub(super) const HEIGHT: f64 = 380.0;
pub(super) const TOP: f64 = 40.0;

/// Size of a chart and margins of its frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sheet {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
    /// Whether the legend stands below the chart instead of to its right.
    pub(super) is_legend_below: bool,
}

/// For a wide screen.
pub(super) const WIDE: Sheet = Sheet {
    width: WIDTH,
    height: HEIGHT,
    left: 74.0,
    right: 200.0,
    bottom: 52.0,
    is_legend_below: false,
};

/// For a column of a page or a phone, with larger text in relation to the chart.
pub(super) const COMPACT: Sheet = Sheet {
    width: 480.0,
    height: 350.0,
    left: 74.0,
    right: 14.0,
    bottom: 58.0,
    is_legend_below: true,
};

impl Sheet {
    /// The right edge and the lower edge of the frame.
    pub(super) fn corner(&self) -> (f64, f64) {
        (self.width - self.right, self.height - self.bottom)
    }
}

/// Colors for light and dark backgrounds that people with any color vision can tell apart, after Okabe and Ito
/// (2008). Their contrast is high enough for text.
pub(super) const COLORS: [(&str, &str); 7] = [
    ("#0072b2", "#56b4e9"),
    ("#d55e00", "#ff8c42"),
    ("#007a58", "#2fd0a2"),
    ("#a3488a", "#e39bcb"),
    ("#7a6a00", "#f0e442"),
    ("#56b4e9", "#cfeaff"),
    ("#555555", "#bbbbbb"),
];

/// A document with the results of [`crate::Chart::body`] and [`crate::Bars::body`] stacked vertically.
pub fn page(bodies: &[String]) -> String {
    let height = HEIGHT * bodies.len() as f64;
    let bodies: Vec<String> = bodies
        .iter()
        .enumerate()
        .map(|(place, body)| {
            format!(
                "<g transform=\"translate(0 {})\">{body}</g>",
                HEIGHT * place as f64
            )
        })
        .collect();
    paper(WIDTH, (0.0, height), [13, 12, 15], &bodies.join("\n"))
}

/// A compact document: the title, in as many lines as it needs, above a chart drawn without one, down to `bottom`.
pub(super) fn compact(title: &str, body: &str, bottom: f64) -> String {
    let lines = wrapped(title, 46);
    // Writing to a String cannot fail.
    let mut svg = String::new();
    for (place, line) in lines.iter().rev().enumerate() {
        let _ = write!(
            svg,
            "<text class=\"title\" x=\"12\" y=\"{}\">{}</text>",
            24.0 - 20.0 * place as f64,
            escape(line)
        );
    }
    let top = TOP - 16.0 - 20.0 * lines.len() as f64;
    paper(COMPACT.width, (top, bottom), [15, 14, 16], &(svg + body))
}

/// The text in lines of at most `length` characters, unless a word is longer. A no-break space keeps a number and its unit together.
pub(super) fn wrapped(text: &str, length: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    // A word too long for a line can be broken after a sign within it.
    let cut = |word: &str| -> Vec<String> {
        match word.chars().count() > length {
            true => word.split_inclusive(['+', '-']).map(str::to_owned).collect(),
            false => vec![word.to_owned()],
        }
    };
    let words = text.split(|c: char| c.is_whitespace() && c != '\u{a0}');
    for word in words.filter(|word| !word.is_empty()).flat_map(cut) {
        match lines.last_mut() {
            Some(line)
                if line.ends_with(['+', '-']) && line.chars().count() + word.chars().count() <= length =>
            {
                line.push_str(&word);
            }
            Some(line) if line.chars().count() + 1 + word.chars().count() <= length => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// A document from `top` to `bottom`; the sizes are those of text, small text and titles.
fn paper(width: f64, (top, bottom): (f64, f64), [text, small, title]: [u32; 3], body: &str) -> String {
    let height = bottom - top;
    let mut style = format!(
        "text{{font:{text}px system-ui,sans-serif;fill:var(--ink)}}.title{{font-weight:600;font-size:{title}px}}\
         .axis{{stroke:var(--ink);fill:none}}.grid{{stroke:var(--grid);fill:none}}.small{{font-size:{small}px}}\
         .line{{fill:none;stroke-width:2;stroke-linejoin:round}}.ground{{fill:var(--ground)}}"
    );
    let (mut light, mut dark) = (String::new(), String::new());
    for (number, (day, night)) in COLORS.iter().enumerate() {
        // Writing to a String cannot fail, here and below.
        let _ = write!(
            style,
            ".s{number}{{stroke:var(--s{number});color:var(--s{number})}}"
        );
        let _ = write!(light, "--s{number}:{day};");
        let _ = write!(dark, "--s{number}:{night};");
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 {top} {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\">\n<style>svg{{--ink:#1b1b1b;--grid:#dddddd;--ground:#ffffff;{light}}}\
         @media(prefers-color-scheme:dark){{svg{{--ink:#e6e6e6;--grid:#3a3a3a;--ground:#16181c;{dark}}}}}\
         {style}</style>\n<rect class=\"ground\" y=\"{top}\" width=\"{width}\" height=\"{height}\"/>\n{body}\n</svg>\n"
    )
}

/// A row for each series with its stroke; returns the y coordinate of the lower end.
pub(super) fn legend(svg: &mut String, sheet: &Sheet, curves: &[(&str, Stroke)], colors: &[usize]) -> f64 {
    // Two per row if all names are short enough.
    let is_paired = sheet.is_legend_below && curves.iter().all(|(name, _)| name.chars().count() <= 26);
    let columns = if is_paired { 2 } else { 1 };
    for (place, ((name, stroke), color)) in curves.iter().zip(colors).enumerate() {
        let (class, paint) = paint(*color);
        let (left, middle) = if sheet.is_legend_below {
            (
                16.0 + sheet.width / 2.0 * (place % columns) as f64,
                sheet.height + 8.0 + 21.0 * (place / columns) as f64,
            )
        } else {
            (sheet.width - sheet.right + 16.0, TOP + 8.0 + 20.0 * place as f64)
        };
        // Writing to a String cannot fail, here and below.
        let _ = match stroke {
            Stroke::Dots => write!(
                svg,
                "<circle class=\"s{class}\" fill=\"currentColor\"{paint} cx=\"{}\" cy=\"{middle}\" r=\"3.5\"/>",
                left + 11.0
            ),
            Stroke::Spans => write!(
                svg,
                "<path class=\"line s{class}\" d=\"M{} {}v12\"/>",
                left + 11.0,
                middle - 6.0
            ),
            Stroke::Solid | Stroke::Dashed | Stroke::Steps => write!(
                svg,
                "<path class=\"line s{class}\"{} d=\"M{left} {middle}h22\"/>",
                dashes(*stroke, 0)
            ),
        };
        let _ = write!(
            svg,
            "<text class=\"small\" x=\"{}\" y=\"{}\">{}</text>",
            left + 28.0,
            middle + 4.0,
            escape(name)
        );
    }
    if sheet.is_legend_below {
        sheet.height + 4.0 + 21.0 * curves.len().div_ceil(columns) as f64
    } else {
        sheet.height
    }
}

/// A color's class, and the opacity of its second use: there are more series than colors.
pub(super) fn paint(color: usize) -> (usize, &'static str) {
    match color / COLORS.len() {
        0 => (color, ""),
        _ => (color % COLORS.len(), " fill-opacity=\"0.45\""),
    }
}

/// Text between tags.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Escapes text for HTML and SVG, between tags and in quoted attributes. Control characters stay.
pub fn escaped(text: &str) -> String {
    escape(text).replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_too_long_are_cut_after_a_sign() {
        for (text, length, wanted) in [
            (
                "000 Barford and Crovella, 1999",
                12,
                "000 Barford|and|Crovella,|1999",
            ),
            ("pipelined+deflate", 12, "pipelined+|deflate"),
            ("T1+E1+T3", 6, "T1+E1+|T3"),
            ("early-close", 12, "early-close"),
            ("1 client: 27.3\u{a0}Mbit/s", 14, "1 client:|27.3\u{a0}Mbit/s"),
            (" two  words ", 5, "two|words"),
            ("", 5, ""),
        ] {
            assert_eq!(wrapped(text, length).join("|"), wanted);
        }
    }
}
