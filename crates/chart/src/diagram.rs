//! Boxes in rows and columns with arrows between them: the structure of a program or a testbed. Knows names and text only.

use super::ladder::arrow;
use super::paper::{COMPACT, TOP, compact, escape, wrapped};
use std::fmt::Write;

/// Left and right margin of the diagram.
const MARGIN: f64 = 14.0;
/// Space between boxes, in which arrows and their labels are.
const GAP: (f64, f64) = (34.0, 34.0);
/// Space between a box and its text.
const PADDING: f64 = 9.0;
/// Height of a line of text.
const LINE: f64 = 17.0;
/// Color index of arrows: gray, as they stand for no measurement.
const GRAY: usize = 6;

/// A box.
#[derive(Clone, Debug)]
pub struct Block {
    /// Name, in bold.
    pub name: String,
    /// Text below the name, wrapped as the box needs.
    pub lines: Vec<String>,
    /// Column and row, from 0.
    pub at: (usize, usize),
    /// Number of columns that it covers.
    pub columns: usize,
}

/// An arrow between two boxes that share a column or a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrow {
    /// Index of the box where it begins.
    pub from: usize,
    /// Index of the box to which it points.
    pub to: usize,
    /// Whether it points back, too.
    pub is_two_way: bool,
}

/// The diagram.
#[derive(Clone, Debug)]
pub struct Diagram {
    /// Title in one line.
    pub title: String,
    /// The boxes.
    pub blocks: Vec<Block>,
    /// The arrows.
    pub arrows: Vec<Arrow>,
}

/// A box as drawn.
struct Place {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    name: Vec<String>,
    lines: Vec<String>,
}

impl Place {
    fn center(&self) -> (f64, f64) {
        (self.x + self.width / 2.0, self.y + self.height / 2.0)
    }
}

impl Diagram {
    /// A complete SVG document for a narrow column.
    pub fn compact(&self) -> String {
        let (places, bottom) = self.places();
        let mut svg = String::new();
        // Writing to a String cannot fail, here and below.
        for one in &self.arrows {
            if let (Some(from), Some(to)) = (places.get(one.from), places.get(one.to)) {
                let (start, end) = ends(from, to);
                arrow(&mut svg, GRAY, start, end);
                if one.is_two_way {
                    arrow(&mut svg, GRAY, end, start);
                }
            }
        }
        for place in &places {
            let _ = write!(
                svg,
                "<rect class=\"axis\" rx=\"5\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                place.x, place.y, place.width, place.height
            );
            let named = place.name.iter().map(|line| ("title", line));
            let told = place.lines.iter().map(|line| ("small", line));
            for (row, (class, line)) in named.chain(told).enumerate() {
                let _ = write!(
                    svg,
                    "<text class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    place.x + place.width / 2.0,
                    place.y + PADDING + LINE * (row as f64 + 0.75),
                    escape(line)
                );
            }
        }
        compact(&self.title, &svg, bottom)
    }

    /// Each box in its place, and the lower end of the diagram. A row is as high as its highest box.
    fn places(&self) -> (Vec<Place>, f64) {
        let span = |block: &Block| block.columns.max(1);
        let columns = self
            .blocks
            .iter()
            .map(|block| block.at.0 + span(block))
            .max()
            .unwrap_or(1);
        let rows = self.blocks.iter().map(|block| block.at.1 + 1).max().unwrap_or(0);
        let pitch = (COMPACT.width - 2.0 * MARGIN + GAP.0) / columns as f64;
        let mut places: Vec<Place> = self
            .blocks
            .iter()
            .map(|block| {
                let width = pitch * span(block) as f64 - GAP.0;
                let room = width - PADDING;
                let lines: Vec<String> = block
                    .lines
                    .iter()
                    .flat_map(|line| wrapped(line, (room / 7.3) as usize))
                    .collect();
                let name = wrapped(&block.name, (room / 9.4) as usize);
                Place {
                    x: MARGIN + pitch * block.at.0 as f64,
                    y: 0.0,
                    width,
                    height: 2.0 * PADDING + LINE * (name.len() + lines.len()) as f64,
                    name,
                    lines,
                }
            })
            .collect();
        let mut y = TOP - 8.0;
        for row in 0..rows {
            let is_here = |place: usize| self.blocks[place].at.1 == row;
            let highest = (0..places.len())
                .filter(|&place| is_here(place))
                .map(|place| places[place].height)
                .fold(0.0, f64::max);
            for place in (0..self.blocks.len()).filter(|&place| is_here(place)) {
                places[place].y = y;
                places[place].height = highest;
            }
            y += highest + GAP.1;
        }
        (places, y - GAP.1 + 12.0)
    }
}

