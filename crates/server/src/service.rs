//! The state that all workers share: the configuration in force, and how a new one takes its place while connections
//! continue.
//!
//! This file decides which state is shared and how it changes; it does not know requests or connections.

pub(crate) mod admin;
pub mod handler;

use crate::access::Gates;
use crate::adapt::{Decision, Decisions, Knobs, Sample, Settings};
use crate::client_address::Trusted;
use crate::conditional::Conditional;
use crate::config::{Config, Facts, LiveFor};
use crate::connection_limit::Peers;
use crate::control::Control;
use crate::counters::{Board, Readings, Totals};
use crate::field_rules::{FieldRules, RuledLines};
use crate::filter::{Filter, Filters};
use crate::host_counts::{HostCounts, HostReport};
use crate::hosts::{Hosts, MissingPage};
use crate::limits::Limits;
use crate::proxy::cache::{Purge, Purges};
use crate::proxy::{Forwarding, Proxies};
use crate::rate_limit::{Paces, Rate};
use crate::recorded::Recorded;
use crate::request_id::Ids;
use crate::request_limit::RequestLimits;
use crate::site::{OpenError, Site, Source};
use crate::store::StoreCounters;
use crate::traced::{SpanSink, Tracing};
use crate::waiting::Waiting;
use admin::AdminHandlers;
use core::fmt;
use handler::{Handler, Handlers};
use runtime::control::Inbox;
use runtime::memory::Budget;
use runtime::sensors::Reading;
use runtime::shaping::Precedence;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use units::{Duration, Instant, Seed, UnixTime};

/// Writes finished access log lines to their destination.
pub trait LogSink: Send + Sync + fmt::Debug {
    /// Takes complete lines. Returns an empty buffer for reuse, and the number of lines dropped because earlier ones
    /// could not be written.
    fn write(&self, lines: Vec<u8>, now: Instant) -> (Vec<u8>, u64);

    /// The same for the log at this index of [`Config::access_logs`]; [`LogSink::write`] is for the first. Without a
    /// definition, all lines go to one destination.
    fn write_to(&self, log: usize, lines: Vec<u8>, now: Instant) -> (Vec<u8>, u64) {
        let _ = log;
        self.write(lines, now)
    }
}

/// State shared with other processes that serve the same sites. None by default.
#[derive(Debug, Default)]
pub struct Interprocess {
    /// Connection counts, for common limits.
    pub peers: Peers,
    /// Counters, so that each process can report those of all.
    pub board: Board,
    /// Settings that adaptation changes. By default, it changes none.
    pub knobs: Knobs,
    /// Memory budget. No limit by default.
    pub budget: Arc<Budget>,
    /// Stored responses that operators dropped.
    pub purges: Purges,
}

/// How long a client may rely on `Alt-Svc`: a day, as RFC 7838 section 3.1 has it without `ma`.
const ALT_SVC_SECS: u32 = 86_400;

/// Filters and handlers that a program adds through this library. They stay across reloads.
#[derive(Clone, Debug, Default)]
pub struct Additions {
    /// Takes the spans of requests, if `otlp` is configured; `None`: requests are not traced.
    pub spans: Option<Arc<dyn SpanSink>>,
    /// Filters in order, after those of the configuration.
    pub filters: Vec<Arc<dyn Filter>>,
    /// Handlers by path, searched in order, before the server's own. A path that ends in a slash covers all paths below
    /// it.
    pub handlers: Vec<(String, Arc<dyn Handler>)>,
    /// Where commands for the operator go that come to the admin addresses, if `control` is set there; `None`: none are taken.
    pub control: Option<Inbox>,
    /// UDP port of HTTP/3, which responses over TLS name (`Alt-Svc`, RFC 7838); `None`: they do not.
    pub http3_port: Option<u16>,
}

