//! What can be typed: every flag declared once, a file per command. Decides spelling, help and exit
//! codes; does nothing but say what there is.

pub(crate) mod adapt;
mod behavior;
pub(crate) mod cache;
pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod ctl;
pub(crate) mod demo;
mod environment;
mod equals;
pub(crate) mod fetch;
pub(crate) mod health;
mod https;
pub(crate) mod lab;
mod limits;
pub(crate) mod link;
pub(crate) mod load;
pub(crate) mod manual;
pub(crate) mod model;
pub(crate) mod objective;
mod offered;
pub(crate) mod otel;
mod otlp;
pub(crate) mod profile;
pub(crate) mod record;
pub(crate) mod requirement;
pub(crate) mod serve;
mod share;
pub(crate) mod site;
pub(crate) mod study;
pub(crate) mod summary;
pub(crate) mod target;
mod tilde;
pub(crate) mod together;
pub(crate) mod trace;
pub(crate) mod tune;
pub(crate) mod visit;

use crate::voice::Voice;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::path::Path;

/// Serves files over HTTP, reports its decisions and their reasons, and measures servers and networks.
#[derive(Debug, Parser)]
#[command(
    name = "weir",
    version,
    propagate_version = true,
    arg_required_else_help = true
)]
#[cfg_attr(
    not(feature = "measure"),
    command(
        about = "Serves files over HTTP, and reports its decisions and their reasons",
        after_help = "This program was built to serve only. The feature `measure` adds convert, load, fetch, link, trace and others."
    )
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) voice: Voice,

    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Reads the command line; ends the process for `--help`, `--version` and what cannot be read.
    pub(crate) fn read() -> Cli {
        let mut declaration = Cli::declaration();
        let arguments: Vec<OsString> = std::env::args_os().collect();
        let matches = declaration.try_get_matches_from_mut(&arguments);
        let matches = matches.unwrap_or_else(|error| {
            let error = environment::blame(error, &mut declaration);
            let error = explain_absence(error);
            equals::explain(error, &declaration, arguments.get(1..).unwrap_or_default()).exit()
        });
        Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }

    /// The value of a flag, if this directory that was to be served is one, as in `--live local`.
    pub(crate) fn advice_on_root(root: &Path) -> Option<String> {
        let mut declaration = Cli::declaration();
        declaration.build();
        let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
        let stray = equals::Stray::find(&declaration, &arguments)?;
        stray.is(root.as_os_str()).then(|| stray.advice())
    }

    /// Points out variables that nearly are those of a flag.
    pub(crate) fn warn_of_misspelt_variables() {
        let declaration = Cli::command();
        let known: Vec<&str> = declaration
            .get_subcommands()
            .flat_map(clap::Command::get_arguments)
            .filter_map(|flag| flag.get_env()?.to_str())
            .collect();
        let set = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        for (name, meant) in environment::misspelt(set, &known) {
            tracing::warn!("the variable {name} means nothing here; did you mean {meant}?");
        }
    }

    /// The declaration, without what every flag would repeat: how its variable is called, which one
    /// sentence of the help says.
    pub(crate) fn declaration() -> clap::Command {
        Cli::command().mut_subcommand("serve", |serve| serve.mut_args(|flag| flag.hide_env(true)))
    }
}

/// Tells of a command that this build does not have.
fn explain_absence(mut error: clap::Error) -> clap::Error {
    let absent = || match error.get(ContextKind::InvalidSubcommand)? {
        ContextValue::String(name) => Measure::has_subcommand(name).then(|| name.clone()),
        _ => None,
    };
    if !cfg!(feature = "measure")
        && let Some(name) = absent()
    {
        let why = format!("this program only serves; for `{name}`, install Weir with the feature `measure`");
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![StyledStr::from(why)]),
        );
    }
    error
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serves a directory over HTTP; without one, the site embedded in this program
    Serve(Box<serve::Flags>),

    /// Queries or controls a running server
    Ctl(ctl::Flags),

    /// Requests a URL once, and exits with 0 if the response says that the server is healthy
    Health(health::Flags),

    #[cfg(feature = "measure")]
    #[command(flatten)]
    Measure(Measure),

    /// Prints a completion script for a shell
    Completions(manual::Completions),

    /// Writes the manual pages, one for each command
    Man(manual::Man),
}

/// The commands of the feature `measure`.
#[derive(Debug, Subcommand)]
pub(crate) enum Measure {
    /// Converts a configuration of nginx, Caddy or Apache, and lists what it could not carry over
    Convert(convert::Flags),

    /// Fetches a page and everything it embeds, as a browser would, and reports where the time went
    Fetch(Box<fetch::Flags>),

    /// Visits a page with a real Chromium, and explains each object's time by the packets of an emulated link
    Visit(Box<visit::Flags>),

    /// Records a page with everything it embeds, for `weir serve --replay`
    Record(Box<record::Flags>),

    /// Loads a server with users, clients or an arrival rate, and reports the response times
    Load(Box<load::Flags>),

    /// Compares the results of two loads: the differences, their confidence, and whether the second is worse
    Compare(compare::Flags),

    /// Runs a command behind an emulated link: a preset (lan, wan, ppp, ...) or your own settings
    Link(Box<link::Flags>),

    /// Reads or makes a packet capture, and reports packets, requests and causes of lost time
    Trace(Box<trace::Flags>),

    /// Profiles any running server: the tasks that take its time
    Profile(Box<profile::Flags>),

    /// Measures which strategy, workers, sendfile threshold and send buffers are fastest on this machine
    Tune(tune::Flags),

    /// Shows the decisions of the server's controllers on a recording
    #[command(arg_required_else_help = true)]
    Adapt {
        /// What to do
        #[command(subcommand)]
        what: adapt::Command,
    },

    /// Compares cache policies on an access log
    #[command(arg_required_else_help = true)]
    Cache {
        /// What to do
        #[command(subcommand)]
        what: cache::Command,
    },

    /// Predicts times, bandwidth and numbers of servers from formulas, with bounds and derivation
    Model(Box<model::Flags>),

    /// Generates the files of a workload, with a manifest
    #[command(arg_required_else_help = true)]
    Site {
        /// Which site
        #[command(subcommand)]
        what: site::Command,
    },

    /// Checks what this machine supports, simulates documents 000 to 003, and helps with measurements
    #[command(arg_required_else_help = true)]
    Lab {
        /// What to do
        #[command(subcommand)]
        what: lab::Command,
    },

    /// Reproduces a document: runs its plan, judges its claims, writes a report
    Study(study::Flags),

    /// Demonstrates Weir on this machine: a site, a server, users, memory pressure; ends by itself
    Demo(demo::Flags),
}

#[cfg(test)]
mod tests {
    use super::Cli;

    #[test]
    fn the_declaration_is_sound() {
        Cli::declaration().debug_assert();
    }

    #[test]
    fn every_flag_says_what_it_does() {
        for command in Cli::declaration().get_subcommands() {
            for flag in command.get_arguments() {
                assert!(
                    flag.get_help().is_some(),
                    "{} {}",
                    command.get_name(),
                    flag.get_id()
                );
            }
        }
    }
}
