//! What `weir tune` found out about a machine, as a file: keys a server starts from, the machine they hold for, and the
//! numbers they come from. Decides its form and which keys may stand in it; measures nothing.
//!
//! ```toml
//! version = 1
//! workload = "64 clients, serial, 2000 files of ./site"
//! [machine]
//! cpu = "Example Processor 3.0 GHz"
//! cores = 8
//! kernel = "6.12.0"
//! [serve]
//! concurrency = "loops"
//! workers = 4
//! [[probe]]
//! stage = "workers"
//! setting = "workers = 4"
//! files-per-s = [81000.0, 80500.0, 81900.0]
//! p99-ms = [1.9, 2.0, 1.9]
//! chosen = true
//! ```

use super::ConfigError;
use serde::{Deserialize, Serialize};

/// Keys that may stand in `[serve]`: what depends on the machine and not on what is served.
const KEYS: [&str; 5] = ["concurrency", "io", "workers", "cache-file-size", "send-buffer"];

/// A profile of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Tuned {
    /// Of this form: 1.
    pub version: u32,
    /// What was asked for while it was measured.
    pub workload: String,
    /// Where.
    pub machine: Machine,
    /// What to start from, beneath what else is said.
    pub serve: toml::Table,
    /// What it comes from.
    #[serde(default)]
    pub probe: Vec<Probe>,
}

/// What makes a machine another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Machine {
    /// The model of its processors.
    pub cpu: String,
    /// How many of them this program may use.
    pub cores: usize,
    /// The kernel's release.
    pub kernel: String,
}

/// A setting that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Probe {
    /// What was varied.
    pub stage: String,
    /// The keys it had, as they would stand in a file.
    pub setting: String,
    /// Files answered per second, round by round; all settings of a stage took turns in each round.
    pub files_per_s: Vec<f64>,
    /// The time 99 of 100 answers stayed below, in milliseconds, round by round.
    pub p99_ms: Vec<f64>,
    /// Whether it won.
    pub chosen: bool,
}

impl Tuned {
    /// Whether it says something about a key.
    pub fn has(&self, key: &str) -> bool {
        self.serve.contains_key(key)
    }

    /// Reads one; `name` is what errors call the file.
    ///
    /// # Errors
    /// The first problem, with file, line and key.
    pub fn parse(text: &str, name: &str) -> Result<Tuned, ConfigError> {
        let tuned: Tuned =
            toml::from_str(text).map_err(|error| ConfigError::from_toml(&error, text, name))?;
        if tuned.version != 1 {
            let why = format!(
                "{} is the profile format of another version of weir; run `weir tune` again",
                tuned.version
            );
            return Err(ConfigError::about("version", why, text, name));
        }
        if let Some(key) = tuned.serve.keys().find(|key| !KEYS.contains(&key.as_str())) {
            let why = format!("`{key}` is not allowed in a profile; valid keys: {}", KEYS.join(", "));
            return Err(ConfigError::about("serve", why, text, name));
        }
        Ok(tuned)
    }

    /// Keys as they stand in a file.
    ///
    /// # Errors
    /// What is no key and value.
    pub fn keys(text: &str) -> Result<toml::Table, ConfigError> {
        text.parse()
            .map_err(|error| ConfigError::from_toml(&error, text, "serve"))
    }

    /// As a file.
    pub fn text(&self) -> String {
        // Names, numbers and texts only: all of which TOML has.
        let body = toml::to_string(self).unwrap_or_default();
        format!("# Written by weir tune. Use it with: weir serve --profile FILE\n{body}")
    }
}

impl Machine {
    /// In what `now` is another machine than this one, in words.
    pub fn differs(&self, now: &Machine) -> Vec<String> {
        let mut differences = Vec::new();
        let mut compare = |what: &str, then: &dyn std::fmt::Display, now: &dyn std::fmt::Display| {
            if then.to_string() != now.to_string() {
                differences.push(format!("{what} was {then} and is {now}"));
            }
        };
        compare("the CPU", &self.cpu, &now.cpu);
        compare("the number of cores", &self.cores, &now.cores);
        compare("the kernel", &self.kernel, &now.kernel);
        differences
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Concurrency, Config, Preset};
    use super::*;

    fn machine(cores: usize) -> Machine {
        Machine {
            cpu: "Some Processor".to_owned(),
            cores,
            kernel: "6.1.0".to_owned(),
        }
    }

    fn tuned(serve: &str) -> Tuned {
        Tuned {
            version: 1,
            workload: "64 clients".to_owned(),
            machine: machine(8),
            serve: serve.parse().expect("a table"),
            probe: vec![Probe {
                stage: "workers".to_owned(),
                setting: "workers = 4".to_owned(),
                files_per_s: vec![10.5, 11.0],
                p99_ms: vec![1.0, 2.0],
                chosen: true,
            }],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let tuned = tuned("workers = 4\nconcurrency = 'pool'");
        assert_eq!(Tuned::parse(&tuned.text(), "p.toml"), Ok(tuned));
    }

    #[test]
    fn it_lies_beneath_everything_else() {
        let tuned = tuned("workers = 4\nconcurrency = 'pool'\ncache-file-size = '64KiB'");
        let made = |preset, text| {
            Config::from_toml_above(preset, Some(&tuned), &toml::Table::new(), text, "weir.toml")
                .expect("valid")
        };
        let plain = made(None, "");
        assert_eq!(
            (plain.concurrency, plain.workers.to_string()),
            (Concurrency::Pool, "4".to_owned())
        );
        assert_eq!(plain.cache_file_size, measure::Bytes::kib(64));
        assert_eq!(made(None, "workers = 3").workers.to_string(), "3");
        let preset = made(Some(Preset::Apache13), "");
        assert_eq!(preset.concurrency, Concurrency::Processes);
    }

    #[test]
    fn what_does_not_belong_there_is_named() {
        let text = tuned("workers = 4").text();
        for (old, new, part) in [
            ("version = 1", "version = 2", "weir tune"),
            ("workers = 4", "root = '/'", "`root`"),
            ("cores = 8", "cores = 'many'", "cores"),
            ("cpu =", "cpux =", "cpu"),
        ] {
            let error = Tuned::parse(&text.replacen(old, new, 1), "p.toml")
                .expect_err(part)
                .to_string();
            assert!(error.contains("p.toml") && error.contains(part), "{error}");
        }
    }

    #[test]
    fn another_machine_is_told_by_what_is_other() {
        assert!(machine(8).differs(&machine(8)).is_empty());
        let other = Machine {
            kernel: "6.2.0".to_owned(),
            ..machine(4)
        };
        let said = machine(8).differs(&other);
        assert_eq!(
            said,
            [
                "the number of cores was 8 and is 4",
                "the kernel was 6.1.0 and is 6.2.0"
            ]
        );
    }
}
