//! `weir load URL`: builds task, users and threads from flags, runs them, shows progress and reports the result.
//!
//! The crate `load` decides what users do. This module handles flags, files, host names, the terminal and wording.

mod address;
mod barrier;
mod content;
mod export;
mod fit;
mod gate;
mod log;
mod manifest;
mod merge;
mod metrics;
mod negotiate;
mod otlp;
mod page;
mod place;
mod plot;
mod remote_write;
mod replay;
mod report;
mod scenario;
pub(crate) mod search;
pub(crate) mod task;

use crate::cli::load::RunFlags;
use crate::failure::Failure;
use crate::secure::{self, Crews};
use crate::voice::Voice;
use ::load::crew::{Crew, Live};
use ::load::record::Record;
use ::load::run::{FORMAT, Parts, Run, Tls, VERSION};
use ::load::verdict::Bounds;
pub(crate) use export::whole;
pub(crate) use fit::run as fit;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
pub(crate) use merge::{numbered, read, run as merge};
use place::{Place, Start};
use report::Report;
use runtime::dial::Usage;
use runtime::dial::metered::Metered;
use runtime::signal::{Signal, Signals};
use runtime::{clock, machine};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use task::{Task, Who};
use units::{Duration, Instant, UnixTime};

/// Interval between updates of the progress line.
const SHOWN_EVERY: Duration = Duration::from_millis(200);
/// Largest lateness for an agreed start, in seconds.
const LATE_MAX: f64 = 0.1;
/// Largest distance of an agreed start, in seconds: more than a day is a mistake, such as milliseconds.
const AHEAD_MAX: f64 = 86_400.0;

/// Runs the command to its end.
///
/// # Errors
/// `Usage` for impossible flags, `Failed` if no load meets the objective or the run misses a requirement, `Invalid` for an invalid run,
/// `System` if the system refuses something.
pub(crate) fn run(flags: &RunFlags, voice: &Voice) -> Result<(), Failure> {
    voice.listen();
    let task = Task::of(flags)?;
    let place = Place::of(&flags.place, |name| std::env::var(name).ok())?;
    if flags.how.connections_per_user > 1 && !task.has_pages() {
        tracing::warn!(
            "--connections-per-user {} has no effect: it deals out the files that a page embeds, and every object here is one file",
            flags.how.connections_per_user
        );
    }
    gate::check(
        &flags.output.require,
        task.who.is_closed(),
        task.secure.is_some(),
        &task.step_names(),
        place.size,
        flags.how.slo.is_some(),
    )?;
    export::prepare(place.rank, &flags.output)?;
    let collector = otlp::collector(&flags.collector)?;
    let receiver = remote_write::receiver(&flags.receiver)?;
    let exports = [
        ("--otlp", collector.is_some()),
        ("--remote-write", receiver.is_some()),
    ];
    if flags.how.slo.is_some()
        && let Some((flag, _)) = exports.iter().find(|(_, is_given)| *is_given)
    {
        return Err(Failure::Usage(format!(
            "`{flag}` sends the seconds of one run, and --slo makes several; omit one of the two"
        )));
    }
    let mut signals = Signals::take_over().map_err(|error| refused("signal handlers", &error))?;
    if let Some(objective) = &flags.how.slo {
        return search::run(task, flags, objective, &mut signals, voice);
    }
    let run = perform(&task, flags, &place, &mut signals, voice)?;
    let parts = Parts::of([run]).map_err(Failure::System)?;
    let report = Report::of_rank(&parts).requiring(&flags.output.require);
    let written = export::write(&parts, &report, &flags.output);
    // Report first, so that a full disk does not cost the result.
    report.tell(voice)?;
    let collected = collector.map(|collector| otlp::send(&report, &collector, &mut signals));
    let received = receiver.map(|receiver| remote_write::send(&report, &receiver, &mut signals));
    let sent = [collected, received].into_iter().flatten();
    Failure::of_all(core::iter::once(written).chain(sent))?;
    report.judged()
}

