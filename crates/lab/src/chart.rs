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
const LEFT: f64 = 74.0;
const RIGHT: f64 = 200.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 52.0;

/// Colors that people with any color vision tell apart (Okabe and Ito 2008), for light and for dark ground.
const COLORS: [(&str, &str); 7] = [
    ("#0072b2", "#56b4e9"),
    ("#d55e00", "#ff8c42"),
    ("#009e73", "#2fd0a2"),
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
}

impl Axis {
    /// A linear axis.
    pub fn linear(label: &str) -> Axis {
        Axis {
            label: label.to_owned(),
            scale: Scale::Linear,
        }
    }

    /// A logarithmic axis.
    pub fn logarithmic(label: &str) -> Axis {
        Axis {
            label: label.to_owned(),
            scale: Scale::Logarithmic,
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
    let mut style = String::from(
        "text{font:13px system-ui,sans-serif;fill:var(--ink)}.title{font-weight:600;font-size:15px}\
         .axis{stroke:var(--ink);fill:none}.grid{stroke:var(--grid);fill:none}.small{font-size:12px}\
         .line{fill:none;stroke-width:2;stroke-linejoin:round}.ground{fill:var(--ground)}",
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
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\">\n<style>svg{{--ink:#1b1b1b;--grid:#dddddd;--ground:#ffffff;{light}}}\
         @media(prefers-color-scheme:dark){{svg{{--ink:#e6e6e6;--grid:#3a3a3a;--ground:#16181c;{dark}}}}}\
         {style}</style>\n<rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\"/>\n"
    );
    for (place, body) in bodies.iter().enumerate() {
        let _ = writeln!(
            svg,
            "<g transform=\"translate(0 {})\">{body}</g>",
            HEIGHT * place as f64
        );
    }
    svg.push_str("</svg>\n");
    svg
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
        let all = || {
            self.series
                .iter()
                .flat_map(|series| series.points.iter().copied())
        };
        let x = Ruler::over(all().map(|point| point.0), self.x.scale, LEFT, WIDTH - RIGHT);
        let y = Ruler::over(all().map(|point| point.1), self.y.scale, HEIGHT - BOTTOM, TOP);
        let mut svg = format!(
            "<text class=\"title\" x=\"16\" y=\"24\">{}</text>",
            escape(&self.title)
        );
        self.frame(&mut svg, &x, &y);
        let curves = self.distinct(&x, &y);
        for (class, (series, _)) in curves.iter().enumerate() {
            curve(&mut svg, series, class % COLORS.len(), &x, &y);
        }
        legend(&mut svg, &curves);
        svg
    }

    /// The series, each with the names of all that would be drawn on top of it: half a pixel is no difference.
    fn distinct(&self, x: &Ruler, y: &Ruler) -> Vec<(&Series, Vec<&str>)> {
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
        let mut curves: Vec<(&Series, Vec<&str>)> = Vec::new();
        for series in &self.series {
            match curves.iter_mut().find(|(first, _)| near(first, series)) {
                Some((_, names)) => names.push(&series.name),
                None => curves.push((series, vec![&series.name])),
            }
        }
        curves
    }

    fn frame(&self, svg: &mut String, x: &Ruler, y: &Ruler) {
        let bottom = HEIGHT - BOTTOM;
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
        self.upright(svg, y);
    }

    /// The marks of the upright axis, both axes' lines and labels.
    fn upright(&self, svg: &mut String, y: &Ruler) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for mark in y.marks() {
            let Some(at) = y.place(mark) else { continue };
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/><text class=\"small\" x=\"{}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{}</text>",
                LEFT - 7.0,
                at + 4.0,
                number(mark)
            );
        }
        let middle = (TOP + bottom) / 2.0;
        let _ = write!(
            svg,
            "<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             <text transform=\"translate(18 {middle}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 12.0,
            escape(&self.x.label),
            escape(&self.y.label)
        );
    }
}

/// A mark for each curve and, below each other, the names it has.
fn legend(svg: &mut String, curves: &[(&Series, Vec<&str>)]) {
    let colors: Vec<usize> = (0..curves.len()).collect();
    legend_in(svg, curves, &colors);
}

/// The same where curves have these colors.
fn legend_in(svg: &mut String, curves: &[(&Series, Vec<&str>)], colors: &[usize]) {
    let left = WIDTH - RIGHT + 16.0;
    let mut middle = TOP + 8.0;
    for ((series, names), color) in curves.iter().zip(colors) {
        let (class, paint) = paint(*color);
        let _ = match series.stroke {
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
                dashes(series.stroke)
            ),
        };
        for name in names {
            let _ = write!(
                svg,
                "<text class=\"small\" x=\"{}\" y=\"{}\">{}</text>",
                left + 28.0,
                middle + 4.0,
                escape(name)
            );
            middle += 17.0;
        }
        middle += 3.0;
    }
}

/// The class of a color and what makes it paler: there are more things than colors, and the second round of them is paler.
fn paint(color: usize) -> (usize, &'static str) {
    match color / COLORS.len() {
        0 => (color, ""),
        _ => (color % COLORS.len(), " fill-opacity=\"0.45\""),
    }
}

fn dashes(stroke: Stroke) -> &'static str {
    if stroke == Stroke::Dashed {
        " stroke-dasharray=\"6 4\""
    } else {
        ""
    }
}

fn curve(svg: &mut String, series: &Series, class: usize, x: &Ruler, y: &Ruler) {
    let places = series
        .points
        .iter()
        .map(|&(a, b)| Some((x.place(a)?, y.place(b)?)));
    if series.stroke == Stroke::Dots {
        for (a, b) in places.flatten() {
            let _ = write!(
                svg,
                "<circle class=\"s{class}\" fill=\"currentColor\" cx=\"{a:.1}\" cy=\"{b:.1}\" r=\"3.5\"/>"
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
        dashes(series.stroke)
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
    fn curves_that_coincide_are_drawn_once_with_both_names() {
        let mut two = chart(vec![(0.0, 1.0), (1.0, 2.0)], Scale::Linear);
        let mut twin = two.series[0].clone();
        twin.name = "twin".to_owned();
        two.series.push(twin);
        let svg = document(&[two]);
        assert_eq!(svg.matches("<path class=\"line s0\"").count(), 2, "{svg}");
        assert!(
            !svg.contains("<path class=\"line s1\"") && svg.contains(">twin<"),
            "{svg}"
        );
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
