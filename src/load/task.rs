//! The task of a run: its users or arrivals, this machine's share, and what each thread gets. Does not decide how
//! requests are made, and sends none.

use super::address::{Url, paths};
use super::content;
use super::manifest;
use super::negotiate;
use super::place::Place;
use super::replay::{self, Replay};
use super::scenario;
use crate::cli::load::{AskedFlags, HowFlags, PlanFlags, RunFlags};
use crate::failure::Failure;
use crate::secure::{self, Secure};
use ::load::arrivals::{Arrivals, Process, Schedule};
use ::load::crew::{Model, Setup, Sharing};
use ::load::limits::USERS_MAX;
use ::load::manifest::{Digesting, Kind, Manifest};
use ::load::plan::{Layout, Population, Request};
use ::load::request_source::{Dealt, RequestSource, Step};
use ::load::requests::{arriving, clients};
use ::load::run::{Share, StepName};
use ::load::scenario::Script;
use ::load::shares::{Expected, expected};
use ::load::surge::Surge;
use ::load::webstone::List;
use ::load::weights::Weights;
use ::load::work::Work;
use client::extra;
use client::plan::Mode;
use client::session::{Ending, Verb, Version, content_length};
use client::streamed::STREAMS_MAX;
use client::streams::STREAM_WINDOW;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use tls::policy::Policy;
use units::{Duration, Seed};

/// Descriptors per thread, and for the process, that are not connections.
const OWN_DESCRIPTORS: u64 = 16;
/// Largest number of requests in the scripts of all users: 24 bytes each.
const STEPS_MAX: usize = 40_000_000;
/// Default response time of clients in a plan; more than zero, because clients never sleep.
const CLIENT_NOMINAL: Duration = Duration::from_millis(10);
/// Default for `--connections`.
const CONNECTIONS: u32 = 1000;
/// Content that is not verified is not looked at from so many bytes on. A file of 1 MiB then costs the client 110 µs instead of 172, one of
/// 5 MiB 550 instead of 1,400; but one of 50 KiB cost 13.8 instead of 11.6, as it is found complete less often.
const UNSEEN_FROM: u64 = 256 << 10;
/// Time between the starts of two users in the original (document 000), and the largest default.
const STAGGER: Duration = Duration::from_millis(50);
/// Default `User-Agent`.
const USER_AGENT: &str = concat!("weir/", env!("CARGO_PKG_VERSION"));

/// The source of requests: users, clients or arrivals.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Who {
    Users(u32),
    Clients(u32),
    Sessions(Schedule, Process),
    Rate(Schedule, Process),
    /// The requests of a log.
    Replay,
}

impl Who {
    /// Whether this is a closed loop: every request waits for the previous response.
    pub(super) fn is_closed(&self) -> bool {
        match self {
            Who::Users(_) | Who::Clients(_) => true,
            Who::Sessions(..) | Who::Rate(..) | Who::Replay => false,
        }
    }
}

/// The source of objects.
#[derive(Debug)]
pub(super) enum What {
    Surge(Box<Surge>),
    Webstone(List),
    /// All objects in turn.
    Each,
    /// All objects, drawn by weight.
    Weighted(Weights),
    /// The requests of a log at their times.
    Log(Replay),
    /// The scenarios of a file.
    Scenarios(Arc<Script>),
}

/// A run before its start: server, workload, users and seed.
#[derive(Debug)]
pub(crate) struct Task {
    pub(super) url: Url,
    /// TLS of a run against an https URL.
    pub(super) secure: Option<Secure>,
    pub(super) work: Arc<Work>,
    pub(super) what: What,
    pub(crate) who: Who,
    pub(super) mode: Mode,
    pub(super) seed: Seed,
    /// Content of every request.
    pub(super) content: Option<Arc<[u8]>>,
}

/// The work of this machine's threads, and the shares of all machines.
#[derive(Debug)]
pub(super) struct Split {
    pub(super) models: Vec<Model>,
    pub(super) shares: Vec<Share>,
    /// Arrivals within the measured time over all machines; none in a closed loop.
    pub(super) drawn: Option<u64>,
}

impl Task {
    /// The task from the flags of a run.
    pub(super) fn of(flags: &RunFlags) -> Result<Task, Failure> {
        let url = Url::read(flags.url.as_deref().unwrap_or_default())?;
        let secure = match url.is_secure {
            true => Some(Secure::new(&flags.tls, secure::host(&url.authority))?),
            false => Secure::none(&flags.tls).map(|()| None)?,
        };
        let mut task = Task::from(url, &flags.asked, &flags.how, flags.seed, None)?;
        if let Some(secure) = &secure
            && flags.how.named_mode().is_none()
            && flags.how.connections_per_user == 1
            && task.mode == Mode::Serial
            && negotiate::chooses_http2(task.url.resolve()?, secure)
        {
            task.mode = Mode::Http2;
        }
        task.secure = match task.mode {
            Mode::Http2 => secure.as_ref().map(Secure::for_http2),
            Mode::Http3 => {
                let Some(secure) = &secure else {
                    return Err(Failure::Usage(
                        "`--mode h3` needs an https URL: HTTP/3 always has TLS".to_owned(),
                    ));
                };
                Some(secure.for_http3(STREAM_WINDOW)?)
            }
            _ => secure,
        };
        Ok(task)
    }

