//! `weir ctl`: sends commands to a running server through its control socket and prints the answers. Decides the
//! output; `serve::control` defines the commands.

use super::offered::{IO, THREADS, offered};
use super::{Failure, Voice, output};
use crate::serve::{Change, Wish};
use clap::{Args, Subcommand};
use runtime::control;
use serde_json::Value;
use server::config::{Concurrency, IoKind, Workers};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  weir serve ./public --control /run/weir.sock
  weir ctl --socket /run/weir.sock status
  weir ctl --socket /run/weir.sock strategy pool --workers 64
  weir ctl --socket /run/weir.sock strategy loops --io uring --listener 127.0.0.1:8080

Users with write permission on the socket's file may send commands: its owner only,
until chmod or chgrp admit others.";

/// Flags of `weir ctl`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// Control socket of the server: the file given to weir serve as --control
    #[arg(long, short, value_name = "FILE", env = "WEIR_CONTROL")]
    socket: PathBuf,

    /// Command for the server
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Shows the strategy and the open connections of each address
    Status,
    /// Switches new connections to another strategy; open connections get one more response from the old strategy
    Strategy {
        /// How connections map to workers: loops, loop, pool, thread-per-connection, thread-per-request. Switching to
        /// or from worker processes needs a restart; the response lists the steps
        #[arg(value_parser = offered::<Concurrency>(THREADS), hide_possible_values = true)]
        concurrency: Concurrency,
        /// I/O back end: auto, epoll, uring, blocking
        #[arg(long, value_name = "STRATEGY", default_value_t, value_parser = offered::<IoKind>(IO), hide_possible_values = true)]
        io: IoKind,
        /// Number of worker threads; auto: depends on the strategy
        #[arg(long, value_name = "N", default_value_t)]
        workers: Workers,
        /// Address to switch [default: all]
        #[arg(long, value_name = "ADDR:PORT")]
        listener: Option<SocketAddr>,
    },
    /// Reloads the configuration, as SIGHUP does
    Reload,
    /// Reopens the access log, as SIGUSR1 does
    ReopenLogs,
    /// Stops gracefully: finishes responses, then exits, as SIGTERM does
    Stop,
}

impl What {
    fn wish(&self) -> Wish {
        match self {
            What::Status => Wish::Status,
            What::Strategy {
                concurrency,
                io,
                workers,
                listener,
            } => Wish::Strategy(Change {
                concurrency: *concurrency,
                io: *io,
                workers: *workers,
                listener: *listener,
            }),
            What::Reload => Wish::Reload,
            What::ReopenLogs => Wish::ReopenLogs,
            What::Stop => Wish::Stop,
        }
    }
}

/// Sends the command and prints the answer.
///
/// # Errors
/// `System` if the server does not answer; otherwise the server's own error.
pub(crate) fn run(flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    let unanswered = |why: &str| Failure::System(format!("`{}`: {why}", flags.socket.display()));
    let wish = serde_json::to_string(&flags.what.wish()).map_err(|error| unanswered(&error.to_string()))?;
    let line = control::ask(&flags.socket, &wish).map_err(|error| {
        let advice = match error.kind() {
            ErrorKind::NotFound => "name the file given to weir serve as --control",
            ErrorKind::PermissionDenied => "you need write permission on this file",
            ErrorKind::ConnectionRefused => "the server that created it has ended",
            _ => "the server did not answer",
        };
        unanswered(&format!("{error}; {advice}"))
    })?;
    let answer: Value = serde_json::from_str(&line)
        .map_err(|error| unanswered(&format!("the answer is not valid JSON: {error}")))?;
    if answer["ok"] != true {
        let why = answer["error"]
            .as_str()
            .unwrap_or("the server refused the command")
            .to_owned();
        return Err(match answer["kind"].as_str() {
            Some("usage") => Failure::Usage(why),
            _ => Failure::System(why),
        });
    }
    if voice.json {
        output::line(&answer)?;
    } else if let Some(listeners) = answer["listeners"].as_array() {
        for listener in listeners {
            let text = |key: &str| listener[key].as_str().unwrap_or_default().to_owned();
            let open = match listener["open"].as_u64() {
                Some(open) => format!("; {open} connections open"),
                None => String::new(),
            };
            output::line(format_args!(
                "{}  {} with {}, {} workers{open}",
                text("address"),
                text("concurrency"),
                text("io"),
                listener["workers"],
            ))?;
        }
        if let Some(processes) = answer["processes"].as_u64() {
            output::line(format_args!(
                "{processes} worker processes, {} connections open in all",
                answer["open"]
            ))?;
        }
        if answer["retiring"] != 0 {
            output::line(format_args!(
                "{} connections of earlier strategies are still open",
                answer["retiring"]
            ))?;
        }
    } else if let Some(now) = answer["now"].as_str() {
        output::line(format_args!("done: {now}"))?;
    } else {
        output::line("done")?;
    }
    Ok(())
}
