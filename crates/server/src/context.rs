//! State shared by all sessions of one worker: its views of the sites, the current second, its access log lines, its
//! counters, and the configuration in force.
//!
//! A worker notices a reload at the start of a turn, by one relaxed load. It uses the new state for every response it
//! begins; a response under way keeps its parts of the old state.

use crate::access::Check;
use crate::access_log::Journal;
use crate::adapt::turn_max;
use crate::admission::Admission;
use crate::clock::Clock;
use crate::counters::Counters;
use crate::field_cache::FieldCache;
use crate::field_list::FieldListBuf;
use crate::head_cache::HeadCache;
use crate::latency::{Latencies, Turn};
use crate::limits::Limits;
use crate::proxy::cache::Waiter;
use crate::queue::Queue;
use crate::recorded::Delay;
use crate::request_id::RequestId;
use crate::service::{Hub, State};
use crate::site::{Encode, Load, Loaded, View};
use crate::traced::Delivered;
use crate::waiting::{Permit, Waiting};
use core::fmt;
use runtime::complaints;
use runtime::fs::Wait;
use runtime::memory::Step;
use runtime::session::{Later, Loss};
use runtime::shaping::Withheld;
use runtime::{Context, FileRange, Job, Line};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use units::{Duration, Instant, Rng, UnixTime};

/// Field lines of the answer being composed. Belongs to a worker and is used for one answer after another.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    pub(crate) head: FieldListBuf,
    pub(crate) more: FieldListBuf,
}

/// The part of a worker's context that chooses answers.
pub(crate) struct Scope<'c> {
    pub(crate) hub: &'c Arc<Hub>,
    pub(crate) state: &'c State,
    /// Generation of `state`.
    pub(crate) generation: u64,
    pub(crate) views: &'c mut [View],
    pub(crate) clock: &'c Clock,
    pub(crate) counters: &'c Counters,
    pub(crate) admission: &'c mut Admission,
    /// Whether compression is paused.
    pub(crate) spares_codings: bool,
    /// For multipart boundaries.
    pub(crate) rng: &'c mut Rng,
    pub(crate) lines: &'c mut Lines,
}

/// The part of a context that writes answers.
pub(crate) struct Desk<'c> {
    pub(crate) clock: &'c Clock,
    pub(crate) counters: &'c Counters,
    pub(crate) journal: &'c mut Journal,
    pub(crate) head_cache: &'c mut HeadCache,
    /// Largest content that is currently copied behind its header block.
    pub(crate) copied_max: u64,
    /// Lines for responses over TLS; empty without any.
    pub(crate) secured_lines: &'c [u8],
    /// The head of an answer in HTTP/2, while it is made.
    pub(crate) block: &'c mut Vec<u8>,
}

/// The context of one worker.
pub struct Cx {
    pub(crate) hub: Arc<Hub>,
    pub(crate) state: Arc<State>,
    /// Generation of `state`.
    pub(crate) generation: u64,
    /// One view per site; made in the first turn, because only then the time is known.
    pub(crate) views: Vec<View>,
    /// Request heads seen before, with their entries of `views`.
    pub(crate) head_cache: HeadCache,
    /// Requests of HTTP/2 and HTTP/3 seen before, with their stored responses.
    pub(crate) field_cache: FieldCache,
    /// Number of the settings change in force, and whether sessions still have to be told.
    change: u64,
    are_new: bool,
    /// Idle timeout after a response, if it is shorter than the configured one.
    pub(crate) keep_alive: Option<Duration>,
    /// Admission of expensive requests within a turn.
    pub(crate) admission: Admission,
    /// Whether compression is paused.
    pub(crate) spares_codings: bool,
    /// The memory step in force.
    step: Step,
    /// Whether known request heads are currently answered from memory without parsing them: those in cleartext, and
    /// those over TLS.
    pub(crate) uses_head_cache: [bool; 2],
    /// Largest content that is currently copied behind its header block.
    pub(crate) copied_max: u64,
    /// Output per turn after which no further request is currently answered.
    pub(crate) output_max: usize,
    queue: Queue,
    pub(crate) clock: Clock,
    pub(crate) journal: Journal,
    pub(crate) counters: Arc<Counters>,
    latencies: Arc<Latencies>,
    latest: Turn,
    /// Sum of the views' changes when other processes were last told about the cache. `None` without other processes.
    told: Option<u64>,
    /// For multipart boundaries.
    pub(crate) rng: Rng,
    /// Field lines of the answer being composed.
    lines: Lines,
    /// The head of an answer in HTTP/2, while it is made.
    pub(crate) block: Vec<u8>,
}