    /// The task from the flags of a plan; without another source of objects, the workload they describe.
    pub(crate) fn planned(flags: &PlanFlags) -> Result<Task, Failure> {
        let (asked, workload) = (&flags.asked, &flags.workload);
        if asked.scenario.is_some() {
            return Err(Failure::Usage(
                "a plan of --scenario does not exist: its requests depend on responses".to_owned(),
            ));
        }
        if flags.how.slo.is_some() {
            tracing::warn!(
                "--slo tests several loads, chosen by measurement: this is the plan of the first trial"
            );
        }
        let named = flags.url.is_some() || asked.urls.is_some() || asked.replay.is_some();
        let described = if !named && asked.site.is_none() {
            let surge = Surge::new(workload.parameters()?, workload.seed());
            Some(surge.map_err(|error| Failure::Usage(error.to_string()))?)
        } else if workload.describes() {
            return Err(Failure::Usage(
                "`--site`, `--urls`, `--replay` or a URL defines the workload; omit the flags that describe one"
                    .to_owned(),
            ));
        } else {
            None
        };
        let url = Url::read(flags.url.as_deref().unwrap_or("http://localhost/"))?;
        Task::from(url, asked, &flags.how, workload.seed, described)
    }

    fn from(
        url: Url,
        flags: &AskedFlags,
        how: &HowFlags,
        seed: Option<u64>,
        described: Option<Surge>,
    ) -> Result<Task, Failure> {
        let whole = flags
            .urls
            .as_ref()
            .map(|_| "--urls")
            .or(flags.replay.as_ref().map(|_| "--replay"));
        if let Some(flag) = whole.filter(|_| flags.site.is_none() && url.path != "/") {
            return Err(Failure::Usage(format!(
                "`{flag}` gives full paths, so `{}` of the URL would not be requested; omit it, and put it in front of those paths if \
                 they are below it",
                url.path.escape_debug()
            )));
        }
        let site = flags.site.as_deref().map(manifest::read).transpose()?;
        let script = flags.scenario.as_deref().map(|file| {
            single(how, &url)?;
            let around = scenario::Around {
                is_secure: url.is_secure,
                authority: &url.authority,
                user_agent: USER_AGENT,
                headers: &how.header,
                seed: Seed(seed.unwrap_or(1)),
            };
            scenario::read(file, &around).map(Arc::new)
        });
        let script = script.transpose()?;
        let (work, what) = match (&site, &flags.urls, &flags.replay) {
            _ if script.is_some() => {
                let script = script.expect("it is there");
                (scenario::work(&script), What::Scenarios(script))
            }
            (Some((name, manifest)), ..) => (
                Work::of_manifest(manifest, &url.folder()),
                What::of_manifest(name, manifest)?,
            ),
            (None, Some(file), _) => {
                let (work, weights) = paths(file)?;
                (work, weights.map_or(What::Each, What::Weighted))
            }
            (None, None, Some(log)) => {
                let (work, replay) = replay::read(log, flags.speed.unwrap_or(1.0))?;
                let beyond = replay.times.len() - replay.times.partition_point(|&at| at < flags.duration);
                if beyond > 0 {
                    tracing::warn!(
                        "{beyond} of the {} requests in {} are later than --duration {:?} and are not replayed",
                        replay.times.len(),
                        log.display(),
                        flags.duration
                    );
                }
                (work, What::Log(replay))
            }
            (None, None, None) => match described {
                Some(surge) => (Work::of_surge(&surge, "/"), What::Surge(Box::new(surge))),
                None => (Work::of_paths([url.path.clone()]), What::Each),
            },
        };
        let arrives = flags.rate.is_some() || flags.sessions.is_some();
        if flags.arrivals.is_some() && !arrives {
            return Err(Failure::Usage(
                "`--arrivals` needs --rate or --sessions".to_owned(),
            ));
        }
        let process = flags.arrivals.unwrap_or(Process::Poisson);
        let who = match (flags.users, flags.clients, &flags.sessions, &flags.rate) {
            _ if matches!(what, What::Log(_)) => Who::Replay,
            (Some(users), ..) => Who::Users(users),
            (_, Some(clients), ..) => Who::Clients(clients),
            (.., Some(sessions), _) => Who::Sessions(sessions.clone(), process),
            (.., Some(rate)) => Who::Rate(rate.clone(), process),
            _ if matches!(what, What::Surge(_)) => Who::Users(40),
            _ if matches!(what, What::Scenarios(_)) => Who::Users(10),
            _ => Who::Clients(10),
        };
        let usage = |why: String| Err(Failure::Usage(why));
        match who {
            Who::Users(n) | Who::Clients(n) if n == 0 || n > USERS_MAX => {
                let flag = match who {
                    Who::Users(_) => "--users",
                    _ => "--clients",
                };
                return usage(format!("`{flag}` is {n}; it must be 1 to {USERS_MAX}"));
            }
            Who::Users(_) if matches!(what, What::Scenarios(_)) => {}
            Who::Users(_) | Who::Sessions(..) if !matches!(what, What::Surge(_)) => {
                return usage(
                    "`--users` and `--sessions` need the OFF times of a Surge site; give its --site"
                        .to_owned(),
                );
            }
            _ => {}
        }
        if flags.speed.is_some() && flags.replay.is_none() {
            return usage("`--speed` needs --replay".to_owned());
        }
        begin(&who, flags)?;
        if how.connections.is_some() && !matches!(who, Who::Rate(..) | Who::Replay) {
            return usage(
                "`--connections` needs --rate or --replay; users and clients have connections of their own (--connections-per-user)"
                    .to_owned(),
            );
        }
        let verb = how.verb();
        if how.verify && (verb != Verb::GET || how.asks_for_coded()) {
            return usage(
                "`--verify` compares content with the manifest: a response to HEAD has none, one to a method other than GET has its \
                 own, and with Accept-Encoding it may be in another coding"
                    .to_owned(),
            );
        }
        let content = how.body.as_deref().map(content::read).transpose()?;
        if content.is_some() && !verb.permits_content() {
            return usage(format!(
                "`--body` with --method {verb}: such a request must not have content; omit --body"
            ));
        }
        extra::lines("", "", &how.header).map_err(|why| Failure::Usage(format!("--header: {why}")))?;
        let mode = how.named_mode().unwrap_or(match what {
            What::Webstone(_) => Mode::Http10,
            What::Surge(_) | What::Each | What::Weighted(_) | What::Log(_) | What::Scenarios(_) => {
                Mode::Serial
            }
        });
        if let What::Scenarios(script) = &what {
            scripted(script, &who, mode)?;
        }
        if matches!(mode, Mode::Pipelined | Mode::EarlyClose) && !verb.is_idempotent() {
            return usage(format!(
                "`--mode {}` sends requests behind unanswered ones, which RFC 9112 section 9.3.2 advises against for {verb}; use \
                 --mode serial or h2",
                mode.name()
            ));
        }
        if !mode.is_multiplexed() && (how.users_per_connection > 1 || (how.streams as usize) < STREAMS_MAX) {
            return usage(
                "`--streams` and `--users-per-connection` need `--mode h2` or `--mode h3`".to_owned(),
            );
        }
        if mode.is_multiplexed() && how.connections_per_user > 1 {
            return usage(
                "`--connections-per-user` is for HTTP/1; with `--mode h2` and `--mode h3`, a user's requests share one connection (--streams)"
                    .to_owned(),
            );
        }
        let from_site = site.as_ref().map_or(Seed(1), |(_, manifest)| manifest.seed);
        Ok(Task {
            url,
            secure: None,
            work: Arc::new(work),
            what,
            who,
            mode,
            seed: seed.map_or(from_site, Seed),
            content,
        })
    }

