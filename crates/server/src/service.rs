//! The server as a driver sees it: makes a context for each worker and a session for each
//! connection, and puts a new configuration in force without stopping either.
//!
//! This file decides what is shared and how it changes; it does not know what a request is.

use crate::adapt::{Decision, Decisions, Knobs, Sample, Settings};
use crate::cache::StoreCounters;
use crate::config::{Config, LiveFor};
use crate::context::Cx;
use crate::counters::{Board, Readings, Totals};
use crate::filter::{Filter, Filters};
use crate::handler::{Handler, Mounts};
use crate::hosts::{Hosts, MissingPage};
use crate::limits::Limits;
use crate::live::{Health, Live};
use crate::pace::{Paces, Rate};
use crate::peers::{Peers, Refused, unit};
use crate::session::Session;
use crate::site::{OpenError, Site, Source};
use crate::waiting::Waiting;
use core::fmt;
use measure::{Duration, Instant, Seed, UnixTime};
use runtime::{Accepted, Service};
use runtime::memory::Budget;
use runtime::sensors::Reading;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Takes finished access log lines away; made by whoever owns files.
pub trait LogSink: Send + Sync + fmt::Debug {
    /// Takes whole lines. Gives back an empty buffer to fill next, and how many lines it had to drop
    /// because those before them could not be written.
    fn write(&self, lines: Vec<u8>, now: Instant) -> (Vec<u8>, u64);
}

/// What a server shares with other processes that serve the same: nothing, by default.
#[derive(Debug, Default)]
pub struct Herd {
    /// Connections, so that their bounds are common.
    pub peers: Peers,
    /// Counters, so that each process can tell those of all.
    pub board: Board,
    /// Settings that change while it runs. By default they do not.
    pub knobs: Knobs,
    /// Memory. Without a bound by default.
    pub budget: Arc<Budget>,
}

/// What a program that uses this library adds to the server. It stays at a reload.
#[derive(Clone, Debug, Default)]
pub struct Additions {
    /// Filters, in order, after those of the configuration.
    pub filters: Vec<Arc<dyn Filter>>,
    /// Handlers by path, looked at in order, before those of the server itself. A path that ends in a slash
    /// stands for all below it, too.
    pub handlers: Vec<(String, Arc<dyn Handler>)>,
}

/// One configuration in force, with what was opened for it. Never changes; a reload makes another.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) config: Config,
    pub(crate) limits: Limits,
    pub(crate) http_limits: http1::Limits,
    pub(crate) ranges_max: u16,
    pub(crate) hosts: Hosts,
    embedded: Source,
    additions: Additions,
    pub(crate) log: Option<Arc<dyn LogSink>>,
    /// What answers in place of files.
    pub(crate) mounts: Mounts,
    /// What adds to each answer.
    pub(crate) each_answer: Vec<Arc<dyn Filter>>,
    /// Whether somebody may ask how long answers take, or a controller does.
    pub(crate) is_timed: bool,
    /// Whether lines of the log say how the path to the client is.
    pub(crate) wants_path: bool,
    /// What an address may ask for; none without a bound.
    pub(crate) rate: Option<Rate>,
    /// Whether heads met before are answered again without being looked at.
    pub(crate) recalls: bool,
    /// Content of up to this length is copied behind the head.
    pub(crate) copied_max: u64,
}

impl State {
    fn new(
        config: Config,
        embedded: Source,
        additions: Additions,
        hosts: Hosts,
        log: Option<Arc<dyn LogSink>>,
    ) -> State {
        let limits = config.limits();
        let cap = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let ranges_max = limits.ranges.try_into().unwrap_or(u16::MAX);
        let http_limits = http1::Limits {
            head_bytes_max: cap(limits.head_size.0),
            fields_max: limits.fields.try_into().unwrap_or(u16::MAX),
            target_bytes_max: cap(limits.target_length.0),
            http09: config.http09,
            ..http1::Limits::DEFAULT
        };
        let mut mounts = Mounts::default();
        for (at, handler) in &additions.handlers {
            mounts.add(at.as_str(), Arc::clone(handler));
        }
        let each_answer = Filters::for_each_answer(&additions.filters);
        if config.health {
            mounts.add("/healthz", Arc::new(Health::Alive));
            mounts.add("/readyz", Arc::new(Health::Ready));
        }
        let shown_to = config.live;
        if shown_to != LiveFor::Nobody {
            mounts.add("/.weir/", Arc::new(Live { shown_to }));
        }
        State {
            rate: Rate::new(limits.request_rate, limits.request_burst),
            is_timed: shown_to != LiveFor::Nobody
                || config.record.is_some()
                || crate::adapt::turn_max(&config).is_some(),
            copied_max: match config.behavior.split_head {
                true => 0,
                false => Limits::COPIED_BODY,
            },
            recalls: config.behavior.allows_recall() && each_answer.is_empty(),
            each_answer,
            additions,
            wants_path: config.log_tcp && log.is_some(),
            mounts,
            config,
            limits,
            http_limits,
            ranges_max,
            hosts,
            embedded,
            log,
        }
    }
}

