//! The simulator against exact results: PS, FIFO, SRPT, closed networks; and against itself.

use super::*;
use crate::closed::{Network, Station};
use crate::{queue, srpt};
use units::{Bytes, Draw};

fn open(sizes: Sizes, discipline: Discipline, rho: f64) -> Plan {
    // One byte takes a microsecond.
    let rate = Rate::mbit(8);
    let mean = alone(&sizes, rate).0;
    Plan {
        source: Source::Open { arrivals: rho / mean },
        sizes,
        lines: vec![rate],
        discipline,
        dispatch: Dispatch::Fixed,
        latency: Seconds::ZERO,
        warmup: Seconds(2_000.0 * mean),
        measured: Seconds(100_000.0 * mean),
        seed: Seed(11),
    }
}

/// The exact value must lie within `widths` half widths of the simulated mean.
fn near(plan: &Plan, exact: f64, widths: f64) {
    let got = run(plan, &Limits::DEFAULT).unwrap().answer;
    let apart = (got.response.0 - exact).abs();
    let allowed = widths * got.half_width.unwrap().0;
    assert!(
        apart <= allowed && allowed < 0.35 * exact,
        "{plan:?}\n{got:?}\nexact {exact}"
    );
}

#[test]
fn sharing_is_insensitive_to_the_distribution() {
    for sizes in [
        Sizes::Fixed(1000.0),
        Sizes::Exponential { mean: 1000.0 },
        Sizes::Empirical(vec![(200.0, 9.0), (8200.0, 1.0)]),
    ] {
        let plan = open(sizes, Discipline::Sharing, 0.7);
        near(&plan, 1e-3 / 0.3, 2.0);
    }
}

#[test]
fn first_come_first_served_is_pollaczek_khinchin() {
    for sizes in [
        Sizes::Fixed(1000.0),
        Sizes::Uniform {
            low: 0.0,
            high: 2000.0,
        },
    ] {
        let scv = sizes.scv();
        let plan = open(sizes, Discipline::Fifo, 0.7);
        let exact = queue::mg1(700.0, Seconds(1e-3), scv).unwrap().answer.response.0;
        near(&plan, exact, 2.0);
    }
}

#[test]
fn srpt_is_schrage_and_miller() {
    for sizes in [
        Sizes::Exponential { mean: 1000.0 },
        Sizes::BoundedPareto {
            low: 200.0,
            high: 1e5,
            alpha: 1.3,
        },
        Sizes::Empirical(vec![(500.0, 8.0), (3000.0, 2.0)]),
    ] {
        let service = sizes.scaled(1e-6);
        let plan = open(sizes, Discipline::Srpt, 0.8);
        let exact = srpt::compare(0.8 / service.mean(), &service)
            .unwrap()
            .answer
            .srpt
            .0;
        near(&plan, exact, 2.5);
    }
}

#[test]
fn round_robin_with_small_turns_approaches_sharing() {
    let plan = Plan {
        measured: Seconds(60.0),
        ..open(
            Sizes::Exponential { mean: 1000.0 },
            Discipline::RoundRobin { quantum: Bytes(20) },
            0.6,
        )
    };
    near(&plan, 1e-3 / 0.4, 2.5);
}

fn closed(users: u32, think: Sizes, lines: usize) -> Plan {
    Plan {
        source: Source::Closed { users, think },
        sizes: Sizes::Exponential { mean: 20_000.0 },
        lines: vec![Rate::mbit(8); lines],
        discipline: Discipline::Sharing,
        dispatch: Dispatch::Fixed,
        latency: Seconds(0.05),
        warmup: Seconds(50.0),
        measured: Seconds(1_500.0),
        seed: Seed(5),
    }
}