    /// Time between the starts of two users; none if they do not start one after another.
    pub(super) fn stagger(&self, flags: &AskedFlags) -> Option<Duration> {
        match self.who {
            Who::Users(n) => Some(flags.stagger.unwrap_or_else(|| stagger(n, flags))),
            Who::Clients(_) | Who::Sessions(..) | Who::Rate(..) | Who::Replay => None,
        }
    }

    /// End of the measured time, from the start: that of the log if it is shorter.
    pub(super) fn counted(&self, flags: &AskedFlags) -> Duration {
        match &self.what {
            What::Log(replay) => replay.span.min(flags.duration),
            What::Surge(_) | What::Webstone(_) | What::Each | What::Weighted(_) | What::Scenarios(_) => {
                flags.span()
            }
        }
    }

    /// Mean rate set for the measured time, in objects per second.
    pub(super) fn rate_asked(&self, flags: &AskedFlags) -> Option<f64> {
        let Who::Rate(schedule, _) = &self.who else {
            return None;
        };
        let arrivals = schedule.expected(flags.span()) - schedule.expected(flags.warmup);
        Some(arrivals / flags.duration.as_secs_f64().max(1e-9))
    }

    /// Bytes of the content of every request.
    pub(crate) fn body_bytes(&self) -> Option<u64> {
        self.content.as_ref().map(|content| content.len() as u64)
    }

    /// The scenarios, if the run has some.
    fn script(&self) -> Option<&Arc<Script>> {
        match &self.what {
            What::Scenarios(script) => Some(script),
            _ => None,
        }
    }

