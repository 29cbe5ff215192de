//! Log level, color and output format of all commands. Decides form only; commands decide the content.

use crate::failure::Failure;
use clap::Args;
use runtime::diagnostics::Diagnostics;
use runtime::log_socket::Severity;
use std::io::{IsTerminal, Write};
use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// The flags every command has.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Voice {
    /// Logs only errors and warnings; given twice, only errors
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "verbose")]
    quiet: u8,

    /// Logs more; given twice, everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,

    /// Prints reports to standard output as JSON, one object per line; logs in JSON, too
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// Writes messages with the severity of their level.
struct ByLevel;

impl MakeWriter<'_> for ByLevel {
    type Writer = Diagnostics;

    fn make_writer(&self) -> Diagnostics {
        Diagnostics::of(Severity::default())
    }

    fn make_writer_for(&self, metadata: &Metadata<'_>) -> Diagnostics {
        Diagnostics::of(match *metadata.level() {
            Level::ERROR => Severity::Error,
            Level::WARN => Severity::Warning,
            Level::INFO => Severity::Informational,
            Level::DEBUG | Level::TRACE => Severity::Debug,
        })
    }
}

impl Voice {
    /// One that logs errors only.
    #[cfg(test)]
    pub(crate) fn silent() -> Voice {
        Voice {
            quiet: 2,
            verbose: 0,
            json: false,
        }
    }

    /// Whether to print unrequested reports, such as the start report.
    pub(crate) fn reports(&self) -> bool {
        self.quiet == 0
    }

    /// Whether to print details that a report leaves out.
    pub(crate) fn is_detailed(&self) -> bool {
        self.verbose > 0
    }

    /// Whether to color standard error: it is a terminal, and neither `NO_COLOR` (<https://no-color.org>) nor `--json`
    /// is set.
    pub(crate) fn color(&self) -> bool {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        std::io::stderr().is_terminal() && !refused && !self.json
    }

    /// Starts logging to standard error.
    pub(crate) fn listen(&self) {
        let level = match (self.quiet, self.verbose) {
            (0, 0) => LevelFilter::INFO,
            (1, _) => LevelFilter::WARN,
            (_, 0) => LevelFilter::ERROR,
            (_, 1) => LevelFilter::DEBUG,
            (_, _) => LevelFilter::TRACE,
        };
        let builder = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_writer(ByLevel)
            // Errors of writing the log would go to the log.
            .log_internal_errors(false)
            .with_ansi(self.color())
            .with_target(self.verbose > 0);
        // A second call keeps the first subscriber, which has the same settings.
        let _ = if self.json {
            builder.json().flatten_event(true).try_init()
        } else {
            builder.try_init()
        };
    }

    /// Prints why a command failed: to standard error, and with `--json` to standard output too.
    pub(crate) fn failure(&self, failure: &Failure) {
        if self.json {
            let line = serde_json::json!({
                "event": "failed",
                "kind": failure.kind(),
                "error": failure.to_string(),
            });
            // Standard output may be closed; the exit code still tells.
            let _ = writeln!(std::io::stdout(), "{line}");
        }
        let (bold, plain) = if self.color() {
            ("\u{1b}[1;31m", "\u{1b}[0m")
        } else {
            ("", "")
        };
        let _ = writeln!(std::io::stderr(), "{bold}error:{plain} {failure}");
    }
}
