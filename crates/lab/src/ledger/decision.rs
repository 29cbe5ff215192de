//! The verdict that the results of a claim's rules give: which world decides. Knows no text.

use super::{Verdict, View};
use crate::observation::World;
use std::collections::BTreeMap;

/// How strictly constant bounds are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strictness {
    /// As the plan has them.
    AsWritten,
    /// Moved by [`crate::rule::BORDER`] against the rule.
    Strict,
    /// Moved by as much in favor of the rule.
    Lenient,
}

/// What the results decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// A verdict.
    Verdict(Verdict),
    /// No world has the numbers.
    Open,
}

/// The decision of these worlds: today's measurements count first, then the aged kernel, then the simulation, then
/// formulas. A world whose premise is not met decides nothing.
pub(super) fn decide(by: &[World], views: &BTreeMap<World, View>, strictness: Strictness) -> Decision {
    let used = || by.iter().filter_map(|world| Some((*world, views.get(world)?)));
    let holds = |view: &View| {
        view.premise.filter(|is_met| *is_met)?;
        match strictness {
            Strictness::AsWritten => view.holds,
            Strictness::Strict => view.holds_strictly,
            Strictness::Lenient => view.holds_leniently,
        }
    };
    let of = |wanted: World| {
        used()
            .find(|(world, _)| *world == wanted)
            .and_then(|(_, view)| holds(view))
    };
    let ranked = [
        (World::Measured, Verdict::Reproduced),
        (World::Aged, Verdict::AgedOnly),
        (World::Simulated, Verdict::SimulatedOnly),
        (World::Model, Verdict::Reproduced),
    ];
    if let Some((_, verdict)) = ranked.into_iter().find(|(world, _)| of(*world) == Some(true)) {
        Decision::Verdict(verdict)
    } else if ranked.iter().any(|(world, _)| of(*world) == Some(false)) {
        Decision::Verdict(Verdict::NotReproduced)
    } else if used().any(|(_, view)| view.is_premise_unmet()) {
        Decision::Verdict(Verdict::PremiseNotMet)
    } else {
        Decision::Open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A view with these results: as written, strictly, leniently.
    fn view(premise: bool, holds: [bool; 3]) -> View {
        View {
            value: String::new(),
            range: None,
            partly_run: None,
            holds: Some(holds[0]),
            holds_strictly: Some(holds[1]),
            holds_leniently: Some(holds[2]),
            rules: Vec::new(),
            met: Vec::new(),
            premise: Some(premise),
            premises: Vec::new(),
            sources: Vec::new(),
        }
    }

    #[test]
    fn the_first_world_in_which_the_rules_hold_decides() {
        use Decision::{Open, Verdict as Is};
        use World::{Aged, Measured, Simulated};
        let yes = || view(true, [true; 3]);
        let no = || view(true, [false; 3]);
        let idle = || view(false, [true; 3]);
        for (views, wanted) in [
            (
                vec![(Measured, yes()), (Simulated, no())],
                Is(Verdict::Reproduced),
            ),
            (vec![(Measured, no()), (Aged, yes())], Is(Verdict::AgedOnly)),
            (
                vec![(Measured, no()), (Aged, no()), (Simulated, yes())],
                Is(Verdict::SimulatedOnly),
            ),
            (vec![(Measured, no()), (Aged, no())], Is(Verdict::NotReproduced)),
            (
                vec![(Measured, idle()), (Simulated, yes())],
                Is(Verdict::SimulatedOnly),
            ),
            (vec![(Measured, idle()), (Aged, no())], Is(Verdict::NotReproduced)),
            (vec![(Measured, idle())], Is(Verdict::PremiseNotMet)),
            (vec![], Open),
            // Not one of the worlds that decide.
            (vec![(World::Published, yes())], Open),
        ] {
            let views = views.into_iter().collect();
            let by = [Measured, Aged, Simulated];
            assert_eq!(decide(&by, &views, Strictness::AsWritten), wanted, "{views:?}");
        }
    }

    #[test]
    fn a_bound_that_moves_by_a_hundredth_may_change_the_verdict() {
        let views = [(World::Measured, view(true, [true, false, true]))].into();
        let by = [World::Measured];
        let decided = [Strictness::AsWritten, Strictness::Strict, Strictness::Lenient]
            .map(|strictness| decide(&by, &views, strictness));
        assert_eq!(
            decided,
            [Verdict::Reproduced, Verdict::NotReproduced, Verdict::Reproduced].map(Decision::Verdict)
        );
    }
}