/// One run of a task, from plan to result.
fn perform(
    task: &Task,
    flags: &RunFlags,
    place: &Place,
    signals: &mut Signals,
    voice: &Voice,
) -> Result<Run, Failure> {
    let peer = task.url.resolve()?;
    let threads = flags
        .how
        .threads
        .map_or_else(machine::usable_cores, |threads| threads as usize)
        .clamp(1, task.threads_max(place.size, &flags.how).max(1) as usize);
    let descriptors = machine::raise_descriptor_limit();
    task.fits(place.size, &flags.how, descriptors, threads)?;
    let mut setup = task.setup(flags)?;
    let live: Vec<Arc<Live>> = (0..threads).map(|_| Arc::default()).collect();
    let split = task.split(flags, place, threads)?;
    setup.started = clock::wall().secs;
    let crews = split.models.into_iter().zip(&live);
    let crews = crews.map(|(model, live)| {
        let crew = Crew::new(setup.clone(), model, Arc::clone(live));
        Metered::new(crew, setup.warmup, setup.counted)
    });
    let crews = crews.collect();
    if place.size > 1 {
        tracing::info!("rank {} of {} ({})", place.rank, place.size, place.told_by);
    }
    let start_at = match &place.start {
        Start::Now => None,
        Start::At(at) => Some(*at),
        Start::With { folder, timeout } => {
            let plan = task.digest(flags);
            Some(barrier::meet(place, folder, *timeout, &plan, signals)?)
        }
    };
    await_start(place, start_at, signals)?;
    let started_at = civil(clock::wall());
    let running =
        secure::start(crews, peer, task.secure.as_ref()).map_err(|error| refused("threads", &error))?;
    let began = clock::now();
    let measured_from = began + flags.asked.warmup;
    let counted = task.counted(&flags.asked);
    let stopped = watch(&running, &live, signals, counted, began, voice)?;
    let ended = running.join().map_err(|error| refused("a thread", &error))?;
    let now = clock::now();
    let mut record: Option<Record> = None;
    let mut usage: Vec<Usage> = Vec::new();
    // Threads learn of the stop a little later than this one and count until then.
    let mut longest = Duration::ZERO;
    for (crew, whole) in ended {
        let (crew, measured) = crew.into_parts();
        longest = longest.max(crew.counted());
        let part = crew.into_record(now);
        match &mut record {
            // Not merged with an empty record: that would copy its histograms.
            None => record = Some(part),
            Some(sum) => sum.merge(&part),
        }
        // A run that was stopped in its warm-up measured nothing.
        usage.push(measured.unwrap_or(whole));
    }
    // Rows of data that were used up end a run, as a log does.
    let counted = match task.may_end() && stopped.is_none() {
        true => counted.min(flags.asked.warmup + longest),
        false => counted,
    };
    let cpu = usage
        .iter()
        .map(|used| used.cpu.as_secs_f64() / used.wall.as_secs_f64().max(1e-9));
    Ok(Run {
        format: FORMAT.to_owned(),
        version: VERSION,
        command: std::env::args().collect(),
        program: concat!("weir ", env!("CARGO_PKG_VERSION")).to_owned(),
        kernel: first_line("/proc/sys/kernel/osrelease"),
        processor: processor(),
        clock: "CLOCK_MONOTONIC".to_owned(),
        seed: task.seed.0,
        plan: task.digest(flags),
        peer: SocketAddr::to_string(&peer),
        workload: task.workload().to_owned(),
        model: task.model().to_owned(),
        mode: task.mode.name().to_owned(),
        verified: flags.how.verify,
        method: flags.how.verb().to_string(),
        body_bytes: task.body_bytes(),
        step_names: task.step_names(),
        tls: task.secure.as_ref().map(|secure| Tls {
            versions: flags.tls.tls_versions.unwrap_or_default().name().to_owned(),
            crypto: flags.tls.crypto.unwrap_or_default().to_string(),
            resumption: !flags.tls.no_resumption,
            insecure: secure.is_insecure,
        }),
        headers: flags.how.header.iter().map(ToString::to_string).collect(),
        accept_status: task.accepted(&flags.how),
        users: match task.who {
            Who::Users(n) | Who::Clients(n) => Some(n),
            Who::Sessions(..) | Who::Rate(..) | Who::Replay => None,
        },
        schedule: match &task.who {
            Who::Sessions(schedule, _) | Who::Rate(schedule, _) => Some(schedule.to_string()),
            Who::Users(_) | Who::Clients(_) | Who::Replay => None,
        },
        asked_s: counted.saturating_sub(flags.asked.warmup).as_secs_f64(),
        warmup_s: flags.asked.warmup.as_secs_f64(),
        timeout_s: flags.how.timeout.as_secs_f64(),
        stagger_s: task.stagger(&flags.asked).map(|stagger| stagger.as_secs_f64()),
        rate_asked: match task.who {
            // A log has no rate of its own to report.
            Who::Replay => split
                .drawn
                .map(|drawn| drawn as f64 / counted.as_secs_f64().max(1e-9)),
            _ => task.rate_asked(&flags.asked),
        },
        arrivals_drawn: split.drawn,
        stopped_after_s: stopped.map(|at| at.since(measured_from).max(longest).as_secs_f64()),
        rank: place.rank,
        size: place.size,
        start_at,
        started_at,
        shares: split.shares,
        decile_bytes: task.work.deciles.clone(),
        bounds: Bounds {
            lag_max: flags.how.lag_max,
            stall_max: flags.how.stall_max.unwrap_or_else(|| {
                Bounds::stall_max(counted.saturating_sub(flags.asked.warmup), task.who.is_closed())
            }),
            failures_max: flags.how.failures_max,
            ..Bounds::DEFAULT
        },
        cpu: cpu.collect(),
        record: record.unwrap_or_default(),
    })
}

