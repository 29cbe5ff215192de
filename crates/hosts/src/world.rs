//! One simulation: users or clients of a workload, the network, and a server on its host, in virtual time.
//!
//! The users are [`load::crew::Crew`], which `weir load` drives over sockets. Their processors cost nothing unless
//! `client_processors` is set: only the server's host binds, or the network. Both ends have the TCP of the host.

use crate::costs::ClientCosts;
use crate::parameters::{ServerKind, Values, hosts};
use crate::processors::{Spent, Task};
use crate::requests::Protocol;
use crate::station::{Counts, Station};
use client::plan::Mode;
use client::session::{Ending, Version};
use load::crew::{Crew, Model, Setup, Sharing};
use load::plan::{Layout, Population};
use load::record::Record;
use load::replies::Accept;
use load::request_source::{RequestSource, Step};
use load::surge::Surge;
use load::webstone::List;
use load::work::{Target, Work};
use netsim::{Application, Dialing, Effort, Happened, HostSetup, Tally, World};
use runtime::session::Service;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use tcp::Stack;
use units::{Bytes, Draw, Duration, Instant, Seed};

/// Time between the starts of two users, as in the original Surge.
const STAGGER: Duration = Duration::from_millis(50);
/// How long requests may take after the end.
const GRACE: Duration = Duration::from_secs(5);
/// Files that the users of one simulation may request.
const STEPS_MAX: usize = 1_000_000;
/// Requests that a user of HTTP/2 may have outstanding, as in `weir load`.
const STREAMS_MAX: u32 = 100;
/// Largest size of a window that is counted apart, in segments, in [`Outcome::windows_up_to`].
const WINDOW_MAX: usize = 64;

/// What is requested.
#[derive(Clone)]
pub enum Workload {
    /// Objects of a Surge site.
    Surge(Arc<Surge>),
    /// Files of a WebStone list by weight.
    Webstone(List),
}

impl Workload {
    /// Files and objects, with paths from the root.
    pub fn work(&self) -> Work {
        match self {
            Workload::Surge(surge) => Work::of_surge(surge, "/"),
            Workload::Webstone(list) => {
                let target = |file: &load::webstone::Listed| Target {
                    path: format!("/{}", file.path).into(),
                    bytes: Some(file.size.0),
                    class: None,
                    xxh3: None,
                };
                Work {
                    files: list.files().iter().map(target).collect(),
                    objects: (0..list.files().len() as u32).map(|file| [file].into()).collect(),
                    deciles: Vec::new(),
                }
            }
        }
    }
}

/// Who requests it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Surge users, who sleep between objects.
    Users(u32),
    /// Clients without think time.
    Clients(u32),
}

/// A simulation to run.
#[derive(Clone)]
pub struct Scenario {
    /// The server.
    pub server: &'static ServerKind,
    /// Its parameters and its host's.
    pub values: Values,
    /// What is requested.
    pub workload: Workload,
    /// By whom.
    pub who: Who,
    /// How users use connections. With HTTP/2, without TLS, each user has one.
    pub mode: Mode,
    /// Connections of a user; ignored with HTTP/2.
    pub lanes: u32,
    /// Time before measuring begins.
    pub warmup: Duration,
    /// Measured time.
    pub duration: Duration,
    /// Seed of users, timer phases and sequence numbers.
    pub seed: Seed,
}

/// Results of a simulation, of its measured time.
pub struct Outcome {
    /// The users' record.
    pub record: Record,
    /// Measured time.
    pub duration: Duration,
    /// What was requested and made, warm-up included.
    pub counts: Counts,
    /// Processor time of the server's host by task.
    pub spent: Spent,
    /// Processors of the server's host.
    pub processors: usize,
    /// Context switches.
    pub switches: u64,
    /// Requests to the disk, and its time in service.
    pub disk: (u64, Duration),
    /// Sent by the clients and by the server.
    pub sent: [Tally; 2],
    /// Congestion windows of the server's connections, each second: how many of at most 1, 2, … segments, and larger.
    windows: Vec<u64>,
    window_sum: f64,
    /// The largest of them, in segments.
    pub window_max: f64,
    /// Memory of the connections and of cached files at the end, in bytes.
    pub memory: (u64, u64),
}

impl Outcome {
    /// Files a second.
    pub fn files_per_s(&self) -> f64 {
        self.record.files_in_time as f64 / self.duration.as_secs_f64()
    }

    /// Share of the processors' time that nothing used, from 0 to 1.
    pub fn idle(&self) -> f64 {
        let all = self.duration.as_secs_f64() * self.processors as f64;
        (1.0 - self.spent.all().as_secs_f64() / all).max(0.0)
    }

    /// Share of the used processor time for a task, from 0 to 1.
    pub fn share(&self, task: Task) -> f64 {
        self.spent.on(task).as_secs_f64() / self.spent.all().as_secs_f64().max(1e-12)
    }