/// A configuration in force, with its opened sites. Never changes; a reload makes a new one.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) config: Config,
    pub(crate) limits: Limits,
    pub(crate) http_limits: http1::Limits,
    pub(crate) http2_limits: Arc<http2::Limits>,
    pub(crate) http3_limits: Arc<http3::Limits>,
    pub(crate) ranges_max: u16,
    pub(crate) hosts: Arc<Hosts>,
    embedded: Source,
    additions: Additions,
    pub(crate) log: Option<Arc<dyn LogSink>>,
    /// Responses of each site; empty if they are not counted.
    pub(crate) host_counts: Vec<Arc<HostCounts>>,
    /// Handlers by path.
    pub(crate) handlers: Handlers,
    /// What answers at the admin addresses.
    pub(crate) admin: AdminHandlers,
    /// Access rules.
    pub(crate) gates: Gates,
    /// Rules with conditions.
    pub(crate) conditional: Conditional,
    /// Peers that name their client.
    pub(crate) trusted: Trusted,
    /// Limits on requests by path.
    pub(crate) request_limits: RequestLimits,
    /// Rules for field lines of responses that are no files.
    pub(crate) field_rules: FieldRules,
    /// The recording that answers in place of files, if there is one.
    pub(crate) recorded: Option<Recorded>,
    /// Routes to other servers.
    pub(crate) proxies: Proxies,
    /// Filters that run for each response.
    pub(crate) each_answer: Vec<Arc<dyn Filter>>,
    /// Whether response times are measured: for the live page, a recording, or `max-turn`.
    pub(crate) is_timed: bool,
    /// Whether log lines include the state of the TCP path.
    pub(crate) wants_path: bool,
    /// Request rate limit per address; `None`: no limit.
    pub(crate) rate: Option<Rate>,
    /// How requests are traced; `None`: they are not.
    pub(crate) tracing: Option<Tracing>,
    /// Whether known request heads are answered from memory without parsing them.
    pub(crate) uses_head_cache: bool,
    /// Content of up to this length is copied behind the header block.
    pub(crate) copied_max: u64,
    /// The port that requests in cleartext are redirected to; `None`: they are answered.
    pub(crate) https_port: Option<u16>,
    /// Lines for responses over TLS: `Strict-Transport-Security` and `Alt-Svc`, as far as there are any.
    pub(crate) secured_lines: Vec<u8>,
}