    /// Names of the steps, in the order of their numbers; empty without scenarios.
    pub(super) fn step_names(&self) -> Vec<StepName> {
        let scenarios = self.script().into_iter().flat_map(|script| {
            let steps = |scenario: &::load::scenario::Scenario| scenario.steps.clone();
            script.scenarios.iter().flat_map(move |scenario| {
                steps(scenario).map(move |step| (scenario, &script.steps[step as usize]))
            })
        });
        scenarios
            .map(|(scenario, step)| StepName {
                scenario: scenario.name.clone(),
                name: step.name.clone(),
            })
            .collect()
    }

    /// Statuses that count as success, in words.
    pub(super) fn accepted(&self, how: &HowFlags) -> String {
        match self.script() {
            Some(_) => "as each step expects".to_owned(),
            None => how.accepted().to_string(),
        }
    }

    /// Whether the run may end before its time, with the rows of a feed.
    pub(super) fn may_end(&self) -> bool {
        self.script().is_some_and(|script| script.starts_max().is_some())
    }

    /// Whether any object has more than one file, all known at once.
    pub(super) fn has_pages(&self) -> bool {
        self.script().is_none() && self.work.objects.iter().any(|files| files.len() > 1)
    }

    /// Largest number of users or clients on one of `size` machines.
    pub(super) fn lines(&self, size: u32) -> u32 {
        match self.who {
            Who::Users(n) | Who::Clients(n) => n.div_ceil(size),
            Who::Sessions(..) | Who::Rate(..) | Who::Replay => u32::MAX,
        }
    }

    /// Threads that have a connection to use, at most.
    pub(super) fn threads_max(&self, size: u32, how: &HowFlags) -> u32 {
        match self.who {
            Who::Users(_) | Who::Clients(_) => self.lines(size),
            Who::Sessions(..) | Who::Rate(..) | Who::Replay => how.connections.unwrap_or(CONNECTIONS),
        }
    }

    /// Whether users or clients keep a connection.
    pub(super) fn keeps(&self) -> bool {
        match self.who {
            Who::Users(_) => matches!(
                self.mode,
                Mode::Serial | Mode::Pipelined | Mode::Http2 | Mode::Http3
            ),
            Who::Clients(_) => true,
            Who::Sessions(..) | Who::Rate(..) | Who::Replay => false,
        }
    }

    /// Requests that a user has outstanding at once, on connections or streams of their own.
    fn lanes(&self, how: &HowFlags) -> u32 {
        if !self.mode.is_multiplexed() {
            return how.connections_per_user;
        }
        if self.script().is_some() {
            return 1;
        }
        let widest = self
            .work
            .objects
            .iter()
            .map(|files| files.len().saturating_sub(1))
            .max();
        let widest = widest.and_then(|files| u32::try_from(files).ok()).unwrap_or(1);
        widest.clamp(1, how.streams)
    }

    /// Connections of this many users or clients.
    pub(super) fn connections(&self, users: u64, how: &HowFlags) -> u64 {
        match self.mode {
            Mode::Http2 | Mode::Http3 => users.div_ceil(u64::from(how.users_per_connection)),
            _ => users.saturating_mul(u64::from(how.connections_per_user)),
        }
    }

    /// Checks that descriptors suffice for kept connections.
    pub(super) fn fits(
        &self,
        size: u32,
        how: &HowFlags,
        descriptors: u64,
        threads: usize,
    ) -> Result<(), Failure> {
        let room = room(descriptors, threads);
        let keeps = self.keeps();
        let lanes = how.connections_per_user;
        let lines = self.connections(u64::from(self.lines(size)), how);
        match self.who {
            Who::Users(n) | Who::Clients(n) if n < size => Err(Failure::Usage(format!(
                "{n} users or clients are too few for {size} machines"
            ))),
            Who::Sessions(..) | Who::Rate(..) | Who::Replay if lanes > 1 && !matches!(self.who, Who::Sessions(..)) => {
                Err(Failure::Usage(
                    "`--connections-per-user` is for --users, --sessions and --clients; arrivals share --connections".to_owned(),
                ))
            }
            Who::Users(_) | Who::Clients(_) if keeps && lines > room => {
                Err(Failure::Usage(format!(
                    "they keep {lines} connections in mode {}, and this process may open {descriptors} descriptors: \
                     raise `ulimit -n`, use fewer users or more machines (--size), or early-close or http10 for users who sleep",
                    self.mode.name()
                )))
            }
            _ => Ok(()),
        }
    }

