//! The adaptation loop: samples sensors once a second, records the observations if configured, and applies the
//! decisions of the controllers in `server::adapt`. Decides when to sample; knows nothing about the rules.

use super::refused;
use crate::failure::Failure;
use runtime::clock;
use runtime::logfile;
use runtime::sensors::{Reading, Sensors};
use serde::Serialize;
use server::Server;
use server::adapt::{Adaptor, Decided, Decision, Knob, Knobs, Sample, Settings, Start, Window};
use server::config::{Adapt, Config};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use units::{Duration, Instant};

/// Time between two samples.
const TICK: Duration = Duration::from_secs(1);
/// Wait while no setting is automatic, which only a reload can change.
const ASLEEP: Duration = Duration::from_secs(3600);
/// Size limit of a recording in bytes; it holds some days.
const RECORD_MAX: u64 = 256 << 20;

/// The loop from sensors to settings.
#[derive(Debug)]
pub(crate) struct Adaptation {
    sensors: Sensors,
    adaptor: Adaptor,
    applies: bool,
    /// The automatic settings and their starting values.
    terms: Start,
    record: Option<Record>,
    start: Instant,
    before: Option<Sample>,
    next: Instant,
}

#[derive(Debug)]
struct Record {
    path: PathBuf,
    file: File,
    left: u64,
    /// A start or reload to write before the next window. The first is delayed like this because the predecessor of an
    /// upgrade in place writes to the file until then.
    start: Option<Start>,
}

impl Adaptation {
    /// `None` if adaptation is off and nothing is recorded.
    ///
    /// # Errors
    /// `System` if the recording cannot be opened, `Usage` if it is standard output.
    pub(crate) fn start(config: &Config) -> Result<Option<Adaptation>, Failure> {
        let record = config.record.as_deref().map(Record::open).transpose()?;
        if config.adapt == Adapt::Off && record.is_none() {
            return Ok(None);
        }
        let terms = Start::of(config, env!("CARGO_PKG_VERSION"));
        let record = record.map(|record| Record {
            start: Some(terms.clone()),
            ..record
        });
        let now = clock::now();
        Ok(Some(Adaptation {
            sensors: Sensors::open(),
            adaptor: Adaptor::of(&terms.free, config.idle_timeout),
            applies: config.adapt == Adapt::Auto,
            terms,
            record,
            start: now,
            before: None,
            next: now,
        }))
    }

    /// Time until the next sample is due.
    pub(crate) fn patience(&self, now: Instant) -> Duration {
        match self.is_asleep() {
            true => ASLEEP,
            false => self.next.max(now).since(now),
        }
    }

    fn is_asleep(&self) -> bool {
        self.adaptor.is_idle() && self.record.is_none()
    }

    /// Adopts the configuration of a reload; returns the new settings if they change.
    fn go_on(&mut self, config: &Config) -> Option<Settings> {
        let at_ms = u64::try_from(clock::now().since(self.start).as_millis()).unwrap_or(u64::MAX);
        let terms = self.terms.reloaded(config, at_ms);
        if terms.is_like(&self.terms) {
            return None;
        }
        if terms.free != self.terms.free {
            say_free(&terms.free);
        }
        let before = self.adaptor.settings();
        self.adaptor.go_on(&terms.free, config.idle_timeout);
        if let Some(record) = &mut self.record {
            // A start not yet written keeps its time.
            let at_ms = match &record.start {
                Some(start) => start.at_ms,
                None => terms.at_ms,
            };
            record.start = Some(Start {
                at_ms,
                ..terms.clone()
            });
        }
        self.terms = terms;
        let settings = self.adaptor.settings();
        (self.applies && settings != before).then_some(settings)
    }

    /// Adopts the reloaded configuration of a server in this process.
    pub(crate) fn follow(&mut self, server: &Server) {
        if let Some(settings) = self.go_on(&server.config()) {
            server.adapt(settings, &[], clock::wall());
        }
    }