impl State {
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of a state, each made by its caller"
    )]
    fn new(
        own: OwnHandlers,
        config: Config,
        embedded: Source,
        additions: Additions,
        hosts: Hosts,
        log: Option<Arc<dyn LogSink>>,
        proxies: Proxies,
        before: Option<&State>,
    ) -> Result<State, OpenError> {
        let configs = hosts.places().iter().map(|place| &place.config);
        let gates = Gates::open(configs, before.map(|before| &before.gates));
        let gates = gates.map_err(OpenError::Users)?;
        let field_rules = FieldRules::of(hosts.places().iter().map(|place| &place.config));
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
        // Bodies for upstreams wait in the windows of their streams. Together they must fit that of the connection: otherwise
        // those that wait for an upstream connection could stop those that have one.
        let connection_window = match config.has_proxies() {
            true => limits
                .streams
                .saturating_mul(http2::Limits::DEFAULT.stream_window),
            false => 0,
        };
        let http2_limits = http2::Limits {
            streams_max: limits.streams,
            connection_window: connection_window
                .clamp(http2::Limits::DEFAULT.connection_window, i32::MAX.unsigned_abs()),
            list_bytes_max: cap(limits.head_size.0).saturating_mul(2),
            block_bytes_max: cap(limits.head_size.0).saturating_mul(2),
            // The four pseudo-fields, of which one becomes `Host`.
            fields_max: u16::try_from(limits.fields).unwrap_or(u16::MAX).saturating_add(3),
            block_time: limits.header_timeout,
            stall_time: limits.write_timeout,
            smallest_first: config
                .shaping()
                .is_some_and(|shaping| shaping.precedence == Precedence::Smallest),
            ..http2::Limits::DEFAULT
        };
        let http3_limits = http3::Limits {
            // The transport permits what it was told at start.
            streams_max: before.map_or(limits.streams, |before| before.http3_limits.streams_max),
            list_bytes_max: http2_limits.list_bytes_max,
            block_bytes_max: http2_limits.block_bytes_max,
            fields_max: http2_limits.fields_max,
            head_time: limits.header_timeout,
            stall_time: limits.write_timeout,
            smallest_first: http2_limits.smallest_first,
            ..http3::Limits::DEFAULT
        };
        let mut handlers = Handlers::default();
        for (at, handler) in &additions.handlers {
            handlers.add(at.as_str(), Arc::clone(handler));
        }
        let each_answer = Filters::for_each_answer(&additions.filters);
        let counted = before.map_or(&[][..], |before| &before.host_counts);
        let host_counts = HostCounts::of(&config, counted);
        let own = own(&config);
        for (at, handler) in own.public {
            handlers.add(at, handler);
        }
        let recorded = config.replay.as_deref();
        let recorded = recorded.map(|folder| Recorded::open(folder, config.cache_size));
        let recorded = recorded.transpose().map_err(OpenError::Replay)?;
        let recorded = match config.replay_delays {
            true => recorded.map(Recorded::with_delays),
            false => recorded,
        };
        let tracing = Tracing::of(&config, additions.spans.as_ref());
        let control = control_of(&config, &additions, before)?;
        let admin = AdminHandlers::open(&config, own.admin, control).map_err(OpenError::Token)?;
        Ok(State {
            rate: Rate::new(limits.request_rate, limits.request_burst),
            is_timed: config.live != LiveFor::Nobody
                || config.admin.is_some()
                || config.record.is_some()
                || crate::adapt::turn_max(&config).is_some(),
            copied_max: match config.behavior.split_head {
                true => 0,
                false => Limits::COPIED_BODY,
            },
            https_port: config.https_port(),
            secured_lines: secured_lines(&config, additions.http3_port),
            uses_head_cache: config.behavior.allows_head_cache()
                && each_answer.is_empty()
                && !config.logs_fields()
                && config.request_id.name().is_none()
                && tracing.is_none(),
            tracing,
            each_answer,
            additions,
            wants_path: config.log_tcp && log.is_some(),
            handlers,
            admin,
            gates,
            conditional: Conditional::of(hosts.places().iter().map(|place| &place.config)),
            trusted: Trusted::of(&config),
            request_limits: RequestLimits::of(hosts.places().iter().map(|place| &place.config)),
            field_rules,
            recorded,
            proxies,
            config,
            limits,
            http_limits,
            http2_limits: Arc::new(http2_limits),
            http3_limits: Arc::new(http3_limits),
            ranges_max,
            hosts: Arc::new(hosts),
            embedded,
            log,
            host_counts,
        })
    }

    /// Whether requests of some clients may have a route. `is_admin`: those at an admin address.
    #[inline]
    pub(crate) fn passes(&self, is_admin: bool) -> bool {
        !self.proxies.is_empty() || (is_admin && self.admin.control.is_some())
    }

    /// Lines of rules for the response of an upstream to a request for the site at this index.
    pub(crate) fn ruled(&self, site: usize, facts: Facts<'_, '_, '_>) -> RuledLines {
        let dependence = match self.conditional.is_empty() {
            true => None,
            false => {
                let access = || self.gates.conditional(site, facts.head);
                self.conditional.of_request(site, facts, access)
            }
        };
        self.field_rules.passed(site, facts, dependence.as_ref())
    }

    /// Begins what needs threads. A process calls this once it does not fork any more.
    pub(crate) fn awaken(&self) {
        self.proxies.awaken();
        self.gates.awaken();
        if let Some(control) = &self.admin.control {
            control.awaken();
        }
    }
}

/// What takes commands for the operator at the admin addresses; `None`: none are taken. A server that has begun without it
/// gets none by a reload: its drivers do not let sessions open the connections that commands need.
fn control_of(
    config: &Config,
    additions: &Additions,
    before: Option<&State>,
) -> Result<Option<Arc<Control>>, OpenError> {
    if !config.admin.as_ref().is_some_and(|admin| admin.control) {
        return Ok(None);
    }
    if let Some(before) = before {
        return Ok(before.admin.control.clone());
    }
    let opened = additions.control.clone().map(Control::open).transpose();
    Ok(opened.map_err(OpenError::Control)?.map(Arc::new))
}