    /// Mean congestion window in segments.
    pub fn window_mean(&self) -> f64 {
        self.window_sum / self.windows.iter().sum::<u64>().max(1) as f64
    }

    /// Share of congestion windows of at most so many segments.
    pub fn windows_up_to(&self) -> Vec<(usize, f64)> {
        let all = self.windows.iter().sum::<u64>().max(1) as f64;
        let mut sum = 0;
        let counted = self.windows.iter().take(WINDOW_MAX).enumerate();
        counted
            .map(|(size, number)| {
                sum += number;
                (size + 1, sum as f64 / all)
            })
            .collect()
    }
}

/// Access to a station inside a world.
struct Shared<V: Service>(Rc<RefCell<Station<V>>>);

impl<V: Service> Application for Shared<V> {
    fn handle(&mut self, happened: Happened, work: &mut netsim::Work, now: Instant) {
        self.0.borrow_mut().handle(happened, work, now);
    }
}

/// Runs a simulation with the sessions of `service`, which has the workload's files.
///
/// # Errors
/// The preset or the number of requests that is impossible.
pub fn run<V: Service + 'static>(scenario: &Scenario, service: V) -> Result<Outcome, String> {
    let values = &scenario.values;
    let kind = hosts().iter().find(|host| host.name == scenario.server.host);
    let kind = kind.ok_or_else(|| format!("no host `{}`", scenario.server.host))?;
    let mut stack = Stack::preset(&kind.tcp).ok_or_else(|| format!("no stack `{}`", kind.tcp))?;
    stack.delayed_ack = values.micros("delayed_ack_ms") * 1000;
    if values.get("idle_restart") == 0.0 {
        stack.idle_restart = tcp::IdleRestart::Keep;
    }
    if values.get("rto_min_ms") > 0.0 {
        stack.rto_min = values.micros("rto_min_ms") * 1000;
    }
    stack.send_buffer = Bytes(values.kib("buffer_kb"));
    stack.recv_buffer = Bytes(values.kib("buffer_kb").min(65_535));
    let line = format!("rate={}M {}", values.get("line_mbit"), kind.link);
    let profile = link::Profile::parse(&line, &link::Limits::default(), &mut |_| Err(String::new()))
        .map_err(|error| error.to_string())?;
    let mut rng = scenario.seed.rng();
    let mut host = || HostSetup {
        tcp: tcp::Setup {
            phase: Duration::from_micros(rng.next_u64() % 200_000),
            mss: values.get("mss") as u16,
            no_delay: true,
            limits: tcp::Limits {
                // A world has few port numbers; ends in TIME_WAIT cost nothing here.
                time_wait: Duration::from_secs(1),
                ..tcp::Limits::default()
            },
            ..tcp::Setup::new(stack.clone(), 0)
        },
        read_time: Duration::ZERO,
        read_max: 65_536,
        line_gain: 1.0,
    };
    let (client, server) = (host(), host());
    let work = Arc::new(scenario.workload.work());
    let model = model(scenario)?;
    let setup = setup(scenario, Arc::clone(&work));
    let crew = Rc::new(RefCell::new(Crew::new(setup, model, Arc::default())));
    let files = work
        .files
        .iter()
        .map(|file| (file.path.clone(), file.bytes.unwrap_or(0)));
    let protocol = match scenario.mode {
        Mode::Http2 => Protocol::Http2,
        _ => Protocol::Http1,
    };
    let concurrency = scenario.server.concurrency;
    let mut station = Station::new(service, concurrency, protocol, values, files);
    if matches!(scenario.workload, Workload::Webstone(_)) {
        // As document 002 says of its runs.
        station.preload();
    }
    let station = Rc::new(RefCell::new(station));
    let limits = netsim::Limits {
        log_max: 0,
        ..netsim::Limits::default()
    };
    let mut world = World::new(
        &profile,
        (client, Box::new(dialing(scenario, Rc::clone(&crew)))),
        (server, Box::new(Shared(Rc::clone(&station)))),
        Seed(rng.next_u64()),
        limits,
    );
    world.run(Instant::ZERO + scenario.warmup);
    let (sent, spent, switches, disk) = {
        let station = station.borrow();
        let disk = (station.disk.reads, station.disk.busy);
        (
            world.tallies(),
            station.processors.spent,
            station.processors.switches,
            disk,
        )
    };
    let mut windows = vec![0; WINDOW_MAX + 1];
    let (mut window_sum, mut window_max) = (0.0, 0.0_f64);
    for second in 1..=scenario.duration.as_secs() {
        world.run(Instant::ZERO + scenario.warmup + Duration::from_secs(second));
        for window in world.server_windows() {
            windows[(window.ceil() as usize).clamp(1, WINDOW_MAX + 1) - 1] += 1;
            window_sum += window;
            window_max = window_max.max(window);
        }
    }
    let end = Instant::ZERO + scenario.warmup + scenario.duration;
    world.run(end);
    let now = world.tallies();
    let mut outcome = {
        let station = station.borrow();
        Outcome {
            record: Record::default(),
            duration: scenario.duration,
            counts: station.counts,
            spent: station.processors.spent.since(&spent),
            processors: values.get("processors") as usize,
            switches: station.processors.switches - switches,
            disk: (
                station.disk.reads - disk.0,
                station.disk.busy.saturating_sub(disk.1),
            ),
            sent: [now[0].since(&sent[0]), now[1].since(&sent[1])],
            windows,
            window_sum,
            window_max,
            memory: (station.memory.own(), station.memory.cached()),
        }
    };
    world.run(end + GRACE + Duration::from_secs(1));
    let until = world.now();
    drop(world);
    let crew = Rc::into_inner(crew).expect("the world, which held the other handle, was dropped");
    outcome.record = crew.into_inner().into_record(until);
    Ok(outcome)
}

