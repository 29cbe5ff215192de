//! A time line of messages between two hosts: time runs downward, and each message is an arrow from when it was sent to when it
//! arrived. Knows names and times only.

use super::Stroke;
use super::axis::{Ruler, Scale, number};
use super::paper::{COLORS, COMPACT, Sheet, TOP, compact, escape, legend};
use std::fmt::Write;

/// Left and right margin between the axis or the edge and a host's line, for the host's name.
const MARGIN: f64 = 46.0;
/// Length of an arrowhead.
const HEAD: f64 = 7.0;

/// A message between the two hosts.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Whether the first host sent it.
    pub is_from_first: bool,
    /// When it was sent.
    pub sent: f64,
    /// When it arrived.
    pub arrived: f64,
    /// Index of its kind.
    pub kind: usize,
}

/// The time line.
#[derive(Clone, Debug)]
pub struct Ladder {
    /// Title in one line.
    pub title: String,
    /// Names of the hosts, the first at the left.
    pub hosts: [String; 2],
    /// Label of the time axis.
    pub label: String,
    /// Names of the kinds of messages.
    pub kinds: Vec<String>,
    /// The messages, in any order.
    pub messages: Vec<Message>,
}

impl Ladder {
    /// A complete SVG document with the legend below; `colors` are the kinds' color indices.
    pub fn compact(&self, colors: &[usize]) -> String {
        let sheet = Sheet {
            height: 470.0,
            bottom: 16.0,
            ..COMPACT
        };
        let (right, bottom) = sheet.corner();
        let lines = [sheet.left + MARGIN, right - MARGIN];
        let top = TOP + 18.0;
        let times = self.messages.iter().flat_map(|one| [one.sent, one.arrived]);
        let ruler = Ruler::over(times, Scale::Linear, top, bottom);
        let mut svg = String::new();
        // Writing to a String cannot fail, here and below.
        for mark in ruler.marks() {
            let Some(at) = ruler.place(mark) else { continue };
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{} {at:.1}H{right}\"/><text class=\"small\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                sheet.left,
                sheet.left - 7.0,
                at + 4.0,
                number(mark)
            );
        }
        let _ = write!(
            svg,
            "<text transform=\"translate(18 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            (top + bottom) / 2.0,
            escape(&self.label)
        );
        for (host, x) in self.hosts.iter().zip(lines) {
            let _ = write!(
                svg,
                "<path class=\"axis\" d=\"M{x} {top}V{bottom}\"/><text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                top - 8.0,
                escape(host)
            );
        }
        for one in &self.messages {
            let (Some(sent), Some(arrived)) = (ruler.place(one.sent), ruler.place(one.arrived)) else {
                continue;
            };
            let [from, to] = match one.is_from_first {
                true => lines,
                false => [lines[1], lines[0]],
            };
            let color = colors.get(one.kind).copied().unwrap_or(one.kind) % COLORS.len();
            arrow(&mut svg, color, (from, sent), (to, arrived));
        }
        let kinds: Vec<(&str, Stroke)> = self
            .kinds
            .iter()
            .map(|kind| (kind.as_str(), Stroke::Solid))
            .collect();
        let end = legend(&mut svg, &sheet, &kinds, colors);
        compact(&self.title, &svg, end)
    }
}

/// A line with an arrowhead at its end.
pub(super) fn arrow(svg: &mut String, color: usize, (x, y): (f64, f64), (to_x, to_y): (f64, f64)) {
    let length = (to_x - x).hypot(to_y - y).max(1e-9);
    let (along, across) = ((to_x - x) / length, (to_y - y) / length);
    let foot = (to_x - HEAD * along, to_y - HEAD * across);
    let half = HEAD * 0.45;
    let _ = write!(
        svg,
        "<path class=\"line s{color}\" style=\"stroke-width:1.4\" d=\"M{x:.1} {y:.1}L{:.1} {:.1}\"/>\
         <path class=\"s{color}\" fill=\"currentColor\" stroke=\"none\" d=\"M{to_x:.1} {to_y:.1}L{:.1} {:.1}L{:.1} {:.1}Z\"/>",
        foot.0,
        foot.1,
        foot.0 - half * across,
        foot.1 + half * along,
        foot.0 + half * across,
        foot.1 - half * along,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ladder(messages: Vec<Message>) -> String {
        let ladder = Ladder {
            title: "<exchange>".to_owned(),
            hosts: ["client".to_owned(), "server".to_owned()],
            label: "time [ms]".to_owned(),
            kinds: vec!["request".to_owned(), "data".to_owned()],
            messages,
        };
        ladder.compact(&[0, 1])
    }

    fn message(is_from_first: bool, sent: f64, arrived: f64, kind: usize) -> Message {
        Message {
            is_from_first,
            sent,
            arrived,
            kind,
        }
    }

    /// Where the first line of a color begins and where its arrowhead ends.
    fn ends(svg: &str, color: usize) -> [(f64, f64); 2] {
        let point = |start: &str| {
            let at = svg.find(start).expect("a path") + start.len();
            let mut numbers = svg[at..]
                .split(['L', ' '])
                .map(|number| number.parse::<f64>().expect("a number"));
            (numbers.next().expect("x"), numbers.next().expect("y"))
        };
        [
            point(&format!(
                "<path class=\"line s{color}\" style=\"stroke-width:1.4\" d=\"M"
            )),
            point(&format!(
                "<path class=\"s{color}\" fill=\"currentColor\" stroke=\"none\" d=\"M"
            )),
        ]
    }

    #[test]
    fn messages_go_across_and_later_ones_are_lower() {
        let svg = ladder(vec![message(true, 0.0, 50.0, 0), message(false, 60.0, 100.0, 1)]);
        let [request, data] = [ends(&svg, 0), ends(&svg, 1)];
        assert!(
            request[0].0 < request[1].0 && data[0].0 > data[1].0,
            "{request:?} {data:?}"
        );
        assert!(
            request[0].1 < request[1].1 && request[1].1 < data[0].1,
            "{request:?} {data:?}"
        );
        for text in [
            "&lt;exchange&gt;",
            ">client<",
            ">server<",
            ">time [ms]<",
            ">data<",
            ">100<",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }

    #[test]
    fn a_message_without_a_time_and_no_message_are_no_reason_to_fail() {
        for messages in [
            vec![],
            vec![message(true, 0.0, f64::NAN, 0)],
            vec![message(true, 1.0, 1.0, 5)],
        ] {
            assert!(!ladder(messages).contains("NaN"));
        }
    }
}