    /// Samples if a sample is due. Returns decisions, if any, with the settings to apply (`None` in a dry run).
    fn look(
        &mut self,
        others: &[u32],
        sample: impl FnOnce(Reading) -> Sample,
    ) -> Option<(Option<Settings>, Vec<Decision>)> {
        let now = clock::now();
        if now < self.next {
            return None;
        }
        self.next = now + TICK;
        if self.is_asleep() {
            // The next window must not span the time without samples.
            self.before = None;
            return None;
        }
        let after = sample(self.sensors.read(others));
        let before = self.before.replace(after.clone())?;
        let window = Window::between(self.start, &before, &after);
        let decisions = self.adaptor.look(&window);
        if let Some(record) = &mut self.record
            && !record.note(&window, &decisions, self.applies)
        {
            self.record = None;
        }
        for Decision { knob, from, to, why } in &decisions {
            let knob = knob.name();
            match self.applies {
                true => tracing::info!("{knob} from {from} to {to}: {why}"),
                false => tracing::info!("{knob} would change from {from} to {to} (dry run): {why}"),
            }
        }
        let settings = self.applies.then(|| self.adaptor.settings());
        (!decisions.is_empty()).then_some((settings, decisions))
    }

    /// Samples and adapts a server in this process.
    pub(crate) fn tend(&mut self, server: &Server) {
        match self.look(&[], |reading| server.sample(reading)) {
            Some((Some(settings), decisions)) => server.adapt(settings, &decisions, clock::wall()),
            Some((None, decisions)) => server.would_adapt(&decisions, clock::wall()),
            None => {}
        }
    }

    /// Adopts the configuration that worker processes are about to reload.
    pub(crate) fn follow_processes(&mut self, config: &Config, knobs: &Knobs) {
        if let Some(settings) = self.go_on(config) {
            knobs.set(settings);
        }
    }

    /// Samples and adapts worker processes. Shares the decisions, because any of them may serve the live page.
    pub(crate) fn tend_processes(
        &mut self,
        pids: &[u32],
        knobs: &Knobs,
        sample: impl FnOnce(Reading) -> Sample,
    ) {
        if let Some((settings, decisions)) = self.look(pids, sample) {
            if let Some(settings) = settings {
                knobs.set(settings);
            }
            knobs.note(&decisions, settings.is_some(), clock::wall());
        }
    }
}

/// Logs which settings are automatic from now on.
fn say_free(free: &[Knob]) {
    let names: Vec<&str> = free.iter().map(|knob| knob.name()).collect();
    match names.is_empty() {
        true => tracing::info!("automatic settings from now on: none, all are set explicitly"),
        false => tracing::info!("automatic settings from now on: {}", names.join(", ")),
    }
}

/// Creates the memory through which settings reach all workers, of this process and of those it forks afterwards.
///
/// # Errors
/// `System`, if shared memory cannot be created.
pub(crate) fn knobs(may_change: bool) -> Result<Knobs, Failure> {
    match may_change {
        true => Knobs::new().map_err(|error| refused("shared memory", &error)),
        false => Ok(Knobs::default()),
    }
}

impl Record {
    /// Opens the file for appending, so that a restarted server keeps the observations that led to its end.
    fn open(path: &Path) -> Result<Record, Failure> {
        if path == Path::new("-") {
            return Err(Failure::Usage(
                "a recording cannot go to standard output; name a file with --record".to_owned(),
            ));
        }
        let refused = |error: std::io::Error| {
            let advice = match error.kind() {
                ErrorKind::NotConnected => "start the pipe's reader first",
                _ => "its folder must exist and be writable",
            };
            Failure::System(format!(
                "cannot open the recording `{}`: {error}; {advice}",
                path.display()
            ))
        };
        let mut file = logfile::append_to(path).map_err(refused)?;
        if is_torn(path) {
            file.write_all(b"\n").map_err(refused)?;
        }
        let len = file.metadata().map_or(0, |found| found.len());
        Ok(Record {
            path: path.to_owned(),
            file,
            left: RECORD_MAX.saturating_sub(len),
            start: None,
        })
    }

