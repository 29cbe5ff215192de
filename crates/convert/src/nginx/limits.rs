//! `limit_req` and `limit_conn`: zones, and the rules that use them.

use crate::directive::Directive;
use crate::fate::Fate;
use crate::model::Limit;
use std::collections::BTreeMap;

/// What a zone counts.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Zone {
    /// Requests, at this rate in Weir's spelling.
    Requests(String),
    /// Connections.
    Connections,
}

/// Zones, and the rules of a level. A level without rules of a kind inherits those around it.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    zones: BTreeMap<String, Zone>,
    rules: Vec<Limit>,
}

impl Limits {
    /// The limits inside this level, before it says anything. It inherits the rules: Weir applies those of wider paths, too.
    pub(super) fn inside(&self) -> Limits {
        Limits {
            zones: self.zones.clone(),
            rules: Vec::new(),
        }
    }

    /// The rules of this level, for a path.
    pub(super) fn of<'a>(&'a self, path: &'a str) -> impl Iterator<Item = Limit> + 'a {
        self.rules.iter().map(|rule| Limit {
            path: path.to_owned(),
            ..rule.clone()
        })
    }

    /// Reads a directive. `None`: it is none of limits.
    pub(super) fn read(&mut self, directive: &Directive) -> Option<Fate> {
        Some(match directive.name.as_str() {
            "limit_req_zone" | "limit_conn_zone" => self.zone(directive),
            "limit_req" => self.requests(directive),
            "limit_conn" => self.connections(directive),
            "limit_req_status" | "limit_conn_status" if directive.arg(0) == "429" => {
                Fate::unneeded("Weir answers 429")
            }
            "limit_req_status" | "limit_conn_status" => Fate::changed("Weir answers 429"),
            "limit_req_log_level" | "limit_conn_log_level" => Fate::unneeded("the access log has the status"),
            _ => return None,
        })
    }

    fn zone(&mut self, directive: &Directive) -> Fate {
        let is_address = matches!(directive.arg(0), "$binary_remote_addr" | "$remote_addr");
        if !is_address {
            return Fate::missing("Weir limits each client, by its address");
        }
        let option = |key: &str| directive.args.iter().find_map(|arg| arg.strip_prefix(key));
        let Some(name) = option("zone=").map(|zone| zone.split(':').next().unwrap_or(zone)) else {
            return Fate::missing("it names no zone");
        };
        let zone = match directive.name.as_str() {
            "limit_conn_zone" => Zone::Connections,
            _ => {
                let rate = option("rate=").and_then(|rate| match rate.split_once("r/") {
                    Some((number, unit @ ("s" | "m"))) => {
                        let number = number
                            .parse::<u32>()
                            .ok()
                            .filter(|n| (1..=1_000_000).contains(n))?;
                        Some(format!("{number}/{unit}"))
                    }
                    _ => None,
                });
                match rate {
                    Some(rate) => Zone::Requests(rate),
                    None => return Fate::missing("its rate is no number of requests per second or minute"),
                }
            }
        };
        self.zones.insert(name.to_owned(), zone);
        Fate::Carried
    }

    fn requests(&mut self, directive: &Directive) -> Fate {
        let option = |key: &str| directive.args.iter().find_map(|arg| arg.strip_prefix(key));
        let Some(Zone::Requests(rate)) = option("zone=").and_then(|name| self.zones.get(name)) else {
            return Fate::missing("its zone was not carried over");
        };
        // nginx counts those beyond the one that the rate allows.
        let burst = option("burst=")
            .and_then(|burst| burst.parse::<u32>().ok())
            .unwrap_or(0);
        self.rules.push(Limit {
            rate: Some(rate.clone()),
            burst: Some(burst.saturating_add(1).min(1_000_000)),
            ..Limit::default()
        });
        let is_delayed = burst > 0 && !directive.args.iter().any(|arg| arg == "nodelay");
        match is_delayed {
            true => Fate::changed("Weir answers 429 above the burst, and delays no request within it"),
            false => Fate::changed("above the burst, Weir answers 429"),
        }
    }

    fn connections(&mut self, directive: &Directive) -> Fate {
        let number = directive.arg(1).parse::<u32>().ok().filter(|number| *number > 0);
        match (self.zones.get(directive.arg(0)), number) {
            (Some(Zone::Connections), Some(number)) => {
                self.rules.push(Limit {
                    concurrent: Some(number),
                    ..Limit::default()
                });
                Fate::changed("above the limit, Weir answers 429")
            }
            (_, None) => Fate::missing("this is no number of connections"),
            _ => Fate::missing("its zone was not carried over"),
        }
    }
}
