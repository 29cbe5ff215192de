//! A picture of a plan as SVG, from what was observed. Decides which numbers become which curves; [`crate::chart`]
//! draws.

use crate::chart::{Axis, Bars, Chart, Pie, Series, Stroke, page};
use crate::document::RECALLED;
use crate::ledger::Study;
use crate::observation::{Group, World};
use crate::plan::Picture;

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
    let unit = study
        .plan
        .units
        .get(&picture.measure)
        .map(|unit| format!(" [{unit}]"))
        .unwrap_or_default();
    let label = format!("{}{unit}", picture.measure.replace('_', " "));
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
            groups: across.clone(),
            series: curves
                .iter()
                .map(|curve| (curve.name.clone(), values(curve)))
                .collect(),
        };
        return Some((page(&[bars.body()]), worlds));
    }
    let points = |curve: &Curve<'_>| {
        across
            .iter()
            .filter_map(|x| Some((x.parse::<f64>().ok()?, curve.value(x)?)))
            .collect()
    };
    let chart = Chart {
        title: title.to_owned(),
        x: Axis::linear(if picture.x_label.is_empty() {
            &picture.x
        } else {
            &picture.x_label
        }),
        y: Axis::linear(&label),
        series: curves
            .iter()
            .map(|curve| Series {
                name: curve.name.clone(),
                stroke: Stroke::Solid,
                points: points(curve),
            })
            .collect(),
    };
    Some((page(&[chart.body()]), worlds))
}

/// One pie of the first world that has any of it; slices by name, so that pies beside each other have the same colors.
fn pie(study: &Study, picture: &Picture, title: &str) -> Option<(String, Vec<World>)> {
    let (world, groups) = picture
        .worlds
        .iter()
        .map(|&world| (world, groups(study, picture, world)))
        .find(|(_, groups)| !groups.is_empty())?;
    let slices: Vec<(String, f64)> = groups
        .iter()
        .filter_map(|group| {
            let name = group.labels.get(&picture.series)?.replace('_', " ");
            Some((name, group.median()))
        })
        .collect();
    let pie = Pie {
        title: title.to_owned(),
        slices,
    };
    Some((page(&[pie.body()]), vec![world]))
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
    study
        .known
        .values_of(world, &picture.measure, &picture.series)
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