/// See [`State::secured_lines`].
fn secured_lines(config: &Config, http3_port: Option<u16>) -> Vec<u8> {
    let mut lines = String::new();
    if let Some(value) = config.hsts_in_force().value() {
        lines += &format!("Strict-Transport-Security: {value}\r\n");
    }
    if let Some(port) = http3_port {
        lines += &format!("Alt-Svc: h3=\":{port}\"; ma={ALT_SVC_SECS}\r\n");
    }
    lines.into()
}

/// Makes the handlers that a server has of its own with a configuration, by path. They are searched after those that a
/// program adds.
pub(crate) type OwnHandlers = fn(&Config) -> Own;

/// Handlers by path.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// At all addresses but those of `admin`.
    pub(crate) public: Vec<(&'static str, Arc<dyn Handler>)>,
    /// At those.
    pub(crate) admin: Vec<(&'static str, Arc<dyn Handler>)>,
}

/// State shared by all workers.
#[derive(Debug)]
pub(crate) struct Hub {
    state: Mutex<Arc<State>>,
    own: OwnHandlers,
    /// Incremented by each reload, after `state` was replaced.
    pub(crate) generation: AtomicU64,
    pub(crate) peers: Peers,
    /// Those of `peers` that are at the admin addresses: no other process has these.
    pub(crate) admin_peers: Peers,
    /// Connections of this process whose TLS handshake is not complete.
    pub(crate) handshakes: Peers,
    pub(crate) budget: Arc<Budget>,
    /// See [`Interprocess::purges`].
    purges: Purges,
    /// Connection limit of the state in force, for accepting threads.
    pub(crate) connections_max: AtomicU32,
    /// See [`Limits::accepts_per_turn`], of the state in force.
    pub(crate) accepts_max: AtomicU32,
    pub(crate) paces: Paces,
    /// Ids of requests.
    pub(crate) ids: Ids,
    /// Jobs waiting for the disk.
    pub(crate) waiting: Arc<Waiting>,
    pub(crate) board: Board,
    pub(crate) knobs: Knobs,
    pub(crate) seed: Seed,
    /// Whether sessions may open connections: whether there was a route at start.
    pub(crate) dials: bool,
    ready: AtomicBool,
    about: Mutex<About>,
}

/// Facts about the server that its caller provides.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The strategy, in words.
    pub strategy: String,
    /// Start of the server.
    pub started: UnixTime,
    /// ID of this process, if it is one of several.
    pub process: Option<u32>,
    /// The certificates in use.
    pub certificates: Vec<Certificate>,
}

/// What is shown of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The first name that it is for.
    pub name: String,
    /// The end of its validity (RFC 5280 section 4.1.2.5).
    pub expires: UnixTime,
}

impl Hub {
    /// The state in force, with its generation.
    pub(crate) fn current(&self) -> (u64, Arc<State>) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (self.generation.load(Ordering::Relaxed), Arc::clone(&state))
    }

    /// Ends the count of a connection of `ip` that was counted by [`Peers::enter`], at an admin address if it `is_admin`.
    pub(crate) fn leave(&self, ip: IpAddr, is_admin: bool) {
        if is_admin {
            self.admin_peers.leave(ip);
        }
        self.peers.leave(ip);
    }

    /// Publishes the cache's counters to the other processes, if any.
    pub(crate) fn tell_cache(&self) {
        if self.board.is_among() {
            let (_, state) = self.current();
            self.board
                .tell_cache(&state.hosts.cache(), state.config.cache_size.0);
        }
    }
}

/// The file server. Clones refer to the same server.
#[derive(Clone, Debug)]
pub struct Server {
    pub(crate) hub: Arc<Hub>,
    /// Whether its connections are those of the admin addresses.
    pub(crate) is_admin: bool,
}

