//! A plan's picture as SVG, drawn from observations. Decides which numbers form which curves, their order and colors;
//! [`chart`] draws them.

mod exchange;
mod strokes;
mod structure;

use super::table::spaced;
use crate::document::RECALLED;
use crate::ledger::{Study, Verdict};
use crate::observation::{Group, World};
use crate::plan::{Picture, Plan};
use chart::{Axis, Bars, Chart, Pie, Series, Stroke};

/// Index of a world's color in [`chart`], the color that the page's style gives it.
fn color(world: World) -> usize {
    match world {
        World::Simulated => 0,
        World::Aged => 3,
        World::Measured => 2,
        World::Model => 4,
        World::Published => 6,
    }
}

/// Index of a verdict's color, the color that the page's style gives it.
pub(super) fn color_of(verdict: Verdict) -> usize {
    match verdict {
        Verdict::SimulatedOnly => 0,
        Verdict::NotReproduced => 1,
        Verdict::Reproduced => 2,
        Verdict::Assumed | Verdict::AgedOnly => 3,
        Verdict::Identity => 5,
        Verdict::NotTestable | Verdict::Borderline => 4,
        Verdict::NotJudged | Verdict::PremiseNotMet => 6,
    }
}

/// One curve: its name and the measurements to search for its points.
struct Curve<'p> {
    name: String,
    groups: Vec<Group>,
    picture: &'p Picture,
}

impl Curve<'_> {
    fn value(&self, x: &str) -> Option<f64> {
        let at = |group: &&Group| group.labels.get(&self.picture.x).map(String::as_str) == Some(x);
        self.groups.iter().find(at).map(Group::median)
    }
}

/// The picture for each of its worlds that has data, if one drawing shows only one of them: the preferred world first.
pub(super) fn by_world(study: &Study, picture: &Picture) -> Vec<Picture> {
    if picture.series == "world" {
        return vec![picture.clone()];
    }
    let has_data = |world: &&World| match picture.blocks.is_empty() {
        true => !groups(study, picture, **world).is_empty(),
        false => structure::has_numbers(study, picture, **world),
    };
    let each = picture.worlds.iter().filter(has_data).map(|world| Picture {
        worlds: vec![*world],
        ..picture.clone()
    });
    let all: Vec<Picture> = each.collect();
    match all.is_empty() {
        true => vec![picture.clone()],
        false => all,
    }
}

/// The largest value of a picture with a value axis from zero; `None` for other pictures and without data.
pub(super) fn most(study: &Study, picture: &Picture) -> Option<f64> {
    if picture.pie || !picture.blocks.is_empty() || picture.ladder.is_some() || picture.from.is_some() {
        return None;
    }
    let worlds = match picture.series == "world" {
        true => picture.worlds.clone(),
        false => vec![first_world(study, picture)?],
    };
    let groups = worlds.iter().flat_map(|&world| groups(study, picture, world));
    groups.map(|group| group.median()).reduce(f64::max)
}

/// The picture as SVG, with the worlds it shows; `None` without data. An empty `title` draws none.
pub(super) fn draw(study: &Study, picture: &Picture, title: &str) -> Option<(String, Vec<World>)> {
    draw_up_to(study, picture, title, None)
}

