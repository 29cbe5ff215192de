//! A picture of a plan as SVG, from what was observed. Decides which numbers become which curves, in which order and
//! color; [`crate::chart`] draws.

use super::table::spaced;
use crate::chart::{Axis, Bars, Chart, Pie, Series, Stroke};
use crate::document::RECALLED;
use crate::ledger::{Study, Verdict};
use crate::observation::{Group, World};
use crate::plan::Picture;

/// The number of a world's color in [`crate::chart`]; the page's style has the same colors by name.
fn color(world: World) -> usize {
    match world {
        World::Simulated => 0,
        World::Measured => 2,
        World::Model => 4,
        World::Published => 6,
    }
}

/// The number of a verdict's color: like its color on the page.
pub(super) fn color_of(verdict: Verdict) -> usize {
    match verdict {
        Verdict::SimulatedOnly => 0,
        Verdict::NotReproduced => 1,
        Verdict::Reproduced => 2,
        Verdict::NotTestable => 4,
        Verdict::NotJudged => 6,
    }
}

/// One curve: its name and where it finds its numbers.
struct Curve<'p> {
    name: String,
    /// The measurements that may belong to it.
    groups: Vec<Group>,
    picture: &'p Picture,
}

impl Curve<'_> {
    fn value(&self, x: &str) -> Option<f64> {
        let at = |group: &&Group| group.labels.get(&self.picture.x).map(String::as_str) == Some(x);
        self.groups.iter().find(at).map(Group::median)
    }
}

/// The picture with a title of its own or none, and whose numbers it shows; nothing if there are none.
pub(super) fn draw(study: &Study, picture: &Picture, title: &str) -> Option<(String, Vec<World>)> {
    if picture.pie {
        return pie(study, picture, title);
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
        let world = *picture
            .worlds
            .iter()
            .find(|&&world| !groups(study, picture, world).is_empty())?;
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
    // One world's curves are told apart by their own colors; a lone one has its world's.
    let colors: Vec<usize> = match worlds.as_slice() {
        [_] if curves.len() > 1 => (0..curves.len()).collect(),
        worlds => worlds.iter().map(|&world| color(world)).collect(),
    };
    let unit = study.plan.units.get(&picture.measure).map_or("", String::as_str);
    let label = counted(&picture.measure, unit);
    if picture.bars {
        // What is missing has no bar.
        let values = |curve: &Curve<'_>| {
            across
                .iter()
                .map(|x| curve.value(x).unwrap_or(f64::NAN))
                .collect()
        };
        let bars = Bars {
            title: title.to_owned(),
            label,
            groups: across.iter().map(|name| spaced(name)).collect(),
            series: curves
                .iter()
                .map(|curve| (spaced(&curve.name), values(curve)))
                .collect(),
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
        x: Axis::linear(&if picture.x_label.is_empty() {
            spaced(&picture.x)
        } else {
            picture.x_label.clone()
        }),
        y: Axis::from_zero(&label),
        series: curves
            .iter()
            .map(|curve| Series {
                name: spaced(&curve.name),
                stroke: Stroke::Solid,
                points: points(curve),
            })
            .collect(),
    };
    Some((chart.compact(&colors), worlds))
}

/// One pie of the first world that has any of it; slices by name, each name in one color in all pies of a measure.
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
            Some((place(&names, name), (spaced(name), group.median())))
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
    let mut only = picture.only.clone();
    only.extend(picture.beside.get(&world).cloned().unwrap_or_default());
    let mut groups = study.known.select(world, &picture.measure, &only);
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

/// The values of a label as the document has them, then as the plan runs over them.
fn order(study: &Study, label: &str) -> Vec<String> {
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
        // A label that a program prints has often the values of a parameter of another name.
        let read = arm.read.iter().filter_map(|read| read.set.get(label));
        named.chain(read).chain(arm.over.values().flatten())
    });
    printed.chain(arms).cloned().collect()
}

/// What is in no order keeps its own, at the end.
fn place(order: &[String], value: &str) -> usize {
    order.iter().position(|one| one == value).unwrap_or(usize::MAX)
}

/// A measure with its unit, each word once: `disk files/s`, `mean [ms]`, `packets`.
fn counted(measure: &str, unit: &str) -> String {
    let words = spaced(measure);
    let spelled: &[&str] = match unit {
        "" => return words,
        "%" => &["pct", "percent"],
        "s" => &["seconds", "s"],
        "Mbit/s" => &["mbit per s", "mbit"],
        _ => &[],
    };
    let plain = unit.to_lowercase().replace('/', " per ");
    let mut names = spelled.iter().copied().chain([plain.as_str()]);
    let split = names.find_map(|name| {
        let around = if let Some(before) = words.strip_suffix(name) {
            (before, "")
        } else {
            ("", words.strip_prefix(name)?)
        };
        let is_whole = (around.0.is_empty() || around.0.ends_with(' '))
            && (around.1.is_empty() || around.1.starts_with(' '));
        is_whole.then_some(around)
    });
    match split {
        None => format!("{words} [{unit}]"),
        Some(("", "")) if unit == "s" => words,
        Some(("", after)) if unit == "s" => format!("seconds{after}"),
        Some(("", after)) => format!("{unit}{after}"),
        Some((before, _)) if unit.contains('/') => format!("{before}{unit}"),
        Some((before, _)) => format!("{before}[{unit}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_said_once() {
        for (measure, unit, wanted) in [
            ("packets", "packets", "packets"),
            ("mean_ms", "ms", "mean [ms]"),
            ("disk_files_per_s", "files/s", "disk files/s"),
            ("connections_per_s", "connections/s", "connections/s"),
            ("kib_per_connection", "KiB", "KiB per connection"),
            ("overhead_pct", "%", "overhead [%]"),
            ("seconds", "s", "seconds"),
            ("seconds_tcp", "s", "seconds tcp"),
            ("client_mbit", "Mbit/s", "client Mbit/s"),
            ("total_packets", "millions", "total packets [millions]"),
            ("symms", "ms", "symms [ms]"),
            ("first_visit", "", "first visit"),
        ] {
            assert_eq!(counted(measure, unit), wanted);
        }
    }

    #[test]
    fn what_the_document_orders_stays_so_and_the_rest_follows() {
        let order = ["b".to_owned(), "a".to_owned()];
        let mut values = ["a", "c", "b", "d"];
        values.sort_by_cached_key(|value| place(&order, value));
        assert_eq!(values, ["b", "a", "c", "d"]);
    }
}