impl Server {
    /// A server of `config` with the handlers that `own` makes for it, at its start and at each reload.
    ///
    /// # Errors
    /// The root that cannot be opened, and the reason.
    pub(crate) fn with_handlers(
        own: OwnHandlers,
        additions: Additions,
        interprocess: Interprocess,
        config: Config,
        embedded: Source,
        log: Option<Arc<dyn LogSink>>,
        seed: Seed,
    ) -> Result<Server, OpenError> {
        let hosts = Hosts::open(&config, &embedded, &additions.filters, None)?;
        let proxies = Proxies::of(&config, &hosts, None, &interprocess.purges)?;
        let state = State::new(own, config, embedded, additions, hosts, log, proxies, None)?;
        let dials = !state.proxies.is_empty();
        Ok(Server {
            is_admin: false,
            hub: Arc::new(Hub {
                connections_max: AtomicU32::new(state.config.max_connections),
                accepts_max: AtomicU32::new(state.limits.accepts_per_turn()),
                state: Mutex::new(Arc::new(state)),
                own,
                generation: AtomicU64::new(0),
                peers: interprocess.peers,
                admin_peers: Peers::default(),
                handshakes: Peers::default(),
                budget: interprocess.budget,
                purges: interprocess.purges,
                paces: Paces::default(),
                ids: Ids::new(seed),
                waiting: Arc::default(),
                board: interprocess.board,
                knobs: interprocess.knobs,
                seed,
                dials,
                ready: AtomicBool::new(true),
                about: Mutex::default(),
            }),
        })
    }

