//! `weir adapt replay`: runs the server's controllers over a recording and compares their decisions with the recorded
//! ones. Decides what a valid recording is; the decisions are made by `server::adapt`.

use crate::cli::adapt::{Command, Replay};
use crate::cli::output::print;
use crate::cli::{Failure, Voice};
use measure::Duration;
use serde_json::json;
use server::adapt::{Adaptor, Decided, Decision, Knob, Line, Start, Window};
use server::config::{Config, show_duration};
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

/// Bytes of a line at the most.
const LINE_MAX: u64 = 64 * 1024;
/// How the line of a start begins.
const START: &str = "{\"recording\":";

/// Runs the command to its end.
///
/// # Errors
/// `Usage` for what is no recording, naming the line; `Failed` if what was decided then is not decided again; `System` for
/// what cannot be read or written.
pub(crate) fn run(what: &Command, voice: &Voice) -> Result<(), Failure> {
    voice.listen();
    let Command::Replay(flags) = what;
    let mut tally = Tally::new(flags, *voice);
    read_all(flags, &mut tally)?;
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
    /// Decided after the last window, and not found in the recording yet.
    unmatched: Vec<Decision>,
    /// Decisions of now or of then that the other has not.
    differences: u64,
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
            unmatched: Vec::new(),
            differences: 0,
        }
    }

    /// Whether what was decided then must be decided again: with other settings than then nothing must.
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
        // Who names another time asks what would have become of it.
        if self.flags.idle_timeout.is_some() && !free.contains(&Knob::KeepAlive) {
            free.push(Knob::KeepAlive);
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
            true => "none, all are explicit".to_owned(),
            false => names.join(", "),
        };
        let who = match start.at_ms {
            Some(at_ms) => format!("{:>9.1} s  reloaded", at_ms as f64 / 1000.0),
            None => format!(
                "weir {}, {}, --adapt {}",
                start.weir, start.concurrency, start.adapt
            ),
        };
        print(&format!("{who}, idle timeout {idle}: automatic settings: {names}\n")).map_err(Fault::Output)
    }

    fn look(&mut self, window: &Window) -> Result<(), Fault> {
        self.settle()?;
        if window.at_ms < self.at_ms {
            return Err(Fault::Line(format!(
                "{} ms comes after {} ms: keep the lines in the order in which they were written",
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

    /// Holds one that was made then to those of now. Reasons are words, which another version may choose anew.
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

    /// Says which decisions of the last window were not made then.
    fn settle(&mut self) -> Result<(), Fault> {
        for decision in std::mem::take(&mut self.unmatched) {
            self.differences += 1;
            print(&self.shown(self.at_ms, Some("now"), &decision)).map_err(Fault::Output)?;
        }
        Ok(())
    }

    /// What was decided after the last window may not have been written any more.
    fn forget(&mut self) {
        self.unmatched.clear();
    }

    /// A decision; `only` says which of then and now made it, if the other did not.
    fn shown(&self, at_ms: u64, only: Option<&str>, decision: &Decision) -> String {
        if self.voice.json {
            let line = match only {
                Some(only) => json!({ "at-ms": at_ms, "only": only, "decision": decision }),
                None => json!({ "at-ms": at_ms, "decision": decision }),
            };
            return format!("{line}\n");
        }
        let only = only.map_or(String::new(), |only| format!("differs, only {only}: "));
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
        // A recording of before says neither who recorded nor what was decided.
        let recorded = (self.starts > 0).then_some(self.recorded);
        let differences = self.is_held_to_then().then_some(self.differences);
        if self.voice.json {
            let end = json!({ "windows": self.windows, "decisions": self.decisions, "recorded": recorded,
                "differences": differences });
            print(&format!("{end}\n"))?;
        } else {
            let then = match (recorded, differences) {
                (None, _) => "; the recording contains no settings, so all are assumed to be automatic".to_owned(),
                (Some(_), Some(0)) => ", identical to the recorded ones".to_owned(),
                (Some(count), Some(differences)) => {
                    format!("; {count} were recorded, {differences} differ")
                }
                (Some(count), None) => format!("; {count} were recorded, with other settings"),
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

/// Why it does not go on.
enum Fault {
    /// The line is none of a recording.
    Line(String),
    Output(Failure),
}

/// Where a recording is damaged.
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

/// A line, and whether it begins with what is none: a server that was started again wrote behind half a line once.
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
    // As long as no server has started behind it.
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
        // The last line of a server that was killed may be half a line.
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
