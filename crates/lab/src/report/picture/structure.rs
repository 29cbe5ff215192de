//! Boxes with arrows between them, with numbers of a run in them.

use super::World;
use crate::ledger::Study;
use crate::plan::{Block, Picture};
use crate::rule::short;
use chart::{Arrow, Diagram};

/// Whether a world has every number of the picture.
pub(super) fn has_numbers(study: &Study, picture: &Picture, world: World) -> bool {
    let mut numbered = picture.blocks.iter().filter(|block| !block.of.is_empty());
    numbered.all(|block| number(study, picture, block, world).is_some())
}

/// The picture of the first world that has every number.
pub(super) fn draw(study: &Study, picture: &Picture, title: &str) -> Option<(String, Vec<World>)> {
    let world = picture
        .worlds
        .iter()
        .copied()
        .find(|world| has_numbers(study, picture, *world))?;
    let blocks = picture.blocks.iter().map(|block| {
        let value = number(study, picture, block, world);
        let text = value.map_or(String::new(), |value| with_unit(study, picture, value));
        chart::Block {
            name: block.name.clone(),
            lines: block
                .lines
                .iter()
                .map(|line| line.replace("{value}", &text))
                .collect(),
            at: block.at,
            columns: block.columns,
        }
    });
    let at = |name: &String| picture.blocks.iter().position(|block| block.name == *name);
    let arrows = picture.arrows.iter().filter_map(|arrow| {
        Some(Arrow {
            from: at(&arrow.from)?,
            to: at(&arrow.to)?,
            is_two_way: arrow.two_way,
        })
    });
    let diagram = Diagram {
        title: title.to_owned(),
        blocks: blocks.collect(),
        arrows: arrows.collect(),
    };
    Some((diagram.compact(), vec![world]))
}

/// The sum of a box's measurements; `None` if one is missing or there is none. Labels that select several measurements select
/// none: a sum over an unknown number of them would be no number.
fn number(study: &Study, picture: &Picture, block: &Block, world: World) -> Option<f64> {
    let values = block.of.iter().map(|labels| {
        let mut all = picture.only.clone();
        all.extend(picture.beside.get(&world).cloned().unwrap_or_default());
        all.extend(labels.clone());
        match study.known.select(world, &picture.measure, &all).as_slice() {
            [one] => Some(one.median()),
            _ => None,
        }
    });
    let values: Option<Vec<f64>> = values.collect();
    values
        .filter(|values| !values.is_empty())
        .map(|values| values.iter().sum())
}

/// A number with three digits and the unit of its measure.
fn with_unit(study: &Study, picture: &Picture, value: f64) -> String {
    let unit = study.plan.units.get(&picture.measure).map_or("", String::as_str);
    let digits = 10_f64.powf(2.0 - value.abs().max(1e-9).log10().floor());
    let text = short((value * digits).round() / digits);
    match unit.is_empty() {
        true => text,
        false => format!("{text}\u{a0}{unit}"),
    }
}
