//! Mean value analysis against a textbook table, closed forms and its own alternatives.

use super::*;
use crate::queue::erlang_b;

/// Jain, The Art of Computer Systems Performance Analysis, 1991, Example 34.2.
fn timesharing() -> Network {
    let stations = vec![
        Station::queue("cpu", Seconds(16.0 * 0.125)),
        Station::queue("disk a", Seconds(10.0 * 0.3)),
        Station::queue("disk b", Seconds(5.0 * 0.2)),
    ];
    Network::new(stations, Seconds(4.0)).unwrap()
}

#[test]
fn jain_table_34_1() {
    // Users, response, throughput, jobs at cpu, disk a, disk b.
    for (users, r, x, queues) in [
        (1, 6.000, 0.100, [0.200, 0.300, 0.100]),
        (2, 7.400, 0.175, [0.421, 0.684, 0.193]),
        (3, 9.088, 0.229, [0.651, 1.158, 0.273]),
        (4, 11.051, 0.266, [0.878, 1.721, 0.338]),
        (5, 13.256, 0.290, [1.088, 2.365, 0.388]),
        (17, 47.045, 0.333, [1.974, 13.195, 0.499]),
        (18, 50.032, 0.333, [1.981, 14.187, 0.499]),
        (19, 53.022, 0.333, [1.987, 15.181, 0.500]),
        (20, 56.016, 0.333, [1.991, 16.177, 0.500]),
    ] {
        let s = timesharing().exact(users).unwrap();
        assert!((s.response.0 - r).abs() < 6e-4, "{users}: {}", s.response.0);
        assert!((s.throughput - x).abs() < 6e-4);
        for (share, q) in s.stations.iter().zip(queues) {
            assert!(
                (share.jobs - q).abs() < 6e-4,
                "{users} {}: {}",
                share.name,
                share.jobs
            );
        }
    }
}

#[test]
fn convolution_equals_mean_value_analysis() {
    for users in [1, 2, 7, 50, 700] {
        let mva = timesharing().exact(users).unwrap();
        let buzen = timesharing().convolve(users);
        assert!((mva.throughput / buzen.throughput - 1.0).abs() < 1e-9, "{users}");
        for (a, b) in mva.stations.iter().zip(&buzen.stations) {
            assert!((a.jobs / b.jobs - 1.0).abs() < 1e-8, "{users} {}", a.name);
        }
    }
}

#[test]
fn a_balanced_network_has_a_closed_form() {
    // K equal stations without think time: X = N / (D (N + K - 1)).
    for k in [1usize, 2, 5] {
        let stations = (0..k)
            .map(|i| Station::queue(&i.to_string(), Seconds(0.5)))
            .collect();
        let network = Network::new(stations, Seconds::ZERO).unwrap();
        for n in [1u64, 3, 40] {
            let x = network.exact(n).unwrap().throughput;
            assert!((x - n as f64 / (0.5 * (n as f64 + k as f64 - 1.0))).abs() < 1e-12);
            let b = network.brackets(n).throughput_balanced.unwrap();
            assert!((b.0 - x).abs() < 1e-12 && (b.1 - x).abs() < 1e-12);
        }
    }
}

#[test]
fn the_machine_repair_model_is_erlangs() {
    // One server, think time Z: utilization is 1 - B(N, Z/D), Erlang's loss with the roles exchanged.
    let (d, z) = (0.2, 5.0);
    let network = Network::new(vec![Station::queue("server", Seconds(d))], Seconds(z)).unwrap();
    for users in [1, 10, 25, 60] {
        let u = network.exact(users).unwrap().stations[0].utilization;
        let idle = erlang_b(users as u32, z / d);
        assert!((u - (1.0 - idle)).abs() < 1e-9, "{users}: {u} {idle}");
    }
}

/// Birth and death: c servers of demand d, users who think z.
fn repair(users: u64, servers: u32, d: f64, z: f64) -> (f64, f64) {
    let mut weight = vec![1.0];
    for j in 1..=users {
        let up = (users - j + 1) as f64 / z;
        let down = (j as f64).min(f64::from(servers)) / d;
        weight.push(weight[j as usize - 1] * up / down);
    }
    let total: f64 = weight.iter().sum();
    let jobs = weight.iter().enumerate().map(|(j, w)| j as f64 * w).sum::<f64>() / total;
    ((users as f64 - jobs) / z, jobs)
}

#[test]
fn several_servers_match_the_birth_and_death_chain() {
    for (users, servers) in [(1, 2), (5, 2), (20, 4), (60, 16), (60, 100)] {
        let station = Station::servers("pool", Seconds(0.7), servers);
        let network = Network::new(vec![station], Seconds(3.0)).unwrap();
        let s = network.exact(users).unwrap();
        let (x, jobs) = repair(users, servers, 0.7, 3.0);
        assert!((s.throughput / x - 1.0).abs() < 1e-10, "{users} {servers}");
        assert!((s.stations[0].jobs / jobs - 1.0).abs() < 1e-8);
        let rough = network.approximate(users).unwrap();
        assert!(
            (rough.throughput / x - 1.0).abs() < 0.15,
            "{users} {servers} {}",
            rough.throughput / x
        );
    }
}

