//! The two fitted times of document 001's client, by the retrieval of a page.

use super::target::Target;
use super::{Quantity, Refit, Subject};
use crate::heidemann::{CONFIGS, CONNECT, Config, TIMES, table_1_with};
use units::Duration;

/// Retrievals of a page of document 001: those of these two configurations differ by less than the printed digits.
const PAGES: usize = 10;

/// The two rows of Table 1 to which document 001's times were fitted.
fn rows_of_001() -> [Config; 2] {
    [CONFIGS[0], CONFIGS[3]]
}

/// One of document 001's two fitted times, in milliseconds; the other stays at its value.
fn time_of_001(
    what: &'static str,
    name: &str,
    adopted: Duration,
    tried: [f64; 41],
    with: fn(Duration) -> [Duration; 2],
) -> Refit {
    let targets = rows_of_001().map(|config| Target {
        name: format!("Table 1: {}", config.name),
        quantity: Quantity::Milliseconds,
        published: config.mean_ms,
    });
    let tried = tried.map(|value| {
        let times = with(Duration::from_micros((value * 1e3).round() as u64));
        let figures = rows_of_001().map(|config| table_1_with(config, PAGES, 1, times).mean_ms());
        (vec![value], figures.to_vec())
    });
    Refit::by_search(
        Subject {
            document: "001",
            what,
            method: "search; the other fitted time stays at a value that has seen both figures, so this is the best case: \
                     one figure does not determine both times",
            provenance: "seed text",
        },
        vec![(name.to_owned(), adopted.as_micros() as f64 / 1e3)],
        targets.into(),
        tried.into(),
    )
}

/// 0 to 10 ms from connection to request.
pub(super) fn connecting() -> Refit {
    time_of_001(
        "time from connection to request",
        "time in ms",
        CONNECT,
        std::array::from_fn(|step| step as f64 / 4.0),
        |connect| [TIMES[3].1, connect],
    )
}

/// 0 to 2 ms for a read.
pub(super) fn reading() -> Refit {
    time_of_001(
        "time for a read",
        "time in ms",
        TIMES[3].1,
        std::array::from_fn(|step| step as f64 / 20.0),
        |read| [read, CONNECT],
    )
}
