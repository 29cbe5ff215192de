//! The least rate compared with brute force and with a lone transfer, and the cost of each reading of "users".

use super::*;
use crate::explain::Quantity;

fn question(basis: Basis) -> Question {
    Question {
        users: 200,
        page: Bytes(125_000),
        turnaround: Seconds(2.0),
        rtt: Seconds(0.09),
        sender: Sender::modern(Bytes(1460)),
        setup: Setup::Tcp,
        basis,
        loss: 0.0,
    }
}

const BASES: [Basis; 4] = [
    Basis::Burst,
    Basis::Windows,
    Basis::Steady { think: Seconds(10.0) },
    Basis::Steady { think: Seconds::ZERO },
];

#[test]
fn the_least_rate_meets_the_objective_and_one_bit_less_does_not() {
    for (basis, loss) in BASES.into_iter().flat_map(|basis| [(basis, 0.0), (basis, 0.01)]) {
        let q = Question {
            loss,
            turnaround: Seconds(3.0),
            ..question(basis)
        };
        let e = q.answer().unwrap();
        assert!(e.answer.turnaround <= q.turnaround);
        assert!(!q.meets(e.answer.rate.0 - 1).unwrap(), "{basis:?}");
        for bound in &e.bounds {
            assert!(bound.contains(e.answer.turnaround.0), "{basis:?} {bound}");
        }
    }
}

#[test]
fn windows_in_turn_with_one_user_are_the_transfer_alone() {
    for sender in [
        Sender::modern(Bytes(1460)),
        Sender::bsd(Bytes(1460)),
        Sender::bsd(Bytes(512)).with_initial_window(3.0),
    ] {
        for rate in [Rate(28_800), Rate::mbit(1), Rate::mbit(100)] {
            for page in [100, 3000, 12_000, 125_000, 5_000_000] {
                let q = Question {
                    users: 1,
                    page: Bytes(page),
                    sender,
                    ..question(Basis::Windows)
                };
                let parts = q.turnaround_at(rate).unwrap();
                let total = parts.total().0;
                assert!(
                    parts.sharing.0.abs() < 1e-9 * total,
                    "{sender:?} {rate} {page}: {parts:?}"
                );
            }
        }
    }
}

#[test]
fn windows_of_one_packet_without_round_trips_are_equation_4() {
    let sender = Sender {
        header: Bytes(0),
        ..Sender::document(Bytes(1000)).with_window_max(Bytes(1000))
    };
    let q = Question {
        page: Bytes(12_000),
        rtt: Seconds(1e-9),
        sender,
        ..question(Basis::Windows)
    };
    let parts = q.turnaround_at(Rate::mbit(1)).unwrap();
    let want = Line::new(200, 12, Seconds(0.008)).unwrap().turnaround().0;
    assert!((parts.total().0 / want - 1.0).abs() < 1e-6, "{parts:?} {want}");
}

#[test]
fn windows_in_turn_lie_between_one_after_the_other_and_packets_in_turn() {
    for users in [2, 10, 200] {
        for page in [3000, 40_000, 1_000_000] {
            for rate in [Rate::mbit(1), Rate::mbit(50), Rate::mbit(5000)] {
                let at = |basis| {
                    let q = Question {
                        users,
                        page: Bytes(page),
                        ..question(basis)
                    };
                    q.turnaround_at(rate).unwrap().total().0
                };
                let (windows, packets) = (at(Basis::Windows), at(Basis::Burst));
                assert!(windows <= packets * (1.0 + 1e-12), "{users} {page} {rate}");
                assert!(at(Basis::Windows) > 0.18, "{users} {page} {rate}");
            }
        }
    }
}

#[test]
fn thinking_users_need_less_than_a_burst() {
    let rate = |basis| question(basis).answer().unwrap().answer.rate;
    assert!(rate(Basis::Steady { think: Seconds(10.0) }) < rate(Basis::Burst));
    assert!(rate(Basis::Steady { think: Seconds(60.0) }) < rate(Basis::Steady { think: Seconds(10.0) }));
}

