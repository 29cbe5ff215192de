//! Tests of the refits: that each covers its figures, that adopted values change nothing, and that none is forgotten.

use super::grid::combinations;
use super::sizes::Size;
use super::times::{Time, costs};
use super::*;
use crate::costs::Costs;
use crate::page::microscape;
use crate::server::Kind;
use crate::tables::{Published, published};
use crate::visit::{Case, Hosts, Network, Ready};
use crate::{ASSUMPTIONS, Basis};
use client::plan::Mode;
use load::site::microscape::TagCase;
use std::collections::BTreeSet;
use units::{Seed, Word as _};

fn page() -> Rc<Page> {
    Rc::new(microscape(TagCase::Lower))
}

/// Every figure has a prediction, and none is nearer to the published figure than the fit that has seen it.
fn check(refit: &Refit, parameters: usize, figures: usize) {
    let what = refit.subject.what;
    assert_eq!(refit.parameters.len(), parameters, "{what}");
    assert_eq!(refit.figures.len(), figures, "{what}");
    for figure in &refit.figures {
        let left_out = figure.left_out.expect("a prediction");
        let [seen, unseen] = [figure.refitted, left_out].map(|value| figure.error(value).abs());
        assert!(seen <= unseen + 1e-6, "{what}: {figure:?}");
        assert_eq!(figure.parameters.len(), parameters);
    }
    let error = |of: fn(&Figure) -> f64| {
        let agreement = refit.agreement(|figure| Some(of(figure)));
        agreement.expect("a value for each figure").error
    };
    // The adopted values are among those that can be found.
    assert!(error(|figure| figure.refitted) <= error(|figure| figure.adopted) + 1e-6);
}

#[test]
fn every_fitted_assumption_is_covered_or_said_not_to_be() {
    let covered: BTreeSet<&str> = Group::ALL
        .iter()
        .flat_map(|group| group.assumptions())
        .copied()
        .chain(NOT_COVERED.iter().map(|(what, _)| *what))
        .collect();
    for one in ASSUMPTIONS.iter().filter(|one| one.basis == Basis::Fitted) {
        assert!(covered.contains(one.what), "{}", one.what);
    }
    for what in Group::ALL.iter().flat_map(|group| group.assumptions()) {
        let one = ASSUMPTIONS.iter().find(|one| one.what == *what).expect(what);
        assert_eq!(one.basis, Basis::Fitted, "{what}");
    }
}

/// With the adopted values, a search simulates the hosts of all other simulations.
#[test]
fn the_adopted_values_are_tried_and_change_nothing() {
    for grid in GRIDS {
        let adopted: Vec<f64> = grid.searched.iter().map(|one| one.adopted).collect();
        let all = combinations(grid.searched);
        assert!(all.contains(&adopted), "{}", grid.subject.what);
        let number: usize = grid.searched.iter().map(|one| one.tried.len()).product();
        assert_eq!(all.len(), number);
        let networks: BTreeSet<Network> = published()
            .iter()
            .filter(|row| (grid.wanted)(row))
            .map(|row| row.case.network)
            .collect();
        for network in networks {
            let hosts = || Hosts::of(network, 1.0, Seed(1));
            for values in &all {
                let mut changed = hosts();
                (grid.change)(&mut changed, values);
                let is_same = format!("{changed:?}") == format!("{:?}", hosts());
                assert_eq!(is_same, *values == adopted, "{values:?}");
            }
        }
    }
}

#[test]
fn document_001_predicts_each_of_its_two_figures_from_the_other() {
    let refits = Group::Page.refits(&page(), 1);
    for refit in &refits {
        check(refit, 1, 2);
    }
    // A page over HTTP opens three connections, one over P-HTTP opens one.
    let connecting = &refits[0];
    let [http, both] = [&connecting.figures[0], &connecting.figures[1]];
    assert!(http.parameters[0] < both.parameters[0], "{connecting:?}");
}

#[test]
fn timeouts_are_refitted_to_the_first_visits_over_http10() {
    let refits = Group::Timeouts.refits(&page(), 1);
    assert_eq!(refits.len(), 2);
    for refit in &refits {
        check(refit, 1, 2 * 3);
    }
}

#[test]
fn sizes_are_refitted_to_the_bytes_of_all_rows() {
    let refits = Group::Sizes.refits(&page(), 1);
    check(&refits[0], 10, 44);
}

/// A size counts as often in the simulation as in its slope.
#[test]
fn a_visit_has_as_many_messages_of_a_size_as_its_slope_says() {
    let rows = published();
    let case = |mode: Mode, is_first: bool| {
        let is_wanted = |row: &&Published| {
            let case = &row.case;
            (case.manner.mode, case.is_first) == (mode, is_first)
                && case.manner.coding.is_none()
                && case.server == Kind::Apache
                && (case.network == Network::Ppp) == (mode != Mode::Http10)
        };
        rows.iter().find(is_wanted).expect("a row").case
    };
    let sums = |case: &Case| -> f64 {
        let all = Size::all();
        all.iter().map(|size| size.slope(case) * size.adopted()).sum()
    };
    // 43 heads of 222 - 23 B, and requests that are 4 B shorter than the document's.
    assert_eq!(sums(&case(Mode::Serial, true)), 43.0 * (222.0 - 23.0 - 4.0));
    assert_eq!(sums(&case(Mode::Serial, false)), 43.0 * (120.0 + 206.0 - 4.0));
    assert_eq!(sums(&case(Mode::Http10, true)), 43.0 * 219.0);
    assert_eq!(sums(&case(Mode::Http10, false)), 43.0 * (219.0 + 206.0));
    // The revalidation has nothing else.
    let visit = Ready::new(case(Mode::Serial, false), &page()).visit(Seed(1));
    let error = visit.figures.bytes() - sums(&case(Mode::Serial, false));
    assert!(error.abs() <= 43.0, "{error}");
}

#[test]
fn processor_times_are_refitted_to_the_seconds_over_the_lan() {
    let refits = Group::Times.refits(&page(), 1);
    let [refit] = &refits[..] else {
        panic!("one refit: {refits:?}")
    };
    assert_eq!((refit.parameters.len(), refit.figures.len()), (10, 16));
    for figure in &refit.figures {
        assert!(figure.left_out.is_some_and(f64::is_finite), "{figure:?}");
        assert_eq!(figure.parameters.len(), 10);
    }
    let times = Time::all();
    let adopted: Vec<f64> = times.iter().map(|time| time.adopted).collect();
    for kind in Kind::ALL {
        assert_eq!(costs(&times, &adopted, kind), Costs::FITTED, "{kind:?}");
    }
}

#[test]
fn a_single_figure_leaves_nothing_to_predict_it_from() {
    let refits = Group::Modem.refits(&page(), 1);
    let figure = &refits[0].figures[0];
    assert_eq!((refits[0].figures.len(), figure.left_out), (1, None));
    assert!(figure.is_within(figure.refitted), "{figure:?}");
    assert_eq!(refits[0].agreement(|figure| figure.left_out), None);
}
