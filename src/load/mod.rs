//! `weir load URL`: puts a workload, users and threads together, shows how it goes, and says what came of it.
//!
//! What users do `load` decides; here are flags, files, names of hosts, a terminal and words.

mod report;

use crate::cli::load::RunFlags;
use crate::cli::{Failure, Voice};
use crate::plan;
use ::load::arrivals::{Arrivals, Process};
use ::load::connections::Mode;
use ::load::crew::{Crew, Live, Model, Setup, Step, Supply};
use ::load::limits::USERS_MAX;
use ::load::manifest::{Kind, Manifest};
use ::load::plan::Layout;
use ::load::record::Record;
use ::load::surge::Surge;
use ::load::verdict::{Asked, Bounds, judge};
use ::load::webstone::List;
use ::load::work::Work;
use client::session::{Ending, Version};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use measure::{Duration, Instant, Seed};
use report::Report;
use runtime::dial::{self, Usage};
use runtime::signal::{Signal, Signals};
use runtime::{clock, machine};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How often the terminal is told how it goes.
const SHOWN_EVERY: Duration = Duration::from_millis(200);
/// Descriptors that are not connections, for each thread and for all.
const OWN_DESCRIPTORS: u64 = 16;
/// Requests that the scripts of all users may hold together: 24 bytes each.
const STEPS_MAX: usize = 40_000_000;
/// What requests say they are from.
const USER_AGENT: &str = concat!("weir/", env!("CARGO_PKG_VERSION"));

/// Runs the command to its end.
///
/// # Errors
/// `Usage` for what cannot be, `Invalid` for a run that cannot be trusted, `System` for what the system refuses.
pub(crate) fn run(flags: &RunFlags, voice: &Voice) -> Result<(), Failure> {
    voice.listen();
    let load = Load::of(flags)?;
    let peer = load.url.resolve()?;
    let threads = flags
        .threads
        .unwrap_or_else(machine::usable_cores)
        .clamp(1, load.lines().max(1) as usize);
    let descriptors = machine::raise_descriptor_limit();
    load.fits(descriptors, threads)?;
    let mut signals = Signals::take_over().map_err(|error| refused("signal handlers", &error))?;
    let setup = load.setup(flags);
    let live: Vec<Arc<Live>> = (0..threads).map(|_| Arc::default()).collect();
    let models = load.models(flags, threads)?;
    let crews = models.into_iter().zip(&live);
    let crews = crews.map(|(model, live)| Crew::new(setup.clone(), model, Arc::clone(live)));
    let running = dial::start(crews.collect(), peer).map_err(|error| refused("threads", &error))?;
    let began = clock::now();
    let stopped = watch(&running, &live, &mut signals, flags.duration, began, voice)?;
    let ended = running.join().map_err(|error| refused("a thread", &error))?;
    let mut record = Record::default();
    let mut usage: Vec<Usage> = Vec::new();
    for (crew, used) in ended {
        record.merge(&crew.into_record());
        usage.push(used);
    }
    let cpu: Vec<f64> = usage
        .iter()
        .map(|used| used.cpu.as_secs_f64() / used.wall.as_secs_f64().max(1e-9))
        .collect();
    let asked = Asked {
        duration: flags.duration,
        rate: flags.rate,
        paced: !matches!(load.who, Who::Clients(_)),
    };
    let bounds = Bounds {
        lag_max: flags.lag_max,
        failures_max: flags.failures_max,
        ..Bounds::DEFAULT
    };
    let stopped = stopped.map(|at| at.since(began));
    let verdict = judge(&record, &asked, &cpu, stopped, &bounds);
    let report = Report::new(&load, flags, peer, &record, &cpu, stopped, verdict);
    report.tell(voice, flags.out.as_deref())?;
    report.judged()
}

fn refused(what: &str, error: &std::io::Error) -> Failure {
    Failure::System(format!("{what}: {error}"))
}

