//! The servers that the documents measured, as strategies and behaviors of Weir.
//!
//! A preset is a configuration file. Other settings override it, and an override also drops keys of the preset that
//! conflict with it. Its file lists the server's behaviors that Weir cannot imitate as "not rebuilt".

use runtime::strategy::Concurrency;

units::words! {
    /// A server that the documents measured.
    pub enum Preset {
        /// Apache 1.3 (documents 000 and 002).
        Apache13 = "apache-1.3",
        /// PHTTPD 0.99 (document 002).
        Phttpd = "phttpd",
        /// Java Server 1.0 (document 002).
        JavaServer = "java-server",
        /// Zeus 1.0 (document 002).
        Zeus = "zeus",
        /// Netscape Enterprise 2.01 (document 002).
        Enterprise = "enterprise",
        /// JAWS before it was tuned (document 002).
        JawsBaseline = "jaws-baseline",
        /// JAWS (document 002).
        Jaws = "jaws",
    }
}

impl Preset {
    /// The preset as a configuration file.
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

/// Merges `upper` over `lower`: tables are merged, other values of `upper` win.
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

/// Removes the keys of `lower` that conflict with `upper`.
///
/// ```text
///   set in upper             removed from lower
///   another concurrency      io and workers, which belong to the lower one; accept-lock where one thread accepts
///   io of uring              accept-lock
///   lookup cached            ancestor-file
///   lookup each-request      cache-lock
///   a cache-lock             lookup and ancestor-file
/// ```
pub(super) fn make_way(lower: &mut toml::Table, upper: &toml::Table) {
    let word = |table: &toml::Table, key: &str| Some(table.get(key)?.as_str()?.to_owned());
    let concurrency = word(upper, "concurrency");
    let below = word(lower, "concurrency").unwrap_or_else(|| Concurrency::default().to_string());
    if concurrency.as_ref().is_some_and(|above| *above != below) {
        lower.remove("io");
        lower.remove("workers");
    }
    let said = upper.get("behavior").and_then(toml::Value::as_table);
    let lookup = said.and_then(|said| word(said, "lookup"));
    let locks = said
        .and_then(|said| word(said, "cache-lock"))
        .is_some_and(|lock| lock != "none");
    let Some(behavior) = lower.get_mut("behavior").and_then(toml::Value::as_table_mut) else {
        return;
    };
    let one_accepts = matches!(
        concurrency.as_deref(),
        Some("loop" | "thread-per-connection" | "thread-per-request")
    );
    if one_accepts || word(upper, "io").as_deref() == Some("uring") {
        behavior.remove("accept-lock");
    }
    match lookup.as_deref() {
        Some("cached") => drop(behavior.remove("ancestor-file")),
        Some(_) => drop(behavior.remove("cache-lock")),
        None if locks => {
            behavior.remove("lookup");
            behavior.remove("ancestor-file");
        }
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CacheLock, Config, IoKind, LookupTime, Workers};
    use super::*;
    use units::Word as _;

    fn config(preset: Preset, text: &str) -> Config {
        Config::from_toml_on(Some(preset), text, "weir.toml").expect("a valid file")
    }

    #[test]
    fn every_preset_is_a_valid_file_and_differs_from_the_others() {
        let all: Vec<Config> = Preset::ALL.iter().map(|&preset| config(preset, "")).collect();
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

    /// Overrides in the file, and beside it.
    #[test]
    fn what_has_no_meaning_beside_what_is_said_makes_way() {
        for (preset, said, kept) in [
            (
                Preset::Zeus,
                "concurrency = 'pool'",
                &["behavior.accept-lock"][..],
            ),
            (
                Preset::Zeus,
                "concurrency = 'process-loops'",
                &["io", "behavior.accept-lock"],
            ),
            (Preset::Jaws, "concurrency = 'loop'", &["behavior.cache-lock"]),
            (Preset::Jaws, "workers = 3", &["workers", "behavior.accept-lock"]),
            (Preset::Jaws, "[behavior]\nlookup = 'each-request'", &["workers"]),
            (
                Preset::Apache13,
                "[behavior]\nlookup = 'cached'",
                &["workers", "behavior.copies"],
            ),
            (Preset::Apache13, "[behavior]\ncache-lock = 'whole'", &["workers"]),
            (
                Preset::Apache13,
                "[behavior]\ncache-lock = 'none'",
                &["behavior.ancestor-file"],
            ),
        ] {
            let table: toml::Table = said.parse().expect("a table");
            let beside = Config::from_toml_above(Some(preset), None, &table, "", "x");
            let file = Config::from_toml_above(Some(preset), None, &toml::Table::new(), said, "x");
            assert!(beside.is_ok(), "{preset} and {said}: {beside:?}");
            let config = file.unwrap_or_else(|error| panic!("{preset} and {said}: {error}"));
            let was = Config::from_toml_on(Some(preset), "", "x").expect("a preset");
            for key in [
                "io",
                "workers",
                "behavior.accept-lock",
                "behavior.cache-lock",
                "behavior.copies",
            ] {
                let is_kept = match key {
                    "io" => config.io == was.io,
                    "workers" => config.workers == was.workers || said.contains("workers"),
                    "behavior.accept-lock" => config.behavior.accept_lock == was.behavior.accept_lock,
                    "behavior.cache-lock" => config.behavior.cache_lock == was.behavior.cache_lock,
                    _ => config.behavior.copies == was.behavior.copies,
                };
                assert!(
                    is_kept || !kept.contains(&key),
                    "{preset} and {said}: {key} is gone"
                );
            }
        }
        let pool = config(Preset::Zeus, "concurrency = 'pool'");
        assert_eq!((pool.io, pool.workers), (IoKind::Auto, Workers::Auto));
        let cached = config(Preset::Apache13, "[behavior]\nlookup = 'cached'");
        assert_eq!(cached.behavior.ancestor_file, None);
        // Keys that the user sets are never removed.
        let own = "[behavior]\nlookup = 'cached'\nancestor-file = '.htaccess'";
        assert!(Config::from_toml_on(Some(Preset::Apache13), own, "x").is_err());
    }

    #[test]
    fn errors_are_those_of_the_users_file() {
        let error = Config::from_toml_on(Some(Preset::Zeus), "\nworkerz = 3", "weir.toml").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("weir.toml:2") && text.contains("workers"), "{text}");
    }
}
