//! A picture of a plan: which numbers it shows, and in which form.

use crate::observation::{Labels, World};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A picture.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Picture {
    /// Title.
    pub title: String,
    /// Number of the document's figure, if there is one.
    #[serde(default)]
    pub figure: String,
    /// Worlds in order of preference; the first with data is drawn.
    pub worlds: Vec<World>,
    /// Measure on the vertical axis; of a time line, when a message was sent; of boxes, the number in them.
    pub measure: String,
    /// Label on the horizontal axis; of a time line, the label that identifies a message. Boxes have none.
    #[serde(default)]
    pub x: String,
    /// Text of the horizontal axis.
    #[serde(default)]
    pub x_label: String,
    /// Label whose values become curves; `world` makes each world a curve. Boxes have none.
    #[serde(default)]
    pub series: String,
    /// Draws only observations with these labels.
    #[serde(default)]
    pub only: Labels,
    /// By world, further labels that observations must have.
    #[serde(default)]
    pub beside: BTreeMap<World, Labels>,
    /// Draws bars over words instead of lines over numbers.
    #[serde(default)]
    pub bars: bool,
    /// Draws lines over a logarithmic value axis.
    #[serde(default)]
    pub log: bool,
    /// Draws a pie whose slices are the values of `series`.
    #[serde(default)]
    pub pie: bool,
    /// Draws vertical strokes from this measure up to `measure` instead of lines.
    #[serde(default)]
    pub from: Option<String>,
    /// With `from`, a measure that is drawn as steps: each value holds until the next one.
    #[serde(default)]
    pub holds: Option<String>,
    /// Draws messages between two hosts, down the time.
    #[serde(default)]
    pub ladder: Option<Ladder>,
    /// Draws boxes with arrows between them.
    #[serde(default, rename = "box")]
    pub blocks: Vec<Block>,
    /// The arrows between the boxes.
    #[serde(default)]
    pub arrows: Vec<Arrow>,
    /// Whether the picture is at the top of its document's page, drawn once for then and once for now.
    #[serde(default)]
    pub front: bool,
}

/// What a time line of messages reads besides the times at which they were sent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Ladder {
    /// Label with the name of the host that sent a message.
    pub sender: String,
    /// The two hosts, the first at the left.
    pub hosts: [String; 2],
    /// Measure of the times at which messages arrived.
    pub arrived: String,
    /// Kinds of messages (values of `series`) in the order of the legend; each has its color in every world.
    #[serde(default)]
    pub kinds: Vec<String>,
}

/// A box of a structure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Block {
    /// Its name; arrows refer to it.
    pub name: String,
    /// Its column and row, from 0.
    pub at: (usize, usize),
    /// Number of columns that it covers.
    #[serde(default = "one")]
    pub columns: usize,
    /// Its text; `{value}` stands for the number with its unit.
    #[serde(default)]
    pub lines: Vec<String>,
    /// Labels of the measurements whose sum is the number.
    #[serde(default)]
    pub of: Vec<Labels>,
}

/// An arrow between two boxes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Arrow {
    /// Name of the box where it begins.
    pub from: String,
    /// Name of the box to which it points.
    pub to: String,
    /// Whether it points back, too.
    #[serde(default)]
    pub two_way: bool,
}

fn one() -> usize {
    1
}

impl Picture {
    /// Checks that the picture has what its form needs.
    ///
    /// # Errors
    /// The picture's title, and what is missing or unknown.
    pub(super) fn check(&self) -> Result<(), String> {
        let fault = |what: String| Err(format!("picture \"{}\": {what}", self.title));
        if self.blocks.is_empty() {
            if self.x.is_empty() || self.series.is_empty() {
                return fault("give `x` and `series`, or boxes (`[[picture.box]]`)".to_owned());
            }
            if !self.arrows.is_empty() {
                return fault("`arrows` need boxes (`[[picture.box]]`)".to_owned());
            }
            if self.holds.is_some() && self.from.is_none() {
                return fault("`holds` needs `from`".to_owned());
            }
            return Ok(());
        }
        if self.blocks.iter().all(|block| block.of.is_empty()) {
            return fault("no box has a number; add `of` to one".to_owned());
        }
        let is_known = |name: &&String| self.blocks.iter().any(|block| block.name == **name);
        let ends = self.arrows.iter().flat_map(|arrow| [&arrow.from, &arrow.to]);
        match ends.into_iter().find(|name| !is_known(name)) {
            Some(unknown) => fault(format!("no box is called `{unknown}`")),
            None => Ok(()),
        }
    }
}
