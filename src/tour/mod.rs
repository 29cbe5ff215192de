//! `weir demo`: a site, a server, users and a memory squeeze on this machine, for a bounded time, and nothing left
//! behind. Starts this binary three times; knows nothing of what it does inside.

mod squeeze;

use crate::cli::demo::Flags;
use crate::cli::{Failure, Voice};
use measure::{Duration, Instant};
use runtime::clock;
use runtime::signal::{Signal, Signals};
use squeeze::Group;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// How much longer than its duration the load may take before it is ended.
const GRACE: Duration = Duration::from_secs(15);
/// How often is looked.
const EVERY: Duration = Duration::from_millis(200);

/// Runs the command to its end.
///
/// # Errors
/// `Failed` if the users could not be served, `System` if something cannot be made or started.
pub(crate) fn run(flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    voice.listen();
    let mut signals =
        Signals::take_over().map_err(|error| Failure::System(format!("cannot take signals: {error}")))?;
    let weir = std::env::current_exe()
        .map_err(|error| Failure::System(format!("cannot find this program: {error}")))?;
    let folder = Folder(std::env::temp_dir().join(format!("weir-demo-{}", std::process::id())));
    let site = folder.0.join("site");
    let group = Group::make();
    let within = || match &group {
        Ok(group) => group.command(&weir),
        Err(_) => Command::new(&weir),
    };
    let mut made = start(
        within()
            .args(["site", "surge", "-q"])
            .arg(&site)
            .stdout(Stdio::null()),
    )?;
    await_end(&mut made, &mut signals, Duration::from_secs(60))?;
    let mut server = start(
        within()
            .arg("serve")
            .arg(&site)
            .args(["--listen", &flags.listen, "--live", "--json"])
            .stdout(Stdio::piped()),
    )?;
    let url = address(&mut server)?;
    say(voice, &format!("live page: {url}.weir/"), "started", &url)?;
    if let Err(why) = &group {
        say(voice, &format!("no memory squeeze: {why}"), "no-squeeze", why)?;
    }
    let (users, seconds) = (
        flags.users.to_string(),
        format!("{}ms", flags.duration.as_millis()),
    );
    let mut load = start(
        Command::new(&weir)
            .args(["load", &url, "--site"])
            .arg(&site)
            .args(["--users", &users, "--duration", &seconds, "--mode", "pipelined"])
            .args(["--stagger", "10ms", "--lag-max", "1s"])
            .args(voice.json.then_some("--json")),
    )?;
    let began = clock::now();
    let mut is_squeezed = group.is_err();
    loop {
        let is_over = match load.0.try_wait() {
            Ok(Some(status)) => Some(status.code()),
            _ => None,
        };
        if let Some(code) = is_over {
            // What a run says of itself under a squeeze is part of the show; only a refusal is a failure.
            return match code {
                Some(0 | 3) => Ok(()),
                _ => Err(Failure::Failed("the users could not be served".to_owned())),
            };
        }
        let signal = signals
            .wait(Some(EVERY))
            .map_err(|error| Failure::System(format!("cannot wait: {error}")))?;
        let passed = clock::now().since(began);
        if signal == Some(Signal::Stop) || passed > flags.duration + GRACE {
            return Ok(());
        }
        if !is_squeezed && passed >= flags.squeeze {
            is_squeezed = true;
            let text = match group.as_ref().map(Group::squeeze) {
                Ok(Ok((before, after))) => {
                    format!("memory squeezed: {before} MiB are in use, {after} MiB are allowed")
                }
                Ok(Err(why)) => format!("no memory squeeze: {why}"),
                Err(why) => format!("no memory squeeze: {why}"),
            };
            say(voice, &text, "squeeze", &text)?;
        }
    }
}

/// A child that does not outlive this process's interest in it.
struct Ours(Child);

impl Drop for Ours {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder that is gone when dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all::<&Path>(&self.0);
    }
}

fn start(command: &mut Command) -> Result<Ours, Failure> {
    command
        .stdin(Stdio::null())
        .spawn()
        .map(Ours)
        .map_err(|error| Failure::System(format!("cannot start this program again: {error}")))
}

fn await_end(child: &mut Ours, signals: &mut Signals, at_most: Duration) -> Result<(), Failure> {
    let began: Instant = clock::now();
    loop {
        match child.0.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(_)) => return Err(Failure::System("the site could not be written".to_owned())),
            _ => {}
        }
        let signal = signals
            .wait(Some(EVERY))
            .map_err(|error| Failure::System(format!("cannot wait: {error}")))?;
        if signal == Some(Signal::Stop) || clock::now().since(began) > at_most {
            return Err(Failure::System("the site was not written in time".to_owned()));
        }
    }
}

/// Where the server listens; what else it prints is read and dropped, so that it can go on.
fn address(server: &mut Ours) -> Result<String, Failure> {
    let refused = || Failure::System("the server did not start".to_owned());
    let mut output = BufReader::new(server.0.stdout.take().ok_or_else(refused)?);
    let mut line = String::new();
    output.read_line(&mut line).map_err(|_| refused())?;
    let started: serde_json::Value = serde_json::from_str(&line).map_err(|_| refused())?;
    let address = started["listeners"][0]["address"].as_str().ok_or_else(refused)?;
    let url = format!("http://{address}/");
    let drop_rest = move || {
        let _ = std::io::copy(&mut output, &mut std::io::sink());
    };
    std::thread::Builder::new()
        .spawn(drop_rest)
        .map_err(|error| Failure::System(format!("cannot start a thread: {error}")))?;
    Ok(url)
}

fn say(voice: &Voice, text: &str, event: &str, what: &str) -> Result<(), Failure> {
    let line = if voice.json {
        format!("{}\n", serde_json::json!({ "event": event, "what": what }))
    } else if voice.reports() {
        format!("{text}\n")
    } else {
        String::new()
    };
    let mut out = std::io::stdout();
    match out.write_all(line.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::System(format!("cannot write: {error}")))
        }
        _ => Ok(()),
    }
}