/// What workers share.
#[derive(Debug)]
pub(crate) struct Hub {
    state: Mutex<Arc<State>>,
    /// Grows with each reload, after `state` was replaced.
    pub(crate) generation: AtomicU64,
    pub(crate) peers: Peers,
    pub(crate) budget: Arc<Budget>,
    /// Of the state in force, for whoever accepts.
    connections_max: AtomicU32,
    paces: Paces,
    /// Jobs that wait for the disk.
    pub(crate) waiting: Arc<Waiting>,
    pub(crate) board: Board,
    pub(crate) knobs: Knobs,
    seed: Seed,
    ready: AtomicBool,
    about: Mutex<About>,
}

/// What a server cannot know of itself.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// How connections are driven, for people.
    pub strategy: String,
    /// When it was started.
    pub started: UnixTime,
    /// The process, if it is one of several.
    pub process: Option<u32>,
}

impl Hub {
    /// The state in force, and its number.
    pub(crate) fn current(&self) -> (u64, Arc<State>) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (self.generation.load(Ordering::Relaxed), Arc::clone(&state))
    }

    /// Tells other processes, if there are any, what the cache of this one did and holds.
    pub(crate) fn tell_cache(&self) {
        if self.board.is_among() {
            let (_, state) = self.current();
            self.board
                .tell_cache(&state.hosts.cache(), state.config.cache_size.0);
        }
    }
}

/// The file server.
#[derive(Clone, Debug)]
pub struct Server {
    hub: Arc<Hub>,
}

impl Server {
    /// A server of `config`, whose log lines go to `log`. Without a root in `config` it serves what is
    /// `embedded`. `seed` makes multipart boundaries.
    ///
    /// # Errors
    /// The root that cannot be opened, and why.
    pub fn open(
        config: Config,
        embedded: Source,
        log: Option<Arc<dyn LogSink>>,
        seed: Seed,
    ) -> Result<Server, OpenError> {
        Server::open_with(Additions::default(), Herd::default(), config, embedded, log, seed)
    }

    /// The same with additions, and as one of several processes.
    ///
    /// # Errors
    /// As [`Server::open`].
    pub fn open_with(
        additions: Additions,
        herd: Herd,
        config: Config,
        embedded: Source,
        log: Option<Arc<dyn LogSink>>,
        seed: Seed,
    ) -> Result<Server, OpenError> {
        let hosts = Hosts::open(&config, &embedded, &additions.filters, None)?;
        Ok(Server {
            hub: Arc::new(Hub {
                connections_max: AtomicU32::new(config.max_connections),
                state: Mutex::new(Arc::new(State::new(config, embedded, additions, hosts, log))),
                generation: AtomicU64::new(0),
                peers: herd.peers,
                budget: herd.budget,
                paces: Paces::default(),
                waiting: Arc::default(),
                board: herd.board,
                knobs: herd.knobs,
                seed,
                ready: AtomicBool::new(true),
                about: Mutex::default(),
            }),
        })
    }

