//! `weir lab windows`: distribution of the congestion windows of a server's connections (document 000, Table 3,
//! Figure 2). Counts and prints; `runtime` queries the kernel.

use crate::cli::lab::WindowsFlags;
use crate::failure::Failure;
use crate::output::{line, print};
use crate::voice::Voice;
use std::collections::BTreeMap;

/// Larger windows are counted as this one, in segments: it bounds the number of counters.
const WINDOW_MAX: u32 = 4096;
/// Marks of the distribution in segments, the same for every run, so that runs can be compared.
const MARKS: [u32; 20] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 30, 40, 60, 80, 100, 150, 200,
];

/// Runs the command.
///
/// # Errors
/// `System` if the kernel does not report windows, or the output cannot be written.
pub(super) fn run(flags: &WindowsFlags, voice: &Voice) -> Result<(), Failure> {
    let mut seen = Seen::default();
    let looks = runtime::cwnd::watch(flags.port, flags.every, flags.seconds, &mut |window| {
        seen.add(window)
    })
    .map_err(|error| {
        Failure::System(format!(
            "the kernel does not report congestion windows (inet_diag): {error}"
        ))
    })?;
    if voice.json {
        return line(seen.json(looks));
    }
    print(&seen.text(looks))
}

/// Number of samples of each window.
#[derive(Debug, Default)]
struct Seen {
    counts: BTreeMap<u32, u64>,
}

impl Seen {
    fn add(&mut self, window: u32) {
        *self.counts.entry(window.min(WINDOW_MAX)).or_default() += 1;
    }

    fn all(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Mean window; `None` without a connection.
    fn mean(&self) -> Option<f64> {
        let sum: f64 = self
            .counts
            .iter()
            .map(|(&window, &count)| f64::from(window) * count as f64)
            .sum();
        (self.all() > 0).then(|| sum / self.all() as f64)
    }

    /// Share of windows up to `mark`.
    fn up_to(&self, mark: u32) -> f64 {
        let count: u64 = self.counts.range(..=mark).map(|(_, &count)| count).sum();
        count as f64 / self.all() as f64
    }

    fn json(&self, looks: u64) -> serde_json::Value {
        let marks: Vec<(u32, f64)> = match self.all() {
            0 => Vec::new(),
            _ => MARKS.map(|mark| (mark, self.up_to(mark))).to_vec(),
        };
        serde_json::json!({
            "event": "windows", "version": 1, "looks": looks, "observed": self.all(), "mean_segments": self.mean(),
            "max_segments": self.counts.keys().next_back(), "share_up_to": marks,
        })
    }

    fn text(&self, looks: u64) -> String {
        let Some((mean, most)) = self.mean().zip(self.counts.keys().next_back()) else {
            return format!("no connection in {looks} samples\n");
        };
        let mut text = format!(
            "{} windows in {looks} samples: mean {mean:.2} segments, largest {most}\n",
            self.all()
        );
        for mark in MARKS {
            text += &format!("{mark:>5} or fewer  {:>5.1} %\n", 100.0 * self.up_to(mark));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_counted_up_to_a_bound_and_shares_reach_one() {
        let mut seen = Seen::default();
        assert!(seen.json(3)["mean_segments"].is_null() && seen.text(3).contains("no connection"));
        for window in [10, 10, 2, 42] {
            seen.add(window);
        }
        let line = seen.json(3);
        assert_eq!(line["mean_segments"], 16.0);
        assert_eq!(
            (&line["observed"], &line["max_segments"]),
            (&4.into(), &42.into())
        );
        let share = |mark: u64| {
            let rows = line["share_up_to"].as_array().expect("rows");
            rows.iter().find(|row| row[0] == mark).expect("the mark")[1].as_f64()
        };
        assert_eq!([1, 2, 10, 200].map(share), [0.0, 0.25, 0.75, 1.0].map(Some));
        for window in 0..100_000 {
            seen.add(window);
        }
        assert_eq!(seen.counts.len(), WINDOW_MAX as usize + 1);
    }
}
