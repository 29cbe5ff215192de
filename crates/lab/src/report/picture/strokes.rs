//! Vertical strokes over a number, such as segments of a connection over time, and steps beside them, such as acknowledgments.

use super::{across_label, axis, first_world, groups, groups_of, shown};
use crate::ledger::Study;
use crate::observation::{Group, World};
use crate::plan::Picture;
use chart::{Axis, Chart, Series, Stroke};
use std::collections::BTreeMap;

/// The picture; a stroke lacks if one of its ends does.
pub(super) fn draw(
    study: &Study,
    picture: &Picture,
    from: &str,
    title: &str,
) -> Option<(String, Vec<World>)> {
    let world = first_world(study, picture)?;
    let lower = groups_of(study, picture, world, from);
    let mut strokes: BTreeMap<String, Vec<[f64; 3]>> = BTreeMap::new();
    for upper in groups(study, picture, world) {
        let same = lower.iter().find(|group| group.labels == upper.labels);
        if let (Some(lower), Some((name, x))) = (same, place(picture, &upper)) {
            strokes
                .entry(name)
                .or_default()
                .push([x, lower.median(), upper.median()]);
        }
    }
    let mut steps: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for group in picture
        .holds
        .iter()
        .flat_map(|holds| groups_of(study, picture, world, holds))
    {
        if let Some((name, x)) = place(picture, &group) {
            steps.entry(name).or_default().push((x, group.median()));
        }
    }
    let strokes = strokes.into_iter().map(|(name, mut ends)| {
        ends.sort_by(|a, b| a[0].total_cmp(&b[0]));
        let points = ends
            .into_iter()
            .flat_map(|[x, low, high]| [(x, low), (x, high)])
            .collect();
        (name, Stroke::Spans, points)
    });
    let steps = steps.into_iter().map(|(name, mut points)| {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        (name, Stroke::Steps, points)
    });
    let series: Vec<Series> = strokes
        .chain(steps)
        .map(|(name, stroke, points)| Series {
            name: shown(&study.plan, &name),
            stroke,
            points,
        })
        .collect();
    let colors: Vec<usize> = (0..series.len()).collect();
    let chart = Chart {
        title: title.to_owned(),
        x: Axis::linear(&across_label(picture)),
        y: Axis::linear(&axis(&study.plan, &picture.measure)),
        series,
    };
    Some((chart.compact(&colors), vec![world]))
}

/// The series and the horizontal place of a measurement.
fn place(picture: &Picture, group: &Group) -> Option<(String, f64)> {
    let x = group.labels.get(&picture.x)?.parse().ok()?;
    Some((group.labels.get(&picture.series)?.clone(), x))
}
