//! WebStone: its file lists, choices of clients and metrics.
//!
//! The lists are document 002's Table 1 and the WebStone 2.0 standard list, which the table abbreviates. The metrics
//! are those of WebStone 2.0.1's source. Each client here has its own generator. The stored source reseeds before every
//! draw, so a process there always picks the same page.

use crate::times::nanoseconds;
use crate::weights::{Choices, Weights};
use core::str::FromStr;
use serde::{Deserialize, Serialize};
use units::{Bytes, Duration, Seed};

/// WebStone's Mbit: 1024 x 1024 bits.
const MEGABIT: f64 = 1_048_576.0;

/// A published file list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum List {
    /// Table 1 of document 002: 35/50/14/1 percent.
    #[serde(rename = "table-1")]
    Table1,
    /// The WebStone 2.0 standard list: 350/500/140/9/1 per mille.
    #[serde(rename = "standard")]
    Standard,
}

/// A file of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Path of the file.
    pub path: &'static str,
    /// Weight of the file: its share of requests relative to the sum.
    pub weight: u64,
    /// Length of the file.
    pub size: Bytes,
}

const fn listed(path: &'static str, weight: u64, size: u64) -> Listed {
    Listed {
        path,
        weight,
        size: Bytes(size),
    }
}

impl List {
    /// All lists.
    pub const ALL: [List; 2] = [List::Table1, List::Standard];

    /// Name in flags and manifests.
    pub fn name(self) -> &'static str {
        match self {
            List::Table1 => "table-1",
            List::Standard => "standard",
        }
    }

    /// Files of the list.
    pub fn files(self) -> &'static [Listed] {
        match self {
            List::Table1 => {
                const {
                    &[
                        listed("file500.html", 35, 500),
                        listed("file5k.html", 50, 5120),
                        listed("file50k.html", 14, 51_200),
                        listed("file5m.html", 1, 5_242_880),
                    ]
                }
            }
            List::Standard => {
                const {
                    &[
                        listed("file500.html", 350, 500),
                        listed("file5k.html", 500, 5125),
                        listed("file50k.html", 140, 51_250),
                        listed("file500k.html", 9, 512_500),
                        listed("file5m.html", 1, 5_248_000),
                    ]
                }
            }
        }
    }

    /// Source and limits of the list.
    pub fn note(self) -> &'static str {
        match self {
            List::Table1 => "document 002 Table 1; one percent of 5 MB files carries 84 percent of the bytes",
            List::Standard => {
                "WebStone 2.0 standard list, recovered from its documentation; Table 1 lacks its 500 KB file and \
                 asks for 5 MB ten times as often"
            }
        }
    }

    /// Mean response size in bytes.
    pub fn mean(self) -> f64 {
        let weights: u64 = self.files().iter().map(|file| file.weight).sum();
        let bytes: u64 = self.files().iter().map(|file| file.weight * file.size.0).sum();
        bytes as f64 / weights as f64
    }

    /// Choices of a client: indices into [`List::files`], without end.
    pub fn choices(self, seed: Seed, client: u32) -> Choices {
        let weights = Weights::of(self.files().iter().map(|file| file.weight));
        weights.expect("a list has files").choices(seed, client)
    }
}

impl FromStr for List {
    type Err = String;

    fn from_str(text: &str) -> Result<List, String> {
        List::ALL
            .into_iter()
            .find(|list| list.name() == text)
            .ok_or_else(|| format!("`{text}` is not a WebStone list: choose table-1 or standard"))
    }
}

/// Totals over all clients of a run: requests that ended before the run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests that ended on an established connection, successful or not. A connection carries one request.
    pub connects: u64,
    /// Failed transfers, including those without a connection; none of their bytes count.
    pub errors: u64,
    /// Bytes received, headers included.
    pub bytes: Bytes,
    /// Time from before the connect to the end, summed over all requests with a connection.
    #[serde(rename = "response_time_ns", with = "nanoseconds")]
    pub response_time: Duration,
}