    /// The settings that all threads share.
    ///
    /// # Errors
    /// `Usage` for conflicting header fields.
    pub(super) fn setup(&self, flags: &RunFlags) -> Result<Setup, Failure> {
        let version = match self.mode {
            Mode::Http10 => Version::Http10,
            Mode::Serial | Mode::Auto | Mode::Pipelined | Mode::EarlyClose | Mode::Http2 | Mode::Http3 => {
                Version::Http11
            }
        };
        let lines = extra::lines(&self.url.authority, USER_AGENT, &flags.how.header)
            .map_err(|why| Failure::Usage(format!("--header: {why}")))?;
        let verb = flags.how.verb();
        let content = self.content.as_deref();
        let sharing = self.mode.is_multiplexed().then(|| {
            let (host, regular) = lines.split_first().expect("Host is the first");
            let regular = regular
                .iter()
                .map(|(name, value)| (name.to_ascii_lowercase(), (*value).to_owned()));
            let length = content_length(&verb, content)
                .map(|length| ("content-length".to_owned(), length.to_string()));
            Arc::new(Sharing {
                streams_max: flags.how.streams as usize,
                users: flags.how.users_per_connection,
                scheme: if self.secure.is_some() { "https" } else { "http" },
                authority: host.1.to_owned(),
                fields: regular.chain(length).collect(),
                content: self.content.clone(),
            })
        });
        Ok(Setup {
            work: Arc::clone(&self.work),
            mode: self.mode,
            ending: Arc::new(Ending::with(version, verb.clone(), lines, content)),
            accept: flags.how.accepted(),
            lengths: verb.is_retrieval() && !flags.how.asks_for_coded(),
            warmup: flags.asked.warmup,
            duration: flags.asked.span(),
            counted: self.counted(&flags.asked),
            grace: flags.how.grace,
            timeout: flags.how.timeout,
            verify: flags.how.verify,
            unseen_from: UNSEEN_FROM,
            lanes: self.lanes(&flags.how),
            sharing,
            secured: self.secure.is_some(),
            script: self.script().cloned(),
            started: 0,
        })
    }

