//! `dimension` and `distribute` against brute force, over random questions.

use model::Seconds;
use model::dimension::{Basis, Question};
use model::distribute::{
    Offer, SteadyLine, WindowLine, given, lines_for, split, split_by_cost, split_steady, split_windows,
};
use model::tcp::Sender;
use model::tcp::setup::Setup;
use model::transaction::Mode;
use proptest::prelude::*;
use units::{Bytes, Rate};

fn offers() -> impl Strategy<Value = Vec<Offer>> {
    prop::collection::vec((1e-4f64..1.0, 0.0f64..20.0), 1..4).prop_map(|lines| {
        let offer = |(t, fixed)| Offer {
            name: "line".to_owned(),
            packet_time: Seconds(t),
            fixed: Seconds(fixed),
        };
        lines.into_iter().map(offer).collect()
    })
}

/// Total turnaround by the definition, not by the closed form that `split` uses.
fn cost(offer: &Offer, users: u64, packets: u64) -> f64 {
    let line = model::waiting::Line {
        users,
        packets,
        packet_time: offer.packet_time,
    };
    if users == 0 {
        0.0
    } else {
        users as f64 * offer.fixed.0 + line.turnaround_total().0
    }
}

/// The least total over all ways to split `users`.
fn every_split(users: u64, packets: u64, offers: &[Offer]) -> f64 {
    match offers {
        [last] => cost(last, users, packets),
        [first, rest @ ..] => (0..=users)
            .map(|k| cost(first, k, packets) + every_split(users - k, packets, rest))
            .fold(f64::INFINITY, f64::min),
        [] => unreachable!("offers are never empty here"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn split_is_the_best_of_all_splits(users in 1u64..40, packets in 1u64..20, offers in offers()) {
        let answer = split(users, packets, &offers).unwrap();
        let best = every_split(users, packets, &offers) / users as f64;
        prop_assert!((answer.answer.turnaround.0 - best).abs() <= 1e-9 * best);
        prop_assert_eq!(answer.answer.users.iter().sum::<u64>(), users);
        prop_assert!(answer.bounds[0].contains(answer.answer.turnaround.0));
        prop_assert!(answer.answer.savings_percent >= -1e-9);
        let again = given(packets, &offers, &answer.answer.users).unwrap();
        prop_assert_eq!(again.answer, answer.answer);
    }

    #[test]
    fn the_program_for_any_cost_agrees_with_the_greedy_one(users in 1usize..60, packets in 1u64..20, offers in offers()) {
        let costs: Vec<Vec<f64>> = offers
            .iter()
            .map(|offer| (0..=users as u64).map(|k| cost(offer, k, packets)).collect())
            .collect();
        let (given, total) = split_by_cost(users, &costs).unwrap();
        let greedy = split(users as u64, packets, &offers).unwrap().answer;
        prop_assert!((total / users as f64 - greedy.turnaround.0).abs() <= 1e-9 * greedy.turnaround.0);
        prop_assert_eq!(given.iter().sum::<u64>(), users as u64);
    }

    #[test]
    fn thinking_users_are_split_no_worse_than_by_any_other_split(
        users in 1usize..25,
        think in 0.0f64..20.0,
        a in 0.01f64..1.0,
        b in 0.01f64..1.0,
    ) {
        let lines = [(a, 0.1), (b, 0.3)].map(|(demand, latency)| SteadyLine {
            name: "line".to_owned(),
            demand: Seconds(demand),
            latency: Seconds(latency),
        });
        let found = split_steady(users, Seconds(think), &lines, None).unwrap();
        let response = found.answer.response;
        for bound in &found.bounds {
            prop_assert!(bound.contains(response.0), "{bound}: {response}");
        }
        prop_assert_eq!(found.answer.users.iter().sum::<u64>(), users as u64);
        let of = |line: &SteadyLine, k: usize| {
            if k == 0 {
                return 0.0;
            }
            let stations = vec![
                model::closed::Station::queue("line", line.demand),
                model::closed::Station::delay("latency", line.latency),
            ];
            let network = model::closed::Network::new(stations, Seconds(think)).unwrap();
            k as f64 * network.exact(k as u64).unwrap().response.0
        };
        // Every split, passed as given: its result follows the definition, and none is better.
        for k in 0..=users {
            let split = [k as u64, (users - k) as u64];
            let total = of(&lines[0], k) + of(&lines[1], users - k);
            let given = split_steady(users, Seconds(think), &lines, Some(&split)).unwrap();
            prop_assert_eq!(&given.answer.users[..], &split[..]);
            prop_assert!((given.answer.response.0 * users as f64 - total).abs() <= 1e-9 * total);
            prop_assert!(response.0 <= given.answer.response.0 * (1.0 + 1e-9));
            prop_assert!(given.warnings.is_empty());
        }
        prop_assert!(split_steady(users, Seconds(think), &lines, Some(&[users as u64, 1])).is_err());
    }

    #[test]
    fn users_whose_windows_take_turns_are_split_no_worse_than_by_any_other_split(
        users in 1u64..16,
        page in 1_000u64..200_000,
        rates in prop::collection::vec((100_000u64..100_000_000, 0.001f64..0.3), 1..4),
    ) {
        let question = Question {
            users,
            page: Bytes(page),
            turnaround: Seconds(1.0),
            rtt: Seconds(0.1),
            sender: Sender::bsd(Bytes(1460)),
            setup: Setup::Tcp,
            basis: Basis::Windows,
            loss: 0.0,
        };
        let line = |&(rate, rtt): &(u64, f64)| WindowLine {
            name: "line".to_owned(),
            rate: Rate(rate),
            rtt: Seconds(rtt),
        };
        let lines: Vec<WindowLine> = rates.iter().map(line).collect();
        let found = split_windows(&question, &lines, None).unwrap();
        fn best(question: &Question, users: u64, lines: &[WindowLine]) -> f64 {
            let cost = |line: &WindowLine, users: u64| {
                let own = Question { users, rtt: line.rtt, ..*question };
                if users == 0 { 0.0 } else { users as f64 * own.turnaround_at(line.rate).unwrap().total().0 }
            };
            match lines {
                [last] => cost(last, users),
                [first, rest @ ..] => (0..=users)
                    .map(|k| cost(first, k) + best(question, users - k, rest))
                    .fold(f64::INFINITY, f64::min),
                [] => unreachable!("there is a line"),
            }
        }
        let want = best(&question, users, &lines) / users as f64;
        prop_assert!((found.answer.response.0 - want).abs() <= 1e-9 * want);
        prop_assert!(found.bounds[0].contains(found.answer.response.0));
        let again = split_windows(&question, &lines, Some(&found.answer.users)).unwrap();
        prop_assert_eq!(again.answer, found.answer);
    }

    #[test]
    fn lines_for_is_the_first_count_that_is_enough(
        users in 1u64..60,
        packets in 1u64..20,
        t in 1e-3f64..1.0,
        share in 0.01f64..1.2,
    ) {
        let offer = Offer { name: "line".to_owned(), packet_time: Seconds(t), fixed: Seconds::ZERO };
        let mean = |lines: u64| {
            let sum: f64 = (0..lines).map(|i| cost(&offer, users / lines + u64::from(i < users % lines), packets)).sum();
            sum / users as f64
        };
        let objective = mean(1) * share;
        let brute = (1..=users).find(|&lines| mean(lines) <= objective);
        match lines_for(users, packets, &offer, Seconds(objective)) {
            Ok(answer) => prop_assert_eq!(Some(answer.answer.lines), brute),
            Err(_) => prop_assert_eq!(brute, None),
        }
    }

    #[test]
    fn dimension_is_the_least_rate_of_a_dense_scan(
        users in 1u64..60,
        page in 1_000u64..400_000,
        rtt in 0.001f64..0.3,
        objective in 0.05f64..60.0,
        window in 1u32..12,
        kind in 0usize..5,
        loss in prop_oneof![Just(0.0), 0.0001f64..0.1],
    ) {
        let basis = [
            Basis::Burst,
            Basis::Steady { think: Seconds(5.0) },
            Basis::Document(Mode::Exact),
            Basis::Document(Mode::Paper),
            Basis::Windows,
        ][kind];
        let question = Question {
            users,
            page: Bytes(page),
            turnaround: Seconds(objective),
            rtt: Seconds(rtt),
            sender: Sender::modern(Bytes(1460)).with_initial_window(f64::from(window)),
            setup: Setup::Tcp,
            basis,
            loss: if matches!(basis, Basis::Document(_)) { 0.0 } else { loss },
        };
        // A scan in steps of 1 % from 100 bit/s to 1 Pbit/s, which sees every step of slow start.
        let meets = |rate: u64| question.turnaround_at(Rate(rate)).unwrap().total() <= question.turnaround;
        let scanned = (0..3000).map(|i| (100.0 * 1.01f64.powi(i)) as u64).take_while(|&r| r < 1_000_000_000_000_000);
        let first = scanned.into_iter().find(|&rate| meets(rate));
        match question.answer() {
            Ok(answer) => {
                let rate = answer.answer.rate.0;
                prop_assert!(meets(rate));
                prop_assert!(rate == 1 || !meets(rate - 1));
                // Nothing below it meets the objective; the scan finds something at most one step above, unless
                // a stretch of the document's steps is narrower than that.
                if let Some(first) = first {
                    prop_assert!(rate <= first, "{} {}", rate, first);
                }
                prop_assert!(answer.bounds.iter().all(|bound| bound.contains(answer.answer.turnaround.0)), "{answer}");
                prop_assert!(answer.to_string().contains("t_T"));
            }
            Err(error) => prop_assert!(first.is_none(), "{error} but {first:?} meets it"),
        }
    }
}

#[test]
fn a_planners_question_in_one_line() {
    let question = Question {
        users: 200,
        page: "125KB".parse().unwrap(),
        turnaround: Seconds(2.0),
        rtt: Seconds(0.09),
        sender: Sender::modern(Bytes(1460)),
        setup: Setup::Tcp,
        basis: Basis::Burst,
        loss: 0.0,
    };
    let answer = question.answer().unwrap();
    // 200 users x 125 KB in 1.6 s or so: a little over 100 Mbit/s.
    assert!(
        (100_000_000..140_000_000).contains(&answer.answer.rate.0),
        "{answer}"
    );
    let json = serde_json::to_value(&answer).unwrap();
    assert_eq!(json["answer"]["rate"], answer.answer.rate.0);
    assert_eq!(json["answer"]["binds"], "Sharing");
}
