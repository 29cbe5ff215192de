//! Processor times of client and servers, by the seconds of visits over the LAN.

use super::target::{Target, prepared};
use super::{Quantity, Refit, Subject};
use crate::costs::Costs;
use crate::leave_one_out::Linear;
use crate::page::Page;
use crate::server::Kind;
use crate::tables::RECALLED;
use crate::visit::Network;
use std::rc::Rc;

/// The entry of [`Costs::NAMES`] that multiplies the service times of both servers, which were fitted one by one.
const FACTOR: &str = "server_request_factor";

/// A fitted processor time.
pub(super) struct Time {
    /// The entry of [`Costs::NAMES`] that sets it.
    name: &'static str,
    /// The server whose service time it is; `None` for times in the visits to both.
    of: Option<Kind>,
    pub(super) adopted: f64,
}

/// Service time of a request in milliseconds.
fn service_ms(kind: Kind) -> f64 {
    kind.service().as_micros() as f64 / 1e3
}

impl Time {
    pub(super) fn all() -> Vec<Time> {
        let mut times = Vec::new();
        for (name, adopted) in Costs::NAMES.into_iter().zip(Costs::FITTED.values()) {
            if name == FACTOR {
                times.extend(Kind::ALL.map(|kind| Time {
                    name,
                    of: Some(kind),
                    adopted: adopted * service_ms(kind),
                }));
            } else {
                times.push(Time {
                    name,
                    of: None,
                    adopted,
                });
            }
        }
        times
    }

    fn title(&self) -> String {
        match self.of {
            None => self.name.to_owned(),
            Some(kind) => format!("server_request_ms, {}", kind.name()),
        }
    }

    fn is_in(&self, kind: Kind) -> bool {
        self.of.is_none_or(|of| of == kind)
    }
}

/// Costs with these values of all times, for visits to one server.
pub(super) fn costs(times: &[Time], values: &[f64], kind: Kind) -> Costs {
    let changes: Vec<(String, f64)> = times
        .iter()
        .zip(values)
        .filter(|(time, _)| time.is_in(kind))
        .map(|(time, value)| {
            let value = match time.of {
                None => *value,
                Some(kind) => value / service_ms(kind),
            };
            (time.name.to_owned(), value.clamp(0.0, 10_000.0))
        })
        .collect();
    Costs::FITTED
        .with(&changes)
        .expect("the names are those of all times, and the values are clamped")
}

/// Processor times, fitted together to the seconds of LAN visits.
pub(super) fn times(page: &Rc<Page>, runs: u64) -> Refit {
    let rows = prepared(page, |row| row.case.network == Network::Lan);
    let times = Time::all();
    let simulate = |index: usize, values: &[f64]| {
        let one = &rows[index];
        let costs = costs(&times, values, one.row.case.server);
        one.ready.with_costs(costs).mean(runs).seconds
    };
    let at: Vec<f64> = times.iter().map(|time| time.adopted).collect();
    let figures: Vec<f64> = (0..rows.len()).map(|index| simulate(index, &at)).collect();
    // The change if one time is half as long again. A smaller step would show the ticks of delayed acknowledgments.
    let slope = |index: usize, number: usize| {
        if !times[number].is_in(rows[index].row.case.server) {
            return 0.0;
        }
        let mut longer = at.clone();
        longer[number] *= 1.5;
        (simulate(index, &longer) - figures[index]) / (longer[number] - at[number])
    };
    let slopes: Vec<Vec<f64>> = (0..rows.len())
        .map(|index| (0..at.len()).map(|number| slope(index, number)).collect())
        .collect();
    let published: Vec<f64> = rows.iter().map(|one| one.row.seconds).collect();
    let linear = Linear { at, figures, slopes };
    Refit::new(
        Subject {
            document: "003",
            what: "processor times of client and servers",
            method: "least squares, all times together, with the slopes at the adopted times, from 0 on; then simulated. The \
                     timeout stays at a value that has seen the HTTP/1.0 first visits, too",
            provenance: RECALLED,
        },
        times.iter().map(|time| (time.title(), time.adopted)).collect(),
        rows.iter()
            .map(|one| Target::of(&one.row, Quantity::Seconds))
            .collect(),
        |without| linear.refit(&published, without),
        simulate,
    )
}