#[test]
fn thousands_of_users_neither_overflow_nor_drift() {
    let stations = vec![
        Station::servers("pool", Seconds(0.05), 8),
        Station::queue("disk", Seconds(0.004)),
    ];
    let network = Network::new(stations, Seconds(15.0)).unwrap();
    let s = network.exact(3_000).unwrap();
    assert!((s.throughput - 160.0).abs() < 1e-3, "{}", s.throughput);
    let inside: f64 = s.stations.iter().map(|share| share.jobs).sum();
    assert!(
        (inside + s.throughput * 15.0 - 3_000.0).abs() < 1e-4,
        "Little's law: {inside}"
    );
    let large = timesharing().exact(1_000_000).unwrap();
    assert!((large.throughput - 1.0 / 3.0).abs() < 1e-9);
}

#[test]
fn schweitzer_is_close_and_inside_the_bounds() {
    for users in [1, 2, 5, 10, 20, 200, 1_000_000_000] {
        let rough = timesharing().approximate(users).unwrap();
        let b = timesharing().brackets(users);
        assert!(
            rough.throughput <= b.throughput_asymptotic.1 * (1.0 + 1e-9),
            "{users}"
        );
        assert!(
            rough.throughput >= b.throughput_asymptotic.0 * (1.0 - 1e-9),
            "{users}"
        );
        if users <= 200 {
            let exact = timesharing().exact(users).unwrap();
            assert!(
                (rough.throughput / exact.throughput - 1.0).abs() < 0.05,
                "{users}"
            );
        }
    }
}

#[test]
fn questions_that_are_too_large_or_meaningless_are_refused() {
    let pool = Network::new(vec![Station::servers("pool", Seconds(1.0), 2)], Seconds(1.0)).unwrap();
    assert!(pool.exact(30_001).is_err());
    assert!(
        pool.solve(30_001)
            .unwrap()
            .warnings
            .iter()
            .any(|warning| warning.starts_with("approximate"))
    );
    assert!(timesharing().exact(0).is_err());
    assert!(timesharing().exact(u64::MAX).is_err());
    assert!(timesharing().sweep(u64::MAX).is_err());
    assert!(Network::new(vec![], Seconds(1.0)).is_err());
    assert!(Network::new(vec![Station::queue("x", Seconds(-1.0))], Seconds(1.0)).is_err());
    assert!(Network::new(vec![Station::servers("x", Seconds(1.0), 0)], Seconds(1.0)).is_err());
}

#[test]
fn every_answer_carries_both_bounds() {
    let e = timesharing().solve(10).unwrap();
    assert_eq!(e.bounds.len(), 4);
    for bound in &e.bounds {
        let value = if bound.quantity == "response" {
            e.answer.response.0
        } else {
            e.answer.throughput
        };
        assert!(bound.contains(value), "{bound} {value}");
    }
    assert!((timesharing().brackets(1).knee - 10.0 / 3.0).abs() < 1e-12);
}

#[test]
fn the_sweep_is_the_recursion() {
    let points = timesharing().sweep(20).unwrap();
    assert_eq!(points.len(), 20);
    let (n, x, r) = points[19];
    let exact = timesharing().exact(20).unwrap();
    assert_eq!(n, 20);
    assert!((x - exact.throughput).abs() < 1e-12 && (r.0 - exact.response.0).abs() < 1e-9);
}

/// A processor, four servers of an application, a network.
fn pool() -> Network {
    let stations = vec![
        Station::queue("cpu", Seconds(0.005)),
        Station::servers("app", Seconds(0.04), 4),
        Station::delay("net", Seconds(0.09)),
    ];
    Network::new(stations, Seconds(7.0)).unwrap()
}

#[test]
fn the_sweep_is_exact_with_several_servers_too() {
    // Seidmann's rule gives 0.13698 and 0.13564 here; a curve once showed these beside the exact answer.
    let points = pool().sweep(100).unwrap();
    assert!((points[99].2.0 - 0.135_401).abs() < 1e-6, "{:?}", points[99]);
    assert!((points[35].2.0 - 0.135_13).abs() < 1e-5, "{:?}", points[35]);
    for (users, x, response) in points {
        let exact = pool().exact(users).unwrap();
        assert!((x / exact.throughput - 1.0).abs() < 1e-10, "{users}");
        assert!((response.0 / exact.response.0 - 1.0).abs() < 1e-7, "{users}");
    }
    // Few users in a computation for many: their constants underflow at that scale.
    let points = pool().sweep(2_500).unwrap();
    for users in [1, 2, 50, 400, 2_500] {
        let exact = pool().exact(users).unwrap().throughput;
        let x = points[users as usize - 1].1;
        assert!((x / exact - 1.0).abs() < 1e-9, "{users}: {x} {exact}");
    }
    assert!(pool().sweep(30_001).is_err());
}

#[test]
fn balanced_bounds_hold_with_several_servers() {
    for (c, think) in [(2, 0.0), (4, 7.0), (16, 0.3)] {
        let stations = vec![
            Station::queue("cpu", Seconds(0.005)),
            Station::servers("app", Seconds(0.04), c),
            Station::servers("disk", Seconds(0.03), 2),
        ];
        let network = Network::new(stations, Seconds(think)).unwrap();
        for users in [1, 2, 5, 20, 100, 1_000] {
            let x = network.exact(users).unwrap().throughput;
            let b = network.brackets(users);
            let (low, high) = b.throughput_balanced.unwrap();
            let slack = 1e-9 * x;
            assert!(
                low <= x + slack && x <= high + slack,
                "{c} {users}: {low} {x} {high}"
            );
            // They are at least as tight as the asymptotes.
            assert!(low >= b.throughput_asymptotic.0 * (1.0 - 1e-12));
            assert!(high <= b.throughput_asymptotic.1 * (1.0 + 1e-12));
        }
    }
}
