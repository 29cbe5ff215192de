//! Charts as SVG: linear or logarithmic axes, lines, steps and dots, bars in groups, pies, a legend. Knows points and axes,
//! nothing of what they mean; follows the reader's light or dark preference, needs no network and no script.

mod bars;
mod pie;

pub use bars::Bars;
use model::explain::significant;
pub use pie::Pie;
use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 380.0;
const TOP: f64 = 40.0;

/// Where things stand: the size of a chart, and the margins of its frame.
#[derive(Clone, Copy, Debug)]
struct Sheet {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    bottom: f64,
    /// Below the chart instead of at its right.
    is_legend_below: bool,
}

/// For a screen of its own.
const WIDE: Sheet = Sheet {
    width: WIDTH,
    height: HEIGHT,
    left: 74.0,
    right: 200.0,
    bottom: 52.0,
    is_legend_below: false,
};

/// For a column of a page, or a phone: what is as large here is larger there.
const COMPACT: Sheet = Sheet {
    width: 480.0,
    height: 350.0,
    left: 74.0,
    right: 14.0,
    bottom: 58.0,
    is_legend_below: true,
};

impl Sheet {
    /// The frame's right edge and its lower one.
    fn corner(&self) -> (f64, f64) {
        (self.width - self.right, self.height - self.bottom)
    }
}

/// Colors that people with any color vision tell apart, after Okabe and Ito (2008), for light and for dark ground; dark
/// enough or light enough to write words in.
const COLORS: [(&str, &str); 7] = [
    ("#0072b2", "#56b4e9"),
    ("#d55e00", "#ff8c42"),
    ("#007a58", "#2fd0a2"),
    ("#a3488a", "#e39bcb"),
    ("#7a6a00", "#f0e442"),
    ("#56b4e9", "#9ad4f5"),
    ("#555555", "#bbbbbb"),
];

/// How an axis is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly, from zero.
    Linear,
    /// By powers of ten; only what is above zero can be shown.
    Logarithmic,
}

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What is counted, with its unit.
    pub label: String,
    /// How it is divided.
    pub scale: Scale,
    /// Whether zero is on it, however far away the values are.
    pub has_zero: bool,
}

impl Axis {
    /// A linear axis with zero on it.
    pub fn from_zero(label: &str) -> Axis {
        Axis {
            has_zero: true,
            ..Axis::linear(label)
        }
    }

    /// A linear axis.
    pub fn linear(label: &str) -> Axis {
        Axis {
            label: label.to_owned(),
            scale: Scale::Linear,
            has_zero: false,
        }
    }

    /// A logarithmic axis.
    pub fn logarithmic(label: &str) -> Axis {
        Axis {
            label: label.to_owned(),
            scale: Scale::Logarithmic,
            has_zero: false,
        }
    }

    /// The label; where the axis does not begin at zero as a reader expects, where it does.
    fn told(&self, ruler: &Ruler) -> String {
        if ruler.scale == Scale::Linear && ruler.low > 0.0 && !self.label.is_empty() {
            format!("{} (axis begins at {})", self.label, number(ruler.low))
        } else {
            self.label.clone()
        }
    }
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stroke {
    /// A line.
    Solid,
    /// A line with gaps: bounds, and what is compared with.
    Dashed,
    /// Points: what was measured or simulated.
    Dots,
    /// A staircase: each value holds until the next one.
    Steps,
    /// Upright strokes; the points are pairs, the two ends of each.
    Spans,
}

/// Points of one kind.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its words in the legend.
    pub name: String,
    /// How it is drawn.
    pub stroke: Stroke,
    /// The points, in order of x.
    pub points: Vec<(f64, f64)>,
}

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What is shown, in one line.
    pub title: String,
    /// Across.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// What is drawn, the first below the others.
    pub series: Vec<Series>,
}

/// One document with the charts below each other.
pub fn document(charts: &[Chart]) -> String {
    let bodies: Vec<String> = charts.iter().map(Chart::body).collect();
    page(&bodies)
}

/// One document with what [`Chart::body`] and [`Bars::body`] drew, below each other.
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

/// One compact document: a title of as many lines as it needs above what was drawn without one, down to `bottom`.
fn compact(title: &str, body: &str, bottom: f64) -> String {
    let lines = wrapped(title, 52);
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

/// The text in lines of as many characters, if its words allow it.
fn wrapped(text: &str, length: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    // What is too long for a line can be cut after a sign within it.
    let cut = |word: &str| -> Vec<String> {
        match word.chars().count() > length {
            true => word.split_inclusive(['+', '-']).map(str::to_owned).collect(),
            false => vec![word.to_owned()],
        }
    };
    for word in text.split_whitespace().flat_map(cut) {
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

/// An axis with its ends and marks, from values to places.
struct Ruler {
    scale: Scale,
    low: f64,
    high: f64,
    /// Places of the ends.
    from: f64,
    to: f64,
}

impl Ruler {
    fn over(values: impl Iterator<Item = f64> + Clone, scale: Scale, from: f64, to: f64) -> Ruler {
        let usable = values.filter(|value| value.is_finite() && (scale == Scale::Linear || *value > 0.0));
        let least = usable.clone().fold(f64::INFINITY, f64::min);
        let most = usable.fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = match scale {
            _ if least > most => (1.0, 10.0),
            // From zero, unless the values leave most of the axis empty.
            Scale::Linear => {
                let low = if least > 0.6 * most {
                    least - (most - least).max(0.02 * most) * 0.15
                } else {
                    least.min(0.0)
                };
                let step = nice((most - low).max(1e-12) / 5.0);
                let low = (low / step).floor() * step;
                (low, (most / step).ceil().max(low / step + 1.0) * step)
            }
            Scale::Logarithmic => (round_down(least), round_up(most).max(round_down(least) * 2.0)),
        };
        Ruler {
            scale,
            low,
            high,
            from,
            to,
        }
    }

    fn place(&self, value: f64) -> Option<f64> {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => (value / self.low).log10() / (self.high / self.low).log10(),
        };
        let inside = share.is_finite() && (-1e-9..=1.0 + 1e-9).contains(&share);
        inside.then_some(self.from + share * (self.to - self.from))
    }

    fn marks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = nice((self.high - self.low) / 5.0);
                let first = (self.low / step).ceil() as i64;
                let last = (self.high / step + 1e-9).floor() as i64;
                (first..=last).map(|count| count as f64 * step).collect()
            }
            Scale::Logarithmic => {
                let decades = (self.high / self.low).log10();
                let steps: &[f64] = if decades <= 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let stride = (decades / 8.0).ceil().max(1.0) as usize;
                let first = self.low.log10().floor() as i32;
                (first..=self.high.log10().ceil() as i32)
                    .step_by(stride)
                    .flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)))
                    .filter(|mark| self.place(*mark).is_some())
                    .collect()
            }
        }
    }
}

