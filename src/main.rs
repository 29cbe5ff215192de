//! The one binary: dispatches to a command and turns its outcome into an exit code. It knows what
//! commands there are and nothing about any of them.

mod cli;
mod demo;
mod load;
mod plan;
mod serve;
mod site;

use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = cli::Cli::read();
    let voice = cli.voice;
    let outcome = match cli.command {
        cli::Command::Serve(flags) => serve::run(&flags, &voice),
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