    /// Name of the workload.
    pub(super) fn workload(&self) -> &'static str {
        match self.what {
            What::Surge(_) => "surge",
            What::Webstone(_) => "webstone",
            What::Each => "each",
            What::Weighted(_) => "weighted",
            What::Log(_) => "replay",
            What::Scenarios(_) => "scenario",
        }
    }

    /// Name of the load model.
    pub(super) fn model(&self) -> &'static str {
        match self.who {
            Who::Users(_) => "users",
            Who::Clients(_) => "clients",
            Who::Sessions(..) => "sessions",
            Who::Rate(_, Process::Poisson) => "poisson",
            Who::Rate(_, Process::Constant) => "constant",
            Who::Replay => "replay",
        }
    }

    /// Digest of everything that determines the requests and their times, over all machines.
    pub(super) fn digest(&self, flags: &RunFlags) -> String {
        let mut out = Digesting::new(std::io::sink());
        let said = (|| {
            writeln!(
                out,
                "{} {} {:?} {} {} {} {} {}",
                self.workload(),
                self.mode.name(),
                self.who,
                self.seed.0,
                flags.asked.duration.as_nanos(),
                self.stagger(&flags.asked).unwrap_or(STAGGER).as_nanos(),
                flags.how.verify,
                flags.how.connections_per_user
            )?;
            if !flags.asked.warmup.is_zero() {
                writeln!(out, "warm-up {}", flags.asked.warmup.as_nanos())?;
            }
            // Features at their defaults add nothing, so old plans keep their digest.
            if let (Who::Clients(clients), What::Surge(_) | What::Each | What::Log(_)) =
                (&self.who, &self.what)
            {
                let (clients, len) = (*clients as usize, self.order().len());
                let step = stride(clients, len);
                if step != clients % len {
                    writeln!(out, "stride {step}")?;
                }
            }
            if flags.how.verb() != Verb::GET {
                writeln!(out, "{}", flags.how.verb())?;
            }
            if let Some(content) = &self.content {
                writeln!(out, "content {}", content.len())?;
                out.write_all(content)?;
            }
            if self.mode.is_multiplexed() {
                writeln!(out, "{} {}", flags.how.streams, flags.how.users_per_connection)?;
            }
            for line in &flags.how.header {
                writeln!(out, "{line}")?;
            }
            if self.url.is_secure {
                let versions = flags.tls.tls_versions.unwrap_or_default().name();
                writeln!(out, "TLS {versions} {}", flags.tls.no_resumption)?;
                if let Some(policy) = flags.tls.crypto.filter(|policy| *policy != Policy::default()) {
                    writeln!(out, "{policy}")?;
                }
            }
            if let Some(accept) = &flags.how.accept_status {
                writeln!(out, "{accept}")?;
            }
            for file in &self.work.files {
                writeln!(out, "{} {:?} {:?}", file.path, file.bytes, file.xxh3)?;
            }
            for object in &self.work.objects {
                writeln!(out, "{object:?}")?;
            }
            match &self.what {
                What::Surge(surge) => writeln!(out, "{}", ::load::site::sequence_digest(surge)),
                What::Log(replay) => writeln!(out, "{:?} {:?}", replay.times, replay.order),
                What::Webstone(list) => writeln!(out, "{list:?}"),
                What::Weighted(weights) => writeln!(out, "{weights:?}"),
                What::Scenarios(script) => writeln!(out, "{script:?}"),
                What::Each => Ok(()),
            }
        })();
        debug_assert!(said.is_ok(), "a sink takes everything");
        out.finish().1
    }

    /// References to each object in a whole pass, if a run takes a part of one.
    pub(crate) fn pass(&self) -> Option<Vec<u64>> {
        match &self.what {
            What::Surge(surge) => Some(surge.objects.iter().map(|object| object.references).collect()),
            What::Webstone(list) => Some(list.files().iter().map(|file| file.weight).collect()),
            What::Each | What::Weighted(_) | What::Log(_) | What::Scenarios(_) => None,
        }
    }

    /// Bytes of an object, if all lengths are known.
    pub(crate) fn object_bytes(&self, object: u32) -> Option<u64> {
        let files = self.work.objects.get(object as usize)?.iter();
        files.map(|&file| self.work.files[file as usize].bytes).sum()
    }

    /// The order in which objects are taken in turn: one pass.
    fn order(&self) -> Arc<[u32]> {
        match &self.what {
            What::Surge(surge) => surge.sequence().collect(),
            What::Log(replay) => Arc::clone(&replay.order),
            What::Webstone(_) | What::Each | What::Weighted(_) | What::Scenarios(_) => {
                (0..self.work.objects.len() as u32).collect()
            }
        }
    }

    /// Users or sessions of a Surge.
    fn population(&self, flags: &AskedFlags) -> Option<Population> {
        match &self.who {
            Who::Users(_) if self.script().is_some() => None,
            Who::Users(number) => Some(Population::Users {
                number: *number,
                stagger: self.stagger(flags).unwrap_or(STAGGER),
            }),
            Who::Sessions(schedule, process) => Some(Population::Sessions {
                schedule: schedule.clone(),
                process: *process,
            }),
            Who::Clients(_) | Who::Rate(..) | Who::Replay => None,
        }
    }

    /// The arrivals of a shard; none in a closed loop.
    fn process(&self, shard: u64, shards: u64) -> Option<Arrivals> {
        match (&self.who, &self.what) {
            (Who::Rate(schedule, process), _) => {
                Some(Arrivals::new(*process, schedule, self.seed, shard, shards))
            }
            (Who::Replay, What::Log(replay)) => {
                Some(Arrivals::given(Arc::clone(&replay.times), shard, shards))
            }
            _ => None,
        }
    }

    /// RequestSource of objects for arrivals.
    fn source(&self) -> RequestSource {
        match &self.what {
            What::Webstone(list) => RequestSource::Weighted(list.choices(self.seed, 0)),
            What::Weighted(weights) => RequestSource::Weighted(weights.choices(self.seed, 0)),
            What::Scenarios(_) => RequestSource::Starts { next: 0, stride: 1 },
            What::Surge(_) | What::Each | What::Log(_) => RequestSource::Turn {
                order: self.order(),
                next: 0,
                stride: 1,
            },
        }
    }

    /// RequestSource of objects for each client.
    fn supplies(&self, clients: u32) -> impl Fn(u32) -> RequestSource + '_ {
        let order = self.order();
        let stride = stride(clients as usize, order.len());
        move |client| match &self.what {
            What::Webstone(list) => RequestSource::Weighted(list.choices(self.seed, client)),
            What::Weighted(weights) => RequestSource::Weighted(weights.choices(self.seed, client)),
            What::Scenarios(_) => RequestSource::Starts {
                next: client.into(),
                stride: clients.into(),
            },
            What::Surge(_) | What::Each | What::Log(_) => RequestSource::Turn {
                next: client as usize % order.len(),
                stride,
                order: Arc::clone(&order),
            },
        }
    }

    /// The requests of all `size` machines, if every response takes `nominal`.
    pub(crate) fn requests(
        &self,
        flags: &AskedFlags,
        size: u32,
        nominal: Option<Duration>,
    ) -> Box<dyn Iterator<Item = Request> + '_> {
        if let (Some(who), What::Surge(surge)) = (self.population(flags), &self.what) {
            let layout = Layout {
                who,
                duration: flags.span(),
                nominal: nominal.unwrap_or(Duration::ZERO),
                size,
                seed: self.seed,
            };
            let placed = |request: Request| Request {
                path: self.work.files[request.file as usize].path.clone().into(),
                ..request
            };
            return Box::new(::load::plan::plan(surge, layout).map(placed));
        }
        if let Some(arrivals) = self.process(0, 1) {
            let dealt = Dealt::new(self.source());
            return Box::new(arriving(&self.work, dealt, arrivals, flags.span(), size));
        }
        let number = match self.who {
            Who::Clients(clients) | Who::Users(clients) => clients,
            Who::Sessions(..) | Who::Rate(..) | Who::Replay => 0,
        };
        let supplies = (0..number).map(self.supplies(number)).collect();
        let nominal = nominal.unwrap_or(CLIENT_NOMINAL);
        Box::new(clients(&self.work, supplies, flags.span(), nominal, size))
    }

    /// The work of each thread of this machine, and the shares of all machines.
    pub(super) fn split(&self, flags: &RunFlags, place: &Place, threads: usize) -> Result<Split, Failure> {
        match (self.population(&flags.asked), &self.what, &self.who) {
            (Some(who), What::Surge(surge), _) => self.scripts(surge, who, &flags.asked, place, threads),
            (_, _, Who::Users(clients) | Who::Clients(clients)) => {
                let stagger = self.stagger(&flags.asked).unwrap_or_default();
                Ok(self.clients(*clients, stagger, place, threads))
            }
            (_, _, Who::Sessions(..) | Who::Rate(..) | Who::Replay) => {
                let split = self.arrivals(flags, place, threads);
                let starts: u64 = split.shares.iter().filter_map(|share| share.objects).sum();
                match self.script().and_then(|script| script.starts_max()) {
                    Some(rows) if rows < starts => Err(Failure::Usage(format!(
                        "--rate starts {starts} scenarios, and a feed with order = \"once\" has {rows} rows; use more rows, a lower \
                         --rate or a shorter --duration"
                    ))),
                    _ => Ok(split),
                }
            }
        }
    }

    fn clients(&self, clients: u32, stagger: Duration, place: &Place, threads: usize) -> Split {
        let source = self.supplies(clients);
        let of_thread = |thread: u32| {
            (place.rank + place.size * thread..clients)
                .step_by(place.size as usize * threads)
                .map(|client| (stagger * client, source(client)))
        };
        let share = |rank| Share {
            users: u64::from((clients + place.size - 1 - rank) / place.size),
            objects: None,
            files: None,
            bytes: None,
        };
        Split {
            models: (0..threads as u32)
                .map(|thread| Model::Closed(of_thread(thread).collect()))
                .collect(),
            shares: (0..place.size).map(share).collect(),
            drawn: None,
        }
    }

    fn arrivals(&self, flags: &RunFlags, place: &Place, threads: usize) -> Split {
        let (rank, size) = (u64::from(place.rank), u64::from(place.size));
        // Each rank has every size-th arrival, and of these each thread every threads-th.
        let model = |thread: u64| {
            Some(Model::Open {
                arrivals: self.process(rank + size * thread, size * threads as u64)?,
                source: self.source(),
                lines_max: part(
                    flags.how.connections.unwrap_or(CONNECTIONS),
                    threads as u32,
                    thread as u32,
                )
                .saturating_mul(flags.how.users_per_connection),
            })
        };
        let Expected { shares, drawn } = expected(
            self.process(0, 1),
            Dealt::new(self.source()),
            &self.work,
            self.script().map(Arc::as_ref),
            [flags.asked.warmup, flags.asked.span()],
            place.size,
        );
        Split {
            models: (0..threads as u64).filter_map(model).collect(),
            shares,
            drawn: Some(drawn),
        }
    }

    /// Surge users with their planned requests.
    fn scripts(
        &self,
        surge: &Surge,
        who: Population,
        flags: &AskedFlags,
        place: &Place,
        threads: usize,
    ) -> Result<Split, Failure> {
        let layout = Layout {
            who,
            duration: flags.span(),
            nominal: Duration::ZERO,
            size: place.size,
            seed: self.seed,
        };
        let plan = ::load::plan::plan(surge, layout);
        let mut shares = vec![Share::NONE; place.size as usize];
        for user in 0..plan.users() {
            shares[(user % place.size) as usize].users += 1;
        }
        let mut scripts: BTreeMap<u32, (Duration, Vec<Step>)> = BTreeMap::new();
        let mut steps = 0;
        for request in plan {
            shares[request.rank as usize].add(&Share {
                users: 0,
                objects: Some(u64::from(request.intended_ns.is_some())),
                files: Some(1),
                bytes: request.size,
            });
            if request.rank != place.rank {
                continue;
            }
            steps += 1;
            if steps > STEPS_MAX {
                return Err(Failure::Usage(format!(
                    "the users of one machine request more than {STEPS_MAX} files in {} s; use fewer users, a shorter run or more machines",
                    flags.span().as_secs()
                )));
            }
            let start = Duration::from_nanos(request.intended_ns.unwrap_or(0));
            let script = scripts.entry(request.user).or_insert((start, Vec::new()));
            script.1.push(Step {
                file: request.file,
                begins: request.intended_ns.is_some(),
                last: request.last,
                off: Duration::from_nanos(request.off_ns),
            });
        }
        let mut models: Vec<Vec<(Duration, RequestSource)>> = (0..threads).map(|_| Vec::new()).collect();
        for (number, (start, steps)) in scripts.into_values().enumerate() {
            let steps = steps.into();
            models[number % threads].push((start, RequestSource::Script { steps, next: 0 }));
        }
        Ok(Split {
            models: models.into_iter().map(Model::Closed).collect(),
            shares,
            drawn: None,
        })
    }
}

