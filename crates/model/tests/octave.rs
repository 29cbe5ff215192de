//! Comparison with an independent implementation: octave-queueing, whose results are in
//! `testdata/octave_queueing.csv`, made by the script beside it.

use model::Seconds;
use model::closed::{Network, Station};
use model::queue::{mg1, mm1, mmc};

const ANSWERS: &str = include_str!("../testdata/octave_queueing.csv");

/// The rows of a case, as numbers.
fn rows(case: &str) -> Vec<Vec<f64>> {
    let rows: Vec<Vec<f64>> = ANSWERS
        .lines()
        .filter_map(|line| line.strip_prefix(case)?.strip_prefix(','))
        .map(|line| {
            line.split(',')
                .map(|cell| cell.parse().expect("a number"))
                .collect()
        })
        .collect();
    assert!(rows.len() >= 3, "{case}");
    rows
}

/// Twelve digits are printed.
fn close(ours: f64, theirs: f64, what: &str) {
    assert!(
        (ours / theirs - 1.0).abs() < 2e-11,
        "{what}: {ours} against {theirs}"
    );
}

fn network(stations: Vec<Station>, think: f64) -> Network {
    Network::new(stations, Seconds(think)).unwrap()
}

#[test]
fn closed_networks_agree() {
    let queue = |demand| Station::queue("queue", Seconds(demand));
    let cases = [
        (
            "two queues and a delay",
            network(
                vec![queue(0.005), queue(0.03), Station::delay("delay", Seconds(0.09))],
                7.0,
            ),
        ),
        (
            "a queue and four servers",
            network(
                vec![queue(0.005), Station::servers("servers", Seconds(0.04), 4)],
                1.0,
            ),
        ),
        (
            "three alike",
            network(vec![queue(0.02), queue(0.02), queue(0.02)], 0.0),
        ),
    ];
    for (case, network) in cases {
        for row in rows(case) {
            let solved = network.exact(row[0] as u64).unwrap();
            close(solved.throughput, row[1], case);
            // The response time is a difference of larger numbers in both programs.
            assert!(
                (solved.response.0 - row[2]).abs() < 1e-9,
                "{case}: {} {}",
                solved.response,
                row[2]
            );
        }
    }
}

#[test]
fn open_queues_agree() {
    let s = Seconds(0.01);
    for row in rows("mm1") {
        close(mm1(row[0] / 0.01, s).unwrap().answer.response.0, row[2], "mm1");
    }
    for row in rows("mm8") {
        close(
            mmc(8.0 * row[0] / 0.01, s, 8).unwrap().answer.response.0,
            row[2],
            "mm8",
        );
    }
    for row in rows("mg1 scv 4") {
        close(
            mg1(row[0] / 0.01, s, 4.0).unwrap().answer.response.0,
            row[2],
            "mg1",
        );
    }
}

#[test]
fn bounds_agree() {
    let stations = [0.005, 0.03].map(|demand| Station::queue("queue", Seconds(demand)));
    let network = network(stations.to_vec(), 7.0);
    for row in rows("asymptotic") {
        let b = network.brackets(row[0] as u64);
        close(b.throughput_asymptotic.0, row[1], "least throughput");
        close(b.throughput_asymptotic.1, row[2], "most throughput");
        close(b.response_asymptotic.0.0, row[3], "least response");
        close(b.response_asymptotic.1.0, row[4], "most response");
    }
    for row in rows("balanced") {
        let b = network.brackets(row[0] as u64);
        let (x, r) = (b.throughput_balanced.unwrap(), b.response_balanced.unwrap());
        close(x.0, row[1], "balanced, least throughput");
        close(x.1, row[2], "balanced, most throughput");
        assert!(
            (r.0.0 - row[3]).abs() < 1e-9 && (r.1.0 - row[4]).abs() < 1e-9,
            "{r:?} {row:?}"
        );
    }
}

/// Reruns the script and compares its results, where Octave and its package are installed.
#[test]
fn the_script_still_gives_these_answers() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata");
    let ran = std::process::Command::new("octave-cli")
        .args(["--no-init-file", "octave_queueing.m"])
        .current_dir(folder)
        .output();
    let said = match ran {
        Ok(output) if output.status.success() => String::from_utf8(output.stdout).expect("text"),
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            return eprintln!("skipped: octave-cli cannot run the script: {}", why.trim());
        }
        Err(why) => return eprintln!("skipped: octave-cli: {why}"),
    };
    // The first line holds versions.
    let answers = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(answers(&said), answers(ANSWERS));
}
