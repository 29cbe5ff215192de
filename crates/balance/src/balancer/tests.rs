//! Each policy through the balancer: shares, ejection, probes, slow start, estimates.

use super::*;
use proptest::prelude::*;
use units::Word as _;

fn settings(policy: Policy, weights: &[u32]) -> Settings {
    Settings {
        policy,
        dry_run: None,
        upstreams: (1..).zip(weights.iter().copied()).collect(),
        failures_max: 3,
        ejection: Duration::from_secs(10),
        slow_start: Duration::ZERO,
    }
}

fn balancer(policy: Policy, weights: &[u32]) -> Balancer {
    Balancer::new(&settings(policy, weights))
}

fn at(seconds: u64) -> Instant {
    Instant::from_nanos(seconds * 1_000_000_000)
}

fn millis(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn key(key: u64) -> Request {
    Request { tried: 0, key }
}

/// How often each upstream is chosen, if every request ends at once.
fn counts(balancer: &mut Balancer, requests: u64, now: Instant) -> Vec<u64> {
    let mut rng = Seed(1).rng();
    let mut counts = vec![0; balancer.len()];
    for request in 0..requests {
        let visit = balancer.enter(key(request), &mut rng, now).unwrap();
        balancer.leave(visit);
        counts[visit.at] += 1;
    }
    counts
}

#[test]
fn idle_upstreams_take_turns() {
    assert_eq!(
        counts(&mut balancer(Policy::RoundRobin, &[3, 1]), 40, at(1)),
        [30, 10]
    );
    for policy in [Policy::LeastConnections, Policy::Turnaround] {
        assert_eq!(counts(&mut balancer(policy, &[1, 1]), 40, at(1)), [20, 20]);
    }
}

#[test]
fn busy_upstreams_get_less() {
    for policy in [Policy::LeastConnections, Policy::TwoChoices, Policy::Turnaround] {
        let mut balancer = balancer(policy, &[1, 1]);
        let mut rng = Seed(2).rng();
        // Nothing ends: requests must spread evenly.
        for _ in 0..20 {
            balancer.enter(key(0), &mut rng, at(1)).unwrap();
        }
        let under_way = |at: usize| balancer.upstreams[at].under_way;
        assert_eq!((under_way(0), under_way(1)), (10, 10), "{policy}");
    }
}

#[test]
fn an_upstream_that_fails_is_ejected_and_probed() {
    for &policy in Policy::ALL {
        let mut balancer = balancer(policy, &[1, 1]);
        let mut rng = Seed(4).rng();
        assert!(!balancer.failed(0, 0, at(1)) && !balancer.failed(0, 0, at(1)));
        assert!(balancer.failed(0, 0, at(1)), "the third failure in a row ejects");
        assert_eq!(counts(&mut balancer, 10, at(2)), [0, 10]);
        // After ten seconds, one request probes; the others stay away until it ends.
        let mut later = Vec::new();
        for request in 0..40 {
            later.push(balancer.enter(key(request), &mut rng, at(12)).unwrap());
        }
        let probes = later.iter().filter(|visit| visit.at == 0).count();
        assert_eq!(probes, 1, "{policy}");
        for visit in later.extract_if(.., |visit| visit.at == 1) {
            balancer.leave(visit);
        }
        assert!(!balancer.failed(0, 0, at(12)), "it was ejected before");
        assert_eq!(counts(&mut balancer, 10, at(13)), [0, 10]);
        balancer.answered(&mut later[0], at(13));
        balancer.leave(later[0]);
        assert_eq!(balancer.states(at(13))[0].health, "up", "{policy}");
    }
}

#[test]
fn a_response_that_is_cut_ends_no_row_of_failures() {
    let mut balancer = balancer(Policy::RoundRobin, &[1, 1]);
    let mut rng = Seed(5).rng();
    let mut ejected = Vec::new();
    // At the first upstream, two cut responses, a whole one, and three cut ones.
    for is_cut in [true, true, false, true, true, true] {
        let mut visit = balancer.enter(key(0), &mut rng, at(1)).unwrap();
        if visit.at == 1 {
            balancer.leave(visit);
            visit = balancer.enter(key(0), &mut rng, at(1)).unwrap();
        }
        assert_eq!(visit.at, 0);
        balancer.answered(&mut visit, at(1));
        if is_cut {
            ejected.push(balancer.failed(0, visit.forgiven, at(1)));
        }
        balancer.leave(visit);
    }
    assert_eq!(ejected, [false, false, false, false, true]);
}

#[test]
fn if_all_are_out_all_take_part() {
    let mut balancer = balancer(Policy::RoundRobin, &[1, 1]);
    for upstream in [0, 0, 0] {
        balancer.failed(upstream, 0, at(1));
    }
    assert!(balancer.checked(1, false, at(1)));
    assert_eq!(counts(&mut balancer, 10, at(1)), [5, 5]);
    let mut alone = self::balancer(Policy::RoundRobin, &[1]);
    assert!((0..9).all(|_| !alone.failed(0, 0, at(1))), "there is no other");
}

#[test]
fn a_slow_start_takes_a_part_of_the_share() {
    for policy in [Policy::RoundRobin, Policy::LeastConnections, Policy::Turnaround] {
        let mut balancer = Balancer::new(&Settings {
            slow_start: Duration::from_secs(10),
            ..settings(policy, &[1, 1])
        });
        assert!(balancer.checked(0, false, at(1)) && balancer.checked(0, true, at(1)));
        let mut rng = Seed(5).rng();
        let mut part = |now: Instant| {
            // Requests stay, so policies that go by load compare it.
            let visits: Vec<Visit> = (0..400)
                .map(|_| balancer.enter(key(0), &mut rng, now).unwrap())
                .collect();
            visits.iter().for_each(|visit| balancer.leave(*visit));
            visits.iter().filter(|visit| visit.at == 0).count() as f64 / 400.0
        };
        // A third of 1.5 in the middle, a half in the end.
        let (begin, middle, end) = (part(at(1)), part(at(6)), part(at(11)));
        assert!(begin < 0.14 && begin > 0.02, "{policy}: {begin}");
        assert!(middle > 0.2 && middle < 0.36, "{policy}: {middle}");
        assert!((end - 0.5).abs() < 0.01, "{policy}: {end}");
    }
}

/// Requests one by one; the upstream at this index takes so many milliseconds for each.
fn serve(balancer: &mut Balancer, times: &[u64], requests: u64) -> Vec<u64> {
    let mut rng = Seed(6).rng();
    let mut counts = vec![0; times.len()];
    let mut now = 1_000;
    for request in 0..requests {
        let mut visit = balancer.enter(key(request), &mut rng, millis(now)).unwrap();
        counts[visit.at] += 1;
        balancer.opened(&mut visit, millis(now));
        now += times[visit.at];
        balancer.answered(&mut visit, millis(now));
        balancer.leave(visit);
    }
    counts
}

#[test]
fn slow_upstreams_get_less() {
    for policy in [Policy::Ewma, Policy::Turnaround] {
        let counts = serve(&mut balancer(policy, &[1, 1, 1]), &[10, 10, 40], 600);
        assert!((1..60).contains(&counts[2]), "{policy}: {counts:?}");
    }
}

#[test]
fn estimates_are_shown() {
    let mut balancer = balancer(Policy::RoundRobin, &[1, 1]);
    assert_eq!(balancer.states(at(1))[0].response, None);
    serve(&mut balancer, &[10, 40], 2_000);
    let states = balancer.states(millis(60_000));
    let near = |got: Option<f64>, expected: f64| (got.unwrap() / expected - 1.0).abs() < 0.02;
    assert!(
        near(states[0].service, 0.010) && near(states[1].service, 0.040),
        "{states:?}"
    );
    assert_eq!((states[0].requests, states[0].health), (1_000, "up"));
    assert!(states[1].growth > 3.0 * states[0].growth);
}

#[test]
fn a_dry_run_counts_and_changes_nothing() {
    let with = Settings {
        dry_run: Some(Policy::Turnaround),
        ..settings(Policy::RoundRobin, &[1, 1])
    };
    let mut dry = Balancer::new(&with);
    let mut plain = balancer(Policy::RoundRobin, &[1, 1]);
    let times = [10, 40];
    assert_eq!(serve(&mut dry, &times, 600), serve(&mut plain, &times, 600));
    let (policy, choices, differing) = dry.dry_run().unwrap();
    assert_eq!((policy, choices), (Policy::Turnaround, 600));
    assert!(
        (250..350).contains(&differing),
        "half go to the slow one: {differing}"
    );
    assert_eq!(plain.dry_run(), None);
}

proptest! {
    #[test]
    fn a_request_tries_each_upstream_once(count in 1_usize..64, policy in 0..Policy::ALL.len(), key: u64) {
        let mut balancer = balancer(Policy::ALL[policy], &vec![1; count]);
        let mut rng = Seed(3).rng();
        let mut tried = 0;
        for _ in 0..count {
            let visit = balancer.enter(Request { tried, key }, &mut rng, at(1)).unwrap();
            prop_assert_eq!(tried & 1 << visit.at, 0);
            tried |= 1 << visit.at;
            balancer.leave(visit);
        }
        let more = balancer.enter(Request { tried, key }, &mut rng, at(1));
        prop_assert!(more.is_none());
    }

    /// Whatever happens, what enters leaves, and the estimates stay numbers.
    #[test]
    fn loads_add_up(steps in proptest::collection::vec((0..6_u8, 0..8_usize, 0..30_u64), 1..200), policy in 0..Policy::ALL.len()) {
        let mut balancer = Balancer::new(&Settings {
            slow_start: Duration::from_secs(5),
            ..settings(Policy::ALL[policy], &[1, 2, 3, 1])
        });
        let mut rng = Seed(7).rng();
        let mut visits: Vec<Visit> = Vec::new();
        let mut now = 1_000;
        for (what, which, later) in steps {
            now += later;
            let instant = millis(now * 20);
            match what {
                0 | 1 => visits.extend(balancer.enter(key(now), &mut rng, instant)),
                2 if which < visits.len() => balancer.answered(&mut visits[which], instant),
                3 if which < visits.len() => balancer.leave(visits.swap_remove(which)),
                4 => drop(balancer.failed(which % 4, 0, instant)),
                _ => drop(balancer.checked(which % 4, later % 2 == 0, instant)),
            }
            let states = balancer.states(instant);
            let under_way: u32 = states.iter().map(|state| state.under_way).sum();
            prop_assert_eq!(under_way as usize, visits.len());
            prop_assert!(states.iter().all(|state| state.growth.is_finite() && state.growth >= 0.0));
        }
    }
}