/// Between the starts of two of so many users if nothing is said: all have begun when measuring does, or within the first
/// third of it if nothing goes before it, and none waits longer than in the original.
fn stagger(users: u32, flags: &AskedFlags) -> Duration {
    let within = if flags.warmup.is_zero() {
        flags.duration / 3
    } else {
        flags.warmup
    };
    (within / users.max(1)).min(STAGGER)
}

/// Connections possible with this number of descriptors and threads.
pub(super) fn room(descriptors: u64, threads: usize) -> u64 {
    descriptors.saturating_sub(OWN_DESCRIPTORS * (threads as u64 + 1))
}

/// Number of users that begin with this `--stagger`.
pub(super) fn begun(stagger: Duration, flags: &AskedFlags) -> u64 {
    let starts = flags.span().as_nanos().div_ceil(stagger.as_nanos().max(1));
    u64::try_from(starts).unwrap_or(u64::MAX)
}

/// Rejects flags that a step of a scenario says for itself, or that need a known sequence of requests.
fn single(how: &HowFlags, url: &Url) -> Result<(), Failure> {
    let flag = match how {
        HowFlags { method: Some(_), .. } => "--method",
        HowFlags { body: Some(_), .. } => "--body",
        HowFlags {
            accept_status: Some(_),
            ..
        } => "--accept-status",
        HowFlags { verify: true, .. } => "--verify",
        HowFlags { slo: Some(_), .. } => "--slo",
        HowFlags {
            connections_per_user: 2..,
            ..
        } => "--connections-per-user",
        _ if url.path != "/" => {
            return Err(Failure::Usage(format!(
                "the steps of --scenario say their paths, so `{}` of the URL would not be requested; omit it",
                url.path.escape_debug()
            )));
        }
        _ => return Ok(()),
    };
    Err(Failure::Usage(format!(
        "`{flag}` does not go with --scenario, whose steps say method, content and expected statuses and have one request \
         outstanding per user; omit it"
    )))
}