/// As [`draw`], with a value axis that includes `reach`.
pub(super) fn draw_up_to(
    study: &Study,
    picture: &Picture,
    title: &str,
    reach: Option<f64>,
) -> Option<(String, Vec<World>)> {
    if picture.pie {
        return pie(study, picture, title);
    }
    if !picture.blocks.is_empty() {
        return structure::draw(study, picture, title);
    }
    if let Some(ladder) = &picture.ladder {
        return exchange::draw(study, picture, ladder, title);
    }
    if let Some(from) = &picture.from {
        return strokes::draw(study, picture, from, title);
    }
    let (curves, worlds) = if picture.series == "world" {
        let curves: Vec<(World, Curve<'_>)> = picture
            .worlds
            .iter()
            .map(|&world| {
                let groups = groups(study, picture, world);
                let is_recalled = groups
                    .iter()
                    .any(|group| group.sources.iter().any(|source| source.ends_with(RECALLED)));
                let name = if is_recalled {
                    format!("{} (recalled)", world.name())
                } else {
                    world.name().to_owned()
                };
                (
                    world,
                    Curve {
                        name,
                        groups,
                        picture,
                    },
                )
            })
            .filter(|(_, curve)| !curve.groups.is_empty())
            .collect();
        let worlds = curves.iter().map(|(world, _)| *world).collect();
        (curves.into_iter().map(|(_, curve)| curve).collect(), worlds)
    } else {
        let world = first_world(study, picture)?;
        (by_label(study, picture, world), vec![world])
    };
    let mut across: Vec<String> = Vec::new();
    for &world in &worlds {
        for x in study.known.values_of(world, &picture.measure, &picture.x) {
            if !across.contains(&x) && curves.iter().any(|curve| curve.value(&x).is_some()) {
                across.push(x);
            }
        }
    }
    if across.is_empty() {
        return None;
    }
    if across.iter().any(|x| x.parse::<f64>().is_err()) {
        let order = order(study, &picture.x);
        across.sort_by_cached_key(|x| place(&order, x));
    }
    // Curves of a single world have colors of their own; a lone curve has the color of its world.
    let colors: Vec<usize> = match worlds.as_slice() {
        [_] if curves.len() > 1 => (0..curves.len()).collect(),
        worlds => worlds.iter().map(|&world| color(world)).collect(),
    };
    let label = axis(&study.plan, &picture.measure);
    if picture.bars {
        // A missing value has no bar.
        let values = |curve: &Curve<'_>| {
            across
                .iter()
                .map(|x| curve.value(x).unwrap_or(f64::NAN))
                .collect()
        };
        let bars = Bars {
            title: title.to_owned(),
            label,
            groups: across.iter().map(|name| shown(&study.plan, name)).collect(),
            series: curves
                .iter()
                .map(|curve| (curve_name(&study.plan, curve), values(curve)))
                .collect(),
            reach,
        };
        return Some((bars.compact(&colors), worlds));
    }
    let points = |curve: &Curve<'_>| {
        across
            .iter()
            .filter_map(|x| Some((x.parse::<f64>().ok()?, curve.value(x)?)))
            .collect()
    };
    let chart = Chart {
        title: title.to_owned(),
        x: Axis::linear(&across_label(picture)),
        y: match picture.log {
            true => Axis::logarithmic(&label),
            false => Axis::from_zero(&label),
        }
        .up_to(reach),
        series: curves
            .iter()
            .map(|curve| Series {
                name: curve_name(&study.plan, curve),
                stroke: Stroke::Solid,
                points: points(curve),
            })
            .collect(),
    };
    Some((chart.compact(&colors), worlds))
}

/// A pie of the first world that has data, slices by name. A name has one color in all pies of a measure.
fn pie(study: &Study, picture: &Picture, title: &str) -> Option<(String, Vec<World>)> {
    let (world, groups) = picture
        .worlds
        .iter()
        .map(|&world| (world, groups(study, picture, world)))
        .find(|(_, groups)| !groups.is_empty())?;
    let names = study.known.values_of(world, &picture.measure, &picture.series);
    let (colors, slices): (Vec<usize>, Vec<(String, f64)>) = groups
        .iter()
        .filter_map(|group| {
            let name = group.labels.get(&picture.series)?;
            Some((place(&names, name), (shown(&study.plan, name), group.median())))
        })
        .unzip();
    let pie = Pie {
        title: title.to_owned(),
        slices,
    };
    Some((pie.compact(&colors), vec![world]))
}

/// The measurements of a world that belong to the picture.
fn groups(study: &Study, picture: &Picture, world: World) -> Vec<Group> {
    groups_of(study, picture, world, &picture.measure)
}

/// The measurements of another measure that belong to the picture.
fn groups_of(study: &Study, picture: &Picture, world: World, measure: &str) -> Vec<Group> {
    let mut only = picture.only.clone();
    only.extend(picture.beside.get(&world).cloned().unwrap_or_default());
    let mut groups = study.known.select(world, measure, &only);
    groups.retain(|group| group.labels.contains_key(&picture.x));
    groups
}

fn by_label<'p>(study: &Study, picture: &'p Picture, world: World) -> Vec<Curve<'p>> {
    let all = groups(study, picture, world);
    let mut names = study.known.values_of(world, &picture.measure, &picture.series);
    if names.iter().any(|name| name.parse::<f64>().is_err()) {
        let order = order(study, &picture.series);
        names.sort_by_cached_key(|name| place(&order, name));
    }
    names
        .into_iter()
        .map(|name| Curve {
            groups: all
                .iter()
                .filter(|group| group.labels.get(&picture.series) == Some(&name))
                .cloned()
                .collect(),
            name,
            picture,
        })
        .filter(|curve| !curve.groups.is_empty())
        .collect()
}

