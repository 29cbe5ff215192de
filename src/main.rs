//! The `weir` binary: dispatches to a command and turns its outcome into an exit code. Knows which commands exist and
//! nothing else about them.

#![cfg_attr(
    not(feature = "measure"),
    allow(
        dead_code,
        reason = "a program that only serves leaves out what only other commands call"
    )
)]

mod adapt;
mod archive;
mod ask;
mod cache;
mod cli;
mod collector;
mod compare;
mod convert;
mod ctl;
mod demo;
mod failure;
mod fetch;
mod gate;
mod health;
mod lab;
mod link;
mod load;
mod manual;
mod model;
mod output;
mod plan;
mod profile;
mod record;
mod secure;
mod serve;
mod site;
mod study;
mod testbed;
mod tour;
mod trace;
mod tune;
mod visit;
mod voice;

use cli::{Command, Measure};
use std::process::ExitCode;
use voice::Voice;

fn main() -> ExitCode {
    let cli = cli::Cli::read();
    let voice = cli.voice;
    let outcome = match cli.command {
        Command::Serve(flags) => serve::run(&flags, &voice),
        Command::Ctl(flags) => ctl::run(&flags, &voice),
        Command::Health(flags) => health::run(&flags),
        #[cfg(feature = "measure")]
        Command::Measure(what) => return measure(what, &voice),
        Command::Completions(flags) => manual::complete(&flags),
        Command::Man(flags) => manual::write(&flags),
    };
    code(&voice, outcome.map(|()| ExitCode::SUCCESS))
}

fn measure(what: Measure, voice: &Voice) -> ExitCode {
    let outcome = match what {
        // The only commands that may exit with another program's code.
        Measure::Link(flags) => return code(voice, link::run(&flags, voice)),
        Measure::Visit(flags) => return code(voice, visit::run(&flags, voice)),
        Measure::Convert(flags) => convert::run(&flags, voice),
        Measure::Adapt { what } => adapt::run(&what, voice),
        Measure::Cache { what } => cache::run(&what, voice),
        Measure::Demo(flags) => tour::run(&flags, voice),
        Measure::Fetch(flags) => fetch::run(&flags, voice),
        Measure::Record(flags) => record::run(&flags, voice),
        Measure::Profile(flags) => profile::run(&flags, voice),
        Measure::Tune(flags) => tune::run(&flags, voice),
        Measure::Lab { what } => lab::run(&what, voice),
        Measure::Model(flags) => model::run(&flags, voice),
        Measure::Site { what } => site::run(&what, voice),
        Measure::Study(flags) => study::run(&flags, voice),
        Measure::Trace(flags) => trace::run(&flags, voice),
        Measure::Compare(flags) => compare::run(&flags, voice),
        Measure::Load(flags) => match &flags.what {
            Some(cli::load::Command::Plan(plan)) => plan::run(plan, voice),
            Some(cli::load::Command::Fit(fit)) => load::fit(fit, voice),
            Some(cli::load::Command::Merge(merge)) => load::merge(merge, voice),
            None => load::run(&flags.run, voice),
        },
    };
    code(voice, outcome.map(|()| ExitCode::SUCCESS))
}

/// The exit code of an outcome; reports a failure.
fn code(voice: &Voice, outcome: Result<ExitCode, failure::Failure>) -> ExitCode {
    outcome.unwrap_or_else(|failure| {
        voice.failure(&failure);
        failure.exit_code()
    })
}
