//! `weir adapt replay`: the controllers of a server over a recording, which decide now as they would have then.
//! Decides what a recording may look like; what is decided says `server::adapt`.

use crate::cli::adapt::{Command, Replay};
use crate::cli::output::print;
use crate::cli::{Failure, Voice};
use measure::Duration;
use serde_json::json;
use server::adapt::{Adaptor, Decision, Knob, Line, Start, Window};
use server::config::Config;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

/// Bytes of a line at the most.
const LINE_MAX: u64 = 64 * 1024;

/// Runs the command to its end.
///
/// # Errors
/// `Usage` for what is no recording, naming the line; `System` for what cannot be read or written.
pub(crate) fn run(what: &Command, voice: &Voice) -> Result<(), Failure> {
    voice.listen();
    let Command::Replay(flags) = what;
    let mut tally = Tally::new(flags, *voice);
    for_each_line(flags, |line| tally.take(line))?;
    tally.end()
}

/// What the recording has shown so far.
struct Tally<'a> {
    flags: &'a Replay,
    voice: Voice,
    adaptor: Adaptor,
    /// The end of the last window since a server started.
    at_ms: u64,
    starts: u64,
    windows: u64,
    decisions: u64,
    recorded: u64,
}

impl Tally<'_> {
    fn new(flags: &Replay, voice: Voice) -> Tally<'_> {
        let idle = flags.idle_timeout.unwrap_or(Config::default().idle_timeout);
        Tally {
            flags,
            voice,
            // Until a line says what was free.
            adaptor: Adaptor::of(&Knob::ALL, idle),
            at_ms: 0,
            starts: 0,
            windows: 0,
            decisions: 0,
            recorded: 0,
        }
    }

    fn take(&mut self, line: Line) -> Result<(), Fault> {
        match line {
            Line::Start(start) => self.start(&start),
            Line::Window(window) => self.look(&window),
            Line::Decided(_) => {
                self.recorded += 1;
                Ok(())
            }
        }
    }

    fn start(&mut self, start: &Start) -> Result<(), Fault> {
        let recorded = start.idle().map_err(Fault::Line)?;
        let mut free = match self.flags.all {
            true => Knob::ALL.to_vec(),
            false => start.free.clone(),
        };
        let idle: Duration = self.flags.idle_timeout.unwrap_or(recorded);
        // Who names another time asks what would have become of it.
        if self.flags.idle_timeout.is_some() && !free.contains(&Knob::KeepAlive) {
            free.push(Knob::KeepAlive);
        }
        self.adaptor = Adaptor::of(&free, idle);
        (self.at_ms, self.starts) = (0, self.starts + 1);
        if self.voice.json || !self.voice.reports() {
            return Ok(());
        }
        let names: Vec<&str> = free.iter().map(|knob| knob.name()).collect();
        let names = match names.is_empty() {
            true => "nothing, as all of it was set".to_owned(),
            false => names.join(", "),
        };
        let text = format!(
            "weir {}, {}, --adapt {}, idle {}: free to decide {names}\n",
            start.weir, start.concurrency, start.adapt, start.idle_timeout
        );
        print(&text).map_err(Fault::Output)
    }

    fn look(&mut self, window: &Window) -> Result<(), Fault> {
        if window.at_ms < self.at_ms {
            return Err(Fault::Line(format!(
                "{} ms comes after {} ms: lines must stand as they were written",
                window.at_ms, self.at_ms
            )));
        }
        self.at_ms = window.at_ms;
        self.windows += 1;
        for decision in self.adaptor.look(window) {
            self.decisions += 1;
            print(&self.shown(window, &decision)).map_err(Fault::Output)?;
        }
        Ok(())
    }

    fn shown(&self, window: &Window, decision: &Decision) -> String {
        if self.voice.json {
            return format!("{}\n", json!({ "at-ms": window.at_ms, "decision": decision }));
        }
        format!(
            "{:>9.1} s  {} from {} to {}\n             {}\n",
            window.at_ms as f64 / 1000.0,
            decision.knob.name(),
            decision.from,
            decision.to,
            decision.why
        )
    }

    fn end(&self) -> Result<(), Failure> {
        // A recording of before says neither who recorded nor what was decided.
        let recorded = (self.starts > 0).then_some(self.recorded);
        if self.voice.json {
            let end = json!({ "windows": self.windows, "decisions": self.decisions, "recorded": recorded });
            return print(&format!("{end}\n"));
        }
        let then = match recorded {
            Some(count) => format!("; {count} were made then"),
            None => "; who recorded is not said, so nothing is taken to have been set".to_owned(),
        };
        print(&format!(
            "{} decisions in {} windows{then}\n",
            self.decisions, self.windows
        ))
    }
}

/// Why it does not go on.
enum Fault {
    /// The line is none of a recording.
    Line(String),
    Output(Failure),
}

#[allow(clippy::disallowed_methods, reason = "a command reads the file it is given")]
fn for_each_line(flags: &Replay, mut act: impl FnMut(Line) -> Result<(), Fault>) -> Result<(), Failure> {
    let name = flags.recording.display().to_string();
    let unreadable = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => Failure::Usage(format!("there is no recording `{name}`")),
        _ => Failure::System(format!("`{name}`: {error}")),
    };
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
            tracing::warn!("`{name}` line {number} has no end, and is left out");
            return Ok(());
        }
        match Line::parse(&line).map_err(Fault::Line).and_then(&mut act) {
            Ok(()) => {}
            Err(Fault::Output(failure)) => return Err(failure),
            Err(Fault::Line(why)) => {
                return Err(Failure::Usage(format!(
                    "`{name}` line {number}: {why}; give what `weir serve --record` wrote"
                )));
            }
        }
    }
    Ok(())
}