fn refused(what: &str, error: &std::io::Error) -> Failure {
    Failure::System(format!("{what}: {error}"))
}

fn civil(time: UnixTime) -> f64 {
    time.secs as f64 + f64::from(time.nanos) / 1e9
}

/// Waits for the agreed start.
fn await_start(place: &Place, start: Option<f64>, signals: &mut Signals) -> Result<(), Failure> {
    let Some(start) = start else {
        return Ok(());
    };
    let (if_far, if_late) = match place.start {
        Start::With { .. } => (
            "the clocks of the ranks differ: run NTP",
            "its clock is ahead of that of rank 0, or the folder of --start-with is slow: run NTP",
        ),
        Start::Now | Start::At(_) => (
            "`--start-at` takes seconds since 1970, as `date +%s` prints them",
            "set a later --start-at",
        ),
    };
    loop {
        let left = start - civil(clock::wall());
        if left > AHEAD_MAX {
            return Err(Failure::Usage(format!(
                "the agreed start is {:.0} days ahead; {if_far}",
                left / AHEAD_MAX
            )));
        }
        if left <= -LATE_MAX {
            return Err(Failure::Invalid(format!(
                "rank {} is {:.1} s late for the agreed start; {if_late}",
                place.rank, -left
            )));
        }
        if left <= 0.0 {
            return Ok(());
        }
        let signal = signals
            .wait(Some(Duration::from_secs_f64(left.min(3600.0))))
            .map_err(|error| refused("signals", &error))?;
        if signal == Some(Signal::Stop) {
            return Err(Failure::Invalid("stopped before the agreed start".to_owned()));
        }
    }
}