impl Cx {
    pub(crate) fn new(hub: Arc<Hub>, rng: Rng) -> Cx {
        let (generation, state) = hub.current();
        state.awaken();
        let seat = hub.board.join();
        let mut cx = Cx {
            step: Step::Calm,
            uses_head_cache: [false; 2],
            copied_max: 0,
            output_max: 0,
            journal: Journal::new(None),
            counters: seat.counters,
            latencies: seat.latencies,
            latest: Turn::new(),
            change: 0,
            are_new: false,
            keep_alive: state.limits.early_close,
            admission: admission(&state),
            spares_codings: false,
            queue: Queue::Short,
            told: hub.board.is_among().then_some(0),
            hub,
            state,
            generation,
            views: Vec::new(),
            head_cache: HeadCache::new(),
            field_cache: FieldCache::default(),
            clock: Clock::default(),
            rng,
            lines: Lines::default(),
            block: Vec::new(),
        };
        cx.follow();
        cx.take_step(Step::Calm);
        cx
    }

    /// Has the journal follow the state in force.
    fn follow(&mut self) {
        let state = &self.state;
        let has_logs = state.log.is_some();
        self.journal.set_spans(state.tracing.is_some());
        self.journal
            .follow(&state.config, &state.hosts, &state.host_counts, has_logs);
    }

    /// Applies a memory step to the state in force.
    #[cold]
    fn take_step(&mut self, step: Step) {
        self.step = step;
        let is_pressed = step >= Step::Output;
        let uses = self.state.uses_head_cache && !is_pressed;
        self.uses_head_cache = [uses && self.state.https_port.is_none(), uses];
        if is_pressed {
            self.head_cache.forget();
            self.field_cache.forget();
        }
        // Referenced content belongs to the cache, however many connections wait with it; copies belong to each
        // connection.
        self.copied_max = if is_pressed { 0 } else { self.state.copied_max };
        self.output_max = if is_pressed { 1 } else { Limits::OUTPUT_PER_TURN };
        let [reading, output, idle, refusing] = self.hub.budget.take_entered();
        self.counters.memory_reading().add(reading);
        self.counters.memory_output().add(output);
        self.counters.memory_idle().add(idle);
        self.counters.memory_refusing().add(refusing);
    }

    /// Whether requests are rejected for lack of memory.
    #[inline]
    pub(crate) fn is_out_of_memory(&self) -> bool {
        self.step == Step::Refusing
    }

    /// Takes over the state of a reload.
    #[cold]
    fn take_state(&mut self, now: Instant, wall: UnixTime) {
        // Lines finished so far belong to the previous log.
        self.flush(now);
        // The new state may have other limits for heads and other rules for responses.
        self.head_cache.forget();
        self.field_cache.forget();
        // Apply adapted settings again, on top of the new configuration.
        self.change = u64::MAX;
        let before = Arc::clone(&self.state);
        (self.generation, self.state) = self.hub.current();
        self.state.awaken();
        self.take_step(self.step);
        self.admission.hold(turn_max(&self.state.config));
        self.follow();
        let mut views: Vec<Option<View>> = std::mem::take(&mut self.views).into_iter().map(Some).collect();
        let earlier = before.hosts.places().iter().enumerate();
        let earlier: HashMap<_, usize> = earlier
            .map(|(at, place)| (Arc::as_ptr(&place.site), at))
            .collect();
        for place in self.state.hosts.places() {
            let kept = earlier.get(&Arc::as_ptr(&place.site));
            let kept = kept.and_then(|&at| views.get_mut(at)?.take());
            self.views
                .push(kept.unwrap_or_else(|| place.site.view(now, wall)));
        }
    }

