//! A time line of messages between two hosts.

use super::{axis, first_world, groups, groups_of, place, shown};
use crate::ledger::Study;
use crate::observation::World;
use crate::plan::{self, Picture};
use chart::Message;

/// The picture; a message without a time of arrival is not drawn.
pub(super) fn draw(
    study: &Study,
    picture: &Picture,
    ladder: &plan::Ladder,
    title: &str,
) -> Option<(String, Vec<World>)> {
    let world = first_world(study, picture)?;
    let arrived = groups_of(study, picture, world, &ladder.arrived);
    let mut kinds = study.known.values_of(world, &picture.measure, &picture.series);
    let sent = groups(study, picture, world);
    kinds.retain(|kind| {
        sent.iter()
            .any(|group| group.labels.get(&picture.series) == Some(kind))
    });
    kinds.sort_by_cached_key(|kind| place(&ladder.kinds, kind));
    // Kinds that the plan does not name follow the named ones.
    let colors: Vec<usize> = kinds
        .iter()
        .enumerate()
        .map(|(at, kind)| {
            ladder
                .kinds
                .iter()
                .position(|named| named == kind)
                .unwrap_or(ladder.kinds.len() + at)
        })
        .collect();
    let messages: Vec<Message> = sent
        .iter()
        .filter_map(|group| {
            let kind = group.labels.get(&picture.series)?;
            Some(Message {
                is_from_first: group.labels.get(&ladder.sender) == Some(&ladder.hosts[0]),
                sent: group.median(),
                arrived: arrived.iter().find(|one| one.labels == group.labels)?.median(),
                kind: kinds.iter().position(|one| one == kind)?,
            })
        })
        .collect();
    let drawing = chart::Ladder {
        title: title.to_owned(),
        hosts: ladder.hosts.clone().map(|host| shown(&study.plan, &host)),
        label: axis(&study.plan, &picture.measure),
        kinds: kinds.iter().map(|kind| shown(&study.plan, kind)).collect(),
        messages,
    };
    Some((drawing.compact(&colors), vec![world]))
}
