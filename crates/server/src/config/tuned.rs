//! The profile file of `weir tune`: the settings it found, the machine they hold for, and the measurements behind them.
//! Decides the format and the keys allowed; measures nothing.
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

/// Keys allowed in `[serve]`: those that depend on the machine and not on the site.
const KEYS: [&str; 5] = ["concurrency", "io", "workers", "cache-file-size", "send-buffer"];

/// A profile: settings measured on a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Tuned {
    /// Version of the format: 1.
    pub version: u32,
    /// The load during the measurements, in words.
    pub workload: String,
    /// The machine that was measured.
    pub machine: Machine,
    /// Settings to start from; every other source overrides them.
    pub serve: toml::Table,
    /// The measurements behind the settings.
    #[serde(default)]
    pub probe: Vec<Probe>,
}

/// The traits by which machines are told apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Machine {
    /// Model of its CPU.
    pub cpu: String,
    /// Number of cores that this program may use.
    pub cores: usize,
    /// Release of its kernel.
    pub kernel: String,
}

/// The measurement of one setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Probe {
    /// The stage of the tuning, named after the key it varied.
    pub stage: String,
    /// The keys of this setting, as lines of a configuration file.
    pub setting: String,
    /// Files per second, one value per round. Each round measured every setting of the stage.
    pub files_per_s: Vec<f64>,
    /// 99th percentile of the response time in milliseconds, one value per round.
    pub p99_ms: Vec<f64>,
    /// Whether this setting was chosen.
    pub chosen: bool,
}

impl Tuned {
    /// Whether the profile sets this key.
    pub fn has(&self, key: &str) -> bool {
        self.serve.contains_key(key)
    }

    /// Parses a profile. `name` is the name of its file in errors.
    ///
    /// # Errors
    /// The first mistake, with file, line and key.
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
            let why = format!(
                "`{key}` is not allowed in a profile; valid keys: {}",
                KEYS.join(", ")
            );
            return Err(ConfigError::about("serve", why, text, name));
        }
        Ok(tuned)
    }

    /// Parses lines of a configuration file into a table.
    ///
    /// # Errors
    /// The first line that is not a key with a value.
    pub fn keys(text: &str) -> Result<toml::Table, ConfigError> {
        text.parse()
            .map_err(|error| ConfigError::from_toml(&error, text, "serve"))
    }

    /// The profile as the text of a file.
    pub fn text(&self) -> String {
        // The fields are names, numbers and strings only, all of which TOML can express.
        let body = toml::to_string(self).unwrap_or_default();
        format!("# Written by weir tune. Use it with: weir serve --profile FILE\n{body}")
    }
}

impl Machine {
    /// The differences between this machine and `now`, as clauses.
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
        assert_eq!(plain.cache_file_size, units::Bytes::kib(64));
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