/// Checks that the load goes with its scenarios.
fn scripted(script: &Script, who: &Who, mode: Mode) -> Result<(), Failure> {
    if matches!(mode, Mode::Pipelined | Mode::EarlyClose) {
        return Err(Failure::Usage(format!(
            "`--mode {}` does not go with --scenario: a step waits for the one before; use serial, http10, h2 or h3",
            mode.name()
        )));
    }
    match who {
        Who::Rate(..) if script.keeps_cookies => Err(Failure::Usage(
            "`keep-cookies` needs --users or --clients: with --rate, every start is another user".to_owned(),
        )),
        _ => Ok(()),
    }
}

/// Checks that `--stagger` applies and lets all users begin.
fn begin(who: &Who, flags: &AskedFlags) -> Result<(), Failure> {
    let Some(stagger) = flags.stagger else {
        return Ok(());
    };
    let Who::Users(users) = *who else {
        return Err(Failure::Usage(
            "`--stagger` needs --users: clients all start at once, and sessions and objects arrive by their own process"
                .to_owned(),
        ));
    };
    let begun = begun(stagger, flags);
    if stagger.is_zero() || begun >= u64::from(users) {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "with --stagger {stagger:?}, only {begun} of {users} users begin before the end, after {:?}; omit --stagger, make it shorter than {:?}, or use a longer --duration",
        flags.span(),
        flags.span() / (users - 1).max(1)
    )))
}

impl What {
    fn of_manifest(name: &str, manifest: &Manifest) -> Result<What, Failure> {
        Ok(match manifest.kind {
            Kind::Surge => What::Surge(Box::new(manifest::surge(name, manifest)?)),
            Kind::Webstone => {
                let list = manifest.set.parse();
                What::Webstone(list.map_err(|why: String| Failure::Usage(format!("`{name}`: {why}")))?)
            }
            Kind::Microscape => What::Each,
        })
    }
}
/// How far a client goes on in a list of `len` for its next request: with no divisor in common, so that each client passes the whole
/// list.
fn stride(clients: usize, len: usize) -> usize {
    let mut steps = clients..;
    steps.find(|&step| divisor(step, len) == 1).unwrap_or(1) % len
}

/// The greatest common divisor.
fn divisor(mut one: usize, mut other: usize) -> usize {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// What one of `parts` gets of `all`.
fn part(all: u32, parts: u32, number: u32) -> u32 {
    all / parts + u32::from(number < all % parts)
}

#[cfg(test)]
mod tests {
    use super::{part, stride};
    use std::collections::BTreeSet;

    #[test]
    fn each_client_passes_the_whole_list() {
        for clients in 1..=20 {
            for len in 1..=20 {
                let step = stride(clients, len);
                let passed: BTreeSet<usize> = (0..len).map(|nth| nth * step % len).collect();
                assert_eq!(passed.len(), len, "{clients} clients, {len} objects");
            }
        }
    }

    #[test]
    fn threads_share_what_is_allowed() {
        for (all, parts) in [(1, 1), (20, 16), (1_000, 3)] {
            let shares = (0..parts).map(|number| part(all, parts, number));
            assert_eq!(shares.sum::<u32>(), all, "{all} in {parts}");
        }
    }
}