#[test]
fn the_documents_upper_bound_cannot_drop_below_the_round_trips_of_all() {
    let q = question(Basis::Document(Mode::Exact));
    let error = q.answer().unwrap_err();
    assert!(
        matches!(error, DomainError::Unattainable { floor_s, .. } if floor_s > 2.0),
        "{error}"
    );
    let patient = Question {
        turnaround: Seconds(150.0),
        ..q
    };
    let e = patient.answer().unwrap();
    assert!(e.answer.turnaround.0 <= 150.0);
}

#[test]
fn table_5_dimensioned_backwards() {
    // 25 users of 6,000 B on a T1 turn around in 10.37 s with t rounded; unrounded slightly less.
    let q = Question {
        users: 25,
        page: Bytes(6000),
        turnaround: Seconds(10.368),
        rtt: Seconds(0.1),
        sender: Sender::document(Bytes(512)),
        setup: Setup::Tcp,
        basis: Basis::Document(Mode::Paper),
        loss: 0.0,
    };
    let rate = q.answer().unwrap().answer.rate.0;
    assert!((1_500_000..=1_544_000).contains(&rate), "{rate}");
}

#[test]
fn what_binds_is_named() {
    let answer = |q: Question| q.answer().unwrap().answer.binds;
    assert_eq!(answer(question(Basis::Burst)), Binds::Sharing);
    let alone = Question {
        users: 1,
        turnaround: Seconds(0.4),
        ..question(Basis::Burst)
    };
    assert_eq!(
        answer(Question {
            page: Bytes(10_000),
            turnaround: Seconds(0.185),
            ..alone
        }),
        Binds::RoundTrips
    );
    assert_eq!(
        answer(Question {
            turnaround: Seconds(10.0),
            ..alone
        }),
        Binds::Wire
    );
    let small = alone.sender.with_window_max(Bytes(4 * 1460));
    assert_eq!(
        answer(Question {
            sender: small,
            turnaround: Seconds(2.3),
            ..alone
        }),
        Binds::Window
    );
    // A single user shares with nobody, exact to the last bit.
    let one = question(Basis::Windows);
    let one = Question { users: 1, ..one };
    assert_eq!(one.turnaround_at(Rate::mbit(10)).unwrap().sharing, Seconds::ZERO);
    assert!(one.answer().unwrap().line.contains("for 1 user of"));
    // Unattainable because of round trips, not bytes: the reason says so.
    let vast = Question {
        users: 1_000_000_000,
        page: Bytes(1_000_000_000),
        turnaround: Seconds(1.0),
        ..question(Basis::Windows)
    };
    let error = vast.answer().unwrap_err().to_string();
    assert!(
        error.contains("of bytes") && error.contains("highest rate"),
        "{error}"
    );
    let hopeless = Question {
        turnaround: Seconds(0.1),
        ..alone
    };
    assert!(matches!(hopeless.answer(), Err(DomainError::Unattainable { .. })));
}

#[test]
fn one_user_with_loss_is_the_transfer_with_loss() {
    for basis in BASES {
        for (rate, rtt) in [
            (Rate(28_800), 0.15),
            (Rate::mbit(2), 0.09),
            (Rate::mbit(1000), 0.001),
        ] {
            for (page, loss) in [
                (1_000, 0.02),
                (125_000, 0.001),
                (125_000, 0.05),
                (5_000_000, 0.01),
            ] {
                let q = Question {
                    users: 1,
                    page: Bytes(page),
                    rtt: Seconds(rtt),
                    setup: Setup::Tls13,
                    loss,
                    ..question(basis)
                };
                let path = Path::new(rate, q.rtt).unwrap();
                let of = |p| {
                    loss::latency(&path, &q.sender, q.setup, q.page, p)
                        .unwrap()
                        .answer
                        .total
                        .0
                };
                let parts = q.turnaround_at(rate).unwrap();
                // A single user's first packet waits for nobody: Eq. 2 of one user is zero.
                let total = parts.total().0;
                assert!(
                    (total / of(loss) - 1.0).abs() < 1e-9,
                    "{basis:?} {rate} {page}: {parts:?}"
                );
                assert!(
                    (parts.loss.0 - (of(loss) - of(0.0))).abs() < 1e-9 * total,
                    "{parts:?}"
                );
            }
        }
    }
}