/// The least of 1, 2, 5 times a power of ten that is not below `step`.
fn nice(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let lead = step / power;
    let up = [1.0, 2.0, 5.0].into_iter().find(|nice| lead <= nice + 1e-9);
    up.unwrap_or(10.0) * power
}

/// The same downwards, for the lower end of a logarithmic axis.
fn round_down(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let lead = value / power;
    let down = [5.0, 2.0].into_iter().find(|nice| lead >= nice - 1e-9);
    down.unwrap_or(1.0) * power
}

fn round_up(value: f64) -> f64 {
    nice(value)
}

impl Chart {
    /// The chart alone, for [`page`].
    pub fn body(&self) -> String {
        let colors: Vec<usize> = (0..self.series.len()).collect();
        let title = format!(
            "<text class=\"title\" x=\"16\" y=\"24\">{}</text>",
            escape(&self.title)
        );
        title + &self.on(&WIDE, &colors).0
    }

    /// A document with the legend below, that can be read in a narrow column; each series has the color of this number.
    pub fn compact(&self, colors: &[usize]) -> String {
        let (body, bottom) = self.on(&COMPACT, colors);
        compact(&self.title, &body, bottom)
    }

    /// Without its title, and where it ends below.
    fn on(&self, sheet: &Sheet, colors: &[usize]) -> (String, f64) {
        let all = || {
            self.series
                .iter()
                .flat_map(|series| series.points.iter().copied())
        };
        let zero = |axis: &Axis| axis.has_zero.then_some(0.0);
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

    /// The series, each with how many it would hide: half a pixel is no difference.
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

    /// The marks of the upright axis, both axes' lines and labels.
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

/// A line for each series with its own mark, and where the chart ends below.
fn legend(svg: &mut String, sheet: &Sheet, curves: &[(&str, Stroke)], colors: &[usize]) -> f64 {
    // Two beside each other, where all names are short enough.
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

/// The class of a color and what makes it paler: there are more things than colors, and the second round of them is paler.
fn paint(color: usize) -> (usize, &'static str) {
    match color / COLORS.len() {
        0 => (color, ""),
        _ => (color % COLORS.len(), " fill-opacity=\"0.45\""),
    }
}

/// The gaps of a line; of one that lies on others, gaps that let them be seen.
fn dashes(stroke: Stroke, below: usize) -> String {
    match (stroke, below) {
        (_, 1..) => format!(" stroke-dasharray=\"7 {}\"", 7 * below),
        (Stroke::Dashed, 0) => " stroke-dasharray=\"6 4\"".to_owned(),
        _ => String::new(),
    }
}

/// A series in its color, above as many that it would hide.
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
        // What cannot be shown leaves a gap.
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

/// A mark's number, short.
fn number(value: f64) -> String {
    let scaled = [(1e9, "G"), (1e6, "M"), (1e4, "k")]
        .into_iter()
        .find(|(scale, _)| value.abs() >= *scale);
    match scaled {
        Some((1e4, unit)) => format!("{}{unit}", significant(value / 1e3)),
        Some((scale, unit)) => format!("{}{unit}", significant(value / scale)),
        None => significant((value * 1e12).round() / 1e12),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>, scale: Scale) -> Chart {
        Chart {
            title: "a < b".to_owned(),
            x: Axis {
                label: "x".to_owned(),
                scale,
                has_zero: false,
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
    fn steps_are_round_numbers() {
        for (step, want) in [(0.3, 0.5), (1.0, 1.0), (1.1, 2.0), (6.0, 10.0), (0.011, 0.02)] {
            assert!((nice(step) - want).abs() < 1e-12 * want, "{step}: {}", nice(step));
        }
    }

    #[test]
    fn every_point_lies_in_the_frame() {
        for scale in [Scale::Linear, Scale::Logarithmic] {
            let points: Vec<_> = (1..=1000)
                .map(|i| (f64::from(i), 0.37 * f64::from(i * i)))
                .collect();
            let x = Ruler::over(points.iter().map(|p| p.0), scale, 0.0, 100.0);
            assert!(points.iter().all(|p| x.place(p.0).is_some()), "{scale:?}");
            assert!((3..=12).contains(&x.marks().len()), "{:?}", x.marks());
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
        assert!(document(&[far.clone()]).contains(">y (axis begins at 85)<"));
        far.y = Axis::from_zero("y");
        let svg = far.compact(&[0]);
        assert!(
            svg.contains(">y<") && svg.contains(">0<") && !svg.contains("begins"),
            "{svg}"
        );
    }

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
            ("", 5, ""),
        ] {
            assert_eq!(wrapped(text, length).join("|"), wanted);
        }
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