/// The values of a label in the document's order, then in the order of the plan's parameters.
pub(super) fn order(study: &Study, label: &str) -> Vec<String> {
    let published = study
        .known
        .all()
        .iter()
        .filter(|one| one.world == World::Published);
    let printed = published.filter_map(|one| one.labels.get(label));
    let arms = study.plan.arms.iter().flat_map(|arm| {
        let named = arm
            .over
            .get(label)
            .into_iter()
            .flatten()
            .chain(arm.labels.get(label));
        // A label read from a program's output often has the values of a parameter with another name.
        let read = arm.read.iter().filter_map(|read| read.set.get(label));
        named.chain(read).chain(arm.over.values().flatten())
    });
    printed.chain(arms).cloned().collect()
}

/// Values that the order lacks come last, in their own order.
pub(super) fn place(order: &[String], value: &str) -> usize {
    order.iter().position(|one| one == value).unwrap_or(usize::MAX)
}

/// The label of a measure's axis: from the plan, or the measure with its unit.
fn axis(plan: &Plan, measure: &str) -> String {
    let unit = plan.units.get(measure).map_or("", String::as_str);
    match plan.axes.get(measure) {
        Some(title) => title.clone(),
        None if unit.is_empty() || unit == measure => spaced(measure),
        None => format!("{} [{unit}]", spaced(measure)),
    }
}

/// The text of the horizontal axis.
fn across_label(picture: &Picture) -> String {
    match picture.x_label.is_empty() {
        true => spaced(&picture.x),
        false => picture.x_label.clone(),
    }
}

/// The first of the picture's worlds that has data.
fn first_world(study: &Study, picture: &Picture) -> Option<World> {
    let has_data = |world: &World| !groups(study, picture, *world).is_empty();
    picture.worlds.iter().copied().find(has_data)
}

/// The name of a curve; a bare number gets its label's unit, as in `32 MiB`, or the name of its label, as in `users 40`.
fn curve_name(plan: &Plan, curve: &Curve<'_>) -> String {
    let name = shown(plan, &curve.name);
    let series = &curve.picture.series;
    match plan.units.get(series) {
        _ if name.parse::<f64>().is_err() => name,
        Some(unit) => format!("{name} {unit}"),
        None => format!("{} {name}", spaced(series)),
    }
}

/// The name of a label's value in pictures.
pub(super) fn shown(plan: &Plan, value: &str) -> String {
    plan.names.get(value).cloned().unwrap_or_else(|| spaced(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_says_what_the_plan_says_or_the_measure_with_its_unit() {
        let text = "document = \"0\"\ntitle = \"t\"\nquestion = \"q\"\nprediction = \"p\"\n\
                    units = { mean_ms = \"ms\", packets = \"packets\" }\n\
                    [axes]\nspeed = \"files/s\"\n[names]\nhttp10 = \"HTTP/1.0\"\n\
                    [[picture]]\ntitle = \"t\"\nworlds = []\nmeasure = \"speed\"\nx = \"x\"\nseries = \"world\"\n";
        let plan = Plan::parse("p", text).expect("a plan");
        for (measure, wanted) in [
            ("speed", "files/s"),
            ("mean_ms", "mean ms [ms]"),
            ("packets", "packets"),
            ("first_visit", "first visit"),
        ] {
            assert_eq!(axis(&plan, measure), wanted);
        }
        assert_eq!(
            (shown(&plan, "http10"), shown(&plan, "a_b")),
            ("HTTP/1.0".to_owned(), "a b".to_owned())
        );
        let error = Plan::parse("p", &text.replace("speed = ", "sped = ")).expect_err("nobody draws it");
        assert!(
            error.to_string().contains("no picture draws the measure `sped`"),
            "{error}"
        );
    }

    #[test]
    fn what_the_document_orders_stays_so_and_the_rest_follows() {
        let order = ["b".to_owned(), "a".to_owned()];
        let mut values = ["a", "c", "b", "d"];
        values.sort_by_cached_key(|value| place(&order, value));
        assert_eq!(values, ["b", "a", "c", "d"]);
    }
}
