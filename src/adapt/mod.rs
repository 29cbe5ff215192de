//! `weir adapt replay`: runs the server's controllers over a recording and compares their decisions with the recorded
//! ones. Decides what a valid recording is; the decisions are made by `server::adapt`.

use crate::cli::adapt::{Command, Replay};
use crate::failure::Failure;
use crate::output::print;
use crate::voice::Voice;
use serde_json::json;
use server::adapt::{Adaptor, Decided, Decision, Knob, Line, Start, Window};
use server::config::{Config, show_duration};
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;
use units::Duration;

/// Largest line, in bytes.
const LINE_MAX: u64 = 64 * 1024;
/// Beginning of the line that records a server start.
const START: &str = "{\"recording\":";

/// Runs the command to its end.
///
/// # Errors
/// `Usage` for an invalid recording, naming the line; `Failed` if the recorded decisions are not reproduced; `System` if
/// the recording cannot be read or the output written.
pub(crate) fn run(what: &Command, voice: &Voice) -> Result<(), Failure> {
    voice.listen();
    let Command::Replay(flags) = what;
    let mut tally = Tally::new(flags, *voice);
    read_all(flags, &mut tally)?;
    tally.end()
}

/// State of the replay.
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
    /// Decisions after the last window that the recording has not confirmed yet.
    unmatched: Vec<Decision>,
    /// Decisions that only the replay or only the recording has.
    differences: u64,
}

impl Tally<'_> {
    fn new(flags: &Replay, voice: Voice) -> Tally<'_> {
        let idle = flags.idle_timeout.unwrap_or(Config::default().idle_timeout);
        Tally {
            flags,
            voice,
            // Until a start line names the automatic settings.
            adaptor: Adaptor::of(&Knob::ALL, idle),
            at_ms: 0,
            starts: 0,
            windows: 0,
            decisions: 0,
            recorded: 0,
            unmatched: Vec::new(),
            differences: 0,
        }
    }

    /// Whether the replay must reproduce the recorded decisions: only with the recorded settings.
    fn is_held_to_then(&self) -> bool {
        self.starts > 0 && !self.flags.all && self.flags.idle_timeout.is_none()
    }

    fn take(&mut self, line: Line) -> Result<(), Fault> {
        match line {
            Line::Start(start) => self.start(&start),
            Line::Window(window) => self.look(&window),
            Line::Decided(decided) => self.compare(&decided),
        }
    }

    fn start(&mut self, start: &Start) -> Result<(), Fault> {
        let recorded = start.idle().map_err(Fault::Line)?;
        let mut free = match self.flags.all {
            true => Knob::ALL.to_vec(),
            false => start.free.clone(),
        };
        let idle: Duration = self.flags.idle_timeout.unwrap_or(recorded);
        // A given idle timeout asks for the decisions about it, so it is automatic.
        if self.flags.idle_timeout.is_some() && !free.contains(&Knob::IdleTimeout) {
            free.push(Knob::IdleTimeout);
        }
        match start.at_ms {
            Some(_) => {
                self.settle()?;
                self.adaptor.go_on(&free, idle);
            }
            None => {
                self.forget();
                self.adaptor = Adaptor::of(&free, idle);
                (self.at_ms, self.starts) = (0, self.starts + 1);
            }
        }
        let idle = show_duration(idle);
        if self.voice.json {
            let line = json!({ "start": start, "idle-timeout": idle, "free": free });
            return print(&format!("{line}\n")).map_err(Fault::Output);
        }
        if !self.voice.reports() {
            return Ok(());
        }
        let names: Vec<&str> = free.iter().map(|knob| knob.name()).collect();
        let names = match names.is_empty() {
            true => "none, all are set explicitly".to_owned(),
            false => names.join(", "),
        };
        let who = match start.at_ms {
            Some(at_ms) => format!("{:>9.1} s  reloaded", at_ms as f64 / 1000.0),
            None => format!(
                "weir {}, {}, --adapt {}",
                start.weir, start.concurrency, start.adapt
            ),
        };
        print(&format!(
            "{who}, idle timeout {idle}: automatic settings: {names}\n"
        ))
        .map_err(Fault::Output)
    }

    fn look(&mut self, window: &Window) -> Result<(), Fault> {
        self.settle()?;
        if window.at_ms < self.at_ms {
            return Err(Fault::Line(format!(
                "{} ms follows {} ms: keep the lines in their recorded order",
                window.at_ms, self.at_ms
            )));
        }
        self.at_ms = window.at_ms;
        self.windows += 1;
        for decision in self.adaptor.look(window) {
            self.decisions += 1;
            print(&self.shown(window.at_ms, None, &decision)).map_err(Fault::Output)?;
            if self.is_held_to_then() {
                self.unmatched.push(decision);
            }
        }
        Ok(())
    }

    /// Compares a recorded decision with those of the replay. Reasons may be worded differently by another version, so they
    /// are not compared.
    fn compare(&mut self, then: &Decided) -> Result<(), Fault> {
        self.recorded += 1;
        if !self.is_held_to_then() {
            return Ok(());
        }
        let is_it = |now: &Decision| {
            let of = |one: &Decision| (one.knob, one.from.clone(), one.to.clone());
            then.at_ms == self.at_ms && of(now) == of(&then.decision)
        };
        if let Some(place) = self.unmatched.iter().position(is_it) {
            self.unmatched.remove(place);
            return Ok(());
        }
        self.differences += 1;
        print(&self.shown(then.at_ms, Some("then"), &then.decision)).map_err(Fault::Output)
    }

    /// Prints the decisions of the last window that were not recorded.
    fn settle(&mut self) -> Result<(), Fault> {
        for decision in std::mem::take(&mut self.unmatched) {
            self.differences += 1;
            print(&self.shown(self.at_ms, Some("now"), &decision)).map_err(Fault::Output)?;
        }
        Ok(())
    }

    /// A server that was stopped may not have recorded the decisions after its last window.
    fn forget(&mut self) {
        self.unmatched.clear();
    }

    /// A decision as text; `only` is `then` or `now` if only the recording or only the replay has it.
    fn shown(&self, at_ms: u64, only: Option<&str>, decision: &Decision) -> String {
        if self.voice.json {
            let line = match only {
                Some(only) => json!({ "at-ms": at_ms, "only": only, "decision": decision }),
                None => json!({ "at-ms": at_ms, "decision": decision }),
            };
            return format!("{line}\n");
        }
        let only = only.map_or(String::new(), |only| {
            let side = if only == "then" { "recording" } else { "replay" };
            format!("differs, only in the {side}: ")
        });
        format!(
            "{:>9.1} s  {only}{} from {} to {}\n             {}\n",
            at_ms as f64 / 1000.0,
            decision.knob.name(),
            decision.from,
            decision.to,
            decision.why
        )
    }

    fn end(&self) -> Result<(), Failure> {
        // Recordings from older versions contain neither settings nor decisions.
        let recorded = (self.starts > 0).then_some(self.recorded);
        let differences = self.is_held_to_then().then_some(self.differences);
        if self.voice.json {
            let end = json!({ "windows": self.windows, "decisions": self.decisions, "recorded": recorded,
                "differences": differences });
            print(&format!("{end}\n"))?;
        } else {
            let then = match (recorded, differences) {
                (None, _) => {
                    "; the recording contains no settings, so all are assumed to be automatic".to_owned()
                }
                (Some(_), Some(0)) => ", identical to the recorded ones".to_owned(),
                (Some(count), Some(differences)) => {
                    format!("; {count} were recorded, {differences} differ")
                }
                (Some(count), None) => {
                    format!("; {count} were recorded with other settings and are not compared")
                }
            };
            print(&format!(
                "{} decisions in {} windows{then}\n",
                self.decisions, self.windows
            ))?;
        }
        match differences {
            None | Some(0) => Ok(()),
            Some(count) => Err(Failure::Failed(format!(
                "`{}`: {count} decisions differ, as listed above: this version has other rules, or the recording was \
                 changed",
                self.flags.recording.display()
            ))),
        }
    }
}

