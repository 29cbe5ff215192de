//! Which settings of a strategy go together, said in the words in which they were said: a line of the file is no
//! flag, and what a preset brings was typed by nobody. Decides that and what to do about it; refuses to know what this
//! machine allows.

use core::fmt::Display;
use runtime::strategy::combinations;
use server::config::{Concurrency, Config, IoKind, MaxTurn, Preset, Workers, show_duration};

/// Who said a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The command line, a variable, or whoever asks a running server.
    Command,
    /// The file of configuration.
    File,
    /// A preset.
    Preset(Preset),
    /// A profile of a machine.
    Profile,
    /// Nobody.
    Default,
}

impl Source {
    /// Whether it is the user's own word, which nothing beats.
    fn is_said(self) -> bool {
        matches!(self, Source::Command | Source::File)
    }

    /// A setting as it was said.
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

    /// A setting as whoever said this one would say it.
    fn advised(self, key: &str, value: impl Display) -> String {
        match self {
            Source::File => format!("`{key} = \"{value}\"`"),
            _ => format!("`--{key} {value}`"),
        }
    }
}

/// Settings that cannot be together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contradiction {
    /// Those that contradict each other, the one to blame first.
    pub(crate) keys: [&'static str; 2],
    /// What is wrong and what to do.
    pub(crate) why: String,
}

/// Whether the settings of a strategy go together; `source` says whose each is.
///
/// # Errors
/// The first two that do not.
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
                "{rate} needs a worker that sends for many connections and waits for none, in one process, and \
                 {named} is no such; use {instead} or `loop`, or leave `line-rate` out"
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
                "{turn} bounds the turns of an event loop, and {named} has none: it would refuse nobody; use {instead}, \
                 or leave `max-turn` out"
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
    let valid = valid_io(concurrency);
    if config.io == IoKind::Auto || valid.contains(&config.io) {
        return Ok(());
    }
    let whose_io = source("io");
    let instead: Vec<String> = valid.iter().map(|io| whose_io.advised("io", io)).collect();
    let suits = Concurrency::ALL
        .into_iter()
        .find(|other| valid_io(*other).contains(&config.io))
        .filter(|_| !whose.is_said())
        .map(|other| format!(", or add {}", whose_io.advised("concurrency", other)))
        .unwrap_or_default();
    Err(Contradiction {
        keys: ["io", "concurrency"],
        why: format!(
            "{named} cannot use {}: {}; use {} or leave it out{suits} (what goes together: {})",
            whose_io.quoted("io", config.io),
            waits(concurrency),
            instead.join(" or "),
            combinations()
        ),
    })
}

/// How workers of this kind wait, which decides how they can move bytes.
pub(crate) fn waits(concurrency: Concurrency) -> &'static str {
    match concurrency {
        Concurrency::Loops | Concurrency::ProcessLoops => "event loops wait for readiness",
        Concurrency::Loop => "an event loop waits for readiness",
        Concurrency::Pool => "the threads of a pool wait in the call itself",
        Concurrency::ThreadPerConnection => "each thread waits in the call itself",
        Concurrency::ThreadPerRequest => "a request's thread waits in the call itself",
        Concurrency::Processes => "each process waits in the call itself",
    }
}

/// The I/O strategies it can use, the best first.
pub(crate) fn valid_io(concurrency: Concurrency) -> Vec<IoKind> {
    let known = concurrency.to_string().parse::<runtime::strategy::Concurrency>();
    // Both have the same names, which a test holds them to.
    let io = known.into_iter().flat_map(|known| known.valid_io());
    io.filter_map(|io| io.to_string().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_strategy_has_some_io() {
        for concurrency in Concurrency::ALL {
            assert!(!valid_io(concurrency).is_empty(), "{concurrency}");
        }
    }

    #[test]
    fn a_bound_on_turns_needs_turns() {
        for concurrency in Concurrency::ALL {
            let config = Config {
                concurrency,
                max_turn: "5ms".parse().expect("a time"),
                ..Config::default()
            };
            let checked = check(&config, &|_| Source::Command);
            let waits = waits(concurrency).contains("for readiness");
            assert_eq!(checked.is_ok(), waits, "{concurrency}: {checked:?}");
            if let Err(contradiction) = checked {
                assert!(
                    contradiction.why.starts_with("`--max-turn 5ms` bounds"),
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
                "`--concurrency pool` cannot use `--io epoll`: the threads of a pool wait",
                "use `--io blocking` or leave it out (what",
            ),
            (
                Source::File,
                Source::File,
                "`concurrency = \"pool\"` cannot use `io = \"epoll\"`: ",
                "use `io = \"blocking\"` or leave it out (what",
            ),
            (
                Source::Preset(Preset::Jaws),
                Source::Command,
                "`concurrency = \"pool\"` of the preset jaws cannot use `--io epoll`: ",
                "use `--io blocking` or leave it out, or add `--concurrency loops` (what",
            ),
        ] {
            let why = said(concurrency, io);
            assert!(why.starts_with(beginning) && why.contains(end), "{why}");
        }
    }
}
