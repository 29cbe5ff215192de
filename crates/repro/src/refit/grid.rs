//! Searches among all combinations of the values of one network's parameters: retransmission timeouts, the WAN and the modem
//! line.

use super::target::{Target, prepared};
use super::{Group, Quantity, Refit, Subject};
use crate::page::Page;
use crate::tables::{Published, RECALLED};
use crate::visit::{Hosts, Network};
use client::plan::Mode;
use std::rc::Rc;
use units::{Bytes, Duration};

/// A parameter with the values to try; one of them is adopted.
pub(super) struct Searched {
    name: &'static str,
    pub(super) adopted: f64,
    pub(super) tried: &'static [f64],
}

/// A search among all combinations of values of one network's parameters.
pub(super) struct Grid {
    pub(super) group: Group,
    pub(super) subject: Subject,
    pub(super) wanted: fn(&Published) -> bool,
    quantities: &'static [Quantity],
    pub(super) searched: &'static [Searched],
    /// Gives the hosts of a visit the values of all parameters.
    pub(super) change: fn(&mut Hosts, &[f64]),
}

const TIMEOUT_METHOD: &str =
    "search; processor times and network stay at values that have seen these seconds, too";

pub(super) const GRIDS: &[Grid] = &[
    Grid {
        group: Group::Timeouts,
        subject: Subject {
            document: "003",
            what: "server retransmission timeout on the LAN",
            method: TIMEOUT_METHOD,
            provenance: RECALLED,
        },
        wanted: |row| is_http10_first(row) && row.case.network == Network::Lan,
        quantities: &[Quantity::Packets, Quantity::Bytes, Quantity::Seconds],
        searched: &[Searched {
            name: "timeout in ms",
            adopted: 70.0,
            tried: &[50.0, 60.0, 70.0, 80.0, 100.0, 150.0, 200.0, 300.0, 500.0],
        }],
        change: set_timeout,
    },
    Grid {
        group: Group::Timeouts,
        subject: Subject {
            document: "003",
            what: "server retransmission timeout on the WAN",
            method: TIMEOUT_METHOD,
            provenance: RECALLED,
        },
        wanted: |row| is_http10_first(row) && row.case.network == Network::Wan,
        quantities: &[Quantity::Packets, Quantity::Bytes, Quantity::Seconds],
        searched: &[Searched {
            name: "timeout in ms",
            adopted: 150.0,
            tried: &[120.0, 135.0, 150.0, 175.0, 200.0, 250.0, 300.0, 500.0, 1_000.0],
        }],
        change: set_timeout,
    },
    Grid {
        group: Group::Wan,
        subject: Subject {
            document: "003",
            what: "rate of the WAN and send buffer of the servers",
            method: "search of both together; the timeout stays at a value that has seen the HTTP/1.0 first visits, too",
            provenance: RECALLED,
        },
        wanted: |row| row.case.network == Network::Wan,
        quantities: &[Quantity::Seconds],
        searched: &[
            Searched {
                name: "rate in Mbit/s",
                adopted: 1.5,
                tried: &[1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0],
            },
            Searched {
                name: "send buffer in KiB",
                adopted: 16.0,
                tried: &[8.0, 12.0, 16.0, 24.0, 32.0],
            },
        ],
        change: set_wan,
    },
    Grid {
        group: Group::Ppp,
        subject: Subject {
            document: "003",
            what: "rate and delay of the modem line",
            method: "search of both together",
            provenance: RECALLED,
        },
        wanted: |row| row.case.network == Network::Ppp,
        quantities: &[Quantity::Seconds],
        searched: &[
            Searched {
                name: "rate in kbit/s",
                adopted: 26.4,
                tried: &[21.6, 22.8, 24.0, 25.2, 26.4, 27.6, 28.8],
            },
            Searched {
                name: "delay in ms",
                adopted: 65.0,
                tried: &[25.0, 45.0, 65.0, 85.0, 105.0],
            },
        ],
        change: set_ppp,
    },
];

fn is_http10_first(row: &Published) -> bool {
    row.case.manner.mode == Mode::Http10 && row.case.is_first
}

fn set_timeout(hosts: &mut Hosts, values: &[f64]) {
    hosts.server.tcp.stack.rto_fixed = Some(Duration::from_millis(values[0] as u64));
}

fn set_wan(hosts: &mut Hosts, values: &[f64]) {
    set_link(hosts, "rate", &format!("{}M", values[0]));
    hosts.server.tcp.stack.send_buffer = Bytes::kib(values[1] as u64);
}

fn set_ppp(hosts: &mut Hosts, values: &[f64]) {
    set_link(hosts, "rate", &format!("{}k", values[0]));
    set_link(hosts, "delay", &format!("{}ms", values[1]));
}

fn set_link(hosts: &mut Hosts, key: &str, value: &str) {
    hosts
        .link
        .set(key, value, &link::Limits::default(), &mut |_| Err(String::new()))
        .expect("the values are constants that a test sets");
}

/// All combinations of the values to try.
pub(super) fn combinations(searched: &[Searched]) -> Vec<Vec<f64>> {
    let mut all: Vec<Vec<f64>> = vec![Vec::new()];
    for parameter in searched {
        all = all
            .iter()
            .flat_map(|values| {
                parameter
                    .tried
                    .iter()
                    .map(move |&value| [values.as_slice(), &[value]].concat())
            })
            .collect();
    }
    all
}

impl Grid {
    pub(super) fn refit(&self, page: &Rc<Page>, runs: u64) -> Refit {
        let rows = prepared(page, self.wanted);
        let targets = rows
            .iter()
            .flat_map(|one| {
                self.quantities
                    .iter()
                    .map(move |&quantity| Target::of(&one.row, quantity))
            })
            .collect();
        let tried = combinations(self.searched)
            .into_iter()
            .map(|values| {
                let mut figures = Vec::new();
                for one in &rows {
                    let mean = one.ready.mean_over(runs, |hosts| (self.change)(hosts, &values));
                    figures.extend(self.quantities.iter().map(|quantity| quantity.simulated(&mean)));
                }
                (values, figures)
            })
            .collect();
        let adopted = self
            .searched
            .iter()
            .map(|parameter| (parameter.name.to_owned(), parameter.adopted))
            .collect();
        Refit::by_search(self.subject, adopted, targets, tried)
    }
}