/// Waits for the end, shows progress and forwards signals to stop. Returns the time of the stop, if any.
fn watch(
    running: &Crews<Metered<Crew>>,
    live: &[Arc<Live>],
    signals: &mut Signals,
    duration: Duration,
    began: Instant,
    voice: &Voice,
) -> Result<Option<Instant>, Failure> {
    let shown = voice.reports() && !voice.json;
    let target = if shown {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(duration.as_millis() as u64), target);
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {msg}") {
        bar.set_style(style);
    }
    let mut seen = Seen::of(live);
    let mut since = began;
    let mut stopped = None;
    while !running.is_over() {
        let signal = signals
            .wait(Some(SHOWN_EVERY))
            .map_err(|error| refused("signals", &error))?;
        let now = clock::now();
        if signal == Some(Signal::Stop) {
            stopped.get_or_insert(now);
            running.stopper().stop();
        }
        if bar.is_hidden() {
            continue;
        }
        bar.set_position(now.since(began).as_millis() as u64);
        let span = now.since(since);
        if span >= Duration::from_secs(1) {
            let next = Seen::of(live);
            bar.set_message(next.told(&seen, span, duration.saturating_sub(now.since(began))));
            (seen, since) = (next, now);
        }
    }
    bar.finish_and_clear();
    Ok(stopped)
}

/// Totals of all threads at one moment.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    files: u64,
    bytes: u64,
    errors: u64,
    active: u64,
    response_ns: u64,
    /// The longest response since the previous look.
    longest_ns: u64,
}

impl Seen {
    fn of(live: &[Arc<Live>]) -> Seen {
        let sum = |of: fn(&Live) -> &AtomicU64| -> u64 {
            live.iter().map(|live| of(live).load(Ordering::Relaxed)).sum()
        };
        let longest = live.iter().map(|live| live.longest_ns.swap(0, Ordering::Relaxed));
        Seen {
            files: sum(|live| &live.files),
            bytes: sum(|live| &live.bytes),
            errors: sum(|live| &live.errors),
            active: sum(|live| &live.active),
            response_ns: sum(|live| &live.response_ns),
            longest_ns: longest.max().unwrap_or(0),
        }
    }

    /// The progress line: rate and response times over the `span` since `before`, and the time left.
    fn told(&self, before: &Seen, span: Duration, left: Duration) -> String {
        let files = self.files.saturating_sub(before.files);
        let rate = files as f64 / span.as_secs_f64().max(1e-9);
        let times = if files == 0 {
            "no response".to_owned()
        } else {
            let mean = self.response_ns.wrapping_sub(before.response_ns) as f64 / files as f64;
            format!(
                "response {:.2} ms on average, {:.2} ms at most",
                mean / 1e6,
                self.longest_ns as f64 / 1e6
            )
        };
        let end = if left.is_zero() {
            "waiting for pending requests".to_owned()
        } else {
            format!("{:.0} s left", left.as_secs_f64().ceil())
        };
        format!(
            "{end}: {rate:.0} files/s, {times}, {} active, {} in all, {} errors",
            self.active,
            units::Bytes(self.bytes),
            self.errors,
        )
    }
}

fn first_line(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().next().map(str::to_owned)
}

fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_run_tells_times_and_what_is_left() {
        let live = Arc::new(Live::default());
        let all = [Arc::clone(&live)];
        let before = Seen::of(&all);
        let told = |seen: Seen, left| seen.told(&before, Duration::from_secs(2), Duration::from_millis(left));
        assert_eq!(
            told(Seen::of(&all), 7_200),
            "8 s left: 0 files/s, no response, 0 active, 0 B in all, 0 errors"
        );
        live.files.store(10, Ordering::Relaxed);
        live.active.store(3, Ordering::Relaxed);
        live.response_ns.store(25_000_000, Ordering::Relaxed);
        live.longest_ns.store(9_000_000, Ordering::Relaxed);
        let seen = Seen::of(&all);
        assert_eq!(
            told(seen, 0),
            "waiting for pending requests: 5 files/s, response 2.50 ms on average, 9.00 ms at most, 3 active, 0 B in all, 0 errors"
        );
        // The longest response is that since the previous look.
        assert_eq!(Seen::of(&all).longest_ns, 0);
    }
}