/// The users on their hosts.
fn dialing(scenario: &Scenario, crew: Rc<RefCell<Crew>>) -> Dialing<Crew> {
    let (Who::Users(users) | Who::Clients(users)) = scenario.who;
    match ClientCosts::new(&scenario.values, users) {
        Some(costs) => Dialing::priced(
            crew,
            Box::new(move |_: &Crew, effort: Effort<'_>| costs.price(effort)),
        ),
        None => Dialing::new(crew, Duration::ZERO),
    }
}

fn setup(scenario: &Scenario, work: Arc<Work>) -> Setup {
    let version = match scenario.mode {
        Mode::Http10 => Version::Http10,
        _ => Version::Http11,
    };
    let span = scenario.warmup + scenario.duration;
    let is_shared = scenario.mode == Mode::Http2;
    let sharing = is_shared.then(|| {
        Arc::new(Sharing {
            streams_max: STREAMS_MAX as usize,
            users: 1,
            scheme: "http",
            authority: "server".to_owned(),
            fields: vec![("user-agent".to_owned(), "SURGE".to_owned())],
            content: None,
        })
    });
    // A line for each request that a user may have outstanding, as `weir load` has.
    let widest = work.objects.iter().map(|files| files.len().saturating_sub(1));
    let widest = u32::try_from(widest.max().unwrap_or(0)).unwrap_or(u32::MAX);
    let lanes = match is_shared {
        true => widest.clamp(1, STREAMS_MAX),
        false => scenario.lanes,
    };
    Setup {
        work,
        mode: scenario.mode,
        ending: Arc::new(Ending::new(version, "server", "SURGE")),
        accept: Accept::default(),
        lengths: true,
        warmup: scenario.warmup,
        duration: span,
        counted: span,
        grace: GRACE,
        timeout: Duration::from_secs(600),
        verify: false,
        unseen_from: u64::MAX,
        lanes,
        sharing,
        secured: false,
        script: None,
        started: 0,
    }
}

/// The users with their requests.
fn model(scenario: &Scenario) -> Result<Model, String> {
    match (scenario.who, &scenario.workload) {
        (Who::Clients(number), Workload::Webstone(list)) => {
            let client = |client| {
                let choices = list.choices(scenario.seed, client);
                (Duration::ZERO, RequestSource::Weighted(choices))
            };
            Ok(Model::Closed((0..number).map(client).collect()))
        }
        (Who::Clients(number), Workload::Surge(surge)) => {
            let order: Arc<[u32]> = surge.sequence().collect();
            let client = |client| {
                let source = RequestSource::Turn {
                    next: client as usize % order.len(),
                    stride: number as usize % order.len(),
                    order: Arc::clone(&order),
                };
                (Duration::ZERO, source)
            };
            Ok(Model::Closed((0..number).map(client).collect()))
        }
        (Who::Users(number), Workload::Surge(surge)) => users(scenario, number, surge),
        (Who::Users(_), Workload::Webstone(_)) => Err("WebStone has clients, not users".to_owned()),
    }
}

fn users(scenario: &Scenario, number: u32, surge: &Surge) -> Result<Model, String> {
    let layout = Layout {
        who: Population::Users {
            number,
            stagger: STAGGER.min(scenario.warmup / number.max(1)),
        },
        duration: scenario.warmup + scenario.duration,
        nominal: Duration::ZERO,
        size: 1,
        seed: scenario.seed,
    };
    let mut scripts: BTreeMap<u32, (Duration, Vec<Step>)> = BTreeMap::new();
    for (steps, request) in load::plan::plan(surge, layout).enumerate() {
        if steps >= STEPS_MAX {
            return Err(format!(
                "more than {STEPS_MAX} requests: use fewer users or a shorter run"
            ));
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
    let user = |(start, steps): (Duration, Vec<Step>)| {
        let steps = steps.into();
        (start, RequestSource::Script { steps, next: 0 })
    };
    Ok(Model::Closed(scripts.into_values().map(user).collect()))
}

#[cfg(test)]
mod tests;