/// Bisection is right only if turnaround falls with the rate, so it is compared with every rate of a fine ladder.
#[test]
fn with_loss_the_least_rate_is_what_brute_force_finds() {
    let ladder: Vec<u64> = (0..=210)
        .map(|step| 10f64.powf(3.0 + f64::from(step) / 21.0) as u64)
        .collect();
    let senders = [
        Sender::bsd(Bytes(1460)),
        Sender::modern(Bytes(1460)).with_window_max(Bytes(16 * 1460)),
    ];
    for (place, basis) in BASES.into_iter().enumerate() {
        for (users, page, loss) in [
            (1, 20_000, 0.02),
            (10, 125_000, 0.001),
            (200, 125_000, 0.05),
            (40, 3_000, 0.2),
        ] {
            for sender in senders {
                let q = Question {
                    users,
                    page: Bytes(page),
                    sender,
                    loss,
                    ..question(basis)
                };
                let times: Vec<f64> = ladder
                    .iter()
                    .map(|&rate| q.turnaround_at(Rate(rate)).unwrap().total().0)
                    .collect();
                for (step, pair) in times.windows(2).enumerate() {
                    assert!(
                        pair[1] <= pair[0] * (1.0 + 1e-9),
                        "{place} {q:?} at {}: {pair:?}",
                        ladder[step]
                    );
                }
                let clean = Question { loss: 0.0, ..q };
                let last = times[times.len() - 1];
                for factor in [1.01, 1.5, 4.0] {
                    let q = Question {
                        turnaround: Seconds(last * factor),
                        ..q
                    };
                    let Some(met) = times.iter().position(|&time| time <= q.turnaround.0) else {
                        panic!("the last rate meets it: {q:?}")
                    };
                    let found = q.answer().unwrap().answer.rate.0;
                    assert!(found <= ladder[met], "{q:?}: {found} and {}", ladder[met]);
                    assert!(
                        met == 0 || found > ladder[met - 1],
                        "{q:?}: {found} and {}",
                        ladder[met - 1]
                    );
                    assert!(!q.meets(found - 1).unwrap_or(false), "{q:?}: {found}");
                    let without = Question {
                        turnaround: q.turnaround,
                        ..clean
                    };
                    assert!(without.answer().unwrap().answer.rate.0 <= found, "{q:?}");
                }
            }
        }
    }
}

#[test]
fn loss_can_bind_and_says_where_it_holds() {
    let q = Question {
        users: 1,
        page: Bytes(1_000_000),
        loss: 0.03,
        ..question(Basis::Windows)
    };
    let floor = q.turnaround_at(Rate::mbit(10_000)).unwrap().total();
    let q = Question {
        turnaround: floor * 1.1,
        ..q
    };
    let e = q.answer().unwrap();
    assert_eq!(e.answer.binds, Binds::Loss, "{e}");
    let loss = e
        .region
        .iter()
        .find(|region| region.quantity == Quantity::Loss)
        .unwrap();
    assert!(loss.low < 0.03 && 0.03 < loss.high, "{e}");
    assert!(e.warnings.is_empty(), "{e}");
    let hopeless = Question {
        turnaround: Seconds(1.0),
        ..q
    };
    let error = hopeless.answer().unwrap_err().to_string();
    assert!(error.contains("of losses"), "{error}");
    let wild = Question {
        loss: 0.2,
        turnaround: Seconds(1e6),
        ..q
    };
    assert!(wild.answer().unwrap().warnings.iter().any(|w| w.contains("PFTK")));
    for (loss, basis) in [
        (0.5, Basis::Windows),
        (-0.1, Basis::Burst),
        (0.01, Basis::Document(Mode::Exact)),
    ] {
        let error = Question { loss, basis, ..q }.answer().unwrap_err().to_string();
        assert!(error.starts_with("loss is"), "{error}");
    }
}
