//! The fit finds the parameters that made the samples, and its intervals cover them as often as they claim.

use super::*;
use units::{Rate, Rng, Seed};

/// Multiplies by a factor near 1: the mean of twelve uniforms is close to normal.
fn noisy(value: f64, spread: f64, rng: &mut Rng) -> f64 {
    let sum: f64 = (0..12).map(|_| crate::sizes::uniform(rng)).sum();
    value * (spread * (sum - 6.0)).exp()
}

fn load_samples(noise: f64, seed: Seed) -> Vec<LoadSample> {
    let network = Network::new(
        vec![
            Station::queue("q", Seconds(0.01)),
            Station::delay("d", Seconds(0.08)),
        ],
        Seconds(2.0),
    )
    .unwrap();
    let mut rng = seed.rng();
    [10, 50, 100, 150, 200, 210, 230, 260, 300]
        .map(|users| {
            let s = network.exact(users).unwrap();
            let response = noisy(s.response.0, noise, &mut rng);
            LoadSample {
                users,
                throughput: users as f64 / (response + 2.0),
                response: Seconds(response),
            }
        })
        .to_vec()
}

#[test]
fn a_clean_load_result_gives_its_parameters_back() {
    let e = service(&load_samples(0.0, Seed(1))).unwrap();
    assert!(e.bounds.len() == 1 && e.bounds[0].contains(0.01), "{e}");
    let fit = e.answer;
    assert!((fit.demand.value - 0.01).abs() < 1e-7, "{fit:?}");
    assert!((fit.delay.value - 0.08).abs() < 1e-6);
    assert!((fit.think.value - 2.0).abs() < 1e-9);
    assert!(fit.error < 1e-6);
    let predicted = fit.network().unwrap().exact(400).unwrap();
    assert!((predicted.throughput - 100.0).abs() < 0.01);
}

/// A server without any delay: the fit must still succeed.
#[test]
fn a_system_without_delay_has_a_demand_all_the_same() {
    let network = Network::new(vec![Station::queue("q", Seconds(0.01))], Seconds(0.0)).unwrap();
    for seed in 0..20 {
        let mut rng = Seed(seed).rng();
        let samples = [1, 2, 4, 8, 16].map(|users| {
            let response = noisy(network.exact(users).unwrap().response.0, 0.03, &mut rng);
            LoadSample {
                users,
                throughput: users as f64 / response,
                response: Seconds(response),
            }
        });
        let fit = service(&samples).unwrap().answer;
        assert!(
            (fit.demand.value / 0.01 - 1.0).abs() < 0.1,
            "seed {seed}: {fit:?}"
        );
        assert!(
            fit.delay.value < 0.001 && fit.delay.low <= fit.delay.value,
            "seed {seed}: {fit:?}"
        );
        assert!(
            fit.network().unwrap().exact(100).unwrap().response.0 > 0.9,
            "seed {seed}"
        );
    }
    // A single load does not separate queueing from delay.
    let one = LoadSample {
        users: 1,
        throughput: 100.0,
        response: Seconds(0.01),
    };
    assert!(matches!(
        service(&[one; 4]),
        Err(DomainError::Undetermined { .. })
    ));
}

#[test]
fn intervals_cover_the_truth_as_often_as_they_say() {
    let mut covered = [0; 2];
    let runs = 600;
    for seed in 0..runs {
        let fit = service(&load_samples(0.05, Seed(seed))).unwrap().answer;
        for (count, (estimate, truth)) in covered.iter_mut().zip([(fit.demand, 0.01), (fit.delay, 0.08)]) {
            *count += i32::from(estimate.low <= truth && truth <= estimate.high);
        }
    }
    for count in covered {
        let share = f64::from(count) / runs as f64;
        assert!(
            (0.92..=0.98).contains(&share),
            "95 % intervals cover {share}, seeds 0..{runs}"
        );
    }
}

fn transfer_samples(sender: &Sender, rtt: f64, rate: Rate, noise: f64, seed: Seed) -> Vec<TransferSample> {
    let mut rng = seed.rng();
    [500, 2_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000]
        .map(|size| {
            let t = predicted(sender, 2.0, rtt, 1.0 / rate.bits_per_second(), Bytes(size));
            TransferSample {
                size: Bytes(size),
                latency: Seconds(noisy(t, noise, &mut rng)),
            }
        })
        .to_vec()
}