    /// Puts another configuration in force. New responses follow it; responses under way finish with the old one. A
    /// site without changes keeps its cache.
    ///
    /// # Errors
    /// The root that cannot be opened; the old configuration then stays in force.
    pub fn reload(&self, mut config: Config, log: Option<Arc<dyn LogSink>>) -> Result<(), OpenError> {
        let (_, before) = self.hub.current();
        if !self.hub.dials {
            config.keep_proxies_out();
        }
        let embedded = before.embedded.clone();
        let additions = before.additions.clone();
        let hosts = Hosts::open(&config, &embedded, &additions.filters, Some(&*before.hosts))?;
        let own = self.hub.own;
        let proxies = Proxies::of(&config, &hosts, Some(&before.proxies), &self.hub.purges)?;
        let state = State::new(
            own,
            config,
            embedded,
            additions,
            hosts,
            log,
            proxies,
            Some(&before),
        );
        let state = Arc::new(state?);
        let mut current = self.hub.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.hub
            .connections_max
            .store(state.limits.connections, Ordering::Relaxed);
        self.hub
            .accepts_max
            .store(state.limits.accepts_per_turn(), Ordering::Relaxed);
        *current = state;
        self.hub.generation.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Drops responses of upstreams that are stored. Returns how many this process had. Only one thread may call this.
    /// It blocks while files of a cache on disk are removed.
    pub fn purge(&self, what: &Purge, now: UnixTime) -> u64 {
        self.hub.current().1.proxies.purge(what, &self.hub.purges, now)
    }

    /// The configuration in force.
    pub fn config(&self) -> Config {
        self.hub.current().1.config.clone()
    }

    /// Whether this peer is believed when it names its client.
    pub fn trusts(&self, peer: IpAddr) -> bool {
        self.hub.current().1.trusted.includes(peer)
    }

    /// See [`crate::limits::Limits::header_timeout`].
    pub fn header_timeout(&self) -> Duration {
        self.hub.current().1.limits.header_timeout
    }

    /// What the routes to other servers are like now: by rule and upstream, in the process that answers.
    pub(crate) fn upstreams(&self) -> Vec<Forwarding> {
        self.hub.current().1.proxies.report()
    }

    /// What each folder for uploads has taken, in the process that answers.
    pub(crate) fn uploads(&self) -> Vec<(String, crate::uploads::Counts)> {
        self.hub.current().1.proxies.uploads_report()
    }

    /// What the caches of these routes have done and hold, in the process that answers.
    pub(crate) fn caches(&self) -> Vec<(String, crate::proxy::cache::Report)> {
        self.hub.current().1.proxies.cache_reports()
    }

    /// What the servers of `auth` have answered, in the process that answers.
    pub(crate) fn auth_decisions(&self) -> Vec<crate::access::DecisionReport> {
        self.hub.current().1.gates.decisions()
    }

    /// Responses by host, if they are counted, in the process that answers.
    pub(crate) fn host_reports(&self) -> Vec<HostReport> {
        let (_, state) = self.hub.current();
        state.host_counts.iter().map(|counts| counts.report()).collect()
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

    /// Cache counters of all sites in this process.
    pub(crate) fn cache(&self) -> StoreCounters {
        self.hub.current().1.hosts.cache()
    }

    /// Counters summed over all workers.
    pub fn totals(&self) -> Totals {
        self.hub.board.read().totals()
    }

    /// Counters of all workers in all processes. Response times are measured only with [`Config::live`],
    /// [`Config::record`] or [`Config::max_turn`].
    pub fn readings(&self) -> Readings {
        self.hub.tell_cache();
        self.hub.board.read()
    }

    /// Whether the server wants requests: it has not been told to stop, and the roots of all sites can be opened. The
    /// state of the roots is less than a second old if this is called that often.
    pub fn is_ready(&self) -> bool {
        !self.is_stopping() && self.hub.current().1.hosts.are_reachable()
    }

    /// The memory budget of this process.
    pub fn budget(&self) -> &Budget {
        &self.hub.budget
    }

    /// Whether the server was told to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        !self.hub.ready.load(Ordering::Relaxed)
    }

    /// Sets whether the server wants requests, apart from its roots. Load balancers see this as readiness.
    pub fn set_ready(&self, ready: bool) {
        self.hub.ready.store(ready, Ordering::Relaxed);
    }

    /// Puts settings in force and records the decisions behind them. `wall` is the time shown with these.
    pub fn adapt(&self, settings: Settings, decisions: &[Decision], wall: UnixTime) {
        self.hub.knobs.set(settings);
        self.hub.knobs.note(decisions, true, wall);
    }

    /// Records decisions of a dry run, which change no settings. `wall` is the time shown with them.
    pub fn would_adapt(&self, decisions: &[Decision], wall: UnixTime) {
        self.hub.knobs.note(decisions, false, wall);
    }

    /// The last decisions, from whichever process of this server decides.
    pub fn decisions(&self) -> Decisions {
        self.hub.knobs.decisions()
    }

    /// Settings that differ from the configuration now.
    pub fn settings(&self) -> Settings {
        self.hub.knobs.settings()
    }

    /// Number of changes made by adaptation.
    pub fn changes(&self) -> u64 {
        self.hub.knobs.change()
    }

    /// A sample for adaptation, made from this reading and the counters.
    pub fn sample(&self, reading: Reading) -> Sample {
        let readings = self.readings();
        Sample {
            reading,
            totals: readings.totals(),
            open: self.open_connections(),
            durations: readings.durations,
        }
    }

    /// Configured pages for errors and unknown paths that do not exist. Reads the pages.
    pub fn missing_pages(&self, now: Instant, wall: UnixTime) -> Vec<MissingPage> {
        let (_, state) = self.hub.current();
        state.hosts.missing_pages(&state.config, now, wall)
    }

    /// Warnings of files with passwords: of weak hashes, and of users that a rule admits and its file does not have.
    pub fn password_warnings(&self) -> Vec<String> {
        self.hub.current().1.gates.password_warnings()
    }

    /// The facts set by [`Server::set_about`].
    pub fn about(&self) -> About {
        self.hub
            .about
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Sets the facts that the server cannot know itself.
    pub fn set_about(&self, about: About) {
        *self.hub.about.lock().unwrap_or_else(PoisonError::into_inner) = about;
    }

    pub(crate) fn of(hub: &Arc<Hub>) -> Server {
        Server {
            hub: Arc::clone(hub),
            is_admin: false,
        }
    }

    /// The same server, for connections at the admin addresses.
    pub fn at_admin(&self) -> Server {
        Server {
            hub: Arc::clone(&self.hub),
            is_admin: true,
        }
    }

    /// Number of open connections.
    pub fn open_connections(&self) -> u32 {
        self.hub.peers.total()
    }

    /// Number of this process's jobs that wait for the disk or are under way.
    pub fn jobs_waiting(&self) -> u32 {
        self.hub.waiting.now()
    }

    /// Number of addresses with open connections.
    pub fn open_addresses(&self) -> usize {
        self.hub.peers.addresses()
    }
}