#[test]
fn users_with_think_time_are_mean_value_analysis() {
    for (users, think) in [
        (5, Sizes::Exponential { mean: 1.0 }),
        (40, Sizes::Exponential { mean: 1.0 }),
        (70, Sizes::Exponential { mean: 1.0 }),
        // Means do not depend on the shape of think times.
        (40, Sizes::Uniform { low: 0.5, high: 1.5 }),
    ] {
        let stations = vec![
            Station::queue("line", Seconds(0.02)),
            Station::delay("latency", Seconds(0.05)),
        ];
        let exact = Network::new(stations, Seconds(1.0))
            .unwrap()
            .exact(users)
            .unwrap();
        let plan = closed(users.try_into().unwrap(), think, 1);
        near(&plan, exact.response.0, 2.0);
        let got = run(&plan, &Limits::DEFAULT).unwrap().answer;
        assert!(
            (got.throughput / exact.throughput - 1.0).abs() < 0.02,
            "{got:?} {exact:?}"
        );
        assert!((got.utilization - exact.stations[0].utilization).abs() < 0.02);
    }
}

#[test]
fn users_spread_over_lines_are_independent_networks() {
    let stations = vec![
        Station::queue("line", Seconds(0.02)),
        Station::delay("latency", Seconds(0.05)),
    ];
    let exact = Network::new(stations, Seconds(1.0)).unwrap().exact(40).unwrap();
    let plan = Plan {
        measured: Seconds(400.0),
        ..closed(400, Sizes::Exponential { mean: 1.0 }, 10)
    };
    near(&plan, exact.response.0, 2.0);
}

#[test]
fn better_dispatch_never_hurts() {
    let response = |dispatch| {
        let plan = Plan {
            dispatch,
            ..open(Sizes::Exponential { mean: 1000.0 }, Discipline::Sharing, 0.8)
        };
        let arrivals = Source::Open {
            arrivals: 8.0 * 800.0,
        };
        let plan = Plan {
            lines: vec![Rate::mbit(8); 8],
            source: arrivals,
            measured: Seconds(20.0),
            ..plan
        };
        run(&plan, &Limits::DEFAULT).unwrap().answer.response.0
    };
    let (random, two) = (response(Dispatch::Random), response(Dispatch::TwoChoices));
    assert!(two < 0.7 * random, "{two} {random}");
    assert!((random / 0.005 - 1.0).abs() < 0.1, "M/M/1-PS at 0.8: {random}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let plan = Plan {
        measured: Seconds(20.0),
        ..closed(50, Sizes::Exponential { mean: 1.0 }, 3)
    };
    let first = run(&plan, &Limits::DEFAULT).unwrap();
    assert_eq!(first, run(&plan, &Limits::DEFAULT).unwrap());
    let other = Plan {
        seed: Seed(6),
        ..plan
    };
    assert_ne!(first.answer, run(&other, &Limits::DEFAULT).unwrap().answer);
}

#[test]
fn a_run_too_short_for_an_interval_says_so() {
    let plan = |measured: f64| Plan {
        measured: Seconds(measured),
        ..closed(1, Sizes::Fixed(100.0), 1)
    };
    // One or two requests, in one batch of the twenty: no interval.
    let short = (1..2_000).find_map(|tenth| {
        let e = run(&plan(f64::from(tenth) / 10.0), &Limits::DEFAULT).ok()?;
        Some(e)
    });
    let e = short.unwrap();
    assert_eq!((e.answer.completed, e.answer.half_width), (1, None));
    assert!(e.warnings[0].contains("measure longer"));
    // No requests: no mean either (it once was 0 s).
    let error = run(&plan(1e-6), &Limits::DEFAULT).unwrap_err().to_string();
    assert!(
        error.starts_with("measured time is 0.000001; allowed: so long"),
        "{error}"
    );
}

#[test]
fn an_overload_is_no_steady_state() {
    for (dispatch, lines, rho) in [
        (Dispatch::Fixed, 1, 2.0),
        (Dispatch::Random, 2, 1.0),
        (Dispatch::TwoChoices, 3, 1.2),
    ] {
        let one = open(
            Sizes::Exponential { mean: 1000.0 },
            Discipline::Sharing,
            rho * f64::from(lines),
        );
        let plan = Plan {
            lines: vec![Rate::mbit(8); lines as usize],
            dispatch,
            ..one
        };
        let error = run(&plan, &Limits::DEFAULT).unwrap_err();
        assert!(
            matches!(error, DomainError::Saturated { utilization, .. } if (utilization - rho).abs() < 1e-9),
            "{error}"
        );
    }
}

