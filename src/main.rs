//! The `weir` binary: dispatches to a command and turns its outcome into an exit code. Knows which commands exist and
//! nothing else about them.

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

use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = cli::Cli::read();
    let voice = cli.voice;
    let outcome = match cli.command {
        cli::Command::Serve(flags) => serve::run(&flags, &voice),
        cli::Command::Ctl(flags) => ctl::run(&flags, &voice),
        cli::Command::Adapt { what } => adapt::run(&what, &voice),
        // The only commands that may exit with another program's code.
        cli::Command::Link(flags) => return code(&voice, link::run(&flags, &voice)),
        cli::Command::Visit(flags) => return code(&voice, visit::run(&flags, &voice)),
        cli::Command::Cache { what } => cache::run(&what, &voice),
        cli::Command::Demo(flags) => tour::run(&flags, &voice),
        cli::Command::Fetch(flags) => fetch::run(&flags, &voice),
        cli::Command::Record(flags) => record::run(&flags, &voice),
        cli::Command::Completions(flags) => manual::complete(&flags),
        cli::Command::Man(flags) => manual::write(&flags),
        cli::Command::Profile(flags) => profile::run(&flags, &voice),
        cli::Command::Tune(flags) => tune::run(&flags, &voice),
        cli::Command::Lab { what } => lab::run(&what, &voice),
        cli::Command::Model(flags) => model::run(&flags, &voice),
        cli::Command::Site { what } => site::run(&what, &voice),
        cli::Command::Study(flags) => study::run(&flags, &voice),
        cli::Command::Trace(flags) => trace::run(&flags, &voice),
        cli::Command::Convert(flags) => convert::run(&flags, &voice),
        cli::Command::Compare(flags) => compare::run(&flags, &voice),
        cli::Command::Load(flags) => match &flags.what {
            Some(cli::load::Command::Plan(plan)) => plan::run(plan, &voice),
            Some(cli::load::Command::Fit(fit)) => load::fit(fit, &voice),
            Some(cli::load::Command::Merge(merge)) => load::merge(merge, &voice),
            None => load::run(&flags.run, &voice),
        },
    };
    code(&voice, outcome.map(|()| ExitCode::SUCCESS))
}

/// The exit code of an outcome; reports a failure.
fn code(voice: &voice::Voice, outcome: Result<ExitCode, failure::Failure>) -> ExitCode {
    outcome.unwrap_or_else(|failure| {
        voice.failure(&failure);
        failure.exit_code()
    })
}
