//! `weir adapt replay`: the controllers of a server over a recording, which decide now as they would have then.

use crate::cli::adapt::{Command, Replay};
use crate::cli::{Failure, Voice};
use server::adapt::{Adaptor, Window};
use server::config::Config;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Bytes of a line at the most.
const LINE_MAX: u64 = 64 * 1024;

/// Runs the command to its end.
///
/// # Errors
/// `Usage` for what is no recording, naming the line; `System` for what cannot be read.
pub(crate) fn run(what: &Command, voice: &Voice) -> Result<(), Failure> {
    let Command::Replay(flags) = what;
    let idle = flags.idle_timeout.unwrap_or(Config::default().idle_timeout);
    let mut adaptor = Adaptor::of_all(idle);
    let mut windows = 0u64;
    let mut count = 0u64;
    for_each_window(flags, |window| {
        windows += 1;
        for decision in adaptor.look(window) {
            count += 1;
            let at = window.at_ms as f64 / 1000.0;
            if voice.json {
                println!(
                    "{}",
                    serde_json::json!({ "at-ms": window.at_ms, "decision": decision })
                );
            } else {
                println!(
                    "{at:>9.1} s  {} from {} to {}\n             {}",
                    decision.knob.name(),
                    decision.from,
                    decision.to,
                    decision.why
                );
            }
        }
    })?;
    if voice.json {
        println!(
            "{}",
            serde_json::json!({ "windows": windows, "decisions": count })
        );
    } else {
        println!("{count} decisions in {windows} windows");
    }
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "a command reads the file it is given")]
fn for_each_window(flags: &Replay, mut act: impl FnMut(&Window)) -> Result<(), Failure> {
    let name = flags.recording.display().to_string();
    let unreadable = |error: io::Error| Failure::System(format!("`{name}`: {error}"));
    let input: Box<dyn Read> = match flags.recording.as_path() {
        path if path == Path::new("-") => Box::new(io::stdin()),
        path => Box::new(File::open(path).map_err(unreadable)?),
    };
    let mut input = BufReader::new(input);
    let mut line = String::new();
    for number in 1u64.. {
        line.clear();
        let read = (&mut input)
            .take(LINE_MAX)
            .read_line(&mut line)
            .map_err(unreadable)?;
        if read == 0 {
            return Ok(());
        }
        // The last line of a server that was killed may be half a line.
        if !line.ends_with('\n') && (read as u64) < LINE_MAX {
            return Ok(());
        }
        let window: Window = serde_json::from_str(&line).map_err(|error| {
            Failure::Usage(format!(
                "`{name}` line {number}: {error}; give what `weir serve --record` wrote"
            ))
        })?;
        act(&window);
    }
    Ok(())
}