    /// Applies adapted settings.
    #[cold]
    fn take_settings(&mut self, change: u64) {
        self.change = change;
        self.are_new = true;
        let settings = self.hub.knobs.settings();
        self.spares_codings = settings.spares_codings;
        let set = settings.keep_alive;
        let configured = self.state.limits.early_close;
        self.keep_alive = match (set, configured) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }

    /// The part that chooses an answer, and the part that writes it.
    #[inline]
    pub(crate) fn split(&mut self) -> (Scope<'_>, Desk<'_>) {
        let scope = Scope {
            hub: &self.hub,
            state: &self.state,
            generation: self.generation,
            views: &mut self.views,
            clock: &self.clock,
            counters: &self.counters,
            admission: &mut self.admission,
            spares_codings: self.spares_codings,
            rng: &mut self.rng,
            lines: &mut self.lines,
        };
        let desk = Desk {
            clock: &self.clock,
            counters: &self.counters,
            journal: &mut self.journal,
            head_cache: &mut self.head_cache,
            copied_max: self.copied_max,
            secured_lines: &self.state.secured_lines,
            block: &mut self.block,
        };
        (scope, desk)
    }

    /// How long a connection may be idle after a request.
    pub(crate) fn idle_timeout(&self) -> Duration {
        let configured = self.state.limits.idle_timeout;
        self.keep_alive.map_or(configured, |early| early.min(configured))
    }

    /// Notes that a request which began at `started` has been answered.
    #[inline]
    pub(crate) fn answered(&mut self, started: Instant) {
        self.latest.answered(started, &self.latencies);
    }

    fn flush(&mut self, now: Instant) {
        if self.journal.wake().is_none() {
            return;
        }
        self.flush_spans();
        if let Some(log) = &self.state.log {
            let (empty, dropped) = log.write(self.journal.take(Vec::new()), now);
            self.journal.recycle(empty);
            self.counters.log_dropped().add(dropped);
            for (number, lines) in self.journal.others() {
                let (empty, dropped) = log.write_to(number, std::mem::take(lines), now);
                *lines = empty;
                lines.clear();
                self.counters.log_dropped().add(dropped);
            }
        }
    }
}

impl Cx {
    /// Hands the finished spans over.
    fn flush_spans(&mut self) {
        let Some((spans, count)) = self.journal.take_spans() else {
            return;
        };
        let delivered = match &self.state.tracing {
            Some(tracing) => tracing.sink.write(spans, count),
            // The last ones of a trace that a reload has ended.
            None => Delivered {
                dropped: count.into(),
                ..Delivered::default()
            },
        };
        self.counters.spans_sent().add(delivered.sent);
        self.counters.spans_dropped().add(delivered.dropped);
    }

    /// Hands each finished line to the log separately.
    #[cold]
    pub(crate) fn flush_each(&mut self, now: Instant) {
        if self.journal.wake().is_none() {
            return;
        }
        self.flush_spans();
        let Some(log) = &self.state.log else { return };
        let write = |number: usize, lines: &[u8]| {
            for line in lines.split_inclusive(|b| *b == b'\n') {
                let (_, dropped) = log.write_to(number, line.to_vec(), now);
                self.counters.log_dropped().add(dropped);
            }
        };
        write(0, &self.journal.take(Vec::new()));
        for (number, lines) in self.journal.others() {
            write(number, lines);
            lines.clear();
        }
    }
}

