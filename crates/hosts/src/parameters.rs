//! Hosts and servers of documents 000 and 002 with every parameter's basis and source. Decides which names must exist;
//! what they do, the simulation decides.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use units::Duration;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Printed in the document, or computed from printed figures.
    Document,
    /// From a publication of which no copy was at hand.
    RecalledUnverified,
    /// Computed from other parameters.
    Derived,
    /// Without a source.
    Assumed,
}

impl Basis {
    /// The word in results.
    pub fn name(self) -> &'static str {
        match self {
            Basis::Document => "document",
            Basis::RecalledUnverified => "recalled-unverified",
            Basis::Derived => "derived",
            Basis::Assumed => "assumed",
        }
    }
}

/// A value with its source; the unit is the end of its name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Name.
    pub name: String,
    /// Value.
    pub value: f64,
    /// What kind of source it has.
    pub basis: Basis,
    /// The source, or the computation.
    pub source: String,
}

/// How connections map to processes and threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Concurrency {
    /// A process for each connection, from a pool that grows.
    Processes,
    /// A thread for each connection, from a pool of fixed size.
    Threads,
    /// A thread made for each connection, which ends with it.
    ThreadPerRequest,
    /// Few workers that each serve many connections and wait for none.
    Events,
}

/// A host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostKind {
    /// Name, as servers refer to it.
    pub name: String,
    /// Hardware and system.
    pub title: String,
    /// Preset of `tcp` for both hosts.
    pub tcp: String,
    /// The network, as [`link::Profile`] reads it, without the rate of its line.
    pub link: String,
    /// Its parameters.
    #[serde(rename = "parameter")]
    pub parameters: Vec<Parameter>,
}

/// A server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerKind {
    /// Name in flags and results.
    pub name: String,
    /// Product and version.
    pub title: String,
    /// Name of its host.
    pub host: String,
    /// Its strategy.
    pub concurrency: Concurrency,
    /// Its parameters.
    #[serde(rename = "parameter")]
    pub parameters: Vec<Parameter>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    host: Vec<HostKind>,
    server: Vec<ServerKind>,
}

static FILE: LazyLock<File> =
    LazyLock::new(|| toml::from_str(include_str!("../data/hosts.toml")).expect("a constant that tests read"));

/// All hosts.
pub fn hosts() -> &'static [HostKind] {
    &FILE.host
}

/// All servers.
pub fn servers() -> &'static [ServerKind] {
    &FILE.server
}

/// Values by name, with changes for one simulation.
#[derive(Clone, Debug)]
pub struct Values(BTreeMap<String, f64>);

/// Names that a host must have.
const OF_HOST: &[&str] = &[
    "processors",
    "system_call_us",
    "switch_process_us",
    "switch_thread_us",
    "make_process_us",
    "make_thread_us",
    "signal_us",
    "packet_us",
    "connection_us",
    "send_ns_per_byte",
    "read_ns_per_byte",
    "memory_mb",
    "base_mb",
    "serving_kb",
    "idle_kb",
    "cache_min_kb",
    "read_ahead_kb",
    "disk_position_ms",
    "disk_mb_per_s",
    "line_mbit",
    "mss",
    "buffer_kb",
    "delayed_ack_ms",
    "idle_restart",
];

/// Names that a server may have; without a value, 0 counts. The last ones are zero for all and set by counterfactuals.
const OF_SERVER: &[&str] = &[
    "workers",
    "workers_at_start",
    "workers_spare",
    "http_us",
    "http_share",
    "files_share",
    "reading_share",
    "signals_share",
    "process_share",
    "misc_share",
    "calls",
    "locks",
    "write_kb",
    "copies",
    "head_us",
    "date_us",
    "costly",
    "whole_lock",
    "traced_us",
    "switching_share",
    "locking_share",
    "lock_response",
    "lock_us",
    "client_processors",
    "rto_min_ms",
];

impl Values {
    /// The values of a server and its host, with `changes` by name.
    ///
    /// # Errors
    /// The name that no parameter has, or the value that is negative.
    pub fn of(server: &ServerKind, changes: &[(String, f64)]) -> Result<Values, String> {
        let host = hosts().iter().find(|host| host.name == server.host);
        let host = host.ok_or_else(|| format!("server {}: no host `{}`", server.name, server.host))?;
        let all = host.parameters.iter().chain(&server.parameters);
        let mut values: BTreeMap<String, f64> = all.map(|one| (one.name.clone(), one.value)).collect();
        for (name, value) in changes {
            if !OF_HOST.contains(&name.as_str()) && !OF_SERVER.contains(&name.as_str()) {
                let names: Vec<&str> = OF_HOST.iter().chain(OF_SERVER).copied().collect();
                return Err(format!("parameters: {}", units::words::unknown(name, &names)));
            }
            if !value.is_finite() || *value < 0.0 {
                return Err(format!("`{name}`: {value} is not a value; use 0 or more"));
            }
            values.insert(name.clone(), *value);
        }
        Ok(Values(values))
    }

    /// A value; 0 if a server lacks it.
    pub fn get(&self, name: &str) -> f64 {
        debug_assert!(OF_HOST.contains(&name) || OF_SERVER.contains(&name), "{name}");
        self.0.get(name).copied().unwrap_or(0.0)
    }

    pub(crate) fn micros(&self, name: &str) -> Duration {
        Duration::from_secs_f64(self.get(name) / 1e6)
    }

    pub(crate) fn kib(&self, name: &str) -> u64 {
        (self.get(name) * 1024.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_is_known_and_has_a_source() {
        for host in hosts() {
            let names: Vec<&str> = host.parameters.iter().map(|one| one.name.as_str()).collect();
            assert_eq!(names, OF_HOST, "{}", host.name);
            assert!(tcp::Stack::preset(&host.tcp).is_some(), "{}", host.tcp);
        }
        for server in servers() {
            assert!(Values::of(server, &[]).is_ok(), "{}", server.name);
            for one in &server.parameters {
                let name = one.name.as_str();
                assert!(
                    OF_SERVER.contains(&name) || OF_HOST.contains(&name),
                    "{}: {name}",
                    server.name
                );
            }
        }
        let hosts = hosts().iter().flat_map(|host| &host.parameters);
        for one in hosts.chain(servers().iter().flat_map(|server| &server.parameters)) {
            assert!(one.source.len() > 5 && one.value >= 0.0, "{one:?}");
        }
    }

    #[test]
    fn changes_are_checked() {
        let server = &servers()[0];
        let with = |name: &str, value| Values::of(server, &[(name.to_owned(), value)]);
        assert_eq!(with("memory_mb", 32.0).expect("a change").get("memory_mb"), 32.0);
        assert!(with("memory_gb", 1.0).expect_err("unknown").contains("memory_mb"));
        assert!(with("memory_mb", -1.0).is_err());
        assert!(with("memory_mb", f64::NAN).is_err());
    }
}