/// Waits for the end, shows how it goes, and passes on a wish to stop; when that came, if it did.
fn watch(
    running: &dial::Running<Crew>,
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
    let (mut before, mut since) = (0, began);
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
        let sum = |of: fn(&Live) -> u64| live.iter().map(|live| of(live)).sum::<u64>();
        let files = sum(|live| live.files.load(Ordering::Relaxed));
        let span = now.since(since);
        bar.set_position(now.since(began).as_millis() as u64);
        if span >= Duration::from_secs(1) {
            let rate = (files - before) as f64 / span.as_secs_f64();
            bar.set_message(format!(
                "{rate:.0} files/s, {} active, {} in all, {} errors",
                sum(|live| live.active.load(Ordering::Relaxed)),
                measure::Bytes(sum(|live| live.bytes.load(Ordering::Relaxed))),
                sum(|live| live.errors.load(Ordering::Relaxed)),
            ));
            (before, since) = (files, now);
        }
    }
    bar.finish_and_clear();
    Ok(stopped)
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Who {
    Users(u32),
    Clients(u32),
    Rate(f64, Process),
}

/// What objects come from.
#[derive(Debug)]
enum What {
    Surge(Box<Surge>),
    Webstone(List),
    /// All objects in turn.
    Each,
}

/// A run before it begins.
#[derive(Debug)]
struct Load {
    url: Url,
    work: Arc<Work>,
    what: What,
    who: Who,
    mode: Mode,
    seed: Seed,
}

impl Load {
    fn of(flags: &RunFlags) -> Result<Load, Failure> {
        let url = Url::read(flags.url.as_deref().unwrap_or_default())?;
        let site = flags.site.as_deref().map(plan::manifest).transpose()?;
        let work = match (&site, &flags.urls) {
            (Some((_, manifest)), _) => Work::of_manifest(manifest, &url.folder()),
            (None, Some(file)) => paths(file)?,
            (None, None) => Work::of_paths([url.path.clone()]),
        };
        let what = match &site {
            Some((name, manifest)) => What::of_manifest(name, manifest)?,
            None => What::Each,
        };
        let who = match (flags.users, flags.clients, flags.rate) {
            (Some(users), ..) => Who::Users(users),
            (_, Some(clients), _) => Who::Clients(clients),
            (.., Some(rate)) => Who::Rate(rate, flags.arrivals.unwrap_or(Process::Poisson)),
            _ if matches!(what, What::Surge(_)) => Who::Users(40),
            _ => Who::Clients(10),
        };
        let usage = |why: String| Err(Failure::Usage(why));
        match who {
            Who::Users(n) | Who::Clients(n) if n == 0 || n > USERS_MAX => {
                return usage(format!("{n} users or clients; there may be 1 to {USERS_MAX}"));
            }
            Who::Users(_) if !matches!(what, What::Surge(_)) => {
                return usage(
                    "`--users` sleep as the models of a Surge say; name the --site of one".to_owned(),
                );
            }
            Who::Rate(rate, _) if !(rate > 0.0 && rate <= 1e7) => {
                return usage(format!(
                    "`--rate` is {rate}; it must lie between 0 and 10,000,000"
                ));
            }
            _ => {}
        }
        let mode = flags.mode.unwrap_or(match what {
            What::Webstone(_) => Mode::Http10,
            What::Surge(_) | What::Each => Mode::Serial,
        });
        let seed = site.as_ref().map_or(Seed(1), |(_, manifest)| manifest.seed);
        Ok(Load {
            url,
            work: Arc::new(work),
            what,
            who,
            mode,
            seed: flags.seed.map_or(seed, Seed),
        })
    }

    /// Lines that may have a connection at once.
    fn lines(&self) -> u32 {
        match self.who {
            Who::Users(n) | Who::Clients(n) => n,
            Who::Rate(..) => u32::MAX,
        }
    }