impl Drop for Cx {
    /// Hands over all log lines and counts, so that none are lost at shutdown.
    fn drop(&mut self) {
        self.flush(Instant::ZERO);
        // Nothing waits for the line any more; past waits stay counted.
        self.latencies.nothing_withheld();
        self.hub.board.leave(&self.counters);
    }
}

impl fmt::Debug for Cx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx")
            .field("generation", &self.generation)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl Context for Cx {
    type Job = Work;

    #[inline]
    fn turn(&mut self, now: Instant, wall: UnixTime) {
        let before = self.clock.now().secs;
        match self.state.config.behavior.fresh_date {
            false => self.clock.set(wall),
            true => self.clock.set_anew(wall),
        }
        if before != wall.secs {
            complaints::settle(now);
        }
        self.latest.begin(now, self.state.is_timed);
        if self.hub.generation.load(Ordering::Relaxed) != self.generation {
            self.take_state(now, wall);
        }
        let step = self.hub.budget.step();
        if step != self.step {
            self.take_step(step);
        }
        let change = self.hub.knobs.change();
        if change != self.change {
            self.take_settings(change);
        }
        if self.views.is_empty() {
            let places = self.state.hosts.places().iter();
            self.views = places.map(|place| place.site.view(now, wall)).collect();
        }
        for view in &mut self.views {
            view.turn(now, wall);
        }
        self.head_cache.turn(&self.views);
        if self.state.tracing.is_some() {
            self.journal.set_time(now, wall);
        }
        if self.journal.is_due(now) {
            self.flush(now);
        }
    }

    #[inline]
    fn wake(&self) -> Option<Instant> {
        let view = self.views.iter().filter_map(View::wake).min();
        match (self.journal.wake(), view) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    #[inline]
    fn has_new_bounds(&mut self) -> bool {
        std::mem::take(&mut self.are_new)
    }

    #[inline]
    fn is_timed(&self) -> bool {
        self.state.is_timed
    }

    #[inline]
    fn wants_path(&self) -> bool {
        self.state.wants_path
    }

    fn withheld(&mut self, what: Withheld) {
        self.latencies.withheld(&what);
    }

    fn line_patience(&self) -> Duration {
        self.state.limits.line_patience()
    }

    fn rest(&mut self, now: Instant, line: Line) {
        let began = self.latest.began();
        if crate::adapt::takes_turns(self.state.config.concurrency) {
            self.admission.end(now - began, line);
            self.latencies.stood(self.queue.turn(line, began, now));
        }
        self.latest.end(now, &self.latencies);
        if let Some(told) = &mut self.told {
            let now = self.views.iter().map(View::changes).fold(1, u64::wrapping_add);
            if std::mem::replace(told, now) != now {
                self.hub.tell_cache();
            }
        }
    }
}

fn admission(state: &State) -> Admission {
    let mut admission = Admission::new();
    admission.hold(turn_max(&state.config));
    admission
}

/// Work for a session that may block.
#[derive(Debug)]
pub struct Work {
    task: Task,
    waiting: Arc<Waiting>,
    /// Maximum number of jobs that may wait for the disk.
    most: u32,
    /// Id of the request, if requests have ids.
    id: Option<RequestId>,
    /// Taken when the work has to wait for the disk; released when it ends or is dropped.
    _permit: Option<Permit>,
}

#[derive(Debug)]
pub(crate) enum Task {
    /// Look up the file of a path.
    Load(Load),
    /// Compress a file.
    Encode(Encode),
    /// Check a password, or ask another server.
    Check(Box<Check>),
    /// Read a piece of a body, the last one if the flag is set.
    Read(FileRange, bool),
    /// Wait for the response to another client's request.
    Await(Waiter),
    /// Wait until a recorded response is due.
    Delay(Delay),
}

/// What came of [`Work`].
#[derive(Debug)]
pub enum Done {
    /// An entry was found, or a coding made.
    Loaded(Loaded),
    /// The piece of a body, or why there is none.
    Read(Result<Vec<u8>, Loss>),
    /// The response that was awaited is there, will not come, or is awaited no longer.
    Woken,
}

impl Work {
    pub(crate) fn new(task: Task, hub: &Hub, state: &State) -> Work {
        Work {
            task,
            waiting: Arc::clone(&hub.waiting),
            most: state.limits.disk_queue,
            id: None,
            _permit: None,
        }
    }

    /// The same work, for the request with this id.
    pub(crate) fn of(self, id: RequestId) -> Work {
        Work { id: Some(id), ..self }
    }

    fn try_task(self) -> Result<Done, Work> {
        let task = match self.task {
            Task::Load(job) => match job.try_now() {
                Ok(loaded) => return Ok(Done::Loaded(loaded)),
                Err(job) => Task::Load(job),
            },
            Task::Encode(job) => match job.try_now() {
                Ok(loaded) => return Ok(Done::Loaded(loaded)),
                Err(job) => Task::Encode(job),
            },
            // It waits for no disk, and has a limit of its own.
            Task::Check(_) => return Err(self),
            Task::Delay(ref delay) => {
                return match delay.is_over() {
                    true => Ok(Done::Loaded(Loaded::nothing())),
                    false => Err(self),
                };
            }
            Task::Await(ref waiter) => {
                return match waiter.is_over() {
                    true => Ok(Done::Woken),
                    false => Err(self),
                };
            }
            Task::Read(range, is_last) => {
                // The response has begun: it waits in no queue that could refuse it.
                return match range.read(is_last, Wait::Cached) {
                    Some(read) => Ok(Done::Read(read)),
                    None => Err(Work {
                        task: Task::Read(range, is_last),
                        ..self
                    }),
                };
            }
        };
        match Permit::take(&self.waiting, self.most) {
            Some(permit) => Err(Work {
                task,
                _permit: Some(permit),
                ..self
            }),
            None => Ok(Done::Loaded(match task {
                Task::Load(job) => job.refuse(),
                Task::Encode(job) => job.refuse(),
                Task::Check(_) | Task::Read(..) | Task::Await(_) | Task::Delay(_) => {
                    unreachable!("it returned above")
                }
            })),
        }
    }

    fn run_task(self) -> Done {
        match self.task {
            Task::Load(job) => Done::Loaded(job.run()),
            Task::Encode(job) => Done::Loaded(job.run()),
            Task::Check(check) => Done::Loaded(Loaded::checked(check.run())),
            Task::Read(range, is_last) => {
                let read = range.read(is_last, Wait::Block);
                Done::Read(read.unwrap_or(Err(Loss::File(0))))
            }
            // No thread waits for it: the request goes on its own.
            Task::Await(waiter) => {
                waiter.leave();
                Done::Woken
            }
            Task::Delay(delay) => {
                delay.sleep();
                Done::Loaded(Loaded::nothing())
            }
        }
    }
}

impl Job for Work {
    type Output = Done;

    fn try_now(self) -> Result<Done, Work> {
        match self.id.clone() {
            None => self.try_task(),
            Some(id) => complaints::about(Some(id.value()), || self.try_task()),
        }
    }

    fn run(self) -> Done {
        match self.id.clone() {
            None => self.run_task(),
            Some(id) => complaints::about(Some(id.value()), || self.run_task()),
        }
    }

    fn defer(self, later: Later<Done>) -> Result<(), Work> {
        match self.task {
            Task::Await(waiter) => {
                waiter.wake_with(move || later.report(Done::Woken));
                Ok(())
            }
            Task::Delay(delay) => {
                let report = move || later.report(Done::Loaded(Loaded::nothing()));
                delay.defer(report).map_err(|delay| Work {
                    task: Task::Delay(delay),
                    ..self
                })
            }
            Task::Check(check) => {
                let reply = move |checked| later.report(Done::Loaded(Loaded::checked(checked)));
                check.defer(reply).map_err(|(check, _)| Work {
                    task: Task::Check(Box::new(check)),
                    ..self
                })
            }
            _ => Err(self),
        }
    }
}
