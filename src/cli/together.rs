//! Checks that the settings of a strategy are compatible. Errors quote each setting as its source wrote it: a flag, a
//! line of the file, or a preset's line that the user never typed. Decides compatibility and advice; knows nothing of
//! what this machine supports.

use core::fmt::Display;
use runtime::strategy::{Io, combinations};
use server::config::{Concurrency, Config, MaxTurn, Preset, Workers, show_duration};
use units::Word as _;

/// Where a setting comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The command line, an environment variable, or a command of `weir ctl`.
    Command,
    /// The configuration file.
    File,
    /// `--preset`.
    Preset(Preset),
    /// `--profile`.
    Profile,
    /// No source sets it.
    Default,
}

impl Source {
    /// Whether the user set it explicitly.
    fn is_said(self) -> bool {
        matches!(self, Source::Command | Source::File)
    }

    /// The setting as this source wrote it.
    fn quoted(self, key: &str, value: impl Display) -> String {
        let line = format!("`{key} = \"{value}\"`");
        match self {
            Source::Command => format!("`--{key} {value}`"),
            Source::File => line,
            Source::Preset(preset) => format!("{line} of the preset {preset}"),
            Source::Profile => format!("{line} of the profile"),
            Source::Default => format!("{line}, which is the default,"),
        }
    }

    /// A recommended setting in the syntax of this source.
    fn advised(self, key: &str, value: impl Display) -> String {
        match self {
            Source::File => format!("`{key} = \"{value}\"`"),
            _ => format!("`--{key} {value}`"),
        }
    }
}

/// Two incompatible settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contradiction {
    /// The keys; errors point at the first that the file sets.
    pub(crate) keys: [&'static str; 2],
    /// The problem and what to do.
    pub(crate) why: String,
}

/// Whether the settings of a strategy are compatible; `source` gives the source of each key.
///
/// # Errors
/// The first two that are not.
pub(crate) fn check(config: &Config, source: &dyn Fn(&str) -> Source) -> Result<(), Contradiction> {
    let concurrency = config.concurrency;
    let whose = source("concurrency");
    let named = whose.quoted("concurrency", concurrency);
    let can_shape = |one: Concurrency| matches!(one, Concurrency::Loops | Concurrency::Loop);
    if let (Some(rate), false) = (config.line_rate, can_shape(concurrency)) {
        let rate = source("line-rate").quoted("line-rate", rate);
        let instead = whose.advised("concurrency", Concurrency::Loops);
        return Err(Contradiction {
            keys: ["line-rate", "concurrency"],
            why: format!(
                "{rate} needs event loops in a single process, which {named} does not have; use {instead} or `loop`, \
                 or leave `line-rate` out"
            ),
        });
    }
    let has_turns = can_shape(concurrency) || concurrency == Concurrency::ProcessLoops;
    if let (MaxTurn::At(span), false) = (config.max_turn, has_turns) {
        let turn = source("max-turn").quoted("max-turn", show_duration(span));
        let instead = whose.advised("concurrency", Concurrency::Loops);
        return Err(Contradiction {
            keys: ["max-turn", "concurrency"],
            why: format!(
                "{turn} limits the latency of an event loop, and {named} has no event loop; use {instead}, or leave \
                 `max-turn` out"
            ),
        });
    }
    if let (Concurrency::Loop, Workers::Fixed(count)) = (concurrency, config.workers)
        && count.get() > 1
    {
        let instead = whose.advised("concurrency", Concurrency::Loops);
        return Err(Contradiction {
            keys: ["workers", "concurrency"],
            why: format!("{named} is a single event loop and cannot have {count} workers; use {instead}"),
        });
    }
    let valid: Vec<Io> = concurrency.valid_io().collect();
    let Some(io) = config.io.asked().filter(|io| !valid.contains(io)) else {
        return Ok(());
    };
    let whose_io = source("io");
    let instead: Vec<String> = valid.iter().map(|io| whose_io.advised("io", io)).collect();
    let suits = Concurrency::ALL
        .iter()
        .find(|other| other.valid_io().any(|valid| valid == io))
        .filter(|_| !whose.is_said())
        .map(|other| format!(", or add {}", whose_io.advised("concurrency", other)))
        .unwrap_or_default();
    Err(Contradiction {
        keys: ["io", "concurrency"],
        why: format!(
            "{named} cannot use {}: {}; use {} or leave it out{suits} (valid combinations: {})",
            whose_io.quoted("io", io),
            waits(concurrency),
            instead.join(" or "),
            combinations()
        ),
    })
}

/// How workers of this kind wait, which decides which I/O back ends they can use.
pub(crate) fn waits(concurrency: Concurrency) -> &'static str {
    match concurrency {
        Concurrency::Loops | Concurrency::ProcessLoops => "event loops wait for many sockets at once",
        Concurrency::Loop => "an event loop waits for many sockets at once",
        Concurrency::Pool => "each thread of the pool blocks on one connection",
        Concurrency::ThreadPerConnection => "each thread blocks on its connection",
        Concurrency::ThreadPerRequest => "each thread blocks on its request",
        Concurrency::Processes => "each process blocks on one connection",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::config::IoKind;

    #[test]
    fn a_bound_on_turns_needs_turns() {
        for &concurrency in Concurrency::ALL {
            let config = Config {
                concurrency,
                max_turn: "5ms".parse().expect("a time"),
                ..Config::default()
            };
            let checked = check(&config, &|_| Source::Command);
            let waits = waits(concurrency).contains("many sockets");
            assert_eq!(checked.is_ok(), waits, "{concurrency}: {checked:?}");
            if let Err(contradiction) = checked {
                assert!(
                    contradiction.why.starts_with("`--max-turn 5ms` limits"),
                    "{}",
                    contradiction.why
                );
            }
        }
    }

    #[test]
    fn each_setting_is_named_as_it_was_said() {
        let config = Config {
            concurrency: Concurrency::Pool,
            io: IoKind::Epoll,
            ..Config::default()
        };
        let said = |concurrency: Source, io: Source| {
            let source = |key: &str| if key == "io" { io } else { concurrency };
            check(&config, &source).expect_err("a contradiction").why
        };
        for (concurrency, io, beginning, end) in [
            (
                Source::Command,
                Source::Command,
                "`--concurrency pool` cannot use `--io epoll`: each thread of the pool blocks",
                "use `--io blocking` or leave it out (valid",
            ),
            (
                Source::File,
                Source::File,
                "`concurrency = \"pool\"` cannot use `io = \"epoll\"`: ",
                "use `io = \"blocking\"` or leave it out (valid",
            ),
            (
                Source::Preset(Preset::Jaws),
                Source::Command,
                "`concurrency = \"pool\"` of the preset jaws cannot use `--io epoll`: ",
                "use `--io blocking` or leave it out, or add `--concurrency loops` (valid",
            ),
        ] {
            let why = said(concurrency, io);
            assert!(why.starts_with(beginning) && why.contains(end), "{why}");
        }
    }
}