#[test]
fn a_path_gives_its_parameters_back() {
    for (window, rtt, rate) in [
        (1.0, 0.09, Rate::mbit(2)),
        (10.0, 0.05, Rate::mbit(100)),
        (4.0, 0.2, Rate::mbit(1)),
        (10.0, 0.002, Rate::mbit(10)),
    ] {
        let sender = Sender::modern(Bytes(1460)).with_initial_window(window);
        let samples = transfer_samples(&sender, rtt, rate, 0.0, Seed(1));
        let e = path(&samples, &sender, Setup::Tcp, &INITIAL_WINDOWS).unwrap();
        assert!(
            e.bounds[0].contains(rtt) && e.bounds[1].contains(rate.bits_per_second()),
            "{e}"
        );
        let fit = e.answer;
        assert!(
            (fit.rtt.value / rtt - 1.0).abs() < 1e-3,
            "{window} {rtt} {rate}: {fit:?}"
        );
        assert!(
            (fit.rate.value / rate.bits_per_second() - 1.0).abs() < 1e-3,
            "{fit:?}"
        );
        if rtt > 0.01 {
            assert_eq!(fit.initial_window, window);
        }
    }
}

#[test]
fn a_noisy_path_stays_inside_its_interval() {
    let sender = Sender::modern(Bytes(1460));
    let mut covered = 0;
    let runs = 100;
    for seed in 0..runs {
        let samples = transfer_samples(&sender, 0.05, Rate::mbit(20), 0.03, Seed(seed));
        let fit = path(&samples, &sender, Setup::Tcp, &[10.0]).unwrap().answer;
        covered += i32::from(fit.rtt.low <= 0.05 && 0.05 <= fit.rtt.high);
    }
    assert!(
        (88..=100).contains(&covered),
        "95 % intervals cover {covered} of {runs}"
    );
}

#[test]
fn samples_that_say_too_little_are_refused() {
    let good = load_samples(0.01, Seed(1));
    assert!(matches!(service(&good[..2]), Err(DomainError::TooFew { .. })));
    let same = vec![good[0]; 5];
    assert!(matches!(service(&same), Err(DomainError::Undetermined { .. })));
    let mut broken = good.clone();
    broken[0].response = Seconds(f64::NAN);
    assert!(service(&broken).is_err());
    let sender = Sender::modern(Bytes(1460));
    let one_size = [TransferSample {
        size: Bytes(1000),
        latency: Seconds(0.1),
    }; 4];
    assert!(path(&one_size, &sender, Setup::Tcp, &[10.0]).is_err());
}

#[test]
fn samples_that_contradict_the_model_are_pointed_out() {
    let mut odd = load_samples(0.0, Seed(1));
    odd[3].response = odd[3].response * 3.0;
    assert!(!service(&odd).unwrap().warnings.is_empty());
    let light: Vec<_> = load_samples(0.0, Seed(1)).into_iter().take(3).collect();
    let warnings = service(&light).unwrap().warnings;
    assert!(warnings.iter().all(|warning| !warning.contains("NaN")));
}

#[test]
fn student_quantiles_are_the_tables() {
    for (freedom, t) in [(1.0, 12.706), (5.0, 2.571), (19.0, 2.093), (1000.0, 1.962)] {
        assert!((student(0.975, freedom) - t).abs() < 1e-3);
    }
}

#[test]
fn samples_that_break_littles_law_are_refused() {
    // A hundred requests per second of 0.1 s each are ten at a time, but there is one user.
    let sample = |users: u64, throughput: f64, response: f64| LoadSample {
        users,
        throughput,
        response: Seconds(response),
    };
    let impossible = [
        sample(1, 100.0, 0.1),
        sample(2, 200.0, 0.1),
        sample(4, 400.0, 0.1),
    ];
    let error = service(&impossible).unwrap_err();
    assert!(matches!(error, DomainError::Contradictory { .. }), "{error}");
    assert!(error.to_string().contains("Little's law"), "{error}");
    // Users without think time, measured as precisely as possible.
    let busy = [
        sample(1, 101.0, 0.01),
        sample(4, 205.0, 0.0197),
        sample(16, 208.0, 0.0770),
        sample(32, 209.0, 0.1541),
    ];
    assert!(service(&busy).is_ok());
}
