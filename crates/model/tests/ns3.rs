//! Comparison with an independent TCP: ns-3, whose results are in `testdata/ns3_bursts.csv`, made by the program
//! beside it.

use model::Seconds;
use model::dimension::{Basis, Question};
use model::tcp::Sender;
use model::tcp::setup::Setup;
use units::{Bytes, Rate};

const ANSWERS: &str = include_str!("../testdata/ns3_bursts.csv");

/// Rate, round trip, bytes, users, and ns-3's mean turnaround.
fn rows() -> Vec<(Rate, Seconds, Bytes, u64, f64)> {
    let rows = ANSWERS.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| {
        let cells: Vec<f64> = line
            .split(',')
            .map(|cell| cell.parse().expect("a number"))
            .collect();
        let [mbit, rtt, size, users, turnaround] = cells[..] else {
            panic!("{line}")
        };
        let rate = Rate::mbit(mbit as u64);
        (
            rate,
            Seconds(rtt / 1e3),
            Bytes(size as u64),
            users as u64,
            turnaround / 1e3,
        )
    })
    .collect()
}

/// The error of the windows, in percent of ns-3.
fn error(rate: Rate, rtt: Seconds, page: Bytes, users: u64, theirs: f64) -> f64 {
    let question = Question {
        users,
        page,
        // Only the consequence of the rate is needed.
        turnaround: Seconds(1.0),
        rtt,
        sender: Sender::modern(Bytes(1460)),
        setup: Setup::Tcp,
        basis: Basis::Windows,
        loss: 0.0,
    };
    let ours = question.turnaround_at(rate).expect("an answer").total().0;
    100.0 * (ours / theirs - 1.0)
}

#[test]
fn windows_in_turn_are_what_another_tcp_does() {
    let rows = rows();
    assert_eq!(rows.len(), 48);
    for (rate, rtt, page, users, theirs) in rows {
        let error = error(rate, rtt, page, users, theirs);
        // The model leaves out the line time of connection segments and requests: 0.3 ms at 10 Mbit/s, a twelfth of
        // the time of a small file on a short line.
        let below = if rtt.0 < 0.01 { -9.0 } else { -3.5 };
        assert!(
            below < error && error < 1.0,
            "{rate} {rtt} {page} {users}: {theirs:.5} s, {error:+.1} %"
        );
    }
}
