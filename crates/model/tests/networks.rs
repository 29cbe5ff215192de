//! Closed networks and open queues over random parameters: bounds bracket, laws hold, alternatives agree.

use model::Seconds;
use model::closed::{Network, Station};
use model::queue::{mg1, mg1_ps, mm1, mmc};
use model::sizes::Sizes;
use model::srpt::compare;
use proptest::prelude::*;

fn networks() -> impl Strategy<Value = Network> {
    let demands = prop::collection::vec(1e-4f64..2.0, 1..6);
    (demands, prop::collection::vec(1e-3f64..5.0, 0..3), 0.0f64..30.0).prop_map(|(queues, delays, think)| {
        let queues = queues.iter().map(|&d| Station::queue("queue", Seconds(d)));
        let delays = delays.iter().map(|&d| Station::delay("delay", Seconds(d)));
        Network::new(queues.chain(delays).collect(), Seconds(think)).unwrap()
    })
}

proptest! {
    #[test]
    fn both_bounds_bracket_the_exact_solution(network in networks(), users in 1u64..200) {
        let solved = network.solve(users).unwrap();
        for bound in &solved.bounds {
            let value = match bound.quantity {
                "response" => solved.answer.response.0,
                _ => solved.answer.throughput,
            };
            prop_assert!(bound.contains(value), "{bound}: {value}");
        }
        let b = network.brackets(users);
        let (balanced, asymptotic) = (b.throughput_balanced.unwrap(), b.throughput_asymptotic);
        prop_assert!(balanced.0 >= asymptotic.0 * (1.0 - 1e-12) && balanced.1 <= asymptotic.1 * (1.0 + 1e-12));
    }

    #[test]
    fn littles_law_and_the_utilization_law_hold(network in networks(), users in 1u64..200) {
        let s = network.exact(users).unwrap();
        let inside: f64 = s.stations.iter().map(|share| share.jobs).sum();
        let thinking = s.throughput * network.think().0;
        prop_assert!((inside + thinking - users as f64).abs() < 1e-6);
        for (share, station) in s.stations.iter().zip(network.stations()) {
            prop_assert!((share.utilization - s.throughput * station.demand.0).abs() < 1e-9);
            prop_assert!((share.residence.0 * s.throughput - share.jobs).abs() < 1e-6);
        }
    }

    #[test]
    fn more_users_never_lower_throughput_or_response(network in networks()) {
        let points = network.sweep(60).unwrap();
        for pair in points.windows(2) {
            prop_assert!(pair[1].1 >= pair[0].1 * (1.0 - 1e-12));
            prop_assert!(pair[1].2.0 >= pair[0].2.0 * (1.0 - 1e-9));
        }
    }

    #[test]
    fn one_server_stations_agree_whatever_the_algorithm(
        demands in prop::collection::vec(1e-2f64..2.0, 1..4),
        think in 0.0f64..30.0,
        users in 1u64..80,
    ) {
        // Single-server stations use mean value analysis; beside a pair of servers, convolution.
        let plain: Vec<Station> = demands.iter().map(|&d| Station::queue("queue", Seconds(d))).collect();
        let mut mixed = plain.clone();
        mixed.push(Station::servers("pair", Seconds(1e-12), 2));
        let a = Network::new(plain, Seconds(think)).unwrap().exact(users).unwrap();
        let b = Network::new(mixed, Seconds(think)).unwrap().exact(users).unwrap();
        prop_assert!((a.throughput / b.throughput - 1.0).abs() < 1e-7, "{} {}", a.throughput, b.throughput);
    }

    #[test]
    fn schweitzer_stays_within_seven_percent(network in networks(), users in 1u64..150) {
        let exact = network.exact(users).unwrap().throughput;
        let rough = network.approximate(users).unwrap().throughput;
        prop_assert!((rough / exact - 1.0).abs() < 0.07, "{rough} {exact}");
    }

    #[test]
    fn a_shared_pool_beats_separate_servers_and_loses_to_one_fast_server(
        servers in 2u32..40,
        rho in 0.05f64..0.98,
        s in 1e-3f64..1.0,
    ) {
        let lambda = rho * f64::from(servers) / s;
        let pooled = mmc(lambda, Seconds(s), servers).unwrap().answer.response;
        let separate = mm1(lambda / f64::from(servers), Seconds(s)).unwrap().answer.response;
        let fast = mm1(lambda, Seconds(s / f64::from(servers))).unwrap().answer.response;
        prop_assert!(fast.0 <= pooled.0 * (1.0 + 1e-12) && pooled.0 <= separate.0 * (1.0 + 1e-12));
    }

    #[test]
    fn first_come_first_served_beats_sharing_exactly_when_service_varies_little(
        rho in 0.05f64..0.98,
        scv in 0.0f64..20.0,
    ) {
        let fifo = mg1(rho, Seconds(1.0), scv).unwrap().answer.response.0;
        let shared = mg1_ps(rho, Seconds(1.0)).unwrap().answer.response.0;
        prop_assert_eq!(fifo < shared, scv < 1.0);
    }

    #[test]
    fn srpt_is_at_most_sharing_for_any_measured_sizes(
        points in prop::collection::vec((1.0f64..1e6, 0.1f64..10.0), 1..30),
        rho in 0.01f64..0.99,
    ) {
        let sizes = Sizes::Empirical(points);
        let e = compare(rho / sizes.mean(), &sizes).unwrap();
        prop_assert!(e.answer.ratio <= 1.0 + 1e-9, "{}", e.answer.ratio);
        prop_assert!(e.answer.srpt.0 >= sizes.mean() * (1.0 - 1e-9));
    }
}