/// Where an arrow between two boxes begins and ends: in the gap between two rows, or else between two columns. It is upright or
/// level, in the middle of what the boxes share, or of the narrower one.
fn ends(from: &Place, to: &Place) -> ((f64, f64), (f64, f64)) {
    let narrow = if from.width <= to.width { from } else { to };
    let low = if from.height <= to.height { from } else { to };
    if from.y + from.height < to.y {
        let x = narrow.center().0;
        ((x, from.y + from.height), (x, to.y))
    } else if to.y + to.height < from.y {
        let x = narrow.center().0;
        ((x, from.y), (x, to.y + to.height))
    } else if from.x < to.x {
        let y = low.center().1;
        ((from.x + from.width, y), (to.x, y))
    } else {
        let y = low.center().1;
        ((from.x, y), (to.x + to.width, y))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(name: &str, at: (usize, usize), columns: usize) -> Block {
        Block {
            name: name.to_owned(),
            lines: vec![
                "a line of text that is longer than a narrow box and has to be wrapped there".to_owned(),
            ],
            at,
            columns,
        }
    }

    fn diagram() -> Diagram {
        let blocks = vec![
            block("clients & more", (0, 0), 1),
            block("server", (1, 0), 1),
            block("disk", (0, 1), 2),
        ];
        let arrow = |from, to| Arrow {
            from,
            to,
            is_two_way: from == 0,
        };
        Diagram {
            title: "<parts>".to_owned(),
            blocks,
            arrows: vec![arrow(0, 1), arrow(1, 2)],
        }
    }

    #[test]
    fn boxes_do_not_meet_and_arrows_lie_between_them() {
        let (places, bottom) = diagram().places();
        assert!(places[0].x + places[0].width < places[1].x);
        assert!(places[0].y + places[0].height < places[2].y && places[2].y + places[2].height < bottom);
        assert!(places[2].x + places[2].width < COMPACT.width);
        assert!(
            places[0].lines.len() > places[2].lines.len(),
            "a narrow box wraps its text"
        );
        let (start, end) = ends(&places[0], &places[1]);
        assert_eq!((start.0, end.0), (places[0].x + places[0].width, places[1].x));
        assert_eq!(start.1, end.1);
        let (start, end) = ends(&places[1], &places[2]);
        assert_eq!((start.1, end.1), (places[1].y + places[1].height, places[2].y));
        assert_eq!(start.0, end.0);
        // Back again.
        assert_eq!(ends(&places[2], &places[1]), (end, start));
    }

    #[test]
    fn text_is_escaped_and_an_arrow_can_point_both_ways() {
        let svg = diagram().compact();
        assert!(
            svg.contains("&lt;parts&gt;") && svg.contains("clients &amp;"),
            "{svg}"
        );
        assert_eq!(
            (
                svg.matches("<rect class=\"axis\"").count(),
                svg.matches("class=\"line s6\"").count()
            ),
            (3, 3)
        );
        let empty = Diagram {
            title: String::new(),
            blocks: Vec::new(),
            arrows: vec![Arrow {
                from: 0,
                to: 9,
                is_two_way: false,
            }],
        };
        assert!(!empty.compact().contains("NaN"));
    }
}