    /// Puts another configuration in force: answers begun from now on follow it, those under way
    /// finish on the old one. A site about which nothing changed keeps its cache.
    ///
    /// # Errors
    /// The root that cannot be opened; the old configuration stays in force then.
    pub fn reload(&self, config: Config, log: Option<Arc<dyn LogSink>>) -> Result<(), OpenError> {
        let (_, before) = self.hub.current();
        let embedded = before.embedded.clone();
        let additions = before.additions.clone();
        let hosts = Hosts::open(&config, &embedded, &additions.filters, Some(&before.hosts))?;
        let state = Arc::new(State::new(config, embedded, additions, hosts, log));
        let mut current = self.hub.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.hub
            .connections_max
            .store(state.limits.connections, Ordering::Relaxed);
        *current = state;
        self.hub.generation.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// The configuration in force.
    pub fn config(&self) -> Config {
        self.hub.current().1.config.clone()
    }

    /// The sites in force, that of the top level first.
    pub fn sites(&self) -> Vec<Arc<Site>> {
        let (_, state) = self.hub.current();
        state
            .hosts
            .places()
            .iter()
            .map(|place| Arc::clone(&place.site))
            .collect()
    }

    /// What the caches of all sites of this process did and hold.
    pub(crate) fn cache(&self) -> StoreCounters {
        self.hub.current().1.hosts.cache()
    }

    /// The sum of all workers' counters.
    pub fn totals(&self) -> Totals {
        self.hub.board.read().totals()
    }

    /// What all workers counted, in all processes that serve. How long answers took is known only while
    /// somebody may ask ([`Config::live`]).
    pub fn readings(&self) -> Readings {
        self.hub.tell_cache();
        self.hub.board.read()
    }

    /// Whether it wants requests: nobody has told it to stop, and the roots of all sites can be opened, as of less than
    /// a second ago if this is asked that often.
    pub fn is_ready(&self) -> bool {
        !self.is_stopping() && self.hub.current().1.hosts.are_reachable()
    }

    /// The memory budget of this process.
    pub fn budget(&self) -> &Budget {
        &self.hub.budget
    }

    /// Whether it was told that it is not ready any more.
    pub(crate) fn is_stopping(&self) -> bool {
        !self.hub.ready.load(Ordering::Relaxed)
    }

    /// Says whether it wants requests, its roots aside: readiness is what load balancers look at.
    pub fn set_ready(&self, ready: bool) {
        self.hub.ready.store(ready, Ordering::Relaxed);
    }

    /// Puts these settings in force, which these decisions led to, at the wall time of which they are shown.
    pub fn adapt(&self, settings: Settings, decisions: &[Decision], wall: UnixTime) {
        self.hub.knobs.set(settings);
        self.hub.knobs.note(decisions, true, wall);
    }

    /// Shows decisions of a dry run, which change nothing, as made at this wall time.
    pub fn would_adapt(&self, decisions: &[Decision], wall: UnixTime) {
        self.hub.knobs.note(decisions, false, wall);
    }

    /// What was decided last, by whichever process of this server decides.
    pub fn decisions(&self) -> Decisions {
        self.hub.knobs.decisions()
    }

    /// Settings that differ from the configuration now.
    pub fn settings(&self) -> Settings {
        self.hub.knobs.settings()
    }

    /// How often they have changed.
    pub fn changes(&self) -> u64 {
        self.hub.knobs.change()
    }

    /// What controllers look at.
    pub fn sample(&self, reading: Reading) -> Sample {
        let readings = self.readings();
        Sample {
            reading,
            totals: readings.totals(),
            open: self.open_connections(),
            durations: readings.durations,
        }
    }

    /// Pages for errors and unknown paths that are configured and not there. Reads them.
    pub fn missing_pages(&self, now: Instant, wall: UnixTime) -> Vec<MissingPage> {
        let (_, state) = self.hub.current();
        state.hosts.missing_pages(&state.config, now, wall)
    }

    /// What it was told about itself.
    pub fn about(&self) -> About {
        self.hub
            .about
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Tells it about itself.
    pub fn set_about(&self, about: About) {
        *self.hub.about.lock().unwrap_or_else(PoisonError::into_inner) = about;
    }

    pub(crate) fn of(hub: &Arc<Hub>) -> Server {
        Server { hub: Arc::clone(hub) }
    }

    /// Connections open now.
    pub fn open_connections(&self) -> u32 {
        self.hub.peers.total()
    }

    /// Jobs of this process that wait for the disk or are under way.
    pub fn jobs_waiting(&self) -> u32 {
        self.hub.waiting.now()
    }

    /// Addresses with a connection open now.
    pub fn open_addresses(&self) -> usize {
        self.hub.peers.addresses()
    }
}

impl Service for Server {
    type Session = Session;

    fn context(&self, worker: usize) -> Cx {
        let seed = Seed(self.hub.seed.0.wrapping_add(worker as u64));
        Cx::new(Arc::clone(&self.hub), seed.rng())
    }

    fn accept(&self, cx: &mut Cx, accepted: &Accepted, now: Instant) -> Option<Session> {
        let peer = accepted.peer;
        let limits = &cx.state.limits;
        match self
            .hub
            .peers
            .enter(peer.ip(), limits.connections, limits.per_address())
        {
            Ok(()) => {
                cx.counters.accepted().add(1);
                let paced = cx.state.rate.is_some();
                let pace = paced.then(|| self.hub.paces.of(unit(peer.ip()), now));
                // One that comes with bytes gets the whole time for the head they begin.
                let silent = limits.header_timeout.saturating_sub(limits.deferred);
                Some(Session::new(peer.ip(), now + silent, pace))
            }
            Err(Refused::Total) => {
                cx.counters.refused_total().add(1);
                None
            }
            Err(Refused::Address) => {
                cx.counters.refused_address().add(1);
                None
            }
        }
    }

    fn budget(&self) -> Arc<Budget> {
        Arc::clone(&self.hub.budget)
    }

    fn is_full(&self) -> bool {
        self.hub.peers.total() >= self.hub.connections_max.load(Ordering::Relaxed)
    }

    fn grace(&self) -> Duration {
        self.hub.current().1.limits.grace
    }
}