#[test]
fn every_run_has_bounds_and_a_region() {
    let closed = closed(6, Sizes::Exponential { mean: 0.2 }, 2);
    let e = run(&closed, &Limits::DEFAULT).unwrap();
    assert_eq!(e.bounds.len(), 2);
    assert!(
        e.bounds.iter().all(|bound| bound.contains(e.answer.response.0)),
        "{e}"
    );
    let e = run(
        &open(Sizes::Fixed(1000.0), Discipline::Fifo, 0.5),
        &Limits::DEFAULT,
    )
    .unwrap();
    assert!(
        e.bounds.iter().all(|bound| bound.contains(e.answer.response.0)),
        "{e}"
    );
    let varied = e.against(&[(Quantity::SizeVariability, 4.0)]);
    assert!(
        varied
            .warnings
            .iter()
            .any(|why| why.contains("another variability")),
        "{varied}"
    );
    // Users without think time are valid.
    let busy = Plan {
        source: Source::Closed {
            users: 3,
            think: Sizes::Fixed(0.0),
        },
        latency: Seconds::ZERO,
        ..closed
    };
    assert!(run(&busy, &Limits::DEFAULT).unwrap().answer.utilization > 0.9);
}

#[test]
fn limits_and_nonsense_are_errors() {
    let busy = open(Sizes::Exponential { mean: 1000.0 }, Discipline::Sharing, 0.99);
    let few = Limits {
        jobs_max: 20,
        ..Limits::DEFAULT
    };
    let error = run(&busy, &few).unwrap_err().to_string();
    assert!(error.starts_with("requests present at once is 21"), "{error}");
    let short = Limits {
        events_max: 10,
        ..Limits::DEFAULT
    };
    assert!(run(&closed(5, Sizes::Fixed(1.0), 1), &short).is_err());
    // Refused before any allocation.
    let crowd = closed(u32::MAX, Sizes::Fixed(1.0), 1);
    let error = run(&crowd, &Limits::DEFAULT).unwrap_err().to_string();
    assert!(error.starts_with("users is 4294967295"), "{error}");
    assert!(run(&closed(21, Sizes::Fixed(1.0), 1), &few).is_err());
    assert!(run(&closed(20, Sizes::Fixed(1.0), 1), &few).is_ok());
    let good = closed(5, Sizes::Fixed(1.0), 1);
    for broken in [
        Plan {
            lines: vec![],
            ..good.clone()
        },
        Plan {
            lines: vec![Rate(0)],
            ..good.clone()
        },
        Plan {
            sizes: Sizes::Fixed(0.0),
            ..good.clone()
        },
        Plan {
            measured: Seconds(1e12),
            ..good.clone()
        },
        Plan {
            measured: Seconds::ZERO,
            ..good.clone()
        },
        Plan {
            discipline: Discipline::RoundRobin { quantum: Bytes(0) },
            ..good.clone()
        },
        Plan {
            source: Source::Open { arrivals: -1.0 },
            ..good.clone()
        },
    ] {
        assert!(run(&broken, &Limits::DEFAULT).is_err(), "{broken:?}");
    }
}

#[test]
fn the_tournament_finds_the_first() {
    for count in [1, 2, 3, 8, 13] {
        let mut tournament = Tournament::new(count);
        let mut rng = Seed(3).rng();
        let mut times = vec![u64::MAX; count];
        for _ in 0..500 {
            let leaf = (uniform(&mut rng) * count as f64) as usize;
            times[leaf] = rng.next_u64() >> 40;
            tournament.set(leaf, times[leaf]);
            assert_eq!(tournament.first().0, *times.iter().min().unwrap());
        }
    }
}
