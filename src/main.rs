//! The one binary: dispatches to a command and turns its outcome into an exit code. It knows what
//! commands there are and nothing about any of them.

mod cache;
mod cli;
mod demo;
mod fetch;
mod load;
mod model;
mod plan;
mod serve;
mod site;

use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = cli::Cli::read();
    let voice = cli.voice;
    let outcome = match cli.command {
        cli::Command::Serve(flags) => serve::run(&flags, &voice),
        cli::Command::Ctl(flags) => cli::ctl::run(&flags, &voice),
        cli::Command::Cache { what } => cache::run(&what, &voice),
        cli::Command::Fetch(flags) => fetch::run(&flags, &voice),
        cli::Command::Completions(flags) => cli::manual::complete(&flags),
        cli::Command::Man(flags) => cli::manual::write(&flags),
        cli::Command::Model(flags) => model::run(&flags, &voice),
        cli::Command::Site { what } => site::run(&what, &voice),
        cli::Command::Load(flags) => match &flags.what {
            Some(cli::load::Command::Plan(plan)) => plan::run(plan, &voice),
            None => load::run(&flags.run, &voice),
        },
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            voice.failure(&failure);
            failure.exit_code()
        }
    }
}