/// Why the replay cannot go on.
enum Fault {
    /// The line does not belong to a recording.
    Line(String),
    Output(Failure),
}

/// Damaged line of a recording, with the reason.
struct Damage {
    line: u64,
    why: String,
}

impl Damage {
    fn say(&self, name: &str, number: u64) {
        let Damage { line, why } = self;
        tracing::warn!(
            "`{name}` line {line}: {why}; everything up to the server start in line {number} is skipped"
        );
    }
}

/// A line, and whether an incomplete one precedes it: a restarted server may have appended to half a line.
fn parse(bytes: &[u8]) -> Result<(Line, bool), String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "not UTF-8 text".to_owned())?;
    let whole = Line::parse(text);
    match (whole, text.rfind(START)) {
        (Ok(line), _) => Ok((line, false)),
        (Err(why), Some(at)) if at > 0 => Line::parse(&text[at..]).map_or(Err(why), |line| Ok((line, true))),
        (Err(why), _) => Err(why),
    }
}

#[allow(clippy::disallowed_methods, reason = "a command reads the file it is given")]
fn read_all(flags: &Replay, tally: &mut Tally<'_>) -> Result<(), Failure> {
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
    let mut line = Vec::new();
    // Set until the next server start.
    let mut damage: Option<Damage> = None;
    for number in 1u64.. {
        line.clear();
        let read = (&mut input)
            .take(LINE_MAX)
            .read_until(b'\n', &mut line)
            .map_err(unreadable)?;
        if read == 0 {
            break;
        }
        // A killed server may leave an incomplete last line.
        let is_half = !line.ends_with(b"\n") && (read as u64) < LINE_MAX;
        if is_half && (number > 1 || line.starts_with(b"{")) {
            tally.forget();
            tracing::warn!("`{name}` line {number} is incomplete and skipped");
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let taken = parse(&line).map_err(Fault::Line).and_then(|(line, is_behind)| {
            let is_start = matches!(&line, Line::Start(start) if start.at_ms.is_none());
            if is_behind && damage.is_none() {
                damage = Some(Damage {
                    line: number,
                    why: "it begins with an incomplete line".to_owned(),
                });
            }
            if damage.is_some() && !is_start {
                return Ok(());
            }
            if let Some(damage) = damage.take() {
                damage.say(&name, number);
            }
            tally.take(line)
        });
        match taken {
            Ok(()) => {}
            Err(Fault::Output(failure)) => return Err(failure),
            Err(Fault::Line(why)) => {
                tally.forget();
                damage.get_or_insert(Damage { line: number, why });
            }
        }
    }
    match damage {
        None => Ok(()),
        Some(Damage { line, why }) => Err(Failure::Usage(format!(
            "`{name}` line {line}: {why}; no server start follows, so nothing can be replayed: give a recording of \
             `weir serve --record`, lines of JSON"
        ))),
    }
}
