//! What the server observed and decided, read from its recording while it grows. Reports each decision when it is
//! made, and at the end the conditions before the squeeze, during it without decisions, and after them.

use server::adapt::{Decided, Line, Window};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use units::median;

/// Largest number of windows that a row summarizes by their medians.
const ROW: usize = 10;

/// The recording so far.
pub(super) struct Story {
    path: PathBuf,
    read: u64,
    windows: Vec<Window>,
    /// Number of windows recorded when memory became tight.
    squeezed: Option<usize>,
    pub(super) decisions: Vec<Decided>,
}

/// A row of the final table: the median of each number over some windows.
struct Row {
    name: &'static str,
    windows: Vec<Window>,
}

impl Story {
    pub(super) fn of(path: PathBuf) -> Story {
        Story {
            path,
            read: 0,
            windows: Vec::new(),
            squeezed: None,
            decisions: Vec::new(),
        }
    }

    pub(super) fn squeezed(&mut self) {
        self.squeezed = Some(self.windows.len());
    }

    /// Reads new lines and returns the decisions in them.
    #[allow(clippy::disallowed_methods, reason = "the recording is this command's own")]
    pub(super) fn follow(&mut self) -> Vec<Decided> {
        let mut text = String::new();
        let read = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.read))?;
            file.read_to_string(&mut text)
        });
        // The file does not exist yet, or ends within a character: try again later.
        match read {
            Ok(_) => self.take(&text),
            Err(_) => Vec::new(),
        }
    }

    /// Parses the complete lines.
    fn take(&mut self, text: &str) -> Vec<Decided> {
        let known = self.decisions.len();
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            self.read += line.len() as u64;
            match Line::parse(line) {
                Ok(Line::Window(window)) => self.windows.push(*window),
                Ok(Line::Decided(decided)) => self.decisions.push(decided),
                Ok(Line::Start(_)) | Err(_) => {}
            }
        }
        self.decisions[known..].to_vec()
    }

    fn rows(&self) -> Vec<Row> {
        let row = |name, windows: &[Window]| Row {
            name,
            windows: windows[windows.len().saturating_sub(ROW)..].to_vec(),
        };
        let Some(squeezed) = self.squeezed else {
            return vec![row("at the end", &self.windows)];
        };
        let (before, after) = self.windows.split_at(squeezed);
        let first = self.decisions.first().map_or(u64::MAX, |first| first.at_ms);
        let undecided = after.iter().filter(|window| window.at_ms <= first).count();
        let last = self.decisions.last().map_or(u64::MAX, |last| last.at_ms);
        let decided = after.iter().filter(|window| window.at_ms <= last).count();
        let rows = [
            row("before", before),
            row("squeezed", &after[..undecided]),
            row("at the end", &after[decided..]),
        ];
        rows.into_iter().filter(|row| !row.windows.is_empty()).collect()
    }

    /// The table as text.
    pub(super) fn table(&self) -> String {
        let mut text = format!(
            "{:<12}{:>12}{:>13}{:>12}{:>16}{:>10}\n",
            "", "requests/s", "connections", "files, MiB", "read again/s", "waiting"
        );
        for row in self.rows() {
            text += &row.text();
        }
        text
    }
}

impl Row {
    /// Median of the known values.
    fn middle(&self, number: impl Fn(&Window) -> Option<f64>) -> Option<f64> {
        let known: Vec<f64> = self.windows.iter().filter_map(number).collect();
        median(&known)
    }

    fn text(&self) -> String {
        let shown = |value: Option<f64>, unit: &str| match value {
            Some(value) => format!("{value:.0}{unit}"),
            None => "-".to_owned(),
        };
        let memory = |window: &Window| window.memory.clone();
        format!(
            "{:<12}{:>12}{:>13}{:>12}{:>16}{:>10}\n",
            self.name,
            shown(self.middle(|window| Some(window.requests)), ""),
            shown(self.middle(|window| Some(window.open.into())), ""),
            shown(
                self.middle(|window| Some((memory(window)?.files >> 20) as f64)),
                ""
            ),
            shown(self.middle(|window| memory(window)?.refaults), ""),
            shown(
                self.middle(|window| {
                    let stalled = [window.memory_stalled, window.io_stalled];
                    stalled
                        .into_iter()
                        .flatten()
                        .reduce(f64::max)
                        .map(|share| share * 100.0)
                }),
                " %"
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::adapt::{Decision, Knob, MemoryState};

    fn window(second: u64, requests: f64, files: Option<u64>) -> String {
        let window = Window {
            at_ms: second * 1000,
            requests,
            memory: files.map(|files| MemoryState {
                limit: 100 << 20,
                used: 99 << 20,
                files: files << 20,
                refaults: Some(300.0),
            }),
            io_stalled: Some(0.9),
            ..Window::default()
        };
        serde_json::to_string(&window).expect("JSON") + "\n"
    }

    #[test]
    fn decisions_are_told_once_and_rows_end_where_something_changed() {
        let mut story = Story::of(PathBuf::new());
        assert!(story.take(&window(1, 400.0, None)).is_empty());
        story.squeezed();
        let decided = Decided {
            at_ms: 3000,
            decision: Decision {
                knob: Knob::IdleTimeout,
                from: "65s".to_owned(),
                to: "16250ms".to_owned(),
                why: "so".to_owned(),
            },
            applied: true,
        };
        let line = serde_json::to_string(&decided).expect("JSON") + "\n";
        let text =
            window(2, 100.0, Some(20)) + &window(3, 100.0, Some(20)) + &line + &window(4, 390.0, Some(60));
        // A partial line is read once it is complete.
        let cut = text.len() - 5;
        assert_eq!(story.take(&text[..cut]), [decided]);
        let read = usize::try_from(story.read).expect("small") - window(1, 400.0, None).len();
        assert!(story.take(&text[read..]).is_empty());
        let table = story.table();
        let rows: Vec<Vec<&str>> = table
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(rows[0][..4], ["before", "400", "0", "-"]);
        assert_eq!(rows[1][..5], ["squeezed", "100", "0", "20", "300"]);
        assert_eq!(rows[2][..5], ["at", "the", "end", "390", "0"]);
        assert_eq!((rows.len(), rows[1][5], rows[1][6]), (3, "90", "%"));
    }
}
