//! Servers the documents measured, as strategies and behaviors of this one.
//!
//! A preset is a file like any configuration; what the user says beats it. What a server did that cannot be said
//! here stands in its file as not rebuilt.

use super::values::text_values;
use serde::{Deserialize, Serialize};

/// A server of the documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Preset {
    /// Apache 1.3 (documents 000 and 002).
    #[serde(rename = "apache-1.3")]
    Apache13,
    /// PHTTPD 0.99 (document 002).
    #[serde(rename = "phttpd")]
    Phttpd,
    /// Java Server 1.0 (document 002).
    #[serde(rename = "java-server")]
    JavaServer,
    /// Zeus 1.0 (document 002).
    #[serde(rename = "zeus")]
    Zeus,
    /// Netscape Enterprise 2.01 (document 002).
    #[serde(rename = "enterprise")]
    Enterprise,
    /// JAWS before it was tuned (document 002).
    #[serde(rename = "jaws-baseline")]
    JawsBaseline,
    /// JAWS (document 002).
    #[serde(rename = "jaws")]
    Jaws,
}

text_values!(Preset);

impl Preset {
    /// All there are.
    pub const ALL: [Preset; 7] = [
        Preset::Apache13,
        Preset::Phttpd,
        Preset::JavaServer,
        Preset::Zeus,
        Preset::Enterprise,
        Preset::JawsBaseline,
        Preset::Jaws,
    ];

    /// Its configuration, as a file.
    pub const fn text(self) -> &'static str {
        match self {
            Preset::Apache13 => include_str!("presets/apache-1.3.toml"),
            Preset::Phttpd => include_str!("presets/phttpd.toml"),
            Preset::JavaServer => include_str!("presets/java-server.toml"),
            Preset::Zeus => include_str!("presets/zeus.toml"),
            Preset::Enterprise => include_str!("presets/enterprise.toml"),
            Preset::JawsBaseline => include_str!("presets/jaws-baseline.toml"),
            Preset::Jaws => include_str!("presets/jaws.toml"),
        }
    }
}

/// `upper` on top of `lower`: tables are merged, everything else of `upper` wins.
pub(super) fn on_top(upper: toml::Table, lower: toml::Table) -> toml::Table {
    let mut merged = lower;
    for (key, value) in upper {
        let value = match (merged.remove(&key), value) {
            (Some(toml::Value::Table(below)), toml::Value::Table(above)) => {
                toml::Value::Table(on_top(above, below))
            }
            (_, value) => value,
        };
        merged.insert(key, value);
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::super::{CacheLock, Concurrency, Config, LookupTime, Workers};
    use super::*;

    fn config(preset: Preset, text: &str) -> Config {
        Config::from_toml_on(Some(preset), text, "weir.toml").expect("a valid file")
    }

    #[test]
    fn every_preset_is_a_valid_file_and_differs_from_the_others() {
        let all: Vec<Config> = Preset::ALL.map(|preset| config(preset, "")).into();
        for (at, one) in all.iter().enumerate() {
            assert_eq!(one.preset, Some(Preset::ALL[at]));
            assert!(all[..at].iter().all(|other| {
                (&other.behavior, other.concurrency, other.workers)
                    != (&one.behavior, one.concurrency, one.workers)
            }));
            let name = Preset::ALL[at].to_string();
            assert_eq!(name.parse(), Ok(Preset::ALL[at]));
            assert_eq!(
                Config::from_toml(&format!("preset = '{name}'"), "x"),
                Ok(one.clone())
            );
        }
    }

    #[test]
    fn what_the_user_says_beats_the_preset() {
        let plain = config(Preset::Apache13, "");
        assert_eq!(plain.concurrency, Concurrency::Processes);
        assert_eq!(plain.behavior.lookup, LookupTime::EachRequest);
        let changed = config(Preset::Apache13, "workers = 3\n[behavior]\ncopies = false\n");
        assert_eq!(changed.workers.to_string(), "3");
        assert!(!changed.behavior.copies && changed.behavior.fresh_head);
        let other = config(Preset::Jaws, "preset = 'zeus'");
        assert_eq!(other.behavior.cache_lock, CacheLock::Entry);
        assert_ne!(other.workers, Workers::Auto);
    }

    #[test]
    fn errors_are_those_of_the_users_file() {
        let error = Config::from_toml_on(Some(Preset::Zeus), "\nworkerz = 3", "weir.toml").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("weir.toml:2") && text.contains("workers"), "{text}");
    }
}
