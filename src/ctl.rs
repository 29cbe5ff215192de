//! `weir ctl`: sends commands to a running server, through its control socket or its admin listener, and prints the answers.
//! Decides the output; `serve::control` defines the commands.

mod admin;

use crate::cli::ctl::{Command, Flags, OfCertificates, OfPurge, OfSite};
use crate::failure::Failure;
use crate::output::line;
use crate::serve::{Change, Wish};
use crate::voice::Voice;
use runtime::control;
use serde_json::Value;
use std::io::ErrorKind;
use std::path::Path;

/// Sends the command and prints the answer.
///
/// # Errors
/// `System` if the server does not answer; otherwise the server's own error.
pub(crate) fn run(flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    let wish = serde_json::to_string(&wish(&flags.what))
        .map_err(|error| Failure::System(format!("the command cannot be written: {error}")))?;
    let reply = match (&flags.admin, &flags.socket) {
        (Some(url), _) => admin::ask(url, &flags.access, &wish)?,
        (None, Some(socket)) => at_socket(socket, &wish)?,
        (None, None) => {
            return Err(Failure::Usage(
                "no server is named; name its control socket with --socket, or its admin listener with --admin"
                    .to_owned(),
            ));
        }
    };
    let answer: Value = serde_json::from_str(&reply).map_err(|error| {
        Failure::System(format!(
            "the server's answer is not valid JSON: {error}; use a `weir ctl` of the server's version"
        ))
    })?;
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
        line(&answer)?;
    } else if let Some(listeners) = answer["listeners"].as_array() {
        for listener in listeners {
            let text = |key: &str| listener[key].as_str().unwrap_or_default().to_owned();
            let open = match listener["open"].as_u64() {
                Some(open) => format!("; {open} connections open"),
                None => String::new(),
            };
            line(format_args!(
                "{}  {} with {}, {} workers{open}",
                text("address"),
                text("concurrency"),
                text("io"),
                listener["workers"],
            ))?;
        }
        if let Some(processes) = answer["processes"].as_u64() {
            line(format_args!(
                "{processes} worker processes, {} connections open in all",
                answer["open"]
            ))?;
        }
        if answer["retiring"] != 0 {
            line(format_args!(
                "{} connections of earlier strategies are still open",
                answer["retiring"]
            ))?;
        }
    } else if let Some(certificates) = answer["certificates"].as_array() {
        let trouble = answer["trouble"].as_str();
        if certificates.is_empty() && trouble.is_none() {
            line("no certificates are in use: no address speaks TLS")?;
        }
        for certificate in certificates {
            line(in_words(certificate))?;
        }
        if let Some(trouble) = trouble {
            line(format_args!("renewal fails: {trouble}"))?;
        }
        if let Some(revocation) = answer["revocation"].as_str() {
            line(format_args!("revocation: {revocation}"))?;
        }
    } else if let Some(sites) = answer["sites"].as_array() {
        if sites.is_empty() {
            line("no site has versions: set `versions` in place of `root`")?;
        }
        for site in sites {
            line(versions_of(site))?;
        }
    } else if let Some(now) = answer["now"].as_str() {
        line(format_args!("done: {now}"))?;
    } else {
        line("done")?;
    }
    Ok(())
}

/// Sends a command to the control socket, and returns the answer.
fn at_socket(socket: &Path, wish: &str) -> Result<String, Failure> {
    control::ask(socket, wish).map_err(|error| {
        let advice = match error.kind() {
            ErrorKind::NotFound => "name the file given to weir serve as --control",
            ErrorKind::PermissionDenied => "you need write permission on this file",
            ErrorKind::ConnectionRefused => "the server that created it has ended",
            _ => "the server did not answer",
        };
        Failure::System(format!("`{}`: {error}; {advice}", socket.display()))
    })
}

/// A site with its versions, a line each.
fn versions_of(site: &Value) -> String {
    let listed = |key: &str| {
        let list = site[key].as_array().into_iter().flatten();
        list.filter_map(Value::as_str)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let hosts = listed("hosts");
    let whose = match hosts.is_empty() {
        true => "the top level".to_owned(),
        false => hosts.join(", "),
    };
    let mut lines = vec![format!(
        "{whose}  {}",
        site["folder"].as_str().unwrap_or_default()
    )];
    for version in listed("versions") {
        lines.push(match Some(&*version) {
            name if name == site["current"].as_str() => format!("* {version}  current"),
            name if name == site["previous"].as_str() => format!("  {version}  previous"),
            _ => format!("  {version}"),
        });
    }
    if let Some(trouble) = site["trouble"].as_str() {
        lines.push(format!("  {trouble}"));
    }
    lines.join("\n")
}

/// A certificate in one line: its end, what to do, its names and its file.
fn in_words(certificate: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names: Vec<String> = certificate["names"]
        .as_array()
        .into_iter()
        .flatten()
        .map(text)
        .collect();
    let left = certificate["left-s"].as_i64().unwrap_or_default();
    let advice = match certificate["is-managed"].as_bool() {
        Some(true) => ", Weir renews it",
        _ => ", renew it",
    };
    let state = match (left, certificate["is-due"].as_bool()) {
        (..=0, _) => format!("expired{advice}"),
        (1..86_400, _) => format!("{} hours left{advice}", left / 3_600),
        (_, Some(true)) => format!("{} days left{advice}", left / 86_400),
        _ => format!("{} days left", left / 86_400),
    };
    format!(
        "{}  {state}  {}  {}",
        text(&certificate["expires"]),
        names.join(", "),
        text(&certificate["file"])
    )
}

/// The command as the control socket takes it.
fn wish(command: &Command) -> Wish {
    match command {
        Command::Status => Wish::Status,
        Command::Strategy {
            concurrency,
            io,
            workers,
            listener,
        } => Wish::Strategy(Change {
            concurrency: *concurrency,
            io: *io,
            workers: *workers,
            listener: listener.as_ref().map(ToString::to_string),
        }),
        Command::Certificates { what: None } => Wish::Certificates,
        Command::Certificates {
            what: Some(OfCertificates::Renew),
        } => Wish::Renew,
        Command::Certificates {
            what: Some(OfCertificates::Revoke { reason }),
        } => Wish::Revoke { reason: *reason },
        Command::Purge { what } => Wish::Purge {
            what: match what {
                OfPurge::All => "all".to_owned(),
                OfPurge::Path { path } => format!("path {path}"),
                OfPurge::Tag { tag } => format!("tag {tag}"),
            },
        },
        Command::Site { what: OfSite::List } => Wish::Sites,
        Command::Site {
            what: OfSite::Switch { name, host },
        } => Wish::SwitchSite {
            version: name.clone(),
            host: host.clone(),
        },
        Command::Site {
            what: OfSite::Rollback { host },
        } => Wish::RollBackSite { host: host.clone() },
        Command::Reload => Wish::Reload,
        Command::ReopenLogs => Wish::ReopenLogs,
        Command::Stop => Wish::Stop,
    }
}