    /// Writes a window and its decisions. False if recording ends.
    fn note(&mut self, window: &Window, decisions: &[Decision], applied: bool) -> bool {
        let decided = |decision: &Decision| Decided {
            at_ms: window.at_ms,
            decision: decision.clone(),
            applied,
        };
        let start = self.start.take();
        start.is_none_or(|start| self.write(&start))
            && self.write(window)
            && decisions.iter().all(|decision| self.write(&decided(decision)))
    }

    /// Writes one line. False if recording ends; earlier lines stay readable.
    fn write(&mut self, value: &impl Serialize) -> bool {
        let mut line = serde_json::to_vec(value).expect("numbers and names only");
        line.push(b'\n');
        let len = line.len() as u64;
        if len > self.left {
            tracing::warn!("recording stopped: `{}` has reached 256 MiB", self.path.display());
            return false;
        }
        if let Err(error) = self.file.write_all(&line) {
            tracing::warn!(
                "recording stopped: cannot write to `{}`: {error}",
                self.path.display()
            );
            return false;
        }
        self.left -= len;
        true
    }
}

/// Whether a file ends in the middle of a line, as after a kill or on a full disk. True for an unreadable file, because
/// an extra empty line is harmless.
#[allow(
    clippy::disallowed_methods,
    reason = "reads the last byte of the file that is appended to"
)]
fn is_torn(path: &Path) -> bool {
    let is_file = path
        .metadata()
        .is_ok_and(|found| found.is_file() && found.len() > 0);
    let ends = || {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        std::io::Result::Ok(last == *b"\n")
    };
    is_file && !ends().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::sensors::Process;
    use server::counters::Totals;
    use server::latency::Durations;
    use server::site::Source;
    use server::{Additions, Interprocess};
    use units::Seed;

    #[test]
    fn a_dry_run_shows_what_it_would_change_and_changes_nothing() {
        for adapt in [Adapt::Auto, Adapt::DryRun] {
            let is_dry = adapt == Adapt::DryRun;
            let config = Config {
                adapt,
                ..Config::default()
            };
            let mut adaptation = Adaptation::start(&config)
                .expect("no recording")
                .expect("it may change");
            let knobs = knobs(true).expect("memory");
            let prefork = Interprocess {
                knobs: knobs.clone(),
                ..Interprocess::default()
            };
            let embedded = Source::Embedded {
                files: &[],
                modified: units::UnixTime::from_secs(0),
            };
            let server = Server::open_with(Additions::default(), prefork, config, embedded, None, Seed(1));
            let server = server.expect("a server");
            let begin = clock::now();
            for second in 0..10 {
                // On average, three threads wait for a processor.
                adaptation.next = begin;
                adaptation.tend_processes(&[], &knobs, |reading| Sample {
                    reading: Reading {
                        at: begin + Duration::from_secs(second),
                        process: Process {
                            run_delay: Some(Duration::from_secs(3 * second)),
                            ..Process::default()
                        },
                        memory: None,
                        ..reading
                    },
                    totals: Totals::default(),
                    open: 0,
                    durations: Durations::default(),
                });
            }
            let decisions = server.decisions();
            let noted: Vec<(Knob, bool)> = decisions
                .newest()
                .map(|noted| (noted.decision.knob, noted.applied))
                .collect();
            assert_eq!(noted, [(Knob::Compression, !is_dry)], "{adapt}");
            assert_eq!(decisions.dry_run(), u64::from(is_dry));
            assert_eq!(
                (server.changes() > 0, server.settings().spares_codings),
                (!is_dry, !is_dry)
            );
        }
    }
}
