//! What Early Hints (103, RFC 8297) did: how much earlier they named each object, and which objects nothing needed.
//!
//! The gain is an upper bound: the fetch may have waited for something else meanwhile.

use crate::timeline::{Initiator, Timeline};
use units::{Duration, Instant};

/// What Early Hints did for one object that they named before the head of its page came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// Index of the object.
    pub object: usize,
    /// Time from the hint to the head of the page; `None` if that never came.
    pub before_head: Option<Duration>,
    /// Time from the hint until something else named the object; `None` if nothing did.
    pub earlier: Option<Duration>,
    /// Whether an element of the page or a style sheet uses the object. Use by scripts is not seen.
    pub is_used: bool,
    /// Bytes received for it: heads and bodies.
    pub bytes: u64,
}

/// Every object that Early Hints named before the head of its page came, in the order found.
pub fn hints(timeline: &Timeline) -> Vec<Hint> {
    let objects = timeline.objects.iter().enumerate();
    let hinted = objects.filter(|(_, object)| object.initiator == Initiator::EarlyHints);
    hinted
        .filter_map(|(number, object)| {
            let of_parent = &timeline.objects[object.parent?].tries;
            let told = |one: Option<Instant>| one.is_some_and(|at| at <= object.found);
            let one = of_parent
                .iter()
                .rfind(|one| told(one.hinted) && !told(one.first))?;
            Some(Hint {
                object: number,
                before_head: one.first.map(|first| first - object.found),
                earlier: object.named.map(|named| named - object.found),
                is_used: object.is_used,
                bytes: object
                    .tries
                    .iter()
                    .map(|one| one.head_bytes + one.body_bytes)
                    .sum(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{at, object, one, timeline};
    use super::*;

    #[test]
    fn what_hints_gained_and_wasted_is_told() {
        let mut page = one(0, [0, 0, 100, 200]);
        page.hinted = Some(at(10));
        let hinted = |found: u64, named: Option<u64>, is_used: bool| {
            let mut object = object(Some(0), found, vec![one(0, [found, found, 110, 120])]);
            object.initiator = Initiator::EarlyHints;
            (object.named, object.is_used) = (named.map(at), is_used);
            object.tries[0].body_bytes = 7;
            object
        };
        let objects = vec![
            object(None, 0, vec![page]),
            hinted(10, Some(130), true),
            // Named by a second 103; the head of the page repeats the hint, and nothing uses the object.
            hinted(20, Some(100), false),
            hinted(20, None, false),
            // The hint came with the head.
            hinted(100, None, true),
            object(Some(0), 130, vec![one(0, [130, 130, 150, 160])]),
        ];
        let got: Vec<_> = hints(&timeline(200, objects, Vec::new()))
            .iter()
            .map(|one| (one.object, one.before_head, one.earlier, one.is_used, one.bytes))
            .collect();
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(
            got,
            [
                (1, ms(90), ms(120), true, 7),
                (2, ms(80), ms(80), false, 7),
                (3, ms(80), None, false, 7),
            ]
        );
    }
}
