//! The format of recordings: one JSON object per line. Opens no files.
//!
//! ```text
//!   {"recording":2, ...}          a server started, or was told to reload: who it was and which knobs were free
//!   {"at-ms":1001, "cpu":...}     a window
//!   {"at-ms":1001, "decision":..} what was decided after it, and whether that was put in force
//! ```
//! A server that is restarted appends to the file, beginning with a line of its own. Older recordings contain windows
//! only.

use super::{Decision, Knob, Window};
use crate::config::{Adapt, Config, parse_duration, show_duration};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use units::Duration;

/// Version of the format.
const VERSION: u32 = 2;

/// A line of a recording.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// The server started or reloaded.
    Start(Start),
    /// Observations of about a second.
    Window(Box<Window>),
    /// A decision.
    Decided(Decided),
}

/// The recording server, and the settings left to adaptation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Start {
    /// Version of the format.
    pub recording: u32,
    /// Version of Weir.
    pub weir: String,
    /// See `--adapt`.
    pub adapt: Adapt,
    /// See `--concurrency`.
    pub concurrency: String,
    /// See `--idle-timeout`.
    pub idle_timeout: String,
    /// Knobs left to adaptation; explicit settings are not among them.
    pub free: Vec<Knob>,
    /// Time of the reload, in milliseconds since the first observation. `None`: the server started, and times of later
    /// lines begin at zero again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<u64>,
}

/// A recorded decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Decided {
    /// End of the window behind the decision, in milliseconds.
    pub at_ms: u64,
    /// The decision.
    pub decision: Decision,
    /// Whether it was put in force; false in a dry run.
    pub applied: bool,
}

impl Start {
    /// The first line of a server with this configuration.
    pub fn of(config: &Config, weir: &str) -> Start {
        Start {
            recording: VERSION,
            weir: weir.to_owned(),
            adapt: config.adapt,
            concurrency: config.concurrency.to_string(),
            idle_timeout: show_duration(config.idle_timeout),
            free: Knob::free_in(config),
            at_ms: None,
        }
    }

    /// The line of a reload to `config`. Settings that change only at the next start stay as they were.
    pub fn reloaded(&self, config: &Config, at_ms: u64) -> Start {
        let config = Config {
            adapt: self.adapt,
            ..config.clone()
        };
        Start {
            concurrency: self.concurrency.clone(),
            at_ms: Some(at_ms),
            ..Start::of(&config, &self.weir)
        }
    }

    /// Whether both leave the same knobs to adaptation, from the same values.
    pub fn is_like(&self, other: &Start) -> bool {
        (&self.free, &self.idle_timeout) == (&other.free, &other.idle_timeout)
    }

    /// The configured idle timeout.
    ///
    /// # Errors
    /// The recorded value is not a time span.
    pub fn idle(&self) -> Result<Duration, String> {
        parse_duration(&self.idle_timeout)
    }
}

impl Line {
    /// Parses a line.
    ///
    /// # Errors
    /// A sentence that names the mistake.
    pub fn parse(text: &str) -> Result<Line, String> {
        if text.trim().is_empty() {
            return Err("the line is empty".to_owned());
        }
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let told = |error: serde_json::Error| error.to_string();
        if let Some(version) = value.get("recording") {
            if version.as_u64() != Some(VERSION.into()) {
                return Err(format!(
                    "format {version} is of another version of weir, and this one reads format {VERSION}; record again"
                ));
            }
            return serde_json::from_value(value).map(Line::Start).map_err(told);
        }
        if value.get("decision").is_some() {
            return serde_json::from_value(value).map(Line::Decided).map_err(told);
        }
        let window: Window = serde_json::from_value(value).map_err(told)?;
        if window.memory.as_ref().is_some_and(|memory| memory.limit == 0) {
            return Err("the memory limit is 0 bytes; it must be larger".to_owned());
        }
        Ok(Line::Window(Box::new(window)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LookupTime;

    fn free(change: impl FnOnce(&mut Config)) -> Vec<Knob> {
        let mut config = Config::default();
        change(&mut config);
        Start::of(&config, "1").free
    }

    #[test]
    fn it_says_what_was_left_to_decide() {
        assert_eq!(free(|_| ()), Knob::ALL);
        assert_eq!(free(|config| config.adapt = Adapt::Off), []);
        assert_eq!(free(|config| config.adapt = Adapt::DryRun), Knob::ALL);
        assert_eq!(
            free(|config| config.idle_timeout = Duration::from_secs(30)),
            [Knob::Compression]
        );
        assert_eq!(free(|config| config.compress = false), [Knob::IdleTimeout]);
        assert_eq!(
            free(|config| config.behavior.lookup = LookupTime::EachRequest),
            [Knob::IdleTimeout]
        );
    }

    #[test]
    fn what_is_said_is_set_even_if_it_is_the_default() {
        assert_eq!(
            free(|config| config.said = vec![Knob::Compression]),
            [Knob::IdleTimeout]
        );
        let of_file =
            |text: &str| free(|config| *config = Config::from_toml(text, "weir.toml").expect("valid"));
        assert_eq!(of_file("listing = true"), Knob::ALL);
        assert_eq!(of_file("compress = true"), [Knob::IdleTimeout]);
        assert_eq!(of_file("idle-timeout = '65s'"), [Knob::Compression]);
        assert_eq!(of_file("[behavior]\nearly-close = '0s'"), [Knob::Compression]);
        assert_eq!(of_file("preset = 'jaws'"), [Knob::IdleTimeout]);
        assert_eq!(of_file("preset = 'jaws'\ncompress = true"), [Knob::IdleTimeout]);
        assert_eq!(of_file("preset = 'jaws'\nidle-timeout = '65s'"), []);
    }

    /// Settings that wait for the next start have no effect before it.
    #[test]
    fn a_reload_says_what_is_left_to_decide_from_then_on() {
        let mut config = Config::default();
        let start = Start::of(&config, "1");
        assert!(start.is_like(&start.reloaded(&config, 5000)));
        config.adapt = Adapt::Off;
        config.compress = false;
        let next = start.reloaded(&config, 5000);
        assert_eq!(
            (next.at_ms, &next.free[..]),
            (Some(5000), &[Knob::IdleTimeout][..])
        );
        assert!(!start.is_like(&next) && next.adapt == Adapt::Auto);
        let text = serde_json::to_string(&next).expect("JSON");
        assert!(text.contains("\"at-ms\":5000"), "{text}");
        assert_eq!(Line::parse(&text), Ok(Line::Start(next)));
    }

    #[test]
    fn every_line_is_read_as_what_it_is() {
        let start = Start::of(&Config::default(), "0.1.0");
        assert_eq!(start.idle(), Ok(Config::default().idle_timeout));
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
        let text = serde_json::to_string(&start).expect("JSON");
        assert_eq!(Line::parse(&text), Ok(Line::Start(start)));
        let text = serde_json::to_string(&decided).expect("JSON");
        assert_eq!(Line::parse(&text), Ok(Line::Decided(decided)));
        let mut window = Window::default();
        let text = serde_json::to_string(&window).expect("JSON");
        assert_eq!(Line::parse(&text), Ok(Line::Window(Box::new(window.clone()))));
        window.memory = Some(super::super::MemoryState::default());
        let text = serde_json::to_string(&window).expect("JSON");
        assert!(Line::parse(&text).expect_err("no bound").contains("0 bytes"));
        for (line, part) in [
            ("\n", "empty"),
            ("{\"recording\":1}", "another version"),
            ("{\"at-ms\":1}", "missing field"),
        ] {
            let error = Line::parse(line).expect_err(line);
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