    /// Whether there are descriptors for those who keep a connection.
    fn fits(&self, descriptors: u64, threads: usize) -> Result<(), Failure> {
        let room = descriptors.saturating_sub(OWN_DESCRIPTORS * (threads as u64 + 1));
        let keeps =
            matches!(self.mode, Mode::Serial | Mode::Pipelined) || matches!(self.who, Who::Clients(_));
        match self.who {
            Who::Users(n) | Who::Clients(n) if keeps && u64::from(n) > room => Err(Failure::Usage(format!(
                "{n} of them keep a connection each in mode {}, and this process may have {descriptors} descriptors: \
                 raise `ulimit -n`, or use fewer, or early-close or http10 for users who sleep",
                self.mode.name()
            ))),
            _ => Ok(()),
        }
    }

    fn setup(&self, flags: &RunFlags) -> Setup {
        let version = match self.mode {
            Mode::Http10 => Version::Http10,
            Mode::Serial | Mode::Pipelined | Mode::EarlyClose => Version::Http11,
        };
        Setup {
            work: Arc::clone(&self.work),
            mode: self.mode,
            ending: Arc::new(Ending::new(version, &self.url.authority, USER_AGENT)),
            duration: flags.duration,
            grace: flags.grace,
            timeout: flags.timeout,
            verify: flags.verify,
        }
    }

    /// The order in which objects are taken in turn: one pass.
    fn order(&self) -> Arc<[u32]> {
        match &self.what {
            What::Surge(surge) => surge.sequence().collect(),
            What::Webstone(_) | What::Each => (0..self.work.objects.len() as u32).collect(),
        }
    }

    /// What each thread does.
    fn models(&self, flags: &RunFlags, threads: usize) -> Result<Vec<Model>, Failure> {
        match (self.who, &self.what) {
            (Who::Users(users), What::Surge(surge)) => self.users(surge, users, flags, threads),
            (Who::Users(clients) | Who::Clients(clients), what) => {
                let order = self.order();
                let supply = |client: u32| match what {
                    What::Webstone(list) => Supply::Weighted(list.choices(self.seed, client)),
                    What::Surge(_) | What::Each => Supply::Turn {
                        next: client as usize % order.len(),
                        stride: clients as usize % order.len(),
                        order: Arc::clone(&order),
                    },
                };
                let of_thread = |thread| {
                    (thread..clients)
                        .step_by(threads)
                        .map(|client| (Duration::ZERO, supply(client)))
                };
                Ok((0..threads as u32)
                    .map(|thread| Model::Closed(of_thread(thread).collect()))
                    .collect())
            }
            (Who::Rate(rate, process), what) => {
                let order = self.order();
                let model = |thread: usize| Model::Open {
                    arrivals: Arrivals::new(process, rate, self.seed, thread as u64, threads as u64),
                    supply: match what {
                        What::Webstone(list) => Supply::Weighted(list.choices(self.seed, 0)),
                        What::Surge(_) | What::Each => Supply::Turn {
                            order: Arc::clone(&order),
                            next: 0,
                            stride: 1,
                        },
                    },
                    lines_max: flags.connections.div_ceil(threads as u32),
                };
                Ok((0..threads).map(model).collect())
            }
        }
    }

    /// Surge users with what the plan gives each of them.
    fn users(
        &self,
        surge: &Surge,
        users: u32,
        flags: &RunFlags,
        threads: usize,
    ) -> Result<Vec<Model>, Failure> {
        let layout = Layout {
            users,
            duration: flags.duration,
            stagger: flags.stagger,
            nominal: Duration::ZERO,
            size: 1,
        };
        let mut scripts: Vec<Vec<Step>> = vec![Vec::new(); users as usize];
        for (count, request) in ::load::plan::plan(surge, layout).enumerate() {
            if count >= STEPS_MAX {
                return Err(Failure::Usage(format!(
                    "{users} users ask for more than {STEPS_MAX} files in {} s; use fewer, or a shorter run",
                    flags.duration.as_secs()
                )));
            }
            scripts[request.user as usize].push(Step {
                file: request.file,
                begins: request.intended_ns.is_some(),
                last: request.last,
                off: Duration::from_nanos(request.off_ns),
            });
        }
        let mut models: Vec<Vec<(Duration, Supply)>> = (0..threads).map(|_| Vec::new()).collect();
        for (user, steps) in scripts.into_iter().enumerate() {
            let start = flags.stagger * user as u32;
            let steps = steps.into();
            models[user % threads].push((start, Supply::Script { steps, next: 0 }));
        }
        Ok(models.into_iter().map(Model::Closed).collect())
    }
}