impl Counts {
    /// Adds the totals of other clients.
    pub fn add(&mut self, other: &Counts) {
        self.connects += other.connects;
        self.errors += other.errors;
        self.bytes.0 += other.bytes.0;
        self.response_time += other.response_time;
    }
}

/// WebStone's metrics of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Metrics {
    /// Connections per second.
    pub connection_rate: f64,
    /// Mbit/s over the whole run, in WebStone's Mbit.
    pub server_throughput: f64,
    /// Mean number of requests in progress; ideally the number of clients.
    pub littles_load_factor: f64,
    /// Milliseconds per request.
    pub average_response_time: f64,
    /// Errors per second.
    pub error_rate: f64,
    /// Errors per hundred connections.
    pub error_level: f64,
    /// Mbit/s while a request is in progress, in WebStone's Mbit.
    pub average_client_throughput: f64,
}

impl Metrics {
    /// Metrics of a run of length `duration`; a ratio with denominator zero is zero.
    pub fn new(counts: &Counts, duration: Duration) -> Metrics {
        let over = |above: f64, below: f64| if below > 0.0 { above / below } else { 0.0 };
        let (time, busy) = (duration.as_secs_f64(), counts.response_time.as_secs_f64());
        let (connects, errors) = (counts.connects as f64, counts.errors as f64);
        let megabits = 8.0 * counts.bytes.0 as f64 / MEGABIT;
        Metrics {
            connection_rate: over(connects, time),
            server_throughput: over(megabits, time),
            littles_load_factor: over(busy, time),
            average_response_time: over(1000.0 * busy, connects),
            error_rate: over(errors, time),
            error_level: over(100.0 * errors, connects),
            average_client_throughput: over(megabits, busy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit;

    #[test]
    fn means_are_the_documents() {
        assert_eq!(List::Table1.mean().round(), 62_332.0);
        assert_eq!(List::Standard.mean().round(), 19_773.0);
        let large = 5_242_880.0 / 100.0 / List::Table1.mean();
        assert!((large - 0.84).abs() < 0.005, "{large}");
    }

    #[test]
    fn clients_choose_by_weight_and_differently() {
        for list in List::ALL {
            let files = list.files();
            let weights: u64 = files.iter().map(|file| file.weight).sum();
            let sample: Vec<u64> = list.choices(Seed(1), 0).take(100_000).map(|i| i as u64).collect();
            let cdf = |index: u64| {
                let below: u64 = files
                    .iter()
                    .take(index as usize + 1)
                    .map(|file| file.weight)
                    .sum();
                below as f64 / weights as f64
            };
            let fit = fit::chi_square(&sample, cdf);
            assert!(fit.p_value > 0.01, "{list:?} {fit:?}");
            let first: Vec<usize> = list.choices(Seed(1), 0).take(50).collect();
            assert_ne!(first, list.choices(Seed(1), 1).take(50).collect::<Vec<_>>());
        }
    }

    /// Little's law and both throughputs are the same sums, divided differently.
    #[test]
    fn identities_hold() {
        for (connects, errors, bytes, response, time) in [
            (1000, 3, 19_773_000, 120.0, 10.0),
            (1, 0, 500, 0.01, 1.0),
            (7, 7, 0, 3.0, 2.0),
        ] {
            let metrics = Metrics::new(
                &Counts {
                    connects,
                    errors,
                    bytes: Bytes(bytes),
                    response_time: Duration::from_secs_f64(response),
                },
                Duration::from_secs_f64(time),
            );
            let close =
                |a: f64, b: f64| assert!((a - b).abs() <= 1e-9 * a.abs().max(1.0), "{a} {b}: {metrics:?}");
            close(
                metrics.connection_rate * metrics.average_response_time / 1000.0,
                metrics.littles_load_factor,
            );
            close(
                metrics.average_client_throughput * metrics.littles_load_factor,
                metrics.server_throughput,
            );
            close(
                metrics.error_rate / metrics.connection_rate * 100.0,
                metrics.error_level,
            );
        }
        assert_eq!(
            Metrics::new(&Counts::default(), Duration::ZERO).connection_rate,
            0.0
        );
    }
}