impl What {
    fn of_manifest(name: &str, manifest: &Manifest) -> Result<What, Failure> {
        Ok(match manifest.kind {
            Kind::Surge => What::Surge(Box::new(plan::surge(name, manifest)?)),
            Kind::Webstone => {
                let list = manifest.set.parse();
                What::Webstone(list.map_err(|why: String| Failure::Usage(format!("`{name}`: {why}")))?)
            }
            Kind::Microscape => What::Each,
        })
    }
}

/// The paths of a file, one a line; empty lines and those that begin with `#` are passed over.
fn paths(file: &std::path::Path) -> Result<Work, Failure> {
    let name = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::Usage(format!("cannot read the paths in `{name}`: {error}")))?;
    let mut paths = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if !line.starts_with('/') || line.bytes().any(|byte| !byte.is_ascii_graphic()) {
            return Err(Failure::Usage(format!(
                "`{name}` line {}: `{}` is no path; one begins with / and has no space",
                number + 1,
                line.escape_debug()
            )));
        }
        paths.push(line.to_owned());
    }
    if paths.is_empty() {
        return Err(Failure::Usage(format!("`{name}` has no path")));
    }
    Ok(Work::of_paths(paths))
}

/// Where the server is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Url {
    /// As `Host` says it.
    authority: String,
    path: String,
}

impl Url {
    fn read(text: &str) -> Result<Url, Failure> {
        let fault = |why: &str| Failure::Usage(format!("`{}`: {why}", text.escape_debug()));
        let rest = match text.split_once("://") {
            Some(("http", rest)) => rest,
            Some(("https", _)) => return Err(fault("this program does not speak TLS; name an http URL")),
            Some(_) => return Err(fault("is no http URL")),
            None => text,
        };
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        if authority.is_empty() || rest.bytes().any(|byte| !byte.is_ascii_graphic()) {
            return Err(fault("is no http URL; one looks like http://localhost:8080/"));
        }
        let path = path.split('#').next().unwrap_or(path);
        Ok(Url {
            authority: authority.to_owned(),
            path: path.to_owned(),
        })
    }

    /// The path up to its last slash.
    fn folder(&self) -> String {
        let end = self.path.rfind('/').map_or(0, |at| at + 1);
        self.path[..end].to_owned()
    }

    /// The first address of the host.
    fn resolve(&self) -> Result<SocketAddr, Failure> {
        let host = &self.authority;
        let has_port = host
            .rsplit_once(':')
            .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
        let name = if has_port {
            host.clone()
        } else {
            format!("{host}:80")
        };
        let mut addresses = name
            .to_socket_addrs()
            .map_err(|error| Failure::Usage(format!("cannot find the host `{host}`: {error}")))?;
        addresses
            .next()
            .ok_or_else(|| Failure::Usage(format!("the host `{host}` has no address")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        for (text, authority, path, folder) in [
            ("http://localhost:8080", "localhost:8080", "/", "/"),
            ("http://h/a/b.html?x=1#y", "h", "/a/b.html?x=1", "/a/"),
            ("127.0.0.1:80/x", "127.0.0.1:80", "/x", "/"),
            ("http://[::1]:9/", "[::1]:9", "/", "/"),
        ] {
            let url = Url::read(text).expect(text);
            assert_eq!(
                (url.authority.as_str(), url.path.as_str(), url.folder().as_str()),
                (authority, path, folder)
            );
        }
        assert_eq!(
            Url::read("[::1]")
                .expect("fine")
                .resolve()
                .expect("an address")
                .port(),
            80
        );
        for (text, fragment) in [
            ("https://h/", "TLS"),
            ("ftp://h/", "no http URL"),
            ("http:///x", "looks like"),
            ("http://h/a b", "looks like"),
        ] {
            let error = Url::read(text).expect_err(text).to_string();
            assert!(error.contains(fragment), "{error}");
        }
    }
}
